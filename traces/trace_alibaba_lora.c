/* The LoRA request trace of Alibaba's cluster-trace-v2026-GenAI (GenTD26): image generation, so the lengths of its
 * prompts are characters and are left alone. What it can tell are arrivals, customers (groupId), how many adapters a
 * request used, and whether it failed. */
#include "reader.h"

enum { CREATED, TYPE, PREDICT_STATUS, EXECUTION, GROUP, PROMPT, NEGATIVE, IMAGES, STEPS, CHECKPOINT, LORAS };
enum { LORAS_MAX = 1000 };

static bool alibaba_lora_read(struct trace *trace, struct trace_row *ret_row)
{
    const uint32_t *at = trace->at;
    const struct cell *outcome = &trace->cells[at[PREDICT_STATUS]];
    const struct cell *loras = &trace->cells[at[LORAS]];
    const char *problem;

    if (!trace_cells(trace) || !trace_read_time(trace, at[CREATED], TRACE_TIME_DATETIME, &ret_row->at_ns) ||
        !trace_read_name(trace, at[GROUP], ret_row->tenant))
        return false;
    problem = value_count(loras->text, loras->length, LORAS_MAX, &ret_row->lora_count);
    if (problem != NULL)
        return trace_refuse_cell(trace, TRACE_SKIP_LENGTH, at[LORAS], problem);
    ret_row->failed = outcome->length == 6 && memcmp(outcome->text, "FAILED", 6) == 0;
    return true;
}

const struct trace_format trace_format_alibaba_lora = {
    .name = "alibaba-lora",
    .about = "Alibaba GenTD26 lora_request_trace (CSV: gmt_create, groupId, num_lora and eight more; no token lengths)",
    .family = TRACE_REQUESTS,
    .has = TRACE_HAS_LORA_COUNT | TRACE_HAS_TENANT,
    .columns = {[CREATED] = {"gmt_create", false}, [TYPE] = {"predict_type", false},
                [PREDICT_STATUS] = {"predict_status", false}, [EXECUTION] = {"exec_time_seconds", false},
                [GROUP] = {"groupId", false}, [PROMPT] = {"prompt_length", false},
                [NEGATIVE] = {"negative_prompt_length", false}, [IMAGES] = {"num_images_per_prompt", false},
                [STEPS] = {"num_inference_steps", false}, [CHECKPOINT] = {"checkpoint_model_version_id", false},
                [LORAS] = {"num_lora", false}},
    .read = alibaba_lora_read,
};
