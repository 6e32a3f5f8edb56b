#include "rig.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/tokenizer/utf8.h"
#include "support.h"

/* As encoder.py lists them: what prints, then the others from U+0100 on. */
static void byte_spelling(unsigned byte, char ret_text[5])
{
    unsigned next = 0x100;
    unsigned code = byte;

    for (unsigned i = 0; i < 256; i++) {
        bool prints = (i >= 33 && i <= 126) || (i >= 161 && i <= 172) || (i >= 174 && i <= 255);

        if (!prints && i == byte)
            code = next;
        next += !prints;
    }
    ret_text[utf8_write(code, ret_text)] = '\0';
}

static void add(json_t *vocab, const char *token)
{
    json_object_set_new_nocheck(vocab, token, json_integer((json_int_t)json_object_size(vocab)));
}

static void add_characters(json_t *vocab, const struct rig *rig)
{
    char token[8];

    for (unsigned i = 0; rig->byte_level && i < 256; i++) {
        byte_spelling(i, token);
        add(vocab, token);
    }
    if (rig->byte_level)
        return;
    add(vocab, "<unk>");
    add(vocab, "<s>");
    add(vocab, "</s>");
    for (unsigned i = 0; !rig->no_bytes && i < 256; i++) {
        snprintf(token, sizeof(token), "<0x%02X>", i);
        add(vocab, token);
    }
    for (size_t at = 0; rig->characters != NULL && rig->characters[at] != '\0';) {
        uint32_t bytes = utf8_at(rig->characters + at, strlen(rig->characters + at)).bytes;

        memcpy(token, rig->characters + at, bytes);
        token[bytes] = '\0';
        add(vocab, token);
        at += bytes;
    }
}

/* Calls act() with each part of "a|b|c". */
static void each_part(const char *list, void (*act)(json_t *vocab, json_t *merges, const char *part), json_t *vocab, json_t *merges)
{
    char part[128];

    while (list != NULL && *list != '\0') {
        size_t count = strcspn(list, "|");

        check(count < sizeof(part));
        memcpy(part, list, count);
        part[count] = '\0';
        act(vocab, merges, part);
        list += count + (list[count] == '|');
    }
}

static void add_merge(json_t *vocab, json_t *merges, const char *part)
{
    char joined[128];
    const char *space = strchr(part, ' ');

    json_array_append_new(merges, json_string_nocheck(part));
    check(space != NULL);
    snprintf(joined, sizeof(joined), "%.*s%s", (int)(space - part), part, space + 1);
    add(vocab, joined);
}

static void add_word(json_t *vocab, json_t *merges, const char *part)
{
    (void)merges;
    add(vocab, part);
}

static void append_added(struct token_text *text, const char *added, size_t next_id)
{
    const char *found;
    char number[24];

    while ((found = strstr(added, "ID")) != NULL) {
        token_text_add(text, added, (size_t)(found - added));
        snprintf(number, sizeof(number), "%zu", next_id++);
        token_text_add(text, number, strlen(number));
        added = found + 2;
    }
    token_text_add(text, added, strlen(added));
}

static void append(struct token_text *text, const char *name, const char *value)
{
    token_text_add(text, name, strlen(name));
    token_text_add(text, value, strlen(value));
}

char *rig_json(const struct rig *rig)
{
    json_t *vocab = json_object(), *merges = json_array();
    char *vocab_text, *merges_text;
    struct token_text text = {0};

    add_characters(vocab, rig);
    each_part(rig->merges, add_merge, vocab, merges);
    each_part(rig->words, add_word, vocab, merges);
    vocab_text = json_dumps(vocab, 0);
    merges_text = json_dumps(merges, 0);
    append(&text, "{\"added_tokens\": ", "");
    append_added(&text, rig->added != NULL ? rig->added : "[]", json_object_size(vocab));
    append(&text, ", \"normalizer\": ", rig->normalizer != NULL ? rig->normalizer : "null");
    append(&text, ", \"pre_tokenizer\": ",
           rig->pre_tokenizer != NULL ? rig->pre_tokenizer : rig->byte_level ? "{\"type\": \"ByteLevel\", \"add_prefix_space\": false}" : "null");
    append(&text, ", \"post_processor\": ", rig->post_processor != NULL ? rig->post_processor : "null");
    append(&text, ", \"decoder\": ", rig->decoder != NULL ? rig->decoder : rig->byte_level ? "{\"type\": \"ByteLevel\"}" : "null");
    append(&text, ", \"model\": {\"type\": \"BPE\", \"vocab\": ", vocab_text);
    append(&text, ", \"merges\": ", merges_text);
    append(&text, rig->model != NULL ? rig->model : "", "}}");
    token_text_add(&text, "", 1);
    json_decref(vocab);
    json_decref(merges);
    free(vocab_text);
    free(merges_text);
    return text.bytes;
}

struct tokenizer *rig_open(const struct rig *rig)
{
    char *json = rig_json(rig);
    char error[TOKENIZER_ERROR_MAX];
    struct tokenizer *tokenizer = NULL;

    if (tokenizer_open_texts(json, strlen(json), NULL, 0, &tokenizer, error) != STATUS_OK)
        fail_msg("%s\n%s", error, json);
    free(json);
    return tokenizer;
}

const char *rig_ids(const struct token_list *list)
{
    static char text[1024];
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < list->count && used + 16 < sizeof(text); i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, i == 0 ? "%d" : " %d", list->ids[i]);
    return text;
}

struct token_list rig_encode(const struct tokenizer *tokenizer, const char *text, size_t count, const uint8_t *plain, unsigned flags)
{
    struct token_list list = {0};
    char error[TOKENIZER_ERROR_MAX];

    if (tokenizer_encode(tokenizer, text, count, plain, flags, &list, error) != STATUS_OK)
        fail_msg("%s", error);
    return list;
}

const char *rig_pieces(const struct tokenizer *tokenizer, const char *text, unsigned flags)
{
    static char pieces[1024];
    struct token_list list = rig_encode(tokenizer, text, strlen(text), NULL, flags);
    size_t used = 0;

    pieces[0] = '\0';
    for (size_t i = 0; i < list.count; i++) {
        size_t count;
        const char *spelling = token_spelling(tokenizer, list.ids[i], &count);

        used += (size_t)snprintf(pieces + used, sizeof(pieces) - used, i == 0 ? "%.*s" : "|%.*s", (int)count, spelling);
        assert_true(used < sizeof(pieces));
    }
    token_list_free(&list);
    return pieces;
}
