/* The pods of Alibaba's cluster-trace-gpu-v2023 (openb): what they asked for, down to thousandths of a GPU, and when
 * they were created, scheduled and deleted, in seconds. A pod that was deleted while it still waited never ran, and
 * counts as cancelled. */
#include "reader.h"

enum { NAME, CPU, MEMORY, GPUS, SHARE, SPEC, QOS, PHASE, CREATED, DELETED, SCHEDULED };
enum { SHARE_WHOLE = 1000 };

static bool read_phase(struct trace *trace, struct job_row *row)
{
    static const struct {
        const char *word;
        enum job_row_status status;
    } phases[] = {{"Succeeded", JOB_ROW_DONE}, {"Failed", JOB_ROW_FAILED}, {"Running", JOB_ROW_RUNNING}, {"Pending", JOB_ROW_CANCELLED}};
    uint32_t at = trace->at[PHASE];
    const struct cell *cell = &trace->cells[at];

    for (size_t i = 0; i < ARRAY_COUNT(phases); i++) {
        if (strlen(phases[i].word) == cell->length && memcmp(phases[i].word, cell->text, cell->length) == 0) {
            row->status = phases[i].status;
            return true;
        }
    }
    return trace_refuse_cell(trace, TRACE_SKIP_SYNTAX, at, "is no phase of a pod");
}

static bool read_gpus(struct trace *trace, struct job_row *row)
{
    const uint32_t *at = trace->at;
    uint32_t share = 0;

    if (!trace_read_amount(trace, at[GPUS], JOB_GPUS_MAX, &row->gpus) ||
        !trace_read_amount(trace, at[SHARE], SHARE_WHOLE, &share))
        return false;
    if (row->gpus == 0 ? share != 0 : share == 0 || (row->gpus > 1 && share != SHARE_WHOLE))
        return trace_refuse_cell(trace, TRACE_SKIP_AMOUNT, at[SHARE], "does not go with the number of GPUs");
    if (row->gpus == 1 && share < SHARE_WHOLE) {
        row->gpus = 0;
        row->gpu_milli = share;
    }
    return true;
}

/* A pod that was never scheduled has an empty cell there. */
static bool read_runtime(struct trace *trace, struct job_row *row)
{
    const uint32_t *at = trace->at;
    int64_t deleted_ns;
    int64_t scheduled_ns;

    if (!trace_read_time(trace, at[DELETED], TRACE_TIME_S, &deleted_ns))
        return false;
    if (deleted_ns < row->at_ns)
        return trace_refuse_cell(trace, TRACE_SKIP_TIME, at[DELETED], "is before the creation");
    if (trace->cells[at[SCHEDULED]].length == 0 && trace->line.terminated)
        return true;
    if (!trace_read_time(trace, at[SCHEDULED], TRACE_TIME_S, &scheduled_ns))
        return false;
    if (scheduled_ns < row->at_ns || scheduled_ns > deleted_ns)
        return trace_refuse_cell(trace, TRACE_SKIP_TIME, at[SCHEDULED], "is not between creation and deletion");
    row->runtime_ns = deleted_ns - scheduled_ns;
    return true;
}

static bool openb_read(struct trace *trace, struct job_row *ret_row)
{
    const uint32_t *at = trace->at;
    uint32_t memory_mib = 0;

    if (!trace_cells(trace) || !trace_read_time(trace, at[CREATED], TRACE_TIME_S, &ret_row->at_ns) ||
        !read_runtime(trace, ret_row) || !trace_read_amount(trace, at[MEMORY], UINT32_MAX - 1, &memory_mib) ||
        !read_gpus(trace, ret_row) || !read_phase(trace, ret_row))
        return false;
    ret_row->memory_bytes = (uint64_t)memory_mib << 20;
    return trace_read_name(trace, at[NAME], ret_row->name) && trace_read_name(trace, at[QOS], ret_row->queue);
}

const struct trace_format trace_format_jobs_openb = {
    .name = "openb",
    .about = "Alibaba openb pods 2023 (CSV: name, num_gpu, gpu_milli, qos, creation_time and six more)",
    .family = TRACE_JOBS,
    .has = JOB_HAS_ARRIVAL | JOB_HAS_RUNTIME | JOB_HAS_GPUS | JOB_HAS_GPU_SHARE | JOB_HAS_MEMORY | JOB_HAS_STATUS |
           JOB_HAS_NAME | JOB_HAS_QUEUE,
    .time_column = CREATED,
    .columns = {[NAME] = {"name", false}, [CPU] = {"cpu_milli", false}, [MEMORY] = {"memory_mib", false},
                [GPUS] = {"num_gpu", false}, [SHARE] = {"gpu_milli", false}, [SPEC] = {"gpu_spec", true},
                [QOS] = {"qos", false}, [PHASE] = {"pod_phase", false}, [CREATED] = {"creation_time", false},
                [DELETED] = {"deletion_time", false}, [SCHEDULED] = {"scheduled_time", false}},
    .read_job = openb_read,
};
