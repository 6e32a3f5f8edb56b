/* Jobs made, listed, looked at, and told to stop or go on. What a job becomes is the driver's: it is told after each commit. */
#include "control/api/jobs.h"

#include <stdio.h>
#include <stdlib.h>

#include "control/api/job_request.h"
#include "control/api/repeat.h"
#include "control/metadata/audit.h"
#include "control/metadata/job_wish.h"
#include "control/metadata/model.h"

#define PATH "/v1/fine_tuning/jobs"
#define LIST_DEFAULT 20

static void answer_job(struct call *call, struct metadata *metadata, const char *id)
{
    struct meta_results results = {0};
    struct refusal refusal = {{0}};
    struct fault fault = {0};
    struct meta_job job;
    json_t *json = NULL;
    const enum status status = meta_job_get(metadata, call->caller.tenant, id, &results, &job, &refusal);

    if (status == STATUS_OK)
        json = job_json(call->api, metadata, &job, &fault);
    else
        fault_from(call->api, &fault, status, &refusal);
    meta_results_free(&results);
    if (json != NULL)
        http_answer_json(call->request, 200, json);
    else
        fault_answer(call->request, &fault);
}

void job_get(struct call *call, struct metadata *metadata)
{
    answer_job(call, metadata, http_id(call->request, 0));
}

static void tell_driver(const struct call *call, const char *job)
{
    if (call->api->config.driver != NULL)
        driver_job_changed(call->api->config.driver, call->caller.tenant, job);
}

/* --- made ------------------------------------------------------------------------------------------------------------------- */

struct creation {
    const struct meta_caller *caller;
    struct repeat repeat;
    struct meta_job_new job;
    char id[NAME_BYTES];
    char base[NAME_BYTES];
    char parent[NAME_BYTES];
    uint8_t sealed[WORDS_BYTES_MAX + VAULT_SEALED_EXTRA];
    char *settings;
    int64_t now_ms;
    bool again;
};

static enum status create_rows(struct metadata *metadata, void *context, struct refusal *refusal)
{
    struct creation *creation = context;
    const char *tenant = creation->caller->tenant;
    char before[NAME_BYTES];
    enum status status = repeat_look(metadata, &creation->repeat, tenant, creation->id, creation->now_ms, &creation->again, before, refusal);

    if (status == STATUS_OK && creation->again) {
        memcpy(creation->id, before, sizeof(before));
        return STATUS_OK;
    }
    if (status == STATUS_OK)
        status = meta_job_add(metadata, &creation->job, creation->now_ms, refusal);
    if (status == STATUS_OK)
        status = meta_event_add(metadata, tenant, creation->id, "info", "created", NULL, (struct meta_bytes){NULL, 0}, creation->now_ms, NULL,
                                refusal);
    return status == STATUS_OK ? meta_audit_add(metadata, tenant, creation->caller->key, "job.create", creation->id, creation->now_ms, refusal)
                               : status;
}

static bool find_model(struct call *call, struct metadata *metadata, const char *name, struct creation *creation, struct fault *fault)
{
    struct meta_results results = {0};
    struct refusal refusal = {{0}};
    struct meta_model model;
    const enum status status = meta_name_resolve(metadata, call->caller.tenant, name, &results, &model, &refusal);

    if (status == STATUS_OK) {
        snprintf(creation->base, sizeof(creation->base), "%s", model.base);
        snprintf(creation->parent, sizeof(creation->parent), "%s", model.id != NULL ? model.id : "");
    } else if (status == STATUS_NOT_FOUND) {
        fault_set(fault, 400, "model_not_found", "model",
                  "there is no such model here, or it is not yours; GET /v1/models lists what can be tuned: bases of this platform, and your own");
    } else {
        fault_from(call->api, fault, status, &refusal);
    }
    meta_results_free(&results);
    return fault->status == 0;
}

static bool find_file(struct call *call, struct metadata *metadata, const char *id, const char *param, struct fault *fault)
{
    struct meta_results results = {0};
    struct refusal refusal = {{0}};
    struct meta_file file = {0};
    const enum status status = id != NULL ? meta_file_get(metadata, call->caller.tenant, id, &results, &file, &refusal) : STATUS_OK;

    if (status == STATUS_NOT_FOUND)
        fault_set(fault, 400, "file_not_found", param, "%s: there is no such file, or it is not yours", param);
    else if (status != STATUS_OK)
        fault_from(call->api, fault, status, &refusal);
    else if (id != NULL && strcmp(file.state, "error") == 0)
        fault_set(fault, 400, "invalid_file", param, "%s: this file was found faulty; its status_details say how", param);
    meta_results_free(&results);
    return fault->status == 0;
}

/* The tenant's words, under the job's id. */
static bool seal_words(struct call *call, const json_t *words, struct creation *creation, struct fault *fault)
{
    json_t *whole = words != NULL ? json_pack("{s:O}", "metadata", words) : NULL;
    char *text = whole != NULL ? json_dumps(whole, JSON_COMPACT) : NULL;
    struct refusal refusal = {{0}};
    enum status status = STATUS_OK;

    if (text != NULL && strlen(text) >= WORDS_BYTES_MAX) {
        fault_set(fault, 400, NULL, "metadata", "metadata must be at most %d bytes in all", WORDS_BYTES_MAX - 1);
    } else if (text != NULL) {
        status = vault_text_seal(call->api->config.vault, call->caller.tenant, JOB_WORDS, creation->id, text, strlen(text), creation->sealed,
                                 &refusal);
        creation->job.sealed = (struct meta_bytes){creation->sealed, strlen(text) + VAULT_SEALED_EXTRA};
    }
    if (status != STATUS_OK)
        fault_from(call->api, fault, status, &refusal);
    free(text);
    json_decref(whole);
    return fault->status == 0;
}

static char *settings_text(const struct job_settings *settings)
{
    json_t *json = job_settings_json(settings);
    char *text = json_dumps(json, JSON_COMPACT);

    check(text != NULL);
    json_decref(json);
    return text;
}

static enum status keep(struct call *call, const struct job_request *request, struct creation *creation, struct refusal *refusal)
{
    creation->settings = settings_text(&request->settings);
    creation->job = (struct meta_job_new){.tenant = call->caller.tenant, .id = creation->id, .base = creation->base,
                                          .parent = creation->parent[0] != '\0' ? creation->parent : NULL, .file = request->file,
                                          .validation = request->validation, .settings = creation->settings, .sealed = creation->job.sealed};
    creation->now_ms = api_now_ms();
    repeat_identify_body(call->api, call->request, PATH, &creation->repeat);
    return meta_writer_call(call->api->config.writer, create_rows, creation, refusal);
}

static void create(struct call *call, struct metadata *metadata, const json_t *body, struct creation *creation)
{
    struct refusal refusal = {{0}};
    struct fault fault = {0};
    struct job_request request;

    meta_id("ftjob-", creation->id);
    if (job_request_read(body, &request, &fault) && find_model(call, metadata, request.model, creation, &fault) &&
        find_file(call, metadata, request.file, "training_file", &fault) &&
        find_file(call, metadata, request.validation, "validation_file", &fault) && seal_words(call, request.metadata, creation, &fault)) {
        const enum status status = keep(call, &request, creation, &refusal);

        if (status == STATUS_INVALID)
            fault_set(&fault, 400, NULL, NULL, "%.200s", refusal.text);
        else if (status != STATUS_OK)
            fault_from(call->api, &fault, status, &refusal);
    }
    if (fault.status != 0) {
        fault_answer(call->request, &fault);
        return;
    }
    tell_driver(call, creation->id);
    answer_job(call, metadata, creation->id);
}

void job_create(struct call *call, struct metadata *metadata)
{
    struct creation *creation = calloc(1, sizeof(*creation));
    json_t *body;

    check(creation != NULL);
    creation->caller = &call->caller;
    if (http_retry_of(call->request, &creation->repeat.retry) && (body = http_json(call->request)) != NULL) {
        create(call, metadata, body, creation);
        json_decref(body);
    }
    free(creation->settings);
    free(creation);
}

/* --- listed ----------------------------------------------------------------------------------------------------------------- */

/* metadata[KEY]=VALUE, all of them; metadata= (none at all) is how clients say null. */
static bool matches(struct call *call, const struct meta_job *job, bool *ret_matches, struct fault *fault)
{
    json_t *words = NULL;
    const char *name;
    const char *value;

    *ret_matches = true;
    for (uint32_t i = 0; *ret_matches && http_query_at(call->request, i, &name, &value); i++) {
        char key[512];
        const char *own;

        if (strcmp(name, "metadata") != 0 && (strncmp(name, "metadata[", 9) != 0 || strlen(name) > sizeof(key)))
            continue;
        if (words == NULL && (words = job_words(call->api, job, fault)) == NULL)
            return false;
        if (strcmp(name, "metadata") == 0) {
            *ret_matches = value[0] != '\0' || json_object_get(words, "metadata") == NULL;
            continue;
        }
        snprintf(key, sizeof(key), "%.*s", (int)strcspn(name + 9, "]"), name + 9);
        own = json_string_value(json_object_get(json_object_get(words, "metadata"), key));
        *ret_matches = own != NULL && strcmp(own, value) == 0;
    }
    json_decref(words);
    return true;
}

/* Those of a page of rows that match, up to one more than are wanted: so it is known whether there are more. */
static bool add_some(struct call *call, struct metadata *metadata, struct meta_page *page, char after[NAME_BYTES], uint32_t wanted, json_t *data,
                     bool *ret_more, struct fault *fault)
{
    struct meta_results results = {0};
    struct refusal refusal = {{0}};
    struct meta_job *jobs = NULL;
    uint32_t count = 0;
    const enum status status = meta_job_list(metadata, call->caller.tenant, page, &results, &jobs, &count, ret_more, &refusal);

    if (status != STATUS_OK)
        fault_from(call->api, fault, status, &refusal);
    for (uint32_t i = 0; fault->status == 0 && i < count && json_array_size(data) <= wanted; i++) {
        bool wanted_one;
        json_t *json = NULL;

        if (matches(call, &jobs[i], &wanted_one, fault) && wanted_one)
            json = job_json(call->api, metadata, &jobs[i], fault);
        if (json != NULL)
            json_array_append_new(data, json);
        memcpy(after, jobs[i].id, strlen(jobs[i].id) + 1);
        page->after = after;
    }
    meta_results_free(&results);
    return fault->status == 0;
}

void job_list(struct call *call, struct metadata *metadata)
{
    struct fault fault = {0};
    struct http_page asked;
    struct meta_page page;
    char after[NAME_BYTES];
    json_t *data;
    bool more = true;
    bool has_more;

    if (!http_page_of(call->request, LIST_DEFAULT, META_PAGE_MAX, &asked))
        return;
    page = (struct meta_page){.after = asked.after, .limit = META_PAGE_MAX, .oldest_first = asked.ascending};
    data = json_array();
    while (more && fault.status == 0 && json_array_size(data) <= asked.limit)
        (void)add_some(call, metadata, &page, after, asked.limit, data, &more, &fault);
    has_more = json_array_size(data) > asked.limit;
    if (has_more)
        json_array_remove(data, asked.limit);
    if (fault.status == 0) {
        http_answer_json(call->request, 200, http_page_json(data, has_more));
        return;
    }
    json_decref(data);
    fault_answer(call->request, &fault);
}

/* --- told to stop, or to go on ---------------------------------------------------------------------------------------------- */

struct wishing {
    const struct meta_caller *caller;
    const char *job;
    enum meta_job_wish wish;
    struct meta_job_wished wished;
};

static enum status wish_rows(struct metadata *metadata, void *context, struct refusal *refusal)
{
    struct wishing *wishing = context;

    return meta_job_ask(metadata, wishing->caller->tenant, wishing->job, wishing->wish, wishing->caller->key, api_now_ms(), &wishing->wished,
                        refusal);
}

static void fulfil(struct call *call, struct metadata *metadata, enum meta_job_wish wish)
{
    struct wishing wishing = {.caller = &call->caller, .job = http_id(call->request, 0), .wish = wish};
    struct refusal refusal = {{0}};
    struct fault fault = {0};
    const enum status status = meta_writer_call(call->api->config.writer, wish_rows, &wishing, &refusal);

    if (status == STATUS_INVALID)
        fault_set(&fault, 400, "invalid_state", NULL, "the job is %s: that can't be done with it any more", wishing.wished.state);
    else if (status == STATUS_CONFLICT)
        fault_set(&fault, 400, "invalid_state", NULL, "the job is being cancelled: that can't be done with it any more");
    else if (status != STATUS_OK)
        fault_from(call->api, &fault, status, &refusal);
    if (fault.status != 0) {
        fault_answer(call->request, &fault);
        return;
    }
    if (!wishing.wished.was_so)
        tell_driver(call, wishing.job);
    answer_job(call, metadata, wishing.job);
}

void job_cancel(struct call *call, struct metadata *metadata)
{
    fulfil(call, metadata, META_JOB_CANCEL);
}

void job_pause(struct call *call, struct metadata *metadata)
{
    fulfil(call, metadata, META_JOB_PAUSE);
}

void job_resume(struct call *call, struct metadata *metadata)
{
    fulfil(call, metadata, META_JOB_RESUME);
}
