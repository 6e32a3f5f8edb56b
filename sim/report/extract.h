/* What the figures need of one variant, gathered from the results file in one pass and fixed memory: histograms of
 * latencies, time series in bins, a sample of the tenants. Rows are never held all at once. */
#ifndef REPORT_EXTRACT_H
#define REPORT_EXTRACT_H

#include <stdio.h>

#include "base/histogram.h"
#include "report/extract_jobs.h"
#include "results/summary.h"

#define EXTRACT_TENANTS_MAX 2000

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

struct extracted {
    double objective_ttft_s;    /* 0: not part of the objective, or not in the file */
    double objective_e2e_s;
    struct histogram ttft;      /* of requests done that arrived after the warm-up */
    struct histogram e2e;
    uint32_t replicas;
    double series_start_s;
    double sample_s;            /* interval of the samples, as found */
    double bin_s;               /* a multiple of it */
    uint32_t bins_count;
    struct series_bin bins[EXTRACT_BINS_MAX];
    uint64_t tenants_stride;    /* every so many-th tenant was taken */
    uint32_t tenants_count;
    struct tenant_point tenants[EXTRACT_TENANTS_MAX];
    struct extracted_jobs jobs;
};

struct extract;

/* STATUS_IO or STATUS_CORRUPT, said on `errors`, when it's no readable results file. */
enum status extract_open(const char *path, FILE *errors, struct extract **ret_extract);
void extract_close(struct extract *extract); /* accepts NULL */
/* Of the berth that wrote the file; empty when it does not say. Owned by `extract`. */
const char *extract_version(const struct extract *extract);
/* Reads one variant. What is missing or damaged is said on `errors` and left empty, as half a report is better than none. */
void extract_variant(struct extract *extract, const struct summary *summary, FILE *errors, struct extracted *ret_extracted);

#endif
