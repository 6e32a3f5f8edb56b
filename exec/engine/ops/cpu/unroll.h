/* Kernels are written as small functions and short loops of constant length that have to vanish: accumulators must be registers. Only a
 * build that is meant to be fast asks for that (KERNELS_UNROLLED, from the Makefile); with sanitizers it would cost minutes of compiling.
 * The order of summation is the text's, so bits do not depend on it. */
#ifndef CPU_UNROLL_H
#define CPU_UNROLL_H

#if !defined(KERNELS_UNROLLED)
#define VEC static inline __attribute__((unused))
#define UNROLL
#elif defined(__clang__)
#define VEC static inline __attribute__((always_inline))
#define UNROLL _Pragma("unroll")
#else
#define VEC static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")
#endif

#endif
