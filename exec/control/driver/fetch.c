/* Adapters for model servers: a key and a descriptor. Asked again it gives the same. */
#define _GNU_SOURCE /* F_DUPFD_CLOEXEC */
#include <fcntl.h>
#include <unistd.h>

#include "control/driver/internal.h"

static enum status open_it(struct driver *driver, const struct core_adapter *adapter, uint8_t *ret_key, int *ret_object)
{
    struct refusal refusal = {{0}};
    struct store_get *get = NULL;
    enum status status;

    do
        status = vault_key_give(driver->config.vault, adapter->tenant, adapter->object, ret_key, &refusal);
    while (driver_again(driver, status));
    if (status == STATUS_OK)
        status = store_get_open(driver->config.store, adapter->tenant, adapter->object, &get, &refusal);
    if (status != STATUS_OK)
        return status;
    *ret_object = fcntl(store_get_descriptor(get), F_DUPFD_CLOEXEC, 0);
    store_get_close(get);
    return *ret_object >= 0 ? STATUS_OK : STATUS_IO;
}

void fetch_answer(struct driver *driver, const struct core_heard *heard)
{
    uint8_t *key = secret_alloc(KEY_BYTES);
    int object = -1;
    const enum status found = key != NULL ? open_it(driver, heard->adapter, key, &object) : STATUS_IO;
    enum status status;

    do
        status = core_fetched(driver->core, heard->fetch, found, key, object);
    while (driver_again(driver, status));
    if (status != STATUS_OK && object >= 0)
        close(object);
    secret_free(key);
    if (found != STATUS_OK)
        driver_log(driver, "driver: act=fetch tenant=%s object=%s code=%d", heard->adapter->tenant, heard->adapter->object, (int)found);
}
