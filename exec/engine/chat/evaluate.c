/* Expressions to values. Every node is a step, and nesting is counted, so that a template ends. */
#include <math.h>

#include "engine/chat/inside.h"
#include "engine/tokenizer/utf8.h"
#include "host/words.h"

static struct value undefined_used(struct run *run, struct value value)
{
    char shown[EXCERPT_MAX];

    run_fail(run, "'%s' is undefined", excerpt(value.missing.bytes, value.missing.count, shown));
    return value_none();
}

/* --- parts of a value --- */

static struct value loop_attribute(const struct loop *loop, struct word name)
{
    int64_t index = loop->index, count = loop->items->count;

    if (word_is(name, "index"))
        return value_int(index + 1);
    if (word_is(name, "index0"))
        return value_int(index);
    if (word_is(name, "revindex"))
        return value_int(count - index);
    if (word_is(name, "revindex0"))
        return value_int(count - index - 1);
    if (word_is(name, "first"))
        return value_bool(index == 0);
    if (word_is(name, "last"))
        return value_bool(index == count - 1);
    if (word_is(name, "length"))
        return value_int(count);
    if (word_is(name, "depth"))
        return value_int(loop->depth);
    if (word_is(name, "depth0"))
        return value_int((int64_t)loop->depth - 1);
    if (word_is(name, "previtem") && index > 0)
        return loop->items->items[index - 1];
    if (word_is(name, "nextitem") && index + 1 < count)
        return loop->items->items[index + 1];
    return value_undefined(name);
}

static struct value bound_method(struct run *run, struct value self, struct word name)
{
    const struct function *function = method_find(self.kind, name);
    struct method *method;

    if (function == NULL)
        return value_undefined(name);
    method = run_take(run, sizeof(*method));
    if (method == NULL)
        return value_none();
    *method = (struct method){function, self};
    return (struct value){.kind = VALUE_METHOD, .method = method};
}

/* value.name: a method goes before an item, as in Python. */
struct value value_attribute(struct run *run, struct value value, struct word name)
{
    struct value method;
    const struct value *item;

    if (value.kind == VALUE_UNDEFINED)
        return undefined_used(run, value);
    if (value.kind == VALUE_LOOP)
        return loop_attribute(value.loop, name);
    method = bound_method(run, value, name);
    if (method.kind != VALUE_UNDEFINED || (value.kind != VALUE_DICT && value.kind != VALUE_NAMESPACE))
        return method;
    item = dict_find(run, value.dict, string_of_word(name));
    return item != NULL ? *item : value_undefined(name);
}

static struct value character_at(struct string string, int64_t index)
{
    int64_t length = (int64_t)string_length(string);
    size_t at;

    index += index < 0 ? length : 0;
    if (index < 0 || index >= length)
        return value_undefined((struct word){"character", 9});
    at = string_offset(string, (size_t)index);
    return value_string(string_part(string, at, utf8_at(string.bytes + at, string.count - at).bytes));
}

/* value[key]: an item goes before a method. */
struct value value_item(struct run *run, struct value value, struct value key)
{
    const struct value *item;
    int64_t index = key.integer;

    if (value.kind == VALUE_UNDEFINED)
        return undefined_used(run, value);
    if (key.kind == VALUE_UNDEFINED)
        return undefined_used(run, key);
    if (key.kind == VALUE_STRING) {
        struct word name = {key.string.bytes, key.string.count};

        item = value.kind == VALUE_DICT || value.kind == VALUE_NAMESPACE ? dict_find(run, value.dict, key.string) : NULL;
        return item != NULL ? *item : value_attribute(run, value, name);
    }
    if (key.kind == VALUE_INT && value.kind == VALUE_LIST) {
        index += index < 0 ? (int64_t)value.list->count : 0;
        return index >= 0 && index < (int64_t)value.list->count ? value.list->items[index] : value_undefined((struct word){"item", 4});
    }
    if (key.kind == VALUE_INT && value.kind == VALUE_STRING)
        return run_step(run, value.string.count / 16) ? character_at(value.string, index) : value_none();
    return value_undefined((struct word){"item", 4});
}

/* A bound of a slice of `count` items, as Python's: from the end when negative, and never outside. */
static bool slice_bound(struct run *run, const struct node *node, int64_t fallback, int64_t low, int64_t high, int64_t count, int64_t *ret)
{
    struct value value = node != NULL ? evaluate(run, node) : value_none();

    *ret = fallback;
    if (value.kind == VALUE_NONE)
        return !run->failed;
    if (value.kind != VALUE_INT)
        return run_fail(run, "a slice by %s", value_kind_text(value));
    *ret = value.integer < 0 ? max_i64(value.integer, -count - 1) + count : value.integer;
    *ret = max_i64(low, min_i64(*ret, high));
    return true;
}

static struct value slice(struct run *run, const struct node *node)
{
    struct value of = evaluate(run, node->a);
    bool is_string = of.kind == VALUE_STRING;
    const struct list *items = run->failed ? NULL : value_items(run, of);
    struct builder builder = {.run = run};
    struct value step_value = node->d != NULL ? evaluate(run, node->d) : value_int(1);
    int64_t step, from, to, count;
    struct value result;
    uint32_t taken = 0;

    if (run->failed || of.kind == VALUE_UNDEFINED)
        return of.kind == VALUE_UNDEFINED ? undefined_used(run, of) : value_none();
    if ((!is_string && of.kind != VALUE_LIST) || step_value.kind != VALUE_INT || step_value.integer == 0) {
        run_fail(run, "such a slice of %s is unknown here", value_kind_text(of));
        return value_none();
    }
    count = items->count;
    step = max_i64(-count - 1, min_i64(step_value.integer, count + 1));
    if (!slice_bound(run, node->b, step > 0 ? 0 : count - 1, step > 0 ? 0 : -1, step > 0 ? count : count - 1, count, &from) ||
        !slice_bound(run, node->c, step > 0 ? count : -1, step > 0 ? 0 : -1, step > 0 ? count : count - 1, count, &to))
        return value_none();
    result = is_string ? value_none() : value_list(run, (uint32_t)count);
    for (int64_t i = from; !run->failed && (step > 0 ? i < to : i > to); i += step) {
        if (is_string)
            builder_add(&builder, items->items[i].string);
        else
            result.list->items[taken++] = items->items[i];
    }
    if (run->failed)
        return value_none();
    if (is_string)
        return value_string(builder_string(&builder));
    result.list->count = taken;
    result.list->is_tuple = of.list->is_tuple;
    return result;
}

/* --- operators --- */

static struct value wrong_kinds(struct run *run, struct value left, struct value right)
{
    if (left.kind == VALUE_UNDEFINED || right.kind == VALUE_UNDEFINED)
        return undefined_used(run, left.kind == VALUE_UNDEFINED ? left : right);
    run_fail(run, "this cannot be done with %s and %s", value_kind_text(left), value_kind_text(right));
    return value_none();
}

static bool number(struct value value, double *ret_number)
{
    *ret_number = value.kind == VALUE_INT ? (double)value.integer : value.kind == VALUE_BOOL ? (double)value.truth : value.number;
    return value.kind == VALUE_INT || value.kind == VALUE_BOOL || value.kind == VALUE_FLOAT;
}

/* Of VALUE_INT and VALUE_BOOL. */
static int64_t whole_of(struct value value)
{
    return value.kind == VALUE_INT ? value.integer : (int64_t)value.truth;
}

static int64_t floor_divide(int64_t left, int64_t right)
{
    return left / right - (left % right != 0 && (left < 0) != (right < 0));
}

/* Of whole numbers; false: they are too great, or divided by nothing. */
static bool whole_arithmetic(enum node_kind kind, int64_t left, int64_t right, int64_t *ret)
{
    int64_t power = 1;

    switch (kind) {
    case NODE_ADD: return !__builtin_add_overflow(left, right, ret);
    case NODE_SUBTRACT: return !__builtin_sub_overflow(left, right, ret);
    case NODE_MULTIPLY: return !__builtin_mul_overflow(left, right, ret);
    case NODE_FLOOR:
    case NODE_MODULO:
        if (right == 0 || left == INT64_MIN)
            return false;
        *ret = kind == NODE_FLOOR ? floor_divide(left, right) : left - floor_divide(left, right) * right;
        return true;
    default: /* power */
        if (right < 0 || right > 64)
            return false;
        for (int64_t i = 0; i < right; i++) {
            if (__builtin_mul_overflow(power, left, &power))
                return false;
        }
        *ret = power;
        return true;
    }
}

static double arithmetic(enum node_kind kind, double left, double right)
{
    switch (kind) {
    case NODE_ADD: return left + right;
    case NODE_SUBTRACT: return left - right;
    case NODE_MULTIPLY: return left * right;
    case NODE_DIVIDE: return left / right;
    case NODE_FLOOR: return floor(left / right);
    case NODE_MODULO: return left - floor(left / right) * right;
    default: return pow(left, right);
    }
}

static struct value repeat(struct run *run, struct string string, int64_t times)
{
    struct builder builder = {.run = run};

    for (int64_t i = 0; i < times && string.count > 0 && run_step(run, 1) && !run->failed; i++)
        builder_add(&builder, string);
    return value_string(builder_string(&builder));
}

static struct value lists_joined(struct run *run, const struct list *left, const struct list *right)
{
    struct value list = value_list(run, left->count + right->count);

    if (run->failed || !run_step(run, list.list->count / 8))
        return value_none();
    memcpy(list.list->items, left->items, left->count * sizeof(*left->items));
    memcpy(list.list->items + left->count, right->items, right->count * sizeof(*right->items));
    return list;
}

static struct value operate(struct run *run, enum node_kind kind, struct value left, struct value right)
{
    double numbers[2];
    int64_t whole;

    if (kind == NODE_CONCAT)
        return value_string(string_join(run, value_text(run, left), value_text(run, right)));
    if (kind == NODE_ADD && left.kind == VALUE_STRING && right.kind == VALUE_STRING)
        return value_string(string_join(run, left.string, right.string));
    if (kind == NODE_ADD && left.kind == VALUE_LIST && right.kind == VALUE_LIST)
        return lists_joined(run, left.list, right.list);
    if (kind == NODE_MULTIPLY && left.kind == VALUE_STRING && right.kind == VALUE_INT)
        return repeat(run, left.string, right.integer);
    if (!number(left, &numbers[0]) || !number(right, &numbers[1]))
        return wrong_kinds(run, left, right);
    if (left.kind != VALUE_FLOAT && right.kind != VALUE_FLOAT && kind != NODE_DIVIDE) {
        if (!whole_arithmetic(kind, whole_of(left), whole_of(right), &whole)) {
            run_fail(run, "a number is too great, or divided by zero");
            return value_none();
        }
        return value_int(whole);
    }
    if (numbers[1] == 0 && (kind == NODE_DIVIDE || kind == NODE_FLOOR || kind == NODE_MODULO)) {
        run_fail(run, "a division by zero");
        return value_none();
    }
    return (struct value){.kind = VALUE_FLOAT, .number = arithmetic(kind, numbers[0], numbers[1])};
}

static struct value compare(struct run *run, enum node_kind kind, struct value left, struct value right)
{
    int order = 0;

    switch (kind) {
    case NODE_EQUAL: return value_bool(value_equal(run, left, right, 0));
    case NODE_UNEQUAL: return value_bool(!value_equal(run, left, right, 0));
    case NODE_IN: return value_bool(value_contains(run, right, left));
    case NODE_NOT_IN: return value_bool(!value_contains(run, right, left));
    default: break;
    }
    if (left.kind == VALUE_UNDEFINED || right.kind == VALUE_UNDEFINED)
        return wrong_kinds(run, left, right);
    if (!value_order(run, left, right, &order))
        return value_none();
    return value_bool(kind == NODE_LESS ? order < 0 : kind == NODE_LESS_EQUAL ? order <= 0 : kind == NODE_GREATER ? order > 0 : order >= 0);
}

static struct value sign(struct run *run, enum node_kind kind, struct value value)
{
    int64_t negative;

    if (value.kind == VALUE_FLOAT)
        return (struct value){.kind = VALUE_FLOAT, .number = kind == NODE_NEGATE ? -value.number : value.number};
    if (value.kind != VALUE_INT || __builtin_sub_overflow(0, value.integer, &negative))
        return wrong_kinds(run, value, value);
    return value_int(kind == NODE_NEGATE ? negative : value.integer);
}

/* --- lists, calls --- */

static struct value list_literal(struct run *run, const struct node *first, bool is_tuple)
{
    uint32_t count = 0;
    struct value list;

    for (const struct node *item = first; item != NULL; item = item->next)
        count++;
    list = value_list(run, count);
    count = 0;
    for (const struct node *item = first; item != NULL && !run->failed; item = item->next)
        list.list->items[count++] = evaluate(run, item);
    if (run->failed)
        return value_none();
    list.list->is_tuple = is_tuple;
    return list;
}

static struct value dict_literal(struct run *run, const struct node *first)
{
    struct dict *dict = dict_make(run, 4);

    for (const struct node *item = first; item != NULL && !run->failed; item = item->next) {
        struct value key = evaluate(run, item->a);
        struct value value = evaluate(run, item->d);

        if (!run->failed && key.kind != VALUE_STRING)
            run_fail(run, "a key that is %s is unknown here", value_kind_text(key));
        if (!run->failed)
            dict_set(run, dict, key.string, value);
    }
    return run->failed ? value_none() : (struct value){.kind = VALUE_DICT, .dict = dict};
}

bool evaluate_arguments(struct run *run, const struct node *list, struct arguments *arguments)
{
    memset(arguments, 0, sizeof(*arguments));
    for (; list != NULL && !run->failed; list = list->next) {
        if (arguments->count == ARGUMENTS_MAX)
            return run_fail(run, "more than %d arguments", ARGUMENTS_MAX);
        arguments->names[arguments->count] = list->name;
        arguments->named_count += list->name.count > 0;
        arguments->values[arguments->count++] = evaluate(run, list->a);
    }
    return !run->failed;
}

static struct value call(struct run *run, const struct node *node)
{
    struct value callee = evaluate(run, node->a);
    struct arguments arguments;

    if (run->failed || !evaluate_arguments(run, node->list, &arguments))
        return value_none();
    run->line = node->line;
    switch (callee.kind) {
    case VALUE_FUNCTION: return function_run(run, callee.function, value_none(), &arguments);
    case VALUE_METHOD: return function_run(run, callee.method->function, callee.method->self, &arguments);
    case VALUE_MACRO: return macro_call(run, callee.macro, &arguments);
    case VALUE_UNDEFINED: return undefined_used(run, callee);
    default: run_fail(run, "%s cannot be called", value_kind_text(callee)); return value_none();
    }
}

static struct value apply(struct run *run, const struct node *node, const struct function *function)
{
    struct value self = evaluate(run, node->a);
    struct arguments arguments;

    if (run->failed || !evaluate_arguments(run, node->list, &arguments))
        return value_none();
    run->line = node->line;
    return function_run(run, function, self, &arguments);
}

static struct value evaluate_binary(struct run *run, const struct node *node)
{
    struct value left = evaluate(run, node->a);
    struct value right = run->failed ? value_none() : evaluate(run, node->b);

    if (run->failed)
        return value_none();
    run->line = node->line;
    return node->kind >= NODE_EQUAL ? compare(run, node->kind, left, right) : operate(run, node->kind, left, right);
}

static struct value evaluate_node(struct run *run, const struct node *node)
{
    struct value value;

    switch (node->kind) {
    case NODE_LITERAL: return node->value;
    case NODE_NAME: return variable_get(run, node->name);
    case NODE_LIST: return list_literal(run, node->list, node->is_tuple);
    case NODE_DICT: return dict_literal(run, node->list);
    case NODE_ATTRIBUTE:
        value = evaluate(run, node->a);
        run->line = node->line;
        return run->failed ? value_none() : value_attribute(run, value, node->name);
    case NODE_SUBSCRIPT: {
        struct value key = evaluate(run, node->b);

        value = run->failed ? value_none() : evaluate(run, node->a);
        run->line = node->line;
        return run->failed ? value_none() : value_item(run, value, key);
    }
    case NODE_SLICE: return slice(run, node);
    case NODE_CALL: return call(run, node);
    case NODE_FILTER: return apply(run, node, filter_find(node->name));
    case NODE_TEST: return apply(run, node, test_find(node->name));
    case NODE_NOT: return value_bool(!value_truth(evaluate(run, node->a)));
    case NODE_AND:
        value = evaluate(run, node->a);
        return value_truth(value) ? evaluate(run, node->b) : value;
    case NODE_OR:
        value = evaluate(run, node->a);
        return value_truth(value) ? value : evaluate(run, node->b);
    case NODE_CONDITION:
        if (value_truth(evaluate(run, node->b)))
            return evaluate(run, node->a);
        return node->c != NULL ? evaluate(run, node->c) : value_undefined((struct word){"", 0});
    case NODE_NEGATE:
    case NODE_PLUS: return sign(run, node->kind, evaluate(run, node->a));
    default: return evaluate_binary(run, node);
    }
}

struct value evaluate(struct run *run, const struct node *node)
{
    struct value value;

    if (run->failed || !run_step(run, 1))
        return value_none();
    run->line = node->line;
    if (run->depth >= CHAT_DEPTH_MAX) {
        run_fail(run, "it nests too deep");
        return value_none();
    }
    run->depth++;
    value = evaluate_node(run, node);
    run->depth--;
    return run->failed ? value_none() : value;
}
