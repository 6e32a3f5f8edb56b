/* Bytes of a journal: what is damaged, missing, doubled or in another order is noticed, wherever it is. */
#include <stdio.h>

#include "base/hash.h"
#include "journal/journal.h"
#include "support.h"

#define EVENT_BYTES 64
#define RECORDS 20

struct record {
    unsigned char event[EVENT_BYTES];
    struct journal_tail tail;
};

static struct journal_header header_of(uint32_t core_index)
{
    struct journal_header header;
    struct journal_words words = {.words = header.words};

    journal_header_init(&header, JOURNAL_REPLICA, core_index, EVENT_BYTES);
    journal_put(&words, 42);
    journal_put_name(&words, "round-robin");
    journal_header_seal(&header);
    return header;
}

static void write_records(const struct journal_header *header, struct record records[RECORDS])
{
    uint64_t random = 5;
    uint64_t chain = header->checksum;

    for (uint32_t i = 0; i < RECORDS; i++) {
        for (uint32_t j = 0; j < EVENT_BYTES; j++)
            records[i].event[j] = (unsigned char)draw_below(&random, 4);
        journal_seal(&chain, records[i].event, EVENT_BYTES, draw(&random), draw(&random), &records[i].tail);
    }
}

/* How many records are right before the first that is not. */
static uint32_t good_records(const struct journal_header *header, const struct record *records, uint32_t count)
{
    uint64_t chain = header->checksum;

    for (uint32_t i = 0; i < count; i++)
        if (!journal_check(&chain, records[i].event, EVENT_BYTES, &records[i].tail))
            return i;
    return count;
}

static void what_was_sealed_is_found_right(void **state)
{
    (void)state;
    struct journal_header header = header_of(3);
    struct record records[RECORDS];

    write_records(&header, records);
    assert_true(journal_header_check(&header));
    assert_int_equal(good_records(&header, records, RECORDS), RECORDS);
}

static void every_bit_of_a_header_counts(void **state)
{
    (void)state;
    const struct journal_header good = header_of(3);

    for (size_t bit = 0; bit < 8 * sizeof(good); bit++) {
        struct journal_header header = good;

        ((unsigned char *)&header)[bit / 8] ^= (unsigned char)(1u << bit % 8);
        if (journal_header_check(&header))
            fail_msg("bit %zu of the header was turned and nobody noticed", bit);
    }
}

/* Sealed as it should be, and still not ours. */
static void another_version_or_size_is_refused(void **state)
{
    (void)state;
    struct journal_header header = header_of(3);

    header.version = JOURNAL_VERSION + 1;
    journal_header_seal(&header);
    assert_false(journal_header_check(&header));
    header = header_of(3);
    header.magic[0] = 'b';
    journal_header_seal(&header);
    assert_false(journal_header_check(&header));
    header = header_of(3);
    header.event_bytes = JOURNAL_EVENT_BYTES_MAX + 1;
    journal_header_seal(&header);
    assert_false(journal_header_check(&header));
}

static void every_bit_of_every_record_counts(void **state)
{
    (void)state;
    struct journal_header header = header_of(3);
    struct record records[RECORDS];

    write_records(&header, records);
    for (uint32_t i = 0; i < RECORDS; i++) {
        for (size_t bit = 0; bit < 8 * sizeof(records[0]); bit++) {
            unsigned char *byte = (unsigned char *)&records[i] + bit / 8;
            uint32_t good;

            *byte ^= (unsigned char)(1u << bit % 8);
            good = good_records(&header, records, RECORDS);
            *byte ^= (unsigned char)(1u << bit % 8);
            if (good != i)
                fail_msg("bit %zu of record %u was turned, and %u records were taken for good", bit, i, good);
        }
    }
}

static void a_record_that_is_missing_or_elsewhere_is_noticed(void **state)
{
    (void)state;
    struct journal_header header = header_of(3);
    struct record good[RECORDS];
    struct record records[RECORDS + 1];

    write_records(&header, good);
    for (uint32_t i = 0; i + 1 < RECORDS; i++) {
        /* Removed. */
        memcpy(records, good, i * sizeof(good[0]));
        memcpy(records + i, good + i + 1, (RECORDS - i - 1) * sizeof(good[0]));
        assert_int_equal(good_records(&header, records, RECORDS - 1), i);
        /* Doubled. */
        memcpy(records, good, (i + 1) * sizeof(good[0]));
        memcpy(records + i + 1, good + i, (RECORDS - i) * sizeof(good[0]));
        assert_int_equal(good_records(&header, records, RECORDS + 1), i + 1);
        /* Two change places. */
        memcpy(records, good, sizeof(good));
        records[i] = good[i + 1];
        records[i + 1] = good[i];
        assert_int_equal(good_records(&header, records, RECORDS), i);
    }
}

static void a_record_belongs_to_its_own_journal(void **state)
{
    (void)state;
    struct journal_header header = header_of(3);
    struct journal_header other = header_of(4);
    struct record records[RECORDS];

    write_records(&header, records);
    assert_int_equal(good_records(&other, records, RECORDS), 0);
}

static void words_come_back_in_order(void **state)
{
    (void)state;
    uint64_t memory[JOURNAL_WORDS_MAX] = {0};
    struct journal_words words = {.words = memory};
    char name[JOURNAL_NAME_BYTES];
    char longest[JOURNAL_NAME_BYTES] = "a-name-of-thirty-one-letters-no";

    journal_put(&words, UINT64_MAX);
    journal_put_name(&words, longest);
    journal_put_name(&words, "");
    journal_put(&words, 7);
    words.count = 0;
    assert_int_equal(journal_take(&words), UINT64_MAX);
    journal_take_name(&words, name);
    assert_string_equal(name, longest);
    journal_take_name(&words, name);
    assert_string_equal(name, "");
    assert_int_equal(journal_take(&words), 7);
}

static void put_one_more(void *words)
{
    journal_put(words, 1);
}

static void put_long_name(void *words)
{
    journal_put_name(words, "a-name-of-thirty-two-letters-too");
}

static void take_one_more(void *words)
{
    (void)journal_take(words);
}

static void words_that_have_no_room_are_a_mistake(void **state)
{
    (void)state;
    uint64_t memory[JOURNAL_WORDS_MAX] = {0};
    struct journal_words words = {.words = memory, .count = JOURNAL_WORDS_MAX};

    assert_true(check_stops(put_one_more, &words));
    assert_true(check_stops(take_one_more, &words));
    words.count = 0;
    assert_true(check_stops(put_long_name, &words));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_sealed_is_found_right),
        cmocka_unit_test(every_bit_of_a_header_counts),
        cmocka_unit_test(another_version_or_size_is_refused),
        cmocka_unit_test(every_bit_of_every_record_counts),
        cmocka_unit_test(a_record_that_is_missing_or_elsewhere_is_noticed),
        cmocka_unit_test(a_record_belongs_to_its_own_journal),
        cmocka_unit_test(words_come_back_in_order),
        cmocka_unit_test(words_that_have_no_room_are_a_mistake),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
