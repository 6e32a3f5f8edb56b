/* The books of jobs: integrals of GPU time by flavor, samples of them, storage, and the bill at the end. */
#include "engine/jobs.h"

#include "model/footprint.h"

void jobs_account(struct sim *sim)
{
    struct sim_jobs *jobs = sim->jobs;

    for (uint32_t i = 0; i < sim->scenario->capacity_count; i++) {
        struct sim_flavor *flavor = &jobs->flavors[i];
        int64_t elapsed_ns = sim->now_ns - flavor->at_ns;

        /* The core is asked before it hears anything new, so this held since the last time. */
        flavor->claimed = (uint32_t)devices_gpus_busy(jobs_devices(fleet_jobs(sim->fleet)), (uint16_t)i);
        flavor->gpu_ns += (uint128)elapsed_ns * flavor->gpus;
        flavor->claimed_gpu_ns += (uint128)elapsed_ns * flavor->claimed;
        flavor->computing_gpu_ns += (uint128)elapsed_ns * flavor->computing;
        flavor->at_ns = sim->now_ns;
    }
}

static float share(uint128 part, uint128 whole)
{
    return whole > 0 ? (float)((double)part / (double)whole) : 0;
}

void jobs_sample(struct sim *sim)
{
    struct sim_jobs *jobs = sim->jobs;
    struct jobs_totals totals;

    if (jobs == NULL)
        return;
    jobs_account(sim);
    totals = jobs_totals(fleet_jobs(sim->fleet));
    for (uint32_t i = 0; i < sim->scenario->capacity_count; i++) {
        struct sim_flavor *flavor = &jobs->flavors[i];
        uint128 gpu_ns = flavor->gpu_ns - flavor->sampled_gpu_ns;

        results_capacity(sim->results, &(struct capacity_sample){
            .at_ns = sim->now_ns,
            .flavor = i,
            .gpus = flavor->gpus,
            .claimed = flavor->claimed,
            .pending = (uint32_t)totals.pending,
            .running = (uint32_t)totals.running,
            .pending_gpus = (uint32_t)jobs->pending_gpus,
            .claimed_share = share(flavor->claimed_gpu_ns - flavor->sampled_claimed_ns, gpu_ns),
            .computing_share = share(flavor->computing_gpu_ns - flavor->sampled_computing_ns, gpu_ns),
        });
        flavor->sampled_gpu_ns = flavor->gpu_ns;
        flavor->sampled_claimed_ns = flavor->claimed_gpu_ns;
        flavor->sampled_computing_ns = flavor->computing_gpu_ns;
    }
}

static int64_t nano_of(double units)
{
    return (int64_t)(units * 1e9 + 0.5);
}

/* Storage is part of the bill: each tenant's adapters and checkpoints, and what its adapters held of host memory. */
static void book_storage(struct sim *sim)
{
    const struct keys_scheduler *keys = &sim->scenario->scheduler;
    const struct storage *storage = &sim->jobs->storage;
    int64_t store_nano = nano_of(keys->storage_price_per_gb_month);
    int64_t host_nano = nano_of(keys->host_price_per_gb_month);

    for (uint32_t tenant = 0; tenant < sim->jobs->tenants; tenant++)
        jobs_book(fleet_jobs(sim->fleet), tenant, CHARGE_STORAGE,
                  storage_cost_nano(storage, STORAGE_STORE, tenant, sim->now_ns, store_nano) +
                      storage_cost_nano(storage, STORAGE_HOST, tenant, sim->now_ns, host_nano));
}

/* What an adapter of the first kind costs a month that nobody asks for: in the store alone, and with a place in host memory. */
static void price_idle_adapter(const struct sim *sim, struct jobs_facts *facts)
{
    const struct keys_scheduler *keys = &sim->scenario->scheduler;
    const struct scenario_job_kind *kind = &sim->scenario->job_kinds[0];
    uint64_t bytes = footprint_adapter_bytes(&kind->shape, job_kind_modules(kind), (uint32_t)kind->keys.rank);
    uint128 byte_ns = (uint128)bytes * (uint64_t)MONTH_NS;

    facts->idle_adapter_nano_per_month = storage_price_nano(byte_ns, nano_of(keys->storage_price_per_gb_month));
    facts->idle_adapter_host_nano_per_month =
        facts->idle_adapter_nano_per_month + storage_price_nano(byte_ns, nano_of(keys->host_price_per_gb_month));
}

/* Replicas on the GPUs of jobs are the platform's only claims; those on GPUs of their own come to its account. */
static void join_serving(struct sim *sim, const struct ledger *ledger)
{
    struct sim_jobs *jobs = sim->jobs;
    struct serving_bill *serving = &sim->facts.serving;

    jobs->facts.bill_nano = ledger_bill(ledger) + serving->total_nano;
    for (uint32_t part = 0; part < CHARGE_COUNT; part++)
        jobs->cost_nano[(size_t)jobs->tenants * CHARGE_COUNT + part] += serving->cost_nano[part];
    for (uint32_t part = 0; part <= CHARGE_LOADING; part++) {
        int64_t nano = ledger_account(ledger, jobs->tenants, (enum charge_component)part);

        serving->cost_nano[part] += nano;
        serving->total_nano += nano;
    }
}

void jobs_close_books(struct sim *sim)
{
    struct sim_jobs *jobs = sim->jobs;
    struct jobs_totals totals = jobs_totals(fleet_jobs(sim->fleet));
    struct jobs_facts *facts = &jobs->facts;
    const struct ledger *ledger;

    book_storage(sim);
    ledger = jobs_settle(fleet_jobs(sim->fleet), sim->now_ns);
    for (uint32_t tenant = 0; tenant <= jobs->tenants; tenant++)
        for (uint32_t part = 0; part < CHARGE_COUNT; part++)
            jobs->cost_nano[tenant * CHARGE_COUNT + part] = ledger_account(ledger, tenant, (enum charge_component)part);
    facts->tenants_count = jobs->tenants;
    facts->flavors_count = sim->scenario->capacity_count;
    facts->cost_nano = jobs->cost_nano;
    join_serving(sim, ledger);
    price_idle_adapter(sim, facts);
    for (uint32_t i = 0; i < sim->scenario->capacity_count; i++) {
        facts->gpu_ns += jobs->flavors[i].gpu_ns;
        facts->claimed_gpu_ns += jobs->flavors[i].claimed_gpu_ns;
        facts->computing_gpu_ns += jobs->flavors[i].computing_gpu_ns;
    }
    facts->base_loads = totals.base_loads;
    facts->base_hits = totals.base_hits;
    facts->base_drops = totals.base_drops;
    facts->reclaims = totals.reclaims;
    facts->preempts = totals.preempts;
    facts->serving_stops = totals.serving_stops;
    facts->notes = job_source_notes(jobs->source);
    sim->facts.jobs = facts;
}

void host_memory_changed(struct sim *sim, adapter_id adapter, uint64_t bytes, bool comes)
{
    uint32_t tenant;

    if (sim->jobs == NULL)
        return;
    tenant = source_adapter(sim->source, adapter).tenant.value;
    if (comes)
        storage_add(&sim->jobs->storage, STORAGE_HOST, tenant, bytes, sim->now_ns);
    else
        storage_remove(&sim->jobs->storage, STORAGE_HOST, tenant, bytes, sim->now_ns);
}
