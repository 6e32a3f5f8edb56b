/* lcs: the same requests in every version, headers that are none, counts that do not fit. */
#include <stdio.h>
#include <stdlib.h>

#include "object_lcs.h"
#include "objects.h"
#include "support.h"

enum { RECORDS = 3, RECORD_BYTES_MAX = 100 };
static const uint32_t record_bytes[LCS_VERSION_MAX + 1] = {24, 24, 28, 36, 40, 44, 52, 68, 100};
static char bytes[LCS_HEAD_BYTES + RECORDS * RECORD_BYTES_MAX];

static void put(size_t at, const void *value, size_t count)
{
    memcpy(bytes + at, value, count);
}

static void put_word(size_t at, uint64_t word)
{
    put(at, &word, sizeof(word));
}

/* Returns the number of bytes. What is passed over is not zero. */
static size_t make(uint32_t version, uint64_t requests)
{
    static const struct oracle_record records[RECORDS] = {{5, 7, 100, 3}, {6, 8, 0, INT64_MAX}, {6, 7, 4000000000, -1}};

    memset(bytes, 0x55, sizeof(bytes));
    put_word(0, LCS_MAGIC);
    put_word(LCS_VERSION_AT, version);
    put_word(LCS_REQUESTS_AT, requests);
    put_word(LCS_HEAD_BYTES - 8, LCS_MAGIC);
    for (uint32_t i = 0; i < RECORDS; i++) {
        uint32_t width = record_bytes[min_u32(version, LCS_VERSION_MAX)];
        size_t at = LCS_HEAD_BYTES + (size_t)i * width;

        put(at, &records[i].time_s, 4);
        put(at + 4, &records[i].id, 8);
        if (version <= 2)
            put(at + 12, &records[i].size_bytes, 4);
        else
            put_word(at + 12, records[i].size_bytes + (UINT64_C(1) << 40));
        put(at + (version <= 2 ? width - 8 : 28), &records[i].next, 8);
    }
    return LCS_HEAD_BYTES + RECORDS * record_bytes[min_u32(version, LCS_VERSION_MAX)];
}

static struct objects read_lcs(size_t count)
{
    return objects_of_bytes(bytes, count, NULL, NULL, 2);
}

static void every_version_gives_the_same_requests(void **state)
{
    (void)state;
    for (uint32_t version = 1; version <= LCS_VERSION_MAX; version++) {
        uint64_t more = version <= 2 ? 0 : UINT64_C(1) << 40;
        struct objects objects = read_lcs(make(version, version == 5 ? 0 : RECORDS));

        assert_objects_good(&objects, RECORDS);
        assert_string_equal(objects.info.format, "lcs");
        assert_request(&objects.rows[0], 7, 100 + more, 5 * NS_PER_S, 2);
        assert_request(&objects.rows[1], 8, more, 6 * NS_PER_S, OBJECT_NEXT_NEVER);
        assert_request(&objects.rows[2], 7, 4000000000 + more, 6 * NS_PER_S, OBJECT_NEXT_NEVER);
    }
}

static void headers_that_are_none_are_refused(void **state)
{
    (void)state;
    struct objects objects = read_lcs(make(9, RECORDS));

    assert_objects_refuse(&objects, STATUS_CORRUPT, 0, "bytes: version 9 of lcs is not known; there are 1 to 8");
    objects = read_lcs(make(0, RECORDS));
    assert_objects_refuse(&objects, STATUS_CORRUPT, 0, "bytes: version 0 of lcs is not known;");
    make(1, RECORDS);
    objects = read_lcs(LCS_HEAD_BYTES - 1);
    assert_objects_refuse(&objects, STATUS_CORRUPT, 0, "bytes: the header is cut, 8191 bytes of 8192; fetch the file again");
    bytes[LCS_HEAD_BYTES - 1] = 0;
    objects = read_lcs(LCS_HEAD_BYTES + 24);
    assert_objects_refuse(&objects, STATUS_CORRUPT, 0, "bytes: no magic number ends its header of 8192 bytes");
    objects = objects_of_bytes("12345678", 8, "lcs", NULL, 1);
    assert_objects_refuse(&objects, STATUS_CORRUPT, 0, "bytes: it does not begin with the magic number of lcs;");
    make(1, 0);
    objects = read_lcs(LCS_HEAD_BYTES);
    assert_objects_refuse(&objects, STATUS_CORRUPT, 0, "bytes: there is no request in it;");
}

static void a_file_shorter_or_longer_than_its_header_says_is_refused(void **state)
{
    (void)state;
    size_t count = make(2, RECORDS);
    struct objects objects = read_lcs(count - 28);

    assert_objects_refuse(&objects, STATUS_CORRUPT, 2, "bytes: the header says 3 requests and there are 2; fetch the file again");
    objects = read_lcs(count - 1);
    assert_objects_refuse(&objects, STATUS_CORRUPT, 2, "bytes: record 2 at byte 8248: the last record is cut, 27 bytes of 28;");
    objects = read_lcs(make(2, 2));
    assert_objects_refuse(&objects, STATUS_CORRUPT, 3, "bytes: the header says 2 requests and there are 3;");
}

static void a_negative_size_is_refused(void **state)
{
    (void)state;
    size_t count = make(3, RECORDS);
    struct objects objects;

    put_word(LCS_HEAD_BYTES + 36 + 12, (uint64_t)-5);
    objects = read_lcs(count);
    assert_objects_refuse(&objects, STATUS_CORRUPT, 1, "bytes: record 1 at byte 8228: the size -5 is negative; is it a lcs trace?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_version_gives_the_same_requests),
        cmocka_unit_test(headers_that_are_none_are_refused),
        cmocka_unit_test(a_file_shorter_or_longer_than_its_header_says_is_refused),
        cmocka_unit_test(a_negative_size_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
