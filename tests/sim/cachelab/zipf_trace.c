#include "sim/cachelab/zipf_trace.h"

#include <math.h>
#include <stdlib.h>

#include "support.h"

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

struct zipf_trace zipf_trace_create(uint32_t objects, uint32_t count, double alpha, uint64_t seed)
{
    static const uint64_t ranks[] = {8, 16, 32, 64, 128};
    static const uint64_t bytes_per_rank[] = {1048576, 2097152, 4997120};
    struct zipf_trace trace = {.ids = malloc(count * sizeof(*trace.ids)), .sizes = malloc(count * sizeof(*trace.sizes)), .count = count,
                               .objects = objects};
    double *sums = malloc(objects * sizeof(*sums));
    uint64_t *ids = malloc(objects * sizeof(*ids));
    uint64_t *sizes = malloc(objects * sizeof(*sizes));
    double sum = 0;

    assert_true(trace.ids != NULL && trace.sizes != NULL && sums != NULL && ids != NULL && sizes != NULL);
    for (uint32_t i = 0; i < objects; i++) {
        sums[i] = sum += pow(i + 1, -alpha);
        ids[i] = i + 1;
    }
    for (uint32_t i = objects - 1; i > 0; i--) {
        const uint64_t other = draw_below(&seed, i + 1);
        const uint64_t id = ids[i];

        ids[i] = ids[other];
        ids[other] = id;
    }
    for (uint32_t i = 0; i < objects; i++)
        sizes[i] = ranks[draw_below(&seed, 5)] * bytes_per_rank[draw_below(&seed, 3)];
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t rank = rank_of(sums, objects, draw_unit(&seed) * sum);

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
