/* The picture of a run. It comes when the adapter is there, and nothing hangs on it. */
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "cmd_train.h"
#include "host/gnuplot.h"

#define LOG ".loss.log"

static void without(const char *why)
{
    fprintf(stderr, "berth-exec train: no loss.svg: %s\n", why);
}

/* What gnuplot left becomes what people find, whole. */
static void take_picture(const char *out)
{
    char from[4200];
    char to[4200];

    snprintf(from, sizeof(from), "%.4000s/.loss.svg", out);
    snprintf(to, sizeof(to), "%.4000s/loss.svg", out);
    if (rename(from, to) != 0)
        without("gnuplot drew nothing");
    snprintf(from, sizeof(from), "%.4000s/" LOG, out);
    unlink(from);
}

void train_plot(const struct train_arguments *arguments, const struct run_outcome *outcome)
{
    const bool validated = !isnan(outcome->valid_loss);
    char plots[PLOTS_PATH_MAX];
    char script[PLOTS_PATH_MAX + 16];
    char best[24];
    char subtitle[160];
    const char *const values[] = {validated ? "1" : "0", arguments->wishes.settings.method == RUN_DPO ? "1" : "0", best, subtitle, NULL};
    enum status status;

    if (plots_find(plots) != STATUS_OK) {
        without("the folder plots/ was not found beside the program; set BERTH_PLOTS to it");
        return;
    }
    snprintf(script, sizeof(script), "%s/training.gp", plots);
    snprintf(best, sizeof(best), "%lld", validated ? (long long)outcome->best_step : 0);
    snprintf(subtitle, sizeof(subtitle), "%lld steps%s%s", (long long)outcome->steps, outcome->stopped_early ? ", stopped early" : "",
             validated ? "; kept is the adapter with the best validation loss" : "");
    status = gnuplot_run(arguments->out, script, values, plots, LOG);
    if (status == STATUS_OK)
        take_picture(arguments->out);
    else if (status == STATUS_INVALID)
        without("gnuplot failed; " LOG " in the adapter's folder says why");
    else
        without(status == STATUS_NOT_FOUND ? "gnuplot is not installed" : "gnuplot could not be started");
}
