/* The replica core's border: configuration, memory, events. An event changes the state; then decide() says the ends
 * that are owed, and either looks for loads (a run is in flight) or grows, admits and runs. It refuses what can never
 * fit, with the arithmetic, before it becomes state. */
#include "replica/internal.h"

enum status replica_config_validate(const struct replica_config *config, const char **ret_field)
{
    const struct cache_config *slots = &config->slots;
    const struct {
        bool good;
        const char *field;
    } rules[] = {
        {config->requests_max >= 1 && config->requests_max <= REQUEST_SLOTS_MAX, "requests_max"},
        {config->rows_max >= 1 && config->rows_max <= 65535, "rows_max"},
        {config->token_budget >= 1 && config->token_budget <= 1u << 30, "token_budget"},
        {config->batching == BATCHING_CHUNKED || config->batching == BATCHING_PREFILL_FIRST, "batching"},
        {config->batching != BATCHING_CHUNKED || config->rows_max <= config->token_budget, "token_budget"},
        {config->block_tokens >= 1 && config->block_tokens <= 256 &&
             (config->block_tokens & (config->block_tokens - 1)) == 0, "block_tokens"},
        /* All tokens that fit are counted in 31 bits. */
        {config->kv_blocks >= 1 &&
             config->kv_blocks <= (UINT64_C(1) << 31) / max_u32(config->block_tokens, 1), "kv_blocks"},
        {config->kv_watermark_permille < 1000, "kv_watermark_permille"},
        {config->max_loras >= 1, "max_loras"},
        {config->passes_max >= 1, "passes_max"},
        {config->adapters_max >= 1 && config->adapters_max < 1u << 30, "adapters_max"},
        {config->tenants_max >= 1, "tenants_max"},
        {config->loads_max >= 1, "loads_max"},
        {config->prefetch_max <= REQUEST_SLOTS_MAX, "prefetch_max"},
        {config->prompt_weight <= WEIGHT_MAX, "prompt_weight"},
        {config->output_weight <= WEIGHT_MAX, "output_weight"},
        {config->queue != NULL, "queue"},
        {slots->unit == CACHE_BYTES || slots->unit == CACHE_SLOTS, "slots.unit"},
        {slots->capacity >= 1, "slots.capacity"},
        {slots->entries_max >= 1 && slots->entries_max <= 65534, "slots.entries_max"},
        {slots->evict != NULL, "slots.evict"},
    };

    for (size_t i = 0; i < ARRAY_COUNT(rules); i++) {
        if (!rules[i].good) {
            *ret_field = rules[i].field;
            return STATUS_INVALID;
        }
    }
    return STATUS_OK;
}

static uint32_t classes_for(const struct replica_config *config)
{
    return config->queue->class_is_tenant ? config->tenants_max : 1;
}

/* Takes `bytes` from the memory at *used; NULL while only counting. */
static void *carve(void *memory, size_t *used, size_t bytes)
{
    size_t at = *used;

    *used = at + ((bytes + 63) & ~(size_t)63);
    return memory == NULL ? NULL : (char *)memory + at;
}

/* One description of the layout, walked once to count and once to place. */
static size_t replica_layout(struct replica *replica, void *memory, const struct replica_config *config)
{
    uint32_t classes = classes_for(config);
    size_t used = 0;

    (void)carve(memory, &used, sizeof(struct replica));
    replica->rows = carve(memory, &used, config->rows_max * sizeof(struct row));
    replica->plan = carve(memory, &used, config->rows_max * sizeof(struct step_row));
    replica->requests = carve(memory, &used, config->requests_max * sizeof(struct request));
    replica->held = carve(memory, &used, config->requests_max * sizeof(uint32_t));
    replica->classes = carve(memory, &used, classes * sizeof(struct class));
    replica->active = carve(memory, &used, classes * sizeof(uint32_t));
    replica->heap = carve(memory, &used, classes * sizeof(struct scan_class));
    replica->adapters = carve(memory, &used, config->adapters_max * sizeof(struct adapter));
    replica->slot_adapters = carve(memory, &used, config->slots.entries_max * sizeof(uint32_t));
    replica->adapter_table.cells = carve(memory, &used, table_bytes(config->adapters_max));
    replica->cache = carve(memory, &used, cache_bytes(&config->slots));
    return used;
}

size_t replica_bytes(const struct replica_config *config)
{
    struct replica counted;

    return replica_layout(&counted, NULL, config);
}

struct replica *replica_create(void *memory, size_t memory_bytes, const struct replica_config *config)
{
    struct replica *replica = memory;
    const char *field;

    check(replica_config_validate(config, &field) == STATUS_OK);
    check(memory_bytes >= replica_bytes(config));
    check((uintptr_t)memory % 16 == 0);
    memset(memory, 0, memory_bytes);
    (void)replica_layout(replica, memory, config);
    replica->config = *config;
    replica->cache = cache_create(replica->cache, cache_bytes(&config->slots), &config->slots);
    table_init(&replica->adapter_table, replica->adapter_table.cells, config->adapters_max);
    replica->classes_max = classes_for(config);
    replica->block_shift = (uint32_t)__builtin_ctz(config->block_tokens);
    replica->kv_watermark = div_up_u64(config->kv_blocks * config->kv_watermark_permille, 1000);
    replica->barrier = NO_BARRIER;
    replica->last_class = NONE_INDEX;
    replica->ended_head = NONE_INDEX;
    replica->ended_tail = NONE_INDEX;
    replica->at_ns = INT64_MIN;
    for (uint32_t i = 0; i < replica->classes_max; i++)
        replica->classes[i] = (struct class){.head = NONE_INDEX, .tail = NONE_INDEX, .active_at = NONE_INDEX};
    for (uint32_t i = 0; i < config->adapters_max; i++)
        replica->adapters[i].next_free = i + 1 < config->adapters_max ? i + 1 : NONE_INDEX;
    memset(replica->slot_adapters, 0xff, config->slots.entries_max * sizeof(uint32_t));
    return replica;
}

struct replica_command *replica_say(struct replica *replica, struct replica_commands *out,
                            enum replica_command_kind kind, uint32_t reason)
{
    struct replica_command *command;

    check(out->count < COMMANDS_MAX);
    command = &out->items[out->count++];
    memset(command, 0, sizeof(*command));
    command->id = ++replica->commands;
    command->kind = (uint16_t)kind;
    command->reason = (uint16_t)reason;
    return command;
}

void request_end(struct replica *replica, uint32_t index, enum replica_command_kind kind, uint32_t reason)
{
    struct request *request = &replica->requests[index];

    request->state = REQUEST_ENDED;
    request->end_kind = (uint16_t)kind;
    request->end_reason = (uint16_t)reason;
    request->next = NONE_INDEX;
    *(replica->ended_tail == NONE_INDEX ? &replica->ended_head : &replica->requests[replica->ended_tail].next) = index;
    replica->ended_tail = index;
}

/* Of one that leaves before its adapter came, only that it was not here is known: it counts as cold. */
static enum tier tier_found(const struct request *request)
{
    if (request->adapter == NONE_INDEX)
        return TIER_BASE;
    return request->tier < TIER_COUNT ? (enum tier)request->tier : TIER_STORE;
}

void request_account(const struct request *request, struct replica_command *command)
{
    command->done.request = (request_id){request->id};
    command->done.compute_ns = request->compute_ns;
    command->done.slot_wait_ns = request->slot_wait_ns;
    command->done.prompt_tokens = request->prompt_tokens;
    command->done.output_tokens = request->generated_tokens;
    command->done.recomputed_tokens = request->recomputed_tokens;
    command->done.tier_found = (uint16_t)tier_found(request);
}

/* An end is a DONE or a REFUSE, and an EVICT when a retired adapter goes with it. False: more are left. */
static bool say_ends(struct replica *replica, struct replica_commands *out)
{
    while (replica->ended_head != NONE_INDEX) {
        struct request *request = &replica->requests[replica->ended_head];
        struct replica_command *command;

        if (!say_room(out, 2))
            return false;
        command = replica_say(replica, out, (enum replica_command_kind)request->end_kind, request->end_reason);
        if (request->end_kind == REPLICA_COMMAND_DONE)
            request_account(request, command);
        else
            command->refuse.request = (request_id){request->id};
        replica->ended_head = request->next;
        if (replica->ended_head == NONE_INDEX)
            replica->ended_tail = NONE_INDEX;
        request->state = REQUEST_FREE;
        if (request->adapter != NONE_INDEX)
            adapter_release(replica, request->adapter, out);
    }
    return true;
}

/* Why the request can't be taken, or REFUSE_NONE; `need` and `have` in the reason's unit. */
static enum refuse_reason refusal(const struct replica *replica, const struct replica_event *event, uint32_t adapter,
                                  uint64_t *ret_need, uint64_t *ret_have)
{
    const struct replica_config *config = &replica->config;
    uint64_t blocks =
        blocks_for(replica, (uint64_t)event->request.prompt_tokens + event->request.output_tokens_max);

    *ret_need = 0;
    *ret_have = 0;
    if (replica->draining)
        return REFUSE_DRAINING;
    if (event->request.tenant.value >= config->tenants_max) {
        *ret_need = event->request.tenant.value;
        *ret_have = config->tenants_max;
        return REFUSE_TENANTS_FULL;
    }
    if (!adapter_is_base(event->request.adapter)) {
        if (adapter == NONE_INDEX && replica->adapter_free == NONE_INDEX) {
            *ret_need = (uint64_t)config->adapters_max + 1;
            *ret_have = config->adapters_max;
            return REFUSE_ADAPTERS_FULL;
        }
        if (adapter == NONE_INDEX || replica->adapters[adapter].retired)
            return REFUSE_ADAPTER_UNKNOWN;
        if (cache_room(replica->cache, replica->adapters[adapter].bytes) == CACHE_OVERSIZE) {
            *ret_need = config->slots.unit == CACHE_BYTES ? replica->adapters[adapter].bytes : 1;
            *ret_have = config->slots.capacity;
            return REFUSE_ADAPTER_TOO_LARGE;
        }
    }
    if (blocks > config->kv_blocks) {
        *ret_need = blocks;
        *ret_have = config->kv_blocks;
        return REFUSE_TOO_LONG;
    }
    return REFUSE_NONE;
}

static void request_arrived(struct replica *replica, const struct replica_event *event, struct replica_commands *out)
{
    uint32_t slot = request_slot(event->request.request);
    uint32_t adapter = NONE_INDEX;
    enum refuse_reason reason;
    uint64_t need;
    uint64_t have;

    check(slot < replica->config.requests_max);
    check(replica->requests[slot].state == REQUEST_FREE);
    check(event->request.prompt_tokens >= 1);
    check(event->request.output_tokens_max >= 1);
    check(event->request.cached_tokens == 0);
    if (!adapter_is_base(event->request.adapter))
        adapter = adapter_find(replica, event->request.adapter);
    reason = refusal(replica, event, adapter, &need, &have);
    if (reason != REFUSE_NONE) {
        struct replica_command *command = replica_say(replica, out, REPLICA_COMMAND_REFUSE, reason);

        command->refuse.request = event->request.request;
        command->refuse.need = need;
        command->refuse.have = have;
        return;
    }
    replica->requests[slot] = (struct request){
        .id = event->request.request.value,
        .adapter = adapter,
        .tenant = event->request.tenant.value,
        .prompt_tokens = event->request.prompt_tokens,
        .output_tokens_max = event->request.output_tokens_max,
        .tier = TIER_UNSEEN,
        .slot_wait_since_ns = NEVER_NS,
    };
    queue_insert(replica, slot);
    replica->admission_due = true;
    if (adapter != NONE_INDEX) { /* the base has nothing to load */
        replica->adapters[adapter].requests++;
        replica->loads_due = true;
    }
}

/* An end that crosses one already decided here is too late and changes nothing: the first stands. */
static void sequence_ended(struct replica *replica, const struct replica_event *event)
{
    uint32_t slot = request_slot(event->sequence_end.request);
    struct request *request = &replica->requests[slot];
    bool cancelled = event->reason == SEQUENCE_CANCELLED;

    check(slot < replica->config.requests_max);
    check(request->state != REQUEST_FREE);
    check(request->id == event->sequence_end.request.value);
    check(cancelled || event->reason == SEQUENCE_FINISHED);
    if (request->state == REQUEST_WAITING) {
        check(cancelled);
        queue_remove(replica, slot);
        request_end(replica, slot, REPLICA_COMMAND_DONE, SEQUENCE_CANCELLED);
        note_change(replica);
    } else if (request->state == REQUEST_RUNNING && !request->ending) {
        check(cancelled || replica->plan_count > 0);
        request->ending = 1;
        request->end_reason = event->reason;
        request->end_tokens = event->sequence_end.output_tokens;
        row_cancel(replica, slot);
    }
}

static void apply(struct replica *replica, const struct replica_event *event, struct replica_commands *out)
{
    switch ((enum replica_event_kind)event->kind) {
    case REPLICA_EVENT_ADAPTER_KNOWN:
        adapter_known(replica, event);
        return;
    case REPLICA_EVENT_REQUEST:
        request_arrived(replica, event, out);
        return;
    case REPLICA_EVENT_SEQUENCE_END:
        sequence_ended(replica, event);
        return;
    case REPLICA_EVENT_STEP_DONE:
        batch_finish(replica, event);
        return;
    case REPLICA_EVENT_ADAPTER_ARRIVED:
        adapter_arrived(replica, event, out);
        return;
    case REPLICA_EVENT_ADAPTER_FAILED:
        adapter_failed(replica, event);
        return;
    case REPLICA_EVENT_ADAPTER_RETIRED:
        adapter_retired(replica, event, out);
        return;
    case REPLICA_EVENT_DRAIN:
        replica->draining = true;
        return;
    case REPLICA_EVENT_TICK:
        return;
    case REPLICA_EVENT_NONE:
    case REPLICA_EVENT_COUNT:
        break;
    }
    check(false && "an event of no known kind");
}

static bool is_empty(const struct replica *replica)
{
    return replica->waiting_count == 0 && replica->rows_count == 0 && replica->loads == 0;
}

/* Growth goes before admission: a newcomer must not take the block that a running row needs next. False: cut short
 * because the commands are full. No plan is made before everything else has been said. */
static bool decide(struct replica *replica, struct replica_commands *out)
{
    if (!say_ends(replica, out))
        return false;
    if (replica->plan_count > 0)
        return !replica->loads_due || scan_waiting(replica, false, out);
    if (!kv_grow(replica, out))
        return false;
    if (replica->admission_due && !scan_waiting(replica, true, out))
        return false;
    batch_run(replica, out);
    return true;
}

void replica_step(struct replica *replica, const struct replica_event *event, struct replica_commands *out)
{
    check(event->at_ns >= replica->at_ns);
    replica->at_ns = event->at_ns;
    out->count = 0;
    apply(replica, event, out);
    replica->unsaid = !decide(replica, out);
    if (replica->draining && !replica->drained && !replica->unsaid && is_empty(replica)) {
        (void)replica_say(replica, out, REPLICA_COMMAND_DRAINED, 0);
        replica->drained = true;
    }
    for (uint32_t i = 0; i < out->count; i++) {
        const struct replica_command *command = &out->items[i];

        if (command->kind != REPLICA_COMMAND_RUN) {
            replica->said = hash_fold(replica->said, (uint64_t)command->reason << 16 | command->kind);
            replica->said = hash_words(replica->said, command->word, ARRAY_COUNT(command->word));
        }
    }
}

int64_t replica_wakeup_at_ns(const struct replica *replica)
{
    return replica->unsaid ? replica->at_ns : NEVER_NS;
}

struct step_plan replica_plan(const struct replica *replica)
{
    return (struct step_plan){
        .step = replica->step + 1,
        .rows = replica->plan,
        .count = replica->plan_count,
    };
}

struct replica_state replica_state(const struct replica *replica)
{
    return (struct replica_state){
        .waiting = replica->waiting_count,
        .running = replica->rows_count,
        .loading = replica->loads,
        .kv_free_permille =
            (uint32_t)((replica->config.kv_blocks - replica->kv_used) * 1000 / replica->config.kv_blocks),
        .kv_blocks_used = replica->kv_used,
        .slots_used = cache_used(replica->cache),
        .slots_pinned = cache_pinned(replica->cache),
        .step = replica->step,
        .preemptions = replica->preemptions,
        .passes_most = replica->passes_most,
        .cache = cache_counts(replica->cache),
    };
}
