/* Usage, money, the audit log, deletions, and what a restart is told. */
#include "control/metadata/audit.h"
#include "control/metadata/deletion.h"
#include "control/metadata/restore.h"
#include "control/metadata/usage.h"
#include "rig.h"

/* --- usage ------------------------------------------------------------------------------------------------------------------ */

/* A server that sends each record once or more, in batches that overlap, from where it was last acked or before; between them it says
 * other things, which take numbers too. */
static void a_usage_record_counts_once(void **state)
{
    const uint64_t seed = test_seed(5);
    const struct meta_worker_new worker = {.id = "worker-s", .kind = "server", .placement = "{}"};
    struct meta_usage records[200];
    struct meta_usage_sum *sums;
    struct meta_worker row;
    struct world world;
    uint64_t random = seed;
    int64_t in[2][3] = {{0}};
    int64_t acked = 0;
    int64_t told_seq = 0;
    uint32_t told = 0; /* records with numbers up to it */
    uint32_t count;
    bool more;

    (void)state;
    world_begin(&world);
    world_populate(&world);
    OK(&world, meta_worker_add(world.metadata, &worker, NOW, &world.refusal));
    for (int i = 0; i < 200; i++) {
        const uint64_t model = draw_below(&random, 2);
        const uint64_t hour = draw_below(&random, 3);

        records[i] = (struct meta_usage){.seq = 3 * i + 2, .tenant = i % 5 == 0 ? world.other.id : world.acme.id,
                                         .model = model == 0 ? "m0" : "m1", .hour = 100 + (int64_t)hour,
                                         .tokens_in = (int64_t)draw_below(&random, 1000), .tokens_out = 1};
        if (i % 5 != 0)
            in[model][hour] += records[i].tokens_in;
    }
    while (told < 200) {
        const uint64_t from = draw_below(&random, told + 1);
        const uint64_t many = min_u64(1 + draw_below(&random, 40), 200 - from);

        OK(&world, meta_usage_add(world.metadata, worker.id, &records[from], (uint32_t)many, &acked, &world.refusal));
        told = max_u32(told, (uint32_t)(from + many));
        told_seq = max_i64(told_seq, records[told - 1].seq);
        assert_int_equal(acked, told_seq);
        if (draw_below(&random, 2) == 0) { /* what was said after it is on disk too, and not what comes before */
            told_seq = records[told - 1].seq + 1;
            OK(&world, meta_worker_ack(world.metadata, worker.id, told_seq, &world.refusal));
            OK(&world, meta_worker_ack(world.metadata, worker.id, told_seq - 1, &world.refusal));
            OK(&world, meta_worker_get(world.metadata, worker.id, &world.results, &row, &world.refusal));
            assert_int_equal(row.acked_seq, told_seq);
        }
    }
    acked = told_seq;
    assert_int_equal(meta_worker_ack(world.metadata, "worker-none", 1, &world.refusal), STATUS_NOT_FOUND);
    OK(&world, meta_usage_sums(world.metadata, world.acme.id, 100, 103, 10, &world.results, &sums, &count, &more, &world.refusal));
    assert_int_equal(count, 6);
    for (uint32_t i = 0; i < 6; i++) {
        assert_string_equal(sums[i].model, i < 3 ? "m0" : "m1");
        assert_int_equal(sums[i].hour, 100 + i % 3);
        assert_int_equal(sums[i].tokens_in, in[i / 3][i % 3]);
        assert_int_equal(sums[i].tokens_out, sums[i].records);
    }
    OK(&world, meta_usage_sums(world.metadata, world.acme.id, 101, 102, 10, &world.results, &sums, &count, &more, &world.refusal));
    assert_int_equal(count, 2);
    /* All or none. */
    records[0] = (struct meta_usage){.seq = 701, .tenant = world.acme.id, .model = "m0", .hour = 500, .tokens_in = 1, .tokens_out = 1};
    records[1] = (struct meta_usage){.seq = 702, .tenant = "org-none", .model = "m0", .hour = 500, .tokens_in = 1, .tokens_out = 1};
    assert_int_equal(meta_usage_add(world.metadata, worker.id, records, 2, &acked, &world.refusal), STATUS_INVALID);
    records[1].tenant = world.acme.id;
    records[1].tokens_in = -1;
    assert_int_equal(meta_usage_add(world.metadata, worker.id, records, 2, &acked, &world.refusal), STATUS_INVALID);
    records[1].tokens_in = 1;
    records[1].seq = 701;
    assert_int_equal(meta_usage_add(world.metadata, worker.id, records, 2, &acked, &world.refusal), STATUS_INVALID);
    assert_int_equal(acked, told_seq);
    OK(&world, meta_usage_sums(world.metadata, world.acme.id, 500, 501, 10, &world.results, &sums, &count, &more, &world.refusal));
    assert_int_equal(count, 0);
    assert_int_equal(meta_usage_add(world.metadata, "worker-none", records, 1, &acked, &world.refusal), STATUS_INVALID);
    world_end(&world);
}

/* In the hour in which a job ended, with all attempts; beside the answers of its base. */
static void trainings_are_used_device_time(void **state)
{
    const struct meta_worker_new worker = {"worker-a", "server", "{}"};
    struct meta_usage record = {.seq = 1, .model = "tiny", .hour = NOW / 3600000, .tokens_in = 13, .tokens_out = 5};
    struct meta_job_move move = {.from = META_JOB_STOPPING, .attempt = 1, .target = META_JOB_NO_TARGET, .crash_step = META_NONE, .gpu_ms = 700};
    struct meta_usage_sum *sums;
    struct world world;
    int64_t acked;
    uint32_t count;
    bool more;

    (void)state;
    world_begin(&world);
    world_populate(&world);
    OK(&world, meta_worker_add(world.metadata, &worker, NOW, &world.refusal));
    record.tenant = world.acme.id;
    OK(&world, meta_usage_add(world.metadata, worker.id, &record, 1, &acked, &world.refusal));
    world_bring(&world, world.acme.id, world.acme.job, META_JOB_STOPPING, META_JOB_PAUSED);
    OK(&world, meta_job_progress(world.metadata, world.acme.id, world.acme.job, 1, 5, 100, &world.refusal));
    move.tenant = world.acme.id;
    move.id = world.acme.job;
    move.to = META_JOB_PAUSED;
    OK(&world, meta_job_move(world.metadata, &move, NOW, NULL, &world.refusal));
    for (int ended = 0; ended < 2; ended++) {
        OK(&world, meta_usage_sums(world.metadata, world.acme.id, record.hour, record.hour + 1, 10, &world.results, &sums, &count, &more, &world.refusal));
        assert_int_equal(count, 1);
        assert_int_equal(sums[0].records, 1);
        assert_int_equal(sums[0].tokens_in, 13);
        assert_int_equal(sums[0].jobs, ended);
        assert_int_equal(sums[0].gpu_ms, ended * 700);
        assert_int_equal(sums[0].trained_tokens, ended * 100);
        move.from = META_JOB_PAUSED;
        move.to = META_JOB_CANCELLED;
        move.gpu_ms = 0;
        if (!ended)
            OK(&world, meta_job_move(world.metadata, &move, NOW, NULL, &world.refusal));
    }
    OK(&world, meta_usage_sums(world.metadata, world.acme.id, record.hour + 1, record.hour + 2, 10, &world.results, &sums, &count, &more, &world.refusal));
    assert_int_equal(count, 0);
    OK(&world, meta_usage_sums(world.metadata, world.other.id, record.hour, record.hour + 1, 10, &world.results, &sums, &count, &more, &world.refusal));
    assert_int_equal(count, 0);
    world_end(&world);
}

static void a_charge_counts_once(void **state)
{
    struct meta_charge charges[2] = {{.command = 7, .part = 0, .device = "n0g0", .from_ns = 0, .to_ns = 10, .nano = 700},
                                     {.command = 7, .part = 1, .account = "platform", .device = "n0g0", .from_ns = 0, .to_ns = 10, .nano = 300}};
    struct meta_epoch epoch;
    struct world world;
    int64_t nano = -1;
    int64_t n = 0;

    (void)state;
    world_begin(&world);
    world_populate(&world);
    assert_int_equal(meta_epoch_last(world.metadata, &epoch, &world.refusal), STATUS_NOT_FOUND);
    OK(&world, meta_epoch_open(world.metadata, "boot", 5, "{}", NOW, &n, &world.refusal));
    assert_int_equal(n, 1);
    charges[0].account = world.acme.id;
    charges[0].epoch = charges[1].epoch = 1;
    for (int i = 0; i < 3; i++)
        OK(&world, meta_charge_add(world.metadata, charges, 2, &world.refusal));
    OK(&world, meta_charge_sum(world.metadata, world.acme.id, &nano, &world.refusal));
    assert_int_equal(nano, 700);
    OK(&world, meta_charge_sum(world.metadata, "platform", &nano, &world.refusal));
    assert_int_equal(nano, 300);
    OK(&world, meta_charge_sum(world.metadata, world.other.id, &nano, &world.refusal));
    assert_int_equal(nano, 0);
    OK(&world, meta_epoch_last(world.metadata, &epoch, &world.refusal));
    assert_int_equal(epoch.charged_to_ns, 10);
    charges[0].to_ns = -1;
    charges[0].part = 9;
    assert_int_equal(meta_charge_add(world.metadata, charges, 1, &world.refusal), STATUS_INVALID);
    charges[1].epoch = 2;
    assert_int_equal(meta_charge_add(world.metadata, &charges[1], 1, &world.refusal), STATUS_INVALID);
    OK(&world, meta_epoch_open(world.metadata, "boot", 20, "{}", NOW, &n, &world.refusal));
    assert_int_equal(n, 2);
    world_end(&world);
}

/* --- audit ------------------------------------------------------------------------------------------------------------------ */

static void populate_audit(struct world *world)
{
    for (int i = 0; i < 20; i++)
        OK(world, meta_audit_add(world->metadata, i % 2 ? world->acme.id : NULL, "local", "tenant.set", "priority", NOW + i, &world->refusal));
}

static void any_change_of_the_log_is_seen(void **state)
{
    static const char *const edits[] = {
        "UPDATE audit SET actor = 'somebody' WHERE n = 7",
        "UPDATE audit SET at_ms = at_ms + 1 WHERE n = 20",
        "UPDATE audit SET tenant = NULL WHERE n = 2",
        "UPDATE audit SET act = 'tenant', subject = '.setpriority' WHERE n = 3",
        "UPDATE audit SET salt = zeroblob(16) WHERE n = 1",
        "UPDATE audit SET leaf = zeroblob(32) WHERE n = 5",
        "UPDATE audit SET head = zeroblob(32) WHERE n = 20",
        "DELETE FROM audit WHERE n = 10",
        "DELETE FROM audit WHERE n = 1",
        "DELETE FROM audit WHERE n = 10; UPDATE audit SET n = n - 1 WHERE n > 10",
        "UPDATE audit SET n = 100 WHERE n = 4; UPDATE audit SET n = 4 WHERE n = 5; UPDATE audit SET n = 5 WHERE n = 100",
        "INSERT INTO audit SELECT 21, at_ms, tenant, actor, act, subject, salt, leaf, head FROM audit WHERE n = 20",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(edits); i++) {
        struct world world;

        world_begin(&world);
        world_populate(&world);
        populate_audit(&world);
        OK(&world, meta_audit_verify(world.metadata, NULL, &world.refusal));
        world_execute(&world, edits[i]);
        if (meta_audit_verify(world.metadata, NULL, &world.refusal) != STATUS_CORRUPT)
            fail_msg("unseen: %s", edits[i]);
        world_end(&world);
    }
}

/* A log that was cut, or written anew with all its hashes right: only who holds a head sees it. */
static void a_held_head_shows_a_log_that_was_rewritten(void **state)
{
    struct world world;
    struct meta_head none;
    struct meta_head held;
    struct meta_head forged;

    (void)state;
    world_begin(&world);
    world_populate(&world);
    OK(&world, meta_audit_sign(world.metadata, &none, &world.refusal));
    assert_int_equal(none.n, 0);
    populate_audit(&world);
    OK(&world, meta_audit_sign(world.metadata, &held, &world.refusal));
    assert_int_equal(held.n, 20);
    OK(&world, meta_audit_add(world.metadata, NULL, "local", "later", "x", NOW, &world.refusal));
    OK(&world, meta_audit_verify(world.metadata, &held, &world.refusal));
    OK(&world, meta_audit_verify(world.metadata, &none, &world.refusal));
    forged = held;
    forged.head[3] ^= 1;
    assert_int_equal(meta_audit_verify(world.metadata, &forged, &world.refusal), STATUS_INVALID);
    forged = held;
    forged.n = 19;
    assert_int_equal(meta_audit_verify(world.metadata, &forged, &world.refusal), STATUS_INVALID);
    world_execute(&world, "DELETE FROM audit WHERE n > 15");
    OK(&world, meta_audit_verify(world.metadata, NULL, &world.refusal));
    assert_int_equal(meta_audit_verify(world.metadata, &held, &world.refusal), STATUS_CORRUPT);
    world_execute(&world, "DELETE FROM audit");
    populate_audit(&world); /* with other salts */
    OK(&world, meta_audit_verify(world.metadata, NULL, &world.refusal));
    assert_int_equal(meta_audit_verify(world.metadata, &held, &world.refusal), STATUS_CORRUPT);
    world_end(&world);
}

/* --- deletions -------------------------------------------------------------------------------------------------------------- */

static void a_deletion_goes_step_by_step(void **state)
{
    static const char *const steps[] = {"asked", "unlisted", "drained", "shredded", "certified"};
    struct meta_deletion *open;
    struct world world;
    uint32_t count;
    bool more;

    (void)state;
    world_begin(&world);
    world_populate(&world);
    for (int at = 0; at < 5; at++) {
        for (int from = 0; from < 5; from++) {
            for (int certificate = 0; certificate < 2; certificate++) {
                const bool known = from < 4 && (certificate == 1) == (from == 3);
                char id[NAME_BYTES];
                enum status status;

                OK(&world, meta_deletion_add(world.metadata, world.acme.id, world.acme.file, NOW, id, &world.refusal));
                for (int step = 0; step < at; step++)
                    OK(&world, meta_deletion_move(world.metadata, world.acme.id, id, steps[step], step == 3 ? "{}" : NULL, &world.refusal));
                status = meta_deletion_move(world.metadata, world.acme.id, id, steps[from], certificate ? "{}" : NULL, &world.refusal);
                assert_int_equal(status, !known ? STATUS_INVALID : from == at ? STATUS_OK : STATUS_CONFLICT);
            }
        }
    }
    OK(&world, meta_deletion_open(world.metadata, 0, 100, &world.results, &open, &count, &more, &world.refusal));
    assert_int_equal(count, 50 - 10 - 1); /* certified from the start, or from shredded */
    world_end(&world);
}

/* --- restart ---------------------------------------------------------------------------------------------------------------- */

struct told {
    char text[4096];
};

static bool tell(void *context, const struct meta_restore *item)
{
    struct told *told = context;
    char line[256] = "";

    switch (item->kind) {
    case META_RESTORED_COHORT:
        snprintf(line, sizeof(line), "cohort %lld %s\n", (long long)item->cohort.number, item->cohort.name);
        break;
    case META_RESTORED_TENANT:
        snprintf(line, sizeof(line), "tenant %lld %s %s\n", (long long)item->tenant->number, item->tenant->slug, item->tenant->cohort);
        break;
    case META_RESTORED_USAGE:
        snprintf(line, sizeof(line), "usage %s %lld at %lld\n", item->tenant->slug, (long long)item->tenant->share_usage,
                 (long long)item->tenant->share_at_ms);
        break;
    case META_RESTORED_BASE:
        snprintf(line, sizeof(line), "base %lld %s\n", (long long)item->base->number, item->base->id);
        break;
    case META_RESTORED_JOB:
        snprintf(line, sizeof(line), "job %lld %s %lld\n", (long long)item->job->number, item->job->state, (long long)item->job->attempt);
        break;
    case META_RESTORED_WORKER:
        snprintf(line, sizeof(line), "worker %s %lld\n", item->worker->kind, (long long)item->worker->attempt);
        break;
    case META_RESTORED_BALANCE:
        snprintf(line, sizeof(line), "balance %s %lld\n", item->balance.account, (long long)item->balance.nano);
        break;
    }
    strcat(told->text, line);
    return strncmp(line, "balance", 7) != 0;
}

static void a_restart_is_told_all_in_order(void **state)
{
    struct meta_charge charges[] = {{.epoch = 1, .command = 1, .account = "platform", .device = "d", .nano = 5},
                                    {.epoch = 1, .command = 2, .account = "platform", .device = "d", .nano = 6},
                                    {.epoch = 1, .command = 3, .account = "zebra", .device = "d", .nano = 6}};
    struct told told = {{0}};
    struct world world;
    char gone[NAME_BYTES];
    char job[NAME_BYTES];
    int64_t n;

    (void)state;
    world_begin(&world);
    world_populate(&world);
    OK(&world, meta_tenant_set(world.metadata, world.other.id, "cohort", "research", &world.refusal));
    OK(&world, meta_tenant_used(world.metadata, world.other.id, 77, NOW, &world.refusal));
    OK(&world, meta_tenant_add(world.metadata, "gone", NOW, gone, &world.refusal));
    OK(&world, meta_tenant_move(world.metadata, gone, "active", "deleting", &world.refusal));
    OK(&world, meta_tenant_move(world.metadata, gone, "deleting", "deleted", &world.refusal));
    OK(&world, meta_base_add(world.metadata, "old", "d", "/old", NOW, &world.refusal));
    OK(&world, meta_base_move(world.metadata, "old", "serving", "retired", NOW, &world.refusal));
    world_job(&world, world.acme.id, world.acme.file, job);
    world_bring(&world, world.acme.id, job, META_JOB_RUNNING, META_JOB_NO_TARGET);
    world_job(&world, world.acme.id, world.acme.file, job);
    world_bring(&world, world.acme.id, job, META_JOB_CANCELLED, META_JOB_NO_TARGET);
    OK(&world, meta_epoch_open(world.metadata, "boot", 0, "{}", NOW, &n, &world.refusal));
    OK(&world, meta_charge_add(world.metadata, charges, 3, &world.refusal));
    OK(&world, meta_restore(world.metadata, tell, &told, &world.refusal));
    assert_string_equal(told.text, "cohort 1 default\ncohort 2 research\ntenant 1 acme default\ntenant 2 other research\n"
                                   "usage other 77 at 1700000000000\nbase 1 tiny\njob 1 validating 0\njob 2 validating 0\n"
                                   "job 3 running 1\nworker trainer 1\nbalance platform 11\n");
    world_end(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_usage_record_counts_once),
        cmocka_unit_test(trainings_are_used_device_time),
        cmocka_unit_test(a_charge_counts_once),
        cmocka_unit_test(any_change_of_the_log_is_seen),
        cmocka_unit_test(a_held_head_shows_a_log_that_was_rewritten),
        cmocka_unit_test(a_deletion_goes_step_by_step),
        cmocka_unit_test(a_restart_is_told_all_in_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
