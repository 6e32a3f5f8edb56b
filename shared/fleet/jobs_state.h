/* What the job scheduler keeps. Only its own files include it: jobs.c (a job's life), jobs_capacity.c (what it stands on), hold.c
 * (what a claim on GPUs changes), pending.c (who waits, in what order), cycle.c (who starts), reclaim*.c (who is stopped for
 * whom), reserve.c (gangs and backfill), restore.c and export.c (what is there after a restart), serve.c (replicas among the jobs), jobs_views.c, jobs_check.c. */
#ifndef FLEET_JOBS_STATE_H
#define FLEET_JOBS_STATE_H

#include "base/table.h"
#include "fleet/jobs.h"

#define FLAVORS_MAX 8
#define SCRATCH_JOBS 1024
#define VICTIMS_MAX 64
/* Jobs that wait for their victims to leave, at once. */
#define CLAIMERS_MAX 64

struct job {
    job_id id;
    int64_t size_ns;
    int64_t remaining_ns;       /* of size_ns, beyond the last durable point */
    int64_t runtime_min_ns;
    int64_t deadline_at_ns;
    int64_t submitted_at_ns;
    int64_t waits_from_ns;      /* pending since */
    int64_t placed_at_ns;       /* its hold on GPUs began */
    int64_t started_at_ns;      /* NEVER_NS: not yet */
    int64_t reserved_from_ns;
    int64_t entry_ns;           /* usage charged in advance */
    uint64_t bytes;
    uint64_t order_key;         /* in its class, under the policy */
    uint32_t tenant;
    uint32_t class;             /* pending class; NONE_INDEX: it stands in none */
    uint32_t left, right, parent; /* skew heap of its class; slots */
    uint32_t claimer;           /* for whom it is being stopped; NONE_INDEX */
    uint32_t victims_left;      /* of those stopped for it, how many have not left: it is a claimer */
    uint32_t claimer_at;        /* in `claimers`; NONE_INDEX: it is none */
    uint16_t victims_node;
    uint32_t attempt;
    uint32_t quota_milli;       /* taken, all GPUs together; a claimer takes it in advance */
    uint16_t base;
    uint16_t gpus;
    uint16_t rank;
    int16_t priority;
    uint16_t flags;
    uint16_t flavor;            /* of quota_milli */
    uint8_t stage;
    uint8_t isolation;
    uint8_t state;              /* enum job_state */
    bool trusted;               /* its tenant was, when it was submitted */
    bool borrowed;
    bool cancelled;             /* ends when it has yielded */
    bool reserved;              /* GPUs are kept for it from some instant on */
    bool clear;                 /* memory is cleared before it starts */
    struct devices_place place; /* while it holds GPUs; of a claimer, or with a reservation: what is kept for it */
    replica_id replica;         /* STAGE_SERVE */
    uint32_t running_prev, running_next; /* its tenant's jobs that hold GPUs, the most recent first */
    uint32_t placed_prev, placed_next;   /* all that hold GPUs, in the order they came */
    uint8_t refusal;            /* enum job_refuse_reason, FREE: it was told while restoring, and is refused afterwards */
    bool told;                  /* STRAY: it was told to stop */
};

/* Pending jobs that ask the devices for the same: a search for one answers for all, but where it finds only places that are
 * reserved from some instant on. */
struct pending_kind {
    uint64_t bytes;
    uint64_t searched;          /* `jobs->searches` when the answers below were found */
    uint32_t tenant;            /* that a neighbour's must be; NONE_INDEX: any may be there */
    uint32_t shapes;            /* first of its shapes */
    uint32_t next_free;
    uint32_t collision;         /* how many keys were tried before this one */
    uint16_t base;
    uint16_t gpus;
    uint8_t isolation;
    bool trusted;
    bool spot;                  /* may be placed on flavors that can be taken back */
    uint8_t open;               /* bits: flavors with a place, however long it is for */
    uint8_t reserved;           /* flavors where there is one, but somebody else's from some instant on */
    uint8_t wait;               /* enum job_wait: why the last search that found nothing found nothing */
};

/* Those of them that take about as long: they slip in before a reservation if the longest that they could be would. */
struct pending_shape {
    uint32_t kind;
    uint32_t kind_prev, kind_next;
    uint32_t classes;           /* first of its classes */
    uint32_t active_at;         /* index in `shapes_active` */
    uint32_t next_free;
    uint32_t collision;
    uint8_t span;               /* of remaining time: half an octave */
    uint8_t open;               /* bits: flavors with a place */
};

/* Pending jobs of one tenant, shape and priority, a heap by the policy's key and age. */
struct pending_class {
    /* Cycles walk lists of classes: what they read stands together. */
    uint32_t tenant_prev, tenant_next;
    uint32_t shape;
    uint32_t need_milli;        /* of quota, the least */
    int16_t priority;
    uint16_t flags;
    uint32_t tenant;
    uint32_t root;              /* slot of its first job; NONE_INDEX: empty */
    uint64_t head;              /* id of its first job */
    uint64_t head_key;          /* of the policy, if it is the job's own */
    uint64_t tried;             /* `jobs->hopes` when nobody could be stopped for it; 0: not tried */
    uint64_t windowless;        /* `jobs->hopes` when no node had a window for it */
    uint32_t shape_prev, shape_next;
    uint32_t count;
    uint32_t collision;
};

struct known_base {
    uint128 work_ns;            /* GPU time queued for it */
    uint64_t bytes;
    int64_t load_ns;
    int64_t retry_at_ns;        /* its last load failed: the next one is asked for from then on */
    uint16_t gpus;
    uint8_t failures;           /* loads that failed since one came */
    bool known;
};

struct known_tenant {
    bool known;
    bool trusted;
    bool lowest_known;
    int32_t lowest;             /* priority of its running preemptible jobs; INT32_MAX: none */
    uint32_t running_head;      /* jobs that hold GPUs */
    uint32_t classes;           /* pending, the first to be served first */
    uint32_t active_at;         /* index in `tenants_active`; NONE_INDEX: nothing pending */
    uint64_t room_version;      /* `jobs->version` of what follows */
    uint64_t key;               /* fair share */
    int64_t nominal_milli[FLAVORS_MAX];   /* what it could take within its nominal quota */
    int64_t available_milli[FLAVORS_MAX]; /* and with what it may borrow */
    int64_t marked_milli[FLAVORS_MAX];    /* held by jobs that are marked as borrowed */
    int64_t claimed_milli[FLAVORS_MAX];   /* taken in advance by its claimers */
};

/* What a class is sorted by. */
struct order_rank {
    uint64_t tried;             /* reclaim: who was not tried comes first */
    uint64_t key;               /* of the policy */
    uint64_t head;              /* id of its first job */
    int32_t priority;
    bool borrows;               /* within nominal comes first: otherwise it would take back at once what others got */
};

struct jobs {
    struct jobs_config config;
    int64_t at_ns;
    int64_t wakeup_at_ns;
    int64_t hope_at_ns;         /* when a job that could not be stopped will have run its minimum, or a delay is over */
    uint64_t history;           /* hash of command bodies */
    uint64_t version;           /* of quotas, usage and time: what was read of them under another is stale */
    uint64_t searches;          /* of what is on GPUs: cycles */
    uint64_t hopes;             /* of what might help a claimer */
    uint64_t alive;             /* shapes of this cycle with a place */
    int64_t open_need_milli;    /* the least quota that a job of these takes */
    bool cycle_due;             /* a cycle was cut short by the limit of commands */
    bool leave_due;             /* so was telling jobs to leave GPUs that will be gone */
    bool restoring;             /* what is there is being told: nothing is said, nobody is placed */
    bool restore_due;           /* strays and refusals are still to be told */
    struct jobs_totals totals;
    uint64_t bytes_largest;     /* of any GPU, slice and node that was ever there: what is gone may come back */
    uint64_t slice_largest;
    uint32_t gang_largest;
    struct devices *devices;
    struct quota *quota;
    struct ledger *ledger;
    struct job *jobs;           /* [jobs_max] by slot, and [serve_max] replicas behind them */
    uint32_t placed_head, placed_tail; /* jobs that hold GPUs */
    uint32_t serve_waiting;     /* replicas that wait for GPUs */
    struct pending_class *classes; /* [jobs_max] */
    struct pending_shape *shapes;  /* [jobs_max] */
    struct pending_kind *kinds;    /* [jobs_max] */
    uint32_t kind_free;
    uint32_t class_free;
    uint32_t shape_free;
    struct table class_of;      /* key -> class */
    struct table shape_of;      /* key -> shape */
    struct table kind_of;       /* key -> kind */
    uint32_t *shapes_active;    /* [jobs_max] */
    uint32_t shapes_count;
    uint32_t *tenants_active;   /* [tenants_max] with pending jobs */
    uint32_t tenants_count;
    uint32_t *order;            /* [jobs_max] a heap of classes */
    uint32_t order_count;
    struct order_rank *ranks;   /* [jobs_max] of the classes in `order` */
    struct known_base *bases;
    struct known_tenant *tenants;
    int64_t *gone_at_ns;        /* [nodes_max] of the last notice */
    uint32_t claim_node;        /* where the next search for victims begins */
    uint32_t claim_tenant;      /* in `tenants_active`: who is asked next whether it claims */
    uint32_t stopping;          /* jobs that were told to stop and have not left */
    uint32_t claimers_count;
    uint32_t claimers[CLAIMERS_MAX]; /* jobs that wait for their victims to leave */
    uint32_t reserved_count;
    uint32_t *reserved;         /* [reservations_max] jobs with a reservation */
    uint32_t *scratch_jobs;     /* [SCRATCH_JOBS] */
    struct fleet_commands *out; /* while stepping */
    uint64_t *said;
};

/* pending.c */
void pending_init(struct jobs *jobs);
/* The longest time in a span. */
int64_t span_max_ns(uint8_t span);
void pending_insert(struct jobs *jobs, uint32_t slot);
void pending_remove(struct jobs *jobs, uint32_t slot);
/* The tenant's room and key as of now. */
const struct known_tenant *tenant_room(struct jobs *jobs, uint32_t tenant);
/* Flavors that count: within nominal quota in none of them is borrowing. */
struct order_rank pending_rank(struct jobs *jobs, uint32_t class, uint32_t flavors);
bool rank_before(const struct order_rank *a, const struct order_rank *b);
void order_clear(struct jobs *jobs);
void order_push(struct jobs *jobs, uint32_t class, struct order_rank rank);
/* The first class; NONE_INDEX when all were taken. */
uint32_t order_pop(struct jobs *jobs, struct order_rank *ret_rank);
void pending_check(const struct jobs *jobs);

/* cycle.c */
void cycle_run(struct jobs *jobs, uint32_t only_class);
struct devices_ask ask_of(const struct jobs *jobs, const struct job *job);
/* Flavors that it may be placed on, whatever the quotas say. */
uint32_t flavors_of(const struct jobs *jobs, uint16_t flags);
/* Does the work queued for the base pay for a load? */
bool base_pays(const struct jobs *jobs, uint16_t base);
/* It could not be loaded a while ago: nobody asks for it yet, but for a slice, whose base is its own. Then it wakes the core. */
bool base_waits(struct jobs *jobs, const struct job *job);
/* Or may this job have one all the same? */
bool load_pays(const struct jobs *jobs, const struct job *job);

/* hold.c */
bool jobs_has_room(const struct jobs *jobs, uint32_t commands);
struct fleet_command *jobs_say(struct jobs *jobs, enum fleet_command_kind kind, uint16_t reason);
void jobs_said(struct jobs *jobs, const struct fleet_command *command);
void jobs_wake_by(struct jobs *jobs, int64_t at_ns);
/* alone_ns, slowed by as many neighbours as may come. */
int64_t slowed_ns(const struct jobs *jobs, int64_t alone_ns, uint8_t isolation);
int64_t job_end_estimate_ns(const struct jobs *jobs, const struct job *job);
/* Thousandths of a GPU, all GPUs together, that the job takes of its quota; place NULL: the least. */
int64_t quota_need_milli(const struct jobs *jobs, const struct job *job, const struct devices_place *place);
void quota_charge(struct jobs *jobs, uint32_t slot, uint16_t flavor, int64_t milli, bool over);
void quota_discharge(struct jobs *jobs, uint32_t slot);
/* Puts it on `place`, which was just found; a claimer's quota is its own already. */
void job_take_place(struct jobs *jobs, uint32_t slot, const struct devices_place *place);
void job_leave_place(struct jobs *jobs, uint32_t slot);
void job_started(struct jobs *jobs, uint32_t slot);
void holding_drop(struct jobs *jobs, uint32_t holding);
void holding_ready(struct jobs *jobs, uint32_t holding);
void tell_unused(struct jobs *jobs, uint32_t tenant);
uint32_t gpu_number(uint16_t node, uint16_t gpu);
/* Each running job on the GPUs of `place` gets an equal part of their compute. */
void share_compute(struct jobs *jobs, const struct devices_place *place);
void link_running(struct jobs *jobs, uint32_t slot);
/* Usage in GPU time: a share of a GPU, or a slice of it, counts as its part. */
int64_t gpu_time_ns(const struct job *job, int64_t ns);

/* Of a replica: GPUs alone, no quota. */
void serve_take_place(struct jobs *jobs, uint32_t slot, const struct devices_place *place);
void serve_leave_place(struct jobs *jobs, uint32_t slot);

/* serve.c */
/* Replicas that wait go before all jobs. */
void serve_run(struct jobs *jobs);
/* Its GPUs or its base did not come: it waits again. */
void serve_requeue(struct jobs *jobs, uint32_t slot);
void serve_stop(struct jobs *jobs, uint32_t slot, enum job_stop_reason reason);
/* What is kept on GPUs that take no more work is kept no longer. */
void serve_unkeep_closed(struct jobs *jobs);
/* Its record; it stands nowhere yet. */
uint32_t serve_add(struct jobs *jobs, int64_t at_ns, const struct serve_ask *ask);
void serve_say_drain(struct jobs *jobs, uint32_t slot, enum job_stop_reason reason);
void serve_check(const struct jobs *jobs);
uint64_t serve_digest(const struct jobs *jobs, uint64_t digest);

/* jobs.c */
void jobs_enter(struct jobs *jobs, int64_t at_ns, uint64_t *said, struct fleet_commands *out);
void jobs_leave(struct jobs *jobs);
void jobs_after_release(struct jobs *jobs);
/* Off its GPUs and back at its place in the queue. */
void job_requeue(struct jobs *jobs, uint32_t slot);
void job_stop(struct jobs *jobs, uint32_t slot, enum job_stop_reason reason, int64_t by_ns);

/* jobs_capacity.c: events, and what is left of them */
void base_known(struct jobs *jobs, const struct fleet_event *event);
void base_loaded(struct jobs *jobs, const struct fleet_event *event);
void tenant_known(struct jobs *jobs, const struct fleet_event *event);
void gpus_up(struct jobs *jobs, const struct fleet_event *event);
void gpus_notice(struct jobs *jobs, const struct fleet_event *event);
void gpus_gone(struct jobs *jobs, const struct fleet_event *event);
/* A GPU of the place takes no more work. */
bool jobs_closed(const struct jobs *jobs, const struct devices_place *place);
/* Whoever is on GPUs that will be gone is stopped, as far as there is room for commands. */
void jobs_leave_closed(struct jobs *jobs);

/* reclaim.c */
void claims_run(struct jobs *jobs, uint32_t only_class);
/* The job that `slot` was stopped for has one victim fewer to wait for. */
void claim_victim_left(struct jobs *jobs, uint32_t slot);
/* Claimers whose victims have left start on what was kept for them, before anybody else is looked at. */
void claims_let_in(struct jobs *jobs);
/* Stops jobs for a replica, whatever their tenants' quotas. False: nobody may be, or not yet. */
bool claim_for_serving(struct jobs *jobs, uint32_t slot);
/* Those who are being stopped for it leave for nobody. */
void claim_release_victims(struct jobs *jobs, uint32_t slot);
/* Nobody is stopped for it any more; those who are being stopped are not asked to go on: their checkpoints are made. */
void claim_forget(struct jobs *jobs, uint32_t slot);
/* Something has changed that may make stopping somebody possible. */
void claims_hope(struct jobs *jobs);
void claims_hope_at(struct jobs *jobs, int64_t at_ns);

/* restore.c: what was there before */
void restore_begin(struct jobs *jobs, const struct fleet_event *event);
void restore_base(struct jobs *jobs, const struct fleet_event *event);
void restore_kept(struct jobs *jobs, const struct fleet_event *event);
void restore_job(struct jobs *jobs, const struct fleet_event *event);
/* What is left of it when it has stopped; it may be placed anew. */
void stray_left(struct jobs *jobs, uint32_t slot);
void restore_done(struct jobs *jobs);
/* Refusals and strays, as far as there is room for commands. */
void restore_tell(struct jobs *jobs);

/* reserve.c */
void reserve_run(struct jobs *jobs);
void reserve_forget(struct jobs *jobs, uint32_t slot);

#endif
