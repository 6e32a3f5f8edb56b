/* Training steps of a model of 250 million bf16 weights: tokens a second, and the share of the register peak at 4 FLOPs a weight of the
 * linear layers and token (one product forward, one back; the base is frozen), the head's for the rows that have a target. Recomputing is
 * not counted as work. The machine's rate is probed before and after each round, and rounds in which it moved by more than a tenth are
 * dropped. On one thread it is the processor's time that counts, for others use the machine too. One JSON line each. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/exec/probe.h"
#include "engine/model/random.h"
#include "engine/train/train.h"

#define ROUNDS 3
#define TRIES 6
#define SAMPLES 2
#define SAMPLE_ROWS 512
#define RANK 16

struct bench {
    struct probe probe;
    struct model model;
    struct layer_weights layers[16];
    char *arena;
    size_t used, bytes;
    struct lora_pair pairs[16 * LORA_MODULE_COUNT];
    float *values;
    struct train_sample sample[SAMPLES];
    int32_t tokens[SAMPLES][SAMPLE_ROWS];
    uint8_t is_target[SAMPLES][SAMPLE_ROWS];
    double linear_weights;
    double targets;
};

static struct weight weight_make(struct bench *bench, int32_t out, int32_t in)
{
    const size_t count = (size_t)out * (size_t)in;
    struct weight w = {.dtype = DTYPE_BF16, .out = out, .in = in, .stride = in};
    uint16_t *data = (uint16_t *)(void *)(bench->arena + bench->used);
    uint32_t state = 1 + (uint32_t)bench->used;

    bench->used += (count * 2 + 255) / 256 * 256;
    check(bench->used <= bench->bytes);
    for (size_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        data[i] = bf16_round(out == 1 ? 1 : (float)(int32_t)state * (0.05f / 2147483648.0f));
    }
    w.data = data;
    return w;
}

static void model_make(struct bench *bench)
{
    struct model_weights *weights = &bench->model.weights;
    const struct dims *dims = &bench->model.config.dims;

    check(random_preset("250m", &bench->model.config));
    check(dims->layers == (int32_t)ARRAY_COUNT(bench->layers));
    bench->bytes = (size_t)700 << 20;
    bench->arena = mmap(NULL, bench->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(bench->arena != MAP_FAILED);
    bench->model.dtype = DTYPE_BF16;
    weights->layer = bench->layers;
    for (int32_t i = 0; i < dims->layers; i++) {
        struct layer_weights *layer = &bench->layers[i];
        struct weight *const linear[LORA_MODULE_COUNT] = {&layer->qkv[0], &layer->qkv[1], &layer->qkv[2], &layer->o,
                                                          &layer->gate_up[0], &layer->gate_up[1], &layer->down};

        layer->attn_norm = weight_make(bench, 1, dims->hidden);
        layer->mlp_norm = weight_make(bench, 1, dims->hidden);
        for (enum lora_module module = 0; module < LORA_MODULE_COUNT; module++) {
            *linear[module] = weight_make(bench, lora_module_out(dims, module), lora_module_in(dims, module));
            bench->linear_weights += (double)linear[module]->out * linear[module]->in;
        }
    }
    weights->norm = weight_make(bench, 1, dims->hidden);
    weights->embed = weight_make(bench, dims->vocabulary, dims->hidden);
    weights->head = weight_make(bench, dims->vocabulary, dims->hidden);
    bench->probe.memory = bench->arena;
    bench->probe.bytes = bench->used;
}

static struct lora_source adapter_make(struct bench *bench)
{
    const struct dims *dims = &bench->model.config.dims;
    const size_t most = (size_t)RANK * (size_t)dims->ffn;

    bench->values = malloc(most * sizeof(float));
    check(bench->values != NULL);
    for (size_t i = 0; i < most; i++)
        bench->values[i] = (float)((int)(i * 7919 % 1000) - 500) * 2e-5f;
    for (int32_t i = 0; i < dims->layers * LORA_MODULE_COUNT; i++)
        bench->pairs[i] = (struct lora_pair){.a = bench->values, .b = bench->values, .a_dtype = DTYPE_F32, .b_dtype = DTYPE_F32,
                                             .rank = RANK, .scale = 2};
    return (struct lora_source){.layers = dims->layers, .rank = RANK, .modules = 0x7f, .pair = bench->pairs};
}

static void samples_make(struct bench *bench)
{
    for (int32_t s = 0; s < SAMPLES; s++) {
        for (int32_t t = 0; t < SAMPLE_ROWS; t++) {
            bench->tokens[s][t] = (s * 7919 + t * 101) % bench->model.config.dims.vocabulary;
            bench->is_target[s][t] = t > 0;
            bench->targets += t > 0;
        }
        bench->sample[s] = (struct train_sample){.tokens = bench->tokens[s], .is_target = bench->is_target[s], .rows = SAMPLE_ROWS};
    }
}

/* On one thread the processor's time, as for the step. */
static double peak_look(struct bench *bench, uint32_t threads)
{
    double flops;
    void (*peak)(void *, uint32_t) = probe_peak(bench->probe.set, &flops);
    double best = 0;

    for (int i = 0; i < 4; i++) {
        double taken_s = -probe_now_s(&bench->probe);
        double gflops;

        team_run(bench->probe.team, peak, &bench->probe);
        taken_s += probe_now_s(&bench->probe);
        gflops = flops * threads / taken_s * 1e-9;
        best = gflops > best ? gflops : best;
    }
    return best;
}

static void measure(struct bench *bench, struct trainer *trainer, enum recompute recompute, uint32_t threads)
{
    const double rows = SAMPLES * SAMPLE_ROWS;
    const double head = (double)bench->model.config.dims.vocabulary * bench->model.config.dims.hidden;
    const double flops = 4 * (rows * bench->linear_weights + bench->targets * head);
    const double rate = 1e-6;
    double best_s = 1e9;
    double share = 0;
    double peak = 0;
    int kept = 0;
    int dropped = 0;

    while (kept < ROUNDS && kept + dropped < TRIES) {
        struct train_outcome outcome;
        double gflops;
        double after;
        double taken_s;

        gflops = peak_look(bench, threads);
        taken_s = -probe_now_s(&bench->probe);
        check(trainer_step(trainer, bench->sample, SAMPLES, &rate, &outcome) == STATUS_OK);
        taken_s += probe_now_s(&bench->probe);
        after = peak_look(bench, threads);
        if (gflops > 1.1 * after || after > 1.1 * gflops) {
            dropped++;
            continue;
        }
        kept++;
        gflops = (gflops + after) / 2;
        if (taken_s < best_s) {
            best_s = taken_s;
            peak = gflops;
            share = flops / taken_s / gflops * 1e-9;
        }
    }
    if (kept == 0)
        printf("{\"name\": \"train\", \"threads\": %u, \"error\": \"the machine's speed moved in every round\"}\n", threads);
    else
        printf("{\"name\": \"train\", \"case\": \"2 samples of %d, recompute %s\", \"kernels\": \"%s\", \"threads\": %u, \"value\": %.1f, "
               "\"unit\": \"tokens/s\", \"of_peak\": %.3f, \"peak_gflops\": %.1f, \"rounds\": %d, \"dropped\": %d}\n",
               SAMPLE_ROWS, recompute_name(recompute), kernel_set_name(bench->probe.set), threads, rows / best_s, share, peak, kept, dropped);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static struct bench bench;
    const uint32_t all = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
    struct lora_source source;

    if (!bench_wanted(argc, argv, "train"))
        return 0;
    bench.probe.set = kernel_set_best();
    if (argc > 2 && kernel_set_find(argv[2], &bench.probe.set) != STATUS_OK)
        return 2;
    model_make(&bench);
    source = adapter_make(&bench);
    samples_make(&bench);
    for (uint32_t threads = 1; threads <= all; threads = threads == 1 && all > 1 ? all : all + 1) {
        bench.probe.team = team_open(threads);
        check(bench.probe.team != NULL);
        for (enum recompute recompute = 0; recompute < RECOMPUTE_COUNT; recompute++) {
            const struct trainer_config config = {.device = &device_cpu, .mode = MODE_FAST, .threads = threads, .kernels = bench.probe.set,
                                                  .recompute = recompute, .rows_max = SAMPLES * SAMPLE_ROWS,
                                                  .job_rows_max = SAMPLES * SAMPLE_ROWS, .samples_max = SAMPLES,
                                                  .positions_max = SAMPLE_ROWS, .jobs_max = 1, .lora_rank_max = RANK, .head_rows = 256};
            struct refusal refusal = {{0}};
            struct trainer *trainer;

            if (recompute == RECOMPUTE_PARTIAL)
                continue;
            if (trainer_open(&bench.model, &config, &trainer, &refusal) != STATUS_OK) {
                fprintf(stderr, "%s\n", refusal.text);
                return 1;
            }
            check(trainer_job_open(trainer, 0, &source, &OPTIMIZER_DEFAULT) == STATUS_OK);
            measure(&bench, trainer, recompute, threads);
            trainer_close(trainer);
        }
        team_close(bench.probe.team);
    }
    free(bench.values);
    munmap(bench.arena, bench.bytes);
    return 0;
}
