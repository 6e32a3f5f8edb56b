/* The running statistics of one variant in a fixed number of bytes (and a few words a tenant and replica): histograms by
 * class and metric, blame by latency, the flow over time. At the end they become a summary. */
#ifndef RESULTS_GATHER_H
#define RESULTS_GATHER_H

#include "results/flow.h"
#include "results/results.h"

struct gather;

/* Requests that arrived in the warm-up are left out. Times that never were add nothing. */
struct tenant_totals {
    uint64_t requests;
    uint64_t completed;
    uint64_t prompt_tokens;
    uint64_t output_tokens;
    uint128 ttft_ns;
    uint128 e2e_ns;
};

/* What samples add up to over the whole run. */
struct sample_totals {
    uint64_t hits;
    uint64_t misses;
    uint64_t loads;
};

struct gather *gather_create(const struct scenario *scenario, uint32_t replicas_count, uint32_t tenants_count);
void gather_free(struct gather *gather);
void gather_request(struct gather *gather, const struct request_row *row);
void gather_sample(struct gather *gather, const struct replica_sample *sample);
void gather_gap(struct gather *gather, uint32_t replica, int64_t until_ns);
/* Fills every field. */
void gather_summary(const struct gather *gather, const struct run_facts *facts, struct summary *ret_summary);
uint32_t gather_tenants_count(const struct gather *gather);
const struct tenant_totals *gather_tenant(const struct gather *gather, uint32_t tenant);
struct sample_totals gather_sample_totals(const struct gather *gather);

#endif
