/* What the files of this floor share. Locks: server.lock before request.lock; neither is held when libmicrohttpd calls us, and
 * request.lock may be held when we call MHD_resume_connection(). */
#ifndef CONTROL_HTTP_INTERNAL_H
#define CONTROL_HTTP_INTERNAL_H

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

#include "control/http/http.h"
#include "control/http/multipart.h"
#include "control/http/target.h"

#define KEY_TEXT_MAX 255
#define HEADER_VALUE_MAX 1024
#define ANSWER_HEADERS_MAX 16
#define STREAM_LAST_EVENT_MAX 1024 /* always has room */
#define LATENCY_BOUNDS 14

/* Why a connection was cut, or a request never became one. */
#define CUT_LIST(X)                                                                                         \
    X(HEAD, "head_deadline") X(BODY, "body_deadline") X(SINK, "sink_deadline") X(ANSWER, "answer_deadline") \
    X(STALLED, "stalled") X(LEFT, "client_left") X(TOO_LONG, "body_too_long") X(STOP, "stopping")           \
    X(MALFORMED, "malformed_head")
enum cut {
#define X(name, text) CUT_##name,
    CUT_LIST(X)
#undef X
    CUT_COUNT
};

struct route_counts {
    atomic_uint_least64_t status[6]; /* by hundreds; [0]: no answer was sent */
    atomic_uint_least64_t latency[LATENCY_BOUNDS + 1];
    atomic_uint_least64_t latency_ns;
};

/* A slot of the table of connections; guarded by server.lock, but for what says otherwise. */
struct connection {
    uint32_t next_free;
    uint32_t generation; /* so that a late event of an old socket finds nobody */
    int fd;              /* -1: free */
    bool gone;           /* the other side has closed its half, or we cut it */
    atomic_int cut_as;   /* an enum cut: when the deadline passes */
    atomic_int_least64_t deadline_ns; /* set by the HTTP thread, without the lock */
    struct http_request *request; /* NULL between requests */
};

struct http_server {
    struct http_config config;
    struct http_limits limits; /* without zeros */
    struct MHD_Daemon *daemon;
    int listener;
    uint16_t port;
    int epoll;
    int wake;           /* an eventfd that ends the watcher's sleep */
    pthread_t watcher;
    bool watching;
    atomic_bool closing; /* the watcher ends */
    atomic_bool stopping;
    uint64_t seed[2];
    atomic_uint_least64_t requests_count; /* for ids */

    pthread_mutex_t lock;
    pthread_cond_t fewer;     /* a connection has closed or a request has ended */
    struct connection *connections; /* [limits.connections_max + 16] */
    uint32_t first_free;
    uint32_t connections_open;
    uint32_t requests_open;

    atomic_uint_least32_t held;    /* requests that their owners have not ended */
    atomic_uint_least32_t streams; /* open */
    atomic_uint_least64_t received_bytes, sent_bytes;
    atomic_uint_least64_t bodies_bytes; /* that requests hold now */
    atomic_uint_least64_t cuts[CUT_COUNT];
    struct route_counts counts[HTTP_ROUTES_MAX + 1]; /* the last: no route */
};

/* Under request.lock; until HANDED only the HTTP thread writes. */
enum request_state { REQUEST_HEAD, REQUEST_BODY, REQUEST_HANDED, REQUEST_ANSWERED, REQUEST_STREAM };

struct stream_queue {
    struct http_stream facts;
    char *bytes;
    size_t at, count, size;
    uint32_t *ends;              /* [stream_events_max + 2]: a ring of events' lengths left */
    uint32_t first, events;
    bool ping, ended, failed;
    int64_t moved_ns;            /* when the reader last took something, or the queue was last empty */
};

struct http_request {
    struct http_server *server;
    pthread_mutex_t lock;
    uint32_t references; /* the connection's and the owner's */
    struct MHD_Connection *mhd; /* NULL once the connection has ended it */
    struct connection *connection;
    const char *raw_target; /* in the connection's buffer, until the head was checked */
    size_t raw_bytes;

    char id[40];
    struct http_target target;
    const char *ids[HTTP_CAPTURES_MAX];
    uint32_t ids_count;
    uint32_t route; /* HTTP_ROUTES_MAX: none */
    const char *method; /* a constant */
    char *headers[HTTP_HEADERS_MAX];
    char key[KEY_TEXT_MAX + 1]; /* wiped */
    bool has_key;
    char key_id[65];
    void *context;

    bool begun;         /* the handler's first call has been */
    bool announced;     /* a body is to come */
    bool must_close;    /* after the answer: what follows cannot be told apart */
    uint64_t declared_bytes; /* UINT64_MAX: chunked */
    uint64_t body_bytes;
    char *body;
    size_t body_size;
    struct http_multipart *parser;
    const struct http_sink *sink;
    void *sink_context;
    bool sink_live;
    bool more;          /* under request.lock: the sink has room since it was asked */

    enum request_state state;
    bool suspended;
    bool gone;
    bool overtaken;      /* answered by a server that stops: its owner's answer is void */
    bool handed;         /* to handle(): the owner holds it until it answers */
    void (*on_gone)(void *context);
    void *on_gone_context;
    unsigned status;
    struct MHD_Response *response;
    struct { char *name; char *value; } added[ANSWER_HEADERS_MAX];
    uint32_t added_count;
    struct stream_queue stream;
    int64_t begun_ns;
    uint64_t sent_bytes;
};

/* --- server.c, watch.c ---- */
int64_t http_now_ns(void);
bool http_watch_begin(struct http_server *server);
void http_watch_end(struct http_server *server);
struct connection *http_connection_add(struct http_server *server, int fd);
void http_connection_remove(struct http_server *server, struct connection *connection);
/* On the HTTP thread, or under request.lock while its client is there. */
void http_set_deadline(struct http_request *request, enum cut cut_as, int64_t deadline_ns);
/* To every request that is still open: streams get their error event, others a 503. */
void http_say_farewell(struct http_server *server);
/* Every connection is shut; `idle_only`: those without a request. */
void http_cut_all(struct http_server *server, bool idle_only);

/* --- head.c ---- */
/* NULL: the head is as strict as we want it; else what is wrong with it. Only then may `raw_target` be used. */
const char *http_head_check(struct http_request *request, const char *method, const char *version);
/* Takes from the headers what a request keeps, and finds its route; answers it when it is to be refused. */
void http_head_read(struct http_request *request, const char *method);
void http_wipe(void *memory, size_t bytes);

/* --- request.c ---- */
struct http_request *http_request_create(struct http_server *server, struct MHD_Connection *mhd, const char *uri);
void http_request_release(struct http_request *request);
enum MHD_Result http_on_access(void *context, struct MHD_Connection *mhd, const char *url, const char *method, const char *version,
                               const char *data, size_t *bytes, void **request);
void http_on_completed(void *context, struct MHD_Connection *mhd, void **request, enum MHD_RequestTerminationCode code);
/* Under request.lock: if it is suspended, it goes on. */
void http_request_wake(struct http_request *request);
/* The same in two steps, for the HTTP thread wants the lock at once: what is not NULL is to be resumed by the caller, and by nobody else,
 * once he has let go of it. Until then libmicrohttpd leaves it alone. */
struct MHD_Connection *http_request_wakes(struct http_request *request);
/* Under request.lock: its client is gone; tells the owner. */
void http_request_gone(struct http_request *request);

/* --- answer.c ---- */
/* Every answer and stream gets these. */
void http_put_headers(struct http_request *request, struct MHD_Response *response, const char *content_type);
/* {"error": ...} as text to free(). */
char *http_error_text(unsigned status, const char *code, const char *param, const char *message);

/* Under request.lock, for one that is handed: a 503 in its owner's place. */
void http_answer_stopping(struct http_request *request);
#define HTTP_STOPPING_TEXT "the server is stopping; try again"

/* --- stream.c ---- */
/* Under request.lock; its owner still ends it. */
void http_stream_fail_locked(struct http_request *request, unsigned status, const char *code, const char *message);
/* Under request.lock, now and then: a ping where it is silent, an end where its reader takes nothing. */
void http_stream_look(struct http_request *request, int64_t now_ns);

/* --- measure.c ---- */
void http_measure(struct http_request *request);
void http_count_cut(struct http_server *server, enum cut cut);

/* --- listen.c --- */
/* That config.listener listens, and where http_listen() would. */
enum status http_listener_check(const struct http_config *config, struct refusal *refusal);

#endif
