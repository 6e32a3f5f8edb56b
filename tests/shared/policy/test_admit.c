/* What may enter: each policy by hand, and chance by its frequencies. */
#include "policy/policy.h"
#include "support.h"

#include <math.h>
#include <stdlib.h>

static struct admit_view view_of(const struct admit_policy *policy, uint64_t capacity, uint32_t entries_max)
{
    struct admit_view view = {.capacity = capacity, .entries_max = entries_max, .salt = test_seed(6)};
    const size_t bytes = policy->state_bytes == NULL ? 0 : policy->state_bytes(entries_max);

    view.state = aligned_alloc(64, (bytes + 64) & ~(size_t)63);
    memset(view.state, 0, bytes);
    for (uint32_t i = 0; i < policy->keys_count; i++)
        view.parameters[i] = policy->keys[i].value;
    if (policy->begin != NULL)
        policy->begin(&view);
    return view;
}

static bool asks(const struct admit_policy *policy, struct admit_view *view, uint64_t name, uint64_t size, const struct evict_entry *victim)
{
    const struct evict_ask asked = {.name = name, .size = size, .bytes = size, .open = true};

    if (policy->use != NULL)
        policy->use(view, name, size);
    return policy->wants(view, &asked, victim);
}

static void enlarge(const struct admit_policy *policy, struct admit_view *view, uint32_t entries_max)
{
    struct admit_view larger = view_of(policy, view->capacity, entries_max);

    memset(larger.state, 0, policy->state_bytes(entries_max));
    policy->grow(&larger, view->state, view->entries_max);
    free(view->state);
    view->state = larger.state;
    view->entries_max = entries_max;
}

static void bloom_lets_in_what_is_asked_for_a_second_time(void **state)
{
    struct admit_view view = view_of(&admit_bloom, 100, 10);

    (void)state;
    assert_false(asks(&admit_bloom, &view, 1, 1, NULL));
    assert_false(asks(&admit_bloom, &view, 2, 1, NULL));
    assert_true(asks(&admit_bloom, &view, 1, 1, NULL));
    enlarge(&admit_bloom, &view, 1000);
    assert_true(asks(&admit_bloom, &view, 2, 1, NULL));
    assert_false(asks(&admit_bloom, &view, 3, 1, NULL));
    for (uint64_t name = 100; name < 100 + 3 * 16 * 1000; name++) /* two turns later, and those that seemed to be there */
        (void)asks(&admit_bloom, &view, name, 1, NULL);
    assert_false(asks(&admit_bloom, &view, 1, 1, NULL));
    free(view.state);
}

static void tinylfu_lets_in_what_is_asked_for_more_often_than_what_would_leave(void **state)
{
    struct admit_view view = view_of(&admit_tinylfu, 100, 10);
    const struct evict_entry victim = {.name = 9, .size = 1, .hits = 1, .present = true};

    (void)state;
    assert_true(asks(&admit_tinylfu, &view, 1, 1, NULL)); /* there is room */
    admit_tinylfu.use(&view, 9, 1);
    admit_tinylfu.use(&view, 9, 1);
    assert_false(asks(&admit_tinylfu, &view, 1, 1, &victim)); /* as often */
    enlarge(&admit_tinylfu, &view, 1000);
    assert_true(asks(&admit_tinylfu, &view, 1, 1, &victim));
    assert_false(asks(&admit_tinylfu, &view, 2, 1, &victim));
    free(view.state);
}

static void size_probability_lets_in_one_in_e_of_one_percent(void **state)
{
    enum { ASKS = 40000 };
    static const uint64_t sizes[] = {0, 1, 500, 1000, 3000, 64000, 1000000};
    struct admit_view view = view_of(&admit_size_probability, 100000, 10);

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        const double expected = ASKS * exp(-(double)sizes[i] / 1000.0);
        uint32_t wanted = 0;

        for (uint32_t j = 0; j < ASKS; j++)
            wanted += asks(&admit_size_probability, &view, j, sizes[i], NULL);
        if (fabs(wanted - expected) > 4.5 * sqrt(expected * (1 - expected / ASKS)) + 1e-9)
            fail_msg("size %llu: %u of %u, not about %.1f", (unsigned long long)sizes[i], wanted, ASKS, expected);
    }
    free(view.state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bloom_lets_in_what_is_asked_for_a_second_time),
        cmocka_unit_test(tinylfu_lets_in_what_is_asked_for_more_often_than_what_would_leave),
        cmocka_unit_test(size_probability_lets_in_one_in_e_of_one_percent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
