/* The way back of what stays inside a row, the optimizer, and the table of ops. */
#include "engine/ops/cpu/train.h"

#include <math.h>
#include <stdlib.h>

const struct train_ops train_ops_cpu = {
#define X(name) .name = cpu_##name,
    TRAIN_OPS(X)
#undef X
};

/* --- rows ------------------------------------------------------------------------------------------------------------------- */

struct loss_work {
    float *ret_logp;
    int32_t *ret_best;
    act *dlogits;
    const float *logits;
    const int32_t *target;
    const float *coef;
};

static void loss_row(struct dev *dev, const void *context, int32_t row)
{
    const struct loss_work *work = context;
    const int32_t vocabulary = dev->config.dims.vocabulary;
    const int64_t at = (int64_t)row * vocabulary;
    char *to = work->coef == NULL ? NULL : (char *)work->dlogits + at * (int64_t)act_bytes(dev->config.mode);

    work->ret_logp[row] = dev->train->kernels->loss(dev->config.mode, &work->ret_best[row], to, work->logits + at, work->target[row],
                                                    work->coef == NULL ? 0 : work->coef[row], vocabulary);
}

void cpu_loss(struct dev *dev, float *ret_logp, int32_t *ret_best, act *dlogits, const float *logits, const int32_t *target,
              const float *coef, const struct batch *batch)
{
    const struct loss_work work = {ret_logp, ret_best, dlogits, logits, target, coef};

    work_rows(dev, batch->now->outputs, 24 * (int64_t)dev->config.dims.vocabulary, loss_row, &work);
}

struct norm_work {
    act *ret_dx;
    float *dx;
    const float *dy, *x;
    const struct weight *gain;
    float eps;
    float *dgain;
    int32_t rows;
};

static void norm_row(struct dev *dev, const void *context, int32_t row)
{
    const struct norm_work *work = context;
    const int32_t hidden = dev->config.dims.hidden;
    const int64_t at = (int64_t)row * hidden;
    char *act_at = work->ret_dx == NULL ? NULL : (char *)work->ret_dx + at * (int64_t)act_bytes(dev->config.mode);

    dev->train->kernels->norm_back(dev->config.mode, act_at, work->dx + at, work->dy + at, work->x + at, work->gain, work->eps, hidden);
    if (work->dgain != NULL) {
        double squares = 0;

        for (int32_t i = 0; i < hidden; i++)
            squares += (double)work->x[at + i] * (double)work->x[at + i];
        dev->train->scales[row] = (float)(1 / sqrt(squares / hidden + (double)work->eps));
    }
}

/* One column of the gain's gradient. */
static void norm_column(struct dev *dev, const void *context, int32_t column)
{
    const struct norm_work *work = context;
    const int32_t hidden = dev->config.dims.hidden;

    for (int32_t from = 0; from < work->rows; from += TRAIN_ROWS) {
        float sum = 0;

        for (int32_t row = from; row < work->rows && row < from + TRAIN_ROWS; row++) {
            const int64_t at = (int64_t)row * hidden + column;

            sum += work->dy[at] * work->x[at] * dev->train->scales[row];
        }
        work->dgain[column] += sum;
    }
}

void cpu_norm_back(struct dev *dev, act *ret_dx, float *dx, const float *dy, const float *x, const struct weight *gain, float eps,
                   float *dgain, const struct batch *batch)
{
    const struct norm_work work = {ret_dx, dx, dy, x, gain, eps, dgain, batch->now->rows};

    work_rows(dev, batch->now->rows, 12 * dev->config.dims.hidden, norm_row, &work);
    if (dgain != NULL)
        work_rows(dev, dev->config.dims.hidden, 4 * batch->now->rows, norm_column, &work);
}

struct rope_work {
    char *dqkv;
    const float *dturned, *qkv;
    const struct weight *q_gain, *k_gain;
    float eps;
    const float *angles;
    const struct batch *batch;
};

static void rope_row(struct dev *dev, const void *context, int32_t row)
{
    const struct rope_work *work = context;
    const struct dims *dims = &dev->config.dims;
    const int64_t size = (int64_t)act_bytes(dev->config.mode);
    const int32_t d = dims->head_dim;
    const float *angle = work->angles + (int64_t)work->batch->position[row] * d;
    int64_t at = (int64_t)row * (dims->heads + 2 * dims->kv_heads) * d;

    for (int32_t h = 0; h < dims->heads + dims->kv_heads; h++, at += d)
        dev->train->kernels->turn_back(dev->config.mode, work->dqkv + at * size, work->dturned + at,
                                       work->qkv == NULL ? NULL : work->qkv + at, h < dims->heads ? work->q_gain : work->k_gain, work->eps,
                                       angle, d);
    dev->kernels->round(dev->config.mode, work->dqkv + at * size, work->dturned + at, (int64_t)dims->kv_heads * d);
}

/* The gain's gradient of heads `first` .. `first + count - 1`, in order of rows; only small models whose every weight trains want it. */
static void rope_gain(const struct dev *dev, const struct rope_work *work, int32_t first, int32_t count, float *dgain)
{
    const struct dims *dims = &dev->config.dims;
    const int32_t d = dims->head_dim;

    for (int32_t row = 0; row < work->batch->now->rows; row++)
        for (int32_t h = first; h < first + count; h++) {
            const int64_t at = ((int64_t)row * (dims->heads + 2 * dims->kv_heads) + h) * d;
            const float *angle = work->angles + (int64_t)work->batch->position[row] * d;
            float squares = 0;

            for (int32_t i = 0; i < d; i++)
                squares += work->qkv[at + i] * work->qkv[at + i];
            for (int32_t i = 0; i < d / 2; i++) {
                const float scale = 1 / sqrtf(squares / (float)d + work->eps);
                const float low = work->dturned[at + i];
                const float high = work->dturned[at + i + d / 2];

                dgain[i] += (low * angle[i] + high * angle[d / 2 + i]) * work->qkv[at + i] * scale;
                dgain[i + d / 2] += (high * angle[i] - low * angle[d / 2 + i]) * work->qkv[at + i + d / 2] * scale;
            }
        }
}

void cpu_rope_back(struct dev *dev, act *dqkv, const float *dturned, const float *qkv, const struct weight *q_gain,
                   const struct weight *k_gain, float eps, const float *angles, float *dq_gain, float *dk_gain, const struct batch *batch)
{
    const struct rope_work work = {dqkv, dturned, qkv, q_gain, k_gain, eps, angles, batch};
    const struct dims *dims = &dev->config.dims;

    check((q_gain->data == NULL && k_gain->data == NULL) || qkv != NULL);
    work_rows(dev, batch->now->rows, 8 * (dims->heads + 2 * dims->kv_heads) * dims->head_dim, rope_row, &work);
    if (dq_gain != NULL)
        rope_gain(dev, &work, 0, dims->heads, dq_gain);
    if (dk_gain != NULL)
        rope_gain(dev, &work, dims->heads, dims->kv_heads, dk_gain);
}

struct swiglu_work {
    char *dgate_up;
    const float *dy, *gate_up;
};

static void swiglu_row(struct dev *dev, const void *context, int32_t row)
{
    const struct swiglu_work *work = context;
    const int32_t ffn = dev->config.dims.ffn;
    const int64_t at = (int64_t)row * 2 * ffn;
    const int64_t size = (int64_t)act_bytes(dev->config.mode);

    dev->train->kernels->swiglu_back(dev->config.mode, work->dgate_up + at * size, work->dgate_up + (at + ffn) * size,
                                     work->dy + (int64_t)row * ffn, work->gate_up + at, work->gate_up + at + ffn, ffn);
}

void cpu_swiglu_back(struct dev *dev, act *dgate_up, const float *dy, const float *gate_up, const struct batch *batch)
{
    const struct swiglu_work work = {dgate_up, dy, gate_up};

    work_rows(dev, batch->now->rows, 32 * dev->config.dims.ffn, swiglu_row, &work);
}

/* --- runs of numbers -------------------------------------------------------------------------------------------------------- */

struct embed_work {
    float *dtable;
    const float *dx;
    const struct batch *batch;
};

/* A task is some columns of all rows, so that equal tokens meet in order. */
#define EMBED_COLUMNS 64

static void embed_columns(struct dev *dev, const void *context, int32_t task)
{
    const struct embed_work *work = context;
    const int32_t hidden = dev->config.dims.hidden;
    const int32_t from = task * EMBED_COLUMNS;
    const int32_t to = from + EMBED_COLUMNS < hidden ? from + EMBED_COLUMNS : hidden;

    for (int32_t row = 0; row < work->batch->now->rows; row++) {
        float *sum = work->dtable + (int64_t)work->batch->token[row] * hidden;

        for (int32_t i = from; i < to; i++)
            sum[i] += work->dx[(int64_t)row * hidden + i];
    }
}

void cpu_embed_back(struct dev *dev, float *dtable, const float *dx, const struct batch *batch)
{
    const struct embed_work work = {dtable, dx, batch};

    work_rows(dev, (int32_t)pieces(dev->config.dims.hidden, EMBED_COLUMNS), EMBED_COLUMNS * (int64_t)batch->now->rows, embed_columns, &work);
}

struct run_work {
    float *p, *m, *v;
    const float *g;
    int64_t n;
    const struct adamw *adamw;
    int64_t first;              /* piece */
};

static int64_t piece_count(const struct run_work *work, int64_t piece)
{
    return min_i64(SUMSQ_PIECE, work->n - piece * SUMSQ_PIECE);
}

static void sumsq_piece(struct dev *dev, const void *context, int32_t task)
{
    const struct run_work *work = context;
    const int64_t piece = work->first + task;

    dev->train->sums[task] = dev->train->kernels->sumsq(work->g + piece * SUMSQ_PIECE, piece_count(work, piece));
}

void cpu_sumsq(struct dev *dev, double *ret_sum, const float *g, int64_t n)
{
    struct run_work work = {.g = g, .n = n};
    const int64_t all = pieces(n, SUMSQ_PIECE);
    double total = 0;

    for (; work.first < all; work.first += TRAIN_SUMS) {
        const int32_t count = (int32_t)min_i64(TRAIN_SUMS, all - work.first);

        work_rows(dev, count, SUMSQ_PIECE, sumsq_piece, &work);
        for (int32_t i = 0; i < count; i++)
            total += dev->train->sums[i];
    }
    *ret_sum = total;
}

static void adamw_piece(struct dev *dev, const void *context, int32_t task)
{
    const struct run_work *work = context;
    const int64_t at = (int64_t)task * SUMSQ_PIECE;

    dev->train->kernels->adamw(work->p + at, work->m + at, work->v + at, work->g + at, piece_count(work, task), work->adamw);
}

void cpu_adamw(struct dev *dev, float *p, float *m, float *v, const float *g, int64_t n, const struct adamw *adamw)
{
    const struct run_work work = {.p = p, .m = m, .v = v, .g = g, .n = n, .adamw = adamw};

    check(pieces(n, SUMSQ_PIECE) <= INT32_MAX);
    work_rows(dev, (int32_t)pieces(n, SUMSQ_PIECE), 8 * SUMSQ_PIECE, adamw_piece, &work);
}

void cpu_zero(struct dev *dev, float *x, int64_t n)
{
    (void)dev;
    memset(x, 0, (size_t)n * sizeof(*x));
}

void cpu_round(struct dev *dev, act *y, const float *x, int64_t n)
{
    dev->kernels->round(dev->config.mode, y, x, n);
}

/* --- memory ----------------------------------------------------------------------------------------------------------------- */

size_t train_scratch_bytes(const struct dev_config *config)
{
    const size_t serving = work_scratch_bytes(config);
    const size_t linear = linear_back_scratch_bytes(config);
    const size_t attend = attend_back_scratch_bytes(config);
    size_t most = serving > linear ? serving : linear;

    most = most > attend ? most : attend;
    return (most + 255) / 256 * 256;
}
