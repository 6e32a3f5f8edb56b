/* What the fleet core is told. 96 bytes, no pointers, memset to zero before filling. */
#ifndef FLEET_EVENT_H
#define FLEET_EVENT_H

#include "base/ids.h"

#define FLEET_EVENTS(X)                                                                  \
    X(REPLICA_UP)      /* a replica is ready to serve its base; by itself, or answers REPLICA_START */ \
    X(REPLICA_DOWN)    /* gone (reason: enum replica_down_reason), its requests in flight are the host's to send again; */ \
                       /* by itself, or answers REPLICA_START (it failed) or REPLICA_DRAIN (nothing is left there) */ \
    X(REPLICA_STATE)   /* periodic report */                                             \
    X(RESIDENCY)       /* an adapter came to, or left, a tier (reason unused) */         \
    X(REQUEST)                                                                           \
    X(REQUEST_DONE)    /* finished, refused by the replica or cancelled */               \
    X(ADAPTER_RETIRED) /* forget its rate and residency */                               \
    X(BASE_KNOWN)      /* a base that jobs train on, before its first job */             \
    X(COHORT)          /* a group of tenants that lend to each other; before its members */ \
    X(TENANT)          /* a tenant's quota in one flavor; before its first job; again to change it */ \
    X(GPUS_UP)         /* capacity joins: a node's GPUs, empty */                        \
    X(GPUS_NOTICE)     /* they will be gone at gone_at_ns (spot) */                      \
    X(GPUS_GONE)       /* they are gone, with all that was on them */                    \
    X(JOB)             /* submitted */                                                   \
    X(JOB_CANCEL)      /* by its owner */                                                \
    X(JOB_STARTED)     /* answers JOB_PLACE, each part: it computes now */               \
    X(JOB_CHECKPOINTED) /* work done is durable up to here; statement */                 \
    X(JOB_YIELDED)     /* answers JOB_STOP: checkpointed and off the GPUs */             \
    X(JOB_ENDED)       /* reason: enum job_end_reason; by itself, or answers what asked for it */ \
    X(BASE_LOADED)     /* answers BASE_LOAD; reason 0: it is there, otherwise it failed */ \
    X(SCALE)           /* how many replicas a base may have, and when it gets more or fewer; again to change it */ \
    X(TICK)                                                                              \
    X(MERGE)           /* when an adapter of a base gets a replica of its own, its weights merged in; again to change it */ \
    X(RESTORE)         /* the first event or none: what is told up to RESTORE_DONE is there already, and no command is said */ \
    X(RESTORE_DONE)    /* all of it was told: from here on it decides */                  \
    X(TENANT_USAGE)    /* RESTORE: what a tenant has used of its share */                 \
    X(BASE_FOUND)      /* RESTORE: a base is on these GPUs; reason 1: on its way, BASE_LOADED answers */ \
    X(JOB_KEPT)        /* RESTORE: what a job has behind it; after its JOB, before its JOB_FOUND */ \
    X(JOB_FOUND)       /* RESTORE: an attempt of a job lives on these GPUs; after its JOB */ \
    X(MEMORY_FOUND)    /* RESTORE: whose bytes were last on a GPU; after what was found there. Not told: somebody's, it is cleared */
enum fleet_event_kind {
    FLEET_EVENT_NONE,
#define X(name) FLEET_EVENT_##name,
    FLEET_EVENTS(X)
#undef X
    FLEET_EVENT_COUNT
};

struct fleet_event {
    EVENT_HEAD;
    union {
        struct {
            replica_id replica;
            node_id node;
            base_id base;
            adapter_id adapter; /* UP: merged into its weights, as REPLICA_START said; {0, 0}: none */
            uint64_t bytes;     /* RESTORE, UP of a SHARED one: on each GPU beside the base */
            uint16_t gpu_mask;  /* likewise: those it was given */
        } replica_up, replica_down; /* RESTORE: the reason of an UP is an enum replica_found; a DOWN: it was there once */
        struct {
            replica_id replica;
            uint32_t waiting;
            uint32_t kv_free_permille;
        } replica_state;
        struct {
            replica_id replica; /* tier GPU */
            adapter_id adapter;
            node_id node;       /* tier HOST */
            uint16_t tier;
            uint16_t present;   /* 1 came, 0 left */
        } residency;
        struct {
            request_id request;
            adapter_id adapter;
            tenant_id tenant;
            uint32_t prompt_tokens;
            uint32_t output_tokens_max;
            base_id base;
        } request;
        struct {
            request_id request;
            replica_id replica;
            uint32_t prompt_tokens;
            uint32_t output_tokens;
            uint16_t tier_found;
            int64_t compute_ns;
        } request_done;
        struct {
            adapter_id adapter;
        } adapter_retired;
        struct {
            uint64_t bytes;          /* on each of its GPUs */
            int64_t load_ns;         /* an estimate: what a load occupies its GPUs for */
            uint32_t zero32;
            base_id base;
            uint16_t gpus;           /* it is spread over so many of one node; 1, or a gang */
            int64_t retry_at_ns;     /* RESTORE: its last loads failed, and it is not asked for before then */
            uint32_t failures;       /* how many; 0: none */
        } base_known;
        struct {
            int64_t nominal_milli;   /* thousandths of a GPU */
            int64_t borrowing_milli; /* QUOTA_UNLIMITED: no limit */
            int64_t lending_milli;   /* of nominal, that others may use; QUOTA_UNLIMITED: all */
            uint32_t tenant;         /* COHORT: the cohort's own number */
            uint32_t cohort;         /* that it belongs to; COHORT: its parent; NO_COHORT: a root */
            uint32_t weight_milli;   /* in fair share; >= 1 */
            uint16_t flavor;
            uint16_t flags;          /* enum tenant_flags */
        } tenant, cohort;
        struct {
            uint64_t bytes;          /* usable, of each GPU */
            int64_t gone_at_ns;      /* NOTICE */
            int64_t price_nano_per_hour; /* of one GPU */
            uint32_t zero32;
            node_id node;
            uint16_t gpu_mask;
            uint16_t flavor;         /* below flavors_max; capacity of one price and promise: on demand, spot */
            uint16_t model;          /* enum gpu_model: what MIG profiles it has */
            uint16_t rank;           /* RESTORE: 1 + the rank of its kind in searches, from fleet_export(); 0: as it comes */
        } gpus;
        struct {
            job_id job;
            int64_t size_ns;         /* GPU time alone on its GPUs, all epochs: sized before it queues */
            int64_t deadline_at_ns;  /* NEVER_NS: none */
            int64_t runtime_min_ns;  /* not stopped for others before it ran so long */
            uint64_t bytes;          /* on each GPU beside the base: adapter, optimizer, activations */
            tenant_id tenant;
            base_id base;
            uint16_t gpus;           /* of one node; more than 1 is a gang */
            uint16_t rank;
            int16_t priority;        /* higher goes first, whatever the shares say */
            uint16_t flags;          /* enum job_flags */
            uint8_t stage;           /* enum job_stage */
            uint8_t isolation;       /* enum job_isolation */
        } job;
        struct {
            job_id job;
            int64_t done_ns;         /* of size_ns, durable */
            int64_t compute_ns;      /* GPU time used by this attempt so far, all GPUs together */
            uint64_t bytes;          /* of the checkpoint */
        } job_progress;              /* STARTED, CHECKPOINTED, YIELDED, ENDED, CANCEL (only job) */
        struct {
            node_id node;
            uint16_t gpu_mask;
            base_id base;
        } base_loaded;
        struct {
            int64_t up_ns;           /* above the line for so long: more; >= SCALE_LOOKS */
            int64_t down_ns;         /* below it for so long: fewer */
            uint64_t bytes;          /* SHARED: on each GPU beside the base */
            uint32_t target_milli;   /* outstanding requests that one replica is meant to have, in thousandths; >= 1 */
            uint32_t up_milli;       /* of the target: above it, more; >= 1000 */
            uint32_t down_milli;     /* below it, fewer; <= 1000 */
            uint16_t floor;          /* >= 1 */
            uint16_t ceiling;        /* >= floor; again: not above the first one */
            uint16_t first;          /* replica indexes first .. first + ceiling - 1 are its own */
            base_id base;
            uint16_t tp;             /* GPUs of one replica */
            uint16_t flags;          /* enum scale_flags */
        } scale;
        struct {
            int64_t up_ns;           /* above the upper line for so long: it gets one; >= MERGE_LOOKS */
            int64_t down_ns;         /* below the lower line for so long: it loses it; >= MERGE_LOOKS */
            uint64_t break_even_milli; /* output tokens a second of one adapter, in thousandths: see model/merge.h; >= 1 */
            uint32_t up_milli;       /* the upper line, of the break-even; >= 1000 */
            uint32_t down_milli;     /* the lower line; <= 1000 */
            uint32_t outstanding_max; /* requests that such a replica has at once, the rest goes to the pool; >= 1 */
            uint16_t first;          /* replica indexes first .. first + count - 1 are its own */
            uint16_t count;          /* adapters that have one at once; >= 1; again: not above the first one */
            base_id base;
            uint16_t tp;             /* GPUs of one replica */
        } merge;
        struct {                     /* all 0, but from fleet_export(): what further decisions would otherwise not be the same by */
            uint64_t commands;       /* said so far: their ids go on from there */
            uint64_t clock;          /* of the bases that were dropped */
            uint64_t orders;         /* in which bases were used */
            uint64_t bytes_largest;  /* of any GPU, slice and node that was ever there */
            uint64_t slice_largest;
            uint32_t gang_largest;
            uint32_t claim_node;
            uint32_t claim_tenant;
        } restore;
        struct {
            int64_t gpu_ns;          /* decayed to as_of_ns; with what jobs that are found were charged in advance */
            int64_t as_of_ns;        /* a later one than now is taken for now */
            uint32_t fraction;       /* 2^-32 of a GPU-ns */
            tenant_id tenant;
        } tenant_usage;
        struct {
            uint64_t key;            /* of its eviction; 0: as if it had just been loaded */
            uint64_t used_order;     /* the larger, the later it was used; 0: the last of all so far */
            uint32_t uses;
            node_id node;
            uint16_t gpu_mask;
            base_id base;
        } base_found;
        struct {
            job_id job;
            int64_t done_ns;         /* of size_ns, durable */
            int64_t submitted_at_ns;
            int64_t waits_from_ns;   /* pending since; of one that is found: before it was placed */
            uint32_t attempt;        /* how often it was placed */
            uint16_t trusted;        /* 1: its tenant was when it was submitted */
        } job_kept;
        struct {
            job_id job;
            int64_t done_ns;         /* of size_ns, durable */
            int64_t claimed_at_ns;   /* JOB_PLACE said it */
            int64_t started_at_ns;   /* JOB_STARTED came; NEVER_NS: not yet */
            int64_t charged_ns;      /* of TENANT_USAGE: charged in advance at claimed_at_ns; FOUND_UNCHARGED: it is charged now */
            node_id node;
            uint16_t gpu_mask;
            uint16_t slice;          /* as JOB_PLACE said it */
            uint16_t state;          /* enum job_state: what it waits for, or that it runs */
            uint16_t flags;          /* enum job_found_flags */
        } job_found;
        struct {
            uint32_t tenants[8];     /* of each eighth of its memory; NONE_INDEX: nobody's */
            node_id node;
            uint16_t gpu;
        } memory_found;
        uint64_t word[8];
    };
};
_Static_assert(sizeof(struct fleet_event) == 96, "a fleet event is 96 bytes");

#define QUOTA_UNLIMITED INT64_MAX
#define NO_COHORT UINT32_MAX
enum tenant_flags { TENANT_TRUSTED = 1 /* may share a GPU's SMs with other trusted tenants (MPS) */ };
enum job_flags {
    JOB_PREEMPTIBLE = 1, /* may be stopped for others; otherwise it may only use nominal quota */
    JOB_SPOT_OK = 2      /* may be placed on flavors that can be taken back */
};
#define JOB_STAGES(X) X(TRAIN, "train") X(EVALUATE, "evaluate") X(INTERACTIVE, "interactive")
/* A replica on GPUs of the shared pool: the core's own, never submitted. */
#define STAGE_SERVE STAGE_COUNT
enum job_stage {
#define X(name, text) STAGE_##name,
    JOB_STAGES(X)
#undef X
    STAGE_COUNT
};
/* How far from others it must stand; a placement rule (spec section 3.7). */
#define JOB_ISOLATIONS(X)                                                                      \
    X(EXCLUSIVE, "exclusive")   /* whole GPUs, alone */                                        \
    X(MIG, "mig")               /* a slice of hardware of its own: memory, compute and faults */ \
    X(MPS, "mps")               /* own process; shares the GPU and the resident base with trusted tenants */ \
    X(TIME_SLICE, "time-slice") /* shares a GPU in turns with its own tenant's jobs */
enum job_isolation {
#define X(name, text) ISOLATION_##name,
    JOB_ISOLATIONS(X)
#undef X
    ISOLATION_COUNT
};
enum job_end_reason { JOB_SUCCEEDED, JOB_FAILED, JOB_LOST /* with its GPUs: it goes on from its last checkpoint */ };
enum replica_down_reason {
    REPLICA_LOST,    /* with its process or its GPUs */
    REPLICA_DRAINED, /* answers REPLICA_DRAIN: the last request has left */
    REPLICA_FAILED   /* answers REPLICA_START: it did not come up */
};
enum replica_found { REPLICA_IS_UP, REPLICA_IS_STARTING, REPLICA_IS_DRAINING };
/* What a host may ask about a job it knows, and tell of one that it found. */
enum job_state {
    JOB_FREE,
    JOB_PENDING,
    JOB_BASE_WAIT,
    JOB_PLACING,
    JOB_RUNNING,
    JOB_STOPPING,
    JOB_STRAY /* found where no room is kept for it: it was told to stop, and holds nothing until it has */
};
#define FOUND_UNCHARGED INT64_MIN
enum job_found_flags {
    FOUND_CANCELLED = 1, /* it ends when it has yielded */
    FOUND_MARKED = 2,    /* whether it borrows is as FOUND_BORROWED says; otherwise it is reckoned */
    FOUND_BORROWED = 4,
    FOUND_CLEAR = 8,     /* BASE_WAIT: memory is cleared before it starts */
    FOUND_TOLD = 16      /* STRAY: JOB_STOP was said */
};
enum scale_flags { SCALE_SHARED = 1 /* on the GPUs of jobs, which are taken back for it: the shared pool */ };
/* Looks at the load in up_ns. */
#define SCALE_LOOKS 4
/* Looks at the rates of adapters in the shorter of up_ns and down_ns. */
#define MERGE_LOOKS 4
/* The host chooses, and REPLICA_UP says. */
#define NODE_ANY UINT16_MAX
enum gpu_model { GPU_NO_MIG, GPU_A100_80, GPU_H100_80, GPU_H200_141 };

#define FLEET_COMMANDS(X)                                        \
    X(ROUTE)  /* give the request to this replica; statement */  \
    X(REFUSE) /* no replica serves its base; statement */         \
    X(JOB_REFUSE) /* it can never run; reason: enum job_refuse_reason, with the arithmetic; statement */ \
    X(JOB_PLACE)  /* start a part of it on these GPUs; JOB_STARTED or JOB_ENDED answers */ \
    X(JOB_STOP)   /* checkpoint and yield by by_ns; JOB_YIELDED or JOB_ENDED answers; reason: enum job_stop_reason */ \
    X(BASE_LOAD)  /* make it resident; BASE_LOADED answers */     \
    X(BASE_DROP)  /* its bytes are free; statement */             \
    X(REPLICA_START) /* REPLICA_UP, or REPLICA_DOWN with REPLICA_FAILED, answers */ \
    X(REPLICA_DRAIN) /* routed to no more: stop it when its last request has left; REPLICA_DOWN answers */
enum fleet_command_kind {
    FLEET_COMMAND_NONE,
#define X(name) FLEET_COMMAND_##name,
    FLEET_COMMANDS(X)
#undef X
    FLEET_COMMAND_COUNT
};
/* Why a ROUTE went where it went. MERGED is the core's own and no policy's: to the replica of its adapter alone. */
#define ROUTE_REASONS(X) X(POLICY, "policy") X(HOME, "home") X(OVERFLOW_GPU, "overflow-gpu") \
    X(OVERFLOW_HOST, "overflow-host") X(OVERFLOW_ANY, "overflow-any") X(MERGED, "merged")
enum route_reason {
#define X(name, text) ROUTE_##name,
    ROUTE_REASONS(X)
#undef X
    ROUTE_REASON_COUNT
};
enum fleet_refuse_reason { FLEET_REFUSE_NO_REPLICA = 1, FLEET_REFUSE_ADAPTERS_FULL };

/* Why a job can never run; need and have in the unit of the sentence. */
#define JOB_REFUSE_REASONS(X)                                                                                     \
    X(MEMORY, "needs %llu bytes on each GPU with its base, the largest GPU has %llu")                             \
    X(GANG, "needs %llu GPUs of one node, the largest node has %llu")                                             \
    X(QUOTA, "needs %llu thousandths of a GPU, its tenant may never have more than %llu")                         \
    X(ISOLATION, "no slice profile has %llu bytes; the largest slice has %llu")                                   \
    X(STAGE, "stage %llu may not run under isolation %llu")                                                       \
    X(UNKNOWN_TENANT, "tenant %llu has no quota here (%llu known)")                                               \
    X(UNKNOWN_BASE, "base %llu is not known here (%llu known)")                                                   \
    X(JOBS_FULL, "%llu jobs would be known, the table holds %llu")
enum job_refuse_reason {
    JOB_REFUSE_NONE,
#define X(name, text) JOB_REFUSE_##name,
    JOB_REFUSE_REASONS(X)
#undef X
    JOB_REFUSE_COUNT
};
#define JOB_STOP_REASONS(X)                                                      \
    X(RECLAIM, "reclaimed")     /* its queue borrowed, the owner wants it back */ \
    X(PREEMPT, "preempted")     /* a job of higher priority in the same queue */  \
    X(NOTICE, "notice")         /* its GPUs will be gone */                       \
    X(SHARED_POOL, "serving")   /* serving needs its GPUs */                      \
    X(CANCEL, "cancelled")                                                       \
    X(STRAY, "found where there is no room for it")
enum job_stop_reason {
#define X(name, text) JOB_STOP_##name,
    JOB_STOP_REASONS(X)
#undef X
    JOB_STOP_COUNT
};
/* Why a pending job waits. */
#define JOB_WAITS(X)                                                                        \
    X(NONE, "it does not wait")                                                             \
    X(QUOTA, "its tenant's quota, and what it may borrow, is in use")                       \
    X(CAPACITY, "no GPU has room")                                                          \
    X(RESERVED, "the GPUs that would do are reserved for another job")                      \
    X(ISOLATION, "no GPU that its isolation class allows has room")                         \
    X(BASE_LOADING, "its base is being loaded")                                             \
    X(BASE_FAILED, "its base could not be loaded, and is asked for again later")            \
    X(ORDER, "jobs before it have not been placed yet")
enum job_wait {
#define X(name, text) JOB_WAIT_##name,
    JOB_WAITS(X)
#undef X
    JOB_WAIT_COUNT
};
/* Parts of a bill: every GPU's interval is split among these. */
#define CHARGE_COMPONENTS(X)                                                                 \
    X(RESIDENCY, "base residency")   /* split equally among the live claims */               \
    X(EXCLUSIVE, "exclusive memory") /* bytes held for the owner alone */                    \
    X(COMPUTE, "compute")                                                                    \
    X(LOADING, "loading")            /* to the claims that waited for it */                  \
    X(RESERVED_IDLE, "unused reservation")                                                   \
    X(IDLE, "idle")                  /* platform */                                          \
    X(DISCOUNT, "borrowing discount") /* usage_factor: the tenant's part negative, the platform's positive */ \
    X(STORAGE, "storage")
enum charge_component {
#define X(name, text) CHARGE_##name,
    CHARGE_COMPONENTS(X)
#undef X
    CHARGE_COUNT
};

struct fleet_command {
    COMMAND_HEAD;
    union {
        struct {
            request_id request;
            replica_id replica;
            adapter_id adapter;
        } route;
        struct {
            uint64_t request_or_job;
            uint64_t need;
            uint64_t have;
        } refuse;
        struct {
            job_id job;
            uint64_t bytes;      /* on each GPU */
            node_id node;
            uint16_t gpu_mask;
            uint16_t slice;      /* MIG: profile << 8 | first memory slice; 0: none */
            base_id base;
            uint16_t neighbours; /* jobs on these GPUs, this one included */
            uint16_t clear;      /* 1: memory held another tenant's bytes and is cleared first */
            int64_t claimed_at_ns; /* since when these GPUs are its own: it may have waited for its base on them */
        } job_place;
        struct {
            job_id job;
            int64_t by_ns;       /* NEVER_NS: as soon as it can; otherwise the GPUs are gone then */
        } job_stop;
        struct {
            uint64_t bytes;      /* on each GPU */
            node_id node;
            uint16_t gpu_mask;
            base_id base;
        } base_load, base_drop;
        struct {
            uint64_t bytes;      /* SHARED: on each GPU beside the base, which is there; otherwise 0 */
            replica_id replica;
            node_id node;        /* SHARED: of the GPUs; otherwise NODE_ANY */
            uint16_t gpu_mask;
            uint16_t tp;
            base_id base;
            uint16_t clear;      /* SHARED: 1: memory held a tenant's bytes and is cleared first */
            adapter_id adapter;  /* to be merged into its weights: it serves this adapter alone; {0, 0}: none */
        } replica_start, replica_drain;
        uint64_t word[6];
    };
};
_Static_assert(sizeof(struct fleet_command) == 64, "a fleet command is 64 bytes");

struct fleet_commands {
    uint32_t count;
    struct fleet_command items[COMMANDS_MAX];
};

#endif
