/* First what has to be known before a cell can begin: the working set, where a size is a share of it; who is asked for when
 * again, where a policy wants to know and the format doesn't say. Then the cells, dealt to processes. */
#include "cachelab/study.h"

#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "cachelab/progress.h"
#include "cachelab/survey.h"

struct course {
    const struct lab_study *study;
    FILE *errors;
    struct lab_trace trace;
    struct lab_size sizes[SPEC_LIST_MAX]; /* of this trace */
    struct lab_cell_setup *setups;
    struct lab_result *results;
    struct lab_series *series;
    struct lab_survey survey;
    struct lab_progress bar;
    struct lab_outcome outcome;
};

static enum status complain(struct course *course, enum status status, const char *message)
{
    fprintf(course->errors, "berth-sim cache: %s\n", message);
    return status;
}

/* Every process reads it by itself. */
static enum status must_be_a_file(struct course *course)
{
    char message[TRACE_MESSAGE_MAX];
    struct stat facts;

    if (stat(course->trace.path, &facts) != 0 || S_ISREG(facts.st_mode))
        return STATUS_OK; /* that it isn't there is said by who opens it */
    snprintf(message, sizeof(message), "%s: is no file, and can be read once only; write it to one first", course->trace.path);
    return complain(course, STATUS_INVALID, message);
}

static bool on_progress(void *context, uint64_t requests, uint64_t expected)
{
    struct course *course = context;

    course->bar.requests_expected = expected;
    lab_progress_show(&course->bar, requests);
    return !*course->study->stop;
}

static bool wants_shares(const struct lab_study *study)
{
    bool wants = false;

    for (uint32_t i = 0; i < study->sizes_count; i++)
        wants |= study->sizes[i].share;
    return wants;
}

static bool wants_next(const struct lab_study *study)
{
    bool wants = false;

    for (uint32_t i = 0; i < study->policies_count; i++)
        wants |= study->policies[i].evict != NULL && study->policies[i].evict->offline;
    return wants;
}

/* Whether the file says when an object is asked for again. */
static enum status has_next(struct course *course, bool *ret_has_next)
{
    const struct lab_trace *trace = &course->trace;
    struct object_trace *opened;
    char message[TRACE_MESSAGE_MAX];
    enum status status = object_trace_open(trace->path, trace->format, trace->options, &opened, message);

    if (status != STATUS_OK)
        return complain(course, status, message);
    *ret_has_next = object_trace_info(opened).has_next;
    object_trace_close(opened);
    return STATUS_OK;
}

static enum status look_ahead(struct course *course)
{
    const struct lab_study *study = course->study;
    char message[TRACE_MESSAGE_MAX];
    bool next_is_known = true;
    enum status status = STATUS_OK;

    if (wants_next(study))
        status = has_next(course, &next_is_known);
    if (status != STATUS_OK || (next_is_known && !wants_shares(study)))
        return status;
    lab_progress_begin(&course->bar, study->progress, "looking ahead", 0);
    status = lab_survey_run(&course->trace, !next_is_known, study->requests_max, on_progress, course, &course->survey, message);
    lab_progress_end(&course->bar);
    if (status != STATUS_OK)
        return status == STATUS_END ? status : complain(course, status, message);
    course->trace.next = course->survey.next;
    for (uint32_t i = 0; i < study->sizes_count; i++)
        if (course->sizes[i].share && spec_share(&course->sizes[i], course->survey.objects, course->survey.bytes, message) != STATUS_OK)
            return complain(course, STATUS_INVALID, message);
    return STATUS_OK;
}

static int64_t cost(double ns)
{
    return ns < 9e18 ? (int64_t)llround(ns) : INT64_MAX;
}

/* Policies stay together, then admissions, then sizes, as they were named. */
static void setups_fill(struct course *course)
{
    const struct lab_study *study = course->study;
    struct lab_cell_setup *setup = course->setups;

    for (uint32_t i = 0; i < study->policies_count; i++)
        for (uint32_t j = 0; j < study->admissions_count; j++)
            for (uint32_t k = 0; k < study->sizes_count; k++)
                *setup++ = (struct lab_cell_setup){
                    .policy = &study->policies[i],
                    .admission = &study->admissions[j],
                    .size = &course->sizes[k],
                    .cost_fixed_ns = study->cost_aware ? cost(study->load.fixed_s * 1e9) : 0,
                    .cost_ns_per_mib = study->cost_aware ? cost(1048576e9 / study->load.bytes_per_s) : 0,
                    .seed = study->seed,
                    .in_flight = study->in_flight,
                };
}

static enum status cells_run(struct course *course)
{
    const struct lab_study *study = course->study;
    struct lab_outcome *outcome = &course->outcome;
    const struct lab_crew crew = {
        .trace = &course->trace, .setups = course->setups, .cells_count = outcome->cells_count, .jobs = study->jobs,
        .warmup = study->warmup, .interval = study->interval, .requests_max = study->requests_max,
        .progress = study->progress, .stop = study->stop,
    };
    char message[TRACE_MESSAGE_MAX];
    enum status status;

    setups_fill(course);
    status = lab_crew_run(&crew, course->results, course->series, &outcome->info, message);
    if (status != STATUS_OK)
        return status == STATUS_END ? status : complain(course, status, message);
    lab_rank(outcome);
    return STATUS_OK;
}

static struct course *course_create(const struct lab_study *study, const char *path, FILE *errors)
{
    const uint32_t count = study->policies_count * study->admissions_count * study->sizes_count;
    struct course *course = calloc(1, sizeof(*course));

    check(count >= 1 && count <= STUDY_CELLS_MAX);
    if (course == NULL)
        return NULL;
    course->study = study;
    course->errors = errors;
    course->trace = (struct lab_trace){.path = path, .format = study->format, .options = study->options};
    memcpy(course->sizes, study->sizes, sizeof(course->sizes));
    course->setups = calloc(count, sizeof(*course->setups));
    course->results = calloc(count, sizeof(*course->results));
    course->series = calloc(count, sizeof(*course->series));
    course->outcome = (struct lab_outcome){
        .trace = path, .load = study->load, .warmup = study->warmup, .interval = study->interval, .seed = study->seed,
        .in_flight = study->in_flight, .times = study->times, .setups = course->setups, .results = course->results,
        .series = course->series, .ranks = calloc(count, sizeof(*course->outcome.ranks)), .cells_count = count,
    };
    if (course->setups != NULL && course->results != NULL && course->series != NULL && course->outcome.ranks != NULL)
        return course;
    lab_outcome_free(&course->outcome);
    return NULL;
}

enum status lab_study_run(const struct lab_study *study, const char *path, FILE *errors, struct lab_outcome **ret_outcome)
{
    struct course *course = course_create(study, path, errors);
    enum status status;

    if (course == NULL) {
        fputs("berth-sim cache: no memory to begin with\n", errors);
        return STATUS_FULL;
    }
    status = must_be_a_file(course);
    if (status == STATUS_OK)
        status = look_ahead(course);
    if (status == STATUS_OK)
        status = cells_run(course);
    free(course->survey.next);
    course->survey.next = NULL;
    if (status == STATUS_OK)
        *ret_outcome = &course->outcome;
    else
        lab_outcome_free(&course->outcome);
    return status;
}

void lab_outcome_free(struct lab_outcome *outcome)
{
    struct course *course;

    if (outcome == NULL)
        return;
    course = (struct course *)(void *)((char *)outcome - offsetof(struct course, outcome));
    if (course->series != NULL)
        lab_series_free(course->series, outcome->cells_count);
    free(outcome->ranks);
    free(course->series);
    free(course->results);
    free(course->setups);
    free(course);
}
