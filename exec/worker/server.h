/* A model server behind a Unix socket: JSON objects, one a line, both ways. It hosts the replica core; what it speaks is for the control
 * plane on the same machine, so there is no key here, and the socket's folder decides who may connect (the socket's mode is 0600).
 *
 * Asked:                                              answered:
 *   {"op": "generate", "id": N, prompt, adapter, ...}   {"id", "index", "token", "text", "logprob"} a token, then
 *                                                       {"id", "finish_reason", "text", ...} or {"id", "error", "code"}
 *   {"op": "cancel", "id": N}                           the request's own end, finish_reason "cancelled"
 *   {"op": "load", "name": S}                           {"op", "name", "digest", ...}: the folder of that name, looked at again
 *   {"op": "unload", "name": S}                         {"op", "name"}; its requests in flight finish
 *   {"op": "adapters"}, {"op": "state"}                 {"op", ...}
 *   {"op": "drain"}                                     {"op"}; no more requests; the process ends when the last has
 * A line that can't be taken is answered {"error", "code"}: bad_request, not_found, busy, failed.
 *
 * Bounds: SERVER_CLIENTS_MAX connections (more are closed at once), a line of SERVER_LINE_BYTES_MAX, answers that a client does not read
 * of SERVER_OUT_BYTES_MAX; a client beyond them is told so if it can be, and closed. A closed connection cancels its requests. */
#ifndef WORKER_SERVER_H
#define WORKER_SERVER_H

#include <stdio.h>

#include "engine/tokenizer/tokenizer.h"
#include "worker/worker.h"

#define SERVER_CLIENTS_MAX 64
#define SERVER_LINE_BYTES_MAX (4u << 20)
#define SERVER_OUT_BYTES_MAX (8u << 20)

struct server_config {
    const char *socket_path;
    const char *adapters_directory; /* NULL: none */
    struct worker *worker;
    const struct tokenizer *tokenizer; /* NULL: prompts are ids, answers too */
    FILE *log;                      /* a line for what an operator wants to know; no prompts, no answers */
};

/* Serves until *stop (then it cancels what is in flight) or until it has drained. STATUS_IO: the socket cannot be made; refusal says why.
 * A socket file that nobody listens on is replaced; one that somebody does is refused. */
enum status server_run(const struct server_config *config, const volatile int *stop, struct refusal *refusal);

/* Registers every folder of `directory` whose name is fine; a bad one is said on `log` and left out. Returns how many are registered. */
uint32_t server_scan(struct worker *worker, const char *directory, FILE *log);

#endif
