#define _DEFAULT_SOURCE /* usleep */
#include "rig.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support.h"

static char kinds[STUB_WORKER_COUNT][16];
static const char *worker_arguments[STUB_WORKER_COUNT][4];
static const char *control_arguments[4] = {"stub", "control"};
static const char *vault_arguments[4] = {"stub", "vault"};
static struct keeper_program control = {.name = "control", .path = "/proc/self/exe", .arguments = control_arguments};
static struct keeper_program vault = {.name = "vault", .path = "/proc/self/exe", .arguments = vault_arguments};

static void log_line(void *context, const char *line)
{
    FILE *file = fopen(((const struct rig *)context)->log_path, "a");

    check(file != NULL);
    fprintf(file, "%s\n", line);
    fclose(file);
}

void rig_init(struct rig *rig, const char *folder)
{
    memset(rig, 0, sizeof(*rig));
    snprintf(rig->folder, sizeof(rig->folder), "%s", folder);
    snprintf(rig->log_path, sizeof(rig->log_path), "%s/log", folder);
    control_arguments[2] = rig->folder;
    vault_arguments[2] = rig->folder;
    for (unsigned i = 0; i < STUB_WORKER_COUNT; i++) {
        snprintf(kinds[i], sizeof(kinds[i]), "%u", i);
        worker_arguments[i][0] = "stub";
        worker_arguments[i][1] = "worker";
        worker_arguments[i][2] = kinds[i];
        rig->programs[i] = (struct keeper_program){.name = "worker", .path = i == STUB_MISSING ? "/nowhere" : "/proc/self/exe", .arguments = worker_arguments[i]};
    }
    rig->config = (struct keeper_config){.workers = rig->programs, .workers_count = STUB_WORKER_COUNT, .control = &control, .vault = &vault,
                                         .workers_max = 16, .again_first_ms = 2, .again_max_ms = 8, .settled_ms = 20, .failures_max = 100,
                                         .control_grace_ms = 10000, .grace_ms = 5000, .log = log_line, .log_context = rig};
}

void rig_start(struct rig *rig)
{
    char path[300];
    FILE *file;

    snprintf(path, sizeof(path), "%s/plan", rig->folder);
    file = fopen(path, "wb");
    check(file != NULL);
    check(fwrite(&rig->plan, sizeof(rig->plan), 1, file) == 1);
    fclose(file);
    rig->keeper = fork();
    check(rig->keeper >= 0);
    if (rig->keeper == 0) {
        struct refusal refusal = {""};
        enum status status;

        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nothing behind */
        status = keeper_run(&rig->config, &refusal);

        if (status != STATUS_OK)
            log_line(rig, refusal.text);
        _exit(status == STATUS_OK ? 0 : 1);
    }
}

int rig_stop(struct rig *rig)
{
    int how = 0;

    if (rig->keeper > 0)
        (void)kill(rig->keeper, SIGTERM);
    check(waitpid(rig->keeper, &how, 0) == rig->keeper);
    rig->keeper = 0;
    return WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
}

static void read_disk(struct rig *rig)
{
    rig->records_count = stub_disk(rig->folder, rig->records, RIG_RECORDS_MAX);
}

uint32_t rig_count(struct rig *rig, enum stub_record_kind kind, uint64_t worker)
{
    uint32_t count = 0;

    read_disk(rig);
    for (uint32_t i = 0; i < rig->records_count; i++)
        count += rig->records[i].kind == kind && (worker == 0 || rig->records[i].worker == worker);
    return count;
}

void rig_await(struct rig *rig, enum stub_record_kind kind, uint64_t worker, uint32_t count)
{
    for (int i = 0; i < 15000; i++) {
        if (rig_count(rig, kind, worker) >= count)
            return;
        (void)usleep(2000);
    }
    fail_msg("%u of %u records of kind %u, worker %lu in %s", rig_count(rig, kind, worker), count, kind, (unsigned long)worker, rig->folder);
}

pid_t rig_process(struct rig *rig, uint64_t worker)
{
    pid_t process = 0;

    read_disk(rig);
    for (uint32_t i = 0; i < rig->records_count; i++) {
        if (rig->records[i].kind == STUB_DISK_PROCESS && rig->records[i].worker == worker)
            process = (pid_t)rig->records[i].value;
    }
    return process;
}

uint32_t rig_descriptors(pid_t process)
{
    char path[64];
    uint32_t count = 0;
    DIR *folder;

    snprintf(path, sizeof(path), "/proc/%d/fd", (int)process);
    folder = opendir(path);
    check(folder != NULL);
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count - 2;
}

/* Zombies, which some other process is to reap, are dead. */
bool rig_is_alive(pid_t process)
{
    char path[64];
    char text[256] = "";
    FILE *file;
    const char *state;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)process);
    file = fopen(path, "r");
    if (file == NULL)
        return false;
    (void)!fgets(text, sizeof(text), file);
    fclose(file);
    state = strrchr(text, ')');
    return state != NULL && state[2] != 'Z' && state[2] != 'X';
}

void rig_await_death(pid_t process)
{
    for (int i = 0; i < 5000 && rig_is_alive(process); i++)
        (void)usleep(1000);
    assert_false(rig_is_alive(process));
}

uint32_t rig_log_count(const struct rig *rig, const char *text)
{
    FILE *file = fopen(rig->log_path, "r");
    char line[512];
    uint32_t count = 0;

    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        count += strstr(line, text) != NULL;
    if (file != NULL)
        fclose(file);
    return count;
}

long rig_log_at(const struct rig *rig, const char *text)
{
    FILE *file = fopen(rig->log_path, "r");
    char line[512];
    long found = -1;

    for (long at = 0; file != NULL && found < 0 && fgets(line, sizeof(line), file) != NULL; at++)
        found = strstr(line, text) != NULL ? at : -1;
    if (file != NULL)
        fclose(file);
    return found;
}

static void check_worker(struct rig *rig, uint64_t worker, bool may_lose)
{
    uint64_t seq = 0;
    uint64_t request = 0;
    uint32_t exits = 0;
    uint32_t told_epoch = 0;
    uint64_t process = 0;

    for (uint32_t i = 0; i < rig->records_count; i++) {
        const struct stub_record *record = &rig->records[i];

        if (record->worker != worker)
            continue;
        if (record->kind == STUB_DISK_FRAME) {
            if (may_lose ? record->seq <= seq : record->seq != seq + 1)
                fail_msg("worker %lu: number %lu after %lu in %s", (unsigned long)worker, (unsigned long)record->seq, (unsigned long)seq, rig->folder);
            seq = record->seq;
            if (record->value != 0 && (may_lose ? record->value <= request : record->value != request + 1))
                fail_msg("worker %lu: request %lu after %lu", (unsigned long)worker, (unsigned long)record->value, (unsigned long)request);
            request = record->value != 0 ? record->value : request;
        }
        exits += record->kind == STUB_DISK_EXIT;
        if (record->kind == STUB_DISK_HEARD_EXIT) {
            assert_true(record->epoch > told_epoch);
            told_epoch = record->epoch;
        }
        if (record->kind == STUB_DISK_PROCESS) {
            assert_true(process == 0 || process == record->value);
            process = record->value;
        }
    }
    assert_true(exits <= 1);
}

void rig_check_disk(struct rig *rig, bool may_lose)
{
    read_disk(rig);
    for (uint64_t worker = 1; worker <= rig->plan.workers; worker++)
        check_worker(rig, worker, may_lose && rig->plan.kinds[worker - 1] == STUB_EXITS);
}
