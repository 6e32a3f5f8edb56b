/* When what was received came to its socket, which the kernel stamps by the wall clock: whoever is late to read it is late by himself. */
#ifndef BENCH_STAMP_H
#define BENCH_STAMP_H

#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base/base.h"

union stamp_room {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(struct timespec))];
};

static inline int64_t stamp_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

static inline void stamp_begin(int socket)
{
    const int one = 1;

    check(setsockopt(socket, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof(one)) == 0);
}

/* As recvmsg() without descriptors. *ret_came_ns stays where nothing came, or it has no stamp. */
static inline ssize_t stamp_receive(int socket, void *bytes, size_t bytes_max, int flags, int64_t *ret_came_ns)
{
    struct iovec piece = {.iov_base = bytes, .iov_len = bytes_max};
    union stamp_room room;
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = room.bytes, .msg_controllen = sizeof(room.bytes)};
    const ssize_t got = recvmsg(socket, &message, flags);

    for (struct cmsghdr *head = got >= 0 ? CMSG_FIRSTHDR(&message) : NULL; head != NULL; head = CMSG_NXTHDR(&message, head)) {
        struct timespec at;

        if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_TIMESTAMPNS)
            continue;
        memcpy(&at, CMSG_DATA(head), sizeof(at));
        *ret_came_ns = (int64_t)at.tv_sec * NS_PER_S + at.tv_nsec;
    }
    return got;
}

#endif
