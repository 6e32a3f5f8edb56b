/* Split first, decode after: a %2F in a segment is a letter of an id, never a path's slash. */
#include "control/http/target.h"

static int hex_of(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    if (digit >= 'a' && digit <= 'f')
        return digit - 'a' + 10;
    return digit >= 'A' && digit <= 'F' ? digit - 'A' + 10 : -1;
}

/* jansson knows UTF-8 strictly: no surrogates, no long forms. */
bool http_text_is_clean(const char *text)
{
    bool ascii = true;
    json_t *string;

    for (const char *at = text; *at != '\0'; at++) {
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            return false;
        ascii = ascii && (unsigned char)*at < 0x80;
    }
    if (ascii)
        return true;
    string = json_string(text);
    json_decref(string);
    return string != NULL;
}

bool http_decode(char *text, bool plus)
{
    char *out = text;

    for (const char *in = text; *in != '\0'; in++) {
        char byte = plus && *in == '+' ? ' ' : *in;

        if (*in == '%') {
            if (hex_of(in[1]) < 0 || hex_of(in[2]) < 0)
                return false;
            byte = (char)(hex_of(in[1]) * 16 + hex_of(in[2]));
            in += 2;
        }
        if (byte == '\0')
            return false;
        *out++ = byte;
    }
    *out = '\0';
    return http_text_is_clean(text);
}

/* Cuts `text` at the first `mark`; NULL: there is none. */
static char *cut_at(char *text, char mark)
{
    char *at = strchr(text, mark);

    if (at != NULL)
        *at++ = '\0';
    return at;
}

static const char *parse_path(struct http_target *target, char *path)
{
    for (char *next = path + 1; next != NULL;) {
        char *segment = next;

        next = cut_at(segment, '/');
        if (target->segments_count == TARGET_SEGMENTS_MAX)
            return "the path has too many segments";
        if (!http_decode(segment, false))
            return "the path has a broken percent escape, a control character or bytes that are not UTF-8";
        target->segments[target->segments_count++] = segment;
    }
    return NULL;
}

static const char *parse_query(struct http_target *target, char *query)
{
    for (char *next = query; next != NULL;) {
        char *name = next;
        char *value;

        next = cut_at(name, '&');
        if (*name == '\0')
            continue;
        value = cut_at(name, '=');
        if (value == NULL)
            value = name + strlen(name); /* "?a" is "?a=" */
        if (target->pairs_count == TARGET_PAIRS_MAX)
            return "the query has more than 32 parameters";
        if (!http_decode(name, true) || !http_decode(value, true))
            return "the query has a broken percent escape, a control character or bytes that are not UTF-8";
        for (uint32_t i = 0; i < target->pairs_count; i++)
            if (strcmp(target->pairs[i].name, name) == 0)
                return "a query parameter is given twice";
        target->pairs[target->pairs_count++] = (struct http_pair){name, value};
    }
    return NULL;
}

const char *http_target_parse(struct http_target *target, const char *raw, size_t bytes)
{
    const char *wrong;
    char *query;

    target->segments_count = target->pairs_count = 0;
    if (bytes > TARGET_BYTES_MAX)
        return "the path and query are longer than 4096 bytes";
    memmove(target->bytes, raw, bytes); /* it may already stand there */
    target->bytes[bytes] = '\0';
    if (bytes == 0 || raw[0] != '/')
        return "the path must begin with a slash";
    for (size_t i = 0; i < bytes; i++)
        if ((unsigned char)raw[i] <= 0x20 || raw[i] == 0x7f || raw[i] == '#')
            return "the path has a space, a control character or a fragment";
    query = cut_at(target->bytes, '?');
    wrong = parse_path(target, target->bytes);
    return wrong != NULL || query == NULL ? wrong : parse_query(target, query);
}

bool http_target_matches(const struct http_target *target, const char *pattern, const char *ret_ids[HTTP_CAPTURES_MAX],
                         uint32_t *ret_count)
{
    const char *at = pattern;
    uint32_t captures = 0;

    check(*pattern == '/');
    for (uint32_t i = 0; i < target->segments_count; i++) {
        size_t bytes;

        if (*at != '/')
            return false;
        at++;
        bytes = strcspn(at, "/");
        if (*at == '{') {
            check(captures < HTTP_CAPTURES_MAX);
            ret_ids[captures++] = target->segments[i];
        } else if (strncmp(at, target->segments[i], bytes) != 0 || target->segments[i][bytes] != '\0') {
            return false;
        }
        at += bytes;
    }
    *ret_count = captures;
    return *at == '\0';
}

bool http_id_is_sound(const char *id)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/@+~=,";

    if (id[0] == '\0' || strlen(id) > HTTP_ID_BYTES_MAX || id[strspn(id, letters)] != '\0')
        return false;
    for (const char *part = id; part != NULL;) {
        const size_t bytes = strcspn(part, "/");

        if (bytes == 0 || (bytes == 1 && part[0] == '.') || (bytes == 2 && part[0] == '.' && part[1] == '.'))
            return false;
        part = part[bytes] == '/' ? part + bytes + 1 : NULL;
    }
    return true;
}
