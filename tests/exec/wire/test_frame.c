/* Frames: known bytes, every body back as it went in, every cut and lengthened body refused, mutations of all kinds. */
#include <stdio.h>

#include "support.h"

#define FUZZ_WIRE
#include "../../fuzz/fuzz_wire.c"

static const uint32_t kinds[] = {
#define X(number, name, body, from, class, descriptors) number,
    WIRE_KINDS(X)
#undef X
};

/* A body of `kind` with drawn bytes; returns its length. */
static size_t drawn_body(uint32_t kind, uint64_t *seed, uint8_t *ret_bytes, size_t room)
{
    uint8_t bytes[2048];
    union wire_body body;

    for (;;) { /* lists are short in the few draws whose count fits */
        size_t count = draw_below(seed, 300);

        for (size_t i = 0; i < count; i++)
            bytes[i] = (uint8_t)(draw_below(seed, 4) == 0 ? draw(seed) : draw_below(seed, 2));
        if (wire_body_read(kind, bytes, count, &body) == STATUS_OK) {
            size_t written = 0;

            assert_int_equal(wire_body_write(kind, &body, ret_bytes, room, &written), STATUS_OK);
            assert_int_equal(written, count);
            assert_memory_equal(ret_bytes, bytes, count);
            return count;
        }
    }
}

static void a_frame_has_these_bytes(void **state)
{
    static const uint8_t expected[] = {
        0x34, 0, 0, 0, 1, 0, 37, 0,   0, 0, 0, 0, 0, 0, 0, 0,  8, 7, 6, 5, 4, 3, 2, 1,   9, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0,
        0x11, 0x22, 0, 0, 0, 0, 0, 0, 0x00, 0x02, 0, 0};
    const struct wire_header header = {.length = sizeof(expected), .version = 1, .kind = WIRE_CREDIT, .ack = 0x0102030405060708, .worker = 9, .attempt = 2};
    uint8_t frame[64];
    struct wire_header read;
    size_t count = 0;

    (void)state;
    wire_header_write(&header, frame);
    assert_int_equal(wire_body_write(WIRE_CREDIT, &(struct wire_credit){.request = 0x2211, .tokens = 512}, frame + WIRE_HEADER_BYTES, 24, &count), STATUS_OK);
    assert_int_equal(count, 12);
    assert_memory_equal(frame, expected, sizeof(expected));
    assert_int_equal(wire_header_read(frame, sizeof(expected), &read), STATUS_OK);
    assert_memory_equal(&read, &header, sizeof(header));
    assert_int_equal(wire_header_read(frame, sizeof(expected) - 1, &read), STATUS_CORRUPT);
    assert_int_equal(wire_header_read(frame, WIRE_HEADER_BYTES - 1, &read), STATUS_CORRUPT);
}

static void every_body_comes_back_as_it_went_in_and_no_other_length_is_read(void **state)
{
    uint64_t seed = test_seed(11);

    (void)state;
    for (unsigned i = 0; i < ARRAY_COUNT(kinds); i++) {
        for (int round = 0; round < 4; round++) {
            uint8_t bytes[2048];
            union wire_body body;
            size_t again = 0;
            size_t count = drawn_body(kinds[i], &seed, bytes, sizeof(bytes));

            assert_int_equal(wire_body_read(kinds[i], bytes, count, &body), STATUS_OK);
            if (count > 0)
                assert_int_equal(wire_body_write(kinds[i], &body, bytes, count - 1, &again), STATUS_FULL);
            for (size_t cut = 0; cut < count; cut++) { /* a REST may be shorter; then what is read is no longer than what is there */
                if (wire_body_read(kinds[i], bytes, cut, &body) == STATUS_OK) {
                    assert_int_equal(wire_body_write(kinds[i], &body, bytes, cut, &again), STATUS_OK);
                    assert_int_equal(again, cut);
                }
            }
        }
    }
}

static void a_count_larger_than_the_frame_is_refused(void **state)
{
    uint8_t bytes[68] = {0};
    union wire_body body;

    (void)state;
    wire_put(bytes + 20, UINT32_MAX, 4);
    assert_int_equal(wire_body_read(WIRE_INVENTORY, bytes, sizeof(bytes), &body), STATUS_CORRUPT);
    wire_put(bytes + 20, 0x20000001, 4); /* times 8 is 8 in 32 bits */
    assert_int_equal(wire_body_read(WIRE_INVENTORY, bytes, sizeof(bytes), &body), STATUS_CORRUPT);
    wire_put(bytes + 20, 5, 4);
    assert_int_equal(wire_body_read(WIRE_INVENTORY, bytes, sizeof(bytes), &body), STATUS_OK);
    assert_int_equal(body.inventory.requests_count, 5);
    assert_int_equal(body.inventory.residents_count, 0);
    assert_int_equal(wire_body_read(31, bytes, sizeof(bytes), &body), STATUS_NOT_FOUND);
    assert_int_equal(wire_body_read(UINT32_MAX, bytes, sizeof(bytes), &body), STATUS_NOT_FOUND);
}

static void parts_come_back(void **state)
{
    struct wire_resident resident = {.digest = {1, 2}, .generation = 1ull << 40, .bytes = 77, .tier = 2};
    struct wire_resident read;
    uint8_t bytes[WIRE_RESIDENT_BYTES];

    (void)state;
    assert_int_equal(WIRE_RESIDENT_BYTES, 56);
    assert_int_equal(WIRE_GRANT_BYTES, 96);
    wire_resident_write(&resident, bytes);
    wire_resident_read(bytes, &read);
    assert_memory_equal(&read, &resident, sizeof(read));
}

static void any_bytes_come_to_nothing(void **state)
{
    static uint8_t bodies[ARRAY_COUNT(kinds)][8][300];
    static size_t counts[ARRAY_COUNT(kinds)][8];
    uint64_t seed = test_seed(5);

    (void)state;
    for (unsigned i = 0; i < ARRAY_COUNT(kinds); i++) {
        for (unsigned j = 0; j < 8; j++)
            counts[i][j] = drawn_body(kinds[i], &seed, bodies[i][j], sizeof(bodies[i][j]));
    }
    for (int round = 0; round < 20000; round++) {
        uint8_t bytes[1200];
        size_t count = 1;

        bytes[0] = (uint8_t)draw(&seed);
        while (count < sizeof(bytes) - 400 && draw_below(&seed, 8) != 0) {
            const uint64_t kind = draw_below(&seed, ARRAY_COUNT(kinds));
            const uint64_t which = draw_below(&seed, 8);
            const size_t body = counts[kind][which];
            uint8_t *frame = bytes + count + 2;

            memcpy(frame + WIRE_HEADER_BYTES, bodies[kind][which], body);
            wire_put(bytes + count, WIRE_HEADER_BYTES + body, 2);
            wire_header_write(&(struct wire_header){.length = (uint32_t)(WIRE_HEADER_BYTES + body), .version = 1, .kind = (uint16_t)kinds[kind],
                              .seq = draw_below(&seed, 4), .ack = draw_below(&seed, 7), .worker = 7, .attempt = 3}, frame);
            if (draw_below(&seed, 3) == 0)
                frame[draw_below(&seed, WIRE_HEADER_BYTES + body)] ^= (uint8_t)(1u << draw_below(&seed, 8));
            count += 2 + WIRE_HEADER_BYTES + body;
        }
        (void)LLVMFuzzerTestOneInput(bytes, count);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_frame_has_these_bytes),
        cmocka_unit_test(every_body_comes_back_as_it_went_in_and_no_other_length_is_read),
        cmocka_unit_test(a_count_larger_than_the_frame_is_refused),
        cmocka_unit_test(parts_come_back),
        cmocka_unit_test(any_bytes_come_to_nothing),
    };

    return cmocka_run_group_tests_name("frame", tests, NULL, NULL);
}
