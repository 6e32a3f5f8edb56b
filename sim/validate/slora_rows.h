/* The raw results of the S-LoRA paper (Sheng et al., MLSys 2024) as its authors published them: one JSON object a line, a
 * file an experiment, whose name says the GPU and the setting: synthetic_req_rate_a10g_S1_slora.jsonl. */
#ifndef VALIDATE_SLORA_ROWS_H
#define VALIDATE_SLORA_ROWS_H

#include <stdio.h>

#include "base/base.h"

#define SLORA_ROWS_MAX 256
#define SLORA_REQUESTS_MAX 100000

#define SLORA_GPU_LIST(X) X(A10G, "a10g") X(A100_80, "a100-80")
enum slora_gpu {
#define X(name, text) SLORA_GPU_##name,
    SLORA_GPU_LIST(X)
#undef X
    SLORA_GPU_COUNT
};

/* Llama-7B: S1 has adapters of rank 8, S2 of ranks 64, 32, 16, 8 in turn; all on q k v o. */
#define SLORA_SETTING_LIST(X) X(S1, "S1", "8") X(S2, "S2", "64, 32, 16, 8")
enum slora_setting {
#define X(name, text, ranks) SLORA_SETTING_##name,
    SLORA_SETTING_LIST(X)
#undef X
    SLORA_SETTING_COUNT
};

#define SLORA_METRIC_LIST(X)                                                                       \
    X(THROUGHPUT, throughput, "throughput", "req/s", "requests over the time until the last one ended: the drain counts") \
    X(LATENCY, avg_latency, "latency", "s", "mean, end to end")                                    \
    X(TTFT, avg_first_token_latency, "ttft", "s", "mean time to first token")
enum slora_metric {
#define X(name, key, text, unit, about) SLORA_METRIC_##name,
    SLORA_METRIC_LIST(X)
#undef X
    SLORA_METRIC_COUNT
};

struct slora_numbers {
    double of[SLORA_METRIC_COUNT];
};

struct slora_row {
    char file[128];
    uint32_t line;
    enum slora_gpu gpu;
    enum slora_setting setting;
    uint32_t adapters;      /* 0: base only */
    uint32_t requests;
    double alpha;           /* numpy's power law: 1 is uniform */
    double rate_per_s;
    double cv;              /* >= 1 */
    double duration_s;      /* nominal: requests = rate x duration */
    uint32_t prompt_from, prompt_below;
    uint32_t output_from, output_below;
    struct slora_numbers measured;
};

struct slora_rows {
    struct slora_row items[SLORA_ROWS_MAX];
    uint32_t count;
    char left_out[1024];    /* ablations, which are not the system we model: names, separated by commas */
};

const char *slora_gpu_name(enum slora_gpu gpu);
const char *slora_setting_name(enum slora_setting setting);
const char *slora_metric_name(enum slora_metric metric);

/* Above this measured mean TTFT a server does not keep up: requests queue, and TTFT and latency are integrals of the small
 * difference between rate and capacity. */
#define SLORA_OVERLOAD_TTFT_S 1.0

bool slora_is_overloaded(const struct slora_row *row);

/* Every *.jsonl of the folder, in the order of names. On failure one message `file:line: ...` on `errors`. */
enum status slora_rows_read(const char *directory, FILE *errors, struct slora_rows *ret_rows);

#endif
