#include "promises.h"

#include <stdio.h>
#include <stdlib.h>

#define EPS 1e-5f

static char wrong[256];

static const char *say(const char *what, int64_t row)
{
    snprintf(wrong, sizeof(wrong), "%s: row %lld has other bits", what, (long long)row);
    return wrong;
}

/* One layer's memory on the device, drawn. */
struct chain {
    struct weight embed, gain, qkv[3], o, head;
    struct lora lora[2];         /* QKV, O */
    int32_t qkv_width, d_width;  /* of rows of qkv and q */
    float *x, *wide, *logits, *lse, *best_logit, *angles;
    int32_t *best_id;
    void *y, *q, *kv, *attended;
    size_t kv_bytes;
};

static struct weight weight(struct world *world, int32_t out, int32_t in)
{
    struct weight host, device;

    world_weight(world, world->ask.mode == MODE_FAST ? DTYPE_BF16 : DTYPE_F32, out, in, false, &host, &device);
    world_weight_free(&host);
    return device;
}

static void *drawn(struct world *world, enum dtype dtype, int64_t count)
{
    void *host = malloc((size_t)count * dtype_bytes(dtype) + 1), *device;

    world_fill(world, dtype, host, count);
    device = world_give(world, host, (size_t)count * dtype_bytes(dtype));
    free(host);
    return device;
}

static struct chain chain_open(struct world *world)
{
    const struct dims *dims = &world->ask.dims;
    const int64_t rows = world->host.max.rows, outputs = world->host.max.outputs;
    const enum dtype type = world_act(world);
    struct chain chain = {.qkv_width = (dims->heads + 2 * dims->kv_heads) * dims->head_dim, .d_width = dims->heads * dims->head_dim};

    chain.embed = weight(world, dims->vocabulary, dims->hidden);
    chain.gain = weight(world, 1, dims->hidden);
    for (int i = 0; i < 3; i++)
        chain.qkv[i] = weight(world, (i == 0 ? dims->heads : dims->kv_heads) * dims->head_dim, dims->hidden);
    chain.o = weight(world, dims->hidden, chain.d_width);
    chain.head = weight(world, dims->vocabulary, dims->hidden);
    for (int i = 0; i < 2; i++)
        chain.lora[i] = (struct lora){world->device_pool, world->device_slots, 0, i == 0 ? LORA_GROUP_QKV : LORA_GROUP_O};
    chain.x = world_give(world, NULL, (size_t)(rows * dims->hidden) * 4);
    chain.wide = world_give(world, NULL, (size_t)(rows * (chain.qkv_width > dims->hidden ? chain.qkv_width : dims->hidden)) * 4);
    chain.y = world_give(world, NULL, (size_t)(rows * dims->hidden) * dtype_bytes(type));
    chain.q = world_give(world, NULL, (size_t)(rows * chain.d_width) * dtype_bytes(type));
    chain.attended = world_give(world, NULL, (size_t)(rows * chain.d_width) * dtype_bytes(type));
    chain.logits = world_give(world, NULL, (size_t)(outputs * dims->vocabulary) * 4);
    chain.lse = world_give(world, NULL, (size_t)outputs * 4);
    chain.best_logit = world_give(world, NULL, (size_t)outputs * 4);
    chain.best_id = world_give(world, NULL, (size_t)outputs * 4);
    chain.angles = drawn(world, DTYPE_F32, (int64_t)world->positions_max * dims->head_dim);
    chain.kv_bytes = (size_t)world->blocks * (size_t)dims->kv_heads * KV_BLOCK_TOKENS * (size_t)dims->head_dim * dtype_bytes(type);
    chain.kv = drawn(world, type, (int64_t)(2 * chain.kv_bytes / dtype_bytes(type)));
    return chain;
}

static void chain_close(struct world *world, struct chain *chain)
{
    void *memory[] = {chain->x, chain->wide, chain->y, chain->q, chain->attended, chain->logits, chain->lse, chain->best_logit,
                      chain->best_id, chain->angles, chain->kv};

    for (size_t i = 0; i < ARRAY_COUNT(memory); i++)
        world->device->release(world->dev, memory[i]);
}

static void chain_run(struct world *world, struct chain *chain, const struct batch *batch)
{
    const struct ops *ops = world->ops;
    const struct weight none = {.data = NULL};
    struct dev *dev = world->dev;
    char *v = (char *)chain->kv + chain->kv_bytes;

    ops->embed(dev, chain->x, &chain->embed, batch);
    ops->norm(dev, chain->y, chain->x, NULL, &chain->gain, EPS, batch);
    ops->linear(dev, chain->wide, chain->y, chain->qkv, 3, &chain->lora[0], batch);
    ops->rope_store(dev, chain->q, chain->kv, v, chain->wide, &none, &none, EPS, chain->angles, batch);
    ops->attend(dev, chain->attended, chain->q, chain->kv, v, batch);
    ops->linear(dev, chain->wide, chain->attended, &chain->o, 1, &chain->lora[1], batch);
    ops->norm(dev, chain->y, chain->x, chain->wide, &chain->gain, EPS, batch);
    ops->head(dev, chain->logits, chain->y, &chain->head, batch);
    ops->pick(dev, chain->lse, chain->best_logit, chain->best_id, chain->logits, 1, batch);
}

/* What the host can see of a run: x of every row, then every output's logits and its best. */
struct seen { size_t x_bytes, logits_bytes, bytes; char *data; };

static struct seen chain_see(struct world *world, const struct chain *chain)
{
    const struct dims *dims = &world->ask.dims;
    struct seen seen = {.x_bytes = (size_t)world->host.max.rows * (size_t)dims->hidden * 4,
                        .logits_bytes = (size_t)world->host.max.outputs * (size_t)dims->vocabulary * 4};

    seen.bytes = seen.x_bytes + seen.logits_bytes + (size_t)world->host.max.outputs * 4;
    seen.data = malloc(seen.bytes);
    world_fetch(world, seen.data, chain->x, seen.x_bytes);
    world_fetch(world, seen.data + seen.x_bytes, chain->logits, seen.logits_bytes);
    world_fetch(world, seen.data + seen.x_bytes + seen.logits_bytes, chain->best_id, (size_t)world->host.max.outputs * 4);
    return seen;
}

/* The rows of the first `rows` and `outputs`. */
static bool same(const struct world *world, const struct seen *a, const struct seen *b, int32_t rows, int32_t outputs)
{
    const struct dims *dims = &world->ask.dims;

    return memcmp(a->data, b->data, (size_t)rows * (size_t)dims->hidden * 4) == 0 &&
           memcmp(a->data + a->x_bytes, b->data + b->x_bytes, (size_t)outputs * (size_t)dims->vocabulary * 4) == 0 &&
           memcmp(a->data + a->x_bytes + a->logits_bytes, b->data + b->x_bytes + b->logits_bytes, (size_t)outputs * 4) == 0;
}

/* --- graphs ------------------------------------------------------------------------------------------------------- */
static void forget(struct world *world, struct chain *chain, const struct seen *nan)
{
    world->device->put(world->dev, LANE_COMPUTE, chain->x, nan->data, nan->x_bytes);
    world->device->put(world->dev, LANE_COMPUTE, chain->logits, nan->data + nan->x_bytes, nan->logits_bytes);
    world->device->put(world->dev, LANE_COMPUTE, chain->best_id, nan->data + nan->x_bytes + nan->logits_bytes,
                       (size_t)world->host.max.outputs * 4);
}

const char *promise_graphs(struct world *world, bool *ret_skipped)
{
    const struct device *device = world->device;
    const struct counts all = world->now, one = {1, 1, 1, 1, 1}, nobody = {0, 0, 0, 0, 0};
    struct chain chain = chain_open(world);
    struct seen nan = chain_see(world, &chain), eager_all, eager_one, replayed;
    const char *answer = NULL;
    uint32_t graph;

    *ret_skipped = false;
    chain_run(world, &chain, &world->batch);
    eager_all = chain_see(world, &chain);
    world_counts(world, one);
    forget(world, &chain, &nan);
    chain_run(world, &chain, &world->batch);
    eager_one = chain_see(world, &chain);
    device->record(world->dev);
    chain_run(world, &chain, &world->batch);
    graph = device->recorded(world->dev);
    if (graph == 0) {
        *ret_skipped = true;
    } else {
        const struct { const struct counts *now; const struct seen *want; const char *name; } runs[] = {
            {&one, &eager_one, "a graph with the row it was recorded with"},
            {&all, &eager_all, "a graph recorded with one row, with all"},
            {&nobody, &nan, "a graph with nobody"},
            {&all, &eager_all, "a graph with all again"},
        };

        for (size_t i = 0; i < ARRAY_COUNT(runs) && answer == NULL; i++) {
            forget(world, &chain, &nan);
            world_counts(world, *runs[i].now);
            device->replay(world->dev, graph);
            replayed = chain_see(world, &chain);
            if (!same(world, &replayed, runs[i].want, runs[i].now->rows, runs[i].now->outputs))
                answer = say(runs[i].name, -1);
            free(replayed.data);
        }
    }
    world_counts(world, all);
    free(nan.data);
    free(eager_all.data);
    free(eager_one.data);
    chain_close(world, &chain);
    return answer;
}

/* --- bits --------------------------------------------------------------------------------------------------------- */
/* A batch of one row of the world's: its token, its place in its sequence, its adapter. */
static struct batch alone(struct world *world, int32_t row)
{
    struct batch batch = world->host;
    struct sequence sequence = {.row = 0, .rows = 1};
    struct segment segment = {.row = 0, .rows = 1, .slot = SEGMENT_NONE};
    struct tile tile = {0, 0, 1};
    struct counts now = {1, 1, 1, 0, 0};
    int32_t zero = 0;

    for (int i = 0; i < world->now.sequences; i++) {
        const struct sequence *each = &world->host.sequence[i];

        if (row >= each->row && row < each->row + each->rows) {
            sequence.before = each->before + row - each->row;
            sequence.table = each->table;
        }
    }
    for (int i = 0; i < world->now.segments; i++) {
        const struct segment *each = &world->host.segment[i];

        if (row >= each->row && row < each->row + each->rows)
            segment.slot = each->slot;
    }
    now.segments = now.tiles = segment.slot != SEGMENT_NONE;
    batch.max = now;
    batch.now = world_give(world, &now, sizeof(now));
    batch.token = world_give(world, &world->host.token[row], 4);
    batch.position = world_give(world, &world->host.position[row], 4);
    batch.out_row = world_give(world, &zero, 4);
    batch.sequence = world_give(world, &sequence, sizeof(sequence));
    batch.segment = world_give(world, &segment, sizeof(segment));
    batch.tile = world_give(world, &tile, sizeof(tile));
    batch.block_table = world->batch.block_table;
    return batch;
}

static void alone_free(struct world *world, struct batch *batch)
{
    const void *memory[] = {batch->now, batch->token, batch->position, batch->out_row, batch->sequence, batch->segment, batch->tile};

    for (size_t i = 0; i < ARRAY_COUNT(memory); i++)
        world->device->release(world->dev, (void *)(uintptr_t)memory[i]);
}

const char *promise_alone_or_mixed(struct world *world)
{
    const struct dims *dims = &world->ask.dims;
    struct chain chain = chain_open(world);
    struct seen mixed, single;
    const char *answer = NULL;

    chain_run(world, &chain, &world->batch);
    mixed = chain_see(world, &chain);
    /* Keys and values are those of the run above, written again with the same bits. Of many rows, every third. */
    for (int32_t row = 0; row < world->now.rows && answer == NULL; row += world->now.rows > 20 ? 3 : 1) {
        struct batch batch = alone(world, row);
        int32_t output = 0;

        chain_run(world, &chain, &batch);
        single = chain_see(world, &chain);
        if (memcmp(single.data, mixed.data + (size_t)row * (size_t)dims->hidden * 4, (size_t)dims->hidden * 4) != 0)
            answer = say("alone or mixed", row);
        while (output < world->now.outputs && world->host.out_row[output] != row)
            output++;
        if (answer == NULL && output < world->now.outputs &&
            memcmp(single.data + single.x_bytes, mixed.data + mixed.x_bytes + (size_t)output * (size_t)dims->vocabulary * 4,
                   (size_t)dims->vocabulary * 4) != 0)
            answer = say("logits alone or mixed", row);
        free(single.data);
        alone_free(world, &batch);
    }
    free(mixed.data);
    chain_close(world, &chain);
    return answer;
}

const char *promise_one_segment_or_many(struct world *world)
{
    struct chain chain = chain_open(world);
    struct seen one, many;
    struct batch batch = world->batch;
    struct counts now = world->now;
    struct segment *segments = calloc((size_t)now.rows + 1, sizeof(*segments));
    struct tile *tiles = calloc((size_t)now.rows + 1, sizeof(*tiles));
    const char *answer = NULL;

    chain_run(world, &chain, &world->batch);
    one = chain_see(world, &chain);
    now.segments = 0;
    for (int32_t i = 0; i < world->now.segments; i++) {
        for (int32_t row = world->host.segment[i].row; row < world->host.segment[i].row + world->host.segment[i].rows; row++) {
            tiles[now.segments] = (struct tile){now.segments, row, 1};
            segments[now.segments++] = (struct segment){row, 1, world->host.segment[i].slot};
        }
    }
    now.tiles = now.segments;
    batch.max = now;
    batch.max.rows = world->batch.max.rows;
    batch.max.outputs = world->batch.max.outputs;
    batch.now = world_give(world, &now, sizeof(now));
    batch.segment = world_give(world, segments, ((size_t)now.rows + 1) * sizeof(*segments));
    batch.tile = world_give(world, tiles, ((size_t)now.rows + 1) * sizeof(*tiles));
    chain_run(world, &chain, &batch);
    many = chain_see(world, &chain);
    if (!same(world, &one, &many, now.rows, now.outputs))
        answer = say("one segment or many", -1);
    world->device->release(world->dev, (void *)(uintptr_t)batch.now);
    world->device->release(world->dev, (void *)(uintptr_t)batch.segment);
    world->device->release(world->dev, (void *)(uintptr_t)batch.tile);
    free(one.data);
    free(many.data);
    free(segments);
    free(tiles);
    chain_close(world, &chain);
    return answer;
}

/* --- memory ------------------------------------------------------------------------------------------------------- */
#define MOVED_BYTES ((size_t)9 << 20)

static const char *moves(const struct device *device, struct dev *dev)
{
    unsigned char *host = malloc(MOVED_BYTES + 4096), *got = malloc(MOVED_BYTES + 4096);
    char *memory = device->reserve(dev, MOVED_BYTES + 4096);
    const char *answer = NULL;

    for (size_t i = 0; i < MOVED_BYTES + 4096; i++)
        host[i] = (unsigned char)(i * 2654435761u >> 13);
    for (int forward = 0; forward < 2 && answer == NULL; forward++) {
        size_t to = forward ? 4096 : 0, from = forward ? 0 : 4096;

        device->put(dev, LANE_COPY, memory, host, MOVED_BYTES + 4096);
        device->move(dev, LANE_COPY, memory + to, memory + from, MOVED_BYTES);
        device->get(dev, LANE_COPY, got, memory + to, MOVED_BYTES);
        device->finish(dev, LANE_COPY);
        if (memcmp(got, host + from, MOVED_BYTES) != 0)
            answer = "a move onto itself lost something";
    }
    device->release(dev, memory);
    free(host);
    free(got);
    return answer;
}

/* What one lane has marked the other sees; a mark passes; host memory may be used again at once. */
static const char *lanes(const struct device *device, struct dev *dev)
{
    int32_t *memory = device->reserve(dev, 64), value, zero[4], got = 0;
    uint64_t mark = 0;

    device->get(dev, LANE_COMPUTE, zero, memory, sizeof(zero));
    device->finish(dev, LANE_COMPUTE);
    if (zero[0] != 0 || zero[3] != 0)
        return "reserved memory is not zero";
    for (int32_t i = 1; i <= 600; i++) {
        value = i;
        device->put(dev, LANE_COPY, memory, &value, sizeof(value));
        mark = device->mark(dev, LANE_COPY);
        value = -1;
        device->wait(dev, LANE_COMPUTE, mark);
        device->move(dev, LANE_COMPUTE, memory + 1, memory, sizeof(value));
        mark = device->mark(dev, LANE_COMPUTE);
        device->wait(dev, LANE_COPY, mark);
    }
    while (!device->passed(dev, mark))
        ;
    device->get(dev, LANE_COMPUTE, &got, memory + 1, sizeof(got));
    device->finish(dev, LANE_COMPUTE);
    device->release(dev, memory);
    return got == 600 ? NULL : "a lane did not wait for the other's mark";
}

const char *promise_memory(const struct device *device)
{
    struct dev_config config = {.dims = {64, 4, 1, 16, 96, 100, 1}, .mode = MODE_EXACT, .threads = 1, .rows_max = 8, .outputs_max = 1,
                                .positions_max = 64};
    struct dev *dev = device->open(&config, wrong, sizeof(wrong));
    const char *answer;

    if (dev == NULL)
        return wrong;
    answer = moves(device, dev);
    if (answer == NULL)
        answer = lanes(device, dev);
    device->close(dev);
    return answer;
}
