#include "report/page_rows.h"

#include <math.h>

#include "report/page.h"

const char *page_duration_unit(double most_ns, double *ret_unit_ns)
{
    static const struct {
        double until_ns;
        double unit_ns;
        const char *name;
    } units[] = {{999.5e6, 1e6, "ms"}, {3 * 3600e9, 1e9, "s"}, {30 * 86400e9, 3600e9, "h"}, {INFINITY, 86400e9, "days"}};
    size_t unit = 0;

    while (unit + 1 < ARRAY_COUNT(units) && most_ns >= units[unit].until_ns)
        unit++;
    *ret_unit_ns = units[unit].unit_ns;
    return units[unit].name;
}

static void value_text(enum page_kind kind, double value, double unit_ns, char ret_text[NUMBER_TEXT_MAX])
{
    if (isnan(value))
        snprintf(ret_text, NUMBER_TEXT_MAX, "–");
    else if (kind == COUNT)
        count_text((uint64_t)value, ret_text);
    else if (kind == PERCENT)
        snprintf(ret_text, NUMBER_TEXT_MAX, "%.1f %%", value * 100);
    else
        text_number(kind == DURATION ? value / unit_ns : value, ret_text);
}

/* Best is what no other beats as printed: digits that are not shown decide nothing, and where all are equal none is best. */
static bool row_best(const struct page_row *rows, uint32_t row, page_value row_value, const struct summary *summaries,
                     uint32_t count, double unit_ns, char ret_best[NUMBER_TEXT_MAX])
{
    double best = NAN;
    bool differ = false;

    for (uint32_t v = 0; v < count; v++) {
        double value = row_value(row, &summaries[v]);

        if (!isnan(value) && (isnan(best) || (rows[row].better == MORE ? value > best : value < best)))
            best = value;
    }
    value_text(rows[row].kind, best, unit_ns, ret_best);
    for (uint32_t v = 0; v < count; v++) {
        double value = row_value(row, &summaries[v]);
        char text[NUMBER_TEXT_MAX];

        value_text(rows[row].kind, value, unit_ns, text);
        differ |= !isnan(value) && strcmp(text, ret_best) != 0;
    }
    return differ && !isnan(best) && rows[row].better != NEITHER;
}

void page_rows_row(FILE *out, const struct page_row *rows, uint32_t row, page_value row_value,
                   const struct summary *summaries, uint32_t count)
{
    char best[NUMBER_TEXT_MAX];
    double most_ns = 0;
    double unit_ns;

    for (uint32_t v = 0; v < count; v++)
        most_ns = fmax(most_ns, row_value(row, &summaries[v])); /* fmax passes NaN over */
    const char *unit = page_duration_unit(most_ns, &unit_ns);
    bool mark = row_best(rows, row, row_value, summaries, count, unit_ns, best);

    fputs("<tr><th scope=\"row\">", out);
    text_html(out, rows[row].label);
    if (rows[row].kind == DURATION)
        fprintf(out, " <small>%s</small>", unit);
    fputs("</th>", out);
    for (uint32_t v = 0; v < count; v++) {
        char text[NUMBER_TEXT_MAX];

        value_text(rows[row].kind, row_value(row, &summaries[v]), unit_ns, text);
        if (rows[row].percentile && summaries[v].saturated)
            fputs("<td class=\"unstable\">unstable</td>", out);
        else if (mark && strcmp(text, best) == 0)
            fprintf(out, "<td class=\"best\">%s</td>", text);
        else
            fprintf(out, "<td>%s</td>", text);
    }
    fputs("</tr>\n", out);
}

void page_variants_head(FILE *out, const struct summary *summaries, uint32_t count, uint32_t first)
{
    fputs("<div class=\"scroll\"><table class=\"comparison\">\n<thead><tr><td></td>", out);
    for (uint32_t v = 0; v < count; v++) {
        fputs("<th scope=\"col\">", out);
        page_name(out, summaries[v].variant, first + v);
        fputs("</th>", out);
    }
    fputs("</tr></thead>\n<tbody>\n", out);
}

void page_rows_end(FILE *out)
{
    fputs("</tbody></table></div>\n", out);
}
