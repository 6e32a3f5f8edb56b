/* berth-exec node: what happens to the machine that the platform runs on. */
#include <stdio.h>

#include "cmd.h"
#include "cmd_admin.h"
#include "host/options.h"

#define OPTIONS(X)                                                                                              \
    X(devices, "N", "so many will be gone, from the highest number down; 0: none, those that were come back")   \
    X(within, "S", "seconds until then (default 30)")                                                           \
    X(state, "DIR", "the control plane's folder (default $BERTH_STATE, or berth-state)")                        \
    X(help, NULL, "this text")
enum {
#define X(name, argument, about) OPTION_##name,
    OPTIONS(X)
#undef X
};
static const struct option table[] = {
#define X(name, argument, about) {#name, argument, about},
    OPTIONS(X)
#undef X
};

static void print_help(void)
{
    puts("usage: berth-exec node notice --devices N [--within S]\n\n"
         "A spot machine's notice: trainers on those devices keep their state and yield, and go on where there is room; servers answer what\n"
         "they have and end. What a job comes to is the same, bit for bit.\n");
    options_print(stdout, table, ARRAY_COUNT(table));
    puts("\nExit codes: 0 done, 1 it could not be done (stderr says why), 2 wrong usage.");
}

int cmd_node(int argc, char **argv)
{
    struct options options = {.command = "berth-exec node", .table = table, .count = ARRAY_COUNT(table), .errors = stderr,
                              .argc = argc, .argv = argv, .at = 1};
    const char *state = admin_state_folder();
    const char *verb = NULL;
    const char *value;
    int64_t devices = -1;
    int64_t within_s = 30;
    json_t *answer;
    int option;

    while ((option = options_next(&options, &value)) != OPTION_END) {
        switch (option) {
        case OPTION_state: state = value; break;
        case OPTION_devices:
            if (!options_whole(&options, OPTION_devices, value, 0, 16, &devices))
                return EXIT_USAGE;
            break;
        case OPTION_within:
            if (!options_whole(&options, OPTION_within, value, 0, 86400, &within_s))
                return EXIT_USAGE;
            break;
        case OPTION_help: print_help(); return EXIT_OK;
        case OPTION_OPERAND:
            if (verb == NULL) {
                verb = value;
                break;
            }
            /* fall through */
        default: return EXIT_USAGE;
        }
    }
    if (verb == NULL || strcmp(verb, "notice") != 0 || devices < 0) {
        fputs("berth-exec node: give notice, and --devices N\n", stderr);
        return EXIT_USAGE;
    }
    answer = admin_ask("node", state, json_pack("{s:s,s:I,s:I}", "op", "node.notice", "devices", (json_int_t)devices, "within_ms",
                                               (json_int_t)(within_s * 1000)));

    json_decref(answer);
    return answer != NULL ? EXIT_OK : EXIT_FAILED;
}
