/* Small text files that gnuplot reads, one a question, and the script that draws them all in one process. The folder is
 * complete in itself: `gnuplot data/plot.gp` in the report's folder draws again after a person changed a script. */
#include "report/figures.h"

#include <math.h>

#include "report/files.h"
#include "report/text.h"

#define CDF_POINTS 400

static const char *const figure_files[FIGURE_COUNT] = {
#define X(name, file, question, reading) file,
    FIGURE_LIST(X)
#undef X
};
static const char *const figure_questions[FIGURE_COUNT] = {
#define X(name, file, question, reading) question,
    FIGURE_LIST(X)
#undef X
};
static const char *const figure_readings[FIGURE_COUNT] = {
#define X(name, file, question, reading) reading,
    FIGURE_LIST(X)
#undef X
};

const char *figure_file(enum figure figure) { return figure_files[figure]; }
const char *figure_question(enum figure figure) { return figure_questions[figure]; }
const char *figure_reading(enum figure figure) { return figure_readings[figure]; }

/* What the writers below share. */
struct draft {
    const char *work;
    const struct summary *summaries;
    const struct extracted *extracted;
    uint32_t count;
    FILE *errors;
    FILE *script;           /* plot.gp */
    struct figures *figures;
};

struct range {
    double low;
    double high;
};

static void range_add(struct range *range, double value)
{
    if (value > 0 && isfinite(value)) {
        range->low = range->high == 0 ? value : fmin(range->low, value);
        range->high = fmax(range->high, value);
    }
}

static void shown_add(struct draft *draft, enum figure figure, uint32_t variant)
{
    char *shown = draft->figures->items[figure].shown;
    size_t used = strlen(shown);

    snprintf(shown + used, sizeof(draft->figures->items[figure].shown) - used, "%s%u", used > 0 ? " " : "", variant + 1);
}

static void why_not(struct draft *draft, enum figure figure, const char *reason)
{
    struct figure_state *state = &draft->figures->items[figure];

    if (state->shown[0] == '\0')
        snprintf(state->why_not, sizeof(state->why_not), "%s", reason);
}

/* gnuplot takes nothing in single quotes for itself but the quote, which is doubled. Bytes below the space would end the line. */
static void quoted(FILE *out, const char *text, uint32_t characters_max)
{
    uint32_t characters = 0;

    fputc('\'', out);
    for (const char *c = text; *c != '\0'; c++) {
        bool begins = ((unsigned char)*c & 0xc0) != 0x80; /* the first byte of a character in UTF-8 */

        if (begins && ++characters > characters_max) {
            fputs("…", out);
            break;
        }
        if (*c == '\'')
            fputc('\'', out);
        fputc((unsigned char)*c < ' ' || *c == 0x7f ? ' ' : *c, out);
    }
    fputc('\'', out);
}

static FILE *data_create(struct draft *draft, const char *file, const char *about)
{
    FILE *out = file_create(draft->errors, "%s/data/%s.dat", draft->work, file);

    if (out != NULL)
        fprintf(out, "# %s\n# One block a variant, in the order of plot.gp; NaN: nothing to show.\n", about);
    return out;
}

/* Every variant has its block, so that a block's number is the variant's: gnuplot does not count an empty one. */
static void block_begin(FILE *out, const struct summary *summary)
{
    fputs("# variant: ", out);
    for (const char *c = summary->variant; *c != '\0'; c++)
        fputc((unsigned char)*c < ' ' ? ' ' : *c, out);
    fputc('\n', out);
}

static void block_end(FILE *out, uint32_t rows, uint32_t columns)
{
    for (uint32_t i = 0; rows == 0 && i < columns; i++)
        fputs(i + 1 < columns ? "NaN " : "NaN\n", out);
    fputs("\n\n", out);
}

/* `name` = '("label" value, ...)' for the logarithmic axis of that range: at every decade, or at more steps the fewer
 * decades there are. Labels are seconds with the unit a person would say, or plain numbers. */
static void ticks(FILE *script, const char *name, const struct range *range, bool seconds)
{
    static const double fine[] = {1, 1.5, 2, 3, 4, 5, 7};
    static const double medium[] = {1, 2, 5};
    double span = range->high / range->low;
    const double *steps = span < 15 ? fine : medium;
    size_t steps_count = span < 15 ? ARRAY_COUNT(fine) : span < 2e4 ? ARRAY_COUNT(medium) : 1;
    const char *separator = "";

    fprintf(script, "%s = '(", name);
    for (int decade = -9; decade < 15; decade++)
        for (size_t i = 0; i < steps_count; i++) {
            double value = steps[i] * pow(10, decade);
            double unit = !seconds || value >= 1 ? 1 : value < 1e-3 ? 1e-6 : 1e-3;

            if (value < range->low || value > range->high)
                continue;
            fprintf(script, "%s\"%g%s\" %g", separator, value / unit,
                    !seconds ? "" : value < 1e-3 ? " µs" : value < 1 ? " ms" : " s", value);
            separator = ", ";
        }
    fputs(")'\n", script);
}

/* `name`_low, `name`_high and `name`_ticks. */
static void axis_script(FILE *script, const char *name, struct range range, bool seconds)
{
    char ticks_name[64];

    /* One value, or none, gets a factor of two around it; otherwise a little air. */
    if (range.high <= 0)
        range = (struct range){1, 1};
    double air = range.high / range.low < 2 ? 2 : 1.15;

    range.low /= air;
    range.high *= air;
    snprintf(ticks_name, sizeof(ticks_name), "%s_ticks", name);
    fprintf(script, "%s_low = %g\n%s_high = %g\n", name, range.low, name, range.high);
    ticks(script, ticks_name, &range, seconds);
}

/* Says which figure comes next, and with what. */
static void figure_script(struct draft *draft, enum figure figure, const char *subtitle)
{
    FILE *script = draft->script;

    if (draft->figures->items[figure].shown[0] == '\0')
        return;
    fprintf(script, "figure = '%s'\nshown = '%s'\nquestion = ", figure_file(figure), draft->figures->items[figure].shown);
    quoted(script, figure_question(figure), 200);
    fputs("\nsubtitle = ", script);
    quoted(script, subtitle, 200);
    fputs("\nload 'data/draw.gp'\n\n", script);
}

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
    FILE *out = data_create(draft, figure_file(figure), about);

    if (out == NULL)
        return;
    fputs("# requests_percent within_s\n", out);
    for (uint32_t v = 0; v < draft->count; v++) {
        const struct extracted *extracted = &draft->extracted[v];
        const struct histogram *histogram = figure == FIGURE_TTFT_CDF ? &extracted->ttft : &extracted->e2e;
        double variant_objective_s = figure == FIGURE_TTFT_CDF ? extracted->objective_ttft_s : extracted->objective_e2e_s;

        block_begin(out, &draft->summaries[v]);
        for (uint32_t i = 0; histogram->count > 0 && i <= CDF_POINTS; i++) {
            double share = (double)i / CDF_POINTS;

            fprintf(out, "%g %.6g\n", share * 100, (double)histogram_quantile(histogram, share) / 1e9);
        }
        block_end(out, histogram->count > 0, 2);
        if (histogram->count == 0)
            continue;
        shown_add(draft, figure, v);
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
    why_not(draft, figure, "no request was finished after the warm-up");
    text_duration(objective_s * 1e9, objective);
    fprintf(draft->script, "objective_s = %g\nobjective = '%s'\n", objective_s, objective);
    axis_script(draft->script, "seconds", range, true);
    figure_script(draft, figure, any_saturated(draft, figure)
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
    FILE *out = data_create(draft, figure_file(FIGURE_BLAME), "Composition of latency: percent, stacked");

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

        block_begin(out, summary);
        for (uint32_t band = 0; band < BLAME_BANDS; band++)
            /* Percentiles of an unstable run are none. */
            if (!summary->saturated || strcmp(summary->blame[band].label, "all") == 0)
                bars += blame_bar(out, &summary->blame[band], v * (BLAME_BANDS + 1.0) + band);
        fputs("\n\n", out); /* bars carry their place, so an empty block may be one */
        if (bars > 0)
            shown_add(draft, FIGURE_BLAME, v);
    }
    file_close(out, draft->errors);
    why_not(draft, FIGURE_BLAME, "no request was finished after the warm-up");
    fprintf(draft->script, "bands = %d\nblame_parts = '", BLAME_BANDS);
#define X(name, text, about) fputs(text " ", draft->script);
    BLAME_LIST(X)
#undef X
    fputs("'\nblame_colours = '" BLAME_COLOURS "'\n", draft->script);
    figure_script(draft, FIGURE_BLAME,
                  any_saturated(draft, FIGURE_BLAME)
                      ? "Parts of the mean request by band of end-to-end latency; of unstable variants only the whole, so far."
                      : "Parts of the mean request by band of end-to-end latency; the latency itself is above the bar.");
}

static void ttft_class_write(struct draft *draft)
{
    struct range range = {0};
    FILE *out = data_create(draft, figure_file(FIGURE_TTFT_CLASS), "Time to first token by class");

    if (out == NULL)
        return;
    fputs("# class p50_s p90_s p99_s requests\n", out);
    for (uint32_t v = 0; v < draft->count; v++) {
        const struct summary *summary = &draft->summaries[v];
        uint32_t rows = 0;

        block_begin(out, summary);
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
        block_end(out, rows, 5);
        if (rows > 0)
            shown_add(draft, FIGURE_TTFT_CLASS, v);
    }
    file_close(out, draft->errors);
    why_not(draft, FIGURE_TTFT_CLASS, "no stable variant finished a request after the warm-up");
    axis_script(draft->script, "seconds", range, true);
    figure_script(draft, FIGURE_TTFT_CLASS, any_saturated(draft, FIGURE_TTFT_CLASS)
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

static void time_axis(struct draft *draft, double end_s)
{
    static const struct {
        const char *name;
        double seconds;
        double until_s;
    } units[] = {{"s", 1, 300}, {"min", 60, 3 * 3600}, {"h", 3600, 4 * 86400}, {"days", 86400, INFINITY}};
    double arrivals_end_s = 0;
    double warmup_s = (double)draft->summaries[0].facts.warmup_until_ns / 1e9;
    size_t unit = 0;

    for (uint32_t v = 0; v < draft->count; v++) {
        arrivals_end_s = fmax(arrivals_end_s, (double)draft->summaries[v].facts.arrivals_end_ns / 1e9);
        if (draft->summaries[v].facts.warmup_until_ns != draft->summaries[0].facts.warmup_until_ns)
            warmup_s = 0; /* nothing that could be drawn for all */
    }
    /* A long drain would press what matters into a corner. */
    if (arrivals_end_s > 0)
        end_s = fmin(end_s, arrivals_end_s * 1.25);
    while (end_s >= units[unit].until_s)
        unit++;
    /* The point matters: gnuplot divides integers as C does. */
    fprintf(draft->script, "time_unit = '%s'\ntime_unit_s = %.1f\ntime_end_s = %.9g\nwarmup_s = %.9g\narrivals_end_s = %.9g\n",
            units[unit].name, units[unit].seconds, end_s, warmup_s, arrivals_end_s);
}

static void series_write(struct draft *draft)
{
    static const enum figure of_series[] = {FIGURE_HIT_RATIO, FIGURE_LOADS, FIGURE_QUEUE, FIGURE_MEMORY};
    double end_s = 0;
    uint64_t loads = 0;
    FILE *out = data_create(draft, "series", "Time series; hit-ratio, loads, queue and memory are drawn from it");

    if (out == NULL)
        return;
    fputs("# at_s hit_percent waiting running kv_percent kv_max_percent slots_percent slots_max_percent loads_per_s\n", out);
    for (uint32_t v = 0; v < draft->count; v++) {
        const struct extracted *extracted = &draft->extracted[v];
        uint64_t lookups = 0;

        block_begin(out, &draft->summaries[v]);
        for (uint32_t i = 0; i < extracted->bins_count; i++) {
            bin_write(out, extracted, i);
            lookups += extracted->bins[i].hits + extracted->bins[i].misses;
            loads += extracted->bins[i].loads;
        }
        block_end(out, extracted->bins_count, 9);
        if (extracted->bins_count == 0)
            continue;
        for (size_t i = 0; i < ARRAY_COUNT(of_series); i++)
            if (of_series[i] != FIGURE_HIT_RATIO || lookups > 0)
                shown_add(draft, of_series[i], v);
        end_s = fmax(end_s, extracted->series_start_s + extracted->bins_count * extracted->bin_s);
    }
    file_close(out, draft->errors);
    if (loads == 0 && draft->figures->items[FIGURE_LOADS].shown[0] != '\0') {
        draft->figures->items[FIGURE_LOADS].shown[0] = '\0';
        why_not(draft, FIGURE_LOADS, "no adapter was loaded");
    }
    why_not(draft, FIGURE_HIT_RATIO, "no adapter was looked up, or there are no samples");
    for (size_t i = 0; i < ARRAY_COUNT(of_series); i++)
        if (draft->figures->items[of_series[i]].why_not[0] == '\0')
            why_not(draft, of_series[i], "the results file has no samples of the replicas");
    time_axis(draft, end_s);
    figure_script(draft, FIGURE_HIT_RATIO, "Lookups in GPU slots that found their adapter, all replicas together.");
    figure_script(draft, FIGURE_LOADS, "Adapters that arrived in GPU slots, all replicas together.");
    figure_script(draft, FIGURE_QUEUE, "Requests in the fleet, all replicas together.");
    figure_script(draft, FIGURE_MEMORY, "Solid: mean of the replicas. Dotted: the fullest replica.");
}

static void fairness_write(struct draft *draft)
{
    struct range seconds = {0};
    struct range requests = {0};
    uint64_t stride = 1;
    char subtitle[160] = "A point is a tenant.";
    FILE *out = data_create(draft, figure_file(FIGURE_FAIRNESS), "Tenants: what they asked for and how long it took");

    if (out == NULL)
        return;
    fputs("# requests e2e_mean_s\n", out);
    for (uint32_t v = 0; v < draft->count; v++) {
        const struct extracted *extracted = &draft->extracted[v];

        block_begin(out, &draft->summaries[v]);
        for (uint32_t i = 0; i < extracted->tenants_count; i++) {
            const struct tenant_point *tenant = &extracted->tenants[i];

            fprintf(out, "%llu %.6g\n", (unsigned long long)tenant->requests, tenant->e2e_mean_s);
            range_add(&seconds, tenant->e2e_mean_s);
            range_add(&requests, (double)tenant->requests);
        }
        block_end(out, extracted->tenants_count, 2);
        if (extracted->tenants_count > 0)
            shown_add(draft, FIGURE_FAIRNESS, v);
        stride = max_u64(stride, extracted->tenants_stride);
    }
    file_close(out, draft->errors);
    why_not(draft, FIGURE_FAIRNESS, "no tenant had a request finished");
    if (stride > 1)
        snprintf(subtitle, sizeof(subtitle), "A point is a tenant; one in %llu is shown.", (unsigned long long)stride);
    axis_script(draft->script, "seconds", seconds, true);
    axis_script(draft->script, "requests", requests, false);
    figure_script(draft, FIGURE_FAIRNESS, subtitle);
}

static void script_begin(struct draft *draft)
{
    FILE *script = draft->script;

    fprintf(script, "# Draws all figures of the report again: run `gnuplot data/plot.gp` in the report's folder.\n"
                    "variants = %u\narray name[variants]\narray unstable[variants]\n"
                    "variant_colours = '" VARIANT_COLOURS "'\n", draft->count);
    for (uint32_t v = 0; v < draft->count; v++) {
        fprintf(script, "name[%u] = ", v + 1);
        quoted(script, draft->summaries[v].variant, draft->count <= 4 ? 44 : 28);
        fprintf(script, "\nunstable[%u] = %d\n", v + 1, draft->summaries[v].saturated);
    }
    fputc('\n', script);
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
    cdf_write(&draft, FIGURE_TTFT_CDF, "Time to first token");
    cdf_write(&draft, FIGURE_E2E_CDF, "End-to-end latency");
    blame_write(&draft);
    ttft_class_write(&draft);
    series_write(&draft);
    fairness_write(&draft);
    return file_close(draft.script, errors) ? STATUS_OK : STATUS_IO;
}
