/* A model server without a model, for measurements and tests of the control plane: it speaks the server's side of the wire, takes any
 * adapter, and answers every request with max_tokens tokens, at a rate or at once. It computes nothing, so what is measured is the
 * control plane.
 *   stub_server [TOKENS_PER_S [stamped]]
 * TOKENS_PER_S: of each stream; 0 or nothing: all at once; a socket from the keeper is descriptor 3. stamped: an answer's text ends in
 * when its request came to the socket and when its end was given to it, in nanoseconds of the wall clock; no adapters then. */
#define _GNU_SOURCE /* SCM_TIMESTAMPNS */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "control/core/core.h"
#include "link/link.h"
#include "stamp.h"

#define STREAMS_MAX 8192u
#define TOKENS_A_FRAME 256u
#define ACCOUNT_BYTES_MAX 256u
#define LOOK_MS 100 /* beats are due meanwhile */

struct stream {
    uint64_t request;
    bool is_wanted;          /* its DONE is waited for */
    bool is_aborted;
    bool usage_said;
    uint32_t prompt_tokens;
    uint32_t max_tokens;
    uint32_t made;           /* tokens that a model would have made by now */
    uint32_t said;
    int64_t since_ns;
    int64_t came_ns;         /* to the socket; stamped only */
    uint32_t account_bytes;
    uint8_t account[ACCOUNT_BYTES_MAX];
};

struct stub {
    struct link *link;
    int64_t token_ns;        /* 0: at once */
    bool is_stamped;
    int64_t came_ns;         /* the frame that is heard now */
    bool is_ready;
    bool is_draining;
    struct stream *streams;  /* [count], in no order */
    uint32_t count;
};

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* --- what it says --------------------------------------------------------------------------------------------------------------- */

static void make_tokens(const struct stub *stub, struct stream *stream, int64_t at_ns)
{
    if (stream->is_aborted || stream->made == stream->max_tokens)
        return;
    stream->made = stub->token_ns == 0 ? stream->max_tokens
                                       : (uint32_t)min_i64((at_ns - stream->since_ns) / stub->token_ns, stream->max_tokens);
}

/* False: not all now. A letter a token. */
static bool say_tokens(struct stub *stub, struct stream *stream)
{
    while (!stream->is_aborted && stream->said < stream->made) {
        uint8_t ids[TOKENS_A_FRAME * WIRE_TOKEN_BYTES];
        uint8_t text[TOKENS_A_FRAME];
        struct wire_tokens tokens = {.request = stream->request, .first_index = stream->said, .tokens = ids, .text = text};
        uint32_t count = min_u32(min_u32(stream->made - stream->said, TOKENS_A_FRAME), wire_credit(link_wire(stub->link), stream->request));

        for (uint32_t i = 0; i < count; i++) {
            text[i] = (uint8_t)('a' + (stream->said + i) % 26);
            wire_token_write(&(struct wire_token){.id = text[i]}, ids + (size_t)i * WIRE_TOKEN_BYTES);
        }
        tokens.tokens_count = count;
        tokens.text_count = count;
        if (count == 0 || link_say(stub->link, WIRE_TOKENS, &tokens, 0) != STATUS_OK)
            return false;
        stream->said += count;
    }
    return stream->is_aborted || stream->made == stream->max_tokens;
}

static bool say_usage(struct stub *stub, const struct stream *stream)
{
    struct wire_usage usage = {.request = stream->request, .prompt_tokens = stream->prompt_tokens, .output_tokens = stream->made,
                               .account_count = stream->account_bytes, .account = stream->account};
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    usage.at_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    return link_say(stub->link, WIRE_USAGE, &usage, 0) == STATUS_OK;
}

static bool say_done(struct stub *stub, const struct stream *stream)
{
    struct wire_done done = {.request = stream->request, .finish = stream->is_aborted ? CORE_END_CANCELLED : CORE_END_LENGTH,
                             .prompt_tokens = stream->prompt_tokens, .output_tokens = stream->made, .tier_found = TIER_GPU};
    char text[64];

    if (!stub->is_stamped)
        return link_say(stub->link, WIRE_DONE, &done, 0) != STATUS_FULL;
    (void)link_flush(stub->link); /* what comes before it is not waited for by what comes after the stamp */
    done.text_count = (uint32_t)snprintf(text, sizeof(text), " %lld %lld", (long long)stream->came_ns, (long long)stamp_now_ns());
    done.text = (const uint8_t *)text;
    if (link_say(stub->link, WIRE_DONE, &done, 0) == STATUS_FULL)
        return false;
    (void)link_flush(stub->link);
    return true;
}

/* True: it is over. */
static bool say(struct stub *stub, struct stream *stream)
{
    if (stream->is_wanted && !say_tokens(stub, stream))
        return false;
    if (!stream->usage_said)
        stream->usage_said = say_usage(stub, stream);
    return stream->usage_said && (!stream->is_wanted || say_done(stub, stream));
}

static void say_all(struct stub *stub)
{
    const int64_t at_ns = now_ns();

    for (uint32_t i = 0; i < stub->count;) {
        make_tokens(stub, &stub->streams[i], at_ns);
        if (say(stub, &stub->streams[i]))
            stub->streams[i] = stub->streams[--stub->count];
        else
            i++;
    }
}

/* --- what it hears -------------------------------------------------------------------------------------------------------------- */

static void hear_request(struct stub *stub, const struct wire_request *request, const struct wire_inbox *inbox)
{
    struct stream *stream = &stub->streams[stub->count];

    check(stub->count < STREAMS_MAX && request->account_count <= ACCOUNT_BYTES_MAX);
    *stream = (struct stream){.request = request->request, .is_wanted = true, .is_aborted = stub->is_draining,
                              .prompt_tokens = inbox->descriptors_count > 0 ? 0 : request->prompt_count,
                              .max_tokens = request->max_tokens, .since_ns = now_ns(), .came_ns = stub->came_ns,
                              .account_bytes = request->account_count};
    memcpy(stream->account, request->account, request->account_count);
    stub->count++;
}

static void hear_load(struct stub *stub, const struct wire_load *load)
{
    struct wire_residency residency = {.generation = load->generation, .bytes = load->bytes, .tier = TIER_GPU};
    uint64_t key;

    memcpy(residency.digest, load->digest, sizeof(residency.digest));
    memcpy(&key, load->digest, sizeof(key));
    (void)link_say(stub->link, WIRE_RESIDENCY, &residency, key);
}

static void hear_unload(struct stub *stub, const struct wire_unload *unload)
{
    struct wire_unloaded unloaded = {.generation = unload->generation};

    memcpy(unloaded.digest, unload->digest, sizeof(unloaded.digest));
    (void)link_say(stub->link, WIRE_UNLOADED, &unloaded, 0);
}

/* After a WELCOME nothing is known here, so all adapters are loaded again. */
static void be_ready(struct stub *stub)
{
    for (uint32_t i = 0; i < stub->count; i++) {
        stub->streams[i].is_wanted = false;
        stub->streams[i].is_aborted = true;
    }
    if (stub->is_ready)
        check(link_say(stub->link, WIRE_INVENTORY, &(struct wire_inventory){.step = 0}, 0) == STATUS_OK);
}

static void hear(struct stub *stub, const struct wire_frame *frame, const struct wire_inbox *inbox)
{
    switch (frame->header.kind) {
    case WIRE_WELCOME:
        be_ready(stub);
        break;
    case WIRE_START:
        if (!stub->is_ready) {
            stub->is_ready = true;
            if (stub->is_stamped)
                stamp_begin(link_descriptor(stub->link)); /* stamps take the room of descriptors, and the base's has come */
            be_ready(stub);
        }
        break;
    case WIRE_LOAD: hear_load(stub, &frame->body.load); break;
    case WIRE_UNLOAD: hear_unload(stub, &frame->body.unload); break;
    case WIRE_REQUEST: hear_request(stub, &frame->body.request, inbox); break;
    case WIRE_ABORT:
        for (uint32_t i = 0; i < stub->count; i++)
            stub->streams[i].is_aborted |= stub->streams[i].request == frame->body.abort.request;
        break;
    case WIRE_DRAIN: stub->is_draining = true; break;
    default: break;
    }
}

/* Until the next token of any stream; streams that only lack credit are woken by it. */
static int wait_ms(const struct stub *stub)
{
    const int64_t at_ns = now_ns();
    int64_t due_ns = NEVER_NS;

    for (uint32_t i = 0; i < stub->count; i++) {
        const struct stream *stream = &stub->streams[i];

        if (stream->made < stream->max_tokens && !stream->is_aborted)
            due_ns = min_i64(due_ns, stream->since_ns + (int64_t)(stream->made + 1) * stub->token_ns);
    }
    if (due_ns == NEVER_NS)
        return stub->count > 0 ? 10 : -1;
    return due_ns <= at_ns ? 0 : (int)((due_ns - at_ns) / NS_PER_MS + 1);
}

/* As link_next(); stamped, the frame that it takes is looked at first. One that comes in between counts from when it was taken. */
static enum link_event next(struct stub *stub, int wait_ms, struct wire_frame *ret_frame, struct wire_inbox **ret_inbox)
{
    struct pollfd one = {.fd = link_descriptor(stub->link), .events = POLLIN};
    enum link_event event;

    if (!stub->is_stamped)
        return link_next(stub->link, wait_ms, ret_frame, ret_inbox);
    (void)link_flush(stub->link);
    stub->came_ns = 0;
    if (poll(&one, 1, wait_ms < 0 || wait_ms > LOOK_MS ? LOOK_MS : wait_ms) > 0)
        (void)stamp_receive(one.fd, NULL, 0, MSG_PEEK | MSG_DONTWAIT, &stub->came_ns);
    event = link_next(stub->link, 0, ret_frame, ret_inbox);
    if (stub->came_ns == 0)
        stub->came_ns = stamp_now_ns();
    return event;
}

static int run(struct stub *stub)
{
    for (;;) {
        struct wire_frame frame;
        struct wire_inbox *inbox;
        enum link_event event = next(stub, wait_ms(stub), &frame, &inbox);

        for (uint32_t i = 0; event == LINK_FRAME && i < 256; i++) {
            hear(stub, &frame, inbox);
            event = next(stub, 0, &frame, &inbox);
        }
        if (event == LINK_FRAME)
            hear(stub, &frame, inbox);
        if (event == LINK_KILLED || event == LINK_GONE)
            return 1;
        say_all(stub);
        if (stub->is_draining && stub->count == 0 && link_flush(stub->link))
            return link_settle(stub->link, 60000) ? 0 : 1;
    }
}

int main(int argc, char **argv)
{
    const struct link_config config = {.socket = KEEPER_SOCKET, .kind = CORE_SERVER, .requests_max = STREAMS_MAX, .flow_bytes = 8u << 20,
                                       .queue_bytes = 4u << 20};
    const long tokens_per_s = argc > 1 ? strtol(argv[1], NULL, 10) : 0;
    struct stub stub = {.token_ns = tokens_per_s > 0 ? NS_PER_S / tokens_per_s : 0, .is_stamped = argc > 2 && strcmp(argv[2], "stamped") == 0};
    struct refusal refusal = {""};
    int code = 1;

    stub.streams = calloc(STREAMS_MAX, sizeof(struct stream));
    check(stub.streams != NULL);
    if (link_open(&config, &stub.link, &refusal) == STATUS_OK)
        code = run(&stub);
    else
        fprintf(stderr, "stub_server: %s\n", refusal.text);
    link_close(stub.link);
    free(stub.streams);
    return code;
}
