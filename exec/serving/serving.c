#include "serving/serving.h"

#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>

#include "serving/internal.h"

#define HOLD_MS (10u * 60 * 1000)
/* Frames between two steps of the engine. */
#define FRAMES_A_TURN 64
#define BEAT_NS (100 * NS_PER_MS)
/* Adapters are told in frames of 56 KB, which are kept until they are committed. */
#define QUEUE_BYTES (2u << 20)
#define FLOW_BYTES (1u << 20)

int64_t serving_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

void serving_log(const struct serving *serving, const char *format, ...)
{
    char line[512];
    va_list list;

    va_start(list, format);
    (void)vsnprintf(line, sizeof(line), format, list);
    va_end(list);
    fprintf(serving->config->log, "berth-exec worker server: worker=%llu %s\n", (unsigned long long)link_launch(serving->link)->worker, line);
}

/* --- what it hears -------------------------------------------------------------------------------------------------------------- */

/* A control plane that found this server says START again. */
static enum status hear_start(struct serving *serving, const struct wire_start *start, struct wire_inbox *inbox, struct refusal *refusal)
{
    enum status status;

    if (serving->worker != NULL)
        return STATUS_OK;
    status = serving_start(serving, start, inbox, refusal);
    if (status == STATUS_OK)
        serving_log(serving, "act=ready positions=%u", worker_positions_max(serving->worker));
    return status;
}

static void hear_welcome(struct serving *serving)
{
    streams_forget(serving);
    if (serving->worker == NULL)
        return;
    serving->inventory_at = 0;
    serving->inventory_due = true;
    serving->beat.kv_free_permille = UINT32_MAX; /* what the one before was told last, this one was not */
}

static void hear_drain(struct serving *serving, const struct wire_drain *drain)
{
    serving->is_draining = true;
    if (drain->deadline_ms != UINT32_MAX)
        serving->drain_by_ns = serving_now_ns() + drain->deadline_ms * NS_PER_MS;
    if (serving->worker != NULL)
        worker_drain(serving->worker);
    serving_log(serving, "act=drain requests=%u", serving->streams_count);
}

static enum status hear(struct serving *serving, const struct wire_frame *frame, struct wire_inbox *inbox, struct refusal *refusal)
{
    switch (frame->header.kind) {
    case WIRE_WELCOME: hear_welcome(serving); break;
    case WIRE_START: return hear_start(serving, &frame->body.start, inbox, refusal);
    case WIRE_LOAD: hosted_load(serving, &frame->body.load, inbox); break;
    case WIRE_UNLOAD: hosted_unload(serving, &frame->body.unload); break;
    case WIRE_REQUEST: stream_begin(serving, &frame->body.request, inbox); break;
    case WIRE_ABORT: stream_abort(serving, frame->body.abort.request); break;
    case WIRE_DRAIN: hear_drain(serving, &frame->body.drain); break;
    default: break; /* CREDIT is the wire's; the rest is not for servers */
    }
    return STATUS_OK;
}

/* STATUS_END: it is told to end. */
static enum status hear_all(struct serving *serving, bool *ret_heard, struct refusal *refusal)
{
    enum status status = STATUS_OK;

    *ret_heard = false;
    for (int i = 0; i < FRAMES_A_TURN && status == STATUS_OK; i++) {
        struct wire_frame frame;
        struct wire_inbox *inbox;

        switch (link_next(serving->link, 0, &frame, &inbox)) {
        case LINK_FRAME:
            status = hear(serving, &frame, inbox, refusal);
            *ret_heard = true;
            break;
        case LINK_EXPIRED:
            serving_log(serving, "act=lease-over requests=%u", serving->streams_count);
            break;
        case LINK_KILLED:
            return refuse(refusal, STATUS_END, "told to end: %s", wire_fault_text(wire_state(link_wire(serving->link)).fault));
        case LINK_GONE:
            return refuse(refusal, STATUS_END, "the control plane's end is closed");
        case LINK_NOTHING:
            return STATUS_OK;
        }
    }
    return status;
}

/* --- what it says --------------------------------------------------------------------------------------------------------------- */

static bool is_same_beat(const struct wire_beat *a, const struct wire_beat *b)
{
    return a->memory_bytes == b->memory_bytes && a->waiting == b->waiting && a->running == b->running &&
           a->kv_free_permille == b->kv_free_permille;
}

/* As often as anything changes, but not at every step; the link beats by itself when nothing else is said. */
static void say_beat(struct serving *serving)
{
    const struct worker_state state = worker_state(serving->worker);
    const struct wire_beat beat = {.memory_bytes = state.pool_used_bytes,
                                   .waiting = state.replica.waiting,
                                   .running = state.replica.running,
                                   .kv_free_permille = state.replica.kv_free_permille};
    const int64_t now_ns = serving_now_ns();

    link_beat(serving->link, &beat);
    if (is_same_beat(&beat, &serving->beat) || now_ns < serving->beat_at_ns + BEAT_NS)
        return;
    if (link_say(serving->link, WIRE_BEAT, &beat, 0) == STATUS_OK) {
        serving->beat = beat;
        serving->beat_at_ns = now_ns;
    }
}

static void say_all(struct serving *serving)
{
    streams_say(serving);
    if (serving->worker == NULL)
        return;
    adapters_say(serving);
    say_beat(serving);
}

/* --- the loop ------------------------------------------------------------------------------------------------------------------- */

static uint32_t hold_ms(const struct serving *serving)
{
    return serving->config->hold_ms != 0 ? serving->config->hold_ms : HOLD_MS;
}

/* When the base is given up; NEVER_NS before it was welcomed. */
static int64_t held_until_ns(const struct serving *serving)
{
    const int64_t lease_ns = wire_state(link_wire(serving->link)).lease_until_ns;

    return lease_ns == NEVER_NS ? NEVER_NS : lease_ns + hold_ms(serving) * NS_PER_MS;
}

static void wait_for_something(struct serving *serving)
{
    struct pollfd both[2] = {
        {.fd = link_descriptor(serving->link), .events = (short)(POLLIN | (link_wants_output(serving->link) ? POLLOUT : 0))},
        {.fd = serving->worker != NULL ? worker_fd(serving->worker) : -1, .events = POLLIN}};
    const int64_t now_ns = serving_now_ns();
    int64_t due_ns = min_i64(min_i64(link_due_at_ns(serving->link), held_until_ns(serving)), now_ns + NS_PER_S);

    if (serving->is_draining)
        due_ns = min_i64(due_ns, serving->drain_by_ns);
    (void)poll(both, 2, due_ns <= now_ns ? 0 : (int)((due_ns - now_ns) / NS_PER_MS + 1));
}

static bool is_drained(const struct serving *serving)
{
    return serving->is_draining && serving->streams == NULL && (serving->worker == NULL || worker_drained(serving->worker));
}

/* What is left when the time is over is told as cancelled. */
static void keep_deadline(struct serving *serving)
{
    if (!serving->is_draining || serving_now_ns() < serving->drain_by_ns)
        return;
    serving->drain_by_ns = NEVER_NS;
    streams_abort(serving);
}

static enum status serve(struct serving *serving, struct refusal *refusal)
{
    for (;;) {
        const bool more = serving->worker != NULL && worker_pump(serving->worker);
        enum status status;
        bool heard;

        keep_deadline(serving);
        say_all(serving);
        /* What flows is only sent; what must be told is committed. */
        if (is_drained(serving) && link_flush(serving->link))
            return link_settle(serving->link, (int)hold_ms(serving)) ? STATUS_OK
                                                                    : refuse(refusal, STATUS_END, "drained, but what it told is not committed");
        status = hear_all(serving, &heard, refusal);
        if (status != STATUS_OK)
            return status;
        if (serving_now_ns() >= held_until_ns(serving))
            return refuse(refusal, STATUS_END, "no control plane has spoken for %u s", hold_ms(serving) / 1000);
        if (!more && !heard)
            wait_for_something(serving);
    }
}

enum status serving_run(const struct serving_config *config, struct refusal *refusal)
{
    const struct link_config link = {.socket = config->socket, .kind = CORE_SERVER, .requests_max = STREAMS_MAX, .flow_bytes = FLOW_BYTES,
                                     .queue_bytes = QUEUE_BYTES};
    struct serving *serving = calloc(1, sizeof(*serving));
    enum status status;

    check(serving != NULL);
    serving->config = config;
    serving->folder = -1;
    serving->drain_by_ns = NEVER_NS;
    status = link_open(&link, &serving->link, refusal);
    if (status == STATUS_OK)
        status = serve(serving, refusal);
    serving_end(serving);
    free(serving);
    return status;
}
