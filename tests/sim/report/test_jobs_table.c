/* The table of jobs against golden text: written for a reader, so a change here should read better than what it replaces. */
#include "report/cells.h"
#include "report/report.h"
#include "support.h"

#include <math.h>
#include <stdio.h>

#define TENANTS 7

static struct summary summaries[3];
static int64_t costs[3][(TENANTS + 1) * CHARGE_COUNT];
static char printed[32768];

static struct span span_make(uint64_t count, double p50_s)
{
    return (struct span){count, p50_s * 1.5, p50_s, p50_s * 4, p50_s * 10, p50_s * 20};
}

static void class_fill(struct job_kind_summary *class, const char *name, uint64_t count, double wait_s, double completion_s)
{
    snprintf(class->name, sizeof(class->name), "%s", name);
    class->submitted = count + 3;
    class->done = count;
    class->wait = span_make(count, wait_s);
    class->completion = span_make(count, completion_s);
    class->gpu_hours = (double)count * 1.75;
}

static void summary_fill(uint32_t v, const char *variant)
{
    struct summary *summary = &summaries[v];
    struct jobs_summary *jobs = &summary->jobs;

    memset(summary, 0, sizeof(*summary));
    strcpy(summary->name, "tenants-500");
    snprintf(summary->variant, sizeof(summary->variant), "%s", variant);
    summary->seed = 7;
    summary->without_requests = true;
    summary->facts = (struct run_facts){.warmup_until_ns = 3600 * NS_PER_S, .end_ns = 86400 * NS_PER_S, .events = 123456,
                                        .wall_s = 0.5, .digest = UINT64_C(0x0123456789abcdef)};
    strcpy(summary->notes, "tenants were drawn, the trace names none\n");
    *jobs = (struct jobs_summary){
        .present = true, .submitted = 207, .started = 203, .done = 196, .failed = 2, .cancelled = 1, .refused = 3, .unfinished = 5,
        .days = 0.958, .gpu_hours_per_day = 351.2, .held_gpu_hours_per_day = 402.6, .wait = span_make(203, 12.3),
        .completion = span_make(196, 4321), .within_2h = 0.876, .tenant_wait = span_make(120, 33), .rho = span_make(196, 1.21),
        .unfair_share = 0.031, .jain = 0.912, .allocated_share = 0.9, .used_share = 0.3, .lost_gpu_hours = 3.21,
        .checkpoint_gpu_hours = 8.7, .load_gpu_hours = 1.05, .reclaims = 12, .preempts = 3, .notices = 4, .losses = 1,
        .serving_stops = 9, .publish_blocked = 11, .joined = 100, .republished = 30, .upgraded = 15, .publish_refused = 5,
        .upgrade_adapters = 20, .upgrade_jobs = 18, .deadlines = 40, .deadlines_missed = 6,
        .base_loads = 44, .base_hits = 180, .base_drops = 20, .published = 150, .kinds_count = 2, .cost_nano = costs[v],
        .tenants_count = TENANTS, .tokens_trained = 1234567890, .cost_per_million_tokens = 1.2345,
        .idle_adapter_per_month = 0.00193};
    jobs->refused_by_reason[JOB_REFUSE_GANG] = 2;
    jobs->refused_worst[JOB_REFUSE_GANG] = (struct job_refusal){16, 8};
    jobs->refused_by_reason[JOB_REFUSE_QUOTA] = 1;
    jobs->refused_worst[JOB_REFUSE_QUOTA] = (struct job_refusal){4000, 2500};
    class_fill(&jobs->kinds[0], "8b", 150, 2, 3600);
    class_fill(&jobs->kinds[1], "70b", 46, 340, 14400);
    class_fill(&jobs->evaluations, "evaluations", 161, 1, 60);
    class_fill(&jobs->sizes[0], "< 0.5 GPU-h", 90, 2, 900);
    class_fill(&jobs->sizes[1], "0.5-2 GPU-h", 106, 30, 7200);
    memset(costs[v], 0, sizeof(costs[v]));
    for (uint32_t i = 0; i < TENANTS; i++) {
        costs[v][i * CHARGE_COUNT + CHARGE_COMPUTE] = (int64_t)(i % 5) * 100000000000 + 12345678;
        costs[v][i * CHARGE_COUNT + CHARGE_RESIDENCY] = 7000000000;
    }
    costs[v][1 * CHARGE_COUNT + CHARGE_DISCOUNT] = -5000000000;
    costs[v][TENANTS * CHARGE_COUNT + CHARGE_DISCOUNT] = 5000000000;
    costs[v][TENANTS * CHARGE_COUNT + CHARGE_IDLE] = 250000000000;
    for (size_t i = 0; i < ARRAY_COUNT(costs[v]); i++)
        jobs->cost_total_nano += costs[v][i];
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
    summary_fill(0, "24 GPUs");
    print(1);
    printed_is(
        "tenants-500, seed 7\n"
        "\n"
        "                   jobs                    wait              completion within  GPU-h  GPUs  GPUs\n"
        "variant            done     p50     p90     p99     p50     p90     p99     2h   /day  held  used\n"
        "24 GPUs             196   12.3s   49.2s 2.05min 72.0min   4.80h   12.0h  87.6%    351 90.0% 30.0%\n"
        "\n"
        "                  GPU-h                            stopped by          base          cost     per 1M\n"
        "variant          redone reclaim preempt notice serving   loss  loads   hits         total     tokens\n"
        "24 GPUs            3.21      12       3      4       9      1     44    180       1399.09       1.23\n"
        "\n"
        "24 GPUs\n"
        "  jobs        207 submitted in 0.96 days: 196 done, 2 failed, 1 cancelled, 3 refused, 0 overload, 5\n"
        "              unfinished; 351 GPU-h/day asked by those done, 403 held by all\n"
        "              5 jobs were unfinished when the run ended: they are missing from the completions,\n"
        "              which are too low\n"
        "              40 had a deadline, 6 of them were not done by then (15.0%)\n"
        "  refused     2 gang: needs 16 GPUs of one node, the largest node has 8; none needs more\n"
        "              1 quota: needs 4000 thousandths of a GPU, its tenant may never have more than 2500\n"
        "\n"
        "                                                    wait              completion    GPU-h\n"
        "  kind                    jobs    done       p50     p90     p99     p50     p90     p99   held\n"
        "  8b                       153     150     2.00s   8.00s   20.0s 60.0min   4.00h   10.0h    262\n"
        "  70b                       49      46   5.67min 22.7min 56.7min   4.00h   16.0h   40.0h   80.5\n"
        "  evaluations              164     161     1.00s   4.00s   10.0s   60.0s 4.00min 10.0min    282\n"
        "\n"
        "                                                    wait              completion    GPU-h\n"
        "  size                    jobs    done       p50     p90     p99     p50     p90     p99   held\n"
        "  < 0.5 GPU-h               93      90     2.00s   8.00s   20.0s 15.0min 60.0min   2.50h    158\n"
        "  0.5-2 GPU-h              109     106     30.0s 2.00min 5.00min   2.00h   8.00h   20.0h    186\n"
        "\n"
        "  cost of                       amount     part\n"
        "  base residency                 49.00    3.50%\n"
        "  compute                      1100.09    78.6%\n"
        "  idle                          250.00    17.9%\n"
        "  all                          1399.09     100%\n"
        "\n"
        "  paid by                       amount     part\n"
        "  tenant-4                      407.01    29.1%\n"
        "  tenant-3                      307.01    21.9%\n"
        "  tenant-2                      207.01    14.8%\n"
        "  tenant-6                      107.01    7.65%\n"
        "  tenant-1                      102.01    7.29%\n"
        "  other tenants                  14.02    1.00%\n"
        "  platform                      255.00    18.2%\n"
        "\n"
        "  prices      1.23 per 1M trained tokens (1.23G tokens of jobs done, all costs); an adapter nobody\n"
        "              uses: 0.00193 a month\n"
        "  pool        GPUs held 90.0%, used 30.0% of the time; of held GPU time 3.21 h were spent on work\n"
        "              done again, 8.70 h on checkpoints, 1.05 h waiting for a base\n"
        "  stops       12 reclaimed by their owner, 3 preempted by priority, 4 on notice, 9 for serving, 1\n"
        "              with their GPUs\n"
        "  bases       44 loads, 180 placements found theirs, 20 dropped\n"
        "  published   150 adapters passed the gate, 11 did not; 100 joined the serving catalogue, 30\n"
        "              replaced an earlier version, 15 moved to a new base, 5 found no room\n"
        "  upgrade     20 adapters were on the old base, 18 were given a retraining for the new one\n"
        "  fairness    finish-time rho (completion over size) 1.21 p50, 4.84 p90, 12.1 p99, 24.2 at worst;\n"
        "              3.10% of the jobs above double the tenants' mean; Jain 0.91 over tenants' mean rho\n"
        "              mean wait by tenant: 33.0s p50, 2.20min p90, 5.50min p99, 11.0min at worst, of 120\n"
        "              tenants\n"
        "  run         123k events in 500ms: 173k x real time\n"
        "  digest      0123456789abcdef\n"
        "  notes       warm-up: jobs that arrived in the first 3600s are left out\n"
        "              tenants were drawn, the trace names none\n");
}

static void flood_has_a_table_of_its_own(void **state)
{
    (void)state;
    for (uint32_t v = 0; v < 2; v++) {
        summary_fill(v, v == 0 ? "calm" : "flood");
        summaries[v].jobs.burst_described = true;
        summaries[v].jobs.burst_jobs = v * 50;
        summaries[v].jobs.others_wait = span_make(190, 12 + 3 * v);
        summaries[v].jobs.burst_wait = span_make(v * 50, 700);
    }
    print(2);
    assert_non_null(strstr(printed,
        "                   burst        wait of the others     of the burst's tenant\n"
        "variant             jobs       p50     p90     p99       p50     p90     p99\n"
        "calm                   0     12.0s   48.0s 2.00min       n/a     n/a     n/a\n"
        "flood                 50     15.0s   60.0s 2.50min   11.7min 46.7min  117min\n"));
}

static void serving_put(uint32_t v, bool known, int64_t compute_nano)
{
    summaries[v].without_requests = false;
    summaries[v].facts.serving = (struct serving_bill){.known = known, .total_nano = compute_nano,
                                                       .cost_nano = {[CHARGE_COMPUTE] = compute_nano}};
    summaries[v].tokens_served = 3080000000;
    summaries[v].serving_cost_per_million_tokens = known ? 0.325 : NAN;
    summaries[v].jobs.cost_serving_nano = compute_nano;
    costs[v][TENANTS * CHARGE_COUNT + CHARGE_COMPUTE] += compute_nano;
    summaries[v].jobs.cost_total_nano += compute_nano;
}

static void serving_is_told_apart_from_the_rest_of_the_bill(void **state)
{
    (void)state;
    for (uint32_t v = 0; v < 2; v++)
        summary_fill(v, v == 0 ? "priced" : "unpriced");
    serving_put(0, true, 1000000000000);
    serving_put(1, false, 0);
    print(2);
    assert_non_null(strstr(printed,
        "                                                      cost               per 1M tokens\n"
        "variant                serving      the rest      together        served       trained\n"
        "priced                 1000.00       1399.09       2399.09         0.325          1.23\n"
        "unpriced                   n/a       1399.09           n/a           n/a          1.23\n"));
    assert_non_null(strstr(printed,
        "  other tenants                  14.02    0.58%\n"
        "  platform, serving            1000.00    41.7%\n"
        "  platform, the rest            255.00    10.6%\n"));
    assert_non_null(strstr(printed, "tokens of jobs done, all costs but serving's)"));
    assert_non_null(strstr(printed, "  serving     1000.00, the platform's: 0.325 per 1M tokens served, prompts included (3.08G in the\n"
                                    "              whole run)\n"));
    assert_non_null(strstr(printed,
        "  serving     the GPUs of serving have no price (pool.price_per_h): they are in none of these costs\n"));
}

static void serving_without_jobs_has_a_bill_of_its_own(void **state)
{
    (void)state;
    summary_fill(0, "chat");
    serving_put(0, true, 1000000000000);
    memset(&summaries[0].jobs, 0, sizeof(summaries[0].jobs));
    print(1);
    assert_non_null(strstr(printed, "chat                   1000.00           n/a       1000.00         0.325           n/a\n"));
    assert_non_null(strstr(printed, "\n  cost of                       amount     part\n"
                                    "  compute                      1000.00     100%\n\n"));
    serving_put(0, false, 0);
    print(1);
    assert_null(strstr(printed, "cost"));
}

static void no_line_is_wider_than_the_terminal(void **state)
{
    (void)state;
    for (uint32_t v = 0; v < 3; v++) {
        summary_fill(v, v == 2 ? "a variant with a very long name that goes on" : "v");
        summaries[v].without_requests = true;
        summaries[v].jobs.wait = span_make(1000000, 99.4 * 60);
        summaries[v].jobs.completion = span_make(1000000, 119.4);
        summaries[v].jobs.burst_described = true;
        summaries[v].jobs.burst_wait = summaries[v].jobs.others_wait = span_make(50, 119.4 * 60 / 4);
        summaries[v].jobs.done = 12345678;
        summaries[v].jobs.cost_total_nano = INT64_MAX;
        snprintf(summaries[v].jobs.kinds[0].name, 64, "a kind with a name of many words \033[31m and colours");
    }
    print(3);
    for (const char *line = printed; *line != '\0'; line += strcspn(line, "\n") + 1) {
        const size_t length = strcspn(line, "\n");

        if (length > 100 || (length > 0 && line[length - 1] == ' '))
            fail_msg("%zu columns: \"%.*s\"", length, (int)length, line);
    }
    assert_null(strchr(printed, '\033')); /* nobody's name colours the terminal */
}

static void names_cannot_write_to_the_terminal_and_are_cut_between_characters(void **state)
{
    (void)state;
    char *names[TENANTS] = {[4] = "\033]0;owned\007", [3] = "Üüüüüüüüüüüüüüüüüüüüüüü"};

    summary_fill(0, "v");
    summaries[0].jobs.tenant_names = names;
    print(1);
    assert_null(strchr(printed, '\033'));
    assert_null(strchr(printed, '\007'));
    assert_non_null(strstr(printed, "   ]0;owned  "));
    assert_non_null(strstr(printed, "  Üüüüüüüüüüüüüüüüüüü           307.01"));
}

static void run_of_nothing_is_printed_too(void **state)
{
    (void)state;
    memset(&summaries[0], 0, sizeof(summaries[0]));
    strcpy(summaries[0].variant, "default");
    summaries[0].without_requests = true;
    summaries[0].jobs.present = true;
    summaries[0].jobs.within_2h = summaries[0].jobs.jain = summaries[0].jobs.allocated_share = NAN;
    summaries[0].jobs.used_share = summaries[0].jobs.gpu_hours_per_day = summaries[0].jobs.cost_per_million_tokens = NAN;
    print(1);
    assert_null(strstr(printed, " nan"));
    assert_null(strstr(printed, "-nan"));
    assert_null(strstr(printed, "inf"));
    assert_null(strstr(printed, "TTFT"));
    assert_non_null(strstr(printed, "default               0     n/a     n/a     n/a     n/a     n/a     n/a    n/a    n/a   n/a   n/a\n"));
}

static void spans_and_money_keep_their_digits(void **state)
{
    (void)state;
    assert_string_equal(cell_span(0).text, "0");
    assert_string_equal(cell_span(0.0123).text, "12.3ms");
    assert_string_equal(cell_span(119.4).text, "119s");
    assert_string_equal(cell_span(120).text, "2.00min");
    assert_string_equal(cell_span(119.4 * 60).text, "119min");
    assert_string_equal(cell_span(7200).text, "2.00h");
    assert_string_equal(cell_span(99.4 * 3600).text, "99.4h");
    assert_string_equal(cell_span(10 * 86400).text, "10.0d");
    assert_string_equal(cell_span(NAN).text, "n/a");
    assert_string_equal(cell_money(0).text, "0.00");
    assert_string_equal(cell_money(1999999999).text, "2.00");
    assert_string_equal(cell_money(123456).text, "0.000123");
    assert_string_equal(cell_money(1).text, "1.00e-09");
    assert_string_equal(cell_money(-1234567890).text, "-1.23");
    assert_string_equal(cell_money(INT64_MAX).text, "9223372036.85");
    assert_string_equal(cell_money(INT64_MIN).text, "-9223372036.85");
    assert_string_equal(cell_price(0.00193).text, "0.00193");
    assert_string_equal(cell_price(NAN).text, "n/a");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_variant_is_told_in_full),
        cmocka_unit_test(flood_has_a_table_of_its_own),
        cmocka_unit_test(serving_is_told_apart_from_the_rest_of_the_bill),
        cmocka_unit_test(serving_without_jobs_has_a_bill_of_its_own),
        cmocka_unit_test(no_line_is_wider_than_the_terminal),
        cmocka_unit_test(names_cannot_write_to_the_terminal_and_are_cut_between_characters),
        cmocka_unit_test(run_of_nothing_is_printed_too),
        cmocka_unit_test(spans_and_money_keep_their_digits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
