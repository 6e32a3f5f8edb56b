#include "worker/loader.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/lora/pack.h"

struct ring {
    struct loader_work *works;
    uint32_t first, count;
};

struct loader {
    const struct model *model;
    struct forward *forward;
    int32_t rank_max;
    uint32_t works_max;
    int event;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t pushed;
    bool closing;
    struct ring asked, done; /* under the mutex */
};

static void ring_put(struct loader *loader, struct ring *ring, const struct loader_work *work)
{
    check(ring->count < loader->works_max);
    ring->works[(ring->first + ring->count++) % loader->works_max] = *work;
}

static bool ring_take(struct loader *loader, struct ring *ring, struct loader_work *ret_work)
{
    if (ring->count == 0)
        return false;
    *ret_work = ring->works[ring->first];
    ring->first = (ring->first + 1) % loader->works_max;
    ring->count--;
    return true;
}

/* --- the thread ------------------------------------------------------------------------------------------------------------- */

static enum status pack(struct loader *loader, struct loader_work *work, const struct peft *peft)
{
    const struct dims *dims = forward_dims(loader->forward);
    enum mode mode = forward_mode(loader->forward);

    if (lora_rank_padded(peft->source.rank) != work->rank) {
        snprintf(work->why, sizeof(work->why), "the adapter has rank %d, which is not what was said of it", peft->source.rank);
        return STATUS_CORRUPT;
    }
    check(lora_pack_bytes(&peft->source, dims, mode) <= work->packed_bytes);
    work->ret_blob = calloc(1, (size_t)work->packed_bytes);
    if (work->ret_blob == NULL) {
        snprintf(work->why, sizeof(work->why), "no memory for an adapter of %lld bytes", (long long)work->packed_bytes);
        return STATUS_FULL;
    }
    lora_pack(&peft->source, dims, mode, forward_b_in_pairs(loader->forward), work->ret_blob);
    work->ret_modules = peft->source.modules;
    return STATUS_OK;
}

static void fetch(struct loader *loader, struct loader_work *work)
{
    struct refusal refusal = {{0}};
    struct adapter_read read;

    work->status = source_read(&work->source, work->digest, &loader->model->config, loader->rank_max, &read, &refusal);
    if (work->status != STATUS_OK) {
        snprintf(work->why, sizeof(work->why), "%.*s", (int)sizeof(work->why) - 1, refusal.text);
        return;
    }
    work->status = pack(loader, work, read.peft);
    source_read_close(&read);
}

static void do_work(struct loader *loader, struct loader_work *work)
{
    if (work->kind == LOADER_FETCH) {
        fetch(loader, work);
        free(work->source.directory);
        work->source.directory = NULL;
        return;
    }
    forward_put(loader->forward, work->offset, work->blob, work->packed_bytes);
    work->status = STATUS_OK;
}

static void *body(void *context)
{
    struct loader *loader = context;
    struct loader_work work;
    const uint64_t one = 1;

    for (;;) {
        pthread_mutex_lock(&loader->mutex);
        while (!loader->closing && loader->asked.count == 0)
            pthread_cond_wait(&loader->pushed, &loader->mutex);
        if (loader->closing) {
            pthread_mutex_unlock(&loader->mutex);
            return NULL;
        }
        ring_take(loader, &loader->asked, &work);
        pthread_mutex_unlock(&loader->mutex);
        do_work(loader, &work);
        pthread_mutex_lock(&loader->mutex);
        ring_put(loader, &loader->done, &work);
        pthread_mutex_unlock(&loader->mutex);
        check(write(loader->event, &one, sizeof(one)) == (ssize_t)sizeof(one));
    }
}

/* --- its caller ------------------------------------------------------------------------------------------------------------- */

struct loader *loader_create(const struct model *model, struct forward *forward, int32_t rank_max, uint32_t works_max)
{
    struct loader *loader = calloc(1, sizeof(*loader));

    if (loader == NULL)
        return NULL;
    loader->model = model;
    loader->forward = forward;
    loader->rank_max = rank_max;
    loader->works_max = works_max;
    loader->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    loader->asked.works = calloc(works_max, sizeof(struct loader_work));
    loader->done.works = calloc(works_max, sizeof(struct loader_work));
    pthread_mutex_init(&loader->mutex, NULL);
    pthread_cond_init(&loader->pushed, NULL);
    if (loader->event >= 0 && loader->asked.works != NULL && loader->done.works != NULL &&
        pthread_create(&loader->thread, NULL, body, loader) == 0)
        return loader;
    if (loader->event >= 0)
        close(loader->event);
    free(loader->asked.works);
    free(loader->done.works);
    free(loader);
    return NULL;
}

void loader_close(struct loader *loader)
{
    struct loader_work work;

    if (loader == NULL)
        return;
    pthread_mutex_lock(&loader->mutex);
    loader->closing = true;
    pthread_cond_signal(&loader->pushed);
    pthread_mutex_unlock(&loader->mutex);
    pthread_join(loader->thread, NULL);
    while (ring_take(loader, &loader->asked, &work))
        free(work.source.directory);
    while (ring_take(loader, &loader->done, &work))
        free(work.ret_blob);
    pthread_cond_destroy(&loader->pushed);
    pthread_mutex_destroy(&loader->mutex);
    close(loader->event);
    free(loader->asked.works);
    free(loader->done.works);
    free(loader);
}

void loader_push(struct loader *loader, const struct loader_work *work)
{
    pthread_mutex_lock(&loader->mutex);
    ring_put(loader, &loader->asked, work);
    pthread_cond_signal(&loader->pushed);
    pthread_mutex_unlock(&loader->mutex);
}

bool loader_take(struct loader *loader, struct loader_work *ret_work)
{
    uint64_t count;
    bool taken;

    /* Emptied first: what is done after it makes the descriptor readable again. */
    (void)!read(loader->event, &count, sizeof(count));
    pthread_mutex_lock(&loader->mutex);
    taken = ring_take(loader, &loader->done, ret_work);
    pthread_mutex_unlock(&loader->mutex);
    return taken;
}

int loader_fd(const struct loader *loader)
{
    return loader->event;
}
