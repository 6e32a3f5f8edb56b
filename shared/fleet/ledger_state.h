/* The ledger inside: accounts, and for each GPU the shares that are constant until they change. Only ledger*.c. */
#ifndef FLEET_LEDGER_STATE_H
#define FLEET_LEDGER_STATE_H

#include "fleet/ledger.h"

__extension__ typedef __int128 int128;

#define HOUR_NS INT64_C(3600000000000)
/* Shares are billionths of a GPU, amounts atto (1e-9 of a nano): price * time * share / HOUR_NS is in atto. */
#define WHOLE INT64_C(1000000000)
#define ATTO_PER_NANO INT64_C(1000000000)
#define SHARED_COMPONENTS (CHARGE_LOADING + 1) /* what claims pay, and what a discount applies to */

struct amount {
    int64_t nano;
    int64_t atto; /* 0 .. ATTO_PER_NANO - 1 */
};

struct ledger_account {
    struct amount full[CHARGE_COUNT];
    struct amount borrowed[SHARED_COMPONENTS]; /* the part of `full` that borrowed claims made */
    int64_t unused_milli;
    int64_t withheld_nano; /* of RESERVED_IDLE at the last settle, given back at the next */
    uint128 idle_from;     /* ledger.idle_atto when it last paid */
};

/* An integral shared equally: `atto` is what one of the sharers has had to pay since the beginning. */
struct accumulator {
    uint128 from;  /* the integral up to where it was shared */
    uint128 atto;
    uint128 carry; /* below HOUR_NS * count; given up when the count changes */
};

/* A tenant with live claims on a base on a GPU. */
struct ledger_sharer {
    uint32_t next;
    uint32_t tenant;
    uint32_t claims;
    uint32_t claims_borrowed;
    uint128 residency_from; /* the accumulators when it last paid */
    uint128 loading_from;
};

struct ledger_base {
    uint32_t next;
    uint32_t sharers;       /* list */
    uint32_t sharers_count;
    uint16_t base;
    bool loading;
    uint64_t bytes;
    int64_t share;
    struct accumulator residency; /* of gpu.running */
};

struct ledger_claim {
    uint32_t next;
    uint32_t job;
    uint32_t tenant;
    uint16_t base;
    bool borrowed;
    uint32_t compute_milli;
    uint64_t bytes;
    int64_t memory_share;
    int64_t compute_share;
    uint128 from;           /* gpu.running when it last paid */
    uint64_t memory_carry;  /* below HOUR_NS */
    uint64_t compute_carry;
};

struct ledger_gpu {
    bool up;
    uint32_t bases;         /* lists */
    uint32_t claims;
    uint32_t waiting;       /* sharers of loading bases */
    int64_t at_ns;
    int64_t price;          /* nano an hour */
    uint64_t bytes;
    uint64_t bytes_taken;   /* by all bases and claims */
    uint64_t compute_milli; /* of all claims */
    int64_t used_share;     /* of claims, and of bases that have sharers */
    /* Price integrated over time, since it came up: their sum is HOUR_NS times its bill. */
    uint128 running;
    uint128 loading;        /* while somebody waited for a base */
    struct accumulator wait; /* of `loading` */
    int128 idle_rate;       /* price * idle share now */
};

struct pool {
    unsigned char *items;   /* a record's first member is its uint32_t next */
    size_t item_bytes;
    uint32_t free;          /* list */
    uint32_t used;          /* records ever taken: those from here on were never touched */
    uint32_t max;
};

struct ledger {
    struct ledger_config config;
    struct ledger_gpu *gpus;         /* [gpus_max] */
    struct ledger_account *accounts; /* [tenants_max + 1] */
    struct pool bases, claims, sharers;
    int64_t at_ns;
    int64_t settled_at_ns;
    int64_t closed_nano;   /* bills of GPUs that went, and charges beside GPUs */
    int64_t bill_nano;     /* at the last settle */
    int64_t booked_nano;   /* sum of all accounts */
    int128 idle_rate;      /* sum of the GPUs' */
    uint128 reserved_rate; /* what of it unused reservations pay */
    uint128 price_sum;     /* of GPUs that are up */
    uint64_t up_count;
    uint64_t unused_milli; /* sum of the tenants' */
    uint128 idle_atto;     /* what a thousandth of an unused GPU has had to pay since the beginning */
    uint128 idle_carry;    /* below HOUR_NS * unused_milli */
};

/* ledger_account.c */
void ledger_amount_add(struct ledger *ledger, uint32_t account, enum charge_component component, uint128 atto,
                       bool borrowed);
void ledger_idle_turn(struct ledger *ledger, int64_t at_ns);
void ledger_idle_rate_set(struct ledger *ledger);
uint128 ledger_reserved_rate(const struct ledger *ledger);
int64_t ledger_gpu_bill(const struct ledger_gpu *gpu);

/* ledger.c: a GPU is brought to the present, and all on it pay. */
void ledger_gpu_pay(struct ledger *ledger, struct ledger_gpu *gpu);

/* Sums stay below 2^63 nano: an account that wrapped would be money made from nothing. */
static inline int64_t nano_add(int64_t a, int64_t b)
{
    int64_t sum;
    bool wrapped = __builtin_add_overflow(a, b, &sum);

    check(!wrapped);
    return sum;
}

static inline struct ledger_base *base_at(const struct ledger *ledger, uint32_t i)
{
    return (struct ledger_base *)(void *)ledger->bases.items + i;
}
static inline struct ledger_claim *claim_at(const struct ledger *ledger, uint32_t i)
{
    return (struct ledger_claim *)(void *)ledger->claims.items + i;
}
static inline struct ledger_sharer *sharer_at(const struct ledger *ledger, uint32_t i)
{
    return (struct ledger_sharer *)(void *)ledger->sharers.items + i;
}

#endif
