#include "hardware/step.h"

#include "base/hash.h"
#include "model/footprint.h"

/* The published fit of one vLLM release on Llama-3.1-8B: ITL x (200.01 + 1.930 D) / 100 with D distinct adapters. */
#define VLLM_FACTOR_FIXED 1.0001
#define VLLM_FACTOR_PER_ADAPTER 0.0193

/* Shrink and expand for each of the input groups qkv, o, gate-up, down. */
#define LAUNCHES_PER_LAYER 8

void step_model_init(struct step_model *model, const struct gpu_profile *profile, const struct shape *shape, uint32_t tp,
                     uint32_t modules, enum lora_cost lora_cost, double jitter)
{
    const double ns = 1e9;
    double bandwidth = profile->memory_bytes_per_s;
    double flops = profile->flops_per_s;
    double parts = tp;
    double ring = 2.0 * (parts - 1) / parts;

    check(tp >= 1);
    *model = (struct step_model){
        .fixed_ns = profile->fixed_us * 1e3,
        .weights_ns = (double)footprint_step_weights_bytes(shape) / parts / (bandwidth * profile->weights_efficiency) * ns,
        .flops_ns_per_token =
            2.0 * (double)footprint_step_parameters(shape) / parts / (flops * profile->flops_efficiency) * ns,
        .kv_ns_per_token =
            (double)footprint_kv_bytes_per_token_gpu(shape, tp) / (bandwidth * profile->kv_efficiency) * ns,
        .attention_ns_per_area = 4.0 * shape->layers * shape->heads * shape->head_dim / parts /
                                 (flops * profile->attention_efficiency) * ns,
        .row_ns = profile->row_us * 1e3,
        .lora_cost = lora_cost,
        .jitter = jitter,
    };
    if (tp > 1) {
        model->comm_fixed_ns = 2.0 * shape->layers * profile->peer_latency_us * 1e3;
        model->comm_ns_per_token = 2.0 * shape->layers * ring * 2.0 * shape->hidden / profile->peer_bytes_per_s * ns;
    }
    if (lora_cost != LORA_COST_VLLM)
        model->lora_ns_per_rank_token = 2.0 * (double)footprint_adapter_parameters_per_rank(shape, modules) / parts /
                                        (flops * profile->lora_flops_efficiency) * ns;
    switch (lora_cost) {
    case LORA_COST_OURS:
        model->lora_fixed_ns = (double)LAUNCHES_PER_LAYER * shape->layers * profile->launch_us * 1e3;
        model->lora_ns_per_byte = 1.0 / parts / (bandwidth * profile->lora_bytes_efficiency) * ns;
        break;
    case LORA_COST_VLLM:
        break;
    case LORA_COST_SLORA:
        model->lora_fixed_ns = profile->slora_fixed_us * 1e3;
        model->lora_ns_per_rank = profile->slora_rank_us * 1e3;
        break;
    }
}

static double max_double(double a, double b)
{
    return a > b ? a : b;
}

struct step_line step_line(const struct step_model *model, const struct step_load *load)
{
    double tokens = (double)load->decode_rows + (double)load->prefill_tokens;
    double fixed_ns = model->fixed_ns + model->comm_fixed_ns + model->row_ns * load->rows;
    double linear_ns = max_double(model->weights_ns, model->flops_ns_per_token * tokens);
    struct step_line line = {
        .rest_ns = fixed_ns + linear_ns + model->comm_ns_per_token * tokens +
                   model->attention_ns_per_area * load->attention_area,
        .kv_ns_per_token = model->kv_ns_per_token,
    };
    double factor;

    if (load->adapters == 0)
        return line;
    line.rest_ns += model->lora_ns_per_rank_token * (double)load->rank_tokens;
    if (model->lora_cost == LORA_COST_VLLM) {
        factor = VLLM_FACTOR_FIXED + VLLM_FACTOR_PER_ADAPTER * load->adapters;
        line.rest_ns += (fixed_ns + model->weights_ns) * factor;
        line.kv_ns_per_token += line.kv_ns_per_token * factor;
        return line;
    }
    line.rest_ns += model->lora_fixed_ns + model->lora_ns_per_byte * (double)load->adapter_bytes +
                    model->lora_ns_per_rank * (double)load->adapter_ranks;
    return line;
}

double step_time_ns(const struct step_model *model, const struct step_load *load)
{
    struct step_line line = step_line(model, load);

    return step_line_ns(&line, load->kv_tokens);
}

struct merge_steps step_merge(const struct step_model *model, const struct merge_load *load)
{
    double prompt_tokens = load->rows * load->prompt_ratio;
    double prompt_length = load->context_tokens * load->prompt_ratio / (load->prompt_ratio + 0.5);
    struct step_load step = {.rows = load->rows,
                             .decode_rows = load->rows,
                             .prefill_tokens = (uint32_t)(prompt_tokens + 0.5),
                             .kv_tokens = (uint64_t)load->rows * load->context_tokens,
                             .attention_area = prompt_tokens * prompt_length / 2};
    struct merge_steps steps = {.rows = load->rows};

    check(load->rows >= 1 && load->adapters <= load->rows);
    steps.step_merged_ns = (int64_t)(step_time_ns(model, &step) + 0.5);
    step.adapters = load->adapters;
    step.adapter_bytes = load->adapters * load->adapter_bytes;
    step.adapter_ranks = (uint64_t)load->adapters * load->rank;
    step.rank_tokens = ((uint64_t)load->rows + step.prefill_tokens) * load->rank;
    steps.step_lora_ns = (int64_t)(step_time_ns(model, &step) + 0.5);
    return steps;
}

double step_merge_pass_ns(const struct gpu_profile *profile, const struct shape *shape, uint32_t tp, uint32_t rank)
{
    double bytes = 2.0 * (double)footprint_weights_bytes(shape) / tp;
    double flops = 2.0 * rank * (double)footprint_parameters(shape) / tp;

    return (bytes / (profile->memory_bytes_per_s * profile->weights_efficiency) +
            flops / (profile->flops_per_s * profile->lora_flops_efficiency)) * 1e9;
}

double step_jitter(const struct step_model *model, uint64_t salt, uint64_t step)
{
    double unit = (double)(hash_mix(salt ^ hash_mix(step)) >> 11) * 0x1p-53;

    return 1.0 + model->jitter * (unit - 0.5);
}
