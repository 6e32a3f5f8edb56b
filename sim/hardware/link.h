/* One shared link: flows get max-min fair rates under a cap of their own (water filling), recomputed when one starts or
 * ends. Bytes left are doubles, ends are integer nanoseconds, ties go to the lower ordinal: equal runs, equal bits. */
#ifndef HARDWARE_LINK_H
#define HARDWARE_LINK_H

#include "base/base.h"

struct link_flow {
    double bytes_left;
    double cap_bytes_per_s;
    double rate_bytes_per_s;
    int64_t end_ns;
    uint64_t ordinal;
    uint32_t payload;
};

struct link {
    double bytes_per_s;
    struct link_flow *flows; /* [flows_max], the caller's */
    uint32_t flows_count;
    uint32_t flows_max;
    int64_t updated_ns;      /* bytes_left are of this instant */
};

void link_init(struct link *link, double bytes_per_s, struct link_flow *flows, uint32_t flows_max);
/* now_ns must not be before the last call's. There must be room (checked): whoever starts flows bounds them. */
void link_start(struct link *link, int64_t now_ns, double bytes, double cap_bytes_per_s, uint64_t ordinal, uint32_t payload);
/* When the next flow ends; NEVER_NS if none runs. */
int64_t link_next_ns(const struct link *link);
/* Ends the flow that link_next_ns() spoke of; now_ns must be that instant. Returns its payload. */
uint32_t link_finish(struct link *link, int64_t now_ns);

#endif
