/* Filters: value|name(arguments). */
#include <math.h>
#include <stdlib.h>

#include "engine/chat/inside.h"
#include "engine/tokenizer/utf8.h"
#include "host/words.h"

/* Text filters take whatever prints. */
#define TEXT_FILTER(name, does)                                                                              \
    static struct value filter_##name(struct run *run, struct value self, const struct arguments *arguments) \
    {                                                                                                        \
        return does(run, value_string(value_text(run, self)), arguments);                                    \
    }
TEXT_FILTER(upper, string_upper)
TEXT_FILTER(lower, string_lower)
TEXT_FILTER(title, string_words)
TEXT_FILTER(capitalize, string_capitalize)
TEXT_FILTER(replace, string_replace)

static struct value filter_trim(struct run *run, struct value self, const struct arguments *arguments)
{
    const struct value *characters = argument(arguments, 0, "chars");
    struct string text = value_text(run, self);

    if (characters != NULL && characters->kind == VALUE_STRING)
        return run_step(run, text.count / 16 * (1 + characters->string.count / 16))
                   ? value_string(string_strip(text, &characters->string, 3)) : value_none();
    return value_string(string_strip(text, NULL, 3));
}

static struct value filter_string(struct run *run, struct value self, const struct arguments *arguments)
{
    (void)arguments;
    return value_string(value_text(run, self));
}

static bool is_given(const struct value *value)
{
    return value != NULL && value->kind != VALUE_NONE && !(value->kind == VALUE_BOOL && !value->truth);
}

static struct value filter_tojson(struct run *run, struct value self, const struct arguments *arguments)
{
    struct builder builder = {.run = run};
    int64_t indent;

    if (is_given(argument(arguments, 0, "ensure_ascii")) || is_given(argument(arguments, 2, "separators")) ||
        is_given(argument(arguments, 3, "sort_keys"))) {
        run_fail(run, "tojson knows only indent here");
        return value_none();
    }
    if (!argument_int(run, arguments, 1, "indent", -1, &indent))
        return value_none();
    json_write(&builder, self, (int)max_i64(-1, min_i64(indent, 16)), 0);
    return value_string(builder_string(&builder));
}

static struct value filter_length(struct run *run, struct value self, const struct arguments *arguments)
{
    (void)arguments;
    switch (self.kind) {
    case VALUE_STRING: return run_step(run, self.string.count / 64) ? value_int((int64_t)string_length(self.string)) : value_none();
    case VALUE_LIST: return value_int(self.list->count);
    case VALUE_DICT: return value_int(self.dict->count);
    case VALUE_UNDEFINED: return value_int(0);
    default: run_fail(run, "%s has no length", value_kind_text(self)); return value_none();
    }
}

static struct value filter_default(struct run *run, struct value self, const struct arguments *arguments)
{
    const struct value *fallback = argument(arguments, 0, "default_value");
    const struct value *falsy = argument(arguments, 1, "boolean");

    (void)run;
    if (self.kind == VALUE_UNDEFINED || (falsy != NULL && value_truth(*falsy) && !value_truth(self)))
        return fallback != NULL ? *fallback : value_string(string_of(""));
    return self;
}

static struct value filter_list(struct run *run, struct value self, const struct arguments *arguments)
{
    const struct list *items = value_items(run, self);
    struct value list;

    (void)arguments;
    if (items == NULL)
        return value_none();
    list = value_list(run, items->count);
    if (run->failed)
        return value_none();
    memcpy(list.list->items, items->items, items->count * sizeof(*items->items));
    return list;
}

static struct value end_of(struct run *run, struct value self, bool first)
{
    const struct list *items = value_items(run, self);

    if (items == NULL || items->count == 0)
        return value_undefined((struct word){"item", 4});
    return items->items[first ? 0 : items->count - 1];
}

static struct value filter_first(struct run *run, struct value self, const struct arguments *arguments)
{
    (void)arguments;
    return end_of(run, self, true);
}

static struct value filter_last(struct run *run, struct value self, const struct arguments *arguments)
{
    (void)arguments;
    return end_of(run, self, false);
}

static struct value filter_reverse(struct run *run, struct value self, const struct arguments *arguments)
{
    struct value list = filter_list(run, self, arguments);
    struct builder builder = {.run = run};

    for (uint32_t i = 0; !run->failed && i < list.list->count / 2; i++) {
        struct value swap = list.list->items[i];

        list.list->items[i] = list.list->items[list.list->count - 1 - i];
        list.list->items[list.list->count - 1 - i] = swap;
    }
    if (run->failed || self.kind != VALUE_STRING)
        return list;
    for (uint32_t i = 0; i < list.list->count; i++)
        builder_add(&builder, list.list->items[i].string);
    return value_string(builder_string(&builder));
}

static struct value filter_int(struct run *run, struct value self, const struct arguments *arguments)
{
    int64_t fallback;
    char text[32], *end;
    long long whole;

    if (!argument_int(run, arguments, 0, "default", 0, &fallback))
        return value_none();
    if (self.kind == VALUE_INT || self.kind == VALUE_BOOL)
        return value_int(self.kind == VALUE_INT ? self.integer : self.truth);
    if (self.kind == VALUE_FLOAT)
        return fabs(self.number) < 9e18 ? value_int((int64_t)self.number) : value_int(fallback);
    if (self.kind != VALUE_STRING || self.string.count == 0 || self.string.count > 18)
        return value_int(fallback);
    memcpy(text, self.string.bytes, self.string.count);
    text[self.string.count] = '\0';
    whole = strtoll(text, &end, 10);
    return value_int(*end == '\0' && strlen(text) == self.string.count ? whole : fallback);
}

static struct value filter_float(struct run *run, struct value self, const struct arguments *arguments)
{
    struct value result = {.kind = VALUE_FLOAT, .number = 0};
    char text[48], *end;

    (void)run;
    (void)arguments;
    if (self.kind == VALUE_INT || self.kind == VALUE_BOOL)
        result.number = self.kind == VALUE_INT ? (double)self.integer : (double)self.truth;
    else if (self.kind == VALUE_FLOAT)
        result.number = self.number;
    if (self.kind != VALUE_STRING || self.string.count >= sizeof(text))
        return result;
    memcpy(text, self.string.bytes, self.string.count);
    text[self.string.count] = '\0';
    result.number = strtod(text, &end);
    if (*end != '\0')
        result.number = 0;
    return result;
}

static struct value filter_abs(struct run *run, struct value self, const struct arguments *arguments)
{
    (void)arguments;
    if (self.kind == VALUE_FLOAT)
        return (struct value){.kind = VALUE_FLOAT, .number = fabs(self.number)};
    if (self.kind != VALUE_INT || self.integer == INT64_MIN) {
        run_fail(run, "abs of %s", value_kind_text(self));
        return value_none();
    }
    return value_int(self.integer < 0 ? -self.integer : self.integer);
}

static struct value filter_items(struct run *run, struct value self, const struct arguments *arguments)
{
    if (self.kind == VALUE_UNDEFINED)
        return value_list(run, 0);
    if (self.kind != VALUE_DICT) {
        run_fail(run, "%s has no items", value_kind_text(self));
        return value_none();
    }
    return function_run(run, method_find(VALUE_DICT, (struct word){"items", 5}), self, arguments);
}

/* By key, as they are spelled in lower case; merging halves keeps equals in their order. */
static void sort_pairs(struct run *run, struct value *pairs, struct value *room, uint32_t count)
{
    for (uint32_t width = 1; width < count && !run->failed; width *= 2) {
        for (uint32_t low = 0; low < count; low += 2 * width) {
            uint32_t middle = min_u32(low + width, count), high = min_u32(low + 2 * width, count);
            uint32_t left = low, right = middle;

            for (uint32_t to = low; to < high && run_step(run, 1); to++) {
                bool takes_left = left < middle && (right >= high || string_compare(pairs[left].list->items[2].string,
                                                                                    pairs[right].list->items[2].string) <= 0);

                room[to] = takes_left ? pairs[left++] : pairs[right++];
            }
        }
        if (!run->failed)
            memcpy(pairs, room, count * sizeof(*pairs));
    }
}

static struct value filter_dictsort(struct run *run, struct value self, const struct arguments *arguments)
{
    struct value pairs = filter_items(run, self, arguments);
    struct value room = run->failed ? value_none() : value_list(run, pairs.list->count);
    static const struct arguments none;

    for (uint32_t i = 0; !run->failed && i < pairs.list->count; i++) {
        struct value wide = value_list(run, 3); /* key, value, what it is sorted by */

        if (run->failed)
            break;
        memcpy(wide.list->items, pairs.list->items[i].list->items, 2 * sizeof(struct value));
        wide.list->items[2] = string_lower(run, wide.list->items[0], &none);
        pairs.list->items[i] = wide;
    }
    if (!run->failed)
        sort_pairs(run, pairs.list->items, room.list->items, pairs.list->count);
    for (uint32_t i = 0; !run->failed && i < pairs.list->count; i++) {
        pairs.list->items[i].list->count = 2;
        pairs.list->items[i].list->is_tuple = true;
    }
    return run->failed ? value_none() : pairs;
}

static struct value filter_unique(struct run *run, struct value self, const struct arguments *arguments)
{
    struct value list = filter_list(run, self, arguments);
    uint32_t kept = 0;

    for (uint32_t i = 0; !run->failed && i < list.list->count; i++) {
        bool known = false;

        for (uint32_t j = 0; j < kept && !known; j++)
            known = value_equal(run, list.list->items[j], list.list->items[i], 0);
        if (!known)
            list.list->items[kept++] = list.list->items[i];
    }
    if (!run->failed)
        list.list->count = kept;
    return list;
}

/* --- of lists --- */

/* a.b.c of an item */
static struct value attribute_path(struct run *run, struct value value, struct string path)
{
    while (!run->failed) {
        const char *dot = path.count > 0 ? memchr(path.bytes, '.', path.count) : NULL;
        size_t count = dot != NULL ? (size_t)(dot - path.bytes) : path.count;

        value = value_item(run, value, value_string(string_part(path, 0, count)));
        if (dot == NULL || value.kind == VALUE_UNDEFINED)
            break;
        path = string_part(path, count + 1, path.count - count - 1);
    }
    return value;
}

static struct value filter_join(struct run *run, struct value self, const struct arguments *arguments)
{
    const struct value *separator = argument(arguments, 0, "d");
    const struct value *attribute = argument(arguments, 1, "attribute");
    const struct list *items = value_items(run, self);
    struct builder builder = {.run = run};

    for (uint32_t i = 0; items != NULL && i < items->count && !run->failed; i++) {
        struct value item = items->items[i];

        if (i > 0 && separator != NULL)
            builder_add(&builder, value_text(run, *separator));
        if (attribute != NULL && attribute->kind == VALUE_STRING)
            item = attribute_path(run, item, attribute->string);
        builder_add(&builder, value_text(run, item));
    }
    return value_string(builder_string(&builder));
}

/* The arguments behind the first `skipped`. */
static void arguments_behind(const struct arguments *arguments, uint32_t skipped, struct arguments *ret_rest)
{
    memset(ret_rest, 0, sizeof(*ret_rest));
    for (uint32_t i = skipped; i < arguments->count - arguments->named_count; i++)
        ret_rest->values[ret_rest->count++] = arguments->values[i];
}

/* What select() and map() walk: nothing at all where there is nothing. */
static const struct list *items_if_any(struct run *run, struct value self)
{
    static const struct list nothing;

    return value_truth(self) ? value_items(run, self) : &nothing;
}

/* Keeps the items whose test, of an attribute when `by_attribute`, comes out as `wanted`. */
static struct value choose(struct run *run, struct value self, const struct arguments *arguments, bool by_attribute, bool wanted)
{
    const struct list *items = items_if_any(run, self);
    uint32_t place = by_attribute ? 1 : 0;
    const struct value *name = argument(arguments, place, "test");
    const struct function *test = NULL;
    struct arguments rest;
    struct string path = string_of("");
    struct value list;
    uint32_t kept = 0;

    if (items == NULL || (by_attribute && !argument_string(run, arguments, 0, "attribute", &path)))
        return value_none();
    if (name != NULL) {
        test = name->kind == VALUE_STRING ? test_find((struct word){name->string.bytes, name->string.count}) : NULL;
        if (test == NULL) {
            run_fail(run, "such a test is unknown here");
            return value_none();
        }
    }
    arguments_behind(arguments, place + 1, &rest);
    list = value_list(run, items->count);
    for (uint32_t i = 0; i < items->count && !run->failed && run_step(run, 1); i++) {
        struct value value = by_attribute ? attribute_path(run, items->items[i], path) : items->items[i];

        if (test != NULL && !run->failed)
            value = function_run(run, test, value, &rest);
        if (!run->failed && value_truth(value) == wanted)
            list.list->items[kept++] = items->items[i];
    }
    if (run->failed)
        return value_none();
    list.list->count = kept;
    return list;
}

static struct value filter_select(struct run *run, struct value self, const struct arguments *arguments)
{
    return choose(run, self, arguments, false, true);
}

static struct value filter_reject(struct run *run, struct value self, const struct arguments *arguments)
{
    return choose(run, self, arguments, false, false);
}

static struct value filter_selectattr(struct run *run, struct value self, const struct arguments *arguments)
{
    return choose(run, self, arguments, true, true);
}

static struct value filter_rejectattr(struct run *run, struct value self, const struct arguments *arguments)
{
    return choose(run, self, arguments, true, false);
}

/* map(attribute='a'), map('filter', arguments) */
static struct value filter_map(struct run *run, struct value self, const struct arguments *arguments)
{
    const struct list *items = items_if_any(run, self);
    const struct value *attribute = argument(arguments, ARGUMENTS_MAX, "attribute");
    const struct value *fallback = argument(arguments, ARGUMENTS_MAX, "default");
    const struct function *filter = NULL;
    struct arguments rest;
    struct string name;
    struct value list;

    if (items == NULL)
        return value_none();
    if (attribute == NULL) {
        if (!argument_string(run, arguments, 0, "a filter", &name))
            return value_none();
        filter = filter_find((struct word){name.bytes, name.count});
    }
    if (attribute != NULL ? attribute->kind != VALUE_STRING : filter == NULL || filter->call == filter_map) {
        run_fail(run, "such a map is unknown here");
        return value_none();
    }
    arguments_behind(arguments, 1, &rest);
    list = value_list(run, items->count);
    for (uint32_t i = 0; i < items->count && !run->failed && run_step(run, 1); i++) {
        struct value mapped = attribute != NULL ? attribute_path(run, items->items[i], attribute->string)
                                                : function_run(run, filter, items->items[i], &rest);

        list.list->items[i] = mapped.kind == VALUE_UNDEFINED && fallback != NULL ? *fallback : mapped;
    }
    return run->failed ? value_none() : list;
}

static struct value filter_indent(struct run *run, struct value self, const struct arguments *arguments)
{
    const struct value *first = argument(arguments, 1, "first");
    const struct value *blank = argument(arguments, 2, "blank");
    struct string text = value_text(run, self);
    struct builder builder = {.run = run};
    size_t from = 0;
    int64_t width;

    if (!argument_int(run, arguments, 0, "width", 4, &width))
        return value_none();
    while (from <= text.count && !run->failed && run_step(run, 1)) {
        const char *end = from < text.count ? memchr(text.bytes + from, '\n', text.count - from) : NULL;
        size_t to = end != NULL ? (size_t)(end - text.bytes) + 1 : text.count;
        bool is_blank = to - from == (end != NULL ? 1u : 0u);
        bool indents = from == 0 ? first != NULL && value_truth(*first)
                                 : !is_blank || (blank != NULL && value_truth(*blank));

        for (int64_t i = 0; indents && i < width && !run->failed; i++)
            builder_add_text(&builder, " ");
        builder_add(&builder, string_part(text, from, to - from));
        from = end != NULL ? to : text.count + 1;
    }
    return value_string(builder_string(&builder));
}

static const struct function filters[] = {
    {"trim", 1, filter_trim},             {"tojson", 4, filter_tojson},         {"length", 0, filter_length},
    {"count", 0, filter_length},          {"default", 2, filter_default},       {"d", 2, filter_default},
    {"upper", 0, filter_upper},           {"lower", 0, filter_lower},           {"title", 0, filter_title},
    {"capitalize", 0, filter_capitalize}, {"replace", 3, filter_replace},       {"string", 0, filter_string},
    {"safe", 0, filter_string},           {"list", 0, filter_list},             {"first", 0, filter_first},
    {"last", 0, filter_last},             {"reverse", 0, filter_reverse},       {"int", 1, filter_int},
    {"float", 0, filter_float},           {"abs", 0, filter_abs},               {"items", 0, filter_items},
    {"dictsort", 0, filter_dictsort},     {"unique", 0, filter_unique},         {"join", 2, filter_join},
    {"select", ARGUMENTS_MAX, filter_select},         {"reject", ARGUMENTS_MAX, filter_reject},
    {"selectattr", ARGUMENTS_MAX, filter_selectattr}, {"rejectattr", ARGUMENTS_MAX, filter_rejectattr},
    {"map", ARGUMENTS_MAX, filter_map},               {"indent", 3, filter_indent},
};

const struct function *filter_find(struct word name)
{
    for (size_t i = 0; i < ARRAY_COUNT(filters); i++) {
        if (word_is(name, filters[i].name))
            return &filters[i];
    }
    return NULL;
}
