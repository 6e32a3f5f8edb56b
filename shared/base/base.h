/* The few words every file here may use: integers, check(), status, counting macros. */
#ifndef BASE_BASE_H
#define BASE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define ARRAY_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* An instant that does not come. */
#define NEVER_NS INT64_MAX
/* "No such index" in every table of 32-bit indexes. */
#define NONE_INDEX UINT32_MAX

#define NS_PER_S INT64_C(1000000000)
#define NS_PER_MS INT64_C(1000000)
#define NS_PER_US INT64_C(1000)

/* check() stays on in release builds: a wrong decision is worse than a stop.
 * check_failed() belongs to the host, which knows how to speak and how to stop; it must not return. */
#define check(condition) ((condition) ? (void)0 : check_failed(#condition, __FILE__, __LINE__))
#ifdef __cplusplus /* kernels read this header too */
extern "C" [[noreturn]] void check_failed(const char *condition, const char *file, int line);
#else
_Noreturn void check_failed(const char *condition, const char *file, int line);
#endif

/* Refusals by the machine or the input, which callers handle. Mistakes of ours go to check(). */
#define STATUS_LIST(X)                               \
    X(OK, "ok")                                      \
    X(INVALID, "value outside the documented range") \
    X(NOT_FOUND, "no such thing")                    \
    X(FULL, "fixed capacity reached")                \
    X(CORRUPT, "checksum or format mismatch")        \
    X(IO, "the operating system refused")            \
    X(CONFLICT, "somebody else was first")           \
    X(END, "no more")

enum status {
#define X(name, text) STATUS_##name,
    STATUS_LIST(X)
#undef X
};
const char *status_text(enum status status);

static inline uint64_t min_u64(uint64_t a, uint64_t b) { return a < b ? a : b; }
static inline uint64_t max_u64(uint64_t a, uint64_t b) { return a > b ? a : b; }
static inline uint32_t min_u32(uint32_t a, uint32_t b) { return a < b ? a : b; }
static inline uint32_t max_u32(uint32_t a, uint32_t b) { return a > b ? a : b; }
static inline int64_t min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t max_i64(int64_t a, int64_t b) { return a > b ? a : b; }

__extension__ typedef unsigned __int128 uint128; /* sums of nanoseconds and of money outgrow 64 bits */

/* ceil(a / b); b > 0. */
static inline uint64_t div_up_u64(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

#endif
