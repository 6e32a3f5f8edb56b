/* The numbers of the page: variants side by side, then each by itself. */
#include <math.h>

#include "report/page.h"
#include "report/page_rows.h"
#include "report/text.h"
#include "results/words.h"

/* X(name, kind, better, percentile, label, value of `s`). A percentile of an unstable run is none. */
#define ROW_LIST(X)                                                                                                     \
    X(GPUS, COUNT, NEITHER, false, "GPUs", s->facts.gpus)                                                               \
    X(COMPLETED, COUNT, NEITHER, false, "requests completed", s->completed)                                             \
    X(LOST, COUNT, LESS, false, "refused, turned away, timed out", s->refused + s->overload + s->timeouts)               \
    X(UNFINISHED, COUNT, LESS, false, "not finished", s->unfinished)                                                    \
    X(GOOD_SHARE, PERCENT, MORE, false, "within the objective, of all that arrived",                                    \
      s->arrived > 0 ? (double)s->good / (double)s->arrived : NAN)                                                      \
    X(GOODPUT, NUMBER, MORE, false, "requests within the objective, a second", s->goodput_per_s)                        \
    X(OUTPUT, NUMBER, MORE, false, "output tokens a second", s->output_tokens_per_s)                                    \
    X(TTFT_P50, DURATION, LESS, true, "time to first token, median", s->latency[CLASS_ALL][METRIC_TTFT].p50_ns)         \
    X(TTFT_P90, DURATION, LESS, true, "time to first token, p90", s->latency[CLASS_ALL][METRIC_TTFT].p90_ns)            \
    X(TTFT_P99, DURATION, LESS, true, "time to first token, p99", s->latency[CLASS_ALL][METRIC_TTFT].p99_ns)            \
    X(TPOT_P50, DURATION, LESS, true, "time per output token, median", s->latency[CLASS_ALL][METRIC_TPOT].p50_ns)       \
    X(TPOT_P99, DURATION, LESS, true, "time per output token, p99", s->latency[CLASS_ALL][METRIC_TPOT].p99_ns)          \
    X(E2E_P50, DURATION, LESS, true, "end to end, median", s->latency[CLASS_ALL][METRIC_E2E].p50_ns)                    \
    X(E2E_P99, DURATION, LESS, true, "end to end, p99", s->latency[CLASS_ALL][METRIC_E2E].p99_ns)                       \
    X(HITS, PERCENT, MORE, false, "adapter found in a GPU slot", s->gpu_hit_ratio)                                      \
    X(LOADS, NUMBER, LESS, false, "adapters loaded a second", s->loads_per_s)                                           \
    X(BUSY, PERCENT, NEITHER, false, "GPUs busy", s->gpu_busy_share)                                                    \
    X(KV_MEAN, PERCENT, NEITHER, false, "KV memory used, mean", s->kv_share_mean)                                       \
    X(KV_MAX, PERCENT, NEITHER, false, "KV memory used, most", s->kv_share_max)                                         \
    X(PINNED, PERCENT, NEITHER, false, "adapter slots in use by a batch, mean", s->slots_pinned_share_mean)             \
    X(WAITING, NUMBER, LESS, false, "requests waiting, mean", s->waiting_mean)                                          \
    X(WAITING_MAX, NUMBER, LESS, false, "requests waiting, most", s->waiting_max)                                       \
    X(PREEMPTED, COUNT, LESS, false, "requests that lost their KV memory", s->preempted_requests)                       \
    X(JAIN, NUMBER, MORE, false, "fairness between tenants (Jain, 1 is equal)", s->jain)                                \
    X(RHO, NUMBER, NEITHER, false, "offered work over work done", s->rho)                                                \
    X(COST, NUMBER, LESS, false, "cost of serving, currency units",                                                     \
      s->facts.serving.known ? (double)s->facts.serving.total_nano / 1e9 : NAN)                                         \
    X(PRICE, NUMBER, LESS, false, "cost of a million tokens served, prompts included", s->serving_cost_per_million_tokens)

enum row {
#define X(name, kind, better, percentile, label, value) ROW_##name,
    ROW_LIST(X)
#undef X
    ROW_COUNT
};

static const struct page_row rows[ROW_COUNT] = {
#define X(name, kind, better, percentile, label, value) {kind, better, percentile, label},
    ROW_LIST(X)
#undef X
};

/* NaN: there is no such number. */
static double row_value(uint32_t row, const struct summary *s)
{
    bool none = s->completed == 0 && rows[row].kind == DURATION;

    if (none || s->without_requests || (rows[row].percentile && s->saturated))
        return NAN;
    switch ((enum row)row) {
#define X(name, kind, better, percentile, label, value) \
    case ROW_##name:                                    \
        return (double)(value);
        ROW_LIST(X)
#undef X
    case ROW_COUNT:
        break;
    }
    return NAN;
}

static bool any_priced(const struct summary *summaries, uint32_t count)
{
    bool found = false;

    for (uint32_t v = 0; v < count; v++)
        found |= !summaries[v].without_requests && summaries[v].facts.serving.known;
    return found;
}

void page_comparison(FILE *out, const struct summary *summaries, uint32_t count)
{
    const bool priced = any_priced(summaries, count);

    page_variants_head(out, summaries, count, 0);
    for (uint32_t row = 0; row < ROW_COUNT; row++)
        if (priced || (row != ROW_COST && row != ROW_PRICE))
            page_rows_row(out, rows, row, row_value, summaries, count);
    page_rows_end(out);
    if (count > 1)
        fputs("<p class=\"note\">★ marks the best of a row. Percentiles of an unstable variant are not printed: they would "
              "grow with the length of the run.</p>\n", out);
}

static const char *const class_names[CLASS_COUNT] = {
    [CLASS_ALL] = "all requests",
    [CLASS_BASE] = "base, no adapter",
    [CLASS_WARM] = "warm, in a GPU slot",
    [CLASS_HOST] = "from host memory",
    [CLASS_STORE] = "from the object store",
};

/* goal 0: none. */
static void goal_cell(FILE *out, double ratio, double goal, bool saturated)
{
    if (saturated)
        fputs("<td class=\"unstable\">unstable</td>", out);
    else if (isnan(ratio))
        fputs("<td>–</td>", out);
    else if (goal == 0)
        fprintf(out, "<td>%.2f</td>", ratio);
    else
        fprintf(out, "<td class=\"%s\">%.2f %s</td>", ratio <= goal ? "met" : "missed", ratio,
                ratio <= goal ? "✓ met" : "✗ missed");
}

static void goal_row(FILE *out, enum request_class class, enum metric metric, const struct summary *summaries, uint32_t count)
{
    bool e2e = metric == METRIC_E2E;
    /* A fetch from the object store takes longer than a prompt: it is shown, and nobody promises it. */
    double goal = class == CLASS_STORE ? 0 : e2e ? GOAL_E2E_OVER_BASE : GOAL_TTFT_OVER_BASE;

    fprintf(out, "<tr><th scope=\"row\">%s, %s ", e2e ? "end to end" : "first token", class_names[class]);
    if (goal > 0)
        fprintf(out, "<small>goal %.2f</small></th>", goal);
    else
        fputs("<small>no goal</small></th>", out);
    for (uint32_t v = 0; v < count; v++)
        goal_cell(out, e2e ? summaries[v].e2e_over_base[class] : summaries[v].ttft_over_base[class], goal,
                  summaries[v].saturated);
    fputs("</tr>\n", out);
}

void page_goals(FILE *out, const struct summary *summaries, uint32_t count, uint32_t first)
{
    page_variants_head(out, summaries, count, first);
    for (uint32_t class = CLASS_WARM; class < CLASS_COUNT; class++)
        goal_row(out, (enum request_class)class, METRIC_E2E, summaries, count);
    for (uint32_t class = CLASS_WARM; class < CLASS_COUNT; class++)
        goal_row(out, (enum request_class)class, METRIC_TTFT, summaries, count);
    fputs("</tbody></table></div>\n<p class=\"note\">Median of the fine-tuned requests over that of the base requests of the "
          "same variant; – where either has too few.</p>\n", out);
}

static void latency_cells(FILE *out, const struct latency *latency, double unit_ns, bool saturated)
{
    const int64_t values_ns[] = {latency->p50_ns, latency->p90_ns, latency->p99_ns, latency->max_ns};

    for (size_t i = 0; i < ARRAY_COUNT(values_ns); i++) {
        char text[NUMBER_TEXT_MAX];
        bool largest = i + 1 == ARRAY_COUNT(values_ns); /* the greatest seen is a fact, not an estimate */

        text_number(latency->count > 0 ? (double)values_ns[i] / unit_ns : NAN, text);
        if (saturated && !largest)
            fputs(i == 0 ? "<td class=\"unstable\" colspan=\"3\">unstable</td>" : "", out);
        else
            fprintf(out, "<td%s>%s</td>", i == 0 ? " class=\"edge\"" : "", text);
    }
}

static void latency_table(FILE *out, const struct summary *summary)
{
    static const char *const metric_names[METRIC_COUNT] = {
        [METRIC_TTFT] = "time to first token", [METRIC_TPOT] = "time per output token", [METRIC_E2E] = "end to end"};
    double unit_ns[METRIC_COUNT];

    fputs("<h4>Latency by class of request</h4>\n<div class=\"scroll\"><table>\n<thead><tr><td rowspan=\"2\"></td>"
          "<th rowspan=\"2\">requests</th>", out);
    for (uint32_t metric = 0; metric < METRIC_COUNT; metric++) {
        /* The median decides: a single worst case must not turn the rest into 0.0123. */
        const char *unit = page_duration_unit((double)summary->latency[CLASS_ALL][metric].p50_ns, &unit_ns[metric]);

        fprintf(out, "<th colspan=\"4\" class=\"edge group\">%s <small>%s</small></th>", metric_names[metric], unit);
    }
    fputs("</tr>\n<tr>", out);
    for (uint32_t metric = 0; metric < METRIC_COUNT; metric++)
        fputs("<th class=\"edge\">p50</th><th>p90</th><th>p99</th><th>max</th>", out);
    fputs("</tr></thead>\n<tbody>\n", out);
    for (uint32_t class = 0; class < CLASS_COUNT; class++) {
        char count[NUMBER_TEXT_MAX];
        uint64_t requests = summary->latency[class][METRIC_E2E].count;

        if (class != CLASS_ALL && requests == 0)
            continue;
        count_text(requests, count);
        fprintf(out, "<tr><th scope=\"row\">%s</th><td>%s</td>", class_names[class], count);
        for (uint32_t metric = 0; metric < METRIC_COUNT; metric++)
            latency_cells(out, &summary->latency[class][metric], unit_ns[metric], summary->saturated);
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table></div>\n", out);
}

static void tiers_table(FILE *out, const struct summary *summary)
{
    static const char *const tier_names[TIER_COUNT] = {[TIER_BASE] = "needed none", [TIER_GPU] = "a GPU slot",
                                                       [TIER_HOST] = "host memory", [TIER_STORE] = "the object store"};
    uint64_t total = 0;

    for (uint32_t tier = 0; tier < TIER_COUNT; tier++)
        total += summary->tier_count[tier];
    fputs("<h4>Where the adapter was found</h4>\n<div class=\"scroll\"><table>\n<thead><tr><td></td><th>requests</th>"
          "<th>part</th></tr></thead>\n<tbody>\n", out);
    for (uint32_t tier = 0; tier < TIER_COUNT; tier++) {
        char count[NUMBER_TEXT_MAX];

        count_text(summary->tier_count[tier], count);
        fprintf(out, "<tr><th scope=\"row\">%s</th><td>%s</td><td>%.1f %%</td></tr>\n", tier_names[tier], count,
                total > 0 ? 100.0 * (double)summary->tier_count[tier] / (double)total : 0);
    }
    fputs("</tbody></table></div>\n", out);
}

static void blame_cell(FILE *out, double part_ns, double total_ns)
{
    char text[NUMBER_TEXT_MAX];

    text_duration(part_ns, text);
    if (part_ns > 0)
        fprintf(out, "<td>%s <small>%.1f %%</small></td>", text, part_ns / total_ns * 100);
    else
        fputs("<td class=\"zero\">0</td>", out);
}

static void blame_table(FILE *out, const struct summary *summary)
{
    static const char *const names[BLAME_COUNT] = {
#define X(name, text, about) text,
        BLAME_LIST(X)
#undef X
    };
    static const char *const abouts[BLAME_COUNT] = {
#define X(name, text, about) about,
        BLAME_LIST(X)
#undef X
    };
    uint32_t bands = summary->saturated ? 1 : BLAME_BANDS; /* "all" comes first; the others are percentiles */
    double total_ns[BLAME_BANDS] = {0};

    fputs("<h4>Where the time went</h4>\n<div class=\"scroll\"><table>\n<thead><tr><td></td>", out);
    for (uint32_t band = 0; band < bands; band++) {
        fputs("<th scope=\"col\">", out);
        text_html(out, summary->blame[band].label);
        fputs("</th>", out);
        for (uint32_t i = 0; i < BLAME_COUNT; i++)
            total_ns[band] += summary->blame[band].mean_ns[i];
    }
    fputs("<th class=\"text\">is</th></tr></thead>\n<tbody>\n", out);
    for (uint32_t i = 0; i < BLAME_COUNT; i++) {
        fprintf(out, "<tr><th scope=\"row\">%s</th>", names[i]);
        for (uint32_t band = 0; band < bands; band++)
            blame_cell(out, summary->blame[band].mean_ns[i], total_ns[band]);
        fputs("<td class=\"text\">", out);
        text_html(out, abouts[i]);
        fputs("</td></tr>\n", out);
    }
    fputs("<tr class=\"total\"><th scope=\"row\">together</th>", out);
    for (uint32_t band = 0; band < bands; band++) {
        char text[NUMBER_TEXT_MAX];

        text_duration(total_ns[band], text);
        fprintf(out, "<td>%s</td>", text);
    }
    fputs("<td class=\"text\">end-to-end latency of the mean request of the band</td></tr>\n</tbody></table></div>\n", out);
}

static void refusals(FILE *out, const struct summary *summary)
{
    for (uint32_t i = 0; i < ARRAY_COUNT(summary->by_reason); i++) {
        const struct refusal *worst = &summary->refusal_worst[i];
        char sentence[REFUSE_SENTENCE_MAX];
        char text[NUMBER_TEXT_MAX];

        if (summary->by_reason[i] == 0)
            continue;
        count_text(summary->by_reason[i], text);
        refuse_sentence(i, worst->need, worst->have, sentence);
        fprintf(out, "<dt>refused</dt><dd>%s: ", text);
        text_html(out, sentence);
        fputs(worst->need > 0 && summary->by_reason[i] > 1 ? "; none needs more</dd>\n" : "</dd>\n", out);
    }
}

static void fact(FILE *out, const char *name, const char *before, uint64_t value, const char *after)
{
    char text[NUMBER_TEXT_MAX];

    count_text(value, text);
    fprintf(out, "<dt>%s</dt><dd>%s%s%s</dd>\n", name, before, text, after);
}

static void facts_list(FILE *out, const struct summary *summary)
{
    const struct run_facts *facts = &summary->facts;
    char measured[NUMBER_TEXT_MAX], warmup[NUMBER_TEXT_MAX], simulated[NUMBER_TEXT_MAX], wall[NUMBER_TEXT_MAX];
    char steps[NUMBER_TEXT_MAX], runs[NUMBER_TEXT_MAX];

    text_duration(summary->measured_s * 1e9, measured);
    text_duration((double)facts->warmup_until_ns, warmup);
    text_duration((double)facts->end_ns, simulated);
    text_duration(facts->wall_s * 1e9, wall);
    count_text(facts->engine_steps, steps);
    count_text(facts->runs, runs);
    fputs("<h4>Facts of the run</h4>\n<dl>\n", out);
    fprintf(out, "<dt>measured</dt><dd>%s, after a warm-up of %s whose requests are in no number here</dd>\n", measured, warmup);
    fprintf(out, "<dt>simulated</dt><dd>%s to the last event, in %s</dd>\n", simulated, wall);
    fact(out, "arrived", "", summary->arrived, " requests in the measured time");
    refusals(out, summary);
    fact(out, "recomputed", "", summary->recomputed_tokens, " tokens of requests that had lost their KV memory");
    fact(out, "tenants served", "", summary->tenants_served, "");
    fact(out, "KV memory", "", facts->kv_tokens_per_replica, " tokens a replica (first pool)");
    fact(out, "adapter slots", "", facts->slots_capacity, " a replica, bytes or slots as the scenario counts (first pool)");
    fact(out, "evictions", "", facts->evictions, "");
    fact(out, "host memory", "", facts->node_hits, " hits");
    fact(out, "", "", facts->node_misses, " misses");
    fact(out, "routed home", "", facts->route_home, "");
    fact(out, "routed elsewhere", "", facts->route_overflow, "");
    if (facts->merge_break_even_milli > 0) {
        char hours[NUMBER_TEXT_MAX];

        text_number((double)facts->merged_replica_ns / 3600e9, hours);
        fact(out, "merged weights", "pay from ", (facts->merge_break_even_milli + 500) / 1000, 
             " output tokens/s of one adapter on (first pool)");
        fact(out, "", "", facts->merge_starts, " starts");
        fact(out, "", "", facts->merge_drains, " drains");
        fprintf(out, "<dt></dt><dd>%s replica-hours</dd>\n", hours);
        fact(out, "", "", summary->merged_requests, " requests completed by them");
    }
    fprintf(out, "<dt>engine steps</dt><dd>%s in %s plans</dd>\n", steps, runs);
    fprintf(out, "<dt>Little's law</dt><dd>%s</dd>\n",
            facts->partial || summary->unfinished > 0 ? "not checked, as requests were left unfinished"
            : facts->little_area_ns == facts->little_sum_ns ? "holds exactly" : "does not hold: please report this run");
    fprintf(out, "<dt>digest</dt><dd><code>%016llx</code></dd>\n</dl>\n", (unsigned long long)facts->digest);
}

/* What there is to say of a run without requests. */
static void run_facts_list(FILE *out, const struct summary *summary)
{
    char simulated[NUMBER_TEXT_MAX], wall[NUMBER_TEXT_MAX];

    text_duration((double)summary->facts.end_ns, simulated);
    text_duration(summary->facts.wall_s * 1e9, wall);
    fprintf(out, "<h4>Facts of the run</h4>\n<dl>\n<dt>simulated</dt><dd>%s to the last event, in %s</dd>\n", simulated, wall);
    fprintf(out, "<dt>digest</dt><dd><code>%016llx</code></dd>\n</dl>\n", (unsigned long long)summary->facts.digest);
}

void page_variant(FILE *out, const struct summary *summary, uint32_t variant)
{
    if (summary->jobs.present)
        page_jobs_variant(out, &summary->jobs);
    if (!summary->without_requests) {
        latency_table(out, summary);
        fputs("<h4>Fine-tuned against base requests</h4>\n", out);
        page_goals(out, summary, 1, variant);
        tiers_table(out, summary);
        blame_table(out, summary);
        facts_list(out, summary);
    } else {
        run_facts_list(out, summary);
    }
    if (summary->notes[0] != '\0') {
        fputs("<h4>Notes</h4>\n<p class=\"lines\">", out);
        text_html(out, summary->notes);
        fputs("</p>\n", out);
    }
}
