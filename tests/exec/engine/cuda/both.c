#include "both.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

const char *wrong(const char *format, ...)
{
    static char text[512];
    va_list values;

    va_start(values, format);
    vsnprintf(text, sizeof(text), format, values);
    va_end(values);
    return text;
}

/* At least one ulp. */
static double ulp(enum dtype dtype, double value)
{
    return fabs(value) * (dtype == DTYPE_F32 ? 0x1p-23 : 0x1p-7);
}

const char *compare(const char *op, enum dtype dtype, const void *got, const void *want, const float *bound, double factor, int64_t count,
                           int32_t width)
{
    for (int64_t i = 0; i < count; i++) {
        double a = (double)dtype_load(dtype, got, (size_t)i), b = (double)dtype_load(dtype, want, (size_t)i);
        double allowed = (bound != NULL ? factor * fabs((double)bound[i]) : 0) + ulp(dtype, b);

        if (a == b || fabs(a - b) <= allowed)
            continue;
        return wrong("%s: row %lld, column %lld: got %.9g, want %.9g, off by %.3g, allowed %.3g", op, (long long)(i / width),
                     (long long)(i % width), a, b, fabs(a - b), allowed);
    }
    return NULL;
}

const char *still_nan(const char *op, enum dtype dtype, const void *got, int64_t from, int64_t to, int32_t width)
{
    for (int64_t i = from; i < to; i++)
        if (!isnan(dtype_load(dtype, got, (size_t)i)))
            return wrong("%s: row %lld, column %lld is beyond the batch and was written", op, (long long)(i / width), (long long)(i % width));
    return NULL;
}

struct both both_drawn(struct world *world, enum dtype dtype, int64_t count)
{
    struct both both = {.bytes = (size_t)count * dtype_bytes(dtype)};

    both.host = malloc(both.bytes + 1);
    world_fill(world, dtype, both.host, count);
    both.device = world_give(world, both.host, both.bytes);
    return both;
}

struct both both_nan(struct world *world, enum dtype dtype, int64_t count)
{
    struct both both = {.bytes = (size_t)count * dtype_bytes(dtype)};

    both.host = world_nan(both.bytes);
    both.device = world_give(world, both.host, both.bytes);
    return both;
}

void both_free(struct world *world, struct both *both)
{
    world->device->release(world->dev, both->device);
    free(both->host);
}

void *fetched(struct world *world, const struct both *both)
{
    void *got = malloc(both->bytes + 1);

    world_fetch(world, got, both->device, both->bytes);
    return got;
}

int64_t kv_count(const struct world *world)
{
    return (int64_t)world->blocks * world->ask.dims.kv_heads * KV_BLOCK_TOKENS * world->ask.dims.head_dim;
}

void kv_drawn(struct world *world, struct both *ret_k, struct both *ret_v)
{
    const struct dims *dims = &world->ask.dims;
    const size_t size = dtype_bytes(world_act(world));
    const int64_t block = (int64_t)dims->kv_heads * KV_BLOCK_TOKENS * dims->head_dim;
    struct both *each[2] = {ret_k, ret_v};

    for (int which = 0; which < 2; which++) {
        *each[which] = both_nan(world, world_act(world), kv_count(world));
        for (int i = 0; i < world->ask.sequences; i++) {
            int32_t keys = world->ask.sequence[i].before + world->ask.sequence[i].rows;

            for (int32_t key = 0; key < keys; key++) {
                int64_t at = world->host.block_table[i * world->host.blocks_max + key / KV_BLOCK_TOKENS] * block;

                for (int32_t head = 0; head < dims->kv_heads; head++)
                    world_fill(world, world_act(world),
                               (char *)each[which]->host +
                                   (size_t)(at + (head * KV_BLOCK_TOKENS + key % KV_BLOCK_TOKENS) * dims->head_dim) * size,
                               dims->head_dim);
            }
        }
        world->device->put(world->dev, LANE_COMPUTE, each[which]->device, each[which]->host, each[which]->bytes);
    }
}

struct layer layer_of(struct world *world, enum lora_group group)
{
    struct layer layer = {0};

    for (int module = 0; module < LORA_MODULE_COUNT; module++) {
        int32_t out = lora_module_out(&world->ask.dims, (enum lora_module)module);

        if (lora_group_of((enum lora_module)module) != group)
            continue;
        layer.in = lora_module_in(&world->ask.dims, (enum lora_module)module);
        world_weight(world, world->ask.dtype, out, layer.in, world->ask.bias, &layer.host[layer.n], &layer.device[layer.n]);
        layer.n++;
        layer.width += out;
    }
    return layer;
}

void layer_free(struct layer *layer)
{
    for (int i = 0; i < layer->n; i++)
        world_weight_free(&layer->host[i]);
}
