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
#include "control/metadata/audit.h"
#include "control/metadata/usage.h"
#include "engine/ops/values.h"
#include "engine/tokenizer/tokenizer.h"
#include "host/verbs.h"

/* What may wait for the disk. */
#define ACTS_MAX 1024
/* What runs when it is to stop has so long. */
#define STOP_MS 5000
#define VAULT_MS 30000
/* Of a GPU: a third of an A100's 312e12 (bf16, its data sheet), the least that will do. Not measured. */
#define GPU_FLOPS_PER_S 1e14

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
    struct core_base bases[CONTROL_BASES_MAX];
    struct tokenizer *tokenizers[CONTROL_BASES_MAX]; /* of bases */
    uint32_t bases_count;
    int64_t epoch;
    int64_t first_at_ns;
    struct driver *driver;
    struct core *core;
    int adapters_folder;  /* 0: none */
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

static int64_t wall_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

static enum status read_boot_id(char *ret_id, size_t bytes, struct refusal *refusal)
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
    const bool is_there = file != NULL && fgets(ret_id, (int)bytes, file) != NULL;

    if (file != NULL)
        fclose(file);
    if (!is_there)
        return refuse(refusal, STATUS_IO, "/proc/sys/kernel/random/boot_id cannot be read");
    ret_id[strcspn(ret_id, "\n")] = '\0';
    return STATUS_OK;
}

/* The core's clock goes on above all that was charged, also when the machine's was set back. Whoever takes the gate away is on record. */
static enum status begin_epoch(struct metadata *metadata, void *context, struct refusal *refusal)
{
    struct control *control = context;
    const int64_t now_ns = wall_ns();
    struct meta_epoch last = {0};
    struct refusal unheard;
    char boot_id[64];
    enum status status = meta_epoch_last(metadata, &last, &unheard);

    if (status != STATUS_OK && status != STATUS_NOT_FOUND) {
        *refusal = unheard;
        return status;
    }
    control->first_at_ns = max_i64(now_ns, max_i64(last.first_at_ns, last.charged_to_ns) + 1);
    status = read_boot_id(boot_id, sizeof(boot_id), refusal);
    if (status == STATUS_OK)
        status = meta_epoch_open(metadata, boot_id, control->first_at_ns, control->asked->gate_off ? "{\"gate\":\"off\"}" : "{}",
                                 now_ns / NS_PER_MS, &control->epoch, refusal);
    if (status == STATUS_OK && control->asked->gate_off)
        status = meta_audit_add(metadata, NULL, "start", "gate.off", "models", now_ns / NS_PER_MS, refusal);
    return status;
}

/* Each base has a server, and a job its trainer; no GPU is left out that nobody left out. */
static uint32_t devices_wanted(const struct control *control)
{
    return control->asked->devices != 0 ? (uint32_t)control->asked->devices
                                        : max_u32(min_u32(control->bases_count + 1, CORE_DEVICES_MAX), control->asked->gpus.count);
}

/* Shares of one GPU, all alike; or of the CPU. */
static uint32_t shares_of(const struct control *control)
{
    const uint32_t gpus = max_u32(control->asked->gpus.count, 1);

    return min_u32((uint32_t)div_up_u64(devices_wanted(control), gpus), CORE_DEVICES_MAX / gpus);
}

static uint32_t devices_of(const struct control *control)
{
    return shares_of(control) * max_u32(control->asked->gpus.count, 1);
}

static enum status open_base(struct control *control, const char *what, struct refusal *refusal)
{
    const uint32_t index = control->bases_count;
    char why[TOKENIZER_ERROR_MAX];
    enum status status = base_open(control->writer, what, wall_ns() / NS_PER_MS, &control->bases[index], refusal);

    if (status != STATUS_OK)
        return status;
    control->bases_count++;
    status = tokenizer_open(strchr(what, '=') + 1, &control->tokenizers[index], why);
    return status == STATUS_OK ? status : refuse(refusal, status, "--base %s: %s", what, why);
}

/* Each base has a server; what shares there are beyond that are for more of them, and for trainers. */
static enum status open_bases(struct control *control, struct refusal *refusal)
{
    const struct control_asked *asked = control->asked;
    enum status status = STATUS_OK;

    for (uint32_t i = 0; status == STATUS_OK && i < asked->bases_count; i++)
        status = open_base(control, asked->bases[i], refusal);
    for (uint32_t i = 0; i < control->bases_count; i++)
        control->bases[i].replicas_ceiling = (uint16_t)max_u32(1, devices_of(control) - min_u32(devices_of(control), control->bases_count - 1));
    return status;
}

/* Of a GPU's memory, or the machine's, what is not for the rest of it. */
static uint64_t device_bytes(const struct control *control)
{
    const uint64_t host_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    const uint64_t all = control->asked->gpus.count > 0 ? control->asked->gpus.bytes : host_bytes;

    return all / 10 * 8 / shares_of(control);
}

/* For estimates alone; 0: the driver's own, a CPU's. */
static double device_flops_per_s(const struct control *control)
{
    return control->asked->gpus.count > 0 ? GPU_FLOPS_PER_S / shares_of(control) : 0;
}

static enum status open_core(struct control *control, struct refusal *refusal)
{
    const struct control_asked *asked = control->asked;
    char options[64];
    struct core_config config = {
        .launcher = control->launcher, .writer = control->writer, .epoch = (uint64_t)control->epoch, .first_at_ns = control->first_at_ns,
        .bases = control->bases, .bases_count = control->bases_count,
        .devices = devices_of(control), .device_bytes = device_bytes(control), .gpus = &asked->gpus,
        .price_nano_per_hour = asked->price_nano_per_hour, .replica_target = (uint32_t)asked->replica_target,
        .server_requests_max = (uint32_t)asked->server_requests,
        .scale_up_ns = asked->scale_up_s * NS_PER_S, .scale_down_ns = asked->scale_down_s * NS_PER_S, .server_options = options, .hears = driver_hears, .log = say};
    struct driver_config driver = {.epoch = (uint64_t)control->epoch, .metadata = control->options, .writer = control->writer, .vault = control->vault,
                                   .store = control->store, .bases = control->bases, .bases_count = control->bases_count,
                                   .devices = config.devices, .gpus = config.gpus, .flops_per_s = device_flops_per_s(control),
                                   .price_nano_per_hour = asked->price_nano_per_hour, .gate_off = asked->gate_off, .log = say};
    enum status status = driver_open(&driver, &control->driver, refusal);

    /* Whatever rank a job may have, its model is to answer. */
    snprintf(options, sizeof(options), asked->threads != 0 ? "{\"rank_max\":%d,\"threads\":%lld}" : "{\"rank_max\":%d}", LORA_RANK_MAX,
             (long long)asked->threads);
    config.hears_context = control->driver;
    if (status == STATUS_OK)
        status = core_open(&config, &control->core, refusal);
    if (status == STATUS_OK)
        control->launcher = NULL; /* the core's */
    return status == STATUS_OK ? driver_start(control->driver, control->core, refusal) : status;
}

static enum status notice(void *context, uint32_t devices, uint32_t within_ms)
{
    const struct control *control = context;

    if (control->core == NULL)
        return STATUS_INVALID;
    return core_notice(control->core, devices, within_ms);
}

static void tenant_changed(void *context, const char *tenant)
{
    const struct control *control = context;

    if (control->driver != NULL)
        driver_tenant_changed(control->driver, tenant);
}

static enum status open_adapters_folder(struct control *control, struct refusal *refusal)
{
    const char *path = control->asked->adapters_folder;
    const int folder = path != NULL ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : 0;

    if (folder < 0)
        return refuse(refusal, STATUS_INVALID, "--adapters-folder %s: %s", path, strerror(errno));
    control->adapters_folder = folder;
    return STATUS_OK;
}

static enum status open_doors(struct control *control, struct refusal *refusal)
{
    const struct admin_config local = {.folder = control->folder.path, .writer = control->writer, .log = stderr,
                                       .notice = notice, .tenant_changed = tenant_changed, .context = control};
    const struct api_config api = {.address = control->asked->address, .listener = CONTROL_LISTENER,
                                   .certificate_file = control->asked->certificate_file, .key_file = control->asked->key_file,
                                   .metadata = control->options, .writer = control->writer, .vault = control->vault,
                                   .store = control->store, .core = control->core, .driver = control->driver,
                                   .bases = control->bases, .tokenizers = (const struct tokenizer *const *)control->tokenizers,
                                   .bases_count = control->bases_count, .adapters_folder = control->adapters_folder, .log = say};
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
        status = meta_writer_call(control->writer, begin_epoch, control, refusal);
    if (status == STATUS_OK)
        status = open_bases(control, refusal);
    if (status == STATUS_OK)
        status = store_local_open(control_folder_at(&control->folder, "store", folder), &control->store, refusal);
    /* Without a base nothing can be learned or answered: files, tenants and keys are kept, and wait. */
    if (status == STATUS_OK && control->bases_count > 0)
        status = open_core(control, refusal);
    if (status == STATUS_OK)
        status = open_adapters_folder(control, refusal);
    return status == STATUS_OK ? open_doors(control, refusal) : status;
}

static void end(struct control *control, uint32_t within_ms)
{
    api_close(control->api, within_ms);
    admin_close(control->admin);
    if (control->core != NULL) {
        driver_stop(control->driver);
        core_stop(control->core, within_ms);
    }
    core_close(control->core);
    driver_close(control->driver);
    meta_writer_stop(control->writer);
    meta_close(control->metadata);
    secret_free(control->key);
    store_close(control->store);
    vault_close(control->vault);
    if (control->vault_socket >= 0)
        close(control->vault_socket);
    if (control->adapters_folder > 0)
        close(control->adapters_folder);
    if (control->launcher != NULL)
        control->launcher->table->close(control->launcher);
    for (uint32_t i = 0; i < control->bases_count; i++) {
        close(control->bases[i].folder);
        tokenizer_close(control->tokenizers[i]);
    }
    control_folder_close(&control->folder);
}

static void announce(const struct control *control)
{
    char gpus[GPUS_TEXT_BYTES];

    core_gpus_text(&control->asked->gpus, gpus);
    printf("berth-exec control: ready in %s", control->folder.path);
    if (control->core != NULL)
        printf(", on %u %s of %s%s", devices_of(control), devices_of(control) == 1 ? "share" : "shares",
               gpus[0] != '\0' ? "GPU " : "the CPU", gpus);
    putchar('\n');
    fflush(stdout);
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
    if (status == STATUS_OK) {
        announce(control);
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
