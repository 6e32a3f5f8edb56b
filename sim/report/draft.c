#include "report/draft.h"

#include <math.h>

#include "report/files.h"

void range_add(struct range *range, double value)
{
    if (value > 0 && isfinite(value)) {
        range->low = range->high == 0 ? value : fmin(range->low, value);
        range->high = fmax(range->high, value);
    }
}

void draft_shown(struct draft *draft, enum figure figure, uint32_t variant)
{
    char *shown = draft->figures->items[figure].shown;
    size_t used = strlen(shown);

    snprintf(shown + used, sizeof(draft->figures->items[figure].shown) - used, "%s%u", used > 0 ? " " : "", variant + 1);
}

void draft_why_not(struct draft *draft, enum figure figure, const char *reason)
{
    struct figure_state *state = &draft->figures->items[figure];

    if (state->shown[0] == '\0')
        snprintf(state->why_not, sizeof(state->why_not), "%s", reason);
}

/* gnuplot takes nothing in single quotes for itself but the quote, which is doubled. Bytes below the space would end the line. */
void draft_quoted(FILE *out, const char *text, uint32_t characters_max)
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

FILE *draft_data(struct draft *draft, const char *file, const char *about)
{
    FILE *out = file_create(draft->errors, "%s/data/%s.dat", draft->work, file);

    if (out != NULL)
        fprintf(out, "# %s\n# One block a variant, in the order of plot.gp; NaN: nothing to show.\n", about);
    return out;
}

/* Every variant has its block, so that a block's number is the variant's: gnuplot does not count an empty one. */
void draft_block_begin(FILE *out, const struct summary *summary)
{
    fputs("# variant: ", out);
    for (const char *c = summary->variant; *c != '\0'; c++)
        fputc((unsigned char)*c < ' ' ? ' ' : *c, out);
    fputc('\n', out);
}

void draft_block_end(FILE *out, uint32_t rows, uint32_t columns)
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
void draft_axis(FILE *script, const char *name, struct range range, bool seconds)
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
void draft_figure(struct draft *draft, enum figure figure, const char *subtitle)
{
    FILE *script = draft->script;

    if (draft->figures->items[figure].shown[0] == '\0')
        return;
    fprintf(script, "figure = '%s'\nshown = '%s'\nquestion = ", figure_file(figure), draft->figures->items[figure].shown);
    draft_quoted(script, figure_question(figure), 200);
    fputs("\nsubtitle = ", script);
    draft_quoted(script, subtitle, 200);
    fputs("\nload 'data/draw.gp'\n\n", script);
}

void draft_time_axis(struct draft *draft, double end_s)
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
