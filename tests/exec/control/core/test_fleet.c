/* What the fleet core says and is told: jobs' devices, devices that are taken back, a journal that tells it all again. */
#include <unistd.h>

#include "base/hash.h"
#include "fleet/fleet.h"
#include "fleet/pack.h"
#include "rig.h"

static void tell_job_of(struct rig *rig, uint32_t tenant, job_id job)
{
    struct fleet_event event;

    memset(&event, 0, sizeof(event));
    event.kind = FLEET_EVENT_TENANT;
    event.tenant.tenant = tenant;
    event.tenant.cohort = NO_COHORT;
    event.tenant.weight_milli = 1000;
    event.tenant.nominal_milli = 4000;
    event.tenant.borrowing_milli = event.tenant.lending_milli = QUOTA_UNLIMITED;
    OK(rig, core_tell(rig->core, &event));
    memset(&event, 0, sizeof(event));
    event.kind = FLEET_EVENT_JOB;
    event.job.job = job;
    event.job.size_ns = 60 * NS_PER_S;
    event.job.deadline_at_ns = NEVER_NS;
    event.job.bytes = 1000;
    event.job.tenant.value = tenant;
    event.job.gpus = 1;
    event.job.rank = 8;
    event.job.flags = JOB_PREEMPTIBLE;
    OK(rig, core_tell(rig->core, &event));
}

static void tell_job(struct rig *rig, job_id job)
{
    tell_job_of(rig, 1, job);
}

static void tell_progress(struct rig *rig, enum fleet_event_kind kind, job_id job, uint64_t answers)
{
    struct fleet_event event;

    memset(&event, 0, sizeof(event));
    event.kind = (uint16_t)kind;
    event.answers = answers;
    event.job_progress.job = job;
    OK(rig, core_tell(rig->core, &event));
}

/* With its trainer, found there. */
static void tell_found(struct rig *rig, job_id job, uint16_t gpu_mask)
{
    struct fleet_event event;

    tell_job(rig, job);
    memset(&event, 0, sizeof(event));
    event.kind = FLEET_EVENT_JOB_KEPT;
    event.job_kept.job = job;
    event.job_kept.attempt = 1;
    OK(rig, core_tell(rig->core, &event));
    memset(&event, 0, sizeof(event));
    event.kind = FLEET_EVENT_JOB_FOUND;
    event.job_found.job = job;
    event.job_found.charged_ns = FOUND_UNCHARGED;
    event.job_found.gpu_mask = gpu_mask;
    event.job_found.state = JOB_RUNNING;
    OK(rig, core_tell(rig->core, &event));
}

/* Of four devices three serve; the job has the fourth, whose base is its process's to load. */
static void a_job_is_placed_beside_the_servers(void **state)
{
    const job_id job = job_id_make(1, 0);
    const struct fleet_command *place;
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    rig.config.devices = 4;
    rig_up(&rig);
    tell_job(&rig, job);
    UNTIL(&rig, rig.seen.commands_count == 1);
    place = &rig.seen.commands[0];
    assert_int_equal(place->kind, FLEET_COMMAND_JOB_PLACE);
    assert_int_equal(place->job_place.job.value, job.value);
    assert_int_equal(place->job_place.node.value, 0);
    assert_int_equal(__builtin_popcount(place->job_place.gpu_mask), 1);
    for (uint32_t i = 0; i < 3; i++) {
        struct meta_results results = {0};
        struct meta_worker row;
        char devices[32];
        char id[NAME_BYTES];

        core_worker_id(rig_server(&rig, i / 2, i % 2)->launch.worker, id);
        OK(&rig, meta_worker_get(rig.metadata, id, &results, &row, &rig.refusal));
        snprintf(devices, sizeof(devices), "\"devices\":%u,", (unsigned)place->job_place.gpu_mask);
        assert_null(strstr(row.placement, devices));
        meta_results_free(&results);
    }
    tell_progress(&rig, FLEET_EVENT_JOB_STARTED, job, place->id);
    tell_progress(&rig, FLEET_EVENT_JOB_CANCEL, job, 0);
    UNTIL(&rig, rig.seen.commands_count == 2);
    assert_int_equal(rig.seen.commands[1].kind, FLEET_COMMAND_JOB_STOP);
    tell_progress(&rig, FLEET_EVENT_JOB_YIELDED, job, rig.seen.commands[1].id);
    rig_turn_for(&rig, 10);
    rig_end(&rig);
}

/* Each process loads its base itself, so a small job of a large base has nobody's load to wait for. */
static void a_job_waits_for_no_company(void **state)
{
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    rig.config.devices = 4;
    for (uint32_t i = 0; i < rig.config.bases_count; i++)
        rig.bases[i].load_ns = 3600 * NS_PER_S;
    rig_up(&rig);
    tell_job(&rig, job_id_make(1, 0));
    UNTIL(&rig, rig.seen.commands_count == 1);
    assert_int_equal(rig.seen.commands[0].kind, FLEET_COMMAND_JOB_PLACE);
    rig_end(&rig);
}

/* Two control planes later a job that waits is placed where no server stands, and not before all was told. */
static void a_job_that_waits_takes_no_servers_place(void **state)
{
    const job_id job = job_id_make(1, 0);
    uint64_t servers[3];
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    rig.config.devices = 4;
    rig_up(&rig);
    for (uint32_t i = 0; i < 3; i++)
        servers[i] = rig_server(&rig, i / 2, i % 2)->launch.worker;
    for (uint32_t life = 0; life < 2; life++) {
        rig_core_gone(&rig);
        rig_open(&rig);
        tell_job(&rig, job);
        UNTIL(&rig, rig.seen.of[CORE_HEARD_LISTED] == life + 2);
        rig_turn_for(&rig, 20);
        assert_int_equal(rig.seen.commands_count, life);
        OK(&rig, core_restored(rig.core));
        UNTIL(&rig, rig.seen.commands_count == life + 1);
        assert_int_equal(rig.seen.commands[life].kind, FLEET_COMMAND_JOB_PLACE);
        UNTIL(&rig, core_counts(rig.core).servers_up == 3);
        for (uint32_t i = 0; i < 3; i++)
            assert_true(rig_worker(&rig, servers[i]) != NULL && !rig_worker(&rig, servers[i])->has_exited);
    }
    rig_end(&rig);
}

/* Two control planes later a job whose trainer lives has its device still, and none of the servers' moved for it. What happens while all
 * is told is heard after it: here that one waits, and that another's trainer ends. */
static void a_job_that_was_found_keeps_its_device(void **state)
{
    const job_id runs = job_id_make(1, 0);
    const job_id waits = job_id_make(2, 1);
    uint64_t servers[3];
    uint16_t mask;
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    rig.config.devices = 4;
    rig_up(&rig);
    for (uint32_t i = 0; i < 3; i++)
        servers[i] = rig_server(&rig, i / 2, i % 2)->launch.worker;
    tell_job(&rig, runs);
    UNTIL(&rig, rig.seen.commands_count == 1);
    mask = rig.seen.commands[0].job_place.gpu_mask;
    for (uint32_t life = 0; life < 2; life++) {
        rig_core_gone(&rig);
        rig_open(&rig);
        tell_job(&rig, waits);
        tell_found(&rig, runs, mask);
        if (life == 1)
            tell_progress(&rig, FLEET_EVENT_JOB_ENDED, runs, 0);
        OK(&rig, core_restored(rig.core));
        UNTIL(&rig, core_counts(rig.core).servers_up == 3);
        rig_turn_for(&rig, 20);
        assert_int_equal(rig.seen.commands_count, 1 + life);
        for (uint32_t i = 0; i < 3; i++)
            assert_true(rig_worker(&rig, servers[i]) != NULL && !rig_worker(&rig, servers[i])->has_exited);
    }
    assert_int_equal(rig.seen.commands[1].kind, FLEET_COMMAND_JOB_PLACE);
    assert_int_equal(rig.seen.commands[1].job_place.job.value, waits.value);
    assert_int_equal(rig.seen.commands[1].job_place.gpu_mask, mask);
    rig_end(&rig);
}

/* Whoever used more before the restart waits longer, though its job came first. */
static void shares_go_on_after_a_restart(void **state)
{
    const job_id runs = job_id_make(1, 0);
    const job_id first = job_id_make(2, 1);
    const job_id second = job_id_make(3, 2);
    struct fleet_event usage;
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    rig.config.devices = 4;
    rig_up(&rig);
    tell_job(&rig, runs);
    UNTIL(&rig, rig.seen.commands_count == 1);
    rig_core_gone(&rig);
    rig_open(&rig);
    tell_job_of(&rig, 2, first);
    memset(&usage, 0, sizeof(usage));
    usage.kind = FLEET_EVENT_TENANT_USAGE;
    usage.tenant_usage.tenant.value = 2;
    usage.tenant_usage.gpu_ns = 3600 * NS_PER_S;
    OK(&rig, core_tell(rig.core, &usage));
    tell_job(&rig, second);
    tell_found(&rig, runs, rig.seen.commands[0].job_place.gpu_mask);
    OK(&rig, core_restored(rig.core));
    tell_progress(&rig, FLEET_EVENT_JOB_ENDED, runs, 0);
    UNTIL(&rig, rig.seen.commands_count == 2);
    assert_int_equal(rig.seen.commands[1].kind, FLEET_COMMAND_JOB_PLACE);
    assert_int_equal(rig.seen.commands[1].job_place.job.value, second.value);
    rig_end(&rig);
}

/* This node has fewer devices than the last one. */
static void a_job_found_where_no_device_is_stops_and_is_placed_again(void **state)
{
    const job_id job = job_id_make(1, 0);
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    rig.config.devices = 4;
    rig_open(&rig);
    tell_found(&rig, job, 1 << 7);
    OK(&rig, core_restored(rig.core));
    UNTIL(&rig, rig.seen.commands_count == 1);
    assert_int_equal(rig.seen.commands[0].kind, FLEET_COMMAND_JOB_STOP);
    assert_int_equal(rig.seen.commands[0].reason, JOB_STOP_STRAY);
    tell_progress(&rig, FLEET_EVENT_JOB_YIELDED, job, rig.seen.commands[0].id);
    UNTIL(&rig, rig.seen.commands_count == 2);
    assert_int_equal(rig.seen.commands[1].kind, FLEET_COMMAND_JOB_PLACE);
    rig_end(&rig);
}

/* A server on such a device drains in time, or is ended; it comes back with the device. */
static void servers_leave_devices_that_are_taken_back(void **state)
{
    struct answer answer = {0};
    struct actor *server;
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    rig_up(&rig);
    for (uint32_t i = 0; i < 2; i++) {
        OK(&rig, rig_ask(&rig, 1, NULL, 10, &answer));
        UNTIL(&rig, (server = rig_has(&rig, answer.request)) != NULL);
        answer.ends = 0;
        OK(&rig, core_notice(rig.core, 3, 300));
        UNTIL(&rig, server->is_drained);
        if (i == 0) { /* in time */
            actor_done(server, answer.request, CORE_END_STOP);
            UNTIL(&rig, answer.ends == 1);
        }
        UNTIL(&rig, core_counts(rig.core).servers == 0);
        assert_int_equal(server->end.by_signal, i == 1);
        rig_turn_for(&rig, 20);
        OK(&rig, core_notice(rig.core, 0, 0));
        UNTIL(&rig, core_counts(rig.core).servers_up == 3);
    }
    UNTIL(&rig, rig_has(&rig, answer.request) != NULL && !rig_has(&rig, answer.request)->has_exited);
    rig_end(&rig);
}

/* The same core again from the journal's words, told the same, has the same digest at each step. */
static void a_journal_tells_it_all_again(void **state)
{
    struct answer answers[5] = {{0}};
    struct journal_header header;
    struct journal_tail tail;
    struct fleet_config config;
    struct fleet_event event;
    struct fleet *fleet;
    uint64_t chain;
    uint32_t steps = 0;
    void *memory;
    FILE *file;
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    rig.config.journal = scratch_at(&rig.scratch, "fleet.journal");
    rig_up(&rig);
    for (uint32_t i = 0; i < 5; i++) {
        OK(&rig, rig_ask(&rig, i % 2, NULL, 10, &answers[i]));
        UNTIL(&rig, rig_has(&rig, answers[i].request) != NULL);
        actor_done(rig_has(&rig, answers[i].request), answers[i].request, CORE_END_STOP);
    }
    rig_core_gone(&rig);
    file = fopen(rig.config.journal, "rb");
    assert_non_null(file);
    assert_int_equal(fread(&header, sizeof(header), 1, file), 1);
    assert_true(journal_header_check(&header));
    assert_int_equal(fleet_config_unpack(&(struct journal_words){.words = header.words}, &config), STATUS_OK);
    memory = malloc(fleet_bytes(&config));
    fleet = fleet_create(memory, fleet_bytes(&config), &config);
    chain = header.checksum;
    while (fread(&event, sizeof(event), 1, file) == 1) {
        struct fleet_commands commands = {0};

        assert_int_equal(fread(&tail, sizeof(tail), 1, file), 1);
        assert_true(journal_check(&chain, &event, sizeof(event), &tail));
        fleet_step(fleet, &event, &commands);
        assert_int_equal(fleet_digest(fleet), tail.digest);
        assert_int_equal(hash_bytes(0, commands.items, commands.count * sizeof(commands.items[0])), tail.commands_digest);
        steps++;
    }
    assert_true(steps > 15);
    fclose(file);
    free(memory);
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_is_placed_beside_the_servers),
        cmocka_unit_test(a_job_waits_for_no_company),
        cmocka_unit_test(a_job_that_waits_takes_no_servers_place),
        cmocka_unit_test(a_job_that_was_found_keeps_its_device),
        cmocka_unit_test(shares_go_on_after_a_restart),
        cmocka_unit_test(a_job_found_where_no_device_is_stops_and_is_placed_again),
        cmocka_unit_test(servers_leave_devices_that_are_taken_back),
        cmocka_unit_test(a_journal_tells_it_all_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
