/* What comes from the other end: judged, dropped, answered or given to the host. */
#include "wire/internal.h"

enum wire_verdict wire_take_broken(struct wire *wire, enum wire_fault fault)
{
    wire_fail(wire, fault);
    return WIRE_OVER;
}

static enum wire_verdict drop(struct wire *wire)
{
    wire->state.dropped++;
    return WIRE_NOTHING;
}

/* One slot: who floods with unknown kinds hears of the last. */
static enum wire_verdict answer_unsupported(struct wire *wire, const struct wire_header *header)
{
    wire->state.unsupported++;
    (void)latest_put(wire, WIRE_UNSUPPORTED, UNSUPPORTED_KEY, &(struct wire_unsupported){.kind = header->kind, .seq = header->seq});
    return WIRE_NOTHING;
}

/* Kinds that come before a version is agreed, or say that none can be. */
static bool is_of_any_version(uint32_t kind)
{
    return kind == WIRE_HELLO || kind == WIRE_WELCOME || kind == WIRE_KILL || kind == WIRE_UNSUPPORTED;
}

static enum wire_fault judge_header(const struct wire *wire, const struct wire_header *header, const struct wire_kind_info *info,
                                    uint32_t descriptors_count)
{
    if (info->from == (is_control(wire) ? WIRE_FROM_CONTROL : WIRE_FROM_WORKER))
        return WIRE_FAULT_SIDE;
    if (!is_of_any_version(header->kind) && (header->version < wire->config.version_min || header->version > wire->config.version_max))
        return WIRE_FAULT_VERSION;
    if (descriptors_count > info->descriptors_max)
        return WIRE_FAULT_DESCRIPTORS;
    return (header->seq != 0) == (info->class == WIRE_CLASS_MUST) ? WIRE_FAULT_NONE : WIRE_FAULT_SEQ;
}

/* The highest version that both speak; 0: none. */
static uint16_t common_version(const struct wire *wire, uint16_t min, uint16_t max)
{
    const uint16_t version = max < wire->config.version_max ? max : wire->config.version_max;

    return version >= min && version >= wire->config.version_min ? version : 0;
}

/* --- the control plane's side --------------------------------------------------------------------------------------------------- */

static enum wire_verdict take_hello(struct wire *wire, const struct wire_frame *frame)
{
    const uint16_t version = common_version(wire, frame->body.hello.version_min, frame->body.hello.version_max);
    const struct wire_welcome welcome = {.epoch = wire->config.epoch, .lease_ms = wire->config.lease_ms,
                                         .version_min = wire->config.version_min, .version_max = wire->config.version_max};

    if (version == 0)
        return wire_take_broken(wire, WIRE_FAULT_VERSION);
    wire->state.version = version;
    if (wire->state.is_open)
        return WIRE_FRAME; /* an adopted one: WELCOME is on its way */
    wire->state.is_open = true;
    if (!wire->config.is_dead)
        check(wire_say(wire, WIRE_WELCOME, &welcome, 0, NULL, 0) == STATUS_OK);
    return WIRE_FRAME;
}

static enum wire_verdict take_must(struct wire *wire, const struct wire_frame *frame)
{
    const uint64_t seq = frame->header.seq;

    if ((frame->header.kind == WIRE_HELLO) != (seq == 1))
        return wire_take_broken(wire, WIRE_FAULT_SEQ);
    if (seq <= wire->state.seq) {
        wire->ack_owed |= seq <= wire->state.committed_seq && !wire->config.is_dead; /* it did not hear so */
        return drop(wire);
    }
    /* A control plane before this one took what is missing, and was killed: the worker resends it all. A dead one cannot. */
    if (seq != wire->state.seq + 1 && !wire->config.is_dead)
        return frame->header.ack == wire->config.epoch ? wire_take_broken(wire, WIRE_FAULT_SEQ) : drop(wire);
    wire->state.seq = seq;
    return frame->header.kind == WIRE_HELLO ? take_hello(wire, frame) : WIRE_FRAME;
}

static enum wire_verdict take_flow(struct wire *wire, const struct wire_frame *frame)
{
    struct stream *stream;
    enum status status;

    if (frame->header.kind == WIRE_TOKENS) {
        status = stream_spend(wire, &frame->body.tokens);
        if (status != STATUS_OK)
            return wire_take_broken(wire, status == STATUS_NOT_FOUND ? WIRE_FAULT_REQUEST : WIRE_FAULT_CREDIT);
        return WIRE_FRAME;
    }
    stream = stream_find(wire, frame->body.done.request);
    if (stream == NULL)
        return wire_take_broken(wire, WIRE_FAULT_REQUEST);
    stream_close(wire, stream);
    return WIRE_FRAME;
}

static enum wire_verdict take_from_worker(struct wire *wire, const struct wire_frame *frame, enum wire_class class)
{
    if (frame->header.ack > wire->config.epoch)
        return wire_take_broken(wire, WIRE_FAULT_ORDER); /* an epoch that nobody opened */
    if (!wire->state.is_open && frame->header.kind != WIRE_HELLO)
        return wire_take_broken(wire, WIRE_FAULT_ORDER);
    if (!is_of_any_version(frame->header.kind) && frame->header.ack == wire->config.epoch)
        wire->state.version = frame->header.version; /* an adopted one's: it speaks what it chose */
    if (class == WIRE_CLASS_MUST)
        return take_must(wire, frame);
    if (frame->header.ack != wire->config.epoch)
        return drop(wire);
    return class == WIRE_CLASS_FLOW ? take_flow(wire, frame) : WIRE_FRAME;
}

void wire_commit(struct wire *wire, uint64_t seq)
{
    check(is_control(wire));
    check(seq <= wire->state.seq);
    if (seq <= wire->state.committed_seq)
        return;
    wire->state.committed_seq = seq;
    wire->ack_owed = wire->state.fault == WIRE_FAULT_NONE && !wire->config.is_dead;
}

/* --- the worker's side ---------------------------------------------------------------------------------------------------------- */

static enum wire_verdict take_welcome(struct wire *wire, const struct wire_frame *frame, int64_t now_ns)
{
    const struct wire_welcome *welcome = &frame->body.welcome;
    const uint16_t version = common_version(wire, welcome->version_min, welcome->version_max);

    if (welcome->epoch < wire->state.epoch)
        return drop(wire); /* of one that was killed */
    if (version == 0)
        return wire_take_broken(wire, WIRE_FAULT_VERSION);
    wire->state.version = version;
    wire->state.epoch = welcome->epoch;
    wire->state.is_open = true;
    wire->config.lease_ms = welcome->lease_ms;
    wire->state.lease_until_ns = now_ns + (int64_t)welcome->lease_ms * NS_PER_MS;
    wire->state.beat_due_at_ns = now_ns;
    ring_rewind(&wire->kept);
    ring_clear(&wire->flow);
    streams_clear(wire);
    return WIRE_FRAME;
}

/* What is on disk over there is forgotten here. False: it names what was never sent. */
static bool take_ack(struct wire *wire, uint64_t ack)
{
    struct ring_record *record;

    if (ack > wire->state.seq)
        return false;
    while ((record = ring_oldest(&wire->kept)) != NULL && record->seq <= ack)
        ring_pop(&wire->kept);
    wire->state.committed_seq = max_u64(wire->state.committed_seq, ack);
    return true;
}

static enum wire_verdict take_from_control(struct wire *wire, const struct wire_frame *frame, int64_t now_ns)
{
    struct stream *stream;

    if (frame->header.kind == WIRE_KILL) {
        wire_fail(wire, WIRE_FAULT_KILLED);
        return WIRE_FRAME;
    }
    if (!wire->state.is_open && frame->header.kind != WIRE_WELCOME)
        return drop(wire);
    if (!take_ack(wire, frame->header.ack))
        return wire_take_broken(wire, WIRE_FAULT_SEQ);
    switch (frame->header.kind) {
    case WIRE_WELCOME:
        return take_welcome(wire, frame, now_ns);
    case WIRE_ACK:
        return WIRE_NOTHING;
    case WIRE_LEASE:
        wire->state.lease_until_ns = now_ns + (int64_t)frame->body.lease.lease_ms * NS_PER_MS;
        return WIRE_FRAME;
    case WIRE_REQUEST:
        if (!stream_open(wire, frame->body.request.request, frame->body.request.credit_tokens))
            return wire_take_broken(wire, WIRE_FAULT_REQUEST);
        return WIRE_FRAME;
    case WIRE_CREDIT:
        stream = stream_find(wire, frame->body.credit.request);
        if (stream == NULL)
            return drop(wire); /* its DONE is on the way */
        if (frame->body.credit.tokens > UINT32_MAX - stream->credit_tokens)
            return wire_take_broken(wire, WIRE_FAULT_CREDIT);
        stream->credit_tokens += frame->body.credit.tokens;
        return WIRE_FRAME;
    default:
        return WIRE_FRAME;
    }
}

enum wire_verdict wire_take(struct wire *wire, int64_t now_ns, const uint8_t *bytes, size_t count, uint32_t descriptors_count,
                            struct wire_frame *ret_frame)
{
    const struct wire_kind_info *info;
    enum wire_verdict verdict;
    enum wire_fault fault;
    struct wire_frame frame;

    if (wire->state.fault != WIRE_FAULT_NONE)
        return WIRE_OVER;
    if (wire_header_read(bytes, count, &frame.header) != STATUS_OK)
        return wire_take_broken(wire, WIRE_FAULT_LENGTH);
    if (frame.header.worker != wire->config.worker)
        return wire_take_broken(wire, WIRE_FAULT_WORKER);
    if (frame.header.attempt != wire->config.attempt)
        return wire_take_broken(wire, WIRE_FAULT_ATTEMPT);
    info = wire_kind_info(frame.header.kind);
    if (info == NULL)
        return answer_unsupported(wire, &frame.header);
    fault = judge_header(wire, &frame.header, info, descriptors_count);
    if (fault == WIRE_FAULT_NONE &&
        wire_body_read(frame.header.kind, bytes + WIRE_HEADER_BYTES, count - WIRE_HEADER_BYTES, &frame.body) != STATUS_OK)
        fault = WIRE_FAULT_BODY;
    if (fault != WIRE_FAULT_NONE)
        return wire_take_broken(wire, fault);
    wire->state.heard_at_ns = now_ns;
    verdict = is_control(wire) ? take_from_worker(wire, &frame, info->class) : take_from_control(wire, &frame, now_ns);
    if (verdict == WIRE_FRAME)
        *ret_frame = frame;
    return verdict;
}
