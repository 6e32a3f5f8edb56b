/* Both ends of a talk without a socket: rules one by one; then control planes that are killed at random moments, over and over, while
 * a worker goes on: each `must` frame is committed once and in order, whatever was read and lost. */
#include <stdio.h>
#include <stdlib.h>

#include "support.h"
#include "wire/wire.h"

#define WORKER 7
#define ATTEMPT 3

/* What is under way one way: frames in order, bounded like a socket. */
struct pipe {
    uint8_t frames[64][512];
    uint32_t counts[64];
    uint32_t first;
    uint32_t count;
};

static struct pipe to_control;
static struct pipe to_worker;
static struct wire *worker;
static struct wire *control;

static struct wire *made(struct wire_config config)
{
    const size_t bytes = wire_bytes(&config);

    return wire_create(malloc(bytes), bytes, &config);
}

static void unmade(struct wire **wire)
{
    wire_end(*wire);
    free(*wire);
    *wire = NULL;
}

static void worker_begin(void)
{
    worker = made((struct wire_config){.side = WIRE_SIDE_WORKER, .worker = WORKER, .attempt = ATTEMPT, .requests_max = 4, .latest_count = 4});
    assert_int_equal(wire_say(worker, WIRE_HELLO, &(struct wire_hello){.version_min = 1, .version_max = 1}, 0, NULL, 0), STATUS_OK);
}

static void control_begin(uint64_t epoch, uint64_t committed_seq, bool is_adopted)
{
    control = made((struct wire_config){.side = WIRE_SIDE_CONTROL, .worker = WORKER, .attempt = ATTEMPT, .epoch = epoch, .lease_ms = 300,
                   .committed_seq = committed_seq, .is_adopted = is_adopted, .requests_max = 4, .uncommitted_max = 8});
}

/* Up to `frames` of them; returns how many went. */
static uint32_t move(struct wire *from, struct pipe *pipe, uint32_t frames)
{
    uint32_t moved = 0;
    struct wire_out out;

    while (moved < frames && pipe->count < ARRAY_COUNT(pipe->frames) && wire_next(from, &out)) {
        const uint32_t at = (pipe->first + pipe->count++) % ARRAY_COUNT(pipe->frames);

        assert_true(WIRE_HEADER_BYTES + out.body_bytes <= sizeof(pipe->frames[0]));
        memcpy(pipe->frames[at], out.header, WIRE_HEADER_BYTES);
        memcpy(pipe->frames[at] + WIRE_HEADER_BYTES, out.body, out.body_bytes);
        pipe->counts[at] = WIRE_HEADER_BYTES + out.body_bytes;
        wire_sent(from, 1);
        moved++;
    }
    return moved;
}

static enum wire_verdict take(struct pipe *pipe, struct wire *to, struct wire_frame *ret_frame)
{
    static uint8_t bytes[512];
    const uint32_t at = pipe->first;

    assert_true(pipe->count > 0);
    pipe->first = (pipe->first + 1) % ARRAY_COUNT(pipe->frames);
    pipe->count--;
    memcpy(bytes, pipe->frames[at], pipe->counts[at]);
    return wire_take(to, 5, bytes, pipe->counts[at], 0, ret_frame);
}

static void expect(struct pipe *pipe, struct wire *to, enum wire_kind kind, struct wire_frame *ret_frame)
{
    assert_int_equal(take(pipe, to, ret_frame), WIRE_FRAME);
    assert_int_equal(ret_frame->header.kind, kind);
}

/* HELLO, WELCOME, and HELLO committed. */
static void greet(void)
{
    struct wire_frame frame;

    worker_begin();
    control_begin(1, 0, false);
    assert_int_equal(move(worker, &to_control, 9), 1);
    expect(&to_control, control, WIRE_HELLO, &frame);
    wire_commit(control, 1);
    assert_int_equal(move(control, &to_worker, 9), 1);
    expect(&to_worker, worker, WIRE_WELCOME, &frame);
    assert_int_equal(wire_state(worker).committed_seq, 1);
}

static int begin(void **state)
{
    (void)state;
    memset(&to_control, 0, sizeof(to_control));
    memset(&to_worker, 0, sizeof(to_worker));
    return 0;
}

static int finish(void **state)
{
    (void)state;
    unmade(&worker);
    unmade(&control);
    return 0;
}

static struct wire_usage usage(uint64_t request)
{
    return (struct wire_usage){.request = request, .output_tokens = (uint32_t)request * 3, .account = (const uint8_t *)"acme", .account_count = 4};
}

static enum status say_usage(uint64_t request)
{
    const struct wire_usage body = usage(request);

    return wire_say(worker, WIRE_USAGE, &body, 0, NULL, 0);
}

static void nothing_is_said_before_a_welcome(void **state)
{
    struct wire_frame frame;

    (void)state;
    worker_begin();
    control_begin(1, 0, false);
    assert_int_equal(wire_say(control, WIRE_DRAIN, &(struct wire_drain){.deadline_ms = 1}, 0, NULL, 0), STATUS_INVALID);
    assert_int_equal(say_usage(1), STATUS_OK);
    assert_int_equal(wire_say(worker, WIRE_BEAT, &(struct wire_beat){.running = 1}, 0, NULL, 0), STATUS_OK);
    assert_int_equal(move(worker, &to_control, 9), 1); /* HELLO alone */
    expect(&to_control, control, WIRE_HELLO, &frame);
    assert_int_equal(move(control, &to_worker, 9), 1);
    assert_int_equal(wire_state(worker).beat_due_at_ns, NEVER_NS);
    expect(&to_worker, worker, WIRE_WELCOME, &frame);
    assert_int_equal(frame.body.welcome.lease_ms, 300);
    assert_int_equal(wire_state(worker).lease_until_ns, 5 + 300 * NS_PER_MS);
    assert_int_equal(move(worker, &to_control, 9), 3); /* HELLO again, USAGE, BEAT */
    assert_int_equal(take(&to_control, control, &frame), WIRE_NOTHING);
    expect(&to_control, control, WIRE_USAGE, &frame);
    assert_int_equal(frame.header.seq, 2);
    assert_memory_equal(frame.body.usage.account, "acme", 4);
    expect(&to_control, control, WIRE_BEAT, &frame);
    assert_int_equal(frame.header.seq, 0);
}

static void what_is_committed_is_acked_and_forgotten(void **state)
{
    struct wire_frame frame;

    (void)state;
    greet();
    assert_int_equal(say_usage(1), STATUS_OK);
    assert_int_equal(say_usage(2), STATUS_OK);
    assert_int_equal(move(worker, &to_control, 9), 2);
    expect(&to_control, control, WIRE_USAGE, &frame);
    expect(&to_control, control, WIRE_USAGE, &frame);
    assert_int_equal(move(control, &to_worker, 9), 0); /* taken is not committed */
    wire_commit(control, 3);
    assert_int_equal(move(control, &to_worker, 9), 1);
    assert_int_equal(take(&to_worker, worker, &frame), WIRE_NOTHING);
    assert_int_equal(wire_state(worker).committed_seq, 3);
    assert_int_equal(move(control, &to_worker, 9), 0);
}

static void a_new_control_plane_hears_again_what_was_not_committed(void **state)
{
    struct wire_frame frame;

    (void)state;
    greet();
    for (uint64_t i = 1; i <= 4; i++)
        assert_int_equal(say_usage(i), STATUS_OK);
    assert_int_equal(move(worker, &to_control, 9), 4);
    expect(&to_control, control, WIRE_USAGE, &frame);
    expect(&to_control, control, WIRE_USAGE, &frame);
    unmade(&control); /* two read, one of them on disk */
    control_begin(2, 2, true);
    assert_int_equal(take(&to_control, control, &frame), WIRE_NOTHING); /* 4: 3 is missing */
    assert_int_equal(take(&to_control, control, &frame), WIRE_NOTHING);
    assert_int_equal(move(control, &to_worker, 9), 1);
    expect(&to_worker, worker, WIRE_WELCOME, &frame);
    assert_int_equal(move(worker, &to_control, 9), 3);
    for (uint64_t i = 2; i <= 4; i++) {
        expect(&to_control, control, WIRE_USAGE, &frame);
        assert_int_equal(frame.body.usage.request, i);
        assert_int_equal(frame.header.seq, i + 1);
    }
}

static void what_a_dead_worker_left_is_taken(void **state)
{
    struct wire_frame frame;

    (void)state;
    greet();
    for (uint64_t i = 1; i <= 4; i++)
        assert_int_equal(say_usage(i), STATUS_OK);
    assert_int_equal(move(worker, &to_control, 9), 4);
    expect(&to_control, control, WIRE_USAGE, &frame);
    unmade(&control);
    control = made((struct wire_config){.side = WIRE_SIDE_CONTROL, .worker = WORKER, .attempt = ATTEMPT, .epoch = 2, .committed_seq = 1, .is_dead = true});
    for (uint64_t i = 2; i <= 4; i++) {
        expect(&to_control, control, WIRE_USAGE, &frame);
        assert_int_equal(frame.body.usage.request, i);
    }
    wire_commit(control, 5);
    assert_int_equal(move(control, &to_worker, 9), 0);
}

static void a_control_plane_of_the_past_is_not_heard(void **state)
{
    struct wire_frame frame;

    (void)state;
    greet();
    unmade(&control);
    control_begin(9, 1, true);
    assert_int_equal(move(control, &to_worker, 9), 1);
    expect(&to_worker, worker, WIRE_WELCOME, &frame);
    unmade(&control);
    control_begin(8, 1, true);
    assert_int_equal(move(control, &to_worker, 9), 1);
    assert_int_equal(take(&to_worker, worker, &frame), WIRE_NOTHING);
    assert_int_equal(wire_state(worker).epoch, 9);
}

static void a_full_queue_takes_nothing_and_goes_on_after_acks(void **state)
{
    uint64_t said = 0;
    uint64_t taken = 0;
    struct wire_frame frame;

    (void)state;
    greet();
    while (say_usage(said + 1) == STATUS_OK)
        said++;
    assert_true(said > 1000);
    assert_int_equal(wire_state(worker).seq, said + 1);
    while (taken < said) {
        (void)move(worker, &to_control, 64);
        while (to_control.count > 0 && wire_wants_input(control)) {
            expect(&to_control, control, WIRE_USAGE, &frame);
            assert_int_equal(frame.body.usage.request, ++taken);
        }
        assert_true(wire_state(control).seq - wire_state(control).committed_seq <= 8);
        wire_commit(control, wire_state(control).seq);
        (void)move(control, &to_worker, 9);
        while (to_worker.count > 0)
            assert_int_equal(take(&to_worker, worker, &frame), WIRE_NOTHING);
    }
    assert_int_equal(say_usage(said + 1), STATUS_OK);
}

static void newer_ones_replace_what_waits(void **state)
{
    struct wire_frame frame;
    struct wire_residency residency = {.generation = 1};

    (void)state;
    greet();
    for (uint32_t i = 1; i <= 5; i++)
        assert_int_equal(wire_say(worker, WIRE_BEAT, &(struct wire_beat){.waiting = i}, 0, NULL, 0), STATUS_OK);
    for (uint64_t key = 0; key < 3; key++) {
        residency.digest[0] = (uint8_t)key;
        assert_int_equal(wire_say(worker, WIRE_RESIDENCY, &residency, key, NULL, 0), STATUS_OK);
    }
    assert_int_equal(wire_say(worker, WIRE_RESIDENCY, &residency, 3, NULL, 0), STATUS_FULL); /* 4 may wait */
    residency.generation = 2;
    assert_int_equal(wire_say(worker, WIRE_RESIDENCY, &residency, 1, NULL, 0), STATUS_OK);
    assert_int_equal(move(worker, &to_control, 9), 4);
    expect(&to_control, control, WIRE_BEAT, &frame);
    assert_int_equal(frame.body.beat.waiting, 5);
    for (uint64_t key = 0; key < 3; key++) {
        expect(&to_control, control, WIRE_RESIDENCY, &frame);
        assert_int_equal(frame.body.residency.generation, key == 1 ? 2 : 1);
    }
    assert_int_equal(wire_say(worker, WIRE_RESIDENCY, &residency, 3, NULL, 0), STATUS_OK);
}

static enum status say_tokens(uint64_t request, uint32_t first_index, uint32_t count)
{
    static const uint8_t tokens[64 * WIRE_TOKEN_BYTES];

    return wire_say(worker, WIRE_TOKENS, &(struct wire_tokens){.request = request, .first_index = first_index, .tokens = tokens, .tokens_count = count}, 0, NULL, 0);
}

static enum status ask(uint64_t request, uint32_t credit)
{
    return wire_say(control, WIRE_REQUEST, &(struct wire_request){.request = request, .credit_tokens = credit, .max_tokens = 99}, 0, NULL, 0);
}

static void tokens_are_bounded_by_credit(void **state)
{
    struct wire_frame frame;

    (void)state;
    greet();
    assert_int_equal(say_tokens(4, 0, 1), STATUS_NOT_FOUND);
    assert_int_equal(ask(4, 3), STATUS_OK);
    assert_int_equal(ask(4, 3), STATUS_FULL);
    (void)move(control, &to_worker, 9);
    expect(&to_worker, worker, WIRE_REQUEST, &frame);
    assert_int_equal(wire_credit(worker, 4), 3);
    assert_int_equal(say_tokens(4, 1, 1), STATUS_INVALID);
    assert_int_equal(say_tokens(4, 0, 4), STATUS_FULL);
    assert_int_equal(say_tokens(4, 0, 2), STATUS_OK);
    assert_int_equal(say_tokens(4, 2, 2), STATUS_FULL);
    assert_int_equal(wire_say(control, WIRE_CREDIT, &(struct wire_credit){.request = 4, .tokens = 1}, 0, NULL, 0), STATUS_OK);
    (void)move(control, &to_worker, 9);
    expect(&to_worker, worker, WIRE_CREDIT, &frame);
    assert_int_equal(say_tokens(4, 2, 2), STATUS_OK);
    assert_int_equal(wire_say(worker, WIRE_DONE, &(struct wire_done){.request = 4}, 0, NULL, 0), STATUS_OK);
    assert_int_equal(say_tokens(4, 4, 1), STATUS_NOT_FOUND);
    assert_int_equal(move(worker, &to_control, 9), 3);
    expect(&to_control, control, WIRE_TOKENS, &frame);
    expect(&to_control, control, WIRE_TOKENS, &frame);
    assert_int_equal(wire_credit(control, 4), 0);
    expect(&to_control, control, WIRE_DONE, &frame);
    assert_int_equal(wire_state(control).requests, 0);
    for (uint64_t request = 10; request < 14; request++)
        assert_int_equal(ask(request, 1), STATUS_OK);
    assert_int_equal(ask(14, 1), STATUS_FULL);
}

static void a_new_control_plane_ends_the_requests_of_the_one_before(void **state)
{
    struct wire_frame frame;

    (void)state;
    greet();
    assert_int_equal(ask(4, 9), STATUS_OK);
    (void)move(control, &to_worker, 9);
    expect(&to_worker, worker, WIRE_REQUEST, &frame);
    assert_int_equal(say_tokens(4, 0, 2), STATUS_OK);
    (void)move(worker, &to_control, 9);
    assert_int_equal(say_tokens(4, 2, 2), STATUS_OK);
    unmade(&control);
    control_begin(2, 1, true);
    assert_int_equal(take(&to_control, control, &frame), WIRE_NOTHING); /* tokens for nobody */
    (void)move(control, &to_worker, 9);
    expect(&to_worker, worker, WIRE_WELCOME, &frame);
    assert_int_equal(say_tokens(4, 4, 1), STATUS_NOT_FOUND);
    assert_int_equal(move(worker, &to_control, 9), 0);
    assert_int_equal(wire_state(worker).requests, 0);
}

static void leases_and_beats_are_values(void **state)
{
    struct wire_frame frame;

    (void)state;
    greet(); /* WELCOME was sent at 1 and taken at 5; its lease is 300 ms */
    assert_int_equal(wire_state(control).beat_due_at_ns, 1 + 100 * NS_PER_MS);
    assert_int_equal(wire_state(control).heard_at_ns, 5);
    assert_int_equal(wire_state(worker).beat_due_at_ns, 5);
    assert_int_equal(wire_state(worker).lease_until_ns, 5 + 300 * NS_PER_MS);
    assert_int_equal(wire_say(worker, WIRE_BEAT, &(struct wire_beat){.running = 1}, 0, NULL, 0), STATUS_OK);
    assert_int_equal(move(worker, &to_control, 9), 1);
    assert_int_equal(wire_state(worker).beat_due_at_ns, 1 + 100 * NS_PER_MS);
    assert_int_equal(wire_say(control, WIRE_LEASE, &(struct wire_lease){.lease_ms = 900}, 0, NULL, 0), STATUS_OK);
    assert_int_equal(move(control, &to_worker, 9), 1);
    expect(&to_worker, worker, WIRE_LEASE, &frame);
    assert_int_equal(wire_state(worker).lease_until_ns, 5 + 900 * NS_PER_MS);
}

/* Bytes of a worker that was taken over. */
static enum wire_fault fault_of(struct wire_header header, const void *body)
{
    uint8_t bytes[512];
    size_t count = 0;
    struct wire_frame frame;
    struct wire_out out;

    greet();
    assert_int_equal(ask(4, 3), STATUS_OK);
    (void)move(control, &to_worker, 9);
    assert_int_equal(wire_body_write(header.kind, body, bytes + WIRE_HEADER_BYTES, sizeof(bytes) - WIRE_HEADER_BYTES, &count), STATUS_OK);
    header.length = (uint32_t)(WIRE_HEADER_BYTES + count);
    wire_header_write(&header, bytes);
    assert_int_equal(wire_take(control, 5, bytes, header.length, 0, &frame), WIRE_OVER);
    /* KILL, and then silence. */
    memset(&to_worker, 0, sizeof(to_worker));
    assert_int_equal(move(control, &to_worker, 9), 1);
    assert_false(wire_next(control, &out));
    assert_int_equal(ask(5, 1), STATUS_END);
    expect(&to_worker, worker, WIRE_KILL, &frame);
    assert_int_equal(frame.body.kill.why, wire_state(control).fault);
    assert_int_equal(wire_state(worker).fault, WIRE_FAULT_KILLED);
    assert_int_equal(wire_take(control, 5, bytes, header.length, 0, &frame), WIRE_OVER);
    {
        const enum wire_fault fault = wire_state(control).fault;

        unmade(&worker);
        unmade(&control);
        return fault;
    }
}

static void what_breaks_a_rule_is_answered_kill(void **state)
{
    static const uint8_t tokens[4 * WIRE_TOKEN_BYTES];
    const struct wire_beat beat = {.running = 1};
    const struct wire_usage body = usage(1);
    const struct wire_header sound = {.version = 1, .kind = WIRE_BEAT, .ack = 1, .worker = WORKER, .attempt = ATTEMPT};
    struct wire_header header = sound;
    struct wire_tokens said = {.request = 4, .tokens = tokens, .tokens_count = 4};

    (void)state;
    header.worker = WORKER + 1;
    assert_int_equal(fault_of(header, &beat), WIRE_FAULT_WORKER);
    header = sound;
    header.attempt = ATTEMPT - 1;
    assert_int_equal(fault_of(header, &beat), WIRE_FAULT_ATTEMPT);
    header = sound;
    header.version = 2;
    assert_int_equal(fault_of(header, &beat), WIRE_FAULT_VERSION);
    header = sound;
    header.ack = 2;
    assert_int_equal(fault_of(header, &beat), WIRE_FAULT_ORDER);
    header = sound;
    header.seq = 5;
    assert_int_equal(fault_of(header, &beat), WIRE_FAULT_SEQ);
    header.kind = WIRE_USAGE;
    assert_int_equal(fault_of(header, &body), WIRE_FAULT_SEQ);
    header.seq = 0;
    assert_int_equal(fault_of(header, &body), WIRE_FAULT_SEQ);
    header = sound;
    header.kind = WIRE_DRAIN;
    assert_int_equal(fault_of(header, &(struct wire_drain){.deadline_ms = 1}), WIRE_FAULT_SIDE);
    header.kind = WIRE_TOKENS;
    assert_int_equal(fault_of(header, &said), WIRE_FAULT_CREDIT);
    said.tokens_count = 3;
    said.first_index = 1;
    assert_int_equal(fault_of(header, &said), WIRE_FAULT_CREDIT);
    said.first_index = 0;
    said.best_each = UINT32_MAX;
    assert_int_equal(fault_of(header, &said), WIRE_FAULT_CREDIT);
    said.request = 5;
    assert_int_equal(fault_of(header, &said), WIRE_FAULT_REQUEST);
    header.kind = WIRE_DONE;
    assert_int_equal(fault_of(header, &(struct wire_done){.request = 5}), WIRE_FAULT_REQUEST);
    worker_begin();
    control_begin(1, 0, false);
}

static void versions_meet_or_the_talk_is_over(void **state)
{
    struct wire_frame frame;

    (void)state;
    worker = made((struct wire_config){.side = WIRE_SIDE_WORKER, .worker = WORKER, .attempt = ATTEMPT, .version_min = 1, .version_max = 2});
    control = made((struct wire_config){.side = WIRE_SIDE_CONTROL, .worker = WORKER, .attempt = ATTEMPT, .epoch = 1, .version_min = 2, .version_max = 3});
    assert_int_equal(wire_say(worker, WIRE_HELLO, &(struct wire_hello){.version_min = 1, .version_max = 2}, 0, NULL, 0), STATUS_OK);
    (void)move(worker, &to_control, 9);
    expect(&to_control, control, WIRE_HELLO, &frame);
    (void)move(control, &to_worker, 9);
    expect(&to_worker, worker, WIRE_WELCOME, &frame);
    assert_int_equal(wire_state(worker).version, 2);
    assert_int_equal(wire_state(control).version, 2);
    unmade(&worker);
    unmade(&control);
    worker_begin(); /* 1 alone */
    control = made((struct wire_config){.side = WIRE_SIDE_CONTROL, .worker = WORKER, .attempt = ATTEMPT, .epoch = 1, .version_min = 2, .version_max = 3});
    (void)move(worker, &to_control, 9);
    assert_int_equal(take(&to_control, control, &frame), WIRE_OVER);
    assert_int_equal(wire_state(control).fault, WIRE_FAULT_VERSION);
    (void)move(control, &to_worker, 9);
    expect(&to_worker, worker, WIRE_KILL, &frame);
}

static void an_unknown_kind_is_answered_unsupported(void **state)
{
    uint8_t bytes[WIRE_HEADER_BYTES];
    struct wire_header header = {.length = sizeof(bytes), .version = 1, .ack = 1, .worker = WORKER, .attempt = ATTEMPT};
    struct wire_frame frame;

    (void)state;
    greet();
    for (uint32_t i = 0; i < 100; i++) {
        header.kind = (uint16_t)(1000 + i);
        wire_header_write(&header, bytes);
        assert_int_equal(wire_take(control, 5, bytes, sizeof(bytes), 0, &frame), WIRE_NOTHING);
    }
    assert_int_equal(wire_state(control).unsupported, 100);
    assert_int_equal(move(control, &to_worker, 9), 1);
    expect(&to_worker, worker, WIRE_UNSUPPORTED, &frame);
    assert_int_equal(frame.body.unsupported.kind, 1099);
    assert_int_equal(wire_state(control).fault, WIRE_FAULT_NONE);
}

/* The disk holds what was committed; a frame that was taken may wait for the next, and a kill may come before the ack. */
static void control_planes_are_killed_at_random_and_nothing_is_lost_or_doubled(void **state)
{
    uint64_t seed = test_seed(77);
    uint64_t disk = 0;       /* requests 1 .. disk are on it, by the numbers 2 .. disk + 1 */
    uint64_t committed = 0;
    uint64_t said = 0;
    uint64_t epoch = 1;
    uint64_t kills = 0;

    (void)state;
    worker_begin();
    control_begin(epoch, 0, false);
    for (uint64_t step = 0; step < 400000 || disk < said; step++) {
        struct wire_frame frame;

        switch (draw_below(&seed, 6)) {
        case 0:
            if (step < 400000 && say_usage(said + 1) == STATUS_OK)
                said++;
            break;
        case 1:
            (void)move(worker, &to_control, (uint32_t)draw_below(&seed, 9));
            break;
        case 2:
            (void)move(control, &to_worker, (uint32_t)draw_below(&seed, 3));
            break;
        case 3:
            if (to_worker.count > 0 && take(&to_worker, worker, &frame) == WIRE_OVER)
                fail_msg("step %lu: the worker ends: %s", (unsigned long)step, wire_fault_text(wire_state(worker).fault));
            break;
        default:
            for (uint64_t frames = draw_below(&seed, 6); frames > 0 && to_control.count > 0 && wire_wants_input(control); frames--) {
                const enum wire_verdict verdict = take(&to_control, control, &frame);

                if (verdict == WIRE_OVER)
                    fail_msg("step %lu: the control plane ends it: %s", (unsigned long)step, wire_fault_text(wire_state(control).fault));
                if (verdict != WIRE_FRAME || draw_below(&seed, 4) == 0)
                    continue; /* taken, not yet on disk: with the next */
                for (uint64_t seq = committed + 1; seq <= frame.header.seq; seq++)
                    disk += seq > 1;
                committed = frame.header.seq;
                assert_int_equal(disk, frame.header.kind == WIRE_USAGE ? frame.body.usage.request : 0);
                if (draw_below(&seed, 3) == 0)
                    break; /* and killed before it could say so */
                wire_commit(control, committed);
            }
            if (draw_below(&seed, 20) == 0) {
                unmade(&control);
                control_begin(++epoch, committed, true);
                kills++;
            } else {
                wire_commit(control, max_u64(committed, wire_state(control).committed_seq));
            }
            break;
        }
        if (step > 4000000)
            fail_msg("%lu of %lu after %lu kills", (unsigned long)disk, (unsigned long)said, (unsigned long)kills);
    }
    assert_true(kills > 1000);
    assert_true(said > 3000);
    assert_int_equal(disk, said);
    printf("%lu frames, %lu control planes killed\n", (unsigned long)said, (unsigned long)kills);
}

#define ONE(test) cmocka_unit_test_setup_teardown(test, begin, finish)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ONE(nothing_is_said_before_a_welcome),
        ONE(what_is_committed_is_acked_and_forgotten),
        ONE(a_new_control_plane_hears_again_what_was_not_committed),
        ONE(what_a_dead_worker_left_is_taken),
        ONE(a_control_plane_of_the_past_is_not_heard),
        ONE(a_full_queue_takes_nothing_and_goes_on_after_acks),
        ONE(newer_ones_replace_what_waits),
        ONE(tokens_are_bounded_by_credit),
        ONE(a_new_control_plane_ends_the_requests_of_the_one_before),
        ONE(leases_and_beats_are_values),
        ONE(what_breaks_a_rule_is_answered_kill),
        ONE(versions_meet_or_the_talk_is_over),
        ONE(an_unknown_kind_is_answered_unsupported),
        ONE(control_planes_are_killed_at_random_and_nothing_is_lost_or_doubled),
    };

    return cmocka_run_group_tests_name("wire", tests, NULL, NULL);
}
