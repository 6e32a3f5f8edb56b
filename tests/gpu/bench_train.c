#include "bench_train.h"

#include <stdio.h>
#include <stdlib.h>

/* Rows of 512, four of them; the head's rows at once; numbers of an adapter of rank 16 on all linear layers. */
#define SAMPLES 4
#define SAMPLE_ROWS 512
#define ROWS (SAMPLES * SAMPLE_ROWS)
#define HEAD_ROWS 512
#define RANK 16
#define ADAPTER 41943040
#define LAYERS 32
#define EPS 1e-5f

enum timed_op {
    TIMED_LOSS, TIMED_HEAD_BACK, TIMED_DOWN, TIMED_SWIGLU, TIMED_GATE_UP, TIMED_NORM, TIMED_O, TIMED_ATTEND, TIMED_ROPE, TIMED_QKV,
    TIMED_SUMSQ, TIMED_ADAMW, TIMED_COUNT
};
static const char *const names[TIMED_COUNT] = {"loss", "head_back", "down_back", "swiglu_back", "gate_up_back", "norm_back", "o_back",
                                               "attend_back", "rope_back", "qkv_back", "sumsq", "adamw"};

struct bench {
    struct world *world;
    struct weight gain, weights[LORA_MODULE_COUNT], head, none;
    float *dx, *wide, *gate_up, *angles, *logits, *logp, *coef, *runs[4];
    int32_t *best, *target;
    double *sum;
    void *x, *dy, *kv, *dlogits;
    struct lora_grad *grads;
    struct batch head_batch;
    enum timed_op op;
};

static void *zeros(struct bench *bench, int64_t bytes)
{
    void *memory = bench->world->device->reserve(bench->world->dev, (size_t)bytes);

    check(memory != NULL);
    return memory;
}

/* Of k, or of v. */
static int64_t kv_bytes(const struct world *world)
{
    const struct dims *dims = &world->ask.dims;

    return (int64_t)world->blocks * dims->kv_heads * KV_BLOCK_TOKENS * dims->head_dim * 2;
}

/* The first group's gradients, of seven modules; their places overlap, for nobody reads them. */
static struct lora_grad *grads_of(struct bench *bench)
{
    struct lora_grad grads[LORA_MODULE_COUNT];

    for (int i = 0; i < LORA_MODULE_COUNT; i++)
        grads[i] = (struct lora_grad){bench->runs[3], bench->runs[3] + RANK * 14336, RANK, 2};
    return world_give(bench->world, grads, sizeof(grads));
}

static bool bench_open(struct bench *bench, const struct device *device)
{
    struct world_ask ask = {.dims = {4096, 32, 8, 128, 14336, 128256, 1}, .mode = MODE_FAST, .deterministic = true, .dtype = DTYPE_BF16,
                            .trains = true, .seed = 1, .sequences = SAMPLES, .slots = 1, .slot = {{RANK, 0x7f}}};
    const struct counts head_counts = {.rows = ROWS, .outputs = HEAD_ROWS, .sequences = SAMPLES};
    const struct dims *dims = &ask.dims;
    char why[256] = "";

    for (int i = 0; i < SAMPLES; i++)
        ask.sequence[i].rows = SAMPLE_ROWS;
    bench->world = world_open(&ask, device, why, sizeof(why));
    if (bench->world == NULL) {
        printf("SKIP training: %s\n", why);
        return false;
    }
    bench->gain = gpu_weight(bench->world, 1, dims->hidden);
    bench->head = gpu_weight(bench->world, dims->vocabulary, dims->hidden);
    for (int i = 0; i < LORA_MODULE_COUNT; i++)
        bench->weights[i] = gpu_weight(bench->world, lora_module_out(dims, (enum lora_module)i), lora_module_in(dims, (enum lora_module)i));
    bench->dx = zeros(bench, (int64_t)ROWS * dims->ffn * 4);
    bench->wide = zeros(bench, (int64_t)ROWS * dims->ffn * 4);
    bench->gate_up = zeros(bench, (int64_t)ROWS * 2 * dims->ffn * 4);
    bench->x = zeros(bench, (int64_t)ROWS * dims->ffn * 2);
    bench->dy = zeros(bench, (int64_t)ROWS * 2 * dims->ffn * 2);
    bench->kv = zeros(bench, 2 * kv_bytes(bench->world));
    bench->angles = zeros(bench, (int64_t)bench->world->positions_max * dims->head_dim * 4);
    bench->logits = zeros(bench, (int64_t)HEAD_ROWS * dims->vocabulary * 4);
    bench->dlogits = zeros(bench, (int64_t)HEAD_ROWS * dims->vocabulary * 2);
    bench->logp = zeros(bench, HEAD_ROWS * 4);
    bench->coef = zeros(bench, HEAD_ROWS * 4);
    bench->best = zeros(bench, HEAD_ROWS * 4);
    bench->target = zeros(bench, HEAD_ROWS * 4);
    bench->sum = zeros(bench, 8);
    for (int i = 0; i < 4; i++)
        bench->runs[i] = zeros(bench, (int64_t)ADAPTER * 4);
    bench->grads = grads_of(bench);
    bench->head_batch = bench->world->batch;
    bench->head_batch.max.outputs = HEAD_ROWS;
    bench->head_batch.now = world_give(bench->world, &head_counts, sizeof(head_counts));
    return true;
}

static void linear(struct bench *bench, enum lora_group group, enum lora_module first, int n)
{
    const struct lora lora = {bench->world->device_pool, bench->world->device_slots, 0, group};

    bench->world->train->linear_back(bench->world->dev, bench->dx, bench->dy, bench->x, &bench->weights[first], n, &lora, bench->grads, NULL,
                                     &bench->world->batch);
}

static void op_run(void *context)
{
    struct bench *bench = context;
    const struct train_ops *train = bench->world->train;
    const struct batch *batch = &bench->world->batch;
    const struct adamw step = {1e-4f, 0.9f, 0.999f, 1e-8f, 0, 1, 0.1f, 1e-3f};
    struct dev *dev = bench->world->dev;
    char *v = (char *)bench->kv + kv_bytes(bench->world);

    switch (bench->op) {
    case TIMED_LOSS:
        train->loss(dev, bench->logp, bench->best, bench->dlogits, bench->logits, bench->target, bench->coef, &bench->head_batch);
        break;
    case TIMED_HEAD_BACK: train->head_back(dev, bench->dx, NULL, bench->dlogits, bench->x, &bench->head, &bench->head_batch); break;
    case TIMED_DOWN: linear(bench, LORA_GROUP_DOWN, LORA_DOWN, 1); break;
    case TIMED_SWIGLU: train->swiglu_back(dev, bench->dy, bench->dx, bench->gate_up, batch); break;
    case TIMED_GATE_UP: linear(bench, LORA_GROUP_GATE_UP, LORA_GATE, 2); break;
    case TIMED_NORM: train->norm_back(dev, bench->x, bench->dx, bench->wide, bench->gate_up, &bench->gain, EPS, NULL, batch); break;
    case TIMED_O: linear(bench, LORA_GROUP_O, LORA_O, 1); break;
    case TIMED_ATTEND: train->attend_back(dev, bench->wide, bench->dx, bench->x, bench->kv, v, batch); break;
    case TIMED_ROPE:
        train->rope_back(dev, bench->dy, bench->wide, NULL, &bench->none, &bench->none, EPS, bench->angles, NULL, NULL, batch);
        break;
    case TIMED_QKV: linear(bench, LORA_GROUP_QKV, LORA_Q, 3); break;
    case TIMED_SUMSQ: train->sumsq(dev, bench->sum, bench->runs[3], ADAPTER); break;
    default: train->adamw(dev, bench->runs[0], bench->runs[1], bench->runs[2], bench->runs[3], ADAPTER, &step); break;
    }
}

/* Two a weight of the frozen base and row; five products of attention, half of them masked. 0: it is memory that counts. */
static double op_flop(enum timed_op op)
{
    static const double weights[TIMED_COUNT] = {[TIMED_DOWN] = 4096.0 * 14336, [TIMED_GATE_UP] = 4096.0 * 28672, [TIMED_O] = 4096.0 * 4096,
                                                [TIMED_QKV] = 4096.0 * 6144};

    if (op == TIMED_HEAD_BACK)
        return 2 * 128256.0 * 4096 * HEAD_ROWS;
    if (op == TIMED_ATTEND)
        return 5 * 2 * 128.0 * 32 * SAMPLES * SAMPLE_ROWS * (SAMPLE_ROWS + 1) / 2;
    return 2 * weights[op] * ROWS;
}

void bench_train(const struct device *device)
{
    struct bench bench = {.world = NULL};
    double step_us = 0;

    if (!bench_open(&bench, device))
        return;
    for (enum timed_op op = 0; op < TIMED_COUNT; op++) {
        double us;

        bench.op = op;
        us = gpu_median_us(bench.world, op_run, &bench);
        printf("train_op=%s rows=%d us=%.1f", names[op], op <= TIMED_HEAD_BACK ? HEAD_ROWS : ROWS, us);
        if (op_flop(op) > 0)
            printf(" tflop_per_s=%.1f", op_flop(op) / us * 1e-6);
        printf("\n");
        step_us += us * (op <= TIMED_HEAD_BACK ? (double)ROWS / HEAD_ROWS : op >= TIMED_SUMSQ ? 1 : op == TIMED_NORM ? 2 * LAYERS : LAYERS);
    }
    printf("train_way_back rows=%d layers=%d us=%.0f tokens_per_s=%.0f\n", ROWS, LAYERS, step_us, ROWS / step_us * 1e6);
    device->close(bench.world->dev);
}
