/* Workers of one task: a validator looks through a file of a tenant's, or takes in an adapter that was made elsewhere, a trainer learns an
 * adapter from a file. Each is told what to do by a
 * START over its link, gets its objects as descriptors with their keys, and gives back sealed objects and a RESULT; plain bytes of a
 * tenant's are in its memory alone. What it says in the clear are numbers and codes, never words. Once it has opened what it needs, it
 * is in a sandbox (sandbox/sandbox.h).
 *
 * START's settings name objects as {"fd", "grant"}, places among its descriptors and grants; the grant's id is the object's. Both tasks:
 * "tenant", "method", "base" {"fd", "name"}, "train", "validation". A validator: "report", "context", "epochs", "batch", "examples_min";
 * method may be "auto", base null. Its task "adopt": "tenant", "base" and
 * "others", names of the platform's other bases, "bundle" (link/bundle.h), "result". A trainer: "result", "results", "state", "parent", "resume", "hyperparameters" {"epochs", "batch", "rate",
 * "rate_multiplier", "rank", "alpha", "beta", "seed", "patience", "min_delta", "schedule", "context", "evaluate_every"}, each of them missing
 * for the rules; "device" "cpu" or "cuda" with "gpu" (control/core/gpus.h), missing for the best there is, "threads", "save_every_s". Later outputs come by CHECKPOINT_NOW, which says
 * which are for adapters; with a deadline it is to save and end. */
#ifndef TASK_TASK_H
#define TASK_TASK_H

#include "base/base.h"

enum task_kind { TASK_VALIDATE, TASK_TRAIN, TASK_ADOPT };

struct task_config {
    enum task_kind kind;      /* a validator of START's task "adopt" does TASK_ADOPT */
    int socket;               /* KEEPER_SOCKET */
    uint32_t worker_kind;     /* said in HELLO */
    int lost_ms;              /* without a lease for so long it saves and ends; 0: 60,000 */
};
/* The whole life of the process: exit code 0 when it has done what it was to do, or has yielded, and all that it said is committed; 1 after
 * a FAILED, and where nobody came for what it said. Ends at once, without returning, when it is told to or its socket is closed. */
int task_run(const struct task_config *config);

#endif
