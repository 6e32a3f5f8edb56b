/* What the server's loop and what it is asked to do share. */
#ifndef WORKER_SERVER_INTERNAL_H
#define WORKER_SERVER_INTERNAL_H

#include "worker/answer.h"
#include "worker/server.h"

struct server;
struct client;

/* A request of a client. */
struct live {
    struct answer answer;
    struct client *client; /* NULL: it has left */
    json_int_t id;
    uint32_t index;
    bool over;
    struct live *next;
};

struct client {
    struct server *server;
    int fd; /* -1: free */
    bool leaving; /* close when its answers are out; nothing more is heard or said */
    bool held;    /* lines wait in `in` until it has read more of its answers */
    char *in;
    size_t in_count, in_size;
    struct token_text out;
    size_t out_sent;
};

struct server {
    const struct server_config *config;
    int listener;
    struct client clients[SERVER_CLIENTS_MAX];
    struct live *lives;
    uint64_t answered;
};

/* Not yet taken by the client's socket. */
static inline size_t client_unsent(const struct client *client)
{
    return client->out.count - client->out_sent;
}

/* ops.c. A line of the client; what there is to say is put into `out`. */
void client_hear(struct client *client, const char *line, size_t bytes);
void client_say_error(struct client *client, const json_t *id, const char *text, enum status status);
/* Forgets requests that have ended. */
void server_free_over(struct server *server);

#endif
