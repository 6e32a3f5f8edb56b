/* At which sizes the curves of a trace are told, and how exactly its exponent. */
#include <math.h>

#include "cachelab/stat_show.h"

int stat_zipf_digits(const struct zipf_fit *fit)
{
    return (int)fmin(9, fmax(2, 1 - floor(log10(fit->error))));
}

uint64_t stat_size_after(uint64_t size, uint64_t whole)
{
    const uint64_t step = size < 8 ? 1 : UINT64_C(1) << (60 - __builtin_clzll(size));

    if (size >= whole)
        return 0;
    return whole - size <= step ? whole : (size / step + 1) * step;
}

const double stat_shares[STAT_SHARES] = {0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1};

bool stat_share_sizes(const struct trace_facts *facts, uint32_t row, uint64_t *ret_objects, uint64_t *ret_bytes)
{
    *ret_objects = max_u64(1, (uint64_t)ceil(stat_shares[row] * (double)facts->objects));
    *ret_bytes = max_u64(1, stat_exact_bytes((uint128)ceil(stat_shares[row] * (double)facts->objects_bytes)));
    return row + 1 == STAT_SHARES || stat_shares[row + 1] * (double)facts->objects > 1;
}

uint64_t stat_exact_bytes(uint128 bytes)
{
    const uint64_t wanted = bytes < INT64_MAX ? (uint64_t)bytes : INT64_MAX;
    const uint32_t bucket = histogram_bucket(wanted);

    return histogram_bucket_low(bucket) == wanted || bucket + 1 == HISTOGRAM_BUCKETS ? wanted : histogram_bucket_low(bucket + 1);
}

double stat_ratio_objects(const struct trace_facts *facts, uint64_t objects)
{
    return (double)facts->lru_misses[min_u64(objects, facts->objects)] / (double)facts->requests;
}

double stat_ratio_bytes(const struct trace_facts *facts, uint64_t bytes)
{
    return (double)lru_curve_misses_bytes(facts->curve, bytes) / (double)facts->requests;
}
