#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* MSG_CMSG_CLOEXEC */
#endif
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "engine/files/socket.h"
#include "hold/hold.h"
#include "hold/message.h"

/* So many descriptors of a stranger are taken, to be closed. */
#define FILES_MAX 8

/* The descriptor that came; -1: none, or more than one, which are closed. */
static int take_file(struct msghdr *message)
{
    int files[FILES_MAX];
    size_t count = 0;

    for (struct cmsghdr *head = CMSG_FIRSTHDR(message); head != NULL; head = CMSG_NXTHDR(message, head)) {
        const size_t here = head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS ? (head->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;

        for (size_t i = 0; i < here; i++) {
            int file;

            memcpy(&file, CMSG_DATA(head) + i * sizeof(int), sizeof(int));
            if (count < FILES_MAX)
                files[count++] = file;
            else
                close(file);
        }
    }
    if (count == 1)
        return files[0];
    for (size_t i = 0; i < count; i++)
        close(files[i]);
    return -1;
}

static enum status strange(const char *path, const char *what, struct refusal *refusal)
{
    return refuse(refusal, STATUS_INVALID, "%s: %s; is a berth-exec hold of this build listening there?", path, what);
}

/* One message, whole, into [LOAN_BYTES_MAX]. */
static enum status receive(const char *path, int socket, struct loan_message *ret_message, int *ret_file, struct refusal *refusal)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(FILES_MAX * sizeof(int))];
    } control;
    struct iovec data = {ret_message, LOAN_BYTES_MAX};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
    const struct timeval wait = {.tv_sec = LOAN_WAIT_S};
    ssize_t bytes;

    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
    do
        bytes = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    while (bytes < 0 && errno == EINTR);
    if (bytes <= 0)
        return strange(path, bytes == 0 ? "the other end says nothing and leaves" : "no answer came", refusal);
    *ret_file = take_file(&message);
    if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 || (size_t)bytes < sizeof(*ret_message) ||
        memcmp(ret_message->magic, LOAN_MAGIC, sizeof(ret_message->magic)) != 0 || ret_message->version != LOAN_VERSION ||
        ret_message->zero != 0 || ret_message->count > BASE_WEIGHTS_MAX ||
        (size_t)bytes != sizeof(*ret_message) + ret_message->count * sizeof(ret_message->weight[0]))
        return strange(path, "the answer is no holder's of this version", refusal);
    return STATUS_OK;
}

static enum status take_table(const char *path, const struct loan_message *message, const uint8_t digest[DIGEST_BYTES],
                              struct shared_base *ret_base, struct refusal *refusal)
{
    if (message->full)
        return refuse(refusal, STATUS_FULL, "%s: %d processes have the base already", path, LOANS_MAX);
    if (ret_base->memory.file < 0 || message->bytes < 1)
        return strange(path, "the answer brings no memory", refusal);
    if (memcmp(message->digest, digest, DIGEST_BYTES) != 0)
        return refuse(refusal, STATUS_INVALID, "%s: the base that is held there is not the model's: their weights have other digests", path);
    memcpy(ret_base->digest, digest, DIGEST_BYTES);
    memcpy(ret_base->memory.gpu, message->gpu, GPU_ID_BYTES);
    ret_base->memory.bytes = message->bytes;
    ret_base->count = message->count;
    ret_base->weight = calloc(message->count + 1, sizeof(ret_base->weight[0]));
    if (ret_base->weight == NULL)
        return refuse(refusal, STATUS_IO, "no memory for a base's table");
    memcpy(ret_base->weight, message->weight, message->count * sizeof(ret_base->weight[0]));
    return STATUS_OK;
}

enum status loan_take(const char *socket_path, const uint8_t digest[DIGEST_BYTES], struct loan *ret_loan, struct refusal *refusal)
{
    struct loan loan = {.base.memory.file = -1, .socket = -1};
    struct loan_message *message = calloc(1, LOAN_BYTES_MAX);
    enum status status;
    int process;

    if (message == NULL)
        return refuse(refusal, STATUS_IO, "no memory for a base's table");
    status = socket_connect(socket_path, SOCK_SEQPACKET, &loan.socket, refusal);
    if (status == STATUS_OK && !peer_may(loan.socket, &process))
        status = refuse(refusal, STATUS_INVALID, "%s: who listens there is another user", socket_path);
    if (status == STATUS_OK)
        status = receive(socket_path, loan.socket, message, &loan.base.memory.file, refusal);
    if (status == STATUS_OK)
        status = take_table(socket_path, message, digest, &loan.base, refusal);
    free(message);
    if (status == STATUS_OK)
        *ret_loan = loan;
    else
        loan_return(&loan);
    return status;
}

void loan_return(struct loan *loan)
{
    shared_base_free(&loan->base);
    if (loan->socket >= 0)
        close(loan->socket);
    loan->socket = -1;
}
