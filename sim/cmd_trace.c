/* berth-sim trace info FILE: reads a trace from end to end and says what is in it. */
#include <stdio.h>
#include <stdlib.h>

#include "cmd.h"
#include "cmd_trace.h"
#include "host/options.h"
#include "host/words.h"

/* Options that take a value, with the fields of struct arguments that they fill. */
#define TRACE_VALUES(X)                                                                                      \
    X(format, format, "FORMAT", "one of the formats below; without it the first line tells")                  \
    X(tolerance, backward_tolerance_s, "S", "with --lenient: a time so little before the last is taken as equal to it") \
    X(time, time_column, "COLUMN", "csv: name or number (from 1) of the arrival time")                        \
    X(unit, time_unit, "UNIT", "csv: s (default), ms, us, ns or datetime")                                    \
    X(prompt, prompt_column, "COLUMN", "csv: tokens of the prompt")                                           \
    X(output, output_column, "COLUMN", "csv: tokens of the answer")                                           \
    X(adapter, adapter_column, "COLUMN", "csv: name of the adapter; empty or 0 is the base")                  \
    X(tenant, tenant_column, "COLUMN", "csv: name of the customer")                                           \
    X(runtime, runtime_column, "COLUMN", "csv of jobs, as all below: how long it ran")                        \
    X(requested, requested_column, "COLUMN", "how long it asked for")                                         \
    X(gpus, gpus_column, "COLUMN", "GPUs, whole ones or a share of one")                                      \
    X(memory, memory_column, "COLUMN", "bytes of memory")                                                     \
    X(status, status_column, "COLUMN", "how it ended")                                                        \
    X(user, user_column, "COLUMN", "whose it is")                                                             \
    X(name, name_column, "COLUMN", "what it is called")                                                       \
    X(queue, queue_column, "COLUMN", "its queue or class")
#define TRACE_FLAGS(X)                                                                                       \
    X(lenient, lenient, NULL, "skip bad lines and count them by reason")                                      \
    X(json, json, NULL, "one JSON object instead of the table")                                               \
    X(help, help, NULL, "this text")

enum {
#define X(field, name, argument, about) OPTION_##field,
    TRACE_VALUES(X)
    TRACE_FLAGS(X)
#undef X
};
static const struct option table[] = {
#define X(field, name, argument, about) {#name, argument, about},
    TRACE_VALUES(X)
    TRACE_FLAGS(X)
#undef X
};

struct arguments {
#define X(field, name, argument, about) const char *field;
    TRACE_VALUES(X)
#undef X
#define X(field, name, argument, about) bool field;
    TRACE_FLAGS(X)
#undef X
    const char *path;
};

static const char *const unit_names[] = {[TRACE_TIME_S] = "s", [TRACE_TIME_MS] = "ms", [TRACE_TIME_US] = "us",
                                         [TRACE_TIME_NS] = "ns", [TRACE_TIME_DATETIME] = "datetime"};

#define X(name, text) {#name, text},
static const struct {
    const char *name;
    const char *text;
} skips[] = {TRACE_SKIPS(X)};
#undef X

/* --- what a person reads --- */

static void print_help(FILE *output)
{
    const char *name;
    const char *about;

    fprintf(output, "usage: berth-sim trace info FILE [options]\n"
                    "       berth-sim trace stat TRACE       requests for objects: popularity, reuse, LRU's curve; has its own --help\n"
                    "       berth-sim trace convert IN OUT   requests for objects, in another format; has its own --help\n\n"
                    "Reads a trace of requests or of jobs, plain, gzip or zstd, and tells its rate, burstiness, lengths,\n"
                    "popularity, sizes.\n"
                    "A bad line stops it with file, line and column.\n\noptions:\n");
    options_print(output, table, ARRAY_COUNT(table));
    fprintf(output, "\nformats of requests:\n");
    for (size_t i = 0; trace_format_at(i, &name, &about); i++)
        fprintf(output, "  %-13s %s\n", name, about);
    fprintf(output, "\nformats of jobs (csv: where a column of jobs is named):\n");
    for (size_t i = 0; job_trace_format_at(i, &name, &about); i++)
        fprintf(output, "  %-13s %s\n", name, about);
    fprintf(output, "\nExit codes: 0 done, 1 the file is bad or cannot be read, 2 wrong usage.\n");
}

void trace_print_duration(FILE *output, int64_t duration_ns)
{
    int64_t seconds = duration_ns / NS_PER_S;

    fprintf(output, "%-10s %.3f s", "duration", (double)duration_ns / (double)NS_PER_S);
    if (seconds >= 86400)
        fprintf(output, " (%lld d %lld h %lld min)", (long long)(seconds / 86400), (long long)(seconds / 3600 % 24),
                (long long)(seconds / 60 % 60));
    else if (seconds >= 60)
        fprintf(output, " (%lld h %lld min %lld s)", (long long)(seconds / 3600), (long long)(seconds / 60 % 60),
                (long long)(seconds % 60));
    fputc('\n', output);
}

static void print_lengths(FILE *output, const char *name, const struct survey_lengths *lengths)
{
    char p50[NUMBER_TEXT_MAX];
    char p90[NUMBER_TEXT_MAX];
    char p99[NUMBER_TEXT_MAX];
    char max[NUMBER_TEXT_MAX];

    if (lengths->count == 0)
        return;
    fprintf(output, "%-10s mean %.1f, p50 %s, p90 %s, p99 %s, max %s tokens\n", name, lengths->mean,
            count_text((uint64_t)lengths->p50, p50), count_text((uint64_t)lengths->p90, p90),
            count_text((uint64_t)lengths->p99, p99), count_text((uint64_t)lengths->max, max));
}

void trace_print_names(FILE *output, const char *name, const struct survey_names *names)
{
    char distinct[NUMBER_TEXT_MAX];

    fprintf(output, "%-10s %s%s distinct, top one %.1f%%, top ten %.1f%% of the %.1f%% of rows that name one\n", name,
            names->bounded ? "more than " : "", count_text(names->distinct, distinct), 100 * names->top_1_share,
            100 * names->top_10_share, 100 * names->named_share);
    if (names->bounded)
        fprintf(output, "%-10s (names beyond the first %s are not told apart)\n", "", distinct);
}

void trace_print_skips(FILE *output, const struct trace_info *info)
{
    char count[NUMBER_TEXT_MAX];

    for (size_t i = 0; i < TRACE_SKIP_COUNT; i++)
        if (info->skipped[i] > 0)
            fprintf(output, "%-10s %s: %s\n", i == TRACE_SKIP_PART ? "parts" : "lenient",
                    count_text(info->skipped[i], count), skips[i].text);
}

static void print_table(FILE *output, const char *path, const struct trace_info *info,
                        const struct survey_result *result)
{
    char count[NUMBER_TEXT_MAX];

    fprintf(output, "%-10s %s\n%-10s %s\n", "trace", path, "format", info->format);
    fprintf(output, "%-10s %s\n", "rows", count_text(result->rows, count));
    trace_print_duration(output, result->duration_ns);
    if (result->duration_ns > 0)
        fprintf(output, "%-10s %.3g requests/s on average, CV of the gaps %.2f, busiest minute %s requests\n", "rate",
                result->rate_per_s, result->gap_cv, count_text(result->busiest_minute_rows, count));
    print_lengths(output, "prompt", &result->prompt);
    print_lengths(output, "output", &result->output);
    fprintf(output, "%-10s %.2f%% of rows\n", "failed", 100 * result->failed_share);
    if ((info->has & TRACE_HAS_TENANT) != 0)
        trace_print_names(output, "tenants", &result->tenants);
    if ((info->has & TRACE_HAS_ADAPTER) != 0)
        trace_print_names(output, "adapters", &result->adapters);
    else if ((info->has & TRACE_HAS_LORA_COUNT) != 0)
        fprintf(output, "%-10s not named; %.1f%% of rows use at least one\n", "adapters", 100 * result->lora_share);
    else
        fprintf(output, "%-10s none in this format; a scenario assigns them\n", "adapters");
    trace_print_skips(output, info);
}

/* --- what a machine reads --- */

static json_t *json_lengths(const struct survey_lengths *lengths)
{
    return json_pack("{s:I, s:f, s:I, s:I, s:I, s:I}", "count", (json_int_t)lengths->count, "mean", lengths->mean,
                     "p50", (json_int_t)lengths->p50, "p90", (json_int_t)lengths->p90, "p99",
                     (json_int_t)lengths->p99, "max", (json_int_t)lengths->max);
}

json_t *trace_json_names(const struct survey_names *names)
{
    return json_pack("{s:I, s:b, s:f, s:f, s:f}", "distinct", (json_int_t)names->distinct, "bounded", names->bounded,
                     "top_1_share", names->top_1_share, "top_10_share", names->top_10_share, "named_share",
                     names->named_share);
}

json_t *trace_json_skips(const struct trace_info *info)
{
    json_t *object = json_object();

    for (size_t i = 0; i < TRACE_SKIP_COUNT; i++) {
        char name[16];
        size_t length = 0;

        for (; skips[i].name[length] != 0; length++)
            name[length] = (char)(skips[i].name[length] | 0x20); /* the names are capitals */
        name[length] = 0;
        json_object_set_new(object, name, json_integer((json_int_t)info->skipped[i]));
    }
    return object;
}

static void print_json(FILE *output, const struct trace_info *info, const struct survey_result *result)
{
    json_t *root = json_pack("{s:s, s:I, s:f, s:f, s:f, s:I, s:f, s:f, s:o}", "format", info->format, "rows",
                             (json_int_t)result->rows, "duration_s", (double)result->duration_ns / (double)NS_PER_S,
                             "rate_per_s", result->rate_per_s, "gap_cv", result->gap_cv, "busiest_minute_rows",
                             (json_int_t)result->busiest_minute_rows, "failed_share", result->failed_share,
                             "lora_share", result->lora_share, "skipped", trace_json_skips(info));

    if (result->prompt.count > 0)
        json_object_set_new(root, "prompt_tokens", json_lengths(&result->prompt));
    if (result->output.count > 0)
        json_object_set_new(root, "output_tokens", json_lengths(&result->output));
    if ((info->has & TRACE_HAS_TENANT) != 0)
        json_object_set_new(root, "tenants", trace_json_names(&result->tenants));
    if ((info->has & TRACE_HAS_ADAPTER) != 0)
        json_object_set_new(root, "adapters", trace_json_names(&result->adapters));
    json_dumpf(root, output, JSON_REAL_PRECISION(9));
    fputc('\n', output);
    json_decref(root);
}

/* --- arguments --- */

/* False, with a message, when the line is wrong. */
static bool read_arguments(int argc, char **argv, struct arguments *arguments, FILE *errors)
{
    struct options options = {.command = "berth-sim trace info", .table = table, .count = ARRAY_COUNT(table), .errors = errors,
                              .argc = argc, .argv = argv, .at = 1};
    const char *verb = NULL;
    const char *value;
    int option;

    while ((option = options_next(&options, &value)) != OPTION_END) {
        switch (option) {
#define X(field, name, argument, about) \
        case OPTION_##field:            \
            arguments->field = value;   \
            break;
            TRACE_VALUES(X)
#undef X
#define X(field, name, argument, about) \
        case OPTION_##field:            \
            arguments->field = true;    \
            break;
            TRACE_FLAGS(X)
#undef X
        case OPTION_OPERAND:
            if (arguments->path != NULL) {
                fprintf(errors, "berth-sim trace info: one file only, not also '%s'\n", value);
                return false;
            }
            *(verb == NULL ? &verb : &arguments->path) = value;
            break;
        default:
            return false;
        }
        if (arguments->help)
            return true;
    }
    if (verb == NULL || strcmp(verb, "info") != 0)
        fprintf(errors, "berth-sim trace: say what to do: berth-sim trace info FILE, stat or convert; see berth-sim trace --help\n");
    else if (arguments->path == NULL)
        fprintf(errors, "berth-sim trace info: name a file; see berth-sim trace --help\n");
    return verb != NULL && strcmp(verb, "info") == 0 && arguments->path != NULL;
}

static bool copy_column(char target[TRACE_ID_MAX], const char *source, FILE *errors)
{
    if (source == NULL)
        return true;
    if (strlen(source) < TRACE_ID_MAX) {
        memcpy(target, source, strlen(source) + 1);
        return true;
    }
    fprintf(errors, "berth-sim trace: a column's name has at most %d bytes; use its number\n", TRACE_ID_MAX - 1);
    return false;
}

static bool read_columns(const struct arguments *arguments, struct trace_columns *ret_columns, FILE *errors)
{
    size_t unit = 0;

    if (!copy_column(ret_columns->time, arguments->time, errors) ||
        !copy_column(ret_columns->prompt, arguments->prompt, errors) ||
        !copy_column(ret_columns->output, arguments->output, errors) ||
        !copy_column(ret_columns->adapter, arguments->adapter, errors) ||
        !copy_column(ret_columns->tenant, arguments->tenant, errors))
        return false;
    if (arguments->unit != NULL)
        while (unit < ARRAY_COUNT(unit_names) && strcmp(unit_names[unit], arguments->unit) != 0)
            unit++;
    if (unit == ARRAY_COUNT(unit_names)) {
        fprintf(errors, "berth-sim trace: no time unit '%s': s, ms, us, ns or datetime\n", arguments->unit);
        return false;
    }
    ret_columns->time_unit = (enum trace_time_unit)unit;
    return true;
}

static bool read_job_columns(const struct arguments *arguments, const struct trace_columns *columns,
                             struct job_columns *ret_columns, FILE *errors)
{
    memcpy(ret_columns->time, columns->time, TRACE_ID_MAX);
    ret_columns->time_unit = columns->time_unit;
    return copy_column(ret_columns->runtime, arguments->runtime, errors) &&
           copy_column(ret_columns->requested, arguments->requested, errors) &&
           copy_column(ret_columns->gpus, arguments->gpus, errors) &&
           copy_column(ret_columns->memory, arguments->memory, errors) &&
           copy_column(ret_columns->status, arguments->status, errors) &&
           copy_column(ret_columns->user, arguments->user, errors) &&
           copy_column(ret_columns->name, arguments->name, errors) &&
           copy_column(ret_columns->queue, arguments->queue, errors);
}

static bool names_request_columns(const struct arguments *arguments)
{
    return arguments->prompt != NULL || arguments->output != NULL || arguments->adapter != NULL ||
           arguments->tenant != NULL;
}

static bool names_job_columns(const struct arguments *arguments)
{
    return arguments->runtime != NULL || arguments->requested != NULL || arguments->gpus != NULL ||
           arguments->memory != NULL || arguments->status != NULL || arguments->user != NULL ||
           arguments->name != NULL || arguments->queue != NULL;
}

static bool names_columns(const struct arguments *arguments)
{
    return arguments->time != NULL || arguments->unit != NULL || names_request_columns(arguments) ||
           names_job_columns(arguments);
}

static bool read_tolerance(const struct arguments *arguments, int64_t *ret_tolerance_ns, FILE *errors)
{
    char *end;
    double seconds;

    if (arguments->tolerance == NULL)
        return true;
    seconds = strtod(arguments->tolerance, &end);
    if (end == arguments->tolerance || *end != 0 || !(seconds >= 0 && seconds <= 1e6)) {
        fprintf(errors, "berth-sim trace: --backward-tolerance-s wants a number from 0 to 1e6, not '%s'\n",
                arguments->tolerance);
        return false;
    }
    *ret_tolerance_ns = (int64_t)(seconds * (double)NS_PER_S);
    return true;
}

/* --- the work --- */

static enum status survey_file(struct trace *trace, struct survey *survey)
{
    struct trace_row row;
    enum status status;

    while ((status = trace_next(trace, &row)) == STATUS_OK)
        survey_add(survey, &row);
    return status;
}

/* Requests to their end; closes the trace. */
static int info_requests(struct trace *trace, const struct arguments *arguments, FILE *output, FILE *errors)
{
    struct trace_info info = trace_info(trace);
    struct survey *survey = survey_create(info.has);
    struct survey_result result;
    enum status status;

    if (survey == NULL) {
        fprintf(errors, "berth-sim trace: no memory for the survey\n");
        trace_close(trace);
        return EXIT_FAILED;
    }
    status = survey_file(trace, survey);
    info = trace_info(trace);
    result = survey_result(survey);
    if (status != STATUS_END)
        fprintf(errors, "%s\n", trace_message(trace));
    else if (arguments->json)
        print_json(output, &info, &result);
    else
        print_table(output, arguments->path, &info, &result);
    survey_free(survey);
    trace_close(trace);
    return status == STATUS_END ? EXIT_OK : EXIT_FAILED;
}

/* One of the two is set. */
struct opened {
    struct trace *requests;
    struct job_trace *jobs;
};

static enum status open_trace(const struct arguments *arguments, const struct trace_options *options,
                              const struct job_columns *job_columns, struct opened *ret_opened, char *ret_message)
{
    struct job_trace_options job_options = {options->lenient, options->backward_tolerance_ns, job_columns};

    if (names_job_columns(arguments))
        return job_trace_open(arguments->path, arguments->format, &job_options, &ret_opened->jobs, ret_message);
    return trace_open_either(arguments->path, arguments->format, options, &ret_opened->requests, &ret_opened->jobs,
                             ret_message);
}

static int trace_survey(const struct arguments *arguments, const struct trace_options *options,
                        const struct job_columns *job_columns, FILE *output, FILE *errors)
{
    char message[TRACE_MESSAGE_MAX];
    struct opened opened = {NULL, NULL};
    enum status status = open_trace(arguments, options, job_columns, &opened, message);
    const char *format;

    if (status != STATUS_OK) {
        fprintf(errors, "%s\n", message);
        return status == STATUS_NOT_FOUND || status == STATUS_INVALID ? EXIT_USAGE : EXIT_FAILED;
    }
    format = opened.jobs != NULL ? job_trace_info(opened.jobs).format : trace_info(opened.requests).format;
    if (names_columns(arguments) && strcmp(format, "csv") != 0) {
        fprintf(errors,
                "berth-sim trace: columns are named for csv only, and this is %s; add --format csv or leave them out\n",
                format);
        job_trace_close(opened.jobs);
        trace_close(opened.requests);
        return EXIT_USAGE;
    }
    return opened.jobs != NULL ? trace_info_jobs(opened.jobs, arguments->path, arguments->json, output, errors)
                               : info_requests(opened.requests, arguments, output, errors);
}

int trace_info_command(int argc, char **argv, FILE *output, FILE *errors)
{
    struct arguments arguments = {0};
    struct trace_columns columns = {0};
    struct job_columns job_columns = {0};
    struct trace_options options = {.columns = &columns};

    if (!read_arguments(argc, argv, &arguments, errors))
        return EXIT_USAGE;
    if (arguments.help) {
        print_help(output);
        return EXIT_OK;
    }
    if (!read_columns(&arguments, &columns, errors) || !read_job_columns(&arguments, &columns, &job_columns, errors) ||
        !read_tolerance(&arguments, &options.backward_tolerance_ns, errors))
        return EXIT_USAGE;
    if (names_request_columns(&arguments) && names_job_columns(&arguments)) {
        fprintf(errors, "berth-sim trace: columns of requests and of jobs are named; a file has one or the other\n");
        return EXIT_USAGE;
    }
    options.lenient = arguments.lenient;
    return trace_survey(&arguments, &options, &job_columns, output, errors);
}
