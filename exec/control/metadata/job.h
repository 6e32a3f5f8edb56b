/* Jobs: states, attempts, events, checkpoints. Every move names the state and the attempt that it is made from; when the job is no
 * longer there, STATUS_CONFLICT: the race is lost and the effect must be dropped. A worker's row is one attempt; there is at most
 * one live for a job or a file. */
#ifndef METADATA_JOB_H
#define METADATA_JOB_H

#include "control/metadata/metadata.h"

#define META_JOB_STATES(X)                                                                                             \
    X(VALIDATING, "validating") X(QUEUED, "queued") X(STARTING, "starting") X(RUNNING, "running") X(STOPPING, "stopping") \
    X(PAUSED, "paused") X(EVALUATING, "evaluating") X(SUCCEEDED, "succeeded") X(FAILED, "failed") X(CANCELLED, "cancelled")
enum meta_job_state {
#define X(name, text) META_JOB_##name,
    META_JOB_STATES(X)
#undef X
    META_JOB_STATES_COUNT
};
/* META_JOB_STATES_COUNT: no target. */
#define META_JOB_NO_TARGET META_JOB_STATES_COUNT
const char *meta_job_state_text(enum meta_job_state state);
/* META_JOB_STATES_COUNT for what is no state, or NULL. */
enum meta_job_state meta_job_state_parse(const char *text);

#define META_JOB_FIELDS(X)                                                                                                       \
    X(TEXT, id) X(INT, number) X(TEXT, tenant) X(TEXT, base) X(TEXT, parent) X(TEXT, file) X(TEXT, validation) X(TEXT, settings) \
    X(TEXT, state) X(TEXT, target) X(INT, attempt) X(INT, crashes) X(INT, crash_step) X(TEXT, reason) X(INT, gpu_ms)             \
    X(INT, trained_tokens) X(INT, size_ns) X(INT, done_ns) X(INT, gpu_bytes) X(INT, gpus) X(INT, rank) X(BLOB, sealed)           \
    X(INT, created_at_ms) X(INT, finished_at_ms)
struct meta_job {
    META_JOB_FIELDS(META_FIELD)
};

struct meta_job_new {
    const char *tenant;
    const char *id;         /* meta_id("ftjob-") */
    const char *base;       /* that is served or deprecated */
    const char *parent;     /* a live model of the tenant's on that base, or NULL */
    const char *file;       /* not deleted, nor in error */
    const char *validation; /* the same, or NULL */
    const char *settings;   /* JSON, checked by the caller */
    struct meta_bytes sealed;
};
/* Begins as validating, attempt 0. STATUS_FULL: jobs_max. */
enum status meta_job_add(struct metadata *metadata, const struct meta_job_new *job, int64_t now_ms, struct refusal *refusal);
enum status meta_job_get(struct metadata *metadata, const char *tenant, const char *id, struct meta_results *results,
                         struct meta_job *ret_job, struct refusal *refusal);
/* Whose it is, for who finds a worker of it. */
enum status meta_job_tenant(struct metadata *metadata, const char *id, char ret_tenant[NAME_BYTES], struct refusal *refusal);
enum status meta_job_list(struct metadata *metadata, const char *tenant, const struct meta_page *page, struct meta_results *results,
                          struct meta_job **ret_jobs, uint32_t *ret_count, bool *ret_more, struct refusal *refusal);
/* Of all tenants, oldest first: not finished; `after`: a number, 0 at first. */
enum status meta_job_open(struct metadata *metadata, int64_t after, uint32_t limit, struct meta_results *results,
                          struct meta_job **ret_jobs, uint32_t *ret_count, bool *ret_more, struct refusal *refusal);
/* Of all tenants: how many are in each state, of those that are not finished. */
enum status meta_job_counts(struct metadata *metadata, int64_t ret_counts[META_JOB_STATES_COUNT], struct refusal *refusal);
/* What the core is told of it, known once its file is: while it is validating. */
struct meta_job_size {
    int64_t size_ns;
    int64_t gpu_bytes;
    int64_t gpus;
    int64_t rank;
    const char *settings; /* with numbers where "auto" stood; NULL: as they are */
};
enum status meta_job_sized(struct metadata *metadata, const char *tenant, const char *id, const struct meta_job_size *size,
                           struct refusal *refusal);

/* --- moves --- */

struct meta_worker_new {
    const char *id;        /* meta_id("worker-") */
    const char *kind;      /* validator, trainer, evaluator, server, holder */
    const char *placement; /* JSON: node, devices */
};
struct meta_job_move {
    const char *tenant;
    const char *id;
    enum meta_job_state from;
    int64_t attempt; /* that it is made from */
    enum meta_job_state to;
    enum meta_job_state target;           /* of STOPPING; PAUSED of VALIDATING: once it is valid; META_JOB_NO_TARGET otherwise */
    const struct meta_worker_new *worker; /* of STARTING, whose attempt it is */
    const char *reason;                   /* a code; kept when the job ends */
    int64_t crash_step;                   /* the job's own crash, at this step; META_NONE: none, or the platform's doing */
    int64_t gpu_ms;                       /* used since the last move */
};
/* Whether the table of states knows this move; the row decides whether it is made. `target`: see above. */
bool meta_job_may(enum meta_job_state from, enum meta_job_state to, enum meta_job_state target);
/* To STARTING and to EVALUATING the attempt goes up by one, whose number is `ret_attempt` (else the same; may be NULL).
 * STATUS_CONFLICT for STARTING also while a worker of the job lives. */
enum status meta_job_move(struct metadata *metadata, const struct meta_job_move *move, int64_t now_ms, int64_t *ret_attempt,
                          struct refusal *refusal);
/* Durable work, of the attempt that lives: running or stopping. */
enum status meta_job_progress(struct metadata *metadata, const char *tenant, const char *id, int64_t attempt, int64_t done_ns,
                              int64_t trained_tokens, struct refusal *refusal);

/* --- workers --- */

#define META_WORKER_FIELDS(X)                                                                                             \
    X(TEXT, id) X(TEXT, kind) X(TEXT, subject) X(INT, attempt) X(TEXT, placement) X(INT, acked_seq) X(INT, started_at_ms) \
    X(INT, ended_at_ms) X(TEXT, how)
struct meta_worker {
    META_WORKER_FIELDS(META_FIELD)
};
/* A trainer or evaluator of the job's attempt as it stands. STATUS_CONFLICT: another attempt, or one lives. (Trainers come
 * with the move to STARTING.) */
enum status meta_worker_for_job(struct metadata *metadata, const struct meta_worker_new *worker, const char *tenant, const char *job,
                                int64_t attempt, int64_t now_ms, struct refusal *refusal);
/* A validator of a file that is uploaded; attempts of a file count from 1. */
enum status meta_worker_for_file(struct metadata *metadata, const struct meta_worker_new *worker, const char *tenant,
                                 const char *file, int64_t now_ms, int64_t *ret_attempt, struct refusal *refusal);
/* A validator of a job's files, while it is validating: its attempts are -1, -2, ...; the job's own number stays. */
enum status meta_worker_for_check(struct metadata *metadata, const struct meta_worker_new *worker, const char *tenant, const char *job,
                                  int64_t now_ms, int64_t *ret_attempt, struct refusal *refusal);
/* A validator of an object that is being made ready: a stranger's adapter. There is one attempt, 1. */
enum status meta_worker_for_object(struct metadata *metadata, const struct meta_worker_new *worker, const char *tenant, const char *object,
                                   int64_t now_ms, struct refusal *refusal);
/* A server or a holder. */
enum status meta_worker_add(struct metadata *metadata, const struct meta_worker_new *worker, int64_t now_ms, struct refusal *refusal);
/* Reaped, or its lease and margin are over: once. `how`: a code. */
enum status meta_worker_ended(struct metadata *metadata, const char *id, const char *how, int64_t now_ms, struct refusal *refusal);
/* Its row, ended or not. */
enum status meta_worker_get(struct metadata *metadata, const char *id, struct meta_results *results, struct meta_worker *ret_worker,
                            struct refusal *refusal);
/* All that it must tell is on disk up to this number, or a higher one from before: in the transaction that puts it there, and before it is
 * told so. STATUS_NOT_FOUND: no such worker. */
enum status meta_worker_ack(struct metadata *metadata, const char *id, int64_t seq, struct refusal *refusal);
/* How many workers of a job or file ended so. */
enum status meta_worker_count(struct metadata *metadata, const char *subject, const char *how, int64_t *ret_count,
                              struct refusal *refusal);
/* Those that live, in order of ids; `after`: an id, "" at first. */
enum status meta_worker_list(struct metadata *metadata, const char *after, uint32_t limit, struct meta_results *results,
                             struct meta_worker **ret_workers, uint32_t *ret_count, bool *ret_more, struct refusal *refusal);

/* --- events and checkpoints --- */

#define META_EVENT_FIELDS(X) X(INT, n) X(INT, at_ms) X(TEXT, level) X(TEXT, code) X(TEXT, metrics) X(BLOB, sealed)
struct meta_event {
    META_EVENT_FIELDS(META_FIELD)
};
/* Numbered from 1 in each job. `metrics`: JSON or NULL. */
enum status meta_event_add(struct metadata *metadata, const char *tenant, const char *job, const char *level, const char *code,
                           const char *metrics, struct meta_bytes sealed, int64_t now_ms, int64_t *ret_n, struct refusal *refusal);
/* Newest first; `before`: a number, INT64_MAX at first. STATUS_NOT_FOUND: no such job. */
enum status meta_event_list(struct metadata *metadata, const char *tenant, const char *job, int64_t before, uint32_t limit,
                            struct meta_results *results, struct meta_event **ret_events, uint32_t *ret_count, bool *ret_more,
                            struct refusal *refusal);

#define META_CHECKPOINT_FIELDS(X)                                                                                        \
    X(TEXT, id) X(TEXT, job) X(INT, step) X(INT, attempt) X(TEXT, object) X(TEXT, metrics) X(INT, created_at_ms)
struct meta_checkpoint {
    META_CHECKPOINT_FIELDS(META_FIELD)
};
/* Of the attempt that lives, in a live object. The same step of an earlier attempt gives way to it, its object doomed; said twice by
 * the same attempt it is kept once. STATUS_CONFLICT: an attempt that is over. */
enum status meta_checkpoint_add(struct metadata *metadata, const char *tenant, const char *job, int64_t attempt, int64_t step,
                                const char *object, const char *metrics, int64_t now_ms, struct refusal *refusal);
/* Those of earlier steps stay as rows; their objects are doomed. */
enum status meta_checkpoint_prune(struct metadata *metadata, const char *tenant, const char *job, int64_t before_step,
                                  struct refusal *refusal);
/* Newest first; `before`: a step, INT64_MAX at first. */
enum status meta_checkpoint_list(struct metadata *metadata, const char *tenant, const char *job, int64_t before, uint32_t limit,
                                 struct meta_results *results, struct meta_checkpoint **ret_checkpoints, uint32_t *ret_count,
                                 bool *ret_more, struct refusal *refusal);

#endif
