/* FLOPs and bytes of device memory of a pass of LoRA training and its update, op by op, for a roofline (Williams et al. 2009): an estimate of
 * what a device could do at best, not of what kernels reach. Counted is what the arithmetic needs: every operand once an op, a tile read
 * again is the cache's business; causal attention over half of its square, 2 products there and 5 back (Dao et al. 2022, appendix B);
 * frozen weights have no gradient (Hu et al. 2021). Every row is taken to have a target. Pure. */
#ifndef MODEL_TRAINING_WORK_H
#define MODEL_TRAINING_WORK_H

#include "model/training.h"

/* LINEAR: the layers' weights; ADAPTERS: A, B and their gradients; ROWS: norms, turning, SwiGLU, the stream; UPDATE: AdamW. */
#define TRAINING_OPS(X) X(LINEAR, "linear") X(ADAPTERS, "adapters") X(ATTEND, "attend") X(HEAD, "head") X(ROWS, "rows") X(UPDATE, "update")
enum training_op {
#define X(name, text) TRAINING_##name,
    TRAINING_OPS(X)
#undef X
    TRAINING_OPS_COUNT
};

/* AGAIN: what the plan did not keep is made again; a layer's last product and the head never are. */
enum training_way { TRAINING_THERE, TRAINING_AGAIN, TRAINING_BACK, TRAINING_WAYS_COUNT };

struct training_cost { double flops; double bytes; };
struct training_work { struct training_cost cost[TRAINING_WAYS_COUNT][TRAINING_OPS_COUNT]; };

/* Of a pass of plan->rows tokens in samples of plan->sample_rows, all seven modules of every job at plan->rank. */
struct training_work training_work(const struct shape *shape, const struct training_plan *plan);
/* All of it, each op as long as the slower of its FLOPs and its bytes takes. */
double training_work_s(const struct training_work *work, double flops_per_s, double bytes_per_s);
double training_work_flops(const struct training_work *work);

#endif
