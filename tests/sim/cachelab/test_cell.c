/* A cell of the lab beside the cache that serves, request by request, under every policy of the list; and the lab's own rules. */
#include "cachelab/cell.h"

#include <stdlib.h>

#include "cache/cache.h"
#include "support.h"

extern const struct evict_policy evict_mru;

static const struct evict_policy *const policies[] = {
#define X(name) &evict_##name,
    EVICT_POLICIES(X)
#undef X
    &evict_mru, /* the example of shared/README.md, in evict_mru.c */
};

/* --- a cell, asked one request at a time --- */

struct rig {
    struct lab_policy policy;
    struct lab_admission admission;
    struct lab_size size;
    struct lab_cell *cell;
    struct lab_block block;
};

static void rig_begin(struct rig *rig, const struct evict_policy *evict, enum lab_unit unit, uint64_t capacity, uint32_t in_flight)
{
    struct lab_cell_setup setup = {.policy = &rig->policy, .admission = &rig->admission, .size = &rig->size, .cost_fixed_ns = 50000,
                                   .cost_ns_per_mib = 21000, .seed = 3, .in_flight = in_flight};

    *rig = (struct rig){.policy.evict = evict, .admission.admit = &admit_always, .size = {.unit = unit, .capacity = capacity}};
    for (uint32_t i = 0; i < evict->keys_count; i++)
        rig->policy.parameters[i] = evict->keys[i].value;
    assert_int_equal(lab_cell_create(&setup, &rig->cell), STATUS_OK);
}

static void rig_end(struct rig *rig)
{
    lab_cell_check(rig->cell);
    lab_cell_free(rig->cell);
}

/* Whether it was a hit. */
static bool rig_ask(struct rig *rig, uint32_t object, uint64_t size_bytes)
{
    const struct lab_counts before = lab_cell_counts(rig->cell);
    struct lab_counts after;

    rig->block.count = 1;
    rig->block.bytes = size_bytes;
    rig->block.objects[0] = object;
    rig->block.sizes_bytes[0] = size_bytes;
    rig->block.objects_count = max_u32(rig->block.objects_count, object + 1);
    assert_int_equal(lab_cell_requests(rig->cell, &rig->block), STATUS_OK);
    rig->block.first++;
    after = lab_cell_counts(rig->cell);
    assert_int_equal(after.requests, before.requests + 1);
    assert_in_range(lab_misses(&after) - lab_misses(&before), 0, 1);
    return lab_misses(&after) == lab_misses(&before);
}

static uint64_t why(const struct rig *rig, enum lab_miss miss)
{
    return lab_cell_counts(rig->cell).misses[miss];
}

/* --- the cache that serves --- */

enum { OBJECTS = 60, FLIGHT_MAX = 8, TURNS = 3000 };

struct served {
    void *memory;
    struct cache *cache;
    uint32_t flight[FLIGHT_MAX]; /* entries; NONE_INDEX: it didn't come in */
    uint32_t in_flight;
    uint32_t turn;
};

static void served_begin(struct served *served, const struct evict_policy *evict, enum lab_unit unit, uint64_t capacity,
                         uint32_t in_flight)
{
    const struct cache_config config = {.unit = unit == LAB_BYTES ? CACHE_BYTES : CACHE_SLOTS, .capacity = capacity,
                                        .entries_max = unit == LAB_BYTES ? 64 : (uint32_t)max_u64(1, capacity), .evict = evict,
                                        .cost_fixed_ns = 50000, .cost_ns_per_mib = 21000, .salt = 3};

    *served = (struct served){.memory = malloc(cache_bytes(&config)), .in_flight = in_flight};
    memset(served->flight, 0xff, sizeof(served->flight));
    served->cache = cache_create(served->memory, cache_bytes(&config), &config);
}

static bool served_ask(struct served *served, uint32_t object, uint64_t bytes)
{
    const adapter_id adapter = {object + 1, 0};
    uint32_t *flight = served->in_flight > 0 ? &served->flight[served->turn++ % served->in_flight] : NULL;
    uint32_t entry = cache_find(served->cache, adapter);
    adapter_id victims[OBJECTS];
    uint32_t victims_count;
    enum cache_answer answer;

    if (flight != NULL && *flight != NONE_INDEX)
        (void)cache_unpin(served->cache, *flight);
    if (entry != NONE_INDEX && cache_entry_bytes(served->cache, entry) != bytes)
        assert_true(cache_drop(served->cache, entry));
    entry = NONE_INDEX;
    answer = cache_acquire(served->cache, adapter, bytes, victims, OBJECTS, &victims_count, &entry);
    if (answer == CACHE_MISS)
        (void)cache_arrived(served->cache, entry);
    if (flight != NULL)
        *flight = entry;
    else if (entry != NONE_INDEX)
        (void)cache_unpin(served->cache, entry);
    return answer == CACHE_HIT;
}

struct trial {
    const struct evict_policy *evict;
    enum lab_unit unit;
    uint64_t capacity;
    uint32_t in_flight;
    bool changes; /* sizes do */
};

static void compare(const struct trial *trial, uint64_t seed)
{
    static struct rig rig;
    struct served served;
    uint64_t random = seed;

    rig_begin(&rig, trial->evict, trial->unit, trial->capacity, trial->in_flight);
    served_begin(&served, trial->evict, trial->unit, trial->capacity, trial->in_flight);
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        /* Favourites that change, in sizes of 0 to 60; now and then another one. */
        const uint32_t favourite = (uint32_t)draw_below(&random, 1 + draw_below(&random, OBJECTS));
        const uint32_t object = (favourite + turn / 700 * 7) % OBJECTS;
        const uint64_t bytes = trial->unit == LAB_OBJECTS ? 1 : (object * 7) % 61 + (trial->changes && draw_below(&random, 40) == 0);
        const bool hit = rig_ask(&rig, object, bytes);

        if (served_ask(&served, object, bytes) != hit)
            fail_msg("%s, %llu %s, %u in flight, seed %llu: request %u is a %s in the lab", trial->evict->name,
                     (unsigned long long)trial->capacity, trial->unit == LAB_BYTES ? "bytes" : "slots", trial->in_flight,
                     (unsigned long long)seed, turn, hit ? "hit" : "miss");
        if (turn % 50 == 0)
            lab_cell_check(rig.cell);
    }
    assert_int_equal(lab_cell_counts(rig.cell).evictions, cache_counts(served.cache).evictions);
    if (trial->in_flight == 0)
        assert_int_equal(why(&rig, LAB_MISS_PINNED), 0);
    rig_end(&rig);
    free(served.memory);
}

static void a_cell_hits_where_the_cache_that_serves_hits_under_every_policy(void **state)
{
    static const uint64_t slots[] = {1, 2, 3, 4, 5, 8, 16, 32, 50, 59, 64};
    static const uint64_t bytes[] = {0, 1, 30, 60, 61, 100, 300, 900, 1500, 5000};
    const uint64_t seed = test_seed(11);

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(policies); i++) {
        for (uint32_t in_flight = 0; in_flight <= FLIGHT_MAX; in_flight += 4) {
            for (size_t j = 0; j < ARRAY_COUNT(slots); j++)
                compare(&(struct trial){policies[i], LAB_OBJECTS, slots[j], in_flight, false}, seed + j);
            for (size_t j = 0; j < ARRAY_COUNT(bytes); j++)
                compare(&(struct trial){policies[i], LAB_BYTES, bytes[j], in_flight, in_flight == 0}, seed + j);
        }
    }
}

/* --- blocks --- */

/* Objects that come one by one and all of 1 to 9 bytes: slots and entries grow on the way. */
static void blocks_fill(struct lab_block *block, uint64_t *random, uint32_t *known, uint32_t count)
{
    block->count = count;
    block->bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t old = *known == 0 ? 0 : *known - 1 - draw_below(random, 1 + draw_below(random, *known));
        const uint32_t object = draw_below(random, 3) == 0 ? (*known)++ : (uint32_t)old;

        *known = max_u32(*known, object + 1);
        block->objects[i] = object;
        block->sizes_bytes[i] = 1 + object % 9;
        block->bytes += block->sizes_bytes[i];
        block->next[i] = NONE_USE;
    }
    block->objects_count = *known;
}

/* The same requests in other blocks. */
static void blocks_cut(struct lab_block *target, const struct lab_block *source, struct lab_cell *cell, uint32_t length)
{
    for (uint32_t from = 0; from < source->count; from += length) {
        target->count = min_u32(length, source->count - from);
        target->first = source->first + from;
        target->objects_count = source->objects_count;
        target->bytes = 0;
        for (uint32_t i = 0; i < target->count; i++) {
            target->objects[i] = source->objects[from + i];
            target->bytes += target->sizes_bytes[i] = source->sizes_bytes[from + i];
            target->next[i] = NONE_USE;
        }
        assert_int_equal(lab_cell_requests(cell, target), STATUS_OK);
    }
}

static void how_requests_are_cut_into_blocks_changes_nothing(void **state)
{
    static struct lab_block whole, part;

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(policies); i++) {
        static struct rig one, other;
        uint64_t random = test_seed(5);
        uint32_t known = 0;
        struct lab_counts counts[2];

        rig_begin(&one, policies[i], LAB_BYTES, 20000, 0);
        rig_begin(&other, policies[i], LAB_BYTES, 20000, 0);
        whole.first = 0;
        for (uint32_t blocks = 0; blocks < 40; blocks++, whole.first += LAB_BLOCK_MAX) {
            blocks_fill(&whole, &random, &known, LAB_BLOCK_MAX);
            assert_int_equal(lab_cell_requests(one.cell, &whole), STATUS_OK);
            blocks_cut(&part, &whole, other.cell, 77);
        }
        counts[0] = lab_cell_counts(one.cell);
        counts[1] = lab_cell_counts(other.cell);
        assert_memory_equal(&counts[0], &counts[1], sizeof(counts[0]));
        assert_true(counts[0].evictions > 0);
        rig_end(&one);
        rig_end(&other);
    }
}

/* --- the example of a policy --- */

static void of_a_scan_that_comes_round_mru_keeps_all_but_one_and_lru_nothing(void **state)
{
    enum { SLOTS = 8, ROUNDS = 100 };
    static struct rig rig;

    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        uint64_t hits = 0;

        rig_begin(&rig, i == 0 ? &evict_lru : &evict_mru, LAB_OBJECTS, SLOTS, 0);
        for (uint32_t turn = 0; turn < ROUNDS * (SLOTS + 1); turn++)
            hits += rig_ask(&rig, turn % (SLOTS + 1), 1);
        /* After the first round, one miss in SLOTS requests: the one that left moves back by one each time. */
        assert_int_equal(hits, i == 0 ? 0 : (ROUNDS - 1) * (SLOTS + 1) - (ROUNDS - 1) * (SLOTS + 1) / SLOTS);
        rig_end(&rig);
    }
}

/* --- rules --- */

static void what_is_larger_than_the_cache_passes_by(void **state)
{
    static struct rig rig;

    (void)state;
    rig_begin(&rig, &evict_lru, LAB_BYTES, 10, 0);
    assert_false(rig_ask(&rig, 0, 10));
    assert_false(rig_ask(&rig, 1, 11)); /* the first request of an object is compulsory, however large */
    assert_false(rig_ask(&rig, 1, 11));
    assert_true(rig_ask(&rig, 0, 10)); /* and nothing left for it */
    assert_int_equal(why(&rig, LAB_MISS_COMPULSORY), 2);
    assert_int_equal(why(&rig, LAB_MISS_OVERSIZE), 1);
    assert_int_equal(lab_cell_counts(rig.cell).evictions, 0);
    rig_end(&rig);
}

static void a_cache_of_nothing_misses_all_that_weighs_something(void **state)
{
    static struct rig rig;

    (void)state;
    for (enum lab_unit unit = LAB_BYTES; unit <= LAB_OBJECTS; unit++) {
        rig_begin(&rig, &evict_sieve, unit, 0, 0);
        for (uint32_t i = 0; i < 10; i++)
            assert_false(rig_ask(&rig, i % 2, 1));
        assert_int_equal(why(&rig, LAB_MISS_COMPULSORY), 2);
        assert_int_equal(why(&rig, LAB_MISS_OVERSIZE), 8);
        assert_false(rig_ask(&rig, 2, 0));
        assert_int_equal(rig_ask(&rig, 2, 0), unit == LAB_BYTES);
        rig_end(&rig);
    }
}

static void an_object_of_another_size_is_another_object(void **state)
{
    static struct rig rig;

    (void)state;
    rig_begin(&rig, &evict_lru, LAB_BYTES, 10, 0);
    assert_false(rig_ask(&rig, 0, 4));
    assert_false(rig_ask(&rig, 1, 6));
    assert_false(rig_ask(&rig, 0, 3)); /* its old copy makes room */
    assert_true(rig_ask(&rig, 1, 6));
    assert_true(rig_ask(&rig, 0, 3));
    assert_int_equal(lab_cell_counts(rig.cell).changed, 1);
    assert_int_equal(why(&rig, LAB_MISS_CAPACITY), 1);
    assert_int_equal(lab_cell_counts(rig.cell).evictions, 0);
    assert_false(rig_ask(&rig, 0, 11)); /* larger than the cache now; the copy goes all the same */
    assert_int_equal(why(&rig, LAB_MISS_OVERSIZE), 1);
    assert_int_equal(lab_cell_counts(rig.cell).changed, 1);
    assert_false(rig_ask(&rig, 0, 3));
    rig_end(&rig);
    rig_begin(&rig, &evict_lru, LAB_OBJECTS, 2, 0);
    assert_false(rig_ask(&rig, 0, 4));
    assert_true(rig_ask(&rig, 0, 5)); /* by objects, sizes aren't looked at */
    rig_end(&rig);
}

static void sizes_of_63_bits_add_up(void **state)
{
    const uint64_t huge = LAB_CAPACITY_MAX;
    static struct rig rig;

    (void)state;
    rig_begin(&rig, &evict_lru, LAB_BYTES, LAB_CAPACITY_MAX, 0);
    for (uint32_t i = 0; i < 9; i++)
        assert_false(rig_ask(&rig, i % 3, huge));
    assert_true(rig_ask(&rig, 2, huge));
    assert_false(rig_ask(&rig, 3, 1));
    assert_true(lab_cell_counts(rig.cell).bytes == (uint128)huge * 10 + 1);
    assert_true(lab_cell_counts(rig.cell).miss_bytes == (uint128)huge * 9 + 1);
    assert_int_equal(lab_cell_counts(rig.cell).evictions, 9);
    rig_end(&rig);
}

static void what_is_in_flight_stays_and_what_finds_no_room_passes_by(void **state)
{
    static struct rig rig;

    (void)state;
    rig_begin(&rig, &evict_lru, LAB_OBJECTS, 2, 2);
    assert_false(rig_ask(&rig, 0, 1));
    assert_false(rig_ask(&rig, 1, 1));
    assert_false(rig_ask(&rig, 2, 1)); /* 0 is out of flight, and leaves */
    assert_true(rig_ask(&rig, 1, 1));
    rig_end(&rig);
    rig_begin(&rig, &evict_lru, LAB_OBJECTS, 2, 3);
    assert_false(rig_ask(&rig, 0, 1));
    assert_false(rig_ask(&rig, 1, 1));
    assert_false(rig_ask(&rig, 2, 1)); /* both are in flight: it is one that nobody can let in */
    assert_int_equal(lab_cell_counts(rig.cell).evictions, 0);
    assert_false(rig_ask(&rig, 2, 1)); /* by now 0 may leave; that it has to be loaded is the pins' doing */
    assert_int_equal(why(&rig, LAB_MISS_COMPULSORY), 3);
    assert_int_equal(why(&rig, LAB_MISS_PINNED), 1);
    assert_int_equal(lab_cell_counts(rig.cell).evictions, 1);
    assert_true(rig_ask(&rig, 2, 1));
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cell_hits_where_the_cache_that_serves_hits_under_every_policy),
        cmocka_unit_test(how_requests_are_cut_into_blocks_changes_nothing),
        cmocka_unit_test(of_a_scan_that_comes_round_mru_keeps_all_but_one_and_lru_nothing),
        cmocka_unit_test(what_is_larger_than_the_cache_passes_by),
        cmocka_unit_test(a_cache_of_nothing_misses_all_that_weighs_something),
        cmocka_unit_test(an_object_of_another_size_is_another_object),
        cmocka_unit_test(sizes_of_63_bits_add_up),
        cmocka_unit_test(what_is_in_flight_stays_and_what_finds_no_room_passes_by),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
