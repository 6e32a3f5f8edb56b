/* What is asked for how often, approximately and in little memory: a count-min sketch (Cormode, Muthukrishnan, J. Algorithms 2005) of
 * 4-bit counters with minimal increment, halved now and then so that it forgets (Einziger, Friedman, Manes, ACM Transactions on
 * Storage 2017, 3), and a bloom filter of what was asked for at all. Both are sized by the number of entries, never by bytes; what they
 * know of a name is in one line of memory; and they grow by duplication: a name's line in the larger one is a copy of its line in the
 * smaller. Nothing in them says where they lie. */
#ifndef CACHE_SKETCH_H
#define CACHE_SKETCH_H

#include "base/base.h"

#define SKETCH_MAX 15u
/* Up to this many entries all have the same size: nothing changes when a small cache grows. */
#define SKETCH_ENTRIES_MIN 64u

/* 32 counters an entry, in four rows. An estimate is at least the true count up to SKETCH_MAX, both halved at each halving. */
struct sketch {
    uint64_t additions; /* since the last halving, and half of those before */
    uint64_t lines;     /* a power of two */
    uint64_t zero[6];
    uint64_t words[];   /* [lines][8] */
};

size_t sketch_bytes(uint32_t entries_max);
/* It is zeros, and best aligned to 64. */
void sketch_begin(struct sketch *sketch, uint32_t entries_max);
/* With what `old` knew. It is zeros; `old` is not larger. */
void sketch_grow(struct sketch *sketch, uint32_t entries_max, const struct sketch *old);
/* At `period` additions all counters are halved. */
void sketch_add(struct sketch *sketch, uint64_t name, uint64_t period);
uint32_t sketch_estimate(const struct sketch *sketch, uint64_t name);

/* Two halves, 128 bits an entry each. Names go into the newer; when it has as many as it is to have, the older one is emptied and
 * becomes the newer. So a name is remembered for at least one such turn, and at most two. */
struct bloom {
    uint64_t names;   /* that the newer half didn't have before */
    uint64_t lines;   /* of either half: a power of two */
    uint64_t newer;   /* 0, 1 */
    bool seen;        /* what bloom_add() answered last */
    unsigned char zero[39];
    uint64_t words[]; /* [2][lines][8] */
};

size_t bloom_bytes(uint32_t entries_max);
void bloom_begin(struct bloom *bloom, uint32_t entries_max);
void bloom_grow(struct bloom *bloom, uint32_t entries_max, const struct bloom *old);
/* Whether it was there, or seems so: at 16 names an entry and turn, for fewer than one in twenty that weren't. Now it is. */
bool bloom_add(struct bloom *bloom, uint64_t name, uint64_t turn);

#endif
