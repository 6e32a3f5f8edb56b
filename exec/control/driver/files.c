/* A file's life: uploaded, read by a validator that knows no base, processed or in error, with a report. Some are read at once, the others
 * wait as rows. A validator that crashes on a file is tried again; one that always does, on no fault of ours that a restart mends, leaves
 * the file in error without a report. */
#include <stdio.h>

#include "control/driver/internal.h"

struct opening {
    const struct work *work;
    int64_t attempt;
};

static enum status open_row(struct metadata *metadata, void *context, struct refusal *refusal)
{
    struct opening *opening = context;
    const struct meta_worker_new row = {opening->work->id, "validator", "{\"node\":0}"};

    if (opening->work->adoption != NULL) {
        opening->attempt = 1;
        return meta_worker_for_object(metadata, &row, opening->work->tenant, opening->work->subject, driver_now_ms(), refusal);
    }
    return opening->work->of_job
               ? meta_worker_for_check(metadata, &row, opening->work->tenant, opening->work->subject, driver_now_ms(), &opening->attempt, refusal)
               : meta_worker_for_file(metadata, &row, opening->work->tenant, opening->work->subject, driver_now_ms(), &opening->attempt, refusal);
}

static enum status end_row(struct metadata *metadata, void *context, struct refusal *refusal)
{
    return meta_worker_ended(metadata, context, "not_started", driver_now_ms(), refusal);
}

enum status validation_open(struct driver *driver, struct work *work, struct refusal *refusal)
{
    struct opening opening = {work, 0};
    const enum status status = driver_act(driver, open_row, &opening, refusal);

    if (status == STATUS_OK) {
        work->attempt = opening.attempt;
        work->launch.attempt = (uint64_t)(opening.attempt < 0 ? -opening.attempt : opening.attempt);
    } else {
        work_end(driver, work);
    }
    return status;
}

void validation_abandon(struct driver *driver, struct work *work)
{
    struct refusal unheard = {{0}};

    work_take_back(driver, work);
    (void)driver_act(driver, end_row, work->id, &unheard);
    work_end(driver, work);
}

void validation_settings(struct start *start, const char *tenant, const char *method, const struct job_settings *settings, int examples_min)
{
    json_t *json = json_pack("{s:s,s:s,s:s,s:n,s:n,s:I,s:I,s:I,s:i}", "task", "validate", "method", method, "tenant", tenant, "base", "validation",
                             "context", (json_int_t)settings->context, "epochs", (json_int_t)settings->epochs, "batch",
                             (json_int_t)settings->batch, "examples_min", examples_min);

    check(json != NULL && json_object_update(start->settings, json) == 0);
    json_decref(json);
}

static void begin(struct driver *driver, const struct meta_file *file)
{
    const struct job_settings none = {0};
    struct refusal refusal = {{0}};
    struct start start = {0};
    struct work *work = work_begin(driver, CORE_VALIDATOR, file->tenant, file->id);
    enum status status;

    if (work == NULL || validation_open(driver, work, &refusal) != STATUS_OK)
        return;
    status = start_begin(&start, &refusal);
    if (status == STATUS_OK) {
        validation_settings(&start, file->tenant, "auto", &none, 1);
        status = start_input(driver, &start, "train", file->tenant, file->object, &refusal);
    }
    if (status == STATUS_OK)
        status = start_output(driver, &start, "report", work, OUTPUT_REPORT, &refusal);
    if (status == STATUS_OK)
        status = start_launch(driver, &start, work, 0, 0, &refusal);
    start_end(&start);
    if (status != STATUS_OK) {
        driver_log(driver, "driver: act=validate file=%s code=%d", file->id, (int)status);
        validation_abandon(driver, work);
    }
}

/* --- what came of it -------------------------------------------------------------------------------------------------------- */

struct judgement {
    struct work *work;
    const struct wire_frame *frame;
    const char *report;     /* NULL: there is none */
    char digest[2 * 32 + 1];
    bool good;
    int64_t lines;
    int64_t tokens;
};

static enum status judge(struct metadata *metadata, void *context, struct refusal *refusal)
{
    const struct judgement *judgement = context;
    struct work *work = judgement->work;
    enum status status = STATUS_OK;

    if (judgement->report != NULL)
        status = meta_object_written(metadata, work->tenant, judgement->report, (int64_t)judgement->frame->body.result.bytes, judgement->digest,
                                     refusal);
    if (status == STATUS_OK)
        status = meta_file_judged(metadata, work->tenant, work->subject, judgement->good, judgement->lines, judgement->tokens, judgement->report,
                                  refusal);
    return status == STATUS_OK ? work_ack(metadata, work, judgement->frame->header.seq, refusal) : status;
}

static int64_t number_of(const json_t *metrics, const char *name)
{
    const json_int_t value = json_integer_value(json_object_get(metrics, name));

    return value > 0 ? (int64_t)value : 0;
}

static void keep_result(struct driver *driver, struct work *work, const struct wire_frame *frame)
{
    json_t *metrics = metrics_read(frame->body.result.metrics, frame->body.result.metrics_count);
    struct output *output = work_spare(work, OUTPUT_REPORT);
    struct judgement judgement = {.work = work, .frame = frame, .lines = number_of(metrics, "lines"),
                                  .tokens = number_of(metrics, "tokens"), .good = json_is_true(json_object_get(metrics, "accepted"))};
    struct refusal refusal = {{0}};

    json_decref(metrics);
    if (output == NULL || output_commit(driver, work, output, frame->body.result.bytes, &refusal) != STATUS_OK)
        return; /* its end, without a result, is told next */
    judgement.report = output->object;
    sodium_bin2hex(judgement.digest, sizeof(judgement.digest), frame->body.result.digest, 32);
    if (driver_act(driver, judge, &judgement, &refusal) != STATUS_OK)
        return; /* the file is gone; its report goes with the worker */
    output_taken(work, output);
    work->is_done = true;
    driver_log(driver, "driver: act=judge file=%s good=%d lines=%lld", work->subject, judgement.good, (long long)judgement.lines);
    driver_look(driver); /* jobs wait for it */
}

void file_heard(struct driver *driver, struct work *work, const struct wire_frame *frame)
{
    if (frame->header.kind == WIRE_RESULT)
        keep_result(driver, work, frame);
}

/* --- which ones ------------------------------------------------------------------------------------------------------------- */

bool subject_crashes(struct driver *driver, const char *subject)
{
    struct refusal unheard = {{0}};
    int64_t count = 0;

    return meta_worker_count(driver->metadata, subject, "crashed", &count, &unheard) == STATUS_OK && count >= CRASHES_MAX;
}

static enum status condemn(struct metadata *metadata, void *context, struct refusal *refusal)
{
    const struct meta_file *file = context;

    return meta_file_judged(metadata, file->tenant, file->id, false, META_NONE, META_NONE, NULL, refusal);
}

void files_look(struct driver *driver)
{
    struct meta_results results = {0};
    struct refusal refusal = {{0}};
    struct meta_file *files = NULL;
    uint32_t count = 0;
    const uint32_t busy = validators_count(driver);

    if (busy >= VALIDATORS_MAX || meta_file_waiting(driver->metadata, VALIDATORS_MAX - busy, &results, &files, &count, &refusal) != STATUS_OK)
        count = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!subject_crashes(driver, files[i].id)) {
            begin(driver, &files[i]);
        } else if (driver_act(driver, condemn, &files[i], &refusal) == STATUS_OK) {
            driver_log(driver, "driver: act=judge file=%s code=crashed", files[i].id);
            driver_look(driver);
        }
    }
    meta_results_free(&results);
}
