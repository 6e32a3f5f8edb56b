/* The driver and the real fleet core: whatever the driver says, the core's own checks hold, and what the core says is done. */
#include "rig.h"

#include <pthread.h>
#include <stdlib.h>

#include "fleet/fleet.h"

#define DEVICES 2

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fleet *fleet;
static int64_t now_ns;
static uint64_t seq;

static void step(struct fleet_event event);

static void perform(const struct fleet_command *command)
{
    struct fleet_event loaded;

    if (command->kind != FLEET_COMMAND_BASE_LOAD) {
        if (command->kind != FLEET_COMMAND_BASE_DROP)
            rig_command(command);
        return;
    }
    memset(&loaded, 0, sizeof(loaded));
    loaded.kind = FLEET_EVENT_BASE_LOADED;
    loaded.answers = command->id;
    loaded.base_loaded.node = command->base_load.node;
    loaded.base_loaded.gpu_mask = command->base_load.gpu_mask;
    loaded.base_loaded.base = command->base_load.base;
    step(loaded);
}

static void step(struct fleet_event event)
{
    static struct fleet_commands out; /* one at a time: what it leads to is said after */
    struct fleet_commands said;

    event.at_ns = now_ns += NS_PER_MS;
    event.seq = ++seq;
    out.count = 0;
    fleet_step(fleet, &event, &out);
    fleet_check(fleet);
    said = out;
    for (uint32_t i = 0; i < said.count; i++)
        perform(&said.items[i]);
    if (fleet_wakeup_at_ns(fleet) <= now_ns) {
        struct fleet_event tick;

        memset(&tick, 0, sizeof(tick));
        tick.kind = FLEET_EVENT_TICK;
        step(tick);
    }
}

static void tell(const struct fleet_event *event)
{
    pthread_mutex_lock(&lock);
    step(*event);
    pthread_mutex_unlock(&lock);
}

static struct fleet_event event_of(enum fleet_event_kind kind)
{
    struct fleet_event event;

    memset(&event, 0, sizeof(event));
    event.kind = (uint16_t)kind;
    return event;
}

static void devices(enum fleet_event_kind kind, uint32_t count, int64_t gone_in_ns)
{
    struct fleet_event event = event_of(kind);

    event.gpus.bytes = UINT64_C(1) << 34;
    event.gpus.gpu_mask = (uint16_t)((1u << count) - 1);
    pthread_mutex_lock(&lock);
    event.gpus.gone_at_ns = now_ns + gone_in_ns;
    step(event);
    pthread_mutex_unlock(&lock);
}

/* It hears what there is; the driver says the rest, and that this was all. */
static void begin_fleet(uint32_t devices_count)
{
    struct fleet_config config = {.replicas_max = 4, .nodes_max = 4, .bases_max = 1, .adapters_max = 16, .requests_max = 16,
                                  .route = route_policy_find("affinity"), .bound_milli = 1250, .bound_add = 4, .hot_share_milli = 500,
                                  .cool_milli = 750, .rate_half_life_ns = 60 * NS_PER_S};
    struct fleet_event event = event_of(FLEET_EVENT_RESTORE);
    size_t bytes;

    config.jobs = (struct jobs_config){.jobs_max = 64, .tenants_max = 16, .cohorts_max = 17, .bases_max = 1, .nodes_max = 1,
                                       .holdings_max = DEVICES + 1, .flavors_max = 1, .sharers_max = 1, .order = order_policy_find("wfq"),
                                       .place = place_policy_find("residency"), .half_life_ns = 3600 * NS_PER_S, .usage_factor_milli = 1000,
                                       .payback_milli = 1000, .preempt_delay_ns = NS_PER_S, .victims_max = 16, .reservations_max = 1};
    for (uint32_t k = 1; k <= SHARERS_MAX; k++)
        config.jobs.eta_milli[k] = 1000;
    bytes = fleet_bytes(&config);
    fleet = fleet_create(aligned_alloc(64, (bytes + 63) & ~(size_t)63), bytes, &config);
    now_ns = NS_PER_S;
    seq = 0;
    step(event);
    event = event_of(FLEET_EVENT_BASE_KNOWN);
    event.base_known.bytes = 1 << 20;
    event.base_known.load_ns = 1000; /* a load pays for the smallest job */
    event.base_known.gpus = 1;
    step(event);
    devices(FLEET_EVENT_GPUS_UP, devices_count, 0);
    rig_tell_also(tell);
}

static void begin(struct rig *rig)
{
    begin_fleet(DEVICES);
    rig_begin(rig);
}

static void end(struct rig *rig)
{
    rig_end(rig);
    rig_tell_also(NULL);
    free(fleet);
}

/* The next validator takes the files. */
static void pass(struct rig *rig, uint32_t n)
{
    played_runs(rig_worker(n));
    played_hello(rig_worker(n));
    played_report(rig, rig_worker(n), true, "{}");
    played_exits(rig_worker(n), 0);
}

static void add_file(struct rig *rig)
{
    const uint32_t n = rig_workers();

    rig_add_file(rig, "{}\n", rig->file);
    pass(rig, n);
}

/* Its trainer, running; the core has room for it. */
static struct played *add_running(struct rig *rig)
{
    const uint32_t n = rig_workers();

    rig_add_job(rig, rig->file);
    pass(rig, n);
    played_runs(rig_worker(n + 1));
    played_hello(rig_worker(n + 1));
    rig_wait_job(rig, "running");
    return rig_worker(n + 1);
}

static void tenant_that_came_later_is_told_first(void **state)
{
    struct refusal refusal;
    struct rig rig;

    (void)state;
    begin(&rig);
    assert_int_equal(meta_tenant_add(rig.metadata, "late", 1, rig.acme, &refusal), STATUS_OK);
    add_file(&rig);
    (void)add_running(&rig);
    end(&rig);
}

static void job_runs_crashes_and_succeeds(void **state)
{
    struct played *trainer;
    struct rig rig;
    uint32_t n;

    (void)state;
    begin(&rig);
    add_file(&rig);
    trainer = add_running(&rig);
    played_progress(trainer, 1, 10);
    played_state(&rig, trainer, 4);
    n = rig_workers();
    played_exits(trainer, 11);
    trainer = rig_worker(n); /* placed again at once */
    played_runs(trainer);
    played_hello(trainer);
    played_progress(trainer, 5, 10);
    played_state(&rig, trainer, 8);
    played_result(&rig, trainer, 10);
    rig_wait_job(&rig, "succeeded");
    played_exits(trainer, 0);
    end(&rig);
}

static void third_job_waits_for_two_devices(void **state)
{
    struct driver_job view;
    struct played *first;
    struct played *second;
    struct rig rig;
    uint32_t n;

    (void)state;
    begin(&rig);
    add_file(&rig);
    first = add_running(&rig);
    second = add_running(&rig);
    n = rig_workers();
    rig_add_job(&rig, rig.file);
    pass(&rig, n);
    rig_wait_a_moment();
    assert_int_equal(rig_workers(), n + 1);
    assert_true(driver_job_view(rig.driver, rig.job, &view));
    assert_int_equal(view.queue_position, 1);
    played_exits(first, 11);  /* its turn is before the third's: it has waited longer */
    assert_int_equal(rig_worker(n + 1)->launch.attempt, 2);
    played_exits(second, 11);
    assert_int_equal(rig_worker(n + 2)->launch.attempt, 2);
    end(&rig);
}

static void jobs_are_cancelled_waiting_and_running(void **state)
{
    struct meta_job_move move = {.target = META_JOB_NO_TARGET, .crash_step = META_NONE};
    struct refusal refusal;
    struct played *running;
    char job[NAME_BYTES];
    struct rig rig;
    uint32_t n;

    (void)state;
    begin(&rig);
    add_file(&rig);
    running = add_running(&rig);
    memcpy(job, rig.job, sizeof(job));
    (void)add_running(&rig);
    n = rig_workers();
    rig_add_job(&rig, rig.file);
    pass(&rig, n);
    move.tenant = rig.acme;
    move.id = rig.job;
    move.from = META_JOB_QUEUED;
    move.to = META_JOB_CANCELLED;
    assert_int_equal(meta_job_move(rig.metadata, &move, 1, NULL, &refusal), STATUS_OK);
    driver_job_changed(rig.driver, rig.acme, rig.job);
    move.id = job;
    move.from = META_JOB_RUNNING;
    move.attempt = 1;
    move.to = META_JOB_STOPPING;
    move.target = META_JOB_CANCELLED;
    assert_int_equal(meta_job_move(rig.metadata, &move, 1, NULL, &refusal), STATUS_OK);
    driver_job_changed(rig.driver, rig.acme, job);
    rig_wait_ended(running);
    played_exits(running, 137);
    n = rig_workers();
    (void)add_running(&rig); /* the place is free for another */
    end(&rig);
}

static void notice_clears_the_devices(void **state)
{
    struct played *trainer;
    struct rig rig;
    uint32_t n;

    (void)state;
    begin(&rig);
    add_file(&rig);
    trainer = add_running(&rig);
    rig_wait_asked(trainer, 1);
    devices(FLEET_EVENT_GPUS_NOTICE, DEVICES, 5 * NS_PER_S);
    rig_wait_asked(trainer, 2);
    played_state(&rig, trainer, 3);
    n = rig_workers();
    played_exits(trainer, 0);
    rig_wait_job(&rig, "queued");
    devices(FLEET_EVENT_GPUS_GONE, DEVICES, 0);
    rig_wait_a_moment();
    assert_int_equal(rig_workers(), n);
    devices(FLEET_EVENT_GPUS_UP, DEVICES, 0);
    assert_int_equal(rig_worker(n)->launch.attempt, 2);
    end(&rig);
}

/* Both wait for the device; the one whose job came first had half a day of devices before the control plane was started anew. */
static void shares_are_as_they_were_before_a_restart(void **state)
{
    struct refusal refusal;
    struct rig rig;
    uint32_t n;

    (void)state;
    begin(&rig);
    add_file(&rig);
    devices(FLEET_EVENT_GPUS_NOTICE, DEVICES, 0);
    devices(FLEET_EVENT_GPUS_GONE, DEVICES, 0);
    n = rig_workers();
    rig_add_job(&rig, rig.file);
    pass(&rig, n);
    assert_int_equal(meta_tenant_used(rig.metadata, rig.acme, META_SHARE_HALF_LIFE_MS / 2, 1, &refusal), STATUS_OK);
    assert_int_equal(meta_tenant_add(rig.metadata, "other", 1, rig.acme, &refusal), STATUS_OK);
    add_file(&rig);
    n = rig_workers();
    rig_add_job(&rig, rig.file);
    pass(&rig, n);
    rig_wait_job(&rig, "queued");
    n = rig_workers();
    rig_stop(&rig);
    free(fleet);
    begin_fleet(1);
    rig_start(&rig);
    assert_string_equal(json_string_value(json_object_get(rig_worker(n)->settings, "tenant")), rig.acme);
    end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(job_runs_crashes_and_succeeds),
        cmocka_unit_test(tenant_that_came_later_is_told_first),
        cmocka_unit_test(third_job_waits_for_two_devices),
        cmocka_unit_test(jobs_are_cancelled_waiting_and_running),
        cmocka_unit_test(notice_clears_the_devices),
        cmocka_unit_test(shares_are_as_they_were_before_a_restart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
