/* The words that people and files see for what happens to jobs, from the lists of fleet/event.h and results/jobs.h. */
#ifndef RESULTS_JOBS_WORDS_H
#define RESULTS_JOBS_WORDS_H

#include <stdio.h>

#include "base/base.h"

/* enum job_outcome: "done", "failed" ... */
const char *job_outcome_word(uint32_t outcome);
/* enum job_stage: "train" ... */
const char *job_stage_word(uint32_t stage);
/* enum job_isolation: "exclusive" ... */
const char *job_isolation_word(uint32_t isolation);
/* enum placement_end: "done", "yielded", "lost", "open". */
const char *placement_end_word(uint32_t end);
/* enum job_refuse_reason in lower case: "none", "memory" ...; "unknown" past the list. */
const char *job_refuse_word(uint32_t reason);
/* "needs 4 GPUs of one node, the largest node has 2": the reason with its arithmetic. */
#define JOB_REFUSE_SENTENCE_MAX 160
void job_refuse_sentence(uint32_t reason, uint64_t need, uint64_t have, char ret_text[JOB_REFUSE_SENTENCE_MAX]);
/* enum charge_component: "base residency" ... for people, "residency" ... for machines. */
const char *charge_text(uint32_t component);
const char *charge_word(uint32_t component);

/* A tenant as reports name it: by its own name, or tenant-17; the number `tenants_count` is the platform.
 * ret_text has TENANT_TEXT_MAX bytes and is returned. */
#define TENANT_TEXT_MAX 128
const char *tenant_text(char *const *tenant_names, uint32_t tenants_count, uint32_t tenant, char *ret_text);

#endif
