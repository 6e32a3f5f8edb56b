/* A trace of requests to models as a trace of objects: its adapters are the ids. The base is not cached, so requests for it are
 * passed over and counted. The rules of request traces hold (trace.h): times count from the first row and never go back. */
#include "object_text.h"

static enum status requests_open(struct object_trace *trace)
{
    struct trace_columns columns = {.time_unit = trace->columns.time_unit};
    const struct trace_options options = {.columns = &columns};
    const char *format = trace->columns.adapter[0] != 0 ? "csv" : NULL;

    memcpy(columns.time, trace->columns.time, sizeof(columns.time));
    memcpy(columns.adapter, trace->columns.adapter, sizeof(columns.adapter));
    return trace->file != NULL
               ? trace_open(trace->file, format, &options, &trace->requests, trace->message)
               : trace_open_bytes(trace->bytes, trace->bytes_count, format, &options, &trace->requests, trace->message);
}

static void requests_stop(struct object_trace *trace)
{
    trace_close(trace->requests);
    trace->requests = NULL;
}

static enum status requests_start(struct object_trace *trace)
{
    /* It is opened a second time, by its own reader. */
    enum status status = object_text_start(trace);

    requests_stop(trace);
    if (status == STATUS_OK && input_rewind(trace->input) != STATUS_OK)
        status = object_say(trace, STATUS_IO, "%s", input_problem(trace->input));
    if (status == STATUS_OK)
        status = trace->end = requests_open(trace);
    if (status == STATUS_OK && (trace_info(trace->requests).has & TRACE_HAS_ADAPTER) == 0)
        status = object_say(trace, STATUS_INVALID, "%s names no adapters; give a csv and name their column",
                            trace_info(trace->requests).format);
    return status;
}

static uint32_t requests_fill(struct object_trace *trace, struct object_request *rows, uint32_t max)
{
    uint32_t count = 0;
    struct trace_row row;

    while (count < max && (trace->end = trace_next(trace->requests, &row)) == STATUS_OK) {
        const char *problem;

        if (row.adapter[0] == 0) {
            trace->info.passed_over++;
            continue;
        }
        problem = object_id_of(trace, row.adapter, strlen(row.adapter), &rows[count].id);
        if (problem != NULL) {
            trace->text.head_lines = row.line - 1;
            object_refuse_line(trace, 0, 1, "adapter '%s' %s", quote(row.adapter, strlen(row.adapter)).text, problem);
            break;
        }
        rows[count].size_bytes = trace->options.size_bytes;
        rows[count].at_ns = row.at_ns;
        rows[count].next = OBJECT_NEXT_UNKNOWN;
        count++;
    }
    if (trace->end != STATUS_OK && trace->end != STATUS_END && trace->message[0] == 0)
        memcpy(trace->message, trace_message(trace->requests), TRACE_MESSAGE_MAX);
    return count;
}

static bool requests_recognise(const struct object_trace *trace)
{
    return trace->columns.adapter[0] != 0;
}

const struct object_format object_format_requests = {
    .name = "requests",
    .about = "requests to models: their adapters are the objects, the base is none",
    .has_time = true,
    .has_columns = true,
    .recognise = requests_recognise,
    .start = requests_start,
    .fill = requests_fill,
    .stop = requests_stop,
};
