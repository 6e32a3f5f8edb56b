/* Any bytes as frames of a worker, and as frames of a control plane: nothing but a verdict comes of them, and what is read as a body
 * is written again byte for byte. The first byte chooses; after it come frames, two bytes of length each, headers made sound or not.
 * Built for libFuzzer with FUZZ_WIRE defined; the test of frames calls the same function; everywhere else this file is empty. */
#ifdef FUZZ_WIRE

#include "wire/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_body(const uint8_t *frame, size_t count)
{
    static uint8_t again[WIRE_BODY_BYTES_MAX];
    struct wire_header header;
    union wire_body body;
    size_t again_count = 0;

    if (wire_header_read(frame, count, &header) != STATUS_OK ||
        wire_body_read(header.kind, frame + WIRE_HEADER_BYTES, count - WIRE_HEADER_BYTES, &body) != STATUS_OK)
        return;
    check(wire_body_write(header.kind, &body, again, sizeof(again), &again_count) == STATUS_OK);
    check(again_count == count - WIRE_HEADER_BYTES);
    check(memcmp(again, frame + WIRE_HEADER_BYTES, again_count) == 0);
}

/* What every header has; so that bytes reach what is behind it. */
static void mend(uint8_t *frame, size_t count, struct wire *wire)
{
    wire_put(frame, count, 4);
    wire_put(frame + 4, 1, 2);
    wire_put(frame + 16, wire->state.epoch, 8);
    wire_put(frame + 24, 7, 8);
    wire_put(frame + 32, 3, 8);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint64_t memory[(2u << 20) / 8];
    static uint8_t frame[512];
    const bool is_worker = size > 0 && (data[0] & 1) != 0;
    const bool is_mended = size > 0 && (data[0] & 2) != 0;
    const struct wire_config config = {.side = is_worker ? WIRE_SIDE_WORKER : WIRE_SIDE_CONTROL, .worker = 7, .attempt = 3, .epoch = 5,
                                       .lease_ms = 100, .is_adopted = size > 0 && (data[0] & 4) != 0, .requests_max = 4};
    struct wire *wire = wire_create(memory, sizeof(memory), &config);
    struct wire_frame taken;
    struct wire_out out;
    size_t at = 1;

    while (at + 2 <= size) {
        size_t count = min_u64(wire_get(data + at, 2) % sizeof(frame), size - at - 2);

        memcpy(frame, data + at + 2, count);
        at += 2 + count;
        if (is_mended && count >= WIRE_HEADER_BYTES)
            mend(frame, count, wire);
        check_body(frame, count);
        if (wire_take(wire, 1, frame, count, 0, &taken) == WIRE_FRAME && !is_worker)
            wire_commit(wire, wire->state.seq);
        while (wire_next(wire, &out))
            wire_sent(wire, 2);
    }
    wire_end(wire);
    return 0;
}

#endif
