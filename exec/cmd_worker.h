/* Workers: processes that the keeper starts and the control plane speaks to. argv[0] is the role. */
#ifndef EXEC_CMD_WORKER_H
#define EXEC_CMD_WORKER_H

#define WORKER_ROLES(X) \
    X(server, "a model server with its tenants' adapters") \
    X(trainer, "teaches one adapter, in a sandbox where it is on the CPU") \
    X(validator, "looks through one file of a tenant's, in a sandbox")

#define X(name, about) int worker_##name(int argc, char **argv);
WORKER_ROLES(X)
#undef X

#endif
