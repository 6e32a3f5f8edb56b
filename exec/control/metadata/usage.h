/* What was used and what it costs. A server numbers what it must tell and keeps it until it is acked, which is after the commit; so a
 * usage record comes once or more, and counts once. */
#ifndef METADATA_USAGE_H
#define METADATA_USAGE_H

#include "control/metadata/metadata.h"

struct meta_usage {
    int64_t seq; /* its frame's: from 1, rising; other frames have the numbers between */
    const char *tenant;
    const char *model;
    int64_t hour; /* since 1970 */
    int64_t tokens_in;
    int64_t tokens_out;
};
/* All of them or none: those up to the worker's acked_seq were counted before and are passed over. The worker's acked_seq becomes that of
 * the last one, unless it was higher. STATUS_INVALID: numbers that don't rise, or no such worker or tenant. */
enum status meta_usage_add(struct metadata *metadata, const char *worker, const struct meta_usage *records, uint32_t count,
                           int64_t *ret_acked, struct refusal *refusal);

#define META_USAGE_SUM_FIELDS(X)                                                                         \
    X(TEXT, model) X(INT, hour) X(INT, records) X(INT, tokens_in) X(INT, tokens_out) X(INT, jobs)       \
    X(INT, trained_tokens) X(INT, gpu_ms)
struct meta_usage_sum {
    META_USAGE_SUM_FIELDS(META_FIELD)
};
/* By model and hour, from_hour <= hour < until_hour, in that order: answers, and under a base's name the jobs that trained on it and ended then,
 * with all that they used since they began. */
enum status meta_usage_sums(struct metadata *metadata, const char *tenant, int64_t from_hour, int64_t until_hour, uint32_t limit,
                            struct meta_results *results, struct meta_usage_sum **ret_sums, uint32_t *ret_count, bool *ret_more,
                            struct refusal *refusal);

/* One life of the core's clock: opened at start, named by every charge. `ret_n` from 1. */
struct meta_epoch {
    int64_t n;
    int64_t first_at_ns;
    int64_t charged_to_ns;
};
enum status meta_epoch_open(struct metadata *metadata, const char *boot_id, int64_t first_at_ns, const char *config, int64_t now_ms,
                            int64_t *ret_n, struct refusal *refusal);
/* The newest. STATUS_NOT_FOUND: the first start. */
enum status meta_epoch_last(struct metadata *metadata, struct meta_epoch *ret_epoch, struct refusal *refusal);

struct meta_charge {
    int64_t epoch;
    int64_t command; /* the core's; with `part`, a charge's name */
    int64_t part;
    const char *account; /* a tenant's id, or "platform" */
    const char *device;
    int64_t from_ns;
    int64_t to_ns;
    int64_t nano;
};
/* All or none; one that is there already counts once. The epoch is charged up to the latest `to_ns`. */
enum status meta_charge_add(struct metadata *metadata, const struct meta_charge *charges, uint32_t count, struct refusal *refusal);
/* 0 for an account without charges. */
enum status meta_charge_sum(struct metadata *metadata, const char *account, int64_t *ret_nano, struct refusal *refusal);

#endif
