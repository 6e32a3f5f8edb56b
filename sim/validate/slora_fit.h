/* Calibration: hardware numbers fitted to a few rows of S1 by Nelder and Mead's simplex (GSL), on squared differences of
 * logarithms. The rows fitted on, and rows that repeat their configuration, are in no error that is reported. */
#ifndef VALIDATE_SLORA_FIT_H
#define VALIDATE_SLORA_FIT_H

#include "validate/slora_run.h"

#define SLORA_FIT_ROWS 3
#define SLORA_FIT_FIELDS_MAX 8

/* Was the row's configuration fitted on? One without adapters has no setting. */
bool slora_is_calibration(const struct slora_row *row);

struct slora_fit {
    enum slora_gpu gpu;
    struct gpu_profile profile;
    uint32_t fields_count;
    const char *fields[SLORA_FIT_FIELDS_MAX];
    double values[SLORA_FIT_FIELDS_MAX];
    uint32_t rows_count;
    const struct slora_row *rows[SLORA_FIT_ROWS];
    struct slora_outcome outcomes[SLORA_FIT_ROWS];
    uint32_t evaluations;
    double error;           /* root mean square of the logarithms' differences */
};

enum status slora_fit(const struct slora_rows *rows, enum slora_gpu gpu, const char *scenarios, FILE *errors,
                      struct slora_fit *ret_fit);

#endif
