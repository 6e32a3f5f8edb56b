/* A client of the control plane, which stands before a model server that computes nothing (stub_server.c): so what takes time is the
 * control plane, its wire and this. One JSON line.
 *   control_load answers PORT KEY PID    1,000 answers a second, asked on time whatever comes back (open loop), on lines kept alive
 *   control_load streams PORT KEY PID    2,000 streams at once, each as fast as the server says its tokens
 * The model is m. PID is the control plane's, which has core 0: its CPU is told, and what others took of that core (others_cores), for a
 * latency beside other programs is theirs too. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/histogram.h"

#define LINES 256
#define RATE 1000
#define ANSWER_TOKENS 16
#define WARM_UP_NS (2 * NS_PER_S)
#define MEASURED_NS (10 * NS_PER_S)
#define STREAMS 2000
#define STREAM_TOKENS 150 /* 15 s at the stub's 10 a second */
#define BEGIN_NS (4 * NS_PER_S) /* in which all streams are begun */
#define STREAMS_END_NS (60 * NS_PER_S)
#define EVENTS_MAX 256

struct line {
    int fd;
    int64_t asked_ns;    /* 0: free */
    int64_t token_at_ns; /* the stream's last; 0: none yet */
    uint32_t tokens;
    bool is_fine;        /* its answer's head said so */
    bool is_done;
    size_t count;
    char text[4096];
};

struct load {
    const char *key;
    uint16_t port;
    int poller;
    int timer;
    struct line *lines;
    struct histogram latencies;
};

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

struct spent {
    double own_s;    /* user's and system's */
    double core_s;   /* all that ran on core 0 */
};

static double core_s(void)
{
    char text[1024];
    unsigned long user = 0, nice = 0, system = 0, interrupts = 0, later = 0, stolen = 0;
    FILE *file = fopen("/proc/stat", "r");
    bool found = false;

    check(file != NULL);
    while (!found && fgets(text, sizeof(text), file) != NULL)
        found = sscanf(text, "cpu0 %lu %lu %lu %*u %*u %lu %lu %lu", &user, &nice, &system, &interrupts, &later, &stolen) == 6;
    fclose(file);
    check(found);
    return (double)(user + nice + system + interrupts + later + stolen) / (double)sysconf(_SC_CLK_TCK);
}

static double process_s(const char *process)
{
    char path[64];
    char text[1024];
    unsigned long user = 0, system = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%.16s/stat", process);
    file = fopen(path, "r");
    check(file != NULL && fgets(text, sizeof(text), file) != NULL);
    fclose(file);
    check(sscanf(strrchr(text, ')') + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) == 2);
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

static struct spent spent_now(const char *process)
{
    return (struct spent){process_s(process), core_s()};
}

/* From `since` to now, which were `seconds`. */
static double others_cores(const struct spent *since, const struct spent *now, double seconds)
{
    const double others_s = now->core_s - since->core_s - (now->own_s - since->own_s);

    return others_s > 0 ? others_s / seconds : 0;
}

/* --- lines ---------------------------------------------------------------------------------------------------------------------- */

static void watch(const struct load *load, int fd, uint32_t index)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = index};

    check(epoll_ctl(load->poller, EPOLL_CTL_ADD, fd, &event) == 0);
}

static void open_line(const struct load *load, uint32_t index)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(load->port)};
    struct line *line = &load->lines[index];
    const int one = 1;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    line->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    check(line->fd >= 0 && connect(line->fd, (const struct sockaddr *)&address, sizeof(address)) == 0);
    check(setsockopt(line->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) == 0);
    watch(load, line->fd, index);
}

static void begin(struct load *load, uint32_t lines, int64_t tick_ns)
{
    const struct itimerspec tick = {{0, tick_ns}, {0, tick_ns}};

    load->poller = epoll_create1(EPOLL_CLOEXEC);
    load->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    load->lines = calloc(lines, sizeof(load->lines[0]));
    check(load->poller >= 0 && load->timer >= 0 && load->lines != NULL);
    check(timerfd_settime(load->timer, 0, &tick, NULL) == 0);
    watch(load, load->timer, UINT32_MAX);
    histogram_init(&load->latencies);
}

static void ask(const struct load *load, struct line *line, uint32_t tokens, bool streams, int64_t since_ns)
{
    char body[512];
    char text[1024];
    const int body_bytes = snprintf(body, sizeof(body), "{\"model\":\"m\",\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"},"
                                    "{\"role\":\"user\",\"content\":\"Which of the two is it, and why?\"}],\"max_tokens\":%u,\"stream\":%s}",
                                    (unsigned)tokens, streams ? "true" : "false");
    const int bytes = snprintf(text, sizeof(text), "POST /v1/chat/completions HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer %.100s\r\n"
                               "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", load->key, body_bytes, body);

    line->asked_ns = since_ns;
    line->count = 0;
    line->is_fine = false;
    check(send(line->fd, text, (size_t)bytes, MSG_NOSIGNAL) == bytes);
}

static void receive(struct line *line)
{
    const ssize_t got = recv(line->fd, line->text + line->count, sizeof(line->text) - 1 - line->count, 0);

    check(got > 0);
    line->count += (size_t)got;
    line->text[line->count] = '\0';
}

/* The head is looked at once; a stream's is gone later. */
static void must_be_fine(struct line *line)
{
    if (line->is_fine || line->count < 12)
        return;
    line->is_fine = memcmp(line->text, "HTTP/1.1 200", 12) == 0;
    if (line->is_fine)
        return;
    fprintf(stderr, "control_load: refused: %s\n", line->text);
    exit(1);
}

/* --- answers -------------------------------------------------------------------------------------------------------------------- */

static bool has_answer(const struct line *line)
{
    const char *length = strcasestr(line->text, "\r\ncontent-length:");
    const char *body = strstr(line->text, "\r\n\r\n");

    return length != NULL && body != NULL && length < body && line->text + line->count >= body + 4 + strtoul(length + 17, NULL, 10);
}

static void hear_answer(struct load *load, struct line *line)
{
    receive(line);
    if (!has_answer(line))
        return;
    must_be_fine(line);
    histogram_add(&load->latencies, now_ns() - line->asked_ns);
    line->asked_ns = 0;
}

static struct line *free_line(struct load *load)
{
    static uint32_t at;

    for (uint32_t i = 0; i < LINES; i++) {
        struct line *line = &load->lines[(at + i) % LINES];

        if (line->asked_ns == 0) {
            at = (at + i + 1) % LINES;
            return line;
        }
    }
    return NULL;
}

/* What is due: each request counts from when it is sent, or, where all lines were busy, from when it was due. */
static void ask_due(struct load *load, int64_t *due_ns, bool *had_none, uint64_t *asked)
{
    while (*due_ns <= now_ns()) {
        struct line *line = free_line(load);

        if (line == NULL) {
            *had_none = true;
            return;
        }
        ask(load, line, ANSWER_TOKENS, false, *had_none ? *due_ns : now_ns());
        *due_ns += NS_PER_S / RATE;
        ++*asked;
        if (*due_ns > now_ns())
            *had_none = false;
    }
}

static void measure_answers(struct load *load, const char *process)
{
    int64_t began_ns, due_ns;
    struct spent since = {0}, now;
    double cpu_s;
    bool is_measured = false, had_none = false;
    uint64_t asked = 0;

    begin(load, LINES, 250000);
    for (uint32_t i = 0; i < LINES; i++)
        open_line(load, i);
    began_ns = due_ns = now_ns();
    while (now_ns() - began_ns < WARM_UP_NS + MEASURED_NS) {
        struct epoll_event events[EVENTS_MAX];
        const int count = epoll_wait(load->poller, events, EVENTS_MAX, 100);
        uint64_t ticks;

        for (int i = 0; i < count; i++)
            if (events[i].data.u32 != UINT32_MAX)
                hear_answer(load, &load->lines[events[i].data.u32]);
        (void)!read(load->timer, &ticks, sizeof(ticks));
        ask_due(load, &due_ns, &had_none, &asked);
        if (!is_measured && now_ns() - began_ns >= WARM_UP_NS) {
            is_measured = true;
            since = spent_now(process);
            histogram_init(&load->latencies);
            asked = 0;
        }
    }
    now = spent_now(process);
    cpu_s = now.own_s - since.own_s;
    printf("{\"name\": \"control\", \"case\": \"%d answers a second\", \"value\": %.3f, \"unit\": \"ms\", \"goal\": 1, \"of\": \"p99\", "
           "\"p50_ms\": %.3f, \"p999_ms\": %.3f, \"asked\": %llu, \"answered\": %llu, \"cpu_cores\": %.2f, \"cpu_us\": %.0f, "
           "\"others_cores\": %.2f}\n",
           RATE, (double)histogram_quantile(&load->latencies, 0.99) * 1e-6, (double)histogram_quantile(&load->latencies, 0.5) * 1e-6,
           (double)histogram_quantile(&load->latencies, 0.999) * 1e-6, (unsigned long long)asked,
           (unsigned long long)load->latencies.count, cpu_s / ((double)MEASURED_NS * 1e-9), cpu_s * 1e6 / (double)load->latencies.count,
           others_cores(&since, &now, (double)MEASURED_NS * 1e-9));
}

/* --- streams -------------------------------------------------------------------------------------------------------------------- */

struct heard {
    uint32_t done;
    uint64_t tokens;
    int64_t worst_gap_ns;
    int64_t worst_first_ns;
};

static void hear_token(struct load *load, struct line *line, struct heard *heard)
{
    const int64_t at_ns = now_ns();

    if (line->token_at_ns == 0) {
        heard->worst_first_ns = max_i64(heard->worst_first_ns, at_ns - line->asked_ns);
    } else {
        histogram_add(&load->latencies, at_ns - line->token_at_ns);
        heard->worst_gap_ns = max_i64(heard->worst_gap_ns, at_ns - line->token_at_ns);
    }
    line->token_at_ns = at_ns;
}

/* An event's text is one letter a token; the stub's "aaa" of three tokens that came together are three tokens at one moment. */
static void hear_stream(struct load *load, struct line *line, struct heard *heard)
{
    char *from = line->text;
    char *end;

    receive(line);
    must_be_fine(line);
    for (; (end = strstr(from, "\n\n")) != NULL; from = end + 2) {
        const char *content;

        *end = '\0';
        if (strstr(from, "data: [DONE]") != NULL && !line->is_done) {
            line->is_done = true;
            heard->done++;
            check(epoll_ctl(load->poller, EPOLL_CTL_DEL, line->fd, NULL) == 0); /* what is left unread would wake us for ever */
        }
        content = strstr(from, "\"content\":\"");
        if (content != NULL && content[11] != '"') {
            const size_t tokens = strcspn(content + 11, "\"");

            line->tokens += (uint32_t)tokens;
            heard->tokens += tokens;
            hear_token(load, line, heard);
        }
    }
    line->count -= (size_t)(from - line->text);
    memmove(line->text, from, line->count + 1);
}

static void measure_streams(struct load *load, const char *process)
{
    struct heard heard = {0};
    struct spent since, now;
    double cpu_s;
    int64_t began_ns;
    uint32_t begun = 0, whole = 0;
    double seconds;

    begin(load, STREAMS, NS_PER_MS);
    began_ns = now_ns();
    since = spent_now(process);
    while (heard.done < STREAMS && now_ns() - began_ns < STREAMS_END_NS) {
        struct epoll_event events[EVENTS_MAX];
        const int count = epoll_wait(load->poller, events, EVENTS_MAX, 100);
        uint64_t ticks;

        for (int i = 0; i < count; i++)
            if (events[i].data.u32 != UINT32_MAX)
                hear_stream(load, &load->lines[events[i].data.u32], &heard);
        (void)!read(load->timer, &ticks, sizeof(ticks));
        for (; begun < STREAMS && now_ns() - began_ns >= BEGIN_NS / STREAMS * begun; begun++) {
            open_line(load, begun);
            ask(load, &load->lines[begun], STREAM_TOKENS, true, now_ns());
        }
    }
    seconds = (double)(now_ns() - began_ns) * 1e-9;
    now = spent_now(process);
    cpu_s = now.own_s - since.own_s;
    for (uint32_t i = 0; i < STREAMS; i++)
        whole += load->lines[i].is_done && load->lines[i].tokens == STREAM_TOKENS;
    printf("{\"name\": \"control\", \"case\": \"%d streams\", \"value\": %.0f, \"unit\": \"ms\", \"of\": \"worst gap\", \"whole\": %u, "
           "\"tokens\": %llu, \"gap_p50_ms\": %.0f, \"gap_p99_ms\": %.0f, \"worst_first_ms\": %.0f, \"seconds\": %.1f, \"cpu_cores\": %.2f, "
           "\"cpu_us\": %.1f, \"others_cores\": %.2f}\n",
           STREAMS, (double)heard.worst_gap_ns * 1e-6, whole, (unsigned long long)heard.tokens,
           (double)histogram_quantile(&load->latencies, 0.5) * 1e-6, (double)histogram_quantile(&load->latencies, 0.99) * 1e-6,
           (double)heard.worst_first_ns * 1e-6, seconds, cpu_s / seconds, cpu_s * 1e6 / (double)heard.tokens,
           others_cores(&since, &now, seconds));
}

int main(int argc, char **argv)
{
    struct load load = {0};

    if (argc != 5) {
        fprintf(stderr, "usage: control_load answers|streams PORT KEY PID\n");
        return 2;
    }
    load.port = (uint16_t)strtoul(argv[2], NULL, 10);
    load.key = argv[3];
    if (strcmp(argv[1], "answers") == 0)
        measure_answers(&load, argv[4]);
    else
        measure_streams(&load, argv[4]);
    return 0;
}
