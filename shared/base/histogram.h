/* Log-linear histogram of non-negative integers: 64 buckets an octave, so a bucket's middle is within 0.8% of
 * anything in it. Fixed size, so a percentile costs no memory that grows with the number of values. */
#ifndef BASE_HISTOGRAM_H
#define BASE_HISTOGRAM_H

#include "base/base.h"

#define HISTOGRAM_SUB_BITS 6
#define HISTOGRAM_BUCKETS ((63 - HISTOGRAM_SUB_BITS + 1) << HISTOGRAM_SUB_BITS)

struct histogram {
    uint64_t count;
    uint64_t min; /* UINT64_MAX when empty */
    uint64_t max;
    /* Exact sum, so that means carry no bucket error; 2^64 ns is 584 years, so it is kept in 128 bits. */
    uint128 sum;
    uint64_t buckets[HISTOGRAM_BUCKETS];
};

void histogram_init(struct histogram *histogram);
/* Values below zero are mistakes of the caller. */
void histogram_add(struct histogram *histogram, int64_t value);
void histogram_merge(struct histogram *target, const struct histogram *source);
/* The value at rank ceil(q * count): the bucket's middle, clamped to [min, max]. 0 when empty. 0 <= q <= 1. */
int64_t histogram_quantile(const struct histogram *histogram, double q);
/* 0 when empty. */
double histogram_mean(const struct histogram *histogram);
/* Which bucket a value falls in, for those who keep sums beside the counts. */
uint32_t histogram_bucket(uint64_t value);
/* The least value that falls in a bucket: any number of seven binary digits that count. */
uint64_t histogram_bucket_low(uint32_t bucket);

#endif
