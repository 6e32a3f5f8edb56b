/* Opening, transactions, ids. */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>

#include "control/metadata/sql.h"
#include "crypto/secret.h"

#define DEPTH_MAX 8
#define ID_LETTERS 24

/* Two keys of the one secret, so that neither says anything of the other. */
static enum status derive_keys(struct metadata *metadata, const uint8_t *server_key, struct refusal *refusal)
{
    uint8_t public_key[crypto_sign_PUBLICKEYBYTES];
    uint8_t *seed = secret_alloc(crypto_sign_SEEDBYTES);

    metadata->key_key = secret_alloc(META_KEY_BYTES);
    metadata->audit_key = secret_alloc(crypto_sign_SECRETKEYBYTES);
    if (seed == NULL || metadata->key_key == NULL || metadata->audit_key == NULL) {
        secret_free(seed);
        return refuse(refusal, STATUS_IO, "no memory for keys");
    }
    crypto_kdf_derive_from_key(metadata->key_key, META_KEY_BYTES, 1, "metadata", server_key);
    crypto_kdf_derive_from_key(seed, crypto_sign_SEEDBYTES, 2, "metadata", server_key);
    crypto_sign_seed_keypair(public_key, metadata->audit_key, seed);
    secret_free(seed);
    return STATUS_OK;
}

enum status meta_open(const struct meta_options *options, struct metadata **ret_metadata, struct refusal *refusal)
{
    struct metadata *metadata;
    enum status status;

    if (sodium_init() < 0)
        return refuse(refusal, STATUS_IO, "libsodium does not start");
    metadata = calloc(1, sizeof(*metadata));
    if (metadata == NULL)
        return refuse(refusal, STATUS_IO, "%s: no memory", options->place);
    metadata->driver = options->driver != NULL ? options->driver : &db_sqlite;
    status = derive_keys(metadata, options->server_key, refusal);
    if (status == STATUS_OK)
        status = metadata->driver->open(options->place, options->first, &metadata->db, refusal);
    if (status == STATUS_OK)
        status = schema_check(metadata, options->first, refusal);
    if (status != STATUS_OK) {
        meta_close(metadata);
        return status;
    }
    *ret_metadata = metadata;
    return STATUS_OK;
}

void meta_close(struct metadata *metadata)
{
    if (metadata == NULL)
        return;
    for (uint32_t i = 0; i < QUERIES_MAX; i++)
        if (metadata->queries[i].sql != NULL)
            metadata->driver->finish(metadata->queries[i].query);
    metadata->driver->close(metadata->db);
    secret_free(metadata->key_key);
    secret_free(metadata->audit_key);
    free(metadata);
}

static const char *const savepoint[DEPTH_MAX] = {NULL, "SAVEPOINT s1", "SAVEPOINT s2", "SAVEPOINT s3", "SAVEPOINT s4",
                                                 "SAVEPOINT s5", "SAVEPOINT s6", "SAVEPOINT s7"};
static const char *const release[DEPTH_MAX] = {"COMMIT", "RELEASE SAVEPOINT s1", "RELEASE SAVEPOINT s2", "RELEASE SAVEPOINT s3",
                                               "RELEASE SAVEPOINT s4", "RELEASE SAVEPOINT s5", "RELEASE SAVEPOINT s6",
                                               "RELEASE SAVEPOINT s7"};
static const char *const rollback[DEPTH_MAX] = {"ROLLBACK", "ROLLBACK TO SAVEPOINT s1", "ROLLBACK TO SAVEPOINT s2",
                                                "ROLLBACK TO SAVEPOINT s3", "ROLLBACK TO SAVEPOINT s4", "ROLLBACK TO SAVEPOINT s5",
                                                "ROLLBACK TO SAVEPOINT s6", "ROLLBACK TO SAVEPOINT s7"};

enum status meta_begin(struct metadata *metadata, struct refusal *refusal)
{
    const char *sql = metadata->depth == 0 ? metadata->driver->begin : savepoint[metadata->depth];
    enum status status;

    check(metadata->depth < DEPTH_MAX);
    status = sql_run(metadata, sql, NO_VALUES, NULL, refusal);
    if (status == STATUS_OK)
        metadata->depth++;
    return status;
}

enum status meta_end(struct metadata *metadata, enum status status, struct refusal *refusal)
{
    struct refusal unheard = {{0}};

    check(metadata->depth > 0);
    metadata->depth--;
    if (status == STATUS_OK) {
        status = sql_run(metadata, release[metadata->depth], NO_VALUES, NULL, refusal);
        if (status == STATUS_OK)
            return STATUS_OK;
    }
    /* A full disk may have rolled it back already, of which the database complains; the reason that counts is known. */
    (void)metadata->driver->execute(metadata->db, rollback[metadata->depth], &unheard);
    if (metadata->depth > 0)
        (void)metadata->driver->execute(metadata->db, release[metadata->depth], &unheard);
    else
        metadata->lost = false;
    return status;
}

/* 24 of 32 letters: 120 bits, so that no two are drawn alike. */
void meta_id(const char *prefix, char ret_id[NAME_BYTES])
{
    static const char letters[] = "abcdefghijkmnpqrstuvwxyz23456789";
    uint8_t drawn[ID_LETTERS];
    size_t length = strlen(prefix);

    check(length + ID_LETTERS < NAME_BYTES);
    randombytes_buf(drawn, sizeof(drawn));
    memcpy(ret_id, prefix, length);
    for (uint32_t i = 0; i < ID_LETTERS; i++)
        ret_id[length + i] = letters[drawn[i] % 32];
    ret_id[length + ID_LETTERS] = '\0';
}
