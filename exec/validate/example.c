/* Which kind of example a line is, and what it may hold. Kinds that are not wanted are told once, at their first line. */
#include "host/words.h"
#include "validate/internal.h"

const char *kind_name(enum tree_kind kind)
{
    static const char *const names[] = {[TREE_OBJECT] = "object", [TREE_ARRAY] = "array", [TREE_STRING] = "string", [TREE_INTEGER] = "number",
                                        [TREE_REAL] = "number", [TREE_TRUE] = "true", [TREE_FALSE] = "false", [TREE_NULL] = "null"};

    return names[kind];
}

void keys_check(struct validator *validator, uint32_t object, const char *const *names)
{
    const struct tree *tree = &validator->tree;
    char where[96];

    for (uint32_t i = tree->nodes[object].first; i != NONE_INDEX; i = tree->nodes[i].next) {
        const struct tree_node *node = &tree->nodes[i];
        struct suggestion suggestion;
        const char *near;
        bool known = false;
        size_t issue;

        for (const char *const *name = names; *name != NULL && !known; name++)
            known = tree_key_is(node, *name);
        if (known || issue_beyond(validator, VALIDATE_UNRECOGNIZED_KEY))
            continue;
        suggestion_begin(&suggestion, node->key, node->key_bytes);
        for (const char *const *name = names; *name != NULL; name++)
            suggest(&suggestion, *name, strlen(*name));
        near = suggestion_answer(&suggestion);
        tree_path(tree, object, where, sizeof(where));
        issue = issue_key(validator, VALIDATE_UNRECOGNIZED_KEY, i, "Unknown key \"%.*s\"%s%s.%s%s%s", (int)min_u32(node->key_bytes, 40), node->key,
                          where[0] != '\0' ? " in " : "", where, near != NULL ? " Is \"" : "", near != NULL ? near : "", near != NULL ? "\" meant?" : "");
        if (issue != SIZE_MAX && tree_key_is(node, "function_call"))
            validator->issues[issue].hint = "Write it as tool_calls.";
    }
}

/* --- kinds ------------------------------------------------------------------------------------------------------------------ */

/* By the keys that tell kinds apart, the surest first. */
static enum format format_of(const struct tree *tree)
{
    static const struct {
        const char *key;
        enum format format;
    } tells[] = {{"messages", FORMAT_CHAT},         {"preferred_output", FORMAT_PREFERENCE}, {"non_preferred_output", FORMAT_PREFERENCE},
                 {"chosen", FORMAT_CHOICE},         {"rejected", FORMAT_CHOICE},             {"conversations", FORMAT_SHAREGPT},
                 {"completion", FORMAT_PAIR},       {"instruction", FORMAT_RENAMED},         {"question", FORMAT_RENAMED},
                 {"output", FORMAT_RENAMED},        {"response", FORMAT_RENAMED},            {"answer", FORMAT_RENAMED},
                 {"text", FORMAT_RENAMED},          {"prompt", FORMAT_PAIR},                 {"user", FORMAT_RENAMED},
                 {"input", FORMAT_PREFERENCE}};

    for (size_t i = 0; i < ARRAY_COUNT(tells); i++)
        if (tree_find(tree, 0, tells[i].key) != NONE_INDEX)
            return tells[i].format;
    return FORMAT_UNKNOWN;
}

static bool is_wanted(const struct validator *validator, enum format format)
{
    if (validator->config.preferences)
        return format == FORMAT_CHOICE || (format == FORMAT_PREFERENCE && validator->chats);
    if (validator->config.any_base)
        return format == FORMAT_CHAT || format == FORMAT_PAIR;
    return format == (validator->chats ? FORMAT_CHAT : FORMAT_PAIR);
}

/* "a", "b", "c": as many keys as a message has room for. */
static const char *keys_text(const struct tree *tree, char ret_text[120])
{
    size_t used = 0;

    ret_text[0] = '\0';
    for (uint32_t i = tree->nodes[0].first; i != NONE_INDEX && used + 48 < 120; i = tree->nodes[i].next)
        used += (size_t)snprintf(ret_text + used, 120 - used, "%s\"%.*s\"", used > 0 ? ", " : "", (int)min_u32(tree->nodes[i].key_bytes, 30),
                                 tree->nodes[i].key);
    return used > 0 ? ret_text : "none";
}

static const char *const kinds[FORMAT_COUNT] = {
    [FORMAT_CHAT] = "chat", [FORMAT_PAIR] = "prompt/completion", [FORMAT_PREFERENCE] = "preference (DPO)",
    [FORMAT_CHOICE] = "preference (DPO; prompt, chosen, rejected)", [FORMAT_SHAREGPT] = "ShareGPT", [FORMAT_RENAMED] = "another", [FORMAT_UNKNOWN] = "unknown"};

/* One issue for all lines of the kind: a whole file of them is one mistake. */
static size_t foreign_issue(struct validator *validator, enum format format)
{
    const char *method = validator->config.preferences ? "dpo" : "supervised";
    char keys[120];

    if (format == FORMAT_SHAREGPT)
        return issue_at(validator, VALIDATE_SHAREGPT_FORMAT, NO_COLUMN, NONE_INDEX,
                        "File is in ShareGPT format (\"conversations\"/\"from\"/\"value\"); expected \"messages\"/\"role\"/\"content\".");
    if (format == FORMAT_RENAMED)
        return issue_at(validator, VALIDATE_RENAMED_COLUMNS, NO_COLUMN, NONE_INDEX, "Line has other columns (%s); expected %s.",
                        keys_text(&validator->tree, keys),
                        validator->config.preferences ? "\"input\", \"preferred_output\" and \"non_preferred_output\""
                                                      : validator->chats ? "\"messages\"" : "\"prompt\" and \"completion\"");
    if ((format == FORMAT_CHAT && !validator->config.preferences) || (format == FORMAT_PREFERENCE && validator->config.preferences))
        return issue_at(validator, VALIDATE_NO_CHAT_TEMPLATE, NO_COLUMN, NONE_INDEX, "File is of chats, and this model has no chat template.");
    if (format == FORMAT_PAIR && !validator->config.preferences)
        return issue_at(validator, VALIDATE_LEGACY_FORMAT, NO_COLUMN, NONE_INDEX,
                        "File is in prompt/completion format; chat models need \"messages\". Convert each line to a user and an assistant message.");
    return issue_at(validator, VALIDATE_WRONG_METHOD, NO_COLUMN, NONE_INDEX, "File is in %s format but method.type is \"%s\".", kinds[format], method);
}

static void foreign_line(struct validator *validator, enum format format)
{
    if (validator->foreign[format]++ == 0)
        validator->foreign_issue[format] = foreign_issue(validator, format);
    validator->line_errors++;
}

static void unknown_line(struct validator *validator)
{
    char keys[120];

    if (validator->config.preferences)
        issue_at(validator, VALIDATE_MISSING_KEY, NO_COLUMN, NONE_INDEX, "Missing required key \"input\" (found: %s).", keys_text(&validator->tree, keys));
    else if (validator->chats)
        issue_at(validator, VALIDATE_MISSING_MESSAGES, NO_COLUMN, NONE_INDEX, "Missing required key \"messages\" (found: %s).",
                 keys_text(&validator->tree, keys));
    else
        issue_at(validator, VALIDATE_MISSING_KEY, NO_COLUMN, NONE_INDEX, "Missing required key \"prompt\" (found: %s).",
                 keys_text(&validator->tree, keys));
}

/* --- pairs, of models that know no chats ------------------------------------------------------------------------------------ */

static void pair_check(struct validator *validator)
{
    static const char *const names[] = {"prompt", "completion", NULL};
    const struct tree *tree = &validator->tree;

    keys_check(validator, 0, names);
    for (const char *const *name = names; *name != NULL; name++) {
        const uint32_t node = tree_find(tree, 0, *name);

        if (node == NONE_INDEX)
            issue_at(validator, VALIDATE_MISSING_KEY, NO_COLUMN, NONE_INDEX, "Missing required key \"%s\".", *name);
        else if (tree->nodes[node].kind != TREE_STRING)
            issue_node(validator, VALIDATE_KEY_TYPE, node, "\"%s\" must be a string, got %s.", *name, kind_name(tree->nodes[node].kind));
        else if (tree->nodes[node].text_bytes == 0 && name == &names[1])
            issue_node(validator, VALIDATE_MISSING_CONTENT, node, "\"completion\" is empty: nothing to learn from.");
        else
            marks_check(validator, node);
    }
}

void example_check(struct validator *validator)
{
    const enum format format = format_of(&validator->tree);

    if (format == FORMAT_UNKNOWN) {
        unknown_line(validator);
        return;
    }
    if (!is_wanted(validator, format)) {
        foreign_line(validator, format);
        return;
    }
    if (validator->format == FORMAT_UNKNOWN)
        validator->format = format;
    if (validator->format != format)
        issue_at(validator, VALIDATE_MIXED_FORMAT, NO_COLUMN, NONE_INDEX, "Line is in %s format, the lines before in %s.", kinds[format],
                 kinds[validator->format]);
    switch (format) {
    case FORMAT_CHAT: chat_check(validator, 0); break;
    case FORMAT_PAIR: pair_check(validator); break;
    default: preference_check(validator, 0, format); break;
    }
    if (validator->line_errors == 0)
        set_add(validator, 0, format);
}

void example_end(struct validator *validator)
{
    for (enum format format = 0; format < FORMAT_COUNT; format++) {
        const size_t issue = validator->foreign_issue[format];
        char message[sizeof(validator->issues[0].message)];
        char lines[NUMBER_TEXT_MAX];

        if (validator->foreign[format] < 2 || issue == SIZE_MAX)
            continue;
        memcpy(message, validator->issues[issue].message, sizeof(message));
        issue_rewrite(validator, issue, NULL, "%s (%s lines)", message, count_text((uint64_t)validator->foreign[format], lines));
    }
}
