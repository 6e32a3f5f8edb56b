/* Opening a tokenizer: the files, the order in which the parts of tokenizer.json are read, and what may be asked of it after. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <zlib.h>

#include "engine/tokenizer/inside.h"
#include "host/words.h"

/* --- the parts --- */

static bool template_item(struct opening *opening, const json_t *processor, const json_t *item, bool *behind)
{
    struct tokenizer *tokenizer = opening->tokenizer;
    const json_t *name = json_object_get(json_object_get(item, "SpecialToken"), "id");
    const char *sequence = json_string_value(json_object_get(json_object_get(item, "Sequence"), "id"));
    uint32_t *count = *behind ? &tokenizer->template_after_count : &tokenizer->template_before_count;
    uint32_t *ids = *behind ? tokenizer->template_after : tokenizer->template_before;
    const json_t *defined = json_object_get(processor, "special_tokens");
    const json_t *list, *id;
    size_t i;

    if (sequence != NULL) {
        if (*behind || strcmp(sequence, "A") != 0)
            return opening_refuse(opening, STATUS_INVALID, "post_processor: a template with other than one text is unknown here");
        *behind = true;
        return true;
    }
    list = json_is_string(name) ? json_object_get(json_object_get(defined, json_string_value(name)), "ids") : NULL;
    if (!json_is_array(list))
        return opening_refuse(opening, STATUS_CORRUPT, "post_processor: its template names a token that it does not define");
    json_array_foreach(list, i, id) {
        json_int_t value = json_integer_value(id);

        if (!json_is_integer(id) || value < 0 || value >= tokenizer->pieces_count || *count == TEMPLATE_IDS_MAX)
            return opening_refuse(opening, STATUS_CORRUPT, "post_processor: no such id, or more than %d of them", TEMPLATE_IDS_MAX);
        ids[(*count)++] = (uint32_t)value;
    }
    return true;
}

static bool post_step(struct opening *opening, const json_t *processor)
{
    const json_t *single = json_object_get(processor, "single");
    const json_t *item;
    bool behind = false;
    char shown[EXCERPT_MAX];
    size_t i;

    if (strcmp(type_of(processor), "ByteLevel") == 0)
        return true; /* says only where in the text a token was */
    if (strcmp(type_of(processor), "TemplateProcessing") != 0)
        return opening_refuse(opening, STATUS_INVALID, "post_processor '%s' is unknown here",
                              opening_name(json_object_get(processor, "type"), shown));
    if (opening->tokenizer->template_before_count + opening->tokenizer->template_after_count > 0)
        return opening_refuse(opening, STATUS_INVALID, "post_processor: two templates are unknown here");
    json_array_foreach(single, i, item) {
        if (!template_item(opening, processor, item, &behind))
            return false;
    }
    return behind || opening_refuse(opening, STATUS_INVALID, "post_processor: its template has no place for the text");
}

static bool post_open(struct opening *opening, const json_t *processor)
{
    const json_t *step;
    size_t i;

    if (processor == NULL || json_is_null(processor))
        return true;
    if (strcmp(type_of(processor), "Sequence") != 0)
        return post_step(opening, processor);
    json_array_foreach(json_object_get(processor, "processors"), i, step) {
        if (!post_step(opening, step))
            return false;
    }
    return true;
}

static bool is_set(const json_t *value)
{
    return value != NULL && !json_is_null(value) && !(json_is_string(value) && json_string_length(value) == 0);
}

static bool model_open(struct opening *opening, const json_t *root)
{
    struct tokenizer *tokenizer = opening->tokenizer;
    const json_t *model = json_object_get(root, "model");
    const json_t *unk = json_object_get(model, "unk_token");
    char shown[EXCERPT_MAX];

    if (!json_is_object(model))
        return opening_refuse(opening, STATUS_CORRUPT, "it has no model");
    if (json_object_get(model, "type") != NULL && strcmp(type_of(model), "BPE") != 0)
        return opening_refuse(opening, STATUS_INVALID, "model '%s' is unknown here; BPE is known",
                              opening_name(json_object_get(model, "type"), shown));
    if (is_set(json_object_get(model, "continuing_subword_prefix")) || is_set(json_object_get(model, "end_of_word_suffix")))
        return opening_refuse(opening, STATUS_INVALID, "continuing_subword_prefix and end_of_word_suffix are unknown here");
    if (json_number_value(json_object_get(model, "dropout")) > 0)
        return opening_refuse(opening, STATUS_INVALID, "dropout makes ids a matter of chance and is unknown here");
    if (!pieces_open(opening, model, json_object_get(root, "added_tokens")) || !merges_open(opening, model))
        return false;
    tokenizer->fuse_unk = json_is_true(json_object_get(model, "fuse_unk"));
    tokenizer->byte_fallback = json_is_true(json_object_get(model, "byte_fallback"));
    tokenizer->ignore_merges = json_is_true(json_object_get(model, "ignore_merges"));
    tokenizer->unk_id = NONE_INDEX;
    if (json_is_string(unk)) {
        int32_t id = tokenizer_id_of(tokenizer, json_string_value(unk), json_string_length(unk));

        if (id == TOKENIZER_NO_ID)
            return opening_refuse(opening, STATUS_CORRUPT, "unk_token '%s' is not in the vocabulary", opening_name(unk, shown));
        tokenizer->unk_id = (uint32_t)id;
    }
    for (int i = 0; tokenizer->byte_level && tokenizer->byte_fallback && i < 256; i++) {
        if (tokenizer->byte_ids[i] == NONE_INDEX)
            return opening_refuse(opening, STATUS_INVALID, "byte_fallback in a byte-level vocabulary without byte %d is unknown here", i);
    }
    return true;
}

/* What a normaliser puts in front makes two words begin where the text does, for the definition; here only one does. */
static bool first_is_clear(struct opening *opening)
{
    const struct tokenizer *tokenizer = opening->tokenizer;
    bool prepends = false;

    for (uint32_t i = 0; i < tokenizer->normalize_count; i++)
        prepends |= tokenizer->normalize[i].kind == NORMALIZE_PREPEND;
    for (uint32_t i = 1; prepends && i < tokenizer->split_count; i++) {
        if (tokenizer->split[i].kind == SPLIT_METASPACE && tokenizer->split[i].prepend == PREPEND_first)
            return opening_refuse(opening, STATUS_INVALID,
                                  "Metaspace: prepend_scheme first behind another split and a Prepend is unknown here");
    }
    return true;
}

static void parts_open(struct opening *opening, const json_t *root, const char *config, size_t config_count)
{
    const json_t *added_tokens = json_object_get(root, "added_tokens");

    if (!json_is_object(root)) {
        opening_refuse(opening, STATUS_CORRUPT, "tokenizer.json: it is no object");
        return;
    }
    if (split_open(opening, json_object_get(root, "pre_tokenizer")) && normalize_open(opening, json_object_get(root, "normalizer")) &&
        first_is_clear(opening) && model_open(opening, root) && added_open(opening, added_tokens) &&
        post_open(opening, json_object_get(root, "post_processor")) && decode_open(opening, json_object_get(root, "decoder")))
        decode_prepare(opening->tokenizer);
    if (opening->status == STATUS_OK) {
        config_open(opening, config, config_count);
        return;
    }
    /* The name of the file in front. */
    memmove(opening->error + 16, opening->error, TOKENIZER_ERROR_MAX - 16);
    memcpy(opening->error, "tokenizer.json: ", 16);
    opening->error[TOKENIZER_ERROR_MAX - 1] = '\0';
}

enum status tokenizer_open_texts(const char *json, size_t json_count, const char *config, size_t config_count,
                                 struct tokenizer **ret_tokenizer, char ret_error[TOKENIZER_ERROR_MAX])
{
    struct tokenizer *tokenizer = calloc(1, sizeof(*tokenizer));
    struct opening opening = {.tokenizer = tokenizer, .error = ret_error};
    json_error_t error;
    json_t *root;

    check(tokenizer != NULL);
    root = json_loadb(json, json_count, JSON_ALLOW_NUL, &error);
    if (root == NULL) {
        char shown[EXCERPT_MAX];

        opening_refuse(&opening, STATUS_CORRUPT, "tokenizer.json: line %d: %s", error.line, excerpt(error.text, strlen(error.text), shown));
    } else {
        parts_open(&opening, root, config, config_count);
        json_decref(root);
    }
    if (opening.status != STATUS_OK) {
        tokenizer_close(tokenizer);
        return opening.status;
    }
    *ret_tokenizer = tokenizer;
    return STATUS_OK;
}

void tokenizer_close(struct tokenizer *tokenizer)
{
    if (tokenizer == NULL)
        return;
    for (uint32_t i = 0; i < tokenizer->split_count; i++)
        pcre2_code_free(tokenizer->split[i].regex);
    free(tokenizer->raw.tokens);
    free(tokenizer->normalized.tokens);
    free(tokenizer->merges);
    free(tokenizer->slots);
    free(tokenizer->pieces);
    token_text_free(&tokenizer->blob);
    free(tokenizer);
}

/* --- the files --- */

/* Plain or packed. NOT_FOUND without a word: another name may do. */
static enum status file_read(const char *directory, const char *name, size_t bytes_max, struct token_text *ret_text,
                             char ret_error[TOKENIZER_ERROR_MAX])
{
    char path[1024];
    char part[1 << 14];
    gzFile file;
    int got;

    if (snprintf(path, sizeof(path), "%s/%s", directory, name) >= (int)sizeof(path)) {
        snprintf(ret_error, TOKENIZER_ERROR_MAX, "the folder's name is too long");
        return STATUS_INVALID;
    }
    file = gzopen(path, "rb");
    if (file == NULL) {
        snprintf(ret_error, TOKENIZER_ERROR_MAX, "%s: %s", name, strerror(errno));
        return errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO;
    }
    while ((got = gzread(file, part, sizeof(part))) > 0 && ret_text->count <= bytes_max)
        token_text_add(ret_text, part, (size_t)got);
    if (got < 0 || gzclose_r(file) != Z_OK) {
        if (got < 0)
            gzclose_r(file);
        snprintf(ret_error, TOKENIZER_ERROR_MAX, "%s: it cannot be read to its end", name);
        return STATUS_IO;
    }
    if (ret_text->count > bytes_max) {
        snprintf(ret_error, TOKENIZER_ERROR_MAX, "%s: more than %zu bytes", name, bytes_max);
        return STATUS_INVALID;
    }
    return STATUS_OK;
}

enum { CONFIG_BYTES_MAX = 16 << 20 };

/* The template's own file goes before what tokenizer_config.json has. */
static void template_take(struct tokenizer *tokenizer, const struct token_text *text)
{
    tokenizer->has_chat_template = true;
    tokenizer->chat_template = span_add(tokenizer, text->bytes, text->count);
}

enum status tokenizer_open(const char *directory, struct tokenizer **ret_tokenizer, char ret_error[TOKENIZER_ERROR_MAX])
{
    struct token_text json = {0}, config = {0}, template = {0};
    enum status config_status, template_status = STATUS_NOT_FOUND;
    enum status status = file_read(directory, "tokenizer.json", TOKENIZER_FILE_BYTES_MAX, &json, ret_error);

    if (status == STATUS_NOT_FOUND)
        status = file_read(directory, "tokenizer.json.gz", TOKENIZER_FILE_BYTES_MAX, &json, ret_error);
    if (status == STATUS_NOT_FOUND)
        snprintf(ret_error, TOKENIZER_ERROR_MAX, "there is neither tokenizer.json nor tokenizer.json.gz");
    if (status != STATUS_OK)
        goto free_texts;
    config_status = file_read(directory, "tokenizer_config.json", CONFIG_BYTES_MAX, &config, ret_error);
    if (config_status == STATUS_OK || config_status == STATUS_NOT_FOUND)
        template_status = file_read(directory, "chat_template.jinja", CONFIG_BYTES_MAX, &template, ret_error);
    if (config_status != STATUS_OK && config_status != STATUS_NOT_FOUND)
        status = config_status;
    else if (template_status != STATUS_OK && template_status != STATUS_NOT_FOUND)
        status = template_status;
    if (status == STATUS_OK)
        status = tokenizer_open_texts(json.count > 0 ? json.bytes : "", json.count, config_status == STATUS_OK ? config.bytes : NULL,
                                      config.count, ret_tokenizer, ret_error);
    if (status == STATUS_OK && template_status == STATUS_OK)
        template_take(*ret_tokenizer, &template);
free_texts:
    token_text_free(&json);
    token_text_free(&config);
    token_text_free(&template);
    return status;
}

/* --- questions --- */

int32_t tokenizer_ids_count(const struct tokenizer *tokenizer)
{
    return tokenizer->pieces_count;
}

static int32_t added_find(const struct tokenizer *tokenizer, const struct added_set *set, const char *spelling, size_t count)
{
    for (uint32_t i = 0; i < set->count; i++) {
        struct span content = set->tokens[i].content;

        if (content.count == count && memcmp(span_text(tokenizer, content), spelling, count) == 0)
            return set->tokens[i].id;
    }
    return TOKENIZER_NO_ID;
}

int32_t tokenizer_id_of(const struct tokenizer *tokenizer, const char *spelling, size_t count)
{
    int32_t id = added_find(tokenizer, &tokenizer->raw, spelling, count);
    char *key;
    size_t key_count = count;
    uint32_t found = NONE_INDEX;

    if (id == TOKENIZER_NO_ID)
        id = added_find(tokenizer, &tokenizer->normalized, spelling, count);
    if (id != TOKENIZER_NO_ID || !tokenizer->byte_level)
        return id != TOKENIZER_NO_ID ? id : (int32_t)piece_find(tokenizer, spelling, count);
    key = malloc(count + 1);
    check(key != NULL);
    if (bytes_of_spelling(spelling, count, key, &key_count))
        found = piece_find(tokenizer, key, key_count);
    free(key);
    return (int32_t)found;
}

static const struct piece *piece_of(const struct tokenizer *tokenizer, int32_t id)
{
    bool exists = id >= 0 && id < tokenizer->pieces_count && tokenizer->pieces[id].flags & PIECE_EXISTS;

    return exists ? &tokenizer->pieces[id] : NULL;
}

const char *token_spelling(const struct tokenizer *tokenizer, int32_t id, size_t *ret_count)
{
    const struct piece *piece = piece_of(tokenizer, id);

    *ret_count = piece != NULL ? piece->spelling.count : 0;
    return piece != NULL ? span_text(tokenizer, piece->spelling) : NULL;
}

const char *token_bytes(const struct tokenizer *tokenizer, int32_t id, size_t *ret_count)
{
    const struct piece *piece = piece_of(tokenizer, id);

    if (piece != NULL && tokenizer->decode_bytes && piece->flags & PIECE_BYTE) {
        *ret_count = 1;
        return (const char *)&piece->byte;
    }
    *ret_count = piece != NULL ? piece->bytes.count : 0;
    return piece != NULL ? span_text(tokenizer, piece->bytes) : NULL;
}

bool token_is_special(const struct tokenizer *tokenizer, int32_t id)
{
    const struct piece *piece = piece_of(tokenizer, id);

    return piece != NULL && (piece->flags & PIECE_SPECIAL) != 0;
}

bool token_is_control(const struct tokenizer *tokenizer, int32_t id)
{
    const struct piece *piece = piece_of(tokenizer, id);

    return piece != NULL && (piece->flags & PIECE_CONTROL) != 0;
}

int32_t tokenizer_special(const struct tokenizer *tokenizer, enum tokenizer_role role)
{
    check(role < TOKENIZER_ROLE_COUNT);
    return tokenizer->roles[role];
}

const char *tokenizer_chat_template(const struct tokenizer *tokenizer, size_t *ret_count)
{
    *ret_count = tokenizer->chat_template.count;
    return tokenizer->has_chat_template ? span_text(tokenizer, tokenizer->chat_template) : NULL;
}
