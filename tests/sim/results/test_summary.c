/* The numbers of a summary against exact ones, and the verdict on saturation against queues whose fate is known. */
#include "results/results.h"
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <jansson.h>

static struct summary summary;

static struct scenario *scenario_make(void)
{
    struct scenario *scenario = calloc(1, sizeof(*scenario));

    strcpy(scenario->name, "numbers");
    strcpy(scenario->variant, "default");
    scenario->seed = 3;
    scenario->duration_s = 1e5;
    scenario->slo.ttft_ms = 1000;
    scenario->slo.tpot_ms = 50;
    return scenario;
}

static struct results *open_with(struct scenario *scenario)
{
    struct results *results;

    assert_int_equal(results_open(NULL, scenario, 2, 4, &results), STATUS_OK);
    free(scenario);
    return results;
}

static void close_at(struct results *results, int64_t warmup_until_ns, int64_t arrivals_end_ns, int64_t end_ns)
{
    struct run_facts facts = {.warmup_until_ns = warmup_until_ns, .arrivals_end_ns = arrivals_end_ns, .end_ns = end_ns,
                              .busy_ns = (double)arrivals_end_ns, .notes = "a note\nand another\n"};

    assert_int_equal(results_close(results, &facts, &summary, stderr), STATUS_OK);
}

/* A completed request: queued until its first token, then decoding. */
static struct request_row done_row(uint64_t ordinal, int64_t at_ns, int64_t ttft_ns, int64_t e2e_ns)
{
    return (struct request_row){
        .ordinal = ordinal,
        .at_ns = at_ns,
        .admitted_ns = at_ns,
        .first_token_ns = at_ns + ttft_ns,
        .done_ns = at_ns + e2e_ns,
        .tier = TIER_GPU,
        .status = REQUEST_DONE,
        .prompt_tokens = 10,
        .output_tokens = 11,
        .blame_ns = {[BLAME_QUEUE] = ttft_ns, [BLAME_DECODE] = e2e_ns - ttft_ns},
    };
}

static void close_to(const char *what, double got, double expected, double tolerance)
{
    if (!(fabs(got - expected) <= tolerance))
        fail_msg("%s: got %.9g, expected %.9g within %.3g", what, got, expected, tolerance);
}

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
    struct results *results = open_with(scenario_make());
    int64_t *values[METRIC_COUNT];
    uint64_t random = test_seed(21);
    double sums[METRIC_COUNT] = {0};

    for (uint32_t metric = 0; metric < METRIC_COUNT; metric++)
        values[metric] = malloc(COUNT * sizeof(int64_t));
    for (uint32_t i = 0; i < COUNT; i++) {
        int64_t ttft_ns = (int64_t)(1e8 * -log(draw_unit(&random)));
        int64_t e2e_ns = ttft_ns + (int64_t)(1e9 * -log(draw_unit(&random)));
        struct request_row row = done_row(i, i * NS_PER_S, ttft_ns, e2e_ns);

        row.tier = (uint8_t)(i % TIER_COUNT);
        values[METRIC_TTFT][i] = ttft_ns;
        values[METRIC_TPOT][i] = (e2e_ns - ttft_ns) / 10;
        values[METRIC_E2E][i] = e2e_ns;
        for (uint32_t metric = 0; metric < METRIC_COUNT; metric++)
            sums[metric] += (double)values[metric][i];
        results_request(results, &row);
    }
    close_at(results, 0, COUNT * NS_PER_S, COUNT * NS_PER_S);
    for (uint32_t metric = 0; metric < METRIC_COUNT; metric++) {
        const struct latency *all = &summary.latency[CLASS_ALL][metric];

        qsort(values[metric], COUNT, sizeof(int64_t), by_value);
        assert_int_equal(all->count, COUNT);
        assert_int_equal(summary.latency[CLASS_HOST][metric].count, COUNT / TIER_COUNT);
        close_to("p50", (double)all->p50_ns, (double)values[metric][COUNT / 2 - 1], 0.008 * (double)all->p50_ns);
        close_to("p90", (double)all->p90_ns, (double)values[metric][COUNT / 10 * 9 - 1], 0.008 * (double)all->p90_ns);
        close_to("p99", (double)all->p99_ns, (double)values[metric][COUNT / 100 * 99 - 1], 0.008 * (double)all->p99_ns);
        assert_int_equal(all->max_ns, values[metric][COUNT - 1]);
        close_to("mean", all->mean_ns, sums[metric] / COUNT, 1e-6 * all->mean_ns);
        free(values[metric]);
    }
}

static void one_token_answers_have_no_time_per_token(void **state)
{
    (void)state;
    struct results *results = open_with(scenario_make());
    struct request_row row = done_row(0, 0, NS_PER_MS, NS_PER_MS);

    row.output_tokens = 1;
    results_request(results, &row);
    close_at(results, 0, NS_PER_S, NS_PER_S);
    assert_int_equal(summary.latency[CLASS_ALL][METRIC_E2E].count, 1);
    assert_int_equal(summary.latency[CLASS_ALL][METRIC_TPOT].count, 0);
    assert_int_equal(summary.good, 1);
}

static void the_later_of_the_two_warm_ups_holds(void **state)
{
    (void)state;
    for (uint32_t by_count = 0; by_count < 2; by_count++) {
        struct scenario *scenario = scenario_make();
        struct results *results;

        scenario->warmup_s = by_count ? 10 : 40;
        scenario->warmup_requests = by_count ? 40 : 10;
        results = open_with(scenario);
        for (uint32_t i = 100; i-- > 0;) { /* told in the wrong order: only arrival counts */
            struct request_row row = done_row(i, i * NS_PER_S, NS_PER_MS, 2 * NS_PER_MS);

            results_request(results, &row);
        }
        close_at(results, 40 * NS_PER_S, 100 * NS_PER_S, 101 * NS_PER_S);
        assert_int_equal(summary.arrived, 60);
        assert_int_equal(summary.completed, 60);
        assert_int_equal(summary.latency[CLASS_ALL][METRIC_E2E].count, 60);
        assert_true(summary.measured_s == 60);
        close_to("goodput", summary.goodput_per_s, 1, 1e-9);
        close_to("throughput", summary.requests_per_s, 1, 0.02);
        close_to("output tokens", summary.output_tokens_per_s, 11, 0.2);
        close_to("tokens", summary.total_tokens_per_s, 21, 0.4);
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
    struct scenario *scenario = scenario_make();
    struct results *results;

    scenario->slo.e2e_s = 1.2;
    results = open_with(scenario);
    for (uint32_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct request_row row = done_row(i, i * NS_PER_S, cases[i].ttft_ms * NS_PER_MS, cases[i].e2e_ms * NS_PER_MS);

        /* 601 - 100 over ten tokens is 50.1 ms a token. */
        good += cases[i].good;
        results_request(results, &row);
    }
    close_at(results, 0, 10 * NS_PER_S, 10 * NS_PER_S);
    assert_int_equal(summary.good, good);
}

static void ratios_over_the_base_need_a_hundred_on_either_side(void **state)
{
    (void)state;
    for (uint32_t base_count = 99; base_count <= 100; base_count++) {
        struct results *results = open_with(scenario_make());
        uint64_t ordinal = 0;

        for (uint32_t i = 0; i < 300; i++) {
            struct request_row row = done_row(ordinal++, i * NS_PER_S, 110 * NS_PER_MS, 1050 * NS_PER_MS);

            row.tier = i % 3 == 0 ? TIER_HOST : TIER_GPU;
            if (i % 3 == 1 && i / 3 == 0)
                row.tier = TIER_STORE;
            results_request(results, &row);
        }
        for (uint32_t i = 0; i < base_count; i++) {
            struct request_row row = done_row(ordinal++, i * NS_PER_S, 100 * NS_PER_MS, 1000 * NS_PER_MS);

            row.tier = TIER_BASE;
            results_request(results, &row);
        }
        close_at(results, 0, 300 * NS_PER_S, 302 * NS_PER_S);
        assert_true(isnan(summary.e2e_over_base[CLASS_STORE]));
        if (base_count < 100) {
            assert_true(isnan(summary.e2e_over_base[CLASS_WARM]));
            continue;
        }
        close_to("e2e", summary.e2e_over_base[CLASS_WARM], 1.05, 0.017);
        close_to("ttft", summary.ttft_over_base[CLASS_HOST], 1.10, 0.018);
        close_to("hits", summary.gpu_hit_ratio, 199.0 / 300, 1e-12);
        assert_int_equal(summary.tier_count[TIER_BASE], 100);
        assert_int_equal(summary.tier_count[TIER_STORE], 1);
    }
}

/* Fast requests spend their time decoding, slow ones queueing: the bands must tell them apart. */
static void blame_bands_are_of_the_requests_around_their_percentile(void **state)
{
    (void)state;
    struct results *results = open_with(scenario_make());
    const struct blame_band *bands = summary.blame;
    double sums_ns[BLAME_COUNT] = {0};

    for (uint32_t i = 0; i < 10000; i++) {
        const bool slow = i % 50 == 0; /* 2% */
        const int64_t e2e_ns = (slow ? 10000 : 500 + i % 500) * NS_PER_MS;
        struct request_row row = done_row(i, i * NS_PER_S, slow ? e2e_ns - 400 * NS_PER_MS : 100 * NS_PER_MS, e2e_ns);

        row.blame_ns[BLAME_QUEUE] -= slow ? 50 * NS_PER_MS : 0;
        row.blame_ns[BLAME_STORE] = slow ? 50 * NS_PER_MS : 0;
        for (uint32_t part = 0; part < BLAME_COUNT; part++)
            sums_ns[part] += (double)row.blame_ns[part];
        results_request(results, &row);
    }
    close_at(results, 0, 10000 * NS_PER_S, 10010 * NS_PER_S);
    assert_string_equal(bands[0].label, "all");
    assert_int_equal(bands[0].count, 10000);
    for (uint32_t part = 0; part < BLAME_COUNT; part++)
        close_to("all", bands[0].mean_ns[part], sums_ns[part] / 10000, 1);
    assert_string_equal(bands[1].label, "p50");
    /* Ranks 45 to 55 and what shares their histogram steps. */
    assert_in_range(bands[1].count, 1000, 1700);
    close_to("p50 queue", bands[1].mean_ns[BLAME_QUEUE], 100e6, 1);
    close_to("p50 decode", bands[1].mean_ns[BLAME_DECODE], 660e6, 30e6);
    assert_string_equal(bands[3].label, "p99");
    assert_int_equal(bands[3].count, 200);
    close_to("p99 queue", bands[3].mean_ns[BLAME_QUEUE], 9550e6, 1);
    close_to("p99 store", bands[3].mean_ns[BLAME_STORE], 50e6, 1);
    close_to("p99 decode", bands[3].mean_ns[BLAME_DECODE], 400e6, 1);
}

static void jain_is_one_for_equals_and_less_for_a_favourite(void **state)
{
    (void)state;
    for (uint32_t favourite = 0; favourite < 2; favourite++) {
        struct results *results = open_with(scenario_make());

        for (uint32_t i = 0; i < 300; i++) {
            /* Tenant 3 asks for nothing and must not count. Tenant 0 is four times as fast when it is the favourite. */
            struct request_row row = done_row(i, i * NS_PER_S, NS_PER_MS, (favourite && i % 3 == 0 ? 100 : 400) * NS_PER_MS);

            row.tenant = i % 3;
            results_request(results, &row);
        }
        close_at(results, 0, 300 * NS_PER_S, 301 * NS_PER_S);
        assert_int_equal(summary.tenants_served, 3);
        close_to("jain", summary.jain, favourite ? 36.0 / (3 * 18) : 1, 1e-9);
    }
}

static void samples_weigh_by_their_interval_within_the_window(void **state)
{
    (void)state;
    struct scenario *scenario = scenario_make();
    struct results *results;
    int64_t at_ns = 0;

    scenario->duration_s = 200;
    scenario->warmup_s = 100;
    results = open_with(scenario);
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
    close_at(results, 100 * NS_PER_S, 200 * NS_PER_S, 300 * NS_PER_S);
    close_to("kv mean", summary.kv_share_mean, 0.375, 1e-9);
    close_to("kv max", summary.kv_share_max, 0.5, 0);
    close_to("pinned", summary.slots_pinned_share_mean, 0.125, 1e-9);
    close_to("waiting", summary.waiting_mean, 2, 1e-9);
    close_to("waiting max", summary.waiting_max, 4, 0);
    close_to("loads", summary.loads_per_s, 6, 1e-9);
    close_to("busy", summary.gpu_busy_share, 200.0 / (2 * 100), 1e-9);
}

static void nothing_at_all_is_not_known_rather_than_zero(void **state)
{
    (void)state;
    struct results *results = open_with(scenario_make());

    close_at(results, 0, 0, 0);
    assert_int_equal(summary.arrived, 0);
    assert_false(summary.saturated);
    assert_true(isnan(summary.gpu_hit_ratio));
    assert_true(isnan(summary.goodput_per_s));
    assert_true(isnan(summary.jain));
    assert_true(isnan(summary.rho));
    assert_true(isnan(summary.kv_share_mean));
    assert_string_equal(summary.notes, "a note\nand another\n");
}

/* Queues of known fate. */

struct queue_case {
    const char *name;
    double load;         /* mean service time x mean arrival rate (one a second) */
    double amplitude;    /* of a wave in the rate, trough first */
    double waves;        /* of it within the run; negative: none, but a burst at six times the rate from 30% to 35% */
    uint32_t seconds;
    double warmup_share;
    uint32_t room;       /* requests in the system; more are turned away (overload); 0: endless */
    double delay_share;  /* > 0: no queue, everybody stays about this part of the run */
    bool saturated;
};

static double rate_of(const struct queue_case *queue, double at_s)
{
    const double share = at_s / queue->seconds;

    if (queue->waves < 0)
        return share > 0.30 && share < 0.35 ? 6 : 1;
    return 1 - queue->amplitude * cos(6.283185307179586 * queue->waves * share);
}

/* Rows in order of arrival, although a run gives them in order of completion: the summary must not care. */
static uint64_t queue_rows(const struct queue_case *queue, uint64_t seed, struct request_row *rows)
{
    const double rate_max = queue->waves < 0 ? 6 : 1 + queue->amplitude;
    uint64_t random = seed;
    uint64_t count = 0;
    uint64_t oldest = 0; /* of the rows, still in the system perhaps */
    double free_at_s = 0;

    for (double at_s = 0;;) {
        const double service_s = -log(draw_unit(&random)) * queue->load;
        double done_s;

        at_s += -log(draw_unit(&random)) / rate_max;
        if (at_s >= queue->seconds)
            return count;
        if (draw_unit(&random) * rate_max > rate_of(queue, at_s))
            continue;
        if (queue->delay_share > 0) {
            done_s = at_s + queue->delay_share * queue->seconds * (0.9 + 0.2 * draw_unit(&random));
        } else {
            while (oldest < count && rows[oldest].done_ns <= (int64_t)(at_s * 1e9))
                oldest++;
            free_at_s = (free_at_s > at_s ? free_at_s : at_s);
            done_s = free_at_s + service_s;
        }
        rows[count] = done_row(count, (int64_t)(at_s * 1e9), 0, (int64_t)(done_s * 1e9) - (int64_t)(at_s * 1e9));
        if (queue->room > 0 && count - oldest >= queue->room) {
            rows[count].status = REQUEST_OVERLOAD;
            rows[count].done_ns = rows[count].at_ns;
            rows[count].first_token_ns = -1;
        } else if (queue->delay_share <= 0) {
            free_at_s = done_s;
        }
        count++;
    }
}

/* Four deviations of the ratio of two Poisson counts: arrivals and completions in half of the window. */
static double rho_tolerance(const struct queue_case *queue)
{
    return 4 * queue->load * sqrt((1 + queue->load) / (0.5 * (1 - queue->warmup_share) * queue->seconds));
}

static void queues_are_judged_by_their_fate(void **state)
{
    (void)state;
    static const struct queue_case queues[] = {
        {"M/M/1 at 0.8", 0.8, 0, 0, 20000, 0.1, 0, 0, false},
        {"M/M/1 at 0.95", 0.95, 0, 0, 20000, 0.1, 0, 0, false},
        {"M/M/1 at 0.95, short", 0.95, 0, 0, 1000, 0, 0, 0, false},
        {"M/M/1 at 0.98 from empty", 0.98, 0, 0, 20000, 0, 0, 0, false},
        {"M/M/1 at 1.1", 1.1, 0, 0, 20000, 0, 0, 0, true},
        {"M/M/1 at 1.1, warm-up of half", 1.1, 0, 0, 30000, 0.5, 0, 0, true},
        {"M/M/1 at 1.5, short", 1.5, 0, 0, 1500, 0, 0, 0, true},
        {"a day with a peak of 0.95", 0.7, 0.35, 1, 20000, 0, 0, 0, false},
        {"a day overloaded at its peak, which drains", 0.7, 0.6, 1, 20000, 0, 0, 0, false},
        {"half a day, rising to 0.9", 0.5, 0.8, 0.5, 20000, 0, 0, 0, false},
        {"a burst that drains", 0.7, 0, -1, 20000, 0, 0, 0, false},
        {"a run that only fills up", 1, 0, 0, 5000, 0, 0, 0.6, false},
        {"a run shorter than its requests", 1, 0, 0, 5000, 0, 0, 1.5, false},
        {"twice the load, a room reached late", 2, 0, 0, 5000, 0, 2000, 0, true},
        {"twice the load, in equilibrium with refusals", 2, 0, 0, 20000, 0.1, 100, 0, false},
    };
    struct request_row *rows = malloc(40000 * sizeof(*rows));
    const uint64_t first_seed = test_seed(1);

    for (uint32_t i = 0; i < ARRAY_COUNT(queues); i++)
        for (uint64_t seed = first_seed; seed < first_seed + 3; seed++) {
            const struct queue_case *queue = &queues[i];
            const uint64_t count = queue_rows(queue, seed * 1000 + i, rows);
            struct scenario *scenario = scenario_make();
            struct results *results;
            int64_t end_ns = 0;

            scenario->duration_s = queue->seconds;
            scenario->warmup_s = queue->warmup_share * queue->seconds;
            results = open_with(scenario);
            for (uint64_t row = 0; row < count; row++) {
                results_request(results, &rows[row]);
                end_ns = max_i64(end_ns, rows[row].done_ns);
            }
            close_at(results, (int64_t)(queue->warmup_share * queue->seconds * 1e9), queue->seconds * NS_PER_S, end_ns);
            if (summary.saturated != queue->saturated)
                fail_msg("%s, seed %llu: judged %d, is %d (rho %g, slope %g/s)", queue->name, (unsigned long long)seed,
                         summary.saturated, queue->saturated, summary.rho, summary.backlog_slope_per_s);
            if (queue->saturated && queue->room == 0)
                close_to(queue->name, summary.rho, queue->load, rho_tolerance(queue));
        }
    free(rows);
}

static void unfinished_requests_are_a_backlog_too(void **state)
{
    (void)state;
    static const struct queue_case queue = {"cut", 1.5, 0, 0, 4000, 0, 0, 0, true};
    struct request_row *rows = malloc(8000 * sizeof(*rows));
    const uint64_t count = queue_rows(&queue, test_seed(9), rows);
    struct scenario *scenario = scenario_make();
    struct results *results;
    uint64_t unfinished = 0;

    scenario->duration_s = queue.seconds;
    results = open_with(scenario);
    for (uint64_t i = 0; i < count; i++) {
        if (rows[i].done_ns > queue.seconds * NS_PER_S) { /* no drain at all */
            rows[i].status = REQUEST_UNFINISHED;
            rows[i].done_ns = -1;
            rows[i].first_token_ns = -1;
            unfinished++;
        }
        results_request(results, &rows[i]);
    }
    close_at(results, 0, queue.seconds * NS_PER_S, queue.seconds * NS_PER_S);
    assert_int_equal(summary.unfinished, unfinished);
    assert_true(summary.saturated);
    close_to("rho", summary.rho, 1.5, rho_tolerance(&queue));
    close_to("slope", summary.backlog_slope_per_s, 1 - 1 / 1.5, 0.09);
    assert_true(isnan(summary.e2e_over_base[CLASS_WARM]));
    free(rows);
}

static void order_of_completion_does_not_matter(void **state)
{
    (void)state;
    static const struct queue_case queue = {"any", 0.9, 0, 0, 5000, 0, 0, 0, false};
    static struct summary forward;
    struct request_row *rows = malloc(10000 * sizeof(*rows));
    uint64_t random = test_seed(4);
    const uint64_t count = queue_rows(&queue, draw(&random), rows);

    for (uint32_t turn = 0; turn < 2; turn++) {
        struct results *results = open_with(scenario_make());

        for (uint64_t i = 0; i < count; i++)
            results_request(results, &rows[i]);
        close_at(results, 0, 5000 * NS_PER_S, 5100 * NS_PER_S);
        if (turn == 0)
            forward = summary;
        for (uint64_t i = count - 1; i > 0; i--) {
            const uint64_t other = draw_below(&random, i + 1);
            const struct request_row row = rows[i];

            rows[i] = rows[other];
            rows[other] = row;
        }
    }
    assert_memory_equal(forward.latency, summary.latency, sizeof(summary.latency));
    assert_memory_equal(forward.blame, summary.blame, sizeof(summary.blame));
    close_to("rho", summary.rho, forward.rho, 1e-9);
    close_to("slope", summary.backlog_slope_per_s, forward.backlog_slope_per_s, 1e-9);
    free(rows);
}

/* JSON. */

static json_t *json_of(char *line, size_t bytes)
{
    FILE *out = fmemopen(line, bytes, "w");
    json_t *object;

    summary_json(out, &summary);
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
    struct results *results = open_with(scenario_make());
    json_t *object;

    for (uint32_t i = 0; i < 200; i++) {
        struct request_row row = done_row(i, i * NS_PER_S, 100 * NS_PER_MS, 1000 * NS_PER_MS);

        results_request(results, &row);
    }
    close_at(results, 0, 200 * NS_PER_S, 201 * NS_PER_S);
    summary.facts.digest = UINT64_C(0xfedcba9876543210);
    strcpy(summary.notes, "broken \xff text\nsecond");
    object = json_of(line, sizeof(line));
    assert_string_equal(json_string_value(at(object, "name", NULL, NULL)), "numbers");
    assert_string_equal(json_string_value(at(object, "digest", NULL, NULL)), "fedcba9876543210");
    assert_true(json_is_false(at(object, "saturated", NULL, NULL)));
    assert_int_equal(json_integer_value(at(object, "ttft", "all", "count")), 200);
    close_to("p50", json_real_value(at(object, "ttft", "warm", "p50_ms")), 100, 0.8);
    close_to("max", json_real_value(at(object, "e2e", "all", "max_ms")), 1000, 1e-6);
    assert_true(json_is_null(at(object, "ttft", "base", "p50_ms")));
    assert_true(json_is_null(at(object, "e2e_over_base", "warm", NULL)));
    assert_true(json_is_null(at(object, "loads_per_s", NULL, NULL)));
    close_to("hits", json_real_value(at(object, "gpu_hit_ratio", NULL, NULL)), 1, 0);
    close_to("blame", json_real_value(at(object, "blame", "p99", "decode_ms")), 900, 1e-6);
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
    struct results *results = open_with(scenario_make());
    json_t *object;

    for (uint32_t i = 0; i < 200; i++) {
        struct request_row row = done_row(i, i * NS_PER_S, 100 * NS_PER_MS, 1000 * NS_PER_MS);

        results_request(results, &row);
    }
    close_at(results, 0, 200 * NS_PER_S, 201 * NS_PER_S);
    summary.saturated = true;
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
        cmocka_unit_test(ratios_over_the_base_need_a_hundred_on_either_side),
        cmocka_unit_test(blame_bands_are_of_the_requests_around_their_percentile),
        cmocka_unit_test(jain_is_one_for_equals_and_less_for_a_favourite),
        cmocka_unit_test(samples_weigh_by_their_interval_within_the_window),
        cmocka_unit_test(nothing_at_all_is_not_known_rather_than_zero),
        cmocka_unit_test(queues_are_judged_by_their_fate),
        cmocka_unit_test(unfinished_requests_are_a_backlog_too),
        cmocka_unit_test(order_of_completion_does_not_matter),
        cmocka_unit_test(json_is_one_line_with_units_and_null_for_not_known),
        cmocka_unit_test(json_of_an_unstable_run_has_no_percentile),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
