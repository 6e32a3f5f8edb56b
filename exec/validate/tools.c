/* Tools: what an example declares, what its assistants call, and who answers. */
#include "host/words.h"
#include "validate/internal.h"

static uint32_t name_of(const struct tree *tree, uint32_t node)
{
    const uint32_t name = tree_find(tree, tree_find(tree, node, "function"), "name");

    return name != NONE_INDEX && tree->nodes[name].kind == TREE_STRING ? name : NONE_INDEX;
}

void tools_check(struct validator *validator, uint32_t tools)
{
    const struct tree *tree = &validator->tree;

    if (tools == NONE_INDEX)
        return;
    if (tree->nodes[tools].kind != TREE_ARRAY) {
        issue_node(validator, VALIDATE_TOOLS_TYPE, tools, "\"tools\" must be a list, got %s.", kind_name(tree->nodes[tools].kind));
        return;
    }
    if (tree->nodes[tools].count > TOOLS_MAX) {
        issue_node(validator, VALIDATE_TOOLS_TYPE, tools, "\"tools\" lists %u; at most %d are taken.", tree->nodes[tools].count, TOOLS_MAX);
        return;
    }
    for (uint32_t i = tree->nodes[tools].first; i != NONE_INDEX; i = tree->nodes[i].next)
        if (name_of(tree, i) == NONE_INDEX)
            issue_node(validator, VALIDATE_TOOLS_TYPE, i, "A tool must be an object with \"function\", and that one with \"name\".");
}

static bool same_text(const struct tree *tree, uint32_t a, uint32_t b)
{
    return tree->nodes[a].text_bytes == tree->nodes[b].text_bytes && memcmp(tree->nodes[a].text, tree->nodes[b].text, tree->nodes[a].text_bytes) == 0;
}

static bool is_declared(const struct tree *tree, uint32_t tools, uint32_t name)
{
    uint32_t left = TOOLS_MAX;

    if (tools == NONE_INDEX || tree->nodes[tools].kind != TREE_ARRAY)
        return false;
    for (uint32_t i = tree->nodes[tools].first; i != NONE_INDEX && left > 0; i = tree->nodes[i].next, left--)
        if (name_of(tree, i) != NONE_INDEX && same_text(tree, name_of(tree, i), name))
            return true;
    return false;
}

/* --- a call ----------------------------------------------------------------------------------------------------------------- */

static uint32_t id_of(const struct tree *tree, uint32_t call)
{
    const uint32_t id = tree_find(tree, call, "id");

    return id != NONE_INDEX && tree->nodes[id].kind == TREE_STRING && tree->nodes[id].text_bytes > 0 ? id : NONE_INDEX;
}

static void arguments_check(struct validator *validator, uint32_t function)
{
    const struct tree *tree = &validator->tree;
    const uint32_t arguments = tree_find(tree, function, "arguments");
    const struct tree_node *node = arguments != NONE_INDEX ? &tree->nodes[arguments] : NULL;

    if (node == NULL)
        issue_node(validator, VALIDATE_TOOL_ARGUMENTS_TYPE, function, "function.arguments is missing.");
    else if (node->kind != TREE_STRING)
        issue_node(validator, VALIDATE_TOOL_ARGUMENTS_TYPE, arguments, "function.arguments must be a string holding JSON, got %s.", kind_name(node->kind));
    else if (tree_scan(&validator->inner, node->text, node->text_bytes) != TREE_GOOD)
        issue_node(validator, VALIDATE_TOOL_ARGUMENTS_NOT_JSON, arguments, "function.arguments is not valid JSON.");
}

/* A call that lacks its function or its name is wrong in one way, not in three. */
static void call_check(struct validator *validator, uint32_t call, uint32_t index, uint32_t tools)
{
    const struct tree *tree = &validator->tree;
    const uint32_t function = tree_find(tree, call, "function");
    const uint32_t type = tree_find(tree, call, "type");
    const uint32_t name = name_of(tree, call);

    if (tree->nodes[call].kind != TREE_OBJECT) {
        issue_node(validator, VALIDATE_TOOL_CALLS_TYPE, call, "tool_calls[%u] must be an object, got %s.", index, kind_name(tree->nodes[call].kind));
        return;
    }
    if (id_of(tree, call) == NONE_INDEX)
        issue_node(validator, VALIDATE_TOOL_CALL_MISSING_ID, call, "tool_calls[%u] has no \"id\".", index);
    if (type != NONE_INDEX && !tree_is_text(tree, type, "function"))
        issue_node(validator, VALIDATE_TOOL_CALLS_TYPE, type, "\"type\" of tool_calls[%u] must be \"function\".", index);
    if (name == NONE_INDEX) {
        issue_node(validator, VALIDATE_TOOL_CALLS_TYPE, call, "tool_calls[%u] has no \"function\" with a \"name\".", index);
        return;
    }
    arguments_check(validator, function);
    if (!is_declared(tree, tools, name))
        issue_node(validator, VALIDATE_UNDECLARED_TOOL, name, "Function \"%.*s\" is called but not listed in \"tools\".",
                   (int)min_u32(tree->nodes[name].text_bytes, 40), tree->nodes[name].text);
}

/* --- who answers ------------------------------------------------------------------------------------------------------------ */

/* A message with calls, and the tool messages behind it. */
struct calling {
    uint32_t message;    /* NONE_INDEX: none is open */
    uint32_t list;
    uint32_t answers;    /* index of the first message behind it */
    bool ids_lack;       /* a call has none, so no answer can be held to it */
    bool unknown;        /* an answer went astray: which call it was for is not known */
};

static bool is_answered(const struct validator *validator, uint32_t id, uint32_t from, uint32_t until)
{
    for (uint32_t i = from; i < until; i++) {
        const uint32_t answer = tree_find(&validator->tree, validator->messages[i].node, "tool_call_id");

        if (answer != NONE_INDEX && validator->tree.nodes[answer].kind == TREE_STRING && same_text(&validator->tree, answer, id))
            return true;
    }
    return false;
}

/* The next turn begins: what was called is answered by now. The last turn of a chat may be the call itself. */
static void close_calling(struct validator *validator, const struct calling *calling, uint32_t until)
{
    const struct tree *tree = &validator->tree;

    if (calling->message == NONE_INDEX || calling->ids_lack || calling->unknown)
        return;
    for (uint32_t i = tree->nodes[calling->list].first; i != NONE_INDEX; i = tree->nodes[i].next) {
        const uint32_t id = id_of(tree, i);

        if (id != NONE_INDEX && !is_answered(validator, id, calling->answers, until))
            issue_node(validator, VALIDATE_TOOL_CALL_UNANSWERED, calling->message, "tool call \"%.*s\" has no tool message before the next %s message.",
                       (int)min_u32(tree->nodes[id].text_bytes, 40), tree->nodes[id].text, role_name(validator->messages[until].role));
    }
}

static void open_calling(struct validator *validator, uint32_t index, uint32_t tools, struct calling *calling)
{
    const struct tree *tree = &validator->tree;
    const struct message *message = &validator->messages[index];
    uint32_t number = 0;

    *calling = (struct calling){.message = NONE_INDEX};
    if (message->calls == NONE_INDEX)
        return;
    *calling = (struct calling){.message = message->node, .list = message->calls, .answers = index + 1};
    for (uint32_t i = tree->nodes[message->calls].first; i != NONE_INDEX; i = tree->nodes[i].next, number++) {
        call_check(validator, i, number, tools);
        calling->ids_lack |= id_of(tree, i) == NONE_INDEX;
    }
}

static void answer_check(struct validator *validator, const struct message *message, struct calling *calling)
{
    const struct tree *tree = &validator->tree;
    const uint32_t id = tree_find(tree, message->node, "tool_call_id");

    if (calling->message == NONE_INDEX) {
        issue_node(validator, VALIDATE_UNKNOWN_TOOL_CALL_ID, message->node, "tool message without a preceding assistant tool call.");
        return;
    }
    if (id == NONE_INDEX || tree->nodes[id].kind != TREE_STRING) {
        issue_node(validator, VALIDATE_UNKNOWN_TOOL_CALL_ID, message->node, "tool message without a \"tool_call_id\".");
        calling->unknown = true;
        return;
    }
    for (uint32_t i = tree->nodes[calling->list].first; i != NONE_INDEX; i = tree->nodes[i].next)
        if (id_of(tree, i) != NONE_INDEX && same_text(tree, id_of(tree, i), id))
            return;
    calling->unknown = true;
    if (!calling->ids_lack)
        issue_node(validator, VALIDATE_UNKNOWN_TOOL_CALL_ID, id, "tool_call_id \"%.*s\" does not answer any earlier tool call.",
                   (int)min_u32(tree->nodes[id].text_bytes, 40), tree->nodes[id].text);
}

void calls_check(struct validator *validator, uint32_t count, uint32_t tools)
{
    struct calling calling = {.message = NONE_INDEX};

    for (uint32_t i = 0; i < count; i++) {
        const struct message *message = &validator->messages[i];

        if (message->role == ROLE_TOOL) {
            answer_check(validator, message, &calling);
            continue;
        }
        close_calling(validator, &calling, i);
        open_calling(validator, i, tools, &calling);
    }
}
