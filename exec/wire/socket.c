#define _GNU_SOURCE /* MSG_CMSG_CLOEXEC */
#include "wire/socket.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

union control {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(WIRE_DESCRIPTORS_MAX * sizeof(int))];
};

static void attach(struct msghdr *message, union control *control, const int *descriptors, uint32_t count)
{
    struct cmsghdr *head;

    memset(control, 0, sizeof(*control));
    message->msg_control = control->bytes;
    message->msg_controllen = CMSG_SPACE(count * sizeof(int));
    head = CMSG_FIRSTHDR(message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(head), descriptors, count * sizeof(int));
}

static enum status send_one(int socket, const struct wire_out *out)
{
    struct iovec pieces[2] = {{.iov_base = (void *)(uintptr_t)out->header, .iov_len = WIRE_HEADER_BYTES},
                              {.iov_base = (void *)(uintptr_t)out->body, .iov_len = out->body_bytes}};
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2};
    union control control;
    ssize_t sent;

    if (out->descriptors_count > 0)
        attach(&message, &control, out->descriptors, out->descriptors_count);
    do
        sent = sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent >= 0)
        return STATUS_OK;
    if (errno == EAGAIN || errno == EWOULDBLOCK)
        return STATUS_FULL;
    return errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN ? STATUS_END : STATUS_IO;
}

enum status wire_flush(struct wire *wire, int socket, int64_t now_ns)
{
    struct wire_out out;

    while (wire_next(wire, &out)) {
        const enum status status = send_one(socket, &out);

        if (status != STATUS_OK)
            return status;
        wire_sent(wire, now_ns);
    }
    return STATUS_OK;
}

/* The kernel gives as many as there is room for, whatever was sent, and closes the rest. */
static void gather(struct msghdr *message, struct wire_inbox *inbox)
{
    for (struct cmsghdr *head = CMSG_FIRSTHDR(message); head != NULL; head = CMSG_NXTHDR(message, head)) {
        const size_t count = head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS ? (head->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;

        check(inbox->descriptors_count + count <= WIRE_DESCRIPTORS_MAX);
        memcpy(inbox->descriptors + inbox->descriptors_count, CMSG_DATA(head), count * sizeof(int));
        inbox->descriptors_count += (uint32_t)count;
    }
}

void wire_inbox_close(struct wire_inbox *inbox)
{
    for (uint32_t i = 0; i < inbox->descriptors_count; i++)
        close(inbox->descriptors[i]);
    inbox->descriptors_count = 0;
}

/* An empty packet reads like an end, and is none. */
static bool is_closed(int socket)
{
    struct pollfd one = {.fd = socket};

    return poll(&one, 1, 0) > 0 && (one.revents & POLLHUP) != 0;
}

enum wire_received wire_receive(struct wire *wire, int socket, int64_t now_ns, struct wire_inbox *inbox, struct wire_frame *ret_frame)
{
    struct iovec piece = {.iov_base = inbox->bytes, .iov_len = sizeof(inbox->bytes)};
    union control control;
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
    enum wire_verdict verdict;
    ssize_t count;

    inbox->descriptors_count = 0;
    do
        count = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (count < 0 && errno == EINTR);
    if (count < 0)
        return errno == EAGAIN || errno == EWOULDBLOCK ? WIRE_RECEIVED_EMPTY : WIRE_RECEIVED_END;
    gather(&message, inbox);
    if (count == 0 && is_closed(socket)) {
        wire_inbox_close(inbox);
        return WIRE_RECEIVED_END;
    }
    if (count == 0 || (message.msg_flags & MSG_TRUNC) != 0)
        verdict = wire_take_broken(wire, WIRE_FAULT_LENGTH);
    else if (message.msg_flags & MSG_CTRUNC)
        verdict = wire_take_broken(wire, WIRE_FAULT_DESCRIPTORS);
    else
        verdict = wire_take(wire, now_ns, inbox->bytes, (size_t)count, inbox->descriptors_count, ret_frame);
    if (verdict == WIRE_FRAME)
        return WIRE_RECEIVED_FRAME;
    wire_inbox_close(inbox);
    return verdict == WIRE_OVER ? WIRE_RECEIVED_OVER : WIRE_RECEIVED_NOTHING;
}
