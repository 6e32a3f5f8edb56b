/* The replica core's state, shared by its files and shown to nobody else. Who does what:
 *   replica.c   configuration, events, the order of decisions in a step
 *   queue.c     waiting requests in classes, the barrier that passes_max raises
 *   fairness.c  virtual token counters
 *   adapters.c  known adapters, GPU slots, loads
 *   scan.c      who is admitted, what is loaded, who is passed over
 *   batch.c     rows, plans, what a finished step changes
 *   kv.c        blocks: admission's need, growth, preemption, how far a plan can be repeated
 *   check.c     every invariant; the digest
 *
 * Conventions on tokens. `context` counts the tokens in KV. A prefill runs from context 0 to the row's target and its
 * last chunk produces a token, so after a first prefill context = prompt and generated = 1; each decode step adds one
 * to both. The token produced last is not in KV yet: a decoding row has context = prompt + generated - 1. After a
 * preemption the target is prompt + generated, so the token produced last is prefilled with the rest.
 *
 * Conventions on blocks. While a run is in flight every row holds ceil((max(context, target) + 1) / block_tokens)
 * blocks: room for the step's own token, also when the step is the one that ends a prefill. */
#ifndef REPLICA_INTERNAL_H
#define REPLICA_INTERNAL_H

#include "base/hash.h"
#include "base/table.h"
#include "replica/replica.h"

#define NO_BARRIER UINT64_MAX
#define WEIGHT_MAX 1000000u /* counters stay below 2^64 for 2^44 tokens */

enum request_state {
    REQUEST_FREE,    /* the slot is the host's to name */
    REQUEST_WAITING, /* in its class's list */
    REQUEST_RUNNING, /* a row */
    REQUEST_ENDED    /* in the list of ends that have not been said */
};

/* Where the adapter was, while that is not settled: the values past enum tier. */
enum { TIER_UNSEEN = TIER_COUNT, TIER_AWAITED };

struct request {
    uint64_t id;
    uint32_t prev; /* in the class's list while WAITING; `next` also in the list of ends */
    uint32_t next;
    uint32_t adapter; /* record; NONE_INDEX: the base */
    uint32_t tenant;
    uint32_t prompt_tokens;
    uint32_t output_tokens_max;
    uint32_t generated_tokens;  /* a row's own count is newer while RUNNING */
    uint32_t end_tokens;        /* FINISHED was announced with this many */
    uint32_t lost_tokens;       /* the most that were in KV at a preemption */
    uint32_t recomputed_tokens; /* of the prefilled ones, those below lost_tokens */
    uint32_t passes;            /* since it began to wait; <= passes_max */
    uint16_t end_kind;          /* ENDED: REPLICA_COMMAND_DONE or _REFUSE */
    uint16_t end_reason;        /* enum sequence_end_reason or enum refuse_reason */
    uint8_t state;
    uint8_t tier;    /* enum tier, TIER_UNSEEN or TIER_AWAITED */
    uint8_t charged; /* its prompt is on its class's counter */
    uint8_t ending;  /* RUNNING: its end was announced, it leaves with the step in flight */
    uint8_t zero[4];
    int64_t compute_ns;
    int64_t slot_wait_ns;
    int64_t slot_wait_since_ns; /* NEVER_NS when no slot wait is open */
};

/* Requests that compete by one key: all of them (fcfs), or a tenant's (vtc). By id, the oldest first. */
struct class {
    uint64_t counter; /* virtual tokens served; stays 0 unless the policy counts service */
    uint32_t head;
    uint32_t tail;
    uint32_t count;
    uint32_t active_at; /* position in `active` while count > 0 */
};

enum adapter_state { ADAPTER_ABSENT, ADAPTER_LOADING, ADAPTER_READY };

struct adapter {
    adapter_id id;
    uint64_t bytes;
    uint64_t load_id; /* the LOAD in flight while LOADING */
    int64_t load_began_at_ns;
    uint64_t claimed_in; /* number of the scan in which a place under max_loras was kept for it */
    uint32_t entry;    /* cache entry = GPU slot, unless ABSENT */
    uint32_t rows;     /* rows that use it; equals its pins */
    uint32_t requests; /* waiting, running, or ended and not said: the record outlives them all */
    uint32_t next_free; /* record list, while not known */
    uint8_t state;
    uint8_t tier; /* where the last load found it */
    bool retired;
};

/* What a step touches for each row, and nothing else: a decode step's cost is this array and the plan. */
enum { ROW_MARK_NEW = 1, ROW_MARK_RECOMPUTE = 2, ROW_MARK_ENDING = 4 };
struct row {
    uint64_t id;
    int64_t compute_ns;
    uint32_t request;
    uint32_t class;
    uint32_t context;
    uint32_t target; /* context < target: it prefills */
    uint32_t generated;
    uint32_t output_max;
    uint32_t blocks; /* KV blocks held */
    uint16_t gpu_slot;
    uint16_t marks;
};
_Static_assert(sizeof(struct row) == 48, "rows stay small: every step walks them");

/* A class in the heap of a scan: its next request that was not looked at, under the key it competes with. */
struct scan_class {
    uint64_t key;
    uint64_t id;
    uint32_t request;
    uint32_t class;
};

struct replica {
    struct replica_config config;
    struct cache *cache;

    struct request *requests; /* [requests_max], by request_slot() */
    struct class *classes;    /* [classes_max] */
    uint32_t *active;         /* [classes_max]: classes with waiting requests, in no order that matters */
    struct scan_class *heap;  /* [classes_max] */
    uint32_t *held;           /* [requests_max]: held back by max_loras or slots in this scan */
    struct row *rows;         /* [rows_max], in order of admission */
    struct step_row *plan;    /* [rows_max], of the run in flight; same order as rows */
    struct adapter *adapters; /* [adapters_max] */
    uint32_t *slot_adapters;  /* [entries_max]: which record is in a GPU slot */
    struct table adapter_table;

    uint64_t kv_used;
    uint64_t kv_watermark;
    uint64_t barrier; /* the oldest waiting request with passes_max passes, or NO_BARRIER */
    uint64_t step;    /* engine steps done; the plan's first is the next number */
    uint64_t preemptions;
    uint64_t passes_most;
    uint64_t scans;
    uint64_t commands; /* ids of commands count from 1 */
    uint64_t said;     /* running hash of every command's body, RUN apart */
    uint64_t run_id;
    int64_t at_ns;
    uint32_t run_steps_max;
    uint32_t block_shift;
    uint32_t classes_max;
    uint32_t active_count;
    uint32_t last_class; /* the one that was last to run out of waiting requests; NONE_INDEX at first */
    uint32_t waiting_count;
    uint32_t barred_count; /* waiting requests with passes_max passes */
    uint32_t rows_count;
    uint32_t plan_count; /* 0 when no run is in flight */
    uint32_t distinct;   /* adapters with rows > 0 */
    uint32_t loads;      /* in flight */
    uint32_t adapters_known;
    uint32_t adapter_free;
    uint32_t ended_head; /* ends not said yet, in order */
    uint32_t ended_tail;
    bool run_prefills;    /* the plan in flight has a row that prefills or stands still */
    bool admission_due;   /* something changed that may let a request in */
    bool loads_due;       /* something changed that may let a load begin */
    bool admission_ended; /* the last scan stopped admitting before it had seen every waiting request */
    bool unsaid;          /* the step's commands were full: go on at the same instant */
    bool draining;
    bool drained;
};

static inline uint64_t blocks_for(const struct replica *replica, uint64_t tokens)
{
    return (tokens + replica->config.block_tokens - 1) >> replica->block_shift;
}

/* Only these may let a waiting request in or a load begin. Nothing that merely counts steps is among them, or a run
 * repeated k times would not equal k runs. */
static inline void note_change(struct replica *replica)
{
    replica->admission_due = true;
    replica->loads_due = true;
}

/* replica.c: a zeroed command with its head filled. One place is kept for RUN, so others ask say_room() first. */
struct replica_command *replica_say(struct replica *replica, struct replica_commands *out,
                            enum replica_command_kind kind, uint32_t reason);
static inline bool say_room(const struct replica_commands *out, uint32_t count)
{
    return out->count + count < COMMANDS_MAX;
}
/* The request is over: it leaves the table once its DONE or REFUSE is said. Not in a list or row any more. */
void request_end(struct replica *replica, uint32_t request, enum replica_command_kind kind, uint32_t reason);
/* Body of DONE and PREEMPT; a row's numbers must have been written back. */
void request_account(const struct request *request, struct replica_command *command);

/* queue.c */
void queue_insert(struct replica *replica, uint32_t request);
void queue_remove(struct replica *replica, uint32_t request);
/* The wait for a slot ended when the load began, which may have been for somebody else and before now. */
void slot_wait_end(const struct replica *replica, struct request *request);
/* Counts that a younger request went first; raises the barrier when that was the last time. */
void queue_pass(struct replica *replica, uint32_t request);

/* fairness.c */
uint32_t class_of(const struct replica *replica, uint32_t tenant);
uint64_t class_key(const struct replica *replica, uint32_t class);
void fairness_enter(struct replica *replica, uint32_t class);
void fairness_admit(struct replica *replica, struct request *request);

/* adapters.c */
uint32_t adapter_find(const struct replica *replica, adapter_id id);
void adapter_known(struct replica *replica, const struct replica_event *event);
void adapter_arrived(struct replica *replica, const struct replica_event *event, struct replica_commands *out);
void adapter_failed(struct replica *replica, const struct replica_event *event);
void adapter_retired(struct replica *replica, const struct replica_event *event, struct replica_commands *out);
/* One request less. Forgets a retired adapter with its last: up to one EVICT. */
void adapter_release(struct replica *replica, uint32_t adapter, struct replica_commands *out);
enum load_answer { LOAD_BEGUN, LOAD_NO_SLOT, LOAD_NO_LINK, LOAD_UNSAID };
enum load_answer adapter_load(struct replica *replica, uint32_t adapter, struct replica_commands *out);

/* scan.c. False: cut short because the commands are full. */
bool scan_waiting(struct replica *replica, bool may_admit, struct replica_commands *out);

/* batch.c */
void row_add(struct replica *replica, uint32_t request);
/* Writes the row's numbers back and gives up its blocks, its pin and its share of the adapter. */
void row_release(struct replica *replica, const struct row *row);
void row_cancel(struct replica *replica, uint32_t request);
void batch_finish(struct replica *replica, const struct replica_event *event);
void batch_run(struct replica *replica, struct replica_commands *out);

/* kv.c */
bool kv_admits(const struct replica *replica, const struct request *request);
/* Room for the next token of every decoding row, at the cost of the newest rows. False: cut short. */
bool kv_grow(struct replica *replica, struct replica_commands *out);
/* For a plan that only decodes: the most steps it can take, no more than `most`, before a row lacks a block. */
uint32_t kv_steps(const struct replica *replica, uint32_t most);

#endif
