/* Four jobs of one sample each, trained in one batch, against one job with all four samples: tokens a second of the first over the
 * second, a step of each in turn, in rounds between which the machine's rate stood still. One JSON line. */
#include "bench/exec/trained.h"

#define ROUNDS 5
#define TRIES 10
#define JOBS 4

static double step_s(struct bench *bench, struct trainer *trainer, int32_t jobs)
{
    const double rates[JOBS] = {1e-6, 1e-6, 1e-6, 1e-6};
    struct train_outcome outcomes[JOBS];
    double taken_s;

    for (int32_t i = 0; i < JOBS; i++)
        bench->sample[i].job = i % jobs;
    taken_s = -probe_now_s(&bench->probe);
    check(trainer_step(trainer, bench->sample, JOBS, rates, outcomes) == STATUS_OK);
    return taken_s + probe_now_s(&bench->probe);
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;

    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    static struct bench bench;
    struct trainer *alone;
    struct trainer *together;
    double ratios[ROUNDS];
    double together_s = 1e9;
    int kept = 0;
    int dropped = 0;

    if (!bench_wanted(argc, argv, "train"))
        return 0;
    bench_open(&bench, argc, argv, "110m");
    bench.probe.team = team_open(1);
    check(bench.probe.team != NULL);
    alone = trainer_make(&bench, 1, RECOMPUTE_NONE, 1, JOBS);
    together = trainer_make(&bench, 1, RECOMPUTE_NONE, JOBS, 1);
    while (kept < ROUNDS && kept + dropped < TRIES) {
        const double before = peak_look(&bench, 1);
        const double one_s = step_s(&bench, alone, 1);
        const double four_s = step_s(&bench, together, JOBS);

        if (!is_steady(before, peak_look(&bench, 1))) {
            dropped++;
            continue;
        }
        ratios[kept++] = one_s / four_s;
        together_s = four_s < together_s ? four_s : together_s;
    }
    qsort(ratios, (size_t)kept, sizeof(*ratios), compare);
    if (kept == 0)
        printf("{\"name\": \"train\", \"case\": \"110m, 4 jobs in one batch\", \"error\": \"the machine's speed moved in every round\"}\n");
    else
        printf("{\"name\": \"train\", \"case\": \"110m, 4 jobs of %d tokens in one batch\", \"kernels\": \"%s\", \"threads\": 1, \"value\": %.1f, "
               "\"unit\": \"tokens/s\", \"of_one_job_with_their_samples\": %.3f, \"rounds\": %d, \"dropped\": %d}\n",
               SAMPLE_ROWS, kernel_set_name(bench.probe.set), JOBS * SAMPLE_ROWS / together_s, ratios[kept / 2], kept, dropped);
    trainer_close(alone);
    trainer_close(together);
    team_close(bench.probe.team);
    bench_close(&bench);
    return 0;
}
