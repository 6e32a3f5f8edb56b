/* Jobs of a trace, streamed: one row ahead. A trace that names users is read once more, beforehand, so that the number
 * of tenants is known before the first job. */
#ifndef WORKLOAD_JOBS_REPLAY_H
#define WORKLOAD_JOBS_REPLAY_H

#include "job_trace.h"
#include "workload/jobs_draw.h"
#include "workload/names.h"
#include "workload/notes.h"

struct job_replay {
    const struct scenario *scenario;
    struct job_trace *trace;
    struct job_columns columns;
    char path[KEY_TEXT_MAX * 2];    /* the one that is read */
    bool fell_back;
    uint32_t has;                   /* enum job_column */
    int64_t duration_ns;
    struct names users;
    struct job_row row;             /* the next to give */
    int64_t row_at_ns;              /* NEVER_NS: no more */
    enum status status;             /* STATUS_OK; or what ended the trace, to be told by the next take */
    uint64_t without_gpu;           /* rows left out, of those read so far */
    uint64_t too_large;
    uint64_t never_ran;
    int64_t *runtimes_ns;           /* [runtimes_count], sorted: of a trace without arrivals, which is read whole */
    uint32_t runtimes_count;
    bool runtimes_cut;
};

/* On failure one message in `errors`; close in every case. */
enum status job_replay_open(struct job_replay *replay, const struct scenario *scenario, FILE *errors);
void job_replay_close(struct job_replay *replay); /* accepts {0} */
/* False: it has run times only, which job_replay_runtime_ns() draws. */
bool job_replay_has_arrivals(const struct job_replay *replay);
int64_t job_replay_runtime_ns(const struct job_replay *replay, double unit);
/* The row's job, and on to the next. What the trace does not tell comes from luck. STATUS_OK, or why not, said in
 * ret_message (TRACE_MESSAGE_MAX). */
enum status job_replay_take(struct job_replay *replay, const struct job_draw *draw, const struct job_luck *luck,
                            struct job_arrival *ret_job, char *ret_message);
void job_replay_say(const struct job_replay *replay, struct notes *notes);

#endif
