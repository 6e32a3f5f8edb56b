/* Readers of job traces: when jobs were submitted, how long they ran and what they asked for. The same rules as for
 * request traces (trace.h): one line and one row in memory, bad input refused with file, line and column or, with
 * `lenient`, skipped and counted. Time never decreases; the formats say so of themselves, and every log here keeps it. */
#ifndef TRACES_JOB_TRACE_H
#define TRACES_JOB_TRACE_H

#include "trace.h"

#define JOB_GPUS_MAX 1000000u /* more is absurd, and refused */

/* What a row can tell; `has` of struct trace_info says which columns the format has. */
enum job_column {
    JOB_HAS_ARRIVAL = 1,    /* without it every at_ns is 0 */
    JOB_HAS_RUNTIME = 2,
    JOB_HAS_REQUESTED = 4,
    JOB_HAS_GPUS = 8,
    JOB_HAS_GPU_SHARE = 16,
    JOB_HAS_MEMORY = 32,
    JOB_HAS_STATUS = 64,
    JOB_HAS_USER = 128,
    JOB_HAS_NAME = 256,
    JOB_HAS_QUEUE = 512
};

#define JOB_ROW_STATUSES(X) X(DONE, "done") X(FAILED, "failed") X(CANCELLED, "cancelled") X(RUNNING, "running") X(UNKNOWN, "unknown")
enum job_row_status {
#define X(name, word) JOB_ROW_##name,
    JOB_ROW_STATUSES(X)
#undef X
    JOB_ROW_STATUS_COUNT
};

struct job_row {
    int64_t at_ns;          /* submitted, since the first row; never decreasing */
    int64_t runtime_ns;     /* it ran so long; -1: unknown, or it never ran */
    int64_t requested_ns;   /* it asked for so long; -1: unknown */
    uint32_t gpus;          /* whole GPUs, or processors where the trace counts those; 0: none, or a share of one */
    uint32_t gpu_milli;     /* the share, when it asked for less than one GPU: 1..999; else 0 */
    uint64_t memory_bytes;  /* of all its processes together; 0: unknown */
    enum job_row_status status;
    char user[TRACE_ID_MAX];
    char name[TRACE_ID_MAX];
    char queue[TRACE_ID_MAX]; /* the class it belongs to: queue, quality of service or application */
    uint64_t line;          /* where it stands, from 1 */
};

/* For the generic CSV, as in struct trace_columns; the time or the run time must be there. Run times and requested
 * times are in the unit of the time, or in seconds where that is a datetime. GPUs may be a fraction below 1. */
struct job_columns {
    char time[TRACE_ID_MAX];
    char runtime[TRACE_ID_MAX];
    char requested[TRACE_ID_MAX];
    char gpus[TRACE_ID_MAX];
    char memory[TRACE_ID_MAX]; /* bytes */
    char status[TRACE_ID_MAX];
    char user[TRACE_ID_MAX];
    char name[TRACE_ID_MAX];
    char queue[TRACE_ID_MAX];
    enum trace_time_unit time_unit;
};

struct job_trace_options {
    bool lenient;
    int64_t backward_tolerance_ns;
    const struct job_columns *columns; /* csv only */
};

struct job_trace;

/* format: "swf", "philly", "gavel", "openb", "sia", "csv", or NULL: guessed from the first line. */
enum status job_trace_open(const char *path, const char *format, const struct job_trace_options *options,
                           struct job_trace **ret_trace, char *ret_message);
/* As trace_next(). */
enum status job_trace_next(struct job_trace *trace, struct job_row *ret_row);
const char *job_trace_message(const struct job_trace *trace);
struct trace_info job_trace_info(const struct job_trace *trace);
void job_trace_close(struct job_trace *trace); /* accepts NULL */

bool job_trace_format_at(size_t index, const char **ret_name, const char **ret_about);

/* For a file that may hold requests or jobs, as its format's name or its first line says ("csv" is requests): exactly
 * one of the two is set, the other is NULL. */
enum status trace_open_either(const char *path, const char *format, const struct trace_options *options,
                              struct trace **ret_requests, struct job_trace **ret_jobs, char *ret_message);

#endif
