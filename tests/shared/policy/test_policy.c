/* Every answer can be found by its name, and the listing says each once. */
#include "policy/policy.h"
#include "support.h"

#include <ctype.h>

/* Found under the question it belongs to, and nowhere else: evict has a fifo and so has order, so names are unique within a
 * question only, and the line's own `about` tells them apart. */
static bool is_found(const struct policy_line *line)
{
    bool found = false;
    uint32_t others = 0;

#define LOOK(question_name, kind, find)                                                    \
    do {                                                                                   \
        const struct kind *policy = find(line->name);                                      \
        bool its_own = strcmp(line->question, #question_name) == 0;                        \
        found = found || (its_own && policy != NULL && policy->about == line->about);      \
        others += !its_own && policy != NULL && policy->about == line->about;              \
    } while (0)
    LOOK(evict, evict_policy, evict_policy_find);
    LOOK(bound, evict_policy, evict_bound_find);
    LOOK(admit, admit_policy, admit_policy_find);
    LOOK(queue, queue_policy, queue_policy_find);
    LOOK(route, route_policy, route_policy_find);
    LOOK(order, order_policy, order_policy_find);
    LOOK(place, place_policy, place_policy_find);
    LOOK(scale, scale_policy, scale_policy_find);
#undef LOOK
    return found && others == 0;
}

static void every_listed_policy_is_found_by_its_name(void **state)
{
    (void)state;
#define X(name) +1
    const size_t expected = 0 EVICT_POLICIES(X) EVICT_BOUNDS(X) ADMIT_POLICIES(X) QUEUE_POLICIES(X) ROUTE_POLICIES(X) ORDER_POLICIES(X) PLACE_POLICIES(X)
        SCALE_POLICIES(X);
#undef X
    struct policy_line line = {0};
    size_t count = 0;

    for (; policy_line_at(count, &line); count++) {
        if (!is_found(&line))
            fail_msg("%s policy %s is listed and not found", line.question, line.name);
        assert_true(strlen(line.asks) > 0 && line.asks[strlen(line.asks) - 1] == '?');
        assert_true(strlen(line.about) > 0);
        /* Names are written on command lines and in scenario files. */
        for (const char *at = line.name; *at != 0; at++)
            if (!islower((unsigned char)*at) && !isdigit((unsigned char)*at) && *at != '-')
                fail_msg("the name %s is not lower case letters, digits and hyphens", line.name);
    }
    assert_int_equal(count, expected);
    line.name = "kept";
    assert_false(policy_line_at(count + 100, &line));
    assert_string_equal(line.name, "kept");
}

static void names_are_unique_within_a_question(void **state)
{
    (void)state;
    struct policy_line a, b;

    for (size_t i = 0; policy_line_at(i, &a); i++)
        for (size_t j = i + 1; policy_line_at(j, &b); j++)
            if (strcmp(a.question, b.question) == 0 && strcmp(a.name, b.name) == 0)
                fail_msg("%s: two policies are called %s", a.question, a.name);
}

static void known_names_give_their_tables_and_unknown_ones_nothing(void **state)
{
    (void)state;
    assert_ptr_equal(evict_policy_find("lru"), &evict_lru);
    assert_ptr_equal(queue_policy_find("vtc"), &queue_vtc);
    assert_ptr_equal(route_policy_find("round-robin"), &route_round_robin);
    assert_ptr_equal(route_policy_find("power-of-two"), &route_power_of_two);
    assert_null(route_policy_find("round_robin"));
    assert_null(evict_policy_find("LRU"));
    assert_null(evict_policy_find(""));
    assert_null(evict_policy_find("lr"));
    assert_null(queue_policy_find("lru"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_listed_policy_is_found_by_its_name),
        cmocka_unit_test(names_are_unique_within_a_question),
        cmocka_unit_test(known_names_give_their_tables_and_unknown_ones_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
