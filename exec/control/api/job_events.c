/* What happened to a job: its events, and the checkpoints that may be tried by name. A message of ours is made of code and numbers when it is
 * read; words of the tenant's lie sealed and are opened for their owner. */
#include "control/api/jobs.h"

#include <stdio.h>
#include <stdlib.h>

#include "control/metadata/model.h"

#define EVENTS_DEFAULT 20
#define CHECKPOINTS_DEFAULT 10
#define EVENT_ID "ftevent-%s-%lld" /* the job's letters and the event's number: so an id tells where a page ends */

/* --- messages --------------------------------------------------------------------------------------------------------------- */

static double number(const json_t *metrics, const char *name)
{
    return json_number_value(json_object_get(metrics, name));
}

/* "Step 3/30: training loss=0.15, validation loss=0.27". */
static void metrics_message(const json_t *metrics, char *ret_message, size_t size)
{
    int length = snprintf(ret_message, size, "Step %lld/%lld: training loss=%.2f", (long long)json_integer_value(json_object_get(metrics, "step")),
                          (long long)json_integer_value(json_object_get(metrics, "total_steps")), number(metrics, "train_loss"));

    if (json_is_number(json_object_get(metrics, "valid_loss")))
        length += snprintf(ret_message + length, size - (size_t)length, ", validation loss=%.2f", number(metrics, "valid_loss"));
    if (json_is_number(json_object_get(metrics, "full_valid_loss")))
        (void)snprintf(ret_message + length, size - (size_t)length, ", full validation loss=%.2f", number(metrics, "full_valid_loss"));
}

static bool model_message(struct api *api, struct metadata *metadata, const struct meta_job *job, char *ret_message, size_t size,
                          struct fault *fault)
{
    struct meta_results results = {0};
    struct refusal refusal = {{0}};
    struct meta_model *model;
    uint32_t count = 0;
    bool more;
    const enum status status = meta_model_of_job(metadata, job->tenant, job->id, META_NONE, 1, &results, &model, &count, &more, &refusal);

    if (status != STATUS_OK)
        fault_from(api, fault, status, &refusal);
    else if (count > 0 && model->step == META_NONE)
        snprintf(ret_message, size, "New fine-tuned model created: %s", model->name);
    else
        snprintf(ret_message, size, "New fine-tuned model created; it was deleted since");
    meta_results_free(&results);
    return fault->status == 0;
}

static const struct {
    const char *code;
    const char *text;
} sayings[] = {
    {"validated", "Files validated, moving job to queued state"},
    {"dry_run", "Files validated; this is a dry run, so nothing is trained"},
    {"started", "Fine-tuning job started"},
    {"cancelled", "Fine-tuning job cancelled"},
    {"paused", "Fine-tuning job paused"},
    {"resumed", "Fine-tuning job resumed"},
    {"succeeded", "The job has successfully completed"},
    {"attempt_failed", "The attempt failed; the job goes on from its last checkpoint"},
    {"invalid_training_file", "The training file was found faulty"},
    {"invalid_validation_file", "The validation file was found faulty"},
};

static void code_message(const struct meta_event *event, const json_t *metrics, char *ret_message, size_t size)
{
    for (size_t i = 0; i < ARRAY_COUNT(sayings); i++) {
        if (strcmp(sayings[i].code, event->code) == 0) {
            snprintf(ret_message, size, "%s", sayings[i].text);
            return;
        }
    }
    if (strcmp(event->code, "checkpoint") == 0)
        snprintf(ret_message, size, "Checkpoint created at step %lld", (long long)json_integer_value(json_object_get(metrics, "step")));
    else
        snprintf(ret_message, size, "%s", event->code);
}

bool event_message(struct api *api, struct metadata *metadata, const struct meta_job *job, const struct meta_event *event,
                   char ret_message[WORDS_BYTES_MAX], struct fault *fault)
{
    json_t *metrics = row_json(event->metrics);
    bool good = true;

    if (event->sealed.count > 0)
        good = event_words(api, job->tenant, job->id, event, ret_message, fault);
    else if (strcmp(event->code, "created") == 0)
        snprintf(ret_message, WORDS_BYTES_MAX, "Created fine-tuning job: %s", job->id);
    else if (strcmp(event->code, "metrics") == 0)
        metrics_message(metrics, ret_message, WORDS_BYTES_MAX);
    else if (strcmp(event->code, "model_created") == 0)
        good = model_message(api, metadata, job, ret_message, WORDS_BYTES_MAX, fault);
    else
        code_message(event, metrics, ret_message, WORDS_BYTES_MAX);
    json_decref(metrics);
    return good;
}

/* --- events ----------------------------------------------------------------------------------------------------------------- */

static const char *letters_of(const char *job)
{
    const char *dash = strrchr(job, '-');

    return dash != NULL ? dash + 1 : job;
}

static json_t *event_json(struct api *api, struct metadata *metadata, const struct meta_job *job, const struct meta_event *event,
                          struct fault *fault)
{
    const bool is_metrics = strcmp(event->code, "metrics") == 0;
    char message[WORDS_BYTES_MAX];
    char id[2 * NAME_BYTES];
    json_t *json;

    if (!event_message(api, metadata, job, event, message, fault))
        return NULL;
    snprintf(id, sizeof(id), EVENT_ID, letters_of(job->id), (long long)event->n);
    json = json_pack("{s:s,s:s,s:I,s:s,s:s,s:s,s:s,s:o}", "object", "fine_tuning.job.event", "id", id, "created_at",
                     (json_int_t)(event->at_ms / 1000), "level", event->level, "code", event->code, "message", message, "type",
                     is_metrics ? "metrics" : "message", "data", row_json(event->metrics));
    check(json != NULL);
    return json;
}

/* The number at an id's end, if it is of this job; INT64_MAX: from the newest on; 0: nothing follows an unknown one. */
static int64_t number_after(const char *after, const char *job)
{
    char expected[2 * NAME_BYTES];
    const char *dash = after != NULL ? strrchr(after, '-') : NULL;
    int64_t n;

    if (after == NULL)
        return INT64_MAX;
    if (dash == NULL)
        return 0;
    n = strtoll(dash + 1, NULL, 10);
    snprintf(expected, sizeof(expected), EVENT_ID, letters_of(job), (long long)n);
    return strcmp(expected, after) == 0 ? n : 0;
}

static bool get_job(struct call *call, struct metadata *metadata, struct meta_results *results, struct meta_job *ret_job, struct fault *fault)
{
    struct refusal refusal = {{0}};
    const enum status status = meta_job_get(metadata, call->caller.tenant, http_id(call->request, 0), results, ret_job, &refusal);

    if (status != STATUS_OK)
        fault_from(call->api, fault, status, &refusal);
    return status == STATUS_OK;
}

static void answer_page(struct call *call, json_t *data, bool more, const struct fault *fault)
{
    if (fault->status == 0) {
        http_answer_json(call->request, 200, http_page_json(data, more));
        return;
    }
    json_decref(data);
    fault_answer(call->request, fault);
}

void job_events(struct call *call, struct metadata *metadata)
{
    struct meta_results results = {0};
    struct refusal refusal = {{0}};
    struct fault fault = {0};
    struct meta_event *events = NULL;
    struct meta_job job;
    struct http_page asked;
    json_t *data;
    uint32_t count = 0;
    bool more = false;

    if (!http_page_of(call->request, EVENTS_DEFAULT, META_PAGE_MAX, &asked))
        return;
    data = json_array();
    if (get_job(call, metadata, &results, &job, &fault)) {
        const enum status status = meta_event_list(metadata, job.tenant, job.id, number_after(asked.after, job.id), asked.limit, &results, &events,
                                                   &count, &more, &refusal);

        if (status != STATUS_OK)
            fault_from(call->api, &fault, status, &refusal);
        for (uint32_t i = 0; fault.status == 0 && i < count; i++)
            json_array_append_new(data, event_json(call->api, metadata, &job, &events[i], &fault));
    }
    meta_results_free(&results);
    answer_page(call, data, more, &fault);
}

/* --- checkpoints ------------------------------------------------------------------------------------------------------------ */

static json_t *checkpoint_json(const struct meta_model *model)
{
    json_t *lineage = row_json(model->lineage);
    json_t *metrics = json_object_get(lineage, "metrics");
    json_t *json;
    char id[2 * NAME_BYTES];

    snprintf(id, sizeof(id), "ftckpt_%s-%lld", letters_of(model->job), (long long)model->step);
    json = json_pack("{s:s,s:s,s:I,s:s,s:I,s:s,s:o}", "object", "fine_tuning.job.checkpoint", "id", id, "created_at",
                     (json_int_t)(model->created_at_ms / 1000), "fine_tuned_model_checkpoint", model->name, "step_number",
                     (json_int_t)model->step, "fine_tuning_job_id", model->job, "metrics",
                     json_is_object(metrics) ? json_incref(metrics) : json_object());
    check(json != NULL);
    json_object_set_new(json_object_get(json, "metrics"), "step", json_integer((json_int_t)model->step));
    json_decref(lineage);
    return json;
}

/* The step at an id's end; META_NONE: from the newest on. */
static int64_t step_after(const char *after)
{
    const char *dash = after != NULL ? strrchr(after, '-') : NULL;

    return after == NULL ? META_NONE : dash != NULL ? strtoll(dash + 1, NULL, 10) : 0;
}

void job_checkpoints(struct call *call, struct metadata *metadata)
{
    struct meta_results results = {0};
    struct refusal refusal = {{0}};
    struct fault fault = {0};
    struct meta_model *models = NULL;
    struct meta_job job;
    struct http_page asked;
    json_t *data;
    uint32_t count = 0;
    bool more = false;

    if (!http_page_of(call->request, CHECKPOINTS_DEFAULT, META_PAGE_MAX - 1, &asked))
        return;
    data = json_array();
    if (get_job(call, metadata, &results, &job, &fault)) {
        /* One more, for the first may be the result, which is no checkpoint. */
        const enum status status = meta_model_of_job(metadata, job.tenant, job.id, step_after(asked.after), asked.limit + 1, &results, &models,
                                                     &count, &more, &refusal);

        if (status != STATUS_OK)
            fault_from(call->api, &fault, status, &refusal);
        for (uint32_t i = 0; fault.status == 0 && i < count; i++) {
            if (models[i].step == META_NONE)
                continue;
            if (json_array_size(data) == asked.limit)
                more = true;
            else
                json_array_append_new(data, checkpoint_json(&models[i]));
        }
    }
    meta_results_free(&results);
    answer_page(call, data, more, &fault);
}
