/* Does the backlog grow without end? Judged from the flow of a run, because the percentiles of a run whose queue grows
 * say how long the run was, not how good the fleet is.
 *
 * The backlog is what was offered and has not been served: requests in the system, and those turned away or given up for
 * overload, so that a queue with a lid is seen too. It is judged to grow when all of these hold over the window:
 * - growth: its least-squares line rises by more than 1% of what arrived and by 20 requests;
 * - drift: the net flow of 32 equal parts of the window has a mean above 3 of its standard errors. Under the critical
 *   load these are the steps of a random walk without drift, so chance excursions of a loaded but stable queue, which
 *   correlate over many parts, do not pass for a trend (as they would in the residuals of the line itself);
 * - still: in the last third it rises at half the line's slope or more (a burst or a daily peak that drains does not);
 * - longer: those who arrive in the last third stay at least a tenth longer than those in the first (a fleet that fills
 *   up at the start, or one in equilibrium with its refusals, has a growing backlog and equal stays). */
#ifndef RESULTS_SATURATION_H
#define RESULTS_SATURATION_H

#include "results/flow.h"

struct saturation {
    bool saturated;
    double rho;                 /* work offered / work served in the last half of the window; NaN: nothing served */
    double backlog_slope_per_s; /* requests in the system, least squares over the window */
    /* What the verdict rests on. */
    double growth;              /* of the backlog's line over the window, requests */
    double drift;               /* mean of the net flow in standard errors */
    double late_share;          /* rise a second in the last third over the line's slope */
    double stay_ratio;          /* mean stay of late arrivals over that of early ones; the unfinished stay to the end */
};

/* `end_ns`: of the run, drain included. */
struct saturation saturation_judge(const struct flow_record *flow, int64_t from_ns, int64_t until_ns, int64_t end_ns);

#endif
