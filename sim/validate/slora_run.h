/* One row of the results, predicted: S-LoRA's own requests against the scenario of its GPU.
 *
 * Its one pool for KV and adapters is emulated by a split that is fixed for the run: an adapter of rank r takes 4 r tokens'
 * room, and a batch of n rows is expected to hold sum(1 - (1 - p)^n) distinct adapters. The slots get SLORA_SLACK_BYTES of
 * the GPU's free memory on top, so that a batch with more adapters than expected is not held up. */
#ifndef VALIDATE_SLORA_RUN_H
#define VALIDATE_SLORA_RUN_H

#include "engine/sim.h"
#include "validate/slora_rows.h"

#define SLORA_SLACK_BYTES 0.5e9

/* A row's scenario and requests, ready to be run with any hardware numbers. */
struct slora_case {
    const struct slora_row *row;
    struct scenario_set set;
    char trace_path[256];   /* a temporary file; removed when the case is closed */
};

/* What came of it beside the numbers to compare. */
struct slora_outcome {
    struct slora_numbers predicted;
    uint64_t kv_tokens;
    uint64_t preempted;
    double last_arrival_s;
};

/* `scenarios` is the folder of slora-a10g.yaml and slora-a100-80.yaml. slora_case_close accepts {0}. */
enum status slora_case_open(const struct slora_row *row, const char *scenarios, FILE *errors, struct slora_case *ret_case);
void slora_case_close(struct slora_case *test);

/* profile NULL: the scenario's. */
enum status slora_case_run(const struct slora_case *test, const struct gpu_profile *profile, FILE *errors,
                           struct slora_outcome *ret_outcome);

#endif
