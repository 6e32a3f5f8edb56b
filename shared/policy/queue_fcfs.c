/* First come, first served: one class, no counters, so a scan walks the waiting requests by age. */
#include "policy/policy.h"

const struct queue_policy queue_fcfs = {
    .name = "fcfs",
    .about = "arrival order",
    .class_is_tenant = false,
    .counts_service = false,
};
