/* Lines out of plain, gzip and zstd streams: equal rows, and no cut stream taken for a whole one. */
#include "reading.h"
#include "support.h"

#include <stdlib.h>
#include <unistd.h>

#include <zlib.h>
#include <zstd.h>

struct bytes {
    unsigned char *bytes;
    size_t count;
};

static struct bytes pack_gzip(const char *text, size_t count)
{
    struct bytes packed = {malloc(count + 1024), 0};
    z_stream stream = {0};

    assert_int_equal(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    stream.next_in = (Bytef *)(uintptr_t)text;
    stream.avail_in = (uInt)count;
    stream.next_out = packed.bytes;
    stream.avail_out = (uInt)(count + 1024);
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    packed.count = stream.total_out;
    deflateEnd(&stream);
    return packed;
}

static struct bytes pack_zstd(const char *text, size_t count)
{
    struct bytes packed = {malloc(ZSTD_compressBound(count)), 0};

    packed.count = ZSTD_compress(packed.bytes, ZSTD_compressBound(count), text, count, 3);
    assert_false(ZSTD_isError(packed.count));
    return packed;
}

typedef struct bytes pack(const char *text, size_t count);

static pack *const packs[] = {pack_gzip, pack_zstd};
static const char *const pack_names[] = {"gzip", "zstd"};

/* 100,000 rows: several blocks of every kind. */
static char *long_trace(size_t *ret_count)
{
    enum { ROWS = 100000, ROW_BYTES = 64 };
    char *text = malloc((size_t)ROWS * ROW_BYTES);
    size_t count = (size_t)sprintf(text, "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n");
    uint64_t random = test_seed(3);

    for (unsigned i = 0; i < ROWS; i++)
        count += (size_t)sprintf(text + count, "%u,GPT-%u,%u,%u,1,log\n", i * 2, (unsigned)draw_below(&random, 1u << 30),
                                 1 + (unsigned)draw_below(&random, 5000), (unsigned)draw_below(&random, 500));
    *ret_count = count;
    return text;
}

static void packed_bytes_give_the_rows_of_plain_ones(void **state)
{
    (void)state;
    size_t count;
    char *text = long_trace(&count);
    struct reading plain = read_bytes(text, count, NULL, NULL);

    assert_int_equal(plain.status, STATUS_END);
    assert_int_equal(plain.info.rows, 100000);
    for (size_t i = 0; i < ARRAY_COUNT(packs); i++) {
        struct bytes packed = packs[i](text, count);
        struct reading reading = read_bytes(packed.bytes, packed.count, NULL, NULL);

        assert_string_equal(reading.message, "");
        assert_int_equal(reading.info.rows, plain.info.rows);
        assert_int_equal(reading.digest, plain.digest);
        free(packed.bytes);
    }
    free(text);
}

/* As pigz, pzstd and cat make them; the cut falls inside a line. */
static void streams_of_several_members_are_one_file(void **state)
{
    (void)state;
    size_t count;
    char *text = long_trace(&count);
    struct reading plain = read_bytes(text, count, NULL, NULL);

    for (size_t i = 0; i < ARRAY_COUNT(packs); i++) {
        struct bytes first = packs[i](text, 123457);
        struct bytes second = packs[i](text + 123457, count - 123457);
        struct reading reading;

        first.bytes = realloc(first.bytes, first.count + second.count);
        memcpy(first.bytes + first.count, second.bytes, second.count);
        reading = read_bytes(first.bytes, first.count + second.count, NULL, NULL);
        assert_string_equal(reading.message, "");
        assert_int_equal(reading.digest, plain.digest);
        free(first.bytes);
        free(second.bytes);
    }
    free(text);
}

static void a_packed_stream_that_ends_early_is_refused_wherever_it_ends(void **state)
{
    (void)state;
    const struct trace_options lenient = {.lenient = true};
    size_t count;
    char *text = file_bytes("traces/samples/azure-small.csv", &count);

    for (size_t i = 0; i < ARRAY_COUNT(packs); i++) {
        struct bytes packed = packs[i](text, count);

        for (size_t cut = 4; cut < packed.count; cut += 1 + cut / 16) {
            struct reading strict = read_bytes(packed.bytes, cut, NULL, NULL);
            struct reading reading = read_bytes(packed.bytes, cut, NULL, &lenient);

            assert_int_equal(strict.status, STATUS_CORRUPT);
            assert_non_null(strstr(strict.message, pack_names[i]));
            assert_non_null(strstr(strict.message, "stream ends early, the file was cut; "));
            assert_true(strict.info.rows < 200);
            if (reading.info.rows == 0) {
                assert_int_equal(reading.status, STATUS_CORRUPT);
                continue;
            }
            assert_int_equal(reading.status, STATUS_END);
            assert_int_equal(reading.info.rows, strict.info.rows);
            assert_int_equal(reading.info.skipped[TRACE_SKIP_CUT], 1);
        }
        free(packed.bytes);
    }
    free(text);
}

static void a_damaged_stream_is_refused_even_leniently(void **state)
{
    (void)state;
    const struct trace_options lenient = {.lenient = true};
    size_t count;
    char *text = file_bytes("traces/samples/azure-small.csv", &count);
    struct bytes gzip = pack_gzip(text, count);
    struct bytes zstd = pack_zstd(text, count);
    struct reading reading;

    gzip.bytes[gzip.count - 6] ^= 1; /* its checksum */
    reading = read_bytes(gzip.bytes, gzip.count, NULL, &lenient);
    assert_int_equal(reading.status, STATUS_CORRUPT);
    assert_non_null(strstr(reading.message, "the gzip stream is damaged (incorrect data check); "));
    memset(zstd.bytes + 12, 0xff, 8);
    reading = read_bytes(zstd.bytes, zstd.count, NULL, &lenient);
    assert_int_equal(reading.status, STATUS_CORRUPT);
    assert_non_null(strstr(reading.message, "the zstd stream is damaged ("));
    free(gzip.bytes);
    free(zstd.bytes);
    free(text);
}

static void bytes_behind_a_packed_stream_are_refused(void **state)
{
    (void)state;
    size_t count;
    char *text = file_bytes("traces/samples/azure-small.csv", &count);

    for (size_t i = 0; i < ARRAY_COUNT(packs); i++) {
        struct bytes packed = packs[i](text, count);
        struct reading reading;

        memcpy(packed.bytes + packed.count, "tail", 4);
        reading = read_bytes(packed.bytes, packed.count + 4, NULL, NULL);
        assert_int_equal(reading.status, STATUS_CORRUPT);
        assert_non_null(strstr(reading.message, "stream is damaged ("));
        free(packed.bytes);
    }
    free(text);
}

/* A name that lies about its content does not matter. */
static void the_content_says_how_a_file_is_packed(void **state)
{
    (void)state;
    char path[] = "build/trace-XXXXXX";
    int fd = mkstemp(path);
    size_t count;
    char *text = file_bytes("traces/samples/mooncake-sample.jsonl", &count);
    struct bytes packed = pack_zstd(text, count);
    struct reading plain = read_file("traces/samples/mooncake-sample.jsonl", NULL, NULL);
    struct reading reading;

    assert_true(fd >= 0);
    assert_int_equal(write(fd, packed.bytes, packed.count), packed.count);
    close(fd);
    reading = read_file(path, NULL, NULL);
    unlink(path);
    assert_int_equal(reading.status, STATUS_END);
    assert_int_equal(reading.digest, plain.digest);
    free(packed.bytes);
    free(text);
}

static void a_file_of_one_or_two_bytes_is_text(void **state)
{
    (void)state;
    assert_int_equal(read_bytes("\x1f", 1, NULL, NULL).status, STATUS_CORRUPT);
    assert_int_equal(read_bytes("\x28\xb5", 2, NULL, NULL).status, STATUS_CORRUPT);
    assert_int_equal(read_bytes("\x1f\x8b", 2, NULL, NULL).status, STATUS_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_bytes_give_the_rows_of_plain_ones),
        cmocka_unit_test(streams_of_several_members_are_one_file),
        cmocka_unit_test(a_packed_stream_that_ends_early_is_refused_wherever_it_ends),
        cmocka_unit_test(a_damaged_stream_is_refused_even_leniently),
        cmocka_unit_test(bytes_behind_a_packed_stream_are_refused),
        cmocka_unit_test(the_content_says_how_a_file_is_packed),
        cmocka_unit_test(a_file_of_one_or_two_bytes_is_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
