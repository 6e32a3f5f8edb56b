#include "engine/model/shard.h"

#include <stdlib.h>

bool shard_fits(const struct dims *dims, int32_t tp)
{
    return dims->heads % tp == 0 && dims->kv_heads % tp == 0 && dims->ffn % tp == 0;
}

struct dims shard_dims(const struct dims *dims, int32_t tp)
{
    struct dims part = *dims;

    part.heads /= tp;
    part.kv_heads /= tp;
    part.ffn /= tp;
    return part;
}

static const void *moved(const void *data, enum dtype dtype, int64_t elements)
{
    return data == NULL ? NULL : (const char *)data + elements * (int64_t)dtype_bytes(dtype);
}

static void cut_rows(struct weight *weight, int32_t rank, int32_t tp)
{
    int32_t out = weight->out / tp;

    weight->data = moved(weight->data, weight->dtype, (int64_t)rank * out * weight->stride);
    weight->bias = moved(weight->bias, weight->dtype, (int64_t)rank * out);
    weight->out = out;
}

static void cut_columns(struct weight *weight, int32_t rank, int32_t tp)
{
    int32_t in = weight->in / tp;

    weight->data = moved(weight->data, weight->dtype, (int64_t)rank * in);
    weight->in = in;
    if (rank > 0)
        weight->bias = NULL;
}

enum status shard_open(struct model_shard *shard, const struct model *model, int32_t rank, int32_t tp)
{
    const int32_t layers = model->config.dims.layers;

    shard->weights = model->weights;
    shard->weights.layer = malloc((size_t)layers * sizeof(shard->weights.layer[0]));
    if (shard->weights.layer == NULL)
        return STATUS_FULL;
    memcpy(shard->weights.layer, model->weights.layer, (size_t)layers * sizeof(shard->weights.layer[0]));
    for (int32_t i = 0; i < layers; i++) {
        struct layer_weights *layer = &shard->weights.layer[i];

        for (int j = 0; j < 3; j++)
            cut_rows(&layer->qkv[j], rank, tp);
        for (int j = 0; j < 2; j++)
            cut_rows(&layer->gate_up[j], rank, tp);
        cut_columns(&layer->o, rank, tp);
        cut_columns(&layer->down, rank, tp);
    }
    return STATUS_OK;
}

void shard_close(struct model_shard *shard)
{
    free(shard->weights.layer);
    shard->weights.layer = NULL;
}

/* --- adapters --------------------------------------------------------------------------------------------------------------- */

bool shard_by_columns(enum lora_module module)
{
    return module == LORA_O || module == LORA_DOWN;
}

static int64_t columns_bytes(const struct lora_source *source, const struct dims *dims, int32_t tp)
{
    int64_t bytes = 0;

    for (int32_t i = 0; i < source->layers * LORA_MODULE_COUNT; i++) {
        const struct lora_pair *pair = &source->pair[i];
        enum lora_module module = (enum lora_module)(i % LORA_MODULE_COUNT);

        if (pair->a != NULL && shard_by_columns(module))
            bytes += (int64_t)pair->rank * (lora_module_in(dims, module) / tp) * (int64_t)dtype_bytes(pair->a_dtype);
    }
    return bytes;
}

static char *copy_columns(struct lora_pair *pair, int32_t in, int32_t rank, int32_t tp, char *to)
{
    const size_t size = dtype_bytes(pair->a_dtype);
    const size_t part = (size_t)(in / tp) * size;

    for (int32_t row = 0; row < pair->rank; row++)
        memcpy(to + (size_t)row * part, (const char *)pair->a + (size_t)row * (size_t)in * size + (size_t)rank * part, part);
    pair->a = to;
    return to + (size_t)pair->rank * part;
}

enum status lora_shard_open(struct lora_shard *shard, const struct lora_source *source, const struct dims *dims, int32_t rank, int32_t tp)
{
    const int32_t count = source->layers * LORA_MODULE_COUNT;
    char *to;

    *shard = (struct lora_shard){.source = *source};
    shard->pairs = malloc((size_t)count * sizeof(shard->pairs[0]));
    shard->columns = malloc((size_t)columns_bytes(source, dims, tp) + 1);
    if (shard->pairs == NULL || shard->columns == NULL) {
        lora_shard_close(shard);
        return STATUS_FULL;
    }
    memcpy(shard->pairs, source->pair, (size_t)count * sizeof(shard->pairs[0]));
    shard->source.pair = shard->pairs;
    to = shard->columns;
    for (int32_t i = 0; i < count; i++) {
        struct lora_pair *pair = &shard->pairs[i];
        enum lora_module module = (enum lora_module)(i % LORA_MODULE_COUNT);

        if (pair->a == NULL)
            continue;
        if (shard_by_columns(module))
            to = copy_columns(pair, lora_module_in(dims, module), rank, tp, to);
        else
            pair->b = moved(pair->b, pair->b_dtype, (int64_t)rank * (lora_module_out(dims, module) / tp) * pair->rank);
    }
    return STATUS_OK;
}

void lora_shard_close(struct lora_shard *shard)
{
    free(shard->pairs);
    free(shard->columns);
    *shard = (struct lora_shard){0};
}
