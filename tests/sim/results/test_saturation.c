/* The verdict on saturation, against queues whose fate is known. */
#include "sim/results/summary_rig.h"

#include <math.h>
#include <stdlib.h>

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
        rows[count] = summary_row(count, (int64_t)(at_s * 1e9), 0, (int64_t)(done_s * 1e9) - (int64_t)(at_s * 1e9));
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
            struct scenario *scenario = summary_scenario();
            struct results *results;
            int64_t end_ns = 0;

            scenario->duration_s = queue->seconds;
            scenario->warmup_s = queue->warmup_share * queue->seconds;
            results = summary_run_open(scenario);
            for (uint64_t row = 0; row < count; row++) {
                results_request(results, &rows[row]);
                end_ns = max_i64(end_ns, rows[row].done_ns);
            }
            summary_run_close(results, (int64_t)(queue->warmup_share * queue->seconds * 1e9), queue->seconds * NS_PER_S, end_ns);
            if (summary_got.saturated != queue->saturated)
                fail_msg("%s, seed %llu: judged %d, is %d (rho %g, slope %g/s)", queue->name, (unsigned long long)seed,
                         summary_got.saturated, queue->saturated, summary_got.rho, summary_got.backlog_slope_per_s);
            if (queue->saturated && queue->room == 0)
                assert_near(queue->name, summary_got.rho, queue->load, rho_tolerance(queue));
        }
    free(rows);
}

static void unfinished_requests_are_a_backlog_too(void **state)
{
    (void)state;
    static const struct queue_case queue = {"cut", 1.5, 0, 0, 4000, 0, 0, 0, true};
    struct request_row *rows = malloc(8000 * sizeof(*rows));
    const uint64_t count = queue_rows(&queue, test_seed(9), rows);
    struct scenario *scenario = summary_scenario();
    struct results *results;
    uint64_t unfinished = 0;

    scenario->duration_s = queue.seconds;
    results = summary_run_open(scenario);
    for (uint64_t i = 0; i < count; i++) {
        if (rows[i].done_ns > queue.seconds * NS_PER_S) { /* no drain at all */
            rows[i].status = REQUEST_UNFINISHED;
            rows[i].done_ns = -1;
            rows[i].first_token_ns = -1;
            unfinished++;
        }
        results_request(results, &rows[i]);
    }
    summary_run_close(results, 0, queue.seconds * NS_PER_S, queue.seconds * NS_PER_S);
    assert_int_equal(summary_got.unfinished, unfinished);
    assert_true(summary_got.saturated);
    assert_near("rho", summary_got.rho, 1.5, rho_tolerance(&queue));
    assert_near("slope", summary_got.backlog_slope_per_s, 1 - 1 / 1.5, 0.09);
    assert_true(isnan(summary_got.e2e_over_base[CLASS_WARM]));
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
        struct results *results = summary_run_open(summary_scenario());

        for (uint64_t i = 0; i < count; i++)
            results_request(results, &rows[i]);
        summary_run_close(results, 0, 5000 * NS_PER_S, 5100 * NS_PER_S);
        if (turn == 0)
            forward = summary_got;
        for (uint64_t i = count - 1; i > 0; i--) {
            const uint64_t other = draw_below(&random, i + 1);
            const struct request_row row = rows[i];

            rows[i] = rows[other];
            rows[other] = row;
        }
    }
    assert_memory_equal(forward.latency, summary_got.latency, sizeof(summary_got.latency));
    assert_memory_equal(forward.blame, summary_got.blame, sizeof(summary_got.blame));
    assert_near("rho", summary_got.rho, forward.rho, 1e-9);
    assert_near("slope", summary_got.backlog_slope_per_s, forward.backlog_slope_per_s, 1e-9);
    free(rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queues_are_judged_by_their_fate),
        cmocka_unit_test(unfinished_requests_are_a_backlog_too),
        cmocka_unit_test(order_of_completion_does_not_matter),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
