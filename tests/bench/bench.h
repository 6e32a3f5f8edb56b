/* Nanoseconds per operation, one JSON line a case. */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static inline double bench_cpu_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* True when `name` was asked for, or nothing was. */
static inline int bench_wanted(int argc, char **argv, const char *name)
{
    return argc < 2 || strcmp(argv[1], name) == 0;
}

static inline void bench_print(const char *name, const char *what, double seconds, uint64_t operations)
{
    printf("{\"name\": \"%s\", \"case\": \"%s\", \"value\": %.1f, \"unit\": \"ns\", \"per\": \"operation\", \"operations\": %llu}\n",
           name, what, seconds * 1e9 / (double)operations, (unsigned long long)operations);
}

#endif
