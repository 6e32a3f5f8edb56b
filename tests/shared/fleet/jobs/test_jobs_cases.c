/* Bugs that other schedulers have had, each as what should happen here; the references are those of the field's issue trackers.
 * Where durability is the point (openpbs PR 1217, acknowledged submissions after a crash), the core's part is that it says and
 * takes nothing twice; that events are on disk before anything is answered is the host's. */
#include <stdlib.h>

#include "rig.h"

static struct rig rig;

static int init(void **state)
{
    (void)state;
    rig_init(&rig);
    return 0;
}

static int close_rig(void **state)
{
    (void)state;
    rig_close(&rig);
    return 0;
}

/* ---- shorthand ---- */

static void open_with(uint32_t tenants, const int64_t *nominal_milli)
{
    rig_open(&rig);
    rig_cohort(&rig, 0, NO_COHORT, 0);
    for (uint32_t i = 0; i < tenants; i++)
        rig_tenant(&rig, i, 0, nominal_milli[i], QUOTA_UNLIMITED, QUOTA_UNLIMITED);
    rig_base(&rig, 0, 16 * GB, 1, 10 * NS_PER_S);
    rig_base(&rig, 1, 18 * GB, 4, 60 * NS_PER_S);
}
#define OPEN(...) open_with((uint32_t)ARRAY_COUNT(((int64_t[]){__VA_ARGS__})), (int64_t[]){__VA_ARGS__})

static struct job_view view(uint32_t slot) { return rig_view(&rig, slot); }
static struct jobs_totals totals(void) { return jobs_totals(fleet_jobs(rig.fleet)); }
static int64_t used(uint32_t tenant) { return quota_used(jobs_quota(fleet_jobs(rig.fleet)), tenant, 0); }

/* Submits `count` such jobs and lets them run; slots in order. */
static void run_some(const struct rig_job *job, uint32_t count, uint32_t *ret_slots)
{
    for (uint32_t i = 0; i < count; i++) {
        ret_slots[i] = rig_submit(&rig, job);
        rig_answer_all(&rig);
        assert_int_equal(view(ret_slots[i]).state, JOB_RUNNING);
        rig_wait(&rig, NS_PER_S); /* so that one is newer than the other */
    }
}

static struct rig_job job_of(uint32_t tenant, uint16_t gpus)
{
    struct rig_job job = rig_job(tenant);

    job.gpus = gpus;
    return job;
}

static void node_event(enum fleet_event_kind kind, uint16_t node, uint16_t mask)
{
    struct fleet_event event;

    memset(&event, 0, sizeof(event));
    event.kind = (uint16_t)kind;
    event.gpus.node.value = node;
    event.gpus.gpu_mask = mask;
    event.gpus.gone_at_ns = rig.at_ns + 2 * MINUTE;
    rig_step(&rig, &event);
}

static void cancel(uint32_t slot)
{
    struct fleet_event event;

    memset(&event, 0, sizeof(event));
    event.kind = FLEET_EVENT_JOB_CANCEL;
    event.job_progress.job = rig.ids[slot];
    rig_step(&rig, &event);
}

static uint64_t stopped(uint32_t i)
{
    return rig_said(&rig, FLEET_COMMAND_JOB_STOP, i)->job_stop.job.value;
}

/* ---- the cases ---- */

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

static void tenant_in(uint32_t tenant, uint16_t flavor, int64_t nominal_milli)
{
    struct fleet_event event;

    memset(&event, 0, sizeof(event));
    event.kind = FLEET_EVENT_TENANT;
    event.tenant.tenant = tenant;
    event.tenant.flavor = flavor;
    event.tenant.weight_milli = 1000;
    event.tenant.nominal_milli = nominal_milli;
    event.tenant.borrowing_milli = event.tenant.lending_milli = QUOTA_UNLIMITED;
    rig_step(&rig, &event);
}

static void node_in(uint16_t node, uint16_t flavor, uint64_t bytes)
{
    struct fleet_event event;

    memset(&event, 0, sizeof(event));
    event.kind = FLEET_EVENT_GPUS_UP;
    event.gpus.node.value = node;
    event.gpus.gpu_mask = 0x3;
    event.gpus.bytes = bytes;
    event.gpus.flavor = flavor;
    event.gpus.price_nano_per_hour = 1000000000;
    rig_step(&rig, &event);
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
    tenant_in(0, 1, 2000);
    tenant_in(1, 1, 0);
    node_in(0, 0, 80 * GB);
    run_some(&mine, 2, borrowed); /* flavor 0 is all there is: borrowed */
    assert_true(view(borrowed[1]).borrowed);
    node_in(1, 1, 80 * GB);
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
    node_in(1, 0, 80 * GB);
    run_some(&borrower, 2, large);
    node_in(0, 0, 40 * GB);
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

/* ---- order and fairness ---- */

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

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, init, close_rig)
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
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
