/* Virtual token counters, after Sheng et al., "Fairness in Serving Large Language Models" (OSDI 2024), algorithm 2. A
 * class's counter rises by prompt_weight a prompt token when a request is admitted, once, and by output_weight for each
 * token produced (batch.c adds those). Integers: equal sums in whatever pieces they come.
 *
 * A class that comes back with something waiting is lifted to the least counter among those that wait, so that idling
 * earns no credit (lines 3 to 10 there). A preempted request counts as coming back: what its tenant left unused while
 * nothing of it waited is not owed to it later. */
#include "replica/internal.h"

uint32_t class_of(const struct replica *replica, uint32_t tenant)
{
    return replica->config.queue->class_is_tenant ? tenant : 0;
}

uint64_t class_key(const struct replica *replica, uint32_t class)
{
    return replica->config.queue->counts_service ? replica->classes[class].counter : 0;
}

/* Called before a class without waiting requests gets one. */
void fairness_enter(struct replica *replica, uint32_t class)
{
    uint64_t floor = 0;

    if (!replica->config.queue->counts_service)
        return;
    if (replica->active_count > 0) {
        floor = UINT64_MAX;
        for (uint32_t i = 0; i < replica->active_count; i++)
            floor = min_u64(floor, replica->classes[replica->active[i]].counter);
    } else if (replica->last_class != NONE_INDEX) {
        floor = replica->classes[replica->last_class].counter;
    }
    replica->classes[class].counter = max_u64(replica->classes[class].counter, floor);
}

void fairness_admit(struct replica *replica, struct request *request)
{
    if (!replica->config.queue->counts_service || request->charged)
        return;
    request->charged = 1;
    replica->classes[class_of(replica, request->tenant)].counter +=
        (uint64_t)replica->config.prompt_weight * request->prompt_tokens;
}
