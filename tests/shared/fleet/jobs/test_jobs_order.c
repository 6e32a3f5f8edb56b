/* Who goes next and what a job waits for: order and fairness between tenants and within one, places in several flavors, loads
 * that pay, that do not yet, and that fail. */
#include <stdlib.h>

#include "shorthand.h"

/* One customer's flood takes what it owns and what is idle; another's first job takes back its own at once. */
static void a_flood_does_not_hold_up_the_first_job_of_another(const struct order_policy *order)
{
    struct rig_job flood = job_of(1, 1);
    struct rig_job mine = job_of(0, 1);
    uint32_t slot;

    rig.config.jobs.order = order;
    OPEN(2000, 2000);
    rig_node(&rig, 0, 4, 80 * GB);
    for (uint32_t i = 0; i < 50; i++)
        rig_submit(&rig, &flood);
    rig_answer_all(&rig);
    assert_int_equal(used(1), 4000);
    rig_wait(&rig, MINUTE);
    slot = rig_submit(&rig, &mine);
    rig_answer_all(&rig);
    assert_int_equal(view(slot).state, JOB_RUNNING);
    assert_int_equal(totals().reclaims, 1);
}

static void fifty_jobs_of_one_do_not_hold_up_another_under_fifo(void **state)
{
    (void)state;
    a_flood_does_not_hold_up_the_first_job_of_another(&order_fifo);
}

static void fifty_jobs_of_one_do_not_hold_up_another_under_wfq(void **state)
{
    (void)state;
    a_flood_does_not_hold_up_the_first_job_of_another(&order_wfq);
}

/* Nobody owns anything and all borrow: under wfq the newcomer is next, under fifo the fifty are before it. */
static void wfq_serves_the_newcomer_next(void **state)
{
    (void)state;
    struct rig_job flood = job_of(1, 1);
    struct rig_job mine = job_of(0, 1);
    uint32_t theirs[2];
    uint32_t slot;

    rig.config.jobs.order = &order_wfq;
    OPEN(0, 0);
    rig_cohort(&rig, 0, NO_COHORT, 2000);
    rig_node(&rig, 0, 2, 80 * GB);
    run_some(&flood, 2, theirs);
    for (uint32_t i = 0; i < 40; i++)
        rig_submit(&rig, &flood);
    slot = rig_submit(&rig, &mine);
    rig_end(&rig, theirs[0], JOB_SUCCEEDED);
    assert_int_not_equal(view(slot).state, JOB_PENDING);
}

/* Two tenants that always have work stop each other's jobs at most until each has its own. */
static void two_tenants_do_not_reclaim_from_each_other_in_turns(void **state)
{
    (void)state;
    struct rig_job jobs[2] = {job_of(0, 1), job_of(1, 1)};
    uint64_t settled;

    OPEN(2000, 2000);
    rig_node(&rig, 0, 4, 80 * GB);
    for (uint32_t i = 0; i < 4; i++)
        rig_submit(&rig, &jobs[1]);
    rig_answer_all(&rig);
    for (uint32_t i = 0; i < 4; i++) {
        rig_submit(&rig, &jobs[0]);
        rig_answer_all(&rig);
    }
    settled = totals().reclaims;
    assert_int_equal(settled, 2);
    for (uint32_t i = 0; i < 200; i++) {
        uint32_t slot = 0;

        rig_wait(&rig, MINUTE);
        while (!rig.slots[slot] || view(slot).state != JOB_RUNNING || (i + slot) % 3 == 0)
            slot = (slot + 1) % RIG_JOBS;
        rig_submit(&rig, &jobs[view(slot).tenant]);
        rig_end(&rig, slot, JOB_SUCCEEDED);
        rig_answer_all(&rig);
        assert_int_equal(used(0), 2000);
        assert_int_equal(used(1), 2000);
    }
    assert_int_equal(totals().reclaims, settled);
}

static void a_stopped_job_keeps_its_place(void **state)
{
    (void)state;
    struct rig_job borrower = job_of(1, 1);
    struct rig_job mine = job_of(0, 1);
    uint32_t theirs[2];
    uint32_t later;
    uint32_t slot;

    OPEN(1000, 1000);
    rig_node(&rig, 0, 2, 80 * GB);
    run_some(&borrower, 2, theirs);
    later = rig_submit(&rig, &borrower);
    slot = rig_submit(&rig, &mine);
    rig_answer_all(&rig);
    assert_int_equal(view(theirs[1]).state, JOB_PENDING);
    rig_end(&rig, slot, JOB_SUCCEEDED);
    rig_answer_all(&rig);
    assert_int_equal(view(theirs[1]).state, JOB_RUNNING); /* before the one that came after it */
    assert_int_equal(view(later).state, JOB_PENDING);
}

static void priority_goes_first_then_age(void **state)
{
    (void)state;
    struct rig_job job = job_of(0, 1);
    uint32_t running;
    uint32_t low;
    uint32_t low_later;
    uint32_t high;

    OPEN(1000);
    rig_node(&rig, 0, 1, 80 * GB);
    job.priority = 9;
    run_some(&job, 1, &running);
    job.priority = 0;
    low = rig_submit(&rig, &job);
    low_later = rig_submit(&rig, &job);
    job.priority = 5;
    high = rig_submit(&rig, &job);
    rig_end(&rig, running, JOB_SUCCEEDED);
    rig_answer_all(&rig);
    assert_int_equal(view(high).state, JOB_RUNNING);
    rig_end(&rig, high, JOB_SUCCEEDED);
    rig_answer_all(&rig);
    assert_int_equal(view(low).state, JOB_RUNNING);
    assert_int_equal(view(low_later).state, JOB_PENDING);
}

/* Claimers for whom nothing can be done do not use up the searches of one for whom something can. */
static void hopeless_claimers_do_not_starve_one_with_hope(void **state)
{
    (void)state;
    struct rig_job young = job_of(1, 1);
    struct rig_job borrower = job_of(1, 1);
    struct rig_job gang = job_of(2, 2);
    struct rig_job mine = job_of(0, 1);
    uint32_t theirs[2];
    uint32_t fixed[2];
    uint32_t slot;

    rig.config.jobs.reservations_max = 0;
    OPEN(1000, 0, 2000);
    rig_node(&rig, 0, 2, 80 * GB);
    young.runtime_min_ns = 100 * HOUR;
    run_some(&young, 1, &fixed[0]);
    run_some(&borrower, 1, &theirs[0]);
    for (uint32_t i = 0; i < 20; i++) { /* each a class of its own */
        gang.bytes = GB + i;
        rig_submit(&rig, &gang);
    }
    assert_int_equal(totals().reclaims, 0);
    slot = rig_submit(&rig, &mine);
    rig_wait(&rig, MINUTE);
    rig_answer_all(&rig);
    assert_int_equal(view(slot).state, JOB_RUNNING);
    assert_int_equal(totals().reclaims, 1);
}

static void every_job_says_why_it_waits(void **state)
{
    (void)state;
    struct rig_job small = job_of(0, 1);
    struct rig_job gang = job_of(1, 2);
    struct rig_job share = job_of(2, 1);
    uint32_t first;
    uint32_t whole;
    uint32_t late[3];
    uint32_t other;

    OPEN(3000, 2000, 1000);
    rig_tenant(&rig, 3, 0, 1000, 0, QUOTA_UNLIMITED);
    rig_node(&rig, 0, 2, 80 * GB);
    small.runtime_min_ns = 10 * HOUR;
    run_some(&small, 1, &first);
    whole = rig_submit(&rig, &gang);
    assert_int_equal(view(whole).wait, JOB_WAIT_CAPACITY);
    assert_string_equal(job_wait_text(view(whole).wait), "no GPU has room");
    small.size_ns = 20 * HOUR;
    for (uint32_t i = 0; i < 3; i++)
        late[i] = rig_submit(&rig, &small);
    for (uint32_t i = 0; i < 2; i++) { /* in the middle of its class as at its head */
        assert_int_equal(view(late[i]).wait, JOB_WAIT_RESERVED);
        assert_int_equal(view(late[i]).reserved_for, whole);
    }
    share.isolation = ISOLATION_MIG;
    share.bytes = 70 * GB;
    rig_submit(&rig, &share); /* refused: no slice is so large with its base */
    assert_int_equal(rig_said(&rig, FLEET_COMMAND_JOB_REFUSE, 0)->reason, JOB_REFUSE_ISOLATION);
    other = rig_submit(&rig, &(struct rig_job){.tenant = 3, .gpus = 1, .size_ns = HOUR, .bytes = GB, .isolation = ISOLATION_MPS,
                                               .flags = JOB_PREEMPTIBLE});
    rig_tenant(&rig, 3, 0, 0, 0, 0);
    assert_int_equal(view(other).state == JOB_PENDING ? view(other).wait : JOB_WAIT_QUOTA, JOB_WAIT_QUOTA);
}

static void training_in_turns_is_for_small_jobs(void **state)
{
    (void)state;
    struct rig_job job = job_of(0, 1);
    uint32_t slot;

    OPEN(1000);
    rig_node(&rig, 0, 1, 80 * GB);
    job.isolation = ISOLATION_TIME_SLICE;
    job.size_ns = HOUR + 1;
    rig_submit(&rig, &job);
    assert_int_equal(rig_said(&rig, FLEET_COMMAND_JOB_REFUSE, 0)->reason, JOB_REFUSE_STAGE);
    job.stage = STAGE_EVALUATE;
    slot = rig_submit(&rig, &job);
    assert_int_not_equal(view(slot).state, JOB_FREE);
}

/* A job that takes a minute does not pay for a load of ten; work that joins it does, whoever's it is and though it waits for
 * something else. */
static void work_that_joins_makes_a_load_pay_for_all(void **state)
{
    (void)state;
    struct rig_job other = job_of(1, 1);
    struct rig_job little = job_of(0, 1);
    struct rig_job slice = job_of(1, 1);
    uint32_t running;
    uint32_t slot;
    uint32_t joined;

    OPEN(1000, 0);
    rig_tenant(&rig, 1, 0, 1000, 0, QUOTA_UNLIMITED);
    rig_base(&rig, 2, 16 * GB, 1, 10 * MINUTE);
    rig_node(&rig, 0, 2, 80 * GB);
    run_some(&other, 1, &running);
    little.base = 2;
    little.size_ns = MINUTE;
    slot = rig_submit(&rig, &little);
    assert_int_equal(view(slot).state, JOB_PENDING);
    assert_int_equal(view(slot).wait, JOB_WAIT_CAPACITY);
    slice.base = 2;
    slice.isolation = ISOLATION_MIG;
    joined = rig_submit(&rig, &slice);
    assert_int_equal(view(joined).wait, JOB_WAIT_QUOTA);
    assert_int_equal(view(slot).state, JOB_BASE_WAIT);
}

static void a_load_comes_in_the_end(void **state)
{
    (void)state;
    struct rig_job little = job_of(0, 1);
    uint32_t slot;

    OPEN(1000);
    rig_base(&rig, 2, 16 * GB, 1, 10 * MINUTE);
    rig_node(&rig, 0, 1, 80 * GB);
    little.base = 2;
    little.size_ns = MINUTE;
    slot = rig_submit(&rig, &little);
    rig_wait(&rig, 99 * MINUTE);
    assert_int_equal(view(slot).state, JOB_PENDING);
    rig_wait(&rig, MINUTE); /* ten times as long as the load */
    assert_int_equal(view(slot).state, JOB_BASE_WAIT);
}

static void an_event_at_the_instant_of_a_wakeup_does_not_cost_it(void **state)
{
    (void)state;
    struct rig_job running = job_of(0, 1);
    struct rig_job little = job_of(0, 1);
    struct fleet_event checkpoint;
    uint32_t first;
    uint32_t slot;

    OPEN(2000);
    rig_base(&rig, 2, 16 * GB, 1, 10 * MINUTE);
    rig_node(&rig, 0, 2, 80 * GB);
    first = rig_submit(&rig, &running);
    rig_answer_all(&rig);
    little.base = 2;
    little.size_ns = MINUTE;
    slot = rig_submit(&rig, &little);
    rig_wait(&rig, 99 * MINUTE);
    assert_int_equal(view(slot).state, JOB_PENDING);
    rig.at_ns += MINUTE; /* the load pays now, but before the tick another event comes */
    memset(&checkpoint, 0, sizeof(checkpoint));
    checkpoint.kind = FLEET_EVENT_JOB_CHECKPOINTED;
    checkpoint.job_progress.job = rig.ids[first];
    checkpoint.job_progress.done_ns = MINUTE;
    rig_step(&rig, &checkpoint);
    assert_int_equal(view(slot).state, JOB_BASE_WAIT);
}

static void a_gpu_is_shared_when_none_is_free(void **state)
{
    (void)state;
    struct rig_job job = job_of(0, 1);
    uint32_t slots[3];

    OPEN(2000);
    rig_node(&rig, 0, 2, 80 * GB);
    job.isolation = ISOLATION_MPS;
    run_some(&job, 2, slots);
    assert_int_equal(totals().base_loads, 2); /* though the base was on the first one's */
    run_some(&job, 1, &slots[2]);
    assert_int_equal(totals().base_loads, 2);
    assert_int_equal(totals().base_hits, 1);
}

/* What a slice takes is known when its place is: more than nominal in both flavors here, so it may borrow. The place in the
 * first is taken in the same cycle by one that goes before it; that none is left there within nominal says nothing of the other. */
static void a_flavor_that_was_just_filled_hides_no_place_to_borrow_in_another(void **state)
{
    (void)state;
    struct rig_job whole = job_of(0, 1);
    struct rig_job slice = job_of(1, 1);
    uint32_t first;
    uint32_t second;

    rig.config.jobs.flavors_max = 2;
    rig.config.jobs.spot_flavors = 1u << 1;
    rig.config.jobs.preempt_delay_ns = HOUR;
    rig_open(&rig);
    for (uint16_t flavor = 0; flavor < 2; flavor++) {
        rig_cohort_in(&rig, 0, flavor, 0);
        rig_tenant_in(&rig, 0, 0, flavor, 1000);
        rig_tenant_in(&rig, 1, 0, flavor, 200); /* the least slice takes 125, this one 250 */
    }
    rig_base(&rig, 0, 16 * GB, 1, 10 * NS_PER_S);
    rig_node_in(&rig, 0, 1, 0);
    slice.isolation = ISOLATION_MIG;
    slice.flags = JOB_PREEMPTIBLE | JOB_SPOT_OK;
    second = rig_submit(&rig, &slice);
    rig_answer_all(&rig);
    assert_int_equal(view(second).state, JOB_RUNNING);
    assert_true(view(second).borrowed);
    rig_node_in(&rig, 1, 1, 1);
    whole.priority = 1;
    first = rig_submit(&rig, &whole); /* not on spot: it waits for the GPU of the slice */
    assert_int_equal(view(first).state, JOB_PENDING);
    rig_end(&rig, second, JOB_LOST); /* both wait now, and both GPUs are free */
    assert_int_equal(view(first).state, JOB_BASE_WAIT);
    assert_int_equal(view(first).flavor, 0);
    assert_int_equal(view(second).state, JOB_PLACING);
    assert_int_equal(view(second).flavor, 1);
    assert_true(view(second).borrowed);
}

/* ---- loads that fail ---- */

/* No load for so long, and one then: the core wakes by itself. */
static void is_asked_for_after(int64_t ns)
{
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_BASE_LOAD), 0);
    assert_int_equal(fleet_wakeup_at_ns(rig.fleet), rig.at_ns + ns);
    rig_wait(&rig, ns - 1);
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_BASE_LOAD), 0);
    rig_wait(&rig, 1);
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_BASE_LOAD), 1);
}

static void a_base_that_fails_is_asked_for_again_later_each_time(void **state)
{
    (void)state;
    static const int64_t waits_s[] = {10, 20, 40, 80, 160, 320, 640, 640, 640};
    struct rig_job job = job_of(0, 1);
    uint32_t slot;

    OPEN(2000);
    rig_node(&rig, 0, 1, 80 * GB);
    slot = rig_submit(&rig, &job);
    for (size_t i = 0; i < ARRAY_COUNT(waits_s); i++) {
        rig_fail_loads(&rig);
        assert_int_equal(view(slot).state, JOB_PENDING);
        assert_int_equal(view(slot).wait, JOB_WAIT_BASE_FAILED);
        is_asked_for_after(waits_s[i] * NS_PER_S);
    }
    rig_answer_all(&rig);
    assert_int_equal(view(slot).state, JOB_RUNNING);
    /* One that came is a new beginning. */
    job.bytes = 70 * GB; /* not beside the first */
    rig_node(&rig, 1, 1, 100 * GB);
    rig_submit(&rig, &job);
    rig_fail_loads(&rig);
    is_asked_for_after(10 * NS_PER_S);
}

/* Only loads of that base wait: other bases, copies that are there and slices, whose base is their own, do not. */
static void a_base_that_fails_holds_up_nobody_else(void **state)
{
    (void)state;
    struct rig_job job = job_of(0, 1);
    struct rig_job share = job_of(0, 1);
    struct rig_job slice = job_of(0, 1);
    struct rig_job other = job_of(0, 1);
    uint32_t slots[5];

    OPEN(8000);
    rig_base(&rig, 2, 20 * GB, 1, 10 * NS_PER_S);
    rig_node(&rig, 0, 4, 80 * GB);
    share.isolation = ISOLATION_MPS;
    run_some(&share, 1, &slots[0]);
    slots[1] = rig_submit(&rig, &job);
    rig_fail_loads(&rig);
    assert_int_equal(view(slots[1]).state, JOB_PENDING);
    slots[2] = rig_submit(&rig, &share);
    assert_int_equal(view(slots[2]).state, JOB_PLACING);
    slice.isolation = ISOLATION_MIG;
    slots[3] = rig_submit(&rig, &slice);
    assert_int_equal(view(slots[3]).state, JOB_PLACING);
    other.base = 2;
    slots[4] = rig_submit(&rig, &other);
    assert_int_equal(view(slots[4]).state, JOB_BASE_WAIT);
    assert_int_equal(view(slots[1]).wait, JOB_WAIT_BASE_FAILED);
    rig_answer_all(&rig);
    rig_wait(&rig, 10 * NS_PER_S);
    assert_int_equal(view(slots[1]).state, JOB_BASE_WAIT);
}

/* A load that goes with its GPUs says nothing of the base. */
static void a_load_that_goes_with_its_gpus_is_asked_for_at_once(void **state)
{
    (void)state;
    struct rig_job job = job_of(0, 1);
    uint32_t slot;

    OPEN(2000);
    rig_node(&rig, 0, 1, 80 * GB);
    rig_node(&rig, 1, 1, 80 * GB);
    slot = rig_submit(&rig, &job);
    assert_int_equal(rig_said(&rig, FLEET_COMMAND_BASE_LOAD, 0)->base_load.node.value, 0);
    node_event(FLEET_EVENT_GPUS_NOTICE, 0, 1);
    assert_int_equal(rig_said(&rig, FLEET_COMMAND_BASE_LOAD, 0)->base_load.node.value, 1);
    for (uint32_t i = 0; i < RIG_ASKED; i++)
        rig.asked[i].open = rig.asked[i].open && rig.asked[i].command.base_load.node.value == 0;
    rig_fail_loads(&rig); /* that of the node that goes */
    assert_int_equal(view(slot).state, JOB_BASE_WAIT);
    job.bytes = 2 * GB;
    rig_node(&rig, 2, 1, 80 * GB);
    slot = rig_submit(&rig, &job);
    assert_int_equal(view(slot).state, JOB_BASE_WAIT);
}

static void nobody_is_stopped_for_a_base_that_does_not_come(void **state)
{
    (void)state;
    struct rig_job borrower = job_of(1, 1);
    struct rig_job mine = job_of(0, 1);
    uint32_t theirs[2];
    uint32_t first;
    uint32_t slot;

    OPEN(2000, 0);
    rig_base(&rig, 2, 20 * GB, 1, 10 * NS_PER_S);
    rig_node(&rig, 0, 2, 80 * GB);
    run_some(&borrower, 1, theirs);
    mine.base = 2;
    first = rig_submit(&rig, &mine);
    rig_fail_loads(&rig); /* on the free GPU */
    run_some(&borrower, 1, &theirs[1]); /* which another takes */
    slot = rig_submit(&rig, &mine);
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_JOB_STOP), 0);
    rig_wait(&rig, 5 * NS_PER_S);
    assert_int_equal(totals().reclaims, 0);
    rig_wait(&rig, 4 * NS_PER_S); /* a second went by while the borrower began */
    assert_int_equal(totals().reclaims, 2);
    rig_answer_all(&rig);
    assert_int_equal(view(first).state, JOB_RUNNING);
    assert_int_equal(view(slot).state, JOB_RUNNING);
}

/* Two sizes of gang need two copies: a gang whose base fails keeps no GPUs for the future meanwhile. */
static void a_gang_whose_base_fails_reserves_nothing(void **state)
{
    (void)state;
    struct rig_job gang = job_of(0, 4);
    struct rig_job small = job_of(1, 1);
    uint32_t big;
    uint32_t slot;

    OPEN(4000, 4000);
    rig_node(&rig, 0, 4, 80 * GB);
    gang.base = 1;
    big = rig_submit(&rig, &gang);
    rig_fail_loads(&rig);
    small.size_ns = 100 * HOUR;
    slot = rig_submit(&rig, &small);
    rig_answer_all(&rig);
    assert_int_equal(view(slot).state, JOB_RUNNING);
    assert_int_equal(view(big).state, JOB_PENDING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(fifty_jobs_of_one_do_not_hold_up_another_under_fifo),
        TEST(fifty_jobs_of_one_do_not_hold_up_another_under_wfq),
        TEST(wfq_serves_the_newcomer_next),
        TEST(two_tenants_do_not_reclaim_from_each_other_in_turns),
        TEST(a_stopped_job_keeps_its_place),
        TEST(priority_goes_first_then_age),
        TEST(hopeless_claimers_do_not_starve_one_with_hope),
        TEST(every_job_says_why_it_waits),
        TEST(training_in_turns_is_for_small_jobs),
        TEST(work_that_joins_makes_a_load_pay_for_all),
        TEST(a_load_comes_in_the_end),
        TEST(an_event_at_the_instant_of_a_wakeup_does_not_cost_it),
        TEST(a_gpu_is_shared_when_none_is_free),
        TEST(a_flavor_that_was_just_filled_hides_no_place_to_borrow_in_another),
        TEST(a_base_that_fails_is_asked_for_again_later_each_time),
        TEST(a_base_that_fails_holds_up_nobody_else),
        TEST(a_load_that_goes_with_its_gpus_is_asked_for_at_once),
        TEST(nobody_is_stopped_for_a_base_that_does_not_come),
        TEST(a_gang_whose_base_fails_reserves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
