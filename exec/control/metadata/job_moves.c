/* Which state leads where. One statement makes every move: it names the state, the attempt and, while stopping, the target that the
 * job must have, so that of two who race one changes a row and the other none. */
#include "control/metadata/rows.h"
#include "control/metadata/tenant.h"

#define TO(state) (1u << META_JOB_##state)

static const uint32_t may[META_JOB_STATES_COUNT] = {
    [META_JOB_VALIDATING] = TO(VALIDATING) | TO(QUEUED) | TO(PAUSED) | TO(SUCCEEDED) | TO(CANCELLED) | TO(FAILED), /* succeeded: a dry run */
    [META_JOB_QUEUED] = TO(STARTING) | TO(PAUSED) | TO(CANCELLED) | TO(FAILED),
    [META_JOB_STARTING] = TO(RUNNING) | TO(QUEUED) | TO(STOPPING) | TO(FAILED),
    [META_JOB_RUNNING] = TO(EVALUATING) | TO(STOPPING) | TO(QUEUED) | TO(FAILED),
    [META_JOB_STOPPING] = TO(STOPPING) | TO(QUEUED) | TO(PAUSED) | TO(CANCELLED) | TO(EVALUATING) | TO(FAILED),
    [META_JOB_PAUSED] = TO(QUEUED) | TO(CANCELLED),
    [META_JOB_EVALUATING] = TO(EVALUATING) | TO(SUCCEEDED) | TO(CANCELLED) | TO(FAILED),
};

bool meta_job_may(enum meta_job_state from, enum meta_job_state to, enum meta_job_state target)
{
    if ((unsigned)from >= META_JOB_STATES_COUNT || (unsigned)to >= META_JOB_STATES_COUNT || (may[from] & 1u << to) == 0)
        return false;
    if (to == META_JOB_STOPPING)
        return target == META_JOB_QUEUED || target == META_JOB_PAUSED || target == META_JOB_CANCELLED;
    return target == META_JOB_NO_TARGET || (to == META_JOB_VALIDATING && target == META_JOB_PAUSED);
}

/* The target that the row must have, beside state and attempt. */
static const char *target_condition(enum meta_job_state from, enum meta_job_state to)
{
    if (from == META_JOB_VALIDATING && to == META_JOB_QUEUED)
        return "none";
    if (from == META_JOB_VALIDATING && to == META_JOB_PAUSED)
        return "paused";
    if (from != META_JOB_STOPPING || to == META_JOB_FAILED)
        return "any";
    /* What was cancelled stays cancelled, whatever is asked for later. */
    if (to == META_JOB_STOPPING)
        return "not cancelled";
    return to == META_JOB_EVALUATING ? "queued" : meta_job_state_text(to);
}

static enum status move_row(struct metadata *metadata, const struct meta_job_move *move, int64_t now_ms, struct refusal *refusal)
{
    const bool ends = may[move->to] == 0;
    const bool again = move->to == META_JOB_STARTING || move->to == META_JOB_EVALUATING;

    return sql_change(
        metadata,
        "UPDATE job SET state = $5, target = $6, attempt = attempt + $7, gpu_ms = gpu_ms + $8, finished_at_ms = $9,"
        " reason = COALESCE($10, reason),"
        " crashes = CASE WHEN CAST($11 AS BIGINT) < 0 THEN crashes WHEN crash_step = $11 THEN crashes + 1 ELSE 1 END,"
        " crash_step = CASE WHEN CAST($11 AS BIGINT) < 0 THEN crash_step ELSE $11 END"
        " WHERE tenant = $1 AND id = $2 AND state = $3 AND attempt = $4"
        " AND CASE $12 WHEN 'any' THEN 1 = 1 WHEN 'none' THEN target IS NULL WHEN 'not cancelled' THEN target <> 'cancelled'"
        " ELSE target = $12 END",
        VALUES(AS_TEXT(move->tenant), AS_TEXT(move->id), AS_TEXT(meta_job_state_text(move->from)), AS_INT(move->attempt),
               AS_TEXT(meta_job_state_text(move->to)), AS_TEXT(meta_job_state_text(move->target)), AS_INT(again ? 1 : 0),
               AS_INT(move->gpu_ms), AS_INT(ends ? now_ms : META_NONE), AS_TEXT(move->reason),
               AS_INT(move->crash_step == META_NONE ? -1 : move->crash_step), AS_TEXT(target_condition(move->from, move->to))),
        STATUS_CONFLICT, "the job has moved on; this comes too late", refusal);
}

/* Nobody starts beside an attempt that may still be writing; the index says so when the row comes, this before one is even meant. */
static enum status check_alone(struct metadata *metadata, const struct meta_job_move *move, struct refusal *refusal)
{
    int64_t live = 0;
    enum status status = sql_number(metadata, "SELECT COUNT(*) FROM worker WHERE subject = $1 AND ended_at_ms IS NULL",
                                    VALUES(AS_TEXT(move->id)), &live, refusal);

    return status == STATUS_OK && live > 0 ? refuse(refusal, STATUS_CONFLICT, "an attempt of this job still lives") : status;
}

enum status meta_job_move(struct metadata *metadata, const struct meta_job_move *move, int64_t now_ms, int64_t *ret_attempt,
                          struct refusal *refusal)
{
    const bool again = move->to == META_JOB_STARTING || move->to == META_JOB_EVALUATING;
    const int64_t attempt = move->attempt + (again ? 1 : 0);
    enum status status;

    if (!meta_job_may(move->from, move->to, move->target))
        return refuse(refusal, STATUS_INVALID, "a job does not go from one of these states to the other");
    check((move->to == META_JOB_STARTING) == (move->worker != NULL));
    check(move->gpu_ms >= 0 && (move->crash_step == META_NONE || move->crash_step >= 0));
    status = meta_begin(metadata, refusal);
    if (status != STATUS_OK)
        return status;
    status = move_row(metadata, move, now_ms, refusal);
    if (status == STATUS_OK && move->worker != NULL)
        status = check_alone(metadata, move, refusal);
    if (status == STATUS_OK && move->worker != NULL)
        status = worker_insert(metadata, move->worker, move->id, attempt, now_ms, refusal);
    if (status == STATUS_OK && move->gpu_ms > 0)
        status = meta_tenant_used(metadata, move->tenant, move->gpu_ms, now_ms, refusal);
    status = meta_end(metadata, status, refusal);
    if (status == STATUS_OK && ret_attempt != NULL)
        *ret_attempt = attempt;
    return status;
}
