/* The server's loop: connections, lines in, answers out; what they say is for ops.c. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/files/socket.h"
#include "worker/server_internal.h"

#define FAREWELL_MS 2000

/* --- lines ------------------------------------------------------------------------------------------------------------------ */

static void cancel_all(const struct client *client)
{
    for (struct live *live = client->server->lives; live != NULL; live = live->next)
        if (live->client == client)
            worker_cancel(client->server->config->worker, live->answer.handle);
}

/* One that asks faster than it reads is not heard until it has read. */
static void hear_lines(struct client *client)
{
    size_t at = 0;
    char *newline = NULL;

    while (!client->leaving && client_unsent(client) < SERVER_OUT_BYTES_MAX / 4 &&
           (newline = memchr(client->in + at, '\n', client->in_count - at)) != NULL) {
        size_t bytes = (size_t)(newline - client->in) - at;

        if (bytes > 0)
            client_hear(client, client->in + at, bytes);
        at += bytes + 1;
    }
    memmove(client->in, client->in + at, client->in_count - at);
    client->in_count -= at;
    client->held = newline != NULL || client_unsent(client) >= SERVER_OUT_BYTES_MAX / 4;
    if (client->held || client->in_count < SERVER_LINE_BYTES_MAX)
        return;
    client_say_error(client, NULL, "a line is longer than 4 MiB", STATUS_INVALID);
    client->leaving = true;
    cancel_all(client);
}

/* --- connections ------------------------------------------------------------------------------------------------------------ */

static void leave(struct client *client)
{
    cancel_all(client);
    for (struct live *live = client->server->lives; live != NULL; live = live->next)
        if (live->client == client)
            live->client = NULL;
    close(client->fd);
    free(client->in);
    token_text_free(&client->out);
    *client = (struct client){.server = client->server, .fd = -1};
}

static void receive(struct client *client)
{
    ssize_t got;

    if (client->in_size - client->in_count < 65536) {
        size_t size = client->in_size == 0 ? 131072 : client->in_size * 2;
        char *in = realloc(client->in, size);

        if (in == NULL) {
            leave(client);
            return;
        }
        client->in = in;
        client->in_size = size;
    }
    got = recv(client->fd, client->in + client->in_count, client->in_size - client->in_count, 0);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
        leave(client);
        return;
    }
    if (got < 0)
        return;
    client->in_count += (size_t)got;
    hear_lines(client);
}

static void transmit(struct client *client)
{
    ssize_t sent;

    if (client->out_sent < client->out.count) {
        sent = send(client->fd, client->out.bytes + client->out_sent, client->out.count - client->out_sent, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN && errno != EINTR) {
            leave(client);
            return;
        }
        client->out_sent += sent > 0 ? (size_t)sent : 0;
    }
    if (client_unsent(client) > SERVER_OUT_BYTES_MAX) {
        fprintf(client->server->config->log, "berth-exec server: a client that does not read its answers is closed\n");
        leave(client);
        return;
    }
    if (client->out_sent < client->out.count)
        return;
    client->out.count = client->out_sent = 0;
    if (client->leaving)
        leave(client);
}

static void welcome(struct server *server)
{
    int fd = accept(server->listener, NULL, NULL);

    if (fd < 0)
        return;
    fcntl(fd, F_SETFL, O_NONBLOCK);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    for (uint32_t i = 0; i < SERVER_CLIENTS_MAX; i++) {
        if (server->clients[i].fd >= 0)
            continue;
        server->clients[i].fd = fd;
        return;
    }
    close(fd);
}

/* --- the loop --------------------------------------------------------------------------------------------------------------- */

static void look(struct server *server, int timeout_ms)
{
    struct pollfd events[SERVER_CLIENTS_MAX + 2];
    struct client *clients[SERVER_CLIENTS_MAX];
    uint32_t count = 2;

    events[0] = (struct pollfd){.fd = server->listener, .events = POLLIN};
    events[1] = (struct pollfd){.fd = worker_fd(server->config->worker), .events = POLLIN};
    for (uint32_t i = 0; i < SERVER_CLIENTS_MAX; i++) {
        struct client *client = &server->clients[i];

        if (client->fd < 0)
            continue;
        clients[count - 2] = client;
        events[count++] = (struct pollfd){.fd = client->fd,
                                          .events = (short)((client->leaving || client->held ? 0 : POLLIN) |
                                                            (client->out.count > 0 ? POLLOUT : 0))};
    }
    if (poll(events, count, timeout_ms) <= 0)
        return;
    for (uint32_t i = 2; i < count; i++) {
        if (events[i].revents & POLLIN)
            receive(clients[i - 2]);
        else if (events[i].revents & (POLLHUP | POLLERR))
            leave(clients[i - 2]);
    }
    if (events[0].revents & POLLIN)
        welcome(server);
}

static void transmit_all(struct server *server)
{
    for (uint32_t i = 0; i < SERVER_CLIENTS_MAX; i++) {
        struct client *client = &server->clients[i];

        if (client->fd >= 0)
            transmit(client);
        if (client->fd >= 0 && client->held)
            hear_lines(client); /* what they say is sent by the next look */
    }
}

/* What was said last goes out to those who read it; those who don't are waited for no longer than FAREWELL_MS in all. */
static void say_farewell(struct server *server)
{
    for (int left_ms = FAREWELL_MS; left_ms > 0; left_ms -= 10) {
        struct pollfd events[SERVER_CLIENTS_MAX];
        uint32_t count = 0;

        for (uint32_t i = 0; i < SERVER_CLIENTS_MAX; i++) {
            struct client *client = &server->clients[i];

            if (client->fd >= 0)
                transmit(client);
            if (client->fd >= 0 && client_unsent(client) > 0)
                events[count++] = (struct pollfd){.fd = client->fd, .events = POLLOUT};
        }
        if (count == 0)
            return;
        (void)poll(events, count, 10);
    }
}

static void serve(struct server *server, const volatile int *stop)
{
    struct worker *worker = server->config->worker;
    bool busy = false;

    while (!*stop && !(worker_drained(worker) && server->lives == NULL)) {
        look(server, busy ? 0 : 1000);
        busy = worker_pump(worker);
        server_free_over(server);
        transmit_all(server);
    }
}

enum status server_run(const struct server_config *config, const volatile int *stop, struct refusal *refusal)
{
    struct server *server = calloc(1, sizeof(*server));
    enum status status;

    if (server == NULL)
        return refuse(refusal, STATUS_FULL, "no memory");
    server->config = config;
    for (uint32_t i = 0; i < SERVER_CLIENTS_MAX; i++)
        server->clients[i] = (struct client){.server = server, .fd = -1};
    status = socket_listen(config->socket_path, SOCK_STREAM, SERVER_CLIENTS_MAX, "server", &server->listener, refusal);
    if (status == STATUS_OK) {
        serve(server, stop);
        for (int i = 0; i < 100 && (worker_pump(config->worker) || server->lives != NULL); i++) {
            for (struct live *live = server->lives; live != NULL; live = live->next)
                worker_cancel(config->worker, live->answer.handle);
            server_free_over(server);
        }
        say_farewell(server);
        for (uint32_t i = 0; i < SERVER_CLIENTS_MAX; i++)
            if (server->clients[i].fd >= 0)
                leave(&server->clients[i]);
        close(server->listener);
        unlink(config->socket_path);
    }
    while (server->lives != NULL) {
        struct live *next = server->lives->next;

        answer_free(&server->lives->answer);
        free(server->lives);
        server->lives = next;
    }
    free(server);
    return status;
}
