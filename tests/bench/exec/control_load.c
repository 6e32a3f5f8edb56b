/* A client of the control plane, which stands before a model server that computes nothing (stub_server.c): so what takes time is the
 * control plane, its wire and this. One JSON line.
 *   control_load answers PORT KEY PID    1,000 answers a second, asked a millisecond apart whatever comes back (open loop), on lines kept alive.
 *                                        value: what the control plane adds, of each answer its whole time without two spans: from
 *                                        when the kernel gave its request to the server's socket to when the server gave the end of
 *                                        its answer to it (the stub says both in its text), and from when the kernel gave the answer
 *                                        to this program's socket to when that was read. What waits in a socket of the control
 *                                        plane's is its time. A virtual machine's core is away at times, and the kernel has threads
 *                                        of its own: a thread that goes before all others on core 0 is late then (core_away_ms), and
 *                                        core_there_p99_ms is of the answers that met nothing of that.
 *   control_load streams PORT KEY PID    2,000 streams at once, each as fast as the server says its tokens
 * The model is m. PID is the control plane's, which has core 0: its CPU is told, and what others took of that core (others_cores), for a
 * latency beside other programs is theirs too. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/histogram.h"
#include "stamp.h"

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
#define ANSWERS_MAX (2 * RATE * (MEASURED_NS / NS_PER_S))
#define LOOK_NS (NS_PER_MS / 2) /* the core is looked at so often */
#define LATE_NS (NS_PER_MS / 2) /* no program's doing: no call into the kernel takes so long */
#define AWAYS_MAX 20000

struct span {
    int64_t from_ns;
    int64_t until_ns;
};

struct answer {
    struct span whole;   /* to when it came to the socket */
    int64_t added_ns;
};

/* The core's absences, as its own thread sees them. */
struct core_watch {
    pthread_t thread;
    bool is_on;          /* false: the machine gives no thread precedence */
    atomic_bool is_over;
    struct span *aways;  /* [AWAYS_MAX] */
    uint32_t count;
};

struct line {
    int fd;
    int64_t asked_ns;    /* 0: free */
    int64_t came_ns;     /* to the socket, what was received last */
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
    struct answer *answers; /* [ANSWERS_MAX] */
    uint32_t answers_count;
    struct core_watch watch;
};

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
    const ssize_t got = stamp_receive(line->fd, line->text + line->count, sizeof(line->text) - 1 - line->count, 0, &line->came_ns);

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

/* While the server had it: the stub's two stamps follow its letters. */
static int64_t server_ns(const struct line *line)
{
    const char *content = strstr(line->text, "\"content\":\"");
    long long came_ns = 0, left_ns = 0;

    check(content != NULL && sscanf(content, "%*[^ ] %lld %lld", &came_ns, &left_ns) == 2);
    check(line->asked_ns <= came_ns && came_ns <= left_ns && left_ns <= line->came_ns);
    return left_ns - came_ns;
}

static void hear_answer(struct load *load, struct line *line)
{
    receive(line);
    if (!has_answer(line))
        return;
    must_be_fine(line);
    histogram_add(&load->latencies, stamp_now_ns() - line->asked_ns);
    if (load->answers_count < ANSWERS_MAX)
        load->answers[load->answers_count++] = (struct answer){.whole = {line->asked_ns, line->came_ns},
                                                               .added_ns = line->came_ns - line->asked_ns - server_ns(line)};
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

/* What is due: each request counts from when it is sent, or, where all lines were busy, from when it was due. After a time in which this
 * program did not run, what it missed does not come in one heap: that would be no thousand a second. */
static void ask_due(struct load *load, int64_t *due_ns, bool *had_none, uint64_t *asked)
{
    if (!*had_none)
        *due_ns = max_i64(*due_ns, stamp_now_ns() - NS_PER_S / RATE);
    while (*due_ns <= stamp_now_ns()) {
        struct line *line = free_line(load);

        if (line == NULL) {
            *had_none = true;
            return;
        }
        ask(load, line, ANSWER_TOKENS, false, *had_none ? *due_ns : stamp_now_ns());
        *due_ns += NS_PER_S / RATE;
        ++*asked;
        if (*due_ns > stamp_now_ns())
            *had_none = false;
    }
}

/* --- the core ------------------------------------------------------------------------------------------------------------------- */

static void *look_at_core(void *context)
{
    struct core_watch *watch = context;
    int64_t due_ns = stamp_now_ns();

    while (!atomic_load(&watch->is_over) && watch->count < AWAYS_MAX) {
        const struct timespec due = {due_ns / NS_PER_S, due_ns % NS_PER_S};
        int64_t at_ns;

        clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &due, NULL);
        at_ns = stamp_now_ns();
        if (at_ns - due_ns > LATE_NS)
            watch->aways[watch->count++] = (struct span){due_ns - LOOK_NS, at_ns};
        due_ns = at_ns + LOOK_NS;
    }
    return NULL;
}

static void core_watch_begin(struct core_watch *watch)
{
    const struct sched_param first = {.sched_priority = sched_get_priority_max(SCHED_FIFO)};
    pthread_attr_t how;
    cpu_set_t core;

    watch->aways = calloc(AWAYS_MAX, sizeof(watch->aways[0]));
    check(watch->aways != NULL);
    CPU_ZERO(&core);
    CPU_SET(0, &core);
    pthread_attr_init(&how);
    pthread_attr_setinheritsched(&how, PTHREAD_EXPLICIT_SCHED);
    check(pthread_attr_setschedpolicy(&how, SCHED_FIFO) == 0 && pthread_attr_setschedparam(&how, &first) == 0);
    check(pthread_attr_setaffinity_np(&how, sizeof(core), &core) == 0);
    watch->is_on = pthread_create(&watch->thread, &how, look_at_core, watch) == 0;
    pthread_attr_destroy(&how);
}

static void core_watch_end(struct core_watch *watch)
{
    atomic_store(&watch->is_over, true);
    if (watch->is_on)
        pthread_join(watch->thread, NULL);
}

static bool was_away(const struct core_watch *watch, const struct span *span)
{
    for (uint32_t i = 0; i < watch->count; i++)
        if (watch->aways[i].from_ns < span->until_ns && span->from_ns < watch->aways[i].until_ns)
            return true;
    return false;
}

static double away_ms(const struct core_watch *watch, const struct span *measured)
{
    int64_t away_ns = 0;

    for (uint32_t i = 0; i < watch->count; i++)
        away_ns += max_i64(min_i64(watch->aways[i].until_ns, measured->until_ns) - max_i64(watch->aways[i].from_ns + LOOK_NS, measured->from_ns), 0);
    return (double)away_ns * 1e-6;
}

/* --- what is said of them ------------------------------------------------------------------------------------------------------- */

static double quantile_ms(const struct histogram *histogram, double q)
{
    return (double)histogram_quantile(histogram, q) * 1e-6;
}

static void tell_answers(struct load *load, const struct span *measured, uint64_t asked, double cpu_s, double others)
{
    static struct histogram added, there;

    histogram_init(&added);
    histogram_init(&there);
    for (uint32_t i = 0; i < load->answers_count; i++) {
        histogram_add(&added, load->answers[i].added_ns);
        if (!was_away(&load->watch, &load->answers[i].whole))
            histogram_add(&there, load->answers[i].added_ns);
    }
    printf("{\"name\": \"control\", \"case\": \"%d answers a second\", \"value\": %.3f, \"unit\": \"ms\", \"goal\": 1, \"of\": \"added p99\", "
           "\"added_p50_ms\": %.3f, \"added_p999_ms\": %.3f, \"whole_p50_ms\": %.3f, \"whole_p99_ms\": %.3f, \"whole_p999_ms\": %.3f, ",
           RATE, quantile_ms(&added, 0.99), quantile_ms(&added, 0.5), quantile_ms(&added, 0.999), quantile_ms(&load->latencies, 0.5),
           quantile_ms(&load->latencies, 0.99), quantile_ms(&load->latencies, 0.999));
    if (load->watch.is_on)
        printf("\"core_away_ms\": %.1f, \"core_there_answers\": %llu, \"core_there_p99_ms\": %.3f, \"core_there_p999_ms\": %.3f, ",
               away_ms(&load->watch, measured), (unsigned long long)there.count, quantile_ms(&there, 0.99), quantile_ms(&there, 0.999));
    printf("\"asked\": %llu, \"answered\": %llu, \"cpu_cores\": %.2f, \"cpu_us\": %.0f, \"others_cores\": %.2f}\n",
           (unsigned long long)asked, (unsigned long long)load->latencies.count, cpu_s / ((double)MEASURED_NS * 1e-9),
           cpu_s * 1e6 / (double)load->latencies.count, others);
}

static void measure_answers(struct load *load, const char *process)
{
    struct span measured = {0};
    int64_t began_ns, due_ns;
    struct spent since = {0}, now;
    bool had_none = false;
    uint64_t asked = 0;

    begin(load, LINES, 250000);
    load->answers = calloc(ANSWERS_MAX, sizeof(load->answers[0]));
    check(load->answers != NULL);
    for (uint32_t i = 0; i < LINES; i++) {
        open_line(load, i);
        stamp_begin(load->lines[i].fd);
    }
    core_watch_begin(&load->watch);
    began_ns = due_ns = stamp_now_ns();
    while (stamp_now_ns() - began_ns < WARM_UP_NS + MEASURED_NS) {
        struct epoll_event events[EVENTS_MAX];
        const int count = epoll_wait(load->poller, events, EVENTS_MAX, 100);
        uint64_t ticks;

        for (int i = 0; i < count; i++)
            if (events[i].data.u32 != UINT32_MAX)
                hear_answer(load, &load->lines[events[i].data.u32]);
        (void)!read(load->timer, &ticks, sizeof(ticks));
        ask_due(load, &due_ns, &had_none, &asked);
        if (measured.from_ns == 0 && stamp_now_ns() - began_ns >= WARM_UP_NS) {
            measured.from_ns = stamp_now_ns();
            since = spent_now(process);
            histogram_init(&load->latencies);
            load->answers_count = 0;
            asked = 0;
        }
    }
    measured.until_ns = stamp_now_ns();
    now = spent_now(process);
    core_watch_end(&load->watch);
    tell_answers(load, &measured, asked, now.own_s - since.own_s, others_cores(&since, &now, (double)MEASURED_NS * 1e-9));
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
    const int64_t at_ns = stamp_now_ns();

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
    began_ns = stamp_now_ns();
    since = spent_now(process);
    while (heard.done < STREAMS && stamp_now_ns() - began_ns < STREAMS_END_NS) {
        struct epoll_event events[EVENTS_MAX];
        const int count = epoll_wait(load->poller, events, EVENTS_MAX, 100);
        uint64_t ticks;

        for (int i = 0; i < count; i++)
            if (events[i].data.u32 != UINT32_MAX)
                hear_stream(load, &load->lines[events[i].data.u32], &heard);
        (void)!read(load->timer, &ticks, sizeof(ticks));
        for (; begun < STREAMS && stamp_now_ns() - began_ns >= BEGIN_NS / STREAMS * begun; begun++) {
            open_line(load, begun);
            ask(load, &load->lines[begun], STREAM_TOKENS, true, stamp_now_ns());
        }
    }
    seconds = (double)(stamp_now_ns() - began_ns) * 1e-9;
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
