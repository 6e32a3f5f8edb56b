/* How many spot machines there are to be had over time: the JSON of SkyPilot's spot traces,
 * {"metadata": {"gap_seconds": g}, "data": [n, ...]}, one count every g seconds. Given as steps: only where the count
 * changes. The publisher says that the counts are machines available; files made for SkyPilot's own simulator count the
 * ones taken away instead, and nothing in a file tells which it is, so the caller does. */
#ifndef TRACES_SPOT_H
#define TRACES_SPOT_H

#include "trace.h"

#define SPOT_COUNT_MAX 1000000u
#define SPOT_BYTES_MAX (64u << 20) /* a longer file is refused */

struct spot_step {
    int64_t at_ns;      /* from this instant */
    uint32_t available; /* so many, until the next step or the end */
};

struct spot_info {
    uint64_t ticks;
    int64_t gap_ns;
    int64_t duration_ns; /* ticks x gap */
    uint32_t available_max;
    uint64_t available_ticks; /* with one machine or more */
};

/* What the counts are. SPOT_TAKEN: as many are available as the greatest count leaves. */
enum spot_polarity { SPOT_AVAILABLE, SPOT_TAKEN };

struct spot_trace;

/* The whole file is read and checked here: plain, gzip or zstd. Messages as those of trace_open(). */
enum status spot_open(const char *path, enum spot_polarity polarity, struct spot_trace **ret_trace, char *ret_message);
enum status spot_open_bytes(const void *bytes, size_t count, enum spot_polarity polarity,
                            struct spot_trace **ret_trace, char *ret_message);
/* STATUS_OK, or STATUS_END past the last step. The first step is at 0. */
enum status spot_next(struct spot_trace *trace, struct spot_step *ret_step);
void spot_rewind(struct spot_trace *trace);
struct spot_info spot_info(const struct spot_trace *trace);
void spot_close(struct spot_trace *trace); /* accepts NULL */

#endif
