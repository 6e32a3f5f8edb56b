/* BurstGPT (HPMLL/BurstGPT), both versions: the second adds the session and the time an answer took. A request that
 * failed has no response tokens, and sometimes no request tokens either; it is given, marked as failed. */
#include "reader.h"

enum { TIMESTAMP, MODEL, REQUEST, RESPONSE, TOTAL, LOG_TYPE, SESSION, ELAPSED };

static bool burstgpt_read(struct trace *trace, struct trace_row *ret_row)
{
    const uint32_t *at = trace->at;

    if (!trace_cells(trace) || !trace_read_time(trace, at[TIMESTAMP], TRACE_TIME_S, &ret_row->at_ns) ||
        !trace_read_tokens(trace, at[RESPONSE], true, &ret_row->output_tokens))
        return false;
    ret_row->failed = ret_row->output_tokens == 0;
    return trace_read_tokens(trace, at[REQUEST], ret_row->failed, &ret_row->prompt_tokens);
}

const struct trace_format trace_format_burstgpt = {
    .name = "burstgpt",
    .about = "BurstGPT 1 and 2 (CSV: Timestamp,[Session ID,Elapsed time,]Model,Request tokens,Response tokens,"
             "Total tokens,Log Type)",
    .family = TRACE_REQUESTS,
    .has = TRACE_HAS_PROMPT | TRACE_HAS_OUTPUT,
    .columns = {[TIMESTAMP] = {"Timestamp", false}, [MODEL] = {"Model", false}, [REQUEST] = {"Request tokens", false},
                [RESPONSE] = {"Response tokens", false}, [TOTAL] = {"Total tokens", false},
                [LOG_TYPE] = {"Log Type", false}, [SESSION] = {"Session ID", true}, [ELAPSED] = {"Elapsed time", true}},
    .read = burstgpt_read,
};
