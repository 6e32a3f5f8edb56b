/* berth-sim: one verb a file. */
#include <stdio.h>
#include <string.h>

#include "cmd.h"
#include "base/base.h"
#include "version.h"

struct verb {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *about;
};

static const struct verb verbs[] = {
#define X(name, about) {#name, cmd_##name, about},
    VERBS(X)
#undef X
};

static void print_help(FILE *out)
{
    fprintf(out, "berth-sim plans multi-LoRA serving: it runs the scheduling core of Berth on a simulated clock.\n\n"
                 "usage: berth-sim VERB ...        berth-sim VERB --help says more\n\n");
    for (size_t i = 0; i < ARRAY_COUNT(verbs); i++)
        fprintf(out, "  %-10s %s\n", verbs[i].name, verbs[i].about);
    fprintf(out, "\nexit codes: 0 done, 1 it could not be done (a line on stderr says why), 2 wrong usage, 130 stopped by Ctrl-C\n");
}

/* A full disk shows when what was printed is written out. */
static int finish(int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    fputs("berth-sim: the output could not be written\n", stderr);
    return EXIT_FAILED;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return 0;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("berth-sim %s\n", BERTH_VERSION);
        return 0;
    }
    for (size_t i = 0; i < ARRAY_COUNT(verbs); i++)
        if (strcmp(argv[1], verbs[i].name) == 0)
            return finish(verbs[i].run(argc - 1, argv + 1));
    fprintf(stderr, "berth-sim: there is no verb '%s'; berth-sim --help lists them\n", argv[1]);
    return EXIT_USAGE;
}
