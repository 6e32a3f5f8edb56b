/* The routing policies by themselves: each against a twin written the slow, plain way, and what the literature
 * promises of them. */
#include "base/hash.h"
#include "fleet/view.h"
#include "policy/policy.h"
#include "support.h"

#include <stdio.h>

enum { REPLICAS = 24 };

struct scene {
    struct fleet_replica replicas[REPLICAS];
    uint16_t pool[REPLICAS];
    uint64_t gpu_bits[1];
    uint64_t host_bits[1];
    enum route_reason reason;
    struct fleet_view view;
    struct fleet_ask ask;
};

static void scene_sum(struct scene *scene)
{
    scene->ask.pool_outstanding = 0;
    for (uint32_t i = 0; i < scene->ask.pool_count; i++)
        scene->ask.pool_outstanding += scene->replicas[scene->pool[i]].outstanding;
}

/* The first `count` replicas, idle. */
static void scene_init(struct scene *scene, uint32_t count)
{
    memset(scene, 0, sizeof(*scene));
    for (uint32_t i = 0; i < count; i++) {
        scene->pool[i] = (uint16_t)i;
        scene->replicas[i].up = true;
    }
    scene->view = (struct fleet_view){
        .salt = 7, .replicas = scene->replicas, .replicas_max = REPLICAS, .bound_milli = 1250, .bound_add = 4};
    scene->ask = (struct fleet_ask){
        .adapter = {1, 0}, .pool = scene->pool, .pool_count = count, .homes = 1, .reason = &scene->reason};
}

static uint32_t pick(struct scene *scene, const struct route_policy *policy)
{
    scene->reason = ROUTE_POLICY;
    return policy->pick(&scene->view, &scene->ask);
}

static void scene_randomize(struct scene *scene, uint64_t *random)
{
    uint32_t spread = (uint32_t)draw_below(random, 2) == 0 ? 4 : 40;

    scene_init(scene, REPLICAS);
    scene->ask.pool_count = 0;
    while (scene->ask.pool_count == 0)
        for (uint32_t i = 0; i < REPLICAS; i++)
            if (draw_below(random, 3) == 0)
                scene->pool[scene->ask.pool_count++] = (uint16_t)i;
    for (uint32_t i = 0; i < REPLICAS; i++)
        scene->replicas[i].outstanding = (uint32_t)draw_below(random, spread);
    scene_sum(scene);
    scene->view.salt = draw(random);
    scene->view.bound_milli = 1000 + (uint32_t)draw_below(random, 500);
    scene->view.bound_add = (uint32_t)draw_below(random, 5);
    scene->ask.request = request_id_make(draw_below(random, 1u << 30), 0);
    scene->ask.adapter = (adapter_id){(uint32_t)draw_below(random, 50), 0};
    scene->ask.pool_ordinal = draw_below(random, 1000);
    scene->ask.homes = 1 + (uint32_t)draw_below(random, draw_below(random, 2) == 0 ? 1 : scene->ask.pool_count);
    scene->gpu_bits[0] = draw(random) & draw(random);
    scene->host_bits[0] = draw(random) & draw(random);
    scene->ask.gpu_bits = draw_below(random, 4) == 0 ? NULL : scene->gpu_bits;
    scene->ask.host_bits = draw_below(random, 4) == 0 ? NULL : scene->host_bits;
}

/* The twins work on a list of candidates that is narrowed step by step. */
struct twin {
    uint32_t count;
    uint32_t items[REPLICAS];
};

static double load_over_mean(const struct scene *scene, uint32_t replica)
{
    double mean = (double)scene->ask.pool_outstanding / scene->ask.pool_count;

    return scene->replicas[replica].outstanding - mean * scene->view.bound_milli / 1000.0 - scene->view.bound_add;
}

static bool twin_busy(const struct scene *scene, uint32_t replica)
{
    /* Multiples of 1 / (1000 * 24) apart, so half of that tells above from at. */
    return load_over_mean(scene, replica) > 1e-5;
}

static uint64_t twin_weight(const struct scene *scene, uint32_t replica)
{
    /* 5: the purpose "homes". */
    return hash_mix(hash_mix(hash_mix(scene->view.salt + 5) ^ scene->ask.adapter.index) ^ replica);
}

/* The pool sorted by weight, highest first. */
static struct twin twin_order(const struct scene *scene)
{
    struct twin twin = {0};

    for (uint32_t i = 0; i < scene->ask.pool_count; i++) {
        uint32_t at = twin.count++;

        for (; at > 0 && twin_weight(scene, twin.items[at - 1]) < twin_weight(scene, scene->pool[i]); at--)
            twin.items[at] = twin.items[at - 1];
        twin.items[at] = scene->pool[i];
    }
    return twin;
}

/* The first of the list with the fewest outstanding. */
static uint32_t twin_least(const struct scene *scene, struct twin twin)
{
    uint32_t best = twin.items[0];

    for (uint32_t i = 1; i < twin.count; i++)
        if (scene->replicas[twin.items[i]].outstanding < scene->replicas[best].outstanding)
            best = twin.items[i];
    return best;
}

static uint64_t twin_chance(const struct scene *scene, uint64_t purpose)
{
    return hash_mix(hash_mix(scene->view.salt + purpose) ^ request_ordinal(scene->ask.request)) >> 32;
}

static uint32_t twin_least_loaded(const struct scene *scene, enum route_reason *reason)
{
    struct twin twin = {0};
    uint32_t start = (uint32_t)(twin_chance(scene, 4) * scene->ask.pool_count >> 32);

    *reason = ROUTE_POLICY;
    for (uint32_t i = 0; i < scene->ask.pool_count; i++)
        twin.items[twin.count++] = scene->pool[(start + i) % scene->ask.pool_count];
    return twin_least(scene, twin);
}

static uint32_t twin_round_robin(const struct scene *scene, enum route_reason *reason)
{
    *reason = ROUTE_POLICY;
    return scene->pool[scene->ask.pool_ordinal % scene->ask.pool_count];
}

static uint32_t twin_random(const struct scene *scene, enum route_reason *reason)
{
    *reason = ROUTE_POLICY;
    return scene->pool[twin_chance(scene, 1) * scene->ask.pool_count >> 32];
}

static uint32_t twin_power_of_two(const struct scene *scene, enum route_reason *reason)
{
    uint32_t count = scene->ask.pool_count;
    uint32_t first = (uint32_t)(twin_chance(scene, 2) * count >> 32);
    struct twin twin = {1, {scene->pool[first]}};

    *reason = ROUTE_POLICY;
    if (count > 1) {
        /* The second is drawn from the others, in order. */
        struct twin others = {0};

        for (uint32_t i = 0; i < count; i++)
            if (i != first)
                others.items[others.count++] = scene->pool[i];
        twin.items[twin.count++] = others.items[twin_chance(scene, 3) * others.count >> 32];
    }
    return twin_least(scene, twin);
}

static uint32_t twin_sticky(const struct scene *scene, enum route_reason *reason)
{
    if (scene->ask.adapter.index == 0)
        return twin_least_loaded(scene, reason);
    *reason = ROUTE_HOME;
    return scene->pool[(scene->ask.adapter.index - 1) % scene->ask.pool_count];
}

static uint32_t twin_bounded(const struct scene *scene, enum route_reason *reason)
{
    struct twin order = twin_order(scene);
    uint32_t i = 0;

    if (scene->ask.adapter.index == 0)
        return twin_least_loaded(scene, reason);
    while (twin_busy(scene, order.items[i]))
        i++;
    *reason = i == 0 ? ROUTE_HOME : ROUTE_OVERFLOW_ANY;
    return order.items[i];
}

static uint32_t twin_affinity(const struct scene *scene, enum route_reason *reason)
{
    struct twin order = twin_order(scene);
    struct twin homes = order;
    struct twin holders[3] = {{0}, {0}, {0}};

    if (scene->ask.adapter.index == 0)
        return twin_least_loaded(scene, reason);
    homes.count = scene->ask.homes;
    *reason = ROUTE_HOME;
    if (!twin_busy(scene, twin_least(scene, homes)))
        return twin_least(scene, homes);
    for (uint32_t i = 0; i < order.count; i++) {
        uint32_t replica = order.items[i];
        bool gpu = scene->ask.gpu_bits != NULL && (scene->gpu_bits[0] >> replica & 1) != 0;
        bool host = scene->ask.host_bits != NULL && (scene->host_bits[0] >> replica & 1) != 0;
        struct twin *list = &holders[gpu ? 0 : host ? 1 : 2];

        if (!twin_busy(scene, replica))
            list->items[list->count++] = replica;
    }
    for (uint32_t i = 0; i < 3; i++)
        if (holders[i].count > 0) {
            *reason = i == 0 ? ROUTE_OVERFLOW_GPU : i == 1 ? ROUTE_OVERFLOW_HOST : ROUTE_OVERFLOW_ANY;
            return twin_least(scene, holders[i]);
        }
    fail_msg("everyone is busy");
    return 0;
}

static void every_policy_agrees_with_its_naive_twin(void **state)
{
    (void)state;
    static const struct {
        const struct route_policy *policy;
        uint32_t (*twin)(const struct scene *, enum route_reason *);
    } cases[] = {
#define X(name) {&route_##name, twin_##name},
        ROUTE_POLICIES(X)
#undef X
    };
    uint64_t seed = test_seed(11);
    uint64_t random = seed;
    uint32_t reasons[ROUTE_REASON_COUNT] = {0};
    struct scene scene;

    for (uint32_t turn = 0; turn < 20000; turn++) {
        scene_randomize(&scene, &random);
        for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
            enum route_reason reason;
            uint32_t expected = cases[i].twin(&scene, &reason);
            uint32_t got = pick(&scene, cases[i].policy);

            if (got != expected || scene.reason != reason)
                fail_msg("seed %llu turn %u %s: got %u for %d, twin %u for %d", (unsigned long long)seed, turn,
                         cases[i].policy->name, got, (int)scene.reason, expected, (int)reason);
            reasons[reason]++;
        }
    }
    /* The scenes reach every reason that a policy has. */
    for (uint32_t i = 0; i < ROUTE_MERGED; i++)
        assert_true(reasons[i] > 500);
}

static void names_are_written_with_hyphens(void **state)
{
    (void)state;
    static const char *const names[] = {"round-robin", "random", "least-loaded", "power-of-two",
                                        "sticky",      "bounded", "affinity"};
    static const struct route_policy *const policies[] = {
#define X(name) &route_##name,
        ROUTE_POLICIES(X)
#undef X
    };

    assert_int_equal(ARRAY_COUNT(names), ARRAY_COUNT(policies));
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        assert_string_equal(policies[i]->name, names[i]);
        assert_true(strlen(policies[i]->about) > 10);
    }
}

enum { ADAPTERS = 6000 };

/* Where idle adapters 1 .. ADAPTERS go. */
static void homes_of(struct scene *scene, const struct route_policy *policy, uint16_t *ret_homes)
{
    for (uint32_t i = 0; i < ADAPTERS; i++) {
        scene->ask.adapter.index = i + 1;
        ret_homes[i] = (uint16_t)pick(scene, policy);
    }
}

static void a_replica_more_or_less_moves_only_its_share(void **state)
{
    (void)state;
    static const struct route_policy *const policies[] = {&route_bounded, &route_affinity};
    static uint16_t before[ADAPTERS];
    static uint16_t after[ADAPTERS];
    struct scene scene;

    for (size_t p = 0; p < ARRAY_COUNT(policies); p++) {
        uint32_t moved = 0;

        scene_init(&scene, 15);
        homes_of(&scene, policies[p], before);
        scene_init(&scene, 16);
        homes_of(&scene, policies[p], after);
        for (uint32_t i = 0; i < ADAPTERS; i++) {
            moved += before[i] != after[i];
            /* Nobody moves between old replicas: read backwards, the loss of replica 15 moves only its own. */
            assert_true(before[i] == after[i] || after[i] == 15);
        }
        /* 6000 / 16 = 375, sigma 19. */
        if (moved < 290 || moved > 460)
            fail_msg("%s moved %u of %u", policies[p]->name, moved, (unsigned)ADAPTERS);
    }
    /* And the identity hash moves nearly all: 1 - 1/16. */
    uint32_t moved = 0;

    scene_init(&scene, 15);
    homes_of(&scene, &route_sticky, before);
    scene_init(&scene, 16);
    homes_of(&scene, &route_sticky, after);
    for (uint32_t i = 0; i < ADAPTERS; i++)
        moved += before[i] != after[i];
    assert_true(moved > ADAPTERS * 9 / 10);
}

static void rendezvous_homes_are_spread_evenly(void **state)
{
    (void)state;
    static uint16_t homes[ADAPTERS];
    uint32_t counts[16] = {0};
    double chi_square = 0;
    struct scene scene;

    scene_init(&scene, 16);
    homes_of(&scene, &route_affinity, homes);
    for (uint32_t i = 0; i < ADAPTERS; i++)
        counts[homes[i]]++;
    for (uint32_t i = 0; i < 16; i++)
        chi_square += (counts[i] - ADAPTERS / 16.0) * (counts[i] - ADAPTERS / 16.0) / (ADAPTERS / 16.0);
    /* 15 degrees of freedom: 37.7 is passed once in a thousand. */
    if (chi_square > 37.7)
        fail_msg("chi square %.1f", chi_square);
}

static void a_second_home_is_added_without_moving_the_first(void **state)
{
    (void)state;
    struct scene scene;

    for (uint32_t adapter = 1; adapter <= 200; adapter++) {
        bool used[16] = {false};

        scene_init(&scene, 16);
        scene.ask.adapter.index = adapter;
        scene.view.bound_add = 1000; /* nobody is busy */
        /* Load each home as it is found: the next request must go to the next home, and no further. */
        for (uint32_t homes = 1; homes <= 4; homes++) {
            scene.ask.homes = homes;
            scene_sum(&scene);

            uint32_t replica = pick(&scene, &route_affinity);

            assert_false(used[replica]);
            assert_int_equal(scene.reason, ROUTE_HOME);
            used[replica] = true;
            scene.replicas[replica].outstanding = 10;
        }
        scene_sum(&scene);
        assert_true(used[pick(&scene, &route_affinity)]);
    }
}

static void bounded_never_exceeds_its_bound(void **state)
{
    (void)state;
    uint64_t seed = test_seed(12);
    uint64_t random = seed;
    struct scene scene;
    uint32_t overflows = 0;

    scene_init(&scene, 16);
    scene.view.bound_add = 0;
    for (uint32_t turn = 0; turn < 200000; turn++) {
        /* Half of all requests are for one adapter; a request ends now and then. */
        scene.ask.adapter.index = 1 + (uint32_t)(draw_below(&random, 2) == 0 ? 0 : draw_below(&random, 40));
        if (draw_below(&random, 5) < 2) {
            uint32_t replica = (uint32_t)draw_below(&random, 16);

            scene.replicas[replica].outstanding -= scene.replicas[replica].outstanding > 0;
        }
        scene_sum(&scene);

        uint64_t total = scene.ask.pool_outstanding;
        uint32_t replica = pick(&scene, &route_bounded);

        overflows += scene.reason == ROUTE_OVERFLOW_ANY;
        /* After the request is added: at most the bound before it, and one. */
        uint64_t load = ++scene.replicas[replica].outstanding;

        if ((load - 1) * 16 * 1000 > 1250 * total)
            fail_msg("seed %llu turn %u: load %llu of %llu", (unsigned long long)seed, turn,
                     (unsigned long long)load, (unsigned long long)total);
        if (draw_below(&random, 50) == 0 && total > 2000)
            for (uint32_t i = 0; i < 16; i++)
                scene.replicas[i].outstanding /= 2;
    }
    assert_true(overflows > 1000);
}

/* `balls` requests, none of which ends: the fullest of 24 replicas. */
static uint32_t fullest(const struct route_policy *policy, uint64_t salt, uint32_t balls)
{
    struct scene scene;
    uint32_t most = 0;

    scene_init(&scene, REPLICAS);
    scene.view.salt = salt;
    for (uint32_t i = 0; i < balls; i++) {
        scene.ask.request = request_id_make(i, 0);
        scene_sum(&scene);

        uint32_t load = ++scene.replicas[pick(&scene, policy)].outstanding;

        most = max_u32(most, load);
    }
    return most;
}

static void power_of_two_fills_more_evenly_than_random(void **state)
{
    (void)state;
    uint32_t random_sum = 0;
    uint32_t two_sum = 0;
    enum { ROUNDS = 50, BALLS = REPLICAS * 20 };

    for (uint64_t salt = 0; salt < ROUNDS; salt++) {
        uint32_t random_most = fullest(&route_random, salt, BALLS);
        uint32_t two_most = fullest(&route_power_of_two, salt, BALLS);

        if (two_most >= random_most)
            fail_msg("salt %llu: power of two %u, random %u", (unsigned long long)salt, two_most, random_most);
        random_sum += random_most;
        two_sum += two_most;
    }
    /* Above the mean of 20: about log log n = 1.2 for two, about sqrt(2 * 20 * ln 24) = 11 (less lower order terms) for
     * one. */
    assert_true(two_sum < ROUNDS * 23);
    assert_true(random_sum > ROUNDS * 27);
    assert_int_equal(fullest(&route_least_loaded, 1, BALLS), 20);
    assert_true(fullest(&route_random, 1, 100) != 100);
}

static void an_idle_pool_does_not_pile_up_on_its_first_replica(void **state)
{
    (void)state;
    static const struct route_policy *const policies[] = {&route_least_loaded, &route_sticky, &route_bounded,
                                                          &route_affinity};
    struct scene scene;

    for (size_t p = 0; p < ARRAY_COUNT(policies); p++) {
        uint32_t counts[8] = {0};

        scene_init(&scene, 8);
        scene.ask.adapter = (adapter_id){0, 0};
        for (uint32_t i = 0; i < 8000; i++) {
            scene.ask.request = request_id_make(i, 0);
            counts[pick(&scene, policies[p])]++;
            assert_int_equal(scene.reason, ROUTE_POLICY);
        }
        for (uint32_t i = 0; i < 8; i++)
            if (counts[i] < 850 || counts[i] > 1150)
                fail_msg("%s: %u of 8000 on replica %u", policies[p]->name, counts[i], i);
    }
}

static void overflow_prefers_gpu_then_host_then_the_least_loaded(void **state)
{
    (void)state;
    struct scene scene;

    scene_init(&scene, 8);
    scene.ask.gpu_bits = scene.gpu_bits;
    scene.ask.host_bits = scene.host_bits;

    uint32_t home = pick(&scene, &route_affinity);
    uint32_t gpu = (home + 1) % 8;
    uint32_t host = (home + 2) % 8;
    uint32_t idle = (home + 3) % 8;

    for (uint32_t i = 0; i < 8; i++)
        scene.replicas[i].outstanding = 10;
    scene.replicas[home].outstanding = 40;
    scene.replicas[gpu].outstanding = 12;
    scene.replicas[host].outstanding = 11;
    scene.replicas[idle].outstanding = 9;
    scene.gpu_bits[0] = UINT64_C(1) << gpu | UINT64_C(1) << home;
    scene.host_bits[0] = UINT64_C(1) << gpu | UINT64_C(1) << host | UINT64_C(1) << home;
    scene_sum(&scene);
    assert_int_equal(pick(&scene, &route_affinity), gpu);
    assert_int_equal(scene.reason, ROUTE_OVERFLOW_GPU);

    scene.replicas[gpu].outstanding = 40;
    scene_sum(&scene);
    assert_int_equal(pick(&scene, &route_affinity), host);
    assert_int_equal(scene.reason, ROUTE_OVERFLOW_HOST);

    scene.replicas[host].outstanding = 40;
    scene_sum(&scene);
    assert_int_equal(pick(&scene, &route_affinity), idle);
    assert_int_equal(scene.reason, ROUTE_OVERFLOW_ANY);

    /* Back home when home is no longer busy. */
    scene.replicas[home].outstanding = 10;
    scene_sum(&scene);
    assert_int_equal(pick(&scene, &route_affinity), home);
    assert_int_equal(scene.reason, ROUTE_HOME);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_policy_agrees_with_its_naive_twin),
        cmocka_unit_test(names_are_written_with_hyphens),
        cmocka_unit_test(a_replica_more_or_less_moves_only_its_share),
        cmocka_unit_test(rendezvous_homes_are_spread_evenly),
        cmocka_unit_test(a_second_home_is_added_without_moving_the_first),
        cmocka_unit_test(bounded_never_exceeds_its_bound),
        cmocka_unit_test(power_of_two_fills_more_evenly_than_random),
        cmocka_unit_test(an_idle_pool_does_not_pile_up_on_its_first_replica),
        cmocka_unit_test(overflow_prefers_gpu_then_host_then_the_least_loaded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
