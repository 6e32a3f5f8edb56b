/* Azure LLM inference traces (Azure/AzurePublicDataset, 2023 and 2024): when, how long the prompt, how long the answer.
 * Neither model nor tenant is named. */
#include "reader.h"

enum { TIMESTAMP, CONTEXT, GENERATED };

static bool azure_read(struct trace *trace, struct trace_row *ret_row)
{
    const uint32_t *at = trace->at;

    return trace_cells(trace) && trace_read_time(trace, at[TIMESTAMP], TRACE_TIME_DATETIME, &ret_row->at_ns) &&
           trace_read_tokens(trace, at[CONTEXT], false, &ret_row->prompt_tokens) &&
           trace_read_tokens(trace, at[GENERATED], false, &ret_row->output_tokens);
}

const struct trace_format trace_format_azure = {
    .name = "azure",
    .about = "Azure LLM inference 2023, 2024 (CSV: TIMESTAMP,ContextTokens,GeneratedTokens)",
    .family = TRACE_REQUESTS,
    .has = TRACE_HAS_PROMPT | TRACE_HAS_OUTPUT,
    .columns = {[TIMESTAMP] = {"TIMESTAMP", false}, [CONTEXT] = {"ContextTokens", false},
                [GENERATED] = {"GeneratedTokens", false}},
    .read = azure_read,
};
