/* The numbers about jobs, from rows whose answers are known by hand, and the JSON that tells them. */
#include "sim/results/jobs_rig.h"
#include "sim/results/summary_rig.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

static struct summary summary;
static char text[1 << 20];

static void close_with(struct results *results, const char *const *names)
{
    const struct jobs_facts facts = jobs_rig_facts(names);

    assert_int_equal(jobs_rig_close(results, &facts, &summary), STATUS_OK);
}

static void add(struct results *results, struct job_row row)
{
    results_job(results, &row);
}

static json_t *json_of(const struct summary *of)
{
    FILE *out = fmemopen(text, sizeof(text), "w");
    json_t *object;

    summary_json(out, of);
    fclose(out);
    object = json_loads(text, 0, NULL);
    assert_non_null(object);
    return object;
}

static int64_t digits(const json_t *value)
{
    const char *string = json_string_value(value);
    char again[24];
    int64_t nano;

    if (string == NULL)
        fail_msg("an amount is no string of digits");
    nano = (int64_t)strtoll(string, NULL, 10);
    snprintf(again, sizeof(again), "%" PRId64, nano);
    assert_string_equal(string, again);
    return nano;
}

static double number(const json_t *object, const char *name, const char *inner)
{
    const json_t *value = json_object_get(object, name);

    if (inner != NULL)
        value = json_object_get(value, inner);
    if (!json_is_number(value))
        fail_msg("%s %s is no number", name, inner != NULL ? inner : "");
    return json_number_value(value);
}

static void waits_and_completions_are_of_jobs_after_the_warmup(void **state)
{
    (void)state;
    struct results *results = jobs_rig_open(NULL, jobs_rig_scenario("a"));

    add(results, jobs_rig_done(0, 0, 100, 5000, 10, 10)); /* in the warm-up */
    add(results, jobs_rig_done(1, 0, 3600, 0, 3600, 3600));
    add(results, jobs_rig_done(2, 1, 4000, 100, 7100, 3600)); /* 7200 s to the end: within 2 h */
    add(results, jobs_rig_done(3, 1, 5000, 200, 7001, 3600)); /* one second too late */
    close_with(results, NULL);
    assert_true(summary.jobs.present);
    assert_true(summary.without_requests);
    assert_int_equal(summary.jobs.submitted, 3);
    assert_int_equal(summary.jobs.done, 3);
    assert_int_equal(summary.jobs.wait.count, 3);
    assert_near("mean wait", summary.jobs.wait.mean_s, 100, 1e-9);
    assert_near("median wait", summary.jobs.wait.p50_s, 100, 1);
    assert_near("max wait", summary.jobs.wait.max_s, 200, 1e-9);
    assert_near("mean completion", summary.jobs.completion.mean_s, (3600 + 7200 + 7201) / 3.0, 1e-6);
    assert_near("within 2 h", summary.jobs.within_2h, 2 / 3.0, 1e-12);
    assert_near("days", summary.jobs.days, 47 / 24.0, 1e-12);
    assert_near("GPU-hours a day", summary.jobs.gpu_hours_per_day, 3 / (47 / 24.0), 1e-9);
    assert_near("held", summary.jobs.held_gpu_hours_per_day, (3600 + 7100 + 7001) / 3600.0 / (47 / 24.0), 1e-9);
    assert_near("mean rho", summary.jobs.rho.mean_s, (1 + 2 + 7201 / 3600.0) / 3, 1e-5);
    summary_free(&summary);
}

static void every_outcome_is_counted_and_every_job_is_in_its_kind_and_size(void **state)
{
    (void)state;
    struct results *results = jobs_rig_open(NULL, jobs_rig_scenario("a"));
    const struct jobs_summary *jobs = &summary.jobs;
    uint64_t kinds = 0, sizes = 0, submitted;

    for (uint64_t i = 0; i < 5000; i++)
        add(results, jobs_rig_any(i));
    close_with(results, NULL);
    submitted = jobs->submitted;
    assert_int_equal(submitted + jobs->evaluations.submitted, 5000);
    assert_true(jobs->evaluations.submitted > 1000);
    assert_int_equal(jobs->done + jobs->failed + jobs->cancelled + jobs->refused + jobs->overload + jobs->unfinished, submitted);
    assert_true(jobs->done > 500 && jobs->unfinished > 500);
    assert_int_equal(jobs->kinds_count, 2);
    assert_string_equal(jobs->kinds[1].name, "large, \"very\"");
    for (uint32_t i = 0; i < jobs->kinds_count; i++)
        kinds += jobs->kinds[i].submitted;
    for (uint32_t i = 0; i < JOBS_SUMMARY_SIZES; i++)
        sizes += jobs->sizes[i].submitted;
    assert_int_equal(kinds, submitted);
    assert_int_equal(sizes, submitted);
    assert_int_equal(jobs->kinds[0].wait.count + jobs->kinds[1].wait.count, jobs->wait.count);
    assert_int_equal(jobs->completion.count, jobs->done);
    assert_string_equal(jobs->base_names[1], "llama-70b");
    assert_string_equal(jobs->flavor_names[1], "h100-spot");
    summary_free(&summary);
}

/* An evaluation that follows a training holds GPUs, and is no job that anybody waited for. */
static void evaluations_are_counted_apart(void **state)
{
    (void)state;
    struct results *results = jobs_rig_open(NULL, jobs_rig_scenario("a"));
    struct job_row evaluation = jobs_rig_done(1, 0, 41000, 500, 7200, 100);
    json_t *object;

    evaluation.stage = STAGE_EVALUATE;
    evaluation.follows = true;
    evaluation.tokens = 0;
    add(results, jobs_rig_done(0, 0, 40000, 10, 3600, 100));
    add(results, evaluation);
    evaluation.outcome = JOB_OUTCOME_REFUSED;
    evaluation.reason = JOB_REFUSE_GANG;
    add(results, evaluation);
    close_with(results, NULL);
    assert_int_equal(summary.jobs.submitted, 1);
    assert_int_equal(summary.jobs.done, 1);
    assert_int_equal(summary.jobs.refused, 0);
    assert_int_equal(summary.jobs.kinds[0].submitted, 1);
    assert_near("longest wait", summary.jobs.wait.max_s, 10, 1e-9);
    assert_near("mean wait of the tenant", summary.jobs.tenant_wait.max_s, 10, 1e-9);
    assert_near("jobs' GPU-hours", summary.jobs.kinds[0].gpu_hours, 1, 1e-9);
    assert_near("held by all", summary.jobs.held_gpu_hours_per_day * 47 / 24, 5, 1e-9);
    object = json_of(&summary);
    assert_near("jobs", number(object, "jobs_done", NULL), 1, 0);
    assert_near("evaluations", number(object, "evaluations", "submitted"), 2, 0);
    assert_near("done", number(object, "evaluations", "done"), 1, 0);
    assert_near("their GPU-hours", number(object, "evaluations", "held_gpu_hours"), 4, 1e-9);
    json_decref(object);
    summary_free(&summary);
}

static void deadlines_and_those_missed_are_counted(void **state)
{
    (void)state;
    struct results *results = jobs_rig_open(NULL, jobs_rig_scenario("a"));
    json_t *object;

    for (uint64_t i = 0; i < 5; i++) {
        struct job_row row = jobs_rig_done(i, 0, i == 0 ? 10 : 40000, 10, 100, 100); /* the first in the warm-up */

        row.deadline_ns = i < 4 ? row.ended_ns + (i == 3 ? 0 : -1) : 0;
        row.deadline_missed = i < 3;
        add(results, row);
    }
    close_with(results, NULL);
    object = json_of(&summary);
    assert_near("had one", number(object, "jobs_with_deadline", NULL), 3, 0);
    assert_near("missed it", number(object, "deadlines_missed", NULL), 2, 0);
    json_decref(object);
    summary_free(&summary);
}

static void refusal_with_the_largest_need_is_told(void **state)
{
    (void)state;
    static const uint64_t needs[] = {9, 16, 12};
    struct results *results = jobs_rig_open(NULL, jobs_rig_scenario("a"));
    char sentence[256];
    json_t *object, *refusal;

    for (uint32_t i = 0; i < 3; i++)
        add(results, (struct job_row){.ordinal = i, .submitted_ns = 4000 * NS_PER_S, .started_ns = -1, .ended_ns = 4000 * NS_PER_S,
                                      .gpus = 1, .outcome = JOB_OUTCOME_REFUSED, .reason = JOB_REFUSE_GANG,
                                      .refuse_need = needs[i], .refuse_have = 8});
    close_with(results, NULL);
    assert_int_equal(summary.jobs.refused, 3);
    assert_int_equal(summary.jobs.refused_by_reason[JOB_REFUSE_GANG], 3);
    object = json_of(&summary);
    assert_int_equal(json_array_size(json_object_get(object, "job_refusals")), 1);
    refusal = json_array_get(json_object_get(object, "job_refusals"), 0);
    snprintf(sentence, sizeof(sentence), "%s", json_string_value(json_object_get(refusal, "sentence")));
    assert_string_equal(sentence, "needs 16 GPUs of one node, the largest node has 8");
    assert_string_equal(json_string_value(json_object_get(refusal, "reason")), "gang");
    json_decref(object);
    summary_free(&summary);
}

static void fairness_is_between_tenants_not_jobs(void **state)
{
    (void)state;
    struct results *results = jobs_rig_open(NULL, jobs_rig_scenario("a"));

    /* Tenant 0: rho 1, ten times. Tenant 1: rho 4, once. Mean of the tenants: 2.5, double: 5. */
    for (uint64_t i = 0; i < 10; i++)
        add(results, jobs_rig_done(i, 0, 4000 + (double)i, 0, 100, 100));
    add(results, jobs_rig_done(10, 1, 4000, 300, 100, 100));
    close_with(results, NULL);
    assert_near("Jain", summary.jobs.jain, 25 / (2 * 17.0), 1e-9);
    assert_near("unfair", summary.jobs.unfair_share, 0, 0);
    assert_int_equal(summary.jobs.tenant_wait.count, 2);
    assert_near("longest mean wait of a tenant", summary.jobs.tenant_wait.max_s, 300, 1e-9);
    summary_free(&summary);

    /* One job of tenant 0 with rho 14: its mean is 14 / 7, tenant 1's 4, theirs 3, and 14 is above 6. */
    results = jobs_rig_open(NULL, jobs_rig_scenario("a"));
    for (uint64_t i = 0; i < 12; i++)
        add(results, jobs_rig_done(i, 0, 4000 + (double)i, 0, 100, 100));
    add(results, jobs_rig_done(12, 0, 4000, 1300, 100, 100));
    add(results, jobs_rig_done(13, 1, 4000, 300, 100, 100));
    close_with(results, NULL);
    assert_near("mean of tenant 0 is 2, so Jain", summary.jobs.jain, 36 / (2 * 20.0), 1e-9);
    assert_near("unfair", summary.jobs.unfair_share, 1 / 14.0, 1e-12);
    summary_free(&summary);
}

static void flood_is_compared_with_the_same_tenants_without_it(void **state)
{
    (void)state;
    for (uint32_t flood = 0; flood < 2; flood++) {
        struct scenario *scenario = jobs_rig_scenario(flood ? "flood" : "calm");
        struct results *results;
        json_t *object;

        scenario->jobs.burst_jobs = flood * 2;
        scenario->jobs.burst_tenant = 2;
        scenario->jobs.burst_at_s = 40000;
        results = jobs_rig_open(NULL, scenario);
        add(results, jobs_rig_done(0, 0, 40000, flood ? 60 : 10, 100, 100));
        add(results, jobs_rig_done(1, 1, 40000, flood ? 60 : 10, 100, 100));
        for (uint64_t i = 0; i < 2 && flood; i++)
            add(results, jobs_rig_done(2 + i, 2, 40000, 900, 100, 100));
        close_with(results, NULL);
        object = json_of(&summary);
        assert_near("the others", number(object, "others_wait_s", "p90"), flood ? 60 : 10, 1);
        assert_near("jobs of the burst", number(object, "burst_jobs", NULL), flood * 2, 0);
        if (flood)
            assert_near("the tenant of the burst", number(object, "burst_wait_s", "p90"), 900, 8);
        else
            assert_true(json_is_null(json_object_get(object, "burst_wait_s")));
        json_decref(object);
        summary_free(&summary);
    }
}

static void burst_is_not_mentioned_where_none_is_described(void **state)
{
    (void)state;
    struct results *results = jobs_rig_open(NULL, jobs_rig_scenario("a"));
    json_t *object;

    add(results, jobs_rig_done(0, 0, 40000, 10, 100, 100));
    close_with(results, NULL);
    object = json_of(&summary);
    assert_null(json_object_get(object, "others_wait_s"));
    assert_null(json_object_get(object, "burst_wait_s"));
    json_decref(object);
    summary_free(&summary);
}

static void accounts_of_the_json_add_up_to_the_last_digit(void **state)
{
    (void)state;
    static const char *const names[JOBS_RIG_TENANTS] = {"platform", "e\xff\"vil\n", NULL};
    struct results *results = jobs_rig_open(NULL, jobs_rig_scenario("a"));
    int64_t tenants_nano = 0, components_nano = 0, total_nano;
    const char *key;
    json_t *object, *value;

    add(results, jobs_rig_done(0, 0, 10, 10, 100, 100)); /* the bill knows no warm-up, so its tokens count */
    add(results, jobs_rig_done(1, 0, 40000, 10, 100, 100));
    close_with(results, names);
    object = json_of(&summary);
    total_nano = digits(json_object_get(object, "cost_total_nano"));
    assert_int_equal(total_nano, jobs_rig_facts(NULL).bill_nano);
    json_object_foreach(json_object_get(object, "cost_by_tenant_nano"), key, value) tenants_nano += digits(value);
    json_object_foreach(json_object_get(object, "cost_by_component_nano"), key, value) components_nano += digits(value);
    assert_int_equal(tenants_nano, total_nano);
    assert_int_equal(components_nano, total_nano);
    /* A tenant that calls itself the platform is not taken for it. */
    assert_int_equal(digits(json_object_get(json_object_get(object, "cost_by_tenant_nano"), "platform")), 3500000003);
    assert_int_equal(digits(json_object_get(json_object_get(object, "cost_by_tenant_nano"), "0")), 2500000000);
    assert_string_equal(json_string_value(json_object_get(json_object_get(object, "tenant_names"), "0")), "platform");
    assert_string_equal(json_string_value(json_object_get(json_object_get(object, "tenant_names"), "1")), "e?\"vil\n");
    assert_null(json_object_get(json_object_get(object, "cost_by_tenant_nano"), "2")); /* paid nothing */
    assert_near("of 2M tokens", number(object, "cost_per_million_tokens", NULL), (double)total_nano / 1e9 / 2, 1e-6);
    assert_near("idle adapter", number(object, "idle_adapter_per_month", NULL), 0.0019, 1e-12);
    json_decref(object);
    summary_free(&summary);
}

static void json_has_what_the_engine_counted(void **state)
{
    (void)state;
    struct results *results = jobs_rig_open(NULL, jobs_rig_scenario("a"));
    json_t *object;

    add(results, jobs_rig_done(0, 0, 40000, 10, 100, 100));
    close_with(results, NULL);
    object = json_of(&summary);
    assert_near("done", number(object, "jobs_done", NULL), 1, 0);
    assert_near("wait", number(object, "wait_s", "max"), 10, 1e-9);
    assert_near("completion", number(object, "completion_s", "mean"), 110, 1e-9);
    assert_near("allocated", number(object, "allocated_share", NULL), 0.9, 1e-12);
    assert_near("used", number(object, "used_share", NULL), 0.3, 1e-12);
    assert_near("loads", number(object, "base_loads", NULL), 11, 0);
    assert_near("hits", number(object, "base_hits", NULL), 22, 0);
    assert_near("reclaims", number(object, "reclaims", NULL), 5, 0);
    assert_near("preempts", number(object, "preempts", NULL), 6, 0);
    assert_near("notices", number(object, "notices", NULL), 7, 0);
    assert_near("serving stops", number(object, "serving_stops", NULL), 10, 0);
    assert_near("losses", number(object, "losses", NULL), 8, 0);
    assert_near("published", number(object, "adapters_published", NULL), 9, 0);
    assert_near("blocked", number(object, "adapters_blocked", NULL), 12, 0);
    assert_int_equal(json_array_size(json_object_get(object, "jobs_by_kind")), 2);
    assert_true(json_is_null(json_object_get(json_array_get(json_object_get(object, "jobs_by_kind"), 1), "wait_s")));
    json_decref(object);
    summary_free(&summary);
}

static void run_without_requests_says_nothing_of_them_and_divides_by_nothing(void **state)
{
    (void)state;
    static const char *const names[] = {"ttft", "e2e", "completed", "goodput_per_s", "blame", "tiers", "refusals"};
    json_t *object;

    close_with(jobs_rig_open(NULL, jobs_rig_scenario("empty")), NULL);
    object = json_of(&summary);
    for (size_t i = 0; i < ARRAY_COUNT(names); i++)
        assert_null(json_object_get(object, names[i]));
    assert_true(json_is_null(json_object_get(object, "wait_s")));
    assert_true(json_is_null(json_object_get(object, "within_2h")));
    assert_true(json_is_null(json_object_get(object, "jobs_jain")));
    assert_true(json_is_null(json_object_get(object, "cost_per_million_tokens")));
    assert_true(json_is_false(json_object_get(object, "saturated")));
    assert_null(strstr(text, ": nan"));
    assert_null(strstr(text, ": inf"));
    assert_string_equal(summary.notes, "no requests\njobs are made up\n");
    json_decref(object);
    summary_free(&summary);
    assert_null(summary.jobs.cost_nano);
    summary_free(&summary); /* twice is once */
}

static void run_without_jobs_says_nothing_of_them(void **state)
{
    (void)state;
    json_t *object;

    summary_run_close(summary_run_open(summary_scenario()), 0, NS_PER_S, NS_PER_S);
    assert_false(summary_got.jobs.present);
    object = json_of(&summary_got);
    assert_null(json_object_get(object, "jobs_done"));
    assert_null(json_object_get(object, "cost_total_nano"));
    assert_non_null(json_object_get(object, "ttft"));
    json_decref(object);
    summary_free(&summary_got);
}

static void absurd_sizes_saturate_and_do_not_overflow(void **state)
{
    (void)state;
    struct results *results = jobs_rig_open(NULL, jobs_rig_scenario("a"));
    struct job_row row = jobs_rig_done(0, 0, 4000, 10, 100, 100);

    row.size_ns = INT64_MAX;
    row.gpus = UINT16_MAX;
    row.held_gpu_ns = INT64_MAX;
    add(results, row);
    row.size_ns = 1; /* rho: 1.1e11 */
    add(results, row);
    close_with(results, NULL);
    assert_int_equal(summary.jobs.done, 2);
    assert_near("held days", summary.jobs.held_gpu_hours_per_day * 47 / 24, 2 * (double)INT64_MAX / 3.6e12, 1);
    assert_near("worst rho", summary.jobs.rho.max_s / 1.1e11, 1, 1e-6);
    summary_free(&summary);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_and_completions_are_of_jobs_after_the_warmup),
        cmocka_unit_test(every_outcome_is_counted_and_every_job_is_in_its_kind_and_size),
        cmocka_unit_test(evaluations_are_counted_apart),
        cmocka_unit_test(deadlines_and_those_missed_are_counted),
        cmocka_unit_test(refusal_with_the_largest_need_is_told),
        cmocka_unit_test(fairness_is_between_tenants_not_jobs),
        cmocka_unit_test(flood_is_compared_with_the_same_tenants_without_it),
        cmocka_unit_test(burst_is_not_mentioned_where_none_is_described),
        cmocka_unit_test(accounts_of_the_json_add_up_to_the_last_digit),
        cmocka_unit_test(json_has_what_the_engine_counted),
        cmocka_unit_test(run_without_requests_says_nothing_of_them_and_divides_by_nothing),
        cmocka_unit_test(run_without_jobs_says_nothing_of_them),
        cmocka_unit_test(absurd_sizes_saturate_and_do_not_overflow),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
