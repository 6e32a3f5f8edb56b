/* Added tokens: texts that are one token wherever they stand, the longest first, before anything else looks at the text. They are
 * sorted, so that at each place a range of candidates narrows byte by byte. */
#include <stdlib.h>

#include "engine/tokenizer/inside.h"
#include "engine/tokenizer/utf8.h"
#include "host/words.h"

/* The order of `match`; the blob is known through this while sorting. */
struct sortable {
    const char *match;
    struct added token;
};

static int by_match(const void *left, const void *right)
{
    const struct sortable *a = left, *b = right;
    uint32_t count = min_u32(a->token.match.count, b->token.match.count);
    int order = memcmp(a->match, b->match, count);

    if (order != 0)
        return order;
    if (a->token.match.count != b->token.match.count)
        return a->token.match.count < b->token.match.count ? -1 : 1;
    return a->token.id < b->token.id ? -1 : a->token.id > b->token.id;
}

static void set_sort(const struct tokenizer *tokenizer, struct added_set *set)
{
    struct sortable *order = calloc(set->count + (size_t)1, sizeof(*order));
    uint32_t kept = 0;
    uint32_t next = 0;

    check(order != NULL);
    for (uint32_t i = 0; i < set->count; i++)
        order[i] = (struct sortable){span_text(tokenizer, set->tokens[i].match), set->tokens[i]};
    qsort(order, set->count, sizeof(*order), by_match);
    for (uint32_t i = 0; i < set->count; i++) {
        const struct span *last = kept > 0 ? &set->tokens[kept - 1].match : NULL;

        if (last != NULL && last->count == order[i].token.match.count &&
            memcmp(span_text(tokenizer, *last), order[i].match, last->count) == 0)
            continue;
        set->tokens[kept++] = order[i].token;
    }
    set->count = kept;
    for (uint32_t byte = 0; byte <= 256; byte++) {
        while (next < kept && (unsigned char)span_text(tokenizer, set->tokens[next].match)[0] < byte)
            next++;
        set->first[byte] = next;
    }
    free(order);
}

static struct span normalized(struct tokenizer *tokenizer, struct span content)
{
    struct marked_text text = {0}, other = {0};
    struct span span;

    token_text_add(&text.text, span_text(tokenizer, content), content.count);
    (void)normalize_text(tokenizer, &text, &other); /* a content that grows beyond all bounds will not be found */
    span = span_add(tokenizer, text.text.bytes, text.text.count);
    marked_text_free(&text);
    marked_text_free(&other);
    return span;
}

bool added_open(struct opening *opening, const json_t *added_tokens)
{
    struct tokenizer *tokenizer = opening->tokenizer;
    size_t count = json_array_size(added_tokens);
    const json_t *item;
    size_t i;

    tokenizer->raw.tokens = calloc(count + 1, sizeof(struct added));
    tokenizer->normalized.tokens = calloc(count + 1, sizeof(struct added));
    check(tokenizer->raw.tokens != NULL && tokenizer->normalized.tokens != NULL);
    json_array_foreach(added_tokens, i, item) {
        int32_t id = (int32_t)json_integer_value(json_object_get(item, "id"));
        const struct piece *piece = &tokenizer->pieces[id];
        struct added token = {
            .content = piece->spelling, .match = piece->spelling, .id = id,
            .lstrip = json_is_true(json_object_get(item, "lstrip")), .rstrip = json_is_true(json_object_get(item, "rstrip")),
            .single_word = json_is_true(json_object_get(item, "single_word")),
            .normalized = json_is_true(json_object_get(item, "normalized")),
            .control = (piece->flags & PIECE_CONTROL) != 0};
        struct added_set *set = token.normalized ? &tokenizer->normalized : &tokenizer->raw;

        if (token.normalized)
            token.match = normalized(tokenizer, token.content);
        if (token.match.count > 0)
            set->tokens[set->count++] = token;
    }
    set_sort(tokenizer, &tokenizer->raw);
    set_sort(tokenizer, &tokenizer->normalized);
    return true;
}

/* In [*low, *high), which all agree in `depth` bytes: those whose next byte is `byte`. */
static void narrow(const struct tokenizer *tokenizer, const struct added_set *set, uint32_t depth, unsigned char byte, uint32_t *low,
                   uint32_t *high)
{
    uint32_t bounds[2];

    for (unsigned side = 0; side < 2; side++) {
        uint32_t from = *low, to = *high;

        while (from < to) {
            uint32_t middle = from + (to - from) / 2;
            struct span match = set->tokens[middle].match;
            int at = match.count > depth ? (unsigned char)span_text(tokenizer, match)[depth] : -1;

            if (at < (int)byte + (int)side)
                from = middle + 1;
            else
                to = middle;
        }
        bounds[side] = from;
    }
    *low = bounds[0];
    *high = bounds[1];
}

/* The longest token that begins here. */
static const struct added *longest_here(const struct tokenizer *tokenizer, const struct added_set *set, const char *text, size_t count)
{
    uint32_t low = set->first[(unsigned char)text[0]];
    uint32_t high = set->first[(unsigned char)text[0] + 1];
    const struct added *found = NULL;

    for (uint32_t depth = 1; low < high; depth++) {
        /* Among those that agree so far the shortest is the first. */
        if (set->tokens[low].match.count == depth)
            found = &set->tokens[low];
        if (depth >= count)
            break;
        narrow(tokenizer, set, depth, (unsigned char)text[depth], &low, &high);
    }
    return found;
}

static bool stands_alone(const char *text, size_t count, size_t start, size_t stop)
{
    return (start == 0 || !code_is_word(utf8_before(text, start).code)) &&
           (stop == count || !code_is_word(utf8_at(text + stop, count - stop).code));
}

static bool is_plain(const uint8_t *plain, size_t start, size_t stop)
{
    for (size_t at = start; plain != NULL && at < stop; at++) {
        if (plain[at] != 0)
            return true;
    }
    return false;
}

static void take_spaces(const char *text, size_t count, size_t from, struct added_match *match)
{
    while (match->token->lstrip && match->start > from) {
        struct utf8 before = utf8_before(text, match->start);

        if (!code_is_space(before.code))
            break;
        match->start -= before.bytes;
    }
    while (match->token->rstrip && match->stop < count) {
        struct utf8 after = utf8_at(text + match->stop, count - match->stop);

        if (!code_is_space(after.code))
            break;
        match->stop += after.bytes;
    }
}

bool added_next(const struct tokenizer *tokenizer, const struct added_set *set, const char *text, size_t count, const uint8_t *plain,
                bool all_plain, struct added_match *match)
{
    if (set->count == 0)
        return false;
    for (size_t at = match->end; at < count;) {
        const struct added *token = longest_here(tokenizer, set, text + at, count - at);
        size_t end;

        if (token == NULL) {
            at++;
            continue;
        }
        end = at + token->match.count;
        if (token->control && (all_plain || is_plain(plain, at, end))) {
            at++;
            continue;
        }
        if (token->single_word && !stands_alone(text, count, at, end)) {
            at = end; /* as the definition does: nothing that begins inside is looked at */
            continue;
        }
        *match = (struct added_match){.token = token, .from = match->stop, .start = at, .stop = end, .end = end};
        take_spaces(text, count, match->from, match);
        if (match->start < match->from)
            match->start = match->from;
        if (!token->lstrip || match->start < match->stop)
            return true;
        at = end; /* the one before has taken all of it */
    }
    return false;
}
