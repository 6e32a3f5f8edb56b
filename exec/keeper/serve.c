/* What the control plane asks, and what it is told. What is to be told stands with each worker's place, not in a queue: so nothing grows
 * when the control plane does not read, and a new one is told from the beginning. */
#define _GNU_SOURCE /* SOCK_CLOEXEC */
#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "keeper/internal.h"

static struct place *place_of(struct keeper *keeper, uint64_t worker)
{
    for (uint32_t i = 0; i < keeper->config.workers_max; i++) {
        if (keeper->places[i].launch.worker == worker)
            return &keeper->places[i];
    }
    return NULL;
}

static void refuse_request(struct keeper *keeper, const struct keeper_message *request, enum status status)
{
    keeper->tell_refused = true;
    keeper->refused = (struct keeper_message){.kind = LAUNCHER_REFUSED, .status = status, .worker = request->worker,
                                              .attempt = request->attempt, .worker_kind = request->worker_kind};
}

static enum status start(struct keeper *keeper, const struct launch *launch)
{
    struct place *place = place_of(keeper, 0);
    const struct keeper_program *program;
    enum status status;
    int ends[2];

    if (launch->worker == 0 || launch->kind >= keeper->config.workers_count)
        return STATUS_INVALID;
    if (keeper->phase != KEEPER_RUNS || place == NULL)
        return STATUS_FULL;
    program = &keeper->config.workers[launch->kind];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return STATUS_IO;
    status = send(ends[0], launch, sizeof(*launch), MSG_DONTWAIT) == sizeof(*launch) ? child_start(&place->child, program, ends[1]) : STATUS_IO;
    close(ends[1]);
    if (status != STATUS_OK) {
        close(ends[0]);
        return status;
    }
    place->launch = *launch;
    place->process = place->child.process;
    place->socket = ends[0];
    place->tell_started = true;
    place->is_known = true;
    keeper_say(keeper, "act=start name=%s worker=%llu attempt=%llu process=%d", program->name, (unsigned long long)launch->worker,
               (unsigned long long)launch->attempt, (int)place->process);
    return STATUS_OK;
}

static void serve_start(struct keeper *keeper, const struct keeper_message *request)
{
    const struct launch launch = {.worker = request->worker, .attempt = request->attempt, .kind = request->worker_kind};
    struct place *there = launch.worker != 0 ? place_of(keeper, launch.worker) : NULL;
    enum status status;

    if (there != NULL) {
        there->tell_found = true;
        there->is_known = true;
        return;
    }
    status = start(keeper, &launch);
    if (status != STATUS_OK)
        refuse_request(keeper, request, status);
}

static void forget(struct place *place)
{
    close(place->socket);
    *place = (struct place){.socket = -1};
}

void keeper_serve(struct keeper *keeper, const struct keeper_message *request)
{
    struct place *place = request->worker != 0 ? place_of(keeper, request->worker) : NULL;

    switch (request->kind) {
    case KEEPER_START:
        serve_start(keeper, request);
        break;
    case KEEPER_END:
    case KEEPER_END_AT_ONCE:
        if (place == NULL)
            refuse_request(keeper, request, STATUS_NOT_FOUND);
        else
            child_signal(&place->child, request->kind == KEEPER_END ? SIGTERM : SIGKILL);
        break;
    case KEEPER_LIST:
        keeper->control.has_settled = true; /* it came up */
        for (uint32_t i = 0; i < keeper->config.workers_max; i++)
            keeper->places[i].tell_found = keeper->places[i].is_known = keeper->places[i].launch.worker != 0;
        keeper->tell_listed = true;
        break;
    case KEEPER_FORGET:
        if (place != NULL && place->child.process == 0)
            forget(place);
        break;
    default:
        refuse_request(keeper, request, STATUS_INVALID);
        break;
    }
}

static bool tell(struct keeper *keeper, const struct keeper_message *message, int descriptor)
{
    return message_send(keeper->control_socket, message, descriptor) == STATUS_OK;
}

static bool tell_of(struct keeper *keeper, const struct place *place, enum launcher_event_kind kind)
{
    const struct launch_end *end = &place->child.end;
    struct keeper_message message = {.kind = kind, .worker = place->launch.worker, .attempt = place->launch.attempt,
                                     .worker_kind = place->launch.kind, .process = place->process, .is_dead = place->child.process == 0};

    if (kind == LAUNCHER_EXITED) {
        message.by_signal = end->by_signal;
        message.code = end->code;
        message.cpu_ns = end->cpu_ns;
        message.memory_max_bytes = end->memory_max_bytes;
    }
    return tell(keeper, &message, kind == LAUNCHER_EXITED ? -1 : place->socket);
}

/* STARTED or FOUND, then EXITED. */
static bool tell_place(struct keeper *keeper, struct place *place)
{
    if (place->tell_started && !tell_of(keeper, place, LAUNCHER_STARTED))
        return false;
    place->tell_started = false;
    if (place->tell_found && !tell_of(keeper, place, LAUNCHER_FOUND))
        return false;
    place->tell_found = false;
    if (place->is_known && place->tell_exited && !tell_of(keeper, place, LAUNCHER_EXITED))
        return false;
    place->tell_exited = place->tell_exited && !place->is_known;
    return true;
}

bool keeper_tell(struct keeper *keeper)
{
    if (keeper->control_socket < 0)
        return true;
    if (keeper->vault_socket >= 0) {
        if (!tell(keeper, &(struct keeper_message){.kind = LAUNCHER_VAULT}, keeper->vault_socket))
            return false;
        close(keeper->vault_socket);
        keeper->vault_socket = -1;
    }
    if (keeper->tell_refused && !tell(keeper, &keeper->refused, -1))
        return false;
    keeper->tell_refused = false;
    for (uint32_t i = 0; i < keeper->config.workers_max; i++) {
        if (keeper->places[i].launch.worker != 0 && !tell_place(keeper, &keeper->places[i]))
            return false;
    }
    if (keeper->tell_listed && !tell(keeper, &(struct keeper_message){.kind = LAUNCHER_LISTED}, -1))
        return false;
    keeper->tell_listed = false;
    return true;
}

void keeper_forget_told(struct keeper *keeper)
{
    keeper->tell_refused = false;
    keeper->tell_listed = false;
    for (uint32_t i = 0; i < keeper->config.workers_max; i++) {
        struct place *place = &keeper->places[i];

        place->tell_started = place->tell_found = place->is_known = false;
        place->tell_exited = place->launch.worker != 0 && place->child.process == 0;
    }
}
