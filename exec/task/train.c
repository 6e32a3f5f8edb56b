/* The trainer's task: an adapter from a sealed file, in memory, from a state if there is one. */
#include "task/train.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "worker/settings.h"

#define SAVE_EVERY_S 600
#define ADAPTER_BYTES_MAX (INT64_C(2) << 30)
#define STATE_BYTES_MAX (INT64_C(64) << 30)

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* --- before the sandbox ------------------------------------------------------------------------------------------------------- */

static enum status take_grants(struct task *task, struct training *training, struct refusal *refusal)
{
    const struct {
        const char *name;
        struct grant **grant;
        bool needed;
    } all[] = {{"train", &training->training, true}, {"validation", &training->held, false}, {"parent", &training->parent, false},
               {"resume", &training->resume, false}, {"result", &training->result, true},    {"results", &training->results, false}};
    struct grant *state;

    for (size_t i = 0; i < ARRAY_COUNT(all); i++) {
        const enum status status = task_grant(task, all[i].name, all[i].grant, refusal);

        if (status != STATUS_OK)
            return status;
        if (all[i].needed && *all[i].grant == NULL)
            return refuse(refusal, STATUS_INVALID, "START has no %s", all[i].name);
    }
    if (task_grant(task, "state", &state, refusal) != STATUS_OK)
        return STATUS_INVALID;
    if (state != NULL)
        task_add_spare(task, SPARE_STATE, state);
    return STATUS_OK;
}

static enum status open_base(struct task *task, struct training *training, struct refusal *refusal)
{
    const char *name = json_string_value(json_object_get(json_object_get(task->settings, "base"), "name"));
    char folder[32];
    enum status status;

    snprintf(training->base, sizeof(training->base), "%.63s", name != NULL ? name : "base");
    snprintf(folder, sizeof(folder), "/proc/self/fd/%d", task_base(task));
    status = model_open(folder, &training->model, refusal);
    return status == STATUS_OK ? run_tokenizer(folder, &training->tokenizer, refusal) : status;
}

/* Why a GPU does not run is the operator's to know, who has our stderr; the tenant is told that it doesn't. */
static enum status choose_machine(struct task *task, struct training *training, struct refusal *refusal)
{
    const char *device = json_string_value(json_object_get(task->settings, "device"));
    const char *gpu = json_string_value(json_object_get(task->settings, "gpu"));
    enum status status;

    worker_config_init(&training->machine);
    status = worker_use_device(&training->machine, device, gpu, refusal);
    if (status != STATUS_OK) {
        fprintf(stderr, "berth-exec worker trainer: %s\n", refusal->text);
        return refuse(refusal, status, "the device that it was given cannot be used");
    }
    training->machine.threads = (uint32_t)max_i64(whole_of(task->settings, "threads", worker_threads_here()), 1);
    training->memory_bytes = run_host_memory();
    task->is_unfiltered = training->machine.device != &device_cpu;
    return STATUS_OK;
}

enum fault train_open(struct task *task, struct refusal *refusal)
{
    struct training *training = calloc(1, sizeof(*training));

    task->work = training;
    if (training == NULL) {
        refuse(refusal, STATUS_FULL, "no memory");
        return FAULT_MEMORY;
    }
    training->task = task;
    training->step = (int64_t)task->start.step;
    if (take_grants(task, training, refusal) != STATUS_OK)
        return FAULT_SETTINGS;
    if (task_base(task) < 0 || open_base(task, training, refusal) != STATUS_OK)
        return FAULT_BASE;
    return choose_machine(task, training, refusal) == STATUS_OK ? FAULT_NONE : FAULT_DEVICE;
}

void train_close(struct task *task)
{
    struct training *training = task->work;

    if (training == NULL)
        return;
    data_close(training->data);
    data_close(training->validation);
    peft_close(training->parent_adapter);
    free(training->parent_bytes);
    free(training->state);
    tokenizer_close(training->tokenizer);
    model_close(training->model);
    free(training);
}

/* --- what it learns from ------------------------------------------------------------------------------------------------------ */

static enum fault open_parent(struct training *training, struct refusal *refusal)
{
    int64_t bytes;

    if (training->parent == NULL)
        return FAULT_NONE;
    if (sealed_read(training->task, training->parent, "adapter", ADAPTER_BYTES_MAX, &training->parent_bytes, &bytes, refusal) != STATUS_OK)
        return FAULT_OBJECT;
    return peft_open_bytes(training->parent_bytes, bytes, "the adapter to go on from", &training->model->config, LORA_RANK_MAX,
                           &training->parent_adapter, refusal) == STATUS_OK
               ? FAULT_NONE
               : FAULT_PARENT;
}

static enum fault open_set(struct training *training, const struct grant *grant, const char *shown, enum fault fault, struct data_set **ret_set,
                           struct refusal *refusal)
{
    struct data_source source;
    void *text;
    int64_t bytes;
    enum status status;

    if (run_source("the base", training->tokenizer, &training->model->config, &training->run.settings, &source, refusal) != STATUS_OK)
        return FAULT_BASE;
    status = sealed_read(training->task, grant, "file", DATA_FILE_BYTES_MAX, &text, &bytes, refusal);
    if (status != STATUS_OK)
        return status == STATUS_FULL ? FAULT_MEMORY : FAULT_OBJECT;
    status = data_open_text(text, bytes, shown, &source, ret_set, refusal);
    sodium_memzero(text, (size_t)bytes);
    free(text);
    return status == STATUS_OK ? FAULT_NONE : status == STATUS_FULL ? FAULT_MEMORY : fault;
}

static enum fault open_state(struct training *training, struct refusal *refusal)
{
    int64_t bytes;

    if (training->resume == NULL)
        return FAULT_NONE;
    if (sealed_read(training->task, training->resume, "state", STATE_BYTES_MAX, &training->state, &bytes, refusal) != STATUS_OK)
        return FAULT_OBJECT;
    return train_take_state(training, bytes, refusal) == STATUS_OK ? FAULT_NONE : FAULT_STATE;
}

static enum fault open_sets(struct training *training, struct refusal *refusal)
{
    enum fault fault = open_set(training, training->training, "training file", FAULT_TRAINING_FILE, &training->data, refusal);

    if (fault == FAULT_NONE && training->held != NULL)
        fault = open_set(training, training->held, "validation file", FAULT_VALIDATION_FILE, &training->validation, refusal);
    return fault;
}

/* --- the run ------------------------------------------------------------------------------------------------------------------ */

static void say_nothing(void *listener, const char *text)
{
    (void)listener;
    (void)text;
}

static void saved(void *listener, const struct run_saved *state)
{
    (void)listener;
    (void)state;
}

/* By the memory of the host; a GPU's shows when it is opened. */
static enum recompute choose_recompute(const struct training *training)
{
    const struct run_settings *settings = &training->run.settings;
    struct trainer_config limits = training->run.trainer;
    enum recompute recompute = RECOMPUTE_NONE;
    struct refusal ignored;
    struct plan plan;

    run_limits(settings, 1, &limits);
    if (limits.device == &device_cpu && training->memory_bytes > 0 &&
        plan_make(&training->model->config, training->model->dtype, &limits, (int32_t)settings->rank, 1, &plan, &ignored) == STATUS_OK)
        (void)plan_choose(&plan, 1, true, training->memory_bytes, &recompute);
    return recompute;
}

static void set_up(struct training *training)
{
    struct run_config *run = &training->run;

    run_choose_data(&run->settings, training->data);
    training->memory.owner = training;
    training->memory.save = train_save;
    training->memory.epoch = train_epoch;
    training->memory.finish = train_finish;
    run->model = training->model;
    run->data = training->data;
    run->validation = training->validation;
    run->trainer.device = training->machine.device;
    run->trainer.threads = training->machine.threads;
    run->trainer.kernels = training->machine.kernels;
    run->trainer.recompute = choose_recompute(training);
    run->recompute_rises = true;
    run->base = training->base;
    run->initial = training->parent_adapter != NULL ? &training->parent_adapter->source : NULL;
    run->memory = &training->memory;
    run->checkpoint_every_ns = (int64_t)(real_of(training->task->settings, "save_every_s", SAVE_EVERY_S) * (double)NS_PER_S);
    run->stop = &training->task->stop;
    run->now_ns = now_ns;
    run->listener = training;
    run->stepped = train_stepped;
    run->saved = saved;
    run->said = say_nothing;
}

/* Before the first step it is what the run was given that does not fit. */
static enum fault fault_of(const struct training *training, enum status status)
{
    if (status == STATUS_FULL)
        return FAULT_MEMORY;
    if (status == STATUS_IO)
        return FAULT_OUTPUT;
    if (status == STATUS_CORRUPT || (!training->has_stepped && training->resume != NULL))
        return FAULT_STATE;
    return !training->has_stepped && training->parent != NULL ? FAULT_PARENT : FAULT_NUMBERS;
}

static enum fault train(struct training *training, struct refusal *refusal)
{
    struct run_outcome outcome;
    enum fault fault = open_parent(training, refusal);
    enum status status;

    if (fault == FAULT_NONE && (train_wishes(training, refusal) != STATUS_OK ||
                                run_choose(&training->wishes, &training->model->config, training->model->dtype, &training->run.settings, refusal) !=
                                    STATUS_OK))
        fault = FAULT_SETTINGS;
    if (fault == FAULT_NONE)
        fault = open_sets(training, refusal);
    if (fault == FAULT_NONE)
        fault = open_state(training, refusal);
    if (fault != FAULT_NONE)
        return fault;
    set_up(training);
    status = run_train(&training->run, &outcome, refusal);
    return status == STATUS_OK || status == STATUS_END ? FAULT_NONE : fault_of(training, status);
}

void train_work(struct task *task)
{
    struct training *training = task->work;
    struct refusal refusal = {{0}};
    const enum fault fault = train(training, &refusal);

    if (fault != FAULT_NONE)
        task_say_failed(task, (uint64_t)training->step, fault, refusal.text);
}
