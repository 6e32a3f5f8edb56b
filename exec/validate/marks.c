/* Texts that spell a control token. They stay text when they are encoded, so nobody's turn can be forged; who put them there may not know.
 * Without a model the spellings of the known families are looked for, with one its own; <|name|> is one anywhere. */
#include <stdlib.h>

#include "validate/internal.h"

#define MARK_BYTES_MIN 3
#define NAME_BYTES_MAX 40

static const char *const known[] = {"<s>", "</s>", "<unk>", "<pad>", "<bos>", "<eos>", "[INST]", "[/INST]", "<<SYS>>", "<</SYS>>", "[AVAILABLE_TOOLS]",
                                    "[TOOL_CALLS]", "[TOOL_RESULTS]", "<start_of_turn>", "<end_of_turn>", "<think>", "</think>", "<tool_call>",
                                    "</tool_call>"};

static int by_text(const void *a, const void *b)
{
    const struct mark *left = a;
    const struct mark *right = b;
    const size_t both = left->bytes < right->bytes ? left->bytes : right->bytes;
    const int order = memcmp(left->text, right->text, both);

    return order != 0 ? order : (left->bytes > right->bytes) - (left->bytes < right->bytes);
}

static void add(struct marks *marks, const char *text, size_t bytes)
{
    if (bytes >= MARK_BYTES_MIN && marks->count < MARKS_MAX)
        marks->mark[marks->count++] = (struct mark){.text = text, .bytes = bytes};
}

void marks_open(struct marks *marks, const struct tokenizer *tokenizer)
{
    marks->mark = calloc(MARKS_MAX, sizeof(*marks->mark));
    check(marks->mark != NULL);
    for (size_t i = 0; i < ARRAY_COUNT(known) && tokenizer == NULL; i++)
        add(marks, known[i], strlen(known[i]));
    for (int32_t id = 0; tokenizer != NULL && id < tokenizer_ids_count(tokenizer); id++) {
        size_t bytes = 0;
        const char *text = token_is_control(tokenizer, id) ? token_spelling(tokenizer, id, &bytes) : NULL;

        if (text != NULL)
            add(marks, text, bytes);
    }
    qsort(marks->mark, marks->count, sizeof(*marks->mark), by_text);
    for (uint32_t i = 0; i < marks->count; i++)
        if (i == 0 || marks->mark[i].text[0] != marks->mark[i - 1].text[0])
            marks->firsts[marks->firsts_count++] = (uint8_t)marks->mark[i].text[0];
    if (memchr(marks->firsts, '<', marks->firsts_count) == NULL)
        marks->firsts[marks->firsts_count++] = '<';
}

void marks_close(struct marks *marks)
{
    free(marks->mark);
    *marks = (struct marks){0};
}

/* <|name|>, whatever the name: bytes of it, or 0. */
static size_t bar_bytes(const char *text, size_t count)
{
    size_t at = 2;

    if (count < 5 || text[0] != '<' || text[1] != '|')
        return 0;
    while (at < count && at < 2 + NAME_BYTES_MAX &&
           ((text[at] >= 'a' && text[at] <= 'z') || (text[at] >= 'A' && text[at] <= 'Z') || (text[at] >= '0' && text[at] <= '9') || text[at] == '_'))
        at++;
    return at > 2 && at + 2 <= count && text[at] == '|' && text[at + 1] == '>' ? at + 2 : 0;
}

/* The first of mark[from .. until) whose byte at `depth` is at least `byte`; all are longer, and alike before it. */
static uint32_t bound(const struct marks *marks, uint32_t from, uint32_t until, size_t depth, unsigned byte)
{
    while (from < until) {
        const uint32_t middle = from + (until - from) / 2;

        if ((unsigned char)marks->mark[middle].text[depth] < byte)
            from = middle + 1;
        else
            until = middle;
    }
    return from;
}

/* Bytes of the mark that stands here, or 0. Letter by letter, so that text which nearly spells hundreds of them costs no more. */
static size_t mark_bytes(const struct marks *marks, const char *text, size_t count)
{
    uint32_t from = 0;
    uint32_t until = marks->count;

    for (size_t depth = 0; from < until; depth++) {
        if (marks->mark[from].bytes == depth)
            return depth;
        if (depth == count)
            break;
        from = bound(marks, from, until, depth, (unsigned char)text[depth]);
        until = bound(marks, from, until, depth, (unsigned char)text[depth] + 1u);
    }
    return bar_bytes(text, count);
}

/* The first mark of a text; ret_at: where. 0: none. */
static size_t find(const struct marks *marks, const char *text, size_t count, size_t *ret_at)
{
    size_t until = count;
    size_t found = 0;

    for (uint32_t i = 0; i < marks->firsts_count; i++) {
        const char *at = text;

        while ((at = memchr(at, marks->firsts[i], until - (size_t)(at - text))) != NULL) {
            const size_t left = count - (size_t)(at - text);
            const size_t bytes = left >= MARK_BYTES_MIN ? mark_bytes(marks, at, left) : 0;

            if (bytes > 0) {
                found = bytes;
                *ret_at = until = (size_t)(at - text);
                break;
            }
            at++;
        }
    }
    return found;
}

void marks_check(struct validator *validator, uint32_t index)
{
    const struct tree *tree = &validator->tree;
    const struct tree_node *node = &tree->nodes[index];
    const bool raw = node->end - node->at == node->text_bytes + 2; /* no escapes: places in the text are places in the line */
    char path[96];
    size_t at = 0;
    const size_t bytes = find(&validator->marks, node->text, node->text_bytes, &at);

    if (bytes == 0)
        return;
    tree_path(tree, index, path, sizeof(path));
    issue_at(validator, VALIDATE_SPECIAL_TOKEN_TEXT, node->at + (raw ? 1 + at : 0), index,
             "%s contains the text of a special token (%.*s); it will be encoded as plain text.", path, (int)(bytes < 40 ? bytes : 40), node->text + at);
}
