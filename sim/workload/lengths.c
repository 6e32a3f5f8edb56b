#include "workload/lengths.h"

#include <gsl/gsl_cdf.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "trace.h"

static const char *section_of(enum lengths_column column)
{
    return column == LENGTHS_PROMPT ? "workload.prompt" : "workload.output";
}

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

static enum status values_add(struct lengths *lengths, uint32_t *room, uint32_t value)
{
    if (lengths->values_count == *room) {
        uint32_t more = max_u32(1024, *room * 2);
        uint32_t *values = realloc(lengths->values, more * sizeof(*values));

        if (values == NULL)
            return STATUS_FULL;
        lengths->values = values;
        *room = more;
    }
    lengths->values[lengths->values_count++] = value;
    return STATUS_OK;
}

static enum status read_rows(struct lengths *lengths, struct trace *trace, enum lengths_column column)
{
    struct trace_row row;
    uint32_t room = 0;
    enum status status;

    while ((status = trace_next(trace, &row)) == STATUS_OK) {
        uint32_t value = column == LENGTHS_PROMPT ? row.prompt_tokens : row.output_tokens;

        if (row.failed)
            continue;
        if (lengths->values_count == LENGTHS_ROWS_MAX) {
            lengths->values_cut = true;
            return STATUS_OK;
        }
        status = values_add(lengths, &room, value);
        if (status != STATUS_OK)
            return status;
    }
    return status == STATUS_END ? STATUS_OK : status;
}

static enum status open_empirical(struct lengths *lengths, const struct scenario *scenario,
                                  const struct keys_length *keys, enum lengths_column column, FILE *errors)
{
    struct trace_options options = {0};
    char path[KEY_TEXT_MAX * 2];
    char message[TRACE_MESSAGE_MAX];
    struct trace *trace;
    enum status status;

    if (keys->trace_path[0] == '\0') {
        fprintf(errors, "%s.trace_path: is empty; the empirical law needs an Azure trace to draw from\n",
                section_of(column));
        return STATUS_INVALID;
    }
    scenario_path(scenario, keys->trace_path, path);
    if (access(path, F_OK) != 0) {
        fprintf(errors, "%s.trace_path: no such file: %s\n", section_of(column), path);
        return STATUS_NOT_FOUND;
    }
    status = trace_open(path, "azure", &options, &trace, message);
    if (status != STATUS_OK) {
        fprintf(errors, "%s.trace_path: %s\n", section_of(column), message);
        return status;
    }
    status = read_rows(lengths, trace, column);
    if (status != STATUS_OK)
        fprintf(errors, "%s.trace_path: %s\n", section_of(column),
                status == STATUS_FULL ? "not enough memory for its rows" : trace_message(trace));
    trace_close(trace);
    if (status == STATUS_OK && lengths->values_count == 0) {
        fprintf(errors, "%s.trace_path: %s has no row with tokens to draw from\n", section_of(column), path);
        status = STATUS_INVALID;
    }
    if (status == STATUS_OK)
        qsort(lengths->values, lengths->values_count, sizeof(*lengths->values), by_value);
    else
        lengths_close(lengths);
    return status;
}

enum status lengths_open(struct lengths *lengths, const struct scenario *scenario, enum lengths_column column,
                         FILE *errors)
{
    const struct keys_length *keys = column == LENGTHS_PROMPT ? &scenario->workload.prompt : &scenario->workload.output;

    if (keys->min_tokens > keys->max_tokens) {
        fprintf(errors, "%s: min_tokens %llu is above max_tokens %llu\n", section_of(column),
                (unsigned long long)keys->min_tokens, (unsigned long long)keys->max_tokens);
        return STATUS_INVALID;
    }
    *lengths = (struct lengths){
        .law = keys->law,
        .min_tokens = (uint32_t)keys->min_tokens,
        .max_tokens = (uint32_t)keys->max_tokens,
        .mean_tokens = keys->mean_tokens,
        .log_mean = log(keys->mean_tokens) - keys->sigma * keys->sigma / 2,
        .sigma = keys->sigma,
        .log_keep = log1p(-1 / keys->mean_tokens),
    };
    return keys->law == KEY_LENGTH_EMPIRICAL ? open_empirical(lengths, scenario, keys, column, errors) : STATUS_OK;
}

void lengths_close(struct lengths *lengths)
{
    free(lengths->values);
    *lengths = (struct lengths){0};
}

/* The law's value, which may be past any integer. */
static double length_of(const struct lengths *lengths, double unit)
{
    switch ((enum key_length_law)lengths->law) {
    case KEY_LENGTH_LOGNORMAL:
        return rint(exp(lengths->log_mean + lengths->sigma * gsl_cdf_ugaussian_Pinv(unit)));
    case KEY_LENGTH_UNIFORM:
        return lengths->min_tokens + floor(unit * (lengths->max_tokens - lengths->min_tokens + 1.0));
    case KEY_LENGTH_GEOMETRIC: /* mean 1: log_keep is -infinity, and the quotient 0 */
        return ceil(log1p(-unit) / lengths->log_keep);
    case KEY_LENGTH_EXPONENTIAL:
        return ceil(-lengths->mean_tokens * log1p(-unit));
    case KEY_LENGTH_CONSTANT:
        return rint(lengths->mean_tokens);
    case KEY_LENGTH_EMPIRICAL:
        break;
    }
    return lengths->values[(uint32_t)(unit * lengths->values_count)];
}

uint32_t lengths_at(const struct lengths *lengths, double unit)
{
    double length = length_of(lengths, unit);

    if (length <= lengths->min_tokens)
        return lengths->min_tokens;
    return length < lengths->max_tokens ? (uint32_t)length : lengths->max_tokens;
}
