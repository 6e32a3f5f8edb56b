/* berth-sim trace stat TRACE: what is in a trace of requests for objects, for those who size caches. */
#include <stdlib.h>
#include <unistd.h>

#include "cachelab/progress.h"
#include "cachelab/stat_show.h"
#include "cmd.h"
#include "cmd_objects.h"
#include "cmd_trace.h"
#include "host/options.h"

/* Half a megabyte, and the traces that cache adapters have fewer: they are sampled whole. */
#define SHARDS_OBJECTS 8192

#define PROGRESS_BATCHES 256

#define STAT_OPTIONS(X)                                                                                              \
    X(json, NULL, "JSON lines instead of the table: a record of the trace, then points of the curves")               \
    X(report, "DIR", "plots (PNG, SVG) and index.html, one page that can be mailed")                                 \
    X(shards, "RATE", "sample so large a part of the objects, above 0 up to 1, instead of a fixed number")           \
    X(shards_objects, "N", "sample at most so many objects (8192)")                                                  \
    X(simulate, NULL, "run LRU caches of the table's sizes too, in a second pass, and set them beside the curves")    \
    X(seed, "N", "which objects are sampled (1)")                                                                    \
    X(quiet, NULL, "no progress line")                                                                               \
    X(help, NULL, "this text")
enum {
#define X(name, argument, about) OPTION_##name,
    OBJECT_VALUES(X)
    STAT_OPTIONS(X)
#undef X
};
static const struct option table[] = {
#define X(name, argument, about) {#name, argument, about},
    OBJECT_VALUES(X)
    STAT_OPTIONS(X)
#undef X
};

struct stat_arguments {
    const char *path;
    const char *report;
    struct shards_config shards;
    struct object_arguments objects;
    struct object_columns columns;
    struct object_options options;
    bool json;
    bool simulate;
    bool quiet;
    bool help;
};

static void print_help(FILE *output)
{
    fputs("usage: berth-sim trace stat TRACE [options]\n\n"
          "Reads requests for objects, plain, gzip or zstd, and tells: objects and bytes; Zipf's exponent by maximum likelihood, with\n"
          "its error; how long until an object is asked for again; miss ratios of LRU caches of any size, exact by stack distances\n"
          "and from a sample (SHARDS) with its error; the working set over time. One pass; memory grows with objects only.\n\noptions:\n",
          output);
    options_print(output, table, ARRAY_COUNT(table));
    object_formats_print(output);
    fputs("\nExit codes: 0 done, 1 the file is bad or cannot be read, 2 wrong usage.\n", output);
}

static bool take_rate(const struct options *options, const char *value, double *ret_rate)
{
    if (!options_real(options, OPTION_shards, value, false, ret_rate))
        return false;
    if (*ret_rate * SHARDS_STEPS >= 1 && *ret_rate <= 1)
        return true;
    options_complain(options, OPTION_shards, value, "a part of the objects, from 1e-7 to 1");
    return false;
}

static bool take_option(const struct options *options, int option, const char *value, struct stat_arguments *arguments)
{
    int64_t number = 0;

    switch (option) {
#define X(field, argument, about)         \
    case OPTION_##field:                  \
        arguments->objects.field = value; \
        return true;
        OBJECT_VALUES(X)
#undef X
    case OPTION_json:
        return arguments->json = true;
    case OPTION_report:
        arguments->report = value;
        return true;
    case OPTION_shards:
        arguments->shards.objects_max = 0;
        return take_rate(options, value, &arguments->shards.rate);
    case OPTION_shards_objects:
        if (!options_whole(options, OPTION_shards_objects, value, 1, SHARDS_OBJECTS_MAX, &number))
            return false;
        arguments->shards.objects_max = (uint32_t)number;
        arguments->shards.rate = 1;
        return true;
    case OPTION_seed:
        if (!options_whole(options, OPTION_seed, value, 0, INT64_MAX, &number))
            return false;
        arguments->shards.seed = (uint64_t)number;
        return true;
    case OPTION_simulate:
        return arguments->simulate = true;
    case OPTION_quiet:
        return arguments->quiet = true;
    case OPTION_help:
        return arguments->help = true;
    case OPTION_OPERAND:
        if (arguments->path != NULL) {
            fprintf(options->errors, "berth-sim trace stat: one trace only, not also '%s'\n", value);
            return false;
        }
        arguments->path = value;
        return true;
    default:
        return false;
    }
}

static bool read_arguments(int argc, char **argv, struct stat_arguments *arguments, FILE *errors)
{
    struct options options = {.command = "berth-sim trace stat", .table = table, .count = ARRAY_COUNT(table), .errors = errors,
                              .argc = argc, .argv = argv, .at = 1};
    const char *value;
    int option;

    while ((option = options_next(&options, &value)) != OPTION_END)
        if (!take_option(&options, option, value, arguments))
            return false;
    if (arguments->path == NULL && !arguments->help)
        fputs("berth-sim trace stat: name a trace; see berth-sim trace stat --help\n", errors);
    return arguments->help || (arguments->path != NULL && object_arguments_take(&arguments->objects, "berth-sim trace stat",
                                                                                &arguments->columns, &arguments->options, errors));
}

static int no_memory(FILE *errors)
{
    fputs("berth-sim trace stat: no memory: it wants about 140 bytes an object\n", errors);
    return EXIT_FAILED;
}

/* To the trace's end. */
static int read_all(struct object_trace *trace, struct trace_stat *stat, struct lab_progress *progress, FILE *errors)
{
    struct object_request requests[TRACE_STAT_BATCH_MAX];
    uint64_t batches = 0;
    enum status status;
    uint32_t count;

    while ((status = object_trace_read(trace, requests, TRACE_STAT_BATCH_MAX, &count)) == STATUS_OK) {
        if (trace_stat_add(stat, requests, count) != STATUS_OK) {
            lab_progress_end(progress);
            return no_memory(errors);
        }
        if (batches++ % PROGRESS_BATCHES == 0)
            progress->requests_expected = object_trace_expected(trace);
        lab_progress_show(progress, object_trace_info(trace).requests);
    }
    lab_progress_end(progress);
    if (status == STATUS_END)
        return EXIT_OK;
    fprintf(errors, "%s\n", object_trace_message(trace));
    return EXIT_FAILED;
}

/* In a second pass; `about` says of which trace. */
static int simulate(const struct stat_arguments *arguments, const struct stat_about *about, const struct trace_facts *facts,
                    struct lab_progress *progress, struct stat_simulation *ret_simulation, FILE *errors)
{
    const struct lab_trace trace = {.path = arguments->path, .format = about->info.format, .options = &arguments->options};
    char message[TRACE_MESSAGE_MAX];
    enum status status;

    lab_progress_begin(progress, progress->out, "simulating LRU", facts->requests);
    status = stat_simulate(&trace, facts, about->info.has_size && facts->bytes_known, progress, ret_simulation, message);
    lab_progress_end(progress);
    if (status != STATUS_OK)
        fprintf(errors, "%s\n", message);
    return status == STATUS_OK ? EXIT_OK : EXIT_FAILED;
}

static int show(const struct stat_arguments *arguments, const struct object_trace *trace, struct trace_stat *stat,
                struct lab_progress *progress, FILE *output, FILE *errors)
{
    struct stat_about about = {.path = arguments->path, .info = object_trace_info(trace), .shards = arguments->shards};
    struct stat_simulation simulation;
    const struct trace_facts *facts;

    about.info.has_size |= arguments->options.size_bytes > 0; /* said here, where the format doesn't */
    if (trace_stat_facts(stat, &facts) != STATUS_OK)
        return no_memory(errors);
    if (arguments->simulate) {
        if (simulate(arguments, &about, facts, progress, &simulation, errors) != EXIT_OK)
            return EXIT_FAILED;
        about.simulation = &simulation;
    }
    if (arguments->json)
        stat_json(output, &about, facts);
    else
        stat_table(output, &about, facts);
    return arguments->report == NULL || stat_report(arguments->report, &about, facts, errors) == STATUS_OK ? EXIT_OK : EXIT_FAILED;
}

static int stat_trace(const struct stat_arguments *arguments, struct object_trace *trace, FILE *output, FILE *errors)
{
    struct trace_stat *stat = NULL;
    struct lab_progress progress;
    int code;

    if (trace_stat_create(&arguments->shards, &stat) != STATUS_OK)
        return no_memory(errors);
    lab_progress_begin(&progress, !arguments->quiet && isatty(fileno(errors)) == 1 ? errors : NULL, arguments->path, 0);
    code = read_all(trace, stat, &progress, errors);
    if (code == EXIT_OK)
        code = show(arguments, trace, stat, &progress, output, errors);
    trace_stat_free(stat);
    return code;
}

int trace_stat_command(int argc, char **argv, FILE *output, FILE *errors)
{
    struct stat_arguments arguments = {.shards = {.rate = 1, .objects_max = SHARDS_OBJECTS, .seed = 1},
                                       .objects = {.ignore_next = true}}; /* nothing here is about what comes next */
    char message[TRACE_MESSAGE_MAX];
    struct object_trace *trace = NULL;
    enum status status;
    int code;

    if (!read_arguments(argc, argv, &arguments, errors))
        return EXIT_USAGE;
    if (arguments.help) {
        print_help(output);
        return EXIT_OK;
    }
    status = object_trace_open(arguments.path, arguments.objects.format, &arguments.options, &trace, message);
    if (status != STATUS_OK) {
        fprintf(errors, "%s\n", message);
        return status == STATUS_INVALID ? EXIT_USAGE : EXIT_FAILED;
    }
    code = stat_trace(&arguments, trace, output, errors);
    object_trace_close(trace);
    return code;
}
