/* The verb from arguments to exit code, in this process: its files are part of the program, not of a library. */
#include "cmd_train_plan.c"
#include "cmd_validate.c"

#include "scratch.h"
#include "support.h"

#define LINE(prompt, answer) "{\"messages\": [{\"role\": \"user\", \"content\": \"" prompt "\"}, {\"role\": \"assistant\", \"content\": \"" answer "\"}]}\n"

static struct scratch scratch;
static char said[16384];
static char errors[4096];

static void take_text(FILE *file, char *text, size_t bytes)
{
    size_t count;

    rewind(file);
    count = fread(text, 1, bytes - 1, file);
    text[count] = '\0';
    fclose(file);
}

static int run_words(const char *const *words)
{
    char *arguments[16] = {(char *)(uintptr_t)"validate"};
    FILE *files[2] = {tmpfile(), tmpfile()};
    int count = 1;
    int code;

    for (; words[count - 1] != NULL; count++)
        arguments[count] = (char *)(uintptr_t)words[count - 1];
    code = validate_command(count, arguments, files[0], files[1]);
    take_text(files[0], said, sizeof(said));
    take_text(files[1], errors, sizeof(errors));
    return code;
}
#define RUN(...) run_words((const char *const[]){__VA_ARGS__, NULL})

static void has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("'%s' does not say '%s'", text, part);
}

static int make_files(void **state)
{
    static const char config[] = "{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\", \"chat_template\": \"{% for m in messages %}[{{ m.role }}]{{ m.content }}"
                                 "{{ eos_token if m.role == 'assistant' }}{% endfor %}{{ '[assistant]' if add_generation_prompt }}\"}";
    const struct model_config model = tiny_config(FAMILY_LLAMA);
    char ten[4096] = "";

    (void)state;
    scratch_begin(&scratch);
    for (int i = 0; i < 10; i++)
        sprintf(ten + strlen(ten), LINE("Say %d", "It is %d"), i, i);
    scratch_text(&scratch, "ten.jsonl", ten);
    strcat(ten, "{]\n");
    scratch_text(&scratch, "bad.jsonl", ten);
    scratch_text(&scratch, "held.jsonl", LINE("Say 3", "It is 3") LINE("Say 4", "Four"));
    scratch_text(&scratch, "wrong.jsonl", "{\"messages\": []}\n");
    tiny_model(scratch_folder(&scratch, "model"), &model, 1, DTYPE_F32);
    scratch_text(&scratch, "model/tokenizer_config.json", config);
    return 0;
}

static int remove_files(void **state)
{
    (void)state;
    scratch_end(&scratch);
    return 0;
}

static void what_is_right_is_accepted(void **state)
{
    (void)state;
    assert_int_equal(RUN(scratch_at(&scratch, "ten.jsonl")), 0);
    has(said, "10 examples, 10 without errors, 0 duplicates\n");
    has(said, "ten.jsonl: accepted\n");
    assert_string_equal(errors, "");
    assert_int_equal(RUN(scratch_at(&scratch, "ten.jsonl"), "--json"), 0);
    has(said, "{\"accept\":true,\"method\":\"supervised\",\"issues\":[],\"counts\":{},\"statistics\":{\"bytes\":");
    has(said, "\"examples\":10,\"examples_without_errors\":10,\"messages\":20,\"assistant_messages\":10,");
    assert_null(strstr(said, "dry_run"));
}

static void what_is_wrong_is_rejected_with_its_place(void **state)
{
    (void)state;
    assert_int_equal(RUN(scratch_at(&scratch, "bad.jsonl")), 1);
    has(said, "bad.jsonl:11:2: error: Expected a double-quoted key at column 2. [bad_json]\n    Write keys in double quotes");
    has(said, "bad.jsonl: rejected\n");
    assert_int_equal(RUN(scratch_at(&scratch, "bad.jsonl"), "--json"), 1);
    has(said, "{\"accept\":false,");
    has(said, "[{\"file\":\"training\",\"line\":11,\"column\":2,\"severity\":\"error\",\"code\":\"bad_json\",\"message\":\"Expected a double-quoted key at column 2.\",\"hint\":\"");
    has(said, "\"counts\":{\"bad_json\":{\"severity\":\"error\",\"count\":1,\"shown\":1}}");
    assert_int_equal(RUN(scratch_at(&scratch, "ten.jsonl"), "--method", "dpo", "--json"), 1);
    has(said, "\"method\":\"dpo\",\"issues\":[{\"file\":\"training\",\"line\":1,\"column\":null,\"severity\":\"error\",\"code\":\"wrong_method\"");
    assert_int_equal(RUN(scratch_at(&scratch, "held.jsonl")), 1);
    has(said, "held.jsonl: error: File has 2 examples; at least 10 are needed. [too_few_examples]");
    assert_int_equal(RUN(scratch_at(&scratch, "held.jsonl"), "--examples-min", "2"), 0);
    assert_int_equal(RUN(scratch_at(&scratch, "ten.jsonl"), "--line-bytes", "80"), 1);
    has(said, "the limit is 80");
}

static void the_validation_file_is_looked_at_too(void **state)
{
    (void)state;
    assert_int_equal(RUN(scratch_at(&scratch, "ten.jsonl"), "--validation", scratch_at(&scratch, "held.jsonl"), "--json"), 0);
    has(said, "\"line\":4,\"column\":null,\"severity\":\"warning\",\"code\":\"validation_leak\"");
    has(said, "\"line\":5,\"column\":null,\"severity\":\"warning\",\"code\":\"validation_prompt_leak\"");
    has(said, "\"validation_leaks\":1,\"validation_prompt_leaks\":1");
    has(said, "\"validation_counts\":{},\"validation_statistics\":{");
    assert_int_equal(RUN(scratch_at(&scratch, "ten.jsonl"), "--validation", scratch_at(&scratch, "wrong.jsonl"), "--json"), 1);
    has(said, "{\"file\":\"validation\",\"line\":1,\"column\":14,\"severity\":\"error\",\"code\":\"messages_empty\"");
}

static void a_model_tells_tokens_price_and_time(void **state)
{
    json_t *report;
    json_int_t min, max, total, trained, tokens, steps;
    double price, seconds;

    (void)state;
    assert_int_equal(RUN(scratch_at(&scratch, "ten.jsonl"), "--model", scratch_at(&scratch, "model"), "--json", "--price", "3", "--tokens-per-s", "500"), 0);
    report = json_loads(said, 0, NULL);
    assert_non_null(report);
    assert_int_equal(json_unpack(report, "{s:{s:{s:I, s:I, s:I, s:I}}, s:{s:I, s:I, s:F, s:F}}", "statistics", "tokens", "min", &min, "max", &max, "total",
                                 &total, "trained", &trained, "dry_run", "tokens", &tokens, "steps", &steps, "price", &price, "seconds", &seconds), 0);
    /* All ten differ in a digit only. */
    assert_int_equal(min, max);
    assert_int_equal(total, 10 * min);
    assert_true(trained > 0 && trained < total);
    assert_int_equal(tokens, 10 * total); /* ten epochs make a hundred examples */
    assert_int_equal(steps, 100);
    assert_true(price > 0 && price == 3 * (double)tokens / 1e6);
    assert_true(seconds == (double)tokens / 500);
    json_decref(report);
    assert_int_equal(RUN(scratch_at(&scratch, "ten.jsonl"), "--model", scratch_at(&scratch, "model"), "--context", "8"), 1);
    has(said, "error: The prompt alone exceeds the context window");
    assert_int_equal(RUN(scratch_at(&scratch, "ten.jsonl"), "--model", scratch_at(&scratch, "model"), "--epochs", "2", "--batch-size", "4", "--price", "3"), 0);
    has(said, "dry run: 2 epochs of 3 steps, 4 samples a step, context 128: ");
    has(said, " at 3 a million tokens\n");
}

static void what_cannot_be_done_is_said(void **state)
{
    (void)state;
    assert_int_equal(RUN("--json"), 2);
    has(errors, "needs a file");
    assert_int_equal(RUN("a", "b"), 2);
    has(errors, "takes one file, not 'b' too");
    assert_int_equal(RUN("a", "--method", "rl"), 2);
    has(errors, "supervised or dpo");
    assert_int_equal(RUN("a", "--context", "100"), 2);
    has(errors, "go with --model");
    assert_int_equal(RUN("a", "--line-bytes", "16777217"), 2);
    assert_int_equal(RUN("a", "--price", "-1"), 2);
    assert_int_equal(RUN("a", "--frobnicate"), 2);
    assert_int_equal(RUN("/tmp/berth-no-such-file"), 1);
    has(errors, "there is no such file");
    assert_int_equal(RUN(scratch_at(&scratch, "ten.jsonl"), "--model", "/tmp/berth-no-such-folder"), 1);
    assert_int_equal(RUN(scratch_at(&scratch, "ten.jsonl"), "--model", scratch_at(&scratch, "model"), "--context", "129"), 1);
    has(errors, "more than the model's 128 positions");
    assert_string_equal(said, "");
}

static void help_is_no_mistake(void **state)
{
    (void)state;
    assert_int_equal(RUN("--help"), 0);
    has(said, "usage: berth-exec validate FILE");
    for (enum validate_code code = 0; code < VALIDATE_CODE_COUNT; code++)
        has(said, validate_code_name(code));
    assert_string_equal(errors, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_right_is_accepted),          cmocka_unit_test(what_is_wrong_is_rejected_with_its_place),
        cmocka_unit_test(the_validation_file_is_looked_at_too), cmocka_unit_test(a_model_tells_tokens_price_and_time),
        cmocka_unit_test(what_cannot_be_done_is_said),        cmocka_unit_test(help_is_no_mistake),
    };

    return cmocka_run_group_tests(tests, make_files, remove_files);
}
