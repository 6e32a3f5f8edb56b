#include "control/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "crypto/secret.h"

#define JOIN_MS 5000

static enum status check_folder(const char *path, struct refusal *refusal)
{
    struct stat info;

    if (lstat(path, &info) != 0)
        return refuse(refusal, STATUS_IO, "%s: %s", path, strerror(errno));
    if (!S_ISDIR(info.st_mode))
        return refuse(refusal, STATUS_INVALID, "%s: not a folder", path);
    if (info.st_uid != geteuid())
        return refuse(refusal, STATUS_INVALID, "%s: belongs to user %lu, and this is %lu; run it as the folder's owner", path,
                      (unsigned long)info.st_uid, (unsigned long)geteuid());
    if ((info.st_mode & 077) != 0)
        return refuse(refusal, STATUS_INVALID, "%s: others may enter it; chmod 700 it", path);
    return STATUS_OK;
}

/* One that is being killed lets go a moment later. */
static bool take(int lock_file, uint32_t wait_ms)
{
    const struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    const struct timespec pause = {.tv_nsec = 10 * NS_PER_MS};

    for (uint32_t waited_ms = 0; fcntl(lock_file, F_SETLK, &lock) != 0; waited_ms += 10) {
        if (waited_ms >= wait_ms)
            return false;
        nanosleep(&pause, NULL);
    }
    return true;
}

/* A lock of the kernel's goes with its process, however that ends. */
static enum status lock_folder(struct control_folder *folder, const char *name, uint32_t wait_ms, struct refusal *refusal)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char path[4096];
    char number[32];
    int length;

    control_folder_at(folder, name, path);
    folder->lock = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (folder->lock < 0)
        return refuse(refusal, STATUS_IO, "%s: %s", path, strerror(errno));
    if (!take(folder->lock, wait_ms)) {
        if (fcntl(folder->lock, F_GETLK, &lock) != 0)
            lock.l_pid = 0;
        return refuse(refusal, STATUS_CONFLICT, "%s: process %ld runs here already; stop it first, or take another folder", folder->path,
                      (long)lock.l_pid);
    }
    length = snprintf(number, sizeof(number), "%ld\n", (long)getpid());
    if (ftruncate(folder->lock, 0) != 0 || write(folder->lock, number, (size_t)length) != length)
        return refuse(refusal, STATUS_IO, "%s: %s", path, strerror(errno));
    return STATUS_OK;
}

static enum status open_with(struct control_folder *folder, const char *path, const char *lock, uint32_t wait_ms, struct refusal *refusal)
{
    enum status status;

    *folder = (struct control_folder){.lock = -1};
    if (strlen(path) >= sizeof(folder->path))
        return refuse(refusal, STATUS_INVALID, "the folder's path is too long");
    snprintf(folder->path, sizeof(folder->path), "%s", path);
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return refuse(refusal, STATUS_IO, "%s: %s", path, strerror(errno));
    status = check_folder(path, refusal);
    if (status == STATUS_OK)
        status = lock_folder(folder, lock, wait_ms, refusal);
    if (status != STATUS_OK)
        control_folder_close(folder);
    return status;
}

enum status control_folder_open(struct control_folder *folder, const char *path, struct refusal *refusal)
{
    return open_with(folder, path, "lock", 0, refusal);
}

enum status control_folder_join(struct control_folder *folder, const char *path, struct refusal *refusal)
{
    return open_with(folder, path, "lock.control", JOIN_MS, refusal);
}

void control_folder_close(struct control_folder *folder)
{
    if (folder->lock >= 0)
        close(folder->lock);
    folder->lock = -1;
}

const char *control_folder_at(const struct control_folder *folder, const char *name, char ret_path[4096])
{
    const size_t length = strlen(folder->path);

    check(length + strlen(name) + 2 <= 4096);
    memcpy(ret_path, folder->path, length);
    ret_path[length] = '/';
    strcpy(ret_path + length + 1, name);
    return ret_path;
}

enum status control_folder_key_file(const struct control_folder *folder, const char *name, const char *database_name, char ret_path[4096],
                                    struct refusal *refusal)
{
    char database[4096];

    control_folder_at(folder, name, ret_path);
    if (access(ret_path, F_OK) == 0)
        return STATUS_OK;
    if (access(control_folder_at(folder, database_name, database), F_OK) == 0)
        return refuse(refusal, STATUS_INVALID, "%s is not there, and %s is: put the key file back", ret_path, database);
    return master_create(ret_path, refusal);
}

enum status control_folder_key(const struct control_folder *folder, uint8_t *ret_key, struct refusal *refusal)
{
    char path[4096];
    const struct master_source source = {.file = path};
    const enum status status = control_folder_key_file(folder, "server.key", "metadata.db", path, refusal);

    return status == STATUS_OK ? master_load(&source, ret_key, refusal) : status;
}
