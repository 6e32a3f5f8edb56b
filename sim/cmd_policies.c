/* berth-sim policies: every question the cores leave open, and the answers that are built in. */
#include <jansson.h>
#include <stdio.h>

#include "cmd.h"
#include "host/options.h"
#include "policy/policy.h"

enum { OPTION_json, OPTION_help };
static const struct option table[] = {
    {"json", NULL, "one array of objects instead of the table"},
    {"help", NULL, "this text"},
};

static void print_table(void)
{
    const char *question = "";
    struct policy_line line;

    for (size_t i = 0; policy_line_at(i, &line); i++) {
        if (strcmp(line.question, question) != 0)
            printf("%s%s: %s\n", i > 0 ? "\n" : "", line.question, line.asks);
        question = line.question;
        printf("  %-14s %s\n", line.name, line.about);
    }
}

static int print_json(void)
{
    json_t *list = json_array();
    struct policy_line line;
    int failed = 0;

    for (size_t i = 0; policy_line_at(i, &line); i++)
        failed |= json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "question", line.question, "name", line.name,
                                                        "about", line.about));
    failed |= json_dumpf(list, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(list);
    return failed == 0 ? EXIT_OK : EXIT_FAILED;
}

int cmd_policies(int argc, char **argv)
{
    struct options options = {.command = "berth-sim policies", .table = table, .count = ARRAY_COUNT(table), .errors = stderr,
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
            puts("usage: berth-sim policies [--json]\n\n"
                 "Lists the policies: the question, the name to write in a scenario, a line about it.\n");
            options_print(stdout, table, ARRAY_COUNT(table));
            puts("\nExit codes: 0 done, 1 it could not be done, 2 wrong usage.");
            return EXIT_OK;
        case OPTION_OPERAND:
            fprintf(stderr, "berth-sim policies: takes no %s; berth-sim policies --help says how\n", value);
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
