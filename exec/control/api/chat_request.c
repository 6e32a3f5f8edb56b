/* What was asked of a model, read strictly: what changes an answer is known and checked, what changes nothing here is on a list, and all else is
 * refused by its name, for a setting that is silently left out gives another answer than was asked for. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "control/api/chat.h"

/* --- which keys there are --------------------------------------------------------------------------------------------------- */

/* Clients send these, and nothing here depends on them. */
static const char *const without_effect[] = {"user", "metadata", "service_tier", "parallel_tool_calls", "safety_identifier", "prompt_cache_key",
                                             "store"};
static const char *const of_both[] = {"model", "n", "stream", "stream_options", "logprobs", "stop", "seed", "max_tokens", "temperature", "top_p",
                                      "top_k", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty", "logit_bias",
                                      "ignore_eos"};
static const char *const of_chats[] = {"messages", "max_completion_tokens", "top_logprobs", "tools", "tool_choice", "response_format",
                                       "modalities"};
static const char *const of_completions[] = {"prompt", "echo", "best_of"};

static bool is_in(const char *name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

static bool check_keys(const json_t *body, bool is_chat, struct fault *fault)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)body, key, value) {
        const bool known = is_in(key, without_effect, ARRAY_COUNT(without_effect)) || is_in(key, of_both, ARRAY_COUNT(of_both)) ||
                           (is_chat ? is_in(key, of_chats, ARRAY_COUNT(of_chats)) : is_in(key, of_completions, ARRAY_COUNT(of_completions)));
        char shown[64];
        size_t length = 0;

        if (known || json_is_null(value))
            continue;
        for (; length < sizeof(shown) - 1 && (key[length] == '_' || (key[length] >= 'a' && key[length] <= 'z')); length++)
            shown[length] = key[length];
        shown[length] = '\0';
        fault_set(fault, 400, "unknown_parameter", NULL, "the request has a field that is not known here%s%s", key[length] == '\0' ? ": " : "",
                  key[length] == '\0' ? shown : "");
        return false;
    }
    return true;
}

/* NULL where it is null, too. */
static const json_t *value_of(const json_t *body, const char *name)
{
    const json_t *value = json_object_get(body, name);

    return json_is_null(value) ? NULL : value;
}

/* --- numbers ---------------------------------------------------------------------------------------------------------------- */

static bool read_whole(const json_t *body, const char *name, int64_t least, int64_t most, int64_t otherwise, int64_t *ret_value,
                       struct fault *fault)
{
    const json_t *value = value_of(body, name);

    *ret_value = otherwise;
    if (value == NULL)
        return true;
    if (json_is_integer(value) && json_integer_value(value) >= least && json_integer_value(value) <= most) {
        *ret_value = (int64_t)json_integer_value(value);
        return true;
    }
    fault_set(fault, 400, NULL, name, "%s must be a whole number from %lld to %lld", name, (long long)least, (long long)most);
    return false;
}

static bool read_bool(const json_t *body, const char *name, bool *ret_value, struct fault *fault)
{
    const json_t *value = value_of(body, name);

    *ret_value = json_is_true(value);
    if (value == NULL || json_is_boolean(value))
        return true;
    fault_set(fault, 400, NULL, name, "%s must be true or false", name);
    return false;
}

static const struct {
    const char *name;
    double least, most, otherwise;
} reals[] = {
    {"temperature", 0, 2, 1},         {"top_p", 0, 1, 1},          {"min_p", 0, 1, 0},
    {"presence_penalty", -2, 2, 0},   {"frequency_penalty", -2, 2, 0}, {"repetition_penalty", 0.01, 10, 1},
};

static bool read_reals(const json_t *body, json_t *settings, struct fault *fault)
{
    for (size_t i = 0; i < ARRAY_COUNT(reals); i++) {
        const json_t *value = value_of(body, reals[i].name);
        const double number = value != NULL ? json_number_value(value) : reals[i].otherwise;

        if (value != NULL && (!json_is_number(value) || !isfinite(number) || number < reals[i].least || number > reals[i].most)) {
            fault_set(fault, 400, NULL, reals[i].name, "%s must be a number from %g to %g", reals[i].name, reals[i].least, reals[i].most);
            return false;
        }
        json_object_set_new(settings, reals[i].name, json_real(number));
    }
    return true;
}

static bool read_stop(const json_t *body, json_t *settings, struct fault *fault)
{
    const json_t *stop = value_of(body, "stop");
    bool good = stop == NULL || json_is_string(stop) || (json_is_array(stop) && json_array_size(stop) <= 4);

    for (size_t i = 0; good && json_is_array(stop) && i < json_array_size(stop); i++)
        good = json_is_string(json_array_get(stop, i));
    if (!good) {
        fault_set(fault, 400, NULL, "stop", "stop must be a text, or a list of at most 4");
        return false;
    }
    if (stop != NULL)
        json_object_set(settings, "stop", (json_t *)(uintptr_t)stop);
    return true;
}

static bool read_bias(const json_t *body, json_t *settings, struct fault *fault)
{
    const json_t *bias = value_of(body, "logit_bias");
    bool good = bias == NULL || json_is_object(bias);
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)bias, key, value)
        good = good && json_is_number(value) && fabs(json_number_value(value)) <= 100;
    if (!good) {
        fault_set(fault, 400, NULL, "logit_bias", "logit_bias must be an object of token ids with numbers from -100 to 100");
        return false;
    }
    if (bias != NULL && json_object_size(bias) > 0)
        json_object_set(settings, "logit_bias", (json_t *)(uintptr_t)bias);
    return true;
}

/* --- logprobs, seeds, streams ----------------------------------------------------------------------------------------------- */

/* A chat says whether, and how many beside; a completion how many, 0 too. */
static bool read_logprobs(const json_t *body, struct chat_request *request, struct fault *fault)
{
    int64_t best = 0;

    if (!request->is_chat) {
        if (!read_whole(body, "logprobs", 0, 5, -1, &best, fault))
            return false;
        request->logprobs = best >= 0;
        request->best = best > 0 ? (uint32_t)best : 0;
    } else {
        if (!read_bool(body, "logprobs", &request->logprobs, fault) ||
            !read_whole(body, "top_logprobs", 0, CHAT_TOP_LOGPROBS_MAX, 0, &best, fault))
            return false;
        if (best > 0 && !request->logprobs) {
            fault_set(fault, 400, NULL, "top_logprobs", "top_logprobs needs logprobs: true");
            return false;
        }
        request->best = (uint32_t)best;
    }
    if (request->logprobs)
        json_object_set_new(request->settings, "logprobs", json_integer(request->best));
    return true;
}

static bool read_seed(const json_t *body, struct chat_request *request, struct fault *fault)
{
    int64_t seed;

    if (!read_whole(body, "seed", INT64_MIN, INT64_MAX, 0, &seed, fault))
        return false;
    if (value_of(body, "seed") != NULL)
        request->seed = (uint64_t)seed;
    else
        randombytes_buf(&request->seed, sizeof(request->seed));
    return true;
}

static bool read_stream(const json_t *body, struct chat_request *request, struct fault *fault)
{
    const json_t *options = value_of(body, "stream_options");
    const char *key;
    json_t *value;

    if (!read_bool(body, "stream", &request->stream, fault))
        return false;
    if (options != NULL && (!request->stream || !json_is_object(options))) {
        fault_set(fault, 400, NULL, "stream_options", "stream_options is an object, and only for stream: true");
        return false;
    }
    json_object_foreach((json_t *)(uintptr_t)options, key, value) {
        if ((strcmp(key, "include_usage") != 0 && strcmp(key, "include_obfuscation") != 0) || !(json_is_boolean(value) || json_is_null(value))) {
            fault_set(fault, 400, "unknown_parameter", "stream_options", "stream_options has include_usage, true or false, and nothing else");
            return false;
        }
    }
    request->include_usage = json_is_true(json_object_get(options, "include_usage"));
    return true;
}

static bool read_max(const json_t *body, struct chat_request *request, struct fault *fault)
{
    const json_t *newer = request->is_chat ? value_of(body, "max_completion_tokens") : NULL;
    int64_t max;

    if (newer != NULL && value_of(body, "max_tokens") != NULL && !json_equal((json_t *)(uintptr_t)newer, json_object_get(body, "max_tokens"))) {
        fault_set(fault, 400, NULL, "max_tokens", "max_tokens and max_completion_tokens are the same and differ here; give one of them");
        return false;
    }
    if (!read_whole(body, newer != NULL ? "max_completion_tokens" : "max_tokens", 1, 1 << 22, request->is_chat ? 0 : 16, &max, fault))
        return false;
    request->max_tokens = (uint32_t)max;
    return true;
}

/* --- what is not offered ---------------------------------------------------------------------------------------------------- */

static bool is_text(const json_t *value, const char *wanted)
{
    return json_is_string(value) && strcmp(json_string_value(value), wanted) == 0;
}

static bool check_offered(const json_t *body, struct fault *fault)
{
    const json_t *format = value_of(body, "response_format");
    const json_t *choice = value_of(body, "tool_choice");
    const json_t *modalities = value_of(body, "modalities");
    const json_t *tools = value_of(body, "tools");
    int64_t best_of;
    bool echo;

    if (json_is_true(json_object_get(body, "store")))
        fault_set(fault, 400, "unsupported_parameter", "store", "nothing of a chat is kept here; leave store out");
    else if (format != NULL && !is_text(json_object_get(format, "type"), "text"))
        fault_set(fault, 400, "unsupported_parameter", "response_format", "response_format.type can only be text here");
    else if (choice != NULL && !is_text(choice, "auto") && !is_text(choice, "none"))
        fault_set(fault, 400, "unsupported_parameter", "tool_choice", "tool_choice can be auto or none here: a call cannot be forced");
    else if (tools != NULL && !json_is_array(tools))
        fault_set(fault, 400, NULL, "tools", "tools must be a list");
    else if (modalities != NULL && !(json_array_size(modalities) == 1 && is_text(json_array_get(modalities, 0), "text")))
        fault_set(fault, 400, "unsupported_parameter", "modalities", "modalities can only be [\"text\"] here");
    else if (read_bool(body, "echo", &echo, fault) && echo)
        fault_set(fault, 400, "unsupported_parameter", "echo", "echo is not offered here");
    else if (fault->status == 0 && read_whole(body, "best_of", 1, 128, 1, &best_of, fault) && best_of != 1)
        fault_set(fault, 400, "unsupported_parameter", "best_of", "best_of is not offered here; take n");
    return fault->status == 0;
}

bool chat_request_read(const json_t *body, bool is_chat, struct chat_request *ret_request, struct fault *fault)
{
    struct chat_request *request = ret_request;
    int64_t n;
    bool ignore_eos;
    int64_t top_k;

    *request = (struct chat_request){.is_chat = is_chat, .settings = json_object()};
    check(request->settings != NULL);
    request->model = json_string_value(json_object_get(body, "model"));
    if (!check_keys(body, is_chat, fault))
        return false;
    if (request->model == NULL || request->model[0] == '\0' || strlen(request->model) >= sizeof(((struct chat_head *)0)->model)) {
        fault_set(fault, 400, NULL, "model", "model is missing: GET /v1/models lists what answers");
        return false;
    }
    if (!check_offered(body, fault) || !read_whole(body, "n", 1, CHAT_CHOICES_MAX, 1, &n, fault) || !read_stream(body, request, fault) ||
        !read_logprobs(body, request, fault) || !read_seed(body, request, fault) || !read_max(body, request, fault) ||
        !read_reals(body, request->settings, fault) || !read_stop(body, request->settings, fault) ||
        !read_bias(body, request->settings, fault) || !read_whole(body, "top_k", 0, 1 << 20, 0, &top_k, fault) ||
        !read_bool(body, "ignore_eos", &ignore_eos, fault))
        return false;
    request->n = (uint32_t)n;
    json_object_set_new(request->settings, "top_k", json_integer((json_int_t)top_k));
    json_object_set_new(request->settings, "ignore_eos", json_boolean(ignore_eos));
    return true;
}

void chat_request_free(struct chat_request *request)
{
    json_decref(request->settings);
    for (uint32_t i = 0; i < request->prompts_count; i++)
        token_list_free(&request->prompts[i]);
    free(request->prompts);
}

/* --- prompts ---------------------------------------------------------------------------------------------------------------- */

/* Whose words they are, they are the client's own: what the tokenizer or template complains of may be told. */
static bool take(struct chat_request *request, struct ask *ask, enum status status, const char *param, const struct refusal *refusal,
                 struct fault *fault)
{
    if (status != STATUS_OK) {
        fault_set(fault, 400, NULL, param, "%.240s", refusal->text);
    } else if (ask->prompt.count == 0) {
        fault_set(fault, 400, NULL, param, "%s: there is nothing to answer", param);
    } else {
        request->prompts[request->prompts_count++] = ask->prompt;
        ask->prompt = (struct token_list){0};
    }
    ask_free(ask);
    return fault->status == 0;
}

static bool read_messages(const json_t *body, struct chat_request *request, const struct tokenizer *tokenizer, struct fault *fault)
{
    const json_t *tools = value_of(body, "tools");
    const bool wants_tools = tools != NULL && json_array_size(tools) > 0 && !is_text(json_object_get(body, "tool_choice"), "none");
    struct refusal refusal = {{0}};
    struct ask ask;

    ask_init(&ask);
    return take(request, &ask, ask_chat(&ask, json_object_get(body, "messages"), wants_tools ? tools : NULL, NULL, tokenizer, &refusal),
                "messages", &refusal, fault);
}

static bool read_ids(const json_t *ids, struct chat_request *request, const struct tokenizer *tokenizer, struct fault *fault)
{
    json_t *object = json_pack("{s:O}", "prompt_ids", ids);
    struct refusal refusal = {{0}};
    struct ask ask;
    bool good = true;

    ask_init(&ask);
    good = take(request, &ask, ask_read(&ask, object, NULL, tokenizer, &refusal), "prompt", &refusal, fault);
    json_decref(object);
    for (size_t i = 0; good && i < request->prompts[request->prompts_count - 1].count; i++)
        good = request->prompts[request->prompts_count - 1].ids[i] < tokenizer_ids_count(tokenizer);
    if (!good && fault->status == 0)
        fault_set(fault, 400, NULL, "prompt", "prompt: there is no token of that number");
    return good;
}

static bool read_one(const json_t *prompt, struct chat_request *request, const struct tokenizer *tokenizer, struct fault *fault)
{
    struct refusal refusal = {{0}};
    struct ask ask;

    if (json_is_array(prompt))
        return read_ids(prompt, request, tokenizer, fault);
    if (!json_is_string(prompt)) {
        fault_set(fault, 400, NULL, "prompt", "prompt must be a text, a list of texts, token ids, or a list of lists of token ids");
        return false;
    }
    ask_init(&ask);
    return take(request, &ask, ask_prompt(&ask, json_string_value(prompt), json_string_length(prompt), tokenizer, &refusal), "prompt", &refusal,
                fault);
}

static bool read_prompts(const json_t *body, struct chat_request *request, const struct tokenizer *tokenizer, struct fault *fault)
{
    const json_t *prompt = json_object_get(body, "prompt");
    const bool is_list = json_is_array(prompt) && json_array_size(prompt) > 0 && !json_is_integer(json_array_get(prompt, 0));

    if (!is_list)
        return read_one(prompt, request, tokenizer, fault);
    for (size_t i = 0; i < json_array_size(prompt); i++)
        if (!read_one(json_array_get(prompt, i), request, tokenizer, fault))
            return false;
    return true;
}

bool chat_request_prompts(const json_t *body, struct chat_request *request, const struct tokenizer *tokenizer, struct fault *fault)
{
    const json_t *prompt = json_object_get(body, "prompt");
    const size_t count = !request->is_chat && json_is_array(prompt) && !json_is_integer(json_array_get(prompt, 0)) ? json_array_size(prompt) : 1;

    if (count * request->n > CHAT_CHOICES_MAX) {
        fault_set(fault, 400, NULL, "n", "prompts times n must be at most %d", CHAT_CHOICES_MAX);
        return false;
    }
    request->prompts = calloc(count + 1, sizeof(*request->prompts));
    check(request->prompts != NULL);
    return request->is_chat ? read_messages(body, request, tokenizer, fault) : read_prompts(body, request, tokenizer, fault);
}
