/* Training runs of a real model against what other people's automatic differentiation and optimizer found. */
#include <stdio.h>

#include "engine/ops/ref/train.h"
#include "recorded.h"
#include "rig.h"

static const char *const cases[] = {"a_bzero", "b_brandom", "c_schedule"};
/* A sanitizer looks at what is executed, not at how well it learns: one case runs all of it. */
#define CASES (RIG_ONE_SET ? 1 : ARRAY_COUNT(cases))

static void expect(const char *name, const char *how, const struct found *found, double tolerance)
{
    printf("%s, %s: losses differ by at most %.2g, norms by %.2g, first gradients by %.2g, final matrices by %.2g\n", name, how, found->loss,
           found->norm, found->gradient, found->final);
    assert_true(found->loss < tolerance);
    assert_true(found->norm < 10 * tolerance);
    assert_true(found->gradient < tolerance);
    assert_true(found->final < tolerance);
}

static void the_definitions_train_like_the_reference(void **state)
{
    struct model *model = recorded_model("models/stories260k");
    struct trainer_config config = rig_config(MODE_EXACT, KERNELS_SCALAR, 1);

    (void)state;
    config.ops = &ops_ref;
    config.train_ops = &train_ops_ref;
    for (size_t i = 0; i < CASES; i++) {
        struct found found = recorded_run(cases[i], model, &config, "", RECORDED_STEPS);

        expect(cases[i], "definitions", &found, 1e-5);
    }
    model_close(model);
}

static void every_set_of_kernels_trains_like_the_reference(void **state)
{
    struct model *model = recorded_model("models/stories260k");

    (void)state;
    RIG_EACH_SET(set)
        for (size_t i = 0; i < CASES; i++) {
            struct trainer_config config = rig_config(MODE_EXACT, set, 2);
            struct found found = recorded_run(cases[i], model, &config, "", RECORDED_STEPS);

            expect(cases[i], kernel_set_name(set), &found, 1e-5);
        }
    model_close(model);
}

static void a_bf16_base_exactly(void **state)
{
    struct model *model = recorded_model("models/stories260k-bf16");

    (void)state;
    RIG_EACH_SET(set)
        for (size_t i = 0; i < CASES; i++) {
            struct trainer_config config = rig_config(MODE_EXACT, set, 1);
            struct found found = recorded_run(cases[i], model, &config, "_bf16_base", RECORDED_STEPS);

            expect(cases[i], "bf16 base", &found, 1e-5);
        }
    model_close(model);
}

/* bf16 activations: nearer than what training changes by a hundred times. */
static void fast_stays_near_the_reference(void **state)
{
    struct model *model = recorded_model("models/stories260k-bf16");

    (void)state;
    RIG_EACH_SET(set)
        for (size_t i = 0; i < CASES; i++) {
            struct trainer_config config = rig_config(MODE_FAST, set, 2);
            struct found found = recorded_run(cases[i], model, &config, "_bf16_base", RECORDED_STEPS);

            printf("%s, fast, %s: losses differ by at most %.2g, norms by %.2g\n", cases[i], kernel_set_name(set), found.loss, found.norm);
            assert_true(found.loss < 0.03);
            assert_true(found.norm < 0.3);
        }
    model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_definitions_train_like_the_reference),
        cmocka_unit_test(every_set_of_kernels_trains_like_the_reference),
        cmocka_unit_test(a_bf16_base_exactly),
        cmocka_unit_test(fast_stays_near_the_reference),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
