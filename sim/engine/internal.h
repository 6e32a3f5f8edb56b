/* The simulator's own state: cores and their hosts on one queue. Actors of the queue are numbered in ranges, so that the
 * order of two things at one instant never depends on which was pushed first:
 * steps of replica r, copies to replica r, fetches of node n, single loads, and one each for arrivals, reports, samples. */
#ifndef ENGINE_INTERNAL_H
#define ENGINE_INTERNAL_H

#include "engine/queue.h"
#include "engine/recorder.h"
#include "engine/sim.h"
#include "engine/slots.h"
#include "fleet/fleet.h"
#include "hardware/link.h"
#include "hardware/step.h"
#include "journal/turn.h"
#include "node/node.h"
#include "replica/replica.h"
#include "workload/source.h"

struct sim_jobs;
struct serving_books;

TURN(replica)
TURN(node)
TURN(fleet)

enum actor_kind { ACTOR_STEP, ACTOR_COPY, ACTOR_STORE, ACTOR_FETCH, ACTOR_LOAD, ACTOR_TIMEOUT, ACTOR_REPORT, ACTOR_SAMPLE,
                  ACTOR_ARRIVAL, ACTOR_REPLICA_TICK, ACTOR_NODE_TICK, ACTOR_FLEET_TICK,
                  ACTOR_JOB, ACTOR_BASE, ACTOR_BASE_DISK, ACTOR_BASE_STORE, ACTOR_FAULT, ACTOR_SPOT, ACTOR_JOB_ARRIVAL,
                  ACTOR_UPGRADE, ACTOR_REPLICA };
#define ACTOR_INDEX_BITS 20

enum request_phase { PHASE_FREE, PHASE_WAITING, PHASE_PREFILL, PHASE_DECODE, PHASE_LOST };

/* A request in flight, at the host. */
struct sim_request {
    struct arrival arrival;
    uint64_t ordinal;
    int64_t admitted_ns;
    int64_t first_token_ns;
    int64_t phase_since_ns;
    int64_t interference_from_ns; /* the replica's integral when this decode phase began */
    int64_t blame_ns[BLAME_COUNT];
    uint32_t replica;
    uint32_t replica_slot;
    uint32_t output_tokens;       /* produced so far */
    uint64_t refuse_need;         /* of a refusal, with refuse_have its arithmetic */
    uint64_t refuse_have;
    bool ending;                  /* its SEQUENCE_END is on its way */
    uint16_t rank;
    uint8_t phase;
    bool slot_wait_known;         /* said by a PREEMPT; after that only `recompute` grows */
};

/* An adapter on its way to a replica's slot: WANT at the node, then the copy. */
struct sim_load {
    uint64_t ordinal;
    uint64_t command;             /* the LOAD it answers */
    adapter_id adapter;
    uint64_t bytes;
    int64_t asked_ns;
    int64_t fetch_from_ns;        /* its fetch from the store began, asked_ns when it had by then */
    int64_t fetched_ns;           /* the store had given it; asked_ns when it had by then */
    int64_t copy_from_ns;
    uint32_t replica;
    uint16_t gpu_slot;
    uint16_t tier;
    bool active;
};

/* What a step pays for the adapter in a GPU slot. Every row of every plan looks here, so it is kept small. */
struct sim_weight {
    uint64_t bytes;
    uint32_t rank;
    uint32_t mark;                /* of the plan that last counted it */
};

/* How the adapter in a GPU slot came: blame looks back at it. */
struct sim_slot {
    int64_t asked_ns;
    int64_t fetch_from_ns;        /* as in sim_load; both asked_ns when it was in the host tier */
    int64_t fetched_ns;
    int64_t ready_ns;             /* decrypted, verified, in host memory */
    int64_t arrived_ns;
};

/* What a replica did, ever growing; samples take differences. */
struct replica_totals {
    int64_t busy_ns;
    uint64_t output_tokens;
    uint64_t prefill_tokens;
    uint64_t loads;
    uint64_t hits;
    uint64_t misses;
};

/* The RUN in flight. */
struct sim_run {
    uint64_t command;             /* its id */
    uint64_t step;                /* number of its first engine step */
    int64_t from_ns;
    struct step_line line;        /* each further step reads a token more for each decoding row */
    uint64_t kv_tokens;           /* read by the first step */
    int64_t without_prefill_ns;   /* of the first step, had nobody prefilled */
    int64_t walked_at_ns;         /* when the first `walked_steps` steps had ended: as far as somebody asked */
    uint32_t walked_steps;
    uint32_t steps;               /* how many this run makes; 0: none in flight */
    uint32_t decode_rows;
    uint32_t prefill_tokens;
    uint32_t generation;          /* of the queue entry that ends it */
    bool prefills;                /* some row is not decoding */
};

struct sim_replica {
    struct replica *core;
    void *memory;                 /* that the core lives in */
    size_t memory_bytes;
    struct replica_config config; /* of the core; each start makes a new one */
    struct sim *sim;
    struct replica_host host;
    struct replica_commands commands;
    struct recorder *recorder;
    struct step_model model;
    struct sim_run run;
    struct link copies;
    struct link_flow *copy_flows; /* [loads_max] */
    uint32_t copies_generation;
    struct slots slots;           /* of the core's requests */
    uint32_t *request_of;         /* [requests_max] the fleet's slot by the replica's slot */
    uint32_t *known_version;      /* [adapters_max + 1] version the core was told of; 0: none */
    struct sim_weight *weights;   /* [entries_max], by GPU slot */
    struct sim_slot *gpu_slots;   /* [entries_max] */
    uint64_t seq;
    uint64_t salt;
    int64_t interference_ns;      /* integral */
    int64_t tick_at_ns;           /* armed; NEVER_NS */
    uint32_t plan_mark;
    uint32_t index;
    uint32_t node;
    uint32_t pool;
    uint32_t tp;
    int64_t load_fixed_ns;
    uint64_t kv_blocks;
    uint64_t slots_capacity;
    uint32_t requests_max;
    uint32_t block_shift;         /* a KV block has 1 << block_shift tokens */
    bool settling;
    bool stayed;                  /* it was up before: the core has a history */
    bool up;                      /* known to the fleet; a draining one still is */
    uint64_t ask_command;         /* the REPLICA_START or REPLICA_DRAIN to answer; 0: none */
    uint32_t generation;          /* of this stay */
    adapter_id merged_for;        /* of this stay: whose weights are in the base's; {0, 0}: nobody's */
    int64_t held_from_ns;         /* its GPUs are its own since; while up or starting */
    int64_t up_from_ns;
    int64_t sampled_at_ns;
    uint64_t hits_before;         /* of the cores of earlier stays */
    uint64_t misses_before;
    struct replica_totals totals;
    struct replica_totals sampled;
    int64_t measured_busy_ns;     /* in the measured window, of steps that were reported */
    int64_t busy_at_last_arrival_ns;
    uint64_t runs;
    uint64_t engine_steps;
};

struct sim_node {
    struct node *core;
    void *memory;
    struct sim *sim;
    struct node_host host;
    struct node_commands commands;
    struct recorder *recorder;
    struct link store;
    struct link_flow *fetch_flows; /* [fetches_max] */
    uint32_t store_generation;
    double fetch_bytes_per_s;     /* one fetch's cap: its connections together */
    double decrypt_bytes_per_s;
    int64_t first_byte_ns;
    uint64_t seq;
    int64_t tick_at_ns;
    uint32_t index;
    uint32_t pool;
};

/* A fetch on its way to a node. */
struct sim_fetch {
    uint64_t ordinal;
    uint64_t command;
    adapter_id adapter;
    uint64_t bytes;
    uint32_t node;
    uint8_t stage;                /* enum fetch_stage */
};
enum fetch_stage { FETCH_FREE, FETCH_FIRST_BYTE, FETCH_TRANSFER, FETCH_DECRYPT };

struct sim {
    const struct scenario *scenario;
    struct results *results;
    const struct sim_options *options;
    FILE *errors;
    struct source *source;
    struct queue queue;
    int64_t now_ns;

    struct fleet *fleet;
    void *fleet_memory;
    struct fleet_host fleet_host;
    struct fleet_commands fleet_commands;
    struct recorder *fleet_recorder;
    uint64_t fleet_seq;
    int64_t fleet_tick_at_ns;

    struct sim_replica *replicas;
    uint32_t replicas_count;
    struct sim_node *nodes;
    uint32_t nodes_count;
    uint32_t pool_node_first[POOLS_MAX]; /* of the pool's nodes; a shared pool has one for each node of capacity */

    struct slots slots;           /* of requests, fleet-wide */
    struct sim_request *requests; /* [requests_max] */
    uint32_t requests_max;
    uint32_t tenants_max;         /* of requests and of jobs: the same customers */
    uint64_t requests_total;
    uint64_t in_system;
    uint32_t routed_to;           /* what the fleet answered to the REQUEST being delivered; NONE_INDEX: refused */

    struct sim_load *loads;       /* [loads_max] */
    uint32_t loads_max;
    struct slots load_slots;
    uint64_t loads_total;
    struct sim_fetch *fetches;    /* [fetches_max] */
    uint32_t fetches_max;
    struct slots fetch_slots;
    uint64_t fetches_total;

    int64_t arrival_at_ns;        /* armed; NEVER_NS */
    uint32_t arrival_generation;
    int64_t sample_every_ns;
    int64_t report_every_ns;
    int64_t arrivals_end_ns;
    int64_t give_up_ns;
    int64_t last_arrival_ns;
    int64_t little_at_ns;
    struct run_facts facts;
    struct sim_jobs *jobs;        /* NULL: the scenario has none; engine/jobs.h */
    struct serving_books *serving_books;
    bool failed;                  /* the source could not go on: its message says why */
    bool journal_failed;          /* a replica's new journal could not be created: said already */
    char journal_dir[1024];       /* of this variant */
    bool warming;                 /* the host tier is being filled before the run: no time passes */
    uint64_t warming_command;     /* the FETCH to answer */
};

/* ACTOR_<kind> number `index`, as the queue's actor. */
static inline uint32_t actor_make(enum actor_kind kind, uint32_t index)
{
    check(index < 1u << ACTOR_INDEX_BITS);
    return (uint32_t)kind << ACTOR_INDEX_BITS | index;
}
void sim_push(struct sim *sim, int64_t at_ns, enum queue_class class, enum actor_kind kind, uint32_t index, uint32_t payload,
              uint64_t ordinal);

/* setup.c */
enum status sim_setup(struct sim *sim);
/* Accepts what sim_setup() left half-made. STATUS_IO: a journal could not be written whole. */
enum status sim_teardown(struct sim *sim);

/* replica_host.c: events to a replica's core, and its commands */
void replica_host_init(struct sim_replica *replica);
void replica_deliver(struct sim_replica *replica, struct replica_event *event);
void replica_copy_ended(struct sim_replica *replica, uint32_t generation);
/* The node has it in host memory, found at `tier`. */
void replica_load_ready(struct sim *sim, uint32_t load, uint16_t tier);
void replica_load_lost(struct sim *sim, uint32_t load);
/* A fetch for the node has begun, or the store has given all of it: loads that wait for it know. */
void replica_loads_fetching(struct sim *sim, uint32_t node, adapter_id adapter, bool given);
void replica_load_due(struct sim *sim, uint32_t load, uint64_t ordinal);

/* replicas.c: how they come and go */
void replicas_announce(struct sim *sim);
/* Opens the journal of this stay, where journals are written. */
enum status replica_record(struct sim_replica *replica);
void replica_start(struct sim *sim, const struct fleet_command *command);
void replica_drain(struct sim *sim, const struct fleet_command *command);
/* The replica's core has said so. */
void replica_drained(struct sim_replica *replica);
/* What was asked of it is done: it is up, or gone. */
void replica_due(struct sim *sim, uint32_t index, uint64_t command);
/* The end of the run: what those that are up held until now. */
void replicas_finish(struct sim *sim, int64_t measured_until_ns);
/* merge.c: replicas of an adapter's own */
struct merge_steps merge_steps_of(const struct scenario *scenario, uint32_t pool);
/* Tells the fleet from what traffic on they pay; those of the pool have the indexes from `first` on. */
void merge_announce(struct sim *sim, uint32_t pool, uint32_t first);
/* What a start takes beside the base: the adapter comes from the store, and is merged. */
double merge_start_s(const struct sim_replica *replica);
static inline bool replica_is_merged(const struct sim_replica *replica) { return !adapter_is_base(replica->merged_for); }
static inline replica_id replica_id_of(const struct sim_replica *replica)
{
    return replica_id_make(replica->generation, replica->index);
}

/* serving_books.c: what replicas cost whose GPUs are not those of jobs; nothing where no price is known */
void serving_books_open(struct sim *sim);   /* before the first replica is up */
void serving_books_free(struct sim *sim);   /* accepts a sim without */
void serving_books_held(struct sim_replica *replica); /* its GPUs are its own from now on: it starts */
void serving_books_up(struct sim_replica *replica);
void serving_books_gone(struct sim_replica *replica);
void serving_books_close(struct sim *sim);  /* once, at the end, into the facts */

/* replica_run.c: the engine that the simulator pretends to be */
void run_begin(struct sim_replica *replica, const struct replica_command *command);
void run_ended(struct sim_replica *replica, uint32_t generation);
/* Ends what was done by now, and lets the step in flight end alone: before any other event reaches the core. */
void run_settle(struct sim_replica *replica);
/* Totals as single steps would have them now, whatever is folded. */
struct replica_totals run_totals(struct sim_replica *replica);
/* Busy time in the measured window until now, the step in flight included. */
int64_t run_measured_busy_ns(const struct sim_replica *replica);
uint64_t run_kv_blocks(struct sim_replica *replica, const struct replica_state *state);

/* request.c: a request's life at the host, and where its time went */
void request_admitted(struct sim_replica *replica, const struct step_row *row);
void request_prefilled(struct sim_replica *replica, const struct step_row *row, int64_t step_ns, int64_t now_ns);
void request_preempted(struct sim_replica *replica, const struct replica_command *command);
void request_done(struct sim_replica *replica, const struct replica_command *command);
void request_refused(struct sim_replica *replica, const struct replica_command *command);
/* The request leaves the system. */
void request_leave(struct sim *sim, uint32_t slot, enum request_status status, uint8_t reason, uint8_t tier,
                 uint32_t recomputed_tokens);
void request_arrive(struct sim *sim);
void request_timeout(struct sim *sim, uint32_t slot, uint64_t ordinal);
void arrival_arm(struct sim *sim);
/* Versions that nobody will ask for again leave every core. */
void adapters_retire(struct sim *sim);

/* node_host.c */
void node_host_init(struct sim_node *node);
void node_deliver(struct sim_node *node, struct node_event *event);
void node_store_ended(struct sim_node *node, uint32_t generation);
void node_fetch_due(struct sim *sim, uint32_t fetch, uint64_t ordinal);

/* fleet_host.c */
void fleet_host_init(struct sim *sim);
void fleet_deliver(struct sim *sim, struct fleet_event *event);
void fleet_residency(struct sim *sim, uint32_t replica, uint32_t node, adapter_id adapter, enum tier tier, bool present);
void fleet_reports(struct sim *sim);

/* Of jobs_publish.c and jobs_books.c, for those who know nothing of jobs. */
bool base_is_drained(const struct sim *sim, uint32_t base); /* its pools take no more requests */
/* An adapter came to, or left, a node's memory. */
void host_memory_changed(struct sim *sim, adapter_id adapter, uint64_t bytes, bool comes);

/* sample.c */
void sim_sample(struct sim *sim);
/* Its last sample before it goes. */
void sim_sample_replica(struct sim_replica *replica);

#endif
