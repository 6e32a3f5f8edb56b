/* What a person is told: whole messages, for each kind of mistake. Most of them stand in mistakes.txt; here are those
 * that are no text, or name what other parts of the house list. */
#include <stdlib.h>

#include "model/shape.h"
#include "policy/policy.h"
#include "sim/scenario/rig.h"
#include "support.h"

#define SETTINGS_MAX 16
struct mistake {
    char name[160];
    char text[2048];
    char settings[SETTINGS_MAX][80];
    uint32_t settings_count;
    enum status status;
    char messages[8192];
};

static void assert_told(const struct mistake *mistake)
{
    struct scenario_set set = {0};
    const char *settings[SETTINGS_MAX];
    char *messages;
    enum status status;

    for (uint32_t i = 0; i < mistake->settings_count; i++)
        settings[i] = mistake->settings[i];
    status = rig_read(mistake->text, settings, mistake->settings_count, &set, &messages);
    if (strcmp(messages, mistake->messages) != 0 || status != mistake->status)
        fail_msg("%s\n%s\nsays (%s):\n%s\nexpected (%s):\n%s", mistake->name, mistake->text, status_text(status), messages,
                 status_text(mistake->status), mistake->messages);
    if (status != STATUS_OK)
        assert_null(set.items);
    scenario_set_free(&set);
    free(messages);
}

static void append(char *text, size_t text_bytes, const char *line)
{
    size_t used = strlen(text);

    assert_true(used + strlen(line) < text_bytes);
    strcpy(text + used, line);
}

static bool begins_with(const char *line, const char *word)
{
    return strncmp(line, word, strlen(word)) == 0;
}

static void close_case(struct mistake *mistake, uint32_t *cases)
{
    size_t count = strlen(mistake->messages);

    if (mistake->name[0] == '\0')
        return;
    /* The empty line between cases. */
    if (count >= 2 && strcmp(mistake->messages + count - 2, "\n\n") == 0)
        mistake->messages[count - 1] = '\0';
    assert_told(mistake);
    (*cases)++;
}

static void every_mistake_is_told_as_written_down(void **state)
{
    (void)state;
    static struct mistake mistake;
    FILE *file = fopen("tests/sim/scenario/mistakes.txt", "r");
    bool in_messages = false;
    uint32_t cases = 0;
    char line[2048];

    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        if (begins_with(line, "@ ")) {
            close_case(&mistake, &cases);
            memset(&mistake, 0, sizeof(mistake));
            append(mistake.name, sizeof(mistake.name), line + 2);
            in_messages = false;
        } else if (begins_with(line, "@set ")) {
            assert_true(mistake.settings_count < SETTINGS_MAX);
            line[strcspn(line, "\n")] = '\0';
            append(mistake.settings[mistake.settings_count++], sizeof(mistake.settings[0]), line + 5);
        } else if (begins_with(line, "@refused") || begins_with(line, "@warned")) {
            mistake.status = begins_with(line, "@refused") ? STATUS_INVALID : STATUS_OK;
            in_messages = true;
        } else if (mistake.name[0] != '\0') {
            append(in_messages ? mistake.messages : mistake.text,
                   in_messages ? sizeof(mistake.messages) : sizeof(mistake.text), line);
        }
    }
    close_case(&mistake, &cases);
    fclose(file);
    assert_true(cases >= 40);
}

static void assert_text_told(const char *text, const char *messages)
{
    static struct mistake mistake;

    memset(&mistake, 0, sizeof(mistake));
    mistake.status = STATUS_INVALID;
    append(mistake.text, sizeof(mistake.text), text);
    append(mistake.messages, sizeof(mistake.messages), messages);
    assert_told(&mistake);
}

static void what_is_not_text_is_refused(void **state)
{
    (void)state;
    assert_text_told("name: a\377b\n", "x.yaml:1:8: error: byte 0xff is not text in UTF-8; is it the right file?\n"
                                       "    1 | name: a?b\n"
                                       "      |        ^\n");
    assert_text_told("name: a\001b\n", "x.yaml:1:8: error: byte 0x01 is not text in UTF-8; is it the right file?\n"
                                       "    1 | name: a?b\n"
                                       "      |        ^\n");
}

static void policy_names(const char *question, char *ret_names)
{
    struct policy_line line;

    ret_names[0] = '\0';
    for (size_t i = 0; policy_line_at(i, &line); i++) {
        if (strcmp(line.question, question) == 0)
            sprintf(ret_names + strlen(ret_names), "%s%s", ret_names[0] != '\0' ? ", " : "", line.name);
    }
}

static void unknown_policies_list_what_there_is(void **state)
{
    (void)state;
    char names[512];
    char messages[2048];

    policy_names("evict", names);
    sprintf(messages, "x.yaml:1:15: error: evict must be an evict policy: one of %s, not `lruu`; did you mean `lru`?\n"
                      "    1 | pool: {evict: lruu}\n"
                      "      |               ^~~~\n", names);
    assert_text_told("pool: {evict: lruu}\n", messages);
    policy_names("queue", names);
    sprintf(messages, "x.yaml:1:15: error: queue must be a queue policy: one of %s, not `lifo`\n"
                      "    1 | pool: {queue: lifo}\n"
                      "      |               ^~~~\n", names);
    assert_text_told("pool: {queue: lifo}\n", messages);
    policy_names("route", names);
    sprintf(messages, "x.yaml:1:16: error: route must be a route policy: one of %s, not `round_robin`; did you mean `round-robin`?\n"
                      "    1 | fleet: {route: round_robin}\n"
                      "      |                ^~~~~~~~~~~\n", names);
    assert_text_told("fleet: {route: round_robin}\n", messages);
}

static void unknown_bases_list_the_shapes(void **state)
{
    (void)state;
    char names[1024] = "";
    char messages[2048];
    const struct shape *shape;

    for (size_t i = 0; (shape = shape_at(i)) != NULL; i++) {
        if (!shape->averaged)
            sprintf(names + strlen(names), "%s%s", names[0] != '\0' ? ", " : "", shape->name);
    }
    sprintf(messages, "x.yaml:1:14: error: no shape is called `lama-8b` (did you mean `llama-8b`?); there are %s; or give the path "
                      "of a config.json\n"
                      "    1 | pool: {base: lama-8b}\n"
                      "      |              ^~~~~~~\n", names);
    assert_text_told("pool: {base: lama-8b}\n", messages);
}

static void unknown_gpus_list_the_profiles(void **state)
{
    (void)state;
    struct scenario_set set = {0};
    char *messages;

    assert_int_equal(rig_read("pool: {gpu: h1000}\n", NULL, 0, &set, &messages), STATUS_INVALID);
    assert_non_null(strstr(messages, "x.yaml:1:13: error: gpu: no GPU profile is called `h1000` in "));
    assert_non_null(strstr(messages, "there are a100-80, a10g, h100, h200, "));
    free(messages);
}

static void assert_file_told(const char *path, enum status wanted_status, const char *wanted)
{
    struct scenario_set set = {0};
    char *messages;
    size_t count;
    FILE *errors = open_memstream(&messages, &count);
    enum status status = scenario_read(path, NULL, 0, errors, &set);

    fclose(errors);
    rig_strip(messages);
    assert_string_equal(messages, wanted);
    assert_int_equal(status, wanted_status);
    assert_null(set.items);
    free(messages);
}

static void a_file_that_is_not_there_is_told(void **state)
{
    (void)state;
    assert_file_told("nowhere/x.yaml", STATUS_NOT_FOUND,
                     "nowhere/x.yaml: error: cannot be opened: No such file or directory\n");
}

static void a_directory_is_not_a_file(void **state)
{
    (void)state;
    assert_file_told("scenarios", STATUS_IO, "scenarios: error: is a directory; name a file in it\n");
}

static void a_file_of_nothing_is_empty(void **state)
{
    (void)state;
    assert_file_told(rig_file("x.yaml", "", 0), STATUS_INVALID,
                     "x.yaml:1:1: error: is empty; the least it may hold is {}\n");
}

static void a_file_beyond_a_mebibyte_is_refused(void **state)
{
    (void)state;
    size_t count = (1u << 20) + 1;
    char *bytes = malloc(count);
    const char *path;

    memset(bytes, '#', count);
    path = rig_file("x.yaml", bytes, count);
    assert_file_told(path, STATUS_INVALID, "x.yaml: error: is larger than 1048576 bytes; is it the right file?\n");
    free(bytes);
}

static void errors_stop_at_twenty(void **state)
{
    (void)state;
    char *text = malloc(400000);
    size_t used = 0;
    struct scenario_set set = {0};
    uint32_t lines = 0;
    char *messages;

    for (uint32_t i = 0; i < 20000; i++)
        used += (size_t)snprintf(text + used, 400000 - used, "wrong%u: 1\n", i);
    assert_int_equal(rig_read(text, NULL, 0, &set, &messages), STATUS_INVALID);
    for (const char *at = messages; (at = strstr(at, "error: ")) != NULL; at++)
        lines++;
    assert_int_equal(lines, 20);
    assert_non_null(strstr(messages, "more; mend these first\n"));
    free(messages);
    free(text);
}

static void long_lines_are_shown_around_the_caret(void **state)
{
    (void)state;
    char text[600];
    struct scenario_set set = {0};
    char *messages;

    snprintf(text, sizeof(text), "{about: \"%0200d\", seed: x, name: \"%0200d\"}\n", 0, 0);
    assert_int_equal(rig_read(text, NULL, 0, &set, &messages), STATUS_INVALID);
    assert_string_equal(messages, "x.yaml:1:219: error: seed must be a whole number, not `x`\n"
                                  "    1 | ...0000000000000000000000000000000000000000000000\", seed: x, name: \""
                                  "000000000000000000000000000000000000000000000...\n"
                                  "      |                                                           ^\n");
    free(messages);
}

static void nesting_without_end_is_refused(void **state)
{
    (void)state;
    char text[4001];
    struct scenario_set set = {0};
    char *messages;

    memset(text, '[', 4000);
    text[4000] = '\0';
    assert_int_equal(rig_read(text, NULL, 0, &set, &messages), STATUS_INVALID);
    assert_non_null(strstr(messages, "x.yaml:1:"));
    free(messages);
}

/* Were aliases expanded, this would be 10^9 values. */
static void a_bomb_of_aliases_does_not_go_off(void **state)
{
    (void)state;
    char text[2048] = "a0: &a0 [1]\n";
    struct scenario_set set = {0};
    char *messages;

    for (uint32_t i = 1; i < 10; i++) {
        size_t used = strlen(text);

        snprintf(text + used, sizeof(text) - used, "a%u: &a%u [*a%u, *a%u, *a%u, *a%u, *a%u, *a%u, *a%u, *a%u, *a%u, *a%u]\n",
                 i, i, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1);
    }
    strcat(text, "workload: {adapters: {ranks: *a9}}\n");
    assert_int_equal(rig_read(text, NULL, 0, &set, &messages), STATUS_INVALID);
    assert_non_null(strstr(messages, "a value of ranks must be a number, not a list"));
    free(messages);
}

static int end(void **state)
{
    (void)state;
    rig_end();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mistake_is_told_as_written_down),
        cmocka_unit_test(what_is_not_text_is_refused),
        cmocka_unit_test(unknown_policies_list_what_there_is),
        cmocka_unit_test(unknown_bases_list_the_shapes),
        cmocka_unit_test(unknown_gpus_list_the_profiles),
        cmocka_unit_test(a_file_that_is_not_there_is_told),
        cmocka_unit_test(a_directory_is_not_a_file),
        cmocka_unit_test(a_file_of_nothing_is_empty),
        cmocka_unit_test(a_file_beyond_a_mebibyte_is_refused),
        cmocka_unit_test(errors_stop_at_twenty),
        cmocka_unit_test(long_lines_are_shown_around_the_caret),
        cmocka_unit_test(nesting_without_end_is_refused),
        cmocka_unit_test(a_bomb_of_aliases_does_not_go_off),
    };

    return cmocka_run_group_tests(tests, NULL, end);
}
