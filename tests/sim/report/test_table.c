/* The table against golden text: written for a reader, so a change here should read better than what it replaces. */
#include "report/cells.h"
#include "report/report.h"
#include "support.h"

#include <math.h>
#include <stdio.h>

static struct summary summaries[6];
static char printed[32768];

static struct latency latency_make(uint64_t count, int64_t p50_ns)
{
    return (struct latency){.count = count, .mean_ns = (double)p50_ns * 1.2, .p50_ns = p50_ns, .p90_ns = p50_ns * 2,
                            .p99_ns = p50_ns * 5, .max_ns = p50_ns * 20};
}

static void summary_fill(struct summary *summary, const char *variant)
{
    static const uint64_t counts[CLASS_COUNT] = {
        [CLASS_ALL] = 18995, [CLASS_BASE] = 4995, [CLASS_WARM] = 12000, [CLASS_HOST] = 1900, [CLASS_STORE] = 100};
    static const double over_base[CLASS_COUNT] = {
        [CLASS_ALL] = 1.04, [CLASS_BASE] = 1, [CLASS_WARM] = 1.03, [CLASS_HOST] = 1.12, [CLASS_STORE] = 1.31};
    static const double blame_ns[BLAME_COUNT] = {12.3e6, 0, 1.17e5, 0, 4.7e6, 45.6e6, 78.9e6, 2100e6, 3.21e3};
    static const char *const labels[BLAME_BANDS] = {"all", "p50", "p90", "p99"};

    memset(summary, 0, sizeof(*summary));
    strcpy(summary->name, "azure-conv");
    snprintf(summary->variant, sizeof(summary->variant), "%s", variant);
    summary->seed = 7;
    for (uint32_t class = 0; class < CLASS_COUNT; class++) {
        summary->latency[class][METRIC_TTFT] = latency_make(counts[class], (int64_t)(81234567 * over_base[class]));
        summary->latency[class][METRIC_TPOT] = latency_make(counts[class], (int64_t)(9876543 * over_base[class]));
        summary->latency[class][METRIC_E2E] = latency_make(counts[class], (int64_t)(2123456789 * over_base[class]));
        summary->e2e_over_base[class] = over_base[class];
        summary->ttft_over_base[class] = over_base[class] + 0.05;
    }
    for (uint32_t band = 0; band < BLAME_BANDS; band++) {
        strcpy(summary->blame[band].label, labels[band]);
        summary->blame[band].count = 100;
        for (uint32_t part = 0; part < BLAME_COUNT; part++)
            summary->blame[band].mean_ns[part] = blame_ns[part] * (1 + band * band * (part < BLAME_PREFILL ? 2 : 1));
    }
    summary->measured_s = 3300;
    summary->arrived = 19366;
    summary->completed = 18995;
    summary->refused = 12;
    summary->by_reason[1] = 10;
    summary->by_reason[4] = 2;
    summary->refusal_worst[1] = (struct refusal){450, 143};
    summary->overload = 300;
    summary->timeouts = 54;
    summary->unfinished = 5;
    summary->good = 17820;
    summary->goodput_per_s = 5.4;
    summary->requests_per_s = 5.756;
    summary->output_tokens_per_s = 1234;
    summary->total_tokens_per_s = 7890;
    summary->tier_count[TIER_BASE] = 4995;
    summary->tier_count[TIER_GPU] = 12000;
    summary->tier_count[TIER_HOST] = 1900;
    summary->tier_count[TIER_STORE] = 100;
    summary->gpu_hit_ratio = 12000.0 / 14000;
    summary->loads_per_s = 0.606;
    summary->gpu_busy_share = 0.671;
    summary->kv_share_mean = 0.345;
    summary->kv_share_max = 0.99;
    summary->slots_pinned_share_mean = 0.05;
    summary->waiting_mean = 0.0123;
    summary->waiting_max = 34;
    summary->preempted_requests = 12;
    summary->recomputed_tokens = 34567;
    summary->jain = 0.98;
    summary->tenants_served = 50;
    summary->rho = 1.003;
    summary->backlog_slope_per_s = 0.0012;
    summary->facts = (struct run_facts){
        .warmup_until_ns = 300 * NS_PER_S, .end_ns = 3700 * NS_PER_S, .events = 1234567, .engine_steps = 3456789,
        .runs = 1111111, .wall_s = 0.81, .digest = UINT64_C(0x0123456789abcdef), .evictions = 123, .node_hits = 4000,
        .node_misses = 100, .route_home = 17000, .route_overflow = 300};
    strcpy(summary->notes, "the trace names no adapters: they were assigned by a zipf law (alpha 1) over 1000 adapters, "
                           "from the seed\nprompts and answers are as long as the trace says\n");
}

static void print(uint32_t count);

/* What merging is to save is said of all variants, and of none where nobody merges. */
static void a_variant_that_merges_is_told_beside_one_that_does_not(void **state)
{
    (void)state;
    summary_fill(&summaries[0], "never");
    summary_fill(&summaries[1], "merge");
    summaries[0].facts.serving_gpu_ns = summaries[1].facts.serving_gpu_ns = 8 * 3600 * (uint64_t)NS_PER_S;
    print(2);
    assert_null(strstr(printed, "GPU-hours"));
    summaries[1].facts.merge_break_even_milli = 2780123;
    summaries[1].facts.merge_starts = 3;
    summaries[1].facts.merge_drains = 2;
    summaries[1].facts.merged_replica_ns = 5400 * (uint64_t)NS_PER_S;
    summaries[1].merged_requests = 3799;
    print(2);
    assert_non_null(strstr(printed, "  serving     replicas held 8.00 GPU-hours\n  run "));
    assert_non_null(strstr(printed, "  serving     replicas held 8.00 GPU-hours\n"
                                    "  merged      break-even 2780 output tokens/s of one adapter; 3 starts, 2 drains,\n"
                                    "              1.50 replica-hours; 20.0% of completed requests\n"));
}

static void print(uint32_t count)
{
    FILE *out = fmemopen(printed, sizeof(printed), "w");

    report_table(out, summaries, count);
    fclose(out);
}

static void printed_is(const char *golden)
{
    size_t same = 0;
    size_t line = 0;

    while (golden[same] != '\0' && golden[same] == printed[same]) {
        same++;
        if (golden[same - 1] == '\n')
            line = same;
    }
    if (golden[same] != printed[same])
        fail_msg("printed:\n%.*s\nexpected:\n%.*s", (int)strcspn(printed + line, "\n"), printed + line,
                 (int)strcspn(golden + line, "\n"), golden + line);
}

static void one_variant_is_told_in_full(void **state)
{
    (void)state;
    summary_fill(&summaries[0], "affinity");
    print(1);
    printed_is(
        "azure-conv, seed 7\n"
        "\n"
        "                     TTFT          TPOT           E2E        GPU loads  good tokens   GPU\n"
        "variant             p50    p99    p50    p99    p50    p99   hit    /s    /s     /s  busy    KV Jain\n"
        "affinity         84.5ms  422ms 10.3ms 51.4ms  2.21s  11.0s 85.7%  0.61  5.40   7890 67.1% 34.5% 0.98\n"
        "\n"
        "affinity\n"
        "  requests    19366 arrived in 3300s: 18995 completed, 12 refused, 300 overload, 54 timed out,\n"
        "              5 unfinished; 17820 within the objective (5.40/s)\n"
        "  refused     10 too_long: needs 450 KV blocks for its prompt and longest answer, the replica has\n"
        "              143; none needs more\n"
        "              2 adapter_lost: its adapter could not be loaded\n"
        "  backlog     steady: offered work / work done 1.00, +0.0012 requests/s\n"
        "\n"
        "                              TTFT                        TPOT                         E2E\n"
        "  class    count    p50    p90    p99    max    p50    p90    p99    max    p50    p90    p99    max\n"
        "  base      4995 81.2ms  162ms  406ms  1.62s 9.88ms 19.8ms 49.4ms  198ms  2.12s  4.25s  10.6s  42.5s\n"
        "  warm     12000 83.7ms  167ms  418ms  1.67s 10.2ms 20.3ms 50.9ms  203ms  2.19s  4.37s  10.9s  43.7s\n"
        "  host      1900 91.0ms  182ms  455ms  1.82s 11.1ms 22.1ms 55.3ms  221ms  2.38s  4.76s  11.9s  47.6s\n"
        "  store      100  106ms  213ms  532ms  2.13s 12.9ms 25.9ms 64.7ms  259ms  2.78s  5.56s  13.9s  55.6s\n"
        "  all      18995 84.5ms  169ms  422ms  1.69s 10.3ms 20.5ms 51.4ms  205ms  2.21s  4.42s  11.0s  44.2s\n"
        "\n"
        "  over base   E2E p50, goal 1.10              TTFT p50, goal 1.20\n"
        "  warm        1.03 met                        1.08 met\n"
        "  host        1.12 MISSED                     1.17 met\n"
        "  store       1.31 (no goal)                  1.36 (no goal)\n"
        "\n"
        "  where time went              all       around p50       around p90       around p99\n"
        "  queue            12.3ms   0.55%   36.9ms   0.82%    111ms   0.98%    234ms   1.04%\n"
        "  slot_wait             0       -        0       -        0       -        0       -\n"
        "  store             117us   0.01%    351us   0.01%   1.05ms   0.01%   2.22ms   0.01%\n"
        "  host                  0       -        0       -        0       -        0       -\n"
        "  link             4.70ms   0.21%   14.1ms   0.31%   42.3ms   0.38%   89.3ms   0.40%\n"
        "  prefill          45.6ms   2.03%   91.2ms   2.03%    228ms   2.02%    456ms   2.02%\n"
        "  interference     78.9ms   3.52%    158ms   3.51%    394ms   3.50%    789ms   3.50%\n"
        "  decode            2.10s   93.7%    4.20s   93.3%    10.5s   93.1%    21.0s   93.0%\n"
        "  recompute        3.21us   <.01%   6.42us   <.01%   16.1us   <.01%   32.1us   <.01%\n"
        "  sum               2.24s    100%    4.50s    100%    11.3s    100%    22.6s    100%\n"
        "\n"
        "  adapters    found in gpu 85.7%, host 13.6%, store 0.71%, of 14000 requests; 0.61 loads/s\n"
        "  caches      GPU slots: 123 evictions; host memory: 4000 hits, 100 misses\n"
        "  routing     17000 to a home of their adapter, 300 overflowed to another replica\n"
        "  use         KV 34.5% mean, 99.0% max; slots pinned 5.00%; waiting 0.012 mean, 34 max a replica\n"
        "  rates       5.76 requests/s, 1234 output tokens/s, 7890 tokens/s with prompts\n"
        "  preempted   12 requests lost their KV blocks, 34.6k tokens were computed again\n"
        "  fairness    Jain 0.98 over 50 tenants (output tokens a second of their requests' time)\n"
        "  run         1.23M events, 3.46M engine steps (3.11 a plan) in 810ms: 4568 x real time\n"
        "  digest      0123456789abcdef\n"
        "  notes       warm-up: requests that arrived in the first 300s are left out\n"
        "              5 unfinished requests are missing from the latencies, which are too low\n"
        "              the trace names no adapters: they were assigned by a zipf law (alpha 1) over 1000\n"
        "              adapters, from the seed\n"
        "              prompts and answers are as long as the trace says\n");
}

/* Of a variant whose backlog grows. */
static void unstable_fill(struct summary *summary, const char *variant)
{
    summary_fill(summary, variant);
    summary->saturated = true;
    summary->rho = 1.31;
    summary->backlog_slope_per_s = 12.345;
    summary->refused = 0;
    summary->preempted_requests = 0;
    summary->notes[0] = '\0';
    summary->facts.warmup_until_ns = 0;
    summary->facts.partial = true;
    for (uint32_t class = 0; class < CLASS_COUNT; class++)
        summary->e2e_over_base[class] = summary->ttft_over_base[class] = NAN;
}

static void unstable_variant_shows_no_percentile(void **state)
{
    (void)state;
    summary_fill(&summaries[0], "affinity");
    unstable_fill(&summaries[1], "a variant with a long name");
    print(2);
    assert_non_null(strstr(printed,
        "a variant with a long name\n"
        "                      unstable: rho 1.31, +12.3 requests/s 85.7%  0.61  5.40   7890 67.1% 34.5% 0.98\n"));
    memmove(printed, strstr(printed, "a variant with a long name\n  partial"),
            strlen(strstr(printed, "a variant with a long name\n  partial")) + 1);
    assert_null(strstr(printed, "p50"));
    printed_is(
        "a variant with a long name\n"
        "  partial     stopped early: this is what had been simulated by then\n"
        "  requests    19366 arrived in 3300s: 18995 completed, 0 refused, 300 overload, 54 timed out,\n"
        "              5 unfinished; 17820 within the objective (5.40/s)\n"
        "  backlog     unstable: rho 1.31, +12.3 requests/s\n"
        "              the backlog grows as long as arrivals last: percentiles would only tell when they\n"
        "              stopped, so only what completed is shown\n"
        "\n"
        "  so far                      TTFT                        TPOT                         E2E\n"
        "  class    count                 mean    max                 mean    max                 mean    max\n"
        "  base      4995               97.5ms  1.62s               11.9ms  198ms                2.55s  42.5s\n"
        "  warm     12000                100ms  1.67s               12.2ms  203ms                2.62s  43.7s\n"
        "  host      1900                109ms  1.82s               13.3ms  221ms                2.85s  47.6s\n"
        "  store      100                128ms  2.13s               15.5ms  259ms                3.34s  55.6s\n"
        "  all      18995                101ms  1.69s               12.3ms  205ms                2.65s  44.2s\n"
        "\n"
        "  over base   n/a: unstable\n"
        "\n"
        "  where time went              all\n"
        "  queue            12.3ms   0.55%\n"
        "  slot_wait             0       -\n"
        "  store             117us   0.01%\n"
        "  host                  0       -\n"
        "  link             4.70ms   0.21%\n"
        "  prefill          45.6ms   2.03%\n"
        "  interference     78.9ms   3.52%\n"
        "  decode            2.10s   93.7%\n"
        "  recompute        3.21us   <.01%\n"
        "  sum               2.24s    100%\n"
        "\n"
        "  adapters    found in gpu 85.7%, host 13.6%, store 0.71%, of 14000 requests; 0.61 loads/s\n"
        "  caches      GPU slots: 123 evictions; host memory: 4000 hits, 100 misses\n"
        "  routing     17000 to a home of their adapter, 300 overflowed to another replica\n"
        "  use         KV 34.5% mean, 99.0% max; slots pinned 5.00%; waiting 0.012 mean, 34 max a replica\n"
        "  rates       5.76 requests/s, 1234 output tokens/s, 7890 tokens/s with prompts\n"
        "  fairness    Jain 0.98 over 50 tenants (output tokens a second of their requests' time)\n"
        "  run         1.23M events, 3.46M engine steps (3.11 a plan) in 810ms: 4568 x real time\n"
        "  digest      0123456789abcdef\n");
}

static void no_line_is_wider_than_the_terminal(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        summary_fill(&summaries[i], "v");
        summaries[i].notes[0] = '\0';
        for (uint32_t word = 0; word < 60; word++)
            strcat(summaries[i].notes, word == 20 ? "a-word-without-any-space-that-goes-on-and-on-and-on-beyond-all-that-"
                                                    "a-line-of-the-table-may-hold-of-it-and-further " : "words ");
        for (uint32_t class = 0; class < CLASS_COUNT; class++)
            for (uint32_t metric = 0; metric < METRIC_COUNT; metric++)
                summaries[i].latency[class][metric] = latency_make(8640000, 99949 * (i == 0 ? 1 : NS_PER_MS));
    }
    unstable_fill(&summaries[3], "u");
    summaries[3].backlog_slope_per_s = -1.23e-5;
    print(4);
    for (const char *line = printed; *line != '\0'; line += strcspn(line, "\n") + 1) {
        const size_t length = strcspn(line, "\n");

        if (length > 100 || (length > 0 && line[length - 1] == ' '))
            fail_msg("%zu columns: \"%.*s\"", length, (int)length, line);
    }
    assert_null(strchr(printed, '\033')); /* no terminal, no emphasis */
}

static void more_than_four_variants_are_told_in_rows(void **state)
{
    (void)state;
    char name[16];

    for (uint32_t i = 0; i < 6; i++) {
        snprintf(name, sizeof(name), "variant-%u", i);
        summary_fill(&summaries[i], name);
    }
    print(6);
    assert_non_null(strstr(printed, "variant-5  "));
    assert_non_null(strstr(printed, "\nvariant-0\n  requests"));
    assert_null(strstr(printed, "\nvariant-1\n  requests"));
    assert_non_null(strstr(printed, "\n5 more variants are told in detail by --json and --report.\n"));
}

static void what_is_not_known_says_why(void **state)
{
    (void)state;
    summary_fill(&summaries[0], "few");
    for (uint32_t metric = 0; metric < METRIC_COUNT; metric++)
        summaries[0].latency[CLASS_STORE][metric] = (struct latency){.count = 0};
    summaries[0].e2e_over_base[CLASS_STORE] = summaries[0].ttft_over_base[CLASS_STORE] = NAN;
    summaries[0].loads_per_s = NAN;
    print(1);
    assert_non_null(strstr(printed, "  store       n/a: 0 requests, 100 needed     n/a: 0 requests, 100 needed\n"));
    assert_non_null(strstr(printed, "  store        0    n/a    n/a    n/a    n/a"));
    assert_non_null(strstr(printed, "; n/a loads/s\n"));

    for (uint32_t metric = 0; metric < METRIC_COUNT; metric++)
        summaries[0].latency[CLASS_BASE][metric].count = 99;
    print(1);
    assert_non_null(strstr(printed, "  over base   n/a: 99 base requests completed, 100 needed to compare with\n"));

    summaries[0].rho = 1.4;
    print(1);
    assert_non_null(strstr(printed, "steady by turning requests away: offered work / work done 1.40"));
}

static void a_run_of_nothing_is_printed_too(void **state)
{
    (void)state;
    memset(&summaries[0], 0, sizeof(summaries[0]));
    strcpy(summaries[0].variant, "default");
    summaries[0].rho = summaries[0].jain = summaries[0].gpu_hit_ratio = summaries[0].goodput_per_s = NAN;
    summaries[0].kv_share_mean = summaries[0].kv_share_max = summaries[0].waiting_mean = summaries[0].waiting_max = NAN;
    print(1);
    assert_non_null(strstr(printed, "default             n/a    n/a    n/a    n/a    n/a    n/a   n/a"));
    assert_non_null(strstr(printed, "n/a: too little was served to tell"));
    assert_null(strstr(printed, " nan"));
    assert_null(strstr(printed, "-nan"));
    assert_null(strstr(printed, "inf"));
}

static void numbers_keep_three_digits_and_fit_their_columns(void **state)
{
    (void)state;
    assert_string_equal(cell_time(0).text, "0");
    assert_string_equal(cell_time(3210).text, "3.21us");
    assert_string_equal(cell_time(999499).text, "999us");
    assert_string_equal(cell_time(999500).text, "1.00ms");
    assert_string_equal(cell_time(9.996e6).text, "10.0ms");
    assert_string_equal(cell_time(12.34e6).text, "12.3ms");
    assert_string_equal(cell_time(999.6e6).text, "1.00s");
    assert_string_equal(cell_time(1234e9).text, "1234s");
    assert_string_equal(cell_time(NAN).text, "n/a");
    assert_string_equal(cell_quantity(0.0123).text, "0.012");
    assert_string_equal(cell_quantity(9999).text, "9999");
    assert_string_equal(cell_quantity(9999.6).text, "10.0k");
    assert_string_equal(cell_quantity(1.234e6).text, "1.23M");
    assert_string_equal(cell_percent(0.00001).text, "<.01%");
    assert_string_equal(cell_percent(0).text, "0%");
    assert_string_equal(cell_percent(1).text, "100%");
    assert_string_equal(cell_ratio(INFINITY).text, "n/a");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_variant_is_told_in_full),
        cmocka_unit_test(unstable_variant_shows_no_percentile),
        cmocka_unit_test(no_line_is_wider_than_the_terminal),
        cmocka_unit_test(more_than_four_variants_are_told_in_rows),
        cmocka_unit_test(what_is_not_known_says_why),
        cmocka_unit_test(a_run_of_nothing_is_printed_too),
        cmocka_unit_test(a_variant_that_merges_is_told_beside_one_that_does_not),
        cmocka_unit_test(numbers_keep_three_digits_and_fit_their_columns),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
