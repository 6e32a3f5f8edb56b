/* The verbs of berth-sim trace, and what the two halves of its info share: requests in cmd_trace.c, jobs in cmd_trace_jobs.c. */
#ifndef SIM_CMD_TRACE_H
#define SIM_CMD_TRACE_H

#include <stdio.h>

#include <jansson.h>

#include "jobs_survey.h"

/* Arguments from the verb on; of info, from the one before. Exit codes. */
int trace_info_command(int argc, char **argv, FILE *output, FILE *errors);
int trace_stat_command(int argc, char **argv, FILE *output, FILE *errors);
int trace_convert_command(int argc, char **argv, FILE *output, FILE *errors);

void trace_print_duration(FILE *output, int64_t duration_ns);
void trace_print_names(FILE *output, const char *name, const struct survey_names *names);
void trace_print_skips(FILE *output, const struct trace_info *info);
json_t *trace_json_names(const struct survey_names *names);
json_t *trace_json_skips(const struct trace_info *info);

/* Reads the jobs to their end and prints them, or says on `errors` what is wrong. Closes the trace. Exit code. */
int trace_info_jobs(struct job_trace *trace, const char *path, bool json, FILE *output, FILE *errors);

#endif
