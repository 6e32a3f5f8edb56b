/* Which adapters have a replica of their own, with their weights merged into the base's (spec section 3.6). The traffic of an
 * adapter is the output tokens of its requests that are done, as a rate that forgets; model/merge.h says from which rate a
 * replica pays, and the host tells it with MERGE. Hysteresis has two lines and two patiences: above the upper line for
 * up_ns an adapter gets a replica, below the lower one for down_ns it loses it, and in between nothing changes. What the
 * replica cannot carry goes to the pool. When all are taken the hottest keep them: one hotter than the coolest by the whole
 * width of the band takes its place, after it has drained. Replicas of the shared pool are none of these: their base belongs
 * to the jobs beside them, and merging would overwrite it. */
#include "base/hash.h"
#include "fleet/state.h"

uint64_t merge_heat(const struct fleet *fleet, uint32_t adapter)
{
    return rate_now(&fleet->adapters[adapter].tokens, fleet->epoch);
}

bool merge_is_wanted(const struct fleet *fleet, uint32_t index)
{
    const struct fleet_member *member = &fleet->members[index];

    return !adapter_is_base(member->merged_for) && fleet->adapters[member->merged_for.index].merged == index;
}

static void look_by(struct fleet *fleet, int64_t at_ns)
{
    fleet->merge_at_ns = min_i64(fleet->merge_at_ns, at_ns);
}

/* --- who is watched ------------------------------------------------------------------------------------------------------ */

uint32_t merge_watch_of(const struct fleet *fleet, uint32_t adapter)
{
    for (uint32_t i = 0; i < fleet->watches_count; i++)
        if (fleet->watches[i].adapter.index == adapter)
            return i;
    return NONE_INDEX;
}

/* The order of the list says nothing. */
static void watch_end(struct fleet *fleet, uint32_t watch)
{
    fleet->watches[watch] = fleet->watches[--fleet->watches_count];
}

/* A place for an adapter so hot; NONE_INDEX when all that are watched are hotter. */
static uint32_t watch_place(struct fleet *fleet, uint64_t heat)
{
    uint32_t coolest = 0;

    if (fleet->watches_count < WATCHES_MAX)
        return fleet->watches_count++;
    for (uint32_t i = 1; i < fleet->watches_count; i++)
        if (merge_heat(fleet, fleet->watches[i].adapter.index) < merge_heat(fleet, fleet->watches[coolest].adapter.index))
            coolest = i;
    return merge_heat(fleet, fleet->watches[coolest].adapter.index) < heat ? coolest : NONE_INDEX;
}

/* Above the upper line and not merged: from now on it is watched, if it was not. */
static void watch(struct fleet *fleet, adapter_id adapter, base_id base)
{
    const struct fleet_merge *merge = &fleet->merges[base.value];
    uint64_t heat = merge_heat(fleet, adapter.index);
    uint32_t at = merge_watch_of(fleet, adapter.index);

    if (!merge->known || heat < merge->up_line)
        return;
    if (at != NONE_INDEX) {
        fleet->watches[at].adapter = adapter;
        return;
    }
    at = watch_place(fleet, heat);
    if (at == NONE_INDEX)
        return;
    fleet->watches[at] = (struct fleet_watch){.adapter = adapter, .above_since_ns = fleet->at_ns, .base = base.value};
    look_by(fleet, fleet->at_ns + fleet->merge_look_ns);
}

/* --- coming and going ---------------------------------------------------------------------------------------------------- */

static void start(struct fleet *fleet, const struct fleet_watch *watch, uint32_t index, struct fleet_commands *out)
{
    struct fleet_command *command = fleet_say(fleet, out, FLEET_COMMAND_REPLICA_START);
    struct fleet_member *member = &fleet->members[index];

    command->replica_start.replica = replica_id_make(member->generation_next & 0xffff, index);
    command->replica_start.node.value = NODE_ANY;
    command->replica_start.tp = fleet->merges[watch->base].tp;
    command->replica_start.base.value = watch->base;
    command->replica_start.adapter = watch->adapter;
    fleet_remember(fleet, command);
    member->generation_next++;
    member->merge_state = MERGE_STARTING;
    member->merged_for = watch->adapter;
    member->below_since_ns = NEVER_NS;
    fleet->adapters[watch->adapter.index].merged = index;
}

static void drain(struct fleet *fleet, uint32_t index, struct fleet_commands *out)
{
    struct fleet_command *command = fleet_say(fleet, out, FLEET_COMMAND_REPLICA_DRAIN);
    struct fleet_replica *replica = &fleet->replicas[index];
    struct fleet_member *member = &fleet->members[index];

    check(member->merge_state == MERGE_UP);
    command->replica_drain.replica = replica_id_make(replica->generation, index);
    command->replica_drain.node.value = NODE_ANY;
    command->replica_drain.tp = fleet->merges[member->merge_base].tp;
    command->replica_drain.base = replica->base;
    command->replica_drain.adapter = member->merged_for;
    fleet_remember(fleet, command);
    replica->draining = true;
    member->merge_state = MERGE_DRAINING;
}

/* Its adapter goes back to the pool. One that is still starting is drained when it is up: what was asked is answered first. */
static void give_up(struct fleet *fleet, uint32_t index, struct fleet_commands *out)
{
    check(merge_is_wanted(fleet, index));
    fleet->adapters[fleet->members[index].merged_for.index].merged = NONE_INDEX;
    if (fleet->members[index].merge_state == MERGE_UP)
        drain(fleet, index, out);
}

bool merge_replica_up(struct fleet *fleet, const struct fleet_event *event)
{
    struct fleet_member *member = &fleet->members[replica_index(event->replica_up.replica)];

    if (member->merge_base == NO_MERGE) {
        check(adapter_is_base(event->replica_up.adapter));
        return false;
    }
    check(member->merge_state == MERGE_STARTING);
    check(member->merge_base == event->replica_up.base.value);
    check(adapter_id_equal(member->merged_for, event->replica_up.adapter));
    member->merge_state = MERGE_UP;
    return true;
}

bool merge_replica_found(struct fleet *fleet, const struct fleet_event *event)
{
    static const enum merge_state states[] = {MERGE_UP, MERGE_STARTING, MERGE_DRAINING};
    uint32_t index = replica_index(event->replica_up.replica);
    struct fleet_member *member = &fleet->members[index];
    adapter_id adapter = event->replica_up.adapter;

    if (member->merge_base == NO_MERGE) {
        check(adapter_is_base(adapter));
        return false;
    }
    check(member->merge_base == event->replica_up.base.value && member->merge_state == MERGE_DOWN);
    check(!adapter_is_base(adapter) && adapter.index <= fleet->config.adapters_max);
    member->merge_state = (uint8_t)states[event->reason];
    member->merged_for = adapter;
    if (event->reason == REPLICA_IS_DRAINING)
        return true;
    check(fleet->adapters[adapter.index].merged == NONE_INDEX);
    fleet->adapters[adapter.index].merged = index;
    look_by(fleet, fleet->at_ns);
    return true;
}

void merge_replica_settle(struct fleet *fleet, uint32_t index, struct fleet_commands *out)
{
    if (!merge_is_wanted(fleet, index))
        drain(fleet, index, out);
}

/* One that was lost, or did not come up, has to prove itself anew. */
bool merge_replica_down(struct fleet *fleet, const struct fleet_event *event)
{
    uint32_t index = replica_index(event->replica_down.replica);
    struct fleet_member *member = &fleet->members[index];
    adapter_id adapter = member->merged_for;
    bool was_up = member->merge_state == MERGE_UP || member->merge_state == MERGE_DRAINING;
    bool wanted = merge_is_wanted(fleet, index);

    if (member->merge_base == NO_MERGE)
        return true;
    check(was_up || member->merge_state == MERGE_STARTING);
    check((event->reason == REPLICA_FAILED) == !was_up);
    check(event->reason != REPLICA_DRAINED ||
          (member->merge_state == MERGE_DRAINING && fleet->replicas[index].outstanding == 0));
    member->merge_state = MERGE_DOWN;
    member->merged_for = (adapter_id){0, 0};
    member->below_since_ns = NEVER_NS;
    if (wanted) {
        fleet->adapters[adapter.index].merged = NONE_INDEX;
        watch(fleet, adapter, (base_id){member->merge_base});
    }
    return was_up;
}

/* --- events ---------------------------------------------------------------------------------------------------------------- */

void merge_event(struct fleet *fleet, const struct fleet_event *event)
{
    uint16_t base = event->merge.base.value;
    struct fleet_merge *merge;
    uint128 break_even;

    check(base < fleet->config.bases_max && base != NO_MERGE);
    check(event->merge.up_ns >= MERGE_LOOKS && event->merge.down_ns >= MERGE_LOOKS);
    check(event->merge.break_even_milli >= 1 && event->merge.outstanding_max >= 1);
    check(event->merge.up_milli >= 1000 && event->merge.down_milli <= 1000);
    check(event->merge.count >= 1 && event->merge.tp >= 1);
    merge = &fleet->merges[base];
    if (!merge->known) {
        *merge = (struct fleet_merge){.first = event->merge.first, .indexes = event->merge.count, .known = true};
        check((uint32_t)merge->first + merge->indexes <= fleet->config.replicas_max);
        for (uint32_t i = merge->first; i < (uint32_t)merge->first + merge->indexes; i++) {
            check(fleet->members[i].scale_base == NO_SCALE && fleet->members[i].merge_base == NO_MERGE);
            check(!fleet->replicas[i].up);
            fleet->members[i].merge_base = base;
        }
        fleet->merging[fleet->merging_count++] = base;
    }
    check(event->merge.first == merge->first && event->merge.count <= merge->indexes);
    break_even = rate_of_stream(fleet, event->merge.break_even_milli);
    check(break_even * event->merge.up_milli / 1000 < UINT64_MAX);
    merge->up_line = (uint64_t)(break_even * event->merge.up_milli / 1000);
    merge->down_line = (uint64_t)(break_even * event->merge.down_milli / 1000);
    merge->break_even_milli = event->merge.break_even_milli;
    merge->up_milli = event->merge.up_milli;
    merge->down_milli = event->merge.down_milli;
    merge->up_ns = event->merge.up_ns;
    merge->down_ns = event->merge.down_ns;
    merge->outstanding_max = event->merge.outstanding_max;
    merge->count = event->merge.count;
    merge->tp = event->merge.tp;
    fleet->merge_look_ns = INT64_MAX;
    for (uint32_t i = 0; i < fleet->merging_count; i++) {
        const struct fleet_merge *each = &fleet->merges[fleet->merging[i]];

        fleet->merge_look_ns = min_i64(fleet->merge_look_ns, min_i64(each->up_ns, each->down_ns) / MERGE_LOOKS);
    }
}

uint32_t merge_route(struct fleet *fleet, adapter_id adapter, base_id base, struct fleet_commands *out)
{
    uint32_t index = fleet->adapters[adapter.index].merged;
    const struct fleet_member *member;

    if (index == NONE_INDEX)
        return NONE_INDEX;
    member = &fleet->members[index];
    if (member->merge_base != base.value)
        return NONE_INDEX;
    if (member->merged_for.version < adapter.version)
        give_up(fleet, index, out);
    if (member->merge_state != MERGE_UP || member->merged_for.version != adapter.version ||
        fleet->replicas[index].outstanding >= fleet->merges[base.value].outstanding_max)
        return NONE_INDEX;
    return index;
}

/* A counter only falls between two requests, so looking before and after each leaves no crossing unseen. */
void merge_count(struct fleet *fleet, adapter_id id, base_id base, uint32_t output_tokens)
{
    struct fleet_adapter *adapter = &fleet->adapters[id.index];
    const struct fleet_merge *merge = &fleet->merges[base.value];

    if (!merge->known || adapter_is_base(id))
        return;
    if (adapter->merged == NONE_INDEX && merge_heat(fleet, id.index) < merge->up_line) {
        uint32_t at = merge_watch_of(fleet, id.index);

        if (at != NONE_INDEX)
            watch_end(fleet, at);
    }
    rate_add(&adapter->tokens, fleet->epoch, output_tokens);
    adapter->tokens_version = max_u32(adapter->tokens_version, id.version);
    if (adapter->merged == NONE_INDEX)
        watch(fleet, (adapter_id){id.index, adapter->tokens_version}, base);
    else if (merge_heat(fleet, id.index) >= fleet->merges[fleet->members[adapter->merged].merge_base].down_line)
        fleet->members[adapter->merged].below_since_ns = NEVER_NS;
}

void merge_retire(struct fleet *fleet, adapter_id id, struct fleet_commands *out)
{
    struct fleet_adapter *adapter = &fleet->adapters[id.index];
    uint32_t at = merge_watch_of(fleet, id.index);

    if (adapter->merged != NONE_INDEX && adapter_id_equal(fleet->members[adapter->merged].merged_for, id))
        give_up(fleet, adapter->merged, out);
    if (adapter->tokens_version != id.version)
        return;
    adapter->tokens = (struct rate){0, fleet->epoch};
    if (at != NONE_INDEX)
        watch_end(fleet, at);
}

/* --- looks ----------------------------------------------------------------------------------------------------------------- */

/* Those that have stayed below the lower line. */
static void cool(struct fleet *fleet, uint16_t base, struct fleet_commands *out)
{
    const struct fleet_merge *merge = &fleet->merges[base];

    for (uint32_t i = merge->first; i < (uint32_t)merge->first + merge->indexes && out->count < COMMANDS_MAX; i++) {
        struct fleet_member *member = &fleet->members[i];

        if (!merge_is_wanted(fleet, i))
            continue;
        if (merge_heat(fleet, member->merged_for.index) >= merge->down_line)
            member->below_since_ns = NEVER_NS;
        else if (member->below_since_ns == NEVER_NS)
            member->below_since_ns = fleet->at_ns;
        else if (member->merge_state == MERGE_UP && fleet->at_ns - member->below_since_ns >= merge->down_ns)
            give_up(fleet, i, out);
    }
}

/* The hottest that has stayed above the upper line; NONE_INDEX: none has. Who has fallen below it is watched no more. */
static uint32_t hottest_ready(struct fleet *fleet, uint16_t base)
{
    const struct fleet_merge *merge = &fleet->merges[base];
    uint32_t best = NONE_INDEX;

    for (uint32_t i = fleet->watches_count; i-- > 0;)
        if (fleet->watches[i].base == base && merge_heat(fleet, fleet->watches[i].adapter.index) < merge->up_line)
            watch_end(fleet, i);
    for (uint32_t i = 0; i < fleet->watches_count; i++) {
        const struct fleet_watch *watch = &fleet->watches[i];

        if (watch->base != base || fleet->at_ns - watch->above_since_ns < merge->up_ns)
            continue;
        if (best == NONE_INDEX ||
            merge_heat(fleet, watch->adapter.index) > merge_heat(fleet, fleet->watches[best].adapter.index))
            best = i;
    }
    return best;
}

/* All are taken. While one is on its way, in or out, nobody is told to go. */
static void displace(struct fleet *fleet, uint16_t base, uint64_t heat, struct fleet_commands *out)
{
    const struct fleet_merge *merge = &fleet->merges[base];
    uint32_t coolest = NONE_INDEX;
    uint64_t least = UINT64_MAX;

    for (uint32_t i = merge->first; i < (uint32_t)merge->first + merge->count; i++) {
        if (fleet->members[i].merge_state != MERGE_UP)
            return;
        if (merge_heat(fleet, fleet->members[i].merged_for.index) < least) {
            coolest = i;
            least = merge_heat(fleet, fleet->members[i].merged_for.index);
        }
    }
    if ((uint128)heat * merge->down_milli > (uint128)least * merge->up_milli)
        give_up(fleet, coolest, out);
}

static void warm(struct fleet *fleet, uint16_t base, struct fleet_commands *out)
{
    const struct fleet_merge *merge = &fleet->merges[base];
    uint32_t ready;

    while (out->count < COMMANDS_MAX && (ready = hottest_ready(fleet, base)) != NONE_INDEX) {
        uint32_t index = merge->first;

        while (index < (uint32_t)merge->first + merge->count && fleet->members[index].merge_state != MERGE_DOWN)
            index++;
        if (index == (uint32_t)merge->first + merge->count) {
            displace(fleet, base, merge_heat(fleet, fleet->watches[ready].adapter.index), out);
            return;
        }
        start(fleet, &fleet->watches[ready], index, out);
        watch_end(fleet, ready);
    }
}

void merge_tick(struct fleet *fleet, struct fleet_commands *out)
{
    bool idle = true;

    if (fleet->merge_at_ns > fleet->at_ns)
        return;
    for (uint32_t i = 0; i < fleet->merging_count; i++) {
        cool(fleet, fleet->merging[i], out);
        warm(fleet, fleet->merging[i], out);
    }
    for (uint32_t i = 0; i < fleet->merging_count; i++) {
        const struct fleet_merge *merge = &fleet->merges[fleet->merging[i]];

        for (uint32_t k = merge->first; k < (uint32_t)merge->first + merge->indexes; k++)
            idle = idle && !merge_is_wanted(fleet, k);
    }
    fleet->merge_at_ns = idle && fleet->watches_count == 0 ? NEVER_NS : fleet->at_ns + fleet->merge_look_ns;
    /* Cut short by the commands: the rest in the next step of this instant. */
    if (out->count == COMMANDS_MAX)
        fleet->merge_at_ns = fleet->at_ns;
}
