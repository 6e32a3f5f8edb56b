#include "keys_files.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/files/file.h"

static const char *const endings[] = {"", "-wal", "-shm", "-journal"};

/* NULL: there is none. */
static void *read_beside(const char *path, const char *ending, int64_t *ret_bytes)
{
    struct refusal refusal;
    void *data = NULL;
    char name[600];

    snprintf(name, sizeof(name), "%.500s%s", path, ending);
    return file_read(AT_FDCWD, name, name, 1 << 30, &data, ret_bytes, &refusal) == STATUS_OK ? data : NULL;
}

bool keys_files_hold(const char *path, const uint8_t *bytes, size_t count)
{
    bool found = false;

    for (size_t i = 0; i < ARRAY_COUNT(endings); i++) {
        int64_t size = 0;
        uint8_t *data = read_beside(path, endings[i], &size);

        for (const uint8_t *at = data; data != NULL && !found && at + count <= data + size; at++)
            found = memcmp(at, bytes, count) == 0;
        free(data);
    }
    return found;
}

/* With its log, which may hold the newest rows. */
static void copy_files(const char *path, const char *copy)
{
    for (size_t i = 0; i < 2; i++) {
        struct refusal refusal;
        char name[600];
        int64_t bytes = 0;
        void *data = read_beside(path, endings[i], &bytes);

        snprintf(name, sizeof(name), "%.500s%s", copy, endings[i]);
        if (data != NULL)
            check(file_write(name, data, (size_t)bytes, &refusal) == STATUS_OK);
        free(data);
    }
}

size_t keys_files_rows(const char *path, const char *query, struct row *ret_rows, size_t rows_max)
{
    sqlite3 *file = NULL;
    sqlite3_stmt *statement = NULL;
    char copy[500];
    size_t count = 0;

    snprintf(copy, sizeof(copy), "%.480s.copy", path);
    copy_files(path, copy);
    /* The default may be a bad disk. */
    check(sqlite3_open_v2(copy, &file, SQLITE_OPEN_READWRITE, "unix") == SQLITE_OK);
    check(sqlite3_prepare_v2(file, query, -1, &statement, NULL) == SQLITE_OK);
    while (sqlite3_step(statement) == SQLITE_ROW && count < rows_max) {
        check(sqlite3_column_bytes(statement, 0) == WRAPPED_KEY_BYTES);
        memcpy(ret_rows[count++].wrapped, sqlite3_column_blob(statement, 0), WRAPPED_KEY_BYTES);
    }
    sqlite3_finalize(statement);
    sqlite3_close(file);
    (void)unlink(copy); /* the last one to close has removed the log */
    return count;
}
