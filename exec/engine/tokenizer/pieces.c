/* The vocabulary: every id's spelling, and ids by what merging calls them. A byte-level vocabulary spells bytes by printable
 * characters (Radford et al. 2019, encoder.py: the bytes that print stand for themselves, the others for U+0100 and on, in order). */
#include <stdlib.h>

#include "base/hash.h"
#include "engine/tokenizer/inside.h"
#include "engine/tokenizer/utf8.h"
#include "host/words.h"

static bool prints(unsigned byte)
{
    return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

/* The byte that a character stands for, -1: none. */
static int byte_of_code(uint32_t code)
{
    uint32_t left = code - 0x100;

    if (code < 0x100)
        return prints(code) ? (int)code : -1;
    /* Those that do not print: 0 .. 0x20, 0x7f .. 0xa0, 0xad. */
    if (left <= 0x20)
        return (int)left;
    left -= 0x21;
    if (left <= 0xa0 - 0x7f)
        return (int)(0x7f + left);
    left -= 0xa1 - 0x7f;
    return left == 0 ? 0xad : -1;
}

bool bytes_of_spelling(const char *spelling, size_t count, char *ret_bytes, size_t *ret_count)
{
    size_t used = 0;

    for (size_t at = 0; at < count;) {
        struct utf8 here = utf8_at(spelling + at, count - at);
        int byte = here.good ? byte_of_code(here.code) : -1;

        if (byte < 0)
            return false;
        ret_bytes[used++] = (char)byte;
        at += here.bytes;
    }
    *ret_count = used;
    return true;
}

static uint32_t *slot_of(const struct tokenizer *tokenizer, const char *key, size_t count)
{
    uint32_t mask = tokenizer->slots_count - 1;

    for (uint32_t slot = (uint32_t)hash_bytes(0, key, count) & mask;; slot = (slot + 1) & mask) {
        uint32_t id = tokenizer->slots[slot];
        struct span span;

        if (id == NONE_INDEX)
            return &tokenizer->slots[slot];
        span = tokenizer->pieces[id].key;
        if (span.count == count && memcmp(span_text(tokenizer, span), key, count) == 0)
            return &tokenizer->slots[slot];
    }
}

uint32_t piece_find(const struct tokenizer *tokenizer, const char *key, size_t count)
{
    return *slot_of(tokenizer, key, count);
}

/* <0x0A> */
static bool byte_of_spelling(const char *spelling, size_t count, uint8_t *ret_byte)
{
    unsigned byte = 0;

    if (count != 6 || memcmp(spelling, "<0x", 3) != 0 || spelling[5] != '>')
        return false;
    for (int i = 3; i < 5; i++) {
        char c = spelling[i];

        if (c >= '0' && c <= '9')
            byte = byte * 16 + (unsigned)(c - '0');
        else if (c >= 'A' && c <= 'F')
            byte = byte * 16 + (unsigned)(c - 'A' + 10);
        else if (c >= 'a' && c <= 'f')
            byte = byte * 16 + (unsigned)(c - 'a' + 10);
        else
            return false;
    }
    *ret_byte = (uint8_t)byte;
    return true;
}

static void spell(struct tokenizer *tokenizer, struct piece *piece, const char *spelling, size_t count)
{
    piece->flags |= PIECE_EXISTS;
    piece->spelling = span_add(tokenizer, spelling, count);
    piece->key = piece->spelling;
    if (byte_of_spelling(spelling, count, &piece->byte))
        piece->flags |= PIECE_BYTE;
}

/* Of what merging may find: a spelling that stands for no bytes is never a part of a word. */
static void enter(struct opening *opening, uint32_t id, char *scratch)
{
    struct tokenizer *tokenizer = opening->tokenizer;
    struct piece *piece = &tokenizer->pieces[id];
    const char *spelling = span_text(tokenizer, piece->spelling);
    size_t count = piece->spelling.count;
    uint32_t *slot;
    char shown[EXCERPT_MAX];

    if (tokenizer->byte_level) {
        if (!bytes_of_spelling(spelling, count, scratch, &count))
            return;
        if (count != piece->spelling.count || memcmp(scratch, spelling, count) != 0)
            piece->key = span_add(tokenizer, scratch, count);
    }
    slot = slot_of(tokenizer, span_text(tokenizer, piece->key), piece->key.count);
    if (*slot != NONE_INDEX)
        opening_refuse(opening, STATUS_CORRUPT, "two tokens are '%s'",
                       excerpt(span_text(tokenizer, piece->spelling), piece->spelling.count, shown));
    else
        *slot = id;
}

static bool id_is_fine(struct opening *opening, const json_t *id, const char *of, size_t count)
{
    char shown[EXCERPT_MAX];

    if (json_is_integer(id) && json_integer_value(id) >= 0 && json_integer_value(id) < TOKENIZER_IDS_MAX)
        return true;
    return opening_refuse(opening, STATUS_CORRUPT, "token '%s' has no id from 0 to %d", excerpt(of, count, shown), TOKENIZER_IDS_MAX - 1);
}

/* The greatest id decides how many there are. */
static bool count_ids(struct opening *opening, json_t *vocab, const json_t *added_tokens, size_t *ret_longest)
{
    int32_t greatest = -1;
    const char *key;
    json_t *value;
    size_t i;

    *ret_longest = 0;
    json_object_foreach(vocab, key, value) {
        size_t count = strlen(key);

        if (!id_is_fine(opening, value, key, count))
            return false;
        greatest = (int32_t)max_i64(greatest, json_integer_value(value));
        *ret_longest = count > *ret_longest ? count : *ret_longest;
    }
    json_array_foreach(added_tokens, i, value) {
        const json_t *content = json_object_get(value, "content");

        if (!json_is_string(content))
            return opening_refuse(opening, STATUS_CORRUPT, "added_tokens[%zu] has no content", i);
        if (!id_is_fine(opening, json_object_get(value, "id"), json_string_value(content), json_string_length(content)))
            return false;
        greatest = (int32_t)max_i64(greatest, json_integer_value(json_object_get(value, "id")));
    }
    opening->tokenizer->pieces_count = greatest + 1;
    return true;
}

static bool add_words(struct opening *opening, json_t *vocab, char *scratch)
{
    struct tokenizer *tokenizer = opening->tokenizer;
    const char *key;
    json_t *value;

    json_object_foreach(vocab, key, value) {
        uint32_t id = (uint32_t)json_integer_value(value);

        if (tokenizer->pieces[id].flags & PIECE_EXISTS)
            return opening_refuse(opening, STATUS_CORRUPT, "two tokens have id %u", id);
        spell(tokenizer, &tokenizer->pieces[id], key, strlen(key));
        enter(opening, id, scratch);
    }
    return opening->status == STATUS_OK;
}

static bool add_added(struct opening *opening, const json_t *added_tokens)
{
    struct tokenizer *tokenizer = opening->tokenizer;
    json_t *value;
    size_t i;

    json_array_foreach(added_tokens, i, value) {
        const json_t *content = json_object_get(value, "content");
        const char *text = json_string_value(content);
        size_t count = json_string_length(content);
        struct piece *piece = &tokenizer->pieces[json_integer_value(json_object_get(value, "id"))];
        bool special = json_is_true(json_object_get(value, "special"));
        char shown[EXCERPT_MAX];

        if (!(piece->flags & PIECE_EXISTS))
            spell(tokenizer, piece, text, count);
        else if (piece->spelling.count != count || memcmp(span_text(tokenizer, piece->spelling), text, count) != 0)
            return opening_refuse(opening, STATUS_CORRUPT, "added token '%s' has the id of another token", opening_name(content, shown));
        piece->flags |= PIECE_ADDED;
        if (special)
            piece->flags |= PIECE_SPECIAL;
        if (special || (count >= 2 && text[0] == '<' && text[count - 1] == '>'))
            piece->flags |= PIECE_CONTROL;
    }
    return true;
}

static void find_bytes(struct tokenizer *tokenizer)
{
    for (int i = 0; i < 256; i++) {
        char byte = (char)i;

        tokenizer->byte_ids[i] = tokenizer->byte_level ? piece_find(tokenizer, &byte, 1) : NONE_INDEX;
    }
    if (tokenizer->byte_level)
        return;
    for (int32_t id = 0; id < tokenizer->pieces_count; id++) {
        const struct piece *piece = &tokenizer->pieces[id];

        if (piece->flags & PIECE_BYTE && piece_find(tokenizer, span_text(tokenizer, piece->spelling), 6) == (uint32_t)id)
            tokenizer->byte_ids[piece->byte] = (uint32_t)id;
    }
}

bool pieces_open(struct opening *opening, const json_t *model, const json_t *added_tokens)
{
    struct tokenizer *tokenizer = opening->tokenizer;
    json_t *vocab = json_object_get(model, "vocab");
    size_t longest;
    char *scratch;
    bool good;

    if (!json_is_object(vocab))
        return opening_refuse(opening, STATUS_CORRUPT, "model.vocab is no object of tokens");
    if (!count_ids(opening, vocab, added_tokens, &longest))
        return false;
    if (tokenizer->pieces_count == 0)
        return opening_refuse(opening, STATUS_CORRUPT, "there is no token in it");
    tokenizer->pieces = calloc((size_t)tokenizer->pieces_count, sizeof(*tokenizer->pieces));
    for (tokenizer->slots_count = 16; tokenizer->slots_count < 2 * json_object_size(vocab);)
        tokenizer->slots_count *= 2;
    tokenizer->slots = malloc(tokenizer->slots_count * sizeof(*tokenizer->slots));
    scratch = malloc(longest + 1);
    check(tokenizer->pieces != NULL && tokenizer->slots != NULL && scratch != NULL);
    memset(tokenizer->slots, 0xff, tokenizer->slots_count * sizeof(*tokenizer->slots));
    good = add_words(opening, vocab, scratch) && add_added(opening, added_tokens);
    free(scratch);
    if (good)
        find_bytes(tokenizer);
    return good;
}
