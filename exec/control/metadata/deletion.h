/* What a tenant asked to be destroyed, step by step: asked, unlisted (no name leads there), drained (nothing that runs holds it),
 * shredded (its keys are gone), certified (with a certificate). */
#ifndef METADATA_DELETION_H
#define METADATA_DELETION_H

#include "control/metadata/metadata.h"

#define META_DELETION_STATES(X) X(asked) X(unlisted) X(drained) X(shredded) X(certified)
#define META_DELETION_FIELDS(X) \
    X(TEXT, id) X(INT, number) X(TEXT, tenant) X(TEXT, root) X(TEXT, state) X(INT, asked_at_ms) X(TEXT, certificate)
struct meta_deletion {
    META_DELETION_FIELDS(META_FIELD)
};

/* `root`: a file's, model's, job's or the tenant's own id; what follows from it is the caller's to walk. */
enum status meta_deletion_add(struct metadata *metadata, const char *tenant, const char *root, int64_t now_ms, char ret_id[NAME_BYTES],
                              struct refusal *refusal);
enum status meta_deletion_get(struct metadata *metadata, const char *tenant, const char *id, struct meta_results *results,
                              struct meta_deletion *ret_deletion, struct refusal *refusal);
/* To the next state. `certificate`: JSON, for certified alone. STATUS_CONFLICT: it isn't in `from` any more. */
enum status meta_deletion_move(struct metadata *metadata, const char *tenant, const char *id, const char *from,
                               const char *certificate, struct refusal *refusal);
/* Of all tenants: those not certified yet, oldest first; `after`: a number, 0 at first. */
enum status meta_deletion_open(struct metadata *metadata, int64_t after, uint32_t limit, struct meta_results *results,
                               struct meta_deletion **ret_deletions, uint32_t *ret_count, bool *ret_more, struct refusal *refusal);

#endif
