#include "host/verbs.h"

#include <stdio.h>

#include "host/version.h"

static void print_help(FILE *out, const struct program *program)
{
    fprintf(out, "%s\n\nusage: %s VERB ...        %s VERB --help says more\n\n", program->about, program->name, program->name);
    for (size_t i = 0; i < program->verbs_count; i++)
        fprintf(out, "  %-10s %s\n", program->verbs[i].name, program->verbs[i].about);
    fprintf(out, "\nexit codes: 0 done, 1 it could not be done (a line on stderr says why), 2 wrong usage, 130 stopped by Ctrl-C\n");
}

static int finish(const struct program *program, int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    fprintf(stderr, "%s: the output could not be written\n", program->name);
    return EXIT_FAILED;
}

int program_run(const struct program *program, int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr, program);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        print_help(stdout, program);
        return finish(program, EXIT_OK);
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("%s %s\n", program->name, BERTH_VERSION);
        return finish(program, EXIT_OK);
    }
    for (size_t i = 0; i < program->verbs_count; i++)
        if (strcmp(argv[1], program->verbs[i].name) == 0)
            return finish(program, program->verbs[i].run(argc - 1, argv + 1));
    fprintf(stderr, "%s: there is no verb '%s'; %s --help lists them\n", program->name, argv[1], program->name);
    return EXIT_USAGE;
}
