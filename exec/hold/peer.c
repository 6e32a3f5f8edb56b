#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* struct ucred */
#endif
#include <sys/socket.h>
#include <unistd.h>

#include "hold/message.h"

bool peer_may(int socket, int *ret_id)
{
    struct ucred peer = {.uid = (uid_t)-1};
    socklen_t bytes = sizeof(peer);

    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0 || bytes != sizeof(peer))
        return false;
    *ret_id = (int)peer.pid;
    return peer.uid == geteuid() || peer.uid == 0;
}
