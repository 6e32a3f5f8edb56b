/* Examples of the method dpo: OpenAI's input, preferred_output and non_preferred_output, or prompt, chosen and rejected. */
#include "validate/internal.h"

struct names {
    const char *prompt, *side[2];
    const char *const *keys;
};
static const char *const openai_keys[] = {"input", "preferred_output", "non_preferred_output", NULL};
static const char *const plain_keys[] = {"prompt", "chosen", "rejected", "tools", NULL};
static const struct names openai = {"input", {"preferred_output", "non_preferred_output"}, openai_keys};
static const struct names plain = {"prompt", {"chosen", "rejected"}, plain_keys};

static bool keys_are_there(struct validator *validator, uint32_t root, const struct names *names)
{
    const char *const wanted[] = {names->prompt, names->side[0], names->side[1]};
    bool there = true;

    for (size_t i = 0; i < ARRAY_COUNT(wanted); i++)
        if (tree_find(&validator->tree, root, wanted[i]) == NONE_INDEX) {
            issue_at(validator, VALIDATE_MISSING_KEY, NO_COLUMN, NONE_INDEX, "Missing required key \"%s\".", wanted[i]);
            there = false;
        }
    return there;
}

static void prompt_check(struct validator *validator, uint32_t list, const char *field, uint32_t tools)
{
    bool known;
    const uint32_t count = messages_check(validator, list, field, &known);

    if (!known)
        return;
    calls_check(validator, count, tools);
    turns_check(validator, count);
    if (validator->messages[count - 1].role == ROLE_ASSISTANT)
        issue_node(validator, VALIDATE_INPUT_ENDS_WITH_ASSISTANT, validator->messages[count - 1].node, "%s must not end with an assistant message.", field);
}

/* A list of one assistant's message. */
static void side_check(struct validator *validator, uint32_t node, const char *field, uint32_t tools)
{
    const struct tree *tree = &validator->tree;
    const uint32_t first = tree->nodes[node].first;
    struct message *message = &validator->messages[0];
    uint32_t empty;

    if (tree->nodes[node].kind != TREE_ARRAY || tree->nodes[node].count != 1) {
        issue_node(validator, VALIDATE_PREFERENCE_NOT_SINGLE, node, "%s must hold exactly one assistant message.", field);
        return;
    }
    if (tree->nodes[first].kind != TREE_OBJECT) {
        issue_node(validator, VALIDATE_MESSAGE_NOT_OBJECT, first, "%s[0] must be an object, got %s.", field, kind_name(tree->nodes[first].kind));
        return;
    }
    *message = message_check(validator, first);
    if (message->role != ROLE_ASSISTANT) {
        if (message->role != ROLE_UNKNOWN)
            issue_node(validator, VALIDATE_BAD_ROLE, first, "%s[0] must be an assistant message.", field);
        return;
    }
    calls_check(validator, 1, tools);
    empty = message_empty(validator, message);
    if (empty != NONE_INDEX)
        issue_node(validator, VALIDATE_PREFERENCE_EMPTY, empty, "%s[0] is empty.", field);
}

static void text_check(struct validator *validator, uint32_t node, const char *field)
{
    if (validator->tree.nodes[node].kind != TREE_STRING)
        issue_node(validator, VALIDATE_PREFERENCE_TYPE, node, "\"%s\" must be a string, as the prompt is, got %s.", field,
                   kind_name(validator->tree.nodes[node].kind));
    else if (validator->tree.nodes[node].text_bytes == 0)
        issue_node(validator, VALIDATE_PREFERENCE_EMPTY, node, "\"%s\" is empty.", field);
    else
        marks_check(validator, node);
}

static void input_check(struct validator *validator, uint32_t input, uint32_t *ret_tools)
{
    static const char *const names[] = {"messages", "tools", "parallel_tool_calls", NULL};
    const struct tree *tree = &validator->tree;
    const uint32_t messages = tree_find(tree, input, "messages");

    if (tree->nodes[input].kind != TREE_OBJECT) {
        issue_node(validator, VALIDATE_PREFERENCE_TYPE, input, "\"input\" must be an object, got %s.", kind_name(tree->nodes[input].kind));
        return;
    }
    keys_check(validator, input, names);
    *ret_tools = tree_find(tree, input, "tools");
    tools_check(validator, *ret_tools);
    if (messages == NONE_INDEX)
        issue_node(validator, VALIDATE_MISSING_MESSAGES, input, "Missing required key \"messages\" in input.");
    else
        prompt_check(validator, messages, "input.messages", *ret_tools);
}

void preference_check(struct validator *validator, uint32_t root, enum format format)
{
    const struct names *names = format == FORMAT_PREFERENCE ? &openai : &plain;
    const struct tree *tree = &validator->tree;
    const uint32_t prompt = tree_find(tree, root, names->prompt);
    uint32_t tools = tree_find(tree, root, "tools");
    bool text;

    keys_check(validator, root, names->keys);
    if (!keys_are_there(validator, root, names))
        return;
    text = names == &plain && tree->nodes[prompt].kind == TREE_STRING;
    if (text) {
        marks_check(validator, prompt);
    } else if (names == &openai) {
        tools = NONE_INDEX;
        input_check(validator, prompt, &tools);
    } else {
        tools_check(validator, tools);
        prompt_check(validator, prompt, "prompt", tools);
    }
    for (int i = 0; i < 2; i++) {
        const uint32_t side = tree_find(tree, root, names->side[i]);

        if (text)
            text_check(validator, side, names->side[i]);
        else
            side_check(validator, side, names->side[i], tools);
    }
}
