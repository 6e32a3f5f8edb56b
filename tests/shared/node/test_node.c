/* The node core by hand, one promise a test. */
#include "node/node.h"
#include "support.h"

#include <stdlib.h>

static const adapter_id A = {1, 1};
static const adapter_id B = {2, 1};
static const adapter_id C = {3, 1};

/* A node and what its last step said. */
struct rig {
    struct node *node;
    struct node_commands out;
    int64_t at_ns;
};

static struct rig rig_new(uint64_t capacity, uint32_t wants_max, uint32_t fetches_max)
{
    struct node_config config = {
        .host = {.unit = CACHE_BYTES, .capacity = capacity, .entries_max = 100, .evict = &evict_lru},
        .wants_max = wants_max,
        .fetches_max = fetches_max,
    };
    size_t bytes = node_bytes(&config);

    return (struct rig){.node = node_create(malloc(bytes), bytes, &config)};
}

static void step(struct rig *rig, struct node_event event)
{
    event.at_ns = rig->at_ns;
    node_step(rig->node, &event, &rig->out);
    node_check(rig->node);
}

static void want(struct rig *rig, adapter_id adapter, uint64_t bytes, uint64_t number)
{
    step(rig, (struct node_event){.kind = NODE_EVENT_WANT, .want = {adapter, bytes, number}});
}

static void unwant(struct rig *rig, adapter_id adapter, uint64_t bytes, uint64_t number)
{
    step(rig, (struct node_event){.kind = NODE_EVENT_UNWANT, .unwant = {adapter, bytes, number}});
}

static void fetched(struct rig *rig, adapter_id adapter, uint64_t bytes, uint64_t fetch_id)
{
    step(rig, (struct node_event){.kind = NODE_EVENT_FETCHED, .answers = fetch_id, .fetched = {adapter, bytes}});
}

static void failed(struct rig *rig, adapter_id adapter, uint64_t bytes, uint64_t fetch_id)
{
    step(rig, (struct node_event){.kind = NODE_EVENT_FAILED, .answers = fetch_id, .failed = {adapter, bytes}});
}

static void retired(struct rig *rig, adapter_id adapter, uint64_t bytes)
{
    step(rig, (struct node_event){.kind = NODE_EVENT_RETIRED, .retired = {adapter, bytes}});
}

/* The `index`th command said is this one; returns its id. */
static uint64_t expect_fetch(const struct rig *rig, uint32_t index, adapter_id adapter, uint64_t bytes)
{
    const struct node_command *command = &rig->out.items[index];

    assert_true(index < rig->out.count);
    assert_int_equal(command->kind, NODE_COMMAND_FETCH);
    assert_true(adapter_id_equal(command->fetch.adapter, adapter));
    assert_int_equal(command->fetch.bytes, bytes);
    assert_int_not_equal(command->id, 0);
    return command->id;
}

static void expect_ready(const struct rig *rig, uint32_t index, adapter_id adapter, uint64_t number, enum tier found)
{
    const struct node_command *command = &rig->out.items[index];

    assert_true(index < rig->out.count);
    assert_int_equal(command->kind, NODE_COMMAND_READY);
    assert_true(adapter_id_equal(command->ready.adapter, adapter));
    assert_int_equal(command->ready.want, number);
    assert_int_equal(command->reason, found);
}

static void expect_lost(const struct rig *rig, uint32_t index, adapter_id adapter, uint64_t number, enum node_lost why)
{
    const struct node_command *command = &rig->out.items[index];

    assert_true(index < rig->out.count);
    assert_int_equal(command->kind, NODE_COMMAND_LOST);
    assert_true(adapter_id_equal(command->lost.adapter, adapter));
    assert_int_equal(command->lost.want, number);
    assert_int_equal(command->reason, why);
}

static void expect_drop(const struct rig *rig, uint32_t index, adapter_id adapter, uint64_t bytes, enum node_drop why)
{
    const struct node_command *command = &rig->out.items[index];

    assert_true(index < rig->out.count);
    assert_int_equal(command->kind, NODE_COMMAND_DROP);
    assert_true(adapter_id_equal(command->drop.adapter, adapter));
    assert_int_equal(command->drop.bytes, bytes);
    assert_int_equal(command->reason, why);
}

static void many_wants_of_one_adapter_cause_one_fetch_and_all_get_ready(void **state)
{
    (void)state;
    struct rig rig = rig_new(100, 10, 4);
    uint64_t fetch;

    want(&rig, A, 30, 1);
    assert_int_equal(rig.out.count, 1);
    fetch = expect_fetch(&rig, 0, A, 30);
    want(&rig, A, 30, 2);
    want(&rig, A, 30, 3);
    assert_int_equal(rig.out.count, 0);
    assert_int_equal(node_state(rig.node).waiting, 3);
    fetched(&rig, A, 30, fetch);
    assert_int_equal(rig.out.count, 3);
    for (uint32_t i = 0; i < 3; i++)
        expect_ready(&rig, i, A, i + 1, TIER_STORE);
    want(&rig, A, 30, 4);
    assert_int_equal(rig.out.count, 1);
    expect_ready(&rig, 0, A, 4, TIER_HOST);
    assert_int_equal(node_state(rig.node).cache.misses, 1);
    assert_int_equal(node_state(rig.node).cache.coalesced, 2);
    assert_int_equal(node_state(rig.node).cache.hits, 1);
    free(rig.node);
}

static void an_adapter_stays_after_its_unwant_until_another_needs_the_room(void **state)
{
    (void)state;
    struct rig rig = rig_new(100, 10, 4);

    want(&rig, A, 60, 1);
    fetched(&rig, A, 60, expect_fetch(&rig, 0, A, 60));
    unwant(&rig, A, 60, 1);
    assert_int_equal(rig.out.count, 0);
    assert_int_equal(node_state(rig.node).used_bytes, 60);
    want(&rig, B, 50, 2);
    assert_int_equal(rig.out.count, 2);
    expect_drop(&rig, 0, A, 60, NODE_DROP_EVICTED);
    expect_fetch(&rig, 1, B, 50);
    free(rig.node);
}

static void a_want_waits_when_every_byte_is_pinned(void **state)
{
    (void)state;
    struct rig rig = rig_new(100, 10, 4);

    want(&rig, A, 60, 1);
    fetched(&rig, A, 60, expect_fetch(&rig, 0, A, 60));
    want(&rig, B, 50, 2);
    want(&rig, C, 10, 3); /* would fit, but the large one does not starve */
    assert_int_equal(rig.out.count, 0);
    assert_int_equal(node_state(rig.node).waiting, 2);
    assert_int_equal(node_state(rig.node).cache.blocked, 1);
    assert_int_equal(node_wakeup_at_ns(rig.node), NEVER_NS);
    unwant(&rig, A, 60, 1);
    assert_int_equal(rig.out.count, 3);
    expect_drop(&rig, 0, A, 60, NODE_DROP_EVICTED);
    expect_fetch(&rig, 1, B, 50);
    expect_fetch(&rig, 2, C, 10);
    free(rig.node);
}

static void a_want_that_gives_up_while_waiting_lets_the_next_go_on(void **state)
{
    (void)state;
    struct rig rig = rig_new(100, 10, 4);

    want(&rig, A, 60, 1);
    fetched(&rig, A, 60, expect_fetch(&rig, 0, A, 60));
    want(&rig, B, 50, 2);
    want(&rig, C, 10, 3);
    unwant(&rig, B, 50, 2);
    assert_int_equal(rig.out.count, 1);
    expect_fetch(&rig, 0, C, 10);
    free(rig.node);
}

static void what_exceeds_the_tier_passes_through(void **state)
{
    (void)state;
    struct rig rig = rig_new(100, 10, 4);

    want(&rig, B, 100, 1);
    fetched(&rig, B, 100, expect_fetch(&rig, 0, B, 100));
    want(&rig, A, 101, 2); /* all is pinned, and it needs none of it */
    assert_int_equal(rig.out.count, 1);
    fetched(&rig, A, 101, expect_fetch(&rig, 0, A, 101));
    expect_ready(&rig, 0, A, 2, TIER_STORE);
    want(&rig, A, 101, 3);
    expect_ready(&rig, 0, A, 3, TIER_HOST);
    assert_int_equal(node_state(rig.node).used_bytes, 100);
    assert_int_equal(node_state(rig.node).cache.loaded_bytes, 201);
    assert_int_equal(node_state(rig.node).cache.misses, 2);
    assert_int_equal(node_state(rig.node).cache.hits, 1);
    unwant(&rig, A, 101, 2);
    assert_int_equal(rig.out.count, 0);
    unwant(&rig, A, 101, 3);
    assert_int_equal(rig.out.count, 1);
    expect_drop(&rig, 0, A, 101, NODE_DROP_PASSED);
    want(&rig, A, 101, 4); /* nothing was kept */
    expect_fetch(&rig, 0, A, 101);
    free(rig.node);
}

static void what_passes_through_is_dropped_at_once_when_nobody_waits_for_it(void **state)
{
    (void)state;
    struct rig rig = rig_new(100, 10, 4);
    uint64_t fetch;

    want(&rig, A, 101, 1);
    fetch = expect_fetch(&rig, 0, A, 101);
    unwant(&rig, A, 101, 1);
    assert_int_equal(rig.out.count, 0);
    fetched(&rig, A, 101, fetch);
    assert_int_equal(rig.out.count, 1);
    expect_drop(&rig, 0, A, 101, NODE_DROP_PASSED);
    free(rig.node);
}

static void a_node_without_a_tier_passes_everything_through(void **state)
{
    (void)state;
    struct node_config config = {
        .host = {.unit = CACHE_BYTES, .evict = &evict_lru}, .wants_max = 4, .fetches_max = 1};
    size_t bytes = node_bytes(&config);
    struct rig rig = {.node = node_create(malloc(bytes), bytes, &config)};

    want(&rig, A, 1, 1);
    fetched(&rig, A, 1, expect_fetch(&rig, 0, A, 1));
    expect_ready(&rig, 0, A, 1, TIER_STORE);
    unwant(&rig, A, 1, 1);
    expect_drop(&rig, 0, A, 1, NODE_DROP_PASSED);
    assert_int_equal(node_state(rig.node).adapters, 0);
    free(rig.node);
}

static void fetches_beyond_the_limit_wait_in_order(void **state)
{
    (void)state;
    struct rig rig = rig_new(1000, 20, 2);
    uint64_t first, second;

    want(&rig, (adapter_id){1, 1}, 10, 1);
    first = expect_fetch(&rig, 0, (adapter_id){1, 1}, 10);
    want(&rig, (adapter_id){2, 1}, 10, 2);
    second = expect_fetch(&rig, 0, (adapter_id){2, 1}, 10);
    for (uint32_t i = 3; i <= 5; i++) {
        want(&rig, (adapter_id){i, 1}, 10, i);
        assert_int_equal(rig.out.count, 0);
    }
    want(&rig, (adapter_id){3, 1}, 10, 6); /* joins what waits already */
    fetched(&rig, (adapter_id){2, 1}, 10, second);
    assert_int_equal(rig.out.count, 2);
    expect_ready(&rig, 0, (adapter_id){2, 1}, 2, TIER_STORE);
    second = expect_fetch(&rig, 1, (adapter_id){3, 1}, 10);
    failed(&rig, (adapter_id){1, 1}, 10, first); /* a failure frees its turn too */
    assert_int_equal(rig.out.count, 2);
    first = expect_fetch(&rig, 1, (adapter_id){4, 1}, 10);
    assert_int_equal(node_state(rig.node).fetching, 2);
    fetched(&rig, (adapter_id){3, 1}, 10, second);
    expect_ready(&rig, 0, (adapter_id){3, 1}, 3, TIER_STORE);
    expect_ready(&rig, 1, (adapter_id){3, 1}, 6, TIER_STORE);
    expect_fetch(&rig, 2, (adapter_id){5, 1}, 10);
    free(rig.node);
}

static void a_failed_fetch_is_lost_to_all_who_wait_and_can_be_tried_again(void **state)
{
    (void)state;
    struct rig rig = rig_new(100, 10, 4);
    uint64_t fetch;

    want(&rig, A, 100, 1);
    fetch = expect_fetch(&rig, 0, A, 100);
    want(&rig, A, 100, 2);
    want(&rig, B, 40, 3); /* waits for the room */
    failed(&rig, A, 100, fetch);
    assert_int_equal(rig.out.count, 3);
    expect_lost(&rig, 0, A, 1, NODE_LOST_FETCH_FAILED);
    expect_lost(&rig, 1, A, 2, NODE_LOST_FETCH_FAILED);
    expect_fetch(&rig, 2, B, 40);
    want(&rig, A, 60, 4);
    expect_fetch(&rig, 0, A, 60);
    assert_int_equal(node_state(rig.node).waiting, 2);
    free(rig.node);
}

static void a_fetch_goes_on_when_its_last_want_has_gone(void **state)
{
    (void)state;
    struct rig rig = rig_new(100, 10, 4);
    uint64_t fetch;

    want(&rig, A, 30, 1);
    fetch = expect_fetch(&rig, 0, A, 30);
    unwant(&rig, A, 30, 1);
    want(&rig, A, 30, 2); /* joins the same fetch */
    assert_int_equal(rig.out.count, 0);
    unwant(&rig, A, 30, 2);
    fetched(&rig, A, 30, fetch);
    assert_int_equal(rig.out.count, 0);
    want(&rig, A, 30, 3);
    expect_ready(&rig, 0, A, 3, TIER_HOST);
    free(rig.node);
}

static void a_retired_adapter_goes_when_its_copies_are_done(void **state)
{
    (void)state;
    struct rig rig = rig_new(100, 10, 4);

    want(&rig, A, 30, 1);
    fetched(&rig, A, 30, expect_fetch(&rig, 0, A, 30));
    retired(&rig, A, 30);
    assert_int_equal(rig.out.count, 0);
    want(&rig, A, 30, 2); /* the old weights are never served again */
    assert_int_equal(rig.out.count, 1);
    expect_lost(&rig, 0, A, 2, NODE_LOST_RETIRED);
    want(&rig, (adapter_id){A.index, 2}, 30, 3); /* its next version is another adapter */
    expect_fetch(&rig, 0, (adapter_id){A.index, 2}, 30);
    retired(&rig, A, 30); /* twice is once */
    assert_int_equal(rig.out.count, 0);
    unwant(&rig, A, 30, 1);
    assert_int_equal(rig.out.count, 1);
    expect_drop(&rig, 0, A, 30, NODE_DROP_RETIRED);
    assert_int_equal(node_state(rig.node).used_bytes, 30);
    free(rig.node);
}

static void an_idle_adapter_goes_at_once_when_retired(void **state)
{
    (void)state;
    struct rig rig = rig_new(100, 10, 4);

    want(&rig, A, 30, 1);
    fetched(&rig, A, 30, expect_fetch(&rig, 0, A, 30));
    unwant(&rig, A, 30, 1);
    retired(&rig, A, 30);
    assert_int_equal(rig.out.count, 1);
    expect_drop(&rig, 0, A, 30, NODE_DROP_RETIRED);
    retired(&rig, A, 30); /* unknown by now */
    assert_int_equal(rig.out.count, 0);
    free(rig.node);
}

static void an_adapter_retired_while_it_is_fetched_is_lost_and_dropped_on_arrival(void **state)
{
    (void)state;
    struct rig rig = rig_new(100, 10, 4);
    uint64_t a, b;

    want(&rig, A, 30, 1);
    a = expect_fetch(&rig, 0, A, 30);
    want(&rig, B, 101, 2); /* passes through */
    b = expect_fetch(&rig, 0, B, 101);
    retired(&rig, A, 30);
    assert_int_equal(rig.out.count, 1);
    expect_lost(&rig, 0, A, 1, NODE_LOST_RETIRED);
    retired(&rig, B, 101);
    expect_lost(&rig, 0, B, 2, NODE_LOST_RETIRED);
    fetched(&rig, A, 30, a);
    assert_int_equal(rig.out.count, 1);
    expect_drop(&rig, 0, A, 30, NODE_DROP_RETIRED);
    fetched(&rig, B, 101, b);
    assert_int_equal(rig.out.count, 1);
    expect_drop(&rig, 0, B, 101, NODE_DROP_RETIRED);
    free(rig.node);
}

static void an_adapter_retired_in_the_queue_never_is_fetched(void **state)
{
    (void)state;
    struct rig rig = rig_new(100, 10, 1);
    uint64_t fetch;

    want(&rig, A, 30, 1);
    fetch = expect_fetch(&rig, 0, A, 30);
    want(&rig, B, 30, 2);
    retired(&rig, B, 30);
    expect_lost(&rig, 0, B, 2, NODE_LOST_RETIRED);
    fetched(&rig, A, 30, fetch);
    assert_int_equal(rig.out.count, 1);
    expect_ready(&rig, 0, A, 1, TIER_STORE);
    free(rig.node);
}

static void more_readys_than_a_step_may_say_are_said_in_the_next(void **state)
{
    (void)state;
    enum { WANTS = 150 };
    struct rig rig = rig_new(100, 200, 4);
    uint64_t fetch = 0;
    uint32_t said = 0;

    for (uint32_t i = 0; i < WANTS; i++) {
        want(&rig, A, 30, i);
        if (i == 0)
            fetch = expect_fetch(&rig, 0, A, 30);
    }
    rig.at_ns = 1000;
    fetched(&rig, A, 30, fetch);
    for (uint32_t turn = 0; turn < 3; turn++) {
        assert_int_equal(rig.out.count, turn < 2 ? COMMANDS_MAX : WANTS - 2 * COMMANDS_MAX);
        assert_int_equal(node_wakeup_at_ns(rig.node), turn < 2 ? 1000 : NEVER_NS);
        for (uint32_t i = 0; i < rig.out.count; i++)
            expect_ready(&rig, i, A, said++, TIER_STORE);
        assert_int_equal(node_state(rig.node).waiting, WANTS - said);
        if (turn < 2)
            step(&rig, (struct node_event){.kind = NODE_EVENT_TICK});
    }
    free(rig.node);
}

/* READYs not said yet are lost, or given up, like any want without READY. */
static void retirement_and_unwant_reach_readys_that_are_not_said_yet(void **state)
{
    (void)state;
    struct rig rig = rig_new(100, 200, 4);
    uint64_t fetch = 0;

    for (uint32_t i = 0; i < 70; i++) {
        want(&rig, A, 30, i);
        if (i == 0)
            fetch = expect_fetch(&rig, 0, A, 30);
    }
    fetched(&rig, A, 30, fetch);
    assert_int_equal(rig.out.count, COMMANDS_MAX);
    step(&rig, (struct node_event){.kind = NODE_EVENT_RETIRED, .retired = {A, 30}});
    assert_int_equal(rig.out.count, 6);
    for (uint32_t i = 0; i < 6; i++)
        expect_lost(&rig, i, A, COMMANDS_MAX + i, NODE_LOST_RETIRED);
    for (uint32_t i = 0; i < COMMANDS_MAX; i++) {
        assert_int_equal(node_state(rig.node).adapters, 1);
        unwant(&rig, A, 30, i);
    }
    expect_drop(&rig, 0, A, 30, NODE_DROP_RETIRED);
    free(rig.node);

    rig = rig_new(100, 200, 4);
    for (uint32_t i = 0; i < 66; i++) {
        want(&rig, A, 30, i);
        if (i == 0)
            fetch = expect_fetch(&rig, 0, A, 30);
    }
    failed(&rig, A, 30, fetch);
    assert_int_equal(rig.out.count, COMMANDS_MAX);
    unwant(&rig, A, 30, 64); /* its LOST is not said, and need not be */
    assert_int_equal(rig.out.count, 1);
    expect_lost(&rig, 0, A, 65, NODE_LOST_FETCH_FAILED);
    assert_int_equal(node_state(rig.node).waiting, 0);
    free(rig.node);
}

/* 80 small ones leave for a large one: more than a step may say, so the room is made over two. */
static void more_drops_than_a_step_may_say_delay_the_fetch(void **state)
{
    (void)state;
    struct rig rig = rig_new(80, 200, 4);

    for (uint32_t i = 1; i <= 80; i++) {
        want(&rig, (adapter_id){i, 1}, 1, i);
        fetched(&rig, (adapter_id){i, 1}, 1, expect_fetch(&rig, 0, (adapter_id){i, 1}, 1));
        unwant(&rig, (adapter_id){i, 1}, 1, i);
    }
    want(&rig, (adapter_id){99, 1}, 80, 99);
    assert_int_equal(rig.out.count, COMMANDS_MAX);
    assert_int_equal(node_wakeup_at_ns(rig.node), rig.at_ns);
    step(&rig, (struct node_event){.kind = NODE_EVENT_TICK});
    assert_int_equal(rig.out.count, 80 - COMMANDS_MAX + 1);
    expect_drop(&rig, 0, (adapter_id){65, 1}, 1, NODE_DROP_EVICTED);
    expect_fetch(&rig, 16, (adapter_id){99, 1}, 80);
    assert_int_equal(node_wakeup_at_ns(rig.node), NEVER_NS);
    free(rig.node);
}

static void digest_follows_the_history_and_not_the_ticks(void **state)
{
    (void)state;
    struct rig one = rig_new(100, 10, 4);
    struct rig two = rig_new(100, 10, 4);

    want(&one, A, 30, 1);
    two.at_ns = 5; /* when it happened is not part of it */
    want(&two, A, 30, 1);
    assert_true(node_digest(one.node) == node_digest(two.node));
    step(&one, (struct node_event){.kind = NODE_EVENT_TICK});
    assert_true(node_digest(one.node) == node_digest(two.node));
    want(&one, B, 30, 2);
    want(&two, B, 30, 3);
    assert_true(node_digest(one.node) != node_digest(two.node));
    free(one.node);
    free(two.node);
}

struct act {
    struct rig *rig;
    struct node_event event;
};

static void do_step(void *context)
{
    struct act *act = context;

    node_step(act->rig->node, &act->event, &act->rig->out);
}

static void node_stops_at_events_that_no_host_may_send(void **state)
{
    (void)state;
    const struct node_event events[] = {
        {.kind = NODE_EVENT_NONE, .at_ns = 10},
        {.kind = NODE_EVENT_COUNT, .at_ns = 10},
        {.kind = NODE_EVENT_TICK, .at_ns = 9},                                  /* backwards */
        {.kind = NODE_EVENT_WANT, .at_ns = 10, .want = {B, 30, 1}},             /* that number is taken */
        {.kind = NODE_EVENT_WANT, .at_ns = 10, .want = {A, 31, 2}},             /* other bytes, same version */
        {.kind = NODE_EVENT_WANT, .at_ns = 10, .want = {B, 0, 2}},
        {.kind = NODE_EVENT_WANT, .at_ns = 10, .want = {{0, 0}, 30, 2}},        /* the base */
        {.kind = NODE_EVENT_UNWANT, .at_ns = 10, .unwant = {A, 30, 2}},         /* unknown */
        {.kind = NODE_EVENT_UNWANT, .at_ns = 10, .unwant = {B, 30, 1}},         /* another's */
        {.kind = NODE_EVENT_FETCHED, .at_ns = 10, .answers = 1, .fetched = {B, 30}},
        {.kind = NODE_EVENT_FETCHED, .at_ns = 10, .answers = 2, .fetched = {A, 30}}, /* not that FETCH */
        {.kind = NODE_EVENT_FAILED, .at_ns = 10, .answers = 2, .failed = {A, 30}},
    };

    for (size_t i = 0; i < ARRAY_COUNT(events); i++) {
        struct rig rig = rig_new(100, 4, 4);
        struct act act = {&rig, events[i]};

        rig.at_ns = 10;
        want(&rig, A, 30, 1);
        assert_int_equal(expect_fetch(&rig, 0, A, 30), 1);
        if (!check_stops(do_step, &act))
            fail_msg("event %zu was accepted", i);
        free(rig.node);
    }
}

static void node_stops_at_more_wants_than_it_was_made_for(void **state)
{
    (void)state;
    struct rig rig = rig_new(100, 2, 4);
    struct act act = {&rig, {.kind = NODE_EVENT_WANT, .want = {A, 30, 3}}};

    want(&rig, A, 30, 1);
    want(&rig, A, 30, 2);
    assert_true(check_stops(do_step, &act));
    free(rig.node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_wants_of_one_adapter_cause_one_fetch_and_all_get_ready),
        cmocka_unit_test(an_adapter_stays_after_its_unwant_until_another_needs_the_room),
        cmocka_unit_test(a_want_waits_when_every_byte_is_pinned),
        cmocka_unit_test(a_want_that_gives_up_while_waiting_lets_the_next_go_on),
        cmocka_unit_test(what_exceeds_the_tier_passes_through),
        cmocka_unit_test(what_passes_through_is_dropped_at_once_when_nobody_waits_for_it),
        cmocka_unit_test(a_node_without_a_tier_passes_everything_through),
        cmocka_unit_test(fetches_beyond_the_limit_wait_in_order),
        cmocka_unit_test(a_failed_fetch_is_lost_to_all_who_wait_and_can_be_tried_again),
        cmocka_unit_test(a_fetch_goes_on_when_its_last_want_has_gone),
        cmocka_unit_test(a_retired_adapter_goes_when_its_copies_are_done),
        cmocka_unit_test(an_idle_adapter_goes_at_once_when_retired),
        cmocka_unit_test(an_adapter_retired_while_it_is_fetched_is_lost_and_dropped_on_arrival),
        cmocka_unit_test(an_adapter_retired_in_the_queue_never_is_fetched),
        cmocka_unit_test(more_readys_than_a_step_may_say_are_said_in_the_next),
        cmocka_unit_test(retirement_and_unwant_reach_readys_that_are_not_said_yet),
        cmocka_unit_test(more_drops_than_a_step_may_say_delay_the_fetch),
        cmocka_unit_test(digest_follows_the_history_and_not_the_ticks),
        cmocka_unit_test(node_stops_at_events_that_no_host_may_send),
        cmocka_unit_test(node_stops_at_more_wants_than_it_was_made_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
