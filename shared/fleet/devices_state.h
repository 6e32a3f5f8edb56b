/* Inside devices: the records, and what the bookkeeping, the search and the check say to each other.
 *
 * Two kinds of facts. The records (nodes, holdings, claims, earmarks, in lists of their node) are what is. The summaries
 * (a GPU's sums, a node's rooms, the bitmaps over nodes) follow from the records of one node: node_unfile() takes a node
 * out of every index, the records change, node_file() sums it anew and puts it back. A node has a few dozen records at
 * most, so no sum is ever adjusted, and none can drift. The bitmaps know no order of insertion: whatever was imagined away
 * and put back leaves no trace. */
#ifndef FLEET_DEVICES_STATE_H
#define FLEET_DEVICES_STATE_H

#include "base/table.h"
#include "fleet/devices.h"

#define NODE_GPUS_MAX 16
#define DEVICES_CLASSES_MAX 16
#define MIG_PROFILES 6
#define MIG_MEMORY_SLICES 8
#define MIG_COMPUTE_SLICES 7
/* Once a place is found, so many more are compared with it before the search is content. */
#define PLACES_COMPARED 8
/* Tenants are told apart by so many bitmaps; two that fall together cost a look in vain. */
#define TENANT_ROWS 256
#define NO_CLASS UINT8_MAX
#define NO_GPU UINT16_MAX

/* What the GPUs of a node have in common. */
struct gpu_class {
    uint64_t bytes;         /* usable, of each GPU */
    uint32_t nodes;         /* with GPUs of it; 0: the entry is free */
    uint16_t flavor;
    uint16_t model;
};

enum gpu_mode { GPU_FREE, GPU_WHOLE, GPU_SHARED, GPU_MIG };

/* Summary of one GPU, but for cleared_for[]. */
struct gpu {
    uint64_t holdings_bytes;
    uint64_t fixed_bytes;   /* of holdings that may not be dropped: claimed, or on their way */
    uint64_t claims_bytes;  /* MIG: with the bases in the slices */
    uint32_t tenant;        /* SHARED: of all its jobs; NONE_INDEX: of several */
    uint16_t jobs;
    uint8_t mode;           /* enum gpu_mode */
    uint8_t isolation;      /* SHARED: of all its jobs */
    bool trusted;           /* SHARED: all its tenants are */
    uint8_t mig_memory;     /* bits: slices in use */
    uint8_t mig_compute;    /* slices in use */
    uint8_t mig_count[MIG_PROFILES];
    /* A record: whose private bytes were last on each eighth of the memory; NONE_INDEX: nobody's. */
    uint32_t last_tenant[MIG_MEMORY_SLICES];
};
/* Somebody's, and nobody knows whose: of no tenant that comes. */
#define TENANT_UNKNOWN (NONE_INDEX - 1)

/* Room on a node's GPUs in descending order: what g of them have at least. GPUs closed to new work have none. */
enum room_kind {
    ROOM_NOW,               /* free GPUs, as they are */
    ROOM_CLEARED,           /* free GPUs, when all is dropped that may be */
    ROOM_ANY,               /* free and shared GPUs (below sharers_max), likewise */
    ROOM_KINDS
};

struct node {
    uint64_t share;         /* what it adds to the digest */
    uint32_t holdings_head; /* newest first */
    uint32_t claims_head;   /* in the order they came */
    uint32_t claims_tail;
    uint32_t earmarks_head;
    uint16_t present;       /* masks */
    uint16_t open;
    uint16_t free;          /* open, no claims */
    uint8_t class;          /* NO_CLASS: no GPUs */
    struct gpu gpus[NODE_GPUS_MAX];
};

struct holding {
    uint64_t bytes;         /* on each GPU */
    uint64_t key;           /* the smallest is dropped first: clock + uses * load_ns / MiB */
    uint64_t used_order;    /* ties: the longest unused */
    int64_t load_ns;
    uint32_t uses;          /* claims it has had */
    uint32_t claims;        /* live */
    uint32_t next;          /* on the node; in the free list */
    uint32_t previous;
    uint32_t next_of_base;  /* on the node, of the same base */
    uint16_t node;
    uint16_t gpu_mask;      /* 0: the record is free */
    uint16_t base;
    bool ready;
};

/* A holding that may be dropped, as the search wants it. */
struct droppable {
    uint64_t key;
    uint64_t used_order;
    uint64_t bytes;
    uint32_t holding;
    uint16_t gpu_mask;
    bool chosen;
};

struct claim {
    uint64_t bytes;
    uint64_t base_bytes;    /* MIG: held in the slice; otherwise 0 */
    uint32_t tenant;
    uint32_t holding;
    uint32_t next;          /* on the node, by arrival; kept while it is imagined away */
    uint32_t previous;
    uint16_t node;
    uint16_t gpu_mask;      /* 0: no claim */
    uint16_t slice;
    uint16_t base;
    uint8_t isolation;
    bool trusted;
    bool clear;
    bool away;              /* imagined away */
};

struct earmark {
    int64_t from_ns;
    uint32_t next;
    uint32_t previous;
    uint16_t node;
    uint16_t gpu_mask;      /* 0: none */
};

/* Where a base's holdings are, as bitmaps over nodes. SHARED: some GPU of the holding has claims, all could take more. */
enum holding_place { READY_IDLE, READY_SHARED, LOADING_IDLE, LOADING_SHARED, HOLDING_PLACES };

struct devices {
    struct devices_config config;
    uint32_t words;         /* of a bitmap over nodes */
    struct gpu_class classes[DEVICES_CLASSES_MAX];
    struct node *nodes;
    struct holding *holdings;
    struct claim *claims;
    struct earmark *earmarks;
    uint64_t *rooms;        /* [enum room_kind][g - 1][node]: a search leaves out a node without touching it */
    uint64_t *free_nodes;   /* [class][free GPUs, 1..16][words]; nodes by their count of free GPUs */
    uint64_t *slice_nodes;  /* [class][profile][words]; a GPU already cut has a lawful start */
    uint64_t *tenant_nodes; /* [isolation][tenant % TENANT_ROWS][words]; a GPU shared by that tenant alone may take one more */
    uint64_t *trusted_nodes; /* [words]; a GPU shared by trusted tenants under MPS may take one more */
    uint64_t *sharer_nodes; /* [words]; of the search: where its job may stand beside others */
    uint64_t *base_nodes;   /* [base][enum holding_place][words] */
    uint32_t *base_counts;  /* holdings of each base */
    struct table of_base;   /* base << 16 | node -> its newest holding there */
    struct droppable *droppable; /* of the node the search looks at */
    uint32_t droppable_count;
    uint32_t *victims;      /* of the last search */
    uint32_t victims_count;
    uint32_t holdings_free;
    uint32_t holdings_free_count;
    uint32_t earmarks_count;
    uint32_t sizes[NODE_GPUS_MAX + 1]; /* nodes by GPUs present */
    uint64_t *gpus;         /* [flavor] open */
    uint64_t *gpus_busy;    /* [flavor] open, with claims */
    uint64_t orders;        /* claims and releases so far: what "longest unused" counts in */
    uint64_t clock;         /* of the dropped: GDSF's L */
    uint64_t digest_sum;
    bool restoring;         /* what was on its GPUs before is not known until it is told */
};

static inline uint32_t mask_count(uint16_t mask) { return (uint32_t)__builtin_popcount(mask); }
static inline uint32_t mask_first(uint16_t mask) { return (uint32_t)__builtin_ctz(mask); }
static inline uint16_t gpu_bit(uint32_t gpu) { return (uint16_t)(1u << gpu); }

static inline uint64_t *rooms_of(const struct devices *devices, enum room_kind kind, uint32_t gpus)
{
    return devices->rooms + ((size_t)kind * NODE_GPUS_MAX + gpus - 1) * devices->config.nodes_max;
}
static inline uint64_t *free_nodes(const struct devices *devices, uint32_t class, uint32_t free)
{
    return devices->free_nodes + ((size_t)class * (NODE_GPUS_MAX + 1) + free) * devices->words;
}
static inline uint64_t *slice_nodes(const struct devices *devices, uint32_t class, uint32_t profile)
{
    return devices->slice_nodes + ((size_t)class * MIG_PROFILES + profile) * devices->words;
}
static inline uint64_t *base_nodes(const struct devices *devices, uint32_t base, enum holding_place place)
{
    return devices->base_nodes + ((size_t)base * HOLDING_PLACES + place) * devices->words;
}

static inline uint64_t *tenant_nodes(const struct devices *devices, uint8_t isolation, uint32_t tenant)
{
    size_t row = (size_t)isolation * TENANT_ROWS + tenant % TENANT_ROWS;

    return devices->tenant_nodes + row * devices->words;
}
/* The first of the base's holdings on the node; the others follow by next_of_base. */
static inline uint32_t holding_of_base(const struct devices *devices, uint32_t node, uint32_t base)
{
    return devices->base_counts[base] == 0 ? NONE_INDEX : table_find(&devices->of_base, (uint64_t)base << 16 | node);
}

static inline uint64_t gpu_room_now(const struct gpu_class *class, const struct gpu *gpu)
{
    return class->bytes - gpu->holdings_bytes - gpu->claims_bytes;
}
static inline uint64_t gpu_room_cleared(const struct gpu_class *class, const struct gpu *gpu)
{
    return class->bytes - gpu->fixed_bytes - gpu->claims_bytes;
}
/* One more job beside those on it, whoever's it is. */
static inline bool gpu_shareable(const struct devices *devices, const struct gpu *gpu)
{
    return gpu->mode == GPU_SHARED && gpu->jobs < devices->config.sharers_max;
}

/* May this job stand on the GPU beside those that are there? Isolation only; bytes are another question. */
static inline bool gpu_joinable(const struct devices *devices, const struct gpu *gpu, const struct devices_ask *ask)
{
    if (!gpu_shareable(devices, gpu) || gpu->isolation != ask->isolation)
        return false;
    return gpu->tenant == ask->tenant || (ask->isolation == ISOLATION_MPS && ask->trusted && gpu->trusted);
}

void node_unfile(struct devices *devices, uint32_t node);
void node_file(struct devices *devices, uint32_t node);
/* Takes a live claim out of the sums, and puts it back exactly there (last out, first in). */
void claim_detach(struct devices *devices, uint32_t job);
void claim_attach(struct devices *devices, uint32_t job);

static inline uint32_t slice_profile(uint16_t slice) { return slice >> 8; }
static inline uint32_t slice_start(uint16_t slice) { return (slice & 0xffu) - 1; }
static inline uint16_t slice_make(uint32_t profile, uint32_t start) { return (uint16_t)(profile << 8 | (start + 1)); }

/* The smallest profile that holds so many bytes; MIG_PROFILES: none. */
uint32_t mig_smallest(uint16_t model, uint64_t bytes);
uint8_t mig_slice_bits(uint32_t profile, uint32_t start);
uint32_t mig_compute_slices(uint32_t profile);
/* May an instance start there on this GPU (MIG, or free)? */
bool mig_fits(uint16_t model, const struct gpu *gpu, uint32_t profile, uint32_t start);
bool mig_fits_somewhere(uint16_t model, const struct gpu *gpu, uint32_t profile);
/* The lawful start that leaves the largest aligned blocks free; NONE_INDEX: none. */
uint32_t mig_best_start(uint16_t model, const struct gpu *gpu, uint32_t profile);

#endif
