/* Jobs at the host: what a placed job does on its GPUs, how bases get there, and how GPUs come and go. Physics only: who
 * runs where is the fleet core's. */
#ifndef ENGINE_JOBS_H
#define ENGINE_JOBS_H

#include <stdlib.h>

#include "engine/internal.h"
#include "engine/storage.h"
#include "results/jobs.h"
#include "scenario/memory.h"
#include "spot.h"
#include "workload/jobs.h"

enum sim_job_state {
    SIM_JOB_FREE,
    SIM_JOB_QUEUED,        /* the core's: pending, or waiting for its base */
    SIM_JOB_STARTING,
    SIM_JOB_COMPUTING,
    SIM_JOB_CHECKPOINTING,
    SIM_JOB_LEAVING        /* stopped while starting: tells so at once */
};

struct sim_job {
    struct job_arrival arrival;
    struct job_row row;           /* what will be written; ordinal and facts are filled at submission */
    job_id id;
    uint64_t place_command;       /* to be answered; 0: none */
    uint64_t stop_command;
    int64_t size_ns;              /* alone on its GPUs */
    int64_t used_ns;              /* interactive: of that, somebody works; otherwise all of it */
    int64_t fail_at_ns;           /* it fails when it has done so much; NEVER_NS */
    int64_t done_ns;              /* as of progress_at_ns */
    int64_t durable_ns;
    int64_t progress_at_ns;
    int64_t claimed_at_ns;
    int64_t started_at_ns;        /* of this stay; -1 */
    int64_t checkpoint_at_ns;     /* the next one */
    int64_t stop_by_ns;
    uint64_t checkpoint_bytes;
    uint32_t rate_milli;          /* of one alone; 0: it does not compute */
    uint32_t generation;          /* of its queue entry */
    uint16_t node;
    uint16_t gpu_mask;
    uint16_t slice;
    uint8_t state;                /* enum sim_job_state */
    bool stopping;                /* leaves with its next checkpoint */
    bool doomed;                  /* no time for one: goes with its GPUs */
    bool idle;                    /* interactive: nobody uses it any more; it holds its GPUs and computes nothing */
    bool follows;                 /* an evaluation of a training that ended */
    bool stored;                  /* a checkpoint of it is kept */
    uint32_t renews;              /* the adapter, by index, that it retrains for another base; 0: none */
};

/* What each job draws, by number: no choice moves another. */
enum job_luck_purpose { JOB_LUCK_IDLE = 1, JOB_LUCK_FAIL, JOB_LUCK_FAIL_AT, JOB_LUCK_GATE, JOB_LUCK_REPUBLISH,
                        JOB_LUCK_UPGRADE /* by adapter, not by job */ };

/* An adapter that joined the catalogue. */
struct sim_joined {
    uint32_t before;              /* the index of its tenant's one before; 0: none */
    uint16_t kind;
};

struct sim_publish {
    uint32_t first_index;         /* of those that join */
    uint32_t *latest;             /* [tenants]: the index of its last that joined; 0: none */
    struct sim_joined *joined;    /* by index less first_index */
    uint32_t drained_base;        /* not served any more; NONE_INDEX: none */
};

#define GPU_JOBS_MAX 8
struct sim_gpu {
    uint32_t jobs[GPU_JOBS_MAX];  /* slots, of those placed here */
    uint32_t jobs_count;
    uint32_t computing;
};

/* A node of GPUs for jobs. */
#define PAGE_CACHE_BASES 16
struct sim_host_node {
    struct link disk;
    struct link store;
    struct link_flow *flows;      /* two arrays in one */
    uint32_t disk_generation;
    uint32_t store_generation;
    uint32_t fault_generation;
    uint16_t flavor;
    uint16_t gpu_mask;
    bool up;
    bool noticed;
    uint8_t fault_phase;          /* of the entry that is armed */
    uint32_t turn;                /* how often it came up: names its luck */
    uint16_t cached[PAGE_CACHE_BASES]; /* bases in host memory, the most recently read first */
    uint32_t cached_count;
    uint64_t on_disk;             /* bits by base: fetched from the store before */
    struct sim_gpu gpus[16];
};

/* A base on its way to GPUs, or there. */
struct sim_base {
    struct residency_row row;
    uint64_t command;             /* the BASE_LOAD; 0: answered */
    uint64_t bytes;               /* of all its GPUs */
    uint64_t ordinal;
    bool active;
};

struct sim_flavor {
    int64_t at_ns;                /* integrals are up to here */
    uint128 gpu_ns;               /* 64 bits hold 292 GPU-years */
    uint128 claimed_gpu_ns;
    uint128 computing_gpu_ns;
    uint128 sampled_gpu_ns;
    uint128 sampled_claimed_ns;
    uint128 sampled_computing_ns;
    uint32_t gpus;
    uint32_t claimed;
    uint32_t computing;
};

struct sim_jobs {
    struct job_source *source;
    struct slots slots;
    struct sim_job *jobs;         /* [jobs_max] */
    uint32_t jobs_max;
    uint64_t jobs_total;
    uint64_t in_system;
    uint64_t pending_gpus;        /* asked for by jobs that are queued */
    struct sim_host_node *nodes;  /* [nodes_count] */
    uint32_t nodes_count;
    struct sim_base *bases;       /* [bases_max] loads and holdings */
    uint32_t bases_max;
    struct slots base_slots;
    uint64_t loads_total;
    uint64_t base_bytes[POOLS_MAX + JOB_KINDS_MAX];    /* on each GPU, by base */
    uint64_t weights_bytes[POOLS_MAX + JOB_KINDS_MAX]; /* of one copy */
    struct spot_trace *spots[CAPACITY_MAX];            /* NULL: none */
    struct spot_step spot_next[CAPACITY_MAX];
    int64_t spot_offset_ns[CAPACITY_MAX];              /* of the trace's present repetition */
    struct sim_flavor flavors[CAPACITY_MAX];
    struct jobs_facts facts;
    struct storage storage;       /* by tenant */
    struct sim_publish publish;
    int64_t *cost_nano;           /* [tenants + 1][CHARGE_COUNT] */
    uint32_t tenants;             /* of jobs and of requests: the same customers */
    int64_t arrival_at_ns;
    uint32_t arrival_generation;
    int64_t eta_milli[SHARERS_MAX + 1];
};

/* jobs_setup.c */
/* Fills the jobs part of the fleet's configuration; before the fleet is made. */
enum status jobs_open(struct sim *sim, struct jobs_config *ret_config);
/* Tells the core of tenants, bases and GPUs; after. */
void jobs_announce(struct sim *sim);
void jobs_close(struct sim *sim);

/* jobs_arrivals.c */
void jobs_arrive(struct sim *sim);
void jobs_arm_arrival(struct sim *sim);
/* renews: see struct sim_job. */
void job_submit(struct sim *sim, const struct job_arrival *arrival, bool follows, uint32_t renews);
double job_luck(const struct sim *sim, uint64_t ordinal, enum job_luck_purpose purpose);

/* jobs_host.c: the core's commands, and what the queue brings */
void jobs_perform(struct sim *sim, const struct fleet_command *command);
void jobs_due(struct sim *sim, uint32_t slot, uint32_t generation);
bool jobs_pending(const struct sim *sim); /* the run is not over for their sake */
void jobs_finish(struct sim *sim);        /* rows of what is unfinished, and the books */
/* The job's GPUs are gone under it. */
void job_lost(struct sim *sim, uint32_t slot);
void jobs_deliver(struct sim *sim, struct fleet_event *event);
/* What is to be said of the job, with its progress so far. */
struct fleet_event job_event(const struct sim_job *job, enum fleet_event_kind kind, uint64_t answers);

/* jobs_books.c */
/* Integrals up to now; around whatever changes them. */
void jobs_account(struct sim *sim);
void jobs_sample(struct sim *sim);
void jobs_close_books(struct sim *sim);   /* once, at the end: the bill, and the facts of the whole run */

/* jobs_publish.c */
void publish_open(struct sim *sim);
void publish_close(struct sim_publish *publish); /* accepts {0} */
/* At time 0, when everybody is announced. */
void publish_begin(struct sim *sim);
/* The job's adapter passed the gate. */
void job_publish(struct sim *sim, const struct sim_job *job);
/* Its adapter is its tenant's from now on, and stored; nobody asks for it. */
void job_deliver_adapter(struct sim *sim, const struct sim_job *job);
void upgrade_due(struct sim *sim, uint32_t step);

/* jobs_bases.c */
void base_begin(struct sim *sim, const struct fleet_command *command);
void base_drop(struct sim *sim, const struct fleet_command *command);
void base_due(struct sim *sim, uint32_t base, uint64_t ordinal);
void base_link_ended(struct sim *sim, uint32_t node, bool store, uint32_t generation);
void base_fail_on(struct sim *sim, uint32_t node);
void base_finish(struct sim *sim);        /* rows of what is still there */

/* jobs_faults.c */
void faults_begin(struct sim *sim);
void fault_due(struct sim *sim, uint32_t node, uint32_t generation);
void spot_due(struct sim *sim, uint32_t flavor);
enum status spots_open(struct sim *sim);

#endif
