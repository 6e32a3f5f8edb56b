/* A scenario with one llama-like pool and the workload keys at plain values; tests set what they are about. */
#ifndef TESTS_SIM_WORKLOAD_SCENE_H
#define TESTS_SIM_WORKLOAD_SCENE_H

#include <stdio.h>

#include "scenario/scenario.h"
#include "workload/source.h"

/* Zeroed but for: seed 1, an hour, ten a second, Poisson, 1,000 adapters Zipf 1 of rank 16, 50 tenants, prompts
 * lognormal mean 512, outputs lognormal mean 200. The caller's memory: a scenario is large. */
void scene_default(struct scenario *scenario);
/* Another base after those there are. */
void scene_add_base(struct scenario *scenario, double traffic_share);

/* Opens, and fails the test with the message where that is refused. */
struct source *scene_open(const struct scenario *scenario);
/* Opens and expects a refusal; the message, valid until the next call. */
const char *scene_refusal(const struct scenario *scenario, enum status status);

/* A file of this content; its path, valid until the next two calls. scene_remove() it. */
const char *scene_file(const char *name, const char *content);
void scene_remove(const char *path);

#endif
