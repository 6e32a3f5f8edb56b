/* berth-exec devices: what this machine can compute with. */
#include <jansson.h>
#include <stdio.h>

#include "cmd.h"
#include "engine/device/cuda_load.h"
#include "engine/device/kernel_set.h"
#include "host/options.h"

enum { OPTION_json, OPTION_help };
static const struct option table[] = {
    {"json", NULL, "one array of objects instead of the table"},
    {"help", NULL, "this text"},
};

static void print_table(void)
{
    char why[512];

    for (enum kernel_set set = 0; set < KERNELS_COUNT; set++)
        printf("  %-16s %-4s %s\n", kernel_set_name(set),
               !kernel_set_runs_here(set) ? "no" : set == kernel_set_best() ? "used" : "yes", kernel_set_about(set));
    if (cuda_runs_here(why, sizeof(why)))
        printf("  %-16s %-4s %s\n", "cuda", "yes", "a GPU of sm_80 or later");
    else
        printf("  %-16s %-4s %s\n", "cuda", "no", why);
}

static int print_json(void)
{
    json_t *list = json_array();
    int failed = 0;
    char why[512] = "";
    bool cuda = cuda_runs_here(why, sizeof(why));

    for (enum kernel_set set = 0; set < KERNELS_COUNT; set++)
        failed |= json_array_append_new(list, json_pack("{s:s, s:b, s:b}", "name", kernel_set_name(set), "runs_here",
                                                        kernel_set_runs_here(set), "default", set == kernel_set_best()));
    failed |= json_array_append_new(list, json_pack("{s:s, s:b, s:b, s:s}", "name", "cuda", "runs_here", cuda, "default", 0, "why", why));
    failed |= json_dumpf(list, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(list);
    return failed == 0 ? EXIT_OK : EXIT_FAILED;
}

int cmd_devices(int argc, char **argv)
{
    struct options options = {.command = "berth-exec devices", .table = table, .count = ARRAY_COUNT(table), .errors = stderr,
                              .argc = argc, .argv = argv, .at = 1};
    const char *value;
    bool json = false;
    int option;

    while ((option = options_next(&options, &value)) != OPTION_END) {
        switch (option) {
        case OPTION_json:
            json = true;
            break;
        case OPTION_help:
            puts("usage: berth-exec devices [--json]\n\n"
                 "Lists the sets of kernels and CUDA, which of them run on this machine, and which is used by default.\n");
            options_print(stdout, table, ARRAY_COUNT(table));
            puts("\nExit codes: 0 done, 1 it could not be done, 2 wrong usage.");
            return EXIT_OK;
        case OPTION_OPERAND:
            fprintf(stderr, "berth-exec devices: takes no operand (%s)\n", value);
            return EXIT_USAGE;
        default:
            return EXIT_USAGE;
        }
    }
    if (json)
        return print_json();
    print_table();
    return EXIT_OK;
}
