#include <stdlib.h>

#include "store/internal.h"

void usages_init(struct usages *usages)
{
    memset(usages, 0, sizeof(*usages));
    pthread_mutex_init(&usages->mutex, NULL);
}

void usages_free(struct usages *usages)
{
    pthread_mutex_destroy(&usages->mutex);
    free(usages->rows);
}

/* Where the tenant's row is, or belongs. */
static size_t find(const struct usages *usages, const char *tenant, bool *ret_is_there)
{
    size_t low = 0;
    size_t high = usages->count;

    *ret_is_there = false;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp(usages->rows[middle].tenant, tenant);

        if (order == 0) {
            *ret_is_there = true;
            return middle;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct usage *insert(struct usages *usages, size_t at, const char *tenant)
{
    if (usages->count == usages->room) {
        size_t room = usages->room == 0 ? 64 : 2 * usages->room;
        struct usage *rows = realloc(usages->rows, room * sizeof(*rows));

        if (rows == NULL)
            return NULL;
        usages->rows = rows;
        usages->room = room;
    }
    memmove(usages->rows + at + 1, usages->rows + at, (usages->count - at) * sizeof(*usages->rows));
    memset(&usages->rows[at], 0, sizeof(usages->rows[at]));
    memcpy(usages->rows[at].tenant, tenant, strlen(tenant));
    usages->count++;
    return &usages->rows[at];
}

enum status usages_add(struct usages *usages, const char *tenant, uint64_t bytes, uint64_t quota_bytes, struct refusal *refusal)
{
    enum status status = STATUS_OK;
    bool is_there;
    size_t at;
    struct usage *usage;

    pthread_mutex_lock(&usages->mutex);
    at = find(usages, tenant, &is_there);
    usage = is_there ? &usages->rows[at] : insert(usages, at, tenant);
    if (usage == NULL)
        status = refuse(refusal, STATUS_IO, "no memory for the store");
    else if (usage->bytes > quota_bytes || bytes > quota_bytes - usage->bytes)
        status = refuse(refusal, STATUS_FULL, "the quota of %llu bytes is used up: %llu are stored, %llu more don't fit",
                        (unsigned long long)quota_bytes, (unsigned long long)usage->bytes, (unsigned long long)bytes);
    else
        usage->bytes += bytes;
    pthread_mutex_unlock(&usages->mutex);
    return status;
}

void usages_subtract(struct usages *usages, const char *tenant, uint64_t bytes)
{
    bool is_there;
    size_t at;

    pthread_mutex_lock(&usages->mutex);
    at = find(usages, tenant, &is_there);
    check(bytes == 0 || is_there);
    if (is_there) {
        check(usages->rows[at].bytes >= bytes);
        usages->rows[at].bytes -= bytes;
    }
    pthread_mutex_unlock(&usages->mutex);
}

uint64_t usages_of(struct usages *usages, const char *tenant)
{
    uint64_t bytes;
    bool is_there;
    size_t at;

    pthread_mutex_lock(&usages->mutex);
    at = find(usages, tenant, &is_there);
    bytes = is_there ? usages->rows[at].bytes : 0;
    pthread_mutex_unlock(&usages->mutex);
    return bytes;
}
