/* Tenants and what they may have. */
#ifndef METADATA_TENANT_H
#define METADATA_TENANT_H

#include "control/metadata/metadata.h"

/* name, least, most, default, about; -1 where it stands is "no limit". Quotas are in thousandths of a GPU. */
#define META_TENANT_SETTINGS(X)                                                                                                  \
    X(weight_milli, 1, 1000000, 1000, "share of what is contended, in thousandths")                                             \
    X(nominal_milli, 0, 1000000000, 0, "GPUs of its own, in thousandths")                                                       \
    X(borrowing_milli, -1, 1000000000, -1, "GPUs it may borrow from its cohort, in thousandths; -1: no limit")                  \
    X(lending_milli, -1, 1000000000, -1, "GPUs of its own that others may use, in thousandths; -1: all")                        \
    X(priority, -1000, 1000, 0, "of its jobs; higher goes first, whatever the shares say")                                      \
    X(trusted, 0, 1, 0, "1: may share a GPU with other trusted tenants (MPS)")                                                  \
    X(jobs_max, 0, 100000, 100, "jobs that are not finished")                                                                    \
    X(files_max, 0, 10000000, 10000, "files")                                                                                    \
    X(stored_bytes_max, 0, 1000000000000000, 100000000000, "bytes in the store")                                                \
    X(requests_per_min_max, 0, 100000000, 6000, "requests a minute")                                                            \
    X(tokens_per_min_max, 0, 1000000000000, 10000000, "tokens a minute")

#define META_TENANT_FIELDS(X)                                                                                            \
    X(TEXT, id) X(INT, number) X(TEXT, slug) X(TEXT, state) X(INT, created_at_ms) X(TEXT, cohort) X(TEXT, isolation)     \
    X(TEXT, consent) X(INT, weight_milli) X(INT, nominal_milli) X(INT, borrowing_milli) X(INT, lending_milli)            \
    X(INT, priority) X(INT, trusted) X(INT, jobs_max) X(INT, files_max) X(INT, stored_bytes_max)                         \
    X(INT, requests_per_min_max) X(INT, tokens_per_min_max) X(INT, share_usage) X(INT, share_at_ms)

struct meta_tenant {
    META_TENANT_FIELDS(META_FIELD)
};

/* 1 to 39 of a-z, 0-9, '-', neither first nor last a '-': it stands in names of models. */
bool meta_slug_is_valid(const char *slug);

/* Taken slugs stay taken: STATUS_CONFLICT. */
enum status meta_tenant_add(struct metadata *metadata, const char *slug, int64_t now_ms, char ret_id[NAME_BYTES],
                            struct refusal *refusal);
enum status meta_tenant_get(struct metadata *metadata, const char *id, struct meta_results *results, struct meta_tenant *ret_tenant,
                            struct refusal *refusal);
/* By its slug. */
enum status meta_tenant_find(struct metadata *metadata, const char *slug, struct meta_results *results,
                             struct meta_tenant *ret_tenant, struct refusal *refusal);
/* Oldest first; `after`: a number, 0 at first. */
enum status meta_tenant_list(struct metadata *metadata, int64_t after, uint32_t limit, struct meta_results *results,
                             struct meta_tenant **ret_tenants, uint32_t *ret_count, bool *ret_more, struct refusal *refusal);
/* One setting: a number of META_TENANT_SETTINGS, or "cohort", "isolation", "consent". A refusal names what may be set. */
enum status meta_tenant_set(struct metadata *metadata, const char *id, const char *name, const char *value, struct refusal *refusal);
/* active to suspended and back, either to deleting, deleting to deleted; STATUS_CONFLICT when it isn't in `from`. */
enum status meta_tenant_move(struct metadata *metadata, const char *id, const char *from, const char *to, struct refusal *refusal);
/* What the core's fair share remembers of it: share_usage, device time in milliseconds that counts half after each of these, as of share_at_ms.
 * Adds what was used until `now_ms`; a clock that was set back decays nothing. */
#define META_SHARE_HALF_LIFE_MS (INT64_C(24) * 3600 * 1000)
enum status meta_tenant_used(struct metadata *metadata, const char *id, int64_t gpu_ms, int64_t now_ms, struct refusal *refusal);

#endif
