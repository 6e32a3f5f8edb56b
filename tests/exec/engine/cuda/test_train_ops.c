/* Every kernel of training against the definition of its op, in both modes and in every order of threads. */
#include <stdio.h>

#include "cases_back.h"
#include "cases_train.h"
#include "emu/control.h"
#include "engine/device/cuda/device_cuda.h"
#include "promises_train.h"
#include "support.h"
#include "train_shapes.h"

/* AddressSanitizer takes five times as long: there every kernel sees a few shapes. */
#ifdef __SANITIZE_ADDRESS__
#define STEP 3
#else
#define STEP 1
#endif

static void try(size_t shape, enum mode mode, bool integers, enum emu_order order, const char *(*run_case)(struct world *))
{
    struct world_ask ask = train_shapes[shape].ask;
    char error[256] = "";
    const char *answer;
    struct world *world;

    ask.mode = mode;
    ask.deterministic = true;
    ask.integers = integers;
    ask.dtype = mode == MODE_FAST ? DTYPE_BF16 : (enum dtype)(shape % DTYPE_COUNT);
    ask.seed = test_seed(21);
    emu_set(order, (enum emu_streams)(shape % EMU_STREAMS_COUNT), ask.seed);
    world = world_open(&ask, &device_cuda, error, sizeof(error));
    if (world == NULL)
        fail_msg("%s: %s", train_shapes[shape].name, error);
    answer = run_case(world);
    if (answer != NULL)
        fail_msg("%s, %s, order %s, seed %llu: %s", train_shapes[shape].name, mode == MODE_FAST ? "fast" : "exact", emu_order_name(order),
                 (unsigned long long)ask.seed, answer);
    world_close(world);
}

static void exact_ops_go_back_as_defined(void **context)
{
    (void)context;
    for (size_t i = 0; i < ARRAY_COUNT(train_shapes); i += STEP)
        try(i, MODE_EXACT, false, (enum emu_order)(i % EMU_ORDERS_COUNT), case_train_all);
}

static void fast_ops_go_back_as_defined(void **context)
{
    (void)context;
    for (size_t i = STEP - 1; i < ARRAY_COUNT(train_shapes); i += STEP)
        try(i, MODE_FAST, false, (enum emu_order)((i + 1) % EMU_ORDERS_COUNT), case_train_all);
}

static void sums_of_small_integers_have_no_error(void **context)
{
    (void)context;
    for (size_t i = STEP / 2; i < ARRAY_COUNT(train_shapes); i += STEP)
        try(i, i % 2 == 0 ? MODE_FAST : MODE_EXACT, true, (enum emu_order)((i + 2) % EMU_ORDERS_COUNT), case_train_all);
}

/* Of a batch with several of everything. */
static void every_order_of_threads_gives_the_same(void **context)
{
    (void)context;
    for (int order = 0; order < EMU_ORDERS_COUNT; order += STEP)
        try(2, order % 2 == 0 ? MODE_FAST : MODE_EXACT, false, (enum emu_order)order, case_train_all);
}

static void a_job_has_the_bits_it_has_alone(void **context)
{
    (void)context;
    for (size_t i = 1 % STEP; i < ARRAY_COUNT(train_shapes); i += STEP)
        try(i, i % 2 == 0 ? MODE_FAST : MODE_EXACT, false, (enum emu_order)((i + 3) % EMU_ORDERS_COUNT), promise_back_alone);
}

static void a_sequence_has_the_bits_it_has_alone(void **context)
{
    (void)context;
    for (size_t i = STEP - 1; i < ARRAY_COUNT(train_shapes); i += STEP)
        try(i, i % 2 == 0 ? MODE_FAST : MODE_EXACT, false, (enum emu_order)((i + 4) % EMU_ORDERS_COUNT), promise_rows_back_alone);
}

/* More pieces than sums are kept of at once. */
static void a_norm_of_many_numbers(void **context)
{
    (void)context;
    try(0, MODE_EXACT, false, EMU_GREEDY, case_sumsq_long);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_ops_go_back_as_defined),
        cmocka_unit_test(fast_ops_go_back_as_defined),
        cmocka_unit_test(sums_of_small_integers_have_no_error),
        cmocka_unit_test(every_order_of_threads_gives_the_same),
        cmocka_unit_test(a_job_has_the_bits_it_has_alone),
        cmocka_unit_test(a_sequence_has_the_bits_it_has_alone),
        cmocka_unit_test(a_norm_of_many_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
