/* The tables of jobs in the results file. The lists below are their layout: a column is the field of its row with that
 * name, where the list says nothing else. */
#include "results/jobs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "results/attributes.h"
#include "results/columns.h"
#include "results/file.h"
#include "results/jobs_gather.h"
#include "results/jobs_stream.h"
#include "results/jobs_words.h"

/* X(type, name, unit, about) */
#define JOB_COLUMNS(X)                                                                                          \
    X(U64, ordinal, "1", "number of the job, in order of submission")                                           \
    X(I64, submitted_ns, "ns", "submitted")                                                                     \
    X(I64, started_ns, "ns", "computed first; -1: never")                                                       \
    X(I64, ended_ns, "ns", "end, whatever it was; -1: unfinished")                                              \
    X(I64, deadline_ns, "ns", "when it should be done; 0: no deadline")                                         \
    X(I64, size_ns, "ns", "what it would have taken alone on its GPUs, without stops")                          \
    X(I64, held_gpu_ns, "GPU ns", "of its claims, all attempts")                                                \
    X(I64, compute_gpu_ns, "GPU ns", "of these, computing")                                                     \
    X(I64, lost_gpu_ns, "GPU ns", "of computing, work that was done again")                                     \
    X(I64, checkpoint_gpu_ns, "GPU ns", "of its claims, writing checkpoints")                                   \
    X(I64, load_gpu_ns, "GPU ns", "of its claims, waiting for its base")                                        \
    X(U64, tokens, "tokens", "of all epochs; 0: unknown")                                                       \
    X(U64, refuse_need, "1", "of a refusal, in the unit of its reason's sentence")                              \
    X(U64, refuse_have, "1", "of a refusal: what there was")                                                    \
    X(U32, tenant, "1", "index of the customer")                                                                \
    X(U16, kind, "1", "index of its kind: kind_0, kind_1 ... are their names")                                  \
    X(U16, base, "1", "index of its base: base_0, base_1 ... are their names")                                  \
    X(U16, gpus, "GPUs", "all or nothing")                                                                      \
    X(U16, rank, "1", "of its adapter")                                                                         \
    X(I16, priority, "1", "higher goes first")                                                                  \
    X(U8, stage, "1", "an index into stage_names")                                                              \
    X(U8, isolation, "1", "an index into isolation_names")                                                      \
    X(U8, outcome, "1", "an index into outcome_names")                                                          \
    X(U8, reason, "1", "of a refusal: an index into reason_names")                                              \
    X(U8, base_hit, "1", "1: its first placement found its base")                                               \
    X(U8, deadline_missed, "1", "1: it had a deadline and was not done by then")                                \
    X(U8, follows, "1", "1: the evaluation of a training that ended; no job that somebody submitted")           \
    X(U32, attempts, "1", "placements")                                                                         \
    X(U32, reclaims, "1", "times it was stopped because its tenant had borrowed")                               \
    X(U32, preempts, "1", "times it was stopped for a job of higher priority")                                  \
    X(U32, notices, "1", "times it was stopped because its GPUs would be gone")                                 \
    X(U32, serving_stops, "1", "times it was stopped because serving needed its GPUs")                          \
    X(U32, losses, "1", "times its GPUs went from under it")

#define PLACEMENT_COLUMNS(X)                                                                \
    X(U64, job, "1", "ordinal of the job")                                                  \
    X(I64, from_ns, "ns", "claimed")                                                        \
    X(I64, started_ns, "ns", "computed first; -1: never")                                   \
    X(I64, until_ns, "ns", "released; -1: open when the run ended")                         \
    X(U32, tenant, "1", "index of the customer")                                            \
    X(U32, attempt, "1", "of the job, from 0")                                              \
    X(U16, node, "1", "index of the node")                                                  \
    X(U16, gpu_mask, "1", "bit i: its GPU i")                                               \
    X(U16, base, "1", "index of the base")                                                  \
    X(U16, flavor, "1", "index of the flavor: flavor_0, flavor_1 ... are their names")      \
    X(U16, slice, "1", "MIG: profile << 8 | first memory slice + 1; 0: none")               \
    X(U8, how, "1", "it ended: an index into how_names")                                    \
    X(U8, base_hit, "1", "1: the base was there")

#define RESIDENCY_COLUMNS(X)                                                                \
    X(I64, from_ns, "ns", "its load began")                                                 \
    X(I64, ready_ns, "ns", "loaded; -1: it never was")                                      \
    X(I64, until_ns, "ns", "dropped, or gone with the GPUs; -1: there when the run ended")  \
    X(U16, node, "1", "index of the node")                                                  \
    X(U16, gpu_mask, "1", "bit i: its GPU i")                                               \
    X(U16, base, "1", "index of the base")                                                  \
    X(U16, source, "1", "of the load: an index into source_names")

#define CAPACITY_COLUMNS(X)                                                                     \
    X(I64, at_ns, "ns", "the instant")                                                          \
    X(U32, flavor, "1", "index of the flavor")                                                  \
    X(U32, gpus, "GPUs", "up")                                                                  \
    X(U32, claimed, "GPUs", "with at least one claim")                                          \
    X(U32, pending, "jobs", "that wait, of all flavors")                                        \
    X(U32, running, "jobs", "with a claim, of all flavors")                                     \
    X(U32, pending_gpus, "GPUs", "that waiting jobs ask for, of all flavors")                   \
    X(F32, claimed_share, "1", "part of GPU time since the sample before that was allocated")   \
    X(F32, computing_share, "1", "part of GPU time since the sample before in which a job computed")

/* X(type, name, value, unit, about), of `index` and its `totals`. */
#define JOB_TENANT_COLUMNS(X)                                                                                           \
    X(U32, tenant, index, "1", "index of the customer; those without a measured job are left out")                      \
    X(U64, submitted, totals->submitted, "jobs", "after the warm-up")                                                   \
    X(U64, started, totals->started, "jobs", "of these, that computed")                                                 \
    X(U64, done, totals->done, "jobs", "of these")                                                                      \
    X(I64, wait_mean_ns, mean_ns(totals->wait_ns, totals->started), "ns", "submission to first computing; -1: none")    \
    X(I64, completion_mean_ns, mean_ns(totals->completion_ns, totals->done), "ns", "submission to done; -1: none")      \
    X(F32, rho_mean, rho_mean(totals), "1", "completion over size; NaN: none")                                          \
    X(I64, asked_gpu_ns, clamped(totals->asked_gpu_ns), "GPU ns", "sizes of jobs done")                                 \
    X(I64, held_gpu_ns, clamped(totals->held_gpu_ns), "GPU ns", "of claims")

/* X(type, name, value, unit, about), of an account and a component. */
#define LEDGER_COLUMNS(X)                                                                                \
    X(U32, tenant, tenant, "1", "index of the customer; 4294967295: the platform")                       \
    X(U8, component, component, "1", "an index into component_names")                                    \
    X(I64, amount_nano, amount_nano, "1e-9 currency units", "of the whole run; all together are the bill")

enum jobs_table { TABLE_JOBS, TABLE_PLACEMENTS, TABLE_RESIDENCY, TABLE_CAPACITY, TABLE_COUNT };

static const struct column job_columns[] = {
#define X(type, name, unit, about) {COLUMN_##type, #name, unit, about},
    JOB_COLUMNS(X)
};
static const struct column placement_columns[] = {PLACEMENT_COLUMNS(X)};
static const struct column residency_columns[] = {RESIDENCY_COLUMNS(X)};
static const struct column capacity_columns[] = {CAPACITY_COLUMNS(X)};
#undef X
static const struct column tenant_columns[] = {
#define X(type, name, value, unit, about) {COLUMN_##type, #name, unit, about},
    JOB_TENANT_COLUMNS(X)
};
static const struct column ledger_columns[] = {LEDGER_COLUMNS(X)};
#undef X

static const struct {
    const char *name;
    const struct column *columns;
    uint32_t count;
} tables[TABLE_COUNT] = {
    [TABLE_JOBS] = {"jobs", job_columns, ARRAY_COUNT(job_columns)},
    [TABLE_PLACEMENTS] = {"placements", placement_columns, ARRAY_COUNT(placement_columns)},
    [TABLE_RESIDENCY] = {"residency", residency_columns, ARRAY_COUNT(residency_columns)},
    [TABLE_CAPACITY] = {"capacity", capacity_columns, ARRAY_COUNT(capacity_columns)},
};

struct jobs_stream {
    struct results_file *file; /* NULL: statistics only */
    hid_t variant;
    struct columns *columns[TABLE_COUNT];
    struct jobs_gather *gather;
    int64_t sampled_until_ns[CAPACITY_MAX];
};

static const char *source_word(uint32_t source)
{
    static const char *const words[] = {"page cache", "disk", "object store"};

    return words[source];
}

/* "done,failed,...": an attribute that explains a column of indexes. */
static bool words_write(hid_t group, const char *attribute, const char *(*word)(uint32_t), uint32_t count)
{
    char words[512] = "";

    for (uint32_t i = 0; i < count; i++) {
        check(strlen(words) + strlen(word(i)) + 2 <= sizeof(words));
        strcat(words, i > 0 ? "," : "");
        strcat(words, word(i));
    }
    return attribute_text(group, attribute, words);
}

/* kind_0, kind_1, ...: a name is anybody's text, so each is an attribute of its own. */
static bool name_write(hid_t group, const char *what, uint32_t index, const char *name)
{
    char attribute[32];

    snprintf(attribute, sizeof(attribute), "%s_%u", what, index);
    return attribute_text(group, attribute, name);
}

static bool bases_write(hid_t group, const struct scenario *scenario)
{
    bool written[JOBS_SUMMARY_BASES] = {false};
    bool fine = true;

    for (uint32_t i = 0; i < scenario->pools_count + scenario->job_kinds_count && fine; i++) {
        const bool pool = i < scenario->pools_count;
        const struct scenario_job_kind *kind = pool ? NULL : &scenario->job_kinds[i - scenario->pools_count];
        const uint32_t base = pool ? scenario->pools[i].base_index : kind->base_index;

        check(base < JOBS_SUMMARY_BASES);
        if (!written[base])
            fine = name_write(group, "base", base, pool ? scenario->pools[i].keys.base : kind->keys.base);
        written[base] = true;
    }
    return fine;
}

static bool flavors_write(hid_t group, const struct scenario *scenario)
{
    bool fine = true;

    for (uint32_t i = 0; i < scenario->capacity_count && fine; i++)
        fine = name_write(group, "flavor", i, scenario->capacity[i].keys.name);
    return fine;
}

static bool jobs_explain(hid_t group, const struct scenario *scenario)
{
    bool fine = words_write(group, "outcome_names", job_outcome_word, JOB_OUTCOME_COUNT) &&
                words_write(group, "stage_names", job_stage_word, STAGE_COUNT) &&
                words_write(group, "isolation_names", job_isolation_word, ISOLATION_COUNT) &&
                words_write(group, "reason_names", job_refuse_word, JOB_REFUSE_COUNT) && bases_write(group, scenario);

    for (uint32_t i = 0; i < scenario->job_kinds_count && fine; i++)
        fine = name_write(group, "kind", i, scenario->job_kinds[i].keys.name);
    return fine;
}

static bool table_explain(hid_t group, enum jobs_table table, const struct scenario *scenario)
{
    switch (table) {
    case TABLE_JOBS:
        return jobs_explain(group, scenario);
    case TABLE_PLACEMENTS:
        return words_write(group, "how_names", placement_end_word, PLACEMENT_END_COUNT) && bases_write(group, scenario) &&
               flavors_write(group, scenario);
    case TABLE_RESIDENCY:
        return words_write(group, "source_names", source_word, 3) && bases_write(group, scenario);
    case TABLE_CAPACITY:
        return flavors_write(group, scenario);
    case TABLE_COUNT:
        break;
    }
    return false;
}

static bool table_open(struct jobs_stream *stream, enum jobs_table table, const struct scenario *scenario)
{
    hid_t group = results_group_create(stream->variant, tables[table].name);

    if (group < 0)
        return false;
    if (table_explain(group, table, scenario))
        stream->columns[table] = columns_open(group, tables[table].columns, tables[table].count);
    H5Gclose(group);
    return stream->columns[table] != NULL;
}

struct jobs_stream *jobs_stream_open(struct results_file *file, hid_t variant, const struct scenario *scenario)
{
    struct jobs_stream *stream = calloc(1, sizeof(*stream));

    check(stream != NULL);
    stream->file = file;
    stream->variant = variant;
    for (uint32_t table = 0; file != NULL && table < TABLE_COUNT; table++)
        if (!table_open(stream, (enum jobs_table)table, scenario)) {
            jobs_stream_close(stream);
            return NULL;
        }
    stream->gather = jobs_gather_create(scenario);
    return stream;
}

void jobs_stream_close(struct jobs_stream *stream)
{
    if (stream == NULL)
        return;
    for (uint32_t table = 0; table < TABLE_COUNT; table++)
        columns_close(stream->columns[table]);
    jobs_gather_free(stream->gather);
    free(stream);
}

/* NULL: nothing is written, any more or at all. */
static struct columns *columns_of(const struct jobs_stream *stream, enum jobs_table table)
{
    check(stream != NULL);
    return stream->file != NULL && !stream->file->failed ? stream->columns[table] : NULL;
}

static void row_end(struct jobs_stream *stream, enum jobs_table table)
{
    if (!columns_row_end(stream->columns[table]))
        results_file_fail(stream->file, tables[table].name);
}

/* The columns of a table in their order: each is the field of `row` with its name. */
#define X(type, name, unit, about) *(column_##type *)columns_cell(columns, column++) = (column_##type)row->name;

void results_job(struct results *results, const struct job_row *row)
{
    struct jobs_stream *stream = results_jobs_stream(results);
    struct columns *columns = columns_of(stream, TABLE_JOBS);
    uint32_t column = 0;

    jobs_gather_job(stream->gather, row);
    if (columns == NULL)
        return;
    JOB_COLUMNS(X)
    row_end(stream, TABLE_JOBS);
}

void results_placement(struct results *results, const struct placement_row *row)
{
    struct jobs_stream *stream = results_jobs_stream(results);
    struct columns *columns = columns_of(stream, TABLE_PLACEMENTS);
    uint32_t column = 0;

    check(row->gpu_mask != 0);
    check(row->how < PLACEMENT_END_COUNT);
    check(row->how == PLACEMENT_OPEN ? row->until_ns == -1 : row->until_ns >= row->from_ns);
    if (columns == NULL)
        return;
    PLACEMENT_COLUMNS(X)
    row_end(stream, TABLE_PLACEMENTS);
}

void results_residency(struct results *results, const struct residency_row *row)
{
    struct jobs_stream *stream = results_jobs_stream(results);
    struct columns *columns = columns_of(stream, TABLE_RESIDENCY);
    uint32_t column = 0;

    check(row->gpu_mask != 0);
    check(row->source < 3);
    check(row->until_ns == -1 || row->until_ns >= row->from_ns);
    if (columns == NULL)
        return;
    RESIDENCY_COLUMNS(X)
    row_end(stream, TABLE_RESIDENCY);
}

void results_capacity(struct results *results, const struct capacity_sample *row)
{
    struct jobs_stream *stream = results_jobs_stream(results);
    struct columns *columns = columns_of(stream, TABLE_CAPACITY);
    uint32_t column = 0;

    check(row->flavor < CAPACITY_MAX);
    check(row->at_ns >= stream->sampled_until_ns[row->flavor]);
    stream->sampled_until_ns[row->flavor] = row->at_ns;
    if (columns == NULL)
        return;
    CAPACITY_COLUMNS(X)
    row_end(stream, TABLE_CAPACITY);
}
#undef X

static int64_t mean_ns(uint128 sum_ns, uint64_t count)
{
    return count > 0 ? (int64_t)(sum_ns / count) : -1;
}

static float rho_mean(const struct job_tenant_totals *totals)
{
    return totals->rho_count > 0 ? (float)((double)totals->rho_micro / (double)totals->rho_count / (double)RHO_ONE) : NAN;
}

static int64_t clamped(uint128 value)
{
    return value > INT64_MAX ? INT64_MAX : (int64_t)value;
}

#define X(type, name, value, unit, about) *(column_##type *)columns_cell(columns, column++) = (column_##type)(value);
static bool tenants_fill(const struct jobs_stream *stream, struct columns *columns)
{
    for (uint32_t index = 0; index < jobs_gather_tenants_count(stream->gather); index++) {
        const struct job_tenant_totals *totals = jobs_gather_tenant(stream->gather, index);
        uint32_t column = 0;

        if (totals->submitted == 0)
            continue;
        JOB_TENANT_COLUMNS(X)
        if (!columns_row_end(columns))
            return false;
    }
    return columns_flush(columns);
}

/* Accounts in the order of tenants, the platform last; every component of each, so that no reader has to guess a zero. */
static bool ledger_fill(const struct jobs_summary *summary, struct columns *columns)
{
    for (uint32_t account = 0; account <= summary->tenants_count; account++)
        for (uint32_t component = 0; component < CHARGE_COUNT; component++) {
            const uint32_t tenant = account == summary->tenants_count ? UINT32_MAX : account;
            const int64_t amount_nano = summary->cost_nano[(size_t)account * CHARGE_COUNT + component];
            uint32_t column = 0;

            LEDGER_COLUMNS(X)
            if (!columns_row_end(columns))
                return false;
        }
    return columns_flush(columns);
}
#undef X

static void tenants_write(const struct jobs_stream *stream)
{
    hid_t group = results_group_create(stream->variant, "job_tenants");
    struct columns *columns = group >= 0 ? columns_open(group, tenant_columns, ARRAY_COUNT(tenant_columns)) : NULL;

    if (columns == NULL || !tenants_fill(stream, columns))
        results_file_fail(stream->file, "the tenants of jobs");
    columns_close(columns);
    if (group >= 0)
        H5Gclose(group);
}

static void ledger_write(const struct jobs_stream *stream, const struct jobs_summary *summary)
{
    hid_t group = results_group_create(stream->variant, "ledger");
    struct columns *columns = NULL;

    if (group >= 0 && words_write(group, "component_names", charge_text, CHARGE_COUNT))
        columns = columns_open(group, ledger_columns, ARRAY_COUNT(ledger_columns));
    if (columns == NULL || !ledger_fill(summary, columns))
        results_file_fail(stream->file, "the ledger");
    columns_close(columns);
    if (group >= 0)
        H5Gclose(group);
}

void jobs_stream_end(struct jobs_stream *stream, const struct run_facts *facts, struct jobs_summary *ret_summary)
{
    jobs_gather_summary(stream->gather, facts, ret_summary);
    for (uint32_t table = 0; table < TABLE_COUNT; table++) {
        struct columns *columns = columns_of(stream, (enum jobs_table)table);

        if (columns != NULL && !columns_flush(columns))
            results_file_fail(stream->file, tables[table].name);
    }
    if (columns_of(stream, TABLE_JOBS) != NULL)
        tenants_write(stream);
    if (columns_of(stream, TABLE_JOBS) != NULL)
        ledger_write(stream, ret_summary);
}
