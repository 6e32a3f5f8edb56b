/* The outcome as lines for machines, and as a table for a person. */
#include <inttypes.h>
#include <math.h>

#include "cachelab/outcome.h"
#include "report/cells.h"
#include "results/json_values.h"

/* More digits than any of these numbers means, and few enough that 0.1 stays 0.1. */
#define REAL_DIGITS 12

/* Exact as far as JSON's whole numbers go. */
static json_t *json_bytes(uint128 bytes)
{
    return bytes <= INT64_MAX ? json_count((uint64_t)bytes) : json_number((double)bytes);
}

static void counts_json(json_t *object, const struct lab_outcome *outcome, const struct lab_counts *counts)
{
    json_put(object, "requests", json_count(counts->requests));
    json_put(object, "miss_ratio", json_number(lab_miss_ratio(counts)));
    json_put(object, "byte_miss_ratio", json_number(lab_byte_miss_ratio(counts)));
    json_put(object, "load_s", json_number(lab_load_s(outcome, counts)));
    json_put(object, "load_avoided_s", json_number(lab_avoided_s(outcome, counts)));
    json_put(object, "misses", json_count(lab_misses(counts)));
#define X(NAME, name, about) json_put(object, "misses_" #name, json_count(counts->misses[LAB_MISS_##NAME]));
    LAB_MISSES(X)
#undef X
    json_put(object, "misses_changed", json_count(counts->changed));
    json_put(object, "bytes", json_bytes(counts->bytes));
    json_put(object, "miss_bytes", json_bytes(counts->miss_bytes));
    json_put(object, "evictions", json_count(counts->evictions));
}

static void times_json(json_t *object, const struct lab_result *result)
{
    json_put(object, "requests_per_s", json_number(lab_requests_per_s(result)));
    json_put(object, "requests_per_cpu_s", json_number(lab_requests_per_cpu_s(result)));
    json_put(object, "process_peak_bytes", json_count(result->peak_bytes));
    json_put(object, "process_cells", json_count(result->neighbours));
}

static void cell_json(FILE *out, const struct lab_outcome *outcome, uint32_t cell)
{
    const struct lab_cell_setup *setup = &outcome->setups[cell];
    const struct lab_result *result = &outcome->results[cell];
    const struct lab_ranks *ranks = &outcome->ranks[cell];
    json_t *object = json_object();

    json_put(object, "trace", json_text(outcome->trace));
    json_put(object, "policy", json_text(setup->policy->text));
    json_put(object, "admit", json_text(setup->admission->text));
    json_put(object, "size", json_text(setup->size->text));
    json_put(object, "capacity", json_count(setup->size->capacity));
    json_put(object, "unit", json_text(setup->size->unit == LAB_BYTES ? "bytes" : "objects"));
    counts_json(object, outcome, &result->counts);
    json_put(object, "ghosts", json_count(result->ghosts));
    json_put(object, "objects", json_count(result->objects));
    json_put(object, "memory_bytes", json_count(result->memory_bytes));
    json_put(object, "rank_misses", json_count(ranks->misses));
    json_put(object, "rank_miss_bytes", json_count(ranks->miss_bytes));
    json_put(object, "rank_load", json_count(ranks->load));
    if (outcome->times)
        times_json(object, result);
    check(json_dumpf(object, out, JSON_REAL_PRECISION(REAL_DIGITS)) == 0);
    putc('\n', out);
    json_decref(object);
}

void lab_print_json(FILE *out, const struct lab_outcome *outcome)
{
    for (uint32_t i = 0; i < outcome->cells_count; i++)
        cell_json(out, outcome, i);
}

/* --- the table --- */

static void ratio_print(FILE *out, double ratio)
{
    if (isnan(ratio))
        fprintf(out, "  %7s", "n/a");
    else
        fprintf(out, "  %7.4f", ratio);
}

static void causes_print(FILE *out, const struct lab_outcome *outcome)
{
    static const char *const names[LAB_MISS_COUNT] = {
#define X(NAME, name, about) #name,
        LAB_MISSES(X)
#undef X
    };
    bool any[LAB_MISS_COUNT] = {false};

    for (uint32_t i = 0; i < outcome->cells_count; i++)
        for (uint32_t miss = 0; miss < LAB_MISS_COUNT; miss++)
            any[miss] |= outcome->results[i].counts.misses[miss] > 0;
    fprintf(out, "\n%-22s %-9s", "misses, by cause", "");
    for (uint32_t miss = 0; miss < LAB_MISS_COUNT; miss++)
        if (any[miss])
            fprintf(out, "  %11s", names[miss]);
    putc('\n', out);
    for (uint32_t i = 0; i < outcome->cells_count; i++) {
        const struct lab_cell_setup *setup = &outcome->setups[i];

        fprintf(out, "%-22s %-9s", setup->policy->text, setup->size->text);
        for (uint32_t miss = 0; miss < LAB_MISS_COUNT; miss++)
            if (any[miss])
                fprintf(out, "  %11" PRIu64, outcome->results[i].counts.misses[miss]);
        putc('\n', out);
    }
}

static bool admission_is_shown(const struct lab_outcome *outcome)
{
    for (uint32_t i = 0; i < outcome->cells_count; i++)
        if (outcome->setups[i].admission->admit != &admit_always)
            return true;
    return false;
}

static void row_print(FILE *out, const struct lab_outcome *outcome, uint32_t cell, bool admission)
{
    const struct lab_cell_setup *setup = &outcome->setups[cell];
    const struct lab_result *result = &outcome->results[cell];
    const struct lab_ranks *ranks = &outcome->ranks[cell];

    fprintf(out, "%-22s %-9s", setup->policy->text, setup->size->text);
    ratio_print(out, lab_miss_ratio(&result->counts));
    ratio_print(out, lab_byte_miss_ratio(&result->counts));
    fprintf(out, "  %8s  %8s  %3u %3u %3u  %10" PRIu64, cell_span(lab_load_s(outcome, &result->counts)).text,
            cell_span(lab_avoided_s(outcome, &result->counts)).text, ranks->misses, ranks->miss_bytes, ranks->load,
            result->counts.evictions);
    if (outcome->times)
        fprintf(out, "  %8s", cell_quantity(lab_requests_per_s(result)).text);
    if (admission)
        fprintf(out, "  %s", setup->admission->text);
    putc('\n', out);
}

void lab_print_table(FILE *out, const struct lab_outcome *outcome)
{
    const struct object_trace_info *info = &outcome->info;
    const bool admission = admission_is_shown(outcome);

    fprintf(out, "%s: %" PRIu64 " requests (%s)", outcome->trace, info->requests, info->format);
    if (outcome->warmup > 0)
        fprintf(out, ", the first %" PRIu64 " to warm up", outcome->warmup);
    if (info->backward > 0)
        fprintf(out, ", %" PRIu64 " times before the one above", info->backward);
    if (info->zero_sizes > 0)
        fprintf(out, ", %" PRIu64 " of size 0", info->zero_sizes);
    fprintf(out, "\n\n%-22s %-9s  %7s  %7s  %8s  %8s  %11s  %10s%s%s\n", "policy", "size", "misses", "bytes", "loads", "avoided",
            "rank m,b,l", "evictions", outcome->times ? "     req/s" : "", admission ? "  admission" : "");
    for (uint32_t i = 0; i < outcome->cells_count; i++)
        row_print(out, outcome, i, admission);
    causes_print(out, outcome);
}
