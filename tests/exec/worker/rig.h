/* A worker driven from outside: requests in, replies kept, every invariant looked at after each pump. The tiny base and its adapters are
 * made by the test; a base under ../shared/models is opened where the test asks for one. */
#ifndef TESTS_WORKER_RIG_H
#define TESTS_WORKER_RIG_H

#include "exec/scratch.h"
#include "support.h"
#include "worker/worker.h"

#define REPLY_TOKENS_MAX 520

/* What came of a request. Zero it before; it stays where it is until its end. */
struct reply {
    worker_handle handle;
    uint32_t count;
    int32_t ids[REPLY_TOKENS_MAX];
    float logprobs[REPLY_TOKENS_MAX];
    float margins[REPLY_TOKENS_MAX]; /* of the best logit over the second */
    uint32_t cancel_at;   /* cancel from within the call of this many tokens; 0: never */
    uint32_t stop_at;     /* token() says so at this many; 0: never */
    struct worker *worker;
    uint32_t ends;        /* calls of end() */
    struct worker_end end;
    char why[640];
};

/* A folder with a tiny base, and adapters beside it. */
struct place {
    struct scratch scratch;
    struct model_config config;
    char base[512];
};
void place_begin(struct place *place, enum dtype dtype);
void place_end(struct place *place);
/* Writes adapter NAME: a folder with all seven modules. The same name again is written over. Returns its path, see scratch_at(). */
const char *place_adapter(struct place *place, const char *name, int32_t rank, uint64_t seed);
/* small: 32 positions a sequence unless the test says more, exact, one thread, 4 slots. */
void place_worker_config(struct place *place, struct worker_config *ret_config);

/* Fails the test with the refusal's text. */
struct worker *worker_opened(const struct worker_config *config);
void worker_add(struct worker *worker, struct place *place, const char *name);

/* Submits with defaults where a field is 0 or NULL (greedy, token and end kept in `reply`). */
enum status worker_asks(struct worker *worker, const struct worker_request *request, struct reply *reply, struct refusal *refusal);
/* The same, which must be taken. */
void worker_ask(struct worker *worker, const struct worker_request *request, struct reply *reply);
/* One pump and worker_check(). When nothing could be done, waits for the loader, a second at most. */
void worker_turn(struct worker *worker);
/* Pumps until all have ended; fails after a minute without an end. */
void worker_finish(struct worker *worker, const struct reply *replies, uint32_t count);
/* Pumps until `reply` has so many tokens, or has ended. */
void worker_until(struct worker *worker, const struct reply *reply, uint32_t tokens);
/* Nothing runs and nothing is on its way: pumps until a pump changes nothing and no version waits. */
void worker_settle(struct worker *worker);
/* One request on a worker that does nothing else. */
void worker_answer(struct worker *worker, const struct worker_request *request, struct reply *ret_reply);

/* Ids and bits of logprobs are equal, and so is how they ended; fails with the first that differs. */
void assert_same(const struct reply *got, const struct reply *want, const char *about);
bool same_ids(const struct reply *a, const struct reply *b);

/* Adapters PREFIX-0, PREFIX-1, ..., written and registered. */
void worker_add_some(struct worker *worker, struct place *place, const char *prefix, int count, int32_t rank);
/* A greedy request whose prompt is drawn; end-of-sequence ids do not end it. */
void worker_ask_drawn(struct worker *worker, const char *adapter, uint32_t prompt_tokens, uint64_t seed, uint32_t max_tokens,
                      struct reply *reply);
/* What such a request gets on a server that has this one adapter as it is now, or none, and no other request. */
void place_ask_cold(struct place *place, const char *adapter, uint32_t prompt_tokens, uint64_t seed, uint32_t max_tokens,
                    struct reply *ret_reply);
/* In its slot afterwards, with nothing running. */
void worker_warm(struct worker *worker, const char *adapter);

#define PROMPT_TOKENS_MAX 60
/* `count` ids of the tiny vocabulary, none of them special. */
void draw_prompt(uint64_t seed, int32_t *ret_ids, uint32_t count);

#endif
