#include "support.h"

#include <math.h>
#include <stdlib.h>

#include "sim/workload/scene.h"

static struct scenario scenario;

static void assert_near(const char *what, double got, double wanted, double tolerance)
{
    if (!(fabs(got - wanted) <= tolerance))
        fail_msg("%s is %.9g, not %.9g within %.3g", what, got, wanted, tolerance);
}

static struct keys_workload *begin(void)
{
    scene_default(&scenario);
    return &scenario.workload;
}

static struct arrival take(struct source *source)
{
    int64_t next_ns = source_next_at_ns(source);
    struct arrival arrival;

    assert_true(next_ns != NEVER_NS);
    assert_int_equal(source_take(source, &arrival), STATUS_OK);
    assert_int_equal(arrival.at_ns, next_ns);
    return arrival;
}

/* The first `count` arrivals of the scenario as it stands. */
static struct arrival *take_many(uint32_t count)
{
    struct arrival *arrivals = calloc(count, sizeof(*arrivals));
    struct source *source = scene_open(&scenario);

    for (uint32_t i = 0; i < count; i++)
        arrivals[i] = take(source);
    source_close(source);
    return arrivals;
}

static void arrivals_obey_the_scenario(void **state)
{
    (void)state;
    struct keys_workload *keys = begin();
    struct source *source;
    double base = 0;
    double count = 0;
    double top = 0;
    int64_t last_ns = 0;

    keys->adapters.base_share = 0.25;
    keys->timeout_s = 20;
    source = scene_open(&scenario);
    assert_int_equal(source_adapters_max(source), 1000);
    assert_int_equal(source_tenants_max(source), 50);
    while (source_next_at_ns(source) != NEVER_NS) {
        struct arrival arrival = take(source);

        assert_true(arrival.at_ns >= last_ns);
        assert_true(arrival.at_ns <= 3600 * NS_PER_S);
        assert_true(arrival.tenant.value < 50);
        assert_in_range(arrival.prompt_tokens, 1, 8000);
        assert_in_range(arrival.output_tokens, 1, 2000);
        assert_int_equal(arrival.output_tokens_max, arrival.output_tokens);
        assert_int_equal(arrival.timeout_ns, 20 * NS_PER_S);
        assert_int_equal(arrival.session, NONE_INDEX);
        assert_int_equal(arrival.attempt, 0);
        if (adapter_is_base(arrival.adapter)) {
            base += 1;
        } else {
            struct adapter_fact fact = source_adapter(source, arrival.adapter);

            assert_int_equal(fact.tenant.value, arrival.tenant.value);
            assert_int_equal(fact.base.value, arrival.base.value);
            assert_int_equal(arrival.adapter.version, 1);
            top += arrival.adapter.index == 1;
        }
        count += 1;
        last_ns = arrival.at_ns;
    }
    assert_near("requests", count, 36000, 4 * sqrt(36000));
    assert_near("share of the base", base / count, 0.25, 4 * sqrt(0.25 * 0.75 / count));
    assert_near("share of the top adapter", top / (count - base), 1 / 7.4855, 4 * sqrt(0.13 / count));
    source_close(source);
}

static void no_adapters_means_the_base_only(void **state)
{
    (void)state;
    begin()->adapters.count = 0;
    struct source *source = scene_open(&scenario);
    adapter_id adapter;

    for (uint32_t i = 0; i < 1000; i++)
        assert_true(adapter_is_base(take(source).adapter));
    assert_false(source_popular(source, 0, &adapter));
    assert_false(source_retired(source, &adapter));
    assert_non_null(strstr(source_notes(source), "There are no adapters: every request asks the base."));
    source_close(source);
}

static void requests_max_ends_the_run(void **state)
{
    (void)state;
    begin()->requests_max = 7;
    struct source *source = scene_open(&scenario);

    for (uint32_t i = 0; i < 7; i++)
        take(source);
    assert_int_equal(source_next_at_ns(source), NEVER_NS);
    source_close(source);
}

static void take_from_nothing(void *source)
{
    struct arrival arrival;

    source_take(source, &arrival);
}

static void taking_where_nothing_comes_stops_the_program(void **state)
{
    (void)state;
    begin()->arrivals.process = KEY_PROCESS_EVEN;
    scenario.duration_s = 0.35;
    struct source *source = scene_open(&scenario);

    for (uint32_t i = 0; i < 3; i++)
        take(source);
    assert_true(check_stops(take_from_nothing, source));
    source_close(source);
}

static void the_announced_output_may_be_the_maximum(void **state)
{
    (void)state;
    begin()->announced_output = KEY_ANNOUNCED_MAX;
    struct source *source = scene_open(&scenario);

    for (uint32_t i = 0; i < 100; i++)
        assert_int_equal(take(source).output_tokens_max, 2000);
    source_close(source);
}

static void one_seed_one_history(void **state)
{
    (void)state;
    begin()->adapters.churn_per_h = 1;
    struct arrival *first = take_many(2000);
    struct arrival *again = take_many(2000);
    struct arrival *other;

    assert_memory_equal(first, again, 2000 * sizeof(*first));
    scenario.seed = 2;
    other = take_many(2000);
    assert_memory_not_equal(first, other, 2000 * sizeof(*first));
    free(first);
    free(again);
    free(other);
}

/* What one law draws, and how often, moves nothing else. */
static void each_law_has_its_own_luck(void **state)
{
    (void)state;
    enum { COUNT = 3000 };
    struct arrival *plain;
    struct arrival *other;

    begin();
    plain = take_many(COUNT);
    for (uint32_t change = 0; change < 5; change++) {
        struct keys_workload *keys = begin();

        switch (change) {
        case 0:
            keys->prompt.law = KEY_LENGTH_GEOMETRIC;
            break;
        case 1:
            keys->output.law = KEY_LENGTH_CONSTANT;
            break;
        case 2:
            keys->adapters.base_share = 0.5;
            break;
        case 3:
            keys->adapters.update_per_h = 50;
            break;
        default:
            keys->arrivals.process = KEY_PROCESS_GAMMA;
            keys->arrivals.cv = 4;
            break;
        }
        other = take_many(COUNT);
        for (uint32_t i = 0; i < COUNT; i++) {
            assert_int_equal(other[i].at_ns == plain[i].at_ns, change != 4);
            assert_true(other[i].adapter.index == plain[i].adapter.index ||
                        (change == 2 && adapter_is_base(other[i].adapter)));
            assert_true(other[i].prompt_tokens == plain[i].prompt_tokens || change == 0);
            assert_true(other[i].output_tokens == plain[i].output_tokens || change == 1);
        }
        free(other);
    }
    free(plain);
}

static void distinct_gives_each_request_the_next_adapter(void **state)
{
    (void)state;
    struct keys_workload *keys = begin();
    struct source *source;

    keys->adapters.law = KEY_ADAPTER_DISTINCT;
    keys->adapters.count = 5;
    source = scene_open(&scenario);
    for (uint32_t i = 0; i < 20; i++)
        assert_int_equal(take(source).adapter.index, i % 5 + 1);
    source_close(source);
}

/* After a version is told as retired, neither a fresh request nor a retry asks for it. */
static void a_retired_version_is_never_asked_again(void **state)
{
    (void)state;
    struct keys_workload *keys = begin();
    struct source *source;
    uint32_t least[21];
    uint64_t retired = 0;
    adapter_id adapter;

    keys->adapters.count = 20;
    keys->adapters.update_per_h = 60;
    keys->retries_max = 3;
    source = scene_open(&scenario);
    for (uint32_t i = 0; i < ARRAY_COUNT(least); i++)
        least[i] = 1;
    for (uint32_t i = 0; source_next_at_ns(source) != NEVER_NS; i++) {
        struct arrival arrival = take(source);

        while (source_retired(source, &adapter)) {
            assert_int_equal(adapter.version, least[adapter.index]++);
            retired++;
        }
        assert_int_equal(arrival.adapter.version, least[arrival.adapter.index]);
        source_finished(source, &arrival, arrival.at_ns + NS_PER_S, i % 3 == 0 ? OUTCOME_TIMEOUT : OUTCOME_DONE);
    }
    assert_near("versions retired", (double)retired, 1200, 4 * sqrt(1200));
    source_close(source);
}

static void a_client_tries_again_with_doubled_delays_and_then_gives_up(void **state)
{
    (void)state;
    struct keys_workload *keys = begin();
    struct arrival first;
    struct arrival last;
    struct source *source;

    keys->requests_max = 1;
    keys->retries_max = 3;
    keys->retry_delay_s = 2;
    source = scene_open(&scenario);
    first = take(source);
    last = first;
    for (uint32_t attempt = 1; attempt <= 3; attempt++) {
        int64_t over_ns = last.at_ns + NS_PER_S;
        struct arrival retry;

        source_finished(source, &last, over_ns, attempt == 1 ? OUTCOME_TIMEOUT : OUTCOME_REFUSED);
        retry = take(source);
        assert_int_equal(retry.at_ns, over_ns + (NS_PER_S << attempt));
        assert_int_equal(retry.attempt, attempt);
        assert_int_equal(retry.prompt_tokens, first.prompt_tokens);
        assert_int_equal(retry.output_tokens, first.output_tokens);
        assert_int_equal(retry.adapter.index, first.adapter.index);
        assert_int_equal(source_next_at_ns(source), NEVER_NS);
        last = retry;
    }
    source_finished(source, &last, last.at_ns + NS_PER_S, OUTCOME_TIMEOUT);
    assert_int_equal(source_next_at_ns(source), NEVER_NS);
    source_close(source);
}

static void an_answer_is_not_asked_for_again(void **state)
{
    (void)state;
    struct keys_workload *keys = begin();
    struct source *source;
    struct arrival arrival;

    keys->requests_max = 1;
    keys->retries_max = 3;
    source = scene_open(&scenario);
    arrival = take(source);
    source_finished(source, &arrival, arrival.at_ns, OUTCOME_DONE);
    assert_int_equal(source_next_at_ns(source), NEVER_NS);
    source_close(source);
}

static void retries_end_with_the_run(void **state)
{
    (void)state;
    struct keys_workload *keys = begin();
    struct source *source;
    struct arrival arrival;

    keys->requests_max = 1;
    keys->retries_max = 100;
    keys->retry_delay_s = 1e6;
    source = scene_open(&scenario);
    arrival = take(source);
    source_finished(source, &arrival, arrival.at_ns, OUTCOME_TIMEOUT);
    arrival.attempt = 99;
    source_finished(source, &arrival, 7200 * NS_PER_S, OUTCOME_TIMEOUT);
    assert_int_equal(source_next_at_ns(source), NEVER_NS);
    source_close(source);
}

/* Whichever is told first: what comes out is the same. */
static void retries_of_one_instant_come_in_one_order(void **state)
{
    (void)state;
    enum { COUNT = 50 };
    struct arrival given[COUNT];
    struct arrival orders[2][COUNT];

    for (uint32_t order = 0; order < 2; order++) {
        struct keys_workload *keys = begin();
        struct source *source;

        keys->requests_max = COUNT;
        keys->retries_max = 1;
        source = scene_open(&scenario);
        for (uint32_t i = 0; i < COUNT; i++)
            given[i] = take(source);
        for (uint32_t i = 0; i < COUNT; i++)
            source_finished(source, &given[order == 0 ? i : COUNT - 1 - i], 100 * NS_PER_S, OUTCOME_TIMEOUT);
        for (uint32_t i = 0; i < COUNT; i++)
            orders[order][i] = take(source);
        source_close(source);
    }
    assert_memory_equal(orders[0], orders[1], sizeof(orders[0]));
}

static void too_many_waiting_retries_are_given_up_and_said(void **state)
{
    (void)state;
    struct keys_workload *keys = begin();
    struct source *source;

    keys->retries_max = 1;
    keys->retry_delay_s = 3000;
    keys->requests_max = 1010;
    scenario.requests_max = 1000;
    source = scene_open(&scenario);
    for (uint32_t i = 0; i < 1010; i++) {
        struct arrival arrival = take(source);

        source_finished(source, &arrival, arrival.at_ns, OUTCOME_TIMEOUT);
    }
    assert_non_null(strstr(source_notes(source), "10 clients did not try again, because 1,000 (requests_max) others"));
    for (uint32_t i = 0; i < 1000; i++)
        assert_int_equal(take(source).attempt, 1);
    assert_int_equal(source_next_at_ns(source), NEVER_NS);
    source_close(source);
}

static void notes_are_sentences(void **state)
{
    (void)state;
    struct keys_workload *keys = begin();
    struct source *source = scene_open(&scenario);

    assert_string_equal(source_notes(source),
                        "Arrivals are generated: a Poisson process of 10.0 a second on average.\n"
                        "1,000 adapters are assigned by a Zipf law with exponent 1.0.\n");
    source_close(source);
    keys->arrivals.process = KEY_PROCESS_GAMMA;
    keys->arrivals.cv = 2.5;
    keys->arrivals.weekend_ratio = 0.5;
    keys->adapters.law = KEY_ADAPTER_POWER;
    keys->adapters.base_share = 0.05;
    keys->adapters.drift_per_h = 0.1;
    keys->adapters.churn_per_h = 0.2;
    keys->adapters.update_per_h = 0.3;
    source = scene_open(&scenario);
    assert_string_equal(
        source_notes(source),
        "Arrivals are generated: a renewal process of 10.0 a second on average, with Gamma gaps whose coefficient of "
        "variation is 2.5.\n"
        "The rate follows the hours of a week that starts on a Monday; its average is over that week.\n"
        "1,000 adapters are assigned by the power law of S-LoRA's generator with exponent 1.0 (1 is uniform, less is more "
        "skewed).\n"
        "Popularity drifts: each hour 0.1 times the number of adapters change places.\n"
        "5.0% of the requests name no adapter.\n"
        "Each hour 0.2 times the number of adapters are replaced by new ones.\n"
        "Each adapter gets 0.3 new versions an hour.\n");
    source_close(source);
}

static void refusals_are_said(void **state)
{
    (void)state;
    struct keys_workload *keys = begin();

    keys->adapters.law = KEY_ADAPTER_EMPIRICAL;
    strcpy(keys->adapters.counts_path, "/nowhere/weights");
    assert_non_null(strstr(scene_refusal(&scenario, STATUS_NOT_FOUND),
                           "/nowhere/weights: cannot be opened (workload.adapters.counts_path): No such file"));
    keys = begin();
    keys->output.min_tokens = 5000;
    assert_non_null(strstr(scene_refusal(&scenario, STATUS_INVALID),
                           "workload.output: min_tokens 5000 is above max_tokens 2000"));
}

static void closing_nothing_is_fine(void **state)
{
    (void)state;
    source_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrivals_obey_the_scenario),
        cmocka_unit_test(no_adapters_means_the_base_only),
        cmocka_unit_test(requests_max_ends_the_run),
        cmocka_unit_test(taking_where_nothing_comes_stops_the_program),
        cmocka_unit_test(the_announced_output_may_be_the_maximum),
        cmocka_unit_test(one_seed_one_history),
        cmocka_unit_test(each_law_has_its_own_luck),
        cmocka_unit_test(distinct_gives_each_request_the_next_adapter),
        cmocka_unit_test(a_retired_version_is_never_asked_again),
        cmocka_unit_test(a_client_tries_again_with_doubled_delays_and_then_gives_up),
        cmocka_unit_test(an_answer_is_not_asked_for_again),
        cmocka_unit_test(retries_end_with_the_run),
        cmocka_unit_test(retries_of_one_instant_come_in_one_order),
        cmocka_unit_test(too_many_waiting_retries_are_given_up_and_said),
        cmocka_unit_test(notes_are_sentences),
        cmocka_unit_test(refusals_are_said),
        cmocka_unit_test(closing_nothing_is_fine),
    };

    return cmocka_run_group_tests_name("source", tests, NULL, NULL);
}
