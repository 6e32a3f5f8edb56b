/* The fuzz target as a test: thousands of small accidents to good traces, in every format, strict and lenient. */
#define FUZZ_TRACE
#include "fuzz/fuzz_trace.c"

#include "objects.h"
#include "reading.h"
#include "support.h"

#include <zlib.h>
#include <zstd.h>

enum { LINES = 12, BYTES_MAX = 8192, MUTATIONS = 8000 };

/* A header and eleven rows, so that most accidents meet something. */
static size_t head_of(const char *path, char *ret_text)
{
    size_t count;
    char *text = file_bytes(path, &count);
    const char *at = text;

    for (int line = 0; line < LINES; line++)
        at = strchr(at, '\n') + 1;
    count = (size_t)(at - text);
    assert_in_range(count, 1, BYTES_MAX / 2);
    memcpy(ret_text, text, count);
    free(text);
    return count;
}

static void mutate(uint64_t *random, char *text, size_t *count)
{
    static const char likely[] = "\n\r\",{}[]:-.0e \t\0\xff\xef";
    size_t at = (size_t)draw_below(random, *count);
    size_t length = (size_t)min_u64(1 + draw_below(random, 24), *count - at);
    char c = draw_below(random, 2) == 0 ? likely[draw_below(random, sizeof(likely) - 1)] : (char)draw_below(random, 256);

    switch (draw_below(random, 5)) {
    case 0: /* a bit flips */
        text[at] = (char)(text[at] ^ (char)(1 << draw_below(random, 8)));
        break;
    case 1: /* a piece is lost */
        memmove(text + at, text + at + length, *count - at - length);
        *count = *count - length > 0 ? *count - length : 1;
        break;
    case 2: /* a byte comes in */
        memmove(text + at + 1, text + at, *count - at);
        text[at] = c;
        ++*count;
        break;
    case 3: /* a piece stands there twice */
        memmove(text + at + length, text + at, *count - at);
        *count += length;
        break;
    default: /* the end is lost */
        *count = draw_below(random, 6) == 0 ? at + 1 : *count;
        break;
    }
}

/* `format` as the fuzz target counts them. */
static void survive(const char *text, size_t text_count, unsigned format, uint64_t seed)
{
    static char bytes[BYTES_MAX + 1];
    uint64_t random = test_seed(seed);

    print_message("seed %llu\n", (unsigned long long)random); /* a failed check stops the program */
    for (int i = 0; i < MUTATIONS; i++) {
        size_t count = text_count;

        bytes[0] = (char)(format * 2 + draw_below(&random, 2));
        memcpy(bytes + 1, text, text_count);
        for (uint64_t changes = draw_below(&random, 4); changes > 0; changes--)
            mutate(&random, bytes + 1, &count);
        LLVMFuzzerTestOneInput((const uint8_t *)bytes, count + 1);
    }
}

static void survive_file(const char *path, unsigned format, uint64_t seed)
{
    static char text[BYTES_MAX];

    survive(text, head_of(path, text), format, seed);
}

static void azure_survives_accidents(void **state)
{
    (void)state;
    survive_file("traces/samples/azure-small.csv", 0, 10);
}

static void burstgpt_survives_accidents(void **state)
{
    (void)state;
    survive_file("traces/samples/burstgpt-2-sample.csv", 1, 11);
}

static void mooncake_survives_accidents(void **state)
{
    (void)state;
    survive_file("traces/samples/mooncake-sample.jsonl", 2, 12);
}

static void alibaba_lora_survives_accidents(void **state)
{
    (void)state;
    survive_file("traces/samples/alibaba-lora-sample.csv", 3, 13);
}

static void csv_survives_accidents(void **state)
{
    (void)state;
    survive_file("traces/samples/generic-sample.csv", 4, 14);
    survive_file("traces/samples/generic-sample.csv", 5, 15);
}

static void guessing_survives_accidents(void **state)
{
    (void)state;
    survive_file("traces/samples/burstgpt-1-sample.csv", 6, 16);
}

static void job_traces_survive_accidents(void **state)
{
    (void)state;
    survive_file("traces/samples/jobs-sample.swf", 7, 20);
    survive_file("traces/samples/jobs-philly-sample.csv", 8, 21);
    survive_file("traces/samples/jobs-gavel-7-sample.trace", 9, 22);
    survive_file("traces/samples/jobs-gavel-10-sample.trace", 9, 23);
    survive_file("traces/samples/jobs-openb-sample.csv", 10, 24);
    survive_file("traces/samples/jobs-sia-sample.csv", 11, 25);
    survive_file("traces/samples/jobs-generic-sample.csv", 12, 26);
    survive_file("traces/samples/jobs-generic-sample.csv", 13, 27);
    survive_file("traces/samples/jobs-sample.swf", 14, 28);
    survive_file("traces/samples/jobs-gavel-7-sample.trace", 14, 29);
}

static void spot_traces_survive_accidents(void **state)
{
    (void)state;
    static const char text[] = "{\"metadata\": {\"gap_seconds\": 300}, \"data\": [4, 4, 3, 3, 2,\n 16, 0, 0, 1]}\n";

    survive(text, sizeof(text) - 1, 15, 30);
}

static void object_traces_survive_accidents(void **state)
{
    (void)state;
    static const char csv[] = "time,id,size\n1,7,100\n2.5,obj-1,0\n3,\"a,b\",9223372036854775807\n2,7,5\r\n4,18446744073709551615,1\n5,007,1";
    static const char txt[] = "7\nalpha\n12345678\n07\n1234567890123456789\nbeta\r\nalpha\n9\n";
    char records[8 * 24];

    for (uint32_t i = 0; i < 8; i++) {
        const struct oracle_record record = {i, i % 3, 1 << i, i < 5 ? (int64_t)i + 4 : -1};

        oracle_bytes(&record, 1, records + (size_t)i * 24);
    }
    survive(records, sizeof(records), 16, 31);
    survive(csv, sizeof(csv) - 1, 17, 32);
    survive(csv + 13, sizeof(csv) - 14, 18, 33);
    survive(txt, sizeof(txt) - 1, 19, 34);
    survive(csv, sizeof(csv) - 1, 20, 35);
    survive(csv + 13, sizeof(csv) - 14, 22, 36);
}

static void packed_streams_survive_accidents(void **state)
{
    (void)state;
    static char text[BYTES_MAX];
    static char packed[BYTES_MAX];
    size_t count = head_of("traces/samples/azure-small.csv", text);
    z_stream stream = {.next_in = (Bytef *)text, .avail_in = (uInt)count, .next_out = (Bytef *)packed, .avail_out = BYTES_MAX};

    assert_int_equal(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    survive(packed, stream.total_out, 6, 17);
    deflateEnd(&stream);
    count = ZSTD_compress(packed, BYTES_MAX, text, count, 3);
    assert_false(ZSTD_isError(count));
    survive(packed, count, 6, 18);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(azure_survives_accidents),
        cmocka_unit_test(burstgpt_survives_accidents),
        cmocka_unit_test(mooncake_survives_accidents),
        cmocka_unit_test(alibaba_lora_survives_accidents),
        cmocka_unit_test(csv_survives_accidents),
        cmocka_unit_test(guessing_survives_accidents),
        cmocka_unit_test(job_traces_survive_accidents),
        cmocka_unit_test(spot_traces_survive_accidents),
        cmocka_unit_test(object_traces_survive_accidents),
        cmocka_unit_test(packed_streams_survive_accidents),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
