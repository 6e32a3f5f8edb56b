/* A job's files, read with its base: how many tokens, how many steps, whether each example fits. Accepted, the job is sized and queued
 * (or paused, if that was asked for meanwhile), or has succeeded, if no more was asked of it than that; rejected, it has failed, and the first fault is told in sealed words. */
#include <stdio.h>
#include <stdlib.h>

#include "control/driver/internal.h"
#include "engine/train/run/choose.h"
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
    bool dry_run;
    char *metrics;
};

static enum status accept_files(struct metadata *metadata, void *context, struct refusal *refusal)
{
    const struct acceptance *acceptance = context;
    struct work *work = acceptance->work;
    struct meta_job_move move = {.tenant = work->tenant, .id = work->subject, .from = META_JOB_VALIDATING, .attempt = 0, .to = META_JOB_QUEUED,
                                 .target = META_JOB_NO_TARGET, .crash_step = META_NONE};
    const struct said said = {.code = acceptance->dry_run ? "dry_run" : "validated", .level = "info", .metrics = acceptance->metrics};
    enum status status = meta_job_sized(metadata, work->tenant, work->subject, &acceptance->size, refusal);

    if (acceptance->dry_run)
        move.to = META_JOB_SUCCEEDED;
    if (status == STATUS_OK)
        status = meta_job_move(metadata, &move, driver_now_ms(), NULL, refusal);
    if (status == STATUS_CONFLICT && !acceptance->dry_run) {
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
static void settle(struct job_settings *settings, const json_t *metrics, int64_t rank_auto, bool is_continued)
{
    if (settings->epochs == 0)
        settings->epochs = (int64_t)json_integer_value(json_object_get(metrics, "epochs"));
    if (settings->batch == 0)
        settings->batch = (int64_t)json_integer_value(json_object_get(metrics, "batch"));
    if (settings->rank == 0)
        settings->rank = rank_auto;
    if (!(settings->rate_multiplier > 0))
        settings->rate_multiplier = 1;
    if (settings->preferences && !(settings->beta > 0))
        settings->beta = RUN_BETA;
    if (!(settings->alpha > 0) && !is_continued) /* a parent's is what it was taught with */
        settings->alpha = 2 * (double)settings->rank;
}

/* Tokens and steps are exact; time, and so the price, is size.c's guess. Money as digits, for 2^53 is no bound of it. */
static json_t *estimate_json(const struct driver *driver, const struct job_need *need, int64_t tokens, const json_t *metrics)
{
    char digits[24];

    snprintf(digits, sizeof(digits), "%lld", (long long)price_nano(need->size_ns, driver->config.price_nano_per_hour));
    return json_pack("{s:I,s:I,s:f,s:s}", "tokens", (json_int_t)tokens, "steps", (json_int_t)json_integer_value(json_object_get(metrics, "steps")),
                     "seconds", (double)(need->size_ns / NS_PER_MS) / 1000, "price_nano", digits);
}

/* The settings as they are used, with the estimate beside them. */
static char *settings_known(const struct job_settings *settings, json_t *estimate)
{
    json_t *json = job_settings_json(settings);
    char *known;

    check(json_object_set(json, "estimate", estimate) == 0);
    known = json_dumps(json, JSON_COMPACT);
    json_decref(json);
    check(known != NULL);
    return known;
}

static bool size_job(struct driver *driver, const struct meta_job *job, int64_t tokens, const json_t *metrics, struct acceptance *acceptance,
                     char **ret_settings, json_t **ret_estimate)
{
    const uint32_t base = base_index(driver, job->base);
    struct job_settings settings;
    struct refusal refusal = {{0}};
    struct job_need need = {0};

    if (base == NONE_INDEX || tokens < 0 || job_settings_read(job->settings, &settings, &refusal) != STATUS_OK)
        return false;
    settle(&settings, metrics, rank_auto(driver, job), job->parent != NULL);
    if (job_need(driver, base, tokens, &settings, &need, &refusal) != STATUS_OK)
        return false;
    if (!(settings.rate > 0))
        settings.rate = need.rate;
    *ret_estimate = estimate_json(driver, &need, tokens, metrics);
    *ret_settings = settings_known(&settings, *ret_estimate);
    acceptance->dry_run = settings.dry_run != 0;
    acceptance->size = (struct meta_job_size){need.size_ns, need.gpu_bytes, 1, settings.rank, *ret_settings};
    return true;
}

static bool size_it(struct driver *driver, const struct work *work, const struct wire_frame *frame, const json_t *metrics,
                    struct acceptance *acceptance, char **ret_settings, json_t **ret_estimate)
{
    struct meta_results results = {0};
    struct refusal unheard = {{0}};
    struct meta_job job;
    const bool good = meta_job_get(driver->metadata, work->tenant, work->subject, &results, &job, &unheard) == STATUS_OK &&
                      size_job(driver, &job, (int64_t)frame->body.result.tokens, metrics, acceptance, ret_settings, ret_estimate);

    meta_results_free(&results);
    return good;
}

static void accepted(struct driver *driver, struct work *work, const struct wire_frame *frame, const json_t *metrics)
{
    struct acceptance acceptance = {.driver = driver, .work = work, .seq = frame->header.seq};
    struct refusal refusal = {{0}};
    json_t *estimate = NULL;
    char *settings = NULL;
    json_t *known;

    if (!size_it(driver, work, frame, metrics, &acceptance, &settings, &estimate))
        return;
    known = metrics_known(metrics);
    check(json_object_set_new(known, "estimate", estimate) == 0);
    acceptance.metrics = json_dumps(known, JSON_COMPACT);
    check(acceptance.metrics != NULL);
    if (driver_act(driver, accept_files, &acceptance, &refusal) == STATUS_OK) {
        work->is_done = true;
        driver_log(driver, "driver: act=%s job=%s tokens=%llu", acceptance.dry_run ? "dry_run" : "validated", work->subject,
                   (unsigned long long)frame->body.result.tokens);
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
