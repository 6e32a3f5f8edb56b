/* One simulated run: the scenario's fleet of cores, hosted on one queue. */
#ifndef ENGINE_SIM_H
#define ENGINE_SIM_H

#include <signal.h>
#include <stdio.h>

#include "results/results.h"
#include "scenario/scenario.h"

struct sim_options {
    const char *journal_dir;            /* NULL: none; the folder is created, a file a core is written */
    const volatile sig_atomic_t *stop;  /* set by Ctrl-C; NULL: none */
    FILE *progress;                     /* a terminal for the progress line; NULL: none */
};

/* Runs to the end of the scenario. STATUS_OK also when stopped: summary.facts.partial says so. On failure one message is on
 * `errors`. `file` may be NULL. */
enum status sim_run(const struct scenario *scenario, struct results_file *file, const struct sim_options *options,
                    FILE *errors, struct summary *ret_summary);

#endif
