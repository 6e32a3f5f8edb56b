/* What is left of objects: half-made ones of a process that was killed (those of workers apart, which may live on: the driver's), and doomed ones whose destruction was refused by a vault that
 * was asked too much, say. And keys of retries that have expired. */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "control/api/internal.h"
#include "control/metadata/audit.h"
#include "control/metadata/once.h"

#define EVERY_S 5
#define FORGOTTEN_AT_ONCE 1000
#define EXPIRED_AT_ONCE 100

struct sweeper {
    struct api *api;
    struct metadata *metadata;
    pthread_t thread;
    bool runs;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t stop;
    bool stopping;
};

typedef enum status each_object(const struct object_home *home, const char *tenant, const char *id, struct refusal *refusal);

/* One that cannot be destroyed now stays for the next time, and keeps no other. `kind`: NULL, any. */
static enum status sweep(struct sweeper *sweeper, const char *state, const char *kind, each_object *each, struct refusal *refusal)
{
    char after[NAME_BYTES] = "";
    bool more = true;
    enum status status = STATUS_OK;

    while (more && status == STATUS_OK) {
        struct meta_results results = {0};
        struct meta_object *objects = NULL;
        uint32_t count = 0;

        status = meta_object_sweep(sweeper->metadata, state, after, META_PAGE_MAX, &results, &objects, &count, &more, refusal);
        for (uint32_t i = 0; status == STATUS_OK && i < count; i++) {
            struct refusal unheard = {{0}};

            memcpy(after, objects[i].id, strlen(objects[i].id) + 1);
            if (kind == NULL || strcmp(kind, objects[i].kind) == 0)
                (void)each(&sweeper->api->home, objects[i].tenant, objects[i].id, &unheard);
        }
        meta_results_free(&results);
    }
    return status;
}

static enum status forget(struct metadata *metadata, void *context, struct refusal *refusal)
{
    int64_t count;

    (void)context;
    return meta_once_sweep(metadata, api_now_ms(), FORGOTTEN_AT_ONCE, &count, refusal);
}

/* Files whose time is over go as if their owner had deleted them; what they held is doomed with them. */
static enum status expire(struct metadata *metadata, void *context, struct refusal *refusal)
{
    struct meta_results results = {0};
    struct meta_file *files = NULL;
    const int64_t now_ms = api_now_ms();
    uint32_t count = 0;
    enum status status = meta_file_expired(metadata, now_ms, EXPIRED_AT_ONCE, &results, &files, &count, refusal);

    (void)context;
    for (uint32_t i = 0; status == STATUS_OK && i < count; i++) {
        status = meta_file_delete(metadata, files[i].tenant, files[i].id, refusal);
        if (status == STATUS_OK)
            status = meta_audit_add(metadata, files[i].tenant, "expiry", "file.delete", files[i].id, now_ms, refusal);
    }
    meta_results_free(&results);
    return status;
}

/* False: it is to stop. */
static bool wait_a_while(struct sweeper *sweeper)
{
    struct timespec until;
    bool goes_on;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += EVERY_S;
    pthread_mutex_lock(&sweeper->lock);
    while (!sweeper->stopping && pthread_cond_timedwait(&sweeper->stop, &sweeper->lock, &until) != ETIMEDOUT)
        continue;
    goes_on = !sweeper->stopping;
    pthread_mutex_unlock(&sweeper->lock);
    return goes_on;
}

static void *run(void *context)
{
    struct sweeper *sweeper = context;

    while (wait_a_while(sweeper)) {
        struct refusal unheard = {{0}};

        (void)sweep(sweeper, "doomed", NULL, object_destroy, &unheard);
        (void)meta_writer_call(sweeper->api->config.writer, forget, NULL, &unheard);
        (void)meta_writer_call(sweeper->api->config.writer, expire, NULL, &unheard);
    }
    return NULL;
}

enum status sweeper_start(struct api *api, struct refusal *refusal)
{
    struct sweeper *sweeper = calloc(1, sizeof(*sweeper));
    enum status status;

    if (sweeper == NULL)
        return refuse(refusal, STATUS_IO, "no memory for the sweeper");
    api->sweeper = sweeper;
    sweeper->api = api;
    pthread_mutex_init(&sweeper->lock, NULL);
    pthread_cond_init(&sweeper->stop, NULL);
    status = meta_open(&api->config.metadata, &sweeper->metadata, refusal);
    if (status == STATUS_OK)
        status = sweep(sweeper, "writing", OBJECT_FILE, object_undo, refusal);
    if (status == STATUS_OK)
        status = sweep(sweeper, "doomed", NULL, object_destroy, refusal);
    if (status != STATUS_OK)
        return status;
    sweeper->runs = pthread_create(&sweeper->thread, NULL, run, sweeper) == 0;
    return sweeper->runs ? STATUS_OK : refuse(refusal, STATUS_IO, "no thread for the sweeper");
}

void sweeper_stop(struct sweeper *sweeper)
{
    if (sweeper == NULL)
        return;
    pthread_mutex_lock(&sweeper->lock);
    sweeper->stopping = true;
    pthread_cond_signal(&sweeper->stop);
    pthread_mutex_unlock(&sweeper->lock);
    if (sweeper->runs)
        pthread_join(sweeper->thread, NULL);
    meta_close(sweeper->metadata);
    pthread_cond_destroy(&sweeper->stop);
    pthread_mutex_destroy(&sweeper->lock);
    free(sweeper);
}
