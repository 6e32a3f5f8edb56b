/* Methods of strings and dicts, as Python's. Letters change case one by one; of those that become several only the sharp s does. */
#include <utf8proc.h>

#include "engine/chat/inside.h"
#include "engine/tokenizer/utf8.h"

/* --- case --- */

static bool is_letter(uint32_t code)
{
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)code);

    return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

enum letter_case { CASE_UPPER, CASE_LOWER, CASE_TITLE, CASE_WORDS, CASE_CAPITALIZE };

static struct value change_case(struct run *run, struct string string, enum letter_case how)
{
    struct builder builder = {.run = run};
    bool inside = false; /* of a word */

    for (size_t at = 0; at < string.count && !run->failed && run_step(run, 1);) {
        struct utf8 here = utf8_at(string.bytes + at, string.count - at);
        utf8proc_int32_t code = (utf8proc_int32_t)here.code;
        bool raises = how == CASE_UPPER || ((how == CASE_TITLE || how == CASE_WORDS) && !inside) || (how == CASE_CAPITALIZE && at == 0);
        char bytes[4];
        uint32_t count = utf8_write((uint32_t)(raises ? how == CASE_UPPER ? utf8proc_toupper(code) : utf8proc_totitle(code)
                                                      : utf8proc_tolower(code)),
                                    bytes);
        const char *changed = raises && code == 0xdf ? how == CASE_UPPER ? "SS" : "Ss" : bytes;

        builder_add(&builder, (struct string){.bytes = changed, .count = changed == bytes ? count : 2,
                                              .mark = string.marks != NULL ? string.marks[at] : string.mark});
        inside = how == CASE_WORDS ? !code_is_space(here.code) && (here.code > 0x7f || strchr("-({[<", (int)here.code) == NULL)
                                   : is_letter(here.code);
        at += here.bytes;
    }
    return value_string(builder_string(&builder));
}

#define CASE(name, how)                                                                               \
    struct value string_##name(struct run *run, struct value self, const struct arguments *arguments) \
    {                                                                                                 \
        (void)arguments;                                                                              \
        return change_case(run, self.string, how);                                                    \
    }
CASE(upper, CASE_UPPER)
CASE(lower, CASE_LOWER)
CASE(title, CASE_TITLE)
CASE(capitalize, CASE_CAPITALIZE)
CASE(words, CASE_WORDS)

/* --- ends --- */

static struct value strip(struct run *run, struct value self, const struct arguments *arguments, unsigned sides)
{
    const struct value *characters = argument(arguments, 0, "chars");

    if (characters != NULL && characters->kind != VALUE_NONE && characters->kind != VALUE_STRING) {
        run_fail(run, "what is stripped must be a string, not %s", value_kind_text(*characters));
        return value_none();
    }
    if (characters != NULL && characters->kind == VALUE_STRING)
        return run_step(run, self.string.count / 16 * (1 + characters->string.count / 16))
                   ? value_string(string_strip(self.string, &characters->string, sides)) : value_none();
    return value_string(string_strip(self.string, NULL, sides));
}

static struct value string_both(struct run *run, struct value self, const struct arguments *arguments)
{
    return strip(run, self, arguments, 3);
}

static struct value string_left(struct run *run, struct value self, const struct arguments *arguments)
{
    return strip(run, self, arguments, 1);
}

static struct value string_right(struct run *run, struct value self, const struct arguments *arguments)
{
    return strip(run, self, arguments, 2);
}

static bool has_end(struct string string, struct string part, bool at_start)
{
    return part.count <= string.count &&
           string_equal(string_part(string, at_start ? 0 : string.count - part.count, part.count), part);
}

/* One string, or any of a list. */
static struct value check_end(struct run *run, struct value self, const struct arguments *arguments, bool at_start)
{
    const struct value *ends = argument(arguments, 0, "prefix");

    if (ends != NULL && ends->kind == VALUE_STRING)
        return value_bool(has_end(self.string, ends->string, at_start));
    for (uint32_t i = 0; ends != NULL && ends->kind == VALUE_LIST && i < ends->list->count; i++) {
        if (ends->list->items[i].kind == VALUE_STRING && has_end(self.string, ends->list->items[i].string, at_start))
            return value_bool(true);
    }
    if (ends == NULL || ends->kind != VALUE_LIST)
        run_fail(run, "an end of a string must be a string, not %s", ends != NULL ? value_kind_text(*ends) : "left out");
    return value_bool(false);
}

static struct value string_startswith(struct run *run, struct value self, const struct arguments *arguments)
{
    return check_end(run, self, arguments, true);
}

static struct value string_endswith(struct run *run, struct value self, const struct arguments *arguments)
{
    return check_end(run, self, arguments, false);
}

static struct value remove_end(struct run *run, struct value self, const struct arguments *arguments, bool at_start)
{
    struct string end;

    if (!argument_string(run, arguments, 0, "prefix", &end))
        return value_none();
    if (!has_end(self.string, end, at_start))
        return self;
    return value_string(string_part(self.string, at_start ? end.count : 0, self.string.count - end.count));
}

static struct value string_removeprefix(struct run *run, struct value self, const struct arguments *arguments)
{
    return remove_end(run, self, arguments, true);
}

static struct value string_removesuffix(struct run *run, struct value self, const struct arguments *arguments)
{
    return remove_end(run, self, arguments, false);
}

/* --- parts --- */

struct parts {
    struct run *run;
    struct value list;
    uint32_t capacity;
};

static bool parts_add(struct parts *parts, struct string part)
{
    struct list *list = parts->list.list;

    if (parts->run->failed || !run_step(parts->run, 1))
        return false;
    if (list->count == parts->capacity) {
        struct value *items = run_take(parts->run, ((size_t)parts->capacity * 2 + 8) * sizeof(*items));

        if (items == NULL)
            return false;
        memcpy(items, list->items, list->count * sizeof(*items));
        list->items = items;
        parts->capacity = parts->capacity * 2 + 8;
    }
    list->items[list->count++] = value_string(part);
    return true;
}

static void split_at_spaces(struct parts *parts, struct string string, int64_t max)
{
    string = string_strip(string, NULL, 1);
    while (string.count > 0 && !parts->run->failed) {
        size_t at = 0;

        while (at < string.count) {
            struct utf8 here = utf8_at(string.bytes + at, string.count - at);

            if (code_is_space(here.code))
                break;
            at += here.bytes;
        }
        if (max == 0)
            at = string.count;
        max -= max > 0;
        parts_add(parts, string_part(string, 0, at));
        string = string_strip(string_part(string, at, string.count - at), NULL, 1);
    }
}

static struct value string_split(struct run *run, struct value self, const struct arguments *arguments)
{
    const struct value *separator = argument(arguments, 0, "sep");
    struct parts parts = {run, value_list(run, 0), 0};
    size_t from = 0, found;
    int64_t max;

    if (run->failed || !argument_int(run, arguments, 1, "maxsplit", -1, &max))
        return value_none();
    if (separator == NULL || separator->kind == VALUE_NONE) {
        if (run_step(run, self.string.count / 16))
            split_at_spaces(&parts, self.string, max);
        return parts.list;
    }
    if (separator->kind != VALUE_STRING || separator->string.count == 0) {
        run_fail(run, "a string is split at a string that is not empty");
        return value_none();
    }
    while (max != 0 && (found = string_find(run, self.string, separator->string, from)) != SIZE_MAX) {
        parts_add(&parts, string_part(self.string, from, found - from));
        from = found + separator->string.count;
        max -= max > 0;
    }
    parts_add(&parts, string_part(self.string, from, self.string.count - from));
    return parts.list;
}

static struct value string_splitlines(struct run *run, struct value self, const struct arguments *arguments)
{
    struct parts parts = {run, value_list(run, 0), 0};
    size_t from = 0;

    (void)arguments;
    while (!run->failed && from < self.string.count) {
        const char *end = memchr(self.string.bytes + from, '\n', self.string.count - from);
        size_t to = end != NULL ? (size_t)(end - self.string.bytes) : self.string.count;

        parts_add(&parts, string_part(self.string, from, to - from));
        from = to + 1;
    }
    return parts.list;
}

struct value string_replace(struct run *run, struct value self, const struct arguments *arguments)
{
    struct builder builder = {.run = run};
    struct string old, new;
    size_t from = 0, found;
    int64_t max;

    if (!argument_string(run, arguments, 0, "old", &old) || !argument_string(run, arguments, 1, "new", &new) ||
        !argument_int(run, arguments, 2, "count", -1, &max))
        return value_none();
    if (old.count == 0) {
        run_fail(run, "the empty string cannot be replaced here");
        return value_none();
    }
    while (max != 0 && run_step(run, 1) && (found = string_find(run, self.string, old, from)) != SIZE_MAX) {
        builder_add(&builder, string_part(self.string, from, found - from));
        builder_add(&builder, new);
        from = found + old.count;
        max -= max > 0;
    }
    builder_add(&builder, string_part(self.string, from, self.string.count - from));
    return value_string(builder_string(&builder));
}

static struct value string_find_at(struct run *run, struct value self, const struct arguments *arguments)
{
    struct string part;
    size_t found;

    if (!argument_string(run, arguments, 0, "sub", &part))
        return value_none();
    found = string_find(run, self.string, part, 0);
    return value_int(found == SIZE_MAX ? -1 : (int64_t)string_length(string_part(self.string, 0, found)));
}

static struct value string_count(struct run *run, struct value self, const struct arguments *arguments)
{
    struct string part;
    size_t from = 0;
    int64_t count = 0;

    if (!argument_string(run, arguments, 0, "sub", &part))
        return value_none();
    if (part.count == 0)
        return value_int((int64_t)string_length(self.string) + 1);
    while ((from = string_find(run, self.string, part, from)) != SIZE_MAX && run_step(run, 1)) {
        from += part.count;
        count++;
    }
    return value_int(count);
}

static bool all_are(struct string string, bool (*is)(uint32_t code))
{
    for (size_t at = 0; at < string.count;) {
        struct utf8 here = utf8_at(string.bytes + at, string.count - at);

        if (!is(here.code))
            return false;
        at += here.bytes;
    }
    return string.count > 0;
}

static bool is_digit(uint32_t code)
{
    return utf8proc_category((utf8proc_int32_t)code) == UTF8PROC_CATEGORY_ND;
}

#define ALL(name, is)                                                                                        \
    static struct value string_is##name(struct run *run, struct value self, const struct arguments *arguments) \
    {                                                                                                        \
        (void)arguments;                                                                                     \
        return value_bool(run_step(run, self.string.count / 16) && all_are(self.string, is));                \
    }
ALL(space, code_is_space)
ALL(digit, is_digit)
ALL(alpha, is_letter)

/* self between the items of the list */
struct value string_join_list(struct run *run, struct value self, const struct arguments *arguments)
{
    const struct value *of = argument(arguments, 0, "iterable");
    const struct list *items = of != NULL ? value_items(run, *of) : NULL;
    struct builder builder = {.run = run};

    if (items == NULL)
        run_fail(run, "there is nothing to join");
    for (uint32_t i = 0; !run->failed && i < items->count; i++) {
        if (i > 0)
            builder_add(&builder, self.string);
        if (items->items[i].kind != VALUE_STRING)
            run_fail(run, "only strings can be joined, not %s", value_kind_text(items->items[i]));
        else
            builder_add(&builder, items->items[i].string);
    }
    return value_string(builder_string(&builder));
}

static const struct function string_methods[] = {
    {"startswith", 1, string_startswith},     {"endswith", 1, string_endswith}, {"strip", 1, string_both},
    {"lstrip", 1, string_left},               {"rstrip", 1, string_right},      {"split", 2, string_split},
    {"splitlines", 0, string_splitlines},     {"replace", 3, string_replace},   {"upper", 0, string_upper},
    {"lower", 0, string_lower},               {"title", 0, string_title},       {"capitalize", 0, string_capitalize},
    {"find", 1, string_find_at},              {"count", 1, string_count},       {"join", 1, string_join_list},
    {"removeprefix", 1, string_removeprefix}, {"isspace", 0, string_isspace},   {"isdigit", 0, string_isdigit},
    {"removesuffix", 1, string_removesuffix}, {"isalpha", 0, string_isalpha},
};

/* --- dicts --- */

static struct value dict_list(struct run *run, const struct dict *dict, bool keys, bool values)
{
    struct value list = value_list(run, dict->count);

    for (uint32_t i = 0; !run->failed && i < dict->count && run_step(run, 1); i++) {
        struct value key = value_string(dict->pairs[i].key);

        list.list->items[i] = !values ? key : !keys ? dict->pairs[i].value : value_pair(run, key, dict->pairs[i].value);
    }
    return run->failed ? value_none() : list;
}

static struct value dict_items(struct run *run, struct value self, const struct arguments *arguments)
{
    (void)arguments;
    return dict_list(run, self.dict, true, true);
}

static struct value dict_keys(struct run *run, struct value self, const struct arguments *arguments)
{
    (void)arguments;
    return dict_list(run, self.dict, true, false);
}

static struct value dict_values(struct run *run, struct value self, const struct arguments *arguments)
{
    (void)arguments;
    return dict_list(run, self.dict, false, true);
}

static struct value dict_get(struct run *run, struct value self, const struct arguments *arguments)
{
    const struct value *fallback = argument(arguments, 1, "default");
    const struct value *found;
    struct string key;

    if (!argument_string(run, arguments, 0, "key", &key))
        return value_none();
    found = dict_find(run, self.dict, key);
    return found != NULL ? *found : fallback != NULL ? *fallback : value_none();
}

static const struct function dict_methods[] = {
    {"items", 0, dict_items}, {"keys", 0, dict_keys}, {"values", 0, dict_values}, {"get", 2, dict_get}};

const struct function *method_find(enum value_kind kind, struct word name)
{
    const struct function *table = kind == VALUE_STRING ? string_methods : dict_methods;
    size_t count = kind == VALUE_STRING ? ARRAY_COUNT(string_methods) : kind == VALUE_DICT ? ARRAY_COUNT(dict_methods) : 0;

    for (size_t i = 0; i < count; i++) {
        if (word_is(name, table[i].name))
            return &table[i];
    }
    return NULL;
}
