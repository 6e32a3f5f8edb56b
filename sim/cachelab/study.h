/* What is to be run over each trace: every policy with every admission at every size. */
#ifndef CACHELAB_STUDY_H
#define CACHELAB_STUDY_H

#include "cachelab/outcome.h"
#include "cachelab/spec.h"

#define STUDY_CELLS_MAX 4096

struct lab_study {
    struct lab_policy policies[SPEC_LIST_MAX];
    uint32_t policies_count;
    struct lab_admission admissions[SPEC_LIST_MAX];
    uint32_t admissions_count;
    struct lab_size sizes[SPEC_LIST_MAX];
    uint32_t sizes_count;
    const char *format;              /* of the traces; NULL: guessed */
    const struct object_options *options; /* likewise; may be NULL */
    struct lab_load load;
    bool cost_aware;                 /* policies are told what a load costs */
    uint64_t seed;
    uint32_t in_flight;
    uint64_t warmup;
    uint64_t interval;               /* 0: no series */
    uint64_t requests_max;           /* 0: all */
    uint32_t jobs;
    bool times;
    FILE *progress;                  /* NULL: none */
    const volatile sig_atomic_t *stop;
};

/* END: *stop. Otherwise what fails is said on `errors`. The outcome points into the study and the path, and is to be freed. */
enum status lab_study_run(const struct lab_study *study, const char *path, FILE *errors, struct lab_outcome **ret_outcome);
void lab_outcome_free(struct lab_outcome *outcome); /* accepts NULL */

#endif
