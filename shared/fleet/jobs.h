/* Jobs on shared GPUs: sized before they queue, placed where their base is, held to quotas, stopped for those who own the
 * capacity, and billed to the last unit. The part of the fleet core that schedules; it is stepped through the fleet's events
 * and speaks in the fleet's commands. Only fleet/ steps it; hosts may read its views.
 *
 * Promises (each a test; the numbers are those of notes on the field's schedulers):
 * I1 bytes and GPUs are never oversold, I2 a tenant is within nominal + borrowing, I3 what a tenant lends is within its
 * lending limit, I4 work within nominal quota is never reclaimed by another tenant, I5 reclaim never leaves its victim below
 * nominal, I6 and is not answered by a reclaim back, I7 a may preempt b only if a sorts before b, I8 victims are checked
 * again after the set was made minimal, I9 what they free is kept for the claimer until it starts or gives up, I10 gangs
 * are all or nothing and nobody is stopped unless the claimer then fits on real GPUs, I11 a job runs its minimum first,
 * I12 usage is the integral of what was held, I14 a pending job that fits free, unreserved capacity starts in the same
 * step. */
#ifndef FLEET_JOBS_H
#define FLEET_JOBS_H

#include "fleet/devices.h"
#include "fleet/event.h"
#include "fleet/ledger.h"
#include "fleet/quota.h"
#include "policy/policy.h"

struct jobs;

#define SHARERS_MAX 8

struct jobs_config {
    uint32_t jobs_max;              /* pending and running; 0: this fleet schedules no jobs */
    uint32_t tenants_max;
    uint32_t cohorts_max;
    uint32_t bases_max;
    uint32_t nodes_max;
    uint32_t holdings_max;          /* bases resident at once, on all nodes */
    uint32_t flavors_max;           /* <= 8 */
    uint32_t spot_flavors;          /* bits: flavors that can be taken back */
    uint32_t sharers_max;           /* jobs on one GPU (MPS, time-slice); <= SHARERS_MAX */
    uint32_t eta_milli[SHARERS_MAX + 1]; /* [k]: what k sharers do together, of one alone; eta[1] = 1000 */
    const struct order_policy *order;
    const struct place_policy *place;
    int64_t half_life_ns;           /* of usage in fair share */
    uint32_t usage_factor_milli;    /* price of borrowed time; 1000: no discount */
    uint32_t payback_milli;         /* a base is loaded when queued GPU time for it is so much of its load time; 1000 */
    int64_t preempt_delay_ns;       /* a claimer has waited so long before anyone is stopped for it */
    uint32_t victims_max;           /* stopped for one claimer; <= 64 */
    uint32_t serve_max;             /* replicas on these GPUs (the shared pool), by replica index; 0: GPUs are for jobs alone */
    uint32_t serve_flavors;         /* bits: flavors that replicas may stand on */
    uint32_t reservations_max;      /* gangs that hold a place for the future while others backfill; 0: none */
};

/* What a host may ask about a job it knows. */
struct job_view {
    job_id id;
    enum job_state state;
    enum job_wait wait;             /* PENDING, BASE_WAIT */
    uint32_t reserved_for;          /* JOB_WAIT_RESERVED: slot of the job that the GPUs are kept for; NONE_INDEX */
    int64_t submitted_at_ns;
    int64_t deadline_at_ns;         /* NEVER_NS: none; reported, it changes no order */
    int64_t remaining_ns;           /* GPU time alone, from the last durable point */
    uint32_t attempt;               /* how often it was placed */
    bool claims;                    /* PENDING: others are being stopped for it */
    uint32_t tenant;
    uint16_t flavor;
    bool borrowed;
};
struct jobs_totals {
    uint64_t submitted, refused, started, succeeded, failed, cancelled, lost;
    uint64_t reclaims, preempts, notices, serving_stops; /* JOB_STOPs said */
    uint64_t claims_failed;         /* jobs were stopped for one that then could not start: a GPU was lost, a limit changed */
    uint64_t base_loads, base_drops, base_hits; /* placements that found their base there */
    uint64_t pending, running;
};

size_t jobs_bytes(const struct jobs_config *config);
struct jobs *jobs_create(void *memory, size_t memory_bytes, const struct jobs_config *config);
/* commands_said: the fleet's count, from which ids are made. */
void jobs_step(struct jobs *jobs, const struct fleet_event *event, uint64_t *commands_said, struct fleet_commands *out);
int64_t jobs_wakeup_at_ns(const struct jobs *jobs);
void jobs_check(const struct jobs *jobs);
uint64_t jobs_digest(const struct jobs *jobs);

/* Replicas of the shared pool, for scale.c. Each is a claim on whole GPUs that nobody takes back; it belongs to the platform,
 * asks no quota and goes before all jobs. What they say is in `out`: REPLICA_START when its GPUs are its own and its base is
 * there, JOB_STOP for those that must leave first, REPLICA_DRAIN. */
struct serve_ask {
    replica_id replica;
    base_id base;                   /* known, and laid out over `gpus` GPUs */
    uint16_t gpus;
    uint64_t bytes;                 /* on each, beside the base */
};
void jobs_serve_begin(struct jobs *jobs, int64_t at_ns, const struct serve_ask *ask, uint64_t *said, struct fleet_commands *out);
/* While restoring: it stands on these GPUs. */
void jobs_serve_found(struct jobs *jobs, int64_t at_ns, const struct serve_ask *ask, uint16_t node, uint16_t gpu_mask,
                      enum replica_found found);
/* No longer wanted, and not yet started. */
void jobs_serve_withdraw(struct jobs *jobs, int64_t at_ns, uint32_t index, uint64_t *said, struct fleet_commands *out);
void jobs_serve_up(struct jobs *jobs, int64_t at_ns, uint32_t index, uint64_t *said, struct fleet_commands *out);
void jobs_serve_drain(struct jobs *jobs, int64_t at_ns, uint32_t index, uint64_t *said, struct fleet_commands *out);
/* Drained, lost or never come: its GPUs are free. */
void jobs_serve_gone(struct jobs *jobs, int64_t at_ns, uint32_t index, uint64_t *said, struct fleet_commands *out);

/* state JOB_FREE: not known. */
struct job_view jobs_view(const struct jobs *jobs, job_id job);
/* The sentence of a code. */
const char *job_wait_text(enum job_wait wait);
struct jobs_totals jobs_totals(const struct jobs *jobs);
/* A charge of the host's own, such as storage, after the last event: it is no decision, and no part of the digest's history. */
void jobs_book(struct jobs *jobs, uint32_t account, enum charge_component component, int64_t amount_nano);
/* Closes the books at at_ns (>= every event's): read accounts after it. */
const struct ledger *jobs_settle(struct jobs *jobs, int64_t at_ns);
const struct devices *jobs_devices(const struct jobs *jobs);
const struct quota *jobs_quota(const struct jobs *jobs);

#endif
