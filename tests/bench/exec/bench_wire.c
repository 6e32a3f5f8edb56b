/* What frames cost: built and judged in memory; over a socket between two threads; and a round trip, of a `must` frame and its ack or
 * of a credit and its tokens. One JSON line each. */
#define _GNU_SOURCE /* pthread, poll */
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/bench.h"
#include "wire/socket.h"

#define FRAMES 1000000u
#define ROUNDS 100000u

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static struct wire *made(struct wire_config config)
{
    const size_t bytes = wire_bytes(&config);
    void *memory = malloc(bytes);

    check(memory != NULL);
    return wire_create(memory, bytes, &config);
}

static struct wire *made_worker(void)
{
    struct wire *wire = made((struct wire_config){.side = WIRE_SIDE_WORKER, .worker = 1});

    check(wire_say(wire, WIRE_HELLO, &(struct wire_hello){.version_min = 1, .version_max = 1}, 0, NULL, 0) == STATUS_OK);
    return wire;
}

static struct wire *made_control(void)
{
    return made((struct wire_config){.side = WIRE_SIDE_CONTROL, .worker = 1, .epoch = 1, .lease_ms = 1000, .is_adopted = true});
}

static void unmade(struct wire *wire)
{
    wire_end(wire);
    free(wire);
}

static void wait_for(int socket, short events)
{
    struct pollfd one = {.fd = socket, .events = events};

    check(poll(&one, 1, 10000) == 1);
}

/* One token and some text, as a server streams them. */
static enum status say_token(struct wire *wire, uint32_t index)
{
    static const uint8_t token[WIRE_TOKEN_BYTES] = {7};

    return wire_say(wire, WIRE_TOKENS, &(struct wire_tokens){.request = 1, .first_index = index, .tokens = token, .tokens_count = 1,
                    .text = (const uint8_t *)" there", .text_count = 6}, 0, NULL, 0);
}

/* HELLO, WELCOME, a request with endless credit. */
static void open_talk(struct wire *worker, struct wire *control, int worker_socket, int control_socket)
{
    static struct wire_inbox inbox;
    struct wire_frame frame;

    check(wire_flush(worker, worker_socket, 1) == STATUS_OK);
    check(wire_receive(control, control_socket, 1, &inbox, &frame) == WIRE_RECEIVED_FRAME);
    wire_commit(control, 1);
    check(wire_say(control, WIRE_REQUEST, &(struct wire_request){.request = 1, .credit_tokens = UINT32_MAX}, 0, NULL, 0) == STATUS_OK);
    check(wire_flush(control, control_socket, 1) == STATUS_OK);
    while (wire_receive(worker, worker_socket, 1, &inbox, &frame) != WIRE_RECEIVED_EMPTY)
        continue;
    check(wire_state(worker).requests == 1);
}

struct stream_of_tokens {
    struct wire *worker;
    int socket;
};

static void *stream(void *context)
{
    const struct stream_of_tokens *tokens = context;

    for (uint32_t i = 0; i < FRAMES; i++) {
        while (say_token(tokens->worker, i) == STATUS_FULL || i % 64 == 63 || i + 1 == FRAMES) {
            if (wire_flush(tokens->worker, tokens->socket, 1) == STATUS_OK)
                break;
            wait_for(tokens->socket, POLLOUT);
        }
    }
    while (wire_flush(tokens->worker, tokens->socket, 1) != STATUS_OK)
        wait_for(tokens->socket, POLLOUT);
    return NULL;
}

static void measure_stream(struct wire *worker, struct wire *control, const int ends[2])
{
    static struct wire_inbox inbox;
    struct stream_of_tokens tokens = {worker, ends[1]};
    const double start_s = now_s();
    struct wire_frame frame;
    pthread_t thread;

    check(pthread_create(&thread, NULL, stream, &tokens) == 0);
    for (uint32_t i = 0; i < FRAMES;) {
        const enum wire_received received = wire_receive(control, ends[0], 1, &inbox, &frame);

        if (received == WIRE_RECEIVED_EMPTY) {
            wait_for(ends[0], POLLIN);
            continue;
        }
        check(received == WIRE_RECEIVED_FRAME);
        check(frame.body.tokens.first_index == i++);
    }
    printf("{\"name\": \"wire\", \"case\": \"tokens over a socket\", \"value\": %.0f, \"unit\": \"frames/s\"}\n", FRAMES / (now_s() - start_s));
    pthread_join(thread, NULL);
}

struct echo {
    struct wire *control;
    int socket;
};

/* A control plane that commits at once. */
static void *commit_all(void *context)
{
    static struct wire_inbox inbox;
    const struct echo *echo = context;
    struct wire_frame frame;

    for (;;) {
        const enum wire_received received = wire_receive(echo->control, echo->socket, 1, &inbox, &frame);

        if (received == WIRE_RECEIVED_END)
            return NULL;
        if (received == WIRE_RECEIVED_EMPTY) {
            wait_for(echo->socket, POLLIN);
            continue;
        }
        check(received == WIRE_RECEIVED_FRAME);
        wire_commit(echo->control, frame.header.seq);
        check(wire_flush(echo->control, echo->socket, 1) == STATUS_OK);
    }
}

static void measure_round_trip(struct wire *worker, struct wire *control, int ends[2])
{
    static struct wire_inbox inbox;
    struct echo echo = {control, ends[0]};
    const double start_s = now_s();
    struct wire_frame frame;
    pthread_t thread;

    check(pthread_create(&thread, NULL, commit_all, &echo) == 0);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        check(wire_say(worker, WIRE_USAGE, &(struct wire_usage){.request = i}, 0, NULL, 0) == STATUS_OK);
        check(wire_flush(worker, ends[1], 1) == STATUS_OK);
        while (wire_state(worker).committed_seq != wire_state(worker).seq) {
            if (wire_receive(worker, ends[1], 1, &inbox, &frame) == WIRE_RECEIVED_EMPTY)
                wait_for(ends[1], POLLIN);
        }
    }
    printf("{\"name\": \"wire\", \"case\": \"a must frame and its ack\", \"value\": %.2f, \"unit\": \"us\"}\n", (now_s() - start_s) / ROUNDS * 1e6);
    close(ends[1]);
    ends[1] = -1;
    pthread_join(thread, NULL);
}

/* Said, taken, without a socket. */
static void measure_memory(struct wire *worker, struct wire *control, uint32_t first_index)
{
    static uint8_t bytes[256];
    const double start_s = bench_cpu_s();
    struct wire_frame frame;
    struct wire_out out;

    for (uint32_t i = 0; i < FRAMES; i++) {
        check(say_token(worker, first_index + i) == STATUS_OK);
        check(wire_next(worker, &out));
        memcpy(bytes, out.header, WIRE_HEADER_BYTES);
        memcpy(bytes + WIRE_HEADER_BYTES, out.body, out.body_bytes);
        wire_sent(worker, 1);
        check(wire_take(control, 1, bytes, WIRE_HEADER_BYTES + out.body_bytes, 0, &frame) == WIRE_FRAME);
    }
    bench_print("wire", "a frame of tokens said and taken", bench_cpu_s() - start_s, FRAMES);
}

int main(int argc, char **argv)
{
    struct wire *worker;
    struct wire *control;
    int ends[2];

    if (!bench_wanted(argc, argv, "wire"))
        return 0;
    worker = made_worker();
    control = made_control();
    check(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    open_talk(worker, control, ends[1], ends[0]);
    measure_stream(worker, control, ends);
    measure_memory(worker, control, FRAMES);
    measure_round_trip(worker, control, ends);
    close(ends[0]);
    unmade(worker);
    unmade(control);
    return 0;
}
