/* The scan: one walk over the waiting requests in the policy's order that admits whom it can, begins the loads they need
 * and counts who was passed over. It runs only when something changed that could let somebody in (note_change()).
 *
 * While a run is in flight nobody can be admitted, but loads need not wait for the step's end: then the scan looks at as
 * many requests as could still become rows, and prefetch_max more, and only begins loads.
 *
 * What the scan has seen READY it holds: a later request's load never evicts what an earlier one waits to use. Requests
 * younger than the barrier are not looked at at all, so they hold no slot against it. */
#include "replica/internal.h"

struct scan {
    struct replica *replica;
    struct replica_commands *out;
    uint32_t heap_count;
    uint32_t held_count;
    uint32_t looks_left; /* once it does not admit any more */
    bool admitting;
    bool unsaid; /* the commands are full */
    bool lifted; /* the barrier's request was admitted: those it kept out have not been seen */
};

static bool goes_before(const struct scan_class *a, const struct scan_class *b)
{
    return a->key < b->key || (a->key == b->key && a->id < b->id);
}

static void sift_down(struct scan_class *heap, uint32_t count, uint32_t at)
{
    struct scan_class moved = heap[at];
    uint32_t child;

    for (; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && goes_before(&heap[child + 1], &heap[child]))
            child++;
        if (!goes_before(&heap[child], &moved))
            break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

static void heap_fill(struct scan *scan)
{
    struct replica *replica = scan->replica;

    for (uint32_t i = 0; i < replica->active_count; i++) {
        uint32_t class = replica->active[i];
        uint32_t head = replica->classes[class].head;

        replica->heap[i] = (struct scan_class){
            .key = class_key(replica, class),
            .id = replica->requests[head].id,
            .request = head,
            .class = class,
        };
    }
    scan->heap_count = replica->active_count;
    for (uint32_t i = scan->heap_count / 2; i-- > 0;)
        sift_down(replica->heap, scan->heap_count, i);
}

/* The top class goes on with `next`, its request after the one just seen. */
static void heap_advance(struct scan *scan, uint32_t next, uint64_t key)
{
    struct scan_class *top = &scan->replica->heap[0];

    if (next == NONE_INDEX) {
        *top = scan->replica->heap[--scan->heap_count];
    } else {
        top->key = key;
        top->request = next;
        top->id = scan->replica->requests[next].id;
    }
    if (scan->heap_count > 1)
        sift_down(scan->replica->heap, scan->heap_count, 0);
}

/* Where the adapter was when the request was first looked at; of several loads it was seen to wait for, the coldest. */
static void note_tier(struct request *request, const struct adapter *adapter)
{
    if (adapter->state != ADAPTER_READY) {
        if (request->tier == TIER_UNSEEN)
            request->tier = TIER_AWAITED;
    } else if (request->tier == TIER_UNSEEN) {
        request->tier = TIER_GPU;
    } else if (request->tier == TIER_AWAITED || (request->tier > TIER_GPU && request->tier < adapter->tier)) {
        request->tier = adapter->tier;
    }
}

/* Held back by max_loras or by slots: it keeps its place, and what is admitted after this counts as a pass. */
static void hold_back(struct scan *scan, uint32_t index)
{
    if (scan->admitting)
        scan->replica->held[scan->held_count++] = index;
}

/* True when the request's adapter is in a slot. */
static bool adapter_is_there(struct scan *scan, uint32_t index)
{
    struct replica *replica = scan->replica;
    struct request *request = &replica->requests[index];
    struct adapter *adapter = &replica->adapters[request->adapter];

    note_tier(request, adapter);
    if (adapter->state == ADAPTER_ABSENT) {
        switch (adapter_load(replica, request->adapter, scan->out)) {
        case LOAD_NO_SLOT:
            if (request->slot_wait_since_ns == NEVER_NS)
                request->slot_wait_since_ns = replica->at_ns;
            hold_back(scan, index);
            return false;
        case LOAD_UNSAID:
            scan->unsaid = true;
            return false;
        case LOAD_BEGUN:
        case LOAD_NO_LINK:
            break;
        }
    }
    slot_wait_end(replica, request);
    if (adapter->state != ADAPTER_READY)
        return false;
    cache_hold(replica->cache, adapter->entry);
    return true;
}

static bool within_max_loras(const struct replica *replica, const struct request *request)
{
    return request->adapter == NONE_INDEX || replica->adapters[request->adapter].rows > 0 ||
           replica->distinct < replica->config.max_loras;
}

static void admit(struct scan *scan, uint32_t index)
{
    struct replica *replica = scan->replica;
    struct request *request = &replica->requests[index];
    uint64_t barrier = replica->barrier;

    replica->passes_most = max_u64(replica->passes_most, request->passes);
    queue_remove(replica, index);
    scan->lifted = replica->barrier > barrier;
    fairness_admit(replica, request);
    row_add(replica, index);
    for (uint32_t i = 0; i < scan->held_count; i++) {
        if (replica->requests[replica->held[i]].id < request->id)
            queue_pass(replica, replica->held[i]);
    }
}

static void look_at(struct scan *scan, uint32_t index)
{
    struct replica *replica = scan->replica;
    struct request *request = &replica->requests[index];

    if (request->adapter != NONE_INDEX && !adapter_is_there(scan, index))
        return;
    if (!scan->admitting)
        return;
    if (!within_max_loras(replica, request))
        hold_back(scan, index);
    else if (!kv_admits(replica, request))
        scan->admitting = false; /* lack of blocks holds the queue, or long requests would starve */
    else
        admit(scan, index);
}

static bool goes_on(struct scan *scan)
{
    const struct replica *replica = scan->replica;

    if (scan->admitting && replica->rows_count == replica->config.rows_max)
        scan->admitting = false;
    if (scan->heap_count == 0 || scan->unsaid || scan->lifted)
        return false;
    return scan->admitting || (scan->looks_left > 0 && replica->loads < replica->config.loads_max);
}

static void scan_once(struct scan *scan)
{
    struct replica *replica = scan->replica;
    const struct scan_class *top = &replica->heap[0];

    cache_hold_begin(replica->cache);
    heap_fill(scan);
    while (goes_on(scan)) {
        uint32_t index = top->request;
        uint32_t next = replica->requests[index].next;
        uint64_t key = top->key;

        if (top->id > replica->barrier) {
            heap_advance(scan, NONE_INDEX, 0); /* and all after it in its class are younger still */
            continue;
        }
        if (!scan->admitting) {
            /* Look ahead as the order will be: as if this one had been admitted and charged. */
            scan->looks_left--;
            if (replica->config.queue->counts_service)
                key += (uint64_t)replica->config.prompt_weight * replica->requests[index].prompt_tokens;
            look_at(scan, index);
        } else {
            look_at(scan, index);
            key = class_key(replica, top->class);
        }
        heap_advance(scan, next, key);
    }
}

/* How many requests a scan looks at that can't admit. */
static uint32_t looks_in_flight(const struct replica *replica)
{
    uint32_t rows = replica->admission_ended ? 0 : replica->config.rows_max - replica->rows_count;

    return rows + replica->config.prefetch_max;
}

bool scan_waiting(struct replica *replica, bool may_admit, struct replica_commands *out)
{
    struct scan scan;

    replica->loads_due = false;
    replica->admission_due = replica->admission_due && !may_admit;
    if (may_admit)
        replica->admission_ended = false;
    if (replica->waiting_count == 0)
        return true;
    do {
        scan = (struct scan){
            .replica = replica,
            .out = out,
            .looks_left = may_admit ? replica->config.prefetch_max : looks_in_flight(replica),
            .admitting = may_admit,
        };
        scan_once(&scan);
    } while (scan.lifted && replica->waiting_count > 0);
    if (scan.unsaid) {
        replica->loads_due = true;
        replica->admission_due = replica->admission_due || may_admit;
    } else if (may_admit) {
        replica->admission_ended = !scan.admitting || replica->barrier != NO_BARRIER;
    }
    return !scan.unsaid;
}
