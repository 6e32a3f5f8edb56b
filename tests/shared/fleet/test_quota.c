/* The tree of quotas, case by case: what may be taken, what may be taken back, and what is refused. Amounts are plain
 * numbers here; the core reads them as thousandths of a GPU. */
#include "fleet/quota.h"
#include "support.h"

#include <stdlib.h>

#define U QUOTA_UNLIMITED
#define ROOT NO_COHORT
enum { TENANTS = 4, COHORTS = 4, FLAVORS = 2 };

static const struct quota_config small = {
    .tenants_max = TENANTS, .cohorts_max = COHORTS, .flavors_max = FLAVORS, .half_life_ns = NS_PER_S};

static struct quota *new_quota(void)
{
    static unsigned char memory[8192];

    check(quota_bytes(&small) <= sizeof(memory));
    return quota_create(memory, sizeof(memory), &small);
}

/* One line of a tree in flavor 0, and what a tenant should then see. */
struct line {
    enum { END, COHORT, TENANT } kind;
    uint32_t number;
    uint32_t cohort;
    int64_t nominal;
    int64_t borrowing;
    int64_t lending;
    int64_t used; /* the rest: of tenants */
    int64_t available;
    int64_t ceiling;
};

struct tree_case {
    const char *name;
    struct line lines[8];
};

static const struct tree_case cases[] = {
    {"alone, a tenant has its nominal quota and nobody to borrow from",
     {{TENANT, 0, ROOT, 10, U, U, 4, 6, 10}}},
    {"unused nominal quota is lent within the cohort",
     {{COHORT, 0, ROOT, 0, U, U, 0, 0, 0},
      {TENANT, 0, 0, 10, U, U, 3, 13, 16},
      {TENANT, 1, 0, 6, U, U, 0, 13, 16}}},
    {"a borrowing limit is beyond nominal",
     {{COHORT, 0, ROOT, 0, U, U, 0, 0, 0},
      {TENANT, 0, 0, 10, 2, U, 0, 12, 12},
      {TENANT, 1, 0, 6, U, U, 0, 16, 16}}},
    {"what is lent is gone until it is given back, also for the owner",
     {{COHORT, 0, ROOT, 0, U, U, 0, 0, 0},
      {TENANT, 0, 0, 10, 0, U, 0, 7, 10},
      {TENANT, 1, 0, 6, U, U, 9, 7, 16}}},
    {"a borrower stops at its limit though there is more",
     {{COHORT, 0, ROOT, 0, U, U, 0, 0, 0},
      {TENANT, 0, 0, 10, U, U, 0, 8, 16},
      {TENANT, 1, 0, 6, 2, U, 8, 0, 8}}},
    {"lending limit 0: the owner keeps all, and may still borrow",
     {{COHORT, 0, ROOT, 0, U, U, 0, 0, 0},
      {TENANT, 0, 0, 10, U, 0, 0, 16, 16},
      {TENANT, 1, 0, 6, U, U, 0, 6, 6}}},
    {"the owner uses its guaranteed part before the lent one",
     {{COHORT, 0, ROOT, 0, U, U, 0, 0, 0},
      {TENANT, 0, 0, 10, U, 4, 8, 8, 16},
      {TENANT, 1, 0, 6, U, U, 0, 8, 10}}},
    {"with all that is lent in use the guaranteed part is still there",
     {{COHORT, 0, ROOT, 0, U, U, 0, 0, 0},
      {TENANT, 0, 0, 10, U, 4, 0, 6, 16},
      {TENANT, 1, 0, 6, U, U, 10, 0, 10}}},
    {"a lending limit above nominal is none",
     {{COHORT, 0, ROOT, 0, U, U, 0, 0, 0},
      {TENANT, 0, 0, 10, U, 99, 0, 16, 16},
      {TENANT, 1, 0, 6, U, U, 0, 16, 16}}},
    {"a cohort's own quota is for all its members",
     {{COHORT, 0, ROOT, 5, U, U, 0, 0, 0},
      {TENANT, 0, 0, 0, 3, U, 0, 3, 3},
      {TENANT, 1, 0, 2, U, U, 0, 7, 7}}},
    {"limits of a nested cohort hold for its members together",
     {{COHORT, 0, ROOT, 10, U, U, 0, 0, 0},
      {COHORT, 1, 0, 4, 3, 1, 0, 0, 0},
      {COHORT, 2, 0, 0, U, U, 0, 0, 0},
      {TENANT, 0, 1, 2, U, U, 0, 9, 9},
      {TENANT, 1, 2, 1, U, U, 0, 12, 12}}},
    {"a nested cohort borrows what its own do not cover",
     {{COHORT, 0, ROOT, 10, U, U, 0, 0, 0},
      {COHORT, 1, 0, 4, 3, 1, 0, 0, 0},
      {COHORT, 2, 0, 0, U, U, 0, 0, 0},
      {TENANT, 0, 1, 2, U, U, 7, 2, 9},
      {TENANT, 1, 2, 1, U, U, 0, 10, 12}}},
    {"the narrowest limit on the way up decides",
     {{COHORT, 0, ROOT, 100, U, U, 0, 0, 0},
      {COHORT, 1, 0, 0, 50, U, 0, 0, 0},
      {COHORT, 2, 1, 0, 20, U, 0, 0, 0},
      {TENANT, 0, 2, 1, 30, U, 0, 21, 21},
      {TENANT, 1, 1, 1, 90, U, 0, 52, 52}}},
    {"a cohort that lends nothing keeps it for all below it",
     {{COHORT, 0, ROOT, 0, U, U, 0, 0, 0},
      {COHORT, 1, 0, 0, U, 0, 0, 0, 0},
      {TENANT, 0, 1, 4, U, U, 0, 9, 12},
      {TENANT, 1, 1, 3, U, U, 3, 9, 12},
      {TENANT, 2, 0, 5, U, U, 0, 5, 5}}},
    {"unlimited nominal quota stays unlimited, for borrowers too",
     {{COHORT, 0, ROOT, 0, U, U, 0, 0, 0},
      {TENANT, 0, 0, U, U, U, 5, U, U},
      {TENANT, 1, 0, 3, U, U, 0, U, U},
      {TENANT, 2, 0, U, U, U, 0, U, U}}},
    {"of unlimited quota so much is lent as the limit says",
     {{COHORT, 0, ROOT, 0, U, U, 0, 0, 0},
      {TENANT, 0, 0, U, U, 7, 0, U, U},
      {TENANT, 1, 0, 3, U, U, 0, 10, 10}}},
    {"limits just below unlimited do not overflow",
     {{COHORT, 0, ROOT, U - 1, U - 1, U - 1, 0, 0, 0},
      {TENANT, 0, 0, U - 1, U - 1, U - 1, 0, U, U},
      {TENANT, 1, 0, U - 1, 0, 0, 0, U - 1, U - 1}}},
    {"an overdrawn neighbour does not eat what is guaranteed",
     {{COHORT, 0, ROOT, 0, U, U, 0, 0, 0},
      {TENANT, 0, 0, 10, U, 0, 2, 8, 15},
      {TENANT, 1, 0, 5, U, U, 8, 0, 5}}},
    {"a tenant above its own limit gets nothing, also of what is free",
     {{COHORT, 0, ROOT, 20, U, U, 0, 0, 0},
      {TENANT, 0, 0, 1, 2, U, 5, 0, 3},
      {TENANT, 1, 0, 0, U, U, 0, 16, 21}}},
};

static void a_tenant_may_take_what_the_tree_says(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct quota *quota = new_quota();

        for (const struct line *line = cases[i].lines; line->kind != END; line++) {
            if (line->kind == COHORT)
                quota_set_cohort(quota, line->number, line->cohort, 0, 1000, line->nominal, line->borrowing,
                                 line->lending);
            else
                quota_set_tenant(quota, line->number, line->cohort, 0, 1000, line->nominal, line->borrowing,
                                 line->lending);
        }
        for (const struct line *line = cases[i].lines; line->kind != END; line++) {
            if (line->kind == TENANT)
                quota_take_over(quota, line->number, 0, line->used);
        }
        quota_check(quota);
        for (const struct line *line = cases[i].lines; line->kind != END; line++) {
            if (line->kind != TENANT)
                continue;

            int64_t available = quota_available(quota, line->number, 0);
            int64_t ceiling = quota_ceiling(quota, line->number, 0);

            if (available != line->available || ceiling != line->ceiling)
                fail_msg("%s: tenant %u has %lld of %lld, expected %lld of %lld", cases[i].name, line->number,
                         (long long)available, (long long)ceiling, (long long)line->available,
                         (long long)line->ceiling);
            assert_int_equal(quota_used(quota, line->number, 0), line->used);
            assert_int_equal(quota_nominal(quota, line->number, 0), line->nominal);
        }
    }
}

/* Two members of one cohort, 10 and 6, flavor by flavor. */
static struct quota *two_members(int64_t borrowing, int64_t lending)
{
    struct quota *quota = new_quota();

    for (uint16_t flavor = 0; flavor < FLAVORS; flavor++) {
        quota_set_cohort(quota, 0, ROOT, flavor, 1000, 0, U, U);
        quota_set_tenant(quota, 0, 0, flavor, 1000, 10, borrowing, lending);
        quota_set_tenant(quota, 1, 0, flavor, 1000, 6, borrowing, lending);
    }
    return quota;
}

static void a_need_is_nominal_borrowed_waiting_or_hopeless(void **state)
{
    (void)state;
    struct quota *quota = two_members(3, U);

    assert_int_equal(quota_fit(quota, 1, 0, 0), QUOTA_NOMINAL);
    assert_int_equal(quota_fit(quota, 1, 0, 6), QUOTA_NOMINAL);
    assert_int_equal(quota_fit(quota, 1, 0, 7), QUOTA_BORROWING);
    assert_int_equal(quota_fit(quota, 1, 0, 9), QUOTA_BORROWING);
    assert_int_equal(quota_fit(quota, 1, 0, 10), QUOTA_NEVER);
    quota_take(quota, 0, 0, 12);
    assert_int_equal(quota_fit(quota, 1, 0, 4), QUOTA_NOMINAL);
    assert_int_equal(quota_fit(quota, 1, 0, 5), QUOTA_WAIT); /* its own, but lent */
    assert_int_equal(quota_fit(quota, 1, 0, 9), QUOTA_WAIT);
    assert_int_equal(quota_fit(quota, 1, 0, 10), QUOTA_NEVER);
    assert_int_equal(quota_fit(quota, 1, 0, INT64_MAX), QUOTA_NEVER);
    assert_int_equal(quota_borrowed(quota, 0, 0), 2);
    assert_int_equal(quota_borrowed(quota, 1, 0), 0);
}

static void a_tenant_has_nothing_where_it_was_given_nothing(void **state)
{
    (void)state;
    struct quota *quota = new_quota();

    assert_false(quota_knows(quota, 0));
    assert_false(quota_knows(quota, TENANTS));
    assert_int_equal(quota_fit(quota, 0, 0, 1), QUOTA_NEVER);
    quota_set_cohort(quota, 0, ROOT, 1, 1000, 50, U, U);
    quota_set_tenant(quota, 0, 0, 0, 1000, 10, U, U);
    assert_true(quota_knows(quota, 0));
    assert_false(quota_knows(quota, 1));
    /* The cohort owns flavor 1, but the tenant was never given it: not even with a loan. */
    assert_int_equal(quota_fit(quota, 0, 1, 1), QUOTA_NEVER);
    quota_set_tenant(quota, 0, 0, 1, 1000, 0, U, U);
    assert_int_equal(quota_fit(quota, 0, 1, 50), QUOTA_BORROWING);
}

static void nobody_has_more_than_nominal_and_borrowing_limit(void **state)
{
    (void)state;
    struct quota *quota = two_members(3, U);

    while (quota_available(quota, 0, 0) > 0)
        quota_take(quota, 0, 0, 1);
    assert_int_equal(quota_used(quota, 0, 0), 13);
    while (quota_available(quota, 1, 0) > 0)
        quota_take(quota, 1, 0, 1);
    assert_int_equal(quota_used(quota, 1, 0), 3);
    quota_check(quota);
}

static void nobody_lends_more_than_its_lending_limit(void **state)
{
    (void)state;
    struct quota *quota = two_members(U, 4);

    while (quota_available(quota, 1, 0) > 0)
        quota_take(quota, 1, 0, 1);
    assert_int_equal(quota_borrowed(quota, 1, 0), 4);
    assert_int_equal(quota_available(quota, 0, 0), 6);
    quota_take(quota, 0, 0, 6);
    assert_int_equal(quota_available(quota, 0, 0), 0);
    quota_check(quota);
}

static void a_waiting_head_does_not_keep_others_from_borrowing_its_idle_quota(void **state)
{
    (void)state;
    struct quota *quota = two_members(U, U);
    uint64_t before;

    quota_take(quota, 1, 0, 3);
    before = quota_digest(quota);
    /* Tenant 0's first job needs more than is free; its queue may stop behind it, the tree does not. */
    assert_int_equal(quota_fit(quota, 0, 0, 14), QUOTA_WAIT);
    assert_true(quota_digest(quota) == before);
    assert_int_equal(quota_fit(quota, 1, 0, 13), QUOTA_BORROWING);
    quota_take(quota, 1, 0, 13);
    assert_int_equal(quota_borrowed(quota, 1, 0), 10);
}

static void borrowing_in_one_flavor_leaves_the_claim_to_nominal_in_another(void **state)
{
    (void)state;
    struct quota *quota = two_members(U, U);

    quota_take(quota, 1, 0, 16);
    assert_int_equal(quota_borrowed(quota, 1, 0), 10);
    assert_int_equal(quota_borrowed(quota, 1, 1), 0);
    assert_int_equal(quota_fit(quota, 1, 1, 6), QUOTA_NOMINAL);
    /* What tenant 0 borrows in flavor 1 is tenant 1's to claim, however much that one borrows in flavor 0. */
    quota_take(quota, 0, 1, 16);
    assert_int_equal(quota_fit(quota, 1, 1, 6), QUOTA_WAIT);
    assert_true(quota_may_reclaim(quota, 1, 6, 0, 1, 6));
}

/* Tasks that succeed and are started again: what the tree says is what runs, never what was once admitted. */
static void the_tree_equals_what_runs_whatever_is_restarted(void **state)
{
    (void)state;
    enum { TASKS = 64 };
    struct quota *quota = two_members(U, U);
    uint64_t seed = test_seed(61);
    uint64_t random = seed;
    int64_t runs[TASKS] = {0};

    for (uint32_t turn = 0; turn < 20000; turn++) {
        uint32_t task = (uint32_t)draw_below(&random, TASKS);
        int64_t live[2] = {0};

        if (runs[task] > 0) {
            quota_give(quota, task % 2, 0, runs[task]);
            runs[task] = 0;
        } else if (quota_fit(quota, task % 2, 0, 1 + task % 3) <= QUOTA_BORROWING) {
            runs[task] = 1 + task % 3;
            quota_take(quota, task % 2, 0, runs[task]);
        }
        for (uint32_t i = 0; i < TASKS; i++)
            live[i % 2] += runs[i];
        if (quota_used(quota, 0, 0) != live[0] || quota_used(quota, 1, 0) != live[1])
            fail_msg("seed %llu, turn %u: tree %lld %lld, runs %lld %lld", (unsigned long long)seed, turn,
                     (long long)quota_used(quota, 0, 0), (long long)quota_used(quota, 1, 0), (long long)live[0],
                     (long long)live[1]);
        assert_true(live[0] + live[1] <= 16);
        quota_check(quota);
    }
}

static void release_is_total_when_a_flavor_was_cut_meanwhile(void **state)
{
    (void)state;
    struct quota *quota = two_members(U, U);

    quota_take(quota, 0, 0, 12);
    quota_take(quota, 0, 1, 9);
    quota_set_tenant(quota, 0, 0, 0, 1000, 0, 0, 0);
    assert_int_equal(quota_available(quota, 0, 0), 0);
    assert_int_equal(quota_available(quota, 1, 0), 0); /* 12 are in use where 6 are owned */
    quota_give(quota, 0, 0, 12);
    quota_give(quota, 0, 1, 9);
    assert_int_equal(quota_used(quota, 0, 0), 0);
    assert_int_equal(quota_available(quota, 1, 0), 6);
    assert_int_equal(quota_available(quota, 1, 1), 16);
    quota_check(quota);
}

/* Five changes around a tenant that goes away, in all 120 orders: one end. */
static void change(struct quota *quota, uint32_t which)
{
    switch (which) {
    case 0: quota_give(quota, 0, 0, 7); break;
    case 1: quota_give(quota, 0, 0, 5); break;
    case 2: quota_set_tenant(quota, 0, 1, 0, 1000, 0, 0, 0); break; /* moved, and cut to nothing */
    case 3: quota_set_cohort(quota, 0, 2, 0, 1000, 0, 0, 0); break; /* its cohort: moved and closed */
    default: quota_set_tenant(quota, 1, 0, 0, 1000, 2, 1, 1); break;
    }
}

static void permute(uint32_t *order, uint32_t from, uint64_t *expected, uint32_t *ret_count)
{
    if (from < 5) {
        for (uint32_t i = from; i < 5; i++) {
            uint32_t first = order[i];

            order[i] = order[from];
            order[from] = first;
            permute(order, from + 1, expected, ret_count);
            order[from] = order[i];
            order[i] = first;
        }
        return;
    }

    struct quota *quota = two_members(U, U);

    quota_set_cohort(quota, 1, ROOT, 0, 1000, 1, U, U);
    quota_set_cohort(quota, 2, ROOT, 0, 1000, 4, U, U);
    quota_take(quota, 0, 0, 12);
    quota_take(quota, 1, 0, 1);
    for (uint32_t i = 0; i < 5; i++) {
        change(quota, order[i]);
        quota_check(quota);
    }
    if (*ret_count == 0)
        *expected = quota_digest(quota);
    if (quota_digest(quota) != *expected)
        fail_msg("order %u %u %u %u %u ends elsewhere", order[0], order[1], order[2], order[3], order[4]);
    assert_int_equal(quota_used(quota, 0, 0), 0);
    assert_int_equal(quota_used(quota, 1, 0), 1);
    assert_int_equal(quota_available(quota, 1, 0), 1);
    (*ret_count)++;
}

static void release_does_not_depend_on_the_order_of_removals(void **state)
{
    (void)state;
    uint32_t order[5] = {0, 1, 2, 3, 4};
    uint64_t expected = 0;
    uint32_t count = 0;

    permute(order, 0, &expected, &count);
    assert_int_equal(count, 120);
}

static void reclaim_takes_from_borrowers_what_they_borrow(void **state)
{
    (void)state;
    struct quota *quota = two_members(U, U);

    quota_take(quota, 0, 0, 12);
    quota_take(quota, 1, 0, 4);
    assert_true(quota_may_reclaim(quota, 1, 2, 0, 0, 2));
    assert_false(quota_may_reclaim(quota, 1, 2, 0, 0, 3)); /* the victim would fall below its own */
    assert_false(quota_may_reclaim(quota, 1, 3, 0, 0, 2)); /* the claimer would borrow */
    assert_false(quota_may_reclaim(quota, 0, 1, 1, 0, 1)); /* in-quota work, and a borrower claims */
    assert_false(quota_may_reclaim(quota, 0, 0, 0, 0, 1)); /* within one queue that is preemption */
    quota_give(quota, 0, 0, 2);
    quota_take(quota, 1, 0, 2);
    assert_false(quota_may_reclaim(quota, 0, 0, 1, 0, 1)); /* nor back again */
}

static void reclaim_stays_within_one_tree(void **state)
{
    (void)state;
    struct quota *quota = new_quota();

    quota_set_cohort(quota, 0, ROOT, 0, 1000, 4, U, U);
    quota_set_tenant(quota, 0, 0, 0, 1000, 0, U, U);
    quota_set_tenant(quota, 1, ROOT, 0, 1000, 4, U, U);
    quota_set_tenant(quota, 2, ROOT, 0, 1000, 4, U, U);
    quota_take(quota, 0, 0, 4);
    quota_take_over(quota, 2, 0, 8);
    assert_false(quota_may_reclaim(quota, 1, 1, 0, 0, 1));
    assert_false(quota_may_reclaim(quota, 1, 1, 2, 0, 1));
}

/* Cohorts 1 and 2 under 0: tenants 0 and 1 in the first, 2 and 3 in the second. */
static void reclaim_respects_what_a_cohort_owns(void **state)
{
    (void)state;
    struct quota *quota = new_quota();

    quota_set_cohort(quota, 0, ROOT, 0, 1000, 0, U, U);
    quota_set_cohort(quota, 1, 0, 0, 1000, 0, U, U);
    quota_set_cohort(quota, 2, 0, 0, 1000, 0, U, U);
    quota_set_tenant(quota, 0, 1, 0, 1000, 4, U, U);
    quota_set_tenant(quota, 1, 1, 0, 1000, 0, U, U);
    quota_set_tenant(quota, 2, 2, 0, 1000, 4, U, U);
    quota_set_tenant(quota, 3, 2, 0, 1000, 0, U, U);

    /* Tenant 3 borrows within its own cohort: no business of the other one. */
    quota_take(quota, 3, 0, 4);
    quota_take(quota, 1, 0, 4);
    assert_false(quota_may_reclaim(quota, 0, 2, 3, 0, 2));
    assert_true(quota_may_reclaim(quota, 2, 2, 3, 0, 2));
    /* Its cohort at its quota, tenant 0 has a borrower inside to take from. */
    assert_true(quota_may_reclaim(quota, 0, 2, 1, 0, 2));

    /* Once the second cohort lives on what the first owns, the first may take that back, and no more. */
    quota_give(quota, 1, 0, 4);
    quota_take(quota, 3, 0, 3);
    assert_true(quota_may_reclaim(quota, 0, 3, 3, 0, 3));
    assert_false(quota_may_reclaim(quota, 0, 4, 3, 0, 4));
    /* With the first overdrawn from within, its member takes inside first. */
    quota_give(quota, 3, 0, 2);
    quota_take(quota, 1, 0, 3);
    assert_true(quota_may_reclaim(quota, 0, 1, 3, 0, 1));
    assert_false(quota_may_reclaim(quota, 0, 2, 3, 0, 1));
    assert_true(quota_may_reclaim(quota, 0, 2, 1, 0, 2));
}

/* Of its nominal 4 tenant 0 lends 1; only what passes its guaranteed 3 is its cohort's business. */
static void a_claim_goes_up_only_by_what_is_not_guaranteed(void **state)
{
    (void)state;
    struct quota *quota = new_quota();

    quota_set_cohort(quota, 0, ROOT, 0, 1000, 0, U, U);
    quota_set_cohort(quota, 1, 0, 0, 1000, 0, U, U);
    quota_set_tenant(quota, 0, 1, 0, 1000, 4, U, 1);
    quota_set_tenant(quota, 3, 0, 0, 1000, 4, U, U);
    quota_take(quota, 3, 0, 5);
    assert_int_equal(quota_fit(quota, 0, 0, 4), QUOTA_WAIT);
    assert_true(quota_may_reclaim(quota, 0, 4, 3, 0, 1));
    quota_give(quota, 3, 0, 1);
    assert_int_equal(quota_fit(quota, 0, 0, 4), QUOTA_NOMINAL);
}

static void memory_of_any_alignment_will_do(void **state)
{
    (void)state;
    size_t bytes = quota_bytes(&small);
    unsigned char *memory = malloc(bytes + 16);
    uint64_t expected = 0;

    for (size_t offset = 0; offset < 16; offset++) {
        struct quota *quota = quota_create(memory + offset, bytes, &small);

        quota_set_tenant(quota, 3, ROOT, 1, 500, 10, U, U);
        quota_take(quota, 3, 1, 4);
        quota_usage_add(quota, 3, 5, 77);
        quota_check(quota);
        if (offset == 0)
            expected = quota_digest(quota);
        assert_true(quota_digest(quota) == expected);
    }
    free(memory);
}

static void every_state_has_its_own_digest(void **state)
{
    (void)state;
    struct quota *quota = two_members(5, 4);
    uint64_t seen[8];
    uint32_t count = 0;

    seen[count++] = quota_digest(quota);
    quota_take(quota, 0, 1, 1);
    seen[count++] = quota_digest(quota);
    quota_usage_add(quota, 0, 0, 1);
    seen[count++] = quota_digest(quota);
    quota_set_tenant(quota, 0, 0, 0, 1001, 10, 5, 4);
    seen[count++] = quota_digest(quota);
    quota_set_tenant(quota, 0, 0, 0, 1001, 10, 6, 4);
    seen[count++] = quota_digest(quota);
    quota_set_tenant(quota, 0, 0, 0, 1001, 10, 6, 5);
    seen[count++] = quota_digest(quota);
    quota_set_tenant(quota, 0, ROOT, 0, 1001, 10, 6, 5);
    seen[count++] = quota_digest(quota);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = 0; j < i; j++)
            assert_true(seen[i] != seen[j]);
}

/* Mistakes of the caller, each of which stops. */
static void no_half_life(void *context)
{
    struct quota_config config = small;

    (void)context;
    config.half_life_ns = 0;
    (void)quota_bytes(&config);
}
static void nine_flavors(void *context)
{
    struct quota_config config = small;

    (void)context;
    config.flavors_max = 9;
    (void)quota_bytes(&config);
}
static void too_little_memory(void *context)
{
    static unsigned char memory[8192];

    (void)context;
    (void)quota_create(memory, quota_bytes(&small) - 1, &small);
}
static void its_own_parent(void *quota) { quota_set_cohort(quota, 0, 0, 0, 1000, 0, U, U); }
static void a_cycle(void *quota)
{
    quota_set_cohort(quota, 1, 0, 0, 1000, 0, U, U);
    quota_set_cohort(quota, 2, 1, 0, 1000, 0, U, U);
    quota_set_cohort(quota, 0, 2, 0, 1000, 0, U, U);
}
static void an_unknown_cohort(void *quota) { quota_set_tenant(quota, 0, 3, 0, 1000, 1, U, U); }
static void a_cohort_out_of_range(void *quota) { quota_set_tenant(quota, 0, COHORTS, 0, 1000, 1, U, U); }
static void no_weight(void *quota) { quota_set_tenant(quota, 0, 0, 0, 0, 1, U, U); }
static void negative_nominal(void *quota) { quota_set_tenant(quota, 0, 0, 0, 1000, -1, U, U); }
static void negative_borrowing(void *quota) { quota_set_tenant(quota, 0, 0, 0, 1000, 1, -1, U); }
static void negative_lending(void *quota) { quota_set_tenant(quota, 0, 0, 0, 1000, 1, U, -1); }
static void a_tenant_out_of_range(void *quota) { quota_take(quota, TENANTS, 0, 0); }
static void a_flavor_out_of_range(void *quota) { quota_take(quota, 0, FLAVORS, 0); }
static void more_than_there_is(void *quota) { quota_take(quota, 0, 0, 17); }
static void less_than_nothing(void *quota) { quota_take(quota, 0, 0, -1); }
static void more_back_than_taken(void *quota)
{
    quota_take(quota, 0, 0, 3);
    quota_give(quota, 0, 0, 4);
}
static void more_than_can_be_counted(void *quota)
{
    quota_take_over(quota, 0, 0, INT64_MAX);
    quota_take_over(quota, 0, 0, 1);
}
static void usage_of_an_unknown_tenant(void *quota) { quota_usage_add(quota, 3, 0, 1); }

static void mistakes_stop(void **state)
{
    (void)state;
    static void (*const mistakes[])(void *) = {
        no_half_life, nine_flavors, too_little_memory, its_own_parent, a_cycle, an_unknown_cohort,
        a_cohort_out_of_range, no_weight, negative_nominal, negative_borrowing, negative_lending,
        a_tenant_out_of_range, a_flavor_out_of_range, more_than_there_is, less_than_nothing, more_back_than_taken,
        more_than_can_be_counted, usage_of_an_unknown_tenant};

    for (size_t i = 0; i < ARRAY_COUNT(mistakes); i++) {
        if (!check_stops(mistakes[i], two_members(U, U)))
            fail_msg("mistake %zu went through", i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tenant_may_take_what_the_tree_says),
        cmocka_unit_test(a_need_is_nominal_borrowed_waiting_or_hopeless),
        cmocka_unit_test(a_tenant_has_nothing_where_it_was_given_nothing),
        cmocka_unit_test(nobody_has_more_than_nominal_and_borrowing_limit),
        cmocka_unit_test(nobody_lends_more_than_its_lending_limit),
        cmocka_unit_test(a_waiting_head_does_not_keep_others_from_borrowing_its_idle_quota),
        cmocka_unit_test(borrowing_in_one_flavor_leaves_the_claim_to_nominal_in_another),
        cmocka_unit_test(the_tree_equals_what_runs_whatever_is_restarted),
        cmocka_unit_test(release_is_total_when_a_flavor_was_cut_meanwhile),
        cmocka_unit_test(release_does_not_depend_on_the_order_of_removals),
        cmocka_unit_test(reclaim_takes_from_borrowers_what_they_borrow),
        cmocka_unit_test(reclaim_stays_within_one_tree),
        cmocka_unit_test(reclaim_respects_what_a_cohort_owns),
        cmocka_unit_test(a_claim_goes_up_only_by_what_is_not_guaranteed),
        cmocka_unit_test(memory_of_any_alignment_will_do),
        cmocka_unit_test(every_state_has_its_own_digest),
        cmocka_unit_test(mistakes_stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
