/* The time series: what each replica did since the last sample, as single steps would show it, whatever is folded. */
#include "engine/internal.h"

static float share(uint64_t part, uint64_t whole)
{
    return whole == 0 ? 0 : (float)((double)part / (double)whole);
}

void sim_sample_replica(struct sim_replica *replica)
{
    struct sim *sim = replica->sim;
    struct replica_state state = replica_state(replica->core);
    struct replica_totals now = run_totals(replica);
    const struct replica_totals *last = &replica->sampled;

    if (sim->now_ns == replica->sampled_at_ns)
        return;
    now.hits = replica->hits_before + state.cache.hits;
    now.misses = replica->misses_before + state.cache.misses;
    results_sample(sim->results, &(struct replica_sample){
        .at_ns = sim->now_ns,
        .replica = replica->index,
        .waiting = state.waiting,
        .running = state.running,
        .loading = state.loading,
        .kv_share = share(run_kv_blocks(replica, &state), replica->kv_blocks),
        .slots_share = share(state.slots_used, replica->slots_capacity),
        .slots_pinned_share = share(state.slots_pinned, replica->slots_capacity),
        .busy_share = (float)((double)(now.busy_ns - last->busy_ns) / (double)(sim->now_ns - replica->sampled_at_ns)),
        .output_tokens = now.output_tokens - last->output_tokens,
        .prefill_tokens = now.prefill_tokens - last->prefill_tokens,
        .loads = now.loads - last->loads,
        .hits = now.hits - last->hits,
        .misses = now.misses - last->misses,
    });
    replica->sampled = now;
    replica->sampled_at_ns = sim->now_ns;
}

void sim_sample(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->replicas_count; i++)
        if (sim->replicas[i].up)
            sim_sample_replica(&sim->replicas[i]);
}
