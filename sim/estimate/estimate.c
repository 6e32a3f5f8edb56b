#include "estimate/estimate.h"

#include <stdarg.h>
#include <stdio.h>

/* A number as text by value, so that several fit into one printf; it lives until the end of the full expression. */
struct text {
    char s[ESTIMATE_TEXT_MAX];
};

static struct text whole(uint64_t count)
{
    struct text text;

    estimate_count_text(text.s, count);
    return text;
}

static struct text in_units(enum estimate_unit unit, double value)
{
    struct text text;

    estimate_text(text.s, unit, value);
    return text;
}

__attribute__((format(printf, 2, 3)))
static void note(struct estimate *estimate, const char *format, ...)
{
    va_list arguments;

    check(estimate->notes_count < ESTIMATE_NOTES_MAX);
    va_start(arguments, format);
    vsnprintf(estimate->notes[estimate->notes_count++], sizeof(estimate->notes[0]), format, arguments);
    va_end(arguments);
}

static void add_line(struct estimate *estimate, struct estimate_line line, const char *format, va_list arguments)
{
    check(estimate->count < ESTIMATE_LINES_MAX);
    vsnprintf(line.how, sizeof(line.how), format, arguments);
    estimate->lines[estimate->count++] = line;
}

__attribute__((format(printf, 7, 8)))
static void add_count(struct estimate *estimate, const char *group, const char *key, const char *label,
                      enum estimate_unit unit, uint64_t count, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    add_line(estimate,
             (struct estimate_line){.group = group, .key = key, .label = label, .unit = unit, .whole = true,
                                    .count = count, .value = (double)count},
             format, arguments);
    va_end(arguments);
}

__attribute__((format(printf, 7, 8)))
static void add_value(struct estimate *estimate, const char *group, const char *key, const char *label,
                      enum estimate_unit unit, double value, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    add_line(estimate,
             (struct estimate_line){.group = group, .key = key, .label = label, .unit = unit, .value = value},
             format, arguments);
    va_end(arguments);
}

const struct estimate_line *estimate_find(const struct estimate *estimate, const char *key)
{
    for (uint32_t i = 0; i < estimate->count; i++)
        if (strcmp(estimate->lines[i].key, key) == 0)
            return &estimate->lines[i];
    return NULL;
}

static uint64_t parameters_of(const struct estimate_question *question)
{
    if (question->parameters > 0)
        return question->parameters;
    if (question->shape.parameters_nominal > 0)
        return question->shape.parameters_nominal;
    return question->shape.averaged ? 0 : footprint_parameters(&question->shape);
}

static const char *parameters_source(const struct estimate_question *question)
{
    if (question->parameters > 0)
        return "as given";
    return question->shape.parameters_nominal > 0 ? "nominal, by the model's name" : "counted from the config";
}

/* Of a shape known by average the weights are what its nominal size says, in its own bits. */
static uint64_t weights_bytes_of(const struct estimate_question *question)
{
    if (question->shape.averaged)
        return parameters_of(question) * question->shape.weight_bits / 8;
    return footprint_weights_bytes(&question->shape);
}

static void weights_lines(const struct estimate_question *question, struct estimate *estimate)
{
    const struct shape *shape = &question->shape;
    uint64_t bytes = weights_bytes_of(question);
    uint64_t nominal = parameters_of(question);

    if (!shape->averaged) {
        uint64_t parameters = footprint_parameters(shape);
        uint64_t table = footprint_embedding_parameters(shape);
        uint32_t tables = shape->tied_embeddings ? 1 : 2;

        add_count(estimate, "the base", "parameters", "parameters", ESTIMATE_COUNT, parameters,
                  "%s in layers + %u x %s x %s in tables", whole(parameters - tables * table).s, tables,
                  whole(shape->vocabulary).s, whole(shape->hidden).s);
        add_count(estimate, "the base", "weights_bytes", "weights", ESTIMATE_BYTES, bytes, "%s x %u bits%s",
                  whole(parameters).s, shape->weight_bits,
                  shape->weight_bits < 16 ? " (norms and tables at 16)" : "");
        add_count(estimate, "the base", "step_weights_bytes", "weights a decode step reads", ESTIMATE_BYTES,
                  footprint_step_weights_bytes(shape), "%s without the input embedding",
                  whole(footprint_step_parameters(shape)).s);
    }
    if (nominal > 0 && (shape->averaged || nominal != footprint_parameters(shape)))
        add_count(estimate, "the base", "weights_nominal_bytes", "weights by N", ESTIMATE_BYTES,
                  nominal * shape->weight_bits / 8, "%s x %u bits", whole(nominal).s, shape->weight_bits);
    if (bytes > 0)
        add_count(estimate, "the base", "weights_bytes_per_gpu", "weights a GPU", ESTIMATE_BYTES,
                  div_up_u64(bytes, question->tp), "%s / tp %u", in_units(ESTIMATE_BYTES, (double)bytes).s,
                  question->tp);
    if (bytes > 0 && question->memory_bytes > 0)
        add_value(estimate, "the base", "memory_left_bytes_per_gpu", "left for KV and slots", ESTIMATE_BYTES,
                  question->memory_bytes * 0.9 > (double)bytes / question->tp
                      ? question->memory_bytes * 0.9 - (double)bytes / question->tp : 0,
                  "a GPU: %s x 0.9 - %s", in_units(ESTIMATE_BYTES, question->memory_bytes).s,
                  in_units(ESTIMATE_BYTES, (double)bytes / question->tp).s);
    if (!shape->averaged) {
        add_count(estimate, "the base", "kv_bytes_per_token", "KV cache bytes a token", ESTIMATE_COUNT,
                  footprint_kv_bytes_per_token(shape), "2 x %u layers x %u heads x %u x 2 bytes", shape->layers,
                  shape->kv_heads, shape->head_dim);
        if (question->tp > 1)
            add_count(estimate, "the base", "kv_bytes_per_token_gpu", "... a GPU", ESTIMATE_COUNT,
                      footprint_kv_bytes_per_token_gpu(shape, question->tp), "whole heads of a tp of %u", question->tp);
    }
}

static void adapter_lines(const struct estimate_question *question, struct estimate *estimate)
{
    const struct shape *shape = &question->shape;
    uint64_t per_rank = footprint_adapter_parameters_per_rank(shape, question->modules);
    uint64_t parameters = footprint_adapter_parameters(shape, question->modules, question->rank);
    uint64_t weights = weights_bytes_of(question);

    if (shape->averaged) {
        uint64_t rounded = footprint_adapter_parameters_rounded(shape, question->modules, question->rank);
        uint64_t matrices = footprint_adapter_tensors(shape, question->modules) / 2;

        add_count(estimate, "an adapter", "adapter_parameters", "adapter parameters", ESTIMATE_COUNT, parameters,
                  "%u x %s matrices x mean d_in + d_out of %s", question->rank, whole(matrices).s,
                  whole(shape->averaged_sum).s);
        add_count(estimate, "an adapter", "adapter_parameters_rounded", "... rounded a matrix", ESTIMATE_COUNT, rounded,
                  "%u x %s = %s, say %s, x %s", question->rank, whole(shape->averaged_sum).s,
                  whole((uint64_t)question->rank * shape->averaged_sum).s, whole(rounded / max_u64(matrices, 1)).s,
                  whole(matrices).s);
        add_count(estimate, "an adapter", "adapter_bytes_rounded", "... in bytes", ESTIMATE_BYTES, 2 * rounded,
                  "%s x 2 bytes", whole(rounded).s);
    } else {
        add_count(estimate, "an adapter", "adapter_parameters", "adapter parameters", ESTIMATE_COUNT, parameters,
                  "%u x %s x %u", question->rank, whole(per_rank / shape->layers).s, shape->layers);
    }
    add_count(estimate, "an adapter", "adapter_bytes", "adapter", ESTIMATE_BYTES, 2 * parameters, "%s x 2 bytes",
              whole(parameters).s);
    if (weights > 0)
        add_value(estimate, "an adapter", "adapter_percent_of_base", "share of the base", ESTIMATE_PERCENT,
                  100.0 * 2 * (double)parameters / (double)weights, "%s / %s",
                  in_units(ESTIMATE_BYTES, 2 * (double)parameters).s, in_units(ESTIMATE_BYTES, (double)weights).s);
}

static void room_line(struct estimate *estimate, const char *key, const char *label, uint64_t room_bytes,
                      uint64_t adapter_bytes)
{
    if (room_bytes > 0)
        add_count(estimate, "many adapters", key, label, ESTIMATE_COUNT, footprint_fit_count(room_bytes, adapter_bytes),
                  "%s / %s, whole ones", in_units(ESTIMATE_BYTES, (double)room_bytes).s,
                  in_units(ESTIMATE_BYTES, (double)adapter_bytes).s);
}

static void load_line(struct estimate *estimate, const char *key, const char *label, uint64_t bytes, double bytes_per_s,
                      double first_byte_ms)
{
    int64_t first_byte_ns = (int64_t)(first_byte_ms * 1e6 + 0.5);
    int64_t ns = footprint_transfer_ns(bytes, bytes_per_s, first_byte_ns);

    add_value(estimate, "loads", key, label, ESTIMATE_SECONDS, (double)ns / 1e9, "%s / %s/s%s%s",
              in_units(ESTIMATE_BYTES, (double)bytes).s, in_units(ESTIMATE_BYTES, bytes_per_s).s,
              first_byte_ns > 0 ? " + first byte " : "",
              first_byte_ns > 0 ? in_units(ESTIMATE_SECONDS, first_byte_ms / 1e3).s : "");
}

static void tier_lines(const struct estimate_question *question, struct estimate *estimate, uint64_t adapter_bytes)
{
    uint64_t weights = weights_bytes_of(question);

    room_line(estimate, "adapters_in_slots", "fit in the GPU slots", question->slots_bytes, adapter_bytes);
    room_line(estimate, "adapters_in_host", "fit in host memory", question->host_bytes, adapter_bytes);
    if (question->adapters > 0)
        add_count(estimate, "many adapters", "adapters_bytes", "adapters in the store", ESTIMATE_BYTES,
                  question->adapters * adapter_bytes, "%s x %s", whole(question->adapters).s,
                  in_units(ESTIMATE_BYTES, (double)adapter_bytes).s);
    load_line(estimate, "load_host_seconds", "adapter, host to GPU", adapter_bytes, question->host_bytes_per_s, 0);
    load_line(estimate, "load_store_seconds", "adapter, store to host", adapter_bytes, question->store_bytes_per_s,
              question->store_first_byte_ms);
    if (weights > 0) {
        load_line(estimate, "base_load_host_seconds", "base, host to GPUs", div_up_u64(weights, question->tp),
                  question->host_bytes_per_s, 0);
        load_line(estimate, "base_load_store_seconds", "base, store to host", weights, question->store_bytes_per_s,
                  question->store_first_byte_ms);
    }
}

static void training_state_lines(const struct estimate_question *question, struct estimate *estimate)
{
    const char *group = "a fine-tune's memory";
    uint64_t weights = weights_bytes_of(question);
    struct training_bytes bytes =
        footprint_training_bytes(&question->shape, question->modules, question->rank, question->batch_tokens);

    add_count(estimate, group, "training_gradients_bytes", "gradients", ESTIMATE_BYTES, bytes.gradients, "bf16");
    add_count(estimate, group, "training_moments_bytes", "optimizer moments", ESTIMATE_BYTES, bytes.moments,
              "2 x 4 bytes a parameter");
    if (question->batch_tokens > 0)
        add_count(estimate, group, "training_activations_bytes", "activations", ESTIMATE_BYTES, bytes.activations,
                  "%s tokens live, recomputed by layer", whole(question->batch_tokens).s);
    add_count(estimate, group, "training_state_bytes", "beside the base", ESTIMATE_BYTES, bytes.total,
              "%s + %s + %s%s%s",
              in_units(ESTIMATE_BYTES, (double)bytes.adapter).s, in_units(ESTIMATE_BYTES, (double)bytes.gradients).s,
              in_units(ESTIMATE_BYTES, (double)bytes.moments).s, question->batch_tokens > 0 ? " + " : "",
              question->batch_tokens > 0 ? in_units(ESTIMATE_BYTES, (double)bytes.activations).s : "");
    if (question->resident_jobs == 0 || weights == 0)
        return;

    uint64_t jobs = question->resident_jobs;

    add_count(estimate, group, "shared_base_bytes", "jobs on one base", ESTIMATE_BYTES, weights + jobs * bytes.total,
              "%s + %s x %s", in_units(ESTIMATE_BYTES, (double)weights).s, whole(jobs).s,
              in_units(ESTIMATE_BYTES, (double)bytes.total).s);
    add_count(estimate, group, "own_bases_bytes", "... each with its own", ESTIMATE_BYTES,
              jobs * (weights + bytes.total), "%s x (%s + %s)", whole(jobs).s,
              in_units(ESTIMATE_BYTES, (double)weights).s, in_units(ESTIMATE_BYTES, (double)bytes.total).s);
}

static void training_time_lines(const struct estimate_question *question, struct estimate *estimate)
{
    const char *group = "a fine-tune's time";
    uint64_t parameters = parameters_of(question);
    uint64_t tokens = question->train_tokens * question->epochs;
    uint32_t per = question->full ? TRAIN_FLOPS_FULL : TRAIN_FLOPS_LORA;

    if (question->train_tokens == 0)
        return;
    check(question->flops_per_s > 0);

    double flops = footprint_training_flops(parameters, tokens, per);
    double seconds = footprint_training_seconds(flops, question->gpus, question->flops_per_s, question->utilization);

    add_count(estimate, group, "train_parameters", "N", ESTIMATE_COUNT, parameters, "%s", parameters_source(question));
    add_count(estimate, group, "train_tokens", "D", ESTIMATE_COUNT, tokens, "%s tokens x %u epoch%s",
              whole(question->train_tokens).s, question->epochs, question->epochs == 1 ? "" : "s");
    add_value(estimate, group, "train_flops", "work", ESTIMATE_FLOPS, flops, "%uND: %u x %s x %s", per, per,
              whole(parameters).s, whole(tokens).s);
    add_value(estimate, group, "train_seconds", "time", ESTIMATE_SECONDS, seconds, "%s / (%u x %s/s x %g)",
              in_units(ESTIMATE_FLOPS, flops).s, question->gpus, in_units(ESTIMATE_FLOPS, question->flops_per_s).s,
              question->utilization);
    add_value(estimate, group, "train_gpu_hours", "GPU time", ESTIMATE_GPU_HOURS, seconds * question->gpus / 3600,
              "%s x %u GPU%s", in_units(ESTIMATE_SECONDS, seconds).s, question->gpus, question->gpus == 1 ? "" : "s");
    note(estimate, "N = %s, %s.", whole(parameters).s, parameters_source(question));
    note(estimate, "%s", question->full
                             ? "6ND: forward 2, backward 4 FLOPs a parameter and token (full fine-tuning)."
                             : "4ND: LoRA needs no gradient of frozen weights (forward 2, backward 2).");
}

static void merge_lines(const struct estimate_question *question, struct estimate *estimate)
{
    const struct merge_steps *merge = &question->merge;
    const char *group = "merged weights";

    if (merge->rows == 0)
        return;

    char prompts[64] = "";
    double lora_s = (double)merge->step_lora_ns * 1e-9;
    double merged_s = (double)merge->step_merged_ns * 1e-9;
    double break_even = (double)merge_break_even_milli(merge) * 1e-3;
    double carries = (double)merge_carries_milli(merge) * 1e-3;

    if (question->merge_prompts > 0)
        snprintf(prompts, sizeof(prompts), ", %g prompt tokens beside each", question->merge_prompts);
    add_value(estimate, group, "merge_step_lora_seconds", "a step of the pool", ESTIMATE_SECONDS, lora_s,
              "%u rows, %u adapters of rank %u, %s tokens behind each%s", merge->rows, question->merge_adapters,
              question->rank, whole(question->merge_context).s, prompts);
    add_value(estimate, group, "merge_step_merged_seconds", "... with nothing added", ESTIMATE_SECONDS, merged_s, "the same rows");
    add_value(estimate, group, "merge_break_even_tokens_per_s", "tokens/s where it pays", ESTIMATE_COUNT, break_even, "%u / %s",
              merge->rows, in_units(ESTIMATE_SECONDS, lora_s).s);
    add_value(estimate, group, "merge_busy_percent", "its replica is busy then", ESTIMATE_PERCENT, 100 * merged_s / lora_s, "%s / %s",
              in_units(ESTIMATE_SECONDS, merged_s).s, in_units(ESTIMATE_SECONDS, lora_s).s);
    add_value(estimate, group, "merge_carries_tokens_per_s", "tokens/s it carries", ESTIMATE_COUNT, carries, "%u / %s",
              merge->rows, in_units(ESTIMATE_SECONDS, merged_s).s);
    add_value(estimate, group, "merge_saves_percent", "saved of a replica when full", ESTIMATE_PERCENT,
              (double)merge_saves_ppm(merge, merge_carries_milli(merge)) * 1e-4, "%s / %s - 1",
              in_units(ESTIMATE_SECONDS, lora_s).s, in_units(ESTIMATE_SECONDS, merged_s).s);
    note(estimate, "Merged weights pay from the traffic that would fill a replica of the pool; below it its idle time costs more "
                   "than LoRA does.");
}

static void demand_lines(const struct estimate_question *question, struct estimate *estimate)
{
    char sum[160] = "";
    double hours = 0;
    size_t at = 0;

    if (question->demands_count == 0)
        return;
    for (uint32_t i = 0; i < question->demands_count; i++) {
        const struct estimate_demand *demand = &question->demands[i];

        hours += demand->jobs_per_day * demand->gpu_hours;
        if (at < sizeof(sum))
            at += (size_t)snprintf(sum + at, sizeof(sum) - at, "%s%g x %g", i > 0 ? " + " : "", demand->jobs_per_day,
                                   demand->gpu_hours);
    }
    add_value(estimate, "demand", "demand_gpu_hours_per_day", "a day", ESTIMATE_GPU_HOURS, hours, "%s", sum);
    add_value(estimate, "demand", "demand_gpus", "busy on average", ESTIMATE_GPUS, hours / 24, "%g / 24", hours);
}

void estimate_make(const struct estimate_question *question, struct estimate *ret_estimate)
{
    uint64_t adapter_bytes = question->adapter_bytes > 0
                                 ? question->adapter_bytes
                                 : footprint_adapter_bytes(&question->shape, question->modules, question->rank);

    check(question->rank >= 1);
    check(question->modules != 0);
    check(question->tp >= 1);
    check(question->epochs >= 1);
    memset(ret_estimate, 0, sizeof(*ret_estimate));
    if (question->shape.averaged)
        note(ret_estimate, "%s is known by average only; a real config.json (--config) is always better.",
             question->shape.name);
    if (question->adapter_bytes > 0)
        note(ret_estimate, "Adapters are counted and loaded at %s each, as given.",
             in_units(ESTIMATE_BYTES, (double)adapter_bytes).s);
    weights_lines(question, ret_estimate);
    adapter_lines(question, ret_estimate);
    tier_lines(question, ret_estimate, adapter_bytes);
    if (!question->shape.averaged || question->batch_tokens == 0)
        training_state_lines(question, ret_estimate);
    training_time_lines(question, ret_estimate);
    merge_lines(question, ret_estimate);
    demand_lines(question, ret_estimate);
}
