/* What may be written of policies and sizes, and what is said to what may not. */
#include "cachelab/spec.h"

#include <stdio.h>

#include "support.h"

static void assert_has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("no \"%s\" in: %s", part, text);
}

static struct lab_size size_of(const char *text)
{
    char message[SPEC_MESSAGE_MAX];
    struct lab_size size;

    if (spec_size(text, strlen(text), &size, message) != STATUS_OK)
        fail_msg("%s: %s", text, message);
    assert_string_equal(size.text, text);
    return size;
}

static void sizes_are_bytes_objects_or_shares(void **state)
{
    struct lab_size size;
    char message[SPEC_MESSAGE_MAX];

    (void)state;
    assert_int_equal(size_of("8GiB").capacity, UINT64_C(8) << 30);
    assert_int_equal(size_of("8GiB").unit, LAB_BYTES);
    assert_int_equal(size_of("3TiB").capacity, UINT64_C(3) << 40);
    assert_int_equal(size_of("0B").capacity, 0);
    assert_int_equal(size_of("9223372036854775807B").capacity, LAB_CAPACITY_MAX);
    assert_int_equal(size_of("250obj").capacity, 250);
    assert_int_equal(size_of("250obj").unit, LAB_OBJECTS);
    assert_int_equal(size_of("0.1%").millionths, 100000);
    assert_int_equal(size_of("100%").millionths, 100000000);
    assert_int_equal(size_of("12.345678%obj").millionths, 12345678);
    size = size_of("1%");
    assert_int_equal(spec_share(&size, 7, 1099, message), STATUS_OK);
    assert_int_equal(size.capacity, 10); /* rounded down */
    size = size_of("50%obj");
    assert_int_equal(spec_share(&size, 7, 1099, message), STATUS_OK);
    assert_int_equal(size.capacity, 3);
    size = size_of("100%");
    assert_int_equal(spec_share(&size, 7, (uint128)1 << 63, message), STATUS_INVALID);
    assert_has(message, "2^63 bytes or more");
}

static void sizes_that_could_mean_anything_are_refused(void **state)
{
    static const struct {
        const char *text, *said;
    } wrong[] = {
        {"1.5kb", "'1.5kb' is no size; write 250obj, 512MiB (B, KiB, MiB, GiB, TiB), 1% of the working set's bytes, or 1%obj"},
        {"abc", "is no size"},     {"100", "is no size"},        {"", "empty"},
        {"8gb", "is no size"},     {"8GB", "is no size"},        {"-1obj", "is no size"},
        {"1e3obj", "is no size"},  {"1.5GiB", "whole number"},   {"1.5obj", "whole number"},
        {"101%", "more than all"}, {"100.000001%", "more than"}, {"1.0000001%", "is no size"},
        {".5%", "is no size"},     {"1.%", "is no size"},        {"%", "is no size"},
        {"1..5%", "is no size"},   {" 1obj", "is no size"},      {"1obj ", "is no size"},
        {"9223372036854775808B", "is no size"},                  {"8388608TiB", "too large"},
        {"2147483648obj", "too large"},                          {"99999999999999999999999B", "is no size"},
    };
    char message[SPEC_MESSAGE_MAX];
    struct lab_size size;

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
        if (spec_size(wrong[i].text, strlen(wrong[i].text), &size, message) != STATUS_INVALID)
            fail_msg("'%s' is taken as a size", wrong[i].text);
        assert_has(message, wrong[i].said);
    }
}

static void policies_have_names_and_parameters(void **state)
{
    char message[SPEC_MESSAGE_MAX];
    struct lab_admission admission;
    struct lab_policy policy;

    (void)state;
    assert_int_equal(spec_policy("sieve,", 5, &policy, message), STATUS_OK);
    assert_ptr_equal(policy.evict, &evict_sieve);
    assert_string_equal(policy.text, "sieve");
    assert_int_equal(spec_policy("sive", 4, &policy, message), STATUS_INVALID);
    assert_string_equal(message, "no policy is called 'sive'; did you mean sieve?");
    assert_int_equal(spec_policy("xxxxxxxx", 8, &policy, message), STATUS_INVALID);
    assert_has(message, "berth-sim policies lists them");
    assert_int_equal(spec_policy("lru:segments=4", 14, &policy, message), STATUS_INVALID);
    assert_string_equal(message, "lru has no parameter 'segments'; it has none");
    assert_int_equal(spec_policy("slru:segment=4", 14, &policy, message), STATUS_INVALID);
    assert_string_equal(message, "slru has no parameter 'segment'; it has segments=4");
    assert_int_equal(spec_policy("pfoo", 4, &policy, message), STATUS_OK);
    assert_null(policy.evict);
    assert_int_equal(spec_admission("always", 6, &admission, message), STATUS_OK);
    assert_ptr_equal(admission.admit, &admit_always);
}

/* Of every policy of the list that has parameters. */
static void parameters_are_numbers_within_their_bounds(void **state)
{
    static const struct evict_policy *const policies[] = {
#define X(name) &evict_##name,
        EVICT_POLICIES(X) EVICT_BOUNDS(X)
#undef X
    };
    char text[LAB_TEXT_MAX], message[SPEC_MESSAGE_MAX];
    struct lab_policy policy;

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(policies); i++) {
        const struct evict_policy *evict = policies[i];

        snprintf(text, sizeof(text), "%s", evict->name);
        assert_int_equal(spec_policy(text, strlen(text), &policy, message), STATUS_OK);
        for (uint32_t key = 0; key < evict->keys_count; key++) {
            assert_true(policy.parameters[key] == evict->keys[key].value);
            snprintf(text, sizeof(text), "%s:%s=%.17g", evict->name, evict->keys[key].name, evict->keys[key].max);
            assert_int_equal(spec_policy(text, strlen(text), &policy, message), STATUS_OK);
            assert_true(policy.parameters[key] == evict->keys[key].max);
            snprintf(text, sizeof(text), "%s:%s=%.17g", evict->name, evict->keys[key].name, evict->keys[key].max * 2 + 1);
            assert_int_equal(spec_policy(text, strlen(text), &policy, message), STATUS_INVALID);
            snprintf(text, sizeof(text), "%s:%s=", evict->name, evict->keys[key].name);
            assert_int_equal(spec_policy(text, strlen(text), &policy, message), STATUS_INVALID);
            snprintf(text, sizeof(text), "%s:%s=nan", evict->name, evict->keys[key].name);
            assert_int_equal(spec_policy(text, strlen(text), &policy, message), STATUS_INVALID);
            assert_has(message, "it is a number from");
            snprintf(text, sizeof(text), "%s:%s=%.17g:%s=1", evict->name, evict->keys[key].name, evict->keys[key].max, evict->keys[key].name);
            assert_int_equal(spec_policy(text, strlen(text), &policy, message), STATUS_INVALID);
            assert_has(message, " twice");
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_bytes_objects_or_shares),
        cmocka_unit_test(sizes_that_could_mean_anything_are_refused),
        cmocka_unit_test(policies_have_names_and_parameters),
        cmocka_unit_test(parameters_are_numbers_within_their_bounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
