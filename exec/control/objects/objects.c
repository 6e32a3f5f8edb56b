/* Sealed objects: a row that says what is there, a key in the vault, bytes in the store. Made in this order and destroyed in that of keys
 * first, so that a kill at any moment leaves a row that leads to the rest, and never bytes that could be opened without one. */
#include "control/objects/objects.h"

#include "control/metadata/tenant.h"

struct object_act {
    const char *tenant;
    const char *id;
    const char *kind;
};

static enum status add_row(struct metadata *metadata, void *context, struct refusal *refusal)
{
    const struct object_act *act = context;

    return meta_object_add(metadata, act->tenant, act->id, act->kind, act->id, refusal);
}

static enum status doom_row(struct metadata *metadata, void *context, struct refusal *refusal)
{
    const struct object_act *act = context;

    return meta_object_doom(metadata, act->tenant, act->id, refusal);
}

static enum status end_row(struct metadata *metadata, void *context, struct refusal *refusal)
{
    const struct object_act *act = context;

    return meta_object_gone(metadata, act->tenant, act->id, refusal);
}

static enum status to_store(void *context, const void *bytes, size_t count)
{
    struct object *object = context;

    crypto_generichash_update(&object->sealed, bytes, count);
    return store_put_write(object->put, bytes, count, &object->refusal);
}

static uint64_t quota_of(struct metadata *metadata, const char *tenant)
{
    struct meta_results results = {0};
    struct refusal refusal = {{0}};
    struct meta_tenant row;
    const enum status status = meta_tenant_get(metadata, tenant, &results, &row, &refusal);
    const uint64_t quota = status == STATUS_OK ? (uint64_t)row.stored_bytes_max : 0;

    meta_results_free(&results);
    return quota;
}

enum status object_begin(const struct object_home *home, struct metadata *metadata, const char *tenant, const char *kind,
                         struct object *object, struct refusal *refusal)
{
    const struct envelope_label label = {.tenant = object->tenant, .object = object->id, .purpose = kind};
    struct object_act act = {object->tenant, object->id, kind};
    enum status status;

    memcpy(object->tenant, tenant, strlen(tenant) + 1);
    meta_id("obj-", object->id);
    crypto_generichash_init(&object->sealed, NULL, 0, crypto_generichash_BYTES);
    object->key = secret_alloc(KEY_BYTES);
    if (object->key == NULL)
        return refuse(refusal, STATUS_IO, "no memory for a key");
    status = vault_tenant_create(home->vault, tenant, refusal);
    if (status == STATUS_OK)
        status = meta_writer_call(home->writer, add_row, &act, refusal);
    if (status != STATUS_OK)
        return status;
    object->has_row = true;
    status = vault_key_create(home->vault, tenant, object->id, object->key, refusal);
    if (status == STATUS_OK)
        status = store_put_begin(home->store, tenant, object->id, quota_of(metadata, tenant), &object->put, refusal);
    if (status == STATUS_OK)
        status = sealer_open(&label, object->id, object->key, to_store, object, &object->sealer);
    return status == STATUS_OK || refusal->text[0] != '\0' ? status : refuse(refusal, status, "no memory to seal with");
}

/* The store's own words, where it was the store. */
static enum status told(struct object *object, enum status status, struct refusal *refusal)
{
    if (status != STATUS_OK)
        (void)refuse(refusal, status, "%s", object->refusal.text[0] != '\0' ? object->refusal.text : "sealing failed");
    return status;
}

enum status object_write(struct object *object, const void *bytes, size_t count, struct refusal *refusal)
{
    return told(object, sealer_put(object->sealer, bytes, count), refusal);
}

enum status object_finish(struct object *object, struct refusal *refusal)
{
    uint8_t digest[crypto_generichash_BYTES];
    uint64_t sealed_bytes;
    enum status status = told(object, sealer_finish(object->sealer), refusal);

    if (status != STATUS_OK)
        return status;
    crypto_generichash_final(&object->sealed, digest, sizeof(digest));
    sodium_bin2hex(object->digest, sizeof(object->digest), digest, sizeof(digest));
    status = store_put_commit(object->put, &sealed_bytes, refusal);
    object->put = NULL;
    return status;
}

void object_close(struct object *object)
{
    sealer_close(object->sealer);
    store_put_abandon(object->put);
    secret_free(object->key);
    object->sealer = NULL;
    object->put = NULL;
    object->key = NULL;
}

enum status object_destroy(const struct object_home *home, const char *tenant, const char *id, struct refusal *refusal)
{
    struct object_act act = {tenant, id, NULL};
    enum status status = vault_key_shred(home->vault, tenant, id, refusal);

    if (status == STATUS_OK || status == STATUS_NOT_FOUND)
        status = store_delete(home->store, tenant, id, refusal);
    if (status == STATUS_OK || status == STATUS_NOT_FOUND)
        status = meta_writer_call(home->writer, end_row, &act, refusal);
    return status == STATUS_CONFLICT ? STATUS_OK : status; /* the sweeper was first */
}

enum status object_undo(const struct object_home *home, const char *tenant, const char *id, struct refusal *refusal)
{
    struct object_act act = {tenant, id, NULL};
    const enum status status = meta_writer_call(home->writer, doom_row, &act, refusal);

    return status == STATUS_OK || status == STATUS_CONFLICT ? object_destroy(home, tenant, id, refusal) : status;
}

/* --- lent to workers -------------------------------------------------------------------------------------------------------- */

enum status object_lend(const struct object_home *home, struct metadata *metadata, const char *tenant, const char *id, const char *kind,
                        uint8_t ret_key[KEY_BYTES], struct store_put **ret_put, struct refusal *refusal)
{
    struct object_act act = {tenant, id, kind};
    enum status status = vault_tenant_create(home->vault, tenant, refusal);

    if (status == STATUS_OK)
        status = meta_writer_call(home->writer, add_row, &act, refusal);
    if (status == STATUS_OK)
        status = vault_key_create(home->vault, tenant, id, ret_key, refusal);
    return status == STATUS_OK ? store_put_lend(home->store, tenant, id, quota_of(metadata, tenant), ret_put, refusal) : status;
}

enum status object_lent_again(const struct object_home *home, struct metadata *metadata, const char *tenant, const char *id,
                              struct store_put **ret_put, struct refusal *refusal)
{
    return store_put_lend(home->store, tenant, id, quota_of(metadata, tenant), ret_put, refusal);
}

enum status object_take_back(const struct object_home *home, const char *tenant, const char *id, struct store_put *put,
                             struct refusal *refusal)
{
    struct refusal unheard = {{0}};

    if (put == NULL && store_put_lend(home->store, tenant, id, STORE_QUOTA_NONE, &put, &unheard) != STATUS_OK)
        put = NULL; /* it was committed */
    store_put_abandon(put);
    return object_undo(home, tenant, id, refusal);
}
