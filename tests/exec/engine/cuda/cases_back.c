/* Bounds are those of cases.c: sums, and, where A x and dy B come between, their rounding. */
#include "cases_back.h"

#include <math.h>
#include <stdlib.h>

#include "both.h"
#include "engine/ops/ref/train.h"

/* What a call is given. */
struct back {
    struct layer layer;
    struct both dy, x;
    struct lora host_lora, lora;
    struct both grads;           /* f32: all segments' and modules' A and B, one behind the other */
    struct lora_grad *host_grad; /* [segments][n] */
    struct lora_grad *grad;      /* the same, of the device's memory: on the host, and there */
    void *device_grad;
    struct both dw;              /* f32: the weights' and biases' */
    struct weight_grad host_dw[3], device_dw[3];
};

/* Drawn as far as the batch goes. */
static struct both rows_drawn(struct world *world, enum dtype dtype, int64_t rows, int64_t rows_max, int64_t width)
{
    struct both both = both_nan(world, dtype, rows_max * width);

    world_fill(world, dtype, both.host, rows * width);
    world->device->put(world->dev, LANE_COMPUTE, both.device, both.host, both.bytes);
    return both;
}

/* Where module i of segment s has its gradients, or would have; every seventh is not wanted. Returns the floats up to there. */
static int64_t grads_place(struct world *world, struct back *back, enum lora_group group)
{
    const struct layer *layer = &back->layer;
    int64_t at = 0;
    int32_t seen = 0;

    for (int32_t s = 0; s < world->now.segments; s++) {
        for (int i = 0; i < layer->n; i++, seen++) {
            const struct lora_grad own = {.rank = world->ask.slot[world->host.segment[s].slot].rank, .scale = group % 2 == 0 ? 2 : 0.25f};

            back->host_grad[s * layer->n + i] = back->grad[s * layer->n + i] = own;
            if (seen % 7 == 6)
                continue;
            if (back->grads.host != NULL) {
                back->host_grad[s * layer->n + i].a = (float *)back->grads.host + at;
                back->host_grad[s * layer->n + i].b = (float *)back->grads.host + at + (int64_t)own.rank * layer->in;
                back->grad[s * layer->n + i].a = (float *)back->grads.device + at;
                back->grad[s * layer->n + i].b = (float *)back->grads.device + at + (int64_t)own.rank * layer->in;
            }
            at += (int64_t)own.rank * (layer->in + layer->host[i].out);
        }
    }
    return at;
}

static void weights_place(struct back *back, float *memory, struct weight_grad *ret_grad)
{
    for (int i = 0; i < back->layer.n; i++) {
        const struct weight *w = &back->layer.host[i];

        ret_grad[i] = (struct weight_grad){.weight = memory, .bias = w->bias != NULL ? memory + (int64_t)w->out * w->in : NULL};
        memory += (int64_t)w->out * (w->in + 1);
    }
}

static struct back back_open(struct world *world, enum lora_group group)
{
    struct back back = {.layer = layer_of(world, group)};
    const struct layer *layer = &back.layer;
    const size_t grads = (size_t)(world->now.segments * layer->n) + 1;

    back.dy = rows_drawn(world, world_act(world), world->now.rows, world->host.max.rows, layer->width);
    back.x = rows_drawn(world, world_act(world), world->now.rows, world->host.max.rows, layer->in);
    back.host_lora = (struct lora){.pool = world->pool, .slot = world->slots, .layer = world->ask.dims.layers - 1, .group = group};
    back.lora = back.host_lora;
    back.lora.pool = world->device_pool;
    back.lora.slot = world->device_slots;
    back.host_grad = calloc(grads, sizeof(*back.host_grad));
    back.grad = calloc(grads, sizeof(*back.grad));
    back.grads = both_drawn(world, DTYPE_F32, grads_place(world, &back, group));
    (void)grads_place(world, &back, group);
    back.device_grad = world_give(world, back.grad, grads * sizeof(*back.grad));
    back.dw = both_drawn(world, DTYPE_F32, (int64_t)layer->width * (layer->in + 1));
    weights_place(&back, back.dw.host, back.host_dw);
    weights_place(&back, back.dw.device, back.device_dw);
    return back;
}

static void back_close(struct world *world, struct back *back)
{
    world->device->release(world->dev, back->device_grad);
    both_free(world, &back->dy);
    both_free(world, &back->x);
    both_free(world, &back->grads);
    both_free(world, &back->dw);
    free(back->host_grad);
    free(back->grad);
    layer_free(&back->layer);
}

/* All operands without signs, on the host: what the definition then gives bounds the sums of absolute values. */
static void back_absolute(struct world *world, struct back *back, char *pool)
{
    const enum dtype dtype = world_act(world);

    world_absolute(dtype, back->dy.host, (int64_t)(back->dy.bytes / dtype_bytes(dtype)));
    world_absolute(dtype, back->x.host, (int64_t)(back->x.bytes / dtype_bytes(dtype)));
    for (int i = 0; i < back->layer.n; i++)
        world_absolute(back->layer.host[i].dtype, (void *)(uintptr_t)back->layer.host[i].data,
                       (int64_t)back->layer.host[i].out * back->layer.in);
    memcpy(pool, world->pool, (size_t)world->pool_bytes);
    world_absolute(dtype, pool, world->pool_bytes / (int64_t)dtype_bytes(dtype));
    back->host_lora.pool = pool;
    world_absolute(DTYPE_F32, back->grads.host, (int64_t)(back->grads.bytes / 4));
    world_absolute(DTYPE_F32, back->dw.host, (int64_t)(back->dw.bytes / 4));
}

enum given { GIVEN_DX = 1, GIVEN_LORA = 2, GIVEN_GRADS = 4, GIVEN_WEIGHTS = 8 };

static void define(struct world *world, struct back *back, enum given given, float *dx)
{
    ref_linear_back(&world->host_dev, given & GIVEN_DX ? dx : NULL, back->dy.host, back->x.host, back->layer.host, back->layer.n,
                    given & GIVEN_LORA ? &back->host_lora : NULL, given & GIVEN_GRADS ? back->host_grad : NULL,
                    given & GIVEN_WEIGHTS ? back->host_dw : NULL, &world->host);
}

static void *copied(const struct both *both)
{
    return memcpy(malloc(both->bytes + 1), both->host, both->bytes);
}

static const char *back_compare(struct world *world, struct back *back, enum given given, struct both *dx)
{
    const struct layer *layer = &back->layer;
    const int64_t dx_now = (int64_t)world->now.rows * layer->in, dx_max = (int64_t)world->host.max.rows * layer->in;
    const double rounded = world->ask.integers ? 0 : world->ask.mode == MODE_FAST ? 0x1p-8 : 8 * sqrt(layer->width + layer->in) * 0x1p-24;
    const double sums = world->ask.integers ? 0 : 4 * sqrt(layer->width) * 0x1p-24;
    const double rows = world->ask.integers ? 0 : 4 * sqrt(world->now.rows) * 0x1p-24;
    void *want_dx = copied(dx), *want_grads = copied(&back->grads), *want_dw = copied(&back->dw), *base = world_nan(dx->bytes);
    void *got_dx = fetched(world, dx), *got_grads = fetched(world, &back->grads), *got_dw = fetched(world, &back->dw);
    char *pool = malloc((size_t)world->pool_bytes + 1);
    const char *answer;

    back_absolute(world, back, pool);
    define(world, back, GIVEN_DX, base);
    define(world, back, given, dx->host);
    for (int64_t i = 0; given & GIVEN_DX && i < dx_now; i++)
        ((float *)dx->host)[i] = (float)(sums * (double)((float *)base)[i] + rounded * (double)(((float *)dx->host)[i] - ((float *)base)[i]));
    answer = given & GIVEN_DX ? compare("linear_back's dx", DTYPE_F32, got_dx, want_dx, dx->host, 1, dx_now, layer->in) : NULL;
    if (answer == NULL)
        answer = still_nan("linear_back's dx", DTYPE_F32, got_dx, given & GIVEN_DX ? dx_now : 0, dx_max, layer->in);
    if (answer == NULL)
        answer = compare("linear_back's gradients of adapters", DTYPE_F32, got_grads, want_grads, back->grads.host, rounded + rows,
                         (int64_t)(back->grads.bytes / 4), layer->in);
    if (answer == NULL)
        answer = compare("linear_back's gradients of weights", DTYPE_F32, got_dw, want_dw, back->dw.host, rows,
                         (int64_t)(back->dw.bytes / 4), layer->in);
    free(want_dx);
    free(want_grads);
    free(want_dw);
    free(base);
    free(got_dx);
    free(got_grads);
    free(got_dw);
    free(pool);
    return answer;
}

static void run(struct world *world, const struct back *back, enum given given, float *dx)
{
    world->train->linear_back(world->dev, given & GIVEN_DX ? dx : NULL, back->dy.device, back->x.device, back->layer.device, back->layer.n,
                              given & GIVEN_LORA ? &back->lora : NULL, given & GIVEN_GRADS ? back->device_grad : NULL,
                              given & GIVEN_WEIGHTS ? back->device_dw : NULL, &world->batch);
}

static const char *linear_back(struct world *world, enum lora_group group, enum given given)
{
    struct back back = back_open(world, group);
    struct both dx = both_nan(world, DTYPE_F32, (int64_t)world->host.max.rows * back.layer.in);
    const char *answer;

    define(world, &back, given, dx.host);
    run(world, &back, given, dx.device);
    answer = back_compare(world, &back, given, &dx);
    both_free(world, &dx);
    back_close(world, &back);
    return answer;
}

const char *case_linear_back(struct world *world)
{
    static const enum given less[LORA_GROUP_COUNT] = {GIVEN_LORA | GIVEN_GRADS, GIVEN_DX, GIVEN_DX | GIVEN_LORA, GIVEN_DX | GIVEN_WEIGHTS};
    const char *answer = NULL;

    for (int group = 0; group < LORA_GROUP_COUNT && answer == NULL; group++) {
        answer = linear_back(world, (enum lora_group)group, GIVEN_DX | GIVEN_LORA | GIVEN_GRADS | GIVEN_WEIGHTS);
        if (answer == NULL)
            answer = linear_back(world, (enum lora_group)group, less[group]);
    }
    return answer;
}

/* --- the head ----------------------------------------------------------------------------------------------------- */
/* Drawn where an output is; NaN elsewhere, which nobody may read. */
static struct both outputs_drawn(struct world *world, int32_t width)
{
    struct both x = both_nan(world, world_act(world), (int64_t)world->host.max.rows * width);

    for (int32_t o = 0; o < world->now.outputs; o++)
        world_fill(world, world_act(world),
                   (char *)x.host + (size_t)world->host.out_row[o] * (size_t)width * dtype_bytes(world_act(world)), width);
    world->device->put(world->dev, LANE_COMPUTE, x.device, x.host, x.bytes);
    return x;
}

static const char *head_back(struct world *world, bool with_dw)
{
    const int32_t hidden = world->ask.dims.hidden, vocabulary = world->ask.dims.vocabulary;
    const int64_t dx_count = (int64_t)world->host.max.rows * hidden, dw_count = (int64_t)vocabulary * hidden;
    const double exact = world->ask.integers ? 0 : 0x1p-24;
    struct both dlogits = rows_drawn(world, world_act(world), world->now.outputs, world->host.max.outputs, vocabulary);
    struct both x = outputs_drawn(world, hidden), dx = both_drawn(world, DTYPE_F32, dx_count), dw = both_drawn(world, DTYPE_F32, dw_count);
    struct weight host, device;
    void *want_dx, *want_dw, *got_dx, *got_dw;
    const char *answer;

    world_weight(world, world->ask.dtype, vocabulary, hidden, false, &host, &device);
    ref_head_back(&world->host_dev, dx.host, with_dw ? dw.host : NULL, dlogits.host, x.host, &host, &world->host);
    world->train->head_back(world->dev, dx.device, with_dw ? dw.device : NULL, dlogits.device, x.device, &device, &world->batch);
    want_dx = copied(&dx);
    want_dw = copied(&dw);
    got_dx = fetched(world, &dx);
    got_dw = fetched(world, &dw);
    world_absolute(world_act(world), dlogits.host, (int64_t)(dlogits.bytes / dtype_bytes(world_act(world))));
    world_absolute(world_act(world), x.host, (int64_t)(x.bytes / dtype_bytes(world_act(world))));
    world_absolute(host.dtype, (void *)(uintptr_t)host.data, dw_count);
    world_absolute(DTYPE_F32, dw.host, dw_count);
    ref_head_back(&world->host_dev, dx.host, with_dw ? dw.host : NULL, dlogits.host, x.host, &host, &world->host);
    answer = compare("head_back's dx", DTYPE_F32, got_dx, want_dx, dx.host, 4 * sqrt(vocabulary) * exact, dx_count, hidden);
    if (answer == NULL)
        answer = compare("head_back's dw", DTYPE_F32, got_dw, want_dw, dw.host, 4 * sqrt(world->now.outputs) * exact, dw_count, hidden);
    free(want_dx);
    free(want_dw);
    free(got_dx);
    free(got_dw);
    both_free(world, &dlogits);
    both_free(world, &x);
    both_free(world, &dx);
    both_free(world, &dw);
    world_weight_free(&host);
    return answer;
}

const char *case_head_back(struct world *world)
{
    const char *answer = head_back(world, false);

    return answer != NULL ? answer : head_back(world, true);
}

/* --- a job's bits ------------------------------------------------------------------------------------------------- */
/* Rows of one adapter as a batch of their own, in tiles of another height than the world's. */
static struct batch rows_alone(struct world *world, int32_t rows, int32_t slot)
{
    const int32_t height = world->host.tile[0].rows > TILE_ROWS_DECODE ? TILE_ROWS_DECODE : TILE_ROWS_PREFILL;
    struct counts now = {.rows = rows, .segments = 1, .tiles = (rows + height - 1) / height};
    struct segment own = {.row = 0, .rows = rows, .slot = slot};
    struct tile *tiles = calloc((size_t)now.tiles + 1, sizeof(*tiles));
    struct batch batch = world->batch;

    for (int32_t i = 0; i < now.tiles; i++)
        tiles[i] = (struct tile){0, i * height, rows - i * height < height ? rows - i * height : height};
    batch.max = now;
    batch.now = world_give(world, &now, sizeof(now));
    batch.segment = world_give(world, &own, sizeof(own));
    batch.tile = world_give(world, tiles, (size_t)now.tiles * sizeof(*tiles));
    free(tiles);
    return batch;
}

static void alone_free(struct world *world, struct batch *batch)
{
    const void *memory[] = {batch->now, batch->segment, batch->tile};

    for (size_t i = 0; i < ARRAY_COUNT(memory); i++)
        world->device->release(world->dev, (void *)(uintptr_t)memory[i]);
}

/* Gradients as they were drawn, and dx as nobody wrote it. */
static void start_again(struct world *world, const struct back *back, const struct both *dx)
{
    world->device->put(world->dev, LANE_COMPUTE, back->grads.device, back->grads.host, back->grads.bytes);
    world->device->put(world->dev, LANE_COMPUTE, dx->device, dx->host, dx->bytes);
}

/* Everybody's rows but the segment's are NaN, on the device. */
static void spoil_others(struct world *world, const struct back *back, const struct segment *segment)
{
    const struct both *both[2] = {&back->dy, &back->x};
    const int32_t width[2] = {back->layer.width, back->layer.in};

    for (int i = 0; i < 2; i++) {
        const size_t row_bytes = (size_t)width[i] * dtype_bytes(world_act(world));
        char *spoilt = world_nan(both[i]->bytes);

        memcpy(spoilt + (size_t)segment->row * row_bytes, (char *)both[i]->host + (size_t)segment->row * row_bytes,
               (size_t)segment->rows * row_bytes);
        world->device->put(world->dev, LANE_COMPUTE, both[i]->device, spoilt, both[i]->bytes);
        free(spoilt);
    }
}

/* Whether dx's rows and the gradients of segment s are those of `dx` and `grads`. */
static const char *same_bits(struct world *world, const struct back *back, int32_t s, const struct both *dx_both, const char *dx,
                             const char *grads, int32_t dx_row, const char *what)
{
    const struct segment *segment = &world->host.segment[s];
    const struct layer *layer = &back->layer;
    const size_t row_bytes = (size_t)layer->in * 4;
    char *got_dx = fetched(world, dx_both), *got_grads = fetched(world, &back->grads);
    const char *answer = NULL;

    if (memcmp(got_dx + (size_t)dx_row * row_bytes, dx + (size_t)segment->row * row_bytes, (size_t)segment->rows * row_bytes) != 0)
        answer = wrong("linear_back, segment %d %s: dx has other bits", s, what);
    for (int i = 0; i < layer->n; i++) {
        const struct lora_grad *grad = &back->host_grad[s * layer->n + i];
        const ptrdiff_t at = (const char *)grad->a - (const char *)back->grads.host;

        if (grad->a != NULL && memcmp(got_grads + at, grads + at, (size_t)grad->rank * (size_t)(layer->in + layer->host[i].out) * 4) != 0)
            answer = wrong("linear_back, segment %d %s: gradients of module %d have other bits", s, what, i);
    }
    free(got_dx);
    free(got_grads);
    return answer;
}

/* Segment s in batches of its own, so many rows each. */
static const char *segment_alone(struct world *world, struct back *back, const struct both *dx, const char *mixed_dx, const char *mixed_grads,
                                 int32_t s, int32_t rows_each, const char *what)
{
    const struct segment *segment = &world->host.segment[s];
    const struct layer *layer = &back->layer;
    const int64_t size = (int64_t)dtype_bytes(world_act(world));

    start_again(world, back, dx);
    for (int32_t from = 0; from < segment->rows; from += rows_each) {
        const int64_t row = segment->row + from;
        struct batch batch = rows_alone(world, segment->rows - from < rows_each ? segment->rows - from : rows_each, segment->slot);

        world->train->linear_back(world->dev, (float *)dx->device + (int64_t)from * layer->in, (char *)back->dy.device + row * layer->width * size,
                                  (char *)back->x.device + row * layer->in * size, layer->device, layer->n, &back->lora,
                                  (struct lora_grad *)back->device_grad + s * layer->n, NULL, &batch);
        alone_free(world, &batch);
    }
    return same_bits(world, back, s, dx, mixed_dx, mixed_grads, 0, what);
}

static const char *segment_among_nan(struct world *world, struct back *back, const struct both *dx, const char *mixed_dx,
                                     const char *mixed_grads, int32_t s)
{
    const struct segment *segment = &world->host.segment[s];
    const char *answer;

    start_again(world, back, dx);
    spoil_others(world, back, segment);
    run(world, back, GIVEN_DX | GIVEN_LORA | GIVEN_GRADS, dx->device);
    answer = same_bits(world, back, s, dx, mixed_dx, mixed_grads, segment->row, "among NaN");
    world->device->put(world->dev, LANE_COMPUTE, back->dy.device, back->dy.host, back->dy.bytes);
    world->device->put(world->dev, LANE_COMPUTE, back->x.device, back->x.host, back->x.bytes);
    return answer;
}

const char *promise_back_alone(struct world *world)
{
    const char *answer = NULL;

    for (int group = 0; group < LORA_GROUP_COUNT && answer == NULL; group++) {
        struct back back = back_open(world, (enum lora_group)group);
        struct both dx = both_nan(world, DTYPE_F32, (int64_t)world->host.max.rows * back.layer.in);
        char *mixed_dx, *mixed_grads;

        run(world, &back, GIVEN_DX | GIVEN_LORA | GIVEN_GRADS, dx.device);
        mixed_dx = fetched(world, &dx);
        mixed_grads = fetched(world, &back.grads);
        for (int32_t s = 0; s < world->now.segments && answer == NULL; s++) {
            answer = segment_alone(world, &back, &dx, mixed_dx, mixed_grads, s, world->host.segment[s].rows, "alone");
            if (answer == NULL)
                answer = segment_alone(world, &back, &dx, mixed_dx, mixed_grads, s, TRAIN_ROWS, "in pieces");
            if (answer == NULL)
                answer = segment_among_nan(world, &back, &dx, mixed_dx, mixed_grads, s);
        }
        free(mixed_dx);
        free(mixed_grads);
        both_free(world, &dx);
        back_close(world, &back);
    }
    return answer;
}
