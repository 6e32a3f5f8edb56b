/* berth-sim run: a scenario, its variants one after the other on the same luck, and what came of them. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd.h"
#include "engine/sim.h"
#include "host/options.h"
#include "report/report.h"
#include "results/jobs_ledger.h"
#include "host/words.h"

#define SETTINGS_MAX 256

struct run_arguments {
    const char *scenario;
    const char *settings[SETTINGS_MAX];
    uint32_t settings_count;
    const char *variant;
    const char *out;
    const char *report;
    const char *journal;
    const char *ledger;
    bool json;
    bool quiet;
};

static volatile sig_atomic_t stop;

static void on_interrupt(int signal_number)
{
    (void)signal_number;
    stop = 1;
}

#define RUN_OPTIONS(X)                                                                                               \
    X(set, "KEY=VALUE", "override a key (berth-sim scenario keys lists them), in every variant: --set seed=7")       \
    X(variant, "NAME", "only this one of the scenario's variants")                                                   \
    X(out, "FILE.h5", "per-request rows, time series, tenants, counters, and the scenario that made them")          \
    X(report, "DIR", "plots (PNG, SVG) and index.html, one page that can be mailed")                                 \
    X(journal, "DIR", "what every core saw, for berth-sim replay")                                                   \
    X(ledger, "FILE.csv", "what each account pays, by component, in the columns of FOCUS 1.3")                      \
    X(json, NULL, "one JSON object a variant on stdout instead of the table")                                        \
    X(quiet, NULL, "no progress line")                                                                               \
    X(help, NULL, "this text")
enum {
#define X(name, argument, about) OPTION_##name,
    RUN_OPTIONS(X)
#undef X
};
static const struct option table[] = {
#define X(name, argument, about) {#name, argument, about},
    RUN_OPTIONS(X)
#undef X
};

static const char usage[] = "usage: berth-sim run SCENARIO [--set KEY=VALUE]... [options]\n";

static void print_help(FILE *out)
{
    fprintf(out, "%s\n", usage);
    options_print(out, table, ARRAY_COUNT(table));
    fputs("\nCtrl-C ends the run early: what was simulated so far is kept and marked partial.\n"
          "Exit codes: 0 done, 1 it could not be done, 2 wrong usage, 130 stopped by Ctrl-C.\n", out);
}

/* False: the command ends here, with *ret_code. */
static bool read_arguments(int argc, char **argv, struct run_arguments *arguments, int *ret_code)
{
    struct options options = {.command = "berth-sim run", .table = table, .count = ARRAY_COUNT(table), .errors = stderr, .argc = argc,
                              .argv = argv, .at = 1};
    const char *value;
    int option;

    *ret_code = EXIT_USAGE;
    while ((option = options_next(&options, &value)) != OPTION_END) {
        switch (option) {
        case OPTION_set:
            if (arguments->settings_count == SETTINGS_MAX) {
                fprintf(stderr, "berth-sim run: at most %d --set; write the rest into the scenario\n", SETTINGS_MAX);
                return false;
            }
            arguments->settings[arguments->settings_count++] = value;
            break;
        case OPTION_variant:
            arguments->variant = value;
            break;
        case OPTION_out:
            arguments->out = value;
            break;
        case OPTION_report:
            arguments->report = value;
            break;
        case OPTION_journal:
            arguments->journal = value;
            break;
        case OPTION_ledger:
            arguments->ledger = value;
            break;
        case OPTION_json:
            arguments->json = true;
            break;
        case OPTION_quiet:
            arguments->quiet = true;
            break;
        case OPTION_help:
            print_help(stdout);
            *ret_code = EXIT_OK;
            return false;
        case OPTION_OPERAND:
            if (arguments->scenario != NULL) {
                fprintf(stderr, "berth-sim run: one scenario only, not also %s\n%s", value, usage);
                return false;
            }
            arguments->scenario = value;
            break;
        default:
            return false;
        }
    }
    if (arguments->scenario == NULL)
        fprintf(stderr, "berth-sim run: name a scenario\n%s", usage);
    return arguments->scenario != NULL;
}

/* Leaves only the variant of this name in the set; its luck is the scenario's and stays what it was. */
static bool keep_variant(struct scenario_set *set, const char *scenario, const char *name)
{
    struct suggestion suggestion;
    const char *near;

    suggestion_begin(&suggestion, name, strlen(name));
    for (uint32_t i = 0; i < set->count; i++) {
        if (strcmp(set->items[i].variant, name) == 0) {
            set->items[0] = set->items[i];
            set->count = 1;
            return true;
        }
        suggest(&suggestion, set->items[i].variant, strlen(set->items[i].variant));
    }
    near = suggestion_answer(&suggestion);
    fprintf(stderr, "berth-sim run: --variant %s: %s has no variant of that name; ", name, scenario);
    if (near != NULL)
        fprintf(stderr, "did you mean %s?\n", near);
    else if (set->count == 1)
        fprintf(stderr, "its only one is %s\n", set->items[0].variant);
    else
        for (uint32_t i = 0; i < set->count; i++)
            fprintf(stderr, "%s%s%s", i == 0 ? "it has " : i + 1 < set->count ? ", " : " and ", set->items[i].variant,
                    i + 1 < set->count ? "" : "\n");
    return false;
}

static bool costs_anything(const struct scenario *scenario)
{
    bool serves = scenario->workload.source != KEY_SOURCE_NONE;

    return scenario->jobs.source != KEY_JOBS_NONE || (serves && pool_price_per_h(&scenario->pools[0]) > 0);
}

/* Without a price there are no accounts: said before a long run rather than after it. */
static bool ledger_possible(const struct run_arguments *arguments, const struct scenario_set *set)
{
    if (arguments->ledger == NULL)
        return true;
    for (uint32_t i = 0; i < set->count; i++)
        if (costs_anything(&set->items[i]))
            return true;
    fprintf(stderr, "berth-sim run: --ledger: %s has no jobs and no price, and so no accounts; set jobs.source or pool.price_per_h\n",
            arguments->scenario);
    return false;
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
    /* The folder first: --out may lie in it. */
    if (arguments->report != NULL && report_folder(arguments->report, stderr) != STATUS_OK)
        return STATUS_IO;
    if (arguments->out != NULL)
        snprintf(ret_path, path_bytes, "%s", arguments->out);
    else if (arguments->report != NULL)
        snprintf(ret_path, path_bytes, "%s/run.h5", arguments->report);
    else
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
        if (arguments->ledger != NULL && status == STATUS_OK)
            status = jobs_ledger_write(arguments->ledger, summaries, count, stderr);
        if (arguments->report != NULL && status == STATUS_OK)
            status = report_write(arguments->report, path, summaries, count, set->text, stderr);
        if (arguments->report != NULL && status == STATUS_OK)
            fprintf(arguments->json ? stderr : stdout, "report: %s/index.html\n", arguments->report);
    }
    for (uint32_t i = 0; i < set->count; i++) /* a variant that failed may have one, too */
        summary_free(&summaries[i]);
    free(summaries);
    return status;
}

int cmd_run(int argc, char **argv)
{
    struct run_arguments arguments = {0};
    struct scenario_set set = {0};
    enum status status;
    int code;

    if (!read_arguments(argc, argv, &arguments, &code))
        return code;
    if (scenario_read(arguments.scenario, arguments.settings, arguments.settings_count, stderr, &set) != STATUS_OK)
        return EXIT_FAILED;
    if ((arguments.variant != NULL && !keep_variant(&set, arguments.scenario, arguments.variant)) ||
        !ledger_possible(&arguments, &set)) {
        scenario_set_free(&set);
        return EXIT_USAGE;
    }
    signal(SIGINT, on_interrupt);
    status = run_all(&arguments, &set);
    scenario_set_free(&set);
    if (status != STATUS_OK)
        return EXIT_FAILED;
    return stop ? EXIT_STOPPED : EXIT_OK;
}
