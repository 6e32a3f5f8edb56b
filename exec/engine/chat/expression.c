/* Expressions, with Jinja's precedence: if-else, or, and, not, comparisons, + and -, ~, products, powers, signs, and closest what
 * stands behind a value: .name, [item], (arguments), |filter, is test. */
#include "engine/chat/inside.h"
#include "host/words.h"

const struct token *reading_token(const struct reading *reading)
{
    return &reading->tokens[reading->at];
}

bool reading_is(const struct reading *reading, enum token_kind kind, const char *text)
{
    const struct token *token = reading_token(reading);

    return token->kind == kind && (text == NULL || word_is(token->text, text));
}

bool reading_accept(struct reading *reading, enum token_kind kind, const char *text)
{
    if (reading->failed || !reading_is(reading, kind, text))
        return false;
    reading->at += reading_token(reading)->kind != TOKEN_END;
    return true;
}

static const char *token_shown(const struct token *token, char *ret_excerpt)
{
    if (token->kind == TOKEN_END)
        return "the end of the template";
    if (token->kind == TOKEN_BLOCK_END || token->kind == TOKEN_PRINT_END)
        return "the end of the tag";
    return excerpt(token->text.bytes, token->text.count, ret_excerpt);
}

bool reading_expect(struct reading *reading, enum token_kind kind, const char *text)
{
    const struct token *token = reading_token(reading);
    char shown[EXCERPT_MAX];
    const char *wanted = text != NULL ? text : kind == TOKEN_NAME ? "a name" : kind == TOKEN_BLOCK_END ? "%}" : "}}";

    if (reading_accept(reading, kind, text))
        return true;
    reading_fail(reading, token->line, "%s was expected, not '%s'", wanted, token_shown(token, shown));
    return false;
}

struct node *node_make(struct reading *reading, enum node_kind kind, uint32_t line)
{
    struct node *node = reading_take(reading, sizeof(*node));

    node->kind = kind;
    node->line = line;
    return node;
}

static bool is_operator(const struct reading *reading, const char *text)
{
    return reading_is(reading, TOKEN_OPERATOR, text);
}

static bool accept_operator(struct reading *reading, const char *text)
{
    return reading_accept(reading, TOKEN_OPERATOR, text);
}

/* Every way down to another expression leads through here or a unary operator. */
static bool deeper(struct reading *reading)
{
    if (reading->depth >= CHAT_DEPTH_MAX / 2)
        reading_fail(reading, reading_token(reading)->line, "it nests too deep");
    else
        reading->depth++;
    return !reading->failed;
}

/* --- values --- */

static void append(struct node **first, struct node **last, struct node *node)
{
    if (*last == NULL)
        *first = node;
    else
        (*last)->next = node;
    *last = node;
}

/* (name=)value, ... up to ")"; a keyword's name is kept in an argument's own node, which holds the value in `a`. */
static struct node *parse_arguments(struct reading *reading)
{
    struct node *first = NULL, *last = NULL;

    while (!reading->failed && !accept_operator(reading, ")")) {
        struct node *argument = node_make(reading, NODE_LITERAL, reading_token(reading)->line);

        if (first != NULL && !reading_expect(reading, TOKEN_OPERATOR, ","))
            break;
        if (accept_operator(reading, ")"))
            break;
        if (is_operator(reading, "*") || is_operator(reading, "**")) {
            reading_fail(reading, argument->line, "arguments by * or ** are unknown here");
            break;
        }
        if (reading_is(reading, TOKEN_NAME, NULL) && reading->tokens[reading->at + 1].kind == TOKEN_OPERATOR &&
            word_is(reading->tokens[reading->at + 1].text, "=")) {
            argument->name = reading_token(reading)->text;
            reading->at += 2;
        } else if (last != NULL && last->name.count > 0) {
            reading_fail(reading, argument->line, "a value by place behind one by name");
            break;
        }
        argument->a = parse_expression(reading, true);
        append(&first, &last, argument);
    }
    return first;
}

static struct node *parse_list(struct reading *reading, const char *close, struct node *first)
{
    struct node *list = node_make(reading, NODE_LIST, reading_token(reading)->line);
    struct node *last = first;

    list->list = first;
    while (!reading->failed && !accept_operator(reading, close)) {
        if (last != NULL && !reading_expect(reading, TOKEN_OPERATOR, ","))
            break;
        if (accept_operator(reading, close))
            break;
        append(&list->list, &last, parse_expression(reading, true));
    }
    return list;
}

/* Items are keys, each with its value in `d`. */
static struct node *parse_dict(struct reading *reading)
{
    struct node *dict = node_make(reading, NODE_DICT, reading_token(reading)->line);
    struct node *last = NULL;

    while (!reading->failed && !accept_operator(reading, "}")) {
        struct node *key;

        if (last != NULL && !reading_expect(reading, TOKEN_OPERATOR, ","))
            break;
        if (accept_operator(reading, "}"))
            break;
        key = node_make(reading, NODE_LITERAL, reading_token(reading)->line);
        key->a = parse_expression(reading, true);
        if (!reading_expect(reading, TOKEN_OPERATOR, ":"))
            break;
        key->d = parse_expression(reading, true);
        append(&dict->list, &last, key);
    }
    return dict;
}

static struct node *parse_parenthesis(struct reading *reading)
{
    struct node *inside;

    inside = is_operator(reading, ")") ? NULL : parse_expression(reading, true);
    if (inside == NULL || is_operator(reading, ",")) {
        inside = parse_list(reading, ")", inside);
        inside->is_tuple = true;
        return inside;
    }
    reading_expect(reading, TOKEN_OPERATOR, ")");
    return inside;
}

static struct node *parse_strings(struct reading *reading)
{
    struct node *node = node_make(reading, NODE_LITERAL, reading_token(reading)->line);
    struct token_text joined = {0};
    char *bytes;

    while (reading_is(reading, TOKEN_STRING, NULL)) {
        token_text_add(&joined, reading_token(reading)->text.bytes, reading_token(reading)->text.count);
        reading->at++;
    }
    bytes = reading_take(reading, joined.count + 1);
    if (joined.count > 0)
        memcpy(bytes, joined.bytes, joined.count);
    node->value = value_string((struct string){.bytes = bytes, .count = (uint32_t)joined.count});
    token_text_free(&joined);
    return node;
}

static struct node *parse_name(struct reading *reading)
{
    static const struct {
        const char *name;
        struct value value;
    } literals[] = {{"true", {.kind = VALUE_BOOL, .truth = true}},   {"True", {.kind = VALUE_BOOL, .truth = true}},
                    {"false", {.kind = VALUE_BOOL, .truth = false}}, {"False", {.kind = VALUE_BOOL, .truth = false}},
                    {"none", {.kind = VALUE_NONE}},                  {"None", {.kind = VALUE_NONE}}};
    const struct token *token = reading_token(reading);
    struct node *node = node_make(reading, NODE_NAME, token->line);

    reading->at++;
    node->name = token->text;
    for (size_t i = 0; i < ARRAY_COUNT(literals); i++) {
        if (word_is(token->text, literals[i].name)) {
            node->kind = NODE_LITERAL;
            node->value = literals[i].value;
        }
    }
    return node;
}

struct node *parse_primary(struct reading *reading)
{
    const struct token *token = reading_token(reading);
    struct node *node = node_make(reading, NODE_LITERAL, token->line);
    char shown[EXCERPT_MAX];

    switch (token->kind) {
    case TOKEN_NAME:
        return parse_name(reading);
    case TOKEN_STRING:
        return parse_strings(reading);
    case TOKEN_INT:
        node->value = value_int(token->integer);
        reading->at++;
        return node;
    case TOKEN_FLOAT:
        node->value = (struct value){.kind = VALUE_FLOAT, .number = token->number};
        reading->at++;
        return node;
    default:
        break;
    }
    if (!deeper(reading))
        return node;
    if (accept_operator(reading, "("))
        node = parse_parenthesis(reading);
    else if (accept_operator(reading, "["))
        node = parse_list(reading, "]", NULL);
    else if (accept_operator(reading, "{"))
        node = parse_dict(reading);
    else
        reading_fail(reading, token->line, "a value was expected, not '%s'", token_shown(token, shown));
    reading->depth--;
    return node;
}

/* --- behind a value --- */

/* [item] or [from:to:step] */
static struct node *parse_subscript(struct reading *reading, struct node *of)
{
    struct node *node = node_make(reading, NODE_SUBSCRIPT, of->line);
    struct node *parts[3] = {NULL, NULL, NULL};
    unsigned part = 0;

    node->a = of;
    if (!is_operator(reading, ":"))
        parts[0] = parse_expression(reading, true);
    while (part < 2 && accept_operator(reading, ":")) {
        node->kind = NODE_SLICE;
        part++;
        if (!is_operator(reading, ":") && !is_operator(reading, "]"))
            parts[part] = parse_expression(reading, true);
    }
    reading_expect(reading, TOKEN_OPERATOR, "]");
    node->b = parts[0];
    node->c = parts[1];
    node->d = parts[2];
    return node;
}

static struct node *parse_attribute(struct reading *reading, struct node *of)
{
    struct node *node = node_make(reading, NODE_ATTRIBUTE, reading_token(reading)->line);

    node->a = of;
    if (reading_is(reading, TOKEN_INT, NULL)) {
        node->kind = NODE_SUBSCRIPT;
        node->b = parse_primary(reading);
        return node;
    }
    node->name = reading_token(reading)->text;
    reading_expect(reading, TOKEN_NAME, NULL);
    return node;
}

static struct node *parse_call(struct reading *reading, struct node *of)
{
    struct node *node = node_make(reading, NODE_CALL, of->line);

    node->a = of;
    node->list = parse_arguments(reading);
    return node;
}

static struct node *parse_postfix(struct reading *reading, struct node *node)
{
    while (!reading->failed) {
        if (accept_operator(reading, "."))
            node = parse_attribute(reading, node);
        else if (accept_operator(reading, "["))
            node = parse_subscript(reading, node);
        else if (accept_operator(reading, "("))
            node = parse_call(reading, node);
        else
            break;
    }
    return node;
}

static struct node *parse_filter(struct reading *reading, struct node *of)
{
    struct node *node = node_make(reading, NODE_FILTER, reading_token(reading)->line);

    node->a = of;
    node->name = reading_token(reading)->text;
    if (!reading_expect(reading, TOKEN_NAME, NULL))
        return node;
    if (accept_operator(reading, "("))
        node->list = parse_arguments(reading);
    if (!reading->failed && filter_find(node->name) == NULL) {
        char shown[EXCERPT_MAX];

        reading_fail(reading, node->line, "filter '%s' is unknown here", excerpt(node->name.bytes, node->name.count, shown));
    }
    return node;
}

static bool begins_argument(const struct reading *reading)
{
    static const char *const others[] = {"else", "or", "and", "is", "if", "not", "in", "recursive"};
    const struct token *token = reading_token(reading);

    if (token->kind == TOKEN_NAME) {
        for (size_t i = 0; i < ARRAY_COUNT(others); i++) {
            if (word_is(token->text, others[i]))
                return false;
        }
        return true;
    }
    return token->kind == TOKEN_STRING || token->kind == TOKEN_INT || token->kind == TOKEN_FLOAT || is_operator(reading, "[") ||
           is_operator(reading, "{");
}

/* value is [not] test, test(arguments), or test argument */
static struct node *parse_test(struct reading *reading, struct node *of)
{
    uint32_t line = reading_token(reading)->line;
    bool inverted = reading_accept(reading, TOKEN_NAME, "not");
    struct node *node = node_make(reading, NODE_TEST, line);
    struct node *inverse = node_make(reading, NODE_NOT, line);

    node->a = of;
    node->name = reading_token(reading)->text;
    if (!reading_expect(reading, TOKEN_NAME, NULL))
        return node;
    if (accept_operator(reading, "(")) {
        node->list = parse_arguments(reading);
    } else if (begins_argument(reading)) {
        node->list = node_make(reading, NODE_LITERAL, line);
        node->list->a = parse_postfix(reading, parse_primary(reading));
    }
    if (!reading->failed && test_find(node->name) == NULL) {
        char shown[EXCERPT_MAX];

        reading_fail(reading, line, "test '%s' is unknown here", excerpt(node->name.bytes, node->name.count, shown));
    }
    inverse->a = node;
    return inverted ? inverse : node;
}

static struct node *parse_filters(struct reading *reading, struct node *node)
{
    while (!reading->failed) {
        if (accept_operator(reading, "|"))
            node = parse_filter(reading, node);
        else if (reading_accept(reading, TOKEN_NAME, "is"))
            node = parse_test(reading, node);
        else if (accept_operator(reading, "("))
            node = parse_call(reading, node);
        else
            break;
    }
    return node;
}

/* --- operators --- */

static struct node *parse_unary(struct reading *reading, bool with_filter)
{
    uint32_t line = reading_token(reading)->line;
    bool negates = is_operator(reading, "-");
    struct node *node;

    if (!negates && !is_operator(reading, "+")) {
        node = parse_primary(reading);
    } else {
        node = node_make(reading, negates ? NODE_NEGATE : NODE_PLUS, line);
        reading->at++;
        if (!deeper(reading))
            return node;
        node->a = parse_unary(reading, false);
        reading->depth--;
    }
    node = parse_postfix(reading, node);
    return with_filter ? parse_filters(reading, node) : node;
}

/* The levels of operators between two values, the loosest first; within a level from left to right. */
static const struct level {
    struct {
        const char *text;
        enum node_kind kind;
    } operators[4];
} levels[] = {
    {{{"+", NODE_ADD}, {"-", NODE_SUBTRACT}}},
    {{{"~", NODE_CONCAT}}},
    {{{"*", NODE_MULTIPLY}, {"/", NODE_DIVIDE}, {"//", NODE_FLOOR}, {"%", NODE_MODULO}}},
    {{{"**", NODE_POWER}}},
};

static struct node *parse_level(struct reading *reading, size_t level)
{
    struct node *left = level == ARRAY_COUNT(levels) ? parse_unary(reading, true) : parse_level(reading, level + 1);

    while (level < ARRAY_COUNT(levels) && !reading->failed) {
        struct node *node = NULL;

        for (size_t i = 0; i < 4 && node == NULL && levels[level].operators[i].text != NULL; i++) {
            if (is_operator(reading, levels[level].operators[i].text))
                node = node_make(reading, levels[level].operators[i].kind, reading_token(reading)->line);
        }
        if (node == NULL)
            break;
        reading->at++;
        node->a = left;
        node->b = parse_level(reading, level + 1);
        left = node;
    }
    return left;
}

/* a < b < c is (a < b) and (b < c); here only one comparison follows another when both are meant so. */
static struct node *parse_comparison(struct reading *reading)
{
    static const struct {
        const char *text;
        enum node_kind kind;
    } operators[] = {{"==", NODE_EQUAL},    {"!=", NODE_UNEQUAL}, {"<=", NODE_LESS_EQUAL}, {">=", NODE_GREATER_EQUAL},
                     {"<", NODE_LESS}, {">", NODE_GREATER}};
    struct node *left = parse_level(reading, 0);
    struct node *chain = NULL;

    while (!reading->failed) {
        struct node *node = node_make(reading, NODE_IN, reading_token(reading)->line);
        bool found = reading_accept(reading, TOKEN_NAME, "in");

        for (size_t i = 0; i < ARRAY_COUNT(operators) && !found; i++) {
            found = accept_operator(reading, operators[i].text);
            node->kind = found ? operators[i].kind : node->kind;
        }
        if (!found && reading_is(reading, TOKEN_NAME, "not") && reading->tokens[reading->at + 1].kind == TOKEN_NAME &&
            word_is(reading->tokens[reading->at + 1].text, "in")) {
            node->kind = NODE_NOT_IN;
            reading->at += 2;
            found = true;
        }
        if (!found)
            break;
        node->a = left;
        node->b = parse_level(reading, 0);
        left = node->b;
        if (chain != NULL) {
            struct node *both = node_make(reading, NODE_AND, node->line);

            both->a = chain;
            both->b = node;
            node = both;
        }
        chain = node;
    }
    return chain != NULL ? chain : left;
}

static struct node *parse_not(struct reading *reading)
{
    struct node *node;

    if (!reading_is(reading, TOKEN_NAME, "not"))
        return parse_comparison(reading);
    node = node_make(reading, NODE_NOT, reading_token(reading)->line);
    reading->at++;
    if (!deeper(reading))
        return node;
    node->a = parse_not(reading);
    reading->depth--;
    return node;
}

static struct node *parse_and(struct reading *reading)
{
    struct node *left = parse_not(reading);

    while (reading_is(reading, TOKEN_NAME, "and") && !reading->failed) {
        struct node *node = node_make(reading, NODE_AND, reading_token(reading)->line);

        reading->at++;
        node->a = left;
        node->b = parse_not(reading);
        left = node;
    }
    return left;
}

static struct node *parse_or(struct reading *reading)
{
    struct node *left = parse_and(reading);

    while (reading_is(reading, TOKEN_NAME, "or") && !reading->failed) {
        struct node *node = node_make(reading, NODE_OR, reading_token(reading)->line);

        reading->at++;
        node->a = left;
        node->b = parse_and(reading);
        left = node;
    }
    return left;
}

/* a if b else c; with_condition false: an "if" behind is somebody else's. */
struct node *parse_expression(struct reading *reading, bool with_condition)
{
    struct node *node;

    if (!deeper(reading))
        return node_make(reading, NODE_LITERAL, reading_token(reading)->line);
    node = parse_or(reading);
    while (with_condition && reading_is(reading, TOKEN_NAME, "if") && !reading->failed) {
        struct node *condition = node_make(reading, NODE_CONDITION, reading_token(reading)->line);

        reading->at++;
        condition->a = node;
        condition->b = parse_or(reading);
        if (reading_accept(reading, TOKEN_NAME, "else"))
            condition->c = parse_expression(reading, true);
        node = condition;
    }
    reading->depth--;
    return node;
}
