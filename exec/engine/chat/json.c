/* Values out of JSON, back into JSON as json.dumps(ensure_ascii=False) writes it, and as Python's repr(). What comes from the request is
 * marked so, keys too. */
#include <stdio.h>

#include "engine/chat/inside.h"

static struct string request_string(struct run *run, const char *bytes, size_t count)
{
    char *copy = run_take(run, count + 1);

    if (copy == NULL)
        return string_of("");
    memcpy(copy, bytes, count);
    return (struct string){.bytes = copy, .count = (uint32_t)count, .mark = 1};
}

static struct value value_of_list(struct run *run, const json_t *json, uint32_t depth)
{
    struct value list = value_list(run, (uint32_t)json_array_size(json));

    for (uint32_t i = 0; !run->failed && i < list.list->count; i++)
        list.list->items[i] = value_of_json(run, json_array_get(json, i), depth + 1);
    return list;
}

static struct value value_of_object(struct run *run, const json_t *json, uint32_t depth)
{
    struct dict *dict = dict_make(run, (uint32_t)json_object_size(json));
    const char *key;
    json_t *item;
    void *at;

    for (at = json_object_iter((json_t *)(uintptr_t)json); dict != NULL && at != NULL && !run->failed;
         at = json_object_iter_next((json_t *)(uintptr_t)json, at)) {
        key = json_object_iter_key(at);
        item = json_object_iter_value(at);
        dict->pairs[dict->count].key = request_string(run, key, strlen(key));
        dict->pairs[dict->count++].value = value_of_json(run, item, depth + 1);
    }
    return dict != NULL ? (struct value){.kind = VALUE_DICT, .dict = dict} : value_none();
}

struct value value_of_json(struct run *run, const json_t *json, uint32_t depth)
{
    if (depth > CHAT_DEPTH_MAX / 2) {
        run_fail(run, "the request nests too deep");
        return value_none();
    }
    if (run->failed || !run_step(run, 1))
        return value_none();
    switch (json_typeof(json)) {
    case JSON_OBJECT: return value_of_object(run, json, depth);
    case JSON_ARRAY: return value_of_list(run, json, depth);
    case JSON_STRING: return value_string(request_string(run, json_string_value(json), json_string_length(json)));
    case JSON_INTEGER: return value_int(json_integer_value(json));
    case JSON_REAL: return (struct value){.kind = VALUE_FLOAT, .number = json_real_value(json)};
    case JSON_TRUE: return value_bool(true);
    case JSON_FALSE: return value_bool(false);
    case JSON_NULL: break;
    }
    return value_none();
}

/* --- writing --- */

/* What is written for a byte that cannot stand for itself; "" for one that can. */
static const char *json_escape(unsigned char c, char ret_text[8])
{
    static const char letters[] = "\b\f\n\r\t\"\\", names[] = "bfnrt\"\\";
    const char *letter = c != '\0' ? strchr(letters, c) : NULL;

    ret_text[0] = '\0';
    if (letter != NULL)
        snprintf(ret_text, 8, "\\%c", names[letter - letters]);
    else if (c < 0x20)
        snprintf(ret_text, 8, "\\u%04x", c);
    return ret_text;
}

/* What an escape stands for is the string's own; so is its mark. */
static void write_escaped(struct builder *builder, struct string string, const char *(*escape)(unsigned char c, char ret_text[8]))
{
    size_t from = 0;

    for (size_t at = 0; at < string.count; at++) {
        char text[8];
        const char *escaped = escape((unsigned char)string.bytes[at], text);

        if (escaped[0] == '\0')
            continue;
        builder_add(builder, string_part(string, from, at - from));
        builder_add(builder, (struct string){.bytes = escaped, .count = (uint32_t)strlen(escaped),
                                             .mark = string.marks != NULL ? string.marks[at] : string.mark});
        from = at + 1;
    }
    builder_add(builder, string_part(string, from, string.count - from));
}

static void write_json_string(struct builder *builder, struct string string)
{
    builder_add_text(builder, "\"");
    write_escaped(builder, string, json_escape);
    builder_add_text(builder, "\"");
}

/* A new line `depth` deep; nothing when it all stands on one. */
static void write_line(struct builder *builder, int indent, uint32_t depth)
{
    if (indent < 0)
        return;
    builder_add_text(builder, "\n");
    for (int64_t i = 0; i < (int64_t)indent * depth && !builder->run->failed; i++)
        builder_add_text(builder, " ");
}

static void write_json_list(struct builder *builder, const struct list *list, int indent, uint32_t depth)
{
    builder_add_text(builder, "[");
    for (uint32_t i = 0; i < list->count && !builder->run->failed; i++) {
        if (i > 0)
            builder_add_text(builder, indent < 0 ? ", " : ",");
        write_line(builder, indent, depth + 1);
        json_write(builder, list->items[i], indent, depth + 1);
    }
    if (list->count > 0)
        write_line(builder, indent, depth);
    builder_add_text(builder, "]");
}

static void write_json_dict(struct builder *builder, const struct dict *dict, int indent, uint32_t depth)
{
    builder_add_text(builder, "{");
    for (uint32_t i = 0; i < dict->count && !builder->run->failed; i++) {
        if (i > 0)
            builder_add_text(builder, indent < 0 ? ", " : ",");
        write_line(builder, indent, depth + 1);
        write_json_string(builder, dict->pairs[i].key);
        builder_add_text(builder, ": ");
        json_write(builder, dict->pairs[i].value, indent, depth + 1);
    }
    if (dict->count > 0)
        write_line(builder, indent, depth);
    builder_add_text(builder, "}");
}

void json_write(struct builder *builder, struct value value, int indent, uint32_t depth)
{
    if (depth > CHAT_DEPTH_MAX) {
        run_fail(builder->run, "a value nests too deep");
        return;
    }
    if (!run_step(builder->run, 1))
        return;
    switch (value.kind) {
    case VALUE_NONE: builder_add_text(builder, "null"); break;
    case VALUE_BOOL: builder_add_text(builder, value.truth ? "true" : "false"); break;
    case VALUE_INT:
    case VALUE_FLOAT: builder_add(builder, value_text(builder->run, value)); break;
    case VALUE_STRING: write_json_string(builder, value.string); break;
    case VALUE_LIST: write_json_list(builder, value.list, indent, depth); break;
    case VALUE_DICT: write_json_dict(builder, value.dict, indent, depth); break;
    default: run_fail(builder->run, "%s is no JSON", value_kind_text(value)); break;
    }
}

static const char *repr_escape(unsigned char c, char ret_text[8])
{
    static const char letters[] = "\n\r\t\\'", names[] = "nrt\\'";
    const char *letter = c != '\0' ? strchr(letters, c) : NULL;

    ret_text[0] = '\0';
    if (letter != NULL)
        snprintf(ret_text, 8, "\\%c", names[letter - letters]);
    else if (c < 0x20 || c == 0x7f)
        snprintf(ret_text, 8, "\\x%02x", c);
    return ret_text;
}

static const char *repr_escape_but_quote(unsigned char c, char ret_text[8])
{
    ret_text[0] = '\0';
    return c == '\'' ? ret_text : repr_escape(c, ret_text);
}

static void repr_string(struct builder *builder, struct string string)
{
    bool doubles = string.count > 0 && memchr(string.bytes, '\'', string.count) != NULL && memchr(string.bytes, '"', string.count) == NULL;
    const char *quote = doubles ? "\"" : "'";

    builder_add_text(builder, quote);
    write_escaped(builder, string, doubles ? repr_escape_but_quote : repr_escape);
    builder_add_text(builder, quote);
}

static void repr_list(struct builder *builder, const struct list *list, uint32_t depth)
{
    builder_add_text(builder, list->is_tuple ? "(" : "[");
    for (uint32_t i = 0; i < list->count && !builder->run->failed; i++) {
        builder_add_text(builder, i > 0 ? ", " : "");
        repr_write(builder, list->items[i], depth + 1);
    }
    builder_add_text(builder, !list->is_tuple ? "]" : list->count == 1 ? ",)" : ")");
}

static void repr_dict(struct builder *builder, const struct dict *dict, uint32_t depth)
{
    builder_add_text(builder, "{");
    for (uint32_t i = 0; i < dict->count && !builder->run->failed; i++) {
        builder_add_text(builder, i > 0 ? ", " : "");
        repr_string(builder, dict->pairs[i].key);
        builder_add_text(builder, ": ");
        repr_write(builder, dict->pairs[i].value, depth + 1);
    }
    builder_add_text(builder, "}");
}

void repr_write(struct builder *builder, struct value value, uint32_t depth)
{
    if (depth > CHAT_DEPTH_MAX) {
        run_fail(builder->run, "a value nests too deep");
        return;
    }
    if (!run_step(builder->run, 1))
        return;
    switch (value.kind) {
    case VALUE_STRING: repr_string(builder, value.string); break;
    case VALUE_LIST: repr_list(builder, value.list, depth); break;
    case VALUE_DICT: repr_dict(builder, value.dict, depth); break;
    case VALUE_UNDEFINED: builder_add_text(builder, "Undefined"); break;
    default: builder_add(builder, value_text(builder->run, value)); break;
    }
}
