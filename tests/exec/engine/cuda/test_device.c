/* The device's promises: equal bits, graphs, lanes; and what it refuses to open. */
#include <stdio.h>

#include "cases.h"
#include "emu/control.h"
#include "engine/device/cuda/device_cuda.h"
#include "promises.h"
#include "shapes.h"
#include "support.h"

#define SHAPE_DECODE 3
#define SHAPE_MIXED 5
#define SHAPE_FEW 7
#define SHAPE_TALL 8

static struct world *open(int shape, enum mode mode, bool deterministic, enum emu_order order)
{
    struct world_ask ask = shapes[shape].ask;
    char error[256] = "";
    struct world *world;

    ask.mode = mode;
    ask.deterministic = deterministic;
    ask.seed = test_seed(5);
    ask.dtype = mode == MODE_FAST ? DTYPE_BF16 : DTYPE_F32;
    emu_set(order, (enum emu_streams)((int)order % EMU_STREAMS_COUNT), ask.seed);
    world = world_open(&ask, &device_cuda, error, sizeof(error));
    if (world == NULL)
        fail_msg("%s", error);
    return world;
}

static void done(struct world *world, const char *answer)
{
    if (answer != NULL)
        fail_msg("seed %llu: %s", (unsigned long long)world->ask.seed, answer);
    world_close(world);
}

static void a_row_has_the_same_bits_alone_and_mixed(void **context)
{
    struct world *world;

    (void)context;
    world = open(SHAPE_MIXED, MODE_FAST, true, EMU_GREEDY);
    done(world, promise_alone_or_mixed(world));
    world = open(SHAPE_DECODE, MODE_FAST, true, EMU_REVERSE);
    done(world, promise_alone_or_mixed(world));
    world = open(SHAPE_FEW, MODE_EXACT, true, EMU_FORWARD);
    done(world, promise_alone_or_mixed(world));
}

static void one_segment_or_many_gives_the_same_bits(void **context)
{
    struct world *world;

    (void)context;
    world = open(SHAPE_MIXED, MODE_FAST, true, EMU_RANDOM);
    done(world, promise_one_segment_or_many(world));
    world = open(SHAPE_TALL, MODE_FAST, true, EMU_FORWARD);
    done(world, promise_one_segment_or_many(world));
    world = open(SHAPE_MIXED, MODE_FAST, false, EMU_GREEDY_REVERSE);
    done(world, promise_one_segment_or_many(world));
}

static void a_graph_recorded_with_one_segment_serves_all_and_nobody(void **context)
{
    (void)context;
    for (int order = 0; order < EMU_ORDERS_COUNT; order++) {
        struct world_ask ask = {.dims = DIMS_8, .mode = MODE_FAST, .deterministic = order % 2 == 0, .dtype = DTYPE_BF16, .sequences = 9,
                                .sequence = {{1, 3, 0}, {1, 40, 1}, {1, 16, 1}, {1, 0, 2}, {1, 1, 3}, {1, 15, 4}, {1, 600, 4},
                                             {1, 2, SEGMENT_NONE}, {1, 30, SEGMENT_NONE}},
                                .slots = 5, .slot = {{16, MODULES_ALL}, {8, MODULES_ALL}, {64, MODULES_ALL}, {16, 1u << LORA_K}, {32, MODULES_ALL}},
                                .rows_spare = 7};
        char error[256] = "";
        struct world *world;
        bool skipped;

        ask.seed = test_seed(8);
        emu_set((enum emu_order)order, (enum emu_streams)(order % EMU_STREAMS_COUNT), 1);
        world = world_open(&ask, &device_cuda, error, sizeof(error));
        assert_non_null(world);
        done(world, promise_graphs(world, &skipped));
        assert_false(skipped);
    }
}

/* Scratch is for few rows then, and a batch goes through it in groups. */
static void a_device_for_very_long_sequences_attends_as_any(void **context)
{
    struct world_ask ask = shapes[SHAPE_MIXED].ask;
    char error[256] = "";
    struct world *world;

    (void)context;
    for (int deterministic = 0; deterministic < 2; deterministic++) {
        ask.mode = MODE_FAST;
        ask.deterministic = deterministic == 1;
        ask.seed = test_seed(6);
        ask.positions_max = 8 << 20;
        emu_set(EMU_FORWARD, EMU_LAZY, 1);
        world = world_open(&ask, &device_cuda, error, sizeof(error));
        assert_non_null(world);
        done(world, case_attend(world));
    }
}

static void lanes_marks_and_moves_keep_their_order(void **context)
{
    (void)context;
    for (int streams = 0; streams < EMU_STREAMS_COUNT; streams++) {
        const char *answer;

        emu_set(EMU_FORWARD, (enum emu_streams)streams, test_seed(3));
        answer = promise_memory(&device_cuda);
        if (answer != NULL)
            fail_msg("%s", answer);
    }
}

static void what_it_cannot_do_is_refused_with_a_reason(void **context)
{
    const struct dev_config good = {.dims = {64, 4, 2, 16, 96, 100, 1}, .mode = MODE_FAST, .rows_max = 8, .outputs_max = 1,
                                    .lora_rank_max = 16, .positions_max = 64};
    const uint16_t half[4] = {0};
    const struct weight wide = {.data = half, .dtype = DTYPE_F16, .out = 2, .in = 2, .stride = 2};
    struct dev_config config;
    struct weight ret_weight;
    char error[256];
    struct dev *dev;

    (void)context;
#define REFUSES(field, value, text)                                              \
    config = good;                                                               \
    config.field = value;                                                        \
    assert_null(device_cuda.open(&config, error, sizeof(error)));                \
    assert_non_null(strstr(error, text))
    REFUSES(dims.kv_heads, 3, "heads are no multiple of kv heads");
    REFUSES(dims.head_dim, 258, "above 256");
    REFUSES(dims.head_dim, 15, "odd");
    REFUSES(lora_rank_max, 20, "no multiple of 16");
    REFUSES(rows_max, 0, "rows_max");
    REFUSES(ranks, (struct ranks *)error, "joins no GPUs");
    REFUSES(trains, true, "what trains is deterministic");
    REFUSES(rows_max, INT32_MAX / 2, "no room");
    emu_set(EMU_FORWARD, EMU_LAZY, 1);
    dev = device_cuda.open(&good, error, sizeof(error));
    assert_non_null(dev);
    assert_int_equal(device_cuda.weight(dev, &wide, &ret_weight), STATUS_INVALID);
    assert_null(device_cuda.reserve(dev, (size_t)1 << 40));
    device_cuda.close(dev);
}

/* Who had the GPU before may have been another tenant. */
static void what_a_device_takes_is_cleared_first(void **context)
{
    const struct dev_config training = {.dims = {64, 4, 2, 16, 96, 100, 1}, .mode = MODE_FAST, .deterministic = true, .rows_max = 8,
                                        .outputs_max = 1, .lora_rank_max = 16, .positions_max = 64, .ranks_count = 1, .trains = true};
    const uint16_t numbers[8] = {0};
    const struct weight matrix = {.data = numbers, .dtype = DTYPE_BF16, .out = 2, .in = 4, .stride = 4};
    struct weight weight;
    char error[256] = "";
    struct dev *dev;

    (void)context;
    emu_set(EMU_FORWARD, EMU_LAZY, 1);
    dev = device_cuda.open(&training, error, sizeof(error));
    if (dev == NULL)
        fail_msg("%s", error);
    assert_non_null(device_cuda.reserve(dev, 100000));
    assert_int_equal(device_cuda.weight(dev, &matrix, &weight), STATUS_OK);
    assert_int_equal(emu_fresh(), 0);
    device_cuda.close(dev);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_has_the_same_bits_alone_and_mixed),
        cmocka_unit_test(one_segment_or_many_gives_the_same_bits),
        cmocka_unit_test(a_graph_recorded_with_one_segment_serves_all_and_nobody),
        cmocka_unit_test(a_device_for_very_long_sequences_attends_as_any),
        cmocka_unit_test(lanes_marks_and_moves_keep_their_order),
        cmocka_unit_test(what_a_device_takes_is_cleared_first),
        cmocka_unit_test(what_it_cannot_do_is_refused_with_a_reason),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
