#include "hardware/link.h"

void link_init(struct link *link, double bytes_per_s, struct link_flow *flows, uint32_t flows_max)
{
    check(bytes_per_s > 0);
    *link = (struct link){.bytes_per_s = bytes_per_s, .flows = flows, .flows_max = flows_max};
}

static void advance(struct link *link, int64_t now_ns)
{
    double elapsed_s = (double)(now_ns - link->updated_ns) * 1e-9;

    check(now_ns >= link->updated_ns);
    for (uint32_t i = 0; i < link->flows_count; i++) {
        struct link_flow *flow = &link->flows[i];

        flow->bytes_left -= flow->rate_bytes_per_s * elapsed_s;
        if (flow->bytes_left < 0)
            flow->bytes_left = 0;
    }
    link->updated_ns = now_ns;
}

/* Water filling: whoever's cap is below the fair share of what is left takes its cap; repeat until nobody is. */
static void share(struct link *link)
{
    double left = link->bytes_per_s;
    uint32_t open = link->flows_count;
    bool changed = true;

    for (uint32_t i = 0; i < link->flows_count; i++)
        link->flows[i].rate_bytes_per_s = 0;
    while (changed && open > 0) {
        double fair = left / open;

        changed = false;
        for (uint32_t i = 0; i < link->flows_count; i++) {
            struct link_flow *flow = &link->flows[i];

            if (flow->rate_bytes_per_s == 0 && flow->cap_bytes_per_s <= fair) {
                flow->rate_bytes_per_s = flow->cap_bytes_per_s;
                left -= flow->cap_bytes_per_s;
                open--;
                changed = true;
            }
        }
    }
    for (uint32_t i = 0; i < link->flows_count; i++) {
        struct link_flow *flow = &link->flows[i];
        double seconds;

        if (flow->rate_bytes_per_s == 0)
            flow->rate_bytes_per_s = left / open;
        seconds = flow->bytes_left / flow->rate_bytes_per_s;
        flow->end_ns = link->updated_ns + (int64_t)(seconds * 1e9);
        if ((double)(flow->end_ns - link->updated_ns) < seconds * 1e9)
            flow->end_ns++;
    }
}

void link_start(struct link *link, int64_t now_ns, double bytes, double cap_bytes_per_s, uint64_t ordinal, uint32_t payload)
{
    check(link->flows_count < link->flows_max);
    check(bytes >= 0);
    check(cap_bytes_per_s > 0);
    advance(link, now_ns);
    link->flows[link->flows_count++] = (struct link_flow){
        .bytes_left = bytes, .cap_bytes_per_s = cap_bytes_per_s, .ordinal = ordinal, .payload = payload};
    share(link);
}

static uint32_t earliest(const struct link *link)
{
    uint32_t best = 0;

    for (uint32_t i = 1; i < link->flows_count; i++) {
        const struct link_flow *flow = &link->flows[i];
        const struct link_flow *least = &link->flows[best];

        if (flow->end_ns < least->end_ns || (flow->end_ns == least->end_ns && flow->ordinal < least->ordinal))
            best = i;
    }
    return best;
}

int64_t link_next_ns(const struct link *link)
{
    return link->flows_count == 0 ? NEVER_NS : link->flows[earliest(link)].end_ns;
}

uint32_t link_finish(struct link *link, int64_t now_ns)
{
    uint32_t done;
    uint32_t payload;

    check(link->flows_count > 0);
    done = earliest(link);
    check(link->flows[done].end_ns == now_ns);
    advance(link, now_ns);
    payload = link->flows[done].payload;
    /* Order among flows decides nothing, so the last may take the free place. */
    link->flows[done] = link->flows[--link->flows_count];
    share(link);
    return payload;
}
