/* Sealed objects of tenants: made whole here, or lent to a worker that seals and writes them itself; and destroyed. */
#ifndef OBJECTS_OBJECTS_H
#define OBJECTS_OBJECTS_H

#include <sodium.h>

#include "control/metadata/file.h"
#include "control/metadata/writer.h"
#include "crypto/envelope.h"
#include "crypto/vault.h"
#include "store/store.h"

/* Kinds: the row's, and the envelope's purpose unless said otherwise. */
#define OBJECT_FILE "file"
#define OBJECT_REPORT "report"
#define OBJECT_ADAPTER "adapter"
#define OBJECT_STATE "state"
#define OBJECT_RESULTS "results" /* a job's table, which becomes a file: its envelope's purpose is OBJECT_FILE */

struct object_home {
    struct meta_writer *writer;
    struct vault *vault;
    struct store *store;
};

/* An object that is written; zero it before. */
struct object {
    char tenant[NAME_BYTES];
    char id[NAME_BYTES];
    bool has_row;
    uint8_t *key;
    struct store_put *put;
    struct sealer *sealer;
    crypto_generichash_state sealed;
    char digest[2 * crypto_generichash_BYTES + 1]; /* BLAKE2b of the sealed bytes, once finished: it tells nothing of what is sealed */
    struct refusal refusal; /* of the store, where sealing failed */
};
/* Row, key and place, in this order: so whatever is left by a kill is found by its row. */
enum status object_begin(const struct object_home *home, struct metadata *metadata, const char *tenant, const char *kind,
                         struct object *object, struct refusal *refusal);
enum status object_write(struct object *object, const void *bytes, size_t count, struct refusal *refusal);
/* On disk when it returns; its row still says that it is being written. */
enum status object_finish(struct object *object, struct refusal *refusal);
/* Closes what is open; an object that is not finished is gone from the store. */
void object_close(struct object *object);
/* Key, then bytes, then row: of an object whose row says doomed. */
enum status object_destroy(const struct object_home *home, const char *tenant, const char *id, struct refusal *refusal);
/* The same for one that was being written. */
enum status object_undo(const struct object_home *home, const char *tenant, const char *id, struct refusal *refusal);

/* Row, key and place of an object that a worker writes; what it has written stays when this process ends. `ret_key`: of secret_alloc(). */
enum status object_lend(const struct object_home *home, struct metadata *metadata, const char *tenant, const char *id, const char *kind,
                        uint8_t ret_key[KEY_BYTES], struct store_put **ret_put, struct refusal *refusal);
/* Takes up what a process before lent. STATUS_INVALID: it was committed. */
enum status object_lent_again(const struct object_home *home, struct metadata *metadata, const char *tenant, const char *id,
                              struct store_put **ret_put, struct refusal *refusal);
/* Of one that is not wanted: what was written and its key are gone. `put`: NULL where a process before lent it. */
enum status object_take_back(const struct object_home *home, const char *tenant, const char *id, struct store_put *put,
                             struct refusal *refusal);

#endif
