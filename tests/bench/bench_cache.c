/* cache_acquire: find or make room, pin; the load arrives at once; unpin. Under each evict policy, 5,000 adapters by
 * Zipf's law, with 100 slots and with a slot for everyone. */
#include <stdlib.h>

#include "bench/bench.h"
#include "bench/zipf.h"
#include "cache/cache.h"

#define ADAPTERS 5000u
#define ADAPTER_BYTES 83886080u
#define OPERATIONS 4000000u

static void time_policy(const struct evict_policy *evict, uint32_t slots, const uint32_t *ranks)
{
    const struct cache_config config = {
        .unit = CACHE_SLOTS, .capacity = slots, .entries_max = slots, .evict = evict, .cost_fixed_ns = 50000, .cost_ns_per_mib = 21000};
    size_t bytes = cache_bytes(&config);
    void *memory = malloc(bytes);
    struct cache *cache;
    struct cache_counts counts;
    char what[96];
    double from_s;

    check(memory != NULL);
    cache = cache_create(memory, bytes, &config);
    from_s = bench_cpu_s();
    for (uint32_t i = 0; i < OPERATIONS; i++) {
        adapter_id victims[1];
        uint32_t victims_count;
        uint32_t entry;
        enum cache_answer answer = cache_acquire(cache, (adapter_id){ranks[i % ZIPF_DRAWS], 1}, ADAPTER_BYTES, victims, 1,
                                                 &victims_count, &entry);

        if (answer == CACHE_MISS)
            (void)cache_arrived(cache, entry);
        (void)cache_unpin(cache, entry);
    }
    from_s = bench_cpu_s() - from_s;
    counts = cache_counts(cache);
    snprintf(what, sizeof(what), "%s, %u slots, hits %.2f", evict->name, slots, (double)counts.hits / OPERATIONS);
    bench_print("cache_acquire", what, from_s, OPERATIONS);
    free(memory);
}

int main(int argc, char **argv)
{
    static uint32_t ranks[ZIPF_DRAWS];

    if (!bench_wanted(argc, argv, "cache_acquire"))
        return 0;
    zipf_fill(ranks, ADAPTERS);
#define X(name)                               \
    time_policy(&evict_##name, 100, ranks);   \
    time_policy(&evict_##name, ADAPTERS, ranks);
    EVICT_POLICIES(X)
#undef X
    return 0;
}
