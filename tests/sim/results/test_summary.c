/* The numbers of a summary against exact ones, and the JSON made of them. */
#include "sim/results/summary_rig.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <jansson.h>

#include "replica/command.h"
#include "results/words.h"

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}

static void percentiles_are_within_0_8_percent_of_exact_ones(void **state)
{
    (void)state;
    enum { COUNT = 20000 };
    struct results *results = summary_run_open(summary_scenario());
    int64_t *values[METRIC_COUNT];
    uint64_t random = test_seed(21);
    double sums[METRIC_COUNT] = {0};

    for (uint32_t metric = 0; metric < METRIC_COUNT; metric++)
        values[metric] = malloc(COUNT * sizeof(int64_t));
    for (uint32_t i = 0; i < COUNT; i++) {
        int64_t ttft_ns = (int64_t)(1e8 * -log(draw_unit(&random)));
        int64_t e2e_ns = ttft_ns + (int64_t)(1e9 * -log(draw_unit(&random)));
        struct request_row row = summary_row(i, i * NS_PER_S, ttft_ns, e2e_ns);

        row.tier = (uint8_t)(i % TIER_COUNT);
        values[METRIC_TTFT][i] = ttft_ns;
        values[METRIC_TPOT][i] = (e2e_ns - ttft_ns) / 10;
        values[METRIC_E2E][i] = e2e_ns;
        for (uint32_t metric = 0; metric < METRIC_COUNT; metric++)
            sums[metric] += (double)values[metric][i];
        results_request(results, &row);
    }
    summary_run_close(results, 0, COUNT * NS_PER_S, COUNT * NS_PER_S);
    for (uint32_t metric = 0; metric < METRIC_COUNT; metric++) {
        const struct latency *all = &summary_got.latency[CLASS_ALL][metric];

        qsort(values[metric], COUNT, sizeof(int64_t), by_value);
        assert_int_equal(all->count, COUNT);
        assert_int_equal(summary_got.latency[CLASS_HOST][metric].count, COUNT / TIER_COUNT);
        assert_near("p50", (double)all->p50_ns, (double)values[metric][COUNT / 2 - 1], 0.008 * (double)all->p50_ns);
        assert_near("p90", (double)all->p90_ns, (double)values[metric][COUNT / 10 * 9 - 1], 0.008 * (double)all->p90_ns);
        assert_near("p99", (double)all->p99_ns, (double)values[metric][COUNT / 100 * 99 - 1], 0.008 * (double)all->p99_ns);
        assert_int_equal(all->max_ns, values[metric][COUNT - 1]);
        assert_near("mean", all->mean_ns, sums[metric] / COUNT, 1e-6 * all->mean_ns);
        free(values[metric]);
    }
}

static void one_token_answers_have_no_time_per_token(void **state)
{
    (void)state;
    struct results *results = summary_run_open(summary_scenario());
    struct request_row row = summary_row(0, 0, NS_PER_MS, NS_PER_MS);

    row.output_tokens = 1;
    results_request(results, &row);
    summary_run_close(results, 0, NS_PER_S, NS_PER_S);
    assert_int_equal(summary_got.latency[CLASS_ALL][METRIC_E2E].count, 1);
    assert_int_equal(summary_got.latency[CLASS_ALL][METRIC_TPOT].count, 0);
    assert_int_equal(summary_got.good, 1);
}

static void the_later_of_the_two_warm_ups_holds(void **state)
{
    (void)state;
    for (uint32_t by_count = 0; by_count < 2; by_count++) {
        struct scenario *scenario = summary_scenario();
        struct results *results;

        scenario->warmup_s = by_count ? 10 : 40;
        scenario->warmup_requests = by_count ? 40 : 10;
        results = summary_run_open(scenario);
        for (uint32_t i = 100; i-- > 0;) { /* told in the wrong order: only arrival counts */
            struct request_row row = summary_row(i, i * NS_PER_S, NS_PER_MS, 2 * NS_PER_MS);

            results_request(results, &row);
        }
        summary_run_close(results, 40 * NS_PER_S, 100 * NS_PER_S, 101 * NS_PER_S);
        assert_int_equal(summary_got.arrived, 60);
        assert_int_equal(summary_got.completed, 60);
        assert_int_equal(summary_got.latency[CLASS_ALL][METRIC_E2E].count, 60);
        assert_true(summary_got.measured_s == 60);
        assert_near("goodput", summary_got.goodput_per_s, 1, 1e-9);
        assert_near("throughput", summary_got.requests_per_s, 1, 0.02);
        assert_near("output tokens", summary_got.output_tokens_per_s, 11, 0.2);
        assert_near("tokens", summary_got.total_tokens_per_s, 21, 0.4);
    }
}

static void goodput_asks_for_every_part_of_the_objective(void **state)
{
    (void)state;
    /* ttft ms, e2e ms with 11 tokens; good under ttft 1000, tpot 50, e2e 1.2 s. */
    static const struct {
        int64_t ttft_ms;
        int64_t e2e_ms;
        bool good;
    } cases[] = {
        {1000, 1200, true}, {1001, 1100, false}, {100, 600, true}, {100, 601, false}, {900, 1201, false},
    };
    uint64_t good = 0;
    struct scenario *scenario = summary_scenario();
    struct results *results;

    scenario->slo.e2e_s = 1.2;
    results = summary_run_open(scenario);
    for (uint32_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct request_row row = summary_row(i, i * NS_PER_S, cases[i].ttft_ms * NS_PER_MS, cases[i].e2e_ms * NS_PER_MS);

        /* 601 - 100 over ten tokens is 50.1 ms a token. */
        good += cases[i].good;
        results_request(results, &row);
    }
    summary_run_close(results, 0, 10 * NS_PER_S, 10 * NS_PER_S);
    assert_int_equal(summary_got.good, good);
}

static void ratios_over_the_base_need_a_hundred_on_either_side(void **state)
{
    (void)state;
    for (uint32_t base_count = 99; base_count <= 100; base_count++) {
        struct results *results = summary_run_open(summary_scenario());
        uint64_t ordinal = 0;

        for (uint32_t i = 0; i < 300; i++) {
            struct request_row row = summary_row(ordinal++, i * NS_PER_S, 110 * NS_PER_MS, 1050 * NS_PER_MS);

            row.tier = i % 3 == 0 ? TIER_HOST : TIER_GPU;
            if (i % 3 == 1 && i / 3 == 0)
                row.tier = TIER_STORE;
            results_request(results, &row);
        }
        for (uint32_t i = 0; i < base_count; i++) {
            struct request_row row = summary_row(ordinal++, i * NS_PER_S, 100 * NS_PER_MS, 1000 * NS_PER_MS);

            row.tier = TIER_BASE;
            results_request(results, &row);
        }
        summary_run_close(results, 0, 300 * NS_PER_S, 302 * NS_PER_S);
        assert_true(isnan(summary_got.e2e_over_base[CLASS_STORE]));
        if (base_count < 100) {
            assert_true(isnan(summary_got.e2e_over_base[CLASS_WARM]));
            continue;
        }
        assert_near("e2e", summary_got.e2e_over_base[CLASS_WARM], 1.05, 0.017);
        assert_near("ttft", summary_got.ttft_over_base[CLASS_HOST], 1.10, 0.018);
        assert_near("hits", summary_got.gpu_hit_ratio, 199.0 / 300, 1e-12);
        assert_int_equal(summary_got.tier_count[TIER_BASE], 100);
        assert_int_equal(summary_got.tier_count[TIER_STORE], 1);
    }
}

static void the_worst_refusal_of_a_reason_is_kept_with_its_arithmetic(void **state)
{
    (void)state;
    static const struct refusal said[] = {{450, 143}, {9000, 150}, {300, 143}};
    struct results *results = summary_run_open(summary_scenario());
    char sentence[REFUSE_SENTENCE_MAX];

    for (uint32_t i = 0; i < 4; i++) {
        struct request_row row = summary_row(i, i * NS_PER_S, 0, 0);

        row.status = REQUEST_REFUSED;
        row.reason = i < 3 ? REFUSE_TOO_LONG : REFUSE_DRAINING;
        if (i < 3) {
            row.refuse_need = said[i].need;
            row.refuse_have = said[i].have;
        }
        results_request(results, &row);
    }
    summary_run_close(results, 0, 10 * NS_PER_S, 10 * NS_PER_S);
    assert_int_equal(summary_got.by_reason[REFUSE_TOO_LONG], 3);
    assert_int_equal(summary_got.refusal_worst[REFUSE_TOO_LONG].need, 9000);
    assert_int_equal(summary_got.refusal_worst[REFUSE_TOO_LONG].have, 150);
    assert_int_equal(summary_got.refusal_worst[REFUSE_DRAINING].need, 0);
    refuse_sentence(REFUSE_TOO_LONG, 9000, 150, sentence);
    assert_string_equal(sentence, "needs 9000 KV blocks for its prompt and longest answer, the replica has 150");
    refuse_sentence(REFUSE_DRAINING, 0, 0, sentence);
    assert_string_equal(sentence, "the replica is draining");
    refuse_sentence(REFUSE_COUNT, 0, 0, sentence);
    assert_string_equal(sentence, "no reason is known");
}

/* Fast requests spend their time decoding, slow ones queueing: the bands must tell them apart. */
static void blame_bands_are_of_the_requests_around_their_percentile(void **state)
{
    (void)state;
    struct results *results = summary_run_open(summary_scenario());
    const struct blame_band *bands = summary_got.blame;
    double sums_ns[BLAME_COUNT] = {0};

    for (uint32_t i = 0; i < 10000; i++) {
        const bool slow = i % 50 == 0; /* 2% */
        const int64_t e2e_ns = (slow ? 10000 : 500 + i % 500) * NS_PER_MS;
        struct request_row row = summary_row(i, i * NS_PER_S, slow ? e2e_ns - 400 * NS_PER_MS : 100 * NS_PER_MS, e2e_ns);

        row.blame_ns[BLAME_QUEUE] -= slow ? 50 * NS_PER_MS : 0;
        row.blame_ns[BLAME_STORE] = slow ? 50 * NS_PER_MS : 0;
        for (uint32_t part = 0; part < BLAME_COUNT; part++)
            sums_ns[part] += (double)row.blame_ns[part];
        results_request(results, &row);
    }
    summary_run_close(results, 0, 10000 * NS_PER_S, 10010 * NS_PER_S);
    assert_string_equal(bands[0].label, "all");
    assert_int_equal(bands[0].count, 10000);
    for (uint32_t part = 0; part < BLAME_COUNT; part++)
        assert_near("all", bands[0].mean_ns[part], sums_ns[part] / 10000, 1);
    assert_string_equal(bands[1].label, "p50");
    /* Ranks 45 to 55 and what shares their histogram steps. */
    assert_in_range(bands[1].count, 1000, 1700);
    assert_near("p50 queue", bands[1].mean_ns[BLAME_QUEUE], 100e6, 1);
    assert_near("p50 decode", bands[1].mean_ns[BLAME_DECODE], 660e6, 30e6);
    assert_string_equal(bands[3].label, "p99");
    assert_int_equal(bands[3].count, 200);
    assert_near("p99 queue", bands[3].mean_ns[BLAME_QUEUE], 9550e6, 1);
    assert_near("p99 store", bands[3].mean_ns[BLAME_STORE], 50e6, 1);
    assert_near("p99 decode", bands[3].mean_ns[BLAME_DECODE], 400e6, 1);
}

static void jain_is_one_for_equals_and_less_for_a_favourite(void **state)
{
    (void)state;
    for (uint32_t favourite = 0; favourite < 2; favourite++) {
        struct results *results = summary_run_open(summary_scenario());

        for (uint32_t i = 0; i < 300; i++) {
            /* Tenant 3 asks for nothing and must not count. Tenant 0 is four times as fast when it is the favourite. */
            struct request_row row = summary_row(i, i * NS_PER_S, NS_PER_MS, (favourite && i % 3 == 0 ? 100 : 400) * NS_PER_MS);

            row.tenant = i % 3;
            results_request(results, &row);
        }
        summary_run_close(results, 0, 300 * NS_PER_S, 301 * NS_PER_S);
        assert_int_equal(summary_got.tenants_served, 3);
        assert_near("jain", summary_got.jain, favourite ? 36.0 / (3 * 18) : 1, 1e-9);
    }
}

static void samples_weigh_by_their_interval_within_the_window(void **state)
{
    (void)state;
    struct scenario *scenario = summary_scenario();
    struct results *results;
    int64_t at_ns = 0;

    scenario->duration_s = 200;
    scenario->warmup_s = 100;
    results = summary_run_open(scenario);
    /* Second by second in the warm-up and in the first half of the window, then every two seconds, then the drain. */
    while (at_ns < 300 * NS_PER_S) {
        const bool coarse = at_ns >= 150 * NS_PER_S && at_ns < 200 * NS_PER_S;
        const bool measured = at_ns >= 100 * NS_PER_S && at_ns < 200 * NS_PER_S;

        at_ns += (coarse ? 2 : 1) * NS_PER_S;
        for (uint32_t replica = 0; replica < 2; replica++) {
            struct replica_sample sample = {
                .at_ns = at_ns, .replica = replica, .kv_share = coarse ? 0.5f : 0.25f, .loads = coarse ? 6 : 3,
                .waiting = replica == 0 ? 4 : 0, .slots_pinned_share = 0.125f};

            if (!measured) {
                sample.kv_share = 1;
                sample.waiting = 1000;
                sample.loads = 1000;
            }
            results_sample(results, &sample);
        }
    }
    summary_run_close(results, 100 * NS_PER_S, 200 * NS_PER_S, 300 * NS_PER_S);
    assert_near("kv mean", summary_got.kv_share_mean, 0.375, 1e-9);
    assert_near("kv max", summary_got.kv_share_max, 0.5, 0);
    assert_near("pinned", summary_got.slots_pinned_share_mean, 0.125, 1e-9);
    assert_near("waiting", summary_got.waiting_mean, 2, 1e-9);
    assert_near("waiting max", summary_got.waiting_max, 4, 0);
    assert_near("loads", summary_got.loads_per_s, 6, 1e-9);
    assert_near("busy", summary_got.gpu_busy_share, 200.0 / (2 * 100), 1e-9);
}

static void nothing_at_all_is_not_known_rather_than_zero(void **state)
{
    (void)state;
    struct results *results = summary_run_open(summary_scenario());

    summary_run_close(results, 0, 0, 0);
    assert_int_equal(summary_got.arrived, 0);
    assert_false(summary_got.saturated);
    assert_true(isnan(summary_got.gpu_hit_ratio));
    assert_true(isnan(summary_got.goodput_per_s));
    assert_true(isnan(summary_got.jain));
    assert_true(isnan(summary_got.rho));
    assert_true(isnan(summary_got.kv_share_mean));
    assert_string_equal(summary_got.notes, "a note\nand another\n");
}

/* JSON. */

static json_t *json_of(char *line, size_t bytes)
{
    FILE *out = fmemopen(line, bytes, "w");
    json_t *object;

    summary_json(out, &summary_got);
    fclose(out);
    assert_int_equal(strcspn(line, "\n"), strlen(line) - 1);
    object = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(object);
    return object;
}

static json_t *at(json_t *object, const char *a, const char *b, const char *c)
{
    json_t *value = json_object_get(object, a);

    value = b != NULL ? json_object_get(value, b) : value;
    value = c != NULL ? json_object_get(value, c) : value;
    if (value == NULL)
        fail_msg("no %s.%s.%s", a, b != NULL ? b : "", c != NULL ? c : "");
    return value;
}

static void json_is_one_line_with_units_and_null_for_not_known(void **state)
{
    (void)state;
    static char line[32768];
    struct results *results = summary_run_open(summary_scenario());
    json_t *object;

    for (uint32_t i = 0; i < 200; i++) {
        struct request_row row = summary_row(i, i * NS_PER_S, 100 * NS_PER_MS, 1000 * NS_PER_MS);

        results_request(results, &row);
    }
    summary_run_close(results, 0, 200 * NS_PER_S, 201 * NS_PER_S);
    summary_got.facts.digest = UINT64_C(0xfedcba9876543210);
    strcpy(summary_got.notes, "broken \xff text\nsecond");
    object = json_of(line, sizeof(line));
    assert_string_equal(json_string_value(at(object, "name", NULL, NULL)), "numbers");
    assert_string_equal(json_string_value(at(object, "digest", NULL, NULL)), "fedcba9876543210");
    assert_true(json_is_false(at(object, "saturated", NULL, NULL)));
    assert_int_equal(json_integer_value(at(object, "ttft", "all", "count")), 200);
    assert_near("p50", json_real_value(at(object, "ttft", "warm", "p50_ms")), 100, 0.8);
    assert_near("max", json_real_value(at(object, "e2e", "all", "max_ms")), 1000, 1e-6);
    assert_true(json_is_null(at(object, "ttft", "base", "p50_ms")));
    assert_true(json_is_null(at(object, "e2e_over_base", "warm", NULL)));
    assert_true(json_is_null(at(object, "loads_per_s", NULL, NULL)));
    assert_near("hits", json_real_value(at(object, "gpu_hit_ratio", NULL, NULL)), 1, 0);
    assert_near("blame", json_real_value(at(object, "blame", "p99", "decode_ms")), 900, 1e-6);
    assert_int_equal(json_integer_value(at(object, "tiers", "gpu", NULL)), 200);
    assert_int_equal(json_array_size(at(object, "notes", NULL, NULL)), 2);
    assert_string_equal(json_string_value(json_array_get(at(object, "notes", NULL, NULL), 0)), "broken ? text");
    json_decref(object);
}

static void json_of_an_unstable_run_has_no_percentile(void **state)
{
    (void)state;
    static char line[32768];
    static const char *const quantiles[] = {"mean_ms", "p50_ms", "p90_ms", "p99_ms", "max_ms"};
    static const char *const metrics[] = {"ttft", "tpot", "e2e"};
    struct results *results = summary_run_open(summary_scenario());
    json_t *object;

    for (uint32_t i = 0; i < 200; i++) {
        struct request_row row = summary_row(i, i * NS_PER_S, 100 * NS_PER_MS, 1000 * NS_PER_MS);

        results_request(results, &row);
    }
    summary_run_close(results, 0, 200 * NS_PER_S, 201 * NS_PER_S);
    summary_got.saturated = true;
    object = json_of(line, sizeof(line));
    assert_true(json_is_true(at(object, "saturated", NULL, NULL)));
    for (uint32_t metric = 0; metric < ARRAY_COUNT(metrics); metric++) {
        for (uint32_t i = 0; i < ARRAY_COUNT(quantiles); i++)
            assert_true(json_is_null(at(object, metrics[metric], "all", quantiles[i])));
        assert_true(json_is_real(json_object_get(at(object, metrics[metric], "all", "so_far"), "mean_ms")));
    }
    assert_true(json_is_null(at(object, "blame", "p99", "decode_ms")));
    assert_true(json_is_real(at(object, "blame", "all", "decode_ms")));
    json_decref(object);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(percentiles_are_within_0_8_percent_of_exact_ones),
        cmocka_unit_test(one_token_answers_have_no_time_per_token),
        cmocka_unit_test(the_later_of_the_two_warm_ups_holds),
        cmocka_unit_test(goodput_asks_for_every_part_of_the_objective),
        cmocka_unit_test(the_worst_refusal_of_a_reason_is_kept_with_its_arithmetic),
        cmocka_unit_test(ratios_over_the_base_need_a_hundred_on_either_side),
        cmocka_unit_test(blame_bands_are_of_the_requests_around_their_percentile),
        cmocka_unit_test(jain_is_one_for_equals_and_less_for_a_favourite),
        cmocka_unit_test(samples_weigh_by_their_interval_within_the_window),
        cmocka_unit_test(nothing_at_all_is_not_known_rather_than_zero),
        cmocka_unit_test(json_is_one_line_with_units_and_null_for_not_known),
        cmocka_unit_test(json_of_an_unstable_run_has_no_percentile),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
