/* The cache against what is known exactly or nearly so under independent references: Che's approximation for LRU and
 * its twin for FIFO, King's sum for tiny LRU caches, and the known answer of scenarios/route-300.yaml with caches alone. */
#include "cache/cache.h"
#include "support.h"

#include <math.h>
#include <stdlib.h>

enum { ITEMS_MAX = 4247 };

/* Popularity 1/(i+1)^alpha over `count` items. */
struct law {
    uint32_t count;
    double p[ITEMS_MAX];
    double up_to[ITEMS_MAX];
};

static struct law law;

static void law_init(uint32_t count, double alpha)
{
    double sum = 0;

    law.count = count;
    for (uint32_t i = 0; i < count; i++)
        sum += law.p[i] = pow(i + 1, -alpha);
    for (uint32_t i = 0; i < count; i++) {
        law.p[i] /= sum;
        law.up_to[i] = law.p[i] + (i > 0 ? law.up_to[i - 1] : 0);
    }
}

static uint32_t law_draw(uint64_t *random)
{
    double u = draw_unit(random);
    uint32_t low = 0;
    uint32_t high = law.count - 1;

    while (low < high) {
        uint32_t middle = (low + high) / 2;

        if (law.up_to[middle] < u)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static double lru_holds(double pt) { return 1 - exp(-pt); }
static double fifo_holds(double pt) { return pt / (1 + pt); }

/* Che, Tung, Wang 2002: every item is held while it is used within the characteristic time T, where the expected
 * number held is C. Fricker, Robert, Roberts 2012 section 6 for FIFO. The hit ratio, by bisection on T. */
static double che(double (*holds)(double pt), double capacity)
{
    double low = 0;
    double high = 1e12;
    double hit = 0;

    for (uint32_t turn = 0; turn < 200; turn++) {
        double t = (low + high) / 2;
        double held = 0;

        for (uint32_t i = 0; i < law.count; i++)
            held += holds(law.p[i] * t);
        if (held < capacity)
            low = t;
        else
            high = t;
    }
    for (uint32_t i = 0; i < law.count; i++)
        hit += law.p[i] * holds(law.p[i] * low);
    return hit;
}

/* King 1971: the stack is (i1..iC) with probability prod p(ij) / (1 - p(i1) - .. - p(ij-1)). */
static double king(uint32_t capacity, uint32_t taken_mask, double weight, double taken)
{
    double hit = 0;

    if (capacity == 0)
        return weight * taken;
    for (uint32_t i = 0; i < law.count; i++)
        if ((taken_mask >> i & 1) == 0)
            hit += king(capacity - 1, taken_mask | 1u << i, weight * law.p[i] / (1 - taken), taken + law.p[i]);
    return hit;
}

static struct cache *cache_new(const struct evict_policy *evict, uint32_t slots)
{
    struct cache_config config = {.unit = CACHE_SLOTS, .capacity = slots, .entries_max = slots, .evict = evict};
    size_t bytes = cache_bytes(&config);

    return cache_create(malloc(bytes), bytes, &config);
}

/* One use from beginning to end: a load takes no time and a pin does not last. Returns whether it was a hit. */
static bool use(struct cache *cache, uint32_t item)
{
    adapter_id victims[1];
    adapter_id adapter = {item + 1, 1};
    uint32_t count, entry;
    enum cache_answer answer = cache_acquire(cache, adapter, 1, victims, 1, &count, &entry);

    assert_true(answer == CACHE_HIT || answer == CACHE_MISS);
    if (answer == CACHE_MISS)
        cache_arrived(cache, entry);
    cache_release(cache, adapter);
    return answer == CACHE_HIT;
}

static double hit_ratio(const struct evict_policy *evict, uint32_t slots, uint32_t warmup, uint32_t uses, uint64_t seed)
{
    struct cache *cache = cache_new(evict, slots);
    uint32_t hits = 0;

    for (uint32_t i = 0; i < warmup; i++)
        use(cache, law_draw(&seed));
    for (uint32_t i = 0; i < uses; i++)
        hits += use(cache, law_draw(&seed));
    cache_check(cache);
    free(cache);
    return (double)hits / uses;
}

static void expect_near(const char *what, double got, double expected, double tolerance, uint64_t seed)
{
    if (!(fabs(got - expected) <= tolerance))
        fail_msg("%s: got %.5f, expected %.5f +- %.5f (seed %llu)", what, got, expected, tolerance,
                 (unsigned long long)seed);
}

static void agrees_with_che(uint32_t items, double alpha, uint32_t slots, double lru_known, double fifo_known)
{
    uint64_t seed = test_seed(20020901);
    double lru, fifo, random, most = 0;

    law_init(items, alpha);
    expect_near("Che for LRU", che(lru_holds, slots), lru_known, 0.00001, seed);
    expect_near("Che for FIFO", che(fifo_holds, slots), fifo_known, 0.00001, seed);
    lru = hit_ratio(&evict_lru, slots, 40000, 400000, seed);
    fifo = hit_ratio(&evict_fifo, slots, 40000, 400000, seed);
    random = hit_ratio(&evict_random, slots, 40000, 400000, seed);
    expect_near("LRU", lru, lru_known, 0.005, seed);
    expect_near("FIFO", fifo, fifo_known, 0.005, seed);
    expect_near("random", random, fifo_known, 0.005, seed); /* Gelenbe 1973: with independent uses it is FIFO's */
    for (uint32_t i = 0; i < slots; i++)
        most += law.p[i];
    if (!(fifo <= lru && lru <= most))
        fail_msg("FIFO %.5f <= LRU %.5f <= the %u most popular %.5f does not hold", fifo, lru, slots, most);
}

static void lru_and_fifo_agree_with_che_for_1000_items(void **state)
{
    (void)state;
    agrees_with_che(1000, 1.0, 50, 0.46104, 0.40442);
}

static void lru_and_fifo_agree_with_che_for_4247_items(void **state)
{
    (void)state;
    agrees_with_che(4247, 0.97, 200, 0.50200, 0.45149);
}

static void tiny_lru_caches_agree_with_king(void **state)
{
    (void)state;
    const struct {
        uint32_t slots;
        double known;
    } rows[] = {{2, 0.460503}, {3, 0.637815}};
    uint64_t seed = test_seed(1971);
    const uint32_t uses = 200000;

    law_init(6, 1.0);
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        double exact = king(rows[i].slots, 0, 1, 0);

        expect_near("King's sum", exact, rows[i].known, 0.0000005, seed);
        expect_near("LRU", hit_ratio(&evict_lru, rows[i].slots, 1000, uses, seed), exact,
                    3 * sqrt(exact * (1 - exact) / uses), seed);
    }
}

/* Under independent references no policy that knows only the past beats the static best; the use-aware ones come nearer
 * to it than LRU does, which is why they are here. */
static void frequency_aware_policies_lie_between_lru_and_the_best(void **state)
{
    (void)state;
    const struct evict_policy *const policies[] = {&evict_lfu, &evict_sieve, &evict_gdsf};
    uint64_t seed = test_seed(3);
    double lru, most = 0;

    law_init(1000, 1.0);
    lru = hit_ratio(&evict_lru, 50, 40000, 200000, seed);
    for (uint32_t i = 0; i < 50; i++)
        most += law.p[i];
    for (size_t i = 0; i < ARRAY_COUNT(policies); i++) {
        double hit = hit_ratio(policies[i], 50, 40000, 200000, seed);

        if (!(hit > lru && hit < most + 0.002))
            fail_msg("%s: %.5f is not between LRU's %.5f and %.5f", policies[i]->name, hit, lru, most);
    }
}

/* 300 adapters, 4 servers of 40 LRU slots, 20,000 uses after 20,000. */
static double routed_hit_ratio(bool sticky, uint64_t random)
{
    struct cache *servers[4];
    uint32_t hits = 0;

    for (uint32_t i = 0; i < 4; i++)
        servers[i] = cache_new(&evict_lru, 40);
    for (uint32_t i = 0; i < 40000; i++) {
        uint32_t item = law_draw(&random);
        bool hit = use(servers[(sticky ? item : i) % 4], item);

        hits += i >= 20000 && hit;
    }
    for (uint32_t i = 0; i < 4; i++)
        free(servers[i]);
    return hits / 20000.0;
}

static void sticky_homes_hit_0_857_and_round_robin_0_556(void **state)
{
    (void)state;
    uint64_t seed = test_seed(300);

    law_init(300, 1.0);
    expect_near("sticky", routed_hit_ratio(true, seed), 0.857, 0.01, seed);
    expect_near("round-robin", routed_hit_ratio(false, seed), 0.556, 0.01, seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lru_and_fifo_agree_with_che_for_1000_items),
        cmocka_unit_test(lru_and_fifo_agree_with_che_for_4247_items),
        cmocka_unit_test(tiny_lru_caches_agree_with_king),
        cmocka_unit_test(frequency_aware_policies_lie_between_lru_and_the_best),
        cmocka_unit_test(sticky_homes_hit_0_857_and_round_robin_0_556),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
