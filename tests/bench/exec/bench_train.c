/* Training steps of random bf16 models: tokens a second, and the share of the register peak at 4 FLOPs a weight of the linear layers and
 * token (one product forward, one back; the base is frozen), the head's for the rows that have a target. Recomputing is not counted as work.
 * The machine's rate is probed before and after each round, and rounds in which it moved by more than a tenth are dropped. On one thread it
 * is the processor's time that counts, for others use the machine too. One JSON line each. */
#include "bench/exec/trained.h"

#define ROUNDS 3
#define TRIES 6
#define SAMPLES 2

static void measure(struct bench *bench, const char *preset, enum recompute recompute, uint32_t threads)
{
    struct trainer *trainer = trainer_make(bench, threads, recompute, 1, SAMPLES);
    const double rows = SAMPLES * SAMPLE_ROWS;
    const double head = (double)bench->model.config.dims.vocabulary * bench->model.config.dims.hidden;
    const double flops = 4 * (rows * bench->linear_weights + SAMPLES * (SAMPLE_ROWS - 1) * head);
    const double rate = 1e-6;
    double best_s = 1e9;
    double share = 0;
    double peak = 0;
    int kept = 0;
    int dropped = 0;

    while (kept < ROUNDS && kept + dropped < TRIES) {
        struct train_outcome outcome;
        double before = peak_look(bench, threads);
        double taken_s = -probe_now_s(&bench->probe);
        double after;

        check(trainer_step(trainer, bench->sample, SAMPLES, &rate, &outcome) == STATUS_OK);
        taken_s += probe_now_s(&bench->probe);
        after = peak_look(bench, threads);
        if (!is_steady(before, after)) {
            dropped++;
            continue;
        }
        kept++;
        if (taken_s < best_s) {
            best_s = taken_s;
            peak = (before + after) / 2;
            share = flops / taken_s / peak * 1e-9;
        }
    }
    trainer_close(trainer);
    if (kept == 0)
        printf("{\"name\": \"train\", \"case\": \"%s, recompute %s\", \"threads\": %u, \"error\": \"the machine's speed moved in every round\"}\n",
               preset, recompute_name(recompute), threads);
    else
        printf("{\"name\": \"train\", \"case\": \"%s, 2 samples of %d, recompute %s\", \"kernels\": \"%s\", \"threads\": %u, \"value\": %.1f, "
               "\"unit\": \"tokens/s\", \"of_peak\": %.3f, \"peak_gflops\": %.1f, \"rounds\": %d, \"dropped\": %d}\n",
               preset, SAMPLE_ROWS, recompute_name(recompute), kernel_set_name(bench->probe.set), threads, rows / best_s, share, peak, kept,
               dropped);
    fflush(stdout);
}

static void measure_preset(int argc, char **argv, const char *preset, uint32_t threads)
{
    struct bench *bench = calloc(1, sizeof(*bench));

    check(bench != NULL);
    bench_open(bench, argc, argv, preset);
    bench->probe.team = team_open(threads);
    check(bench->probe.team != NULL);
    measure(bench, preset, RECOMPUTE_NONE, threads);
    measure(bench, preset, RECOMPUTE_LAYER, threads);
    team_close(bench->probe.team);
    bench_close(bench);
    free(bench);
}

int main(int argc, char **argv)
{
    const uint32_t all = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);

    if (!bench_wanted(argc, argv, "train"))
        return 0;
    measure_preset(argc, argv, "15m", 1);
    measure_preset(argc, argv, "110m", 1);
    measure_preset(argc, argv, "250m", 1);
    if (all > 1)
        measure_preset(argc, argv, "250m", all);
    return 0;
}
