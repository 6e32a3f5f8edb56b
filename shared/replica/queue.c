/* Waiting requests: a doubly linked list a class, by id, which is by age. Arrivals go to the tail; a preempted request
 * goes back to its place, which is near the head.
 *
 * The barrier. A pass over request r is the admission, in a scan that had held r back because of max_loras or because no
 * slot could be freed, of a younger request that stood behind r in the policy's order. When r has passes_max passes no
 * younger request is admitted, or begins a load, until r is.
 *
 * The bound. Whoever is admitted before r is older than r, or younger. A younger one either stood before r in the
 * policy's order (never with fcfs, nor within a tenant), or went ahead while r waited for its load (loads begin in order
 * and end by themselves), or is a pass. Passes are counted one by one inside the scan, and the passes_max-th raises the
 * barrier before the next candidate is considered, so they are never more than passes_max. With the barrier up only
 * the finitely many older requests can be admitted, so rows drain, slots are unpinned, and r's turn comes: at most
 * passes_max + (requests older than it) are admitted before a request that does not wait for a load, under fcfs and
 * within a tenant under vtc; and under vtc nobody at all passes the barrier. */
#include "replica/internal.h"

static void class_activate(struct replica *replica, uint32_t class)
{
    fairness_enter(replica, class);
    replica->classes[class].active_at = replica->active_count;
    replica->active[replica->active_count++] = class;
}

static void class_deactivate(struct replica *replica, uint32_t class)
{
    uint32_t hole = replica->classes[class].active_at;
    uint32_t moved = replica->active[--replica->active_count];

    replica->active[hole] = moved;
    replica->classes[moved].active_at = hole;
    replica->classes[class].active_at = NONE_INDEX;
    replica->last_class = class;
}

/* The youngest request of the class that is older than `id`, from whichever end is likely to be near. */
static uint32_t place_before(const struct replica *replica, const struct class *class, uint64_t id, bool from_head)
{
    uint32_t at;

    if (from_head) {
        uint32_t before = NONE_INDEX;

        for (at = class->head; at != NONE_INDEX && replica->requests[at].id < id; at = replica->requests[at].next)
            before = at;
        return before;
    }
    for (at = class->tail; at != NONE_INDEX && replica->requests[at].id > id;)
        at = replica->requests[at].prev;
    return at;
}

void queue_insert(struct replica *replica, uint32_t index)
{
    struct request *request = &replica->requests[index];
    uint32_t class_index = class_of(replica, request->tenant);
    struct class *class = &replica->classes[class_index];

    if (class->count == 0)
        class_activate(replica, class_index);
    request->prev = place_before(replica, class, request->id, request->state == REQUEST_RUNNING);
    request->next = request->prev == NONE_INDEX ? class->head : replica->requests[request->prev].next;
    *(request->prev == NONE_INDEX ? &class->head : &replica->requests[request->prev].next) = index;
    *(request->next == NONE_INDEX ? &class->tail : &replica->requests[request->next].prev) = index;
    request->state = REQUEST_WAITING;
    request->passes = 0;
    class->count++;
    replica->waiting_count++;
}

/* The oldest of those with passes_max passes; the first such of each class, since lists are by age. */
static uint64_t barrier_find(const struct replica *replica)
{
    uint64_t barrier = NO_BARRIER;

    if (replica->barred_count == 0)
        return NO_BARRIER;
    for (uint32_t i = 0; i < replica->active_count; i++) {
        uint32_t at = replica->classes[replica->active[i]].head;

        while (at != NONE_INDEX && replica->requests[at].passes < replica->config.passes_max)
            at = replica->requests[at].next;
        if (at != NONE_INDEX)
            barrier = min_u64(barrier, replica->requests[at].id);
    }
    return barrier;
}

void slot_wait_end(const struct replica *replica, struct request *request)
{
    const struct adapter *adapter;
    int64_t end_at_ns = replica->at_ns;

    if (request->slot_wait_since_ns == NEVER_NS)
        return;
    adapter = &replica->adapters[request->adapter]; /* the base never waits for a slot */
    if (adapter->state != ADAPTER_ABSENT && adapter->load_began_at_ns >= request->slot_wait_since_ns)
        end_at_ns = adapter->load_began_at_ns;
    request->slot_wait_ns += end_at_ns - request->slot_wait_since_ns;
    request->slot_wait_since_ns = NEVER_NS;
}

void queue_remove(struct replica *replica, uint32_t index)
{
    struct request *request = &replica->requests[index];
    uint32_t class_index = class_of(replica, request->tenant);
    struct class *class = &replica->classes[class_index];

    check(request->state == REQUEST_WAITING);
    slot_wait_end(replica, request);
    *(request->prev == NONE_INDEX ? &class->head : &replica->requests[request->prev].next) = request->next;
    *(request->next == NONE_INDEX ? &class->tail : &replica->requests[request->next].prev) = request->prev;
    class->count--;
    replica->waiting_count--;
    if (class->count == 0)
        class_deactivate(replica, class_index);
    if (request->passes == replica->config.passes_max)
        replica->barred_count--;
    if (request->id == replica->barrier)
        replica->barrier = barrier_find(replica);
}

void queue_pass(struct replica *replica, uint32_t index)
{
    struct request *request = &replica->requests[index];

    check(request->passes < replica->config.passes_max);
    if (++request->passes == replica->config.passes_max) {
        replica->barred_count++;
        replica->barrier = min_u64(replica->barrier, request->id);
    }
}
