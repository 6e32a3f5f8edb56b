/* How popular objects are: Zipf's exponent by maximum likelihood.
 *
 * The model: a request is for the object of rank r with probability r^-alpha / (1^-alpha + ... + R^-alpha), over the R ranks of
 * the fit, so alpha solves: the mean of ln(rank) over the requests = its expectation. The error is that of the likelihood, 1 /
 * sqrt(requests * variance of ln(rank)). This is not the exponent of numpy.random.power, whose 1 is uniform, and no line through a
 * log-log plot, which weighs an object with one request as much as one with a million.
 *
 * A trace does not know its ranks: they are told by the counts, and sorting counts takes noise for order. Over all ranks that moves
 * alpha by some R / (alpha requests variance): 78 errors for ten million requests of a million objects. So the fit takes the first R
 * ranks only, as many as keep that below a quarter of the error; the few left out say little of alpha, since requests are at the
 * head. With a fit over the head no object that was never asked for has to be guessed. */
#ifndef CACHELAB_ZIPF_FIT_H
#define CACHELAB_ZIPF_FIT_H

#include "base/base.h"

struct zipf_fit {
    double alpha;
    double error;   /* standard error */
    uint64_t ranks; /* R: it is about the objects of ranks 1 .. R */
    double share;   /* of all requests that those have */
    double misfit;  /* largest difference, over r, of the share of the R ranks' requests that the first r have, from the law's */
};

/* Fewer ranks than this, unless that is all objects, are no fit. */
#define ZIPF_RANKS_MIN 10
/* counts[0 .. objects): requests of each object, the most first, none 0. INVALID: there is no fit, since the counts tell fewer ranks
 * apart: too few requests, or objects all alike. FULL: no memory. */
enum status zipf_fit(const uint64_t *counts, uint64_t objects, struct zipf_fit *ret_fit);

/* Most first. */
void counts_sort(uint64_t *counts, uint64_t objects);

#endif
