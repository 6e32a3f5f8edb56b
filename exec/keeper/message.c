/* Messages over the socket between keeper and control plane; neither ever waits for the other. */
#define _GNU_SOURCE /* MSG_CMSG_CLOEXEC */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "keeper/internal.h"

union control {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int))];
};

enum status message_send(int socket, const struct keeper_message *message, int descriptor)
{
    struct iovec piece = {.iov_base = (void *)(uintptr_t)message, .iov_len = sizeof(*message)};
    struct msghdr packet = {.msg_iov = &piece, .msg_iovlen = 1};
    union control control;
    ssize_t sent;

    memset(&control, 0, sizeof(control));
    if (descriptor >= 0) {
        control.align = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
        memcpy(CMSG_DATA(&control.align), &descriptor, sizeof(descriptor));
        packet.msg_control = control.bytes;
        packet.msg_controllen = sizeof(control.bytes);
    }
    do
        sent = sendmsg(socket, &packet, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent >= 0)
        return STATUS_OK;
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == ETOOMANYREFS ? STATUS_FULL : STATUS_IO;
}

enum status message_receive(int socket, struct keeper_message *ret_message, int *ret_descriptor)
{
    struct keeper_message message;
    struct iovec piece = {.iov_base = &message, .iov_len = sizeof(message)};
    union control control;
    struct msghdr packet = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
    struct cmsghdr *head;
    int descriptor = -1;
    ssize_t count;

    do
        count = recvmsg(socket, &packet, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (count < 0 && errno == EINTR);
    if (count < 0)
        return errno == EAGAIN || errno == EWOULDBLOCK ? STATUS_END : STATUS_IO;
    head = CMSG_FIRSTHDR(&packet);
    if (head != NULL && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS && head->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(&descriptor, CMSG_DATA(head), sizeof(descriptor));
    if (count != sizeof(message) || (packet.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
        if (descriptor >= 0)
            close(descriptor);
        return STATUS_IO;
    }
    *ret_message = message;
    *ret_descriptor = descriptor;
    return STATUS_OK;
}
