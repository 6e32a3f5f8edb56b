/* What the files of a model server's talk share. */
#ifndef SERVING_INTERNAL_H
#define SERVING_INTERNAL_H

#include "base/table.h"
#include "control/core/core.h"
#include "serving/serving.h"
#include "worker/answer.h"

/* Open at once on the wire: those that run here, and those whose tokens wait for credit. */
#define STREAMS_MAX 4096
/* LOADs that were refused and are not told yet have places too. */
#define GOING_MAX 64

/* An adapter that the control plane has loaded here. */
struct hosted {
    uint8_t digest[32];
    uint64_t generation;
    char tenant[NAME_BYTES];
    uint64_t bytes;              /* on the device */
    uint32_t requests;           /* whose DONE was not said */
    enum tier tier;
    bool used;
    bool due;                    /* in the list of those to be told about */
    enum status failed;          /* it could not be fetched: it goes when its requests have ended */
    bool going;                  /* UNLOADED is to be said, with `code` */
    enum status code;
    uint32_t next_free;
};

/* A request, from REQUEST to its DONE. */
struct stream {
    struct serving *serving;
    struct stream *next;
    uint64_t request;
    struct hosted *hosted;       /* NULL: the base */
    struct answer answer;
    char *account;
    uint32_t account_bytes;
    /* The control plane waits for its DONE. False: it was welcomed anew. */
    bool is_wanted;
    bool is_aborted;
    /* Generated and not said: from token `said` on. Tokens are in their form on the wire. */
    uint8_t *tokens;             /* [room] */
    uint8_t *best;               /* [room][best_each] */
    size_t *text_ends;           /* [room]: in `text`, behind each token's */
    uint32_t count;
    uint32_t said;
    uint32_t room;
    uint32_t best_each;
    uint32_t first_index;        /* of token 0 here */
    struct token_text text;
    bool is_over;
    bool usage_said;
    struct wire_done done;
    struct token_text last_text;
};

struct serving {
    const struct serving_config *config;
    struct link *link;
    struct worker *worker;       /* NULL: not started */
    struct tokenizer *tokenizer; /* NULL: the model has none */
    int folder;                  /* the base's */
    char directory[64];
    struct stream *streams;
    uint32_t streams_count;
    struct hosted *hosted;       /* [hosted_max] */
    uint32_t hosted_max;
    uint32_t hosted_free;
    struct table hosted_of;      /* by the first eight bytes of the digest */
    void *table_memory;
    uint32_t *due;               /* [hosted_max]: a ring of those to be told about */
    uint32_t due_first;
    uint32_t due_count;
    uint32_t inventory_at;       /* hosted[] from here on is still to be told; hosted_max: nothing is */
    bool inventory_due;
    bool warned;                 /* that keys are not in locked memory */
    int64_t beat_at_ns;          /* of the last that was said here */
    struct wire_beat beat;
    bool is_draining;
    int64_t drain_by_ns;
};

int64_t serving_now_ns(void);
/* serving.c */
void serving_log(const struct serving *serving, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* start.c */
enum status serving_start(struct serving *serving, const struct wire_start *start, struct wire_inbox *inbox, struct refusal *refusal);
void serving_end(struct serving *serving);
/* streams.c */
void stream_begin(struct serving *serving, const struct wire_request *request, struct wire_inbox *inbox);
void stream_abort(struct serving *serving, uint64_t request);
/* Their clients are gone (a new control plane), or their time is over (a drain). */
void streams_forget(struct serving *serving);
void streams_abort(struct serving *serving);
void streams_say(struct serving *serving);
void streams_free(struct serving *serving);
/* hosted.c */
enum status adapters_open(struct serving *serving, uint32_t adapters_max);
void adapters_close(struct serving *serving);
void hosted_load(struct serving *serving, const struct wire_load *load, struct wire_inbox *inbox);
void hosted_unload(struct serving *serving, const struct wire_unload *unload);
/* NULL: not here, of another generation, or going. */
struct hosted *hosted_find(struct serving *serving, const uint8_t digest[32], uint64_t generation);
void hosted_give(struct serving *serving, struct hosted *hosted);
/* worker_config.moved */
void hosted_moved(void *serving, const struct worker_adapter *adapter);
void adapters_say(struct serving *serving);

#endif
