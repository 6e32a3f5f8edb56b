/* SQLite's own file system with a counter in front of every call that changes a file. */
#include <signal.h>
#include <sqlite3.h>
#include <stdlib.h>
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

/* What lay where something was written since the file's last sync, newest first. */
struct undo {
    struct undo *next;
    sqlite3_file *file;
    sqlite3_int64 at;
    sqlite3_int64 size; /* of the file before */
    int count;
    char bytes[];
};
static struct undo *undos;

static void remember(sqlite3_file *file, int count, sqlite3_int64 at)
{
    struct undo *undo = calloc(1, sizeof(*undo) + (size_t)count);

    check(undo != NULL);
    *undo = (struct undo){.next = undos, .file = file, .at = at, .count = count};
    check(file->pMethods->xFileSize(file, &undo->size) == SQLITE_OK);
    (void)file->pMethods->xRead(file, undo->bytes, count, at); /* zeros past its end */
    undos = undo;
}

static void forget(const sqlite3_file *file)
{
    for (struct undo **at = &undos; *at != NULL;) {
        struct undo *undo = *at;

        if (undo->file == file) {
            *at = undo->next;
            free(undo);
        } else {
            at = &undo->next;
        }
    }
}

static void lose_power(void)
{
    uint64_t random = fatal;

    for (const struct undo *undo = undos; undo != NULL; undo = undo->next) {
        if (fatal % 2 == 0 && draw_below(&random, 2) == 0)
            continue;
        check(undo->file->pMethods->xWrite(undo->file, undo->bytes, undo->count, undo->at) == SQLITE_OK);
        if (fatal % 2 == 1)
            check(undo->file->pMethods->xTruncate(undo->file, undo->size) == SQLITE_OK);
    }
    raise(SIGKILL);
}

static int change(void)
{
    calls++;
    if (fatal == 0 || calls < fatal || (what == VFS_FULL_ONCE && calls > fatal))
        return SQLITE_OK;
    if (what == VFS_KILL)
        raise(SIGKILL);
    if (what == VFS_POWER)
        lose_power();
    return SQLITE_FULL;
}

static int f_close(sqlite3_file *f)
{
    forget(inner(f)); /* a file that closes was synced, or goes */
    return inner(f)->pMethods->xClose(inner(f));
}
static int f_read(sqlite3_file *f, void *p, int n, sqlite3_int64 at) { return inner(f)->pMethods->xRead(inner(f), p, n, at); }
static int f_write(sqlite3_file *f, const void *p, int n, sqlite3_int64 at)
{
    const int code = change();

    if (code == SQLITE_OK && what == VFS_POWER)
        remember(inner(f), n, at);
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
    if (code == SQLITE_OK)
        forget(inner(f));
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
