/* The time series: what each replica did since the last sample, as single steps would show it, whatever is folded. */
#include "engine/internal.h"

static float share(uint64_t part, uint64_t whole)
{
    return whole == 0 ? 0 : (float)((double)part / (double)whole);
}

void sim_sample(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->replicas_count; i++) {
        struct sim_replica *replica = &sim->replicas[i];
        struct replica_state state = replica_state(replica->core);
        struct replica_totals now = run_totals(replica);
        const struct replica_totals *last = &replica->sampled;

        now.hits = state.cache.hits;
        now.misses = state.cache.misses;
        results_sample(sim->results, &(struct replica_sample){
            .at_ns = sim->now_ns,
            .replica = i,
            .waiting = state.waiting,
            .running = state.running,
            .loading = state.loading,
            .kv_share = share(run_kv_blocks(replica, &state), replica->kv_blocks),
            .slots_share = share(state.slots_used, replica->slots_capacity),
            .slots_pinned_share = share(state.slots_pinned, replica->slots_capacity),
            .busy_share = (float)((double)(now.busy_ns - last->busy_ns) / (double)sim->sample_every_ns),
            .output_tokens = now.output_tokens - last->output_tokens,
            .prefill_tokens = now.prefill_tokens - last->prefill_tokens,
            .loads = now.loads - last->loads,
            .hits = now.hits - last->hits,
            .misses = now.misses - last->misses,
        });
        replica->sampled = now;
    }
}
