/* POST /v1/load_lora_adapter and /v1/unload_lora_adapter, with vLLM's bodies and texts. A load is a task of the pool: it claims its name, copies
 * the folder's files, hands them to the driver and waits without a thread until that has told what came of it. What is loaded is a model of the
 * tenant's like any other, with an alias; only such a model, which no job made, is unloaded. */
#include "control/api/adapters.h"

#include <stdio.h>
#include <stdlib.h>

#include "control/api/chat.h"
#include "control/metadata/audit.h"

#define LOAD_PATH "/v1/load_lora_adapter"

static bool is_on(const struct call *call)
{
    if (call->api->config.adapters_folder > 0)
        return true;
    http_answer_error(call->request, 404, "not_enabled", NULL, "adapters that were made elsewhere are not taken here; the operator would turn it on with "
                                                                 "berth-exec control --adapters-folder DIR");
    return false;
}

static void answer_done(struct http_request *request, const char *name, const char *done, const char *more)
{
    char text[META_MODEL_NAME_BYTES + 192];
    const int length = snprintf(text, sizeof(text), "Success: LoRA adapter '%s' %s successfully.%s", name, done, more);

    http_answer_bytes(request, 200, "text/plain", text, (size_t)length);
}

static void refuse_taken(const char *name, struct fault *fault)
{
    fault_set(fault, 400, "name_taken", "lora_name", "The lora adapter '%s' has already been loaded, or the name is another model's.", name);
}

/* --- loaded --------------------------------------------------------------------------------------------------------------------- */

/* What an earlier try of the same request made, or was about to make. */
static enum status take_up(struct metadata *metadata, struct load *load, const char *before, struct refusal *refusal)
{
    struct meta_results results = {0};
    struct meta_model model;
    enum status status = meta_model_get(metadata, load->caller.tenant, before, &results, &model, refusal);

    load->is_made = status == STATUS_OK && strcmp(model.state, "live") == 0;
    if (status == STATUS_NOT_FOUND || load->is_made)
        snprintf(load->asked.model, sizeof(load->asked.model), "%s", before);
    else if (status == STATUS_OK && load->repeat.retry.key != NULL)
        status = refuse(refusal, STATUS_CONFLICT, "the adapter of this Idempotency-Key was unloaded; draw a new key");
    meta_results_free(&results);
    return status == STATUS_NOT_FOUND ? STATUS_OK : status;
}

static enum status claim(struct metadata *metadata, void *context, struct refusal *refusal)
{
    struct load *load = context;
    struct meta_results results = {0};
    struct meta_model model;
    char before[NAME_BYTES];
    bool again = false;
    enum status status = repeat_look(metadata, &load->repeat, load->caller.tenant, load->asked.model, load->now_ms, &again, before, refusal);

    if (status == STATUS_OK && again)
        status = take_up(metadata, load, before, refusal);
    if (status != STATUS_OK || load->is_made)
        return status;
    status = meta_name_resolve(metadata, load->caller.tenant, load->asked.name, &results, &model, refusal);
    meta_results_free(&results);
    load->is_taken = status == STATUS_OK;
    return status == STATUS_OK ? STATUS_CONFLICT : status == STATUS_NOT_FOUND ? STATUS_OK : status;
}

static bool claim_name(struct load *load, struct fault *fault)
{
    struct refusal refusal = {{0}};
    enum status status;

    load->now_ms = api_now_ms();
    repeat_identify_body(load->api, load->request, LOAD_PATH, &load->repeat);
    meta_id("model-", load->asked.model);
    status = meta_writer_call(load->api->config.writer, claim, load, &refusal);
    if (load->is_taken)
        refuse_taken(load->asked.name, fault);
    else if (status != STATUS_OK)
        fault_from(load->api, fault, status, &refusal);
    return fault->status == 0;
}

static void begin(struct load *load, struct metadata *metadata, struct fault *fault)
{
    load->begun = true;
    load->is_placed = transfer_begin(load->api, load->caller.tenant, &load->place, fault);
    if (load->is_placed && claim_name(load, fault) && !load->is_made)
        (void)load_open(load, metadata, fault);
}

static void tell(void *context, enum status status, const char *words)
{
    struct load *load = context;

    pthread_mutex_lock(&load->lock);
    load->is_told = true;
    load->told = status;
    snprintf(load->words, sizeof(load->words), "%s", words);
    pthread_mutex_unlock(&load->lock);
    pool_ask(load->api->pool, &load->task); /* it ends after driver_leave(), so not before this call does */
}

static void hand_over(struct load *load, struct fault *fault)
{
    struct driver_adoption *asked = &load->asked;

    memcpy(asked->tenant, load->caller.tenant, sizeof(asked->tenant));
    memcpy(asked->key, load->caller.key, sizeof(asked->key));
    memcpy(asked->bundle, load->bundle.id, sizeof(asked->bundle));
    if (driver_adopt(load->api->config.driver, asked, tell, load) == STATUS_OK)
        return;
    fault_set(fault, 429, "rate_limit_exceeded", NULL, "too many adapters are being loaded at once");
    fault->retry_ms = 1000;
}

/* Some of the copy; what is left of it comes when others have had their turn. */
static void copy(struct load *load, struct fault *fault)
{
    if (!load_copy(load, fault))
        return;
    if (load->is_copied)
        hand_over(load, fault);
    else
        pool_ask(load->api->pool, &load->task);
}

/* False: it is not told yet. */
static bool hear(struct load *load, struct fault *fault)
{
    struct refusal refusal;
    enum status status;
    bool is_told;

    pthread_mutex_lock(&load->lock);
    is_told = load->is_told;
    status = load->told;
    memcpy(refusal.text, load->words, sizeof(refusal.text));
    pthread_mutex_unlock(&load->lock);
    if (!is_told || status == STATUS_OK)
        return is_told;
    if (status == STATUS_INVALID)
        fault_set(fault, 400, "invalid_adapter", "lora_path", "%s", refusal.text[0] != '\0' ? refusal.text : "this is no adapter for that base");
    else if (status == STATUS_CONFLICT)
        refuse_taken(load->asked.name, fault);
    else
        fault_from(load->api, fault, status == STATUS_FULL ? status : STATUS_IO, &refusal);
    return true;
}

/* Where a gate stands, it is told that the name does not answer yet. */
static void answer_loaded(struct load *load, struct metadata *metadata)
{
    struct meta_results results = {0};
    struct refusal unheard = {{0}};
    struct meta_model model;
    char more[128] = "";

    if (meta_model_get(metadata, load->caller.tenant, load->asked.model, &results, &model, &unheard) == STATUS_OK &&
        strcmp(model.verdict, "deployable") != 0)
        snprintf(more, sizeof(more), " It answers once it is found deployable; now it is %s.", model.verdict);
    meta_results_free(&results);
    answer_done(load->request, load->asked.name, "added", more);
}

static void end(struct load *load, struct metadata *metadata, const struct fault *fault)
{
    if (load->is_copied)
        driver_leave(load->api->config.driver, load->asked.bundle);
    load_close(load);
    if (load->is_placed)
        transfer_end(load->api, load->place);
    if (fault->status != 0)
        fault_answer(load->request, fault);
    else
        answer_loaded(load, metadata);
    pthread_mutex_destroy(&load->lock);
}

static bool load_run(struct task *task, struct metadata *metadata)
{
    struct load *load = (struct load *)task;
    struct fault fault = {0};
    bool is_over = false;

    if (!load->begun)
        begin(load, metadata, &fault);
    if (fault.status == 0 && !load->is_made) {
        if (load->is_copied)
            is_over = hear(load, &fault);
        else
            copy(load, &fault);
    }
    if (!is_over && atomic_load(&load->api->chats->stopping))
        fault_set(&fault, 503, "stopping", NULL, "the server is stopping; try again");
    is_over |= fault.status != 0 || load->is_made;
    if (is_over)
        end(load, metadata, &fault);
    return is_over;
}

void lora_load(struct call *call, struct metadata *metadata)
{
    struct load *load = calloc(1, sizeof(*load));
    struct fault fault = {0};
    json_t *body = NULL;

    (void)metadata;
    check(load != NULL);
    *load = (struct load){.task = {.run = load_run}, .api = call->api, .request = call->request, .caller = call->caller, .config = {.file = -1},
                          .tensors = {.file = -1}};
    memcpy(load->slug, call->tenant.slug, sizeof(load->slug));
    if (is_on(call) && http_retry_of(call->request, &load->repeat.retry) && (body = http_json(call->request)) != NULL) {
        if (load_read(body, load, &fault)) {
            pthread_mutex_init(&load->lock, NULL);
            pool_begin(call->api->pool, &load->task);
            load = NULL;
        } else {
            fault_answer(call->request, &fault);
        }
    }
    json_decref(body);
    free(load);
}

/* --- unloaded ------------------------------------------------------------------------------------------------------------------- */

struct unloading {
    const struct meta_caller *caller;
    const char *name;
};

/* What a job made is DELETE's alone: who unloads by habit loses nothing that was paid for. */
static enum status unload(struct metadata *metadata, void *context, struct refusal *refusal)
{
    const struct unloading *unloading = context;
    const char *tenant = unloading->caller->tenant;
    struct meta_results results = {0};
    struct meta_model model;
    enum status status = meta_name_resolve(metadata, tenant, unloading->name, &results, &model, refusal);

    if (status == STATUS_OK && (model.id == NULL || model.job != NULL))
        status = STATUS_NOT_FOUND;
    if (status == STATUS_OK)
        status = meta_model_doom(metadata, tenant, model.id, refusal);
    if (status == STATUS_OK)
        status = meta_audit_add(metadata, tenant, unloading->caller->key, "model.unload", model.id, api_now_ms(), refusal);
    meta_results_free(&results);
    return status;
}

void lora_unload(struct call *call, struct metadata *metadata)
{
    struct unloading unloading = {.caller = &call->caller};
    struct refusal refusal = {{0}};
    struct fault fault = {0};
    json_t *body;
    enum status status = STATUS_OK;

    (void)metadata;
    if (!is_on(call) || (body = http_json(call->request)) == NULL)
        return;
    if (unload_read(body, &unloading.name, &fault))
        status = meta_writer_call(call->api->config.writer, unload, &unloading, &refusal);
    if (status == STATUS_NOT_FOUND)
        fault_set(&fault, 404, "adapter_not_found", "lora_name", "The lora adapter '%.250s' cannot be found.", unloading.name);
    else if (status != STATUS_OK)
        fault_from(call->api, &fault, status, &refusal);
    if (fault.status != 0)
        fault_answer(call->request, &fault);
    else
        answer_done(call->request, unloading.name, "removed", "");
    json_decref(body);
}
