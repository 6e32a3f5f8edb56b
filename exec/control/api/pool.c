#include "control/api/pool.h"

#include <pthread.h>
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
    struct worker workers[THREADS_MAX];
};

/* Under the lock. */
static void enqueue(struct pool *pool, struct task *task)
{
    task->queued = true;
    task->next = NULL;
    if (pool->first == NULL)
        pool->first = task;
    else
        pool->last->next = task;
    pool->last = task;
    pthread_cond_signal(&pool->some);
}

/* Under the lock. */
static void ask(struct pool *pool, struct task *task)
{
    if (task->running)
        task->again = true;
    else if (!task->queued)
        enqueue(pool, task);
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

/* Under the lock. NULL: the pool ends. */
static struct task *take(struct pool *pool)
{
    struct task *task;

    while (pool->first == NULL && !pool->stopping)
        pthread_cond_wait(&pool->some, &pool->lock);
    task = pool->first;
    if (task == NULL)
        return NULL;
    pool->first = task->next;
    task->queued = false;
    task->running = true;
    task->again = false;
    return task;
}

static void *work(void *context)
{
    struct worker *worker = context;
    struct pool *pool = worker->pool;
    struct task *task;

    pthread_mutex_lock(&pool->lock);
    while ((task = take(pool)) != NULL) {
        bool over;

        pthread_mutex_unlock(&pool->lock);
        over = task->run(task, worker->metadata);
        pthread_mutex_lock(&pool->lock);
        task->running = false;
        if (over)
            end(pool, task);
        else if (task->again)
            enqueue(pool, task);
    }
    pthread_mutex_unlock(&pool->lock);
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

void pool_begin(struct pool *pool, struct task *task)
{
    pthread_mutex_lock(&pool->lock);
    task->older = pool->newest;
    if (pool->newest != NULL)
        pool->newest->newer = task;
    pool->newest = task;
    pool->alive++;
    enqueue(pool, task);
    pthread_mutex_unlock(&pool->lock);
}

void pool_ask(struct pool *pool, struct task *task)
{
    pthread_mutex_lock(&pool->lock);
    ask(pool, task);
    pthread_mutex_unlock(&pool->lock);
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
    for (struct task *task = pool->newest; task != NULL; task = task->older)
        ask(pool, task);
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
    pthread_cond_destroy(&pool->none);
    pthread_cond_destroy(&pool->some);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}
