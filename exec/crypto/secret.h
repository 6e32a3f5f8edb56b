/* Keys in memory: in pages that are locked, between guard pages, zeroed when they are given back. And a process that leaves no
 * core and lets nobody of its own user look inside. */
#ifndef CRYPTO_SECRET_H
#define CRYPTO_SECRET_H

#include "engine/files/refusal.h"

#define KEY_BYTES 32

/* Zeroed. NULL: no memory. secret_free() wipes, and accepts NULL. */
void *secret_alloc(size_t bytes);
void secret_free(void *secret);
/* False once some page could not be locked (RLIMIT_MEMLOCK): keys could then reach swap. For a host to warn of. */
bool secrets_are_locked(void);

/* No core dump, no ptrace, no reading of /proc/PID/mem by others of this user; what is forked from here is so too. */
enum status secrets_harden_process(struct refusal *refusal);

/* Where the master key comes from: a file that only its owner may read, or what a shell command prints. Either holds 64
 * hexadecimal digits, and at most a line's end after them. Exactly one is not NULL. */
struct master_source {
    const char *file;
    const char *command;
};
/* `ret_key`: in memory of secret_alloc(). A command has 30 s. */
enum status master_load(const struct master_source *source, uint8_t ret_key[KEY_BYTES], struct refusal *refusal);
/* A new random master key in a new file of mode 0600, on disk when this returns. */
enum status master_create(const char *path, struct refusal *refusal);

#endif
