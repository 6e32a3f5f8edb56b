/* What the figures need of one variant, gathered from the results file in one pass and fixed memory: histograms of
 * latencies, time series in bins, a sample of the tenants. Rows are never held all at once. */
#ifndef REPORT_GATHER_H
#define REPORT_GATHER_H

#include <stdio.h>

#include "base/histogram.h"
#include "results/summary.h"

#define GATHER_BINS_MAX 240
#define GATHER_TENANTS_MAX 2000

/* Sums over the samples of all replicas that fell into the bin; divide by `samples`. */
struct series_bin {
    uint64_t samples;
    double waiting;
    double running;
    double kv_share;
    double kv_share_max;
    double slots_share;
    double slots_share_max;
    uint64_t loads;
    uint64_t hits;
    uint64_t misses;
};

struct tenant_point {
    uint64_t requests;
    double e2e_mean_s;
};

struct gathered {
    double objective_ttft_s;    /* 0: not part of the objective, or not in the file */
    double objective_e2e_s;
    struct histogram ttft;      /* of requests done that arrived after the warm-up */
    struct histogram e2e;
    uint32_t replicas;
    double series_start_s;
    double sample_s;            /* interval of the samples, as found */
    double bin_s;               /* a multiple of it */
    uint32_t bins_count;
    struct series_bin bins[GATHER_BINS_MAX];
    uint64_t tenants_stride;    /* every so many-th tenant was taken */
    uint32_t tenants_count;
    struct tenant_point tenants[GATHER_TENANTS_MAX];
};

struct gather;

/* STATUS_IO or STATUS_CORRUPT, said on `errors`, when it's no readable results file. */
enum status gather_open(const char *path, FILE *errors, struct gather **ret_gather);
void gather_close(struct gather *gather); /* accepts NULL */
/* Of the berth that wrote the file; empty when it does not say. Owned by `gather`. */
const char *gather_version(const struct gather *gather);
/* Reads one variant. What is missing or damaged is said on `errors` and left empty, as half a report is better than none. */
void gather_variant(struct gather *gather, const struct summary *summary, FILE *errors, struct gathered *ret_gathered);

#endif
