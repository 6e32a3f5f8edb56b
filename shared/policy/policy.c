/* The answers by name and in order, from the lists of policy.h. */
#include "policy/policy.h"

/* X(question, kind, finder, LIST, what it asks): in the order of `berth-sim policies`. */
#define QUESTIONS(X)                                                                                  \
    X(evict, evict_policy, evict_policy_find, EVICT_POLICIES, "What leaves a tier?")                  \
    X(bound, evict_policy, evict_bound_find, EVICT_BOUNDS, "What would leave if one knew the future?") \
    X(admit, admit_policy, admit_policy_find, ADMIT_POLICIES, "What may enter a tier?")               \
    X(queue, queue_policy, queue_policy_find, QUEUE_POLICIES, "Which request goes next in a replica?") \
    X(route, route_policy, route_policy_find, ROUTE_POLICIES, "Which replica takes a request?")       \
    X(order, order_policy, order_policy_find, ORDER_POLICIES, "Which job goes next?")                 \
    X(place, place_policy, place_policy_find, PLACE_POLICIES, "Where does a job run?")                \
    X(scale, scale_policy, scale_policy_find, SCALE_POLICIES, "How many replicas serve a base?")

#define EVICT(name) &evict_##name,
#define ADMIT(name) &admit_##name,
#define QUEUE(name) &queue_##name,
#define ROUTE(name) &route_##name,
#define ORDER(name) &order_##name,
#define PLACE(name) &place_##name,
#define SCALE(name) &scale_##name,
static const struct evict_policy *const evict_all[] = {EVICT_POLICIES(EVICT)};
static const struct evict_policy *const bound_all[] = {EVICT_BOUNDS(EVICT)};
static const struct admit_policy *const admit_all[] = {ADMIT_POLICIES(ADMIT)};
static const struct queue_policy *const queue_all[] = {QUEUE_POLICIES(QUEUE)};
static const struct route_policy *const route_all[] = {ROUTE_POLICIES(ROUTE)};
static const struct order_policy *const order_all[] = {ORDER_POLICIES(ORDER)};
static const struct place_policy *const place_all[] = {PLACE_POLICIES(PLACE)};
static const struct scale_policy *const scale_all[] = {SCALE_POLICIES(SCALE)};

#define X(question, kind, finder, list, asks)                        \
    const struct kind *finder(const char *name)                      \
    {                                                                \
        for (size_t i = 0; i < ARRAY_COUNT(question##_all); i++)     \
            if (strcmp(question##_all[i]->name, name) == 0)          \
                return question##_all[i];                            \
        return NULL;                                                 \
    }
QUESTIONS(X)
#undef X

bool policy_line_at(size_t index, struct policy_line *ret_line)
{
#define X(question, kind, finder, list, asks)                                                                      \
    if (index < ARRAY_COUNT(question##_all)) {                                                                     \
        *ret_line = (struct policy_line){#question, asks, question##_all[index]->name, question##_all[index]->about}; \
        return true;                                                                                               \
    }                                                                                                              \
    index -= ARRAY_COUNT(question##_all);
    QUESTIONS(X)
#undef X
    return false;
}
