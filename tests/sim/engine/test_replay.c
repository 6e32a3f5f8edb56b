/* From a run to its journals and back: fresh cores take the same decisions, and a journal that says otherwise is found out,
 * even when all its checksums are right. */
#include "cmd_replay.c"

#include <unistd.h>

#include "sim/engine/rig.h"
#include "support.h"

static const char scenario[] = "seed: 5\n"
                               "duration_s: 20\n"
                               "workload:\n"
                               "  timeout_s: 2\n"
                               "  arrivals: {rate_per_s: 20}\n"
                               "  prompt: {mean_tokens: 200, max_tokens: 600}\n"
                               "  output: {mean_tokens: 60, max_tokens: 250}\n"
                               "  adapters: {count: 20, ranks: [8, 64], base_share: 0.2, update_per_h: 100}\n"
                               "pool: {gpu: h100, replicas: 2, rows_max: 8, slots_count: 4, max_loras: 3, kv_bytes: 4e8,\n"
                               "       host_bytes: 1e9, loads_max: 2}\n";

static const char *const names[] = {"fleet-0000", "node-0000", "replica-0000", "replica-0001"};

static int record_once(void **state)
{
    (void)state;
    static struct summary summary;
    char path[128];

    snprintf(path, sizeof(path), "%s/good", rig_folder());
    rig_run_text(scenario, NULL, path, &summary);
    return 0;
}

static const char *good_path(const char *name)
{
    static char path[256];

    snprintf(path, sizeof(path), "%s/good/default/%s.journal", rig_folder(), name);
    return path;
}

static struct replay_counts replay_one(const char *path, bool verify)
{
    const struct replay_options options = {.verify = verify};
    struct replay_counts counts = {0};

    replay_file(path, &options, &counts);
    assert_int_equal(counts.journals, 1);
    return counts;
}

/* A journal in memory. */
struct tape {
    struct journal_header header;
    unsigned char *records;
    uint64_t count;
    size_t record_bytes;
};

static struct tape tape_read(const char *path)
{
    struct tape tape = {0};
    FILE *file = fopen(path, "rb");
    struct stat about;

    assert_non_null(file);
    assert_int_equal(fread(&tape.header, sizeof(tape.header), 1, file), 1);
    assert_int_equal(stat(path, &about), 0);
    tape.record_bytes = tape.header.event_bytes + sizeof(struct journal_tail);
    assert_int_equal(((size_t)about.st_size - sizeof(tape.header)) % tape.record_bytes, 0);
    tape.count = ((size_t)about.st_size - sizeof(tape.header)) / tape.record_bytes;
    tape.records = malloc(tape.count * tape.record_bytes);
    assert_non_null(tape.records);
    assert_int_equal(fread(tape.records, tape.record_bytes, tape.count, file), tape.count);
    fclose(file);
    return tape;
}

static unsigned char *tape_event(const struct tape *tape, uint64_t record)
{
    return tape->records + record * tape->record_bytes;
}

static struct journal_tail tape_tail(const struct tape *tape, uint64_t record)
{
    struct journal_tail tail;

    memcpy(&tail, tape_event(tape, record) + tape->header.event_bytes, sizeof(tail));
    return tail;
}

/* Seals everything anew, as a forger would, and frees the tape. Returns the path. */
static const char *tape_write(struct tape *tape, uint64_t record, struct journal_tail forged)
{
    static char path[256];
    uint64_t chain;
    FILE *file;

    snprintf(path, sizeof(path), "%s/forged.journal", rig_folder());
    file = fopen(path, "wb");
    assert_non_null(file);
    journal_header_seal(&tape->header);
    assert_int_equal(fwrite(&tape->header, sizeof(tape->header), 1, file), 1);
    chain = tape->header.checksum;
    for (uint64_t i = 0; i < tape->count; i++) {
        struct journal_tail tail = i == record ? forged : tape_tail(tape, i);

        journal_seal(&chain, tape_event(tape, i), tape->header.event_bytes, tail.digest, tail.commands_digest, &tail);
        assert_int_equal(fwrite(tape_event(tape, i), tape->header.event_bytes, 1, file), 1);
        assert_int_equal(fwrite(&tail, sizeof(tail), 1, file), 1);
    }
    assert_int_equal(fclose(file), 0);
    free(tape->records);
    return path;
}

static void all_three_kinds_of_core_decide_the_same_again(void **state)
{
    (void)state;

    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        struct replay_counts counts = replay_one(good_path(names[i]), true);

        assert_int_equal(counts.bad, 0);
        assert_true(counts.records > 50);
    }
}

static void a_forged_digest_is_found_where_it_is(void **state)
{
    (void)state;

    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        for (int commands = 0; commands < 2; commands++) {
            struct tape tape = tape_read(good_path(names[i]));
            uint64_t record = tape.count / 2;
            struct journal_tail tail = tape_tail(&tape, record);
            struct replay_counts counts;
            const char *path;

            *(commands ? &tail.commands_digest : &tail.digest) ^= 1;
            path = tape_write(&tape, record, tail);
            counts = replay_one(path, true);
            assert_int_equal(counts.bad, 1);
            assert_int_equal(counts.records, record);
            /* Without --verify only the bytes are looked at, and they are whole. */
            counts = replay_one(path, false);
            assert_int_equal(counts.bad, 0);
        }
    }
}

/* Writes `to` over the name `from` in the header's words. */
static void rename_policy(struct tape *tape, const char *from, const char *to)
{
    unsigned char *bytes = (unsigned char *)tape->header.words;
    char name[JOURNAL_NAME_BYTES] = {0};

    memcpy(name, to, strlen(to));
    for (size_t i = 0; i + sizeof(name) <= sizeof(tape->header.words); i += sizeof(uint64_t)) {
        if (strcmp((const char *)bytes + i, from) == 0) {
            memcpy(bytes + i, name, sizeof(name));
            return;
        }
    }
    fail_msg("the header names no %s", from);
}

static void a_policy_that_does_not_exist_is_refused(void **state)
{
    (void)state;
    static const char *const policies[] = {"affinity", "lru", "lru", "fcfs"};

    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        struct tape tape = tape_read(good_path(names[i]));
        struct journal_tail tail = tape_tail(&tape, 0);
        struct replay_counts counts;

        rename_policy(&tape, policies[i], "clairvoyant");
        counts = replay_one(tape_write(&tape, 0, tail), false);
        assert_int_equal(counts.bad, 1);
        assert_int_equal(counts.records, 0);
    }
}

static void another_policy_decides_otherwise(void **state)
{
    (void)state;
    struct tape tape = tape_read(good_path("fleet-0000"));
    struct journal_tail tail = tape_tail(&tape, 0);
    struct replay_counts counts;

    rename_policy(&tape, "affinity", "round-robin");
    counts = replay_one(tape_write(&tape, 0, tail), true);
    assert_int_equal(counts.bad, 1);
    assert_true(counts.records > 0);
}

static void a_cut_file_is_found_and_so_is_one_that_is_none(void **state)
{
    (void)state;
    struct tape tape = tape_read(good_path("node-0000"));
    struct journal_tail tail = tape_tail(&tape, 0);
    uint64_t count = tape.count;
    const char *path = tape_write(&tape, 0, tail);
    struct replay_counts counts;
    struct stat about;
    FILE *file;

    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(truncate(path, about.st_size - 3), 0);
    counts = replay_one(path, true);
    assert_int_equal(counts.bad, 1);
    assert_int_equal(counts.records, count - 1);
    file = fopen(path, "wb");
    assert_non_null(file);
    fputs("not a journal\n", file);
    fclose(file);
    assert_int_equal(replay_one(path, true).bad, 1);
}

/* Reclaims, preemptions, failures, notices and shared GPUs, decided again by a fresh core. */
static void a_scheduler_of_jobs_decides_the_same_again(void **state)
{
    (void)state;
    static const char text[] =
        "name: jobs\n"
        "duration_s: 43200\n"
        "workload: {source: none}\n"
        "jobs:\n"
        "  source: generated\n"
        "  rate_per_day: 600\n"
        "  tenants: 3\n"
        "  kinds:\n"
        "    - {name: low, share: 3, tokens_mean: 6e6, spot_ok: true}\n"
        "    - {name: high, priority: 1, tokens_mean: 3e6, gpus: 2}\n"
        "    - {name: shared, isolation: mps, tokens_mean: 2e6, spot_ok: true}\n"
        "    - {name: node, base: llama-70b, gpus: 8, tokens_mean: 5e5}\n"
        "capacity:\n"
        "  - {gpu: h100, nodes: 2, gpus_per_node: 8, fail_mean_h: 10, repair_mean_h: 0.2}\n"
        "  - {gpu: h100, nodes: 2, gpus_per_node: 4, spot: true, reclaim_mean_h: 2, return_mean_h: 0.5}\n"
        "scheduler: {evaluate: true, fail_share: 0.05}\n";
    static struct summary summary;
    struct replay_counts counts = {0};
    const struct replay_options options = {.verify = true};
    char path[256];

    snprintf(path, sizeof(path), "%s/jobs", rig_folder());
    rig_run_text(text, NULL, path, &summary);
    assert_true(summary.jobs.reclaims > 0 && summary.jobs.preempts > 0 && summary.jobs.notices > 0 && summary.jobs.losses > 0);
    snprintf(path, sizeof(path), "%s/jobs/default/fleet-0000.journal", rig_folder());
    replay_file(path, &options, &counts);
    assert_int_equal(counts.bad, 0);
    assert_int_equal(counts.journals, 1);
    assert_true(counts.records > 1000);
    summary_free(&summary);
}

/* Replicas that come and go on the GPUs of jobs: each stay has a journal of its own. */
static void replicas_of_a_shared_pool_decide_the_same_again(void **state)
{
    (void)state;
    static const char text[] =
        "seed: 3\nduration_s: 900\ndrain_max_s: 300\nsample_s: 10\nreport_ms: 1000\n"
        "workload:\n  arrivals: {process: mmpp, rate_per_s: 2, burst_ratio: 20, burst_s: 80, calm_s: 120}\n"
        "  prompt: {mean_tokens: 200}\n  output: {mean_tokens: 300}\n  adapters: {count: 20}\n"
        "pool: {shared: true, replicas_max: 4, target_outstanding: 8, scale_up_s: 4, scale_down_s: 30, replica_start_s: 2}\n"
        "jobs: {source: generated, rate_per_day: 3000, tenants: 4, kind: {tokens_mean: 2e6, epochs: 1}}\n"
        "capacity: [{nodes: 1, gpus_per_node: 6, serve_ok: true}]\n";
    static const char *const stays[] = {"fleet-0000", "node-0000", "replica-0000", "replica-0001", "replica-stay-00001-0001"};
    static struct summary summary;
    char path[256];

    snprintf(path, sizeof(path), "%s/shared", rig_folder());
    rig_run_text(text, NULL, path, &summary);
    assert_true(summary.facts.replica_drains > 1 && summary.jobs.serving_stops > 0);
    for (size_t i = 0; i < ARRAY_COUNT(stays); i++) {
        const struct replay_options options = {.verify = true};
        struct replay_counts counts = {0};

        snprintf(path, sizeof(path), "%s/shared/default/%s.journal", rig_folder(), stays[i]);
        replay_file(path, &options, &counts);
        assert_int_equal(counts.bad, 0);
        assert_int_equal(counts.journals, 1);
        assert_true(counts.records > 10);
    }
    summary_free(&summary);
}

/* Replicas of hot adapters: what made them so is in the journal, with what was done about it. */
static void a_fleet_that_merges_decides_the_same_again(void **state)
{
    (void)state;
    static const char text[] =
        "seed: 3\nduration_s: 900\nsample_s: 10\nreport_ms: 1000\nfleet: {rate_half_life_s: 8}\n"
        "workload:\n  arrivals: {process: mmpp, rate_per_s: 6, burst_ratio: 20, burst_s: 60, calm_s: 60}\n"
        "  prompt: {mean_tokens: 200}\n  output: {mean_tokens: 150}\n  adapters: {count: 4, alpha: 2}\n"
        "pool: {replicas: 2, replicas_max: 3, scale_down_s: 15, merge_max: 2, merge_rows: 6, merge_up_s: 4, merge_down_s: 15, "
        "replica_start_s: 1}\n";
    static const char *const stays[] = {"fleet-0000", "replica-0003", "replica-stay-00001-0003"};
    static struct summary summary;
    char path[256];

    snprintf(path, sizeof(path), "%s/merge", rig_folder());
    rig_run_text(text, NULL, path, &summary);
    assert_true(summary.facts.merge_starts > 1 && summary.facts.merge_drains > 0 && summary.merged_requests > 100);
    for (size_t i = 0; i < ARRAY_COUNT(stays); i++) {
        const struct replay_options options = {.verify = true};
        struct replay_counts counts = {0};

        snprintf(path, sizeof(path), "%s/merge/default/%s.journal", rig_folder(), stays[i]);
        replay_file(path, &options, &counts);
        assert_int_equal(counts.bad, 0);
        assert_int_equal(counts.journals, 1);
        assert_true(counts.records > 10);
    }
}

static int end(void **state)
{
    (void)state;
    rig_end();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_three_kinds_of_core_decide_the_same_again),
        cmocka_unit_test(a_forged_digest_is_found_where_it_is),
        cmocka_unit_test(a_policy_that_does_not_exist_is_refused),
        cmocka_unit_test(another_policy_decides_otherwise),
        cmocka_unit_test(a_scheduler_of_jobs_decides_the_same_again),
        cmocka_unit_test(replicas_of_a_shared_pool_decide_the_same_again),
        cmocka_unit_test(a_fleet_that_merges_decides_the_same_again),
        cmocka_unit_test(a_cut_file_is_found_and_so_is_one_that_is_none),
    };

    return cmocka_run_group_tests(tests, record_once, end);
}
