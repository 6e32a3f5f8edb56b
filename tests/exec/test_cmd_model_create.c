/* The verb from arguments to exit code, and what it made: a base that opens, with a template, that knows its text. */
#include "cmd_model_create.c"
#include "cmd_model_text.c"

#include <unistd.h>

#include "scratch.h"
#include "support.h"

volatile sig_atomic_t model_stop;

void model_catch_stop(void)
{
}

int model_refused(const char *verb, const struct refusal *refusal)
{
    fprintf(stderr, "%s: %s\n", verb, refusal->text);
    return model_stop != 0 ? EXIT_STOPPED : EXIT_FAILED;
}

static int create_tiny(const char *out, const char *steps)
{
    char *argv[] = {strdup("create-tiny"), strdup("--out"), strdup(out), strdup("--steps"), strdup(steps), strdup("--threads"), strdup("1")};
    const int code = cmd_model_create_tiny((int)ARRAY_COUNT(argv), argv);

    for (size_t i = 0; i < ARRAY_COUNT(argv); i++)
        free(argv[i]);
    return code;
}

/* Mean loss of what assistants answer. */
static double loss_of(const char *folder)
{
    struct create create = {.threads = 1};
    struct refusal refusal = {{0}};
    char error[TOKENIZER_ERROR_MAX] = "";
    const int32_t looked_at = 10;
    double sum = 0;

    assert_int_equal(model_open(folder, &create.model, &refusal), STATUS_OK);
    assert_int_equal(tokenizer_open(folder, &create.tokenizer, error), STATUS_OK);
    assert_int_equal(open_data(&create, &refusal), STATUS_OK);
    assert_int_equal(open_trainer(&create, &refusal), STATUS_OK);
    for (int32_t i = 0; i < looked_at; i++) {
        const struct data_sample *at = &create.data->sample[i];
        const struct train_sample sample = {.tokens = create.data->tokens + at->at, .is_target = create.data->is_target + at->at,
                                            .rows = at->tokens, .job = 0};
        struct train_score score;

        trainer_logp(create.trainer, &sample, 1, &score);
        sum -= score.logp / (at->tokens - 1);
    }
    sum /= looked_at;
    trainer_close(create.trainer);
    data_close(create.data);
    tokenizer_close(create.tokenizer);
    model_close(create.model);
    return sum;
}

static void a_base_is_taught_and_written_whole(void **state)
{
    struct scratch scratch;
    double loss;

    (void)state;
    scratch_begin(&scratch);
    assert_int_equal(create_tiny(scratch_at(&scratch, "tiny"), "6"), EXIT_OK);
    loss = loss_of(scratch_at(&scratch, "tiny"));
    printf("mean loss %.3f\n", loss);
    assert_true(loss < 5);
    assert_int_equal(create_tiny(scratch_at(&scratch, "tiny"), "1"), EXIT_FAILED); /* it is there */
    assert_int_equal(create_tiny(scratch_at(&scratch, "other"), "0"), EXIT_USAGE);
    model_stop = 1;
    assert_int_equal(create_tiny(scratch_at(&scratch, "other"), "1"), EXIT_STOPPED);
    model_stop = 0;
    assert_int_equal(access(scratch_at(&scratch, "other"), F_OK), -1);
    scratch_end(&scratch);
}

/* The same seed, the same text; as many lines as were asked for. */
static void the_text_is_a_function_of_its_seed(void **state)
{
    char *text = tiny_text(1, 300);
    char *same = tiny_text(1, 300);
    char *other = tiny_text(2, 300);
    int lines = 0;

    (void)state;
    assert_non_null(text);
    for (const char *at = text; *at != '\0'; at++)
        lines += *at == '\n';
    assert_int_equal(lines, 300);
    assert_string_equal(text, same);
    assert_string_not_equal(text, other);
    free(text);
    free(same);
    free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_text_is_a_function_of_its_seed),
        cmocka_unit_test(a_base_is_taught_and_written_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
