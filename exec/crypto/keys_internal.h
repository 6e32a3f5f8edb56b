/* Between keys.c, which acts, and keys_file.c, which speaks to SQLite. */
#ifndef CRYPTO_KEYS_INTERNAL_H
#define CRYPTO_KEYS_INTERNAL_H

#include <sqlite3.h>

#include "crypto/keys.h"
#include "crypto/wrap.h"

#define STATEMENTS(X)                                                                                                  \
    X(BEGIN, "BEGIN IMMEDIATE")                                                                                        \
    X(COMMIT, "COMMIT")                                                                                                \
    X(ROLLBACK, "ROLLBACK")                                                                                            \
    X(MARK_FIND, "SELECT value FROM meta WHERE name = 'master'")                                                       \
    X(MARK_WRITE, "INSERT INTO meta VALUES ('master', ?1) ON CONFLICT (name) DO UPDATE SET value = ?1")                \
    X(KEK_NEWEST, "SELECT version, wrapped FROM kek WHERE tenant = ?1 ORDER BY version DESC LIMIT 1")                  \
    X(KEK_NEXT, "SELECT tenant, version, wrapped FROM kek WHERE tenant > ?1 AND wrapped IS NOT NULL ORDER BY tenant LIMIT 1") \
    X(KEK_INSERT, "INSERT INTO kek VALUES (?1, ?2, ?3)")                                                               \
    X(KEK_UPDATE, "UPDATE kek SET wrapped = ?1 WHERE tenant = ?2 AND version = ?3")                                    \
    X(KEK_ERASE, "UPDATE kek SET wrapped = NULL WHERE tenant = ?1")                                                    \
    X(DEK_FIND, "SELECT tenant, kek_version, wrapped FROM dek WHERE id = ?1")                                          \
    X(DEK_NEXT, "SELECT id, kek_version, wrapped FROM dek WHERE tenant = ?1 AND id > ?2 AND wrapped IS NOT NULL ORDER BY id LIMIT 1") \
    X(DEK_INSERT, "INSERT INTO dek VALUES (?1, ?2, ?3, ?4)")                                                           \
    X(DEK_UPDATE, "UPDATE dek SET kek_version = ?1, wrapped = ?2 WHERE id = ?3")                                       \
    X(DEK_ERASE, "UPDATE dek SET wrapped = NULL WHERE id = ?1 AND tenant = ?2")                                        \
    X(DEK_ERASE_ALL, "UPDATE dek SET wrapped = NULL WHERE tenant = ?1")
enum statement {
#define X(name, text) name,
    STATEMENTS(X)
#undef X
    STATEMENT_COUNT
};

/* In memory of secret_alloc(); all but `master` is zero between two acts. */
struct keys_room {
    uint8_t master[KEY_BYTES];
    uint8_t kek[KEY_BYTES];
    uint8_t dek[KEY_BYTES];
    uint8_t other[KEY_BYTES]; /* the key that a rotation comes from or goes to */
};

struct keys {
    sqlite3 *file;
    sqlite3_stmt *statements[STATEMENT_COUNT];
    struct keys_room *room;
    bool is_broken;
};

/* Places count from 1, columns from 0, as SQLite has it. */
void keys_bind_text(struct keys *keys, enum statement statement, int place, const char *text);
void keys_bind_number(struct keys *keys, enum statement statement, int place, int64_t number);
void keys_bind_wrapped(struct keys *keys, enum statement statement, int place, const uint8_t wrapped[WRAPPED_KEY_BYTES]);

/* A statement without rows. */
enum status keys_do(struct keys *keys, enum statement statement, struct refusal *refusal);
void keys_roll_back(struct keys *keys);
int keys_changed(const struct keys *keys);
/* The first row, to be reset afterwards. STATUS_NOT_FOUND: there is none. */
enum status keys_row(struct keys *keys, enum statement statement, struct refusal *refusal);
void keys_reset(struct keys *keys, enum statement statement);
int64_t keys_number(struct keys *keys, enum statement statement, int column);
bool keys_is_null(struct keys *keys, enum statement statement, int column);
/* STATUS_CORRUPT: not what we write there. */
enum status keys_text_column(struct keys *keys, enum statement statement, int column, char *ret_text, size_t text_max);
enum status keys_name(struct keys *keys, enum statement statement, int column, char ret_name[NAME_BYTES]);
enum status keys_wrapped(struct keys *keys, enum statement statement, int column, uint8_t ret_wrapped[WRAPPED_KEY_BYTES],
                         bool *ret_is_there);

/* Writes the log back into the file and cuts it to nothing. */
enum status keys_empty_log(struct keys *keys, struct refusal *refusal);
/* Something that only this master key opens, so that a wrong one is told from a damaged file. */
enum status keys_write_mark(struct keys *keys, const uint8_t master[KEY_BYTES], struct refusal *refusal);

#endif
