#include "cachelab/stat_simulate.h"

#include <math.h>
#include <stdio.h>

#include "cachelab/spec.h"
#include "cachelab/stat_show.h"

/* The text is what the command line of berth-sim cache would have. */
static void size_set(struct lab_size *size, enum lab_unit unit, uint64_t capacity)
{
    *size = (struct lab_size){.unit = unit, .capacity = capacity};
    snprintf(size->text, sizeof(size->text), unit == LAB_OBJECTS ? "%lluobj" : "%lluB", (unsigned long long)capacity);
}

static uint32_t sizes_fill(const struct trace_facts *facts, bool by_bytes, struct lab_size sizes[2 * STAT_SHARES])
{
    uint32_t count = 0;
    uint64_t objects;
    uint64_t bytes;

    for (uint32_t i = 0; i < STAT_SHARES; i++)
        if (stat_share_sizes(facts, i, &objects, &bytes))
            size_set(&sizes[count++], LAB_OBJECTS, objects);
    for (uint32_t i = 0; by_bytes && i < STAT_SHARES; i++)
        if (stat_share_sizes(facts, i, &objects, &bytes))
            size_set(&sizes[count++], LAB_BYTES, bytes);
    return count;
}

static bool on_progress(void *context, uint64_t requests, uint64_t expected)
{
    (void)expected; /* it is known exactly */
    lab_progress_show(context, requests);
    return true;
}

enum status stat_simulate(const struct lab_trace *trace, const struct trace_facts *facts, bool by_bytes, struct lab_progress *progress,
                          struct stat_simulation *ret_simulation, char *ret_message)
{
    struct lab_policy policy;
    struct lab_admission admission;
    struct lab_size sizes[2 * STAT_SHARES];
    struct lab_cell_setup setups[2 * STAT_SHARES];
    struct lab_result results[2 * STAT_SHARES];
    struct object_trace_info info;
    char unused[SPEC_MESSAGE_MAX];
    const uint32_t count = sizes_fill(facts, by_bytes, sizes);
    enum status status;

    check(spec_policy("lru", 3, &policy, unused) == STATUS_OK);
    check(spec_admission("always", 6, &admission, unused) == STATUS_OK);
    for (uint32_t i = 0; i < count; i++)
        setups[i] = (struct lab_cell_setup){.policy = &policy, .admission = &admission, .size = &sizes[i]};
    status = lab_group_run(&(struct lab_run){.trace = trace, .setups = setups, .cells_count = count, .progress = on_progress, .context = progress},
                           results, &info, ret_message);
    if (status != STATUS_OK)
        return status;
    /* A file that somebody writes meanwhile. */
    if (info.requests != facts->requests) {
        snprintf(ret_message, TRACE_MESSAGE_MAX, "%s: has %llu requests now, and had %llu; it was written meanwhile", trace->path,
                 (unsigned long long)info.requests, (unsigned long long)facts->requests);
        return STATUS_CONFLICT;
    }
    ret_simulation->count = count;
    for (uint32_t i = 0; i < count; i++) {
        struct stat_simulated *point = &ret_simulation->points[i];

        *point = (struct stat_simulated){.unit = sizes[i].unit, .capacity = sizes[i].capacity,
                                         .miss_ratio = (double)lab_misses(&results[i].counts) / (double)facts->requests};
        point->away = (point->unit == LAB_OBJECTS ? stat_ratio_objects(facts, point->capacity) : stat_ratio_bytes(facts, point->capacity)) -
                      point->miss_ratio;
    }
    return STATUS_OK;
}

double stat_simulated_most_away(const struct stat_simulation *simulation, enum lab_unit unit)
{
    double most = 0;

    for (uint32_t i = 0; i < simulation->count; i++)
        if (simulation->points[i].unit == unit)
            most = fmax(most, fabs(simulation->points[i].away));
    return most;
}
