#include "engine/model/random.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "engine/files/file.h"
#include "engine/lora/peft.h"
#include "engine/model/byte_tokenizer.h"
#include "engine/model/store.h"
#include "engine/model/weights.h"

static const struct {
    const char *name;
    struct dims dims;
    int32_t positions;
    bool tied;
} presets[] = {
#define X(name, layers, hidden, heads, kv_heads, head_dim, ffn, vocabulary, positions, tied, about) \
    {name, {hidden, heads, kv_heads, head_dim, ffn, vocabulary, layers}, positions, tied},
    RANDOM_PRESETS(X)
#undef X
};

bool random_preset(const char *name, struct model_config *ret_config)
{
    for (size_t i = 0; i < ARRAY_COUNT(presets); i++) {
        if (strcmp(name, presets[i].name) != 0)
            continue;
        *ret_config = (struct model_config){.family = FAMILY_LLAMA, .dims = presets[i].dims, .norm_eps = 1e-5f,
                                            .positions_max = presets[i].positions, .rope = {.theta = 10000, .factor = 1},
                                            .tied_head = presets[i].tied, .bos = 1, .eos_count = 1, .eos = {2}};
        return true;
    }
    return false;
}

/* Mean 0, variance 1, never beyond 3.47: the sum of four uniform numbers of 16 bits. */
static double draw_at(uint64_t key, uint64_t index)
{
    uint64_t bits = hash_mix(key ^ hash_mix(index));
    uint64_t sum = (bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48);

    return ((double)sum / 65536.0 - (2.0 - 2.0 / 65536.0)) * 1.7320508075688772;
}

/* How tensors are drawn: mean + deviation * draw. */
struct size {
    double mean;
    double deviation;
};

static bool ends_in(const char *name, const char *ending)
{
    size_t length = strlen(name);

    return length >= strlen(ending) && strcmp(name + length - strlen(ending), ending) == 0;
}

/* Each linear keeps its input's size; what is added to the residual stream shrinks with depth (Radford et al. 2019);
 * logits deviate by 2. */
static struct size size_of(const char *name, const struct tensor *tensor, int32_t layers, bool tied)
{
    double columns = tensor->dims == 2 ? (double)tensor->shape[1] : 1;

    if (ends_in(name, "norm.weight"))
        return (struct size){1, 0.1};
    if (ends_in(name, ".bias"))
        return (struct size){0, 0.1};
    if (strcmp(name, "lm_head.weight") == 0 || (tied && strcmp(name, "model.embed_tokens.weight") == 0))
        return (struct size){0, 2 / sqrt(columns)};
    if (strcmp(name, "model.embed_tokens.weight") == 0)
        return (struct size){0, 1};
    if (ends_in(name, "o_proj.weight") || ends_in(name, "down_proj.weight"))
        return (struct size){0, 1 / sqrt(columns * 2 * layers)};
    return (struct size){0, 1 / sqrt(columns)};
}

struct writer {
    const struct model_config *config;
    uint64_t seed;
    enum dtype dtype;
    file_progress *progress;
    void *context;
    struct tensor *tensor;
    char (*name)[TENSOR_NAME_MAX + 16];
    uint32_t count;
    int64_t done_bytes;
    int64_t total_bytes;
};

static enum tensor_type type_of(enum dtype dtype)
{
    return dtype == DTYPE_F32 ? TENSOR_F32 : dtype == DTYPE_F16 ? TENSOR_F16 : TENSOR_BF16;
}

static void count_tensor(void *context, const char *name, const int64_t *shape, int32_t dims)
{
    struct writer *writer = context;

    (void)name;
    writer->count++;
    writer->total_bytes += shape[0] * (dims == 2 ? shape[1] : 1) * (int64_t)dtype_bytes(writer->dtype);
}

static void add_tensor(void *context, const char *name, const int64_t *shape, int32_t dims)
{
    struct writer *writer = context;
    struct tensor *tensor = &writer->tensor[writer->count];

    strcpy(writer->name[writer->count], name);
    *tensor = (struct tensor){
        .name = writer->name[writer->count], .type = type_of(writer->dtype), .dims = dims, .shape = {shape[0]}};
    if (dims == 2)
        tensor->shape[1] = shape[1];
    writer->count++;
}

static bool fill(void *context, const struct tensor *tensor, int64_t offset, void *ret_data, size_t bytes)
{
    struct writer *writer = context;
    struct size size = size_of(tensor->name, tensor, writer->config->dims.layers, writer->config->tied_head);
    uint64_t key = hash_bytes(hash_mix(writer->seed), tensor->name, strlen(tensor->name));
    size_t count = bytes / dtype_bytes(writer->dtype);
    uint64_t first = (uint64_t)offset / dtype_bytes(writer->dtype);

    for (size_t i = 0; i < count; i++)
        dtype_store(writer->dtype, size.mean + size.deviation * draw_at(key, first + i), ret_data, i);
    writer->done_bytes += (int64_t)bytes;
    return writer->progress == NULL || writer->progress(writer->context, writer->done_bytes, writer->total_bytes);
}

static enum status write_weights(const char *directory, struct writer *writer, struct refusal *refusal)
{
    char path[4096];
    enum status status = STATUS_IO;

    model_tensors(writer->config, count_tensor, writer);
    writer->tensor = calloc(writer->count, sizeof(*writer->tensor));
    writer->name = calloc(writer->count, sizeof(*writer->name));
    writer->count = 0;
    if (writer->tensor == NULL || writer->name == NULL) {
        refuse(refusal, STATUS_IO, "%s: no memory", directory);
        goto free_list;
    }
    model_tensors(writer->config, add_tensor, writer);
    snprintf(path, sizeof(path), "%.4000s/model.safetensors", directory);
    status = safetensors_write(path, writer->tensor, writer->count, fill, writer, refusal);
free_list:
    free(writer->tensor);
    free(writer->name);
    return status;
}

static enum status write_text(const char *directory, const char *name, char *text, struct refusal *refusal)
{
    char path[4096];
    enum status status;

    check(text != NULL);
    snprintf(path, sizeof(path), "%.3900s/%s", directory, name);
    status = file_write(path, text, strlen(text), refusal);
    free(text);
    return status;
}

enum status random_model_write(const char *directory, const struct model_config *config, uint64_t seed, enum dtype dtype,
                               file_progress *progress, void *context, struct refusal *refusal)
{
    struct writer writer = {.config = config, .seed = seed, .dtype = dtype, .progress = progress, .context = context};
    enum status status = write_weights(directory, &writer, refusal);

    if (status == STATUS_OK)
        status = write_text(directory, "config.json", model_config_text(config, dtype), refusal);
    if (status == STATUS_OK && config->dims.vocabulary >= BYTE_TOKENIZER_IDS_MIN)
        status = write_text(directory, "tokenizer.json", byte_tokenizer_text(config->dims.vocabulary), refusal);
    return status;
}

/* One matrix of an adapter; free() it. */
static void *draw_matrix(uint64_t key, enum dtype dtype, size_t count, double deviation)
{
    void *data = malloc(count * dtype_bytes(dtype));

    for (size_t i = 0; data != NULL && i < count; i++)
        dtype_store(dtype, deviation * draw_at(key, i), data, i);
    return data;
}

/* y = 2 B (A x): with A of 1/sqrt(in), A x is of x's size, so B of e / (2 sqrt(r)) makes y that of e x. */
static bool draw_pairs(struct lora_pair *pairs, const struct dims *dims, const struct lora_source *source,
                       uint64_t seed, enum dtype dtype, void **ret_data)
{
    bool fine = true;

    for (int32_t layer = 0; layer < dims->layers; layer++)
        for (enum lora_module module = 0; module < LORA_MODULE_COUNT; module++) {
            size_t place = (size_t)layer * LORA_MODULE_COUNT + module;
            uint64_t key = hash_fold(hash_mix(seed), place);
            int32_t in = lora_module_in(dims, module);
            size_t rank = (size_t)source->rank;

            if ((source->modules >> module & 1) == 0)
                continue;
            ret_data[2 * place] = draw_matrix(hash_fold(key, 1), dtype, rank * (size_t)in, 1 / sqrt(in));
            ret_data[2 * place + 1] = draw_matrix(
                hash_fold(key, 2), dtype, rank * (size_t)lora_module_out(dims, module), 0.05 / sqrt(source->rank));
            pairs[place] = (struct lora_pair){ret_data[2 * place], ret_data[2 * place + 1], dtype, dtype, source->rank, 2};
            fine &= pairs[place].a != NULL && pairs[place].b != NULL;
        }
    return fine;
}

enum status random_adapter_write(const char *directory, const struct model_config *config, int32_t rank,
                                 uint32_t modules, uint64_t seed, enum dtype dtype, const char *base,
                                 struct refusal *refusal)
{
    size_t places = (size_t)config->dims.layers * LORA_MODULE_COUNT;
    struct lora_pair *pairs = calloc(places, sizeof(*pairs));
    void **data = calloc(2 * places, sizeof(*data));
    struct lora_source source = {.layers = config->dims.layers, .rank = rank, .modules = modules, .pair = pairs};
    struct peft_write write = {.source = &source, .dims = &config->dims, .alpha = 2 * rank, .base = base};
    enum status status;

    if (pairs == NULL || data == NULL || !draw_pairs(pairs, &config->dims, &source, seed, dtype, data))
        status = refuse(refusal, STATUS_IO, "%s: no memory", directory);
    else
        status = peft_write(directory, &write, refusal);
    for (size_t i = 0; data != NULL && i < 2 * places; i++)
        free(data[i]);
    free(data);
    free(pairs);
    return status;
}
