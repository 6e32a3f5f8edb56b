/* The HTTP floor of the control plane: it knows no endpoint. A table of routes in; requests out to handlers; answers as JSON, bytes or
 * streams of events. One thread of libmicrohttpd reads and writes, one watches: whoever is slow, silent or gone is ended by a deadline.
 * What may be read two ways, or is larger than its bound, is refused before any handler sees it.
 *
 * A request is its handler's from the call on until it is answered, which any thread may do, exactly once, also when the client is
 * gone: the answer is then void. So every request that a handler was given ends in one http_answer_...() or, for streams, in one
 * http_stream_end() or http_stream_fail(), and is not touched afterwards. */
#ifndef CONTROL_HTTP_HTTP_H
#define CONTROL_HTTP_HTTP_H

#include <jansson.h>

#include "engine/files/refusal.h"
#include "host/exposition.h"

struct http_server;
struct http_request;

/* --- routes ----------------------------------------------------------------------------------------------------------------- */

#define HTTP_CAPTURES_MAX 4
#define HTTP_ID_BYTES_MAX 256

enum http_method { HTTP_GET, HTTP_POST, HTTP_PUT, HTTP_DELETE, HTTP_METHOD_COUNT };

enum http_route_flag {
    HTTP_NEEDS_KEY = 1,  /* 401 without "Authorization: Bearer KEY"; whether it is a good key is the handler's to say */
    HTTP_NEEDS_BODY = 2, /* 411 where none is announced, 400 where it is empty */
    HTTP_MULTIPART = 4,  /* the body is multipart/form-data and streams to a sink, and is needed; without this it is JSON */
};

/* On the HTTP thread: must not wait. */
typedef void http_handler(void *context, struct http_request *request);

struct http_route {
    enum http_method method;
    const char *pattern;     /* "/v1/files/{id}/content": a capture is a whole segment. It is the route's name in logs and metrics */
    uint32_t flags;
    uint64_t body_bytes_max; /* 0: takes none */
    /* Once the head is read and a body is to come, so that a stranger's is not kept: it may answer, at once. Routes with HTTP_MULTIPART
     * need one, which answers or calls http_receive(); NULL: no other does. */
    http_handler *accept;
    http_handler *handle;    /* once all is read */
    void *context;
};

/* --- the server ------------------------------------------------------------------------------------------------------------- */

/* 0: the default. What is above a limit is refused: connections by closing them, the rest by an answer. */
struct http_limits {
    uint32_t connections_max;             /* 4096 */
    uint32_t connections_per_address_max; /* all of them */
    uint32_t head_bytes_max;              /* 12 KiB; request line and headers; at most 24 KiB */
    uint32_t streams_max;                 /* 2048 */
    uint32_t stream_events_max;           /* 512: that a stream may be ahead of its reader */
    uint32_t stream_bytes_max;            /* 256 KiB */
    uint64_t bodies_bytes_max;            /* 256 MiB: of all JSON bodies together; 503 beyond */
    uint32_t discard_bytes_max;           /* 8 MiB: of a refused body that is read for the answer to be heard, before the line is cut */
    uint32_t received_per_s_min;          /* 16 KiB: slower bodies run into body_ms */
    uint32_t head_ms;                     /* 10 s for a connection's first head */
    uint32_t idle_ms;                     /* 75 s from an answer to the end of the next head */
    uint32_t body_ms;                     /* 30 s, more for each received_per_s_min bytes that came */
    uint32_t sink_ms;                     /* 120 s in which an upload's sink makes no room */
    uint32_t answer_ms;                   /* 30 s for the client to take an answer, more as above */
    uint32_t stall_ms;                    /* 10 s in which a reader of a stream took nothing that waited */
    uint32_t ping_ms;                     /* 10 s of a silent stream, then a comment */
};

struct http_config {
    const char *address;              /* "127.0.0.1", "::1", ... as numbers */
    uint16_t port;                    /* 0: any that is free */
    int listener;                     /* http_listen()'s, of this process or handed over by another; the server's from here on. 0: none */
    const char *certificate_file;     /* PEM; both or neither. Off loopback they are a must */
    const char *key_file;             /* PEM; may not be readable by others */
    const struct http_route *routes;  /* outlive the server; two that match the same path are told apart by order: the first wins */
    uint32_t routes_count;            /* at most HTTP_ROUTES_MAX */
    const char *const *headers;       /* request headers that handlers ask for, lower case; at most HTTP_HEADERS_MAX */
    uint32_t headers_count;
    struct http_limits limits;
    /* One line of JSON a request, without its end, on the HTTP thread; NULL: none. Only what is listed at measure.c is in it. */
    void (*log)(void *context, const char *line);
    void *log_context;
};
#define HTTP_ROUTES_MAX 64
#define HTTP_HEADERS_MAX 16

/* What http_open() does with address and port, and as strict: for who binds them once and hands the socket to servers that follow each other;
 * who connects meanwhile waits. */
enum status http_listen(const struct http_config *config, int *ret_listener, struct refusal *refusal);
uint16_t http_listener_port(int listener); /* 0: it is none */
/* Listens at address and port, or at `listener`, which stays open for others when this server stops. */
enum status http_open(const struct http_config *config, struct http_server **ret_server, struct refusal *refusal);
uint16_t http_port(const struct http_server *server);
/* Takes no new connection, lets what runs end for `within_ms`; then streams get an error event, requests without an answer a 503,
 * and the rest is cut. Their owners still end them. Returns when no client is left. */
void http_stop(struct http_server *server, uint32_t within_ms);
/* Stops at once if nobody has; all requests must have ended, which is checked. */
void http_close(struct http_server *server);
/* requests by route and class of status, latencies, streams, bytes, what was cut and why. */
void http_metrics(struct http_server *server, struct exposition *exposition);

/* --- what was asked --------------------------------------------------------------------------------------------------------- */

const struct http_route *http_route_of(const struct http_request *request);
/* "req_" and 32 hexadecimal digits; the client sees it as x-request-id. */
const char *http_request_id(const struct http_request *request);
/* The captured segment, decoded once: 1 .. 256 of letters, digits and -_.:/@+~=, and no part between slashes that is empty, "."
 * or "..". Anything else was answered 404 before. */
const char *http_id(const struct http_request *request, uint32_t index);
/* Decoded; NULL: not there. A parameter that comes twice was answered 400 before. */
const char *http_query(const struct http_request *request, const char *name);
/* By number, for metadata[key]=value; false: no more. */
bool http_query_at(const struct http_request *request, uint32_t index, const char **ret_name, const char **ret_value);
/* One of http_config.headers; NULL: not there. */
const char *http_header(const struct http_request *request, const char *name);
/* The key; NULL: none was given. Wiped when the request ends, or by http_wipe_key(). */
const char *http_key(const struct http_request *request);
void http_wipe_key(struct http_request *request);
/* For the log: who asked. At most 64 of letters, digits, - and _; others are left out. */
void http_set_key_id(struct http_request *request, const char *key_id);
/* Numbers a handler may keep with its request, for gone() and the like. */
void http_set_context(struct http_request *request, void *context);
void *http_context(const struct http_request *request);

/* The body as an object; json_decref() it. On any fault the request has been answered 400 with line and column, nothing quoted, and NULL
 * is returned; no body at all is a fault too. */
json_t *http_json(struct http_request *request);
/* The body as it came, for a hash of it; NULL: none was kept. Lives as long as the request. */
const void *http_body(const struct http_request *request);
uint64_t http_body_bytes(const struct http_request *request);

/* --- bodies that stream ----------------------------------------------------------------------------------------------------- */

#define HTTP_PART_NAME_MAX 64
#define HTTP_FILENAME_MAX 255

struct http_part {
    const char *name;         /* UTF-8 without control characters */
    const char *filename;     /* the same, "%22" being '"'; NULL: a field, not a file */
    const char *content_type; /* "" where it says none */
};

/* All on the HTTP thread, parts in the order in which they come. A callback that cannot go on answers the request and returns false;
 * the rest of the body is then discarded. Exactly one of these ends a sink: the route's handle(), or abandon(). */
struct http_sink {
    /* How many bytes may come now. 0: the client waits until http_receive_more(). At most HTTP_SINK_EXTRA more come than it says. */
    size_t (*room)(void *context); /* NULL: any number */
    bool (*part_begin)(void *context, const struct http_part *part);
    bool (*part_data)(void *context, const void *data, size_t bytes);
    bool (*part_end)(void *context);
    void (*abandon)(void *context);
};
#define HTTP_SINK_EXTRA 80
/* In accept(). */
void http_receive(struct http_request *request, const struct http_sink *sink, void *context);
/* There is room again; any thread, while the sink lives. Sinks are called without a lock of ours: one of yours may be held here and
 * taken there. */
void http_receive_more(struct http_request *request);

/* --- answers ---------------------------------------------------------------------------------------------------------------- */

/* Called at most once, from a thread of the server, when the client has left before the answer: note it and wake whoever works on it.
 * May call nothing of this header, nor take a lock that is held anywhere when this header is called. Never called once the request
 * was answered or its stream ended, which waits for a call that runs. */
void http_on_gone(struct http_request *request, void (*gone)(void *context), void *context);

/* Before the answer. Names and values are ours: checked, at most 16. */
void http_add_header(struct http_request *request, const char *name, const char *value);
/* retry-after and retry-after-ms. */
void http_retry_after(struct http_request *request, uint32_t ms);

/* Steals `body`. */
void http_answer_json(struct http_request *request, unsigned status, json_t *body);
void http_answer_bytes(struct http_request *request, unsigned status, const char *content_type, const void *bytes, size_t count);
void http_answer_empty(struct http_request *request, unsigned status);
/* {"error": {"message", "type", "param", "code"}}; the type follows from the status; param and code may be NULL. */
void http_answer_error(struct http_request *request, unsigned status, const char *code, const char *param, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* --- streams ---------------------------------------------------------------------------------------------------------------- */

/* A bounded queue stands between the one who pushes and the client. Full: nothing is taken and nothing waits; taken() tells of room. A
 * client that takes nothing for limits.stall_ms while something waits is cut, and gone() is called. */
struct http_stream {
    const char *content_type; /* NULL: server-sent events; else bytes */
    uint64_t bytes;           /* of bytes in all, where known: a stream that ends short of it is seen as cut; 0: not known */
    /* So many events, of so many bytes, went out. Under the same rules as gone(); NULL: not told. */
    void (*taken)(void *context, uint32_t events, uint64_t bytes);
    void *context;
};
/* The request becomes a stream. STATUS_FULL: limits.streams_max are open; it was answered 429, and is over. */
enum status http_stream_begin(struct http_request *request, const struct http_stream *stream);
/* One line of JSON as an event. STATUS_FULL: nothing was taken. STATUS_END: the client is gone; end the stream. */
enum status http_stream_event(struct http_request *request, const char *json, size_t bytes);
/* The same for streams of bytes; each call counts as an event. */
enum status http_stream_bytes(struct http_request *request, const void *data, size_t bytes);
/* Events that would be taken now; 0 also when the client is gone. */
uint32_t http_stream_room(struct http_request *request);
/* "data: [DONE]", always taken. */
void http_stream_end(struct http_request *request);
/* An error event and then the end, without [DONE]: clients take a stream that only ends for a whole answer. Streams of bytes are cut. */
void http_stream_fail(struct http_request *request, unsigned status, const char *code, const char *message);

/* --- lists and retries ------------------------------------------------------------------------------------------------------ */

struct http_page {
    uint32_t limit;
    const char *after; /* an id; NULL: from the beginning. Lives as long as the request */
    bool ascending;    /* order=asc; the default is desc, newest first */
};
/* Of limit, after and order. False: answered 400. */
bool http_page_of(struct http_request *request, uint32_t limit_default, uint32_t limit_max, struct http_page *ret_page);
/* {"object": "list", "data", "first_id", "last_id", "has_more"}: ids are those of the first and last object. Steals `data`. */
json_t *http_page_json(json_t *data, bool has_more);

struct http_retry {
    const char *key; /* Idempotency-Key, 1 .. 255 printable characters without spaces; NULL: none */
    uint32_t count;  /* x-stainless-retry-count: 0 on the first attempt; anything but a small number counts as 0 */
};
/* Both headers must be among http_config.headers. False: answered 400. */
bool http_retry_of(struct http_request *request, struct http_retry *ret_retry);

#endif
