/* A model server that the control plane speaks to (wire/wire.h): exec/worker over exec/link, in one thread. What it is told: START, which
 * base; LOAD, sealed adapters, of which it keeps descriptor and key; REQUEST, answered by TOKENS as far as there is credit, USAGE, DONE.
 * A reader who takes nothing holds no batch and no KV: what it has no credit for is generated on, and kept here until the request's end.
 * A new control plane (WELCOME) finds the base and the adapters; requests are cancelled, for their clients are gone, and what they used is
 * told all the same. */
#ifndef SERVING_SERVING_H
#define SERVING_SERVING_H

#include <stdio.h>

#include "link/link.h"
#include "worker/worker.h"

struct serving_config {
    int socket;                  /* from the keeper; taken over */
    struct worker_config worker; /* but for the model's folder, which START brings */
    uint32_t hold_ms;            /* how long the base is kept when no control plane speaks any more; 0: ten minutes */
    FILE *log;                   /* ids and codes; no prompt, no answer */
};

/* STATUS_OK: it drained, and all that it had to tell is committed. STATUS_END: it was told to end, or nobody speaks to it any more. The
 * rest: it could not begin. */
enum status serving_run(const struct serving_config *config, struct refusal *refusal);

#endif
