/* A job's files, read with its base: how many tokens, how many steps, whether each example fits. Accepted, the job is sized and queued
 * (or paused, if that was asked for meanwhile); rejected, it has failed, and the first fault is told in sealed words. */
#include <stdio.h>
#include <stdlib.h>

#include "control/driver/internal.h"
#include "link/fault.h"

#define EXAMPLES_MIN 10
#define RANK_AUTO 16 /* as berth-exec train */

/* --- rejected --------------------------------------------------------------------------------------------------------------- */

struct rejection {
    struct driver *driver;
    const char *tenant;
    const char *job;
    const char *reason;
    const char *words;
    struct work *work; /* NULL: no worker said so */
    uint64_t seq;
};

static enum status reject(struct metadata *metadata, void *context, struct refusal *refusal)
{
    const struct rejection *rejection = context;
    const struct meta_job_move move = {.tenant = rejection->tenant, .id = rejection->job, .from = META_JOB_VALIDATING, .attempt = 0,
                                       .to = META_JOB_FAILED, .target = META_JOB_NO_TARGET, .reason = rejection->reason, .crash_step = META_NONE};
    const struct said said = {.code = rejection->reason, .level = "error", .words = rejection->words};
    enum status status = meta_job_move(metadata, &move, driver_now_ms(), NULL, refusal);

    if (status == STATUS_OK)
        status = event_add(rejection->driver, metadata, rejection->tenant, rejection->job, &said, refusal);
    if (status == STATUS_OK && rejection->work != NULL)
        status = work_ack(metadata, rejection->work, rejection->seq, refusal);
    return status;
}

void job_refuse_files(struct driver *driver, const char *tenant, const char *job, const char *reason, const char *words)
{
    struct rejection rejection = {driver, tenant, job, reason, words, NULL, 0};
    struct refusal unheard = {{0}};

    if (driver_act(driver, reject, &rejection, &unheard) == STATUS_OK)
        driver_log(driver, "driver: act=fail job=%s code=%s", job, reason);
}

/* --- accepted --------------------------------------------------------------------------------------------------------------- */

struct acceptance {
    struct driver *driver;
    struct work *work;
    uint64_t seq;
    struct meta_job_size size;
    char *metrics;
};

static enum status accept_files(struct metadata *metadata, void *context, struct refusal *refusal)
{
    const struct acceptance *acceptance = context;
    struct work *work = acceptance->work;
    struct meta_job_move move = {.tenant = work->tenant, .id = work->subject, .from = META_JOB_VALIDATING, .attempt = 0, .to = META_JOB_QUEUED,
                                 .target = META_JOB_NO_TARGET, .crash_step = META_NONE};
    const struct said said = {.code = "validated", .level = "info", .metrics = acceptance->metrics};
    enum status status = meta_job_sized(metadata, work->tenant, work->subject, &acceptance->size, refusal);

    if (status == STATUS_OK)
        status = meta_job_move(metadata, &move, driver_now_ms(), NULL, refusal);
    if (status == STATUS_CONFLICT) {
        move.to = META_JOB_PAUSED;
        status = meta_job_move(metadata, &move, driver_now_ms(), NULL, refusal);
    }
    if (status == STATUS_OK)
        status = event_add(acceptance->driver, metadata, work->tenant, work->subject, &said, refusal);
    return status == STATUS_OK ? work_ack(metadata, work, acceptance->seq, refusal) : status;
}

/* An adapter that is gone on from keeps its rank. */
static int64_t rank_auto(struct driver *driver, const struct meta_job *job)
{
    struct meta_results results = {0};
    struct refusal unheard = {{0}};
    struct meta_model parent;
    int64_t rank = RANK_AUTO;

    if (job->parent != NULL && meta_model_get(driver->metadata, job->tenant, job->parent, &results, &parent, &unheard) == STATUS_OK)
        rank = parent.rank;
    meta_results_free(&results);
    return rank;
}

/* Numbers where the rules chose. */
static char *settings_known(const char *text, const json_t *metrics, int64_t rank_auto, int64_t *ret_rank, struct refusal *refusal)
{
    struct job_settings settings;
    json_t *json;
    char *known;

    if (job_settings_read(text, &settings, refusal) != STATUS_OK)
        return NULL;
    if (settings.epochs == 0)
        settings.epochs = (int64_t)json_integer_value(json_object_get(metrics, "epochs"));
    if (settings.batch == 0)
        settings.batch = (int64_t)json_integer_value(json_object_get(metrics, "batch"));
    if (settings.rank == 0)
        settings.rank = rank_auto;
    if (!(settings.rate_multiplier > 0))
        settings.rate_multiplier = 1;
    *ret_rank = settings.rank;
    json = job_settings_json(&settings);
    known = json_dumps(json, JSON_COMPACT);
    json_decref(json);
    return known;
}

static bool size_it(struct driver *driver, const struct work *work, const struct wire_frame *frame, const json_t *metrics,
                    struct meta_job_size *ret_size, char **ret_settings)
{
    struct meta_results results = {0};
    struct refusal refusal = {{0}};
    struct job_need need = {0};
    struct meta_job job;
    char *settings = NULL;
    bool good = meta_job_get(driver->metadata, work->tenant, work->subject, &results, &job, &refusal) == STATUS_OK &&
                base_index(driver, job.base) != NONE_INDEX;
    int64_t rank = 0;

    if (good) {
        settings = settings_known(job.settings, metrics, rank_auto(driver, &job), &rank, &refusal);
        good = settings != NULL && frame->body.result.tokens <= INT64_MAX &&
               job_need(driver, base_index(driver, job.base), (int64_t)frame->body.result.tokens, rank, &need, &refusal) == STATUS_OK;
    }
    meta_results_free(&results);
    *ret_settings = settings;
    *ret_size = (struct meta_job_size){need.size_ns, need.gpu_bytes, 1, rank, settings};
    return good;
}

static void accepted(struct driver *driver, struct work *work, const struct wire_frame *frame, const json_t *metrics)
{
    json_t *known = metrics_known(metrics);
    struct acceptance acceptance = {.driver = driver, .work = work, .seq = frame->header.seq, .metrics = json_dumps(known, JSON_COMPACT)};
    struct refusal refusal = {{0}};
    char *settings = NULL;

    check(acceptance.metrics != NULL);
    if (size_it(driver, work, frame, metrics, &acceptance.size, &settings) && driver_act(driver, accept_files, &acceptance, &refusal) == STATUS_OK) {
        work->is_done = true;
        driver_log(driver, "driver: act=validated job=%s tokens=%llu", work->subject, (unsigned long long)frame->body.result.tokens);
    }
    free(settings);
    free(acceptance.metrics);
    json_decref(known);
}

static void rejected(struct driver *driver, struct work *work, const struct wire_frame *frame)
{
    struct rejection rejection = {.driver = driver, .tenant = work->tenant, .job = work->subject, .reason = "invalid_training_file", .work = work,
                                  .seq = frame->header.seq};
    struct output *output = work_spare(work, OUTPUT_REPORT);
    char words[REPORT_WORDS_BYTES] = "";
    struct refusal refusal = {{0}};

    if (output != NULL && output_commit(driver, work, output, frame->body.result.bytes, &refusal) == STATUS_OK)
        report_words(driver, work->tenant, output->object, words);
    rejection.words = words;
    work->is_done = driver_act(driver, reject, &rejection, &refusal) == STATUS_OK;
    driver_log(driver, "driver: act=fail job=%s code=%s", work->subject, rejection.reason);
}

/* What no other validator would be spared fails the job; the rest is counted when it ends. */
static void failed(struct driver *driver, struct work *work, const struct wire_frame *frame)
{
    const char *code = fault_code(frame->body.failed.code);
    struct rejection rejection = {.driver = driver, .tenant = work->tenant, .job = work->subject, .reason = code, .work = work,
                                  .seq = frame->header.seq};
    struct refusal refusal = {{0}};
    char words[REFUSAL_MAX];

    if (code == NULL || fault_may_pass(frame->body.failed.code))
        return;
    fault_words(driver, work, &frame->body.failed, words);
    rejection.words = words;
    work->is_done = driver_act(driver, reject, &rejection, &refusal) == STATUS_OK;
    driver_log(driver, "driver: act=fail job=%s code=%s", work->subject, code);
}

void check_heard(struct driver *driver, struct work *work, const struct wire_frame *frame)
{
    json_t *metrics;

    if (frame->header.kind == WIRE_FAILED)
        failed(driver, work, frame);

    if (frame->header.kind != WIRE_RESULT)
        return;
    metrics = metrics_read(frame->body.result.metrics, frame->body.result.metrics_count);
    if (json_is_true(json_object_get(metrics, "accepted")))
        accepted(driver, work, frame, metrics);
    else if (metrics != NULL)
        rejected(driver, work, frame);
    json_decref(metrics);
}

/* --- begun ------------------------------------------------------------------------------------------------------------------ */

/* STATUS_FULL: it is not judged yet. STATUS_INVALID: it is in error, or gone. */
static enum status file_state(struct driver *driver, const char *tenant, const char *id, struct meta_results *results, struct meta_file *ret_file)
{
    struct refusal unheard = {{0}};
    enum status status = meta_file_get(driver->metadata, tenant, id, results, ret_file, &unheard);

    if (status == STATUS_NOT_FOUND) {
        ret_file->report = NULL;
        return STATUS_INVALID;
    }
    if (status != STATUS_OK)
        return STATUS_FULL;
    if (strcmp(ret_file->state, "uploaded") == 0)
        return STATUS_FULL;
    return strcmp(ret_file->state, "processed") == 0 ? STATUS_OK : STATUS_INVALID;
}

static void launch_check(struct driver *driver, const struct meta_job *job, const struct meta_file *file, const struct meta_file *validation)
{
    const uint32_t base = base_index(driver, job->base);
    struct refusal refusal = {{0}};
    struct start start = {0};
    struct job_settings settings;
    struct work *work;
    enum status status = job_settings_read(job->settings, &settings, &refusal);

    if (status != STATUS_OK || base == NONE_INDEX) {
        job_refuse_files(driver, job->tenant, job->id, status != STATUS_OK ? "invalid_settings" : "base_not_served", NULL);
        return;
    }
    work = work_begin(driver, CORE_VALIDATOR, job->tenant, job->id);
    if (work == NULL)
        return;
    work->of_job = true;
    if (validation_open(driver, work, &refusal) != STATUS_OK)
        return;
    status = start_begin(&start, &refusal);
    if (status == STATUS_OK) {
        validation_settings(&start, job->tenant, job_method(&settings), &settings, EXAMPLES_MIN);
        status = start_base(driver, &start, base, &refusal);
    }
    if (status == STATUS_OK)
        status = start_input(driver, &start, "train", job->tenant, file->object, &refusal);
    if (status == STATUS_OK && validation != NULL)
        status = start_input(driver, &start, "validation", job->tenant, validation->object, &refusal);
    if (status == STATUS_OK)
        status = start_output(driver, &start, "report", work, OUTPUT_REPORT, &refusal);
    if (status == STATUS_OK)
        status = start_launch(driver, &start, work, 0, 0, &refusal);
    start_end(&start);
    if (status != STATUS_OK) {
        driver_log(driver, "driver: act=check job=%s code=%d", job->id, (int)status);
        validation_abandon(driver, work);
    }
}

static void refuse_file(struct driver *driver, const struct meta_job *job, const struct meta_file *file, const char *reason)
{
    char words[REPORT_WORDS_BYTES];

    report_words(driver, job->tenant, file->report, words);
    job_refuse_files(driver, job->tenant, job->id, reason, words);
}

void check_begin(struct driver *driver, const struct meta_job *job)
{
    struct meta_results results = {0};
    struct meta_file file = {0};
    struct meta_file validation = {0};
    const enum status good = file_state(driver, job->tenant, job->file, &results, &file);
    const enum status also = job->validation != NULL ? file_state(driver, job->tenant, job->validation, &results, &validation) : STATUS_OK;

    if (good == STATUS_INVALID)
        refuse_file(driver, job, &file, "invalid_training_file");
    else if (also == STATUS_INVALID)
        refuse_file(driver, job, &validation, "invalid_validation_file");
    else if (subject_crashes(driver, job->id))
        job_refuse_files(driver, job->tenant, job->id, "validator_crashed", NULL);
    else if (good == STATUS_OK && also == STATUS_OK && validators_count(driver) < VALIDATORS_MAX)
        launch_check(driver, job, &file, job->validation != NULL ? &validation : NULL);
    meta_results_free(&results);
}
