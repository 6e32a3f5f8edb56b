/* berth-exec control: the platform on one machine. The process that the user starts is the keeper: it takes the folder, binds the API's
 * socket, so that no connection is lost while a control plane is started again, and starts vault and control plane. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cmd.h"
#include "cmd_admin.h"
#include "cmd_control.h"
#include "control/core/core.h"
#include "control/folder.h"
#include "control/http/http.h"
#include "host/options.h"

#define OPTIONS(X)                                                                                                      \
    X(state, "DIR", "the control plane's folder, made when it isn't there (default $BERTH_STATE, or berth-state)")     \
    X(postgres, "CONNECTION", "keep the metadata in PostgreSQL, by libpq's connection string; a password is for ~/.pgpass, not for here") \
    X(listen, "ADDRESS:PORT", "serve the API there; port 0: any. Without this, local administration only")             \
    X(tls_cert, "FILE", "PEM; off loopback there is no API without TLS")                                              \
    X(tls_key, "FILE", "PEM; readable by its owner alone")                                                             \
    X(base, "NAME=FOLDER", "a model that tenants may use; as often as there are bases")                                \
    X(server_program, "COMMAND", "what runs as a model server in place of this program: for measurements of the control plane") \
    X(gate, "off", "what was trained may answer without evaluation, which is audited; without this it may not")        \
    X(adapters_folder, "DIR", "tenants may load adapters that were made elsewhere, each from DIR/ITS-NAME; without this nobody may") \
    X(device, "KIND", "cpu, cuda, or auto (default): where CUDA runs the GPUs (of CUDA_VISIBLE_DEVICES, if that is set), else the CPU") \
    X(devices, "N", "equal shares of this machine or its GPUs, for servers and trainers, one each (default: one more than there are bases; as many on each GPU)") \
    X(replica_target, "N", "answers under way that one server of a base is meant to have; above 1.2 times that another comes (default 32)") \
    X(server_requests, "N", "answers that one server has at once, 1 to 4096; more wait in the control plane (default 256)")      \
    X(scale_up, "SECONDS", "for which it is more before another comes, for which trainers yield if need be (default 10)")      \
    X(scale_down, "SECONDS", "for which it is less before one goes (default 300)")                                             \
    X(threads, "N", "of each model server (default: all)")                                                             \
    X(price, "NANO", "1e-9 units an hour of a share (default 0)")                                                      \
    X(master_key, "FILE", "the vault's master key (default DIR/master.key, made with the folder)")                     \
    X(master_key_command, "COMMAND", "a shell command that prints it instead")                                          \
    X(gpus, "LIST", "what the keeper found, for the control plane that it starts; as the next two")                    \
    X(gpu_bytes, "N", "of the smallest of them")                                                                       \
    X(under_keeper, NULL, "what the keeper, which this command is, adds for the control plane that it starts")         \
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

/* --- the keeper --------------------------------------------------------------------------------------------------------------- */

/* The control plane's connections and files; as far as we may. */
#define DESCRIPTORS_MAX 16384

static const char *const server_arguments[] = {"berth-exec", "worker", "server", NULL};
static const char *const trainer_arguments[] = {"berth-exec", "worker", "trainer", NULL};
static const char *const validator_arguments[] = {"berth-exec", "worker", "validator", NULL};
/* In the order of enum core_worker_kind. */
static struct keeper_program workers[] = {
    [CORE_SERVER] = {.name = "server", .path = CONTROL_SELF, .arguments = server_arguments},
    [CORE_TRAINER] = {.name = "trainer", .path = CONTROL_SELF, .arguments = trainer_arguments},
    [CORE_VALIDATOR] = {.name = "validator", .path = CONTROL_SELF, .arguments = validator_arguments},
};

/* "FILE ARGUMENT..."; no shell reads it. */
static bool take_program(const char *command)
{
    static char text[4096];
    static const char *words[8];
    size_t count = 0;

    if (strlen(command) >= sizeof(text))
        return false;
    strcpy(text, command);
    for (char *word = strtok(text, " "); word != NULL; word = strtok(NULL, " ")) {
        if (count + 1 == ARRAY_COUNT(words))
            return false;
        words[count++] = word;
    }
    workers[CORE_SERVER].path = words[0];
    workers[CORE_SERVER].arguments = words;
    return count > 0;
}

static void say(void *context, const char *line)
{
    (void)context;
    fprintf(stderr, "keeper %s\n", line);
}

static void announce(const struct control_asked *asked, int listener)
{
    const bool six = strchr(asked->address, ':') != NULL;

    printf("listening on %s://%s%s%s:%u\n", asked->certificate_file != NULL ? "https" : "http", six ? "[" : "", asked->address,
           six ? "]" : "", (unsigned)http_listener_port(listener));
    fflush(stdout);
}

static uint32_t descriptors_max(void)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_max < DESCRIPTORS_MAX ? (uint32_t)limit.rlim_max : DESCRIPTORS_MAX;
}

/* The control plane gets our command line, with the folder that we took and the GPUs that we found. */
static enum status run_keeper(const struct control_asked *asked, const char *keys, const struct master_source *master, const struct core_gpus *gpus,
                              int listener, int argc, char **argv, struct refusal *refusal)
{
    const char *vault_arguments[] = {"berth-exec", "vault", "serve", "--keys", keys, master->file != NULL ? "--master" : "--master-command",
                                     master->file != NULL ? master->file : master->command, NULL};
    const struct keeper_program vault = {.name = "vault", .path = CONTROL_SELF, .arguments = vault_arguments};
    const char **arguments = calloc((size_t)argc + 9, sizeof(*arguments));
    const struct keeper_program control = {.name = "control", .path = CONTROL_SELF, .arguments = arguments, .descriptors_max = descriptors_max(),
                                           .inherited = &listener, .inherited_count = listener >= 0};
    const struct keeper_config config = {.workers = workers, .workers_count = ARRAY_COUNT(workers), .control = &control, .vault = &vault,
                                         .log = say};
    char names[GPUS_TEXT_BYTES];
    char bytes[24];
    enum status status;

    check(arguments != NULL);
    workers[CORE_SERVER].descriptors_max = descriptors_max(); /* one for each adapter that it knows */
    arguments[0] = "berth-exec";
    arguments[1] = "control";
    arguments[2] = "--under-keeper";
    for (int i = 1; i < argc; i++)
        arguments[2 + i] = argv[i];
    arguments[argc + 2] = "--state";
    arguments[argc + 3] = asked->state;
    if (gpus->count > 0) {
        core_gpus_text(gpus, names);
        snprintf(bytes, sizeof(bytes), "%llu", (unsigned long long)gpus->bytes);
        arguments[argc + 4] = "--gpus";
        arguments[argc + 5] = names;
        arguments[argc + 6] = "--gpu-bytes";
        arguments[argc + 7] = bytes;
    }
    status = keeper_run(&config, refusal);
    free(arguments);
    return status;
}

static int keep(const struct control_asked *asked, int argc, char **argv)
{
    const struct http_config http = {.address = asked->address, .port = asked->port, .certificate_file = asked->certificate_file,
                                     .key_file = asked->key_file};
    struct master_source master = asked->master;
    struct control_folder folder;
    struct core_gpus gpus = {0};
    struct refusal refusal = {{0}};
    char keys[4096];
    char file[4096];
    int listener = -1;
    enum status status = control_folder_open(&folder, asked->state, &refusal);

    signal(SIGPIPE, SIG_IGN); /* nobody need read what is said */
    if (status == STATUS_OK && master.file == NULL && master.command == NULL) {
        master.file = file;
        status = control_folder_key_file(&folder, "master.key", "keys.db", file, &refusal);
    }
    if (status == STATUS_OK)
        status = control_gpus_find(asked->device, &gpus, &refusal);
    if (status == STATUS_OK && asked->address[0] != '\0')
        status = http_listen(&http, &listener, &refusal);
    if (listener >= 0)
        announce(asked, listener);
    if (status == STATUS_OK)
        status = run_keeper(asked, control_folder_at(&folder, "keys.db", keys), &master, &gpus, listener, argc, argv,
                            &refusal);
    if (status != STATUS_OK)
        fprintf(stderr, "berth-exec control: %s\n", refusal.text);
    if (listener >= 0)
        close(listener);
    control_folder_close(&folder);
    return status == STATUS_OK ? EXIT_OK : EXIT_FAILED;
}

static bool has_keeper(void)
{
    int type = 0;
    socklen_t bytes = sizeof(type);

    return getsockopt(KEEPER_SOCKET, SOL_SOCKET, SO_TYPE, &type, &bytes) == 0 && type == SOCK_SEQPACKET;
}

/* --- the command line ------------------------------------------------------------------------------------------------------- */

/* "127.0.0.1:8080", "[::1]:8080". */
static bool take_address(struct control_asked *asked, const char *value)
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
         "Runs the platform on this machine: the keeper, which this process is, and under it the vault, the control plane and its workers. What\n"
         "of them is killed is started again; with the keeper all end. In the folder lie metadata.db, server.key, the vault's keys.db and master.key, the store, a lock, and the\n"
         "socket that `berth-exec tenant` and `berth-exec key` speak to. Keep server.key and master.key with your backups, apart from the\n"
         "databases. With --listen, OpenAI's clients can speak to it; /healthz, /readyz and /metrics need no key. Without --base no worker runs:\n"
         "files are kept, and wait.\n");
    options_print(stdout, table, ARRAY_COUNT(table));
    puts("\nExit codes: 0 stopped by SIGTERM or Ctrl-C, 1 it could not be done (stderr says why), 2 wrong usage.");
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
    struct control_asked asked = {.state = admin_state_folder(), .device = "auto"};
    struct refusal refusal = {{0}};
    const char *value;
    int64_t number;
    bool is_under_keeper = false;
    int option;

    while ((option = options_next(&options, &value)) != OPTION_END) {
        switch (option) {
        case OPTION_state: asked.state = value; break;
        case OPTION_postgres: asked.postgres = value; break;
        case OPTION_tls_cert: asked.certificate_file = value; break;
        case OPTION_tls_key: asked.key_file = value; break;
        case OPTION_master_key: asked.master.file = value; break;
        case OPTION_master_key_command: asked.master.command = value; break;
        case OPTION_gate:
            if (strcmp(value, "off") != 0)
                return misuse("--gate takes off; without it what was trained does not answer");
            asked.gate_off = true;
            break;
        case OPTION_adapters_folder: asked.adapters_folder = value; break;
        case OPTION_device:
            if (strcmp(value, "auto") != 0 && strcmp(value, "cpu") != 0 && strcmp(value, "cuda") != 0)
                return misuse("--device is auto, cpu or cuda");
            asked.device = value;
            break;
        case OPTION_gpus:
            if (core_gpus_read(value, &asked.gpus, &refusal) != STATUS_OK)
                return misuse(refusal.text);
            break;
        case OPTION_gpu_bytes:
            if (!options_whole(&options, OPTION_gpu_bytes, value, 1, INT64_MAX, &number))
                return EXIT_USAGE;
            asked.gpus.bytes = (uint64_t)number;
            break;
        case OPTION_devices:
            if (!options_whole(&options, OPTION_devices, value, 1, 16, &asked.devices))
                return EXIT_USAGE;
            break;
        case OPTION_threads:
            if (!options_whole(&options, OPTION_threads, value, 1, 1024, &asked.threads))
                return EXIT_USAGE;
            break;
        case OPTION_replica_target:
            if (!options_whole(&options, OPTION_replica_target, value, 1, 100000, &asked.replica_target))
                return EXIT_USAGE;
            break;
        case OPTION_server_requests:
            if (!options_whole(&options, OPTION_server_requests, value, 1, CONTROL_SERVER_REQUESTS_MAX, &asked.server_requests))
                return EXIT_USAGE;
            break;
        case OPTION_scale_up:
            if (!options_whole(&options, OPTION_scale_up, value, 1, 86400, &asked.scale_up_s))
                return EXIT_USAGE;
            break;
        case OPTION_scale_down:
            if (!options_whole(&options, OPTION_scale_down, value, 1, 86400, &asked.scale_down_s))
                return EXIT_USAGE;
            break;
        case OPTION_price:
            if (!options_whole(&options, OPTION_price, value, 0, INT64_C(1000000000000000), &asked.price_nano_per_hour))
                return EXIT_USAGE;
            break;
        case OPTION_listen:
            if (!take_address(&asked, value))
                return misuse("--listen takes an address as numbers and a port, 127.0.0.1:8080 or [::1]:8080");
            break;
        case OPTION_server_program:
            if (!take_program(value))
                return misuse("--server-program takes a file and at most six arguments");
            break;
        case OPTION_base:
            if (asked.bases_count == CONTROL_BASES_MAX)
                return misuse("--base: 64 at most");
            asked.bases[asked.bases_count++] = value;
            break;
        case OPTION_under_keeper: is_under_keeper = true; break;
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
    if (!is_under_keeper)
        return keep(&asked, argc, argv);
    if (asked.devices != 0) /* fewer than there are GPUs: the last ones are left alone */
        asked.gpus.count = min_u32(asked.gpus.count, (uint32_t)asked.devices);
    if (!has_keeper())
        return misuse("--under-keeper is the keeper's to say, which gives a socket");
    return control_plane(&asked);
}
