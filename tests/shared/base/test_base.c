#include "base/hash.h"
#include "base/histogram.h"
#include "base/table.h"
#include "support.h"

#include <stdlib.h>

static void table_agrees_with_an_array(void **state)
{
    (void)state;
    enum { KEYS = 300, MOST = 100 };
    uint64_t random = test_seed(1);
    uint32_t twin[KEYS];
    uint32_t count = 0;
    struct table table;
    void *memory = malloc(table_bytes(MOST));

    table_init(&table, memory, MOST);
    for (uint32_t i = 0; i < KEYS; i++)
        twin[i] = NONE_INDEX;
    for (uint32_t turn = 0; turn < 200000; turn++) {
        uint64_t key = draw_below(&random, KEYS);

        assert_int_equal(table_find(&table, key * 7919), twin[key]);
        if (twin[key] != NONE_INDEX) {
            table_remove(&table, key * 7919);
            twin[key] = NONE_INDEX;
            count--;
        } else if (count < MOST) {
            twin[key] = turn;
            table_insert(&table, key * 7919, turn);
            count++;
        }
        assert_int_equal(table.count, count);
    }
    free(memory);
}

static void insert_twice(void *table)
{
    table_insert(table, 5, 1);
    table_insert(table, 5, 2);
}

static void table_refuses_a_key_twice(void **state)
{
    (void)state;
    struct table table;
    void *memory = malloc(table_bytes(4));

    table_init(&table, memory, 4);
    assert_true(check_stops(insert_twice, &table));
    free(memory);
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}

static void histogram_quantiles_are_within_0_8_percent(void **state)
{
    (void)state;
    enum { COUNT = 20000 };
    static struct histogram histogram;
    int64_t *values = malloc(COUNT * sizeof(*values));
    uint64_t random = test_seed(2);
    const double quantiles[] = {0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 1};

    histogram_init(&histogram);
    for (uint32_t i = 0; i < COUNT; i++) {
        values[i] = (int64_t)(draw(&random) >> (8 + draw_below(&random, 40)));
        histogram_add(&histogram, values[i]);
    }
    qsort(values, COUNT, sizeof(*values), by_value);
    for (size_t i = 0; i < ARRAY_COUNT(quantiles); i++) {
        double exact = (double)values[(uint64_t)(quantiles[i] * COUNT + 0.999) - 1];
        double got = (double)histogram_quantile(&histogram, quantiles[i]);

        if (got < exact * 0.992 - 1 || got > exact * 1.008 + 1)
            fail_msg("quantile %g: got %.0f, exact %.0f", quantiles[i], got, exact);
    }
    assert_int_equal(histogram_quantile(&histogram, 1), values[COUNT - 1]);
    free(values);
}

static void histogram_buckets_begin_at_numbers_of_seven_digits(void **state)
{
    (void)state;
    for (uint32_t bucket = 1; bucket < HISTOGRAM_BUCKETS; bucket++) {
        const uint64_t low = histogram_bucket_low(bucket);

        if (histogram_bucket(low) != bucket || histogram_bucket(low - 1) != bucket - 1)
            fail_msg("bucket %u does not begin at %llu", bucket, (unsigned long long)low);
    }
    assert_int_equal(histogram_bucket_low(histogram_bucket(UINT64_C(8) << 30)), UINT64_C(8) << 30);
}

static void histogram_of_nothing_is_zero(void **state)
{
    (void)state;
    static struct histogram histogram;

    histogram_init(&histogram);
    assert_int_equal(histogram_quantile(&histogram, 0.5), 0);
    assert_true(histogram_mean(&histogram) == 0);
}

static void histogram_takes_the_greatest_value(void **state)
{
    (void)state;
    static struct histogram histogram;

    histogram_init(&histogram);
    histogram_add(&histogram, INT64_MAX);
    assert_int_equal(histogram_quantile(&histogram, 0.5), INT64_MAX);
}

static void hash_of_bytes_sees_every_byte_and_the_length(void **state)
{
    (void)state;
    unsigned char bytes[19] = {0};
    uint64_t before = hash_bytes(0, bytes, sizeof(bytes));

    assert_true(before != hash_bytes(0, bytes, sizeof(bytes) - 1));
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = 1;
        assert_true(before != hash_bytes(0, bytes, sizeof(bytes)));
        bytes[i] = 0;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_agrees_with_an_array),
        cmocka_unit_test(table_refuses_a_key_twice),
        cmocka_unit_test(histogram_quantiles_are_within_0_8_percent),
        cmocka_unit_test(histogram_buckets_begin_at_numbers_of_seven_digits),
        cmocka_unit_test(histogram_of_nothing_is_zero),
        cmocka_unit_test(histogram_takes_the_greatest_value),
        cmocka_unit_test(hash_of_bytes_sees_every_byte_and_the_length),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
