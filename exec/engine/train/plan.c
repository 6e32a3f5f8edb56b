#include "engine/train/plan.h"

#include "engine/model/shard.h"
#include "model/footprint.h"

struct shape plan_shape(const struct model_config *model, enum dtype dtype)
{
    const struct dims *dims = &model->dims;

    return (struct shape){.layers = (uint32_t)dims->layers,
                          .hidden = (uint32_t)dims->hidden,
                          .heads = (uint32_t)dims->heads,
                          .kv_heads = (uint32_t)dims->kv_heads,
                          .head_dim = (uint32_t)dims->head_dim,
                          .ffn = (uint32_t)dims->ffn,
                          .vocabulary = (uint32_t)dims->vocabulary,
                          .weight_bits = 8 * (uint32_t)dtype_bytes(dtype),
                          .tied_embeddings = model->tied_head,
                          .qkv_bias = model->qkv_bias};
}

/* A shape knows no gains of heads' norms and no biases but those of q, k, v; of those each device is charged all. */
static int64_t weights_bytes(const struct model_config *model, enum dtype dtype, const struct shape *whole, const struct shape *part)
{
    const int64_t rest = (int64_t)(model_parameters(model) - footprint_parameters(whole));

    return (int64_t)footprint_weights_bytes(part) + rest * (int64_t)dtype_bytes(dtype);
}

static struct training_plan ask_of(const struct model_config *model, const struct trainer_config *config, enum recompute recompute)
{
    return (struct training_plan){.act_bytes = (uint32_t)act_bytes(config->mode),
                                  .kept = (enum training_kept)recompute, /* both rise alike */
                                  .rows = (uint32_t)config->rows_max,
                                  .samples = (uint32_t)config->samples_max,
                                  .sample_rows = (uint32_t)config->positions_max,
                                  .jobs = (uint32_t)config->jobs_max,
                                  .rank = (uint32_t)config->lora_rank_max,
                                  .head_rows = (uint32_t)config->head_rows,
                                  .normed_heads = model->qk_norm,
                                  .threads = config->device->has_threads ? config->threads : 0};
}

enum status plan_make(const struct model_config *model, enum dtype dtype, const struct trainer_config *config, int32_t rank, int32_t tp,
                      struct plan *ret_plan, struct refusal *refusal)
{
    const struct shape whole = plan_shape(model, dtype);
    struct shape part;
    struct plan plan;

    check(tp >= 1 && rank >= 1);
    if (!shard_fits(&model->dims, tp))
        return refuse(refusal, STATUS_INVALID, "%d heads, %d kv heads and a ffn of %d do not make %d equal parts", model->dims.heads,
                      model->dims.kv_heads, model->dims.ffn, tp);
    part = training_part(&whole, (uint32_t)tp);
    plan = (struct plan){.weights_bytes = weights_bytes(model, dtype, &whole, &part),
                         .stream_bytes = 4 * (int64_t)model->dims.hidden,
                         .parameters = (int64_t)footprint_adapter_parameters(&whole, LORA_ALL_LINEAR, (uint32_t)rank),
                         .job_bytes = (int64_t)training_job_bytes(&part, LORA_ALL_LINEAR, (uint32_t)rank),
                         .host_bytes = (int64_t)training_host_bytes(&part, LORA_ALL_LINEAR, (uint32_t)rank, (uint32_t)act_bytes(config->mode))};
    for (enum recompute level = 0; level < RECOMPUTE_COUNT; level++) {
        const struct training_plan ask = ask_of(model, config, level);

        plan.memory[level] = training_memory(&part, &ask);
    }
    *ret_plan = plan;
    return STATUS_OK;
}

int64_t plan_bytes(const struct plan *plan, enum recompute recompute, int32_t jobs, bool host_is_device)
{
    return (int64_t)plan->memory[recompute].total + jobs * (plan->job_bytes + (host_is_device ? plan->host_bytes : 0));
}

bool plan_choose(const struct plan *plan, int32_t jobs, bool host_is_device, int64_t memory_bytes, enum recompute *ret_recompute)
{
    for (enum recompute level = 0; level < RECOMPUTE_COUNT; level++) {
        *ret_recompute = level;
        if (plan->weights_bytes + plan_bytes(plan, level, jobs, host_is_device) <= memory_bytes)
            return true;
    }
    return false;
}
