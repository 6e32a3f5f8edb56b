/* berth-sim cache: every policy, admission and size over a trace of objects, and what came of them. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cachelab/study.h"
#include "cmd.h"
#include "cmd_objects.h"
#include "host/options.h"
#include "report/report.h"
#include "results/file.h"

#define TRACES_MAX 64

struct cache_arguments {
    const char *traces[TRACES_MAX];
    uint32_t traces_count;
    struct lab_study study;
    struct object_arguments objects;
    struct object_columns columns;
    struct object_options options;
    const char *out;
    const char *report;
    bool json;
    bool quiet;
};

static volatile sig_atomic_t stop;

static void on_interrupt(int signal_number)
{
    (void)signal_number;
    stop = 1;
}

#define CACHE_OPTIONS(X)                                                                                             \
    X(policy, "LIST", "lru,sieve,slru:segments=4; all: every one that a cache which serves can have; pfoo: what none can beat") \
    X(size, "LIST", "250obj, 8GiB, 1% of the working set's bytes (by the objects' last sizes), 1%obj of its objects") \
    X(admit, "LIST", "what may enter at all: always (default), or as berth-sim policies lists them")                 \
    X(requests, "N", "only the first N")                                                                             \
    X(warmup, "N", "the first N requests fill the cache and are not counted")                                        \
    X(in_flight, "N", "the objects of the last N requests are pinned")                                               \
    X(interval, "N", "a series: misses of every N requests")                                                         \
    X(load_us, "US", "what every load takes, beside its bytes (50)")                                                 \
    X(load_rate, "BYTES_PER_S", "of loads (50e9, a GPU's PCIe 5.0)")                                                 \
    X(cost_aware, NULL, "policies that weigh a load's cost are told it; otherwise every load costs them the same")   \
    X(seed, "N", "of policies that leave something to chance (1)")                                                   \
    X(jobs, "N", "processes (as many as there are cores); what is printed doesn't depend on it")                     \
    X(out, "FILE.h5", "the numbers of every cache, and its series")                                                  \
    X(report, "DIR", "plots (PNG, SVG) and index.html, one page that can be mailed; of several traces, in folders")  \
    X(json, NULL, "one JSON object a policy and size on stdout instead of the table")                                \
    X(no_time, NULL, "without rates and memory of this run: what is printed is equal in every run")                  \
    X(quiet, NULL, "no progress line")                                                                               \
    X(help, NULL, "this text")
enum {
#define X(name, argument, about) OPTION_##name,
    CACHE_OPTIONS(X)
    OBJECT_VALUES(X)
#undef X
};
static const struct option table[] = {
#define X(name, argument, about) {#name, argument, about},
    CACHE_OPTIONS(X)
    OBJECT_VALUES(X)
#undef X
};

static const char usage[] = "usage: berth-sim cache TRACE... --policy LIST --size LIST [options]\n";

static void print_help(FILE *out)
{
    fprintf(out, "%s\nSends traces of objects through caches of every policy, admission and size that is named, and tells misses by\n"
                 "count, by bytes, by the seconds that their loads take, and by cause.\n\noptions:\n", usage);
    options_print(out, table, ARRAY_COUNT(table));
    object_formats_print(out);
    fputs("\ncauses of misses:\n", out);
#define X(NAME, name, about_it) fprintf(out, "  %-14s %s\n", #name, about_it);
    LAB_MISSES(X)
#undef X
    fputs("\nCtrl-C ends it and leaves nothing.\n"
          "Exit codes: 0 done, 1 it could not be done, 2 wrong usage, 130 stopped by Ctrl-C.\n", out);
}

/* --- arguments --- */

/* Every item of a list goes to one of spec.h's readers. */
#define LIST_READER(items, read)                                                                                      \
    static bool items##_read(const struct options *options, uint32_t option, const char *list, struct lab_study *study) \
    {                                                                                                                 \
        char message[SPEC_MESSAGE_MAX] = "";                                                                          \
                                                                                                                      \
        for (const char *at = list;; at += strcspn(at, ",") + 1) {                                                    \
            if (study->items##_count == SPEC_LIST_MAX)                                                                \
                snprintf(message, sizeof(message), "at most %d of them", SPEC_LIST_MAX);                              \
            else                                                                                                      \
                (void)read(at, strcspn(at, ","), &study->items[study->items##_count++], message);                     \
            if (message[0] != 0) {                                                                                    \
                options_complain(options, option, list, message);                                                     \
                return false;                                                                                         \
            }                                                                                                         \
            if (at[strcspn(at, ",")] == 0)                                                                            \
                return true;                                                                                          \
        }                                                                                                             \
    }
LIST_READER(policies, spec_policy)
LIST_READER(admissions, spec_admission)
LIST_READER(sizes, spec_size)

static bool policies_all(struct lab_study *study)
{
    char message[SPEC_MESSAGE_MAX];
    struct policy_line line;

    for (size_t i = 0; policy_line_at(i, &line); i++) {
        if (strcmp(line.question, "evict") != 0)
            continue;
        check(study->policies_count < SPEC_LIST_MAX);
        check(spec_policy(line.name, strlen(line.name), &study->policies[study->policies_count], message) == STATUS_OK);
        study->policies_count++;
    }
    return true;
}

/* options_whole() into an unsigned field. */
static bool count_take(const struct options *options, int option, const char *value, int64_t least, int64_t most, uint64_t *ret_count)
{
    int64_t count;

    if (!options_whole(options, (uint32_t)option, value, least, most, &count))
        return false;
    *ret_count = (uint64_t)count;
    return true;
}

static bool option_take(const struct options *options, int option, const char *value, struct cache_arguments *arguments)
{
    const uint32_t at = (uint32_t)option;
    struct lab_study *study = &arguments->study;
    uint64_t count = 0;
    bool good = true;

    switch (option) {
    case OPTION_policy:
        if (strcmp(value, "all") == 0 && study->policies_count == 0)
            return policies_all(study);
        return policies_read(options, at, value, study);
    case OPTION_admit:
        return admissions_read(options, at, value, study);
    case OPTION_size:
        return sizes_read(options, at, value, study);
#define X(field, argument, about)         \
    case OPTION_##field:                  \
        arguments->objects.field = value; \
        return true;
    OBJECT_VALUES(X)
#undef X
    case OPTION_requests:
        return count_take(options, option, value, 1, INT64_MAX, &study->requests_max);
    case OPTION_warmup:
        return count_take(options, option, value, 0, INT64_MAX, &study->warmup);
    case OPTION_in_flight:
        good = count_take(options, option, value, 0, 1 << 24, &count);
        study->in_flight = (uint32_t)count;
        break;
    case OPTION_interval:
        return count_take(options, option, value, 1, INT64_MAX, &study->interval);
    case OPTION_load_us:
        good = options_real(options, at, value, true, &study->load.fixed_s);
        study->load.fixed_s *= 1e-6;
        break;
    case OPTION_load_rate:
        return options_real(options, at, value, false, &study->load.bytes_per_s);
    case OPTION_seed:
        return count_take(options, option, value, 0, INT64_MAX, &study->seed);
    case OPTION_jobs:
        good = count_take(options, option, value, 1, 1024, &count);
        study->jobs = (uint32_t)count;
        break;
    case OPTION_cost_aware:
        study->cost_aware = true;
        break;
    case OPTION_out:
        arguments->out = value;
        break;
    case OPTION_report:
        arguments->report = value;
        break;
    case OPTION_json:
        arguments->json = true;
        break;
    case OPTION_no_time:
        study->times = false;
        break;
    default:
        check(option == OPTION_quiet);
        arguments->quiet = true;
        break;
    }
    return good;
}

static bool enough(const struct cache_arguments *arguments)
{
    const struct lab_study *study = &arguments->study;
    const uint64_t cells = (uint64_t)study->policies_count * study->sizes_count * study->admissions_count;
    const char *missing = NULL;

    if (arguments->traces_count == 0)
        missing = "name a trace";
    else if (study->policies_count == 0)
        missing = "name policies with --policy";
    else if (study->sizes_count == 0)
        missing = "name sizes with --size";
    else if (cells > STUDY_CELLS_MAX)
        missing = "policies, admissions and sizes make more than 4,096 caches; run some at a time";
    if (missing != NULL)
        fprintf(stderr, "berth-sim cache: %s\n%s", missing, usage);
    return missing == NULL;
}

/* False: the command ends here, with *ret_code. */
static bool read_arguments(int argc, char **argv, struct cache_arguments *arguments, int *ret_code)
{
    struct options options = {.command = "berth-sim cache", .table = table, .count = ARRAY_COUNT(table), .errors = stderr,
                              .argc = argc, .argv = argv, .at = 1};
    struct lab_study *study = &arguments->study;
    const char *value;
    int option;

    *ret_code = EXIT_USAGE;
    while ((option = options_next(&options, &value)) != OPTION_END) {
        if (option == OPTION_help) {
            print_help(stdout);
            *ret_code = EXIT_OK;
            return false;
        }
        if (option == OPTION_OPERAND && arguments->traces_count < TRACES_MAX) {
            arguments->traces[arguments->traces_count++] = value;
        } else if (option == OPTION_OPERAND) {
            fprintf(stderr, "berth-sim cache: at most %d traces\n", TRACES_MAX);
            return false;
        } else if (option == OPTION_WRONG || !option_take(&options, option, value, arguments)) {
            return false;
        }
    }
    if (study->admissions_count == 0)
        check(admissions_read(&options, OPTION_admit, "always", study));
    if (!object_arguments_take(&arguments->objects, options.command, &arguments->columns, &arguments->options, stderr))
        return false;
    study->format = arguments->objects.format;
    study->options = &arguments->options;
    return enough(arguments);
}

/* --- running --- */

static enum status report(const struct cache_arguments *arguments, const struct lab_outcome *outcome)
{
    const char *slash = strrchr(outcome->trace, '/');
    char directory[4096];
    enum status status;

    snprintf(directory, sizeof(directory), "%s", arguments->report);
    if (arguments->traces_count > 1)
        snprintf(directory, sizeof(directory), "%s/%s", arguments->report, slash != NULL ? slash + 1 : outcome->trace);
    status = lab_report(directory, outcome, stderr);
    if (status == STATUS_OK)
        fprintf(arguments->json ? stderr : stdout, "report: %s/index.html\n", directory);
    return status;
}

static enum status run_one(const struct cache_arguments *arguments, const char *trace, struct results_file *file)
{
    struct lab_outcome *outcome;
    enum status status = lab_study_run(&arguments->study, trace, stderr, &outcome);

    if (status != STATUS_OK)
        return status;
    if (arguments->json)
        lab_print_json(stdout, outcome);
    else
        lab_print_table(stdout, outcome);
    if (file != NULL)
        status = lab_store_add(file, outcome, stderr);
    if (status == STATUS_OK && arguments->report != NULL)
        status = report(arguments, outcome);
    lab_outcome_free(outcome);
    return status;
}

/* What is wrong with a file or a folder is said before a long run rather than after it. */
static enum status run_all(const struct cache_arguments *arguments, const char *command)
{
    const bool makes_folder = arguments->report != NULL && access(arguments->report, F_OK) != 0;
    struct results_file *file = NULL;
    enum status status = STATUS_OK;

    if (arguments->report != NULL)
        status = report_folder(arguments->report, stderr);
    if (status == STATUS_OK && arguments->out != NULL)
        status = lab_store_open(arguments->out, command, arguments->study.seed, stderr, &file);
    for (uint32_t i = 0; status == STATUS_OK && i < arguments->traces_count; i++)
        status = run_one(arguments, arguments->traces[i], file);
    if (status != STATUS_OK)
        results_file_abandon(file);
    else if (file != NULL)
        status = results_file_close(file, false, stderr);
    if (status != STATUS_OK && makes_folder)
        (void)rmdir(arguments->report); /* with a report in it, it stays */
    return status;
}

/* As it was called, for whoever finds the file. */
static void command_text(int argc, char **argv, char *ret_text, size_t bytes)
{
    size_t used = (size_t)snprintf(ret_text, bytes, "berth-sim");

    for (int i = 0; i < argc && used < bytes; i++)
        used += (size_t)snprintf(ret_text + used, bytes - used, " %s", argv[i]);
}

static uint32_t cores(void)
{
    const long count = sysconf(_SC_NPROCESSORS_ONLN);

    return count < 1 ? 1 : count > 1024 ? 1024 : (uint32_t)count;
}

int cmd_cache(int argc, char **argv)
{
    static struct cache_arguments arguments; /* too large for the stack */
    struct sigaction action = {.sa_handler = on_interrupt}; /* and waiting for processes ends at once */
    char command[4096];
    enum status status;
    int code;

    arguments = (struct cache_arguments){.study = {.load = {50e-6, 50e9}, .seed = 1, .jobs = cores(), .times = true, .stop = &stop}};
    if (!read_arguments(argc, argv, &arguments, &code))
        return code;
    if (!arguments.quiet && isatty(STDERR_FILENO))
        arguments.study.progress = stderr;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    command_text(argc, argv, command, sizeof(command));
    status = run_all(&arguments, command);
    if (status == STATUS_END)
        return EXIT_STOPPED;
    return status == STATUS_OK ? EXIT_OK : EXIT_FAILED;
}
