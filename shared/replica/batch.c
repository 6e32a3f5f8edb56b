/* Rows and plans. A plan is one engine step: with chunked batching every decoding row gets its token and what is left
 * of the budget goes to prefills in order of admission; with prefill first the decoding rows stand still while any
 * row has prompt left. A plan that only decodes may be run many times (steps_max); everything here adds up the same
 * either way. */
#include "replica/internal.h"

static bool row_prefills(const struct row *row)
{
    return row->context < row->target;
}

void row_add(struct replica *replica, uint32_t index)
{
    struct request *request = &replica->requests[index];
    struct row *row = &replica->rows[replica->rows_count++];

    check(replica->rows_count <= replica->config.rows_max);
    *row = (struct row){
        .id = request->id,
        .compute_ns = request->compute_ns,
        .request = index,
        .class = class_of(replica, request->tenant),
        .target = request->prompt_tokens + request->generated_tokens,
        .generated = request->generated_tokens,
        .output_max = request->output_tokens_max,
        .gpu_slot = NO_SLOT,
        .marks = request->lost_tokens > 0 ? ROW_MARK_NEW | ROW_MARK_RECOMPUTE : ROW_MARK_NEW,
    };
    row->blocks = (uint32_t)blocks_for(replica, (uint64_t)row->target + 1);
    replica->kv_used += row->blocks;
    request->state = REQUEST_RUNNING;
    if (request->adapter == NONE_INDEX) {
        request->tier = TIER_BASE;
    } else {
        struct adapter *adapter = &replica->adapters[request->adapter];

        check(adapter->state == ADAPTER_READY);
        row->gpu_slot = (uint16_t)adapter->entry;
        replica->distinct += adapter->rows++ == 0;
        cache_pin(replica->cache, adapter->entry);
        (void)cache_touch(replica->cache, adapter->entry);
    }
}

void row_release(struct replica *replica, const struct row *row)
{
    struct request *request = &replica->requests[row->request];

    request->generated_tokens = row->generated;
    request->compute_ns = row->compute_ns;
    replica->kv_used -= row->blocks;
    if (request->adapter != NONE_INDEX) {
        struct adapter *adapter = &replica->adapters[request->adapter];

        check(adapter->rows > 0);
        replica->distinct -= --adapter->rows == 0;
        (void)cache_unpin(replica->cache, adapter->entry);
    }
}

static bool row_ended(const struct row *row)
{
    return (row->marks & ROW_MARK_ENDING) != 0 || row->generated == row->output_max;
}

/* Takes ended rows out, the others keep their order. An end that was announced says why; otherwise the row is full. */
static void rows_end(struct replica *replica)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < replica->rows_count; i++) {
        const struct row *row = &replica->rows[i];
        const struct request *request = &replica->requests[row->request];
        bool announced = (row->marks & ROW_MARK_ENDING) != 0;

        if (!row_ended(row)) {
            replica->rows[kept++] = *row;
            continue;
        }
        if (announced && request->end_reason == SEQUENCE_FINISHED)
            check(request->end_tokens == row->generated);
        row_release(replica, row);
        request_end(replica, row->request, REPLICA_COMMAND_DONE, announced ? request->end_reason : SEQUENCE_FINISHED);
    }
    replica->rows_count = kept;
    note_change(replica);
}

/* At the end of the step in flight, or at once when there is none. */
void row_cancel(struct replica *replica, uint32_t index)
{
    for (uint32_t i = 0; i < replica->rows_count; i++) {
        if (replica->rows[i].request == index)
            replica->rows[i].marks |= ROW_MARK_ENDING;
    }
    if (replica->plan_count == 0)
        rows_end(replica);
}

/* One chunk. Returns the tokens produced: the last chunk's step yields one. */
static uint32_t row_prefill(struct replica *replica, struct row *row, const struct step_row *planned)
{
    if (row->marks & ROW_MARK_RECOMPUTE) {
        struct request *request = &replica->requests[row->request];

        request->recomputed_tokens += min_u32(request->lost_tokens, row->context + planned->tokens) -
                                      min_u32(request->lost_tokens, row->context);
    }
    row->context += planned->tokens;
    return (planned->flags & ROW_LAST) != 0;
}

void batch_finish(struct replica *replica, const struct replica_event *event)
{
    uint32_t steps = event->step_done.steps;
    int64_t busy_ns = event->step_done.busy_ns;
    bool counts = replica->config.queue->counts_service;
    bool ends = false;

    check(replica->plan_count > 0);
    check(event->answers == replica->run_id);
    check(event->step_done.step == replica->step + 1);
    check(steps >= 1);
    check(steps <= replica->run_steps_max);
    check(busy_ns >= 0);
    for (uint32_t i = 0; i < replica->plan_count; i++) {
        struct row *row = &replica->rows[i];
        const struct step_row *planned = &replica->plan[i];
        uint32_t produced = steps;

        if (planned->tokens > 0) {
            if (planned->flags & ROW_PREFILL)
                produced = row_prefill(replica, row, planned);
            else
                row->context += steps;
            row->compute_ns += busy_ns;
            row->generated += produced;
            if (counts)
                replica->classes[row->class].counter += (uint64_t)produced * replica->config.output_weight;
        }
        row->marks &= (uint16_t)~ROW_MARK_NEW;
        ends |= row_ended(row);
    }
    replica->step += steps;
    replica->plan_count = 0;
    if (ends)
        rows_end(replica);
}

/* Tokens for a row that prefills. Prefill first takes whole prompts, and the first of them whatever its length. */
static uint32_t prefill_share(const struct replica *replica, const struct row *row, uint32_t *budget, bool first)
{
    uint32_t left = row->target - row->context;
    uint32_t share = min_u32(left, *budget);

    if (replica->config.batching == BATCHING_PREFILL_FIRST && share < left) {
        share = first ? left : 0;
        *budget = 0; /* nobody overtakes the one that does not fit */
    } else {
        *budget -= share;
    }
    return share;
}

static uint16_t row_flags(const struct replica *replica, const struct row *row, uint32_t tokens)
{
    uint32_t flags = (row->marks & ROW_MARK_NEW) != 0 ? ROW_ADMITTED : 0;

    if (row_prefills(row)) {
        flags |= ROW_PREFILL;
        if (row->context + tokens == row->target)
            flags |= ROW_LAST;
        if ((row->marks & ROW_MARK_RECOMPUTE) && row->context < replica->requests[row->request].lost_tokens)
            flags |= ROW_RECOMPUTE;
    }
    return (uint16_t)flags;
}

/* A plan with prefills. Returns their tokens. */
static uint32_t plan_mixed(struct replica *replica, uint32_t decoding)
{
    bool decodes = replica->config.batching == BATCHING_CHUNKED;
    uint32_t budget = replica->config.token_budget - (decodes ? decoding : 0);
    uint32_t prefill_tokens = 0;

    for (uint32_t i = 0; i < replica->rows_count; i++) {
        const struct row *row = &replica->rows[i];
        uint32_t tokens = decodes;

        if (row_prefills(row)) {
            tokens = prefill_share(replica, row, &budget, prefill_tokens == 0);
            prefill_tokens += tokens;
        }
        replica->plan[i] = (struct step_row){
            .request = {row->id},
            .context_tokens = row->context,
            .tokens = tokens,
            .gpu_slot = row->gpu_slot,
            .flags = row_flags(replica, row, tokens),
        };
    }
    return prefill_tokens;
}

/* Order matters, so the fold is serial; a row's own words are independent products, which the machine overlaps. */
static uint64_t rows_digest(const struct step_row *rows, uint32_t count)
{
    uint64_t digest = count;

    for (uint32_t i = 0; i < count; i++) {
        const struct step_row *row = &rows[i];

        uint64_t tokens = (uint64_t)row->context_tokens << 32 | row->tokens;
        uint64_t place = (uint64_t)row->gpu_slot << 16 | row->flags;

        digest = hash_fold(digest, row->request.value * UINT64_C(0xBF58476D1CE4E5B9) +
                                       tokens * UINT64_C(0x94D049BB133111EB) + place * UINT64_C(0x9E3779B97F4A7C15));
    }
    return digest;
}

/* A plan in which every row decodes, and how often it may be run: until a row is full or blocks run out. */
static uint32_t plan_decodes(struct replica *replica)
{
    uint32_t most = UINT32_MAX;

    for (uint32_t i = 0; i < replica->rows_count; i++) {
        const struct row *row = &replica->rows[i];

        most = min_u32(most, row->output_max - row->generated);
        replica->plan[i] = (struct step_row){
            .request = {row->id},
            .context_tokens = row->context,
            .tokens = 1,
            .gpu_slot = row->gpu_slot,
        };
    }
    return kv_steps(replica, most);
}

void batch_run(struct replica *replica, struct replica_commands *out)
{
    struct replica_command *command;
    uint32_t decoding = 0;
    uint32_t prefill_tokens = 0;

    if (replica->rows_count == 0)
        return;
    for (uint32_t i = 0; i < replica->rows_count; i++)
        decoding += !row_prefills(&replica->rows[i]);
    if (decoding == replica->rows_count) {
        replica->run_steps_max = plan_decodes(replica);
    } else {
        prefill_tokens = plan_mixed(replica, decoding);
        check(prefill_tokens > 0);
        replica->run_steps_max = 1;
    }
    replica->plan_count = replica->rows_count;
    command = replica_say(replica, out, REPLICA_COMMAND_RUN, 0);
    command->run.step = replica->step + 1;
    command->run.rows_digest = rows_digest(replica->plan, replica->plan_count);
    command->run.rows = replica->plan_count;
    command->run.adapters = replica->distinct;
    command->run.prefill_tokens = prefill_tokens;
    command->run.steps_max = replica->run_steps_max;
    command->run.kv_blocks_after = replica->kv_used;
    replica->run_id = command->id;
}
