/* Bugs that other schedulers have had, each as what should happen here; the references are those of the field's issue trackers.
 * Where durability is the point (openpbs PR 1217, acknowledged submissions after a crash), the core's part is that it says and
 * takes nothing twice; that events are on disk before anything is answered is the host's. */
#include <stdlib.h>

#include "shorthand.h"

/* kueue 2821 */
static void case_01_a_victim_is_not_let_in_before_its_preemptor(void **state)
{
    (void)state;
    uint32_t theirs[4];
    struct rig_job small = job_of(0, 1);
    struct rig_job borrower = job_of(1, 1);
    uint32_t mine;

    OPEN(2000, 0);
    rig_node(&rig, 0, 2, 80 * GB);
    run_some(&borrower, 2, theirs);
    mine = rig_submit(&rig, &small);
    assert_int_equal(stopped(0), rig.ids[theirs[1]].value);
    rig_answer(&rig, FLEET_COMMAND_JOB_STOP);
    /* In the very step in which it yields. */
    assert_int_not_equal(view(mine).state, JOB_PENDING);
    assert_int_equal(view(theirs[1]).state, JOB_PENDING);
    rig_answer_all(&rig);
    assert_int_equal(view(mine).state, JOB_RUNNING);
    assert_int_equal(view(theirs[1]).wait, JOB_WAIT_QUOTA);
}

/* kueue 14543 */
static void case_02_every_victim_left_after_minimising_is_lawful(void **state)
{
    (void)state;
    uint32_t one[2];
    uint32_t two[2];
    struct rig_job job1 = job_of(1, 1);
    struct rig_job job2 = job_of(2, 1);
    struct rig_job claim = job_of(0, 3);
    uint32_t mine;

    OPEN(3000, 1000, 0);
    rig_node(&rig, 0, 4, 80 * GB);
    run_some(&job2, 2, two);
    run_some(&job1, 2, one);
    mine = rig_submit(&rig, &claim);
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_JOB_STOP), 3);
    rig_answer_all(&rig);
    assert_int_equal(view(mine).state, JOB_RUNNING);
    assert_int_equal(view(one[0]).state, JOB_RUNNING); /* within nominal: protected */
    assert_int_equal(used(1), 1000);
    assert_int_equal(totals().claims_failed, 0);
}

/* kueue 6947 */
static void case_03_a_job_that_may_not_claim_evicts_nobody_and_starves_nobody(void **state)
{
    (void)state;
    uint32_t theirs[4];
    struct rig_job borrower = job_of(1, 1);
    struct rig_job four = job_of(0, 4);
    struct rig_job three = job_of(0, 3);
    uint32_t large;
    uint32_t fair;

    rig.config.jobs.reservations_max = 0;
    OPEN(3000, 1000);
    rig_node(&rig, 0, 4, 80 * GB);
    run_some(&borrower, 4, theirs);
    large = rig_submit(&rig, &four); /* above nominal: it may only borrow */
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_JOB_STOP), 0);
    fair = rig_submit(&rig, &three);
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_JOB_STOP), 3);
    rig_answer_all(&rig);
    assert_int_equal(view(fair).state, JOB_RUNNING);
    assert_int_equal(view(large).state, JOB_PENDING);
    four.flags = 0; /* not preemptible: nominal only, so never */
    rig_submit(&rig, &four);
    assert_int_equal(rig_said(&rig, FLEET_COMMAND_JOB_REFUSE, 0)->reason, JOB_REFUSE_QUOTA);
}

/* kueue 4809 */
static void case_04_a_blocked_head_does_not_keep_others_from_borrowing(void **state)
{
    (void)state;
    struct rig_job one = job_of(0, 1);
    struct rig_job gang = job_of(0, 4);
    struct rig_job borrower = job_of(1, 1);
    uint32_t slot;
    uint32_t theirs;

    rig.config.jobs.reservations_max = 0;
    OPEN(4000, 0);
    rig_node(&rig, 0, 4, 80 * GB);
    one.flags = 0;
    run_some(&one, 1, &slot);
    gang.flags = 0;
    slot = rig_submit(&rig, &gang);
    assert_int_equal(view(slot).wait, JOB_WAIT_QUOTA);
    theirs = rig_submit(&rig, &borrower);
    rig_answer_all(&rig);
    assert_int_equal(view(theirs).state, JOB_RUNNING);
    assert_true(view(theirs).borrowed);
}

/* kueue 9406 */
static void case_05_what_is_borrowed_in_one_flavor_lowers_no_claim_in_another(void **state)
{
    (void)state;
    uint32_t borrowed[2];
    uint32_t theirs[2];
    struct rig_job mine = job_of(0, 1);
    struct rig_job other = job_of(1, 1);
    uint32_t slot;

    rig.config.jobs.flavors_max = 2;
    OPEN(0, 2000);
    rig_tenant_in(&rig, 0, 0, 1, 2000);
    rig_tenant_in(&rig, 1, 0, 1, 0);
    rig_node_in(&rig, 0, 2, 0);
    run_some(&mine, 2, borrowed); /* flavor 0 is all there is: borrowed */
    assert_true(view(borrowed[1]).borrowed);
    rig_node_in(&rig, 1, 2, 1);
    run_some(&other, 2, theirs); /* flavor 1: it borrows, for its own quota is lent */
    assert_int_equal(view(theirs[1]).flavor, 1);
    slot = rig_submit(&rig, &mine);
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_JOB_STOP), 1);
    assert_int_equal(stopped(0), rig.ids[theirs[1]].value);
    rig_answer_all(&rig);
    assert_int_equal(view(slot).state, JOB_RUNNING);
    assert_int_equal(view(slot).flavor, 1);
    assert_false(view(slot).borrowed);
}

/* kueue 14609 */
static void case_06_usage_is_what_is_held_however_often_jobs_come_back(void **state)
{
    (void)state;
    uint32_t slots[2];
    struct rig_job job = job_of(0, 2);

    OPEN(4000);
    rig_node(&rig, 0, 4, 80 * GB);
    run_some(&job, 2, slots);
    for (uint32_t i = 0; i < 20; i++) {
        rig_end(&rig, slots[i % 2], JOB_LOST);
        assert_int_equal(used(0), 4000); /* it was placed again at once */
        rig_answer_all(&rig);
    }
    assert_int_equal(view(slots[0]).attempt, 11);
    rig_end(&rig, slots[0], JOB_SUCCEEDED);
    rig_end(&rig, slots[1], JOB_FAILED);
    assert_int_equal(used(0), 0);
}

/* kueue 12545 */
static void case_07_release_is_total_whatever_has_changed(void **state)
{
    (void)state;
    uint32_t slots[3];
    struct rig_job job = job_of(0, 1);

    OPEN(4000);
    rig_node(&rig, 0, 4, 80 * GB);
    run_some(&job, 3, slots);
    rig_tenant(&rig, 0, 0, 0, 0, 0); /* all its limits are gone */
    node_event(FLEET_EVENT_GPUS_NOTICE, 0, 0xf);
    cancel(slots[0]);
    rig_end(&rig, slots[1], JOB_FAILED);
    rig_end(&rig, slots[2], JOB_LOST);
    rig_answer_all(&rig);
    node_event(FLEET_EVENT_GPUS_GONE, 0, 0xf);
    assert_int_equal(used(0), 0);
    assert_int_equal(totals().running, 0);
    assert_int_equal(totals().pending, 1);
}

static void create_without_half_life(void *memory)
{
    struct jobs_config config = rig.config.jobs;

    config.half_life_ns = 0;
    jobs_create(memory, jobs_bytes(&rig.config.jobs), &config);
}

/* kueue 11134 */
static void case_08_a_half_life_of_zero_is_refused(void **state)
{
    (void)state;
    void *memory = aligned_alloc(16, (jobs_bytes(&rig.config.jobs) + 15) & ~(size_t)15);

    assert_non_null(memory);
    assert_true(check_stops(create_without_half_life, memory));
    free(memory);
    rig_open(&rig);
}

/* kueue 5243 */
static void case_09_nobody_is_stopped_for_a_gang_that_could_not_start(void **state)
{
    (void)state;
    struct rig_job fixed = job_of(0, 1);
    struct rig_job borrower = job_of(2, 1);
    struct rig_job gang = job_of(1, 2);
    uint32_t slots[8];
    uint32_t mine;

    OPEN(4000, 4000, 0);
    for (uint16_t node = 0; node < 4; node++) { /* on each node one that may not be stopped, and one that may */
        rig_node(&rig, node, 2, 80 * GB);
        fixed.flags = 0;
        run_some(&fixed, 1, &slots[node]);
        run_some(&borrower, 1, &slots[4 + node]);
    }
    mine = rig_submit(&rig, &gang);
    rig_wait(&rig, 10 * MINUTE);
    assert_int_equal(totals().reclaims, 0);
    assert_int_equal(view(mine).state, JOB_PENDING);
    /* One of them leaves: now there is a node. */
    rig_end(&rig, slots[2], JOB_SUCCEEDED);
    rig_answer_all(&rig);
    assert_int_equal(view(mine).state, JOB_RUNNING);
    assert_int_equal(totals().reclaims, 1);
}

/* KAI-Scheduler 1750 */
static void case_10_protected_jobs_hide_no_lawful_victim(void **state)
{
    (void)state;
    struct rig_job borrower = job_of(1, 1);
    struct rig_job guarded = job_of(2, 1);
    struct rig_job mine = job_of(0, 1);
    uint32_t lawful[2];
    uint32_t newer[2];

    OPEN(2000, 0, 2000);
    rig_node(&rig, 0, 4, 80 * GB);
    run_some(&borrower, 2, lawful);
    run_some(&guarded, 2, newer);
    rig_submit(&rig, &mine);
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_JOB_STOP), 1);
    assert_int_equal(stopped(0), rig.ids[lawful[1]].value);
}

/* KAI-Scheduler PR 1565 */
static void case_11_no_more_is_stopped_than_needed(void **state)
{
    (void)state;
    struct rig_job one = job_of(1, 1);
    struct rig_job gang = job_of(1, 3);
    struct rig_job mine = job_of(0, 1);
    uint32_t small;
    uint32_t large;

    OPEN(5000, 0);
    rig_node(&rig, 0, 4, 80 * GB);
    rig_node(&rig, 1, 1, 80 * GB);
    gang.base = 0;
    run_some(&one, 1, &small);
    run_some(&gang, 1, &large); /* the newest, and dear */
    rig_submit(&rig, &mine);
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_JOB_STOP), 0); /* a GPU was free */
    rig_answer_all(&rig);
    rig_submit(&rig, &mine);
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_JOB_STOP), 1);
    assert_int_equal(stopped(0), rig.ids[small].value);
    assert_int_equal(view(large).state, JOB_RUNNING);
}

/* KAI-Scheduler 416 */
static void case_12_bytes_are_added_up_to_the_last_one(void **state)
{
    (void)state;
    struct rig_job job = job_of(0, 1);
    uint32_t first;
    uint32_t second;

    OPEN(1000);
    rig_node(&rig, 0, 1, 80 * GB);
    job.isolation = ISOLATION_MPS;
    job.bytes = 32 * GB;
    first = rig_submit(&rig, &job);
    rig_answer_all(&rig);
    job.bytes = 32 * GB + 1;
    second = rig_submit(&rig, &job);
    assert_int_equal(view(second).state, JOB_PENDING);
    cancel(second);
    job.bytes = 32 * GB;
    second = rig_submit(&rig, &job);
    rig_answer_all(&rig);
    assert_int_equal(view(second).state, JOB_RUNNING); /* 16 + 32 + 32 */
    assert_int_equal(view(first).state, JOB_RUNNING);
}

/* volcano 4151 */
static void case_13_victims_are_added_up(void **state)
{
    (void)state;
    struct rig_job borrower = job_of(1, 1);
    struct rig_job gang = job_of(0, 3);
    uint32_t theirs[4];
    uint32_t mine;

    OPEN(4000, 0);
    rig_node(&rig, 0, 4, 80 * GB);
    run_some(&borrower, 4, theirs);
    mine = rig_submit(&rig, &gang);
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_JOB_STOP), 3);
    rig_answer_all(&rig);
    assert_int_equal(view(mine).state, JOB_RUNNING);
    assert_int_equal(view(theirs[0]).state, JOB_RUNNING); /* the oldest */
}

/* volcano 4918, PR 5053 */
static void case_14_who_does_not_contribute_is_not_stopped(void **state)
{
    (void)state;
    struct rig_job borrower = job_of(1, 1);
    struct rig_job mine = job_of(0, 1);
    uint32_t large[2];
    uint32_t little[2];

    OPEN(4000, 0);
    rig_node(&rig, 1, 2, 80 * GB);
    run_some(&borrower, 2, large);
    rig_node(&rig, 0, 2, 40 * GB);
    run_some(&borrower, 2, little); /* the newest, on GPUs that are too small */
    mine.bytes = 60 * GB;
    rig_submit(&rig, &mine);
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_JOB_STOP), 1);
    assert_int_equal(stopped(0), rig.ids[large[1]].value);
    assert_int_equal(view(little[1]).state, JOB_RUNNING);
}

/* yunikorn PR 1163 */
static void case_15_what_is_free_counts(void **state)
{
    (void)state;
    struct rig_job borrower = job_of(1, 1);
    struct rig_job gang = job_of(0, 3);
    uint32_t theirs[2];
    uint32_t mine;

    OPEN(4000, 0);
    rig_node(&rig, 0, 4, 80 * GB);
    run_some(&borrower, 2, theirs);
    mine = rig_submit(&rig, &gang);
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_JOB_STOP), 1);
    rig_answer_all(&rig);
    assert_int_equal(view(mine).state, JOB_RUNNING);
    assert_int_equal(view(theirs[0]).state, JOB_RUNNING);
}

static void answer_stop_of(uint32_t slot)
{
    struct fleet_event event;

    memset(&event, 0, sizeof(event));
    event.kind = FLEET_EVENT_JOB_YIELDED;
    event.job_progress.job = rig.ids[slot];
    for (uint32_t i = 0; i < RIG_ASKED; i++)
        if (rig.asked[i].open && rig.asked[i].command.kind == FLEET_COMMAND_JOB_STOP &&
            rig.asked[i].command.job_stop.job.value == rig.ids[slot].value) {
            rig.asked[i].open = false;
            event.answers = rig.asked[i].command.id;
        }
    assert_true(event.answers != 0);
    rig_step(&rig, &event);
}

/* yunikorn PR 759 */
static void case_16_what_victims_free_is_kept_for_the_claimer(void **state)
{
    (void)state;
    struct rig_job borrower = job_of(1, 1);
    struct rig_job gang = job_of(0, 2);
    struct rig_job third = job_of(2, 1);
    uint32_t theirs[3];
    uint32_t mine;
    uint32_t other;

    OPEN(2000, 0, 1000);
    rig_node(&rig, 0, 3, 80 * GB);
    run_some(&borrower, 3, theirs);
    third.runtime_min_ns = 0;
    mine = rig_submit(&rig, &gang);
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_JOB_STOP), 2);
    other = rig_submit(&rig, &third); /* within its nominal quota, it claims the third GPU for itself */
    answer_stop_of(theirs[2]);
    assert_int_equal(view(other).state, JOB_PENDING); /* a GPU is free, and not for it */
    assert_int_equal(view(mine).state, JOB_PENDING);
    answer_stop_of(theirs[1]);
    assert_int_not_equal(view(mine).state, JOB_PENDING);
    rig_answer_all(&rig);
    assert_int_equal(view(mine).state, JOB_RUNNING);
    assert_int_equal(view(other).state, JOB_RUNNING);
    assert_int_equal(totals().claims_failed, 0);
}

/* yunikorn PR 602, PR 724 */
static void case_17_the_claimer_may_go_before_its_victims_do(void **state)
{
    (void)state;
    struct rig_job borrower = job_of(1, 1);
    struct rig_job gang = job_of(0, 2);
    uint32_t theirs[2];
    uint32_t mine;

    OPEN(2000, 0);
    rig_node(&rig, 0, 2, 80 * GB);
    run_some(&borrower, 2, theirs);
    mine = rig_submit(&rig, &gang);
    cancel(mine);
    assert_int_equal(used(0), 0);
    rig_answer_all(&rig);
    assert_int_equal(used(1), 2000); /* both have come back */
    node_event(FLEET_EVENT_GPUS_NOTICE, 0, 0x3);
    rig_answer_all(&rig);
    node_event(FLEET_EVENT_GPUS_GONE, 0, 0x3);
    assert_int_equal(used(1), 0);
    assert_int_equal(totals().pending, 2);
}

/* slurm PR 216 */
static void case_18_who_was_told_to_stop_stays_told(void **state)
{
    (void)state;
    struct rig_job borrower = job_of(1, 1);
    struct rig_job mine = job_of(0, 1);
    uint32_t theirs;

    OPEN(1000, 0);
    rig_node(&rig, 0, 1, 80 * GB);
    run_some(&borrower, 1, &theirs);
    rig_submit(&rig, &mine);
    assert_int_equal(view(theirs).state, JOB_STOPPING);
    node_event(FLEET_EVENT_GPUS_NOTICE, 0, 0x1);
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_JOB_STOP), 0); /* once is enough */
    cancel(theirs);
    assert_int_equal(view(theirs).state, JOB_STOPPING);
    rig_answer_all(&rig);
    assert_int_equal(view(theirs).state, JOB_FREE);
    assert_int_equal(used(1), 0);
}

/* slurm PR 203 */
static void case_19_a_plan_is_kept_until_it_is_carried_out(void **state)
{
    (void)state;
    struct rig_job borrower = job_of(1, 1);
    struct rig_job gang = job_of(0, 2);
    uint32_t theirs[4];
    uint32_t mine;

    OPEN(2000, 2000);
    rig_node(&rig, 0, 2, 80 * GB);
    rig_node(&rig, 1, 2, 80 * GB);
    run_some(&borrower, 4, theirs);
    mine = rig_submit(&rig, &gang);
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_JOB_STOP), 2);
    for (uint32_t i = 0; i < 20; i++) {
        rig_wait(&rig, MINUTE);
        rig_tenant(&rig, 2, 0, 0, 0, 0); /* something happens */
    }
    assert_int_equal(totals().reclaims, 2);
    rig_answer_all(&rig);
    assert_int_equal(view(mine).state, JOB_RUNNING);
    assert_int_equal(totals().reclaims, 2);
}

/* openpbs PR 1217 */
static void case_20_a_claimer_starts_when_the_gpus_are_free_not_before(void **state)
{
    (void)state;
    struct rig_job borrower = job_of(1, 1);
    struct rig_job gang = job_of(0, 2);
    uint32_t theirs[2];

    OPEN(2000, 0);
    rig_node(&rig, 0, 2, 80 * GB);
    run_some(&borrower, 2, theirs);
    rig_submit(&rig, &gang);
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_JOB_PLACE) + rig_count(&rig, FLEET_COMMAND_BASE_LOAD), 0);
    answer_stop_of(theirs[0]);
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_JOB_PLACE) + rig_count(&rig, FLEET_COMMAND_BASE_LOAD), 0);
    answer_stop_of(theirs[1]);
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_JOB_PLACE) + rig_count(&rig, FLEET_COMMAND_BASE_LOAD), 1);
}

/* sglang PR 39312 */
static void case_21_a_job_that_comes_back_has_waited_no_negative_time(void **state)
{
    (void)state;
    struct rig_job borrower = job_of(1, 1);
    struct rig_job mine = job_of(0, 1);
    uint32_t theirs;
    int64_t submitted_at_ns;

    OPEN(1000, 0);
    rig_node(&rig, 0, 1, 80 * GB);
    run_some(&borrower, 1, &theirs);
    submitted_at_ns = view(theirs).submitted_at_ns;
    rig_wait(&rig, 7 * MINUTE);
    rig.done_ns[theirs] = 7 * MINUTE;
    rig_submit(&rig, &mine);
    rig_answer_all(&rig);
    assert_int_equal(view(theirs).state, JOB_PENDING);
    assert_int_equal(view(theirs).submitted_at_ns, submitted_at_ns);
    assert_true(rig.at_ns >= view(theirs).submitted_at_ns);
    assert_int_equal(view(theirs).remaining_ns, HOUR - 7 * MINUTE);
    assert_int_equal(view(theirs).attempt, 1);
}

/* opencost PR 883 */
static void case_22_idle_money_has_an_owner_when_nobody_works(void **state)
{
    (void)state;
    const struct ledger *ledger;
    int64_t sum = 0;

    OPEN(1000, 0);
    rig_node(&rig, 0, 4, 80 * GB);
    rig_wait(&rig, HOUR);
    ledger = jobs_settle(fleet_jobs(rig.fleet), rig.at_ns);
    for (uint32_t account = 0; account <= rig.config.jobs.tenants_max; account++)
        sum += ledger_account_total(ledger, account);
    assert_int_equal(ledger_bill(ledger), 4 * INT64_C(2500000000));
    assert_int_equal(sum, ledger_bill(ledger));
    assert_int_equal(ledger_account(ledger, 0, CHARGE_RESERVED_IDLE), INT64_C(2500000000)); /* the GPU it reserved */
    assert_int_equal(ledger_account_total(ledger, 1), 0);
}

/* kueue 5339 */
static void case_23_a_burst_is_charged_when_it_is_admitted(void **state)
{
    (void)state;
    struct rig_job flood = job_of(1, 1);
    struct rig_job small = job_of(2, 1);
    struct rig_job gang = job_of(0, 4);
    uint32_t whole;
    uint32_t first[3];
    uint32_t second[3];

    rig.config.jobs.order = &order_wfq;
    OPEN(4000, 0, 0);
    rig_node(&rig, 0, 4, 80 * GB);
    gang.base = 0;
    gang.flags = 0;
    run_some(&gang, 1, &whole);
    for (uint32_t i = 0; i < 3; i++)
        first[i] = rig_submit(&rig, &flood);
    for (uint32_t i = 0; i < 3; i++)
        second[i] = rig_submit(&rig, &small);
    rig_end(&rig, whole, JOB_SUCCEEDED); /* four GPUs at one instant: they take turns */
    assert_int_not_equal(view(first[1]).state, JOB_PENDING);
    assert_int_equal(view(first[2]).state, JOB_PENDING);
    assert_int_not_equal(view(second[1]).state, JOB_PENDING);
    assert_int_equal(view(second[2]).state, JOB_PENDING);
}

/* slurm 22.05 after kill -9 */
static void case_24_finished_work_is_not_revived(void **state)
{
    (void)state;
    struct rig_job job = job_of(0, 1);
    uint32_t done;
    uint32_t lost;
    job_id id;

    OPEN(2000);
    rig_node(&rig, 0, 2, 80 * GB);
    run_some(&job, 1, &done);
    run_some(&job, 1, &lost);
    id = rig.ids[done];
    rig_end(&rig, done, JOB_SUCCEEDED);
    rig.done_ns[lost] = 10 * MINUTE;
    rig_end(&rig, lost, JOB_LOST);
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_JOB_PLACE), 1); /* the lost one alone */
    assert_int_equal(jobs_view(fleet_jobs(rig.fleet), id).state, JOB_FREE);
    assert_int_equal(view(lost).remaining_ns, 50 * MINUTE);
    rig_submit(&rig, &job); /* in the slot of the finished one */
    assert_int_equal(jobs_view(fleet_jobs(rig.fleet), id).state, JOB_FREE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(case_01_a_victim_is_not_let_in_before_its_preemptor),
        TEST(case_02_every_victim_left_after_minimising_is_lawful),
        TEST(case_03_a_job_that_may_not_claim_evicts_nobody_and_starves_nobody),
        TEST(case_04_a_blocked_head_does_not_keep_others_from_borrowing),
        TEST(case_05_what_is_borrowed_in_one_flavor_lowers_no_claim_in_another),
        TEST(case_06_usage_is_what_is_held_however_often_jobs_come_back),
        TEST(case_07_release_is_total_whatever_has_changed),
        TEST(case_08_a_half_life_of_zero_is_refused),
        TEST(case_09_nobody_is_stopped_for_a_gang_that_could_not_start),
        TEST(case_10_protected_jobs_hide_no_lawful_victim),
        TEST(case_11_no_more_is_stopped_than_needed),
        TEST(case_12_bytes_are_added_up_to_the_last_one),
        TEST(case_13_victims_are_added_up),
        TEST(case_14_who_does_not_contribute_is_not_stopped),
        TEST(case_15_what_is_free_counts),
        TEST(case_16_what_victims_free_is_kept_for_the_claimer),
        TEST(case_17_the_claimer_may_go_before_its_victims_do),
        TEST(case_18_who_was_told_to_stop_stays_told),
        TEST(case_19_a_plan_is_kept_until_it_is_carried_out),
        TEST(case_20_a_claimer_starts_when_the_gpus_are_free_not_before),
        TEST(case_21_a_job_that_comes_back_has_waited_no_negative_time),
        TEST(case_22_idle_money_has_an_owner_when_nobody_works),
        TEST(case_23_a_burst_is_charged_when_it_is_admitted),
        TEST(case_24_finished_work_is_not_revived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
