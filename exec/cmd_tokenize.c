/* berth-exec tokenize DIR: standard input through a model's tokenizer. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "cmd.h"
#include "engine/chat/chat.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/utf8.h"
#include "host/options.h"
#include "host/words.h"

enum { OPTION_json, OPTION_decode, OPTION_chat, OPTION_render, OPTION_no_special, OPTION_plain, OPTION_keep_special, OPTION_help };
static const struct option table[] = {
    {"json", NULL, "one JSON object instead of the ids alone"},
    {"decode", NULL, "standard input is ids, apart by anything but digits; print their text"},
    {"chat", NULL, "standard input is JSON: a list of messages, or an object with messages, tools, add_generation_prompt and others"},
    {"render", NULL, "with --chat: print the text that the template makes, not its ids"},
    {"no-special", NULL, "put none of the model's own tokens around the text"},
    {"plain", NULL, "text that spells a special token stays text; with --chat always so for what the messages say"},
    {"keep-special", NULL, "with --decode: print special tokens too"},
    {"help", NULL, "this text"},
};

struct arguments {
    FILE *input, *output, *errors;
    const char *directory;
    bool json, decode, chat, render, no_special, plain, keep_special;
};

static const char about[] =
    "usage: berth-exec tokenize DIR [options] < text\n\n"
    "Prints the ids of a text, as the tokenizer of the model in DIR makes them (tokenizer.json or tokenizer.json.gz, and\n"
    "tokenizer_config.json where there is one).\n\n"
    "  berth-exec tokenize models/qwen3 --json < text.txt\n"
    "  berth-exec tokenize models/qwen3 < text.txt | berth-exec tokenize models/qwen3 --decode\n"
    "  echo '[{\"role\": \"user\", \"content\": \"Hi\"}]' | berth-exec tokenize models/qwen3 --chat --render\n";

static int failed(const struct arguments *arguments, const char *error)
{
    fprintf(arguments->errors, "berth-exec tokenize: %s: %s\n", arguments->directory, error);
    return EXIT_FAILED;
}

/* --- printing --- */

/* A piece that is no UTF-8 by itself shows U+FFFD for what is not. */
static json_t *text_json(const char *bytes, size_t count)
{
    struct token_text text = {0};
    json_t *string;

    for (size_t at = 0; at < count;) {
        struct utf8 here = utf8_at(bytes + at, count - at);

        token_text_add(&text, here.good ? bytes + at : UTF8_REPLACEMENT, here.good ? here.bytes : UTF8_REPLACEMENT_BYTES);
        at += here.bytes;
    }
    string = json_stringn_nocheck(text.count > 0 ? text.bytes : "", text.count);
    token_text_free(&text);
    return string;
}

static int print_json(FILE *output, json_t *object)
{
    int wrong = json_dumpf(object, output, JSON_COMPACT);

    fputc('\n', output);
    json_decref(object);
    return wrong == 0 ? EXIT_OK : EXIT_FAILED;
}

static int print_ids(const struct tokenizer *tokenizer, const struct arguments *arguments, const struct token_list *list)
{
    json_t *ids, *pieces, *spellings;

    if (!arguments->json) {
        for (size_t i = 0; i < list->count; i++)
            fprintf(arguments->output, i == 0 ? "%d" : " %d", list->ids[i]);
        fputc('\n', arguments->output);
        return EXIT_OK;
    }
    ids = json_array();
    pieces = json_array();
    spellings = json_array();
    for (size_t i = 0; i < list->count; i++) {
        size_t count;
        const char *bytes = token_bytes(tokenizer, list->ids[i], &count);

        json_array_append_new(ids, json_integer(list->ids[i]));
        json_array_append_new(pieces, text_json(bytes, count));
        bytes = token_spelling(tokenizer, list->ids[i], &count);
        json_array_append_new(spellings, text_json(bytes, count));
    }
    return print_json(arguments->output, json_pack("{s:I, s:o, s:o, s:o}", "count", (json_int_t)list->count, "ids", ids, "pieces", pieces,
                                                   "tokens", spellings));
}

static int print_text(const struct arguments *arguments, const char *bytes, size_t count)
{
    if (arguments->json)
        return print_json(arguments->output, json_pack("{s:o}", "text", text_json(bytes, count)));
    if (count > 0)
        fwrite(bytes, 1, count, arguments->output);
    return EXIT_OK;
}

/* --- the three directions --- */

static int encode(const struct tokenizer *tokenizer, const struct arguments *arguments, const struct token_text *input)
{
    unsigned flags = (arguments->no_special ? 0 : TOKENIZER_ADD_SPECIAL) | (arguments->plain ? TOKENIZER_PLAIN : 0);
    char error[TOKENIZER_ERROR_MAX];
    struct token_list list = {0};
    int code = EXIT_FAILED;

    if (tokenizer_encode(tokenizer, input->count > 0 ? input->bytes : "", input->count, NULL, flags, &list, error) == STATUS_OK)
        code = print_ids(tokenizer, arguments, &list);
    else
        failed(arguments, error);
    token_list_free(&list);
    return code;
}

static bool read_ids(const struct tokenizer *tokenizer, const struct arguments *arguments, const struct token_text *input,
                     struct token_list *list)
{
    char error[96];

    for (size_t at = 0; at < input->count;) {
        int64_t id = 0;
        size_t from = at, count;

        while (at < input->count && input->bytes[at] >= '0' && input->bytes[at] <= '9')
            id = min_i64(id * 10 + (input->bytes[at++] - '0'), TOKENIZER_IDS_MAX);
        if (at == from) {
            at++;
            continue;
        }
        if (token_spelling(tokenizer, (int32_t)id, &count) == NULL) {
            snprintf(error, sizeof(error), "there is no token with the id at byte %zu", from);
            failed(arguments, error);
            return false;
        }
        token_list_add(list, (int32_t)id);
    }
    return true;
}

static int decode(const struct tokenizer *tokenizer, const struct arguments *arguments, const struct token_text *input)
{
    struct token_list list = {0};
    struct token_text text = {0};
    int code = EXIT_FAILED;

    if (read_ids(tokenizer, arguments, input, &list)) {
        tokenizer_decode(tokenizer, list.ids, list.count, !arguments->keep_special, &text);
        code = print_text(arguments, text.bytes, text.count);
    }
    token_list_free(&list);
    token_text_free(&text);
    return code;
}

static int print_chat(const struct tokenizer *tokenizer, const struct arguments *arguments, const struct chat_text *text)
{
    char error[TOKENIZER_ERROR_MAX];
    struct token_list list = {0};
    int code;

    if (arguments->render)
        return print_text(arguments, text->text.bytes, text->text.count);
    /* The template writes what begins a chat; nothing is put around it. */
    if (tokenizer_encode(tokenizer, text->text.count > 0 ? text->text.bytes : "", text->text.count, text->plain, 0, &list, error) !=
        STATUS_OK)
        return failed(arguments, error);
    code = print_ids(tokenizer, arguments, &list);
    token_list_free(&list);
    return code;
}

static int render(const struct tokenizer *tokenizer, const struct arguments *arguments, json_t *input)
{
    const json_t *prompt = json_object_get(input, "add_generation_prompt");
    struct chat_request request = {.messages = json_is_array(input) ? input : json_object_get(input, "messages"),
                                   .tools = json_object_get(input, "tools"), .add_generation_prompt = !json_is_false(prompt),
                                   .now_s = (int64_t)time(NULL)};
    size_t count;
    const char *source = tokenizer_chat_template(tokenizer, &count);
    struct chat_template *template;
    struct chat_text text = {0};
    char error[CHAT_ERROR_MAX];
    json_t *variables;
    int code = EXIT_FAILED;

    if (!json_is_array(request.messages))
        return failed(arguments, "the chat on standard input is neither a list of messages nor an object with such messages");
    if (source == NULL)
        return failed(arguments, "the model has no chat template");
    if (chat_template_open(source, count, &template, error) != STATUS_OK)
        return failed(arguments, error);
    variables = json_is_object(input) ? json_copy(input) : json_object();
    json_object_del(variables, "messages");
    json_object_del(variables, "tools");
    json_object_del(variables, "add_generation_prompt");
    request.variables = variables;
    if (chat_render(template, tokenizer, &request, &text, error) == STATUS_OK)
        code = print_chat(tokenizer, arguments, &text);
    else
        failed(arguments, error);
    json_decref(variables);
    chat_text_free(&text);
    chat_template_close(template);
    return code;
}

static int chat(const struct tokenizer *tokenizer, const struct arguments *arguments, const struct token_text *input)
{
    json_error_t error;
    json_t *root = json_loadb(input->count > 0 ? input->bytes : "", input->count, JSON_ALLOW_NUL, &error);
    char message[160], shown[EXCERPT_MAX];
    int code;

    if (root == NULL) {
        snprintf(message, sizeof(message), "the chat on standard input: line %d: %s", error.line,
                 excerpt(error.text, strlen(error.text), shown));
        return failed(arguments, message);
    }
    code = render(tokenizer, arguments, root);
    json_decref(root);
    return code;
}

/* --- the command line --- */

static bool read_input(FILE *file, struct token_text *input)
{
    char part[1 << 14];
    size_t got;

    while ((got = fread(part, 1, sizeof(part), file)) > 0 && input->count <= 4 * (size_t)TOKENIZER_TEXT_BYTES_MAX)
        token_text_add(input, part, got);
    return ferror(file) == 0 && got == 0;
}

static int run(const struct arguments *arguments)
{
    struct token_text input = {0};
    char error[TOKENIZER_ERROR_MAX];
    struct tokenizer *tokenizer;
    int code;

    if (tokenizer_open(arguments->directory, &tokenizer, error) != STATUS_OK)
        return failed(arguments, error);
    if (!read_input(arguments->input, &input))
        code = failed(arguments, "standard input cannot be read, or is too long");
    else
        code = (arguments->decode ? decode : arguments->chat ? chat : encode)(tokenizer, arguments, &input);
    tokenizer_close(tokenizer);
    token_text_free(&input);
    return code;
}

static const char *contradiction(const struct arguments *arguments)
{
    if (arguments->directory == NULL)
        return "needs the folder of a model: berth-exec tokenize DIR";
    if (arguments->decode && arguments->chat)
        return "--decode and --chat are two directions";
    if (arguments->render && !arguments->chat)
        return "--render goes with --chat";
    if (arguments->keep_special && !arguments->decode)
        return "--keep-special goes with --decode";
    return NULL;
}

static int tokenize_command(int argc, char **argv, FILE *input, FILE *output, FILE *errors)
{
    struct options options = {.command = "berth-exec tokenize", .table = table, .count = ARRAY_COUNT(table), .errors = errors,
                              .argc = argc, .argv = argv, .at = 1};
    struct arguments arguments = {.input = input, .output = output, .errors = errors};
    const char *value;
    int option;

    while ((option = options_next(&options, &value)) != OPTION_END) {
        switch (option) {
        case OPTION_json: arguments.json = true; break;
        case OPTION_decode: arguments.decode = true; break;
        case OPTION_chat: arguments.chat = true; break;
        case OPTION_render: arguments.render = true; break;
        case OPTION_no_special: arguments.no_special = true; break;
        case OPTION_plain: arguments.plain = true; break;
        case OPTION_keep_special: arguments.keep_special = true; break;
        case OPTION_help:
            fprintf(output, "%s\n", about);
            options_print(output, table, ARRAY_COUNT(table));
            fputs("\nExit codes: 0 done, 1 it could not be done, 2 wrong usage.\n", output);
            return EXIT_OK;
        case OPTION_OPERAND:
            if (arguments.directory != NULL) {
                fprintf(errors, "berth-exec tokenize: takes one folder, not '%s' too\n", value);
                return EXIT_USAGE;
            }
            arguments.directory = value;
            break;
        default:
            return EXIT_USAGE;
        }
    }
    value = contradiction(&arguments);
    if (value != NULL) {
        fprintf(errors, "berth-exec tokenize: %s\n", value);
        return EXIT_USAGE;
    }
    return run(&arguments);
}

int cmd_tokenize(int argc, char **argv)
{
    return tokenize_command(argc, argv, stdin, stdout, stderr);
}
