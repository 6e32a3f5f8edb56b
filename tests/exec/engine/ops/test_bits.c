/* A row's bits: alone or in a mixed batch, its prompt whole or in chunks, on one thread or three, they are the same, for every set of
 * kernels. The whole chain of ops runs, so a slip anywhere shows. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/ops/ref/ref.h"
#include "rig.h"

/* Prompts and decodes of all slots, of the base, and of nobody's slot; 225 rows. */
static const struct rig_plan mixed = {
    .sequences = 10,
    .sequence = {{33, 0, 0, 0, 1}, {1, 40, 0, 1, 2}, {16, 16, 1, 2, 3}, {1, 0, 1, 3, 4}, {65, 3, 2, 4, 5}, {1, 150, 2, 5, 6},
                 {17, 0, 3, 6, 7}, {15, 30, 4, 7, 8}, {1, 15, SEGMENT_NONE, 8, 9}, {75, 0, SEGMENT_NONE, 9, 10}},
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

    for (int32_t i = 0; i < 225 * vocabulary; i++)
        if (float_bits(expected[i]) != float_bits(found[i]) || !isfinite(found[i]))
            fail_msg("%s, hidden %d, %s, %s: row %d, logit %d: %a and %a", kernel_set_name(set), rig->config.dims.hidden,
                     rig->config.mode == MODE_EXACT ? "exact" : "fast", what, i / vocabulary, i % vocabulary, (double)expected[i],
                     (double)found[i]);
}

static void all_ways(struct rig *rig, enum kernel_set set)
{
    const size_t bytes = 225 * (size_t)rig->config.dims.vocabulary * sizeof(float);
    float *expected = malloc(bytes);
    float *found = malloc(bytes);
    static const int32_t chunks[] = {1, 7, 16, 33};
    struct dev *dev = rig_device(rig, set, 1);

    run_mixed(rig, dev, device_cpu.ops(dev), false, 300, expected);
    run_mixed(rig, dev, device_cpu.ops(dev), true, 300, found);
    expect_equal(rig, expected, found, "with empty segments", set);
    run_alone(rig, dev, 300, found);
    expect_equal(rig, expected, found, "alone", set);
    for (size_t i = 0; i < ARRAY_COUNT(chunks); i++) {
        run_alone(rig, dev, chunks[i], found);
        expect_equal(rig, expected, found, "alone and in chunks", set);
    }
    device_cpu.close(dev);
    for (uint32_t threads = 2; threads <= 3; threads++) {
        dev = rig_device(rig, set, threads);
        run_mixed(rig, dev, device_cpu.ops(dev), false, 33, found);
        expect_equal(rig, expected, found, threads == 2 ? "two threads" : "three threads", set);
        device_cpu.close(dev);
    }
    free(expected);
    free(found);
}

static void rows_keep_their_bits(void **state)
{
    static struct rig rig;

    (void)state;
    for (int d = 0; d < rig_dims_count; d++)
        for (enum mode mode = MODE_EXACT; mode <= MODE_FAST; mode++) {
            const struct rig_config config = {.dims = rig_dims[d], .mode = mode, .dtype = mode == MODE_FAST ? DTYPE_BF16 : DTYPE_F32,
                                              .odd = d % 2, .biased = d == 3 || d == 0, .seed = 5};

            rig_open(&rig, &config);
            RIG_EACH_SET(set)
                all_ways(&rig, set);
            rig_close(&rig);
        }
}

/* Not a bound, but far below what a misplaced row, head, key or adapter does. */
static void the_chain_stays_near_its_definition(void **state)
{
    static struct rig rig;

    (void)state;
    for (int d = 0; d < rig_dims_count; d++)
        for (enum mode mode = MODE_EXACT; mode <= MODE_FAST; mode++) {
            const struct rig_config config = {.dims = rig_dims[d], .mode = mode, .dtype = mode == MODE_FAST ? DTYPE_BF16 : DTYPE_F16,
                                              .odd = d % 2, .biased = d == 1, .seed = 6};
            const size_t count = 225 * (size_t)rig_dims[d].vocabulary;
            float *expected = malloc(count * sizeof(float));
            float *found = malloc(count * sizeof(float));

            rig_open(&rig, &config);
            RIG_EACH_SET(set) {
                struct dev *dev = rig_device(&rig, set, 2);
                double squares = 0;
                double differences = 0;

                if (set == KERNELS_SCALAR)
                    run_mixed(&rig, dev, &ops_ref, false, 300, expected);
                run_mixed(&rig, dev, device_cpu.ops(dev), false, 300, found);
                for (size_t i = 0; i < count; i++) {
                    double difference = (double)found[i] - (double)expected[i];

                    squares += (double)expected[i] * (double)expected[i];
                    differences += difference * difference;
                }
                if (!(sqrt(differences / squares) < (mode == MODE_EXACT ? 2e-5 : 1e-2)))
                    fail_msg("%s, dims %d, %s: the logits' relative difference is %g", kernel_set_name(set), d,
                             mode == MODE_EXACT ? "exact" : "fast", sqrt(differences / squares));
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
