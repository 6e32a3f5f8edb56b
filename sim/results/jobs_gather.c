#include "results/jobs_gather.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define HOUR_NS (INT64_C(3600) * NS_PER_S)
#define TENANTS_MAX (UINT32_C(1) << 24)

/* By GPU time asked for; each bound is the end of its class. */
static const struct {
    const char *name;
    int64_t below_gpu_ns;
} sizes[JOBS_SUMMARY_SIZES] = {
    {"< 0.5 GPU-h", HOUR_NS / 2}, {"0.5-2 GPU-h", 2 * HOUR_NS}, {"2-8 GPU-h", 8 * HOUR_NS}, {">= 8 GPU-h", INT64_MAX}};

/* Of a kind, or of a size. */
struct job_class {
    char name[64];
    uint64_t submitted;
    uint64_t done;
    uint128 held_gpu_ns;
    struct histogram wait;
    struct histogram completion;
};

struct jobs_gather {
    int64_t warmup_ns;
    bool burst_described;
    uint64_t burst_jobs;
    uint32_t burst_tenant;
    /* Of measured jobs. */
    uint64_t submitted;
    uint64_t started;
    uint64_t by_outcome[JOB_OUTCOME_COUNT];
    uint64_t by_reason[16];
    struct job_refusal refused_worst[16];
    uint64_t within_2h;
    uint128 asked_gpu_ns;       /* of jobs done */
    uint128 held_gpu_ns;
    uint128 lost_gpu_ns;
    uint128 checkpoint_gpu_ns;
    uint128 load_gpu_ns;
    struct histogram wait;
    struct histogram completion;
    struct histogram rho_micro;
    struct histogram others_wait;
    struct histogram burst_wait;
    struct job_class kinds[JOBS_SUMMARY_KINDS];
    struct job_class sizes[JOBS_SUMMARY_SIZES];
    struct job_class evaluations;
    uint32_t kinds_count;
    uint64_t deadlines;
    uint64_t deadlines_missed;
    /* Of all. */
    uint64_t tokens_trained;
    char base_names[JOBS_SUMMARY_BASES][64];
    uint32_t bases_count;
    char flavor_names[CAPACITY_MAX][64];
    uint32_t flavors_count;
    struct job_tenant_totals *tenants; /* [tenants_room] */
    uint32_t tenants_count;
    uint32_t tenants_room;
};

_Static_assert(JOBS_SUMMARY_KINDS >= JOB_KINDS_MAX, "every kind of a scenario has a place in the summary");
_Static_assert(JOBS_SUMMARY_BASES >= POOLS_MAX + JOB_KINDS_MAX, "and every base");
_Static_assert(CAPACITY_MAX <= ARRAY_COUNT(((struct jobs_summary *)0)->flavor_names), "and every flavor");
_Static_assert(JOB_REFUSE_COUNT <= 16, "and every reason");

static void name_copy(const char *name, char ret_name[64])
{
    snprintf(ret_name, 64, "%.63s", name);
}

static void class_init(struct job_class *class, const char *name)
{
    name_copy(name, class->name);
    histogram_init(&class->wait);
    histogram_init(&class->completion);
}

static void base_name(struct jobs_gather *gather, uint32_t index, const char *name)
{
    check(index < JOBS_SUMMARY_BASES);
    name_copy(name, gather->base_names[index]);
    gather->bases_count = max_u32(gather->bases_count, index + 1);
}

static void names_take(struct jobs_gather *gather, const struct scenario *scenario)
{
    for (uint32_t i = 0; i < scenario->pools_count; i++)
        base_name(gather, scenario->pools[i].base_index, scenario->pools[i].keys.base);
    for (uint32_t i = 0; i < scenario->job_kinds_count; i++) {
        base_name(gather, scenario->job_kinds[i].base_index, scenario->job_kinds[i].keys.base);
        class_init(&gather->kinds[i], scenario->job_kinds[i].keys.name);
    }
    gather->kinds_count = scenario->job_kinds_count;
    class_init(&gather->evaluations, "evaluations");
    for (uint32_t i = 0; i < JOBS_SUMMARY_SIZES; i++)
        class_init(&gather->sizes[i], sizes[i].name);
    for (uint32_t i = 0; i < scenario->capacity_count; i++)
        name_copy(scenario->capacity[i].keys.name, gather->flavor_names[i]);
    gather->flavors_count = scenario->capacity_count;
}

struct jobs_gather *jobs_gather_create(const struct scenario *scenario)
{
    struct jobs_gather *gather = calloc(1, sizeof(*gather));
    const struct keys_jobs *keys = &scenario->jobs;

    check(gather != NULL);
    gather->warmup_ns = (int64_t)(scenario->warmup_s * (double)NS_PER_S + 0.5);
    gather->burst_jobs = keys->burst_jobs;
    gather->burst_tenant = (uint32_t)keys->burst_tenant;
    gather->burst_described = keys->burst_jobs > 0 || keys->burst_tenant > 0 || keys->burst_at_s > 0 ||
                              keys->burst_every_s > 0 || keys->burst_kind[0] != '\0';
    histogram_init(&gather->wait);
    histogram_init(&gather->completion);
    histogram_init(&gather->rho_micro);
    histogram_init(&gather->others_wait);
    histogram_init(&gather->burst_wait);
    names_take(gather, scenario);
    return gather;
}

void jobs_gather_free(struct jobs_gather *gather)
{
    if (gather == NULL)
        return;
    free(gather->tenants);
    free(gather);
}

static void row_check(const struct jobs_gather *gather, const struct job_row *row)
{
    check(row->submitted_ns >= 0);
    check(row->started_ns == -1 || row->started_ns >= row->submitted_ns);
    check(row->outcome < JOB_OUTCOME_COUNT);
    check(row->outcome == JOB_OUTCOME_UNFINISHED ? row->ended_ns == -1 : row->ended_ns >= row->submitted_ns);
    check(row->outcome != JOB_OUTCOME_DONE || row->started_ns >= 0);
    check(row->outcome != JOB_OUTCOME_DONE || row->ended_ns >= row->started_ns);
    check(row->kind < gather->kinds_count);
    check(row->stage < STAGE_COUNT);
    check(row->isolation < ISOLATION_COUNT);
    check(row->reason < JOB_REFUSE_COUNT);
    check(row->tenant < TENANTS_MAX);
    check(row->size_ns >= 0);
    check(row->deadline_ns > 0 || !row->deadline_missed);
    check(row->held_gpu_ns >= 0);
    check(row->lost_gpu_ns >= 0);
    check(row->checkpoint_gpu_ns >= 0);
    check(row->load_gpu_ns >= 0);
}

static struct job_tenant_totals *tenant_of(struct jobs_gather *gather, uint32_t tenant)
{
    if (tenant >= gather->tenants_room) {
        const uint32_t room = max_u32(tenant + 1, max_u32(64, 2 * gather->tenants_room));

        gather->tenants = realloc(gather->tenants, room * sizeof(*gather->tenants));
        check(gather->tenants != NULL);
        memset(gather->tenants + gather->tenants_room, 0, (room - gather->tenants_room) * sizeof(*gather->tenants));
        gather->tenants_room = room;
    }
    gather->tenants_count = max_u32(gather->tenants_count, tenant + 1);
    return &gather->tenants[tenant];
}

/* Saturates: 584 years of GPU time are beyond any scenario, not beyond a trace's typing errors. */
static int64_t gpu_time_ns(int64_t size_ns, uint16_t gpus)
{
    const uint128 product = (uint128)size_ns * gpus;

    return product > INT64_MAX ? INT64_MAX : (int64_t)product;
}

static struct job_class *size_class(struct jobs_gather *gather, int64_t asked_gpu_ns)
{
    uint32_t i = 0;

    while (i + 1 < JOBS_SUMMARY_SIZES && asked_gpu_ns >= sizes[i].below_gpu_ns)
        i++;
    return &gather->sizes[i];
}

static void wait_add(struct jobs_gather *gather, const struct job_row *row, struct job_class *kind, struct job_class *size,
                     struct job_tenant_totals *tenant)
{
    const int64_t wait_ns = row->started_ns - row->submitted_ns;

    gather->started++;
    histogram_add(&gather->wait, wait_ns);
    histogram_add(&kind->wait, wait_ns);
    histogram_add(&size->wait, wait_ns);
    if (gather->burst_described)
        histogram_add(row->tenant == gather->burst_tenant ? &gather->burst_wait : &gather->others_wait, wait_ns);
    tenant->started++;
    tenant->wait_ns += (uint64_t)wait_ns;
}

static void done_add(struct jobs_gather *gather, const struct job_row *row, struct job_class *kind, struct job_class *size,
                     struct job_tenant_totals *tenant)
{
    const int64_t completion_ns = row->ended_ns - row->submitted_ns;
    const int64_t asked_gpu_ns = gpu_time_ns(row->size_ns, row->gpus);

    histogram_add(&gather->completion, completion_ns);
    histogram_add(&kind->completion, completion_ns);
    histogram_add(&size->completion, completion_ns);
    kind->done++;
    size->done++;
    gather->within_2h += completion_ns <= 2 * HOUR_NS;
    gather->asked_gpu_ns += (uint64_t)asked_gpu_ns;
    tenant->done++;
    tenant->completion_ns += (uint64_t)completion_ns;
    tenant->asked_gpu_ns += (uint64_t)asked_gpu_ns;
    if (row->size_ns > 0) {
        const uint128 rho_micro = (uint128)completion_ns * (uint128)RHO_ONE / (uint128)row->size_ns;
        const int64_t rho = rho_micro > INT64_MAX ? INT64_MAX : (int64_t)rho_micro;

        histogram_add(&gather->rho_micro, rho);
        tenant->rho_count++;
        tenant->rho_micro += (uint64_t)rho;
    }
}

static void refusal_add(struct jobs_gather *gather, const struct job_row *row)
{
    struct job_refusal *worst = &gather->refused_worst[row->reason];

    gather->by_reason[row->reason]++;
    if (gather->by_reason[row->reason] == 1 || row->refuse_need > worst->need)
        *worst = (struct job_refusal){row->refuse_need, row->refuse_have};
}

/* Evaluations that follow a training are part of its life: what they hold is held, and the rest is told apart. */
static void evaluation_add(struct jobs_gather *gather, const struct job_row *row)
{
    struct job_class *class = &gather->evaluations;

    class->submitted++;
    class->held_gpu_ns += (uint64_t)row->held_gpu_ns;
    if (row->started_ns >= 0)
        histogram_add(&class->wait, row->started_ns - row->submitted_ns);
    if (row->outcome != JOB_OUTCOME_DONE)
        return;
    class->done++;
    histogram_add(&class->completion, row->ended_ns - row->submitted_ns);
}

static void submitted_add(struct jobs_gather *gather, const struct job_row *row, struct job_tenant_totals *tenant)
{
    struct job_class *kind = &gather->kinds[row->kind];
    struct job_class *size = size_class(gather, gpu_time_ns(row->size_ns, row->gpus));

    gather->submitted++;
    gather->by_outcome[row->outcome]++;
    gather->deadlines += row->deadline_ns > 0;
    gather->deadlines_missed += row->deadline_missed;
    kind->submitted++;
    size->submitted++;
    tenant->submitted++;
    kind->held_gpu_ns += (uint64_t)row->held_gpu_ns;
    size->held_gpu_ns += (uint64_t)row->held_gpu_ns;
    if (row->outcome == JOB_OUTCOME_REFUSED)
        refusal_add(gather, row);
    if (row->started_ns >= 0)
        wait_add(gather, row, kind, size, tenant);
    if (row->outcome == JOB_OUTCOME_DONE)
        done_add(gather, row, kind, size, tenant);
}

void jobs_gather_job(struct jobs_gather *gather, const struct job_row *row)
{
    struct job_tenant_totals *tenant;

    row_check(gather, row);
    if (row->outcome == JOB_OUTCOME_DONE)
        gather->tokens_trained += row->tokens;
    if (row->submitted_ns < gather->warmup_ns)
        return;
    tenant = tenant_of(gather, row->tenant);
    gather->held_gpu_ns += (uint64_t)row->held_gpu_ns;
    tenant->held_gpu_ns += (uint64_t)row->held_gpu_ns;
    gather->lost_gpu_ns += (uint64_t)row->lost_gpu_ns;
    gather->checkpoint_gpu_ns += (uint64_t)row->checkpoint_gpu_ns;
    gather->load_gpu_ns += (uint64_t)row->load_gpu_ns;
    if (row->follows)
        evaluation_add(gather, row);
    else
        submitted_add(gather, row, tenant);
}

static struct span span_of(const struct histogram *histogram, double one)
{
    if (histogram->count == 0)
        return (struct span){0, NAN, NAN, NAN, NAN, NAN};
    return (struct span){
        .count = histogram->count,
        .mean_s = histogram_mean(histogram) / one,
        .p50_s = (double)histogram_quantile(histogram, 0.5) / one,
        .p90_s = (double)histogram_quantile(histogram, 0.9) / one,
        .p99_s = (double)histogram_quantile(histogram, 0.99) / one,
        .max_s = (double)histogram->max / one,
    };
}

static double hours_of(uint128 ns)
{
    return (double)ns / (double)HOUR_NS;
}

static double part_of(double part, double whole)
{
    return whole > 0 ? part / whole : NAN;
}

static void classes_fill(const struct job_class *classes, uint32_t count, struct job_kind_summary *ret_summaries)
{
    for (uint32_t i = 0; i < count; i++) {
        struct job_kind_summary *summary = &ret_summaries[i];

        memcpy(summary->name, classes[i].name, sizeof(summary->name));
        summary->submitted = classes[i].submitted;
        summary->done = classes[i].done;
        summary->wait = span_of(&classes[i].wait, 1e9);
        summary->completion = span_of(&classes[i].completion, 1e9);
        summary->gpu_hours = hours_of(classes[i].held_gpu_ns);
    }
}

static uint64_t jobs_above(const struct histogram *histogram, double value)
{
    uint64_t count = 0;

    if (!isfinite(value) || value >= (double)INT64_MAX)
        return 0;
    for (uint32_t i = histogram_bucket((uint64_t)value) + 1; i < HISTOGRAM_BUCKETS; i++)
        count += histogram->buckets[i];
    return count;
}

/* Jain, Chiu, Hawe 1984: (sum x)^2 / (n sum x^2), x a tenant's mean rho. A job is treated unfairly here when its rho is
 * above double the mean of these. */
static void fairness_fill(const struct jobs_gather *gather, struct jobs_summary *summary)
{
    struct histogram *waits = malloc(sizeof(*waits));
    double sum = 0;
    double squares = 0;
    uint64_t tenants = 0;

    check(waits != NULL);
    histogram_init(waits);
    for (uint32_t i = 0; i < gather->tenants_count; i++) {
        const struct job_tenant_totals *tenant = &gather->tenants[i];

        if (tenant->started > 0)
            histogram_add(waits, (int64_t)(tenant->wait_ns / tenant->started));
        if (tenant->rho_count > 0) {
            const double rho = (double)tenant->rho_micro / (double)tenant->rho_count / (double)RHO_ONE;

            sum += rho;
            squares += rho * rho;
            tenants++;
        }
    }
    summary->tenant_wait = span_of(waits, 1e9);
    summary->jain = part_of(sum * sum, (double)tenants * squares);
    summary->unfair_share = part_of((double)jobs_above(&gather->rho_micro, 2 * part_of(sum, (double)tenants) * (double)RHO_ONE),
                                    (double)gather->rho_micro.count);
    free(waits);
}

/* The accounts are copied, and the total is their sum: exact, or the run stops here. */
static void money_fill(const struct jobs_gather *gather, const struct run_facts *run, struct jobs_summary *summary)
{
    const struct jobs_facts *facts = run->jobs;
    const size_t cells = ((size_t)facts->tenants_count + 1) * CHARGE_COUNT;
    uint128 paid_nano = 0;
    uint128 credited_nano = 0;

    check(facts->cost_nano != NULL);
    check(facts->bill_nano >= 0);
    for (size_t i = 0; i < cells; i++)
        if (facts->cost_nano[i] >= 0)
            paid_nano += (uint64_t)facts->cost_nano[i];
        else
            credited_nano += 0 - (uint64_t)facts->cost_nano[i];
    check(paid_nano == credited_nano + (uint64_t)facts->bill_nano);
    summary->tenants_count = facts->tenants_count;
    summary->cost_nano = malloc(cells * sizeof(*summary->cost_nano));
    check(summary->cost_nano != NULL);
    memcpy(summary->cost_nano, facts->cost_nano, cells * sizeof(*summary->cost_nano));
    summary->cost_total_nano = facts->bill_nano;
    summary->cost_serving_nano = run->serving.total_nano;
    summary->tokens_trained = gather->tokens_trained;
    summary->cost_per_million_tokens = part_of((double)jobs_without_serving_nano(summary) / 1e9, (double)gather->tokens_trained / 1e6);
    summary->idle_adapter_per_month = (double)facts->idle_adapter_nano_per_month / 1e9;
    summary->idle_adapter_host_per_month = (double)facts->idle_adapter_host_nano_per_month / 1e9;
    if (facts->tenant_names == NULL)
        return;
    summary->tenant_names = calloc((size_t)facts->tenants_count + 1, sizeof(*summary->tenant_names));
    check(summary->tenant_names != NULL);
    for (uint32_t i = 0; i < facts->tenants_count; i++)
        if (facts->tenant_names[i] != NULL) {
            const size_t bytes = strlen(facts->tenant_names[i]) + 1;

            summary->tenant_names[i] = malloc(bytes);
            check(summary->tenant_names[i] != NULL);
            memcpy(summary->tenant_names[i], facts->tenant_names[i], bytes);
        }
}

static void counts_fill(const struct jobs_gather *gather, struct jobs_summary *summary)
{
    summary->submitted = gather->submitted;
    summary->started = gather->started;
    summary->done = gather->by_outcome[JOB_OUTCOME_DONE];
    summary->failed = gather->by_outcome[JOB_OUTCOME_FAILED];
    summary->cancelled = gather->by_outcome[JOB_OUTCOME_CANCELLED];
    summary->refused = gather->by_outcome[JOB_OUTCOME_REFUSED];
    summary->overload = gather->by_outcome[JOB_OUTCOME_OVERLOAD];
    summary->unfinished = gather->by_outcome[JOB_OUTCOME_UNFINISHED];
    summary->deadlines = gather->deadlines;
    summary->deadlines_missed = gather->deadlines_missed;
    memcpy(summary->refused_by_reason, gather->by_reason, sizeof(summary->refused_by_reason));
    memcpy(summary->refused_worst, gather->refused_worst, sizeof(summary->refused_worst));
    memcpy(summary->base_names, gather->base_names, sizeof(summary->base_names));
    summary->bases_count = gather->bases_count;
    memcpy(summary->flavor_names, gather->flavor_names, sizeof(gather->flavor_names));
    summary->flavors_count = gather->flavors_count;
    summary->burst_described = gather->burst_described;
    summary->burst_jobs = gather->burst_jobs;
    summary->burst_tenant = gather->burst_tenant;
}

static void facts_fill(const struct jobs_facts *facts, struct jobs_summary *summary)
{
    summary->allocated_share = part_of((double)facts->claimed_gpu_ns, (double)facts->gpu_ns);
    summary->used_share = part_of((double)facts->computing_gpu_ns, (double)facts->gpu_ns);
    summary->reclaims = facts->reclaims;
    summary->preempts = facts->preempts;
    summary->notices = facts->notices;
    summary->serving_stops = facts->serving_stops;
    summary->losses = facts->losses;
    summary->base_loads = facts->base_loads;
    summary->base_hits = facts->base_hits;
    summary->base_drops = facts->base_drops;
    summary->published = facts->published;
    summary->publish_blocked = facts->publish_blocked;
    summary->joined = facts->joined;
    summary->republished = facts->republished;
    summary->upgraded = facts->upgraded;
    summary->publish_refused = facts->publish_refused;
    summary->upgrade_adapters = facts->upgrade_adapters;
    summary->upgrade_jobs = facts->upgrade_jobs;
}

void jobs_gather_summary(const struct jobs_gather *gather, const struct run_facts *facts, struct jobs_summary *ret_summary)
{
    struct jobs_summary *summary = ret_summary;

    check(facts->jobs != NULL);
    memset(summary, 0, sizeof(*summary));
    summary->present = true;
    counts_fill(gather, summary);
    facts_fill(facts->jobs, summary);
    summary->days = (double)max_i64(0, facts->arrivals_end_ns - gather->warmup_ns) / (double)(24 * HOUR_NS);
    summary->gpu_hours_per_day = part_of(hours_of(gather->asked_gpu_ns), summary->days);
    summary->held_gpu_hours_per_day = part_of(hours_of(gather->held_gpu_ns), summary->days);
    summary->wait = span_of(&gather->wait, 1e9);
    summary->completion = span_of(&gather->completion, 1e9);
    summary->others_wait = span_of(&gather->others_wait, 1e9);
    summary->burst_wait = span_of(&gather->burst_wait, 1e9);
    summary->rho = span_of(&gather->rho_micro, (double)RHO_ONE);
    summary->within_2h = part_of((double)gather->within_2h, (double)summary->done);
    summary->lost_gpu_hours = hours_of(gather->lost_gpu_ns);
    summary->checkpoint_gpu_hours = hours_of(gather->checkpoint_gpu_ns);
    summary->load_gpu_hours = hours_of(gather->load_gpu_ns);
    classes_fill(gather->kinds, gather->kinds_count, summary->kinds);
    summary->kinds_count = gather->kinds_count;
    classes_fill(&gather->evaluations, 1, &summary->evaluations);
    classes_fill(gather->sizes, JOBS_SUMMARY_SIZES, summary->sizes);
    fairness_fill(gather, summary);
    money_fill(gather, facts, summary);
}

uint32_t jobs_gather_tenants_count(const struct jobs_gather *gather)
{
    return gather->tenants_count;
}

const struct job_tenant_totals *jobs_gather_tenant(const struct jobs_gather *gather, uint32_t tenant)
{
    check(tenant < gather->tenants_count);
    return &gather->tenants[tenant];
}

int64_t jobs_account_nano(const struct jobs_summary *jobs, uint32_t account)
{
    int64_t sum_nano = 0;

    check(account <= jobs->tenants_count);
    for (uint32_t component = 0; component < CHARGE_COUNT; component++)
        sum_nano += jobs->cost_nano[(size_t)account * CHARGE_COUNT + component];
    return sum_nano;
}

int64_t jobs_component_nano(const struct jobs_summary *jobs, uint32_t component)
{
    int64_t sum_nano = 0;

    check(component < CHARGE_COUNT);
    for (uint32_t account = 0; account <= jobs->tenants_count; account++)
        sum_nano += jobs->cost_nano[(size_t)account * CHARGE_COUNT + component];
    return sum_nano;
}
