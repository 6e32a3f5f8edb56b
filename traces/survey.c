#include "survey.h"

#include <stdlib.h>

#include "tally.h"

struct survey {
    uint64_t rows;
    uint64_t failed;
    uint64_t with_lora;
    int64_t last_ns;
    struct tally_gaps gaps;
    int64_t minute;
    uint64_t minute_rows;
    uint64_t busiest_minute_rows;
    struct histogram prompt;
    struct histogram output;
    struct tally_names tenants;
    struct tally_names adapters;
};

struct survey *survey_create(uint32_t has)
{
    struct survey *survey = calloc(1, sizeof(*survey));

    if (survey == NULL)
        return NULL;
    histogram_init(&survey->prompt);
    histogram_init(&survey->output);
    if (((has & TRACE_HAS_TENANT) != 0 && !tally_names_init(&survey->tenants)) ||
        ((has & TRACE_HAS_ADAPTER) != 0 && !tally_names_init(&survey->adapters))) {
        survey_free(survey);
        return NULL;
    }
    return survey;
}

void survey_free(struct survey *survey)
{
    if (survey == NULL)
        return;
    tally_names_free(&survey->tenants);
    tally_names_free(&survey->adapters);
    free(survey);
}

static void minute_add(struct survey *survey, int64_t at_ns)
{
    int64_t minute = at_ns / (60 * NS_PER_S);

    survey->minute_rows = minute == survey->minute ? survey->minute_rows + 1 : 1;
    survey->minute = minute;
    survey->busiest_minute_rows = max_u64(survey->busiest_minute_rows, survey->minute_rows);
}

void survey_add(struct survey *survey, const struct trace_row *row)
{
    check(row->at_ns >= survey->last_ns);
    if (survey->rows > 0)
        tally_gap(&survey->gaps, row->at_ns - survey->last_ns);
    minute_add(survey, row->at_ns);
    survey->last_ns = row->at_ns;
    survey->rows++;
    survey->failed += row->failed;
    survey->with_lora += row->lora_count > 0 || row->adapter[0] != 0;
    if (row->prompt_tokens > 0)
        histogram_add(&survey->prompt, row->prompt_tokens);
    if (row->output_tokens > 0)
        histogram_add(&survey->output, row->output_tokens);
    tally_name(&survey->tenants, row->tenant);
    tally_name(&survey->adapters, row->adapter);
}

struct survey_lengths survey_lengths_of(const struct histogram *histogram)
{
    return (struct survey_lengths){histogram->count, histogram_mean(histogram), histogram_quantile(histogram, 0.5),
                                   histogram_quantile(histogram, 0.9), histogram_quantile(histogram, 0.99),
                                   (int64_t)histogram->max};
}

struct survey_result survey_result(const struct survey *survey)
{
    struct survey_result result = {.rows = survey->rows, .duration_ns = survey->last_ns,
                                   .busiest_minute_rows = survey->busiest_minute_rows};

    result.prompt = survey_lengths_of(&survey->prompt);
    result.output = survey_lengths_of(&survey->output);
    if (survey->rows == 0)
        return result;
    result.failed_share = (double)survey->failed / (double)survey->rows;
    result.lora_share = (double)survey->with_lora / (double)survey->rows;
    result.tenants = tally_names_result(&survey->tenants, survey->rows);
    result.adapters = tally_names_result(&survey->adapters, survey->rows);
    if (survey->last_ns > 0) {
        result.rate_per_s = tally_rate_per_s(&survey->gaps);
        result.gap_cv = tally_gap_cv(&survey->gaps);
    }
    return result;
}
