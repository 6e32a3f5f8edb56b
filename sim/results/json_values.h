/* What the JSON of a summary is made of; a mistake in it stops the program. */
#ifndef RESULTS_JSON_VALUES_H
#define RESULTS_JSON_VALUES_H

#include <jansson.h>

#include "results/summary.h"

/* Takes the value over. */
void json_put(json_t *object, const char *name, json_t *value);
/* null where it is not finite. */
json_t *json_number(double value);
json_t *json_count(uint64_t value);
/* Text from traces and scenario files may not be UTF-8, which JSON must be: such bytes become '?'. */
json_t *json_text(const char *bytes);

/* Money: a double cannot hold it. */
json_t *json_digits(int64_t nano);

/* json_jobs.c: what serving costs, where it is known. */
void serving_json(json_t *object, const struct serving_bill *bill);
/* json_jobs.c: everything about jobs, into the object of a variant. */
void jobs_json(json_t *object, const struct jobs_summary *jobs);

#endif
