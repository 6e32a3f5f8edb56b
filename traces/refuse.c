/* How a line is refused or counted, in one place: the message with its file, line and column, fit for any terminal, and
 * the cell readers that refuse by themselves. */
#include <stdarg.h>

#include "reader.h"

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

__attribute__((format(printf, 4, 0)))
static void say(struct trace *trace, uint64_t line, size_t column, const char *what, va_list arguments)
{
    size_t used;

    if (line > 0)
        snprintf(trace->message, sizeof(trace->message), "%s:%llu:%zu: ", trace->path, (unsigned long long)line,
                 column);
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
        append(trace, ", and the file ends without a newline: it was cut; fetch it again, or be lenient to leave out "
                      "its last line");
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

bool trace_split(struct trace *trace, const char **ret_problem, size_t *ret_column)
{
    char separator = trace->format != NULL ? trace->format->separator : 0;
    bool good;

    if (trace->split_line == trace->line.number)
        return true;
    good = separator == 0
               ? cells_split(&trace->line, trace->cells, &trace->cell_count, ret_problem, ret_column)
               : cells_split_at(separator, &trace->line, trace->cells, &trace->cell_count, ret_problem, ret_column);
    if (good)
        trace->split_line = trace->line.number;
    return good;
}

bool trace_cells(struct trace *trace)
{
    const char *problem;
    size_t column;

    if (!trace_split(trace, &problem, &column))
        return trace_refuse(trace, TRACE_SKIP_SYNTAX, column, "%s", problem);
    if (trace->cell_count == trace->name_count ||
        (trace->cell_count > trace->name_count && trace->format->more_cells_are_fine))
        return true;
    column = trace->cell_count > trace->name_count ? trace->cells[trace->name_count].column : trace->line.length + 1;
    return trace_refuse(trace, TRACE_SKIP_COLUMNS, column, "%u column%s where the %s has %u", trace->cell_count,
                        trace->cell_count == 1 ? "" : "s", trace->format->positional ? "format" : "header",
                        trace->name_count);
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

bool trace_read_amount(struct trace *trace, uint32_t cell, uint32_t max, uint32_t *ret_amount)
{
    const struct cell *at = &trace->cells[cell];
    const char *problem = value_count(at->text, at->length, max, ret_amount);

    return problem == NULL || trace_refuse_cell(trace, TRACE_SKIP_AMOUNT, cell, problem);
}

bool trace_read_span(struct trace *trace, uint32_t cell, int unit_digits, int64_t *ret_ns)
{
    const struct cell *at = &trace->cells[cell];
    const char *problem = value_decimal_ns(at->text, at->length, unit_digits, ret_ns);

    return problem == NULL || trace_refuse_cell(trace, TRACE_SKIP_AMOUNT, cell, problem);
}

bool trace_read_time(struct trace *trace, uint32_t cell, enum trace_time_unit unit, int64_t *ret_ns)
{
    static const int digits[] = {[TRACE_TIME_S] = 9, [TRACE_TIME_MS] = 6, [TRACE_TIME_US] = 3, [TRACE_TIME_NS] = 0};
    const struct cell *at = &trace->cells[cell];
    const char *problem = unit == TRACE_TIME_DATETIME ? value_datetime_ns(at->text, at->length, ret_ns)
                                                      : value_decimal_ns(at->text, at->length, digits[unit], ret_ns);

    return problem == NULL || trace_refuse_cell(trace, TRACE_SKIP_TIME, cell, problem);
}
