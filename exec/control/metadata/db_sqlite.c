/* SQLite: write-ahead log, each commit on disk before it returns, foreign keys held. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "control/metadata/db.h"

/* The writer is one process; who waits longer than this waits for a stranger. */
#define BUSY_MS 5000
/* What the log keeps on disk after a burst. */
#define LOG_BYTES_MAX "67108864"

struct db {
    sqlite3 *connection;
    char place[512]; /* as messages show it */
};

struct db_query {
    struct db *db;
    sqlite3_stmt *statement;
};

static enum status refused(const struct db *db, int code, struct refusal *refusal)
{
    const char *why = db->connection != NULL ? sqlite3_errmsg(db->connection) : sqlite3_errstr(code);

    switch (code) {
    case SQLITE_CONSTRAINT_PRIMARYKEY:
    case SQLITE_CONSTRAINT_UNIQUE:
    case SQLITE_CONSTRAINT_ROWID:
        return refuse(refusal, STATUS_CONFLICT, "%s: %s", db->place, why);
    default:
        break;
    }
    switch (code & 0xff) {
    case SQLITE_CONSTRAINT:
    case SQLITE_TOOBIG:
    case SQLITE_MISMATCH:
        return refuse(refusal, STATUS_INVALID, "%s: %s", db->place, why);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return refuse(refusal, STATUS_CORRUPT, "%s: %s; put a backup in its place", db->place, why);
    case SQLITE_FULL:
        return refuse(refusal, STATUS_IO, "%s: the disk is full; nothing of this was kept", db->place);
    case SQLITE_READONLY:
        return refuse(refusal, STATUS_IO, "%s: it cannot be written (%s); its folder must be the control plane's own", db->place, why);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return refuse(refusal, STATUS_IO, "%s: another process held it for more than %d s", db->place, BUSY_MS / 1000);
    default:
        return refuse(refusal, STATUS_IO, "%s: %s%s%s", db->place, why, errno != 0 ? ": " : "", errno != 0 ? strerror(errno) : "");
    }
}

/* The first column of the one row that a pragma answers with. */
static enum status ask(struct db *db, const char *pragma, const char *wanted, const char *complaint, struct refusal *refusal)
{
    sqlite3_stmt *statement = NULL;
    enum status status = STATUS_OK;
    int code = sqlite3_prepare_v2(db->connection, pragma, -1, &statement, NULL);

    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    if (code != SQLITE_ROW)
        status = refused(db, sqlite3_extended_errcode(db->connection), refusal);
    else if (strcmp((const char *)sqlite3_column_text(statement, 0), wanted) != 0)
        status = refuse(refusal, STATUS_CORRUPT, "%s: %s", db->place, complaint);
    sqlite3_finalize(statement);
    return status;
}

static enum status sqlite_execute(struct db *db, const char *sql, struct refusal *refusal)
{
    errno = 0;
    if (sqlite3_exec(db->connection, sql, NULL, NULL, NULL) == SQLITE_OK)
        return STATUS_OK;
    return refused(db, sqlite3_extended_errcode(db->connection), refusal);
}

static void sqlite_close(struct db *db)
{
    if (db == NULL)
        return;
    sqlite3_close(db->connection);
    free(db);
}

/* The log and its index take the file's mode, so what matters is how the file is made. */
static enum status make_file(const char *place, struct refusal *refusal)
{
    int file = open(place, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (file < 0)
        return refuse(refusal, STATUS_IO, "%s: %s", place, strerror(errno));
    close(file);
    return STATUS_OK;
}

static enum status set_up(struct db *db, bool first, struct refusal *refusal)
{
    enum status status;

    sqlite3_busy_timeout(db->connection, BUSY_MS);
    sqlite3_extended_result_codes(db->connection, 1);
    status = ask(db, "PRAGMA journal_mode = WAL", "wal", "it has no write-ahead log; is its disk a network's?", refusal);
    if (status == STATUS_OK)
        status = sqlite_execute(db, "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF;"
                                    "PRAGMA cell_size_check = ON; PRAGMA temp_store = MEMORY;"
                                    "PRAGMA journal_size_limit = " LOG_BYTES_MAX, refusal);
    if (status == STATUS_OK && first)
        status = ask(db, "PRAGMA quick_check(1)", "ok", "it is damaged; put a backup in its place", refusal);
    return status;
}

/* Each allocation of any connection would count under one lock, which the writer, standing back, may hold while others want it. */
static void count_nothing(void)
{
    (void)sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0); /* refused when somebody else was first: it counts then */
}

static enum status sqlite_open(const char *place, bool first, struct db **ret_db, struct refusal *refusal)
{
    static pthread_once_t counting = PTHREAD_ONCE_INIT;
    struct db *db;
    enum status status = make_file(place, refusal);
    int code;

    (void)pthread_once(&counting, count_nothing);
    if (status != STATUS_OK)
        return status;
    db = calloc(1, sizeof(*db));
    if (db == NULL)
        return refuse(refusal, STATUS_IO, "%s: no memory", place);
    snprintf(db->place, sizeof(db->place), "%s", place);
    errno = 0;
    code = sqlite3_open_v2(place, &db->connection, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    status = code == SQLITE_OK ? set_up(db, first, refusal) : refused(db, code, refusal);
    if (status != STATUS_OK) {
        sqlite_close(db);
        return status;
    }
    *ret_db = db;
    return STATUS_OK;
}

static enum status sqlite_prepare(struct db *db, const char *sql, struct db_query **ret_query, struct refusal *refusal)
{
    struct db_query *query = calloc(1, sizeof(*query));
    int code;

    if (query == NULL)
        return refuse(refusal, STATUS_IO, "%s: no memory", db->place);
    query->db = db;
    code = sqlite3_prepare_v3(db->connection, sql, -1, SQLITE_PREPARE_PERSISTENT, &query->statement, NULL);
    if (code != SQLITE_OK) {
        free(query);
        return refused(db, sqlite3_extended_errcode(db->connection), refusal);
    }
    *ret_query = query;
    return STATUS_OK;
}

/* SQLite numbers $1, $2, ... by where they first stand, so they are looked up by name. */
static enum status sqlite_bind(struct db_query *query, uint32_t number, const struct value *value, struct refusal *refusal)
{
    char name[16];
    int index;
    int code;

    snprintf(name, sizeof(name), "$%u", number);
    index = sqlite3_bind_parameter_index(query->statement, name);
    check(index > 0);
    switch (value->kind) {
    case VALUE_INT:
        code = sqlite3_bind_int64(query->statement, index, value->number);
        break;
    case VALUE_TEXT:
        code = sqlite3_bind_text64(query->statement, index, value->bytes, value->count, SQLITE_STATIC, SQLITE_UTF8);
        break;
    case VALUE_BLOB:
        code = sqlite3_bind_blob64(query->statement, index, value->count > 0 ? value->bytes : "", value->count, SQLITE_STATIC);
        break;
    default:
        code = sqlite3_bind_null(query->statement, index);
    }
    return code == SQLITE_OK ? STATUS_OK : refused(query->db, code, refusal);
}

static enum status sqlite_step(struct db_query *query, struct refusal *refusal)
{
    int code;

    errno = 0;
    code = sqlite3_step(query->statement);
    if (code == SQLITE_ROW)
        return STATUS_OK;
    return code == SQLITE_DONE ? STATUS_END : refused(query->db, sqlite3_extended_errcode(query->db->connection), refusal);
}

static struct value sqlite_column(struct db_query *query, uint32_t column)
{
    const int index = (int)column;

    switch (sqlite3_column_type(query->statement, index)) {
    case SQLITE_INTEGER:
        return (struct value){.kind = VALUE_INT, .number = sqlite3_column_int64(query->statement, index)};
    case SQLITE_NULL:
        return (struct value){.kind = VALUE_NULL};
    case SQLITE_BLOB:
        return (struct value){.kind = VALUE_BLOB, .bytes = sqlite3_column_blob(query->statement, index),
                              .count = (size_t)sqlite3_column_bytes(query->statement, index)};
    default:
        return (struct value){.kind = VALUE_TEXT, .bytes = sqlite3_column_text(query->statement, index),
                              .count = (size_t)sqlite3_column_bytes(query->statement, index)};
    }
}

/* sqlite3_changes() after a statement that only read tells of the one before. */
static int64_t sqlite_changes(struct db_query *query)
{
    return sqlite3_stmt_readonly(query->statement) ? 0 : sqlite3_changes64(query->db->connection);
}

static void sqlite_reset(struct db_query *query)
{
    sqlite3_reset(query->statement);
    sqlite3_clear_bindings(query->statement);
}

static void sqlite_finish(struct db_query *query)
{
    sqlite3_finalize(query->statement);
    free(query);
}

const struct db_driver db_sqlite = {
    .name = "sqlite",
    .blob = "BLOB",
    .begin = "BEGIN IMMEDIATE",
    .tables = "SELECT COUNT(*) FROM sqlite_master",
    .open = sqlite_open,
    .close = sqlite_close,
    .execute = sqlite_execute,
    .prepare = sqlite_prepare,
    .bind = sqlite_bind,
    .step = sqlite_step,
    .column = sqlite_column,
    .changes = sqlite_changes,
    .reset = sqlite_reset,
    .finish = sqlite_finish,
};
