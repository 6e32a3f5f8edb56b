/* taus2 (L'Ecuyer 1999): period 2^88 and 12 bytes of state, so that all streams stay in the first-level cache, where
 * mt19937 takes 5 kB each. GSL seeds it with 32 bits; the names' hash spreads them. */
#include "workload/rng.h"

static uint64_t seed_word(uint64_t seed, const char *name)
{
    return hash_bytes(hash_mix(seed), name, strlen(name));
}

gsl_rng *rng_split(uint64_t seed, const char *name)
{
    gsl_rng *generator = gsl_rng_alloc(gsl_rng_taus2);

    check(generator != NULL);
    gsl_rng_set(generator, (unsigned long)(seed_word(seed, name) >> 32));
    return generator;
}

void rng_streams_open(struct rng_streams *streams, uint64_t seed)
{
    static const char *const names[] = {
#define X(name, text) text,
        RNG_STREAMS(X)
#undef X
    };

    for (uint32_t i = 0; i < RNG_COUNT; i++)
        streams->of[i] = (struct rng){.generator = rng_split(seed, names[i]), .word = seed_word(seed, names[i])};
}

void rng_streams_close(struct rng_streams *streams)
{
    for (uint32_t i = 0; i < RNG_COUNT; i++)
        gsl_rng_free(streams->of[i].generator);
    *streams = (struct rng_streams){0};
}
