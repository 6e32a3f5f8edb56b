#include "base/histogram.h"

void histogram_init(struct histogram *histogram)
{
    memset(histogram, 0, sizeof(*histogram));
    histogram->min = UINT64_MAX;
}

uint32_t histogram_bucket(uint64_t value)
{
    uint32_t octave;

    if (value < 1u << HISTOGRAM_SUB_BITS)
        return (uint32_t)value;
    octave = 63u - (uint32_t)__builtin_clzll(value) - HISTOGRAM_SUB_BITS;
    return ((octave + 1) << HISTOGRAM_SUB_BITS) |
           (uint32_t)((value >> octave) & ((1u << HISTOGRAM_SUB_BITS) - 1));
}

uint64_t histogram_bucket_low(uint32_t bucket)
{
    const uint64_t digits = UINT64_C(1) << HISTOGRAM_SUB_BITS | (bucket & ((1u << HISTOGRAM_SUB_BITS) - 1));

    return bucket < 1u << HISTOGRAM_SUB_BITS ? bucket : digits << ((bucket >> HISTOGRAM_SUB_BITS) - 1);
}

static uint64_t bucket_middle(uint32_t bucket)
{
    return bucket < 1u << HISTOGRAM_SUB_BITS
               ? bucket
               : histogram_bucket_low(bucket) + (UINT64_C(1) << ((bucket >> HISTOGRAM_SUB_BITS) - 1)) / 2;
}

void histogram_add(struct histogram *histogram, int64_t value)
{
    check(value >= 0);
    uint64_t v = (uint64_t)value;

    histogram->buckets[histogram_bucket(v)]++;
    histogram->count++;
    histogram->sum += v;
    histogram->min = min_u64(histogram->min, v);
    histogram->max = max_u64(histogram->max, v);
}

void histogram_merge(struct histogram *target, const struct histogram *source)
{
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
        target->buckets[i] += source->buckets[i];
    target->count += source->count;
    target->sum += source->sum;
    target->min = min_u64(target->min, source->min);
    target->max = max_u64(target->max, source->max);
}

int64_t histogram_quantile(const struct histogram *histogram, double q)
{
    uint64_t rank;
    uint64_t seen = 0;

    check(q >= 0 && q <= 1);
    if (histogram->count == 0)
        return 0;
    rank = (uint64_t)(q * (double)histogram->count);
    if ((double)rank < q * (double)histogram->count)
        rank++;
    if (rank >= histogram->count)
        return (int64_t)histogram->max;
    rank = max_u64(rank, 1);
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += histogram->buckets[i];
        if (seen >= rank)
            return (int64_t)min_u64(max_u64(bucket_middle(i), histogram->min), histogram->max);
    }
    check(false && "the buckets hold fewer values than the count");
    return 0;
}

double histogram_mean(const struct histogram *histogram)
{
    return histogram->count == 0 ? 0 : (double)histogram->sum / (double)histogram->count;
}
