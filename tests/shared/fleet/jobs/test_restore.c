/* What a control plane that was killed tells its new core, case by case: what was found goes on where it is, what is pending keeps its
 * turn, and what fits no longer is dealt with. */
#include "restored.h"
#include "shorthand.h"

static struct fleet_event told(enum fleet_event_kind kind)
{
    struct fleet_event event;

    memset(&event, 0, sizeof(event));
    event.kind = (uint16_t)kind;
    return event;
}

static void tell(enum fleet_event_kind kind)
{
    struct fleet_event event = told(kind);

    rig_step(&rig, &event);
}

/* One node of `gpus` GPUs of 80 GB, tenants 0 and 1 with `nominal_milli` each, bases 0 (16 GB) and 1 (18 GB, over 4). */
static void restoring(uint32_t gpus, int64_t nominal_milli)
{
    rig.at_ns = 100 * HOUR;
    rig_open(&rig);
    tell(FLEET_EVENT_RESTORE);
    rig_cohort(&rig, 0, NO_COHORT, 0);
    rig_tenant(&rig, 0, 0, nominal_milli, QUOTA_UNLIMITED, QUOTA_UNLIMITED);
    rig_tenant(&rig, 1, 0, nominal_milli, QUOTA_UNLIMITED, QUOTA_UNLIMITED);
    rig_base(&rig, 0, 16 * GB, 1, 10 * NS_PER_S);
    rig_base(&rig, 1, 18 * GB, 4, 60 * NS_PER_S);
    rig_node(&rig, 0, gpus, 80 * GB);
}

/* Half of its hour is done, on these GPUs of node 0 since an hour ago. */
static void found(uint32_t slot, uint16_t gpu_mask, enum job_state state)
{
    struct fleet_event event = told(FLEET_EVENT_JOB_FOUND);

    event.job_found.job = rig.ids[slot];
    event.job_found.done_ns = rig.done_ns[slot] = HOUR / 2;
    event.job_found.claimed_at_ns = event.job_found.started_at_ns = rig.at_ns - HOUR;
    event.job_found.charged_ns = FOUND_UNCHARGED;
    event.job_found.gpu_mask = gpu_mask;
    event.job_found.state = (uint16_t)state;
    rig_step(&rig, &event);
}

static uint32_t found_job(const struct rig_job *job, uint16_t gpu_mask)
{
    uint32_t slot = rig_submit(&rig, job);

    found(slot, gpu_mask, JOB_RUNNING);
    return slot;
}

static void base_found(uint16_t base, uint16_t gpu_mask, uint16_t on_its_way)
{
    struct fleet_event event = told(FLEET_EVENT_BASE_FOUND);

    event.reason = on_its_way;
    event.base_found.base.value = base;
    event.base_found.gpu_mask = gpu_mask;
    rig_step(&rig, &event);
}

static void a_job_that_was_found_runs_on_with_its_lease(void **state)
{
    (void)state;
    struct rig_job job = rig_job(0);
    uint32_t slot;
    uint32_t other;
    struct devices_place place;

    restoring(1, 2000);
    slot = found_job(&job, 1);
    other = rig_submit(&rig, &job);
    assert_int_equal(fleet_wakeup_at_ns(rig.fleet), NEVER_NS);
    tell(FLEET_EVENT_RESTORE_DONE);
    assert_int_equal(rig.said_count, 0); /* it stays, the other waits */
    assert_int_equal(view(slot).state, JOB_RUNNING);
    assert_int_equal(view(slot).remaining_ns, HOUR / 2);
    assert_int_equal(view(other).state, JOB_PENDING);
    assert_int_equal(used(0), 1000);
    assert_true(devices_claimed(jobs_devices(fleet_jobs(rig.fleet)), slot, &place));
    assert_int_equal(place.gpu_mask, 1);
    rig_end(&rig, slot, JOB_SUCCEEDED);
    /* Its base is there: nothing is loaded for the next. */
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_BASE_LOAD), 0);
    assert_int_equal(rig_said(&rig, FLEET_COMMAND_JOB_PLACE, 0)->job_place.job.value, rig.ids[other].value);
    /* Usage: an hour before, and nothing since. */
    assert_true(quota_share_key(jobs_quota(fleet_jobs(rig.fleet)), 0, rig.at_ns) >= (uint64_t)HOUR);
}

static void nothing_is_said_and_nobody_placed_before_all_is_told(void **state)
{
    (void)state;
    struct rig_job job = rig_job(0);
    uint32_t slot;

    restoring(1, 1000);
    slot = rig_submit(&rig, &job);
    assert_int_equal(rig.said_count, 0);
    tell(FLEET_EVENT_TICK);
    assert_int_equal(rig.said_count, 0);
    tell(FLEET_EVENT_RESTORE_DONE);
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_BASE_LOAD), 1);
    rig_answer_all(&rig);
    assert_int_equal(view(slot).state, JOB_RUNNING);
}

static void a_base_without_users_is_used_again(void **state)
{
    (void)state;
    struct rig_job job = rig_job(0);

    restoring(2, 2000);
    base_found(0, 2, 0);
    rig_submit(&rig, &job);
    tell(FLEET_EVENT_RESTORE_DONE);
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_BASE_LOAD), 0);
    assert_int_equal(rig_said(&rig, FLEET_COMMAND_JOB_PLACE, 0)->job_place.gpu_mask, 2);
    /* Whose bytes were there is not known. */
    assert_int_equal(rig_said(&rig, FLEET_COMMAND_JOB_PLACE, 0)->job_place.clear, 1);
}

static void a_base_on_its_way_starts_the_job_that_waits_for_it(void **state)
{
    (void)state;
    struct rig_job job = rig_job(0);
    struct fleet_event event = told(FLEET_EVENT_BASE_LOADED);
    uint32_t slot;

    restoring(1, 1000);
    base_found(0, 1, 1);
    slot = rig_submit(&rig, &job);
    found(slot, 1, JOB_BASE_WAIT);
    tell(FLEET_EVENT_RESTORE_DONE);
    assert_int_equal(rig.said_count, 0);
    assert_int_equal(view(slot).state, JOB_BASE_WAIT);
    event.base_loaded.gpu_mask = 1;
    rig_step(&rig, &event);
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_JOB_PLACE), 1);
}

/* Ids are ages, whatever the order in which they are told. */
static void pending_jobs_keep_their_turn(void **state)
{
    (void)state;
    struct rig_job job = rig_job(0);
    struct fleet_event kept = told(FLEET_EVENT_JOB_KEPT);
    uint32_t slots[3];

    rig.ordinals = 7; /* the first that is told is the youngest */
    restoring(1, 1000);
    for (uint32_t i = 0; i < 3; i++) {
        rig.ordinals = 9 - 2 * i;
        slots[i] = rig_submit(&rig, &job);
    }
    kept.job_kept.job = rig.ids[slots[2]];
    kept.job_kept.done_ns = rig.done_ns[slots[2]] = HOUR / 4;
    kept.job_kept.submitted_at_ns = rig.at_ns - HOUR;
    kept.job_kept.attempt = 3;
    rig_step(&rig, &kept);
    tell(FLEET_EVENT_RESTORE_DONE);
    rig_answer_all(&rig);
    for (uint32_t i = 3; i-- > 0;) {
        assert_int_equal(view(slots[i]).state, JOB_RUNNING);
        if (i == 2) {
            assert_int_equal(view(slots[i]).attempt, 4);
            assert_int_equal(view(slots[i]).remaining_ns, HOUR * 3 / 4);
            assert_int_equal(view(slots[i]).submitted_at_ns, rig.at_ns - HOUR);
        }
        rig_end(&rig, slots[i], JOB_SUCCEEDED);
        rig_answer_all(&rig);
    }
}

/* Tenant 0 has used more: tenant 1, who came later, goes first. */
static void usage_keeps_the_order_of_shares(void **state)
{
    (void)state;
    struct rig_job job = rig_job(0);
    struct rig_job other = rig_job(1);
    struct fleet_event usage = told(FLEET_EVENT_TENANT_USAGE);

    rig.config.jobs.order = &order_wfq;
    restoring(1, 1000);
    usage.tenant_usage.gpu_ns = 4 * HOUR;
    usage.tenant_usage.as_of_ns = rig.at_ns + HOUR; /* a clock that ran ahead */
    rig_step(&rig, &usage);
    rig_submit(&rig, &job);
    uint32_t slot = rig_submit(&rig, &other);
    assert_in_range(quota_share_key(jobs_quota(fleet_jobs(rig.fleet)), 0, rig.at_ns), 4 * HOUR - 1, 4 * HOUR + 1);
    tell(FLEET_EVENT_RESTORE_DONE);
    rig_answer_all(&rig);
    assert_int_equal(view(slot).state, JOB_RUNNING);
}

static void above_a_quota_that_has_shrunk_it_stays(void **state)
{
    (void)state;
    struct rig_job job = rig_job(0);
    uint32_t slots[2];

    restoring(2, 0);
    for (uint32_t i = 0; i < 2; i++)
        slots[i] = found_job(&job, (uint16_t)(1u << i));
    tell(FLEET_EVENT_RESTORE_DONE);
    assert_int_equal(rig.said_count, 0);
    assert_int_equal(used(0), 2000);
    rig_end(&rig, slots[0], JOB_LOST);
    assert_int_equal(rig.said_count, 0); /* and does not begin anew */
    rig_end(&rig, slots[1], JOB_SUCCEEDED);
    assert_int_equal(used(0), 0);
}

static void check_stray(uint32_t slot, uint32_t waiting)
{
    tell(FLEET_EVENT_RESTORE_DONE);
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_JOB_STOP), 1);
    assert_int_equal(rig_said(&rig, FLEET_COMMAND_JOB_STOP, 0)->reason, JOB_STOP_STRAY);
    assert_int_equal(stopped(0), rig.ids[slot].value);
    assert_int_equal(view(slot).state, JOB_STRAY);
    assert_int_equal(view(waiting).state, JOB_PENDING); /* what it stands on is kept from others */
}

/* It has grown to 70 GB beside a base of 16: on a GPU of 80 there is no room. */
static void a_job_that_no_longer_fits_is_stopped_and_waits(void **state)
{
    (void)state;
    struct rig_job small = rig_job(1);
    struct rig_job job = rig_job(0);
    uint32_t slot;
    uint32_t waiting;

    restoring(1, 1000);
    job.bytes = 70 * GB;
    slot = found_job(&job, 1);
    waiting = rig_submit(&rig, &small);
    check_stray(slot, waiting);
    rig_answer(&rig, FLEET_COMMAND_JOB_STOP);
    assert_int_equal(view(slot).state, JOB_PENDING);
    assert_int_equal(view(slot).remaining_ns, HOUR / 2);
    rig_answer_all(&rig);
    assert_int_equal(view(waiting).state, JOB_RUNNING);
}

static void a_job_on_a_gpu_of_another_is_stopped_and_placed_elsewhere(void **state)
{
    (void)state;
    struct rig_job job = rig_job(0);
    uint32_t first;
    uint32_t second;

    restoring(2, 2000);
    first = found_job(&job, 1);
    second = found_job(&job, 1);
    tell(FLEET_EVENT_RESTORE_DONE);
    assert_int_equal(stopped(0), rig.ids[second].value);
    rig_answer_all(&rig);
    assert_int_equal(view(first).state, JOB_RUNNING);
    assert_int_equal(view(second).state, JOB_RUNNING);
}

static void a_job_on_gpus_that_are_gone_is_stopped_and_may_be_cancelled(void **state)
{
    (void)state;
    struct rig_job job = rig_job(0);
    uint32_t slot;
    uint32_t other;

    restoring(1, 2000);
    slot = found_job(&job, 8);
    other = rig_submit(&rig, &job);
    tell(FLEET_EVENT_RESTORE_DONE);
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_JOB_STOP), 1);
    cancel(slot);
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_JOB_STOP), 0); /* once is enough */
    rig_end(&rig, slot, JOB_LOST);
    assert_int_equal(view(slot).state, JOB_FREE);
    rig_answer_all(&rig);
    assert_int_equal(view(other).state, JOB_RUNNING);
}

static void jobs_of_nobody_we_know_are_refused_at_the_end(void **state)
{
    (void)state;
    struct rig_job job = rig_job(5);
    uint32_t slot;

    restoring(1, 1000);
    slot = rig_submit(&rig, &job);
    found(slot, 1, JOB_RUNNING);
    assert_int_equal(rig.said_count, 0);
    tell(FLEET_EVENT_RESTORE_DONE);
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_JOB_REFUSE), 1);
    assert_int_equal(rig_said(&rig, FLEET_COMMAND_JOB_REFUSE, 0)->reason, JOB_REFUSE_UNKNOWN_TENANT);
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_JOB_STOP), 0); /* the host ends what it has of it */
}

static void one_that_was_being_stopped_goes_back_to_its_place(void **state)
{
    (void)state;
    struct rig_job job = rig_job(0);
    struct fleet_event yielded = told(FLEET_EVENT_JOB_YIELDED);
    uint32_t slot;

    restoring(1, 1000);
    slot = rig_submit(&rig, &job);
    found(slot, 1, JOB_STOPPING);
    tell(FLEET_EVENT_RESTORE_DONE);
    assert_int_equal(rig.said_count, 0);
    yielded.job_progress.job = rig.ids[slot];
    yielded.job_progress.done_ns = HOUR / 2;
    rig_step(&rig, &yielded);
    assert_int_equal(view(slot).state, JOB_PLACING);
}

/* --- notices ---------------------------------------------------------------------------------------------------------------- */

static void gpus_noticed_while_restoring_are_left_at_its_end(void **state)
{
    (void)state;
    struct rig_job job = rig_job(0);
    uint32_t slot;

    restoring(2, 2000);
    slot = found_job(&job, 2);
    node_event(FLEET_EVENT_GPUS_NOTICE, 0, 2);
    assert_int_equal(rig.said_count, 0);
    tell(FLEET_EVENT_RESTORE_DONE);
    assert_int_equal(rig_said(&rig, FLEET_COMMAND_JOB_STOP, 0)->reason, JOB_STOP_NOTICE);
    rig_answer(&rig, FLEET_COMMAND_JOB_STOP);
    rig_answer_all(&rig);
    assert_int_equal(view(slot).state, JOB_RUNNING); /* on the other */
}

/* Two of four GPUs: those on them yield, one is placed elsewhere, the other when they are back. */
static void a_notice_for_a_part_of_a_node_moves_its_jobs(void **state)
{
    (void)state;
    struct rig_job job = rig_job(0);
    struct fleet_event event = told(FLEET_EVENT_GPUS_UP);
    struct devices_place place;
    uint32_t slots[3];
    uint32_t moved = 0;

    OPEN(4000);
    rig_node(&rig, 0, 4, 80 * GB);
    run_some(&job, 3, slots);
    node_event(FLEET_EVENT_GPUS_NOTICE, 0, 3);
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_JOB_STOP), 2);
    assert_int_equal(rig_said(&rig, FLEET_COMMAND_JOB_STOP, 0)->reason, JOB_STOP_NOTICE);
    assert_int_equal(rig_said(&rig, FLEET_COMMAND_JOB_STOP, 0)->job_stop.by_ns, rig.at_ns + 2 * MINUTE);
    rig_answer_all(&rig);
    for (uint32_t i = 0; i < 3; i++) {
        moved += view(slots[i]).state == JOB_RUNNING;
        if (devices_claimed(jobs_devices(fleet_jobs(rig.fleet)), slots[i], &place))
            assert_int_equal(place.gpu_mask & 3, 0);
    }
    assert_int_equal(moved, 2);
    node_event(FLEET_EVENT_GPUS_GONE, 0, 3);
    event.gpus.bytes = 80 * GB;
    event.gpus.price_nano_per_hour = 2500000000;
    event.gpus.gpu_mask = 3;
    event.gpus.model = GPU_H100_80;
    rig_step(&rig, &event);
    rig_answer_all(&rig);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(view(slots[i]).state, JOB_RUNNING);
}

/* --- replicas --------------------------------------------------------------------------------------------------------------- */

static void serve(void)
{
    rig.config.replicas_max = rig.config.jobs.serve_max = 4;
    rig.config.requests_max = 64;
    rig.config.scale = &scale_load;
    rig.config.jobs.serve_flavors = 1;
}

static void scale(uint16_t base, uint16_t first, uint16_t flags)
{
    struct fleet_event event = told(FLEET_EVENT_SCALE);

    event.scale.up_ns = 8 * NS_PER_S;
    event.scale.down_ns = 20 * NS_PER_S;
    event.scale.bytes = 50 * GB;
    event.scale.target_milli = 4000;
    event.scale.up_milli = 1200;
    event.scale.down_milli = 700;
    event.scale.floor = 1;
    event.scale.ceiling = 2;
    event.scale.first = first;
    event.scale.base.value = base;
    event.scale.tp = 1;
    event.scale.flags = flags;
    rig_step(&rig, &event);
}

static void replica(uint32_t index, uint16_t gpu_mask, enum replica_found found_as, uint64_t bytes)
{
    struct fleet_event event = told(FLEET_EVENT_REPLICA_UP);

    event.reason = (uint16_t)found_as;
    event.replica_up.replica = replica_id_make(5, index);
    event.replica_up.bytes = bytes;
    event.replica_up.gpu_mask = gpu_mask;
    rig_step(&rig, &event);
}

static struct scale_counts counts(void)
{
    return fleet_scale_counts(rig.fleet, (base_id){0});
}

static void a_replica_that_was_found_keeps_its_gpu(void **state)
{
    (void)state;
    struct rig_job job = rig_job(0);
    uint32_t slots[2];

    serve();
    restoring(2, 2000);
    scale(0, 0, SCALE_SHARED);
    replica(0, 1, REPLICA_IS_UP, 50 * GB);
    slots[0] = rig_submit(&rig, &job);
    slots[1] = rig_submit(&rig, &job);
    assert_int_equal(rig.said_count, 0);
    tell(FLEET_EVENT_RESTORE_DONE);
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_REPLICA_START), 0); /* the floor is there */
    assert_int_equal(counts().up, 1);
    rig_answer_all(&rig);
    assert_int_equal(view(slots[0]).state, JOB_RUNNING);
    assert_int_equal(view(slots[1]).state, JOB_PENDING);
    assert_int_equal(devices_job_at(jobs_devices(fleet_jobs(rig.fleet)), 0, 0, 0), RIG_JOBS);
}

static void a_replica_that_was_starting_comes_up(void **state)
{
    (void)state;
    struct fleet_event event = told(FLEET_EVENT_REPLICA_UP);

    serve();
    restoring(1, 1000);
    scale(0, 0, SCALE_SHARED);
    replica(0, 1, REPLICA_IS_STARTING, 50 * GB);
    tell(FLEET_EVENT_RESTORE_DONE);
    assert_int_equal(rig.said_count, 0);
    assert_int_equal(counts().starting, 1);
    event.replica_up.replica = replica_id_make(5, 0);
    rig_step(&rig, &event);
    assert_int_equal(counts().up, 1);
}

static void a_replica_that_was_draining_ends_and_its_index_is_used_anew(void **state)
{
    (void)state;
    struct fleet_event event = told(FLEET_EVENT_REPLICA_DOWN);

    serve();
    restoring(2, 1000);
    scale(0, 0, SCALE_SHARED);
    replica(0, 1, REPLICA_IS_DRAINING, 50 * GB);
    tell(FLEET_EVENT_RESTORE_DONE);
    assert_int_equal(counts().draining, 1);
    event.reason = REPLICA_DRAINED;
    event.replica_down.replica = replica_id_make(5, 0);
    rig_step(&rig, &event);
    rig_answer_all(&rig);
    assert_int_equal(counts().draining, 0);
    assert_int_equal(counts().up, 1);
}

/* Another is on its GPU. It serves until all is told, and then drains. */
static void a_replica_without_room_is_drained(void **state)
{
    (void)state;
    struct rig_job job = rig_job(0);
    uint32_t slot;

    serve();
    restoring(2, 2000);
    scale(0, 0, SCALE_SHARED);
    slot = found_job(&job, 1);
    replica(0, 1, REPLICA_IS_UP, 50 * GB);
    assert_int_equal(rig.said_count, 0);
    tell(FLEET_EVENT_RESTORE_DONE);
    assert_int_equal(rig_count(&rig, FLEET_COMMAND_REPLICA_DRAIN), 1);
    assert_int_equal(rig_said(&rig, FLEET_COMMAND_REPLICA_DRAIN, 0)->reason, JOB_STOP_STRAY);
    assert_int_equal(view(slot).state, JOB_RUNNING);
    rig_answer_all(&rig);
    assert_int_equal(counts().up, 1); /* another, on the other GPU */
    assert_int_equal(counts().draining, 0);
}

static void a_lost_replicas_generation_is_not_given_again(void **state)
{
    (void)state;
    struct fleet_event event = told(FLEET_EVENT_REPLICA_DOWN);

    serve();
    restoring(1, 1000);
    scale(0, 0, SCALE_SHARED);
    event.replica_down.replica = replica_id_make(8, 0);
    rig_step(&rig, &event);
    tell(FLEET_EVENT_RESTORE_DONE);
    rig_answer(&rig, FLEET_COMMAND_BASE_LOAD);
    assert_int_equal(rig_said(&rig, FLEET_COMMAND_REPLICA_START, 0)->replica_start.replica.value, replica_id_make(9, 0).value);
}

/* A replica has its GPU to itself, whatever isolation a job asks for: two bases with one each, and a job, need three. */
static void two_bases_and_a_job_need_three_gpus(void **state)
{
    (void)state;
    struct rig_job job = rig_job(0);
    uint32_t slot;

    serve();
    OPEN(2000);
    rig_base(&rig, 2, 16 * GB, 1, 10 * NS_PER_S);
    rig_node(&rig, 0, 2, 80 * GB);
    scale(0, 0, SCALE_SHARED);
    scale(2, 2, SCALE_SHARED);
    rig_answer_all(&rig);
    job.isolation = ISOLATION_MPS;
    slot = rig_submit(&rig, &job);
    assert_int_equal(fleet_scale_counts(rig.fleet, (base_id){0}).up, 1);
    assert_int_equal(fleet_scale_counts(rig.fleet, (base_id){2}).up, 1);
    assert_int_equal(view(slot).state, JOB_PENDING);
    assert_int_equal(view(slot).wait, JOB_WAIT_CAPACITY);
}

/* --- the export --------------------------------------------------------------------------------------------------------------- */

static void an_export_restores_what_is_there(void **state)
{
    (void)state;
    struct rig_job job = rig_job(0);
    struct restored again = {0};
    char text[160];

    serve();
    OPEN(4000);
    rig_node(&rig, 0, 4, 80 * GB);
    scale(0, 0, SCALE_SHARED);
    rig_answer_all(&rig);
    for (uint32_t i = 0; i < 5; i++)
        rig_submit(&rig, &job);
    rig_answer_all(&rig);
    node_event(FLEET_EVENT_GPUS_NOTICE, 0, 8);
    restored_open(&again, rig.fleet, &rig.config);
    assert_int_equal(again.exported.requests, 0);
    assert_int_equal(again.exported.plans, 0);
    assert_int_equal(again.said.count, 0);
    if (restored_differs(rig.fleet, again.fleet, text, sizeof(text)))
        fail_msg("%s", text);
    assert_int_equal(fleet_scale_counts(again.fleet, (base_id){0}).up, 1);
    restored_close(&again);
}

/* Requests are counted and not told: whoever waits for them asks again. */
static void an_export_counts_the_requests_that_it_leaves_out(void **state)
{
    (void)state;
    struct fleet_event event = told(FLEET_EVENT_REQUEST);
    struct restored again = {0};

    serve();
    OPEN(4000);
    rig_node(&rig, 0, 1, 80 * GB);
    scale(0, 0, SCALE_SHARED);
    rig_answer_all(&rig);
    event.request.request = request_id_make(1, 3);
    fleet_step(rig.fleet, &(struct fleet_event){.at_ns = rig.at_ns, .kind = FLEET_EVENT_TICK}, &rig.out);
    event.at_ns = rig.at_ns;
    fleet_step(rig.fleet, &event, &rig.out);
    assert_int_equal(rig.out.items[0].kind, FLEET_COMMAND_ROUTE);
    restored_open(&again, rig.fleet, &rig.config);
    assert_int_equal(again.exported.requests, 1);
    assert_int_equal(fleet_outstanding(again.fleet, replica_id_make(0, 0)), 0);
    fleet_step(again.fleet, &event, &again.said); /* the same slot is free */
    assert_int_equal(again.said.items[0].kind, FLEET_COMMAND_ROUTE);
    restored_close(&again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_job_that_was_found_runs_on_with_its_lease),
        TEST(nothing_is_said_and_nobody_placed_before_all_is_told),
        TEST(a_base_without_users_is_used_again),
        TEST(a_base_on_its_way_starts_the_job_that_waits_for_it),
        TEST(pending_jobs_keep_their_turn),
        TEST(usage_keeps_the_order_of_shares),
        TEST(above_a_quota_that_has_shrunk_it_stays),
        TEST(a_job_that_no_longer_fits_is_stopped_and_waits),
        TEST(a_job_on_a_gpu_of_another_is_stopped_and_placed_elsewhere),
        TEST(a_job_on_gpus_that_are_gone_is_stopped_and_may_be_cancelled),
        TEST(jobs_of_nobody_we_know_are_refused_at_the_end),
        TEST(one_that_was_being_stopped_goes_back_to_its_place),
        TEST(gpus_noticed_while_restoring_are_left_at_its_end),
        TEST(a_notice_for_a_part_of_a_node_moves_its_jobs),
        TEST(a_replica_that_was_found_keeps_its_gpu),
        TEST(a_replica_that_was_starting_comes_up),
        TEST(a_replica_that_was_draining_ends_and_its_index_is_used_anew),
        TEST(a_replica_without_room_is_drained),
        TEST(a_lost_replicas_generation_is_not_given_again),
        TEST(two_bases_and_a_job_need_three_gpus),
        TEST(an_export_restores_what_is_there),
        TEST(an_export_counts_the_requests_that_it_leaves_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
