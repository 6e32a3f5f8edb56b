/* The chats of real templates, where ../shared/models has them: the text as Jinja 2 renders it, and its ids; and what becomes of a
 * message that spells the template's own marks. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/chat/chat.h"
#include "support.h"

struct family {
    const char *name;
    struct tokenizer *tokenizer;
    struct chat_template *template;
    FILE *vectors;
};

static struct family family_open(const char *name)
{
    struct family family = {.name = name};
    char relative[128];
    char error[TOKENIZER_ERROR_MAX];
    const char *folder, *vectors, *text;
    size_t count;

    snprintf(relative, sizeof(relative), "models/tokenizers/%s", name);
    folder = test_shared_path(relative);
    snprintf(relative, sizeof(relative), "models/tokenizers/vectors/chat_%s.jsonl", name);
    vectors = test_shared_path(relative);
    if (folder == NULL || vectors == NULL) {
        print_message("skipped: ../shared/%s is not there\n", relative);
        skip();
    }
    if (tokenizer_open(folder, &family.tokenizer, error) != STATUS_OK)
        fail_msg("%s", error);
    text = tokenizer_chat_template(family.tokenizer, &count);
    assert_non_null(text);
    if (chat_template_open(text, count, &family.template, error) != STATUS_OK)
        fail_msg("%s", error);
    family.vectors = fopen(vectors, "r");
    assert_non_null(family.vectors);
    return family;
}

static void family_close(struct family *family)
{
    fclose(family->vectors);
    chat_template_close(family->template);
    tokenizer_close(family->tokenizer);
}

static struct chat_text rendered(const struct family *family, const json_t *record)
{
    const struct chat_request request = {.messages = json_object_get(record, "messages"),
                                         .add_generation_prompt = json_is_true(json_object_get(record, "add_generation_prompt"))};
    char error[CHAT_ERROR_MAX];
    struct chat_text text = {0};

    if (chat_render(family->template, family->tokenizer, &request, &text, error) != STATUS_OK)
        fail_msg("%s: %s", family->name, error);
    return text;
}

static struct token_list encoded(const struct family *family, const struct chat_text *text, const uint8_t *plain)
{
    struct token_list list = {0};
    char error[TOKENIZER_ERROR_MAX];

    if (tokenizer_encode(family->tokenizer, text->text.bytes, text->text.count, plain, 0, &list, error) != STATUS_OK)
        fail_msg("%s: %s", family->name, error);
    return list;
}

static bool same_ids(const struct token_list *list, const json_t *ids)
{
    bool same = list->count == json_array_size(ids);

    for (size_t i = 0; same && i < list->count; i++)
        same = list->ids[i] == json_integer_value(json_array_get(ids, i));
    return same;
}

static size_t controls(const struct family *family, const struct token_list *list)
{
    size_t count = 0;

    for (size_t i = 0; i < list->count; i++)
        count += token_is_control(family->tokenizer, list->ids[i]);
    return count;
}

/* A message that spells nothing has the same ids marked or not; one that does has fewer marks, and the same text. */
static void check_marked(const struct family *family, const struct chat_text *text, const json_t *record, bool spells)
{
    struct token_list open = encoded(family, text, NULL), safe = encoded(family, text, text->plain);
    struct token_text decoded = {0};

    assert_int_equal(same_ids(&safe, json_object_get(record, "ids")), !spells);
    assert_int_equal(controls(family, &open) - controls(family, &safe), spells ? 1 : 0);
    tokenizer_decode(family->tokenizer, safe.ids, safe.count, false, &decoded);
    assert_int_equal(decoded.count, text->text.count);
    assert_memory_equal(decoded.bytes, text->text.bytes, decoded.count);
    token_list_free(&open);
    token_list_free(&safe);
    token_text_free(&decoded);
}

static void check_family(const char *name)
{
    struct family family = family_open(name);
    size_t compared = 0, spelling = 0;
    json_t *record;
    json_error_t error;

    while ((record = json_loadf(family.vectors, JSON_DISABLE_EOF_CHECK | JSON_ALLOW_NUL, &error)) != NULL) {
        const json_t *expected = json_object_get(record, "text");
        struct chat_text text = rendered(&family, record);
        struct token_list list = encoded(&family, &text, NULL);
        char *messages = json_dumps(json_object_get(record, "messages"), 0);
        bool spells = strstr(messages, "<|eot_id|>") != NULL;

        if (text.text.count != json_string_length(expected) || memcmp(text.text.bytes, json_string_value(expected), text.text.count) != 0)
            fail_msg("%s, line %zu: '%.*s', not '%s'", name, compared + 1, (int)text.text.count, text.text.bytes, json_string_value(expected));
        assert_true(same_ids(&list, json_object_get(record, "ids")));
        check_marked(&family, &text, record, spells);
        spelling += spells;
        compared++;
        free(messages);
        token_list_free(&list);
        chat_text_free(&text);
        json_decref(record);
    }
    print_message("chat_%s: %zu compared, %zu of them with a message that spells a special token\n", name, compared, spelling);
    assert_true(compared > 0);
    assert_true(spelling > 0);
    family_close(&family);
}

static void chats_of_llama3_are_rendered_as_by_jinja(void **state)
{
    (void)state;
    check_family("llama3");
}

static void chats_of_qwen3_are_rendered_as_by_jinja(void **state)
{
    (void)state;
    check_family("qwen3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chats_of_llama3_are_rendered_as_by_jinja),
        cmocka_unit_test(chats_of_qwen3_are_rendered_as_by_jinja),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
