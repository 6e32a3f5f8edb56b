/* Exact LRU stack distances with their curves, a SHARDS sample, and all that `trace stat` tells, on the reference's two traces of ten
 * million requests; nanoseconds a request, and what it keeps by object. */
#include "bench/bench.h"
#include "sim/cachelab/zipf_trace.c"

#include "cachelab/intern.h"
#include "cachelab/trace_stat.h"

#define BATCH TRACE_STAT_BATCH_MAX

static void print(const char *name, const char *trace, double seconds, uint32_t requests, double bytes_per_object)
{
    printf("{\"name\": \"%s\", \"case\": \"%s\", \"value\": %.1f, \"unit\": \"ns\", \"per\": \"request\", \"requests_per_s\": %.4g, "
           "\"bytes_per_object\": %.1f}\n", name, trace, seconds * 1e9 / requests, requests / seconds, bytes_per_object);
}

static void time_distances(const char *name, const struct zipf_trace *trace)
{
    struct intern *intern;
    struct distance *distance;
    struct lru_curve *curve;
    double from_s = bench_cpu_s();

    check(intern_create(&intern) == STATUS_OK);
    check(distance_create(&distance) == STATUS_OK);
    check(lru_curve_create(&curve) == STATUS_OK);
    for (uint32_t i = 0; i < trace->count; i += BATCH) {
        const uint32_t count = min_u32(BATCH, trace->count - i);
        uint32_t numbers[BATCH];
        struct distance_answer answers[BATCH];

        check(intern_ids(intern, trace->ids + i, count, numbers) == STATUS_OK);
        check(distance_requests(distance, numbers, trace->sizes + i, count, answers) == STATUS_OK);
        check(lru_curve_add(curve, answers, trace->sizes + i, count) == STATUS_OK);
    }
    print("lru_distance", name, bench_cpu_s() - from_s, trace->count,
          (double)(distance_memory_bytes(distance) + intern_bytes(intern)) / intern_count(intern));
    lru_curve_free(curve);
    distance_free(distance);
    intern_free(intern);
}

static void time_shards(const char *name, const struct zipf_trace *trace)
{
    const struct shards_config config = {.rate = 0.01, .seed = 1};
    struct shards *shards;
    double from_s = bench_cpu_s();

    check(shards_create(&config, &shards) == STATUS_OK);
    for (uint32_t i = 0; i < trace->count; i += BATCH)
        check(shards_add(shards, trace->ids + i, trace->sizes + i, min_u32(BATCH, trace->count - i)) == STATUS_OK);
    print("shards", name, bench_cpu_s() - from_s, trace->count, (double)shards_memory_bytes(shards) / trace->objects);
    shards_free(shards);
}

static void time_stat(const char *name, const struct zipf_trace *trace)
{
    const struct shards_config config = {.rate = 1, .objects_max = 8192, .seed = 1};
    struct trace_stat *stat;
    const struct trace_facts *facts;
    double from_s = bench_cpu_s();

    check(trace_stat_create(&config, &stat) == STATUS_OK);
    for (uint32_t i = 0; i < trace->count; i += BATCH) {
        struct object_request requests[BATCH];
        const uint32_t count = min_u32(BATCH, trace->count - i);

        for (uint32_t j = 0; j < count; j++)
            requests[j] = (struct object_request){.id = trace->ids[i + j], .size_bytes = trace->sizes[i + j], .at_ns = i + j};
        check(trace_stat_add(stat, requests, count) == STATUS_OK);
    }
    check(trace_stat_facts(stat, &facts) == STATUS_OK);
    print("trace_stat", name, bench_cpu_s() - from_s, trace->count, (double)trace_stat_memory_bytes(stat) / (double)facts->objects);
    trace_stat_free(stat);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        uint32_t objects;
        uint64_t seed;
        bool adapters;
    } traces[] = {{"A: a million objects, Zipf 1", 1000000, 42, false}, {"B: 5,000 adapters, Zipf 1", 5000, 43, true}};

    if (!bench_wanted(argc, argv, "lru_distance") && !bench_wanted(argc, argv, "shards") && !bench_wanted(argc, argv, "trace_stat"))
        return 0;
    for (size_t i = 0; i < ARRAY_COUNT(traces); i++) {
        struct zipf_trace trace = zipf_trace_create(traces[i].objects, 10000000, 1, traces[i].seed, traces[i].adapters);

        if (bench_wanted(argc, argv, "lru_distance"))
            time_distances(traces[i].name, &trace);
        if (bench_wanted(argc, argv, "shards"))
            time_shards(traces[i].name, &trace);
        if (bench_wanted(argc, argv, "trace_stat"))
            time_stat(traces[i].name, &trace);
        zipf_trace_free(&trace);
    }
    return 0;
}
