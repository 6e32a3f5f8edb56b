/* The fleet core's invariants, and its digest. */
#include "base/hash.h"
#include "fleet/state.h"

static void check_pool(const struct fleet *fleet, uint32_t base)
{
    const struct fleet_pool *pool = &fleet->pools[base];
    uint64_t outstanding = 0;

    check(pool->count <= fleet->config.replicas_max);
    for (uint32_t i = 0; i < pool->count; i++) {
        const struct fleet_replica *replica = &fleet->replicas[pool->members[i]];

        check(i == 0 || pool->members[i - 1] < pool->members[i]);
        check(replica->up && !replica->draining && !replica->merged);
        check(replica->base.value == base);
        outstanding += replica->outstanding;
    }
    check(pool->outstanding == outstanding);
    check(pool->rate.epoch <= fleet->epoch);
}

static void check_replica(const struct fleet *fleet, uint32_t index)
{
    const struct fleet_replica *replica = &fleet->replicas[index];
    const struct fleet_member *member = &fleet->members[index];
    uint32_t count = 0;
    uint32_t prev = NONE_INDEX;

    for (uint32_t slot = member->request_first; slot != NONE_INDEX; slot = fleet->requests[slot].next) {
        check(fleet->requests[slot].replica == index);
        check(fleet->requests[slot].prev == prev);
        check(request_slot(fleet->requests[slot].id) == slot);
        prev = slot;
        count++;
    }
    check(count == replica->outstanding);
    check(replica->up || count == 0);
    check(replica->up || (!replica->draining && !replica->merged));
    check(!replica->up || member->known);
    check(member->lost_at <= fleet->losses);
    for (uint32_t node = 0; node < fleet->config.nodes_max; node++) {
        uint64_t word = fleet->node_replicas[(size_t)node * fleet->replica_words + index / 64];

        check((word >> index % 64 & 1) == (replica->up && replica->node.value == node));
    }
}

static void check_adapter(const struct fleet *fleet, uint32_t index)
{
    const struct fleet_adapter *adapter = &fleet->adapters[index];
    const uint64_t *gpu = fleet->gpu_replicas + (size_t)index * fleet->replica_words;
    const uint64_t *host = fleet->host_nodes + (size_t)index * fleet->node_words;
    uint32_t hosts = 0;

    check(adapter->homes >= 1);
    check(adapter->homes <= fleet->config.replicas_max);
    check(adapter->rate.epoch <= fleet->epoch);
    check(adapter->losses_seen <= fleet->losses);
    for (uint32_t i = 0; i < fleet->config.replicas_max; i++) {
        bool held = (gpu[i / 64] >> i % 64 & 1) != 0;

        check(!held || adapter->tracked);
        /* A bit of a replica that is down is one not yet forgotten. */
        check(!held || fleet->replicas[i].up || fleet->members[i].lost_at > adapter->losses_seen);
    }
    for (uint32_t i = 0; i < fleet->node_words; i++)
        hosts += (uint32_t)__builtin_popcountll(host[i]);
    check(hosts == adapter->hosts_count);
    check(hosts == 0 || adapter->tracked);
}

void fleet_check(const struct fleet *fleet)
{
    uint32_t in_flight = 0;
    uint32_t listed = 0;
    uint32_t up = 0;
    uint32_t pooled = 0;

    for (uint32_t i = 0; i < fleet->config.bases_max; i++) {
        check_pool(fleet, i);
        pooled += fleet->pools[i].count;
    }
    for (uint32_t i = 0; i < fleet->config.replicas_max; i++) {
        check_replica(fleet, i);
        up += fleet->replicas[i].up && !fleet->replicas[i].draining && !fleet->replicas[i].merged;
        listed += fleet->replicas[i].outstanding;
    }
    for (uint32_t i = 0; i < fleet->config.requests_max; i++)
        in_flight += fleet->requests[i].replica != NONE_INDEX;
    for (uint32_t i = 1; i <= fleet->config.adapters_max; i++)
        check_adapter(fleet, i);
    check(up == pooled);
    check(listed == in_flight);
    check(fleet->adapters[0].rate.value == 0 && !fleet->adapters[0].tracked);
    scale_check(fleet);
    merge_check(fleet);
    if (fleet->jobs != NULL)
        jobs_check(fleet->jobs);
}

uint64_t fleet_digest(const struct fleet *fleet)
{
    uint64_t digest = hash_fold(fleet->history, fleet->losses);

    for (uint32_t i = 0; i < fleet->config.replicas_max; i++) {
        const struct fleet_replica *replica = &fleet->replicas[i];

        digest = hash_fold(digest, (uint64_t)replica->outstanding << 32 | replica->waiting);
        digest = hash_fold(digest, (uint64_t)replica->generation << 32 | replica->kv_free_permille);
        digest = hash_fold(digest, (uint64_t)replica->base.value << 32 | (uint64_t)replica->node.value << 16 |
                                       (uint64_t)replica->draining << 1 | replica->up);
    }
    digest = merge_digest(fleet, scale_digest(fleet, digest));
    if (fleet->jobs != NULL)
        digest = hash_fold(digest, jobs_digest(fleet->jobs));
    return digest;
}
