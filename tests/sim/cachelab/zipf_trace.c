#include "sim/cachelab/zipf_trace.h"

#include <math.h>
#include <stdlib.h>

#include "base/hash.h"

/* splitmix64 */
static uint64_t draw_next(uint64_t *state)
{
    const uint64_t now = *state;

    *state += UINT64_C(0x9E3779B97F4A7C15);
    return hash_mix(now);
}

static uint32_t rank_of(const double *sums, uint32_t objects, double at)
{
    uint32_t low = 0;
    uint32_t high = objects - 1;

    while (low < high) {
        const uint32_t middle = (low + high) / 2;

        if (sums[middle] < at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct zipf_trace zipf_trace_create(uint32_t objects, uint32_t count, double alpha, uint64_t seed, bool adapters)
{
    static const uint64_t ranks[] = {8, 16, 32, 64, 128};
    static const uint64_t bytes_per_rank[] = {1048576, 2097152, 4997120};
    struct zipf_trace trace = {.ids = malloc(count * sizeof(*trace.ids)), .sizes = malloc(count * sizeof(*trace.sizes)), .count = count,
                               .objects = objects};
    double *sums = malloc(objects * sizeof(*sums));
    uint64_t *ids = malloc(objects * sizeof(*ids));
    uint64_t *sizes = malloc(objects * sizeof(*sizes));
    double sum = 0;

    check(trace.ids != NULL && trace.sizes != NULL && sums != NULL && ids != NULL && sizes != NULL);
    for (uint32_t i = 0; i < objects; i++) {
        sums[i] = sum += pow((double)(i + 1), -alpha);
        ids[i] = i + 1;
    }
    for (uint32_t i = 0; i < objects; i++)
        sums[i] /= sum;
    for (uint32_t i = objects - 1; i > 0; i--) {
        const uint64_t other = draw_next(&seed) % (i + 1);
        const uint64_t id = ids[i];

        ids[i] = ids[other];
        ids[other] = id;
    }
    for (uint32_t i = 0; i < objects; i++) {
        const uint64_t rank = adapters ? ranks[draw_next(&seed) % 5] : 1;

        sizes[i] = adapters ? rank * bytes_per_rank[draw_next(&seed) % 3] : 1;
    }
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t rank = rank_of(sums, objects, (double)(draw_next(&seed) >> 11) * 0x1p-53);

        trace.ids[i] = ids[rank];
        trace.sizes[i] = sizes[rank];
    }
    free(sums);
    free(ids);
    free(sizes);
    return trace;
}

void zipf_trace_free(struct zipf_trace *trace)
{
    free(trace->ids);
    free(trace->sizes);
}
