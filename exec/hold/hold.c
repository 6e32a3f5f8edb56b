#include "hold/hold.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/files/socket.h"
#include "hold/message.h"

#define LOOK_MS 200

struct borrower {
    int socket; /* -1: free */
    int process;
};

struct holder {
    const struct hold_config *config;
    struct loan_message *message;
    size_t message_bytes;
    int listener;
    struct borrower borrowers[LOANS_MAX];
    uint32_t loans;
};

static enum status make_message(struct holder *holder, struct refusal *refusal)
{
    const struct shared_base *base = holder->config->base;
    const size_t weights_bytes = base->count * sizeof(base->weight[0]);

    check(base->count <= BASE_WEIGHTS_MAX);
    holder->message_bytes = sizeof(*holder->message) + weights_bytes;
    holder->message = calloc(1, holder->message_bytes);
    if (holder->message == NULL)
        return refuse(refusal, STATUS_FULL, "no memory for a base's table");
    memcpy(holder->message->magic, LOAN_MAGIC, sizeof(holder->message->magic));
    holder->message->version = LOAN_VERSION;
    memcpy(holder->message->digest, base->digest, DIGEST_BYTES);
    memcpy(holder->message->gpu, base->memory.gpu, GPU_ID_BYTES);
    holder->message->bytes = base->memory.bytes;
    holder->message->count = base->count;
    memcpy(holder->message->weight, base->weight, weights_bytes);
    return STATUS_OK;
}

static bool send_full(int socket)
{
    struct loan_message message = {.version = LOAN_VERSION, .full = 1};

    memcpy(message.magic, LOAN_MAGIC, sizeof(message.magic));
    return send(socket, &message, sizeof(message), MSG_NOSIGNAL) == (ssize_t)sizeof(message);
}

static bool send_base(const struct holder *holder, int socket)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec data = {holder->message, holder->message_bytes};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
    struct cmsghdr *head;

    memset(&control, 0, sizeof(control));
    head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(head), &holder->config->base->memory.file, sizeof(int));
    return sendmsg(socket, &message, MSG_NOSIGNAL) == (ssize_t)holder->message_bytes;
}

static struct borrower *free_place(struct holder *holder)
{
    for (uint32_t i = 0; i < LOANS_MAX; i++)
        if (holder->borrowers[i].socket < 0)
            return &holder->borrowers[i];
    return NULL;
}

static void lend(struct holder *holder)
{
    FILE *log = holder->config->log;
    struct borrower *place = free_place(holder);
    const int socket = accept(holder->listener, NULL, NULL);
    int process = 0;

    if (socket < 0)
        return;
    fcntl(socket, F_SETFD, FD_CLOEXEC);
    fcntl(socket, F_SETFL, O_NONBLOCK);
    if (!peer_may(socket, &process)) {
        fprintf(log, "berth-exec hold: process %d is another user's and gets nothing\n", process);
    } else if (place == NULL) {
        (void)send_full(socket);
        fprintf(log, "berth-exec hold: process %d gets nothing: %d have the base already\n", process, LOANS_MAX);
    } else if (!send_base(holder, socket)) {
        fprintf(log, "berth-exec hold: process %d cannot be answered: %s\n", process, strerror(errno));
    } else {
        *place = (struct borrower){socket, process};
        fprintf(log, "berth-exec hold: lent to process %d, loan %u of %d\n", process, ++holder->loans, LOANS_MAX);
        return;
    }
    close(socket);
}

/* A borrower has nothing to say but that it is gone. */
static void hear(struct holder *holder, struct borrower *borrower)
{
    char byte;
    const ssize_t bytes = recv(borrower->socket, &byte, sizeof(byte), 0);

    if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    close(borrower->socket);
    holder->loans--;
    fprintf(holder->config->log, "berth-exec hold: process %d %s, loans %u\n", borrower->process,
            bytes > 0 ? "speaks out of turn and is closed" : "is done", holder->loans);
    borrower->socket = -1;
}

static void look(struct holder *holder)
{
    struct pollfd events[LOANS_MAX + 1];

    for (uint32_t i = 0; i < LOANS_MAX; i++)
        events[i] = (struct pollfd){.fd = holder->borrowers[i].socket, .events = POLLIN}; /* poll() skips -1 */
    events[LOANS_MAX] = (struct pollfd){.fd = holder->listener, .events = POLLIN};
    if (poll(events, LOANS_MAX + 1, LOOK_MS) <= 0)
        return;
    for (uint32_t i = 0; i < LOANS_MAX; i++)
        if (events[i].revents != 0)
            hear(holder, &holder->borrowers[i]);
    if (events[LOANS_MAX].revents & POLLIN)
        lend(holder);
}

enum status hold_may(const char *socket_path, struct refusal *refusal)
{
    int line = -1;
    const enum status status = socket_connect(socket_path, SOCK_SEQPACKET, &line, refusal);

    if (status == STATUS_OK) {
        close(line);
        return refuse(refusal, STATUS_IO, "%s: another holder listens there", socket_path);
    }
    return status == STATUS_IO ? STATUS_OK : status;
}

enum status hold_run(const struct hold_config *config, const volatile sig_atomic_t *stop, struct refusal *refusal)
{
    struct holder holder = {.config = config, .listener = -1};
    enum status status = make_message(&holder, refusal);

    for (uint32_t i = 0; i < LOANS_MAX; i++)
        holder.borrowers[i].socket = -1;
    if (status == STATUS_OK)
        status = socket_listen(config->socket_path, SOCK_SEQPACKET, LOANS_MAX, "holder", &holder.listener, refusal);
    if (status == STATUS_OK) {
        fprintf(config->log, "berth-exec hold: ready, lending at %s\n", config->socket_path);
        while (!*stop)
            look(&holder);
        for (uint32_t i = 0; i < LOANS_MAX; i++)
            if (holder.borrowers[i].socket >= 0)
                close(holder.borrowers[i].socket);
        close(holder.listener);
        unlink(config->socket_path);
    }
    free(holder.message);
    return status;
}
