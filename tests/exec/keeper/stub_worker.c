#define _GNU_SOURCE /* CMSG_SPACE in constants */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "keeper/keeper.h"
#include "stub.h"
#include "support.h"
#include "wire/socket.h"

#define LEAVES_AFTER 20

static struct wire_inbox inbox;

/* Inventories after a WELCOME are `must` frames too; here they say how far it is. */
static void hear(struct wire *wire, uint64_t said)
{
    struct wire_frame frame;
    enum wire_received received;

    while ((received = wire_receive(wire, KEEPER_SOCKET, 1, &inbox, &frame)) == WIRE_RECEIVED_FRAME || received == WIRE_RECEIVED_NOTHING) {
        if (received == WIRE_RECEIVED_FRAME && frame.header.kind == WIRE_WELCOME)
            (void)wire_say(wire, WIRE_INVENTORY, &(struct wire_inventory){.step = said}, 0, NULL, 0);
        if (received == WIRE_RECEIVED_FRAME)
            wire_inbox_close(&inbox);
    }
    if (received == WIRE_RECEIVED_OVER)
        _exit(9);
}

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / NS_PER_MS;
}

/* One a millisecond, so that the disk holds what minutes bring. */
static void work(struct wire *wire, enum stub_worker kind)
{
    uint64_t said = 0;
    int64_t at_ms = 0;
    const bool leaves = kind == STUB_EXITS || kind == STUB_LEAVES;

    check(wire_say(wire, WIRE_HELLO, &(struct wire_hello){.version_min = 1, .version_max = 1, .worker_kind = kind}, 0, NULL, 0) == STATUS_OK);
    for (;;) {
        struct pollfd one = {.fd = KEEPER_SOCKET, .events = POLLIN};

        (void)poll(&one, 1, 1);
        hear(wire, said);
        if (wire_state(wire).is_open && (!leaves || said < LEAVES_AFTER) && (at_ms != now_ms() || leaves)) {
            said += wire_say(wire, WIRE_USAGE, &(struct wire_usage){.request = said + 1}, 0, NULL, 0) == STATUS_OK;
            at_ms = now_ms();
        }
        (void)wire_say(wire, WIRE_BEAT, &(struct wire_beat){.running = (uint32_t)said}, 0, NULL, 0);
        (void)wire_flush(wire, KEEPER_SOCKET, 1);
        if (leaves && said >= LEAVES_AFTER && (kind == STUB_EXITS || wire_state(wire).committed_seq == wire_state(wire).seq))
            _exit(7);
    }
}

static uint8_t packet[WIRE_FRAME_BYTES_MAX];

static void throw(size_t count, uint32_t descriptors_count)
{
    char room[CMSG_SPACE(16 * sizeof(int))] = "";
    struct iovec piece = {.iov_base = packet, .iov_len = count};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};

    if (descriptors_count > 0) {
        struct cmsghdr head = {.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(descriptors_count * sizeof(int))};

        memcpy(room, &head, sizeof(head));
        memset(room + CMSG_LEN(0), 0, descriptors_count * sizeof(int)); /* stdin, again and again */
        message.msg_control = room;
        message.msg_controllen = CMSG_SPACE(descriptors_count * sizeof(int));
    }
    (void)sendmsg(KEEPER_SOCKET, &message, MSG_NOSIGNAL);
}

static void header(const struct launch *launch, uint32_t length, uint16_t kind, uint64_t seq)
{
    wire_header_write(&(struct wire_header){.length = length, .version = 1, .kind = kind, .seq = seq, .worker = launch->worker,
                      .attempt = launch->attempt}, packet);
}

static void misbehave(const struct launch *launch, enum stub_worker kind)
{
    uint64_t seed = launch->worker;
    struct wire_hello hello = {.version_min = 1, .version_max = 1};
    size_t count = 0;

    check(wire_body_write(WIRE_HELLO, &hello, packet + WIRE_HEADER_BYTES, 100, &count) == STATUS_OK);
    header(launch, (uint32_t)(WIRE_HEADER_BYTES + count), WIRE_HELLO, 1);
    if (kind == STUB_OLD_ATTEMPT)
        wire_put(packet + 32, launch->attempt - 1, 8);
    if (kind != STUB_GARBAGE)
        throw(WIRE_HEADER_BYTES + count, 0);
    for (;;) {
        switch (kind) {
        case STUB_GARBAGE:
            count = 1 + draw_below(&seed, 3000);
            for (size_t i = 0; i < count; i++)
                packet[i] = (uint8_t)draw(&seed);
            throw(count, 0);
            break;
        case STUB_COUNTS:
            header(launch, 80, WIRE_INVENTORY, 2);
            memset(packet + WIRE_HEADER_BYTES, 0xff, 40);
            throw(80, 0);
            break;
        case STUB_DESCRIPTORS:
            header(launch, 60, WIRE_BEAT, 0);
            throw(60, 16);
            break;
        default: /* FLOODS: of epoch 0, which is dropped, and of no kind */
            memset(packet + WIRE_HEADER_BYTES, 0, 20);
            header(launch, 60, draw_below(&seed, 2) == 0 ? WIRE_BEAT : 999, 0);
            throw(60, 0);
            break;
        }
    }
}

extern char **environ;

/* Nothing of the keeper's is open here, and nothing of its environment; and it is limited. */
static bool is_bare(void)
{
    struct rlimit files = {0, 0};
    struct rlimit core = {1, 1};

    (void)getrlimit(RLIMIT_NOFILE, &files);
    (void)getrlimit(RLIMIT_CORE, &core);
    for (int descriptor = KEEPER_SOCKET + 1; descriptor < 1024; descriptor++) {
        if (fcntl(descriptor, F_GETFD) >= 0)
            return false;
    }
    return files.rlim_max == 256 && core.rlim_max == 0 && getsid(0) == getpid() && environ[0] == NULL && fcntl(KEEPER_SOCKET, F_GETFD) == 0;
}

int stub_worker(enum stub_worker kind)
{
    const struct wire_config base = {.side = WIRE_SIDE_WORKER, .queue_bytes = 80 << 10};
    struct wire_config config = base;
    struct launch launch;
    void *memory;

    if (!is_bare())
        return 21;
    if (keeper_who_am_i(KEEPER_SOCKET, &launch) != STATUS_OK || launch.kind != kind)
        return 20;
    if (kind == STUB_STUBBORN)
        (void)signal(SIGTERM, SIG_IGN);
    if (kind > STUB_STUBBORN)
        misbehave(&launch, kind);
    config.worker = launch.worker;
    config.attempt = launch.attempt;
    memory = malloc(wire_bytes(&config));
    check(memory != NULL);
    work(wire_create(memory, wire_bytes(&config), &config), kind);
    return 0;
}

/* It counts its lives, and ends when its client is gone. */
int stub_vault(const char *folder)
{
    char byte;

    stub_append(folder, (struct stub_record){.kind = STUB_DISK_PROCESS, .worker = 1000, .value = (uint64_t)getpid()});
    while (recv(KEEPER_SOCKET, &byte, 1, 0) == 1)
        (void)send(KEEPER_SOCKET, &byte, 1, MSG_NOSIGNAL);
    return 0;
}
