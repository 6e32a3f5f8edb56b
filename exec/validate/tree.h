/* One line of JSON as a tree that knows where everything stands, strictly by RFC 8259: no NaN, no comments, nothing after the value. Depth,
 * values and keys are bounded, and nothing recurses, so no line can take much. The first fault in the grammar ends the reading and says what
 * and where; what can be read over (keys twice, halves of surrogate pairs, \u0000) is told to a listener. */
#ifndef VALIDATE_TREE_H
#define VALIDATE_TREE_H

#include "base/base.h"

#define TREE_DEPTH_MAX 64
#define TREE_NODES_MAX (1u << 17)
#define TREE_NUMBER_BYTES_MAX 400

enum tree_kind { TREE_OBJECT, TREE_ARRAY, TREE_STRING, TREE_INTEGER, TREE_REAL, TREE_TRUE, TREE_FALSE, TREE_NULL };

struct tree_node {
    enum tree_kind kind;
    uint32_t at;            /* its first byte in the line */
    uint32_t end;           /* one behind its last */
    uint32_t parent;        /* NONE_INDEX: the root */
    uint32_t next;          /* of the same parent; NONE_INDEX: the last */
    uint32_t first;         /* child; NONE_INDEX: none */
    uint32_t last;
    uint32_t count;         /* of children */
    uint32_t key_at;        /* the key's quote, in an object */
    uint32_t key_bytes;
    uint32_t text_bytes;
    const char *key;        /* decoded; no zero ends it */
    const char *text;       /* of a string, decoded */
};

enum tree_fault {
    TREE_GOOD,
    TREE_CUT,               /* the line ends between two tokens */
    TREE_CUT_IN_TEXT,       /* or within a string */
    TREE_WANTS_KEY,
    TREE_WANTS_COLON,
    TREE_WANTS_VALUE,
    TREE_WANTS_COMMA_OR_BRACE,
    TREE_WANTS_COMMA_OR_BRACKET,
    TREE_UNESCAPED_QUOTE,   /* as WANTS_COMMA_OR_BRACE, behind a string */
    TREE_UNESCAPED_QUOTE_IN_LIST,
    TREE_TRAILING_COMMA,
    TREE_SINGLE_QUOTE,
    TREE_NOT_A_NUMBER,      /* NaN, Infinity */
    TREE_PYTHON_WORD,       /* None, True, False */
    TREE_COMMENT,
    TREE_BYTE_ORDER_MARK,
    TREE_BAD_NUMBER,
    TREE_NUMBER_RANGE,
    TREE_BAD_ESCAPE,
    TREE_CONTROL,
    TREE_TOO_DEEP,
    TREE_TOO_MANY,
    TREE_MORE_BEHIND,
};

enum tree_soft { TREE_DUPLICATE_KEY, TREE_LONE_SURROGATE, TREE_NULL_CHARACTER };
/* `node`: where it stands; the second of two keys; what has the text, or the object with the key. */
typedef void tree_listener(void *context, enum tree_soft fault, uint32_t at, uint32_t node);

struct tree {
    tree_listener *listener; /* NULL: none */
    void *context;
    const char *line;
    uint32_t bytes;
    struct tree_node *nodes; /* the root is the first */
    uint32_t count;
    uint32_t capacity;
    char *decoded;           /* of strings with escapes */
    uint32_t decoded_count;
    uint32_t decoded_capacity;
    uint64_t *keys;          /* of a large object, to find equal ones */
    uint32_t keys_capacity;
    uint32_t at;             /* being read; of a fault, its byte */
    uint32_t depth;
};

/* `line` must stay as it is while the tree is used; the nodes are the next scan's as well. All zero is an empty tree. */
enum tree_fault tree_scan(struct tree *tree, const char *line, size_t bytes);
void tree_free(struct tree *tree);

/* NONE_INDEX: the object has no such key, or is none. */
uint32_t tree_find(const struct tree *tree, uint32_t object, const char *key);
bool tree_is_text(const struct tree *tree, uint32_t node, const char *text);
bool tree_key_is(const struct tree_node *node, const char *key);
/* "messages[1].content"; what does not fit ends in "...". */
void tree_path(const struct tree *tree, uint32_t node, char *ret_path, size_t size);

#endif
