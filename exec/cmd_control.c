/* berth-exec control: the control plane. It holds the metadata and serves local administration. */
#define _GNU_SOURCE /* signalfd */
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "cmd.h"
#include "cmd_admin.h"
#include "control/admin/admin.h"
#include "control/folder.h"
#include "crypto/secret.h"
#include "host/options.h"

/* What may wait for the disk. */
#define ACTS_MAX 1024

enum { OPTION_state, OPTION_postgres, OPTION_help };
static const struct option table[] = {
    {"state", "DIR", "the control plane's folder, made when it isn't there (default $BERTH_STATE, or berth-state)"},
    {"postgres", "CONNECTION", "keep the metadata in PostgreSQL, by libpq's connection string; a password is for ~/.pgpass, not for here"},
    {"help", NULL, "this text"},
};

static enum status open_metadata(const struct control_folder *folder, const char *postgres, struct metadata **ret_metadata,
                                 struct refusal *refusal)
{
    uint8_t *key = secret_alloc(KEY_BYTES);
    char place[4096];
    struct meta_options options = {.place = control_folder_at(folder, "metadata.db", place), .server_key = key, .first = true};
    enum status status = key != NULL ? control_folder_key(folder, key, refusal) : refuse(refusal, STATUS_IO, "no memory for a key");

    if (postgres != NULL) {
        options.place = postgres;
        options.driver = &db_postgres;
    }
    if (status == STATUS_OK)
        status = meta_open(&options, ret_metadata, refusal);
    secret_free(key);
    return status;
}

static enum status serve(const struct control_folder *folder, struct meta_writer *writer, int signals, struct refusal *refusal)
{
    const struct admin_config config = {.folder = folder->path, .writer = writer, .log = stderr};
    struct admin *admin = NULL;
    enum status status = admin_open(&config, &admin, refusal);

    if (status == STATUS_OK) {
        printf("berth-exec control: ready in %s\n", folder->path);
        fflush(stdout);
        status = admin_run(admin, signals, refusal);
    }
    admin_close(admin);
    return status;
}

static enum status run(const char *path, const char *postgres, int signals, struct refusal *refusal)
{
    struct control_folder folder;
    struct metadata *metadata = NULL;
    struct meta_writer *writer = NULL;
    enum status status = secrets_harden_process(refusal);

    if (status == STATUS_OK)
        status = control_folder_open(&folder, path, refusal);
    if (status != STATUS_OK)
        return status;
    status = open_metadata(&folder, postgres, &metadata, refusal);
    if (status == STATUS_OK)
        status = meta_writer_start(metadata, ACTS_MAX, &writer, refusal);
    if (status == STATUS_OK)
        status = serve(&folder, writer, signals, refusal);
    meta_writer_stop(writer);
    meta_close(metadata);
    control_folder_close(&folder);
    return status;
}

static int begin(const char *path, const char *postgres)
{
    struct signalfd_siginfo signal = {0};
    struct refusal refusal = {{0}};
    enum status status;
    sigset_t stops;
    int signals;

    sigemptyset(&stops);
    sigaddset(&stops, SIGTERM);
    sigaddset(&stops, SIGINT);
    sigprocmask(SIG_BLOCK, &stops, NULL);
    signals = signalfd(-1, &stops, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0) {
        perror("berth-exec control: signalfd");
        return EXIT_FAILED;
    }
    status = run(path, postgres, signals, &refusal);
    if (status != STATUS_OK)
        fprintf(stderr, "berth-exec control: %s\n", refusal.text);
    if (read(signals, &signal, sizeof(signal)) != (ssize_t)sizeof(signal))
        signal.ssi_signo = 0;
    close(signals);
    return status != STATUS_OK ? EXIT_FAILED : signal.ssi_signo == SIGINT ? EXIT_STOPPED : EXIT_OK;
}

int cmd_control(int argc, char **argv)
{
    struct options options = {.command = "berth-exec control", .table = table, .count = ARRAY_COUNT(table), .errors = stderr,
                              .argc = argc, .argv = argv, .at = 1};
    const char *state = admin_state_folder();
    const char *postgres = NULL;
    const char *value;
    int option;

    while ((option = options_next(&options, &value)) != OPTION_END) {
        switch (option) {
        case OPTION_state:
            state = value;
            break;
        case OPTION_postgres:
            postgres = value;
            break;
        case OPTION_help:
            puts("usage: berth-exec control [--state DIR] [--postgres CONNECTION]\n\n"
                 "Runs the control plane in its folder: metadata.db, server.key, a lock, and the socket that `berth-exec tenant` and\n"
                 "`berth-exec key` speak to. Keep server.key with your backups, apart from the database.\n");
            options_print(stdout, table, ARRAY_COUNT(table));
            puts("\nExit codes: 0 stopped by SIGTERM, 1 it could not be done (stderr says why), 2 wrong usage, 130 stopped by Ctrl-C.");
            return EXIT_OK;
        case OPTION_OPERAND:
            fprintf(stderr, "berth-exec control: takes no operand (%s); the folder is --state DIR\n", value);
            return EXIT_USAGE;
        default:
            return EXIT_USAGE;
        }
    }
    return begin(state, postgres);
}
