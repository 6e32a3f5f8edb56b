#include "sim/report/synthetic.h"

#include <hdf5.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "results/results.h"
#include "support.h"

#define REPLICAS 4
#define TENANTS 50
#define SAMPLE_S 2
#define SAMPLES ((SYNTHETIC_END_S / SAMPLE_S + 20) * REPLICAS)

struct columns {
    int64_t *at_ns, *first_token_ns, *done_ns, *status, *tier, *tenant;
};

static double normal(uint64_t *random)
{
    return sqrt(-2 * log(draw_unit(random))) * cos(2 * 3.14159265358979 * draw_unit(random));
}

static void text_attribute(hid_t object, const char *name, const char *text)
{
    hid_t type = H5Tcopy(H5T_C_S1);
    hid_t space = H5Screate(H5S_SCALAR);

    H5Tset_size(type, H5T_VARIABLE);
    H5Tset_cset(type, H5T_CSET_UTF8);
    hid_t attribute = H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);

    assert_true(H5Awrite(attribute, type, &text) >= 0);
    H5Aclose(attribute);
    H5Sclose(space);
    H5Tclose(type);
}

static void real_attribute(hid_t object, const char *name, double value)
{
    hid_t space = H5Screate(H5S_SCALAR);
    hid_t attribute = H5Acreate2(object, name, H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT);

    assert_true(H5Awrite(attribute, H5T_NATIVE_DOUBLE, &value) >= 0);
    H5Aclose(attribute);
    H5Sclose(space);
}

static void column(hid_t group, const char *name, hid_t file_type, hid_t memory_type, uint64_t rows, const void *values)
{
    hsize_t extent[1] = {rows};
    hid_t space = H5Screate_simple(1, extent, NULL);
    hid_t dataset = H5Dcreate2(group, name, file_type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);

    assert_true(dataset >= 0);
    assert_true(rows == 0 || H5Dwrite(dataset, memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
    H5Dclose(dataset);
    H5Sclose(space);
}

static void integers(hid_t group, const char *name, hid_t file_type, uint64_t rows, const int64_t *values)
{
    column(group, name, file_type, H5T_NATIVE_INT64, rows, values);
}

static void latency_of(const struct histogram *histogram, struct latency *ret_latency)
{
    *ret_latency = (struct latency){
        .count = histogram->count,
        .mean_ns = histogram_mean(histogram),
        .p50_ns = histogram_quantile(histogram, 0.5),
        .p90_ns = histogram_quantile(histogram, 0.9),
        .p99_ns = histogram_quantile(histogram, 0.99),
        .max_ns = histogram_quantile(histogram, 1),
    };
}

/* How long the line is at that moment. */
static double waiting_at(const struct synthetic_variant *variant, double at_s)
{
    double swing = 1 + 0.5 * sin(at_s / 130);

    return variant->load < 1 ? 6 * variant->load / (1 - variant->load) * swing : (variant->load - 1) * at_s * 4 + 12 * swing;
}

static void requests_make(const struct synthetic_variant *variant, uint64_t *random, struct columns *columns,
                          struct summary *summary)
{
    static const int64_t cold_ns[TIER_COUNT] = {0, 0, 9 * NS_PER_MS, 390 * NS_PER_MS};
    static const enum request_class class_of[TIER_COUNT] = {CLASS_BASE, CLASS_WARM, CLASS_HOST, CLASS_STORE};
    static struct histogram histograms[CLASS_COUNT][METRIC_COUNT];

    for (uint32_t class = 0; class < CLASS_COUNT; class++)
        for (uint32_t metric = 0; metric < METRIC_COUNT; metric++)
            histogram_init(&histograms[class][metric]);
    for (uint32_t i = 0; i < variant->requests; i++) {
        double at_s = SYNTHETIC_END_S * (i + draw_unit(random)) / variant->requests;
        double sort = draw_unit(random);
        enum tier tier = sort < 0.1 ? TIER_BASE
                         : draw_unit(random) < variant->hit_ratio ? TIER_GPU
                         : draw_unit(random) < 0.9 ? TIER_HOST : TIER_STORE;
        double wait_s = waiting_at(variant, at_s) * 0.004 * -log(draw_unit(random));
        double prefill_s = 0.03 * exp(0.6 * normal(random));
        double decode_s = 1.8 * exp(0.9 * normal(random));

        columns->at_ns[i] = (int64_t)(at_s * 1e9);
        columns->first_token_ns[i] = columns->at_ns[i] + (int64_t)((wait_s + prefill_s) * 1e9) + cold_ns[tier];
        columns->done_ns[i] = columns->first_token_ns[i] + (int64_t)(decode_s * 1e9);
        columns->status[i] = REQUEST_DONE;
        columns->tier[i] = (int64_t)tier;
        columns->tenant[i] = (int64_t)(TENANTS * pow(draw_unit(random), 2.5));
        if (at_s < SYNTHETIC_WARMUP_S)
            continue;
        summary->arrived++;
        summary->completed++;
        summary->tier_count[tier]++;
        for (uint32_t both = 0; both < 2; both++) {
            struct histogram *of = histograms[both == 0 ? CLASS_ALL : class_of[tier]];

            histogram_add(&of[METRIC_TTFT], columns->first_token_ns[i] - columns->at_ns[i]);
            histogram_add(&of[METRIC_E2E], columns->done_ns[i] - columns->at_ns[i]);
            histogram_add(&of[METRIC_TPOT], (int64_t)(16e6 * exp(0.1 * normal(random))));
        }
    }
    for (uint32_t class = 0; class < CLASS_COUNT; class++)
        for (uint32_t metric = 0; metric < METRIC_COUNT; metric++)
            latency_of(&histograms[class][metric], &summary->latency[class][metric]);
}

static void requests_write(hid_t variant, uint32_t rows, const struct columns *columns)
{
    hid_t group = H5Gcreate2(variant, "requests", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);

    integers(group, "at_ns", H5T_STD_I64LE, rows, columns->at_ns);
    integers(group, "first_token_ns", H5T_STD_I64LE, rows, columns->first_token_ns);
    integers(group, "done_ns", H5T_STD_I64LE, rows, columns->done_ns);
    integers(group, "status", H5T_STD_U8LE, rows, columns->status);
    integers(group, "tier", H5T_STD_U8LE, rows, columns->tier);
    integers(group, "tenant", H5T_STD_U32LE, rows, columns->tenant);
    H5Gclose(group);
}

static void replicas_write(hid_t variant, const struct synthetic_variant *plan, uint64_t *random)
{
    enum { AT, REPLICA, WAITING, RUNNING, LOADS, HITS, MISSES, INTEGERS };
    static const char *const names[INTEGERS] = {"at_ns", "replica", "waiting", "running", "loads", "hits", "misses"};
    static int64_t values[INTEGERS][SAMPLES];
    static float kv_share[SAMPLES], slots_share[SAMPLES];
    uint32_t rows = plan->requests > 0 ? SAMPLES : 0;
    hid_t group = H5Gcreate2(variant, "replicas", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);

    for (uint32_t i = 0; i < rows; i++) {
        double at_s = (i / REPLICAS + 1) * SAMPLE_S;
        double fading = at_s > SYNTHETIC_END_S ? exp(-(at_s - SYNTHETIC_END_S) / 10) : 1;
        double warming = 1 - exp(-at_s / 60);
        double lookups = fading * 40 * (0.7 + 0.6 * draw_unit(random));
        double hits = lookups * plan->hit_ratio * warming;

        values[AT][i] = (int64_t)(at_s * 1e9);
        values[REPLICA][i] = i % REPLICAS;
        values[WAITING][i] = (int64_t)(fading * waiting_at(plan, at_s) / REPLICAS * (0.6 + 0.8 * draw_unit(random)));
        values[RUNNING][i] = (int64_t)(fading * 48 * fmin(plan->load, 1) * (0.8 + 0.4 * draw_unit(random)));
        values[HITS][i] = (int64_t)hits;
        values[MISSES][i] = (int64_t)(lookups - hits);
        values[LOADS][i] = (int64_t)((lookups - hits) * 0.9);
        kv_share[i] = (float)fmin(1, fading * plan->load * (0.6 + 0.25 * draw_unit(random)));
        slots_share[i] = (float)fmin(1, warming * (0.9 + 0.1 * draw_unit(random)));
    }
    for (uint32_t c = 0; c < INTEGERS; c++)
        integers(group, names[c], H5T_STD_U64LE, rows, values[c]);
    column(group, "kv_share", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, rows, kv_share);
    column(group, "slots_share", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, rows, slots_share);
    H5Gclose(group);
}

static void tenants_write(hid_t variant, uint32_t requests_count, const struct columns *columns)
{
    int64_t requests[TENANTS] = {0}, e2e_ns[TENANTS] = {0};
    uint32_t rows = requests_count > 0 ? TENANTS : 0;
    hid_t group = H5Gcreate2(variant, "tenants", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);

    for (uint32_t i = 0; i < requests_count; i++) {
        requests[columns->tenant[i]]++;
        e2e_ns[columns->tenant[i]] += columns->done_ns[i] - columns->at_ns[i];
    }
    for (uint32_t i = 0; i < rows; i++)
        e2e_ns[i] /= requests[i] > 0 ? requests[i] : 1;
    integers(group, "requests", H5T_STD_U64LE, rows, requests);
    integers(group, "completed", H5T_STD_U64LE, rows, requests);
    integers(group, "e2e_mean_ns", H5T_STD_I64LE, rows, e2e_ns);
    H5Gclose(group);
}

static void blame_make(struct summary *summary)
{
    static const char *const labels[BLAME_BANDS] = {"all", "p50", "p90", "p99"};
    const struct latency *latency = &summary->latency[CLASS_ALL][METRIC_E2E];
    const double total_ns[BLAME_BANDS] = {latency->mean_ns, (double)latency->p50_ns, (double)latency->p90_ns,
                                          (double)latency->p99_ns};
    static const double parts[BLAME_COUNT] = {0.08, 0.01, 0.03, 0.005, 0.015, 0.05, 0.11, 0.68, 0.02};

    for (uint32_t band = 0; band < BLAME_BANDS; band++) {
        snprintf(summary->blame[band].label, sizeof(summary->blame[band].label), "%s", labels[band]);
        summary->blame[band].count = latency->count;
        for (uint32_t i = 0; i < BLAME_COUNT; i++)
            summary->blame[band].mean_ns[i] = total_ns[band] * parts[i];
        /* The slower the request, the more of it is waiting. */
        summary->blame[band].mean_ns[BLAME_QUEUE] += band * 0.05 * total_ns[band];
        summary->blame[band].mean_ns[BLAME_DECODE] -= band * 0.05 * total_ns[band];
    }
}

static void summary_make(const struct synthetic_variant *variant, uint64_t seed, struct summary *summary)
{
    uint64_t adapters = 0;

    snprintf(summary->name, sizeof(summary->name), "Synthetic conversations");
    snprintf(summary->variant, sizeof(summary->variant), "%s", variant->name);
    snprintf(summary->notes, sizeof(summary->notes),
             "The trace has no adapters: they were assigned by zipf, alpha 1, over 1,000 adapters.\nThe trace is made up.\n");
    summary->seed = seed;
    summary->measured_s = SYNTHETIC_END_S - SYNTHETIC_WARMUP_S;
    summary->good = summary->completed * 97 / 100;
    summary->goodput_per_s = (double)summary->good / summary->measured_s;
    summary->requests_per_s = (double)summary->completed / summary->measured_s;
    summary->output_tokens_per_s = summary->requests_per_s * 180;
    summary->total_tokens_per_s = summary->requests_per_s * 900;
    for (uint32_t class = 0; class < CLASS_COUNT; class++) {
        bool enough = summary->latency[class][METRIC_E2E].count >= 100 && summary->latency[CLASS_BASE][METRIC_E2E].count >= 100;

        for (uint32_t metric = 0; metric < METRIC_COUNT; metric++) {
            double ratio = enough ? (double)summary->latency[class][metric].p50_ns /
                                        (double)summary->latency[CLASS_BASE][metric].p50_ns : NAN;

            *(metric == METRIC_TTFT ? &summary->ttft_over_base[class] : &summary->e2e_over_base[class]) = ratio;
        }
    }
    blame_make(summary);
    for (uint32_t tier = TIER_GPU; tier < TIER_COUNT; tier++)
        adapters += summary->tier_count[tier];
    summary->gpu_hit_ratio = adapters > 0 ? (double)summary->tier_count[TIER_GPU] / (double)adapters : NAN;
    summary->loads_per_s = 70 * (1 - variant->hit_ratio);
    summary->kv_share_mean = 0.72 * fmin(variant->load, 1);
    summary->kv_share_max = fmin(0.9 * variant->load, 1);
    summary->slots_pinned_share_mean = 0.22;
    summary->gpu_busy_share = fmin(variant->load, 1);
    summary->waiting_mean = waiting_at(variant, SYNTHETIC_END_S / 2);
    summary->waiting_max = waiting_at(variant, SYNTHETIC_END_S) * 2;
    summary->jain = 0.93;
    summary->tenants_served = TENANTS;
    summary->saturated = variant->load >= 1;
    summary->rho = variant->load;
    summary->backlog_slope_per_s = summary->saturated ? 3.2 : 0;
    summary->facts = (struct run_facts){
        .warmup_until_ns = SYNTHETIC_WARMUP_S * NS_PER_S,
        .arrivals_end_ns = SYNTHETIC_END_S * NS_PER_S,
        .end_ns = (SYNTHETIC_END_S + 40) * NS_PER_S,
        .events = 1234567,
        .engine_steps = 987654,
        .runs = 456789,
        .digest = UINT64_C(0x0123456789abcdef) + (uint64_t)(variant->hit_ratio * 1e6),
        .wall_s = 0.42,
        .gpus = REPLICAS,
        .kv_tokens_per_replica = 412345,
        .slots_capacity = 12000000000,
        .node_hits = 4321,
        .node_misses = 321,
        .evictions = 4000,
        .route_home = 17000,
        .route_overflow = 700,
        .little_area_ns = 42,
        .little_sum_ns = 42,
    };
}

void synthetic_write(const char *path, const char *scenario_text, uint64_t seed, const struct synthetic_variant *variants,
                     uint32_t count, struct summary *ret_summaries)
{
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hid_t all = H5Gcreate2(file, "variants", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);

    assert_true(file >= 0);
    text_attribute(file, "format", "berth-results-1");
    text_attribute(file, "berth_version", "0.1.0-synthetic");
    text_attribute(file, "scenario", scenario_text);
    for (uint32_t v = 0; v < count; v++) {
        uint64_t random = seed;
        size_t bytes = (variants[v].requests + 1) * sizeof(int64_t);
        struct columns columns = {malloc(bytes), malloc(bytes), malloc(bytes), malloc(bytes), malloc(bytes), malloc(bytes)};
        hid_t variant = H5Gcreate2(all, variants[v].name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);

        assert_true(variant >= 0);
        ret_summaries[v] = (struct summary){0};
        real_attribute(variant, "slo_ttft_ms", 1000);
        requests_make(&variants[v], &random, &columns, &ret_summaries[v]);
        summary_make(&variants[v], seed, &ret_summaries[v]);
        requests_write(variant, variants[v].requests, &columns);
        replicas_write(variant, &variants[v], &random);
        tenants_write(variant, variants[v].requests, &columns);
        free(columns.at_ns);
        free(columns.first_token_ns);
        free(columns.done_ns);
        free(columns.status);
        free(columns.tier);
        free(columns.tenant);
        H5Gclose(variant);
    }
    H5Gclose(all);
    assert_true(H5Fclose(file) >= 0);
}
