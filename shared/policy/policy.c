/* The answers by name and in order, from the lists of policy.h. */
#include "policy/policy.h"

/* X(question, LIST, what it asks): in the order of `berth-sim policies`. */
#define QUESTIONS(X)                                                    \
    X(evict, EVICT_POLICIES, "What leaves a tier?")                     \
    X(admit, ADMIT_POLICIES, "What may enter a tier?")                  \
    X(queue, QUEUE_POLICIES, "Which request goes next in a replica?")   \
    X(route, ROUTE_POLICIES, "Which replica takes a request?")          \
    X(order, ORDER_POLICIES, "Which job goes next?")                    \
    X(place, PLACE_POLICIES, "Where does a job run?")                   \
    X(scale, SCALE_POLICIES, "How many replicas serve a base?")

#define NAME(question, name) &question##_##name,
#define EVICT(name) NAME(evict, name)
#define ADMIT(name) NAME(admit, name)
#define QUEUE(name) NAME(queue, name)
#define ROUTE(name) NAME(route, name)
#define ORDER(name) NAME(order, name)
#define PLACE(name) NAME(place, name)
#define SCALE(name) NAME(scale, name)
static const struct evict_policy *const evict_policies[] = {EVICT_POLICIES(EVICT)};
static const struct admit_policy *const admit_policies[] = {ADMIT_POLICIES(ADMIT)};
static const struct queue_policy *const queue_policies[] = {QUEUE_POLICIES(QUEUE)};
static const struct route_policy *const route_policies[] = {ROUTE_POLICIES(ROUTE)};
static const struct order_policy *const order_policies[] = {ORDER_POLICIES(ORDER)};
static const struct place_policy *const place_policies[] = {PLACE_POLICIES(PLACE)};
static const struct scale_policy *const scale_policies[] = {SCALE_POLICIES(SCALE)};

#define X(question, list, asks)                                                     \
    const struct question##_policy *question##_policy_find(const char *name)        \
    {                                                                               \
        for (size_t i = 0; i < ARRAY_COUNT(question##_policies); i++)               \
            if (strcmp(question##_policies[i]->name, name) == 0)                    \
                return question##_policies[i];                                      \
        return NULL;                                                                \
    }
QUESTIONS(X)
#undef X

bool policy_line_at(size_t index, struct policy_line *ret_line)
{
#define X(question, list, asks)                                                                                        \
    if (index < ARRAY_COUNT(question##_policies)) {                                                                    \
        *ret_line = (struct policy_line){#question, asks, question##_policies[index]->name,                            \
                                         question##_policies[index]->about};                                           \
        return true;                                                                                                   \
    }                                                                                                                  \
    index -= ARRAY_COUNT(question##_policies);
    QUESTIONS(X)
#undef X
    return false;
}
