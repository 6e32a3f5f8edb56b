/* SQLite's own file system with a counter in front of every call that changes a file. */
#include <signal.h>
#include <sqlite3.h>
#include <unistd.h>

#include "rig.h"

static sqlite3_vfs *real;
static sqlite3_vfs counting;
static sqlite3_io_methods methods[4]; /* by version; [0] is unused */
static enum vfs_deed what;
static uint64_t fatal;
static uint64_t calls;
static uint64_t syncs;

struct file {
    sqlite3_file base;
    sqlite3_file *inner; /* behind this */
};

static sqlite3_file *inner(sqlite3_file *file) { return ((struct file *)(void *)file)->inner; }

static int change(void)
{
    calls++;
    if (fatal == 0 || calls < fatal || (what == VFS_FULL_ONCE && calls > fatal))
        return SQLITE_OK;
    if (what == VFS_KILL)
        raise(SIGKILL);
    return SQLITE_FULL;
}

static int f_close(sqlite3_file *f) { return inner(f)->pMethods->xClose(inner(f)); }
static int f_read(sqlite3_file *f, void *p, int n, sqlite3_int64 at) { return inner(f)->pMethods->xRead(inner(f), p, n, at); }
static int f_write(sqlite3_file *f, const void *p, int n, sqlite3_int64 at)
{
    const int code = change();

    return code != SQLITE_OK ? code : inner(f)->pMethods->xWrite(inner(f), p, n, at);
}
static int f_truncate(sqlite3_file *f, sqlite3_int64 n)
{
    const int code = change();

    return code != SQLITE_OK ? code : inner(f)->pMethods->xTruncate(inner(f), n);
}
static int f_sync(sqlite3_file *f, int flags)
{
    const int code = change();

    syncs++;
    return code != SQLITE_OK ? code : inner(f)->pMethods->xSync(inner(f), flags);
}
static int f_size(sqlite3_file *f, sqlite3_int64 *n) { return inner(f)->pMethods->xFileSize(inner(f), n); }
static int f_lock(sqlite3_file *f, int l) { return inner(f)->pMethods->xLock(inner(f), l); }
static int f_unlock(sqlite3_file *f, int l) { return inner(f)->pMethods->xUnlock(inner(f), l); }
static int f_reserved(sqlite3_file *f, int *r) { return inner(f)->pMethods->xCheckReservedLock(inner(f), r); }
static int f_control(sqlite3_file *f, int op, void *p) { return inner(f)->pMethods->xFileControl(inner(f), op, p); }
static int f_sector(sqlite3_file *f) { return inner(f)->pMethods->xSectorSize(inner(f)); }
static int f_device(sqlite3_file *f) { return inner(f)->pMethods->xDeviceCharacteristics(inner(f)); }
static int f_shm_map(sqlite3_file *f, int r, int n, int e, void volatile **p)
{
    return inner(f)->pMethods->xShmMap(inner(f), r, n, e, p);
}
static int f_shm_lock(sqlite3_file *f, int o, int n, int flags) { return inner(f)->pMethods->xShmLock(inner(f), o, n, flags); }
static void f_shm_barrier(sqlite3_file *f) { inner(f)->pMethods->xShmBarrier(inner(f)); }
static int f_shm_unmap(sqlite3_file *f, int d) { return inner(f)->pMethods->xShmUnmap(inner(f), d); }

static int v_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *f, int flags, int *out)
{
    struct file *file = (struct file *)(void *)f;
    int code;

    (void)vfs;
    file->inner = (sqlite3_file *)(void *)(file + 1);
    file->base.pMethods = NULL;
    code = real->xOpen(real, name, file->inner, flags, out);
    if (file->inner->pMethods != NULL) {
        const int version = file->inner->pMethods->iVersion;

        file->base.pMethods = &methods[version > 2 ? 2 : version];
    }
    return code;
}

static int v_delete(sqlite3_vfs *vfs, const char *name, int sync)
{
    const int code = change();

    (void)vfs;
    return code != SQLITE_OK ? code : real->xDelete(real, name, sync);
}

static void install(void)
{
    real = sqlite3_vfs_find(NULL);
    counting = *real;
    counting.zName = "counting";
    counting.szOsFile = (int)sizeof(struct file) + real->szOsFile;
    counting.xOpen = v_open;
    counting.xDelete = v_delete;
    for (int version = 1; version <= 2; version++)
        methods[version] = (sqlite3_io_methods){
            .iVersion = version, .xClose = f_close, .xRead = f_read, .xWrite = f_write, .xTruncate = f_truncate, .xSync = f_sync,
            .xFileSize = f_size, .xLock = f_lock, .xUnlock = f_unlock, .xCheckReservedLock = f_reserved, .xFileControl = f_control,
            .xSectorSize = f_sector, .xDeviceCharacteristics = f_device, .xShmMap = f_shm_map, .xShmLock = f_shm_lock,
            .xShmBarrier = f_shm_barrier, .xShmUnmap = f_shm_unmap};
    assert_int_equal(sqlite3_vfs_register(&counting, 1), SQLITE_OK);
}

void vfs_begin(enum vfs_deed deed, uint64_t at)
{
    if (real == NULL)
        install();
    what = deed;
    fatal = at;
    calls = 0;
    syncs = 0;
}

uint64_t vfs_calls(void) { return calls; }
uint64_t vfs_syncs(void) { return syncs; }
