/* The data of the figures of jobs. Distributions come from histograms, money from the summary's accounts, the rest from what
 * was extracted of the results file. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "report/draft.h"
#include "report/files.h"
#include "report/text.h"
#include "results/jobs_gather.h"
#include "results/jobs_words.h"

#define CDF_POINTS 400
/* Waits below this are drawn at it: most jobs may not wait at all, and a logarithmic axis has no zero. */
#define SPAN_LEAST_S 1.0
/* Curves that can be told apart. */
#define CURVES_MAX 8
/* Two charts above each other; more would have rows too thin to see. */
#define GANTT_PANELS_MAX 2
#define TENANT_POINTS_MAX 2000

/* Where the axis of spans may have a label; each is a time a person would say. */
static const struct {
    const char *label;
    double seconds;
} span_ticks[] = {{"1 s", 1},        {"10 s", 10},      {"1 min", 60},      {"10 min", 600},   {"1 h", 3600},
                  {"2 h", 7200},     {"6 h", 21600},    {"1 day", 86400},   {"3 days", 259200}, {"10 days", 864000},
                  {"30 days", 2592000}, {"100 days", 8640000}, {"1 year", 31536000}};

static void span_axis(FILE *script, struct range range)
{
    const char *separator = "";

    if (range.high <= 0)
        range = (struct range){60, 3600};
    range.low /= 1.15;
    range.high *= 1.3;
    fprintf(script, "seconds_low = %g\nseconds_high = %g\nseconds_ticks = '(", range.low, range.high);
    for (size_t i = 0; i < ARRAY_COUNT(span_ticks); i++)
        if (span_ticks[i].seconds >= range.low && span_ticks[i].seconds <= range.high) {
            fprintf(script, "%s\"%s\" %g", separator, span_ticks[i].label, span_ticks[i].seconds);
            separator = ", ";
        }
    fputs(")'\n", script);
}

/* The points of a distribution; `one`: what a unit of the axis is in the histogram. */
static void cdf_points(FILE *out, const struct histogram *histogram, double one, double least, struct range *range)
{
    for (uint32_t i = 0; histogram->count > 0 && i <= CDF_POINTS; i++) {
        const double share = (double)i / CDF_POINTS;
        const double value = fmax((double)histogram_quantile(histogram, share) / one, least);

        fprintf(out, "%g %.6g\n", share * 100, value);
        if (share >= 0.002 && share <= 0.998)
            range_add(range, value);
    }
}

/* One curve: a variant's jobs, or those of one kind. Curves have blocks of their own, numbered from 0. */
struct curve {
    uint32_t variant;
    uint32_t kind;          /* UINT32_MAX: all */
};

static uint32_t kinds_with_waits(const struct draft *draft, uint32_t variant)
{
    uint32_t count = 0;

    for (uint32_t k = 0; k < draft->summaries[variant].jobs.kinds_count; k++)
        count += draft->extracted[variant].jobs.wait[k].count > 0;
    return count;
}

/* Kinds apart while the curves can be told apart, otherwise each variant's jobs together. */
static uint32_t curves_choose(const struct draft *draft, struct curve *ret_curves)
{
    uint32_t apart = 0;
    uint32_t count = 0;

    for (uint32_t v = 0; v < draft->count; v++)
        apart += kinds_with_waits(draft, v);
    for (uint32_t v = 0; v < draft->count; v++) {
        if (apart > CURVES_MAX || kinds_with_waits(draft, v) == 1) {
            if (draft->extracted[v].jobs.wait_all.count > 0)
                ret_curves[count++] = (struct curve){v, UINT32_MAX};
            continue;
        }
        for (uint32_t k = 0; k < draft->summaries[v].jobs.kinds_count; k++)
            if (draft->extracted[v].jobs.wait[k].count > 0)
                ret_curves[count++] = (struct curve){v, k};
    }
    return count;
}

/* With one variant a kind has a colour of its own; with several a variant has, and kinds differ in their dashes. */
static void curve_script(const struct draft *draft, const struct curve *curve, uint32_t number)
{
    const struct summary *summary = &draft->summaries[curve->variant];
    char label[160];

    if (curve->kind == UINT32_MAX)
        snprintf(label, sizeof(label), "%s", summary->variant);
    else if (draft->count == 1)
        snprintf(label, sizeof(label), "%s", summary->jobs.kinds[curve->kind].name);
    else
        snprintf(label, sizeof(label), "%s, %s", summary->variant, summary->jobs.kinds[curve->kind].name);
    fprintf(draft->script, "curve_name[%u] = ", number);
    draft_quoted(draft->script, label, 44);
    fprintf(draft->script, "\ncurve_colour[%u] = %u\ncurve_dash[%u] = %u\n", number,
            draft->count == 1 && curve->kind != UINT32_MAX ? curve->kind % 8 + 1 : curve->variant + 1, number,
            draft->count == 1 || curve->kind == UINT32_MAX ? 1 : curve->kind % 5 + 1);
}

static void wait_write(struct draft *draft)
{
    struct curve curves[CURVES_MAX + FIGURE_VARIANTS_MAX];
    const uint32_t count = curves_choose(draft, curves);
    struct range range = {0};
    FILE *out = draft_data(draft, figure_file(FIGURE_JOB_WAIT), "Wait of jobs: submitted to computing");

    if (out == NULL)
        return;
    fputs("# jobs_percent within_s; one block a curve of plot.gp\n", out);
    fprintf(draft->script, "curves = %u\narray curve_name[%u]\narray curve_colour[%u]\narray curve_dash[%u]\n", count,
            max_u32(count, 1), max_u32(count, 1), max_u32(count, 1));
    for (uint32_t i = 0; i < count; i++) {
        const struct extracted_jobs *jobs = &draft->extracted[curves[i].variant].jobs;

        draft_block_begin(out, &draft->summaries[curves[i].variant]);
        cdf_points(out, curves[i].kind == UINT32_MAX ? &jobs->wait_all : &jobs->wait[curves[i].kind], 1e9, SPAN_LEAST_S, &range);
        draft_block_end(out, 1, 2);
        if (i == 0 || curves[i].variant != curves[i - 1].variant)
            draft_shown(draft, FIGURE_JOB_WAIT, curves[i].variant);
        curve_script(draft, &curves[i], i + 1);
    }
    file_close(out, draft->errors);
    draft_why_not(draft, FIGURE_JOB_WAIT, "no job that was submitted after the warm-up computed");
    range_add(&range, SPAN_LEAST_S);
    span_axis(draft->script, range);
    draft_figure(draft, FIGURE_JOB_WAIT, "From submitted to computing, of jobs that did; below a second is drawn as a second.");
}

static void completion_write(struct draft *draft)
{
    struct range range = {0};
    FILE *out = draft_data(draft, figure_file(FIGURE_JOB_COMPLETION), "Completion of jobs: submitted to done");

    if (out == NULL)
        return;
    fputs("# jobs_percent within_s\n", out);
    for (uint32_t v = 0; v < draft->count; v++) {
        const struct histogram *histogram = &draft->extracted[v].jobs.completion;

        draft_block_begin(out, &draft->summaries[v]);
        cdf_points(out, histogram, 1e9, SPAN_LEAST_S, &range);
        draft_block_end(out, histogram->count > 0, 2);
        if (histogram->count > 0)
            draft_shown(draft, FIGURE_JOB_COMPLETION, v);
    }
    file_close(out, draft->errors);
    draft_why_not(draft, FIGURE_JOB_COMPLETION, "no job that was submitted after the warm-up was done");
    range_add(&range, 7200);
    span_axis(draft->script, range);
    draft_figure(draft, FIGURE_JOB_COMPLETION, "From submitted to done, of jobs that were.");
}

static void rho_write(struct draft *draft)
{
    struct range range = {0};
    FILE *out = draft_data(draft, figure_file(FIGURE_RHO), "Finish-time fairness: completion over size");

    if (out == NULL)
        return;
    fputs("# jobs_percent rho_at_most\n", out);
    for (uint32_t v = 0; v < draft->count; v++) {
        const struct histogram *histogram = &draft->extracted[v].jobs.rho_micro;

        draft_block_begin(out, &draft->summaries[v]);
        cdf_points(out, histogram, (double)RHO_ONE, 0.001, &range);
        draft_block_end(out, histogram->count > 0, 2);
        if (histogram->count > 0)
            draft_shown(draft, FIGURE_RHO, v);
    }
    file_close(out, draft->errors);
    draft_why_not(draft, FIGURE_RHO, "no job of known size was done");
    draft_axis(draft->script, "rho", range, false);
    draft_figure(draft, FIGURE_RHO, "1: as fast as alone on its GPUs. 10: it took ten times as long, waiting included.");
}

static double ratio_or_nan(double part, double whole) { return whole > 0 ? part / whole : NAN; }

static void series_write(struct draft *draft)
{
    struct range pending = {0};
    struct range gpus = {0};
    double end_s = 0;
    FILE *out = draft_data(draft, "job-series", "The pool over time; job-queue and allocation are drawn from it");

    if (out == NULL)
        return;
    fputs("# at_s pending pending_gpus gpus allocated_percent used_percent\n", out);
    for (uint32_t v = 0; v < draft->count; v++) {
        const struct extracted_jobs *jobs = &draft->extracted[v].jobs;

        draft_block_begin(out, &draft->summaries[v]);
        for (uint32_t i = 0; i < jobs->bins_count; i++) {
            const struct capacity_bin *bin = &jobs->bins[i];

            fprintf(out, "%.7g %.6g %.6g %.6g %.5g %.5g\n", (i + 0.5) * jobs->bin_s, ratio_or_nan(bin->pending_s, bin->flavor_s[0]),
                    ratio_or_nan(bin->pending_gpus_s, bin->flavor_s[0]), ratio_or_nan(bin->gpu_s, bin->flavor_s[0]),
                    100 * ratio_or_nan(bin->claimed_gpu_s, bin->gpu_s), 100 * ratio_or_nan(bin->computing_gpu_s, bin->gpu_s));
            range_add(&pending, ratio_or_nan(bin->pending_s, bin->flavor_s[0]));
            range_add(&gpus, fmax(ratio_or_nan(bin->pending_gpus_s, bin->flavor_s[0]), ratio_or_nan(bin->gpu_s, bin->flavor_s[0])));
        }
        draft_block_end(out, jobs->bins_count, 6);
        if (jobs->bins_count == 0)
            continue;
        draft_shown(draft, FIGURE_JOB_QUEUE, v);
        draft_shown(draft, FIGURE_ALLOCATION, v);
        end_s = fmax(end_s, jobs->bins_count * jobs->bin_s);
    }
    file_close(out, draft->errors);
    draft_why_not(draft, FIGURE_JOB_QUEUE, "the results file has no samples of the pool");
    draft_why_not(draft, FIGURE_ALLOCATION, "the results file has no samples of the pool");
    draft_time_axis(draft, end_s);
    fprintf(draft->script, "pending_high = %g\npending_gpus_high = %g\n", fmax(pending.high * 1.05, 1), fmax(gpus.high * 1.05, 1));
    draft_figure(draft, FIGURE_JOB_QUEUE, "Jobs of all kinds and flavors together.");
    draft_figure(draft, FIGURE_ALLOCATION, "Solid: held by a job. Dotted: a job computes. All flavors together.");
}

static bool any_charge(const struct draft *draft, uint32_t component)
{
    bool any = false;

    for (uint32_t v = 0; v < draft->count; v++)
        any |= draft->summaries[v].jobs.cost_nano != NULL && jobs_component_nano(&draft->summaries[v].jobs, component) > 0;
    return any;
}

/* Every component's bar begins where the one before ended. A discount is one account's gain and another's loss: nothing. */
static void cost_write(struct draft *draft)
{
    FILE *out = draft_data(draft, figure_file(FIGURE_COST), "The bill by component, stacked");

    if (out == NULL)
        return;
    fputs("# variant total 0", out);
    for (uint32_t c = 0; c < CHARGE_COUNT; c++)
        fprintf(out, " %s", charge_word(c));
    fputc('\n', out);
    for (uint32_t v = 0; v < draft->count; v++) {
        const struct jobs_summary *jobs = &draft->summaries[v].jobs;
        double before = 0;
        char total[NUMBER_TEXT_MAX];

        draft_block_begin(out, &draft->summaries[v]);
        if (jobs->cost_nano != NULL && jobs->cost_total_nano > 0) {
            text_number((double)jobs->cost_total_nano / 1e9, total);
            fprintf(out, "%u \"%s\" 0", v + 1, total);
            for (uint32_t c = 0; c < CHARGE_COUNT; c++) {
                before += fmax(0, (double)jobs_component_nano(jobs, c) / 1e9);
                fprintf(out, " %.9g", before);
            }
            fputc('\n', out);
            draft_shown(draft, FIGURE_COST, v);
        }
        fputs("\n\n", out);
    }
    file_close(out, draft->errors);
    draft_why_not(draft, FIGURE_COST, "nothing was charged");
    fprintf(draft->script, "charges = %d\narray charge_name[%d]\ncharge_colours = '" CHARGE_COLOURS "'\n", CHARGE_COUNT, CHARGE_COUNT);
    for (uint32_t c = 0; c < CHARGE_COUNT; c++)
        fprintf(draft->script, "charge_name[%u] = '%s'\n", c + 1, charge_text(c));
    fputs("charges_shown = '", draft->script);
    for (uint32_t c = 0; c < CHARGE_COUNT; c++)
        if (any_charge(draft, c))
            fprintf(draft->script, "%u ", c + 1);
    fputs("'\n", draft->script);
    draft_figure(draft, FIGURE_COST, "In currency units, of the whole run; the sum is above the bar.");
}

static int most_first(const void *a, const void *b)
{
    const int64_t one = *(const int64_t *)a;
    const int64_t other = *(const int64_t *)b;

    return (one < other) - (one > other);
}

/* Returns how many rows were written. */
static uint32_t tenant_rows(FILE *out, const struct jobs_summary *jobs, struct range *range)
{
    int64_t *nano = calloc((size_t)jobs->tenants_count + 1, sizeof(*nano));
    const uint32_t stride = max_u32(1, jobs->tenants_count / TENANT_POINTS_MAX);
    uint32_t rows = 0;

    check(nano != NULL);
    for (uint32_t i = 0; i < jobs->tenants_count; i++)
        nano[i] = jobs_account_nano(jobs, i);
    qsort(nano, jobs->tenants_count, sizeof(*nano), most_first);
    for (uint32_t i = 0; i < jobs->tenants_count && nano[i] > 0; i += stride) {
        fprintf(out, "%u %.9g\n", i + 1, (double)nano[i] / 1e9);
        range_add(range, (double)nano[i] / 1e9);
        rows++;
    }
    free(nano);
    return rows;
}

static void tenant_cost_write(struct draft *draft)
{
    struct range range = {0};
    uint32_t rank_max = 1;
    char subtitle[200] = "Who paid nothing is left out.";
    FILE *out = draft_data(draft, figure_file(FIGURE_TENANT_COST), "Tenants' accounts, largest first");

    if (out == NULL)
        return;
    fputs("# rank amount\n", out);
    for (uint32_t v = 0; v < draft->count; v++) {
        const struct jobs_summary *jobs = &draft->summaries[v].jobs;
        uint32_t rows;

        draft_block_begin(out, &draft->summaries[v]);
        rows = jobs->cost_nano != NULL ? tenant_rows(out, jobs, &range) : 0;
        draft_block_end(out, rows, 2);
        if (rows == 0)
            continue;
        draft_shown(draft, FIGURE_TENANT_COST, v);
        rank_max = max_u32(rank_max, jobs->tenants_count);
    }
    file_close(out, draft->errors);
    draft_why_not(draft, FIGURE_TENANT_COST, "no tenant paid anything");
    fprintf(draft->script, "rank_max = %u\n", rank_max);
    draft_axis(draft->script, "amount", range, false);
    draft_figure(draft, FIGURE_TENANT_COST, subtitle);
}

/* Up to two variants with bars, on the same GPUs' rows and over the same time. */
static uint32_t gantt_panels(const struct draft *draft, uint32_t ret_variants[GANTT_PANELS_MAX])
{
    uint32_t panels = 0;

    for (uint32_t v = 0; v < draft->count && panels < GANTT_PANELS_MAX; v++)
        if (draft->extracted[v].jobs.bars_count > 0)
            ret_variants[panels++] = v;
    return panels;
}

static void bars_write(FILE *out, const struct extracted_jobs *jobs, enum gantt_kind kind)
{
    uint32_t rows = 0;

    for (uint32_t i = 0; i < jobs->bars_count; i++) {
        const struct gantt_bar *bar = &jobs->bars[i];

        if (bar->kind != kind)
            continue;
        fprintf(out, "%.7g %.7g %u %u\n", fmax(bar->from_s, jobs->window_from_s), fmin(bar->until_s, jobs->window_until_s),
                bar->row, bar->base);
        rows++;
    }
    if (rows == 0)
        fputs("NaN NaN NaN 0\n", out);
    fputs("\n\n", out);
}

static void bases_script(const struct draft *draft, const struct jobs_summary *jobs)
{
    fprintf(draft->script, "bases = %u\narray base_name[%u]\n", jobs->bases_count, max_u32(jobs->bases_count, 1));
    for (uint32_t i = 0; i < jobs->bases_count; i++) {
        fprintf(draft->script, "base_name[%u] = ", i + 1);
        draft_quoted(draft->script, jobs->base_names[i], 30);
        fputc('\n', draft->script);
    }
}

/* Names of a panel's rows: node/GPU. */
static void gpus_script(const struct draft *draft, const struct extracted_jobs *jobs, uint32_t first, uint32_t rows)
{
    for (uint32_t i = 0; i < rows; i++)
        if (i < jobs->rows_count)
            fprintf(draft->script, "gantt_gpu[%u] = '%u/%u'\n", first + i + 1, jobs->row_gpu[i] / 16, jobs->row_gpu[i] % 16);
        else
            fprintf(draft->script, "gantt_gpu[%u] = ''\n", first + i + 1);
}

/* "The first 64 of 128 GPUs, 12 h from the end of the warm-up." */
static void gantt_subtitle(const struct extracted_jobs *jobs, double from_s, double until_s, uint32_t left_out, char *ret_text,
                           size_t bytes)
{
    char span[NUMBER_TEXT_MAX];
    char rest[64] = "";

    text_duration((until_s - from_s) * 1e9, span);
    if (left_out > 0)
        snprintf(rest, sizeof(rest), " %u bars had no room.", left_out);
    if (jobs->gpus_seen > jobs->rows_count)
        snprintf(ret_text, bytes, "The first %u of %u GPUs, %s from the %s.%s", jobs->rows_count, jobs->gpus_seen, span,
                 from_s > 0 ? "end of the warm-up" : "beginning", rest);
    else
        snprintf(ret_text, bytes, "%s from the %s.%s", span, from_s > 0 ? "end of the warm-up" : "beginning", rest);
}

static void gantt_write(struct draft *draft)
{
    uint32_t variants[GANTT_PANELS_MAX];
    const uint32_t panels = gantt_panels(draft, variants);
    const struct extracted_jobs *first = panels > 0 ? &draft->extracted[variants[0]].jobs : NULL;
    double until_s = INFINITY;
    uint32_t left_out = 0;
    uint32_t rows = 0;
    char subtitle[200] = "";
    FILE *out = draft_data(draft, figure_file(FIGURE_GANTT), "GPUs over time");

    if (out == NULL)
        return;
    fputs("# from_s until_s row base; blocks of each panel: loading, resident, claimed\n", out);
    for (uint32_t i = 0; i < panels; i++) {
        const struct extracted_jobs *jobs = &draft->extracted[variants[i]].jobs;

        draft_block_begin(out, &draft->summaries[variants[i]]);
        bars_write(out, jobs, GANTT_LOADING);
        bars_write(out, jobs, GANTT_RESIDENT);
        bars_write(out, jobs, GANTT_CLAIM);
        draft_shown(draft, FIGURE_GANTT, variants[i]);
        until_s = fmin(until_s, jobs->window_until_s);
        left_out = max_u32(left_out, jobs->bars_left_out);
        rows = max_u32(rows, jobs->rows_count);
    }
    file_close(out, draft->errors);
    draft_why_not(draft, FIGURE_GANTT, "the results file has no placements of jobs");
    if (first == NULL)
        return;
    gantt_subtitle(first, first->window_from_s, until_s, left_out, subtitle, sizeof(subtitle));
    if (draft->count > panels)
        snprintf(subtitle + strlen(subtitle), sizeof(subtitle) - strlen(subtitle), " %u of %u variants.", panels, draft->count);
    bases_script(draft, &draft->summaries[variants[0]].jobs);
    fprintf(draft->script, "gantt_rows = %u\ngantt_from_s = %.9g\ngantt_until_s = %.9g\narray gantt_gpu[%u]\n", rows,
            first->window_from_s, until_s, panels * rows);
    for (uint32_t i = 0; i < panels; i++)
        gpus_script(draft, &draft->extracted[variants[i]].jobs, i * rows, rows);
    draft_time_axis(draft, until_s);
    draft_figure(draft, FIGURE_GANTT, subtitle);
}

void figures_jobs_write(struct draft *draft)
{
    gantt_write(draft);
    series_write(draft);
    wait_write(draft);
    completion_write(draft);
    rho_write(draft);
    cost_write(draft);
    tenant_cost_write(draft);
}
