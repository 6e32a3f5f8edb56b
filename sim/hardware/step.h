/* How long one engine step takes: a roofline with launch, communication and LoRA terms.
 *
 *   T = t0 + max(W / (BW e_w), 2 P n / (F e_f)) + KV / (BW e_kv) + attention / (F e_a)
 *       + 2 L (alpha + 2 (tp - 1) / tp * bytes / link) + rows c_row + T_lora
 *
 * a GPU of a tensor-parallel group: W, P, attention and LoRA are divided by tp; KV has max(1, kv_heads / tp) heads. W leaves
 * out the input embedding. n counts the step's tokens. KV counts the contexts of decoding rows and the prefix that each
 * prefill chunk reads again. attention = 4 L heads head_dim * sum of chunk * (before + chunk / 2), prefill only: decode
 * attention is bound by reading KV. The all-reduce of 2 bytes * hidden * n happens twice a layer (Megatron-LM, 2019). */
#ifndef HARDWARE_STEP_H
#define HARDWARE_STEP_H

#include "hardware/profile.h"
#include "model/merge.h"
#include "model/shape.h"

enum lora_cost {
    LORA_COST_OURS,  /* launches 8 a layer, bytes by true rank and distinct adapter, FLOPs at their own efficiency */
    LORA_COST_VLLM,  /* decode part x (2.0001 + 0.0193 D), no rank term: the published fit of Llama-3.1-8B */
    LORA_COST_SLORA  /* a fixed part plus the sum of the distinct adapters' ranks; FLOPs as ours */
};

struct step_model {
    double fixed_ns;
    double weights_ns;
    double flops_ns_per_token;
    double kv_ns_per_token;
    double attention_ns_per_area; /* area: chunk * (before + chunk / 2) */
    double comm_fixed_ns;
    double comm_ns_per_token;
    double row_ns;
    enum lora_cost lora_cost;
    double lora_fixed_ns;         /* once a step with any adapter */
    double lora_ns_per_byte;      /* of distinct adapters */
    double lora_ns_per_rank_token; /* sum over tokens of their adapter's rank */
    double lora_ns_per_rank;      /* slora: sum of distinct adapters' ranks */
    double jitter;                /* relative width */
};

/* What one step carries. */
struct step_load {
    uint32_t rows;            /* with tokens */
    uint32_t decode_rows;
    uint32_t prefill_tokens;
    uint32_t adapters;        /* distinct */
    uint64_t kv_tokens;
    uint64_t adapter_bytes;   /* of the distinct ones */
    uint64_t adapter_ranks;   /* sum over the distinct ones */
    uint64_t rank_tokens;     /* sum over tokens of the rank */
    double attention_area;
};

/* modules: as in model/footprint.h. */
void step_model_init(struct step_model *model, const struct gpu_profile *profile, const struct shape *shape, uint32_t tp,
                     uint32_t modules, enum lora_cost lora_cost, double jitter);

/* A step's time as a line over the KV tokens it reads: decode steps that follow each other differ in nothing else, so the
 * n-th of them is the same number whether it is reached step by step or by adding n times the rows. */
struct step_line {
    double rest_ns;
    double kv_ns_per_token;
};
/* load->kv_tokens is not looked at. */
struct step_line step_line(const struct step_model *model, const struct step_load *load);
static inline double step_line_ns(const struct step_line *line, uint64_t kv_tokens)
{
    return line->rest_ns + line->kv_ns_per_token * (double)kv_tokens;
}

/* Without jitter, in ns, not rounded. */
double step_time_ns(const struct step_model *model, const struct step_load *load);

/* A pool's typical step, for model/merge.h. In the long run a step computes as many prompt tokens as its rows' answers bring
 * with them, so they belong to it: rows * prompt_ratio, of prompts whose length follows from context and ratio (a row has its
 * prompt and, on the mean, half its answer behind it). */
struct merge_load {
    uint32_t rows;           /* that decode; >= 1 */
    uint32_t adapters;       /* distinct; <= rows */
    uint32_t context_tokens; /* behind each row */
    uint32_t rank;
    uint64_t adapter_bytes;
    double prompt_ratio;     /* prompt tokens for each output token; 0: decoding alone */
};
struct merge_steps step_merge(const struct step_model *model, const struct merge_load *load);
/* Merging itself: every matrix is read, its product of two thin ones added, and written. On each GPU, in ns. */
double step_merge_pass_ns(const struct gpu_profile *profile, const struct shape *shape, uint32_t tp, uint32_t rank);

/* The jitter's factor of one step: 1 - jitter / 2 .. 1 + jitter / 2, hashed, so that it does not depend on order. */
double step_jitter(const struct step_model *model, uint64_t salt, uint64_t step);

#endif
