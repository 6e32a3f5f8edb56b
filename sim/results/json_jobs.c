/* The jobs of a variant as JSON. Money is strings of digits, since a double cannot hold it: the accounts add up to the total
 * to the last digit. */
#include <stdio.h>

#include "results/jobs_words.h"
#include "results/json_values.h"

/* X(kind, name, field) */
#define JOB_NUMBERS(X)                                          \
    X(COUNT, "jobs_submitted", submitted)                       \
    X(COUNT, "jobs_started", started)                           \
    X(COUNT, "jobs_done", done)                                 \
    X(COUNT, "jobs_failed", failed)                             \
    X(COUNT, "jobs_cancelled", cancelled)                       \
    X(COUNT, "jobs_refused", refused)                           \
    X(COUNT, "jobs_overload", overload)                         \
    X(COUNT, "jobs_unfinished", unfinished)                     \
    X(COUNT, "jobs_with_deadline", deadlines)                   \
    X(COUNT, "deadlines_missed", deadlines_missed)              \
    X(REAL, "jobs_measured_days", days)                         \
    X(REAL, "gpu_hours_per_day", gpu_hours_per_day)             \
    X(REAL, "held_gpu_hours_per_day", held_gpu_hours_per_day)   \
    X(SPAN, "wait_s", wait)                                     \
    X(SPAN, "completion_s", completion)                         \
    X(REAL, "within_2h", within_2h)                             \
    X(SPAN, "tenant_mean_wait_s", tenant_wait)                  \
    X(SPAN, "finish_time_rho", rho)                             \
    X(REAL, "unfair_share", unfair_share)                       \
    X(REAL, "jobs_jain", jain)                                  \
    X(REAL, "allocated_share", allocated_share)                 \
    X(REAL, "used_share", used_share)                           \
    X(REAL, "lost_gpu_hours", lost_gpu_hours)                   \
    X(REAL, "checkpoint_gpu_hours", checkpoint_gpu_hours)       \
    X(REAL, "load_gpu_hours", load_gpu_hours)                   \
    X(COUNT, "reclaims", reclaims)                              \
    X(COUNT, "preempts", preempts)                              \
    X(COUNT, "notices", notices)                                \
    X(COUNT, "serving_stops", serving_stops)                    \
    X(COUNT, "losses", losses)                                  \
    X(COUNT, "base_loads", base_loads)                          \
    X(COUNT, "base_hits", base_hits)                            \
    X(COUNT, "base_drops", base_drops)                          \
    X(COUNT, "adapters_published", published)                   \
    X(COUNT, "adapters_blocked", publish_blocked)               \
    X(COUNT, "adapters_joined", joined)                         \
    X(COUNT, "adapters_republished", republished)               \
    X(COUNT, "adapters_upgraded", upgraded)                     \
    X(COUNT, "publications_refused", publish_refused)           \
    X(COUNT, "upgrade_adapters", upgrade_adapters)              \
    X(COUNT, "upgrade_jobs", upgrade_jobs)                      \
    X(COUNT, "tokens_trained", tokens_trained)                  \
    X(REAL, "cost_per_million_tokens", cost_per_million_tokens) \
    X(REAL, "idle_adapter_per_month", idle_adapter_per_month)   \
    X(REAL, "idle_adapter_in_host_memory_per_month", idle_adapter_host_per_month)

/* null where nothing was counted. */
static json_t *span_json(const struct span *span)
{
    json_t *object;

    if (span->count == 0)
        return json_null();
    object = json_object();
    json_put(object, "count", json_count(span->count));
    json_put(object, "mean", json_number(span->mean_s));
    json_put(object, "p50", json_number(span->p50_s));
    json_put(object, "p90", json_number(span->p90_s));
    json_put(object, "p99", json_number(span->p99_s));
    json_put(object, "max", json_number(span->max_s));
    return object;
}

static json_t *class_json(const struct job_kind_summary *class)
{
    json_t *object = json_object();

    json_put(object, "name", json_text(class->name));
    json_put(object, "submitted", json_count(class->submitted));
    json_put(object, "done", json_count(class->done));
    json_put(object, "held_gpu_hours", json_number(class->gpu_hours));
    json_put(object, "wait_s", span_json(&class->wait));
    json_put(object, "completion_s", span_json(&class->completion));
    return object;
}

static json_t *classes_json(const struct job_kind_summary *classes, uint32_t count)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < count; i++)
        check(json_array_append_new(array, class_json(&classes[i])) == 0);
    return array;
}

static json_t *refusals_json(const struct jobs_summary *jobs)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < JOB_REFUSE_COUNT; i++) {
        char sentence[JOB_REFUSE_SENTENCE_MAX];
        json_t *object;

        if (jobs->refused_by_reason[i] == 0)
            continue;
        job_refuse_sentence(i, jobs->refused_worst[i].need, jobs->refused_worst[i].have, sentence);
        object = json_object();
        json_put(object, "reason", json_text(job_refuse_word(i)));
        json_put(object, "count", json_count(jobs->refused_by_reason[i]));
        json_put(object, "need_max", json_count(jobs->refused_worst[i].need));
        json_put(object, "have", json_count(jobs->refused_worst[i].have));
        json_put(object, "sentence", json_text(sentence));
        check(json_array_append_new(array, object) == 0);
    }
    return array;
}

/* By the tenant's number, and "platform"; accounts that stayed empty are left out. Names are no keys: two may be alike. */
static void accounts_set(json_t *object, const struct jobs_summary *jobs)
{
    json_t *costs = json_object();
    json_t *names = json_object();

    for (uint32_t i = 0; i < jobs->tenants_count; i++) {
        const int64_t nano = jobs_account_nano(jobs, i);
        char number[16];

        if (nano == 0)
            continue;
        snprintf(number, sizeof(number), "%u", i);
        json_put(costs, number, json_digits(nano));
        if (jobs->tenant_names != NULL && jobs->tenant_names[i] != NULL)
            json_put(names, number, json_text(jobs->tenant_names[i]));
    }
    json_put(costs, "platform", json_digits(jobs_account_nano(jobs, jobs->tenants_count)));
    json_put(object, "cost_by_tenant_nano", costs);
    if (jobs->tenant_names != NULL)
        json_put(object, "tenant_names", names);
    else
        json_decref(names);
}

static json_t *components_json(const struct jobs_summary *jobs)
{
    json_t *object = json_object();

    for (uint32_t component = 0; component < CHARGE_COUNT; component++)
        json_put(object, charge_word(component), json_digits(jobs_component_nano(jobs, component)));
    return object;
}

static void burst_set(json_t *object, const struct jobs_summary *jobs)
{
    if (!jobs->burst_described)
        return;
    json_put(object, "burst_jobs", json_count(jobs->burst_jobs));
    json_put(object, "burst_tenant", json_count(jobs->burst_tenant));
    json_put(object, "others_wait_s", span_json(&jobs->others_wait));
    json_put(object, "burst_wait_s", span_json(&jobs->burst_wait));
}

void serving_json(json_t *object, const struct serving_bill *bill)
{
    json_t *components;

    json_put(object, "cost_serving_nano", bill->known ? json_digits(bill->total_nano) : json_null());
    if (!bill->known)
        return;
    components = json_object();
    for (uint32_t component = 0; component < CHARGE_COUNT; component++)
        if (bill->cost_nano[component] != 0)
            json_put(components, charge_word(component), json_digits(bill->cost_nano[component]));
    json_put(object, "cost_serving_by_component_nano", components);
}

void jobs_json(json_t *object, const struct jobs_summary *jobs)
{
#define X(kind, name, field) json_put(object, name, VALUE_##kind(jobs->field));
#define VALUE_COUNT(value) json_count(value)
#define VALUE_REAL(value) json_number(value)
#define VALUE_SPAN(value) span_json(&value)
    JOB_NUMBERS(X)
#undef VALUE_SPAN
#undef VALUE_REAL
#undef VALUE_COUNT
#undef X
    json_put(object, "jobs_by_kind", classes_json(jobs->kinds, jobs->kinds_count));
    json_put(object, "evaluations", class_json(&jobs->evaluations));
    json_put(object, "jobs_by_size", classes_json(jobs->sizes, JOBS_SUMMARY_SIZES));
    json_put(object, "job_refusals", refusals_json(jobs));
    burst_set(object, jobs);
    json_put(object, "cost_total_nano", json_digits(jobs->cost_total_nano));
    json_put(object, "cost_without_serving_nano", json_digits(jobs_without_serving_nano(jobs)));
    json_put(object, "cost_by_component_nano", components_json(jobs));
    accounts_set(object, jobs);
}
