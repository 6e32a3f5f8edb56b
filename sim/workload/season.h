/* The week's shape: a daily sine and a weekend, as the rate relative to its mean over a whole week. Runs start at
 * midnight of a Monday. A process that is even in "mean seconds" (the integral of the shape) becomes seasonal when its
 * times are mapped back to the clock; so a gap's coefficient of variation keeps its meaning at every hour, which
 * thinning would not give. */
#ifndef WORKLOAD_SEASON_H
#define WORKLOAD_SEASON_H

#include "base/base.h"

#define SEASON_DAY_S 86400.0
#define SEASON_DAYS 7u

struct season {
    double amplitude;            /* 0 .. 1 */
    double peak_s;               /* of the day */
    double height[SEASON_DAYS];  /* mean rate of each day over the week's mean; their mean is 1 */
    double guess_s;              /* the second of the day the last inverse found: the next one is near */
    bool flat;
};

void season_init(struct season *season, double amplitude, double peak_h, double weekend_ratio);
/* Mean seconds from 0 to `at_s`. */
double season_integral(const struct season *season, double at_s);
/* The instant whose integral is `mean_s`; never before that of a smaller one by more than a nanosecond. */
double season_inverse(struct season *season, double mean_s);

#endif
