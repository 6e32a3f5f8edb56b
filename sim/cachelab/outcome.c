#include "cachelab/outcome.h"

#include <math.h>

uint64_t lab_misses(const struct lab_counts *counts)
{
    uint64_t misses = 0;

    for (uint32_t i = 0; i < LAB_MISS_COUNT; i++)
        misses += counts->misses[i];
    return misses;
}

static double ratio(double part, double whole)
{
    return whole > 0 ? part / whole : (double)NAN;
}

double lab_miss_ratio(const struct lab_counts *counts)
{
    return ratio((double)lab_misses(counts), (double)counts->requests);
}

double lab_byte_miss_ratio(const struct lab_counts *counts)
{
    return ratio((double)counts->miss_bytes, (double)counts->bytes);
}

static double load_s(const struct lab_load *load, uint64_t count, uint128 bytes)
{
    return (double)count * load->fixed_s + (double)bytes / load->bytes_per_s;
}

double lab_load_s(const struct lab_outcome *outcome, const struct lab_counts *counts)
{
    return load_s(&outcome->load, lab_misses(counts), counts->miss_bytes);
}

double lab_avoided_s(const struct lab_outcome *outcome, const struct lab_counts *counts)
{
    return load_s(&outcome->load, counts->requests - lab_misses(counts), counts->bytes - counts->miss_bytes);
}

double lab_requests_per_s(const struct lab_result *result)
{
    return ratio((double)result->requests, (double)result->wall_ns * 1e-9);
}

double lab_requests_per_cpu_s(const struct lab_result *result)
{
    return ratio((double)result->requests, (double)result->cpu_ns * 1e-9);
}

void lab_rank(struct lab_outcome *outcome)
{
    for (uint32_t i = 0; i < outcome->cells_count; i++) {
        const struct lab_counts *counts = &outcome->results[i].counts;
        struct lab_ranks *ranks = &outcome->ranks[i];

        *ranks = (struct lab_ranks){1, 1, 1};
        for (uint32_t j = 0; j < outcome->cells_count; j++) {
            const struct lab_counts *other = &outcome->results[j].counts;

            if (outcome->setups[j].size != outcome->setups[i].size)
                continue;
            ranks->misses += lab_misses(other) < lab_misses(counts);
            ranks->miss_bytes += other->miss_bytes < counts->miss_bytes;
            ranks->load += lab_load_s(outcome, other) < lab_load_s(outcome, counts);
        }
    }
}
