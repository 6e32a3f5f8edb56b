/* Random small scenarios of jobs, whatever keys allow in combination: every order and place policy, isolation classes, spot,
 * failures, sharing, evaluations, bursts, cohorts, limits. What jobs_run_check() says must hold in each, no check() may fire,
 * and the run again must be the same. A failure prints the seed and the scenario. */
#include <stdlib.h>

#include "sim/engine/jobs_rig.h"
#include "support.h"

#ifdef __SANITIZE_ADDRESS__
#define SCENARIOS 40
#else
#define SCENARIOS 120
#endif

#define TEXT_MAX 8192
struct text {
    char of[TEXT_MAX];
    size_t length;
};

static void say(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(struct text *text, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    text->length += (size_t)vsnprintf(text->of + text->length, TEXT_MAX - text->length, format, arguments);
    va_end(arguments);
    assert_true(text->length < TEXT_MAX);
}

static bool coin(uint64_t *luck)
{
    return draw_below(luck, 2) == 0;
}

static const char *one_of(uint64_t *luck, const char *const *words, uint32_t count)
{
    return words[draw_below(luck, count)];
}
#define ONE_OF(luck, ...) \
    one_of(luck, (const char *const[]){__VA_ARGS__}, (uint32_t)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)))

static void write_kinds(struct text *text, uint64_t *luck)
{
    uint32_t count = 1 + (uint32_t)draw_below(luck, 4);

    say(text, "  kinds:\n");
    for (uint32_t i = 0; i < count; i++) {
        bool large = draw_below(luck, 5) == 0;
        const char *base = large ? "llama-70b" : ONE_OF(luck, "llama-8b", "llama-8b", "mistral-24b", "llama-7b");
        const char *stage = ONE_OF(luck, "train", "train", "train", "evaluate", "interactive");
        const char *isolation = large ? "exclusive" : ONE_OF(luck, "exclusive", "exclusive", "mig", "mps", "time-slice");

        if (strcmp(stage, "interactive") == 0 && strcmp(isolation, "mps") == 0)
            isolation = "time-slice";
        say(text,
            "    - {name: k%u, base: %s, gpus: %u, rank: %s, tokens_mean: %s, tokens_sigma: 1, stage: %s, isolation: %s,\n"
            "       priority: %u, preemptible: %s, spot_ok: %s, runtime_min_s: %s, deadline_h: %s, session_s: 2000}\n",
            i, base, large ? 8 : strcmp(isolation, "exclusive") == 0 ? 1 + (uint32_t)draw_below(luck, 3) : 1,
            ONE_OF(luck, "8", "16", "64"), large ? "2e6" : ONE_OF(luck, "1e6", "4e6", "1e7"), stage, isolation,
            (uint32_t)draw_below(luck, 3), draw_below(luck, 6) == 0 ? "false" : "true", coin(luck) ? "true" : "false",
            ONE_OF(luck, "0", "0", "600"), ONE_OF(luck, "0", "2"));
    }
}

static void write_capacity(struct text *text, uint64_t *luck)
{
    say(text, "capacity:\n");
    say(text, "  - {name: own, gpu: %s, nodes: %u, gpus_per_node: 8, fail_mean_h: %s, repair_mean_h: 0.5, price_per_h: %s}\n",
        ONE_OF(luck, "h100", "h200", "a100-80"), 1 + (uint32_t)draw_below(luck, 3), ONE_OF(luck, "0", "0", "5", "40"),
        ONE_OF(luck, "2.5", "1.9999999", "0.0000007"));
    if (coin(luck))
        say(text,
            "  - {name: spot, gpu: h100, nodes: %u, gpus_per_node: %s, spot: true, reclaim_mean_h: %s, return_mean_h: 0.5,\n"
            "     notice_s: %s, price_per_h: 0.8333333, fail_mean_h: %s}\n",
            1 + (uint32_t)draw_below(luck, 3), ONE_OF(luck, "4", "8"), ONE_OF(luck, "1", "8"), ONE_OF(luck, "0", "0.1", "30", "120"),
            ONE_OF(luck, "0", "20"));
}

static void write_scheduler(struct text *text, uint64_t *luck)
{
    say(text, "scheduler:\n  order: %s\n  place: %s\n", ONE_OF(luck, "fifo", "srpt", "wfq"), ONE_OF(luck, "residency", "naive"));
    say(text, "  sharers_max: %s\n  nominal_share: %s\n  nominal_alpha: %s\n  borrowing_gpus: %s\n  lending_share: %s\n",
        ONE_OF(luck, "1", "2", "4", "8"), ONE_OF(luck, "1", "1", "0.5", "0"), ONE_OF(luck, "0", "1"), ONE_OF(luck, "-1", "-1", "-1", "8"),
        ONE_OF(luck, "1", "0.5"));
    say(text, "  cohorts: %s\n  half_life_h: %s\n  usage_factor: %s\n  preempt_delay_s: %s\n  victims_max: %s\n",
        ONE_OF(luck, "1", "3"), ONE_OF(luck, "24", "1"), ONE_OF(luck, "1", "0.3"), ONE_OF(luck, "0", "0", "30", "300"),
        ONE_OF(luck, "0", "1", "16", "16"));
    say(text, "  reservations_max: %s\n  payback: %s\n  checkpoint_s: %s\n  checkpoint_bytes_per_s: %s\n  start_s: %s\n",
        ONE_OF(luck, "0", "1", "4"), ONE_OF(luck, "0", "1", "20"), ONE_OF(luck, "0", "120", "600"), ONE_OF(luck, "2e9", "2e7"),
        ONE_OF(luck, "0", "2", "30"));
    say(text, "  clear_bytes_per_s: %s\n  page_cache_bytes: %s\n  base_in_store: %s\n  evaluate: %s\n  fail_share: %s\n",
        ONE_OF(luck, "1e12", "1e10"), ONE_OF(luck, "0", "5e10", "2e11"), coin(luck) ? "true" : "false",
        coin(luck) ? "true" : "false", ONE_OF(luck, "0", "0.1"));
    say(text, "  idle_timeout_s: %s\n  idle_share: %s\n  jobs_max: %s\n", ONE_OF(luck, "0", "300"), ONE_OF(luck, "0", "0.5"),
        ONE_OF(luck, "65536", "65536", "20"));
}

static void write_scenario(struct text *text, uint64_t seed)
{
    uint64_t luck = seed;

    *text = (struct text){.length = 0};
    say(text, "name: random\nseed: %llu\nduration_s: %s\ndrain_max_s: %s\nsample_s: %s\nwarmup_s: %s\n",
        (unsigned long long)draw_below(&luck, 1000), ONE_OF(&luck, "7200", "7200", "43200"), ONE_OF(&luck, "0", "3600", "1e6"),
        ONE_OF(&luck, "60", "777"), ONE_OF(&luck, "0", "1800"));
    say(text, "workload: {source: none}\njobs:\n  source: generated\n  rate_per_day: %s\n  tenants: %s\n  tenant_alpha: %s\n",
        ONE_OF(&luck, "200", "600", "2000"), ONE_OF(&luck, "1", "3", "6", "40"), ONE_OF(&luck, "0", "1"));
    if (coin(&luck))
        say(text, "  burst_jobs: %s\n  burst_tenant: 0\n  burst_at_s: %s\n  burst_every_s: %s\n", ONE_OF(&luck, "5", "60"),
            ONE_OF(&luck, "0", "1000"), ONE_OF(&luck, "0", "5000"));
    write_kinds(text, &luck);
    write_capacity(text, &luck);
    write_scheduler(text, &luck);
}

struct tally {
    uint64_t jobs, done, failed, refused, overload, unfinished, reclaims, preempts, notices, losses, loads, drops, published;
};

static void run_one(uint64_t seed, struct tally *tally)
{
    struct text text;
    struct jobs_run run;
    static struct summary again;
    const struct jobs_summary *jobs = &run.summary.jobs;

    write_scenario(&text, seed);
    if (getenv("BERTH_TEST_SEED") != NULL)
        print_message("%s", text.of);
    jobs_run_text(text.of, NULL, &run);
    tally->jobs += jobs->submitted;
    tally->done += jobs->done;
    tally->failed += jobs->failed;
    tally->refused += jobs->refused;
    tally->overload += jobs->overload;
    tally->unfinished += jobs->unfinished;
    tally->reclaims += jobs->reclaims;
    tally->preempts += jobs->preempts;
    tally->notices += jobs->notices;
    tally->losses += jobs->losses;
    tally->loads += jobs->base_loads;
    tally->drops += jobs->base_drops;
    tally->published += jobs->published;
    if (seed % 4 == 0) {
        rig_run_text(text.of, NULL, NULL, &again);
        assert_int_equal(again.facts.digest, run.summary.facts.digest);
        assert_int_equal(again.jobs.cost_total_nano, jobs->cost_total_nano);
        summary_free(&again);
    }
    jobs_run_close(&run);
}

static void whatever_the_scenario_every_job_and_every_unit_is_accounted_for(void **state)
{
    (void)state;
    uint64_t seed = test_seed(1);
    uint32_t count = getenv("BERTH_TEST_SEED") != NULL ? 1 : SCENARIOS;
    struct tally tally = {0};

    for (uint32_t i = 0; i < count; i++) {
        print_message("seed %llu\n", (unsigned long long)(seed + i)); /* the last one printed is the one that failed */
        run_one(seed + i, &tally);
    }
    print_message("%llu jobs: %llu done, %llu failed, %llu refused, %llu overload, %llu unfinished; %llu reclaims, %llu preempts, "
                  "%llu notices, %llu losses, %llu loads, %llu drops, %llu published\n",
                  (unsigned long long)tally.jobs, (unsigned long long)tally.done, (unsigned long long)tally.failed,
                  (unsigned long long)tally.refused, (unsigned long long)tally.overload, (unsigned long long)tally.unfinished,
                  (unsigned long long)tally.reclaims, (unsigned long long)tally.preempts, (unsigned long long)tally.notices,
                  (unsigned long long)tally.losses, (unsigned long long)tally.loads, (unsigned long long)tally.drops,
                  (unsigned long long)tally.published);
    if (count == 1)
        return;
    /* Scenarios in which nothing happens would prove nothing. */
    assert_true(tally.done > tally.jobs / 4);
    assert_true(tally.failed > 0 && tally.refused > 0 && tally.overload > 0 && tally.unfinished > 0);
    assert_true(tally.reclaims > 0 && tally.preempts > 0 && tally.notices > 0 && tally.losses > 0);
    assert_true(tally.drops > 0 && tally.published > 0);
}

static int end_rig(void **state)
{
    (void)state;
    rig_end();
    return 0;
}

/* 1,500 nodes of 8 GPUs for a year: 12,000 GPU-years, of which 64 bits of nanoseconds hold 292. */
static void a_large_pool_for_a_year_is_measured(void **state)
{
    (void)state;
    static const char text[] =
        "duration_s: 31536000\nsample_s: 86400\nworkload: {source: none}\n"
        "jobs: {source: generated, tenants: 5, rate_per_day: 200, jobs_max: 50}\n"
        "capacity: [{gpu: h100, nodes: 1500, gpus_per_node: 8}]\n";
    struct jobs_run run;

    jobs_run_text(text, NULL, &run);
    assert_int_equal(run.summary.jobs.done, 50);
    assert_true(run.summary.jobs.allocated_share > 0 && run.summary.jobs.allocated_share < 0.001);
    jobs_run_close(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_large_pool_for_a_year_is_measured),
        cmocka_unit_test(whatever_the_scenario_every_job_and_every_unit_is_accounted_for),
    };

    return cmocka_run_group_tests(tests, NULL, end_rig);
}
