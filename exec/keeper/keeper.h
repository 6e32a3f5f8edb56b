/* The keeper: the process that starts vault, control plane and workers, and the parent whose death ends them all. One thread, no
 * network; it holds the control plane's end of every worker's socket and reads nothing from it. A control plane that is killed is
 * started again and finds its workers' sockets; a vault lives as long as the control plane that holds its socket, and is started
 * again by itself too. What starts is a row of a table with fixed arguments, an empty environment, /dev/null, the keeper's stdout and
 * stderr, descriptor 3, its socket, and what its row says that it inherits; nothing else is open in it. */
#ifndef KEEPER_KEEPER_H
#define KEEPER_KEEPER_H

#include "engine/files/refusal.h"
#include "keeper/launcher.h"

/* In what the keeper starts: a worker's socket to the control plane, the control plane's to the keeper, the vault's to its client. */
#define KEEPER_SOCKET 3
/* What a program inherits beside it: descriptors 4, 5, ... */
#define KEEPER_INHERITED 4
#define KEEPER_INHERITED_MAX 4

struct keeper_program {
    const char *name;             /* in log lines */
    const char *path;
    const char *const *arguments; /* ended by NULL; nothing of a request comes into them */
    uint64_t memory_max_bytes;    /* of address space; 0: no limit */
    uint32_t descriptors_max;     /* 0: 256 */
    const int *inherited;         /* stay the caller's, and open; a listening socket, say */
    uint32_t inherited_count;
};

/* One line an act: "act=exit name=server worker=5 attempt=1 process=77 by=signal code=9". */
typedef void keeper_log(void *context, const char *line);

struct keeper_config {
    const struct keeper_program *workers; /* launch.kind is a row */
    uint32_t workers_count;
    const struct keeper_program *control;
    const struct keeper_program *vault;   /* NULL: none */
    uint32_t workers_max;         /* that run, or whose end is not yet forgotten; 0: 256 */
    /* After the first failure `again_first_ms`, then twice that each time up to `again_max_ms`; from the beginning after it was up for
     * `settled_ms`. 0: 100, 10,000, 30,000. */
    uint32_t again_first_ms;
    uint32_t again_max_ms;
    uint32_t settled_ms;
    uint32_t failures_max;        /* a control plane that never came up (asked for its list, or lived so long) is given up after so many; 0: 5 */
    uint32_t control_grace_ms;    /* from SIGTERM to SIGKILL; 0: 30,000: it drains its workers */
    uint32_t grace_ms;            /* of workers, and of the vault; 0: 5,000 */
    keeper_log *log;              /* may be NULL */
    void *log_context;
};

/* Until SIGTERM, SIGINT or SIGHUP; then the control plane is asked to end, after it the workers, at last the vault. STATUS_IO: it cannot
 * begin, or the control plane cannot be brought up. */
enum status keeper_run(const struct keeper_config *config, struct refusal *refusal);

/* In a worker, first of all: who it is. The keeper says so in the socket's first packet, since arguments are fixed. STATUS_IO: this process
 * was not started by a keeper. */
enum status keeper_who_am_i(int socket, struct launch *ret_launch);

/* The control plane's end: a launcher over the keeper's socket, which is the launcher's from here on. NULL: no memory. */
struct launcher *keeper_client(int socket);

#endif
