/* berth-exec worker trainer, worker validator: one task, told over descriptor 3. */
#include <stdio.h>
#include <unistd.h>

#include "cmd.h"
#include "cmd_worker.h"
#include "control/core/core.h"
#include "keeper/keeper.h"
#include "task/task.h"

static int run(int argc, char **argv, enum task_kind kind, enum core_worker_kind worker_kind)
{
    if (argc == 1) /* no exit handlers: in the sandbox they could open nothing, and a sanitizer's would */
        _exit(task_run(&(struct task_config){.kind = kind, .socket = KEEPER_SOCKET, .worker_kind = (uint32_t)worker_kind}));
    fprintf(stderr, "berth-exec worker %s: takes no options\n", argv[0]);
    return EXIT_USAGE;
}

int worker_trainer(int argc, char **argv)
{
    return run(argc, argv, TASK_TRAIN, CORE_TRAINER);
}

int worker_validator(int argc, char **argv)
{
    return run(argc, argv, TASK_VALIDATE, CORE_VALIDATOR);
}
