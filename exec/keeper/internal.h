/* What keeper and control plane say to each other, and the keeper's inside. */
#ifndef KEEPER_INTERNAL_H
#define KEEPER_INTERNAL_H

#include <sys/types.h>

#include "keeper/keeper.h"

enum keeper_request { KEEPER_START = 1, KEEPER_END, KEEPER_END_AT_ONCE, KEEPER_LIST, KEEPER_FORGET };

/* One packet, on one machine, of one build; with a socket beside it where an event has one. */
struct keeper_message {
    uint32_t kind;            /* enum keeper_request, or enum launcher_event_kind */
    uint32_t status;
    uint64_t worker;
    uint64_t attempt;
    uint32_t worker_kind;
    int32_t process;
    uint32_t is_dead;
    uint32_t by_signal;
    int32_t code;
    uint32_t zero;
    int64_t cpu_ns;
    uint64_t memory_max_bytes;
};
_Static_assert(sizeof(struct keeper_message) == 64, "no padding");

enum status message_send(int socket, const struct keeper_message *message, int descriptor);
/* STATUS_END: nothing now; STATUS_IO: closed, or not a message. `ret_descriptor`: -1 where none came. */
enum status message_receive(int socket, struct keeper_message *ret_message, int *ret_descriptor);

/* A process of ours; process 0: none. */
struct child {
    pid_t process;
    int watch;                /* a pidfd: readable when it ended, and no other process is ever meant */
    struct launch_end end;
};
/* Runs `program` with `socket` as its descriptor 3. */
enum status child_start(struct child *child, const struct keeper_program *program, int socket);
void child_signal(const struct child *child, int signal);
/* True: it has ended and is reaped. */
bool child_reap(struct child *child);

/* A worker's place; worker numbers are above 0. */
struct place {
    struct launch launch;     /* worker 0: free */
    struct child child;       /* process 0: it has ended */
    pid_t process;            /* the number that it had */
    int socket;               /* the control plane's end, held until forget() */
    bool tell_started;
    bool tell_found;
    bool is_known;            /* this control plane has its socket, or will with what is told first */
    bool tell_exited;
};

enum keeper_phase { KEEPER_RUNS, KEEPER_ENDS_CONTROL, KEEPER_ENDS_WORKERS, KEEPER_ENDS_VAULT, KEEPER_ENDED };

/* The control plane or the vault: something that is started again. */
struct kept {
    const struct keeper_program *program;
    struct child child;
    int64_t started_at_ns;
    int64_t again_at_ns;      /* NEVER_NS while it runs */
    uint32_t failures;        /* in a row */
    bool has_settled;
};

struct keeper {
    struct keeper_config config;
    struct kept control;
    struct kept vault;
    int control_socket;       /* -1: no control plane */
    int vault_socket;         /* what the control plane is still to be given; -1: it has it */
    struct place *places;     /* [config.workers_max] */
    bool tell_listed;
    bool tell_refused;
    struct keeper_message refused;
    enum keeper_phase phase;
    int64_t kill_at_ns;       /* of the phase */
    bool has_failed;          /* given up */
};

/* Performs a request of the control plane's. */
void keeper_serve(struct keeper *keeper, const struct keeper_message *request);
/* Tells the control plane all that it is to hear; false: its socket takes no more for now. */
bool keeper_tell(struct keeper *keeper);
/* A new control plane: what was told to the one before is forgotten. */
void keeper_forget_told(struct keeper *keeper);
void keeper_say(const struct keeper *keeper, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
