#include "link/link.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sodium.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct link {
    int socket;
    struct launch launch;
    struct wire *wire;
    void *memory;
    struct wire_beat beat;
    struct wire_inbox inbox;
    bool is_full;     /* the socket took no more when it was last flushed */
    bool is_gone;
    bool has_expired; /* said already */
};

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* Of this boot of the machine, as the control plane compares it with its own; zeros where it cannot be read. */
static void read_boot(uint8_t ret_boot[16])
{
    char text[37] = "";
    size_t bytes = 0;
    const int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

    memset(ret_boot, 0, 16);
    if (file < 0)
        return;
    if (read(file, text, 36) == 36)
        (void)sodium_hex2bin(ret_boot, 16, text, 36, "-", &bytes, NULL);
    close(file);
}

static enum status say_hello(struct link *link, uint32_t kind, struct refusal *refusal)
{
    struct wire_hello hello = {.version_min = WIRE_VERSION_MIN, .version_max = WIRE_VERSION_MAX, .worker_kind = kind};

    read_boot(hello.boot);
    if (wire_say(link->wire, WIRE_HELLO, &hello, 0, NULL, 0) != STATUS_OK)
        return refuse(refusal, STATUS_IO, "HELLO does not fit the queue of frames");
    return STATUS_OK;
}

static enum status begin(struct link *link, const struct link_config *config, struct refusal *refusal)
{
    struct wire_config wire = {.side = WIRE_SIDE_WORKER, .requests_max = config->requests_max, .flow_bytes = config->flow_bytes,
                               .queue_bytes = config->queue_bytes};

    if (keeper_who_am_i(config->socket, &link->launch) != STATUS_OK)
        return refuse(refusal, STATUS_IO, "descriptor %d is no worker's socket: a worker is started by the keeper (berth-exec control)",
                      config->socket);
    wire.worker = link->launch.worker;
    wire.attempt = link->launch.attempt;
    link->memory = calloc(1, wire_bytes(&wire));
    if (link->memory == NULL)
        return refuse(refusal, STATUS_IO, "no memory for a worker's frames");
    link->wire = wire_create(link->memory, wire_bytes(&wire), &wire);
    return say_hello(link, config->kind, refusal);
}

enum status link_open(const struct link_config *config, struct link **ret_link, struct refusal *refusal)
{
    struct link *link = calloc(1, sizeof(*link));
    enum status status;

    if (link == NULL) {
        close(config->socket);
        return refuse(refusal, STATUS_IO, "no memory for a worker's frames");
    }
    link->socket = config->socket;
    status = begin(link, config, refusal);
    if (status == STATUS_OK)
        *ret_link = link;
    else
        link_close(link);
    return status;
}

void link_close(struct link *link)
{
    if (link == NULL)
        return;
    wire_inbox_close(&link->inbox);
    sodium_memzero(link->inbox.bytes, sizeof(link->inbox.bytes)); /* keys come in frames */
    wire_end(link->wire);
    free(link->memory);
    close(link->socket);
    free(link);
}

const struct launch *link_launch(const struct link *link)
{
    return &link->launch;
}

struct wire *link_wire(struct link *link)
{
    return link->wire;
}

int link_descriptor(const struct link *link)
{
    return link->socket;
}

bool link_wants_output(const struct link *link)
{
    return link->is_full;
}

int64_t link_due_at_ns(const struct link *link)
{
    const struct wire_state state = wire_state(link->wire);
    const int64_t beat_ns = link->is_full ? NEVER_NS : state.beat_due_at_ns; /* a beat behind a full socket would come too late anyhow */

    return link->has_expired ? beat_ns : min_i64(beat_ns, state.lease_until_ns);
}

/* --- what goes ---------------------------------------------------------------------------------------------------------------- */

void link_beat(struct link *link, const struct wire_beat *beat)
{
    link->beat = *beat;
}

enum status link_say(struct link *link, enum wire_kind kind, const void *body, uint64_t key)
{
    return wire_say(link->wire, kind, body, key, NULL, 0);
}

bool link_flush(struct link *link)
{
    const int64_t at_ns = now_ns();
    enum status status;

    if (link->is_gone)
        return false;
    if (at_ns >= wire_state(link->wire).beat_due_at_ns)
        (void)wire_say(link->wire, WIRE_BEAT, &link->beat, 0, NULL, 0); /* full of others' newest: a later one goes */
    status = wire_flush(link->wire, link->socket, at_ns);
    link->is_full = status == STATUS_FULL;
    /* What the other end had written before it closed is still read. */
    return status == STATUS_OK;
}

/* --- what comes --------------------------------------------------------------------------------------------------------------- */

static enum link_event take_one(struct link *link, struct wire_frame *ret_frame)
{
    switch (wire_receive(link->wire, link->socket, now_ns(), &link->inbox, ret_frame)) {
    case WIRE_RECEIVED_FRAME:
        if (ret_frame->header.kind == WIRE_LEASE) /* the wire has noted it */
            return LINK_NOTHING;
        return ret_frame->header.kind == WIRE_KILL ? LINK_KILLED : LINK_FRAME;
    case WIRE_RECEIVED_OVER: return LINK_KILLED;
    case WIRE_RECEIVED_END:
        link->is_gone = true;
        return LINK_GONE;
    default: return LINK_NOTHING;
    }
}

static int wait_of(const struct link *link, int64_t at_ns, int64_t until_ns)
{
    const int64_t due_ns = min_i64(until_ns, link_due_at_ns(link));

    if (due_ns == NEVER_NS)
        return -1;
    return due_ns <= at_ns ? 0 : (int)min_i64((due_ns - at_ns) / NS_PER_MS + 1, INT32_MAX);
}

/* Whether a frame may be there to be read; an error of poll() is left for the read to tell. */
static bool wait_for(struct link *link, int64_t at_ns, int64_t until_ns)
{
    struct pollfd one = {.fd = link->socket, .events = (short)(POLLIN | (link->is_full ? POLLOUT : 0))};

    return poll(&one, 1, wait_of(link, at_ns, until_ns)) > 0 && (one.revents & ~POLLOUT) != 0;
}

static bool is_expired(struct link *link, int64_t at_ns)
{
    if (link->has_expired || at_ns < wire_state(link->wire).lease_until_ns)
        return false;
    link->has_expired = true;
    return true;
}

/* Sends, waits once, takes at most one packet. */
static enum link_event turn(struct link *link, int64_t until_ns, struct wire_frame *ret_frame)
{
    wire_inbox_close(&link->inbox);
    if (link->is_gone)
        return LINK_GONE;
    if (wire_state(link->wire).fault != WIRE_FAULT_NONE)
        return LINK_KILLED;
    (void)link_flush(link);
    if (wait_for(link, now_ns(), until_ns)) {
        const int64_t lease_ns = wire_state(link->wire).lease_until_ns;
        const enum link_event event = take_one(link, ret_frame);

        if (wire_state(link->wire).lease_until_ns != lease_ns)
            link->has_expired = false;
        if (event != LINK_NOTHING)
            return event;
    }
    return is_expired(link, now_ns()) ? LINK_EXPIRED : LINK_NOTHING;
}

static int64_t until_of(int wait_ms)
{
    return wait_ms < 0 ? NEVER_NS : now_ns() + wait_ms * NS_PER_MS;
}

enum link_event link_next(struct link *link, int wait_ms, struct wire_frame *ret_frame, struct wire_inbox **ret_inbox)
{
    const int64_t until_ns = until_of(wait_ms);
    enum link_event event;

    *ret_inbox = &link->inbox;
    do
        event = turn(link, until_ns, ret_frame);
    while (event == LINK_NOTHING && now_ns() < until_ns);
    return event;
}

bool link_settle(struct link *link, int wait_ms)
{
    const int64_t until_ns = until_of(wait_ms);
    enum link_event event = LINK_NOTHING;
    struct wire_frame frame;

    while (wire_state(link->wire).committed_seq != wire_state(link->wire).seq && event != LINK_GONE && event != LINK_KILLED && now_ns() < until_ns)
        event = turn(link, until_ns, &frame);
    return wire_state(link->wire).committed_seq == wire_state(link->wire).seq;
}
