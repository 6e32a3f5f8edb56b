#define _GNU_SOURCE /* poll */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "keeper/keeper.h"
#include "stub.h"
#include "support.h"
#include "wire/socket.h"

static struct stub_plan plan;
static const char *folder;
static uint32_t epoch;
static uint32_t passed;
static struct launcher *launcher;
static struct wire_inbox inbox;
static volatile sig_atomic_t is_ended;

static struct peer {
    struct wire *wire;
    int socket;
    uint64_t committed_seq;  /* on disk */
    uint64_t usages;
    bool has_exited;         /* on disk */
    bool is_there;           /* told */
} peers[STUB_WORKERS_MAX + 1];

static void path_of(const char *name, char ret_path[512])
{
    snprintf(ret_path, 512, "%s/%s", folder, name);
}

void stub_append(const char *in_folder, struct stub_record record)
{
    char path[512];
    int file;

    snprintf(path, sizeof(path), "%s/disk", in_folder);
    file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    check(file >= 0);
    check(write(file, &record, sizeof(record)) == sizeof(record));
    close(file);
}

uint32_t stub_disk(const char *in_folder, struct stub_record *ret_records, uint32_t max)
{
    char path[512];
    ssize_t count;
    int file;

    snprintf(path, sizeof(path), "%s/disk", in_folder);
    file = open(path, O_RDONLY);
    if (file < 0)
        return 0;
    count = read(file, ret_records, max * sizeof(*ret_records));
    check(count >= 0);
    close(file);
    return (uint32_t)((size_t)count / sizeof(*ret_records));
}

static void append(enum stub_record_kind kind, uint64_t worker, uint64_t seq, uint64_t value)
{
    stub_append(folder, (struct stub_record){.kind = kind, .epoch = epoch, .worker = worker, .seq = seq, .value = value});
}

static void pass(enum stub_point point)
{
    if (point == plan.die_at && epoch <= plan.deaths && passed++ == plan.die_after)
        (void)kill(getpid(), SIGKILL);
}

static void restore(void)
{
    static struct stub_record records[1 << 19];
    const uint32_t count = stub_disk(folder, records, ARRAY_COUNT(records));

    epoch = 1;
    for (uint32_t i = 0; i < count; i++) {
        struct peer *peer = records[i].worker <= STUB_WORKERS_MAX ? &peers[records[i].worker] : &peers[0];

        epoch += records[i].kind == STUB_DISK_EPOCH;
        if (records[i].kind == STUB_DISK_FRAME) {
            peer->committed_seq = records[i].seq;
            peer->usages += records[i].value != 0;
        }
        peer->has_exited |= records[i].kind == STUB_DISK_EXIT;
    }
    append(STUB_DISK_EPOCH, 0, 0, 0);
    append(STUB_DISK_PROCESS, 0, 0, (uint64_t)getpid());
}

static void flush(struct peer *peer)
{
    if (peer->wire != NULL)
        (void)wire_flush(peer->wire, peer->socket, 1);
}

static void adopt(const struct launcher_event *event)
{
    struct peer *peer = &peers[event->launch.worker];
    const struct wire_config config = {.side = WIRE_SIDE_CONTROL, .worker = event->launch.worker, .attempt = event->launch.attempt, .epoch = epoch,
                                       .lease_ms = 1000, .committed_seq = peer->committed_seq,
                                       .is_adopted = event->kind == LAUNCHER_FOUND, .is_dead = event->is_dead};
    void *memory = malloc(wire_bytes(&config));

    append(STUB_DISK_PROCESS, event->launch.worker, 0, (uint64_t)event->process);
    check(memory != NULL);
    check(!peer->is_there);
    peer->is_there = true;
    peer->socket = event->socket;
    peer->wire = wire_create(memory, wire_bytes(&config), &config);
    pass(STUB_AT_WELCOME_OWED);
    flush(peer);
    pass(STUB_AT_WELCOME_SENT);
}

/* True: there may be more. */
static bool take_one(struct peer *peer)
{
    const uint64_t worker = (uint64_t)(peer - peers);
    struct wire_frame frame;
    enum wire_received received = WIRE_RECEIVED_EMPTY;

    if (peer->wire != NULL && (wire_wants_input(peer->wire) || wire_state(peer->wire).fault != WIRE_FAULT_NONE))
        received = wire_receive(peer->wire, peer->socket, 1, &inbox, &frame);
    if (received == WIRE_RECEIVED_OVER) {
        append(STUB_DISK_FAULT, worker, 0, wire_state(peer->wire).fault);
        flush(peer);
        (void)launcher->table->end(launcher, worker, true);
        wire_end(peer->wire);
        free(peer->wire);
        peer->wire = NULL;
        return false;
    }
    if (received != WIRE_RECEIVED_FRAME)
        return received == WIRE_RECEIVED_NOTHING;
    check(inbox.descriptors_count == 0);
    if (frame.header.seq == 0)
        return true;
    pass(STUB_AT_TAKEN);
    append(STUB_DISK_FRAME, worker, frame.header.seq, frame.header.kind == WIRE_USAGE ? frame.body.usage.request : 0);
    peer->usages += frame.header.kind == WIRE_USAGE;
    pass(STUB_AT_COMMITTED);
    wire_commit(peer->wire, frame.header.seq);
    pass(STUB_AT_ACK_OWED);
    flush(peer);
    pass(STUB_AT_ACK_SENT);
    return true;
}

static void start_missing(void)
{
    for (uint32_t worker = 1; worker <= plan.workers; worker++) {
        if (peers[worker].is_there || peers[worker].has_exited)
            continue;
        check(launcher->table->start(launcher, &(struct launch){.worker = worker, .attempt = 5, .kind = plan.kinds[worker - 1]}) == STATUS_OK);
        pass(STUB_AT_START_ASKED);
    }
}

static void exited(const struct launcher_event *event)
{
    struct peer *peer = &peers[event->launch.worker];
    const uint64_t code = (uint64_t)event->end.code + (event->end.by_signal ? 128 : 0);

    check(event->end.memory_max_bytes > 0);
    while (take_one(peer))
        continue;
    append(STUB_DISK_HEARD_EXIT, event->launch.worker, 0, code);
    pass(STUB_AT_EXIT_TOLD);
    if (!peer->has_exited)
        append(STUB_DISK_EXIT, event->launch.worker, 0, code);
    peer->has_exited = true;
    pass(STUB_AT_EXIT_COMMITTED);
    check(launcher->table->forget(launcher, event->launch.worker) == STATUS_OK);
    pass(STUB_AT_EXIT_FORGOTTEN);
    wire_end(peer->wire);
    free(peer->wire);
    peer->wire = NULL;
    close(peer->socket);
}

static void hear_launcher(void)
{
    struct launcher_event event;

    while (launcher->table->next(launcher, &event) == STATUS_OK) {
        switch (event.kind) {
        case LAUNCHER_LISTED:
            pass(STUB_AT_LISTED);
            start_missing();
            break;
        case LAUNCHER_STARTED:
            pass(STUB_AT_STARTED_TOLD);
            adopt(&event);
            break;
        case LAUNCHER_FOUND:
            adopt(&event);
            break;
        case LAUNCHER_EXITED:
            exited(&event);
            break;
        case LAUNCHER_VAULT: { /* asked, it answers */
            char byte = 'v';

            check(send(event.socket, &byte, 1, MSG_NOSIGNAL) == 1);
            (void)dup2(event.socket, 50); /* the one before is closed by this */
            close(event.socket);
            append(STUB_DISK_PROCESS, 1001, 0, (uint64_t)(recv(50, &byte, 1, 0) == 1));
            break;
        }
        default:
            append(STUB_DISK_FAULT, event.launch.worker, 0, 1000 + (uint64_t)event.status);
            break;
        }
    }
}

static bool is_done(void)
{
    for (uint32_t worker = 1; worker <= plan.workers; worker++) {
        const uint32_t kind = plan.kinds[worker - 1];
        const struct peer *peer = &peers[worker];

        if (kind == STUB_STEADY || kind == STUB_STUBBORN ? peer->usages < plan.usages && !peer->has_exited
                                                         : kind != STUB_FLOODS && !peer->has_exited)
            return false;
    }
    return true;
}

static void turn(void)
{
    struct pollfd watched[STUB_WORKERS_MAX + 1] = {{.fd = launcher->table->descriptor(launcher), .events = POLLIN}};

    for (uint32_t worker = 1; worker <= plan.workers; worker++) {
        const bool reads = peers[worker].wire != NULL && wire_wants_input(peers[worker].wire);

        watched[worker] = (struct pollfd){.fd = reads ? peers[worker].socket : -1, .events = POLLIN};
    }
    (void)poll(watched, plan.workers + 1, 20);
    if (watched[0].revents != 0)
        hear_launcher();
    for (uint32_t worker = 1; worker <= plan.workers; worker++) {
        for (int frames = 0; watched[worker].revents != 0 && frames < 16 && take_one(&peers[worker]); frames++)
            continue;
        flush(&peers[worker]);
    }
}

static void end(int number)
{
    (void)number;
    is_ended = 1;
}

int stub_control(const char *in_folder)
{
    const struct sigaction on_term = {.sa_handler = end};
    bool was_done = false;
    char path[512];
    FILE *file;

    folder = in_folder;
    path_of("plan", path);
    file = fopen(path, "rb");
    check(file != NULL);
    check(fread(&plan, sizeof(plan), 1, file) == 1);
    fclose(file);
    (void)sigaction(SIGTERM, &on_term, NULL);
    restore();
    if (plan.fails)
        return 3;
    pass(STUB_AT_BEGUN);
    launcher = keeper_client(KEEPER_SOCKET);
    check(launcher->table->list(launcher) == STATUS_OK);
    while (!is_ended) {
        turn();
        if (is_done() && !was_done)
            append(STUB_DISK_DONE, 0, 0, 0);
        was_done = is_done();
    }
    return 0;
}
