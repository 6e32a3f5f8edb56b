#include "support.h"

#include <math.h>
#include <stdlib.h>

#include "sim/workload/scene.h"

static struct scenario scenario;

static struct keys_workload *begin(uint32_t format, const char *path)
{
    scene_default(&scenario);
    scenario.workload.source = KEY_SOURCE_TRACE;
    scenario.workload.trace.format = format;
    snprintf(scenario.workload.trace.path, KEY_TEXT_MAX, "%s", path);
    scenario.duration_s = 1e8;
    return &scenario.workload;
}

static struct arrival take(struct source *source)
{
    int64_t next_ns = source_next_at_ns(source);
    struct arrival arrival;

    assert_true(next_ns != NEVER_NS);
    assert_int_equal(source_take(source, &arrival), STATUS_OK);
    assert_int_equal(arrival.at_ns, next_ns);
    assert_true(arrival.tenant.value < source_tenants_max(source));
    assert_true(arrival.adapter.index <= source_adapters_max(source));
    assert_true(arrival.prompt_tokens > 0);
    assert_true(arrival.output_tokens > 0);
    return arrival;
}

struct total {
    uint64_t count;
    uint64_t with_adapter;
    uint64_t prompt_tokens;
    uint64_t output_tokens;
    int64_t last_ns;
};

static struct total take_all(struct source *source)
{
    struct total total = {0};

    while (source_next_at_ns(source) != NEVER_NS) {
        struct arrival arrival = take(source);

        assert_true(arrival.at_ns >= total.last_ns);
        total.count++;
        total.with_adapter += !adapter_is_base(arrival.adapter);
        total.prompt_tokens += arrival.prompt_tokens;
        total.output_tokens += arrival.output_tokens;
        total.last_ns = arrival.at_ns;
    }
    return total;
}

static void assert_notes(const struct source *source, const char *sentence)
{
    if (strstr(source_notes(source), sentence) == NULL)
        fail_msg("the notes do not say \"%s\" but:\n%s", sentence, source_notes(source));
}

static void azure_rows_come_as_they_are_with_adapters_of_the_law(void **state)
{
    (void)state;
    struct source *source;
    struct arrival arrival;
    struct total total;

    begin(KEY_FORMAT_AZURE, "traces/samples/azure-small.csv");
    source = scene_open(&scenario);
    arrival = take(source);
    assert_int_equal(arrival.at_ns, 0);
    assert_int_equal(arrival.prompt_tokens, 751);
    assert_int_equal(arrival.output_tokens, 392);
    assert_int_equal(arrival.adapter.version, 1);
    arrival = take(source);
    assert_int_equal(arrival.at_ns, 153391000);
    assert_int_equal(arrival.prompt_tokens, 2404);
    assert_int_equal(arrival.tenant.value, source_adapter(source, arrival.adapter).tenant.value);
    total = take_all(source);
    assert_int_equal(total.count, 198);
    assert_int_equal(total.with_adapter, total.count);
    assert_string_equal(source_notes(source),
                        "Requests come from the trace traces/samples/azure-small.csv.\n"
                        "The trace has no adapter column: 1,000 adapters are assigned by a Zipf law with exponent 1.0.\n");
    source_close(source);
}

/* The rows of a trace have the same adapters as generated arrivals of the same seed, whatever their times. */
static void the_law_gives_the_same_adapters_to_any_trace(void **state)
{
    (void)state;
    struct source *source;
    struct source *generated;

    begin(KEY_FORMAT_AZURE, "traces/samples/azure-small.csv");
    source = scene_open(&scenario);
    scenario.workload.source = KEY_SOURCE_GENERATED;
    generated = scene_open(&scenario);
    for (uint32_t i = 0; i < 100; i++)
        assert_int_equal(take(source).adapter.index, take(generated).adapter.index);
    source_close(source);
    source_close(generated);
}

static void compressed_traces_stream_too(void **state)
{
    (void)state;
    struct source *source;

    begin(KEY_FORMAT_AZURE, "traces/samples/azure-conv-sample.csv.gz")->adapters.base_share = 0.5;
    source = scene_open(&scenario);
    assert_int_equal(take_all(source).count, 19366);
    assert_notes(source, "50.0% of the requests name no adapter.\n");
    source_close(source);
}

static void time_scale_duration_and_requests_max_bound_the_trace(void **state)
{
    (void)state;
    struct source *source;
    struct total whole;
    struct total part;

    begin(KEY_FORMAT_AZURE, "traces/samples/azure-small.csv");
    source = scene_open(&scenario);
    whole = take_all(source);
    source_close(source);
    scenario.workload.trace.time_scale = 0.5;
    source = scene_open(&scenario);
    part = take_all(source);
    assert_int_equal(part.count, whole.count);
    assert_in_range(part.last_ns, whole.last_ns / 2, whole.last_ns / 2 + 1);
    assert_notes(source, "Its times are multiplied by 0.5.\n");
    source_close(source);
    scenario.duration_s = (double)whole.last_ns / 4e9;
    source = scene_open(&scenario);
    part = take_all(source);
    assert_true(part.count > whole.count / 4 && part.count < whole.count);
    assert_true(part.last_ns <= whole.last_ns / 4 + 1);
    source_close(source);
    scenario.workload.requests_max = 5;
    source = scene_open(&scenario);
    assert_int_equal(take_all(source).count, 5);
    source_close(source);
}

static void failed_rows_of_burstgpt_are_left_out_and_counted(void **state)
{
    (void)state;
    const char *const paths[] = {"traces/samples/burstgpt-1-sample.csv", "traces/samples/burstgpt-2-sample.csv"};

    for (size_t i = 0; i < ARRAY_COUNT(paths); i++) {
        struct source *source;

        begin(KEY_FORMAT_BURSTGPT, paths[i]);
        source = scene_open(&scenario);
        assert_int_equal(take_all(source).count, 200 - 34);
        assert_notes(source, "Rows left out because the trace says that the request failed: 34.\n");
        source_close(source);
    }
}

static void mooncake_rows_come_too(void **state)
{
    (void)state;
    struct source *source;
    struct arrival arrival;

    begin(KEY_FORMAT_MOONCAKE, "traces/samples/mooncake-sample.jsonl");
    source = scene_open(&scenario);
    take(source);
    arrival = take(source);
    assert_int_equal(arrival.at_ns, 3 * NS_PER_S);
    assert_int_equal(arrival.prompt_tokens, 429);
    assert_int_equal(take_all(source).count, 198);
    source_close(source);
}

/* num_lora draws an adapter, groupId is the tenant, lengths are the scenario's. */
static void alibaba_rows_take_tenants_from_the_trace_and_the_rest_from_laws(void **state)
{
    (void)state;
    struct keys_workload *keys = begin(KEY_FORMAT_ALIBABA_LORA, "traces/samples/alibaba-lora-sample.csv");
    struct source *source;
    struct arrival arrival;
    struct total total;

    keys->tenants = 3;
    keys->prompt.law = KEY_LENGTH_CONSTANT;
    source = scene_open(&scenario);
    assert_int_equal(source_tenants_max(source), 55);
    assert_int_equal(source_adapters_max(source), 1000);
    arrival = take(source);
    assert_false(adapter_is_base(arrival.adapter));
    assert_int_equal(arrival.tenant.value, 0);
    assert_int_equal(arrival.prompt_tokens, 512);
    arrival = take(source);
    assert_true(adapter_is_base(arrival.adapter));
    assert_int_equal(arrival.tenant.value, 1);
    assert_int_equal(arrival.at_ns, 107 * NS_PER_S);
    total = take_all(source);
    assert_int_equal(total.count, 180);
    assert_int_equal(total.with_adapter, 35);
    assert_string_equal(source_notes(source),
                        "Requests come from the trace traces/samples/alibaba-lora-sample.csv.\n"
                        "The trace tells only how many adapters a request used, none meaning the base: 1,000 adapters are "
                        "assigned by a Zipf law with exponent 1.0.\n"
                        "The trace names the tenants: 55 of them.\n"
                        "The trace has no prompt and output lengths: the scenario's law gives them.\n"
                        "Rows left out because the trace says that the request failed: 18.\n");
    source_close(source);
}

#define NAMED "when,who,what,in,out\n" \
              "0,ann,red,10,1\n"       \
              "1,bob,blue,20,2\n"      \
              "2,ann,,30,3\n"          \
              "3,bob,blue,40,4\n"      \
              "4,cyd,red,50,5\n"       \
              "5,cyd,blue,60,6\n"

static struct keys_workload *begin_named(const char *path)
{
    struct keys_workload *keys = begin(KEY_FORMAT_CSV, path);

    strcpy(keys->trace.time_column, "when");
    strcpy(keys->trace.prompt_column, "in");
    strcpy(keys->trace.output_column, "out");
    strcpy(keys->trace.adapter_column, "what");
    strcpy(keys->trace.tenant_column, "who");
    return keys;
}

/* Numbers by appearance, popularity by count, the owner is who asked first. */
static void named_adapters_and_tenants_are_the_traces(void **state)
{
    (void)state;
    const char *path = scene_file("named.csv", NAMED);
    const uint32_t adapters[] = {1, 2, 0, 2, 1, 2};
    const uint32_t tenants[] = {0, 1, 0, 1, 2, 2};
    struct source *source;
    adapter_id adapter;

    begin_named(path)->tenants = 1;
    source = scene_open(&scenario);
    assert_int_equal(source_adapters_max(source), 2);
    assert_int_equal(source_tenants_max(source), 3);
    assert_true(source_popular(source, 0, &adapter));
    assert_int_equal(adapter.index, 2);
    assert_true(source_popular(source, 1, &adapter));
    assert_int_equal(adapter.index, 1);
    assert_false(source_popular(source, 2, &adapter));
    for (uint32_t i = 0; i < 6; i++) {
        struct arrival arrival = take(source);

        assert_int_equal(arrival.at_ns, i * NS_PER_S);
        assert_int_equal(arrival.adapter.index, adapters[i]);
        assert_int_equal(arrival.tenant.value, tenants[i]);
        assert_int_equal(arrival.prompt_tokens, 10 * (i + 1));
    }
    assert_int_equal(source_next_at_ns(source), NEVER_NS);
    assert_int_equal(source_adapter(source, (adapter_id){1, 1}).tenant.value, 0);
    assert_int_equal(source_adapter(source, (adapter_id){2, 1}).tenant.value, 1);
    assert_notes(source, "The trace names the adapters: 2 of them.\nThe trace names the tenants: 3 of them.\n");
    source_close(source);
    scene_remove(path);
}

static void a_trace_that_names_only_the_base_has_no_adapters(void **state)
{
    (void)state;
    const char *path = scene_file("base.csv", "when,who,what,in,out\n0,ann,,10,1\n1,ann,0,10,1\n");
    struct source *source;

    begin_named(path);
    source = scene_open(&scenario);
    assert_int_equal(source_adapters_max(source), 0);
    assert_true(adapter_is_base(take(source).adapter));
    assert_true(adapter_is_base(take(source).adapter));
    source_close(source);
    scene_remove(path);
}

static void the_generic_sample_is_read(void **state)
{
    (void)state;
    struct keys_workload *keys = begin(KEY_FORMAT_CSV, "traces/samples/generic-sample.csv");
    struct source *source;
    struct total total;

    strcpy(keys->trace.time_column, "arrived_s");
    strcpy(keys->trace.prompt_column, "prompt_tokens");
    strcpy(keys->trace.output_column, "output_tokens");
    strcpy(keys->trace.adapter_column, "adapter, if any");
    strcpy(keys->trace.tenant_column, "customer");
    source = scene_open(&scenario);
    assert_int_equal(source_adapters_max(source), 26);
    total = take_all(source);
    assert_int_equal(total.count, 200);
    assert_int_equal(total.with_adapter, 200 - 77);
    source_close(source);
}

static void the_fallback_is_used_and_said(void **state)
{
    (void)state;
    struct keys_workload *keys = begin(KEY_FORMAT_AZURE, "../nowhere/real.csv");
    struct source *source;

    strcpy(keys->trace.path_fallback, "traces/samples/azure-small.csv");
    source = scene_open(&scenario);
    take(source);
    assert_notes(source, "Requests come from the trace traces/samples/azure-small.csv, since ../nowhere/real.csv does not "
                         "exist.\n");
    source_close(source);
}

static void missing_files_are_named(void **state)
{
    (void)state;
    struct keys_workload *keys = begin(KEY_FORMAT_AZURE, "");

    assert_string_equal(scene_refusal(&scenario, STATUS_INVALID),
                        "workload.trace.path: is empty; name the trace's file\n");
    strcpy(keys->trace.path, "/nowhere/real.csv");
    assert_string_equal(scene_refusal(&scenario, STATUS_NOT_FOUND),
                        "workload.trace.path: no such file: /nowhere/real.csv\n");
    strcpy(keys->trace.path_fallback, "/nowhere/else.csv");
    assert_string_equal(scene_refusal(&scenario, STATUS_NOT_FOUND),
                        "workload.trace: neither path nor path_fallback exists: /nowhere/real.csv, /nowhere/else.csv\n");
}

static void a_column_that_is_not_there_is_refused_at_open(void **state)
{
    (void)state;
    const char *path = scene_file("named.csv", NAMED);

    strcpy(begin_named(path)->trace.prompt_column, "length");
    assert_non_null(strstr(scene_refusal(&scenario, STATUS_CORRUPT), "'length'"));
    memset(scenario.workload.trace.prompt_column, 'x', 80);
    assert_non_null(strstr(scene_refusal(&scenario, STATUS_INVALID), "workload.trace.prompt_column: longer than 63"));
    scene_remove(path);
}

#define BROKEN "TIMESTAMP,ContextTokens,GeneratedTokens\n" \
               "2023-11-16 18:15:46.6805900,374,44\n"      \
               "2023-11-16 18:15:47.6805900,396,109\n"     \
               "2023-11-16 18:15:48.6805900,-3,10\n"       \
               "2023-11-16 18:15:49.6805900,90,10\n"

static void a_broken_row_stops_the_run_where_it_stands(void **state)
{
    (void)state;
    const char *path = scene_file("broken.csv", BROKEN);
    struct source *source;
    struct arrival arrival;

    begin(KEY_FORMAT_AZURE, path);
    source = scene_open(&scenario);
    take(source);
    take(source);
    assert_int_equal(source_next_at_ns(source), NS_PER_S);
    assert_int_equal(source_take(source, &arrival), STATUS_CORRUPT);
    assert_non_null(strstr(source_message(source), "broken.csv:4:"));
    assert_int_equal(source_next_at_ns(source), NEVER_NS);
    source_close(source);
    scene_remove(path);
}

static void lenient_reading_skips_it_and_says_so(void **state)
{
    (void)state;
    const char *path = scene_file("broken.csv", BROKEN);
    struct source *source;

    begin(KEY_FORMAT_AZURE, path)->trace.lenient = true;
    source = scene_open(&scenario);
    assert_int_equal(take_all(source).count, 3);
    assert_notes(source, "Lenient reading met lines with: unreadable, negative or absurd length (1).\n");
    source_close(source);
    scene_remove(path);
}

/* Names are read beforehand, so a trace that has them is refused before the first request. */
static void a_broken_row_of_a_named_trace_is_refused_at_open(void **state)
{
    (void)state;
    const char *path = scene_file("named.csv", NAMED "7,ann,red,many,1\n");

    begin_named(path);
    assert_non_null(strstr(scene_refusal(&scenario, STATUS_CORRUPT), "named.csv:8:"));
    scene_remove(path);
}

static void named_adapters_get_versions_too(void **state)
{
    (void)state;
    const char *path = scene_file("named.csv", NAMED);
    struct source *source;
    adapter_id adapter;
    uint32_t retired = 0;

    begin_named(path)->adapters.update_per_h = 3600;
    source = scene_open(&scenario);
    take_all(source);
    while (source_retired(source, &adapter))
        retired++;
    assert_in_range(retired, 1, 40);
    source_close(source);
    scene_remove(path);
}

static void the_real_azure_hour(void **state)
{
    (void)state;
    const char *path = test_shared_path("traces/azure_llm_2023/AzureLLMInferenceTrace_conv.csv");
    struct source *source;
    struct total total;

    if (path == NULL) {
        print_message("../shared/traces is not there\n");
        skip();
    }
    begin(KEY_FORMAT_AZURE, path);
    source = scene_open(&scenario);
    total = take_all(source);
    assert_int_equal(total.count, 19366);
    assert_int_equal(total.prompt_tokens, 22361870);
    assert_int_equal(total.output_tokens, 4088665);
    source_close(source);
}

static void the_real_alibaba_requests(void **state)
{
    (void)state;
    const char *path = test_shared_path("traces/alibaba-2026-lora/lora_request_trace.csv");
    struct source *source;
    struct total total;

    if (path == NULL) {
        print_message("../shared/traces is not there\n");
        skip();
    }
    begin(KEY_FORMAT_ALIBABA_LORA, path);
    source = scene_open(&scenario);
    assert_int_equal(source_tenants_max(source), 4243);
    total = take_all(source);
    assert_int_equal(total.count, 26425);
    assert_int_equal(total.with_adapter, 4361);
    source_close(source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(azure_rows_come_as_they_are_with_adapters_of_the_law),
        cmocka_unit_test(the_law_gives_the_same_adapters_to_any_trace),
        cmocka_unit_test(compressed_traces_stream_too),
        cmocka_unit_test(time_scale_duration_and_requests_max_bound_the_trace),
        cmocka_unit_test(failed_rows_of_burstgpt_are_left_out_and_counted),
        cmocka_unit_test(mooncake_rows_come_too),
        cmocka_unit_test(alibaba_rows_take_tenants_from_the_trace_and_the_rest_from_laws),
        cmocka_unit_test(named_adapters_and_tenants_are_the_traces),
        cmocka_unit_test(a_trace_that_names_only_the_base_has_no_adapters),
        cmocka_unit_test(the_generic_sample_is_read),
        cmocka_unit_test(the_fallback_is_used_and_said),
        cmocka_unit_test(missing_files_are_named),
        cmocka_unit_test(a_column_that_is_not_there_is_refused_at_open),
        cmocka_unit_test(a_broken_row_stops_the_run_where_it_stands),
        cmocka_unit_test(lenient_reading_skips_it_and_says_so),
        cmocka_unit_test(a_broken_row_of_a_named_trace_is_refused_at_open),
        cmocka_unit_test(named_adapters_get_versions_too),
        cmocka_unit_test(the_real_azure_hour),
        cmocka_unit_test(the_real_alibaba_requests),
    };

    return cmocka_run_group_tests_name("trace source", tests, NULL, NULL);
}
