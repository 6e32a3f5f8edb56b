/* A small, honest host for one replica core. It keeps its own record of what each request needs, of what lies in each GPU
 * slot and of what is in flight, answers each RUN and LOAD exactly once, and compares every command with that record:
 * a core that cheats fails here, whatever the test is about. */
#ifndef TESTS_SHARED_REPLICA_RIG_H
#define TESTS_SHARED_REPLICA_RIG_H

#include "replica/replica.h"
#include "support.h"

enum { RIG_REQUESTS = 1024, RIG_SLOTS = 128, RIG_LOG = 8192 };

struct rig_request {
    bool live;
    request_id id;
    adapter_id adapter;
    uint32_t tenant;
    uint32_t prompt;
    uint32_t output_max;
    uint32_t truth;     /* it really ends after this many tokens, or is cancelled before */
    uint32_t target;    /* prefill of its current stay among the rows */
    uint32_t context;
    uint32_t generated;
    uint32_t most_context;
    uint32_t recomputed;
    uint32_t younger_first; /* younger requests admitted while it waited */
    int64_t compute_ns;
    bool running;
    bool cancelled;
    bool admitted_before;
};

struct rig_slot {
    enum { SLOT_EMPTY, SLOT_LOADING, SLOT_READY } state;
    adapter_id adapter;
    uint64_t bytes;
    uint64_t load_id;
};

/* What was said, but for RUN and the ids: kind, reason, whom it is about, when. */
struct rig_line {
    enum replica_command_kind kind;
    uint32_t reason;
    uint64_t subject; /* request ordinal, or adapter index */
    int64_t at_ns;
    struct replica_command command;
};

struct rig {
    struct replica_config config;
    struct replica *replica;
    void *memory;
    const char *label; /* printed with a failure */
    uint64_t seed;
    bool checks; /* replica_check() after each step */
    int64_t at_ns;
    uint64_t ordinal;
    struct rig_request requests[RIG_REQUESTS];
    struct rig_slot slots[RIG_SLOTS];
    struct step_row plan[RIG_REQUESTS]; /* copy of the plan in flight */
    uint32_t plan_count;
    uint64_t run_id;
    uint64_t run_step;
    uint32_t run_steps_max;
    uint32_t loads;
    uint32_t live;
    uint64_t steps;
    bool touched; /* the core was told something since the last RUN */
    bool drained;
    struct replica_commands out; /* of the last step */
    struct rig_line log[RIG_LOG];
    uint32_t log_count; /* beyond RIG_LOG they are counted only */
    uint64_t admitted[RIG_LOG]; /* ordinals, in order */
    uint32_t admitted_count;
    uint64_t counts[REPLICA_COMMAND_COUNT];
    uint64_t refused[REFUSE_COUNT]; /* by reason */
    uint64_t told; /* events so far */
};

/* Wide limits: nothing binds unless a test says so. */
struct replica_config rig_config(void);
struct rig *rig_new(const struct replica_config *config);
void rig_free(struct rig *rig);

void rig_know(struct rig *rig, uint32_t index, uint32_t version, uint64_t bytes);
/* Answers the request's slot in the host's table. `truth` <= output_max. Its adapter has version 1. */
uint32_t rig_request(struct rig *rig, uint32_t adapter, uint32_t tenant, uint32_t prompt, uint32_t output_max,
                     uint32_t truth);
uint32_t rig_request_version(struct rig *rig, adapter_id adapter, uint32_t tenant, uint32_t prompt, uint32_t output_max,
                             uint32_t truth);
/* The most steps the run in flight may take before a sequence really ends; 0 when none is in flight. */
uint32_t rig_steps_most(const struct rig *rig);
/* Says which sequences end, then STEP_DONE. */
void rig_step_done(struct rig *rig, uint32_t steps, int64_t busy_ns);
void rig_load_done(struct rig *rig, uint32_t gpu_slot, bool arrived, enum tier tier);
void rig_loads_done(struct rig *rig, enum tier tier); /* all in flight, in order of slot */
void rig_cancel(struct rig *rig, uint32_t slot);
void rig_retire(struct rig *rig, adapter_id adapter);
void rig_drain(struct rig *rig);
void rig_tick(struct rig *rig);
/* One step and every load at a time, until nothing is live. */
void rig_finish(struct rig *rig);
/* The log as text, "done 3 refuse 4 ", only these kinds; for known answers. */
void rig_expect(const struct rig *rig, enum replica_command_kind kind, const char *expected);
void rig_expect_admitted(const struct rig *rig, const char *expected);
const struct rig_line *rig_last(const struct rig *rig, enum replica_command_kind kind);

#endif
