/* Runs of a summary alone: a scenario, rows of completed requests, the summary they come to. */
#ifndef TESTS_SIM_RESULTS_SUMMARY_RIG_H
#define TESTS_SIM_RESULTS_SUMMARY_RIG_H

#include <math.h>

#include "results/results.h"
#include "support.h"

extern struct summary summary_got; /* of the last summary_run_close() */

/* Objective: TTFT 1 s, TPOT 50 ms. The caller may change it, and gives it to summary_run_open(), which frees it. */
struct scenario *summary_scenario(void);
struct results *summary_run_open(struct scenario *scenario); /* 2 replicas, 4 tenants */
void summary_run_close(struct results *results, int64_t warmup_until_ns, int64_t arrivals_end_ns, int64_t end_ns);
/* A completed request: queued until its first token, then decoding, 10 tokens in and 11 out, warm. */
struct request_row summary_row(uint64_t ordinal, int64_t at_ns, int64_t ttft_ns, int64_t e2e_ns);

static inline void assert_near(const char *what, double got, double expected, double tolerance)
{
    if (!(fabs(got - expected) <= tolerance))
        fail_msg("%s: got %.9g, expected %.9g within %.3g", what, got, expected, tolerance);
}

#endif
