#include "results/flow.h"

/* A bin of the shortest runs; a power of two, so that folded bins nest exactly. */
#define WIDTH_FIRST_NS (INT64_C(1) << 20)

void flow_init(struct flow_record *flow, int64_t duration_ns)
{
    check(duration_ns > 0);
    memset(flow, 0, sizeof(*flow));
    flow->width_ns = WIDTH_FIRST_NS;
    flow->horizon_ns = duration_ns + 1; /* an arrival exactly at the end is one */
}

static void sum_add(struct flow_sum *target, const struct flow_sum *source, double part)
{
    for (uint32_t i = 0; i < FLOW_COUNT; i++)
        target->of[i] += part * source->of[i];
    if (source->kv_share_max > target->kv_share_max)
        target->kv_share_max = source->kv_share_max;
    if (source->waiting_max > target->waiting_max)
        target->waiting_max = source->waiting_max;
}

static void fold(struct flow_record *flow)
{
    for (uint32_t i = 0; i < FLOW_BINS / 2; i++) {
        struct flow_sum sum = flow->bins[2 * i];

        sum_add(&sum, &flow->bins[2 * i + 1], 1);
        flow->bins[i] = sum;
    }
    memset(&flow->bins[FLOW_BINS / 2], 0, sizeof(flow->bins) / 2);
    flow->width_ns *= 2;
}

struct flow_sum *flow_at(struct flow_record *flow, int64_t at_ns)
{
    check(at_ns >= 0);
    if (at_ns >= flow->horizon_ns)
        return NULL;
    while (at_ns / flow->width_ns >= FLOW_BINS)
        fold(flow);
    return &flow->bins[at_ns / flow->width_ns];
}

struct flow_sum flow_between(const struct flow_record *flow, int64_t from_ns, int64_t until_ns)
{
    struct flow_sum sum = {0};

    check(from_ns >= 0);
    for (int64_t i = from_ns / flow->width_ns; i < FLOW_BINS && i * flow->width_ns < until_ns; i++) {
        const int64_t low_ns = max_i64(from_ns, i * flow->width_ns);
        const int64_t high_ns = min_i64(until_ns, (i + 1) * flow->width_ns);

        if (high_ns > low_ns)
            sum_add(&sum, &flow->bins[i], (double)(high_ns - low_ns) / (double)flow->width_ns);
    }
    return sum;
}
