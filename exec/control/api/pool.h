/* Threads for what may wait, each with a connection to the metadata. A task runs on one thread at a time and may be asked to run
 * from anywhere: an ask while it runs makes it run again. */
#ifndef API_POOL_H
#define API_POOL_H

#include "control/metadata/metadata.h"

struct pool;
/* What comes first in a piece of malloc()'s memory. */
struct task {
    /* True: it is over; nobody asks for it any more, and the pool frees it. */
    bool (*run)(struct task *task, struct metadata *metadata);
    struct task *next;
    struct task *older, *newer; /* of all that aren't over */
    bool queued, running, again; /* under the pool's lock */
};

enum status pool_start(const struct meta_options *options, uint32_t threads, struct pool **ret_pool, struct refusal *refusal);
/* It runs now, and again when it is asked for, until its run() says that it is over. */
void pool_begin(struct pool *pool, struct task *task);
/* The same from within a task's run() that ends with this: the new one runs first here, and wakes no other thread for that. */
void pool_go_on(struct pool *pool, struct task *task, struct metadata *metadata);
void pool_ask(struct pool *pool, struct task *task);
/* In two steps, for who holds a lock that the task wants. True: pool_wake() is owed, once that is let go of; the task may be over by then. */
bool pool_ask_asleep(struct pool *pool, struct task *task);
void pool_wake(struct pool *pool);
uint32_t pool_tasks(struct pool *pool);
/* Asks all tasks to run once more, for what they waited for may not come any more, and waits until they are over. NULL is fine. */
void pool_stop(struct pool *pool);

#endif
