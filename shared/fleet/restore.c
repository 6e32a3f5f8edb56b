/* What was there before a restart is told in the words of enum fleet_event_kind and taken as it is, whatever the rules would say of it
 * today: usage above a limit that has shrunk stays, a job that no longer fits waits. Only what has no room on its GPUs cannot be taken.
 * Such an attempt is a stray: it holds nothing, its GPUs are kept from others, and it is told to stop when all is told. Nothing is said
 * and nobody is placed before that. */
#include "fleet/jobs_state.h"

void restore_begin(struct jobs *jobs, const struct fleet_event *event)
{
    jobs->restoring = true;
    jobs->bytes_largest = event->restore.bytes_largest;
    jobs->slice_largest = event->restore.slice_largest;
    jobs->gang_largest = event->restore.gang_largest;
    jobs->claim_node = event->restore.claim_node % jobs->config.nodes_max;
    jobs->claim_tenant = event->restore.claim_tenant;
    devices_restore(jobs->devices, event->restore.clock, event->restore.orders);
}

/* --- bases ------------------------------------------------------------------------------------------------------------ */

/* NONE_INDEX: no room is left for it. */
static uint32_t hold(struct jobs *jobs, uint16_t base, uint16_t node, uint16_t gpu_mask, bool ready)
{
    const struct known_base *known = &jobs->bases[base];
    uint32_t holding;

    if (!devices_can_hold(jobs->devices, node, gpu_mask, base, known->bytes))
        return NONE_INDEX;
    holding = devices_hold(jobs->devices, base, known->bytes, node, gpu_mask, known->load_ns);
    for (uint16_t gpu = 0; gpu < 16; gpu++)
        if (gpu_mask >> gpu & 1)
            ledger_base_on(jobs->ledger, gpu_number(node, gpu), jobs->at_ns, (uint16_t)holding, known->bytes, !ready);
    if (ready)
        devices_loaded(jobs->devices, holding);
    return holding;
}

/* One that has no room is nowhere in the books: it is the host's to drop. */
void restore_base(struct jobs *jobs, const struct fleet_event *event)
{
    uint16_t base = event->base_found.base.value;
    uint32_t holding;

    check(base < jobs->config.bases_max && jobs->bases[base].known);
    holding = hold(jobs, base, event->base_found.node.value, event->base_found.gpu_mask, event->reason == 0);
    if (holding != NONE_INDEX)
        devices_found(jobs->devices, holding, event->base_found.uses, event->base_found.used_order, event->base_found.key);
}

/* The place as it stands; its base is there if somebody computes on it. */
static bool find_again(struct jobs *jobs, const struct job *job, struct devices_place *place)
{
    struct devices_ask ask = ask_of(jobs, job);

    if (!devices_flavor_at(jobs->devices, place->node, &place->flavor))
        return false;
    place->holding = NONE_INDEX;
    if (job->isolation != ISOLATION_MIG) {
        place->holding = devices_holding_at(jobs->devices, place->node, place->gpu_mask, job->base);
        if (place->holding == NONE_INDEX)
            place->holding = hold(jobs, job->base, place->node, place->gpu_mask, true);
    }
    return devices_can_claim(jobs->devices, &ask, place);
}

/* --- jobs ------------------------------------------------------------------------------------------------------------- */

/* NULL: it will be refused. */
static struct job *job_told(struct jobs *jobs, job_id id)
{
    struct job *job;

    check(job_slot(id) < jobs->config.jobs_max);
    job = &jobs->jobs[job_slot(id)];
    check(job->id.value == id.value);
    if (job->state == JOB_FREE) {
        check(job->refusal != JOB_REFUSE_NONE);
        return NULL;
    }
    check(job->state == JOB_PENDING);
    return job;
}

void restore_kept(struct jobs *jobs, const struct fleet_event *event)
{
    struct job *job = job_told(jobs, event->job_kept.job);
    uint32_t slot = job_slot(event->job_kept.job);

    if (job == NULL)
        return;
    pending_remove(jobs, slot);
    job->remaining_ns = max_i64(0, job->size_ns - max_i64(0, event->job_kept.done_ns));
    job->submitted_at_ns = min_i64(event->job_kept.submitted_at_ns, jobs->at_ns);
    job->waits_from_ns = min_i64(event->job_kept.waits_from_ns, jobs->at_ns);
    job->attempt = event->job_kept.attempt;
    job->trusted = event->job_kept.trusted != 0;
    pending_insert(jobs, slot);
}

static void stray(struct jobs *jobs, uint32_t slot, const struct devices_place *place, bool told)
{
    struct job *job = &jobs->jobs[slot];
    uint16_t present = place->gpu_mask & devices_present(jobs->devices, place->node);

    job->state = JOB_STRAY;
    job->place = *place;
    job->told = told;
    if (present != 0)
        devices_earmark(jobs->devices, place->node, present, slot, 0);
}

void stray_left(struct jobs *jobs, uint32_t slot)
{
    devices_unearmark(jobs->devices, slot);
    jobs->jobs[slot].told = false;
}

/* In advance at claimed_at_ns, as when it was placed. */
static void charge_usage(struct jobs *jobs, struct job *job, int64_t charged_ns)
{
    if (charged_ns != FOUND_UNCHARGED) {
        job->entry_ns = max_i64(0, charged_ns);
        return;
    }
    job->entry_ns = gpu_time_ns(job, min_i64(job->remaining_ns, jobs->config.half_life_ns));
    quota_usage_add(jobs->quota, job->tenant, job->placed_at_ns, job->entry_ns);
}

static void take_back(struct jobs *jobs, uint32_t slot, const struct fleet_event *event, const struct devices_place *place)
{
    struct job *job = &jobs->jobs[slot];
    struct devices_ask ask = ask_of(jobs, job);

    quota_charge(jobs, slot, place->flavor, quota_need_milli(jobs, job, place), true);
    job->borrowed = event->job_found.flags & FOUND_MARKED
                        ? (event->job_found.flags & FOUND_BORROWED) != 0
                        : quota_borrowed(jobs->quota, job->tenant, place->flavor) > 0;
    job->borrowed = job->borrowed && (job->flags & JOB_PREEMPTIBLE);
    if (job->borrowed)
        jobs->tenants[job->tenant].marked_milli[job->flavor] += job->quota_milli;
    (void)devices_claim(jobs->devices, slot, &ask, place);
    job->clear = (event->job_found.flags & FOUND_CLEAR) != 0;
    job->place = *place;
    job->placed_at_ns = max_i64(0, min_i64(event->job_found.claimed_at_ns, jobs->at_ns));
    job->attempt = max_u32(job->attempt, 1);
    charge_usage(jobs, job, event->job_found.charged_ns);
    for (uint16_t gpu = 0; gpu < 16; gpu++)
        if (place->gpu_mask >> gpu & 1)
            ledger_claim_on(jobs->ledger, gpu_number(place->node, gpu), jobs->at_ns, slot, job->tenant,
                            place->slice == 0 ? (uint16_t)place->holding : LEDGER_NO_BASE,
                            place->slice == 0 ? job->bytes : job->bytes + ask.base_bytes, 0, job->borrowed);
    link_running(jobs, slot);
    job->state = (uint8_t)event->job_found.state;
    jobs->stopping += job->state == JOB_STOPPING;
    if (event->job_found.started_at_ns != NEVER_NS && (job->state == JOB_RUNNING || job->state == JOB_STOPPING))
        job->started_at_ns = min_i64(event->job_found.started_at_ns, jobs->at_ns);
    else if (job->state == JOB_RUNNING)
        job->started_at_ns = job->placed_at_ns;
    share_compute(jobs, place);
}

void restore_job(struct jobs *jobs, const struct fleet_event *event)
{
    struct job *job = job_told(jobs, event->job_found.job);
    uint32_t slot = job_slot(event->job_found.job);
    uint16_t state = event->job_found.state;
    struct devices_place place = {.kind = PLACE_RESIDENT,
                                  .node = event->job_found.node.value,
                                  .gpu_mask = event->job_found.gpu_mask,
                                  .slice = event->job_found.slice};
    bool fits;

    check(state >= JOB_BASE_WAIT && state <= JOB_STRAY);
    if (job == NULL)
        return;
    pending_remove(jobs, slot);
    job->remaining_ns = max_i64(0, min_i64(job->remaining_ns, job->size_ns - event->job_found.done_ns));
    job->cancelled = (event->job_found.flags & FOUND_CANCELLED) != 0;
    fits = state != JOB_STRAY && find_again(jobs, job, &place);
    if (state == JOB_BASE_WAIT && (!fits || devices_holding(jobs->devices, place.holding).ready)) {
        pending_insert(jobs, slot); /* it has not begun, and nobody will say that its base has come */
        return;
    }
    jobs->totals.pending--;
    if (fits)
        take_back(jobs, slot, event, &place);
    else
        stray(jobs, slot, &place, (event->job_found.flags & FOUND_TOLD) != 0);
}

/* --- replicas of the shared pool ------------------------------------------------------------------------------------------- */

void jobs_serve_found(struct jobs *jobs, int64_t at_ns, const struct serve_ask *ask, uint16_t node, uint16_t gpu_mask,
                      enum replica_found found)
{
    uint32_t slot = serve_add(jobs, at_ns, ask);
    struct job *job = &jobs->jobs[slot];
    struct devices_place place = {.kind = PLACE_RESIDENT, .node = node, .gpu_mask = gpu_mask};
    struct devices_ask asked;

    jobs->at_ns = at_ns;
    if (found != REPLICA_IS_STARTING)
        job->started_at_ns = at_ns;
    if (!find_again(jobs, job, &place) || (jobs->config.serve_flavors >> place.flavor & 1) == 0) {
        stray(jobs, slot, &place, found == REPLICA_IS_DRAINING);
        return;
    }
    asked = ask_of(jobs, job);
    (void)devices_claim(jobs->devices, slot, &asked, &place);
    job->place = place;
    job->flavor = place.flavor;
    job->placed_at_ns = at_ns;
    for (uint16_t gpu = 0; gpu < 16; gpu++)
        if (gpu_mask >> gpu & 1)
            ledger_claim_on(jobs->ledger, gpu_number(node, gpu), at_ns, slot, job->tenant, (uint16_t)place.holding, job->bytes, 0,
                            false);
    job->state = found == REPLICA_IS_UP ? JOB_RUNNING : found == REPLICA_IS_STARTING ? JOB_PLACING : JOB_STOPPING;
    share_compute(jobs, &place);
}

/* --- the end ---------------------------------------------------------------------------------------------------------------- */

static void tell_refused(struct jobs *jobs, struct job *job)
{
    struct fleet_command *command = jobs_say(jobs, FLEET_COMMAND_JOB_REFUSE, job->refusal);
    bool of_tenant = job->refusal == JOB_REFUSE_UNKNOWN_TENANT;

    command->refuse.request_or_job = job->id.value;
    command->refuse.need = of_tenant ? job->tenant : job->base;
    command->refuse.have = of_tenant ? jobs->config.tenants_max : jobs->config.bases_max;
    jobs_said(jobs, command);
    jobs->totals.refused++;
    job->refusal = JOB_REFUSE_NONE;
}

static void tell_stray(struct jobs *jobs, uint32_t slot)
{
    struct job *job = &jobs->jobs[slot];
    struct fleet_command *command;

    job->told = true;
    if (job->stage == STAGE_SERVE) {
        serve_say_drain(jobs, slot, JOB_STOP_STRAY);
        return;
    }
    command = jobs_say(jobs, FLEET_COMMAND_JOB_STOP, JOB_STOP_STRAY);
    command->job_stop.job = job->id;
    command->job_stop.by_ns = NEVER_NS;
    jobs_said(jobs, command);
}

/* A replica that is still starting is told when it is up. */
static bool must_be_told(const struct job *job)
{
    return job->state == JOB_STRAY && !job->told && (job->stage != STAGE_SERVE || job->started_at_ns != NEVER_NS);
}

void restore_tell(struct jobs *jobs)
{
    jobs->restore_due = false;
    for (uint32_t slot = 0; slot < jobs->config.jobs_max + jobs->config.serve_max; slot++) {
        struct job *job = &jobs->jobs[slot];
        bool refused = job->state == JOB_FREE && job->refusal != JOB_REFUSE_NONE;

        if (!refused && !must_be_told(job))
            continue;
        if (!jobs_has_room(jobs, 1)) {
            jobs->restore_due = true;
            return;
        }
        if (refused)
            tell_refused(jobs, job);
        else
            tell_stray(jobs, slot);
    }
}

void restore_done(struct jobs *jobs)
{
    jobs->restoring = false;
    devices_restored(jobs->devices);
    restore_tell(jobs);
    if (jobs->leave_due)
        jobs_leave_closed(jobs);
    jobs_after_release(jobs);
}
