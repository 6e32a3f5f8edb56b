/* An end's memory, its requests' credit, its values; what leaves and comes is in say.c and take.c. */
#include "wire/internal.h"

#define QUEUE_BYTES (256u << 10)
#define LATEST_COUNT 64
#define REQUESTS_MAX 256
#define UNCOMMITTED_MAX 64

static const char *const faults[] = {
#define X(name, text) text,
    WIRE_FAULTS(X)
#undef X
};

const char *wire_fault_text(enum wire_fault fault)
{
    return faults[fault];
}

static uint32_t or_else(uint32_t value, uint32_t otherwise)
{
    return value != 0 ? value : otherwise;
}

static struct wire_config completed(const struct wire_config *config)
{
    struct wire_config full = *config;

    full.version_min = (uint16_t)or_else(full.version_min, WIRE_VERSION_MIN);
    full.version_max = (uint16_t)or_else(full.version_max, WIRE_VERSION_MAX);
    full.queue_bytes = (or_else(full.queue_bytes, QUEUE_BYTES) + 7) / 8 * 8;
    full.flow_bytes = (or_else(full.flow_bytes, QUEUE_BYTES) + 7) / 8 * 8;
    full.latest_count = or_else(full.latest_count, LATEST_COUNT);
    full.requests_max = or_else(full.requests_max, REQUESTS_MAX);
    full.uncommitted_max = or_else(full.uncommitted_max, UNCOMMITTED_MAX);
    return full;
}

static size_t rounded(size_t bytes)
{
    return (bytes + 7) / 8 * 8;
}

/* The control plane sends no flow. */
static uint32_t flow_bytes(const struct wire_config *config)
{
    return config->side == WIRE_SIDE_WORKER ? config->flow_bytes : 0;
}

size_t wire_bytes(const struct wire_config *config)
{
    const struct wire_config full = completed(config);

    return rounded(sizeof(struct wire)) + full.queue_bytes + flow_bytes(&full) + rounded(full.latest_count * sizeof(struct latest)) +
           rounded(full.requests_max * sizeof(struct stream)) + table_bytes(full.requests_max);
}

static void *carve(uint8_t **memory, size_t bytes)
{
    void *piece = *memory;

    *memory += rounded(bytes);
    return piece;
}

struct wire *wire_create(void *memory, size_t memory_bytes, const struct wire_config *config)
{
    const struct wire_config full = completed(config);
    uint8_t *at = memory;
    struct wire *wire = carve(&at, sizeof(*wire));

    check(memory_bytes >= wire_bytes(config));
    check(full.version_min <= full.version_max);
    check(full.queue_bytes >= WIRE_FRAME_BYTES_MAX + sizeof(struct ring_record));
    check(full.flow_bytes >= WIRE_FRAME_BYTES_MAX + sizeof(struct ring_record));
    check(full.side == WIRE_SIDE_WORKER || full.epoch > 0);
    memset(wire, 0, sizeof(*wire));
    wire->config = full;
    ring_init(&wire->kept, carve(&at, full.queue_bytes), full.queue_bytes);
    ring_init(&wire->flow, carve(&at, flow_bytes(&full)), flow_bytes(&full));
    wire->latest = carve(&at, full.latest_count * sizeof(struct latest));
    memset(wire->latest, 0, full.latest_count * sizeof(struct latest));
    wire->streams = carve(&at, full.requests_max * sizeof(struct stream));
    table_init(&wire->stream_of, at, full.requests_max);
    streams_clear(wire);
    wire->state.version = full.side == WIRE_SIDE_WORKER ? full.version_max : full.version_min;
    wire->state.beat_due_at_ns = NEVER_NS;
    wire->state.lease_until_ns = NEVER_NS;
    if (full.side == WIRE_SIDE_CONTROL) {
        wire->state.epoch = full.epoch;
        wire->state.seq = full.committed_seq;
        wire->state.committed_seq = full.committed_seq;
        wire->state.is_open = full.is_adopted || full.is_dead;
        if (full.is_adopted && !full.is_dead)
            check(wire_say(wire, WIRE_WELCOME, &(struct wire_welcome){.epoch = full.epoch, .lease_ms = full.lease_ms,
                  .version_min = full.version_min, .version_max = full.version_max}, 0, NULL, 0) == STATUS_OK);
    }
    return wire;
}

void wire_end(struct wire *wire)
{
    if (wire == NULL)
        return;
    ring_clear(&wire->kept);
    ring_clear(&wire->flow);
}

struct stream *stream_find(const struct wire *wire, uint64_t request)
{
    const uint32_t index = table_find(&wire->stream_of, request);

    return index != NONE_INDEX ? &wire->streams[index] : NULL;
}

bool stream_open(struct wire *wire, uint64_t request, uint32_t credit_tokens)
{
    const uint32_t index = wire->stream_free;

    if (index == NONE_INDEX || stream_find(wire, request) != NULL)
        return false;
    wire->stream_free = wire->streams[index].next_free;
    wire->streams[index] = (struct stream){.request = request, .credit_tokens = credit_tokens};
    table_insert(&wire->stream_of, request, index);
    return true;
}

void stream_close(struct wire *wire, struct stream *stream)
{
    table_remove(&wire->stream_of, stream->request);
    stream->next_free = wire->stream_free;
    wire->stream_free = (uint32_t)(stream - wire->streams);
}

void streams_clear(struct wire *wire)
{
    table_init(&wire->stream_of, wire->stream_of.cells, wire->config.requests_max);
    for (uint32_t i = 0; i < wire->config.requests_max; i++)
        wire->streams[i].next_free = i + 1 < wire->config.requests_max ? i + 1 : NONE_INDEX;
    wire->stream_free = 0;
}

enum status stream_spend(struct wire *wire, const struct wire_tokens *tokens)
{
    struct stream *stream = stream_find(wire, tokens->request);

    if (stream == NULL)
        return STATUS_NOT_FOUND;
    if (tokens->first_index != stream->next_index || tokens->tokens_count == 0)
        return STATUS_INVALID;
    if ((uint64_t)tokens->best_each * tokens->tokens_count != tokens->best_count)
        return STATUS_INVALID;
    if (tokens->tokens_count > stream->credit_tokens)
        return STATUS_FULL;
    stream->credit_tokens -= tokens->tokens_count;
    stream->next_index += tokens->tokens_count;
    return STATUS_OK;
}

bool wire_wants_input(const struct wire *wire)
{
    return wire->state.fault == WIRE_FAULT_NONE &&
           (!is_control(wire) || wire->state.seq - wire->state.committed_seq < wire->config.uncommitted_max);
}

struct wire_state wire_state(const struct wire *wire)
{
    struct wire_state state = wire->state;

    state.requests = wire->stream_of.count;
    return state;
}

uint32_t wire_credit(const struct wire *wire, uint64_t request)
{
    const struct stream *stream = stream_find(wire, request);

    return stream != NULL ? stream->credit_tokens : 0;
}
