/* Values, as Python has them: what is true, equal, less, contained, printed. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/chat/inside.h"
#include "engine/tokenizer/utf8.h"
#include "host/words.h"

struct value value_undefined(struct word name) { return (struct value){.kind = VALUE_UNDEFINED, .missing = name}; }
struct value value_none(void) { return (struct value){.kind = VALUE_NONE}; }
struct value value_bool(bool truth) { return (struct value){.kind = VALUE_BOOL, .truth = truth}; }
struct value value_int(int64_t integer) { return (struct value){.kind = VALUE_INT, .integer = integer}; }
struct value value_string(struct string string) { return (struct value){.kind = VALUE_STRING, .string = string}; }

struct value value_list(struct run *run, uint32_t count)
{
    struct list *list = run_take(run, sizeof(*list));
    struct value *items = run_take(run, ((size_t)count + 1) * sizeof(*items));

    if (list == NULL || items == NULL)
        return value_none();
    *list = (struct list){.count = count, .items = items};
    return (struct value){.kind = VALUE_LIST, .list = list};
}

struct value value_pair(struct run *run, struct value first, struct value second)
{
    struct value pair = value_list(run, 2);

    if (run->failed)
        return value_none();
    pair.list->is_tuple = true;
    pair.list->items[0] = first;
    pair.list->items[1] = second;
    return pair;
}

const char *value_kind_text(struct value value)
{
    static const char *const texts[] = {
        [VALUE_UNDEFINED] = "undefined", [VALUE_NONE] = "none", [VALUE_BOOL] = "a boolean", [VALUE_INT] = "a number",
        [VALUE_FLOAT] = "a number", [VALUE_STRING] = "a string", [VALUE_LIST] = "a list", [VALUE_DICT] = "an object",
        [VALUE_NAMESPACE] = "a namespace", [VALUE_LOOP] = "a loop", [VALUE_FUNCTION] = "a function",
        [VALUE_METHOD] = "a method", [VALUE_MACRO] = "a macro"};

    return texts[value.kind];
}

bool value_truth(struct value value)
{
    switch (value.kind) {
    case VALUE_UNDEFINED:
    case VALUE_NONE: return false;
    case VALUE_BOOL: return value.truth;
    case VALUE_INT: return value.integer != 0;
    case VALUE_FLOAT: return value.number != 0;
    case VALUE_STRING: return value.string.count > 0;
    case VALUE_LIST: return value.list->count > 0;
    case VALUE_DICT: return value.dict->count > 0;
    default: return true;
    }
}

static bool is_number(struct value value)
{
    return value.kind == VALUE_BOOL || value.kind == VALUE_INT || value.kind == VALUE_FLOAT;
}

static double number_of(struct value value)
{
    return value.kind == VALUE_FLOAT ? value.number : value.kind == VALUE_INT ? (double)value.integer : (double)value.truth;
}

static int64_t whole_of(struct value value)
{
    return value.kind == VALUE_INT ? value.integer : (int64_t)value.truth;
}

static bool lists_equal(struct run *run, const struct list *left, const struct list *right, uint32_t depth)
{
    if (left->count != right->count || left->is_tuple != right->is_tuple)
        return false;
    for (uint32_t i = 0; i < left->count; i++) {
        if (!value_equal(run, left->items[i], right->items[i], depth + 1))
            return false;
    }
    return true;
}

static bool dicts_equal(struct run *run, const struct dict *left, const struct dict *right, uint32_t depth)
{
    if (left->count != right->count)
        return false;
    for (uint32_t i = 0; i < left->count; i++) {
        const struct value *other = dict_find(run, right, left->pairs[i].key);

        if (other == NULL || !value_equal(run, left->pairs[i].value, *other, depth + 1))
            return false;
    }
    return true;
}

bool value_equal(struct run *run, struct value left, struct value right, uint32_t depth)
{
    if (depth > CHAT_DEPTH_MAX)
        return run_fail(run, "a value nests too deep");
    if (!run_step(run, 1))
        return false;
    if (is_number(left) && is_number(right))
        return left.kind == VALUE_FLOAT || right.kind == VALUE_FLOAT ? number_of(left) == number_of(right)
                                                                     : whole_of(left) == whole_of(right);
    if (left.kind != right.kind)
        return false;
    switch (left.kind) {
    case VALUE_STRING: return run_step(run, left.string.count / 64) && string_equal(left.string, right.string);
    case VALUE_LIST: return lists_equal(run, left.list, right.list, depth);
    case VALUE_DICT: return dicts_equal(run, left.dict, right.dict, depth);
    case VALUE_UNDEFINED:
    case VALUE_NONE: return true;
    case VALUE_NAMESPACE: return left.dict == right.dict;
    case VALUE_LOOP: return left.loop == right.loop;
    case VALUE_FUNCTION: return left.function == right.function;
    case VALUE_METHOD: return left.method == right.method;
    case VALUE_MACRO: return left.macro == right.macro;
    default: return false;
    }
}

bool value_order(struct run *run, struct value left, struct value right, int *ret_order)
{
    if (left.kind == VALUE_STRING && right.kind == VALUE_STRING) {
        *ret_order = string_compare(left.string, right.string);
        return true;
    }
    if (!is_number(left) || !is_number(right))
        return run_fail(run, "%s and %s have no order", value_kind_text(left), value_kind_text(right));
    if (left.kind == VALUE_FLOAT || right.kind == VALUE_FLOAT)
        *ret_order = (number_of(left) > number_of(right)) - (number_of(left) < number_of(right));
    else
        *ret_order = (whole_of(left) > whole_of(right)) - (whole_of(left) < whole_of(right));
    return true;
}

bool value_contains(struct run *run, struct value whole, struct value part)
{
    switch (whole.kind) {
    case VALUE_STRING:
        if (part.kind != VALUE_STRING)
            return run_fail(run, "only a string can be in a string, not %s", value_kind_text(part));
        return string_find(run, whole.string, part.string, 0) != SIZE_MAX;
    case VALUE_LIST:
        for (uint32_t i = 0; i < whole.list->count; i++) {
            if (value_equal(run, whole.list->items[i], part, 0))
                return true;
        }
        return false;
    case VALUE_DICT:
        return part.kind == VALUE_STRING && dict_find(run, whole.dict, part.string) != NULL;
    case VALUE_UNDEFINED:
        return false;
    default:
        return run_fail(run, "nothing can be in %s", value_kind_text(whole));
    }
}

/* The shortest that reads back the same, as Python's repr(): exponents from 1e16 and below 1e-4. */
const char *number_repr(double number, char ret_text[40])
{
    int digits = 1;
    char plain[40];
    int exponent;

    if (isnan(number) || isinf(number))
        return isnan(number) ? "nan" : number > 0 ? "inf" : "-inf";
    do
        snprintf(plain, sizeof(plain), "%.*e", digits - 1, number);
    while (strtod(plain, NULL) != number && digits++ < 17);
    exponent = (int)strtol(strchr(plain, 'e') + 1, NULL, 10);
    if (exponent >= 16 || exponent < -4) {
        char *mark = strchr(plain, 'e');

        snprintf(ret_text, 40, "%.*se%s%02d", (int)(mark - plain), plain, exponent < 0 ? "-" : "+", abs(exponent));
    } else {
        snprintf(ret_text, 40, "%.*f", digits - 1 - exponent > 1 ? digits - 1 - exponent : 1, number);
    }
    return ret_text;
}

struct string value_text(struct run *run, struct value value)
{
    struct builder builder = {.run = run};
    char text[40];

    switch (value.kind) {
    case VALUE_STRING: return value.string;
    case VALUE_UNDEFINED: return string_of("");
    case VALUE_NONE: return string_of("None");
    case VALUE_BOOL: return string_of(value.truth ? "True" : "False");
    case VALUE_INT: snprintf(text, sizeof(text), "%lld", (long long)value.integer); break;
    case VALUE_FLOAT: builder_add_text(&builder, number_repr(value.number, text)); return builder_string(&builder);
    case VALUE_LIST:
    case VALUE_DICT: repr_write(&builder, value, 0); return builder_string(&builder);
    default: run_fail(run, "%s cannot be printed", value_kind_text(value)); return string_of("");
    }
    builder_add_text(&builder, text);
    return builder_string(&builder);
}

static const struct list *characters(struct run *run, struct string string)
{
    struct value list = value_list(run, (uint32_t)string_length(string));
    size_t at = 0;

    for (uint32_t i = 0; !run->failed && i < list.list->count; i++) {
        size_t bytes = utf8_at(string.bytes + at, string.count - at).bytes;

        list.list->items[i] = value_string(string_part(string, at, bytes));
        at += bytes;
    }
    return run->failed ? NULL : list.list;
}

const struct list *value_items(struct run *run, struct value value)
{
    static const struct list nothing;
    struct value list;

    switch (value.kind) {
    case VALUE_LIST: return value.list;
    case VALUE_STRING: return characters(run, value.string);
    case VALUE_UNDEFINED: return &nothing;
    case VALUE_DICT:
        list = value_list(run, value.dict->count);
        for (uint32_t i = 0; !run->failed && i < value.dict->count; i++)
            list.list->items[i] = value_string(value.dict->pairs[i].key);
        return run->failed ? NULL : list.list;
    default:
        run_fail(run, "%s cannot be walked", value_kind_text(value));
        return NULL;
    }
}

/* --- dicts --- */

struct dict *dict_make(struct run *run, uint32_t capacity)
{
    struct dict *dict = run_take(run, sizeof(*dict));

    if (dict == NULL)
        return NULL;
    dict->capacity = capacity;
    dict->pairs = run_take(run, ((size_t)capacity + 1) * sizeof(*dict->pairs));
    return dict->pairs != NULL ? dict : NULL;
}

static struct pair *pair_find(struct run *run, const struct dict *dict, struct string key)
{
    if (!run_step(run, dict->count / 8))
        return NULL;
    for (uint32_t i = 0; i < dict->count; i++) {
        if (string_equal(dict->pairs[i].key, key))
            return &dict->pairs[i];
    }
    return NULL;
}

const struct value *dict_find(struct run *run, const struct dict *dict, struct string key)
{
    const struct pair *pair = pair_find(run, dict, key);

    return pair != NULL ? &pair->value : NULL;
}

void dict_set(struct run *run, struct dict *dict, struct string key, struct value value)
{
    struct pair *pair = pair_find(run, dict, key);

    if (pair != NULL) {
        pair->value = value;
        return;
    }
    if (dict->count == dict->capacity) {
        struct pair *pairs = run_take(run, ((size_t)dict->capacity * 2 + 4) * sizeof(*pairs));

        if (pairs == NULL)
            return;
        memcpy(pairs, dict->pairs, dict->count * sizeof(*pairs));
        dict->pairs = pairs;
        dict->capacity = dict->capacity * 2 + 4;
    }
    dict->pairs[dict->count++] = (struct pair){key, value};
}
