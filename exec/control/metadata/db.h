/* A database behind a table of functions: one text of SQL for SQLite and for PostgreSQL. A connection and its queries belong to one
 * thread at a time.
 *
 *   STATUS_CONFLICT  a key that must be unique is there already
 *   STATUS_INVALID   a row breaks a rule of the schema
 *   STATUS_CORRUPT   what lies there is no database, or not whole
 *   STATUS_IO        the disk is full, read-only or failing; somebody else holds the database too long
 *
 * Messages name places and rules, never values. */
#ifndef METADATA_DB_H
#define METADATA_DB_H

#include "engine/files/refusal.h"

enum value_kind { VALUE_NULL, VALUE_INT, VALUE_TEXT, VALUE_BLOB };
struct value {
    enum value_kind kind;
    int64_t number;
    const void *bytes; /* TEXT ends in '\0', which is not counted */
    size_t count;
};

struct db;
struct db_query;

struct db_driver {
    const char *name;
    const char *blob;   /* what it calls a column of bytes */
    const char *begin;  /* a transaction that means to write */
    const char *tables; /* a query: how many tables there are */
    /* `place`: a file, for SQLite; it is made where it isn't. `first`: the control plane's own, which looks whether what is there is
     * whole and, where a server could be shared, keeps other control planes away. */
    enum status (*open)(const char *place, bool first, struct db **ret_db, struct refusal *refusal);
    void (*close)(struct db *db);
    /* Statements without values, one or several. */
    enum status (*execute)(struct db *db, const char *sql, struct refusal *refusal);
    /* Values are $1, $2, ... */
    enum status (*prepare)(struct db *db, const char *sql, struct db_query **ret_query, struct refusal *refusal);
    /* `number` from 1. What it points to stays until the reset. */
    enum status (*bind)(struct db_query *query, uint32_t number, const struct value *value, struct refusal *refusal);
    /* STATUS_OK: a row; STATUS_END: no more. */
    enum status (*step)(struct db_query *query, struct refusal *refusal);
    struct value (*column)(struct db_query *query, uint32_t index); /* until the next step */
    int64_t (*changes)(struct db_query *query);                     /* rows, after STATUS_END of a statement that writes */
    void (*reset)(struct db_query *query);
    void (*finish)(struct db_query *query);
};

extern const struct db_driver db_sqlite;
extern const struct db_driver db_postgres; /* `place`: libpq's connection string */

#endif
