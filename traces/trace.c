/* The readers behind one interface: opens, finds the first line, gives row after row, keeps time from going back.
 * What a row means is the format's own file. */
#include <stdlib.h>

#include "reader.h"

/* --- opening --- */

void path_show(const char *path, char *ret_shown, size_t bytes)
{
    size_t i;

    for (i = 0; path[i] != 0 && i < bytes - 4; i++)
        ret_shown[i] = (unsigned char)path[i] < 0x20 || path[i] == 0x7f ? '?' : path[i];
    snprintf(ret_shown + i, 4, "%s", path[i] != 0 ? "..." : "");
}

/* A message when the bytes before the first line say that it is no text of ours. */
static bool strip_mark(struct trace *trace)
{
    struct line *line = &trace->line;

    if (line->length >= 2 && (memcmp(line->text, "\xff\xfe", 2) == 0 || memcmp(line->text, "\xfe\xff", 2) == 0)) {
        trace_say(trace, 1, 1, "the file is UTF-16; convert it (iconv -f UTF-16 -t UTF-8)");
        return false;
    }
    if (line->length < 3 || memcmp(line->text, "\xef\xbb\xbf", 3) != 0)
        return true;
    if (!trace->options.lenient) {
        trace_say(trace, 1, 1,
                  "a byte order mark begins the file; remove its 3 bytes (tail -c +4), or be lenient to pass over it");
        return false;
    }
    trace->info.skipped[TRACE_SKIP_MARK]++;
    line->text += 3;
    line->length -= 3;
    return true;
}

static enum status say_input(struct trace *trace, enum status status)
{
    trace_say(trace, trace->line.number, trace->line.length + 1, "%s", input_problem(trace->input));
    return status;
}

static bool line_is_blank(const struct line *line)
{
    for (size_t i = 0; i < line->length; i++)
        if (line->text[i] != ' ' && line->text[i] != '\t' && line->text[i] != '\r')
            return false;
    return true;
}

static bool is_aside(struct trace *trace)
{
    return trace->format != NULL && trace->format->is_aside != NULL && trace->format->is_aside(trace);
}

static enum status first_line(struct trace *trace)
{
    const char *nul;

    for (;;) {
        enum status status = input_next(trace->input, &trace->line);

        if (status == STATUS_END) {
            trace_say(trace, 1, 1, "the file %s; a trace has a header and rows",
                      trace->line.number == 0 ? "is empty" : "has nothing but blank lines");
            return STATUS_CORRUPT;
        }
        if (status != STATUS_OK)
            return say_input(trace, status);
        if (trace->line.number == 1 && !strip_mark(trace))
            return STATUS_CORRUPT;
        if (trace->line.too_long) {
            trace_say(trace, trace->line.number, LINE_BYTES_MAX + 1, "the line is longer than 1 MiB; is it a trace?");
            return STATUS_CORRUPT;
        }
        if (!line_is_blank(&trace->line))
            break;
        if (is_aside(trace))
            continue;
        trace_refuse(trace, TRACE_SKIP_BLANK, 1, "a blank line");
        if (!trace->options.lenient)
            return STATUS_CORRUPT;
    }
    nul = memchr(trace->line.text, 0, trace->line.length);
    if (nul == NULL)
        return STATUS_OK;
    trace_say(trace, trace->line.number, (size_t)(nul - trace->line.text) + 1, "a NUL byte; is it a trace?");
    return STATUS_CORRUPT;
}

static struct trace *trace_create(const char *path, const struct trace_opening *opening)
{
    struct trace *trace = calloc(1, sizeof(*trace));

    if (trace == NULL)
        return NULL;
    trace->families = opening->families;
    trace->options = opening->options;
    if (opening->options.columns != NULL)
        trace->columns = *opening->options.columns;
    if (opening->job_columns != NULL)
        trace->job_columns = *opening->job_columns;
    trace->options.columns = NULL; /* copied: the caller's may go */
    for (size_t i = 0; i < FORMAT_COLUMNS_MAX; i++)
        trace->at[i] = NONE_INDEX;
    path_show(path, trace->path, sizeof(trace->path));
    return trace;
}

/* `trace` is closed on failure. */
static enum status trace_begin(struct trace *trace, const char *format, struct trace **ret_trace, char *ret_message)
{
    enum status status = format != NULL ? format_find(trace, format) : STATUS_OK;

    check(trace->options.backward_tolerance_ns >= 0);
    if (status == STATUS_OK)
        status = first_line(trace);
    if (status == STATUS_OK && trace->format == NULL)
        status = format_guess(trace);
    if (status == STATUS_OK) {
        trace->info.format = trace->format->name;
        trace->info.has = trace->format->has;
        status = format_read_header(trace, &trace->headerless);
        trace->line_is_pending = trace->headerless;
        trace->headerless &= !trace->format->positional;
    }
    if (status == STATUS_OK) {
        *ret_trace = trace;
        return STATUS_OK;
    }
    memcpy(ret_message, trace->message, TRACE_MESSAGE_MAX);
    trace_close(trace);
    return status;
}

enum status trace_open_as(const char *path, const struct trace_opening *opening, struct trace **ret_trace,
                          char *ret_message)
{
    struct trace *trace = trace_create(path, opening);
    char problem[INPUT_PROBLEM_MAX];
    enum status status;

    if (trace == NULL) {
        snprintf(ret_message, TRACE_MESSAGE_MAX, "no memory to read a trace");
        return STATUS_IO;
    }
    status = input_open(path, &trace->input, problem);
    if (status == STATUS_OK)
        return trace_begin(trace, opening->format, ret_trace, ret_message);
    trace_say(trace, 0, 0, "%s", problem);
    memcpy(ret_message, trace->message, TRACE_MESSAGE_MAX);
    trace_close(trace);
    return status;
}

enum status trace_open_bytes_as(const void *bytes, size_t count, const struct trace_opening *opening,
                                struct trace **ret_trace, char *ret_message)
{
    struct trace *trace = trace_create("bytes", opening);

    if (trace != NULL) {
        trace->input = input_of_bytes(bytes, count);
        if (trace->input != NULL)
            return trace_begin(trace, opening->format, ret_trace, ret_message);
    }
    trace_close(trace);
    snprintf(ret_message, TRACE_MESSAGE_MAX, "no memory to read a trace");
    return STATUS_IO;
}

static struct trace_opening opening_of(const char *format, const struct trace_options *options)
{
    struct trace_opening opening = {.families = TRACE_REQUESTS, .format = format};

    if (options != NULL)
        opening.options = *options;
    return opening;
}

enum status trace_open(const char *path, const char *format, const struct trace_options *options,
                       struct trace **ret_trace, char *ret_message)
{
    struct trace_opening opening = opening_of(format, options);

    return trace_open_as(path, &opening, ret_trace, ret_message);
}

enum status trace_open_bytes(const void *bytes, size_t count, const char *format, const struct trace_options *options,
                             struct trace **ret_trace, char *ret_message)
{
    struct trace_opening opening = opening_of(format, options);

    return trace_open_bytes_as(bytes, count, &opening, ret_trace, ret_message);
}

void trace_close(struct trace *trace)
{
    if (trace == NULL)
        return;
    input_close(trace->input);
    for (uint32_t i = 0; i < trace->name_count; i++)
        free(trace->names[i]);
    free(trace);
}

/* --- rows --- */

/* Turns the file's time into time since the first row; refuses what goes back. */
static bool keep_order(struct trace *trace, int64_t *at_ns)
{
    int64_t back_ns = trace->started ? trace->last_ns - *at_ns : 0;

    if (back_ns > 0 && trace->options.lenient && back_ns <= trace->options.backward_tolerance_ns) {
        trace->info.skipped[TRACE_SKIP_CLAMPED]++;
        *at_ns = trace->last_ns;
    } else if (back_ns > 0) {
        uint32_t cell = trace->at[trace->format->time_column];
        uint32_t column = cell != NONE_INDEX ? trace->cells[cell].column : 1;

        return trace_refuse(trace, TRACE_SKIP_BACKWARD, column,
                            "time goes back by %lld.%09lld s from the row above; sort the file by time, or be lenient "
                            "to skip and count such lines",
                            (long long)(back_ns / NS_PER_S), (long long)(back_ns % NS_PER_S));
    }
    if (!trace->started)
        trace->origin_ns = *at_ns;
    trace->started = true;
    trace->last_ns = *at_ns;
    *at_ns -= trace->origin_ns;
    return true;
}

static bool read_job(struct trace *trace, struct job_row *row)
{
    *row = (struct job_row){.runtime_ns = -1, .requested_ns = -1, .status = JOB_ROW_UNKNOWN, .line = trace->line.number};
    return trace->format->read_job(trace, row) && keep_order(trace, &row->at_ns);
}

static bool read_request(struct trace *trace, struct trace_row *row)
{
    *row = (struct trace_row){.line = trace->line.number};
    return trace->format->read(trace, row) && keep_order(trace, &row->at_ns);
}

enum reading_of_line { LINE_IS_ROW, LINE_IS_REFUSED, LINE_IS_ASIDE };

/* Bytes that no format has. */
static bool line_is_text(struct trace *trace)
{
    const struct line *line = &trace->line;
    const char *nul;

    if (line->too_long)
        return trace_refuse(trace, TRACE_SKIP_SYNTAX, LINE_BYTES_MAX + 1, "the line is longer than 1 MiB");
    nul = memchr(line->text, 0, line->length);
    if (nul != NULL)
        return trace_refuse(trace, TRACE_SKIP_SYNTAX, (size_t)(nul - line->text) + 1, "a NUL byte");
    return true;
}

static enum reading_of_line read_line(struct trace *trace, union trace_any_row *row)
{
    bool good;

    if (!line_is_text(trace))
        return LINE_IS_REFUSED;
    if (is_aside(trace))
        return LINE_IS_ASIDE;
    if (line_is_blank(&trace->line))
        good = trace_refuse(trace, TRACE_SKIP_BLANK, 1, "a blank line");
    else if (trace->format->family == TRACE_JOBS)
        good = read_job(trace, &row->job);
    else
        good = read_request(trace, &row->request);
    return good ? LINE_IS_ROW : LINE_IS_REFUSED;
}

static enum status end_of_rows(struct trace *trace)
{
    if (trace->info.rows > 0)
        return STATUS_END;
    trace_say(trace, trace->line.number, 1, "no usable row; a trace without %s says nothing",
              trace->format->family == TRACE_JOBS ? "jobs" : "requests");
    return STATUS_CORRUPT;
}

/* What to do when the input gives no line. */
static enum status end_of_input(struct trace *trace, enum status status)
{
    if (status == STATUS_END)
        return end_of_rows(trace);
    if (status == STATUS_CORRUPT && trace->options.lenient && input_was_cut(trace->input)) {
        trace->info.skipped[TRACE_SKIP_CUT]++;
        return end_of_rows(trace);
    }
    return say_input(trace, status);
}

enum status trace_next_row(struct trace *trace, union trace_any_row *ret_row)
{
    while (trace->end == STATUS_OK) {
        enum reading_of_line reading;
        enum status status = trace->line_is_pending ? STATUS_OK : input_next(trace->input, &trace->line);

        trace->line_is_pending = false;
        if (status != STATUS_OK) {
            trace->end = end_of_input(trace, status);
            break;
        }
        reading = read_line(trace, ret_row);
        if (reading == LINE_IS_ROW) {
            trace->info.rows++;
            return STATUS_OK;
        }
        if (reading == LINE_IS_REFUSED && !trace->options.lenient)
            trace->end = STATUS_CORRUPT;
    }
    return trace->end;
}

enum status trace_next(struct trace *trace, struct trace_row *ret_row)
{
    union trace_any_row row;
    enum status status = trace_next_row(trace, &row);

    if (status == STATUS_OK)
        *ret_row = row.request;
    return status;
}

const char *trace_message(const struct trace *trace)
{
    return trace->message;
}

struct trace_info trace_info(const struct trace *trace)
{
    return trace->info;
}
