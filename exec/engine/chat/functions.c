/* Functions and tests that templates may call, and how arguments are looked up. */
#include <stdio.h>
#include <time.h>

#include "engine/chat/inside.h"
#include "host/words.h"

/* --- arguments --- */

const struct value *argument(const struct arguments *arguments, uint32_t place, const char *name)
{
    uint32_t by_place = arguments->count - arguments->named_count;

    if (place < by_place)
        return &arguments->values[place];
    for (uint32_t i = by_place; i < arguments->count; i++) {
        if (word_is(arguments->names[i], name))
            return &arguments->values[i];
    }
    return NULL;
}

bool argument_string(struct run *run, const struct arguments *arguments, uint32_t place, const char *name, struct string *ret_string)
{
    const struct value *value = argument(arguments, place, name);

    if (value == NULL || value->kind != VALUE_STRING)
        return run_fail(run, "%s must be a string, not %s", name, value != NULL ? value_kind_text(*value) : "left out");
    *ret_string = value->string;
    return true;
}

bool argument_int(struct run *run, const struct arguments *arguments, uint32_t place, const char *name, int64_t fallback, int64_t *ret)
{
    const struct value *value = argument(arguments, place, name);

    *ret = fallback;
    if (value == NULL || value->kind == VALUE_NONE)
        return true;
    if (value->kind != VALUE_INT)
        return run_fail(run, "%s must be a whole number, not %s", name, value_kind_text(*value));
    *ret = value->integer;
    return true;
}

struct value function_run(struct run *run, const struct function *function, struct value self, const struct arguments *arguments)
{
    if (arguments->count > function->arguments_max) {
        run_fail(run, "%s takes at most %u arguments", function->name, function->arguments_max);
        return value_none();
    }
    return function->call(run, self, arguments);
}

/* --- functions --- */

static struct value call_raise_exception(struct run *run, struct value self, const struct arguments *arguments)
{
    struct string message = string_of("");
    char shown[EXCERPT_MAX];

    (void)self;
    if (argument_string(run, arguments, 0, "message", &message))
        run_fail(run, "the template refuses: %s", excerpt(message.bytes, message.count, shown));
    return value_none();
}

static struct value named_values(struct run *run, const struct arguments *arguments, enum value_kind kind)
{
    struct dict *dict = dict_make(run, arguments->count);

    if (dict == NULL)
        return value_none();
    if (arguments->named_count != arguments->count)
        run_fail(run, "only values by name are known here");
    for (uint32_t i = 0; i < arguments->count && !run->failed; i++)
        dict_set(run, dict, string_of_word(arguments->names[i]), arguments->values[i]);
    return (struct value){.kind = kind, .dict = dict};
}

static struct value call_namespace(struct run *run, struct value self, const struct arguments *arguments)
{
    (void)self;
    return named_values(run, arguments, VALUE_NAMESPACE);
}

static struct value call_dict(struct run *run, struct value self, const struct arguments *arguments)
{
    (void)self;
    return named_values(run, arguments, VALUE_DICT);
}

static struct value call_range(struct run *run, struct value self, const struct arguments *arguments)
{
    enum { RANGE_MAX = 100000 };
    int64_t bounds[3] = {0, 0, 1};
    struct value list;
    int64_t count;

    (void)self;
    for (uint32_t i = 0; i < 3; i++) {
        if (!argument_int(run, arguments, i, "a bound of range", bounds[i], &bounds[i]))
            return value_none();
        if (bounds[i] < -(INT64_C(1) << 40) || bounds[i] > INT64_C(1) << 40) {
            run_fail(run, "a bound of range is too great");
            return value_none();
        }
    }
    if (arguments->count == 1) {
        bounds[1] = bounds[0];
        bounds[0] = 0;
    }
    if (bounds[2] == 0 || arguments->count == 0) {
        run_fail(run, "range needs a bound, and a step that is not 0");
        return value_none();
    }
    count = bounds[2] > 0 ? (bounds[1] - bounds[0] + bounds[2] - 1) / bounds[2] : (bounds[0] - bounds[1] - bounds[2] - 1) / -bounds[2];
    if (count > RANGE_MAX) {
        run_fail(run, "a range of more than %d", RANGE_MAX);
        return value_none();
    }
    list = value_list(run, (uint32_t)max_i64(count, 0));
    for (int64_t i = 0; !run->failed && i < count; i++)
        list.list->items[i] = value_int(bounds[0] + i * bounds[2]);
    return list;
}

static struct value call_strftime_now(struct run *run, struct value self, const struct arguments *arguments)
{
    struct string format;
    struct builder builder = {.run = run};
    char pattern[128], text[512] = "";
    time_t now = (time_t)run->now_s;
    struct tm parts;

    (void)self;
    if (!argument_string(run, arguments, 0, "format", &format))
        return value_none();
    if (format.count >= sizeof(pattern) || gmtime_r(&now, &parts) == NULL) {
        run_fail(run, "this date cannot be written");
        return value_none();
    }
    memcpy(pattern, format.bytes, format.count);
    pattern[format.count] = '\0';
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    if (strftime(text, sizeof(text), pattern, &parts) == 0)
        text[0] = '\0';
#pragma GCC diagnostic pop
    builder_add_text(&builder, text);
    return value_string(builder_string(&builder));
}

static const struct function functions[] = {
    {"raise_exception", 1, call_raise_exception}, {"namespace", ARGUMENTS_MAX, call_namespace}, {"dict", ARGUMENTS_MAX, call_dict},
    {"range", 3, call_range},                     {"strftime_now", 1, call_strftime_now},
};

static const struct function *find_in(const struct function *table, size_t count, struct word name)
{
    for (size_t i = 0; i < count; i++) {
        if (word_is(name, table[i].name))
            return &table[i];
    }
    return NULL;
}

const struct function *function_find(struct word name)
{
    return find_in(functions, ARRAY_COUNT(functions), name);
}

/* --- tests --- */

#define TEST(name, condition)                                                                              \
    static struct value test_##name(struct run *run, struct value self, const struct arguments *arguments) \
    {                                                                                                      \
        (void)run;                                                                                         \
        (void)arguments;                                                                                   \
        return value_bool(condition);                                                                      \
    }
TEST(defined, self.kind != VALUE_UNDEFINED)
TEST(undefined, self.kind == VALUE_UNDEFINED)
TEST(none, self.kind == VALUE_NONE)
TEST(string, self.kind == VALUE_STRING)
TEST(number, self.kind == VALUE_INT || self.kind == VALUE_FLOAT || self.kind == VALUE_BOOL)
TEST(integer, self.kind == VALUE_INT)
TEST(float, self.kind == VALUE_FLOAT)
TEST(boolean, self.kind == VALUE_BOOL)
TEST(mapping, self.kind == VALUE_DICT)
TEST(sequence, self.kind == VALUE_LIST || self.kind == VALUE_STRING || self.kind == VALUE_DICT)
TEST(iterable, self.kind == VALUE_LIST || self.kind == VALUE_STRING || self.kind == VALUE_DICT || self.kind == VALUE_UNDEFINED)
TEST(callable, self.kind == VALUE_FUNCTION || self.kind == VALUE_METHOD || self.kind == VALUE_MACRO)
TEST(true, self.kind == VALUE_BOOL && self.truth)
TEST(false, self.kind == VALUE_BOOL && !self.truth)
TEST(odd, self.kind == VALUE_INT && self.integer % 2 != 0)
TEST(even, self.kind == VALUE_INT && self.integer % 2 == 0)

static bool needed(struct run *run, const struct arguments *arguments)
{
    return arguments->count > 0 || run_fail(run, "a test lacks its argument");
}

static struct value test_divisibleby(struct run *run, struct value self, const struct arguments *arguments)
{
    int64_t by;

    if (!needed(run, arguments) || !argument_int(run, arguments, 0, "num", 1, &by))
        return value_none();
    if (self.kind != VALUE_INT || by == 0 || by == -1)
        return value_bool(self.kind == VALUE_INT && by == -1);
    return value_bool(self.integer % by == 0);
}

static struct value test_in(struct run *run, struct value self, const struct arguments *arguments)
{
    return value_bool(needed(run, arguments) && value_contains(run, arguments->values[0], self));
}

static struct value test_eq(struct run *run, struct value self, const struct arguments *arguments)
{
    return value_bool(needed(run, arguments) && value_equal(run, self, arguments->values[0], 0));
}

static struct value test_ne(struct run *run, struct value self, const struct arguments *arguments)
{
    return value_bool(needed(run, arguments) && !value_equal(run, self, arguments->values[0], 0));
}

static int ordered(struct run *run, struct value self, const struct arguments *arguments)
{
    int order = 0;

    if (needed(run, arguments))
        value_order(run, self, arguments->values[0], &order);
    return order;
}

static struct value test_lt(struct run *run, struct value self, const struct arguments *arguments)
{
    return value_bool(ordered(run, self, arguments) < 0);
}

static struct value test_gt(struct run *run, struct value self, const struct arguments *arguments)
{
    return value_bool(ordered(run, self, arguments) > 0);
}

static const struct function tests[] = {
    {"defined", 0, test_defined},   {"undefined", 0, test_undefined}, {"none", 0, test_none},         {"string", 0, test_string},
    {"number", 0, test_number},     {"integer", 0, test_integer},     {"float", 0, test_float},       {"boolean", 0, test_boolean},
    {"mapping", 0, test_mapping},   {"sequence", 0, test_sequence},   {"iterable", 0, test_iterable}, {"callable", 0, test_callable},
    {"true", 0, test_true},         {"false", 0, test_false},         {"odd", 0, test_odd},           {"even", 0, test_even},
    {"in", 1, test_in},             {"eq", 1, test_eq},               {"equalto", 1, test_eq},        {"sameas", 1, test_eq},
    {"ne", 1, test_ne},             {"lt", 1, test_lt},               {"gt", 1, test_gt},             {"divisibleby", 1, test_divisibleby},
};

const struct function *test_find(struct word name)
{
    return find_in(tests, ARRAY_COUNT(tests), name);
}
