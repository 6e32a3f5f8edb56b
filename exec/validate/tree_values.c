/* Strings, numbers and words of a line of JSON. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "engine/tokenizer/utf8.h"
#include "validate/tree_scan.h"

/* --- strings ---------------------------------------------------------------------------------------------------------------- */

/* The first byte at or behind `at` that is a quote, a backslash or a control character; eight at a time (Mycroft's test for a zero byte,
 * which may only name a byte too many behind a true one). */
static uint32_t plain_until(const struct tree *tree, uint32_t at)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    const uint64_t highs = UINT64_C(0x8080808080808080);

    for (; at + 8 <= tree->bytes; at += 8) {
        uint64_t word, quote, backslash;

        memcpy(&word, tree->line + at, 8);
        quote = word ^ (ones * '"');
        backslash = word ^ (ones * '\\');
        if ((((quote - ones) & ~quote) | ((backslash - ones) & ~backslash) | ((word - ones * 0x20) & ~word)) & highs)
            break;
    }
    while (at < tree->bytes && tree->line[at] != '"' && tree->line[at] != '\\' && (unsigned char)tree->line[at] >= 0x20)
        at++;
    return at;
}

/* Four digits at `at`; -1: they are none. */
static int32_t hex4(const struct tree *tree, uint32_t at)
{
    int32_t value = 0;

    if (at + 4 > tree->bytes)
        return -1;
    for (uint32_t i = 0; i < 4; i++) {
        const char c = tree->line[at + i];
        const int32_t digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;

        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

static void decoded_add(struct tree *tree, const char *bytes, uint32_t count)
{
    memcpy(tree->decoded + tree->decoded_count, bytes, count);
    tree->decoded_count += count;
}

/* \uXXXX at tree->at, which is behind the u; an escape is never shorter than what it stands for. */
static bool decode_unicode(struct scan *scan, uint32_t node)
{
    struct tree *tree = scan->tree;
    const uint32_t escape_at = tree->at - 2;
    const int32_t high = hex4(tree, tree->at);
    char text[4];

    if (high < 0)
        return false;
    tree->at += 4;
    if (high >= 0xd800 && high < 0xdc00 && tree->at + 6 <= tree->bytes && tree->line[tree->at] == '\\' && tree->line[tree->at + 1] == 'u') {
        const int32_t low = hex4(tree, tree->at + 2);

        if (low >= 0xdc00 && low < 0xe000) {
            tree->at += 6;
            decoded_add(tree, text, utf8_write(0x10000 + (((uint32_t)high - 0xd800) << 10) + ((uint32_t)low - 0xdc00), text));
            return true;
        }
    }
    if (high >= 0xd800 && high < 0xe000) {
        scan_soft(scan, TREE_LONE_SURROGATE, escape_at, node);
        decoded_add(tree, UTF8_REPLACEMENT, UTF8_REPLACEMENT_BYTES);
        return true;
    }
    if (high == 0)
        scan_soft(scan, TREE_NULL_CHARACTER, escape_at, node);
    decoded_add(tree, text, utf8_write((uint32_t)high, text));
    return true;
}

/* What stands at tree->at is a backslash. */
static bool decode_escape(struct scan *scan, uint32_t node)
{
    static const char names[] = "\"\\/bfnrt";
    static const char meant[] = "\"\\/\b\f\n\r\t";
    struct tree *tree = scan->tree;
    const char *name = tree->at + 1 < tree->bytes && tree->line[tree->at + 1] != '\0' ? strchr(names, tree->line[tree->at + 1]) : NULL;

    if (name != NULL) {
        decoded_add(tree, &meant[name - names], 1);
        tree->at += 2;
        return true;
    }
    if (tree->at + 1 < tree->bytes && tree->line[tree->at + 1] == 'u') {
        tree->at += 2;
        return decode_unicode(scan, node);
    }
    return false;
}

static bool ends(struct scan *scan, enum tree_fault fault, uint32_t at)
{
    scan_wrong(scan, fault, at);
    return false;
}

bool scan_string(struct scan *scan, uint32_t node, const char **ret_text, uint32_t *ret_bytes)
{
    struct tree *tree = scan->tree;
    const uint32_t from = tree->at;
    const uint32_t decoded_from = tree->decoded_count;
    bool escaped = false;

    for (uint32_t plain = from;; plain = tree->at) {
        tree->at = plain_until(tree, plain);
        if (escaped)
            decoded_add(tree, tree->line + plain, tree->at - plain);
        if (tree->at == tree->bytes)
            return ends(scan, TREE_CUT_IN_TEXT, tree->at);
        if (tree->line[tree->at] == '"')
            break;
        if (tree->line[tree->at] != '\\')
            return ends(scan, TREE_CONTROL, tree->at);
        if (!escaped)
            decoded_add(tree, tree->line + from, tree->at - from);
        escaped = true;
        plain = tree->at;
        if (plain + 1 == tree->bytes)
            return ends(scan, TREE_CUT_IN_TEXT, tree->bytes);
        if (!decode_escape(scan, node))
            return ends(scan, TREE_BAD_ESCAPE, plain);
    }
    *ret_text = escaped ? tree->decoded + decoded_from : tree->line + from;
    *ret_bytes = escaped ? tree->decoded_count - decoded_from : tree->at - from;
    tree->at++;
    return true;
}

/* --- numbers and words ------------------------------------------------------------------------------------------------------ */

static uint32_t digits_until(const struct tree *tree, uint32_t at)
{
    while (at < tree->bytes && tree->line[at] >= '0' && tree->line[at] <= '9')
        at++;
    return at;
}

/* Whether it fits what reads it later: 64 bits, or a finite double. */
static bool fits(const struct tree *tree, uint32_t from, uint32_t until, bool real)
{
    char copy[TREE_NUMBER_BYTES_MAX + 1];

    if (until - from > TREE_NUMBER_BYTES_MAX)
        return false;
    memcpy(copy, tree->line + from, until - from);
    copy[until - from] = '\0';
    errno = 0;
    if (real)
        return isfinite(strtod(copy, NULL));
    (void)strtoll(copy, NULL, 10);
    return errno != ERANGE;
}

enum step scan_number(struct scan *scan)
{
    struct tree *tree = scan->tree;
    const uint32_t from = tree->at;
    uint32_t at = from + (tree->line[from] == '-');
    uint32_t digits = digits_until(tree, at);
    bool real = false;

    if (scan_begins(tree, at, "Infinity") || scan_begins(tree, at, "inf"))
        return scan_wrong(scan, TREE_NOT_A_NUMBER, from);
    if (digits == at || (tree->line[at] == '0' && digits > at + 1))
        return scan_wrong(scan, digits == tree->bytes && digits == at ? TREE_CUT : TREE_BAD_NUMBER, digits == tree->bytes && digits == at ? digits : from);
    at = digits;
    if (at < tree->bytes && tree->line[at] == '.') {
        digits = digits_until(tree, ++at);
        if (digits == at)
            return scan_wrong(scan, at == tree->bytes ? TREE_CUT : TREE_BAD_NUMBER, at == tree->bytes ? at : from);
        at = digits;
        real = true;
    }
    if (at < tree->bytes && (tree->line[at] == 'e' || tree->line[at] == 'E')) {
        at++;
        at += at < tree->bytes && (tree->line[at] == '+' || tree->line[at] == '-');
        digits = digits_until(tree, at);
        if (digits == at)
            return scan_wrong(scan, at == tree->bytes ? TREE_CUT : TREE_BAD_NUMBER, at == tree->bytes ? at : from);
        at = digits;
        real = true;
    }
    if (!fits(tree, from, at, real))
        return scan_wrong(scan, TREE_NUMBER_RANGE, from);
    if (scan_add(scan, real ? TREE_REAL : TREE_INTEGER, from) == NONE_INDEX)
        return scan_wrong(scan, TREE_TOO_MANY, from);
    tree->at = tree->nodes[tree->count - 1].end = at;
    return STEP_AFTER;
}

enum step scan_word(struct scan *scan)
{
    static const struct {
        const char *word;
        enum tree_kind kind;
    } words[] = {{"true", TREE_TRUE}, {"false", TREE_FALSE}, {"null", TREE_NULL}};
    static const struct {
        const char *word;
        enum tree_fault fault;
    } others[] = {{"NaN", TREE_NOT_A_NUMBER}, {"Infinity", TREE_NOT_A_NUMBER}, {"nan", TREE_NOT_A_NUMBER}, {"None", TREE_PYTHON_WORD},
                  {"True", TREE_PYTHON_WORD}, {"False", TREE_PYTHON_WORD}, {"'", TREE_SINGLE_QUOTE}, {"//", TREE_COMMENT},
                  {"/*", TREE_COMMENT}, {"#", TREE_COMMENT}, {"\xef\xbb\xbf", TREE_BYTE_ORDER_MARK}};
    struct tree *tree = scan->tree;
    const uint32_t from = tree->at;

    for (size_t i = 0; i < ARRAY_COUNT(words); i++) {
        const uint32_t length = (uint32_t)strlen(words[i].word);

        if (scan_begins(tree, from, words[i].word)) {
            if (scan_add(scan, words[i].kind, from) == NONE_INDEX)
                return scan_wrong(scan, TREE_TOO_MANY, from);
            tree->at = tree->nodes[tree->count - 1].end = from + length;
            return STEP_AFTER;
        }
        if (tree->bytes - from < length && memcmp(tree->line + from, words[i].word, tree->bytes - from) == 0)
            return scan_wrong(scan, TREE_CUT, tree->bytes);
    }
    for (size_t i = 0; i < ARRAY_COUNT(others); i++)
        if (scan_begins(tree, from, others[i].word))
            return scan_wrong(scan, others[i].fault, from);
    return scan_wrong(scan, TREE_WANTS_VALUE, from);
}
