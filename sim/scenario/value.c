/* Text into fields: the one setter of all keys. Numbers are read in full and exactly, or refused with what is wanted. */
#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "policy/policy.h"
#include "scenario/table.h"
#include "host/words.h"

static const char *const wants[] = {
#define X(kind, text) [KEY_##kind] = text,
    KEY_KINDS(X)
#undef X
};

__attribute__((format(printf, 2, 3))) static bool refuse(char *ret_why, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(ret_why, WHY_MAX, format, arguments);
    va_end(arguments);
    return false;
}

/* A decimal number: [+-] digits [. digits] [e [+-] digits]. Returns the bytes it takes, 0 when it is none. */
static size_t number_span(const char *text, size_t count)
{
    size_t at = 0;
    size_t digits = 0;

    at += at < count && (text[at] == '+' || text[at] == '-');
    for (; at < count && text[at] >= '0' && text[at] <= '9'; at++)
        digits++;
    if (at < count && text[at] == '.') {
        for (at++; at < count && text[at] >= '0' && text[at] <= '9'; at++)
            digits++;
    }
    if (digits == 0)
        return 0;
    if (at < count && (text[at] == 'e' || text[at] == 'E')) {
        size_t exponent_at = at + 1;

        exponent_at += exponent_at < count && (text[exponent_at] == '+' || text[exponent_at] == '-');
        if (exponent_at < count && text[exponent_at] >= '0' && text[exponent_at] <= '9') {
            for (at = exponent_at; at < count && text[at] >= '0' && text[at] <= '9'; at++)
                ;
        }
    }
    return at;
}

/* The whole number that a span of number_span() is, without rounding; false when it is none or beyond 64 bits. */
static bool whole_of(const char *text, size_t count, uint64_t *ret_whole)
{
    uint64_t value = 0;
    int64_t exponent = 0;
    bool negative = text[0] == '-';
    bool in_fraction = false;
    size_t at = text[0] == '+' || text[0] == '-';
    uint32_t zeros = 0; /* digits 0 seen and not yet multiplied in: 1.50 is 15 and exponent -1 */
    int64_t scale = 0;

    for (; at < count && text[at] != 'e' && text[at] != 'E'; at++) {
        if (text[at] == '.') {
            in_fraction = true;
            continue;
        }
        scale -= in_fraction;
        if (text[at] == '0') {
            zeros += value > 0;
            continue;
        }
        for (; zeros > 0; zeros--) {
            if (value > UINT64_MAX / 10)
                return false;
            value *= 10;
        }
        if (value > (UINT64_MAX - (uint64_t)(text[at] - '0')) / 10)
            return false;
        value = value * 10 + (uint64_t)(text[at] - '0');
    }
    if (at < count) {
        exponent = strtol(text + at + 1, NULL, 10);
        exponent = max_i64(-1000, min_i64(1000, exponent));
    }
    if (value == 0) {
        *ret_whole = 0;
        return true;
    }
    if (negative)
        return false;
    exponent += scale + zeros;
    if (exponent < 0 || exponent > 20)
        return false;
    for (; exponent > 0; exponent--) {
        if (value > UINT64_MAX / 10)
            return false;
        value *= 10;
    }
    *ret_whole = value;
    return true;
}

/* What follows a number looks like a unit: letters, as of GB or s, but not of 0x10 or 1e. */
static bool has_unit(const char *text, size_t count)
{
    if (*text == ' ' || *text == '%')
        return true;
    return *text != 'x' && *text != 'X' && *text != 'e' && *text != 'E' && isalpha((unsigned char)text[count - 1]) &&
           isalpha((unsigned char)*text);
}

bool number_read(const char *text, size_t count, bool wants_whole, double *ret_value, uint64_t *ret_whole, char *ret_why)
{
    const char *wanted = wants[wants_whole ? KEY_COUNT : KEY_REAL];
    char shown[EXCERPT_MAX];
    char number[128];
    size_t span = number_span(text, count);

    if (count == 0)
        return refuse(ret_why, "has no value; it must be %s", wanted);
    excerpt(text, count, shown);
    if (span == 0)
        return refuse(ret_why, "must be %s, not `%s`", wanted, shown);
    if (span < count && has_unit(text + span, count - span))
        return refuse(ret_why, "must be %s alone, not `%s`: the unit is the last word of the key's name", wanted, shown);
    if (span < count || count >= sizeof(number))
        return refuse(ret_why, "must be %s, not `%s`", wanted, shown);
    memcpy(number, text, count);
    number[count] = '\0';
    *ret_value = strtod(number, NULL);
    if (!isfinite(*ret_value))
        return refuse(ret_why, "must be %s, and `%s` is beyond all of them", wanted, shown);
    if (wants_whole && *ret_value >= 0 && *ret_value <= 1.8e19 && !whole_of(number, count, ret_whole))
        return refuse(ret_why, "must be %s, not `%s`", wanted, shown);
    return true;
}

static bool in_range(const struct key *key, double value, char *ret_why)
{
    char texts[3][NUMBER_TEXT_MAX];

    if (value >= key->min && value <= key->max)
        return true;
    return refuse(ret_why, "must be from %s to %s, not %s", number_text(key->min, texts[0]),
                  number_text(key->max, texts[1]), number_text(value, texts[2]));
}

static bool set_text(const struct key *key, void *field, const char *text, size_t count, char *ret_why)
{
    char *target = field;

    (void)key;
    if (count >= KEY_TEXT_MAX)
        return refuse(ret_why, "must be shorter than %d bytes; it has %zu", KEY_TEXT_MAX, count);
    if (memchr(text, '\0', count) != NULL)
        return refuse(ret_why, "holds a zero byte");
    memset(target, 0, KEY_TEXT_MAX);
    memcpy(target, text, count);
    return true;
}

static bool set_count(const struct key *key, void *field, const char *text, size_t count, char *ret_why)
{
    double value;
    uint64_t whole = 0;

    if (!number_read(text, count, true, &value, &whole, ret_why) || !in_range(key, value, ret_why))
        return false;
    *(uint64_t *)field = whole;
    return true;
}

static bool set_real(const struct key *key, void *field, const char *text, size_t count, char *ret_why)
{
    double value;
    uint64_t unused;

    if (!number_read(text, count, false, &value, &unused, ret_why) || !in_range(key, value, ret_why))
        return false;
    *(double *)field = value;
    return true;
}

static bool set_flag(const struct key *key, void *field, const char *text, size_t count, char *ret_why)
{
    bool is_true = count == 4 && memcmp(text, "true", 4) == 0;
    bool is_false = count == 5 && memcmp(text, "false", 5) == 0;
    char shown[EXCERPT_MAX];

    (void)key;
    if (!is_true && !is_false)
        return refuse(ret_why, "must be true or false, not `%s`", excerpt(text, count, shown));
    *(bool *)field = is_true;
    return true;
}

/* "must be one of a, b, c, not `x`; did you mean `a`?" of names already joined. */
static bool refuse_name(const char *what, const char *names, const struct suggestion *suggestion, const char *text,
                        size_t count, char *ret_why)
{
    const char *near = suggestion_answer(suggestion);
    char shown[EXCERPT_MAX];

    excerpt(text, count, shown);
    if (near != NULL)
        return refuse(ret_why, "must be %s of %s, not `%s`; did you mean `%s`?", what, names, shown, near);
    return refuse(ret_why, "must be %s of %s, not `%s`", what, names, shown);
}

static void join_name(char *names, size_t names_bytes, const char *name, size_t count)
{
    size_t used = strlen(names);

    snprintf(names + used, names_bytes - used, "%s%.*s", used > 0 ? ", " : "", (int)count, name);
}

static bool set_choice(const struct key *key, void *field, const char *text, size_t count, char *ret_why)
{
    struct suggestion suggestion;
    char names[256] = "";
    const char *name;
    size_t name_count;

    suggestion_begin(&suggestion, text, count);
    for (uint32_t i = 0; choice_at(key->choices, i, &name, &name_count); i++) {
        if (name_count == count && memcmp(name, text, count) == 0) {
            *(uint32_t *)field = i;
            return true;
        }
        suggest(&suggestion, name, name_count);
        join_name(names, sizeof(names), name, name_count);
    }
    return refuse_name("one", names, &suggestion, text, count, ret_why);
}

static bool set_policy(const struct key *key, void *field, const char *text, size_t count, char *ret_why,
                       const char *question, bool found)
{
    struct suggestion suggestion;
    char what[32];
    char names[256] = "";
    struct policy_line line;

    if (found)
        return set_text(key, field, text, count, ret_why);
    suggestion_begin(&suggestion, text, count);
    for (size_t i = 0; policy_line_at(i, &line); i++) {
        if (strcmp(line.question, question) != 0)
            continue;
        suggest(&suggestion, line.name, strlen(line.name));
        join_name(names, sizeof(names), line.name, strlen(line.name));
    }
    snprintf(what, sizeof(what), "a%s %s policy: one", strchr("aeiou", question[0]) != NULL ? "n" : "", question);
    return refuse_name(what, names, &suggestion, text, count, ret_why);
}

/* The text with an end, for the registries; longer ones are no policy's name. */
static const char *terminated(const char *text, size_t count, char *ret_name)
{
    if (count >= EXCERPT_MAX)
        count = 0;
    memcpy(ret_name, text, count);
    ret_name[count] = '\0';
    return ret_name;
}

#define POLICY_SETTER(question)                                                                                          \
    static bool set_##question(const struct key *key, void *field, const char *text, size_t count, char *ret_why)        \
    {                                                                                                                    \
        char name[EXCERPT_MAX];                                                                                          \
        bool found = question##_policy_find(terminated(text, count, name)) != NULL;                                      \
                                                                                                                         \
        return set_policy(key, field, text, count, ret_why, #question, found);                                           \
    }
POLICY_SETTER(evict)
POLICY_SETTER(queue)
POLICY_SETTER(route)
POLICY_SETTER(order)
POLICY_SETTER(place)
POLICY_SETTER(scale)

bool key_list_add(const struct key *key, struct key_list *list, const char *text, size_t count, char *ret_why)
{
    double value;
    uint64_t unused;

    if (!number_read(text, count, false, &value, &unused, ret_why) || !in_range(key, value, ret_why))
        return false;
    if (list->count == KEY_LIST_MAX)
        return refuse(ret_why, "must have at most %d values", KEY_LIST_MAX);
    list->values[list->count++] = value;
    return true;
}

/* "[8, 16]", "[]", or a single number. */
static bool set_list(const struct key *key, void *field, const char *text, size_t count, char *ret_why)
{
    struct key_list list = {0};
    size_t at = 0;
    size_t end = count;

    if (count >= 2 && text[0] == '[' && text[count - 1] == ']') {
        at = 1;
        end = count - 1;
        while (end > at && text[end - 1] == ' ')
            end--;
        if (at == end) {
            *(struct key_list *)field = list;
            return true;
        }
    }
    for (;;) {
        size_t comma = at;
        size_t until;

        while (at < end && text[at] == ' ')
            at++;
        for (comma = at; comma < end && text[comma] != ','; comma++)
            ;
        for (until = comma; until > at && text[until - 1] == ' '; until--)
            ;
        if (!key_list_add(key, &list, text + at, until - at, ret_why))
            return false;
        if (comma == end)
            break;
        at = comma + 1;
    }
    *(struct key_list *)field = list;
    return true;
}

bool key_set(const struct key *key, void *field, const char *text, size_t count, char *ret_why)
{
    static bool (*const setters[])(const struct key *, void *, const char *, size_t, char *) = {
        [KEY_TEXT] = set_text,     [KEY_COUNT] = set_count, [KEY_REAL] = set_real,
        [KEY_FLAG] = set_flag,     [KEY_CHOICE] = set_choice, [KEY_LIST] = set_list,
        [KEY_EVICT] = set_evict,   [KEY_QUEUE] = set_queue, [KEY_ROUTE] = set_route,
        [KEY_ORDER] = set_order,   [KEY_PLACE] = set_place, [KEY_SCALE] = set_scale,
    };

    return setters[key->kind](key, field, text, count, ret_why);
}
