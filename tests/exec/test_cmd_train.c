/* The verb from arguments to exit code, in this process: its files are part of the program, not of a library. */
#include "cmd_train.c"
#include "cmd_train_data.c"
#include "cmd_train_jobs.c"
#include "cmd_train_plan.c"
#include "cmd_train_plot.c"
#include "cmd_train_reference.c"
#include "cmd_train_show.c"

#include <unistd.h>

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

/* What it prints on stdout. */
static int run_aside(const char *const *arguments, char *ret_text, size_t size)
{
    FILE *aside = tmpfile();
    const int out = dup(STDOUT_FILENO);
    int code;

    assert_non_null(aside);
    fflush(stdout);
    dup2(fileno(aside), STDOUT_FILENO);
    code = run(arguments);
    fflush(stdout);
    dup2(out, STDOUT_FILENO);
    close(out);
    rewind(aside);
    ret_text[fread(ret_text, 1, size - 1, aside)] = '\0';
    fclose(aside);
    return code;
}
#define RUN_ASIDE(text, ...) run_aside((const char *const[]){"train", __VA_ARGS__, NULL}, text, sizeof(text))

/* A 70B's config.json and nothing else. */
static void a_plan_needs_a_config_alone(void **state)
{
    static const char config[] =
        "{\"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 8192, \"num_hidden_layers\": 80, \"num_attention_heads\": 64,"
        " \"num_key_value_heads\": 8, \"intermediate_size\": 28672, \"vocab_size\": 128256, \"max_position_embeddings\": 8192,"
        " \"torch_dtype\": \"bfloat16\"%s}";
    struct scratch scratch;
    char text[8192];
    const char *base;

    (void)state;
    scratch_begin(&scratch);
    base = strdup(scratch_folder(&scratch, "70b"));
    snprintf(text, sizeof(text), config, "");
    scratch_text(&scratch, "70b/config.json", text);
    assert_int_equal(RUN_ASIDE(text, "--model", base, "--dry-run", "--tp", "8", "--memory-gib", "74.5", "--json"), EXIT_OK);
    assert_non_null(strstr(text, "\"stream_bytes_per_token_layer\":32768,"));
    assert_non_null(strstr(text, "\"weights_bytes\":21318090752,"));
    assert_non_null(strstr(text, "\"recompute\":\"none\",\"fits\":true,"));
    assert_int_equal(RUN_ASIDE(text, "--model", base, "--dry-run", "--tp", "8", "--memory-gib", "28", "--data", "x", "--out", "y"), EXIT_OK);
    assert_non_null(strstr(text, "on each of 8 devices"));
    assert_non_null(strstr(text, "residual stream, f32: 32768 bytes a token and layer"));
    assert_non_null(strstr(text, "fits, taken\nmemory: 28.000 GiB\n")); /* layer, the last line */
    assert_int_equal(RUN_ASIDE(text, "--model", base, "--dry-run", "--tp", "3"), EXIT_FAILED);
    assert_int_equal(RUN_ASIDE(text, "--model", base, "--data", "x", "--out", "y", "--tp", "2"), EXIT_USAGE);
    snprintf(text, sizeof(text), config, ", \"quantization_config\": {\"quant_method\": \"bitsandbytes\", \"bnb_4bit_quant_type\": \"nf4\"}");
    scratch_text(&scratch, "70b/config.json", text);
    assert_int_equal(RUN_ASIDE(text, "--model", base, "--dry-run"), EXIT_FAILED); /* says: bitsandbytes nf4 */
    free((void *)(uintptr_t)base);
    scratch_end(&scratch);
}

/* Less memory, another level, the same bytes. */
static void memory_chooses_the_level_and_no_bit_changes(void **state)
{
    static const char *const gib[] = {"1", "0.0024", "0.0001"};
    struct scratch scratch;
    struct model_config config = tiny_config(FAMILY_LLAMA);
    const char *base;
    const char *data;
    char first[1 << 16];
    int64_t levels = 0;

    (void)state;
    scratch_begin(&scratch);
    tiny_model(scratch_folder(&scratch, "base"), &config, 1, DTYPE_F32);
    scratch_text(&scratch, "pairs.jsonl", "{\"prompt\": \"One\", \"completion\": \" two\"}\n{\"prompt\": \"Two\", \"completion\": \" three\"}\n");
    base = strdup(scratch_at(&scratch, "base"));
    data = strdup(scratch_at(&scratch, "pairs.jsonl"));
    for (size_t i = 0; i < ARRAY_COUNT(gib); i++) {
        const char *out = scratch_at(&scratch, gib[i]);
        char text[1 << 14];
        char path[600];
        struct refusal refusal;
        void *adapter;
        int64_t bytes;

        assert_int_equal(RUN_ASIDE(text, "--model", base, "--data", data, "--out", out, "--epochs", "2", "--rank", "4", "--json", "--quiet",
                                   "--memory-gib", gib[i], "--device", "cpu", "--threads", "1"), EXIT_OK);
        for (enum recompute level = 0; level < RECOMPUTE_COUNT; level++) {
            char want[64];

            snprintf(want, sizeof(want), "\"recompute\":\"%s\"", recompute_name(level));
            if (strstr(text, want) != NULL)
                levels = levels * 10 + (int64_t)level + 1;
        }
        snprintf(path, sizeof(path), "%s/adapter_model.safetensors", out);
        assert_int_equal(file_read(AT_FDCWD, path, path, sizeof(first), &adapter, &bytes, &refusal), STATUS_OK);
        if (i == 0)
            memcpy(first, adapter, (size_t)bytes);
        assert_memory_equal(first, adapter, (size_t)bytes);
        free(adapter);
    }
    assert_int_equal(levels, 123); /* the last fits nothing, and is said to */
    free((void *)(uintptr_t)base);
    free((void *)(uintptr_t)data);
    scratch_end(&scratch);
}

static bool is_there(struct scratch *scratch, const char *name)
{
    FILE *file = fopen(scratch_at(scratch, name), "r");

    if (file != NULL)
        fclose(file);
    return file != NULL;
}

static void an_adapter_is_learned_from_a_file(void **state)
{
    struct scratch scratch;
    struct model_config config = tiny_config(FAMILY_LLAMA);
    const char *base;
    const char *data;

    (void)state;
    scratch_begin(&scratch);
    tiny_model(scratch_folder(&scratch, "base"), &config, 1, DTYPE_F32);
    scratch_text(&scratch, "pairs.jsonl", "{\"prompt\": \"One\", \"completion\": \" two\"}\n{\"prompt\": \"Two\", \"completion\": \" three\"}\n");
    scratch_text(&scratch, "chats.jsonl", "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}, {\"role\": \"assistant\", \"content\": \"Yes\"}]}\n");
    base = strdup(scratch_at(&scratch, "base"));
    data = strdup(scratch_at(&scratch, "pairs.jsonl"));
    assert_int_equal(RUN("--model", base, "--data", data, "--out", scratch_at(&scratch, "a/"), "--epochs", "3", "--rank", "4", "--json",
                         "--validation", data, "--learning-rate-multiplier", "10"), EXIT_OK);
    assert_true(is_there(&scratch, "a/adapter_model.safetensors"));
    assert_true(is_there(&scratch, "a/results.csv"));
    assert_int_equal(RUN("--model", base, "--data", data, "--out", scratch_at(&scratch, "a")), EXIT_FAILED);
    assert_int_equal(RUN("--model", base, "--data", scratch_at(&scratch, "chats.jsonl"), "--out", scratch_at(&scratch, "b")), EXIT_FAILED);
    assert_int_equal(RUN("--model", base, "--data", data, "--out", scratch_at(&scratch, "b"), "--context", "100000"), EXIT_FAILED);
    assert_false(is_there(&scratch, "b"));
    assert_int_equal(RUN("--model", base, "--data", data), EXIT_USAGE);
    assert_int_equal(RUN("--model", base, "--data", data, "--out", "x", "--dropout", "0.1"), EXIT_USAGE);
    assert_int_equal(RUN("--model", base, "--data", data, "--out", "x", "--rank", "0"), EXIT_USAGE);
    assert_int_equal(RUN("--model", base, "--data", data, "--out", "x", "--schedule", "steep"), EXIT_USAGE);
    assert_int_equal(RUN("--model", base, "--data", data, "--out", "x", "--learning-rate-multiplier", "nan"), EXIT_USAGE);
    assert_int_equal(RUN("--model", base, "--data", data, "--out", "x", "--learning-rate", "fast"), EXIT_USAGE);
    assert_int_equal(RUN("--model", base, "--data", data, "--out", "x", "--learning-rate", "1e-3", "--learning-rate-multiplier", "2"), EXIT_USAGE);
    assert_int_equal(RUN("--model", base, "--data", data, "--out", "x", "--validation", "v", "--validation-split", "10"), EXIT_USAGE);
    free((void *)(uintptr_t)base);
    free((void *)(uintptr_t)data);
    scratch_end(&scratch);
}

static void preferences_are_learned_from_a_file(void **state)
{
    struct scratch scratch;
    struct model_config config = tiny_config(FAMILY_LLAMA);
    const char *base;
    const char *data;
    const char *choices;

    (void)state;
    scratch_begin(&scratch);
    tiny_model(scratch_folder(&scratch, "base"), &config, 1, DTYPE_F32);
    scratch_text(&scratch, "pairs.jsonl", "{\"prompt\": \"One\", \"completion\": \" two\"}\n");
    scratch_text(&scratch, "choices.jsonl", "{\"prompt\": \"One\", \"chosen\": \" two\", \"rejected\": \" no\"}\n");
    base = strdup(scratch_at(&scratch, "base"));
    data = strdup(scratch_at(&scratch, "pairs.jsonl"));
    choices = strdup(scratch_at(&scratch, "choices.jsonl"));
    assert_int_equal(RUN("--model", base, "--data", choices, "--out", scratch_at(&scratch, "c")), EXIT_FAILED);
    assert_int_equal(RUN("--model", base, "--data", choices, "--out", scratch_at(&scratch, "c"), "--method", "dpo",
                         "--epochs", "2", "--json"), EXIT_OK);
    assert_true(is_there(&scratch, "c/adapter_model.safetensors"));
    assert_int_equal(RUN("--model", base, "--data", data, "--out", scratch_at(&scratch, "d"), "--method", "dpo"), EXIT_FAILED);
    assert_int_equal(RUN("--model", base, "--data", data, "--out", "x", "--method", "guess"), EXIT_USAGE);
    assert_int_equal(RUN("--model", base, "--data", data, "--out", "x", "--beta", "0.1"), EXIT_USAGE);
    assert_int_equal(RUN("--model", base, "--data", data, "--out", "x", "--method", "dpo", "--beta", "2.1"), EXIT_USAGE);
    assert_int_equal(RUN("--model", base, "--data", data, "--out", "x", "--method", "dpo", "--learning-rate", "auto"), EXIT_USAGE);
    free((void *)(uintptr_t)base);
    free((void *)(uintptr_t)data);
    free((void *)(uintptr_t)choices);
    scratch_end(&scratch);
}

/* Whether a program called gnuplot is in $PATH. */
static bool gnuplot_is_here(void)
{
    const char *path = getenv("PATH");
    char program[4200];

    for (const char *folder = path; folder != NULL && *folder != '\0'; folder += strspn(folder, ":")) {
        const size_t length = strcspn(folder, ":");

        snprintf(program, sizeof(program), "%.*s/gnuplot", (int)length, folder);
        if (access(program, X_OK) == 0)
            return true;
        folder += length;
    }
    return false;
}

/* Without gnuplot there is no picture, and nothing else is missing; with it there is, and the folder loads as before. */
static void a_run_s_picture_is_there_where_gnuplot_is(void **state)
{
    struct scratch scratch;
    struct model_config config = tiny_config(FAMILY_LLAMA);
    const char *path = strdup(getenv("PATH"));
    const char *base;
    const char *data;

    (void)state;
    scratch_begin(&scratch);
    tiny_model(scratch_folder(&scratch, "base"), &config, 1, DTYPE_F32);
    scratch_text(&scratch, "pairs.jsonl", "{\"prompt\": \"One\", \"completion\": \" two\"}\n{\"prompt\": \"Two\", \"completion\": \" three\"}\n");
    base = strdup(scratch_at(&scratch, "base"));
    data = strdup(scratch_at(&scratch, "pairs.jsonl"));
    setenv("PATH", scratch_at(&scratch, "base"), 1);
    assert_int_equal(RUN("--model", base, "--data", data, "--out", scratch_at(&scratch, "without"), "--epochs", "2"), EXIT_OK);
    setenv("PATH", path, 1);
    assert_true(is_there(&scratch, "without/adapter_model.safetensors"));
    assert_false(is_there(&scratch, "without/loss.svg"));
    if (gnuplot_is_here()) {
        static const char *const validations[] = {"with", "validated"};
        struct refusal refusal = {{0}};
        struct peft *peft;

        assert_int_equal(RUN("--model", base, "--data", data, "--out", scratch_at(&scratch, "with"), "--epochs", "2"), EXIT_OK);
        assert_int_equal(RUN("--model", base, "--data", data, "--validation", data, "--out", scratch_at(&scratch, "validated")), EXIT_OK);
        for (size_t i = 0; i < ARRAY_COUNT(validations); i++) {
            char name[64];

            snprintf(name, sizeof(name), "%s/loss.svg", validations[i]);
            assert_true(is_there(&scratch, name));
            snprintf(name, sizeof(name), "%s/.loss.log", validations[i]);
            assert_false(is_there(&scratch, name));
        }
        assert_int_equal(peft_open(scratch_at(&scratch, "with"), &config, 16, &peft, &refusal), STATUS_OK);
        peft_close(peft);
    } else {
        print_message("skipped: the picture, as gnuplot is not installed\n");
    }
    free((void *)(uintptr_t)path);
    free((void *)(uintptr_t)base);
    free((void *)(uintptr_t)data);
    scratch_end(&scratch);
}

/* The peak that a command line comes to, for a model of this family. */
static double rate_of(enum model_family family, const char *rate, const char *multiplier)
{
    const struct model_config config = tiny_config(family); /* hidden size 24: far from 2,000 */
    struct line line;
    struct run_settings settings = {0};
    struct refusal refusal = {{0}};
    char *argv[] = {"train", "--model", "m", "--data", "d", "--out", "o", "--learning-rate", (char *)(uintptr_t)rate,
                    "--learning-rate-multiplier", (char *)(uintptr_t)multiplier};

    line_init(&line, ARRAY_COUNT(argv), argv);
    assert_int_equal(parse(&line), EXIT_OK);
    if (run_choose(&line.arguments.wishes, &config, DTYPE_F32, &settings, &refusal) == STATUS_OK)
        return settings.rate;
    printf("%s\n", refusal.text);
    return -1;
}

static void a_learning_rate_is_given_or_fitted(void **state)
{
    const int32_t hidden = tiny_config(FAMILY_LLAMA).dims.hidden;
    double fitted = 0;

    (void)state;
    assert_true(rate_fitted(FAMILY_LLAMA, hidden, &fitted));
    assert_true(fabs(rate_of(FAMILY_LLAMA, "auto", "1") - fitted) < 1e-15);
    assert_true(fabs(rate_of(FAMILY_LLAMA, "auto", "2") - 2 * fitted) < 1e-15);
    assert_true(fabs(rate_of(FAMILY_LLAMA, "3e-4", "1") - 3e-4) < 1e-15);
    assert_true(rate_of(FAMILY_MISTRAL, "auto", "1") < 0);
}

static void expect_same_file(struct scratch *scratch, const char *a, const char *b, const char *name)
{
    const char *const folders[2] = {a, b};
    void *data[2];
    int64_t bytes[2];
    struct refusal refusal;

    for (int i = 0; i < 2; i++) {
        char path[600];

        snprintf(path, sizeof(path), "%s/%s/%s", scratch->path, folders[i], name);
        if (file_read(AT_FDCWD, path, path, 1 << 24, &data[i], &bytes[i], &refusal) != STATUS_OK)
            fail_msg("%s", refusal.text);
    }
    assert_int_equal(bytes[0], bytes[1]);
    assert_memory_equal(data[0], data[1], (size_t)bytes[0]);
    free(data[0]);
    free(data[1]);
}

/* A job that cannot begin ends alone; its name and its line of stdout are its own. */
static void jobs_of_a_file_train_together(void **state)
{
    struct scratch scratch;
    struct model_config config = tiny_config(FAMILY_LLAMA);
    static char text[1 << 16];
    char jobs[4096];
    const char *base;
    const char *data;
    const char *file;

    (void)state;
    scratch_begin(&scratch);
    tiny_model(scratch_folder(&scratch, "base"), &config, 1, DTYPE_F32);
    scratch_text(&scratch, "pairs.jsonl", "{\"prompt\": \"One\", \"completion\": \" two\"}\n{\"prompt\": \"Two\", \"completion\": \" three\"}\n");
    base = strdup(scratch_at(&scratch, "base"));
    data = strdup(scratch_at(&scratch, "pairs.jsonl"));
    file = strdup(scratch_at(&scratch, "jobs.jsonl"));
    snprintf(jobs, sizeof(jobs),
             "{\"out\": \"%s/a\", \"rank\": 3, \"validation\": \"%s\"}\n\n"
             "{\"out\": \"%s/b\", \"learning_rate\": 0.01, \"seed\": 5, \"epochs\": 2, \"batch_size\": \"2\"}\n"
             "{\"out\": \"%s/c\", \"data\": \"%s/nothing\"}\n", scratch.path, data, scratch.path, scratch.path, scratch.path);
    scratch_text(&scratch, "jobs.jsonl", jobs);
    assert_int_equal(RUN_ASIDE(text, "--model", base, "--data", data, "--jobs", file, "--epochs", "3", "--json", "--quiet", "--device", "cpu"),
                     EXIT_FAILED);
    snprintf(jobs, sizeof(jobs), "{\"job\":\"%s/a\",\"step\":6,\"steps\":6,", scratch.path);
    assert_non_null(strstr(text, jobs));
    snprintf(jobs, sizeof(jobs), "{\"job\":\"%s/b\",\"step\":2,\"steps\":2,", scratch.path);
    assert_non_null(strstr(text, jobs));
    assert_false(is_there(&scratch, "c"));
    assert_int_equal(RUN("--model", base, "--data", data, "--out", scratch_at(&scratch, "a1"), "--epochs", "3", "--rank", "3", "--validation", data,
                         "--device", "cpu"), EXIT_OK);
    assert_int_equal(RUN("--model", base, "--data", data, "--out", scratch_at(&scratch, "b1"), "--epochs", "2", "--learning-rate", "0.01",
                         "--seed", "5", "--batch-size", "2", "--device", "cpu"), EXIT_OK);
    expect_same_file(&scratch, "a", "a1", "adapter_model.safetensors");
    expect_same_file(&scratch, "a", "a1", "results.csv");
    expect_same_file(&scratch, "b", "b1", "adapter_model.safetensors");
    expect_same_file(&scratch, "b", "b1", "results.csv");
    assert_int_equal(RUN_ASIDE(text, "--model", base, "--data", data, "--jobs", file, "--dry-run", "--json"), EXIT_OK);
    assert_non_null(strstr(text, "\"jobs\":3,"));
    assert_int_equal(RUN("--model", base, "--data", data, "--jobs", file, "--out", "x"), EXIT_USAGE);
    free((void *)(uintptr_t)base);
    free((void *)(uintptr_t)data);
    free((void *)(uintptr_t)file);
    scratch_end(&scratch);
}

static void a_file_of_jobs_is_read_with_care(void **state)
{
    static const char *const bad[] = {"", "\n\n", "nonsense\n", "[1]\n", "{\"data\": \"x\"}\n", "{\"data\": \"x\", \"out\": \"y\", \"rnak\": 3}\n",
                                      "{\"data\": \"x\", \"out\": \"y\", \"rank\": 0}\n", "{\"data\": \"x\", \"out\": \"y\", \"rank\": [1]}\n",
                                      "{\"data\": \"x\", \"out\": \"y\", \"context\": 64}\n", "{\"data\": \"x\", \"out\": \"y\", \"out\": \"z\"}\n",
                                      "{\"data\": \"x\", \"out\": \"y\"}\n{\"data\": \"z\", \"out\": \"y\"}\n",
                                      "{\"data\": \"x\", \"out\": \"y\", \"validation\": \"v\", \"validation_split\": 10}\n"};
    struct scratch scratch;
    const char *file;
    char many[RUNS_MAX * 64 + 64] = "";

    (void)state;
    scratch_begin(&scratch);
    file = strdup(scratch_at(&scratch, "jobs.jsonl"));
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        scratch_text(&scratch, "jobs.jsonl", bad[i]);
        if (RUN("--model", "nowhere", "--jobs", file, "--dry-run") != EXIT_FAILED)
            fail_msg("%s was taken", bad[i]);
    }
    for (int i = 0; i <= RUNS_MAX; i++)
        snprintf(many + strlen(many), 64, "{\"data\": \"x\", \"out\": \"%d\"}\n", i);
    scratch_text(&scratch, "jobs.jsonl", many);
    assert_int_equal(RUN("--model", "nowhere", "--jobs", file), EXIT_FAILED);
    assert_int_equal(RUN("--model", "nowhere", "--jobs", "nothing"), EXIT_FAILED);
    free((void *)(uintptr_t)file);
    scratch_end(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_recorded_run_is_done_again),
        cmocka_unit_test(a_run_that_differs_is_exit_code_1),
        cmocka_unit_test(a_plan_needs_a_config_alone),
        cmocka_unit_test(memory_chooses_the_level_and_no_bit_changes),
        cmocka_unit_test(an_adapter_is_learned_from_a_file),
        cmocka_unit_test(jobs_of_a_file_train_together),
        cmocka_unit_test(a_file_of_jobs_is_read_with_care),
        cmocka_unit_test(preferences_are_learned_from_a_file),
        cmocka_unit_test(a_run_s_picture_is_there_where_gnuplot_is),
        cmocka_unit_test(a_learning_rate_is_given_or_fitted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
