#include "control/api/chat_ask.h"

#include <stdlib.h>

#include "engine/tokenizer/tokenizer.h"
#include "host/words.h"

#define STOPS_ASKED_MAX 4
#define STOP_TEXT_MAX 256
#define TOOLS_MAX 128
/* As the sampler has them. */
#define BIASES_MAX 300
#define TOP_LOGPROBS_MAX 20
#define MAX_TOKENS_MAX (1 << 22)
/* Stands for 0, which keeps the likeliest token: the sampler takes what is above 0. */
#define TOP_P_LEAST 1e-6
/* Of min_p and of repetition_penalty, whose own bounds are open: below 1, above 0. */
#define MIN_P_MOST 0.999
#define REPETITION_LEAST 0.01

struct reading {
    const json_t *body;
    struct chat_ask *ask;
    struct fault *fault;
};

static bool refused(const struct reading *to, const char *key, const char *why)
{
    fault_set(to->fault, 400, NULL, key, "%s: %s", key, why);
    return false;
}

/* --- values ----------------------------------------------------------------------------------------------------------------- */

static bool read_whole(const struct reading *to, const char *key, const json_t *value, int64_t least, int64_t most, int64_t *ret)
{
    if (json_is_integer(value) && json_integer_value(value) >= least && json_integer_value(value) <= most) {
        *ret = json_integer_value(value);
        return true;
    }
    fault_set(to->fault, 400, NULL, key, "%s: a whole number from %lld to %lld", key, (long long)least, (long long)most);
    return false;
}

static bool read_u32(const struct reading *to, const char *key, const json_t *value, uint32_t least, uint32_t most, uint32_t *ret)
{
    int64_t number = 0;

    if (!read_whole(to, key, value, least, most, &number))
        return false;
    *ret = (uint32_t)number;
    return true;
}

static bool read_flag(const struct reading *to, const char *key, const json_t *value, bool *ret)
{
    if (!json_is_boolean(value))
        return refused(to, key, "true or false");
    *ret = json_is_true(value);
    return true;
}

static bool keep(const struct reading *to, const char *key, json_t *value)
{
    check(json_object_set_new(to->ask->settings, key, value) == 0);
    return true;
}

static bool keep_number(const struct reading *to, const char *key, const json_t *value, double least, double most)
{
    const double number = json_number_value(value);

    if (json_is_number(value) && number >= least && number <= most)
        return keep(to, key, json_real(strcmp(key, "top_p") == 0 && number < TOP_P_LEAST ? TOP_P_LEAST : number));
    fault_set(to->fault, 400, NULL, key, "%s: a number from %g to %g", key, least, most);
    return false;
}

static bool keep_flag(const struct reading *to, const char *key, const json_t *value)
{
    bool ignored;

    return read_flag(to, key, value, &ignored) && keep(to, key, json_copy((json_t *)(uintptr_t)value));
}

/* -1 is how clients say all; here it is 0. */
static bool keep_top_k(const struct reading *to, const char *key, const json_t *value)
{
    int64_t count = 0;

    return read_whole(to, key, value, -1, TOKENIZER_IDS_MAX, &count) && keep(to, key, json_integer(count < 0 ? 0 : count));
}

static bool is_text(const json_t *value)
{
    return json_is_string(value) && strlen(json_string_value(value)) == json_string_length(value);
}

static bool is_stop(const json_t *value)
{
    return json_is_string(value) && json_string_length(value) > 0 && json_string_length(value) <= STOP_TEXT_MAX;
}

static bool read_stop(const struct reading *to, const char *key, const json_t *value)
{
    bool fine = is_stop(value) || (json_is_array(value) && json_array_size(value) <= STOPS_ASKED_MAX);

    for (size_t i = 0; fine && i < json_array_size(value); i++)
        fine = is_stop(json_array_get(value, i));
    if (!fine)
        return refused(to, key, "a text of 1 to 256 bytes, or at most 4 of them");
    return keep(to, key, json_deep_copy(value));
}

static bool is_bias(const char *id, const json_t *add)
{
    char *end;
    const long number = strtol(id, &end, 10);

    return id[0] >= '0' && id[0] <= '9' && *end == '\0' && number < TOKENIZER_IDS_MAX && json_is_number(add) && json_number_value(add) >= -100 &&
           json_number_value(add) <= 100;
}

static bool read_bias(const struct reading *to, const char *key, const json_t *value)
{
    bool fine = json_is_object(value) && json_object_size(value) <= BIASES_MAX;
    const char *id;
    json_t *add;

    if (fine)
        json_object_foreach((json_t *)(uintptr_t)value, id, add)
            fine = fine && is_bias(id, add);
    if (!fine)
        return refused(to, key, "an object of at most 300 token ids, each with a number from -100 to 100");
    return keep(to, key, json_deep_copy(value));
}

static bool read_model(const struct reading *to, const char *key, const json_t *value)
{
    if (!is_text(value) || json_string_length(value) == 0 || json_string_length(value) > HTTP_ID_BYTES_MAX)
        return refused(to, key, "the name of a model; GET /v1/models lists them");
    to->ask->model = json_string_value(value);
    return true;
}

static bool read_max_tokens(const struct reading *to, const char *key, const json_t *value)
{
    if (to->ask->max_tokens != 0)
        return refused(to, key, "max_tokens is its older name: one of the two");
    return read_u32(to, key, value, 1, MAX_TOKENS_MAX, &to->ask->max_tokens);
}

static bool read_seed(const struct reading *to, const char *key, const json_t *value)
{
    to->ask->has_seed = true;
    return read_whole(to, key, value, INT64_MIN, INT64_MAX, &to->ask->seed);
}

static bool read_stream_options(const struct reading *to, const char *key, const json_t *value)
{
    const char *name;
    json_t *option;
    bool ignored;

    if (!json_is_object(value))
        return refused(to, key, "an object with include_usage");
    json_object_foreach((json_t *)(uintptr_t)value, name, option) {
        if (strcmp(name, "include_usage") == 0) {
            if (!read_flag(to, "stream_options.include_usage", option, &to->ask->wants_usage))
                return false;
        } else if (strcmp(name, "include_obfuscation") != 0) {
            return refused(to, key, "it has include_usage, and nothing else here");
        } else if (!read_flag(to, "stream_options.include_obfuscation", option, &ignored)) {
            return false;
        }
    }
    return true;
}

static bool read_format(const struct reading *to, const char *key, const json_t *value)
{
    const char *type = json_string_value(json_object_get(value, "type"));

    if (type != NULL && strcmp(type, "text") == 0 && json_object_size(value) == 1)
        return true;
    return refused(to, key, "only {\"type\": \"text\"}: answers are not held to a grammar here");
}

/* --- chats ------------------------------------------------------------------------------------------------------------------ */

static bool read_tools(const struct reading *to, const char *key, const json_t *value)
{
    bool fine = json_is_array(value) && json_array_size(value) <= TOOLS_MAX;

    for (size_t i = 0; fine && i < json_array_size(value); i++) {
        const json_t *tool = json_array_get(value, i);
        const char *type = json_string_value(json_object_get(tool, "type"));

        fine = type != NULL && strcmp(type, "function") == 0 && is_text(json_object_get(json_object_get(tool, "function"), "name"));
    }
    if (!fine)
        return refused(to, key, "a list of at most 128 {\"type\": \"function\", \"function\": {\"name\", ...}}");
    to->ask->tools = json_array_size(value) > 0 ? value : NULL;
    return true;
}

/* After tools: what the model is not to call it is not shown. */
static bool read_tool_choice(const struct reading *to, const char *key, const json_t *value)
{
    const char *choice = json_string_value(value);

    if (choice != NULL && strcmp(choice, "none") == 0)
        to->ask->tools = NULL;
    else if (choice == NULL || strcmp(choice, "auto") != 0)
        return refused(to, key, "\"none\" or \"auto\": a call cannot be forced here");
    return true;
}

static bool read_wants_logprobs(const struct reading *to, const char *key, const json_t *value)
{
    return read_flag(to, key, value, &to->ask->wants_logprobs);
}

static bool read_top_logprobs(const struct reading *to, const char *key, const json_t *value)
{
    if (!json_is_true(json_object_get(to->body, "logprobs")))
        return refused(to, key, "with logprobs: true");
    return read_u32(to, key, value, 0, TOP_LOGPROBS_MAX, &to->ask->top_logprobs);
}

static bool wrong_message(const struct reading *to, size_t index, const char *why)
{
    fault_set(to->fault, 400, NULL, "messages", "messages[%zu]: %s", index, why);
    return false;
}

static bool is_role(const char *role)
{
    static const char *const roles[] = {"system", "developer", "user", "assistant", "tool", "function"};

    for (size_t i = 0; role != NULL && i < ARRAY_COUNT(roles); i++)
        if (strcmp(role, roles[i]) == 0)
            return true;
    return false;
}

/* A text, or parts that are texts: templates know texts, as do the files that models learn from. NULL: neither. */
static json_t *content_text(const json_t *content)
{
    struct token_text text = {0};
    json_t *joined;
    bool fine = json_is_array(content);

    if (json_is_string(content))
        return json_copy((json_t *)(uintptr_t)content);
    for (size_t i = 0; fine && i < json_array_size(content); i++) {
        const json_t *part = json_array_get(content, i);
        const char *type = json_string_value(json_object_get(part, "type"));
        const json_t *words = json_object_get(part, "text");

        fine = type != NULL && strcmp(type, "text") == 0 && json_is_string(words);
        if (fine)
            token_text_add(&text, json_string_value(words), json_string_length(words));
    }
    joined = fine ? json_stringn(text.bytes != NULL ? text.bytes : "", text.count) : NULL;
    token_text_free(&text);
    return joined;
}

static bool are_calls(const json_t *calls)
{
    bool fine = json_is_array(calls) && json_array_size(calls) > 0;

    for (size_t i = 0; fine && i < json_array_size(calls); i++) {
        const json_t *function = json_object_get(json_array_get(calls, i), "function");

        fine = json_is_string(json_object_get(function, "name")) && json_is_string(json_object_get(function, "arguments"));
    }
    return fine;
}

/* One field of a message, into its copy. Nulls are what is not there. */
static bool read_field(const struct reading *to, size_t index, const char *key, json_t *value, json_t *copy)
{
    static const char *const texts[] = {"role", "name", "refusal", "reasoning_content", "tool_call_id"};
    char shown[EXCERPT_MAX];
    json_t *content;

    if (json_is_null(value))
        return true;
    if (strcmp(key, "content") == 0) {
        content = content_text(value);
        if (content == NULL)
            return wrong_message(to, index, "content is a text, or a list of {\"type\": \"text\", \"text\"}; there are no pictures or sounds here");
        return json_object_set_new(copy, key, content) == 0;
    }
    if (strcmp(key, "tool_calls") == 0)
        return are_calls(value) ? json_object_set(copy, key, value) == 0
                                : wrong_message(to, index, "tool_calls is a list of {\"id\", \"type\", \"function\": {\"name\", \"arguments\": a text}}");
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++)
        if (strcmp(key, texts[i]) == 0)
            return json_is_string(value) ? json_object_set(copy, key, value) == 0 : wrong_message(to, index, "its fields beside content and tool_calls are texts");
    fault_set(to->fault, 400, NULL, "messages", "messages[%zu] has an unknown key '%s'", index, excerpt(key, strlen(key), shown));
    return false;
}

static bool read_message(const struct reading *to, size_t index, const json_t *message)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    json_t *copy = json_object();
    const char *key;
    json_t *value;

    check(copy != NULL && json_array_append_new(to->ask->messages, copy) == 0);
    if (!json_is_object(message) || !is_role(role))
        return wrong_message(to, index, "an object with role (system, developer, user, assistant, tool) and content");
    json_object_foreach((json_t *)(uintptr_t)message, key, value)
        if (!read_field(to, index, key, value, copy))
            return false;
    if (json_object_get(copy, "content") != NULL)
        return true;
    if (strcmp(role, "assistant") != 0 || json_object_get(copy, "tool_calls") == NULL)
        return wrong_message(to, index, "content is missing; only an assistant with tool_calls needs none");
    return json_object_set_new(copy, "content", json_null()) == 0;
}

static bool read_messages(const struct reading *to, const char *key, const json_t *value)
{
    bool fine = json_is_array(value) && json_array_size(value) > 0;

    if (!fine)
        return refused(to, key, "a list of objects with role and content");
    for (size_t i = 0; fine && i < json_array_size(value); i++)
        fine = read_message(to, i, json_array_get(value, i));
    return fine;
}

/* --- completions ------------------------------------------------------------------------------------------------------------ */

static bool are_ids(const json_t *list)
{
    bool fine = json_array_size(list) > 0;

    for (size_t i = 0; fine && i < json_array_size(list); i++) {
        const json_t *id = json_array_get(list, i);

        fine = json_is_integer(id) && json_integer_value(id) >= 0 && json_integer_value(id) < TOKENIZER_IDS_MAX;
    }
    return fine;
}

static bool read_prompt(const struct reading *to, const char *key, const json_t *value)
{
    const bool several = json_array_size(value) > 0 && !json_is_integer(json_array_get(value, 0));
    bool fine = json_is_string(value) || several || are_ids(value);

    for (size_t i = 0; several && fine && i < json_array_size(value); i++) {
        const json_t *prompt = json_array_get(value, i);

        fine = json_is_string(prompt) || are_ids(prompt);
    }
    to->ask->prompt = value;
    to->ask->prompts = several ? (uint32_t)min_u64(json_array_size(value), UINT32_MAX) : 1;
    return fine || refused(to, key, "a text, a list of token ids, or a list of either");
}

static bool read_text_logprobs(const struct reading *to, const char *key, const json_t *value)
{
    to->ask->wants_logprobs = true;
    return read_u32(to, key, value, 0, 5, &to->ask->top_logprobs);
}

static bool read_best_of(const struct reading *to, const char *key, const json_t *value)
{
    uint32_t best_of;

    if (!read_u32(to, key, value, 1, ASK_CHOICES_MAX, &best_of))
        return false;
    return best_of == to->ask->choices || refused(to, key, "as many as n: all that is made is given");
}

static bool read_echo(const struct reading *to, const char *key, const json_t *value)
{
    return json_is_false(value) || refused(to, key, "false: prompts are not said again");
}

static bool read_suffix(const struct reading *to, const char *key, const json_t *value)
{
    (void)value;
    return refused(to, key, "not here: models continue a text at its end");
}

/* --- what changes nothing --------------------------------------------------------------------------------------------------- */

static bool pass(const struct reading *to, const char *key, const json_t *value)
{
    (void)to, (void)key, (void)value;
    return true;
}

static bool pass_false(const struct reading *to, const char *key, const json_t *value)
{
    return json_is_false(value) || refused(to, key, "false: answers are not stored");
}

static bool pass_tier(const struct reading *to, const char *key, const json_t *value)
{
    const char *tier = json_string_value(value);

    return (tier != NULL && (strcmp(tier, "auto") == 0 || strcmp(tier, "default") == 0)) || refused(to, key, "\"auto\": there is one tier");
}

static bool pass_text_modality(const struct reading *to, const char *key, const json_t *value)
{
    const char *one = json_string_value(json_array_get(value, 0));

    return (json_array_size(value) == 1 && one != NULL && strcmp(one, "text") == 0) || refused(to, key, "[\"text\"]");
}

/* --- all of them ------------------------------------------------------------------------------------------------------------ */

/* Key, of chats, of completions, how it is read. Read in this order, whatever the body's. */
#define KEYS(X)                                                                                     \
    X(model, 1, 1, read_model(to, key, value))                                                      \
    X(messages, 1, 0, read_messages(to, key, value))                                                \
    X(prompt, 0, 1, read_prompt(to, key, value))                                                    \
    X(n, 1, 1, read_u32(to, key, value, 1, ASK_CHOICES_MAX, &to->ask->choices))                     \
    X(best_of, 0, 1, read_best_of(to, key, value))                                                  \
    X(stream, 1, 1, read_flag(to, key, value, &to->ask->streams))                                   \
    X(stream_options, 1, 1, read_stream_options(to, key, value))                                    \
    X(max_tokens, 1, 1, read_max_tokens(to, key, value))                                            \
    X(max_completion_tokens, 1, 0, read_max_tokens(to, key, value))                                 \
    X(temperature, 1, 1, keep_number(to, key, value, 0, 2))                                         \
    X(top_p, 1, 1, keep_number(to, key, value, 0, 1))                                               \
    X(top_k, 1, 1, keep_top_k(to, key, value))                                                      \
    X(min_p, 1, 1, keep_number(to, key, value, 0, MIN_P_MOST))                                      \
    X(repetition_penalty, 1, 1, keep_number(to, key, value, REPETITION_LEAST, 10))                  \
    X(ignore_eos, 1, 1, keep_flag(to, key, value))                                                  \
    X(presence_penalty, 1, 1, keep_number(to, key, value, -2, 2))                                   \
    X(frequency_penalty, 1, 1, keep_number(to, key, value, -2, 2))                                  \
    X(logit_bias, 1, 1, read_bias(to, key, value))                                                  \
    X(stop, 1, 1, read_stop(to, key, value))                                                        \
    X(seed, 1, 1, read_seed(to, key, value))                                                        \
    X(logprobs, 1, 1, to->ask->is_chat ? read_wants_logprobs(to, key, value) : read_text_logprobs(to, key, value)) \
    X(top_logprobs, 1, 0, read_top_logprobs(to, key, value))                                        \
    X(response_format, 1, 0, read_format(to, key, value))                                           \
    X(tools, 1, 0, read_tools(to, key, value))                                                      \
    X(tool_choice, 1, 0, read_tool_choice(to, key, value))                                          \
    X(echo, 0, 1, read_echo(to, key, value))                                                        \
    X(suffix, 0, 1, read_suffix(to, key, value))                                                    \
    X(parallel_tool_calls, 1, 0, pass(to, key, value))                                              \
    X(user, 1, 1, pass(to, key, value))                                                             \
    X(safety_identifier, 1, 0, pass(to, key, value))                                                \
    X(prompt_cache_key, 1, 0, pass(to, key, value))                                                 \
    X(metadata, 1, 0, pass(to, key, value))                                                         \
    X(store, 1, 0, pass_false(to, key, value))                                                      \
    X(service_tier, 1, 0, pass_tier(to, key, value))                                                \
    X(modalities, 1, 0, pass_text_modality(to, key, value))

#define X(name, chat, text, read) \
    static bool take_##name(const struct reading *to, const char *key, const json_t *value) { return read; }
KEYS(X)
#undef X

static const struct key {
    const char *name;
    bool of_chats, of_texts;
    bool (*read)(const struct reading *to, const char *key, const json_t *value);
} keys[] = {
#define X(name, chat, text, read) {#name, chat, text, take_##name},
    KEYS(X)
#undef X
};

static bool is_key(const char *name, bool is_chat)
{
    for (size_t i = 0; i < ARRAY_COUNT(keys); i++)
        if (strcmp(keys[i].name, name) == 0)
            return is_chat ? keys[i].of_chats : keys[i].of_texts;
    return false;
}

static bool refuse_unknown(const struct reading *to, const char *name)
{
    struct suggestion suggestion;
    char shown[EXCERPT_MAX];
    const char *near;

    suggestion_begin(&suggestion, name, strlen(name));
    for (size_t i = 0; i < ARRAY_COUNT(keys); i++)
        if (is_key(keys[i].name, to->ask->is_chat))
            suggest(&suggestion, keys[i].name, strlen(keys[i].name));
    near = suggestion_answer(&suggestion);
    fault_set(to->fault, 400, "unknown_parameter", name, "'%s' is not known here, or cannot be done%s%s%s", excerpt(name, strlen(name), shown),
              near != NULL ? "; did you mean " : "", near != NULL ? near : "", near != NULL ? "?" : "");
    return false;
}

static bool read_all(const struct reading *to)
{
    const struct chat_ask *ask = to->ask;
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)to->body, name, value)
        if (!is_key(name, ask->is_chat) && !json_is_null(value))
            return refuse_unknown(to, name);
    for (size_t i = 0; i < ARRAY_COUNT(keys); i++) {
        value = json_object_get(to->body, keys[i].name);
        if (value != NULL && !json_is_null(value) && !keys[i].read(to, keys[i].name, value))
            return false;
    }
    if (ask->model == NULL)
        return refused(to, "model", "it is missing; GET /v1/models lists what there is");
    if (ask->is_chat && json_array_size(ask->messages) == 0)
        return refused(to, "messages", "they are missing");
    if (!ask->is_chat && ask->prompt == NULL)
        return refused(to, "prompt", "it is missing");
    if (ask->wants_usage && !ask->streams)
        return refused(to, "stream_options", "with stream: true");
    return (uint64_t)ask->prompts * ask->choices <= ASK_CHOICES_MAX || refused(to, "n", "at most 128 answers in all, prompts times n");
}

bool chat_ask_read(const json_t *body, bool is_chat, struct chat_ask *ret_ask, struct fault *fault)
{
    struct reading to = {.body = body, .ask = ret_ask, .fault = fault};

    *ret_ask = (struct chat_ask){.is_chat = is_chat, .prompts = 1, .choices = 1, .settings = json_object(), .messages = json_array()};
    check(ret_ask->settings != NULL && ret_ask->messages != NULL);
    /* OpenAI's default; the worker's own is to take the likeliest. */
    check(json_object_set_new(ret_ask->settings, "temperature", json_real(1)) == 0);
    if (!read_all(&to)) {
        chat_ask_free(ret_ask);
        return false;
    }
    if (ret_ask->wants_logprobs)
        (void)keep(&to, "logprobs", json_integer(ret_ask->top_logprobs));
    if (!is_chat && ret_ask->max_tokens == 0)
        ret_ask->max_tokens = ASK_TEXT_TOKENS_DEFAULT;
    if (!ret_ask->has_seed)
        ret_ask->seed = (int64_t)((uint64_t)randombytes_random() << 31 ^ randombytes_random());
    return true;
}

void chat_ask_free(struct chat_ask *ask)
{
    json_decref(ask->settings);
    json_decref(ask->messages);
    *ask = (struct chat_ask){0};
}

char *chat_ask_settings(const struct chat_ask *ask, uint32_t choice)
{
    const int64_t seed = (int64_t)((uint64_t)ask->seed + choice % ask->choices);
    json_t *settings = json_copy(ask->settings);
    char *text;

    check(settings != NULL && json_object_set_new(settings, "seed", json_integer(seed)) == 0);
    text = json_dumps(settings, JSON_COMPACT);
    json_decref(settings);
    check(text != NULL);
    return text;
}
