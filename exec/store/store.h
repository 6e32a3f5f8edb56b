/* Where sealed objects lie. An object is written once, is there whole or not at all, and is never changed; its bytes are the
 * envelope's, which the store doesn't look into. One table of functions a kind of store: files today.
 *
 *   STATUS_INVALID    a bad name; an object of that name is there already
 *   STATUS_NOT_FOUND  no such object
 *   STATUS_FULL       the tenant's quota; nothing was kept
 *   STATUS_IO         the disk refuses (full, failing): the text says which; nothing half-written stays
 *
 * Calls may come from several threads; one put or get belongs to one thread at a time. */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include <sys/types.h>

#include "crypto/names.h"
#include "engine/files/refusal.h"

struct store;
struct store_put;
struct store_get;

/* Told each object once, in no order. False ends the listing. */
typedef bool store_visit(void *context, const char *tenant, const char *object, uint64_t bytes, int64_t modified_at_s);

#define STORE_QUOTA_NONE UINT64_MAX

/* `quota_bytes`: what the tenant's objects, those being written included, may have together. Until the commit nothing is there;
 * commit and abandon both end the put, whatever they return. Abandon accepts NULL. */
enum status store_put_begin(struct store *store, const char *tenant, const char *object, uint64_t quota_bytes,
                            struct store_put **ret_put, struct refusal *refusal);
enum status store_put_write(struct store_put *put, const void *bytes, size_t count, struct refusal *refusal);
/* For a worker that writes the object itself, from its start on; the put's. What it wrote is counted at the commit. */
int store_put_descriptor(struct store_put *put);
enum status store_put_commit(struct store_put *put, uint64_t *ret_bytes, struct refusal *refusal);
void store_put_abandon(struct store_put *put);

/* As store_put_begin(), for a worker that may outlive this process: what it has written by then stays, and the same call takes it up
 * again. STATUS_INVALID: it was committed. */
enum status store_put_lend(struct store *store, const char *tenant, const char *object, uint64_t quota_bytes,
                           struct store_put **ret_put, struct refusal *refusal);
/* Ends the put and leaves what was lent there, for the next process. NULL is fine. */
void store_put_leave(struct store_put *put);

enum status store_get_open(struct store *store, const char *tenant, const char *object, struct store_get **ret_get,
                           struct refusal *refusal);
uint64_t store_get_bytes(const struct store_get *get);
/* Exactly `count` bytes; the range lies within store_get_bytes(), which is checked. */
enum status store_get_read(struct store_get *get, uint64_t offset, void *ret_bytes, size_t count, struct refusal *refusal);
/* To hand to a worker: for reading, the get's. Goes on reading the object after a delete. */
int store_get_descriptor(struct store_get *get);
void store_get_close(struct store_get *get); /* NULL is fine */

/* Gone also after a loss of power when this returns. */
enum status store_delete(struct store *store, const char *tenant, const char *object, struct refusal *refusal);
/* All that is there, for whoever compares it with what should be. */
enum status store_list(struct store *store, store_visit *visit, void *context, struct refusal *refusal);
/* Bytes of the tenant's objects, those being written included. */
uint64_t store_used_bytes(struct store *store, const char *tenant);
void store_close(struct store *store); /* NULL is fine; no put or get is open */

/* Files: FOLDER/objects/TENANT/xx/OBJECT, xx of the object's name; FOLDER/writing/ holds what isn't committed, and is swept here
 * of all that was not lent.
 * One process at a time. The folder is made when it isn't there. */
enum status store_local_open(const char *folder, struct store **ret_store, struct refusal *refusal);

#endif
