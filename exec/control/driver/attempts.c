/* An attempt of a job: begun where the core placed it, from its newest state, and asked to stop. */
#include <stdio.h>

#include "control/core/gpus.h"
#include "control/driver/internal.h"

int64_t gpu_ms_of(const struct work *work, int64_t until_ns)
{
    return work->started_at_ns > 0 ? max_i64(0, until_ns - work->started_at_ns) / NS_PER_MS : 0;
}

/* --- begun ------------------------------------------------------------------------------------------------------------------ */

struct beginning {
    const struct meta_job *job;
    const struct work *work;
    const char *placement;
    int64_t attempt;
};

static enum status begin_row(struct metadata *metadata, void *context, struct refusal *refusal)
{
    struct beginning *beginning = context;
    const struct meta_worker_new worker = {beginning->work->id, "trainer", beginning->placement};
    const struct meta_job_move move = {.tenant = beginning->job->tenant, .id = beginning->job->id, .from = META_JOB_QUEUED,
                                       .attempt = beginning->job->attempt, .to = META_JOB_STARTING, .target = META_JOB_NO_TARGET,
                                       .worker = &worker, .crash_step = META_NONE};

    return meta_job_move(metadata, &move, driver_now_ms(), &beginning->attempt, refusal);
}

static json_t *number_or_rule(json_int_t value)
{
    return value > 0 ? json_integer(value) : NULL;
}

/* What is 0 is left out: the trainer's rules choose. */
static json_t *hyperparameters(const struct job_settings *settings)
{
    json_t *json = json_pack("{s:o*,s:o*,s:o*,s:o*,s:o*,s:I,s:f}", "epochs", number_or_rule((json_int_t)settings->epochs), "batch",
                             number_or_rule((json_int_t)settings->batch), "rank", number_or_rule((json_int_t)settings->rank), "patience",
                             number_or_rule((json_int_t)settings->patience), "context", number_or_rule((json_int_t)settings->context), "seed",
                             (json_int_t)settings->seed, "min_delta", settings->min_delta);

    check(json != NULL);
    if (settings->rate > 0)
        check(json_object_set_new(json, "rate", json_real(settings->rate)) == 0);
    if (settings->rate_multiplier > 0)
        check(json_object_set_new(json, "rate_multiplier", json_real(settings->rate_multiplier)) == 0);
    if (settings->alpha > 0)
        check(json_object_set_new(json, "alpha", json_real(settings->alpha)) == 0);
    if (settings->beta > 0)
        check(json_object_set_new(json, "beta", json_real(settings->beta)) == 0);
    if (settings->schedule[0] != '\0')
        check(json_object_set_new(json, "schedule", json_string(settings->schedule)) == 0);
    return json;
}

static enum status add_settings(const struct driver *driver, struct start *start, const struct meta_job *job, const struct work *work,
                                struct refusal *refusal)
{
    struct job_settings settings;
    enum status status = job_settings_read(job->settings, &settings, refusal);
    json_t *json;

    if (status != STATUS_OK)
        return status;
    json = json_pack("{s:s,s:s,s:s,s:o,s:n,s:n,s:n}", "task", "train", "method", job_method(&settings), "tenant", job->tenant, "hyperparameters",
                     hyperparameters(&settings), "validation", "parent", "resume");
    check(json != NULL && json_object_update(start->settings, json) == 0);
    json_decref(json);
    core_gpus_say(driver->config.gpus, work->gpu_mask, start->settings);
    return STATUS_OK;
}

static enum status add_file(struct driver *driver, struct start *start, const char *name, const struct meta_job *job, const char *file,
                            struct refusal *refusal)
{
    struct meta_results results = {0};
    struct meta_file row;
    enum status status = meta_file_get(driver->metadata, job->tenant, file, &results, &row, refusal);

    if (status == STATUS_OK)
        status = start_input(driver, start, name, job->tenant, row.object, refusal);
    meta_results_free(&results);
    return status;
}

static enum status add_parent(struct driver *driver, struct start *start, const struct meta_job *job, struct refusal *refusal)
{
    struct meta_results results = {0};
    struct meta_model model;
    enum status status = meta_model_get(driver->metadata, job->tenant, job->parent, &results, &model, refusal);

    if (status == STATUS_OK)
        status = start_input(driver, start, "parent", job->tenant, model.object, refusal);
    meta_results_free(&results);
    return status;
}

/* Its newest state, whose step is where this attempt begins. */
static enum status add_resume(struct driver *driver, struct start *start, const struct meta_job *job, struct work *work, struct refusal *refusal)
{
    struct meta_results results = {0};
    struct meta_checkpoint *newest = NULL;
    uint32_t count = 0;
    bool more;
    enum status status = meta_checkpoint_list(driver->metadata, job->tenant, job->id, INT64_MAX, 1, &results, &newest, &count, &more, refusal);

    if (status == STATUS_OK && count > 0) {
        status = start_input(driver, start, "resume", job->tenant, newest->object, refusal);
        work->first_step = work->step = newest->step;
    }
    meta_results_free(&results);
    return status;
}

static enum status add_all(struct driver *driver, struct start *start, const struct meta_job *job, struct work *work, struct refusal *refusal)
{
    enum status status = add_settings(driver, start, job, work, refusal);

    if (status == STATUS_OK)
        status = start_base(driver, start, base_index(driver, job->base), refusal);
    if (status == STATUS_OK)
        status = add_file(driver, start, "train", job, job->file, refusal);
    if (status == STATUS_OK && job->validation != NULL)
        status = add_file(driver, start, "validation", job, job->validation, refusal);
    if (status == STATUS_OK && job->parent != NULL)
        status = add_parent(driver, start, job, refusal);
    if (status == STATUS_OK)
        status = add_resume(driver, start, job, work, refusal);
    if (status == STATUS_OK)
        status = start_output(driver, start, "result", work, OUTPUT_RESULT, refusal);
    if (status == STATUS_OK)
        status = start_output(driver, start, "results", work, OUTPUT_RESULTS, refusal);
    return status == STATUS_OK ? start_output(driver, start, "state", work, OUTPUT_STATE, refusal) : status;
}

static enum status launch(struct driver *driver, const struct meta_job *job, struct work *work, job_id id)
{
    struct refusal refusal = {{0}};
    struct start start = {0};
    enum status status = start_begin(&start, &refusal);

    if (status == STATUS_OK)
        status = add_all(driver, &start, job, work, &refusal);
    if (status == STATUS_OK)
        status = start_launch(driver, &start, work, id.value, (uint64_t)work->step, &refusal);
    start_end(&start);
    return status;
}

/* The place was not taken; the core hears so after a moment, or it would give the same one at once. */
static void give_up(struct told_job *told)
{
    told->lost_at_ns = driver_clock_ns() + AGAIN_MS * NS_PER_MS;
}

static void begin(struct driver *driver, struct told_job *told, const struct meta_job *job, const char *placement, uint16_t gpu_mask)
{
    struct work *work = work_begin(driver, CORE_TRAINER, job->tenant, job->id);
    struct beginning beginning = {.job = job, .work = work, .placement = placement};
    struct refusal refusal = {{0}};
    enum status status;

    if (work == NULL) {
        give_up(told);
        return;
    }
    work->of_job = true;
    work->gpu_mask = gpu_mask;
    status = driver_act(driver, begin_row, &beginning, &refusal);
    if (status != STATUS_OK) {
        work_end(driver, work);
        give_up(told);
        return;
    }
    work->attempt = beginning.attempt;
    work->launch.attempt = (uint64_t)beginning.attempt;
    work->tokens_before = max_i64(job->trained_tokens, 0);
    status = launch(driver, job, work, told->id);
    driver_log(driver, "driver: act=start job=%s attempt=%lld worker=%s step=%lld code=%d", job->id, (long long)work->attempt, work->id,
               (long long)work->step, (int)status);
    if (status != STATUS_OK) {
        work_take_back(driver, work);
        attempt_lost(driver, job->tenant, job->id, work->id, "not_started", 0);
        work_end(driver, work);
        give_up(told);
    }
}

void attempt_begin(struct driver *driver, struct told_job *told, const struct fleet_command *place)
{
    struct meta_results results = {0};
    struct refusal unheard = {{0}};
    struct meta_job job;
    char placement[128];
    const bool is_there = meta_job_get(driver->metadata, told->tenant, told->job, &results, &job, &unheard) == STATUS_OK;

    if (is_there)
        snprintf(placement, sizeof(placement), "{\"node\":%u,\"devices\":%u,\"tokens\":%lld}", (unsigned)place->job_place.node.value,
                 (unsigned)place->job_place.gpu_mask, (long long)max_i64(job.trained_tokens, 0));
    if (is_there && meta_job_state_parse(job.state) == META_JOB_QUEUED)
        begin(driver, told, &job, placement, place->job_place.gpu_mask);
    else if (is_there)
        fleet_left(driver, told, false, false, job.done_ns, 0); /* paused or cancelled meanwhile */
    else
        give_up(told);
    meta_results_free(&results);
}

/* --- asked to stop ---------------------------------------------------------------------------------------------------------- */

/* Objects for what it saves next: a state, an adapter, or both, as it has none to spare. So it has at most one of
 * either, however long it runs, and one more after each restart, since what was said to it last may be lost. */
bool attempt_room(struct driver *driver, struct work *work, uint32_t deadline_ms)
{
    const bool wants_adapter = deadline_ms == UINT32_MAX && work_spare(work, OUTPUT_ADAPTER) == NULL;
    const bool wants_state = work_spare(work, OUTPUT_STATE) == NULL;
    struct refusal refusal = {{0}};
    struct start start = {0};
    enum status status;

    if (!wants_state && !wants_adapter && deadline_ms == UINT32_MAX)
        return true;
    status = start_begin(&start, &refusal);
    if (status == STATUS_OK && wants_state)
        status = start_output(driver, &start, "state", work, OUTPUT_STATE, &refusal);
    if (status == STATUS_OK && wants_adapter)
        status = start_output(driver, &start, "adapter", work, OUTPUT_ADAPTER, &refusal);
    if (status == STATUS_OK)
        status = start_say(driver, &start, work, deadline_ms, !wants_adapter ? 0 : wants_state ? 2 : 1, &refusal);
    start_end(&start);
    if (status != STATUS_OK)
        driver_log(driver, "driver: act=room worker=%s code=%d", work->id, (int)status);
    return status == STATUS_OK;
}

struct stopping {
    const struct work *work;
    enum meta_job_state target;
};

/* Cancelled and paused were moved by who asked; what the core asks for is moved here. */
static enum status stop_row(struct metadata *metadata, void *context, struct refusal *refusal)
{
    const struct stopping *stopping = context;
    struct meta_job_move move = {.tenant = stopping->work->tenant, .id = stopping->work->subject, .from = META_JOB_RUNNING,
                                 .attempt = stopping->work->attempt, .to = META_JOB_STOPPING, .target = stopping->target,
                                 .crash_step = META_NONE};
    enum status status = meta_job_move(metadata, &move, driver_now_ms(), NULL, refusal);

    if (status == STATUS_CONFLICT) {
        move.from = META_JOB_STARTING;
        status = meta_job_move(metadata, &move, driver_now_ms(), NULL, refusal);
    }
    return status;
}

void attempt_stop(struct driver *driver, struct work *work, enum meta_job_state target, int64_t within_ms)
{
    struct stopping stopping = {work, target};
    struct refusal unheard = {{0}};
    enum status status;
    const bool saves = target != META_JOB_CANCELLED && work->is_running;

    if (work->is_done || (work->is_ending && (work->is_killed || saves)))
        return;
    if (target == META_JOB_QUEUED)
        (void)driver_act(driver, stop_row, &stopping, &unheard); /* a conflict: it is stopping already, whereto doesn't matter */
    work->is_ending = true;
    driver_log(driver, "driver: act=stop job=%s attempt=%lld within_ms=%lld save=%d", work->subject, (long long)work->attempt,
               (long long)within_ms, saves);
    if (saves && attempt_room(driver, work, (uint32_t)within_ms)) {
        work->kill_at_ns = driver_clock_ns() + (within_ms + STOP_EXTRA_MS) * NS_PER_MS;
        return;
    }
    work->is_killed = true;
    do
        status = core_end(driver->core, work->launch.worker, true);
    while (driver_again(driver, status));
}
