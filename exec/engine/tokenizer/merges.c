/* What merges with what, and how soon: a hash table of pairs of ids. */
#include <stdlib.h>

#include "base/hash.h"
#include "engine/tokenizer/inside.h"
#include "host/words.h"

static struct merge *merge_slot(const struct tokenizer *tokenizer, uint32_t left, uint32_t right)
{
    uint32_t mask = tokenizer->merges_slots - 1;
    uint32_t slot = (uint32_t)hash_mix((uint64_t)left << 32 | right) & mask;

    while (tokenizer->merges[slot].left != NONE_INDEX &&
           (tokenizer->merges[slot].left != left || tokenizer->merges[slot].right != right))
        slot = (slot + 1) & mask;
    return &tokenizer->merges[slot];
}

const struct merge *merge_find(const struct tokenizer *tokenizer, uint32_t left, uint32_t right)
{
    const struct merge *merge = merge_slot(tokenizer, left, right);

    return merge->left != NONE_INDEX ? merge : NULL;
}

/* "a b", or ["a", "b"] where a token may have a space in it. */
static bool merge_sides(const json_t *merge, const char *sides[2], size_t counts[2])
{
    const char *text = json_string_value(merge);
    const char *space;

    if (text != NULL) {
        space = memchr(text, ' ', json_string_length(merge));
        if (space == NULL)
            return false;
        sides[0] = text;
        counts[0] = (size_t)(space - text);
        sides[1] = space + 1;
        counts[1] = json_string_length(merge) - counts[0] - 1;
        return memchr(sides[1], ' ', counts[1]) == NULL;
    }
    if (json_array_size(merge) != 2)
        return false;
    for (size_t i = 0; i < 2; i++) {
        const json_t *side = json_array_get(merge, i);

        if (!json_is_string(side))
            return false;
        sides[i] = json_string_value(side);
        counts[i] = json_string_length(side);
    }
    return true;
}

/* The id of one side, whose key is left in `key` from `used` on. */
static uint32_t side_find(const struct tokenizer *tokenizer, const char *side, size_t count, struct token_text *key, size_t used)
{
    size_t bytes = count;

    key->count = used;
    token_text_add(key, side, count);
    if (count == 0 || (tokenizer->byte_level && !bytes_of_spelling(side, count, key->bytes + used, &bytes)))
        return NONE_INDEX;
    key->count = used + bytes;
    return piece_find(tokenizer, key->bytes + used, bytes);
}

static bool merge_add(struct opening *opening, const json_t *item, uint32_t rank, struct token_text *key)
{
    struct tokenizer *tokenizer = opening->tokenizer;
    const char *sides[2];
    size_t counts[2];
    uint32_t ids[2];
    uint32_t id;
    char left[EXCERPT_MAX], right[EXCERPT_MAX];

    if (!merge_sides(item, sides, counts))
        return opening_refuse(opening, STATUS_CORRUPT, "model.merges[%u] is no pair of tokens", rank);
    ids[0] = side_find(tokenizer, sides[0], counts[0], key, 0);
    ids[1] = side_find(tokenizer, sides[1], counts[1], key, key->count);
    id = ids[0] == NONE_INDEX || ids[1] == NONE_INDEX ? NONE_INDEX : piece_find(tokenizer, key->bytes, key->count);
    if (id == NONE_INDEX)
        return opening_refuse(opening, STATUS_CORRUPT, "model.merges[%u]: '%s' and '%s' or both together are not in the vocabulary",
                              rank, excerpt(sides[0], counts[0], left), excerpt(sides[1], counts[1], right));
    *merge_slot(tokenizer, ids[0], ids[1]) = (struct merge){ids[0], ids[1], rank, id};
    return true;
}

bool merges_open(struct opening *opening, const json_t *model)
{
    struct tokenizer *tokenizer = opening->tokenizer;
    const json_t *merges = json_object_get(model, "merges");
    struct token_text key = {0};
    const json_t *item;
    size_t rank;

    if (!json_is_array(merges))
        return opening_refuse(opening, STATUS_CORRUPT, "model.merges is no list");
    for (tokenizer->merges_slots = 16; tokenizer->merges_slots < 3 * json_array_size(merges) / 2;)
        tokenizer->merges_slots *= 2;
    tokenizer->merges = malloc(tokenizer->merges_slots * sizeof(*tokenizer->merges));
    check(tokenizer->merges != NULL);
    memset(tokenizer->merges, 0xff, tokenizer->merges_slots * sizeof(*tokenizer->merges));
    json_array_foreach(merges, rank, item) {
        if (!merge_add(opening, item, (uint32_t)rank, &key))
            break;
    }
    token_text_free(&key);
    return opening->status == STATUS_OK;
}
