#include "rig.h"

#include <stdlib.h>

static struct rig rig;

/* Two tenants of one cohort, four GPUs of 80 GB on a node, an 8B base of 16 GB. */
static int open_small(void **state)
{
    (void)state;
    rig_init(&rig);
    rig_open(&rig);
    rig_cohort(&rig, 0, NO_COHORT, 0);
    rig_tenant(&rig, 0, 0, 2000, QUOTA_UNLIMITED, QUOTA_UNLIMITED);
    rig_tenant(&rig, 1, 0, 2000, QUOTA_UNLIMITED, QUOTA_UNLIMITED);
    rig_base(&rig, 0, 16 * GB, 1, 10 * NS_PER_S);
    rig_base(&rig, 1, 18 * GB, 4, 60 * NS_PER_S);
    rig_node(&rig, 0, 4, 80 * GB);
    return 0;
}

static int close_rig(void **state)
{
    (void)state;
    rig_close(&rig);
    return 0;
}

static void a_job_loads_its_base_then_starts_then_ends(void **state)
{
    (void)state;
    struct rig_job job = rig_job(0);
    uint32_t slot = rig_submit(&rig, &job);

    assert_int_equal(rig_count(&rig, FLEET_COMMAND_BASE_LOAD), 1);
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_JOB_PLACE), 0);
    assert_int_equal(rig_view(&rig, slot).state, JOB_BASE_WAIT);
    assert_int_equal(rig_view(&rig, slot).wait, JOB_WAIT_BASE_LOADING);
    rig_answer(&rig, FLEET_COMMAND_BASE_LOAD);
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_JOB_PLACE), 1);
    rig_answer(&rig, FLEET_COMMAND_JOB_PLACE);
    assert_int_equal(rig_view(&rig, slot).state, JOB_RUNNING);
    rig_end(&rig, slot, JOB_SUCCEEDED);
    assert_int_equal(rig_view(&rig, slot).state, JOB_FREE);
    assert_int_equal(jobs_totals(fleet_jobs(rig.fleet)).succeeded, 1);
}

static void the_next_job_of_the_base_finds_it_resident(void **state)
{
    (void)state;
    struct rig_job job = rig_job(0);
    uint32_t first = rig_submit(&rig, &job);

    rig_answer_all(&rig);
    rig_end(&rig, first, JOB_SUCCEEDED);
    rig_submit(&rig, &job);
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_BASE_LOAD), 0);
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_JOB_PLACE), 1);
    assert_int_equal(jobs_totals(fleet_jobs(rig.fleet)).base_loads, 1);
    assert_int_equal(jobs_totals(fleet_jobs(rig.fleet)).base_hits, 1);
}

static void a_job_that_can_never_fit_is_refused_with_the_arithmetic(void **state)
{
    (void)state;
    struct rig_job job = rig_job(0);

    job.bytes = 65 * GB;
    rig_submit(&rig, &job);
    assert_int_equal(rig_said(&rig, FLEET_COMMAND_JOB_REFUSE, 0)->reason, JOB_REFUSE_MEMORY);
    assert_int_equal(rig_said(&rig, FLEET_COMMAND_JOB_REFUSE, 0)->refuse.need, 81 * GB);
    assert_int_equal(rig_said(&rig, FLEET_COMMAND_JOB_REFUSE, 0)->refuse.have, 80 * GB);
    job = rig_job(0);
    job.gpus = 5;
    rig_submit(&rig, &job);
    assert_int_equal(rig_said(&rig, FLEET_COMMAND_JOB_REFUSE, 0)->reason, JOB_REFUSE_QUOTA);
    assert_int_equal(rig_said(&rig, FLEET_COMMAND_JOB_REFUSE, 0)->refuse.need, 5000);
    assert_int_equal(rig_said(&rig, FLEET_COMMAND_JOB_REFUSE, 0)->refuse.have, 4000);
    job = rig_job(0);
    job.gpus = 3;
    job.flags = 0; /* not preemptible: nominal quota only */
    rig_submit(&rig, &job);
    assert_int_equal(rig_said(&rig, FLEET_COMMAND_JOB_REFUSE, 0)->reason, JOB_REFUSE_QUOTA);
    assert_int_equal(rig_said(&rig, FLEET_COMMAND_JOB_REFUSE, 0)->refuse.have, 2000);
    job = rig_job(7);
    rig_submit(&rig, &job);
    assert_int_equal(rig_said(&rig, FLEET_COMMAND_JOB_REFUSE, 0)->reason, JOB_REFUSE_UNKNOWN_TENANT);
    job = rig_job(0);
    job.base = 3;
    rig_submit(&rig, &job);
    assert_int_equal(rig_said(&rig, FLEET_COMMAND_JOB_REFUSE, 0)->reason, JOB_REFUSE_UNKNOWN_BASE);
    job = rig_job(0);
    job.stage = STAGE_INTERACTIVE;
    job.isolation = ISOLATION_MPS;
    rig_submit(&rig, &job);
    assert_int_equal(rig_said(&rig, FLEET_COMMAND_JOB_REFUSE, 0)->reason, JOB_REFUSE_STAGE);
    assert_int_equal(jobs_totals(fleet_jobs(rig.fleet)).pending, 0);
}

/* Tenant 1 borrows all four GPUs; tenant 0 wants one of its own back: one borrower is stopped, not more, and keeps its place. */
static void a_tenant_within_nominal_takes_back_what_others_borrow(void **state)
{
    (void)state;
    struct rig_job theirs = rig_job(1);
    struct rig_job ours = rig_job(0);
    uint32_t slots[4];
    uint32_t mine;

    for (uint32_t i = 0; i < 4; i++)
        slots[i] = rig_submit(&rig, &theirs);
    rig_answer_all(&rig);
    assert_false(rig_view(&rig, slots[1]).borrowed);
    assert_true(rig_view(&rig, slots[2]).borrowed);
    rig_wait(&rig, MINUTE);
    mine = rig_submit(&rig, &ours);
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_JOB_STOP), 1);
    assert_int_equal(rig_said(&rig, FLEET_COMMAND_JOB_STOP, 0)->reason, JOB_STOP_RECLAIM);
    /* The most recently placed of the borrowers. */
    assert_int_equal(rig_said(&rig, FLEET_COMMAND_JOB_STOP, 0)->job_stop.job.value, rig.ids[slots[3]].value);
    rig_answer_all(&rig);
    assert_int_equal(rig_view(&rig, mine).state, JOB_RUNNING);
    assert_int_equal(rig_view(&rig, slots[3]).state, JOB_PENDING);
    assert_int_equal(jobs_totals(fleet_jobs(rig.fleet)).reclaims, 1);
    /* And a second one, to the last unit of its nominal quota; a third would have to borrow, and waits. */
    rig_submit(&rig, &ours);
    rig_answer_all(&rig);
    rig_submit(&rig, &ours);
    rig_answer_all(&rig);
    assert_int_equal(jobs_totals(fleet_jobs(rig.fleet)).reclaims, 2);
    assert_int_equal(quota_used(jobs_quota(fleet_jobs(rig.fleet)), 0, 0), 2000);
    assert_int_equal(quota_used(jobs_quota(fleet_jobs(rig.fleet)), 1, 0), 2000);
}

static void nobody_is_stopped_before_its_minimum_runtime(void **state)
{
    (void)state;
    struct rig_job theirs = rig_job(1);
    struct rig_job ours = rig_job(0);
    uint32_t mine;

    theirs.runtime_min_ns = 10 * MINUTE;
    for (uint32_t i = 0; i < 4; i++)
        rig_submit(&rig, &theirs);
    rig_answer_all(&rig);
    mine = rig_submit(&rig, &ours);
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_JOB_STOP), 0);
    rig_wait(&rig, 9 * MINUTE);
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_JOB_STOP), 0);
    rig_wait(&rig, 2 * MINUTE);
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_JOB_STOP), 1);
    rig_answer_all(&rig);
    assert_int_equal(rig_view(&rig, mine).state, JOB_RUNNING);
}

static void higher_priority_of_the_same_tenant_preempts(void **state)
{
    (void)state;
    struct rig_job low = rig_job(1);
    struct rig_job high = rig_job(1);
    uint32_t mine;

    high.priority = 10;
    for (uint32_t i = 0; i < 4; i++)
        rig_submit(&rig, &low);
    rig_answer_all(&rig);
    rig_wait(&rig, MINUTE);
    mine = rig_submit(&rig, &high);
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_JOB_STOP), 1);
    assert_int_equal(rig_said(&rig, FLEET_COMMAND_JOB_STOP, 0)->reason, JOB_STOP_PREEMPT);
    rig_answer_all(&rig);
    assert_int_equal(rig_view(&rig, mine).state, JOB_RUNNING);
}

/* A gang of four waits on a busy node: a reservation keeps later small jobs out unless they end before it could start. */
static void a_gang_is_not_starved_by_small_jobs(void **state)
{
    (void)state;
    struct rig_job small = rig_job(0);
    struct rig_job gang = rig_job(1);
    struct rig_job quick = rig_job(0);
    uint32_t first;
    uint32_t whole;
    uint32_t long_one;
    uint32_t short_one;

    first = rig_submit(&rig, &small);
    rig_answer_all(&rig);
    gang.gpus = 4;
    gang.base = 1;
    gang.flags |= 0;
    whole = rig_submit(&rig, &gang);
    assert_int_equal(rig_view(&rig, whole).state, JOB_PENDING);
    small.size_ns = 2 * HOUR;
    long_one = rig_submit(&rig, &small);
    assert_int_equal(rig_view(&rig, long_one).state, JOB_PENDING);
    assert_int_equal(rig_view(&rig, long_one).wait, JOB_WAIT_RESERVED);
    quick.size_ns = 30 * MINUTE;
    short_one = rig_submit(&rig, &quick);
    assert_int_not_equal(rig_view(&rig, short_one).state, JOB_PENDING);
    rig_answer_all(&rig);
    rig_end(&rig, short_one, JOB_SUCCEEDED);
    rig_end(&rig, first, JOB_SUCCEEDED);
    rig_answer_all(&rig);
    assert_int_equal(rig_view(&rig, whole).state, JOB_RUNNING);
    assert_int_equal(rig_view(&rig, long_one).state, JOB_PENDING);
}

static void a_cancelled_job_leaves_from_wherever_it_is(void **state)
{
    (void)state;
    struct rig_job job = rig_job(0);
    uint32_t slot = rig_submit(&rig, &job);
    struct fleet_event event;

    rig_answer_all(&rig);
    memset(&event, 0, sizeof(event));
    event.kind = FLEET_EVENT_JOB_CANCEL;
    event.job_progress.job = rig.ids[slot];
    rig_step(&rig, &event);
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_JOB_STOP), 1);
    rig_answer_all(&rig);
    assert_int_equal(rig_view(&rig, slot).state, JOB_FREE);
    assert_int_equal(jobs_totals(fleet_jobs(rig.fleet)).cancelled, 1);
}

static void notice_stops_the_jobs_of_a_node_and_they_go_on_elsewhere(void **state)
{
    (void)state;
    struct rig_job job = rig_job(0);
    uint32_t slot = rig_submit(&rig, &job);
    struct fleet_event event;

    rig_answer_all(&rig);
    rig_node(&rig, 1, 4, 80 * GB);
    memset(&event, 0, sizeof(event));
    event.kind = FLEET_EVENT_GPUS_NOTICE;
    event.gpus.node.value = 0;
    event.gpus.gpu_mask = 0xf;
    event.gpus.gone_at_ns = rig.at_ns + 2 * MINUTE;
    rig_step(&rig, &event);
    assert_int_equal(rig_said(&rig, FLEET_COMMAND_JOB_STOP, 0)->reason, JOB_STOP_NOTICE);
    rig.done_ns[slot] = 20 * MINUTE;
    rig_answer_all(&rig);
    assert_int_equal(rig_view(&rig, slot).state, JOB_RUNNING);
    assert_int_equal(rig_view(&rig, slot).remaining_ns, 40 * MINUTE);
    rig_wait(&rig, 2 * MINUTE);
    memset(&event, 0, sizeof(event));
    event.kind = FLEET_EVENT_GPUS_GONE;
    event.gpus.node.value = 0;
    event.gpus.gpu_mask = 0xf;
    rig_step(&rig, &event);
    assert_int_equal(rig_view(&rig, slot).state, JOB_RUNNING);
}

static void the_bill_is_split_to_the_last_unit(void **state)
{
    (void)state;
    struct rig_job job = rig_job(0);
    uint32_t slot = rig_submit(&rig, &job);
    const struct ledger *ledger;
    int64_t sum = 0;

    rig_wait(&rig, 10 * NS_PER_S);
    rig_answer_all(&rig);
    rig_wait(&rig, 7 * MINUTE + 3);
    rig_end(&rig, slot, JOB_SUCCEEDED);
    rig_wait(&rig, MINUTE + 1);
    ledger = jobs_settle(fleet_jobs(rig.fleet), rig.at_ns);
    for (uint32_t account = 0; account <= 8; account++)
        sum += ledger_account_total(ledger, account);
    assert_int_equal(sum, ledger_bill(ledger));
    assert_true(ledger_account_total(ledger, 0) > 0);
    assert_int_equal(ledger_bill(ledger), 4 * (int64_t)((__uint128_t)2500000000 * (uint64_t)rig.at_ns / 3600000000000));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_small, close_rig)
    const struct CMUnitTest tests[] = {
        TEST(a_job_loads_its_base_then_starts_then_ends),
        TEST(the_next_job_of_the_base_finds_it_resident),
        TEST(a_job_that_can_never_fit_is_refused_with_the_arithmetic),
        TEST(a_tenant_within_nominal_takes_back_what_others_borrow),
        TEST(nobody_is_stopped_before_its_minimum_runtime),
        TEST(higher_priority_of_the_same_tenant_preempts),
        TEST(a_gang_is_not_starved_by_small_jobs),
        TEST(a_cancelled_job_leaves_from_wherever_it_is),
        TEST(notice_stops_the_jobs_of_a_node_and_they_go_on_elsewhere),
        TEST(the_bill_is_split_to_the_last_unit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
