/* What a run leaves behind about jobs: rows of jobs, of placements, of what GPUs did over time, and the ledger. Streamed to
 * HDF5 like requests, and into a summary; see results/results.h, whose `struct results` they join. */
#ifndef RESULTS_JOBS_H
#define RESULTS_JOBS_H

#include "base/histogram.h"
#include "fleet/event.h"
#include "results/results.h"

#define JOB_OUTCOMES(X)                                                     \
    X(DONE, "done")                                                         \
    X(FAILED, "failed")         /* by itself */                             \
    X(CANCELLED, "cancelled")                                               \
    X(REFUSED, "refused")       /* can never run: reason */                 \
    X(OVERLOAD, "overload")     /* scheduler.jobs_max were there already */ \
    X(UNFINISHED, "unfinished") /* when the run ended */
enum job_outcome {
#define X(name, text) JOB_OUTCOME_##name,
    JOB_OUTCOMES(X)
#undef X
    JOB_OUTCOME_COUNT
};

struct job_row {
    uint64_t ordinal;
    int64_t submitted_ns;
    int64_t started_ns;         /* it computed first; -1: never */
    int64_t ended_ns;           /* -1: unfinished */
    int64_t deadline_ns;        /* an instant; 0: none */
    int64_t size_ns;            /* alone on its GPUs, without stops: what it would have taken */
    int64_t held_gpu_ns;        /* GPU time of its claims, all attempts */
    int64_t compute_gpu_ns;     /* of that, it computed */
    int64_t lost_gpu_ns;        /* of that, work that was done again */
    int64_t checkpoint_gpu_ns;  /* of held: writing checkpoints */
    int64_t load_gpu_ns;        /* of held: waiting for its base */
    uint64_t tokens;            /* all epochs; 0: unknown */
    uint64_t refuse_need;
    uint64_t refuse_have;
    uint32_t tenant;
    uint16_t kind;
    uint16_t base;
    uint16_t gpus;
    uint16_t rank;
    int16_t priority;
    uint8_t stage;              /* enum job_stage */
    uint8_t isolation;
    uint8_t outcome;            /* enum job_outcome */
    uint8_t reason;             /* enum job_refuse_reason */
    bool base_hit;              /* its first placement found its base */
    bool deadline_missed;       /* it has one, and was not done by then */
    bool follows;               /* the evaluation of a training that ended: counted apart */
    uint32_t attempts;
    uint32_t reclaims;          /* times it was stopped, by reason */
    uint32_t preempts;
    uint32_t notices;
    uint32_t serving_stops;
    uint32_t losses;            /* times its GPUs went from under it */
};

/* One stay on GPUs, from claim to release. */
enum placement_end { PLACEMENT_DONE, PLACEMENT_YIELDED, PLACEMENT_LOST, PLACEMENT_OPEN };
#define PLACEMENT_END_COUNT (PLACEMENT_OPEN + 1)
struct placement_row {
    uint64_t job;               /* ordinal */
    int64_t from_ns;
    int64_t started_ns;         /* -1: never computed */
    int64_t until_ns;           /* -1: open at the end */
    uint32_t tenant;
    uint32_t attempt;
    uint16_t node;
    uint16_t gpu_mask;
    uint16_t base;
    uint16_t flavor;
    uint16_t slice;             /* MIG: profile << 8 | first memory slice + 1; 0: none */
    uint8_t how;                /* enum placement_end */
    bool base_hit;
};

/* A base on GPUs, for the Gantt chart: what is resident where, when. */
struct residency_row {
    int64_t from_ns;            /* the load began */
    int64_t ready_ns;           /* -1: never came */
    int64_t until_ns;           /* -1: still there at the end */
    uint16_t node;
    uint16_t gpu_mask;
    uint16_t base;
    uint16_t source;            /* 0 page cache, 1 disk, 2 object store */
};

/* A flavor at an instant, and its integrals since the sample before. */
struct capacity_sample {
    int64_t at_ns;
    uint32_t flavor;
    uint32_t gpus;              /* up */
    uint32_t claimed;           /* with at least one claim */
    uint32_t pending;           /* jobs, of all flavors */
    uint32_t running;           /* claims, of all flavors */
    uint32_t pending_gpus;      /* what they ask for */
    float claimed_share;        /* of GPU time since the last sample: allocated */
    float computing_share;      /* a job computed */
};

/* Rows may only come when the scenario has jobs, and samples of a flavor follow each other in time. */
void results_job(struct results *results, const struct job_row *row);
void results_placement(struct results *results, const struct placement_row *row);
void results_residency(struct results *results, const struct residency_row *row);
void results_capacity(struct results *results, const struct capacity_sample *sample);

/* What only the engine knows; NULL in run_facts exactly when the scenario has no jobs. */
struct jobs_facts {
    uint32_t tenants_count;
    uint32_t flavors_count;
    const int64_t *cost_nano;   /* [tenants_count + 1][CHARGE_COUNT]: the last line is the platform */
    int64_t bill_nano;          /* the sum of all of them, exactly; what serving costs is among them */
    uint128 gpu_ns;             /* GPU time that was up, in all */
    uint128 claimed_gpu_ns;     /* of that, with a claim */
    uint128 computing_gpu_ns;   /* of that, computing */
    int64_t idle_adapter_nano_per_month; /* what one adapter that nobody uses costs: object store */
    int64_t idle_adapter_host_nano_per_month; /* and while host memory keeps it, too */
    uint64_t base_loads;
    uint64_t base_hits;
    uint64_t base_drops;
    uint64_t reclaims;          /* stops of jobs, by reason */
    uint64_t preempts;
    uint64_t notices;
    uint64_t serving_stops;
    uint64_t losses;
    /* Adapters that passed the gate; of them, joined, republished and upgraded are served, the others are not. */
    uint64_t published;
    uint64_t publish_blocked;   /* evaluated, and did not pass */
    uint64_t joined;            /* the serving catalogue, as new ones */
    uint64_t republished;       /* as a new version of an earlier one */
    uint64_t upgraded;          /* as a version for the new base */
    uint64_t publish_refused;   /* workload.adapters.publish_max had joined */
    uint64_t upgrade_adapters;  /* on the old base when the upgrade began */
    uint64_t upgrade_jobs;      /* queued for them */
    const char *notes;          /* of the job source; copied */
    const char *const *tenant_names; /* [tenants_count], entries may be NULL; NULL: none */
};

#endif
