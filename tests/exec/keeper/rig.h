/* A keeper in a process of its own, over stubs, and what they left on the disk. */
#ifndef TESTS_KEEPER_RIG_H
#define TESTS_KEEPER_RIG_H

#include <sys/types.h>

#include "keeper/keeper.h"
#include "stub.h"

#define RIG_RECORDS_MAX (1u << 19)

struct rig {
    char folder[256];
    char log_path[300];
    struct stub_plan plan;
    struct keeper_config config;
    struct keeper_program programs[STUB_WORKER_COUNT];
    pid_t keeper;
    struct stub_record records[RIG_RECORDS_MAX];
    uint32_t records_count;
};

/* Quick backoff and short graces; change plan and config before rig_start(). */
void rig_init(struct rig *rig, const char *folder);
void rig_start(struct rig *rig);
/* Asks the keeper to end; returns its exit code, or 128 and a signal. */
int rig_stop(struct rig *rig);
/* Until so many records of `kind` (of `worker`; 0: of any) are on the disk; fails after half a minute. */
void rig_await(struct rig *rig, enum stub_record_kind kind, uint64_t worker, uint32_t count);
uint32_t rig_count(struct rig *rig, enum stub_record_kind kind, uint64_t worker);
/* The last process that a worker was told to be; 0: the control plane itself. */
pid_t rig_process(struct rig *rig, uint64_t worker);
uint32_t rig_descriptors(pid_t process);
bool rig_is_alive(pid_t process);
void rig_await_death(pid_t process);
/* Lines of the keeper's log that hold `text`. */
uint32_t rig_log_count(const struct rig *rig, const char *text);
/* Where in the log `text` first stands; -1: nowhere. */
long rig_log_at(const struct rig *rig, const char *text);
/* Every worker's frames: numbers without gap or double, each USAGE once and in order; no exit twice, told once to each control plane; a
 * worker is one process. `may_lose`: of workers that EXIT while control planes are killed. */
void rig_check_disk(struct rig *rig, bool may_lose);

#endif
