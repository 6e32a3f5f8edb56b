/* One process holds a base on a GPU, others borrow it. They meet at a Unix socket (SOCK_SEQPACKET, mode 0600): whoever connects is sent one
 * message, the table of the base with its descriptor, and says nothing. The connection is the loan: it counts against LOANS_MAX until it is
 * closed. The holder keeps no borrower alive and none keeps it: what is mapped stays mapped when the holder ends.
 * Both sides look at each other's credentials: the same user or root, others get nothing. */
#ifndef HOLD_HOLD_H
#define HOLD_HOLD_H

#include <signal.h>
#include <stdio.h>

#include "engine/model/shared_base.h"

#define LOANS_MAX 64

struct hold_config {
    const char *socket_path;
    const struct shared_base *base;
    FILE *log;                     /* a line a loan */
};
/* To be asked before a base is loaded for nothing, beside the one that is there. STATUS_IO: somebody lends at this path already. */
enum status hold_may(const char *socket_path, struct refusal *refusal);
/* Lends until *stop. STATUS_IO: the socket cannot be made. */
enum status hold_run(const struct hold_config *config, const volatile sig_atomic_t *stop, struct refusal *refusal);

struct loan {
    struct shared_base base;
    int socket;
};
/* STATUS_IO: nobody holds there; STATUS_FULL: LOANS_MAX have it already; STATUS_INVALID: the base there is not that of `digest`, or
 * who answers is a stranger or of another build. */
enum status loan_take(const char *socket_path, const uint8_t digest[DIGEST_BYTES], struct loan *ret_loan, struct refusal *refusal);
void loan_return(struct loan *loan); /* what is mapped stays until its device is closed; of one that was refused: nothing */

#endif
