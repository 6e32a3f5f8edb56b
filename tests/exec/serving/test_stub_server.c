/* The stub that stands in for a model server keeps the rules that it is measured by. */
#include "control.h"

#include <unistd.h>

#include "control/core/core.h"

/* build/MODE/tests/bench/exec/stub_server of build/MODE/tests/exec/serving/test_stub_server. */
static const char *stub(void)
{
    static char path[4200];
    const ssize_t length = readlink("/proc/self/exe", path, 4000);
    char *tests;

    assert_true(length > 0);
    path[length] = '\0';
    tests = strstr(path, "/tests/exec/");
    assert_non_null(tests);
    strcpy(tests, "/tests/bench/exec/stub_server");
    return path;
}

static void answers_at_once_within_credit(void **context)
{
    static struct control control;
    struct heard *heard;

    (void)context;
    control_begin_program(&control, (const char *const[]){stub(), NULL});
    heard = control_answer(&control, &(struct wanted){.prompt_tokens = 20, .max_tokens = 28});
    assert_string_equal(heard->text, "abcdefghijklmnopqrstuvwxyzab");
    assert_int_equal(heard->reply.count, 28);
    assert_int_equal(heard->done.finish, CORE_END_LENGTH);
    assert_int_equal(heard->usage.prompt_tokens, 20);
    assert_int_equal(heard->usage.output_tokens, 28);
    assert_string_equal(heard->account, "acme tiny-1");
    heard = heard_of(&control, control_ask(&control, &(struct wanted){.prompt_tokens = 20, .max_tokens = 28, .credit = 5}));
    control_until(&control, heard->reply.count == 5);
    control_say(&control, WIRE_CREDIT, &(struct wire_credit){.request = heard->request, .tokens = 23}, NULL, 0);
    control_until(&control, heard->reply.ends == 1);
    assert_int_equal(heard->reply.count, 28);
    control_end(&control);
}

static void answers_at_a_rate_until_aborted_forgotten_or_drained(void **context)
{
    static struct control control;
    struct heard *one;
    struct heard *two;

    (void)context;
    control_begin_program(&control, (const char *const[]){stub(), "100", NULL});
    one = heard_of(&control, control_ask(&control, &(struct wanted){.prompt_tokens = 20, .max_tokens = 100000}));
    two = heard_of(&control, control_ask(&control, &(struct wanted){.prompt_tokens = 20, .max_tokens = 100000}));
    control_until(&control, one->reply.count >= 3);
    assert_true(one->reply.count < 100);
    control_say(&control, WIRE_ABORT, &(struct wire_abort){.request = one->request}, NULL, 0);
    control_until(&control, one->reply.ends == 1);
    assert_int_equal(one->done.finish, CORE_END_CANCELLED);
    control_again(&control);
    control_until(&control, two->usages == 1);
    assert_true(two->usage.output_tokens >= two->reply.count);
    one = heard_of(&control, control_ask(&control, &(struct wanted){.prompt_tokens = 20, .max_tokens = 5}));
    control_until(&control, one->reply.count >= 1);
    control_say(&control, WIRE_DRAIN, &(struct wire_drain){.deadline_ms = UINT32_MAX}, NULL, 0);
    control_until(&control, one->reply.ends == 1);
    assert_int_equal(one->reply.count, 5);
    control_turn(&control, 0);
    assert_int_equal(control_join(&control), STATUS_OK);
    control_end(&control);
}

static void takes_any_adapter(void **context)
{
    static struct control control;
    struct object object;

    (void)context;
    control_begin_program(&control, (const char *const[]){stub(), NULL});
    place_adapter(&control.place, "one", 8, 7);
    object_make(&control, "one", "acme", &object);
    object.secret[0] ^= 1;
    control_load(&control, &object);
    control_until(&control, control.resident.tier == TIER_GPU && control.resident.generation == control.generation);
    assert_int_equal(control_answer(&control, &(struct wanted){.object = &object, .prompt_tokens = 20, .max_tokens = 2})->done.finish,
                     CORE_END_LENGTH);
    object_end(&object);
    control_end(&control);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_at_once_within_credit),
        cmocka_unit_test(answers_at_a_rate_until_aborted_forgotten_or_drained),
        cmocka_unit_test(takes_any_adapter),
    };

    return cmocka_run_group_tests_name("stub_server", tests, NULL, NULL);
}
