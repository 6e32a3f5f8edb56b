/* fleet_step: what an event of a job costs on a small fleet. fleet_decide: a job ends and the next one starts, on 10,000 GPUs
 * with 100,000 jobs waiting: how long the fleet takes to say so. */
#include <stdlib.h>

#include "base/hash.h"
#include "bench/bench.h"
#include "fleet/fleet.h"

#define GB UINT64_C(1000000000)

struct world {
    struct fleet_config config;
    struct fleet *fleet;
    struct fleet_commands out;
    int64_t at_ns;
    uint64_t seq;
    uint64_t draws;
    uint64_t ordinal;
    uint32_t tenants;
    uint64_t steps;
    uint32_t *free_slots;
    uint32_t free_count;
    job_id *running;        /* started, in no order */
    uint32_t *running_at;   /* [slot] */
    uint32_t running_count;
    job_id *by_slot;
    int64_t *size_ns;       /* [slot] */
    struct fleet_event *answers; /* a ring of what is to be said next */
    uint32_t answer_first;
    uint32_t answer_count;
};
#define ANSWERS_MAX 65536u

_Noreturn void check_failed(const char *condition, const char *file, int line);

static uint64_t drawn(struct world *world, uint64_t below)
{
    return hash_mix(world->draws++) % below;
}

static void answer(struct world *world, const struct fleet_command *command)
{
    struct fleet_event event;

    memset(&event, 0, sizeof(event));
    event.answers = command->id;
    if (command->kind == FLEET_COMMAND_BASE_LOAD) {
        event.kind = FLEET_EVENT_BASE_LOADED;
        event.base_loaded.node = command->base_load.node;
        event.base_loaded.gpu_mask = command->base_load.gpu_mask;
        event.base_loaded.base = command->base_load.base;
    } else if (command->kind == FLEET_COMMAND_JOB_PLACE) {
        event.kind = FLEET_EVENT_JOB_STARTED;
        event.job_progress.job = command->job_place.job;
    } else if (command->kind == FLEET_COMMAND_JOB_STOP) {
        event.kind = FLEET_EVENT_JOB_YIELDED;
        event.job_progress.job = command->job_stop.job;
    } else {
        return;
    }
    world->answers[(world->answer_first + world->answer_count++) % ANSWERS_MAX] = event;
}

static void forget_running(struct world *world, job_id id)
{
    uint32_t at = world->running_at[job_slot(id)];

    if (at == NONE_INDEX)
        return;
    world->running[at] = world->running[--world->running_count];
    world->running_at[job_slot(world->running[at])] = at;
    world->running_at[job_slot(id)] = NONE_INDEX;
}

static void hear(struct world *world)
{
    for (uint32_t i = 0; i < world->out.count; i++) {
        const struct fleet_command *command = &world->out.items[i];

        answer(world, command);
        if (command->kind == FLEET_COMMAND_JOB_STOP)
            forget_running(world, command->job_stop.job);
        else if (command->kind == FLEET_COMMAND_JOB_REFUSE)
            world->free_slots[world->free_count++] = job_slot((job_id){command->refuse.request_or_job});
    }
}

/* Nanoseconds of the step, and of the ticks that it asks for at once. */
static double step(struct world *world, struct fleet_event *event)
{
    double from_s = bench_cpu_s();
    double ns;

    event->at_ns = world->at_ns;
    event->seq = ++world->seq;
    fleet_step(world->fleet, event, &world->out);
    ns = (bench_cpu_s() - from_s) * 1e9;
    world->steps++;
    hear(world);
    while (fleet_wakeup_at_ns(world->fleet) <= world->at_ns) {
        struct fleet_event tick;

        memset(&tick, 0, sizeof(tick));
        tick.kind = FLEET_EVENT_TICK;
        tick.at_ns = world->at_ns;
        tick.seq = ++world->seq;
        from_s = bench_cpu_s();
        fleet_step(world->fleet, &tick, &world->out);
        ns += (bench_cpu_s() - from_s) * 1e9;
        world->steps++;
        hear(world);
    }
    return ns;
}

/* Nanoseconds of all, and of the dearest one. */
static double answer_all(struct world *world, double *dearest_ns)
{
    double ns = 0;

    *dearest_ns = 0;

    while (world->answer_count > 0) {
        struct fleet_event event = world->answers[world->answer_first];

        world->answer_first = (world->answer_first + 1) % ANSWERS_MAX;
        world->answer_count--;
        if (event.kind == FLEET_EVENT_JOB_STARTED) {
            uint32_t slot = job_slot(event.job_progress.job);

            world->running_at[slot] = world->running_count;
            world->running[world->running_count++] = event.job_progress.job;
        }
        double one_ns = step(world, &event);

        ns += one_ns;
        *dearest_ns = one_ns > *dearest_ns ? one_ns : *dearest_ns;
    }
    return ns;
}

static void open_world(struct world *world, uint32_t nodes, uint32_t jobs, uint32_t tenants, uint64_t nominal_milli)
{
    struct fleet_event event;
    size_t bytes;

    memset(world, 0, sizeof(*world));
    world->tenants = tenants;
    world->config = (struct fleet_config){
        .salt = 1, .replicas_max = 1, .nodes_max = nodes, .bases_max = 4, .adapters_max = 1, .requests_max = 1,
        .route = &route_round_robin, .bound_milli = 1250, .bound_add = 4, .hot_share_milli = 500, .cool_milli = 750,
        .rate_half_life_ns = 60 * NS_PER_S,
        .jobs = {.jobs_max = jobs, .tenants_max = tenants, .cohorts_max = 1, .bases_max = 4, .nodes_max = nodes,
                 .holdings_max = nodes * 32 < 65000 ? nodes * 32 : 65000, .flavors_max = 1, .sharers_max = 2,
                 .eta_milli = {0, 1000, 1150, 1200, 1250, 1250, 1250, 1250, 1250},
                 .order = &order_wfq, .place = &place_residency, .half_life_ns = 86400 * NS_PER_S,
                 .usage_factor_milli = 300, .payback_milli = 1000, .preempt_delay_ns = 30 * NS_PER_S, .victims_max = 16,
                 .reservations_max = 1}};
    bytes = (fleet_bytes(&world->config) + 63) & ~(size_t)63;
    world->fleet = fleet_create(aligned_alloc(64, bytes), bytes, &world->config);
    world->free_slots = malloc(jobs * sizeof(uint32_t));
    world->running = malloc(jobs * sizeof(job_id));
    world->running_at = malloc(jobs * sizeof(uint32_t));
    world->by_slot = malloc(jobs * sizeof(job_id));
    world->size_ns = malloc(jobs * sizeof(int64_t));
    world->answers = malloc(ANSWERS_MAX * sizeof(struct fleet_event));
    for (uint32_t i = 0; i < jobs; i++) {
        world->free_slots[world->free_count++] = jobs - 1 - i;
        world->running_at[i] = NONE_INDEX;
    }
    memset(&event, 0, sizeof(event));
    event.kind = FLEET_EVENT_COHORT;
    event.cohort.cohort = NO_COHORT;
    event.cohort.weight_milli = 1000;
    event.cohort.borrowing_milli = event.cohort.lending_milli = QUOTA_UNLIMITED;
    step(world, &event);
    for (uint32_t tenant = 0; tenant < tenants; tenant++) {
        memset(&event, 0, sizeof(event));
        event.kind = FLEET_EVENT_TENANT;
        event.tenant.tenant = tenant;
        event.tenant.weight_milli = 1000;
        event.tenant.nominal_milli = (int64_t)nominal_milli;
        event.tenant.borrowing_milli = event.tenant.lending_milli = QUOTA_UNLIMITED;
        step(world, &event);
    }
    for (uint16_t base = 0; base < 4; base++) {
        memset(&event, 0, sizeof(event));
        event.kind = FLEET_EVENT_BASE_KNOWN;
        event.base_known.base.value = base;
        event.base_known.bytes = base < 3 ? 16 * GB : 18 * GB;
        event.base_known.gpus = base < 3 ? 1 : 8;
        event.base_known.load_ns = 30 * NS_PER_S;
        step(world, &event);
    }
    for (uint32_t node = 0; node < nodes; node++) {
        memset(&event, 0, sizeof(event));
        event.kind = FLEET_EVENT_GPUS_UP;
        event.gpus.node.value = (uint16_t)node;
        event.gpus.gpu_mask = 0xff;
        event.gpus.bytes = 80 * GB;
        event.gpus.price_nano_per_hour = 2500000000;
        event.gpus.model = GPU_H100_80;
        step(world, &event);
    }
}

/* Four in five are of one GPU, of ranks 8 to 64; the others take a node. */
static double submit(struct world *world)
{
    struct fleet_event event;
    uint32_t slot;

    if (world->free_count == 0)
        return 0;
    slot = world->free_slots[--world->free_count];
    memset(&event, 0, sizeof(event));
    event.kind = FLEET_EVENT_JOB;
    event.job.job = job_id_make(++world->ordinal, slot);
    event.job.tenant.value = (uint32_t)drawn(world, world->tenants);
    event.job.base.value = (uint16_t)(drawn(world, 5) == 0 ? 3 : drawn(world, 3));
    event.job.gpus = event.job.base.value == 3 ? 8 : 1;
    event.job.rank = (uint16_t)(8 << drawn(world, 4));
    event.job.bytes = GB / 16 * event.job.rank;
    event.job.size_ns = (int64_t)(600 + drawn(world, 7200)) * NS_PER_S;
    event.job.deadline_at_ns = NEVER_NS;
    event.job.runtime_min_ns = 600 * NS_PER_S;
    event.job.priority = (int16_t)(drawn(world, 20) == 0);
    event.job.flags = JOB_PREEMPTIBLE;
    world->by_slot[slot] = event.job.job;
    world->size_ns[slot] = event.job.size_ns;
    return step(world, &event);
}

static double end_one(struct world *world)
{
    struct fleet_event event;
    job_id id = world->running[drawn(world, world->running_count)];

    memset(&event, 0, sizeof(event));
    event.kind = FLEET_EVENT_JOB_ENDED;
    event.reason = JOB_SUCCEEDED;
    event.job_progress.job = id;
    event.job_progress.done_ns = world->size_ns[job_slot(id)];
    forget_running(world, id);
    world->free_slots[world->free_count++] = job_slot(id);
    return step(world, &event);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static void print_spread(const char *name, const char *what, double *ns, uint32_t count)
{
    static const struct {
        const char *name;
        double part;
    } points[] = {{"p50", 0.5}, {"p99", 0.99}, {"max", 1}};

    qsort(ns, count, sizeof(ns[0]), by_value);
    for (size_t i = 0; i < ARRAY_COUNT(points); i++)
        printf("{\"name\": \"%s\", \"case\": \"%s, %s\", \"value\": %.0f, \"unit\": \"ns\", \"per\": \"decision\", \"operations\": %u}\n",
               name, what, points[i].name, ns[(uint32_t)((count - 1) * points[i].part)], count);
}

/* Jobs come, start and end; a few wait. */
static void bench_step(void)
{
    struct world world;
    double ns = 0;
    double dearest_ns;
    uint64_t from;

    open_world(&world, 4, 4096, 500, 64);
    for (uint32_t i = 0; i < 200; i++)
        submit(&world);
    answer_all(&world, &dearest_ns);
    from = world.steps;
    for (uint32_t i = 0; i < 50000; i++) {
        world.at_ns += 120 * NS_PER_S;
        if (world.running_count > 0)
            ns += end_one(&world);
        ns += submit(&world);
        ns += answer_all(&world, &dearest_ns);
    }
    bench_print("fleet_step", "32 GPUs, 500 tenants, 180 pending", ns * 1e-9, world.steps - from);
}

static void bench_decide(void)
{
    static double decide_ns[4000];
    static double submit_ns[4000];
    static double answer_ns[4000];
    struct world world;
    double dearest_ns;

    open_world(&world, 1250, 131072, 500, 20000);
    while (world.ordinal < 110000) {
        submit(&world);
        if (world.ordinal % 1000 == 0)
            answer_all(&world, &dearest_ns);
    }
    answer_all(&world, &dearest_ns);
    for (uint32_t i = 0; i < ARRAY_COUNT(decide_ns); i++) {
        world.at_ns += NS_PER_S;
        decide_ns[i] = end_one(&world);
        submit_ns[i] = submit(&world);
        answer_all(&world, &answer_ns[i]);
    }
    print_spread("fleet_decide", "10,000 GPUs, 100,000 pending: a job ends, the next starts", decide_ns, ARRAY_COUNT(decide_ns));
    print_spread("fleet_decide", "10,000 GPUs, 100,000 pending: a job is submitted", submit_ns, ARRAY_COUNT(submit_ns));
    print_spread("fleet_decide", "10,000 GPUs, 100,000 pending: the dearest of the answers", answer_ns, ARRAY_COUNT(answer_ns));
}

int main(int argc, char **argv)
{
    if (bench_wanted(argc, argv, "fleet_step"))
        bench_step();
    if (bench_wanted(argc, argv, "fleet_decide"))
        bench_decide();
    return 0;
}
