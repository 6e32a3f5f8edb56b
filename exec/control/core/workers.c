/* Workers of all kinds: the launcher's news, their sockets and wires. A worker is gone when the launcher has reaped it and its socket was
 * read to the end; what it said last is heard before that. */
#define _DEFAULT_SOURCE
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "control/core/internal.h"

#define SERVER_LEASE_MS 15000u
#define LEASE_MS 60000u
/* A server's loop always turns; one that is silent for so long does no more. */
#define SILENCE_NS (60 * NS_PER_S)
#define QUEUE_BYTES (1u << 20)
/* Packets read of one worker before the next one's. */
#define PACKETS_MAX 64
/* A launcher that took no more is asked again. */
#define AGAIN_NS (100 * NS_PER_MS)
#define SAYS_MAX 256

/* --- the table ------------------------------------------------------------------------------------------------------------------- */

struct worker_link *worker_link_find(struct core *core, uint64_t worker)
{
    const uint32_t index = table_find(&core->worker_of, worker);

    return index != NONE_INDEX ? core->workers[index] : NULL;
}

struct worker_link *worker_link_add(struct core *core, const struct launch *launch, enum worker_phase phase)
{
    struct worker_link *worker;
    uint32_t index = 0;

    while (index < WORKERS_MAX && core->workers[index] != NULL)
        index++;
    if (index == WORKERS_MAX || table_find(&core->worker_of, launch->worker) != NONE_INDEX)
        return NULL;
    worker = calloc(1, sizeof(*worker));
    check(worker != NULL);
    worker->launch = *launch;
    worker->phase = phase;
    worker->socket = -1;
    worker->server = NONE_INDEX;
    worker->says_end = &worker->says;
    core->workers[index] = worker;
    table_insert(&core->worker_of, launch->worker, index);
    return worker;
}

static void unwatch(struct core *core, struct worker_link *worker)
{
    if (worker->watched != 0)
        check(epoll_ctl(core->epoll, EPOLL_CTL_DEL, worker->socket, NULL) == 0);
    worker->watched = 0;
}

static void close_socket(struct core *core, struct worker_link *worker)
{
    if (worker->socket < 0)
        return;
    unwatch(core, worker);
    close(worker->socket);
    worker->socket = -1;
}

static void drop_says(struct worker_link *worker)
{
    while (worker->says != NULL) {
        struct said *said = worker->says;

        worker->says = said->next;
        said_free(said, true);
    }
    worker->says_end = &worker->says;
    worker->says_count = 0;
}

void worker_link_free(struct core *core, struct worker_link *worker)
{
    const uint32_t index = table_find(&core->worker_of, worker->launch.worker);

    close_socket(core, worker);
    drop_says(worker);
    wire_end(worker->wire);
    free(worker->wire);
    free(worker->tells);
    table_remove(&core->worker_of, worker->launch.worker);
    core->workers[index] = NULL;
    free(worker);
}

/* --- talk ------------------------------------------------------------------------------------------------------------------------ */

static bool is_server(const struct worker_link *worker)
{
    return worker->launch.kind == CORE_SERVER;
}

static void talk(struct core *core, struct worker_link *worker, uint64_t committed_seq)
{
    const struct wire_config config = {.side = WIRE_SIDE_CONTROL,
                                       .worker = worker->launch.worker,
                                       .attempt = worker->launch.attempt,
                                       .queue_bytes = QUEUE_BYTES,
                                       .requests_max = is_server(worker) ? core->config.server_requests_max : 1,
                                       .epoch = core->config.epoch,
                                       .lease_ms = is_server(worker) ? SERVER_LEASE_MS : LEASE_MS,
                                       .committed_seq = committed_seq,
                                       .is_adopted = worker->is_found && !worker->is_dead,
                                       .is_dead = worker->is_dead,
                                       .uncommitted_max = is_server(worker) ? SERVER_UNCOMMITTED_MAX : UNCOMMITTED_MAX};
    const size_t bytes = wire_bytes(&config);
    void *memory = malloc(bytes);

    check(memory != NULL);
    worker->wire = wire_create(memory, bytes, &config);
    worker->phase = WORKER_TALKS;
}

static void worker_frame(struct core *core, struct worker_link *worker, const struct wire_frame *frame)
{
    if (is_server(worker))
        server_frame(core, worker, frame);
    else
        driven_frame(core, worker, frame);
}

static void overs(struct core *core, struct worker_link *worker)
{
    char id[NAME_BYTES];

    core_worker_id(worker->launch.worker, id);
    core_log(core, "act=worker-fault worker=%s fault=%u", id, (unsigned)wire_state(worker->wire).fault);
    (void)wire_flush(worker->wire, worker->socket, core->now_ns); /* KILL */
    worker->is_over = true;
    worker_link_end(core, worker, true);
}

void worker_link_hear(struct core *core, struct worker_link *worker)
{
    for (uint32_t i = 0; i < PACKETS_MAX && worker->socket >= 0 && !worker->is_over && !worker->is_held && wire_wants_input(worker->wire); i++) {
        struct wire_frame frame;
        const enum wire_received received = wire_receive(worker->wire, worker->socket, core->now_ns, &core->inbox, &frame);

        switch (received) {
        case WIRE_RECEIVED_FRAME:
            worker_frame(core, worker, &frame);
            wire_inbox_close(&core->inbox);
            break;
        case WIRE_RECEIVED_NOTHING:
            break;
        case WIRE_RECEIVED_OVER:
            overs(core, worker);
            return;
        case WIRE_RECEIVED_EMPTY:
            return;
        case WIRE_RECEIVED_END:
            close_socket(core, worker);
            return;
        }
    }
}

static void try_end(struct core *core, struct worker_link *worker)
{
    const enum status status = core->config.launcher->table->end(core->config.launcher, worker->launch.worker, worker->end_at_once);

    worker->end_wanted = status == STATUS_FULL;
    core->launcher_gone |= status == STATUS_IO;
}

void worker_link_end(struct core *core, struct worker_link *worker, bool at_once)
{
    worker->end_at_once |= at_once;
    if (!worker->has_exited)
        try_end(core, worker);
}

void worker_link_forget(struct core *core, struct worker_link *worker)
{
    const enum status status = core->config.launcher->table->forget(core->config.launcher, worker->launch.worker);

    worker->forget_wanted = status == STATUS_FULL;
    core->launcher_gone |= status == STATUS_IO;
    if (!worker->forget_wanted)
        worker_link_free(core, worker);
}

void worker_link_say(struct core *core, struct worker_link *worker, struct said *said)
{
    if (worker->is_over || worker->has_exited || worker->is_dead) {
        said_free(said, true);
        return;
    }
    said->next = NULL;
    *worker->says_end = said;
    worker->says_end = &said->next;
    if (++worker->says_count > SAYS_MAX) { /* it doesn't read */
        worker->is_over = true;
        worker_link_end(core, worker, true);
    }
}

/* In their order; what there is no room for waits. */
static void say_waiting(struct worker_link *worker)
{
    while (worker->says != NULL && wire_state(worker->wire).is_open) {
        struct said *said = worker->says;
        union wire_body body;
        enum status status;

        check(wire_body_read(said->kind, said->body, said->bytes, &body) == STATUS_OK);
        status = wire_say(worker->wire, said->kind, &body, 0, said->descriptors, said->descriptors_count);
        if (status == STATUS_FULL)
            return;
        worker->says = said->next;
        worker->says_count--;
        if (worker->says == NULL)
            worker->says_end = &worker->says;
        said_free(said, status != STATUS_OK);
    }
}

static void watch(struct core *core, struct worker_link *worker)
{
    const uint32_t events = (!worker->is_over && !worker->is_held && wire_wants_input(worker->wire) ? EPOLLIN : 0) | (worker->wants_output ? EPOLLOUT : 0);
    struct epoll_event event = {.events = events, .data.u64 = worker->launch.worker};

    if (events == worker->watched)
        return;
    /* Of nothing, too, epoll would tell that the other end is closed, again and again. */
    if (events == 0)
        unwatch(core, worker);
    else
        check(epoll_ctl(core->epoll, worker->watched == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, worker->socket, &event) == 0);
    worker->watched = events;
}

static void beat(struct core *core, struct worker_link *worker)
{
    const struct wire_state state = wire_state(worker->wire);

    if (core->now_ns >= state.beat_due_at_ns)
        (void)wire_say(worker->wire, WIRE_LEASE, &(struct wire_lease){.lease_ms = is_server(worker) ? SERVER_LEASE_MS : LEASE_MS}, 0,
                       NULL, 0);
    if (worker->server != NONE_INDEX && core->servers[worker->server].is_ready && !worker->is_over &&
        core->now_ns - state.heard_at_ns > SILENCE_NS) {
        char id[NAME_BYTES];

        core_worker_id(worker->launch.worker, id);
        core_log(core, "act=worker-silent worker=%s", id);
        worker->is_over = true;
        worker_link_end(core, worker, true);
    }
}

static void send_all(struct core *core, struct worker_link *worker)
{
    const enum status status = worker->is_over ? STATUS_END : wire_flush(worker->wire, worker->socket, core->now_ns);

    worker->wants_output = status == STATUS_FULL;
}

static void leave(struct core *core, struct worker_link *worker)
{
    worker->is_gone = true;
    close_socket(core, worker);
    drop_says(worker);
    if (is_server(worker))
        server_gone(core, worker);
    else
        driven_heard(core, &(struct core_heard){.kind = CORE_HEARD_EXITED, .launch = worker->launch, .end = worker->end});
}

void worker_link_turn(struct core *core, struct worker_link *worker)
{
    if (worker->forget_wanted) {
        worker_link_forget(core, worker);
        return;
    }
    if (worker->end_wanted && !worker->has_exited)
        try_end(core, worker);
    if (worker->phase != WORKER_TALKS)
        return;
    if (worker->socket >= 0 && !worker->is_dead && !worker->is_over) {
        beat(core, worker);
        say_waiting(worker);
        if (is_server(worker))
            server_turn(core, worker);
        send_all(core, worker);
    }
    if (is_server(worker))
        server_tells_turn(core, worker);
    if (worker->socket >= 0)
        watch(core, worker);
    if (worker->has_exited && !worker->is_gone && (worker->socket < 0 || worker->is_over))
        leave(core, worker);
}

int64_t worker_link_due_ns(const struct core *core, const struct worker_link *worker)
{
    int64_t due_ns = NEVER_NS;

    if (worker->forget_wanted || (worker->end_wanted && !worker->has_exited))
        return core->now_ns + AGAIN_NS;
    if (worker->tells_count > 0 && !worker->is_telling && !worker->is_ending)
        due_ns = worker->tells_due_ns;
    if (worker->phase == WORKER_TALKS && worker->socket >= 0 && !worker->is_over)
        due_ns = min_i64(due_ns, wire_state(worker->wire).beat_due_at_ns);
    return due_ns;
}

/* --- the launcher's news --------------------------------------------------------------------------------------------------------- */

static void started(struct core *core, const struct launcher_event *event)
{
    struct worker_link *worker = worker_link_find(core, event->launch.worker);

    if (worker == NULL || worker->phase != WORKER_ASKED) {
        if (event->socket >= 0)
            close(event->socket);
        return;
    }
    worker->socket = event->socket;
    talk(core, worker, 0);
    if (!is_server(worker))
        driven_heard(core, &(struct core_heard){.kind = CORE_HEARD_STARTED, .launch = worker->launch});
}

static void refused(struct core *core, const struct launcher_event *event)
{
    struct worker_link *worker = worker_link_find(core, event->launch.worker);

    if (worker == NULL || worker->phase != WORKER_ASKED)
        return; /* an end() of one that is gone */
    if (is_server(worker)) {
        server_refused(core, worker);
        return;
    }
    driven_heard(core, &(struct core_heard){.kind = CORE_HEARD_REFUSED, .launch = worker->launch, .status = event->status});
    worker_link_free(core, worker);
}

static enum status read_row(struct metadata *metadata, void *context, struct refusal *refusal)
{
    struct act *act = context;
    struct meta_results results = {0};
    struct meta_worker row;
    const enum status status = meta_worker_get(metadata, act->id, &results, &row, refusal);

    if (status == STATUS_OK) {
        act->acked_seq = row.acked_seq;
        act->ended = row.ended_at_ms != META_NONE;
        (void)snprintf(act->text, sizeof(act->text), "%s", row.placement);
    }
    meta_results_free(&results);
    return status;
}

/* One without a row was never promised to anybody: it is ended, and forgotten when it is gone. */
static void row_was_read(struct core *core, struct act *act)
{
    struct worker_link *worker = worker_link_find(core, act->worker);

    core->found_reading--;
    talk(core, worker, act->status == STATUS_OK ? (uint64_t)act->acked_seq : 0);
    if (act->status != STATUS_OK) {
        core_log(core, "act=worker-unknown worker=%s", act->id);
        worker->launch.kind = CORE_SERVER;
        worker->is_over = true;
        worker_link_end(core, worker, true);
    } else if (is_server(worker)) {
        server_found(core, worker, act->text);
    } else {
        driven_heard(core, &(struct core_heard){.kind = CORE_HEARD_FOUND, .launch = worker->launch, .is_dead = worker->is_dead});
    }
    found_settle(core);
}

/* Asked for again, a worker that we know is found, too. */
static void found(struct core *core, const struct launcher_event *event)
{
    struct worker_link *worker = worker_link_find(core, event->launch.worker);

    if (worker != NULL) {
        started(core, event);
        return;
    }
    worker = worker_link_add(core, &event->launch, WORKER_READ);
    check(worker != NULL); /* the launcher has no more places than we */
    worker->socket = event->socket;
    worker->is_found = true;
    worker->is_dead = event->is_dead;
    core->found_reading++;
    act_submit(core, act_create(core, read_row, row_was_read, event->launch.worker));
}

void found_settle(struct core *core)
{
    if (core->is_listed && core->found_reading == 0 && !core->told_listed) {
        core->told_listed = true;
        servers_end_rows(core);
        driven_heard(core, &(struct core_heard){.kind = CORE_HEARD_LISTED});
    }
    if (core->told_listed && core->is_restored && !core->is_running) {
        core->is_running = true;
        host_restored(core);
    }
}

static void exited(struct core *core, const struct launcher_event *event)
{
    struct worker_link *worker = worker_link_find(core, event->launch.worker);

    if (worker == NULL)
        return;
    worker->has_exited = true;
    worker->end = event->end;
    if (worker->phase == WORKER_ASKED)
        talk(core, worker, 0); /* it never had a socket */
}

static void hear_event(struct core *core, const struct launcher_event *event)
{
    switch (event->kind) {
    case LAUNCHER_STARTED:
        started(core, event);
        break;
    case LAUNCHER_REFUSED:
        refused(core, event);
        break;
    case LAUNCHER_FOUND:
        found(core, event);
        break;
    case LAUNCHER_LISTED:
        core->is_listed = true;
        found_settle(core);
        break;
    case LAUNCHER_EXITED:
        exited(core, event);
        break;
    case LAUNCHER_VAULT: /* who holds a vault's socket hears of its end there */
        if (event->socket >= 0)
            close(event->socket);
        break;
    case LAUNCHER_EVENT_COUNT:
        check(false && "a launcher said nothing that exists");
    }
}

enum status launcher_hear(struct core *core)
{
    struct launcher_event event;
    enum status status;

    while ((status = core->config.launcher->table->next(core->config.launcher, &event)) == STATUS_OK)
        hear_event(core, &event);
    return status == STATUS_END ? STATUS_OK : status;
}
