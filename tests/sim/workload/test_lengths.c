#include "support.h"

#include <gsl/gsl_cdf.h>
#include <math.h>
#include <stdlib.h>

#include "sim/workload/scene.h"
#include "workload/lengths.h"

static struct scenario scenario;

static void assert_near(const char *what, double got, double wanted, double tolerance)
{
    if (!(fabs(got - wanted) <= tolerance))
        fail_msg("%s is %.9g, not %.9g within %.3g", what, got, wanted, tolerance);
}

static struct keys_length *prompt_of(uint32_t law, double mean_tokens)
{
    scene_default(&scenario);
    scenario.workload.prompt.law = law;
    scenario.workload.prompt.mean_tokens = mean_tokens;
    scenario.workload.prompt.max_tokens = 10000000;
    return &scenario.workload.prompt;
}

static void open_prompt(struct lengths *lengths)
{
    assert_int_equal(lengths_open(lengths, &scenario, LENGTHS_PROMPT, stderr), STATUS_OK);
}

/* Mean over 10^6 equal parts of the unit interval: the integral of the inverse, without sampling noise. */
static double mean_of(const struct lengths *lengths)
{
    double sum = 0;

    for (uint32_t i = 0; i < 1000000; i++)
        sum += lengths_at(lengths, (i + 0.5) / 1e6);
    return sum / 1e6;
}

/* P(length <= limit), by bisection over the unit interval; the law is monotone. */
static double share_up_to(const struct lengths *lengths, uint32_t limit)
{
    double low = 0;
    double high = 1;

    for (uint32_t i = 0; i < 60; i++) {
        double middle = (low + high) / 2;

        if (lengths_at(lengths, middle) <= limit)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static void lognormal_has_the_mean_asked_for(void **state)
{
    (void)state;
    const double sigmas[] = {0, 0.3, 1};

    for (size_t i = 0; i < ARRAY_COUNT(sigmas); i++) {
        struct lengths lengths;
        double mu = log(512) - sigmas[i] * sigmas[i] / 2;

        prompt_of(KEY_LENGTH_LOGNORMAL, 512)->sigma = sigmas[i];
        open_prompt(&lengths);
        assert_near("mean", mean_of(&lengths), 512, 0.5);
        if (sigmas[i] > 0) {
            assert_near("share up to 200", share_up_to(&lengths, 200),
                        gsl_cdf_lognormal_P(200.5, mu, sigmas[i]), 1e-9);
            assert_near("share up to 3000", share_up_to(&lengths, 3000),
                        gsl_cdf_lognormal_P(3000.5, mu, sigmas[i]), 1e-9);
        }
        lengths_close(&lengths);
    }
}

static void geometric_has_the_mean_and_starts_at_one(void **state)
{
    (void)state;
    const double means[] = {1, 1.5, 20, 1000};

    for (size_t i = 0; i < ARRAY_COUNT(means); i++) {
        struct lengths lengths;

        prompt_of(KEY_LENGTH_GEOMETRIC, means[i]);
        open_prompt(&lengths);
        assert_near("mean", mean_of(&lengths), means[i], means[i] * 1e-4);
        assert_int_equal(lengths_at(&lengths, 1e-9), 1);
        for (uint32_t limit = 1; limit < 50; limit += 7)
            assert_near("share", share_up_to(&lengths, limit), 1 - pow(1 - 1 / means[i], limit), 1e-9);
        lengths_close(&lengths);
    }
}

static void exponential_is_rounded_up(void **state)
{
    (void)state;
    struct lengths lengths;

    prompt_of(KEY_LENGTH_EXPONENTIAL, 300);
    open_prompt(&lengths);
    assert_near("mean", mean_of(&lengths), 300.5, 0.05);
    assert_near("share", share_up_to(&lengths, 100), gsl_cdf_exponential_P(100, 300), 1e-9);
    assert_int_equal(lengths_at(&lengths, 1e-12), 1);
    lengths_close(&lengths);
}

static void uniform_includes_both_bounds_evenly(void **state)
{
    (void)state;
    struct keys_length *keys = prompt_of(KEY_LENGTH_UNIFORM, 1);
    struct lengths lengths;

    keys->min_tokens = 8;
    keys->max_tokens = 12;
    open_prompt(&lengths);
    for (uint32_t length = 8; length <= 12; length++)
        assert_near("share", share_up_to(&lengths, length), (length - 7) / 5.0, 1e-9);
    assert_int_equal(lengths_at(&lengths, 0x1p-53), 8);
    assert_int_equal(lengths_at(&lengths, 1 - 0x1p-53), 12);
    lengths_close(&lengths);
}

static void constant_is_constant(void **state)
{
    (void)state;
    struct lengths lengths;

    prompt_of(KEY_LENGTH_CONSTANT, 77);
    open_prompt(&lengths);
    assert_int_equal(lengths_at(&lengths, 0.01), 77);
    assert_int_equal(lengths_at(&lengths, 0.99), 77);
    lengths_close(&lengths);
}

static void every_law_is_cut_to_its_bounds_and_monotone(void **state)
{
    (void)state;
    for (uint32_t law = 0; law < KEY_LENGTH_EMPIRICAL; law++) {
        struct keys_length *keys = prompt_of(law, 500);
        struct lengths lengths;
        uint32_t last = 0;

        keys->sigma = 10;
        keys->min_tokens = 100;
        keys->max_tokens = 900;
        open_prompt(&lengths);
        for (uint32_t step = 0; step <= 4000; step++) {
            double unit = step == 0 ? 0x1p-53 : step == 4000 ? 1 - 0x1p-53 : step / 4000.0;
            uint32_t length = lengths_at(&lengths, unit);

            assert_in_range(length, 100, 900);
            assert_true(length >= last);
            last = length;
        }
        lengths_close(&lengths);
    }
}

static const char *refusal(enum lengths_column column, enum status status)
{
    static char message[2048];
    FILE *errors = fmemopen(message, sizeof(message), "w");
    struct lengths lengths = {0};

    assert_int_equal(lengths_open(&lengths, &scenario, column, errors), status);
    fclose(errors);
    return message;
}

static void refusals_name_the_key(void **state)
{
    (void)state;
    const char *path;

    prompt_of(KEY_LENGTH_UNIFORM, 5)->min_tokens = 20000000;
    assert_non_null(strstr(refusal(LENGTHS_PROMPT, STATUS_INVALID), "workload.prompt: min_tokens"));
    prompt_of(KEY_LENGTH_EMPIRICAL, 5);
    assert_non_null(strstr(refusal(LENGTHS_PROMPT, STATUS_INVALID), "workload.prompt.trace_path: is empty"));
    scenario.workload.output.law = KEY_LENGTH_EMPIRICAL;
    strcpy(scenario.workload.output.trace_path, "/nowhere/at-all.csv");
    assert_non_null(strstr(refusal(LENGTHS_OUTPUT, STATUS_NOT_FOUND),
                           "workload.output.trace_path: no such file: /nowhere/at-all.csv"));
    path = scene_file("broken.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,many,44\n");
    strcpy(scenario.workload.output.trace_path, path);
    assert_non_null(strstr(refusal(LENGTHS_OUTPUT, STATUS_CORRUPT), ":2:"));
    scene_remove(path);
}

static void empirical_draws_each_column_of_the_trace(void **state)
{
    (void)state;
    const char *path = scene_file("rows.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n"
                                            "2023-11-16 18:15:46.6805900,400,44\n"
                                            "2023-11-16 18:15:47.6805900,100,9\n"
                                            "2023-11-16 18:15:48.6805900,300,7\n"
                                            "2023-11-16 18:15:49.6805900,200,9000\n");
    struct lengths lengths;

    prompt_of(KEY_LENGTH_EMPIRICAL, 1);
    strcpy(scenario.workload.prompt.trace_path, path);
    scenario.workload.output = scenario.workload.prompt;
    scenario.workload.output.max_tokens = 1000;
    open_prompt(&lengths);
    assert_near("mean", mean_of(&lengths), 250, 1e-3);
    assert_near("share", share_up_to(&lengths, 100), 0.25, 1e-9);
    lengths_close(&lengths);
    assert_int_equal(lengths_open(&lengths, &scenario, LENGTHS_OUTPUT, stderr), STATUS_OK);
    assert_int_equal(lengths_at(&lengths, 0.1), 7);
    assert_int_equal(lengths_at(&lengths, 0.9), 1000);
    lengths_close(&lengths);
    scene_remove(path);
}

static void empirical_lengths_of_the_real_hour_have_its_mean(void **state)
{
    (void)state;
    const char *path = test_shared_path("traces/azure_llm_2023/AzureLLMInferenceTrace_conv.csv");
    struct lengths lengths;

    if (path == NULL) {
        print_message("../shared/traces is not there\n");
        skip();
    }
    prompt_of(KEY_LENGTH_EMPIRICAL, 1);
    strcpy(scenario.workload.prompt.trace_path, path);
    open_prompt(&lengths);
    assert_int_equal(lengths.values_count, 19366);
    assert_near("mean", mean_of(&lengths), 1154.7, 0.5);
    lengths_close(&lengths);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lognormal_has_the_mean_asked_for),
        cmocka_unit_test(geometric_has_the_mean_and_starts_at_one),
        cmocka_unit_test(exponential_is_rounded_up),
        cmocka_unit_test(uniform_includes_both_bounds_evenly),
        cmocka_unit_test(constant_is_constant),
        cmocka_unit_test(every_law_is_cut_to_its_bounds_and_monotone),
        cmocka_unit_test(refusals_name_the_key),
        cmocka_unit_test(empirical_draws_each_column_of_the_trace),
        cmocka_unit_test(empirical_lengths_of_the_real_hour_have_its_mean),
    };

    return cmocka_run_group_tests_name("lengths", tests, NULL, NULL);
}
