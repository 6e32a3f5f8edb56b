/* A process a group, and a pipe from each. What comes through is a message's head and its body, one after the other. A process
 * whose reader is gone dies of its next message; one that dies itself closes its pipe, and how it ended says the rest. */
#include "cachelab/crew.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cachelab/progress.h"

enum message_kind { MESSAGE_PROGRESS, MESSAGE_INTERVAL, MESSAGE_RESULT, MESSAGE_INFO, MESSAGE_FAILED };

struct message {
    uint32_t kind;
    uint32_t cell; /* among all */
    uint32_t bytes;
    uint32_t status;
    union {
        struct {
            uint64_t requests;
            uint64_t expected;
        } progress;
        struct lab_interval interval;
        struct lab_result result;
        struct object_trace_info info; /* its format's name is the same text in every process: they are copies of this one */
        char text[TRACE_MESSAGE_MAX];
    } body;
};
#define HEAD_BYTES offsetof(struct message, body)

struct worker {
    pid_t pid;
    int in;                /* -1: it has ended */
    uint32_t cells_count;
    uint64_t requests;     /* so far */
    uint64_t expected;     /* in all; 0: not known */
    size_t got;
    struct message message;
};

struct gathering {
    const struct lab_crew *crew;
    struct worker *workers; /* [count] */
    uint32_t count;
    uint64_t *series_max;   /* [cells] */
    struct lab_result *results;
    struct lab_series *series;
    struct object_trace_info *info;
    char *message;
    enum status status;
    struct lab_progress bar;
};

/* --- in a worker --- */

struct sender {
    FILE *out;
    uint32_t *cells; /* its cells' numbers among all */
};

static void send(struct sender *sender, enum message_kind kind, uint32_t cell, enum status status, const void *body, size_t bytes)
{
    struct message message = {.kind = kind, .cell = cell, .bytes = (uint32_t)bytes, .status = status};

    if (fwrite(&message, HEAD_BYTES, 1, sender->out) != 1 || fwrite(body, bytes, 1, sender->out) != 1)
        _exit(1);
}

static bool on_progress(void *context, uint64_t requests, uint64_t expected)
{
    struct sender *sender = context;
    const uint64_t body[] = {requests, expected};

    send(sender, MESSAGE_PROGRESS, 0, STATUS_OK, body, sizeof(body));
    if (fflush(sender->out) != 0)
        _exit(1);
    return true;
}

static void on_interval(void *context, uint32_t cell, const struct lab_interval *interval)
{
    struct sender *sender = context;

    send(sender, MESSAGE_INTERVAL, sender->cells[cell], STATUS_OK, interval, sizeof(*interval));
}

_Noreturn static void work(const struct lab_crew *crew, struct sender *sender, uint32_t cells_count)
{
    struct lab_cell_setup *setups = calloc(cells_count, sizeof(*setups));
    struct lab_result *results = calloc(cells_count, sizeof(*results));
    struct lab_run run = {.trace = crew->trace, .setups = setups, .cells_count = cells_count, .warmup = crew->warmup,
                          .interval = crew->interval, .requests_max = crew->requests_max, .progress = on_progress,
                          .interval_end = on_interval, .context = sender};
    char message[TRACE_MESSAGE_MAX] = "no memory to begin with";
    struct object_trace_info info;
    enum status status = STATUS_FULL;

    for (uint32_t i = 0; setups != NULL && i < cells_count; i++)
        setups[i] = crew->setups[sender->cells[i]];
    if (setups != NULL && results != NULL)
        status = lab_group_run(&run, results, &info, message);
    if (status == STATUS_OK) {
        (void)on_progress(sender, info.requests, info.requests);
        for (uint32_t i = 0; i < cells_count; i++)
            send(sender, MESSAGE_RESULT, sender->cells[i], STATUS_OK, &results[i], sizeof(results[i]));
        send(sender, MESSAGE_INFO, 0, STATUS_OK, &info, sizeof(info));
    } else {
        send(sender, MESSAGE_FAILED, 0, status, message, sizeof(message));
    }
    _exit(fflush(sender->out) == 0 ? 0 : 1);
}

/* --- beginning --- */

static enum status refuse(struct gathering *gathering, const char *what, const char *why)
{
    gathering->status = STATUS_IO;
    snprintf(gathering->message, TRACE_MESSAGE_MAX, "%s: %s", what, why);
    return STATUS_IO;
}

/* Neighbours in the list are of one policy, and cost about the same: they are dealt round. What keeps every request does so in one
 * process for all its cells. */
static uint32_t worker_of(const struct gathering *gathering, uint32_t cell)
{
    return gathering->crew->setups[cell].policy->evict == NULL ? 0 : cell % gathering->count;
}

/* Fills the numbers of its cells, or counts them only. */
static uint32_t cells_of(const struct gathering *gathering, uint32_t number, uint32_t *ret_cells)
{
    uint32_t count = 0;

    for (uint32_t cell = 0; cell < gathering->crew->cells_count; cell++) {
        if (worker_of(gathering, cell) != number)
            continue;
        if (ret_cells != NULL)
            ret_cells[count] = cell;
        count++;
    }
    return count;
}

static enum status worker_start(struct gathering *gathering, uint32_t number)
{
    const struct lab_crew *crew = gathering->crew;
    struct worker *worker = &gathering->workers[number];
    const uint32_t cells_count = cells_of(gathering, number, NULL);
    struct sender sender = {.out = NULL};
    int ends[2];

    if (cells_count == 0)
        return STATUS_OK;
    if (pipe(ends) != 0)
        return refuse(gathering, "no pipe for a process", strerror(errno));
    *worker = (struct worker){.in = ends[0], .cells_count = cells_count};
    worker->pid = fork();
    if (worker->pid == 0) {
        signal(SIGINT, SIG_DFL);
        signal(SIGTERM, SIG_DFL);
        signal(SIGPIPE, SIG_DFL);
        /* Else a worker would keep the pipes of others open when the reader is gone. */
        for (uint32_t i = 0; i <= number; i++)
            if (gathering->workers[i].in >= 0)
                close(gathering->workers[i].in);
        sender.out = fdopen(ends[1], "w");
        sender.cells = calloc(cells_count, sizeof(*sender.cells));
        if (sender.out == NULL || sender.cells == NULL)
            _exit(1);
        (void)cells_of(gathering, number, sender.cells);
        work(crew, &sender, worker->cells_count);
    }
    close(ends[1]);
    if (worker->pid > 0)
        return STATUS_OK;
    close(ends[0]);
    worker->in = -1;
    return refuse(gathering, "no further process", strerror(errno));
}

/* --- gathering --- */

static void series_add(struct gathering *gathering, uint32_t cell, const struct lab_interval *interval)
{
    struct lab_series *series = &gathering->series[cell];
    uint64_t *max = &gathering->series_max[cell];

    if (series->count == *max) {
        const uint64_t to = max_u64(2 * *max, 64);
        struct lab_interval *larger = realloc(series->intervals, to * sizeof(*larger));

        if (larger == NULL) {
            (void)refuse(gathering, "no memory for the series", "choose a longer interval");
            return;
        }
        series->intervals = larger;
        *max = to;
    }
    series->intervals[series->count++] = *interval;
}

static void message_take(struct gathering *gathering, struct worker *worker)
{
    const struct message *message = &worker->message;

    check(message->cell < gathering->crew->cells_count);
    switch ((enum message_kind)message->kind) {
    case MESSAGE_PROGRESS:
        worker->requests = message->body.progress.requests;
        worker->expected = message->body.progress.expected;
        break;
    case MESSAGE_INTERVAL:
        series_add(gathering, message->cell, &message->body.interval);
        break;
    case MESSAGE_RESULT:
        gathering->results[message->cell] = message->body.result;
        break;
    case MESSAGE_INFO:
        *gathering->info = message->body.info;
        break;
    case MESSAGE_FAILED:
        if (gathering->status == STATUS_OK) {
            gathering->status = message->status;
            memcpy(gathering->message, message->body.text, TRACE_MESSAGE_MAX);
        }
        break;
    }
}

/* What its end says, when it hadn't said it. */
static void worker_ended(struct gathering *gathering, struct worker *worker)
{
    int code = 0;
    char how[96];

    close(worker->in);
    worker->in = -1;
    while (waitpid(worker->pid, &code, 0) < 0 && errno == EINTR)
        ;
    if (gathering->status != STATUS_OK || (WIFEXITED(code) && WEXITSTATUS(code) == 0))
        return;
    if (WIFSIGNALED(code) && (WTERMSIG(code) == SIGINT || WTERMSIG(code) == SIGTERM)) {
        gathering->status = STATUS_END;
        return;
    }
    snprintf(how, sizeof(how), WIFSIGNALED(code) ? "signal %d ended it; was it the memory? fewer --jobs take less" : "it ended with code %d",
             WIFSIGNALED(code) ? WTERMSIG(code) : WEXITSTATUS(code));
    (void)refuse(gathering, "a process of the lab", how);
}

static void worker_read(struct gathering *gathering, struct worker *worker)
{
    unsigned char bytes[1 << 16];
    ssize_t count = read(worker->in, bytes, sizeof(bytes));
    size_t at = 0;

    if (count < 0 && errno == EINTR)
        return;
    if (count <= 0) {
        worker_ended(gathering, worker);
        return;
    }
    while (at < (size_t)count) {
        const size_t wanted = HEAD_BYTES + (worker->got < HEAD_BYTES ? 0 : worker->message.bytes);
        size_t taken;

        check(wanted <= sizeof(worker->message));
        taken = (size_t)min_u64(wanted - worker->got, (size_t)count - at);

        memcpy((unsigned char *)&worker->message + worker->got, bytes + at, taken);
        worker->got += taken;
        at += taken;
        if (worker->got >= HEAD_BYTES && worker->got == HEAD_BYTES + worker->message.bytes) {
            message_take(gathering, worker);
            worker->got = 0;
        }
    }
}

static void show(struct gathering *gathering)
{
    uint128 requests = 0;

    for (uint32_t i = 0; i < gathering->count; i++)
        requests += (uint128)gathering->workers[i].requests * gathering->workers[i].cells_count;
    for (uint32_t i = 0; i < gathering->count; i++)
        gathering->bar.requests_expected = max_u64(gathering->bar.requests_expected, gathering->workers[i].expected);
    lab_progress_show(&gathering->bar, (uint64_t)(requests / gathering->crew->cells_count));
}

/* Until every pipe is closed, somebody failed, or *stop. */
static void gather(struct gathering *gathering, struct pollfd *polls)
{
    while (gathering->status == STATUS_OK) {
        uint32_t count = 0;
        uint32_t at = 0;

        for (uint32_t i = 0; i < gathering->count; i++)
            if (gathering->workers[i].in >= 0)
                polls[count++] = (struct pollfd){.fd = gathering->workers[i].in, .events = POLLIN};
        if (count == 0)
            return;
        if (poll(polls, count, 200) < 0)
            check(errno == EINTR);
        if (*gathering->crew->stop) {
            gathering->status = STATUS_END;
            return;
        }
        for (uint32_t i = 0; i < gathering->count; i++) {
            struct worker *worker = &gathering->workers[i];

            if (worker->in >= 0 && polls[at++].revents != 0)
                worker_read(gathering, worker);
        }
        show(gathering);
    }
}

/* Nobody goes on when one has failed. */
static void workers_end(struct gathering *gathering)
{
    for (uint32_t i = 0; i < gathering->count; i++)
        if (gathering->workers[i].in >= 0)
            kill(gathering->workers[i].pid, SIGTERM);
    for (uint32_t i = 0; i < gathering->count; i++)
        if (gathering->workers[i].in >= 0)
            worker_ended(gathering, &gathering->workers[i]);
}

enum status lab_crew_run(const struct lab_crew *crew, struct lab_result *ret_results, struct lab_series *ret_series,
                         struct object_trace_info *ret_info, char *ret_message)
{
    struct gathering gathering = {.crew = crew, .count = min_u32(crew->jobs, crew->cells_count), .results = ret_results,
                                  .series = ret_series, .info = ret_info, .message = ret_message};
    struct pollfd *polls = calloc(gathering.count, sizeof(*polls));

    check(crew->jobs >= 1 && crew->cells_count >= 1);
    gathering.workers = calloc(gathering.count, sizeof(*gathering.workers));
    gathering.series_max = calloc(crew->cells_count, sizeof(*gathering.series_max));
    if (polls == NULL || gathering.workers == NULL || gathering.series_max == NULL) {
        (void)refuse(&gathering, "cells", "no memory for so many");
    } else {
        for (uint32_t i = 0; i < gathering.count; i++)
            gathering.workers[i].in = -1;
        lab_progress_begin(&gathering.bar, crew->progress, crew->trace->path, 0);
        fflush(NULL); /* or a worker would have it written a second time */
        for (uint32_t i = 0; gathering.status == STATUS_OK && i < gathering.count; i++)
            (void)worker_start(&gathering, i);
        gather(&gathering, polls);
        workers_end(&gathering);
        lab_progress_end(&gathering.bar);
    }
    free(gathering.series_max);
    free(gathering.workers);
    free(polls);
    return gathering.status;
}

void lab_series_free(struct lab_series *series, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        free(series[i].intervals);
}
