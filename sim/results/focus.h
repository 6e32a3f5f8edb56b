/* The ledger as CSV in the columns of FOCUS (FinOps Open Cost and Usage Specification 1.3, dataset Cost and Usage),
 * for the tools that read cloud bills. A line is what one account pays of one charge, by component. What has no value
 * is empty.
 *
 * Lines of one `resource` and period are one origin charge, split as the ledger's components say: each carries its
 * AllocatedRatio of it in AllocatedMethodDetails, to nine digits by largest remainder, and they add up to 1 exactly.
 * A discount is no part of a split but a Credit to the one and an Adjustment of the other, so ListCost is without
 * discounts, BilledCost with them, and the sum over all accounts is the bill either way. */
#ifndef RESULTS_FOCUS_H
#define RESULTS_FOCUS_H

#include <stdio.h>

#include "fleet/event.h"

struct focus_line {
    const char *account;        /* SubAccountId; the platform has a name as well */
    const char *resource;       /* ResourceId of the charge that was split: a pool of GPUs, a store */
    enum charge_component component;
    int64_t from_ns;            /* since 1970; >= 0. Whole seconds are written, rounded outward */
    int64_t until_ns;
    int64_t amount_nano;        /* negative: a discount, or a correction (whose ratio is 0) */
    int64_t consumed_nano;      /* 1e-9 of consumed_unit; >= 0 */
    const char *consumed_unit;  /* "GPU-Hours", "GB-Months"; NULL: not measured */
};

/* Written beside `path` first and renamed, so nothing half-written is left under the name, and what was there stays
 * until the new one is whole. A line that cannot be written is told to `errors`. */
enum status focus_write(const char *path, const struct focus_line *lines, uint32_t count, FILE *errors);

#endif
