/* A scenario with jobs (two kinds, two bases, a spot flavor) and jobs of it. */
#ifndef TESTS_SIM_RESULTS_JOBS_RIG_H
#define TESTS_SIM_RESULTS_JOBS_RIG_H

#include "results/jobs.h"
#include "results/results.h"
#include "support.h"

#define JOBS_RIG_TENANTS 3
#define JOBS_RIG_DAY_S 86400

/* Two days, warm-up of an hour, no requests. The caller may change it, and gives it to jobs_rig_open(), which frees it. */
struct scenario *jobs_rig_scenario(const char *variant);
struct results *jobs_rig_open(struct results_file *file, struct scenario *scenario);
/* A day's bill: tenants 0, 1, 2 and the platform. */
extern const int64_t jobs_rig_cost_nano[(JOBS_RIG_TENANTS + 1) * CHARGE_COUNT];
/* Facts with that bill; names NULL: tenants have none. */
struct jobs_facts jobs_rig_facts(const char *const *tenant_names);
/* Ends the run after two days; ret_summary is to be freed. */
enum status jobs_rig_close(struct results *results, const struct jobs_facts *facts, struct summary *ret_summary);
/* Done: on one GPU, `size_s` alone; submitted, waited and ended as told. */
struct job_row jobs_rig_done(uint64_t ordinal, uint32_t tenant, double submitted_s, double wait_s, double run_s, double size_s);
/* Every field of rows with a number has a value of its own, negative and missing ones among them. */
struct job_row jobs_rig_any(uint64_t ordinal);

#endif
