/* Objects as files. One is written under a number in writing/, synced, linked to its name (which, unlike a rename, takes no other's
 * place), and its folder synced: only then it is there. What is left in writing/ by a process that
 * ended is nobody's, unless it was lent to a worker: that one is there under tenant and object. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "store/internal.h"

struct local_put {
    struct store_put put;
    struct local_store *local;
    char tenant[NAME_BYTES];
    char object[NAME_BYTES];
    char temporary[2 * NAME_BYTES + 1];
    uint64_t quota_bytes;
    uint64_t bytes; /* counted as the tenant's */
    int file;
    bool has_failed;
};

struct local_get {
    struct store_get get;
    int file;
};

enum status local_refuse(struct refusal *refusal, int code, const char *what)
{
    if (code == ENOSPC || code == EDQUOT)
        return refuse(refusal, STATUS_IO, "%s: the store's disk is full; make room", what);
    return refuse(refusal, STATUS_IO, "%s: %s", what, strerror(code));
}

/* 256 folders a tenant, so that a folder of a million objects has 4,000 names. */
void place_of(const char *tenant, const char *object, struct place *ret_place)
{
    unsigned part = (unsigned)(hash_bytes(0, object, strlen(object)) & 0xff);

    snprintf(ret_place->folder, sizeof(ret_place->folder), "%s/%02x", tenant, part);
    snprintf(ret_place->path, sizeof(ret_place->path), "%s/%02x/%s", tenant, part, object);
}

/* `flags`: O_EXCL, or 0 to take up what is there. */
static enum status put_open(struct local_store *local, const char *tenant, const char *object, uint64_t quota_bytes, const char *temporary,
                            int flags, struct store_put **ret_put, struct refusal *refusal)
{
    struct local_put *put = calloc(1, sizeof(*put));

    if (put == NULL)
        return refuse(refusal, STATUS_IO, "no memory for the store");
    put->put.store = &local->store;
    put->local = local;
    put->quota_bytes = quota_bytes;
    strcpy(put->tenant, tenant);
    strcpy(put->object, object);
    strcpy(put->temporary, temporary);
    put->file = openat(local->writing, put->temporary, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | flags, 0600);
    if (put->file < 0) {
        int code = errno;

        free(put);
        return local_refuse(refusal, code, object);
    }
    *ret_put = &put->put;
    return STATUS_OK;
}

static bool is_there(const struct local_store *local, const char *tenant, const char *object)
{
    struct place place;

    place_of(tenant, object, &place);
    return faccessat(local->objects, place.path, F_OK, 0) == 0;
}

static enum status refuse_second(struct refusal *refusal, const char *object)
{
    return refuse(refusal, STATUS_INVALID, "%s: an object of this name is there already", object);
}

static enum status put_begin(struct store *store, const char *tenant, const char *object, uint64_t quota_bytes,
                             struct store_put **ret_put, struct refusal *refusal)
{
    struct local_store *local = (struct local_store *)store;
    char temporary[24];

    if (is_there(local, tenant, object))
        return refuse_second(refusal, object);
    snprintf(temporary, sizeof(temporary), "%llu", (unsigned long long)local->puts++);
    return put_open(local, tenant, object, quota_bytes, temporary, O_EXCL, ret_put, refusal);
}

static enum status put_lend(struct store *store, const char *tenant, const char *object, uint64_t quota_bytes,
                            struct store_put **ret_put, struct refusal *refusal)
{
    struct local_store *local = (struct local_store *)store;
    char temporary[2 * NAME_BYTES + 1];

    snprintf(temporary, sizeof(temporary), "%s" LENT "%s", tenant, object);
    if (!is_there(local, tenant, object))
        return put_open(local, tenant, object, quota_bytes, temporary, 0, ret_put, refusal);
    (void)unlinkat(local->writing, temporary, 0); /* left by a kill between name and end */
    return refuse_second(refusal, object);
}

static void put_leave(struct store_put *base)
{
    struct local_put *put = (struct local_put *)base;

    close(put->file);
    usages_subtract(&put->local->usages, put->tenant, put->bytes);
    free(put);
}

static void put_abandon(struct store_put *base)
{
    const struct local_put *put = (const struct local_put *)base;

    (void)unlinkat(put->local->writing, put->temporary, 0);
    put_leave(base);
}

/* 0, or errno. */
static int write_all(int file, const char *bytes, size_t count)
{
    while (count > 0) {
        ssize_t done = write(file, bytes, count);

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return errno;
        bytes += done;
        count -= (size_t)done;
    }
    return 0;
}

static enum status count_bytes(struct local_put *put, uint64_t bytes, struct refusal *refusal)
{
    enum status status = usages_add(&put->local->usages, put->tenant, bytes, put->quota_bytes, refusal);

    if (status == STATUS_OK)
        put->bytes += bytes;
    return status;
}

static enum status put_write(struct store_put *base, const void *bytes, size_t count, struct refusal *refusal)
{
    struct local_put *put = (struct local_put *)base;
    enum status status = put->has_failed ? refuse(refusal, STATUS_IO, "%s: an earlier part was not written", put->object)
                                         : count_bytes(put, count, refusal);
    int code = status == STATUS_OK ? write_all(put->file, bytes, count) : 0;

    if (code != 0)
        status = local_refuse(refusal, code, put->object);
    put->has_failed |= status != STATUS_OK;
    return status;
}

static int put_descriptor(struct store_put *base)
{
    return ((struct local_put *)base)->file;
}

int local_make_folder(int parent, const char *name)
{
    if (mkdirat(parent, name, 0700) == 0) {
        if (fsync(parent) != 0)
            return -1;
    } else if (errno != EEXIST) {
        return -1;
    }
    return openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* objects/TENANT/xx; -1: errno. */
static int open_place(struct local_store *local, const char *tenant, const struct place *place)
{
    int folder = -1;
    int above;

    pthread_mutex_lock(&local->folders_mutex);
    above = local_make_folder(local->objects, tenant);
    if (above >= 0) {
        folder = local_make_folder(above, place->folder + strlen(tenant) + 1);
        close(above);
    }
    pthread_mutex_unlock(&local->folders_mutex);
    return folder;
}

/* Gives what was written its name. 0, or errno; then it has none. */
static int name_it(struct local_put *put)
{
    struct place place;
    int code = 0;
    int folder;

    place_of(put->tenant, put->object, &place);
    folder = open_place(put->local, put->tenant, &place);
    if (folder < 0)
        return errno;
    if (linkat(put->local->writing, put->temporary, folder, put->object, 0) != 0) {
        code = errno;
    } else if (fsync(folder) != 0) {
        code = errno;
        (void)unlinkat(folder, put->object, 0);
    }
    close(folder);
    return code;
}

/* What a worker wrote itself is counted now; a file that is shorter than what was counted was cut by somebody. */
static enum status count_rest(struct local_put *put, struct refusal *refusal)
{
    struct stat about;

    if (fstat(put->file, &about) != 0)
        return local_refuse(refusal, errno, put->object);
    if ((uint64_t)about.st_size < put->bytes)
        return refuse(refusal, STATUS_IO, "%s: was cut while it was written", put->object);
    return count_bytes(put, (uint64_t)about.st_size - put->bytes, refusal);
}

static enum status put_commit(struct store_put *base, uint64_t *ret_bytes, struct refusal *refusal)
{
    struct local_put *put = (struct local_put *)base;
    enum status status = put->has_failed ? refuse(refusal, STATUS_IO, "%s: not all of it was written", put->object)
                                         : count_rest(put, refusal);
    int code = 0;

    if (status == STATUS_OK)
        code = fsync(put->file) != 0 ? errno : name_it(put);
    if (code == EEXIST)
        status = refuse_second(refusal, put->object);
    else if (code != 0)
        status = local_refuse(refusal, code, put->object);
    if (status == STATUS_OK) {
        *ret_bytes = put->bytes;
        put->bytes = 0; /* the object's now */
    }
    put_abandon(base);
    return status;
}

static enum status get_open(struct store *store, const char *tenant, const char *object, struct store_get **ret_get,
                            struct refusal *refusal)
{
    struct local_store *local = (struct local_store *)store;
    struct local_get *get = calloc(1, sizeof(*get));
    struct place place;
    struct stat about;

    if (get == NULL)
        return refuse(refusal, STATUS_IO, "no memory for the store");
    place_of(tenant, object, &place);
    get->file = openat(local->objects, place.path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (get->file < 0 || fstat(get->file, &about) != 0 || !S_ISREG(about.st_mode)) {
        int code = get->file < 0 ? errno : EINVAL;

        if (get->file >= 0)
            close(get->file);
        free(get);
        return code == ENOENT ? refuse(refusal, STATUS_NOT_FOUND, "%s: there is no such object", object)
                              : local_refuse(refusal, code, object);
    }
    get->get.store = store;
    get->get.bytes = (uint64_t)about.st_size;
    *ret_get = &get->get;
    return STATUS_OK;
}

static enum status get_read(struct store_get *base, uint64_t offset, void *ret_bytes, size_t count, struct refusal *refusal)
{
    const struct local_get *get = (const struct local_get *)base;
    char *at = ret_bytes;

    while (count > 0) {
        ssize_t got = pread(get->file, at, count, (off_t)offset);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return local_refuse(refusal, errno, "reading an object");
        if (got == 0)
            return refuse(refusal, STATUS_CORRUPT, "an object was cut while it was read");
        at += got;
        offset += (uint64_t)got;
        count -= (size_t)got;
    }
    return STATUS_OK;
}

static int get_descriptor(struct store_get *base)
{
    return ((struct local_get *)base)->file;
}

static void get_close(struct store_get *base)
{
    close(((struct local_get *)base)->file);
    free(base);
}

/* 0, or errno. */
static int sync_folder(int parent, const char *path)
{
    int folder = openat(parent, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int code = 0;

    if (folder < 0)
        return errno;
    if (fsync(folder) != 0)
        code = errno;
    close(folder);
    return code;
}

static enum status remove_object(struct store *store, const char *tenant, const char *object, struct refusal *refusal)
{
    struct local_store *local = (struct local_store *)store;
    struct place place;
    struct stat about;
    int code = 0;

    place_of(tenant, object, &place);
    if (fstatat(local->objects, place.path, &about, AT_SYMLINK_NOFOLLOW) != 0 || unlinkat(local->objects, place.path, 0) != 0)
        return errno == ENOENT ? refuse(refusal, STATUS_NOT_FOUND, "%s: there is no such object", object)
                               : local_refuse(refusal, errno, object);
    usages_subtract(&local->usages, tenant, (uint64_t)about.st_size);
    code = sync_folder(local->objects, place.folder);
    return code == 0 ? STATUS_OK : local_refuse(refusal, code, object);
}

static uint64_t used_bytes(struct store *store, const char *tenant)
{
    return usages_of(&((struct local_store *)store)->usages, tenant);
}

const struct store_kind local_kind = {
    .put_begin = put_begin,
    .put_lend = put_lend,
    .put_leave = put_leave,
    .put_write = put_write,
    .put_descriptor = put_descriptor,
    .put_commit = put_commit,
    .put_abandon = put_abandon,
    .get_open = get_open,
    .get_read = get_read,
    .get_descriptor = get_descriptor,
    .get_close = get_close,
    .remove = remove_object,
    .list = local_list,
    .used_bytes = used_bytes,
    .close = local_close,
};
