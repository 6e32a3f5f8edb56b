/* Patterns are written for Oniguruma and run by PCRE2. Where the two read a pattern differently it is rewritten (\s, \w), compiled
 * so that they agree (^ and $ at every line), or refused by name. Their Unicode tables may be of different years. */
#include "engine/tokenizer/inside.h"

/* White_Space; PCRE2's own \s has U+180E in it. */
#define SPACES "\\x09-\\x0d\\x20\\x{85}\\p{Z}"

/* PCRE2's own \w has no marks and no joiners in it. */
#define WORDS "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}"

enum { PATTERN_BYTES_MAX = 1 << 16 };

static void add_class(struct token_text *out, const char *begin, const char *members, const char *end)
{
    token_text_add(out, begin, strlen(begin));
    token_text_add(out, members, strlen(members));
    token_text_add(out, end, strlen(end));
}

/* One escape, at text[0] == '\\' with one more byte behind it. NULL: fine, else what is not known. */
static const char *rewrite_escape(const char *text, bool in_class, struct token_text *out)
{
    static const struct {
        char letter;
        bool everywhere; /* not only in a class */
        const char *name;
    } unknown[] = {{'S', false, "\\S in a class"}, {'W', false, "\\W in a class"}, {'b', true, "\\b"}, {'B', true, "\\B"},
                   {'h', true, "\\h"}, {'H', true, "\\H"}, {'G', true, "\\G"}, {'K', true, "\\K"}, {'C', true, "\\C"}};

    for (size_t i = 0; i < ARRAY_COUNT(unknown); i++) {
        if (unknown[i].letter == text[1] && (unknown[i].everywhere || in_class))
            return unknown[i].name;
    }
    switch (text[1]) {
    case 's': add_class(out, in_class ? "" : "[", SPACES, in_class ? "" : "]"); break;
    case 'S': add_class(out, "[^", SPACES, "]"); break;
    case 'w': add_class(out, in_class ? "" : "[", WORDS, in_class ? "" : "]"); break;
    case 'W': add_class(out, "[^", WORDS, "]"); break;
    default: token_text_add(out, text, 2); break;
    }
    return NULL;
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
