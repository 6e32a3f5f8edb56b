#include "task/task.h"

#include <openssl/evp.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "sandbox/sandbox.h"
#include "task/internal.h"

#define LOST_MS 60000

static const struct {
    enum fault (*open)(struct task *task, struct refusal *refusal);
    void (*work)(struct task *task);
    void (*close)(struct task *task); /* also of what never opened */
} tasks[] = {
    [TASK_VALIDATE] = {validate_open, validate_work, validate_close},
    [TASK_TRAIN] = {train_open, train_work, train_close},
    [TASK_ADOPT] = {adopt_open, adopt_work, adopt_close},
};

int64_t whole_of(const json_t *object, const char *name, int64_t otherwise)
{
    const json_t *value = json_object_get(object, name);

    return json_is_number(value) ? (int64_t)json_number_value(value) : otherwise;
}

double real_of(const json_t *object, const char *name, double otherwise)
{
    const json_t *value = json_object_get(object, name);

    return json_is_number(value) ? json_number_value(value) : otherwise;
}

static void *work(void *context)
{
    struct task *task = context;
    const uint64_t one = 1;

    tasks[task->kind].work(task);
    pthread_mutex_lock(&task->mutex);
    task->is_over = true;
    pthread_mutex_unlock(&task->mutex);
    (void)!write(task->wake, &one, sizeof(one));
    return NULL;
}

/* What reads its own settings from files does so now. */
static void wake_libraries(void)
{
    uint8_t digest[32];

    check(EVP_Digest("", 0, digest, NULL, EVP_sha256(), NULL) == 1);
}

/* All that is opened by name is open then; what is asked for the first time later may not open anything any more. */
static enum fault open_all(struct task *task, struct refusal *refusal)
{
    const enum fault fault = tasks[task->kind].open(task, refusal);

    if (fault != FAULT_NONE)
        return fault;
    wake_libraries();
    if (secrets_harden_process(refusal) != STATUS_OK || (!task->is_unfiltered && sandbox_enter(refusal) != STATUS_OK))
        return FAULT_SANDBOX;
    return FAULT_NONE;
}

/* A stranger's adapter is read by what reads strangers' files. */
static void choose_task(struct task *task)
{
    const char *name = json_string_value(json_object_get(task->settings, "task"));

    if (task->kind == TASK_VALIDATE && name != NULL && strcmp(name, "adopt") == 0)
        task->kind = TASK_ADOPT;
}

static bool run(struct task *task)
{
    bool works;
    bool committed;
    struct refusal refusal = {{0}};
    pthread_t thread;
    enum fault fault = task_start(task, &refusal);

    choose_task(task);
    if (fault == FAULT_NONE)
        fault = open_all(task, &refusal);
    if (fault == FAULT_NONE && pthread_create(&thread, NULL, work, task) != 0) {
        refuse(&refusal, STATUS_FULL, "no thread to work on");
        fault = FAULT_MEMORY;
    }
    works = fault == FAULT_NONE;
    if (!works) {
        task_say_failed(task, 0, fault, refusal.text);
        task->is_over = true; /* with a thread it is that one's to say */
    }
    committed = task_attend(task);
    if (works)
        pthread_join(thread, NULL);
    return committed;
}

static void close_all(struct task *task)
{
    tasks[task->kind].close(task);
    json_decref(task->settings);
    for (uint32_t i = 0; i < GRANTS_MAX; i++)
        if (task->files[i] >= 0)
            close(task->files[i]);
    for (uint32_t i = 0; i < task->grants->spare_count; i++)
        grant_close(&task->grants->spare[i]);
    secret_free(task->grants);
    link_close(task->link);
    close(task->wake);
    pthread_mutex_destroy(&task->mutex);
    pthread_cond_destroy(&task->changed);
}

int task_run(const struct task_config *config)
{
    struct task_config own = *config;
    struct task task = {.config = &own, .kind = config->kind, .lost_at_ns = NEVER_NS, .settled_by_ns = NEVER_NS, .wake = eventfd(0, EFD_CLOEXEC)};
    const struct link_config link = {.socket = config->socket, .kind = config->worker_kind};
    struct refusal refusal = {{0}};
    int code;

    if (own.lost_ms == 0)
        own.lost_ms = LOST_MS;
    pthread_mutex_init(&task.mutex, NULL);
    pthread_cond_init(&task.changed, NULL);
    task.grants = secret_alloc(sizeof(*task.grants));
    if (task.grants == NULL || task.wake < 0 || link_open(&link, &task.link, &refusal) != STATUS_OK) {
        fprintf(stderr, "berth-exec worker: %s\n", refusal.text[0] != '\0' ? refusal.text : "no memory for keys");
        return 1;
    }
    code = run(&task) && !task.has_failed ? 0 : 1;
    close_all(&task);
    return code;
}
