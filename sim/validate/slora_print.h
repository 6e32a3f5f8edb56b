/* Predicted against measured: a table for a person, JSON lines for a machine. */
#ifndef VALIDATE_SLORA_PRINT_H
#define VALIDATE_SLORA_PRINT_H

#include "validate/slora_fit.h"

/* Mean absolute relative error of one metric over the rows of a GPU and setting that were not fitted on. */
struct slora_error {
    uint32_t count;
    double mean;
    double worst;           /* signed */
    uint32_t worst_row;     /* index among the rows */
};
/* only_kept_up: leaves overloaded rows out. */
struct slora_error slora_error_of(const struct slora_rows *rows, const struct slora_outcome *outcomes, enum slora_gpu gpu,
                                  enum slora_setting setting, enum slora_metric metric, bool only_kept_up);

/* outcomes[rows->count]. */
void slora_print_table(FILE *out, const struct slora_rows *rows, const struct slora_outcome *outcomes);
void slora_print_json(FILE *out, const struct slora_rows *rows, const struct slora_outcome *outcomes);
void slora_print_fit(FILE *out, const struct slora_fit *fit);

#endif
