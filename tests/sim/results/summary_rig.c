#include "sim/results/summary_rig.h"

#include <stdio.h>
#include <stdlib.h>

struct summary summary_got;

struct scenario *summary_scenario(void)
{
    struct scenario *scenario = calloc(1, sizeof(*scenario));

    strcpy(scenario->name, "numbers");
    strcpy(scenario->variant, "default");
    scenario->seed = 3;
    scenario->duration_s = 1e5;
    scenario->slo.ttft_ms = 1000;
    scenario->slo.tpot_ms = 50;
    return scenario;
}

struct results *summary_run_open(struct scenario *scenario)
{
    struct results *results;

    assert_int_equal(results_open(NULL, scenario, 2, 4, &results), STATUS_OK);
    free(scenario);
    return results;
}

void summary_run_close(struct results *results, int64_t warmup_until_ns, int64_t arrivals_end_ns, int64_t end_ns)
{
    struct run_facts facts = {.warmup_until_ns = warmup_until_ns, .arrivals_end_ns = arrivals_end_ns, .end_ns = end_ns,
                              .busy_ns = (double)arrivals_end_ns, .notes = "a note\nand another\n"};

    assert_int_equal(results_close(results, &facts, &summary_got, stderr), STATUS_OK);
}

struct request_row summary_row(uint64_t ordinal, int64_t at_ns, int64_t ttft_ns, int64_t e2e_ns)
{
    return (struct request_row){
        .ordinal = ordinal,
        .at_ns = at_ns,
        .admitted_ns = at_ns,
        .first_token_ns = at_ns + ttft_ns,
        .done_ns = at_ns + e2e_ns,
        .tier = TIER_GPU,
        .status = REQUEST_DONE,
        .prompt_tokens = 10,
        .output_tokens = 11,
        .blame_ns = {[BLAME_QUEUE] = ttft_ns, [BLAME_DECODE] = e2e_ns - ttft_ns},
    };
}
