/* Opening the folder of a local store, sweeping what was never committed, and walking over what is there. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/internal.h"

typedef enum status visit_entry(void *context, int folder, const char *name, struct refusal *refusal);

/* Every name in a folder, '.' and '..' left out. What the visitor returns other than STATUS_OK ends the walk. */
static enum status walk(int parent, const char *name, visit_entry *visit, void *context, struct refusal *refusal)
{
    int folder = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *entries = folder >= 0 ? fdopendir(folder) : NULL;
    enum status status = STATUS_OK;
    struct dirent *entry;

    if (entries == NULL) {
        status = local_refuse(refusal, errno, name);
        if (folder >= 0)
            close(folder);
        return status;
    }
    while (status == STATUS_OK && (errno = 0, entry = readdir(entries)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            status = visit(context, dirfd(entries), entry->d_name, refusal);
    if (status == STATUS_OK && errno != 0)
        status = local_refuse(refusal, errno, name);
    closedir(entries);
    return status;
}

static enum status sweep(void *context, int folder, const char *name, struct refusal *refusal)
{
    (void)context;
    return strstr(name, LENT) != NULL || unlinkat(folder, name, 0) == 0 ? STATUS_OK : local_refuse(refusal, errno, name);
}

struct listing {
    store_visit *visit;
    void *context;
    char tenant[NAME_BYTES];
};

/* What is not ours (lost+found, an editor's copy) is passed over, as is what is deleted meanwhile. */
static enum status list_object(void *context, int folder, const char *name, struct refusal *refusal)
{
    struct listing *listing = context;
    struct stat about;

    (void)refusal;
    if (!name_is_valid(name) || fstatat(folder, name, &about, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(about.st_mode))
        return STATUS_OK;
    return listing->visit(listing->context, listing->tenant, name, (uint64_t)about.st_size, (int64_t)about.st_mtime) ? STATUS_OK
                                                                                                                     : STATUS_END;
}

static bool is_folder(int folder, const char *name)
{
    struct stat about;

    return name_is_valid(name) && fstatat(folder, name, &about, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(about.st_mode);
}

static enum status list_part(void *context, int folder, const char *name, struct refusal *refusal)
{
    return is_folder(folder, name) ? walk(folder, name, list_object, context, refusal) : STATUS_OK;
}

static enum status list_tenant(void *context, int folder, const char *name, struct refusal *refusal)
{
    struct listing *listing = context;

    if (!is_folder(folder, name))
        return STATUS_OK;
    strcpy(listing->tenant, name);
    return walk(folder, name, list_part, context, refusal);
}

enum status local_list(struct store *store, store_visit *visit, void *context, struct refusal *refusal)
{
    struct local_store *local = (struct local_store *)store;
    struct listing listing = {.visit = visit, .context = context};
    enum status status = walk(local->folder, "objects", list_tenant, &listing, refusal);

    return status == STATUS_END ? STATUS_OK : status;
}

struct counting {
    struct local_store *local;
    struct refusal *refusal;
    enum status status;
};

static bool count_object(void *context, const char *tenant, const char *object, uint64_t bytes, int64_t modified_at_s)
{
    struct counting *counting = context;

    (void)object;
    (void)modified_at_s;
    counting->status = usages_add(&counting->local->usages, tenant, bytes, STORE_QUOTA_NONE, counting->refusal);
    return counting->status == STATUS_OK;
}

/* A process that was killed may have made a tenant's folder and not synced it; whoever finds it there takes it to be on disk. */
static enum status sync_tenant(void *context, int folder, const char *name, struct refusal *refusal)
{
    enum status status = STATUS_OK;
    int tenant;

    (void)context;
    if (!is_folder(folder, name))
        return STATUS_OK;
    tenant = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (tenant < 0)
        return local_refuse(refusal, errno, name);
    if (fsync(tenant) != 0)
        status = local_refuse(refusal, errno, name);
    close(tenant);
    return status;
}

/* The store's own folder; -1: errno. */
static int make_root(const char *path)
{
    bool is_new = mkdir(path, 0700) == 0;
    int folder = is_new || errno == EEXIST ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    int above = folder >= 0 && is_new ? openat(folder, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

    if (above >= 0) {
        (void)fsync(above); /* a parent that isn't ours to sync is its owner's to keep */
        close(above);
    }
    return folder;
}

static enum status begin(struct local_store *local, const char *folder, struct refusal *refusal)
{
    struct counting counting = {.local = local, .refusal = refusal, .status = STATUS_OK};
    enum status status;

    local->folder = make_root(folder);
    if (local->folder < 0)
        return local_refuse(refusal, errno, folder);
    local->lock = openat(local->folder, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (local->lock < 0)
        return local_refuse(refusal, errno, folder);
    if (flock(local->lock, LOCK_EX | LOCK_NB) != 0)
        return refuse(refusal, STATUS_INVALID, "%s: another process has this store open", folder);
    local->objects = local_make_folder(local->folder, "objects");
    local->writing = local_make_folder(local->folder, "writing");
    if (local->objects < 0 || local->writing < 0 || fsync(local->folder) != 0 || fsync(local->objects) != 0)
        return local_refuse(refusal, errno, folder);
    status = walk(local->folder, "writing", sweep, NULL, refusal);
    if (status == STATUS_OK)
        status = walk(local->folder, "objects", sync_tenant, NULL, refusal);
    if (status == STATUS_OK)
        status = local_list(&local->store, count_object, &counting, refusal);
    return status == STATUS_OK ? counting.status : status;
}

enum status store_local_open(const char *folder, struct store **ret_store, struct refusal *refusal)
{
    struct local_store *local = calloc(1, sizeof(*local));
    enum status status;

    if (local == NULL)
        return refuse(refusal, STATUS_IO, "no memory for the store");
    local->store.kind = &local_kind;
    local->folder = local->lock = local->objects = local->writing = -1;
    usages_init(&local->usages);
    pthread_mutex_init(&local->folders_mutex, NULL);
    status = begin(local, folder, refusal);
    if (status != STATUS_OK) {
        local_close(&local->store);
        return status;
    }
    *ret_store = &local->store;
    return STATUS_OK;
}

void local_close(struct store *store)
{
    struct local_store *local = (struct local_store *)store;
    const int files[] = {local->folder, local->lock, local->objects, local->writing};

    for (size_t i = 0; i < ARRAY_COUNT(files); i++)
        if (files[i] >= 0)
            close(files[i]);
    usages_free(&local->usages);
    pthread_mutex_destroy(&local->folders_mutex);
    free(local);
}
