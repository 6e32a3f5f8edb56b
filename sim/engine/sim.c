/* The simulator's loop: take the earliest entry of the queue, tell whom it concerns, until nothing is left to happen. */
#include "engine/sim.h"

#include <string.h>
#include <time.h>

#include "base/hash.h"
#include "engine/internal.h"
#include "engine/jobs.h"

/* How many events pass between two looks at the real clock and at Ctrl-C. */
#define EVENTS_BETWEEN_LOOKS 8192

void sim_push(struct sim *sim, int64_t at_ns, enum queue_class class, enum actor_kind kind, uint32_t index, uint32_t payload,
              uint64_t ordinal)
{
    check(at_ns >= sim->now_ns);
    queue_push(&sim->queue, (struct queue_entry){at_ns, queue_order(class, actor_make(kind, index)), payload, ordinal});
}

static double wall_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* One that wraps leaves its first half behind each time it is written anew: no wider than the narrowest usual terminal. */
#define PROGRESS_COLUMNS 79
#define PROGRESS_BAR "####################"

static void show_progress(const struct sim *sim, double elapsed_s)
{
    double now_s = (double)sim->now_ns * 1e-9;
    double share = now_s / sim->scenario->duration_s;
    int width = (int)((share < 1 ? share : 1) * (double)strlen(PROGRESS_BAR));
    char line[256];

    snprintf(line, sizeof(line), "%-14.14s [%-20.*s] %3.0f%%  %.0f of %.0f s, %.0f x real time", sim->scenario->variant, width,
             PROGRESS_BAR, share < 1 ? share * 100 : 100, now_s, sim->scenario->duration_s,
             elapsed_s > 0 ? now_s / elapsed_s : 0);
    fprintf(sim->options->progress, "\r%-*.*s", PROGRESS_COLUMNS, PROGRESS_COLUMNS, line);
    fflush(sim->options->progress);
}

/* A core asked to be woken. An alarm that it no longer wants is dropped unseen. */
static void tick(struct sim *sim, enum actor_kind kind, uint32_t index)
{
    if (kind == ACTOR_REPLICA_TICK && sim->replicas[index].tick_at_ns == sim->now_ns) {
        struct replica_event event = {.at_ns = sim->now_ns, .kind = REPLICA_EVENT_TICK};

        sim->replicas[index].tick_at_ns = NEVER_NS;
        replica_deliver(&sim->replicas[index], &event);
    } else if (kind == ACTOR_NODE_TICK && sim->nodes[index].tick_at_ns == sim->now_ns) {
        struct node_event event = {.at_ns = sim->now_ns, .kind = NODE_EVENT_TICK};

        sim->nodes[index].tick_at_ns = NEVER_NS;
        node_deliver(&sim->nodes[index], &event);
    } else if (kind == ACTOR_FLEET_TICK && sim->fleet_tick_at_ns == sim->now_ns) {
        struct fleet_event event = {.kind = FLEET_EVENT_TICK};

        sim->fleet_tick_at_ns = NEVER_NS;
        if (sim->jobs != NULL)
            jobs_deliver(sim, &event);
        else
            fleet_deliver(sim, &event);
    }
}

static void happen(struct sim *sim, const struct queue_entry *entry)
{
    uint32_t actor = queue_actor_of(entry);
    enum actor_kind kind = (enum actor_kind)(actor >> ACTOR_INDEX_BITS);
    uint32_t index = actor & ((1u << ACTOR_INDEX_BITS) - 1);

    switch (kind) {
    case ACTOR_STEP:
        run_ended(&sim->replicas[index], entry->payload);
        break;
    case ACTOR_COPY:
        replica_copy_ended(&sim->replicas[index], entry->payload);
        break;
    case ACTOR_STORE:
        node_store_ended(&sim->nodes[index], entry->payload);
        break;
    case ACTOR_FETCH:
        node_fetch_due(sim, entry->payload, entry->ordinal);
        break;
    case ACTOR_LOAD:
        replica_load_due(sim, entry->payload, entry->ordinal);
        break;
    case ACTOR_TIMEOUT:
        request_timeout(sim, entry->payload, entry->ordinal);
        break;
    case ACTOR_REPORT:
        fleet_reports(sim);
        sim_push(sim, sim->now_ns + sim->report_every_ns, CLASS_REPORT, ACTOR_REPORT, 0, 0, 0);
        break;
    case ACTOR_SAMPLE:
        sim_sample(sim);
        jobs_sample(sim);
        sim_push(sim, sim->now_ns + sim->sample_every_ns, CLASS_REPORT, ACTOR_SAMPLE, 0, 0, 0);
        break;
    case ACTOR_ARRIVAL:
        if (entry->payload == sim->arrival_generation)
            request_arrive(sim);
        break;
    case ACTOR_REPLICA_TICK:
    case ACTOR_NODE_TICK:
    case ACTOR_FLEET_TICK:
        tick(sim, kind, index);
        break;
    case ACTOR_JOB:
        jobs_due(sim, index, entry->payload);
        break;
    case ACTOR_BASE:
        base_due(sim, index, entry->ordinal);
        break;
    case ACTOR_BASE_DISK:
    case ACTOR_BASE_STORE:
        base_link_ended(sim, index, kind == ACTOR_BASE_STORE, entry->payload);
        break;
    case ACTOR_FAULT:
        fault_due(sim, index, entry->payload);
        break;
    case ACTOR_SPOT:
        spot_due(sim, index);
        break;
    case ACTOR_JOB_ARRIVAL:
        jobs_arrive(sim);
        break;
    case ACTOR_REPLICA:
        replica_due(sim, index, entry->ordinal);
        break;
    case ACTOR_UPGRADE:
        upgrade_due(sim, index);
        break;
    }
}

/* What is still in flight when time is up leaves a row that says so. */
static void end_unfinished(struct sim *sim)
{
    for (uint32_t slot = 0; slot < sim->requests_max && sim->in_system > 0; slot++)
        if (sim->requests[slot].phase != PHASE_FREE)
            request_leave(sim, slot, REQUEST_UNFINISHED, 0, TIER_BASE, 0);
}

static bool look_around(struct sim *sim, double began_s, double *shown_s)
{
    double now_s;

    if (sim->options->stop != NULL && *sim->options->stop) {
        sim->facts.partial = true;
        return false;
    }
    if (sim->options->progress == NULL)
        return true;
    now_s = wall_s();
    if (now_s - *shown_s >= 0.2) {
        *shown_s = now_s;
        show_progress(sim, now_s - began_s);
    }
    return true;
}

static void loop(struct sim *sim, double began_s)
{
    double shown_s = began_s;

    if (sim->replicas_count > 0)
        sim_push(sim, sim->report_every_ns, CLASS_REPORT, ACTOR_REPORT, 0, 0, 0);
    sim_push(sim, sim->sample_every_ns, CLASS_REPORT, ACTOR_SAMPLE, 0, 0, 0);
    sim->arrival_at_ns = NEVER_NS;
    arrival_arm(sim);
    if (sim->jobs != NULL)
        jobs_arm_arrival(sim);
    while (!sim->failed && (sim->in_system > 0 || sim->arrival_at_ns != NEVER_NS || jobs_pending(sim))) {
        struct queue_entry entry = queue_pop(&sim->queue);

        check(entry.at_ns >= sim->now_ns);
        if (entry.at_ns > sim->give_up_ns) {
            sim->now_ns = sim->give_up_ns;
            break;
        }
        sim->now_ns = entry.at_ns;
        sim->facts.events++;
        happen(sim, &entry);
        if (sim->facts.events % EVENTS_BETWEEN_LOOKS == 0 && !look_around(sim, began_s, &shown_s))
            break;
    }
    if (sim->options->progress != NULL)
        fprintf(sim->options->progress, "\r%*s\r", PROGRESS_COLUMNS, "");
    /* What folded runs have done by now counts, as it does with single steps. */
    for (uint32_t i = 0; i < sim->replicas_count; i++)
        run_settle(&sim->replicas[i]);
}

static uint64_t digest_of(const struct sim *sim)
{
    uint64_t digest = fleet_digest(sim->fleet);

    for (uint32_t i = 0; i < sim->replicas_count; i++)
        digest = hash_fold(digest, replica_digest(sim->replicas[i].core));
    for (uint32_t i = 0; i < sim->nodes_count; i++)
        digest = hash_fold(digest, node_digest(sim->nodes[i].core));
    return digest;
}

static void gather_facts(struct sim *sim, double began_s)
{
    const struct keys_workload *workload = &sim->scenario->workload;
    struct run_facts *facts = &sim->facts;
    bool source_ends = !facts->partial && (workload->source == KEY_SOURCE_TRACE || workload->requests_max > 0);

    facts->digest = digest_of(sim);
    end_unfinished(sim);
    replicas_finish(sim, source_ends ? sim->last_arrival_ns : sim->arrivals_end_ns);
    serving_books_close(sim);
    jobs_finish(sim);
    /* The measured window ends where arrivals do: at duration_s, or earlier where the source had no more. */
    facts->arrivals_end_ns = sim->arrivals_end_ns;
    if (facts->partial)
        facts->arrivals_end_ns = min_i64(facts->arrivals_end_ns, sim->now_ns);
    else if (source_ends)
        facts->arrivals_end_ns = min_i64(facts->arrivals_end_ns, sim->last_arrival_ns);
    facts->warmup_until_ns = min_i64(facts->warmup_until_ns, max_i64(facts->arrivals_end_ns, sim->now_ns));
    facts->end_ns = sim->now_ns;
    for (uint32_t i = 0; i < sim->replicas_count; i++) {
        const struct sim_replica *replica = &sim->replicas[i];

        replica_check(replica->core);
        facts->runs += replica->runs;
        facts->engine_steps += replica->engine_steps;
        facts->busy_ns += (double)(source_ends ? replica->busy_at_last_arrival_ns : run_measured_busy_ns(replica));
    }
    for (uint32_t i = 0; i < sim->nodes_count; i++)
        node_check(sim->nodes[i].core);
    fleet_check(sim->fleet);
    facts->wall_s = wall_s() - began_s;
    facts->notes = source_notes(sim->source);
}

enum status sim_run(const struct scenario *scenario, struct results_file *file, const struct sim_options *options,
                    FILE *errors, struct summary *ret_summary)
{
    struct sim sim = {.scenario = scenario, .options = options, .errors = errors};
    double began_s = wall_s();
    enum status status = sim_setup(&sim);

    if (status == STATUS_OK)
        status = results_open(file, scenario, sim.replicas_count, sim.tenants_max, &sim.results);
    if (status == STATUS_OK) {
        loop(&sim, began_s);
        if (sim.failed) {
            bool jobs_failed = sim.jobs != NULL && job_source_message(sim.jobs->source)[0] != 0;

            fprintf(errors, "berth-sim: %s\n",
                    jobs_failed ? job_source_message(sim.jobs->source) : source_message(sim.source));
            status = STATUS_CORRUPT;
            sim.facts.partial = true;
        }
        gather_facts(&sim, began_s);
        if (results_close(sim.results, &sim.facts, ret_summary, errors) != STATUS_OK && status == STATUS_OK)
            status = STATUS_IO;
    }
    if (sim.journal_failed)
        status = STATUS_IO;
    if (sim_teardown(&sim) != STATUS_OK && status == STATUS_OK)
        status = STATUS_IO;
    return status;
}
