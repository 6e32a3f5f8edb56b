/* Seconds to write a run's checkpoint (synced to the disk that holds $TMPDIR or /tmp) and to take it up again, for the adapters of rank 16
 * on a model of 250 million weights and on one of 8 billion; the best of a few. One JSON line each. */
#define _GNU_SOURCE /* mkdtemp */
#include <stdlib.h>
#include <unistd.h>

#include "bench/bench.h"
#include "engine/model/random.h"
#include "engine/train/run/checkpoint.h"

#define ROUNDS 3
#define RANK 16

static void said(void *listener, const char *text)
{
    (void)listener;
    fprintf(stderr, "%s\n", text);
}

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static float *numbers(int64_t count)
{
    float *values = malloc((size_t)count * sizeof(float));

    check(values != NULL);
    for (int64_t i = 0; i < count; i++)
        values[i] = (float)(i * 7919 % 100003) * 1e-5f;
    return values;
}

static void must(enum status status, const struct refusal *refusal)
{
    if (status == STATUS_OK)
        return;
    fprintf(stderr, "%s\n", refusal->text);
    exit(1);
}

static int64_t parameters_of(const struct dims *dims)
{
    int64_t count = 0;

    for (enum lora_module module = 0; module < LORA_MODULE_COUNT; module++)
        count += lora_module_in(dims, module) + lora_module_out(dims, module);
    return count * dims->layers * RANK;
}

static void measure(const char *model, const struct dims *dims)
{
    const int64_t parameters = parameters_of(dims);
    const char *base = getenv("TMPDIR");
    struct run_row row = {.loss = 1};
    struct checkpoint checkpoint = {.head = {.magic = CHECKPOINT_MAGIC, .numerics = RUN_NUMERICS, .parameters = parameters, .step = 1},
                                    .rows = &row, .rows_max = 1};
    struct checkpoint_folder folder;
    struct refusal refusal = {{0}};
    double save_s = 1e9;
    double load_s = 1e9;
    char path[4096];

    snprintf(path, sizeof(path), "%.4000s/berth-bench-XXXXXX", base != NULL ? base : "/tmp");
    check(mkdtemp(path) != NULL);
    must(checkpoint_folder_open(path, &folder, &refusal), &refusal);
    for (int i = 0; i < 3; i++)
        checkpoint.state[i] = numbers(parameters);
    checkpoint.best = numbers(parameters);
    for (int i = 0; i < ROUNDS; i++) {
        const double begun_s = now_s();
        double saved_s;
        double loaded_s;

        must(checkpoint_save(&folder, &checkpoint, &refusal), &refusal);
        saved_s = now_s();
        must(checkpoint_load(&folder, &checkpoint, NULL, said, &refusal), &refusal);
        loaded_s = now_s() - saved_s;
        saved_s -= begun_s;
        save_s = saved_s < save_s ? saved_s : save_s;
        load_s = loaded_s < load_s ? loaded_s : load_s;
    }
    printf("{\"name\": \"train\", \"case\": \"checkpoint, %s at rank 16\", \"value\": %.3f, \"unit\": \"s\", \"resume_s\": %.3f, \"mb\": %.1f, \"rounds\": %d}\n",
           model, save_s, load_s, (double)parameters * 16e-6, ROUNDS);
    fflush(stdout);
    checkpoint_folder_close(&folder, true);
    rmdir(path);
    for (int i = 0; i < 3; i++)
        free(checkpoint.state[i]);
    free(checkpoint.best);
}

int main(int argc, char **argv)
{
    static const struct dims large = {.hidden = 4096, .heads = 32, .kv_heads = 8, .head_dim = 128, .ffn = 14336, .vocabulary = 128256,
                                      .layers = 32};
    struct model_config small;

    if (!bench_wanted(argc, argv, "train"))
        return 0;
    check(random_preset("250m", &small));
    measure("250m", &small.dims);
    measure("8b", &large);
    return 0;
}
