/* Writing an adapter as PEFT does. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/files/file.h"
#include "engine/lora/internal.h"

static const char *const module_names[] = {
#define X(name, text, group) text,
    LORA_MODULES(X)
#undef X
};

/* Whether r and lora_alpha say all of it. */
static bool is_plain(const struct peft_write *write)
{
    float scale = (float)peft_scale(write->alpha, write->source->rank, write->rslora);

    for (int32_t layer = 0; layer < write->source->layers; layer++)
        for (enum lora_module module = 0; module < LORA_MODULE_COUNT; module++) {
            const struct lora_pair *pair = lora_source_pair(write->source, layer, module);

            if ((write->source->modules >> module & 1) == 0)
                continue;
            if (pair->a == NULL || pair->rank != write->source->rank || float_bits(pair->scale) != float_bits(scale))
                return false;
        }
    return write->source->modules != 0;
}

static json_t *make_config(const struct peft_write *write)
{
    json_t *targets = json_array();
    json_t *config;

    for (int module = 0; module < LORA_MODULE_COUNT; module++)
        if (write->source->modules >> module & 1)
            json_array_append_new(targets, json_string(module_names[module]));
    config = json_pack(
        "{s:{}, s:n, s:s, s:s, s:b, s:b, s:b, s:n, s:n, s:n, s:f, s:n, s:s, s:i, s:{}, s:n, s:o, s:s, s:b, s:b}",
        "alpha_pattern", "auto_mapping", "base_model_name_or_path", write->base, "bias", "none", "fan_in_fan_out", 0,
        "inference_mode", 1, "init_lora_weights", 1, "layer_replication", "layers_pattern", "layers_to_transform",
        "lora_dropout", 0.0, "modules_to_save", "peft_type", "LORA", "r", (int)write->source->rank, "rank_pattern",
        "revision", "target_modules", targets, "task_type", "CAUSAL_LM", "use_dora", 0, "use_rslora",
        (int)write->rslora);
    check(config != NULL);
    /* PEFT's own type of it is a whole number, but for those who choose otherwise. */
    if (write->alpha == floor(write->alpha))
        json_object_set_new(config, "lora_alpha", json_integer((json_int_t)write->alpha));
    else
        json_object_set_new(config, "lora_alpha", json_real(write->alpha));
    return config;
}

static enum tensor_type type_of(enum dtype dtype)
{
    return dtype == DTYPE_F32 ? TENSOR_F32 : dtype == DTYPE_F16 ? TENSOR_F16 : TENSOR_BF16;
}

struct named {
    struct tensor *tensor;
    char (*name)[TENSOR_NAME_MAX];
    uint32_t count;
};

static void add(struct named *list, int32_t layer, enum lora_module module, const char *which, const void *data, enum dtype dtype,
                int64_t rows, int64_t columns)
{
    char path[TENSOR_NAME_MAX];
    char suffix[32];

    snprintf(suffix, sizeof(suffix), ".%s.weight", which);
    model_linear_name(layer, module, suffix, path);
    snprintf(list->name[list->count], TENSOR_NAME_MAX, "base_model.model.%.200s", path);
    list->tensor[list->count] = (struct tensor){.name = list->name[list->count], .data = data, .type = type_of(dtype), .dims = 2,
                                                .shape = {rows, columns}};
    list->count++;
}

static enum status write_tensors(const char *path, const struct peft_write *write, struct refusal *refusal)
{
    const struct lora_source *source = write->source;
    size_t most = (size_t)source->layers * LORA_MODULE_COUNT * 2;
    struct named list = {calloc(most, sizeof(struct tensor)), calloc(most, TENSOR_NAME_MAX), 0};
    enum status status = STATUS_IO;

    if (list.tensor == NULL || list.name == NULL) {
        refuse(refusal, STATUS_IO, "%s: no memory", path);
        goto free_list;
    }
    for (int32_t layer = 0; layer < source->layers; layer++)
        for (enum lora_module module = 0; module < LORA_MODULE_COUNT; module++) {
            const struct lora_pair *pair = lora_source_pair(source, layer, module);

            if (pair->a == NULL)
                continue;
            add(&list, layer, module, "lora_A", pair->a, pair->a_dtype, pair->rank, lora_module_in(write->dims, module));
            add(&list, layer, module, "lora_B", pair->b, pair->b_dtype, lora_module_out(write->dims, module), pair->rank);
        }
    status = safetensors_write(path, list.tensor, list.count, NULL, NULL, refusal);
free_list:
    free(list.tensor);
    free(list.name);
    return status;
}

enum status peft_write(const char *directory, const struct peft_write *write, struct refusal *refusal)
{
    char path[4096];
    json_t *config;
    char *text;
    enum status status;

    check(write->source->layers == write->dims->layers);
    if (!is_plain(write))
        return refuse(refusal, STATUS_INVALID, "%s: an adapter of unequal ranks, scales or layers is not written", directory);
    snprintf(path, sizeof(path), "%.4000s/adapter_model.safetensors", directory);
    status = write_tensors(path, write, refusal);
    if (status != STATUS_OK)
        return status;
    config = make_config(write);
    text = json_dumps(config, JSON_INDENT(2) | JSON_SORT_KEYS);
    json_decref(config);
    check(text != NULL);
    snprintf(path, sizeof(path), "%.4000s/adapter_config.json", directory);
    status = file_write(path, text, strlen(text), refusal);
    free(text);
    return status;
}
