/* Bases on their way to GPUs: from the node's memory if it was read before, else from its disk, else from the object store;
 * disk and store are shared by the loads of a node. */
#include "engine/jobs.h"

static bool in_page_cache(const struct sim_host_node *node, uint16_t base)
{
    for (uint32_t i = 0; i < node->cached_count; i++)
        if (node->cached[i] == base)
            return true;
    return false;
}

/* To the front; the least recently read leave until the rest fits. */
static void keep_in_page_cache(struct sim *sim, struct sim_host_node *node, uint16_t base)
{
    double room = sim->scenario->scheduler.page_cache_bytes;
    uint32_t kept = 1;
    uint16_t order[PAGE_CACHE_BASES] = {base};

    for (uint32_t i = 0; i < node->cached_count && kept < PAGE_CACHE_BASES; i++)
        if (node->cached[i] != base)
            order[kept++] = node->cached[i];
    node->cached_count = 0;
    for (uint32_t i = 0; i < kept; i++) {
        room -= (double)sim->jobs->weights_bytes[order[i]];
        if (room < 0)
            return;
        node->cached[node->cached_count++] = order[i];
    }
}

static void arm_link(struct sim *sim, uint32_t index, bool store)
{
    struct sim_host_node *node = &sim->jobs->nodes[index];
    struct link *link = store ? &node->store : &node->disk;
    uint32_t *generation = store ? &node->store_generation : &node->disk_generation;
    int64_t next_ns = link_next_ns(link);

    ++*generation;
    if (next_ns != NEVER_NS)
        sim_push(sim, next_ns, CLASS_PHYSICS, store ? ACTOR_BASE_STORE : ACTOR_BASE_DISK, index, *generation, *generation);
}

void base_begin(struct sim *sim, const struct fleet_command *command)
{
    struct sim_jobs *jobs = sim->jobs;
    uint16_t index = command->base_load.node.value;
    struct sim_host_node *node = &jobs->nodes[index];
    uint16_t base = command->base_load.base.value;
    uint32_t gpus = (uint32_t)__builtin_popcount(command->base_load.gpu_mask);
    uint32_t slot = slots_take(&jobs->base_slots);
    struct sim_base *load = &jobs->bases[slot];
    bool from_store = sim->scenario->scheduler.base_in_store && (node->on_disk >> base & 1) == 0;

    check(slot != NONE_INDEX);
    *load = (struct sim_base){.command = command->id,
                              .bytes = command->base_load.bytes * gpus,
                              .ordinal = ++jobs->loads_total,
                              .active = true};
    load->row = (struct residency_row){.from_ns = sim->now_ns, .ready_ns = -1, .until_ns = -1, .node = index,
                                       .gpu_mask = command->base_load.gpu_mask, .base = base,
                                       .source = in_page_cache(node, base) ? 0 : from_store ? 2 : 1};
    if (load->row.source == 0) {
        double seconds = (double)command->base_load.bytes / sim->scenario->scheduler.page_cache_bytes_per_s;

        sim_push(sim, sim->now_ns + (int64_t)(seconds * 1e9) + 1, CLASS_PHYSICS, ACTOR_BASE, slot, 0, load->ordinal);
        return;
    }
    /* Each byte is read once, whatever the GPUs it goes to. */
    if (jobs->weights_bytes[base] < load->bytes)
        load->bytes = jobs->weights_bytes[base];
    if (from_store)
        link_start(&node->store, sim->now_ns, (double)load->bytes, node->store.bytes_per_s, load->ordinal, slot);
    else
        link_start(&node->disk, sim->now_ns, (double)load->bytes, node->disk.bytes_per_s, load->ordinal, slot);
    arm_link(sim, index, from_store);
}

static void answer(struct sim *sim, struct sim_base *load, uint16_t reason)
{
    struct fleet_event event;

    memset(&event, 0, sizeof(event));
    event.kind = FLEET_EVENT_BASE_LOADED;
    event.reason = reason;
    event.answers = load->command;
    event.base_loaded.base.value = load->row.base;
    event.base_loaded.node.value = load->row.node;
    event.base_loaded.gpu_mask = load->row.gpu_mask;
    load->command = 0;
    jobs_deliver(sim, &event);
}

static void arrived(struct sim *sim, uint32_t slot)
{
    struct sim_base *load = &sim->jobs->bases[slot];
    struct sim_host_node *node = &sim->jobs->nodes[load->row.node];

    load->row.ready_ns = sim->now_ns;
    node->on_disk |= UINT64_C(1) << load->row.base;
    keep_in_page_cache(sim, node, load->row.base);
    answer(sim, load, 0);
}

void base_due(struct sim *sim, uint32_t slot, uint64_t ordinal)
{
    struct sim_base *load = &sim->jobs->bases[slot];

    if (load->active && load->ordinal == ordinal && load->command != 0)
        arrived(sim, slot);
}

void base_link_ended(struct sim *sim, uint32_t index, bool store, uint32_t generation)
{
    struct sim_host_node *node = &sim->jobs->nodes[index];
    uint32_t slot;

    if (generation != (store ? node->store_generation : node->disk_generation))
        return;
    slot = link_finish(store ? &node->store : &node->disk, sim->now_ns);
    arm_link(sim, index, store);
    if (sim->jobs->bases[slot].active && sim->jobs->bases[slot].command != 0)
        arrived(sim, slot);
}

static void leave(struct sim *sim, uint32_t slot)
{
    struct sim_base *load = &sim->jobs->bases[slot];

    load->row.until_ns = sim->now_ns;
    results_residency(sim->results, &load->row);
    load->active = false;
    slots_give(&sim->jobs->base_slots, slot);
}

void base_drop(struct sim *sim, const struct fleet_command *command)
{
    for (uint32_t slot = 0; slot < sim->jobs->base_slots.count_max; slot++) {
        const struct sim_base *load = &sim->jobs->bases[slot];

        if (load->active && load->row.node == command->base_drop.node.value &&
            load->row.base == command->base_drop.base.value && load->row.gpu_mask == command->base_drop.gpu_mask) {
            leave(sim, slot);
            return;
        }
    }
    check(false && "a base was dropped that was not there");
}

void base_fail_on(struct sim *sim, uint32_t node)
{
    struct sim_jobs *jobs = sim->jobs;

    /* What is on its way never comes; the flows run out unheard. */
    for (uint32_t slot = 0; slot < jobs->bases_max; slot++)
        if (jobs->bases[slot].active && jobs->bases[slot].row.node == node && jobs->bases[slot].command != 0)
            answer(sim, &jobs->bases[slot], 1);
    for (uint32_t slot = 0; slot < jobs->bases_max; slot++)
        if (jobs->bases[slot].active && jobs->bases[slot].row.node == node)
            leave(sim, slot);
    jobs->nodes[node].cached_count = 0;
    jobs->nodes[node].disk.flows_count = 0;
    jobs->nodes[node].store.flows_count = 0;
    jobs->nodes[node].disk_generation++;
    jobs->nodes[node].store_generation++;
}

void base_finish(struct sim *sim)
{
    for (uint32_t slot = 0; slot < sim->jobs->bases_max; slot++)
        if (sim->jobs->bases[slot].active)
            results_residency(sim->results, &sim->jobs->bases[slot].row);
}
