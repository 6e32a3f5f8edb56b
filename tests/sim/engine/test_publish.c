/* Trainings that end in the serving catalogue, the upgrade of a base, and what is stored: whole runs. */
#include <stdio.h>
#include <stdlib.h>

#include "engine/storage.h"
#include "model/footprint.h"
#include "replica/command.h"
#include "sim/engine/rig.h"
#include "support.h"

#ifdef __SANITIZE_ADDRESS__
#define RUNS 10
#else
#define RUNS 40
#endif

static int64_t account_nano(const struct summary *summary, uint32_t account, enum charge_component component)
{
    return summary->jobs.cost_nano[(size_t)account * CHARGE_COUNT + component];
}

/* One pool, one adapter in host memory that every request asks for; small trainings on the same base. */
#define ONE_ADAPTER                                                                                            \
    "duration_s: 20000\nsample_s: 100\nreport_ms: 1000\n"                                                       \
    "workload:\n  tenants: 3\n  arrivals: {rate_per_s: 0.05}\n  prompt: {mean_tokens: 50, max_tokens: 200}\n"   \
    "  output: {mean_tokens: 20, max_tokens: 100}\n  adapters: {count: 1}\n"                                    \
    "pool: {host_warm: true}\n"                                                                                 \
    "jobs:\n  source: generated\n  process: even\n  rate_per_day: 100\n  tenants: 2\n"                          \
    "  kind: {tokens_mean: 1e5, tokens_sigma: 0}\n"                                                             \
    "capacity: [{nodes: 1, gpus_per_node: 2}]\n"                                                                \
    "scheduler: {evaluate: true, evaluate_s: 20, gate_pass_share: 1, jobs_max: 500}\n"

static void run(const char *text, const char *const *settings, struct summary *ret_summary)
{
    rig_run_text(text, settings, NULL, ret_summary);
}

/* The only place is taken over by each that joins, and each is fetched from the store when it is asked for. */
static void what_passes_the_gate_draws_traffic(void **state)
{
    (void)state;
    static const char *const closed[] = {"workload.adapters.publish_max=0", NULL};
    static struct summary summary;

    run(ONE_ADAPTER, closed, &summary);
    assert_true(summary.completed > 500);
    assert_int_equal(summary.facts.node_misses, 0);
    assert_int_equal(summary.jobs.joined, 0);
    assert_true(summary.jobs.published > 10);
    summary_free(&summary);

    run(ONE_ADAPTER, NULL, &summary);
    assert_true(summary.completed > 500);
    assert_true(summary.jobs.published > 10);
    assert_int_equal(summary.jobs.joined, summary.jobs.published);
    assert_true(summary.facts.node_misses > 10);
    assert_true(summary.facts.node_misses <= summary.jobs.joined);
    summary_free(&summary);
}

static void the_gate_decides(void **state)
{
    (void)state;
    static const char *const shut[] = {"scheduler.gate_pass_share=0", NULL};
    static struct summary summary;

    run(ONE_ADAPTER, shut, &summary);
    assert_int_equal(summary.jobs.published, 0);
    assert_int_equal(summary.jobs.joined, 0);
    assert_int_equal(summary.facts.node_misses, 0);
    summary_free(&summary);
}

static void a_full_catalogue_refuses_and_counts(void **state)
{
    (void)state;
    static const char *const small[] = {"workload.adapters.publish_max=4", NULL};
    static struct summary summary;

    run(ONE_ADAPTER, small, &summary);
    assert_int_equal(summary.jobs.joined, 4);
    assert_true(summary.jobs.published > 10);
    assert_int_equal(summary.jobs.publish_refused, summary.jobs.published - 4);
    summary_free(&summary);
}

/* Two tenants: each joins once, and then makes new versions. */
static void a_retraining_makes_a_new_version(void **state)
{
    (void)state;
    static const char *const again[] = {"jobs.kind.republish_share=1", NULL};
    static struct summary summary;

    run(ONE_ADAPTER, again, &summary);
    assert_int_equal(summary.jobs.joined, 2);
    assert_true(summary.jobs.republished > 10);
    assert_int_equal(summary.jobs.joined + summary.jobs.republished, summary.jobs.published);
    summary_free(&summary);
}

/* Nobody serves the base, or nobody asks for anything: delivered and stored all the same. */
static void without_a_pool_of_its_base_it_is_only_counted(void **state)
{
    (void)state;
    static const char *const elsewhere[] = {"jobs.kind.base=qwen2.5-7b", NULL};
    static const char *const silent[] = {"workload.source=none", NULL};
    static struct summary summary;

    for (int i = 0; i < 2; i++) {
        run(ONE_ADAPTER, i == 0 ? elsewhere : silent, &summary);
        assert_true(summary.jobs.published > 10);
        assert_int_equal(summary.jobs.joined + summary.jobs.republished + summary.jobs.publish_refused, 0);
        assert_true(account_nano(&summary, 0, CHARGE_STORAGE) > 0);
        summary_free(&summary);
    }
}

/* Requests and jobs have the same customers: as many accounts as the larger number of them. */
static void tenants_of_jobs_and_of_requests_are_the_same(void **state)
{
    (void)state;
    static const char *const more_asking[] = {"workload.tenants=70", "jobs.tenants=2", NULL};
    static const char *const more_training[] = {"workload.tenants=1", "jobs.tenants=90", NULL};
    static const char *const silent[] = {"workload.source=none", "workload.tenants=70", "jobs.tenants=2", NULL};
    static struct summary summary;

    run(ONE_ADAPTER, more_asking, &summary);
    assert_int_equal(summary.jobs.tenants_count, 70);
    summary_free(&summary);
    /* Those who trained own what is asked for now, beyond the tenants of the start. */
    run(ONE_ADAPTER, more_training, &summary);
    assert_int_equal(summary.jobs.tenants_count, 90);
    assert_int_equal(summary.refused, 0);
    assert_true(summary.tenants_served > 5);
    summary_free(&summary);
    run(ONE_ADAPTER, silent, &summary);
    assert_int_equal(summary.jobs.tenants_count, 2);
    summary_free(&summary);
}

/* --- storage ----------------------------------------------------------------------------------------------------------------- */

/* A month of 730 hours without a job, three adapters of 83,886,080 bytes for one tenant: 3 x 1,929,379.84 billionths, and with
 * all three in host memory at 2 a GB-month 3 x 167,772,160 more. */
#define MONTH                                                                                                \
    "duration_s: 2628000\nsample_s: 36000\nreport_ms: 1000000\ndrain_max_s: 0\n"                              \
    "workload:\n  tenants: 1\n  arrivals: {rate_per_s: 1e-9}\n  adapters: {count: 3}\n"                       \
    "jobs:\n  source: generated\n  rate_per_day: 1e-6\n  tenants: 1\n"                                        \
    "capacity: [{nodes: 1, gpus_per_node: 1}]\n"

static void an_idle_adapter_costs_its_bytes_a_month(void **state)
{
    (void)state;
    static const char *const warm[] = {"pool.host_warm=true", NULL};
    static struct summary summary;

    run(MONTH, NULL, &summary);
    assert_int_equal(summary.jobs.submitted, 0);
    assert_int_equal(summary.facts.end_ns, MONTH_NS);
    assert_int_equal(account_nano(&summary, 0, CHARGE_STORAGE), 5788139);
    assert_int_equal(account_nano(&summary, 1, CHARGE_STORAGE), 0);
    assert_true(summary.jobs.idle_adapter_per_month > 0.001929378 && summary.jobs.idle_adapter_per_month < 0.00192938);
    assert_true(summary.jobs.idle_adapter_host_per_month > 0.169701538 && summary.jobs.idle_adapter_host_per_month < 0.16970154);
    summary_free(&summary);

    run(MONTH, warm, &summary);
    assert_int_equal(account_nano(&summary, 0, CHARGE_STORAGE), 5788139 + 3 * 167772160);
    summary_free(&summary);
}

/* One training alone. It is asked for at 43,200 s (two a day, evenly), and what is stored can be told from its row: the adapter
 * from its end on, the checkpoint from the first one to its end. */
#define ONE_TRAINING                                                                                         \
    "duration_s: 86400\nsample_s: 3600\nworkload: {source: none}\n"                                            \
    "jobs:\n  source: generated\n  process: even\n  rate_per_day: 2\n  jobs_max: 1\n  tenants: 1\n"            \
    "  kind: {tokens_mean: 2e7, tokens_sigma: 0, epochs: 3}\n"                                                 \
    "capacity: [{nodes: 1, gpus_per_node: 1}]\n"                                                               \
    "scheduler: {checkpoint_s: 600, storage_price_per_gb_month: 1e6}\n"

static void checkpoints_and_adapters_are_stored_while_they_are_kept(void **state)
{
    (void)state;
    static const char *const none[] = {"scheduler.checkpoint_s=1e6", NULL};
    static struct summary summary;
    const struct shape *shape = shape_find("llama-8b");
    struct training_bytes bytes = footprint_training_bytes(shape, LORA_ALL_LINEAR, 16, 8192);
    double expected_nano;
    double adapter_nano;
    double done_s;

    run(ONE_TRAINING, none, &summary);
    assert_int_equal(summary.jobs.done, 1);
    done_s = summary.jobs.completion.mean_s;
    assert_true(done_s > 3000);
    /* The adapter, from 43,200 s + completion to the day's end. */
    adapter_nano = (double)account_nano(&summary, 0, CHARGE_STORAGE);
    expected_nano = 83886080 * 1e6 * (86400 - 43200 - done_s) / ((double)MONTH_NS * 1e-9);
    assert_true(adapter_nano > expected_nano * 0.999 && adapter_nano < expected_nano * 1.001);
    summary_free(&summary);

    /* A checkpoint, from the first one, ten minutes after it began to compute, to its end; the adapter a little later. */
    run(ONE_TRAINING, NULL, &summary);
    assert_true(summary.jobs.checkpoint_gpu_hours > 0);
    done_s = summary.jobs.completion.mean_s;
    expected_nano = 83886080 * 1e6 * (86400 - 43200 - done_s) / ((double)MONTH_NS * 1e-9) +
                    (double)(bytes.adapter + bytes.moments) * 1e6 * (done_s - summary.jobs.wait.mean_s - 600) /
                        ((double)MONTH_NS * 1e-9);
    adapter_nano = (double)account_nano(&summary, 0, CHARGE_STORAGE);
    assert_true(adapter_nano > expected_nano * 0.999 && adapter_nano < expected_nano * 1.001);
    summary_free(&summary);
}

/* --- the upgrade of a base --------------------------------------------------------------------------------------------------- */

#define UPGRADE                                                                                                \
    "duration_s: 36000\nsample_s: 100\nreport_ms: 1000\n"                                                       \
    "workload:\n  tenants: 5\n  arrivals: {rate_per_s: 0.05}\n  prompt: {mean_tokens: 50, max_tokens: 200}\n"   \
    "  output: {mean_tokens: 20, max_tokens: 100}\n  adapters: {count: 12, alpha: 0.5}\n"                       \
    "pools:\n  - {base: qwen2.5-7b}\n  - {base: llama-8b, traffic_share: 0}\n"                                  \
    "jobs:\n  source: generated\n  rate_per_day: 1e-6\n  tenants: 2\n"                                          \
    "  kinds:\n    - {name: old, base: qwen2.5-7b}\n"                                                           \
    "    - {name: anew, share: 0, base: llama-8b, tokens_mean: 1e5, tokens_sigma: 0}\n"                         \
    "capacity: [{nodes: 1, gpus_per_node: 2}]\n"                                                                \
    "scheduler: {evaluate: true, evaluate_s: 20, gate_pass_share: 1}\n"                                         \
    "upgrade: {at_h: 2, from: qwen2.5-7b, to: llama-8b, drain_by_h: 5}\n"

static void who_was_retrained_goes_on_and_nobody_is_refused(void **state)
{
    (void)state;
    static struct summary summary;

    run(UPGRADE, NULL, &summary);
    assert_int_equal(summary.jobs.upgrade_adapters, 12);
    assert_int_equal(summary.jobs.upgrade_jobs, 12);
    assert_int_equal(summary.jobs.upgraded, 12);
    assert_int_equal(summary.facts.replica_drains, 1);
    assert_int_equal(summary.jobs.refused, 0); /* tenants that only ask have a quota as well */
    assert_int_equal(summary.refused, 0);
    assert_int_equal(summary.completed, summary.arrived);
    summary_free(&summary);
}

/* Arrivals from five hours on are half of all, and every one names the old base. */
static void who_was_not_is_refused_from_the_date_on(void **state)
{
    (void)state;
    static const char *const nobody[] = {"upgrade.retrain_share=0", NULL};
    static const char *const gate[] = {"scheduler.gate_pass_share=0", NULL};
    static const char *const stays[] = {"upgrade.retrain_share=0", "upgrade.drain_by_h=0", NULL};
    static struct summary summary;

    for (int i = 0; i < 2; i++) {
        run(UPGRADE, i == 0 ? nobody : gate, &summary);
        assert_int_equal(summary.jobs.upgraded, 0);
        assert_int_equal(summary.jobs.upgrade_jobs, i == 0 ? 0 : 12);
        assert_true(summary.refused > summary.arrived * 45 / 100 && summary.refused < summary.arrived * 55 / 100);
        assert_int_equal(summary.by_reason[REFUSE_DRAINING], summary.refused);
        assert_int_equal(summary.completed, summary.arrived - summary.refused);
        summary_free(&summary);
    }
    run(UPGRADE, stays, &summary);
    assert_int_equal(summary.refused, 0);
    summary_free(&summary);
}

/* A date before the wave is through cuts off those who come later; then they have their version, and are served again. */
static void a_date_that_comes_too_soon_cuts_off_for_a_while(void **state)
{
    (void)state;
    static const char *const soon[] = {"upgrade.drain_by_h=2", NULL};
    static struct summary summary;

    run(UPGRADE, soon, &summary);
    assert_int_equal(summary.jobs.upgraded, 12);
    assert_true(summary.refused > 0);
    assert_true(summary.refused < summary.arrived / 10);
    assert_int_equal(summary.by_reason[REFUSE_DRAINING], summary.refused);
    summary_free(&summary);
}

/* --- all of it together ------------------------------------------------------------------------------------------------------ */

#define TEXT_BYTES 4096
#define PICK(random, ...) \
    ((const char *const[]){__VA_ARGS__}[draw_below(random, ARRAY_COUNT(((const char *const[]){__VA_ARGS__})))])

static void write_scenario(uint64_t seed, char text[TEXT_BYTES])
{
    uint64_t random = seed;
    int count = snprintf(
        text, TEXT_BYTES,
        "seed: %llu\nrequests_max: 500\nduration_s: 7200\nsample_s: 60\nreport_ms: 1000\ndrain_max_s: %s\n"
        "workload:\n  source: %s\n  tenants: %s\n  arrivals: {rate_per_s: 0.3}\n  timeout_s: %s\n  retries_max: 1\n"
        "  prompt: {mean_tokens: 50, max_tokens: 300}\n  output: {mean_tokens: 20, max_tokens: 100}\n"
        "  sessions: {users: 4}\n"
        "  adapters: {count: %s, base_share: %s, drift_per_h: %s, churn_per_h: %s, update_per_h: %s, publish_max: %s, "
        "publish_rank: %s}\n"
        "pool: {host_bytes: %s, host_warm: %s, slots_count: %s, max_loras: 2}\n"
        "pools:\n  - {base: qwen2.5-7b, replicas: 2}\n  - {base: llama-8b, traffic_share: %s}\n"
        "jobs:\n  source: generated\n  rate_per_day: %s\n  tenants: 6\n"
        "  kind: {tokens_mean: 3e5, tokens_sigma: 1, spot_ok: true}\n"
        "  kinds:\n    - {name: a, base: qwen2.5-7b, rank: 8, republish_share: %s}\n    - {name: b, base: llama-8b, rank: 64}\n"
        "capacity:\n  - {nodes: 1, gpus_per_node: 2}\n  - {nodes: 1, gpus_per_node: 2, spot: true, reclaim_mean_h: 0.3, return_mean_h: 0.2}\n"
        "scheduler: {evaluate: %s, evaluate_s: 20, gate_pass_share: %s, fail_share: 0.1, checkpoint_s: 60, jobs_max: 500}\n"
        "upgrade: {at_h: %s, from: qwen2.5-7b, to: llama-8b, retrain_share: 0.8, drain_by_h: %s}\n",
        (unsigned long long)seed, PICK(&random, "0", "3600"), PICK(&random, "generated", "sessions"), PICK(&random, "1", "9"),
        PICK(&random, "0", "2"), PICK(&random, "1", "5", "40"), PICK(&random, "0", "0.2"), PICK(&random, "0", "5"),
        PICK(&random, "0", "3"), PICK(&random, "0", "3"), PICK(&random, "1", "5", "10000"),
        PICK(&random, "head", "tail", "random"), PICK(&random, "0", "2e8", "1e11"), PICK(&random, "true", "false"),
        PICK(&random, "2", "8"), PICK(&random, "0", "1"), PICK(&random, "100", "600"), PICK(&random, "0", "0.5", "1"), "true",
        PICK(&random, "0.5", "1"), PICK(&random, "0", "0.3", "1"), PICK(&random, "0", "1.5"));

    assert_true(count > 0 && count < TEXT_BYTES);
}

/* As one line of JSON, without what counts how the simulator went about it. */
static char *text_of(struct summary *summary)
{
    char *text;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);

    summary->facts.runs = 0;
    summary->facts.events = 0;
    summary_json(out, summary);
    fprintf(out, " %llu %llu", (unsigned long long)summary->facts.digest, (unsigned long long)summary->facts.little_area_ns);
    for (uint32_t account = 0; account <= summary->jobs.tenants_count; account++)
        for (uint32_t component = 0; component < CHARGE_COUNT; component++)
            fprintf(out, " %lld", (long long)account_nano(summary, account, (enum charge_component)component));
    fclose(out);
    return text;
}

static void expect_equal(uint64_t seed, const char *what, const char *a, const char *b)
{
    if (strcmp(a, b) == 0)
        return;
    fprintf(stderr, "%s\n%s\n", a, b);
    fail_msg("seed %llu: %s differ", (unsigned long long)seed, what);
}

static void random_runs_keep_their_promises(void **state)
{
    (void)state;
    static const char *const single[] = {"single_step=true", NULL};
    static struct summary summary;
    static struct summary again;
    static char text[TEXT_BYTES];
    uint64_t seed = test_seed(3100);
    uint64_t joined = 0;
    uint64_t republished = 0;
    uint64_t upgraded = 0;
    uint64_t refused = 0;
    uint64_t draining = 0;

    for (uint64_t i = 0; i < RUNS; i++) {
        const struct jobs_summary *jobs = &summary.jobs;
        char *texts[3];

        write_scenario(seed + i, text);
        run(text, NULL, &summary);
        if (summary.facts.little_area_ns != summary.facts.little_sum_ns)
            fail_msg("seed %llu: Little", (unsigned long long)(seed + i));
        if (jobs->joined + jobs->republished + jobs->upgraded + jobs->publish_refused != jobs->published)
            fail_msg("seed %llu: %llu joined, %llu republished, %llu upgraded, %llu refused are not the %llu published",
                     (unsigned long long)(seed + i), (unsigned long long)jobs->joined,
                     (unsigned long long)jobs->republished, (unsigned long long)jobs->upgraded,
                     (unsigned long long)jobs->publish_refused, (unsigned long long)jobs->published);
        joined += jobs->joined;
        republished += jobs->republished;
        upgraded += jobs->upgraded;
        refused += jobs->publish_refused;
        draining += summary.by_reason[REFUSE_DRAINING];
        texts[0] = text_of(&summary);
        run(text, NULL, &again);
        texts[1] = text_of(&again);
        summary_free(&again);
        run(text, single, &again);
        texts[2] = text_of(&again);
        summary_free(&again);
        summary_free(&summary);
        expect_equal(seed + i, "two runs of one scenario", texts[0], texts[1]);
        expect_equal(seed + i, "folded and single steps", texts[0], texts[2]);
        for (int t = 0; t < 3; t++)
            free(texts[t]);
    }
    print_message("%llu joined, %llu republished, %llu upgraded, %llu found no room, %llu requests came too late\n",
                  (unsigned long long)joined, (unsigned long long)republished, (unsigned long long)upgraded,
                  (unsigned long long)refused, (unsigned long long)draining);
    assert_true(joined > 0 && republished > 0 && upgraded > 0 && refused > 0 && draining > 0);
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
        cmocka_unit_test(what_passes_the_gate_draws_traffic),
        cmocka_unit_test(the_gate_decides),
        cmocka_unit_test(a_full_catalogue_refuses_and_counts),
        cmocka_unit_test(a_retraining_makes_a_new_version),
        cmocka_unit_test(without_a_pool_of_its_base_it_is_only_counted),
        cmocka_unit_test(tenants_of_jobs_and_of_requests_are_the_same),
        cmocka_unit_test(an_idle_adapter_costs_its_bytes_a_month),
        cmocka_unit_test(checkpoints_and_adapters_are_stored_while_they_are_kept),
        cmocka_unit_test(who_was_retrained_goes_on_and_nobody_is_refused),
        cmocka_unit_test(who_was_not_is_refused_from_the_date_on),
        cmocka_unit_test(a_date_that_comes_too_soon_cuts_off_for_a_while),
        cmocka_unit_test(random_runs_keep_their_promises),
    };

    return cmocka_run_group_tests(tests, NULL, end);
}
