/* START: the base, by its folder's descriptor, and the device. */
#include <jansson.h>
#include <stdlib.h>
#include <unistd.h>

#include "serving/internal.h"
#include "worker/settings.h"

/* Sizes that a START may set. */
#define SIZES(X)                                                                                                          \
    X(context, positions_max, 1) X(requests, requests_max, 1) X(sequences, sequences_max, 1) X(token_budget, token_budget, 1) \
    X(max_loras, max_loras, 1) X(slots, slots, 1) X(rank_max, rank_max, 1) X(adapters, adapters_max, 1) X(threads, threads, 1) \
    X(pool_mb, pool_bytes, 1000000) X(host_mb, host_bytes, 1000000) X(kv_mb, kv_bytes, 1000000)

static enum status set_size(struct worker_config *config, const char *name, const json_t *value, struct refusal *refusal)
{
    const json_int_t number = json_integer_value(value);

    if (!json_is_integer(value) || number < 1 || number > 16000000)
        return refuse(refusal, STATUS_INVALID, "START: options: %s is no number from 1 to 16000000", name);
#define X(key, field, unit)                                             \
    if (strcmp(name, #key) == 0) {                                      \
        config->field = (__typeof__(config->field))number * (unit);     \
        return STATUS_OK;                                               \
    }
    SIZES(X)
#undef X
    return refuse(refusal, STATUS_INVALID, "START: options: there is no %s", name);
}

static enum status read_settings(const json_t *settings, struct worker_config *config, uint32_t descriptors, uint32_t *ret_base,
                                 struct refusal *refusal)
{
    const char *task = json_string_value(json_object_get(settings, "task"));
    const json_t *base = json_object_get(json_object_get(settings, "base"), "fd");
    enum status status = STATUS_OK;
    const char *name;
    json_t *value;

    if (task == NULL || strcmp(task, "serve") != 0)
        return refuse(refusal, STATUS_INVALID, "START: settings: task is serve for a model server");
    if (!json_is_integer(base) || json_integer_value(base) < 0 || json_integer_value(base) >= descriptors)
        return refuse(refusal, STATUS_INVALID, "START: settings: base has the place of a descriptor, fd");
    json_object_foreach(json_object_get(settings, "options"), name, value) {
        status = set_size(config, name, value, refusal);
        if (status != STATUS_OK)
            return status;
    }
    *ret_base = (uint32_t)json_integer_value(base);
    return worker_use_device(config, json_string_value(json_object_get(settings, "device")), json_string_value(json_object_get(settings, "gpu")),
                             refusal);
}

static enum status open_tokenizer(struct serving *serving, struct refusal *refusal)
{
    char error[TOKENIZER_ERROR_MAX] = "";
    const enum status status = tokenizer_open(serving->directory, &serving->tokenizer, error);

    return status == STATUS_OK || status == STATUS_NOT_FOUND ? STATUS_OK : refuse(refusal, status, "%s", error);
}

enum status serving_start(struct serving *serving, const struct wire_start *start, struct wire_inbox *inbox, struct refusal *refusal)
{
    struct worker_config config = serving->config->worker;
    json_t *settings = json_loadb((const char *)start->settings, start->settings_count, JSON_REJECT_DUPLICATES, NULL);
    uint32_t base = 0;
    enum status status = read_settings(settings, &config, inbox->descriptors_count, &base, refusal);

    json_decref(settings);
    if (status != STATUS_OK)
        return status;
    serving->folder = dup(inbox->descriptors[base]);
    if (serving->folder < 0)
        return refuse(refusal, STATUS_IO, "START: no descriptor for the base's folder");
    /* By its descriptor: the folder's name is not known here, and need not be. The model's file is mapped, so its pages are shared. */
    (void)snprintf(serving->directory, sizeof(serving->directory), "/proc/self/fd/%d", serving->folder);
    config.model_directory = serving->directory;
    config.moved = hosted_moved;
    config.watcher = serving;
    config.adapters_max = min_u32(config.adapters_max, serving->config->worker.adapters_max); /* descriptors allow no more */
    config.requests_max = min_u32(config.requests_max, STREAMS_MAX);
    status = adapters_open(serving, config.adapters_max) == STATUS_OK ? worker_open(&config, &serving->worker, refusal)
                                                                      : refuse(refusal, STATUS_FULL, "no memory for adapters' names");
    if (status == STATUS_OK)
        status = open_tokenizer(serving, refusal);
    if (status == STATUS_OK) {
        serving->inventory_due = true;
        serving->inventory_at = 0;
    }
    return status;
}

void serving_end(struct serving *serving)
{
    worker_close(serving->worker);
    streams_free(serving);
    adapters_close(serving);
    tokenizer_close(serving->tokenizer);
    if (serving->folder >= 0)
        close(serving->folder);
    link_close(serving->link);
}
