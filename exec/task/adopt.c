/* The task that takes in an adapter which was made elsewhere: its bundle is read here for the first time, against the base that it is to run on,
 * and what holds is written anew as a trainer's result would be. So what servers load has no byte order, field or name of a stranger's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/lora/peft.h"
#include "link/bundle.h"
#include "task/internal.h"

struct adoption {
    struct grant *bundle;
    struct grant *result;
    const char *base;                /* its name; the settings' */
    struct model_config model;
    void *data;                      /* the bundle's, opened */
    struct peft *peft;
    char *written;
};

/* --- before the sandbox ------------------------------------------------------------------------------------------------------- */

static enum status open_base(const struct task *task, struct adoption *adoption, struct refusal *refusal)
{
    char folder[32];

    adoption->base = json_string_value(json_object_get(json_object_get(task->settings, "base"), "name"));
    if (task_base(task) < 0 || adoption->base == NULL)
        return refuse(refusal, STATUS_INVALID, "START has no base");
    snprintf(folder, sizeof(folder), "/proc/self/fd/%d", task_base(task));
    return model_config_read(folder, &adoption->model, refusal);
}

enum fault adopt_open(struct task *task, struct refusal *refusal)
{
    struct adoption *adoption = calloc(1, sizeof(*adoption));

    task->work = adoption;
    if (adoption == NULL) {
        refuse(refusal, STATUS_FULL, "no memory");
        return FAULT_MEMORY;
    }
    if (task_grant(task, "bundle", &adoption->bundle, refusal) != STATUS_OK || task_grant(task, "result", &adoption->result, refusal) != STATUS_OK)
        return FAULT_SETTINGS;
    if (adoption->bundle == NULL || adoption->result == NULL) {
        refuse(refusal, STATUS_INVALID, "START has no bundle, or nowhere to put an adapter");
        return FAULT_SETTINGS;
    }
    return open_base(task, adoption, refusal) == STATUS_OK ? FAULT_NONE : FAULT_BASE;
}

/* --- in the sandbox ----------------------------------------------------------------------------------------------------------- */

static enum fault read_bundle(const struct task *task, struct adoption *adoption, struct peft_parts *ret_parts, struct refusal *refusal)
{
    const int64_t bytes_max = BUNDLE_HEAD_BYTES + BUNDLE_CONFIG_BYTES_MAX + BUNDLE_TENSORS_BYTES_MAX;
    const enum status status = sealed_read(task, adoption->bundle, BUNDLE_PURPOSE, bytes_max, &adoption->data, &ret_parts->tensors_bytes, refusal);

    if (status != STATUS_OK)
        return status == STATUS_FULL ? FAULT_MEMORY : FAULT_OBJECT;
    ret_parts->config_bytes = ret_parts->tensors_bytes >= BUNDLE_HEAD_BYTES ? (int64_t)bundle_head_read(adoption->data) : -1;
    if (ret_parts->config_bytes < 0 || ret_parts->config_bytes > ret_parts->tensors_bytes - BUNDLE_HEAD_BYTES) {
        refuse(refusal, STATUS_CORRUPT, "the bundle is cut");
        return FAULT_OBJECT;
    }
    ret_parts->config = (const char *)adoption->data + BUNDLE_HEAD_BYTES;
    ret_parts->tensors = ret_parts->config + ret_parts->config_bytes;
    ret_parts->tensors_bytes -= BUNDLE_HEAD_BYTES + ret_parts->config_bytes;
    return FAULT_NONE;
}

/* Two bases of one shape are told apart by name alone; other names, of hubs and folders, say nothing here. */
static bool is_of_another_base(const struct task *task, const struct adoption *adoption)
{
    const json_t *others = json_object_get(task->settings, "others");

    for (size_t i = 0; i < json_array_size(others); i++)
        if (strcmp(json_string_value(json_array_get(others, i)), adoption->peft->base_stated) == 0)
            return true;
    return false;
}

static enum fault open_adapter(const struct task *task, struct adoption *adoption, struct refusal *refusal)
{
    struct peft_parts parts;
    const enum fault fault = read_bundle(task, adoption, &parts, refusal);
    enum status status;

    if (fault != FAULT_NONE)
        return fault;
    status = peft_open_parts(&parts, &adoption->model, LORA_RANK_MAX, &adoption->peft, refusal);
    if (status != STATUS_OK)
        return status == STATUS_IO ? FAULT_MEMORY : FAULT_ADAPTER;
    if (!is_of_another_base(task, adoption))
        return FAULT_NONE;
    refuse(refusal, STATUS_INVALID, "adapter_config.json: base_model_name_or_path is %s, and this is %s; name its own base as base_model",
           adoption->peft->base_stated, adoption->base);
    return FAULT_ADAPTER;
}

static enum fault write_adapter(struct task *task, struct adoption *adoption, struct sealing *ret_written, struct refusal *refusal)
{
    const struct peft *peft = adoption->peft;
    const struct peft_write write = {.source = &peft->source, .dims = &adoption->model.dims, .alpha = peft->alpha_stated, .rslora = peft->rslora,
                                     .base = adoption->base};
    size_t bytes = 0;
    void *data = NULL;
    enum status status = peft_write_bytes(&write, "adapter_config.json", &data, &bytes, refusal);

    adoption->written = data;
    if (status == STATUS_OK)
        status = seal_whole(task, adoption->result, "adapter", data, (int64_t)bytes, ret_written, refusal);
    return status == STATUS_OK ? FAULT_NONE : status == STATUS_FULL ? FAULT_MEMORY : FAULT_OUTPUT;
}

static void say_result(struct task *task, const struct adoption *adoption, const struct sealing *written)
{
    struct wire_result result = {.bytes = written->bytes, .grant = adoption->result->index};
    char digest[DIGEST_TEXT_MAX];
    json_t *metrics = json_pack("{s:s, s:i}", "adapter_digest", digest_text(adoption->peft->digest, digest), "rank", (int)adoption->peft->source.rank);
    char *text = json_dumps(metrics, JSON_COMPACT);

    memcpy(result.digest, written->digest, sizeof(result.digest));
    result.metrics = (const uint8_t *)text;
    result.metrics_count = text != NULL ? (uint32_t)strlen(text) : 0;
    task_say(task, WIRE_RESULT, &result);
    free(text);
    json_decref(metrics);
}

void adopt_work(struct task *task)
{
    struct adoption *adoption = task->work;
    struct refusal refusal = {{0}};
    struct sealing written;
    enum fault fault = open_adapter(task, adoption, &refusal);

    if (fault == FAULT_NONE)
        fault = write_adapter(task, adoption, &written, &refusal);
    if (fault == FAULT_NONE)
        say_result(task, adoption, &written);
    else
        task_say_failed(task, 0, fault, refusal.text);
}

void adopt_close(struct task *task)
{
    struct adoption *adoption = task->work;

    if (adoption == NULL)
        return;
    peft_close(adoption->peft);
    free(adoption->data);
    free(adoption->written);
    free(adoption);
}
