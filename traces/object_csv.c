/* Any CSV with a column of ids, and perhaps of sizes and times: by the caller's names or numbers, or by the usual names in the
 * header. Lines that are plainly good are read in one pass over their bytes; every other line is split and judged with care,
 * so what is good, and what is said of the rest, stands in one place (careful_line). */
#include <stdlib.h>

#include "object_text.h"

enum { ROLE_NONE, ROLE_ID, ROLE_SIZE, ROLE_TIME, ROLES };

static const char *const role_names[ROLES] = {[ROLE_ID] = "id", [ROLE_SIZE] = "size", [ROLE_TIME] = "time"};

/* What columns are called where nobody names them. */
static const char *const usual[ROLES][8] = {
    [ROLE_ID] = {"id", "obj_id", "object_id", "object", "key"},
    [ROLE_SIZE] = {"size", "obj_size", "object_size", "size_bytes", "bytes"},
    [ROLE_TIME] = {"time", "timestamp", "clock_time", "real_time"},
};

static const struct {
    int64_t ns;
    uint32_t digits; /* of the fraction, at most */
} units[] = {[TRACE_TIME_S] = {NS_PER_S, 9}, [TRACE_TIME_MS] = {NS_PER_MS, 6}, [TRACE_TIME_US] = {NS_PER_US, 3}, [TRACE_TIME_NS] = {1, 0}};

/* --- the first line --- */

static bool cell_is(const struct cell *cell, const char *text)
{
    return strlen(text) == cell->length && memcmp(text, cell->text, cell->length) == 0;
}

static uint32_t find_usual(const struct cell *cells, uint32_t count, unsigned role)
{
    for (uint32_t cell = 0; cell < count; cell++)
        for (size_t i = 0; i < ARRAY_COUNT(usual[role]) && usual[role][i] != NULL; i++)
            if (cell_is(&cells[cell], usual[role][i]))
                return cell;
    return NONE_INDEX;
}

/* By number from 1, else by name. */
static uint32_t find_named(const struct cell *cells, uint32_t count, const char *name, bool *ret_by_number)
{
    uint32_t number;

    *ret_by_number = value_count(name, strlen(name), CELLS_MAX, &number) == NULL && number > 0;
    if (*ret_by_number)
        return number <= count ? number - 1 : NONE_INDEX;
    for (uint32_t cell = 0; cell < count; cell++)
        if (cell_is(&cells[cell], name))
            return cell;
    return NONE_INDEX;
}

static const char *time_of(const struct object_trace *trace, const struct cell *cell, int64_t *ret_ns)
{
    enum trace_time_unit unit = trace->columns.time_unit;

    return unit == TRACE_TIME_DATETIME ? value_datetime_ns(cell->text, cell->length, ret_ns)
                                       : value_decimal_ns(cell->text, cell->length, (int)units[unit].digits, ret_ns);
}

/* Where all columns are numbers: a row has values where a header has names. */
static bool reads_as_row(const struct object_trace *trace, const struct cell *cells, const uint32_t at[ROLES])
{
    uint64_t size_bytes;
    int64_t ns;

    return (at[ROLE_SIZE] == NONE_INDEX ||
            object_size_of(cells[at[ROLE_SIZE]].text, cells[at[ROLE_SIZE]].length, &size_bytes) == NULL) &&
           (at[ROLE_TIME] == NONE_INDEX || time_of(trace, &cells[at[ROLE_TIME]], &ns) == NULL);
}

static enum status find_columns(struct object_trace *trace, const struct cell *cells, uint32_t count, bool *ret_header)
{
    const char *const named[ROLES] = {[ROLE_ID] = trace->columns.id, [ROLE_SIZE] = trace->columns.size,
                                      [ROLE_TIME] = trace->columns.time};
    uint32_t at[ROLES];
    bool header = false;

    for (unsigned role = ROLE_ID; role < ROLES; role++) {
        bool by_number = false;

        at[role] = named[role][0] == 0 ? find_usual(cells, count, role) : find_named(cells, count, named[role], &by_number);
        header |= at[role] != NONE_INDEX && !by_number;
        if (at[role] == NONE_INDEX && named[role][0] != 0)
            return object_say(trace, STATUS_CORRUPT,
                              "no column '%s' for the %s among the %u here; give a name that the header has, or a number from 1",
                              quote(named[role], strlen(named[role])).text, role_names[role], count);
    }
    if (at[ROLE_ID] == NONE_INDEX)
        return object_say(trace, STATUS_INVALID, "no column is called id or the like; name the column of the ids, or its number from 1");
    memset(trace->csv.roles, ROLE_NONE, sizeof(trace->csv.roles));
    for (unsigned role = ROLE_ID; role < ROLES; role++) {
        if (at[role] == NONE_INDEX)
            continue;
        if (trace->csv.roles[at[role]] != ROLE_NONE)
            return object_say(trace, STATUS_INVALID, "column %u is both %s and %s; name one column for each", at[role] + 1,
                              role_names[trace->csv.roles[at[role]]], role_names[role]);
        trace->csv.roles[at[role]] = (uint8_t)role;
    }
    trace->csv.cells = count;
    trace->info.has_size = at[ROLE_SIZE] != NONE_INDEX;
    trace->info.has_time = at[ROLE_TIME] != NONE_INDEX;
    *ret_header = header || !reads_as_row(trace, cells, at);
    return STATUS_OK;
}

static bool split(const struct object_trace *trace, const struct line *line, struct cell *cells, uint32_t *ret_count,
                  const char **ret_problem, size_t *ret_column)
{
    return trace->csv.separator == ',' ? cells_split(line, cells, ret_count, ret_problem, ret_column)
                                       : cells_split_at(trace->csv.separator, line, cells, ret_count, ret_problem, ret_column);
}

/* Of the line at the front, with its newline. */
static size_t line_bytes(const struct object_trace *trace)
{
    const char *at = trace->chunk + trace->start;

    return (size_t)((const char *)memchr(at, '\n', trace->text.whole - trace->start) - at) + 1;
}

/* Without its end, as a copy: splitting writes. */
static struct line copy_line(const struct object_trace *trace, char *target)
{
    const char *at = trace->chunk + trace->start;
    size_t length = line_bytes(trace) - 1;

    memcpy(target, at, length);
    return (struct line){.text = target, .length = length - (length > 0 && at[length - 1] == '\r')};
}

static enum status csv_start(struct object_trace *trace)
{
    enum status status = object_text_start(trace);
    struct cell cells[CELLS_MAX];
    const char *problem;
    size_t column;
    uint32_t count;
    bool header = false;
    struct line line;

    trace->csv.separator = trace->columns.separator != 0 ? trace->columns.separator : ',';
    trace->csv.quote = trace->csv.separator == ',' ? '"' : trace->csv.separator;
    if (status != STATUS_OK)
        return status;
    if (!object_lines(trace))
        return trace->end;
    line = copy_line(trace, trace->line);
    if (!split(trace, &line, cells, &count, &problem, &column))
        return object_refuse_line(trace, 0, column, "%s", problem);
    status = find_columns(trace, cells, count, &header);
    if (status == STATUS_OK && header) {
        object_used(trace, line_bytes(trace));
        trace->text.head_lines = 1;
    }
    return status;
}

/* --- rows --- */

static enum status refuse_cell(struct object_trace *trace, uint64_t row, const struct cell *cell, unsigned role,
                               const char *problem)
{
    return object_refuse_line(trace, row, cell->column, "%s '%s' %s", role_names[role], quote(cell->text, cell->length).text,
                              problem);
}

static enum status refuse_count(struct object_trace *trace, uint64_t row, const struct cell *cells, uint32_t count,
                                const struct line *line)
{
    bool cut = trace->text.unterminated && trace->start + line_bytes(trace) == trace->end_of_chunk;
    size_t column = count > trace->csv.cells ? cells[trace->csv.cells].column : line->length + 1;

    return object_refuse_line(trace, row, column, "%u column%s where the first line has %u%s", count, count == 1 ? "" : "s",
                              trace->csv.cells,
                              cut ? ", and the file ends without a newline: it was cut; fetch it again" : "");
}

/* The line at the front, whatever it is. */
static bool careful_line(struct object_trace *trace, uint64_t row, struct object_request *request)
{
    struct cell cells[CELLS_MAX];
    struct line line = copy_line(trace, trace->line);
    uint32_t count;
    const char *problem;
    size_t column;

    if (!split(trace, &line, cells, &count, &problem, &column))
        return object_refuse_line(trace, row, column, "%s", problem) == STATUS_OK;
    if (count != trace->csv.cells)
        return refuse_count(trace, row, cells, count, &line) == STATUS_OK;
    for (uint32_t i = 0; i < count; i++) {
        const struct cell *cell = &cells[i];
        unsigned role = trace->csv.roles[i];

        problem = role == ROLE_ID ? object_id_of(trace, cell->text, cell->length, &request->id)
                : role == ROLE_SIZE ? object_size_of(cell->text, cell->length, &request->size_bytes)
                : role == ROLE_TIME ? time_of(trace, cell, &request->at_ns) : NULL;
        if (problem != NULL)
            return refuse_cell(trace, row, cell, role, problem) == STATUS_OK;
    }
    object_used(trace, line_bytes(trace));
    return true;
}

/* Digits, perhaps a point and digits; NULL for all else. */
static inline const char *plain_time(const struct object_trace *trace, const char *at, int64_t *ret_ns)
{
    static const int64_t scales[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000};
    enum trace_time_unit unit = trace->columns.time_unit;
    uint64_t whole;
    uint64_t fraction;
    uint32_t count;

    if (unit == TRACE_TIME_DATETIME)
        return NULL;
    at = object_digits(at, &whole, &count);
    if (count == 0 || count > 20 || whole > (uint64_t)(TIME_MAX_NS / units[unit].ns) - 1)
        return NULL;
    *ret_ns = (int64_t)whole * units[unit].ns;
    if (*at != '.')
        return at;
    at = object_digits(at + 1, &fraction, &count);
    if (count == 0 || count > units[unit].digits)
        return NULL;
    *ret_ns += (int64_t)fraction * scales[units[unit].digits - count];
    return at;
}

static inline const char *plain_size(const char *at, uint64_t *ret_size_bytes)
{
    uint32_t count;

    at = object_digits(at, ret_size_bytes, &count);
    return count > 0 && count <= 20 && *ret_size_bytes <= OBJECT_SIZE_MAX ? at : NULL;
}

static inline const char *pass_over(const char *at, char separator, char quote)
{
    while (*at != separator && *at != quote && *at != '\n')
        at++;
    return *at == quote && quote != separator ? NULL : at;
}

/* Behind the line at `at`, if it is plainly good; else NULL, and what was written into the request says nothing. */
static const char *plain_line(struct object_trace *trace, const char *at, struct object_request *request)
{
    const char separator = trace->csv.separator;
    const char quote = trace->csv.quote;
    uint32_t cells = trace->csv.cells;

    for (uint32_t cell = 0; cell < cells; cell++) {
        switch (trace->csv.roles[cell]) {
        case ROLE_ID: at = object_plain_id(trace, at, separator, quote, &request->id); break;
        case ROLE_SIZE: at = plain_size(at, &request->size_bytes); break;
        case ROLE_TIME: at = plain_time(trace, at, &request->at_ns); break;
        default: at = pass_over(at, separator, quote); break;
        }
        if (at == NULL)
            return NULL;
        if (cell + 1 < cells && *at++ != separator)
            return NULL;
    }
    at += at[0] == '\r' && at[1] == '\n';
    return *at == '\n' ? at + 1 : NULL;
}

static uint32_t csv_fill(struct object_trace *trace, struct object_request *rows, uint32_t max)
{
    uint32_t count;

    if (trace->start >= trace->text.whole && !object_lines(trace))
        return 0;
    for (count = 0; count < max && trace->start < trace->text.whole; count++) {
        const char *at = trace->chunk + trace->start;
        const char *behind;

        rows[count].size_bytes = trace->options.size_bytes;
        rows[count].at_ns = 0;
        rows[count].next = OBJECT_NEXT_UNKNOWN;
        behind = trace->csv.separator == ' ' ? NULL : plain_line(trace, at, &rows[count]); /* runs of blanks are one */
        if (behind != NULL)
            object_used(trace, (size_t)(behind - at));
        else if (trace->end != STATUS_OK || !object_texts_settle(trace))
            return 0;
        else if (!careful_line(trace, trace->row + count, &rows[count]))
            return count;
    }
    return object_texts_settle(trace) ? count : 0;
}

static bool csv_recognise(const struct object_trace *trace)
{
    const char *end = memchr(trace->chunk + trace->start, '\n', object_left(trace));
    struct cell cells[CELLS_MAX];
    char head[1024];
    struct line line = {.text = head};
    uint32_t count;

    if (object_columns_named(&trace->columns))
        return true;
    if (end == NULL || (size_t)(end - trace->chunk) - trace->start >= sizeof(head))
        return false;
    line.length = (size_t)(end - trace->chunk) - trace->start;
    memcpy(head, trace->chunk + trace->start, line.length);
    line.length -= line.length > 0 && head[line.length - 1] == '\r';
    return cells_split_at(',', &line, cells, &count, &(const char *){NULL}, &(size_t){0}) && count > 1 &&
           find_usual(cells, count, ROLE_ID) != NONE_INDEX;
}

const struct object_format object_format_csv = {
    .name = "csv",
    .about = "columns of ids, sizes and times: named, or called as usual in the header",
    .has_columns = true,
    .recognise = csv_recognise,
    .file_part = ".csv",
    .start = csv_start,
    .fill = csv_fill,
};
