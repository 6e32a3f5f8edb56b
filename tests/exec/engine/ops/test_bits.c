/* A row's bits: alone or in a mixed batch, its prompt whole or in chunks, on one thread or three, they are the same, for every set of
 * kernels. The whole chain of ops runs, so a slip anywhere shows. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/ops/ref/ref.h"
#include "rig.h"

/* Prompts and decodes of all slots, of the base, and of nobody's slot. */
#define MIXED_ROWS 140
static const struct rig_plan mixed = {
    .sequences = 10,
    .sequence = {{33, 0, 0, 0, 1}, {1, 20, 0, 1, 2}, {16, 16, 1, 2, 3}, {1, 0, 1, 3, 4}, {20, 3, 2, 4, 5}, {1, 33, 2, 5, 6},
                 {17, 0, 3, 6, 7}, {15, 10, 4, 7, 8}, {1, 15, SEGMENT_NONE, 8, 9}, {35, 0, SEGMENT_NONE, 9, 10}},
};

static struct rig_plan only(int32_t s, int32_t from, int32_t rows)
{
    struct rig_plan plan = {.sequences = 1, .sequence = {mixed.sequence[s]}};

    plan.sequence[0].before = from;
    plan.sequence[0].rows = rows;
    return plan;
}

/* KV of what lies before each sequence's rows, in chunks of `chunk`. */
static void make_before(struct rig *rig, struct dev *dev, const struct ops *ops, int32_t chunk)
{
    rig_spoil(rig);
    for (int32_t s = 0; s < mixed.sequences; s++)
        for (int32_t at = 0; at < mixed.sequence[s].before; at += chunk) {
            int32_t rest = mixed.sequence[s].before - at;
            const struct rig_plan plan = only(s, at, rest < chunk ? rest : chunk);

            rig_batch(rig, &plan, false);
            rig_step(rig, dev, ops);
        }
}

/* Logits of all rows of the mixed batch, with each sequence's rows run alone in chunks. */
static void run_alone(struct rig *rig, struct dev *dev, int32_t chunk, float *ret_logits)
{
    const struct ops *ops = device_cpu.ops(dev);
    const int32_t vocabulary = rig->config.dims.vocabulary;

    make_before(rig, dev, ops, chunk);
    for (int32_t s = 0; s < mixed.sequences; s++)
        for (int32_t at = 0; at < mixed.sequence[s].rows; at += chunk) {
            int32_t rest = mixed.sequence[s].rows - at;
            const struct rig_plan plan = only(s, mixed.sequence[s].before + at, rest < chunk ? rest : chunk);

            rig_batch(rig, &plan, false);
            rig_step(rig, dev, ops);
            memcpy(ret_logits, rig->logits, (size_t)rig->now.rows * (size_t)vocabulary * sizeof(float));
            ret_logits += (int64_t)rig->now.rows * vocabulary;
        }
}

static void run_mixed(struct rig *rig, struct dev *dev, const struct ops *ops, bool hole, int32_t chunk, float *ret_logits)
{
    make_before(rig, dev, ops, chunk);
    rig_batch(rig, &mixed, hole);
    rig_step(rig, dev, ops);
    memcpy(ret_logits, rig->logits, (size_t)rig->now.rows * (size_t)rig->config.dims.vocabulary * sizeof(float));
}

static void expect_equal(const struct rig *rig, const float *expected, const float *found, const char *what, enum kernel_set set)
{
    const int32_t vocabulary = rig->config.dims.vocabulary;

    for (int32_t i = 0; i < MIXED_ROWS * vocabulary; i++)
        if (float_bits(expected[i]) != float_bits(found[i]) || !isfinite(found[i]))
            fail_msg("%s, hidden %d, %s, %s: row %d, logit %d: %a and %a", kernel_set_name(set), rig->config.dims.hidden,
                     rig->config.mode == MODE_EXACT ? "exact" : "fast", what, i / vocabulary, i % vocabulary, (double)expected[i],
                     (double)found[i]);
}

/* The best set goes all ways; the others are the same text, and go some. */
static void all_ways(struct rig *rig, enum kernel_set set)
{
    const bool all = set == kernel_set_best();
    const size_t bytes = MIXED_ROWS * (size_t)rig->config.dims.vocabulary * sizeof(float);
    float *expected = malloc(bytes);
    float *found = malloc(bytes);
    static const int32_t chunks[] = {1, 7, 16, 33};
    struct dev *dev = rig_device(rig, set, 1);

    run_mixed(rig, dev, device_cpu.ops(dev), false, 300, expected);
    if (all) {
        run_mixed(rig, dev, device_cpu.ops(dev), true, 300, found);
        expect_equal(rig, expected, found, "with empty segments", set);
        run_alone(rig, dev, 300, found);
        expect_equal(rig, expected, found, "alone", set);
    }
    for (size_t i = 0; i < ARRAY_COUNT(chunks); i++) {
        if (!all && chunks[i] != 7)
            continue;
        run_alone(rig, dev, chunks[i], found);
        expect_equal(rig, expected, found, "alone and in chunks", set);
    }
    device_cpu.close(dev);
    for (uint32_t threads = 2; threads <= (all ? 3 : 2); threads++) {
        dev = rig_device(rig, set, threads);
        run_mixed(rig, dev, device_cpu.ops(dev), false, 33, found);
        expect_equal(rig, expected, found, threads == 2 ? "two threads" : "three threads", set);
        device_cpu.close(dev);
    }
    free(expected);
    free(found);
}

static const struct {
    int dims;
    enum mode mode;
    enum dtype dtype;
} models[] = {{0, MODE_EXACT, DTYPE_F32}, {0, MODE_FAST, DTYPE_BF16}, {1, MODE_FAST, DTYPE_BF16}, {2, MODE_FAST, DTYPE_BF16},
              {3, MODE_EXACT, DTYPE_F16}};

static void model_open(struct rig *rig, size_t i)
{
    const struct rig_config config = {.dims = rig_dims[models[i].dims], .mode = models[i].mode, .dtype = models[i].dtype,
                                      .odd = models[i].dims % 2, .biased = i % 2 == 0, .seed = test_seed(5 + i)};

    rig_open(rig, &config);
}

static void rows_keep_their_bits(void **state)
{
    static struct rig rig;

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(models); i++) {
        model_open(&rig, i);
        /* Plain C takes its time over the largest. */
        RIG_EACH_SET(set)
            if (set != KERNELS_SCALAR || models[i].dims != 2)
                all_ways(&rig, set);
        rig_close(&rig);
    }
}

/* Not a bound, but far below what a misplaced row, head, key or adapter does. */
static void the_chain_stays_near_its_definition(void **state)
{
    static struct rig rig;

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(models); i++) {
        const size_t count = MIXED_ROWS * (size_t)rig_dims[models[i].dims].vocabulary;
        float *expected = malloc(count * sizeof(float));
        float *found = malloc(count * sizeof(float));

        model_open(&rig, i);
        RIG_EACH_SET(set) {
            struct dev *dev = rig_device(&rig, set, 2);
            double squares = 0;
            double differences = 0;

            if (set == KERNELS_SCALAR)
                run_mixed(&rig, dev, &ops_ref, false, 300, expected);
            run_mixed(&rig, dev, device_cpu.ops(dev), false, 300, found);
            for (size_t j = 0; j < count; j++) {
                double difference = (double)found[j] - (double)expected[j];

                squares += (double)expected[j] * (double)expected[j];
                differences += difference * difference;
            }
            if (!(sqrt(differences / squares) < (models[i].mode == MODE_EXACT ? 2e-5 : 1e-2)))
                fail_msg("%s, model %zu: the logits' relative difference is %g", kernel_set_name(set), i, sqrt(differences / squares));
            device_cpu.close(dev);
        }
        rig_close(&rig);
        free(expected);
        free(found);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_keep_their_bits),
        cmocka_unit_test(the_chain_stays_near_its_definition),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
