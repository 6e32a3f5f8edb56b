/* Hashing for digests, tables and chance inside a core: mix(salt, purpose, ordinal) stands in for a draw. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include "base/base.h"

/* The finalizer of splitmix64 (Steele, Lea, Flood 2014): a bijection that flips half the bits. */
static inline uint64_t hash_mix(uint64_t x)
{
    x += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

/* Folds `x` into `digest`; order matters. */
static inline uint64_t hash_fold(uint64_t digest, uint64_t x)
{
    digest = (digest ^ x) * UINT64_C(0x9FB21C651E98DF25);
    return digest ^ (digest >> 32);
}

static inline uint64_t hash_words(uint64_t digest, const uint64_t *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        digest = hash_fold(digest, words[i]);
    return digest;
}

/* Any bytes; the tail is padded with zeros, and the length is part of the hash. */
uint64_t hash_bytes(uint64_t digest, const void *bytes, size_t count);

#endif
