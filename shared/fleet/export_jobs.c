/* The export of jobs: quotas and usage, bases and GPUs, what is resident, and every job with what it holds. The order is part of it:
 * holdings and jobs in the order they came, tenants with pending jobs in the order in which they are asked. */
#include "fleet/devices_state.h"
#include "fleet/export.h"
#include "fleet/jobs_state.h"
#include "fleet/ledger_state.h"
#include "fleet/quota_state.h"

void export_cursors(const struct jobs *jobs, struct fleet_event *event)
{
    event->restore.clock = jobs->devices->clock;
    event->restore.orders = jobs->devices->orders;
    event->restore.bytes_largest = jobs->bytes_largest;
    event->restore.slice_largest = jobs->slice_largest;
    event->restore.gang_largest = jobs->gang_largest;
    event->restore.claim_node = jobs->claim_node;
    event->restore.claim_tenant = jobs->claim_tenant;
}

/* --- quotas ------------------------------------------------------------------------------------------------------------- */

static void tell_node(struct exporter *exporter, const struct jobs *jobs, uint32_t index)
{
    const struct quota *quota = jobs->quota;
    const struct quota_node *node = &quota->nodes[index];
    uint32_t tenants = quota->config.tenants_max;

    for (uint16_t flavor = 0; flavor < quota->config.flavors_max; flavor++) {
        const struct quota_cell *cell = &quota->cells[(size_t)index * quota->config.flavors_max + flavor];
        struct fleet_event event = export_event(exporter, index < tenants ? FLEET_EVENT_TENANT : FLEET_EVENT_COHORT);

        event.tenant.nominal_milli = cell->nominal_milli;
        event.tenant.borrowing_milli = cell->borrowing_milli;
        event.tenant.lending_milli = cell->lending_milli;
        event.tenant.tenant = index < tenants ? index : index - tenants;
        event.tenant.cohort = node->parent == NONE_INDEX ? NO_COHORT : node->parent - tenants;
        event.tenant.weight_milli = node->weight_milli;
        event.tenant.flavor = flavor;
        event.tenant.flags = index < tenants && jobs->tenants[index].trusted ? TENANT_TRUSTED : 0;
        export_tell(exporter, &event);
    }
}

static uint32_t depth_of(const struct quota *quota, uint32_t node)
{
    uint32_t depth = 0;

    for (; quota->nodes[node].parent != NONE_INDEX; node = quota->nodes[node].parent)
        depth++;
    return depth;
}

/* Level by level: a cohort is known before its members. */
static void tell_cohorts(struct exporter *exporter, const struct jobs *jobs)
{
    const struct quota *quota = jobs->quota;
    bool deeper = true;

    for (uint32_t depth = 0; deeper; depth++) {
        deeper = false;
        for (uint32_t i = quota->config.tenants_max; i < quota->nodes_count; i++) {
            if (quota->nodes[i].weight_milli == 0)
                continue;
            deeper = deeper || depth_of(quota, i) > depth;
            if (depth_of(quota, i) == depth)
                tell_node(exporter, jobs, i);
        }
    }
}

void export_quota(struct exporter *exporter, const struct jobs *jobs)
{
    tell_cohorts(exporter, jobs);
    for (uint32_t i = 0; i < jobs->config.tenants_max; i++)
        if (quota_knows(jobs->quota, i))
            tell_node(exporter, jobs, i);
    for (uint32_t i = 0; i < jobs->config.tenants_max; i++) {
        struct fleet_event event = export_event(exporter, FLEET_EVENT_TENANT_USAGE);

        if (!quota_knows(jobs->quota, i) || jobs->quota->usages[i].value == 0)
            continue;
        event.tenant_usage.tenant.value = i;
        event.tenant_usage.gpu_ns =
            quota_usage(jobs->quota, i, &event.tenant_usage.as_of_ns, &event.tenant_usage.fraction);
        export_tell(exporter, &event);
    }
}

/* --- bases and GPUs ------------------------------------------------------------------------------------------------------- */

static void tell_bases(struct exporter *exporter, const struct jobs *jobs)
{
    for (uint32_t i = 0; i < jobs->config.bases_max; i++) {
        const struct known_base *base = &jobs->bases[i];
        struct fleet_event event = export_event(exporter, FLEET_EVENT_BASE_KNOWN);

        if (!base->known)
            continue;
        event.base_known.bytes = base->bytes;
        event.base_known.load_ns = base->load_ns;
        event.base_known.base.value = (uint16_t)i;
        event.base_known.gpus = base->gpus;
        event.base_known.retry_at_ns = base->retry_at_ns;
        event.base_known.failures = base->failures;
        export_tell(exporter, &event);
    }
}

/* GPUs of one price at once. */
static void tell_gpus(struct exporter *exporter, const struct jobs *jobs, uint16_t index)
{
    const struct node *node = &jobs->devices->nodes[index];
    const struct gpu_class *class = &jobs->devices->classes[node->class];

    for (uint16_t left = node->present; left != 0;) {
        struct fleet_event event = export_event(exporter, FLEET_EVENT_GPUS_UP);

        event.gpus.price_nano_per_hour = jobs->ledger->gpus[gpu_number(index, (uint16_t)mask_first(left))].price;
        for (uint16_t gpu = 0; gpu < NODE_GPUS_MAX; gpu++)
            if ((left >> gpu & 1) && jobs->ledger->gpus[gpu_number(index, gpu)].price == event.gpus.price_nano_per_hour)
                event.gpus.gpu_mask |= gpu_bit(gpu);
        event.gpus.bytes = class->bytes;
        event.gpus.node.value = index;
        event.gpus.flavor = class->flavor;
        event.gpus.model = class->model;
        event.gpus.rank = (uint16_t)(1 + node->class);
        export_tell(exporter, &event);
        left &= (uint16_t)~event.gpus.gpu_mask;
    }
}

/* Kinds of GPUs are searched in the order they came. */
void export_capacity(struct exporter *exporter, const struct jobs *jobs)
{
    tell_bases(exporter, jobs);
    for (uint32_t class = 0; class < DEVICES_CLASSES_MAX; class++)
        for (uint32_t node = 0; node < jobs->config.nodes_max; node++)
            if (jobs->devices->nodes[node].class == class)
                tell_gpus(exporter, jobs, (uint16_t)node);
}

/* Oldest first. */
void export_holdings(struct exporter *exporter, const struct jobs *jobs)
{
    const struct devices *devices = jobs->devices;

    for (uint32_t node = 0; node < jobs->config.nodes_max; node++) {
        uint32_t at = devices->nodes[node].holdings_head;

        while (at != NONE_INDEX && devices->holdings[at].next != NONE_INDEX)
            at = devices->holdings[at].next;
        for (; at != NONE_INDEX; at = devices->holdings[at].previous) {
            const struct holding *holding = &devices->holdings[at];
            struct fleet_event event = export_event(exporter, FLEET_EVENT_BASE_FOUND);

            event.reason = !holding->ready;
            event.base_found.key = holding->key;
            event.base_found.used_order = holding->used_order;
            event.base_found.uses = holding->uses;
            event.base_found.node.value = holding->node;
            event.base_found.gpu_mask = holding->gpu_mask;
            event.base_found.base.value = holding->base;
            export_tell(exporter, &event);
        }
    }
}

void export_memory(struct exporter *exporter, const struct jobs *jobs)
{
    for (uint32_t node = 0; node < jobs->config.nodes_max; node++)
        for (uint16_t left = jobs->devices->nodes[node].present; left != 0; left &= (uint16_t)(left - 1)) {
            uint32_t gpu = mask_first(left);
            struct fleet_event event = export_event(exporter, FLEET_EVENT_MEMORY_FOUND);

            memcpy(event.memory_found.tenants, jobs->devices->nodes[node].gpus[gpu].last_tenant,
                   sizeof(event.memory_found.tenants));
            event.memory_found.node.value = (uint16_t)node;
            event.memory_found.gpu = (uint16_t)gpu;
            export_tell(exporter, &event);
        }
}

void export_notices(struct exporter *exporter, const struct jobs *jobs)
{
    for (uint32_t i = 0; i < jobs->config.nodes_max; i++) {
        const struct node *node = &jobs->devices->nodes[i];
        struct fleet_event event = export_event(exporter, FLEET_EVENT_GPUS_NOTICE);

        if (node->present == node->open)
            continue;
        event.gpus.node.value = (uint16_t)i;
        event.gpus.gpu_mask = node->present & (uint16_t)~node->open;
        event.gpus.gone_at_ns = jobs->gone_at_ns[i];
        export_tell(exporter, &event);
    }
}

/* --- jobs --------------------------------------------------------------------------------------------------------------------- */

static void tell_job(struct exporter *exporter, const struct job *job)
{
    struct fleet_event event = export_event(exporter, FLEET_EVENT_JOB);

    event.job.job = job->id;
    event.job.size_ns = job->size_ns;
    event.job.deadline_at_ns = job->deadline_at_ns;
    event.job.runtime_min_ns = job->runtime_min_ns;
    event.job.bytes = job->bytes;
    event.job.tenant.value = job->tenant;
    event.job.base.value = job->base;
    event.job.gpus = job->gpus;
    event.job.rank = job->rank;
    event.job.priority = job->priority;
    event.job.flags = job->flags;
    event.job.stage = job->stage;
    event.job.isolation = job->isolation;
    export_tell(exporter, &event);
    event = export_event(exporter, FLEET_EVENT_JOB_KEPT);
    event.job_kept.job = job->id;
    event.job_kept.done_ns = job->size_ns - job->remaining_ns;
    event.job_kept.submitted_at_ns = job->submitted_at_ns;
    event.job_kept.waits_from_ns = job->waits_from_ns;
    event.job_kept.attempt = job->attempt;
    event.job_kept.trusted = job->trusted;
    export_tell(exporter, &event);
}

static void tell_found(struct exporter *exporter, const struct job *job)
{
    struct fleet_event event = export_event(exporter, FLEET_EVENT_JOB_FOUND);

    tell_job(exporter, job);
    event.job_found.job = job->id;
    event.job_found.done_ns = job->size_ns - job->remaining_ns;
    event.job_found.claimed_at_ns = job->placed_at_ns;
    event.job_found.started_at_ns = job->started_at_ns;
    event.job_found.charged_ns = job->entry_ns;
    event.job_found.node.value = job->place.node;
    event.job_found.gpu_mask = job->place.gpu_mask;
    event.job_found.slice = job->place.slice;
    event.job_found.state = job->state;
    event.job_found.flags = (uint16_t)(FOUND_MARKED | (job->borrowed ? FOUND_BORROWED : 0) | (job->cancelled ? FOUND_CANCELLED : 0) |
                                       (job->clear ? FOUND_CLEAR : 0) | (job->told ? FOUND_TOLD : 0));
    export_tell(exporter, &event);
}

/* The first of its tenant's first class. */
static bool leads(const struct jobs *jobs, uint32_t slot)
{
    const struct job *job = &jobs->jobs[slot];

    return job->class != NONE_INDEX && jobs->tenants[job->tenant].classes == job->class && jobs->classes[job->class].root == slot;
}

void export_jobs(struct exporter *exporter, const struct jobs *jobs)
{
    for (uint32_t slot = jobs->placed_head; slot != NONE_INDEX; slot = jobs->jobs[slot].placed_next)
        tell_found(exporter, &jobs->jobs[slot]);
    for (uint32_t i = 0; i < jobs->tenants_count; i++)
        tell_job(exporter, &jobs->jobs[jobs->classes[jobs->tenants[jobs->tenants_active[i]].classes].root]);
    for (uint32_t slot = 0; slot < jobs->config.jobs_max; slot++) {
        const struct job *job = &jobs->jobs[slot];

        if (job->state == JOB_STRAY)
            tell_found(exporter, job);
        else if (job->state == JOB_PENDING && !leads(jobs, slot))
            tell_job(exporter, job);
    }
    exporter->exported.plans += jobs->claimers_count + jobs->reserved_count;
}

bool export_serve(const struct jobs *jobs, uint32_t index, struct fleet_event *event)
{
    const struct job *job = &jobs->jobs[jobs->config.jobs_max + index];

    if (job->state == JOB_FREE || job->state == JOB_PENDING || job->state == JOB_BASE_WAIT)
        return false;
    event->replica_up.bytes = job->bytes;
    event->replica_up.node.value = job->place.node;
    event->replica_up.gpu_mask = job->place.gpu_mask;
    return true;
}
