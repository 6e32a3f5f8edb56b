/* The way back of attention: a task is one sequence and one kv head, with all the query heads that share it, so that every sum has one
 * owner. TRAIN_ROWS queries at a time: their scores against all keys that the last of them sees, then five products over panels. */
#include "engine/ops/cpu/train.h"

#include <math.h>

/* One thread's memory for a sequence of at most `keys`, rounded up to whole panels. */
struct attend_memory {
    char *k, *v;                /* act [keys][d]: out of the blocks */
    char *k_columns, *v_columns; /* panels of 32 keys: [d words][32] */
    char *k_rows;               /* panels of 32 columns of d: [keys words][32] */
    float *dk, *dv;             /* [keys][d] */
    float *p, *dp;              /* [TRAIN_ROWS][keys] */
    char *ds;                   /* act [TRAIN_ROWS][keys] */
    char *turned;               /* act [keys][TRAIN_ROWS] */
    char *dy;                   /* act [TRAIN_ROWS][d] */
    char *rows;                 /* panels of 32 columns of d: [TRAIN_ROWS words][32] */
    float *dq;                  /* [TRAIN_ROWS][d] */
    int64_t keys;
    size_t bytes;
};

static struct attend_memory memory_of(char *base, int64_t positions, int32_t d)
{
    const int64_t keys = pieces(positions, PANEL_COLUMNS) * PANEL_COLUMNS;
    const int64_t panels = pieces(d, PANEL_COLUMNS);
    struct attend_memory m = {.keys = keys};
    uintptr_t at = (uintptr_t)base; /* NULL when only the bytes are asked for */

#define TAKE(field, count) \
    m.field = (void *)at;  \
    at += (uintptr_t)((count) * 4 + 63) / 64 * 64
    TAKE(k, keys * d);
    TAKE(v, keys * d);
    TAKE(k_columns, keys * d);
    TAKE(v_columns, keys * d);
    TAKE(k_rows, panels * PANEL_COLUMNS * keys);
    TAKE(dk, keys * d);
    TAKE(dv, keys * d);
    TAKE(p, TRAIN_ROWS * keys);
    TAKE(dp, TRAIN_ROWS * keys);
    TAKE(ds, TRAIN_ROWS * keys);
    TAKE(turned, TRAIN_ROWS * keys);
    TAKE(dy, TRAIN_ROWS * d);
    TAKE(rows, panels * PANEL_COLUMNS * TRAIN_ROWS);
    TAKE(dq, TRAIN_ROWS * d);
#undef TAKE
    m.bytes = (size_t)(at - (uintptr_t)base);
    return m;
}

size_t attend_back_scratch_bytes(const struct dev_config *config)
{
    return memory_of(NULL, config->positions_max, config->dims.head_dim).bytes;
}

struct attend_work {
    struct tasks tasks;
    struct dev *dev;
    float *dturned;
    const float *dy;
    const char *q, *k, *v;
    const struct batch *batch;
};

/* A sequence and a kv head. */
struct attend_task {
    const struct attend_work *work;
    const struct train_kernels *kernels;
    const struct dims *dims;
    struct attend_memory m;
    int32_t row, rows;
    int32_t kv_head;
    int32_t d;
    bool bf16;
    int64_t size;               /* of act */
};

static void gather(const struct attend_task *t, const struct sequence *sequence, const char *blocks, char *to)
{
    const int64_t row_bytes = t->d * t->size;

    for (int32_t at = 0; at < t->rows; at += KV_BLOCK_TOKENS) {
        const struct batch *batch = t->work->batch;
        int64_t block = batch->block_table[(int64_t)sequence->table * batch->blocks_max + at / KV_BLOCK_TOKENS];
        int64_t count = min_i64(KV_BLOCK_TOKENS, t->rows - at);

        memcpy(to + at * row_bytes, blocks + (block * t->dims->kv_heads + t->kv_head) * KV_BLOCK_TOKENS * row_bytes,
               (size_t)(count * row_bytes));
    }
}

/* Panels over [n][d] act: by columns of d, for sums over n. */
static void pack_rows(const struct attend_task *t, char *panels, const char *from, int64_t stride, int32_t n)
{
    t->kernels->panel_rows(panels, t->bf16, from, t->bf16 ? DTYPE_BF16 : DTYPE_F32, stride, n, t->d);
}

/* y [rows][d] = or += x [rows][k] times the first k of `packed` of panels of pack_rows(). */
static void multiply_rows(const struct attend_task *t, float *y, int64_t y_stride, const char *x, int64_t x_stride, const char *panels,
                          int32_t packed, int32_t rows, int32_t k, bool add)
{
    t->kernels->panel_multiply(&(struct panel_product){.y = y, .y_stride = y_stride, .x = x, .x_stride = x_stride, .panels = panels,
                                                       .rows = rows, .columns = t->d, .k = k, .packed = packed, .bf16 = t->bf16,
                                                       .add = add});
}

/* y [rows][n] = x [rows][d] times panels over [n][d] act, by rows: sums over d. */
static void multiply_columns(const struct attend_task *t, float *y, const char *x, int64_t x_stride, const char *panels, int32_t rows,
                             int32_t n)
{
    t->kernels->panel_multiply(&(struct panel_product){.y = y, .y_stride = t->m.keys, .x = x, .x_stride = x_stride, .panels = panels,
                                                       .rows = rows, .columns = n, .k = t->d, .packed = t->d, .bf16 = t->bf16});
}

/* Queries `first` .. `first + count - 1` of one head. */
static void queries_back(const struct attend_task *t, int32_t head, int32_t first, int32_t count)
{
    const enum mode mode = t->work->dev->config.mode;
    const struct attend_memory *m = &t->m;
    const int32_t d = t->d;
    const int32_t keys = first + count;
    const int64_t q_stride = (int64_t)t->dims->heads * d;
    const int64_t at = (int64_t)(t->row + first) * q_stride + (int64_t)head * d;
    const int64_t width = (int64_t)(t->dims->heads + 2 * t->dims->kv_heads) * d;
    const char *q = t->work->q + at * t->size;
    const float scale = 1 / sqrtf((float)d);

    for (int32_t i = 0; i < count; i++)
        t->work->dev->kernels->round(mode, m->dy + i * d * t->size, t->work->dy + at + i * q_stride, d);
    multiply_columns(t, m->p, q, q_stride, m->k_columns, count, keys);
    multiply_columns(t, m->dp, m->dy, d, m->v_columns, count, keys);
    for (int32_t i = 0; i < count; i++) {
        t->kernels->softmax(m->p + i * m->keys, scale, first + i + 1, keys);
        t->kernels->softmax_back(m->dp + i * m->keys, m->p + i * m->keys, scale, keys);
        t->work->dev->kernels->round(mode, m->ds + i * m->keys * t->size, m->dp + i * m->keys, keys);
    }
    /* dv += p^T dy */
    t->kernels->transpose(mode, m->turned, TRAIN_ROWS, m->p, m->keys, count, keys);
    pack_rows(t, m->rows, m->dy, d, count);
    multiply_rows(t, m->dv, d, m->turned, TRAIN_ROWS, m->rows, count, keys, count, true);
    /* dk += ds^T q */
    t->kernels->transpose(mode, m->turned, TRAIN_ROWS, m->dp, m->keys, count, keys);
    pack_rows(t, m->rows, q, q_stride, count);
    multiply_rows(t, m->dk, d, m->turned, TRAIN_ROWS, m->rows, count, keys, count, true);
    /* dq = ds k */
    multiply_rows(t, t->work->dturned + (int64_t)(t->row + first) * width + (int64_t)head * d, width, m->ds, m->keys, m->k_rows, t->rows,
                  count, keys, false);
}

static void sequence_back(const struct attend_task *t, const struct sequence *sequence)
{
    const struct attend_memory *m = &t->m;
    const int32_t group = t->dims->heads / t->dims->kv_heads;
    const int64_t width = (int64_t)(t->dims->heads + 2 * t->dims->kv_heads) * t->d;
    float *dk = t->work->dturned + t->row * width + (int64_t)(t->dims->heads + t->kv_head) * t->d;
    float *dv = dk + (int64_t)t->dims->kv_heads * t->d;

    gather(t, sequence, t->work->k, m->k);
    gather(t, sequence, t->work->v, m->v);
    t->kernels->panel_columns(m->k_columns, t->bf16, m->k, t->d, t->d, t->rows);
    t->kernels->panel_columns(m->v_columns, t->bf16, m->v, t->d, t->d, t->rows);
    pack_rows(t, m->k_rows, m->k, t->d, t->rows);
    memset(m->dk, 0, (size_t)t->rows * (size_t)t->d * sizeof(float));
    memset(m->dv, 0, (size_t)t->rows * (size_t)t->d * sizeof(float));
    for (int32_t head = t->kv_head * group; head < (t->kv_head + 1) * group; head++)
        for (int32_t first = 0; first < t->rows; first += TRAIN_ROWS)
            queries_back(t, head, first, (int32_t)min_i64(TRAIN_ROWS, t->rows - first));
    for (int32_t i = 0; i < t->rows; i++) {
        memcpy(dk + i * width, m->dk + (int64_t)i * t->d, (size_t)t->d * sizeof(float));
        memcpy(dv + i * width, m->dv + (int64_t)i * t->d, (size_t)t->d * sizeof(float));
    }
}

static void attend_run(void *context, uint32_t thread)
{
    struct attend_work *work = context;
    struct dev *dev = work->dev;
    const struct dims *dims = &dev->config.dims;
    int64_t task;

    while (tasks_take(&work->tasks, &task)) {
        const struct sequence *sequence = &work->batch->sequence[task / dims->kv_heads];
        const struct attend_task it = {
            .work = work,
            .kernels = dev->train->kernels,
            .dims = dims,
            .m = memory_of(work_scratch(dev, thread), sequence->rows, dims->head_dim),
            .row = sequence->row,
            .rows = sequence->rows,
            .kv_head = (int32_t)(task % dims->kv_heads),
            .d = dims->head_dim,
            .bf16 = dev->config.mode == MODE_FAST,
            .size = (int64_t)act_bytes(dev->config.mode),
        };

        sequence_back(&it, sequence);
    }
}

void cpu_attend_back(struct dev *dev, float *dturned, const float *dy, const act *q, const act *k, const act *v, const struct batch *batch)
{
    struct attend_work work = {.dev = dev, .dturned = dturned, .dy = dy, .q = q, .k = k, .v = v, .batch = batch};
    const struct dims *dims = &dev->config.dims;
    int64_t cost = 0;

    for (int32_t s = 0; s < batch->now->sequences; s++) {
        check(batch->sequence[s].before == 0 && batch->sequence[s].rows <= dev->config.positions_max);
        cost += (int64_t)batch->sequence[s].rows * batch->sequence[s].rows * dims->heads * dims->head_dim * 3;
    }
    tasks_init(&work.tasks, (int64_t)batch->now->sequences * dims->kv_heads);
    team_run(work_team(dev, cost), attend_run, &work);
}
