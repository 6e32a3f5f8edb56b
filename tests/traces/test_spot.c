/* Spot availability as steps, and what bad files are told. */
#include "spot.h"
#include "support.h"

#define HEAD "{\"metadata\": {\"gap_seconds\": 300}, \"data\": "

static struct spot_trace *open_text(const char *text, enum spot_polarity polarity)
{
    char message[TRACE_MESSAGE_MAX] = "";
    struct spot_trace *trace = NULL;

    if (spot_open_bytes(text, strlen(text), polarity, &trace, message) != STATUS_OK)
        fail_msg("%s", message);
    return trace;
}

static void assert_steps(struct spot_trace *trace, const struct spot_step *steps, size_t count)
{
    struct spot_step step;

    for (size_t i = 0; i < count; i++) {
        assert_int_equal(spot_next(trace, &step), STATUS_OK);
        assert_int_equal(step.at_ns, steps[i].at_ns);
        assert_int_equal(step.available, steps[i].available);
    }
    assert_int_equal(spot_next(trace, &step), STATUS_END);
}

static void counts_become_steps_where_they_change(void **state)
{
    (void)state;
    static const struct spot_step steps[] = {{0, 0}, {600 * NS_PER_S, 5}, {900 * NS_PER_S, 16}, {1500 * NS_PER_S, 0}};
    struct spot_trace *trace = open_text(HEAD "[0, 0, 5,\n 16, 16.0, 0]}\n", SPOT_AVAILABLE);
    struct spot_info info = spot_info(trace);

    assert_steps(trace, steps, ARRAY_COUNT(steps));
    spot_rewind(trace);
    assert_steps(trace, steps, ARRAY_COUNT(steps));
    assert_int_equal(info.ticks, 6);
    assert_int_equal(info.gap_ns, 300 * NS_PER_S);
    assert_int_equal(info.duration_ns, 1800 * NS_PER_S);
    assert_int_equal(info.available_max, 16);
    assert_int_equal(info.available_ticks, 3);
    spot_close(trace);
}

static void counts_of_machines_taken_are_turned_over(void **state)
{
    (void)state;
    static const struct spot_step steps[] = {{0, 1}, {600 * NS_PER_S, 0}, {1500 * NS_PER_S, 1}};
    struct spot_trace *trace = open_text(HEAD "[0, 0, 1, 1, 1, 0]}", SPOT_TAKEN);

    assert_steps(trace, steps, ARRAY_COUNT(steps));
    assert_int_equal(spot_info(trace).available_ticks, 3);
    assert_int_equal(spot_info(trace).available_max, 1);
    spot_close(trace);
}

static void bad_spot_traces_are_told_where(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *message;
    } cases[] = {
        {"", "bytes: the file is empty; "},
        {"[1, 2]", "bytes:1:1: no JSON object; "},
        {"{\"data\": [1]}", "bytes:1:1: no object \"metadata\"; "},
        {"{\"metadata\": {}, \"data\": [1]}", "bytes:1:14: no number \"gap_seconds\" in \"metadata\"; "},
        {"{\"metadata\": {\"gap_seconds\": 0},\n \"data\": [1]}", "bytes:1:30: \"gap_seconds\" 0 is no gap; "},
        {HEAD "5}", "bytes:1:44: no array \"data\"; "},
        {HEAD "[]}", "bytes:1:44: \"data\" is empty; "},
        {HEAD "[1,\n -1]}", "bytes:2:2: the count '-1' is negative; "},
        {HEAD "[1, 0.5]}", "bytes:1:48: the count '0.5' is not a whole number; "},
        {HEAD "[1, \"x y\"]}", "bytes:1:48: the count '\"x' is not a number; "},
        {HEAD "[1, [2]]}", "bytes:1:48: the count '[2]' is not a number; "},
        {HEAD "[1 2]}", "bytes:1:47: neither ',' nor a closing bracket; "},
        {HEAD "[1, 2000000]}", "bytes:1:48: the count '2000000' is absurdly large; "},
        {"{\"metadata\": {\"gap_seconds\": 7e9}, \"data\": [1, 1]}",
         "bytes:1:48: the counts go on for more than 230 years; "},
    };

    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char message[TRACE_MESSAGE_MAX] = "";
        struct spot_trace *trace = NULL;
        enum status status = spot_open_bytes(cases[i].text, strlen(cases[i].text), SPOT_AVAILABLE, &trace, message);

        if (status != STATUS_CORRUPT || trace != NULL || strncmp(message, cases[i].message, strlen(cases[i].message)) != 0)
            fail_msg("case %zu: status %d, said \"%s\", wanted \"%s\"", i, (int)status, message, cases[i].message);
    }
}

static void a_file_that_is_not_there_is_said(void **state)
{
    (void)state;
    char message[TRACE_MESSAGE_MAX];
    struct spot_trace *trace;

    assert_int_equal(spot_open("no/such.json", SPOT_AVAILABLE, &trace, message), STATUS_IO);
    assert_string_equal(message, "no/such.json: cannot open: No such file or directory; check the path");
}

static void our_sample_is_read(void **state)
{
    (void)state;
    char message[TRACE_MESSAGE_MAX];
    struct spot_trace *trace;

    assert_int_equal(spot_open("traces/samples/spot-sample.json", SPOT_AVAILABLE, &trace, message), STATUS_OK);
    assert_int_equal(spot_info(trace).ticks, 288);
    assert_int_equal(spot_info(trace).duration_ns, 86400 * NS_PER_S);
    spot_close(trace);
}

static void the_real_traces_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        uint64_t ticks;
        uint32_t available_max;
        uint64_t available_ticks;
    } files[] = {{"traces/spot/availability-16node-us-west-2a-v100.json", 4736, 16, 4736 - 2622},
                 {"traces/spot/availability-us-east-1a-v100.json", 20158, 1, 3360}};

    for (size_t i = 0; i < ARRAY_COUNT(files); i++) {
        const char *path = test_shared_path(files[i].path);
        char message[TRACE_MESSAGE_MAX];
        struct spot_trace *trace;
        struct spot_step step;
        int64_t last_ns = -1;

        if (path == NULL) {
            print_message("%s is not there: skipped\n", files[i].path);
            skip();
        }
        if (spot_open(path, SPOT_AVAILABLE, &trace, message) != STATUS_OK)
            fail_msg("%s", message);
        assert_int_equal(spot_info(trace).ticks, files[i].ticks);
        assert_int_equal(spot_info(trace).available_max, files[i].available_max);
        assert_int_equal(spot_info(trace).available_ticks, files[i].available_ticks);
        while (spot_next(trace, &step) == STATUS_OK) {
            assert_true(step.at_ns > last_ns);
            last_ns = step.at_ns;
        }
        spot_close(trace);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_become_steps_where_they_change),
        cmocka_unit_test(counts_of_machines_taken_are_turned_over),
        cmocka_unit_test(bad_spot_traces_are_told_where),
        cmocka_unit_test(a_file_that_is_not_there_is_said),
        cmocka_unit_test(our_sample_is_read),
        cmocka_unit_test(the_real_traces_are_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
