/* Lists of ids and texts that grow by doubling, and the few lines that every part of opening shares. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/tokenizer/inside.h"
#include "host/words.h"

void token_list_add(struct token_list *list, int32_t id)
{
    if (list->count == list->capacity) {
        list->capacity = list->capacity == 0 ? 64 : list->capacity * 2;
        list->ids = realloc(list->ids, list->capacity * sizeof(*list->ids));
        check(list->ids != NULL);
    }
    list->ids[list->count++] = id;
}

void token_list_free(struct token_list *list)
{
    free(list->ids);
    *list = (struct token_list){0};
}

void token_text_add(struct token_text *text, const char *bytes, size_t count)
{
    if (count == 0)
        return;
    if (count > text->capacity - text->count) {
        size_t needed = text->count + count;

        text->capacity = needed < 64 ? 64 : needed > text->capacity * 2 ? needed : text->capacity * 2;
        text->bytes = realloc(text->bytes, text->capacity);
        check(text->bytes != NULL);
    }
    memcpy(text->bytes + text->count, bytes, count);
    text->count += count;
}

void token_text_free(struct token_text *text)
{
    free(text->bytes);
    *text = (struct token_text){0};
}

const char *span_text(const struct tokenizer *tokenizer, struct span span)
{
    return span.count == 0 ? "" : tokenizer->blob.bytes + span.at;
}

struct span span_add(struct tokenizer *tokenizer, const char *text, size_t count)
{
    struct span span = {(uint32_t)tokenizer->blob.count, (uint32_t)count};

    check(tokenizer->blob.count + count <= UINT32_MAX);
    token_text_add(&tokenizer->blob, text, count);
    return span;
}

bool opening_refuse(struct opening *opening, enum status status, const char *what, ...)
{
    va_list arguments;

    if (opening->status != STATUS_OK)
        return false;
    opening->status = status;
    va_start(arguments, what);
    vsnprintf(opening->error, TOKENIZER_ERROR_MAX, what, arguments);
    va_end(arguments);
    return false;
}

const char *type_of(const json_t *description)
{
    const char *type = json_string_value(json_object_get(description, "type"));

    return type != NULL ? type : "";
}

const char *opening_name(const json_t *string, char ret_excerpt[])
{
    return excerpt(json_is_string(string) ? json_string_value(string) : "", json_string_length(string), ret_excerpt);
}
