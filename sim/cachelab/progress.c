#include "cachelab/progress.h"

#include <time.h>

/* One that wraps leaves its first half behind: no wider than the narrowest usual terminal. */
#define COLUMNS 79
#define BAR "####################"

static int64_t wall_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * NS_PER_S + now.tv_nsec;
}

void lab_progress_begin(struct lab_progress *progress, FILE *out, const char *what, uint64_t requests_expected)
{
    const char *name = strrchr(what, '/');

    *progress = (struct lab_progress){.out = out, .what = name != NULL ? name + 1 : what, .requests_expected = requests_expected,
                                      .began_ns = wall_ns()};
}

void lab_progress_show(struct lab_progress *progress, uint64_t requests)
{
    const int64_t now_ns = wall_ns();
    const double elapsed_s = (double)(now_ns - progress->began_ns) * 1e-9;
    const double rate = elapsed_s > 0 ? (double)requests / elapsed_s * 1e-6 : 0;
    char line[256];

    if (progress->out == NULL || now_ns - progress->shown_ns < NS_PER_S / 10)
        return;
    progress->shown_ns = now_ns;
    if (progress->requests_expected > 0) {
        const double share = (double)min_u64(requests, progress->requests_expected) / (double)progress->requests_expected;

        snprintf(line, sizeof(line), "%-24.24s [%-20.*s] %3.0f%%  %.1f M requests, %.1f M/s", progress->what,
                 (int)(share * (double)strlen(BAR)), BAR, share * 100, (double)requests * 1e-6, rate);
    } else {
        snprintf(line, sizeof(line), "%-24.24s %.1f M requests, %.1f M/s", progress->what, (double)requests * 1e-6, rate);
    }
    fprintf(progress->out, "\r%-*.*s", COLUMNS, COLUMNS, line);
    fflush(progress->out);
}

void lab_progress_end(struct lab_progress *progress)
{
    if (progress->out == NULL || progress->shown_ns == 0)
        return;
    fprintf(progress->out, "\r%*s\r", COLUMNS, "");
    fflush(progress->out);
}
