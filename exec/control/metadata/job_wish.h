/* What an owner or an operator wants of a job, from whatever state it is in. */
#ifndef METADATA_JOB_WISH_H
#define METADATA_JOB_WISH_H

#include "control/metadata/job.h"

/* Name, what the audit log calls it, its event. */
#define META_JOB_WISHES(X) X(CANCEL, "job.cancel", "cancelled") X(PAUSE, "job.pause", "paused") X(RESUME, "job.resume", "resumed")
enum meta_job_wish {
#define X(name, act, event) META_JOB_##name,
    META_JOB_WISHES(X)
#undef X
};

struct meta_job_wished {
    bool was_so;    /* already: nothing was done */
    char state[16]; /* that it was in */
};
/* The move, its event and an entry of the audit log by `actor`. STATUS_INVALID: the job is past that. STATUS_CONFLICT: it is being
 * cancelled. Whoever drives jobs is to be told. */
enum status meta_job_ask(struct metadata *metadata, const char *tenant, const char *id, enum meta_job_wish wish, const char *actor,
                         int64_t now_ms, struct meta_job_wished *ret_wished, struct refusal *refusal);

#endif
