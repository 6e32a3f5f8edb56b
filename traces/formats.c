/* Which format a file has, by its name or by the first line, and whether the header fits it. */
#include <stdlib.h>

#include "reader.h"

static const struct trace_format *const formats[] = {
#define X(word) &trace_format_##word,
    TRACE_FORMATS(X)
#undef X
};

const struct trace_format *format_at(enum trace_family family, size_t index)
{
    for (size_t i = 0; i < ARRAY_COUNT(formats); i++)
        if (formats[i]->family == family && index-- == 0)
            return formats[i];
    return NULL;
}

bool trace_format_at(size_t index, const char **ret_name, const char **ret_about)
{
    const struct trace_format *format = format_at(TRACE_REQUESTS, index);

    if (format == NULL)
        return false;
    *ret_name = format->name;
    *ret_about = format->about;
    return true;
}

bool job_trace_format_at(size_t index, const char **ret_name, const char **ret_about)
{
    const struct trace_format *format = format_at(TRACE_JOBS, index);

    if (format == NULL)
        return false;
    *ret_name = format->name;
    *ret_about = format->about;
    return true;
}

/* May the file that is being opened have this format? */
static bool is_wanted(const struct trace *trace, const struct trace_format *format)
{
    return (trace->families & (uint32_t)format->family) != 0;
}

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

/* Every cell is a column of the format, and nothing that must be there is missing: match_header() without words. */
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

/* " (it looks like the azure format)" when another format would take this line; "" otherwise. */
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

static bool name_keep(struct trace *trace, const char *text, size_t length)
{
    char *name = malloc(length + 1);

    if (name == NULL) {
        trace_say(trace, 0, 0, "no memory for the header");
        return false;
    }
    memcpy(name, text, length);
    name[length] = 0;
    trace->names[trace->name_count++] = name;
    return true;
}

static bool names_keep(struct trace *trace)
{
    for (uint32_t i = 0; i < trace->cell_count; i++)
        if (!name_keep(trace, trace->cells[i].text, trace->cells[i].length))
            return false;
    return true;
}

bool format_name_cells(struct trace *trace, const char *const *names, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (!name_keep(trace, names[i], strlen(names[i])))
            return false;
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
                  "the header has no column '%s', which the %s format has%s; name the right format, or csv with its "
                  "columns",
                  format->columns[i].name, format->name, other_format(trace).text);
        return false;
    }
    return true;
}

enum status format_read_header(struct trace *trace, bool *ret_is_row)
{
    enum status status;
    const char *problem;
    size_t column;

    *ret_is_row = false;
    if (!has_columns(trace->format) && trace->format->recognise != NULL) {
        *ret_is_row = true; /* a format without a header */
        return trace->format->start != NULL ? trace->format->start(trace, ret_is_row) : STATUS_OK;
    }
    if (!trace_split(trace, &problem, &column)) {
        trace_say(trace, trace->line.number, column, "%s in the header%s; correct it, or name the right format",
                  problem, other_format(trace).text);
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

enum status format_find(struct trace *trace, const char *name)
{
    char names[256];
    size_t used = 0;

    for (size_t i = 0; i < ARRAY_COUNT(formats); i++) {
        if (is_wanted(trace, formats[i]) && strcmp(formats[i]->name, name) == 0) {
            trace->format = formats[i];
            return STATUS_OK;
        }
    }
    for (size_t i = 0; i < ARRAY_COUNT(formats); i++)
        if (is_wanted(trace, formats[i]) && used < sizeof(names))
            used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s", used == 0 ? "" : ", ",
                                     formats[i]->name);
    trace_say(trace, 0, 0, "'%s' is no trace format; they are %s", quote(name, strlen(name)).text, names);
    return STATUS_NOT_FOUND;
}

/* Who names columns means csv; else by the first line. */
enum status format_guess(struct trace *trace)
{
    const char *problem;
    size_t column;
    bool cells;

    if ((trace->families & TRACE_REQUESTS) != 0 && trace->columns.time[0] != 0)
        trace->format = &trace_format_csv;
    else if ((trace->families & TRACE_JOBS) != 0 && (trace->job_columns.time[0] | trace->job_columns.runtime[0]) != 0)
        trace->format = &trace_format_jobs_csv;
    if (trace->format != NULL)
        return STATUS_OK;
    for (size_t i = 0; i < ARRAY_COUNT(formats) && trace->format == NULL; i++)
        if (is_wanted(trace, formats[i]) && !has_columns(formats[i]) && formats[i]->recognise != NULL &&
            formats[i]->recognise(trace))
            trace->format = formats[i];
    cells = trace_split(trace, &problem, &column);
    for (size_t i = 0; i < ARRAY_COUNT(formats) && cells && trace->format == NULL; i++)
        if (is_wanted(trace, formats[i]) && has_columns(formats[i]) && header_fits(trace, formats[i]))
            trace->format = formats[i];
    if (trace->format != NULL)
        return STATUS_OK;
    trace_say(trace, trace->line.number, 1,
              "'%s' begins no trace format known here; name the format, or csv with its columns",
              quote(trace->line.text, trace->line.length).text);
    return STATUS_CORRUPT;
}
