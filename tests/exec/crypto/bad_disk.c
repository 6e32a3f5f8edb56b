#include "bad_disk.h"

#include <signal.h>
#include <sqlite3.h>
#include <unistd.h>

struct bad_file {
    sqlite3_file base;
    sqlite3_file *real; /* behind this struct */
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
    if (fault == DISK_KILLS)
        kill(getpid(), SIGKILL);
    return true;
}

static sqlite3_file *real_of(sqlite3_file *file)
{
    return ((struct bad_file *)file)->real;
}

static int bad_close(sqlite3_file *file)
{
    return real_of(file)->pMethods->xClose(real_of(file));
}

static int bad_read(sqlite3_file *file, void *bytes, int count, sqlite3_int64 at)
{
    return real_of(file)->pMethods->xRead(real_of(file), bytes, count, at);
}

static int bad_write(sqlite3_file *file, const void *bytes, int count, sqlite3_int64 at)
{
    /* Half of what was to be written is there. */
    if (fault_call != 0 && calls + 1 >= fault_call && fault != DISK_IS_FULL)
        (void)real_of(file)->pMethods->xWrite(real_of(file), bytes, count / 2, at);
    if (is_bad())
        return fault == DISK_IS_FULL ? SQLITE_FULL : SQLITE_IOERR_WRITE;
    return real_of(file)->pMethods->xWrite(real_of(file), bytes, count, at);
}

static int bad_truncate(sqlite3_file *file, sqlite3_int64 bytes)
{
    return is_bad() ? SQLITE_IOERR_TRUNCATE : real_of(file)->pMethods->xTruncate(real_of(file), bytes);
}

static int bad_sync(sqlite3_file *file, int flags)
{
    return is_bad() ? SQLITE_IOERR_FSYNC : real_of(file)->pMethods->xSync(real_of(file), flags);
}

static int bad_size(sqlite3_file *file, sqlite3_int64 *ret_bytes)
{
    return real_of(file)->pMethods->xFileSize(real_of(file), ret_bytes);
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
    bad->real = (sqlite3_file *)(bad + 1);
    if ((flags & SQLITE_OPEN_CREATE) != 0 && is_bad())
        return SQLITE_CANTOPEN;
    code = real_disk->xOpen(real_disk, name, bad->real, flags, ret_flags);
    if (bad->real->pMethods != NULL)
        bad->base.pMethods = &methods;
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
