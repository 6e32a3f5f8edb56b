/* The job scheduler under a host that does everything a host may do, in no order at all: random jobs of three tenants in two
 * cohorts on two flavors, answers late and in any order, nodes that come, are noticed and go, loads that fail, limits that
 * change. After every event the core's own check, and one from outside that knows only commands, what it sent, and views. */
#include <stdio.h>
#include <stdlib.h>

#include "fleet/fleet.h"
#include "fleet/pack.h"
#include "journal/journal.h"
#include "restored.h"
#include "support.h"

#define GB UINT64_C(1000000000)
#define MINUTE (60 * NS_PER_S)

enum { NODES = 3, TENANTS = 3, BASES = 3, JOBS = 24, ASKED = 64, GPUS = 4, FLAVORS = 2 };

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { EVENTS = 4000, TRIALS = 2 };
#elif defined(__OPTIMIZE__)
enum { EVENTS = 10000, TRIALS = 2 };
#else
enum { EVENTS = 3000, TRIALS = 1 };
#endif

struct known_job {
    bool used;
    struct fleet_event spec;
    bool placed;                 /* PLACE was said */
    struct fleet_command place;
    bool started;
    bool stopping;
    uint16_t stop_reason;
    int64_t started_at_ns;
    int64_t done_ns;
};

struct known_node {
    uint16_t up;                 /* masks */
    uint16_t noticed;
};

/* A base on GPUs as the commands told. */
struct known_holding {
    bool used;
    bool ready;
    struct fleet_command load;
};

struct trial {
    struct fleet_config config;
    struct fleet *fleet;
    void *memory;
    uint64_t random;
    uint64_t seed;
    int64_t at_ns;
    uint64_t seq;
    uint64_t ordinal;
    uint32_t step;
    bool plans;                  /* jobs are stopped for others, and gangs reserve */
    bool calm;                   /* nothing is lost, no limit changes: promises hold to the letter */
    struct known_job jobs[JOBS];
    struct known_node nodes[NODES];
    struct known_holding holdings[64];
    struct fleet_command asked[ASKED];
    uint32_t asked_count;
    int64_t nominal_milli[TENANTS][FLAVORS];
    int64_t borrowing_milli[TENANTS][FLAVORS];
    int64_t retry_at_ns[4];      /* by base: loads failed, and it is not asked for before */
    uint32_t failures[4];
    uint64_t placed;
    uint64_t stopped;
    struct fleet_event *events;  /* a journal, when not NULL */
    uint64_t *digests;
    uint32_t events_count;
    struct restored second;      /* restored from the first, it goes along from then on */
    bool alike;                  /* nothing was under way that is not restored: it must say the same */
    uint64_t compared;
    uint64_t restored;
};

static void check_that(const struct trial *trial, bool fine, const char *text, int line)
{
    if (!fine)
        fail_msg("%s; line %d, seed %llu, step %u, %s %s", text, line, (unsigned long long)trial->seed, trial->step,
                 trial->config.jobs.order->name, trial->config.jobs.place->name);
}
#define that(condition) check_that(trial, condition, #condition, __LINE__)

static uint64_t below(struct trial *trial, uint64_t bound) { return draw_below(&trial->random, bound); }

static uint16_t flavor_of_node(uint32_t node) { return node == 2 ? 1 : 0; }

static uint64_t base_bytes(uint16_t base) { return base == 0 ? 16 * GB : base == 1 ? 30 * GB : 20 * GB; }
static uint16_t base_gpus(uint16_t base) { return base == 2 ? 2 : 1; }

/* ---- what the outside knows ---- */

static bool holds(enum job_state state) { return state != JOB_FREE && state != JOB_PENDING; }

static struct job_view view_of(const struct trial *trial, uint32_t slot)
{
    return jobs_view(fleet_jobs(trial->fleet), trial->jobs[slot].spec.job.job);
}

static int64_t need_of(const struct trial *trial, uint32_t slot)
{
    const struct fleet_event *spec = &trial->jobs[slot].spec;
    struct devices_place place;

    if (spec->job.isolation == ISOLATION_EXCLUSIVE)
        return spec->job.gpus * 1000;
    if (spec->job.isolation != ISOLATION_MIG)
        return spec->job.gpus * 500;
    if (!devices_claimed(jobs_devices(fleet_jobs(trial->fleet)), slot, &place))
        return view_of(trial, slot).claims ? 1000 : 125; /* a claimer's slice is not known outside: at most all of it */
    return 125 * (int64_t)devices_slice_eighths(jobs_devices(fleet_jobs(trial->fleet)), &place);
}

static void check_bytes(struct trial *trial)
{
    for (uint32_t node = 0; node < NODES; node++)
        for (uint32_t gpu = 0; gpu < GPUS; gpu++) {
            uint64_t bytes = 0;
            uint32_t count = 0;
            uint32_t slices = 0;
            uint8_t isolation = 0;
            uint32_t tenant = 0;

            for (uint32_t i = 0; i < ARRAY_COUNT(trial->holdings); i++)
                if (trial->holdings[i].used && trial->holdings[i].load.base_load.node.value == node &&
                    (trial->holdings[i].load.base_load.gpu_mask >> gpu & 1))
                    bytes += trial->holdings[i].load.base_load.bytes;
            for (uint32_t i = 0; i < JOBS; i++) {
                const struct known_job *job = &trial->jobs[i];

                if (!job->used || !job->placed || job->place.job_place.node.value != node ||
                    (job->place.job_place.gpu_mask >> gpu & 1) == 0)
                    continue;
                that((trial->nodes[node].up >> gpu & 1) != 0);
                bytes += job->spec.job.bytes;
                if (job->spec.job.isolation == ISOLATION_MIG)
                    bytes += base_bytes(job->spec.job.base.value);
                that(count == 0 || isolation == job->spec.job.isolation);
                that(count == 0 || isolation != ISOLATION_EXCLUSIVE);
                that(count == 0 || isolation != ISOLATION_TIME_SLICE || tenant == job->spec.job.tenant.value);
                isolation = job->spec.job.isolation;
                tenant = job->spec.job.tenant.value;
                count++;
                if (isolation == ISOLATION_MIG) {
                    struct mig_profile profile;
                    uint32_t first = (job->place.job_place.slice & 0xffu) - 1;
                    uint32_t mine;

                    that(mig_profile_at(GPU_H100_80, job->place.job_place.slice >> 8, &profile));
                    that((profile.starts >> first & 1) != 0);
                    that(profile.bytes >= job->spec.job.bytes + base_bytes(job->spec.job.base.value));
                    mine = ((1u << profile.memory_slices) - 1) << first;
                    that((slices & mine) == 0);
                    slices |= mine;
                }
            }
            that(bytes <= 80 * GB);
            that(isolation == ISOLATION_MIG || count <= 2);
        }
}

static int64_t used_by(const struct trial *trial, uint32_t tenant, uint16_t flavor, bool stopping_too)
{
    int64_t milli = 0;

    for (uint32_t i = 0; i < JOBS; i++) {
        struct job_view view;

        if (!trial->jobs[i].used || trial->jobs[i].spec.job.tenant.value != tenant)
            continue;
        view = view_of(trial, i);
        /* What is promised to claimers will be theirs when those who stop have left. */
        if (view.flavor == flavor && (stopping_too ? holds(view.state) : view.claims || (holds(view.state) && view.state != JOB_STOPPING)))
            milli += need_of(trial, i);
    }
    return milli;
}

/* What others have left it, at least: what it stops for itself is its own affair, and whether before or after is not known
 * outside. Exact for a tenant that stops none of its own. */
static int64_t left_to(const struct trial *trial, uint32_t tenant, uint16_t flavor)
{
    int64_t milli = 0;

    for (uint32_t i = 0; i < JOBS; i++) {
        struct job_view view;

        if (!trial->jobs[i].used || trial->jobs[i].spec.job.tenant.value != tenant)
            continue;
        view = view_of(trial, i);
        if (view.flavor == flavor &&
            (view.claims || (holds(view.state) && (view.state != JOB_STOPPING || trial->jobs[i].stop_reason == JOB_STOP_PREEMPT))))
            milli += need_of(trial, i);
    }
    return milli;
}

/* I2, I3: with limits that do not change, at every instant. */
static void check_limits(struct trial *trial)
{
    for (uint16_t flavor = 0; trial->calm && flavor < FLAVORS; flavor++) {
        int64_t all_milli = 0;
        int64_t nominal_milli = 0;

        for (uint32_t tenant = 0; tenant < TENANTS; tenant++) {
            int64_t used_milli = used_by(trial, tenant, flavor, true);

            that(used_milli <= trial->nominal_milli[tenant][flavor] + trial->borrowing_milli[tenant][flavor]);
            all_milli += used_milli;
            nominal_milli += trial->nominal_milli[tenant][flavor];
        }
        that(all_milli <= nominal_milli);
    }
}

/* I14: what could start has. */
static void check_work_conserving(struct trial *trial)
{
    struct jobs *jobs = fleet_jobs(trial->fleet);
    struct devices *devices = (struct devices *)(uintptr_t)jobs_devices(jobs); /* a search leaves no trace */
    uint64_t work_ns[BASES] = {0};

    for (uint32_t i = 0; i < JOBS; i++) {
        const struct fleet_event *spec = &trial->jobs[i].spec;
        struct job_view view;

        if (!trial->jobs[i].used)
            continue;
        view = view_of(trial, i);
        if (view.state == JOB_PENDING && !view.claims)
            work_ns[spec->job.base.value] += (uint64_t)view.remaining_ns * spec->job.gpus;
    }
    for (uint32_t i = 0; i < JOBS; i++) {
        const struct fleet_event *spec = &trial->jobs[i].spec;
        uint16_t base = spec->job.base.value;
        struct devices_ask ask = {0};
        struct devices_place place;
        struct job_view view;
        bool pays;

        if (!trial->jobs[i].used)
            continue;
        view = view_of(trial, i);
        if (view.state != JOB_PENDING || view.claims)
            continue;
        that(view.wait != JOB_WAIT_NONE && view.wait != JOB_WAIT_ORDER && view.wait != JOB_WAIT_BASE_LOADING);
        that((view.wait == JOB_WAIT_RESERVED) >= (view.reserved_for != NONE_INDEX));
        pays = !trial->config.jobs.place->resident_first || spec->job.isolation == ISOLATION_MIG ||
               work_ns[base] >= (uint64_t)(20 * NS_PER_S * base_gpus(base)) ||
               trial->at_ns - view.submitted_at_ns >= 200 * NS_PER_S;
        pays = pays && (spec->job.isolation == ISOLATION_MIG || trial->at_ns >= trial->retry_at_ns[base]);
        ask.bytes = spec->job.bytes;
        ask.base_bytes = base_bytes(base);
        ask.tenant = spec->job.tenant.value;
        ask.base = base;
        ask.gpus = spec->job.gpus;
        ask.isolation = spec->job.isolation;
        ask.trusted = spec->job.tenant.value != 2;
        ask.job = i;
        ask.end_estimate_ns = NEVER_NS;
        for (uint16_t flavor = 0; flavor < FLAVORS; flavor++) {
            enum quota_fit fit;

            if (flavor == 1 && (spec->job.flags & JOB_SPOT_OK) == 0)
                continue;
            ask.flavors = 1u << flavor;
            place = devices_find(devices, &ask, trial->config.jobs.place->resident_first, pays);
            if (place.kind == PLACE_NONE)
                continue;
            fit = quota_fit(jobs_quota(jobs), ask.tenant, flavor,
                            place.slice != 0 ? 125 * (int64_t)devices_slice_eighths(devices, &place) : need_of(trial, i));
            that(fit != QUOTA_NOMINAL);
            that(fit != QUOTA_BORROWING || (spec->job.flags & JOB_PREEMPTIBLE) == 0);
        }
    }
}

/* ---- commands ---- */

static struct known_holding *holding_of(struct trial *trial, uint16_t node, uint16_t mask, uint16_t base)
{
    for (uint32_t i = 0; i < ARRAY_COUNT(trial->holdings); i++) {
        struct known_holding *holding = &trial->holdings[i];

        if (holding->used && holding->load.base_load.node.value == node && holding->load.base_load.gpu_mask == mask &&
            holding->load.base_load.base.value == base)
            return holding;
    }
    return NULL;
}

static struct known_job *job_of(struct trial *trial, job_id id)
{
    struct known_job *job = &trial->jobs[job_slot(id)];

    that(job->used && job->spec.job.job.value == id.value);
    return job;
}

static void heard_place(struct trial *trial, const struct fleet_command *command)
{
    struct known_job *job = job_of(trial, command->job_place.job);
    uint16_t node = command->job_place.node.value;
    uint16_t mask = command->job_place.gpu_mask;

    that(!job->placed);
    that(__builtin_popcount(mask) == job->spec.job.gpus);
    that((mask & ~trial->nodes[node].up) == 0);
    that((mask & trial->nodes[node].noticed) == 0);
    that(flavor_of_node(node) == 0 || (job->spec.job.flags & JOB_SPOT_OK));
    that((command->job_place.slice != 0) == (job->spec.job.isolation == ISOLATION_MIG));
    if (command->job_place.slice == 0) {
        struct known_holding *holding = holding_of(trial, node, mask, job->spec.job.base.value);

        that(holding != NULL && holding->ready);
    }
    if ((job->spec.job.flags & JOB_PREEMPTIBLE) == 0 && trial->calm)
        that(!view_of(trial, job_slot(command->job_place.job)).borrowed);
    job->placed = true;
    job->started = false;
    job->place = *command;
    trial->placed++;
}

static bool higher_waits(const struct trial *trial, const struct known_job *victim)
{
    for (uint32_t i = 0; i < JOBS; i++)
        if (trial->jobs[i].used && trial->jobs[i].spec.job.tenant.value == victim->spec.job.tenant.value &&
            trial->jobs[i].spec.job.priority > victim->spec.job.priority && view_of(trial, i).claims)
            return true;
    return false;
}

static void heard_stop(struct trial *trial, const struct fleet_command *command)
{
    struct known_job *job = job_of(trial, command->job_stop.job);
    uint32_t slot = job_slot(command->job_stop.job);

    that(job->placed && !job->stopping);
    job->stopping = true;
    trial->stopped++;
    if (command->reason == JOB_STOP_RECLAIM || command->reason == JOB_STOP_PREEMPT) {
        that(job->started); /* I11 */
        that(trial->at_ns - job->started_at_ns >= job->spec.job.runtime_min_ns);
        that(job->spec.job.flags & JOB_PREEMPTIBLE);
    }
    if (command->reason == JOB_STOP_RECLAIM && trial->calm) { /* I4, I5 */
        that(view_of(trial, slot).borrowed);
        that(left_to(trial, job->spec.job.tenant.value, view_of(trial, slot).flavor) >=
             trial->nominal_milli[job->spec.job.tenant.value][view_of(trial, slot).flavor]);
    }
    if (command->reason == JOB_STOP_PREEMPT)
        that(higher_waits(trial, job)); /* I7 */
}

static void heard(struct trial *trial, const struct fleet_command *command)
{
    uint32_t i = 0;

    switch ((enum fleet_command_kind)command->kind) {
    case FLEET_COMMAND_JOB_REFUSE:
        job_of(trial, (job_id){command->refuse.request_or_job})->used = false;
        return;
    case FLEET_COMMAND_BASE_DROP: {
        struct known_holding *holding = holding_of(trial, command->base_drop.node.value, command->base_drop.gpu_mask,
                                                   command->base_drop.base.value);

        that(holding != NULL);
        holding->used = false;
        return;
    }
    case FLEET_COMMAND_BASE_LOAD:
        that(holding_of(trial, command->base_load.node.value, command->base_load.gpu_mask, command->base_load.base.value) == NULL);
        while (trial->holdings[i].used)
            i++;
        trial->holdings[i] = (struct known_holding){.used = true, .load = *command};
        break;
    case FLEET_COMMAND_JOB_PLACE:
        heard_place(trial, command);
        break;
    case FLEET_COMMAND_JOB_STOP:
        heard_stop(trial, command);
        break;
    default:
        that(false && "not a command of jobs");
    }
    that(trial->asked_count < ASKED);
    trial->asked[trial->asked_count++] = *command;
}

/* ---- a core that was restored ---- */

static void compare(struct trial *trial, const struct fleet_event *event, const struct fleet_commands *out)
{
    struct fleet_commands other;
    char text[160];

    fleet_step(trial->second.fleet, event, &other);
    fleet_check(trial->second.fleet);
    /* Which searches, for victims or for a window, were in vain is not restored, so that another's may come first: the ways part. */
    trial->alike = !trial->plans || (other.count == out->count && memcmp(other.items, out->items, out->count * sizeof(out->items[0])) == 0 &&
                                     !restored_differs(trial->fleet, trial->second.fleet, text, sizeof(text)));
    if (!trial->alike)
        return;
    that(other.count == out->count);
    that(memcmp(other.items, out->items, out->count * sizeof(out->items[0])) == 0);
    check_that(trial, !restored_differs(trial->fleet, trial->second.fleet, text, sizeof(text)), text, __LINE__);
    trial->compared++;
}

static void restore(struct trial *trial)
{
    char text[160];

    if (trial->second.memory != NULL)
        restored_close(&trial->second);
    restored_open(&trial->second, trial->fleet, &trial->config);
    trial->restored++;
    trial->alike = trial->second.exported.plans == 0;
    trial->alike = trial->alike && (!trial->plans || restored_plans(trial->second.fleet) == 0);
    if (!trial->alike)
        return;
    that(trial->second.said.count == 0);
    check_that(trial, !restored_differs(trial->fleet, trial->second.fleet, text, sizeof(text)), text, __LINE__);
}

static void step_once(struct trial *trial, struct fleet_event *event)
{
    struct fleet_commands out;

    event->at_ns = trial->at_ns;
    event->seq = ++trial->seq;
    fleet_step(trial->fleet, event, &out);
    if (trial->events != NULL) {
        trial->events[trial->events_count] = *event;
        trial->digests[trial->events_count++] = fleet_digest(trial->fleet);
    }
    for (uint32_t i = 0; i < out.count; i++)
        if (out.items[i].kind == FLEET_COMMAND_JOB_STOP)
            trial->jobs[job_slot(out.items[i].job_stop.job)].stop_reason = out.items[i].reason;
    for (uint32_t i = 0; i < out.count; i++)
        heard(trial, &out.items[i]);
    fleet_check(trial->fleet);
    if (trial->alike)
        compare(trial, event, &out);
}

static void step(struct trial *trial, struct fleet_event *event)
{
    uint32_t ticks = 0;

    step_once(trial, event);
    while (fleet_wakeup_at_ns(trial->fleet) <= trial->at_ns) {
        struct fleet_event tick;

        that(++ticks < 50); /* it comes to an end */
        memset(&tick, 0, sizeof(tick));
        tick.kind = FLEET_EVENT_TICK;
        step_once(trial, &tick);
    }
    check_bytes(trial);
    check_limits(trial);
    check_work_conserving(trial);
}

static struct fleet_event event_of(enum fleet_event_kind kind)
{
    struct fleet_event event;

    memset(&event, 0, sizeof(event));
    event.kind = (uint16_t)kind;
    return event;
}

/* ---- what may happen ---- */

static void forget_asked(struct trial *trial, uint32_t i)
{
    trial->asked[i] = trial->asked[--trial->asked_count];
}

static void forget_asked_of(struct trial *trial, job_id id)
{
    for (uint32_t i = 0; i < trial->asked_count;) {
        const struct fleet_command *command = &trial->asked[i];

        if ((command->kind == FLEET_COMMAND_JOB_PLACE && command->job_place.job.value == id.value) ||
            (command->kind == FLEET_COMMAND_JOB_STOP && command->job_stop.job.value == id.value))
            forget_asked(trial, i);
        else
            i++;
    }
}

static void submit(struct trial *trial)
{
    struct fleet_event event = event_of(FLEET_EVENT_JOB);
    uint32_t slot = 0;

    while (slot < JOBS && trial->jobs[slot].used)
        slot++;
    if (slot == JOBS)
        return;
    event.job.job = job_id_make(++trial->ordinal, slot);
    event.job.size_ns = (int64_t)(1 + below(trial, 3000)) * NS_PER_S;
    event.job.deadline_at_ns = NEVER_NS;
    event.job.runtime_min_ns = below(trial, 2) == 0 ? 0 : (int64_t)below(trial, 600) * NS_PER_S;
    event.job.bytes = (1 + below(trial, 3) * 10) * GB;
    event.job.tenant.value = (uint32_t)below(trial, TENANTS);
    event.job.base.value = (uint16_t)below(trial, BASES);
    event.job.gpus = (uint16_t)(base_gpus(event.job.base.value) == 1 ? 1 : 2);
    event.job.priority = (int16_t)(below(trial, 4) == 0 ? 5 : below(trial, 2));
    event.job.flags = (uint16_t)(below(trial, 4) == 0 ? 0 : JOB_PREEMPTIBLE);
    event.job.flags |= (uint16_t)(below(trial, 2) == 0 ? JOB_SPOT_OK : 0);
    event.job.isolation = (uint8_t)(below(trial, 2) == 0 ? ISOLATION_EXCLUSIVE : below(trial, ISOLATION_COUNT));
    if (event.job.gpus == 1 && below(trial, 10) == 0)
        event.job.gpus = 4, event.job.isolation = ISOLATION_EXCLUSIVE;
    event.job.stage = (uint8_t)below(trial, STAGE_COUNT);
    trial->jobs[slot] = (struct known_job){.used = true, .spec = event};
    step(trial, &event);
}

static void cancel(struct trial *trial)
{
    uint32_t slot = (uint32_t)below(trial, JOBS);
    struct fleet_event event = event_of(FLEET_EVENT_JOB_CANCEL);

    if (!trial->jobs[slot].used || (trial->calm && view_of(trial, slot).state != JOB_PENDING))
        return;
    event.job_progress.job = trial->jobs[slot].spec.job.job;
    step(trial, &event);
    if (view_of(trial, slot).state == JOB_FREE)
        trial->jobs[slot].used = false;
}

static void ended(struct trial *trial, uint32_t slot, enum job_end_reason reason)
{
    struct known_job *job = &trial->jobs[slot];
    struct fleet_event event = event_of(FLEET_EVENT_JOB_ENDED);

    event.reason = (uint16_t)reason;
    event.job_progress.job = job->spec.job.job;
    event.job_progress.done_ns = reason == JOB_SUCCEEDED ? job->spec.job.size_ns : job->done_ns;
    forget_asked_of(trial, job->spec.job.job);
    job->placed = job->started = job->stopping = false;
    if (reason != JOB_LOST)
        job->used = false; /* before the step: nothing may be said of it any more */
    step(trial, &event);
    if (reason == JOB_LOST && view_of(trial, slot).state == JOB_FREE)
        job->used = false; /* it had been cancelled */
}

static void an_end(struct trial *trial)
{
    uint32_t slot = (uint32_t)below(trial, JOBS);
    uint64_t dice = below(trial, 10);

    for (uint32_t i = 0; i < JOBS && !(trial->jobs[slot].used && trial->jobs[slot].placed); i++)
        slot = (slot + 1) % JOBS;
    if (trial->jobs[slot].used && trial->jobs[slot].placed)
        ended(trial, slot, dice == 0 ? JOB_FAILED : dice == 1 ? JOB_LOST : JOB_SUCCEEDED);
}

static void a_checkpoint(struct trial *trial)
{
    uint32_t slot = (uint32_t)below(trial, JOBS);
    struct known_job *job = &trial->jobs[slot];
    struct fleet_event event = event_of(FLEET_EVENT_JOB_CHECKPOINTED);

    if (!job->used || !job->started)
        return;
    job->done_ns += (int64_t)below(trial, (uint64_t)(job->spec.job.size_ns - job->done_ns) + 1);
    event.job_progress.job = job->spec.job.job;
    event.job_progress.done_ns = job->done_ns;
    step(trial, &event);
}

static void loaded(struct trial *trial, const struct fleet_command *command, bool fails)
{
    struct known_holding *holding = holding_of(trial, command->base_load.node.value, command->base_load.gpu_mask,
                                               command->base_load.base.value);
    struct fleet_event event = event_of(FLEET_EVENT_BASE_LOADED);

    uint16_t base = command->base_load.base.value;

    that(holding != NULL && !holding->ready);
    /* Ten seconds, and twice as long each time, six times; what goes with its GPUs does not count. */
    if (!fails) {
        trial->failures[base] = 0;
        trial->retry_at_ns[base] = 0;
    } else if ((command->base_load.gpu_mask & trial->nodes[command->base_load.node.value].noticed) == 0) {
        trial->retry_at_ns[base] = trial->at_ns + (10 * NS_PER_S << (trial->failures[base] < 6 ? trial->failures[base] : 6));
        trial->failures[base]++;
    }
    holding->ready = !fails; /* a failure is followed by BASE_DROP */
    event.answers = command->id;
    event.reason = fails;
    event.base_loaded.node = command->base_load.node;
    event.base_loaded.gpu_mask = command->base_load.gpu_mask;
    event.base_loaded.base = command->base_load.base;
    step(trial, &event);
}

static void answer(struct trial *trial, bool fails)
{
    uint32_t i;
    struct fleet_command command;
    struct known_job *job;
    struct fleet_event event;

    if (trial->asked_count == 0)
        return;
    i = (uint32_t)below(trial, trial->asked_count);
    command = trial->asked[i];
    if (command.kind == FLEET_COMMAND_BASE_LOAD) {
        forget_asked(trial, i);
        loaded(trial, &command, fails);
        return;
    }
    job = job_of(trial, command.kind == FLEET_COMMAND_JOB_PLACE ? command.job_place.job : command.job_stop.job);
    if (command.kind == FLEET_COMMAND_JOB_PLACE) {
        forget_asked(trial, i);
        job->started = true;
        job->started_at_ns = trial->at_ns;
        event = event_of(FLEET_EVENT_JOB_STARTED);
    } else {
        if (!job->started)
            return; /* it has not begun: not yet */
        forget_asked(trial, i);
        job->placed = job->started = job->stopping = false;
        job->done_ns += (int64_t)below(trial, (uint64_t)(job->spec.job.size_ns - job->done_ns) + 1);
        event = event_of(FLEET_EVENT_JOB_YIELDED);
        event.job_progress.done_ns = job->done_ns;
    }
    event.answers = command.id;
    event.job_progress.job = job->spec.job.job;
    step(trial, &event);
    if (command.kind == FLEET_COMMAND_JOB_STOP && view_of(trial, job_slot(job->spec.job.job)).state == JOB_FREE)
        job->used = false;
}

static struct fleet_event gpus_event(enum fleet_event_kind kind, uint32_t node, uint16_t mask)
{
    struct fleet_event event = event_of(kind);

    event.gpus.node.value = (uint16_t)node;
    event.gpus.gpu_mask = mask;
    event.gpus.bytes = 80 * GB;
    event.gpus.price_nano_per_hour = 2500000000;
    event.gpus.flavor = flavor_of_node(node);
    event.gpus.model = GPU_H100_80;
    return event;
}

static void up(struct trial *trial, uint32_t node)
{
    struct fleet_event event = gpus_event(FLEET_EVENT_GPUS_UP, node, node == 1 ? 0x3 : 0xf);

    if (trial->nodes[node].up != 0)
        return;
    trial->nodes[node].up = event.gpus.gpu_mask;
    trial->nodes[node].noticed = 0;
    step(trial, &event);
}

static void gone(struct trial *trial, uint32_t node)
{
    struct fleet_event event = gpus_event(FLEET_EVENT_GPUS_GONE, node, trial->nodes[node].up);

    for (uint32_t i = 0; i < JOBS; i++)
        if (trial->jobs[i].used && trial->jobs[i].placed && trial->jobs[i].place.job_place.node.value == node)
            ended(trial, i, JOB_LOST);
    for (uint32_t i = 0; i < trial->asked_count;) {
        struct fleet_command command = trial->asked[i];

        if (command.kind == FLEET_COMMAND_BASE_LOAD && command.base_load.node.value == node) {
            forget_asked(trial, i);
            loaded(trial, &command, true);
            i = 0;
        } else {
            i++;
        }
    }
    for (uint32_t i = 0; i < ARRAY_COUNT(trial->holdings); i++)
        if (trial->holdings[i].load.base_load.node.value == node)
            trial->holdings[i].used = false;
    trial->nodes[node].up = trial->nodes[node].noticed = 0;
    step(trial, &event);
}

/* Up; or a notice; or, with or without one, gone. */
static void a_node(struct trial *trial)
{
    uint32_t node = (uint32_t)below(trial, NODES);
    struct known_node *known = &trial->nodes[node];

    if (known->up == 0) {
        up(trial, node);
    } else if (known->noticed == 0) {
        struct fleet_event event = gpus_event(FLEET_EVENT_GPUS_NOTICE, node, known->up);

        event.gpus.gone_at_ns = trial->at_ns + 2 * MINUTE;
        known->noticed = known->up;
        step(trial, &event);
    } else {
        gone(trial, node);
    }
}

static void a_limit(struct trial *trial, uint32_t tenant, uint16_t flavor)
{
    struct fleet_event event = event_of(FLEET_EVENT_TENANT);

    event.tenant.tenant = tenant;
    event.tenant.cohort = tenant == 2 ? 2 : 1;
    event.tenant.flavor = flavor;
    event.tenant.weight_milli = 1000 * (1 + tenant);
    event.tenant.nominal_milli = (int64_t)below(trial, flavor == 0 ? 4 : 3) * 1000;
    if (tenant == 0 && flavor == 0) /* something can always run */
        event.tenant.nominal_milli += 1000;
    event.tenant.borrowing_milli = below(trial, 4) == 0 ? 1000 : 4000;
    event.tenant.lending_milli = below(trial, 4) == 0 ? 1000 : QUOTA_UNLIMITED;
    event.tenant.flags = tenant == 2 ? 0 : TENANT_TRUSTED;
    trial->nominal_milli[tenant][flavor] = event.tenant.nominal_milli;
    trial->borrowing_milli[tenant][flavor] = event.tenant.borrowing_milli;
    step(trial, &event);
}

static void time_passes(struct trial *trial)
{
    struct fleet_event tick = event_of(FLEET_EVENT_TICK);
    int64_t to_ns = trial->at_ns + (int64_t)below(trial, 120) * NS_PER_S;

    /* The host's clock stops at every instant that was asked for. */
    while (fleet_wakeup_at_ns(trial->fleet) <= to_ns) {
        trial->at_ns = max_i64(trial->at_ns, fleet_wakeup_at_ns(trial->fleet));
        tick = event_of(FLEET_EVENT_TICK);
        step(trial, &tick);
    }
    trial->at_ns = to_ns;
    step(trial, &tick);
}

static void something(struct trial *trial)
{
    uint64_t dice = below(trial, 1000);

    trial->step++;
    if (dice < 250)
        submit(trial);
    else if (dice < 600)
        answer(trial, !trial->calm && below(trial, 20) == 0);
    else if (dice < 780)
        an_end(trial);
    else if (dice < 820)
        a_checkpoint(trial);
    else if (dice < 950)
        time_passes(trial);
    else if (dice < 970)
        cancel(trial);
    else if (dice < 990 && !trial->calm)
        a_node(trial);
    else if (!trial->calm)
        a_limit(trial, (uint32_t)below(trial, TENANTS), (uint16_t)below(trial, FLAVORS));
}

/* ---- the trial ---- */

static void open_trial(struct trial *trial, uint64_t seed, const struct order_policy *order, const struct place_policy *place, bool calm,
                       bool plans)
{
    size_t bytes;

    memset(trial, 0, sizeof(*trial));
    trial->seed = trial->random = seed;
    trial->calm = calm;
    trial->plans = plans;
    trial->config = (struct fleet_config){
        .salt = 1, .replicas_max = 1, .nodes_max = NODES, .bases_max = BASES, .adapters_max = 1, .requests_max = 1,
        .route = &route_round_robin, .bound_milli = 1250, .bound_add = 4, .hot_share_milli = 500, .cool_milli = 750,
        .rate_half_life_ns = MINUTE,
        .jobs = {.jobs_max = JOBS, .tenants_max = TENANTS, .cohorts_max = 3, .bases_max = BASES, .nodes_max = NODES,
                 .holdings_max = 64, .flavors_max = FLAVORS, .spot_flavors = 2, .sharers_max = 2,
                 .eta_milli = {0, 1000, 1150, 1, 1, 1, 1, 1, 1},
                 .order = order, .place = place, .half_life_ns = 600 * MINUTE, .usage_factor_milli = 300,
                 .payback_milli = 1000, .preempt_delay_ns = (int64_t)(seed % 2) * 30 * NS_PER_S, .victims_max = plans ? 8 : 0,
                 .reservations_max = plans ? (uint32_t)(seed / 2 % 3) : 0}};
    bytes = fleet_bytes(&trial->config);
    trial->memory = aligned_alloc(16, (bytes + 15) & ~(size_t)15);
    assert_non_null(trial->memory);
    trial->fleet = fleet_create(trial->memory, bytes, &trial->config);
}

static void begin(struct trial *trial)
{
    for (uint32_t cohort = 0; cohort < 3; cohort++) {
        struct fleet_event event = event_of(FLEET_EVENT_COHORT);

        event.cohort.tenant = cohort;
        event.cohort.cohort = cohort == 0 ? NO_COHORT : 0;
        event.cohort.weight_milli = 1000;
        event.cohort.borrowing_milli = event.cohort.lending_milli = QUOTA_UNLIMITED;
        step(trial, &event);
    }
    for (uint32_t i = 0; i < TENANTS * FLAVORS; i++)
        a_limit(trial, i / FLAVORS, (uint16_t)(i % FLAVORS));
    for (uint16_t base = 0; base < BASES; base++) {
        struct fleet_event event = event_of(FLEET_EVENT_BASE_KNOWN);

        event.base_known.base.value = base;
        event.base_known.bytes = base_bytes(base);
        event.base_known.gpus = base_gpus(base);
        event.base_known.load_ns = 20 * NS_PER_S;
        step(trial, &event);
    }
    for (uint32_t node = 0; node < NODES; node++)
        up(trial, node);
}

/* The bill is split to the last unit, whatever has happened. */
static void check_bill(struct trial *trial)
{
    const struct ledger *ledger = jobs_settle(fleet_jobs(trial->fleet), trial->at_ns);
    int64_t sum = 0;

    for (uint32_t account = 0; account <= TENANTS; account++)
        sum += ledger_account_total(ledger, account);
    that(sum == ledger_bill(ledger));
}

static void close_trial(struct trial *trial)
{
    free(trial->memory);
}

static uint64_t run_trial(uint64_t seed, const struct order_policy *order, const struct place_policy *place, bool calm, uint32_t events)
{
    static struct trial room;
    struct trial *trial = &room;
    struct jobs_totals totals;
    uint64_t digest;

    open_trial(trial, seed, order, place, calm, true);
    begin(trial);
    for (uint32_t i = 0; i < events; i++)
        something(trial);
    check_bill(trial);
    totals = jobs_totals(fleet_jobs(trial->fleet));
    that(trial->placed > events / 200);
    if (calm)
        that(totals.claims_failed == 0); /* I10: nobody is stopped for nothing */
    if (getenv("BERTH_TEST_VERBOSE") != NULL)
        printf("seed %llu %s %s calm %d: submitted %llu refused %llu succeeded %llu placed %llu reclaims %llu preempts %llu "
               "failed claims %llu loads %llu drops %llu\n",
               (unsigned long long)seed, order->name, place->name, calm, (unsigned long long)totals.submitted,
               (unsigned long long)totals.refused, (unsigned long long)totals.succeeded, (unsigned long long)trial->placed,
               (unsigned long long)totals.reclaims, (unsigned long long)totals.preempts, (unsigned long long)totals.claims_failed,
               (unsigned long long)totals.base_loads, (unsigned long long)totals.base_drops);
    digest = fleet_digest(trial->fleet);
    close_trial(trial);
    return digest;
}

/* Restored at any moment, with everything that may be under way; and where nothing was that is not restored, the same from there on. */
static void a_core_that_was_restored_goes_on(bool plans)
{
    static struct trial room;
    struct trial *trial = &room;
    uint64_t compared = 0;

    for (uint64_t seed = test_seed(300), last = seed + TRIALS * 4; seed < last; seed++) {
        open_trial(trial, seed, seed % 2 == 0 ? &order_wfq : &order_srpt, &place_residency, seed % 4 < 2, plans);
        begin(trial);
        for (uint32_t i = 0; i < 2000; i++) {
            if (below(trial, 20) == 0)
                restore(trial);
            something(trial);
        }
        if (getenv("BERTH_TEST_VERBOSE") != NULL)
            printf("seed %llu: restored %llu, %llu events alike\n", (unsigned long long)seed, (unsigned long long)trial->restored,
                   (unsigned long long)trial->compared);
        that(trial->restored > 50);
        compared += trial->compared;
        restored_close(&trial->second);
        close_trial(trial);
    }
    that(compared > (plans ? 100 : 1000) * TRIALS * 4);
}

static void a_core_that_was_restored_goes_on_alike(void **state)
{
    (void)state;
    a_core_that_was_restored_goes_on(false);
}

static void so_it_does_where_jobs_are_stopped_for_others(void **state)
{
    (void)state;
    a_core_that_was_restored_goes_on(true);
}

static uint32_t events_wanted(void)
{
    const char *text = getenv("BERTH_TEST_EVENTS");

    return text != NULL ? (uint32_t)strtoul(text, NULL, 10) : EVENTS;
}

static void every_promise_holds_under(const struct order_policy *order, const struct place_policy *place)
{
    uint64_t seed = test_seed(1);

    for (uint32_t i = 0; i < TRIALS; i++) {
        run_trial(seed + i, order, place, true, events_wanted());
        run_trial(seed + 100 + i, order, place, false, events_wanted());
    }
}

#define PROMISES(order, place)                                                    \
    static void every_promise_holds_under_##order##_##place(void **state)         \
    {                                                                             \
        (void)state;                                                              \
        every_promise_holds_under(&order_##order, &place_##place);                \
    }
PROMISES(fifo, residency)
PROMISES(fifo, naive)
PROMISES(srpt, residency)
PROMISES(srpt, naive)
PROMISES(wfq, residency)
PROMISES(wfq, naive)

static void equal_histories_give_equal_digests(void **state)
{
    (void)state;
    assert_int_equal(run_trial(7, &order_wfq, &place_residency, false, 1000), run_trial(7, &order_wfq, &place_residency, false, 1000));
    assert_int_not_equal(run_trial(7, &order_wfq, &place_residency, false, 1000), run_trial(8, &order_wfq, &place_residency, false, 1000));
}

/* What was recorded, replayed on a fleet made from the packed configuration: the same digest after every event. */
static void a_journal_replays_to_the_same_digests(void **state)
{
    (void)state;
    static struct trial room;
    struct trial *trial = &room;
    uint64_t words[JOURNAL_WORDS_MAX] = {0};
    struct journal_words packed = {words, 0};
    struct journal_words unpacked = {words, 0};
    struct fleet_config config;
    struct fleet_commands out;
    struct fleet *again;
    void *memory;

    open_trial(trial, 11, &order_srpt, &place_residency, false, true);
    trial->events = calloc(100000, sizeof(trial->events[0]));
    trial->digests = calloc(100000, sizeof(trial->digests[0]));
    assert_true(trial->events != NULL && trial->digests != NULL);
    begin(trial);
    for (uint32_t i = 0; i < 1500; i++)
        something(trial);
    fleet_config_pack(&packed, &trial->config);
    assert_int_equal(fleet_config_unpack(&unpacked, &config), STATUS_OK);
    memory = aligned_alloc(16, (fleet_bytes(&config) + 15) & ~(size_t)15);
    assert_non_null(memory);
    again = fleet_create(memory, fleet_bytes(&config), &config);
    for (uint32_t i = 0; i < trial->events_count; i++) {
        fleet_step(again, &trial->events[i], &out);
        assert_int_equal(fleet_digest(again), trial->digests[i]);
    }
    free(memory);
    free(trial->events);
    free(trial->digests);
    close_trial(trial);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_promise_holds_under_fifo_residency),
        cmocka_unit_test(every_promise_holds_under_fifo_naive),
        cmocka_unit_test(every_promise_holds_under_srpt_residency),
        cmocka_unit_test(every_promise_holds_under_srpt_naive),
        cmocka_unit_test(every_promise_holds_under_wfq_residency),
        cmocka_unit_test(every_promise_holds_under_wfq_naive),
        cmocka_unit_test(equal_histories_give_equal_digests),
        cmocka_unit_test(a_core_that_was_restored_goes_on_alike),
        cmocka_unit_test(so_it_does_where_jobs_are_stopped_for_others),
        cmocka_unit_test(a_journal_replays_to_the_same_digests),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
