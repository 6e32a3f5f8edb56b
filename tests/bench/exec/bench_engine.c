/* Steps of a model of 250 million bf16 weights over the CPU's ops: decode_b1, prefill_512, and mixed batches. The rates of the machine
 * are probed before and after each round; a round in which they moved by more than 5% is dropped. Within a round the fastest of some
 * steps counts, for the probes too; between rounds the median. One JSON line each. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/exec/probe.h"
#include "engine/device/device.h"

#define ROUNDS 5
#define TRIES 10
#define ROWS 512
#define CONTEXT 128
#define BLOCKS 600
#define SLOTS 16

static const struct dims dims = {.hidden = 1024, .heads = 16, .kv_heads = 8, .head_dim = 64, .ffn = 2816, .vocabulary = 32000, .layers = 16};

struct layer {
    struct weight norm[2], qkv[3], o, gate_up[2], down;
};

struct bench {
    struct probe probe;
    struct dev *dev;
    const struct ops *ops;
    uint32_t threads;
    char *arena;
    size_t used, bytes;
    size_t weights_bytes;       /* read by a step with an output */
    double weights_count;       /* of linear layers, head left out */
    struct layer layer[16];
    struct weight embed, head, norm;
    struct lora_slot slot[SLOTS];
    char *pool;
    float *angles, *x, *wide, *logits, *lse, *best;
    char *y, *q, *kv[16][2];
    int32_t *ids;
    struct counts now;
    struct batch batch;
    int32_t token[ROWS], position[ROWS], out_row[ROWS];
    int32_t blocks[16][ROWS / KV_BLOCK_TOKENS + 16];
    struct sequence sequence[16];
    struct segment segment[16];
};

static void *take(struct bench *b, size_t bytes)
{
    void *at = b->arena + b->used;

    b->used += (bytes + 255) / 256 * 256;
    check(b->used <= b->bytes);
    return at;
}

static void fill_bf16(void *to, size_t n, float scale)
{
    uint32_t state = 1;

    for (size_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        ((uint16_t *)to)[i] = bf16_round((float)(int32_t)state * (scale / 2147483648.0f));
    }
}

static struct weight weight_make(struct bench *b, int32_t out, int32_t in, float scale)
{
    const size_t n = (size_t)out * (size_t)in;
    struct weight w = {.dtype = DTYPE_BF16, .out = out, .in = in, .stride = in};
    void *data = take(b, n * 2);

    fill_bf16(data, n, scale);
    w.data = data;
    b->weights_bytes += n * 2;
    if (out > 1)
        b->weights_count += (double)n;
    return w;
}

static void weights_make(struct bench *b)
{
    for (int i = 0; i < dims.layers; i++) {
        struct layer *layer = &b->layer[i];

        for (int j = 0; j < 2; j++)
            layer->norm[j] = weight_make(b, 1, dims.hidden, 1);
        layer->qkv[0] = weight_make(b, dims.heads * dims.head_dim, dims.hidden, 0.05f);
        layer->qkv[1] = weight_make(b, dims.kv_heads * dims.head_dim, dims.hidden, 0.05f);
        layer->qkv[2] = weight_make(b, dims.kv_heads * dims.head_dim, dims.hidden, 0.05f);
        layer->o = weight_make(b, dims.hidden, dims.heads * dims.head_dim, 0.05f);
        layer->gate_up[0] = weight_make(b, dims.ffn, dims.hidden, 0.05f);
        layer->gate_up[1] = weight_make(b, dims.ffn, dims.hidden, 0.05f);
        layer->down = weight_make(b, dims.hidden, dims.ffn, 0.05f);
    }
    b->norm = weight_make(b, 1, dims.hidden, 1);
    b->head = weight_make(b, dims.vocabulary, dims.hidden, 0.05f);
    b->weights_count -= (double)dims.vocabulary * dims.hidden;
    b->embed = b->head;
    b->probe.memory = b->arena;
    b->probe.bytes = b->used;
}

/* Slots 0 to 7 have rank 16; 8 to 15 ranks from 16 (8, padded) to 64. */
static void adapters_make(struct bench *b)
{
    static const int32_t ranks[8] = {16, 16, 16, 32, 32, 48, 64, 64};
    int64_t at = 0;

    for (int i = 0; i < SLOTS; i++) {
        b->slot[i] = (struct lora_slot){.offset = at, .rank = i < 8 ? 16 : ranks[i - 8], .modules = 0x7f};
        at += (lora_packed_bytes(&dims, MODE_FAST, b->slot[i].rank, 0x7f) + 255) / 256 * 256;
    }
    b->pool = take(b, (size_t)at);
    fill_bf16(b->pool, (size_t)at / 2, 0.02f);
}

static void memory_make(struct bench *b)
{
    const size_t kv = (size_t)BLOCKS * (size_t)dims.kv_heads * KV_BLOCK_TOKENS * (size_t)dims.head_dim * 2;

    b->bytes = (size_t)1500 << 20;
    b->arena = mmap(NULL, b->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(b->arena != MAP_FAILED);
    weights_make(b);
    adapters_make(b);
    for (int i = 0; i < 2 * dims.layers; i++)
        b->kv[i / 2][i % 2] = take(b, kv);
    b->angles = take(b, ROWS * (size_t)dims.head_dim * 4);
    for (int i = 0; i < ROWS * dims.head_dim; i++)
        b->angles[i] = i % dims.head_dim < dims.head_dim / 2 ? 0.8f : 0.6f;
    b->x = take(b, ROWS * (size_t)dims.hidden * 4);
    b->wide = take(b, ROWS * (size_t)(2 * dims.ffn) * 4);
    b->y = take(b, ROWS * (size_t)dims.ffn * 2);
    b->q = take(b, ROWS * (size_t)dims.hidden * 2);
    b->logits = take(b, 16 * (size_t)dims.vocabulary * 4);
    b->lse = take(b, 16 * 4);
    b->best = take(b, 16 * 64 * 4);
    b->ids = take(b, 16 * 64 * 4);
}

/* `sequences` of `rows` tokens behind `before`; adapters `first` .. first + distinct - 1 in runs, none when distinct is 0. */
static void batch_make(struct bench *b, int32_t sequences, int32_t rows, int32_t before, int32_t distinct, int32_t first)
{
    int32_t block = 1;

    b->now = (struct counts){.rows = sequences * rows, .outputs = sequences, .sequences = sequences, .segments = distinct};
    for (int32_t s = 0; s < sequences; s++) {
        b->sequence[s] = (struct sequence){s * rows, rows, before, s};
        b->out_row[s] = s * rows + rows - 1;
        for (int32_t i = 0; i < rows; i++) {
            b->token[s * rows + i] = (s * 7919 + i * 101) % dims.vocabulary;
            b->position[s * rows + i] = before + i;
        }
        for (int32_t i = 0; i * KV_BLOCK_TOKENS < before + rows; i++)
            b->blocks[s][i] = block++;
    }
    check(block <= BLOCKS);
    for (int32_t i = 0; i < distinct; i++)
        b->segment[i] = (struct segment){i * (b->now.rows / distinct), b->now.rows / distinct, first + i};
    b->batch = (struct batch){.max = b->now, .now = &b->now, .token = b->token, .position = b->position, .out_row = b->out_row,
                              .block_table = &b->blocks[0][0], .blocks_max = (int32_t)ARRAY_COUNT(b->blocks[0]),
                              .sequence = b->sequence, .segment = b->segment};
}

static void step(struct bench *b)
{
    const struct weight none = {0};
    const struct batch *batch = &b->batch;

    b->ops->embed(b->dev, b->x, &b->embed, batch);
    for (int i = 0; i < dims.layers; i++) {
        const struct layer *layer = &b->layer[i];
        struct lora lora[LORA_GROUP_COUNT];

        for (int group = 0; group < LORA_GROUP_COUNT; group++)
            lora[group] = (struct lora){.pool = b->pool, .slot = b->slot, .layer = i, .group = (enum lora_group)group};
#define LORA(name) (b->now.segments > 0 ? &lora[LORA_GROUP_##name] : NULL)
        b->ops->norm(b->dev, b->y, b->x, i == 0 ? NULL : b->wide, &layer->norm[0], 1e-5f, batch);
        b->ops->linear(b->dev, b->wide, b->y, layer->qkv, 3, LORA(QKV), batch);
        b->ops->rope_store(b->dev, b->q, b->kv[i][0], b->kv[i][1], b->wide, &none, &none, 1e-5f, b->angles, batch);
        b->ops->attend(b->dev, b->y, b->q, b->kv[i][0], b->kv[i][1], batch);
        b->ops->linear(b->dev, b->wide, b->y, &layer->o, 1, LORA(O), batch);
        b->ops->norm(b->dev, b->y, b->x, b->wide, &layer->norm[1], 1e-5f, batch);
        b->ops->linear(b->dev, b->wide, b->y, layer->gate_up, 2, LORA(GATE_UP), batch);
        b->ops->swiglu(b->dev, b->y, b->wide, batch);
        b->ops->linear(b->dev, b->wide, b->y, &layer->down, 1, LORA(DOWN), batch);
#undef LORA
    }
    b->ops->norm(b->dev, b->y, b->x, b->wide, &b->norm, 1e-5f, batch);
    b->ops->head(b->dev, b->logits, b->y, &b->head, batch);
    b->ops->pick(b->dev, b->lse, b->best, b->ids, b->logits, 1, batch);
}

static int by_value(const void *a, const void *b)
{
    double left = *(const double *)a;
    double right = *(const double *)b;

    return (left > right) - (left < right);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof(values[0]), by_value);
    return values[count / 2];
}

/* Seconds of the fastest of `times` steps. */
static double step_s(struct bench *b, int times)
{
    double least_s = 1e9;

    for (int i = 0; i <= times; i++) {
        double from_s = probe_now_s(&b->probe);
        double taken_s;

        step(b);
        taken_s = probe_now_s(&b->probe) - from_s;
        least_s = taken_s < least_s ? taken_s : least_s;
    }
    return least_s;
}

struct round {
    double seconds[8];
    double gflops, bytes_per_s;
};

/* One of the kinds of batches; `distinct` adapters from slot `first` on. */
struct shape {
    int32_t sequences, rows, before, distinct, first;
};

static void measure(struct bench *b, const char *name, const struct shape *shapes, const char *const *cases, int count, int times)
{
    struct round rounds[ROUNDS];
    double column[ROUNDS];
    double of_peak[ROUNDS];
    double of_read[ROUNDS];
    double ratio[ROUNDS];
    int kept = 0;
    int dropped = 0;

    while (kept < ROUNDS && kept + dropped < TRIES) {
        struct round *round = &rounds[kept];
        double gflops;
        double bytes_per_s;

        probe_look(&b->probe);
        gflops = b->probe.gflops;
        bytes_per_s = b->probe.bytes_per_s;
        for (int i = 0; i < count; i++) {
            batch_make(b, shapes[i].sequences, shapes[i].rows, shapes[i].before, shapes[i].distinct, shapes[i].first);
            round->seconds[i] = step_s(b, times);
        }
        probe_look(&b->probe);
        round->gflops = (gflops + b->probe.gflops) / 2;
        round->bytes_per_s = (bytes_per_s + b->probe.bytes_per_s) / 2;
        if (gflops > 1.05 * b->probe.gflops || b->probe.gflops > 1.05 * gflops || bytes_per_s > 1.05 * b->probe.bytes_per_s ||
            b->probe.bytes_per_s > 1.05 * bytes_per_s)
            dropped++;
        else
            kept++;
    }
    for (int i = 0; i < count && kept > 0; i++) {
        const double rows = (double)shapes[i].sequences * shapes[i].rows;
        const double flops = 2 * (rows * b->weights_count + shapes[i].sequences * (double)dims.vocabulary * dims.hidden);
        double bytes = (double)b->weights_bytes;

        for (int32_t s = 0; s < shapes[i].distinct; s++)
            bytes += (double)lora_packed_bytes(&dims, MODE_FAST, b->slot[shapes[i].first + s].rank, 0x7f);
        for (int r = 0; r < kept; r++) {
            column[r] = rounds[r].seconds[i];
            of_peak[r] = flops / rounds[r].seconds[i] / rounds[r].gflops * 1e-9;
            of_read[r] = bytes / rounds[r].seconds[i] / rounds[r].bytes_per_s;
            ratio[r] = rounds[r].seconds[i] / rounds[r].seconds[0];
        }
        printf("{\"name\": \"%s\", \"case\": \"%s\", \"kernels\": \"%s\", \"threads\": %u, \"value\": %.2f, \"unit\": \"ms\", "
               "\"of_peak\": %.3f, \"of_bandwidth\": %.3f, \"to_first\": %.3f, \"bytes_to_first\": %.3f, ",
               name, cases[i], kernel_set_name(b->probe.set), b->threads, median(column, kept) * 1e3, median(of_peak, kept),
               median(of_read, kept), median(ratio, kept), bytes / (double)b->weights_bytes);
        for (int r = 0; r < kept; r++) {
            of_peak[r] = rounds[r].gflops;
            of_read[r] = rounds[r].bytes_per_s * 1e-9;
        }
        printf("\"peak_gflops\": %.1f, \"bandwidth_gb_per_s\": %.2f, \"rounds\": %d, \"dropped\": %d}\n", median(of_peak, kept),
               median(of_read, kept), kept, dropped);
        fflush(stdout);
    }
    if (kept == 0)
        printf("{\"name\": \"%s\", \"threads\": %u, \"error\": \"the machine's speed moved in every round\"}\n", name, b->threads);
}

static void measure_all(struct bench *b, int argc, char **argv)
{
    static const struct shape decode[] = {{1, 1, CONTEXT - 1, 0, 0}};
    static const struct shape prefill[] = {{1, ROWS, 0, 0, 0}};
    static const struct shape mixed[] = {{8, 1, CONTEXT - 1, 0, 0}, {8, 1, CONTEXT - 1, 1, 0}, {8, 1, CONTEXT - 1, 2, 0},
                                         {8, 1, CONTEXT - 1, 4, 0}, {8, 1, CONTEXT - 1, 8, 0}, {8, 1, CONTEXT - 1, 8, 8}};
    static const struct shape mixed_prefill[] = {{4, 128, 0, 0, 0}, {4, 128, 0, 4, 0}, {4, 128, 0, 4, 12}};

    if (bench_wanted(argc, argv, "decode_b1"))
        measure(b, "decode_b1", decode, (const char *const[]){"one sequence, 128 keys"}, 1, 25);
    if (bench_wanted(argc, argv, "prefill_512"))
        measure(b, "prefill_512", prefill, (const char *const[]){"one prompt of 512"}, 1, 1);
    if (bench_wanted(argc, argv, "mixed"))
        measure(b, "mixed", mixed,
                (const char *const[]){"8 rows, base", "1 adapter", "2 adapters", "4 adapters", "8 adapters", "8 adapters of ranks 8 to 64"}, 6,
                15);
    if (bench_wanted(argc, argv, "mixed_prefill"))
        measure(b, "mixed_prefill", mixed_prefill,
                (const char *const[]){"4 prompts of 128, base", "4 adapters of rank 16", "4 adapters of ranks 32 to 64"}, 3, 1);
}

int main(int argc, char **argv)
{
    static struct bench bench;
    static const char *const names[] = {"decode_b1", "prefill_512", "mixed", "mixed_prefill"};
    const uint32_t all = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
    bool wanted = argc < 2;

    for (size_t i = 0; i < ARRAY_COUNT(names); i++)
        wanted |= bench_wanted(argc, argv, names[i]) != 0;
    if (!wanted)
        return 0;
    bench.probe.set = kernel_set_best();
    if (argc > 2 && kernel_set_find(argv[2], &bench.probe.set) != STATUS_OK)
        return 2;
    memory_make(&bench);
    for (bench.threads = 1; bench.threads <= all; bench.threads = bench.threads == 1 && all > 1 ? all : all + 1) {
        const struct dev_config config = {.dims = dims, .mode = MODE_FAST, .threads = bench.threads, .kernels = bench.probe.set,
                                          .rows_max = ROWS, .outputs_max = 16, .lora_rank_max = 64, .positions_max = ROWS + 16};
        char error[128];

        bench.dev = device_cpu.open(&config, error, sizeof(error));
        bench.probe.team = team_open(bench.threads);
        check(bench.dev != NULL && bench.probe.team != NULL);
        bench.ops = device_cpu.ops(bench.dev);
        measure_all(&bench, argc, argv);
        team_close(bench.probe.team);
        device_cpu.close(bench.dev);
    }
    munmap(bench.arena, bench.bytes);
    return 0;
}
