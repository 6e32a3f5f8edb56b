/* Instants of arrival of an open process: Poisson, Gamma renewal, Markov-modulated Poisson or evenly spaced, each bent
 * by the week's shape. All of them run in mean seconds (see season.h), so rate_per_s is the mean over a whole week. */
#ifndef WORKLOAD_ARRIVALS_H
#define WORKLOAD_ARRIVALS_H

#include "scenario/keys.h"
#include "workload/rng.h"
#include "workload/season.h"

struct arrivals {
    const struct rng *gaps;
    const struct rng *bursts;
    struct season season;
    uint32_t process;        /* enum key_process */
    double rate_per_s;
    double gamma_shape;      /* 1 / cv^2 */
    double requests;         /* sum of the gaps so far, each of mean 1; mmpp: unused */
    uint64_t count;
    /* mmpp: two states in turn; their lengths are of the clock, whatever the hour. */
    bool bursting;
    double height[2];        /* rate over the mean, calm and bursting */
    double sojourn_s[2];
    double mean_s;           /* where the process stands */
    double turns_at_s;       /* when the state ends, on the clock ... */
    double turns_at_mean_s;  /* ... and in mean seconds */
    int64_t last_at_ns;
};

void arrivals_init(struct arrivals *arrivals, const struct keys_arrivals *keys, const struct rng_streams *streams);
/* On streams of the caller; `bursts` may be NULL where the process is not mmpp. */
void arrivals_init_on(struct arrivals *arrivals, const struct keys_arrivals *keys, const struct rng *gaps,
                      const struct rng *bursts);
/* Never decreasing; NEVER_NS past the end of int64_t. */
int64_t arrivals_next_ns(struct arrivals *arrivals);

#endif
