#include "fleet/view.h"
#include "policy/policy.h"

static uint32_t want(const struct scale_view *view)
{
    return view->replicas;
}

const struct scale_policy scale_fixed = {
    .name = "fixed",
    .about = "as many as there are; only floor and ceiling move them",
    .want = want,
};
