/* What becomes of an adapter that was trained: it joins the serving catalogue, or becomes a new version of one that is there;
 * and the upgrade of a base, which is a wave of such trainings and a date after which the old base is not served. */
#include "base/hash.h"
#include "engine/jobs.h"
#include "model/footprint.h"

/* A kind trains for serving where a pool has its base; others' adapters are delivered, and stored, but never asked for. */
static bool is_served(const struct sim *sim, uint32_t base)
{
    return publications_max(sim->scenario) > 0 && base < sim->scenario->bases_count;
}

void publish_open(struct sim *sim)
{
    struct sim_publish *publish = &sim->jobs->publish;
    uint32_t joined_max;

    publish->first_index = source_adapters_count(sim->source) + 1;
    joined_max = source_adapters_max(sim->source) + 1 - publish->first_index;
    publish->latest = calloc(max_u32(sim->jobs->tenants, 1), sizeof(*publish->latest));
    publish->joined = calloc(max_u32(joined_max, 1), sizeof(*publish->joined));
    check(publish->latest != NULL);
    check(publish->joined != NULL);
    publish->drained_base = NONE_INDEX;
}

void publish_close(struct sim_publish *publish)
{
    free(publish->latest);
    free(publish->joined);
    *publish = (struct sim_publish){0};
}

static void store_adapter(struct sim *sim, uint32_t index, bool comes)
{
    struct adapter_fact fact = source_adapter(sim->source, (adapter_id){.index = index});

    if (comes)
        storage_add(&sim->jobs->storage, STORAGE_STORE, fact.tenant.value, fact.bytes, sim->now_ns);
    else
        storage_remove(&sim->jobs->storage, STORAGE_STORE, fact.tenant.value, fact.bytes, sim->now_ns);
}

/* The tenant's latest that joined of this kind; 0: none. One that an upgrade has moved to another base is none: only a
 * retraining for that base makes its next version. */
static uint32_t latest_of_kind(const struct sim *sim, const struct sim_job *job)
{
    const struct sim_publish *publish = &sim->jobs->publish;
    uint32_t index = publish->latest[job->arrival.tenant];

    while (index != 0 && (publish->joined[index - publish->first_index].kind != job->arrival.kind ||
                          source_adapter(sim->source, (adapter_id){.index = index}).base.value != job->row.base))
        index = publish->joined[index - publish->first_index].before;
    return index;
}

static void renew(struct sim *sim, uint32_t index, uint32_t base)
{
    store_adapter(sim, index, false);
    source_republish(sim->source, index, (base_id){(uint16_t)base}, sim->now_ns);
    store_adapter(sim, index, true);
    adapters_retire(sim);
}

static void join(struct sim *sim, const struct sim_job *job)
{
    struct sim_publish *publish = &sim->jobs->publish;
    const struct job_arrival *arrival = &job->arrival;
    adapter_id adapter;

    if (source_publish(sim->source, (base_id){job->row.base}, arrival->kind, (tenant_id){arrival->tenant}, sim->now_ns,
                       &adapter) != STATUS_OK) {
        sim->jobs->facts.publish_refused++;
        return;
    }
    publish->joined[adapter.index - publish->first_index] =
        (struct sim_joined){.before = publish->latest[arrival->tenant], .kind = arrival->kind};
    publish->latest[arrival->tenant] = adapter.index;
    sim->jobs->facts.joined++;
    store_adapter(sim, adapter.index, true);
    adapters_retire(sim);
}

void job_deliver_adapter(struct sim *sim, const struct sim_job *job)
{
    const struct scenario_job_kind *kind = &sim->scenario->job_kinds[job->arrival.kind];
    uint64_t bytes = footprint_adapter_bytes(&kind->shape, job_kind_modules(kind), job->arrival.rank);

    storage_add(&sim->jobs->storage, STORAGE_STORE, job->arrival.tenant, bytes, sim->now_ns);
}

void job_publish(struct sim *sim, const struct sim_job *job)
{
    const struct scenario_job_kind *kind = &sim->scenario->job_kinds[job->arrival.kind];
    struct jobs_facts *facts = &sim->jobs->facts;
    uint32_t latest;

    facts->published++;
    if (job->renews != 0) {
        renew(sim, job->renews, job->row.base);
        facts->upgraded++;
        return;
    }
    if (!is_served(sim, job->row.base)) {
        job_deliver_adapter(sim, job);
        return;
    }
    latest = latest_of_kind(sim, job);
    if (latest == 0 || job_luck(sim, job->row.ordinal, JOB_LUCK_REPUBLISH) >= kind->keys.republish_share) {
        join(sim, job);
        return;
    }
    renew(sim, latest, job->row.base);
    facts->republished++;
}

/* --- the upgrade of a base ------------------------------------------------------------------------------------------------ */

enum upgrade_step { UPGRADE_RETRAIN, UPGRADE_DRAIN };

/* Adapters that are there when the run begins have been stored for as long. */
void publish_begin(struct sim *sim)
{
    const struct scenario_upgrade *upgrade = &sim->scenario->upgrade;

    for (uint32_t index = 1; index <= source_adapters_count(sim->source); index++)
        store_adapter(sim, index, true);
    if (upgrade->keys.at_h <= 0)
        return;
    sim_push(sim, (int64_t)(upgrade->keys.at_h * 3600e9), CLASS_FAULT, ACTOR_UPGRADE, UPGRADE_RETRAIN, 0, 0);
    if (upgrade->keys.drain_by_h > 0)
        sim_push(sim, (int64_t)(upgrade->keys.drain_by_h * 3600e9), CLASS_FAULT, ACTOR_UPGRADE, UPGRADE_DRAIN, 0, 0);
}

static void retrain(struct sim *sim)
{
    const struct scenario_upgrade *upgrade = &sim->scenario->upgrade;

    for (uint32_t index = 1; index <= source_adapters_count(sim->source); index++) {
        struct adapter_fact fact = source_adapter(sim->source, (adapter_id){.index = index});
        struct job_arrival arrival;

        if (fact.base.value != upgrade->from)
            continue;
        sim->jobs->facts.upgrade_adapters++;
        if (job_luck(sim, index, JOB_LUCK_UPGRADE) >= upgrade->keys.retrain_share)
            continue;
        job_source_retrain(sim->jobs->source, upgrade->kind, index, sim->now_ns, &arrival);
        arrival.tenant = fact.tenant.value;
        arrival.rank = fact.rank;
        sim->jobs->facts.upgrade_jobs++;
        job_submit(sim, &arrival, false, index);
    }
}

/* The replicas finish what they have, refuse what comes, and are gone when they are empty. */
static void drain(struct sim *sim)
{
    sim->jobs->publish.drained_base = sim->scenario->upgrade.from;
    for (uint32_t i = 0; i < sim->replicas_count; i++) {
        struct sim_replica *replica = &sim->replicas[i];
        struct replica_event event;

        if (sim->scenario->pools[replica->pool].base_index != sim->scenario->upgrade.from)
            continue;
        check(replica->up && replica->ask_command == 0); /* its pool does not scale: checked with the scenario */
        sim->facts.replica_drains++;
        memset(&event, 0, sizeof(event));
        event.at_ns = sim->now_ns;
        event.kind = REPLICA_EVENT_DRAIN;
        replica_deliver(replica, &event);
    }
}

void upgrade_due(struct sim *sim, uint32_t step)
{
    if (step == UPGRADE_RETRAIN)
        retrain(sim);
    else
        drain(sim);
}

bool base_is_drained(const struct sim *sim, uint32_t base)
{
    return sim->jobs != NULL && sim->jobs->publish.drained_base == base;
}
