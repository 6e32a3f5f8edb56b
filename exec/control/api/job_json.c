/* How a job is shown: OpenAI's fields, all of them always, and ours beside them. */
#include "control/api/jobs.h"

#include <stdio.h>

#include "control/api/job_settings.h"
#include "control/metadata/model.h"

json_t *row_json(const char *text)
{
    json_t *json = text != NULL ? json_loads(text, 0, NULL) : NULL;

    if (json_is_object(json))
        return json;
    json_decref(json);
    return json_object();
}

/* --- words of the tenant's -------------------------------------------------------------------------------------------------- */

static bool open_words(struct api *api, const char *tenant, const char *purpose, const char *id, struct meta_bytes sealed, char *ret_words,
                       struct fault *fault)
{
    struct refusal refusal = {{0}};
    enum status status = STATUS_CORRUPT;

    if (sealed.count >= VAULT_SEALED_EXTRA && sealed.count - VAULT_SEALED_EXTRA < WORDS_BYTES_MAX)
        status = vault_text_open(api->config.vault, tenant, purpose, id, sealed.bytes, sealed.count, ret_words, &refusal);
    else
        snprintf(refusal.text, sizeof(refusal.text), "sealed words have another size");
    if (status != STATUS_OK) {
        fault_from(api, fault, status == STATUS_NOT_FOUND ? STATUS_CORRUPT : status, &refusal);
        return false;
    }
    ret_words[sealed.count - VAULT_SEALED_EXTRA] = '\0';
    return true;
}

json_t *job_words(struct api *api, const struct meta_job *job, struct fault *fault)
{
    char text[WORDS_BYTES_MAX];

    if (job->sealed.count == 0)
        return json_object();
    return open_words(api, job->tenant, JOB_WORDS, job->id, job->sealed, text, fault) ? row_json(text) : NULL;
}

bool event_words(struct api *api, const char *tenant, const char *job, const struct meta_event *event, char ret_words[WORDS_BYTES_MAX],
                 struct fault *fault)
{
    char id[NAME_BYTES + 24];

    snprintf(id, sizeof(id), "%s-%lld", job, (long long)event->n);
    return open_words(api, tenant, EVENT_WORDS, id, event->sealed, ret_words, fault);
}

/* --- parts ------------------------------------------------------------------------------------------------------------------ */

static const char *shown_state(const struct meta_job *job)
{
    const enum meta_job_state state = meta_job_state_parse(job->state);

    switch (state == META_JOB_STOPPING ? meta_job_state_parse(job->target) : state) {
    case META_JOB_VALIDATING: return "validating_files";
    case META_JOB_QUEUED:
    case META_JOB_STARTING: return "queued";
    case META_JOB_PAUSED: return "paused";
    case META_JOB_SUCCEEDED: return "succeeded";
    case META_JOB_FAILED: return "failed";
    case META_JOB_CANCELLED: return "cancelled";
    default: return "running";
    }
}

static json_t *number_or_auto(int64_t value)
{
    return value > 0 ? json_integer((json_int_t)value) : json_string("auto");
}

static json_t *real_or_auto(double value)
{
    return value > 0 ? json_real(value) : json_string("auto");
}

/* "auto" until the files are read; then the numbers that are used. */
static json_t *hyperparameters_json(const struct job_settings *settings)
{
    json_t *json = json_pack("{s:o,s:o,s:o,s:o,s:o,s:o}", "n_epochs", number_or_auto(settings->epochs), "batch_size",
                             number_or_auto(settings->batch), "learning_rate_multiplier", real_or_auto(settings->rate_multiplier),
                             "learning_rate", real_or_auto(settings->rate), "rank", number_or_auto(settings->rank), "alpha",
                             real_or_auto(settings->alpha));

    check(json != NULL);
    if (settings->preferences)
        json_object_set_new(json, "beta", real_or_auto(settings->beta));
    if (settings->patience > 0)
        json_object_set_new(json, "early_stopping", json_pack("{s:b,s:I,s:f}", "enabled", true, "patience", (json_int_t)settings->patience,
                                                              "min_delta", settings->min_delta));
    return json;
}

static void add_settings(json_t *json, const struct job_settings *settings)
{
    json_t *numbers = hyperparameters_json(settings);
    const char *method = job_method(settings);

    json_object_set_new(json, "method", json_pack("{s:s,s:{s:O}}", "type", method, method, "hyperparameters", numbers));
    json_object_set_new(json, "hyperparameters", numbers);
    json_object_set_new(json, "dry_run", json_boolean(settings->dry_run != 0));
    json_object_set_new(json, "seed", json_integer((json_int_t)settings->seed));
    json_object_set_new(json, "user_provided_suffix", settings->suffix[0] != '\0' ? json_string(settings->suffix) : json_null());
}

/* code, message, param: of its newest event that is an error, whose words are the tenant's own. */
static bool add_error(struct api *api, struct metadata *metadata, const struct meta_job *job, json_t *json, struct fault *fault)
{
    struct meta_results results = {0};
    struct refusal refusal = {{0}};
    struct meta_event *event;
    char message[WORDS_BYTES_MAX];
    uint32_t count = 0;
    bool more;
    enum status status;

    if (meta_job_state_parse(job->state) != META_JOB_FAILED) {
        json_object_set_new(json, "error", json_null());
        return true;
    }
    snprintf(message, sizeof(message), "the job has failed");
    status = meta_event_list(metadata, job->tenant, job->id, INT64_MAX, 1, &results, &event, &count, &more, &refusal);
    if (status != STATUS_OK)
        fault_from(api, fault, status, &refusal);
    else if (count > 0 && strcmp(event->level, "error") == 0)
        (void)event_message(api, metadata, job, event, message, fault);
    meta_results_free(&results);
    if (fault->status == 0)
        json_object_set_new(json, "error", json_pack("{s:s,s:s,s:s?}", "code", job->reason != NULL ? job->reason : "failed", "message", message,
                                                     "param", job->reason != NULL && strcmp(job->reason, "invalid_training_file") == 0
                                                                  ? "training_file"
                                                                  : job->reason != NULL && strcmp(job->reason, "invalid_validation_file") == 0
                                                                        ? "validation_file"
                                                                        : NULL));
    return fault->status == 0;
}

/* The model that it goes on from, by its name, or the base. */
static bool add_model(struct api *api, struct metadata *metadata, const struct meta_job *job, json_t *json, struct fault *fault)
{
    struct meta_results results = {0};
    struct refusal refusal = {{0}};
    struct meta_model model;
    enum status status = STATUS_NOT_FOUND;

    if (job->parent != NULL)
        status = meta_model_get(metadata, job->tenant, job->parent, &results, &model, &refusal);
    if (status != STATUS_OK && status != STATUS_NOT_FOUND)
        fault_from(api, fault, status, &refusal);
    else
        json_object_set_new(json, "model", json_string(status == STATUS_OK ? model.name : job->base));
    meta_results_free(&results);
    return fault->status == 0;
}

/* What came of it: the model's name, and the table of its steps as a file. */
static bool add_results(struct api *api, struct metadata *metadata, const struct meta_job *job, json_t *json, struct fault *fault)
{
    struct meta_results results = {0};
    struct refusal refusal = {{0}};
    struct meta_model *model;
    struct meta_file file;
    char results_file[NAME_BYTES];
    uint32_t count = 0;
    bool more;
    enum status status = STATUS_OK;

    json_object_set_new(json, "fine_tuned_model", json_null());
    json_object_set_new(json, "result_files", json_array());
    if (meta_job_state_parse(job->state) != META_JOB_SUCCEEDED)
        return true;
    status = meta_model_of_job(metadata, job->tenant, job->id, META_NONE, 1, &results, &model, &count, &more, &refusal);
    if (status == STATUS_OK && count > 0 && model->step == META_NONE)
        json_object_set_new(json, "fine_tuned_model", json_string(model->name));
    driver_results_file(job->id, results_file);
    if (status == STATUS_OK)
        status = meta_file_get(metadata, job->tenant, results_file, &results, &file, &refusal);
    if (status == STATUS_OK)
        json_array_append_new(json_object_get(json, "result_files"), json_string(results_file));
    else if (status != STATUS_NOT_FOUND)
        fault_from(api, fault, status, &refusal);
    meta_results_free(&results);
    return fault->status == 0;
}

static json_t *seconds_or_null(int64_t at_ms)
{
    return at_ms != META_NONE ? json_integer((json_int_t)(at_ms / 1000)) : json_null();
}

/* Known once the files are read: checks.c put it beside the settings. */
static void add_estimate(const struct meta_job *job, json_t *json)
{
    json_t *all = row_json(job->settings);
    json_t *estimate = json_object_get(all, "estimate");

    json_object_set_new(json, "estimate", estimate != NULL ? json_incref(estimate) : json_null());
    json_decref(all);
}

/* How far it is, as the driver knows it. */
static void add_progress(struct api *api, const struct meta_job *job, json_t *json)
{
    struct driver_job view = {.estimated_finish_at_ms = META_NONE};
    const bool known = api->config.driver != NULL && driver_job_view(api->config.driver, job->id, &view);

    json_object_set_new(json, "estimated_finish", known ? seconds_or_null(view.estimated_finish_at_ms) : json_null());
    json_object_set_new(json, "queue_position", known && view.queue_position > 0 ? json_integer(view.queue_position) : json_null());
    json_object_set_new(json, "progress", known && view.steps > 0 ? json_pack("{s:I,s:I}", "step", (json_int_t)view.step, "total_steps",
                                                                              (json_int_t)view.steps)
                                                                  : json_null());
}

json_t *job_json(struct api *api, struct metadata *metadata, const struct meta_job *job, struct fault *fault)
{
    struct job_settings settings;
    struct refusal refusal = {{0}};
    const enum status status = job_settings_read(job->settings, &settings, &refusal);
    json_t *words = job_words(api, job, fault);
    json_t *own = json_object_get(words, "metadata");
    json_t *json;

    if (status != STATUS_OK)
        fault_from(api, fault, status, &refusal);
    if (fault->status != 0) {
        json_decref(words);
        return NULL;
    }
    json = json_pack("{s:s,s:s,s:I,s:o,s:s,s:s,s:s,s:s?,s:o,s:[],s:f,s:{},s:b}", "id", job->id, "object", "fine_tuning.job", "created_at",
                     (json_int_t)(job->created_at_ms / 1000), "finished_at", seconds_or_null(job->finished_at_ms), "organization_id",
                     job->tenant, "status", shown_state(job), "training_file", job->file, "validation_file", job->validation, "trained_tokens",
                     job->trained_tokens > 0 ? json_integer((json_int_t)job->trained_tokens) : json_null(), "integrations", "gpu_seconds",
                     (double)job->gpu_ms / 1000, "usage_metrics", "shared_with_openai", false);
    check(json != NULL);
    json_object_set_new(json, "metadata", own != NULL ? json_incref(own) : json_null());
    json_decref(words);
    add_settings(json, &settings);
    add_estimate(job, json);
    add_progress(api, job, json);
    if (add_model(api, metadata, job, json, fault) && add_results(api, metadata, job, json, fault) &&
        add_error(api, metadata, job, json, fault))
        return json;
    json_decref(json);
    return NULL;
}
