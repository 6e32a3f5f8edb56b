/* What the files of a worker share. */
#ifndef WORKER_INTERNAL_H
#define WORKER_INTERNAL_H

#include "crypto/secret.h"
#include "engine/lora/peft.h"
#include "engine/serve/blocks.h"
#include "engine/serve/pool.h"
#include "hold/borrow.h"
#include "journal/turn.h"
#include "node/node.h"
#include "worker/loader.h"
#include "worker/worker.h"

TURN(replica)
TURN(node)

#define LOADS_MAX 4
#define FETCHES_MAX 2

/* A version of a name. Its index is the cores' adapter index minus 1; free when neither name nor core needs it. */
struct worker_version {
    char name[WORKER_NAME_MAX + 1];
    struct adapter_source source;
    uint8_t digest[DIGEST_BYTES];
    adapter_id id;
    int32_t rank;                 /* padded */
    uint32_t modules;
    int64_t packed_bytes;         /* a multiple of POOL_ALIGN: what the cores count */
    bool used;
    bool named;                   /* new requests by this name get it */
    bool known;                   /* to the replica core */
    bool node_told;               /* that it is retired */
    uint32_t requests;            /* in flight */
    uint32_t loading;             /* of the loader's work */
    void *blob;                   /* packed, in host memory */
    int32_t slot;                 /* on the device; -1 */
    char *failure;                /* why its last fetch failed */
    enum status fetched;          /* and how */
};

#define VERSION_NONE ((struct worker_version){.slot = -1, .source = {.file = -1}})

enum request_state { REQUEST_FREE_SLOT, REQUEST_LIVE };
struct worker_sequence {
    struct worker_request request; /* prompt and sample point nowhere; see below */
    struct sample_params sample;
    struct sample_counts *counts;
    uint64_t ordinal;
    enum request_state state;
    bool ending;                  /* the core has been told of its end */
    bool stopped;                 /* by an id or by token() */
    bool failed;                  /* no finite numbers */
    bool cancel_due;
    struct worker_version *version; /* NULL: the base */
    int32_t *tokens;              /* prompt and answer; [prompt + max] */
    uint32_t answered;
    int32_t picked;               /* its last token is the device's best of output picked - 1; 0: it is not */
    uint64_t picked_step;         /* of which step; see counts.steps */
    int32_t *blocks;
    uint32_t blocks_count;
    int64_t submitted_ns;
    int64_t first_ns;
};

/* A LOAD of the replica core, on its way. */
enum load_stage { LOAD_FREE, LOAD_WANTED, LOAD_NO_HOLE, LOAD_COPYING, LOAD_LOST };
struct worker_load {
    enum load_stage stage;
    uint64_t command;
    struct worker_version *version;
    int32_t slot;
    uint16_t tier;
    int64_t asked_ns;
};

struct worker {
    struct worker_config config;
    struct model *model;
    struct loan loan;             /* LOAN_NONE: the weights on the device are this worker's own */
    bool merged;                  /* the weights are an adapter's, whose digest is merged_digest */
    uint8_t merged_digest[DIGEST_BYTES];
    struct forward *forward;
    int32_t eos[MODEL_EOS_MAX];
    int32_t eos_count;
    uint32_t positions_max;
    int64_t started_ns;
    int64_t now_ns;
    bool draining;
    bool drained;
    bool cancel_due;              /* of some sequence */
    bool settle_due;              /* of some version */
    bool telling_replica;         /* a core is never told anything by what it says */
    bool telling_node;

    struct replica *replica;
    struct replica_host replica_host;
    struct replica_commands replica_commands;
    uint64_t replica_seq;
    int64_t replica_tick_ns;
    struct node *node;
    struct node_host node_host;
    struct node_commands node_commands;
    uint64_t node_seq;
    int64_t node_tick_ns;

    struct worker_version *versions; /* [versions_max]: named, and retired ones that are still needed */
    uint32_t versions_max;
    uint8_t *secrets;             /* [versions_max][KEY_BYTES]: sealed objects' data keys, in locked memory; NULL: none was here */
    uint32_t *by_name;            /* [adapters_max]: indexes of named versions, by rising name */
    uint32_t named_count;
    uint32_t version_last;

    struct worker_sequence *sequences; /* [requests_max] */
    uint64_t ordinal_last;
    struct blocks blocks;
    struct pool pool;
    struct worker_load loads[LOADS_MAX];
    struct loader *loader;

    bool run_pending;
    uint64_t run_command;
    struct forward_part *parts;   /* [sequences_max] */
    uint32_t *part_slots;         /* [sequences_max]: which request */
    float *logits;                /* [vocabulary] */
    struct sample_scratch *scratch;
    int32_t best;                 /* candidates a row */
    struct worker_state counts;
};

/* worker.c */
/* What is told until the next look happens at one instant. */
void worker_look_at_clock(struct worker *worker);
void worker_tell_replica(struct worker *worker, struct replica_event *event);
void worker_tell_node(struct worker *worker, struct node_event *event);
/* versions.c */
struct worker_version *version_of(struct worker *worker, adapter_id id);
struct worker_version *version_named(struct worker *worker, const char *name);
void version_settle(struct worker *worker, struct worker_version *version);
/* Its tier or its last fetch is another. */
void version_moved(const struct worker *worker, const struct worker_version *version);
/* loads.c */
void load_begin(struct worker *worker, const struct replica_command *command);
void load_node_command(struct worker *worker, const struct node_command *command);
void load_evicted(struct worker *worker, const struct replica_command *command);
bool loads_pump(struct worker *worker);
/* requests.c */
void requests_cancel_due(struct worker *worker);
void request_said_done(struct worker *worker, const struct replica_command *command);
void request_said_refused(struct worker *worker, const struct replica_command *command);
void request_said_preempted(struct worker *worker, const struct replica_command *command);
struct worker_sequence *sequence_of(struct worker *worker, request_id id);
/* run.c */
void worker_step(struct worker *worker);

#endif
