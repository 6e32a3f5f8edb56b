/* Every kernel against the definition of its op, in every order of threads, in both modes, with cuBLAS and without. */
#include <stdio.h>
#include <stdlib.h>

#include "cases.h"
#include "emu/control.h"
#include "engine/device/cuda/device_cuda.h"
#include "shapes.h"
#include "support.h"

/* AddressSanitizer takes five times as long: there every kernel sees every shape once. */
#ifdef __SANITIZE_ADDRESS__
#define THOROUGH false
#else
#define THOROUGH true
#endif

static void try(struct world_ask ask, const char *name, enum emu_order order, enum emu_streams streams)
{
    char error[256] = "";
    const char *answer;
    struct world *world;

    ask.seed = test_seed(11);
    ask.dtype = ask.mode == MODE_FAST ? DTYPE_BF16 : ask.dtype;
    emu_set(order, streams, ask.seed);
    world = world_open(&ask, &device_cuda, error, sizeof(error));
    if (world == NULL)
        fail_msg("%s: %s", name, error);
    answer = case_all(world);
    if (answer != NULL)
        fail_msg("%s, %s, %s, order %s, seed %llu: %s", name, ask.mode == MODE_FAST ? "fast" : "exact",
                 ask.deterministic ? "deterministic" : "cuBLAS", emu_order_name(order), (unsigned long long)ask.seed, answer);
    world_close(world);
}

/* One shape in `step`, from `first`. */
static void ops_are_their_definitions(enum mode mode, bool deterministic, bool integers, size_t first, size_t step)
{
    for (size_t i = first; i < ARRAY_COUNT(shapes); i += step) {
        struct world_ask ask = shapes[i].ask;

        ask.mode = mode;
        ask.deterministic = deterministic;
        ask.integers = integers;
        ask.dtype = (enum dtype)(i % DTYPE_COUNT);
        try(ask, shapes[i].name, (enum emu_order)(i % EMU_ORDERS_COUNT), (enum emu_streams)(i % EMU_STREAMS_COUNT));
    }
}

static void exact_ops_are_their_definitions(void **context)
{
    (void)context;
    ops_are_their_definitions(MODE_EXACT, true, false, 0, THOROUGH ? 1 : 3);
}

static void fast_ops_are_their_definitions(void **context)
{
    (void)context;
    ops_are_their_definitions(MODE_FAST, false, false, THOROUGH ? 0 : 1, THOROUGH ? 1 : 2);
}

static void deterministic_ops_are_their_definitions(void **context)
{
    (void)context;
    ops_are_their_definitions(MODE_FAST, true, false, 0, THOROUGH ? 1 : 2);
}

static void sums_of_small_integers_have_no_error(void **context)
{
    (void)context;
    ops_are_their_definitions(MODE_FAST, true, true, 0, THOROUGH ? 1 : 4);
    ops_are_their_definitions(MODE_EXACT, true, true, 0, 4);
}

static void every_order_of_threads_and_streams_gives_the_same(void **context)
{
    (void)context;
    for (int order = 0; order < EMU_ORDERS_COUNT; order++) {
        for (int shape = 1; shape < (THOROUGH ? 7 : 5); shape += 2) {
            struct world_ask ask = shapes[shape].ask;

            ask.mode = MODE_FAST;
            ask.deterministic = order % 2 == 0;
            try(ask, shapes[shape].name, (enum emu_order)order, (enum emu_streams)(order % EMU_STREAMS_COUNT));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_ops_are_their_definitions),
        cmocka_unit_test(fast_ops_are_their_definitions),
        cmocka_unit_test(deterministic_ops_are_their_definitions),
        cmocka_unit_test(sums_of_small_integers_have_no_error),
        cmocka_unit_test(every_order_of_threads_and_streams_gives_the_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
