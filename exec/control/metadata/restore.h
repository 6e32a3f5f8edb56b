/* What a restarted control plane tells its core, in the order that the core needs: cohorts before their tenants, tenants and bases
 * before jobs. As of one moment, whatever is written meanwhile. */
#ifndef METADATA_RESTORE_H
#define METADATA_RESTORE_H

#include "control/metadata/job.h"
#include "control/metadata/model.h"
#include "control/metadata/tenant.h"

enum meta_restored {
    META_RESTORED_COHORT,  /* by number */
    META_RESTORED_TENANT,  /* not deleted, by number */
    META_RESTORED_USAGE,   /* of those: share_usage as of share_at_ms, where it isn't 0 */
    META_RESTORED_BASE,    /* not retired, by number */
    META_RESTORED_JOB,     /* not finished, by number: the order in which they came */
    META_RESTORED_WORKER,  /* that lived when we stopped; a later inventory says whether it still does */
    META_RESTORED_BALANCE, /* of each account, by name */
};
struct meta_restore {
    enum meta_restored kind;
    union {
        struct {
            const char *name;
            int64_t number;
        } cohort;
        struct {
            const char *account;
            int64_t nano;
        } balance;
        const struct meta_tenant *tenant; /* and USAGE */
        const struct meta_base *base;
        const struct meta_job *job;
        const struct meta_worker *worker;
    };
};
/* False ends it; the item lives until the call returns. */
typedef bool meta_restore_visit(void *context, const struct meta_restore *item);
enum status meta_restore(struct metadata *metadata, meta_restore_visit *visit, void *context, struct refusal *refusal);

#endif
