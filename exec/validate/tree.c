/* The grammar: a line as a run of steps, each of which says what comes next. */
#include "validate/tree.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "validate/tree_scan.h"

#define KEYS_PAIRWISE_MAX 24

/* --- nodes ------------------------------------------------------------------------------------------------------------------ */

uint32_t scan_add(struct scan *scan, enum tree_kind kind, uint32_t at)
{
    struct tree *tree = scan->tree;
    struct tree_node *node;
    const uint32_t index = tree->count;

    if (tree->count == TREE_NODES_MAX)
        return NONE_INDEX;
    if (tree->count == tree->capacity) {
        tree->capacity = tree->capacity == 0 ? 256 : 2 * tree->capacity;
        tree->nodes = realloc(tree->nodes, tree->capacity * sizeof(*tree->nodes));
        check(tree->nodes != NULL);
    }
    node = &tree->nodes[tree->count++];
    *node = (struct tree_node){.kind = kind, .at = at, .parent = scan->within, .next = NONE_INDEX, .first = NONE_INDEX, .last = NONE_INDEX,
                               .key = scan->key.key, .key_at = scan->key.key_at, .key_bytes = scan->key.key_bytes};
    scan->key.key = NULL;
    if (scan->within != NONE_INDEX) {
        struct tree_node *parent = &tree->nodes[scan->within];

        if (parent->first == NONE_INDEX)
            parent->first = index;
        else
            tree->nodes[parent->last].next = index;
        parent->last = index;
        parent->count++;
    }
    return index;
}

/* --- containers ------------------------------------------------------------------------------------------------------------- */

static uint64_t key_hash(const struct tree_node *node)
{
    return hash_bytes(UINT64_C(0x6B657973), node->key, node->key_bytes); /* "keys" */
}

static int by_value(const void *a, const void *b)
{
    const uint64_t left = *(const uint64_t *)a;
    const uint64_t right = *(const uint64_t *)b;

    return left < right ? -1 : left > right;
}

static bool same_key(const struct tree_node *a, const struct tree_node *b)
{
    return a->key_bytes == b->key_bytes && memcmp(a->key, b->key, a->key_bytes) == 0;
}

/* Each key that an earlier one of the object is equal to. */
static void find_equal_keys(struct scan *scan, const struct tree_node *object)
{
    const struct tree *tree = scan->tree;

    for (uint32_t i = object->first; i != NONE_INDEX; i = tree->nodes[i].next)
        for (uint32_t j = object->first; j != i; j = tree->nodes[j].next)
            if (same_key(&tree->nodes[i], &tree->nodes[j])) {
                scan_soft(scan, TREE_DUPLICATE_KEY, tree->nodes[i].key_at, i);
                break;
            }
}

/* Of a large object hashes are sorted: the first that stands twice is told, at the object, so that no line takes quadratic time. */
static void find_equal_hash(struct scan *scan, const struct tree_node *object, uint32_t index)
{
    struct tree *tree = scan->tree;
    uint32_t count = 0;

    if (tree->keys_capacity < object->count) {
        tree->keys_capacity = 2 * object->count;
        tree->keys = realloc(tree->keys, tree->keys_capacity * sizeof(*tree->keys));
        check(tree->keys != NULL);
    }
    for (uint32_t i = object->first; i != NONE_INDEX; i = tree->nodes[i].next)
        tree->keys[count++] = key_hash(&tree->nodes[i]);
    qsort(tree->keys, count, sizeof(*tree->keys), by_value);
    for (uint32_t i = 1; i < count; i++)
        if (tree->keys[i] == tree->keys[i - 1]) {
            scan_soft(scan, TREE_DUPLICATE_KEY, object->at, index);
            return;
        }
}

/* False at the line's end. */
static bool skip_space(struct scan *scan)
{
    struct tree *tree = scan->tree;

    while (tree->at < tree->bytes) {
        const char c = tree->line[tree->at];

        if (c != ' ' && c != '\t' && c != '\r' && c != '\n')
            return true;
        tree->at++;
    }
    return false;
}

static enum step open_container(struct scan *scan, enum tree_kind kind)
{
    struct tree *tree = scan->tree;
    uint32_t index;

    if (tree->depth == TREE_DEPTH_MAX)
        return scan_wrong(scan, TREE_TOO_DEEP, tree->at);
    index = scan_add(scan, kind, tree->at);
    if (index == NONE_INDEX)
        return scan_wrong(scan, TREE_TOO_MANY, tree->at);
    tree->depth++;
    scan->within = index;
    tree->at++;
    return kind == TREE_OBJECT ? STEP_FIRST_KEY : STEP_FIRST_ITEM;
}

static enum step close_container(struct scan *scan)
{
    struct tree *tree = scan->tree;
    struct tree_node *node = &tree->nodes[scan->within];

    node->end = ++tree->at;
    if (node->kind == TREE_OBJECT && node->count > 1) {
        if (node->count <= KEYS_PAIRWISE_MAX)
            find_equal_keys(scan, node);
        else
            find_equal_hash(scan, node, scan->within);
    }
    tree->depth--;
    scan->within = node->parent;
    return STEP_AFTER;
}

static enum step scan_value(struct scan *scan)
{
    struct tree *tree = scan->tree;
    uint32_t index;

    if (!skip_space(scan))
        return scan_wrong(scan, TREE_CUT, tree->at);
    switch (tree->line[tree->at]) {
    case '{': return open_container(scan, TREE_OBJECT);
    case '[': return open_container(scan, TREE_ARRAY);
    case '"':
        index = scan_add(scan, TREE_STRING, tree->at++);
        if (index == NONE_INDEX)
            return scan_wrong(scan, TREE_TOO_MANY, tree->at - 1);
        if (!scan_string(scan, index, &tree->nodes[index].text, &tree->nodes[index].text_bytes))
            return STEP_WRONG;
        tree->nodes[index].end = tree->at;
        return STEP_AFTER;
    case '-': case '0': case '1': case '2': case '3': case '4': case '5': case '6': case '7': case '8': case '9':
        return scan_number(scan);
    case ']': case '}':
        if (scan->comma_at != NONE_INDEX)
            return scan_wrong(scan, TREE_TRAILING_COMMA, scan->comma_at);
        return scan_wrong(scan, TREE_WANTS_VALUE, tree->at);
    default: return scan_word(scan);
    }
}

static enum step scan_key(struct scan *scan, bool first)
{
    struct tree *tree = scan->tree;

    if (!skip_space(scan))
        return scan_wrong(scan, TREE_CUT, tree->at);
    if (tree->line[tree->at] == '}')
        return first ? close_container(scan) : scan_wrong(scan, TREE_TRAILING_COMMA, scan->comma_at);
    if (tree->line[tree->at] == '\'')
        return scan_wrong(scan, TREE_SINGLE_QUOTE, tree->at);
    if (tree->line[tree->at] != '"')
        return scan_wrong(scan, scan_begins(tree, tree->at, "//") || scan_begins(tree, tree->at, "/*") ? TREE_COMMENT : TREE_WANTS_KEY, tree->at);
    scan->key.key_at = tree->at++;
    if (!scan_string(scan, scan->within, &scan->key.key, &scan->key.key_bytes))
        return STEP_WRONG;
    if (!skip_space(scan))
        return scan_wrong(scan, TREE_CUT, tree->at);
    if (tree->line[tree->at] != ':')
        return scan_wrong(scan, TREE_WANTS_COLON, tree->at);
    tree->at++;
    scan->comma_at = NONE_INDEX;
    return STEP_VALUE;
}

static enum step scan_after(struct scan *scan)
{
    struct tree *tree = scan->tree;
    const bool there = skip_space(scan);
    bool object, behind_text;

    if (scan->within == NONE_INDEX)
        return there ? scan_wrong(scan, TREE_MORE_BEHIND, tree->at) : STEP_DONE;
    if (!there)
        return scan_wrong(scan, TREE_CUT, tree->at);
    object = tree->nodes[scan->within].kind == TREE_OBJECT;
    if (tree->line[tree->at] == ',') {
        scan->comma_at = tree->at++;
        return object ? STEP_KEY : STEP_VALUE;
    }
    if (tree->line[tree->at] == (object ? '}' : ']'))
        return close_container(scan);
    behind_text = tree->nodes[tree->count - 1].kind == TREE_STRING;
    if (behind_text && strchr("{}[]:", tree->line[tree->at]) == NULL)
        return scan_wrong(scan, object ? TREE_UNESCAPED_QUOTE : TREE_UNESCAPED_QUOTE_IN_LIST, tree->at);
    return scan_wrong(scan, object ? TREE_WANTS_COMMA_OR_BRACE : TREE_WANTS_COMMA_OR_BRACKET, tree->at);
}

static enum step scan_first_item(struct scan *scan)
{
    struct tree *tree = scan->tree;

    if (skip_space(scan) && tree->line[tree->at] == ']')
        return close_container(scan);
    scan->comma_at = NONE_INDEX;
    return STEP_VALUE;
}

/* Nothing moves while strings are decoded: there is room for the whole line at once. */
static void begin(struct tree *tree, const char *line, size_t bytes)
{
    check(bytes < NONE_INDEX);
    if (tree->decoded_capacity < bytes) {
        free(tree->decoded);
        tree->decoded_capacity = (uint32_t)bytes + (uint32_t)bytes / 4;
        tree->decoded = malloc(tree->decoded_capacity);
        check(tree->decoded != NULL);
    }
    tree->line = line;
    tree->bytes = (uint32_t)bytes;
    tree->count = 0;
    tree->decoded_count = 0;
    tree->at = 0;
    tree->depth = 0;
}

enum tree_fault tree_scan(struct tree *tree, const char *line, size_t bytes)
{
    struct scan scan = {.tree = tree, .within = NONE_INDEX, .comma_at = NONE_INDEX};
    enum step step = STEP_VALUE;

    begin(tree, line, bytes);
    while (step != STEP_DONE && step != STEP_WRONG) {
        switch (step) {
        case STEP_VALUE: step = scan_value(&scan); break;
        case STEP_FIRST_ITEM: step = scan_first_item(&scan); break;
        case STEP_FIRST_KEY: step = scan_key(&scan, true); break;
        case STEP_KEY: step = scan_key(&scan, false); break;
        default: step = scan_after(&scan); break;
        }
    }
    return scan.fault;
}

void tree_free(struct tree *tree)
{
    free(tree->nodes);
    free(tree->decoded);
    free(tree->keys);
    *tree = (struct tree){0};
}

/* --- looking ---------------------------------------------------------------------------------------------------------------- */

bool tree_key_is(const struct tree_node *node, const char *key)
{
    const size_t length = strlen(key);

    return node->key_bytes == length && memcmp(node->key, key, length) == 0;
}

uint32_t tree_find(const struct tree *tree, uint32_t object, const char *key)
{
    if (object == NONE_INDEX || tree->nodes[object].kind != TREE_OBJECT)
        return NONE_INDEX;
    for (uint32_t i = tree->nodes[object].first; i != NONE_INDEX; i = tree->nodes[i].next)
        if (tree_key_is(&tree->nodes[i], key))
            return i;
    return NONE_INDEX;
}

bool tree_is_text(const struct tree *tree, uint32_t node, const char *text)
{
    const size_t length = strlen(text);

    return tree->nodes[node].kind == TREE_STRING && tree->nodes[node].text_bytes == length &&
           memcmp(tree->nodes[node].text, text, length) == 0;
}

static uint32_t index_of(const struct tree *tree, uint32_t node)
{
    uint32_t index = 0;

    for (uint32_t i = tree->nodes[tree->nodes[node].parent].first; i != node; i = tree->nodes[i].next)
        index++;
    return index;
}

void tree_path(const struct tree *tree, uint32_t node, char *ret_path, size_t size)
{
    uint32_t chain[TREE_DEPTH_MAX + 1];
    uint32_t count = 0;
    size_t used = 0;

    ret_path[0] = '\0';
    for (; node != NONE_INDEX && tree->nodes[node].parent != NONE_INDEX; node = tree->nodes[node].parent)
        chain[count++] = node;
    while (count > 0 && used < size) {
        const struct tree_node *at = &tree->nodes[chain[--count]];
        const size_t room = size - used;
        const int wanted = tree->nodes[at->parent].kind == TREE_ARRAY
                               ? snprintf(ret_path + used, room, "[%u]", index_of(tree, chain[count]))
                               : snprintf(ret_path + used, room, "%s%.*s", used > 0 ? "." : "", (int)min_u32(at->key_bytes, (uint32_t)size), at->key);

        used += (size_t)wanted;
    }
    if (used >= size)
        strcpy(ret_path + size - 4, "...");
}
