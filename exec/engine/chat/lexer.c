/* A template's text as tokens, with Jinja's rules of white space as transformers sets them: a newline behind a block goes
 * (trim_blocks), blanks before one that begins a line go (lstrip_blocks), '-' takes all white space on its side and '+' none. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/chat/inside.h"
#include "engine/tokenizer/utf8.h"
#include "host/words.h"

void reading_fail(struct reading *reading, uint32_t line, const char *what, ...)
{
    va_list arguments;
    int used;

    if (reading->failed)
        return;
    reading->failed = true;
    used = snprintf(reading->error, CHAT_ERROR_MAX, "line %u: ", line);
    va_start(arguments, what);
    vsnprintf(reading->error + used, (size_t)(CHAT_ERROR_MAX - used), what, arguments);
    va_end(arguments);
}

void *reading_take(struct reading *reading, size_t bytes)
{
    void *taken = arena_take(reading->arena, bytes);

    check(taken != NULL); /* a template is small enough */
    return taken;
}

static struct token *token_add(struct reading *reading, enum token_kind kind, uint32_t line, const char *text, size_t count)
{
    if (reading->tokens_count == reading->tokens_capacity) {
        reading->tokens_capacity = reading->tokens_capacity == 0 ? 256 : reading->tokens_capacity * 2;
        reading->tokens = realloc(reading->tokens, reading->tokens_capacity * sizeof(*reading->tokens));
        check(reading->tokens != NULL);
    }
    reading->tokens[reading->tokens_count] = (struct token){.kind = kind, .line = line, .text = {text, (uint32_t)count}};
    return &reading->tokens[reading->tokens_count++];
}

struct source {
    struct reading *reading;
    const char *text;
    size_t count;
    size_t at;
    uint32_t line;
    bool line_starts; /* the last tag took the newline behind it */
};

static void skip_to(struct source *source, size_t at)
{
    for (; source->at < at; source->at++)
        source->line += source->text[source->at] == '\n';
}

static bool here_is(const struct source *source, size_t at, const char *text)
{
    size_t count = strlen(text);

    return source->count - at >= count && memcmp(source->text + at, text, count) == 0;
}

static size_t spaces_end(const struct source *source, size_t at)
{
    while (at < source->count) {
        struct utf8 here = utf8_at(source->text + at, source->count - at);

        if (!code_is_space(here.code))
            break;
        at += here.bytes;
    }
    return at;
}

static size_t spaces_start(const struct source *source, size_t from, size_t at)
{
    while (at > from) {
        struct utf8 before = utf8_before(source->text + from, at - from);

        if (!code_is_space(before.code))
            break;
        at -= before.bytes;
    }
    return at;
}

/* --- inside of tags --- */

static bool is_name_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static void read_number(struct source *source)
{
    size_t from = source->at, at = from;
    bool is_float = false;
    char text[48];
    size_t used = 0;
    struct token *token;

    while (at < source->count && (is_digit(source->text[at]) || source->text[at] == '_'))
        at++;
    if (at + 1 < source->count && source->text[at] == '.' && is_digit(source->text[at + 1])) {
        is_float = true;
        for (at++; at < source->count && is_digit(source->text[at]);)
            at++;
    }
    if (at < source->count && (source->text[at] == 'e' || source->text[at] == 'E')) {
        size_t power = at + 1;

        power += power < source->count && (source->text[power] == '-' || source->text[power] == '+');
        if (power < source->count && is_digit(source->text[power])) {
            is_float = true;
            for (at = power; at < source->count && is_digit(source->text[at]);)
                at++;
        }
    }
    for (size_t i = from; i < at && used < sizeof(text) - 1; i++) {
        if (source->text[i] != '_')
            text[used++] = source->text[i];
    }
    text[used] = '\0';
    if (used > (is_float ? 40 : 18)) {
        reading_fail(source->reading, source->line, "a number is too long");
        return;
    }
    token = token_add(source->reading, is_float ? TOKEN_FLOAT : TOKEN_INT, source->line, source->text + from, at - from);
    if (is_float)
        token->number = strtod(text, NULL);
    else
        token->integer = strtoll(text, NULL, 10);
    source->at = at;
}

/* After "\x" or "\u"; false: not so many digits. */
static bool read_hex(const struct source *source, size_t at, unsigned digits, uint32_t *ret_code)
{
    uint32_t code = 0;

    for (unsigned i = 0; i < digits; i++) {
        char c = at + i < source->count ? source->text[at + i] : 'x';
        unsigned digit = is_digit(c) ? (unsigned)(c - '0') : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10)
                         : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A' + 10) : 16;

        if (digit == 16)
            return false;
        code = code * 16 + digit;
    }
    *ret_code = code;
    return (code < 0xd800 || code > 0xdfff) && code <= 0x10ffff;
}

/* An escape at `at`, where '\\' is; the bytes that it takes, 0: a bad one. */
static size_t read_escape(const struct source *source, size_t at, char *out, size_t *used)
{
    static const char letters[] = "nrtbfav0\\'\"", meanings[] = "\n\r\t\b\f\a\v\0\\'\"";
    char c = source->text[at + 1];
    unsigned digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    const char *letter = memchr(letters, c, sizeof(letters) - 1);
    uint32_t code;

    if (digits > 0) {
        if (!read_hex(source, at + 2, digits, &code))
            return 0;
        *used += utf8_write(code, out + *used);
        return 2 + digits;
    }
    if (letter != NULL) {
        out[(*used)++] = meanings[letter - letters];
        return 2;
    }
    if (c == '\n')
        return 2;
    out[(*used)++] = '\\'; /* what Python does not know it leaves */
    return 1;
}

static void read_string(struct source *source)
{
    char quote = source->text[source->at];
    size_t at = source->at + 1;
    uint32_t line = source->line;
    char *out;
    size_t used = 0;
    size_t end = at;

    while (end < source->count && source->text[end] != quote)
        end += source->text[end] == '\\' ? 2 : 1;
    if (end >= source->count) {
        reading_fail(source->reading, line, "a string has no end");
        return;
    }
    out = reading_take(source->reading, end - at + 1);
    while (at < end) {
        size_t taken;

        if (source->text[at] != '\\') {
            out[used++] = source->text[at++];
            continue;
        }
        taken = read_escape(source, at, out, &used);
        if (taken == 0) {
            reading_fail(source->reading, line, "a string has a bad escape");
            return;
        }
        at += taken;
    }
    token_add(source->reading, TOKEN_STRING, line, out, used);
    skip_to(source, end + 1);
}

static void read_operator(struct source *source)
{
    static const char *const two[] = {"==", "!=", ">=", "<=", "//", "**"};
    static const char one[] = "+-*/%~=<>.,:|()[]{}";
    char c = source->text[source->at];
    size_t count = 0;
    char shown[EXCERPT_MAX];

    for (size_t i = 0; i < ARRAY_COUNT(two); i++)
        count = here_is(source, source->at, two[i]) ? 2 : count;
    if (count == 0 && c != '\0' && strchr(one, c) != NULL)
        count = 1;
    if (count == 0) {
        struct utf8 here = utf8_at(source->text + source->at, source->count - source->at);

        reading_fail(source->reading, source->line, "'%s' is unknown here", excerpt(source->text + source->at, here.bytes, shown));
        return;
    }
    token_add(source->reading, TOKEN_OPERATOR, source->line, source->text + source->at, count);
    source->at += count;
}

/* The end of a tag, with its sign; 0: here is none. */
static size_t tag_end(const struct source *source, const char *close, char *ret_sign)
{
    size_t at = source->at;

    *ret_sign = source->text[at] == '-' || source->text[at] == '+' ? source->text[at] : '\0';
    if (*ret_sign != '\0')
        at++;
    return here_is(source, at, close) ? at + strlen(close) : 0;
}

/* What follows a tag: all white space, one newline, or nothing goes. */
static void after_tag(struct source *source, size_t end, char sign, bool trims)
{
    skip_to(source, end);
    if (sign == '-')
        skip_to(source, spaces_end(source, end));
    else if (trims && sign != '+' && end < source->count && source->text[end] == '\n')
        skip_to(source, end + 1);
    source->line_starts = source->at > 0 && source->text[source->at - 1] == '\n';
}

static void read_tag(struct source *source, bool is_block)
{
    struct reading *reading = source->reading;
    uint32_t begun = source->line;
    unsigned braces = 0;

    token_add(reading, is_block ? TOKEN_BLOCK_BEGIN : TOKEN_PRINT_BEGIN, source->line, source->text + source->at, 2);
    source->at += 2;
    if (source->at < source->count && (source->text[source->at] == '-' || source->text[source->at] == '+'))
        source->at++;
    while (!reading->failed) {
        char c, sign;
        size_t end;

        skip_to(source, spaces_end(source, source->at));
        if (source->at >= source->count) {
            reading_fail(reading, begun, "a tag has no end");
            return;
        }
        c = source->text[source->at];
        end = braces == 0 ? tag_end(source, is_block ? "%}" : "}}", &sign) : 0;
        if (end > 0) {
            token_add(reading, is_block ? TOKEN_BLOCK_END : TOKEN_PRINT_END, source->line, source->text + source->at, 0);
            after_tag(source, end, sign, is_block);
            return;
        }
        if (is_name_byte(c)) {
            size_t at = source->at;

            while (at < source->count && (is_name_byte(source->text[at]) || is_digit(source->text[at])))
                at++;
            token_add(reading, TOKEN_NAME, source->line, source->text + source->at, at - source->at);
            source->at = at;
        } else if (is_digit(c)) {
            read_number(source);
        } else if (c == '\'' || c == '"') {
            read_string(source);
        } else {
            read_operator(source);
            braces += c == '{' || c == '[' || c == '(';
            braces -= braces > 0 && (c == '}' || c == ']' || c == ')');
        }
    }
}

/* --- between tags --- */

/* Data up to the tag at `tag`; the tag's own sign decides what of its end goes. */
static void add_data(struct source *source, size_t tag, bool is_print)
{
    size_t from = source->at, end = tag;
    char sign = tag + 2 < source->count ? source->text[tag + 2] : '\0';

    if (tag < source->count && sign == '-') {
        end = spaces_start(source, from, end);
    } else if (tag < source->count && sign != '+' && !is_print) {
        size_t line = end;

        while (line > from && source->text[line - 1] != '\n')
            line--;
        if ((line > from || source->line_starts || from == 0) && spaces_start(source, line, end) == line)
            end = line;
    }
    if (end > from)
        token_add(source->reading, TOKEN_DATA, source->line, source->text + from, end - from);
    skip_to(source, tag);
}

static void read_comment(struct source *source)
{
    size_t at = source->at + 2;
    char sign;

    while (at < source->count && !here_is(source, at, "#}"))
        at++;
    if (at >= source->count) {
        reading_fail(source->reading, source->line, "a comment has no end");
        return;
    }
    sign = at > source->at + 2 && (source->text[at - 1] == '-' || source->text[at - 1] == '+') ? source->text[at - 1] : '\0';
    after_tag(source, at + 2, sign, true);
}

/* At "{%": whether it reads {% NAME %}, and where it ends. */
static size_t bare_block_end(const struct source *source, size_t at, const char *name, char *ret_sign)
{
    struct source copy = *source;

    at += 2;
    if (at < source->count && (source->text[at] == '-' || source->text[at] == '+'))
        at++;
    at = spaces_end(source, at);
    if (!here_is(source, at, name))
        return 0;
    copy.at = spaces_end(source, at + strlen(name));
    return copy.at < source->count ? tag_end(&copy, "%}", ret_sign) : 0;
}

static bool read_raw(struct source *source)
{
    char sign;
    size_t end = bare_block_end(source, source->at, "raw", &sign);

    if (end == 0)
        return false;
    after_tag(source, end, sign, true);
    for (size_t at = source->at; at < source->count; at++) {
        if (!here_is(source, at, "{%"))
            continue;
        end = bare_block_end(source, at, "endraw", &sign);
        if (end == 0)
            continue;
        add_data(source, at, false);
        after_tag(source, end, sign, true);
        return true;
    }
    reading_fail(source->reading, source->line, "{%% raw %%} has no end");
    return true;
}

bool lexer_read(struct reading *reading, const char *text, size_t count)
{
    struct source source = {.reading = reading, .text = text, .count = count, .line = 1};

    while (!reading->failed && source.at < count) {
        size_t tag = source.at;

        while (tag < count && !(here_is(&source, tag, "{{") || here_is(&source, tag, "{%") || here_is(&source, tag, "{#")))
            tag++;
        add_data(&source, tag, tag + 1 < count && text[tag + 1] == '{');
        if (tag >= count)
            break;
        if (text[tag + 1] == '#')
            read_comment(&source);
        else if (text[tag + 1] == '{' || !read_raw(&source))
            read_tag(&source, text[tag + 1] == '%');
    }
    token_add(reading, TOKEN_END, source.line, "", 0);
    return !reading->failed;
}
