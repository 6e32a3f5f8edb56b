/* berth-exec worker server: a model server that the control plane speaks to. */
#include <stdio.h>
#include <sys/resource.h>

#include "cmd.h"
#include "cmd_worker.h"
#include "crypto/secret.h"
#include "serving/serving.h"
#include "worker/settings.h"

/* A descriptor each; as many as a core lets one server know (core_config.server_adapters_max). */
#define ADAPTERS_MAX 8192
/* For all else that is open. */
#define DESCRIPTORS_BESIDE 64

#define OPTIONS(X)                                                                                      \
    WORKER_OPTIONS(X)                                                                                   \
    X(requests_max, "N", "requests in the engine at once, waiting and running (default 256)")           \
    X(adapters_max, "N", "adapters known at once (default: what descriptors allow, at most 8192)")      \
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
    puts("usage: berth-exec worker server [option]...\n\n"
         "The keeper starts this, with a socket to the control plane as descriptor 3; the base and the adapters come through it.\n");
    options_print(stdout, table, ARRAY_COUNT(table));
    puts("\nExit codes: 0 drained, 1 told to end, left alone, or it could not begin (stderr says why), 2 wrong usage.");
}

/* The soft limit up to the hard one: each adapter keeps a descriptor, to be read again. */
static uint32_t descriptors_here(void)
{
    struct rlimit limit = {.rlim_cur = 256, .rlim_max = 256};

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
        (void)getrlimit(RLIMIT_NOFILE, &limit);
    }
    return (uint32_t)min_u64(limit.rlim_cur, ADAPTERS_MAX + DESCRIPTORS_BESIDE);
}

static int run(struct worker_config *config)
{
    const struct serving_config serving = {.socket = KEEPER_SOCKET, .worker = *config, .log = stderr};
    struct refusal refusal = {""};
    enum status status = secrets_harden_process(&refusal);

    if (status == STATUS_OK)
        status = serving_run(&serving, &refusal);
    if (status != STATUS_OK)
        fprintf(stderr, "berth-exec worker server: %s\n", refusal.text);
    return status == STATUS_OK ? EXIT_OK : EXIT_FAILED;
}

static int read_max(const struct options *options, uint32_t option, const char *value, int64_t most, uint32_t *ret_max)
{
    int64_t max;

    if (!options_whole(options, option, value, 1, most, &max))
        return EXIT_USAGE;
    *ret_max = (uint32_t)max;
    return EXIT_OK;
}

int worker_server(int argc, char **argv)
{
    struct options options = {.command = "berth-exec worker server", .table = table, .count = ARRAY_COUNT(table), .errors = stderr,
                              .argc = argc, .argv = argv, .at = 1};
    struct worker_config config;
    const char *value;
    int code = EXIT_OK;
    int option;

    worker_config_init(&config);
    config.threads = worker_threads_here();
    config.adapters_max = ADAPTERS_MAX;
    while (code == EXIT_OK && (option = options_next(&options, &value)) != OPTION_END) {
        switch (option) {
        case OPTION_requests_max: code = read_max(&options, OPTION_requests_max, value, 4096, &config.requests_max); break;
        case OPTION_adapters_max: code = read_max(&options, OPTION_adapters_max, value, ADAPTERS_MAX, &config.adapters_max); break;
        case OPTION_help: print_help(); return EXIT_OK;
        case OPTION_WRONG: return EXIT_USAGE;
        case OPTION_OPERAND:
            fprintf(stderr, "berth-exec worker server: takes no operand (%s)\n", value);
            return EXIT_USAGE;
        default: code = worker_option(&config, &options, (uint32_t)option, value) == STATUS_OK ? EXIT_OK : EXIT_USAGE;
        }
    }
    if (code != EXIT_OK)
        return code;
    config.adapters_max = min_u32(config.adapters_max, descriptors_here() - DESCRIPTORS_BESIDE);
    return run(&config);
}
