/* Speed on a GPU: each op of a layer of Llama-3.1-8B's shape in decode, its bytes against what memory can give; our
 * GEMM against cuBLAS; eager against a graph; the stack of 32 layers with 0, 1, 8 and 32 adapters of rank 16 on all
 * seven modules, whose goals are 1.15 of the base at 8 and 1.35 at 32; and the ops of training. One line a number. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_train.h"
#include "gpu.h"
#include "world.h"

#define LAYERS 32
#define ROWS 32
#define BEFORE 512
#define RANK 16
#define EPS 1e-5f

/* Device memory of a layer stack. One layer's weights stand for all when `shared`, which caches would flatter: so every
 * layer has its own. */
struct stack {
    struct world *world;
    struct weight gain, qkv[3], o, gate_up[2], down, head, none;
    struct weight (*layer)[7];
    float *x, *wide, *angles, *logits;
    void *y, *q, *attended, *kv;
    int64_t kv_layer;           /* bytes of k, or v, of a layer */
    bool with_lora;
};

static struct stack stack_open(const struct device *device, int adapters, bool deterministic, char *ret_error, size_t error_bytes)
{
    struct world_ask ask = {.dims = {4096, 32, 8, 128, 14336, 128256, LAYERS}, .mode = MODE_FAST, .deterministic = deterministic,
                            .dtype = DTYPE_BF16, .seed = 1, .sequences = ROWS, .slots = adapters};
    struct stack stack = {.with_lora = adapters > 0};
    const struct dims *dims = &ask.dims;
    struct world *world;
    int32_t qkv_width = (dims->heads + 2 * dims->kv_heads) * dims->head_dim;

    for (int i = 0; i < ROWS; i++) {
        ask.sequence[i].rows = 1;
        ask.sequence[i].before = BEFORE;
        ask.sequence[i].slot = adapters > 0 ? i * adapters / ROWS : SEGMENT_NONE;
    }
    for (int i = 0; i < adapters; i++) {
        ask.slot[i].rank = RANK;
        ask.slot[i].modules = 0x7f;
    }
    world = world_open(&ask, device, ret_error, error_bytes);
    stack.world = world;
    if (world == NULL)
        return stack;
    stack.gain = gpu_weight(world, 1, dims->hidden);
    stack.head = gpu_weight(world, dims->vocabulary, dims->hidden);
    stack.layer = calloc(LAYERS, sizeof(*stack.layer));
    for (int layer = 0; layer < LAYERS; layer++) {
        for (int module = 0; module < LORA_MODULE_COUNT; module++)
            stack.layer[layer][module] =
                gpu_weight(world, lora_module_out(dims, (enum lora_module)module), lora_module_in(dims, (enum lora_module)module));
    }
    stack.x = device->reserve(world->dev, (size_t)ROWS * 4096 * 4);
    stack.wide = device->reserve(world->dev, (size_t)ROWS * 2 * 14336 * 4);
    stack.y = device->reserve(world->dev, (size_t)ROWS * 14336 * 2);
    stack.q = device->reserve(world->dev, (size_t)ROWS * (size_t)qkv_width * 2);
    stack.attended = device->reserve(world->dev, (size_t)ROWS * 4096 * 2);
    stack.logits = device->reserve(world->dev, (size_t)ROWS * 128256 * 4);
    stack.angles = device->reserve(world->dev, (size_t)world->positions_max * 128 * 4);
    stack.kv_layer = (int64_t)world->blocks * dims->kv_heads * KV_BLOCK_TOKENS * dims->head_dim * 2;
    stack.kv = device->reserve(world->dev, (size_t)(2 * LAYERS * stack.kv_layer));
    check(stack.kv != NULL);
    return stack;
}

static void layer_run(struct stack *stack, int layer, int only)
{
    struct world *world = stack->world;
    const struct ops *ops = world->ops;
    struct dev *dev = world->dev;
    const struct batch *batch = &world->batch;
    struct weight *weights = stack->layer[layer];
    char *k = (char *)stack->kv + 2 * layer * stack->kv_layer, *v = k + stack->kv_layer;
    struct lora lora[LORA_GROUP_COUNT];

    for (int i = 0; i < LORA_GROUP_COUNT; i++)
        lora[i] = (struct lora){world->device_pool, world->device_slots, layer, (enum lora_group)i};
#define DO(number) if (only < 0 || only == number)
#define LORA(group) (stack->with_lora ? &lora[LORA_GROUP_##group] : NULL)
    DO(0) ops->norm(dev, stack->y, stack->x, layer > 0 ? stack->wide : NULL, &stack->gain, EPS, batch);
    DO(1) ops->linear(dev, stack->wide, stack->y, &weights[LORA_Q], 3, LORA(QKV), batch);
    DO(2) ops->rope_store(dev, stack->q, k, v, stack->wide, &stack->none, &stack->none, EPS, stack->angles, batch);
    DO(3) ops->attend(dev, stack->attended, stack->q, k, v, batch);
    DO(4) ops->linear(dev, stack->wide, stack->attended, &weights[LORA_O], 1, LORA(O), batch);
    DO(5) ops->norm(dev, stack->y, stack->x, stack->wide, &stack->gain, EPS, batch);
    DO(6) ops->linear(dev, stack->wide, stack->y, &weights[LORA_GATE], 2, LORA(GATE_UP), batch);
    DO(7) ops->swiglu(dev, stack->y, stack->wide, batch);
    DO(8) ops->linear(dev, stack->wide, stack->y, &weights[LORA_DOWN], 1, LORA(DOWN), batch);
}

static void stack_run(struct stack *stack, int only)
{
    for (int layer = 0; layer < LAYERS; layer++)
        layer_run(stack, layer, only);
}

/* What is timed: one op of all layers, or all (-1); or a graph. */
struct turn { struct stack *stack; int only; uint32_t graph; };

static void turn_run(void *context)
{
    const struct turn *turn = context;

    if (turn->graph != 0)
        turn->stack->world->device->replay(turn->stack->world->dev, turn->graph);
    else
        stack_run(turn->stack, turn->only);
}

static double median_us(struct stack *stack, int only, uint32_t graph)
{
    struct turn turn = {stack, only, graph};

    return gpu_median_us(stack->world, turn_run, &turn);
}

static uint32_t recorded(struct stack *stack, int only)
{
    stack->world->device->record(stack->world->dev);
    stack_run(stack, only);
    return stack->world->device->recorded(stack->world->dev);
}

/* Bytes that an op cannot but move, for all layers. */
static double op_bytes(int op)
{
    static const double weights[9] = {0, 6144.0 * 4096, 0, 0, 4096.0 * 4096, 0, 28672.0 * 4096, 0, 4096.0 * 14336};
    static const double numbers[9] = {4096 * 10, 6144 * 4 + 4096 * 2, 6144 * 6, 4096 * 4, 4096 * 6, 4096 * 14, 28672 * 4 + 4096 * 2,
                                      14336 * 10, 14336 * 2 + 4096 * 4};
    double bytes = weights[op] * 2 + numbers[op] * ROWS;

    if (op == 3)
        bytes += 2.0 * ROWS * (BEFORE + 1) * 8 * 128 * 2;
    return bytes * LAYERS;
}

static void print_ops(struct stack *stack, const char *gemm, double memory_gb_per_s)
{
    static const char *const names[9] = {"norm", "qkv", "rope_store", "attend", "o", "norm", "gate_up", "swiglu", "down"};

    for (int op = 0; op < 9; op++) {
        double us = median_us(stack, op, recorded(stack, op));

        printf("op=%s gemm=%s us=%.1f gb_per_s=%.0f roofline=%.2f\n", names[op], gemm, us / LAYERS, op_bytes(op) / us * 1e-3,
               op_bytes(op) / us * 1e-3 / memory_gb_per_s);
    }
}

int main(int argc, char **argv)
{
    static const int adapters[] = {0, 1, 8, 32};
    double memory_gb_per_s = argc > 1 ? strtod(argv[1], NULL) : 3350, base_us = 0;
    char why[512] = "";
    const struct device *device = gpu_device(why, sizeof(why));

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (device == NULL) {
        printf("SKIP the measurements on a GPU: %s\n", why);
        return 0;
    }
    printf("shape=llama-8b rows=%d context=%d rank=%d modules=7 roofline_gb_per_s=%.0f\n", ROWS, BEFORE, RANK, memory_gb_per_s);
    for (size_t i = 0; i < ARRAY_COUNT(adapters); i++) {
        struct stack stack = stack_open(device, adapters[i], false, why, sizeof(why));
        double eager_us, graph_us;

        if (stack.world == NULL) {
            printf("SKIP adapters=%d: %s\n", adapters[i], why);
            continue;
        }
        eager_us = median_us(&stack, -1, 0);
        graph_us = median_us(&stack, -1, recorded(&stack, -1));
        base_us = adapters[i] == 0 ? graph_us : base_us;
        printf("adapters=%d eager_us=%.0f graph_us=%.0f over_base=%.3f goal=%s\n", adapters[i], eager_us, graph_us, graph_us / base_us,
               adapters[i] == 8 ? "1.15" : adapters[i] == 32 ? "1.35" : "-");
        if (adapters[i] == 0)
            print_ops(&stack, "cublas", memory_gb_per_s);
        device->close(stack.world->dev);
    }
    struct stack stack = stack_open(device, 0, true, why, sizeof(why));
    if (stack.world != NULL) {
        print_ops(&stack, "own", memory_gb_per_s);
        device->close(stack.world->dev);
    }
    bench_train(device);
    return 0;
}
