/* A random bf16 model in memory, an adapter on it and samples to train it with: what the benches of training share. */
#ifndef BENCH_TRAINED_H
#define BENCH_TRAINED_H

#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#endif
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/exec/probe.h"
#include "engine/model/random.h"
#include "engine/train/train.h"

#define SAMPLES_MAX 4
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
    struct train_sample sample[SAMPLES_MAX];
    int32_t tokens[SAMPLES_MAX][SAMPLE_ROWS];
    uint8_t is_target[SAMPLES_MAX][SAMPLE_ROWS];
    double linear_weights;
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

static void model_make(struct bench *bench, const char *preset)
{
    struct model_weights *weights = &bench->model.weights;
    const struct dims *dims = &bench->model.config.dims;

    check(random_preset(preset, &bench->model.config));
    check(dims->layers <= (int32_t)ARRAY_COUNT(bench->layers));
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
    weights->head = bench->model.config.tied_head ? weights->embed : weight_make(bench, dims->vocabulary, dims->hidden);
    bench->probe.memory = bench->arena;
    bench->probe.bytes = bench->used;
}

static struct lora_source adapter_make(struct bench *bench)
{
    const struct dims *dims = &bench->model.config.dims;
    const size_t most = (size_t)RANK * (size_t)dims->ffn;

    free(bench->values);
    bench->values = malloc(most * sizeof(float));
    check(bench->values != NULL);
    for (size_t i = 0; i < most; i++)
        bench->values[i] = (float)((int)(i * 7919 % 1000) - 500) * 2e-5f;
    for (int32_t i = 0; i < dims->layers * LORA_MODULE_COUNT; i++)
        bench->pairs[i] = (struct lora_pair){.a = bench->values, .b = bench->values, .a_dtype = DTYPE_F32, .b_dtype = DTYPE_F32,
                                             .rank = RANK, .scale = 2};
    return (struct lora_source){.layers = dims->layers, .rank = RANK, .modules = 0x7f, .pair = bench->pairs};
}

/* Each of job 0. */
static void samples_make(struct bench *bench)
{
    for (int32_t s = 0; s < SAMPLES_MAX; s++) {
        for (int32_t t = 0; t < SAMPLE_ROWS; t++) {
            bench->tokens[s][t] = (s * 7919 + t * 101) % bench->model.config.dims.vocabulary;
            bench->is_target[s][t] = t > 0;
        }
        bench->sample[s] = (struct train_sample){.tokens = bench->tokens[s], .is_target = bench->is_target[s], .rows = SAMPLE_ROWS};
    }
}

/* GFLOP/s of all threads together. On one thread the processor's time, as for what is measured. */
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

/* Whether the machine stood still between two looks. */
static bool is_steady(double before, double after)
{
    return before < 1.1 * after && after < 1.1 * before;
}

/* A trainer whose `jobs` jobs bring job_samples samples each to a pass, open and with an adapter each. */
static struct trainer *trainer_make(struct bench *bench, uint32_t threads, enum recompute recompute, int32_t jobs, int32_t job_samples)
{
    const struct trainer_config config = {.device = &device_cpu, .mode = MODE_FAST, .threads = threads, .kernels = bench->probe.set,
                                          .recompute = recompute, .rows_max = jobs * job_samples * SAMPLE_ROWS,
                                          .job_rows_max = job_samples * SAMPLE_ROWS, .samples_max = jobs * job_samples,
                                          .positions_max = SAMPLE_ROWS, .jobs_max = jobs, .lora_rank_max = RANK, .head_rows = 256};
    const struct lora_source source = adapter_make(bench);
    struct refusal refusal = {{0}};
    struct trainer *trainer;

    if (trainer_open(&bench->model, &config, &trainer, &refusal) != STATUS_OK) {
        fprintf(stderr, "%s\n", refusal.text);
        exit(1);
    }
    for (int32_t job = 0; job < jobs; job++)
        check(trainer_job_open(trainer, job, &source, &OPTIMIZER_DEFAULT) == STATUS_OK);
    return trainer;
}

static void bench_open(struct bench *bench, int argc, char **argv, const char *preset)
{
    bench->probe.set = kernel_set_best();
    if (argc > 2 && kernel_set_find(argv[2], &bench->probe.set) != STATUS_OK)
        exit(2);
    model_make(bench, preset);
    samples_make(bench);
}

static void bench_close(struct bench *bench)
{
    free(bench->values);
    munmap(bench->arena, bench->bytes);
}

#endif
