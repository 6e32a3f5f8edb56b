/* The inside of tree*.c: a scan on its way. */
#ifndef VALIDATE_TREE_SCAN_H
#define VALIDATE_TREE_SCAN_H

#include "validate/tree.h"

/* What comes next. */
enum step { STEP_VALUE, STEP_FIRST_ITEM, STEP_FIRST_KEY, STEP_KEY, STEP_AFTER, STEP_DONE, STEP_WRONG };

struct scan {
    struct tree *tree;
    enum tree_fault fault;
    uint32_t within;       /* the container that is open; NONE_INDEX: none */
    uint32_t comma_at;     /* of a comma with nothing behind it yet; NONE_INDEX: there is none */
    struct tree_node key;  /* the key that was just read */
};

static inline enum step scan_wrong(struct scan *scan, enum tree_fault fault, uint32_t at)
{
    scan->fault = fault;
    scan->tree->at = at;
    return STEP_WRONG;
}

static inline void scan_soft(const struct scan *scan, enum tree_soft fault, uint32_t at, uint32_t node)
{
    if (scan->tree->listener != NULL)
        scan->tree->listener(scan->tree->context, fault, at, node);
}

/* Whether this word stands at a place. */
static inline bool scan_begins(const struct tree *tree, uint32_t at, const char *word)
{
    const size_t length = strlen(word);

    return tree->bytes - at >= length && memcmp(tree->line + at, word, length) == 0;
}

/* NONE_INDEX: there are too many. */
uint32_t scan_add(struct scan *scan, enum tree_kind kind, uint32_t at);
/* tree->at is behind the quote. `node` is for what is told of the string. */
bool scan_string(struct scan *scan, uint32_t node, const char **ret_text, uint32_t *ret_bytes);
enum step scan_number(struct scan *scan);
enum step scan_word(struct scan *scan);

#endif
