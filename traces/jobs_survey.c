#include "jobs_survey.h"

#include <stdlib.h>

#include "tally.h"

struct jobs_survey {
    struct jobs_survey_result result; /* what is summed as it comes */
    int64_t last_ns;
    uint128 gpu_milli_ns;
    struct tally_gaps gaps;
    struct histogram runtime_ms;
    struct histogram requested_ms;
    struct histogram gpus;
    struct tally_names users;
    struct tally_names queues;
};

struct jobs_survey *jobs_survey_create(uint32_t has)
{
    struct jobs_survey *survey = calloc(1, sizeof(*survey));

    if (survey == NULL)
        return NULL;
    histogram_init(&survey->runtime_ms);
    histogram_init(&survey->requested_ms);
    histogram_init(&survey->gpus);
    if (((has & JOB_HAS_USER) != 0 && !tally_names_init(&survey->users)) ||
        ((has & JOB_HAS_QUEUE) != 0 && !tally_names_init(&survey->queues))) {
        jobs_survey_free(survey);
        return NULL;
    }
    return survey;
}

void jobs_survey_free(struct jobs_survey *survey)
{
    if (survey == NULL)
        return;
    tally_names_free(&survey->users);
    tally_names_free(&survey->queues);
    free(survey);
}

void jobs_survey_add(struct jobs_survey *survey, const struct job_row *row)
{
    struct jobs_survey_result *result = &survey->result;

    check(row->at_ns >= survey->last_ns);
    if (result->rows > 0)
        tally_gap(&survey->gaps, row->at_ns - survey->last_ns);
    survey->last_ns = row->at_ns;
    result->rows++;
    result->statuses[row->status]++;
    if (row->runtime_ns >= 0)
        histogram_add(&survey->runtime_ms, row->runtime_ns / NS_PER_MS);
    if (row->requested_ns >= 0)
        histogram_add(&survey->requested_ms, row->requested_ns / NS_PER_MS);
    if (row->gpus > 0)
        histogram_add(&survey->gpus, row->gpus);
    result->shares += row->gpu_milli > 0;
    result->without_gpu += row->gpus == 0 && row->gpu_milli == 0;
    if (row->runtime_ns > 0)
        survey->gpu_milli_ns += (uint128)row->runtime_ns * ((uint64_t)row->gpus * 1000 + row->gpu_milli);
    tally_name(&survey->users, row->user);
    tally_name(&survey->queues, row->queue);
}

struct jobs_survey_result jobs_survey_result(const struct jobs_survey *survey)
{
    struct jobs_survey_result result = survey->result;

    result.span_ns = survey->last_ns;
    result.runtime_ms = survey_lengths_of(&survey->runtime_ms);
    result.requested_ms = survey_lengths_of(&survey->requested_ms);
    result.gpus = survey_lengths_of(&survey->gpus);
    result.gpu_hours = (double)survey->gpu_milli_ns / 1000 / 3600 / (double)NS_PER_S;
    if (result.rows == 0)
        return result;
    result.users = tally_names_result(&survey->users, result.rows);
    result.queues = tally_names_result(&survey->queues, result.rows);
    if (survey->last_ns > 0) {
        result.rate_per_day = tally_rate_per_s(&survey->gaps) * 86400;
        result.gap_cv = tally_gap_cv(&survey->gaps);
    }
    return result;
}
