/* Virtual token counters (Sheng et al., "Fairness in Serving Large Language Models", OSDI 2024): the tenant with the
 * least weighted service goes first, its own requests in arrival order. Work-conserving: nobody is held back for having
 * had much while nobody else wants. The counters are kept by replica/fairness.c. */
#include "policy/policy.h"

const struct queue_policy queue_vtc = {
    .name = "vtc",
    .about = "the tenant with the least weighted service, then arrival order",
    .class_is_tenant = true,
    .counts_service = true,
};
