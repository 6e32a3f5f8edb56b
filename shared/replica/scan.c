/* The scan: one walk over the waiting requests in the policy's order that admits whom it can, begins the loads they
 * need and counts who was passed over. It runs only when something changed that could let somebody in
 * (note_change()).
 *
 * While a run is in flight nobody can be admitted, but loads need not wait for the step's end: then the scan looks at
 * as many requests as could still become rows, and prefetch_max more, and only begins loads.
 *
 * A load is needed when its request could run with it: rows are free and max_loras leaves a place that no earlier
 * request has claimed by waiting for its own load. Any other load is prefetch, for at most prefetch_max requests a
 * scan: without that limit every change of order would fill all slots anew, for requests that could not run anyway.
 *
 * What the scan has seen READY it holds: a later request's load never evicts what an earlier one waits to use.
 * Requests younger than the barrier are not looked at at all, so they hold no slot against it. */
#include "replica/internal.h"

struct scan {
    struct replica *replica;
    struct replica_commands *out;
    uint32_t heap_count;
    uint32_t held_count;
    uint32_t rows_left;     /* while a run is in flight: looks at requests that could become rows at its end */
    uint32_t prefetch_left; /* looks at requests that could not run even with their adapter there */
    uint32_t claims;        /* places under max_loras that wait for a load */
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

static bool within_max_loras(const struct replica *replica, const struct request *request)
{
    return request->adapter == NONE_INDEX || replica->adapters[request->adapter].rows > 0 ||
           replica->distinct < replica->config.max_loras;
}

/* Could the request run if its adapter were there? Then a place under max_loras is kept for it. */
static bool claims_place(struct scan *scan, const struct request *request)
{
    struct replica *replica = scan->replica;
    struct adapter *adapter;

    if (!scan->admitting && scan->rows_left == 0)
        return false;
    if (request->adapter == NONE_INDEX)
        return true;
    adapter = &replica->adapters[request->adapter];
    if (adapter->rows > 0 || adapter->claimed_in == replica->scans)
        return true;
    if (replica->distinct + scan->claims >= replica->config.max_loras)
        return false;
    scan->claims++;
    adapter->claimed_in = replica->scans;
    return true;
}

static bool takes_prefetch(struct scan *scan)
{
    if (scan->prefetch_left == 0)
        return false;
    scan->prefetch_left--;
    return true;
}

/* The request's adapter is not in a slot: begins the load if it is needed, or may be prefetched. */
static void look_at_absent(struct scan *scan, uint32_t index)
{
    struct replica *replica = scan->replica;
    struct request *request = &replica->requests[index];
    struct adapter *adapter = &replica->adapters[request->adapter];
    bool may_load = claims_place(scan, request) || takes_prefetch(scan);
    enum load_answer answer = LOAD_NO_LINK;

    if (adapter->state == ADAPTER_ABSENT && may_load)
        answer = adapter_load(replica, request->adapter, scan->out);
    if (answer == LOAD_NO_SLOT) {
        hold_back(scan, index);
        if (request->slot_wait_since_ns == NEVER_NS)
            request->slot_wait_since_ns = replica->at_ns;
    } else if (answer == LOAD_UNSAID) {
        scan->unsaid = true;
    } else {
        slot_wait_end(replica, request);
        /* max_loras holds it back, unless the link is as busy as it may be: then it waits for a load like others. */
        if (adapter->state == ADAPTER_ABSENT && !may_load && replica->loads < replica->config.loads_max)
            hold_back(scan, index);
    }
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

    if (request->adapter != NONE_INDEX) {
        struct adapter *adapter = &replica->adapters[request->adapter];

        note_tier(request, adapter);
        if (adapter->state != ADAPTER_READY) {
            look_at_absent(scan, index);
            return;
        }
        slot_wait_end(replica, request);
        cache_hold(replica->cache, adapter->entry);
    }
    if (!scan->admitting) {
        if (!claims_place(scan, request))
            (void)takes_prefetch(scan);
    } else if (!within_max_loras(replica, request)) {
        hold_back(scan, index);
        (void)takes_prefetch(scan); /* its adapter is kept for it */
    } else if (!kv_admits(replica, request)) {
        scan->admitting = false; /* lack of blocks holds the queue, or long requests would starve */
    } else {
        admit(scan, index);
    }
}

static bool goes_on(struct scan *scan)
{
    const struct replica *replica = scan->replica;

    if (scan->admitting && replica->rows_count == replica->config.rows_max)
        scan->admitting = false;
    if (scan->heap_count == 0 || scan->unsaid || scan->lifted)
        return false;
    if (scan->admitting)
        return true;
    return (scan->rows_left > 0 || scan->prefetch_left > 0) && replica->loads < replica->config.loads_max;
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
            if (replica->config.queue->counts_service)
                key += (uint64_t)replica->config.prompt_weight * replica->requests[index].prompt_tokens;
            look_at(scan, index);
            scan->rows_left -= scan->rows_left > 0;
        } else {
            look_at(scan, index);
            key = class_key(replica, top->class);
        }
        heap_advance(scan, next, key);
    }
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
            .rows_left = may_admit || replica->admission_ended ? 0 : replica->config.rows_max - replica->rows_count,
            .prefetch_left = replica->config.prefetch_max,
            .admitting = may_admit,
        };
        replica->scans++;
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
