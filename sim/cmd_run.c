/* berth-sim run: a scenario, its variants one after the other on the same luck, and what came of them. */
#define _DEFAULT_SOURCE /* getopt_long */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd.h"
#include "engine/sim.h"
#include "report/report.h"

#define SETTINGS_MAX 256

struct run_arguments {
    const char *scenario;
    const char *settings[SETTINGS_MAX];
    uint32_t settings_count;
    const char *out;
    const char *report;
    const char *journal;
    bool json;
    bool quiet;
};

static volatile sig_atomic_t stop;

static void on_interrupt(int signal_number)
{
    (void)signal_number;
    stop = 1;
}

static const char help[] =
    "usage: berth-sim run SCENARIO [--set KEY=VALUE]... [--out FILE.h5] [--report DIR] [--journal DIR] [--json] [--quiet]\n\n"
    "  --set KEY=VALUE  override a key (berth-sim scenario keys lists them), in every variant: --set seed=7\n"
    "  --out FILE.h5    per-request rows, time series, tenants, counters, and the scenario that made them\n"
    "  --report DIR     plots (PNG, SVG) and index.html, one page that can be mailed\n"
    "  --journal DIR    what every core saw, for berth-sim replay\n"
    "  --json           one JSON object a variant on stdout instead of the table\n"
    "  --quiet          no progress line\n\n"
    "Ctrl-C ends the run early: what was simulated so far is kept and marked partial (exit code 130).\n";

/* 0: go on; otherwise the exit code + 1. */
static int parse(int argc, char **argv, struct run_arguments *arguments)
{
    static const struct option options[] = {
        {"set", required_argument, NULL, 's'},    {"out", required_argument, NULL, 'o'},
        {"report", required_argument, NULL, 'r'}, {"journal", required_argument, NULL, 'j'},
        {"json", no_argument, NULL, 'J'},         {"quiet", no_argument, NULL, 'q'},
        {"help", no_argument, NULL, 'h'},         {0},
    };
    int option;

    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (option) {
        case 's':
            if (arguments->settings_count == SETTINGS_MAX) {
                fprintf(stderr, "berth-sim run: at most %d --set\n", SETTINGS_MAX);
                return EXIT_USAGE + 1;
            }
            arguments->settings[arguments->settings_count++] = optarg;
            break;
        case 'o':
            arguments->out = optarg;
            break;
        case 'r':
            arguments->report = optarg;
            break;
        case 'j':
            arguments->journal = optarg;
            break;
        case 'J':
            arguments->json = true;
            break;
        case 'q':
            arguments->quiet = true;
            break;
        case 'h':
            fputs(help, stdout);
            return EXIT_OK + 1;
        default:
            fputs("berth-sim run --help says how\n", stderr);
            return EXIT_USAGE + 1;
        }
    }
    if (optind + 1 != argc) {
        fputs(help, stderr);
        return EXIT_USAGE + 1;
    }
    arguments->scenario = argv[optind];
    return 0;
}

/* All variants; how many were run is in ret_count, since Ctrl-C may come between. */
static enum status run_variants(const struct scenario_set *set, struct results_file *file, const struct sim_options *options,
                                struct summary *summaries, uint32_t *ret_count)
{
    *ret_count = 0;
    for (uint32_t i = 0; i < set->count && !stop; i++) {
        enum status status = sim_run(&set->items[i], file, options, stderr, &summaries[i]);

        if (status != STATUS_OK)
            return status;
        ++*ret_count;
    }
    return STATUS_OK;
}

/* The report reads the series from a results file; without --out it is one beside the page. */
static enum status open_file(const struct run_arguments *arguments, const struct scenario_set *set, char *ret_path,
                             size_t path_bytes, struct results_file **ret_file)
{
    if (arguments->out != NULL)
        snprintf(ret_path, path_bytes, "%s", arguments->out);
    else if (arguments->report != NULL) {
        if (report_folder(arguments->report, stderr) != STATUS_OK)
            return STATUS_IO;
        snprintf(ret_path, path_bytes, "%s/run.h5", arguments->report);
    } else
        return STATUS_OK;
    return results_file_create(ret_path, set->text, set->items[0].seed, stderr, ret_file);
}

static enum status run_all(const struct run_arguments *arguments, const struct scenario_set *set)
{
    struct sim_options options = {.journal_dir = arguments->journal, .stop = &stop};
    struct summary *summaries = calloc(set->count, sizeof(*summaries));
    struct results_file *file = NULL;
    char path[4096];
    uint32_t count = 0;
    enum status status;

    check(summaries != NULL);
    if (!arguments->quiet && isatty(STDERR_FILENO))
        options.progress = stderr;
    status = open_file(arguments, set, path, sizeof(path), &file);
    if (status == STATUS_OK)
        status = run_variants(set, file, &options, summaries, &count);
    if (file != NULL && results_file_close(file, stop || status != STATUS_OK, stderr) != STATUS_OK)
        status = STATUS_IO;
    if (count > 0) {
        for (uint32_t i = 0; arguments->json && i < count; i++)
            summary_json(stdout, &summaries[i]);
        if (!arguments->json)
            report_table(stdout, summaries, count);
        if (arguments->report != NULL && status == STATUS_OK)
            status = report_write(arguments->report, path, summaries, count, set->text, stderr);
        if (arguments->report != NULL && status == STATUS_OK)
            fprintf(arguments->json ? stderr : stdout, "report: %s/index.html\n", arguments->report);
    }
    free(summaries);
    return status;
}

int cmd_run(int argc, char **argv)
{
    struct run_arguments arguments = {0};
    struct scenario_set set = {0};
    enum status status;
    int code = parse(argc, argv, &arguments);

    if (code != 0)
        return code - 1;
    if (scenario_read(arguments.scenario, arguments.settings, arguments.settings_count, stderr, &set) != STATUS_OK)
        return EXIT_FAILED;
    signal(SIGINT, on_interrupt);
    status = run_all(&arguments, &set);
    scenario_set_free(&set);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fputs("berth-sim: the output could not be written\n", stderr);
        return EXIT_FAILED;
    }
    if (status != STATUS_OK)
        return EXIT_FAILED;
    return stop ? EXIT_STOPPED : EXIT_OK;
}
