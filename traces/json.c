/* A strict scanner of one JSON object (RFC 8259): it checks everything and builds nothing, so that a line of thousands
 * of block hashes costs one pass. Tests hold it against jansson. NUL escapes are refused; nesting is bounded. */
#include "reader.h"

enum { DEPTH_MAX = 64 };

struct scan {
    const char *at;
    const char *end;
    const char *problem;
};

static bool scan_value(struct scan *scan, uint32_t depth);

static bool scan_fail(struct scan *scan, const char *problem)
{
    scan->problem = problem;
    return false;
}

static void scan_blanks(struct scan *scan)
{
    while (scan->at < scan->end && (*scan->at == ' ' || *scan->at == '\t' || *scan->at == '\r' || *scan->at == '\n'))
        scan->at++;
}

/* The next byte that is no blank; 0 at the end. */
static char scan_peek(struct scan *scan)
{
    scan_blanks(scan);
    return scan->at < scan->end ? *scan->at : 0;
}

static bool scan_take(struct scan *scan, char wanted, const char *problem)
{
    if (scan_peek(scan) != wanted || scan->at == scan->end)
        return scan_fail(scan, problem);
    scan->at++;
    return true;
}

/* Four hexadecimal digits behind "\u"; -1: not so. */
static int scan_hex(struct scan *scan)
{
    int value = 0;

    if (scan->end - scan->at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char c = *scan->at++;
        int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10
                  : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;

        if (digit < 0)
            return -1;
        value = value << 4 | digit;
    }
    return value;
}

static bool scan_escape(struct scan *scan)
{
    char kind = scan->at < scan->end ? *scan->at++ : 0;
    int unit;

    if (kind != 'u')
        return (kind != 0 && strchr("\"\\/bfnrt", kind) != NULL) || scan_fail(scan, "an unknown escape");
    unit = scan_hex(scan);
    if (unit >= 0xd800 && unit < 0xdc00) {
        if (scan->end - scan->at < 2 || memcmp(scan->at, "\\u", 2) != 0)
            return scan_fail(scan, "half a surrogate pair");
        scan->at += 2;
        unit = scan_hex(scan);
        return (unit >= 0xdc00 && unit < 0xe000) || scan_fail(scan, "half a surrogate pair");
    }
    return (unit > 0 && (unit < 0xdc00 || unit >= 0xe000)) || scan_fail(scan, "a bad \\u escape");
}

static bool scan_string(struct scan *scan)
{
    if (!scan_take(scan, '"', "no string where one must be"))
        return false;
    while (scan->at < scan->end) {
        char c = *scan->at;
        size_t bytes;

        if (c == '"') {
            scan->at++;
            return true;
        }
        if (c == '\\') {
            scan->at++;
            if (!scan_escape(scan))
                return false;
            continue;
        }
        bytes = utf8_bytes(scan->at, scan->end);
        if (bytes == 0)
            return scan_fail(scan, "bytes that are not UTF-8");
        if ((unsigned char)c < 0x20)
            return scan_fail(scan, "a control character in a string");
        scan->at += bytes;
    }
    return scan_fail(scan, "a string that does not close");
}

static bool scan_digits(struct scan *scan)
{
    const char *begin = scan->at;

    while (scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9')
        scan->at++;
    return scan->at > begin || scan_fail(scan, "a number without digits");
}

static bool scan_number(struct scan *scan)
{
    if (*scan->at == '-')
        scan->at++;
    if (scan->at < scan->end && *scan->at == '0')
        scan->at++;
    else if (!scan_digits(scan))
        return false;
    if (scan->at < scan->end && *scan->at == '.') {
        scan->at++;
        if (!scan_digits(scan))
            return false;
    }
    if (scan->at < scan->end && (*scan->at == 'e' || *scan->at == 'E')) {
        scan->at++;
        if (scan->at < scan->end && (*scan->at == '-' || *scan->at == '+'))
            scan->at++;
        return scan_digits(scan);
    }
    return true;
}

static bool scan_word(struct scan *scan, const char *word)
{
    size_t length = strlen(word);

    if ((size_t)(scan->end - scan->at) < length || memcmp(scan->at, word, length) != 0)
        return scan_fail(scan, "an unknown word");
    scan->at += length;
    return true;
}

/* Between the brackets of an array or, with keys, an object; the opening one is taken. */
static bool scan_list(struct scan *scan, bool keys, char close, uint32_t depth)
{
    if (depth == DEPTH_MAX)
        return scan_fail(scan, "more than 64 levels");
    if (scan_peek(scan) == close)
        return scan_take(scan, close, "");
    for (;;) {
        if (keys && (!scan_string(scan) || !scan_take(scan, ':', "no ':' behind a key")))
            return false;
        if (!scan_value(scan, depth + 1))
            return false;
        if (scan_peek(scan) == close)
            return scan_take(scan, close, "");
        if (!scan_take(scan, ',', "neither ',' nor a closing bracket"))
            return false;
    }
}

static bool scan_value(struct scan *scan, uint32_t depth)
{
    switch (scan_peek(scan)) {
    case '"': return scan_string(scan);
    case '{': scan->at++; return scan_list(scan, true, '}', depth);
    case '[': scan->at++; return scan_list(scan, false, ']', depth);
    case 't': return scan_word(scan, "true");
    case 'f': return scan_word(scan, "false");
    case 'n': return scan_word(scan, "null");
    case '-': case '0': case '1': case '2': case '3': case '4': case '5': case '6': case '7': case '8': case '9':
        return scan_number(scan);
    default: return scan_fail(scan, scan->at == scan->end ? "an early end" : "no value where one must be");
    }
}

static char kind_of(char first)
{
    switch (first) {
    case '"': return 's';
    case '{': return 'o';
    case '[': return 'a';
    case 't': case 'f': return first;
    case 'n': return '0';
    default: return 'n';
    }
}

static bool scan_member(struct scan *scan, const char *const *keys, size_t count, struct json_value *values)
{
    struct json_value *wanted = NULL;
    const char *key;
    const char *begin;

    scan_blanks(scan);
    key = scan->at + 1;
    if (!scan_string(scan))
        return false;
    for (size_t i = 0; i < count; i++)
        if (strlen(keys[i]) == (size_t)(scan->at - 1 - key) && memcmp(keys[i], key, strlen(keys[i])) == 0)
            wanted = &values[i];
    if (wanted != NULL && wanted->text != NULL)
        return scan_fail(scan, "a key that stands there twice");
    if (!scan_take(scan, ':', "no ':' behind a key"))
        return false;
    scan_blanks(scan);
    begin = scan->at;
    if (!scan_value(scan, 1))
        return false;
    if (wanted != NULL)
        *wanted = (struct json_value){begin, (size_t)(scan->at - begin), kind_of(*begin)};
    return true;
}

static bool scan_object(struct scan *scan, const char *const *keys, size_t count, struct json_value *values)
{
    if (!scan_take(scan, '{', "no JSON object"))
        return false;
    if (scan_peek(scan) == '}') {
        scan->at++;
    } else {
        for (bool more = true; more;) {
            if (!scan_member(scan, keys, count, values))
                return false;
            more = scan_peek(scan) == ',';
            if (more)
                scan->at++;
            else if (!scan_take(scan, '}', "neither ',' nor '}' behind a value"))
                return false;
        }
    }
    scan_blanks(scan);
    return scan->at == scan->end || scan_fail(scan, "text behind the object");
}

bool json_find(const char *text, size_t length, const char *const *keys, size_t count, struct json_value *ret_values,
               const char **ret_problem, size_t *ret_offset)
{
    struct scan scan = {text, text + length, NULL};

    memset(ret_values, 0, count * sizeof(*ret_values));
    if (scan_object(&scan, keys, count, ret_values))
        return true;
    *ret_problem = scan.problem;
    *ret_offset = (size_t)(scan.at - text);
    return false;
}
