/* The larger, the less likely: e^(-size / c) (Berger, Sitaraman, Harchol-Balter, NSDI 2017, 4.1, the rule that AdaptSize tunes; here c
 * stays as it is given). What is asked for often gets in sooner or later, large or small. */
#include "base/exp.h"
#include "base/hash.h"
#include "policy/policy.h"

enum { KEY_c };

#define PURPOSE 0x73697a65 /* "size" */

static bool size_probability_wants(struct admit_view *view, const struct evict_ask *asked, const struct evict_entry *victim)
{
    const double c = (double)view->capacity * view->parameters[KEY_c] / 100.0;
    const double exponent = (double)asked->size / c;
    const uint64_t chance = exponent < 64.0 ? exp_negative((uint64_t)(exponent * 4294967296.0)) : 0;

    (void)victim;
    return hash_mix(hash_mix(view->salt ^ PURPOSE) + view->draws++) < chance;
}

static const struct evict_key size_probability_keys[] = {
    {"c", "percent of the cache: of such a size one in e gets in", 1, 0.0001, 100},
};

const struct admit_policy admit_size_probability = {
    .name = "size-probability",
    .about = "at random, the smaller the likelier",
    .source = "Berger, Sitaraman, Harchol-Balter, NSDI 2017, 4.1",
    .keys = size_probability_keys,
    .keys_count = ARRAY_COUNT(size_probability_keys),
    .wants = size_probability_wants,
};
