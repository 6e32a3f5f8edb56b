/* Traces of Gavel (stanford-futuredata/gavel, OSDI 2020): tab-separated, without a header. Seven fields in the
 * older format, ten in the newer one; a file keeps to one of them. A job's length is given as steps, which say how long
 * it runs only on a known GPU, so run times are unknown. */
#include "reader.h"

#define GAVEL_FIELDS(X)                                                                                      \
    X(TYPE, "job_type") X(COMMAND, "command") X(DIRECTORY, "working_directory") X(ARGUMENT, "num_steps_arg") \
    X(NEEDS_DATA, "needs_data_dir") X(STEPS, "total_steps") X(SCALE, "scale_factor")                         \
    X(WEIGHT, "priority_weight") X(SLO, "SLO") X(ARRIVAL, "arrival_time")
enum {
#define X(name, text) name,
    GAVEL_FIELDS(X)
#undef X
    FIELDS
};

static const char *const field_names[FIELDS] = {
#define X(name, text) text,
    GAVEL_FIELDS(X)
#undef X
};

static const uint8_t older[] = {TYPE, COMMAND, ARGUMENT, NEEDS_DATA, STEPS, ARRIVAL, SCALE};
static const uint8_t newer[] = {TYPE, COMMAND, DIRECTORY, ARGUMENT, NEEDS_DATA, STEPS, SCALE, WEIGHT, SLO, ARRIVAL};

static bool gavel_recognise(const struct trace *trace)
{
    const char *last = NULL;
    uint32_t cells = 1;
    int64_t ns;

    for (size_t i = 0; i < trace->line.length; i++) {
        if (trace->line.text[i] != '\t')
            continue;
        last = trace->line.text + i + 1;
        cells++;
    }
    return (cells == ARRAY_COUNT(older) || cells == ARRAY_COUNT(newer)) &&
           value_decimal_ns(last, (size_t)(trace->line.text + trace->line.length - last), 9, &ns) == NULL;
}

static enum status gavel_start(struct trace *trace, bool *ret_is_row)
{
    const char *names[FIELDS];
    const uint8_t *fields = newer;
    const char *problem;
    size_t column;

    *ret_is_row = true;
    if (!trace_split(trace, &problem, &column)) {
        trace_say(trace, trace->line.number, column, "%s; is it a Gavel trace?", problem);
        return STATUS_CORRUPT;
    }
    if (trace->cell_count == ARRAY_COUNT(older)) {
        fields = older;
    } else if (trace->cell_count != ARRAY_COUNT(newer)) {
        trace_say(trace, trace->line.number, 1,
                  "%u fields between tabs where the gavel format has 7 or 10; name the right format", trace->cell_count);
        return STATUS_CORRUPT;
    }
    for (uint32_t i = 0; i < trace->cell_count; i++) {
        trace->at[fields[i]] = i;
        names[i] = field_names[fields[i]];
    }
    return format_name_cells(trace, names, trace->cell_count) ? STATUS_OK : STATUS_IO;
}

static bool gavel_read(struct trace *trace, struct job_row *ret_row)
{
    const uint32_t *at = trace->at;
    int64_t steps;

    if (!trace_cells(trace) || !trace_read_time(trace, at[ARRIVAL], TRACE_TIME_S, &ret_row->at_ns) ||
        !trace_read_span(trace, at[STEPS], 0, &steps) ||
        !trace_read_amount(trace, at[SCALE], JOB_GPUS_MAX, &ret_row->gpus))
        return false;
    if (ret_row->gpus == 0)
        return trace_refuse_cell(trace, TRACE_SKIP_AMOUNT, at[SCALE], "is no number of GPUs");
    return trace_read_name(trace, at[TYPE], ret_row->queue);
}

const struct trace_format trace_format_jobs_gavel = {
    .name = "gavel",
    .about = "Gavel traces, among them the Philly arrivals (7 or 10 fields between tabs, no header; no run times)",
    .family = TRACE_JOBS,
    .has = JOB_HAS_ARRIVAL | JOB_HAS_GPUS | JOB_HAS_QUEUE,
    .separator = '\t',
    .positional = true,
    .time_column = ARRIVAL,
    .recognise = gavel_recognise,
    .start = gavel_start,
    .read_job = gavel_read,
};
