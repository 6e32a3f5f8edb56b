/* What queueing theory says, and how near a finite run has to come to it. */
#ifndef TESTS_ENGINE_THEORY_H
#define TESTS_ENGINE_THEORY_H

#include <stdint.h>

/* P(wait) of M/M/c, load = lambda / mu. */
double theory_erlang_c(uint32_t servers, double load);
/* Coefficient of variation of a wait that is 0 with probability 1 - `waiting` and exponential otherwise. */
double theory_wait_cv(double waiting);
/* Relative standard error of a mean over `duration` service times of something with coefficient of variation `cv` that
 * forgets itself with the queue's relaxation time 1 / (c mu (1 - sqrt(rho))^2) (Cohen 1982, mu = 1). */
double theory_relative_error(double rate, double servers, double duration, double cv);
/* Fails unless `got` is within four standard errors of `theory`, or within `floor`, whichever is wider; all relative. */
void theory_expect(const char *what, double got, double theory, double floor, double error);

#endif
