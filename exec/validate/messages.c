/* Messages and the order of turns. */
#include "host/words.h"
#include "validate/internal.h"

static const char *const roles[] = {[ROLE_SYSTEM] = "system", [ROLE_DEVELOPER] = "developer", [ROLE_USER] = "user", [ROLE_ASSISTANT] = "assistant",
                                    [ROLE_TOOL] = "tool", [ROLE_FUNCTION] = "function", [ROLE_UNKNOWN] = ""};

const char *role_name(enum role role)
{
    return roles[role];
}

/* Where a node is, for the middle of a sentence. */
struct where {
    char text[96];
};
static struct where where_of(const struct validator *validator, uint32_t node)
{
    struct where where;

    tree_path(&validator->tree, node, where.text, sizeof(where.text));
    return where;
}

/* --- a message -------------------------------------------------------------------------------------------------------------- */

static enum role role_check(struct validator *validator, uint32_t message)
{
    const struct tree *tree = &validator->tree;
    const uint32_t node = tree_find(tree, message, "role");

    if (node == NONE_INDEX) {
        issue_node(validator, VALIDATE_MISSING_ROLE, message, "Missing \"role\" in %s.", where_of(validator, message).text);
        return ROLE_UNKNOWN;
    }
    if (tree->nodes[node].kind != TREE_STRING) {
        issue_node(validator, VALIDATE_BAD_ROLE, node, "\"role\" must be a string, got %s.", kind_name(tree->nodes[node].kind));
        return ROLE_UNKNOWN;
    }
    for (enum role role = 0; role < ROLE_UNKNOWN; role++)
        if (tree_is_text(tree, node, roles[role]))
            return role;
    issue_node(validator, VALIDATE_BAD_ROLE, node, "Unknown role \"%.*s\" in %s.", (int)min_u32(tree->nodes[node].text_bytes, 40), tree->nodes[node].text,
               where_of(validator, message).text);
    return ROLE_UNKNOWN;
}

static void content_check(struct validator *validator, const struct message *message)
{
    const struct tree *tree = &validator->tree;
    const uint32_t node = tree_find(tree, message->node, "content");
    const enum tree_kind kind = node == NONE_INDEX ? TREE_NULL : tree->nodes[node].kind;

    if (kind == TREE_NULL && message->role == ROLE_ASSISTANT && message->calls != NONE_INDEX)
        return;
    if (node == NONE_INDEX)
        issue_node(validator, VALIDATE_MISSING_CONTENT, message->node, "Missing \"content\" in %s.", where_of(validator, message->node).text);
    else if (kind == TREE_NULL)
        issue_node(validator, VALIDATE_MISSING_CONTENT, node,
                   "\"content\" is null in %s; only an assistant message with tool_calls may have null content.", where_of(validator, message->node).text);
    else if (kind != TREE_STRING)
        issue_node(validator, VALIDATE_CONTENT_TYPE, node, "\"content\" must be a string, got %s.", kind_name(kind));
    else
        marks_check(validator, node);
}

uint32_t message_empty(const struct validator *validator, const struct message *message)
{
    const struct tree *tree = &validator->tree;
    const uint32_t node = tree_find(tree, message->node, "content");

    return message->calls == NONE_INDEX && node != NONE_INDEX && tree_is_text(tree, node, "") ? node : NONE_INDEX;
}

/* 1 where there is none, or where it is wrong. */
static bool weight_check(struct validator *validator, const struct message *message)
{
    const struct tree *tree = &validator->tree;
    const uint32_t node = tree_find(tree, message->node, "weight");
    const struct tree_node *weight = node != NONE_INDEX ? &tree->nodes[node] : NULL;
    const char *text = weight != NULL ? tree->line + weight->at : "";
    const uint32_t bytes = weight != NULL ? weight->end - weight->at : 0;

    if (weight == NULL)
        return true;
    if (message->role != ROLE_ASSISTANT) {
        if (message->role != ROLE_UNKNOWN)
            issue_node(validator, VALIDATE_WEIGHT_ON_NON_ASSISTANT, node, "\"weight\" is only allowed on assistant messages.");
        return true;
    }
    if (weight->kind == TREE_INTEGER && bytes == 1 && (text[0] == '0' || text[0] == '1'))
        return text[0] == '1';
    if (weight->kind == TREE_INTEGER || weight->kind == TREE_REAL)
        issue_node(validator, VALIDATE_BAD_WEIGHT, node, "\"weight\" must be 0 or 1, got %.*s.", (int)min_u32(bytes, 40), text);
    else
        issue_node(validator, VALIDATE_BAD_WEIGHT, node, "\"weight\" must be the number 0 or 1, got %s%s.",
                   weight->kind == TREE_STRING ? "a " : "", kind_name(weight->kind));
    return true;
}

static void texts_check(struct validator *validator, uint32_t message)
{
    static const char *const names[] = {"name", "refusal", "reasoning_content", "tool_call_id"};
    const struct tree *tree = &validator->tree;

    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        const uint32_t node = tree_find(tree, message, names[i]);

        if (node == NONE_INDEX || tree->nodes[node].kind == TREE_NULL)
            continue;
        if (tree->nodes[node].kind != TREE_STRING)
            issue_node(validator, VALIDATE_KEY_TYPE, node, "\"%s\" must be a string, got %s.", names[i], kind_name(tree->nodes[node].kind));
        else
            marks_check(validator, node);
    }
}

/* The list of calls, if it is one and holds any. */
static uint32_t calls_of(struct validator *validator, const struct message *message)
{
    const struct tree *tree = &validator->tree;
    const uint32_t node = tree_find(tree, message->node, "tool_calls");

    if (node == NONE_INDEX || tree->nodes[node].kind == TREE_NULL)
        return NONE_INDEX;
    if (tree->nodes[node].kind != TREE_ARRAY) {
        issue_node(validator, VALIDATE_TOOL_CALLS_TYPE, node, "\"tool_calls\" must be a list, got %s.", kind_name(tree->nodes[node].kind));
        return NONE_INDEX;
    }
    if (message->role != ROLE_ASSISTANT && message->role != ROLE_UNKNOWN) {
        issue_node(validator, VALIDATE_TOOL_CALLS_ON_NON_ASSISTANT, node, "\"tool_calls\" in a message of the role \"%s\".", roles[message->role]);
        return NONE_INDEX;
    }
    return tree->nodes[node].count > 0 ? node : NONE_INDEX;
}

struct message message_check(struct validator *validator, uint32_t node)
{
    static const char *const names[] = {"role", "content", "name", "weight", "tool_calls", "tool_call_id", "refusal", "reasoning_content", NULL};
    struct message message = {.node = node};

    keys_check(validator, node, names);
    message.role = role_check(validator, node);
    message.calls = calls_of(validator, &message);
    content_check(validator, &message);
    message.learned = weight_check(validator, &message) && message.role == ROLE_ASSISTANT;
    texts_check(validator, node);
    return message;
}

uint32_t messages_check(struct validator *validator, uint32_t list, const char *field, bool *ret_known)
{
    const struct tree *tree = &validator->tree;
    uint32_t count = 0;

    *ret_known = false;
    if (tree->nodes[list].kind != TREE_ARRAY) {
        issue_node(validator, VALIDATE_MESSAGES_NOT_LIST, list, "\"%s\" must be a list, got %s.", field, kind_name(tree->nodes[list].kind));
        return 0;
    }
    if (tree->nodes[list].count == 0) {
        issue_node(validator, VALIDATE_MESSAGES_EMPTY, list, "\"%s\" is empty.", field);
        return 0;
    }
    if (tree->nodes[list].count >= MESSAGES_MAX) {
        issue_node(validator, VALIDATE_TOO_MANY_MESSAGES, list, "\"%s\" has %u messages; at most %d are taken.", field, tree->nodes[list].count,
                   MESSAGES_MAX - 1);
        return 0;
    }
    *ret_known = true;
    for (uint32_t i = tree->nodes[list].first; i != NONE_INDEX; i = tree->nodes[i].next) {
        uint32_t empty;

        if (tree->nodes[i].kind != TREE_OBJECT) {
            issue_node(validator, VALIDATE_MESSAGE_NOT_OBJECT, i, "%s must be an object, got %s.", where_of(validator, i).text, kind_name(tree->nodes[i].kind));
            *ret_known = false;
            continue;
        }
        validator->messages[count] = message_check(validator, i);
        empty = message_empty(validator, &validator->messages[count]);
        if (empty != NONE_INDEX)
            issue_node(validator, VALIDATE_EMPTY_CONTENT, empty, "%s is empty.", where_of(validator, empty).text);
        *ret_known &= validator->messages[count++].role != ROLE_UNKNOWN;
    }
    return count;
}

/* --- turns ------------------------------------------------------------------------------------------------------------------ */

static bool is_system(enum role role)
{
    return role == ROLE_SYSTEM || role == ROLE_DEVELOPER;
}

/* Several tools answer one message, and an assistant whose calls nobody answered is told elsewhere. */
static bool repeats(const struct message *before, const struct message *message)
{
    return before->role == message->role && message->role != ROLE_TOOL && message->role != ROLE_FUNCTION && before->calls == NONE_INDEX;
}

void turns_check(struct validator *validator, uint32_t count)
{
    const struct message *messages = validator->messages;
    bool asked = false;

    for (uint32_t i = 0; i < count; i++) {
        asked |= messages[i].role == ROLE_USER;
        if (i == 0)
            continue;
        if (repeats(&messages[i - 1], &messages[i]))
            issue_node(validator, VALIDATE_CONSECUTIVE_ROLES, messages[i].node, "%s and %s are both \"%s\".",
                       where_of(validator, messages[i - 1].node).text, where_of(validator, messages[i].node).text, roles[messages[i].role]);
        if (is_system(messages[i].role) && !is_system(messages[i - 1].role))
            issue_node(validator, VALIDATE_SYSTEM_NOT_FIRST, messages[i].node, "\"%s\" message at position %u; templates expect it first.",
                       roles[messages[i].role], i);
    }
    if (!asked)
        issue_at(validator, VALIDATE_NO_USER, NO_COLUMN, NONE_INDEX, "No user message.");
}

static void answers_check(struct validator *validator, uint32_t count)
{
    const struct message *messages = validator->messages;
    bool answered = false;
    bool learned = false;

    for (uint32_t i = 0; i < count; i++) {
        answered |= messages[i].role == ROLE_ASSISTANT;
        learned |= messages[i].learned;
    }
    if (!answered)
        issue_at(validator, VALIDATE_NO_ASSISTANT, NO_COLUMN, NONE_INDEX, "No assistant message: nothing to learn from.");
    else if (messages[count - 1].role != ROLE_ASSISTANT)
        issue_node(validator, VALIDATE_LAST_NOT_ASSISTANT, messages[count - 1].node,
                   "Last message is \"%s\"; the last message must be from the assistant.", roles[messages[count - 1].role]);
    if (answered && !learned)
        issue_at(validator, VALIDATE_NO_TRAINABLE_TOKENS, NO_COLUMN, NONE_INDEX, "All assistant messages have weight 0: no trainable tokens.");
}

void chat_check(struct validator *validator, uint32_t root)
{
    static const char *const names[] = {"messages", "tools", "parallel_tool_calls", NULL};
    const struct tree *tree = &validator->tree;
    const uint32_t tools = tree_find(tree, root, "tools");
    bool known;
    uint32_t count;

    keys_check(validator, root, names);
    tools_check(validator, tools);
    count = messages_check(validator, tree_find(tree, root, "messages"), "messages", &known);
    if (!known)
        return;
    calls_check(validator, count, tools);
    turns_check(validator, count);
    answers_check(validator, count);
}
