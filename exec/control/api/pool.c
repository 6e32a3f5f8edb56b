#include "control/api/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#define THREADS_MAX 16

struct worker {
    struct pool *pool;
    struct metadata *metadata;
    pthread_t thread;
    bool runs;
};

struct pool {
    pthread_mutex_t lock; /* of what follows; held for moments, and never over a call to a task */
    pthread_cond_t some;
    pthread_cond_t none;
    struct task *first;
    struct task *last;
    struct task *newest;
    uint32_t alive;
    bool stopping;
    atomic_uint wakers; /* threads that have let go of the lock and are about to wake a worker */
    struct worker workers[THREADS_MAX];
};

/* Under the lock; pool_wake() is owed. A worker that runs at once would only wait for the lock. */
static void enqueue(struct pool *pool, struct task *task)
{
    atomic_fetch_add(&pool->wakers, 1);
    task->queued = true;
    task->next = NULL;
    if (pool->first == NULL)
        pool->first = task;
    else
        pool->last->next = task;
    pool->last = task;
}

/* Under the lock. True: pool_wake() is owed. */
static bool ask(struct pool *pool, struct task *task)
{
    const bool wakes = !task->running && !task->queued;

    if (task->running)
        task->again = true;
    else if (wakes)
        enqueue(pool, task);
    return wakes;
}

/* Under the lock. */
static void end(struct pool *pool, struct task *task)
{
    if (task->older != NULL)
        task->older->newer = task->newer;
    if (task->newer != NULL)
        task->newer->older = task->older;
    else
        pool->newest = task->older;
    free(task);
    pool->alive--;
    pthread_cond_broadcast(&pool->none);
}

/* Under the lock. */
static void begin_run(struct task *task)
{
    task->running = true;
    task->again = false;
}

/* NULL: the pool ends. */
static struct task *take(struct pool *pool)
{
    struct task *task;

    pthread_mutex_lock(&pool->lock);
    while (pool->first == NULL && !pool->stopping)
        pthread_cond_wait(&pool->some, &pool->lock);
    task = pool->first;
    if (task != NULL) {
        pool->first = task->next;
        task->queued = false;
        begin_run(task);
    }
    pthread_mutex_unlock(&pool->lock);
    return task;
}

/* Marked as running. */
static void run(struct pool *pool, struct task *task, struct metadata *metadata)
{
    const bool over = task->run(task, metadata);
    bool wakes = false;

    pthread_mutex_lock(&pool->lock);
    task->running = false;
    if (over)
        end(pool, task);
    else if (task->again)
        wakes = ask(pool, task);
    pthread_mutex_unlock(&pool->lock);
    if (wakes)
        pool_wake(pool);
}

static void *work(void *context)
{
    struct worker *worker = context;
    struct task *task;

    while ((task = take(worker->pool)) != NULL)
        run(worker->pool, task, worker->metadata);
    return NULL;
}

static enum status start_worker(struct pool *pool, const struct meta_options *options, struct worker *worker, struct refusal *refusal)
{
    enum status status = meta_open(options, &worker->metadata, refusal);
    int code;

    if (status != STATUS_OK)
        return status;
    worker->pool = pool;
    code = pthread_create(&worker->thread, NULL, work, worker);
    worker->runs = code == 0;
    return code == 0 ? STATUS_OK : refuse(refusal, STATUS_IO, "no thread for the API: %s", strerror(code));
}

enum status pool_start(const struct meta_options *options, uint32_t threads, struct pool **ret_pool, struct refusal *refusal)
{
    struct pool *pool = calloc(1, sizeof(*pool));
    enum status status = STATUS_OK;

    check(threads > 0 && threads <= THREADS_MAX);
    if (pool == NULL)
        return refuse(refusal, STATUS_IO, "no memory for the API");
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->some, NULL);
    pthread_cond_init(&pool->none, NULL);
    for (uint32_t i = 0; status == STATUS_OK && i < threads; i++)
        status = start_worker(pool, options, &pool->workers[i], refusal);
    if (status == STATUS_OK)
        *ret_pool = pool;
    else
        pool_stop(pool);
    return status;
}

/* Under the lock. */
static void add(struct pool *pool, struct task *task)
{
    task->older = pool->newest;
    if (pool->newest != NULL)
        pool->newest->newer = task;
    pool->newest = task;
    pool->alive++;
}

void pool_begin(struct pool *pool, struct task *task)
{
    pthread_mutex_lock(&pool->lock);
    add(pool, task);
    enqueue(pool, task);
    pthread_mutex_unlock(&pool->lock);
    pool_wake(pool);
}

void pool_go_on(struct pool *pool, struct task *task, struct metadata *metadata)
{
    pthread_mutex_lock(&pool->lock);
    add(pool, task);
    begin_run(task);
    pthread_mutex_unlock(&pool->lock);
    run(pool, task, metadata);
}

bool pool_ask_asleep(struct pool *pool, struct task *task)
{
    bool wakes;

    pthread_mutex_lock(&pool->lock);
    wakes = ask(pool, task);
    pthread_mutex_unlock(&pool->lock);
    return wakes;
}

void pool_wake(struct pool *pool)
{
    pthread_cond_signal(&pool->some);
    atomic_fetch_sub(&pool->wakers, 1);
}

void pool_ask(struct pool *pool, struct task *task)
{
    if (pool_ask_asleep(pool, task))
        pool_wake(pool);
}

uint32_t pool_tasks(struct pool *pool)
{
    uint32_t count;

    pthread_mutex_lock(&pool->lock);
    count = pool->alive;
    pthread_mutex_unlock(&pool->lock);
    return count;
}

void pool_stop(struct pool *pool)
{
    if (pool == NULL)
        return;
    pthread_mutex_lock(&pool->lock);
    for (struct task *task = pool->newest; task != NULL; task = task->older) {
        if (ask(pool, task))
            pool_wake(pool);
    }
    while (pool->alive > 0)
        pthread_cond_wait(&pool->none, &pool->lock);
    pool->stopping = true;
    pthread_cond_broadcast(&pool->some);
    pthread_mutex_unlock(&pool->lock);
    for (uint32_t i = 0; i < THREADS_MAX; i++) {
        if (pool->workers[i].runs)
            pthread_join(pool->workers[i].thread, NULL);
        meta_close(pool->workers[i].metadata);
    }
    while (atomic_load(&pool->wakers) > 0) /* for a task that has been run already */
        (void)sched_yield();
    pthread_cond_destroy(&pool->none);
    pthread_cond_destroy(&pool->some);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}
