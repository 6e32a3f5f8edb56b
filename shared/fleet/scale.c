/* How many replicas a base has: between floor and ceiling, by its load. The pool's outstanding requests are integrated, so a
 * look sees the mean since the last one and not an instant; the policy says how many it would have, and is believed once it
 * has said more, or fewer, for long enough. Going down drains: a replica leaves the pool at once, and its GPU when its last
 * request has left. The floor is owed at once, whatever the load. */
#include "base/hash.h"
#include "fleet/state.h"

static void put_state(struct fleet *fleet, uint32_t index, enum scale_state state)
{
    struct fleet_member *member = &fleet->members[index];
    struct fleet_scale *scale = &fleet->scales[member->scale_base];

    scale->counts[member->scale_state]--;
    scale->counts[state]++;
    member->scale_state = (uint8_t)state;
}

static void look_by(struct fleet *fleet, struct fleet_scale *scale, int64_t at_ns)
{
    scale->look_at_ns = at_ns;
    fleet->scale_at_ns = min_i64(fleet->scale_at_ns, at_ns);
}

void scale_note(struct fleet *fleet, uint32_t base)
{
    struct fleet_scale *scale = &fleet->scales[base];

    if (!scale->known)
        return;
    scale->area += fleet->pools[base].outstanding * (uint64_t)(fleet->at_ns - scale->area_at_ns);
    scale->area_at_ns = fleet->at_ns;
}

/* --- events ------------------------------------------------------------------------------------------------------------ */

/* Replicas that were up before they were told to scale are its own. */
static void take_indexes(struct fleet *fleet, uint16_t base, struct fleet_scale *scale)
{
    check((uint32_t)scale->first + scale->indexes <= fleet->config.replicas_max);
    for (uint32_t i = scale->first; i < (uint32_t)scale->first + scale->indexes; i++) {
        struct fleet_member *member = &fleet->members[i];

        check(member->scale_base == NO_SCALE && member->merge_base == NO_MERGE);
        check(!fleet->replicas[i].up || fleet->replicas[i].base.value == base);
        member->scale_base = base;
        member->scale_state = fleet->replicas[i].up ? SCALE_UP : SCALE_DOWN;
        scale->counts[member->scale_state]++;
    }
}

void scale_event(struct fleet *fleet, const struct fleet_event *event)
{
    uint16_t base = event->scale.base.value;
    struct fleet_scale *scale;

    check(fleet->config.scale != NULL);
    check(base < fleet->config.bases_max && base != NO_SCALE);
    check(event->scale.floor >= 1 && event->scale.floor <= event->scale.ceiling);
    check(event->scale.up_ns >= SCALE_LOOKS && event->scale.down_ns >= 0);
    check(event->scale.target_milli >= 1);
    check(event->scale.up_milli >= 1000 && event->scale.down_milli <= 1000);
    check(event->scale.tp >= 1);
    check((event->scale.flags & SCALE_SHARED) == 0 || fleet->jobs != NULL);
    scale = &fleet->scales[base];
    if (!scale->known) {
        *scale = (struct fleet_scale){.first = event->scale.first,
                                      .indexes = event->scale.ceiling,
                                      .looked_at_ns = -1,
                                      .area_at_ns = fleet->at_ns,
                                      .above_since_ns = NEVER_NS,
                                      .below_since_ns = NEVER_NS,
                                      .known = true};
        take_indexes(fleet, base, scale);
        fleet->scaled[fleet->scaled_count++] = base;
    }
    check(event->scale.first == scale->first && event->scale.ceiling <= scale->indexes);
    scale->floor = event->scale.floor;
    scale->ceiling = event->scale.ceiling;
    scale->up_ns = event->scale.up_ns;
    scale->down_ns = event->scale.down_ns;
    scale->bytes = event->scale.bytes;
    scale->target_milli = event->scale.target_milli;
    scale->up_milli = event->scale.up_milli;
    scale->down_milli = event->scale.down_milli;
    scale->tp = event->scale.tp;
    scale->flags = event->scale.flags;
    look_by(fleet, scale, fleet->at_ns);
}

void scale_replica_up(struct fleet *fleet, const struct fleet_event *event)
{
    uint32_t index = replica_index(event->replica_up.replica);
    struct fleet_member *member = &fleet->members[index];

    if (member->scale_base == NO_SCALE)
        return;
    check(member->scale_base == event->replica_up.base.value);
    check(member->scale_state == SCALE_STARTING || (member->scale_state == SCALE_DOWN && event->answers == 0));
    put_state(fleet, index, SCALE_UP);
}

void scale_replica_found(struct fleet *fleet, const struct fleet_event *event)
{
    static const enum scale_state states[] = {SCALE_UP, SCALE_STARTING, SCALE_DRAINING};
    uint32_t index = replica_index(event->replica_up.replica);
    const struct fleet_member *member = &fleet->members[index];

    if (member->scale_base == NO_SCALE)
        return;
    check(member->scale_base == event->replica_up.base.value);
    check(member->scale_state == SCALE_DOWN);
    put_state(fleet, index, states[event->reason]);
    if (fleet->scales[member->scale_base].flags & SCALE_SHARED) {
        struct serve_ask ask = {.replica = event->replica_up.replica,
                                .base = event->replica_up.base,
                                .gpus = fleet->scales[member->scale_base].tp,
                                .bytes = event->replica_up.bytes};

        jobs_serve_found(fleet->jobs, fleet->at_ns, &ask, event->replica_up.node.value, event->replica_up.gpu_mask,
                         (enum replica_found)event->reason);
    }
}

bool scale_replica_down(struct fleet *fleet, const struct fleet_event *event)
{
    uint32_t index = replica_index(event->replica_down.replica);
    struct fleet_member *member = &fleet->members[index];
    bool was_up;

    check(index < fleet->config.replicas_max);
    if (member->scale_base == NO_SCALE)
        return true;
    was_up = member->scale_state == SCALE_UP || member->scale_state == SCALE_DRAINING;
    check(was_up || member->scale_state == SCALE_STARTING);
    check((event->reason == REPLICA_FAILED) == (member->scale_state == SCALE_STARTING));
    /* A stream is never cut: what has drained has nothing left. */
    check(event->reason != REPLICA_DRAINED ||
          (member->scale_state == SCALE_DRAINING && fleet->replicas[index].outstanding == 0));
    put_state(fleet, index, SCALE_DOWN);
    return was_up;
}

/* What jobs have said of replicas. */
void scale_hear(struct fleet *fleet, const struct fleet_commands *out, uint32_t from)
{
    for (uint32_t i = from; i < out->count; i++) {
        const struct fleet_command *command = &out->items[i];

        if (command->kind == FLEET_COMMAND_REPLICA_START) {
            put_state(fleet, replica_index(command->replica_start.replica), SCALE_STARTING);
        } else if (command->kind == FLEET_COMMAND_REPLICA_DRAIN) {
            fleet_leave_pool(fleet, replica_index(command->replica_drain.replica));
            put_state(fleet, replica_index(command->replica_drain.replica), SCALE_DRAINING);
        }
    }
}

bool scale_is_shared(const struct fleet *fleet, replica_id replica)
{
    uint16_t base;

    check(replica_index(replica) < fleet->config.replicas_max);
    base = fleet->members[replica_index(replica)].scale_base;
    return base != NO_SCALE && (fleet->scales[base].flags & SCALE_SHARED) != 0;
}

/* --- more and fewer ------------------------------------------------------------------------------------------------------ */

static uint32_t there_or_coming(const struct fleet_scale *scale)
{
    return scale->counts[SCALE_WAITING] + scale->counts[SCALE_STARTING] + scale->counts[SCALE_UP];
}

/* On GPUs of jobs it starts when it has them. */
static void start_shared(struct fleet *fleet, uint16_t base, uint32_t index, struct fleet_commands *out)
{
    const struct fleet_scale *scale = &fleet->scales[base];
    struct serve_ask ask = {.replica = replica_id_make(fleet->members[index].generation_next++ & 0xffff, index),
                            .base.value = base,
                            .gpus = scale->tp,
                            .bytes = scale->bytes};
    uint32_t from = out->count;

    put_state(fleet, index, SCALE_WAITING);
    jobs_serve_begin(fleet->jobs, fleet->at_ns, &ask, &fleet->commands, out);
    scale_hear(fleet, out, from);
}

static void start(struct fleet *fleet, uint16_t base, uint32_t index, struct fleet_commands *out)
{
    if (fleet->scales[base].flags & SCALE_SHARED) {
        start_shared(fleet, base, index, out);
        return;
    }

    struct fleet_command *command = fleet_say(fleet, out, FLEET_COMMAND_REPLICA_START);
    struct fleet_member *member = &fleet->members[index];

    command->replica_start.replica = replica_id_make(member->generation_next & 0xffff, index);
    command->replica_start.node.value = NODE_ANY;
    command->replica_start.tp = fleet->scales[base].tp;
    command->replica_start.base.value = base;
    fleet_remember(fleet, command);
    member->generation_next++;
    put_state(fleet, index, SCALE_STARTING);
}

/* The lowest indexes that are free. False: fewer than wanted, since some are still draining or the commands are full. */
static bool start_some(struct fleet *fleet, uint16_t base, uint32_t count, struct fleet_commands *out)
{
    const struct fleet_scale *scale = &fleet->scales[base];

    for (uint32_t index = scale->first; count > 0 && index < (uint32_t)scale->first + scale->indexes; index++) {
        if (fleet->members[index].scale_state != SCALE_DOWN)
            continue;
        if (out->count == COMMANDS_MAX)
            return false;
        start(fleet, base, index, out);
        count--;
    }
    return count == 0;
}

static void drain(struct fleet *fleet, uint32_t index, struct fleet_commands *out)
{
    const struct fleet_replica *replica = &fleet->replicas[index];

    if (fleet->scales[replica->base.value].flags & SCALE_SHARED) {
        uint32_t from = out->count;

        jobs_serve_drain(fleet->jobs, fleet->at_ns, index, &fleet->commands, out);
        scale_hear(fleet, out, from);
        return;
    }

    struct fleet_command *command = fleet_say(fleet, out, FLEET_COMMAND_REPLICA_DRAIN);

    command->replica_drain.replica = replica_id_make(replica->generation, index);
    command->replica_drain.node.value = NODE_ANY;
    command->replica_drain.tp = fleet->scales[replica->base.value].tp;
    command->replica_drain.base = replica->base;
    fleet_remember(fleet, command);
    fleet_leave_pool(fleet, index);
    put_state(fleet, index, SCALE_DRAINING);
}

/* The one with the fewest requests to finish; of several the one that came last into the pool, by index. */
static uint32_t least_busy(const struct fleet *fleet, const struct fleet_pool *pool, const struct fleet_scale *scale)
{
    uint32_t best = NONE_INDEX;

    for (uint32_t i = 0; i < pool->count; i++) {
        uint32_t index = pool->members[i];

        if (index >= scale->first && index < (uint32_t)scale->first + scale->indexes &&
            (best == NONE_INDEX || fleet->replicas[index].outstanding <= fleet->replicas[best].outstanding))
            best = index;
    }
    return best;
}

/* The last that were asked for, of those that have not started. */
static void withdraw_one(struct fleet *fleet, uint16_t base, struct fleet_commands *out)
{
    const struct fleet_scale *scale = &fleet->scales[base];
    uint32_t index = (uint32_t)scale->first + scale->indexes - 1;
    uint32_t from = out->count;

    while (fleet->members[index].scale_state != SCALE_WAITING)
        index--;
    put_state(fleet, index, SCALE_DOWN);
    jobs_serve_withdraw(fleet->jobs, fleet->at_ns, index, &fleet->commands, out);
    scale_hear(fleet, out, from);
}

/* While others are on their way nobody is drained: what is up might be all there is. */
static bool drain_some(struct fleet *fleet, uint16_t base, uint32_t count, struct fleet_commands *out)
{
    const struct fleet_scale *scale = &fleet->scales[base];

    for (; count > 0 && scale->counts[SCALE_WAITING] > 0 && out->count < COMMANDS_MAX; count--)
        withdraw_one(fleet, base, out);
    while (count > 0) {
        if (scale->counts[SCALE_STARTING] + scale->counts[SCALE_WAITING] > 0 || out->count == COMMANDS_MAX)
            return false;
        drain(fleet, least_busy(fleet, &fleet->pools[base], scale), out);
        count--;
    }
    return true;
}

/* --- looks --------------------------------------------------------------------------------------------------------------- */

/* Exponential, half of it new: the mean of the last few looks. */
static void smooth(struct fleet *fleet, uint16_t base, struct fleet_scale *scale)
{
    int64_t elapsed_ns = fleet->at_ns - scale->looked_at_ns;
    uint64_t mean_milli;

    scale_note(fleet, base);
    if (scale->looked_at_ns < 0 || elapsed_ns == 0) {
        scale->looked_at_ns = fleet->at_ns;
        return;
    }
    mean_milli = (uint64_t)((uint128)scale->area * 1000 / (uint64_t)elapsed_ns);
    scale->mean_milli = scale->mean_milli / 2 + mean_milli / 2;
    scale->area = 0;
    scale->looked_at_ns = fleet->at_ns;
}

static uint32_t ask_policy(const struct fleet *fleet, const struct fleet_scale *scale, uint32_t replicas)
{
    struct scale_view view = {
        .outstanding_milli = scale->mean_milli,
        .replicas = replicas,
        .floor = scale->floor,
        .ceiling = scale->ceiling,
        .target_milli = scale->target_milli,
        .up_milli = scale->up_milli,
        .down_milli = scale->down_milli,
    };

    return min_u32(max_u32(fleet->config.scale->want(&view), scale->floor), scale->ceiling);
}

/* Since when this has been so without a break; true once that is long enough. */
static bool lasts(int64_t *since_ns, bool so, int64_t at_ns, int64_t long_ns)
{
    if (!so) {
        *since_ns = NEVER_NS;
        return false;
    }
    if (*since_ns == NEVER_NS)
        *since_ns = at_ns;
    return at_ns - *since_ns >= long_ns;
}

static void look(struct fleet *fleet, uint16_t base, struct fleet_commands *out)
{
    struct fleet_scale *scale = &fleet->scales[base];
    uint32_t have = there_or_coming(scale);
    uint32_t want;
    bool more;
    bool fewer;

    smooth(fleet, base, scale);
    scale->look_at_ns = fleet->at_ns + scale->up_ns / SCALE_LOOKS;
    want = ask_policy(fleet, scale, have);
    if (have < scale->floor && !start_some(fleet, base, scale->floor - have, out) && out->count == COMMANDS_MAX)
        scale->look_at_ns = fleet->at_ns;
    have = there_or_coming(scale);
    more = lasts(&scale->above_since_ns, want > have, fleet->at_ns, scale->up_ns);
    fewer = lasts(&scale->below_since_ns, want < have, fleet->at_ns, scale->down_ns);
    if (more && start_some(fleet, base, want - have, out))
        scale->above_since_ns = NEVER_NS;
    if (fewer && drain_some(fleet, base, have - want, out))
        scale->below_since_ns = NEVER_NS;
    /* Cut short by the commands: the rest in the next step of this instant. */
    if ((more || fewer) && out->count == COMMANDS_MAX)
        scale->look_at_ns = fleet->at_ns;
}

void scale_tick(struct fleet *fleet, struct fleet_commands *out)
{
    int64_t next_ns = NEVER_NS;

    if (fleet->scale_at_ns > fleet->at_ns)
        return;
    for (uint32_t i = 0; i < fleet->scaled_count; i++) {
        struct fleet_scale *scale = &fleet->scales[fleet->scaled[i]];

        if (scale->look_at_ns <= fleet->at_ns && out->count < COMMANDS_MAX)
            look(fleet, fleet->scaled[i], out);
        next_ns = min_i64(next_ns, max_i64(scale->look_at_ns, fleet->at_ns));
    }
    fleet->scale_at_ns = next_ns;
}

struct scale_counts fleet_scale_counts(const struct fleet *fleet, base_id base)
{
    const uint32_t *counts;

    check(base.value < fleet->config.bases_max);
    counts = fleet->scales[base.value].counts;
    return (struct scale_counts){.waiting = counts[SCALE_WAITING],
                                 .starting = counts[SCALE_STARTING],
                                 .up = counts[SCALE_UP],
                                 .draining = counts[SCALE_DRAINING]};
}

/* --- invariants ---------------------------------------------------------------------------------------------------------- */

static void check_index(const struct fleet *fleet, uint32_t index, const struct fleet_scale *scale)
{
    const struct fleet_replica *replica = &fleet->replicas[index];
    uint8_t state = fleet->members[index].scale_state;

    check(replica->up == (state == SCALE_UP || state == SCALE_DRAINING));
    check(!replica->up || replica->draining == (state == SCALE_DRAINING));
    check(state != SCALE_WAITING || (scale->flags & SCALE_SHARED));
}

void scale_check(const struct fleet *fleet)
{
    int64_t next_ns = NEVER_NS;

    for (uint32_t i = 0; i < fleet->scaled_count; i++) {
        const struct fleet_scale *scale = &fleet->scales[fleet->scaled[i]];
        uint32_t counts[SCALE_STATE_COUNT] = {0};

        check(scale->known);
        for (uint32_t k = scale->first; k < (uint32_t)scale->first + scale->indexes; k++) {
            check(fleet->members[k].scale_base == fleet->scaled[i]);
            check_index(fleet, k, scale);
            counts[fleet->members[k].scale_state]++;
        }
        for (uint32_t state = 0; state < SCALE_STATE_COUNT; state++)
            check(counts[state] == scale->counts[state]);
        check(there_or_coming(scale) <= scale->indexes);
        check(scale->area_at_ns <= fleet->at_ns);
        next_ns = min_i64(next_ns, scale->look_at_ns);
    }
    for (uint32_t i = 0; i < fleet->config.replicas_max; i++)
        check(fleet->members[i].scale_base != NO_SCALE || !fleet->replicas[i].draining || fleet->replicas[i].merged);
    check(fleet->scale_at_ns <= next_ns);
}

uint64_t scale_digest(const struct fleet *fleet, uint64_t digest)
{
    for (uint32_t i = 0; i < fleet->scaled_count; i++) {
        const struct fleet_scale *scale = &fleet->scales[fleet->scaled[i]];

        digest = hash_fold(digest, scale->area);
        digest = hash_fold(digest, scale->mean_milli);
        digest = hash_fold(digest, (uint64_t)scale->above_since_ns ^ (uint64_t)scale->below_since_ns << 1);
        for (uint32_t state = 0; state < SCALE_STATE_COUNT; state++)
            digest = hash_fold(digest, scale->counts[state]);
    }
    return digest;
}
