/* Direct preference optimization (Rafailov et al. 2023): of two answers to one prompt, the preferred one shall gain probability against
 * the other, measured from the base without the adapter. Samples come in pairs, the preferred one first. */
#ifndef TRAIN_DPO_H
#define TRAIN_DPO_H

#include "engine/train/train.h"

/* Sums over pairs. A pair's margin is log p of the preferred answer minus log p of the other, less the same of the base; its reward
 * margin is beta times that; its loss is -log sigmoid(reward margin). */
struct dpo_sum {
    int64_t pairs;
    int64_t won;               /* with a margin above 0 */
    double loss;
    double reward_margin;
};
/* policy, reference [2]: log p of all targets of each side. Returns minus the loss's slope by the margin, > 0. */
double dpo_add(struct dpo_sum *sum, double beta, const double policy[2], const double reference[2]);

/* One update of the job that all samples are of: loss = mean over the pairs, of which a pass has whole ones, as many as fit, in order.
 * samples [count], count even, the rows of each pair at most job_rows_max; reference [count]. STATUS_INVALID: the gradient is not finite,
 * and neither is the norm. STATUS_END: it was stopped. The job has not moved then. */
enum status trainer_dpo_step(struct trainer *trainer, const struct train_sample *samples, int32_t count, const double *reference,
                             double beta, double rate, struct dpo_sum *ret_sum, double *ret_norm);

#endif
