/* The ledger: every GPU's bill, interval by interval, split to the last 1e-9 of a currency unit. Integers only; sums
 * equal the bill exactly. The rule is section 3.8 of the specification: between two changes a GPU's state is
 * constant, and its price for that interval is split
 *   memory half: each resident base's bytes equally among the tenants with a live claim on it (Shapley value of
 *     sharing it); exclusive bytes to their owners; the rest is idle;
 *   compute half: by measured use (eta shares of the jobs that run); the rest is idle;
 *   loading: while a base loads, all of the GPU to those whose jobs wait for it, equally;
 *   idle: first to tenants whose nominal quota stands unused (pro rata to unused), the rest to the platform.
 * F(t) = floor(price * (t - t0) / 3.6e12) in 128 bits is a GPU's bill to t; an interval costs F(b) - F(a).
 *
 * How it is kept exact and cheap. A state is a set of shares in billionths of the GPU (bytes and compute rounded
 * down, the rest is idle), and a part's amount is share * (price integrated over time): nothing is touched until it
 * changes, so an event costs its own GPU's claims and bases at most. Equal splits use one accumulator for a base on a
 * GPU, (increment + carry) / n; a tenant pays its rise between joining and leaving, once, however many jobs it has
 * there. Amounts are kept in atto (1e-9 nano), accounts show whole nano rounded down, and what all the rounding
 * leaves is the platform's IDLE: no tenant pays more than its exact share, and an event that changes no share changes
 * no amount at all.
 *
 * Unused reservations: at each instant all GPUs' idle money is shared among tenants pro rata to their unused quota,
 * but an unused GPU costs at most the mean price of the GPUs that are up; the platform has the rest. Where the
 * platform has no idle money of its own, that every F rounds down may leave the bill short of less than one nano a
 * GPU: it is taken from the lowest tenants' RESERVED_IDLE, until the bill has caught up.
 *
 * Borrowed (preemptible, above nominal) use is multiplied by usage_factor, by component over the tenant's whole
 * borrowed use, rounded down; the tenant's accounts show the full components and a negative DISCOUNT, the platform
 * the positive one. A tenant whose claims on one base are partly borrowed pays its residency in full: it would be
 * there anyway.
 *
 * Limits, checked: an account and the bill stay below 2^63 nano (9.2e9 of the currency: ten thousand GPU-years at
 * 100 an hour), what one claim owes between two payments below 4.4e16 nano. Only fleet/ uses this. */
#ifndef FLEET_LEDGER_H
#define FLEET_LEDGER_H

#include "fleet/event.h"

struct ledger;

struct ledger_config {
    uint32_t gpus_max;         /* GPUs are numbered node * 16 + gpu */
    uint32_t tenants_max;      /* accounts 0 .. tenants_max - 1; tenants_max is the platform */
    uint32_t claims_max;       /* by job slot */
    uint32_t usage_factor_milli; /* of borrowed time, <= 1000; 1000: no discount */
    uint32_t memory_milli;     /* w_mem, <= 1000; 500: half for memory, half for compute */
    uint32_t claims_per_gpu_max; /* on the average GPU at once; 0: 16 */
    uint32_t bases_per_gpu_max;  /* the same of bases; 0: 8 */
};

/* A claim on no shared base (a slice's base is its own: part of the claim's bytes). */
#define LEDGER_NO_BASE UINT16_MAX

size_t ledger_bytes(const struct ledger_config *config);
struct ledger *ledger_create(void *memory, size_t memory_bytes, const struct ledger_config *config);

/* Events come in the order of time. Shares may exceed a GPU between events of one instant, not over time. Releases
 * are total and come in any order: what is not there is not missed, a GPU that goes ends its claims and bases, a base
 * that goes leaves its claims, and a claim may come before its base. */

/* A GPU begins and ends to cost; a price change is a new interval. */
void ledger_gpu_up(struct ledger *ledger, uint32_t gpu, int64_t at_ns, int64_t price_nano_per_hour, uint64_t bytes);
void ledger_gpu_price(struct ledger *ledger, uint32_t gpu, int64_t at_ns, int64_t price_nano_per_hour);
void ledger_gpu_down(struct ledger *ledger, uint32_t gpu, int64_t at_ns);
/* A base's bytes come to, or leave, a GPU. `loading`: until ledger_base_ready() the GPU's time is LOADING while a
 * claim waits for the base (several bases: equally among all that wait); with nobody waiting its bytes are idle, as
 * any base's. */
void ledger_base_on(struct ledger *ledger, uint32_t gpu, int64_t at_ns, uint16_t base, uint64_t bytes, bool loading);
void ledger_base_ready(struct ledger *ledger, uint32_t gpu, int64_t at_ns, uint16_t base);
void ledger_base_off(struct ledger *ledger, uint32_t gpu, int64_t at_ns, uint16_t base);
/* A claim: this job holds `bytes` of its own and uses the base; compute_milli of the GPU while it runs (1000 / k for
 * k sharers, changed by ledger_compute()). `borrowed`: above its tenant's nominal quota. */
void ledger_claim_on(struct ledger *ledger, uint32_t gpu, int64_t at_ns, uint32_t job, uint32_t tenant, uint16_t base,
                     uint64_t bytes, uint32_t compute_milli, bool borrowed);
void ledger_compute(struct ledger *ledger, uint32_t gpu, int64_t at_ns, uint32_t job, uint32_t compute_milli);
void ledger_claim_off(struct ledger *ledger, uint32_t gpu, int64_t at_ns, uint32_t job);
/* Unused nominal quota of a tenant has changed; idle time from here on is pro rata to these. */
void ledger_unused(struct ledger *ledger, int64_t at_ns, uint32_t tenant, int64_t unused_milli);
/* A charge that is not of a GPU: storage. It is part of the bill. */
void ledger_book(struct ledger *ledger, uint32_t account, enum charge_component component, int64_t amount_nano);

/* Closes every open interval at at_ns. After it: sum of all accounts and components == ledger_bill(). */
/* It changes no later amount: settled often or once, the accounts are the same. */
void ledger_settle(struct ledger *ledger, int64_t at_ns);
int64_t ledger_account(const struct ledger *ledger, uint32_t account, enum charge_component component);
int64_t ledger_account_total(const struct ledger *ledger, uint32_t account);
/* Up to the last settle: sum of F of all GPUs, and what was booked beside it. */
int64_t ledger_bill(const struct ledger *ledger);

void ledger_check(const struct ledger *ledger);
uint64_t ledger_digest(const struct ledger *ledger);

/* Splits `total` by weights (>= 0), largest remainder first, ties to the lower index: for printing only. Weights all
 * zero: all to `sink`, an index below count. A negative total is split as its opposite. */
void ledger_split(int64_t total, const int64_t *weights, uint32_t count, uint32_t sink, int64_t *ret_parts);

#endif
