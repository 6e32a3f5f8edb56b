/* One variant's stream: every row goes to the statistics (gather.c) and, when there is a file, to its columns. The lists
 * below are the file's layout. */
#include "results/results.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "replica/command.h"
#include "results/attributes.h"
#include "results/columns.h"
#include "results/file.h"
#include "results/gather.h"
#include "results/jobs_stream.h"
#include "results/numbers.h"
#include "results/words.h"

/* X(type, name, value of `row`, unit, about); the blame columns follow from BLAME_LIST. */
#define REQUEST_COLUMNS(X)                                                                                            \
    X(U64, ordinal, row->ordinal, "1", "number of the request, in order of arrival")                                  \
    X(I64, at_ns, row->at_ns, "ns", "arrival")                                                                        \
    X(I64, admitted_ns, row->admitted_ns, "ns", "first time in a batch; -1: never")                                   \
    X(I64, first_token_ns, row->first_token_ns, "ns", "first token out; -1: never")                                   \
    X(I64, done_ns, row->done_ns, "ns", "end, whatever it was; -1: unfinished")                                       \
    X(U32, adapter, row->adapter.index, "1", "index of the adapter; 0: the base itself")                              \
    X(U32, adapter_version, row->adapter.version, "1", "version of the adapter")                                      \
    X(U32, tenant, row->tenant, "1", "index of the customer")                                                         \
    X(U16, base, row->base, "1", "index of the base")                                                                 \
    X(U16, replica, row->replica, "1", "index of the replica; 65535: none")                                           \
    X(U16, rank, row->rank, "1", "of the adapter; 0: the base")                                                       \
    X(U8, tier, row->tier, "1", "where the adapter was found: an index into tier_names")                              \
    X(U8, status, row->status, "1", "an index into status_names")                                                     \
    X(U8, reason, row->reason, "1", "of a refusal: an index into reason_names")                                       \
    X(U32, prompt_tokens, row->prompt_tokens, "tokens", "of the prompt")                                              \
    X(U32, output_tokens, row->output_tokens, "tokens", "produced")                                                   \
    X(U32, recomputed_tokens, row->recomputed_tokens, "tokens", "computed again after a loss of KV blocks")           \
    X(U32, attempt, row->attempt, "1", "0, or the number of the client's retry")

/* X(type, name, unit, about); each is the field of the sample with that name. */
#define SAMPLE_COLUMNS(X)                                                                       \
    X(I64, at_ns, "ns", "end of the interval")                                                  \
    X(U32, replica, "1", "index of the replica")                                                \
    X(U32, waiting, "requests", "not in the batch")                                             \
    X(U32, running, "requests", "in the batch")                                                 \
    X(U32, loading, "adapters", "on their way to a GPU slot")                                   \
    X(F32, kv_share, "1", "used part of the KV pool")                                           \
    X(F32, slots_share, "1", "used part of the GPU slots")                                      \
    X(F32, slots_pinned_share, "1", "part of the GPU slots that requests in the batch hold")    \
    X(F32, busy_share, "1", "part of the interval in which a step was running")                 \
    X(U64, output_tokens, "tokens", "produced in the interval")                                 \
    X(U64, prefill_tokens, "tokens", "of prompts, computed in the interval")                    \
    X(U64, loads, "adapters", "that arrived in a GPU slot in the interval")                     \
    X(U64, hits, "1", "of the GPU slots in the interval")                                       \
    X(U64, misses, "1", "of the GPU slots in the interval")

/* X(type, name, value from `tenant`, unit, about). */
#define TENANT_COLUMNS(X)                                                                                      \
    X(U32, tenant, index, "1", "index of the customer; those without a measured request are left out")         \
    X(U64, requests, totals->requests, "requests", "that arrived after the warm-up")                           \
    X(U64, completed, totals->completed, "requests", "of these")                                               \
    X(U64, prompt_tokens, totals->prompt_tokens, "tokens", "of completed requests")                            \
    X(U64, output_tokens, totals->output_tokens, "tokens", "of completed requests")                            \
    X(I64, ttft_mean_ns, mean_ns(totals->ttft_ns, totals->completed), "ns", "time to first token; -1: none")   \
    X(I64, e2e_mean_ns, mean_ns(totals->e2e_ns, totals->completed), "ns", "end to end; -1: none")

enum request_column {
#define X(type, name, value, unit, about) REQUEST_COLUMN_##name,
    REQUEST_COLUMNS(X)
#undef X
    REQUEST_COLUMN_BLAME, /* the first of BLAME_COUNT */
    REQUEST_COLUMN_COUNT = REQUEST_COLUMN_BLAME + BLAME_COUNT
};
enum sample_column {
#define X(type, name, unit, about) SAMPLE_COLUMN_##name,
    SAMPLE_COLUMNS(X)
#undef X
    SAMPLE_COLUMN_COUNT
};
enum tenant_column {
#define X(type, name, value, unit, about) TENANT_COLUMN_##name,
    TENANT_COLUMNS(X)
#undef X
    TENANT_COLUMN_COUNT
};

static const struct column request_columns[] = {
#define X(type, name, value, unit, about) {COLUMN_##type, #name, unit, about},
    REQUEST_COLUMNS(X)
#undef X
#define X(name, word, about) {COLUMN_I64, "blame_" word "_ns", "ns", about},
    BLAME_LIST(X)
#undef X
};
static const struct column sample_columns[] = {
#define X(type, name, unit, about) {COLUMN_##type, #name, unit, about},
    SAMPLE_COLUMNS(X)
#undef X
};
static const struct column tenant_columns[] = {
#define X(type, name, value, unit, about) {COLUMN_##type, #name, unit, about},
    TENANT_COLUMNS(X)
#undef X
};

struct results {
    struct results_file *file; /* NULL: summary only */
    hid_t group;               /* of the variant */
    struct columns *requests;
    struct columns *samples;
    struct gather *gather;
    struct jobs_stream *jobs;  /* NULL: the scenario has none */
};

/* "done,refused,...": an attribute that explains a column of indexes. */
static bool names_write(hid_t group, const char *attribute, const char *(*word)(uint32_t), uint32_t count)
{
    char names[512] = "";

    for (uint32_t i = 0; i < count; i++) {
        check(strlen(names) + strlen(word(i)) + 2 <= sizeof(names));
        strcat(names, i > 0 ? "," : "");
        strcat(names, word(i));
    }
    return attribute_text(group, attribute, names);
}

static const char *tier_word(uint32_t tier)
{
    static const char *const words[TIER_COUNT] = {
#define X(name, text) text,
        TIER_LIST(X)
#undef X
    };
    return words[tier];
}

static struct columns *table_open(hid_t variant, const char *name, const struct column *table, uint32_t count,
                                  bool explain_indexes)
{
    struct columns *columns = NULL;
    hid_t group = results_group_create(variant, name);

    if (group < 0)
        return NULL;
    if (!explain_indexes || (names_write(group, "tier_names", tier_word, TIER_COUNT) &&
                             names_write(group, "status_names", request_status_word, REQUEST_UNFINISHED + 1) &&
                             names_write(group, "reason_names", refuse_word, REFUSE_COUNT)))
        columns = columns_open(group, table, count);
    H5Gclose(group);
    return columns;
}

enum status results_open(struct results_file *file, const struct scenario *scenario, uint32_t replicas_count,
                         uint32_t tenants_count, struct results **ret_results)
{
    struct results *results = calloc(1, sizeof(*results));
    char name[VARIANT_NAME_MAX];

    check(results != NULL);
    results->file = file;
    results->group = H5I_INVALID_HID;
    if (file != NULL) {
        results_group_name(scenario->variant, name, sizeof(name));
        results->group = results_group_create(file->variants, name);
        if (results->group < 0 || !attribute_text(results->group, "name", scenario->variant) ||
            !attribute_f64(results->group, "slo_ttft_ms", scenario->slo.ttft_ms) ||
            !attribute_f64(results->group, "slo_tpot_ms", scenario->slo.tpot_ms) ||
            !attribute_f64(results->group, "slo_e2e_s", scenario->slo.e2e_s))
            goto fail;
        results->requests = table_open(results->group, "requests", request_columns, REQUEST_COLUMN_COUNT, true);
        if (results->requests == NULL)
            goto fail;
        results->samples = table_open(results->group, "replicas", sample_columns, SAMPLE_COLUMN_COUNT, false);
        if (results->samples == NULL)
            goto fail;
    }
    if (scenario->jobs.source != KEY_JOBS_NONE) {
        results->jobs = jobs_stream_open(file, results->group, scenario);
        if (results->jobs == NULL)
            goto fail;
    }
    if (file != NULL)
        file->open_count++;
    results->gather = gather_create(scenario, replicas_count, tenants_count);
    *ret_results = results;
    return STATUS_OK;

fail:
    results_file_fail(file, "the tables of a variant");
    columns_close(results->requests);
    columns_close(results->samples);
    if (results->group >= 0)
        H5Gclose(results->group);
    free(results);
    return STATUS_IO;
}

struct jobs_stream *results_jobs_stream(struct results *results)
{
    return results->jobs;
}

static bool writes(const struct results *results)
{
    return results->file != NULL && !results->file->failed;
}

void results_request(struct results *results, const struct request_row *row)
{
    struct columns *columns = results->requests;

    gather_request(results->gather, row);
    if (!writes(results))
        return;
#define X(type, name, value, unit, about)                                                          \
    *(column_##type *)columns_cell(columns, REQUEST_COLUMN_##name) = value;
    REQUEST_COLUMNS(X)
#undef X
    for (uint32_t i = 0; i < BLAME_COUNT; i++)
        *(column_I64 *)columns_cell(columns, REQUEST_COLUMN_BLAME + i) = row->blame_ns[i];
    if (!columns_row_end(columns))
        results_file_fail(results->file, "requests");
}

void results_replica_gap(struct results *results, uint32_t replica, int64_t until_ns)
{
    gather_gap(results->gather, replica, until_ns);
}

void results_sample(struct results *results, const struct replica_sample *sample)
{
    struct columns *columns = results->samples;

    gather_sample(results->gather, sample);
    if (!writes(results))
        return;
#define X(type, name, unit, about) *(column_##type *)columns_cell(columns, SAMPLE_COLUMN_##name) = sample->name;
    SAMPLE_COLUMNS(X)
#undef X
    if (!columns_row_end(columns))
        results_file_fail(results->file, "samples");
}

static int64_t mean_ns(uint128 sum_ns, uint64_t count)
{
    return count > 0 ? (int64_t)(sum_ns / count) : -1;
}

static void tenants_write(const struct results *results)
{
    struct columns *columns = table_open(results->group, "tenants", tenant_columns, TENANT_COLUMN_COUNT, false);
    bool written = columns != NULL;

    for (uint32_t index = 0; index < gather_tenants_count(results->gather) && written; index++) {
        const struct tenant_totals *totals = gather_tenant(results->gather, index);

        if (totals->requests == 0)
            continue;
#define X(type, name, value, unit, about) *(column_##type *)columns_cell(columns, TENANT_COLUMN_##name) = value;
        TENANT_COLUMNS(X)
#undef X
        written = columns_row_end(columns);
    }
    if (written && !columns_flush(columns))
        written = false;
    if (!written)
        results_file_fail(results->file, "tenants"); /* before the close, which forgets the reason */
    columns_close(columns);
}

static bool counters_write(const struct results *results, const struct run_facts *facts)
{
    const struct sample_totals sampled = gather_sample_totals(results->gather);
    hid_t group = results_group_create(results->group, "counters");
    bool written = group >= 0;

    written = written && attribute_u64(group, "hits", sampled.hits) && attribute_u64(group, "misses", sampled.misses) &&
              attribute_u64(group, "loads", sampled.loads);
#define X(field) written = written && attribute_u64(group, #field, facts->field);
    FACT_NUMBERS(X)
#undef X
    if (group >= 0)
        H5Gclose(group);
    return written;
}

/* NaN where a percentile would describe an unstable run. */
static bool latencies_write(hid_t group, const struct summary *summary)
{
    static const char *const classes[CLASS_COUNT] = {
#define X(name, word) word,
        CLASS_LIST(X)
#undef X
    };
    static const char *const metrics[METRIC_COUNT] = {
#define X(name, word) word,
        METRIC_LIST(X)
#undef X
    };
    char name[64];
    bool written = true;

    for (uint32_t class = 0; class < CLASS_COUNT && written; class++)
        for (uint32_t metric = 0; metric < METRIC_COUNT && written; metric++) {
            const struct latency *latency = &summary->latency[class][metric];
            const bool known = latency->count > 0 && !summary->saturated;

#define X(quantile, field)                                                                                   \
    snprintf(name, sizeof(name), "%s_%s_" quantile "_ms", metrics[metric], classes[class]);                  \
    written = written && attribute_f64(group, name, known ? ms_of((double)latency->field) : NAN);
            QUANTILE_LIST(X)
#undef X
        }
    for (uint32_t class = 0; class < CLASS_COUNT && written; class++) {
        snprintf(name, sizeof(name), "e2e_over_base_%s", classes[class]);
        written = attribute_f64(group, name, summary->e2e_over_base[class]);
        snprintf(name, sizeof(name), "ttft_over_base_%s", classes[class]);
        written = written && attribute_f64(group, name, summary->ttft_over_base[class]);
    }
    return written;
}

/* How long the run took is not written: equal runs leave equal files. */
static bool summary_write(hid_t group, const struct summary *summary)
{
    const struct run_facts *facts = &summary->facts;
    char digest[DIGEST_TEXT_BYTES];
    bool written;

    snprintf(digest, sizeof(digest), "%016" PRIx64, facts->digest);
    written = attribute_text(group, "digest", digest) && attribute_text(group, "notes", summary->notes) &&
              attribute_f64(group, "warmup_until_s", seconds_of(facts->warmup_until_ns)) &&
              attribute_f64(group, "arrivals_end_s", seconds_of(facts->arrivals_end_ns)) &&
              attribute_f64(group, "end_s", seconds_of(facts->end_ns)) &&
              attribute_f64(group, "measured_s", summary->measured_s) &&
              attribute_u8(group, "saturated", summary->saturated) && attribute_u8(group, "partial", facts->partial);
#define X(kind, field) written = written && WRITE_##kind(group, #field, summary->field);
#define WRITE_COUNT attribute_u64
#define WRITE_REAL attribute_f64
    SUMMARY_NUMBERS(X)
#undef WRITE_REAL
#undef WRITE_COUNT
#undef X
    if (facts->serving.known)
        written = written && attribute_u64(group, "cost_serving_nano", (uint64_t)facts->serving.total_nano);
    return written && latencies_write(group, summary);
}

void summary_free(struct summary *summary)
{
    struct jobs_summary *jobs = &summary->jobs;

    for (uint32_t i = 0; jobs->tenant_names != NULL && i < jobs->tenants_count; i++)
        free(jobs->tenant_names[i]);
    free(jobs->tenant_names);
    free(jobs->cost_nano);
    jobs->tenant_names = NULL;
    jobs->cost_nano = NULL;
}

enum status results_close(struct results *results, const struct run_facts *facts, struct summary *ret_summary,
                          FILE *errors)
{
    struct results_file *file = results->file;
    enum status status = STATUS_OK;

    check((facts->jobs != NULL) == (results->jobs != NULL));
    gather_summary(results->gather, facts, ret_summary);
    if (results->jobs != NULL) {
        jobs_stream_end(results->jobs, facts, &ret_summary->jobs);
        jobs_stream_close(results->jobs);
    }
    if (file != NULL) {
        if (writes(results) && !columns_flush(results->requests))
            results_file_fail(file, "requests");
        if (writes(results) && !columns_flush(results->samples))
            results_file_fail(file, "samples");
        columns_close(results->requests);
        columns_close(results->samples);
        if (writes(results))
            tenants_write(results);
        if (writes(results) && !(counters_write(results, facts) && summary_write(results->group, ret_summary)))
            results_file_fail(file, "the summary of a variant");
        if (H5Gclose(results->group) < 0)
            results_file_fail(file, "a variant");
        file->open_count--;
        results_file_report(file, errors);
        status = file->failed ? STATUS_IO : STATUS_OK;
    }
    gather_free(results->gather);
    free(results);
    return status;
}
