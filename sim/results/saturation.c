#include "results/saturation.h"

#include <math.h>

#define PARTS 32
#define GROWTH_MIN 20.0
#define GROWTH_SHARE 0.01
#define DRIFT_MIN 3.0
#define LATE_MIN 0.5
#define STAY_MIN 1.1

struct window {
    int64_t edges_ns[PARTS + 1];
    struct flow_sum parts[PARTS];
};

static void window_cut(struct window *window, const struct flow_record *flow, int64_t from_ns, int64_t until_ns)
{
    for (int64_t i = 0; i <= PARTS; i++)
        window->edges_ns[i] = from_ns + (until_ns - from_ns) / PARTS * i;
    window->edges_ns[PARTS] = until_ns;
    for (uint32_t i = 0; i < PARTS; i++)
        window->parts[i] = flow_between(flow, window->edges_ns[i], window->edges_ns[i + 1]);
}

/* Slope of the running level of `in` less `out` at the edges, in requests a part. The level's start does not matter. */
static double level_slope(const struct window *window, enum flow in, enum flow out)
{
    const double middle = PARTS / 2.0;
    double level = 0;
    double products = 0;
    double squares = 0;

    for (uint32_t i = 0; i <= PARTS; i++) {
        products += (i - middle) * level;
        squares += (i - middle) * (i - middle);
        if (i < PARTS)
            level += window->parts[i].of[in] - window->parts[i].of[out];
    }
    return products / squares;
}

/* Mean net flow of offered less served in standard errors of that mean. */
static double drift_of(const struct window *window)
{
    double sum = 0;
    double squares = 0;
    double variance;

    for (uint32_t i = 0; i < PARTS; i++) {
        double net = window->parts[i].of[FLOW_OFFERED] - window->parts[i].of[FLOW_SERVED];

        sum += net;
        squares += net * net;
    }
    variance = (squares - sum * sum / PARTS) / (PARTS - 1);
    if (variance <= 0)
        return sum > 0 ? HUGE_VAL : 0;
    return sum / PARTS / sqrt(variance / PARTS);
}

static double mean_stay_ns(const struct window *window, uint32_t from, uint32_t until, int64_t end_ns)
{
    double sum_ns = 0;
    double count = 0;

    for (uint32_t i = from; i < until; i++) {
        const struct flow_sum *part = &window->parts[i];
        const double middle_ns = 0.5 * ((double)window->edges_ns[i] + (double)window->edges_ns[i + 1]);

        sum_ns += part->of[FLOW_SOJOURN_NS] + part->of[FLOW_UNFINISHED] * ((double)end_ns - middle_ns);
        count += part->of[FLOW_SOJOURNS] + part->of[FLOW_UNFINISHED];
    }
    return count > 0 ? sum_ns / count : NAN;
}

/* The work of requests that did not complete is not known; the mean of those that did stands in for it. */
static double rho_of(const struct flow_sum *sum)
{
    const double served_tokens = sum->of[FLOW_SERVED_PROMPT_TOKENS] + sum->of[FLOW_SERVED_OUTPUT_TOKENS];
    const double mean_tokens = sum->of[FLOW_SERVED] > 0 ? served_tokens / sum->of[FLOW_SERVED] : 0;
    const double offered_tokens = sum->of[FLOW_OFFERED_TOKENS] + sum->of[FLOW_OFFERED_UNKNOWN] * mean_tokens;

    return served_tokens > 0 ? offered_tokens / served_tokens : NAN;
}

struct saturation saturation_judge(const struct flow_record *flow, int64_t from_ns, int64_t until_ns, int64_t end_ns)
{
    enum { THIRD = PARTS / 3 };
    struct saturation saturation = {.rho = NAN, .backlog_slope_per_s = NAN, .late_share = NAN, .stay_ratio = NAN};
    struct window window;
    struct flow_sum all;
    struct flow_sum late;
    double slope;

    if (until_ns - from_ns < PARTS * flow->width_ns / 4)
        return saturation; /* shorter than a handful of bins: nothing can be said */
    window_cut(&window, flow, from_ns, until_ns);
    all = flow_between(flow, from_ns, until_ns);
    late = flow_between(flow, from_ns + (until_ns - from_ns) / 2, until_ns);
    saturation.rho = rho_of(&late);
    saturation.backlog_slope_per_s =
        level_slope(&window, FLOW_ARRIVED, FLOW_DEPARTED) * PARTS / ((double)(until_ns - from_ns) * 1e-9);

    slope = level_slope(&window, FLOW_OFFERED, FLOW_SERVED);
    late = flow_between(flow, window.edges_ns[PARTS - THIRD], until_ns);
    saturation.growth = slope * PARTS;
    saturation.drift = drift_of(&window);
    saturation.late_share = (late.of[FLOW_OFFERED] - late.of[FLOW_SERVED]) / THIRD / slope;
    saturation.stay_ratio =
        mean_stay_ns(&window, PARTS - THIRD, PARTS, end_ns) / mean_stay_ns(&window, 0, THIRD, end_ns);
    /* A stay that is not known (NaN: nobody got in, or nobody in that third) is no proof of equilibrium. */
    saturation.saturated = saturation.growth > GROWTH_MIN && saturation.growth > GROWTH_SHARE * all.of[FLOW_OFFERED] &&
                           saturation.drift > DRIFT_MIN && saturation.late_share >= LATE_MIN &&
                           !(saturation.stay_ratio < STAY_MIN);
    return saturation;
}
