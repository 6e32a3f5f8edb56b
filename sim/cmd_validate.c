/* berth-sim validate: the simulator against published measurements, row by row, errors as they are. */
#define _DEFAULT_SOURCE /* getopt_long */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "validate/slora_print.h"

struct validate_arguments {
    const char *directory;
    const char *scenarios;
    bool calibrate;
    bool json;
};

static const char help[] =
    "usage: berth-sim validate slora DIR [--calibrate] [--scenarios DIR] [--json]\n\n"
    "Predicts every row of S-LoRA's published results under DIR (*.jsonl) and prints it against what was measured.\n"
    "The hardware numbers are those of slora-a10g.yaml and slora-a100-80.yaml, fitted to five rows of setting S1.\n"
    "  --calibrate      fit those numbers anew, print the residuals and the block to paste into the files\n"
    "  --scenarios DIR  where the two files are; default scenarios/calibration\n"
    "  --json           one JSON object a row\n\n"
    "Exit codes: 0 done, 1 it could not be done, 2 wrong usage.\n";

/* 0: go on; otherwise the exit code + 1. */
static int parse(int argc, char **argv, struct validate_arguments *arguments)
{
    static const struct option options[] = {
        {"calibrate", no_argument, NULL, 'c'}, {"scenarios", required_argument, NULL, 's'},
        {"json", no_argument, NULL, 'J'},      {"help", no_argument, NULL, 'h'},
        {0},
    };
    int option;

    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (option) {
        case 'c':
            arguments->calibrate = true;
            break;
        case 's':
            arguments->scenarios = optarg;
            break;
        case 'J':
            arguments->json = true;
            break;
        case 'h':
            fputs(help, stdout);
            return EXIT_OK + 1;
        default:
            fputs("berth-sim validate --help says how\n", stderr);
            return EXIT_USAGE + 1;
        }
    }
    if (optind + 2 != argc || (arguments->calibrate && arguments->json)) {
        fputs(help, stderr);
        return EXIT_USAGE + 1;
    }
    if (strcmp(argv[optind], "slora") != 0) {
        fprintf(stderr, "berth-sim validate: there are no measurements '%s'; there are: slora\n", argv[optind]);
        return EXIT_USAGE + 1;
    }
    arguments->directory = argv[optind + 1];
    return 0;
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
    int code = parse(argc, argv, &arguments);
    enum status status;

    if (code != 0)
        return code - 1;
    status = validate(&arguments);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fputs("berth-sim: the output could not be written\n", stderr);
        return EXIT_FAILED;
    }
    return status == STATUS_OK ? EXIT_OK : EXIT_FAILED;
}
