/* Byte pair encoding of one word: of all neighbours the pair that was learnt first merges first, and of equals the leftmost (Sennrich
 * et al. 2016). Symbols are a linked list, pairs a heap, so a word of n symbols takes n log n however it is made. */
#include <stdlib.h>

#include "engine/tokenizer/inside.h"
#include "engine/tokenizer/utf8.h"

#define DEAD NONE_INDEX
/* Neighbours are NONE_INDEX at the ends. */
struct bpe_symbol {
    uint32_t id;
    uint32_t previous;
    uint32_t next;
};

static void heap_sink(uint64_t *heap, size_t count, size_t at)
{
    uint64_t moving = heap[at];

    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && heap[child + 1] < heap[child])
            child++;
        if (heap[child] >= moving)
            break;
        heap[at] = heap[child];
    }
    heap[at] = moving;
}

static void heap_push(struct bpe *bpe, uint64_t pair)
{
    size_t at = bpe->heap_count++;

    if (bpe->heap_count > bpe->heap_capacity) {
        bpe->heap_capacity = bpe->heap_capacity == 0 ? 256 : bpe->heap_capacity * 2;
        bpe->heap = realloc(bpe->heap, bpe->heap_capacity * sizeof(*bpe->heap));
        check(bpe->heap != NULL);
    }
    for (; at > 0 && bpe->heap[(at - 1) / 2] > pair; at = (at - 1) / 2)
        bpe->heap[at] = bpe->heap[(at - 1) / 2];
    bpe->heap[at] = pair;
}

static uint64_t heap_pop(struct bpe *bpe)
{
    uint64_t top = bpe->heap[0];

    bpe->heap[0] = bpe->heap[--bpe->heap_count];
    if (bpe->heap_count > 0)
        heap_sink(bpe->heap, bpe->heap_count, 0);
    return top;
}

/* A word that must stay text does not merge into a control token either, should the merges lead there. */
static const struct merge *merge_at(const struct bpe *bpe, uint32_t symbol)
{
    const struct bpe_symbol *left = &bpe->symbols[symbol];
    const struct merge *merge;

    if (left->next == NONE_INDEX)
        return NULL;
    merge = merge_find(bpe->tokenizer, left->id, bpe->symbols[left->next].id);
    return merge != NULL && bpe->text_stays && bpe->tokenizer->pieces[merge->id].flags & PIECE_CONTROL ? NULL : merge;
}

static void add_pair(struct bpe *bpe, uint32_t symbol)
{
    const struct merge *merge = merge_at(bpe, symbol);

    if (merge != NULL)
        heap_push(bpe, (uint64_t)merge->rank << 32 | symbol);
}

static void merge_all(struct bpe *bpe, uint32_t count)
{
    struct bpe_symbol *symbols = bpe->symbols;

    bpe->heap_count = 0;
    for (uint32_t i = 0; i + 1 < count; i++)
        add_pair(bpe, i);
    while (bpe->heap_count > 0) {
        uint64_t pair = heap_pop(bpe);
        struct bpe_symbol *left = &symbols[(uint32_t)pair];
        struct bpe_symbol *right;
        const struct merge *merge;

        if (left->id == DEAD)
            continue;
        merge = merge_at(bpe, (uint32_t)pair);
        if (merge == NULL || merge->rank != pair >> 32)
            continue; /* one of the two has merged with another since */
        right = &symbols[left->next];
        left->id = merge->id;
        right->id = DEAD;
        left->next = right->next;
        if (right->next != NONE_INDEX)
            symbols[right->next].previous = (uint32_t)pair;
        if (left->previous != NONE_INDEX)
            add_pair(bpe, left->previous);
        add_pair(bpe, (uint32_t)pair);
    }
}

static uint32_t add_symbol(struct bpe *bpe, uint32_t count, uint32_t id)
{
    bpe->symbols[count] = (struct bpe_symbol){id, count == 0 ? NONE_INDEX : count - 1, count + 1};
    return count + 1;
}

static bool has_bytes(const struct tokenizer *tokenizer, const char *text, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (tokenizer->byte_ids[(unsigned char)text[i]] == NONE_INDEX)
            return false;
    }
    return true;
}

/* Characters that have no token are bytes, or the unknown token, in the definition's order: an unknown one waits for the next
 * character that is known, and is one with those it waits with if the file says so. */
static uint32_t symbols_of_characters(struct bpe *bpe, const char *word, size_t count)
{
    const struct tokenizer *tokenizer = bpe->tokenizer;
    uint32_t symbols = 0;
    bool waiting = false;

    for (size_t at = 0, bytes; at < count; at += bytes) {
        uint32_t id;

        bytes = utf8_at(word + at, count - at).bytes;
        id = piece_find(tokenizer, word + at, bytes);
        if (id != NONE_INDEX) {
            if (waiting)
                symbols = add_symbol(bpe, symbols, tokenizer->unk_id);
            waiting = false;
            symbols = add_symbol(bpe, symbols, id);
        } else if (tokenizer->byte_fallback && has_bytes(tokenizer, word + at, bytes)) {
            for (size_t i = 0; i < bytes; i++)
                symbols = add_symbol(bpe, symbols, tokenizer->byte_ids[(unsigned char)word[at + i]]);
        } else if (tokenizer->unk_id != NONE_INDEX) {
            if (waiting && !tokenizer->fuse_unk)
                symbols = add_symbol(bpe, symbols, tokenizer->unk_id);
            waiting = true;
        }
    }
    return waiting ? add_symbol(bpe, symbols, tokenizer->unk_id) : symbols;
}

static uint32_t symbols_of_bytes(struct bpe *bpe, const char *word, size_t count)
{
    uint32_t symbols = 0;
    bool waiting = false;

    for (size_t at = 0; at < count; at++) {
        uint32_t id = bpe->tokenizer->byte_ids[(unsigned char)word[at]];

        if (id == NONE_INDEX)
            id = bpe->tokenizer->unk_id;
        if (id == NONE_INDEX || (waiting && id == bpe->tokenizer->unk_id && bpe->tokenizer->fuse_unk))
            continue;
        waiting = id == bpe->tokenizer->unk_id;
        symbols = add_symbol(bpe, symbols, id);
    }
    return symbols;
}

void bpe_word(struct bpe *bpe, const char *word, size_t count, struct token_list *list)
{
    const struct tokenizer *tokenizer = bpe->tokenizer;
    uint32_t whole = tokenizer->ignore_merges ? piece_find(tokenizer, word, count) : NONE_INDEX;
    uint32_t symbols;

    if (whole != NONE_INDEX && !(bpe->text_stays && tokenizer->pieces[whole].flags & PIECE_CONTROL)) {
        token_list_add(list, (int32_t)whole);
        return;
    }
    if (count > bpe->symbols_capacity) {
        bpe->symbols_capacity = count < 1024 ? 1024 : count;
        free(bpe->symbols);
        bpe->symbols = malloc(bpe->symbols_capacity * sizeof(*bpe->symbols));
        check(bpe->symbols != NULL);
    }
    symbols = tokenizer->byte_level ? symbols_of_bytes(bpe, word, count) : symbols_of_characters(bpe, word, count);
    if (symbols == 0)
        return;
    bpe->symbols[symbols - 1].next = NONE_INDEX;
    merge_all(bpe, symbols);
    for (uint32_t at = 0; at != NONE_INDEX; at = bpe->symbols[at].next)
        token_list_add(list, (int32_t)bpe->symbols[at].id);
}

void bpe_free(struct bpe *bpe)
{
    free(bpe->symbols);
    free(bpe->heap);
}
