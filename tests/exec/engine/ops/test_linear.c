/* linear and head of every set of kernels against sums in double: |error| <= 4 sqrt(k) 2^-24 sum |a b| + half a unit of the output. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/ops/ref/ref.h"
#include "rig.h"

static const int32_t row_counts[] = {1, 15, 16, 17, 65};

struct bound {
    double value, error;
};

static double slack(int32_t k, double sum_of_sizes)
{
    return 4 * sqrt((double)k) * 0x1p-24 * sum_of_sizes;
}

static struct bound product_bound(enum mode mode, const act *x, const struct weight *w, int32_t out)
{
    struct bound bound = {0, 0};
    double sizes = 0;

    for (int32_t k = 0; k < w->in; k++) {
        double term = rig_act(mode, x, k) * weight_load(w, out, k);

        bound.value += term;
        sizes += fabs(term);
    }
    if (w->bias != NULL) {
        double bias = (double)dtype_load(w->dtype, w->bias, (size_t)out);

        bound.value += bias;
        sizes += fabs(bias);
    }
    bound.error = slack(w->in, sizes) + rig_half_ulp(MODE_EXACT, bound.value);
    return bound;
}

/* A x of one rank, and how far off its rounding to act may be: a sum near the middle of two numbers may go to either. */
static struct bound shrink_bound(enum mode mode, const act *x, const char *a, int32_t rank, int32_t in)
{
    struct bound bound = {0, 0};
    double sizes = 0;
    double exact = 0;
    double near;

    for (int32_t k = 0; k < in; k++) {
        double term = rig_act(mode, x, k) * rig_act(mode, a, (int64_t)rank * in + k);

        exact += term;
        sizes += fabs(term);
    }
    near = slack(in, sizes) + rig_half_ulp(MODE_EXACT, exact);
    if (mode == MODE_EXACT)
        return (struct bound){exact, near};
    bound.value = (double)bf16_widen(bf16_round((float)exact));
    bound.error = fmax(fabs((double)bf16_widen(bf16_round((float)(exact - near))) - bound.value),
                       fabs((double)bf16_widen(bf16_round((float)(exact + near))) - bound.value));
    return bound;
}

static void adapter_bound(const struct rig *rig, const struct lora_slot *slot, int layer, enum lora_module module, const act *x,
                          const struct bound u[LORA_RANK_MAX], int32_t out, struct bound *bound)
{
    const enum mode mode = rig->config.mode;
    struct lora_layout layout;
    int64_t layer_bytes = lora_layout_of(&rig->config.dims, mode, slot->rank, slot->modules, &layout);
    const char *b = rig->pool + slot->offset + layer * layer_bytes + layout.b[module];
    const int32_t width = lora_module_out(&rig->config.dims, module);
    double sizes = 0;
    double value = 0;

    (void)x;
    for (int32_t r = 0; r < slot->rank; r++) {
        int64_t at = mode == MODE_EXACT ? (int64_t)out * slot->rank + r : ((int64_t)(r / 2) * width + out) * 2 + r % 2;
        double factor = rig_act(mode, b, at);

        value += factor * u[r].value;
        sizes += fabs(factor * u[r].value);
        bound->error += fabs(factor) * u[r].error;
    }
    bound->value += value;
    bound->error += slack(slot->rank, sizes) + rig_half_ulp(MODE_EXACT, bound->value) + rig_half_ulp(MODE_EXACT, value);
}

/* One linear of a group, on whatever lies in rig->y, at layer 1. */
static void expect_group(struct rig *rig, enum lora_group group, const struct weight *w, int n, enum kernel_set set)
{
    const enum mode mode = rig->config.mode;
    const struct lora lora = {.pool = rig->pool, .slot = rig->slot, .layer = 1, .group = group};
    struct dev *dev = rig_device(rig, set, 2);
    int32_t width = 0;

    for (int i = 0; i < n; i++)
        width += w[i].out;
    for (int64_t i = 0; i < (int64_t)rig->now.rows * width; i++)
        rig->wide[i] = NAN;
    device_cpu.ops(dev)->linear(dev, rig->wide, rig->y, w, n, &lora, &rig->batch);
    for (int32_t row = 0; row < rig->now.rows; row++) {
        const act *x = rig->y + (int64_t)row * w[0].in * (int64_t)act_bytes(mode);
        const float *y = rig->wide + (int64_t)row * width;
        const struct lora_slot *slot = NULL;
        int64_t a_row = 0;
        int i = 0;

        for (int32_t s = 0; s < rig->now.segments; s++)
            if (row >= rig->segment[s].row && row < rig->segment[s].row + rig->segment[s].rows)
                slot = &rig->slot[rig->segment[s].slot];
        for (int module = 0; module < LORA_MODULE_COUNT; module++) {
            struct bound u[LORA_RANK_MAX];
            bool present = slot != NULL && (slot->modules >> module & 1) != 0;

            if (lora_group_of((enum lora_module)module) != group)
                continue;
            if (present) {
                struct lora_layout layout;
                int64_t layer_bytes = lora_layout_of(&rig->config.dims, mode, slot->rank, slot->modules, &layout);

                for (int32_t r = 0; r < slot->rank; r++)
                    u[r] = shrink_bound(mode, x, rig->pool + slot->offset + layer_bytes + layout.a[group], (int32_t)a_row++, w[i].in);
            }
            for (int32_t out = 0; out < w[i].out; out++) {
                struct bound bound = product_bound(mode, x, &w[i], out);

                if (present)
                    adapter_bound(rig, slot, 1, (enum lora_module)module, x, u, out, &bound);
                if (!(fabs((double)y[out] - bound.value) <= bound.error))
                    fail_msg("%s, %s, group %d, module %d, in %d, rows %d: row %d, out %d is %.9g, expected %.9g +- %.3g",
                             kernel_set_name(set), mode == MODE_EXACT ? "exact" : "fast", (int)group, module, w[i].in, rig->now.rows, row,
                             out, (double)y[out], bound.value, bound.error);
            }
            y += w[i++].out;
        }
    }
    device_cpu.close(dev);
}

/* A base, an adapter of a few rows, a longer one, nobody's slot; or one adapter alone. */
static struct rig_plan plan_of(int32_t rows)
{
    struct rig_plan plan = {.sequences = 1, .sequence = {{rows, 0, 2, 0, 3}}};

    if (rows >= 15)
        plan = (struct rig_plan){
            .sequences = 6,
            .sequence = {{1, 0, 0, 0, 3}, {2, 0, 1, 1, 4}, {rows - 10, 0, 2, 2, 5}, {2, 0, 3, 3, 6}, {4, 0, 4, 4, 7}, {1, 0, SEGMENT_NONE, 5, 8}},
        };
    return plan;
}

static void expect_all(int dims, enum mode mode, enum dtype dtype, int odd)
{
    static struct rig rig;
    const struct rig_config config = {.dims = rig_dims[dims], .mode = mode, .dtype = dtype, .odd = odd, .biased = dims % 2 == 0, .seed = 11};
    uint64_t seed = test_seed(12);

    rig_open(&rig, &config);
    for (size_t i = 0; i < ARRAY_COUNT(row_counts); i++) {
        const struct rig_plan plan = plan_of(row_counts[i]);

        rig_batch(&rig, &plan, i % 2 == 1);
        rig_fill_act(mode, rig.y, (int64_t)rig.now.rows * (rig.config.dims.hidden + rig.config.dims.ffn + 1024), &seed);
        RIG_EACH_SET(set) {
            expect_group(&rig, LORA_GROUP_QKV, rig.layer[1].qkv, 3, set);
            if (i % 2 == 0)
                expect_group(&rig, LORA_GROUP_O, &rig.layer[1].o, 1, set);
            if (i % 2 == 1 && dims == 0)
                expect_group(&rig, LORA_GROUP_GATE_UP, rig.layer[1].gate_up, 2, set);
            if (i != 2)
                expect_group(&rig, LORA_GROUP_DOWN, &rig.layer[1].down, 1, set);
        }
    }
    rig_close(&rig);
}

static void exact_over_every_number_type(void **state)
{
    (void)state;
    for (int odd = 0; odd < 2; odd++) {
        expect_all(0, MODE_EXACT, DTYPE_F32, odd);
        expect_all(0, MODE_EXACT, DTYPE_F16, odd);
        expect_all(3, MODE_EXACT, DTYPE_BF16, odd);
    }
    expect_all(1, MODE_EXACT, DTYPE_F32, 1);
    expect_all(3, MODE_EXACT, DTYPE_F16, 1);
}

static void fast_over_bf16(void **state)
{
    (void)state;
    for (int dims = 0; dims < rig_dims_count; dims++)
        expect_all(dims, MODE_FAST, DTYPE_BF16, dims % 2);
    expect_all(3, MODE_FAST, DTYPE_BF16, 0);
}

static void fast_over_other_bases_is_right_too(void **state)
{
    (void)state;
    expect_all(0, MODE_FAST, DTYPE_F32, 1);
    expect_all(3, MODE_FAST, DTYPE_F16, 1);
}

static void head_takes_the_rows_that_are_wanted(void **state)
{
    static struct rig rig;

    (void)state;
    for (int odd = 0; odd < 2; odd++)
        for (enum mode mode = MODE_EXACT; mode <= MODE_FAST; mode++) {
            const struct rig_config config = {.dims = rig_dims[odd], .mode = mode, .dtype = mode == MODE_FAST ? DTYPE_BF16 : DTYPE_F32, .odd = odd, .seed = 13};
            const struct rig_plan plan = plan_of(17);
            uint64_t seed = test_seed(14);

            rig_open(&rig, &config);
            rig_batch(&rig, &plan, false);
            rig.now.outputs = 3;
            rig.out_row[0] = 0;
            rig.out_row[1] = 9;
            rig.out_row[2] = 16;
            rig_fill_act(mode, rig.y, 17 * rig.config.dims.hidden, &seed);
            RIG_EACH_SET(set) {
                struct dev *dev = rig_device(&rig, set, 3);

                device_cpu.ops(dev)->head(dev, rig.logits, rig.y, &rig.head, &rig.batch);
                for (int32_t i = 0; i < 3 * rig.head.out; i++) {
                    const act *x = rig.y + (int64_t)rig.out_row[i / rig.head.out] * rig.head.in * (int64_t)act_bytes(mode);
                    struct bound bound = product_bound(mode, x, &rig.head, i % rig.head.out);

                    if (!(fabs((double)rig.logits[i] - bound.value) <= bound.error))
                        fail_msg("%s: logit %d is %.9g, expected %.9g +- %.3g", kernel_set_name(set), i, (double)rig.logits[i], bound.value,
                                 bound.error);
                }
                device_cpu.close(dev);
            }
            rig_close(&rig);
        }
}

static void a_step_of_no_rows_does_nothing(void **state)
{
    static struct rig rig;
    const struct rig_config config = {.dims = rig_dims[0], .mode = MODE_FAST, .dtype = DTYPE_BF16, .seed = 15};
    const struct rig_plan plan = {.sequences = 0};

    (void)state;
    rig_open(&rig, &config);
    rig_batch(&rig, &plan, false);
    rig.wide[0] = 42;
    RIG_EACH_SET(set) {
        struct dev *dev = rig_device(&rig, set, 2);

        rig_step(&rig, dev, device_cpu.ops(dev));
        device_cpu.close(dev);
    }
    assert_true(rig.wide[0] == 42);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_over_every_number_type),
        cmocka_unit_test(fast_over_bf16),
        cmocka_unit_test(fast_over_other_bases_is_right_too),
        cmocka_unit_test(head_takes_the_rows_that_are_wanted),
        cmocka_unit_test(a_step_of_no_rows_does_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
