/* berth-exec train --dry-run: what training would take of memory, by config.json alone; and the level of recomputing that a run takes
 * when nobody named one. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd_train.h"

#define GIB ((double)(INT64_C(1) << 30))
static const int32_t shown_processes[] = {1, 2, 4, 8};

/* --- what there is ---------------------------------------------------------------------------------------------------------- */

/* The CPU's memory is the host's; devices that share a model have their own. */
static bool on_host(const struct train_arguments *arguments)
{
    return arguments->trainer.device == &device_cpu && arguments->tp == 1;
}

/* 0: not known. */
static int64_t memory_of(const struct train_arguments *arguments)
{
    if (arguments->memory_gib > 0)
        return (int64_t)(arguments->memory_gib * GIB);
    return on_host(arguments) ? run_host_memory() : 0;
}

/* --- choices ---------------------------------------------------------------------------------------------------------------- */

const struct train_arguments *train_largest(const struct train_arguments *jobs, int32_t count)
{
    const struct train_arguments *largest = &jobs[0];

    for (int32_t i = 1; i < count; i++)
        if (jobs[i].wishes.settings.rank > largest->wishes.settings.rank)
            largest = &jobs[i];
    return largest;
}

int64_t train_bytes(const struct train_arguments *arguments, const struct train_choice *choice, enum recompute recompute)
{
    return choice->plan.weights_bytes + plan_bytes(&choice->plan, recompute, choice->jobs, on_host(arguments));
}

enum status train_recompute(const struct train_arguments *arguments, const struct model_config *model, enum dtype dtype,
                            const struct run_settings *settings, int32_t jobs, struct train_choice *ret_choice, struct refusal *refusal)
{
    struct trainer_config limits = arguments->trainer;
    struct train_choice choice = {.jobs = jobs, .recompute = arguments->trainer.recompute, .memory_bytes = memory_of(arguments)};
    enum status status;

    run_limits(settings, jobs, &limits);
    choice.pass_tokens = limits.rows_max;
    status = plan_make(model, dtype, &limits, (int32_t)settings->rank, (int32_t)arguments->tp, &choice.plan, refusal);
    if (status != STATUS_OK)
        return status;
    choice.known = choice.memory_bytes > 0;
    choice.fits = !choice.known || plan_choose(&choice.plan, jobs, on_host(arguments), choice.memory_bytes, &choice.recompute);
    if (arguments->recompute_chosen) {
        choice.recompute = arguments->trainer.recompute;
        choice.fits = !choice.known || train_bytes(arguments, &choice, choice.recompute) <= choice.memory_bytes;
    }
    *ret_choice = choice;
    return STATUS_OK;
}

/* --- what it says ----------------------------------------------------------------------------------------------------------- */

static int64_t scratch_bytes(const struct training_memory *memory)
{
    return (int64_t)(memory->working + memory->batch + memory->ops);
}

static json_t *level_json(const struct train_arguments *arguments, const struct train_choice *choice, enum recompute level)
{
    const struct plan *plan = &choice->plan;
    const int64_t total = train_bytes(arguments, choice, level);
    json_t *each = json_pack("{s:s, s:I, s:I, s:I}", "recompute", recompute_name(level), "activations_bytes",
                             (json_int_t)(plan->memory[level].stream + plan->memory[level].kept), "process_bytes",
                             (json_int_t)(total - plan->weights_bytes), "total_bytes", (json_int_t)total);

    if (choice->known)
        json_object_set_new(each, "fits", json_boolean(total <= choice->memory_bytes));
    return each;
}

static void print_plan_json(const struct train_arguments *arguments, const struct run_settings *settings, const struct train_choice *choice)
{
    const struct plan *plan = &choice->plan;
    const struct training_memory *memory = &plan->memory[choice->recompute];
    const int64_t process = train_bytes(arguments, choice, choice->recompute) - plan->weights_bytes;
    json_t *levels = json_array();
    json_t *processes = json_array();
    json_t *all;

    for (enum recompute level = 0; level < RECOMPUTE_COUNT; level++)
        json_array_append_new(levels, level_json(arguments, choice, level));
    for (size_t i = 0; i < ARRAY_COUNT(shown_processes); i++)
        json_array_append_new(processes, json_pack("{s:i, s:I}", "processes", shown_processes[i], "bytes",
                                                   (json_int_t)(plan->weights_bytes + shown_processes[i] * process)));
    all = json_pack("{s:s, s:s, s:I, s:I, s:i, s:i, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:b, s:o, s:o}",
                    "model", arguments->model, "mode", settings->mode == MODE_FAST ? "fast" : "exact",
                    "context", (json_int_t)settings->row_tokens, "rank", (json_int_t)settings->rank, "tp", (int)arguments->tp,
                    "jobs", (int)choice->jobs, "pass_tokens", (int)choice->pass_tokens,
                    "adapter_parameters", (json_int_t)plan->parameters, "weights_bytes", (json_int_t)plan->weights_bytes,
                    "adapter_bytes", (json_int_t)(plan->job_bytes / 4), "gradients_bytes", (json_int_t)(plan->job_bytes / 4),
                    "moments_bytes", (json_int_t)(plan->job_bytes / 2), "packed_bytes", (json_int_t)memory->adapters,
                    "host_bytes", (json_int_t)plan->host_bytes, "logits_bytes", (json_int_t)memory->head,
                    "scratch_bytes", (json_int_t)scratch_bytes(memory), "stream_bytes", (json_int_t)memory->stream,
                    "stream_bytes_per_token_layer", (json_int_t)plan->stream_bytes, "recompute", recompute_name(choice->recompute),
                    "fits", (int)choice->fits, "levels", levels, "shared_base", processes);
    if (choice->known)
        json_object_set_new(all, "memory_bytes", json_integer(choice->memory_bytes));
    else
        json_object_del(all, "fits");
    json_dumpf(all, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(all);
}

static void line(const char *about, int64_t bytes)
{
    printf("  %-74s %10.3f\n", about, (double)bytes / GIB);
}

static void print_level(const struct train_arguments *arguments, const struct train_choice *choice, enum recompute level)
{
    const struct plan *plan = &choice->plan;
    const int64_t process = train_bytes(arguments, choice, level) - plan->weights_bytes;

    printf("  %-10s %12.3f %10.3f", recompute_name(level), (double)plan->memory[level].kept / GIB, (double)process / GIB);
    for (size_t i = 0; i < ARRAY_COUNT(shown_processes); i++)
        printf(" %10.3f", (double)(plan->weights_bytes + shown_processes[i] * process) / GIB);
    if (choice->known)
        printf("  %s", plan->weights_bytes + process > choice->memory_bytes ? "does not fit" : "fits");
    printf("%s\n", level == choice->recompute && choice->fits ? ", taken" : "");
}

static void print_plan(const struct train_arguments *arguments, const struct run_settings *settings, const struct model_config *model,
                        const struct train_choice *choice)
{
    const struct plan *plan = &choice->plan;
    const struct training_memory *memory = &plan->memory[choice->recompute];
    char about[160];

    printf("%s: %.3g billion weights, %d layers, %s mode; adapters of rank %lld in all linear layers, %lld numbers; passes of %lld tokens\n",
           arguments->model, (double)model_parameters(model) / 1e9, model->dims.layers, settings->mode == MODE_FAST ? "fast" : "exact",
           (long long)settings->rank, (long long)plan->parameters, (long long)choice->pass_tokens);
    if (arguments->tp > 1)
        printf("on each of %d devices, GiB:\n", (int)arguments->tp);
    else
        printf("GiB:\n");
    line("N, the base's weights, once however many processes share it", plan->weights_bytes);
    line("a job's adapter, f32", plan->job_bytes / 4);
    line("  its gradients, f32", plan->job_bytes / 4);
    line("  two moments of AdamW, f32", plan->job_bytes / 2);
    line("  packed for the way forward", (int64_t)memory->adapters / choice->jobs);
    line("  copies in host memory, for checkpoints", plan->host_bytes);
    line("logits and their gradients, a piece of a pass at a time", (int64_t)memory->head);
    line("scratch: one layer's gradients, the batch, what kernels keep", scratch_bytes(memory));
    snprintf(about, sizeof(about), "residual stream, f32: %lld bytes a token and layer", (long long)plan->stream_bytes);
    line(about, (int64_t)memory->stream);
    snprintf(about, sizeof(about), "%d job%s: x", (int)choice->jobs, choice->jobs == 1 ? "" : "s");
    printf("  %-10s %12s %10s", "recompute", "layers keep", about);
    for (size_t i = 0; i < ARRAY_COUNT(shown_processes); i++)
        printf("   N + %d x ", shown_processes[i]);
    putchar('\n');
    for (enum recompute level = 0; level < RECOMPUTE_COUNT; level++)
        print_level(arguments, choice, level);
    if (choice->known)
        printf("memory: %.3f GiB%s\n", (double)choice->memory_bytes / GIB,
               choice->fits ? "" : "; too little: a shorter --context, a lower --rank or more devices (--tp) take less");
    else
        printf("how much memory there is, is not known here; --memory-gib says it\n");
}

int train_plan(const struct train_arguments *arguments, const struct train_arguments *jobs, int32_t count)
{
    struct refusal refusal = {{0}};
    struct model_config model;
    struct run_settings settings;
    struct train_choice choice;
    enum status status = model_config_read(arguments->model, &model, &refusal);

    if (status == STATUS_OK)
        status = run_choose(&train_largest(jobs, count)->wishes, &model, model.dtype, &settings, &refusal);
    if (status == STATUS_OK)
        status = train_recompute(arguments, &model, model.dtype, &settings, count, &choice, &refusal);
    if (status != STATUS_OK) {
        fprintf(stderr, "berth-exec train: %s\n", refusal.text);
        return EXIT_FAILED;
    }
    if (arguments->json)
        print_plan_json(arguments, &settings, &choice);
    else
        print_plan(arguments, &settings, &model, &choice);
    return EXIT_OK;
}
