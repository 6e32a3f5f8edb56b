/* The table on the terminal, at most 100 columns wide: the variants side by side, then each in detail. What is not known
 * says why; of an unstable run no percentile is printed. */
#include "report/report.h"

#include <inttypes.h>
#include <math.h>

#include "report/cells.h"
#include "report/cost_table.h"
#include "report/jobs_table.h"
#include "report/lines.h"
#include "results/words.h"

/* With more variants than this only the first is told in detail. */
#define DETAILED_MAX 4

static const char *const class_words[CLASS_COUNT] = {
#define X(name, word) word,
    CLASS_LIST(X)
#undef X
};

static void unstable_print(FILE *out, const struct summary *summary, int width)
{
    char text[96];
    const int length = snprintf(text, sizeof(text), "unstable: rho %s, %+.3g requests/s",
                                cell_ratio(summary->rho).text, summary->backlog_slope_per_s);

    fprintf(out, "%*s", width > length ? width - length : 0, "");
    line_emphasize(out, text);
}

static void variants_head(FILE *out)
{
    fprintf(out, "%-16s%9s%14s%14s%11s%6s%6s%7s%6s\n", "", "TTFT", "TPOT", "E2E", "GPU", "loads", "good", "tokens",
            "GPU");
    fprintf(out, "%-16s%7s%7s%7s%7s%7s%7s%6s%6s%6s%7s%6s%6s%5s\n", "variant", "p50", "p99", "p50", "p99", "p50", "p99",
            "hit", "/s", "/s", "/s", "busy", "KV", "Jain");
}

static void variant_row(FILE *out, const struct summary *summary)
{
    line_variant(out, summary->variant);
    for (uint32_t metric = 0; metric < METRIC_COUNT && !summary->saturated; metric++) {
        const struct latency *latency = &summary->latency[CLASS_ALL][metric];
        const double known = latency->count > 0 ? 1 : NAN;

        line_cell(out, 7, cell_time(known * (double)latency->p50_ns));
        line_cell(out, 7, cell_time(known * (double)latency->p99_ns));
    }
    if (summary->saturated)
        unstable_print(out, summary, 42);
    line_cell(out, 6, cell_percent(summary->gpu_hit_ratio));
    line_cell(out, 6, cell_quantity(summary->loads_per_s));
    line_cell(out, 6, cell_quantity(summary->goodput_per_s));
    line_cell(out, 7, cell_quantity(summary->total_tokens_per_s));
    line_cell(out, 6, cell_percent(summary->gpu_busy_share));
    line_cell(out, 6, cell_percent(summary->kv_share_mean));
    line_cell(out, 5, cell_ratio(summary->jain));
    fprintf(out, "\n");
}

static void refusals_print(FILE *out, const struct summary *summary)
{
    const char *label = "refused";

    if (summary->refused == 0)
        return;
    for (uint32_t i = 0; i < ARRAY_COUNT(summary->by_reason); i++) {
        const struct refusal *worst = &summary->refusal_worst[i];
        char sentence[REFUSE_SENTENCE_MAX];
        char line[REFUSE_SENTENCE_MAX + 96];

        if (summary->by_reason[i] == 0)
            continue;
        refuse_sentence(i, worst->need, worst->have, sentence);
        snprintf(line, sizeof(line), "%" PRIu64 " %s: %s%s", summary->by_reason[i], refuse_word(i), sentence,
                 worst->need > 0 && summary->by_reason[i] > 1 ? "; none needs more" : "");
        line_note(out, label, line, strlen(line));
        label = "";
    }
}

static void requests_print(FILE *out, const struct summary *summary)
{
    fprintf(out, LABEL "%" PRIu64 " arrived in %.6gs: %" PRIu64 " completed, %" PRIu64 " refused, %" PRIu64
            " overload, %" PRIu64 " timed out,\n%*s%" PRIu64 " unfinished; %" PRIu64 " within the objective (%s/s)\n",
            "requests", summary->arrived, summary->measured_s, summary->completed, summary->refused, summary->overload,
            summary->timeouts, LABEL_COLUMNS, "", summary->unfinished, summary->good,
            cell_quantity(summary->goodput_per_s).text);
    refusals_print(out, summary);
}

static void backlog_print(FILE *out, const struct summary *summary)
{
    fprintf(out, LABEL, "backlog");
    if (summary->saturated) {
        unstable_print(out, summary, 0);
        fprintf(out, "\n%*sthe backlog grows as long as arrivals last: percentiles would only tell when they\n"
                     "%*sstopped, so only what completed is shown\n", LABEL_COLUMNS, "", LABEL_COLUMNS, "");
    } else if (isfinite(summary->rho)) {
        fprintf(out, "steady%s: offered work / work done %s, %+.3g requests/s\n",
                summary->rho > 1.05 && summary->overload + summary->timeouts > 0 ? " by turning requests away" : "",
                cell_ratio(summary->rho).text, summary->backlog_slope_per_s);
    } else {
        fprintf(out, "n/a: too little was served to tell\n");
    }
}

static void latencies_print(FILE *out, const struct summary *summary)
{
    /* Coldest last, all of them below. */
    static const enum request_class order[] = {CLASS_BASE, CLASS_WARM, CLASS_HOST, CLASS_STORE, CLASS_ALL};

    fprintf(out, "\n  %-14s%18s%28s%28s\n", summary->saturated ? "so far" : "", "TTFT", "TPOT", "E2E");
    fprintf(out, "  %-6s%8s", "class", "count");
    for (uint32_t metric = 0; metric < METRIC_COUNT; metric++)
        fprintf(out, "%7s%7s%7s%7s", summary->saturated ? "" : "p50", summary->saturated ? "" : "p90",
                summary->saturated ? "mean" : "p99", "max");
    fprintf(out, "\n");
    for (size_t i = 0; i < ARRAY_COUNT(order); i++) {
        const struct latency *latencies = summary->latency[order[i]];

        fprintf(out, "  %-6s%8" PRIu64, class_words[order[i]], latencies[METRIC_E2E].count);
        for (uint32_t metric = 0; metric < METRIC_COUNT; metric++) {
            const struct latency *latency = &latencies[metric];
            const double known = latency->count > 0 ? 1 : NAN;

            if (summary->saturated) {
                line_cell(out, 21, cell_time(known * latency->mean_ns));
                line_cell(out, 7, cell_time(known * (double)latency->max_ns));
                continue;
            }
            line_cell(out, 7, cell_time(known * (double)latency->p50_ns));
            line_cell(out, 7, cell_time(known * (double)latency->p90_ns));
            line_cell(out, 7, cell_time(known * (double)latency->p99_ns));
            line_cell(out, 7, cell_time(known * (double)latency->max_ns));
        }
        fprintf(out, "\n");
    }
}

/* goal NaN: none is set. */
static void ratio_print(FILE *out, const struct summary *summary, enum request_class class, enum metric metric,
                        double ratio, double goal, int width)
{
    char text[48];
    const uint64_t count = summary->latency[class][metric].count;

    if (isfinite(ratio))
        snprintf(text, sizeof(text), "%s %s", cell_ratio(ratio).text,
                 !isfinite(goal) ? "(no goal)" : ratio <= goal ? "met" : "MISSED");
    else if (count < RATIO_REQUESTS_MIN)
        snprintf(text, sizeof(text), "n/a: %" PRIu64 " requests, %d needed", count, RATIO_REQUESTS_MIN);
    else
        snprintf(text, sizeof(text), "n/a");
    fprintf(out, "%-*s", width, text);
}

static void ratios_print(FILE *out, const struct summary *summary)
{
    static const enum request_class classes[] = {CLASS_WARM, CLASS_HOST, CLASS_STORE};
    const uint64_t base_count = summary->latency[CLASS_BASE][METRIC_E2E].count;

    fprintf(out, "\n");
    if (summary->saturated || base_count < RATIO_REQUESTS_MIN) {
        fprintf(out, LABEL, "over base");
        if (summary->saturated)
            fprintf(out, "n/a: unstable\n");
        else
            fprintf(out, "n/a: %" PRIu64 " base requests completed, %d needed to compare with\n", base_count,
                    RATIO_REQUESTS_MIN);
        return;
    }
    fprintf(out, LABEL "E2E p50, goal %-18.2fTTFT p50, goal %.2f\n", "over base", GOAL_E2E_OVER_BASE,
            GOAL_TTFT_OVER_BASE);
    for (size_t i = 0; i < ARRAY_COUNT(classes); i++) {
        const enum request_class class = classes[i];
        const bool goal = class != CLASS_STORE;

        fprintf(out, LABEL, class_words[class]);
        ratio_print(out, summary, class, METRIC_E2E, summary->e2e_over_base[class], goal ? GOAL_E2E_OVER_BASE : NAN, 32);
        ratio_print(out, summary, class, METRIC_TTFT, summary->ttft_over_base[class], goal ? GOAL_TTFT_OVER_BASE : NAN, 0);
        fprintf(out, "\n");
    }
}

static void blame_cell(FILE *out, double ns, double total_ns)
{
    if (ns == 0) {
        fprintf(out, "%9s%8s", "0", "-");
        return;
    }
    line_cell(out, 9, cell_time(ns));
    line_cell(out, 8, cell_percent(total_ns > 0 ? ns / total_ns : NAN));
}

static void blame_print(FILE *out, const struct summary *summary)
{
    static const char *const parts[BLAME_COUNT] = {
#define X(name, word, about) word,
        BLAME_LIST(X)
#undef X
    };
    /* The first band is all requests; the others surround percentiles. */
    const uint32_t bands = summary->saturated ? 1 : BLAME_BANDS;
    double total_ns[BLAME_BANDS] = {0};

    fprintf(out, "\n  %-14s", "where time went");
    for (uint32_t band = 0; band < bands; band++) {
        fprintf(out, band == 0 ? "%9s%8s" : "%13s%4s", band == 0 ? "" : "around", summary->blame[band].label);
        for (uint32_t part = 0; part < BLAME_COUNT; part++)
            total_ns[band] += summary->blame[band].mean_ns[part];
    }
    fprintf(out, "\n");
    for (uint32_t part = 0; part < BLAME_COUNT; part++) {
        fprintf(out, "  %-14s", parts[part]);
        for (uint32_t band = 0; band < bands; band++)
            blame_cell(out, summary->blame[band].mean_ns[part], total_ns[band]);
        fprintf(out, "\n");
    }
    fprintf(out, "  %-14s", "sum");
    for (uint32_t band = 0; band < bands; band++)
        blame_cell(out, total_ns[band], total_ns[band]);
    fprintf(out, "\n");
}

static void tiers_print(FILE *out, const struct summary *summary)
{
    static const char *const words[TIER_COUNT] = {
#define X(name, word) word,
        TIER_LIST(X)
#undef X
    };
    const double adapter_requests = (double)(summary->completed - summary->tier_count[TIER_BASE]);

    fprintf(out, "\n" LABEL, "adapters");
    if (adapter_requests == 0)
        fprintf(out, "no request needed one\n");
    else {
        fprintf(out, "found in ");
        for (uint32_t tier = TIER_GPU; tier < TIER_COUNT; tier++)
            fprintf(out, "%s %s, ", words[tier], cell_percent((double)summary->tier_count[tier] / adapter_requests).text);
        fprintf(out, "of %.0f requests; %s loads/s\n", adapter_requests, cell_quantity(summary->loads_per_s).text);
    }
    fprintf(out, LABEL "GPU slots: %" PRIu64 " evictions; host memory: %" PRIu64 " hits, %" PRIu64 " misses\n", "caches",
            summary->facts.evictions, summary->facts.node_hits, summary->facts.node_misses);
    fprintf(out, LABEL "%" PRIu64 " to a home of their adapter, %" PRIu64 " overflowed to another replica\n", "routing",
            summary->facts.route_home, summary->facts.route_overflow);
}

static void use_print(FILE *out, const struct summary *summary)
{
    fprintf(out, LABEL "KV %s mean, %s max; slots pinned %s; waiting %s mean, %.0f max a replica\n", "use",
            cell_percent(summary->kv_share_mean).text, cell_percent(summary->kv_share_max).text,
            cell_percent(summary->slots_pinned_share_mean).text, cell_quantity(summary->waiting_mean).text,
            isfinite(summary->waiting_max) ? summary->waiting_max : 0);
    fprintf(out, LABEL "%s requests/s, %s output tokens/s, %s tokens/s with prompts\n", "rates",
            cell_quantity(summary->requests_per_s).text, cell_quantity(summary->output_tokens_per_s).text,
            cell_quantity(summary->total_tokens_per_s).text);
    if (summary->preempted_requests > 0)
        fprintf(out, LABEL "%" PRIu64 " requests lost their KV blocks, %s tokens were computed again\n", "preempted",
                summary->preempted_requests, cell_quantity((double)summary->recomputed_tokens).text);
    fprintf(out, LABEL "Jain %s over %" PRIu64 " tenants (output tokens a second of their requests' time)\n", "fairness",
            cell_ratio(summary->jain).text, summary->tenants_served);
}

/* Beside a variant that merges, the others say what they held, too: that is what merging is to save. */
static void merged_print(FILE *out, const struct summary *summary)
{
    const struct run_facts *facts = &summary->facts;

    fprintf(out, LABEL "replicas held %s GPU-hours\n", "serving", cell_quantity((double)facts->serving_gpu_ns / 3600e9).text);
    if (facts->merge_break_even_milli == 0)
        return;
    fprintf(out, LABEL "break-even %.0f output tokens/s of one adapter; %" PRIu64 " starts, %" PRIu64 " drains,\n%*s%s replica-hours; "
            "%s of completed requests\n", "merged", (double)facts->merge_break_even_milli * 1e-3, facts->merge_starts,
            facts->merge_drains, LABEL_COLUMNS, "", cell_quantity((double)facts->merged_replica_ns / 3600e9).text,
            cell_percent((double)summary->merged_requests / (double)summary->completed).text);
}

static bool merges(const struct summary *summaries, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (summaries[i].facts.merge_break_even_milli > 0)
            return true;
    return false;
}

static void run_print(FILE *out, const struct summary *summary)
{
    const struct run_facts *facts = &summary->facts;

    fprintf(out, LABEL "%s events", "run", cell_quantity((double)facts->events).text);
    if (!summary->without_requests)
        fprintf(out, ", %s engine steps", cell_quantity((double)facts->engine_steps).text);
    if (facts->runs > 0)
        fprintf(out, " (%s a plan)", cell_ratio((double)facts->engine_steps / (double)facts->runs).text);
    if (facts->wall_s > 0)
        fprintf(out, " in %s: %s x real time", cell_time(facts->wall_s * 1e9).text,
                cell_quantity((double)facts->end_ns * 1e-9 / facts->wall_s).text);
    fprintf(out, "\n" LABEL "%016" PRIx64 "\n", "digest", facts->digest);
}

static void notes_print(FILE *out, const struct summary *summary)
{
    const char *label = "notes";
    const char *note = summary->notes;
    char line[128];

    if (summary->facts.warmup_until_ns > 0) {
        snprintf(line, sizeof(line), "warm-up: %s that arrived in the first %.6gs are left out",
                 !summary->jobs.present ? "requests" : summary->without_requests ? "jobs" : "requests and jobs",
                 (double)summary->facts.warmup_until_ns / 1e9);
        line_note(out, label, line, strlen(line));
        label = "";
    }
    if (summary->unfinished > 0 && !summary->saturated) {
        snprintf(line, sizeof(line), "%" PRIu64 " unfinished requests are missing from the latencies, which are too low",
                 summary->unfinished);
        line_note(out, label, line, strlen(line));
        label = "";
    }
    while (*note != '\0') {
        const size_t length = strcspn(note, "\n");

        if (length > 0) {
            line_note(out, label, note, length);
            label = "";
        }
        note += length + (note[length] == '\n');
    }
}

static void details_print(FILE *out, const struct summary *summary, bool with_merges)
{
    fprintf(out, "\n");
    line_emphasize(out, summary->variant);
    fprintf(out, "\n");
    if (summary->facts.partial) {
        fprintf(out, LABEL, "partial");
        line_emphasize(out, "stopped early: this is what had been simulated by then");
        fprintf(out, "\n");
    }
    if (!summary->without_requests) {
        requests_print(out, summary);
        backlog_print(out, summary);
        latencies_print(out, summary);
        ratios_print(out, summary);
        blame_print(out, summary);
        tiers_print(out, summary);
        use_print(out, summary);
        if (with_merges)
            merged_print(out, summary);
    }
    if (summary->jobs.present)
        jobs_details(out, &summary->jobs, !summary->without_requests);
    cost_details(out, summary);
    run_print(out, summary);
    notes_print(out, summary);
}

/* Variants without requests have no row; without any row there is no table. */
static void requests_table(FILE *out, const struct summary *summaries, uint32_t count)
{
    bool head = false;

    for (uint32_t i = 0; i < count; i++) {
        if (summaries[i].without_requests)
            continue;
        if (!head)
            variants_head(out);
        head = true;
        variant_row(out, &summaries[i]);
    }
}

void report_table(FILE *out, const struct summary *summaries, uint32_t count)
{
    const uint32_t detailed = count <= DETAILED_MAX ? count : 1;

    check(count > 0);
    line_emphasize(out, summaries[0].name);
    fprintf(out, ", seed %" PRIu64 "\n\n", summaries[0].seed);
    requests_table(out, summaries, count);
    jobs_table(out, summaries, count);
    cost_table(out, summaries, count);
    for (uint32_t i = 0; i < detailed; i++)
        details_print(out, &summaries[i], merges(summaries, count));
    if (detailed < count)
        fprintf(out, "\n%u more variants are told in detail by --json and --report.\n", count - detailed);
}
