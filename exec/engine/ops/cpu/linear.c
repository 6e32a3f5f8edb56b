/* Linear layers: the bases' products and A x in one pass over all threads, then, behind one meeting, B (A x) on top. A segment's
 * adapter is read for its own rows alone, at its own rank. */
#include "engine/ops/cpu/work.h"

/* Bytes of weights in a task when they are streamed, outputs in a task when there are many rows, and outputs of B in a task. */
#define STREAM_BYTES 65536
#define TILED_OUTS 64
#define EXPAND_OUTS 512

struct linear_work {
    struct tasks first;         /* bases, then u */
    struct tasks second;        /* on top */
    struct dev *dev;
    struct team *team;
    float *y;
    int64_t width;              /* of y */
    const char *x;
    const struct weight *w;
    int n;
    int32_t rows;
    int64_t chunk[3];           /* outputs of a task, for each weight */
    int64_t base[4];            /* first task of each weight; then the first that makes u */
    int32_t column[3];
    const struct lora_part *part;
    int32_t parts;
};

static int64_t tasks_of(int64_t count, int64_t chunk)
{
    return (count + chunk - 1) / chunk;
}

static void base_task(const struct linear_work *work, int64_t task)
{
    const bool fast = work->dev->config.mode == MODE_FAST;
    const struct weight *w;
    int64_t out;
    int i = 0;

    while (task >= work->base[i + 1])
        i++;
    w = &work->w[i];
    out = (task - work->base[i]) * work->chunk[i];
    work->dev->kernels->multiply(&(struct product){
        .y = work->y + work->column[i] + out,
        .y_stride = work->width,
        .x = work->x,
        .x_stride = w->in,
        .x_bf16 = fast,
        .w = (const char *)w->data + out * w->stride * (int64_t)dtype_bytes(w->dtype),
        .w_dtype = w->dtype,
        .w_stride = w->stride,
        .bias = w->bias == NULL ? NULL : (const char *)w->bias + out * (int64_t)dtype_bytes(w->dtype),
        .rows = work->rows,
        .outs = (int32_t)min_i64(work->chunk[i], w->out - out),
        .in = w->in,
    });
}

/* u of some rows = A x, rounded to act. */
static void shrink_task(const struct linear_work *work, const struct lora_part *part, int64_t task, float *scratch)
{
    const struct dev *dev = work->dev;
    const enum mode mode = dev->config.mode;
    const int64_t size = (int64_t)act_bytes(mode);
    const int32_t in = work->w[part->weight].in;
    const int32_t row = (int32_t)(task - part->shrink) * LORA_ROWS;
    const int32_t rows = (int32_t)min_i64(LORA_ROWS, part->rows - row);
    char *u = dev->u + ((int64_t)(part->row + row) * dev->u_stride + part->u_column) * size;

    dev->kernels->multiply(&(struct product){
        .y = mode == MODE_EXACT ? (float *)(void *)u : scratch,
        .y_stride = mode == MODE_EXACT ? dev->u_stride : part->rank,
        .x = work->x + (int64_t)(part->row + row) * in * size,
        .x_stride = in,
        .x_bf16 = mode == MODE_FAST,
        .w = part->a,
        .w_dtype = mode == MODE_FAST ? DTYPE_BF16 : DTYPE_F32,
        .w_stride = in,
        .rows = rows,
        .outs = part->rank,
        .in = in,
    });
    if (mode == MODE_FAST)
        for (int32_t i = 0; i < rows; i++)
            dev->kernels->round(mode, u + i * dev->u_stride * size, scratch + (int64_t)i * part->rank, part->rank);
}

static void expand_task(const struct linear_work *work, const struct lora_part *part, int64_t task)
{
    const struct dev *dev = work->dev;
    const int64_t size = (int64_t)act_bytes(dev->config.mode);
    const int32_t width = work->w[part->weight].out;
    const int64_t chunks = tasks_of(width, EXPAND_OUTS);
    const int32_t row = (int32_t)((task - part->expand) / chunks) * LORA_ROWS;
    const int32_t out = (int32_t)((task - part->expand) % chunks) * EXPAND_OUTS;
    const int32_t rows = (int32_t)min_i64(LORA_ROWS, part->rows - row);
    const int32_t outs = (int32_t)min_i64(EXPAND_OUTS, width - out);
    const char *u = dev->u + ((int64_t)(part->row + row) * dev->u_stride + part->u_column) * size;
    float *y = work->y + (int64_t)(part->row + row) * work->width + part->column + out;

    if (dev->config.mode == MODE_FAST)
        dev->kernels->expand(&(struct expansion){.y = y, .y_stride = work->width, .u = u, .u_stride = dev->u_stride,
                                                 .b = part->b + (int64_t)out * 4, .width = width, .rows = rows, .outs = outs,
                                                 .rank = part->rank});
    else
        dev->kernels->multiply(&(struct product){.y = y, .y_stride = work->width, .x = u, .x_stride = dev->u_stride,
                                                 .w = part->b + (int64_t)out * part->rank * 4, .w_dtype = DTYPE_F32,
                                                 .w_stride = part->rank, .rows = rows, .outs = outs, .in = part->rank, .add = true});
}

static void linear_run(void *context, uint32_t thread)
{
    struct linear_work *work = context;
    const struct lora_part *part = work->part;
    int64_t task;

    while (tasks_take(&work->first, &task)) {
        if (task < work->base[work->n]) {
            base_task(work, task);
            continue;
        }
        /* Tasks come rising, so the part of one is at or behind the last one's. */
        while (part + 1 < work->part + work->parts && task >= part[1].shrink)
            part++;
        shrink_task(work, part, task, work_scratch(work->dev, thread));
    }
    if (work->parts == 0)
        return;
    team_meet(work->team);
    part = work->part;
    while (tasks_take(&work->second, &task)) {
        while (part + 1 < work->part + work->parts && task >= part[1].expand)
            part++;
        expand_task(work, part, task);
    }
}

/* Lists the parts of all segments; returns the number of multiplications. */
static int64_t parts_list(struct linear_work *work, const struct lora *lora, const struct batch *batch)
{
    struct dev *dev = work->dev;
    const int64_t size = (int64_t)act_bytes(dev->config.mode);
    int64_t shrink = work->base[work->n];
    int64_t expand = 0;
    int64_t cost = 0;

    for (int32_t s = 0; s < batch->now->segments; s++) {
        const struct segment *segment = &batch->segment[s];
        const struct lora_slot *slot = &lora->slot[segment->slot];
        struct lora_layout layout;
        int64_t layer_bytes = lora_layout_of(&dev->config.dims, dev->config.mode, slot->rank, slot->modules, &layout);
        const char *layer = (const char *)lora->pool + slot->offset + lora->layer * layer_bytes;
        int32_t present = 0;
        int i = 0;

        check(slot->rank <= dev->config.lora_rank_max && slot->rank % LORA_RANK_STEP == 0);
        for (int module = 0; module < LORA_MODULE_COUNT; module++) {
            if (lora_group_of((enum lora_module)module) != lora->group)
                continue;
            check(i < work->n);
            if (segment->rows > 0 && slot->rank > 0 && (slot->modules >> module & 1) != 0) {
                check(work->parts < 3 * dev->config.rows_max);
                dev->parts[work->parts++] = (struct lora_part){
                    .shrink = shrink,
                    .expand = expand,
                    .a = layer + layout.a[lora->group] + (int64_t)present * slot->rank * work->w[i].in * size,
                    .b = layer + layout.b[module],
                    .row = segment->row,
                    .rows = segment->rows,
                    .rank = slot->rank,
                    .weight = i,
                    .column = work->column[i],
                    .u_column = present * slot->rank,
                };
                present++;
                shrink += tasks_of(segment->rows, LORA_ROWS);
                expand += tasks_of(segment->rows, LORA_ROWS) * tasks_of(work->w[i].out, EXPAND_OUTS);
                cost += (int64_t)segment->rows * slot->rank * (work->w[i].in + work->w[i].out);
            }
            i++;
        }
        check(i == work->n);
    }
    tasks_init(&work->first, shrink);
    tasks_init(&work->second, expand);
    return cost;
}

/* Outputs of a task: enough to be worth taking, few enough for all threads to end together. */
static int64_t chunk_of(const struct dev *dev, const struct weight *w, int32_t rows)
{
    const int64_t streamed = STREAM_BYTES / ((int64_t)w->in * (int64_t)dtype_bytes(w->dtype)) + 1;
    const int64_t most = rows < MULTIPLY_MANY_ROWS ? streamed : TILED_OUTS;
    const int64_t share = tasks_of(w->out, 4 * (int64_t)dev->config.threads);

    return tasks_of(share < most ? share : most, 4) * 4;
}

static void multiply_all(struct dev *dev, float *y, const act *x, const struct weight *w, int n, int32_t rows, const struct lora *lora,
                         const struct batch *batch)
{
    struct linear_work work = {.dev = dev, .y = y, .x = x, .w = w, .n = n, .rows = rows, .part = dev->parts};
    int64_t cost = 0;

    check(n >= 1 && n <= 3 && rows >= 0 && rows <= dev->config.rows_max + dev->config.outputs_max);
    for (int i = 0; i < n; i++) {
        check(w[i].in == w[0].in);
        work.column[i] = (int32_t)work.width;
        work.width += w[i].out;
        work.chunk[i] = chunk_of(dev, &w[i], rows);
        work.base[i + 1] = work.base[i] + (rows > 0 ? tasks_of(w[i].out, work.chunk[i]) : 0);
        cost += (int64_t)rows * w[i].in * w[i].out;
    }
    tasks_init(&work.first, work.base[n]);
    if (lora != NULL)
        cost += parts_list(&work, lora, batch);
    work.team = work_team(dev, cost);
    team_run(work.team, linear_run, &work);
}

void cpu_linear(struct dev *dev, float *y, const act *x, const struct weight *w, int n, const struct lora *lora, const struct batch *batch)
{
    multiply_all(dev, y, x, w, n, batch->now->rows, lora, batch);
}

void cpu_head(struct dev *dev, float *logits, const act *x, const struct weight *w, const struct batch *batch)
{
    const size_t row_bytes = (size_t)w->in * act_bytes(dev->config.mode);
    const int32_t outputs = batch->now->outputs;

    check(outputs <= dev->config.outputs_max && w->in == dev->config.dims.hidden);
    for (int32_t i = 0; i < outputs; i++)
        memcpy(dev->outputs + (size_t)i * row_bytes, (const char *)x + (size_t)batch->out_row[i] * row_bytes, row_bytes);
    multiply_all(dev, logits, dev->outputs, w, 1, outputs, NULL, batch);
}
