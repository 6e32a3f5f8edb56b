/* berth-sim scenario: check a scenario file without running it, or print the table of keys. */
#include <stdlib.h>

#include "cmd.h"
#include "host/options.h"
#include "scenario/print.h"

#define SCENARIO_OPTIONS(X)                                                                                           \
    X(set, "KEY=VALUE", "check: overrides a key, in every variant: --set pool.replicas=8")                            \
    X(json, NULL, "for machines, one object (check) or one array (keys) on stdout")                                   \
    X(help, NULL, "this text")
enum {
#define X(name, argument, about) OPTION_##name,
    SCENARIO_OPTIONS(X)
#undef X
};
static const struct option table[] = {
#define X(name, argument, about) {#name, argument, about},
    SCENARIO_OPTIONS(X)
#undef X
};

static const char usage[] = "usage: berth-sim scenario check FILE [--set KEY=VALUE]... [--json]\n"
                            "       berth-sim scenario keys [--json]\n";

struct arguments {
    const char *verb;
    const char *file;
    const char **settings; /* [argc] */
    uint32_t settings_count;
    bool json;
    bool help;
};

static void print_help(void)
{
    printf("%s\n"
           "check   reads a scenario as `run` would, and says what it came to: variants, pools, memory. What is wrong goes to\n"
           "        stderr as file:line:column: error: ...; with --json it is also in `messages`.\n"
           "keys    every key a scenario may hold: kind, default, range, meaning.\n\n",
           usage);
    options_print(stdout, table, ARRAY_COUNT(table));
    puts("\nExit codes: 0 no error, 1 the scenario was refused or could not be read, 2 wrong usage.");
}

static int usage_error(const char *what, const char *argument)
{
    fprintf(stderr, "berth-sim scenario: %s%s%s\n%s", what, argument != NULL ? " " : "", argument != NULL ? argument : "",
            usage);
    return EXIT_USAGE;
}

static int read_arguments(int argc, char **argv, struct arguments *ret_arguments)
{
    struct options options = {.command = "berth-sim scenario", .table = table, .count = ARRAY_COUNT(table), .errors = stderr,
                              .argc = argc, .argv = argv, .at = 1};
    const char *value;
    int option;

    while ((option = options_next(&options, &value)) != OPTION_END) {
        switch (option) {
        case OPTION_set:
            ret_arguments->settings[ret_arguments->settings_count++] = value;
            break;
        case OPTION_json:
            ret_arguments->json = true;
            break;
        case OPTION_help:
            ret_arguments->help = true;
            return EXIT_OK;
        case OPTION_OPERAND:
            if (ret_arguments->file != NULL)
                return usage_error("one file only, not also", value);
            *(ret_arguments->verb == NULL ? &ret_arguments->verb : &ret_arguments->file) = value;
            break;
        default:
            return EXIT_USAGE;
        }
    }
    return EXIT_OK;
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
        return EXIT_FAILED;
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
    return status == STATUS_OK ? EXIT_OK : EXIT_FAILED;
}

static int run_verb(const struct arguments *arguments)
{
    if (arguments->help) {
        print_help();
        return EXIT_OK;
    }
    if (arguments->verb == NULL)
        return usage_error("check or keys?", NULL);
    if (strcmp(arguments->verb, "check") == 0)
        return arguments->file != NULL ? check_file(arguments) : usage_error("check needs a FILE", NULL);
    if (strcmp(arguments->verb, "keys") != 0)
        return usage_error("unknown verb", arguments->verb);
    if (arguments->file != NULL || arguments->settings_count > 0)
        return usage_error("keys takes --json only", NULL);
    scenario_keys_print(stdout, arguments->json);
    return EXIT_OK;
}

int cmd_scenario(int argc, char **argv)
{
    struct arguments arguments = {0};
    int code;

    arguments.settings = calloc((size_t)argc, sizeof(*arguments.settings));
    check(arguments.settings != NULL);
    code = read_arguments(argc, argv, &arguments);
    if (code == EXIT_OK)
        code = run_verb(&arguments);
    free(arguments.settings);
    return code;
}
