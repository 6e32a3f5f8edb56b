/* Folders of strangers, opened with care; outputs that are there whole or not at all. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/files/file.h"

/* --- folders of strangers ------------------------------------------------------------------------------------------------------ */

static const char *after_name(const char *name)
{
    const char *slash = strchr(name, '/');

    return slash != NULL ? slash + 1 : NULL;
}

static bool is_plain_path(const char *path)
{
    for (const char *name = path; name != NULL; name = after_name(name)) {
        const size_t length = strcspn(name, "/");

        if (length == 0 || length > NAME_MAX || (length <= 2 && strspn(name, ".") >= length))
            return false;
    }
    return true;
}

enum status folder_open_below(int folder, const char *path, int *ret_folder, struct refusal *refusal)
{
    int at = folder;

    if (!is_plain_path(path))
        return refuse(refusal, STATUS_INVALID, "the path is no folder's below another: plain names between single slashes, none of them . or ..");
    for (const char *from = path; from != NULL; from = after_name(from)) {
        char name[NAME_MAX + 1];
        int next;

        snprintf(name, sizeof(name), "%.*s", (int)strcspn(from, "/"), from);
        next = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (at != folder)
            close(at);
        if (next < 0)
            return refuse(refusal, STATUS_NOT_FOUND, "there is no such folder; links are not followed");
        at = next;
    }
    *ret_folder = at;
    return STATUS_OK;
}

/* --- outputs ------------------------------------------------------------------------------------------------------------------- */

/* Whether nothing stands at `path`, or an empty folder. */
static bool is_free(const char *path)
{
    DIR *directory = opendir(path);
    struct dirent *entry;
    struct stat about;
    bool empty = true;

    if (directory == NULL)
        return lstat(path, &about) != 0;
    while ((entry = readdir(directory)) != NULL)
        empty &= strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    closedir(directory);
    return empty;
}

size_t folder_path_length(const char *path)
{
    size_t length = strlen(path);

    while (length > 1 && path[length - 1] == '/')
        length--;
    return length;
}

enum status folder_begin(struct folder *folder, const char *path, struct refusal *refusal)
{
    const size_t length = folder_path_length(path);

    memset(folder, 0, sizeof(*folder));
    if (length == 0 || length + 16 >= sizeof(folder->path))
        return refuse(refusal, STATUS_INVALID, "%s: is no name for a folder", path);
    memcpy(folder->path, path, length);
    if (!is_free(folder->path))
        return refuse(refusal, STATUS_INVALID, "%s: is there already and is not overwritten; name a new folder", folder->path);
    snprintf(folder->temporary, sizeof(folder->temporary), "%.4080s.new-XXXXXX", folder->path);
    if (mkdtemp(folder->temporary) == NULL) {
        int code = errno;

        folder->temporary[0] = '\0';
        return refuse(refusal, STATUS_IO, "%s: cannot be made: %s", folder->path, strerror(code));
    }
    return STATUS_OK;
}

/* What a rename may not overtake. */
static bool sync_path(const char *path)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    bool fine = file >= 0 && fsync(file) == 0;

    if (file >= 0)
        close(file);
    return fine;
}

/* What was renamed is where it should be; only a loss of power could still undo it. File systems that cannot sync folders say EINVAL. */
static enum status sync_parent(const char *path, struct refusal *refusal)
{
    char parent[4096];
    const char *slash = strrchr(path, '/');

    if (slash == NULL)
        strcpy(parent, ".");
    else
        snprintf(parent, sizeof(parent), "%.*s", slash == path ? 1 : (int)(slash - path), path);
    if (sync_path(parent) || errno == EINVAL)
        return STATUS_OK;
    return refuse(refusal, STATUS_IO, "%s: is in place, but its folder could not be synced, and a loss of power may undo it: %s", path,
                  strerror(errno));
}

enum status folder_commit(struct folder *folder, struct refusal *refusal)
{
    /* mkdtemp made it for its owner only. */
    mode_t mask = umask(0);

    umask(mask);
    if (chmod(folder->temporary, 0777 & ~mask) != 0 || !sync_path(folder->temporary) ||
        rename(folder->temporary, folder->path) != 0) {
        int code = errno;

        folder_abandon(folder);
        return refuse(refusal, STATUS_IO, "%s: cannot be put in place: %s", folder->path, strerror(code));
    }
    folder->temporary[0] = '\0';
    return sync_parent(folder->path, refusal);
}

/* Folders in folders, as deep as we make them. */
static void remove_tree(int parent, const char *name, int depth)
{
    int file = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *directory = file < 0 ? NULL : fdopendir(file);
    struct dirent *entry;

    if (directory == NULL) {
        if (file >= 0)
            close(file);
        return;
    }
    while ((entry = readdir(directory)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (unlinkat(file, entry->d_name, 0) != 0 && depth > 0)
            remove_tree(file, entry->d_name, depth - 1);
    }
    closedir(directory);
    unlinkat(parent, name, AT_REMOVEDIR);
}

void folder_abandon(struct folder *folder)
{
    if (folder->temporary[0] != '\0')
        remove_tree(AT_FDCWD, folder->temporary, 4);
    folder->temporary[0] = '\0';
}

static bool write_whole(int file, const char *data, size_t bytes)
{
    while (bytes > 0) {
        ssize_t done = write(file, data, bytes);

        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return false;
        data += done;
        bytes -= (size_t)done;
    }
    return true;
}

enum status file_begin(struct new_file *file, const char *path, struct refusal *refusal)
{
    file->path = path;
    file->file = -1;
    if ((size_t)snprintf(file->temporary, sizeof(file->temporary), "%s.new-%ld", path, (long)getpid()) >= sizeof(file->temporary))
        return refuse(refusal, STATUS_INVALID, "%s: the name is too long", path);
    file->file = open(file->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (file->file < 0)
        return refuse(refusal, STATUS_IO, "%s: cannot be written: %s", path, strerror(errno));
    return STATUS_OK;
}

enum status file_put(struct new_file *file, const void *data, size_t bytes, struct refusal *refusal)
{
    if (write_whole(file->file, data, bytes))
        return STATUS_OK;
    return refuse(refusal, STATUS_IO, "%s: cannot be written: %s", file->path, strerror(errno));
}

enum status file_commit(struct new_file *file, struct refusal *refusal)
{
    bool synced = fsync(file->file) == 0;
    bool closed = close(file->file) == 0;

    file->file = -1;
    if (synced && closed && rename(file->temporary, file->path) == 0)
        return sync_parent(file->path, refusal);
    refuse(refusal, STATUS_IO, "%s: cannot be put in place: %s", file->path, strerror(errno));
    unlink(file->temporary);
    return STATUS_IO;
}

void file_abandon(struct new_file *file)
{
    if (file->file < 0)
        return;
    close(file->file);
    unlink(file->temporary);
    file->file = -1;
}

enum status file_write(const char *path, const void *data, size_t bytes, struct refusal *refusal)
{
    struct new_file file;
    enum status status = file_begin(&file, path, refusal);

    if (status == STATUS_OK)
        status = file_put(&file, data, bytes, refusal);
    if (status == STATUS_OK)
        return file_commit(&file, refusal);
    file_abandon(&file);
    return status;
}
