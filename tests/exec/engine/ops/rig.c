#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "rig.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

/* Small ragged ones; heads of 8, 64, 128 and 20; 2, 1, 8 and 4 heads a kv head. */
const struct dims rig_dims[] = {
    {.hidden = 64, .heads = 8, .kv_heads = 4, .head_dim = 8, .ffn = 172, .vocabulary = 512, .layers = RIG_LAYERS},
    {.hidden = 100, .heads = 3, .kv_heads = 3, .head_dim = 64, .ffn = 75, .vocabulary = 101, .layers = RIG_LAYERS},
    {.hidden = 208, .heads = 8, .kv_heads = 1, .head_dim = 128, .ffn = 333, .vocabulary = 300, .layers = RIG_LAYERS},
    {.hidden = 33, .heads = 8, .kv_heads = 2, .head_dim = 20, .ffn = 50, .vocabulary = 17, .layers = RIG_LAYERS},
};
const int rig_dims_count = ARRAY_COUNT(rig_dims);

float rig_uniform(uint64_t *seed)
{
    return (float)(2 * draw_unit(seed) - 1);
}

double rig_act(enum mode mode, const act *from, int64_t at)
{
    return (double)dtype_load(mode == MODE_EXACT ? DTYPE_F32 : DTYPE_BF16, from, (size_t)at);
}

/* Random numbers for tests, in f16: rounding does not matter here. */
static uint16_t f16_of(float value)
{
    uint32_t bits = float_bits(value);
    int32_t exponent = (int32_t)(bits >> 23 & 0xff) - 112;

    return (uint16_t)((bits >> 16 & 0x8000) | (exponent <= 0 ? 0 : (uint32_t)exponent << 10 | (bits >> 13 & 0x3ff)));
}

static void store(enum dtype dtype, char *to, int64_t at, float value)
{
    uint16_t half = dtype == DTYPE_BF16 ? bf16_round(value) : f16_of(value);

    if (dtype == DTYPE_F32)
        memcpy(to + at * 4, &value, 4);
    else
        memcpy(to + at * 2, &half, 2);
}

void rig_fill_act(enum mode mode, act *to, int64_t n, uint64_t *seed)
{
    for (int64_t i = 0; i < n; i++)
        store(mode == MODE_EXACT ? DTYPE_F32 : DTYPE_BF16, to, i, rig_uniform(seed));
}

double rig_half_ulp(enum mode mode, double value)
{
    return fmax(fabs(value), 0x1p-126) * (mode == MODE_EXACT ? 0x1p-24 : 0x1p-8);
}

/* `bytes` bytes that end at, or one before, memory that nobody may touch. */
static char *fenced(struct rig *rig, size_t bytes)
{
    const size_t room = (bytes + 1 + 4095) / 4096 * 4096;
    char *map = mmap(NULL, room + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    check(map != MAP_FAILED && rig->fences < (int)ARRAY_COUNT(rig->fence));
    check(mprotect(map + room, 4096, PROT_NONE) == 0);
    rig->fence[rig->fences++] = (struct fence){map, room + 4096};
    return map + room - bytes - rig->config.odd;
}

struct weight rig_weight(struct rig *rig, int32_t out, int32_t in, int32_t spare, bool biased, float scale)
{
    struct weight w = {.dtype = rig->config.dtype, .out = out, .in = in, .stride = in + spare};
    int64_t count = (int64_t)(out - 1) * w.stride + in;
    char *data = fenced(rig, (size_t)count * dtype_bytes(w.dtype));
    char *bias = biased ? fenced(rig, (size_t)out * dtype_bytes(w.dtype)) : NULL;

    for (int64_t i = 0; i < count; i++)
        store(w.dtype, data, i, i % w.stride < in ? scale * rig_uniform(&rig->config.seed) : NAN);
    for (int32_t i = 0; biased && i < out; i++)
        store(w.dtype, bias, i, rig_uniform(&rig->config.seed));
    w.data = data;
    w.bias = bias;
    return w;
}

static struct weight gain(struct rig *rig, int32_t n)
{
    struct weight w = rig_weight(rig, 1, n, 0, false, 0.5f);

    for (int32_t i = 0; i < n; i++)
        store(w.dtype, (char *)(uintptr_t)w.data, i, 1 + dtype_load(w.dtype, w.data, (size_t)i));
    return w;
}

static void weights_make(struct rig *rig)
{
    const struct dims *d = &rig->config.dims;
    const bool biased = rig->config.biased;
    const float scale = 1.7f / sqrtf((float)d->hidden);

    rig->embed = rig_weight(rig, d->vocabulary, d->hidden, 3, false, 1);
    rig->norm = gain(rig, d->hidden);
    rig->head = rig_weight(rig, d->vocabulary, d->hidden, 0, false, scale);
    for (int i = 0; i < RIG_LAYERS; i++) {
        struct rig_layer *layer = &rig->layer[i];

        layer->attn_norm = gain(rig, d->hidden);
        layer->mlp_norm = gain(rig, d->hidden);
        layer->q_norm = biased ? gain(rig, d->head_dim) : (struct weight){0};
        layer->k_norm = biased ? gain(rig, d->head_dim) : (struct weight){0};
        for (int j = 0; j < 3; j++)
            layer->qkv[j] = rig_weight(rig, (j == 0 ? d->heads : d->kv_heads) * d->head_dim, d->hidden, 2 * j, biased, scale);
        layer->o = rig_weight(rig, d->hidden, d->heads * d->head_dim, 1, false, scale);
        for (int j = 0; j < 2; j++)
            layer->gate_up[j] = rig_weight(rig, d->ffn, d->hidden, 0, false, scale);
        layer->down = rig_weight(rig, d->hidden, d->ffn, 0, false, scale);
    }
}

/* Ranks from 4 on stay zero in slot 0. */
static void adapter_make(struct rig *rig, int slot, int64_t *at)
{
    const struct dims *d = &rig->config.dims;
    const enum mode mode = rig->config.mode;
    const struct lora_slot *s = &rig->slot[slot];
    const int32_t used = slot == 0 ? 4 : s->rank;
    struct lora_layout layout;
    int64_t layer_bytes = lora_layout_of(d, mode, s->rank, s->modules, &layout);
    uint64_t seed = rig->config.seed + 77 + (uint64_t)slot;

    rig->slot[slot].offset = *at;
    for (int i = 0; i < RIG_LAYERS; i++)
        for (int group = 0; group < LORA_GROUP_COUNT; group++) {
            int64_t row = 0;

            for (int module = 0; module < LORA_MODULE_COUNT; module++) {
                char *layer = rig->pool + s->offset + i * layer_bytes;
                const int32_t in = lora_module_in(d, (enum lora_module)module);
                const int32_t out = lora_module_out(d, (enum lora_module)module);

                if (lora_group_of((enum lora_module)module) != (enum lora_group)group || (s->modules >> module & 1) == 0)
                    continue;
                for (int32_t r = 0; r < s->rank; r++, row++) {
                    for (int32_t k = 0; k < in; k++)
                        store(mode == MODE_EXACT ? DTYPE_F32 : DTYPE_BF16, layer + layout.a[group], row * in + k,
                              r < used ? rig_uniform(&seed) / sqrtf((float)in) : 0);
                    for (int32_t o = 0; o < out; o++)
                        store(mode == MODE_EXACT ? DTYPE_F32 : DTYPE_BF16, layer + layout.b[module],
                              mode == MODE_EXACT ? (int64_t)o * s->rank + r : ((int64_t)(r / 2) * out + o) * 2 + r % 2,
                              r < used ? rig_uniform(&seed) : 0);
                }
            }
        }
    *at += (layer_bytes * RIG_LAYERS + 255) / 256 * 256;
}

void rig_open(struct rig *rig, const struct rig_config *config)
{
    const struct dims *d = &config->dims;
    const int32_t wide = (d->heads + 2 * d->kv_heads) * d->head_dim + 2 * d->ffn + d->hidden;
    const int64_t blocks = 1 + RIG_SEQUENCES * RIG_POSITIONS / KV_BLOCK_TOKENS;
    int64_t at = 0;

    memset(rig, 0, sizeof(*rig));
    rig->config = *config;
    weights_make(rig);
    for (int i = 0; i < RIG_SLOTS; i++) {
        rig->slot[i] = (struct lora_slot){.rank = i == 2 ? 64 : i == 3 ? 0 : 16, .modules = i == 3 ? 0 : i == 4 ? 0x55 : 0x7f};
        at += lora_packed_bytes(d, config->mode, rig->slot[i].rank, rig->slot[i].modules) + 256;
    }
    rig->pool = aligned_alloc(256, (size_t)(at + 256) / 256 * 256);
    at = 0;
    for (int i = 0; i < RIG_SLOTS; i++)
        adapter_make(rig, i, &at);
    rig->angles = malloc((size_t)RIG_POSITIONS * (size_t)d->head_dim * sizeof(float));
    for (int32_t p = 0; p < RIG_POSITIONS; p++)
        for (int32_t i = 0; i < d->head_dim / 2; i++) {
            double angle = p * pow(10000, -2.0 * i / d->head_dim);

            rig->angles[p * d->head_dim + i] = (float)cos(angle);
            rig->angles[p * d->head_dim + d->head_dim / 2 + i] = (float)sin(angle);
        }
    rig->kv_bytes = blocks * d->kv_heads * KV_BLOCK_TOKENS * d->head_dim * (int64_t)act_bytes(config->mode);
    for (int i = 0; i < 2 * RIG_LAYERS; i++)
        rig->kv[i / 2][i % 2] = malloc((size_t)rig->kv_bytes);
    rig->x = malloc((size_t)RIG_ROWS * (size_t)d->hidden * 4);
    rig->wide = malloc((size_t)RIG_ROWS * (size_t)wide * 4);
    rig->y = malloc((size_t)RIG_ROWS * (size_t)wide * 4);
    rig->q = malloc((size_t)RIG_ROWS * (size_t)wide * 4);
    rig->logits = malloc((size_t)RIG_ROWS * (size_t)d->vocabulary * 4);
    check(rig->logits != NULL && rig->q != NULL && rig->pool != NULL);
    rig_spoil(rig);
}

void rig_close(struct rig *rig)
{
    for (int i = 0; i < rig->fences; i++)
        munmap(rig->fence[i].map, rig->fence[i].bytes);
    for (int i = 0; i < 2 * RIG_LAYERS; i++)
        free(rig->kv[i / 2][i % 2]);
    free(rig->pool);
    free(rig->angles);
    free(rig->x);
    free(rig->wide);
    free(rig->y);
    free(rig->q);
    free(rig->logits);
}

void rig_spoil(struct rig *rig)
{
    for (int i = 0; i < 2 * RIG_LAYERS; i++)
        memset(rig->kv[i / 2][i % 2], 0xff, (size_t)rig->kv_bytes);
}

static void segment_add(struct rig *rig, int32_t row, int32_t rows, int32_t slot, bool hole)
{
    struct segment *last = &rig->segment[rig->now.segments > 0 ? rig->now.segments - 1 : 0];

    if (slot == SEGMENT_NONE)
        return;
    if (rig->now.segments > 0 && last->slot == slot && last->row + last->rows == row) {
        last->rows += rows;
        return;
    }
    check(rig->now.segments + 2 <= (int32_t)ARRAY_COUNT(rig->segment));
    if (hole && rig->now.segments % 2 == 0)
        rig->segment[rig->now.segments++] = (struct segment){row, 0, 1};
    rig->segment[rig->now.segments++] = (struct segment){row, rows, slot};
}

void rig_batch(struct rig *rig, const struct rig_plan *plan, bool hole)
{
    const int32_t table_blocks = RIG_POSITIONS / KV_BLOCK_TOKENS;

    memset(&rig->now, 0, sizeof(rig->now));
    for (int32_t s = 0; s < plan->sequences; s++) {
        const int32_t row = rig->now.rows;

        /* Blocks of a table lie anywhere. */
        for (int32_t b = 0; b < table_blocks; b++)
            rig->block_table[s][b] = 1 + (plan->sequence[s].table + RIG_SEQUENCES * ((b * 7) % table_blocks)) %
                                             (RIG_SEQUENCES * table_blocks);
        rig->sequence[s] = (struct sequence){row, plan->sequence[s].rows, plan->sequence[s].before, s};
        for (int32_t i = 0; i < plan->sequence[s].rows; i++) {
            uint64_t seed = plan->sequence[s].seed * 1000003 + (uint64_t)(plan->sequence[s].before + i);

            check(rig->now.rows < RIG_ROWS);
            rig->token[row + i] = (int32_t)draw_below(&seed, (uint64_t)rig->config.dims.vocabulary);
            rig->position[row + i] = plan->sequence[s].before + i;
            rig->out_row[row + i] = row + i;
            rig->now.rows++;
        }
        segment_add(rig, row, plan->sequence[s].rows, plan->sequence[s].slot, hole);
    }
    rig->now.outputs = rig->now.rows;
    rig->now.sequences = plan->sequences;
    rig->batch = (struct batch){.max = rig->now, .now = &rig->now, .token = rig->token, .position = rig->position,
                                .out_row = rig->out_row, .block_table = &rig->block_table[0][0], .blocks_max = table_blocks,
                                .sequence = rig->sequence, .segment = rig->segment};
}

struct dev *rig_device(const struct rig *rig, enum kernel_set kernels, uint32_t threads)
{
    const struct dev_config config = {.dims = rig->config.dims, .mode = rig->config.mode, .threads = threads, .kernels = kernels,
                                      .rows_max = RIG_ROWS, .outputs_max = RIG_ROWS, .lora_rank_max = 64,
                                      .positions_max = RIG_POSITIONS};
    char error[128];
    struct dev *dev = device_cpu.open(&config, error, sizeof(error));

    if (dev == NULL)
        fail_msg("%s", error);
    return dev;
}

void rig_step(struct rig *rig, struct dev *dev, const struct ops *ops)
{
    const struct batch *batch = &rig->batch;
    const float eps = 1e-5f;

    ops->embed(dev, rig->x, &rig->embed, batch);
    for (int i = 0; i < RIG_LAYERS; i++) {
        const struct rig_layer *layer = &rig->layer[i];
        struct lora lora[LORA_GROUP_COUNT];

        for (int group = 0; group < LORA_GROUP_COUNT; group++)
            lora[group] = (struct lora){.pool = rig->pool, .slot = rig->slot, .layer = i, .group = (enum lora_group)group};
        ops->norm(dev, rig->y, rig->x, i == 0 ? NULL : rig->wide, &layer->attn_norm, eps, batch);
        ops->linear(dev, rig->wide, rig->y, layer->qkv, 3, &lora[LORA_GROUP_QKV], batch);
        ops->rope_store(dev, rig->q, rig->kv[i][0], rig->kv[i][1], rig->wide, &layer->q_norm, &layer->k_norm, eps, rig->angles, batch);
        ops->attend(dev, rig->y, rig->q, rig->kv[i][0], rig->kv[i][1], batch);
        ops->linear(dev, rig->wide, rig->y, &layer->o, 1, &lora[LORA_GROUP_O], batch);
        ops->norm(dev, rig->y, rig->x, rig->wide, &layer->mlp_norm, eps, batch);
        ops->linear(dev, rig->wide, rig->y, layer->gate_up, 2, &lora[LORA_GROUP_GATE_UP], batch);
        ops->swiglu(dev, rig->y, rig->wide, batch);
        ops->linear(dev, rig->wide, rig->y, &layer->down, 1, &lora[LORA_GROUP_DOWN], batch);
    }
    ops->norm(dev, rig->y, rig->x, rig->wide, &rig->norm, eps, batch);
    ops->head(dev, rig->logits, rig->y, &rig->head, batch);
}
