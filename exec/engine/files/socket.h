/* Unix sockets under a path. */
#ifndef FILES_SOCKET_H
#define FILES_SOCKET_H

#include "engine/files/refusal.h"

/* Listens at `path`, mode 0600, not blocking, for connections of `type` (SOCK_STREAM, SOCK_SEQPACKET). A socket file that nobody listens on is
 * replaced; one that somebody does is refused, as is anything else that lies there. `who` is what listens: "server". */
enum status socket_listen(const char *path, int type, int waiting_max, const char *who, int *ret_socket, struct refusal *refusal);
/* STATUS_IO: nobody listens there, or this user may not. */
enum status socket_connect(const char *path, int type, int *ret_socket, struct refusal *refusal);

#endif
