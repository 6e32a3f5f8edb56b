/* The ops that stay inside a row, the table of ops, and what they share. */
#include "engine/ops/cpu/work.h"

#include "engine/device/ranks.h"

const struct ops ops_cpu = {
#define X(name) .name = cpu_##name,
    OPS(X)
#undef X
};

size_t work_scratch_bytes(const struct dev_config *config)
{
    size_t attention = attention_scratch_floats(config->dims.head_dim);
    size_t lora = LORA_ROWS * (size_t)config->lora_rank_max;

    return ((attention > lora ? attention : lora) * sizeof(float) + 255) / 256 * 256;
}

struct rows_work {
    struct tasks tasks;
    struct dev *dev;
    row_act *act_on;
    const void *context;
};

static void rows_run(void *context, uint32_t thread)
{
    struct rows_work *work = context;
    int64_t row;

    (void)thread;
    while (tasks_take(&work->tasks, &row))
        work->act_on(work->dev, work->context, (int32_t)row);
}

void work_rows(struct dev *dev, int32_t rows, int64_t cost, row_act *act_on, const void *context)
{
    struct rows_work work = {.dev = dev, .act_on = act_on, .context = context};

    tasks_init(&work.tasks, rows);
    team_run(rows == 1 ? dev->solo : work_team(dev, rows * cost), rows_run, &work);
}

struct embed_work {
    float *x;
    const struct weight *table;
    const struct batch *batch;
};

static void embed_row(struct dev *dev, const void *context, int32_t row)
{
    const struct embed_work *work = context;
    const struct weight *table = work->table;

    dev->kernels->widen(work->x + (int64_t)row * table->in, table->dtype, table->data,
                        (int64_t)batch_token(work->batch, row) * table->stride, table->in);
}

void cpu_embed(struct dev *dev, float *x, const struct weight *table, const struct batch *batch)
{
    const struct embed_work work = {x, table, batch};

    work_rows(dev, batch->now->rows, table->in, embed_row, &work);
}

struct norm_work {
    act *y;
    float *x;
    const float *add;
    const struct weight *gain;
    float eps;
};

static void norm_row(struct dev *dev, const void *context, int32_t row)
{
    const struct norm_work *work = context;
    const int32_t hidden = dev->config.dims.hidden;
    const int64_t at = (int64_t)row * hidden;

    dev->kernels->norm(dev->config.mode, (char *)work->y + at * (int64_t)act_bytes(dev->config.mode), work->x + at,
                       work->add == NULL ? NULL : work->add + at, work->gain, work->eps, hidden);
}

void cpu_norm(struct dev *dev, act *y, float *x, const float *add, const struct weight *gain, float eps, const struct batch *batch)
{
    const struct norm_work work = {y, x, add, gain, eps};

    work_rows(dev, batch->now->rows, 8 * dev->config.dims.hidden, norm_row, &work);
}

struct rope_work {
    act *q, *k, *v;
    const float *qkv;
    const struct weight *q_gain, *k_gain;
    float eps;
    const float *angles;
    const struct batch *batch;
};

/* The sequence of a row; NULL for a row of padding. Sequences come in order of rows. */
static const struct sequence *sequence_of(const struct batch *batch, int32_t row)
{
    int32_t low = 0;
    int32_t high = batch->now->sequences;

    while (low < high) {
        int32_t middle = (low + high) / 2;

        if (batch->sequence[middle].row + batch->sequence[middle].rows <= row)
            low = middle + 1;
        else
            high = middle;
    }
    return low < batch->now->sequences && batch->sequence[low].row <= row ? &batch->sequence[low] : NULL;
}

static void rope_row(struct dev *dev, const void *context, int32_t row)
{
    const struct rope_work *work = context;
    const struct dims *dims = &dev->config.dims;
    const enum mode mode = dev->config.mode;
    const int64_t size = (int64_t)act_bytes(mode);
    const int32_t d = dims->head_dim;
    const struct sequence *sequence = sequence_of(work->batch, row);
    const int32_t position = work->batch->position[row];
    const float *angle = work->angles + (int64_t)position * d;
    const float *from = work->qkv + (int64_t)row * (dims->heads + 2 * dims->kv_heads) * d;
    int64_t block;

    if (sequence == NULL)
        return;
    block = work->batch->block_table[(int64_t)sequence->table * work->batch->blocks_max + position / KV_BLOCK_TOKENS];
    for (int32_t h = 0; h < dims->heads; h++, from += d)
        dev->kernels->turn(mode, (char *)work->q + ((int64_t)row * dims->heads + h) * d * size, from, work->q_gain, work->eps, angle, d);
    for (int32_t h = 0; h < dims->kv_heads; h++, from += d) {
        int64_t at = ((block * dims->kv_heads + h) * KV_BLOCK_TOKENS + position % KV_BLOCK_TOKENS) * d * size;

        dev->kernels->turn(mode, (char *)work->k + at, from, work->k_gain, work->eps, angle, d);
        dev->kernels->round(mode, (char *)work->v + at, from + (int64_t)dims->kv_heads * d, d);
    }
}

void cpu_rope_store(struct dev *dev, act *q, act *k, act *v, const float *qkv, const struct weight *q_gain, const struct weight *k_gain,
                    float eps, const float *angles, const struct batch *batch)
{
    const struct rope_work work = {q, k, v, qkv, q_gain, k_gain, eps, angles, batch};
    const struct dims *dims = &dev->config.dims;

    work_rows(dev, batch->now->rows, 8 * (dims->heads + 2 * dims->kv_heads) * dims->head_dim, rope_row, &work);
}

struct swiglu_work {
    act *y;
    const float *gate_up;
};

static void swiglu_row(struct dev *dev, const void *context, int32_t row)
{
    const struct swiglu_work *work = context;
    const int32_t ffn = dev->config.dims.ffn;
    const float *gate = work->gate_up + (int64_t)row * 2 * ffn;

    dev->kernels->swiglu(dev->config.mode, (char *)work->y + (int64_t)row * ffn * (int64_t)act_bytes(dev->config.mode), gate, gate + ffn,
                         ffn);
}

void cpu_swiglu(struct dev *dev, act *y, const float *gate_up, const struct batch *batch)
{
    const struct swiglu_work work = {y, gate_up};

    work_rows(dev, batch->now->rows, 24 * dev->config.dims.ffn, swiglu_row, &work);
}

struct pick_work {
    float *ret_lse;
    float *ret_logit;
    int32_t *ret_id;
    const float *logits;
    int best;
};

static void pick_row(struct dev *dev, const void *context, int32_t row)
{
    const struct pick_work *work = context;
    const int32_t vocabulary = dev->config.dims.vocabulary;

    work->ret_lse[row] = dev->kernels->pick(work->ret_logit + (int64_t)row * work->best, work->ret_id + (int64_t)row * work->best,
                                            work->logits + (int64_t)row * vocabulary, vocabulary, work->best);
}

void cpu_pick(struct dev *dev, float *ret_lse, float *ret_logit, int32_t *ret_id, const float *logits, int best, const struct batch *batch)
{
    const struct pick_work work = {ret_lse, ret_logit, ret_id, logits, best};

    check(best >= 0 && best <= PICK_MAX && best <= dev->config.dims.vocabulary);
    work_rows(dev, batch->now->outputs, 16 * dev->config.dims.vocabulary, pick_row, &work);
}

void cpu_all_reduce(struct dev *dev, float *x, int64_t n)
{
    if (dev->config.ranks != NULL)
        ranks_sum(dev->config.ranks, dev->config.rank, x, n);
}
