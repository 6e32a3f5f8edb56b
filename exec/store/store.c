/* Names and ranges are looked at once, here, for every kind of store. */
#include "store/store.h"

#include "store/internal.h"

static enum status check_names(const char *tenant, const char *object, struct refusal *refusal)
{
    if (!name_is_valid(tenant) || !name_is_valid(object))
        return refuse(refusal, STATUS_INVALID, "the store knows names of 1 to %d letters, digits, '-' and '_'", NAME_BYTES - 1);
    return STATUS_OK;
}

enum status store_put_begin(struct store *store, const char *tenant, const char *object, uint64_t quota_bytes,
                            struct store_put **ret_put, struct refusal *refusal)
{
    enum status status = check_names(tenant, object, refusal);

    return status == STATUS_OK ? store->kind->put_begin(store, tenant, object, quota_bytes, ret_put, refusal) : status;
}

enum status store_put_lend(struct store *store, const char *tenant, const char *object, uint64_t quota_bytes,
                            struct store_put **ret_put, struct refusal *refusal)
{
    enum status status = check_names(tenant, object, refusal);

    return status == STATUS_OK ? store->kind->put_lend(store, tenant, object, quota_bytes, ret_put, refusal) : status;
}

enum status store_put_write(struct store_put *put, const void *bytes, size_t count, struct refusal *refusal)
{
    return put->store->kind->put_write(put, bytes, count, refusal);
}

int store_put_descriptor(struct store_put *put)
{
    return put->store->kind->put_descriptor(put);
}

enum status store_put_commit(struct store_put *put, uint64_t *ret_bytes, struct refusal *refusal)
{
    return put->store->kind->put_commit(put, ret_bytes, refusal);
}

void store_put_leave(struct store_put *put)
{
    if (put != NULL)
        put->store->kind->put_leave(put);
}

void store_put_abandon(struct store_put *put)
{
    if (put != NULL)
        put->store->kind->put_abandon(put);
}

enum status store_get_open(struct store *store, const char *tenant, const char *object, struct store_get **ret_get,
                           struct refusal *refusal)
{
    enum status status = check_names(tenant, object, refusal);

    return status == STATUS_OK ? store->kind->get_open(store, tenant, object, ret_get, refusal) : status;
}

uint64_t store_get_bytes(const struct store_get *get)
{
    return get->bytes;
}

enum status store_get_read(struct store_get *get, uint64_t offset, void *ret_bytes, size_t count, struct refusal *refusal)
{
    check(offset <= get->bytes);
    check(count <= get->bytes - offset);
    return get->store->kind->get_read(get, offset, ret_bytes, count, refusal);
}

int store_get_descriptor(struct store_get *get)
{
    return get->store->kind->get_descriptor(get);
}

void store_get_close(struct store_get *get)
{
    if (get != NULL)
        get->store->kind->get_close(get);
}

enum status store_delete(struct store *store, const char *tenant, const char *object, struct refusal *refusal)
{
    enum status status = check_names(tenant, object, refusal);

    return status == STATUS_OK ? store->kind->remove(store, tenant, object, refusal) : status;
}

enum status store_list(struct store *store, store_visit *visit, void *context, struct refusal *refusal)
{
    return store->kind->list(store, visit, context, refusal);
}

uint64_t store_used_bytes(struct store *store, const char *tenant)
{
    return store->kind->used_bytes(store, tenant);
}

void store_close(struct store *store)
{
    if (store != NULL)
        store->kind->close(store);
}
