/* The readers behind one interface: finds the format, matches the header, keeps time from going back, refuses or counts
 * what is bad. What a row means is the format's own file. */
#include <stdarg.h>
#include <stdlib.h>

#include "reader.h"

static const struct trace_format *const formats[] = {
#define X(word) &trace_format_##word,
    TRACE_FORMATS(X)
#undef X
};

/* --- messages --- */

struct quoted quote(const char *text, size_t length)
{
    struct quoted quoted;
    size_t used = 0;
    size_t i;

    for (i = 0; i < length && used < sizeof(quoted.text) - 8; i++) {
        unsigned char c = (unsigned char)text[i];

        if (c >= 0x20 && c < 0x7f)
            quoted.text[used++] = (char)c;
        else
            used += (size_t)snprintf(quoted.text + used, 5, "\\x%02x", c);
    }
    snprintf(quoted.text + used, 4, "%s", i < length ? "..." : "");
    return quoted;
}

/* The path as the user gave it, but no byte of it can move a cursor. */
static void show_path(struct trace *trace, const char *path)
{
    size_t i;

    for (i = 0; path[i] != 0 && i < sizeof(trace->path) - 4; i++)
        trace->path[i] = (unsigned char)path[i] < 0x20 || path[i] == 0x7f ? '?' : path[i];
    snprintf(trace->path + i, 4, "%s", path[i] != 0 ? "..." : "");
}

__attribute__((format(printf, 4, 0)))
static void say(struct trace *trace, uint64_t line, size_t column, const char *what, va_list arguments)
{
    size_t used;

    if (line > 0)
        snprintf(trace->message, sizeof(trace->message), "%s:%llu:%zu: ", trace->path, (unsigned long long)line, column);
    else
        snprintf(trace->message, sizeof(trace->message), "%s: ", trace->path);
    used = strlen(trace->message);
    vsnprintf(trace->message + used, sizeof(trace->message) - used, what, arguments);
}

static void append(struct trace *trace, const char *text)
{
    size_t used = strlen(trace->message);

    snprintf(trace->message + used, sizeof(trace->message) - used, "%s", text);
}

void trace_say(struct trace *trace, uint64_t line, size_t column, const char *what, ...)
{
    va_list arguments;

    va_start(arguments, what);
    say(trace, line, column, what, arguments);
    va_end(arguments);
}

bool trace_refuse(struct trace *trace, enum trace_skip skip, size_t column, const char *what, ...)
{
    bool cut = !trace->line.terminated && (skip == TRACE_SKIP_COLUMNS || skip == TRACE_SKIP_SYNTAX);
    va_list arguments;

    if (trace->options.lenient) {
        trace->info.skipped[cut ? TRACE_SKIP_CUT : skip]++;
        return false;
    }
    va_start(arguments, what);
    say(trace, trace->line.number, column, what, arguments);
    va_end(arguments);
    if (cut)
        append(trace, ", and the file ends without a newline: it was cut; fetch it again, or be lenient to leave out its last line");
    else if (strchr(what, ';') == NULL)
        append(trace, "; correct the line, or be lenient to skip and count such lines");
    return false;
}

bool trace_refuse_cell(struct trace *trace, enum trace_skip skip, uint32_t cell, const char *problem)
{
    const struct cell *at = &trace->cells[cell];
    char number[16];
    const char *name = number;

    snprintf(number, sizeof(number), "column %u", cell + 1);
    if (!trace->headerless)
        name = trace->names[cell];
    /* A comma just before the cut leaves an empty last cell. */
    if (at->length == 0 && cell == trace->cell_count - 1 && !trace->line.terminated)
        skip = TRACE_SKIP_SYNTAX;
    return trace_refuse(trace, skip, at->column, "%s '%s' %s", quote(name, strlen(name)).text,
                        quote(at->text, at->length).text, problem);
}

/* --- values of a row --- */

/* Once a line, since it takes the quotes off in place. */
static bool split(struct trace *trace, const char **ret_problem, size_t *ret_column)
{
    if (trace->split_line == trace->line.number)
        return true;
    if (!cells_split(&trace->line, trace->cells, &trace->cell_count, ret_problem, ret_column))
        return false;
    trace->split_line = trace->line.number;
    return true;
}

bool trace_cells(struct trace *trace)
{
    const char *problem;
    size_t column;

    if (!split(trace, &problem, &column))
        return trace_refuse(trace, TRACE_SKIP_SYNTAX, column, "%s", problem);
    if (trace->cell_count == trace->name_count)
        return true;
    column = trace->cell_count > trace->name_count ? trace->cells[trace->name_count].column : trace->line.length + 1;
    return trace_refuse(trace, TRACE_SKIP_COLUMNS, column, "%u column%s where the header has %u", trace->cell_count,
                        trace->cell_count == 1 ? "" : "s", trace->name_count);
}

bool trace_read_tokens(struct trace *trace, uint32_t cell, bool zero_is_fine, uint32_t *ret_tokens)
{
    const struct cell *at = &trace->cells[cell];
    const char *problem = value_count(at->text, at->length, TRACE_TOKENS_MAX, ret_tokens);

    if (problem == NULL && *ret_tokens == 0 && !zero_is_fine)
        problem = "is no length of a request";
    return problem == NULL || trace_refuse_cell(trace, TRACE_SKIP_LENGTH, cell, problem);
}

bool trace_read_name(struct trace *trace, uint32_t cell, char ret_name[TRACE_ID_MAX])
{
    const struct cell *at = &trace->cells[cell];
    const char *problem = value_name(at->text, at->length, ret_name);

    return problem == NULL || trace_refuse_cell(trace, TRACE_SKIP_NAME, cell, problem);
}

bool trace_read_time(struct trace *trace, uint32_t cell, enum trace_time_unit unit, int64_t *ret_ns)
{
    static const int digits[] = {[TRACE_TIME_S] = 9, [TRACE_TIME_MS] = 6, [TRACE_TIME_US] = 3, [TRACE_TIME_NS] = 0};
    const struct cell *at = &trace->cells[cell];
    const char *problem = unit == TRACE_TIME_DATETIME ? value_datetime_ns(at->text, at->length, ret_ns)
                                                      : value_decimal_ns(at->text, at->length, digits[unit], ret_ns);

    return problem == NULL || trace_refuse_cell(trace, TRACE_SKIP_TIME, cell, problem);
}

/* --- headers --- */

static bool has_columns(const struct trace_format *format)
{
    return format->columns[0].name != NULL;
}

static bool cell_is(const struct cell *cell, const char *name)
{
    return strlen(name) == cell->length && memcmp(name, cell->text, cell->length) == 0;
}

/* Index of the format's column of this name, FORMAT_COLUMNS_MAX: none. */
static uint32_t column_of(const struct trace_format *format, const struct cell *cell)
{
    for (uint32_t i = 0; i < FORMAT_COLUMNS_MAX && format->columns[i].name != NULL; i++)
        if (cell_is(cell, format->columns[i].name))
            return i;
    return FORMAT_COLUMNS_MAX;
}

/* Every cell is a column of the format, and nothing that must be there is missing: the same as match_header(), silent. */
static bool header_fits(const struct trace *trace, const struct trace_format *format)
{
    uint32_t seen = 0;

    for (uint32_t i = 0; i < trace->cell_count; i++) {
        uint32_t column = column_of(format, &trace->cells[i]);

        if (column == FORMAT_COLUMNS_MAX)
            return false;
        seen |= 1u << column;
    }
    for (uint32_t i = 0; i < FORMAT_COLUMNS_MAX && format->columns[i].name != NULL; i++)
        if (!format->columns[i].optional && (seen >> i & 1) == 0)
            return false;
    return true;
}

/* ", which looks like the azure format" when another format would take this line; "" otherwise. */
static struct quoted other_format(struct trace *trace)
{
    struct quoted hint = {""};

    for (size_t i = 0; i < ARRAY_COUNT(formats); i++) {
        bool fits = has_columns(formats[i]) ? header_fits(trace, formats[i])
                                            : formats[i]->recognise != NULL && formats[i]->recognise(trace);

        if (fits && formats[i] != trace->format)
            snprintf(hint.text, sizeof(hint.text), " (it looks like the %s format)", formats[i]->name);
    }
    return hint;
}

static bool names_keep(struct trace *trace)
{
    for (uint32_t i = 0; i < trace->cell_count; i++) {
        const struct cell *cell = &trace->cells[i];
        char *name = malloc((size_t)cell->length + 1);

        if (name == NULL) {
            trace_say(trace, 0, 0, "no memory for the header");
            return false;
        }
        memcpy(name, cell->text, cell->length);
        name[cell->length] = 0;
        trace->names[trace->name_count++] = name;
    }
    return true;
}

static bool header_has_no_twins(struct trace *trace)
{
    for (uint32_t i = 0; i < trace->cell_count; i++) {
        const struct cell *cell = &trace->cells[i];

        for (uint32_t j = 0; j < i; j++) {
            const struct cell *other = &trace->cells[j];

            if (cell->length != other->length || memcmp(cell->text, other->text, cell->length) != 0)
                continue;
            trace_say(trace, trace->line.number, cell->column, "two columns are named '%s'; rename one of them",
                      quote(cell->text, cell->length).text);
            return false;
        }
    }
    return true;
}

static bool match_header(struct trace *trace)
{
    const struct trace_format *format = trace->format;

    for (uint32_t i = 0; i < trace->cell_count; i++) {
        const struct cell *cell = &trace->cells[i];
        uint32_t column = column_of(format, cell);

        if (column == FORMAT_COLUMNS_MAX) {
            trace_say(trace, trace->line.number, cell->column,
                      "'%s' is no column of the %s format%s; name the right format, or csv with its columns",
                      quote(cell->text, cell->length).text, format->name, other_format(trace).text);
            return false;
        }
        trace->at[column] = i;
    }
    for (uint32_t i = 0; i < FORMAT_COLUMNS_MAX && format->columns[i].name != NULL; i++) {
        if (format->columns[i].optional || trace->at[i] != NONE_INDEX)
            continue;
        trace_say(trace, trace->line.number, trace->line.length + 1,
                  "the header has no column '%s', which the %s format has%s; name the right format, or csv with its columns",
                  format->columns[i].name, format->name, other_format(trace).text);
        return false;
    }
    return true;
}

static enum status read_header(struct trace *trace, bool *ret_is_row)
{
    enum status status;
    const char *problem;
    size_t column;

    *ret_is_row = false;
    if (!has_columns(trace->format) && trace->format->recognise != NULL) {
        *ret_is_row = true; /* a format without a header */
        return STATUS_OK;
    }
    if (!split(trace, &problem, &column)) {
        trace_say(trace, trace->line.number, column, "%s in the header%s; correct it, or name the right format", problem,
                  other_format(trace).text);
        return STATUS_CORRUPT;
    }
    if (!names_keep(trace))
        return STATUS_IO;
    if (has_columns(trace->format) && (!header_has_no_twins(trace) || !match_header(trace)))
        return STATUS_CORRUPT;
    if (trace->format->start == NULL)
        return STATUS_OK;
    status = trace->format->start(trace, ret_is_row);
    if (status == STATUS_OK && !*ret_is_row && !header_has_no_twins(trace))
        return STATUS_CORRUPT;
    return status;
}

/* --- opening --- */

static enum status find_format(struct trace *trace, const char *name)
{
    for (size_t i = 0; i < ARRAY_COUNT(formats); i++) {
        if (strcmp(formats[i]->name, name) == 0) {
            trace->format = formats[i];
            return STATUS_OK;
        }
    }
    trace_say(trace, 0, 0, "'%s' is no trace format; they are", quote(name, strlen(name)).text);
    for (size_t i = 0; i < ARRAY_COUNT(formats); i++) {
        append(trace, i == 0 ? " " : ", ");
        append(trace, formats[i]->name);
    }
    return STATUS_NOT_FOUND;
}

/* Who names columns means csv; else by the first line. */
static enum status guess_format(struct trace *trace)
{
    const char *problem;
    size_t column;
    bool cells;

    if (trace->columns.time[0] != 0) {
        trace->format = &trace_format_csv;
        return STATUS_OK;
    }
    for (size_t i = 0; i < ARRAY_COUNT(formats) && trace->format == NULL; i++)
        if (!has_columns(formats[i]) && formats[i]->recognise != NULL && formats[i]->recognise(trace))
            trace->format = formats[i];
    cells = split(trace, &problem, &column);
    for (size_t i = 0; i < ARRAY_COUNT(formats) && cells && trace->format == NULL; i++)
        if (has_columns(formats[i]) && header_fits(trace, formats[i]))
            trace->format = formats[i];
    if (trace->format != NULL)
        return STATUS_OK;
    trace_say(trace, trace->line.number, 1, "'%s' begins no trace format known here; name the format, or csv with its columns",
              quote(trace->line.text, trace->line.length).text);
    return STATUS_CORRUPT;
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
        trace_say(trace, 1, 1, "a byte order mark begins the file; remove its 3 bytes (tail -c +4), or be lenient to pass over it");
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

static struct trace *trace_create(const char *path, const struct trace_options *options)
{
    struct trace *trace = calloc(1, sizeof(*trace));

    if (trace == NULL)
        return NULL;
    if (options != NULL) {
        trace->options = *options;
        if (options->columns != NULL)
            trace->columns = *options->columns;
        trace->options.columns = NULL; /* copied: the caller's may go */
    }
    for (size_t i = 0; i < FORMAT_COLUMNS_MAX; i++)
        trace->at[i] = NONE_INDEX;
    show_path(trace, path);
    return trace;
}

/* `trace` is closed on failure. */
static enum status trace_begin(struct trace *trace, const char *format, struct trace **ret_trace, char *ret_message)
{
    enum status status = format != NULL ? find_format(trace, format) : STATUS_OK;

    check(trace->options.backward_tolerance_ns >= 0);
    if (status == STATUS_OK)
        status = first_line(trace);
    if (status == STATUS_OK && trace->format == NULL)
        status = guess_format(trace);
    if (status == STATUS_OK) {
        trace->info.format = trace->format->name;
        trace->info.has = trace->format->has;
        status = read_header(trace, &trace->headerless);
        trace->line_is_pending = trace->headerless;
    }
    if (status == STATUS_OK) {
        *ret_trace = trace;
        return STATUS_OK;
    }
    memcpy(ret_message, trace->message, TRACE_MESSAGE_MAX);
    trace_close(trace);
    return status;
}

enum status trace_open(const char *path, const char *format, const struct trace_options *options, struct trace **ret_trace,
                       char *ret_message)
{
    struct trace *trace = trace_create(path, options);
    char problem[INPUT_PROBLEM_MAX];
    enum status status;

    if (trace == NULL) {
        snprintf(ret_message, TRACE_MESSAGE_MAX, "no memory to read a trace");
        return STATUS_IO;
    }
    status = input_open(path, &trace->input, problem);
    if (status == STATUS_OK)
        return trace_begin(trace, format, ret_trace, ret_message);
    trace_say(trace, 0, 0, "%s", problem);
    memcpy(ret_message, trace->message, TRACE_MESSAGE_MAX);
    trace_close(trace);
    return status;
}

enum status trace_open_bytes(const void *bytes, size_t count, const char *format, const struct trace_options *options,
                             struct trace **ret_trace, char *ret_message)
{
    struct trace *trace = trace_create("bytes", options);

    if (trace != NULL) {
        trace->input = input_of_bytes(bytes, count);
        if (trace->input != NULL)
            return trace_begin(trace, format, ret_trace, ret_message);
    }
    trace_close(trace);
    snprintf(ret_message, TRACE_MESSAGE_MAX, "no memory to read a trace");
    return STATUS_IO;
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
static bool keep_order(struct trace *trace, struct trace_row *row)
{
    int64_t back_ns = trace->started ? trace->last_ns - row->at_ns : 0;

    if (back_ns > 0 && trace->options.lenient && back_ns <= trace->options.backward_tolerance_ns) {
        trace->info.skipped[TRACE_SKIP_CLAMPED]++;
        row->at_ns = trace->last_ns;
    } else if (back_ns > 0) {
        uint32_t column = trace->at[0] != NONE_INDEX ? trace->cells[trace->at[0]].column : 1;

        return trace_refuse(trace, TRACE_SKIP_BACKWARD, column,
                            "time goes back by %lld.%09lld s from the row above; sort the file by time, or be lenient "
                            "to skip and count such lines",
                            (long long)(back_ns / NS_PER_S), (long long)(back_ns % NS_PER_S));
    }
    if (!trace->started)
        trace->origin_ns = row->at_ns;
    trace->started = true;
    trace->last_ns = row->at_ns;
    row->at_ns -= trace->origin_ns;
    return true;
}

static bool read_row(struct trace *trace, struct trace_row *row)
{
    const struct line *line = &trace->line;
    const char *nul;

    if (line->too_long)
        return trace_refuse(trace, TRACE_SKIP_SYNTAX, LINE_BYTES_MAX + 1, "the line is longer than 1 MiB");
    nul = memchr(line->text, 0, line->length);
    if (nul != NULL)
        return trace_refuse(trace, TRACE_SKIP_SYNTAX, (size_t)(nul - line->text) + 1, "a NUL byte");
    if (line_is_blank(line))
        return trace_refuse(trace, TRACE_SKIP_BLANK, 1, "a blank line");
    memset(row, 0, sizeof(*row));
    row->line = line->number;
    return trace->format->read(trace, row) && keep_order(trace, row);
}

static enum status end_of_rows(struct trace *trace)
{
    if (trace->info.rows > 0)
        return STATUS_END;
    trace_say(trace, trace->line.number, 1, "no usable row; a trace without requests says nothing");
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

enum status trace_next(struct trace *trace, struct trace_row *ret_row)
{
    struct trace_row row;

    while (trace->end == STATUS_OK) {
        enum status status = trace->line_is_pending ? STATUS_OK : input_next(trace->input, &trace->line);

        trace->line_is_pending = false;
        if (status != STATUS_OK) {
            trace->end = end_of_input(trace, status);
        } else if (read_row(trace, &row)) {
            trace->info.rows++;
            *ret_row = row;
            return STATUS_OK;
        } else if (!trace->options.lenient) {
            trace->end = STATUS_CORRUPT;
        }
    }
    return trace->end;
}

const char *trace_message(const struct trace *trace)
{
    return trace->message;
}

struct trace_info trace_info(const struct trace *trace)
{
    return trace->info;
}

bool trace_format_at(size_t index, const char **ret_name, const char **ret_about)
{
    if (index >= ARRAY_COUNT(formats))
        return false;
    *ret_name = formats[index]->name;
    *ret_about = formats[index]->about;
    return true;
}
