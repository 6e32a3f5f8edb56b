/* The vault: a process of its own that alone holds the master key and keys.db. It gives out one object's data key at a time, seals
 * small texts itself, and says each act to a log; whoever takes over its client can ask, slowly and on record, and holds no key
 * but those of the objects it asked for. Client and vault speak over a SOCK_SEQPACKET pair. */
#ifndef CRYPTO_VAULT_H
#define CRYPTO_VAULT_H

#include <sys/types.h>

#include "crypto/names.h"
#include "crypto/secret.h"

#define VAULT_TEXT_MAX 57344
/* What sealing adds to a text. */
#define VAULT_SEALED_EXTRA 41

/* One line an act: "act=key_give tenant=acme id=file-1 purpose=- status=ok us=35"; names and counts, nothing else. */
typedef void vault_log(void *context, const char *line);

struct vault_options {
    const char *keys_path; /* made, mode 0600, when it isn't there; its folder must be the owner's alone */
    struct master_source master;
    uint32_t keys_per_s;  /* a tenant; ten times that for all; a burst of ten seconds. 0: 100 */
    uint32_t texts_per_s; /* the same for texts. 0: 2000 */
    vault_log *log;       /* called in the vault's process; may be NULL */
    void *log_context;
};

/* The vault itself: serves `socket` until the other end is closed, then returns. What keeps it from starting is told to the client
 * and returned. */
enum status vault_serve(const struct vault_options *options, int socket, struct refusal *refusal);
/* The same in a child, which keeps none of the caller's descriptors but stdin, stdout and stderr. */
enum status vault_start(const struct vault_options *options, int *ret_socket, pid_t *ret_process, struct refusal *refusal);
/* While no vault has keys.db open: puts all tenants' keys under another master key, in one transaction. */
enum status vault_rotate_master(const char *keys_path, const struct master_source *from, const struct master_source *to,
                                struct refusal *refusal);

/* The client. Calls may come from several threads; they go one after the other. All of them:
 *   STATUS_NOT_FOUND  the tenant has no such key, or it was shredded: the two look alike
 *   STATUS_FULL       too many requests; try again in vault_retry_ms()
 *   STATUS_CORRUPT    keys.db or a sealed text isn't what it was
 *   STATUS_IO         the vault is gone, or its disk refuses; an act may or may not have been done: ask again, all may be repeated
 *   STATUS_INVALID    a bad name or size; a name that is another tenant's */
struct vault;
/* Waits until the vault is ready. The socket is the client's from here on, also when this fails. */
enum status vault_open(int socket, struct vault **ret_vault, struct refusal *refusal);
void vault_close(struct vault *vault);
uint32_t vault_retry_ms(const struct vault *vault); /* of the last STATUS_FULL */

/* A key for a new tenant; one that has a key keeps it, one that was shredded gets none again. */
enum status vault_tenant_create(struct vault *vault, const char *tenant, struct refusal *refusal);
/* A new tenant's key, and all of the tenant's data keys wrapped anew; objects and texts stay as they are. */
enum status vault_tenant_rotate(struct vault *vault, const char *tenant, struct refusal *refusal);
/* When this returns STATUS_OK nothing of the tenant can be opened any more, here and for ever. */
enum status vault_tenant_shred(struct vault *vault, const char *tenant, struct refusal *refusal);

/* Data keys. `ret_key`: in memory of secret_alloc(). An id that has a key already keeps it. */
enum status vault_key_create(struct vault *vault, const char *tenant, const char *id, uint8_t ret_key[KEY_BYTES],
                             struct refusal *refusal);
enum status vault_key_give(struct vault *vault, const char *tenant, const char *id, uint8_t ret_key[KEY_BYTES],
                           struct refusal *refusal);
enum status vault_key_shred(struct vault *vault, const char *tenant, const char *id, struct refusal *refusal);

/* Texts of up to VAULT_TEXT_MAX bytes, bound to tenant, purpose (a table's column, say) and id. `ret_sealed` has room for
 * bytes + VAULT_SEALED_EXTRA; `ret_text` for sealed_bytes - VAULT_SEALED_EXTRA. */
enum status vault_text_seal(struct vault *vault, const char *tenant, const char *purpose, const char *id, const void *text,
                            size_t bytes, uint8_t *ret_sealed, struct refusal *refusal);
enum status vault_text_open(struct vault *vault, const char *tenant, const char *purpose, const char *id, const uint8_t *sealed,
                            size_t sealed_bytes, void *ret_text, struct refusal *refusal);

#endif
