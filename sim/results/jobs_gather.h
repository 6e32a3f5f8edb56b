/* The running statistics of one variant's jobs: histograms of a fixed size by kind and by size, a few words a tenant
 * (as many as were seen), and at the end the numbers of jobs_summary.h. Memory does not grow with the jobs. */
#ifndef RESULTS_JOBS_GATHER_H
#define RESULTS_JOBS_GATHER_H

#include "results/jobs.h"

struct jobs_gather;

/* Finish-time fairness is summed in millionths. */
#define RHO_ONE INT64_C(1000000)

/* Jobs submitted in the warm-up are left out. */
struct job_tenant_totals {
    uint64_t submitted;
    uint64_t started;
    uint64_t done;
    uint64_t rho_count;         /* of done: their size is known */
    uint128 wait_ns;            /* of those started */
    uint128 completion_ns;      /* of those done */
    uint128 rho_micro;
    uint128 asked_gpu_ns;       /* of those done */
    uint128 held_gpu_ns;        /* of all */
};

/* The scenario has jobs; it is not kept. */
struct jobs_gather *jobs_gather_create(const struct scenario *scenario);
void jobs_gather_free(struct jobs_gather *gather); /* accepts NULL */
void jobs_gather_job(struct jobs_gather *gather, const struct job_row *row);
/* Fills every field; `facts` has jobs. What the summary then owns is freed by summary_free(). */
void jobs_gather_summary(const struct jobs_gather *gather, const struct run_facts *facts, struct jobs_summary *ret_summary);
/* 0 .. that - 1 have rows, or none between; zeros for one without. */
uint32_t jobs_gather_tenants_count(const struct jobs_gather *gather);
const struct job_tenant_totals *jobs_gather_tenant(const struct jobs_gather *gather, uint32_t tenant);

#endif
