/* Answers: made by whoever answers, sent by the HTTP thread. And the small accessors of what was asked. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "control/http/internal.h"

/* --- what was asked --------------------------------------------------------------------------------------------------------- */

const struct http_route *http_route_of(const struct http_request *request)
{
    return &request->server->config.routes[request->route];
}

const char *http_request_id(const struct http_request *request)
{
    return request->id;
}

const char *http_id(const struct http_request *request, uint32_t index)
{
    check(index < request->ids_count);
    return request->ids[index];
}

const char *http_query(const struct http_request *request, const char *name)
{
    for (uint32_t i = 0; i < request->target.pairs_count; i++)
        if (strcmp(request->target.pairs[i].name, name) == 0)
            return request->target.pairs[i].value;
    return NULL;
}

bool http_query_at(const struct http_request *request, uint32_t index, const char **ret_name, const char **ret_value)
{
    if (index >= request->target.pairs_count)
        return false;
    *ret_name = request->target.pairs[index].name;
    *ret_value = request->target.pairs[index].value;
    return true;
}

const char *http_header(const struct http_request *request, const char *name)
{
    const struct http_config *config = &request->server->config;
    uint32_t i = 0;

    while (i < config->headers_count && strcmp(config->headers[i], name) != 0)
        i++;
    check(i < config->headers_count);
    return request->headers[i];
}

const char *http_key(const struct http_request *request)
{
    return request->has_key ? request->key : NULL;
}

void http_wipe_key(struct http_request *request)
{
    http_wipe(request->key, sizeof(request->key));
    request->has_key = false;
}

void http_set_key_id(struct http_request *request, const char *key_id)
{
    size_t count = 0;

    pthread_mutex_lock(&request->lock);
    for (const char *at = key_id; *at != '\0' && count + 1 < sizeof(request->key_id); at++)
        if ((*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || (*at >= '0' && *at <= '9') || *at == '-' || *at == '_')
            request->key_id[count++] = *at;
    request->key_id[count] = '\0';
    pthread_mutex_unlock(&request->lock);
}

void http_set_context(struct http_request *request, void *context)
{
    request->context = context;
}

void *http_context(const struct http_request *request)
{
    return request->context;
}

const void *http_body(const struct http_request *request)
{
    return request->body;
}

uint64_t http_body_bytes(const struct http_request *request)
{
    return request->body_bytes;
}

json_t *http_json(struct http_request *request)
{
    json_error_t fault;
    json_t *root;

    if (request->body == NULL) {
        http_answer_error(request, 400, NULL, NULL, "the request needs a JSON object as its body");
        return NULL;
    }
    root = json_loadb(request->body, (size_t)request->body_bytes, JSON_REJECT_DUPLICATES, &fault);
    if (json_is_object(root))
        return root;
    if (root != NULL)
        http_answer_error(request, 400, NULL, NULL, "the body is JSON, but not an object");
    else /* what jansson says quotes the body */
        http_answer_error(request, 400, NULL, NULL, "the body is not JSON (RFC 8259, without duplicate keys): line %d, column %d",
                          fault.line, fault.column);
    json_decref(root);
    return NULL;
}

void http_on_gone(struct http_request *request, void (*gone)(void *context), void *context)
{
    pthread_mutex_lock(&request->lock);
    request->on_gone = gone;
    request->on_gone_context = context;
    if (request->gone && gone != NULL)
        gone(context);
    pthread_mutex_unlock(&request->lock);
}

/* --- headers ---------------------------------------------------------------------------------------------------------------- */

void http_add_header(struct http_request *request, const char *name, const char *value)
{
    const size_t name_bytes = strlen(name) + 1;
    const size_t value_bytes = strlen(value) + 1;
    char *text;

    check(request->added_count < ANSWER_HEADERS_MAX);
    check(name[strcspn(name, " :\r\n\t")] == '\0' && value[strcspn(value, "\r\n")] == '\0');
    text = malloc(name_bytes + value_bytes);
    check(text != NULL);
    request->added[request->added_count].name = memcpy(text, name, name_bytes);
    request->added[request->added_count++].value = memcpy(text + name_bytes, value, value_bytes);
}

void http_retry_after(struct http_request *request, uint32_t ms)
{
    char text[24];

    snprintf(text, sizeof(text), "%u", ms / 1000 + (ms % 1000 != 0));
    http_add_header(request, "retry-after", text);
    snprintf(text, sizeof(text), "%u", ms);
    http_add_header(request, "retry-after-ms", text);
}

/* What every answer has. */
static void put_own_headers(struct http_request *request, struct MHD_Response *response, const char *content_type)
{
    char text[24];

    snprintf(text, sizeof(text), "%lld", (long long)((http_now_ns() - request->begun_ns) / NS_PER_MS));
    MHD_add_response_header(response, "x-request-id", request->id);
    MHD_add_response_header(response, "openai-processing-ms", text);
    MHD_add_response_header(response, "openai-version", "2020-10-01");
    MHD_add_response_header(response, "x-content-type-options", "nosniff");
    MHD_add_response_header(response, "cache-control", "no-store");
    if (content_type != NULL)
        MHD_add_response_header(response, "content-type", content_type);
    if (atomic_load(&request->server->stopping))
        MHD_add_response_header(response, "connection", "close");
}

void http_put_headers(struct http_request *request, struct MHD_Response *response, const char *content_type)
{
    put_own_headers(request, response, content_type);
    for (uint32_t i = 0; i < request->added_count; i++)
        MHD_add_response_header(response, request->added[i].name, request->added[i].value);
}

/* --- answers ---------------------------------------------------------------------------------------------------------------- */

/* Gives it to the HTTP thread; the owner has no more to do with the request. */
static void answer(struct http_request *request, unsigned status, struct MHD_Response *response, uint64_t bytes)
{
    struct MHD_Connection *resumed = NULL;
    bool owned;

    check(response != NULL);
    pthread_mutex_lock(&request->lock);
    owned = request->handed;
    if (request->mhd == NULL || request->overtaken) {
        MHD_destroy_response(response);
    } else {
        check(request->response == NULL && (request->state == REQUEST_BODY || request->state == REQUEST_HANDED));
        request->status = status;
        request->sent_bytes = bytes;
        request->response = response;
        if (owned)
            request->state = REQUEST_ANSWERED;
        resumed = http_request_wakes(request);
    }
    pthread_mutex_unlock(&request->lock);
    if (resumed != NULL)
        MHD_resume_connection(resumed);
    if (!owned)
        return;
    atomic_fetch_sub(&request->server->held, 1);
    http_request_release(request);
}

static void answer_owned_text(struct http_request *request, unsigned status, const char *content_type, char *text, size_t bytes)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(bytes, text, MHD_RESPMEM_MUST_FREE);

    check(response != NULL);
    http_put_headers(request, response, content_type);
    answer(request, status, response, bytes);
}

void http_answer_json(struct http_request *request, unsigned status, json_t *body)
{
    char *text = json_dumps(body, JSON_COMPACT | JSON_REAL_PRECISION(15));

    check(text != NULL);
    json_decref(body);
    answer_owned_text(request, status, "application/json", text, strlen(text));
}

void http_answer_bytes(struct http_request *request, unsigned status, const char *content_type, const void *bytes, size_t count)
{
    char *copy = malloc(count + 1);

    check(copy != NULL);
    memcpy(copy, bytes, count);
    answer_owned_text(request, status, content_type, copy, count);
}

void http_answer_empty(struct http_request *request, unsigned status)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(0, (void *)(uintptr_t)"", MHD_RESPMEM_PERSISTENT);

    check(response != NULL);
    http_put_headers(request, response, NULL);
    answer(request, status, response, 0);
}

static const char *type_of(unsigned status)
{
    if (status >= 500)
        return "server_error";
    if (status == 429)
        return "rate_limit_error";
    return status == 403 ? "permission_error" : "invalid_request_error";
}

char *http_error_text(unsigned status, const char *code, const char *param, const char *message)
{
    static const char form[] = "{s:{s:s,s:s,s:s?,s:s?}}";
    json_t *error = json_pack(form, "error", "message", message, "type", type_of(status), "param", param, "code", code);
    char *text;

    if (error == NULL) /* a text of somebody's that is not UTF-8, or was cut within a character */
        error = json_pack(form, "error", "message", "the request cannot be done as it is", "type", type_of(status), "param", NULL,
                          "code", NULL);
    check(error != NULL);
    text = json_dumps(error, JSON_COMPACT);
    json_decref(error);
    check(text != NULL);
    return text;
}

void http_answer_error(struct http_request *request, unsigned status, const char *code, const char *param, const char *format, ...)
{
    char message[512];
    char *text;
    va_list values;

    va_start(values, format);
    vsnprintf(message, sizeof(message), format, values);
    va_end(values);
    text = http_error_text(status, code, param, message);
    answer_owned_text(request, status, "application/json", text, strlen(text));
}

void http_answer_stopping(struct http_request *request)
{
    char *text = http_error_text(503, "stopping", NULL, HTTP_STOPPING_TEXT);
    struct MHD_Response *response = MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE);

    check(response != NULL);
    MHD_add_response_header(response, "retry-after", "1");
    put_own_headers(request, response, "application/json"); /* the handler may be adding its own this moment */
    request->overtaken = true;
    request->status = 503;
    request->sent_bytes = strlen(text);
    request->response = response;
    request->state = REQUEST_ANSWERED;
    http_request_wake(request);
}
