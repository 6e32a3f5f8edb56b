/* What the job scheduler keeps. Only its own files include it: jobs.c (a job's life), pending.c (who waits, in what order),
 * cycle.c (who starts), reclaim.c (who is stopped for whom), reserve.c (gangs and backfill), jobs_check.c. */
#ifndef FLEET_JOBS_STATE_H
#define FLEET_JOBS_STATE_H

#include "base/table.h"
#include "fleet/jobs.h"

#define FLAVORS_MAX 8
#define SCRATCH_JOBS 1024

struct job {
    job_id id;
    int64_t size_ns;
    int64_t remaining_ns;       /* of size_ns, beyond the last durable point */
    int64_t runtime_min_ns;
    int64_t submitted_at_ns;
    int64_t blocked_at_ns;      /* since when it is the one that its class waits with; NEVER_NS: it is not */
    int64_t placed_at_ns;       /* its claim began */
    int64_t started_at_ns;      /* NEVER_NS: not yet */
    int64_t entry_ns;           /* usage charged in advance */
    uint64_t bytes;
    uint64_t order_key;         /* in its class, under the policy */
    uint32_t tenant;
    uint32_t class;             /* pending class; NONE_INDEX: not pending */
    uint32_t left, right, parent; /* skew heap of its class; slots */
    uint32_t claimer;           /* for whom it is being stopped; NONE_INDEX */
    uint32_t victims_left;      /* of those stopped for it, how many have not yielded */
    uint32_t attempt;
    uint16_t base;
    uint16_t gpus;
    uint16_t rank;
    int16_t priority;
    uint16_t flags;
    uint16_t flavor;
    uint16_t quota_milli_per_gpu; /* taken */
    uint8_t stage;
    uint8_t isolation;
    uint8_t state;              /* enum job_state */
    uint8_t wait;               /* enum job_wait */
    uint8_t stop_reason;        /* enum job_stop_reason, while STOPPING */
    bool borrowed;
    bool cancelled;             /* ends when it has yielded */
    bool earmarked;             /* GPUs are kept for it */
    bool reserved;              /* of these, by a reservation */
    bool clear;                 /* memory is cleared before it starts */
    struct devices_place place; /* while claimed */
    uint32_t running_prev, running_next; /* list of jobs with a claim */
};

/* Pending jobs that ask for the same: if one does not fit, none does. */
struct pending_class {
    uint64_t bytes;
    uint64_t work_ns;           /* remaining GPU time queued */
    uint64_t blocked_cycle;     /* number of the last cycle in which its head did not fit */
    uint32_t tenant;
    uint32_t root;              /* slot of its first job; NONE_INDEX: empty */
    uint32_t count;
    uint32_t active_at;         /* index in `active`; NONE_INDEX */
    uint32_t next_free;
    uint32_t reserved;          /* its job that holds a reservation; NONE_INDEX */
    uint32_t collision;         /* how many keys were tried before this one */
    uint16_t base;
    uint16_t gpus;
    int16_t priority;
    uint16_t flags;
    uint8_t stage;
    uint8_t isolation;
    uint8_t octave;             /* of the remaining time */
    uint8_t wait;               /* enum job_wait of its head */
};

struct known_base {
    uint64_t bytes;
    int64_t load_ns;
    uint64_t work_ns;           /* queued for it */
    uint16_t gpus;
    bool known;
};

struct known_tenant {
    bool known;
    bool trusted;
};

struct jobs {
    struct jobs_config config;
    int64_t at_ns;
    int64_t wakeup_at_ns;
    uint64_t history;           /* hash of command bodies */
    uint64_t cycle;
    bool cycle_due;             /* a cycle was cut short by the limit of commands */
    bool leave_due;             /* so was telling jobs to leave GPUs that will be gone */
    struct jobs_totals totals;
    struct devices *devices;
    struct quota *quota;
    struct ledger *ledger;
    struct job *jobs;           /* [jobs_max] by slot */
    struct pending_class *classes; /* [jobs_max] */
    uint32_t class_free;
    struct table class_of;      /* key -> class */
    uint32_t *active;           /* [jobs_max] classes with jobs */
    uint32_t active_count;
    uint32_t *order;            /* [jobs_max] the cycle's heap of classes */
    uint32_t order_count;
    struct order_rank *ranks;   /* [jobs_max] of the classes in `order` */
    struct known_base *bases;
    struct known_tenant *tenants;
    int64_t *gone_at_ns;        /* [nodes_max] of the last notice */
    uint32_t running_head;      /* jobs with a claim, the most recently placed first */
    uint32_t claim_due;         /* a claimer whose victims have all left; NONE_INDEX */
    uint64_t bytes_largest;     /* of any GPU, slice and node that was ever there: what is gone may come back */
    uint64_t slice_largest;
    uint32_t gang_largest;
    uint32_t claims_open;       /* claimers that wait for victims to leave */
    uint32_t reservations;      /* held now */
    uint32_t *scratch_jobs;     /* [SCRATCH_JOBS] */
    struct fleet_commands *out; /* while stepping */
    uint64_t *said;
};

/* What a class is sorted by in a cycle. */
struct order_rank {
    uint64_t key;               /* of the policy */
    uint64_t head;              /* id of its first job */
    int32_t priority;
};

/* pending.c */
void pending_init(struct jobs *jobs);
void pending_insert(struct jobs *jobs, uint32_t slot);
void pending_remove(struct jobs *jobs, uint32_t slot);
/* Starts a cycle over all active classes, or over one. */
void pending_order(struct jobs *jobs, uint32_t only_class);
/* The first class; NONE_INDEX when all were taken. */
uint32_t pending_next(struct jobs *jobs);
/* The class has more to offer: back with its new rank. */
void pending_again(struct jobs *jobs, uint32_t class);
struct order_rank pending_rank(const struct jobs *jobs, uint32_t class);
bool rank_before(const struct order_rank *a, const struct order_rank *b);
void pending_check(const struct jobs *jobs);

/* cycle.c */
void cycle_run(struct jobs *jobs, uint32_t only_class);
/* Places this one if it fits, whatever its class's head is. */
bool cycle_place_one(struct jobs *jobs, uint32_t slot, struct devices_place *ret_place);
struct devices_ask ask_of(const struct jobs *jobs, const struct job *job);
/* Thousandths of a GPU, all GPUs together, that the job takes of its quota when placed so. */
int64_t quota_need_milli(const struct jobs *jobs, const struct job *job, const struct devices_place *place);
/* Puts it on `place`, which was just found. */
void job_take_place(struct jobs *jobs, uint32_t slot, const struct devices_place *place);

/* jobs.c */
bool has_room(const struct jobs *jobs, uint32_t commands);
struct fleet_command *say(struct jobs *jobs, enum fleet_command_kind kind, uint16_t reason);
void job_stop(struct jobs *jobs, uint32_t slot, enum job_stop_reason reason, int64_t by_ns);
void job_forget_claim(struct jobs *jobs, uint32_t slot);
void wake_by(struct jobs *jobs, int64_t at_ns);
int64_t job_end_estimate_ns(const struct jobs *jobs, const struct job *job);

/* reclaim.c: true when somebody is being stopped for it. */
bool reclaim_for(struct jobs *jobs, uint32_t slot);

/* reserve.c */
void reserve_for(struct jobs *jobs, uint32_t slot);
void reserve_forget(struct jobs *jobs, uint32_t slot);

#endif
