/* A step's arrays: sorted by slot, segments that are runs of rows, tiles that cover each row of an adapter once. */
#include "engine/model/batch.h"
#include "support.h"

enum { PARTS_MAX = 12 };

static void arrays_of(struct batch_arrays *arrays)
{
    const struct counts max = {.rows = 1000, .outputs = PARTS_MAX, .sequences = PARTS_MAX, .segments = PARTS_MAX,
                               .tiles = batch_tiles_max(1000, PARTS_MAX)};

    assert_true(batch_arrays_create(arrays, &max, 40));
}

static void base_rows_come_last_and_outputs_keep_the_callers_order(void **context)
{
    static const int32_t tokens[4] = {10, 11, 12, 13};
    static const int32_t blocks[2] = {5, 6};
    const struct forward_part parts[] = {
        {.tokens = tokens, .blocks = blocks, .rows = 1, .before = 3, .slot = SEGMENT_NONE, .wants_output = true},
        {.tokens = tokens, .blocks = blocks, .rows = 3, .before = 0, .slot = 2, .wants_output = true},
        {.tokens = tokens, .blocks = blocks, .rows = 2, .before = 15, .slot = 0, .wants_output = false},
        {.tokens = tokens + 3, .blocks = blocks, .rows = 1, .before = 7, .slot = 2, .wants_output = true},
    };
    struct batch_arrays arrays;

    (void)context;
    arrays_of(&arrays);
    batch_fill(&arrays, parts, 4);
    assert_int_equal(arrays.now.rows, 7);
    assert_int_equal(arrays.now.segments, 2);
    assert_int_equal(arrays.segment[0].slot, 0);
    assert_int_equal(arrays.segment[0].rows, 2);
    assert_int_equal(arrays.segment[1].slot, 2);
    assert_int_equal(arrays.segment[1].row, 2);
    assert_int_equal(arrays.segment[1].rows, 4);
    assert_int_equal(arrays.position[0], 15);
    assert_int_equal(arrays.position[1], 16);
    assert_int_equal(arrays.block_table[1], 6);
    assert_int_equal(arrays.sequence[3].row, 6);
    assert_int_equal(arrays.sequence[3].before, 3);
    assert_int_equal(arrays.now.outputs, 3);
    assert_int_equal(arrays.out_row[0], 4); /* the last row of part 1: the caller's second output */
    assert_int_equal(arrays.output_of[0], 1);
    assert_int_equal(arrays.output_of[1], 2);
    assert_int_equal(arrays.output_of[2], 0);
    batch_arrays_free(&arrays);
}

static void segments_and_tiles_cover_each_adapters_rows_once(void **context)
{
    static int32_t tokens[300];
    static const int32_t blocks[40];
    uint64_t state = test_seed(5);
    struct batch_arrays arrays;

    (void)context;
    arrays_of(&arrays);
    for (int round = 0; round < 2000; round++) {
        struct forward_part parts[PARTS_MAX];
        int32_t count = 1 + (int32_t)draw_below(&state, PARTS_MAX);
        int32_t adapted = 0;
        int32_t covered = 0;
        int32_t tiled = 0;

        for (int32_t i = 0; i < count; i++) {
            parts[i] = (struct forward_part){.tokens = tokens, .blocks = blocks, .rows = 1 + (int32_t)draw_below(&state, 70),
                                             .before = (int32_t)draw_below(&state, 90),
                                             .slot = (int32_t)draw_below(&state, 5) - 1, .wants_output = draw(&state) % 2 == 0};
            adapted += parts[i].slot == SEGMENT_NONE ? 0 : parts[i].rows;
        }
        batch_fill(&arrays, parts, count);
        for (int32_t i = 0; i < arrays.now.segments; i++) {
            assert_int_equal(arrays.segment[i].row, covered); /* adapters first, without a gap */
            covered += arrays.segment[i].rows;
            assert_true(i == 0 || arrays.segment[i].slot > arrays.segment[i - 1].slot);
        }
        assert_int_equal(covered, adapted);
        for (int32_t i = 0; i < arrays.now.tiles; i++) {
            const struct tile *tile = &arrays.tile[i];
            const struct segment *segment = &arrays.segment[tile->segment];

            assert_int_equal(tile->row, tiled);
            tiled += tile->rows;
            assert_true(tile->row >= segment->row && tile->row + tile->rows <= segment->row + segment->rows);
        }
        assert_int_equal(tiled, adapted);
    }
    batch_arrays_free(&arrays);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(base_rows_come_last_and_outputs_keep_the_callers_order),
        cmocka_unit_test(segments_and_tiles_cover_each_adapters_rows_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
