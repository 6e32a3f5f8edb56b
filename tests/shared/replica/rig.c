#include "shared/replica/rig.h"

#include <stdio.h>
#include <stdlib.h>

static void fail_at(const struct rig *rig, int line, const char *what, uint64_t got, uint64_t expected)
{
    fail_msg("rig.c:%d: %s: got %llu, expected %llu (%s, seed %llu, at %lld)", line, what, (unsigned long long)got,
             (unsigned long long)expected, rig->label, (unsigned long long)rig->seed, (long long)rig->at_ns);
}

#define rig_assert(rig, condition) ((condition) ? (void)0 : fail_at(rig, __LINE__, #condition, 0, 1))
#define rig_assert_equal(rig, got, expected) \
    ((uint64_t)(got) == (uint64_t)(expected) ? (void)0 : fail_at(rig, __LINE__, #got, (uint64_t)(got), (uint64_t)(expected)))

struct replica_config rig_config(void)
{
    return (struct replica_config){
        .requests_max = 512,
        .rows_max = 256,
        .token_budget = 4096,
        .block_tokens = 16,
        .kv_blocks = 100000,
        .max_loras = 64,
        .passes_max = 64,
        .adapters_max = 256,
        .tenants_max = 16,
        .loads_max = 16,
        .prefetch_max = 16,
        .prompt_weight = 1,
        .output_weight = 2,
        .batching = BATCHING_CHUNKED,
        .queue = &queue_fcfs,
        .slots = {.unit = CACHE_SLOTS, .capacity = 64, .entries_max = 64, .evict = &evict_lru},
    };
}

struct rig *rig_new(const struct replica_config *config)
{
    struct rig *rig = calloc(1, sizeof(*rig));
    size_t bytes = replica_bytes(config);

    rig->config = *config;
    rig->label = "rig";
    rig->checks = true;
    rig->memory = malloc(bytes);
    rig->replica = replica_create(rig->memory, bytes, config);
    check(config->requests_max <= RIG_REQUESTS);
    check(config->slots.entries_max <= RIG_SLOTS);
    return rig;
}

void rig_free(struct rig *rig)
{
    free(rig->memory);
    free(rig);
}

static uint64_t blocks_of(const struct rig *rig, uint64_t tokens)
{
    return div_up_u64(tokens, rig->config.block_tokens);
}

static struct rig_request *request_of(struct rig *rig, request_id id)
{
    struct rig_request *request = &rig->requests[request_slot(id)];

    rig_assert(rig, request_slot(id) < rig->config.requests_max);
    rig_assert(rig, request->live);
    rig_assert_equal(rig, request->id.value, id.value);
    return request;
}

static void note_admission(struct rig *rig, struct rig_request *request)
{
    if (rig->admitted_count < RIG_LOG)
        rig->admitted[rig->admitted_count] = request_ordinal(request->id);
    rig->admitted_count++;
    request->running = true;
    request->context = 0;
    request->target = request->prompt + request->generated;
    if (request->admitted_before)
        return;
    request->admitted_before = true;
    for (uint32_t i = 0; i < rig->config.requests_max; i++) {
        struct rig_request *other = &rig->requests[i];

        other->younger_first += other->live && !other->running && other->id.value < request->id.value;
    }
}

/* How often this plan can be repeated before blocks run out, counted step by step. */
static uint32_t steps_by_counting(const struct rig *rig)
{
    uint32_t left = UINT32_MAX;
    uint32_t steps = 0;

    for (uint32_t i = 0; i < rig->plan_count; i++) {
        const struct rig_request *request = &rig->requests[request_slot(rig->plan[i].request)];

        left = min_u32(left, request->output_max - request->generated);
    }
    for (uint64_t used = 0; steps < left; steps++) {
        used = 0;
        for (uint32_t i = 0; i < rig->plan_count; i++)
            used += blocks_of(rig, (uint64_t)rig->plan[i].context_tokens + steps + 1);
        if (used > rig->config.kv_blocks)
            break;
    }
    return steps;
}

static void check_plan_row(struct rig *rig, const struct step_row *row, struct rig_request *request)
{
    bool prefills = request->context < request->target;

    rig_assert_equal(rig, row->context_tokens, request->context);
    rig_assert_equal(rig, (row->flags & ROW_PREFILL) != 0, prefills);
    if (prefills) {
        rig_assert(rig, row->tokens <= request->target - request->context);
        rig_assert_equal(rig, (row->flags & ROW_LAST) != 0, request->context + row->tokens == request->target);
        rig_assert_equal(rig, (row->flags & ROW_RECOMPUTE) != 0, request->context < request->most_context);
    } else {
        rig_assert(rig, row->tokens <= 1);
        rig_assert_equal(rig, row->flags & (ROW_LAST | ROW_RECOMPUTE), 0);
    }
    if (adapter_is_base(request->adapter)) {
        rig_assert_equal(rig, row->gpu_slot, NO_SLOT);
    } else {
        /* The weights in the slot are those of this very version. */
        rig_assert(rig, row->gpu_slot < rig->config.slots.entries_max);
        rig_assert_equal(rig, rig->slots[row->gpu_slot].state, SLOT_READY);
        rig_assert(rig, adapter_id_equal(rig->slots[row->gpu_slot].adapter, request->adapter));
    }
}

static void check_batching(struct rig *rig, uint64_t prefill_tokens, uint64_t decode_tokens, uint32_t decoding)
{
    if (rig->config.batching == BATCHING_CHUNKED) {
        rig_assert(rig, prefill_tokens + decode_tokens <= rig->config.token_budget);
        rig_assert_equal(rig, decode_tokens, decoding);
    } else {
        rig_assert(rig, prefill_tokens == 0 || decode_tokens == 0);
        rig_assert(rig, prefill_tokens > 0 || decode_tokens == decoding);
    }
    rig_assert(rig, prefill_tokens + decode_tokens > 0);
}

static void on_run(struct rig *rig, const struct replica_command *command)
{
    struct step_plan plan = replica_plan(rig->replica);
    bool in_use[RIG_SLOTS] = {false};
    uint32_t distinct = 0;
    uint32_t decoding = 0;
    uint32_t old = 0;
    uint64_t prefill_tokens = 0;
    uint64_t decode_tokens = 0;
    uint64_t blocks = 0;

    rig_assert_equal(rig, rig->plan_count, 0);
    rig_assert_equal(rig, plan.count, command->run.rows);
    rig_assert(rig, plan.count >= 1 && plan.count <= rig->config.rows_max);
    rig_assert_equal(rig, plan.step, command->run.step);
    rig_assert_equal(rig, command->run.step, rig->steps + 1);
    for (uint32_t i = 0; i < plan.count; i++) {
        const struct step_row *row = &plan.rows[i];
        struct rig_request *request = request_of(rig, row->request);

        if (row->flags & ROW_ADMITTED) {
            rig_assert(rig, !request->running);
            note_admission(rig, request);
        } else {
            rig_assert(rig, request->running);
            rig_assert_equal(rig, old, i); /* newcomers stand at the end */
            old++;
        }
        check_plan_row(rig, row, request);
        if (row->flags & ROW_PREFILL) {
            prefill_tokens += row->tokens;
        } else {
            decode_tokens += row->tokens;
            decoding++;
        }
        blocks += blocks_of(rig, (uint64_t)max_u32(request->context, request->target) + 1);
        if (row->gpu_slot != NO_SLOT && !in_use[row->gpu_slot]) {
            in_use[row->gpu_slot] = true;
            distinct++;
        }
        rig->plan[i] = *row;
    }
    check_batching(rig, prefill_tokens, decode_tokens, decoding);
    rig_assert_equal(rig, command->run.adapters, distinct);
    rig_assert(rig, distinct <= rig->config.max_loras);
    rig_assert_equal(rig, command->run.prefill_tokens, prefill_tokens);
    rig_assert_equal(rig, command->run.kv_blocks_after, blocks);
    rig_assert(rig, blocks <= rig->config.kv_blocks);
    rig->plan_count = plan.count;
    rig->run_id = command->id;
    rig->run_step = command->run.step;
    rig->run_steps_max = command->run.steps_max;
    rig_assert_equal(rig, rig->run_steps_max, decoding < plan.count ? 1 : steps_by_counting(rig));
    rig->touched = false;
}

static void on_load(struct rig *rig, const struct replica_command *command)
{
    struct rig_slot *slot = &rig->slots[command->load.gpu_slot];

    rig_assert(rig, command->load.gpu_slot < rig->config.slots.entries_max);
    rig_assert_equal(rig, slot->state, SLOT_EMPTY);
    for (uint32_t i = 0; i < rig->config.slots.entries_max; i++) /* many misses, one load */
        rig_assert(rig, rig->slots[i].state == SLOT_EMPTY ||
                            !adapter_id_equal(rig->slots[i].adapter, command->load.adapter));
    *slot = (struct rig_slot){SLOT_LOADING, command->load.adapter, command->load.bytes, command->id};
    rig_assert(rig, ++rig->loads <= rig->config.loads_max);
    if (rig->config.slots.unit == CACHE_BYTES) {
        uint64_t bytes = 0;

        for (uint32_t i = 0; i < rig->config.slots.entries_max; i++)
            bytes += rig->slots[i].state == SLOT_EMPTY ? 0 : rig->slots[i].bytes;
        rig_assert(rig, bytes <= rig->config.slots.capacity);
    }
}

static void on_evict(struct rig *rig, const struct replica_command *command)
{
    struct rig_slot *slot = &rig->slots[command->evict.gpu_slot];

    rig_assert_equal(rig, slot->state, SLOT_READY);
    rig_assert(rig, adapter_id_equal(slot->adapter, command->evict.adapter));
    rig_assert_equal(rig, slot->bytes, command->evict.bytes);
    for (uint32_t i = 0; i < rig->plan_count; i++) /* never under a running step */
        rig_assert(rig, rig->plan[i].gpu_slot != command->evict.gpu_slot);
    slot->state = SLOT_EMPTY;
}

static void on_end(struct rig *rig, const struct replica_command *command)
{
    struct rig_request *request = request_of(rig, command->done.request);

    if (command->kind == REPLICA_COMMAND_DONE) {
        rig_assert_equal(rig, command->reason, request->cancelled ? SEQUENCE_CANCELLED : SEQUENCE_FINISHED);
        rig_assert_equal(rig, command->done.output_tokens, request->generated);
        rig_assert_equal(rig, command->done.recomputed_tokens, request->recomputed);
        rig_assert_equal(rig, command->done.compute_ns, request->compute_ns);
        rig_assert_equal(rig, command->done.prompt_tokens, request->prompt);
        rig_assert(rig, request->cancelled || request->generated == request->truth);
        rig_assert(rig, command->done.slot_wait_ns >= 0);
        rig_assert_equal(rig, command->done.tier_found == TIER_BASE, adapter_is_base(request->adapter));
    } else {
        rig_assert(rig, !request->running);
        rig_assert(rig, command->reason > REFUSE_NONE && command->reason < REFUSE_COUNT);
        rig->refused[command->reason]++;
    }
    request->live = false;
    rig->live--;
}

static void on_preempt(struct rig *rig, const struct replica_command *command)
{
    struct rig_request *request = request_of(rig, command->preempt.request);

    rig_assert(rig, request->running);
    rig_assert_equal(rig, command->preempt.output_tokens, request->generated);
    request->running = false;
    request->most_context = max_u32(request->most_context, request->context);
    request->context = 0;
}

static uint64_t subject_of(const struct replica_command *command)
{
    switch ((enum replica_command_kind)command->kind) {
    case REPLICA_COMMAND_LOAD:
    case REPLICA_COMMAND_EVICT:
        return command->load.adapter.index;
    case REPLICA_COMMAND_REFUSE:
    case REPLICA_COMMAND_DONE:
    case REPLICA_COMMAND_PREEMPT:
        return request_ordinal(command->done.request);
    default:
        return 0;
    }
}

static void perform(struct rig *rig, const struct replica_command *command)
{
    rig_assert(rig, command->kind > REPLICA_COMMAND_NONE && command->kind < REPLICA_COMMAND_COUNT);
    rig->counts[command->kind]++;
    if (command->kind != REPLICA_COMMAND_RUN) {
        if (rig->log_count < RIG_LOG)
            rig->log[rig->log_count] = (struct rig_line){(enum replica_command_kind)command->kind, command->reason,
                                                         subject_of(command), rig->at_ns, *command};
        rig->log_count++;
    }
    switch ((enum replica_command_kind)command->kind) {
    case REPLICA_COMMAND_RUN:
        on_run(rig, command);
        break;
    case REPLICA_COMMAND_LOAD:
        on_load(rig, command);
        break;
    case REPLICA_COMMAND_EVICT:
        on_evict(rig, command);
        break;
    case REPLICA_COMMAND_DONE:
    case REPLICA_COMMAND_REFUSE:
        on_end(rig, command);
        break;
    case REPLICA_COMMAND_PREEMPT:
        on_preempt(rig, command);
        break;
    case REPLICA_COMMAND_DRAINED:
        rig_assert(rig, !rig->drained);
        rig_assert_equal(rig, rig->live, 0);
        rig_assert_equal(rig, rig->loads, 0);
        rig->drained = true;
        break;
    default:
        break;
    }
}

static void send(struct rig *rig, struct replica_event *event)
{
    event->at_ns = rig->at_ns;
    rig->told++;
    replica_step(rig->replica, event, &rig->out);
    rig_assert(rig, rig->out.count <= COMMANDS_MAX);
    for (uint32_t i = 0; i < rig->out.count; i++)
        perform(rig, &rig->out.items[i]);
    if (rig->checks)
        replica_check(rig->replica);
}

static struct replica_event event_of(enum replica_event_kind kind)
{
    struct replica_event event;

    memset(&event, 0, sizeof(event));
    event.kind = (uint16_t)kind;
    return event;
}

void rig_know(struct rig *rig, uint32_t index, uint32_t version, uint64_t bytes)
{
    struct replica_event event = event_of(REPLICA_EVENT_ADAPTER_KNOWN);

    event.adapter_known.adapter = (adapter_id){index, version};
    event.adapter_known.bytes = bytes;
    event.adapter_known.rank = 16;
    send(rig, &event);
}

uint32_t rig_request_version(struct rig *rig, adapter_id adapter, uint32_t tenant, uint32_t prompt, uint32_t output_max,
                             uint32_t truth)
{
    struct replica_event event = event_of(REPLICA_EVENT_REQUEST);
    uint32_t slot = 0;

    while (rig->requests[slot].live)
        slot++;
    check(slot < rig->config.requests_max);
    rig->requests[slot] = (struct rig_request){
        .live = true,
        .id = request_id_make(++rig->ordinal, slot),
        .adapter = adapter,
        .tenant = tenant,
        .prompt = prompt,
        .output_max = output_max,
        .truth = truth,
    };
    rig->live++;
    rig->touched = true;
    event.request.request = rig->requests[slot].id;
    event.request.adapter = adapter;
    event.request.tenant.value = tenant;
    event.request.prompt_tokens = prompt;
    event.request.output_tokens_max = output_max;
    send(rig, &event);
    return slot;
}

uint32_t rig_request(struct rig *rig, uint32_t adapter, uint32_t tenant, uint32_t prompt, uint32_t output_max,
                     uint32_t truth)
{
    return rig_request_version(rig, (adapter_id){adapter, adapter > 0}, tenant, prompt, output_max, truth);
}

uint32_t rig_steps_most(const struct rig *rig)
{
    uint32_t most = rig->plan_count > 0 ? rig->run_steps_max : 0;

    for (uint32_t i = 0; i < rig->plan_count; i++) {
        const struct rig_request *request = &rig->requests[request_slot(rig->plan[i].request)];

        if (rig->plan[i].tokens > 0 && !(rig->plan[i].flags & ROW_PREFILL))
            most = min_u32(most, request->truth - request->generated);
    }
    return most;
}

/* What the engine did. A sequence that reaches its true end before its maximum is announced. */
static void execute(struct rig *rig, uint32_t steps, int64_t busy_ns, bool *ret_ends)
{
    for (uint32_t i = 0; i < rig->plan_count; i++) {
        const struct step_row *row = &rig->plan[i];
        struct rig_request *request = request_of(rig, row->request);

        *ret_ends |= request->cancelled;
        if (row->tokens == 0)
            continue;
        request->compute_ns += busy_ns;
        if (row->flags & ROW_PREFILL) {
            request->recomputed += min_u32(request->most_context, request->context + row->tokens) -
                                   min_u32(request->most_context, request->context);
            request->context += row->tokens;
            request->generated += (row->flags & ROW_LAST) != 0;
        } else {
            request->context += steps;
            request->generated += steps;
        }
        if (request->generated != request->truth)
            continue;
        *ret_ends = true;
        if (request->truth < request->output_max && !request->cancelled) {
            struct replica_event event = event_of(REPLICA_EVENT_SEQUENCE_END);

            event.reason = SEQUENCE_FINISHED;
            event.sequence_end.request = request->id;
            event.sequence_end.output_tokens = request->truth;
            send(rig, &event);
        }
    }
}

void rig_step_done(struct rig *rig, uint32_t steps, int64_t busy_ns)
{
    struct replica_event event = event_of(REPLICA_EVENT_STEP_DONE);
    bool ends = false;
    bool settling = !rig->touched && steps < rig->run_steps_max;

    rig_assert(rig, steps >= 1 && steps <= rig_steps_most(rig));
    execute(rig, steps, busy_ns, &ends);
    rig->steps += steps;
    rig->plan_count = 0;
    event.answers = rig->run_id;
    event.step_done.step = rig->run_step;
    event.step_done.steps = steps;
    event.step_done.busy_ns = busy_ns;
    send(rig, &event);
    if (settling && !ends) { /* says RUN and nothing else */
        rig_assert_equal(rig, rig->out.count, 1);
        rig_assert_equal(rig, rig->out.items[0].kind, REPLICA_COMMAND_RUN);
    }
    while (replica_wakeup_at_ns(rig->replica) != NEVER_NS)
        rig_tick(rig);
}

void rig_load_done(struct rig *rig, uint32_t gpu_slot, bool arrived, enum tier tier)
{
    struct rig_slot *slot = &rig->slots[gpu_slot];
    struct replica_event event = event_of(arrived ? REPLICA_EVENT_ADAPTER_ARRIVED : REPLICA_EVENT_ADAPTER_FAILED);

    rig_assert_equal(rig, slot->state, SLOT_LOADING);
    event.answers = slot->load_id;
    event.adapter_arrived.adapter = slot->adapter;
    event.adapter_arrived.bytes = slot->bytes;
    event.adapter_arrived.tier = (uint16_t)tier;
    slot->state = arrived ? SLOT_READY : SLOT_EMPTY;
    rig->loads--;
    rig->touched = true;
    send(rig, &event);
}

void rig_loads_done(struct rig *rig, enum tier tier)
{
    for (uint32_t i = 0; i < rig->config.slots.entries_max; i++) {
        if (rig->slots[i].state == SLOT_LOADING)
            rig_load_done(rig, i, true, tier);
    }
}

void rig_cancel(struct rig *rig, uint32_t slot)
{
    struct rig_request *request = &rig->requests[slot];
    struct replica_event event = event_of(REPLICA_EVENT_SEQUENCE_END);

    rig_assert(rig, request->live);
    request->cancelled = true;
    rig->touched = true;
    event.reason = SEQUENCE_CANCELLED;
    event.sequence_end.request = request->id;
    event.sequence_end.output_tokens = request->generated;
    send(rig, &event);
}

void rig_retire(struct rig *rig, adapter_id adapter)
{
    struct replica_event event = event_of(REPLICA_EVENT_ADAPTER_RETIRED);

    event.adapter_retired.adapter = adapter;
    rig->touched = true;
    send(rig, &event);
}

void rig_drain(struct rig *rig)
{
    struct replica_event event = event_of(REPLICA_EVENT_DRAIN);

    send(rig, &event);
}

void rig_tick(struct rig *rig)
{
    struct replica_event event = event_of(REPLICA_EVENT_TICK);

    send(rig, &event);
}

void rig_finish(struct rig *rig)
{
    for (uint64_t turns = 0; rig->live > 0 || rig->loads > 0; turns++) {
        rig_assert(rig, turns < 1000000);
        rig->at_ns += NS_PER_MS;
        if (replica_wakeup_at_ns(rig->replica) != NEVER_NS)
            rig_tick(rig);
        rig_loads_done(rig, TIER_HOST);
        if (rig->plan_count > 0)
            rig_step_done(rig, 1, NS_PER_MS);
    }
}

void rig_expect(const struct rig *rig, enum replica_command_kind kind, const char *expected)
{
    char text[1024] = "";
    size_t used = 0;

    for (uint32_t i = 0; i < min_u32(rig->log_count, RIG_LOG); i++) {
        if (rig->log[i].kind == kind && used < sizeof(text) - 24)
            used += (size_t)snprintf(text + used, sizeof(text) - used, used == 0 ? "%llu" : " %llu",
                                     (unsigned long long)rig->log[i].subject);
    }
    assert_string_equal(text, expected);
}

void rig_expect_admitted(const struct rig *rig, const char *expected)
{
    char text[1024] = "";
    size_t used = 0;

    for (uint32_t i = 0; i < rig->admitted_count && used < sizeof(text) - 24; i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, used == 0 ? "%llu" : " %llu",
                                 (unsigned long long)rig->admitted[i]);
    assert_string_equal(text, expected);
}

const struct rig_line *rig_last(const struct rig *rig, enum replica_command_kind kind)
{
    for (uint32_t i = min_u32(rig->log_count, RIG_LOG); i-- > 0;) {
        if (rig->log[i].kind == kind)
            return &rig->log[i];
    }
    fail_msg("no such command was said");
    return NULL;
}
