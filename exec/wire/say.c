/* What an end says: what waits where, and which of it leaves next. */
#define _DEFAULT_SOURCE /* explicit_bzero */
#include <string.h>

#include "wire/internal.h"

static struct latest *latest_find(struct wire *wire, uint32_t kind, uint64_t key)
{
    struct latest *free_one = NULL;

    for (uint32_t i = 0; i < wire->config.latest_count; i++) {
        struct latest *latest = &wire->latest[i];

        if (latest->ordinal != 0 && latest->kind == kind && latest->key == key)
            return latest;
        if (latest->ordinal == 0 && free_one == NULL)
            free_one = latest;
    }
    return free_one;
}

enum status latest_put(struct wire *wire, uint32_t kind, uint64_t key, const void *body)
{
    struct latest *latest = latest_find(wire, kind, key);
    uint8_t bytes[LATEST_BYTES_MAX];
    size_t count = 0;
    enum status status = latest != NULL ? wire_body_write(kind, body, bytes, sizeof(bytes), &count) : STATUS_FULL;

    if (status != STATUS_OK)
        return status;
    latest->kind = kind;
    latest->key = key;
    latest->bytes = (uint32_t)count;
    memcpy(latest->body, bytes, count);
    if (latest->ordinal == 0) {
        latest->ordinal = ++wire->ordinal;
        wire->latest_waiting++;
    }
    return STATUS_OK;
}

static enum status say_flow(struct wire *wire, enum wire_kind kind, const void *body)
{
    const struct wire_tokens *tokens = body;
    struct stream *stream = stream_find(wire, kind == WIRE_TOKENS ? tokens->request : ((const struct wire_done *)body)->request);
    const struct stream before = stream != NULL ? *stream : (struct stream){0};
    enum status status = stream != NULL ? STATUS_OK : STATUS_NOT_FOUND;

    if (status == STATUS_OK && kind == WIRE_TOKENS)
        status = stream_spend(wire, tokens);
    if (status != STATUS_OK)
        return status;
    status = ring_push(&wire->flow, kind, 0, body, NULL, 0);
    if (status != STATUS_OK)
        *stream = before;
    else if (kind == WIRE_DONE)
        stream_close(wire, stream);
    return status;
}

/* The control plane's words change what it expects of the worker; false: they may not be said now. */
static enum status expect(struct wire *wire, enum wire_kind kind, const void *body)
{
    const struct wire_request *request = body;
    const struct wire_credit *credit = body;
    struct stream *stream;

    switch ((int)kind) {
    case WIRE_REQUEST:
        return stream_open(wire, request->request, request->credit_tokens) ? STATUS_OK : STATUS_FULL;
    case WIRE_CREDIT:
        stream = stream_find(wire, credit->request);
        if (stream == NULL)
            return STATUS_NOT_FOUND;
        if (credit->tokens > UINT32_MAX - stream->credit_tokens)
            return STATUS_INVALID;
        stream->credit_tokens += credit->tokens;
        return STATUS_OK;
    case WIRE_ABORT:
        return stream_find(wire, ((const struct wire_abort *)body)->request) != NULL ? STATUS_OK : STATUS_NOT_FOUND;
    default:
        return STATUS_OK;
    }
}

static void expect_not(struct wire *wire, enum wire_kind kind, const void *body)
{
    if (kind == WIRE_REQUEST)
        stream_close(wire, stream_find(wire, ((const struct wire_request *)body)->request));
    else if (kind == WIRE_CREDIT)
        stream_find(wire, ((const struct wire_credit *)body)->request)->credit_tokens -= ((const struct wire_credit *)body)->tokens;
}

static enum status say_once(struct wire *wire, enum wire_kind kind, const void *body, const int *descriptors, uint32_t count)
{
    enum status status = expect(wire, kind, body);

    if (status != STATUS_OK)
        return status;
    status = ring_push(&wire->kept, kind, 0, body, descriptors, count);
    if (status != STATUS_OK)
        expect_not(wire, kind, body);
    return status;
}

enum status wire_say(struct wire *wire, enum wire_kind kind, const void *body, uint64_t key, const int *descriptors, uint32_t descriptors_count)
{
    const struct wire_kind_info *info = wire_kind_info(kind);
    enum status status;

    if (info == NULL || info->from != (is_control(wire) ? WIRE_FROM_CONTROL : WIRE_FROM_WORKER) || descriptors_count > info->descriptors_max)
        return STATUS_INVALID;
    if (wire->state.fault != WIRE_FAULT_NONE || wire->config.is_dead)
        return STATUS_END;
    if (is_control(wire) && !wire->state.is_open)
        return STATUS_INVALID; /* the worker would drop what comes before WELCOME */
    switch (info->class) {
    case WIRE_CLASS_LATEST:
        return latest_put(wire, kind, key, body);
    case WIRE_CLASS_FLOW:
        return say_flow(wire, kind, body);
    case WIRE_CLASS_ONCE:
        return say_once(wire, kind, body, descriptors, descriptors_count);
    case WIRE_CLASS_MUST:
        if ((kind == WIRE_HELLO) != (wire->state.seq == 0))
            return STATUS_INVALID; /* HELLO is the first, and there is one */
        status = ring_push(&wire->kept, kind, wire->state.seq + 1, body, NULL, 0);
        wire->state.seq += status == STATUS_OK;
        return status;
    }
    return STATUS_INVALID;
}

void wire_fail(struct wire *wire, enum wire_fault fault)
{
    if (wire->state.fault != WIRE_FAULT_NONE)
        return;
    ring_clear(&wire->kept);
    ring_clear(&wire->flow);
    for (uint32_t i = 0; i < wire->config.latest_count; i++)
        wire->latest[i].ordinal = 0;
    wire->latest_waiting = 0;
    streams_clear(wire);
    wire->ack_owed = false;
    wire->out = OUT_NONE;
    if (is_control(wire) && !wire->config.is_dead)
        check(ring_push(&wire->kept, WIRE_KILL, 0, &(struct wire_kill){.why = fault}, NULL, 0) == STATUS_OK);
    wire->state.fault = fault;
    wire->state.beat_due_at_ns = NEVER_NS;
}

static struct latest *latest_first(const struct wire *wire)
{
    struct latest *first = NULL;

    if (wire->latest_waiting == 0)
        return NULL;
    for (uint32_t i = 0; i < wire->config.latest_count; i++) {
        if (wire->latest[i].ordinal != 0 && (first == NULL || wire->latest[i].ordinal < first->ordinal))
            first = &wire->latest[i];
    }
    return first;
}

/* Kept first, then the latest, then flow, which is the most and can wait. A worker that was not welcomed says HELLO alone. */
static bool choose(struct wire *wire, uint32_t *ret_kind, uint64_t *ret_seq, struct wire_out *ret_out)
{
    const bool may_all = is_control(wire) || wire->state.is_open;
    struct ring_record *record = ring_unsent(&wire->kept);

    wire->out = OUT_NONE;
    if (record != NULL && (may_all || record->kind == WIRE_HELLO)) {
        wire->out = OUT_KEPT;
    } else if (may_all && (wire->out_latest = latest_first(wire)) != NULL) {
        wire->out = OUT_LATEST;
        *ret_kind = wire->out_latest->kind;
        ret_out->body = wire->out_latest->body;
        ret_out->body_bytes = wire->out_latest->bytes;
    } else if (may_all && (record = ring_unsent(&wire->flow)) != NULL) {
        wire->out = OUT_FLOW;
    } else if (wire->ack_owed) {
        wire->out = OUT_ACK;
        *ret_kind = WIRE_ACK;
        ret_out->body = wire->out_ack_body;
        ret_out->body_bytes = sizeof(wire->out_ack_body);
    }
    if (wire->out == OUT_KEPT || wire->out == OUT_FLOW) {
        *ret_kind = record->kind;
        *ret_seq = record->seq;
        ret_out->body = ring_body(record);
        ret_out->body_bytes = record->bytes;
        ret_out->descriptors = record->descriptors;
        ret_out->descriptors_count = record->descriptors_count;
    }
    return wire->out != OUT_NONE;
}

bool wire_next(struct wire *wire, struct wire_out *ret_out)
{
    struct wire_header header = {.version = wire->state.version, .worker = wire->config.worker, .attempt = wire->config.attempt};
    struct wire_out out = {.header = wire->out_header};
    uint32_t kind = 0;

    if (!choose(wire, &kind, &header.seq, &out))
        return false;
    header.kind = (uint16_t)kind;
    header.length = WIRE_HEADER_BYTES + out.body_bytes;
    header.ack = is_control(wire) ? wire->state.committed_seq : wire->state.epoch;
    wire_header_write(&header, wire->out_header);
    *ret_out = out;
    return true;
}

void wire_sent(struct wire *wire, int64_t now_ns)
{
    check(wire->out != OUT_NONE);
    if (wire->out == OUT_KEPT && is_control(wire)) {
        ring_pop(&wire->kept);
    } else if (wire->out == OUT_KEPT) {
        ring_advance(&wire->kept);
    } else if (wire->out == OUT_FLOW) {
        ring_pop(&wire->flow);
    } else if (wire->out == OUT_LATEST) {
        wire->out_latest->ordinal = 0;
        wire->latest_waiting--;
    }
    wire->ack_owed = false;
    wire->out = OUT_NONE;
    if (wire->state.is_open && wire->config.lease_ms > 0 && wire->state.fault == WIRE_FAULT_NONE)
        wire->state.beat_due_at_ns = now_ns + (int64_t)wire->config.lease_ms * NS_PER_MS / 3;
}
