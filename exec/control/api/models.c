/* What may be asked by name: bases, and the tenant's own models that may answer. What is listed here answers, and nothing else. */
#include <stdio.h>

#include "control/api/internal.h"
#include "control/metadata/audit.h"
#include "control/metadata/model.h"
#include "control/metadata/tenant.h"

static json_t *model_json(const char *id, int64_t created_at_ms, const char *owner)
{
    json_t *model = json_pack("{s:s,s:s,s:I,s:s}", "id", id, "object", "model", "created", (json_int_t)(created_at_ms / 1000), "owned_by", owner);

    check(model != NULL);
    return model;
}

static bool may_answer(const char *verdict)
{
    return strcmp(verdict, "deployable") == 0;
}

/* The same for what is not there, what is another's, and what may not answer. */
static void refuse_name(struct fault *fault)
{
    fault_set(fault, 404, "model_not_found", "model", "there is no such model, or you do not have access to it");
}

static enum status add_bases(struct metadata *metadata, json_t *data, struct refusal *refusal)
{
    int64_t after = 0;
    bool more = true;
    enum status status = STATUS_OK;

    while (more && status == STATUS_OK) {
        struct meta_results results = {0};
        struct meta_base *bases = NULL;
        uint32_t count = 0;

        status = meta_base_list(metadata, after, META_PAGE_MAX, &results, &bases, &count, &more, refusal);
        for (uint32_t i = 0; status == STATUS_OK && i < count; i++) {
            after = bases[i].number;
            if (strcmp(bases[i].state, "retired") != 0)
                json_array_append_new(data, model_json(bases[i].id, bases[i].created_at_ms, "system"));
        }
        meta_results_free(&results);
    }
    return status;
}

static enum status add_models(struct metadata *metadata, const char *tenant, json_t *data, struct refusal *refusal)
{
    char after[NAME_BYTES] = "";
    bool more = true;
    enum status status = STATUS_OK;

    while (more && status == STATUS_OK) {
        const struct meta_page page = {.after = after[0] != '\0' ? after : NULL, .limit = META_PAGE_MAX, .oldest_first = true};
        struct meta_results results = {0};
        struct meta_model *models = NULL;
        uint32_t count = 0;

        status = meta_model_list(metadata, tenant, &page, &results, &models, &count, &more, refusal);
        for (uint32_t i = 0; status == STATUS_OK && i < count; i++) {
            memcpy(after, models[i].id, strlen(models[i].id) + 1);
            if (may_answer(models[i].verdict))
                json_array_append_new(data, model_json(models[i].name, models[i].created_at_ms, tenant));
        }
        meta_results_free(&results);
    }
    return status;
}

static enum status add_aliases(struct metadata *metadata, const char *tenant, json_t *data, struct refusal *refusal)
{
    char after[NAME_BYTES] = "";
    bool more = true;
    enum status status = STATUS_OK;

    while (more && status == STATUS_OK) {
        struct meta_results results = {0};
        struct meta_alias *aliases = NULL;
        uint32_t count = 0;

        status = meta_alias_list(metadata, tenant, after, META_PAGE_MAX, &results, &aliases, &count, &more, refusal);
        for (uint32_t i = 0; status == STATUS_OK && i < count; i++) {
            snprintf(after, sizeof(after), "%s", aliases[i].name);
            if (may_answer(aliases[i].verdict))
                json_array_append_new(data, model_json(aliases[i].name, aliases[i].created_at_ms, tenant));
        }
        meta_results_free(&results);
    }
    return status;
}

void models_list(struct call *call, struct metadata *metadata)
{
    struct refusal refusal = {{0}};
    struct fault fault = {0};
    json_t *data = json_array();
    enum status status = add_bases(metadata, data, &refusal);

    if (status == STATUS_OK)
        status = add_models(metadata, call->caller.tenant, data, &refusal);
    if (status == STATUS_OK)
        status = add_aliases(metadata, call->caller.tenant, data, &refusal);
    if (status == STATUS_OK) {
        http_answer_json(call->request, 200, json_pack("{s:s,s:o}", "object", "list", "data", data));
        return;
    }
    json_decref(data);
    fault_from(call->api, &fault, status, &refusal);
    fault_answer(call->request, &fault);
}

bool model_find(struct api *api, struct metadata *metadata, const char *tenant, const char *name, struct meta_results *results,
                struct meta_model *ret_model, struct fault *fault)
{
    struct refusal refusal = {{0}};
    const enum status status = meta_name_resolve(metadata, tenant, name, results, ret_model, &refusal);

    if (status == STATUS_OK && may_answer(ret_model->verdict))
        return true;
    if (status == STATUS_OK || status == STATUS_NOT_FOUND)
        refuse_name(fault);
    else
        fault_from(api, fault, status, &refusal);
    return false;
}

void models_get(struct call *call, struct metadata *metadata)
{
    struct meta_results results = {0};
    struct meta_model model;
    struct fault fault = {0};

    const char *name = http_id(call->request, 0);

    if (model_find(call->api, metadata, call->caller.tenant, name, &results, &model, &fault))
        http_answer_json(call->request, 200, model_json(name, model.created_at_ms, model.id == NULL ? "system" : call->caller.tenant));
    else
        fault_answer(call->request, &fault);
    meta_results_free(&results);
}

/* --- deletion --------------------------------------------------------------------------------------------------------------- */

struct deletion {
    const struct meta_caller *caller;
    const char *name;
    bool is_base;
};

static enum status delete_row(struct metadata *metadata, void *context, struct refusal *refusal)
{
    struct deletion *deletion = context;
    const char *tenant = deletion->caller->tenant;
    struct meta_results results = {0};
    struct meta_model model;
    enum status status = meta_name_resolve(metadata, tenant, deletion->name, &results, &model, refusal);

    if (status == STATUS_OK && model.id == NULL) {
        deletion->is_base = true;
    } else if (status == STATUS_OK) {
        const bool is_alias = strcmp(model.name, deletion->name) != 0;

        status = is_alias ? meta_alias_delete(metadata, tenant, deletion->name, refusal) : meta_model_doom(metadata, tenant, model.id, refusal);
        if (status == STATUS_OK)
            status = meta_audit_add(metadata, tenant, deletion->caller->key, is_alias ? "alias.delete" : "model.delete", model.id, api_now_ms(),
                                    refusal);
    }
    meta_results_free(&results);
    return status;
}

/* An alias goes by itself; what it pointed to stays. A model's name answers no more from here on; requests under way end as they would, and the sweeper destroys what it was. */
void models_delete(struct call *call, struct metadata *metadata)
{
    struct deletion deletion = {.caller = &call->caller, .name = http_id(call->request, 0)};
    struct refusal refusal = {{0}};
    struct fault fault = {0};
    const enum status status = meta_writer_call(call->api->config.writer, delete_row, &deletion, &refusal);

    (void)metadata;
    if (status == STATUS_NOT_FOUND)
        refuse_name(&fault);
    else if (status != STATUS_OK)
        fault_from(call->api, &fault, status, &refusal);
    else if (deletion.is_base)
        fault_set(&fault, 403, "insufficient_permissions", "model", "a base is the platform's; only models of your own can be deleted");
    if (fault.status != 0)
        fault_answer(call->request, &fault);
    else
        http_answer_json(call->request, 200, json_pack("{s:s,s:s,s:b}", "id", deletion.name, "object", "model", "deleted", true));
}
