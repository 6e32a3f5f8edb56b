/* FLOPs of training Llama-3.1-8B at 4,096 tokens as they are stated for it, and a roofline that one of the two sides bounds. */
#include "model/training_work.h"

#include <math.h>

#include "model/footprint.h"
#include "support.h"

#define ROWS 4096

static struct training_plan plan_of(enum training_kept kept)
{
    return (struct training_plan){.act_bytes = 2, .kept = kept, .rows = ROWS, .samples = 1, .sample_rows = ROWS, .jobs = 1, .rank = 16,
                                  .head_rows = 512};
}

static struct training_work work_of(enum training_kept kept)
{
    const struct training_plan plan = plan_of(kept);

    return training_work(shape_find("llama-8b"), &plan);
}

/* Of the base, without adapters: GF a token. */
static double base_gf(const struct training_work *work, enum training_way way)
{
    const struct training_cost *cost = work->cost[way];

    return (cost[TRAINING_LINEAR].flops + cost[TRAINING_ATTEND].flops + cost[TRAINING_HEAD].flops) / ROWS * 1e-9;
}

static void stated(const char *what, double got, double figure)
{
    if (fabs(got - figure) > 0.05)
        fail_msg("%s: got %.4g, stated %.4g", what, got, figure);
}

static void llama_8b_costs_33_8_gf_a_token_and_49_9_with_everything_twice(void **state)
{
    const struct training_work work = work_of(TRAINING_KEEPS_ALL);
    const double there = base_gf(&work, TRAINING_THERE);
    const double back = base_gf(&work, TRAINING_BACK);

    (void)state;
    stated("there and back", there + back, 33.8);
    stated("all of it there twice", 2 * there + back, 49.9);
    assert_true(base_gf(&work, TRAINING_AGAIN) == 0);
    stated("4 FLOPs a weight", (there + back) - 7 * work.cost[TRAINING_THERE][TRAINING_ATTEND].flops / 2 / ROWS * 1e-9,
           4e-9 * (double)footprint_step_parameters(shape_find("llama-8b")));
}

/* 2 FLOPs a weight of q, k, v, o, gate and up, which are 159.4 million a layer, and attention's 1.07 GF. */
static void a_layer_made_again_leaves_out_its_last_product(void **state)
{
    const struct training_work work = work_of(TRAINING_KEEPS_INPUTS);
    const struct training_work dear = work_of(TRAINING_KEEPS_DEAR);

    (void)state;
    stated("again", base_gf(&work, TRAINING_AGAIN), 2 * 32 * 159.38e6 * 1e-9 + 1.07);
    assert_true(base_gf(&dear, TRAINING_AGAIN) == 0);
    assert_true(dear.cost[TRAINING_AGAIN][TRAINING_ROWS].bytes > 0);
    assert_true(dear.cost[TRAINING_AGAIN][TRAINING_ROWS].bytes < work.cost[TRAINING_AGAIN][TRAINING_ROWS].bytes);
}

/* A parameter of an adapter costs 2 FLOPs a token there; 2 in dx or du, 2 in its gradient, and A 2 in A x again. */
static void adapters_cost_by_their_parameters(void **state)
{
    const struct training_work work = work_of(TRAINING_KEEPS_ALL);
    const struct shape *shape = shape_find("llama-8b");
    const double parameters = (double)footprint_adapter_parameters(shape, LORA_ALL_LINEAR, 16);
    const double of_a = 16.0 * 32 * (6 * 4096 + 14336);

    (void)state;
    assert_true(work.cost[TRAINING_THERE][TRAINING_ADAPTERS].flops == ROWS * 2 * parameters);
    assert_true(work.cost[TRAINING_BACK][TRAINING_ADAPTERS].flops == ROWS * (4 * parameters + 2 * of_a));
    assert_true(work.cost[TRAINING_BACK][TRAINING_UPDATE].bytes == 28 * parameters);
}

static void the_slower_side_bounds(void **state)
{
    const struct training_work work = work_of(TRAINING_KEEPS_ALL);
    const double flops = training_work_flops(&work);
    double bytes = 0;

    (void)state;
    for (int way = 0; way < TRAINING_WAYS_COUNT; way++)
        for (int op = 0; op < TRAINING_OPS_COUNT; op++)
            bytes += work.cost[way][op].bytes;
    assert_true(fabs(training_work_s(&work, 1e12, 1e30) / (flops / 1e12) - 1) < 1e-12);
    assert_true(fabs(training_work_s(&work, 1e30, 1e12) / (bytes / 1e12) - 1) < 1e-12);
    assert_true(training_work_s(&work, 989e12, 3.35e12) > flops / 989e12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_8b_costs_33_8_gf_a_token_and_49_9_with_everything_twice),
        cmocka_unit_test(a_layer_made_again_leaves_out_its_last_product),
        cmocka_unit_test(adapters_cost_by_their_parameters),
        cmocka_unit_test(the_slower_side_bounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
