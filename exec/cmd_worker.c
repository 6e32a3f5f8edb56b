/* berth-exec worker: a role a file. */
#include "cmd_worker.h"

#include <stdio.h>

#include "cmd.h"
#include "host/options.h"

static const struct role {
    const char *name;
    const char *about;
    int (*run)(int argc, char **argv);
} roles[] = {
#define X(name, about) {#name, about, worker_##name},
    WORKER_ROLES(X)
#undef X
};

static void print_help(FILE *out)
{
    fputs("usage: berth-exec worker ROLE [option]...\n\n"
          "Not for people: the keeper (berth-exec control) starts workers, with a socket to the control plane as descriptor 3.\n\n",
          out);
    for (size_t i = 0; i < ARRAY_COUNT(roles); i++)
        fprintf(out, "  %-10s %s\n", roles[i].name, roles[i].about);
}

int cmd_worker(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        print_help(stdout);
        return EXIT_OK;
    }
    for (size_t i = 0; argc > 1 && i < ARRAY_COUNT(roles); i++)
        if (strcmp(argv[1], roles[i].name) == 0)
            return roles[i].run(argc - 1, argv + 1);
    print_help(stderr);
    return EXIT_USAGE;
}
