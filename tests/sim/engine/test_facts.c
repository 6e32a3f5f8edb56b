/* What the engine counts beside the requests themselves, through whole runs of scenario files. */
#include <stdio.h>

#include "engine/sim.h"
#include "support.h"

static struct summary summary;

static void run(const char *scenario, const char *const *settings, uint32_t count)
{
    struct scenario_set set = {0};
    struct sim_options options = {0};

    assert_int_equal(scenario_read(scenario, settings, count, stderr, &set), STATUS_OK);
    assert_int_equal(sim_run(&set.items[0], NULL, &options, stderr, &summary), STATUS_OK);
    scenario_set_free(&set);
}

/* Two thousand requests come within 1,000 s and take 2,000 s to serve: of the 1,000 s measured the server is busy in all but
 * the first moments, and never in more, although it goes on long after and duration_s allows for more arrivals. */
static void busy_time_ends_with_the_arrivals(void **state)
{
    (void)state;
    const char *const settings[] = {"duration_s=20000", "warmup_s=0", "workload.arrivals.rate_per_s=2",
                                    "workload.arrivals.process=even", "workload.requests_max=2000",
                                    "workload.output.law=constant"};

    run("scenarios/mm1.yaml", settings, ARRAY_COUNT(settings));
    assert_int_equal(summary.completed, 2000);
    assert_true(summary.measured_s > 990 && summary.measured_s < 1010);
    if (!(summary.gpu_busy_share > 0.99 && summary.gpu_busy_share <= 1))
        fail_msg("busy share %.9g of a server that is always busy", summary.gpu_busy_share);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(busy_time_ends_with_the_arrivals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
