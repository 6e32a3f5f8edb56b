/* Who starts and ends workers for the control plane: the keeper on one machine, a cluster's scheduler elsewhere. All answers come as
 * events, since a scheduler may take minutes. A worker's number is never used again, so that what is asked twice is one worker. */
#ifndef KEEPER_LAUNCHER_H
#define KEEPER_LAUNCHER_H

#include "base/base.h"

struct launch {
    uint64_t worker;
    uint64_t attempt;
    uint32_t kind;           /* a row of the launcher's table of programs */
    uint32_t zero;
};

/* How a process ended, and what it used. */
struct launch_end {
    bool by_signal;
    int32_t code;            /* exit code or signal; 127: its program could not be run */
    int64_t cpu_ns;
    uint64_t memory_max_bytes;
};

#define LAUNCHER_EVENTS(X)                                                                                  \
    X(STARTED) /* the worker runs; `socket` is its other end */                                             \
    X(REFUSED) /* it doesn't, and why: INVALID no such kind; FULL; IO; NOT_FOUND an end() of an unknown one */ \
    X(FOUND)   /* list(): a worker that was started earlier, with its socket; it may be dead, then EXITED follows */ \
    X(LISTED)  /* the list is complete */                                                                   \
    X(EXITED)  /* a worker is gone and reaped; comes once to each control plane until forget() */             \
    X(VAULT)   /* a socket to a vault that was just started; one from before is closed at its other end */
enum launcher_event_kind {
#define X(name) LAUNCHER_##name,
    LAUNCHER_EVENTS(X)
#undef X
    LAUNCHER_EVENT_COUNT
};

struct launcher_event {
    enum launcher_event_kind kind;
    enum status status;      /* REFUSED */
    struct launch launch;    /* of all but LISTED and VAULT */
    int32_t process;
    bool is_dead;            /* FOUND */
    int socket;              /* the receiver's to close, close-on-exec; -1: none */
    struct launch_end end;   /* EXITED */
};

struct launcher {
    const struct launcher_table *table;
};

struct launcher_table {
    /* STATUS_OK: asked, and exactly one STARTED or REFUSED follows; asked again for a number that is there, it is FOUND. STATUS_FULL: not
     * now; STATUS_IO: the launcher is gone. */
    enum status (*start)(struct launcher *launcher, const struct launch *launch);
    /* Politely (SIGTERM), or at once. EXITED follows. */
    enum status (*end)(struct launcher *launcher, uint64_t worker, bool at_once);
    /* What a new control plane asks first: FOUND for each, then LISTED. Until then it hears of no EXITED of before. */
    enum status (*list)(struct launcher *launcher);
    /* The worker's EXITED is committed: its number and what its socket still held are let go. */
    enum status (*forget)(struct launcher *launcher, uint64_t worker);
    /* Readable when next() has something. */
    int (*descriptor)(const struct launcher *launcher);
    /* STATUS_END: nothing now; STATUS_IO: the launcher is gone. Never waits. */
    enum status (*next)(struct launcher *launcher, struct launcher_event *ret_event);
    void (*close)(struct launcher *launcher);
};

#endif
