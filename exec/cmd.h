/* The verbs of berth-exec. argv[0] is the verb. */
#ifndef EXEC_CMD_H
#define EXEC_CMD_H

#include "host/verbs.h"

#define VERBS(X)                                                              \
    X(generate, "prompts through a model and its adapters, as one mixed batch") \
    X(server, "a model and its adapters behind a local socket")                \
    X(train, "teach adapters from data, or hold the trainer to a recorded run") \
    X(validate, "say all that is wrong with a file of examples, before it is trained on") \
    X(hold, "a base on a GPU, lent to trainers and servers of other processes") \
    X(model, "look at models and adapters, make random ones, merge them")      \
    X(tokenize, "text through a model's tokenizer and back, chats through its template") \
    X(devices, "what this machine can compute with")                           \
    X(worker, "what the keeper starts: servers, trainers, validators that the control plane speaks to") \
    X(vault, "make a master key, put tenants' keys under another")             \
    X(control, "the control plane: metadata and local administration")         \
    X(tenant, "organizations and what each may have: add, list, set, suspend") \
    X(key, "API keys: add, list, revoke")                                      \
    X(job, "jobs of an organization: list, show, cancel")                      \
    X(usage, "tokens of an organization, by model and hour")                   \
    X(node, "tell that devices of this machine will be gone")                  \
    X(audit, "who did what")

#define X(name, about) int cmd_##name(int argc, char **argv);
VERBS(X)
#undef X

#endif
