/* A folded run of equal steps and the same steps one by one are the same history, whatever a step costs. */
#include <stdio.h>

#include "engine/sim.h"
#include "support.h"

static void run(const char *const *settings, uint32_t count, struct summary *ret_summary)
{
    struct scenario_set set = {0};
    struct sim_options options = {0};

    assert_int_equal(scenario_read("scenarios/thrash-2x.yaml", settings, count, stderr, &set), STATUS_OK);
    assert_int_equal(sim_run(&set.items[0], NULL, &options, stderr, ret_summary), STATUS_OK);
    scenario_set_free(&set);
}

static void folded_and_single_steps_agree_under_every_step_cost(void **state)
{
    (void)state;
    static const char *const costs[] = {"pool.lora_cost=ours", "pool.lora_cost=vllm", "pool.lora_cost=slora",
                                        "pool.step_jitter=0.3", "pool.batching=prefill-first",
                                        "workload.announced_output=max", "pool.tp=2"};
    static struct summary folded;
    static struct summary single;

    for (size_t i = 0; i < ARRAY_COUNT(costs); i++) {
        const char *settings[] = {"duration_s=120", "warmup_s=20", costs[i], "single_step=true"};

        run(settings, 3, &folded);
        run(settings, 4, &single);
        assert_true(folded.facts.runs < folded.facts.engine_steps);
        assert_int_equal(single.facts.runs, single.facts.engine_steps);
        if (folded.facts.digest != single.facts.digest || folded.facts.engine_steps != single.facts.engine_steps ||
            folded.facts.end_ns != single.facts.end_ns || folded.facts.busy_ns != single.facts.busy_ns ||
            memcmp(folded.latency, single.latency, sizeof(folded.latency)) != 0 ||
            memcmp(folded.blame, single.blame, sizeof(folded.blame)) != 0)
            fail_msg("%s: folded %llu steps to %lld ns, one by one %llu steps to %lld ns", costs[i],
                     (unsigned long long)folded.facts.engine_steps, (long long)folded.facts.end_ns,
                     (unsigned long long)single.facts.engine_steps, (long long)single.facts.end_ns);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folded_and_single_steps_agree_under_every_step_cost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
