/* The vault as a child, and what is done to keys.db while no vault has it. */
#define _DEFAULT_SOURCE /* syscall */
#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "crypto/keys.h"
#include "crypto/vault.h"

/* Whatever else the caller has open is not the vault's. */
static int keep_only(int socket)
{
    if (socket != 3 && dup2(socket, 3) != 3)
        return -1;
    (void)syscall(SYS_close_range, 4u, ~0u, 0u);
    return 3;
}

enum status vault_start(const struct vault_options *options, int *ret_socket, pid_t *ret_process, struct refusal *refusal)
{
    int ends[2];
    pid_t child;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return refuse(refusal, STATUS_IO, "no socket for the vault: %s", strerror(errno));
    child = fork();
    if (child == 0) {
        signal(SIGINT, SIG_IGN); /* a terminal's Ctrl-C is for those who drain; the vault ends after them */
        _exit(vault_serve(options, keep_only(ends[1]), refusal) == STATUS_OK ? 0 : 1);
    }
    close(ends[1]);
    if (child < 0) {
        close(ends[0]);
        return refuse(refusal, STATUS_IO, "the vault cannot be started: %s", strerror(errno));
    }
    *ret_socket = ends[0];
    *ret_process = child;
    return STATUS_OK;
}

enum status vault_rotate_master(const char *keys_path, const struct master_source *from, const struct master_source *to,
                                struct refusal *refusal)
{
    uint8_t *masters;
    struct keys *keys = NULL;
    enum status status;

    if (access(keys_path, F_OK) != 0)
        return refuse(refusal, STATUS_NOT_FOUND, "%s: %s", keys_path, strerror(errno)); /* and none is made */
    masters = secret_alloc(2 * KEY_BYTES);
    if (masters == NULL)
        return refuse(refusal, STATUS_IO, "no memory for keys");
    status = master_load(from, masters, refusal);
    if (status == STATUS_OK)
        status = master_load(to, masters + KEY_BYTES, refusal);
    if (status == STATUS_OK)
        status = keys_open(keys_path, masters, &keys, refusal);
    if (status == STATUS_OK) {
        status = keys_rotate_master(keys, masters + KEY_BYTES, refusal);
        if (status == STATUS_CORRUPT)
            status = refuse(refusal, status, "keys.db: a row isn't what was written; take it from a backup");
    }
    keys_close(keys);
    secret_free(masters);
    return status;
}
