/* keys.db as a file: made for its owner alone, opened by one process, its statements prepared once. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crypto/keys_internal.h"

/* Exclusive before WAL: the log's index is then in memory, and nobody else can read along. */
static const char settings[] = "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
                               "PRAGMA secure_delete = ON; PRAGMA temp_store = MEMORY; PRAGMA mmap_size = 0;"
                               "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;";

/* How long the file may still be another's. */
#define OTHER_VAULT_MS 2000

static const char schema[] =
    "BEGIN IMMEDIATE;"
    "CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS kek (tenant TEXT NOT NULL, version INTEGER NOT NULL, wrapped BLOB, PRIMARY KEY (tenant, version))"
    " WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS dek (id TEXT PRIMARY KEY, tenant TEXT NOT NULL, kek_version INTEGER NOT NULL, wrapped BLOB)"
    " WITHOUT ROWID;"
    "CREATE INDEX IF NOT EXISTS dek_of_tenant ON dek (tenant, id);"
    "PRAGMA user_version = 1;"
    "COMMIT;";

static const char *const texts[] = {
#define X(name, text) text,
    STATEMENTS(X)
#undef X
};

/* SQLite's texts here quote nothing of a row. */
static enum status refuse_sqlite(struct keys *keys, int code, struct refusal *refusal)
{
    switch (code & 0xff) {
    case SQLITE_FULL:
        return refuse(refusal, STATUS_IO, "keys.db: the disk is full; make room");
    case SQLITE_BUSY:
        return refuse(refusal, STATUS_INVALID, "keys.db: another process has it open; only the vault may");
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return refuse(refusal, STATUS_CORRUPT, "keys.db: is damaged or no database of keys; take it from a backup");
    default:
        keys->is_broken = true;
        return refuse(refusal, STATUS_IO, "keys.db: %s", sqlite3_errstr(code));
    }
}

void keys_bind_text(struct keys *keys, enum statement statement, int place, const char *text)
{
    check(sqlite3_bind_text(keys->statements[statement], place, text, -1, SQLITE_STATIC) == SQLITE_OK);
}

void keys_bind_number(struct keys *keys, enum statement statement, int place, int64_t number)
{
    check(sqlite3_bind_int64(keys->statements[statement], place, number) == SQLITE_OK);
}

void keys_bind_wrapped(struct keys *keys, enum statement statement, int place, const uint8_t wrapped[WRAPPED_KEY_BYTES])
{
    check(sqlite3_bind_blob(keys->statements[statement], place, wrapped, WRAPPED_KEY_BYTES, SQLITE_STATIC) == SQLITE_OK);
}

enum status keys_do(struct keys *keys, enum statement statement, struct refusal *refusal)
{
    int code = sqlite3_step(keys->statements[statement]);

    keys_reset(keys, statement);
    return code == SQLITE_DONE ? STATUS_OK : refuse_sqlite(keys, code, refusal);
}

void keys_roll_back(struct keys *keys)
{
    struct refusal ignored;

    /* Some failures have rolled back already. */
    if (!sqlite3_get_autocommit(keys->file))
        (void)keys_do(keys, ROLLBACK, &ignored);
}

int keys_changed(const struct keys *keys)
{
    return sqlite3_changes(keys->file);
}

enum status keys_row(struct keys *keys, enum statement statement, struct refusal *refusal)
{
    int code = sqlite3_step(keys->statements[statement]);

    if (code == SQLITE_ROW)
        return STATUS_OK;
    return code == SQLITE_DONE ? STATUS_NOT_FOUND : refuse_sqlite(keys, code, refusal);
}

void keys_reset(struct keys *keys, enum statement statement)
{
    sqlite3_reset(keys->statements[statement]);
    sqlite3_clear_bindings(keys->statements[statement]);
}

int64_t keys_number(struct keys *keys, enum statement statement, int column)
{
    return sqlite3_column_int64(keys->statements[statement], column);
}

bool keys_is_null(struct keys *keys, enum statement statement, int column)
{
    return sqlite3_column_type(keys->statements[statement], column) == SQLITE_NULL;
}

enum status keys_text_column(struct keys *keys, enum statement statement, int column, char *ret_text, size_t text_max)
{
    const unsigned char *text = sqlite3_column_text(keys->statements[statement], column);
    size_t bytes = (size_t)sqlite3_column_bytes(keys->statements[statement], column);

    if (text == NULL || bytes >= text_max || memchr(text, '\0', bytes) != NULL)
        return STATUS_CORRUPT;
    memcpy(ret_text, text, bytes);
    ret_text[bytes] = '\0';
    return STATUS_OK;
}

enum status keys_name(struct keys *keys, enum statement statement, int column, char ret_name[NAME_BYTES])
{
    enum status status = keys_text_column(keys, statement, column, ret_name, NAME_BYTES);

    return status == STATUS_OK && !name_is_valid(ret_name) ? STATUS_CORRUPT : status;
}

enum status keys_wrapped(struct keys *keys, enum statement statement, int column, uint8_t ret_wrapped[WRAPPED_KEY_BYTES],
                         bool *ret_is_there)
{
    const void *wrapped = sqlite3_column_blob(keys->statements[statement], column);

    *ret_is_there = !keys_is_null(keys, statement, column);
    if (!*ret_is_there)
        return STATUS_OK;
    if (wrapped == NULL || sqlite3_column_bytes(keys->statements[statement], column) != WRAPPED_KEY_BYTES)
        return STATUS_CORRUPT;
    memcpy(ret_wrapped, wrapped, WRAPPED_KEY_BYTES);
    return STATUS_OK;
}

enum status keys_empty_log(struct keys *keys, struct refusal *refusal)
{
    sqlite3_file *log = NULL;
    int code = sqlite3_wal_checkpoint_v2(keys->file, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);

    /* SQLite needs no sync after the cut; whoever takes the disk at that moment would still find what was erased. */
    if (code == SQLITE_OK)
        code = sqlite3_file_control(keys->file, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
    if (code == SQLITE_OK && log != NULL && log->pMethods != NULL)
        code = log->pMethods->xSync(log, SQLITE_SYNC_NORMAL);
    return code == SQLITE_OK ? STATUS_OK : refuse_sqlite(keys, code, refusal);
}

static struct binding mark_binding(void)
{
    struct binding binding;

    binding_begin(&binding, "master");
    return binding;
}

enum status keys_write_mark(struct keys *keys, const uint8_t master[KEY_BYTES], struct refusal *refusal)
{
    const struct binding binding = mark_binding();
    const uint8_t zeros[KEY_BYTES] = {0};
    uint8_t wrapped[WRAPPED_KEY_BYTES];

    wrap(master, &binding, zeros, sizeof(zeros), wrapped);
    keys_bind_wrapped(keys, MARK_WRITE, 1, wrapped);
    return keys_do(keys, MARK_WRITE, refusal);
}

/* A new file is of the master key that opens it first. */
static enum status check_mark(struct keys *keys, struct refusal *refusal)
{
    const struct binding binding = mark_binding();
    uint8_t wrapped[WRAPPED_KEY_BYTES];
    uint8_t opened[KEY_BYTES];
    bool is_there = false;
    enum status status = keys_row(keys, MARK_FIND, refusal);

    if (status == STATUS_OK)
        status = keys_wrapped(keys, MARK_FIND, 0, wrapped, &is_there);
    keys_reset(keys, MARK_FIND);
    if (status == STATUS_NOT_FOUND)
        return keys_write_mark(keys, keys->room->master, refusal);
    if (status == STATUS_OK)
        status = unwrap(keys->room->master, &binding, wrapped, sizeof(wrapped), opened);
    if (status == STATUS_CORRUPT)
        return refuse(refusal, STATUS_INVALID, "keys.db: is of another master key; give the one that it was made with");
    return status;
}

/* SQLite would make it readable for all. */
static enum status make_file(const char *path, struct refusal *refusal)
{
    int file = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
    enum status status = STATUS_OK;
    struct stat about;

    if (file < 0)
        return refuse(refusal, STATUS_IO, "%s: %s", path, strerror(errno));
    if (fstat(file, &about) != 0 || !S_ISREG(about.st_mode))
        status = refuse(refusal, STATUS_INVALID, "%s: is not a regular file", path);
    else if (about.st_uid != geteuid() || (about.st_mode & 077) != 0)
        status = refuse(refusal, STATUS_INVALID, "%s: must belong to the vault's user and be its alone: chmod 600", path);
    close(file);
    return status;
}

static enum status prepare(struct keys *keys, struct refusal *refusal)
{
    for (int i = 0; i < STATEMENT_COUNT; i++) {
        int code = sqlite3_prepare_v3(keys->file, texts[i], -1, SQLITE_PREPARE_PERSISTENT, &keys->statements[i], NULL);

        if (code != SQLITE_OK)
            return refuse_sqlite(keys, code, refusal);
    }
    return STATUS_OK;
}

static enum status begin(struct keys *keys, const char *path, struct refusal *refusal)
{
    enum status status;
    int code = sqlite3_open_v2(path, &keys->file, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);

    /* The vault of a control plane that was killed hears of it a moment later. */
    if (code == SQLITE_OK)
        code = sqlite3_busy_timeout(keys->file, OTHER_VAULT_MS);
    if (code == SQLITE_OK)
        code = sqlite3_exec(keys->file, settings, NULL, NULL, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_exec(keys->file, schema, NULL, NULL, NULL);
    if (code != SQLITE_OK)
        return refuse_sqlite(keys, code, refusal);
    status = prepare(keys, refusal);
    if (status == STATUS_OK)
        status = check_mark(keys, refusal);
    /* A vault that was killed may have left what it was erasing in the log. */
    return status == STATUS_OK ? keys_empty_log(keys, refusal) : status;
}

enum status keys_open(const char *path, const uint8_t master[KEY_BYTES], struct keys **ret_keys, struct refusal *refusal)
{
    enum status status = make_file(path, refusal);
    struct keys *keys;

    if (status != STATUS_OK)
        return status;
    keys = calloc(1, sizeof(*keys));
    if (keys != NULL)
        keys->room = secret_alloc(sizeof(*keys->room));
    if (keys == NULL || keys->room == NULL) {
        free(keys);
        return refuse(refusal, STATUS_IO, "no memory for keys.db");
    }
    memcpy(keys->room->master, master, KEY_BYTES);
    status = begin(keys, path, refusal);
    if (status != STATUS_OK) {
        keys_close(keys);
        return status;
    }
    *ret_keys = keys;
    return STATUS_OK;
}

void keys_close(struct keys *keys)
{
    if (keys == NULL)
        return;
    for (int i = 0; i < STATEMENT_COUNT; i++)
        sqlite3_finalize(keys->statements[i]);
    sqlite3_close(keys->file);
    secret_free(keys->room);
    free(keys);
}

bool keys_are_broken(const struct keys *keys)
{
    return keys->is_broken;
}
