#include "model/merge.h"

/* Thousandths of a token in a second's nanoseconds. */
#define MILLI_NS (UINT64_C(1000) * NS_PER_S)

static void check_steps(const struct merge_steps *steps)
{
    check(steps->rows >= 1);
    check(steps->step_merged_ns >= 1);
    check(steps->step_lora_ns >= steps->step_merged_ns);
}

uint64_t merge_break_even_milli(const struct merge_steps *steps)
{
    check_steps(steps);
    return div_up_u64(steps->rows * MILLI_NS, (uint64_t)steps->step_lora_ns);
}

uint64_t merge_carries_milli(const struct merge_steps *steps)
{
    check_steps(steps);
    return steps->rows * MILLI_NS / (uint64_t)steps->step_merged_ns;
}

int64_t merge_saves_ppm(const struct merge_steps *steps, uint64_t tokens_milli)
{
    uint64_t moved_milli = min_u64(tokens_milli, merge_carries_milli(steps));
    uint128 freed = (uint128)moved_milli * (uint64_t)steps->step_lora_ns * 1000000 / (steps->rows * MILLI_NS);

    check(freed < INT64_MAX);
    return (int64_t)freed - 1000000;
}
