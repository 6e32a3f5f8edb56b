/* The ledger the slow way: between two events every share of every GPU is worked out anew from what is there, and
 * added up in exact fractions. It also knows which events are possible, and draws them. */
#ifndef TESTS_LEDGER_TWIN_H
#define TESTS_LEDGER_TWIN_H

#include "fleet/ledger.h"

enum { TWIN_GPUS = 3, TWIN_BASES = 3, TWIN_TENANTS = 4, TWIN_JOBS = 6, TWIN_MILLI = 1000 };
#define TWIN_BYTES UINT64_C(151397597184)

/* atto + parts / TWIN_PARTS; the divisor is one of every number of sharers there can be. */
#define TWIN_PARTS ((uint64_t)3600000000000 * 27720)
struct twin_amount {
    uint128 atto;
    uint128 parts;
};

struct twin_claim {
    bool on;
    bool borrowed;
    uint32_t tenant;
    uint16_t base;
    uint64_t bytes;
    uint32_t compute_milli;
};

struct twin_base {
    bool on;
    bool loading;
    uint64_t bytes;
};

struct twin_gpu {
    bool up;
    int64_t price;
    uint128 cost; /* price * time since it came up */
    struct twin_base bases[TWIN_BASES];
    struct twin_claim claims[TWIN_JOBS];
};

struct twin {
    struct ledger_config config;
    int64_t at_ns;
    int64_t closed_nano;
    struct twin_gpu gpus[TWIN_GPUS];
    int64_t unused_milli[TWIN_TENANTS];
    struct twin_amount full[TWIN_TENANTS][CHARGE_COUNT];
    struct twin_amount borrowed[TWIN_TENANTS][CHARGE_COUNT];
};

enum twin_event_kind {
    TWIN_NOTHING,
    TWIN_GPU_UP,
    TWIN_GPU_PRICE,
    TWIN_GPU_DOWN,
    TWIN_BASE_ON,
    TWIN_BASE_READY,
    TWIN_BASE_OFF,
    TWIN_CLAIM_ON,
    TWIN_COMPUTE,
    TWIN_CLAIM_OFF,
    TWIN_UNUSED
};
struct twin_event {
    enum twin_event_kind kind;
    int64_t at_ns;
    uint32_t gpu;
    uint32_t job;
    uint32_t tenant;
    uint16_t base;
    bool flag;      /* loading; borrowed */
    uint64_t bytes;
    int64_t amount; /* price; compute_milli; unused_milli */
};

struct twin_event twin_draw(const struct twin *twin, uint64_t *random);
void twin_apply(struct twin *twin, const struct twin_event *event);
/* The same to the ledger. */
void twin_tell(struct ledger *ledger, const struct twin_event *event);
int64_t twin_bill(const struct twin *twin);

#endif
