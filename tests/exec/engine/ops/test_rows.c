/* The ops inside a row, of every set of kernels, against their definitions without the last rounding: the definition runs on an exact
 * device, whose outputs are f32. n 2^-24 counts roundings; sums of n positive terms in lanes of sixteen cost at most n/16 + 4 of them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/ops/ref/ref.h"
#include "rig.h"

static const int32_t row_counts[] = {1, 15, 65};

struct pair {
    struct rig rig;
    struct dev *exact; /* runs the definitions */
};

static struct pair *pair_open(int dims, enum mode mode, enum dtype dtype, int32_t rows)
{
    static struct pair pair;
    const struct rig_config config = {.dims = rig_dims[dims], .mode = mode, .dtype = dtype, .odd = 1, .biased = true, .seed = 21};
    const struct rig_plan plan = {.sequences = 2, .sequence = {{rows, 5, SEGMENT_NONE, 0, 1}, {1, 0, SEGMENT_NONE, 1, 2}}};
    enum mode kept = mode;

    rig_open(&pair.rig, &config);
    rig_batch(&pair.rig, &plan, false);
    pair.rig.config.mode = MODE_EXACT;
    pair.exact = rig_device(&pair.rig, KERNELS_SCALAR, 1);
    pair.rig.config.mode = kept;
    return &pair;
}

static void pair_close(struct pair *pair)
{
    device_cpu.close(pair->exact);
    rig_close(&pair->rig);
}

static void expect_near(const struct rig *rig, enum kernel_set set, const char *op, int64_t at, double found, double expected, double error)
{
    if (!(fabs(found - expected) <= error + rig_half_ulp(rig->config.mode, expected)))
        fail_msg("%s, %s, %s: number %lld is %.9g, expected %.9g +- %.3g and a rounding", kernel_set_name(set), op,
                 rig->config.mode == MODE_EXACT ? "exact" : "fast", (long long)at, found, expected, error);
}

static void embed_widens_rows(struct pair *pair)
{
    struct rig *rig = &pair->rig;
    const size_t bytes = (size_t)rig->now.rows * (size_t)rig->config.dims.hidden * sizeof(float);

    ref_embed(pair->exact, rig->x, &rig->embed, &rig->batch);
    RIG_EACH_SET(set) {
        struct dev *dev = rig_device(rig, set, 2);

        memset(rig->wide, 0xff, bytes);
        device_cpu.ops(dev)->embed(dev, rig->wide, &rig->embed, &rig->batch);
        assert_memory_equal(rig->x, rig->wide, bytes);
        device_cpu.close(dev);
    }
}

static void norm_adds_and_scales(struct pair *pair, bool add)
{
    struct rig *rig = &pair->rig;
    const int64_t count = (int64_t)rig->now.rows * rig->config.dims.hidden;
    float *from = malloc((size_t)count * 8);
    float *x = malloc((size_t)count * 8);
    float *y = malloc((size_t)count * 8);

    for (int64_t i = 0; i < 2 * count; i++)
        from[i] = 3 * rig_uniform(&rig->config.seed);
    memcpy(x, from, (size_t)count * 4);
    ref_norm(pair->exact, y, x, add ? from + count : NULL, &rig->norm, 1e-5f, &rig->batch);
    RIG_EACH_SET(set) {
        struct dev *dev = rig_device(rig, set, 2);

        memcpy(rig->x, from, (size_t)count * 4);
        device_cpu.ops(dev)->norm(dev, rig->y, rig->x, add ? from + count : NULL, &rig->norm, 1e-5f, &rig->batch);
        assert_memory_equal(rig->x, x, (size_t)count * 4);
        for (int64_t i = 0; i < count; i++)
            expect_near(rig, set, "norm", i, rig_act(rig->config.mode, rig->y, i), (double)y[i],
                        fabs((double)y[i]) * (rig->config.dims.hidden / 16.0 + 10) * 0x1p-24);
        device_cpu.close(dev);
    }
    free(from);
    free(x);
    free(y);
}

static void rope_turns_and_stores(struct pair *pair, bool gains)
{
    struct rig *rig = &pair->rig;
    const struct dims *d = &rig->config.dims;
    const struct weight none = {0};
    const struct weight *q_gain = gains ? &rig->layer[0].q_norm : &none;
    const struct weight *k_gain = gains ? &rig->layer[0].k_norm : &none;
    const int64_t queries = (int64_t)rig->now.rows * d->heads * d->head_dim;
    const int64_t width = (d->heads + 2 * d->kv_heads) * d->head_dim;
    const int64_t keys = rig->kv_bytes / (int64_t)act_bytes(rig->config.mode);
    const double roundings = (d->head_dim / 16.0 + 14) * 0x1p-24;
    float *q = malloc((size_t)queries * 4);
    float *k = malloc((size_t)keys * 4);
    float *v = malloc((size_t)keys * 4);

    for (int64_t i = 0; i < rig->now.rows * width; i++)
        rig->wide[i] = rig_uniform(&rig->config.seed);
    memset(k, 0xff, (size_t)keys * 4);
    memset(v, 0xff, (size_t)keys * 4);
    ref_rope_store(pair->exact, q, k, v, rig->wide, q_gain, k_gain, 1e-5f, rig->angles, &rig->batch);
    RIG_EACH_SET(set) {
        struct dev *dev = rig_device(rig, set, 2);

        rig_spoil(rig);
        device_cpu.ops(dev)->rope_store(dev, rig->q, rig->kv[0][0], rig->kv[0][1], rig->wide, q_gain, k_gain, 1e-5f, rig->angles,
                                        &rig->batch);
        /* Two terms of at most 1.5 |x| / rms each. */
        for (int64_t i = 0; i < queries; i++)
            expect_near(rig, set, "rope, q", i, rig_act(rig->config.mode, rig->q, i), (double)q[i], (gains ? 8 : 2) * roundings);
        for (int64_t i = 0; i < keys; i++) {
            double key = rig_act(rig->config.mode, rig->kv[0][0], i);
            double value = rig_act(rig->config.mode, rig->kv[0][1], i);

            assert_int_equal(isnan(key), isnan(k[i]));
            assert_int_equal(isnan(value), isnan(v[i]));
            if (isnan(key))
                continue;
            expect_near(rig, set, "rope, k", i, key, (double)k[i], (gains ? 8 : 2) * roundings);
            expect_near(rig, set, "rope, v", i, value, (double)v[i], 0);
        }
        device_cpu.close(dev);
    }
    free(q);
    free(k);
    free(v);
}

static void swiglu_gates(struct pair *pair)
{
    struct rig *rig = &pair->rig;
    const int64_t count = (int64_t)rig->now.rows * rig->config.dims.ffn;
    static const float edges[] = {0, -0.0f, 88.5f, -88.5f, 200, -200, 1e30f, -1e30f};
    float *y = malloc((size_t)count * 4);

    for (int64_t i = 0; i < 2 * count; i++)
        rig->wide[i] = (i % 5 == 0 ? 40.0f : 4.0f) * rig_uniform(&rig->config.seed);
    memcpy(rig->wide, edges, sizeof(edges));
    ref_swiglu(pair->exact, y, rig->wide, &rig->batch);
    RIG_EACH_SET(set) {
        struct dev *dev = rig_device(rig, set, 2);

        device_cpu.ops(dev)->swiglu(dev, rig->y, rig->wide, &rig->batch);
        /* e^-x is not taken beyond 87, where the answer is below 1e-36 of x. */
        for (int64_t i = 0; i < count; i++)
            expect_near(rig, set, "swiglu", i, rig_act(rig->config.mode, rig->y, i), (double)y[i],
                        fabs((double)y[i]) * 16 * 0x1p-24 + 1e-36 * fabs((double)rig->wide[i]) * 4);
        device_cpu.close(dev);
    }
    free(y);
}

static void rows_agree_with_their_definitions(void **state)
{
    (void)state;
    for (int dims = 0; dims < rig_dims_count; dims++)
        for (enum mode mode = MODE_EXACT; mode <= MODE_FAST; mode++)
            for (size_t i = 0; i < ARRAY_COUNT(row_counts); i++) {
                struct pair *pair =
                    pair_open(dims, mode, mode == MODE_FAST ? DTYPE_BF16 : i % 2 == 0 ? DTYPE_F32 : DTYPE_F16, row_counts[i]);

                embed_widens_rows(pair);
                norm_adds_and_scales(pair, i % 2 == 0);
                norm_adds_and_scales(pair, i % 2 == 1);
                rope_turns_and_stores(pair, i % 2 == 1);
                swiglu_gates(pair);
                pair_close(pair);
            }
}

static void expect_pick(struct rig *rig, struct dev *exact, int best)
{
    const int32_t outputs = rig->now.outputs;
    const int32_t vocabulary = rig->config.dims.vocabulary;
    const size_t bytes = (size_t)outputs * (size_t)(best > 0 ? best : 1) * 4;
    float lse[RIG_ROWS];
    float found_lse[RIG_ROWS];
    float *logit = malloc(bytes);
    float *found_logit = malloc(bytes);
    int32_t *id = malloc(bytes);
    int32_t *found_id = malloc(bytes);

    memset(logit, 0, bytes);
    memset(found_logit, 0, bytes);
    memset(id, 0, bytes);
    memset(found_id, 0, bytes);
    ref_pick(exact, lse, logit, id, rig->logits, best, &rig->batch);
    RIG_EACH_SET(set) {
        struct dev *dev = rig_device(rig, set, 2);

        device_cpu.ops(dev)->pick(dev, found_lse, found_logit, found_id, rig->logits, best, &rig->batch);
        assert_memory_equal(id, found_id, bytes);
        assert_memory_equal(logit, found_logit, bytes);
        for (int32_t i = 0; i < outputs; i++) {
            double error = (vocabulary / 16.0 + 30) * 0x1p-24 + fabs((double)lse[i]) * 0x1p-23;

            assert_int_equal(isnan(lse[i]), isnan(found_lse[i]));
            if (!isnan(lse[i]) && !(fabs((double)lse[i] - (double)found_lse[i]) <= error))
                fail_msg("%s: the log of the sum is %.9g, expected %.9g +- %.3g", kernel_set_name(set), (double)found_lse[i],
                         (double)lse[i], error);
        }
        device_cpu.close(dev);
    }
    free(logit);
    free(found_logit);
    free(id);
    free(found_id);
}

static void pick_orders_and_breaks_ties(void **state)
{
    static const int bests[] = {0, 1, 2, 17, 101};
    struct pair *pair = pair_open(1, MODE_EXACT, DTYPE_F32, 5);
    struct rig *rig = &pair->rig;
    const int32_t vocabulary = rig->config.dims.vocabulary;

    (void)state;
    for (int round = 0; round < 6; round++) {
        for (int64_t i = 0; i < (int64_t)rig->now.outputs * vocabulary; i++)
            switch (round) {
            case 0: rig->logits[i] = 20 * rig_uniform(&rig->config.seed); break;
            case 1: rig->logits[i] = (float)draw_below(&rig->config.seed, 4); break; /* many ties */
            case 2: rig->logits[i] = (float)i; break;
            case 3: rig->logits[i] = (float)-i; break;
            case 4: rig->logits[i] = i % 3 == 0 ? -INFINITY : (float)(i % 7); break;
            default: rig->logits[i] = i % 5 == 0 ? NAN : (float)(i % 7); break;
            }
        for (size_t b = 0; b < ARRAY_COUNT(bests); b++)
            expect_pick(rig, pair->exact, bests[b]);
    }
    pair_close(pair);
}

static void pick_takes_256(void **state)
{
    struct pair *pair = pair_open(2, MODE_FAST, DTYPE_BF16, 2);

    (void)state;
    for (int64_t i = 0; i < 3 * 300; i++)
        pair->rig.logits[i] = 9 * rig_uniform(&pair->rig.config.seed);
    expect_pick(&pair->rig, pair->exact, PICK_MAX);
    pair_close(pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_agree_with_their_definitions),
        cmocka_unit_test(pick_orders_and_breaks_ties),
        cmocka_unit_test(pick_takes_256),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
