/* berth-sim scenario: check a scenario file without running it, or print the table of keys. */
#include <stdlib.h>

#include "scenario/print.h"

int cmd_scenario(int argc, char **argv);

enum { EXIT_REFUSED = 1, EXIT_USAGE = 2 };

static const char usage[] =
    "usage: berth-sim scenario check FILE [--set key=value]... [--json]\n"
    "       berth-sim scenario keys [--json]\n"
    "\n"
    "check   reads a scenario as `run` would, and says what it came to: variants, pools, memory. What is wrong goes to\n"
    "        stderr as file:line:column: error: ...; with --json it is also in `messages`.\n"
    "keys    every key a scenario may hold: kind, default, range, meaning.\n"
    "\n"
    "  --set key=value   overrides a key, in every variant: --set pool.replicas=8 --set 'workload.adapters.ranks=[8, 16]'\n"
    "  --json            for machines, one object (check) or one array (keys) on stdout\n"
    "  --help            this text\n"
    "\n"
    "exit status: 0 no error; 1 the scenario was refused, or its file could not be read; 2 the command line is wrong\n";

struct arguments {
    const char *file;
    const char **settings; /* [argc] */
    uint32_t settings_count;
    bool json;
};

static int usage_error(const char *what, const char *argument)
{
    fprintf(stderr, "berth-sim scenario: %s%s%s\n%s", what, argument != NULL ? " " : "", argument != NULL ? argument : "",
            usage);
    return EXIT_USAGE;
}

/* 0, or an exit status. */
static int read_arguments(int argc, char **argv, struct arguments *ret_arguments)
{
    for (int i = 0; i < argc; i++) {
        const char *argument = argv[i];

        if (strcmp(argument, "--json") == 0) {
            ret_arguments->json = true;
        } else if (strncmp(argument, "--set=", 6) == 0) {
            ret_arguments->settings[ret_arguments->settings_count++] = argument + 6;
        } else if (strcmp(argument, "--set") == 0) {
            if (i + 1 == argc)
                return usage_error("--set needs key=value", NULL);
            ret_arguments->settings[ret_arguments->settings_count++] = argv[++i];
        } else if (argument[0] == '-') {
            return usage_error("unknown option", argument);
        } else if (ret_arguments->file != NULL) {
            return usage_error("one file only, not also", argument);
        } else {
            ret_arguments->file = argument;
        }
    }
    return 0;
}

static int check_file(const struct arguments *arguments)
{
    struct scenario_set set = {0};
    char *messages = NULL;
    size_t messages_count;
    FILE *errors = open_memstream(&messages, &messages_count);
    enum status status;

    if (errors == NULL) {
        perror("berth-sim scenario");
        return EXIT_REFUSED;
    }
    status = scenario_read(arguments->file, arguments->settings, arguments->settings_count, errors, &set);
    fclose(errors);
    fputs(messages, stderr);
    if (arguments->json)
        scenario_set_print_json(stdout, arguments->file, status == STATUS_OK ? &set : NULL, messages);
    else if (status == STATUS_OK)
        scenario_set_print(stdout, arguments->file, &set);
    scenario_set_free(&set);
    free(messages);
    return status == STATUS_OK ? 0 : EXIT_REFUSED;
}

static int run_verb(const char *verb, const struct arguments *arguments)
{
    if (strcmp(verb, "check") == 0)
        return arguments->file != NULL ? check_file(arguments) : usage_error("check needs a FILE", NULL);
    if (strcmp(verb, "keys") != 0)
        return usage_error("unknown verb", verb);
    if (arguments->file != NULL || arguments->settings_count > 0)
        return usage_error("keys takes --json only", NULL);
    scenario_keys_print(stdout, arguments->json);
    return 0;
}

int cmd_scenario(int argc, char **argv)
{
    struct arguments arguments = {0};
    int status;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            fputs(usage, stdout);
            return 0;
        }
    }
    if (argc < 2)
        return usage_error("check or keys?", NULL);
    arguments.settings = calloc((size_t)argc, sizeof(*arguments.settings));
    if (arguments.settings == NULL) {
        perror("berth-sim scenario");
        return EXIT_REFUSED;
    }
    status = read_arguments(argc - 2, argv + 2, &arguments);
    if (status == 0)
        status = run_verb(argv[1], &arguments);
    free(arguments.settings);
    return status;
}
