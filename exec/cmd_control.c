/* berth-exec control: the control plane. It starts the vault, holds metadata and store, serves local administration and the API. */
#define _GNU_SOURCE /* signalfd */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cmd.h"
#include "cmd_admin.h"
#include "control/admin/admin.h"
#include "control/api/api.h"
#include "control/bases.h"
#include "control/folder.h"
#include "crypto/secret.h"
#include "host/options.h"

/* What may wait for the disk. */
#define ACTS_MAX 1024
#define BASES_MAX 64
/* What runs when it is to stop has so long. */
#define STOP_MS 5000

#define OPTIONS(X)                                                                                                      \
    X(state, "DIR", "the control plane's folder, made when it isn't there (default $BERTH_STATE, or berth-state)")     \
    X(postgres, "CONNECTION", "keep the metadata in PostgreSQL, by libpq's connection string; a password is for ~/.pgpass, not for here") \
    X(listen, "ADDRESS:PORT", "serve the API there; port 0: any. Without this, local administration only")             \
    X(tls_cert, "FILE", "PEM; off loopback there is no API without TLS")                                              \
    X(tls_key, "FILE", "PEM; readable by its owner alone")                                                             \
    X(base, "NAME=FOLDER", "a model that tenants may use; as often as there are bases")                                \
    X(master_key, "FILE", "the vault's master key (default DIR/master.key, made with the folder)")                     \
    X(master_key_command, "COMMAND", "a shell command that prints it instead")                                          \
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

struct asked {
    const char *state;
    const char *postgres; /* NULL: SQLite in the folder */
    char address[64]; /* "": no API */
    uint16_t port;
    const char *certificate_file;
    const char *key_file;
    const char *bases[BASES_MAX];
    uint32_t bases_count;
    struct master_source master;
};

/* All that runs; half of it may be there. */
struct control {
    const struct asked *asked;
    int signals;
    struct control_folder folder;
    pid_t vault_process;
    struct vault *vault;
    uint8_t *key;
    struct meta_options options;
    char place[4096];
    struct metadata *metadata;
    struct meta_writer *writer;
    struct store *store;
    struct admin *admin;
    struct api *api;
};

static void say(void *context, const char *line)
{
    (void)context;
    fprintf(stderr, "%s\n", line);
}

/* Early: what it inherits is little. */
static enum status start_vault(struct control *control, struct refusal *refusal)
{
    char keys[4096];
    char master[4096];
    struct vault_options options = {.keys_path = control_folder_at(&control->folder, "keys.db", keys), .master = control->asked->master,
                                    .log = say};
    enum status status = STATUS_OK;
    int socket;

    if (options.master.file == NULL && options.master.command == NULL) {
        options.master.file = master;
        status = control_folder_key_file(&control->folder, "master.key", "keys.db", master, refusal);
    }
    if (status == STATUS_OK)
        status = vault_start(&options, &socket, &control->vault_process, refusal);
    return status == STATUS_OK ? vault_open(socket, &control->vault, refusal) : status;
}

static enum status open_metadata(struct control *control, struct refusal *refusal)
{
    struct meta_options first;
    enum status status;

    control->key = secret_alloc(KEY_BYTES);
    if (control->key == NULL)
        return refuse(refusal, STATUS_IO, "no memory for a key");
    status = control_folder_key(&control->folder, control->key, refusal);
    control->options = (struct meta_options){.place = control_folder_at(&control->folder, "metadata.db", control->place),
                                             .server_key = control->key};
    if (control->asked->postgres != NULL) {
        control->options.place = control->asked->postgres;
        control->options.driver = &db_postgres;
    }
    first = control->options;
    first.first = true;
    if (status == STATUS_OK)
        status = meta_open(&first, &control->metadata, refusal);
    return status == STATUS_OK ? meta_writer_start(control->metadata, ACTS_MAX, &control->writer, refusal) : status;
}

static enum status register_bases(struct control *control, struct refusal *refusal)
{
    enum status status = STATUS_OK;
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    for (uint32_t i = 0; status == STATUS_OK && i < control->asked->bases_count; i++)
        status = base_register(control->writer, control->asked->bases[i], (int64_t)now.tv_sec * 1000, refusal);
    return status;
}

static enum status open_doors(struct control *control, struct refusal *refusal)
{
    const struct admin_config local = {.folder = control->folder.path, .writer = control->writer, .log = stderr};
    const struct api_config api = {.address = control->asked->address, .port = control->asked->port,
                                   .certificate_file = control->asked->certificate_file, .key_file = control->asked->key_file,
                                   .metadata = control->options, .writer = control->writer, .vault = control->vault,
                                   .store = control->store, .log = say};
    enum status status = admin_open(&local, &control->admin, refusal);

    if (status == STATUS_OK && control->asked->address[0] != '\0')
        status = api_open(&api, &control->api, refusal);
    secret_free(control->key);
    control->key = NULL;
    return status;
}

static void announce(const struct control *control)
{
    const bool six = strchr(control->asked->address, ':') != NULL;

    printf("berth-exec control: ready in %s\n", control->folder.path);
    if (control->api != NULL)
        printf("listening on %s://%s%s%s:%u\n", control->asked->certificate_file != NULL ? "https" : "http", six ? "[" : "",
               control->asked->address, six ? "]" : "", (unsigned)api_port(control->api));
    fflush(stdout);
}

static enum status begin(struct control *control, struct refusal *refusal)
{
    char folder[4096];
    enum status status = start_vault(control, refusal);

    if (status == STATUS_OK)
        status = open_metadata(control, refusal);
    if (status == STATUS_OK)
        status = register_bases(control, refusal);
    if (status == STATUS_OK)
        status = store_local_open(control_folder_at(&control->folder, "store", folder), &control->store, refusal);
    return status == STATUS_OK ? open_doors(control, refusal) : status;
}

static void end(struct control *control)
{
    api_close(control->api, STOP_MS);
    admin_close(control->admin);
    meta_writer_stop(control->writer);
    meta_close(control->metadata);
    secret_free(control->key);
    store_close(control->store);
    vault_close(control->vault);
    if (control->vault_process > 0)
        (void)waitpid(control->vault_process, NULL, 0);
    control_folder_close(&control->folder);
}

/* The signal that ended it; 0: none. Without its vault nothing can be kept or read, so it ends then: to be started again. */
static enum status run(struct control *control, uint32_t *ret_signal, struct refusal *refusal)
{
    struct signalfd_siginfo signal = {0};
    enum status status = secrets_harden_process(refusal);

    if (status == STATUS_OK)
        status = control_folder_open(&control->folder, control->asked->state, refusal);
    if (status != STATUS_OK)
        return status;
    status = begin(control, refusal);
    if (status == STATUS_OK) {
        announce(control);
        status = admin_run(control->admin, control->signals, refusal);
    }
    if (status == STATUS_OK && read(control->signals, &signal, sizeof(signal)) == (ssize_t)sizeof(signal))
        *ret_signal = signal.ssi_signo;
    if (*ret_signal == SIGCHLD)
        status = refuse(refusal, STATUS_IO, "the vault has ended; start the control plane again");
    end(control);
    return status;
}

static int control_main(const struct asked *asked)
{
    struct control control = {.asked = asked};
    struct refusal refusal = {{0}};
    uint32_t signal = 0;
    enum status status;
    sigset_t stops;

    sigemptyset(&stops);
    sigaddset(&stops, SIGTERM);
    sigaddset(&stops, SIGINT);
    sigaddset(&stops, SIGCHLD);
    sigprocmask(SIG_BLOCK, &stops, NULL);
    control.signals = signalfd(-1, &stops, SFD_CLOEXEC | SFD_NONBLOCK);
    if (control.signals < 0) {
        perror("berth-exec control: signalfd");
        return EXIT_FAILED;
    }
    status = run(&control, &signal, &refusal);
    if (status != STATUS_OK)
        fprintf(stderr, "berth-exec control: %s\n", refusal.text);
    close(control.signals);
    return status != STATUS_OK ? EXIT_FAILED : signal == SIGINT ? EXIT_STOPPED : EXIT_OK;
}

/* --- the command line ------------------------------------------------------------------------------------------------------- */

/* "127.0.0.1:8080", "[::1]:8080". */
static bool take_address(struct asked *asked, const char *value)
{
    const char *colon = strrchr(value, ':');
    const bool six = value[0] == '[';
    char *end;
    long port;
    int length;

    if (colon == NULL || colon[1] < '0' || colon[1] > '9')
        return false;
    port = strtol(colon + 1, &end, 10);
    if (*end != '\0' || port > 65535 || (six && (colon - value < 3 || colon[-1] != ']')))
        return false;
    length = (int)(colon - value) - (six ? 2 : 0);
    if (length <= 0 || (size_t)length >= sizeof(asked->address))
        return false;
    snprintf(asked->address, sizeof(asked->address), "%.*s", length, value + (six ? 1 : 0));
    asked->port = (uint16_t)port;
    return true;
}

static void print_help(void)
{
    puts("usage: berth-exec control [--state DIR] [--postgres CONNECTION] [--listen ADDRESS:PORT] [--base NAME=FOLDER]...\n\n"
         "Runs the control plane in its folder: metadata.db, server.key, the vault's keys.db and master.key, the store, a lock, and the\n"
         "socket that `berth-exec tenant` and `berth-exec key` speak to. Keep server.key and master.key with your backups, apart from the\n"
         "databases. With --listen, OpenAI's clients can speak to it: /v1/files, /v1/models; /healthz, /readyz and /metrics need no key.\n");
    options_print(stdout, table, ARRAY_COUNT(table));
    puts("\nExit codes: 0 stopped by SIGTERM, 1 it could not be done (stderr says why), 2 wrong usage, 130 stopped by Ctrl-C.");
}

static int misuse(const char *why)
{
    fprintf(stderr, "berth-exec control: %s\n", why);
    return EXIT_USAGE;
}

int cmd_control(int argc, char **argv)
{
    struct options options = {.command = "berth-exec control", .table = table, .count = ARRAY_COUNT(table), .errors = stderr,
                              .argc = argc, .argv = argv, .at = 1};
    struct asked asked = {.state = admin_state_folder()};
    const char *value;
    int option;

    while ((option = options_next(&options, &value)) != OPTION_END) {
        switch (option) {
        case OPTION_state: asked.state = value; break;
        case OPTION_postgres: asked.postgres = value; break;
        case OPTION_tls_cert: asked.certificate_file = value; break;
        case OPTION_tls_key: asked.key_file = value; break;
        case OPTION_master_key: asked.master.file = value; break;
        case OPTION_master_key_command: asked.master.command = value; break;
        case OPTION_listen:
            if (!take_address(&asked, value))
                return misuse("--listen takes an address as numbers and a port, 127.0.0.1:8080 or [::1]:8080");
            break;
        case OPTION_base:
            if (asked.bases_count == BASES_MAX)
                return misuse("--base: 64 at most");
            asked.bases[asked.bases_count++] = value;
            break;
        case OPTION_help: print_help(); return EXIT_OK;
        case OPTION_OPERAND:
            fprintf(stderr, "berth-exec control: takes no operand (%s); the folder is --state DIR\n", value);
            return EXIT_USAGE;
        default: return EXIT_USAGE;
        }
    }
    if ((asked.certificate_file == NULL) != (asked.key_file == NULL))
        return misuse("--tls-cert and --tls-key come together");
    if (asked.master.file != NULL && asked.master.command != NULL)
        return misuse("the master key comes from a file or a command, not both");
    return control_main(&asked);
}
