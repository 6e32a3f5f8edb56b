/* What hosts may ask about merged replicas, the invariants of merge.c, and its part of the digest. */
#include "base/hash.h"
#include "fleet/state.h"

uint64_t fleet_tokens_milli(const struct fleet *fleet, adapter_id adapter)
{
    check(adapter.index <= fleet->config.adapters_max);
    return rate_stream_milli(fleet, merge_heat(fleet, adapter.index));
}

bool fleet_merged(const struct fleet *fleet, adapter_id adapter, replica_id *ret_replica)
{
    uint32_t index;

    check(adapter.index <= fleet->config.adapters_max);
    index = fleet->adapters[adapter.index].merged;
    if (index == NONE_INDEX || fleet->members[index].merge_state != MERGE_UP ||
        !adapter_id_equal(fleet->members[index].merged_for, adapter))
        return false;
    *ret_replica = replica_id_make(fleet->replicas[index].generation, index);
    return true;
}

static void check_member(const struct fleet *fleet, uint32_t index)
{
    const struct fleet_member *member = &fleet->members[index];
    const struct fleet_replica *replica = &fleet->replicas[index];
    uint8_t state = member->merge_state;

    check(replica->up == (state == MERGE_UP || state == MERGE_DRAINING));
    check(replica->merged == replica->up);
    check(!replica->up || replica->draining == (state == MERGE_DRAINING));
    check(adapter_is_base(member->merged_for) == (state == MERGE_DOWN));
    check(state != MERGE_UP || merge_is_wanted(fleet, index));
    check(state != MERGE_DRAINING || !merge_is_wanted(fleet, index));
    check(member->below_since_ns == NEVER_NS || member->below_since_ns <= fleet->at_ns);
    for (uint32_t slot = member->request_first; slot != NONE_INDEX; slot = fleet->requests[slot].next)
        check(adapter_id_equal(fleet->requests[slot].adapter, member->merged_for));
}

void merge_check(const struct fleet *fleet)
{
    uint32_t wanted = 0;
    uint32_t named = 0;

    for (uint32_t i = 0; i < fleet->config.replicas_max; i++) {
        uint16_t base = fleet->members[i].merge_base;

        if (base == NO_MERGE) {
            check(fleet->members[i].merge_state == MERGE_DOWN && !fleet->replicas[i].merged);
            continue;
        }
        check(fleet->merges[base].known);
        check(i >= fleet->merges[base].first && i < (uint32_t)fleet->merges[base].first + fleet->merges[base].indexes);
        check_member(fleet, i);
        wanted += merge_is_wanted(fleet, i);
    }
    for (uint32_t i = 0; i <= fleet->config.adapters_max; i++) {
        check(fleet->adapters[i].tokens.epoch <= fleet->epoch);
        named += fleet->adapters[i].merged != NONE_INDEX;
    }
    check(named == wanted);
    check(fleet->watches_count <= WATCHES_MAX);
    for (uint32_t i = 0; i < fleet->watches_count; i++) {
        const struct fleet_watch *watch = &fleet->watches[i];

        check(fleet->merges[watch->base].known && !adapter_is_base(watch->adapter));
        check(watch->above_since_ns <= fleet->at_ns);
        check(fleet->adapters[watch->adapter.index].merged == NONE_INDEX);
        check(merge_watch_of(fleet, watch->adapter.index) == i);
    }
    check(fleet->merge_at_ns != NEVER_NS || (wanted == 0 && fleet->watches_count == 0));
}

uint64_t merge_digest(const struct fleet *fleet, uint64_t digest)
{
    for (uint32_t i = 0; i < fleet->watches_count; i++) {
        digest = hash_fold(digest, adapter_key(fleet->watches[i].adapter));
        digest = hash_fold(digest, (uint64_t)fleet->watches[i].above_since_ns);
    }
    for (uint32_t i = 0; i < fleet->merging_count; i++) {
        const struct fleet_merge *merge = &fleet->merges[fleet->merging[i]];

        for (uint32_t k = merge->first; k < (uint32_t)merge->first + merge->indexes; k++) {
            const struct fleet_member *member = &fleet->members[k];

            digest = hash_fold(digest, adapter_key(member->merged_for));
            digest = hash_fold(digest, (uint64_t)member->below_since_ns ^ (uint64_t)member->merge_state << 62);
        }
    }
    return digest;
}
