/* event_queue: the hold model (pop the earliest, push it back later by an exponential gap) at three sizes. */
#include <math.h>
#include <stdlib.h>

#include "base/hash.h"
#include "bench/bench.h"
#include "engine/queue.h"

#define GAPS 65536u

static void hold(uint32_t pending, uint64_t operations)
{
    static int64_t gaps[GAPS];
    struct queue queue;
    char what[64];
    double from_s;

    for (uint32_t i = 0; i < GAPS; i++)
        gaps[i] = (int64_t)(-log(((double)(hash_mix(i) >> 11) + 0.5) * 0x1p-53) * 1e6);
    queue_init(&queue, pending + 1);
    for (uint32_t i = 0; i < pending; i++)
        queue_push(&queue, (struct queue_entry){.at_ns = gaps[i % GAPS], .ordinal = i});
    from_s = bench_cpu_s();
    for (uint64_t i = 0; i < operations; i++) {
        struct queue_entry entry = queue_pop(&queue);

        entry.at_ns += gaps[i % GAPS];
        queue_push(&queue, entry);
    }
    snprintf(what, sizeof(what), "hold, %u pending", pending);
    bench_print("event_queue", what, bench_cpu_s() - from_s, operations);
    queue_free(&queue);
}

int main(int argc, char **argv)
{
    if (!bench_wanted(argc, argv, "event_queue"))
        return 0;
    hold(100, 20000000);
    hold(10000, 10000000);
    hold(1000000, 3000000);
    return 0;
}
