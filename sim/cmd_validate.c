/* berth-sim validate: the simulator against published measurements, row by row, errors as they are. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "host/options.h"
#include "validate/slora_print.h"

struct validate_arguments {
    const char *directory;
    const char *scenarios;
    bool calibrate;
    bool json;
};

#define VALIDATE_OPTIONS(X)                                                                                     \
    X(calibrate, NULL, "fit those numbers anew, print the residuals and the block to paste into the files")    \
    X(scenarios, "DIR", "where the two files are; default scenarios/calibration")                              \
    X(json, NULL, "one JSON object a row")                                                                      \
    X(help, NULL, "this text")
enum {
#define X(name, argument, about) OPTION_##name,
    VALIDATE_OPTIONS(X)
#undef X
};
static const struct option table[] = {
#define X(name, argument, about) {#name, argument, about},
    VALIDATE_OPTIONS(X)
#undef X
};

static const char usage[] = "usage: berth-sim validate slora DIR [--calibrate | --json] [--scenarios DIR]\n";

static void print_help(void)
{
    printf("%s\n"
           "Predicts every row of S-LoRA's published results under DIR (*.jsonl) and prints it against what was measured.\n"
           "The hardware numbers are those of slora-a10g.yaml and slora-a100-80.yaml, fitted to five rows of setting S1.\n\n",
           usage);
    options_print(stdout, table, ARRAY_COUNT(table));
    puts("\nExit codes: 0 done, 1 it could not be done, 2 wrong usage.");
}

static bool usage_error(const char *what, const char *argument)
{
    fprintf(stderr, "berth-sim validate: %s%s\n%s", what, argument, usage);
    return false;
}

/* False: the command ends here, with *ret_code. */
static bool read_arguments(int argc, char **argv, struct validate_arguments *arguments, int *ret_code)
{
    struct options options = {.command = "berth-sim validate", .table = table, .count = ARRAY_COUNT(table), .errors = stderr,
                              .argc = argc, .argv = argv, .at = 1};
    const char *measurements = NULL;
    const char *value;
    int option;

    *ret_code = EXIT_USAGE;
    while ((option = options_next(&options, &value)) != OPTION_END) {
        switch (option) {
        case OPTION_calibrate:
            arguments->calibrate = true;
            break;
        case OPTION_scenarios:
            arguments->scenarios = value;
            break;
        case OPTION_json:
            arguments->json = true;
            break;
        case OPTION_help:
            print_help();
            *ret_code = EXIT_OK;
            return false;
        case OPTION_OPERAND:
            if (arguments->directory != NULL)
                return usage_error("one folder only, not also ", value);
            *(measurements == NULL ? &measurements : &arguments->directory) = value;
            break;
        default:
            return false;
        }
    }
    if (measurements == NULL || arguments->directory == NULL)
        return usage_error("name measurements and their folder", "");
    if (strcmp(measurements, "slora") != 0)
        return usage_error("there are measurements of slora only, none called ", measurements);
    if (arguments->calibrate && arguments->json)
        return usage_error("--calibrate prints no JSON", "");
    return true;
}

static enum status predict(const struct slora_rows *rows, const char *scenarios, struct slora_outcome *ret_outcomes)
{
    for (uint32_t i = 0; i < rows->count; i++) {
        struct slora_case test = {0};
        enum status status = slora_case_open(&rows->items[i], scenarios, stderr, &test);

        if (status == STATUS_OK)
            status = slora_case_run(&test, NULL, stderr, &ret_outcomes[i]);
        slora_case_close(&test);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

static enum status calibrate(const struct slora_rows *rows, const char *scenarios)
{
    for (uint32_t gpu = 0; gpu < SLORA_GPU_COUNT; gpu++) {
        struct slora_fit fit;
        enum status status = slora_fit(rows, (enum slora_gpu)gpu, scenarios, stderr, &fit);

        if (status != STATUS_OK)
            return status;
        slora_print_fit(stdout, &fit);
    }
    return STATUS_OK;
}

static enum status validate(const struct validate_arguments *arguments)
{
    struct slora_rows *rows = calloc(1, sizeof(*rows));
    struct slora_outcome *outcomes = calloc(SLORA_ROWS_MAX, sizeof(*outcomes));
    enum status status;

    check(rows != NULL && outcomes != NULL);
    status = slora_rows_read(arguments->directory, stderr, rows);
    if (status == STATUS_OK)
        status = arguments->calibrate ? calibrate(rows, arguments->scenarios) : predict(rows, arguments->scenarios, outcomes);
    if (status == STATUS_OK && !arguments->calibrate) {
        if (arguments->json)
            slora_print_json(stdout, rows, outcomes);
        else
            slora_print_table(stdout, rows, outcomes);
    }
    free(outcomes);
    free(rows);
    return status;
}

int cmd_validate(int argc, char **argv)
{
    struct validate_arguments arguments = {.scenarios = "scenarios/calibration"};
    int code;

    if (!read_arguments(argc, argv, &arguments, &code))
        return code;
    return validate(&arguments) == STATUS_OK ? EXIT_OK : EXIT_FAILED;
}
