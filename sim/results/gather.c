#include "results/gather.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "results/jobs.h"
#include "results/saturation.h"

/* Blame is summed by latency, 32 steps an octave, so that the composition of any percentile's neighbourhood can be
 * told at the end. */
#define BLAME_STEP_BITS 1
#define BLAME_STEPS (HISTOGRAM_BUCKETS >> BLAME_STEP_BITS)
struct blame_step {
    uint64_t count;
    uint128 sum_ns[BLAME_COUNT];
};

struct gather {
    /* From the scenario. */
    char name[sizeof(((struct summary *)0)->name)];
    char variant[sizeof(((struct summary *)0)->variant)];
    uint64_t seed;
    int64_t warmup_ns;
    uint64_t warmup_requests;
    bool without_requests;
    int64_t slo_ttft_ns; /* 0: no part of the objective */
    int64_t slo_tpot_ns;
    int64_t slo_e2e_ns;
    /* Of measured requests. */
    uint64_t arrived;
    uint64_t by_status[REQUEST_UNFINISHED + 1];
    uint64_t by_reason[REASONS_MAX];
    struct refusal refusal_worst[REASONS_MAX];
    uint64_t tier_count[TIER_COUNT];
    uint64_t good;
    uint64_t preempted_requests;
    uint64_t recomputed_tokens;
    uint64_t merged_requests;
    struct histogram histograms[CLASS_COUNT][METRIC_COUNT]; /* ALL is merged at the end */
    struct blame_step blame[BLAME_STEPS];
    /* Of all. */
    struct flow_record flow;
    uint64_t tokens_served;
    struct sample_totals sampled;
    uint32_t replicas_count;
    uint32_t tenants_count;
    int64_t *sampled_until_ns; /* [replicas_count] */
    struct tenant_totals *tenants; /* [tenants_count] */
};

static int64_t ns_of(double value, int64_t unit_ns)
{
    return (int64_t)(value * (double)unit_ns + 0.5);
}

struct gather *gather_create(const struct scenario *scenario, uint32_t replicas_count, uint32_t tenants_count)
{
    struct gather *gather = calloc(1, sizeof(*gather));

    check(gather != NULL);
    snprintf(gather->name, sizeof(gather->name), "%.*s", (int)sizeof(gather->name) - 1, scenario->name);
    snprintf(gather->variant, sizeof(gather->variant), "%.*s", (int)sizeof(gather->variant) - 1, scenario->variant);
    gather->seed = scenario->seed;
    gather->warmup_ns = ns_of(scenario->warmup_s, NS_PER_S);
    gather->warmup_requests = scenario->warmup_requests;
    gather->without_requests = scenario->workload.source == KEY_SOURCE_NONE;
    check(gather->without_requests || (replicas_count > 0 && tenants_count > 0));
    gather->slo_ttft_ns = ns_of(scenario->slo.ttft_ms, NS_PER_MS);
    gather->slo_tpot_ns = ns_of(scenario->slo.tpot_ms, NS_PER_MS);
    gather->slo_e2e_ns = ns_of(scenario->slo.e2e_s, NS_PER_S);
    for (uint32_t class = 0; class < CLASS_COUNT; class++)
        for (uint32_t metric = 0; metric < METRIC_COUNT; metric++)
            histogram_init(&gather->histograms[class][metric]);
    flow_init(&gather->flow, ns_of(scenario->duration_s, NS_PER_S));
    gather->replicas_count = replicas_count;
    gather->tenants_count = tenants_count;
    gather->sampled_until_ns = calloc(max_u32(replicas_count, 1), sizeof(*gather->sampled_until_ns));
    gather->tenants = calloc(max_u32(tenants_count, 1), sizeof(*gather->tenants));
    check(gather->sampled_until_ns != NULL && gather->tenants != NULL);
    return gather;
}

void gather_free(struct gather *gather)
{
    free(gather->sampled_until_ns);
    free(gather->tenants);
    free(gather);
}

static enum request_class class_of(uint8_t tier)
{
    static const enum request_class classes[TIER_COUNT] = {
        [TIER_BASE] = CLASS_BASE, [TIER_GPU] = CLASS_WARM, [TIER_HOST] = CLASS_HOST, [TIER_STORE] = CLASS_STORE};

    check(tier < TIER_COUNT);
    return classes[tier];
}

static void row_check(const struct gather *gather, const struct request_row *row)
{
    int64_t blamed_ns = 0;

    check(row->at_ns >= 0);
    check(row->tenant < gather->tenants_count);
    check(row->status <= REQUEST_UNFINISHED);
    check(row->status == REQUEST_UNFINISHED ? row->done_ns == -1 : row->done_ns >= row->at_ns);
    if (row->status == REQUEST_REFUSED)
        check(row->reason < REASONS_MAX);
    if (row->status != REQUEST_DONE)
        return;
    check(row->first_token_ns >= row->at_ns);
    check(row->done_ns >= row->first_token_ns);
    check(row->output_tokens > 0);
    for (uint32_t i = 0; i < BLAME_COUNT; i++) {
        check(row->blame_ns[i] >= 0);
        blamed_ns += row->blame_ns[i];
    }
    check(blamed_ns == row->done_ns - row->at_ns);
}

/* Arrivals past the scenario's duration cannot be; ends can, and are nobody's business then. */
static void flow_add(struct flow_record *flow, const struct request_row *row)
{
    struct flow_sum *arrival = flow_at(flow, row->at_ns);
    struct flow_sum *end;

    check(arrival != NULL);
    arrival->of[FLOW_ARRIVED] += 1;
    if (row->status != REQUEST_REFUSED)
        arrival->of[FLOW_OFFERED] += 1;
    if (row->status == REQUEST_DONE)
        arrival->of[FLOW_OFFERED_TOKENS] += (double)row->prompt_tokens + (double)row->output_tokens;
    else if (row->status != REQUEST_REFUSED)
        arrival->of[FLOW_OFFERED_UNKNOWN] += 1;
    if (row->status == REQUEST_DONE || row->status == REQUEST_TIMEOUT) {
        arrival->of[FLOW_SOJOURN_NS] += (double)(row->done_ns - row->at_ns);
        arrival->of[FLOW_SOJOURNS] += 1;
    }
    if (row->status == REQUEST_UNFINISHED) {
        arrival->of[FLOW_UNFINISHED] += 1;
        return;
    }
    end = flow_at(flow, row->done_ns); /* may fold: `arrival` is not to be used after this */
    if (end == NULL)
        return;
    end->of[FLOW_DEPARTED] += 1;
    if (row->status != REQUEST_DONE)
        return;
    end->of[FLOW_SERVED] += 1;
    end->of[FLOW_SERVED_PROMPT_TOKENS] += (double)row->prompt_tokens;
    end->of[FLOW_SERVED_OUTPUT_TOKENS] += (double)row->output_tokens;
}

static void blame_add(struct gather *gather, const struct request_row *row)
{
    struct blame_step *step =
        &gather->blame[histogram_bucket((uint64_t)(row->done_ns - row->at_ns)) >> BLAME_STEP_BITS];

    step->count++;
    for (uint32_t i = 0; i < BLAME_COUNT; i++)
        step->sum_ns[i] += (uint64_t)row->blame_ns[i];
}

static void completed_add(struct gather *gather, const struct request_row *row)
{
    struct histogram *histograms = gather->histograms[class_of(row->tier)];
    struct tenant_totals *tenant = &gather->tenants[row->tenant];
    const int64_t ttft_ns = row->first_token_ns - row->at_ns;
    const int64_t e2e_ns = row->done_ns - row->at_ns;
    int64_t tpot_ns = 0;

    if (row->output_tokens > 1) {
        tpot_ns = (row->done_ns - row->first_token_ns) / (row->output_tokens - 1);
        histogram_add(&histograms[METRIC_TPOT], tpot_ns);
    }
    histogram_add(&histograms[METRIC_TTFT], ttft_ns);
    histogram_add(&histograms[METRIC_E2E], e2e_ns);
    blame_add(gather, row);
    gather->tier_count[row->tier]++;
    gather->preempted_requests += row->recomputed_tokens > 0;
    gather->recomputed_tokens += row->recomputed_tokens;
    gather->merged_requests += row->merged;
    gather->good += (gather->slo_ttft_ns == 0 || ttft_ns <= gather->slo_ttft_ns) &&
                    (gather->slo_tpot_ns == 0 || tpot_ns <= gather->slo_tpot_ns) &&
                    (gather->slo_e2e_ns == 0 || e2e_ns <= gather->slo_e2e_ns);
    tenant->completed++;
    tenant->prompt_tokens += row->prompt_tokens;
    tenant->output_tokens += row->output_tokens;
    tenant->ttft_ns += (uint64_t)ttft_ns;
    tenant->e2e_ns += (uint64_t)e2e_ns;
}

static void refusal_add(struct gather *gather, const struct request_row *row)
{
    struct refusal *worst = &gather->refusal_worst[row->reason];

    gather->by_reason[row->reason]++;
    if (row->refuse_need > worst->need)
        *worst = (struct refusal){row->refuse_need, row->refuse_have};
}

void gather_request(struct gather *gather, const struct request_row *row)
{
    row_check(gather, row);
    flow_add(&gather->flow, row);
    if (row->status == REQUEST_DONE)
        gather->tokens_served += (uint64_t)row->prompt_tokens + row->output_tokens;
    /* Requests are numbered by arrival, so this is the later of the two ends of the warm-up. */
    if (row->at_ns < gather->warmup_ns || row->ordinal < gather->warmup_requests)
        return;
    gather->arrived++;
    gather->by_status[row->status]++;
    gather->tenants[row->tenant].requests++;
    if (row->status == REQUEST_REFUSED)
        refusal_add(gather, row);
    if (row->status == REQUEST_DONE)
        completed_add(gather, row);
}

void gather_gap(struct gather *gather, uint32_t replica, int64_t until_ns)
{
    check(replica < gather->replicas_count);
    check(until_ns >= gather->sampled_until_ns[replica]);
    gather->sampled_until_ns[replica] = until_ns;
}

void gather_sample(struct gather *gather, const struct replica_sample *sample)
{
    int64_t *until_ns;
    int64_t interval_ns;
    struct flow_sum *bin;

    check(sample->replica < gather->replicas_count);
    until_ns = &gather->sampled_until_ns[sample->replica];
    interval_ns = sample->at_ns - *until_ns;
    check(interval_ns >= 0);
    /* An interval is counted where its middle lies: what the edges of a window cut off and let in evens out. */
    bin = flow_at(&gather->flow, *until_ns + interval_ns / 2);
    *until_ns = sample->at_ns;
    gather->sampled.hits += sample->hits;
    gather->sampled.misses += sample->misses;
    gather->sampled.loads += sample->loads;
    if (bin == NULL)
        return;
    bin->of[FLOW_SAMPLED_NS] += (double)interval_ns;
    bin->of[FLOW_KV_SHARE_NS] += (double)sample->kv_share * (double)interval_ns;
    bin->of[FLOW_SLOTS_PINNED_NS] += (double)sample->slots_pinned_share * (double)interval_ns;
    bin->of[FLOW_WAITING_NS] += (double)sample->waiting * (double)interval_ns;
    bin->of[FLOW_LOADS] += (double)sample->loads;
    if ((double)sample->kv_share > bin->kv_share_max)
        bin->kv_share_max = (double)sample->kv_share;
    if ((double)sample->waiting > bin->waiting_max)
        bin->waiting_max = (double)sample->waiting;
}

static struct latency latency_of(const struct histogram *histogram)
{
    return (struct latency){
        .count = histogram->count,
        .mean_ns = histogram_mean(histogram),
        .p50_ns = histogram_quantile(histogram, 0.5),
        .p90_ns = histogram_quantile(histogram, 0.9),
        .p99_ns = histogram_quantile(histogram, 0.99),
        .max_ns = (int64_t)histogram->max,
    };
}

static void latencies_fill(const struct gather *gather, struct summary *summary)
{
    for (uint32_t metric = 0; metric < METRIC_COUNT; metric++) {
        struct histogram all = gather->histograms[CLASS_ALL][metric];

        for (uint32_t class = 0; class < CLASS_COUNT; class++) {
            if (class == CLASS_ALL)
                continue;
            histogram_merge(&all, &gather->histograms[class][metric]);
            summary->latency[class][metric] = latency_of(&gather->histograms[class][metric]);
        }
        summary->latency[CLASS_ALL][metric] = latency_of(&all);
    }
}

static double over_base(const struct summary *summary, uint32_t class, enum metric metric)
{
    const struct latency *base = &summary->latency[CLASS_BASE][metric];
    const struct latency *other = &summary->latency[class][metric];

    /* A median of an unstable run tells when it was stopped. */
    if (summary->saturated || base->count < RATIO_REQUESTS_MIN || other->count < RATIO_REQUESTS_MIN || base->p50_ns == 0)
        return NAN;
    return (double)other->p50_ns / (double)base->p50_ns;
}

/* The composition of the requests whose latency lies in the steps that hold the ranks from low to high. */
static struct blame_band band_of(const struct gather *gather, const char *label, double low, double high)
{
    struct blame_band band = {.count = 0};
    const double total = (double)gather->by_status[REQUEST_DONE];
    uint128 sum_ns[BLAME_COUNT] = {0};
    uint64_t before = 0;

    snprintf(band.label, sizeof(band.label), "%s", label);
    for (uint32_t i = 0; i < BLAME_STEPS; i++) {
        const struct blame_step *step = &gather->blame[i];

        if (step->count > 0 && (double)before < high * total && (double)(before + step->count) > low * total) {
            band.count += step->count;
            for (uint32_t part = 0; part < BLAME_COUNT; part++)
                sum_ns[part] += step->sum_ns[part];
        }
        before += step->count;
    }
    for (uint32_t part = 0; part < BLAME_COUNT && band.count > 0; part++)
        band.mean_ns[part] = (double)sum_ns[part] / (double)band.count;
    return band;
}

static void blame_fill(const struct gather *gather, struct summary *summary)
{
    summary->blame[0] = band_of(gather, "all", 0, 1);
    summary->blame[1] = band_of(gather, "p50", 0.45, 0.55);
    summary->blame[2] = band_of(gather, "p90", 0.85, 0.95);
    summary->blame[3] = band_of(gather, "p99", 0.985, 1);
}

/* Jain, Chiu, Hawe 1984: (sum x)^2 / (n sum x^2), x the output tokens a second of a tenant's requests in the system. */
static void fairness_fill(const struct gather *gather, struct summary *summary)
{
    double sum = 0;
    double squares = 0;

    for (uint32_t i = 0; i < gather->tenants_count; i++) {
        const struct tenant_totals *tenant = &gather->tenants[i];
        double speed;

        if (tenant->completed == 0 || tenant->e2e_ns == 0)
            continue;
        speed = (double)tenant->output_tokens / ((double)tenant->e2e_ns * 1e-9);
        sum += speed;
        squares += speed * speed;
        summary->tenants_served++;
    }
    summary->jain = squares > 0 ? sum * sum / ((double)summary->tenants_served * squares) : NAN;
}

static double part_of(double part, double whole)
{
    return whole > 0 ? part / whole : NAN;
}

static void rates_fill(const struct gather *gather, const struct flow_sum *sum, struct summary *summary)
{
    const double sampled_s = sum->of[FLOW_SAMPLED_NS] * 1e-9;
    const uint64_t adapter_requests = gather->tier_count[TIER_GPU] + gather->tier_count[TIER_HOST] +
                                      gather->tier_count[TIER_STORE];

    summary->goodput_per_s = part_of((double)summary->good, summary->measured_s);
    summary->requests_per_s = part_of(sum->of[FLOW_SERVED], summary->measured_s);
    summary->output_tokens_per_s = part_of(sum->of[FLOW_SERVED_OUTPUT_TOKENS], summary->measured_s);
    summary->total_tokens_per_s =
        part_of(sum->of[FLOW_SERVED_OUTPUT_TOKENS] + sum->of[FLOW_SERVED_PROMPT_TOKENS], summary->measured_s);
    summary->gpu_hit_ratio = part_of((double)gather->tier_count[TIER_GPU], (double)adapter_requests);
    summary->loads_per_s = part_of(sum->of[FLOW_LOADS], sampled_s / (double)gather->replicas_count);
    summary->kv_share_mean = part_of(sum->of[FLOW_KV_SHARE_NS], sum->of[FLOW_SAMPLED_NS]);
    summary->kv_share_max = sampled_s > 0 ? sum->kv_share_max : NAN;
    summary->slots_pinned_share_mean = part_of(sum->of[FLOW_SLOTS_PINNED_NS], sum->of[FLOW_SAMPLED_NS]);
    summary->waiting_mean = part_of(sum->of[FLOW_WAITING_NS], sum->of[FLOW_SAMPLED_NS]);
    summary->waiting_max = sampled_s > 0 ? sum->waiting_max : NAN;
    summary->gpu_busy_share =
        part_of(summary->facts.busy_ns * 1e-9, summary->facts.replica_up_ns > 0
                                                   ? summary->facts.replica_up_ns * 1e-9
                                                   : summary->measured_s * (double)gather->replicas_count);
}

static void counts_fill(const struct gather *gather, struct summary *summary)
{
    summary->arrived = gather->arrived;
    summary->completed = gather->by_status[REQUEST_DONE];
    summary->refused = gather->by_status[REQUEST_REFUSED];
    summary->overload = gather->by_status[REQUEST_OVERLOAD];
    summary->timeouts = gather->by_status[REQUEST_TIMEOUT];
    summary->unfinished = gather->by_status[REQUEST_UNFINISHED];
    memcpy(summary->by_reason, gather->by_reason, sizeof(summary->by_reason));
    memcpy(summary->refusal_worst, gather->refusal_worst, sizeof(summary->refusal_worst));
    memcpy(summary->tier_count, gather->tier_count, sizeof(summary->tier_count));
    summary->good = gather->good;
    summary->preempted_requests = gather->preempted_requests;
    summary->recomputed_tokens = gather->recomputed_tokens;
    summary->merged_requests = gather->merged_requests;
}

/* As the bill is of the whole run, so are the tokens. */
static void serving_fill(const struct gather *gather, struct summary *summary)
{
    const struct serving_bill *bill = &summary->facts.serving;
    int64_t sum_nano = 0;

    for (uint32_t component = 0; component < CHARGE_COUNT; component++)
        sum_nano += bill->cost_nano[component];
    check(sum_nano == bill->total_nano);
    summary->tokens_served = gather->tokens_served;
    summary->serving_cost_per_million_tokens =
        bill->known ? part_of((double)bill->total_nano / 1e9, (double)gather->tokens_served / 1e6) : NAN;
}

/* Adds whole lines; the last one that does not fit is left out with those after it. */
static void notes_add(const char *notes, char *notes_so_far, size_t bytes)
{
    const size_t used = strlen(notes_so_far);
    size_t length = strlen(notes);

    if (used + length >= bytes) {
        length = bytes - 1 - used;
        while (length > 0 && notes[length] != '\n')
            length--;
    }
    memcpy(notes_so_far + used, notes, length);
    notes_so_far[used + length] = '\0';
}

/* The source of requests may end its last line without a newline. */
static void notes_take(const struct run_facts *facts, struct summary *summary)
{
    const size_t bytes = sizeof(summary->notes);

    if (facts->notes != NULL)
        notes_add(facts->notes, summary->notes, bytes);
    if (facts->jobs == NULL || facts->jobs->notes == NULL || facts->jobs->notes[0] == '\0')
        return;
    if (summary->notes[0] != '\0' && summary->notes[strlen(summary->notes) - 1] != '\n')
        notes_add("\n", summary->notes, bytes);
    notes_add(facts->jobs->notes, summary->notes, bytes);
}

void gather_summary(const struct gather *gather, const struct run_facts *facts, struct summary *ret_summary)
{
    struct summary *summary = ret_summary;
    const int64_t from_ns = facts->warmup_until_ns;
    const int64_t until_ns = max_i64(from_ns, facts->arrivals_end_ns);
    struct flow_sum measured;
    struct saturation saturation;

    check(from_ns >= 0);
    memset(summary, 0, sizeof(*summary));
    memcpy(summary->name, gather->name, sizeof(summary->name));
    memcpy(summary->variant, gather->variant, sizeof(summary->variant));
    summary->seed = gather->seed;
    summary->facts = *facts;
    summary->without_requests = gather->without_requests;
    notes_take(facts, summary);
    summary->facts.notes = NULL; /* the sources', which may be gone by the time the summary is read */
    summary->facts.jobs = NULL;
    summary->measured_s = (double)(until_ns - from_ns) / 1e9;

    saturation = saturation_judge(&gather->flow, from_ns, until_ns, facts->end_ns);
    summary->saturated = saturation.saturated;
    summary->rho = saturation.rho;
    summary->backlog_slope_per_s = saturation.backlog_slope_per_s;

    counts_fill(gather, summary);
    latencies_fill(gather, summary);
    for (uint32_t class = 0; class < CLASS_COUNT; class++) {
        summary->e2e_over_base[class] = over_base(summary, class, METRIC_E2E);
        summary->ttft_over_base[class] = over_base(summary, class, METRIC_TTFT);
    }
    blame_fill(gather, summary);
    measured = flow_between(&gather->flow, from_ns, until_ns);
    rates_fill(gather, &measured, summary);
    serving_fill(gather, summary);
    fairness_fill(gather, summary);
}

uint32_t gather_tenants_count(const struct gather *gather)
{
    return gather->tenants_count;
}

const struct tenant_totals *gather_tenant(const struct gather *gather, uint32_t tenant)
{
    check(tenant < gather->tenants_count);
    return &gather->tenants[tenant];
}

struct sample_totals gather_sample_totals(const struct gather *gather)
{
    return gather->sampled;
}
