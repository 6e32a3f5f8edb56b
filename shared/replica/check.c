/* Every invariant of the replica core, in O(state), and the digest. Tests call replica_check() after each step; hosts may
 * when they have the time. Between steps only: inside one, ends and admissions are half done. */
#include "replica/internal.h"

static void check_class(const struct replica *replica, uint32_t class_index, uint32_t *barred, uint64_t *barrier)
{
    const struct class *class = &replica->classes[class_index];
    uint32_t before = NONE_INDEX;
    uint32_t count = 0;

    check((class->count > 0) == (class->active_at != NONE_INDEX));
    for (uint32_t at = class->head; at != NONE_INDEX; at = replica->requests[at].next) {
        const struct request *request = &replica->requests[at];

        check(request->state == REQUEST_WAITING);
        check(request_slot((request_id){request->id}) == at);
        check(class_of(replica, request->tenant) == class_index);
        check(request->prev == before);
        check(before == NONE_INDEX || replica->requests[before].id < request->id);
        check(request->passes <= replica->config.passes_max);
        check(request->slot_wait_since_ns == NEVER_NS || request->slot_wait_since_ns <= replica->at_ns);
        check(request->generated_tokens < request->output_tokens_max);
        if (request->passes == replica->config.passes_max) {
            (*barred)++;
            *barrier = min_u64(*barrier, request->id);
        }
        before = at;
        count++;
    }
    check(class->tail == before);
    check(class->count == count);
}

static void check_queue(const struct replica *replica)
{
    uint32_t waiting = 0;
    uint32_t active = 0;
    uint32_t barred = 0;
    uint64_t barrier = NO_BARRIER;

    for (uint32_t i = 0; i < replica->classes_max; i++) {
        check_class(replica, i, &barred, &barrier);
        waiting += replica->classes[i].count;
        active += replica->classes[i].count > 0;
        check(replica->config.queue->counts_service || replica->classes[i].counter == 0);
    }
    check(active == replica->active_count);
    for (uint32_t i = 0; i < replica->active_count; i++)
        check(replica->classes[replica->active[i]].active_at == i);
    check(waiting == replica->waiting_count);
    check(barred == replica->barred_count);
    check(barrier == replica->barrier);
    check(replica->passes_most <= replica->config.passes_max);
}

static void check_row(const struct replica *replica, const struct row *row)
{
    const struct request *request = &replica->requests[row->request];
    uint64_t wanted = blocks_for(replica, (uint64_t)max_u32(row->context, row->target) + 1);

    check(request->state == REQUEST_RUNNING);
    check(request->id == row->id);
    check(row->output_max == request->output_tokens_max);
    check(row->generated < row->output_max);
    check(row->target == request->prompt_tokens + request->generated_tokens);
    /* A decoding row's last token is not in KV yet. */
    if (row->context >= row->target)
        check(row->context + 1 == request->prompt_tokens + row->generated);
    else
        check(row->generated == request->generated_tokens);
    check(row->blocks <= wanted);
    if (replica->plan_count > 0)
        check(row->blocks == wanted);
    check(((row->marks & ROW_MARK_ENDING) != 0) == (request->ending != 0));
    check(!request->ending || replica->plan_count > 0);
    if (request->adapter == NONE_INDEX) {
        check(row->gpu_slot == NO_SLOT);
    } else {
        check(replica->adapters[request->adapter].state == ADAPTER_READY);
        check(replica->adapters[request->adapter].entry == row->gpu_slot);
    }
}

static void check_rows(const struct replica *replica)
{
    uint64_t blocks = 0;

    check(replica->rows_count <= replica->config.rows_max);
    check(replica->plan_count == 0 || replica->plan_count == replica->rows_count);
    for (uint32_t i = 0; i < replica->rows_count; i++) {
        check_row(replica, &replica->rows[i]);
        blocks += replica->rows[i].blocks;
        if (replica->plan_count > 0) {
            check(replica->plan[i].request.value == replica->rows[i].id);
            check(replica->plan[i].context_tokens == replica->rows[i].context);
            check(replica->plan[i].gpu_slot == replica->rows[i].gpu_slot);
        }
    }
    check(blocks == replica->kv_used);
    check(blocks <= replica->config.kv_blocks);
}

/* Counted from the adapter's side; O(adapters * rows) would be too slow, so pins are compared with `rows` and the sum. */
static void check_adapters(const struct replica *replica)
{
    uint32_t known = 0;
    uint32_t distinct = 0;
    uint32_t loads = 0;
    uint32_t pinned_rows = 0;
    uint32_t present = 0;
    uint64_t references = 0;

    for (uint32_t i = 0; i < replica->config.adapters_max; i++) {
        const struct adapter *adapter = &replica->adapters[i];

        if (adapter_is_base(adapter->id) || adapter_find(replica, adapter->id) != i)
            continue; /* not known (any more) */
        known++;
        distinct += adapter->rows > 0;
        loads += adapter->state == ADAPTER_LOADING;
        pinned_rows += adapter->rows;
        references += adapter->requests;
        check(adapter->rows <= adapter->requests);
        check(!adapter->retired || adapter->requests > 0 || adapter->state == ADAPTER_LOADING);
        if (adapter->state == ADAPTER_ABSENT) {
            check(adapter->entry == NONE_INDEX);
            check(adapter->rows == 0);
            check(cache_find(replica->cache, adapter->id) == NONE_INDEX);
            continue;
        }
        present++;
        check(cache_find(replica->cache, adapter->id) == adapter->entry);
        check(cache_is_ready(replica->cache, adapter->entry) == (adapter->state == ADAPTER_READY));
        check(cache_pins(replica->cache, adapter->entry) == adapter->rows);
        check(cache_entry_bytes(replica->cache, adapter->entry) == adapter->bytes);
        check(replica->slot_adapters[adapter->entry] == i);
    }
    for (uint32_t i = 0; i < replica->rows_count; i++)
        pinned_rows -= replica->rows[i].gpu_slot != NO_SLOT;
    check(pinned_rows == 0);
    check(known == replica->adapters_known);
    check(known == replica->adapter_table.count);
    check(distinct == replica->distinct);
    check(distinct <= replica->config.max_loras);
    check(loads == replica->loads);
    check(loads <= replica->config.loads_max);
    check(present == cache_count(replica->cache));
    for (uint32_t i = 0; i < replica->config.requests_max; i++)
        references -= replica->requests[i].state != REQUEST_FREE && replica->requests[i].adapter != NONE_INDEX;
    check(references == 0);
}

static void check_requests(const struct replica *replica)
{
    uint32_t waiting = 0;
    uint32_t running = 0;
    uint32_t ended = 0;
    uint32_t last = NONE_INDEX;

    for (uint32_t i = 0; i < replica->config.requests_max; i++) {
        waiting += replica->requests[i].state == REQUEST_WAITING;
        running += replica->requests[i].state == REQUEST_RUNNING;
        ended += replica->requests[i].state == REQUEST_ENDED;
    }
    check(waiting == replica->waiting_count);
    check(running == replica->rows_count);
    for (uint32_t at = replica->ended_head; at != NONE_INDEX; at = replica->requests[at].next) {
        check(replica->requests[at].state == REQUEST_ENDED);
        last = at;
        ended--;
    }
    check(ended == 0);
    check(last == replica->ended_tail);
}

/* Nothing sleeps: what could go on does, or the core has asked to be woken. */
static void check_progress(const struct replica *replica)
{
    check(replica->unsaid == (replica_wakeup_at_ns(replica) != NEVER_NS));
    if (replica->unsaid)
        return;
    check(replica->ended_head == NONE_INDEX);
    check(!replica->loads_due);
    check(replica->rows_count == 0 || replica->plan_count > 0);
    if (replica->rows_count == 0)
        check(!replica->admission_due);
    if (replica->waiting_count > 0 && replica->rows_count == 0)
        check(replica->loads > 0);
    if (replica->plan_count > 0) {
        check(replica->run_steps_max >= 1);
    }
}

void replica_check(const struct replica *replica)
{
    check_queue(replica);
    check_rows(replica);
    check_adapters(replica);
    check_requests(replica);
    check_progress(replica);
    check(!replica->drained || (replica->draining && replica->waiting_count == 0 && replica->rows_count == 0));
    cache_check(replica->cache);
}

static uint64_t fold_request(uint64_t digest, const struct request *request)
{
    digest = hash_fold(digest, request->id);
    digest = hash_fold(digest, (uint64_t)request->generated_tokens << 32 | request->passes);
    digest = hash_fold(digest, (uint64_t)request->recomputed_tokens << 32 | request->lost_tokens);
    digest = hash_fold(digest, (uint64_t)request->slot_wait_ns);
    digest = hash_fold(digest, (uint64_t)request->slot_wait_since_ns);
    return hash_fold(digest, (uint64_t)request->tier << 16 | (uint64_t)request->charged << 8 | request->ending);
}

/* O(rows + waiting). Counters of tenants with nothing here are left out; they show again when one comes back. */
uint64_t replica_digest(const struct replica *replica)
{
    uint64_t digest = hash_fold(replica->said, replica->step);

    for (uint32_t i = 0; i < replica->rows_count; i++) {
        const struct row *row = &replica->rows[i];

        digest = fold_request(digest, &replica->requests[row->request]);
        digest = hash_fold(digest, (uint64_t)row->compute_ns);
        digest = hash_fold(digest, (uint64_t)row->context << 32 | row->target);
        digest = hash_fold(digest, (uint64_t)row->generated << 32 | row->blocks);
        digest = hash_fold(digest, (uint64_t)row->gpu_slot << 16 | row->marks);
        digest = hash_fold(digest, replica->classes[row->class].counter);
    }
    for (uint32_t i = 0; i < replica->active_count; i++) {
        const struct class *class = &replica->classes[replica->active[i]];

        digest = hash_fold(digest, (uint64_t)replica->active[i] << 32 | class->count);
        digest = hash_fold(digest, class->counter);
        for (uint32_t at = class->head; at != NONE_INDEX; at = replica->requests[at].next)
            digest = fold_request(digest, &replica->requests[at]);
    }
    for (uint32_t at = replica->ended_head; at != NONE_INDEX; at = replica->requests[at].next)
        digest = fold_request(digest, &replica->requests[at]);
    digest = hash_fold(digest, cache_digest(replica->cache));
    digest = hash_fold(digest, replica->kv_used);
    digest = hash_fold(digest, replica->barrier);
    digest = hash_fold(digest, replica->preemptions << 32 | replica->passes_most);
    digest = hash_fold(digest, (uint64_t)replica->adapters_known << 32 | replica->loads);
    return hash_mix(hash_fold(digest, (uint64_t)replica->draining << 3 | (uint64_t)replica->unsaid << 2 |
                                          (uint64_t)replica->admission_due << 1 | replica->admission_ended));
}
