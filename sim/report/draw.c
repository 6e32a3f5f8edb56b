/* Runs gnuplot, once for all figures. It is a program beside us, not a library: the report is complete without it, only
 * poorer, so nothing here stops a report. */
#include <errno.h>

#include "host/gnuplot.h"
#include "report/figures.h"
#include "report/files.h"

static enum status scripts_copy(const char *work, const struct figures *figures, FILE *errors)
{
    static const char *const helpers[] = {"draw", "style", "cdf", "job-cdf", "time-axis", "lower-panel"};
    char plots[PLOTS_PATH_MAX];
    enum status status = plots_find(plots);

    if (status != STATUS_OK) {
        fprintf(errors, "report: the folder plots/ with the gnuplot scripts was not found beside the program "
                               "(set BERTH_PLOTS to it): the page has tables only\n");
        return status;
    }
    for (size_t i = 0; status == STATUS_OK && i < ARRAY_COUNT(helpers); i++)
        status = script_copy(errors, plots, work, helpers[i]);
    for (uint32_t i = 0; status == STATUS_OK && i < FIGURE_COUNT; i++)
        if (figures->items[i].applies)
            status = script_copy(errors, plots, work, figure_file((enum figure)i));
    return status;
}

static bool drawn(const char *work, enum figure figure)
{
    return file_bytes("%s/%s.png", work, figure_file(figure)) > 0 && file_bytes("%s/%s.svg", work, figure_file(figure)) > 0;
}

enum status figures_draw(const char *work, FILE *errors, struct figures *figures)
{
    static const char *const none[] = {NULL};
    enum status status = scripts_copy(work, figures, errors);

    if (status != STATUS_OK)
        return status;
    status = gnuplot_run(work, "data/plot.gp", none, NULL, "data/gnuplot.log");
    if (status == STATUS_IO)
        fprintf(errors, "report: gnuplot could not be started: the page has tables only\n");
    if (status == STATUS_NOT_FOUND)
        fprintf(errors, "report: gnuplot is not installed: the page has tables only\n");
    if (status == STATUS_INVALID) {
        fprintf(errors, "report: gnuplot failed: the page has tables only; it said:\n");
        file_quote(errors, "%s/data/gnuplot.log", work);
    }
    if (status != STATUS_OK)
        return status;
    for (uint32_t i = 0; i < FIGURE_COUNT; i++) {
        struct figure_state *state = &figures->items[i];

        state->made = state->shown[0] != '\0' && drawn(work, (enum figure)i);
        if (!state->made && state->why_not[0] == '\0')
            snprintf(state->why_not, sizeof(state->why_not), "gnuplot drew nothing");
    }
    return STATUS_OK;
}
