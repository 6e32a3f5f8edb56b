/* Who holds an adapter: a set of replicas (GPU slots) and a set of nodes (host memory), of one version, as reported.
 * A newer version empties both; an older one is not tracked. A replica that goes down loses its slots at once: rather
 * than search all adapters for it, each forgets the replicas lost since it was last looked at, when it is looked at.
 * A node's memory outlives its replicas: it is forgotten when the host says so, or with the version. */
#include "base/hash.h"
#include "fleet/state.h"

static uint64_t *gpu_line(struct fleet *fleet, uint32_t adapter)
{
    return fleet->gpu_replicas + (size_t)adapter * fleet->replica_words;
}

static uint64_t *host_line(struct fleet *fleet, uint32_t adapter)
{
    return fleet->host_nodes + (size_t)adapter * fleet->node_words;
}

static void forget_places(struct fleet *fleet, uint32_t index)
{
    struct fleet_adapter *adapter = &fleet->adapters[index];

    memset(gpu_line(fleet, index), 0, fleet->replica_words * sizeof(uint64_t));
    memset(host_line(fleet, index), 0, fleet->node_words * sizeof(uint64_t));
    adapter->hosts_count = 0;
    adapter->losses_seen = fleet->losses;
}

static void forget_lost_replicas(struct fleet *fleet, uint32_t index)
{
    struct fleet_adapter *adapter = &fleet->adapters[index];
    uint64_t *line = gpu_line(fleet, index);

    if (adapter->losses_seen == fleet->losses)
        return;
    for (uint32_t i = 0; i < fleet->config.replicas_max; i++)
        if (fleet->members[i].lost_at > adapter->losses_seen)
            line[i / 64] &= ~(UINT64_C(1) << i % 64);
    adapter->losses_seen = fleet->losses;
}

/* Whether a report about this version is to be kept; a newer version becomes the tracked one if it came somewhere. */
static bool track(struct fleet *fleet, adapter_id id, bool present)
{
    struct fleet_adapter *adapter = &fleet->adapters[id.index];

    if (adapter->tracked && adapter->version == id.version)
        return true;
    if (!present || (adapter->tracked && adapter->version > id.version))
        return false;
    forget_places(fleet, id.index);
    adapter->version = id.version;
    adapter->tracked = true;
    return true;
}

/* True when the bit was not so before. */
static bool put(uint64_t *line, uint32_t bit, bool present)
{
    uint64_t mask = UINT64_C(1) << bit % 64;
    bool before = (line[bit / 64] & mask) != 0;

    line[bit / 64] ^= before != present ? mask : 0;
    return before != present;
}

void residency_step(struct fleet *fleet, const struct fleet_event *event)
{
    adapter_id id = event->residency.adapter;
    bool present = event->residency.present != 0;
    uint32_t place;

    check(id.index >= 1);
    check(id.index <= fleet->config.adapters_max);
    check(event->residency.tier == TIER_GPU || event->residency.tier == TIER_HOST);
    check(event->residency.present <= 1);

    struct fleet_adapter *adapter = &fleet->adapters[id.index];

    if (event->residency.tier == TIER_GPU) {
        place = replica_index(event->residency.replica);
        if (!replica_is_live(fleet, event->residency.replica) || !track(fleet, id, present))
            return;
        forget_lost_replicas(fleet, id.index);
        if (!put(gpu_line(fleet, id.index), place, present))
            return;
    } else {
        place = event->residency.node.value;
        check(place < fleet->config.nodes_max);
        if (!track(fleet, id, present) || !put(host_line(fleet, id.index), place, present))
            return;
        adapter->hosts_count = present ? adapter->hosts_count + 1 : adapter->hosts_count - 1;
    }
    fleet->history = hash_fold(fleet->history, adapter_key(id));
    fleet->history = hash_fold(fleet->history, (uint64_t)event->residency.tier << 32 | place << 1 | present);
}

void residency_retire(struct fleet *fleet, adapter_id id)
{
    check(id.index >= 1);
    check(id.index <= fleet->config.adapters_max);

    struct fleet_adapter *adapter = &fleet->adapters[id.index];

    /* The old version is retired after its successor has come: nothing to forget then. */
    if (adapter->tracked && adapter->version != id.version)
        return;
    forget_places(fleet, id.index);
    adapter->tracked = false;
    adapter->rate = (struct rate){0, fleet->epoch};
    adapter->homes = 1;
    fleet->history = hash_fold(fleet->history, adapter_key(id));
}

static bool is_tracked(const struct fleet *fleet, adapter_id id)
{
    return !adapter_is_base(id) && fleet->adapters[id.index].tracked &&
           fleet->adapters[id.index].version == id.version;
}

const uint64_t *residency_gpu_bits(struct fleet *fleet, adapter_id id)
{
    if (!is_tracked(fleet, id))
        return NULL;
    forget_lost_replicas(fleet, id.index);
    return gpu_line(fleet, id.index);
}

const uint64_t *residency_host_bits(struct fleet *fleet, adapter_id id)
{
    if (!is_tracked(fleet, id) || fleet->adapters[id.index].hosts_count == 0)
        return NULL;

    const uint64_t *nodes = host_line(fleet, id.index);

    memset(fleet->host_scratch, 0, fleet->replica_words * sizeof(uint64_t));
    for (uint32_t word = 0; word < fleet->node_words; word++)
        for (uint64_t left = nodes[word]; left != 0; left &= left - 1) {
            uint32_t node = word * 64 + (uint32_t)__builtin_ctzll(left);

            for (uint32_t i = 0; i < fleet->replica_words; i++)
                fleet->host_scratch[i] |= fleet->node_replicas[(size_t)node * fleet->replica_words + i];
        }
    return fleet->host_scratch;
}
