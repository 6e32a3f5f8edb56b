/* Requests to models as requests for their adapters. */
#include "objects.h"
#include "support.h"

#define NAME(n) ((UINT64_C(1) << 63) + (n))

static const struct object_columns columns = {.adapter = "adapter", .time = "arrived"};

static struct objects requests(const char *text)
{
    const struct object_options options = {.columns = &columns, .size_bytes = 1 << 20};

    return objects_of_text(text, NULL, &options);
}

static void adapters_are_ids_and_the_base_is_passed_over(void **state)
{
    (void)state;
    struct objects objects = requests("arrived,adapter\n100,fr-legal\n101,\n101.5,0\n102,42\n103,fr-legal\n");

    assert_objects_good(&objects, 3);
    assert_string_equal(objects.info.format, "requests");
    assert_request(&objects.rows[0], NAME(0), 1 << 20, 0, OBJECT_NEXT_UNKNOWN);
    assert_request(&objects.rows[1], 42, 1 << 20, 2 * NS_PER_S, OBJECT_NEXT_UNKNOWN);
    assert_request(&objects.rows[2], NAME(0), 1 << 20, 3 * NS_PER_S, OBJECT_NEXT_UNKNOWN);
    assert_int_equal(objects.info.passed_over, 2);
    assert_true(objects.info.has_time && !objects.info.has_size && !objects.info.has_next);
}

static void their_own_rules_hold(void **state)
{
    (void)state;
    struct objects objects = requests("arrived,adapter\n2,a\n1,b\n");

    assert_objects_refuse(&objects, STATUS_CORRUPT, 1, "bytes:3:1: time goes back by 1.000000000 s");
    objects = requests("arrived,who\n2,a\n");
    assert_objects_refuse(&objects, STATUS_CORRUPT, 0, "bytes:1:1: no column 'adapter' for the adapter");
    objects = requests("arrived,adapter\n2,\n");
    assert_objects_refuse(&objects, STATUS_CORRUPT, 0, "bytes: there is no request in it;");
    objects = requests("arrived,adapter\n1,a\n2,9223372036854775808\n");
    assert_objects_refuse(&objects, STATUS_CORRUPT, 1, "bytes:3:1: adapter '9223372036854775808' stands in one trace with texts");
}

static void a_format_without_adapters_is_refused(void **state)
{
    (void)state;
    struct objects objects = objects_of_file("traces/samples/azure-small.csv", "requests", NULL);

    assert_objects_refuse(&objects, STATUS_INVALID, 0, "traces/samples/azure-small.csv: azure names no adapters; give a csv");
}

static void a_file_is_read(void **state)
{
    (void)state;
    const struct object_columns of_sample = {.adapter = "adapter, if any", .time = "arrived_s"};
    const struct object_options options = {.columns = &of_sample};
    struct objects objects = objects_of_file("traces/samples/generic-sample.csv", NULL, &options);

    assert_int_equal(objects.status, STATUS_END);
    assert_true(objects.count > 50);
    assert_int_equal(objects.count + objects.info.passed_over, 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adapters_are_ids_and_the_base_is_passed_over),
        cmocka_unit_test(their_own_rules_hold),
        cmocka_unit_test(a_format_without_adapters_is_refused),
        cmocka_unit_test(a_file_is_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
