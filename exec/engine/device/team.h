/* Threads that work on one op together. The calling thread is one of them; the others sleep between ops. */
#ifndef DEVICE_TEAM_H
#define DEVICE_TEAM_H

#include "engine/device/word.h"

struct team;

/* A meeting of a fixed number of threads, again and again. */
struct meeting {
    struct word round;
    _Alignas(64) _Atomic uint32_t arrived;
    uint32_t members;
};
void meeting_init(struct meeting *meeting, uint32_t members);
/* Returns when all members have come; what any of them wrote before is visible to all. */
void meeting_join(struct meeting *meeting);

/* Numbers 0 .. count - 1, each given to one thread: work is taken as threads come to it, since one of them may have lost its core. */
struct tasks {
    _Alignas(64) _Atomic int64_t next;
    int64_t count;
};
static inline void tasks_init(struct tasks *tasks, int64_t count)
{
    atomic_init(&tasks->next, 0);
    tasks->count = count;
}
/* False when all are given. */
static inline bool tasks_take(struct tasks *tasks, int64_t *ret_task)
{
    int64_t task = atomic_fetch_add_explicit(&tasks->next, 1, memory_order_relaxed);

    *ret_task = task;
    return task < tasks->count;
}

/* threads >= 1. NULL when the machine refuses a thread. */
struct team *team_open(uint32_t threads);
/* NULL is fine. */
void team_close(struct team *team);
uint32_t team_threads(const struct team *team);
/* act(context, thread) once on each thread, 0 being the caller's; returns when all are done. Not to be called from within. */
void team_run(struct team *team, void (*act)(void *context, uint32_t thread), void *context);
/* Within act: waits for all threads of the team. */
void team_meet(struct team *team);

#endif
