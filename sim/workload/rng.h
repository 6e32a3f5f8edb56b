/* Named random streams. A purpose has its own generator, seeded by the scenario's seed and the purpose's name, so that
 * a new draw in one model moves no other. Laws turn ONE uniform number into one value by inversion: the k-th request's
 * prompt is the k-th number of "prompts", and a variant with another law still shares its luck with the first. */
#ifndef WORKLOAD_RNG_H
#define WORKLOAD_RNG_H

#include <gsl/gsl_rng.h>

#include "base/hash.h"

#define RNG_STREAMS(X)                                                      \
    X(ARRIVALS, "arrivals")      /* gaps between requests */                \
    X(BURSTS, "bursts")          /* lengths of mmpp's two states */         \
    X(CHOICES, "base-or-adapter")                                           \
    X(ADAPTERS, "adapters")                                                 \
    X(BASES, "bases")            /* of requests that name no adapter */     \
    X(TENANTS, "tenants")        /* of requests that name no adapter */     \
    X(PROMPTS, "prompts")                                                   \
    X(OUTPUTS, "outputs")                                                   \
    X(DRIFT, "drift")                                                       \
    X(CHURN, "churn")                                                       \
    X(UPDATES, "updates")                                                   \
    X(PUBLICATIONS, "publications") /* places of new adapters */            \
    X(THINK, "think")                                                       \
    X(TURNS, "turns")                                                       \
    X(JOB_ARRIVALS, "job-arrivals")                                         \
    X(JOB_KINDS, "job-kinds")                                               \
    X(JOB_TENANTS, "job-tenants")                                           \
    X(JOB_TOKENS, "job-tokens")                                             \
    X(JOB_SESSIONS, "job-sessions") /* lengths of interactive ones */       \
    X(JOB_RUNTIMES, "job-runtimes") /* drawn from a trace */
enum rng_purpose {
#define X(name, text) RNG_##name,
    RNG_STREAMS(X)
#undef X
    RNG_COUNT
};

struct rng {
    gsl_rng *generator;
    uint64_t word;       /* of the seed and the name; what rng_unit_at() hashes */
};

struct rng_streams {
    struct rng of[RNG_COUNT];
};

/* A generator for any purpose; the caller frees it with gsl_rng_free(). */
gsl_rng *rng_split(uint64_t seed, const char *name);

void rng_streams_open(struct rng_streams *streams, uint64_t seed);
void rng_streams_close(struct rng_streams *streams);

/* In (0, 1): both ends would be infinite in some law. 52 bits and the half are exact in a double. */
static inline double rng_unit_of_word(uint64_t word)
{
    return ((double)(word >> 12) + 0.5) * 0x1p-52;
}

/* The stream's next number. Two draws: the 32 bits of one are too coarse for a million adapters or a heavy tail. */
static inline double rng_unit(const struct rng *stream)
{
    uint64_t high = gsl_rng_get(stream->generator);
    uint64_t low = gsl_rng_get(stream->generator);

    return rng_unit_of_word(high << 32 | low);
}

/* The number that belongs to `key`, whenever it is asked for. Closed loops need it: there the order of requests follows
 * the fleet's answers, and a user's n-th prompt must not. */
static inline double rng_unit_at(const struct rng *stream, uint64_t key)
{
    return rng_unit_of_word(hash_mix(stream->word ^ hash_mix(key)));
}

#endif
