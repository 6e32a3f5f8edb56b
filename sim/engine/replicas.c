/* Replicas that come and go. A start takes the load of the base and of the process; each stay has a new core, with nothing in
 * its slots and a journal of its own. A drain takes as long as the requests that are there. */
#include <string.h>

#include "engine/jobs.h"
#include "model/footprint.h"
#include "replica/pack.h"

static const struct keys_pool *keys_of(const struct sim_replica *replica)
{
    return &replica->sim->scenario->pools[replica->pool].keys;
}

/* Who is on the GPUs of jobs may change by it. */
static void deliver(struct sim *sim, struct fleet_event *event)
{
    if (sim->jobs != NULL)
        jobs_deliver(sim, event);
    else
        fleet_deliver(sim, event);
}

enum status replica_record(struct sim_replica *replica)
{
    struct sim *sim = replica->sim;
    struct journal_header header;
    struct journal_words words = {.words = header.words};
    char noun[32] = "replica";

    if (sim->options->journal_dir == NULL)
        return STATUS_OK;
    if (replica->generation > 0)
        snprintf(noun, sizeof(noun), "replica-stay-%05u", replica->generation);
    journal_header_init(&header, JOURNAL_REPLICA, replica->index, sizeof(struct replica_event));
    replica_config_pack(&words, &replica->config);
    return recorder_open(sim->journal_dir, noun, &header, sim->errors, &replica->recorder);
}

static void tell_up(struct sim_replica *replica)
{
    struct sim *sim = replica->sim;
    struct fleet_event event;

    replica->up = replica->stayed = true;
    replica->up_from_ns = sim->now_ns;
    serving_books_up(replica);
    memset(&event, 0, sizeof(event));
    event.kind = FLEET_EVENT_REPLICA_UP;
    event.answers = replica->ask_command;
    event.replica_up.replica = replica_id_of(replica);
    event.replica_up.node.value = (uint16_t)replica->node;
    event.replica_up.base.value = (uint16_t)sim->scenario->pools[replica->pool].base_index;
    event.replica_up.adapter = replica->merged_for;
    replica->ask_command = 0;
    deliver(sim, &event);
}

static uint32_t milli(double value)
{
    return (uint32_t)(value * 1000 + 0.5);
}

/* A replica takes its GPUs whole: what its memory share leaves beside the base. */
static uint64_t shared_bytes(const struct sim *sim, const struct scenario_pool *pool)
{
    return (uint64_t)(pool->profile.memory_bytes * pool->keys.memory_share) - sim->jobs->base_bytes[pool->base_index];
}

static void tell_scale(struct sim *sim, uint32_t pool_index, uint32_t first)
{
    const struct scenario_pool *pool = &sim->scenario->pools[pool_index];
    const struct keys_pool *keys = &pool->keys;
    struct fleet_event event;

    memset(&event, 0, sizeof(event));
    event.kind = FLEET_EVENT_SCALE;
    event.scale.up_ns = max_i64((int64_t)(keys->scale_up_s * 1e9), SCALE_LOOKS);
    event.scale.down_ns = (int64_t)(keys->scale_down_s * 1e9);
    event.scale.target_milli = max_u32(milli(keys->target_outstanding), 1);
    event.scale.up_milli = milli(keys->scale_up_ratio);
    event.scale.down_milli = milli(keys->scale_down_ratio);
    event.scale.floor = (uint16_t)keys->replicas_min;
    event.scale.ceiling = (uint16_t)keys->replicas_max;
    event.scale.first = (uint16_t)first;
    event.scale.base.value = (uint16_t)pool->base_index;
    event.scale.tp = (uint16_t)keys->tp;
    if (keys->shared) {
        event.scale.flags = SCALE_SHARED;
        event.scale.bytes = shared_bytes(sim, pool);
    }
    deliver(sim, &event);
}

void replicas_announce(struct sim *sim)
{
    uint32_t first = 0;

    for (uint32_t p = 0; p < sim->scenario->pools_count && first < sim->replicas_count; p++) {
        const struct keys_pool *keys = &sim->scenario->pools[p].keys;

        for (uint32_t i = first; !keys->shared && i < first + keys->replicas; i++)
            tell_up(&sim->replicas[i]);
        if (keys->replicas_max > 0)
            tell_scale(sim, p, first);
        if (keys->merge_max > 0)
            merge_announce(sim, p, first + (uint32_t)pool_replicas_most(keys));
        first += (uint32_t)pool_replicas_all(keys);
    }
}

/* --- coming ---------------------------------------------------------------------------------------------------------------- */

/* On GPUs of jobs the base is there by now, by a load of its own. */
static int64_t start_ns(const struct sim_replica *replica, const struct fleet_command *command)
{
    const struct keys_pool *keys = keys_of(replica);
    const struct scenario *scenario = replica->sim->scenario;
    double weights_bytes = (double)footprint_weights_bytes(&scenario->pools[replica->pool].shape);
    double seconds = keys->replica_start_s;

    if (!keys->shared)
        seconds += weights_bytes / (double)keys->tp / keys->base_bytes_per_s;
    else if (command->replica_start.clear)
        seconds += (double)command->replica_start.bytes / scenario->scheduler.clear_bytes_per_s;
    if (replica_is_merged(replica))
        seconds += merge_start_s(replica);
    return (int64_t)(seconds * 1e9) + 1;
}

void replica_start(struct sim *sim, const struct fleet_command *command)
{
    struct sim_replica *replica = &sim->replicas[replica_index(command->replica_start.replica)];

    check(!replica->up && replica->ask_command == 0);
    replica->ask_command = command->id;
    replica->generation = command->replica_start.replica.value >> 16;
    replica->merged_for = command->replica_start.adapter;
    replica->held_from_ns = sim->now_ns;
    sim->facts.replica_starts++;
    serving_books_held(replica);
    sim->facts.merge_starts += replica_is_merged(replica);
    if (keys_of(replica)->shared)
        replica->node = sim->pool_node_first[replica->pool] + command->replica_start.node.value;
    sim_push(sim, sim->now_ns + start_ns(replica, command), CLASS_FAULT, ACTOR_REPLICA, replica->index, 0, command->id);
}

/* A new process: nothing of the last stay is left. */
static void begin_stay(struct sim_replica *replica)
{
    struct sim *sim = replica->sim;

    results_replica_gap(sim->results, replica->index, sim->now_ns);
    replica->sampled_at_ns = sim->now_ns;
    if (!replica->stayed)
        return;
    if (recorder_close(replica->recorder, sim->errors) != STATUS_OK)
        sim->journal_failed = true;
    replica->recorder = NULL;
    if (replica_record(replica) != STATUS_OK)
        sim->journal_failed = sim->failed = true;
    replica->core = replica_create(replica->memory, replica->memory_bytes, &replica->config);
    replica->seq = 0;
    replica->plan_mark = 0;
    memset(replica->weights, 0, replica->config.slots.entries_max * sizeof(*replica->weights));
    memset(replica->gpu_slots, 0, replica->config.slots.entries_max * sizeof(*replica->gpu_slots));
    replica_host_init(replica);
}

/* --- going ----------------------------------------------------------------------------------------------------------------- */

void replica_drain(struct sim *sim, const struct fleet_command *command)
{
    struct sim_replica *replica = &sim->replicas[replica_index(command->replica_drain.replica)];
    struct replica_event event;

    check(replica->up && replica->ask_command == 0);
    replica->ask_command = command->id;
    sim->facts.replica_drains++;
    sim->facts.merge_drains += replica_is_merged(replica);
    memset(&event, 0, sizeof(event));
    event.at_ns = sim->now_ns;
    event.kind = REPLICA_EVENT_DRAIN;
    replica_deliver(replica, &event);
}

/* Through the queue: the core is still speaking. Of a base that was upgraded nobody waits for it. */
void replica_drained(struct sim_replica *replica)
{
    if (replica->ask_command == 0)
        return;
    sim_push(replica->sim, replica->sim->now_ns, CLASS_FAULT, ACTOR_REPLICA, replica->index, 0, replica->ask_command);
}

static void count_held(struct sim_replica *replica)
{
    struct sim *sim = replica->sim;
    uint64_t held_ns = (uint64_t)(sim->now_ns - replica->held_from_ns);

    sim->facts.serving_gpu_ns += held_ns * replica->tp;
    if (replica_is_merged(replica))
        sim->facts.merged_replica_ns += held_ns;
}

/* The part of [from, now] in the measured window; a warm-up that has not ended yet has no end. */
static void count_stay(struct sim_replica *replica, int64_t measured_until_ns)
{
    struct sim *sim = replica->sim;
    int64_t until_ns = min_i64(sim->now_ns, measured_until_ns);

    count_held(replica);
    sim->facts.replica_up_ns += (double)max_i64(0, until_ns - max_i64(replica->up_from_ns, sim->facts.warmup_until_ns));
}

static void end_stay(struct sim_replica *replica)
{
    struct sim *sim = replica->sim;
    struct replica_state state = replica_state(replica->core);
    struct fleet_event event;

    check(replica->run.steps == 0);
    sim_sample_replica(replica);
    replica_check(replica->core);
    replica->hits_before += state.cache.hits;
    replica->misses_before += state.cache.misses;
    count_stay(replica, sim->arrivals_end_ns);
    serving_books_gone(replica);
    memset(replica->known_version, 0, ((size_t)source_adapters_max(sim->source) + 1) * sizeof(*replica->known_version));
    replica->up = false;
    memset(&event, 0, sizeof(event));
    event.kind = FLEET_EVENT_REPLICA_DOWN;
    event.reason = REPLICA_DRAINED;
    event.answers = replica->ask_command;
    event.replica_down.replica = replica_id_of(replica);
    replica->ask_command = 0;
    deliver(sim, &event);
}

void replica_due(struct sim *sim, uint32_t index, uint64_t command)
{
    struct sim_replica *replica = &sim->replicas[index];

    if (replica->ask_command != command)
        return;
    if (replica->up) {
        end_stay(replica);
    } else {
        begin_stay(replica);
        tell_up(replica);
    }
}

void replicas_finish(struct sim *sim, int64_t measured_until_ns)
{
    bool come_and_go = false;

    for (uint32_t i = 0; i < sim->replicas_count; i++) {
        struct sim_replica *replica = &sim->replicas[i];

        if (replica->up)
            count_stay(replica, measured_until_ns);
        else if (replica->ask_command != 0)
            count_held(replica);
        come_and_go = come_and_go || keys_of(replica)->replicas_max > 0 || keys_of(replica)->merge_max > 0 || !replica->up;
    }
    if (!come_and_go)
        sim->facts.replica_up_ns = 0;
}
