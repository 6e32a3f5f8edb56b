/* Frames over a SOCK_SEQPACKET: one a packet, descriptors by SCM_RIGHTS. Never waits. */
#ifndef WIRE_SOCKET_H
#define WIRE_SOCKET_H

#include "wire/wire.h"

/* Where a frame comes to lie; one may serve many wires, one after the other. */
struct wire_inbox {
    uint8_t bytes[WIRE_FRAME_BYTES_MAX];
    int descriptors[WIRE_DESCRIPTORS_MAX]; /* close-on-exec; of a WIRE_FRAME they are the host's, which closes what it does not want */
    uint32_t descriptors_count;
};

/* Sends what may be sent. STATUS_OK: all of it; STATUS_FULL: the socket takes no more for now; STATUS_END: nobody is there any more;
 * STATUS_IO: the socket refuses. */
enum status wire_flush(struct wire *wire, int socket, int64_t now_ns);

enum wire_received {
    WIRE_RECEIVED_FRAME,   /* ret_frame, and inbox->descriptors */
    WIRE_RECEIVED_NOTHING, /* one that is done with */
    WIRE_RECEIVED_OVER,    /* a fault: wire_state().fault */
    WIRE_RECEIVED_EMPTY,   /* nothing waits */
    WIRE_RECEIVED_END      /* the other end is closed, or the socket fails */
};
/* At most one packet. */
enum wire_received wire_receive(struct wire *wire, int socket, int64_t now_ns, struct wire_inbox *inbox, struct wire_frame *ret_frame);
/* Closes and forgets them. */
void wire_inbox_close(struct wire_inbox *inbox);

#endif
