/* The ledger: every GPU's bill, interval by interval, split to the last 1e-9 of a currency unit. Integers only; sums equal
 * the bill exactly. The rule is section 3.8 of the specification: between two changes a GPU's state is constant, and its
 * price for that interval is split
 *   memory half: each resident base's bytes equally among the tenants with a live claim on it (Shapley value of sharing it);
 *     exclusive bytes to their owners; the rest is idle;
 *   compute half: by measured use (eta shares of the jobs that run); the rest is idle;
 *   loading: while a base loads, all of the GPU to those whose jobs wait for it, equally;
 *   idle: first to tenants whose nominal quota stands unused (pro rata to unused), the rest to the platform.
 * F(t) = floor(price * (t - t0) / 3.6e12) in 128 bits is a GPU's bill to t; an interval costs F(b) - F(a). Equal splits use one
 * accumulator a GPU (increment + carry) / n with the carry kept; the last carry goes to the platform. Borrowed (preemptible, above
 * nominal) use is multiplied by usage_factor and the difference booked to the platform, so conservation survives discounts.
 * Only fleet/ uses this. */
#ifndef FLEET_LEDGER_H
#define FLEET_LEDGER_H

#include "fleet/event.h"

struct ledger;

struct ledger_config {
    uint32_t gpus_max;         /* GPUs are numbered node * 16 + gpu */
    uint32_t tenants_max;      /* accounts 0 .. tenants_max - 1; tenants_max is the platform */
    uint32_t claims_max;       /* by job slot */
    uint32_t usage_factor_milli; /* of borrowed time; 1000: none */
    uint32_t memory_milli;     /* w_mem; 500: half for memory, half for compute */
};

size_t ledger_bytes(const struct ledger_config *config);
struct ledger *ledger_create(void *memory, size_t memory_bytes, const struct ledger_config *config);

/* A GPU begins and ends to cost; a price change is a new interval. */
void ledger_gpu_up(struct ledger *ledger, uint32_t gpu, int64_t at_ns, int64_t price_nano_per_hour, uint64_t bytes);
void ledger_gpu_price(struct ledger *ledger, uint32_t gpu, int64_t at_ns, int64_t price_nano_per_hour);
void ledger_gpu_down(struct ledger *ledger, uint32_t gpu, int64_t at_ns);
/* A base's bytes come to, or leave, a GPU. `loading`: until ledger_base_ready() its time is LOADING. */
void ledger_base_on(struct ledger *ledger, uint32_t gpu, int64_t at_ns, uint16_t base, uint64_t bytes, bool loading);
void ledger_base_ready(struct ledger *ledger, uint32_t gpu, int64_t at_ns, uint16_t base);
void ledger_base_off(struct ledger *ledger, uint32_t gpu, int64_t at_ns, uint16_t base);
/* A claim: this job holds `bytes` of its own and uses the base; compute_milli of the GPU while it runs (1000 / k for k sharers,
 * changed by ledger_compute()). `borrowed`: above its tenant's nominal quota. */
void ledger_claim_on(struct ledger *ledger, uint32_t gpu, int64_t at_ns, uint32_t job, uint32_t tenant, uint16_t base,
                     uint64_t bytes, uint32_t compute_milli, bool borrowed);
void ledger_compute(struct ledger *ledger, uint32_t gpu, int64_t at_ns, uint32_t job, uint32_t compute_milli);
void ledger_claim_off(struct ledger *ledger, uint32_t gpu, int64_t at_ns, uint32_t job);
/* Unused nominal quota of a tenant has changed; idle time from here on is pro rata to these. */
void ledger_unused(struct ledger *ledger, int64_t at_ns, uint32_t tenant, int64_t unused_milli);
/* A charge that is not of a GPU: storage. */
void ledger_book(struct ledger *ledger, uint32_t account, enum charge_component component, int64_t amount_nano);

/* Closes every open interval at at_ns. After it: sum of all accounts and components == ledger_bill(). */
void ledger_settle(struct ledger *ledger, int64_t at_ns);
int64_t ledger_account(const struct ledger *ledger, uint32_t account, enum charge_component component);
int64_t ledger_account_total(const struct ledger *ledger, uint32_t account);
/* Of all GPUs up to the last settle: sum of F. */
int64_t ledger_bill(const struct ledger *ledger);

void ledger_check(const struct ledger *ledger);
uint64_t ledger_digest(const struct ledger *ledger);

/* Splits `total` by weights, largest remainder first, ties to the lower index: for printing only. Weights all zero: all to
 * `sink`. */
void ledger_split(int64_t total, const int64_t *weights, uint32_t count, uint32_t sink, int64_t *ret_parts);

#endif
