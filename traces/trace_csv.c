/* Any CSV with a column map: columns by name, or by number from 1. When every column is a number and the time cell of
 * the first line reads as a time, there is no header and that line is a row. */
#include "reader.h"

enum { TIME, PROMPT, OUTPUT, ADAPTER, TENANT, ROLES };

/* In the order of the roles above. */
static const char *role_text(const struct trace *trace, uint32_t role)
{
    const char *const texts[ROLES] = {trace->columns.time, trace->columns.prompt, trace->columns.output,
                                      trace->columns.adapter, trace->columns.tenant};

    return texts[role];
}

static const char *const role_names[ROLES] = {"time", "prompt", "output", "adapter", "tenant"};

/* 0: not a number from 1 to CELLS_MAX. */
static uint32_t column_number(const char *text)
{
    uint32_t number = 0;

    return value_count(text, strlen(text), CELLS_MAX, &number) == NULL ? number : 0;
}

static bool find_column(struct trace *trace, uint32_t role)
{
    const char *text = role_text(trace, role);
    uint32_t number = column_number(text);

    /* A number is never looked for among the names: where there is no header, those are values. */
    if (number > 0 && number <= trace->name_count)
        trace->at[role] = number - 1;
    for (uint32_t i = 0; number == 0 && i < trace->name_count; i++)
        if (strcmp(trace->names[i], text) == 0)
            trace->at[role] = i;
    if (trace->at[role] != NONE_INDEX)
        return true;
    trace_say(trace, trace->line.number, 1,
              "no column '%s' for the %s among the %u here; give a name that the header has, or a number from 1",
              quote(text, strlen(text)).text, role_names[role], trace->name_count);
    return false;
}

static bool first_line_is_row(const struct trace *trace)
{
    const struct cell *cell = &trace->cells[trace->at[TIME]];
    bool datetime = trace->columns.time_unit == TRACE_TIME_DATETIME;
    int64_t at_ns;

    for (uint32_t role = 0; role < ROLES; role++)
        if (role_text(trace, role)[0] != 0 && column_number(role_text(trace, role)) == 0)
            return false;
    return (datetime ? value_datetime_ns(cell->text, cell->length, &at_ns)
                     : value_decimal_ns(cell->text, cell->length, 0, &at_ns)) == NULL;
}

static enum status csv_start(struct trace *trace, bool *ret_is_row)
{
    static const uint32_t has[ROLES] = {0, TRACE_HAS_PROMPT, TRACE_HAS_OUTPUT, TRACE_HAS_ADAPTER, TRACE_HAS_TENANT};

    if (trace->columns.time[0] == 0) {
        trace_say(trace, 0, 0, "the csv format needs the column of the time; name it");
        return STATUS_INVALID;
    }
    for (uint32_t role = 0; role < ROLES; role++) {
        if (role_text(trace, role)[0] == 0)
            continue;
        if (!find_column(trace, role))
            return STATUS_CORRUPT;
        trace->info.has |= has[role];
    }
    *ret_is_row = first_line_is_row(trace);
    return STATUS_OK;
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
    .start = csv_start,
    .read = csv_read,
};
