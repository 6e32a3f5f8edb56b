/* Nothing is measured here: what an H100 could do at best with LoRA of an 8B model, and the FLOPs and bytes that say so, op by op. Kernels
 * are measured against these once a GPU is there. */
#include <stdio.h>

#include "bench/bench.h"
#include "model/training_work.h"

/* Dense bf16 and memory of the SXM, by NVIDIA's data sheet. */
#define FLOPS_PER_S 989e12
#define BYTES_PER_S 3.35e12

static void print_ops(const struct training_work *work, double rows)
{
    static const char *const ops[TRAINING_OPS_COUNT] = {
#define X(name, text) text,
        TRAINING_OPS(X)
#undef X
    };
    static const char *const ways[TRAINING_WAYS_COUNT] = {"there", "made again", "back"};

    for (int op = 0; op < TRAINING_OPS_COUNT; op++)
        for (int way = 0; way < TRAINING_WAYS_COUNT; way++) {
            const struct training_cost *cost = &work->cost[way][op];

            if (cost->flops > 0 || cost->bytes > 0)
                printf("{\"name\": \"train\", \"case\": \"of that: %s, %s\", \"estimate\": \"roofline\", \"mflops_a_token\": %.1f, \"kb_a_token\": %.1f}\n",
                       ops[op], ways[way], cost->flops / rows * 1e-6, cost->bytes / rows * 1e-3);
        }
}

static void estimate(enum training_kept kept, const char *recompute, bool op_by_op)
{
    const struct training_plan plan = {.act_bytes = 2, .kept = kept, .rows = 4096, .samples = 1, .sample_rows = 4096, .jobs = 1, .rank = 16,
                                       .head_rows = 512};
    const struct training_work work = training_work(shape_find("llama-8b"), &plan);
    const double seconds = training_work_s(&work, FLOPS_PER_S, BYTES_PER_S);
    const double flops = training_work_flops(&work);

    printf("{\"name\": \"train\", \"case\": \"llama-8b on an H100, rank 16, 1 sample of 4096, recompute %s\", \"estimate\": \"roofline\", "
           "\"value\": %.0f, \"unit\": \"tokens/s\", \"gflops_a_token\": %.1f, \"of_peak\": %.3f}\n",
           recompute, plan.rows / seconds, flops / plan.rows * 1e-9, flops / seconds / FLOPS_PER_S);
    if (op_by_op)
        print_ops(&work, plan.rows);
}

int main(int argc, char **argv)
{
    if (!bench_wanted(argc, argv, "train"))
        return 0;
    estimate(TRAINING_KEEPS_ALL, "none", false);
    estimate(TRAINING_KEEPS_INPUTS, "layer", true);
    return 0;
}
