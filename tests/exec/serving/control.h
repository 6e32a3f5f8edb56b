/* The control plane's end of a model server that runs in a thread, for tests: what it is told, what it says, kept by request. */
#ifndef TESTS_SERVING_CONTROL_H
#define TESTS_SERVING_CONTROL_H

#include <pthread.h>

#include "exec/worker/rig.h"
#include "serving/serving.h"

#define HEARD_MAX 64
#define HEARD_TOKENS_MAX 300

/* What came of a request. */
struct heard {
    uint64_t request;
    struct reply reply;                            /* ids, logprobs, count; `ends`: DONEs */
    uint32_t frames;
    uint32_t best_each;
    struct wire_token best[HEARD_TOKENS_MAX];      /* of each token the first */
    char text[4096];                               /* DONE's too */
    uint32_t usages;
    struct wire_usage usage;
    char account[64];
    struct wire_done done;
    char why[640];                                 /* it was refused */
};

struct control {
    struct place place;
    struct serving_config config;
    pthread_t thread;
    bool runs;
    pid_t process;                                 /* 0: the server is a thread */
    enum status status;
    struct refusal refusal;
    int socket;
    struct wire *wire;
    void *memory;
    uint64_t epoch;
    uint32_t lease_ms;
    struct wire_inbox inbox;
    uint64_t requests;
    struct heard heard[HEARD_MAX];                 /* by request % HEARD_MAX */
    uint32_t inventories;                          /* whole ones */
    uint32_t residents;                            /* in the last one */
    struct wire_resident resident;                 /* the last that was told, there or by RESIDENCY */
    uint32_t unloadeds;
    struct wire_unloaded unloaded;
    struct wire_beat beat;
    uint64_t generation;
};

/* A tiny base; `change` may be NULL. Up to its first INVENTORY. */
void control_begin(struct control *control, void (*change)(struct serving_config *config));
/* The same for a program, which finds its socket as descriptor 3, as the keeper starts one; `arguments` begin with its path. */
void control_begin_program(struct control *control, const char *const *arguments);
void control_end(struct control *control);
/* A new one, of the next epoch, in place of one that was killed: up to the INVENTORY. */
void control_again(struct control *control);
/* Sends, hears a frame if one comes within `wait_ms`. */
void control_turn(struct control *control, int wait_ms);
void control_say(struct control *control, enum wire_kind kind, const void *body, const int *descriptors, uint32_t count);
/* serving_run() has returned; of a program: STATUS_OK is exit code 0. */
enum status control_join(struct control *control);
#define control_until(control, condition)                                                   \
    do {                                                                                    \
        for (int turns = 0; !(condition); turns++) {                                        \
            if (turns > 4000)                                                              \
                fail_msg("%s:%d: never: %s", __FILE__, __LINE__, #condition);               \
            control_turn(control, 5);                                                       \
        }                                                                                   \
    } while (0)

/* An adapter as it lies in a store: sealed, in a memory file. */
struct object {
    char tenant[NAME_BYTES];
    char id[NAME_BYTES];
    uint8_t secret[32];
    uint8_t key[32];
    uint32_t rank;
    int file;
    uint64_t bytes;
};
/* Of the place's adapter NAME; fail-safe defaults: label and key are its own. */
void object_make(struct control *control, const char *name, const char *tenant, struct object *ret_object);
void object_end(struct object *object);
void control_load(struct control *control, const struct object *object);

struct wanted {
    const struct object *object; /* NULL: the base */
    const char *tenant;          /* of the account; NULL: the object's, or acme */
    const char *settings;        /* NULL: greedy, no end-of-sequence */
    uint32_t prompt_tokens;
    uint64_t seed;
    uint32_t max_tokens;
    uint32_t credit;             /* 0: enough */
    uint32_t tenant_number;
    bool by_file;                /* the prompt comes as a memory file */
};
/* Returns its number; heard_of() has what comes. */
uint64_t control_ask(struct control *control, const struct wanted *wanted);
struct heard *heard_of(struct control *control, uint64_t request);
/* Up to its DONE. */
struct heard *control_answer(struct control *control, const struct wanted *wanted);

#endif
