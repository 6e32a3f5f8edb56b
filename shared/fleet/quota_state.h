/* The inside of a quota, shared by quota.c (the tree), usage.c (the half-life) and shares.c (water filling). Nodes are
 * numbered tenants first, then cohorts; a cell is a node in one flavor. */
#ifndef FLEET_QUOTA_STATE_H
#define FLEET_QUOTA_STATE_H

#include "fleet/quota.h"

__extension__ typedef __int128 int128;

struct quota_node {
    uint32_t parent;       /* a node; NONE_INDEX: a root */
    uint32_t weight_milli; /* 0: not known yet */
};

/* subtree and usage are sums over children; they are kept in 128 bits so that they are exact and can be undone, with
 * QUOTA_UNLIMITED standing for 2^80 in them: more than all that is limited and used together. */
struct quota_cell {
    int64_t nominal_milli;
    int64_t borrowing_milli;
    int64_t lending_milli;
    int64_t zero;
    int128 subtree; /* nominal + what children lend to this node */
    int128 usage;   /* tenant: its own; cohort: what children use beyond what they are guaranteed */
    int128 excess;  /* usage above the limit that a changed limit, or taking over, has left: it only shrinks */
};

/* Usage in 2^-32 GPU-ns, as if all of it had been used at the instant epoch * half_life; see usage.c. */
struct quota_usage {
    int128 value;
    uint64_t epoch;
};

struct quota_sum {
    int128 subtree;
    int128 usage;
};

struct quota {
    struct quota_config config;
    uint32_t nodes_count;
    uint32_t tenants_known;
    struct quota_cell *cells;   /* [nodes_count][flavors_max] */
    struct quota_usage *usages; /* [tenants_max] */
    struct quota_node *nodes;   /* [nodes_count] */
    /* Scratch, of no meaning between calls. */
    struct quota_sum *sums;     /* [nodes_count], of quota_check() */
    uint64_t *remainders;       /* [tenants_max], of quota_water_fill() */
    uint32_t *order;            /* [tenants_max], of quota_water_fill() */
};

#endif
