/* berth-sim trace VERB. */
#include "cmd.h"
#include "cmd_trace.h"

static const struct {
    const char *name;
    int (*run)(int argc, char **argv, FILE *output, FILE *errors); /* argv[0] is the name */
} verbs[] = {
    {"stat", trace_stat_command},
    {"convert", trace_convert_command},
};

/* argv[0] is the verb before. Exit code: 0 good, 1 bad input, 2 usage. */
int cmd_trace(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < ARRAY_COUNT(verbs); i++)
        if (strcmp(argv[1], verbs[i].name) == 0)
            return verbs[i].run(argc - 1, argv + 1, stdout, stderr);
    return trace_info_command(argc, argv, stdout, stderr);
}
