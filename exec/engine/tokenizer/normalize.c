/* Normalisers: marks put in front and in place of spaces, and Unicode's normal forms (UAX #15). The marks of plain bytes go along.
 * Decomposing and composing are utf8proc's; the order of combining marks is made here, by counting, because a text that is nothing but
 * marks must not take the square of its length. */
#include <stdlib.h>

#include <utf8proc.h>

#include "engine/tokenizer/inside.h"
#include "engine/tokenizer/utf8.h"
#include "host/words.h"

/* --- texts with marks --- */

static void marked_add(struct marked_text *to, const char *bytes, size_t count, bool marks, uint8_t plain)
{
    size_t before = to->text.count;

    token_text_add(&to->text, bytes, count);
    if (!marks || count == 0)
        return;
    if (to->plain_capacity < to->text.capacity) {
        to->plain_capacity = to->text.capacity;
        to->plain = realloc(to->plain, to->plain_capacity);
        check(to->plain != NULL);
    }
    memset(to->plain + before, plain, count);
}

void marked_text_free(struct marked_text *text)
{
    token_text_free(&text->text);
    free(text->plain);
    *text = (struct marked_text){0};
}

size_t text_find(const char *text, size_t count, size_t from, const char *pattern, size_t pattern_count)
{
    while (from + pattern_count <= count) {
        const char *found = memchr(text + from, pattern[0], count - from - pattern_count + 1);

        if (found == NULL)
            break;
        from = (size_t)(found - text);
        if (memcmp(found, pattern, pattern_count) == 0)
            return from;
        from++;
    }
    return SIZE_MAX;
}

void replace_all(const char *text, size_t count, const char *pattern, size_t pattern_count, const char *content, size_t content_count,
                 struct token_text *ret_text)
{
    size_t at = 0;
    size_t found;

    while ((found = text_find(text, count, at, pattern, pattern_count)) != SIZE_MAX) {
        token_text_add(ret_text, text + at, found - at);
        token_text_add(ret_text, content, content_count);
        at = found + pattern_count;
    }
    token_text_add(ret_text, text + at, count - at);
}

/* --- normal forms --- */

static int class_of(utf8proc_int32_t code)
{
    return utf8proc_get_property(code)->combining_class;
}

/* A run of combining marks into the order of their classes, equals as they were. */
static void order_run(utf8proc_int32_t *codes, size_t count, utf8proc_int32_t *room)
{
    size_t starts[257] = {0};

    if (count <= 16) {
        for (size_t i = 1; i < count; i++) {
            utf8proc_int32_t code = codes[i];
            size_t at = i;

            for (; at > 0 && class_of(codes[at - 1]) > class_of(code); at--)
                codes[at] = codes[at - 1];
            codes[at] = code;
        }
        return;
    }
    for (size_t i = 0; i < count; i++)
        starts[class_of(codes[i]) + 1]++;
    for (size_t i = 1; i < 257; i++)
        starts[i] += starts[i - 1];
    for (size_t i = 0; i < count; i++)
        room[starts[class_of(codes[i])]++] = codes[i];
    memcpy(codes, room, count * sizeof(*codes));
}

static void order_marks(utf8proc_int32_t *codes, size_t count, utf8proc_int32_t *room)
{
    for (size_t at = 0; at < count;) {
        size_t end = at;

        while (end < count && class_of(codes[end]) > 0)
            end++;
        order_run(codes + at, end - at, room);
        at = end > at ? end : at + 1;
    }
}

enum { DECOMPOSED_MAX = 32 }; /* the longest is U+FDFA: 18 */

static utf8proc_int32_t *decompose(const char *text, size_t count, utf8proc_option_t options, size_t *ret_count)
{
    size_t capacity = count + DECOMPOSED_MAX;
    size_t used = 0;
    utf8proc_int32_t *codes = malloc(capacity * sizeof(*codes));

    check(codes != NULL);
    for (size_t at = 0; at < count;) {
        struct utf8 here = utf8_at(text + at, count - at);
        utf8proc_ssize_t added;

        if (capacity - used < DECOMPOSED_MAX) {
            capacity *= 2;
            codes = realloc(codes, capacity * sizeof(*codes));
            check(codes != NULL);
        }
        added = utf8proc_decompose_char((utf8proc_int32_t)here.code, codes + used, DECOMPOSED_MAX, options, NULL);
        check(added >= 0 && added <= DECOMPOSED_MAX);
        used += (size_t)added;
        at += here.bytes;
    }
    *ret_count = used;
    return codes;
}

static void add_normal_form(enum normalize_kind kind, const char *text, size_t count, bool marks, uint8_t plain, struct marked_text *to)
{
    bool composes = kind == NORMALIZE_NFC || kind == NORMALIZE_NFKC;
    utf8proc_option_t options = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
    utf8proc_int32_t *codes, *room;
    utf8proc_ssize_t left;
    size_t codes_count;

    if (kind == NORMALIZE_NFKC || kind == NORMALIZE_NFKD)
        options |= UTF8PROC_COMPAT;
    codes = decompose(text, count, options, &codes_count);
    room = malloc((codes_count + 1) * sizeof(*room));
    check(room != NULL);
    order_marks(codes, codes_count, room);
    free(room);
    left = (utf8proc_ssize_t)codes_count;
    if (composes)
        left = utf8proc_normalize_utf32(codes, left, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    check(left >= 0);
    for (utf8proc_ssize_t i = 0; i < left; i++) {
        char bytes[4];

        marked_add(to, bytes, utf8_write((uint32_t)codes[i], bytes), marks, plain);
    }
    free(codes);
}

static bool is_ascii(const char *text, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if ((unsigned char)text[i] >= 0x80)
            return false;
    }
    return true;
}

/* Stretches that are marked and those that are not are normalised apart: a mark says whose every byte is. */
static void to_normal_form(enum normalize_kind kind, const struct marked_text *from, struct marked_text *to)
{
    const char *bytes = from->text.bytes;
    bool marks = from->plain != NULL;

    for (size_t at = 0, end; at < from->text.count; at = end) {
        uint8_t plain = marks ? from->plain[at] : 0;

        end = marks ? at + 1 : from->text.count;
        while (end < from->text.count && from->plain[end] == plain)
            end++;
        if (is_ascii(bytes + at, end - at))
            marked_add(to, bytes + at, end - at, marks, plain);
        else
            add_normal_form(kind, bytes + at, end - at, marks, plain, to);
    }
}

/* --- the steps --- */

static void do_replace(const struct tokenizer *tokenizer, const struct normalize_step *step, const struct marked_text *from,
                       struct marked_text *to)
{
    const char *bytes = from->text.bytes;
    const char *pattern = span_text(tokenizer, step->pattern);
    bool marks = from->plain != NULL;

    for (size_t at = 0, found; at < from->text.count; at = found + step->pattern.count) {
        found = text_find(bytes, from->text.count, at, pattern, step->pattern.count);
        if (found == SIZE_MAX)
            found = from->text.count;
        for (size_t end = at; at < found; at = end) {
            while (end < found && (!marks || from->plain[end] == from->plain[at]))
                end++;
            marked_add(to, bytes + at, end - at, marks, marks ? from->plain[at] : 0);
        }
        if (found == from->text.count)
            break;
        marked_add(to, span_text(tokenizer, step->content), step->content.count, marks, marks ? from->plain[found] : 0);
    }
}

static void do_step(const struct tokenizer *tokenizer, const struct normalize_step *step, const struct marked_text *from,
                    struct marked_text *to)
{
    switch (step->kind) {
    case NORMALIZE_PREPEND:
        marked_add(to, span_text(tokenizer, step->content), step->content.count, from->plain != NULL, 0);
        for (size_t at = 0, end = 0; at < from->text.count; at = end) {
            while (end < from->text.count && (from->plain == NULL || from->plain[end] == from->plain[at]))
                end++;
            marked_add(to, from->text.bytes + at, end - at, from->plain != NULL, from->plain != NULL ? from->plain[at] : 0);
        }
        break;
    case NORMALIZE_REPLACE:
        do_replace(tokenizer, step, from, to);
        break;
    case NORMALIZE_NFC:
    case NORMALIZE_NFD:
    case NORMALIZE_NFKC:
    case NORMALIZE_NFKD:
        to_normal_form(step->kind, from, to);
        break;
    }
}

bool normalize_text(const struct tokenizer *tokenizer, struct marked_text *text, struct marked_text *other)
{
    for (uint32_t i = 0; i < tokenizer->normalize_count && text->text.count > 0; i++) {
        if (text->text.count > NORMALIZED_BYTES_MAX)
            return false;
        struct marked_text swap;

        other->text.count = 0;
        do_step(tokenizer, &tokenizer->normalize[i], text, other);
        if (text->plain == NULL) {
            free(other->plain);
            other->plain = NULL;
            other->plain_capacity = 0;
        }
        swap = *text;
        *text = *other;
        *other = swap;
    }
    return text->text.count <= NORMALIZED_BYTES_MAX;
}

/* --- reading --- */

enum { CONTENT_MAX = 16 };

static const struct {
    const char *type;
    enum normalize_kind kind;
} kinds[] = {{"Prepend", NORMALIZE_PREPEND}, {"Replace", NORMALIZE_REPLACE}, {"NFC", NORMALIZE_NFC},
             {"NFD", NORMALIZE_NFD},         {"NFKC", NORMALIZE_NFKC},       {"NFKD", NORMALIZE_NFKD}};

static bool step_open(struct opening *opening, const json_t *normalizer)
{
    struct tokenizer *tokenizer = opening->tokenizer;
    const json_t *pattern = json_object_get(json_object_get(normalizer, "pattern"), "String");
    struct normalize_step step = {0};
    const json_t *content;
    char shown[EXCERPT_MAX];
    size_t i;

    for (i = 0; i < ARRAY_COUNT(kinds); i++) {
        if (strcmp(kinds[i].type, type_of(normalizer)) == 0)
            break;
    }
    if (i == ARRAY_COUNT(kinds))
        return opening_refuse(opening, STATUS_INVALID, "normalizer '%s' is unknown here",
                              opening_name(json_object_get(normalizer, "type"), shown));
    if (tokenizer->normalize_count == STEPS_MAX)
        return opening_refuse(opening, STATUS_INVALID, "more than %d normalizers", STEPS_MAX);
    step.kind = kinds[i].kind;
    content = json_object_get(normalizer, step.kind == NORMALIZE_PREPEND ? "prepend" : "content");
    if (step.kind == NORMALIZE_REPLACE) {
        if (json_string_length(pattern) == 0)
            return opening_refuse(opening, STATUS_INVALID, "normalizer Replace: only a pattern that is a String is known here");
        step.pattern = span_add(tokenizer, json_string_value(pattern), json_string_length(pattern));
    }
    if (step.kind == NORMALIZE_REPLACE || step.kind == NORMALIZE_PREPEND) {
        if (!json_is_string(content) || json_string_length(content) > CONTENT_MAX)
            return opening_refuse(opening, STATUS_INVALID, "normalizer %s has no text of at most %d bytes", kinds[i].type, CONTENT_MAX);
        step.content = span_add(tokenizer, json_string_value(content), json_string_length(content));
    }
    tokenizer->normalize[tokenizer->normalize_count++] = step;
    return true;
}

bool normalize_open(struct opening *opening, const json_t *normalizer)
{
    const json_t *list = json_object_get(normalizer, "normalizers");
    const json_t *item;
    size_t i;

    if (normalizer == NULL || json_is_null(normalizer))
        return true;
    if (strcmp(type_of(normalizer), "Sequence") != 0)
        return step_open(opening, normalizer);
    json_array_foreach(list, i, item) {
        if (!step_open(opening, item))
            return false;
    }
    return true;
}
