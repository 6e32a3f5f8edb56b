/* berth-exec server: a model and a folder of adapters behind a local socket. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "cmd.h"
#include "worker/server.h"
#include "worker/settings.h"

#define OPTIONS(X)                                                                                \
    X(model, "DIR", "the base, in Hugging Face's layout")                                         \
    X(adapters, "DIR", "a folder whose folders are PEFT adapters, each called as its folder is")  \
    X(socket, "PATH", "where to listen (default berth.sock)")                                     \
    WORKER_OPTIONS(X)                                                                             \
    X(requests_max, "N", "requests here at once, waiting and running (default 256)")              \
    X(adapters_max, "N", "adapters registered at once (default 1000)")                            \
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

static volatile int stopped;

static void stop(int signal)
{
    (void)signal;
    stopped = 1;
}

static void print_help(void)
{
    puts("usage: berth-exec server --model DIR [--adapters DIR] [--socket PATH] [option]...\n\n"
         "Serves a model with many LoRA adapters in one batch. Speaks JSON, one object a line, over a Unix socket:\n"
         "  {\"op\": \"generate\", \"id\": 1, \"adapter\": \"NAME\", \"prompt\": \"TEXT\", \"max_tokens\": 64}   an answer, token by token\n"
         "  {\"op\": \"cancel\", \"id\": 1}, {\"op\": \"load\", \"name\": \"NAME\"}, {\"op\": \"unload\", \"name\": \"NAME\"},\n"
         "  {\"op\": \"adapters\"}, {\"op\": \"state\"}, {\"op\": \"drain\"}\n"
         "A folder that is no good adapter is said on stderr and left out. Adapters come to the device when they are asked for.\n");
    options_print(stdout, table, ARRAY_COUNT(table));
    puts("\nExit codes: 0 drained, 1 it could not be done (stderr says why), 2 wrong usage, 130 stopped by Ctrl-C.");
}

static int run(struct worker_config *config, const char *adapters, const char *socket)
{
    struct server_config server = {.socket_path = socket, .adapters_directory = adapters, .log = stderr};
    struct tokenizer *tokenizer = NULL;
    struct refusal refusal = {{0}};
    char error[TOKENIZER_ERROR_MAX] = "";
    enum status status = worker_open(config, &server.worker, &refusal);

    if (status == STATUS_OK) {
        status = tokenizer_open(config->model_directory, &tokenizer, error);
        if (status == STATUS_NOT_FOUND)
            status = STATUS_OK;
        else if (status != STATUS_OK)
            refuse(&refusal, status, "%s", error);
    }
    if (status == STATUS_OK) {
        uint32_t count = adapters != NULL ? server_scan(server.worker, adapters, stderr) : 0;

        server.tokenizer = tokenizer;
        fprintf(stderr, "berth-exec server: %s, %u adapters, %s, %u threads, sequences of %u tokens, listening on %s\n",
                config->model_directory, count, worker_mode(server.worker) == MODE_EXACT ? "exact" : "fast", config->threads,
                worker_positions_max(server.worker), socket);
        status = server_run(&server, &stopped, &refusal);
    }
    if (status != STATUS_OK)
        fprintf(stderr, "berth-exec server: %s\n", refusal.text);
    worker_close(server.worker);
    tokenizer_close(tokenizer);
    return status != STATUS_OK ? EXIT_FAILED : stopped ? EXIT_STOPPED : EXIT_OK;
}

static int read_max(const struct options *options, uint32_t option, const char *value, uint32_t *ret_max)
{
    int64_t max;

    if (!options_whole(options, option, value, 1, 100000, &max))
        return EXIT_USAGE;
    *ret_max = (uint32_t)max;
    return EXIT_OK;
}

int cmd_server(int argc, char **argv)
{
    struct options options = {.command = "berth-exec server", .table = table, .count = ARRAY_COUNT(table), .errors = stderr,
                              .argc = argc, .argv = argv, .at = 1};
    const struct sigaction action = {.sa_handler = stop};
    const char *adapters = NULL;
    const char *socket = "berth.sock";
    struct worker_config config;
    const char *value;
    int code = EXIT_OK;
    int option;

    worker_config_init(&config);
    config.threads = worker_threads_here();
    while (code == EXIT_OK && (option = options_next(&options, &value)) != OPTION_END) {
        switch (option) {
        case OPTION_model:
            config.model_directory = value;
            break;
        case OPTION_adapters:
            adapters = value;
            break;
        case OPTION_socket:
            socket = value;
            break;
        case OPTION_requests_max:
            code = read_max(&options, OPTION_requests_max, value, &config.requests_max);
            break;
        case OPTION_adapters_max:
            code = read_max(&options, OPTION_adapters_max, value, &config.adapters_max);
            break;
        case OPTION_help:
            print_help();
            return EXIT_OK;
        case OPTION_WRONG:
            return EXIT_USAGE;
        case OPTION_OPERAND:
            fprintf(stderr, "berth-exec server: takes no operand (%s); the model is --model DIR\n", value);
            return EXIT_USAGE;
        default:
            code = worker_option(&config, &options, (uint32_t)option, value) == STATUS_OK ? EXIT_OK : EXIT_USAGE;
        }
    }
    if (code != EXIT_OK)
        return code;
    if (config.model_directory == NULL) {
        fprintf(stderr, "berth-exec server: --model DIR is needed; --help says more\n");
        return EXIT_USAGE;
    }
    worker_choose_device(&config);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    return run(&config, adapters, socket);
}
