/* A core over a launcher that starts nothing: its workers are the other ends of sockets, which the test speaks for. A worker does by itself
 * what every one does (HELLO, INVENTORY, commits, LOAD and UNLOAD); answers are the test's to give. The stage outlives cores, as a keeper
 * outlives control planes. */
#ifndef TESTS_CORE_RIG_H
#define TESTS_CORE_RIG_H

#include <pthread.h>

#include "control/core/core.h"
#include "control/metadata/job.h"
#include "control/metadata/tenant.h"
#include "control/metadata/usage.h"
#include "exec/scratch.h"
#include "support.h"
#include "wire/socket.h"

#define ACTORS_MAX 32
#define ASKED_MAX 600

/* A REQUEST that a worker has. */
struct asked {
    bool used;
    uint64_t request;
    uint64_t generation;
    uint8_t digest[32];
    uint32_t prompt_tokens;
    uint32_t max_tokens;
    uint32_t said_tokens;
    bool aborted;
    char account[128];
};
/* An adapter that it knows. */
struct learned {
    uint8_t digest[32];
    uint64_t generation;
    uint8_t key_first;     /* byte of the data key that came with it */
    char tenant[NAME_BYTES];
};

struct actor {
    bool used;
    struct launch launch;
    int socket;            /* the worker's end; -1: dead */
    int control_end;       /* the keeper's copy of the other one */
    struct wire *wire;
    bool is_started;       /* START came */
    bool is_drained;
    bool has_exited;
    struct launch_end end;
    char settings[512];
    uint32_t starts;
    uint32_t loads;
    uint32_t unloads;
    uint64_t commands;     /* all frames but LEASE and ACK */
    uint64_t says[64];     /* of each kind */
    struct asked asked[ASKED_MAX];
    uint32_t asked_count;  /* used ones */
    struct learned learned[64];
    uint32_t learned_count;
};

/* What the launcher was asked, done by the test's thread. */
enum stage_act { STAGE_START, STAGE_END, STAGE_END_AT_ONCE, STAGE_LIST, STAGE_FORGET };
struct stage_ask {
    enum stage_act act;
    struct launch launch;
};

struct stage {
    pthread_mutex_t lock;  /* of what the core's thread and the test's share: asks, and the front's events */
    struct stage_ask asks[64];
    uint32_t asks_count;
    struct actor actors[ACTORS_MAX];
    struct front *front;   /* of the core that lives */
    bool silent;           /* servers don't say INVENTORY when they are started */
    bool refuses;          /* start() is answered REFUSED */
    bool fails_loads;
    uint32_t forgotten;
    _Atomic uint32_t full_for; /* so many calls the launcher takes no end and no forget */
};

/* What a test is told of a request. */
struct answer {
    struct core *core;
    bool takes;            /* tokens at once */
    uint64_t request;
    _Atomic uint32_t tokens;
    _Atomic uint32_t ends;
    struct core_end end;
    char text[256];
};

/* What the driver hears. */
struct heard {
    uint32_t of[16];       /* each kind */
    struct core_heard last[16];
    uint64_t fetches[64];
    struct core_adapter fetched[64];
    uint32_t fetches_count;
    struct wire_frame frames[64];
    uint32_t frames_count;
    struct fleet_command commands[64];
    uint32_t commands_count;
};

struct rig {
    struct scratch scratch;
    struct metadata *metadata;
    struct metadata *writing;
    struct meta_writer *writer;
    struct stage stage;
    struct core *core;
    struct core_base bases[2];
    struct core_config config;
    char tenant[NAME_BYTES];
    struct refusal refusal;
    uint64_t epoch;
    struct heard seen;     /* as of the last turn */
    pthread_mutex_t lock;  /* of what is heard */
    struct heard heard;
};

#define OK(rig, call)                                                        \
    do {                                                                     \
        if ((call) != STATUS_OK)                                             \
            fail_msg("%s: %s", #call, (rig)->refusal.text);                  \
    } while (0)

/* Three devices; "tiny" has two replicas, "other" one. The core is not open yet: `config` may be changed. */
void rig_begin(struct rig *rig);
void rig_open(struct rig *rig);
/* Opened, restored, all servers up. */
void rig_up(struct rig *rig);
/* As a kill would have it, as far as workers see: the core is gone, they live. */
void rig_core_gone(struct rig *rig);
void rig_end(struct rig *rig);

/* Turns the workers until it holds. */
#define UNTIL(rig, condition)                                                \
    do {                                                                     \
        for (int turns_ = 0; !(condition); turns_++) {                       \
            if (turns_ > 20000)                                              \
                fail_msg("in vain: %s", #condition);                         \
            rig_turn(rig);                                                   \
        }                                                                    \
    } while (0)
void rig_turn(struct rig *rig);
void rig_turn_for(struct rig *rig, int turns);

/* The n-th that lives and serves this base; NULL: none. */
struct actor *rig_server(struct rig *rig, uint32_t base, uint32_t n);
struct actor *rig_worker(struct rig *rig, uint64_t worker);
/* The server that has this request; NULL: none. */
struct actor *rig_has(struct rig *rig, uint64_t request);
struct asked *actor_asked(struct actor *actor, uint64_t request);
/* False: there was no credit, or room. */
bool actor_tokens(struct actor *actor, uint64_t request, uint32_t count);
void actor_usage(struct actor *actor, uint64_t request);
/* With USAGE before it. */
void actor_done(struct actor *actor, uint64_t request, enum core_end_reason finish);
void rig_kill(struct rig *rig, struct actor *actor);

struct core_adapter rig_adapter(const struct rig *rig, const char *digest);
void rig_hears_tokens(void *answer, const struct wire_tokens *said);
void rig_hears_end(void *answer, const struct core_end *said);
enum status rig_ask(struct rig *rig, uint32_t base, const struct core_adapter *adapter, uint32_t max_tokens, struct answer *answer);
/* Rows of usage of the tenant, and their output tokens. */
int64_t rig_usage(struct rig *rig, int64_t *ret_output);
/* Live rows of servers. */
uint32_t rig_rows(struct rig *rig);

#endif
