/* Any CSV with a column map: columns by name, or by number from 1. When every column is a number and the time cell of
 * the first line reads as a time, there is no header and that line is a row. */
#include "reader.h"

enum { TIME, PROMPT, OUTPUT, ADAPTER, TENANT, ROLES };

/* 0: not a number from 1 to CELLS_MAX. */
static uint32_t column_number(const char *text)
{
    uint32_t number = 0;

    return value_count(text, strlen(text), CELLS_MAX, &number) == NULL ? number : 0;
}

static bool find_column(struct trace *trace, const struct csv_role *role, uint32_t *ret_cell)
{
    uint32_t number = column_number(role->text);
    uint32_t cell = NONE_INDEX;

    /* A number is never looked for among the names: where there is no header, those are values. */
    if (number > 0 && number <= trace->name_count)
        cell = number - 1;
    for (uint32_t i = 0; number == 0 && i < trace->name_count; i++)
        if (strcmp(trace->names[i], role->text) == 0)
            cell = i;
    *ret_cell = cell;
    if (cell != NONE_INDEX)
        return true;
    trace_say(trace, trace->line.number, 1,
              "no column '%s' for the %s among the %u here; give a name that the header has, or a number from 1",
              quote(role->text, strlen(role->text)).text, role->name, trace->name_count);
    return false;
}

static bool first_line_is_row(const struct trace *trace, const struct csv_role *roles, uint32_t role_count,
                              uint32_t number_role, bool is_datetime)
{
    const struct cell *cell = &trace->cells[trace->at[number_role]];
    int64_t at_ns;

    for (uint32_t role = 0; role < role_count; role++)
        if (roles[role].text[0] != 0 && column_number(roles[role].text) == 0)
            return false;
    return (is_datetime ? value_datetime_ns(cell->text, cell->length, &at_ns)
                        : value_decimal_ns(cell->text, cell->length, 0, &at_ns)) == NULL;
}

enum status csv_find_columns(struct trace *trace, const struct csv_role *roles, uint32_t role_count,
                             uint32_t number_role, bool is_datetime, bool *ret_is_row)
{
    check(role_count <= FORMAT_COLUMNS_MAX);
    for (uint32_t role = 0; role < role_count; role++) {
        if (roles[role].text[0] == 0)
            continue;
        if (!find_column(trace, &roles[role], &trace->at[role]))
            return STATUS_CORRUPT;
        trace->info.has |= roles[role].has;
    }
    *ret_is_row = first_line_is_row(trace, roles, role_count, number_role, is_datetime);
    return STATUS_OK;
}

static enum status csv_start(struct trace *trace, bool *ret_is_row)
{
    const struct trace_columns *columns = &trace->columns;
    const struct csv_role roles[ROLES] = {
        [TIME] = {"time", columns->time, 0},
        [PROMPT] = {"prompt", columns->prompt, TRACE_HAS_PROMPT},
        [OUTPUT] = {"output", columns->output, TRACE_HAS_OUTPUT},
        [ADAPTER] = {"adapter", columns->adapter, TRACE_HAS_ADAPTER},
        [TENANT] = {"tenant", columns->tenant, TRACE_HAS_TENANT},
    };

    if (columns->time[0] == 0) {
        trace_say(trace, 0, 0, "the csv format needs the column of the time; name it");
        return STATUS_INVALID;
    }
    return csv_find_columns(trace, roles, ROLES, TIME, columns->time_unit == TRACE_TIME_DATETIME, ret_is_row);
}

static bool csv_read(struct trace *trace, struct trace_row *ret_row)
{
    const uint32_t *at = trace->at;

    if (!trace_cells(trace) || !trace_read_time(trace, at[TIME], trace->columns.time_unit, &ret_row->at_ns))
        return false;
    if (at[PROMPT] != NONE_INDEX && !trace_read_tokens(trace, at[PROMPT], false, &ret_row->prompt_tokens))
        return false;
    if (at[OUTPUT] != NONE_INDEX && !trace_read_tokens(trace, at[OUTPUT], false, &ret_row->output_tokens))
        return false;
    if (at[TENANT] != NONE_INDEX && !trace_read_name(trace, at[TENANT], ret_row->tenant))
        return false;
    if (at[ADAPTER] != NONE_INDEX && !trace_read_name(trace, at[ADAPTER], ret_row->adapter))
        return false;
    if (strcmp(ret_row->adapter, "0") == 0)
        ret_row->adapter[0] = 0;
    return true;
}

const struct trace_format trace_format_csv = {
    .name = "csv",
    .about = "any CSV whose columns are named on the command line or in the scenario",
    .family = TRACE_REQUESTS,
    .start = csv_start,
    .read = csv_read,
};
