/* The queue between all threads and the loop. A call takes a lock, a copy and, when the loop may sleep, one write; what follows a
 * request (tokens taken, an abort) has its place in the request itself, so that it is never refused. */
#define _DEFAULT_SOURCE /* explicit_bzero */
#include <stdlib.h>
#include <unistd.h>

#include "control/core/internal.h"

/* --- frames ---------------------------------------------------------------------------------------------------------------------- */

struct said *said_create(enum wire_kind kind, const void *body, const int *descriptors, uint32_t descriptors_count)
{
    static _Thread_local uint8_t bytes[WIRE_BODY_BYTES_MAX];
    struct said *said = NULL;
    size_t count = 0;

    if (descriptors_count <= WIRE_DESCRIPTORS_MAX && wire_body_write(kind, body, bytes, sizeof(bytes), &count) == STATUS_OK)
        said = calloc(1, sizeof(*said) + count);
    if (said != NULL) {
        said->kind = kind;
        said->bytes = count;
        memcpy(said->body, bytes, count);
        said->descriptors_count = descriptors_count;
        if (descriptors_count > 0)
            memcpy(said->descriptors, descriptors, descriptors_count * sizeof(descriptors[0]));
    }
    explicit_bzero(bytes, count); /* grants */
    return said;
}

void said_free(struct said *said, bool descriptors_too)
{
    for (uint32_t i = 0; said != NULL && descriptors_too && i < said->descriptors_count; i++)
        close(said->descriptors[i]);
    if (said != NULL)
        explicit_bzero(said->body, said->bytes);
    free(said);
}

/* --- the queue ------------------------------------------------------------------------------------------------------------------- */

/* Under the lock: whether the caller is to wake() once it has let go. The loop wants the lock as soon as it is awake, and a thread that
 * stands back (the database's writer) might hold it for as long as others want the core; nor is one that is about to relied on. */
static bool must_wake(struct core *core)
{
    if (core->is_woken && atomic_load(&core->wakers) == 0)
        return false;
    core->is_woken = true;
    atomic_fetch_add(&core->wakers, 1);
    return true;
}

/* The loop may be over by now, but core_close() waits for this. */
static void wake(struct core *core)
{
    const uint64_t one = 1;

    check(write(core->wake, &one, sizeof(one)) == sizeof(one));
    atomic_fetch_sub(&core->wakers, 1);
}

/* As must_wake(). */
static bool append(struct core *core, struct call *call)
{
    call->next = NULL;
    *core->calls_end = call;
    core->calls_end = &call->next;
    return must_wake(core);
}

static enum status may_push(const struct core *core)
{
    if (core->is_closed)
        return STATUS_END;
    return core->calls_count < core->config.queue_max ? STATUS_OK : STATUS_FULL;
}

enum status calls_push(struct core *core, struct call *call, bool bounded)
{
    enum status status = STATUS_OK;
    bool wakes = false;

    pthread_mutex_lock(&core->lock);
    if (bounded)
        status = may_push(core);
    if (status == STATUS_OK) {
        core->calls_count += bounded;
        wakes = append(core, call);
    }
    pthread_mutex_unlock(&core->lock);
    if (wakes)
        wake(core);
    return status;
}

struct call *calls_take(struct core *core)
{
    struct call *calls;

    pthread_mutex_lock(&core->lock);
    calls = core->calls;
    core->calls = NULL;
    core->calls_end = &core->calls;
    core->calls_count = 0;
    core->is_woken = false;
    pthread_mutex_unlock(&core->lock);
    return calls;
}

static enum status push_copy(struct core *core, const struct call *call)
{
    struct call *copy = malloc(sizeof(*copy));
    enum status status;

    if (copy == NULL)
        return STATUS_FULL;
    *copy = *call;
    status = calls_push(core, copy, true);
    if (status != STATUS_OK) {
        explicit_bzero(copy->key, sizeof(copy->key));
        free(copy);
    }
    return status;
}

/* --- the driver's ---------------------------------------------------------------------------------------------------------------- */

enum status core_tell(struct core *core, const struct fleet_event *event)
{
    return push_copy(core, &(struct call){.kind = CALL_TELL, .event = *event});
}

enum status core_restored(struct core *core)
{
    return push_copy(core, &(struct call){.kind = CALL_RESTORED});
}

static enum status push_said(struct core *core, struct call call, enum wire_kind kind, const void *body, const int *descriptors,
                             uint32_t descriptors_count)
{
    enum status status;

    call.said = said_create(kind, body, descriptors, descriptors_count);
    if (call.said == NULL)
        return STATUS_INVALID;
    status = push_copy(core, &call);
    if (status != STATUS_OK)
        said_free(call.said, false);
    return status;
}

enum status core_launch(struct core *core, const struct core_launch *launch)
{
    return push_said(core, (struct call){.kind = CALL_LAUNCH, .launch = launch->launch, .number = launch->launch.worker}, WIRE_START,
                     &launch->start, launch->descriptors, launch->descriptors_count);
}

enum status core_say(struct core *core, uint64_t worker, enum wire_kind kind, const void *body, const int *descriptors,
                     uint32_t descriptors_count)
{
    return push_said(core, (struct call){.kind = CALL_SAY, .number = worker}, kind, body, descriptors, descriptors_count);
}

enum status core_commit(struct core *core, uint64_t worker, uint64_t seq)
{
    return push_copy(core, &(struct call){.kind = CALL_COMMIT, .number = worker, .seq = seq});
}

enum status core_end(struct core *core, uint64_t worker, bool at_once)
{
    return push_copy(core, &(struct call){.kind = CALL_END, .number = worker, .at_once = at_once});
}

enum status core_forget(struct core *core, uint64_t worker)
{
    return push_copy(core, &(struct call){.kind = CALL_FORGET, .number = worker});
}

enum status core_fetched(struct core *core, uint64_t fetch, enum status status, const uint8_t key[32], int object)
{
    struct call call = {.kind = CALL_FETCHED, .number = fetch, .status = status, .descriptor = -1};
    enum status pushed;

    if (status == STATUS_OK) {
        memcpy(call.key, key, sizeof(call.key));
        call.descriptor = object;
    }
    pushed = push_copy(core, &call);
    explicit_bzero(call.key, sizeof(call.key));
    return pushed;
}

enum status core_notice(struct core *core, uint32_t devices, uint32_t after_ms)
{
    return push_copy(core, &(struct call){.kind = CALL_NOTICE, .number = devices, .after_ms = after_ms});
}

/* --- the API's ------------------------------------------------------------------------------------------------------------------- */

struct request *request_create(const struct core_ask *ask)
{
    const size_t settings = strlen(ask->settings) + 1;
    const size_t account = strlen(ask->account) + 1;
    const size_t prompt = (size_t)ask->prompt_tokens * sizeof(ask->prompt[0]);
    struct request *request = calloc(1, sizeof(*request) + prompt + settings + account);
    uint8_t *at = (uint8_t *)(request + 1);

    if (request == NULL)
        return NULL;
    request->base = ask->base;
    request->tenant = ask->tenant;
    request->prompt_tokens = ask->prompt_tokens;
    request->max_tokens = ask->max_tokens;
    request->owner = ask->owner;
    request->tokens = ask->tokens;
    request->end = ask->end;
    request->has_adapter = ask->adapter != NULL;
    if (ask->adapter != NULL)
        request->info = *ask->adapter;
    memcpy(at, ask->prompt, prompt);
    memcpy(at + prompt, ask->settings, settings);
    memcpy(at + prompt + settings, ask->account, account);
    request->prompt = (const int32_t *)(const void *)at;
    request->settings = (const char *)at + prompt;
    request->account = (const char *)at + prompt + settings;
    return request;
}

/* Ids of two lives of the control plane differ, since a server may tell of the last one's. */
static request_id draw_id(struct core *core, uint32_t slot)
{
    return request_id_make((core->config.epoch & 0x3fff) << 30 | (++core->ordinal & 0x3fffffff), slot);
}

enum status core_ask(struct core *core, const struct core_ask *ask, uint64_t *ret_request)
{
    struct call *call = calloc(1, sizeof(*call));
    struct request *request = NULL;
    bool wakes = false;
    enum status status;

    check(ask->prompt_tokens >= 1 && ask->max_tokens >= 1);
    if (call != NULL)
        request = request_create(ask);
    if (request == NULL) {
        free(call);
        return STATUS_FULL;
    }
    call->kind = CALL_ASK;
    call->request = request;
    pthread_mutex_lock(&core->lock);
    status = ask->base < core->config.bases_count ? may_push(core) : STATUS_INVALID;
    if (status == STATUS_OK && atomic_load(&core->stop_asked))
        status = STATUS_END;
    if (status == STATUS_OK && core->slots_free_count == 0)
        status = STATUS_FULL;
    if (status == STATUS_OK) {
        const uint32_t slot = core->slots_free[--core->slots_free_count];

        request->id = draw_id(core, slot);
        core->slots[slot] = request;
        core->calls_count++;
        *ret_request = request->id.value; /* before the loop can end it */
        wakes = append(core, call);
    }
    pthread_mutex_unlock(&core->lock);
    if (wakes)
        wake(core);
    if (status != STATUS_OK) {
        free(request);
        free(call);
    }
    return status;
}

static void touch(struct core *core, uint64_t id, uint32_t tokens, bool abort_asked)
{
    const uint32_t slot = request_slot((request_id){id});
    struct request *request;
    bool wakes = false;

    pthread_mutex_lock(&core->lock);
    request = slot < core->config.requests_max ? core->slots[slot] : NULL;
    if (request != NULL && request->id.value == id) {
        request->taken += tokens;
        request->abort_asked |= abort_asked;
        if (!request->is_touched) {
            request->is_touched = true;
            request->next_touched = core->touched;
            core->touched = request;
            wakes = must_wake(core);
        }
    }
    pthread_mutex_unlock(&core->lock);
    if (wakes)
        wake(core);
}

void core_taken(struct core *core, uint64_t request, uint32_t tokens)
{
    touch(core, request, tokens, false);
}

void core_abort(struct core *core, uint64_t request)
{
    touch(core, request, 0, true);
}

/* One of those that were touched, its marks taken; NULL: no more. */
struct request *calls_take_touched(struct core *core)
{
    struct request *request;
    uint64_t taken = 0;
    bool abort_asked = false;

    pthread_mutex_lock(&core->lock);
    request = core->touched;
    if (request != NULL) {
        core->touched = request->next_touched;
        request->is_touched = false;
        taken = request->taken;
        abort_asked = request->abort_asked;
        request->taken = 0;
    }
    pthread_mutex_unlock(&core->lock);
    if (request != NULL)
        request_touched(core, request, taken, abort_asked);
    return request;
}

/* The request is nobody's from here on. */
void core_slot_free(struct core *core, struct request *request)
{
    const uint32_t slot = request_slot(request->id);

    pthread_mutex_lock(&core->lock);
    for (struct request **at = &core->touched; request->is_touched && *at != NULL; at = &(*at)->next_touched) {
        if (*at == request) {
            *at = request->next_touched;
            break;
        }
    }
    core->slots[slot] = NULL;
    core->slots_free[core->slots_free_count++] = slot;
    pthread_mutex_unlock(&core->lock);
    free(request);
}
