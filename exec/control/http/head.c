/* What libmicrohttpd lets pass and we don't: two Content-Lengths, a length beside chunks, bare LF, NUL bytes, folded lines. It keeps the
 * head in one buffer, as it came, with zeros in place of separators; so lines must follow each other with exactly two zeros between.
 * Should another version keep it otherwise, every request is refused and every test fails. */
#include <stdlib.h>
#include <strings.h>

#include "control/http/internal.h"

void http_wipe(void *memory, size_t bytes)
{
    volatile char *at = memory;

    while (bytes-- > 0)
        *at++ = 0;
}

/* Headers of which a second one makes a request ambiguous. */
#define SINGLE_LIST(X)                                                                                                              \
    X(CONTENT_LENGTH, "content-length") X(HOST, "host") X(TRANSFER_ENCODING, "transfer-encoding") X(CONTENT_TYPE, "content-type")    \
    X(AUTHORIZATION, "authorization") X(EXPECT, "expect") X(CONTENT_ENCODING, "content-encoding")
enum single {
#define X(name, text) SINGLE_##name,
    SINGLE_LIST(X)
#undef X
    SINGLE_COUNT
};

struct head {
    const char *next; /* where the next line has to begin */
    const char *wrong;
    const struct http_config *config;
    struct http_request *request;
    const char *single[SINGLE_COUNT];
};

static bool is_token(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        const char c = text[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c != '\0' && strchr("!#$%&'*+-.^_`|~", c))))
            return false;
    }
    return bytes > 0;
}

static enum MHD_Result check_header(void *context, enum MHD_ValueKind kind, const char *name, size_t name_bytes, const char *value,
                                    size_t value_bytes)
{
    static const char *const names[] = {
#define X(name, text) text,
        SINGLE_LIST(X)
#undef X
    };
    struct head *head = context;

    (void)kind;
    if (value == NULL)
        value = "", value_bytes = 0, head->wrong = "a header has no value";
    else if (name != head->next || value < name + name_bytes + 1)
        head->wrong = "the head has a folded line, a NUL byte or a line that does not end in CR and LF";
    else if (!is_token(name, name_bytes))
        head->wrong = "a header's name has other characters than names have";
    else if (value[value_bytes] != '\0' || value[value_bytes + 1] != '\0')
        head->wrong = "a header's line does not end in CR and LF";
    for (size_t i = 0; i < value_bytes; i++)
        if (((unsigned char)value[i] < 0x20 && value[i] != '\t') || value[i] == 0x7f)
            head->wrong = "a header's value has control characters";
    for (int i = 0; i < SINGLE_COUNT; i++) {
        if (strlen(names[i]) != name_bytes || strncasecmp(name, names[i], name_bytes) != 0)
            continue;
        if (head->single[i] != NULL)
            head->wrong = "a header that may come once came twice";
        head->single[i] = value;
    }
    if (head->wrong != NULL)
        return MHD_NO;
    head->next = value + value_bytes + 2;
    return MHD_YES;
}

static const char *check_framing(const struct head *head)
{
    const char *length = head->single[SINGLE_CONTENT_LENGTH];
    const char *encoding = head->single[SINGLE_TRANSFER_ENCODING];

    if (length != NULL && encoding != NULL)
        return "Content-Length and Transfer-Encoding exclude each other";
    if (encoding != NULL && strcasecmp(encoding, "chunked") != 0)
        return "the only Transfer-Encoding that is read is chunked";
    if (length != NULL && (length[0] == '\0' || length[strspn(length, "0123456789")] != '\0' || strlen(length) > 18))
        return "Content-Length is not a number";
    return NULL;
}

const char *http_head_check(struct http_request *request, const char *method, const char *version)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(request->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    struct head head = {.config = &request->server->config, .request = request};
    const char *wrong;

    if (info == NULL || request->raw_target == NULL || !is_token(method, strlen(method)) ||
        request->raw_target != method + strlen(method) + 1 || version != request->raw_target + request->raw_bytes + 1)
        return "the request line is not METHOD, one space, path, one space, version";
    head.next = version + strlen(version) + 2;
    MHD_get_connection_values_n(request->mhd, MHD_HEADER_KIND, check_header, &head);
    if (head.wrong != NULL)
        return head.wrong;
    if (head.next + 2 != method + info->header_size)
        return "the head has a folded line, a NUL byte or a line that does not end in CR and LF";
    wrong = check_framing(&head);
    if (wrong != NULL)
        return wrong;
    request->declared_bytes = head.single[SINGLE_TRANSFER_ENCODING] != NULL ? UINT64_MAX : 0;
    for (const char *digit = head.single[SINGLE_CONTENT_LENGTH]; digit != NULL && *digit != '\0'; digit++)
        request->declared_bytes = request->declared_bytes * 10 + (uint64_t)(*digit - '0');
    request->announced = request->declared_bytes > 0;
    return NULL;
}

/* --- what is kept, and what is refused by its head -------------------------------------------------------------------------- */

static enum MHD_Result keep_header(void *context, enum MHD_ValueKind kind, const char *name, size_t name_bytes, const char *value,
                                   size_t value_bytes)
{
    struct http_request *request = context;
    const struct http_config *config = &request->server->config;

    (void)kind;
    for (uint32_t i = 0; i < config->headers_count; i++) {
        if (strlen(config->headers[i]) != name_bytes || strncasecmp(name, config->headers[i], name_bytes) != 0)
            continue;
        if (request->headers[i] != NULL || value_bytes > HEADER_VALUE_MAX) {
            http_answer_error(request, 400, NULL, NULL, "the header %s comes twice or is longer than %d bytes", config->headers[i],
                              HEADER_VALUE_MAX);
            return MHD_NO;
        }
        request->headers[i] = malloc(value_bytes + 1);
        check(request->headers[i] != NULL);
        memcpy(request->headers[i], value, value_bytes + 1);
    }
    return MHD_YES;
}

static const char *header_of(const struct http_request *request, const char *name)
{
    return MHD_lookup_connection_value(request->mhd, MHD_HEADER_KIND, name);
}

/* "Bearer KEY". The key's bytes in the connection's buffer are wiped, the rest of the header stays. */
static void keep_key(struct http_request *request)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~+/=";
    const char *value = header_of(request, "authorization");
    size_t bytes;

    if (value == NULL)
        return;
    if (strncasecmp(value, "bearer ", 7) == 0) {
        const char *key = value + 7 + strspn(value + 7, " ");

        bytes = strspn(key, letters);
        if (bytes > 0 && bytes <= KEY_TEXT_MAX && key[bytes] == '\0') {
            memcpy(request->key, key, bytes + 1);
            request->has_key = true;
        }
    }
    http_wipe((char *)(uintptr_t)value, strlen(value)); /* the buffer is the connection's and may be written */
}

/* Sets the route, or answers 404, 405 and OPTIONS. */
static bool find_route(struct http_request *request, const char *method)
{
    static const char *const names[HTTP_METHOD_COUNT] = {"GET", "POST", "PUT", "DELETE"};
    const struct http_config *config = &request->server->config;
    const bool options = strcmp(method, "OPTIONS") == 0;
    bool allowed[HTTP_METHOD_COUNT] = {false};
    char allow[64] = "";

    for (uint32_t i = 0; i < config->routes_count; i++) {
        const struct http_route *route = &config->routes[i];
        const bool head = route->method == HTTP_GET && strcmp(method, "HEAD") == 0;

        if (!http_target_matches(&request->target, route->pattern, request->ids, &request->ids_count))
            continue;
        allowed[route->method] = true;
        if (!head && strcmp(method, names[route->method]) != 0)
            continue;
        request->route = i;
        request->method = head ? "HEAD" : names[route->method];
        return true;
    }
    for (int i = 0; i < HTTP_METHOD_COUNT; i++)
        if (allowed[i])
            strcat(strcat(allow, names[i]), i == HTTP_GET ? ", HEAD, " : ", ");
    if (allow[0] == '\0') {
        http_answer_error(request, 404, "unknown_url", NULL, "there is nothing at this URL; paths begin with /v1/");
        return false;
    }
    http_add_header(request, "allow", strcat(allow, "OPTIONS"));
    if (options)
        http_answer_empty(request, 204);
    else
        http_answer_error(request, 405, "method_not_allowed", NULL, "this URL does not take this method; it takes %s", allow);
    return false;
}

static bool take_body_head(struct http_request *request, const struct http_route *route)
{
    const char *type = header_of(request, "content-type");
    const char *coding = header_of(request, "content-encoding");
    const char *expect = header_of(request, "expect");
    static const struct http_multipart_events none;
    struct http_multipart parser;

    if (expect != NULL && strcasecmp(expect, "100-continue") != 0) {
        http_answer_error(request, 417, NULL, NULL, "the only expectation that is met is 100-continue");
        return false;
    }
    if (!request->announced && (route->flags & HTTP_NEEDS_BODY) != 0) {
        if (header_of(request, "content-length") == NULL)
            http_answer_error(request, 411, NULL, NULL, "send the body's Content-Length, or Transfer-Encoding: chunked");
        else
            http_answer_error(request, 400, NULL, NULL, "the body is empty");
        return false;
    }
    if (!request->announced)
        return true;
    if (request->declared_bytes != UINT64_MAX && request->declared_bytes > route->body_bytes_max) {
        http_answer_error(request, 413, NULL, NULL, "the body is larger than the %llu bytes that this URL takes",
                          (unsigned long long)route->body_bytes_max);
        return false;
    }
    if (coding != NULL && strcasecmp(coding, "identity") != 0) {
        http_answer_error(request, 415, NULL, NULL, "send the body without a Content-Encoding");
        return false;
    }
    if ((route->flags & HTTP_MULTIPART) != 0 && (type == NULL || !http_multipart_begin(&parser, type, &none, NULL))) {
        http_answer_error(request, 415, NULL, NULL, "send the body as multipart/form-data with a boundary");
        return false;
    }
    if ((route->flags & HTTP_MULTIPART) == 0 && (type == NULL || strncasecmp(type, "application/json", 16) != 0 ||
                                                 (type[16] != '\0' && type[16] != ';' && type[16] != ' '))) {
        http_answer_error(request, 415, NULL, NULL, "send the body as JSON, with Content-Type: application/json");
        return false;
    }
    return true;
}

void http_head_read(struct http_request *request, const char *method)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(request->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    const struct http_route *route;
    const char *wrong;

    keep_key(request);
    if (info->header_size > request->server->limits.head_bytes_max) {
        http_answer_error(request, 431, NULL, NULL, "the request line and headers are longer than %u bytes",
                          request->server->limits.head_bytes_max);
        return;
    }
    wrong = http_target_parse(&request->target, request->target.bytes, request->raw_bytes);
    if (wrong != NULL) {
        http_answer_error(request, request->raw_bytes > TARGET_BYTES_MAX ? 414 : 400, NULL, NULL, "%s", wrong);
        return;
    }
    if (!find_route(request, method))
        return;
    route = &request->server->config.routes[request->route];
    for (uint32_t i = 0; i < request->ids_count; i++) {
        if (http_id_is_sound(request->ids[i]))
            continue;
        http_answer_error(request, 404, "not_found", NULL, "there is no such thing, or it is not yours");
        return;
    }
    if ((route->flags & HTTP_NEEDS_KEY) != 0 && !request->has_key) {
        http_add_header(request, "www-authenticate", "Bearer");
        http_answer_error(request, 401, "invalid_api_key", NULL, "send your API key as Authorization: Bearer KEY");
        return;
    }
    if (!take_body_head(request, route))
        return;
    MHD_get_connection_values_n(request->mhd, MHD_HEADER_KIND, keep_header, request);
}
