/* How kernels reach memory, against tests/cuda/access.txt: a change of a number is a change of speed.
 * BERTH_GOLDEN_WRITE=1 writes the file anew. */
#include <stdio.h>
#include <stdlib.h>

#include "cases.h"
#include "cases_train.h"
#include "emu/control.h"
#include "engine/device/cuda/device_cuda.h"
#include "support.h"

#define GOLDEN "tests/cuda/access.txt"

static void add(const struct world_ask *shape, enum mode mode, bool deterministic)
{
    struct world_ask ask = *shape;
    char error[256] = "";
    struct world *world;

    ask.mode = mode;
    ask.deterministic = deterministic;
    ask.dtype = mode == MODE_FAST ? DTYPE_BF16 : DTYPE_F32;
    ask.seed = 1;
    world = world_open(&ask, &device_cuda, error, sizeof(error));
    assert_non_null(world);
    assert_null(ask.trains ? case_train_all(world) : case_all(world));
    world_close(world);
}

static void accesses_are_those_of_the_golden_file(void **context)
{
    /* Widths and heads of real models, few of everything. */
    const struct world_ask decode = {.dims = {256, 4, 1, 128, 192, 128, 1}, .sequences = 4,
                                     .sequence = {{1, 40, 0}, {1, 700, 0}, {1, 15, 1}, {1, 3, SEGMENT_NONE}}, .slots = 2,
                                     .slot = {{16, 0x7f}, {64, 0x7f}}};
    const struct world_ask prompts = {.dims = {128, 2, 1, 64, 64, 128, 1}, .sequences = 3,
                                      .sequence = {{200, 0, 0}, {1, 40, 0}, {64, 32, SEGMENT_NONE}}, .slots = 1, .slot = {{16, 0x7f}}};
    const struct world_ask narrow = {.dims = {64, 2, 1, 8, 64, 64, 1}, .sequences = 2, .sequence = {{20, 0, SEGMENT_NONE}, {1, 2, SEGMENT_NONE}}};
    const struct world_ask training = {.trains = true, .dims = {128, 2, 1, 64, 192, 128, 1}, .sequences = 4,
                                       .sequence = {{100, 0, 0}, {40, 0, 0}, {30, 0, 1}, {20, 0, SEGMENT_NONE}}, .slots = 2,
                                       .slot = {{16, 0x7f}, {80, 0x7f}}, .bias = true};
    const struct world_ask wide_training = {.trains = true, .dims = {256, 4, 1, 128, 192, 128, 1}, .sequences = 2,
                                            .sequence = {{100, 0, 0}, {20, 0, SEGMENT_NONE}}, .slots = 1, .slot = {{16, 0x7f}}};
    const struct world_ask narrow_training = {.trains = true, .dims = {64, 2, 1, 8, 64, 64, 1}, .sequences = 1, .sequence = {{70, 0, SEGMENT_NONE}}};
    static char golden[65536];
    FILE *file;
    size_t bytes;

    (void)context;
    emu_set(EMU_FORWARD, EMU_LAZY, 1);
    emu_count(true);
    add(&decode, MODE_FAST, true);
    add(&prompts, MODE_FAST, false);
    add(&narrow, MODE_FAST, false);
    add(&decode, MODE_EXACT, true);
    add(&training, MODE_FAST, true);
    add(&training, MODE_EXACT, true);
    add(&wide_training, MODE_FAST, true);
    add(&narrow_training, MODE_FAST, true);
    emu_count(false);
    if (getenv("BERTH_GOLDEN_WRITE") != NULL) {
        file = fopen(GOLDEN, "w");
        assert_non_null(file);
        fputs(emu_counts(), file);
        fclose(file);
    }
    file = fopen(GOLDEN, "r");
    assert_non_null(file);
    bytes = fread(golden, 1, sizeof(golden) - 1, file);
    fclose(file);
    golden[bytes] = 0;
    if (strcmp(golden, emu_counts()) != 0)
        fail_msg("accesses differ from %s (BERTH_GOLDEN_WRITE=1 takes these):\n%s", GOLDEN, emu_counts());
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(accesses_are_those_of_the_golden_file)};

#ifdef __SANITIZE_ADDRESS__
    (void)tests;
    return 0;
#else
    return cmocka_run_group_tests(tests, NULL, NULL);
#endif
}
