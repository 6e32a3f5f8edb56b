/* Opening and closing, and the plan of a training. */
#include "validate/validate.h"

#include <stdlib.h>

#include "validate/internal.h"

struct validator *validator_open(const struct validate_config *config, const struct validator *validation)
{
    struct validator *validator = calloc(1, sizeof(*validator));
    const struct tokenizer *tokenizer = config->source != NULL ? config->source->tokenizer : NULL;
    size_t count = 0;

    check(validator != NULL);
    check(config->line_bytes_max >= 1 && config->line_bytes_max <= VALIDATE_LINE_BYTES_MAX);
    validator->config = *config;
    validator->validation = validation;
    validator->chats = tokenizer == NULL || tokenizer_chat_template(tokenizer, &count) != NULL;
    validator->format = FORMAT_UNKNOWN;
    validator->cut_issue = SIZE_MAX;
    validator->examples.count_max = VALIDATE_COMPARED_MAX;
    validator->prompts.count_max = VALIDATE_COMPARED_MAX;
    validator->tree.listener = soft_fault;
    validator->tree.context = validator;
    histogram_init(&validator->statistics.example_tokens);
    marks_open(&validator->marks, tokenizer);
    return validator;
}

void validator_close(struct validator *validator)
{
    if (validator == NULL)
        return;
    free(validator->issues);
    free(validator->carry);
    free(validator->batch.text);
    tree_free(&validator->tree);
    tree_free(&validator->inner);
    twins_free(&validator->examples);
    twins_free(&validator->prompts);
    marks_close(&validator->marks);
    free(validator);
}

bool validate_plan(const struct validator *validator, int64_t epochs, int64_t batch, struct validate_dry_run *ret_plan)
{
    const struct validate_statistics *statistics = &validator->statistics;
    const int64_t examples = statistics->good - validator->identical;
    const int64_t units = statistics->samples / (validator->config.preferences ? 2 : 1);

    if (units < 1 || examples < 1 || units > INT32_MAX)
        return false;
    ret_plan->epochs = epochs > 0 ? epochs : data_epochs((int32_t)examples);
    ret_plan->batch = batch > 0 ? batch : data_batch((int32_t)units);
    ret_plan->steps = ret_plan->epochs * ((units + ret_plan->batch - 1) / ret_plan->batch);
    ret_plan->tokens = ret_plan->epochs * statistics->tokens;
    ret_plan->trained_tokens = ret_plan->epochs * statistics->trained_tokens;
    return true;
}
