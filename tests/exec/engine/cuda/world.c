#include "world.h"

#include <stdlib.h>

#include "base/hash.h"

static void *take(size_t bytes)
{
    void *memory = calloc(1, bytes > 0 ? bytes : 1);

    check(memory != NULL);
    return memory;
}

uint64_t world_draw(uint64_t *state)
{
    uint64_t now = *state;

    *state += UINT64_C(0x9E3779B97F4A7C15);
    return hash_mix(now);
}

static void store(enum dtype dtype, void *data, int64_t at, float value)
{
    if (dtype == DTYPE_F32)
        ((float *)data)[at] = value;
    else if (dtype == DTYPE_BF16)
        ((uint16_t *)data)[at] = bf16_round(value);
    else /* halves from -1 to 1 in steps of 1/8 are enough: exponents by hand */
        ((uint16_t *)data)[at] = (uint16_t)(value == 0 ? 0 : (value < 0 ? 0x8000 : 0) | (value == 1 || value == -1 ? 0x3c00 : 0x3800));
}

void world_fill(struct world *world, enum dtype dtype, void *data, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        uint64_t bits = world_draw(&world->draws);
        float value = world->ask.integers || dtype == DTYPE_F16 ? (float)((int)(bits % 3) - 1) : (float)((double)(bits >> 11) * 0x1p-52 - 1);

        store(dtype, data, i, value);
    }
}

void world_absolute(enum dtype dtype, void *data, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        if (dtype == DTYPE_F32)
            ((uint32_t *)data)[i] &= 0x7fffffff;
        else
            ((uint16_t *)data)[i] &= 0x7fff;
    }
}

enum dtype world_act(const struct world *world)
{
    return world->ask.mode == MODE_EXACT ? DTYPE_F32 : DTYPE_BF16;
}

void *world_nan(size_t count)
{
    void *memory = take(count);

    return memset(memory, 0xff, count);
}

void *world_give(struct world *world, const void *bytes, size_t count)
{
    void *memory = world->device->reserve(world->dev, count);
    void *nan = bytes == NULL ? world_nan(count) : NULL;

    check(memory != NULL);
    world->device->put(world->dev, LANE_COMPUTE, memory, bytes == NULL ? nan : bytes, count);
    free(nan);
    return memory;
}

void world_fetch(struct world *world, void *to, const void *from, size_t count)
{
    world->device->get(world->dev, LANE_COMPUTE, to, from, count);
    world->device->finish(world->dev, LANE_COMPUTE);
}

void world_weight(struct world *world, enum dtype dtype, int32_t out, int32_t in, bool bias, struct weight *ret_host, struct weight *ret_device)
{
    struct weight host = {.dtype = dtype, .out = out, .in = in, .stride = in};
    void *data = take((size_t)out * (size_t)in * dtype_bytes(dtype)), *biases = NULL;

    world_fill(world, dtype, data, (int64_t)out * in);
    if (bias) {
        biases = take((size_t)out * dtype_bytes(dtype));
        world_fill(world, dtype, biases, out);
    }
    host.data = data;
    host.bias = biases;
    check(world->device->weight(world->dev, &host, ret_device) == STATUS_OK);
    *ret_host = host;
}

void world_weight_free(struct weight *host)
{
    free((void *)(uintptr_t)host->data);
    free((void *)(uintptr_t)host->bias);
}

/* --- adapters ----------------------------------------------------------------------------------------------------- */
static int32_t padded(int32_t rank)
{
    return (rank + LORA_RANK_STEP - 1) / LORA_RANK_STEP * LORA_RANK_STEP;
}

/* B [out][rank] in the order of `pairs`; what padding adds is zero. */
static void copy_b(enum dtype dtype, char *to, const char *from, int32_t out, int32_t rank, bool pairs)
{
    size_t size = dtype_bytes(dtype);

    for (int32_t row = 0; row < out; row++) {
        for (int32_t i = 0; i < rank; i++) {
            int64_t at = pairs ? ((int64_t)(i / 2) * out + row) * 2 + i % 2 : (int64_t)row * rank + i;

            memcpy(to + (size_t)at * size, from + ((size_t)row * (size_t)rank + (size_t)i) * size, size);
        }
    }
}

static void fill_padded(struct world *world, char *data, int32_t rows, int32_t columns, int32_t rank, int32_t file_rank, bool by_rows)
{
    enum dtype dtype = world_act(world);
    size_t size = dtype_bytes(dtype);

    world_fill(world, dtype, data, (int64_t)rows * columns);
    for (int32_t row = 0; row < rows; row++) {
        for (int32_t column = 0; column < columns; column++) {
            if ((by_rows ? row % rank : column) >= file_rank)
                memset(data + ((size_t)row * (size_t)columns + (size_t)column) * size, 0, size);
        }
    }
}

static void pack_slot(struct world *world, int index, char *device_pool)
{
    const struct world_ask *ask = &world->ask;
    const struct lora_slot *slot = &world->slots[index];
    struct lora_layout layout;
    int64_t layer_bytes = lora_layout_of(&ask->dims, ask->mode, slot->rank, slot->modules, &layout);
    enum dtype dtype = world_act(world);

    for (int32_t layer = 0; layer < ask->dims.layers; layer++) {
        char *host = world->pool + slot->offset + layer * layer_bytes, *device = device_pool + slot->offset + layer * layer_bytes;

        for (int group = 0; group < LORA_GROUP_COUNT; group++) {
            int32_t rows = 0, in = 0;

            for (int module = 0; module < LORA_MODULE_COUNT; module++) {
                int32_t out = lora_module_out(&ask->dims, (enum lora_module)module);

                if (lora_group_of((enum lora_module)module) != (enum lora_group)group || layout.b[module] < 0)
                    continue;
                rows += slot->rank;
                in = lora_module_in(&ask->dims, (enum lora_module)module);
                char *b = take((size_t)out * (size_t)slot->rank * dtype_bytes(dtype));
                fill_padded(world, b, out, slot->rank, slot->rank, ask->slot[index].rank, false);
                copy_b(dtype, host + layout.b[module], b, out, slot->rank, dtype == DTYPE_BF16);
                copy_b(dtype, device + layout.b[module], b, out, slot->rank, dtype == DTYPE_BF16 && world->device->b_in_pairs);
                free(b);
            }
            if (rows > 0) {
                fill_padded(world, host + layout.a[group], rows, in, slot->rank, ask->slot[index].rank, true);
                memcpy(device + layout.a[group], host + layout.a[group], (size_t)rows * (size_t)in * dtype_bytes(dtype));
            }
        }
    }
}

static void make_pool(struct world *world)
{
    const struct world_ask *ask = &world->ask;
    char *device_pool;

    world->slots = take((size_t)(ask->slots + 1) * sizeof(*world->slots));
    for (int i = 0; i < ask->slots; i++) {
        int32_t rank = padded(ask->slot[i].rank);

        world->slots[i] = (struct lora_slot){.offset = world->pool_bytes, .rank = rank, .modules = ask->slot[i].modules};
        world->pool_bytes += (lora_packed_bytes(&ask->dims, ask->mode, rank, ask->slot[i].modules) + 255) / 256 * 256;
    }
    world->pool = world_nan((size_t)world->pool_bytes + 1);
    device_pool = world_nan((size_t)world->pool_bytes + 1);
    for (int i = 0; i < ask->slots; i++)
        pack_slot(world, i, device_pool);
    world->device_pool = world_give(world, device_pool, (size_t)world->pool_bytes + 1);
    world->device_slots = world_give(world, world->slots, (size_t)(ask->slots + 1) * sizeof(*world->slots));
    free(device_pool);
}

/* --- the batch ---------------------------------------------------------------------------------------------------- */
struct arrays {
    int32_t *token, *position, *out_row, *block_table;
    struct sequence *sequence;
    struct segment *segment;
    struct tile *tile;
};

static void fill_rows(struct world *world, struct arrays *arrays)
{
    const struct world_ask *ask = &world->ask;
    struct counts *now = &world->now;

    for (int i = 0; i < ask->sequences; i++) {
        arrays->sequence[i] = (struct sequence){now->rows, ask->sequence[i].rows, ask->sequence[i].before, i};
        for (int32_t row = 0; row < ask->sequence[i].rows; row++) {
            arrays->token[now->rows + row] = (int32_t)(world_draw(&world->draws) % (uint64_t)ask->dims.vocabulary);
            arrays->position[now->rows + row] = ask->sequence[i].before + row;
        }
        for (int32_t row = 0; row < ask->sequence[i].rows; row++)
            if (ask->trains ? row % 3 != 1 : row + 1 == ask->sequence[i].rows)
                arrays->out_row[now->outputs++] = now->rows + row;
        now->rows += ask->sequence[i].rows;
    }
    now->sequences = ask->sequences;
}

static void fill_segments(struct world *world, struct arrays *arrays)
{
    const struct world_ask *ask = &world->ask;
    struct counts *now = &world->now;
    int32_t step = now->rows > 256 ? TILE_ROWS_PREFILL : TILE_ROWS_DECODE;

    for (int i = 0; i < ask->sequences; i++) {
        const struct sequence *sequence = &arrays->sequence[i];
        struct segment *last = &arrays->segment[now->segments > 0 ? now->segments - 1 : 0];

        if (ask->sequence[i].slot == SEGMENT_NONE)
            continue;
        if (now->segments > 0 && last->slot == ask->sequence[i].slot)
            last->rows += sequence->rows;
        else
            arrays->segment[now->segments++] = (struct segment){sequence->row, sequence->rows, ask->sequence[i].slot};
    }
    for (int32_t i = 0; i < now->segments; i++) {
        for (int32_t row = 0; row < arrays->segment[i].rows; row += step)
            arrays->tile[now->tiles++] = (struct tile){i, arrays->segment[i].row + row,
                                                       arrays->segment[i].rows - row < step ? arrays->segment[i].rows - row : step};
    }
}

/* Block ids in no order; what no sequence needs yet is block 0. */
static void fill_blocks(struct world *world, struct arrays *arrays, int32_t blocks_max)
{
    const struct world_ask *ask = &world->ask;
    int32_t next = 1, step = 7;

    world->blocks = ask->sequences * blocks_max + 1;
    while (world->blocks > 1 && (world->blocks - 1) % step == 0)
        step++;
    for (int i = 0; i < ask->sequences; i++) {
        int32_t keys = ask->sequence[i].before + ask->sequence[i].rows;

        for (int32_t j = 0; j < (keys + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS; j++, next++)
            arrays->block_table[i * blocks_max + j] = 1 + (int32_t)((int64_t)next * step % (world->blocks - 1));
    }
}

static void give_batch(struct world *world, const struct arrays *arrays)
{
    const struct counts *max = &world->host.max;
    struct batch *batch = &world->batch;

    *batch = world->host;
    batch->now = world_give(world, &world->now, sizeof(world->now));
#define GIVE(field, count) batch->field = world_give(world, arrays->field, (size_t)((count) > 0 ? (count) : 1) * sizeof(*arrays->field))
    GIVE(token, max->rows);
    GIVE(position, max->rows);
    GIVE(out_row, max->outputs);
    GIVE(block_table, max->sequences * batch->blocks_max);
    GIVE(sequence, max->sequences);
    GIVE(segment, max->segments);
    GIVE(tile, max->tiles);
#undef GIVE
}

struct world *world_open(const struct world_ask *ask, const struct device *device, char *ret_error, size_t error_bytes)
{
    struct world *world = take(sizeof(*world));
    struct dev_config config = {.dims = ask->dims, .mode = ask->mode, .deterministic = ask->deterministic, .threads = 1,
                                .trains = ask->trains};
    struct arrays arrays;
    int32_t rows = ask->rows_spare, keys = 1, rank = 0, count = ask->sequences > 0 ? ask->sequences : 1, outputs;

    for (int i = 0; i < ask->sequences; i++) {
        int32_t own = ask->sequence[i].before + ask->sequence[i].rows;

        check(!ask->trains || ask->sequence[i].before == 0);
        rows += ask->sequence[i].rows;
        keys = own > keys ? own : keys;
    }
    for (int i = 0; i < ask->slots; i++)
        rank = padded(ask->slot[i].rank) > rank ? padded(ask->slot[i].rank) : rank;
    rows = rows > 0 ? rows : 1;
    config.rows_max = rows;
    outputs = ask->trains ? rows : count;
    config.outputs_max = outputs;
    config.lora_rank_max = rank;
    keys = (keys + 15) / 16 * 16;
    config.positions_max = ask->positions_max > keys ? ask->positions_max : keys;
    world->ask = *ask;
    world->device = device;
    world->draws = ask->seed;
    world->positions_max = keys;
    world->dev = device->open(&config, ret_error, error_bytes);
    if (world->dev == NULL) {
        free(world);
        return NULL;
    }
    world->host_dev.config = config;
    world->ops = device->ops(world->dev);
    world->train = ask->trains ? device->train_ops(world->dev) : NULL;
    arrays = (struct arrays){
        .token = take((size_t)rows * 4), .position = take((size_t)rows * 4), .out_row = take((size_t)outputs * 4),
        .block_table = take((size_t)count * (size_t)keys / 16 * 4),
        .sequence = take((size_t)count * sizeof(struct sequence)), .segment = take((size_t)count * sizeof(struct segment)),
        .tile = take((size_t)(rows + count) * sizeof(struct tile)),
    };
    fill_rows(world, &arrays);
    fill_segments(world, &arrays);
    fill_blocks(world, &arrays, keys / 16);
    world->host = (struct batch){
        .max = {.rows = rows, .outputs = outputs, .sequences = count, .segments = count, .tiles = world->now.tiles},
        .now = &world->now, .token = arrays.token, .position = arrays.position, .out_row = arrays.out_row, .block_table = arrays.block_table,
        .blocks_max = keys / 16, .sequence = arrays.sequence, .segment = arrays.segment, .tile = arrays.tile};
    give_batch(world, &arrays);
    make_pool(world);
    return world;
}

void world_counts(struct world *world, struct counts now)
{
    world->now = now;
    world->device->put(world->dev, LANE_COMPUTE, (void *)(uintptr_t)world->batch.now, &now, sizeof(now));
}

void world_close(struct world *world)
{
    struct batch *batch = &world->batch;
    const void *gives[] = {batch->now, batch->token, batch->position, batch->out_row, batch->block_table,
                           batch->sequence, batch->segment, batch->tile, world->device_pool, world->device_slots};
    const void *takes[] = {world->host.token, world->host.position, world->host.out_row, world->host.block_table,
                           world->host.sequence, world->host.segment, world->host.tile, world->pool, world->slots};

    for (size_t i = 0; i < ARRAY_COUNT(gives); i++)
        world->device->release(world->dev, (void *)(uintptr_t)gives[i]);
    world->device->close(world->dev);
    for (size_t i = 0; i < ARRAY_COUNT(takes); i++)
        free((void *)(uintptr_t)takes[i]);
    free(world);
}
