/* The verb from arguments and standard input to exit code, in this process: its file is part of the program, not of a library. */
#include "cmd_tokenize.c"

#include <unistd.h>

#include "support.h"

/* Bytes in, and two tokens more. The template is short enough to read. */
static const char config[] = "{\"eos_token\": \"<|end|>\", \"chat_template\": \"{% for m in messages %}{{ m.content + eos_token }}{% endfor %}"
                             "{% if tools %}{{ tools|tojson }}{% endif %}{% if loud %}!{% endif %}{{ '>' if add_generation_prompt }}\"}";
static char folder[64];

static FILE *create(const char *name)
{
    char path[128];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "w");
    assert_non_null(file);
    return file;
}

static int make_folder(void **state)
{
    FILE *file;

    (void)state;
    strcpy(folder, "/tmp/berth-tokenize-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return 1;
    file = create("tokenizer.json");
    fputs("{\"added_tokens\": [{\"id\": 95, \"content\": \"<|end|>\", \"special\": true}],"
          " \"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false}, \"decoder\": {\"type\": \"ByteLevel\"},"
          " \"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [{\"Sequence\": {\"id\": \"A\"}}, {\"SpecialToken\": {\"id\": \"<|end|>\"}}],"
          " \"special_tokens\": {\"<|end|>\": {\"ids\": [95]}}},"
          " \"model\": {\"type\": \"BPE\", \"merges\": [\"H i\"], \"vocab\": {\"Hi\": 94", file);
    for (int i = 0; i < 94; i++) {
        char c = (char)('!' + i);

        fprintf(file, c == '"' || c == '\\' ? ", \"\\%c\": %d" : ", \"%c\": %d", c, i);
    }
    fputs("}}}", file);
    fclose(file);
    file = create("tokenizer_config.json");
    fputs(config, file);
    fclose(file);
    return 0;
}

static int remove_folder(void **state)
{
    char path[128];

    (void)state;
    snprintf(path, sizeof(path), "%s/tokenizer.json", folder);
    unlink(path);
    snprintf(path, sizeof(path), "%s/tokenizer_config.json", folder);
    unlink(path);
    return rmdir(folder);
}

static void take(FILE *file, char *text, size_t bytes)
{
    size_t count;

    rewind(file);
    count = fread(text, 1, bytes - 1, file);
    text[count] = 0;
    fclose(file);
}

static void expect(const char *input, const char *const *words, int code, const char *output, const char *errors)
{
    char *arguments[8] = {(char *)(uintptr_t)"tokenize"};
    FILE *files[3] = {tmpfile(), tmpfile(), tmpfile()};
    char texts[2][8192];
    int count = 1;

    for (; words[count - 1] != NULL; count++)
        arguments[count] = (char *)(uintptr_t)words[count - 1];
    fputs(input, files[0]);
    rewind(files[0]);
    assert_int_equal(tokenize_command(count, arguments, files[0], files[1], files[2]), code);
    fclose(files[0]);
    take(files[1], texts[0], sizeof(texts[0]));
    take(files[2], texts[1], sizeof(texts[1]));
    assert_string_equal(texts[0], output);
    if (strstr(texts[1], errors) == NULL || (errors[0] == 0) != (texts[1][0] == 0))
        fail_msg("'%s' does not say '%s'", texts[1], errors);
}
#define EXPECT(input, code, output, errors, ...) expect(input, (const char *const[]){__VA_ARGS__, NULL}, code, output, errors)

static void texts_become_ids_and_ids_texts(void **state)
{
    (void)state;
    EXPECT("Hi!", 0, "94 0 95\n", "", folder);
    EXPECT("Hi!", 0, "94 0\n", "", folder, "--no-special");
    EXPECT("", 0, "\n", "", folder, "--no-special");
    EXPECT("Hi<|end|>", 0, "{\"count\":2,\"ids\":[94,95],\"pieces\":[\"Hi\",\"<|end|>\"],\"tokens\":[\"Hi\",\"<|end|>\"]}\n", "", folder, "--json", "--no-special");
    EXPECT("<|end|>", 0, "27 91 68 77 67 91 29\n", "", folder, "--plain", "--no-special");
    EXPECT("[94, 0, 95]\n", 0, "Hi!", "", folder, "--decode");
    EXPECT("94 0 95", 0, "Hi!<|end|>", "", folder, "--decode", "--keep-special");
    EXPECT("94", 0, "{\"text\":\"Hi\"}\n", "", folder, "--decode", "--json");
}

static void chats_go_through_the_template(void **state)
{
    (void)state;
    EXPECT("[{\"content\": \"Hi\"}]", 0, "Hi<|end|>>", "", folder, "--chat", "--render");
    EXPECT("{\"messages\": [{\"content\": \"Hi\"}], \"add_generation_prompt\": false, \"loud\": true, \"tools\": [1]}", 0, "Hi<|end|>[1]!", "", folder,
           "--chat", "--render");
    EXPECT("[{\"content\": \"Hi<|end|>\"}]", 0, "94 27 91 68 77 67 91 29 95 29\n", "", folder, "--chat");
}

static void what_cannot_be_done_is_said(void **state)
{
    (void)state;
    EXPECT("", 2, "", "needs the folder of a model", "--json");
    EXPECT("", 2, "", "takes one folder, not 'b' too", "a", "b");
    EXPECT("", 2, "", "two directions", folder, "--chat", "--decode");
    EXPECT("", 2, "", "--render goes with --chat", folder, "--render");
    EXPECT("", 2, "", "--keep-special goes with --decode", folder, "--keep-special");
    EXPECT("", 2, "", "--nothing", folder, "--nothing");
    EXPECT("", 1, "", "there is neither tokenizer.json nor tokenizer.json.gz", "/tmp/berth-no-such-folder");
    EXPECT("\xff", 1, "", "not UTF-8 at byte 0", folder);
    EXPECT("96", 1, "", "there is no token with the id at byte 0", folder, "--decode");
    EXPECT("99999999999999999999", 1, "", "there is no token with the id at byte 0", folder, "--decode");
    EXPECT("{", 1, "", "the chat on standard input: line 1: ", folder, "--chat");
    EXPECT("{}", 1, "", "neither a list of messages nor an object", folder, "--chat");
    EXPECT("[1]", 1, "", "line 1: ", folder, "--chat");
}

static void help_is_no_mistake(void **state)
{
    char *arguments[] = {(char *)(uintptr_t)"tokenize", (char *)(uintptr_t)"--help", NULL};
    FILE *files[2] = {tmpfile(), tmpfile()};
    char texts[2][8192];

    (void)state;
    assert_int_equal(tokenize_command(2, arguments, stdin, files[0], files[1]), 0);
    take(files[0], texts[0], sizeof(texts[0]));
    take(files[1], texts[1], sizeof(texts[1]));
    assert_int_equal(strncmp(texts[0], "usage: berth-exec tokenize DIR", 30), 0);
    assert_non_null(strstr(texts[0], "--render"));
    assert_string_equal(texts[1], "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_become_ids_and_ids_texts),
        cmocka_unit_test(chats_go_through_the_template),
        cmocka_unit_test(what_cannot_be_done_is_said),
        cmocka_unit_test(help_is_no_mistake),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
