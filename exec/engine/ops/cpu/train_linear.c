/* The way back of linear layers. First, for each module of each segment and each piece of rows, A x and dy B; behind one meeting, who
 * owns some columns of dx, of a gradient of A, some outputs of a gradient of B or of a weight, sums up all that goes there. */
#include "engine/ops/cpu/train.h"

#include <stdlib.h>

/* Rows of a task that makes dy B, for which B is turned over once; columns of dx at most, for a weight is read in long pieces of rows;
 * columns of A, and outputs of B and of weights, in a task. */
#define BACK_ROWS (4 * TRAIN_ROWS)
#define DX_COLUMNS_MAX (4 * PANEL_COLUMNS)
#define GRAD_COLUMNS (8 * PANEL_COLUMNS)
#define GRAD_OUTS 64

/* One module of one segment. */
struct back_part {
    const char *a;              /* act [rank][in] */
    const char *b;              /* as packed */
    struct lora_grad grad;      /* a NULL: not wanted */
    int64_t u_task;             /* its first */
    int64_t a_task;
    int64_t b_task;
    int32_t row, rows, rank;
    int32_t weight;             /* index among the weights that share x */
    int32_t column;             /* of dy */
    int32_t u_column;
};

struct back_work {
    struct tasks first;
    struct tasks second;        /* dx, then gradients of A and B by parts, then weights */
    struct dev *dev;
    struct team *team;
    const struct train_kernels *kernels;
    float *dx;
    int32_t in;
    const char *dy;
    int64_t width;              /* of dy */
    const char *x;
    const struct weight *w;
    int n;
    int32_t column[4];          /* of dy */
    int32_t rows;
    const struct weight_grad *dw;
    int64_t dx_tasks;
    int32_t dx_columns;         /* of a task */
    int64_t dw_task[4];         /* the first of each weight */
    struct back_part *part;
    int32_t parts;
    bool bf16;
    int64_t size;               /* of act */
};

/* --- memory ----------------------------------------------------------------------------------------------------------------- */

static int64_t out_max(const struct dims *dims)
{
    int64_t most = 0;

    for (enum lora_module module = 0; module < LORA_MODULE_COUNT; module++)
        if (most < lora_module_out(dims, module))
            most = lora_module_out(dims, module);
    return most;
}

/* The panels of dx; those of a gradient, of TRAIN_ROWS rows, are fewer. */
#define PANELS_BYTES (DX_COLUMNS_MAX / PANEL_COLUMNS * panel_bytes(false, PANEL_K))

/* A task's scratch: sums f32 [TRAIN_ROWS][the larger of rank and 64], then panels, or B turned over, or a piece of dy turned over. */
static size_t sums_bytes(const struct dev_config *config)
{
    return (size_t)TRAIN_ROWS * (size_t)(config->lora_rank_max > GRAD_OUTS ? config->lora_rank_max : GRAD_OUTS) * 4;
}

size_t linear_back_scratch_bytes(const struct dev_config *config)
{
    const size_t panels = PANELS_BYTES + (size_t)GRAD_OUTS * TRAIN_ROWS * 4;
    const size_t turned = (size_t)config->lora_rank_max * (size_t)out_max(&config->dims) * 4;

    return sums_bytes(config) + (panels > turned ? panels : turned);
}

struct train_memory *train_memory_create(const struct dev_config *config)
{
    struct train_memory *memory = calloc(1, sizeof(*memory));

    if (memory != NULL)
        memory->kernels = train_kernels_of(config->kernels);
    return memory;
}

uint32_t train_pieces(struct train_memory *memory, const struct dev_config *config, struct dev_piece *ret_pieces)
{
    const int64_t rows = config->rows_max;
    const int64_t u_bytes = rows * 3 * config->lora_rank_max * (int64_t)act_bytes(config->mode);
    const struct dev_piece pieces[] = {
        {(void **)&memory->du, u_bytes},
        {(void **)&memory->u_turned, u_bytes},
        {(void **)&memory->du_turned, u_bytes},
        {(void **)&memory->parts, 3 * rows * (int64_t)sizeof(*memory->parts)},
        {(void **)&memory->rows, (int64_t)config->outputs_max * config->dims.hidden * (int64_t)sizeof(float)},
        {(void **)&memory->scales, rows * (int64_t)sizeof(float)},
        {(void **)&memory->sums, TRAIN_SUMS * (int64_t)sizeof(double)},
    };

    memcpy(ret_pieces, pieces, sizeof(pieces));
    return ARRAY_COUNT(pieces);
}

/* --- first: A x and dy B ---------------------------------------------------------------------------------------------------- */

/* B as act [rank][out]. */
static void turn_b(const struct back_work *work, const struct back_part *part, char *to)
{
    const int32_t out = work->w[part->weight].out;

    if (!work->bf16) {
        work->kernels->transpose(MODE_EXACT, to, out, (const float *)(const void *)part->b, part->rank, out, part->rank);
        return;
    }
    for (int32_t pair = 0; pair < part->rank / 2; pair++) {
        const uint16_t *from = (const uint16_t *)(const void *)part->b + (int64_t)pair * out * 2;
        uint16_t *low = (uint16_t *)(void *)to + (int64_t)pair * 2 * out;
        uint16_t *high = low + out;

        for (int32_t o = 0; o < out; o++) {
            low[o] = from[2 * o];
            high[o] = from[2 * o + 1];
        }
    }
}

/* sums f32 [rows][rank] = x [rows][in] times m [rank][in] turned over. */
static void shrink(const struct back_work *work, float *sums, const char *x, int64_t x_stride, const char *m, int32_t in, int32_t rank,
                   int32_t rows)
{
    work->dev->kernels->multiply(&(struct product){.y = sums,
                                                   .y_stride = rank,
                                                   .x = x,
                                                   .x_stride = x_stride,
                                                   .x_bf16 = work->bf16,
                                                   .w = m,
                                                   .w_dtype = work->bf16 ? DTYPE_BF16 : DTYPE_F32,
                                                   .w_stride = in,
                                                   .rows = rows,
                                                   .outs = rank,
                                                   .in = in});
}

/* Where a piece of a part lies, turned over: act [rank][rows of the piece]. */
static char *turned_at(const struct back_work *work, char *memory, const struct back_part *part, int32_t from, int32_t rows)
{
    return memory + ((int64_t)(part->row + from) * work->dev->u_stride + (int64_t)part->u_column * rows) * work->size;
}

static void first_task(const struct back_work *work, const struct back_part *part, int64_t task, char *scratch)
{
    const struct dev *dev = work->dev;
    const enum mode mode = dev->config.mode;
    const int32_t out = work->w[part->weight].out;
    const int32_t begin = (int32_t)(task - part->u_task) * BACK_ROWS;
    float *sums = (float *)(void *)scratch;
    char *b = scratch + sums_bytes(&dev->config);

    turn_b(work, part, b);
    for (int32_t from = begin; from < part->rows && from < begin + BACK_ROWS; from += TRAIN_ROWS) {
        const int32_t rows = (int32_t)min_i64(TRAIN_ROWS, part->rows - from);
        const int64_t row = part->row + from;

        if (part->grad.a != NULL) {
            shrink(work, sums, work->x + row * work->in * work->size, work->in, part->a, work->in, part->rank, rows);
            work->kernels->transpose(mode, turned_at(work, dev->train->u_turned, part, from, rows), rows, sums, part->rank, rows, part->rank);
        }
        shrink(work, sums, work->dy + (row * work->width + part->column) * work->size, work->width, b, out, part->rank, rows);
        work->kernels->transpose(mode, turned_at(work, dev->train->du_turned, part, from, rows), rows, sums, part->rank, rows, part->rank);
        for (int32_t i = 0; i < rows; i++)
            dev->kernels->round(mode, dev->train->du + ((row + i) * dev->u_stride + part->u_column) * work->size,
                                sums + (int64_t)i * part->rank, part->rank);
    }
}

/* --- second: what owns its place -------------------------------------------------------------------------------------------- */

/* y [rows][columns] = or += x [rows][k] times some columns of w [k][...], panel by panel. */
static void through_panels(const struct back_work *work, float *y, int64_t y_stride, const char *x, int64_t x_stride, const char *w,
                           enum dtype dtype, int64_t w_stride, int32_t rows, int32_t k, int32_t columns, bool add, char *panels)
{
    for (int32_t at = 0; at < k; at += PANEL_K) {
        const int32_t count = (int32_t)min_i64(PANEL_K, k - at);

        work->kernels->panel_rows(panels, work->bf16, w + at * w_stride * (int64_t)dtype_bytes(dtype), dtype, w_stride, count, columns);
        work->kernels->panel_multiply(&(struct panel_product){.y = y,
                                                              .y_stride = y_stride,
                                                              .x = x + at * work->size,
                                                              .x_stride = x_stride,
                                                              .panels = panels,
                                                              .rows = rows,
                                                              .columns = columns,
                                                              .k = count,
                                                              .packed = count,
                                                              .bf16 = work->bf16,
                                                              .add = add || at > 0});
    }
}

static enum dtype act_dtype(const struct back_work *work)
{
    return work->bf16 ? DTYPE_BF16 : DTYPE_F32;
}

/* Some columns of dx: the base's weights in order, then the adapters of each row. */
static void dx_task(const struct back_work *work, int64_t task, char *panels)
{
    const int32_t column = (int32_t)task * work->dx_columns;
    const int32_t columns = (int32_t)min_i64(work->dx_columns, work->in - column);

    for (int i = 0; i < work->n; i++) {
        const struct weight *w = &work->w[i];

        through_panels(work, work->dx + column, work->in, work->dy + work->column[i] * work->size, work->width,
                       (const char *)w->data + column * (int64_t)dtype_bytes(w->dtype), w->dtype, w->stride, work->rows, w->out, columns,
                       i > 0, panels);
    }
    for (int32_t i = 0; i < work->parts; i++) {
        const struct back_part *part = &work->part[i];

        through_panels(work, work->dx + (int64_t)part->row * work->in + column, work->in,
                       work->dev->train->du + ((int64_t)part->row * work->dev->u_stride + part->u_column) * work->size, work->dev->u_stride,
                       part->a + column * work->size, act_dtype(work), work->in, part->rows, part->rank, columns, true, panels);
    }
}

static void a_task(const struct back_work *work, const struct back_part *part, int64_t task, char *panels)
{
    const int32_t column = (int32_t)(task - part->a_task) * GRAD_COLUMNS;
    const int32_t columns = (int32_t)min_i64(GRAD_COLUMNS, work->in - column);

    for (int32_t from = 0; from < part->rows; from += TRAIN_ROWS) {
        const int32_t rows = (int32_t)min_i64(TRAIN_ROWS, part->rows - from);

        through_panels(work, part->grad.a + column, work->in, turned_at(work, work->dev->train->du_turned, part, from, rows), rows,
                       work->x + ((int64_t)(part->row + from) * work->in + column) * work->size, act_dtype(work), work->in,
                       part->grad.rank, rows, columns, true, panels);
    }
}

static void b_task(const struct back_work *work, const struct back_part *part, int64_t task, float *sums, char *panels)
{
    const struct lora_grad *grad = &part->grad;
    const int32_t width = work->w[part->weight].out;
    const int32_t begin = (int32_t)(task - part->b_task) * GRAD_COLUMNS;

    for (int32_t from = 0; from < part->rows; from += TRAIN_ROWS) {
        const int32_t rows = (int32_t)min_i64(TRAIN_ROWS, part->rows - from);

        for (int32_t out = begin; out < width && out < begin + GRAD_COLUMNS; out += PANEL_COLUMNS) {
            const int32_t outs = (int32_t)min_i64(PANEL_COLUMNS, width - out);
            float *b = grad->b + (int64_t)out * grad->rank;

            through_panels(work, sums, PANEL_COLUMNS, turned_at(work, work->dev->train->u_turned, part, from, rows), rows,
                           work->dy + ((int64_t)(part->row + from) * work->width + part->column + out) * work->size, act_dtype(work),
                           work->width, grad->rank, rows, outs, false, panels);
            for (int32_t o = 0; o < outs; o++)
                for (int32_t i = 0; i < grad->rank; i++)
                    b[o * grad->rank + i] += grad->scale * sums[i * PANEL_COLUMNS + o];
        }
    }
}

/* Some outputs of a weight's gradient: dy [rows][...] turned over times x [rows][in], piece by piece of rows. */
static void weight_task(const struct back_work *work, const struct weight_grad *dw, const struct weight *w, int32_t dy_column, int32_t out,
                        float *sums, char *panels)
{
    const int32_t outs = (int32_t)min_i64(GRAD_OUTS, w->out - out);
    char *turned = panels + PANELS_BYTES;

    for (int32_t from = 0; from < work->rows; from += TRAIN_ROWS) {
        const int32_t rows = (int32_t)min_i64(TRAIN_ROWS, work->rows - from);

        for (int32_t i = 0; i < rows; i++)
            work->dev->kernels->widen(sums + i * GRAD_OUTS, act_dtype(work), work->dy,
                                      (int64_t)(from + i) * work->width + dy_column + out, outs);
        work->kernels->transpose(work->dev->config.mode, turned, rows, sums, GRAD_OUTS, rows, outs);
        for (int32_t column = 0; dw->weight != NULL && column < w->in; column += GRAD_COLUMNS)
            through_panels(work, dw->weight + (int64_t)out * w->in + column, w->in, turned, rows,
                           work->x + ((int64_t)from * w->in + column) * work->size, act_dtype(work), w->in, outs, rows,
                           (int32_t)min_i64(GRAD_COLUMNS, w->in - column), true, panels);
        for (int32_t o = 0; dw->bias != NULL && o < outs; o++) {
            float sum = 0;

            for (int32_t i = 0; i < rows; i++)
                sum += sums[i * GRAD_OUTS + o];
            dw->bias[out + o] += sum;
        }
    }
}

static void second_task(const struct back_work *work, int64_t task, char *scratch)
{
    float *sums = (float *)(void *)scratch;
    char *panels = scratch + sums_bytes(&work->dev->config);
    const struct back_part *part = NULL;

    if (task < work->dx_tasks) {
        dx_task(work, task, panels);
        return;
    }
    if (task >= work->dw_task[0]) {
        int i = 0;

        while (task >= work->dw_task[i + 1])
            i++;
        weight_task(work, &work->dw[i], &work->w[i], work->column[i], (int32_t)(task - work->dw_task[i]) * GRAD_OUTS, sums, panels);
        return;
    }
    for (int32_t i = 0; i < work->parts && work->part[i].a_task <= task; i++)
        part = &work->part[i];
    if (task < part->b_task)
        a_task(work, part, task, panels);
    else
        b_task(work, part, task, sums, panels);
}

static void back_run(void *context, uint32_t thread)
{
    struct back_work *work = context;
    const struct back_part *part = work->part;
    int64_t task;

    while (tasks_take(&work->first, &task)) {
        /* Tasks come rising, so the part of one is at or behind the last one's. */
        while (part + 1 < work->part + work->parts && task >= part[1].u_task)
            part++;
        first_task(work, part, task, work_scratch(work->dev, thread));
    }
    if (work->parts > 0)
        team_meet(work->team);
    while (tasks_take(&work->second, &task))
        second_task(work, task, work_scratch(work->dev, thread));
}

/* --- the list of work ------------------------------------------------------------------------------------------------------- */

/* Lists the parts of all segments; tasks of dx stand before theirs. Returns the number of multiplications. */
static int64_t parts_list(struct back_work *work, const struct lora *lora, const struct lora_grad *grad, const struct batch *batch,
                          int64_t *first, int64_t *second)
{
    struct dev *dev = work->dev;
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
            struct back_part *part = &work->part[work->parts];

            if (lora_group_of((enum lora_module)module) != lora->group)
                continue;
            check(i < work->n);
            if (segment->rows > 0 && slot->rank > 0 && (slot->modules >> module & 1) != 0) {
                check(work->parts < 3 * dev->config.rows_max);
                *part = (struct back_part){
                    .a = layer + layout.a[lora->group] + (int64_t)present * slot->rank * work->in * work->size,
                    .b = layer + layout.b[module],
                    .grad = grad == NULL ? (struct lora_grad){0} : grad[s * work->n + i],
                    .u_task = *first,
                    .a_task = *second,
                    .row = segment->row,
                    .rows = segment->rows,
                    .rank = slot->rank,
                    .weight = i,
                    .column = work->column[i],
                    .u_column = present * slot->rank,
                };
                check(part->grad.rank <= slot->rank);
                *first += pieces(segment->rows, BACK_ROWS);
                part->b_task = *second + (part->grad.a == NULL ? 0 : pieces(work->in, GRAD_COLUMNS));
                *second = part->b_task + (part->grad.a == NULL ? 0 : pieces(work->w[i].out, GRAD_COLUMNS));
                cost += 3 * (int64_t)segment->rows * slot->rank * (work->in + work->w[i].out);
                work->parts++;
                present++;
            }
            i++;
        }
        check(i == work->n);
    }
    return cost;
}

/* x and dy hold work->rows rows. */
static void back_all(struct back_work *work, const struct lora *lora, const struct lora_grad *grad, const struct batch *batch)
{
    struct dev *dev = work->dev;
    int64_t first = 0;
    int64_t second;
    int64_t cost = 0;

    check(work->n >= 1 && work->n <= 3);
    work->kernels = dev->train->kernels;
    work->bf16 = dev->config.mode == MODE_FAST;
    work->size = (int64_t)act_bytes(dev->config.mode);
    work->in = work->w[0].in;
    work->part = dev->train->parts;
    for (int i = 0; i < work->n; i++) {
        check(work->w[i].in == work->in);
        work->column[i + 1] = work->column[i] + work->w[i].out;
        cost += (int64_t)work->rows * work->in * work->w[i].out * ((work->dx != NULL) + (work->dw != NULL));
    }
    work->width = work->column[work->n];
    for (work->dx_columns = DX_COLUMNS_MAX; work->dx_columns > PANEL_COLUMNS;)
        if (pieces(work->in, work->dx_columns) >= 4 * (int64_t)dev->config.threads)
            break;
        else
            work->dx_columns /= 2;
    work->dx_tasks = work->dx != NULL && work->rows > 0 ? pieces(work->in, work->dx_columns) : 0;
    second = work->dx_tasks;
    if (lora != NULL)
        cost += parts_list(work, lora, grad, batch, &first, &second);
    for (int i = 0; i < 4; i++) {
        work->dw_task[i] = second;
        second += work->dw != NULL && i < work->n ? pieces(work->w[i].out, GRAD_OUTS) : 0;
    }
    tasks_init(&work->first, first);
    tasks_init(&work->second, second);
    work->team = work_team(dev, cost);
    team_run(work->team, back_run, work);
}

void cpu_linear_back(struct dev *dev, float *dx, const act *dy, const act *x, const struct weight *w, int n, const struct lora *lora,
                     const struct lora_grad *grad, const struct weight_grad *dw, const struct batch *batch)
{
    struct back_work work = {.dev = dev, .dx = dx, .dy = dy, .x = x, .w = w, .n = n, .rows = batch->now->rows, .dw = dw};

    back_all(&work, lora, grad, batch);
}

/* The rows that have an output, side by side. */
void cpu_head_back(struct dev *dev, float *dx, float *dw, const act *dlogits, const act *x, const struct weight *w, const struct batch *batch)
{
    const size_t row_bytes = (size_t)w->in * act_bytes(dev->config.mode);
    const int32_t outputs = batch->now->outputs;
    const struct weight_grad grad = {.weight = dw};
    struct back_work work = {.dev = dev, .dx = dev->train->rows, .dy = dlogits, .x = dev->outputs, .w = w, .n = 1, .rows = outputs,
                             .dw = dw == NULL ? NULL : &grad};

    check(outputs <= dev->config.outputs_max && w->in == dev->config.dims.hidden);
    for (int32_t i = 0; dw != NULL && i < outputs; i++)
        memcpy(dev->outputs + (size_t)i * row_bytes, (const char *)x + (size_t)batch->out_row[i] * row_bytes, row_bytes);
    back_all(&work, NULL, NULL, batch);
    for (int32_t i = 0; i < outputs; i++)
        memcpy(dx + (int64_t)batch->out_row[i] * w->in, dev->train->rows + (int64_t)i * w->in, (size_t)w->in * sizeof(float));
}
