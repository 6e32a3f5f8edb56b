/* The lab's cells beside what others know: the reference's miss ratios on its own traces, and the formulas of Che and of King. */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "cachelab/cell.h"
#include "cachelab/intern.h"
#include "cachelab/spec.h"
#include "sim/cachelab/zipf_trace.h"

#define CELLS_MAX 64

/* --- traces in memory, through several cells at once --- */

struct numbered {
    uint32_t *objects;
    uint64_t *next;
    uint32_t objects_count;
};

static struct numbered numbered_create(const struct zipf_trace *trace)
{
    struct numbered numbered = {.objects = malloc(trace->count * sizeof(uint32_t)), .next = malloc(trace->count * sizeof(uint64_t))};
    uint32_t *last = malloc(trace->objects * sizeof(*last));
    struct intern *intern = NULL;

    assert_true(numbered.objects != NULL && numbered.next != NULL && last != NULL);
    assert_int_equal(intern_create(&intern), STATUS_OK);
    for (uint32_t i = 0; i < trace->count; i += INTERN_BATCH_MAX)
        assert_int_equal(intern_ids(intern, trace->ids + i, min_u32(INTERN_BATCH_MAX, trace->count - i), numbered.objects + i), STATUS_OK);
    for (uint32_t i = 0; i < trace->count; i++) {
        const uint32_t object = numbered.objects[i];

        if (object == numbered.objects_count)
            numbered.objects_count++;
        else
            numbered.next[last[object]] = i;
        numbered.next[i] = NONE_USE;
        last[object] = i;
    }
    intern_free(intern);
    free(last);
    return numbered;
}

static void numbered_free(struct numbered *numbered)
{
    free(numbered->objects);
    free(numbered->next);
}

static void cells_run(struct lab_cell *const *cells, uint32_t count, const struct zipf_trace *trace, const struct numbered *numbered)
{
    static struct lab_block block;

    for (uint32_t from = 0; from < trace->count; from += LAB_BLOCK_MAX) {
        block.first = from;
        block.count = min_u32(LAB_BLOCK_MAX, trace->count - from);
        block.objects_count = numbered->objects_count;
        memcpy(block.objects, numbered->objects + from, block.count * sizeof(block.objects[0]));
        memcpy(block.sizes_bytes, trace->sizes + from, block.count * sizeof(block.sizes_bytes[0]));
        memcpy(block.next, numbered->next + from, block.count * sizeof(block.next[0]));
        for (uint32_t i = 0; i < count; i++)
            assert_int_equal(lab_cell_requests(cells[i], &block), STATUS_OK);
    }
}

static struct lab_cell *cell_create(const char *policy_text, const char *size_text)
{
    struct lab_admission admission;
    struct lab_policy policy;
    struct lab_size size;
    const struct lab_cell_setup setup = {.policy = &policy, .admission = &admission, .size = &size, .seed = 1};
    char message[SPEC_MESSAGE_MAX];
    struct lab_cell *cell = NULL;

    assert_int_equal(spec_policy(policy_text, strlen(policy_text), &policy, message), STATUS_OK);
    assert_int_equal(spec_admission("always", 6, &admission, message), STATUS_OK);
    assert_int_equal(spec_size(size_text, strlen(size_text), &size, message), STATUS_OK);
    assert_int_equal(lab_cell_create(&setup, &cell), STATUS_OK);
    return cell;
}

static double ratio_of(const struct lab_cell *cell)
{
    const struct lab_counts counts = lab_cell_counts(cell);

    return (double)lab_misses(&counts) / (double)counts.requests;
}

/* --- the reference --- */

/* Of these the papers leave nothing open, and of lfu only who goes first of equals. */
static const char *const exact[] = {"fifo", "lru", "lfu", "sieve", "belady"};

struct row {
    char policy[64];
    char size[80];
    char miss_ratio[64];
};

/* Those of the policies above. */
static uint32_t rows_read(const char *trace, struct row *ret_rows)
{
    FILE *file = fopen(test_shared_path("reference/cache/libcachesim.csv"), "r");
    uint32_t count = 0;
    char line[512];

    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        struct row *row = &ret_rows[count];
        char name[64], mode[64], size[64];

        if (sscanf(line, "%63[^,],%63[^,],%63[^,],%63[^,],%*[^,],%63[^,],", name, mode, row->policy, size, row->miss_ratio) != 5 ||
            strcmp(name, trace) != 0)
            continue;
        snprintf(row->size, sizeof(row->size), strcmp(mode, "objcount") == 0 ? "%luobj" : "%luGiB", strtoul(size, NULL, 10)); /* 8gb are 8 GiB */
        for (size_t i = 0; i < ARRAY_COUNT(exact); i++)
            if (strcmp(exact[i], row->policy) == 0) {
                assert_true(++count < CELLS_MAX);
                break;
            }
    }
    fclose(file);
    return count;
}

/* digest: of ids and sizes, as they stand in the file whose checksum the reference tells. */
static void assert_reference(const char *name, struct zipf_trace trace, uint64_t digest, uint32_t rows_count)
{
    struct lab_cell *cells[CELLS_MAX];
    struct row rows[CELLS_MAX];
    struct numbered numbered;

    if (test_shared_path("reference/cache/libcachesim.csv") == NULL) {
        zipf_trace_free(&trace);
        print_message("skipped: the reference's numbers are not there\n");
        skip();
    }
    assert_true(hash_words(hash_words(0, trace.ids, trace.count), trace.sizes, trace.count) == digest);
    assert_int_equal(rows_read(name, rows), rows_count);
    numbered = numbered_create(&trace);
    for (uint32_t i = 0; i < rows_count; i++)
        cells[i] = cell_create(rows[i].policy, rows[i].size);
    cells_run(cells, rows_count, &trace, &numbered);
    for (uint32_t i = 0; i < rows_count; i++) {
        char got[64];

        snprintf(got, sizeof(got), "%.4f", ratio_of(cells[i]));
        if (strcmp(got, rows[i].miss_ratio) != 0)
            fail_msg("%s, %s of %s: %s, the reference has %s", name, rows[i].policy, rows[i].size, got, rows[i].miss_ratio);
        lab_cell_free(cells[i]);
    }
    numbered_free(&numbered);
    zipf_trace_free(&trace);
}

static void miss_ratios_on_a_million_objects_are_the_references(void **state)
{
    (void)state;
    assert_reference("A_zipf1.0_1M_10M", zipf_trace_create(1000000, 10000000, 1, 42, false), UINT64_C(0xd98739a34d632b9a), 5 * 3);
}

static void miss_ratios_on_five_thousand_adapters_are_the_references(void **state)
{
    (void)state;
    assert_reference("B_zipf1.0_lora5k_10M", zipf_trace_create(5000, 10000000, 1, 43, true), UINT64_C(0x866bdea6760c2ed6), 5 * 6);
}

/* --- formulas, for requests drawn independently --- */

/* That an object of this probability is there, `t` being the one number that makes all of them fill the cache. */
static double there_lru(double p, double t) { return 1 - exp(-p * t); } /* Che, Tung, Wang, JSAC 20(7), 2002 */
static double there_fifo(double p, double t) { return p * t / (1 + p * t); } /* King 1971; Gelenbe 1973 for random; by Fricker et al., ITC 2012 */

static double formula(double (*there)(double, double), uint32_t objects, double slots)
{
    double low = 0, high = 1e12, sum = 0, misses = 0;

    for (uint32_t i = 1; i <= objects; i++)
        sum += 1.0 / i;
    for (uint32_t step = 0; step < 200; step++) {
        const double t = (low + high) / 2;
        double full = 0;

        for (uint32_t i = 1; i <= objects; i++)
            full += there(1 / (i * sum), t);
        if (full < slots)
            low = t;
        else
            high = t;
    }
    for (uint32_t i = 1; i <= objects; i++)
        misses += (1 - there(1 / (i * sum), low)) / (i * sum);
    return misses;
}

static void independent_requests_miss_as_the_formulas_of_che_and_king_say(void **state)
{
    static const struct {
        const char *policy;
        double (*there)(double p, double t);
    } known[] = {{"lru", there_lru}, {"fifo", there_fifo}, {"random", there_fifo}};
    static const uint32_t slots[] = {10, 50, 250, 600};
    enum { OBJECTS = 1000, REQUESTS = 1000000 };
    struct zipf_trace trace = zipf_trace_create(OBJECTS, REQUESTS, 1, test_seed(4), false);
    struct numbered numbered = numbered_create(&trace);
    struct lab_cell *cells[CELLS_MAX];
    uint32_t count = 0;

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(known); i++)
        for (size_t j = 0; j < ARRAY_COUNT(slots); j++) {
            char size[32];

            snprintf(size, sizeof(size), "%uobj", slots[j]);
            cells[count++] = cell_create(known[i].policy, size);
        }
    cells_run(cells, count, &trace, &numbered);
    for (size_t i = 0; i < ARRAY_COUNT(known); i++)
        for (size_t j = 0; j < ARRAY_COUNT(slots); j++) {
            const double ratio = ratio_of(cells[i * ARRAY_COUNT(slots) + j]);
            const double said = formula(known[i].there, OBJECTS, slots[j]);

            /* Six deviations of so many requests are 0.003; the first ones fill the cache; below some dozens of slots the formulas are a
             * little off themselves. */
            if (fabs(ratio - said) > 0.005)
                fail_msg("%s, %u slots: %.4f, the formula says %.4f", known[i].policy, slots[j], ratio, said);
        }
    for (uint32_t i = 0; i < count; i++)
        lab_cell_free(cells[i]);
    numbered_free(&numbered);
    zipf_trace_free(&trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(miss_ratios_on_a_million_objects_are_the_references),
        cmocka_unit_test(miss_ratios_on_five_thousand_adapters_are_the_references),
        cmocka_unit_test(independent_requests_miss_as_the_formulas_of_che_and_king_say),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
