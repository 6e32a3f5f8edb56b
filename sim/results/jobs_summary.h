/* The numbers about jobs that a person sees, of one variant. Part of struct summary. */
#ifndef RESULTS_JOBS_SUMMARY_H
#define RESULTS_JOBS_SUMMARY_H

#include "fleet/event.h"

struct span {
    uint64_t count;
    double mean_s;
    double p50_s;
    double p90_s;
    double p99_s;
    double max_s;
};

#define JOBS_SUMMARY_KINDS 16
struct job_kind_summary {
    char name[64];
    uint64_t submitted;
    uint64_t done;
    struct span wait;           /* submitted to first computing */
    struct span completion;     /* submitted to done */
    double gpu_hours;           /* held */
};

struct jobs_summary {
    bool present;               /* the scenario has jobs */
    uint64_t submitted, done, failed, cancelled, refused, overload, unfinished; /* submitted in the measured window */
    uint64_t refused_by_reason[16];
    double days;                /* of the measured window */
    double gpu_hours_per_day;   /* sum of sizes x GPUs of jobs done: what was asked of the pool */
    double held_gpu_hours_per_day;
    struct span wait;
    struct span completion;
    double within_2h;           /* share of jobs done whose completion took at most two hours */
    struct span rho;            /* finish-time fairness: completion over size, a plain number (in the *_s fields) */
    double unfair_share;        /* of jobs with rho above the tenant-mean's double */
    double jain;                /* over tenants: mean rho */
    double allocated_share;     /* of GPU time, claimed */
    double used_share;          /* of GPU time, computing */
    double lost_gpu_hours;
    double checkpoint_gpu_hours;
    double load_gpu_hours;
    uint64_t reclaims, preempts, notices, losses;
    uint64_t base_loads, base_hits, base_drops;
    uint64_t published;
    struct job_kind_summary kinds[JOBS_SUMMARY_KINDS];
    uint32_t kinds_count;
    /* Others than the burst's tenant: whether one customer's flood is felt. count 0: no burst. */
    struct span others_wait;
    struct span burst_wait;
    /* Money, exact: amounts in 1e-9 units. Owned by the summary; summary_free(). */
    int64_t cost_total_nano;    /* equals the sum of all accounts, platform included */
    int64_t *cost_nano;         /* [tenants_count + 1][CHARGE_COUNT] */
    uint32_t tenants_count;
    double cost_per_million_tokens; /* trained tokens of jobs done; NaN: unknown */
    double idle_adapter_per_month;
};

#endif
