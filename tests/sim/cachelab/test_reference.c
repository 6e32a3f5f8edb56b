/* The reference's miss ratios of LRU, on its own traces of ten million requests. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>

#include "cachelab/trace_stat.h"
#include "sim/cachelab/reference.h"

/* 8gb are 8 GiB. */
static double our_ratio(const struct trace_facts *facts, const char *mode, const char *size)
{
    const uint64_t number = strtoull(size, NULL, 10);
    const uint64_t misses = strcmp(mode, "objcount") == 0 ? facts->lru_misses[number] : lru_curve_misses_bytes(facts->curve, number << 30);

    return (double)misses / (double)facts->requests;
}

static uint32_t compare(const struct trace_facts *facts, FILE *file, const char *trace)
{
    struct reference_row row;
    uint32_t compared = 0;

    while (reference_next(file, &row)) {
        char got[64];

        if (strcmp(row.trace, trace) != 0 || strcmp(row.policy, "lru") != 0)
            continue;
        snprintf(got, sizeof(got), "%.4f", our_ratio(facts, row.mode, row.size));
        if (strcmp(got, row.miss_ratio) != 0)
            fail_msg("%s, %s: %s, the reference has %s", trace, row.size, got, row.miss_ratio);
        compared++;
    }
    return compared;
}

static void stat_add(struct trace_stat *stat, const struct zipf_trace *trace)
{
    for (uint32_t i = 0; i < trace->count; i += TRACE_STAT_BATCH_MAX) {
        struct object_request requests[TRACE_STAT_BATCH_MAX];
        const uint32_t count = min_u32(TRACE_STAT_BATCH_MAX, trace->count - i);

        for (uint32_t j = 0; j < count; j++)
            requests[j] = (struct object_request){.id = trace->ids[i + j], .size_bytes = trace->sizes[i + j], .at_ns = i + j};
        assert_int_equal(trace_stat_add(stat, requests, count), STATUS_OK);
    }
}

static void assert_reference(const char *name, struct zipf_trace (*make)(void), uint32_t rows)
{
    FILE *file = reference_open();
    struct zipf_trace trace = make();
    struct trace_stat *stat = NULL;
    const struct trace_facts *facts;
    uint32_t compared;

    assert_int_equal(trace_stat_create(&(struct shards_config){.rate = 0.01, .seed = 1}, &stat), STATUS_OK);
    stat_add(stat, &trace);
    assert_int_equal(trace_stat_facts(stat, &facts), STATUS_OK);
    compared = compare(facts, file, name);
    fclose(file);
    assert_int_equal(compared, rows);
    /* Both were drawn with alpha 1. */
    assert_true(facts->has_zipf && facts->zipf.alpha > 1 - 4 * facts->zipf.error && facts->zipf.alpha < 1 + 4 * facts->zipf.error);
    print_message("%s: %u miss ratios agree; Zipf's alpha %.5f +- %.5f; SHARDS off by %.4f\n", name, rows, facts->zipf.alpha, facts->zipf.error,
                  facts->shards_mean_error);
    trace_stat_free(stat);
    zipf_trace_free(&trace);
}

static void lru_on_a_million_objects_is_the_references(void **state)
{
    (void)state;
    assert_reference("A_zipf1.0_1M_10M", reference_a, 3);
}

static void lru_on_five_thousand_adapters_is_the_references(void **state)
{
    (void)state;
    assert_reference("B_zipf1.0_lora5k_10M", reference_b, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lru_on_a_million_objects_is_the_references),
        cmocka_unit_test(lru_on_five_thousand_adapters_is_the_references),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
