/* Runs gnuplot, once for all figures. It is a program beside us, not a library: the report is complete without it, only
 * poorer, so nothing here stops a report. */
#include "report/draw.h"

#include "host/gnuplot.h"
#include "report/figures.h"
#include "report/files.h"

enum status draw_scripts(const char *work, const char *const *names, size_t count, FILE *errors)
{
    char plots[PLOTS_PATH_MAX];
    enum status status = plots_find(plots);

    if (status != STATUS_OK)
        fprintf(errors, "report: the folder plots/ with the gnuplot scripts was not found beside the program "
                        "(set BERTH_PLOTS to it): the page has tables only\n");
    for (size_t i = 0; status == STATUS_OK && i < count; i++)
        status = script_copy(errors, plots, work, names[i]);
    return status;
}

enum status draw_all(const char *work, FILE *errors)
{
    static const char *const none[] = {NULL};
    enum status status = gnuplot_run(work, "data/plot.gp", none, NULL, "data/gnuplot.log");

    if (status == STATUS_IO)
        fprintf(errors, "report: gnuplot could not be started: the page has tables only\n");
    if (status == STATUS_NOT_FOUND)
        fprintf(errors, "report: gnuplot is not installed: the page has tables only\n");
    if (status == STATUS_INVALID) {
        fprintf(errors, "report: gnuplot failed: the page has tables only; it said:\n");
        file_quote(errors, "%s/data/gnuplot.log", work);
    }
    return status;
}

bool draw_made(const char *work, const char *name)
{
    return file_bytes("%s/%s.png", work, name) > 0 && file_bytes("%s/%s.svg", work, name) > 0;
}

enum status figures_draw(const char *work, FILE *errors, struct figures *figures)
{
    const char *names[6 + FIGURE_COUNT] = {"draw", "style", "cdf", "job-cdf", "time-axis", "lower-panel"};
    size_t count = 6;
    enum status status;

    for (uint32_t i = 0; i < FIGURE_COUNT; i++)
        if (figures->items[i].applies)
            names[count++] = figure_file((enum figure)i);
    status = draw_scripts(work, names, count, errors);
    if (status == STATUS_OK)
        status = draw_all(work, errors);
    if (status != STATUS_OK)
        return status;
    for (uint32_t i = 0; i < FIGURE_COUNT; i++) {
        struct figure_state *state = &figures->items[i];

        state->made = state->shown[0] != '\0' && draw_made(work, figure_file((enum figure)i));
        if (!state->made && state->why_not[0] == '\0')
            snprintf(state->why_not, sizeof(state->why_not), "gnuplot drew nothing");
    }
    return STATUS_OK;
}
