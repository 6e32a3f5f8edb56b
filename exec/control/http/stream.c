/* Streams: a bounded queue between whoever pushes and the HTTP thread that sends. The connection sleeps while the queue is empty; a
 * push wakes it. The queue's memory grows as it is used, to its bound, and is given back when it runs empty. */
#include <stdio.h>
#include <stdlib.h>

#include "control/http/internal.h"

#define IDLE_BYTES 4096 /* an empty queue keeps no more */
#define MHD_BLOCK_BYTES 4096

static bool is_events(const struct http_request *request)
{
    return request->stream.facts.content_type == NULL;
}

/* Takes the copied bytes off the queue; how many events ended among them. */
static uint32_t take_off(const struct http_limits *limits, struct stream_queue *queue, size_t bytes)
{
    const uint32_t ring = limits->stream_events_max + 2;
    uint32_t ended = 0;

    queue->at += bytes;
    queue->count -= bytes;
    while (bytes > 0) {
        uint32_t *left = &queue->ends[queue->first];
        const uint32_t part = (uint32_t)min_u64(*left, bytes);

        *left -= part;
        bytes -= part;
        if (*left > 0)
            break;
        queue->first = (queue->first + 1) % ring;
        queue->events--;
        ended++;
    }
    if (queue->count == 0) {
        queue->at = 0;
        if (queue->size > IDLE_BYTES) {
            free(queue->bytes);
            queue->bytes = NULL;
            queue->size = 0;
        }
    }
    return ended;
}

/* The connection ends, its answer being cut. libmicrohttpd 0.9.75 closes one whose reader fails, but then lets it lie in no list that it
 * looks at, and its client waits: it takes up a resumed one again, and finds it closed. */
static ssize_t break_off(struct http_request *request)
{
    MHD_suspend_connection(request->mhd);
    MHD_resume_connection(request->mhd);
    return MHD_CONTENT_READER_END_WITH_ERROR;
}

/* Of an empty queue: what is there to send, if anything. */
static ssize_t read_nothing(struct http_request *request, char *data)
{
    static const char ping[] = ": ping\n\n";
    struct stream_queue *queue = &request->stream;

    if (queue->ended) {
        queue->moved_ns = http_now_ns(); /* what libmicrohttpd still has to send may stall too */
        return queue->failed && !is_events(request) ? break_off(request) : MHD_CONTENT_READER_END_OF_STREAM;
    }
    if (queue->ping) {
        queue->ping = false;
        queue->moved_ns = http_now_ns();
        memcpy(data, ping, sizeof(ping) - 1);
        return sizeof(ping) - 1;
    }
    request->suspended = true;
    MHD_suspend_connection(request->mhd);
    return 0;
}

/* libmicrohttpd asks for bytes; never for fewer than a ping has. */
static ssize_t read_stream(void *context, uint64_t position, char *data, size_t bytes_max)
{
    struct http_request *request = context;
    struct stream_queue *queue = &request->stream;
    const size_t bytes = bytes_max;
    ssize_t copied;

    (void)position;
    pthread_mutex_lock(&request->lock);
    if (request->gone) {
        copied = break_off(request);
    } else if (queue->count == 0) {
        copied = read_nothing(request, data);
    } else {
        uint32_t events;

        copied = (ssize_t)min_u64(queue->count, bytes);
        memcpy(data, queue->bytes + queue->at, (size_t)copied);
        events = take_off(&request->server->limits, queue, (size_t)copied);
        queue->moved_ns = http_now_ns();
        queue->ping = false;
        if (queue->facts.taken != NULL && !queue->ended)
            queue->facts.taken(queue->facts.context, events, (uint64_t)copied);
    }
    if (copied > 0)
        request->sent_bytes += (uint64_t)copied;
    pthread_mutex_unlock(&request->lock);
    return copied;
}

enum status http_stream_begin(struct http_request *request, const struct http_stream *stream)
{
    struct http_server *server = request->server;
    struct MHD_Response *response;
    uint32_t open = atomic_fetch_add(&server->streams, 1);

    if (open >= server->limits.streams_max) {
        atomic_fetch_sub(&server->streams, 1);
        http_retry_after(request, 1000);
        http_answer_error(request, 429, "rate_limit_exceeded", NULL, "all %u streams are taken; try again", server->limits.streams_max);
        return STATUS_FULL;
    }
    response = MHD_create_response_from_callback(stream->bytes == 0 ? MHD_SIZE_UNKNOWN : stream->bytes, MHD_BLOCK_BYTES, read_stream,
                                                 request, NULL);
    check(response != NULL);
    if (stream->content_type == NULL)
        http_add_header(request, "x-accel-buffering", "no"); /* nginx would hold events back */
    http_put_headers(request, response, stream->content_type == NULL ? "text/event-stream; charset=utf-8" : stream->content_type);
    pthread_mutex_lock(&request->lock);
    check(request->overtaken || (request->state == REQUEST_HANDED && request->response == NULL));
    request->stream.facts = *stream;
    request->stream.moved_ns = http_now_ns();
    request->stream.ends = calloc(server->limits.stream_events_max + 2, sizeof(request->stream.ends[0]));
    check(request->stream.ends != NULL);
    request->state = REQUEST_STREAM;
    request->stream.ended = request->overtaken;
    if (request->mhd == NULL || request->overtaken) {
        MHD_destroy_response(response);
    } else {
        request->status = 200;
        request->response = response;
        http_request_wake(request);
    }
    pthread_mutex_unlock(&request->lock);
    return STATUS_OK;
}

static bool make_room(struct stream_queue *queue, size_t bytes)
{
    if (queue->at + queue->count + bytes <= queue->size)
        return true;
    if (queue->count > 0 && queue->at > 0)
        memmove(queue->bytes, queue->bytes + queue->at, queue->count);
    queue->at = 0;
    if (queue->count + bytes > queue->size) {
        const size_t size = (size_t)max_u64(queue->size * 2, max_u64(queue->count + bytes, 1024));
        char *grown = realloc(queue->bytes, size);

        if (grown == NULL)
            return false;
        queue->bytes = grown;
        queue->size = size;
    }
    return true;
}

static void put(struct stream_queue *queue, const char *text, size_t bytes)
{
    memcpy(queue->bytes + queue->at + queue->count, text, bytes);
    queue->count += bytes;
}

/* Under request.lock. An event between `before` and `after`; the last one may go over the bounds, which have room for it. */
static enum status push(struct http_request *request, const char *before, const char *data, size_t bytes, const char *after, bool last)
{
    const struct http_limits *limits = &request->server->limits;
    struct stream_queue *queue = &request->stream;
    const size_t all = strlen(before) + bytes + strlen(after);

    check(request->state == REQUEST_STREAM);
    if (request->gone || queue->ended) /* ended: by a server that stops */
        return STATUS_END;
    if (all == 0)
        return STATUS_OK;
    if (!last && (queue->events >= limits->stream_events_max || queue->count + all > limits->stream_bytes_max))
        return STATUS_FULL;
    if (!make_room(queue, all))
        return STATUS_FULL;
    if (queue->count == 0)
        queue->moved_ns = http_now_ns(); /* from now on somebody is waited for */
    put(queue, before, strlen(before));
    put(queue, data, bytes);
    put(queue, after, strlen(after));
    queue->ends[(queue->first + queue->events) % (limits->stream_events_max + 2)] = (uint32_t)all;
    queue->events++;
    http_request_wake(request);
    return STATUS_OK;
}

enum status http_stream_event(struct http_request *request, const char *json, size_t bytes)
{
    enum status status;

    check(is_events(request) && memchr(json, '\n', bytes) == NULL && memchr(json, '\r', bytes) == NULL);
    pthread_mutex_lock(&request->lock);
    status = push(request, "data: ", json, bytes, "\n\n", false);
    pthread_mutex_unlock(&request->lock);
    return status;
}

enum status http_stream_bytes(struct http_request *request, const void *data, size_t bytes)
{
    enum status status;

    check(!is_events(request));
    pthread_mutex_lock(&request->lock);
    status = push(request, "", data, bytes, "", false);
    pthread_mutex_unlock(&request->lock);
    return status;
}

uint32_t http_stream_room(struct http_request *request)
{
    uint32_t room;

    pthread_mutex_lock(&request->lock);
    room = request->server->limits.stream_events_max;
    room = request->gone || request->stream.ended ? 0 : room - min_u32(request->stream.events, room);
    pthread_mutex_unlock(&request->lock);
    return room;
}

/* Under request.lock; the first of two counts. */
static void end(struct http_request *request, const char *text, bool failed)
{
    if (request->stream.ended)
        return;
    if (is_events(request))
        (void)push(request, "data: ", text, strlen(text), "\n\n", true);
    request->stream.failed = failed;
    request->stream.ended = true;
    http_request_wake(request);
}

void http_stream_fail_locked(struct http_request *request, unsigned status, const char *code, const char *message)
{
    char *text = http_error_text(status, code, NULL, message);

    check(strlen(text) + 16 <= STREAM_LAST_EVENT_MAX);
    end(request, text, true);
    free(text);
}

static void let_go(struct http_request *request)
{
    atomic_fetch_sub(&request->server->streams, 1);
    atomic_fetch_sub(&request->server->held, 1);
    http_request_release(request);
}

void http_stream_end(struct http_request *request)
{
    pthread_mutex_lock(&request->lock);
    end(request, "[DONE]", false);
    pthread_mutex_unlock(&request->lock);
    let_go(request);
}

void http_stream_fail(struct http_request *request, unsigned status, const char *code, const char *message)
{
    pthread_mutex_lock(&request->lock);
    http_stream_fail_locked(request, status, code, message);
    pthread_mutex_unlock(&request->lock);
    let_go(request);
}

void http_stream_look(struct http_request *request, int64_t now_ns)
{
    const struct http_limits *limits = &request->server->limits;
    struct stream_queue *queue = &request->stream;
    const int64_t still_ns = now_ns - queue->moved_ns;

    if (queue->count > 0 || queue->ping || queue->ended) {
        if (still_ns > limits->stall_ms * NS_PER_MS)
            http_set_deadline(request, CUT_STALLED, now_ns - 1);
    } else if (is_events(request) && still_ns > limits->ping_ms * NS_PER_MS) {
        queue->ping = true;
        queue->moved_ns = now_ns;
        http_request_wake(request);
    }
}
