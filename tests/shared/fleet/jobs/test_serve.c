/* Replicas on the GPUs of jobs: where they go, whom they stop and whom they may not, what a failure leaves, who pays; and a
 * long life of both under a host that answers late, never two on one GPU that should not be. */
#include "restored.h"
#include "rig.h"

#include <stdlib.h>

#define SECOND NS_PER_S
#define REPLICAS 4
#define SERVE_BYTES (50 * GB)

static struct rig rig;

/* Four GPUs of 80 GB on a node, two tenants with two each; base 0 (16 GB) is served and trained, base 1 trained only. */
static int open_shared(void **state)
{
    (void)state;
    rig_init(&rig);
    rig.config.replicas_max = REPLICAS;
    rig.config.requests_max = 64;
    rig.config.scale = &scale_load;
    rig.config.jobs.serve_max = REPLICAS;
    rig.config.jobs.serve_flavors = 1;
    rig_open(&rig);
    rig_cohort(&rig, 0, NO_COHORT, 0);
    rig_tenant(&rig, 0, 0, 2000, QUOTA_UNLIMITED, QUOTA_UNLIMITED);
    rig_tenant(&rig, 1, 0, 2000, QUOTA_UNLIMITED, QUOTA_UNLIMITED);
    rig_base(&rig, 0, 16 * GB, 1, 10 * SECOND);
    rig_base(&rig, 1, 18 * GB, 1, 10 * SECOND);
    rig_node(&rig, 0, 4, 80 * GB);
    return 0;
}

static int close_rig(void **state)
{
    (void)state;
    rig_close(&rig);
    return 0;
}

static void scale(uint16_t floor, uint16_t ceiling)
{
    struct fleet_event event;

    memset(&event, 0, sizeof(event));
    event.kind = FLEET_EVENT_SCALE;
    event.scale.up_ns = 8 * SECOND;
    event.scale.down_ns = 20 * SECOND;
    event.scale.bytes = SERVE_BYTES;
    event.scale.target_milli = 4000;
    event.scale.up_milli = 1200;
    event.scale.down_milli = 700;
    event.scale.floor = floor;
    event.scale.ceiling = ceiling;
    event.scale.tp = 1;
    event.scale.flags = SCALE_SHARED;
    rig_step(&rig, &event);
}

static struct scale_counts counts(void)
{
    return fleet_scale_counts(rig.fleet, (base_id){0});
}

static void fill(uint32_t jobs, uint16_t base, uint16_t flags, int64_t runtime_min_ns)
{
    for (uint32_t i = 0; i < jobs; i++) {
        struct rig_job job = rig_job(i % 2);

        job.base = base;
        job.flags = flags;
        job.runtime_min_ns = runtime_min_ns;
        rig_submit(&rig, &job);
        rig_answer_all(&rig);
    }
}

static void a_replica_loads_its_base_on_a_free_gpu_and_starts(void **state)
{
    (void)state;

    scale(1, REPLICAS);
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_BASE_LOAD), 1);
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_REPLICA_START), 0);
    assert_int_equal(counts().waiting, 1);
    rig_answer(&rig, FLEET_COMMAND_BASE_LOAD);
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_REPLICA_START), 1);
    assert_int_equal(rig_said(&rig, FLEET_COMMAND_REPLICA_START, 0)->replica_start.bytes, SERVE_BYTES);
    assert_int_equal(counts().starting, 1);
    rig_answer_all(&rig);
    assert_int_equal(counts().up, 1);
    assert_int_equal(devices_gpus_busy(jobs_devices(fleet_jobs(rig.fleet)), 0), 1);
}

static void a_base_that_training_left_there_is_used(void **state)
{
    (void)state;
    struct rig_job job = rig_job(0);
    uint32_t slot = rig_submit(&rig, &job);

    rig_answer_all(&rig);
    rig_end(&rig, slot, JOB_SUCCEEDED);
    scale(1, REPLICAS);
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_BASE_LOAD), 0);
    assert_int_equal(rig_said(&rig, FLEET_COMMAND_REPLICA_START, 0)->replica_start.gpu_mask, 1);
    /* A tenant's bytes were there. */
    assert_int_equal(rig_said(&rig, FLEET_COMMAND_REPLICA_START, 0)->replica_start.clear, 1);
}

/* All four GPUs train. One job is stopped, and the GPU it leaves is not given to the job that waits. */
static void a_job_is_stopped_for_it_and_its_gpu_is_kept(void **state)
{
    (void)state;
    struct rig_job job = rig_job(1);
    uint32_t waiting;

    fill(4, 1, JOB_PREEMPTIBLE, 0);
    job.base = 1;
    waiting = rig_submit(&rig, &job);
    scale(1, REPLICAS);
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_JOB_STOP), 1);
    assert_int_equal(rig_said(&rig, FLEET_COMMAND_JOB_STOP, 0)->reason, JOB_STOP_SHARED_POOL);
    assert_int_equal(jobs_totals(fleet_jobs(rig.fleet)).serving_stops, 1);
    rig_answer(&rig, FLEET_COMMAND_JOB_STOP);
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_JOB_PLACE), 0);
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_BASE_DROP), 1); /* 18 + 16 + 50 GB are more than 80 */
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_BASE_LOAD), 1);
    rig_answer_all(&rig);
    assert_int_equal(counts().up, 1);
    assert_int_equal(rig_view(&rig, waiting).state, JOB_PENDING);
}

static void what_may_not_be_stopped_is_not(void **state)
{
    (void)state;

    fill(4, 1, 0, 0);
    scale(1, REPLICAS);
    rig_wait(&rig, HOUR / 2);
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_JOB_STOP), 0);
    assert_int_equal(counts().waiting, 1);
    rig_end(&rig, 2, JOB_SUCCEEDED); /* its GPU is the replica's before anybody else's */
    rig_answer_all(&rig);
    assert_int_equal(counts().up, 1);
}

static void a_job_runs_its_minimum_first(void **state)
{
    (void)state;

    fill(4, 1, JOB_PREEMPTIBLE, 10 * MINUTE);
    scale(1, REPLICAS);
    rig_wait(&rig, 9 * MINUTE);
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_JOB_STOP), 0);
    rig_wait(&rig, MINUTE);
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_JOB_STOP), 1);
}

static void a_gang_waits_behind_serving_not_before_it(void **state)
{
    (void)state;
    struct rig_job job = rig_job(0);

    fill(3, 1, 0, 0);
    job.gpus = 2;
    job.base = 1;
    rig_submit(&rig, &job); /* has a place in the future, on the free GPU too */
    rig_answer_all(&rig);
    scale(1, REPLICAS);
    rig_answer_all(&rig);
    assert_int_equal(counts().up, 1);
}

static void a_drained_replica_gives_its_gpu_to_training(void **state)
{
    (void)state;
    struct rig_job job = rig_job(0);
    uint32_t slot;

    scale(2, REPLICAS);
    rig_answer_all(&rig);
    assert_int_equal(counts().up, 2);
    fill(2, 1, JOB_PREEMPTIBLE, 0);
    job.base = 1;
    slot = rig_submit(&rig, &job);
    assert_int_equal(rig_view(&rig, slot).state, JOB_PENDING);
    scale(1, REPLICAS);
    rig_wait(&rig, 60 * SECOND);
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_REPLICA_DRAIN), 1);
    assert_int_equal(counts().draining, 1);
    assert_int_equal(rig_view(&rig, slot).state, JOB_PENDING); /* not before the last request has left */
    rig_answer_all(&rig);
    assert_int_equal(rig_view(&rig, slot).state, JOB_RUNNING);
}

static void a_replica_that_is_no_longer_wanted_stops_waiting(void **state)
{
    (void)state;

    fill(4, 1, 0, 0);
    scale(2, REPLICAS);
    assert_int_equal(counts().waiting, 2);
    scale(1, REPLICAS);
    rig_wait(&rig, 60 * SECOND);
    assert_int_equal(counts().waiting, 1);
}

/* Later, though jobs could be stopped for it; the GPU is theirs until then. */
static void a_base_that_does_not_come_is_asked_for_again(void **state)
{
    (void)state;

    fill(3, 1, JOB_PREEMPTIBLE, 0);
    scale(1, REPLICAS);
    rig_fail_loads(&rig);
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_BASE_LOAD), 0);
    fill(1, 1, JOB_PREEMPTIBLE, 0);
    assert_int_equal(jobs_totals(fleet_jobs(rig.fleet)).running, 4);
    rig_wait(&rig, 9 * SECOND);
    assert_int_equal(jobs_totals(fleet_jobs(rig.fleet)).serving_stops, 0);
    assert_int_equal(counts().waiting, 1);
    rig_wait(&rig, SECOND);
    assert_int_equal(jobs_totals(fleet_jobs(rig.fleet)).serving_stops, 1);
    rig_answer_all(&rig);
    assert_int_equal(counts().up, 1);
}

/* Its node goes, with notice: it drains; one that was starting is drained as soon as it is up. */
static void replicas_leave_a_node_that_goes(void **state)
{
    (void)state;
    struct fleet_event event;

    scale(2, REPLICAS);
    rig_answer(&rig, FLEET_COMMAND_BASE_LOAD);
    for (uint32_t i = 0; i < RIG_ASKED; i++) /* the first is up, the second still starting */
        if (rig.asked[i].open && rig.asked[i].command.kind == FLEET_COMMAND_REPLICA_START) {
            struct fleet_event up;

            memset(&up, 0, sizeof(up));
            up.kind = FLEET_EVENT_REPLICA_UP;
            up.answers = rig.asked[i].command.id;
            up.replica_up.replica = rig.asked[i].command.replica_start.replica;
            rig.asked[i].open = false;
            rig_step(&rig, &up);
            break;
        }
    assert_int_equal(counts().up, 1);
    assert_int_equal(counts().starting, 1);
    memset(&event, 0, sizeof(event));
    event.kind = FLEET_EVENT_GPUS_NOTICE;
    event.gpus.gpu_mask = 15;
    event.gpus.gone_at_ns = rig.at_ns + 30 * SECOND;
    rig_step(&rig, &event);
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_REPLICA_DRAIN), 1);
    rig_answer_all(&rig);
    assert_int_equal(counts().up + counts().draining + counts().starting, 0);
    event.kind = FLEET_EVENT_GPUS_GONE;
    rig_step(&rig, &event);
    rig_node(&rig, 0, 4, 80 * GB);
    rig_wait(&rig, 10 * SECOND);
    rig_answer_all(&rig);
    assert_int_equal(counts().up, 2);
}

/* An hour of one GPU at 2.5: the platform's, to the unit, but for what tenants' unused quota takes of idle time. */
static void the_platform_pays_for_replicas_exactly(void **state)
{
    (void)state;
    const struct ledger *ledger;
    int64_t sum = 0;
    int64_t replica = 0;

    scale(1, 1);
    rig_answer_all(&rig);
    rig_wait(&rig, HOUR);
    ledger = jobs_settle(fleet_jobs(rig.fleet), rig.at_ns);
    for (uint32_t account = 0; account <= 8; account++)
        sum += ledger_account_total(ledger, account);
    assert_int_equal(sum, ledger_bill(ledger));
    assert_int_equal(ledger_bill(ledger), 4 * INT64_C(2500000000));
    replica = ledger_account(ledger, 8, CHARGE_COMPUTE) + ledger_account(ledger, 8, CHARGE_RESIDENCY) +
              ledger_account(ledger, 8, CHARGE_EXCLUSIVE);
    /* Half of the price for compute; of the other half 66 of 80 GB. */
    assert_in_range(replica, INT64_C(1250000000) + INT64_C(1031249990), INT64_C(1250000000) + INT64_C(1031250000));
}

/* --- a long life ------------------------------------------------------------------------------------------------------------ */

struct life {
    uint64_t random;
    uint32_t live;              /* requests */
    uint32_t slots[64];
    bool used[64];
    replica_id at[64];
    request_id ids[64];
    uint64_t ordinal;
    uint64_t routed, drained, submitted, started, restored;
};

static bool has_requests(const struct life *life, replica_id replica)
{
    for (uint32_t i = 0; i < life->live; i++)
        if (life->at[life->slots[i]].value == replica.value)
            return true;
    return false;
}

static void arrive(struct life *life)
{
    struct fleet_event event;
    uint32_t slot = 0;

    while (life->used[slot])
        slot++;
    life->ids[slot] = request_id_make(++life->ordinal, slot);
    memset(&event, 0, sizeof(event));
    event.kind = FLEET_EVENT_REQUEST;
    event.request.request = life->ids[slot];
    event.request.prompt_tokens = event.request.output_tokens_max = 1;
    rig_step(&rig, &event);
    if (rig_count(&rig, FLEET_COMMAND_ROUTE) == 0)
        return;
    life->at[slot] = rig_said(&rig, FLEET_COMMAND_ROUTE, 0)->route.replica;
    life->used[slot] = true;
    life->slots[life->live++] = slot;
    life->routed++;
}

static void depart(struct life *life)
{
    uint32_t at = (uint32_t)draw_below(&life->random, life->live);
    uint32_t slot = life->slots[at];
    struct fleet_event event;

    memset(&event, 0, sizeof(event));
    event.kind = FLEET_EVENT_REQUEST_DONE;
    event.request_done.request = life->ids[slot];
    event.request_done.replica = life->at[slot];
    life->used[slot] = false;
    life->slots[at] = life->slots[--life->live];
    rig_step(&rig, &event);
}

static void answer_some(struct life *life)
{
    for (uint32_t i = 0; i < RIG_ASKED; i++) {
        struct rig_asked *asked = &rig.asked[i];
        struct fleet_event event;

        if (!asked->open || draw_below(&life->random, 3) != 0)
            continue;
        if (asked->command.kind == FLEET_COMMAND_REPLICA_DRAIN && has_requests(life, asked->command.replica_drain.replica))
            continue;
        life->drained += asked->command.kind == FLEET_COMMAND_REPLICA_DRAIN;
        if (asked->command.kind == FLEET_COMMAND_REPLICA_START && draw_below(&life->random, 6) == 0) {
            memset(&event, 0, sizeof(event));
            event.kind = FLEET_EVENT_REPLICA_DOWN;
            event.reason = REPLICA_FAILED;
            event.answers = asked->command.id;
            event.replica_down.replica = asked->command.replica_start.replica;
            asked->open = false;
            rig_step(&rig, &event);
            continue;
        }
        rig_answer_one(&rig, asked);
    }
}

static void submit_or_end(struct life *life)
{
    uint32_t slot = (uint32_t)draw_below(&life->random, 24);
    struct rig_job job = rig_job((uint32_t)draw_below(&life->random, 2));

    if (rig.slots[slot]) {
        if (rig.running[slot] && rig_view(&rig, slot).state == JOB_RUNNING && draw_below(&life->random, 3) == 0)
            rig_end(&rig, slot, JOB_SUCCEEDED);
        return;
    }
    for (uint32_t i = 0; i < slot; i++)
        if (!rig.slots[i])
            return; /* the lowest slot is taken: as many as `slot` are there */
    job.base = (uint16_t)draw_below(&life->random, 2);
    job.gpus = draw_below(&life->random, 5) == 0 ? 2 : 1;
    job.flags = draw_below(&life->random, 4) == 0 ? 0 : JOB_PREEMPTIBLE;
    job.runtime_min_ns = draw_below(&life->random, 3) == 0 ? MINUTE : 0;
    rig_submit(&rig, &job);
    life->submitted++;
}

/* All of it comes back, unless there is something to be said at once. */
static void restore(struct life *life)
{
    struct restored again = {0};
    char text[160];

    restored_open(&again, rig.fleet, &rig.config);
    if (again.said.count == 0) {
        life->restored++;
        if (restored_differs(rig.fleet, again.fleet, text, sizeof(text)))
            fail_msg("seed %llu: %s", (unsigned long long)test_seed(2026), text);
    }
    restored_close(&again);
}

static void serving_and_training_share_for_long(void **state)
{
    (void)state;
    static struct life life;
    struct jobs_totals totals;

    life = (struct life){.random = test_seed(2026)};
    scale(1, REPLICAS);
    for (uint32_t step = 0; step < 40000; step++) {
        uint32_t busy = step / 2000 % 2 == 0 ? 20 : 2;

        rig_wait(&rig, (int64_t)draw_below(&life.random, SECOND));
        answer_some(&life);
        if (life.live < busy && life.live < 60)
            arrive(&life);
        else if (life.live > 0)
            depart(&life);
        if (draw_below(&life.random, 4) == 0)
            submit_or_end(&life);
        if (step % 64 == 0)
            restore(&life);
    }
    totals = jobs_totals(fleet_jobs(rig.fleet));
    print_message("%llu routed, %llu drained, %llu jobs, %llu starts, %llu stopped for serving, %llu restored\n",
                  (unsigned long long)life.routed, (unsigned long long)life.drained, (unsigned long long)life.submitted,
                  (unsigned long long)totals.started, (unsigned long long)totals.serving_stops, (unsigned long long)life.restored);
    assert_true(life.restored > 50);
    assert_true(life.routed > 1000 && life.drained > 5 && totals.started > 50 && totals.serving_stops > 5);
}

#define SHARED_TEST(name) cmocka_unit_test_setup_teardown(name, open_shared, close_rig)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SHARED_TEST(a_replica_loads_its_base_on_a_free_gpu_and_starts),
        SHARED_TEST(a_base_that_training_left_there_is_used),
        SHARED_TEST(a_job_is_stopped_for_it_and_its_gpu_is_kept),
        SHARED_TEST(what_may_not_be_stopped_is_not),
        SHARED_TEST(a_job_runs_its_minimum_first),
        SHARED_TEST(a_gang_waits_behind_serving_not_before_it),
        SHARED_TEST(a_drained_replica_gives_its_gpu_to_training),
        SHARED_TEST(a_replica_that_is_no_longer_wanted_stops_waiting),
        SHARED_TEST(a_base_that_does_not_come_is_asked_for_again),
        SHARED_TEST(replicas_leave_a_node_that_goes),
        SHARED_TEST(the_platform_pays_for_replicas_exactly),
        SHARED_TEST(serving_and_training_share_for_long),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
