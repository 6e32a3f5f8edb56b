/* Virtual token counters: the service bound of Sheng et al. (OSDI 2024, theorem 4.4), no starvation of a light tenant by a
 * heavy one, no credit for idling, and no work left undone for fairness' sake. */
#include <stdlib.h>

#include "replica/internal.h"
#include "shared/replica/rig.h"

enum { PROMPT_LONG = 300, PROMPT_SHORT = 20, OUTPUT_LONG = 120, OUTPUT_SHORT = 5, ROWS = 8 };

static struct replica_config fair_config(const struct queue_policy *queue)
{
    struct replica_config config = rig_config();

    config.rows_max = ROWS;
    config.queue = queue;
    config.prompt_weight = 1;
    config.output_weight = 2;
    return config;
}

struct service {
    uint64_t of[2]; /* weighted tokens served to each tenant */
    uint32_t admitted;
};

/* Adds what the last step served: prompts when admitted, each token when produced. */
static void service_note(struct service *service, const struct rig *rig, const uint32_t *tenant_by_ordinal,
                         const uint32_t *prompt_by_ordinal)
{
    for (; service->admitted < rig->admitted_count; service->admitted++) {
        uint64_t ordinal = rig->admitted[service->admitted];

        service->of[tenant_by_ordinal[ordinal]] += (uint64_t)rig->config.prompt_weight * prompt_by_ordinal[ordinal];
    }
}

/* Both tenants always have requests waiting: one asks for long answers, the other sends long prompts, four times as many.
 * Returns the largest difference in service that was ever seen. */
static uint64_t largest_difference(const struct queue_policy *queue)
{
    struct replica_config config = fair_config(queue);
    struct rig *rig = rig_new(&config);
    uint32_t *tenants = calloc(RIG_LOG, sizeof(*tenants));
    uint32_t *prompts = calloc(RIG_LOG, sizeof(*prompts));
    struct service service = {0};
    uint64_t largest = 0;

    rig->checks = false;
    for (uint32_t step = 0; step < 3000; step++) {
        uint32_t waiting[2] = {0};

        for (uint32_t i = 0; i < config.requests_max; i++)
            waiting[rig->requests[i].tenant] += rig->requests[i].live && !rig->requests[i].running;
        for (uint32_t tenant = 0; tenant < 2; tenant++) {
            for (; waiting[tenant] < (tenant == 0 ? 2 : 8) * ROWS; waiting[tenant]++) {
                uint32_t output = tenant == 0 ? OUTPUT_LONG : OUTPUT_SHORT;

                tenants[rig->ordinal + 1] = tenant;
                prompts[rig->ordinal + 1] = tenant == 0 ? PROMPT_SHORT : PROMPT_LONG;
                (void)rig_request(rig, 0, tenant, prompts[rig->ordinal + 1], output, output);
            }
        }
        for (uint32_t i = 0; i < rig->plan_count; i++) {
            const struct step_row *row = &rig->plan[i];

            if (row->tokens > 0 && (!(row->flags & ROW_PREFILL) || (row->flags & ROW_LAST)))
                service.of[tenants[request_ordinal(row->request)]] += config.output_weight;
        }
        rig_step_done(rig, 1, 1);
        service_note(&service, rig, tenants, prompts);
        largest = max_u64(largest, service.of[0] > service.of[1] ? service.of[0] - service.of[1]
                                                                 : service.of[1] - service.of[0]);
    }
    assert_true(rig->admitted_count < RIG_LOG);
    free(tenants);
    free(prompts);
    rig_free(rig);
    return largest;
}

static void backlogged_tenants_get_equal_service_within_the_bound(void **state)
{
    (void)state;
    struct replica_config config = fair_config(&queue_vtc);
    uint64_t tokens_in_batch = ROWS * max_u64(PROMPT_SHORT + OUTPUT_LONG, PROMPT_LONG + OUTPUT_SHORT);
    uint64_t bound = 2 * max_u64((uint64_t)config.prompt_weight * PROMPT_LONG, config.output_weight * tokens_in_batch);

    assert_true(largest_difference(&queue_vtc) <= bound);
    assert_true(largest_difference(&queue_fcfs) > bound); /* or the bound would say nothing */
}

/* A hundred requests of the heavy tenant wait when the light one's first comes. */
static uint32_t admitted_before_the_light_one(const struct queue_policy *queue)
{
    struct replica_config config = fair_config(queue);
    struct rig *rig = rig_new(&config);
    uint32_t before;
    uint32_t light;

    for (uint32_t i = 0; i < 100; i++)
        (void)rig_request(rig, 0, 0, 50, 20, 20);
    for (uint32_t i = 0; i < 30; i++)
        rig_step_done(rig, 1, 1);
    before = rig->admitted_count;
    light = rig_request(rig, 0, 1, 50, 20, 20);
    while (!rig->requests[light].admitted_before)
        rig_step_done(rig, 1, 1);
    before = rig->admitted_count - before;
    rig_free(rig);
    return before;
}

static void light_tenant_is_not_starved_by_a_heavy_one(void **state)
{
    (void)state;
    /* The lift gives it the heavy one's counter and ties go to the older, so one round of rows may go first. */
    assert_true(admitted_before_the_light_one(&queue_vtc) <= 2 * ROWS);
    assert_true(admitted_before_the_light_one(&queue_fcfs) > 80);
}

static void one_tenant_alone_gets_every_row(void **state)
{
    (void)state;
    struct replica_config config = fair_config(&queue_vtc);
    struct rig *rig = rig_new(&config);

    for (uint32_t i = 0; i < 60; i++)
        (void)rig_request(rig, 0, 3, 50, 20, 20);
    rig_step_done(rig, 1, 1);
    while (replica_state(rig->replica).waiting > 0) {
        assert_int_equal(rig->plan_count, ROWS);
        rig_step_done(rig, 1, 1);
    }
    rig_finish(rig);
    rig_free(rig);
}

/* A tenant that was idle while the other was served does not then take everything until it has caught up. */
static void idling_earns_no_credit(void **state)
{
    (void)state;
    struct replica_config config = fair_config(&queue_vtc);
    struct rig *rig = rig_new(&config);
    uint32_t of_idler = 0;

    for (uint32_t i = 0; i < 200; i++)
        (void)rig_request(rig, 0, 0, 50, 10, 10);
    for (uint32_t i = 0; i < 100; i++)
        rig_step_done(rig, 1, 1);
    for (uint32_t i = 0; i < 100; i++)
        (void)rig_request(rig, 0, 1, 50, 10, 10);
    uint32_t from = rig->admitted_count;
    while (rig->admitted_count < from + 80)
        rig_step_done(rig, 1, 1);
    for (uint32_t i = from; i < rig->admitted_count; i++)
        of_idler += rig->admitted[i] > 200;
    assert_in_range(of_idler, 32, 52); /* about half, and not all 80 */
    rig_free(rig);
}

/* The prompt is charged once: a request that is preempted and prefilled again costs its tenant nothing more. */
static void recomputing_is_not_charged(void **state)
{
    (void)state;
    struct replica_config config = fair_config(&queue_vtc);
    struct rig *rig;

    config.block_tokens = 4;
    config.kv_blocks = 20; /* both fit at first, not to their ends */
    rig = rig_new(&config);
    (void)rig_request(rig, 0, 0, 30, 20, 20);
    (void)rig_request(rig, 0, 0, 30, 20, 20);
    rig_finish(rig);
    assert_true(rig->counts[REPLICA_COMMAND_PREEMPT] >= 1);
    assert_int_equal(rig->replica->classes[0].counter, 2 * (1 * 30 + 2 * 20));
    rig_free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(backlogged_tenants_get_equal_service_within_the_bound),
        cmocka_unit_test(light_tenant_is_not_starved_by_a_heavy_one),
        cmocka_unit_test(one_tenant_alone_gets_every_row),
        cmocka_unit_test(idling_earns_no_credit),
        cmocka_unit_test(recomputing_is_not_charged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
