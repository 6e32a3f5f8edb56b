/* The fleet core: which replica serves a request. It hears residency and load from the replicas and never guesses them:
 * `outstanding` is its own count, the rest is as reported. (Jobs, quotas and money join it later.) */
#ifndef FLEET_FLEET_H
#define FLEET_FLEET_H

#include "fleet/event.h"
#include "fleet/jobs.h"
#include "policy/policy.h"

struct fleet;

struct fleet_config {
    uint64_t salt;
    uint32_t replicas_max;     /* <= 1024 */
    uint32_t nodes_max;
    uint32_t bases_max;
    uint32_t adapters_max;     /* adapter indexes are below or equal to it; one live version of each is tracked */
    uint32_t requests_max;     /* outstanding */
    const struct route_policy *route;
    uint32_t bound_milli;      /* see fleet/view.h; >= 1000, so that a pool always has a replica that is not busy */
    uint32_t bound_add;
    /* Hot adapters (affinity): an adapter gets a k-th home while its share of the pool's recent requests exceeds
     * (k - 1) * hot_share_milli / 1000 of one replica's fair share; it loses it again below cool_milli of that line.
     * A share of fewer than 16 recent requests a home is noise and gains nothing. */
    uint32_t hot_share_milli;  /* 500 */
    uint32_t cool_milli;       /* 750: the hysteresis */
    int64_t rate_half_life_ns; /* of the request counters behind it, and of the token counters behind MERGE; 60 s */
    const struct scale_policy *scale; /* NULL: nothing scales here (no SCALE event comes) */
    struct jobs_config jobs;   /* jobs_max 0: none are scheduled */
};

/* After a restart. RESTORE is the first event. Then, in this order: COHORT, TENANT, TENANT_USAGE; BASE_KNOWN; GPUS_UP; SCALE, MERGE;
 * BASE_FOUND; JOB, and after it JOB_KEPT and JOB_FOUND if there is something to tell; REPLICA_UP of those found (of a SHARED one with
 * gpu_mask and bytes), REPLICA_DOWN of a generation that was given to one that is gone; REPLICA_STATE, RESIDENCY; MEMORY_FOUND;
 * GPUS_NOTICE; RESTORE_DONE. Nothing is said, and no wake-up asked for, before that; ticks are dropped; everything else that happens
 * meanwhile, requests, cancellations and losses too, the host keeps and tells afterwards (checked). An attempt or a replica that the
 * host does not find is not told: its job is pending. What is found where there is no room for it (JOB_STRAY) is told to stop. */
size_t fleet_bytes(const struct fleet_config *config);
struct fleet *fleet_create(void *memory, size_t memory_bytes, const struct fleet_config *config);
void fleet_step(struct fleet *fleet, const struct fleet_event *event, struct fleet_commands *out);
int64_t fleet_wakeup_at_ns(const struct fleet *fleet);
void fleet_check(const struct fleet *fleet);
uint64_t fleet_digest(const struct fleet *fleet);
/* Tells the state as it is, RESTORE to RESTORE_DONE, in events of the last event's instant (seq and answers 0), such that a fresh core of
 * the same configuration that is told them tells the same. For the beginning of a journal's segment. What is of the moment is not told:
 * see the counts. */
typedef void fleet_export_sink(void *context, const struct fleet_event *event);
struct fleet_exported {
    uint32_t events;
    uint32_t requests; /* outstanding: whoever waits for them must ask again */
    uint32_t plans;    /* jobs and replicas that others are being stopped for, or that GPUs are kept for: they are pending, and plan anew */
};
struct fleet_exported fleet_export(struct fleet *fleet, fleet_export_sink *sink, void *context);
/* NULL when none are scheduled. */
struct jobs *fleet_jobs(struct fleet *fleet);
/* How many replicas of a base there are, in each state; all 0 for one that does not scale. */
struct scale_counts {
    uint32_t waiting;  /* SHARED: for GPUs, or for the base to come */
    uint32_t starting;
    uint32_t up;
    uint32_t draining;
};
struct scale_counts fleet_scale_counts(const struct fleet *fleet, base_id base);
uint32_t fleet_outstanding(const struct fleet *fleet, replica_id replica);
/* Output tokens a second of an adapter's requests that are done, decayed with rate_half_life_ns, in thousandths. */
uint64_t fleet_tokens_milli(const struct fleet *fleet, adapter_id adapter);
/* The replica that is up and merged for this version of the adapter; false: none. */
bool fleet_merged(const struct fleet *fleet, adapter_id adapter, replica_id *ret_replica);

#endif
