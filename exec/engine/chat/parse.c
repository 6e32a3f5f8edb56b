/* Statements: what stands in {% %}, and the text between. What would reach for other files is refused by name. */
#include "engine/chat/inside.h"
#include "host/words.h"

static struct node *parse_body(struct reading *reading);

/* A name, or several with commas between: names in `list`. */
static struct node *parse_targets(struct reading *reading)
{
    struct node *target = node_make(reading, NODE_NAME, reading_token(reading)->line);
    struct node *last = NULL;
    bool in_parenthesis = reading_accept(reading, TOKEN_OPERATOR, "(");

    target->name = reading_token(reading)->text;
    if (!reading_expect(reading, TOKEN_NAME, NULL))
        return target;
    while (!reading->failed && reading_accept(reading, TOKEN_OPERATOR, ",")) {
        struct node *more = node_make(reading, NODE_NAME, target->line);

        if (last == NULL) {
            struct node *first = node_make(reading, NODE_NAME, target->line);

            first->name = target->name;
            target->kind = NODE_LIST;
            target->list = first;
            last = first;
        }
        more->name = reading_token(reading)->text;
        reading_expect(reading, TOKEN_NAME, NULL);
        last->next = more;
        last = more;
    }
    if (in_parenthesis)
        reading_expect(reading, TOKEN_OPERATOR, ")");
    return target;
}

/* {% NAME at the place; the tag's end is not taken. */
static bool at_tag(const struct reading *reading, const char *name)
{
    return reading_is(reading, TOKEN_BLOCK_BEGIN, NULL) && reading->tokens[reading->at + 1].kind == TOKEN_NAME &&
           word_is(reading->tokens[reading->at + 1].text, name);
}

static bool accept_tag(struct reading *reading, const char *name)
{
    if (reading->failed || !at_tag(reading, name))
        return false;
    reading->at += 2;
    return true;
}

/* {% endNAME %} of what began at `line`. */
static void expect_end(struct reading *reading, const char *name, uint32_t line)
{
    char end[24] = "end";

    strcpy(end + 3, name);
    if (accept_tag(reading, end))
        reading_expect(reading, TOKEN_BLOCK_END, NULL);
    else
        reading_fail(reading, line, "{%% %s %%} has no {%% %s %%}", name, end);
}

/* a: condition, list: body, other: what else, which is one more IF for elif */
static struct node *parse_if(struct reading *reading, uint32_t line)
{
    struct node *first = node_make(reading, NODE_IF, line);
    struct node *node = first;

    node->a = parse_expression(reading, true);
    reading_expect(reading, TOKEN_BLOCK_END, NULL);
    node->list = parse_body(reading);
    while (accept_tag(reading, "elif")) {
        node->other = node_make(reading, NODE_IF, reading_token(reading)->line);
        node = node->other;
        node->a = parse_expression(reading, true);
        reading_expect(reading, TOKEN_BLOCK_END, NULL);
        node->list = parse_body(reading);
    }
    if (accept_tag(reading, "else")) {
        reading_expect(reading, TOKEN_BLOCK_END, NULL);
        node->other = parse_body(reading);
    }
    expect_end(reading, "if", line);
    return first;
}

/* a: targets, b: what to walk, c: condition, list: body, other: when nothing was walked */
static struct node *parse_for(struct reading *reading, uint32_t line)
{
    struct node *node = node_make(reading, NODE_FOR, line);

    node->a = parse_targets(reading);
    reading_expect(reading, TOKEN_NAME, "in");
    node->b = parse_expression(reading, false);
    if (reading_accept(reading, TOKEN_NAME, "if"))
        node->c = parse_expression(reading, true);
    if (reading_is(reading, TOKEN_NAME, "recursive"))
        reading_fail(reading, line, "a recursive loop is unknown here");
    reading_expect(reading, TOKEN_BLOCK_END, NULL);
    reading->loops++;
    node->list = parse_body(reading);
    reading->loops--;
    if (accept_tag(reading, "else")) {
        reading_expect(reading, TOKEN_BLOCK_END, NULL);
        node->other = parse_body(reading);
    }
    expect_end(reading, "for", line);
    return node;
}

/* a: targets or namespace.attribute, b: value; or list: a body whose text is the value, and filters of it in b around `c` */
static struct node *parse_set(struct reading *reading, uint32_t line)
{
    struct node *node = node_make(reading, NODE_SET, line);

    node->a = parse_targets(reading);
    if (node->a->kind == NODE_NAME && reading_accept(reading, TOKEN_OPERATOR, ".")) {
        struct node *attribute = node_make(reading, NODE_ATTRIBUTE, line);

        attribute->a = node->a;
        attribute->name = reading_token(reading)->text;
        reading_expect(reading, TOKEN_NAME, NULL);
        node->a = attribute;
    }
    if (reading_accept(reading, TOKEN_OPERATOR, "=")) {
        node->b = parse_expression(reading, true);
        if (reading_is(reading, TOKEN_OPERATOR, ",")) {
            struct node *list = node_make(reading, NODE_LIST, line);
            struct node *last = node->b;

            list->list = last;
            list->is_tuple = true;
            while (!reading->failed && reading_accept(reading, TOKEN_OPERATOR, ",")) {
                last->next = parse_expression(reading, true);
                last = last->next;
            }
            node->b = list;
        }
        reading_expect(reading, TOKEN_BLOCK_END, NULL);
        return node;
    }
    node->kind = NODE_SET_BLOCK;
    if (reading_is(reading, TOKEN_OPERATOR, "|"))
        reading_fail(reading, line, "a filter of {%% set %%} with a body is unknown here");
    reading_expect(reading, TOKEN_BLOCK_END, NULL);
    node->list = parse_body(reading);
    expect_end(reading, "set", line);
    return node;
}

/* name; other: parameters, each with its default in `a`; list: body */
static struct node *parse_macro(struct reading *reading, uint32_t line)
{
    struct node *node = node_make(reading, NODE_MACRO, line);
    struct node *last = NULL;
    uint32_t loops = reading->loops;

    node->name = reading_token(reading)->text;
    reading_expect(reading, TOKEN_NAME, NULL);
    reading_expect(reading, TOKEN_OPERATOR, "(");
    while (!reading->failed && !reading_accept(reading, TOKEN_OPERATOR, ")")) {
        struct node *parameter = node_make(reading, NODE_NAME, line);

        if (last != NULL && !reading_expect(reading, TOKEN_OPERATOR, ","))
            break;
        parameter->name = reading_token(reading)->text;
        reading_expect(reading, TOKEN_NAME, NULL);
        if (reading_accept(reading, TOKEN_OPERATOR, "="))
            parameter->a = parse_expression(reading, true);
        if (last == NULL)
            node->other = parameter;
        else
            last->next = parameter;
        last = parameter;
    }
    reading_expect(reading, TOKEN_BLOCK_END, NULL);
    reading->loops = 0;
    node->list = parse_body(reading);
    reading->loops = loops;
    expect_end(reading, "macro", line);
    return node;
}

static struct node *parse_jump(struct reading *reading, uint32_t line, enum node_kind kind)
{
    if (reading->loops == 0)
        reading_fail(reading, line, "outside of a loop");
    reading_expect(reading, TOKEN_BLOCK_END, NULL);
    return node_make(reading, kind, line);
}

/* Behind {%; the first of the nodes that it makes. */
static struct node *parse_statement(struct reading *reading)
{
    const struct token *token = reading_token(reading);
    uint32_t line = token->line;
    struct node *body;
    char shown[EXCERPT_MAX];

    if (reading_accept(reading, TOKEN_NAME, "if"))
        return parse_if(reading, line);
    if (reading_accept(reading, TOKEN_NAME, "for"))
        return parse_for(reading, line);
    if (reading_accept(reading, TOKEN_NAME, "set"))
        return parse_set(reading, line);
    if (reading_accept(reading, TOKEN_NAME, "macro"))
        return parse_macro(reading, line);
    if (reading_accept(reading, TOKEN_NAME, "break"))
        return parse_jump(reading, line, NODE_BREAK);
    if (reading_accept(reading, TOKEN_NAME, "continue"))
        return parse_jump(reading, line, NODE_CONTINUE);
    if (reading_accept(reading, TOKEN_NAME, "generation")) {
        /* Says which part the model writes; here it is a part like others. */
        reading_expect(reading, TOKEN_BLOCK_END, NULL);
        body = parse_body(reading);
        expect_end(reading, "generation", line);
        return body;
    }
    reading_fail(reading, line, "{%% %s %%} is unknown here", excerpt(token->text.bytes, token->text.count, shown));
    return NULL;
}

static bool ends_body(const struct reading *reading)
{
    static const char *const ends[] = {"elif", "else", "endif", "endfor", "endset", "endmacro", "endgeneration"};

    for (size_t i = 0; i < ARRAY_COUNT(ends); i++) {
        if (at_tag(reading, ends[i]))
            return true;
    }
    return reading_is(reading, TOKEN_END, NULL);
}

static struct node *parse_piece(struct reading *reading)
{
    const struct token *token = reading_token(reading);
    struct node *node = node_make(reading, NODE_PRINT, token->line);

    if (reading_accept(reading, TOKEN_DATA, NULL)) {
        node->kind = NODE_DATA;
        node->name = token->text;
        return node;
    }
    if (reading_accept(reading, TOKEN_PRINT_BEGIN, NULL)) {
        node->a = parse_expression(reading, true);
        reading_expect(reading, TOKEN_PRINT_END, NULL);
        return node;
    }
    reading->at++; /* {% */
    return parse_statement(reading);
}

static struct node *parse_body(struct reading *reading)
{
    struct node *first = NULL, *last = NULL;

    if (reading->depth >= CHAT_DEPTH_MAX / 2)
        reading_fail(reading, reading_token(reading)->line, "it nests too deep");
    reading->depth++;
    while (!reading->failed && !ends_body(reading)) {
        struct node *node = parse_piece(reading);

        if (node == NULL)
            continue;
        if (last == NULL)
            first = node;
        else
            last->next = node;
        for (last = node; last->next != NULL;)
            last = last->next;
    }
    reading->depth--;
    return first;
}

struct node *parse_template(struct reading *reading)
{
    struct node *body = parse_body(reading);

    if (!reading->failed && !reading_is(reading, TOKEN_END, NULL)) {
        char shown[EXCERPT_MAX];
        const struct token *end = &reading->tokens[reading->at + 1];

        reading_fail(reading, end->line, "{%% %s %%} ends nothing", excerpt(end->text.bytes, end->text.count, shown));
    }
    return body;
}
