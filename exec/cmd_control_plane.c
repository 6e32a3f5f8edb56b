/* The control plane under its keeper: it holds metadata and store, serves local administration and the API, and has the vault's socket from
 * the keeper. Killed at any moment, the next one finds all that was acknowledged. */
#define _GNU_SOURCE /* signalfd */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "cmd_control.h"
#include "control/admin/admin.h"
#include "control/api/api.h"
#include "control/bases.h"
#include "control/folder.h"
#include "host/verbs.h"

/* What may wait for the disk. */
#define ACTS_MAX 1024
/* What runs when it is to stop has so long. */
#define STOP_MS 5000
#define VAULT_MS 30000

/* All that runs; half of it may be there. */
struct control {
    const struct control_asked *asked;
    int signals;
    int ends;             /* readable when it is to stop, or the vault is gone */
    struct control_folder folder;
    struct launcher *launcher;
    int vault_socket;     /* the client's too; only watched here. -1: none */
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

/* The keeper starts it beside us, and sends its socket first of all. */
static enum status await_vault(struct control *control, int *ret_socket, struct refusal *refusal)
{
    const struct launcher_table *keeper = control->launcher->table;
    struct pollfd one = {.fd = keeper->descriptor(control->launcher), .events = POLLIN};
    struct launcher_event event;
    enum status status = STATUS_END;

    while (status == STATUS_END) {
        if (poll(&one, 1, VAULT_MS) == 0)
            return refuse(refusal, STATUS_IO, "the keeper gave no vault");
        status = keeper->next(control->launcher, &event);
    }
    if (status != STATUS_OK || event.kind != LAUNCHER_VAULT)
        return refuse(refusal, STATUS_IO, "the keeper is gone");
    *ret_socket = event.socket;
    return STATUS_OK;
}

/* Its end is seen at the socket. */
static enum status open_vault(struct control *control, struct refusal *refusal)
{
    struct epoll_event hang_up = {.events = 0};
    enum status status;
    int socket = -1;

    /* The keeper's own descriptor stays open: closed, it would mean that we are through. */
    control->launcher = keeper_client(fcntl(KEEPER_SOCKET, F_DUPFD_CLOEXEC, 0));
    if (control->launcher == NULL)
        return refuse(refusal, STATUS_IO, "no memory for the keeper's client");
    status = await_vault(control, &socket, refusal);
    if (status != STATUS_OK)
        return status;
    control->vault_socket = fcntl(socket, F_DUPFD_CLOEXEC, 0);
    status = vault_open(socket, &control->vault, refusal);
    if (status == STATUS_OK && epoll_ctl(control->ends, EPOLL_CTL_ADD, control->vault_socket, &hang_up) != 0)
        status = refuse(refusal, STATUS_IO, "the vault cannot be watched: %s", strerror(errno));
    return status;
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
    const struct api_config api = {.address = control->asked->address, .listener = CONTROL_LISTENER,
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

static enum status begin(struct control *control, struct refusal *refusal)
{
    char folder[4096];
    enum status status = open_vault(control, refusal);

    if (status == STATUS_OK)
        status = open_metadata(control, refusal);
    if (status == STATUS_OK)
        status = register_bases(control, refusal);
    if (status == STATUS_OK)
        status = store_local_open(control_folder_at(&control->folder, "store", folder), &control->store, refusal);
    return status == STATUS_OK ? open_doors(control, refusal) : status;
}

static void end(struct control *control, uint32_t within_ms)
{
    api_close(control->api, within_ms);
    admin_close(control->admin);
    meta_writer_stop(control->writer);
    meta_close(control->metadata);
    secret_free(control->key);
    store_close(control->store);
    vault_close(control->vault);
    if (control->vault_socket >= 0)
        close(control->vault_socket);
    if (control->launcher != NULL)
        control->launcher->table->close(control->launcher);
    control_folder_close(&control->folder);
}

/* Without its vault nothing can be kept or read, so it ends then, and the keeper starts both anew. */
static enum status run(struct control *control, struct refusal *refusal)
{
    struct signalfd_siginfo signal;
    enum status status = secrets_harden_process(refusal);

    if (status == STATUS_OK)
        status = control_folder_join(&control->folder, control->asked->state, refusal);
    if (status != STATUS_OK)
        return status;
    status = begin(control, refusal);
    if (status == STATUS_OK && control->launcher->table->list(control->launcher) != STATUS_OK)
        status = refuse(refusal, STATUS_IO, "the keeper is gone");
    if (status == STATUS_OK) {
        printf("berth-exec control: ready in %s\n", control->folder.path);
        fflush(stdout);
        status = admin_run(control->admin, control->ends, refusal);
    }
    if (status == STATUS_OK && read(control->signals, &signal, sizeof(signal)) != (ssize_t)sizeof(signal))
        status = refuse(refusal, STATUS_IO, "the vault has ended; both begin anew");
    end(control, status == STATUS_OK ? STOP_MS : 0);
    return status;
}

/* False: errno. */
static bool watch_signals(struct control *control)
{
    struct epoll_event readable = {.events = EPOLLIN};
    sigset_t stops;

    sigemptyset(&stops);
    sigaddset(&stops, SIGTERM);
    sigaddset(&stops, SIGINT);
    sigprocmask(SIG_BLOCK, &stops, NULL);
    signal(SIGPIPE, SIG_IGN); /* nobody need read what is said */
    control->signals = signalfd(-1, &stops, SFD_CLOEXEC | SFD_NONBLOCK);
    control->ends = epoll_create1(EPOLL_CLOEXEC);
    return control->signals >= 0 && control->ends >= 0 && epoll_ctl(control->ends, EPOLL_CTL_ADD, control->signals, &readable) == 0;
}

int control_plane(const struct control_asked *asked)
{
    struct control control = {.asked = asked, .vault_socket = -1};
    struct refusal refusal = {{0}};
    enum status status;

    if (!watch_signals(&control)) {
        perror("berth-exec control: signals");
        return EXIT_FAILED;
    }
    status = run(&control, &refusal);
    if (status != STATUS_OK)
        fprintf(stderr, "berth-exec control: %s\n", refusal.text);
    close(control.signals);
    close(control.ends);
    return status == STATUS_OK ? EXIT_OK : EXIT_FAILED;
}
