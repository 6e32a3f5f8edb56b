/* What a holder says to each who connects. Both ends are on one machine and of one build, so numbers are as they lie in memory. */
#ifndef HOLD_MESSAGE_H
#define HOLD_MESSAGE_H

#include "engine/model/shared_base.h"

#define LOAN_MAGIC "berthold"
#define LOAN_VERSION 1
/* How long the other side may take for its one message. */
#define LOAN_WAIT_S 5

struct loan_message {
    char magic[8];
    uint32_t version;
    uint32_t full;                 /* 1: LOANS_MAX are out; nothing follows */
    uint8_t digest[DIGEST_BYTES];
    uint8_t gpu[GPU_ID_BYTES];
    int64_t bytes;
    uint32_t count, zero;
    struct base_weight weight[];   /* [count] */
};
#define LOAN_BYTES_MAX (sizeof(struct loan_message) + BASE_WEIGHTS_MAX * sizeof(struct base_weight))

/* True: the process at the other end is of this user, or root's. ret_id: its process id. */
bool peer_may(int socket, int *ret_id);

#endif
