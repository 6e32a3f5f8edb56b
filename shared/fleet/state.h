/* What the fleet core keeps. Only the files of this folder include it: fleet.c (steps), rate.c (how hot an adapter is),
 * residency.c (who holds it), found.c and export.c (what is there after a restart), scale.c (how many replicas), merge.c (who has one alone), check.c (invariants and digest). */
#ifndef FLEET_STATE_H
#define FLEET_STATE_H

#include "fleet/fleet.h"
#include "fleet/view.h"

#define FLEET_REPLICAS_MAX 1024

/* A count of events that forgets: half of it a half-life. */
struct rate {
    uint64_t value; /* events, RATE_ONE each when new */
    uint64_t epoch; /* up to which it has been decayed */
};

struct fleet_adapter {
    struct rate rate;
    struct rate tokens;    /* output tokens of its requests that are done, all versions together */
    uint64_t losses_seen;  /* its GPU bits are rid of the replicas lost up to then */
    uint32_t version;      /* whose residency is tracked */
    uint32_t hosts_count;  /* bits set in its line of host_nodes */
    uint32_t tokens_version; /* the newest that was counted */
    uint32_t merged;       /* the replica that is, or will be, merged for it; NONE_INDEX */
    uint16_t homes;        /* >= 1; may exceed a pool that shrank, the ask takes the smaller */
    bool tracked;          /* `version` means something */
};

/* The replicas that serve one base. */
struct fleet_pool {
    uint16_t *members; /* [replicas_max], ascending */
    uint32_t count;
    uint64_t ordinal;     /* requests routed here, ever */
    uint64_t outstanding; /* sum over the members */
    struct rate rate;     /* of its requests for adapters and for the base itself */
};

/* A slot of the host's table of requests; in flight iff `replica` is not NONE_INDEX. */
struct fleet_request {
    request_id id;
    adapter_id adapter;
    uint32_t replica;
    uint32_t prev; /* the replica's requests, a list of slots, so that its loss frees them without a search */
    uint32_t next;
};

/* What the core knows of a replica beyond what policies see. */
struct fleet_member {
    uint64_t lost_at;       /* `losses` when it last went down; 0: never */
    uint32_t request_first; /* slot, NONE_INDEX when it has none */
    uint32_t generation_next; /* of the next one that is asked for under this index */
    uint16_t scale_base;    /* whose index it is; NO_SCALE: nobody's */
    uint8_t scale_state;    /* enum scale_state */
    uint8_t merge_state;    /* enum merge_state */
    uint16_t merge_base;    /* whose index for merged replicas it is; NO_MERGE: nobody's */
    adapter_id merged_for;  /* {0, 0} while it is down */
    int64_t below_since_ns; /* its rate has been below the lower line since; NEVER_NS: it is not */
    bool known;             /* it was up once: `generation` is its last */
};

#define NO_SCALE UINT16_MAX
enum scale_state {
    SCALE_DOWN,
    SCALE_WAITING,  /* SHARED: for GPUs, or for the base to come */
    SCALE_STARTING,
    SCALE_UP,
    SCALE_DRAINING,
    SCALE_STATE_COUNT
};

/* A base whose replicas come and go. */
struct fleet_scale {
    uint64_t bytes;
    int64_t up_ns;
    int64_t down_ns;
    int64_t look_at_ns;      /* the next look at its load */
    int64_t looked_at_ns;    /* the last one; -1: none yet */
    int64_t area_at_ns;      /* `area` is up to here */
    int64_t above_since_ns;  /* the policy has wanted more since; NEVER_NS: it does not */
    int64_t below_since_ns;
    uint64_t area;           /* integral of the pool's outstanding since the last look, in request-nanoseconds */
    uint64_t mean_milli;     /* smoothed outstanding */
    uint32_t target_milli;
    uint32_t up_milli;
    uint32_t down_milli;
    uint32_t counts[SCALE_STATE_COUNT]; /* of its indexes, by state */
    uint16_t floor;
    uint16_t ceiling;
    uint16_t first;
    uint16_t indexes;        /* first .. first + indexes - 1 are its own */
    uint16_t tp;
    uint16_t flags;
    bool known;
};

#define NO_MERGE UINT16_MAX
enum merge_state {
    MERGE_DOWN,
    MERGE_STARTING, /* no longer wanted when its adapter does not name it: drained when it is up */
    MERGE_UP,
    MERGE_DRAINING,
    MERGE_STATE_COUNT
};

/* A base whose hot adapters get replicas of their own. */
struct fleet_merge {
    int64_t up_ns;
    int64_t down_ns;
    uint64_t break_even_milli;
    uint64_t up_line;         /* values of a rate of tokens */
    uint64_t down_line;
    uint32_t up_milli;
    uint32_t down_milli;
    uint32_t outstanding_max;
    uint16_t first;
    uint16_t indexes;         /* first .. first + indexes - 1 are its own */
    uint16_t count;           /* of these, that may be in use */
    uint16_t tp;
    bool known;
};

/* An adapter above the upper line that has no replica of its own (yet). */
struct fleet_watch {
    adapter_id adapter;
    int64_t above_since_ns;
    uint16_t base;
};
/* Above the line an adapter would fill a replica, so they are few; the coolest is forgotten for one that is hotter. */
#define WATCHES_MAX 64

struct fleet {
    struct fleet_config config;
    int64_t at_ns;
    bool restoring;         /* what is there is being told: nothing is said */
    uint64_t losses;        /* replicas gone down so far */
    uint64_t commands;      /* said so far; the id of the last */
    uint64_t history;       /* hash of all command bodies and residency changes */
    uint64_t epoch;         /* of the rates, at at_ns */
    int64_t epoch_until_ns; /* it is another from here on */
    int64_t epoch_ns;       /* its length */
    uint32_t replica_words; /* 64-bit words of a set of replicas */
    uint32_t node_words;

    struct fleet_replica *replicas; /* [replicas_max] */
    struct fleet_member *members;   /* [replicas_max] */
    struct fleet_pool *pools;       /* [bases_max] */
    struct fleet_adapter *adapters; /* [adapters_max + 1], by index */
    uint64_t *gpu_replicas;         /* [adapters_max + 1][replica_words] */
    uint64_t *host_nodes;           /* [adapters_max + 1][node_words] */
    uint64_t *node_replicas;        /* [nodes_max][replica_words]: which are up on it */
    uint64_t *host_scratch;         /* [replica_words] of the request being routed */
    struct fleet_request *requests; /* [requests_max], by slot */
    struct jobs *jobs;              /* NULL: none are scheduled */
    struct fleet_scale *scales;     /* [bases_max] */
    uint16_t *scaled;               /* [bases_max] the bases that scale, in the order they were told */
    uint32_t scaled_count;
    int64_t scale_at_ns;            /* the earliest look; NEVER_NS */
    struct fleet_merge *merges;     /* [bases_max] */
    uint16_t *merging;              /* [bases_max] the bases that merge, in the order they were told */
    uint32_t merging_count;
    uint32_t watches_count;
    struct fleet_watch watches[WATCHES_MAX]; /* no adapter twice */
    int64_t merge_look_ns;          /* between two looks */
    int64_t merge_at_ns;            /* the next look; NEVER_NS while nobody is watched or merged */
};

/* rate.c */
#define RATE_ONE (UINT64_C(1) << 20)
/* Epochs in a half-life. */
#define RATE_EPOCHS 64
void rate_clock(struct fleet *fleet, int64_t at_ns);
uint64_t rate_now(const struct rate *rate, uint64_t epoch);
void rate_add(struct rate *rate, uint64_t epoch, uint32_t count);
void rate_add_one(struct rate *rate, uint64_t epoch);
/* The value of a counter of a steady stream; and back, rounded down. */
uint64_t rate_of_stream(const struct fleet *fleet, uint64_t per_s_milli);
uint64_t rate_stream_milli(const struct fleet *fleet, uint64_t value);
/* Counts a request of the adapter and of its pool, and moves the number of homes if that crossed a line. */
void rate_heat(struct fleet *fleet, struct fleet_adapter *adapter, struct fleet_pool *pool);

/* residency.c */
void residency_step(struct fleet *fleet, const struct fleet_event *event);
void residency_retire(struct fleet *fleet, adapter_id adapter);
/* NULL where nothing is known of this version. Valid until the next call. */
const uint64_t *residency_gpu_bits(struct fleet *fleet, adapter_id adapter);
const uint64_t *residency_host_bits(struct fleet *fleet, adapter_id adapter);

/* fleet.c */
struct fleet_command *fleet_say(struct fleet *fleet, struct fleet_commands *out, enum fleet_command_kind kind);
void fleet_remember(struct fleet *fleet, const struct fleet_command *command);
/* No request is routed to it any more. */
void fleet_leave_pool(struct fleet *fleet, uint32_t replica);

/* found.c */
void found_begin(struct fleet *fleet, const struct fleet_event *event);
void found_replica(struct fleet *fleet, const struct fleet_event *event);
void found_end(struct fleet *fleet, const struct fleet_event *event, struct fleet_commands *out);
/* Whether such an event may come while restoring. */
bool found_takes(enum fleet_event_kind kind);
/* And at no other time. */
bool found_only(enum fleet_event_kind kind);

/* fleet.c, for a replica that is up */
void fleet_join(struct fleet *fleet, const struct fleet_event *event, bool merged);

/* scale.c */
void scale_event(struct fleet *fleet, const struct fleet_event *event);
void scale_tick(struct fleet *fleet, struct fleet_commands *out);
/* The pool's outstanding is about to change. */
void scale_note(struct fleet *fleet, uint32_t base);
void scale_replica_up(struct fleet *fleet, const struct fleet_event *event);
/* False: it was not up, its start has failed. */
bool scale_replica_down(struct fleet *fleet, const struct fleet_event *event);
/* While restoring: one of its own, in this state. */
void scale_replica_found(struct fleet *fleet, const struct fleet_event *event);
/* Commands `from` on were said by jobs: replicas of the shared pool start and drain by them. */
void scale_hear(struct fleet *fleet, const struct fleet_commands *out, uint32_t from);
bool scale_is_shared(const struct fleet *fleet, replica_id replica);
void scale_check(const struct fleet *fleet);
uint64_t scale_digest(const struct fleet *fleet, uint64_t digest);

/* merge.c */
void merge_event(struct fleet *fleet, const struct fleet_event *event);
void merge_tick(struct fleet *fleet, struct fleet_commands *out);
/* The replica of its own that takes this request; NONE_INDEX: the pool does. A newer version ends the older one's. */
uint32_t merge_route(struct fleet *fleet, adapter_id adapter, base_id base, struct fleet_commands *out);
/* A request of the adapter is done. */
void merge_count(struct fleet *fleet, adapter_id adapter, base_id base, uint32_t output_tokens);
/* True: it is merged, and stands in no pool. */
bool merge_replica_up(struct fleet *fleet, const struct fleet_event *event);
/* While restoring. True: it is merged, or will be. */
bool merge_replica_found(struct fleet *fleet, const struct fleet_event *event);
/* Drains it if nobody wants it any more. */
void merge_replica_settle(struct fleet *fleet, uint32_t replica, struct fleet_commands *out);
/* False: it was not up, its start has failed. */
bool merge_replica_down(struct fleet *fleet, const struct fleet_event *event);
void merge_retire(struct fleet *fleet, adapter_id adapter, struct fleet_commands *out);
/* The adapter's counter of tokens, now. */
uint64_t merge_heat(const struct fleet *fleet, uint32_t adapter);
/* The replica is merged, or will be, and its adapter still has it. */
bool merge_is_wanted(const struct fleet *fleet, uint32_t replica);
uint32_t merge_watch_of(const struct fleet *fleet, uint32_t adapter);
/* merge_check.c */
void merge_check(const struct fleet *fleet);
uint64_t merge_digest(const struct fleet *fleet, uint64_t digest);

/* A report may be of an incarnation that is gone by now; such words are late, not wrong. */
static inline bool replica_is_live(const struct fleet *fleet, replica_id id)
{
    uint32_t index = replica_index(id);

    check(index < fleet->config.replicas_max);
    return fleet->replicas[index].up && fleet->replicas[index].generation == id.value >> 16;
}

#endif
