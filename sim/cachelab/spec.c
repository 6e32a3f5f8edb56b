#include "cachelab/spec.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "host/words.h"

static const struct evict_policy *const policies[] = {
#define X(name) &evict_##name,
    EVICT_POLICIES(X) EVICT_BOUNDS(X)
#undef X
};
static const struct admit_policy *const admissions[] = {
#define X(name) &admit_##name,
    ADMIT_POLICIES(X)
#undef X
};

__attribute__((format(printf, 2, 3)))
static enum status refuse(char *ret_message, const char *what, ...)
{
    va_list arguments;

    va_start(arguments, what);
    vsnprintf(ret_message, SPEC_MESSAGE_MAX, what, arguments);
    va_end(arguments);
    return STATUS_INVALID;
}

/* --- names and parameters --- */

/* `name` or `name:key=value:key=value`, which ends at `end`. */
struct words {
    const char *at;
    const char *end;
};

static struct words words_until(struct words *rest, char separator)
{
    const char *stop = memchr(rest->at, separator, (size_t)(rest->end - rest->at));
    const struct words word = {rest->at, stop == NULL ? rest->end : stop};

    rest->at = stop == NULL ? rest->end : stop + 1;
    return word;
}

static bool word_is(struct words word, const char *name)
{
    return strlen(name) == (size_t)(word.end - word.at) && memcmp(word.at, name, strlen(name)) == 0;
}

static const char *shown(struct words word, char *ret_excerpt)
{
    return excerpt(word.at, (size_t)(word.end - word.at), ret_excerpt);
}

static enum status key_take(const char *owner, struct words part, const struct evict_key *keys, uint32_t count, double *parameters, bool *given,
                            char *ret_message)
{
    struct words value = part;
    const struct words name = words_until(&value, '=');
    char text[64], shown_name[EXCERPT_MAX], shown_value[EXCERPT_MAX], least[NUMBER_TEXT_MAX], most[NUMBER_TEXT_MAX];
    char *end;
    uint32_t i = 0;

    while (i < count && !word_is(name, keys[i].name))
        i++;
    if (i == count)
        return refuse(ret_message, "%s has no parameter '%s'", owner, shown(name, shown_name));
    if (given[i])
        return refuse(ret_message, "%s is given %s twice", owner, keys[i].name);
    snprintf(text, sizeof(text), "%.*s", (int)(value.end - value.at), value.at);
    parameters[i] = strtod(text, &end);
    given[i] = true;
    if (value.at == value.end || *end != 0 || isspace((unsigned char)text[0]) || value.end - value.at >= (ptrdiff_t)sizeof(text) ||
        !(parameters[i] >= keys[i].min && parameters[i] <= keys[i].max))
        return refuse(ret_message, "%s:%s is '%s'; it is a number from %s to %s", owner, keys[i].name, shown(value, shown_value),
                      number_text(keys[i].min, least), number_text(keys[i].max, most));
    return STATUS_OK;
}

static void keys_list(const struct evict_key *keys, uint32_t count, char *ret_list, size_t bytes)
{
    char value[NUMBER_TEXT_MAX];
    size_t used = 0;

    snprintf(ret_list, bytes, "; it has none");
    for (uint32_t i = 0; i < count && used < bytes; i++)
        used += (size_t)snprintf(ret_list + used, bytes - used, "%s%s=%s", i == 0 ? "; it has " : ", ", keys[i].name,
                                 number_text(keys[i].value, value));
}

/* The parameters behind the name; those that aren't given have their defaults. */
static enum status keys_take(const char *owner, struct words rest, const struct evict_key *keys, uint32_t count, double *parameters, char *ret_message)
{
    bool given[EVICT_PARAMETERS_MAX] = {false};

    for (uint32_t i = 0; i < count; i++)
        parameters[i] = keys[i].value;
    while (rest.at < rest.end)
        if (key_take(owner, words_until(&rest, ':'), keys, count, parameters, given, ret_message) != STATUS_OK) {
            const size_t used = strlen(ret_message);

            keys_list(keys, count, ret_message + used, SPEC_MESSAGE_MAX - used);
            return STATUS_INVALID;
        }
    return STATUS_OK;
}

static enum status unknown(struct words name, const struct suggestion *suggestion, const char *what, char *ret_message)
{
    const char *near = suggestion_answer(suggestion);
    char text[EXCERPT_MAX];

    if (near != NULL)
        return refuse(ret_message, "no %s is called '%s'; did you mean %s?", what, shown(name, text), near);
    return refuse(ret_message, "no %s is called '%s'; berth-sim policies lists them", what, shown(name, text));
}

static enum status text_keep(const char *text, size_t length, char ret_text[LAB_TEXT_MAX], char *ret_message)
{
    char shown_text[EXCERPT_MAX];

    if (length == 0)
        return refuse(ret_message, "an item of the list is empty");
    if (length >= LAB_TEXT_MAX)
        return refuse(ret_message, "'%s' is longer than %d letters", excerpt(text, length, shown_text), LAB_TEXT_MAX - 1);
    memcpy(ret_text, text, length);
    ret_text[length] = 0;
    return STATUS_OK;
}

enum status spec_policy(const char *text, size_t length, struct lab_policy *ret_policy, char *ret_message)
{
    struct words rest = {text, text + length};
    const struct words name = words_until(&rest, ':');
    struct suggestion suggestion;

    *ret_policy = (struct lab_policy){.evict = NULL};
    if (text_keep(text, length, ret_policy->text, ret_message) != STATUS_OK)
        return STATUS_INVALID;
    suggestion_begin(&suggestion, name.at, (size_t)(name.end - name.at));
    for (size_t i = 0; i < ARRAY_COUNT(policies); i++) {
        suggest(&suggestion, policies[i]->name, strlen(policies[i]->name));
        if (word_is(name, policies[i]->name))
            ret_policy->evict = policies[i];
    }
    suggest(&suggestion, "pfoo", strlen("pfoo"));
    if (word_is(name, "pfoo"))
        return keys_take("pfoo", rest, NULL, 0, ret_policy->parameters, ret_message);
    if (ret_policy->evict == NULL)
        return unknown(name, &suggestion, "policy", ret_message);
    return keys_take(ret_policy->evict->name, rest, ret_policy->evict->keys, ret_policy->evict->keys_count, ret_policy->parameters, ret_message);
}

enum status spec_admission(const char *text, size_t length, struct lab_admission *ret_admission, char *ret_message)
{
    struct words rest = {text, text + length};
    const struct words name = words_until(&rest, ':');
    struct suggestion suggestion;

    *ret_admission = (struct lab_admission){.admit = NULL};
    if (text_keep(text, length, ret_admission->text, ret_message) != STATUS_OK)
        return STATUS_INVALID;
    suggestion_begin(&suggestion, name.at, (size_t)(name.end - name.at));
    for (size_t i = 0; i < ARRAY_COUNT(admissions); i++) {
        suggest(&suggestion, admissions[i]->name, strlen(admissions[i]->name));
        if (word_is(name, admissions[i]->name))
            ret_admission->admit = admissions[i];
    }
    if (ret_admission->admit == NULL)
        return unknown(name, &suggestion, "admission", ret_message);
    return keys_take(ret_admission->admit->name, rest, ret_admission->admit->keys, ret_admission->admit->keys_count, ret_admission->parameters, ret_message);
}

/* --- sizes --- */

static const struct unit {
    const char *name;
    enum lab_unit unit;
    bool share;
    unsigned shift;
} units[] = {
    {"obj", LAB_OBJECTS, false, 0}, {"%", LAB_BYTES, true, 0},    {"%obj", LAB_OBJECTS, true, 0}, {"B", LAB_BYTES, false, 0},
    {"KiB", LAB_BYTES, false, 10},  {"MiB", LAB_BYTES, false, 20}, {"GiB", LAB_BYTES, false, 30},  {"TiB", LAB_BYTES, false, 40},
};

#define SIZE_FORMS "write 250obj, 512MiB (B, KiB, MiB, GiB, TiB), 1% of the working set's bytes, or 1%obj of its objects"
#define MILLIONTHS_MAX UINT64_C(100000000) /* 100% */
#define FRACTION_DIGITS 6

/* Digits, and after a point at most FRACTION_DIGITS of them, as millionths; NULL: no such number. */
static const char *millionths_read(const char *at, const char *end, uint64_t *ret_millionths, bool *ret_whole)
{
    uint64_t value = 0;
    int fraction = -1;

    if (at == end || !isdigit((unsigned char)*at))
        return NULL;
    for (; at < end && (isdigit((unsigned char)*at) || (*at == '.' && fraction < 0)); at++) {
        if (*at == '.') {
            fraction = 0;
            continue;
        }
        if (value > (LAB_CAPACITY_MAX - (uint64_t)(*at - '0')) / 10 || fraction == FRACTION_DIGITS)
            return NULL;
        value = value * 10 + (uint64_t)(*at - '0');
        fraction += fraction >= 0;
    }
    if (fraction == 0)
        return NULL;
    *ret_whole = fraction < 0;
    for (; *ret_whole == false && fraction < FRACTION_DIGITS; fraction++) {
        if (value > LAB_CAPACITY_MAX / 10)
            return NULL;
        value *= 10;
    }
    *ret_millionths = value;
    return at;
}

enum status spec_size(const char *text, size_t length, struct lab_size *ret_size, char *ret_message)
{
    const char *end = text + length;
    const struct unit *unit = NULL;
    char shown_text[EXCERPT_MAX];
    const char *behind;
    uint64_t value;
    bool whole;

    *ret_size = (struct lab_size){.capacity = 0};
    if (text_keep(text, length, ret_size->text, ret_message) != STATUS_OK)
        return STATUS_INVALID;
    excerpt(text, length, shown_text);
    behind = millionths_read(text, end, &value, &whole);
    for (size_t i = 0; behind != NULL && i < ARRAY_COUNT(units); i++)
        if (word_is((struct words){behind, end}, units[i].name))
            unit = &units[i];
    if (unit == NULL)
        return refuse(ret_message, "'%s' is no size; %s", shown_text, SIZE_FORMS);
    ret_size->unit = unit->unit;
    ret_size->share = unit->share;
    if (!unit->share && !whole)
        return refuse(ret_message, "'%s' is not a whole number; take a smaller unit", shown_text);
    if (unit->share) {
        if (value > (whole ? MILLIONTHS_MAX / 1000000 : MILLIONTHS_MAX))
            return refuse(ret_message, "'%s' is more than all of the working set", shown_text);
        ret_size->millionths = whole ? value * 1000000 : value;
        return STATUS_OK;
    }
    if (value > LAB_CAPACITY_MAX >> unit->shift || (unit->unit == LAB_OBJECTS && value > UINT32_MAX / 2))
        return refuse(ret_message, "'%s' is too large: at most 2^63 - 1 bytes, or 2^31 - 1 objects", shown_text);
    ret_size->capacity = value << unit->shift;
    return STATUS_OK;
}

enum status spec_share(struct lab_size *size, uint64_t objects, uint128 bytes, char *ret_message)
{
    const uint128 whole = size->unit == LAB_OBJECTS ? objects : bytes;
    const uint128 capacity = whole / MILLIONTHS_MAX * size->millionths + whole % MILLIONTHS_MAX * size->millionths / MILLIONTHS_MAX;

    if (capacity > LAB_CAPACITY_MAX)
        return refuse(ret_message, "'%s' of the working set is 2^63 bytes or more; name a size in bytes", size->text);
    size->capacity = (uint64_t)capacity;
    return STATUS_OK;
}
