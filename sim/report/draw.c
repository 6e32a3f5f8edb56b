/* Runs gnuplot, once for all figures. It is a program beside us, not a library: the report is complete without it, only
 * poorer, so nothing here stops a report. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "report/figures.h"
#include "report/files.h"

static enum status scripts_copy(const char *work, const struct figures *figures, FILE *errors)
{
    static const char *const helpers[] = {"draw", "style", "cdf", "job-cdf", "time-axis", "lower-panel"};
    char plots[FILES_PATH_MAX];
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

/* In the child: no shell, in the work folder, nothing to read, what it says goes to a file. */
static _Noreturn void gnuplot_become(const char *work)
{
    static char program[] = "gnuplot", bare[] = "-d", script[] = "data/plot.gp";
    char *const arguments[] = {program, bare, script, NULL};
    int in = open("/dev/null", O_RDONLY);
    int out = chdir(work) == 0 ? open("data/gnuplot.log", O_WRONLY | O_CREAT | O_TRUNC, 0666) : -1;

    if (in < 0 || out < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0)
        _exit(126);
    /* Texts are UTF-8 and numbers have points, whatever the caller's locale; on a bare machine there is none. */
    if (setenv("LC_ALL", "C.UTF-8", 1) != 0)
        _exit(126);
    execvp(program, arguments);
    _exit(errno == ENOENT ? 127 : 126);
}

static bool drawn(const char *work, enum figure figure)
{
    return file_bytes("%s/%s.png", work, figure_file(figure)) > 0 && file_bytes("%s/%s.svg", work, figure_file(figure)) > 0;
}

enum status figures_draw(const char *work, FILE *errors, struct figures *figures)
{
    int code = 0;
    pid_t child;
    enum status status = scripts_copy(work, figures, errors);

    if (status != STATUS_OK)
        return status;
    child = fork();
    if (child == 0)
        gnuplot_become(work);
    while (child > 0 && waitpid(child, &code, 0) < 0)
        if (errno != EINTR)
            child = -1;
    if (child < 0) {
        fprintf(errors, "report: gnuplot could not be started (%s): the page has tables only\n", strerror(errno));
        return STATUS_IO;
    }
    if (WIFEXITED(code) && WEXITSTATUS(code) == 127) {
        fprintf(errors, "report: gnuplot is not installed: the page has tables only\n");
        return STATUS_NOT_FOUND;
    }
    if (!WIFEXITED(code) || WEXITSTATUS(code) != 0) {
        fprintf(errors, "report: gnuplot failed: the page has tables only; it said:\n");
        file_quote(errors, "%s/data/gnuplot.log", work);
        return STATUS_IO;
    }
    for (uint32_t i = 0; i < FIGURE_COUNT; i++) {
        struct figure_state *state = &figures->items[i];

        state->made = state->shown[0] != '\0' && drawn(work, (enum figure)i);
        if (!state->made && state->why_not[0] == '\0')
            snprintf(state->why_not, sizeof(state->why_not), "gnuplot drew nothing");
    }
    return STATUS_OK;
}
