#include "worker/ask.h"

#include <stdlib.h>

#include "host/words.h"

void ask_init(struct ask *ask)
{
    memset(ask, 0, sizeof(*ask));
    ask->max_tokens = ASK_MAX_TOKENS_DEFAULT;
    sample_params_init(&ask->sample);
    stop_init(&ask->stops);
}

void ask_free(struct ask *ask)
{
    token_list_free(&ask->prompt);
}

enum status ask_prompt(struct ask *ask, const char *text, size_t bytes, const struct tokenizer *tokenizer, struct refusal *refusal)
{
    char error[TOKENIZER_ERROR_MAX] = "";

    if (tokenizer == NULL)
        return refuse(refusal, STATUS_INVALID, "this model has no tokenizer: give prompt_ids");
    ask->prompt.count = 0;
    if (tokenizer_encode(tokenizer, text, bytes, NULL, TOKENIZER_ADD_SPECIAL | TOKENIZER_PLAIN, &ask->prompt, error) != STATUS_OK)
        return refuse(refusal, STATUS_INVALID, "prompt: %s", error);
    return STATUS_OK;
}

/* --- one key each ----------------------------------------------------------------------------------------------------------- */

struct reading {
    struct ask *ask;
    const json_t *object;
    const struct tokenizer *tokenizer;
    struct refusal *refusal;
};

static enum status read_adapter(const struct reading *to, const char *key, const json_t *value)
{
    if (json_is_null(value)) {
        to->ask->adapter[0] = '\0';
        return STATUS_OK;
    }
    if (!json_is_string(value) || !worker_name_fine(json_string_value(value)) ||
        strlen(json_string_value(value)) != json_string_length(value))
        return refuse(to->refusal, STATUS_INVALID, "%s: null (the base) or the name of an adapter", key);
    strcpy(to->ask->adapter, json_string_value(value));
    return STATUS_OK;
}

static enum status read_prompt(const struct reading *to, const char *key, const json_t *value)
{
    if (!json_is_string(value))
        return refuse(to->refusal, STATUS_INVALID, "%s: a text", key);
    return ask_prompt(to->ask, json_string_value(value), json_string_length(value), to->tokenizer, to->refusal);
}

static enum status read_prompt_ids(const struct reading *to, const char *key, const json_t *value)
{
    size_t i;
    json_t *item;

    if (!json_is_array(value))
        return refuse(to->refusal, STATUS_INVALID, "%s: a list of token ids", key);
    to->ask->prompt.count = 0;
    json_array_foreach(value, i, item) {
        if (!json_is_integer(item) || json_integer_value(item) < 0 || json_integer_value(item) >= TOKENIZER_IDS_MAX)
            return refuse(to->refusal, STATUS_INVALID, "%s: number %zu is no token id", key, i);
        token_list_add(&to->ask->prompt, (int32_t)json_integer_value(item));
    }
    return STATUS_OK;
}

static enum status read_messages(const struct reading *to, const json_t *value)
{
    return ask_chat(to->ask, value, json_object_get(to->object, "tools"), json_object_get(to->object, "chat_variables"), to->tokenizer,
                    to->refusal);
}

/* Read with the messages, which must be there. */
static enum status read_beside_messages(const struct reading *to, const char *key, bool fine, const char *what)
{
    if (fine && json_object_get(to->object, "messages") != NULL)
        return STATUS_OK;
    return refuse(to->refusal, STATUS_INVALID, "%s: %s, beside messages", key, what);
}

static enum status read_count(const struct reading *to, const char *key, const json_t *value, int64_t least, int64_t most, int64_t *ret)
{
    if (!json_is_integer(value) || json_integer_value(value) < least || json_integer_value(value) > most)
        return refuse(to->refusal, STATUS_INVALID, "%s: a whole number from %lld to %lld", key, (long long)least, (long long)most);
    *ret = json_integer_value(value);
    return STATUS_OK;
}

static enum status read_number(const struct reading *to, const char *key, const json_t *value, float *ret)
{
    if (!json_is_number(value))
        return refuse(to->refusal, STATUS_INVALID, "%s: a number", key);
    *ret = (float)json_number_value(value);
    return STATUS_OK;
}

static enum status read_bool(const struct reading *to, const char *key, const json_t *value, bool *ret)
{
    if (!json_is_boolean(value))
        return refuse(to->refusal, STATUS_INVALID, "%s: true or false", key);
    *ret = json_is_true(value);
    return STATUS_OK;
}

static enum status add_stop(const struct reading *to, const char *key, const json_t *value)
{
    enum status status = json_is_string(value) ? stop_add(&to->ask->stops, json_string_value(value), json_string_length(value))
                                               : STATUS_INVALID;

    if (status == STATUS_OK)
        return STATUS_OK;
    return refuse(to->refusal, STATUS_INVALID, "%s: at most %d texts of 1 to %d bytes", key, STOPS_MAX, STOP_BYTES_MAX);
}

static enum status read_stop(const struct reading *to, const char *key, const json_t *value)
{
    enum status status = STATUS_OK;

    stop_init(&to->ask->stops);
    if (json_is_null(value))
        return STATUS_OK;
    if (!json_is_array(value))
        return add_stop(to, key, value);
    for (size_t i = 0; i < json_array_size(value) && status == STATUS_OK; i++)
        status = add_stop(to, key, json_array_get(value, i));
    return status;
}

static enum status read_bias(const struct reading *to, const char *key, const json_t *value)
{
    struct sample_params *sample = &to->ask->sample;
    const char *id_text;
    json_t *add;

    sample->biases_count = 0;
    if (!json_is_object(value) || json_object_size(value) > SAMPLE_BIASES_MAX)
        return refuse(to->refusal, STATUS_INVALID, "%s: an object of at most %d token ids with numbers", key, SAMPLE_BIASES_MAX);
    json_object_foreach((json_t *)(uintptr_t)value, id_text, add) {
        char *end;
        long id = strtol(id_text, &end, 10);

        if (end == id_text || *end != '\0' || id < 0 || id >= TOKENIZER_IDS_MAX || !json_is_number(add))
            return refuse(to->refusal, STATUS_INVALID, "%s: an object of at most %d token ids with numbers", key, SAMPLE_BIASES_MAX);
        sample->biases[sample->biases_count++] = (struct sample_bias){.id = (int32_t)id, .add = (float)json_number_value(add)};
    }
    return STATUS_OK;
}

/* --- all of them ------------------------------------------------------------------------------------------------------------ */

#define KEYS(X)                                                                                                  \
    X(adapter, read_adapter(to, key, value))                                                                     \
    X(prompt, read_prompt(to, key, value))                                                                       \
    X(messages, read_messages(to, value))                                                                        \
    X(tools, read_beside_messages(to, key, json_is_array(value), "a list"))                                      \
    X(chat_variables, read_beside_messages(to, key, json_is_object(value), "an object"))                         \
    X(prompt_ids, read_prompt_ids(to, key, value))                                                               \
    X(max_tokens, (status = read_count(to, key, value, 1, 1 << 22, &count), ask->max_tokens = (uint32_t)count, status)) \
    X(temperature, read_number(to, key, value, &ask->sample.temperature))                                        \
    X(top_k, (status = read_count(to, key, value, 0, TOKENIZER_IDS_MAX, &count), ask->sample.top_k = (int32_t)count, status)) \
    X(top_p, read_number(to, key, value, &ask->sample.top_p))                                                    \
    X(min_p, read_number(to, key, value, &ask->sample.min_p))                                                    \
    X(seed, (status = read_count(to, key, value, INT64_MIN, INT64_MAX, &count), ask->sample.seed = (uint64_t)count, status)) \
    X(repetition_penalty, read_number(to, key, value, &ask->sample.repetition))                                  \
    X(presence_penalty, read_number(to, key, value, &ask->sample.presence))                                      \
    X(frequency_penalty, read_number(to, key, value, &ask->sample.frequency))                                    \
    X(logit_bias, read_bias(to, key, value))                                                                     \
    X(logprobs, (status = read_count(to, key, value, 0, SAMPLE_LOGPROBS_MAX, &count), ask->wants_logprobs = true, \
                 ask->sample.logprobs = (uint32_t)count, status))                                                \
    X(stop, read_stop(to, key, value))                                                                           \
    X(ignore_eos, read_bool(to, key, value, &ask->ignore_eos))                                                   \
    X(tenant, (status = read_count(to, key, value, 0, WORKER_TENANTS_MAX - 1, &count), ask->tenant = (uint32_t)count, status))

static bool is_one_of(const char *const *names, const char *name)
{
    for (; names != NULL && *names != NULL; names++)
        if (strcmp(*names, name) == 0)
            return true;
    return false;
}

static enum status unknown(const struct reading *to, const char *key)
{
    struct suggestion suggestion;
    char shown[EXCERPT_MAX];
    const char *near;

    suggestion_begin(&suggestion, key, strlen(key));
#define X(name, read) suggest(&suggestion, #name, strlen(#name));
    KEYS(X)
#undef X
    near = suggestion_answer(&suggestion);
    return refuse(to->refusal, STATUS_INVALID, "there is no key '%s'%s%s%s", excerpt(key, strlen(key), shown),
                  near != NULL ? "; did you mean " : "", near != NULL ? near : "", near != NULL ? "?" : "");
}

static enum status read_key(const struct reading *to, const char *key, const json_t *value)
{
    struct ask *ask = to->ask;
    enum status status;
    int64_t count = 0;

#define X(name, read)           \
    if (strcmp(key, #name) == 0) \
        return read;
    KEYS(X)
#undef X
    return unknown(to, key);
}

enum status ask_read(struct ask *ask, const json_t *object, const char *const *others, const struct tokenizer *tokenizer,
                     struct refusal *refusal)
{
    const struct reading to = {.ask = ask, .object = object, .tokenizer = tokenizer, .refusal = refusal};
    const char *key;
    json_t *value;

    if (!json_is_object(object))
        return refuse(refusal, STATUS_INVALID, "a request is a JSON object");
    if ((json_object_get(object, "prompt") != NULL) + (json_object_get(object, "prompt_ids") != NULL) +
            (json_object_get(object, "messages") != NULL) > 1)
        return refuse(refusal, STATUS_INVALID, "prompt, prompt_ids and messages: one of them");
    json_object_foreach((json_t *)(uintptr_t)object, key, value) {
        enum status status = is_one_of(others, key) ? STATUS_OK : read_key(&to, key, value);

        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}
