/* How GPUs come and go: all are there at the start; spot nodes are taken back with notice, by a hazard or by a trace of what
 * was available; nodes fail without notice; both return. */
#include <math.h>

#include "base/hash.h"
#include "engine/jobs.h"

/* What comes next for a node. */
enum fault_phase { FAULT_TAKE, FAULT_GONE, FAULT_FAIL, FAULT_RETURN };

static double unit(uint64_t hash)
{
    return ((double)(hash >> 11) + 0.5) * 0x1p-53;
}

/* Exponential, from a hash: a node's luck does not depend on what happened elsewhere. */
static int64_t drawn_ns(const struct sim *sim, uint32_t node, uint32_t turn, enum fault_phase phase, double mean_h)
{
    uint64_t hash = hash_mix(sim->scenario->seed ^ hash_mix((uint64_t)node << 32 | (uint64_t)turn << 2 | phase));

    return (int64_t)(-log(unit(hash)) * mean_h * 3600e9) + 1;
}

static void tell_gpus(struct sim *sim, uint32_t index, enum fleet_event_kind kind, int64_t gone_at_ns)
{
    const struct sim_host_node *node = &sim->jobs->nodes[index];
    const struct scenario_capacity *capacity = &sim->scenario->capacity[node->flavor];
    struct fleet_event event;

    memset(&event, 0, sizeof(event));
    event.kind = (uint16_t)kind;
    event.gpus.node.value = (uint16_t)index;
    event.gpus.gpu_mask = node->gpu_mask;
    event.gpus.gone_at_ns = gone_at_ns;
    event.gpus.bytes = (uint64_t)(capacity->profile.memory_bytes * capacity->keys.memory_share);
    event.gpus.price_nano_per_hour = (int64_t)(capacity->keys.price_per_h * 1e9 + 0.5);
    event.gpus.flavor = node->flavor;
    if (strcmp(capacity->profile.name, "h100") == 0)
        event.gpus.model = GPU_H100_80;
    else if (strcmp(capacity->profile.name, "h200") == 0)
        event.gpus.model = GPU_H200_141;
    else if (strcmp(capacity->profile.name, "a100-80") == 0)
        event.gpus.model = GPU_A100_80;
    jobs_deliver(sim, &event);
}

/* The next thing that may happen to the node, whichever of its clocks rings first. */
static void arm(struct sim *sim, uint32_t index, enum fault_phase phase, int64_t at_ns)
{
    struct sim_host_node *node = &sim->jobs->nodes[index];

    node->fault_generation++;
    node->fault_phase = (uint8_t)phase;
    sim_push(sim, at_ns, CLASS_FAULT, ACTOR_FAULT, index, node->fault_generation, node->fault_generation);
}

static void arm_while_up(struct sim *sim, uint32_t index)
{
    struct sim_host_node *node = &sim->jobs->nodes[index];
    const struct keys_capacity *keys = &sim->scenario->capacity[node->flavor].keys;
    int64_t take_ns = NEVER_NS;
    int64_t fail_ns = NEVER_NS;

    node->turn++;
    if (keys->spot && keys->reclaim_mean_h > 0 && keys->spot_path[0] == 0)
        take_ns = drawn_ns(sim, index, node->turn, FAULT_TAKE, keys->reclaim_mean_h);
    if (keys->fail_mean_h > 0)
        fail_ns = drawn_ns(sim, index, node->turn, FAULT_FAIL, keys->fail_mean_h);
    if (take_ns == NEVER_NS && fail_ns == NEVER_NS)
        return;
    if (take_ns < fail_ns)
        arm(sim, index, FAULT_TAKE, sim->now_ns + take_ns);
    else
        arm(sim, index, FAULT_FAIL, sim->now_ns + fail_ns);
}

static void come_up(struct sim *sim, uint32_t index)
{
    struct sim_host_node *node = &sim->jobs->nodes[index];

    node->up = true;
    node->noticed = false;
    jobs_account(sim);
    sim->jobs->flavors[node->flavor].gpus += (uint32_t)__builtin_popcount(node->gpu_mask);
    tell_gpus(sim, index, FLEET_EVENT_GPUS_UP, 0);
    arm_while_up(sim, index);
}

/* Closed first, so that nothing new comes while it is being emptied. */
static void go_down(struct sim *sim, uint32_t index)
{
    struct sim_host_node *node = &sim->jobs->nodes[index];

    if (!node->noticed)
        tell_gpus(sim, index, FLEET_EVENT_GPUS_NOTICE, sim->now_ns);
    base_fail_on(sim, index);
    for (uint32_t gpu = 0; gpu < 16; gpu++)
        while (node->gpus[gpu].jobs_count > 0)
            job_lost(sim, node->gpus[gpu].jobs[0]);
    jobs_account(sim);
    sim->jobs->flavors[node->flavor].gpus -= (uint32_t)__builtin_popcount(node->gpu_mask);
    node->up = false;
    tell_gpus(sim, index, FLEET_EVENT_GPUS_GONE, 0);
}

static void notice(struct sim *sim, uint32_t index)
{
    struct sim_host_node *node = &sim->jobs->nodes[index];
    int64_t gone_at_ns = sim->now_ns + (int64_t)(sim->scenario->capacity[node->flavor].keys.notice_s * 1e9);

    node->noticed = true;
    arm(sim, index, FAULT_GONE, gone_at_ns);
    tell_gpus(sim, index, FLEET_EVENT_GPUS_NOTICE, gone_at_ns);
}

void fault_due(struct sim *sim, uint32_t index, uint32_t generation)
{
    struct sim_host_node *node = &sim->jobs->nodes[index];
    const struct keys_capacity *keys = &sim->scenario->capacity[node->flavor].keys;

    if (generation != node->fault_generation)
        return;
    switch ((enum fault_phase)node->fault_phase) {
    case FAULT_TAKE:
        notice(sim, index);
        break;
    case FAULT_GONE:
        go_down(sim, index);
        if (keys->spot_path[0] == 0)
            arm(sim, index, FAULT_RETURN, sim->now_ns + drawn_ns(sim, index, node->turn, FAULT_RETURN, keys->return_mean_h));
        break;
    case FAULT_FAIL:
        go_down(sim, index);
        arm(sim, index, FAULT_RETURN, sim->now_ns + drawn_ns(sim, index, node->turn, FAULT_RETURN, keys->repair_mean_h));
        break;
    case FAULT_RETURN:
        come_up(sim, index);
        break;
    }
}

enum status spots_open(struct sim *sim)
{
    char message[TRACE_MESSAGE_MAX];
    char path[2 * KEY_TEXT_MAX];

    for (uint32_t i = 0; i < sim->scenario->capacity_count; i++) {
        const struct keys_capacity *keys = &sim->scenario->capacity[i].keys;

        if (!keys->spot || keys->spot_path[0] == 0)
            continue;
        scenario_path(sim->scenario, keys->spot_path, path);
        if (spot_open(path, SPOT_AVAILABLE, &sim->jobs->spots[i], message) != STATUS_OK) {
            fprintf(sim->errors, "%s\n", message);
            return STATUS_INVALID;
        }
    }
    return STATUS_OK;
}

/* The next change of what is available; a trace that ends begins anew. */
static void arm_spot(struct sim *sim, uint32_t flavor)
{
    struct sim_jobs *jobs = sim->jobs;
    struct spot_trace *trace = jobs->spots[flavor];

    if (spot_next(trace, &jobs->spot_next[flavor]) != STATUS_OK) {
        int64_t length_ns = max_i64(spot_info(trace).duration_ns, 1);

        jobs->spot_offset_ns[flavor] += length_ns;
        spot_rewind(trace);
        if (spot_next(trace, &jobs->spot_next[flavor]) != STATUS_OK)
            return;
    }
    sim_push(sim, max_i64(sim->now_ns, jobs->spot_offset_ns[flavor] + jobs->spot_next[flavor].at_ns), CLASS_FAULT, ACTOR_SPOT,
             flavor, 0, 0);
}

/* So many nodes of the flavor are there from now on: the last ones go first. */
void spot_due(struct sim *sim, uint32_t flavor)
{
    struct sim_jobs *jobs = sim->jobs;
    uint32_t available = jobs->spot_next[flavor].available;
    uint32_t number = 0;

    for (uint32_t i = 0; i < jobs->nodes_count; i++) {
        struct sim_host_node *node = &jobs->nodes[i];

        if (node->flavor != flavor)
            continue;
        if (number >= available && node->up && !node->noticed)
            notice(sim, i);
        else if (number < available && !node->up)
            come_up(sim, i);
        number++;
    }
    arm_spot(sim, flavor);
}

void faults_begin(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->jobs->nodes_count; i++)
        if (sim->jobs->spots[sim->jobs->nodes[i].flavor] == NULL)
            come_up(sim, i);
    for (uint32_t i = 0; i < sim->scenario->capacity_count; i++)
        if (sim->jobs->spots[i] != NULL)
            arm_spot(sim, i);
}
