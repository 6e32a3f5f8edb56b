/* Requests, from ask to end. One waits for a replica, then at it for its adapter or for room, then it is said, and from there on its
 * tokens are its owner's. What a server that died had not begun goes to another; what had begun is over, and its tokens are billed
 * though the server can no longer say so. */
#define _GNU_SOURCE /* memfd_create */
#include <fcntl.h>
#include <sys/mman.h>
#include <stdlib.h>
#include <unistd.h>

#include "control/core/internal.h"

/* A request that no replica takes waits for one to come up, so long. */
#define PATIENCE_NS (30 * NS_PER_S)
/* Credit is said in such pieces: what is left of CORE_CREDIT_TOKENS meanwhile keeps the server going. */
#define CREDIT_PIECE 64
/* Beside prompt, settings and account. */
#define REQUEST_ROOM 256

/* --- lists ----------------------------------------------------------------------------------------------------------------------- */

static void push(struct request_list *list, struct request *request)
{
    request->prev = list->last;
    request->next = NULL;
    if (list->last != NULL)
        list->last->next = request;
    else
        list->first = request;
    list->last = request;
    list->count++;
}

void request_unlink(struct request_list *list, struct request *request)
{
    if (request->prev != NULL)
        request->prev->next = request->next;
    else
        list->first = request->next;
    if (request->next != NULL)
        request->next->prev = request->prev;
    else
        list->last = request->prev;
    list->count--;
}

static struct request_list *list_of(struct core *core, const struct request *request)
{
    switch ((enum request_state)request->state) {
    case REQUEST_WAITING:
        return &core->waiting;
    case REQUEST_PARKED:
        return &core->servers[request->server].parked;
    case REQUEST_READY:
        return &core->servers[request->server].ready;
    case REQUEST_SENT:
        return &core->servers[request->server].sent;
    case REQUEST_ASKED:
        break;
    }
    return NULL;
}

static void move(struct core *core, struct request *request, enum request_state state)
{
    struct request_list *list = list_of(core, request);

    if (list != NULL)
        request_unlink(list, request);
    request->state = state;
    list = list_of(core, request);
    if (list != NULL)
        push(list, request);
}

static void owe(struct core *core, struct request *request)
{
    struct request_list *list = &core->servers[request->server].owing;

    if (request->is_owing)
        return;
    request->is_owing = true;
    request->next_owing = NULL;
    if (list->last != NULL)
        list->last->next_owing = request;
    else
        list->first = request;
    list->last = request;
    list->count++;
}

static void owe_no_more(struct core *core, struct request *request)
{
    struct request_list *list = &core->servers[request->server].owing;
    struct request *before = NULL;

    if (!request->is_owing)
        return;
    for (struct request *at = list->first; at != request; at = at->next_owing)
        before = at;
    if (before != NULL)
        before->next_owing = request->next_owing;
    else
        list->first = request->next_owing;
    if (list->last == request)
        list->last = before;
    list->count--;
    request->is_owing = false;
}

struct request *request_find(struct core *core, uint64_t id)
{
    const uint32_t slot = request_slot((request_id){id});
    struct request *request;

    if (slot >= core->config.requests_max)
        return NULL;
    pthread_mutex_lock(&core->lock);
    request = core->slots[slot];
    pthread_mutex_unlock(&core->lock);
    return request != NULL && request->id.value == id ? request : NULL;
}

/* --- the end --------------------------------------------------------------------------------------------------------------------- */

void request_leave_server(struct core *core, struct request *request)
{
    owe_no_more(core, request);
    if (request->adapter != 0)
        adapter_unwant(core, &core->servers[request->server], request->adapter);
}

static bool is_at_server(const struct request *request)
{
    return request->state == REQUEST_PARKED || request->state == REQUEST_READY || request->state == REQUEST_SENT;
}

void request_tell_done(struct core *core, const struct request *request, const struct wire_done *done)
{
    struct fleet_event event = host_event(FLEET_EVENT_REQUEST_DONE);

    event.request_done.request = request->id;
    event.request_done.replica = core->servers[request->server].replica;
    if (done != NULL) {
        event.request_done.prompt_tokens = done->prompt_tokens;
        event.request_done.output_tokens = done->output_tokens;
        event.request_done.tier_found = (uint16_t)min_u32(done->tier_found, TIER_STORE);
        event.request_done.compute_ns = (int64_t)min_u64(done->compute_ns, INT64_MAX);
    }
    host_tell(core, &event);
}

/* The last that is heard of it. */
void request_finish(struct core *core, struct request *request, const struct core_end *end)
{
    core->counts.output_tokens += end->output_tokens;
    core->counts.prompt_tokens += end->prompt_tokens;
    core->counts.requests--;
    if (request->adapter != 0)
        adapter_give(core, request->adapter);
    request->end(request->owner, end);
    core_slot_free(core, request);
}

/* Of one that no server has begun. */
void request_end_early(struct core *core, struct request *request, enum core_end_reason reason, const char *why)
{
    const struct core_end end = {.reason = reason, .text = why, .text_bytes = strlen(why)};
    const bool was_routed = is_at_server(request);

    if (was_routed)
        request_leave_server(core, request);
    if (was_routed)
        request_tell_done(core, request, NULL);
    move(core, request, REQUEST_ASKED);
    core->counts.refused += reason == CORE_END_REFUSED || reason == CORE_END_BUSY;
    request_finish(core, request, &end);
}

/* --- routing --------------------------------------------------------------------------------------------------------------------- */

static void wait_for_replica(struct core *core, struct request *request)
{
    request->give_up_at_ns = core->now_ns + PATIENCE_NS;
    move(core, request, REQUEST_WAITING);
}

void request_ask(struct core *core, struct request *request)
{
    struct fleet_event event = host_event(FLEET_EVENT_REQUEST);

    if (!core->is_running) {
        wait_for_replica(core, request);
        return;
    }
    move(core, request, REQUEST_ASKED);
    event.request.request = request->id;
    if (request->adapter != 0)
        event.request.adapter = (adapter_id){request->adapter, core->adapters[request->adapter].version};
    event.request.tenant.value = request->tenant;
    event.request.prompt_tokens = request->prompt_tokens;
    event.request.output_tokens_max = request->max_tokens;
    event.request.base.value = (uint16_t)request->base;
    host_tell(core, &event);
}

void request_asked(struct core *core, struct request *request)
{
    enum status status = STATUS_OK;

    core->counts.requests++;
    if (request->prompt_tokens + (uint64_t)request->max_tokens > core->bases[request->base].positions_max) {
        request_end_early(core, request, CORE_END_REFUSED, "prompt and max_tokens together are longer than the model's context");
        return;
    }
    if (request->has_adapter)
        status = adapter_take(core, &request->info, &request->adapter);
    if (status == STATUS_FULL)
        request_end_early(core, request, CORE_END_BUSY, "too many models are in use at once");
    else if (status != STATUS_OK)
        request_end_early(core, request, CORE_END_REFUSED, "the model cannot be told from another");
    else
        request_ask(core, request);
}

void request_routed(struct core *core, const struct fleet_command *command)
{
    struct request *request = request_find(core, command->route.request.value);
    struct server *server = &core->servers[replica_index(command->route.replica)];
    bool is_there = true;

    check(request != NULL && request->state == REQUEST_ASKED);
    core->counts.routed++;
    request->server = server->index;
    if (request->adapter != 0)
        is_there = adapter_want(core, server, request->adapter);
    move(core, request, is_there ? REQUEST_READY : REQUEST_PARKED);
    if (request->is_aborted)
        request_end_early(core, request, CORE_END_CANCELLED, "");
}

void request_refused(struct core *core, const struct fleet_command *command)
{
    struct request *request = request_find(core, command->refuse.request_or_job);

    check(request != NULL && request->state == REQUEST_ASKED);
    if (request->is_aborted)
        request_end_early(core, request, CORE_END_CANCELLED, "");
    else if (command->reason == FLEET_REFUSE_NO_REPLICA)
        wait_for_replica(core, request);
    else
        request_end_early(core, request, CORE_END_BUSY, "too many models are in use at once");
}

void requests_ask_again(struct core *core, uint32_t base)
{
    uint32_t left = core->waiting.count; /* who is refused again goes to the end */

    for (struct request *request = core->waiting.first, *next; core->is_running && request != NULL && left > 0; request = next, left--) {
        next = request->next;
        if (base == NONE_INDEX || request->base == base)
            request_ask(core, request);
    }
}

/* In the order in which they began to wait, so the first is the first to give up. */
void requests_give_up(struct core *core, bool all)
{
    while (core->waiting.first != NULL && (all || core->waiting.first->give_up_at_ns <= core->now_ns))
        request_end_early(core, core->waiting.first, CORE_END_BUSY, "no server of this model is up now");
}

int64_t requests_due_ns(const struct core *core)
{
    return core->waiting.first != NULL ? core->waiting.first->give_up_at_ns : NEVER_NS;
}

/* --- adapters that come or not ----------------------------------------------------------------------------------------------------- */

void requests_adapter_there(struct core *core, struct server *server, uint32_t adapter)
{
    for (struct request *request = server->parked.first, *next; request != NULL; request = next) {
        next = request->next;
        if (request->adapter == adapter)
            move(core, request, REQUEST_READY);
    }
}

static void fail_those(struct core *core, struct request_list *list, uint32_t adapter, const char *why)
{
    for (struct request *request = list->first, *next; request != NULL; request = next) {
        next = request->next;
        if (request->adapter == adapter)
            request_end_early(core, request, CORE_END_REFUSED, why);
    }
}

void requests_adapter_failed(struct core *core, struct server *server, uint32_t adapter, enum status status)
{
    const char *why = status == STATUS_NOT_FOUND ? "the model is no longer there" : "the model cannot be loaded now";

    fail_those(core, &server->parked, adapter, why);
    fail_those(core, &server->ready, adapter, why);
}

/* --- to the server --------------------------------------------------------------------------------------------------------------- */

/* Ids in a file that nobody can change any more; -1: the machine refuses. */
static int prompt_file(const struct request *request)
{
    const size_t bytes = (size_t)request->prompt_tokens * sizeof(request->prompt[0]);
    const int file = memfd_create("prompt", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (file < 0)
        return -1;
    if (write(file, request->prompt, bytes) == (ssize_t)bytes &&
        fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) == 0)
        return file;
    close(file);
    return -1;
}

static bool fits_frame(const struct request *request)
{
    return (size_t)request->prompt_tokens * sizeof(request->prompt[0]) + strlen(request->settings) + strlen(request->account) +
               REQUEST_ROOM <= WIRE_BODY_BYTES_MAX;
}

static enum status say(struct core *core, struct server *server, struct wire *wire, struct request *request)
{
    struct wire_request said = {.request = request->id.value,
                                .tenant = request->tenant,
                                .credit_tokens = min_u32(CORE_CREDIT_TOKENS, request->max_tokens),
                                .max_tokens = request->max_tokens,
                                .account_count = (uint32_t)strlen(request->account),
                                .account = (const uint8_t *)request->account,
                                .settings_count = (uint32_t)strlen(request->settings),
                                .settings = (const uint8_t *)request->settings};
    enum status status;
    int file = -1;

    if (request->adapter != 0) {
        memcpy(said.digest, core->adapters[request->adapter].info.key, sizeof(said.digest));
        said.generation = server->known[request->adapter].generation;
    }
    if (fits_frame(request)) {
        said.prompt_count = request->prompt_tokens;
        said.prompt = (const uint8_t *)request->prompt; /* little-endian, as this machine is */
    } else if ((file = prompt_file(request)) < 0) {
        return STATUS_IO;
    }
    status = wire_say(wire, WIRE_REQUEST, &said, 0, &file, file >= 0 ? 1 : 0);
    if (status != STATUS_OK && file >= 0)
        close(file);
    request->credited = said.credit_tokens;
    return status;
}

static void say_ready(struct core *core, struct server *server, struct wire *wire)
{
    while (server->ready.first != NULL && wire_state(wire).requests < core->config.server_requests_max) {
        struct request *request = server->ready.first;
        const enum status status = say(core, server, wire, request);

        if (status == STATUS_FULL || status == STATUS_END)
            return;
        if (status == STATUS_OK)
            move(core, request, REQUEST_SENT);
        else
            request_end_early(core, request, CORE_END_BUSY, "the server is out of memory");
    }
}

/* False: no room now. */
static bool say_owed(struct wire *wire, struct request *request)
{
    enum status status = STATUS_OK;

    if (request->is_aborted && !request->abort_said) {
        status = wire_say(wire, WIRE_ABORT, &(struct wire_abort){.request = request->id.value}, 0, NULL, 0);
        request->abort_said = status != STATUS_FULL;
    }
    if (!request->is_aborted && request->credit_owed > 0) {
        const uint32_t tokens = (uint32_t)min_u64(request->credit_owed, request->max_tokens);

        status = wire_say(wire, WIRE_CREDIT, &(struct wire_credit){.request = request->id.value, .tokens = tokens}, 0, NULL, 0);
        if (status != STATUS_FULL) {
            request->credited += tokens;
            request->credit_owed -= tokens;
        }
    }
    return status != STATUS_FULL;
}

void requests_say(struct core *core, struct server *server, struct wire *wire)
{
    struct request_list *owing = &server->owing;

    while (owing->first != NULL) {
        struct request *request = owing->first;

        if (!say_owed(wire, request))
            return;
        owe_no_more(core, request);
    }
    say_ready(core, server, wire);
}

/* Credit stays what it was at first: tokens taken are given anew, until all that may come is covered. */
void request_touched(struct core *core, struct request *request, uint64_t taken, bool abort_asked)
{
    request->credit_owed += taken;
    if (abort_asked && !request->is_aborted) {
        request->is_aborted = true;
        if (request->state == REQUEST_SENT)
            owe(core, request);
        else if (request->state != REQUEST_ASKED)
            request_end_early(core, request, CORE_END_CANCELLED, "");
        return;
    }
    if (request->state == REQUEST_SENT && request->credit_owed >= CREDIT_PIECE && request->credited < request->max_tokens)
        owe(core, request);
}

/* --- from the server ------------------------------------------------------------------------------------------------------------- */

/* The wire has seen to it that it was asked of this server. */
static struct request *sent_find(struct core *core, const struct server *server, uint64_t id)
{
    struct request *request = request_find(core, id);

    return request != NULL && request->state == REQUEST_SENT && request->server == server->index ? request : NULL;
}

void request_tokens(struct core *core, struct server *server, const struct wire_tokens *tokens)
{
    struct request *request = sent_find(core, server, tokens->request);

    if (request == NULL || request->is_aborted)
        return;
    request->sent_tokens += tokens->tokens_count;
    request->tokens(request->owner, tokens);
}

static enum core_end_reason reason_of(const struct request *request, const struct wire_done *done)
{
    if (request->is_aborted)
        return CORE_END_CANCELLED;
    if (done->finish == CORE_END_REFUSED && done->code == STATUS_FULL)
        return CORE_END_BUSY;
    return done->finish <= CORE_END_REFUSED ? (enum core_end_reason)done->finish : CORE_END_REFUSED;
}

void request_done(struct core *core, struct server *server, const struct wire_done *done)
{
    struct request *request = sent_find(core, server, done->request);
    struct core_end end = {.prompt_tokens = done->prompt_tokens,
                           .output_tokens = done->output_tokens,
                           .first_token_ns = (int64_t)min_u64(done->first_token_ns, INT64_MAX),
                           .text = (const char *)done->text,
                           .text_bytes = done->text_count};

    if (request == NULL)
        return;
    end.reason = reason_of(request, done);
    request_leave_server(core, request);
    request_tell_done(core, request, done);
    move(core, request, REQUEST_ASKED);
    core->counts.refused += end.reason == CORE_END_REFUSED || end.reason == CORE_END_BUSY;
    request_finish(core, request, &end);
}

void request_used(struct core *core, uint64_t id)
{
    struct request *request = request_find(core, id);

    if (request != NULL)
        request->is_billed = true;
}
