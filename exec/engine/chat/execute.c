/* Statements: what prints, branches, walks and names. A loop's body and a macro's have names of their own; a branch has none. */
#include "engine/chat/inside.h"
#include "host/words.h"

/* --- names --- */

static struct variable *variable_in(const struct frame *frame, struct word name)
{
    for (struct variable *at = frame->variables; at != NULL; at = at->next) {
        if (at->name.count == name.count && memcmp(at->name.bytes, name.bytes, name.count) == 0)
            return at;
    }
    return NULL;
}

struct value variable_get(struct run *run, struct word name)
{
    const struct function *function;

    for (const struct frame *frame = run->frame; frame != NULL; frame = frame->parent) {
        const struct variable *variable = variable_in(frame, name);

        if (variable != NULL)
            return variable->value;
        if (!run_step(run, 1))
            return value_none();
    }
    function = function_find(name);
    return function != NULL ? (struct value){.kind = VALUE_FUNCTION, .function = function} : value_undefined(name);
}

void variable_set(struct run *run, struct word name, struct value value)
{
    struct variable *variable = variable_in(run->frame, name);

    if (variable == NULL) {
        variable = run_take(run, sizeof(*variable));
        if (variable == NULL)
            return;
        variable->name = name;
        variable->next = run->frame->variables;
        run->frame->variables = variable;
    }
    variable->value = value;
}

static bool frame_push(struct run *run, struct frame *parent)
{
    struct frame *frame = run_take(run, sizeof(*frame));

    if (frame == NULL)
        return false;
    frame->parent = parent;
    run->frame = frame;
    return true;
}

/* One name, or one for each item. */
static bool targets_set(struct run *run, const struct node *targets, struct value value)
{
    const struct list *items;
    uint32_t at = 0;

    if (targets->kind == NODE_NAME) {
        variable_set(run, targets->name, value);
        return !run->failed;
    }
    items = value_items(run, value);
    if (items == NULL)
        return false;
    for (const struct node *target = targets->list; target != NULL; target = target->next, at++) {
        if (at >= items->count)
            return run_fail(run, "fewer values than names");
        variable_set(run, target->name, items->items[at]);
    }
    return at == items->count ? !run->failed : run_fail(run, "more values than names");
}

/* --- statements --- */

static void print(struct run *run, struct string string)
{
    if (run->failed || !run_step(run, string.count / 64))
        return;
    if (string.count > CHAT_MEMORY_BYTES_MAX - run->out->text.count)
        run_fail(run, "it prints too much");
    else
        chat_text_add(run->out, string);
}

/* What a body prints, as a string. */
static struct string captured(struct run *run, const struct node *body)
{
    struct chat_text text = {0};
    struct chat_text *out = run->out;
    struct builder builder = {.run = run};

    run->out = &text;
    execute(run, body);
    run->out = out;
    builder_add(&builder, (struct string){.bytes = text.text.bytes, .count = (uint32_t)text.text.count, .marks = text.plain});
    chat_text_free(&text);
    return builder_string(&builder);
}

/* Those items for which the loop's condition holds. */
static const struct list *items_chosen(struct run *run, const struct node *node, const struct list *items)
{
    struct value chosen = value_list(run, items->count);
    struct frame *frame = run->frame;
    uint32_t count = 0;

    for (uint32_t i = 0; i < items->count && !run->failed; i++) {
        if (frame_push(run, frame) && targets_set(run, node->a, items->items[i]) && value_truth(evaluate(run, node->c)))
            chosen.list->items[count++] = items->items[i];
    }
    run->frame = frame;
    if (run->failed)
        return NULL;
    chosen.list->count = count;
    return chosen.list;
}

static void execute_for(struct run *run, const struct node *node)
{
    static const struct word loop_name = {"loop", 4};
    struct value walked = evaluate(run, node->b);
    const struct list *items = run->failed ? NULL : value_items(run, walked);
    struct frame *frame = run->frame;
    struct loop *loop = run_take(run, sizeof(*loop));

    if (items != NULL && node->c != NULL)
        items = items_chosen(run, node, items);
    if (items == NULL || loop == NULL)
        return;
    *loop = (struct loop){.items = items, .depth = ++run->loops};
    for (uint32_t i = 0; i < items->count && !run->failed && run_step(run, 1); i++) {
        loop->index = i;
        if (!frame_push(run, frame))
            break;
        variable_set(run, loop_name, (struct value){.kind = VALUE_LOOP, .loop = loop});
        if (targets_set(run, node->a, items->items[i]))
            execute(run, node->list);
        if (run->broken) {
            run->broken = false;
            if (!run->continues)
                break;
        }
    }
    run->frame = frame;
    run->loops--;
    if (items->count == 0)
        execute(run, node->other);
}

static void execute_if(struct run *run, const struct node *node)
{
    for (;;) {
        if (value_truth(evaluate(run, node->a))) {
            execute(run, node->list);
            return;
        }
        if (run->failed || node->other == NULL || node->other->kind != NODE_IF || node->other->next != NULL)
            break;
        node = node->other;
    }
    execute(run, node->other);
}

static void execute_set(struct run *run, const struct node *node)
{
    struct value value = node->kind == NODE_SET ? evaluate(run, node->b) : value_string(captured(run, node->list));
    struct value space;

    if (run->failed)
        return;
    run->line = node->line;
    if (node->a->kind != NODE_ATTRIBUTE) {
        targets_set(run, node->a, value);
        return;
    }
    space = evaluate(run, node->a->a);
    if (!run->failed && space.kind != VALUE_NAMESPACE)
        run_fail(run, "only a namespace can be changed");
    if (!run->failed)
        dict_set(run, space.dict, string_of_word(node->a->name), value);
}

static void execute_macro(struct run *run, const struct node *node)
{
    struct macro *macro = run_take(run, sizeof(*macro));

    if (macro == NULL)
        return;
    *macro = (struct macro){node, run->frame};
    variable_set(run, node->name, (struct value){.kind = VALUE_MACRO, .macro = macro});
}

static void execute_node(struct run *run, const struct node *node)
{
    switch (node->kind) {
    case NODE_DATA: print(run, string_of_word(node->name)); break;
    case NODE_PRINT: print(run, value_text(run, evaluate(run, node->a))); break;
    case NODE_IF: execute_if(run, node); break;
    case NODE_FOR: execute_for(run, node); break;
    case NODE_SET:
    case NODE_SET_BLOCK: execute_set(run, node); break;
    case NODE_MACRO: execute_macro(run, node); break;
    case NODE_BREAK:
    case NODE_CONTINUE:
        run->broken = true;
        run->continues = node->kind == NODE_CONTINUE;
        break;
    default: check(false);
    }
}

void execute(struct run *run, const struct node *body)
{
    if (run->depth >= CHAT_DEPTH_MAX) {
        run_fail(run, "it nests too deep");
        return;
    }
    run->depth++;
    for (; body != NULL && !run->failed && !run->broken && run_step(run, 1); body = body->next) {
        run->line = body->line;
        execute_node(run, body);
    }
    run->depth--;
}

/* --- macros --- */

static bool parameter_set(struct run *run, const struct node *parameter, uint32_t place, const struct arguments *arguments)
{
    uint32_t by_place = arguments->count - arguments->named_count;
    struct value value = value_undefined(parameter->name);

    if (place < by_place) {
        value = arguments->values[place];
    } else {
        uint32_t i = by_place;

        while (i < arguments->count && !(arguments->names[i].count == parameter->name.count &&
                                         memcmp(arguments->names[i].bytes, parameter->name.bytes, parameter->name.count) == 0))
            i++;
        if (i < arguments->count)
            value = arguments->values[i];
        else if (parameter->a != NULL)
            value = evaluate(run, parameter->a);
    }
    variable_set(run, parameter->name, value);
    return !run->failed;
}

struct value macro_call(struct run *run, const struct macro *macro, const struct arguments *arguments)
{
    struct frame *frame = run->frame;
    uint32_t place = 0;
    struct string printed = string_of("");

    if (!frame_push(run, macro->frame))
        return value_none();
    for (const struct node *parameter = macro->node->other; parameter != NULL && !run->failed; parameter = parameter->next)
        parameter_set(run, parameter, place++, arguments);
    if (arguments->count > place)
        run_fail(run, "a macro takes %u arguments, not %u", place, arguments->count);
    if (!run->failed)
        printed = captured(run, macro->node->list);
    run->frame = frame;
    return value_string(printed);
}
