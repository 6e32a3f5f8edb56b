/* The verb from arguments to exit code, in this process: its file is part of the program, not of a library. */
#include "cmd_trace.c"
#include "cmd_trace_jobs.c"

#include <unistd.h>

#include "sim/speak.h"

#define SPEAK(...) *speak(trace_info_command, (const char *const[]){"trace", __VA_ARGS__, NULL})

static void info_tells_what_is_in_a_trace(void **state)
{
    (void)state;
    struct spoken spoken = SPEAK("info", "traces/samples/azure-conv-sample.csv.gz");

    assert_int_equal(spoken.code, 0);
    assert_string_equal(spoken.errors, "");
    assert_has(spoken.output, "format     azure\n");
    assert_has(spoken.output, "rows       19,366\n");
    assert_has(spoken.output, "duration   3501.700 s (0 h 58 min 21 s)\n");
    assert_has(spoken.output, "5.53 requests/s on average, CV of the gaps 1.09, busiest minute 514 requests\n");
    assert_has(spoken.output, "prompt     mean 1172.6, p50 1,020, p90 2,736, p99 4,128, max 13,116 tokens\n");
    assert_has(spoken.output, "adapters   none in this format; a scenario assigns them\n");
}

static void info_of_the_real_hour_agrees_with_what_is_published(void **state)
{
    (void)state;
    const char *path = test_shared_path("traces/azure_llm_2023/AzureLLMInferenceTrace_conv.csv");
    struct spoken spoken;

    if (path == NULL) {
        print_message("the Azure trace is not there: skipped\n");
        skip();
    }
    spoken = SPEAK("info", path);
    assert_int_equal(spoken.code, 0);
    assert_has(spoken.output, "rows       19,366\n");
    assert_has(spoken.output, "5.53 requests/s on average, CV of the gaps 1.09");
    assert_has(spoken.output, "prompt     mean 1154.7");
    assert_has(spoken.output, "max 14,050 tokens\noutput     mean 211.1");
}

static json_t *spoken_json(const struct spoken *spoken)
{
    json_t *root = json_loads(spoken->output, 0, NULL);

    assert_int_equal(spoken->code, 0);
    assert_non_null(root);
    return root;
}

static void info_counts_names_and_their_shares(void **state)
{
    (void)state;
    struct spoken spoken = SPEAK("info", "--json", "--format=csv", "--time-column", "1", "--adapter-column=adapter, if any",
                                 "--tenant-column=2", "traces/samples/generic-sample.csv");
    json_t *root = spoken_json(&spoken);
    json_t *tenants = json_object_get(root, "tenants");
    json_t *adapters = json_object_get(root, "adapters");

    assert_int_equal(json_integer_value(json_object_get(root, "rows")), 200);
    assert_int_equal(json_integer_value(json_object_get(tenants, "distinct")), 7);
    assert_true(json_number_value(json_object_get(tenants, "top_10_share")) == 1);
    assert_true(json_number_value(json_object_get(tenants, "named_share")) == 1);
    assert_in_range(json_integer_value(json_object_get(adapters, "distinct")), 20, 28); /* of 28, 1 and 2 are the base */
    assert_true(json_number_value(json_object_get(adapters, "named_share")) ==
                json_number_value(json_object_get(root, "lora_share")));
    assert_null(json_object_get(root, "prompt_tokens"));
    json_decref(root);
}

static void info_knows_job_traces_by_their_first_line(void **state)
{
    (void)state;
    struct spoken spoken = SPEAK("info", "traces/samples/jobs-sample.swf");

    assert_int_equal(spoken.code, 0);
    assert_string_equal(spoken.errors, "");
    assert_has(spoken.output, "format     swf (jobs)\njobs       60\n");
    assert_has(spoken.output, " jobs/day on average, CV of the gaps ");
    assert_has(spoken.output, "\nrun time   mean ");
    assert_has(spoken.output, "\ngpus       mean ");
    assert_has(spoken.output, "\nstatus     done 46 (76.7%), failed 5 (8.3%), cancelled 3 (5.0%), unknown 6 (10.0%)\n");
    assert_has(spoken.output, "\nusers      ");
    assert_has(spoken.output, "\nparts      2: a part of a job that has a line of its own (SWF status 2 to 4)\n");
}

static void info_of_the_real_hpc2n_log(void **state)
{
    (void)state;
    const char *path = test_shared_path("traces/swf/hpc2n.swf");
    struct spoken spoken;

    if (path == NULL) {
        print_message("the HPC2N log is not there: skipped\n");
        skip();
    }
    spoken = SPEAK("info", path);
    assert_int_equal(spoken.code, 0);
    assert_has(spoken.output, "jobs       3,170\nduration   4950011.000 s (57 d 7 h 0 min)\n");
    assert_has(spoken.output, "rate       55.3 jobs/day on average");
    assert_has(spoken.output, "run time   mean 10128.3, ");
}

static void info_reads_any_csv_of_jobs_by_its_columns(void **state)
{
    (void)state;
    struct spoken spoken = SPEAK("info", "--json", "--time-column", "submitted", "--time-unit=datetime", "--gpus-column=gpus",
                                 "--user-column", "who", "traces/samples/jobs-generic-sample.csv");
    json_t *root = spoken_json(&spoken);

    assert_string_equal(json_string_value(json_object_get(root, "format")), "csv");
    assert_int_equal(json_integer_value(json_object_get(root, "jobs")), 60);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(root, "gpus"), "less_than_one")), 30);
    assert_non_null(json_object_get(root, "users"));
    assert_null(json_object_get(root, "runtime_s"));
    json_decref(root);
}

static void a_bad_job_line_stops_with_its_place(void **state)
{
    (void)state;
    struct spoken spoken = SPEAK("info", "--runtime-column=what", "traces/samples/jobs-generic-sample.csv");

    assert_int_equal(spoken.code, 1);
    assert_string_equal(spoken.output, "");
    assert_has(spoken.errors, "jobs-generic-sample.csv:2:");
    assert_has(spoken.errors, ": what 'tune, 0' is not a number; ");
}

static void survey_numbers_are_those_of_a_page_of_arithmetic(void **state)
{
    (void)state;
    /* Gaps 1, 1, 4 s: mean 2, variance 2; tenants a a b, one row without. */
    static const struct trace_row rows[] = {
        {.at_ns = 0, .prompt_tokens = 10, .output_tokens = 1, .tenant = "a", .adapter = "x"},
        {.at_ns = NS_PER_S, .prompt_tokens = 20, .output_tokens = 2, .tenant = "a"},
        {.at_ns = 2 * NS_PER_S, .tenant = "b", .failed = true},
        {.at_ns = 6 * NS_PER_S, .prompt_tokens = 60, .output_tokens = 3},
    };
    struct survey *survey = survey_create(TRACE_HAS_TENANT | TRACE_HAS_ADAPTER);
    struct survey_result result;

    for (size_t i = 0; i < ARRAY_COUNT(rows); i++)
        survey_add(survey, &rows[i]);
    result = survey_result(survey);
    survey_free(survey);
    assert_int_equal(result.rows, 4);
    assert_int_equal(result.duration_ns, 6 * NS_PER_S);
    assert_true(result.rate_per_s > 0.4999 && result.rate_per_s < 0.5001);
    assert_true(result.gap_cv > 0.7071 && result.gap_cv < 0.7072);
    assert_int_equal(result.busiest_minute_rows, 4);
    assert_true(result.failed_share == 0.25);
    assert_true(result.lora_share == 0.25);
    assert_int_equal(result.prompt.count, 3);
    assert_true(result.prompt.mean == 30);
    assert_int_equal(result.prompt.p50, 20);
    assert_int_equal(result.prompt.max, 60);
    assert_int_equal(result.tenants.distinct, 2);
    assert_true(result.tenants.named_share == 0.75);
    assert_true(result.tenants.top_1_share > 0.666 && result.tenants.top_1_share < 0.667);
    assert_true(result.tenants.top_10_share == 1);
}

static void names_beyond_the_bound_are_said_to_be(void **state)
{
    (void)state;
    struct survey *survey = survey_create(TRACE_HAS_ADAPTER);
    struct trace_row row = {0};
    struct survey_result result;

    for (uint32_t i = 0; i <= SURVEY_NAMES_MAX; i++) {
        snprintf(row.adapter, sizeof(row.adapter), "%u", i);
        survey_add(survey, &row);
        if (i + 1 == SURVEY_NAMES_MAX)
            assert_false(survey_result(survey).adapters.bounded);
    }
    result = survey_result(survey);
    survey_free(survey);
    assert_true(result.adapters.bounded);
    assert_int_equal(result.adapters.distinct, SURVEY_NAMES_MAX);
    assert_true(result.rate_per_s == 0); /* all at one instant: no rate, rather than an infinite one */
}

/* A bad file for one test; the caller removes it. */
static const char *bad_trace(void)
{
    static char path[32];
    int fd;
    FILE *file;

    snprintf(path, sizeof(path), "build/trace-XXXXXX");
    fd = mkstemp(path);
    assert_true(fd >= 0);
    file = fdopen(fd, "wb");
    fputs("TIMESTAMP,ContextTokens,GeneratedTokens\n2024-01-01 00:00:01,1,1\n2024-01-01 00:00:00.9,1,1\n\n"
          "2024-01-01 00:00:02,1,-1\n", file);
    fclose(file);
    return path;
}

static void a_bad_line_stops_with_its_place(void **state)
{
    (void)state;
    const char *path = bad_trace();
    struct spoken spoken = SPEAK("info", path);

    unlink(path);
    assert_int_equal(spoken.code, 1);
    assert_string_equal(spoken.output, "");
    assert_has(spoken.errors, ":3:1: time goes back by 0.100000000 s from the row above; ");
}

static void lenient_counts_what_it_skipped(void **state)
{
    (void)state;
    const char *path = bad_trace();
    struct spoken spoken = SPEAK("info", path, "--lenient", "--backward-tolerance-s=0.5");

    unlink(path);
    assert_int_equal(spoken.code, 0);
    assert_has(spoken.output, "rows       2\n");
    assert_has(spoken.output, "lenient    1: blank line\n");
    assert_has(spoken.output, "lenient    1: time slightly backward, taken as equal to the row above (kept)\n");
    assert_has(spoken.output, "lenient    1: unreadable, negative or absurd length\n");
}

static void wrong_words_are_usage(void **state)
{
    (void)state;
    static const char *const wrong[][5] = {
        {NULL}, {"inform", "file"}, {"info"}, {"info", "a", "b"}, {"info", "a", "--strict"}, {"info", "a", "--format"},
        {"info", "traces/samples/azure-small.csv", "--format", "azur"}, {"info", "a", "--time-unit", "h"},
        {"info", "a", "--backward-tolerance-s", "-1"}, {"info", "a", "--backward-tolerance-s=1s"},
        {"info", "traces/samples/azure-small.csv", "--prompt-column", "ContextTokens"},
        {"info", "traces/samples/azure-small.csv", "--format", "csv"},
        {"info", "traces/samples/jobs-sample.swf", "--format", "swf", "--gpus-column=5"},
        {"info", "traces/samples/jobs-generic-sample.csv", "--gpus-column=4", "--prompt-column=5"},
    };

    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
        struct spoken spoken = SPEAK(wrong[i][0], wrong[i][1], wrong[i][2], wrong[i][3], wrong[i][4]);

        if (spoken.code != 2 || spoken.errors[0] == 0 || spoken.output[0] != 0)
            fail_msg("case %zu: code %d, \"%s\", \"%s\"", i, spoken.code, spoken.output, spoken.errors);
    }
}

static void a_file_that_is_not_there_is_bad_input(void **state)
{
    (void)state;
    struct spoken spoken = SPEAK("info", "no/such/file.csv");

    assert_int_equal(spoken.code, 1);
    assert_has(spoken.errors, "no/such/file.csv: cannot open: No such file or directory; ");
}

static void help_names_every_format(void **state)
{
    (void)state;
    struct spoken spoken = SPEAK("--help");
    const char *name;
    const char *about;

    assert_int_equal(spoken.code, 0);
    for (size_t i = 0; trace_format_at(i, &name, &about); i++) {
        assert_has(spoken.output, name);
        assert_has(spoken.output, about);
    }
    for (size_t i = 0; job_trace_format_at(i, &name, &about); i++)
        assert_has(spoken.output, about);
    assert_has(spoken.output, "Exit codes: 0 done, 1 the file is bad or cannot be read, 2 wrong usage.\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(info_tells_what_is_in_a_trace),
        cmocka_unit_test(info_of_the_real_hour_agrees_with_what_is_published),
        cmocka_unit_test(info_counts_names_and_their_shares),
        cmocka_unit_test(info_knows_job_traces_by_their_first_line),
        cmocka_unit_test(info_of_the_real_hpc2n_log),
        cmocka_unit_test(info_reads_any_csv_of_jobs_by_its_columns),
        cmocka_unit_test(a_bad_job_line_stops_with_its_place),
        cmocka_unit_test(survey_numbers_are_those_of_a_page_of_arithmetic),
        cmocka_unit_test(names_beyond_the_bound_are_said_to_be),
        cmocka_unit_test(a_bad_line_stops_with_its_place),
        cmocka_unit_test(lenient_counts_what_it_skipped),
        cmocka_unit_test(wrong_words_are_usage),
        cmocka_unit_test(a_file_that_is_not_there_is_bad_input),
        cmocka_unit_test(help_names_every_format),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
