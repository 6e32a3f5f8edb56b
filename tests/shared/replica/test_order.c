/* Who goes first: the known answer of the cap, the bound on passes under adversaries, and the scan against a naive twin
 * under both queue policies. */
#include <stdio.h>
#include <stdlib.h>

#include "shared/replica/rig.h"

/* A base request that runs for ever, so that what is asked for meanwhile is decided together at the step's end. */
static void run_forever(struct rig *rig, uint32_t tenant)
{
    (void)rig_request(rig, 0, tenant, 1, 100000, 100000);
}

/* Makes adapters 1..count known and brings them to slots; takes `count` ordinals. */
static void make_resident(struct rig *rig, uint32_t count, uint32_t tenant)
{
    for (uint32_t i = 1; i <= count; i++) {
        rig_know(rig, i, 1, 1);
        (void)rig_request(rig, i, tenant, 1, 1, 1);
        rig_finish(rig);
    }
    rig->admitted_count = 0;
}

static void cap_two_gives_r1_r2_r4_then_r3_r5(void **state)
{
    (void)state;
    static const struct queue_policy *const queues[] = {&queue_fcfs, &queue_vtc};

    for (size_t i = 0; i < ARRAY_COUNT(queues); i++) {
        struct replica_config config = rig_config();
        struct rig *rig;

        config.max_loras = 2;
        config.queue = queues[i];
        rig = rig_new(&config);
        make_resident(rig, 4, 0);
        run_forever(rig, 0); /* ordinal 5; r1 .. r5 are 6 .. 10 */
        for (uint32_t r = 0; r < 5; r++)
            (void)rig_request(rig, (const uint32_t[]){1, 2, 3, 1, 4}[r], 0, 10, 5, 5);
        rig_step_done(rig, 1, 1);
        rig_expect_admitted(rig, "5 6 7 9");
        for (uint32_t step = 0; step < 5; step++)
            rig_step_done(rig, 1, 1);
        rig_expect_admitted(rig, "5 6 7 9 8 10");
        rig_free(rig);
    }
}

static void cap_does_not_count_the_base(void **state)
{
    (void)state;
    struct replica_config config = rig_config();
    struct rig *rig;

    config.max_loras = 1;
    rig = rig_new(&config);
    make_resident(rig, 2, 0);
    run_forever(rig, 0); /* 3 */
    (void)rig_request(rig, 1, 0, 10, 5, 5);
    (void)rig_request(rig, 2, 0, 10, 5, 5);
    (void)rig_request(rig, 0, 0, 10, 5, 5);
    rig_step_done(rig, 1, 1);
    rig_expect_admitted(rig, "3 4 6");
    rig_free(rig);
}

/* The adversary keeps the one adapter of the cap (or the one slot) in use by asking for it again and again. */
static void adversary_gets(uint32_t passes_max, const struct queue_policy *queue, bool by_slots)
{
    struct replica_config config = rig_config();
    struct rig *rig;
    uint32_t victim;
    uint64_t victim_ordinal;

    config.passes_max = passes_max;
    config.rows_max = 4;
    config.queue = queue;
    config.max_loras = by_slots ? 8 : 1;
    config.slots.capacity = by_slots ? 1 : 8;
    rig = rig_new(&config);
    rig_know(rig, 1, 1, 1);
    rig_know(rig, 2, 1, 1);
    if (!by_slots)
        make_resident(rig, 2, 0);
    for (uint32_t i = 0; i < 2; i++) { /* the adversary's first; one of them always runs */
        (void)rig_request(rig, 1, 0, 4, 3, 3);
        rig_loads_done(rig, TIER_HOST);
        rig_step_done(rig, 1, 1);
    }
    victim = rig_request(rig, 2, 0, 4, 3, 3);
    victim_ordinal = request_ordinal(rig->requests[victim].id);
    for (uint32_t i = 0; i < 3 * passes_max + 20 && !rig->requests[victim].admitted_before; i++) {
        (void)rig_request(rig, 1, 0, 4, 3, 3);
        rig_loads_done(rig, TIER_HOST);
        rig_step_done(rig, 1, 1);
    }
    assert_true(rig->requests[victim].admitted_before);
    assert_int_equal(rig->requests[victim].younger_first, passes_max); /* neither more nor less */
    assert_int_equal(request_ordinal(rig->requests[victim].id), victim_ordinal);
    assert_int_equal(replica_state(rig->replica).passes_most, passes_max);
    rig_free(rig);
}

static void nobody_is_passed_over_more_than_passes_max_times(void **state)
{
    (void)state;
    for (uint32_t passes_max = 1; passes_max <= 64; passes_max *= 4) {
        adversary_gets(passes_max, &queue_fcfs, false);
        adversary_gets(passes_max, &queue_fcfs, true);
        adversary_gets(passes_max, &queue_vtc, false);
        adversary_gets(passes_max, &queue_vtc, true);
    }
}

/* Many in one scan: the barrier falls inside it, before the next candidate. */
static void one_scan_does_not_overrun_the_bound(void **state)
{
    (void)state;
    struct replica_config config = rig_config();
    struct rig *rig;
    uint32_t victim;

    config.passes_max = 3;
    config.max_loras = 1;
    rig = rig_new(&config);
    make_resident(rig, 2, 0);
    run_forever(rig, 0); /* 3 */
    (void)rig_request(rig, 1, 0, 4, 9, 9);
    victim = rig_request(rig, 2, 0, 4, 9, 9);
    for (uint32_t i = 0; i < 10; i++)
        (void)rig_request(rig, 1, 0, 4, 9, 9);
    rig_step_done(rig, 1, 1);
    rig_expect_admitted(rig, "3 4 6 7 8");
    for (uint32_t i = 0; i < 12; i++)
        rig_step_done(rig, 1, 1);
    assert_int_equal(rig->requests[victim].younger_first, 3);
    assert_true(rig->requests[victim].admitted_before);
    rig_free(rig);
}

/* A barred request that goes away lets the others in again. */
static void cancelling_the_barred_request_lifts_the_barrier(void **state)
{
    (void)state;
    struct replica_config config = rig_config();
    struct rig *rig;
    uint32_t victim;

    config.passes_max = 1;
    config.max_loras = 1;
    rig = rig_new(&config);
    make_resident(rig, 2, 0);
    run_forever(rig, 0); /* 3 */
    (void)rig_request(rig, 1, 0, 4, 9, 9);
    victim = rig_request(rig, 2, 0, 4, 9, 9);
    (void)rig_request(rig, 1, 0, 4, 9, 9);
    (void)rig_request(rig, 1, 0, 4, 9, 9);
    (void)rig_request(rig, 0, 0, 4, 9, 9);
    rig_step_done(rig, 1, 1);
    rig_expect_admitted(rig, "3 4 6");
    rig_cancel(rig, victim);
    rig_step_done(rig, 1, 1);
    rig_expect_admitted(rig, "3 4 6 7 8");
    rig_free(rig);
}

/* Random load with everything resident and nothing but rows and the cap to wait for: then the bound holds to the letter,
 * for all under fcfs and within each tenant under vtc. */
static void bound_holds_for_everybody(const struct queue_policy *queue, uint32_t tenants, uint64_t seed)
{
    struct replica_config config = rig_config();
    uint64_t random = seed;
    uint32_t worst = 0;
    struct rig *rig;

    config.requests_max = 128;
    config.rows_max = 5;
    config.max_loras = 2;
    config.passes_max = 3;
    config.queue = queue;
    rig = rig_new(&config);
    rig->seed = seed;
    make_resident(rig, 6, 0);
    for (uint32_t i = 0; i < 4000; i++) {
        uint32_t output = (uint32_t)(1 + draw_below(&random, 6));
        uint64_t popular = draw_below(&random, 2);

        if (rig->live < config.requests_max && draw_below(&random, 3) > 0)
            (void)rig_request(rig, popular ? 1 : (uint32_t)draw_below(&random, 7), (uint32_t)draw_below(&random, tenants),
                              4, output, output);
        if (rig_steps_most(rig) > 0 && draw_below(&random, 2) == 0)
            rig_step_done(rig, 1, 1);
        for (uint32_t slot = 0; slot < config.requests_max; slot++) {
            if (rig->requests[slot].live && tenants == 1)
                worst = max_u32(worst, rig->requests[slot].younger_first);
        }
    }
    if (tenants == 1)
        assert_int_equal(worst, config.passes_max);
    assert_int_equal(replica_state(rig->replica).passes_most, config.passes_max);
    rig_free(rig);
}

static void bound_holds_for_everybody_under_random_load(void **state)
{
    (void)state;
    uint64_t seed = test_seed(11);

    bound_holds_for_everybody(&queue_fcfs, 1, seed);
    bound_holds_for_everybody(&queue_fcfs, 1, seed + 1);
    bound_holds_for_everybody(&queue_vtc, 1, seed + 2);
    bound_holds_for_everybody(&queue_vtc, 4, seed + 3);
}

/* The naive twin: everything resident, blocks and budget plenty, so a step gives every row one token and what matters is
 * order, rows, the cap and passes. Arrays and exhaustive search. */
enum { TWIN_MOST = 4096, TWIN_TENANTS = 4 };
struct twin {
    struct {
        uint32_t adapter, tenant, prompt, left, passes;
        enum { TWIN_WAITS, TWIN_RUNS, TWIN_GONE } state;
        bool seen, held;
    } all[TWIN_MOST]; /* by ordinal */
    uint32_t count;
    uint64_t counter[TWIN_TENANTS];
    uint32_t last;
    uint32_t admitted[TWIN_MOST];
    uint32_t admitted_count;
};

static uint32_t twin_rows(const struct twin *twin, uint32_t adapter)
{
    uint32_t rows = 0;

    for (uint32_t i = 0; i < twin->count; i++)
        rows += twin->all[i].state == TWIN_RUNS && (adapter == NONE_INDEX || twin->all[i].adapter == adapter);
    return rows;
}

static bool twin_waits(const struct twin *twin, uint32_t tenant)
{
    for (uint32_t i = 0; i < twin->count; i++) {
        if (twin->all[i].state == TWIN_WAITS && twin->all[i].tenant == tenant)
            return true;
    }
    return false;
}

static void twin_arrive(struct twin *twin, uint32_t adapter, uint32_t tenant, uint32_t prompt, uint32_t output)
{
    uint64_t floor = UINT64_MAX;

    if (!twin_waits(twin, tenant)) {
        for (uint32_t t = 0; t < TWIN_TENANTS; t++) {
            if (twin_waits(twin, t))
                floor = min_u64(floor, twin->counter[t]);
        }
        if (floor == UINT64_MAX)
            floor = twin->counter[twin->last];
        twin->counter[tenant] = max_u64(twin->counter[tenant], floor);
    }
    twin->all[twin->count].adapter = adapter;
    twin->all[twin->count].tenant = tenant;
    twin->all[twin->count].prompt = prompt;
    twin->all[twin->count].left = output;
    twin->count++;
}

/* The waiting request of least (counter, age of its tenant's next) that was not seen in this scan; the oldest of all when
 * counters don't matter. */
static uint32_t twin_next(const struct twin *twin, bool vtc)
{
    uint32_t best = NONE_INDEX;
    bool met[TWIN_TENANTS] = {false};

    for (uint32_t i = 0; i < twin->count; i++) {
        uint32_t tenant = twin->all[i].tenant;

        if (twin->all[i].state != TWIN_WAITS || twin->all[i].seen || (vtc && met[tenant]))
            continue;
        met[tenant] = true;
        if (best == NONE_INDEX || (vtc && twin->counter[tenant] < twin->counter[twin->all[best].tenant]))
            best = i;
    }
    return best;
}

static bool twin_barred(const struct twin *twin, uint32_t index, uint32_t passes_max)
{
    for (uint32_t i = 0; i < index; i++) {
        if (twin->all[i].state == TWIN_WAITS && twin->all[i].passes == passes_max)
            return true;
    }
    return false;
}

static void twin_admit(struct twin *twin, const struct replica_config *config)
{
    bool vtc = config->queue == &queue_vtc;

    for (uint32_t i = 0; i < twin->count; i++)
        twin->all[i].seen = twin->all[i].held = false;
    while (twin_rows(twin, NONE_INDEX) < config->rows_max) {
        uint32_t next = twin_next(twin, vtc);
        uint32_t distinct = 0;

        if (next == NONE_INDEX)
            break;
        twin->all[next].seen = true;
        if (twin_barred(twin, next, config->passes_max))
            continue;
        for (uint32_t a = 1; a < 16; a++)
            distinct += twin_rows(twin, a) > 0;
        if (twin->all[next].adapter != 0 && twin_rows(twin, twin->all[next].adapter) == 0 && distinct == config->max_loras) {
            twin->all[next].held = true;
            continue;
        }
        twin->all[next].state = TWIN_RUNS;
        if (!twin_waits(twin, twin->all[next].tenant))
            twin->last = twin->all[next].tenant;
        twin->counter[twin->all[next].tenant] += (uint64_t)config->prompt_weight * twin->all[next].prompt;
        twin->admitted[twin->admitted_count++] = next + 1;
        bool was_barred = twin->all[next].passes == config->passes_max;
        for (uint32_t i = 0; i < next; i++)
            twin->all[i].passes += twin->all[i].state == TWIN_WAITS && twin->all[i].held;
        if (was_barred) { /* those it kept out are looked at again, from the start */
            for (uint32_t i = 0; i < twin->count; i++)
                twin->all[i].seen = twin->all[i].held = false;
        }
    }
}

static void twin_step(struct twin *twin, const struct replica_config *config)
{
    for (uint32_t i = 0; i < twin->count; i++) {
        if (twin->all[i].state != TWIN_RUNS)
            continue;
        twin->counter[twin->all[i].tenant] += config->output_weight;
        if (--twin->all[i].left == 0)
            twin->all[i].state = TWIN_GONE;
    }
    twin_admit(twin, config);
}

static void scan_agrees_with(const struct queue_policy *queue, uint32_t passes_max, uint64_t seed)
{
    struct replica_config config = rig_config();
    struct twin *twin = calloc(1, sizeof(*twin));
    uint64_t random = seed;
    struct rig *rig;

    config.requests_max = 256;
    config.rows_max = 6;
    config.max_loras = 2;
    config.passes_max = passes_max;
    config.tenants_max = TWIN_TENANTS;
    config.prompt_weight = 1;
    config.output_weight = 3;
    config.queue = queue;
    rig = rig_new(&config);
    rig->seed = seed;
    for (uint32_t i = 1; i <= 5; i++) { /* resident first, with the same arithmetic in the twin */
        rig_know(rig, i, 1, 1);
        (void)rig_request(rig, i, 0, 1, 1, 1);
        rig_finish(rig);
        twin_arrive(twin, i, 0, 1, 1);
        twin_admit(twin, &config);
        twin_step(twin, &config);
    }
    run_forever(rig, 0);
    twin_arrive(twin, 0, 0, 1, 100000);
    twin_admit(twin, &config);
    for (uint32_t i = 0; i < 900; i++) {
        uint32_t arrivals = i % 100 < 50 ? (uint32_t)draw_below(&random, 4) : draw_below(&random, 4) == 0;

        for (uint32_t j = 0; j < arrivals && rig->live < config.requests_max; j++) {
            uint32_t adapter = (uint32_t)(draw_below(&random, 2) ? draw_below(&random, 2) : draw_below(&random, 6));
            uint32_t tenant = (uint32_t)draw_below(&random, TWIN_TENANTS);
            uint32_t prompt = (uint32_t)(1 + draw_below(&random, 30));
            uint32_t output = (uint32_t)(1 + draw_below(&random, 9));

            (void)rig_request(rig, adapter, tenant, prompt, output, output);
            twin_arrive(twin, adapter, tenant, prompt, output);
        }
        rig_step_done(rig, 1, 1);
        twin_step(twin, &config);
        if (rig->admitted_count != twin->admitted_count)
            fail_msg("%s, seed %llu, step %u: %u admitted, the twin %u", queue->name, (unsigned long long)seed, i,
                     rig->admitted_count, twin->admitted_count);
    }
    for (uint32_t i = 0; i < twin->admitted_count; i++) {
        if (rig->admitted[i] != twin->admitted[i])
            fail_msg("%s, seed %llu: admission %u is of %llu, the twin's of %u", queue->name, (unsigned long long)seed, i,
                     (unsigned long long)rig->admitted[i], twin->admitted[i]);
    }
    assert_true(twin->admitted_count > 500);
    rig_free(rig);
    free(twin);
}

static void scan_agrees_with_its_naive_twin(void **state)
{
    (void)state;
    uint64_t seed = test_seed(21);

    for (uint32_t passes_max = 1; passes_max <= 16; passes_max *= 4) {
        scan_agrees_with(&queue_fcfs, passes_max, seed++);
        scan_agrees_with(&queue_vtc, passes_max, seed++);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cap_two_gives_r1_r2_r4_then_r3_r5),
        cmocka_unit_test(cap_does_not_count_the_base),
        cmocka_unit_test(nobody_is_passed_over_more_than_passes_max_times),
        cmocka_unit_test(one_scan_does_not_overrun_the_bound),
        cmocka_unit_test(cancelling_the_barred_request_lifts_the_barrier),
        cmocka_unit_test(bound_holds_for_everybody_under_random_load),
        cmocka_unit_test(scan_agrees_with_its_naive_twin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
