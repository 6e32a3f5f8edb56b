/* A random forest of cohorts under a million random changes, against a twin that recomputes everything from the
 * leaves by the definitions, after every one of them. */
#include "fleet/quota.h"
#include "support.h"

#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
enum { TURNS = 60000 };
#else
enum { TURNS = 1000000 };
#endif

enum { TENANTS = 6, COHORTS = 4, NODES = TENANTS + COHORTS, FLAVORS = 2, NOBODY = NODES };
#define U QUOTA_UNLIMITED

__extension__ typedef __int128 int128;

struct limits {
    int64_t nominal;
    int64_t borrowing;
    int64_t lending;
};

/* Tenants first, then cohorts. subtree and usage are computed anew from the rest at every look. */
struct twin {
    uint32_t parent[NODES];
    struct limits limits[NODES][FLAVORS];
    int64_t used[TENANTS][FLAVORS];
    int128 subtree[NODES];
    int128 usage[NODES];
};

static int128 min_wide(int128 a, int128 b) { return a < b ? a : b; }
static int128 max_wide(int128 a, int128 b) { return a > b ? a : b; }
static int128 wide(int64_t milli) { return milli == U ? (int128)1 << 90 : milli; }
static int64_t narrow(int128 milli) { return milli > U ? U : (int64_t)milli; }

static int128 guaranteed(const struct twin *twin, uint32_t node, uint16_t flavor)
{
    int64_t lending = twin->limits[node][flavor].lending;

    return lending == U ? 0 : max_wide(0, twin->subtree[node] - lending);
}

static void sum_up(struct twin *twin, uint32_t node, uint16_t flavor)
{
    twin->subtree[node] = wide(twin->limits[node][flavor].nominal);
    twin->usage[node] = node < TENANTS ? twin->used[node][flavor] : 0;
    for (uint32_t child = 0; child < NODES; child++) {
        if (twin->parent[child] != node)
            continue;
        sum_up(twin, child, flavor);
        twin->subtree[node] += twin->subtree[child] - guaranteed(twin, child, flavor);
        twin->usage[node] += max_wide(0, twin->usage[child] - guaranteed(twin, child, flavor));
    }
}

static void look(struct twin *twin, uint16_t flavor)
{
    for (uint32_t node = 0; node < NODES; node++)
        if (twin->parent[node] == NOBODY)
            sum_up(twin, node, flavor);
}

static int128 available(const struct twin *twin, uint32_t node, uint16_t flavor)
{
    const struct limits *limits = &twin->limits[node][flavor];
    int128 own = guaranteed(twin, node, flavor);
    int128 above;

    if (twin->parent[node] == NOBODY)
        return max_wide(0, twin->subtree[node] - twin->usage[node]);
    above = available(twin, twin->parent[node], flavor);
    if (limits->borrowing != U)
        above = min_wide(above, twin->subtree[node] - own - max_wide(0, twin->usage[node] - own) + limits->borrowing);
    return max_wide(0, own - twin->usage[node]) + max_wide(0, above);
}

static int128 ceiling(const struct twin *twin, uint32_t node, uint16_t flavor)
{
    const struct limits *limits = &twin->limits[node][flavor];
    int128 most;

    if (twin->parent[node] == NOBODY)
        return twin->subtree[node];
    most = guaranteed(twin, node, flavor) + ceiling(twin, twin->parent[node], flavor);
    return limits->borrowing == U ? most : min_wide(most, twin->subtree[node] + limits->borrowing);
}

struct pair {
    struct quota *quota;
    struct twin twin;
    uint64_t seed;
    uint64_t random;
};

static void *new_pair(struct pair *pair, uint64_t seed)
{
    struct quota_config config = {
        .tenants_max = TENANTS, .cohorts_max = COHORTS, .flavors_max = FLAVORS, .half_life_ns = 1};
    void *memory = malloc(quota_bytes(&config));

    memset(pair, 0, sizeof(*pair));
    pair->quota = quota_create(memory, quota_bytes(&config), &config);
    pair->seed = pair->random = seed;
    for (uint32_t node = 0; node < NODES; node++)
        pair->twin.parent[node] = NOBODY;
    return memory;
}

static bool is_above(const struct twin *twin, uint32_t above, uint32_t node)
{
    for (; node != NOBODY; node = twin->parent[node])
        if (node == above)
            return true;
    return false;
}

static int64_t draw_limit(uint64_t *random)
{
    uint64_t kind = draw_below(random, 8);

    return kind == 0 ? U : kind == 1 ? 0 : kind == 2 ? U - 1 - (int64_t)draw_below(random, 3)
                                                     : (int64_t)draw_below(random, 12);
}

/* `scarce`: no endless nominal quotas, so that there is something to fight over. */
static void set_any(struct pair *pair, uint32_t node, uint16_t flavor, bool scarce)
{
    struct twin *twin = &pair->twin;
    struct limits limits = {scarce ? (int64_t)draw_below(&pair->random, 9) : draw_limit(&pair->random),
                            draw_limit(&pair->random), draw_limit(&pair->random)};
    uint32_t parent = (uint32_t)draw_below(&pair->random, 5) == 0
                          ? NOBODY : TENANTS + (uint32_t)draw_below(&pair->random, COHORTS);
    uint32_t cohort;

    if (parent != NOBODY && is_above(twin, node, parent))
        parent = NOBODY;
    cohort = parent == NOBODY ? NO_COHORT : parent - TENANTS;
    if (node < TENANTS)
        quota_set_tenant(pair->quota, node, cohort, flavor, 1000, limits.nominal, limits.borrowing, limits.lending);
    else
        quota_set_cohort(pair->quota, node - TENANTS, cohort, flavor, 1000, limits.nominal, limits.borrowing,
                         limits.lending);
    twin->parent[node] = parent;
    twin->limits[node][flavor] = limits;
}

static void set_all(struct pair *pair, bool scarce)
{
    for (uint32_t cohort = 0; cohort < COHORTS; cohort++) {
        quota_set_cohort(pair->quota, cohort, NO_COHORT, 0, 1000, 0, U, U);
        pair->twin.parent[TENANTS + cohort] = NOBODY;
    }
    for (uint16_t flavor = 0; flavor < FLAVORS; flavor++)
        for (uint32_t node = NODES; node-- > 0;)
            set_any(pair, node, flavor, scarce);
}

static void compare(struct pair *pair, uint32_t turn, uint16_t flavor)
{
    struct twin *twin = &pair->twin;

    look(twin, flavor);
    quota_check(pair->quota);
    for (uint32_t tenant = 0; tenant < TENANTS; tenant++) {
        int64_t has[3] = {quota_available(pair->quota, tenant, flavor), quota_ceiling(pair->quota, tenant, flavor),
                          quota_used(pair->quota, tenant, flavor)};
        int64_t expected[3] = {narrow(available(twin, tenant, flavor)), narrow(ceiling(twin, tenant, flavor)),
                               twin->used[tenant][flavor]};

        for (uint32_t i = 0; i < 3; i++)
            if (has[i] != expected[i])
                fail_msg("seed %llu, turn %u, tenant %u, %s: %lld, twin %lld", (unsigned long long)pair->seed, turn,
                         tenant, (const char *[]){"available", "ceiling", "used"}[i], (long long)has[i],
                         (long long)expected[i]);
    }
}

static void take_any(struct pair *pair, uint32_t tenant, uint16_t flavor)
{
    int64_t most = quota_available(pair->quota, tenant, flavor);
    int64_t room = INT64_MAX - pair->twin.used[tenant][flavor];
    int64_t milli = (int64_t)draw_below(&pair->random, (uint64_t)min_i64(min_i64(most, room), 15) + 1);

    assert_true(quota_fit(pair->quota, tenant, flavor, milli) <= QUOTA_BORROWING ||
                milli > quota_ceiling(pair->quota, tenant, flavor));
    quota_take(pair->quota, tenant, flavor, milli);
    pair->twin.used[tenant][flavor] += milli;
}

static void give_any(struct pair *pair, uint32_t tenant, uint16_t flavor)
{
    int64_t milli = (int64_t)draw_below(&pair->random, (uint64_t)pair->twin.used[tenant][flavor] + 1);

    quota_give(pair->quota, tenant, flavor, milli);
    pair->twin.used[tenant][flavor] -= milli;
}

static void the_tree_equals_its_leaves_whatever_changes(void **state)
{
    (void)state;
    struct pair pair;
    void *memory = new_pair(&pair, test_seed(91));

    set_all(&pair, false);
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        uint32_t tenant = (uint32_t)draw_below(&pair.random, TENANTS);
        uint16_t flavor = (uint16_t)draw_below(&pair.random, FLAVORS);
        uint64_t what = draw_below(&pair.random, 100);

        if (what < 8) {
            set_any(&pair, (uint32_t)draw_below(&pair.random, NODES), flavor, draw_below(&pair.random, 2) == 0);
        } else if (what < 12) {
            quota_take_over(pair.quota, tenant, flavor, 3);
            pair.twin.used[tenant][flavor] += 3;
        } else if (what < 60) {
            take_any(&pair, tenant, flavor);
        } else {
            give_any(&pair, tenant, flavor);
        }
        compare(&pair, turn, flavor);
    }

    /* However it came about, with everything given back nothing is in use anywhere. */
    for (uint32_t tenant = 0; tenant < TENANTS; tenant++) {
        for (uint16_t flavor = 0; flavor < FLAVORS; flavor++) {
            quota_give(pair.quota, tenant, flavor, quota_used(pair.quota, tenant, flavor));
            pair.twin.used[tenant][flavor] = 0;
        }
    }
    for (uint16_t flavor = 0; flavor < FLAVORS; flavor++) {
        compare(&pair, TURNS, flavor);
        for (uint32_t tenant = 0; tenant < TENANTS; tenant++)
            assert_int_equal(quota_available(pair.quota, tenant, flavor), quota_ceiling(pair.quota, tenant, flavor));
    }
    free(memory);
}

/* What is in use of `node` and all below it. */
static int128 used_below(const struct twin *twin, uint32_t node, uint16_t flavor)
{
    int128 sum = 0;

    for (uint32_t tenant = 0; tenant < TENANTS; tenant++)
        if (is_above(twin, node, tenant))
            sum += twin->used[tenant][flavor];
    return sum;
}

static int128 nominal_below(const struct twin *twin, uint32_t node, uint16_t flavor)
{
    int128 sum = 0;

    for (uint32_t i = 0; i < NODES; i++)
        if (is_above(twin, node, i))
            sum += wide(twin->limits[i][flavor].nominal);
    return sum;
}

/* I2 and I3 from outside: sums of what was given and what is used, none of the tree's own arithmetic. */
static void assert_lawful(const struct pair *pair, uint32_t turn, uint16_t flavor)
{
    const struct twin *twin = &pair->twin;

    for (uint32_t node = 0; node < NODES; node++) {
        const struct limits *limits = &twin->limits[node][flavor];
        int128 borrowing = twin->parent[node] == NOBODY ? 0 : wide(limits->borrowing);
        int128 outside = 0;
        int128 outside_nominal = 0;

        if (used_below(twin, node, flavor) > nominal_below(twin, node, flavor) + borrowing)
            fail_msg("seed %llu, turn %u: node %u is above its limit", (unsigned long long)pair->seed, turn, node);
        /* All else in its tree has no more than what was given to it, and what this node may lend. */
        for (uint32_t root = 0; root < NODES; root++) {
            if (twin->parent[root] == NOBODY && is_above(twin, root, node)) {
                outside = used_below(twin, root, flavor) - used_below(twin, node, flavor);
                outside_nominal = nominal_below(twin, root, flavor) - nominal_below(twin, node, flavor);
            }
        }
        if (outside > outside_nominal + wide(limits->lending))
            fail_msg("seed %llu, turn %u: node %u lends more than it may", (unsigned long long)pair->seed, turn, node);
    }
}

/* When it is lawful, does it, and finds that it kept what it promises (I4, I5, I6). */
static bool try_reclaim(struct pair *pair, uint32_t turn, uint32_t claimer, uint32_t victim, uint16_t flavor)
{
    struct twin *twin = &pair->twin;
    struct quota *quota = pair->quota;
    int64_t milli = 1 + (int64_t)draw_below(&pair->random, 3);
    int128 claimer_nominal = twin->limits[claimer][flavor].nominal;
    int128 victim_nominal = twin->limits[victim][flavor].nominal;

    if (!quota_may_reclaim(quota, claimer, milli, victim, flavor, milli))
        return false;
    assert_true(quota_borrowed(quota, victim, flavor) >= milli);
    quota_give(quota, victim, flavor, milli);
    twin->used[victim][flavor] -= milli;
    /* What the victim gives is the claimer's to take: it was not stopped for nothing. */
    if (quota_available(quota, claimer, flavor) < milli)
        fail_msg("seed %llu, turn %u: %lld taken from %u, %u may take %lld", (unsigned long long)pair->seed, turn,
                 (long long)milli, victim, claimer, (long long)quota_available(quota, claimer, flavor));
    quota_take(quota, claimer, flavor, milli);
    twin->used[claimer][flavor] += milli;
    assert_true(twin->used[claimer][flavor] <= claimer_nominal);
    assert_true(twin->used[victim][flavor] >= victim_nominal);
    /* used / nominal of the claimer <= that of the victim; it can't turn round. */
    assert_true(twin->used[claimer][flavor] * victim_nominal <= twin->used[victim][flavor] * claimer_nominal);
    assert_false(quota_may_reclaim(quota, victim, 0, claimer, flavor, 1));
    return true;
}

static void within_limits_nobody_has_more_lends_more_or_loses_its_own(void **state)
{
    (void)state;
    struct pair pair;
    void *memory = new_pair(&pair, test_seed(92));
    uint32_t reclaims = 0;
    uint32_t fulls = 0;

    for (uint32_t turn = 0; turn < TURNS / 2; turn++) {
        uint32_t tenant = (uint32_t)draw_below(&pair.random, TENANTS);
        uint16_t flavor = (uint16_t)draw_below(&pair.random, FLAVORS);
        uint64_t what = draw_below(&pair.random, 10);

        if (turn % 200 == 0) {
            for (uint32_t i = 0; i < TENANTS * FLAVORS; i++) {
                quota_give(pair.quota, i / FLAVORS, i % FLAVORS, quota_used(pair.quota, i / FLAVORS, i % FLAVORS));
                pair.twin.used[i / FLAVORS][i % FLAVORS] = 0;
            }
            set_all(&pair, true);
        }
        if (what < 6) {
            take_any(&pair, tenant, flavor);
        } else if (what < 9) {
            for (uint32_t victim = 0; victim < TENANTS; victim++)
                reclaims += try_reclaim(&pair, turn, tenant, victim, flavor);
        } else {
            give_any(&pair, tenant, flavor);
        }
        fulls += quota_available(pair.quota, tenant, flavor) == 0;
        compare(&pair, turn, flavor);
        assert_lawful(&pair, turn, flavor);
    }
    assert_true(reclaims > TURNS / 200);
    assert_true(fulls > TURNS / 100);
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_tree_equals_its_leaves_whatever_changes),
        cmocka_unit_test(within_limits_nobody_has_more_lends_more_or_loses_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
