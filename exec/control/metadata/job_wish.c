#include "control/metadata/job_wish.h"

#include <stdio.h>

#include "control/metadata/audit.h"

struct step {
    enum meta_job_state to;
    enum meta_job_state target;
};
struct rule {
    enum meta_job_state wanted; /* where it ends */
    struct step steps[META_JOB_STATES_COUNT]; /* from each state; to META_JOB_STATES_COUNT: that is refused */
};
#define NO {META_JOB_STATES_COUNT, META_JOB_NO_TARGET}
#define GO(state) {META_JOB_##state, META_JOB_NO_TARGET}
#define STOP(target) {META_JOB_STOPPING, META_JOB_##target}
static const struct rule rules[] = {
    [META_JOB_CANCEL] = {META_JOB_CANCELLED,
                         {[META_JOB_VALIDATING] = GO(CANCELLED), [META_JOB_QUEUED] = GO(CANCELLED), [META_JOB_STARTING] = STOP(CANCELLED),
                          [META_JOB_RUNNING] = STOP(CANCELLED), [META_JOB_STOPPING] = STOP(CANCELLED), [META_JOB_PAUSED] = GO(CANCELLED),
                          [META_JOB_EVALUATING] = GO(CANCELLED), [META_JOB_SUCCEEDED] = NO, [META_JOB_FAILED] = NO,
                          [META_JOB_CANCELLED] = NO}},
    [META_JOB_PAUSE] = {META_JOB_PAUSED,
                        {[META_JOB_VALIDATING] = {META_JOB_VALIDATING, META_JOB_PAUSED}, [META_JOB_QUEUED] = GO(PAUSED),
                         [META_JOB_STARTING] = STOP(PAUSED), [META_JOB_RUNNING] = STOP(PAUSED), [META_JOB_STOPPING] = STOP(PAUSED),
                         [META_JOB_PAUSED] = NO, [META_JOB_EVALUATING] = NO, [META_JOB_SUCCEEDED] = NO, [META_JOB_FAILED] = NO,
                         [META_JOB_CANCELLED] = NO}},
    [META_JOB_RESUME] = {META_JOB_QUEUED,
                         {[META_JOB_VALIDATING] = GO(VALIDATING), [META_JOB_QUEUED] = NO, [META_JOB_STARTING] = NO, [META_JOB_RUNNING] = NO,
                          [META_JOB_STOPPING] = STOP(QUEUED), [META_JOB_PAUSED] = GO(QUEUED), [META_JOB_EVALUATING] = NO,
                          [META_JOB_SUCCEEDED] = NO, [META_JOB_FAILED] = NO, [META_JOB_CANCELLED] = NO}},
};

static const struct {
    const char *act;
    const char *event;
} names[] = {
#define X(name, act, event) {act, event},
    META_JOB_WISHES(X)
#undef X
};

/* Where it is, or is going. */
static bool is_wanted(const struct rule *rule, const struct meta_job *job)
{
    const enum meta_job_state target = meta_job_state_parse(job->target);
    const enum meta_job_state state = target != META_JOB_STATES_COUNT ? target : meta_job_state_parse(job->state);

    if (rule->wanted != META_JOB_QUEUED)
        return state == rule->wanted;
    return state == META_JOB_QUEUED || state == META_JOB_STARTING || state == META_JOB_RUNNING || state == META_JOB_VALIDATING;
}

static enum status move_it(struct metadata *metadata, const struct meta_job *job, const struct rule *rule, int64_t now_ms, struct refusal *refusal)
{
    const enum meta_job_state state = meta_job_state_parse(job->state);
    const struct step step = state < META_JOB_STATES_COUNT ? rule->steps[state] : (struct step)NO;
    const struct meta_job_move move = {.tenant = job->tenant, .id = job->id, .from = state, .attempt = job->attempt, .to = step.to,
                                       .target = step.target, .reason = rule->wanted == META_JOB_CANCELLED ? "cancelled" : NULL,
                                       .crash_step = META_NONE};

    return step.to == META_JOB_STATES_COUNT ? refuse(refusal, STATUS_INVALID, "the job is %s: that can't be done with it any more", job->state)
                                            : meta_job_move(metadata, &move, now_ms, NULL, refusal);
}

static enum status ask(struct metadata *metadata, const struct meta_job *job, enum meta_job_wish wish, const char *actor, int64_t now_ms,
                       struct refusal *refusal)
{
    enum status status = move_it(metadata, job, &rules[wish], now_ms, refusal);

    if (status == STATUS_OK)
        status = meta_event_add(metadata, job->tenant, job->id, "info", names[wish].event, NULL, (struct meta_bytes){NULL, 0}, now_ms, NULL, refusal);
    return status == STATUS_OK ? meta_audit_add(metadata, job->tenant, actor, names[wish].act, job->id, now_ms, refusal) : status;
}

enum status meta_job_ask(struct metadata *metadata, const char *tenant, const char *id, enum meta_job_wish wish, const char *actor,
                         int64_t now_ms, struct meta_job_wished *ret_wished, struct refusal *refusal)
{
    struct meta_results results = {0};
    struct meta_job job;
    enum status status = meta_begin(metadata, refusal);

    *ret_wished = (struct meta_job_wished){0};
    if (status != STATUS_OK)
        return status;
    status = meta_job_get(metadata, tenant, id, &results, &job, refusal);
    if (status == STATUS_OK) {
        snprintf(ret_wished->state, sizeof(ret_wished->state), "%s", job.state);
        ret_wished->was_so = is_wanted(&rules[wish], &job);
        if (!ret_wished->was_so)
            status = ask(metadata, &job, wish, actor, now_ms, refusal);
    }
    meta_results_free(&results);
    return meta_end(metadata, status, refusal);
}
