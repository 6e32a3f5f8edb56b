/* The answers by name and in order, from the lists of policy.h. */
#include "policy/policy.h"

#define X(name) &evict_##name,
static const struct evict_policy *const evict_policies[] = {EVICT_POLICIES(X)};
#undef X
#define X(name) &queue_##name,
static const struct queue_policy *const queue_policies[] = {QUEUE_POLICIES(X)};
#undef X
#define X(name) &route_##name,
static const struct route_policy *const route_policies[] = {ROUTE_POLICIES(X)};
#undef X

const struct evict_policy *evict_policy_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_COUNT(evict_policies); i++)
        if (strcmp(evict_policies[i]->name, name) == 0)
            return evict_policies[i];
    return NULL;
}

const struct queue_policy *queue_policy_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_COUNT(queue_policies); i++)
        if (strcmp(queue_policies[i]->name, name) == 0)
            return queue_policies[i];
    return NULL;
}

const struct route_policy *route_policy_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_COUNT(route_policies); i++)
        if (strcmp(route_policies[i]->name, name) == 0)
            return route_policies[i];
    return NULL;
}

/* Question by question, each in the order of its list. */
bool policy_line_at(size_t index, struct policy_line *ret_line)
{
    if (index < ARRAY_COUNT(evict_policies)) {
        const struct evict_policy *policy = evict_policies[index];

        *ret_line = (struct policy_line){"evict", "What leaves a tier?", policy->name, policy->about};
        return true;
    }
    index -= ARRAY_COUNT(evict_policies);
    if (index < ARRAY_COUNT(queue_policies)) {
        const struct queue_policy *policy = queue_policies[index];

        *ret_line = (struct policy_line){"queue", "Which request goes next in a replica?", policy->name, policy->about};
        return true;
    }
    index -= ARRAY_COUNT(queue_policies);
    if (index < ARRAY_COUNT(route_policies)) {
        const struct route_policy *policy = route_policies[index];

        *ret_line = (struct policy_line){"route", "Which replica takes a request?", policy->name, policy->about};
        return true;
    }
    return false;
}
