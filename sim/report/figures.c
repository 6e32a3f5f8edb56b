/* Small text files that gnuplot reads, one a question, and the script that draws them all in one process. The folder is
 * complete in itself: `gnuplot data/plot.gp` in the report's folder draws again after a person changed a script. */
#include <math.h>

#include "report/draft.h"
#include "report/files.h"
#include "report/text.h"

#define CDF_POINTS 400

static const char *const figure_files[FIGURE_COUNT] = {
#define X(name, file, question, reading) file,
    FIGURE_LIST(X)
    JOB_FIGURE_LIST(X)
#undef X
};
static const char *const figure_questions[FIGURE_COUNT] = {
#define X(name, file, question, reading) question,
    FIGURE_LIST(X)
    JOB_FIGURE_LIST(X)
#undef X
};
static const char *const figure_readings[FIGURE_COUNT] = {
#define X(name, file, question, reading) reading,
    FIGURE_LIST(X)
    JOB_FIGURE_LIST(X)
#undef X
};

const char *figure_file(enum figure figure) { return figure_files[figure]; }
const char *figure_question(enum figure figure) { return figure_questions[figure]; }
const char *figure_reading(enum figure figure) { return figure_readings[figure]; }

static bool any_saturated(const struct draft *draft, enum figure figure)
{
    bool any = false;

    for (uint32_t v = 0; v < draft->count; v++)
        any |= draft->summaries[v].saturated;
    return any && draft->figures->items[figure].shown[0] != '\0';
}

static void cdf_write(struct draft *draft, enum figure figure, const char *about)
{
    struct range range = {0};
    double objective_s = 0;
    char objective[NUMBER_TEXT_MAX];
    FILE *out = draft_data(draft, figure_file(figure), about);

    if (out == NULL)
        return;
    fputs("# requests_percent within_s\n", out);
    for (uint32_t v = 0; v < draft->count; v++) {
        const struct extracted *extracted = &draft->extracted[v];
        const struct histogram *histogram = figure == FIGURE_TTFT_CDF ? &extracted->ttft : &extracted->e2e;
        double variant_objective_s = figure == FIGURE_TTFT_CDF ? extracted->objective_ttft_s : extracted->objective_e2e_s;

        draft_block_begin(out, &draft->summaries[v]);
        for (uint32_t i = 0; histogram->count > 0 && i <= CDF_POINTS; i++) {
            double share = (double)i / CDF_POINTS;

            fprintf(out, "%g %.6g\n", share * 100, (double)histogram_quantile(histogram, share) / 1e9);
        }
        draft_block_end(out, histogram->count > 0, 2);
        if (histogram->count == 0)
            continue;
        draft_shown(draft, figure, v);
        range_add(&range, (double)histogram_quantile(histogram, 0.002) / 1e9);
        range_add(&range, (double)histogram_quantile(histogram, 0.998) / 1e9);
        /* Variants may differ in their objective: then a line would lie for some of them. */
        objective_s = objective_s == 0 || objective_s == variant_objective_s ? variant_objective_s : -1;
    }
    file_close(out, draft->errors);
    if (range.high > 0 && objective_s > range.low / 20 && objective_s < range.high * 20)
        range_add(&range, objective_s);
    else
        objective_s = 0;
    draft_why_not(draft, figure, "no request was finished after the warm-up");
    text_duration(objective_s * 1e9, objective);
    fprintf(draft->script, "objective_s = %g\nobjective = '%s'\n", objective_s, objective);
    draft_axis(draft->script, "seconds", range, true);
    draft_figure(draft, figure, any_saturated(draft, figure)
                                     ? "So far, not a steady state: the backlog of the variants marked unstable grows."
                                     : "Requests that arrived after the warm-up.");
}

/* Shares of the whole, stacked: the column of a part is where it begins, the next column is where it ends. */
static uint32_t blame_bar(FILE *out, const struct blame_band *band, double x)
{
    double total_ns = 0;
    double before_ns = 0;
    char total[NUMBER_TEXT_MAX];

    for (uint32_t i = 0; i < BLAME_COUNT; i++)
        total_ns += band->mean_ns[i];
    if (band->count == 0 || !(total_ns > 0))
        return 0;
    text_duration(total_ns, total);
    fprintf(out, "%g \"%s\" \"%s\" 0", x, band->label, total);
    for (uint32_t i = 0; i < BLAME_COUNT; i++) {
        before_ns += band->mean_ns[i];
        fprintf(out, " %.4g", before_ns / total_ns * 100);
    }
    fputc('\n', out);
    return 1;
}

static void blame_write(struct draft *draft)
{
    FILE *out = draft_data(draft, figure_file(FIGURE_BLAME), "Composition of latency: percent, stacked");

    if (out == NULL)
        return;
    fputs("# x band total 0", out);
#define X(name, text, about) fputs(" " text, out);
    BLAME_LIST(X)
#undef X
    fputc('\n', out);
    for (uint32_t v = 0; v < draft->count; v++) {
        const struct summary *summary = &draft->summaries[v];
        uint32_t bars = 0;

        draft_block_begin(out, summary);
        for (uint32_t band = 0; band < BLAME_BANDS; band++)
            /* Percentiles of an unstable run are none. */
            if (!summary->saturated || strcmp(summary->blame[band].label, "all") == 0)
                bars += blame_bar(out, &summary->blame[band], v * (BLAME_BANDS + 1.0) + band);
        fputs("\n\n", out); /* bars carry their place, so an empty block may be one */
        if (bars > 0)
            draft_shown(draft, FIGURE_BLAME, v);
    }
    file_close(out, draft->errors);
    draft_why_not(draft, FIGURE_BLAME, "no request was finished after the warm-up");
    fprintf(draft->script, "bands = %d\nblame_parts = '", BLAME_BANDS);
#define X(name, text, about) fputs(text " ", draft->script);
    BLAME_LIST(X)
#undef X
    fputs("'\nblame_colours = '" BLAME_COLOURS "'\n", draft->script);
    draft_figure(draft, FIGURE_BLAME,
                  any_saturated(draft, FIGURE_BLAME)
                      ? "Parts of the mean request by band of end-to-end latency; of unstable variants only the whole, so far."
                      : "Parts of the mean request by band of end-to-end latency; the latency itself is above the bar.");
}

static void ttft_class_write(struct draft *draft)
{
    struct range range = {0};
    FILE *out = draft_data(draft, figure_file(FIGURE_TTFT_CLASS), "Time to first token by class");

    if (out == NULL)
        return;
    fputs("# class p50_s p90_s p99_s requests\n", out);
    for (uint32_t v = 0; v < draft->count; v++) {
        const struct summary *summary = &draft->summaries[v];
        uint32_t rows = 0;

        draft_block_begin(out, summary);
        for (uint32_t class = CLASS_BASE; class < CLASS_COUNT && !summary->saturated; class++) {
            const struct latency *latency = &summary->latency[class][METRIC_TTFT];

            if (latency->count == 0 || latency->p50_ns <= 0)
                continue;
            fprintf(out, "%u %.6g %.6g %.6g %llu\n", class - CLASS_BASE, (double)latency->p50_ns / 1e9,
                    (double)latency->p90_ns / 1e9, (double)latency->p99_ns / 1e9, (unsigned long long)latency->count);
            range_add(&range, (double)latency->p50_ns / 1e9);
            range_add(&range, (double)latency->p99_ns / 1e9);
            rows++;
        }
        draft_block_end(out, rows, 5);
        if (rows > 0)
            draft_shown(draft, FIGURE_TTFT_CLASS, v);
    }
    file_close(out, draft->errors);
    draft_why_not(draft, FIGURE_TTFT_CLASS, "no stable variant finished a request after the warm-up");
    draft_axis(draft->script, "seconds", range, true);
    draft_figure(draft, FIGURE_TTFT_CLASS, any_saturated(draft, FIGURE_TTFT_CLASS)
                                                ? "Dot: median. Square: 90th percentile. Triangle: 99th. Unstable variants have none."
                                                : "Dot: median. Square: 90th percentile. Triangle: 99th.");
}

static double percent_or_nan(double part, double whole) { return whole > 0 ? part / whole * 100 : NAN; }

static void bin_write(FILE *out, const struct extracted *extracted, uint32_t index)
{
    const struct series_bin *bin = &extracted->bins[index];
    double at_s = extracted->series_start_s + (index + 0.5) * extracted->bin_s;
    double instants = (double)bin->samples / extracted->replicas;
    double samples = (double)bin->samples;

    if (bin->samples == 0) {
        fprintf(out, "%.7g NaN NaN NaN NaN NaN NaN NaN NaN\n", at_s);
        return;
    }
    fprintf(out, "%.7g %.5g %.6g %.6g %.5g %.5g %.5g %.5g %.6g\n", at_s,
            percent_or_nan((double)bin->hits, (double)(bin->hits + bin->misses)), bin->waiting / instants,
            bin->running / instants, bin->kv_share / samples * 100, bin->kv_share_max * 100,
            bin->slots_share / samples * 100, bin->slots_share_max * 100,
            (double)bin->loads / (instants * extracted->sample_s));
}

static void series_write(struct draft *draft)
{
    static const enum figure of_series[] = {FIGURE_HIT_RATIO, FIGURE_LOADS, FIGURE_QUEUE, FIGURE_MEMORY};
    double end_s = 0;
    uint64_t loads = 0;
    FILE *out = draft_data(draft, "series", "Time series; hit-ratio, loads, queue and memory are drawn from it");

    if (out == NULL)
        return;
    fputs("# at_s hit_percent waiting running kv_percent kv_max_percent slots_percent slots_max_percent loads_per_s\n", out);
    for (uint32_t v = 0; v < draft->count; v++) {
        const struct extracted *extracted = &draft->extracted[v];
        uint64_t lookups = 0;

        draft_block_begin(out, &draft->summaries[v]);
        for (uint32_t i = 0; i < extracted->bins_count; i++) {
            bin_write(out, extracted, i);
            lookups += extracted->bins[i].hits + extracted->bins[i].misses;
            loads += extracted->bins[i].loads;
        }
        draft_block_end(out, extracted->bins_count, 9);
        if (extracted->bins_count == 0)
            continue;
        for (size_t i = 0; i < ARRAY_COUNT(of_series); i++)
            if (of_series[i] != FIGURE_HIT_RATIO || lookups > 0)
                draft_shown(draft, of_series[i], v);
        end_s = fmax(end_s, extracted->series_start_s + extracted->bins_count * extracted->bin_s);
    }
    file_close(out, draft->errors);
    if (loads == 0 && draft->figures->items[FIGURE_LOADS].shown[0] != '\0') {
        draft->figures->items[FIGURE_LOADS].shown[0] = '\0';
        draft_why_not(draft, FIGURE_LOADS, "no adapter was loaded");
    }
    draft_why_not(draft, FIGURE_HIT_RATIO, "no adapter was looked up, or there are no samples");
    for (size_t i = 0; i < ARRAY_COUNT(of_series); i++)
        if (draft->figures->items[of_series[i]].why_not[0] == '\0')
            draft_why_not(draft, of_series[i], "the results file has no samples of the replicas");
    draft_time_axis(draft, end_s);
    draft_figure(draft, FIGURE_HIT_RATIO, "Lookups in GPU slots that found their adapter, all replicas together.");
    draft_figure(draft, FIGURE_LOADS, "Adapters that arrived in GPU slots, all replicas together.");
    draft_figure(draft, FIGURE_QUEUE, "Requests in the fleet, all replicas together.");
    draft_figure(draft, FIGURE_MEMORY, "Solid: mean of the replicas. Dotted: the fullest replica.");
}

static void fairness_write(struct draft *draft)
{
    struct range seconds = {0};
    struct range requests = {0};
    uint64_t stride = 1;
    char subtitle[160] = "A point is a tenant.";
    FILE *out = draft_data(draft, figure_file(FIGURE_FAIRNESS), "Tenants: what they asked for and how long it took");

    if (out == NULL)
        return;
    fputs("# requests e2e_mean_s\n", out);
    for (uint32_t v = 0; v < draft->count; v++) {
        const struct extracted *extracted = &draft->extracted[v];

        draft_block_begin(out, &draft->summaries[v]);
        for (uint32_t i = 0; i < extracted->tenants_count; i++) {
            const struct tenant_point *tenant = &extracted->tenants[i];

            fprintf(out, "%llu %.6g\n", (unsigned long long)tenant->requests, tenant->e2e_mean_s);
            range_add(&seconds, tenant->e2e_mean_s);
            range_add(&requests, (double)tenant->requests);
        }
        draft_block_end(out, extracted->tenants_count, 2);
        if (extracted->tenants_count > 0)
            draft_shown(draft, FIGURE_FAIRNESS, v);
        stride = max_u64(stride, extracted->tenants_stride);
    }
    file_close(out, draft->errors);
    draft_why_not(draft, FIGURE_FAIRNESS, "no tenant had a request finished");
    if (stride > 1)
        snprintf(subtitle, sizeof(subtitle), "A point is a tenant; one in %llu is shown.", (unsigned long long)stride);
    draft_axis(draft->script, "seconds", seconds, true);
    draft_axis(draft->script, "requests", requests, false);
    draft_figure(draft, FIGURE_FAIRNESS, subtitle);
}

static void script_begin(struct draft *draft)
{
    FILE *script = draft->script;

    fprintf(script, "# Draws all figures of the report again: run `gnuplot data/plot.gp` in the report's folder.\n"
                    "variants = %u\narray name[variants]\narray unstable[variants]\n"
                    "variant_colours = '" VARIANT_COLOURS "'\n", draft->count);
    for (uint32_t v = 0; v < draft->count; v++) {
        fprintf(script, "name[%u] = ", v + 1);
        draft_quoted(script, draft->summaries[v].variant, draft->count <= 4 ? 44 : 28);
        fprintf(script, "\nunstable[%u] = %d\n", v + 1, draft->summaries[v].saturated);
    }
    fputc('\n', script);
}

/* Marks the figures of requests, or those of jobs, when a variant has any; returns that. */
static bool applies_mark(struct draft *draft, bool of_jobs)
{
    bool any = false;

    for (uint32_t v = 0; v < draft->count; v++)
        any |= of_jobs ? draft->summaries[v].jobs.present : !draft->summaries[v].without_requests;
    for (uint32_t i = 0; i < FIGURE_COUNT; i++)
        if (figure_of_jobs((enum figure)i) == of_jobs)
            draft->figures->items[i].applies = any;
    return any;
}

static void requests_figures_write(struct draft *draft)
{
    cdf_write(draft, FIGURE_TTFT_CDF, "Time to first token");
    cdf_write(draft, FIGURE_E2E_CDF, "End-to-end latency");
    blame_write(draft);
    ttft_class_write(draft);
    series_write(draft);
    fairness_write(draft);
}

enum status figures_write(const char *work, const struct summary *summaries, const struct extracted *extracted,
                          uint32_t count, FILE *errors, struct figures *ret_figures)
{
    struct draft draft = {.work = work, .summaries = summaries, .extracted = extracted, .errors = errors,
                          .figures = ret_figures, .count = min_u32(count, FIGURE_VARIANTS_MAX)};

    memset(ret_figures, 0, sizeof(*ret_figures));
    ret_figures->variants = draft.count;
    draft.script = file_create(errors, "%s/data/plot.gp", work);
    if (draft.script == NULL)
        return STATUS_IO;
    script_begin(&draft);
    if (applies_mark(&draft, false))
        requests_figures_write(&draft);
    if (applies_mark(&draft, true))
        figures_jobs_write(&draft);
    return file_close(draft.script, errors) ? STATUS_OK : STATUS_IO;
}
