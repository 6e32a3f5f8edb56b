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
    scenario.workload.source = KEY_SOURCE_SESSIONS;
    return &scenario.workload;
}

struct flying {
    struct arrival arrival;
    int64_t over_ns;
};

/* A fleet that answers after service_ns(user), for all users at once; calls see() with each arrival. */
struct fleet {
    struct source *source;
    struct flying flights[200];
    uint32_t flights_count;
    uint32_t flights_most;
    uint64_t taken;
    int64_t (*service_ns)(const struct arrival *arrival);
    enum request_outcome (*outcome)(const struct arrival *arrival);
    void (*see)(const struct arrival *arrival);
};

static uint32_t first_over(const struct fleet *fleet)
{
    uint32_t first = NONE_INDEX;

    for (uint32_t i = 0; i < fleet->flights_count; i++) {
        if (first == NONE_INDEX || fleet->flights[i].over_ns < fleet->flights[first].over_ns)
            first = i;
    }
    return first;
}

static void run(struct fleet *fleet)
{
    fleet->source = scene_open(&scenario);
    for (;;) {
        int64_t next_ns = source_next_at_ns(fleet->source);
        uint32_t over = first_over(fleet);
        struct flying flying;

        if (over != NONE_INDEX && fleet->flights[over].over_ns <= next_ns) {
            flying = fleet->flights[over];
            fleet->flights[over] = fleet->flights[--fleet->flights_count];
            source_finished(fleet->source, &flying.arrival, flying.over_ns,
                            fleet->outcome != NULL ? fleet->outcome(&flying.arrival) : OUTCOME_DONE);
            continue;
        }
        if (next_ns == NEVER_NS)
            break;
        assert_int_equal(source_take(fleet->source, &flying.arrival), STATUS_OK);
        flying.over_ns = flying.arrival.at_ns + fleet->service_ns(&flying.arrival);
        fleet->taken++;
        if (fleet->see != NULL)
            fleet->see(&flying.arrival);
        for (uint32_t i = 0; i < fleet->flights_count; i++)
            assert_int_not_equal(fleet->flights[i].arrival.session, flying.arrival.session);
        assert_true(fleet->flights_count < ARRAY_COUNT(fleet->flights));
        fleet->flights[fleet->flights_count++] = flying;
        fleet->flights_most = max_u32(fleet->flights_most, fleet->flights_count);
    }
    source_close(fleet->source);
}

static int64_t five_seconds(const struct arrival *arrival)
{
    (void)arrival;
    return 5 * NS_PER_S;
}

static int64_t a_long_time(const struct arrival *arrival)
{
    (void)arrival;
    return 500 * NS_PER_S;
}

/* Throughput of a closed loop: users / (think + answer). */
static void users_wait_think_and_ask_again(void **state)
{
    (void)state;
    struct fleet fleet = {.service_ns = five_seconds};

    begin();
    run(&fleet);
    assert_true(fleet.flights_most <= 100);
    assert_near("requests", (double)fleet.taken, 100 * 3600 / 15.0, 400);
}

static void a_slow_fleet_is_asked_less_and_never_by_more_than_all_users(void **state)
{
    (void)state;
    struct fleet fleet = {.service_ns = a_long_time};

    begin();
    run(&fleet);
    assert_int_equal(fleet.flights_most, 100);
    assert_near("requests", (double)fleet.taken, 100 * 3600 / 510.0, 100);
}

static void nobody_asks_before_the_answer(void **state)
{
    (void)state;
    struct source *source;
    struct arrival arrival;
    uint32_t count = 0;

    begin();
    source = scene_open(&scenario);
    for (; source_next_at_ns(source) != NEVER_NS; count++)
        assert_int_equal(source_take(source, &arrival), STATUS_OK);
    assert_int_equal(count, 100);
    source_close(source);
}

struct answer_twice {
    struct source *source;
    struct arrival arrival;
};

static void answer(void *context)
{
    struct answer_twice *twice = context;

    source_finished(twice->source, &twice->arrival, twice->arrival.at_ns, OUTCOME_DONE);
}

static void a_second_answer_is_a_mistake_of_the_host(void **state)
{
    (void)state;
    struct answer_twice twice;

    begin();
    twice.source = scene_open(&scenario);
    assert_int_equal(source_take(twice.source, &twice.arrival), STATUS_OK);
    answer(&twice);
    assert_true(check_stops(answer, &twice));
    source_close(twice.source);
}

struct conversation {
    uint32_t adapter;
    uint32_t context_tokens;
    uint64_t turns;
};
static struct conversation conversations[100];
static double sessions_count;
static double turns_count;

/* A prompt that is not longer than the context cannot contain it: there a new session began. */
static void follow(const struct arrival *arrival)
{
    struct conversation *at = &conversations[arrival->session];

    if (at->adapter == arrival->adapter.index && arrival->prompt_tokens > at->context_tokens) {
        at->turns++;
    } else {
        sessions_count += 1;
        at->turns = 1;
    }
    turns_count += 1;
    at->adapter = arrival->adapter.index;
    at->context_tokens = arrival->prompt_tokens + arrival->output_tokens;
}

static void sessions_stay_with_an_adapter_and_grow(void **state)
{
    (void)state;
    struct fleet fleet = {.service_ns = five_seconds, .see = follow};
    struct keys_workload *keys = begin();

    keys->prompt.law = KEY_LENGTH_CONSTANT;
    keys->prompt.mean_tokens = 100;
    keys->prompt.max_tokens = 10000000;
    keys->output.law = KEY_LENGTH_CONSTANT;
    keys->output.mean_tokens = 50;
    memset(conversations, 0, sizeof(conversations));
    sessions_count = 0;
    turns_count = 0;
    run(&fleet);
    assert_near("turns a session", turns_count / sessions_count, 5, 0.25);
}

static uint32_t longest;

static void measure(const struct arrival *arrival)
{
    longest = max_u32(longest, arrival->prompt_tokens);
}

static void a_growing_prompt_is_cut_to_the_maximum(void **state)
{
    (void)state;
    struct fleet fleet = {.service_ns = five_seconds, .see = measure};
    struct keys_workload *keys = begin();

    keys->prompt.max_tokens = 600;
    keys->sessions.turns = 1000;
    longest = 0;
    run(&fleet);
    assert_int_equal(longest, 600);
}

static enum request_outcome never_answered(const struct arrival *arrival)
{
    (void)arrival;
    return OUTCOME_TIMEOUT;
}

static uint64_t attempts[3];

static void count_attempts(const struct arrival *arrival)
{
    assert_int_equal(arrival->prompt_tokens, 100);
    attempts[arrival->attempt]++;
}

/* What was never answered does not grow the conversation, and each turn is tried as often as allowed. */
static void a_user_retries_before_going_on(void **state)
{
    (void)state;
    struct fleet fleet = {.service_ns = five_seconds, .see = count_attempts, .outcome = never_answered};
    struct keys_workload *keys = begin();

    keys->prompt.law = KEY_LENGTH_CONSTANT;
    keys->prompt.mean_tokens = 100;
    keys->retries_max = 2;
    memset(attempts, 0, sizeof(attempts));
    run(&fleet);
    assert_true(fleet.flights_most <= 100);
    assert_true(attempts[2] > 1000);
    assert_true(attempts[0] >= attempts[1] && attempts[1] >= attempts[2]);
    assert_true(attempts[0] - attempts[2] <= 100);
}

static struct arrival history[2][100][40];
static uint32_t history_count[2][100];
static uint32_t history_turn;

static void write_down(const struct arrival *arrival)
{
    uint32_t *count = &history_count[history_turn][arrival->session];

    if (*count < 40)
        history[history_turn][arrival->session][(*count)++] = *arrival;
}

static int64_t by_user(const struct arrival *arrival)
{
    return (1 + arrival->session % 7) * NS_PER_S * 3;
}

/* Two fleets answer in another order; each user still asks the same things. */
static void users_share_their_luck_between_fleets(void **state)
{
    (void)state;
    struct fleet fast = {.service_ns = five_seconds, .see = write_down};
    struct fleet uneven = {.service_ns = by_user, .see = write_down};

    memset(history_count, 0, sizeof(history_count));
    begin()->adapters.base_share = 0.3;
    history_turn = 0;
    run(&fast);
    history_turn = 1;
    run(&uneven);
    for (uint32_t user = 0; user < 100; user++) {
        uint32_t count = min_u32(history_count[0][user], history_count[1][user]);

        assert_true(count > 20);
        for (uint32_t i = 0; i < count; i++) {
            const struct arrival *a = &history[0][user][i];
            const struct arrival *b = &history[1][user][i];

            assert_int_equal(a->adapter.index, b->adapter.index);
            assert_int_equal(a->tenant.value, b->tenant.value);
            assert_int_equal(a->prompt_tokens, b->prompt_tokens);
            assert_int_equal(a->output_tokens, b->output_tokens);
        }
    }
}

static void without_thinking_all_ask_at_once(void **state)
{
    (void)state;
    struct source *source;
    struct arrival arrival;

    begin()->sessions.think_s = 0;
    source = scene_open(&scenario);
    for (uint32_t user = 0; user < 100; user++) {
        assert_int_equal(source_take(source, &arrival), STATUS_OK);
        assert_int_equal(arrival.at_ns, 0);
        assert_int_equal(arrival.session, user);
    }
    source_finished(source, &arrival, NS_PER_S, OUTCOME_DONE);
    assert_int_equal(source_next_at_ns(source), NS_PER_S);
    source_close(source);
}

static void notes_say_that_the_loop_is_closed(void **state)
{
    (void)state;
    struct source *source;

    begin();
    source = scene_open(&scenario);
    assert_string_equal(source_notes(source),
                        "Closed loop: 100 users wait for each answer and think 10.0 s on average before they ask again, so "
                        "a slower fleet is asked less.\n"
                        "A session is with one adapter and has 5.0 turns on average; each prompt contains the turns "
                        "before it.\n"
                        "1,000 adapters are assigned by a Zipf law with exponent 1.0.\n");
    source_close(source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(users_wait_think_and_ask_again),
        cmocka_unit_test(a_slow_fleet_is_asked_less_and_never_by_more_than_all_users),
        cmocka_unit_test(nobody_asks_before_the_answer),
        cmocka_unit_test(a_second_answer_is_a_mistake_of_the_host),
        cmocka_unit_test(sessions_stay_with_an_adapter_and_grow),
        cmocka_unit_test(a_growing_prompt_is_cut_to_the_maximum),
        cmocka_unit_test(a_user_retries_before_going_on),
        cmocka_unit_test(users_share_their_luck_between_fleets),
        cmocka_unit_test(without_thinking_all_ask_at_once),
        cmocka_unit_test(notes_say_that_the_loop_is_closed),
    };

    return cmocka_run_group_tests_name("sessions", tests, NULL, NULL);
}
