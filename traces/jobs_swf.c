/* Standard Workload Format 2.2 (Parallel Workloads Archive): 18 numbers a line between blanks, -1 where one is missing,
 * comments behind ';'. Cleaned and converted logs add columns at the end, blank lines and a line of column names, which
 * are all fine. A job that was checkpointed has a line for the whole (status 0 or 1) and more for its parts (status 2
 * to 4); the parts are passed over and counted. */
#include "reader.h"

#define SWF_FIELDS(X)                                                                                       \
    X(JOB, "job number") X(SUBMIT, "submit time") X(WAIT, "wait time") X(RUN, "run time")                   \
    X(ALLOCATED, "allocated processors") X(CPU, "average CPU time") X(USED_MEMORY, "used memory")           \
    X(ASKED, "requested processors") X(ASKED_TIME, "requested time") X(ASKED_MEMORY, "requested memory")    \
    X(OUTCOME, "status") X(USER, "user") X(GROUP, "group") X(EXECUTABLE, "executable") X(QUEUE, "queue")    \
    X(PARTITION, "partition") X(PRECEDING, "preceding job") X(THINK, "think time")
enum {
#define X(name, text) name,
    SWF_FIELDS(X)
#undef X
    FIELDS
};

static const char *const field_names[FIELDS] = {
#define X(name, text) text,
    SWF_FIELDS(X)
#undef X
};

enum { KIB = 1024 };

static const char *skip_blanks(const struct trace *trace)
{
    const char *at = trace->line.text;
    const char *end = at + trace->line.length;

    while (at < end && (*at == ' ' || *at == '\t' || *at == '\r'))
        at++;
    return at;
}

/* A number, whatever its sign. */
static bool is_number(const struct cell *cell)
{
    uint32_t sign = cell->length > 0 && cell->text[0] == '-';
    int64_t ns;

    return value_decimal_ns(cell->text + sign, cell->length - sign, 0, &ns) == NULL;
}

/* "-1", "-1.0", "-1.00": nobody knows. */
static bool is_missing(const struct cell *cell)
{
    uint32_t one = 0;

    return cell->length >= 2 && cell->text[0] == '-' &&
           value_count(cell->text + 1, cell->length - 1, 1, &one) == NULL && one == 1;
}

/* Comments begin the file; where they were taken off, 18 numbers between blanks do. */
static bool swf_recognise(const struct trace *trace)
{
    const char *at = skip_blanks(trace);
    const char *end = trace->line.text + trace->line.length;
    uint32_t numbers = 0;

    if (at < end && *at == ';')
        return true;
    while (at < end) {
        const char *begin = at;
        struct cell cell;

        while (at < end && *at != ' ' && *at != '\t')
            at++;
        cell = (struct cell){trace->line.text + (begin - trace->line.text), (uint32_t)(at - begin), 0};
        if (!is_number(&cell))
            return false;
        numbers++;
        while (at < end && (*at == ' ' || *at == '\t'))
            at++;
    }
    return numbers >= FIELDS;
}

static enum status swf_start(struct trace *trace, bool *ret_is_row)
{
    *ret_is_row = true;
    trace->at[SUBMIT] = SUBMIT;
    return format_name_cells(trace, field_names, FIELDS) ? STATUS_OK : STATUS_IO;
}

/* As many as a row has, and before the first row only: otherwise it is a broken row, or another format. */
static bool is_column_names(const struct trace *trace)
{
    char first = trace->cells[0].text[0];

    return !trace->started && trace->cell_count >= FIELDS && ((first >= 'a' && first <= 'z') || (first >= 'A' && first <= 'Z'));
}

static bool swf_is_aside(struct trace *trace)
{
    const char *at = skip_blanks(trace);
    const char *problem;
    size_t column;
    const struct cell *outcome = &trace->cells[OUTCOME];

    if (at == trace->line.text + trace->line.length || *at == ';')
        return true;
    if (!trace_split(trace, &problem, &column))
        return false;
    if (is_column_names(trace))
        return true;
    if (trace->cell_count < FIELDS || outcome->length != 1 || outcome->text[0] < '2' || outcome->text[0] > '4')
        return false;
    trace->info.skipped[TRACE_SKIP_PART]++;
    return true;
}

/* Leaves *ret_amount alone when it is missing. */
static bool read_amount(struct trace *trace, uint32_t cell, uint32_t max, uint32_t *ret_amount)
{
    return is_missing(&trace->cells[cell]) || trace_read_amount(trace, cell, max, ret_amount);
}

static bool read_span(struct trace *trace, uint32_t cell, int64_t *ret_ns)
{
    return is_missing(&trace->cells[cell]) || trace_read_span(trace, cell, 9, ret_ns);
}

static bool read_name(struct trace *trace, uint32_t cell, char ret_name[TRACE_ID_MAX])
{
    return is_missing(&trace->cells[cell]) || trace_read_name(trace, cell, ret_name);
}

static bool read_outcome(struct trace *trace, enum job_row_status *ret_status)
{
    static const enum job_row_status statuses[] = {[0] = JOB_ROW_FAILED, [1] = JOB_ROW_DONE, [2] = JOB_ROW_UNKNOWN, [3] = JOB_ROW_UNKNOWN,
                                               [4] = JOB_ROW_UNKNOWN, [5] = JOB_ROW_CANCELLED};
    const struct cell *cell = &trace->cells[OUTCOME];
    uint32_t number = 0;

    if (is_missing(cell))
        return true;
    if (value_count(cell->text, cell->length, ARRAY_COUNT(statuses) - 1, &number) != NULL)
        return trace_refuse_cell(trace, TRACE_SKIP_SYNTAX, OUTCOME, "is no status from -1 to 5");
    *ret_status = statuses[number];
    return true;
}

/* What it asked for, else what it got: memory is counted in KB a processor. */
static bool read_size(struct trace *trace, struct job_row *row)
{
    uint32_t allocated = 0;
    uint32_t memory_kib = 0;

    if (!read_amount(trace, ALLOCATED, JOB_GPUS_MAX, &allocated) || !read_amount(trace, ASKED, JOB_GPUS_MAX, &row->gpus) ||
        !read_amount(trace, USED_MEMORY, UINT32_MAX - 1, &memory_kib) ||
        !read_amount(trace, ASKED_MEMORY, UINT32_MAX - 1, &memory_kib))
        return false;
    if (row->gpus == 0)
        row->gpus = allocated;
    row->memory_bytes = (uint64_t)memory_kib * KIB * max_u32(row->gpus, 1);
    return true;
}

static bool swf_read(struct trace *trace, struct job_row *ret_row)
{
    if (!trace_cells(trace))
        return false;
    for (uint32_t i = 0; i < FIELDS; i++)
        if (!is_number(&trace->cells[i]))
            return trace_refuse_cell(trace, TRACE_SKIP_SYNTAX, i, "is not a number");
    return trace_read_time(trace, SUBMIT, TRACE_TIME_S, &ret_row->at_ns) &&
           read_span(trace, RUN, &ret_row->runtime_ns) && read_span(trace, ASKED_TIME, &ret_row->requested_ns) &&
           read_size(trace, ret_row) && read_outcome(trace, &ret_row->status) &&
           read_name(trace, USER, ret_row->user) && read_name(trace, EXECUTABLE, ret_row->name) &&
           read_name(trace, QUEUE, ret_row->queue);
}

const struct trace_format trace_format_jobs_swf = {
    .name = "swf",
    .about = "Standard Workload Format 2.2, Parallel Workloads Archive (18 numbers a line, comments behind ';')",
    .family = TRACE_JOBS,
    .has = JOB_HAS_ARRIVAL | JOB_HAS_RUNTIME | JOB_HAS_REQUESTED | JOB_HAS_GPUS | JOB_HAS_MEMORY | JOB_HAS_STATUS |
           JOB_HAS_USER | JOB_HAS_NAME | JOB_HAS_QUEUE,
    .separator = ' ',
    .positional = true,
    .more_cells_are_fine = true,
    .time_column = SUBMIT,
    .recognise = swf_recognise,
    .start = swf_start,
    .is_aside = swf_is_aside,
    .read_job = swf_read,
};
