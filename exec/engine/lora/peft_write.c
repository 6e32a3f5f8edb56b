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

/* Whether the modules' names say all of it: each that is adapted is in all layers. */
static bool is_everywhere(const struct lora_source *source)
{
    for (int32_t layer = 0; layer < source->layers; layer++)
        for (enum lora_module module = 0; module < LORA_MODULE_COUNT; module++)
            if ((source->modules >> module & 1) != 0 && lora_source_pair(source, layer, module)->a == NULL)
                return false;
    return true;
}

static json_t *make_targets(const struct lora_source *source)
{
    const bool by_name = is_everywhere(source);
    json_t *targets = json_array();
    char path[TENSOR_NAME_MAX];

    for (int module = 0; by_name && module < LORA_MODULE_COUNT; module++)
        if (source->modules >> module & 1)
            json_array_append_new(targets, json_string(module_names[module]));
    for (int32_t layer = 0; !by_name && layer < source->layers; layer++)
        for (enum lora_module module = 0; module < LORA_MODULE_COUNT; module++)
            if (lora_source_pair(source, layer, module)->a != NULL)
                json_array_append_new(targets, json_string(model_linear_name(layer, module, "", path)));
    return targets;
}

/* What `r` and `lora_alpha` do not say of a pair, by its path. An alpha is what gives the pair's scale to the bit. */
static void add_patterns(const struct peft_write *write, json_t *ranks, json_t *alphas)
{
    char path[TENSOR_NAME_MAX];

    for (int32_t layer = 0; layer < write->source->layers; layer++)
        for (enum lora_module module = 0; module < LORA_MODULE_COUNT; module++) {
            const struct lora_pair *pair = lora_source_pair(write->source, layer, module);

            if (pair->a == NULL)
                continue;
            model_linear_name(layer, module, "", path);
            if (pair->rank != write->source->rank)
                json_object_set_new(ranks, path, json_integer(pair->rank));
            if (float_bits((float)peft_scale(write->alpha, pair->rank, write->rslora)) != float_bits(pair->scale))
                json_object_set_new(alphas, path, json_real((double)pair->scale / peft_scale(1, pair->rank, write->rslora)));
        }
}

static json_t *make_config(const struct peft_write *write)
{
    json_t *alphas = json_object();
    json_t *ranks = json_object();
    json_t *config;

    add_patterns(write, ranks, alphas);
    config = json_pack(
        "{s:o, s:n, s:s, s:s, s:b, s:b, s:b, s:n, s:n, s:n, s:f, s:n, s:s, s:i, s:o, s:n, s:o, s:s, s:b, s:b}",
        "alpha_pattern", alphas, "auto_mapping", "base_model_name_or_path", write->base, "bias", "none", "fan_in_fan_out", 0,
        "inference_mode", 1, "init_lora_weights", 1, "layer_replication", "layers_pattern", "layers_to_transform",
        "lora_dropout", 0.0, "modules_to_save", "peft_type", "LORA", "r", (int)write->source->rank, "rank_pattern", ranks,
        "revision", "target_modules", make_targets(write->source), "task_type", "CAUSAL_LM", "use_dora", 0, "use_rslora",
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

/* Frees with named_free(), also when there was no memory. */
static enum status name_all(const struct peft_write *write, const char *shown, struct named *ret_list, struct refusal *refusal)
{
    const struct lora_source *source = write->source;
    const size_t most = (size_t)source->layers * LORA_MODULE_COUNT * 2;

    *ret_list = (struct named){calloc(most, sizeof(struct tensor)), calloc(most, TENSOR_NAME_MAX), 0};
    if (ret_list->tensor == NULL || ret_list->name == NULL)
        return refuse(refusal, STATUS_IO, "%s: no memory", shown);
    for (int32_t layer = 0; layer < source->layers; layer++)
        for (enum lora_module module = 0; module < LORA_MODULE_COUNT; module++) {
            const struct lora_pair *pair = lora_source_pair(source, layer, module);

            if (pair->a == NULL)
                continue;
            add(ret_list, layer, module, "lora_A", pair->a, pair->a_dtype, pair->rank, lora_module_in(write->dims, module));
            add(ret_list, layer, module, "lora_B", pair->b, pair->b_dtype, lora_module_out(write->dims, module), pair->rank);
        }
    return STATUS_OK;
}

static void named_free(struct named *list)
{
    free(list->tensor);
    free(list->name);
}

static char *config_text(const struct peft_write *write, size_t flags)
{
    json_t *config = make_config(write);
    char *text = json_dumps(config, flags | JSON_SORT_KEYS);

    json_decref(config);
    check(text != NULL);
    return text;
}

enum status peft_write(const char *directory, const struct peft_write *write, struct refusal *refusal)
{
    struct named list = {0};
    char path[4096];
    char *text;
    enum status status;

    check(write->source->layers == write->dims->layers && write->source->modules != 0);
    snprintf(path, sizeof(path), "%.4000s/adapter_model.safetensors", directory);
    status = name_all(write, path, &list, refusal);
    if (status == STATUS_OK)
        status = safetensors_write(path, list.tensor, list.count, NULL, NULL, refusal);
    named_free(&list);
    if (status != STATUS_OK)
        return status;
    text = config_text(write, JSON_INDENT(2));
    snprintf(path, sizeof(path), "%.4000s/adapter_config.json", directory);
    status = file_write(path, text, strlen(text), refusal);
    free(text);
    return status;
}

enum status peft_write_bytes(const struct peft_write *write, const char *shown, void **ret_data, size_t *ret_bytes,
                             struct refusal *refusal)
{
    struct named list = {0};
    char *text;
    enum status status;

    check(write->source->layers == write->dims->layers && write->source->modules != 0);
    text = config_text(write, JSON_COMPACT);
    status = name_all(write, shown, &list, refusal);
    if (status == STATUS_OK)
        status = safetensors_make(list.tensor, list.count, PEFT_CONFIG_KEY, text, shown, ret_data, ret_bytes, refusal);
    named_free(&list);
    free(text);
    return status;
}
