/* The interface of job traces: the machinery of trace.c, told to expect jobs. */
#include "reader.h"

/* The same object under a name of its own, so that nobody asks a job trace for requests. */
struct job_trace {
    struct trace trace;
};

static struct trace_opening opening_of(const char *format, const struct job_trace_options *options)
{
    struct trace_opening opening = {.families = TRACE_JOBS, .format = format};

    if (options != NULL) {
        opening.options.lenient = options->lenient;
        opening.options.backward_tolerance_ns = options->backward_tolerance_ns;
        opening.job_columns = options->columns;
    }
    return opening;
}

enum status job_trace_open(const char *path, const char *format, const struct job_trace_options *options,
                           struct job_trace **ret_trace, char *ret_message)
{
    struct trace_opening opening = opening_of(format, options);
    struct trace *trace;
    enum status status = trace_open_as(path, &opening, &trace, ret_message);

    if (status == STATUS_OK)
        *ret_trace = (struct job_trace *)trace;
    return status;
}

enum status job_trace_open_bytes(const void *bytes, size_t count, const char *format,
                                 const struct job_trace_options *options, struct job_trace **ret_trace,
                                 char *ret_message)
{
    struct trace_opening opening = opening_of(format, options);
    struct trace *trace;
    enum status status = trace_open_bytes_as(bytes, count, &opening, &trace, ret_message);

    if (status == STATUS_OK)
        *ret_trace = (struct job_trace *)trace;
    return status;
}

enum status trace_open_either(const char *path, const char *format, const struct trace_options *options,
                              struct trace **ret_requests, struct job_trace **ret_jobs, char *ret_message)
{
    struct trace_opening opening = {.families = TRACE_REQUESTS | TRACE_JOBS, .format = format};
    struct trace *trace;
    enum status status;

    if (options != NULL)
        opening.options = *options;
    status = trace_open_as(path, &opening, &trace, ret_message);
    if (status != STATUS_OK)
        return status;
    *ret_requests = trace->format->family == TRACE_REQUESTS ? trace : NULL;
    *ret_jobs = trace->format->family == TRACE_JOBS ? (struct job_trace *)trace : NULL;
    return STATUS_OK;
}

enum status job_trace_next(struct job_trace *trace, struct job_row *ret_row)
{
    union trace_any_row row;
    enum status status = trace_next_row(&trace->trace, &row);

    if (status == STATUS_OK)
        *ret_row = row.job;
    return status;
}

const char *job_trace_message(const struct job_trace *trace)
{
    return trace_message(&trace->trace);
}

struct trace_info job_trace_info(const struct job_trace *trace)
{
    return trace_info(&trace->trace);
}

void job_trace_close(struct job_trace *trace)
{
    trace_close((struct trace *)trace);
}
