#define _GNU_SOURCE
#include "rig.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "keeper/keeper.h"

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* --- objects ------------------------------------------------------------------------------------------------------------------ */

struct object object_new(const char *id)
{
    struct object object = {.file = memfd_create("object", MFD_CLOEXEC)};

    assert_true(object.file >= 0);
    snprintf(object.id, sizeof(object.id), "%s", id);
    assert_true(sodium_init() >= 0);
    randombytes_buf(object.key, sizeof(object.key));
    return object;
}

struct object object_of(const char *id, const char *purpose, const void *bytes, size_t count)
{
    struct object object = object_new(id);
    const struct envelope_label label = {.tenant = TENANT, .object = object.id, .purpose = purpose};
    struct sealer *sealer;

    assert_int_equal(sealer_open(&label, object.id, object.key, envelope_to_file, &object.file, &sealer), STATUS_OK);
    assert_int_equal(sealer_put(sealer, bytes, count), STATUS_OK);
    assert_int_equal(sealer_finish(sealer), STATUS_OK);
    sealer_close(sealer);
    return object;
}

int64_t object_size(const struct object *object)
{
    struct stat about;

    assert_int_equal(fstat(object->file, &about), 0);
    return about.st_size;
}

char *object_text(const struct object *object, const char *purpose, size_t *ret_count)
{
    const struct envelope_label label = {.tenant = TENANT, .object = object->id, .purpose = purpose};
    struct opener *opener = NULL;
    char *text;

    assert_int_equal(opener_open(&label, object->key, (uint64_t)object_size(object), envelope_from_file, (void *)(uintptr_t)&object->file, &opener), STATUS_OK);
    *ret_count = opener_bytes(opener);
    text = malloc(*ret_count + 1);
    assert_non_null(text);
    assert_int_equal(opener_read(opener, 0, text, *ret_count), STATUS_OK);
    text[*ret_count] = '\0';
    opener_close(opener);
    return text;
}

void object_digest(const struct object *object, uint8_t ret_digest[32])
{
    const size_t count = (size_t)object_size(object);
    uint8_t *bytes = malloc(count);

    assert_non_null(bytes);
    assert_int_equal(pread(object->file, bytes, count, 0), count);
    crypto_generichash(ret_digest, 32, bytes, count, NULL, 0);
    free(bytes);
}

/* --- the talk ----------------------------------------------------------------------------------------------------------------- */

/* Keys, and duplicates of the descriptors, which the wire closes. */
static uint8_t *grants_of(const struct object *const *objects, int count, int *ret_descriptors)
{
    uint8_t *bytes = calloc((size_t)count + 1, WIRE_GRANT_BYTES);

    for (int i = 0; i < count; i++) {
        struct wire_grant grant;

        memset(&grant, 0, sizeof(grant));
        memcpy(grant.id, objects[i]->id, NAME_BYTES);
        memcpy(grant.key, objects[i]->key, KEY_BYTES);
        wire_grant_write(&grant, bytes + (size_t)i * WIRE_GRANT_BYTES);
        ret_descriptors[i] = dup(objects[i]->file);
    }
    return bytes;
}

uint32_t control_lease_ms = 60000;
const char *control_program;

/* With an empty environment, and nothing open but what a worker has. */
static void run_program(enum task_kind kind, int socket)
{
    char *const arguments[] = {(char *)(uintptr_t)"berth-exec", (char *)(uintptr_t)"worker", (char *)(uintptr_t)(kind == TASK_TRAIN ? "trainer" : "validator"), NULL};
    char *const nothing[] = {NULL};

    if (dup2(socket, KEEPER_SOCKET) == KEEPER_SOCKET && close_range(KEEPER_SOCKET + 1, ~0u, 0) == 0)
        execve(control_program, arguments, nothing);
    _exit(127);
}

static pid_t child_of(enum task_kind kind, const int sockets[2])
{
    const struct launch launch = {.worker = 5, .attempt = 2, .kind = 1};
    const struct task_config config = {.kind = kind, .socket = sockets[1], .worker_kind = 1, .lost_ms = 300};
    pid_t child;

    assert_int_equal(send(sockets[0], &launch, sizeof(launch), 0), sizeof(launch));
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (control_program != NULL)
            run_program(kind, sockets[1]);
        close(sockets[0]);
        _exit(task_run(&config));
    }
    close(sockets[1]);
    return child;
}

struct control *control_begin(enum task_kind kind, const char *settings, const struct object *const *objects, int count, const char *base)
{
    const struct wire_config config = {.side = WIRE_SIDE_CONTROL, .worker = 5, .attempt = 2, .epoch = 1, .lease_ms = control_lease_ms};
    struct control *control = calloc(1, sizeof(*control));
    struct wire_start start = {.job = 1, .grants_count = (uint32_t)count, .settings_count = (uint32_t)strlen(settings),
                               .settings = (const uint8_t *)settings};
    int descriptors[WIRE_DESCRIPTORS_MAX];
    uint8_t *grants = grants_of(objects, count, descriptors);
    int sockets[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
    control->child = child_of(kind, sockets);
    control->socket = sockets[0];
    control->memory = calloc(1, wire_bytes(&config));
    control->wire = wire_create(control->memory, wire_bytes(&config), &config);
    start.grants = grants;
    if (base != NULL)
        descriptors[count++] = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* After HELLO, whose answer is WELCOME. */
    while (!wire_state(control->wire).is_open)
        (void)control_await(control, WIRE_HELLO);
    assert_int_equal(wire_say(control->wire, WIRE_START, &start, 0, descriptors, (uint32_t)count), STATUS_OK);
    free(grants);
    return control;
}

/* Views become the test's own. */
static void keep(struct control *control, const struct wire_frame *frame)
{
    struct said *said = &control->said[control->count];
    const uint8_t *text = NULL;
    uint32_t count = 0;

    assert_true(control->count < FRAMES_MAX);
    *said = (struct said){.kind = frame->header.kind, .body = frame->body};
    switch (frame->header.kind) {
    case WIRE_INVENTORY: control->inventory_step = frame->body.inventory.step; return;
    case WIRE_PROGRESS: text = frame->body.progress.metrics; count = frame->body.progress.metrics_count; break;
    case WIRE_CHECKPOINT: text = frame->body.checkpoint.metrics; count = frame->body.checkpoint.metrics_count; break;
    case WIRE_RESULT: text = frame->body.result.metrics; count = frame->body.result.metrics_count; break;
    case WIRE_FAILED:
        said->sealed_count = frame->body.failed.sealed_count;
        memcpy(said->sealed, frame->body.failed.sealed, said->sealed_count);
        break;
    default: return;
    }
    if (text != NULL)
        said->metrics = strndup((const char *)text, count);
    control->count++;
}

/* False: its end. */
static bool take(struct control *control, uint16_t *ret_kind)
{
    struct wire_frame frame;
    struct pollfd one = {.fd = control->socket, .events = POLLIN};
    enum wire_received received;

    *ret_kind = 0;
    (void)wire_flush(control->wire, control->socket, now_ns());
    (void)poll(&one, 1, 20);
    received = wire_receive(control->wire, control->socket, now_ns(), &control->inbox, &frame);
    if (received == WIRE_RECEIVED_OVER)
        fail_msg("a fault: %s", wire_fault_text(wire_state(control->wire).fault));
    if (received == WIRE_RECEIVED_FRAME) {
        *ret_kind = frame.header.kind;
        keep(control, &frame);
        if (frame.header.seq > 0)
            wire_commit(control->wire, frame.header.seq);
        wire_inbox_close(&control->inbox);
        (void)wire_flush(control->wire, control->socket, now_ns());
    }
    return received != WIRE_RECEIVED_END;
}

const struct said *control_await(struct control *control, uint16_t kind)
{
    const int64_t until_ns = now_ns() + 120 * NS_PER_S;
    uint16_t came;

    while (take(control, &came)) {
        if (came == kind)
            return &control->said[max_i64(control->count - 1, 0)];
        if (now_ns() > until_ns)
            fail_msg("nothing of kind %u in two minutes", kind);
    }
    return NULL;
}

int control_wait(struct control *control)
{
    int status;

    (void)control_await(control, UINT16_MAX);
    assert_int_equal(waitpid(control->child, &status, 0), control->child);
    control->child = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void control_more(struct control *control, uint32_t deadline_ms, const struct object *const *objects, int count)
{
    int descriptors[WIRE_DESCRIPTORS_MAX];
    uint8_t *grants = grants_of(objects, count, descriptors);
    const struct wire_checkpoint_now more = {.deadline_ms = deadline_ms, .adapters = 0xAAAAAAAA, .grants_count = (uint32_t)count, .grants = grants};

    assert_int_equal(wire_say(control->wire, WIRE_CHECKPOINT_NOW, &more, 0, descriptors, (uint32_t)count), STATUS_OK);
    (void)wire_flush(control->wire, control->socket, now_ns());
    free(grants);
}

void control_restart(struct control *control)
{
    const struct wire_state before = wire_state(control->wire);
    const struct wire_config config = {.side = WIRE_SIDE_CONTROL, .worker = 5, .attempt = 2, .epoch = before.epoch + 2, .lease_ms = control_lease_ms,
                                       .committed_seq = before.committed_seq, .is_adopted = true};

    wire_end(control->wire);
    free(control->memory);
    control->memory = calloc(1, wire_bytes(&config));
    control->wire = wire_create(control->memory, wire_bytes(&config), &config);
}

void control_kill(struct control *control)
{
    kill(control->child, SIGKILL);
    assert_int_equal(waitpid(control->child, NULL, 0), control->child);
    control->child = 0;
}

void control_end(struct control *control)
{
    if (control->child > 0)
        control_kill(control);
    for (int i = 0; i < control->count; i++)
        free(control->said[i].metrics);
    wire_end(control->wire);
    close(control->socket);
    free(control->memory);
    free(control);
}
