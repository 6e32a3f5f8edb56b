/* berth-sim policies: every question the cores leave open, and the answers that are built in. */
#include <jansson.h>
#include <stdio.h>

#include "cmd.h"
#include "policy/policy.h"

static const char help[] =
    "usage: berth-sim policies [--json]\n"
    "Lists the policies: the question, the name to write in a scenario, a line about it.\n"
    "Exit codes: 0 ok, 1 failure, 2 usage.\n";

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
    bool json = false;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            fputs(help, stdout);
            return EXIT_OK;
        }
        if (strcmp(argv[i], "--json") != 0) {
            fprintf(stderr, "berth-sim policies: unknown argument %s\n%s", argv[i], help);
            return EXIT_USAGE;
        }
        json = true;
    }
    if (json)
        return print_json();
    print_table();
    return EXIT_OK;
}
