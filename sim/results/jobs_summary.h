/* The numbers about jobs that a person sees, of one variant. Part of struct summary. */
#ifndef RESULTS_JOBS_SUMMARY_H
#define RESULTS_JOBS_SUMMARY_H

#include "fleet/event.h"

/* count 0: the rest is NaN. */
struct span {
    uint64_t count;
    double mean_s;
    double p50_s;
    double p90_s;
    double p99_s;
    double max_s;
};

/* What a refused job needed and what there was, in the unit of its sentence. */
struct job_refusal {
    uint64_t need;
    uint64_t have;
};

#define JOBS_SUMMARY_KINDS 16
#define JOBS_SUMMARY_SIZES 4
#define JOBS_SUMMARY_BASES 32
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
    /* Evaluations that follow a training are no jobs of their own: in none of these counts, spans and classes but `held`. */
    uint64_t submitted, done, failed, cancelled, refused, overload, unfinished; /* submitted in the measured window */
    uint64_t started;           /* of submitted: it computed; the waits are of these */
    uint64_t deadlines, deadlines_missed; /* of submitted: it has one; it was not done by then */
    uint64_t refused_by_reason[16];
    struct job_refusal refused_worst[16]; /* the one that needed most, by reason */
    double days;                /* of the measured window */
    double gpu_hours_per_day;   /* sum of sizes x GPUs of jobs done: what was asked of the pool */
    double held_gpu_hours_per_day;
    struct span wait;
    struct span completion;
    double within_2h;           /* share of jobs done whose completion took at most two hours */
    struct span tenant_wait;    /* over tenants: the mean wait of each */
    struct span rho;            /* finish-time fairness: completion over size, a plain number (in the *_s fields) */
    double unfair_share;        /* of jobs with rho above the tenant-mean's double */
    double jain;                /* over tenants: mean rho */
    double allocated_share;     /* of GPU time, claimed */
    double used_share;          /* of GPU time, computing */
    double lost_gpu_hours;
    double checkpoint_gpu_hours;
    double load_gpu_hours;
    uint64_t reclaims, preempts, notices, serving_stops, losses;
    uint64_t base_loads, base_hits, base_drops;
    uint64_t published, publish_blocked;
    uint64_t joined, republished, upgraded, publish_refused; /* see struct jobs_facts */
    uint64_t upgrade_adapters, upgrade_jobs;
    struct job_kind_summary kinds[JOBS_SUMMARY_KINDS];
    uint32_t kinds_count;
    struct job_kind_summary evaluations;
    struct job_kind_summary sizes[JOBS_SUMMARY_SIZES]; /* by GPU time asked for, smallest first */
    char base_names[JOBS_SUMMARY_BASES][64]; /* by a base's number */
    uint32_t bases_count;
    char flavor_names[8][64];
    uint32_t flavors_count;
    /* Whether one customer's flood is felt. A scenario may describe a burst and have no job in it: that is the variant to
     * compare with, and `others` are the same tenants in both. */
    bool burst_described;
    uint64_t burst_jobs;        /* of a burst; 0: none in this variant */
    uint32_t burst_tenant;
    struct span others_wait;    /* of all tenants but that one */
    struct span burst_wait;     /* of that one */
    /* Money, exact: amounts in 1e-9 units. Owned by the summary; summary_free(). */
    int64_t cost_total_nano;    /* equals the sum of all accounts, platform included */
    int64_t cost_serving_nano;  /* of that, what serving costs; the platform has it */
    int64_t *cost_nano;         /* [tenants_count + 1][CHARGE_COUNT] */
    char **tenant_names;        /* [tenants_count], entries may be NULL; NULL: none has a name */
    uint32_t tenants_count;
    uint64_t tokens_trained;    /* of all jobs done, warm-up included, as the bill is of the whole run */
    double cost_per_million_tokens; /* trained tokens of jobs done, of all costs but serving's; NaN: unknown */
    double idle_adapter_per_month;
    double idle_adapter_host_per_month;
};

/* What one account pays, all components; `tenants_count` is the platform. And what one component comes to, all accounts. */
int64_t jobs_account_nano(const struct jobs_summary *jobs, uint32_t account);
int64_t jobs_component_nano(const struct jobs_summary *jobs, uint32_t component);
static inline int64_t jobs_without_serving_nano(const struct jobs_summary *jobs)
{
    return jobs->cost_total_nano - jobs->cost_serving_nano;
}

#endif
