/* The pool of packed adapters: first fit, moves one at a time, nothing written over. */
#include <stdlib.h>

#include "engine/serve/blocks.h"
#include "engine/serve/pool.h"
#include "support.h"

static void first_fit_takes_the_lowest_hole(void **context)
{
    struct pool pool;
    int64_t at;

    (void)context;
    assert_int_equal(pool_create(&pool, 10 * POOL_ALIGN, 8), STATUS_OK);
    assert_int_equal(pool_take(&pool, 0, 1, &at), STATUS_OK);
    assert_int_equal(at, 0);
    assert_int_equal(pool_take(&pool, 1, 3 * POOL_ALIGN, &at), STATUS_OK);
    assert_int_equal(at, POOL_ALIGN);
    assert_int_equal(pool_take(&pool, 2, 4 * POOL_ALIGN, &at), STATUS_OK);
    pool_give(&pool, 1);
    assert_int_equal(pool_take(&pool, 3, 2 * POOL_ALIGN, &at), STATUS_OK);
    assert_int_equal(at, POOL_ALIGN);
    assert_int_equal(pool_take(&pool, 4, 3 * POOL_ALIGN, &at), STATUS_FULL);
    assert_int_equal(pool_take(&pool, 4, 2 * POOL_ALIGN, &at), STATUS_OK);
    assert_int_equal(at, 8 * POOL_ALIGN);
    pool_check(&pool);
    pool_free(&pool);
}

static void what_is_being_written_does_not_move(void **context)
{
    struct pool pool;
    struct pool_move move;
    int64_t at;

    (void)context;
    assert_int_equal(pool_create(&pool, 4 * POOL_ALIGN, 4), STATUS_OK);
    pool_take(&pool, 0, POOL_ALIGN, &at);
    pool_take(&pool, 1, POOL_ALIGN, &at);
    pool_take(&pool, 2, POOL_ALIGN, &at);
    pool_written(&pool, 2);
    pool_give(&pool, 0);
    assert_false(pool_move(&pool, &move)); /* 1 is written and 2 stands against it */
    pool_written(&pool, 1);
    assert_true(pool_move(&pool, &move));
    assert_int_equal(move.slot, 1);
    assert_int_equal(move.to, 0);
    assert_int_equal(move.from, POOL_ALIGN);
    assert_true(pool_move(&pool, &move));
    assert_int_equal(move.slot, 2);
    assert_false(pool_move(&pool, &move));
    pool_free(&pool);
}

/* Bytes follow their slots through takes, gives and moves; when bytes suffice, some moves later a hole does. */
static void bytes_follow_their_slots(void **context)
{
    enum { SLOTS = 12, UNITS = 40 };
    uint64_t state = test_seed(21);
    uint8_t memory[UNITS] = {0}; /* a byte for each POOL_ALIGN */
    int64_t units_of[SLOTS] = {0};
    struct pool pool;

    (void)context;
    assert_int_equal(pool_create(&pool, UNITS * POOL_ALIGN, SLOTS), STATUS_OK);
    for (int round = 0; round < 20000; round++) {
        int32_t slot = (int32_t)draw_below(&state, SLOTS);
        int64_t used = 0;

        for (int i = 0; i < SLOTS; i++)
            used += units_of[i];
        if (units_of[slot] > 0) {
            int64_t at = pool_offset(&pool, slot) / POOL_ALIGN;

            for (int64_t i = at; i < at + units_of[slot]; i++)
                assert_int_equal(memory[i], slot + 1);
            units_of[slot] = 0;
            pool_give(&pool, slot);
        } else {
            int64_t units = 1 + (int64_t)draw_below(&state, 9);
            int64_t offset;

            if (used + units > UNITS)
                continue;
            while (pool_take(&pool, slot, units * POOL_ALIGN - 7, &offset) != STATUS_OK) {
                struct pool_move move;

                assert_true(pool_move(&pool, &move));
                memmove(memory + move.to / POOL_ALIGN, memory + move.from / POOL_ALIGN, (size_t)(move.bytes / POOL_ALIGN));
            }
            memset(memory + offset / POOL_ALIGN, slot + 1, (size_t)units);
            units_of[slot] = units;
            pool_written(&pool, slot);
        }
        pool_check(&pool);
    }
    pool_free(&pool);
}

static void blocks_are_given_once(void **context)
{
    struct blocks blocks;
    bool taken[8] = {false};

    (void)context;
    assert_int_equal(blocks_create(&blocks, 7), STATUS_OK);
    for (int i = 0; i < 7; i++) {
        int32_t id = blocks_take(&blocks);

        assert_true(id >= 1 && id <= 7 && !taken[id]);
        taken[id] = true;
    }
    assert_int_equal(blocks.count, 0);
    for (int32_t id = 1; id <= 7; id++)
        blocks_give(&blocks, id);
    assert_int_equal(blocks.count, 7);
    blocks_free(&blocks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_fit_takes_the_lowest_hole),
        cmocka_unit_test(what_is_being_written_does_not_move),
        cmocka_unit_test(bytes_follow_their_slots),
        cmocka_unit_test(blocks_are_given_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
