/* A machine of five states. Data is searched for CR with memchr; what may be the start of a boundary is counted, not kept, since it
 * equals the boundary's first bytes: if it turns out to be data, it is passed on from there. */
#include "control/http/multipart.h"

#include <strings.h>

#include "control/http/target.h"

enum multipart_state { PREAMBLE, AFTER_BOUNDARY, HEADERS, DATA, OVER };

static bool fault(struct http_multipart *parser, const char *wrong)
{
    if (parser->wrong == NULL)
        parser->wrong = wrong;
    return false;
}

static bool allowed(struct http_multipart *parser, bool go_on)
{
    parser->stopped = parser->stopped || !go_on;
    return go_on;
}

static bool is_token_byte(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') ||
           (byte != '\0' && strchr("!#$%&'*+-.^_`|~", byte) != NULL);
}

static const char *skip_spaces(const char *at)
{
    while (*at == ' ' || *at == '\t')
        at++;
    return at;
}

/* NAME=VALUE after a ";", the value a token or quoted with backslashes. Returns what follows; NULL: broken, or too long for its place. */
static const char *read_parameter(const char *at, char *ret_name, size_t name_max, char *ret_value, size_t value_max)
{
    size_t count = 0;

    for (; is_token_byte(*at) && count < name_max; at++)
        ret_name[count++] = *at;
    ret_name[count] = '\0';
    if (count == 0 || *at++ != '=')
        return NULL;
    count = 0;
    if (*at != '"') {
        for (; is_token_byte(*at); at++) {
            if (count == value_max)
                return NULL;
            ret_value[count++] = *at;
        }
        ret_value[count] = '\0';
        return count == 0 ? NULL : at;
    }
    for (at++; *at != '"'; at++) {
        if (*at == '\\' && (at[1] == '"' || at[1] == '\\'))
            at++;
        if (*at == '\0' || count == value_max)
            return NULL;
        ret_value[count++] = *at;
    }
    ret_value[count] = '\0';
    return at + 1;
}

bool http_multipart_begin(struct http_multipart *parser, const char *content_type, const struct http_multipart_events *events,
                          void *context)
{
    static const char kind[] = "multipart/form-data";
    const char *at = content_type + sizeof(kind) - 1;
    char boundary[MULTIPART_BOUNDARY_MAX + 1] = "";

    if (strncasecmp(content_type, kind, sizeof(kind) - 1) != 0)
        return false;
    while (*(at = skip_spaces(at)) == ';') {
        char name[32];
        char value[MULTIPART_BOUNDARY_MAX + 1];

        at = read_parameter(skip_spaces(at + 1), name, sizeof(name) - 1, value, sizeof(value) - 1);
        if (at == NULL)
            return false;
        if (strcasecmp(name, "boundary") != 0)
            continue;
        if (boundary[0] != '\0')
            return false;
        strcpy(boundary, value);
    }
    for (const char *byte = boundary; *byte != '\0'; byte++)
        if ((unsigned char)*byte < 0x20 || (unsigned char)*byte > 0x7e)
            return false;
    if (*at != '\0' || boundary[0] == '\0' || boundary[strlen(boundary) - 1] == ' ')
        return false;
    memset(parser, 0, sizeof(*parser));
    parser->events = events;
    parser->context = context;
    memcpy(parser->boundary, "\r\n--", 4);
    strcpy(parser->boundary + 4, boundary);
    parser->boundary_bytes = 4 + strlen(boundary);
    parser->matched = 2; /* a body may begin with its boundary: as if a line had ended before it */
    parser->state = PREAMBLE;
    return true;
}

/* Characters, no controls; of escapes, only %22 is one: that is what clients write for a quote. */
static bool clean_text(char *text)
{
    char *out = text;

    for (const char *in = text; *in != '\0'; in++) {
        const bool quote = strncmp(in, "%22", 3) == 0;

        *out++ = quote ? '"' : *in;
        in += quote ? 2 : 0;
    }
    *out = '\0';
    return http_text_is_clean(text);
}

static bool read_disposition(struct http_multipart *parser, const char *at)
{
    if (parser->disposed)
        return fault(parser, "a part has two Content-Disposition headers");
    parser->disposed = true;
    if (strncasecmp(at, "form-data", 9) != 0)
        return fault(parser, "a part's Content-Disposition is not form-data");
    for (at = skip_spaces(at + 9); *at == ';'; at = skip_spaces(at)) {
        char name[16];
        char value[HTTP_FILENAME_MAX * 3 + 1];

        at = read_parameter(skip_spaces(at + 1), name, sizeof(name) - 1, value, sizeof(value) - 1);
        if (at == NULL)
            return fault(parser, "a part's Content-Disposition cannot be read");
        if (strcasecmp(name, "name") != 0 && strcasecmp(name, "filename") != 0)
            continue;
        if (!clean_text(value))
            return fault(parser, "a part's name is not UTF-8 or has control characters");
        if (strcasecmp(name, "name") == 0) {
            if (parser->named || value[0] == '\0' || strlen(value) > HTTP_PART_NAME_MAX)
                return fault(parser, "a part's name is empty, given twice or longer than 64 bytes");
            parser->named = true;
            strcpy(parser->name, value);
        } else {
            if (parser->has_filename || strlen(value) > HTTP_FILENAME_MAX)
                return fault(parser, "a part's filename is given twice or longer than 255 bytes");
            parser->has_filename = true;
            strcpy(parser->filename, value);
        }
    }
    return *at == '\0' || fault(parser, "a part's Content-Disposition cannot be read");
}

static bool read_header(struct http_multipart *parser)
{
    const char *value = strchr(parser->line, ':');
    const size_t name_bytes = value == NULL ? 0 : (size_t)(value - parser->line);

    if (++parser->headers_count > MULTIPART_HEADERS_MAX)
        return fault(parser, "a part has more than 8 headers");
    for (size_t i = 0; i < name_bytes; i++)
        if (!is_token_byte(parser->line[i]))
            return fault(parser, "a part's header has no name");
    if (name_bytes == 0)
        return fault(parser, "a part's header has no name");
    value = skip_spaces(value + 1);
    if (name_bytes == 19 && strncasecmp(parser->line, "content-disposition", 19) == 0)
        return read_disposition(parser, value);
    if (name_bytes == 12 && strncasecmp(parser->line, "content-type", 12) == 0) {
        if (parser->content_type[0] != '\0' || value[0] == '\0' || strlen(value) >= sizeof(parser->content_type) ||
            strncasecmp(value, "multipart/", 10) == 0)
            return fault(parser, "a part's Content-Type is given twice, too long or multipart");
        strcpy(parser->content_type, value);
    }
    if (name_bytes == 25 && strncasecmp(parser->line, "content-transfer-encoding", 25) == 0 && strcasecmp(value, "binary") != 0 &&
        strcasecmp(value, "8bit") != 0 && strcasecmp(value, "7bit") != 0)
        return fault(parser, "a part is encoded; send its bytes as they are");
    return true;
}

static bool begin_part(struct http_multipart *parser)
{
    const struct http_part part = {parser->name, parser->has_filename ? parser->filename : NULL, parser->content_type};

    if (!parser->named)
        return fault(parser, "a part has no name");
    parser->state = DATA;
    return allowed(parser, parser->events->part_begin(parser->context, &part));
}

/* A header's line, or the rest of a boundary's. */
static bool read_line(struct http_multipart *parser)
{
    parser->line[parser->line_bytes] = '\0';
    if (strlen(parser->line) != parser->line_bytes)
        return fault(parser, "a part's header has a control character");
    if (parser->state == HEADERS)
        return parser->line_bytes == 0 ? begin_part(parser) : read_header(parser);
    if (parser->line_bytes != 0)
        return fault(parser, "a boundary is followed by something else");
    if (++parser->parts_count > MULTIPART_PARTS_MAX)
        return fault(parser, "the body has more than 64 parts");
    parser->headers_count = 0;
    parser->disposed = parser->named = parser->has_filename = false;
    parser->content_type[0] = '\0';
    parser->state = HEADERS;
    return true;
}

/* Takes bytes of a line up to its end; returns how many, 0 on a fault. The last boundary needs no end. */
static size_t feed_line(struct http_multipart *parser, const char *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        const char byte = data[i];
        const bool after_cr = parser->line_bytes > 0 && parser->line[parser->line_bytes - 1] == '\r';

        if (after_cr && byte == '\n') {
            parser->line_bytes--;
            if (!read_line(parser))
                return 0;
            parser->line_bytes = 0;
            return i + 1;
        }
        if (after_cr || byte == '\n' || parser->line_bytes == MULTIPART_LINE_MAX - 1) {
            fault(parser, "a part's header line is longer than 1023 bytes or does not end in CR and LF");
            return 0;
        }
        parser->line[parser->line_bytes++] = byte;
        if (parser->state == AFTER_BOUNDARY && parser->line_bytes == 2 && memcmp(parser->line, "--", 2) == 0) {
            parser->state = OVER;
            return i + 1;
        }
    }
    return bytes;
}

/* Data of a part, or what stands before the first: a stretch that cannot be of a boundary. */
static bool pass(struct http_multipart *parser, const char *data, size_t bytes)
{
    if (bytes == 0 || parser->state == PREAMBLE)
        return true;
    return allowed(parser, parser->events->part_data(parser->context, data, bytes));
}

/* Takes data up to the end of a boundary; returns how many bytes, 0 on a fault. A mismatch can begin a boundary anew only with its own
 * byte, if that is CR: CR stands nowhere else in a boundary. */
static size_t feed_data(struct http_multipart *parser, const char *data, size_t bytes)
{
    size_t at = 0;

    while (at < bytes) {
        if (parser->matched == 0) {
            const char *cr = memchr(data + at, '\r', bytes - at);
            const size_t plain = cr == NULL ? bytes - at : (size_t)(cr - data) - at;

            if (!pass(parser, data + at, plain))
                return 0;
            at += plain;
            if (cr == NULL)
                continue;
        }
        if (data[at] == parser->boundary[parser->matched]) {
            at++;
            if (++parser->matched < parser->boundary_bytes)
                continue;
            parser->matched = 0;
            if (parser->state == DATA && !allowed(parser, parser->events->part_end(parser->context)))
                return 0;
            parser->state = AFTER_BOUNDARY;
            return at;
        }
        if (!pass(parser, parser->boundary, parser->matched))
            return 0;
        parser->matched = 0;
    }
    return bytes;
}

bool http_multipart_feed(struct http_multipart *parser, const char *data, size_t bytes)
{
    while (bytes > 0 && parser->wrong == NULL && !parser->stopped && parser->state != OVER) {
        const bool in_data = parser->state == DATA || parser->state == PREAMBLE;
        const size_t taken = in_data ? feed_data(parser, data, bytes) : feed_line(parser, data, bytes);

        if (taken == 0)
            return false;
        data += taken;
        bytes -= taken;
    }
    return parser->wrong == NULL && !parser->stopped;
}

bool http_multipart_finish(struct http_multipart *parser)
{
    if (parser->wrong != NULL || parser->stopped)
        return false;
    return parser->state == OVER || fault(parser, "the body ends before its last boundary");
}
