/* Text to ids: added tokens first, as they stand; then between them the normaliser, the added tokens that are looked for in normalised
 * text, the splitting into words, and merging. */
#include <stdio.h>
#include <stdlib.h>

#include "engine/tokenizer/inside.h"
#include "engine/tokenizer/utf8.h"

struct encoding {
    const struct tokenizer *tokenizer;
    bool all_plain;
    bool marks_matter; /* some control token is looked for in normalised text */
    struct token_list *list;
    pcre2_match_data *found;
    pcre2_match_context *bounds;
    struct bpe bpe;
    struct marked_text normal;
    struct marked_text other;
    const char *problem;
};

static void take_word(void *context, const char *word, size_t count)
{
    struct encoding *encoding = context;

    bpe_word(&encoding->bpe, word, count, encoding->list);
}

static bool encode_words(struct encoding *encoding, const char *text, size_t count, bool at_start)
{
    if (split_text(encoding->tokenizer, encoding->found, encoding->bounds, text, count, at_start, take_word, encoding))
        return true;
    encoding->problem = "the model's splitting pattern takes too long on it";
    return false;
}

static bool encode_normal(struct encoding *encoding, const char *text, size_t count, const uint8_t *plain, bool at_start)
{
    struct added_match match = {0};

    while (added_next(encoding->tokenizer, &encoding->tokenizer->normalized, text, count, plain, encoding->all_plain, &match)) {
        if (!encode_words(encoding, text + match.from, match.start - match.from, at_start && match.from == 0))
            return false;
        token_list_add(encoding->list, match.token->id);
    }
    return encode_words(encoding, text + match.stop, count - match.stop, at_start && match.stop == 0);
}

/* What lies between two added tokens. */
static bool encode_between(struct encoding *encoding, const char *text, size_t count, const uint8_t *plain, bool at_start)
{
    struct marked_text *normal = &encoding->normal;

    if (count == 0)
        return true;
    if (encoding->tokenizer->normalize_count == 0)
        return encode_normal(encoding, text, count, plain, at_start);
    normal->text.count = 0;
    token_text_add(&normal->text, text, count);
    free(normal->plain);
    normal->plain = NULL;
    normal->plain_capacity = 0;
    if (plain != NULL && encoding->marks_matter) {
        normal->plain_capacity = normal->text.capacity;
        normal->plain = calloc(normal->plain_capacity, 1);
        check(normal->plain != NULL);
        for (size_t i = 0; i < count; i++)
            normal->plain[i] = plain[i] != 0;
    }
    if (!normalize_text(encoding->tokenizer, normal, &encoding->other)) {
        encoding->problem = "normalising it makes it too long";
        return false;
    }
    return normal->text.count == 0 || encode_normal(encoding, normal->text.bytes, normal->text.count, normal->plain, at_start);
}

static bool encode_text(struct encoding *encoding, const char *text, size_t count, const uint8_t *plain)
{
    struct added_match match = {0};

    while (added_next(encoding->tokenizer, &encoding->tokenizer->raw, text, count, plain, encoding->all_plain, &match)) {
        if (!encode_between(encoding, text + match.from, match.start - match.from, plain != NULL ? plain + match.from : NULL,
                            match.from == 0))
            return false;
        token_list_add(encoding->list, match.token->id);
    }
    return encode_between(encoding, text + match.stop, count - match.stop, plain != NULL ? plain + match.stop : NULL, match.stop == 0);
}

static void encoding_begin(struct encoding *encoding, size_t count)
{
    const struct tokenizer *tokenizer = encoding->tokenizer;

    for (uint32_t i = 0; i < tokenizer->normalized.count; i++)
        encoding->marks_matter |= tokenizer->normalized.tokens[i].control;
    encoding->found = pcre2_match_data_create(1, NULL);
    encoding->bounds = pcre2_match_context_create(NULL);
    check(encoding->found != NULL && encoding->bounds != NULL);
    /* Steps of one match: room for going back over a run as long as the text, not for more than that. */
    pcre2_set_match_limit(encoding->bounds, (uint32_t)(10000000 + 4 * count));
    pcre2_set_heap_limit(encoding->bounds, 1 << 18); /* KiB */
}

static void encoding_end(struct encoding *encoding)
{
    pcre2_match_data_free(encoding->found);
    pcre2_match_context_free(encoding->bounds);
    bpe_free(&encoding->bpe);
    marked_text_free(&encoding->normal);
    marked_text_free(&encoding->other);
}

enum status tokenizer_encode(const struct tokenizer *tokenizer, const char *text, size_t count, const uint8_t *plain, unsigned flags,
                             struct token_list *list, char ret_error[TOKENIZER_ERROR_MAX])
{
    size_t before = list->count;
    struct encoding encoding = {.tokenizer = tokenizer, .list = list, .all_plain = (flags & TOKENIZER_PLAIN) != 0,
                                .bpe = {.tokenizer = tokenizer, .text_stays = plain != NULL || (flags & TOKENIZER_PLAIN) != 0}};
    size_t valid;
    bool good;

    if (count > TOKENIZER_TEXT_BYTES_MAX) {
        snprintf(ret_error, TOKENIZER_ERROR_MAX, "the text has %zu bytes; at most %u are encoded", count, TOKENIZER_TEXT_BYTES_MAX);
        return STATUS_INVALID;
    }
    valid = utf8_valid(text, count);
    if (valid < count) {
        snprintf(ret_error, TOKENIZER_ERROR_MAX, "the text is not UTF-8 at byte %zu", valid);
        return STATUS_INVALID;
    }
    for (uint32_t i = 0; flags & TOKENIZER_ADD_SPECIAL && i < tokenizer->template_before_count; i++)
        token_list_add(list, (int32_t)tokenizer->template_before[i]);
    encoding_begin(&encoding, count);
    good = encode_text(&encoding, text, count, plain);
    encoding_end(&encoding);
    if (!good) {
        snprintf(ret_error, TOKENIZER_ERROR_MAX, "the text cannot be encoded: %s", encoding.problem);
        list->count = before;
        return STATUS_INVALID;
    }
    for (uint32_t i = 0; flags & TOKENIZER_ADD_SPECIAL && i < tokenizer->template_after_count; i++)
        token_list_add(list, (int32_t)tokenizer->template_after[i]);
    return STATUS_OK;
}
