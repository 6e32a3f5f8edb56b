/* What the fleet core keeps. Only the files of this folder include it: fleet.c (steps), rate.c (how hot an adapter is),
 * residency.c (who holds it), check.c (invariants and digest). */
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
    uint64_t losses_seen;  /* its GPU bits are rid of the replicas lost up to then */
    uint32_t version;      /* whose residency is tracked */
    uint32_t hosts_count;  /* bits set in its line of host_nodes */
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
    uint32_t replica;
    uint32_t prev; /* the replica's requests, a list of slots, so that its loss frees them without a search */
    uint32_t next;
};

/* What the core knows of a replica beyond what policies see. */
struct fleet_member {
    uint64_t lost_at;       /* `losses` when it last went down; 0: never */
    uint32_t request_first; /* slot, NONE_INDEX when it has none */
    bool known;             /* it was up once: `generation` is its last */
};

struct fleet {
    struct fleet_config config;
    int64_t at_ns;
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
};

/* rate.c */
#define RATE_ONE (UINT64_C(1) << 20)
/* Epochs in a half-life. */
#define RATE_EPOCHS 64
void rate_clock(struct fleet *fleet, int64_t at_ns);
uint64_t rate_now(const struct rate *rate, uint64_t epoch);
void rate_add_one(struct rate *rate, uint64_t epoch);
/* Counts a request of the adapter and of its pool, and moves the number of homes if that crossed a line. */
void rate_heat(struct fleet *fleet, struct fleet_adapter *adapter, struct fleet_pool *pool);

/* residency.c */
void residency_step(struct fleet *fleet, const struct fleet_event *event);
void residency_retire(struct fleet *fleet, adapter_id adapter);
/* NULL where nothing is known of this version. Valid until the next call. */
const uint64_t *residency_gpu_bits(struct fleet *fleet, adapter_id adapter);
const uint64_t *residency_host_bits(struct fleet *fleet, adapter_id adapter);

/* A report may be of an incarnation that is gone by now; such words are late, not wrong. */
static inline bool replica_is_live(const struct fleet *fleet, replica_id id)
{
    uint32_t index = replica_index(id);

    check(index < fleet->config.replicas_max);
    return fleet->replicas[index].up && fleet->replicas[index].generation == id.value >> 16;
}

#endif
