/* A server with routes of every kind in the test's own process, and clients of raw bytes. What is waited for is an answer or an end, never
 * a time; nothing for ten seconds is a failure. */
#ifndef TESTS_HTTP_RIG_H
#define TESTS_HTTP_RIG_H

#include <pthread.h>

#include "control/http/http.h"
#include "support.h"

#define HELD_MAX 4096

struct rig {
    struct http_server *server;
    struct http_config config;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct http_request *held[HELD_MAX]; /* of /v1/later and /v1/stream, in order; NULL once taken */
    uint32_t held_count, taken_count;
    uint32_t gone_count;    /* calls of gone() */
    uint64_t taken_events;  /* of streams */
    char log[1 << 16];      /* all lines */
    /* the last upload */
    char parts[8192];       /* "begin NAME FILENAME TYPE\n", "end BYTES\n" */
    uint64_t part_bytes, part_hash;
    uint32_t finished_count, abandoned_count;
    size_t room;            /* SIZE_MAX: always */
    struct http_request *uploading;
    uint32_t asked_room;
    bool stalls, goes_on;   /* of /v1/stall: the HTTP thread is in it; it may leave */
};

/* Limits as `limits` has them, or the defaults. GET /v1/ping, /v1/echo (query and headers), /v1/things (a page), /v1/later (held),
 * /v1/stream (held), /v1/bytes, /v1/stall; GET and DELETE /v1/things/{id}; POST /v1/jobs (key, JSON of up to 4096 bytes, echoed),
 * /v1/jobs/{id}/cancel (no body needed; "held" is held), /v1/files (key, multipart of up to 1 GiB). */
void rig_begin(struct rig *rig, const struct http_limits *limits);
/* Everything held must have been taken and ended. */
void rig_end(struct rig *rig);
/* The next held request, waited for. */
struct http_request *rig_take(struct rig *rig);
/* Waits until *value (under rig.lock) is at least this. */
void rig_await(struct rig *rig, const uint32_t *value, uint32_t least);
/* The HTTP thread stands still between the two; what clients do meanwhile, it finds all at once. */
void rig_stall(struct rig *rig);
void rig_go_on(struct rig *rig);
/* A counter of http_metrics(): the number after this text at a line's start; 0: not there. */
double rig_metric(struct rig *rig, const char *sample);

/* --- clients --- */
int client_connect(const struct rig *rig);
void client_send(int fd, const char *bytes, size_t count);
void client_say(int fd, const char *text);
/* Reads one answer into ret_text: head, an empty line, and the body with its chunks joined. Returns its status; 0: closed before. */
struct client_answer {
    unsigned status;
    bool closed; /* the other side has ended the connection with or after it */
    bool whole;  /* its length or last chunk was there */
    char head[4096];
    char *body;  /* free() by the next call on the same object, or client_answer_free() */
    size_t count;
};
void client_read(int fd, struct client_answer *answer);
void client_answer_free(struct client_answer *answer);
/* connect, say, read, close. */
void client_ask(const struct rig *rig, const char *text, struct client_answer *answer);
/* Whether the other side ends the connection; fails after ten seconds. */
void client_await_end(int fd);
/* Bytes until at least `count` or the end; returns how many. */
size_t client_take(int fd, char *bytes, size_t count);
/* "error.code" and the like; "" where there is none or null. Lives until the next call. */
const char *answer_field(const struct client_answer *answer, const char *object, const char *key);
int64_t rig_now_ms(void);

#endif
