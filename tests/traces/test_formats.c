/* What good traces say: our samples always, the real ones where they lie beside the checkout. */
#include "reading.h"
#include "support.h"

#include <stdlib.h>

#define HOUR_NS (3600 * NS_PER_S)

static const struct trace_columns generic_columns = {"arrived_s", "prompt_tokens", "output_tokens", "adapter, if any",
                                                     "customer", TRACE_TIME_S};

static void assert_good(const struct reading *reading)
{
    if (reading->status != STATUS_END)
        fail_msg("%s", reading->message);
    for (size_t i = 0; i < TRACE_SKIP_COUNT; i++)
        assert_int_equal(reading->info.skipped[i], 0);
}

static void assert_mean(uint64_t sum, uint64_t rows, double wanted)
{
    double mean = (double)sum / (double)rows;

    if (mean < wanted - 0.001 || mean > wanted + 0.001)
        fail_msg("mean %.4f, not %.4f", mean, wanted);
}

static void azure_gives_times_and_lengths(void **state)
{
    (void)state;
    struct reading reading = read_text("TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
                                       "2023-11-16 18:15:46.6805900,374,44\r\n"
                                       "2023-11-16 18:15:50.9951690,396,109", NULL);

    assert_good(&reading);
    assert_string_equal(reading.info.format, "azure");
    assert_int_equal(reading.info.has, TRACE_HAS_PROMPT | TRACE_HAS_OUTPUT);
    assert_int_equal(reading.info.rows, 2);
    assert_int_equal(reading.first.at_ns, 0);
    assert_int_equal(reading.first.prompt_tokens, 374);
    assert_int_equal(reading.first.output_tokens, 44);
    assert_int_equal(reading.first.line, 2);
    assert_int_equal(reading.last.at_ns, INT64_C(4314579000));
    assert_int_equal(reading.last.output_tokens, 109);
    assert_false(reading.last.failed);
    assert_string_equal(reading.last.adapter, "");
}

static void azure_columns_may_stand_in_any_order_and_be_quoted(void **state)
{
    (void)state;
    struct reading reading = read_text("\"GeneratedTokens\",\"TIMESTAMP\",ContextTokens\n"
                                       "7,\"2024-05-10 00:00:00.009930+00:00\",\"2162\"\n"
                                       "8,2024-05-10T00:00:01Z,9\n", NULL);

    assert_good(&reading);
    assert_string_equal(reading.info.format, "azure");
    assert_int_equal(reading.first.output_tokens, 7);
    assert_int_equal(reading.first.prompt_tokens, 2162);
    assert_int_equal(reading.last.at_ns, INT64_C(990070000));
}

static void our_azure_sample_has_the_shape_of_the_real_hour(void **state)
{
    (void)state;
    struct reading reading = read_file("traces/samples/azure-conv-sample.csv.gz", NULL, NULL);

    assert_good(&reading);
    assert_string_equal(reading.info.format, "azure");
    assert_int_equal(reading.info.rows, 19366);
    assert_true(reading.last.at_ns > HOUR_NS * 58 / 60 && reading.last.at_ns < HOUR_NS * 59 / 60);
    assert_in_range(reading.prompt_sum / reading.info.rows, 1155 * 9 / 10, 1155 * 11 / 10);
    assert_in_range(reading.output_sum / reading.info.rows, 211 * 9 / 10, 211 * 11 / 10);
}

static void burstgpt_1_marks_failed_requests(void **state)
{
    (void)state;
    struct reading reading = read_text("Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
                                       "5,ChatGPT,472,18,490,Conversation log\n"
                                       "45,ChatGPT,1087,0,1087,API log\n"
                                       "118,GPT-4,0,0,0,Conversation log\n", NULL);

    assert_good(&reading);
    assert_string_equal(reading.info.format, "burstgpt");
    assert_int_equal(reading.info.rows, 3);
    assert_int_equal(reading.failed_rows, 2);
    assert_false(reading.first.failed);
    assert_true(reading.last.failed);
    assert_int_equal(reading.last.at_ns, 113 * NS_PER_S);
    assert_int_equal(reading.prompt_sum, 472 + 1087);
}

static void burstgpt_2_has_sessions(void **state)
{
    (void)state;
    struct reading reading = read_text("Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
                                       "0.5,12,3.25,GPT-4,10,20,30,API log\n"
                                       "1.75,12,1,GPT-4,10,20.0,30,API log", NULL);

    assert_good(&reading);
    assert_string_equal(reading.info.format, "burstgpt");
    assert_int_equal(reading.last.at_ns, INT64_C(1250000000));
    assert_int_equal(reading.last.output_tokens, 20);
}

static void our_burstgpt_samples_are_read(void **state)
{
    (void)state;
    struct reading first = read_file("traces/samples/burstgpt-1-sample.csv", NULL, NULL);
    struct reading second = read_file("traces/samples/burstgpt-2-sample.csv", "burstgpt", NULL);

    assert_good(&first);
    assert_good(&second);
    assert_int_equal(first.info.rows, 200);
    assert_int_equal(second.info.rows, 200);
    assert_int_equal(first.failed_rows, 34); /* each seventh, each thirtieth: 28 + 6 */
    assert_int_equal(second.failed_rows, 34);
}

static void mooncake_takes_milliseconds_and_passes_over_hashes(void **state)
{
    (void)state;
    struct reading reading = read_text("{\"timestamp\": 27482, \"input_length\": 6955, \"output_length\": 52, \"hash_ids\": [46, 47]}\n"
                                       "{\"hash_ids\":[],\"output_length\":3,\"other\":{\"input_length\":[1,{}]},"
                                       "\"timestamp\":27482.25,\"input_length\":6760}\n", NULL);

    assert_good(&reading);
    assert_string_equal(reading.info.format, "mooncake");
    assert_int_equal(reading.info.rows, 2);
    assert_int_equal(reading.first.line, 1);
    assert_int_equal(reading.first.prompt_tokens, 6955);
    assert_int_equal(reading.last.at_ns, 250 * NS_PER_US);
    assert_int_equal(reading.last.prompt_tokens, 6760);
    assert_int_equal(reading.last.output_tokens, 3);
}

static void our_mooncake_sample_is_read(void **state)
{
    (void)state;
    struct reading reading = read_file("traces/samples/mooncake-sample.jsonl", NULL, NULL);

    assert_good(&reading);
    assert_int_equal(reading.info.rows, 200);
}

static void alibaba_lora_gives_tenants_and_counts_of_adapters(void **state)
{
    (void)state;
    struct reading reading = read_file("traces/samples/alibaba-lora-sample.csv", NULL, NULL);

    assert_good(&reading);
    assert_string_equal(reading.info.format, "alibaba-lora");
    assert_int_equal(reading.info.has, TRACE_HAS_LORA_COUNT | TRACE_HAS_TENANT);
    assert_int_equal(reading.info.rows, 200);
    assert_string_equal(reading.first.tenant, "G0077");
    assert_int_equal(reading.first.lora_count, 1);
    assert_int_equal(reading.first.prompt_tokens, 0);
    assert_in_range(reading.lora_rows, 20, 60);
    assert_in_range(reading.failed_rows, 10, 40);
}

static void csv_finds_its_columns_by_name(void **state)
{
    (void)state;
    const struct trace_options options = {.columns = &generic_columns};
    struct reading reading = read_file("traces/samples/generic-sample.csv", NULL, &options);

    assert_good(&reading);
    assert_string_equal(reading.info.format, "csv");
    assert_int_equal(reading.info.has, TRACE_HAS_PROMPT | TRACE_HAS_OUTPUT | TRACE_HAS_ADAPTER | TRACE_HAS_TENANT);
    assert_int_equal(reading.info.rows, 200);
    assert_string_equal(reading.first.tenant, "customer \"2\", inc.");
    assert_string_equal(reading.first.adapter, ""); /* written as 0 */
}

static void csv_finds_its_columns_by_number(void **state)
{
    (void)state;
    const struct trace_columns numbers = {"1", "4", "5", "3", "2", TRACE_TIME_S};
    const struct trace_options by_number = {.columns = &numbers};
    const struct trace_options by_name = {.columns = &generic_columns};
    struct reading one = read_file("traces/samples/generic-sample.csv", "csv", &by_number);
    struct reading other = read_file("traces/samples/generic-sample.csv", "csv", &by_name);

    assert_good(&one);
    assert_int_equal(one.digest, other.digest);
}

static void csv_without_a_header_loses_no_row(void **state)
{
    (void)state;
    const struct trace_columns columns = {.time = "2", .adapter = "1", .time_unit = TRACE_TIME_MS};
    const struct trace_options options = {.columns = &columns};
    const char text[] = "\"a \"\"2\"\"\",5\n2,7.5\n";
    struct reading reading = read_bytes(text, strlen(text), "csv", &options);

    assert_good(&reading);
    assert_int_equal(reading.info.rows, 2);
    assert_int_equal(reading.info.has, TRACE_HAS_ADAPTER);
    assert_string_equal(reading.first.adapter, "a \"2\"");
    assert_int_equal(reading.last.at_ns, 2500 * NS_PER_US);
}

static void csv_counts_time_in_every_unit(void **state)
{
    (void)state;
    static const struct {
        enum trace_time_unit unit;
        const char *text;
        int64_t at_ns;
    } cases[] = {
        {TRACE_TIME_S, "t\n1700000000.1\n1700000001.600000001\n", 1500000001},
        {TRACE_TIME_MS, "t\n1\n2.5\n", 1500000},
        {TRACE_TIME_US, "t\n1\n2.5\n", 1500},
        {TRACE_TIME_NS, "t\n1\n2.5\n", 2}, /* half up */
        {TRACE_TIME_DATETIME, "t\n2024-02-28 23:59:59\n2024-03-01 00:00:00.000000001\n", 86401 * NS_PER_S + 1},
    };

    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        const struct trace_columns columns = {.time = "t", .time_unit = cases[i].unit};
        const struct trace_options options = {.columns = &columns};
        struct reading reading = read_bytes(cases[i].text, strlen(cases[i].text), NULL, &options);

        assert_good(&reading);
        assert_int_equal(reading.last.at_ns, cases[i].at_ns);
    }
}

/* --- the real ones --- */

static struct reading real_trace(const char *relative, const char *format)
{
    const char *path = test_shared_path(relative);
    struct reading reading;

    if (path == NULL) {
        print_message("../shared/%s is not there: skipped\n", relative);
        skip();
    }
    reading = read_file(path, NULL, NULL);
    assert_good(&reading);
    assert_string_equal(reading.info.format, format);
    return reading;
}

static void the_azure_conversation_hour_is_read_whole(void **state)
{
    (void)state;
    struct reading reading = real_trace("traces/azure_llm_2023/AzureLLMInferenceTrace_conv.csv", "azure");

    assert_int_equal(reading.info.rows, 19366);
    assert_int_equal(reading.last.at_ns, INT64_C(3501721937000));
    assert_int_equal(reading.last.line, 19367);
    assert_int_equal(reading.last.prompt_tokens, 197);
    assert_int_equal(reading.last.output_tokens, 183);
    assert_mean(reading.prompt_sum, reading.info.rows, 1154.6974);
    assert_mean(reading.output_sum, reading.info.rows, 211.1259);
}

static void the_azure_code_hour_is_read_whole(void **state)
{
    (void)state;
    struct reading reading = real_trace("traces/azure_llm_2023/AzureLLMInferenceTrace_code.csv", "azure");

    assert_int_equal(reading.info.rows, 8819);
    assert_int_equal(reading.last.at_ns, INT64_C(3435948056000));
    assert_mean(reading.prompt_sum, reading.info.rows, 2047.8483);
    assert_mean(reading.output_sum, reading.info.rows, 27.8825);
}

static void the_mooncake_conversations_are_read_whole(void **state)
{
    (void)state;
    struct reading reading = real_trace("traces/mooncake/conversation_trace.jsonl", "mooncake");

    assert_int_equal(reading.info.rows, 12031);
    assert_int_equal(reading.last.at_ns, INT64_C(3536999) * NS_PER_MS);
    assert_mean(reading.prompt_sum, reading.info.rows, 12035.0613);
    assert_mean(reading.output_sum, reading.info.rows, 342.6189);
}

static void the_alibaba_requests_are_read_whole_and_in_order(void **state)
{
    (void)state;
    struct reading reading = real_trace("traces/alibaba-2026-lora/lora_request_trace.csv", "alibaba-lora");

    assert_int_equal(reading.info.rows, 26823);
    assert_int_equal(reading.last.at_ns, INT64_C(1989367) * NS_PER_S);
    assert_int_equal(reading.lora_rows, 4494);
    assert_int_equal(reading.failed_rows, 398);
    assert_string_equal(reading.last.tenant, "G3974");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(azure_gives_times_and_lengths),
        cmocka_unit_test(azure_columns_may_stand_in_any_order_and_be_quoted),
        cmocka_unit_test(our_azure_sample_has_the_shape_of_the_real_hour),
        cmocka_unit_test(burstgpt_1_marks_failed_requests),
        cmocka_unit_test(burstgpt_2_has_sessions),
        cmocka_unit_test(our_burstgpt_samples_are_read),
        cmocka_unit_test(mooncake_takes_milliseconds_and_passes_over_hashes),
        cmocka_unit_test(our_mooncake_sample_is_read),
        cmocka_unit_test(alibaba_lora_gives_tenants_and_counts_of_adapters),
        cmocka_unit_test(csv_finds_its_columns_by_name),
        cmocka_unit_test(csv_finds_its_columns_by_number),
        cmocka_unit_test(csv_without_a_header_loses_no_row),
        cmocka_unit_test(csv_counts_time_in_every_unit),
        cmocka_unit_test(the_azure_conversation_hour_is_read_whole),
        cmocka_unit_test(the_azure_code_hour_is_read_whole),
        cmocka_unit_test(the_mooncake_conversations_are_read_whole),
        cmocka_unit_test(the_alibaba_requests_are_read_whole_and_in_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
