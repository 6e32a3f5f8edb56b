/* Preferences into pairs of samples: the preferred answer, then the other, each behind the same prompt. */
#include "engine/train/data/internal.h"

/* What to call the parts, by the kind of example. */
struct names {
    const char *prompt, *side[2];
};
static const struct names openai = {"input.messages", {"preferred_output", "non_preferred_output"}};
static const struct names plain = {"prompt", {"chosen", "rejected"}};

static bool is_assistant(const json_t *message)
{
    const char *role = json_string_value(json_object_get(message, "role"));

    return role != NULL && strcmp(role, "assistant") == 0;
}

static enum status check_prompt(struct data_reader *reader, const char *field, const json_t *messages)
{
    const size_t count = json_array_size(messages);
    bool learned;

    if (!json_is_array(messages) || count == 0 || count >= DATA_MESSAGES_MAX)
        return data_fault(reader, "%s: a list of 1 to %d objects is wanted", field, DATA_MESSAGES_MAX - 1);
    for (size_t i = 0; i < count; i++)
        if (data_message(reader, field, json_array_get(messages, i), i, &learned) != STATUS_OK)
            return STATUS_INVALID;
    if (is_assistant(json_array_get(messages, count - 1)))
        return data_fault(reader, "%s: ends with an assistant's message, and both answers come behind it", field);
    return STATUS_OK;
}

static enum status check_side(struct data_reader *reader, const char *field, const json_t *side)
{
    json_t *message = json_array_get(side, 0);
    const json_t *content = json_object_get(message, "content");
    bool learned;

    if (json_array_size(side) != 1)
        return data_fault(reader, "%s: a list of one assistant's message is wanted", field);
    if (data_message(reader, field, message, 0, &learned) != STATUS_OK)
        return STATUS_INVALID;
    if (!is_assistant(message))
        return data_fault(reader, "%s[0].role: assistant is wanted", field);
    if (json_string_length(content) == 0 && json_array_size(json_object_get(message, "tool_calls")) == 0)
        return data_fault(reader, "%s[0].content: empty", field);
    return STATUS_OK;
}

/* A side as a chat of its own. */
static enum status add_side(struct data_reader *reader, const char *field, const json_t *messages, const json_t *side, json_t *tools)
{
    json_t *all = json_array();
    json_t *chat = json_pack("{s:o}", "messages", all);
    enum status status;

    check(all != NULL && chat != NULL);
    check(json_array_extend(all, (json_t *)(uintptr_t)messages) == 0 && json_array_append(all, json_array_get(side, 0)) == 0);
    if (tools != NULL)
        check(json_object_set(chat, "tools", tools) == 0);
    status = data_answer(reader, chat, field);
    json_decref(chat);
    return status;
}

static enum status add_chats(struct data_reader *reader, const struct names *names, const json_t *messages, const json_t *const sides[2],
                             json_t *tools)
{
    enum status status = data_has_template(reader, names->prompt);

    if (status == STATUS_OK)
        status = check_prompt(reader, names->prompt, messages);
    for (int i = 0; i < 2 && status == STATUS_OK; i++)
        status = check_side(reader, names->side[i], sides[i]);
    for (int i = 0; i < 2 && status == STATUS_OK; i++)
        status = add_side(reader, names->side[i], messages, sides[i], tools);
    return status;
}

/* A margin between equal answers is nothing, whatever is learned: such a pair is left out. `cut`: how many samples before it were. */
static void leave_out_equal(struct data_reader *reader, int32_t cut)
{
    struct data_set *set = reader->set;
    const struct data_sample *pair = &set->sample[set->count - 2];

    if (reader->source->equal_too || pair[0].tokens != pair[1].tokens ||
        memcmp(set->tokens + pair[0].at, set->tokens + pair[1].at, (size_t)pair[0].tokens * sizeof(set->tokens[0])) != 0)
        return;
    set->tokens_count = pair[0].at;
    set->targets_count -= pair[0].targets + pair[1].targets;
    set->cut = cut;
    set->count -= 2;
    set->examples--;
    set->equal++;
}

static enum status check_input(struct data_reader *reader, json_t *input)
{
    const char *key;
    json_t *value;

    if (!json_is_object(input))
        return data_fault(reader, "input: an object is wanted");
    json_object_foreach(input, key, value)
        if (strcmp(key, "messages") != 0 && strcmp(key, "tools") != 0 && strcmp(key, "parallel_tool_calls") != 0)
            return data_fault(reader, "input.%.40s: no such key", key);
    return STATUS_OK;
}

enum status data_preference(struct data_reader *reader, const json_t *example)
{
    const struct names *names = reader->kind == DATA_PREFERENCE ? &openai : &plain;
    json_t *input = json_object_get(example, "input");
    const json_t *prompt = names == &openai ? json_object_get(input, "messages") : json_object_get(example, "prompt");
    json_t *tools = json_object_get(names == &openai ? input : example, "tools");
    const json_t *const sides[2] = {json_object_get(example, names->side[0]), json_object_get(example, names->side[1])};
    const int32_t cut = reader->set->cut;
    enum status status = names == &openai ? check_input(reader, input) : STATUS_OK;

    for (int i = 0; i < 2 && status == STATUS_OK; i++)
        if (sides[i] == NULL)
            status = data_fault(reader, "%s: missing", names->side[i]);
    if (status == STATUS_OK && json_is_string(prompt)) {
        for (int i = 0; i < 2 && status == STATUS_OK; i++)
            status = data_texts(reader, prompt, sides[i], names->side[i]);
    } else if (status == STATUS_OK)
        status = add_chats(reader, names, prompt, sides, tools);
    if (status == STATUS_OK)
        leave_out_equal(reader, cut);
    return status;
}
