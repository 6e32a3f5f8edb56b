/* Whole runs of scenario texts: written to a file of the test's own, read as any other, simulated. */
#ifndef TESTS_SIM_ENGINE_RIG_H
#define TESTS_SIM_ENGINE_RIG_H

#include "engine/sim.h"

/* A folder of this program's own, made at the first call; rig_end() removes it with all that is in it. */
const char *rig_folder(void);
void rig_end(void);

/* The only variant of `text` with `settings` ("key=value", NULL after the last; may be NULL). A text that does not read
 * fails the test with its messages. scenario_set_free() is the caller's. */
struct scenario_set rig_scenario(const char *text, const char *const *settings);
/* Runs it, without journal when `journal_dir` is NULL. What differs from run to run and says nothing (the time it took)
 * is set to 0, so that equal runs are equal bytes. */
enum status rig_run(const struct scenario *scenario, const char *journal_dir, struct summary *ret_summary);
/* Both in one, for a text that runs well. */
void rig_run_text(const char *text, const char *const *settings, const char *journal_dir, struct summary *ret_summary);

#endif
