/* Miss ratios of cells on the reference's own traces of ten million requests: where the algorithm is the same, equal to the printed
 * digit. One size a trace and unit, for time; `make bench BENCH=cache` prints all nine. */
#include "cachelab/cell.h"
#include "support.h"

#include <math.h>
#include <stdlib.h>

#include "sim/cachelab/reference.h"

/* May differ by so much: EQUAL, not to the printed digit; ANOTHER, it is not the same algorithm (DECISIONS.md says what differs). */
#define EQUAL 0
#define ANOTHER 1

static const struct {
    const char *reference;
    const struct evict_policy *policy;
    double by_objects, by_bytes;
} policies[] = {
    {"fifo", &evict_fifo, EQUAL, EQUAL},
    {"lru", &evict_lru, EQUAL, EQUAL},
    {"sieve", &evict_sieve, EQUAL, EQUAL},
    {"lfu", &evict_lfu, EQUAL, EQUAL},
    {"clock", &evict_clock, EQUAL, EQUAL},
    {"s3fifo", &evict_s3fifo, EQUAL, EQUAL},
    {"twoq", &evict_2q, EQUAL, EQUAL},
    {"arc", &evict_arc, EQUAL, ANOTHER},
    {"slru", &evict_slru, 0.002, ANOTHER},
};

static double miss_ratio(const struct evict_policy *evict, const struct reference_row *row, const struct zipf_trace *trace)
{
    static struct lab_block block;
    const bool by_bytes = strcmp(row->mode, "bytes") == 0;
    const uint64_t number = strtoull(row->size, NULL, 10);
    struct lab_policy policy = {.evict = evict};
    const struct lab_admission admission = {.admit = &admit_always};
    const struct lab_size size = {.unit = by_bytes ? LAB_BYTES : LAB_OBJECTS, .capacity = by_bytes ? number << 30 : number};
    const struct lab_cell_setup setup = {.policy = &policy, .admission = &admission, .size = &size};
    struct lab_cell *cell = NULL;
    struct lab_counts counts;

    for (uint32_t i = 0; i < evict->keys_count; i++)
        policy.parameters[i] = evict->keys[i].value;
    assert_int_equal(lab_cell_create(&setup, &cell), STATUS_OK);
    block = (struct lab_block){.objects_count = trace->objects};
    for (; block.first < trace->count; block.first += block.count) {
        block.count = min_u32(LAB_BLOCK_MAX, trace->count - (uint32_t)block.first);
        block.bytes = 0;
        for (uint32_t i = 0; i < block.count; i++) {
            block.objects[i] = (uint32_t)trace->ids[block.first + i] - 1;
            block.sizes_bytes[i] = trace->sizes[block.first + i];
            block.bytes += block.sizes_bytes[i];
        }
        assert_int_equal(lab_cell_requests(cell, &block), STATUS_OK);
    }
    counts = lab_cell_counts(cell);
    lab_cell_free(cell);
    assert_int_equal(counts.requests, trace->count);
    return (double)lab_misses(&counts) / (double)counts.requests;
}

static void assert_near(double got, const struct reference_row *row, double tolerance)
{
    char text[64];

    snprintf(text, sizeof(text), "%.4f", got);
    if (tolerance == EQUAL ? strcmp(text, row->miss_ratio) != 0 : fabs(got - strtod(row->miss_ratio, NULL)) > tolerance)
        fail_msg("%s on %s, %s: %s, the reference has %s", row->policy, row->trace, row->size, text, row->miss_ratio);
}

/* Every policy at `objects`, and at `bytes` where that isn't NULL. */
static void assert_reference(const char *name, struct zipf_trace (*make)(void), const char *objects, const char *bytes, uint32_t rows)
{
    FILE *file;
    struct zipf_trace trace;
    struct reference_row row;
    uint32_t compared = 0;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    print_message("skipped: for a minute under sanitizers, which see the same in smaller tests\n");
    skip();
#endif
    file = reference_open();
    trace = make();
    while (reference_next(file, &row)) {
        const bool by_bytes = strcmp(row.mode, "bytes") == 0;
        const char *size = by_bytes ? bytes : objects;

        if (strcmp(row.trace, name) != 0 || size == NULL || strcmp(row.size, size) != 0)
            continue;
        for (size_t i = 0; i < ARRAY_COUNT(policies); i++) {
            const double tolerance = by_bytes ? policies[i].by_bytes : policies[i].by_objects;

            if (strcmp(row.policy, policies[i].reference) != 0 || tolerance == ANOTHER)
                continue;
            assert_near(miss_ratio(policies[i].policy, &row, &trace), &row, tolerance);
            compared++;
        }
    }
    assert_int_equal(compared, rows);
    fclose(file);
    zipf_trace_free(&trace);
}

static void a_million_objects_give_the_references_miss_ratios(void **state)
{
    (void)state;
    assert_reference("A_zipf1.0_1M_10M", reference_a, "10000", NULL, 9);
}

static void five_thousand_adapters_give_the_references_miss_ratios(void **state)
{
    (void)state;
    assert_reference("B_zipf1.0_lora5k_10M", reference_b, "1000", "8gb", 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_million_objects_give_the_references_miss_ratios),
        cmocka_unit_test(five_thousand_adapters_give_the_references_miss_ratios),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
