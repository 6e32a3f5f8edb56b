/* `berth-exec control` is two processes of one command line: the keeper, which the user starts, and the control plane under it. */
#ifndef EXEC_CMD_CONTROL_H
#define EXEC_CMD_CONTROL_H

#include "control/core/gpus.h"
#include "crypto/secret.h"
#include "keeper/keeper.h"

#define CONTROL_BASES_MAX 64
/* This very program, whatever has since been put in its file's place. */
#define CONTROL_SELF "/proc/self/exe"
#define CONTROL_SERVER_REQUESTS_MAX 4096 /* a server takes no more, whatever it is told */
/* In the control plane: the socket that the keeper listens on, if it does. */
#define CONTROL_LISTENER KEEPER_INHERITED

struct control_asked {
    const char *state;
    const char *postgres; /* NULL: SQLite in the folder */
    char address[64];     /* "": no API */
    uint16_t port;
    const char *certificate_file;
    const char *key_file;
    const char *bases[CONTROL_BASES_MAX];
    uint32_t bases_count;
    struct master_source master;
    bool gate_off;
    const char *adapters_folder; /* NULL: no adapters that were made elsewhere */
    const char *device;   /* auto, cpu or cuda */
    struct core_gpus gpus; /* the keeper found them */
    int64_t devices;      /* 0: one more than there are bases, and at least one for each GPU */
    int64_t threads;      /* of each server; 0: all */
    int64_t price_nano_per_hour;
    int64_t replica_target; /* these four: 0 is the core's own */
    int64_t server_requests;
    int64_t scale_up_s;
    int64_t scale_down_s;
};

/* `device`: auto, cpu, which asks nobody, or cuda, which must be there: STATUS_INVALID. */
enum status control_gpus_find(const char *device, struct core_gpus *ret_gpus, struct refusal *refusal);
/* The control plane itself: its exit code. Descriptors KEEPER_SOCKET and, with an address, CONTROL_LISTENER are the keeper's. */
int control_plane(const struct control_asked *asked);

#endif
