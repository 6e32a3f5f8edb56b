/* The verb from arguments to exit code, and what it made: a base that opens, with a template, that knows its text. */
#include "cmd_model_create.c"

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

static int create_tiny(const char *out, const char *epochs)
{
    char *argv[] = {strdup("create-tiny"), strdup("--out"), strdup(out), strdup("--epochs"), strdup(epochs), strdup("--threads"), strdup("1")};
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
    double sum = 0;

    assert_int_equal(model_open(folder, &create.model, &refusal), STATUS_OK);
    assert_int_equal(tokenizer_open(folder, &create.tokenizer, error), STATUS_OK);
    assert_int_equal(open_data(&create, &refusal), STATUS_OK);
    assert_int_equal(open_trainer(&create, &refusal), STATUS_OK);
    for (int32_t i = 0; i < create.data->count; i++) {
        const struct data_sample *at = &create.data->sample[i];
        const struct train_sample sample = {.tokens = create.data->tokens + at->at, .is_target = create.data->is_target + at->at,
                                            .rows = at->tokens, .job = 0};
        struct train_score score;

        trainer_logp(create.trainer, &sample, 1, &score);
        sum -= score.logp / (at->tokens - 1);
    }
    sum /= create.data->count;
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
    assert_int_equal(create_tiny(scratch_at(&scratch, "tiny"), "12"), EXIT_OK);
    loss = loss_of(scratch_at(&scratch, "tiny"));
    printf("mean loss %.3f\n", loss);
    assert_true(loss < 1);
    assert_int_equal(create_tiny(scratch_at(&scratch, "tiny"), "1"), EXIT_FAILED); /* it is there */
    assert_int_equal(create_tiny(scratch_at(&scratch, "other"), "0"), EXIT_USAGE);
    model_stop = 1;
    assert_int_equal(create_tiny(scratch_at(&scratch, "other"), "1"), EXIT_STOPPED);
    model_stop = 0;
    assert_int_equal(access(scratch_at(&scratch, "other"), F_OK), -1);
    scratch_end(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_base_is_taught_and_written_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
