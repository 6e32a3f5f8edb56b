/* A vault in a folder of its own. */
#ifndef TESTS_EXEC_CRYPTO_VAULT_RIG_H
#define TESTS_EXEC_CRYPTO_VAULT_RIG_H

#include <sys/types.h>

#include "crypto/vault.h"
#include "support.h"

struct vault_rig {
    char folder[256];
    struct vault_options options;
    struct vault *client;
    pid_t process;
    struct refusal refusal;
    char keys_path[320];
    char master_path[320];
    char log_path[320];
};

/* With a master key; no vault runs yet. `folder` exists. */
void vault_rig_init(struct vault_rig *rig, const char *folder);
enum status vault_rig_start(struct vault_rig *rig);
/* Ends the vault by closing its socket, and returns its exit code; a signal: 128 and its number. */
int vault_rig_stop(struct vault_rig *rig);
void vault_rig_kill(struct vault_rig *rig);

#endif
