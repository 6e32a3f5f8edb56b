/* Draws from Zipf's law with exponent 1, made before anything is timed. */
#ifndef BENCH_ZIPF_H
#define BENCH_ZIPF_H

#include <stdint.h>

#include "base/hash.h"

#define ZIPF_DRAWS 65536u

/* Ranks 1 .. count; draw i is the first rank at which the cumulated weights reach a hash of i. */
static inline void zipf_fill(uint32_t ranks[ZIPF_DRAWS], uint32_t count)
{
    static double below[65536];
    double sum = 0;

    check(count >= 1 && count <= ARRAY_COUNT(below));
    for (uint32_t i = 0; i < count; i++)
        below[i] = sum += 1.0 / (i + 1);
    for (uint32_t i = 0; i < ZIPF_DRAWS; i++) {
        double at = (double)(hash_mix(i) >> 11) * 0x1p-53 * sum;
        uint32_t low = 0;
        uint32_t high = count - 1;

        while (low < high) {
            uint32_t middle = (low + high) / 2;

            if (below[middle] > at)
                high = middle;
            else
                low = middle + 1;
        }
        ranks[i] = low + 1;
    }
}

#endif
