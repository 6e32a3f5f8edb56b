/* The validator's task: one file, or two, against the rules and a base's template and tokenizer; a sealed report. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/train/run/choose.h"
#include "task/internal.h"
#include "validate/validate.h"

#define FIRST_BYTES VALIDATE_LINE_BYTES

struct validation {
    struct grant *training;
    struct grant *held;              /* NULL: no validation file */
    struct grant *report;
    struct tokenizer *tokenizer;
    struct model_config model;
    struct run_settings settings;
    struct data_source source;
    bool has_base;
    bool preferences;
};

/* --- before the sandbox ------------------------------------------------------------------------------------------------------- */

static enum status open_base(const struct task *task, struct validation *validation, struct refusal *refusal)
{
    struct run_wishes wishes = RUN_WISHES_DEFAULT;
    char folder[32];
    enum status status;

    wishes.settings.row_tokens = whole_of(task->settings, "context", 0);
    snprintf(folder, sizeof(folder), "/proc/self/fd/%d", task_base(task));
    status = model_config_read(folder, &validation->model, refusal);
    if (status == STATUS_OK)
        status = run_choose(&wishes, &validation->model, validation->model.dtype, &validation->settings, refusal);
    if (status == STATUS_OK)
        status = run_tokenizer(folder, &validation->tokenizer, refusal);
    if (status == STATUS_OK)
        status = run_source("the base", validation->tokenizer, &validation->model, &validation->settings, &validation->source, refusal);
    validation->has_base = status == STATUS_OK;
    return status;
}

enum fault validate_open(struct task *task, struct refusal *refusal)
{
    struct validation *validation = calloc(1, sizeof(*validation));

    task->work = validation;
    if (validation == NULL) {
        refuse(refusal, STATUS_FULL, "no memory");
        return FAULT_MEMORY;
    }
    if (task_grant(task, "train", &validation->training, refusal) != STATUS_OK || task_grant(task, "validation", &validation->held, refusal) != STATUS_OK ||
        task_grant(task, "report", &validation->report, refusal) != STATUS_OK)
        return FAULT_SETTINGS;
    if (validation->training == NULL || validation->report == NULL) {
        refuse(refusal, STATUS_INVALID, "START has no training file, or nowhere to put a report");
        return FAULT_SETTINGS;
    }
    return task_base(task) < 0 || open_base(task, validation, refusal) == STATUS_OK ? FAULT_NONE : FAULT_BASE;
}

/* --- in the sandbox ----------------------------------------------------------------------------------------------------------- */

struct beginning {
    char *bytes;
    size_t count;
};

static bool take_beginning(void *context, const void *bytes, size_t count)
{
    struct beginning *beginning = context;
    const size_t more = (size_t)min_i64((int64_t)count, FIRST_BYTES - (int64_t)beginning->count);

    memcpy(beginning->bytes + beginning->count, bytes, more);
    beginning->count += more;
    return beginning->count < FIRST_BYTES && memchr(bytes, '\n', count) == NULL;
}

/* What START says, or what the first line looks like. */
static enum status choose_method(const struct task *task, struct validation *validation, struct refusal *refusal)
{
    const char *method = json_string_value(json_object_get(task->settings, "method"));
    struct beginning beginning = {.bytes = malloc(FIRST_BYTES)};
    enum status status;

    validation->preferences = method != NULL && strcmp(method, "dpo") == 0;
    if (method != NULL && strcmp(method, "auto") != 0) {
        free(beginning.bytes);
        return STATUS_OK;
    }
    status = beginning.bytes == NULL ? refuse(refusal, STATUS_FULL, "no memory")
                                     : sealed_stream(task, validation->training, "file", take_beginning, &beginning, refusal);
    if (status == STATUS_OK)
        validation->preferences = validate_looks_preferred(beginning.bytes, beginning.count);
    free(beginning.bytes);
    return status;
}

/* A stop is looked at between two pieces. */
struct feed {
    const struct task *task;
    struct validator *validator;
};

static bool put(void *context, const void *bytes, size_t count)
{
    const struct feed *feed = context;

    return feed->task->stop == 0 && validator_put(feed->validator, bytes, count);
}

static enum status look_at(const struct task *task, const struct grant *grant, struct validator *validator, struct refusal *refusal)
{
    struct feed feed = {task, validator};
    const enum status status = sealed_stream(task, grant, "file", put, &feed, refusal);

    if (status == STATUS_OK)
        validator_end(validator);
    return status;
}

static int64_t sum_of(const struct validate_report *report, bool rejecting)
{
    int64_t sum = 0;

    for (enum validate_code code = 0; code < VALIDATE_CODE_COUNT; code++)
        if (validate_code_rejects(code) == rejecting)
            sum += validator_count(report->training, code) + (report->validation != NULL ? validator_count(report->validation, code) : 0);
    return sum;
}

static const char *first_error(const struct validate_report *report)
{
    const struct validator *const both[] = {report->training, report->validation};

    for (size_t at = 0; at < ARRAY_COUNT(both); at++) {
        size_t count = 0;
        const struct validate_issue *issues = both[at] != NULL ? validator_issues(both[at], &count) : NULL;

        for (size_t i = 0; i < count; i++)
            if (validate_code_rejects(issues[i].code))
                return validate_code_name(issues[i].code);
    }
    return NULL;
}

static void say_result(struct task *task, const struct validation *validation, const struct validate_report *report, const struct sealing *written)
{
    const struct validate_statistics *statistics = validator_statistics(report->training);
    struct validate_dry_run plan = {0};
    const char *code = first_error(report);
    struct wire_result result = {.bytes = written->bytes, .grant = validation->report->index};
    json_t *metrics;
    char *text;

    if (validation->has_base)
        (void)validate_plan(report->training, report->epochs, report->batch, &plan);
    metrics = json_pack("{s:b, s:s?, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s}", "accepted", (int)validate_report_accepts(report), "code", code,
                        "errors", (json_int_t)sum_of(report, true), "warnings", (json_int_t)sum_of(report, false), "examples",
                        (json_int_t)statistics->examples, "lines", (json_int_t)statistics->lines, "tokens", (json_int_t)statistics->tokens,
                        "trained_tokens", (json_int_t)statistics->trained_tokens, "epochs", (json_int_t)plan.epochs, "batch", (json_int_t)plan.batch,
                        "steps", (json_int_t)plan.steps, "method", report->preferences ? "dpo" : "supervised");
    text = json_dumps(metrics, JSON_COMPACT);
    memcpy(result.digest, written->digest, sizeof(result.digest));
    result.tokens = (uint64_t)plan.tokens;
    result.metrics = (const uint8_t *)text;
    result.metrics_count = text != NULL ? (uint32_t)strlen(text) : 0;
    task_say(task, WIRE_RESULT, &result);
    free(text);
    json_decref(metrics);
}

static enum fault report(struct task *task, const struct validation *validation, const struct validate_report *report, struct refusal *refusal)
{
    json_t *all = validate_report_json(report);
    char *text = json_dumps(all, VALIDATE_REPORT_FORM);
    struct sealing written;
    enum status status = text == NULL ? refuse(refusal, STATUS_FULL, "no memory for a report")
                                      : seal_whole(task, validation->report, "report", text, (int64_t)strlen(text), &written, refusal);

    free(text);
    json_decref(all);
    if (status != STATUS_OK)
        return status == STATUS_FULL ? FAULT_MEMORY : FAULT_OUTPUT;
    say_result(task, validation, report, &written);
    return FAULT_NONE;
}

static enum fault validate(struct task *task, struct validation *validation, struct refusal *refusal)
{
    struct validate_config config = {.examples_min = 1, .line_bytes_max = VALIDATE_LINE_BYTES};
    struct validate_report all = {.context = validation->has_base ? validation->source.tokens_max : 0,
                                  .epochs = whole_of(task->settings, "epochs", 0), .batch = whole_of(task->settings, "batch", 0)};
    struct validator *training = NULL;
    struct validator *held = NULL;
    enum fault fault = FAULT_OBJECT;
    enum status status = choose_method(task, validation, refusal);

    config.preferences = validation->preferences;
    validation->source.preferences = validation->preferences;
    config.source = validation->has_base ? &validation->source : NULL;
    config.any_base = !validation->has_base;
    if (status == STATUS_OK && validation->held != NULL) {
        held = validator_open(&config, NULL);
        status = look_at(task, validation->held, held, refusal);
    }
    if (status == STATUS_OK) {
        config.examples_min = max_i64(whole_of(task->settings, "examples_min", VALIDATE_EXAMPLES_MIN), 1);
        training = validator_open(&config, held);
        status = look_at(task, validation->training, training, refusal);
    }
    all.training = training;
    all.validation = held;
    all.preferences = validation->preferences;
    if (status == STATUS_OK)
        fault = task->stop != 0 ? FAULT_NONE : report(task, validation, &all, refusal);
    validator_close(training);
    validator_close(held);
    return fault;
}

void validate_work(struct task *task)
{
    struct refusal refusal = {{0}};
    const enum fault fault = validate(task, task->work, &refusal);

    if (fault != FAULT_NONE)
        task_say_failed(task, 0, fault, refusal.text);
}

void validate_close(struct task *task)
{
    struct validation *validation = task->work;

    if (validation != NULL)
        tokenizer_close(validation->tokenizer);
    free(validation);
}
