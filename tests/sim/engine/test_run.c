/* Whole runs of random small scenarios, each built to get into trouble: slots and KV blocks too few, host memory from none
 * to plenty, replicas that come and go, clients that give up and come back, adapters that are replaced under way. Whatever they hold: nothing stops the
 * program, every request is accounted for, Little's law holds to the nanosecond, blame adds up (results check it row by
 * row), the same run gives the same numbers again, and folding gives those of single steps. */
#include <stdio.h>
#include <stdlib.h>

#include "policy/policy.h"
#include "replica/command.h"
#include "sim/engine/rig.h"
#include "support.h"

#ifdef __SANITIZE_ADDRESS__
#define RUNS 100
#else
#define RUNS 400
#endif

#define TEXT_BYTES 8192

struct writer {
    char text[TEXT_BYTES];
    size_t length;
    uint64_t random;
};

static void put(struct writer *writer, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(struct writer *writer, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    writer->length += (size_t)vsnprintf(writer->text + writer->length, TEXT_BYTES - writer->length, format, arguments);
    va_end(arguments);
    assert_true(writer->length < TEXT_BYTES);
}

static uint64_t among(struct writer *writer, uint64_t least, uint64_t most)
{
    return least + draw_below(&writer->random, most - least + 1);
}

static bool one_in(struct writer *writer, uint64_t count)
{
    return draw_below(&writer->random, count) == 0;
}

#define PICK(writer, ...) \
    ((const char *const[]){__VA_ARGS__}[draw_below(&(writer)->random, ARRAY_COUNT(((const char *const[]){__VA_ARGS__})))])

static const char *pick_evict(struct writer *writer)
{
    static const struct evict_policy *const policies[] = {
#define X(name) &evict_##name,
        EVICT_POLICIES(X)
#undef X
    };

    return policies[draw_below(&writer->random, ARRAY_COUNT(policies))]->name;
}

static void put_pool(struct writer *writer, const char *indent, const char *base, bool tight)
{
    const char *batching = PICK(writer, "chunked", "prefill-first");
    uint64_t rows = among(writer, 1, 24);

    put(writer, "%sbase: %s\n%sgpu: %s\n", indent, base, indent, PICK(writer, "h100", "h200"));
    uint64_t replicas = among(writer, 1, 4);

    put(writer, "%sreplicas: %llu\n%stp: %s\n", indent, (unsigned long long)replicas, indent, PICK(writer, "1", "2"));
    if (one_in(writer, 3))
        put(writer, "%sreplicas_max: %llu\n%sscale_up_s: %s\n%sscale_down_s: %s\n%starget_outstanding: %s\n%sreplica_start_s: %s\n",
            indent, (unsigned long long)among(writer, replicas, replicas + 3), indent, PICK(writer, "0.5", "2"), indent,
            PICK(writer, "1", "4"), indent, PICK(writer, "2", "8", "30"), indent, PICK(writer, "0", "1.5"));
    put(writer, "%sgpus_per_node: %s\n", indent, PICK(writer, "2", "4", "8"));
    put(writer, "%srows_max: %llu\n", indent, (unsigned long long)rows);
    put(writer, "%stoken_budget: %llu\n", indent, (unsigned long long)among(writer, rows, 512));
    put(writer, "%sbatching: %s\n%squeue: %s\n", indent, batching, indent, PICK(writer, "fcfs", "vtc"));
    put(writer, "%swaiting_max: %s\n", indent, PICK(writer, "30", "200", "4096"));
    put(writer, "%smax_loras: %llu\n%spasses_max: %s\n", indent, (unsigned long long)among(writer, 1, 6), indent,
        PICK(writer, "1", "3", "64"));
    if (one_in(writer, 4))
        put(writer, "%sslots_bytes: %s\n", indent, PICK(writer, "1.8e8", "5e8", "2e9"));
    else
        put(writer, "%sslots_count: %llu\n", indent, (unsigned long long)among(writer, 2, 8));
    put(writer, "%sevict: %s\n%shost_evict: %s\n", indent, pick_evict(writer), indent,
        pick_evict(writer));
    put(writer, "%sloads_max: %s\n%sfetches_max: %s\n", indent, PICK(writer, "1", "2", "4"), indent, PICK(writer, "1", "3", "16"));
    put(writer, "%sprefetch_max: %s\n", indent, PICK(writer, "0", "2", "32"));
    put(writer, "%sblock_tokens: %s\n%skv_watermark_permille: %s\n", indent, PICK(writer, "1", "16", "64"), indent,
        PICK(writer, "0", "0", "10", "300"));
    if (tight)
        put(writer, "%skv_bytes: %s\n", indent, PICK(writer, "1.2e8", "2e8", "4e8", "8e8"));
    put(writer, "%shost_bytes: %s\n%shost_warm: %s\n", indent, PICK(writer, "0", "1e8", "4e8", "1e11"), indent,
        PICK(writer, "true", "false"));
    put(writer, "%slora_cost: %s\n%sstep_jitter: %s\n", indent, PICK(writer, "ours", "vllm", "slora"), indent,
        PICK(writer, "0", "0", "0.3", "1"));
}

static void put_workload(struct writer *writer)
{
    const char *source = PICK(writer, "generated", "generated", "sessions");

    put(writer, "workload:\n  source: %s\n  tenants: %s\n  tenant_alpha: %s\n", source, PICK(writer, "1", "3", "20"),
        PICK(writer, "0", "1"));
    put(writer, "  announced_output: %s\n", PICK(writer, "exact", "max"));
    if (one_in(writer, 2))
        put(writer, "  timeout_s: %s\n  retries_max: %s\n  retry_delay_s: %s\n", PICK(writer, "0.3", "1", "5"),
            PICK(writer, "0", "1", "3"), PICK(writer, "0", "0.5"));
    if (one_in(writer, 3))
        put(writer, "  requests_max: %llu\n", (unsigned long long)among(writer, 120, 300));
    put(writer, "  arrivals: {process: %s, rate_per_s: %s, cv: 3, burst_s: 2, calm_s: 5}\n",
        PICK(writer, "poisson", "gamma", "mmpp", "even"), PICK(writer, "4", "10", "30", "90"));
    put(writer, "  prompt: {law: lognormal, mean_tokens: %s, max_tokens: 600}\n", PICK(writer, "30", "200"));
    put(writer, "  output: {law: %s, mean_tokens: %s, max_tokens: 250}\n", PICK(writer, "geometric", "lognormal"),
        PICK(writer, "4", "60", "120"));
    put(writer, "  adapters: {count: %s, law: %s, ranks: %s, base_share: %s, drift_per_h: %s, churn_per_h: %s, update_per_h: %s}\n",
        PICK(writer, "0", "3", "12", "60"), PICK(writer, "zipf", "uniform", "distinct"), PICK(writer, "[16]", "[8, 64]", "[8, 16, 32]"),
        PICK(writer, "0", "0.2"), PICK(writer, "0", "50"), PICK(writer, "0", "20"), PICK(writer, "0", "30", "400"));
    put(writer, "  sessions: {users: %s, think_s: %s, turns: 3}\n", PICK(writer, "5", "40"), PICK(writer, "0.2", "2"));
}

static void write_scenario(struct writer *writer, uint64_t seed)
{
    bool tight;

    writer->length = 0;
    writer->random = seed;
    tight = one_in(writer, 2);
    put(writer, "seed: %llu\nduration_s: %s\n", (unsigned long long)among(writer, 1, 1000), PICK(writer, "20", "40"));
    put(writer, "warmup_s: %s\n", PICK(writer, "0", "0", "5"));
    put(writer, "drain_max_s: %s\nsample_s: %s\nreport_ms: %s\n", PICK(writer, "0", "3", "3600"), PICK(writer, "0.7", "1"),
        PICK(writer, "10", "100", "1000"));
    if (one_in(writer, 4))
        put(writer, "warmup_requests: 50\n");
    if (one_in(writer, 4))
        put(writer, "requests_max: 60\n");
    put(writer, "fleet:\n  route: %s\n  hot_share: 0.2\n  rate_half_life_s: 5\n",
        PICK(writer, "round-robin", "random", "least-loaded", "power-of-two", "sticky", "bounded", "affinity"));
    put_workload(writer);
    if (one_in(writer, 3)) {
        put(writer, "pools:\n  - name: one\n");
        put_pool(writer, "    ", "llama-8b", tight);
        put(writer, "  - name: two\n    traffic_share: 0.4\n");
        put_pool(writer, "    ", PICK(writer, "qwen2.5-7b", "llama-13b"), tight);
    } else {
        put(writer, "pool:\n");
        put_pool(writer, "  ", "llama-8b", tight);
    }
}

struct job {
    const struct scenario *scenario;
    struct summary summary;
    enum status status;
};

static void run_job(void *context)
{
    struct job *job = context;

    job->status = rig_run(job->scenario, NULL, &job->summary);
}

/* The scenario is longer than cmocka's messages may be. */
#define fail_run(text, ...)          \
    do {                             \
        fprintf(stderr, "%s", text); \
        fail_msg(__VA_ARGS__);       \
    } while (0)

/* With the scenario's text, should a check() fail on the way. */
static void run(const char *text, const char *const *settings, struct job *job)
{
    struct scenario_set set = rig_scenario(text, settings);

    memset(job, 0, sizeof(*job));
    job->scenario = &set.items[0];
    if (check_stops(run_job, job) || job->status != STATUS_OK)
        fail_run(text, "a check failed, or the run ended with \"%s\"", status_text(job->status));
    scenario_set_free(&set);
}

static void expect_equal(const char *text, const char *what, const struct summary *a, const struct summary *b)
{
    char *lines[2];
    size_t bytes[2];

    if (memcmp(a, b, sizeof(*a)) == 0)
        return;
    for (int i = 0; i < 2; i++) {
        FILE *line = open_memstream(&lines[i], &bytes[i]);

        summary_json(line, i == 0 ? a : b);
        fclose(line);
    }
    fprintf(stderr, "%s%s", lines[0], lines[1]);
    fail_run(text, "%s differ", what);
}

static void expect_whole(const char *text, const struct summary *summary)
{
    uint64_t ends =
        summary->completed + summary->refused + summary->overload + summary->timeouts + summary->unfinished;

    if (summary->arrived != ends)
        fail_run(text, "%llu arrived, %llu left or were left", (unsigned long long)summary->arrived,
                 (unsigned long long)ends);
    if (summary->by_reason[REFUSE_DRAINING] != 0)
        fail_run(text, "%llu requests were routed to a replica that drains",
                 (unsigned long long)summary->by_reason[REFUSE_DRAINING]);
    if (summary->facts.little_area_ns != summary->facts.little_sum_ns)
        fail_run(text, "Little: area %llu ns, sojourns %llu ns", (unsigned long long)summary->facts.little_area_ns,
                 (unsigned long long)summary->facts.little_sum_ns);
    if (summary->measured_s > 0 && !(summary->gpu_busy_share >= 0 && summary->gpu_busy_share <= 1 + 1e-12))
        fail_run(text, "GPUs are busy %.17g of the time", summary->gpu_busy_share);
}

static void random_runs_keep_their_promises(void **state)
{
    (void)state;
    static const char *const single[] = {"single_step=true", NULL};
    static struct writer writer;
    static struct job folded;
    static struct job again;
    uint64_t seed = test_seed(20260);
    uint64_t completed = 0;
    uint64_t refused = 0;
    uint64_t overload = 0;
    uint64_t timeouts = 0;
    uint64_t unfinished = 0;
    uint64_t preempted = 0;
    uint64_t folding = 0;
    uint64_t starts = 0;
    uint64_t drains = 0;

    for (uint32_t i = 0; i < RUNS; i++) {
        write_scenario(&writer, seed + i);
        if (getenv("BERTH_TEST_SHOW") != NULL)
            fprintf(stderr, "seed %llu\n%s\n", (unsigned long long)(seed + i), writer.text);
        run(writer.text, NULL, &folded);
        expect_whole(writer.text, &folded.summary);
        run(writer.text, NULL, &again);
        expect_equal(writer.text, "two runs of one scenario", &folded.summary, &again.summary);
        run(writer.text, single, &again);
        folding += again.summary.facts.runs - folded.summary.facts.runs;
        folded.summary.facts.runs = again.summary.facts.runs;
        folded.summary.facts.events = again.summary.facts.events;
        expect_equal(writer.text, "folded and single steps", &folded.summary, &again.summary);
        completed += folded.summary.completed;
        refused += folded.summary.refused;
        overload += folded.summary.overload;
        timeouts += folded.summary.timeouts;
        unfinished += folded.summary.unfinished;
        preempted += folded.summary.preempted_requests;
        starts += folded.summary.facts.replica_starts;
        drains += folded.summary.facts.replica_drains;
    }
    print_message("%llu completed, %llu preempted, %llu refused, %llu overload, %llu timeouts, %llu unfinished, %llu runs folded away\n",
                  (unsigned long long)completed, (unsigned long long)preempted, (unsigned long long)refused,
                  (unsigned long long)overload, (unsigned long long)timeouts, (unsigned long long)unfinished,
                  (unsigned long long)folding);
    /* The trouble was there. */
    assert_true(completed > 0 && preempted > 0 && refused > 0 && timeouts > 0 && unfinished > 0 && folding > 0);
    assert_true(starts > 0 && drains > 0);
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
        cmocka_unit_test(random_runs_keep_their_promises),
    };

    return cmocka_run_group_tests(tests, NULL, end);
}
