/* What a job trace looks like, for a person who is about to believe in it. Fed row by row; memory is fixed. */
#ifndef TRACES_JOBS_SURVEY_H
#define TRACES_JOBS_SURVEY_H

#include "job_trace.h"
#include "survey.h"

struct jobs_survey_result {
    uint64_t rows;
    int64_t span_ns;         /* first arrival to last; 0 where there are none */
    double rate_per_day;     /* gaps over the span */
    double gap_cv;           /* coefficient of variation of the gaps */
    struct survey_lengths runtime_ms;   /* of the rows that tell it */
    struct survey_lengths requested_ms;
    struct survey_lengths gpus;         /* of the rows that ask for whole ones */
    uint64_t shares;         /* rows that ask for less than one GPU */
    uint64_t without_gpu;    /* rows that ask for none */
    double gpu_hours;        /* run time x GPUs, of the rows that tell both */
    uint64_t statuses[JOB_ROW_STATUS_COUNT];
    struct survey_names users;
    struct survey_names queues;
};

struct jobs_survey;

/* `has` of struct trace_info. NULL when there is no memory. */
struct jobs_survey *jobs_survey_create(uint32_t has);
void jobs_survey_free(struct jobs_survey *survey); /* accepts NULL */
void jobs_survey_add(struct jobs_survey *survey, const struct job_row *row);
struct jobs_survey_result jobs_survey_result(const struct jobs_survey *survey);

#endif
