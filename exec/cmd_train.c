/* berth-exec train: the trainer held to recorded runs. */
#include "cmd_train.h"

#include <stdio.h>
#include <stdlib.h>

#include "worker/settings.h"

#define OPTIONS(X)                                                                                                  \
    X(model, "DIR", "the base, in Hugging Face's layout")                                                           \
    X(reference, "CASE", "do a recorded run again and print the differences; exit code 1 when they are above 1e-5") \
    X(device, "KIND", "cpu, cuda, or auto (default): CUDA where it trains, else the CPU")                           \
    X(kernels, "SET", "a set of CPU kernels that berth-exec devices lists; the best by default")                    \
    X(threads, "N", "CPU threads (default: all)")                                                                   \
    X(json, NULL, "one JSON object a step on stdout")                                                               \
    X(help, NULL, "this text")
enum {
#define X(name, argument, about) OPTION_##name,
    OPTIONS(X)
#undef X
};
static const struct option table[] = {
#define X(name, argument, about) {#name, argument, about},
    OPTIONS(X)
#undef X
};

static void print_help(void)
{
    puts("usage: berth-exec train --model DIR --reference CASE [option]...\n\n"
         "Does a recorded training run again, in f32: CASE has reference.json, adapter_init and adapter_final, and batches.json\n"
         "lies beside it.\n");
    options_print(stdout, table, ARRAY_COUNT(table));
    puts("\nExit codes: 0 done, 1 it could not be done (stderr says why), 2 wrong usage, 130 stopped.");
}

static int take(struct train_arguments *arguments, struct worker_config *worker, const struct options *options, uint32_t option,
                const char *value)
{
    switch (option) {
    case OPTION_model:
        arguments->model = value;
        return EXIT_OK;
    case OPTION_reference:
        arguments->reference = value;
        return EXIT_OK;
    case OPTION_json:
        arguments->json = true;
        return EXIT_OK;
    default:
        return worker_option(worker, options, option, value) == STATUS_OK ? EXIT_OK : EXIT_USAGE;
    }
}

/* EXIT_OK to go on; EXIT_STOPPED: help was asked for. */
static int parse(struct train_arguments *arguments, struct worker_config *worker, struct options *options)
{
    const char *value;
    int option;

    while ((option = options_next(options, &value)) != OPTION_END) {
        if (option == OPTION_WRONG)
            return EXIT_USAGE;
        if (option == OPTION_help)
            return EXIT_STOPPED;
        if (option == OPTION_OPERAND) {
            fprintf(stderr, "%s: %s: give the base with --model\n", options->command, value);
            return EXIT_USAGE;
        }
        if (take(arguments, worker, options, (uint32_t)option, value) != EXIT_OK)
            return EXIT_USAGE;
    }
    if (arguments->model != NULL && arguments->reference != NULL)
        return EXIT_OK;
    fprintf(stderr, "%s: --model and --reference; --help says more\n", options->command);
    return EXIT_USAGE;
}

int cmd_train(int argc, char **argv)
{
    struct train_arguments arguments = {0};
    struct worker_config worker;
    struct options options = {.command = "berth-exec train", .table = table, .count = ARRAY_COUNT(table), .errors = stderr, .argc = argc,
                              .argv = argv, .at = 1};
    int code;

    worker_config_init(&worker);
    worker.threads = worker_threads_here();
    worker_choose_device(&worker);
    /* A device that only serves is no choice of anybody's. */
    if (worker.device->train_ops == NULL)
        worker.device = &device_cpu;
    code = parse(&arguments, &worker, &options);
    if (code == EXIT_STOPPED) {
        print_help();
        return EXIT_OK;
    }
    if (code != EXIT_OK)
        return code;
    arguments.trainer = (struct trainer_config){.device = worker.device, .threads = worker.threads, .kernels = worker.kernels};
    return train_reference(&arguments);
}
