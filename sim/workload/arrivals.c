#include "workload/arrivals.h"

#include <gsl/gsl_randist.h>
#include <math.h>

static double exponential(const struct rng *stream)
{
    return -log(rng_unit(stream));
}

static void mmpp_turn(struct arrivals *arrivals)
{
    arrivals->turns_at_s += arrivals->sojourn_s[arrivals->bursting] * exponential(arrivals->bursts);
    arrivals->turns_at_mean_s = season_integral(&arrivals->season, arrivals->turns_at_s);
}

static void mmpp_init(struct arrivals *arrivals, const struct keys_arrivals *keys)
{
    double burst_share = keys->burst_s / (keys->burst_s + keys->calm_s);

    arrivals->height[0] = 1 / (1 - burst_share + keys->burst_ratio * burst_share);
    arrivals->height[1] = keys->burst_ratio * arrivals->height[0];
    arrivals->sojourn_s[0] = keys->calm_s;
    arrivals->sojourn_s[1] = keys->burst_s;
    /* What is left of an exponential sojourn is exponential too: started so, the process is stationary. */
    arrivals->bursting = rng_unit(arrivals->bursts) < burst_share;
    mmpp_turn(arrivals);
}

void arrivals_init_on(struct arrivals *arrivals, const struct keys_arrivals *keys, const struct rng *gaps,
                      const struct rng *bursts)
{
    *arrivals = (struct arrivals){
        .gaps = gaps,
        .bursts = bursts,
        .process = keys->process,
        .rate_per_s = keys->rate_per_s,
        .gamma_shape = 1 / (keys->cv * keys->cv),
    };
    season_init(&arrivals->season, keys->diurnal_amplitude, keys->diurnal_peak_h, keys->weekend_ratio);
    if (arrivals->process == KEY_PROCESS_MMPP)
        mmpp_init(arrivals, keys);
}

void arrivals_init(struct arrivals *arrivals, const struct keys_arrivals *keys, const struct rng_streams *streams)
{
    arrivals_init_on(arrivals, keys, &streams->of[RNG_ARRIVALS], &streams->of[RNG_BURSTS]);
}

/* Spends one exponential of mean 1 at the rate of each state it crosses. */
static double mmpp_next_mean_s(struct arrivals *arrivals)
{
    double left = exponential(arrivals->gaps);

    for (;;) {
        double per_mean_s = arrivals->rate_per_s * arrivals->height[arrivals->bursting];
        double until_turn = (arrivals->turns_at_mean_s - arrivals->mean_s) * per_mean_s;

        if (left <= until_turn) {
            arrivals->mean_s += left / per_mean_s;
            return arrivals->mean_s;
        }
        left -= until_turn;
        arrivals->mean_s = arrivals->turns_at_mean_s;
        arrivals->bursting = !arrivals->bursting;
        mmpp_turn(arrivals);
    }
}

static double next_mean_s(struct arrivals *arrivals)
{
    switch ((enum key_process)arrivals->process) {
    case KEY_PROCESS_POISSON:
        arrivals->requests += exponential(arrivals->gaps);
        break;
    case KEY_PROCESS_GAMMA:
        arrivals->requests +=
            gsl_ran_gamma(arrivals->gaps->generator, arrivals->gamma_shape, 1 / arrivals->gamma_shape);
        break;
    case KEY_PROCESS_MMPP:
        return mmpp_next_mean_s(arrivals);
    case KEY_PROCESS_EVEN:
        arrivals->requests = (double)arrivals->count;
        break;
    }
    return arrivals->requests / arrivals->rate_per_s;
}

int64_t arrivals_next_ns(struct arrivals *arrivals)
{
    double at_ns;

    arrivals->count++;
    at_ns = rint(season_inverse(&arrivals->season, next_mean_s(arrivals)) * (double)NS_PER_S);
    if (at_ns >= 9e18)
        return NEVER_NS;
    arrivals->last_at_ns = max_i64(arrivals->last_at_ns, (int64_t)at_ns);
    return arrivals->last_at_ns;
}
