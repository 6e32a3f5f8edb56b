/* Lines into samples. */
#include <openssl/evp.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/files/file.h"
#include "engine/tokenizer/utf8.h"
#include "engine/train/data/internal.h"

enum status data_fault(struct data_reader *reader, const char *format, ...)
{
    char what[400];
    va_list list;

    va_start(list, format);
    vsnprintf(what, sizeof(what), format, list);
    va_end(list);
    if (reader->faults++ < DATA_FAULTS_MAX)
        refuse_also(reader->refusal, STATUS_INVALID, "%s:%d: %s", reader->shown, reader->line, what);
    return STATUS_INVALID;
}

/* --- samples ---------------------------------------------------------------------------------------------------------------- */

static bool grow(struct data_reader *reader, int64_t tokens)
{
    struct data_set *set = reader->set;

    if (set->tokens_count + tokens > reader->tokens_capacity) {
        const int64_t capacity = 2 * (set->tokens_count + tokens) + 4096;
        int32_t *ids = realloc(set->tokens, (size_t)capacity * sizeof(*ids));
        uint8_t *marks = NULL;

        if (ids != NULL) {
            set->tokens = ids;
            marks = realloc(set->is_target, (size_t)capacity);
        }
        if (marks == NULL)
            return false;
        set->is_target = marks;
        reader->tokens_capacity = capacity;
    }
    if (set->count == reader->samples_capacity) {
        const int32_t capacity = 2 * reader->samples_capacity + 64;
        struct data_sample *sample = realloc(set->sample, (size_t)capacity * sizeof(*sample));

        if (sample == NULL)
            return false;
        set->sample = sample;
        reader->samples_capacity = capacity;
    }
    return true;
}

size_t data_common(const struct token_list *a, const struct token_list *b)
{
    size_t count = 0;

    while (count < a->count && count < b->count && a->ids[count] == b->ids[count])
        count++;
    return count;
}

enum status data_add(struct data_reader *reader, const struct token_list *ids, const struct data_span *spans, size_t spans_count)
{
    struct data_set *set = reader->set;
    const int64_t count = min_i64((int64_t)ids->count, reader->source->tokens_max);
    struct data_sample sample = {.at = set->tokens_count, .tokens = (int32_t)count, .line = reader->line};

    if (set->count == DATA_SAMPLES_MAX || !grow(reader, count))
        return data_fault(reader, "more samples than memory or %d allow", DATA_SAMPLES_MAX);
    for (int64_t t = 0; t < count; t++) {
        if (ids->ids[t] < 0 || ids->ids[t] >= reader->source->vocabulary)
            return data_fault(reader, "the tokenizer makes id %d, and the model has %d", ids->ids[t], reader->source->vocabulary);
        set->tokens[sample.at + t] = ids->ids[t];
        set->is_target[sample.at + t] = 0;
    }
    for (size_t i = 0; i < spans_count; i++)
        for (int64_t t = (int64_t)spans[i].from; t < (int64_t)spans[i].until && t < count; t++)
            set->is_target[sample.at + t] = t > 0; /* nothing stands before the first */
    for (int64_t t = 0; t < count; t++)
        sample.targets += set->is_target[sample.at + t];
    if (sample.targets == 0)
        return data_fault(reader, "nothing to learn is left within %d tokens of %zu; shorten what comes before the answer",
                          reader->source->tokens_max, ids->count);
    set->cut += (int64_t)ids->count > count;
    set->tokens_count += count;
    set->targets_count += sample.targets;
    set->sample[set->count++] = sample;
    return STATUS_OK;
}

/* --- pairs ------------------------------------------------------------------------------------------------------------------ */

static enum status encode_whole(struct data_reader *reader, const struct token_text *text, size_t count, const char *field,
                                struct token_list *ids)
{
    char error[TOKENIZER_ERROR_MAX] = "";

    if (tokenizer_encode(reader->source->tokenizer, text->bytes != NULL ? text->bytes : "", count, NULL,
                         TOKENIZER_ADD_SPECIAL | TOKENIZER_PLAIN, ids, error) == STATUS_OK)
        return STATUS_OK;
    return data_fault(reader, "%s: %s", field, error);
}

/* As a server encodes a prompt. Learned is everything from the first token that the prompt alone does not have, and the end. */
enum status data_texts(struct data_reader *reader, const json_t *prompt, const json_t *completion, const char *field)
{
    struct token_text text = {0};
    struct token_list alone = {0};
    struct token_list ids = {0};
    enum status status;

    if (!json_is_string(prompt))
        return data_fault(reader, "prompt: a text is wanted");
    if (!json_is_string(completion) || json_string_length(completion) == 0)
        return data_fault(reader, "%s: a text is wanted, and not an empty one", field);
    token_text_add(&text, json_string_value(prompt), json_string_length(prompt));
    token_text_add(&text, json_string_value(completion), json_string_length(completion));
    status = encode_whole(reader, &text, json_string_length(prompt), "prompt", &alone);
    if (status == STATUS_OK)
        status = encode_whole(reader, &text, text.count, field, &ids);
    if (status == STATUS_OK) {
        if (ids.count > 0 && ids.ids[ids.count - 1] != reader->source->eos)
            token_list_add(&ids, reader->source->eos);
        status = data_add(reader, &ids, &(struct data_span){data_common(&alone, &ids), ids.count}, 1);
    }
    token_text_free(&text);
    token_list_free(&alone);
    token_list_free(&ids);
    return status;
}

/* --- lines ------------------------------------------------------------------------------------------------------------------ */

/* Keys of an example, and which kind of it has them. */
static const struct {
    const char *name;
    enum data_kind kind;
} keys[] = {
    {"messages", DATA_CHAT}, {"tools", DATA_CHAT}, {"parallel_tool_calls", DATA_CHAT}, {"prompt", DATA_PAIR}, {"completion", DATA_PAIR},
    {"input", DATA_PREFERENCE}, {"preferred_output", DATA_PREFERENCE}, {"non_preferred_output", DATA_PREFERENCE},
    {"prompt", DATA_CHOICE}, {"chosen", DATA_CHOICE}, {"rejected", DATA_CHOICE}, {"tools", DATA_CHOICE},
};

static const char *kind_name(enum data_kind kind)
{
    static const char *const names[] = {
        [DATA_UNKNOWN] = "",
#define X(name, text) [DATA_##name] = text,
        DATA_KINDS(X)
#undef X
    };

    return names[kind];
}

/* By the keys that only one kind has; prompt alone is a pair that lacks its completion. */
static enum data_kind kind_of(const json_t *example)
{
    static const char *const tells[] = {"messages", "input", "preferred_output", "non_preferred_output", "chosen", "rejected", "completion", "prompt"};

    for (size_t i = 0; i < ARRAY_COUNT(tells); i++)
        for (size_t k = 0; k < ARRAY_COUNT(keys) && json_object_get(example, tells[i]) != NULL; k++)
            if (strcmp(keys[k].name, tells[i]) == 0)
                return keys[k].kind;
    return DATA_UNKNOWN;
}

static enum status check_kind(struct data_reader *reader, enum data_kind kind)
{
    const bool prefers = kind == DATA_PREFERENCE || kind == DATA_CHOICE;

    if (kind == DATA_UNKNOWN)
        return data_fault(reader, reader->source->preferences ? "neither input with both outputs, nor prompt, chosen and rejected"
                                                              : "neither messages, nor prompt and completion");
    if (prefers && !reader->source->preferences)
        return data_fault(reader, "preferences, of %s, are learned by the method dpo", kind_name(kind));
    if (!prefers && reader->source->preferences)
        return data_fault(reader, "%s: the method dpo wants %s, or %s", kind_name(kind), kind_name(DATA_PREFERENCE), kind_name(DATA_CHOICE));
    if (reader->kind != DATA_UNKNOWN && reader->kind != (int)kind)
        return data_fault(reader, "%s in a file of %s: one file holds one of them", kind_name(kind), kind_name((enum data_kind)reader->kind));
    return STATUS_OK;
}

static enum status check_keys(struct data_reader *reader, json_t *example)
{
    const enum data_kind kind = kind_of(example);
    const char *key;
    json_t *value;

    if (check_kind(reader, kind) != STATUS_OK)
        return STATUS_INVALID;
    json_object_foreach(example, key, value) {
        bool known = false;

        for (size_t i = 0; i < ARRAY_COUNT(keys); i++)
            known |= keys[i].kind == kind && strcmp(keys[i].name, key) == 0;
        if (!known)
            return data_fault(reader, "%.40s: does not belong in an example of %s", key, kind_name(kind));
    }
    reader->kind = (int)kind;
    return STATUS_OK;
}

static enum status read_example(struct data_reader *reader, json_t *example)
{
    switch (reader->kind) {
    case DATA_CHAT: return data_chat(reader, example);
    case DATA_PAIR: return data_texts(reader, json_object_get(example, "prompt"), json_object_get(example, "completion"), "completion");
    default: return data_preference(reader, example);
    }
}

static enum status read_line(struct data_reader *reader, const char *line, size_t length)
{
    json_error_t error;
    json_t *example;
    enum status status;

    if (length > DATA_LINE_BYTES_MAX)
        return data_fault(reader, "%zu bytes; a line has at most %d", length, DATA_LINE_BYTES_MAX);
    example = json_loadb(line, length, JSON_REJECT_DUPLICATES, &error);
    if (example == NULL)
        return data_fault(reader, "column %d: not a JSON object on one line: %.200s", error.position, error.text);
    if (!json_is_object(example)) {
        json_decref(example);
        return data_fault(reader, "not a JSON object");
    }
    reader->set->examples++;
    status = check_keys(reader, example);
    if (status == STATUS_OK)
        status = read_example(reader, example);
    json_decref(example);
    return status;
}

/* All lines, good or not: a person mends all faults at once. */
static enum status read_lines(struct data_reader *reader, const char *text, size_t bytes)
{
    size_t at = 0;

    if (bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        at = 3;
    while (at < bytes) {
        const char *end = memchr(text + at, '\n', bytes - at);
        const size_t length = end != NULL ? (size_t)(end - text) - at : bytes - at;
        size_t blank = 0;

        reader->line++;
        while (blank < length && strchr(" \t\r", text[at + blank]) != NULL && text[at + blank] != '\0')
            blank++;
        if (blank < length)
            read_line(reader, text + at, length);
        at += length + 1;
    }
    if (reader->faults > DATA_FAULTS_MAX)
        refuse_also(reader->refusal, STATUS_INVALID, "%s: and %d faults more", reader->shown, reader->faults - DATA_FAULTS_MAX);
    if (reader->faults == 0 && reader->set->count == 0 && reader->set->equal > 0)
        return refuse(reader->refusal, STATUS_INVALID, "%s: both answers are equal in each of its %d examples, so there is nothing to prefer",
                      reader->shown, reader->set->equal);
    if (reader->faults == 0 && reader->set->count == 0)
        return refuse(reader->refusal, STATUS_INVALID, "%s: holds no example", reader->shown);
    return reader->faults == 0 ? STATUS_OK : STATUS_INVALID;
}

void data_digest(struct data_set *set)
{
    static const char domain[] = "berth data 1\n";
    EVP_MD_CTX *context = EVP_MD_CTX_new();

    check(context != NULL);
    check(EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1);
    check(EVP_DigestUpdate(context, domain, strlen(domain)) == 1);
    for (int32_t i = 0; i < set->count; i++)
        check(EVP_DigestUpdate(context, &set->sample[i].tokens, sizeof(set->sample[i].tokens)) == 1);
    check(EVP_DigestUpdate(context, set->tokens, (size_t)set->tokens_count * sizeof(set->tokens[0])) == 1);
    check(EVP_DigestUpdate(context, set->is_target, (size_t)set->tokens_count) == 1);
    check(EVP_DigestFinal_ex(context, set->digest, NULL) == 1);
    EVP_MD_CTX_free(context);
}

enum status data_open_text(const char *text, int64_t bytes, const char *shown, const struct data_source *source, struct data_set **ret_set,
                           struct refusal *refusal)
{
    struct data_reader reader = {.source = source, .shown = shown, .refusal = refusal};
    size_t count = 0;
    const char *template = tokenizer_chat_template(source->tokenizer, &count);
    enum status status;

    check(source->tokens_max >= 2);
    refusal->text[0] = '\0';
    if (template != NULL && chat_template_open(template, count, &reader.template, reader.template_error) != STATUS_OK)
        reader.template = NULL;
    reader.set = calloc(1, sizeof(*reader.set));
    status = reader.set == NULL ? refuse(refusal, STATUS_FULL, "no memory") : read_lines(&reader, text, (size_t)bytes);
    chat_template_close(reader.template);
    if (status != STATUS_OK) {
        data_close(reader.set);
        return status;
    }
    data_digest(reader.set);
    *ret_set = reader.set;
    return STATUS_OK;
}

enum status data_open(const char *path, const struct data_source *source, struct data_set **ret_set, struct refusal *refusal)
{
    void *text = NULL;
    int64_t bytes = 0;
    enum status status = file_read(AT_FDCWD, path, path, DATA_FILE_BYTES_MAX, &text, &bytes, refusal);

    if (status != STATUS_OK)
        return status;
    status = data_open_text(text, bytes, path, source, ret_set, refusal);
    free(text);
    return status;
}

void data_close(struct data_set *set)
{
    if (set == NULL)
        return;
    free(set->sample);
    free(set->tokens);
    free(set->is_target);
    free(set);
}
