/* Any CSV of jobs with a column map. An empty cell of a column other than the time is a value that is not known. */
#include "reader.h"

enum { TIME, RUNTIME, REQUESTED, GPUS, MEMORY, STATUS, USER, NAME, QUEUE, ROLES };
enum { GPU_MILLI = 1000 };

static enum status jobs_csv_start(struct trace *trace, bool *ret_is_row)
{
    const struct job_columns *columns = &trace->job_columns;
    const struct csv_role roles[ROLES] = {
        [TIME] = {"time", columns->time, JOB_HAS_ARRIVAL},
        [RUNTIME] = {"run time", columns->runtime, JOB_HAS_RUNTIME},
        [REQUESTED] = {"requested time", columns->requested, JOB_HAS_REQUESTED},
        [GPUS] = {"GPUs", columns->gpus, JOB_HAS_GPUS | JOB_HAS_GPU_SHARE},
        [MEMORY] = {"memory", columns->memory, JOB_HAS_MEMORY},
        [STATUS] = {"status", columns->status, JOB_HAS_STATUS},
        [USER] = {"user", columns->user, JOB_HAS_USER},
        [NAME] = {"name", columns->name, JOB_HAS_NAME},
        [QUEUE] = {"queue", columns->queue, JOB_HAS_QUEUE},
    };
    bool has_time = columns->time[0] != 0;

    if (!has_time && columns->runtime[0] == 0) {
        trace_say(trace, 0, 0, "the csv format needs the column of the time or of the run time; name it");
        return STATUS_INVALID;
    }
    return csv_find_columns(trace, roles, ROLES, has_time ? TIME : RUNTIME,
                            has_time && columns->time_unit == TRACE_TIME_DATETIME, ret_is_row);
}

/* Is there something to read in the role's cell? */
static bool is_told(const struct trace *trace, uint32_t role)
{
    return trace->at[role] != NONE_INDEX && trace->cells[trace->at[role]].length > 0;
}

static bool read_span(struct trace *trace, uint32_t role, int64_t *ret_ns)
{
    static const int digits[] = {[TRACE_TIME_S] = 9, [TRACE_TIME_MS] = 6, [TRACE_TIME_US] = 3, [TRACE_TIME_NS] = 0,
                                 [TRACE_TIME_DATETIME] = 9};

    return !is_told(trace, role) || trace_read_span(trace, trace->at[role], digits[trace->job_columns.time_unit], ret_ns);
}

static bool read_gpus(struct trace *trace, struct job_row *row)
{
    uint32_t at = trace->at[GPUS];
    int64_t milli;

    if (!is_told(trace, GPUS))
        return true;
    if (!trace_read_span(trace, at, 3, &milli)) /* any decimal, in thousandths */
        return false;
    if (milli > (int64_t)JOB_GPUS_MAX * GPU_MILLI)
        return trace_refuse_cell(trace, TRACE_SKIP_AMOUNT, at, "is absurdly large");
    if (milli > GPU_MILLI && milli % GPU_MILLI != 0)
        return trace_refuse_cell(trace, TRACE_SKIP_AMOUNT, at, "is neither whole nor less than one GPU");
    row->gpus = (uint32_t)(milli / GPU_MILLI);
    row->gpu_milli = (uint32_t)(milli % GPU_MILLI);
    return true;
}

static bool word_is(const struct cell *cell, const char *word)
{
    for (uint32_t i = 0; i < cell->length; i++)
        if ((cell->text[i] | 0x20) != word[i]) /* also stops behind the word's end */
            return false;
    return word[cell->length] == 0;
}

/* As the schedulers of the field write them, in any case; other words are not understood. */
static void read_status(const struct cell *cell, enum job_row_status *ret_status)
{
    static const struct {
        const char *word;
        enum job_row_status status;
    } words[] = {{"done", JOB_ROW_DONE}, {"completed", JOB_ROW_DONE}, {"succeeded", JOB_ROW_DONE}, {"pass", JOB_ROW_DONE},
                 {"terminated", JOB_ROW_DONE}, {"failed", JOB_ROW_FAILED}, {"node_fail", JOB_ROW_FAILED}, {"timeout", JOB_ROW_FAILED},
                 {"cancelled", JOB_ROW_CANCELLED}, {"canceled", JOB_ROW_CANCELLED}, {"killed", JOB_ROW_CANCELLED},
                 {"running", JOB_ROW_RUNNING}};

    for (size_t i = 0; i < ARRAY_COUNT(words); i++)
        if (word_is(cell, words[i].word))
            *ret_status = words[i].status;
}

static bool read_memory(struct trace *trace, uint64_t *ret_bytes)
{
    int64_t bytes = 0;

    if (is_told(trace, MEMORY) && !trace_read_span(trace, trace->at[MEMORY], 0, &bytes))
        return false;
    *ret_bytes = (uint64_t)bytes;
    return true;
}

static bool read_name(struct trace *trace, uint32_t role, char ret_name[TRACE_ID_MAX])
{
    return !is_told(trace, role) || trace_read_name(trace, trace->at[role], ret_name);
}

static bool jobs_csv_read(struct trace *trace, struct job_row *ret_row)
{
    const uint32_t *at = trace->at;

    if (!trace_cells(trace))
        return false;
    if (at[TIME] != NONE_INDEX && !trace_read_time(trace, at[TIME], trace->job_columns.time_unit, &ret_row->at_ns))
        return false;
    if (at[TIME] == NONE_INDEX && !is_told(trace, RUNTIME))
        return trace_refuse_cell(trace, TRACE_SKIP_AMOUNT, at[RUNTIME], "is empty");
    if (is_told(trace, STATUS))
        read_status(&trace->cells[at[STATUS]], &ret_row->status);
    return read_span(trace, RUNTIME, &ret_row->runtime_ns) && read_span(trace, REQUESTED, &ret_row->requested_ns) &&
           read_gpus(trace, ret_row) && read_memory(trace, &ret_row->memory_bytes) &&
           read_name(trace, USER, ret_row->user) && read_name(trace, NAME, ret_row->name) &&
           read_name(trace, QUEUE, ret_row->queue);
}

const struct trace_format trace_format_jobs_csv = {
    .name = "csv",
    .about = "any CSV of jobs whose columns are named on the command line or in the scenario",
    .family = TRACE_JOBS,
    .time_column = TIME,
    .start = jobs_csv_start,
    .read_job = jobs_csv_read,
};
