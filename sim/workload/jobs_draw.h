/* What a job is like, from its luck and the scenario's kinds. */
#ifndef WORKLOAD_JOBS_DRAW_H
#define WORKLOAD_JOBS_DRAW_H

#include "workload/jobs.h"
#include "workload/popularity.h"
#include "workload/rng.h"

/* A number in (0, 1) for each choice. */
struct job_luck {
    double kind;
    double tenant;
    double tokens;
    double session;
    double runtime;
};

struct job_draw {
    const struct scenario *scenario;
    const struct rng_streams *streams;
    struct popularity tenants;
    double shares[JOB_KINDS_MAX]; /* sums: P(kind <= i), the last is 1 */
};

enum status job_draw_open(struct job_draw *draw, const struct scenario *scenario, const struct rng_streams *streams,
                          FILE *errors);
void job_draw_close(struct job_draw *draw); /* accepts {0} */

/* The luck that belongs to a number; bursts have numbers of their own. */
struct job_luck job_draw_luck(const struct job_draw *draw, uint64_t ordinal, bool burst);
uint32_t job_draw_kind(const struct job_draw *draw, double unit);
uint32_t job_draw_tenant(const struct job_draw *draw, double unit);
/* Everything but whose it is, of a job of this kind that arrives then. */
void job_draw_fill(const struct job_draw *draw, uint32_t kind, const struct job_luck *luck, int64_t at_ns,
                   struct job_arrival *ret_job);
/* The kind of this name; NONE_INDEX: none. */
uint32_t job_kind_named(const struct scenario *scenario, const char *name);

#endif
