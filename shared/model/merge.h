/* When does an adapter deserve a replica of its own, with its weights merged into the base's (spec section 3.6)?
 *
 * A token of a step with n rows costs step / n of a replica's time: step_lora / n in the pool, step_merged / n where nothing is
 * added to the base. At t tokens a second a replica of its own saves the pool t (step_lora - step_merged) / n of a replica, and
 * stands idle for 1 - t step_merged / n of its time. It pays when what it saves is what it wastes:
 *
 *     t (step_lora - step_merged) / n = 1 - t step_merged / n    <=>    t = n / step_lora
 *
 * that is, when the adapter's traffic would fill a replica of the pool. Merged, such a replica is then busy for
 * step_merged / step_lora of its time and carries up to n / step_merged; what comes beyond that goes to the pool as before.
 * That the pool's other steps have one adapter fewer is left out: it is on the safe side. */
#ifndef MODEL_MERGE_H
#define MODEL_MERGE_H

#include "base/base.h"

/* The pool's typical step, and the same rows on merged weights. */
struct merge_steps {
    uint32_t rows;           /* >= 1 */
    int64_t step_lora_ns;    /* >= step_merged_ns */
    int64_t step_merged_ns;  /* >= 1 */
};

/* Tokens a second, in thousandths, rounded up: from there on merging pays. */
uint64_t merge_break_even_milli(const struct merge_steps *steps);
/* Tokens a second, in thousandths, rounded down, that one merged replica carries at that batch. */
uint64_t merge_carries_milli(const struct merge_steps *steps);
/* What merging saves at this traffic, in millionths of a replica; negative: it costs. */
int64_t merge_saves_ppm(const struct merge_steps *steps, uint64_t tokens_milli);

#endif
