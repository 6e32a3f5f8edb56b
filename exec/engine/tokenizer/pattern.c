/* Patterns are written for Oniguruma and run by PCRE2. Where the two read a pattern differently it is rewritten (\s, \S), compiled
 * so that they agree (^ and $ at every line), or refused by name. Their Unicode tables may be of different years. */
#include "engine/tokenizer/inside.h"

/* White_Space; PCRE2's own \s has U+180E in it. */
#define SPACES "\\x09-\\x0d\\x20\\x{85}\\p{Z}"

enum { PATTERN_BYTES_MAX = 1 << 16 };

/* One escape, at text[0] == '\\' with one more byte behind it. NULL: fine, else what is not known. */
static const char *rewrite_escape(const char *text, bool in_class, struct token_text *out)
{
    switch (text[1]) {
    case 's':
        token_text_add(out, in_class ? SPACES : "[" SPACES "]", sizeof(SPACES) - 1 + (in_class ? 0 : 2));
        return NULL;
    case 'S':
        if (in_class)
            return "\\S in a class";
        token_text_add(out, "[^" SPACES "]", sizeof(SPACES) - 1 + 3);
        return NULL;
    case 'h':
    case 'H':
        return "\\h";
    case 'G':
    case 'K':
    case 'C':
        return "\\G, \\K or \\C";
    default:
        token_text_add(out, text, 2);
        return NULL;
    }
}

static const char *rewrite(const char *pattern, size_t count, struct token_text *out)
{
    unsigned depth = 0; /* of [ */

    for (size_t at = 0; at < count; at++) {
        if (pattern[at] == '\\') {
            const char *unknown = at + 1 < count ? rewrite_escape(pattern + at, depth > 0, out) : "a \\ at the end";

            if (unknown != NULL)
                return unknown;
            at++;
            continue;
        }
        if (depth > 0 && pattern[at] == '[' && !(at + 1 < count && pattern[at + 1] == ':'))
            return "a class in a class";
        if (depth > 0 && at + 1 < count && pattern[at] == '&' && pattern[at + 1] == '&')
            return "&& in a class";
        if (depth == 0 && at + 1 < count && pattern[at] == '(' && pattern[at + 1] == '*')
            return "(*";
        if (pattern[at] == '[')
            depth++;
        else if (pattern[at] == ']' && depth > 0)
            depth--;
        token_text_add(out, pattern + at, 1);
    }
    return NULL;
}

pcre2_code *pattern_compile(struct opening *opening, const char *pattern, size_t count)
{
    struct token_text rewritten = {0};
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    const char *unknown = count > PATTERN_BYTES_MAX ? "so long a pattern" : rewrite(pattern, count, &rewritten);
    pcre2_code *code = NULL;
    int error;
    size_t offset;

    check(context != NULL);
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    if (unknown != NULL) {
        opening_refuse(opening, STATUS_INVALID, "a splitting pattern has %s, which is unknown here", unknown);
    } else {
        code = pcre2_compile((PCRE2_SPTR)(rewritten.count > 0 ? rewritten.bytes : ""), rewritten.count,
                             PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &error, &offset, context);
        if (code == NULL) {
            PCRE2_UCHAR message[128] = "";

            pcre2_get_error_message(error, message, sizeof(message));
            opening_refuse(opening, STATUS_INVALID, "a splitting pattern cannot be compiled: %s", (const char *)message);
        } else {
            /* Without a compiler for this machine it is interpreted. */
            (void)pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
        }
    }
    pcre2_compile_context_free(context);
    token_text_free(&rewritten);
    return code;
}
