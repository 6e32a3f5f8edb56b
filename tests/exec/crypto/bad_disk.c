#include "bad_disk.h"

#include <signal.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <unistd.h>

#define FILE_BYTES_MAX (1 << 20)

struct bad_file {
    sqlite3_file base;
    sqlite3_file *real; /* behind this struct */
    uint8_t *image;     /* the file as its process sees it, where power will be lost; else NULL */
    int64_t bytes;
};

static sqlite3_vfs *real_disk;
static enum disk_fault fault;
static unsigned fault_call;
static unsigned calls;

/* True: this call shall fail. A disk that fails goes on failing; one that is full has room again at the next call. */
static bool is_bad(void)
{
    if (fault_call == 0 || ++calls < fault_call || (fault == DISK_IS_FULL && calls > fault_call))
        return false;
    if (fault == DISK_KILLS || fault == DISK_LOSES_POWER)
        kill(getpid(), SIGKILL);
    return true;
}

static sqlite3_file *real_of(sqlite3_file *file)
{
    return ((struct bad_file *)file)->real;
}

/* --- what isn't synced yet --- */

static int image_load(struct bad_file *file)
{
    sqlite3_int64 bytes = 0;

    file->image = calloc(1, FILE_BYTES_MAX);
    check(file->image != NULL);
    check(file->real->pMethods->xFileSize(file->real, &bytes) == SQLITE_OK);
    check(bytes <= FILE_BYTES_MAX);
    file->bytes = bytes;
    return bytes == 0 ? SQLITE_OK : file->real->pMethods->xRead(file->real, file->image, (int)bytes, 0);
}

static int image_sync(struct bad_file *file)
{
    int code = file->real->pMethods->xTruncate(file->real, file->bytes);

    return code == SQLITE_OK && file->bytes > 0 ? file->real->pMethods->xWrite(file->real, file->image, (int)file->bytes, 0) : code;
}

static int image_read(const struct bad_file *file, void *bytes, int count, sqlite3_int64 at)
{
    int64_t there = min_i64(count, max_i64(file->bytes - at, 0));

    memset(bytes, 0, (size_t)count);
    memcpy(bytes, file->image + at, (size_t)there);
    return there == count ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;
}

static int image_write(struct bad_file *file, const void *bytes, int count, sqlite3_int64 at)
{
    check(at + count <= FILE_BYTES_MAX);
    memcpy(file->image + at, bytes, (size_t)count);
    file->bytes = max_i64(file->bytes, at + count);
    return SQLITE_OK;
}

static int image_truncate(struct bad_file *file, sqlite3_int64 bytes)
{
    memset(file->image + bytes, 0, (size_t)max_i64(file->bytes - bytes, 0));
    file->bytes = bytes;
    return SQLITE_OK;
}

/* --- the layer --- */

static int bad_close(sqlite3_file *file)
{
    struct bad_file *bad = (struct bad_file *)file;

    /* Power that isn't lost writes it some time. */
    if (bad->image != NULL)
        (void)image_sync(bad);
    free(bad->image);
    bad->image = NULL;
    return real_of(file)->pMethods->xClose(real_of(file));
}

static int bad_read(sqlite3_file *file, void *bytes, int count, sqlite3_int64 at)
{
    const struct bad_file *bad = (const struct bad_file *)file;

    return bad->image != NULL ? image_read(bad, bytes, count, at) : bad->real->pMethods->xRead(bad->real, bytes, count, at);
}

static int bad_write(sqlite3_file *file, const void *bytes, int count, sqlite3_int64 at)
{
    struct bad_file *bad = (struct bad_file *)file;

    /* Half of what was to be written is there. */
    if (fault_call != 0 && calls + 1 >= fault_call && (fault == DISK_KILLS || fault == DISK_FAILS))
        (void)bad->real->pMethods->xWrite(bad->real, bytes, count / 2, at);
    if (is_bad())
        return fault == DISK_IS_FULL ? SQLITE_FULL : SQLITE_IOERR_WRITE;
    return bad->image != NULL ? image_write(bad, bytes, count, at) : bad->real->pMethods->xWrite(bad->real, bytes, count, at);
}

static int bad_truncate(sqlite3_file *file, sqlite3_int64 bytes)
{
    struct bad_file *bad = (struct bad_file *)file;

    if (is_bad())
        return SQLITE_IOERR_TRUNCATE;
    return bad->image != NULL ? image_truncate(bad, bytes) : bad->real->pMethods->xTruncate(bad->real, bytes);
}

static int bad_sync(sqlite3_file *file, int flags)
{
    struct bad_file *bad = (struct bad_file *)file;

    if (is_bad())
        return SQLITE_IOERR_FSYNC;
    if (bad->image != NULL && image_sync(bad) != SQLITE_OK)
        return SQLITE_IOERR_FSYNC;
    return bad->real->pMethods->xSync(bad->real, flags);
}

static int bad_size(sqlite3_file *file, sqlite3_int64 *ret_bytes)
{
    const struct bad_file *bad = (const struct bad_file *)file;

    if (bad->image == NULL)
        return bad->real->pMethods->xFileSize(bad->real, ret_bytes);
    *ret_bytes = bad->bytes;
    return SQLITE_OK;
}

static int bad_lock(sqlite3_file *file, int lock)
{
    return real_of(file)->pMethods->xLock(real_of(file), lock);
}

static int bad_unlock(sqlite3_file *file, int lock)
{
    return real_of(file)->pMethods->xUnlock(real_of(file), lock);
}

static int bad_reserved(sqlite3_file *file, int *ret_reserved)
{
    return real_of(file)->pMethods->xCheckReservedLock(real_of(file), ret_reserved);
}

static int bad_control(sqlite3_file *file, int act, void *argument)
{
    return real_of(file)->pMethods->xFileControl(real_of(file), act, argument);
}

static int bad_sector(sqlite3_file *file)
{
    return real_of(file)->pMethods->xSectorSize(real_of(file));
}

static int bad_device(sqlite3_file *file)
{
    return real_of(file)->pMethods->xDeviceCharacteristics(real_of(file));
}

static const sqlite3_io_methods methods = {
    .iVersion = 1,
    .xClose = bad_close,
    .xRead = bad_read,
    .xWrite = bad_write,
    .xTruncate = bad_truncate,
    .xSync = bad_sync,
    .xFileSize = bad_size,
    .xLock = bad_lock,
    .xUnlock = bad_unlock,
    .xCheckReservedLock = bad_reserved,
    .xFileControl = bad_control,
    .xSectorSize = bad_sector,
    .xDeviceCharacteristics = bad_device,
};

static int bad_open(sqlite3_vfs *disk, const char *name, sqlite3_file *file, int flags, int *ret_flags)
{
    struct bad_file *bad = (struct bad_file *)file;
    int code;

    (void)disk;
    bad->base.pMethods = NULL;
    bad->image = NULL;
    bad->real = (sqlite3_file *)(bad + 1);
    if ((flags & SQLITE_OPEN_CREATE) != 0 && is_bad())
        return SQLITE_CANTOPEN;
    code = real_disk->xOpen(real_disk, name, bad->real, flags, ret_flags);
    if (bad->real->pMethods != NULL)
        bad->base.pMethods = &methods;
    if (code == SQLITE_OK && fault_call != 0 && fault == DISK_LOSES_POWER)
        code = image_load(bad);
    return code;
}

static int bad_delete(sqlite3_vfs *disk, const char *name, int sync)
{
    (void)disk;
    return is_bad() ? SQLITE_IOERR_DELETE : real_disk->xDelete(real_disk, name, sync);
}

void bad_disk_install(void)
{
    static sqlite3_vfs disk;

    real_disk = sqlite3_vfs_find(NULL);
    check(real_disk != NULL);
    disk = *real_disk;
    disk.zName = "bad";
    disk.pNext = NULL;
    disk.szOsFile += (int)sizeof(struct bad_file);
    disk.xOpen = bad_open;
    disk.xDelete = bad_delete;
    check(sqlite3_vfs_register(&disk, 1) == SQLITE_OK);
}

void bad_disk_fault_at(enum disk_fault kind, unsigned call)
{
    fault = kind;
    fault_call = call;
    calls = 0;
}
