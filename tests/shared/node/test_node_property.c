/* The node core under random valid events, seen from outside by a host that keeps its own books: every want gets one
 * READY or LOST, nothing retired is served, one fetch an adapter, room and fetches within their limits, and nothing
 * sleeps for ever. */
#include "node/node.h"
#include "support.h"

#include <stdlib.h>
#include <string.h>

enum { ADAPTERS = 14, WANTS_MAX = 160 };

/* What the host knows of one version of an adapter; two versions of each may be about. */
struct record {
    adapter_id adapter;
    uint64_t bytes;
    uint64_t fetch_id; /* 0: no fetch in flight */
    uint32_t held;     /* wants with READY and no UNWANT yet */
    uint32_t wanted;   /* wants without READY */
    bool here;         /* in host memory */
    bool retired;
};

struct want {
    uint64_t number;
    struct record *record;
    bool live;
    bool ready;
};

struct world {
    struct node *node;
    struct node *other; /* hears the same; must say the same */
    struct node_config config;
    bool slow; /* fetches end seldom, who waits is patient, few adapters, few are retired */
    struct record records[ADAPTERS][2];
    uint32_t current[ADAPTERS]; /* version of the newest */
    struct want wants[WANTS_MAX];
    uint32_t wants_live;
    uint64_t wants_begun;
    uint64_t used_bytes; /* of the tier: here or being fetched, not passing */
    uint32_t fetching;
    int64_t now_ns;
    uint64_t seed;
    uint64_t random;
    uint32_t turn;
    /* What happened at all: a history without these would have shown little. */
    uint64_t readys, losts, evicted, passed, full_steps;
};

#define expect(world, condition)                                                                            \
    do {                                                                                                    \
        if (!(condition))                                                                                   \
            fail_msg("%s, seed %llu, turn %u: %s", (world)->config.host.evict->name,                        \
                     (unsigned long long)(world)->seed, (world)->turn, #condition);                         \
    } while (0)

static bool passes(const struct world *world, const struct record *record)
{
    return record->bytes > world->config.host.capacity;
}

static struct record *record_of(struct world *world, adapter_id adapter)
{
    struct record *record;

    expect(world, adapter.index >= 1 && adapter.index <= ADAPTERS);
    record = &world->records[adapter.index - 1][adapter.version % 2];
    expect(world, adapter_id_equal(record->adapter, adapter));
    return record;
}

static struct want *want_of(struct world *world, uint64_t number)
{
    for (uint32_t i = 0; i < world->config.wants_max; i++)
        if (world->wants[i].live && world->wants[i].number == number)
            return &world->wants[i];
    fail_msg("seed %llu, turn %u: want %llu is not alive", (unsigned long long)world->seed, world->turn,
             (unsigned long long)number);
    return NULL;
}

static void hear_fetch(struct world *world, const struct node_command *command)
{
    struct record *record = record_of(world, command->fetch.adapter);

    expect(world, command->fetch.bytes == record->bytes);
    expect(world, record->fetch_id == 0);
    expect(world, !record->here);
    expect(world, !record->retired);
    expect(world, record->wanted > 0);
    record->fetch_id = command->id;
    world->fetching++;
    expect(world, world->fetching <= world->config.fetches_max);
    if (!passes(world, record))
        world->used_bytes += record->bytes;
    expect(world, world->used_bytes <= world->config.host.capacity);
}

static void hear_answer(struct world *world, const struct node_command *command)
{
    struct record *record = record_of(world, command->ready.adapter);
    struct want *want = want_of(world, command->ready.want);

    expect(world, want->record == record);
    expect(world, !want->ready);
    expect(world, command->ready.bytes == record->bytes);
    record->wanted--;
    if (command->kind == NODE_COMMAND_LOST) {
        expect(world, command->reason == NODE_LOST_FETCH_FAILED || record->retired);
        want->live = false;
        world->wants_live--;
        world->losts++;
        return;
    }
    expect(world, record->here);
    expect(world, !record->retired);
    expect(world, command->reason == TIER_HOST || command->reason == TIER_STORE);
    want->ready = true;
    record->held++;
    world->readys++;
}

static void hear_drop(struct world *world, const struct node_command *command)
{
    struct record *record = record_of(world, command->drop.adapter);

    expect(world, record->here);
    expect(world, record->held == 0);
    expect(world, command->drop.bytes == record->bytes);
    expect(world, (command->reason == NODE_DROP_RETIRED) == record->retired);
    expect(world, (command->reason == NODE_DROP_PASSED) == (passes(world, record) && !record->retired));
    record->here = false;
    if (!passes(world, record))
        world->used_bytes -= record->bytes;
    world->evicted += command->reason == NODE_DROP_EVICTED;
    world->passed += command->reason == NODE_DROP_PASSED;
}

static void step(struct world *world, struct node_event event)
{
    static struct node_commands out, other_out;
    struct node_state state;

    event.at_ns = world->now_ns;
    node_step(world->node, &event, &out);
    node_check(world->node);
    node_step(world->other, &event, &other_out);
    expect(world, out.count == other_out.count);
    expect(world, memcmp(out.items, other_out.items, out.count * sizeof(out.items[0])) == 0);
    expect(world, node_digest(world->node) == node_digest(world->other));
    for (uint32_t i = 0; i < out.count; i++) {
        const struct node_command *command = &out.items[i];

        if (command->kind == NODE_COMMAND_FETCH)
            hear_fetch(world, command);
        else if (command->kind == NODE_COMMAND_DROP)
            hear_drop(world, command);
        else
            hear_answer(world, command);
    }
    state = node_state(world->node);
    expect(world, state.used_bytes == world->used_bytes);
    expect(world, state.fetching == world->fetching);
    world->full_steps += out.count == COMMANDS_MAX;
    if (out.count == COMMANDS_MAX)
        return;
    /* All that could be said was said. */
    expect(world, node_wakeup_at_ns(world->node) == NEVER_NS);
    for (uint32_t i = 0; i < ADAPTERS; i++)
        for (uint32_t j = 0; j < 2; j++)
            expect(world, !(world->records[i][j].here && world->records[i][j].wanted > 0));
}

static void do_want(struct world *world)
{
    uint32_t which = (uint32_t)draw_below(&world->random, 1 + draw_below(&world->random, world->slow ? 3 : ADAPTERS));
    struct record *record = &world->records[which][world->current[which] % 2];
    struct record *old = &world->records[which][(world->current[which] + 1) % 2];
    struct want *want = world->wants;

    /* Now and then one that was retired, while the node still remembers: it must be lost. */
    if (old->retired && (old->held > 0 || old->fetch_id != 0) && draw_below(&world->random, 2) == 0)
        record = old;
    if (world->wants_live == world->config.wants_max)
        return;
    while (want->live)
        want++;
    *want = (struct want){.number = ++world->wants_begun, .record = record, .live = true};
    world->wants_live++;
    record->wanted++;
    step(world, (struct node_event){.kind = NODE_EVENT_WANT, .want = {record->adapter, record->bytes, want->number}});
}

static void do_unwant(struct world *world, struct want *want)
{
    struct record *record = want->record;

    want->live = false;
    world->wants_live--;
    if (want->ready)
        record->held--;
    else
        record->wanted--;
    step(world,
         (struct node_event){.kind = NODE_EVENT_UNWANT, .unwant = {record->adapter, record->bytes, want->number}});
}

static void do_fetch_end(struct world *world, struct record *record, bool fails)
{
    uint64_t id = record->fetch_id;

    record->fetch_id = 0;
    world->fetching--;
    if (fails) {
        if (!passes(world, record))
            world->used_bytes -= record->bytes;
        step(world, (struct node_event){
                        .kind = NODE_EVENT_FAILED, .answers = id, .failed = {record->adapter, record->bytes}});
        return;
    }
    record->here = true;
    step(world, (struct node_event){
                    .kind = NODE_EVENT_FETCHED, .answers = id, .fetched = {record->adapter, record->bytes}});
}

/* A version is retired for its successor, which takes the place of the one before: that must be gone. */
static void do_retire(struct world *world)
{
    uint32_t which = (uint32_t)draw_below(&world->random, ADAPTERS);
    struct record *record = &world->records[which][world->current[which] % 2];
    struct record *next = &world->records[which][(world->current[which] + 1) % 2];

    if (next->here || next->fetch_id != 0 || next->wanted > 0 || next->held > 0)
        return;
    world->current[which]++;
    *next = (struct record){.adapter = {which + 1, world->current[which]}, .bytes = record->bytes};
    record->retired = true;
    step(world, (struct node_event){.kind = NODE_EVENT_RETIRED, .retired = {record->adapter, record->bytes}});
}

static struct record *draw_fetching(struct world *world)
{
    uint64_t skip = world->fetching > 0 ? draw_below(&world->random, world->fetching) : 0;

    for (uint32_t i = 0; i < ADAPTERS * 2; i++)
        if (world->records[i / 2][i % 2].fetch_id != 0 && skip-- == 0)
            return &world->records[i / 2][i % 2];
    return NULL;
}

static void world_turn(struct world *world)
{
    uint64_t what = draw_below(&world->random, 20);
    struct want *want = &world->wants[draw_below(&world->random, world->config.wants_max)];
    struct record *fetching = draw_fetching(world);

    if (world->slow && draw_below(&world->random, 100) != 0) {
        fetching = NULL;
        if (!want->ready)
            want = NULL;
    }
    /* Time goes on when the node lets it. */
    if (node_wakeup_at_ns(world->node) == NEVER_NS)
        world->now_ns += (int64_t)draw_below(&world->random, 3);
    if (what < 8)
        do_want(world);
    else if (what < 14 && want != NULL && want->live)
        do_unwant(world, want);
    else if (what < 17 && fetching != NULL)
        do_fetch_end(world, fetching, draw_below(&world->random, 6) == 0);
    else if (what == 17 && draw_below(&world->random, world->slow ? 100 : 4) == 0)
        do_retire(world);
    else if (what > 17)
        step(world, (struct node_event){.kind = NODE_EVENT_TICK});
}

/* The host goes quiet: every fetch arrives and every want ends. Then nobody may be left waiting. */
static void world_drain(struct world *world)
{
    struct node_state state;
    uint32_t rounds = 0;

    while (world->wants_live > 0 || world->fetching > 0) {
        struct record *fetching = draw_fetching(world);

        expect(world, ++rounds < 100000);
        if (fetching != NULL)
            do_fetch_end(world, fetching, false);
        step(world, (struct node_event){.kind = NODE_EVENT_TICK});
        for (uint32_t i = 0; i < world->config.wants_max; i++)
            if (world->wants[i].live && world->wants[i].ready)
                do_unwant(world, &world->wants[i]);
    }
    state = node_state(world->node);
    expect(world, state.waiting == 0);
    expect(world, state.used_bytes == world->used_bytes);
    for (uint32_t i = 0; i < ADAPTERS * 2; i++)
        expect(world, !(world->records[i / 2][i % 2].here && world->records[i / 2][i % 2].retired));
}

static struct node *node_new(const struct node_config *config, int fill)
{
    size_t bytes = node_bytes(config);
    void *memory = malloc(bytes);

    memset(memory, fill, bytes);
    return node_create(memory, bytes, config);
}

static struct world world_run(const struct node_config *config, bool slow, uint32_t events, uint64_t bytes_max,
                              uint64_t seed)
{
    static struct world world;

    world = (struct world){.config = *config, .slow = slow, .seed = seed, .random = seed};
    world.node = node_new(config, 0x55);
    world.other = node_new(config, 0xaa);
    for (uint32_t i = 0; i < ADAPTERS; i++) {
        world.current[i] = 2;
        world.records[i][0] = (struct record){.adapter = {i + 1, 2}, .bytes = 1 + (i * 37 + 11) % bytes_max};
        world.records[i][1] = (struct record){.adapter = {i + 1, 1}, .bytes = world.records[i][0].bytes};
    }
    for (world.turn = 0; world.turn < events; world.turn++)
        world_turn(&world);
    world_drain(&world);
    free(world.node);
    free(world.other);
    return world;
}

/* Under each policy 10^6 events; where instrumentation or -O0 makes them slow, fewer. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
enum { EVENTS = 200000 };
#else
enum { EVENTS = 1000000 };
#endif

/* Tight: few bytes, few entries, two fetches; some adapters exceed the tier. */
static void node_keeps_its_promises(const struct evict_policy *evict, uint64_t seed)
{
    struct node_config config = {
        .host = {.unit = CACHE_BYTES, .capacity = 60, .entries_max = 5, .evict = evict},
        .wants_max = 10,
        .fetches_max = 2,
    };
    struct world world = world_run(&config, false, EVENTS, 70, seed);

    expect(&world, world.readys > 10000 && world.losts > 1000 && world.evicted > 1000 && world.passed > 500);
}

static void node_keeps_its_promises_under_lru(void **state)
{
    (void)state;
    node_keeps_its_promises(&evict_lru, test_seed(1));
}

static void node_keeps_its_promises_under_fifo(void **state)
{
    (void)state;
    node_keeps_its_promises(&evict_fifo, test_seed(2));
}

static void node_keeps_its_promises_under_lfu(void **state)
{
    (void)state;
    node_keeps_its_promises(&evict_lfu, test_seed(3));
}

static void node_keeps_its_promises_under_sieve(void **state)
{
    (void)state;
    node_keeps_its_promises(&evict_sieve, test_seed(4));
}

static void node_keeps_its_promises_under_gdsf(void **state)
{
    (void)state;
    node_keeps_its_promises(&evict_gdsf, test_seed(5));
}

/* Many wants on slow fetches: more answers than a step can say, again and again. */
static void node_keeps_its_promises_when_steps_are_full(void **state)
{
    (void)state;
    struct node_config config = {
        .host = {.unit = CACHE_BYTES, .capacity = 25, .entries_max = 5, .evict = &evict_lru},
        .wants_max = WANTS_MAX,
        .fetches_max = 1,
    };
    struct world world = world_run(&config, true, 400000, 40, test_seed(6));

    expect(&world, world.full_steps > 50 && world.readys > 10000);
}

static void node_keeps_its_promises_without_a_tier(void **state)
{
    (void)state;
    struct node_config config = {
        .host = {.unit = CACHE_BYTES, .evict = &evict_lru}, .wants_max = 10, .fetches_max = 3};
    struct world world = world_run(&config, false, 20000, 40, test_seed(7));

    expect(&world, world.readys > 1000 && world.passed > 500 && world.evicted == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(node_keeps_its_promises_under_lru),
        cmocka_unit_test(node_keeps_its_promises_under_fifo),
        cmocka_unit_test(node_keeps_its_promises_under_lfu),
        cmocka_unit_test(node_keeps_its_promises_under_sieve),
        cmocka_unit_test(node_keeps_its_promises_under_gdsf),
        cmocka_unit_test(node_keeps_its_promises_when_steps_are_full),
        cmocka_unit_test(node_keeps_its_promises_without_a_tier),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
