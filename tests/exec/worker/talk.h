/* A server in a thread of the test, and connections to it. What is waited for is an answer, never a time; none for a minute is a failure. */
#ifndef TESTS_WORKER_TALK_H
#define TESTS_WORKER_TALK_H

#include <jansson.h>
#include <pthread.h>

#include "engine/tokenizer/tokenizer.h"
#include "rig.h"
#include "worker/server.h"

struct served {
    struct place place;
    char adapters[512];   /* PLACE/adapters */
    char socket[512];
    struct server_config config;
    struct tokenizer *tokenizer;
    FILE *log;
    volatile int stop;
    pthread_t thread;
    enum status status;
    struct refusal refusal;
};
/* `worker` is what place_worker_config() says but for positions of 256 and what `change` does; NULL: nothing. */
void served_begin(struct served *served, void (*change)(struct worker_config *config));
/* Begins the thread; served_begin() has not. */
void served_start(struct served *served);
void served_adapter(struct served *served, const char *name, uint64_t seed);
/* Waits until the server has ended: by a drain, or because of served_stop(). */
enum status served_wait(struct served *served);
void served_stop(struct served *served);
/* Whether its log has said so; the server has ended. */
bool served_logged(struct served *served, const char *text);
void served_end(struct served *served);

struct talk {
    int fd;
    char *bytes;
    size_t count, size;
};
/* Waits until somebody listens. */
void talk_begin(struct talk *talk, const struct served *served);
void talk_end(struct talk *talk);
/* A line; what is after a line end is up to the caller. */
void talk_say(struct talk *talk, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* As much of it as the connection takes without waiting; how much. */
size_t talk_push(struct talk *talk, const char *bytes, size_t count);
/* The next line; NULL: the connection is closed. json_decref() it. */
json_t *talk_hear(struct talk *talk);
/* A line that says and hears. */
json_t *talk_ask(struct talk *talk, const char *line);
/* Fails unless the next line is an error of this code that says `why`. */
void talk_expect_error(struct talk *talk, const char *code, const char *why);

/* Drains; nothing more is taken. */
void talk_drain(struct talk *talk);
/* Drains on a connection of its own, waits for the end and puts everything away. */
void served_drain_and_end(struct served *served);
/* The words of one request on a connection that has no other; returns the end, and the tokens that came before. */
json_t *talk_hear_answer(struct talk *talk, json_int_t id, int32_t *ret_ids, uint32_t *ret_count);

const char *text_of(const json_t *object, const char *key); /* "": none */
json_int_t number_of(const json_t *object, const char *key); /* -1: none */

#endif
