/* What other threads say, copied and in their order. A `latest` frame may be left out when much waits, and a row's change too: a look at
 * all rows finds it. The rest is what the core took from its workers or says itself; it is bounded by what workers may have uncommitted
 * and by the jobs and loads that the core knows, so a full inbox is a fault, and a control plane that ends hears all of it anew. */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "control/driver/internal.h"

void inbox_init(struct inbox *inbox)
{
    pthread_condattr_t monotonic;

    pthread_mutex_init(&inbox->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&inbox->come, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

void inbox_free(struct inbox *inbox)
{
    while (inbox->first != NULL) {
        struct letter *letter = inbox->first;

        inbox->first = letter->next;
        free(letter);
    }
    pthread_cond_destroy(&inbox->come);
    pthread_mutex_destroy(&inbox->lock);
}

/* The lock is held. */
static void put(struct inbox *inbox, struct letter *letter)
{
    check(inbox->count < INBOX_MAX);
    if (inbox->last != NULL)
        inbox->last->next = letter;
    else
        inbox->first = letter;
    inbox->last = letter;
    inbox->count++;
    pthread_cond_broadcast(&inbox->come);
}

static struct letter *copy_of(const struct core_heard *heard)
{
    const size_t count = heard->kind == CORE_HEARD_FRAME ? heard->frame_count : 0;
    struct letter *letter = calloc(1, sizeof(*letter) + count);

    check(letter != NULL);
    letter->heard = *heard;
    letter->bytes_count = count;
    if (count > 0)
        memcpy(letter->bytes, heard->frame_bytes, count);
    if (heard->kind == CORE_HEARD_COMMAND)
        letter->command = *heard->command;
    if (heard->kind == CORE_HEARD_FETCH)
        letter->adapter = *heard->adapter;
    letter->heard.command = &letter->command;
    letter->heard.adapter = &letter->adapter;
    letter->heard.frame = &letter->frame;
    letter->heard.frame_bytes = letter->bytes;
    if (count > 0) {
        letter->frame.header = heard->frame->header;
        check(count >= WIRE_HEADER_BYTES && wire_body_read(letter->frame.header.kind, letter->bytes + WIRE_HEADER_BYTES,
                                                           count - WIRE_HEADER_BYTES, &letter->frame.body) == STATUS_OK);
    }
    return letter;
}

static bool may_drop(const struct core_heard *heard)
{
    return heard->kind == CORE_HEARD_FRAME && wire_kind_info(heard->frame->header.kind)->class == WIRE_CLASS_LATEST;
}

void driver_hears(void *context, const struct core_heard *heard)
{
    struct inbox *inbox = &((struct driver *)context)->inbox;

    pthread_mutex_lock(&inbox->lock);
    if (heard->kind == CORE_HEARD_FOUND) {
        check(inbox->found_count < FOUND_MAX);
        inbox->found[inbox->found_count++] = heard->launch;
    } else if (heard->kind == CORE_HEARD_LISTED) {
        inbox->listed = true;
        pthread_cond_broadcast(&inbox->come);
    } else if (!may_drop(heard) || inbox->count < INBOX_LATEST) {
        put(inbox, copy_of(heard));
    }
    pthread_mutex_unlock(&inbox->lock);
}

static void changed(struct driver *driver, enum letter_kind kind, const char *tenant, const char *id)
{
    struct inbox *inbox = &driver->inbox;
    struct letter *letter;

    pthread_mutex_lock(&inbox->lock);
    if (inbox->count < INBOX_LATEST || kind == LETTER_TENANT) {
        letter = calloc(1, sizeof(*letter));
        check(letter != NULL);
        letter->kind = kind;
        memcpy(letter->tenant, tenant, strlen(tenant) + 1);
        memcpy(letter->id, id, strlen(id) + 1);
        put(inbox, letter);
    } else {
        inbox->look = true;
    }
    pthread_mutex_unlock(&inbox->lock);
}

void driver_file_changed(struct driver *driver, const char *tenant, const char *file)
{
    changed(driver, LETTER_FILE, tenant, file);
}

void driver_job_changed(struct driver *driver, const char *tenant, const char *job)
{
    changed(driver, LETTER_JOB, tenant, job);
}

void driver_tenant_changed(struct driver *driver, const char *tenant)
{
    changed(driver, LETTER_TENANT, tenant, tenant);
}

static struct timespec time_of(int64_t at_ns)
{
    return (struct timespec){at_ns / NS_PER_S, at_ns % NS_PER_S};
}

struct letter *inbox_take(struct inbox *inbox, int64_t until_ns)
{
    const struct timespec until = time_of(until_ns);
    struct letter *letter;
    int code = 0;

    pthread_mutex_lock(&inbox->lock);
    while (inbox->first == NULL && !inbox->stopping && !inbox->look && code != ETIMEDOUT)
        code = pthread_cond_timedwait(&inbox->come, &inbox->lock, &until);
    letter = inbox->stopping ? NULL : inbox->first;
    if (letter != NULL) {
        inbox->first = letter->next;
        inbox->count--;
        if (inbox->first == NULL)
            inbox->last = NULL;
    }
    pthread_mutex_unlock(&inbox->lock);
    return letter;
}

bool inbox_is_empty(struct inbox *inbox)
{
    bool empty;

    pthread_mutex_lock(&inbox->lock);
    empty = inbox->first == NULL;
    pthread_mutex_unlock(&inbox->lock);
    return empty;
}

bool inbox_wait_listed(struct inbox *inbox, int64_t until_ns)
{
    const struct timespec until = time_of(until_ns);
    bool listed;
    int code = 0;

    pthread_mutex_lock(&inbox->lock);
    while (!inbox->listed && !inbox->stopping && code != ETIMEDOUT)
        code = pthread_cond_timedwait(&inbox->come, &inbox->lock, &until);
    listed = inbox->listed;
    pthread_mutex_unlock(&inbox->lock);
    return listed;
}

void inbox_stop(struct inbox *inbox)
{
    pthread_mutex_lock(&inbox->lock);
    inbox->stopping = true;
    pthread_cond_broadcast(&inbox->come);
    pthread_mutex_unlock(&inbox->lock);
}
