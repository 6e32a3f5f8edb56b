/* What a trace looks like, for a person who is about to believe in it: rate, burstiness, lengths, popularity. Fed row
 * by row; memory is fixed: the distinct names that are told apart have a bound. */
#ifndef TRACES_SURVEY_H
#define TRACES_SURVEY_H

#include "base/histogram.h"
#include "trace.h"

#define SURVEY_NAMES_MAX (1u << 18)

struct survey_lengths {
    uint64_t count;
    double mean;
    int64_t p50;
    int64_t p90;
    int64_t p99;
    int64_t max;
};

struct survey_names {
    uint64_t distinct;   /* SURVEY_NAMES_MAX: or more, when `bounded` */
    bool bounded;
    double top_1_share;  /* of the rows that name one */
    double top_10_share;
    double named_share;  /* of all rows */
};

struct survey_result {
    uint64_t rows;
    int64_t duration_ns;          /* first row to last */
    double rate_per_s;            /* gaps over duration; 0 where there is none */
    double gap_cv;                /* coefficient of variation of the gaps */
    uint64_t busiest_minute_rows; /* of the minutes counted from the first row */
    double failed_share;
    struct survey_lengths prompt; /* of the rows with a length: failed ones may have none */
    struct survey_lengths output;
    struct survey_names tenants;
    struct survey_names adapters;
    double lora_share;            /* of rows that use an adapter, however that is told */
};

struct survey;

/* `has` of struct trace_info. NULL when there is no memory. */
struct survey *survey_create(uint32_t has);
void survey_free(struct survey *survey); /* accepts NULL */
void survey_add(struct survey *survey, const struct trace_row *row);
struct survey_result survey_result(const struct survey *survey);

#endif
