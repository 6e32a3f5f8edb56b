/* berth-sim trace info of a job trace. */
#include "cmd_trace.h"

#include "cmd.h"
#include "host/words.h"

static const char *const status_words[JOB_ROW_STATUS_COUNT] = {
#define X(name, word) word,
    JOB_ROW_STATUSES(X)
#undef X
};

/* Milliseconds, as seconds. */
static void print_times(FILE *output, const char *name, const struct survey_lengths *times_ms)
{
    if (times_ms->count == 0)
        return;
    fprintf(output, "%-10s mean %.1f, p50 %.1f, p90 %.1f, p99 %.1f, max %.1f s\n", name, times_ms->mean / 1e3,
            (double)times_ms->p50 / 1e3, (double)times_ms->p90 / 1e3, (double)times_ms->p99 / 1e3,
            (double)times_ms->max / 1e3);
}

static void print_gpus(FILE *output, const struct trace_info *info, const struct jobs_survey_result *result)
{
    char count[NUMBER_TEXT_MAX];

    if ((info->has & JOB_HAS_GPUS) == 0) {
        fprintf(output, "%-10s none in this format; a scenario gives them\n", "gpus");
        return;
    }
    if (result->gpus.count > 0)
        fprintf(output, "%-10s mean %.2f, p50 %lld, p90 %lld, p99 %lld, max %s\n", "gpus", result->gpus.mean,
                (long long)result->gpus.p50, (long long)result->gpus.p90, (long long)result->gpus.p99,
                count_text((uint64_t)result->gpus.max, count));
    if (result->shares > 0)
        fprintf(output, "%-10s %s jobs ask for less than one GPU\n", "", count_text(result->shares, count));
    if (result->without_gpu > 0)
        fprintf(output, "%-10s %s jobs ask for none\n", "", count_text(result->without_gpu, count));
    if ((info->has & JOB_HAS_RUNTIME) != 0)
        fprintf(output, "%-10s %.1f\n", "gpu-hours", result->gpu_hours);
}

static void print_statuses(FILE *output, const struct jobs_survey_result *result)
{
    const char *comma = "";
    char count[NUMBER_TEXT_MAX];

    fprintf(output, "%-10s ", "status");
    for (size_t i = 0; i < JOB_ROW_STATUS_COUNT; i++) {
        if (result->statuses[i] == 0)
            continue;
        fprintf(output, "%s%s %s (%.1f%%)", comma, status_words[i], count_text(result->statuses[i], count),
                100 * (double)result->statuses[i] / (double)result->rows);
        comma = ", ";
    }
    fputc('\n', output);
}

static void print_jobs(FILE *output, const char *path, const struct trace_info *info,
                        const struct jobs_survey_result *result)
{
    char count[NUMBER_TEXT_MAX];

    fprintf(output, "%-10s %s\n%-10s %s (jobs)\n", "trace", path, "format", info->format);
    fprintf(output, "%-10s %s\n", "jobs", count_text(result->rows, count));
    if ((info->has & JOB_HAS_ARRIVAL) != 0)
        trace_print_duration(output, result->span_ns);
    else
        fprintf(output, "%-10s none in this format; a scenario gives them\n", "arrivals");
    if (result->span_ns > 0)
        fprintf(output, "%-10s %.1f jobs/day on average, CV of the gaps %.2f\n", "rate", result->rate_per_day,
                result->gap_cv);
    print_times(output, "run time", &result->runtime_ms);
    print_times(output, "requested", &result->requested_ms);
    if ((info->has & JOB_HAS_RUNTIME) == 0)
        fprintf(output, "%-10s none in this format; a scenario gives them\n", "run times");
    print_gpus(output, info, result);
    if ((info->has & JOB_HAS_STATUS) != 0)
        print_statuses(output, result);
    if (result->users.distinct > 0)
        trace_print_names(output, "users", &result->users);
    if (result->queues.distinct > 0)
        trace_print_names(output, "queues", &result->queues);
    trace_print_skips(output, info);
}

static json_t *json_times(const struct survey_lengths *times_ms)
{
    return json_pack("{s:I, s:f, s:f, s:f, s:f, s:f}", "count", (json_int_t)times_ms->count, "mean",
                     times_ms->mean / 1e3, "p50", (double)times_ms->p50 / 1e3, "p90", (double)times_ms->p90 / 1e3,
                     "p99", (double)times_ms->p99 / 1e3, "max", (double)times_ms->max / 1e3);
}

static json_t *json_gpus(const struct jobs_survey_result *result)
{
    const struct survey_lengths *gpus = &result->gpus;

    return json_pack("{s:I, s:f, s:I, s:I, s:I, s:I, s:I, s:I}", "count", (json_int_t)gpus->count, "mean", gpus->mean,
                     "p50", (json_int_t)gpus->p50, "p90", (json_int_t)gpus->p90, "p99", (json_int_t)gpus->p99, "max",
                     (json_int_t)gpus->max, "less_than_one", (json_int_t)result->shares, "none",
                     (json_int_t)result->without_gpu);
}

static json_t *json_statuses(const struct jobs_survey_result *result)
{
    json_t *object = json_object();

    for (size_t i = 0; i < JOB_ROW_STATUS_COUNT; i++)
        json_object_set_new(object, status_words[i], json_integer((json_int_t)result->statuses[i]));
    return object;
}

static void print_jobs_json(FILE *output, const struct trace_info *info, const struct jobs_survey_result *result)
{
    json_t *root = json_pack("{s:s, s:I, s:o}", "format", info->format, "jobs", (json_int_t)result->rows, "skipped",
                             trace_json_skips(info));

    if ((info->has & JOB_HAS_ARRIVAL) != 0) {
        json_object_set_new(root, "span_s", json_real((double)result->span_ns / (double)NS_PER_S));
        json_object_set_new(root, "rate_per_day", json_real(result->rate_per_day));
        json_object_set_new(root, "gap_cv", json_real(result->gap_cv));
    }
    if (result->runtime_ms.count > 0)
        json_object_set_new(root, "runtime_s", json_times(&result->runtime_ms));
    if (result->requested_ms.count > 0)
        json_object_set_new(root, "requested_s", json_times(&result->requested_ms));
    if ((info->has & JOB_HAS_GPUS) != 0) {
        json_object_set_new(root, "gpus", json_gpus(result));
        if ((info->has & JOB_HAS_RUNTIME) != 0)
            json_object_set_new(root, "gpu_hours", json_real(result->gpu_hours));
    }
    if ((info->has & JOB_HAS_STATUS) != 0)
        json_object_set_new(root, "statuses", json_statuses(result));
    if ((info->has & JOB_HAS_USER) != 0)
        json_object_set_new(root, "users", trace_json_names(&result->users));
    if ((info->has & JOB_HAS_QUEUE) != 0)
        json_object_set_new(root, "queues", trace_json_names(&result->queues));
    json_dumpf(root, output, JSON_REAL_PRECISION(9));
    fputc('\n', output);
    json_decref(root);
}

int trace_info_jobs(struct job_trace *trace, const char *path, bool json, FILE *output, FILE *errors)
{
    struct jobs_survey *survey = jobs_survey_create(job_trace_info(trace).has);
    struct jobs_survey_result result;
    struct trace_info info;
    struct job_row row;
    enum status status;

    if (survey == NULL) {
        fprintf(errors, "berth-sim trace: no memory for the survey\n");
        job_trace_close(trace);
        return EXIT_FAILED;
    }
    while ((status = job_trace_next(trace, &row)) == STATUS_OK)
        jobs_survey_add(survey, &row);
    info = job_trace_info(trace);
    result = jobs_survey_result(survey);
    if (status != STATUS_END)
        fprintf(errors, "%s\n", job_trace_message(trace));
    else if (json)
        print_jobs_json(output, &info, &result);
    else
        print_jobs(output, path, &info, &result);
    jobs_survey_free(survey);
    job_trace_close(trace);
    return status == STATUS_END ? EXIT_OK : EXIT_FAILED;
}
