/* Strings whose every byte knows where it came from. Most came whole from one side, and say so once. */
#include <stdlib.h>

#include "engine/chat/inside.h"
#include "engine/tokenizer/utf8.h"

struct string string_of(const char *text)
{
    return (struct string){.bytes = text, .count = (uint32_t)strlen(text)};
}

struct string string_of_word(struct word word)
{
    return (struct string){.bytes = word.bytes, .count = word.count};
}

struct string string_part(struct string string, size_t from, size_t count)
{
    return (struct string){.bytes = string.bytes + from, .count = (uint32_t)count, .mark = string.mark,
                           .marks = string.marks != NULL ? string.marks + from : NULL};
}

/* --- growing --- */

static void builder_grow(struct builder *builder, size_t count)
{
    size_t capacity = builder->count + count < 2 * builder->capacity ? 2 * builder->capacity : builder->count + count;
    char *bytes = run_take(builder->run, capacity);
    uint8_t *marks = run_take(builder->run, capacity);

    if (bytes == NULL || marks == NULL)
        return;
    if (builder->count > 0) {
        memcpy(bytes, builder->bytes, builder->count);
        memcpy(marks, builder->marks, builder->count);
    }
    builder->bytes = bytes;
    builder->marks = marks;
    builder->capacity = capacity;
}

void builder_add(struct builder *builder, struct string string)
{
    if (string.count == 0 || builder->run->failed)
        return;
    if (string.count > builder->capacity - builder->count)
        builder_grow(builder, string.count);
    if (builder->run->failed || !run_step(builder->run, string.count / 64))
        return;
    memcpy(builder->bytes + builder->count, string.bytes, string.count);
    if (string.marks != NULL)
        memcpy(builder->marks + builder->count, string.marks, string.count);
    else
        memset(builder->marks + builder->count, string.mark, string.count);
    builder->count += string.count;
}

void builder_add_text(struct builder *builder, const char *text)
{
    builder_add(builder, string_of(text));
}

struct string builder_string(const struct builder *builder)
{
    uint8_t first = builder->count > 0 ? builder->marks[0] : 0;

    if (builder->count == 0)
        return string_of("");
    return (struct string){.bytes = builder->bytes, .count = (uint32_t)builder->count, .mark = first, .marks = builder->marks};
}

struct string string_join(struct run *run, struct string left, struct string right)
{
    struct builder builder = {.run = run};

    if (left.count == 0 || right.count == 0)
        return left.count == 0 ? right : left;
    builder_grow(&builder, (size_t)left.count + right.count);
    builder_add(&builder, left);
    builder_add(&builder, right);
    return builder_string(&builder);
}

void chat_text_add(struct chat_text *text, struct string string)
{
    size_t before = text->text.count;

    token_text_add(&text->text, string.bytes, string.count);
    if (text->plain_capacity < text->text.capacity) {
        text->plain_capacity = text->text.capacity;
        text->plain = realloc(text->plain, text->plain_capacity);
        check(text->plain != NULL);
    }
    if (string.count > 0 && string.marks != NULL)
        memcpy(text->plain + before, string.marks, string.count);
    else if (string.count > 0)
        memset(text->plain + before, string.mark, string.count);
}

/* --- comparing and finding --- */

bool string_equal(struct string left, struct string right)
{
    return left.count == right.count && (left.count == 0 || memcmp(left.bytes, right.bytes, left.count) == 0);
}

int string_compare(struct string left, struct string right)
{
    uint32_t count = min_u32(left.count, right.count);
    int order = count == 0 ? 0 : memcmp(left.bytes, right.bytes, count);

    if (order == 0)
        order = (left.count > right.count) - (left.count < right.count);
    return order;
}

size_t string_find(struct run *run, struct string string, struct string part, size_t from)
{
    size_t scanned = string.count - from;

    /* At worst every byte begins what is nearly the part. */
    if (!run_step(run, scanned / 64 * (1 + part.count / 64)))
        return SIZE_MAX;
    if (part.count == 0)
        return from;
    while (from + part.count <= string.count) {
        const char *found = memchr(string.bytes + from, part.bytes[0], string.count - from - part.count + 1);

        if (found == NULL)
            break;
        from = (size_t)(found - string.bytes);
        if (memcmp(found, part.bytes, part.count) == 0)
            return from;
        from++;
    }
    return SIZE_MAX;
}

static bool is_stripped(uint32_t code, const struct string *characters)
{
    if (characters == NULL)
        return code_is_space(code) || (code >= 0x1c && code <= 0x1f); /* as Python's str.strip() */
    for (size_t at = 0; at < characters->count;) {
        struct utf8 here = utf8_at(characters->bytes + at, characters->count - at);

        if (here.code == code)
            return true;
        at += here.bytes;
    }
    return false;
}

struct string string_strip(struct string string, const struct string *characters, unsigned sides)
{
    size_t from = 0, to = string.count;

    while (sides & 1 && from < to) {
        struct utf8 here = utf8_at(string.bytes + from, to - from);

        if (!is_stripped(here.code, characters))
            break;
        from += here.bytes;
    }
    while (sides & 2 && to > from) {
        struct utf8 here = utf8_before(string.bytes + from, to - from);

        if (!is_stripped(here.code, characters))
            break;
        to -= here.bytes;
    }
    return string_part(string, from, to - from);
}

/* --- characters --- */

static bool begins(char byte)
{
    return ((unsigned char)byte & 0xc0) != 0x80;
}

size_t string_length(struct string string)
{
    size_t length = 0;

    for (size_t i = 0; i < string.count; i++)
        length += begins(string.bytes[i]);
    return length;
}

size_t string_offset(struct string string, size_t character)
{
    for (size_t i = 0; i < string.count; i++) {
        if (!begins(string.bytes[i]))
            continue;
        if (character == 0)
            return i;
        character--;
    }
    return string.count;
}
