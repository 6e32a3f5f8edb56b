/* Proportional to the load, with a dead band: so many replicas that each has its target of outstanding requests, but only
 * once the load has left the band. Going up, a replica has at most its target then; going down, at most half way between the
 * target and the lower line, since fewer replicas have larger batches, slower tokens and so more outstanding requests. Both
 * lie inside the band (down_milli <= 1000 <= up_milli), so the answer does not undo itself. */
#include "base/base.h"
#include "fleet/view.h"
#include "policy/policy.h"

static uint32_t want(const struct scale_view *view)
{
    uint128 load = (uint128)view->outstanding_milli * 1000;
    uint128 there = (uint128)view->replicas * view->target_milli;
    uint32_t lower_milli = (1000 + view->down_milli) / 2;
    uint128 needed = ((uint128)view->outstanding_milli + view->target_milli - 1) / view->target_milli;
    uint128 spared = (uint128)view->target_milli * lower_milli; /* a replica's load after going down, in millionths */
    uint128 enough = (load + spared - 1) / spared;

    if (load > there * view->up_milli)
        return needed > view->ceiling ? view->ceiling : (uint32_t)needed;
    if (load < there * view->down_milli && enough < view->replicas)
        return (uint32_t)enough;
    return view->replicas;
}

const struct scale_policy scale_load = {
    .name = "load",
    .about = "outstanding requests over a target for each replica, with a dead band around it",
    .want = want,
};
