/* What operators see of jobs and models, and may do: ids, states, codes and counts. Words of tenants are not among them. */
#include <stdio.h>

#include "control/admin/internal.h"
#include "control/metadata/audit.h"
#include "control/metadata/job_wish.h"
#include "control/metadata/model.h"
#include "control/metadata/usage.h"

/* The id that a page begins after; NULL: none. */
static const char *page_after(const struct asked *asked)
{
    return json_string_value(json_object_get(asked->request, "after"));
}

/* --- jobs ------------------------------------------------------------------------------------------------------------------- */

static json_t *job_json(const struct meta_job *job)
{
    json_t *object = json_object();

    admin_text(object, "id", job->id);
    admin_text(object, "state", job->state);
    admin_text(object, "target", job->target);
    admin_text(object, "base", job->base);
    admin_text(object, "parent", job->parent);
    admin_text(object, "file", job->file);
    admin_text(object, "validation", job->validation);
    admin_text(object, "reason", job->reason);
    admin_number(object, "attempt", job->attempt);
    admin_number(object, "crashes", job->crashes);
    admin_number(object, "gpu_ms", job->gpu_ms);
    admin_number(object, "trained_tokens", job->trained_tokens);
    admin_number(object, "created_at_ms", job->created_at_ms);
    admin_number(object, "finished_at_ms", job->finished_at_ms);
    return object;
}

enum status admin_job_list(struct metadata *metadata, struct asked *asked, struct refusal *refusal)
{
    const struct meta_page page = {.after = page_after(asked), .limit = ROWS, .oldest_first = true};
    struct meta_results results = {0};
    struct meta_job *jobs = NULL;
    json_t *list = json_array();
    uint32_t count = 0;
    bool more = false;
    enum status status = admin_find_tenant(metadata, asked, refusal);

    if (status == STATUS_OK)
        status = meta_job_list(metadata, asked->tenant_id, &page, &results, &jobs, &count, &more, refusal);
    for (uint32_t i = 0; i < count; i++)
        (void)json_array_append_new(list, job_json(&jobs[i]));
    admin_rows(asked, "jobs", list, more);
    meta_results_free(&results);
    return status;
}

static json_t *event_json(const struct meta_event *event)
{
    json_t *object = json_object();

    admin_number(object, "n", event->n);
    admin_number(object, "at_ms", event->at_ms);
    admin_text(object, "level", event->level);
    admin_text(object, "code", event->code);
    admin_text(object, "metrics", event->metrics);
    return object;
}

enum status admin_job_show(struct metadata *metadata, struct asked *asked, struct refusal *refusal)
{
    struct meta_results results = {0};
    struct meta_event *events = NULL;
    struct meta_job job;
    const char *id = NULL;
    uint32_t count = 0;
    bool more = false;
    enum status status = admin_find_tenant(metadata, asked, refusal);

    if (status == STATUS_OK)
        status = admin_need_text(asked, "job", &id, refusal);
    if (status == STATUS_OK)
        status = meta_job_get(metadata, asked->tenant_id, id, &results, &job, refusal);
    if (status == STATUS_OK)
        status = meta_event_list(metadata, asked->tenant_id, id, INT64_MAX, ROWS, &results, &events, &count, &more, refusal);
    if (status == STATUS_OK) {
        json_t *list = json_array();

        for (uint32_t i = 0; i < count; i++)
            (void)json_array_append_new(list, event_json(&events[i]));
        (void)json_object_set_new(asked->answer, "job", job_json(&job));
        admin_rows(asked, "events", list, more);
    }
    meta_results_free(&results);
    return status;
}

/* The driver finds it at its next look at the rows. */
enum status admin_job_cancel(struct metadata *metadata, struct asked *asked, struct refusal *refusal)
{
    struct meta_job_wished wished;
    const char *id = NULL;
    enum status status = admin_find_tenant(metadata, asked, refusal);

    if (status == STATUS_OK)
        status = admin_need_text(asked, "job", &id, refusal);
    if (status == STATUS_OK)
        status = meta_job_ask(metadata, asked->tenant_id, id, META_JOB_CANCEL, asked->actor, asked->now_ms, &wished, refusal);
    if (status != STATUS_OK)
        return status;
    snprintf(asked->subject, NAME_BYTES, "%s", id);
    admin_text(asked->answer, "id", id);
    return STATUS_OK;
}

/* --- models ----------------------------------------------------------------------------------------------------------------- */

static json_t *model_json(const struct meta_model *model)
{
    json_t *object = json_object();

    admin_text(object, "id", model->id);
    admin_text(object, "name", model->name);
    admin_text(object, "base", model->base);
    admin_text(object, "job", model->job);
    admin_text(object, "verdict", model->verdict);
    admin_text(object, "digest", model->digest);
    admin_number(object, "step", model->step);
    admin_number(object, "rank", model->rank);
    admin_number(object, "bytes", model->bytes);
    admin_number(object, "created_at_ms", model->created_at_ms);
    return object;
}

enum status admin_model_list(struct metadata *metadata, struct asked *asked, struct refusal *refusal)
{
    const struct meta_page page = {.after = page_after(asked), .limit = ROWS, .oldest_first = true};
    struct meta_results results = {0};
    struct meta_model *models = NULL;
    json_t *list = json_array();
    uint32_t count = 0;
    bool more = false;
    enum status status = admin_find_tenant(metadata, asked, refusal);

    if (status == STATUS_OK)
        status = meta_model_list(metadata, asked->tenant_id, &page, &results, &models, &count, &more, refusal);
    for (uint32_t i = 0; i < count; i++)
        (void)json_array_append_new(list, model_json(&models[i]));
    admin_rows(asked, "models", list, more);
    meta_results_free(&results);
    return status;
}

/* From whatever verdict it has. */
enum status admin_model_judge(struct metadata *metadata, struct asked *asked, struct refusal *refusal)
{
    struct meta_results results = {0};
    struct meta_model model = {0};
    const char *name = NULL;
    const char *verdict = NULL;
    enum status status = admin_find_tenant(metadata, asked, refusal);

    if (status == STATUS_OK)
        status = admin_need_text(asked, "model", &name, refusal);
    if (status == STATUS_OK)
        status = admin_need_text(asked, "verdict", &verdict, refusal);
    if (status == STATUS_OK)
        status = meta_name_resolve(metadata, asked->tenant_id, name, &results, &model, refusal);
    if (status == STATUS_OK && model.id == NULL)
        status = refuse(refusal, STATUS_INVALID, "%s is a base, which has no verdict", name);
    if (status == STATUS_OK)
        status = meta_model_judge(metadata, asked->tenant_id, model.id, model.verdict, verdict, NULL, refusal);
    if (status == STATUS_OK) {
        snprintf(asked->subject, NAME_BYTES, "%s", model.id);
        admin_text(asked->answer, "id", model.id);
        admin_text(asked->answer, "was", model.verdict);
        admin_text(asked->answer, "verdict", verdict);
    }
    meta_results_free(&results);
    return status;
}

/* The log names the model: an alias is its tenant's word. */
enum status admin_alias_set(struct metadata *metadata, struct asked *asked, struct refusal *refusal)
{
    struct meta_results results = {0};
    struct meta_model model = {0};
    const char *alias = NULL;
    const char *name = NULL;
    int64_t generation = 0;
    enum status status = admin_find_tenant(metadata, asked, refusal);

    if (status == STATUS_OK)
        status = admin_need_text(asked, "alias", &alias, refusal);
    if (status == STATUS_OK)
        status = admin_need_text(asked, "model", &name, refusal);
    if (status == STATUS_OK)
        status = meta_name_resolve(metadata, asked->tenant_id, name, &results, &model, refusal);
    if (status == STATUS_OK && model.id == NULL)
        status = refuse(refusal, STATUS_INVALID, "%s is a base; an alias points to a model of the organization's", name);
    if (status == STATUS_OK)
        status = meta_alias_set(metadata, asked->tenant_id, alias, model.id, &generation, refusal);
    if (status == STATUS_OK) {
        snprintf(asked->subject, NAME_BYTES, "%s", model.id);
        admin_text(asked->answer, "model", model.name);
        admin_number(asked->answer, "generation", generation);
    }
    meta_results_free(&results);
    return status;
}

enum status admin_alias_delete(struct metadata *metadata, struct asked *asked, struct refusal *refusal)
{
    struct meta_results results = {0};
    struct meta_model model = {0};
    const char *alias = NULL;
    enum status status = admin_find_tenant(metadata, asked, refusal);

    if (status == STATUS_OK)
        status = admin_need_text(asked, "alias", &alias, refusal);
    if (status == STATUS_OK)
        status = meta_name_resolve(metadata, asked->tenant_id, alias, &results, &model, refusal);
    if (status == STATUS_OK)
        status = meta_alias_delete(metadata, asked->tenant_id, alias, refusal);
    if (status == STATUS_OK)
        snprintf(asked->subject, NAME_BYTES, "%s", model.id);
    meta_results_free(&results);
    return status;
}

enum status admin_alias_list(struct metadata *metadata, struct asked *asked, struct refusal *refusal)
{
    const char *after = page_after(asked);
    struct meta_results results = {0};
    struct meta_alias *aliases = NULL;
    json_t *list = json_array();
    uint32_t count = 0;
    bool more = false;
    enum status status = admin_find_tenant(metadata, asked, refusal);

    if (status == STATUS_OK)
        status = meta_alias_list(metadata, asked->tenant_id, after != NULL ? after : "", ROWS, &results, &aliases, &count, &more, refusal);
    for (uint32_t i = 0; i < count; i++) {
        json_t *object = json_object();

        admin_text(object, "id", aliases[i].name);
        admin_text(object, "model", aliases[i].model_name);
        admin_text(object, "verdict", aliases[i].verdict);
        admin_number(object, "generation", aliases[i].generation);
        (void)json_array_append_new(list, object);
    }
    admin_rows(asked, "aliases", list, more);
    meta_results_free(&results);
    return status;
}

/* --- usage, audit ----------------------------------------------------------------------------------------------------------- */

static json_t *sum_json(const struct meta_usage_sum *sum)
{
    json_t *object = json_object();

    admin_text(object, "model", sum->model);
    admin_number(object, "hour", sum->hour);
    admin_number(object, "requests", sum->records);
    admin_number(object, "prompt_tokens", sum->tokens_in);
    admin_number(object, "completion_tokens", sum->tokens_out);
    admin_number(object, "trainings", sum->jobs);
    admin_number(object, "trained_tokens", sum->trained_tokens);
    admin_number(object, "gpu_ms", sum->gpu_ms);
    return object;
}

/* Of so many hours up to now. */
enum status admin_usage_list(struct metadata *metadata, struct asked *asked, struct refusal *refusal)
{
    const int64_t now_hour = asked->now_ms / 3600000;
    struct meta_results results = {0};
    struct meta_usage_sum *sums = NULL;
    json_t *list = json_array();
    int64_t hours = 24;
    uint32_t count = 0;
    bool more = false;
    enum status status = admin_find_tenant(metadata, asked, refusal);

    if (status == STATUS_OK)
        status = admin_take_number(asked, "hours", 24, &hours, refusal);
    if (status == STATUS_OK && (hours < 1 || hours > 100000))
        status = refuse(refusal, STATUS_INVALID, "\"hours\" is from 1 to 100000");
    if (status == STATUS_OK)
        status = meta_usage_sums(metadata, asked->tenant_id, now_hour - hours + 1, now_hour + 1, 4 * ROWS, &results, &sums, &count, &more, refusal);
    for (uint32_t i = 0; i < count; i++)
        (void)json_array_append_new(list, sum_json(&sums[i]));
    admin_rows(asked, "usage", list, more);
    meta_results_free(&results);
    return status;
}

static json_t *audit_json(const struct meta_audit *entry)
{
    json_t *object = json_object();

    admin_number(object, "number", entry->n);
    admin_number(object, "at_ms", entry->at_ms);
    admin_text(object, "tenant", entry->tenant);
    admin_text(object, "actor", entry->actor);
    admin_text(object, "act", entry->act);
    admin_text(object, "subject", entry->subject);
    return object;
}

/* Newest first; "after": the number of the last one seen. All tenants', unless one is named. */
enum status admin_audit_list(struct metadata *metadata, struct asked *asked, struct refusal *refusal)
{
    struct meta_results results = {0};
    struct meta_audit *entries = NULL;
    json_t *list = json_array();
    int64_t before = INT64_MAX;
    uint32_t count = 0;
    bool more = false;
    enum status status = json_object_get(asked->request, "tenant") != NULL ? admin_find_tenant(metadata, asked, refusal) : STATUS_OK;

    if (status == STATUS_OK)
        status = admin_take_number(asked, "after", INT64_MAX, &before, refusal);
    if (status == STATUS_OK)
        status = meta_audit_list(metadata, asked->tenant_id[0] != '\0' ? asked->tenant_id : NULL, before, ROWS, &results, &entries, &count, &more,
                                 refusal);
    for (uint32_t i = 0; i < count; i++)
        (void)json_array_append_new(list, audit_json(&entries[i]));
    admin_rows(asked, "entries", list, more);
    meta_results_free(&results);
    return status;
}
