/* The verb from arguments to exit code, in this process: its files are part of the program, not of a library. */
#include "cmd_train.c"
#include "cmd_train_reference.c"

#include "scratch.h"
#include "support.h"

static int run(const char *const *arguments)
{
    char *argv[32] = {0};
    int argc = 0;

    for (; arguments[argc] != NULL; argc++)
        argv[argc] = strdup(arguments[argc]);
    argc = cmd_train(argc, argv);
    for (int i = 0; argv[i] != NULL; i++)
        free(argv[i]);
    return argc;
}
#define RUN(...) run((const char *const[]){"train", __VA_ARGS__, NULL})

static const char *shared_or_skip(const char *relative)
{
    const char *path = test_shared_path(relative);

    if (path == NULL) {
        printf("skipped: ../shared/%s is missing\n", relative);
        skip();
    }
    return strdup(path);
}

static void a_recorded_run_is_done_again(void **state)
{
    static const char *const cases[] = {"a_bzero", "b_brandom", "c_schedule"};
    const char *model = shared_or_skip("models/stories260k");

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char relative[128];
        const char *recorded;

        snprintf(relative, sizeof(relative), "models/reference/lora_train/%s", cases[i]);
        recorded = shared_or_skip(relative);
        assert_int_equal(RUN("--model", model, "--reference", recorded, "--json", "--device", "cpu"), EXIT_OK);
        free((void *)(uintptr_t)recorded);
    }
    free((void *)(uintptr_t)model);
}

/* A record of a rig's own, whose losses are wrong: it runs, and says no. */
static void a_run_that_differs_is_exit_code_1(void **state)
{
    struct scratch scratch;
    struct model_config config = tiny_config(FAMILY_LLAMA);

    (void)state;
    scratch_begin(&scratch);
    tiny_model(scratch_folder(&scratch, "base"), &config, 1, DTYPE_F32);
    scratch_folder(&scratch, "case");
    tiny_adapter(scratch_folder(&scratch, "case/adapter_init"), &config, 4, 3, 1, DTYPE_F32);
    tiny_adapter(scratch_folder(&scratch, "case/adapter_final"), &config, 4, 3, 1, DTYPE_F32);
    scratch_text(&scratch, "batches.json", "{\"batch1\": {\"input_ids\": [[3, 4, 5]], \"loss_mask\": [[0, 1, 1]], \"lengths\": [3]},"
                                           " \"batch2\": {\"input_ids\": [[5, 4]], \"loss_mask\": [[0, 1]], \"lengths\": [2]}}");
    scratch_text(&scratch, "case/reference.json", "{\"steps\": 1, \"optimizer\": {\"lr\": 0.001}, \"losses\": [1, 1], \"grad_norms\": [1]}");
    assert_int_equal(RUN("--model", scratch_at(&scratch, "base"), "--reference", scratch_at(&scratch, "case"), "--device", "cpu"), EXIT_FAILED);
    scratch_text(&scratch, "case/reference.json", "{\"steps\": 2, \"optimizer\": {\"lr\": 0.001}, \"losses\": [1, 1], \"grad_norms\": [1]}");
    assert_int_equal(RUN("--model", scratch_at(&scratch, "base"), "--reference", scratch_at(&scratch, "case")), EXIT_FAILED);
    assert_int_equal(RUN("--model", scratch_at(&scratch, "base"), "--reference", scratch_at(&scratch, "none")), EXIT_FAILED);
    assert_int_equal(RUN("--model", scratch_at(&scratch, "base")), EXIT_USAGE);
    assert_int_equal(RUN("--surprise"), EXIT_USAGE);
    assert_int_equal(RUN("--help"), EXIT_OK);
    scratch_end(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_recorded_run_is_done_again),
        cmocka_unit_test(a_run_that_differs_is_exit_code_1),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
