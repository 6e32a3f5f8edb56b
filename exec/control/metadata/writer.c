#define _GNU_SOURCE /* syscall */
#include "control/metadata/writer.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Acts in one transaction: what later ones wait for the first is a fraction of a wait for the disk. */
#define TOGETHER_MAX 64
#define WRITER_NICE 10

struct act {
    meta_act *act;
    meta_done *done;
    void *context;
    enum status status;
    struct refusal *refusal; /* of TOGETHER_MAX */
};

struct meta_writer {
    struct metadata *metadata;
    pthread_t thread;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t some;
    bool stopping;
    uint32_t acts_max;
    uint32_t first; /* of a ring */
    uint32_t count;
    struct act *waiting;
    struct refusal refusals[TOGETHER_MAX]; /* the thread's own */
};

static uint32_t take(struct meta_writer *writer, struct act *ret_acts)
{
    uint32_t count;

    pthread_mutex_lock(&writer->lock);
    while (writer->count == 0 && !writer->stopping)
        pthread_cond_wait(&writer->some, &writer->lock);
    count = min_u32(writer->count, TOGETHER_MAX);
    for (uint32_t i = 0; i < count; i++)
        ret_acts[i] = writer->waiting[(writer->first + i) % writer->acts_max];
    writer->first = (writer->first + count) % writer->acts_max;
    writer->count -= count;
    pthread_mutex_unlock(&writer->lock);
    return count;
}

static void do_one(struct meta_writer *writer, struct act *act)
{
    act->refusal->text[0] = '\0';
    act->status = meta_begin(writer->metadata, act->refusal);
    if (act->status == STATUS_OK) {
        act->status = act->act(writer->metadata, act->context, act->refusal);
        act->status = meta_end(writer->metadata, act->status, act->refusal);
    }
}

static void do_together(struct meta_writer *writer, struct act *acts, uint32_t count)
{
    struct refusal refusal = {{0}};
    enum status status = meta_begin(writer->metadata, &refusal);

    for (uint32_t i = 0; i < count; i++) {
        acts[i].refusal = &writer->refusals[i];
        if (status == STATUS_OK)
            do_one(writer, &acts[i]);
    }
    if (status == STATUS_OK)
        status = meta_end(writer->metadata, STATUS_OK, &refusal);
    for (uint32_t i = 0; i < count; i++) {
        if (status == STATUS_OK)
            acts[i].done(acts[i].context, acts[i].status, acts[i].refusal);
        else
            acts[i].done(acts[i].context, status, &refusal);
    }
}

static void *write_all(void *context)
{
    struct meta_writer *writer = context;
    struct act acts[TOGETHER_MAX];
    uint32_t count;

    /* Of threads that share a core, those that answer go first: whoever waits for a commit waits for the disk anyway. (Linux has a nice
     * value for each thread; refused, all is as before.) */
    (void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), WRITER_NICE);
    while ((count = take(writer, acts)) > 0)
        do_together(writer, acts, count);
    return NULL;
}

enum status meta_writer_start(struct metadata *metadata, uint32_t acts_max, struct meta_writer **ret_writer, struct refusal *refusal)
{
    struct meta_writer *writer = calloc(1, sizeof(*writer));
    sigset_t all;
    sigset_t before;
    int code;

    check(acts_max > 0);
    if (writer == NULL || (writer->waiting = calloc(acts_max, sizeof(struct act))) == NULL) {
        free(writer);
        return refuse(refusal, STATUS_IO, "no memory for the database's writer");
    }
    writer->metadata = metadata;
    writer->acts_max = acts_max;
    pthread_mutex_init(&writer->lock, NULL);
    pthread_cond_init(&writer->some, NULL);
    /* Signals are for the thread that hosts. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    code = pthread_create(&writer->thread, NULL, write_all, writer);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code != 0) {
        free(writer->waiting);
        free(writer);
        return refuse(refusal, STATUS_IO, "no thread for the database's writer: %s", strerror(code));
    }
    *ret_writer = writer;
    return STATUS_OK;
}

void meta_writer_stop(struct meta_writer *writer)
{
    if (writer == NULL)
        return;
    pthread_mutex_lock(&writer->lock);
    writer->stopping = true;
    pthread_cond_signal(&writer->some);
    pthread_mutex_unlock(&writer->lock);
    pthread_join(writer->thread, NULL);
    pthread_cond_destroy(&writer->some);
    pthread_mutex_destroy(&writer->lock);
    free(writer->waiting);
    free(writer);
}

enum status meta_writer_submit(struct meta_writer *writer, meta_act *act, meta_done *done, void *context, struct refusal *refusal)
{
    bool taken;

    pthread_mutex_lock(&writer->lock);
    taken = !writer->stopping && writer->count < writer->acts_max;
    if (taken) {
        writer->waiting[(writer->first + writer->count++) % writer->acts_max] =
            (struct act){.act = act, .done = done, .context = context};
        pthread_cond_signal(&writer->some);
    }
    pthread_mutex_unlock(&writer->lock);
    return taken ? STATUS_OK : refuse(refusal, STATUS_FULL, "the database has %u acts waiting; try again", writer->acts_max);
}

/* --- waiting ---------------------------------------------------------------------------------------------------------------- */

struct call {
    meta_act *act;
    void *context;
    pthread_mutex_t lock;
    pthread_cond_t over;
    bool is_over;
    enum status status;
    struct refusal *refusal;
};

static enum status call_act(struct metadata *metadata, void *context, struct refusal *refusal)
{
    struct call *call = context;

    return call->act(metadata, call->context, refusal);
}

static void call_done(void *context, enum status status, const struct refusal *refusal)
{
    struct call *call = context;

    pthread_mutex_lock(&call->lock);
    call->status = status;
    if (status != STATUS_OK)
        *call->refusal = *refusal;
    call->is_over = true;
    pthread_cond_signal(&call->over);
    pthread_mutex_unlock(&call->lock);
}

enum status meta_writer_call(struct meta_writer *writer, meta_act *act, void *context, struct refusal *refusal)
{
    struct call call = {.act = act, .context = context, .refusal = refusal};
    enum status status;

    pthread_mutex_init(&call.lock, NULL);
    pthread_cond_init(&call.over, NULL);
    status = meta_writer_submit(writer, call_act, call_done, &call, refusal);
    if (status == STATUS_OK) {
        pthread_mutex_lock(&call.lock);
        while (!call.is_over)
            pthread_cond_wait(&call.over, &call.lock);
        pthread_mutex_unlock(&call.lock);
        status = call.status;
    }
    pthread_cond_destroy(&call.over);
    pthread_mutex_destroy(&call.lock);
    return status;
}
