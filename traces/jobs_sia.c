/* Samples of Pollux and Sia (OSDI 2021, SOSP 2023): when training jobs of five applications arrive, and how many GPUs
 * they would use. How long they run depends on the models, which are not in the file. */
#include "reader.h"

enum { NAME, TIME, APPLICATION, REPLICAS, BATCH };

static bool sia_read(struct trace *trace, struct job_row *ret_row)
{
    const uint32_t *at = trace->at;
    uint32_t batch;

    if (!trace_cells(trace) || !trace_read_time(trace, at[TIME], TRACE_TIME_S, &ret_row->at_ns) ||
        !trace_read_amount(trace, at[REPLICAS], JOB_GPUS_MAX, &ret_row->gpus) ||
        !trace_read_amount(trace, at[BATCH], UINT32_MAX - 1, &batch))
        return false;
    if (ret_row->gpus == 0)
        return trace_refuse_cell(trace, TRACE_SKIP_AMOUNT, at[REPLICAS], "is no number of GPUs");
    return trace_read_name(trace, at[NAME], ret_row->name) && trace_read_name(trace, at[APPLICATION], ret_row->queue);
}

const struct trace_format trace_format_jobs_sia = {
    .name = "sia",
    .about = "Pollux and Sia samples (CSV: name,time,application,num_replicas,batch_size; no run times)",
    .family = TRACE_JOBS,
    .has = JOB_HAS_ARRIVAL | JOB_HAS_GPUS | JOB_HAS_NAME | JOB_HAS_QUEUE,
    .time_column = TIME,
    .columns = {[NAME] = {"name", false}, [TIME] = {"time", false}, [APPLICATION] = {"application", false},
                [REPLICAS] = {"num_replicas", false}, [BATCH] = {"batch_size", false}},
    .read_job = sia_read,
};
