/* berth-exec hold: a base on a GPU for trainers and servers of other processes. */
#include <signal.h>
#include <stdio.h>

#include "cmd.h"
#include "hold/hold.h"
#include "worker/settings.h"

#define OPTIONS(X)                                                                                       \
    X(socket, "PATH", "where to lend (default berth-base.sock); --base-socket of train, generate and server") \
    X(device, "KIND", "cuda (default): on the CPU processes share the mapped file without a holder")      \
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

static volatile sig_atomic_t stopped;

static void stop(int signal)
{
    (void)signal;
    stopped = 1;
}

static void print_help(void)
{
    puts("usage: berth-exec hold MODEL [--socket PATH]\n\n"
         "Puts a model's weights into GPU memory once and lends them, read-only, to up to 64 processes of the same user: train, generate\n"
         "and server with --base-socket PATH, which compare the digest of their model's files. Ends by SIGTERM or Ctrl-C; processes that\n"
         "have the weights keep them. Several processes run on a GPU at the same time only under MPS; berth-exec devices tells.\n");
    options_print(stdout, table, ARRAY_COUNT(table));
    puts("\nExit codes: 0 ended by a signal, 1 it could not be done (stderr says why), 2 wrong usage.");
}

static enum status load(const char *directory, const struct device *device, struct held_base *ret_held, struct refusal *refusal)
{
    struct model *model = NULL;
    uint8_t digest[DIGEST_BYTES];
    char text[DIGEST_TEXT_MAX];
    enum status status = model_open(directory, &model, refusal);

    if (status == STATUS_OK && safetensors_digest(model->files, &stopped, digest) != STATUS_OK)
        status = refuse(refusal, STATUS_END, "stopped before the base was there");
    if (status == STATUS_OK)
        status = held_base_open(device, &model->weights, &model->config.dims, digest, ret_held, refusal);
    if (status == STATUS_OK)
        fprintf(stderr, "berth-exec hold: %s, sha256 %s, %lld bytes on %s\n", directory, digest_text(digest, text),
                (long long)ret_held->base.memory.bytes, device->name);
    model_close(model);
    return status;
}

static int run(const char *directory, const struct device *device, const char *socket)
{
    struct held_base held = {.dev = NULL};
    struct refusal refusal = {{0}};
    enum status status = hold_may(socket, &refusal);

    if (status == STATUS_OK)
        status = load(directory, device, &held, &refusal);
    if (status == STATUS_OK) {
        const struct hold_config config = {.socket_path = socket, .base = &held.base, .log = stderr};

        status = hold_run(&config, &stopped, &refusal);
    }
    if (status != STATUS_OK && status != STATUS_END)
        fprintf(stderr, "berth-exec hold: %s\n", refusal.text);
    held_base_close(&held);
    return status == STATUS_OK || status == STATUS_END ? EXIT_OK : EXIT_FAILED;
}

int cmd_hold(int argc, char **argv)
{
    struct options options = {.command = "berth-exec hold", .table = table, .count = ARRAY_COUNT(table), .errors = stderr,
                              .argc = argc, .argv = argv, .at = 1};
    const struct sigaction action = {.sa_handler = stop};
    const char *socket = "berth-base.sock";
    const char *model = NULL;
    const char *device = "cuda";
    struct worker_config config;
    const char *value;
    int option;

    while ((option = options_next(&options, &value)) != OPTION_END) {
        if (option == OPTION_WRONG)
            return EXIT_USAGE;
        if (option == OPTION_help) {
            print_help();
            return EXIT_OK;
        }
        if (option == OPTION_OPERAND && model != NULL) {
            fprintf(stderr, "berth-exec hold: one model (%s is the second)\n", value);
            return EXIT_USAGE;
        }
        *(option == OPTION_OPERAND ? &model : option == OPTION_socket ? &socket : &device) = value;
    }
    if (model == NULL) {
        fprintf(stderr, "berth-exec hold: a model's folder; --help says more\n");
        return EXIT_USAGE;
    }
    worker_config_init(&config);
    if (worker_option(&config, &options, OPTION_device, device) != STATUS_OK)
        return EXIT_USAGE;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    return run(model, config.device, socket);
}
