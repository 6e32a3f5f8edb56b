/* Bounds: a sum of k products in float is off by at most 4 sqrt(k) 2^-24 times the sum of their absolute values (which
 * the definition gives for operands without signs), and each side's result by half an ulp of its type. Where an
 * intermediate value is rounded to bf16 by both sides (A x), the two may fall on neighbours: 2^-8 of it; attention's
 * weights are rounded to bf16 by one side: 2^-8 of theirs. */
#include "cases.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "both.h"
#include "engine/ops/ref/ref.h"

#define EPS 1e-5f

const char *case_embed(struct world *world)
{
    const struct dims *dims = &world->ask.dims;
    struct weight host, device;
    struct both x = both_nan(world, DTYPE_F32, (int64_t)world->host.max.rows * dims->hidden);
    const char *answer;
    void *got;

    world_weight(world, world->ask.dtype, dims->vocabulary, dims->hidden, false, &host, &device);
    ops_ref.embed(&world->host_dev, x.host, &host, &world->host);
    world->ops->embed(world->dev, x.device, &device, &world->batch);
    got = fetched(world, &x);
    answer = compare("embed", DTYPE_F32, got, x.host, NULL, 0, (int64_t)world->now.rows * dims->hidden, dims->hidden);
    free(got);
    both_free(world, &x);
    world_weight_free(&host);
    return answer;
}

const char *case_norm(struct world *world)
{
    const struct dims *dims = &world->ask.dims;
    const int64_t count = (int64_t)world->host.max.rows * dims->hidden, now = (int64_t)world->now.rows * dims->hidden;
    struct weight host, device;
    const char *answer = NULL;

    for (int with_add = 0; with_add < 2 && answer == NULL; with_add++) {
        struct both x = both_drawn(world, DTYPE_F32, count), add = both_drawn(world, DTYPE_F32, count);
        struct both y = both_nan(world, world_act(world), count);
        float *bound;
        void *got;

        world_weight(world, world->ask.dtype, 1, dims->hidden, false, &host, &device);
        ops_ref.norm(&world->host_dev, y.host, x.host, with_add ? add.host : NULL, &host, EPS, &world->host);
        world->ops->norm(world->dev, y.device, x.device, with_add ? add.device : NULL, &device, EPS, &world->batch);
        got = fetched(world, &x);
        answer = compare("norm's x", DTYPE_F32, got, x.host, NULL, 0, now, dims->hidden);
        free(got);
        got = fetched(world, &y);
        bound = malloc((size_t)count * sizeof(float));
        for (int64_t i = 0; i < now; i++)
            bound[i] = dtype_load(world_act(world), y.host, (size_t)i);
        if (answer == NULL)
            answer = compare("norm", world_act(world), got, y.host, bound, 4 * sqrt(dims->hidden) * 0x1p-24, now, dims->hidden);
        free(bound);
        free(got);
        both_free(world, &x);
        both_free(world, &add);
        both_free(world, &y);
        world_weight_free(&host);
    }
    return answer;
}

const char *case_swiglu(struct world *world)
{
    const int32_t ffn = world->ask.dims.ffn;
    struct both gate_up = both_drawn(world, DTYPE_F32, (int64_t)world->host.max.rows * 2 * ffn);
    struct both y = both_nan(world, world_act(world), (int64_t)world->host.max.rows * ffn);
    const int64_t now = (int64_t)world->now.rows * ffn;
    float *bound = malloc((size_t)now * sizeof(float) + 1);
    const char *answer;
    void *got;

    ops_ref.swiglu(&world->host_dev, y.host, gate_up.host, &world->host);
    world->ops->swiglu(world->dev, y.device, gate_up.device, &world->batch);
    got = fetched(world, &y);
    for (int64_t i = 0; i < now; i++)
        bound[i] = dtype_load(world_act(world), y.host, (size_t)i);
    answer = compare("swiglu", world_act(world), got, y.host, bound, 8 * 0x1p-24, now, ffn);
    free(bound);
    free(got);
    both_free(world, &gate_up);
    both_free(world, &y);
    return answer;
}

/* --- positions and attention -------------------------------------------------------------------------------------- */
const char *case_rope_store(struct world *world)
{
    const struct dims *dims = &world->ask.dims;
    const int32_t d = dims->head_dim, width = (dims->heads + 2 * dims->kv_heads) * d;
    struct both qkv = both_drawn(world, DTYPE_F32, (int64_t)world->host.max.rows * width);
    struct both angles = both_drawn(world, DTYPE_F32, (int64_t)world->positions_max * d);
    const char *answer = NULL;

    for (int with_gain = 0; with_gain < 2 && answer == NULL; with_gain++) {
        struct both q = both_nan(world, world_act(world), (int64_t)world->host.max.rows * dims->heads * d);
        struct both k = both_nan(world, world_act(world), kv_count(world)), v = both_nan(world, world_act(world), kv_count(world));
        struct weight gain[2] = {{.data = NULL}, {.data = NULL}}, device_gain[2] = {{.data = NULL}, {.data = NULL}};
        const struct both *results[3] = {&q, &k, &v};

        for (int i = 0; i < 2 && with_gain; i++)
            world_weight(world, world->ask.dtype, 1, d, false, &gain[i], &device_gain[i]);
        ops_ref.rope_store(&world->host_dev, q.host, k.host, v.host, qkv.host, &gain[0], &gain[1], EPS, angles.host, &world->host);
        world->ops->rope_store(world->dev, q.device, k.device, v.device, qkv.device, &device_gain[0], &device_gain[1], EPS, angles.device,
                               &world->batch);
        for (int i = 0; i < 3 && answer == NULL; i++) {
            static const char *const names[3] = {"rope_store's q", "rope_store's k", "rope_store's v"};
            int64_t count = i == 0 ? (int64_t)world->now.rows * dims->heads * d : kv_count(world);
            void *got = fetched(world, results[i]);
            float *bound = malloc((size_t)count * sizeof(float) + 1);

            /* A pair's two products may cancel; each is at most 1.5 in size. What nobody stored is still NaN on both
             * sides. */
            for (int64_t j = 0; j < count; j++) {
                bound[j] = with_gain ? 4 : 2;
                if (isnan(dtype_load(world_act(world), results[i]->host, (size_t)j)) && isnan(dtype_load(world_act(world), got, (size_t)j)))
                    memset((char *)got + (size_t)j * dtype_bytes(world_act(world)), 0, dtype_bytes(world_act(world))),
                        memset((char *)results[i]->host + (size_t)j * dtype_bytes(world_act(world)), 0, dtype_bytes(world_act(world)));
            }
            answer = compare(names[i], world_act(world), got, results[i]->host, bound, 8 * 0x1p-24, count, d);
            free(bound);
            free(got);
        }
        both_free(world, &q);
        both_free(world, &k);
        both_free(world, &v);
        for (int i = 0; i < 2 && with_gain; i++)
            world_weight_free(&gain[i]);
    }
    both_free(world, &qkv);
    both_free(world, &angles);
    return answer;
}

static struct both attend(struct world *world, float **ret_bound)
{
    const struct dims *dims = &world->ask.dims;
    const int64_t count = (int64_t)world->host.max.rows * dims->heads * dims->head_dim;
    struct both q = both_drawn(world, world_act(world), count), y = both_nan(world, world_act(world), count), k, v;

    kv_drawn(world, &k, &v);
    ops_ref.attend(&world->host_dev, y.host, q.host, k.host, v.host, &world->host);
    world->ops->attend(world->dev, y.device, q.device, k.device, v.device, &world->batch);
    if (ret_bound != NULL) {
        void *absolute = world_nan(y.bytes);

        world_absolute(world_act(world), v.host, kv_count(world));
        ops_ref.attend(&world->host_dev, absolute, q.host, k.host, v.host, &world->host);
        *ret_bound = malloc((size_t)count * sizeof(float));
        for (int64_t i = 0; i < count; i++)
            (*ret_bound)[i] = dtype_load(world_act(world), absolute, (size_t)i);
        free(absolute);
    }
    both_free(world, &q);
    both_free(world, &k);
    both_free(world, &v);
    return y;
}

const char *case_attend(struct world *world)
{
    const struct dims *dims = &world->ask.dims;
    const int32_t width = dims->heads * dims->head_dim;
    float *bound;
    struct both y = attend(world, &bound);
    void *got = fetched(world, &y);
    /* exact: scores are off by their sum's bound, which goes into the exponent; fast: 2^-8 covers that too. */
    double factor = world->ask.mode == MODE_FAST ? 0x1p-8 : 16 * sqrt(dims->head_dim + world->positions_max) * 0x1p-24;
    const char *answer = compare("attend", world_act(world), got, y.host, bound, factor, (int64_t)world->now.rows * width, width);

    free(bound);
    free(got);
    both_free(world, &y);
    return answer;
}

void *case_attend_bits(struct world *world, size_t *ret_bytes)
{
    struct both y = attend(world, NULL);
    void *got = fetched(world, &y);

    *ret_bytes = (size_t)world->now.rows * (size_t)(world->ask.dims.heads * world->ask.dims.head_dim) * dtype_bytes(world_act(world));
    both_free(world, &y);
    return got;
}

/* --- linear ------------------------------------------------------------------------------------------------------- */
/* bound of y: the definition without signs, and how much of it comes through A x. */
static float *linear_bound(struct world *world, struct layer *layer, void *x, const struct lora *lora)
{
    const int64_t count = (int64_t)world->host.max.rows * layer->width;
    float *bound = world_nan((size_t)count * sizeof(float)), *base = world_nan((size_t)count * sizeof(float));
    char *pool = malloc((size_t)world->pool_bytes + 1);
    struct lora absolute = lora != NULL ? *lora : (struct lora){0};
    double sums = 4 * sqrt(layer->in) * 0x1p-24, rounded = world->ask.mode == MODE_FAST ? 0x1p-8 : 8 * sqrt(layer->in) * 0x1p-24;

    world_absolute(world_act(world), x, (int64_t)world->host.max.rows * layer->in);
    for (int i = 0; i < layer->n; i++) {
        world_absolute(layer->host[i].dtype, (void *)(uintptr_t)layer->host[i].data, (int64_t)layer->host[i].out * layer->in);
        if (layer->host[i].bias != NULL)
            world_absolute(layer->host[i].dtype, (void *)(uintptr_t)layer->host[i].bias, layer->host[i].out);
    }
    memcpy(pool, world->pool, (size_t)world->pool_bytes);
    world_absolute(world_act(world), pool, world->pool_bytes / (int64_t)dtype_bytes(world_act(world)));
    absolute.pool = pool;
    ops_ref.linear(&world->host_dev, base, x, layer->host, layer->n, NULL, &world->host);
    ops_ref.linear(&world->host_dev, bound, x, layer->host, layer->n, lora != NULL ? &absolute : NULL, &world->host);
    for (int64_t i = 0; i < count; i++)
        bound[i] = (float)(sums * (double)bound[i] + rounded * (double)(bound[i] - base[i]));
    free(base);
    free(pool);
    return bound;
}

static struct both linear(struct world *world, struct layer *layer, enum lora_group group, bool with_lora, float **ret_bound)
{
    struct both x = both_drawn(world, world_act(world), (int64_t)world->host.max.rows * layer->in);
    struct both y = both_nan(world, DTYPE_F32, (int64_t)world->host.max.rows * layer->width);
    struct lora host = {.pool = world->pool, .slot = world->slots, .layer = world->ask.dims.layers - 1, .group = group}, device = host;

    device.pool = world->device_pool;
    device.slot = world->device_slots;
    ops_ref.linear(&world->host_dev, y.host, x.host, layer->host, layer->n, with_lora ? &host : NULL, &world->host);
    world->ops->linear(world->dev, y.device, x.device, layer->device, layer->n, with_lora ? &device : NULL, &world->batch);
    if (ret_bound != NULL)
        *ret_bound = linear_bound(world, layer, x.host, with_lora ? &host : NULL);
    both_free(world, &x);
    return y;
}

const char *case_linear(struct world *world, enum lora_group group, bool with_lora)
{
    struct layer layer = layer_of(world, group);
    float *bound;
    struct both y = linear(world, &layer, group, with_lora, &bound);
    void *got = fetched(world, &y);
    const char *answer = compare(with_lora ? "linear with adapters" : "linear", DTYPE_F32, got, y.host, bound, world->ask.integers ? 0 : 1,
                                 (int64_t)world->now.rows * layer.width, layer.width);

    free(bound);
    free(got);
    both_free(world, &y);
    layer_free(&layer);
    return answer;
}

float *case_linear_bits(struct world *world, enum lora_group group, size_t *ret_bytes)
{
    struct layer layer = layer_of(world, group);
    struct both y = linear(world, &layer, group, true, NULL);
    void *got = fetched(world, &y);

    *ret_bytes = (size_t)world->now.rows * (size_t)layer.width * sizeof(float);
    both_free(world, &y);
    layer_free(&layer);
    return got;
}

const char *case_head(struct world *world)
{
    const struct dims *dims = &world->ask.dims;
    struct both x = both_drawn(world, world_act(world), (int64_t)world->host.max.rows * dims->hidden);
    struct both logits = both_nan(world, DTYPE_F32, (int64_t)world->host.max.outputs * dims->vocabulary);
    float *bound = world_nan(logits.bytes);
    struct weight host, device;
    const char *answer;
    void *got;

    world_weight(world, world->ask.dtype, dims->vocabulary, dims->hidden, false, &host, &device);
    ops_ref.head(&world->host_dev, logits.host, x.host, &host, &world->host);
    world->ops->head(world->dev, logits.device, x.device, &device, &world->batch);
    got = fetched(world, &logits);
    world_absolute(world_act(world), x.host, (int64_t)world->host.max.rows * dims->hidden);
    world_absolute(host.dtype, (void *)(uintptr_t)host.data, (int64_t)dims->vocabulary * dims->hidden);
    ops_ref.head(&world->host_dev, bound, x.host, &host, &world->host);
    answer = compare("head", DTYPE_F32, got, logits.host, bound, world->ask.integers ? 0 : 4 * sqrt(dims->hidden) * 0x1p-24,
                     (int64_t)world->now.outputs * dims->vocabulary, dims->vocabulary);
    free(bound);
    free(got);
    both_free(world, &x);
    both_free(world, &logits);
    world_weight_free(&host);
    return answer;
}

/* The first output's row has a NaN among its logits, as an adapter that went bad leaves it. */
static struct both logits_with_nan(struct world *world, int32_t vocabulary)
{
    struct both logits = both_drawn(world, DTYPE_F32, (int64_t)world->host.max.outputs * vocabulary);

    if (world->now.outputs == 0)
        return logits;
    ((float *)logits.host)[vocabulary / 2] = NAN;
    world->device->release(world->dev, logits.device);
    logits.device = world_give(world, logits.host, logits.bytes);
    return logits;
}

const char *case_pick(struct world *world, int best)
{
    const int32_t vocabulary = world->ask.dims.vocabulary;
    const int64_t count = (int64_t)world->now.outputs * best;
    struct both logits = logits_with_nan(world, vocabulary);
    struct both lse = both_nan(world, DTYPE_F32, world->host.max.outputs), logit = both_nan(world, DTYPE_F32, (int64_t)world->host.max.outputs * best);
    struct both id = both_nan(world, DTYPE_F32, (int64_t)world->host.max.outputs * best);
    void *got;
    const char *answer;
    float bound = 4;

    ops_ref.pick(&world->host_dev, lse.host, logit.host, id.host, logits.host, best, &world->host);
    world->ops->pick(world->dev, lse.device, logit.device, id.device, logits.device, best, &world->batch);
    got = fetched(world, &lse);
    answer = NULL;
    if (world->now.outputs > 0 && !isnan(((float *)got)[0]))
        answer = "pick's lse: a NaN among the logits does not show";
    for (int32_t i = 1; i < world->now.outputs && answer == NULL; i++)
        answer = compare("pick's lse", DTYPE_F32, (float *)got + i, (float *)lse.host + i, &bound, 64 * 0x1p-24, 1, 1);
    free(got);
    got = fetched(world, &logit);
    if (answer == NULL)
        answer = compare("pick's logits", DTYPE_F32, got, logit.host, NULL, 0, count, best > 0 ? best : 1);
    free(got);
    got = fetched(world, &id);
    for (int64_t i = 0; i < count && answer == NULL; i++) {
        if (((int32_t *)got)[i] != ((int32_t *)id.host)[i]) {
            answer = wrong("pick's ids: output %lld, place %lld: got %d, want %d", (long long)(i / best), (long long)(i % best),
                           ((int32_t *)got)[i], ((int32_t *)id.host)[i]);
        }
    }
    free(got);
    both_free(world, &logits);
    both_free(world, &lse);
    both_free(world, &logit);
    both_free(world, &id);
    return answer;
}

const char *case_all(struct world *world)
{
    int best = world->ask.dims.vocabulary < PICK_MAX ? world->ask.dims.vocabulary : PICK_MAX;
    const char *answer = case_embed(world);

    if (answer == NULL)
        answer = case_norm(world);
    if (answer == NULL)
        answer = case_swiglu(world);
    if (answer == NULL)
        answer = case_rope_store(world);
    if (answer == NULL)
        answer = case_attend(world);
    for (int i = 0; i < 2 * LORA_GROUP_COUNT && answer == NULL; i++)
        answer = case_linear(world, (enum lora_group)(i / 2), i % 2 == 1);
    if (answer == NULL)
        answer = case_head(world);
    if (answer == NULL)
        answer = case_pick(world, best);
    if (answer == NULL)
        answer = case_pick(world, 1);
    return answer;
}
