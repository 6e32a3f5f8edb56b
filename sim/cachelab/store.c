/* The outcome as HDF5, for those who go on with other tools. */
#include <stdlib.h>

#include "cachelab/outcome.h"
#include "results/attributes.h"
#include "results/columns.h"
#include "results/file.h"

#define GROUP_NAME_MAX 512

enum { SERIES_REQUESTS, SERIES_MISSES, SERIES_BYTES, SERIES_MISS_BYTES };
static const struct column series_columns[] = {
    {COLUMN_U64, "requests", "requests", "in the interval; with those of the warm-up"},
    {COLUMN_U64, "misses", "requests", "of those"},
    {COLUMN_U64, "bytes", "bytes", "asked for; 2^64 - 1: as many or more"},
    {COLUMN_U64, "miss_bytes", "bytes", "of those"},
};

enum status lab_store_open(const char *path, const char *command, uint64_t seed, FILE *errors, struct results_file **ret_file)
{
    return results_file_create_as("berth-cache-1", path, command, seed, errors, ret_file);
}

static bool counts_put(hid_t group, const struct lab_outcome *outcome, const struct lab_counts *counts)
{
    bool good = attribute_u64(group, "requests", counts->requests) && attribute_u64(group, "misses", lab_misses(counts)) &&
                attribute_u64(group, "misses_changed", counts->changed) && attribute_u64(group, "evictions", counts->evictions) &&
                attribute_f64(group, "miss_ratio", lab_miss_ratio(counts)) &&
                attribute_f64(group, "byte_miss_ratio", lab_byte_miss_ratio(counts)) &&
                attribute_f64(group, "bytes", (double)counts->bytes) && attribute_f64(group, "miss_bytes", (double)counts->miss_bytes) &&
                attribute_f64(group, "load_s", lab_load_s(outcome, counts)) &&
                attribute_f64(group, "load_avoided_s", lab_avoided_s(outcome, counts));

#define X(NAME, name, about) good = good && attribute_u64(group, "misses_" #name, counts->misses[LAB_MISS_##NAME]);
    LAB_MISSES(X)
#undef X
    return good;
}

static bool cell_put(hid_t group, const struct lab_outcome *outcome, uint32_t cell)
{
    const struct lab_cell_setup *setup = &outcome->setups[cell];
    const struct lab_result *result = &outcome->results[cell];

    return attribute_text(group, "policy", setup->policy->text) && attribute_text(group, "admit", setup->admission->text) &&
           attribute_text(group, "size", setup->size->text) && attribute_u64(group, "capacity", setup->size->capacity) &&
           attribute_text(group, "unit", setup->size->unit == LAB_BYTES ? "bytes" : "objects") &&
           counts_put(group, outcome, &result->counts) && attribute_u64(group, "ghosts", result->ghosts) &&
           attribute_u64(group, "objects", result->objects) && attribute_u64(group, "memory_bytes", result->memory_bytes) &&
           (!outcome->times || attribute_f64(group, "requests_per_s", lab_requests_per_s(result)));
}

static bool series_put(hid_t group, const struct lab_series *series)
{
    struct columns *columns = columns_open(group, series_columns, ARRAY_COUNT(series_columns));
    bool good = columns != NULL;

    for (uint64_t i = 0; good && i < series->count; i++) {
        const struct lab_interval *interval = &series->intervals[i];

        *(uint64_t *)columns_cell(columns, SERIES_REQUESTS) = interval->requests;
        *(uint64_t *)columns_cell(columns, SERIES_MISSES) = interval->misses;
        *(uint64_t *)columns_cell(columns, SERIES_BYTES) = interval->bytes;
        *(uint64_t *)columns_cell(columns, SERIES_MISS_BYTES) = interval->miss_bytes;
        good = columns_row_end(columns);
    }
    good = good && columns_flush(columns);
    columns_close(columns);
    return good;
}

static bool trace_put(hid_t group, const struct lab_outcome *outcome)
{
    bool good = attribute_text(group, "trace", outcome->trace) && attribute_text(group, "trace_format", outcome->info.format) &&
                attribute_u64(group, "trace_requests", outcome->info.requests) && attribute_u64(group, "warmup", outcome->warmup) &&
                attribute_u64(group, "interval", outcome->interval) && attribute_u64(group, "in_flight", outcome->in_flight) &&
                attribute_f64(group, "load_fixed_s", outcome->load.fixed_s) &&
                attribute_f64(group, "load_bytes_per_s", outcome->load.bytes_per_s);

    for (uint32_t i = 0; good && i < outcome->cells_count; i++) {
        char name[GROUP_NAME_MAX], number[GROUP_NAME_MAX];
        hid_t cell;

        snprintf(number, sizeof(number), "%04u %s %s %s", i, outcome->setups[i].policy->text, outcome->setups[i].admission->text,
                 outcome->setups[i].size->text);
        results_group_name(number, name, sizeof(name));
        cell = results_group_create(group, name);
        good = cell >= 0 && cell_put(cell, outcome, i) && (outcome->interval == 0 || series_put(cell, &outcome->series[i]));
        if (cell >= 0)
            H5Gclose(cell);
    }
    return good;
}

enum status lab_store_add(struct results_file *file, const struct lab_outcome *outcome, FILE *errors)
{
    const char *slash = strrchr(outcome->trace, '/');
    char name[GROUP_NAME_MAX];
    hid_t group;

    results_group_name(slash != NULL ? slash + 1 : outcome->trace, name, sizeof(name));
    if (H5Lexists(file->variants, name, H5P_DEFAULT) > 0) /* the same name in another folder: then with its folders */
        results_group_name(outcome->trace, name, sizeof(name));
    group = results_group_create(file->variants, name);
    if (group < 0 || !trace_put(group, outcome))
        results_file_fail(file, "what came of a trace");
    if (group >= 0)
        H5Gclose(group);
    results_file_report(file, errors);
    return file->failed ? STATUS_IO : STATUS_OK;
}
