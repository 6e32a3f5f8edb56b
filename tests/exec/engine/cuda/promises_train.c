#include "promises_train.h"

#include <stdlib.h>

#include "both.h"

#define EPS 1e-5f

/* What the way back of a batch's rows reads and writes, and how wide a row of each is in bytes. Every op has its own numbers. */
#define CHAIN(X)                                                                                         \
    X(logits, f32, vocabulary) X(coef, f32, 1) X(dy, f32, hidden) X(x, f32, hidden) X(dfed, f32, ffn)      \
    X(gate_up, f32, 2 * ffn) X(qkv, f32, qkv) X(dattended, f32, heads) X(q, type, heads)                  \
    X(dlogits, type, vocabulary) X(logp, f32, 1) X(dx, f32, hidden) X(dx_act, type, hidden)               \
    X(dgate_up, type, 2 * ffn) X(dturned, f32, qkv) X(dqkv, type, qkv)

enum chain_kind {
#define X(name, dtype, width) CHAIN_##name,
    CHAIN(X)
#undef X
    CHAIN_COUNT,
    CHAIN_RESULTS = CHAIN_dlogits /* this one and those behind it are written */
};

struct chain {
    struct both memory[CHAIN_COUNT];
    size_t row_bytes[CHAIN_COUNT];
    struct both k, v, angles;
    int32_t *target, *best;      /* on the device: [outputs] */
    struct weight gain, head_gain[2];
};

static struct weight gain_drawn(struct world *world, int32_t width)
{
    struct weight host, device;

    world_weight(world, DTYPE_F32, 1, width, false, &host, &device);
    world_weight_free(&host);
    return device;
}

static struct chain chain_open(struct world *world)
{
    const struct dims *dims = &world->ask.dims;
    const enum dtype f32 = DTYPE_F32, type = world_act(world);
    const int32_t hidden = dims->hidden, ffn = dims->ffn, vocabulary = dims->vocabulary, heads = dims->heads * dims->head_dim;
    const int32_t qkv = heads + 2 * dims->kv_heads * dims->head_dim;
    int32_t *targets = calloc((size_t)world->host.max.outputs + 1, sizeof(*targets));
    struct chain chain;

#define X(name, dtype, width)                                                            \
    chain.memory[CHAIN_##name] = both_drawn(world, dtype, (int64_t)world->host.max.rows * (width)); \
    chain.row_bytes[CHAIN_##name] = (size_t)(width) * dtype_bytes(dtype);
    CHAIN(X)
#undef X
    kv_drawn(world, &chain.k, &chain.v);
    chain.angles = both_drawn(world, f32, (int64_t)world->positions_max * dims->head_dim);
    for (int32_t i = 0; i < world->host.max.outputs; i++)
        targets[i] = (int32_t)(world_draw(&world->draws) % (uint64_t)vocabulary);
    chain.target = world_give(world, targets, ((size_t)world->host.max.outputs + 1) * sizeof(*targets));
    chain.best = world_give(world, NULL, ((size_t)world->host.max.outputs + 1) * sizeof(*targets));
    free(targets);
    chain.gain = gain_drawn(world, hidden);
    for (int i = 0; i < 2; i++)
        chain.head_gain[i] = gain_drawn(world, dims->head_dim);
    return chain;
}

static void chain_close(struct world *world, struct chain *chain)
{
    for (int i = 0; i < CHAIN_COUNT; i++)
        both_free(world, &chain->memory[i]);
    both_free(world, &chain->k);
    both_free(world, &chain->v);
    both_free(world, &chain->angles);
    world->device->release(world->dev, chain->target);
    world->device->release(world->dev, chain->best);
}

/* The results as they were drawn, which some are added to. */
static void chain_reset(struct world *world, const struct chain *chain)
{
    for (int i = CHAIN_RESULTS; i < CHAIN_COUNT; i++)
        world->device->put(world->dev, LANE_COMPUTE, chain->memory[i].device, chain->memory[i].host, chain->memory[i].bytes);
}

/* All rows of a batch, of which the first is row `row` and the first output is `output` of the chain's. */
static void chain_run(struct world *world, const struct chain *chain, const struct batch *batch, int32_t row, int32_t output)
{
    const struct train_ops *train = world->train;
    struct dev *dev = world->dev;

#define AT(name) (void *)((char *)chain->memory[CHAIN_##name].device + (size_t)row * chain->row_bytes[CHAIN_##name])
#define OF_OUTPUT(name) (void *)((char *)chain->memory[CHAIN_##name].device + (size_t)output * chain->row_bytes[CHAIN_##name])
    train->loss(dev, OF_OUTPUT(logp), chain->best + output, OF_OUTPUT(dlogits), OF_OUTPUT(logits), chain->target + output, OF_OUTPUT(coef),
                batch);
    train->norm_back(dev, AT(dx_act), AT(dx), AT(dy), AT(x), &chain->gain, EPS, NULL, batch);
    train->swiglu_back(dev, AT(dgate_up), AT(dfed), AT(gate_up), batch);
    train->attend_back(dev, AT(dturned), AT(dattended), AT(q), chain->k.device, chain->v.device, batch);
    train->rope_back(dev, AT(dqkv), AT(dturned), AT(qkv), &chain->head_gain[0], &chain->head_gain[1], EPS, chain->angles.device, NULL, NULL,
                     batch);
#undef AT
#undef OF_OUTPUT
}

/* One sequence as a batch of its own; ret_output: the batch's first output. */
static struct batch sequence_alone(struct world *world, const struct sequence *sequence, int32_t *ret_output)
{
    const struct sequence own = {.rows = sequence->rows, .table = sequence->table};
    struct counts now = {.rows = own.rows, .sequences = 1};
    struct batch batch = world->batch;
    int32_t first = 0;

    while (first < world->now.outputs && world->host.out_row[first] < sequence->row)
        first++;
    while (first + now.outputs < world->now.outputs && world->host.out_row[first + now.outputs] < sequence->row + own.rows)
        now.outputs++;
    *ret_output = first;
    batch.max = now;
    batch.now = world_give(world, &now, sizeof(now));
    batch.sequence = world_give(world, &own, sizeof(own));
    batch.position += sequence->row;
    return batch;
}

const char *promise_rows_back_alone(struct world *world)
{
    struct chain chain = chain_open(world);
    char *mixed[CHAIN_COUNT] = {NULL}, *alone[CHAIN_COUNT] = {NULL};
    const char *answer = NULL;

    chain_reset(world, &chain);
    chain_run(world, &chain, &world->batch, 0, 0);
    for (int i = CHAIN_RESULTS; i < CHAIN_COUNT; i++)
        mixed[i] = fetched(world, &chain.memory[i]);
    chain_reset(world, &chain);
    for (int32_t s = world->now.sequences - 1; s >= 0; s--) {
        int32_t output;
        struct batch batch = sequence_alone(world, &world->host.sequence[s], &output);

        chain_run(world, &chain, &batch, world->host.sequence[s].row, output);
        world->device->release(world->dev, (void *)(uintptr_t)batch.now);
        world->device->release(world->dev, (void *)(uintptr_t)batch.sequence);
    }
    for (int i = CHAIN_RESULTS; i < CHAIN_COUNT; i++) {
        alone[i] = fetched(world, &chain.memory[i]);
        if (memcmp(mixed[i], alone[i], chain.memory[i].bytes) != 0)
            answer = wrong("sequences one by one: the way back's result %d has other bits", i - CHAIN_RESULTS);
        free(mixed[i]);
        free(alone[i]);
    }
    chain_close(world, &chain);
    return answer;
}
