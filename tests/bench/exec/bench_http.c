/* The HTTP floor on loopback, its clients in a process of their own: requests of a trivial JSON route as fast as 64 connections ask, and at
 * 1,000 a second; 1,000 streams with 50 events a second each. One JSON line each; cpu_us is the server's. */
#define _GNU_SOURCE /* accept4 and the like */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/histogram.h"
#include "bench/bench.h"
#include "control/http/http.h"

#define CONNECTIONS 64
#define STREAMS 1000
#define EVENTS_PER_S 50
#define SECONDS 4
#define RATE 1000
#define PING "GET /v1/ping HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer sk-bench-0123456789abcdef\r\n\r\n"
#define STREAM "GET /v1/stream HTTP/1.1\r\nHost: bench\r\n\r\n"

struct result {
    uint64_t count;
    double seconds;
    int64_t p50_ns, p99_ns;
};

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* --- the client's process --------------------------------------------------------------------------------------------------- */

struct line {
    int fd;
    int64_t asked_ns; /* 0: nothing is asked */
    char text[2048];
    size_t count;
};

static struct line lines[STREAMS];
static struct histogram latencies;

static int connect_to(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    check(fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0);
    return fd;
}

static int open_lines(uint16_t port, uint32_t count)
{
    int poller = epoll_create1(0);

    check(poller >= 0);
    histogram_init(&latencies);
    for (uint32_t i = 0; i < count; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = i};

        lines[i] = (struct line){.fd = connect_to(port)};
        check(epoll_ctl(poller, EPOLL_CTL_ADD, lines[i].fd, &event) == 0);
    }
    return poller;
}

static void close_lines(int poller, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        close(lines[i].fd);
    close(poller);
}

static void ask(struct line *line)
{
    line->asked_ns = now_ns();
    line->count = 0;
    check(send(line->fd, PING, strlen(PING), MSG_NOSIGNAL) == (ssize_t)strlen(PING));
}

/* True when the whole answer is there. */
static bool hear_answer(struct line *line)
{
    static const char end[] = "{\"ok\":true}";
    const ssize_t got = recv(line->fd, line->text + line->count, sizeof(line->text) - line->count, 0);

    check(got > 0);
    line->count += (size_t)got;
    if (line->count < sizeof(end) || memcmp(line->text + line->count - sizeof(end) + 1, end, sizeof(end) - 1) != 0)
        return false;
    histogram_add(&latencies, now_ns() - line->asked_ns);
    line->asked_ns = 0;
    return true;
}

static void summarize(struct result *result, int64_t began_ns)
{
    result->seconds = (double)(now_ns() - began_ns) * 1e-9;
    result->count = latencies.count;
    result->p50_ns = histogram_quantile(&latencies, 0.5);
    result->p99_ns = histogram_quantile(&latencies, 0.99);
}

/* `rate`: requests a second in all, on whichever line is free; 0: each line asks again at once. */
static struct result ask_many(uint16_t port, uint32_t rate)
{
    int poller = open_lines(port, CONNECTIONS);
    const int64_t began_ns = now_ns();
    int64_t next_ns = began_ns;
    struct result result;

    for (uint32_t i = 0; i < CONNECTIONS && rate == 0; i++)
        ask(&lines[i]);
    while (now_ns() - began_ns < SECONDS * NS_PER_S) {
        struct epoll_event events[CONNECTIONS];
        int count;

        for (; rate > 0 && next_ns <= now_ns(); next_ns += NS_PER_S / rate)
            for (uint32_t i = 0; i < CONNECTIONS; i++)
                if (lines[i].asked_ns == 0) {
                    ask(&lines[i]);
                    break;
                }
        count = epoll_wait(poller, events, CONNECTIONS, rate > 0 ? 0 : 100);
        for (int i = 0; i < count; i++)
            if (hear_answer(&lines[events[i].data.u32]) && rate == 0)
                ask(&lines[events[i].data.u32]);
    }
    summarize(&result, began_ns);
    close_lines(poller, CONNECTIONS);
    return result;
}

/* Events say when they were pushed. */
static void hear_events(struct line *line)
{
    const ssize_t got = recv(line->fd, line->text + line->count, sizeof(line->text) - 1 - line->count, 0);
    const int64_t at_ns = now_ns();
    char *from = line->text;
    char *end;

    check(got > 0);
    line->count += (size_t)got;
    line->text[line->count] = '\0';
    while ((end = strstr(from, "\n\n")) != NULL) {
        const char *stamp = strstr(from, "\"t\":");

        if (stamp != NULL && stamp < end)
            histogram_add(&latencies, at_ns - strtoll(stamp + 4, NULL, 10));
        from = end + 2;
    }
    line->count -= (size_t)(from - line->text);
    memmove(line->text, from, line->count);
}

static struct result hear_many(uint16_t port)
{
    int poller = open_lines(port, STREAMS);
    int64_t began_ns;
    struct result result;

    for (uint32_t i = 0; i < STREAMS; i++)
        check(send(lines[i].fd, STREAM, strlen(STREAM), MSG_NOSIGNAL) == (ssize_t)strlen(STREAM));
    began_ns = now_ns();
    while (now_ns() - began_ns < (SECONDS + 1) * NS_PER_S) {
        struct epoll_event events[256];
        const int count = epoll_wait(poller, events, 256, 100);

        for (int i = 0; i < count; i++)
            hear_events(&lines[events[i].data.u32]);
        if (now_ns() - began_ns < NS_PER_S) { /* the first second, in which they begin, is not measured */
            histogram_init(&latencies);
            began_ns = now_ns() - began_ns > NS_PER_S - NS_PER_MS ? now_ns() - NS_PER_S : began_ns;
        }
    }
    summarize(&result, began_ns + NS_PER_S);
    close_lines(poller, STREAMS);
    return result;
}

static void be_the_client(int port_pipe, int result_pipe)
{
    uint16_t port;
    char which;

    check(read(port_pipe, &port, sizeof(port)) == sizeof(port));
    while (read(port_pipe, &which, 1) == 1) {
        const struct result result = which == 'm' ? ask_many(port, 0) : which == 'r' ? ask_many(port, RATE) : hear_many(port);

        check(write(result_pipe, &result, sizeof(result)) == sizeof(result));
    }
    _exit(0);
}

/* --- the server's process --------------------------------------------------------------------------------------------------- */

static struct http_request *streams[STREAMS];
static uint32_t streams_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void ping(void *context, struct http_request *request)
{
    (void)context;
    http_answer_json(request, 200, json_pack("{s:b}", "ok", 1));
}

static void stream(void *context, struct http_request *request)
{
    const struct http_stream facts = {.content_type = NULL};

    (void)context;
    if (http_stream_begin(request, &facts) != STATUS_OK)
        return;
    pthread_mutex_lock(&lock);
    streams[streams_count++] = request;
    pthread_mutex_unlock(&lock);
}

/* Each stream gets an event every 20 ms, spread evenly; ends when all clients have left. */
static void *produce(void *context)
{
    int64_t next_ns = now_ns();
    uint32_t at = 0, gone = 0, count;

    (void)context;
    do {
        const struct timespec pause = {0, 200000};

        pthread_mutex_lock(&lock);
        count = streams_count;
        pthread_mutex_unlock(&lock);
        for (; next_ns <= now_ns(); next_ns += NS_PER_S / (STREAMS * EVENTS_PER_S), at = (at + 1) % STREAMS) {
            char text[256];
            int bytes;

            if (at >= count || streams[at] == NULL)
                continue;
            bytes = snprintf(text, sizeof(text), "{\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion.chunk\",\"t\":%lld,\"choices\":[{\"index\":0,"
                             "\"delta\":{\"content\":\" word\"},\"finish_reason\":null}]}", (long long)now_ns());
            if (http_stream_event(streams[at], text, (size_t)bytes) != STATUS_END)
                continue;
            http_stream_end(streams[at]);
            streams[at] = NULL;
            gone++;
        }
        nanosleep(&pause, NULL);
    } while (gone < STREAMS);
    return NULL;
}

static void measure(int port_pipe, int result_pipe, char which, const char *what)
{
    const double began_s = bench_cpu_s();
    struct result result;
    double cpu_us;

    check(write(port_pipe, &which, 1) == 1 && read(result_pipe, &result, sizeof(result)) == sizeof(result));
    cpu_us = (bench_cpu_s() - began_s) * 1e6 / (double)result.count;
    if (which == 's') /* its CPU was also spent in the second before */
        cpu_us *= (double)SECONDS / (SECONDS + 1);
    printf("{\"name\": \"http\", \"case\": \"%s\", \"value\": %.0f, \"unit\": \"%s\", \"p50_ms\": %.3f, \"p99_ms\": %.3f, \"cpu_us\": %.1f}\n",
           what, (double)result.count / result.seconds, which == 's' ? "events/s" : "requests/s", (double)result.p50_ns * 1e-6,
           (double)result.p99_ns * 1e-6, cpu_us);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static const struct http_route routes[] = {{.method = HTTP_GET, .pattern = "/v1/ping", .flags = HTTP_NEEDS_KEY, .handle = ping},
                                               {.method = HTTP_GET, .pattern = "/v1/stream", .handle = stream}};
    const struct http_config config = {.address = "127.0.0.1", .routes = routes, .routes_count = ARRAY_COUNT(routes)};
    struct http_server *server;
    struct refusal refusal;
    pthread_t producer;
    int asks[2], results[2];
    uint16_t port;
    pid_t client;

    if (!bench_wanted(argc, argv, "http"))
        return 0;
    check(pipe(asks) == 0 && pipe(results) == 0);
    client = fork();
    check(client >= 0);
    if (client == 0) {
        close(asks[1]);
        be_the_client(asks[0], results[1]);
    }
    check(http_open(&config, &server, &refusal) == STATUS_OK);
    port = http_port(server);
    check(write(asks[1], &port, sizeof(port)) == sizeof(port));
    measure(asks[1], results[0], 'm', "64 connections");
    measure(asks[1], results[0], 'r', "1000 a second");
    pthread_create(&producer, NULL, produce, NULL);
    measure(asks[1], results[0], 's', "1000 streams of 50 a second");
    pthread_join(producer, NULL);
    close(asks[1]);
    waitpid(client, NULL, 0);
    http_close(server);
    return 0;
}
