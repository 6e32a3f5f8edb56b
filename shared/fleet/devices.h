/* GPUs as they are: which exist, what bytes are on them, which bases are resident, who holds a claim on what. Bookkeeping
 * and search; it starts and stops nothing. All sums are of integers bytes, per GPU, exact (I1).
 *
 * A holding is one copy of a base on a group of GPUs of one node (a gang's shards are one holding). A claim is a job on
 * a holding's GPUs. Bytes of a GPU: sum of its holdings' + sum of its claims' <= usable. A holding without claims may be
 * dropped; which, is the eviction question one level up, answered as for adapters (GreedyDual-Size-Frequency): least
 * clock + claims it has had x reload cost / bytes, then the longest unused. Only fleet/ uses this.
 *
 * A GPU is free, whole (one EXCLUSIVE job), shared (jobs of one isolation class: MPS of one tenant or of trusted ones,
 * TIME_SLICE of one tenant) or cut (MIG, nothing but slices). It becomes free again with its last job. */
#ifndef FLEET_DEVICES_H
#define FLEET_DEVICES_H

#include "fleet/event.h"

struct devices;

struct devices_config {
    uint32_t nodes_max;        /* 16 GPUs each at most */
    uint32_t bases_max;
    uint32_t claims_max;       /* job parts placed at once; claims are numbered by the job's slot */
    uint32_t holdings_max;
    uint32_t flavors_max;
    uint32_t sharers_max;      /* jobs on one GPU at once (MPS, time-slice); 1: no sharing */
    uint32_t tenants_max;
};

/* What a job asks for. */
struct devices_ask {
    uint64_t bytes;            /* on each GPU beside the base */
    uint64_t base_bytes;       /* on each GPU */
    uint32_t tenant;
    uint16_t base;
    uint16_t gpus;
    uint8_t isolation;         /* enum job_isolation */
    bool trusted;              /* of the tenant: may share under MPS */
    uint32_t flavors;          /* bits: allowed ones */
    uint32_t job;              /* slot: GPUs earmarked for it are open to it, those for others are not */
    int64_t end_estimate_ns;   /* backfill: a GPU reserved from a later instant is open until then; NEVER_NS: unknown */
};

enum devices_place_kind {
    PLACE_NONE,
    PLACE_RESIDENT,            /* the base is there and ready */
    PLACE_LOADING,             /* it is on its way there: the job starts when it has come */
    PLACE_LOAD                 /* room for the base and the job. A MIG slice always is one: its base is its own */
};
struct devices_place {
    enum devices_place_kind kind;
    uint16_t node;
    uint16_t gpu_mask;
    uint16_t slice;            /* MIG: profile << 8 | first memory slice + 1; 0: none */
    uint16_t flavor;
    uint32_t holding;          /* NONE_INDEX for PLACE_LOAD and MIG slices (which hold a base of their own) */
    uint32_t victims;          /* holdings to drop first, whatever the kind: devices_victim_at() */
    bool blocked_by_earmark;   /* PLACE_NONE: something earmarked for others would have done */
    bool blocked_by_isolation; /* PLACE_NONE: room there is, but not under this isolation */
};

size_t devices_bytes(const struct devices_config *config);
struct devices *devices_create(void *memory, size_t memory_bytes, const struct devices_config *config);

/* Whether devices_up() would take them: not there yet, of the flavor, model and bytes of the GPUs their node has, and at most
 * sixteen kinds of (flavor, model, bytes) in all. */
bool devices_can_up(const struct devices *devices, uint16_t node, uint16_t gpu_mask, uint16_t flavor, uint16_t model,
                    uint64_t bytes);
void devices_up(struct devices *devices, uint16_t node, uint16_t gpu_mask, uint16_t flavor, uint16_t model, uint64_t bytes);
/* Closed to new work; what runs goes on. */
void devices_close(struct devices *devices, uint16_t node, uint16_t gpu_mask);
/* Gone: their claims (each reported once, also those that only touch one of a gang's GPUs) and holdings are no more. */
uint32_t devices_gone(struct devices *devices, uint16_t node, uint16_t gpu_mask, uint32_t *ret_jobs, uint32_t jobs_max);

/* Where could it go now? `resident_first`: prefer the base's holdings, then a load (residency-first); otherwise best fit
 * without looking at bases (naive, for comparison). Best fit keeps whole nodes whole. `may_load`: whether PLACE_LOAD may be
 * answered (queued work pays for it). Costs O(nodes / 64) words, and the nodes whose rooms say that they might do; never
 * O(GPUs). */
struct devices_place devices_find(struct devices *devices, const struct devices_ask *ask, bool resident_first, bool may_load);
/* The same with these claims imagined away (reclaim tries victims); changes nothing. */
struct devices_place devices_find_without(struct devices *devices, const struct devices_ask *ask, const uint32_t *jobs,
                                          uint32_t jobs_count);
uint32_t devices_victim_at(const struct devices *devices, uint32_t i); /* of the last devices_find() */

/* Takes room for a base that is being loaded; ready when devices_loaded(). */
uint32_t devices_hold(struct devices *devices, uint16_t base, uint64_t bytes, uint16_t node, uint16_t gpu_mask, int64_t load_ns);
void devices_loaded(struct devices *devices, uint32_t holding);
uint32_t devices_holding_at(const struct devices *devices, uint16_t node, uint16_t gpu_mask, uint16_t base); /* NONE_INDEX */
struct devices_holding { uint64_t bytes; uint16_t base; uint16_t node; uint16_t gpu_mask; bool ready; uint32_t claims; };
struct devices_holding devices_holding(const struct devices *devices, uint32_t holding);
void devices_drop(struct devices *devices, uint32_t holding); /* no claims on it (checked) */
/* Claim of a job on a place that was found; on its holding (or slice): after devices_hold(), where that was PLACE_LOAD.
 * Returns whether memory must be cleared first: the last private bytes there (of any GPU of a gang; of the slice's own
 * memory) were another tenant's. */
bool devices_claim(struct devices *devices, uint32_t job, const struct devices_ask *ask, const struct devices_place *place);
void devices_release(struct devices *devices, uint32_t job);
bool devices_claimed(const struct devices *devices, uint32_t job, struct devices_place *ret_place);
/* Jobs on a GPU, in the order they came; 0 past the end is NONE_INDEX. */
uint32_t devices_job_at(const struct devices *devices, uint16_t node, uint16_t gpu, uint32_t i);
bool devices_gpu_open(const struct devices *devices, uint16_t node, uint16_t gpu); /* up, and not closed */
/* Memory slices of a MIG place: eighths of its GPU. */
uint32_t devices_slice_eighths(const struct devices *devices, const struct devices_place *place);
/* Its compute slices: sevenths. */
uint32_t devices_slice_sevenths(const struct devices *devices, const struct devices_place *place);
uint32_t devices_jobs_on(const struct devices *devices, uint16_t node, uint16_t gpu);

/* Freed capacity that waits for one job (I9), and reservations for backfill: from `from_ns` on (0: now) these GPUs take
 * nobody else's work that would not have ended by then. A job has one earmark: a second call replaces it. */
void devices_earmark(struct devices *devices, uint16_t node, uint16_t gpu_mask, uint32_t job, int64_t from_ns);
void devices_unearmark(struct devices *devices, uint32_t job);
uint32_t devices_earmarked(const struct devices *devices, uint16_t node, uint16_t gpu); /* for which job; NONE_INDEX */

/* After a restart: what is there already. While it is told, claims are no new uses of their base, and memory of GPUs that come up is
 * somebody's. */
void devices_restore(struct devices *devices, uint64_t clock, uint64_t orders);
void devices_restored(struct devices *devices);
/* Whether devices_hold(), devices_claim() would take it. */
bool devices_can_hold(const struct devices *devices, uint16_t node, uint16_t gpu_mask, uint16_t base, uint64_t bytes);
bool devices_can_claim(const struct devices *devices, const struct devices_ask *ask, const struct devices_place *place);
/* GPUs of this kind that come up stand there among the kinds; before devices_up(). */
void devices_class_found(struct devices *devices, uint32_t rank, uint16_t flavor, uint16_t model, uint64_t bytes);
/* Of a holding: how often and when it was used; used_order or key 0: stays as it is. */
void devices_found(struct devices *devices, uint32_t holding, uint32_t uses, uint64_t used_order, uint64_t key);
/* tenants: [8], of each eighth; NONE_INDEX: nobody's. */
void devices_memory_found(struct devices *devices, uint16_t node, uint16_t gpu, const uint32_t *tenants);
bool devices_flavor_at(const struct devices *devices, uint16_t node, uint16_t *ret_flavor); /* false: no GPUs there */
uint16_t devices_present(const struct devices *devices, uint16_t node);

uint64_t devices_bytes_largest(const struct devices *devices);          /* usable of the largest GPU, whatever its state */
uint32_t devices_gang_largest(const struct devices *devices);
uint64_t devices_slice_largest(const struct devices *devices);
uint64_t devices_gpus(const struct devices *devices, uint16_t flavor);  /* open ones */
uint64_t devices_gpus_busy(const struct devices *devices, uint16_t flavor); /* of the open ones, with claims */

/* MIG profiles of a model: false past the end. Placement is positional: first memory slice must be one of `starts`. */
struct mig_profile { const char *name; uint16_t memory_slices; uint16_t compute_slices; uint16_t count_max; uint16_t starts; uint64_t bytes; };
bool mig_profile_at(enum gpu_model model, uint32_t index, struct mig_profile *ret_profile);

void devices_check(const struct devices *devices);
uint64_t devices_digest(const struct devices *devices);

#endif
