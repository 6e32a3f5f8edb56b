/* A request's life: its head is checked, its body taken, its handler called, its answer sent. Here is the only place that suspends a
 * connection before an answer; stream.c is the other one. */
#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "control/http/internal.h"

#define JSON_FIRST_BYTES 4096

struct http_request *http_request_create(struct http_server *server, struct MHD_Connection *mhd, const char *uri)
{
    struct http_request *request = calloc(1, sizeof(*request));
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    const uint64_t number = atomic_fetch_add(&server->requests_count, 1);

    if (request == NULL || info == NULL || info->socket_context == NULL) {
        free(request);
        return NULL;
    }
    pthread_mutex_init(&request->lock, NULL);
    request->server = server;
    request->mhd = mhd;
    request->connection = info->socket_context;
    request->references = 1;
    request->route = HTTP_ROUTES_MAX;
    request->method = "OTHER";
    request->begun_ns = http_now_ns();
    request->raw_target = uri;
    request->raw_bytes = uri == NULL ? 0 : strlen(uri);
    memcpy(request->target.bytes, uri == NULL ? "" : uri, min_u64(request->raw_bytes, TARGET_BYTES_MAX));
    snprintf(request->id, sizeof(request->id), "req_%016llx%016llx", (unsigned long long)hash_mix(server->seed[0] + number),
             (unsigned long long)hash_mix(server->seed[1] ^ number));
    pthread_mutex_lock(&server->lock);
    request->connection->request = request;
    request->gone = request->connection->gone;
    server->requests_open++;
    pthread_mutex_unlock(&server->lock);
    return request;
}

static void request_free(struct http_request *request)
{
    pthread_mutex_destroy(&request->lock);
    if (request->response != NULL)
        MHD_destroy_response(request->response);
    for (uint32_t i = 0; i < HTTP_HEADERS_MAX; i++)
        free(request->headers[i]);
    for (uint32_t i = 0; i < request->added_count; i++)
        free(request->added[i].name);
    http_wipe(request->key, sizeof(request->key));
    atomic_fetch_sub(&request->server->bodies_bytes, request->body_size);
    free(request->body);
    free(request->parser);
    free(request->stream.bytes);
    free(request->stream.ends);
    free(request);
}

void http_request_release(struct http_request *request)
{
    uint32_t left;

    pthread_mutex_lock(&request->lock);
    check(request->references > 0);
    left = --request->references;
    pthread_mutex_unlock(&request->lock);
    if (left == 0)
        request_free(request);
}

struct MHD_Connection *http_request_wakes(struct http_request *request)
{
    struct MHD_Connection *mhd = request->suspended ? request->mhd : NULL;

    request->suspended = false;
    return mhd;
}

void http_request_wake(struct http_request *request)
{
    struct MHD_Connection *mhd = http_request_wakes(request);

    if (mhd != NULL)
        MHD_resume_connection(mhd);
}

void http_request_gone(struct http_request *request)
{
    const bool owned = request->handed && (request->state == REQUEST_HANDED || (request->state == REQUEST_STREAM && !request->stream.ended));

    if (!request->gone && owned && request->on_gone != NULL)
        request->on_gone(request->on_gone_context);
    request->gone = true;
    http_request_wake(request);
}

/* Under request.lock. Waits for its owner, or for room in its sink. */
static void wait_for_it(struct http_request *request)
{
    request->suspended = true;
    MHD_suspend_connection(request->mhd);
}

/* --- bodies ----------------------------------------------------------------------------------------------------------------- */

static void abandon_sink(struct http_request *request)
{
    if (!request->sink_live)
        return;
    request->sink_live = false;
    request->sink->abandon(request->sink_context);
}

static bool sink_begin(void *context, const struct http_part *part)
{
    struct http_request *request = context;

    return request->sink->part_begin(request->sink_context, part);
}

static bool sink_data(void *context, const void *data, size_t bytes)
{
    struct http_request *request = context;

    return request->sink->part_data(request->sink_context, data, bytes);
}

static bool sink_end(void *context)
{
    struct http_request *request = context;

    return request->sink->part_end(request->sink_context);
}

void http_receive(struct http_request *request, const struct http_sink *sink, void *context)
{
    static const struct http_multipart_events events = {sink_begin, sink_data, sink_end};

    check(request->state == REQUEST_BODY && request->parser == NULL);
    request->parser = malloc(sizeof(*request->parser));
    check(request->parser != NULL);
    check(http_multipart_begin(request->parser, MHD_lookup_connection_value(request->mhd, MHD_HEADER_KIND, "content-type"), &events,
                               request));
    request->sink = sink;
    request->sink_context = context;
    request->sink_live = true;
}

void http_receive_more(struct http_request *request)
{
    pthread_mutex_lock(&request->lock);
    request->more = true;
    http_request_wake(request);
    pthread_mutex_unlock(&request->lock);
}

static void too_large(struct http_request *request)
{
    http_answer_error(request, 413, NULL, NULL, "the body is larger than the %llu bytes that this URL takes",
                      (unsigned long long)request->server->config.routes[request->route].body_bytes_max);
}

static void keep_body(struct http_request *request, const char *data, size_t bytes)
{
    const size_t count = (size_t)request->body_bytes;

    if (count + bytes > request->body_size) {
        struct http_server *server = request->server;
        const size_t size = (size_t)max_u64(max_u64(request->body_size * 2, count + bytes), JSON_FIRST_BYTES);
        const size_t more = size - request->body_size;
        const bool fits = atomic_fetch_add(&server->bodies_bytes, more) + more <= server->limits.bodies_bytes_max;
        char *grown = fits ? realloc(request->body, size) : NULL;

        if (grown == NULL) {
            atomic_fetch_sub(&server->bodies_bytes, more);
            http_retry_after(request, 1000);
            http_answer_error(request, 503, "overloaded", NULL, "too many large requests at once; try again");
            return;
        }
        request->body = grown;
        request->body_size = size;
    }
    memcpy(request->body + count, data, bytes);
}

static void feed_sink(struct http_request *request, const char *data, size_t bytes)
{
    if (http_multipart_feed(request->parser, data, bytes))
        return;
    if (request->parser->wrong != NULL)
        http_answer_error(request, 400, NULL, NULL, "the multipart body: %s", request->parser->wrong);
    check(request->response != NULL); /* a callback that returns false has answered */
    abandon_sink(request);
}

/* How many of `bytes` may come now. 0: it waits, or `ret_gone`. The sink is asked without a lock; room that it makes just then is told
 * by `more`, and it is asked again. That it waits is not the client's fault, so it counts by a deadline of the sink's. */
static size_t room_for(struct http_request *request, size_t bytes, bool *ret_gone)
{
    bool ask = true;

    if (request->response != NULL || request->sink == NULL || request->sink->room == NULL)
        return bytes;
    while (ask) {
        size_t room;

        pthread_mutex_lock(&request->lock);
        request->more = false;
        pthread_mutex_unlock(&request->lock);
        room = request->sink->room(request->sink_context);
        if (room > 0)
            return (size_t)min_u64(bytes, room);
        http_set_deadline(request, CUT_SINK, http_now_ns() + request->server->limits.sink_ms * NS_PER_MS);
        pthread_mutex_lock(&request->lock);
        *ret_gone = request->gone;
        ask = request->more && !request->gone;
        if (!ask && !request->gone)
            wait_for_it(request);
        pthread_mutex_unlock(&request->lock);
    }
    return 0;
}

/* Some bytes of a body. Those of a refused one are discarded up to a bound; false: beyond it. */
static bool take_some(struct http_request *request, const char *data, size_t bytes)
{
    struct http_server *server = request->server;
    const uint64_t body_max = request->route < HTTP_ROUTES_MAX ? server->config.routes[request->route].body_bytes_max : 0;

    if (request->response == NULL && request->body_bytes + bytes > body_max) {
        abandon_sink(request);
        too_large(request);
    }
    if (request->response != NULL) {
        if (request->body_bytes + bytes > body_max + server->limits.discard_bytes_max) {
            http_count_cut(server, CUT_TOO_LONG);
            return false;
        }
    } else if (request->sink != NULL) {
        feed_sink(request, data, bytes);
    } else {
        keep_body(request, data, bytes);
    }
    request->body_bytes += bytes;
    atomic_fetch_add(&server->received_bytes, bytes);
    return true;
}

/* All of them, or as many as there is room for: what is left comes again when the connection goes on. */
static enum MHD_Result take_body(struct http_request *request, const char *data, size_t *bytes)
{
    const struct http_limits *limits = &request->server->limits;

    while (*bytes > 0) {
        bool gone = false;
        const size_t some = room_for(request, *bytes, &gone);

        if (some == 0)
            return gone ? MHD_NO : MHD_YES;
        if (!take_some(request, data, some))
            return MHD_NO;
        data += some;
        *bytes -= some;
    }
    http_set_deadline(request, CUT_BODY, request->begun_ns + limits->body_ms * NS_PER_MS +
                      (int64_t)(request->body_bytes / limits->received_per_s_min) * NS_PER_S);
    return MHD_YES;
}

/* --- the calls -------------------------------------------------------------------------------------------------------------- */

/* A refused body is read, so that its sender hears why; unless it waits to be asked for it, is too long for that, or none can say
 * where it ends. */
static bool answers_early(const struct http_request *request)
{
    if (request->response == NULL || !request->announced)
        return request->response != NULL && request->must_close;
    return request->must_close || MHD_lookup_connection_value(request->mhd, MHD_HEADER_KIND, "expect") != NULL ||
           (request->declared_bytes != UINT64_MAX && request->declared_bytes > request->server->limits.discard_bytes_max);
}

static enum MHD_Result send_answer(struct http_request *request)
{
    struct MHD_Response *response = request->response;
    enum MHD_Result result;

    http_set_deadline(request, CUT_ANSWER, request->state == REQUEST_STREAM ? NEVER_NS :
                      http_now_ns() + request->server->limits.answer_ms * NS_PER_MS +
                      (int64_t)(request->sent_bytes / request->server->limits.received_per_s_min) * NS_PER_S);
    request->response = NULL;
    pthread_mutex_unlock(&request->lock); /* a stream's first bytes may be asked for from within */
    result = MHD_queue_response(request->mhd, request->status, response);
    MHD_destroy_response(response);
    return result;
}

static void accept_body(struct http_request *request, const struct http_route *route)
{
    if (route->accept != NULL)
        route->accept(route->context, request);
    check((route->flags & HTTP_MULTIPART) == 0 || request->response != NULL || request->sink != NULL);
}

static enum MHD_Result begin(struct http_request *request, const char *method, const char *version)
{
    struct http_server *server = request->server;
    const char *wrong = http_head_check(request, method, version);

    request->begun = true;
    pthread_mutex_lock(&request->lock);
    request->state = REQUEST_BODY;
    pthread_mutex_unlock(&request->lock);
    http_set_deadline(request, CUT_BODY, request->begun_ns + server->limits.body_ms * NS_PER_MS);
    if (wrong != NULL) {
        http_count_cut(server, CUT_MALFORMED);
        request->must_close = true;
        request->announced = false;
        http_answer_error(request, 400, NULL, NULL, "%s", wrong);
    } else {
        http_head_read(request, method);
        if (request->response == NULL && request->announced)
            accept_body(request, &server->config.routes[request->route]);
    }
    request->raw_target = NULL;
    if (!answers_early(request))
        return MHD_YES;
    abandon_sink(request);
    pthread_mutex_lock(&request->lock);
    return send_answer(request);
}

static void hand_over(struct http_request *request)
{
    const struct http_route *route = &request->server->config.routes[request->route];

    if (request->parser != NULL && !http_multipart_finish(request->parser)) {
        abandon_sink(request);
        http_answer_error(request, 400, NULL, NULL, "the multipart body: %s", request->parser->wrong);
        return;
    }
    request->sink_live = false;
    pthread_mutex_lock(&request->lock);
    request->state = REQUEST_HANDED;
    request->handed = true;
    request->references++;
    pthread_mutex_unlock(&request->lock);
    atomic_fetch_add(&request->server->held, 1);
    route->handle(route->context, request);
}

static enum MHD_Result finish(struct http_request *request)
{
    if (!request->handed && request->response == NULL) { /* later calls: it goes on after a wait */
        http_set_deadline(request, CUT_BODY, NEVER_NS);
        hand_over(request);
    }
    pthread_mutex_lock(&request->lock);
    if (request->response != NULL && !(request->state == REQUEST_STREAM && request->gone))
        return send_answer(request);
    if (request->gone) {
        pthread_mutex_unlock(&request->lock);
        return MHD_NO;
    }
    wait_for_it(request);
    pthread_mutex_unlock(&request->lock);
    return MHD_YES;
}

enum MHD_Result http_on_access(void *context, struct MHD_Connection *mhd, const char *url, const char *method, const char *version,
                               const char *data, size_t *bytes, void **con)
{
    struct http_request *request = *con;

    (void)context, (void)mhd, (void)url;
    if (request == NULL)
        return MHD_NO;
    if (!request->begun)
        return begin(request, method, version);
    return *bytes > 0 ? take_body(request, data, bytes) : finish(request);
}

void http_on_completed(void *context, struct MHD_Connection *mhd, void **con, enum MHD_RequestTerminationCode code)
{
    struct http_server *server = context;
    struct http_request *request = *con;

    (void)mhd;
    *con = NULL;
    if (request == NULL)
        return;
    abandon_sink(request);
    http_set_deadline(request, CUT_HEAD, http_now_ns() + server->limits.idle_ms * NS_PER_MS);
    pthread_mutex_lock(&server->lock);
    request->connection->request = NULL;
    pthread_mutex_unlock(&server->lock);
    pthread_mutex_lock(&request->lock);
    if (code != MHD_REQUEST_TERMINATED_COMPLETED_OK)
        http_request_gone(request);
    request->mhd = NULL;
    request->connection = NULL;
    request->gone = true; /* nothing more is taken */
    pthread_mutex_unlock(&request->lock);
    if (request->begun)
        http_measure(request);
    http_request_release(request);
    pthread_mutex_lock(&server->lock);
    server->requests_open--;
    pthread_cond_broadcast(&server->fewer);
    pthread_mutex_unlock(&server->lock);
}
