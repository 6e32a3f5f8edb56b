/* keys.db: tenants' keys wrapped by the master key, data keys wrapped by their tenant's; for the vault alone. What was destroyed is
 * overwritten in the file and gone from its log before a call returns; its row stays, without the key, so that no one makes it again.
 *
 *   STATUS_NOT_FOUND  no such key, or destroyed
 *   STATUS_INVALID    the id is another tenant's
 *   STATUS_CORRUPT    a row isn't what was written
 *   STATUS_IO         the disk refuses; whether it was done shows when keys.db is opened again */
#ifndef CRYPTO_KEYS_H
#define CRYPTO_KEYS_H

#include "crypto/names.h"
#include "crypto/secret.h"

struct keys;
/* Made, mode 0600, when it isn't there. STATUS_INVALID: others may read it, it is open elsewhere, or it is of another master key. */
enum status keys_open(const char *path, const uint8_t master[KEY_BYTES], struct keys **ret_keys, struct refusal *refusal);
void keys_close(struct keys *keys); /* NULL is fine */
/* True after the disk failed a read, a write or a sync: what is in memory may not be what is on disk, so only keys_close() helps. */
bool keys_are_broken(const struct keys *keys);

enum status keys_tenant_create(struct keys *keys, const char *tenant, struct refusal *refusal); /* one that is there stays */
enum status keys_tenant_rotate(struct keys *keys, const char *tenant, struct refusal *refusal);
enum status keys_tenant_shred(struct keys *keys, const char *tenant, struct refusal *refusal);

/* `ret_key`: in memory of secret_alloc(). */
enum status keys_create(struct keys *keys, const char *tenant, const char *id, uint8_t ret_key[KEY_BYTES], struct refusal *refusal);
enum status keys_give(struct keys *keys, const char *tenant, const char *id, uint8_t ret_key[KEY_BYTES], struct refusal *refusal);
enum status keys_shred(struct keys *keys, const char *tenant, const char *id, struct refusal *refusal);
/* The key that the tenant's small texts are under: a data key like others, which rotation wraps anew. */
enum status keys_text(struct keys *keys, const char *tenant, uint8_t ret_key[KEY_BYTES], struct refusal *refusal);

enum status keys_rotate_master(struct keys *keys, const uint8_t master[KEY_BYTES], struct refusal *refusal);

#endif
