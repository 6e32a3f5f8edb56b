/* The vectors of six real tokenizers, where ../shared/models has them: every id and every text, as the Rust library has them; and the
 * streamed text of every prefix, which must be the whole one's. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/utf8.h"
#include "support.h"

static const char *const names[] = {"gpt2", "llama2", "llama3", "mistral7b-v1", "qwen3", "stories260k"};
enum { NAMES_COUNT = ARRAY_COUNT(names) };
static struct tokenizer *opened[NAMES_COUNT];

static const char *vectors_path(const char *kind, const char *name)
{
    char relative[128];

    snprintf(relative, sizeof(relative), "models/tokenizers/vectors/%s_%s.jsonl", kind, name);
    return test_shared_path(relative);
}

static struct tokenizer *tokenizer_of(unsigned name)
{
    char relative[128];
    char error[TOKENIZER_ERROR_MAX];
    const char *path;

    if (opened[name] != NULL)
        return opened[name];
    snprintf(relative, sizeof(relative), strcmp(names[name], "stories260k") == 0 ? "models/%s" : "models/tokenizers/%s", names[name]);
    path = test_shared_path(relative);
    if (path == NULL) {
        print_message("skipped: ../shared/%s is not there\n", relative);
        skip();
    }
    if (tokenizer_open(path, &opened[name], error) != STATUS_OK)
        fail_msg("%s: %s", names[name], error);
    return opened[name];
}

static int close_all(void **state)
{
    (void)state;
    for (unsigned i = 0; i < NAMES_COUNT; i++)
        tokenizer_close(opened[i]);
    return 0;
}

/* --- comparing --- */

static void same_ids(const struct token_list *list, const json_t *ids, const char *where, size_t line)
{
    size_t i;
    const json_t *id;

    json_array_foreach(ids, i, id) {
        if (i >= list->count || list->ids[i] != json_integer_value(id))
            fail_msg("%s, line %zu: id %zu is %d, not %lld", where, line, i, i < list->count ? list->ids[i] : -1,
                     (long long)json_integer_value(id));
    }
    if (list->count != json_array_size(ids))
        fail_msg("%s, line %zu: %zu ids, not %zu", where, line, list->count, json_array_size(ids));
}

static void check_encode(const struct tokenizer *tokenizer, const char *text, size_t count, unsigned flags, const json_t *ids,
                         const char *where, size_t line)
{
    struct token_list list = {0};
    char error[TOKENIZER_ERROR_MAX];

    if (tokenizer_encode(tokenizer, text, count, NULL, flags, &list, error) != STATUS_OK)
        fail_msg("%s, line %zu: %s", where, line, error);
    same_ids(&list, ids, where, line);
    token_list_free(&list);
}

static void same_text(const struct token_text *text, const json_t *expected, const char *where, size_t line, const char *how)
{
    if (text->count != json_string_length(expected) ||
        (text->count > 0 && memcmp(text->bytes, json_string_value(expected), text->count) != 0))
        fail_msg("%s, line %zu, %s: '%.*s', not '%s'", where, line, how, (int)text->count, text->bytes, json_string_value(expected));
}

/* Each prefix, by streaming on from a copy of the stream that read the shorter one. Returns how many. */
static size_t check_stream(const struct tokenizer *tokenizer, const int32_t *ids, size_t count, bool skip_special, const char *where,
                           size_t line)
{
    struct token_stream stream;
    struct token_text streamed = {0};
    size_t stride = count > 96 ? 7 : 1; /* long ones at every seventh prefix, and whole */

    token_stream_begin(&stream, tokenizer, skip_special);
    for (size_t i = 0; i <= count; i++) {
        struct token_stream copy = stream;
        struct token_text ended = {0}, whole = {0};
        size_t before = streamed.count;

        if (i % stride == 0 || i == count) {
            token_text_add(&ended, streamed.bytes, streamed.count);
            token_stream_finish(&copy, &ended);
            tokenizer_decode(tokenizer, ids, i, skip_special, &whole);
            if (whole.count != ended.count || (whole.count > 0 && memcmp(whole.bytes, ended.bytes, whole.count) != 0))
                fail_msg("%s, line %zu, %zu ids: streamed '%.*s', whole '%.*s'", where, line, i, (int)ended.count, ended.bytes,
                         (int)whole.count, whole.bytes);
            token_text_free(&ended);
            token_text_free(&whole);
        }
        if (i == count)
            break;
        token_stream_push(&stream, ids[i], &streamed);
        if (streamed.count > before)
            assert_int_equal(utf8_valid(streamed.bytes + before, streamed.count - before), streamed.count - before);
    }
    token_text_free(&streamed);
    return count / stride + 1;
}

static size_t check_decode(const struct tokenizer *tokenizer, const json_t *ids, const json_t *skipped, const json_t *kept,
                           const char *where, size_t line)
{
    struct token_list list = {0};
    struct token_text text = {0};
    const json_t *id;
    size_t prefixes;
    size_t i;

    json_array_foreach(ids, i, id)
        token_list_add(&list, (int32_t)json_integer_value(id));
    tokenizer_decode(tokenizer, list.ids, list.count, true, &text);
    same_text(&text, skipped, where, line, "without special tokens");
    text.count = 0;
    tokenizer_decode(tokenizer, list.ids, list.count, false, &text);
    same_text(&text, kept, where, line, "with special tokens");
    prefixes = check_stream(tokenizer, list.ids, list.count, true, where, line);
    prefixes += check_stream(tokenizer, list.ids, list.count, false, where, line);
    token_list_free(&list);
    token_text_free(&text);
    return prefixes;
}

/* --- files of lines --- */

typedef void record_check(const struct tokenizer *tokenizer, const json_t *record, const char *where, size_t line, size_t *prefixes);

static void check_lines(const char *kind, bool needed, record_check *check_record)
{
    for (unsigned name = 0; name < NAMES_COUNT; name++) {
        struct tokenizer *tokenizer = tokenizer_of(name);
        const char *path = vectors_path(kind, names[name]);
        FILE *file = path != NULL ? fopen(path, "r") : NULL;
        size_t line = 0, prefixes = 0;
        json_t *record;
        json_error_t error;

        if (file == NULL) {
            assert_false(needed);
            continue;
        }
        while ((record = json_loadf(file, JSON_DISABLE_EOF_CHECK | JSON_ALLOW_NUL, &error)) != NULL) {
            check_record(tokenizer, record, path, ++line, &prefixes);
            json_decref(record);
        }
        fclose(file);
        assert_true(line > 0);
        print_message("%s_%s: %zu compared", kind, names[name], line);
        print_message(prefixes > 0 ? ", %zu prefixes streamed\n" : "\n", prefixes);
    }
}

static void one_encode(const struct tokenizer *tokenizer, const json_t *record, const char *where, size_t line, size_t *prefixes)
{
    const json_t *text = json_object_get(record, "text");
    const char *bytes = json_string_value(text);
    size_t count = json_string_length(text);

    check_encode(tokenizer, bytes, count, TOKENIZER_ADD_SPECIAL, json_object_get(record, "ids"), where, line);
    check_encode(tokenizer, bytes, count, 0, json_object_get(record, "ids_no_special"), where, line);
    *prefixes += check_decode(tokenizer, json_object_get(record, "ids"), json_object_get(record, "decode_skip_special"),
                              json_object_get(record, "decode_keep_special"), where, line);
}

static void one_decode(const struct tokenizer *tokenizer, const json_t *record, const char *where, size_t line, size_t *prefixes)
{
    *prefixes += check_decode(tokenizer, json_object_get(record, "ids"), json_object_get(record, "skip"),
                              json_object_get(record, "keep"), where, line);
}

static void one_llamacpp(const struct tokenizer *tokenizer, const json_t *record, const char *where, size_t line, size_t *prefixes)
{
    const json_t *text = json_object_get(record, "text");

    (void)prefixes;
    check_encode(tokenizer, json_string_value(text), json_string_length(text), 0, json_object_get(record, "ids"), where, line);
}

static void texts_become_the_ids_of_the_vectors(void **state)
{
    (void)state;
    check_lines("encode", true, one_encode);
}

static void ids_become_the_texts_of_the_vectors_streamed_or_whole(void **state)
{
    (void)state;
    check_lines("decode", true, one_decode);
}

static void the_vectors_of_another_implementation_agree(void **state)
{
    (void)state;
    check_lines("llamacpp", false, one_llamacpp);
}

static json_t *bulk_texts;

static void one_bulk(const struct tokenizer *tokenizer, const json_t *record, const char *where, size_t line, size_t *prefixes)
{
    const json_t *text = json_array_get(bulk_texts, line - 1);

    (void)prefixes;
    check_encode(tokenizer, json_string_value(text), json_string_length(text), 0, record, where, line);
}

static void many_texts_become_the_ids_of_the_vectors(void **state)
{
    const char *path = test_shared_path("models/tokenizers/vectors/bulk_texts.json");

    (void)state;
    if (path == NULL) {
        print_message("skipped: ../shared/models/tokenizers/vectors is not there\n");
        skip();
    }
    bulk_texts = json_load_file(path, JSON_ALLOW_NUL, NULL);
    assert_non_null(bulk_texts);
    check_lines("bulk", true, one_bulk);
    json_decref(bulk_texts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_become_the_ids_of_the_vectors),
        cmocka_unit_test(ids_become_the_texts_of_the_vectors_streamed_or_whole),
        cmocka_unit_test(many_texts_become_the_ids_of_the_vectors),
        cmocka_unit_test(the_vectors_of_another_implementation_agree),
    };

    return cmocka_run_group_tests(tests, NULL, close_all);
}
