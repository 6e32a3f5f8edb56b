/* What every test may use: cmocka, reproducible draws, and a way to see check() stop the program. */
#ifndef TESTS_SUPPORT_H
#define TESTS_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base.h"

/* splitmix64: every seed, zero included, is its own stream. */
uint64_t draw(uint64_t *state);
/* 0 .. below - 1; the bias is below 2^-32 for small bounds. */
uint64_t draw_below(uint64_t *state, uint64_t below);
/* Uniform in (0, 1). */
double draw_unit(uint64_t *state);

/* The seed of a random test: BERTH_TEST_SEED from the environment, or `fallback`; print it when you fail. */
uint64_t test_seed(uint64_t fallback);

/* ../shared beside the checkout, where real traces and reference results may lie; NULL where it is not. Tests that need
 * it call skip() and say so. */
const char *test_shared_path(const char *relative);

/* True when running `act(context)` ends in a failed check(). */
bool check_stops(void (*act)(void *context), void *context);

#endif
