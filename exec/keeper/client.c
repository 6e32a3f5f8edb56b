/* What was started by a keeper: a worker's first packet; the control plane's launcher, which keeps nothing: requests out, events in. */
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "keeper/internal.h"

enum status keeper_who_am_i(int socket, struct launch *ret_launch)
{
    struct launch launch;

    if (recv(socket, &launch, sizeof(launch), MSG_DONTWAIT | MSG_TRUNC) != sizeof(launch))
        return STATUS_IO;
    *ret_launch = launch;
    return STATUS_OK;
}

struct client {
    struct launcher launcher;
    int socket;
};

static struct client *client_of(struct launcher *launcher)
{
    return (struct client *)(void *)launcher; /* its first member */
}

static enum status ask(struct launcher *launcher, const struct keeper_message *request)
{
    return message_send(client_of(launcher)->socket, request, -1);
}

static enum status client_start(struct launcher *launcher, const struct launch *launch)
{
    return ask(launcher, &(struct keeper_message){.kind = KEEPER_START, .worker = launch->worker, .attempt = launch->attempt,
               .worker_kind = launch->kind});
}

static enum status client_end(struct launcher *launcher, uint64_t worker, bool at_once)
{
    return ask(launcher, &(struct keeper_message){.kind = at_once ? KEEPER_END_AT_ONCE : KEEPER_END, .worker = worker});
}

static enum status client_list(struct launcher *launcher)
{
    return ask(launcher, &(struct keeper_message){.kind = KEEPER_LIST});
}

static enum status client_forget(struct launcher *launcher, uint64_t worker)
{
    return ask(launcher, &(struct keeper_message){.kind = KEEPER_FORGET, .worker = worker});
}

static int client_descriptor(const struct launcher *launcher)
{
    return ((const struct client *)(const void *)launcher)->socket;
}

static enum status client_next(struct launcher *launcher, struct launcher_event *ret_event)
{
    struct keeper_message message;
    int descriptor = -1;
    const enum status status = message_receive(client_of(launcher)->socket, &message, &descriptor);

    if (status != STATUS_OK)
        return status;
    check(message.kind < LAUNCHER_EVENT_COUNT);
    *ret_event = (struct launcher_event){
        .kind = (enum launcher_event_kind)message.kind,
        .status = (enum status)message.status,
        .launch = {.worker = message.worker, .attempt = message.attempt, .kind = message.worker_kind},
        .process = message.process,
        .is_dead = message.is_dead != 0,
        .socket = descriptor,
        .end = {.by_signal = message.by_signal != 0, .code = message.code, .cpu_ns = message.cpu_ns, .memory_max_bytes = message.memory_max_bytes}};
    return STATUS_OK;
}

static void client_close(struct launcher *launcher)
{
    if (launcher == NULL)
        return;
    close(client_of(launcher)->socket);
    free(client_of(launcher));
}

struct launcher *keeper_client(int socket)
{
    static const struct launcher_table table = {.start = client_start, .end = client_end, .list = client_list, .forget = client_forget,
                                                .descriptor = client_descriptor, .next = client_next, .close = client_close};
    struct client *client = calloc(1, sizeof(*client));

    if (client == NULL) {
        close(socket);
        return NULL;
    }
    client->launcher.table = &table;
    client->socket = socket;
    return &client->launcher;
}
