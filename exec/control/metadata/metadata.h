/* What was promised: tenants, keys, files, jobs, models, usage and money, as rows. The database is the truth; the fleet core's memory
 * is a cache of it. Tenants' words come sealed and go sealed: nothing here can read them.
 *
 * Every function that touches a tenant's data takes the tenant, and says the same STATUS_NOT_FOUND, after the same work, for what
 * is not there and for what is another's. Times are wall milliseconds and come with the call; money is 1e-9 units. Ids are drawn
 * here and never used twice: rows change their state and stay.
 *
 *   STATUS_NOT_FOUND  the tenant has no such thing
 *   STATUS_CONFLICT   somebody was first: a name or key is taken, or what should be changed is no longer in that state
 *   STATUS_FULL       a quota or a bound
 *   STATUS_INVALID    a value out of range, or a reference to what isn't the tenant's
 *   STATUS_CORRUPT    the database is damaged
 *   STATUS_IO         the disk is full, read-only or failing; nothing of the act was kept
 *
 * Each function that writes is a transaction, on disk when it returns; between meta_begin() and meta_end() it is a part of that one.
 * A struct metadata is one connection and belongs to one thread at a time; open several. */
#ifndef METADATA_METADATA_H
#define METADATA_METADATA_H

#include "control/metadata/db.h"
#include "crypto/names.h"

#define META_SCHEMA_VERSION 1
#define META_KEY_BYTES 32
/* Of any text or bytes given here. */
#define META_VALUE_BYTES_MAX 65536
/* Rows of one page. */
#define META_PAGE_MAX 100
/* No such number: NULL in the database. */
#define META_NONE INT64_MIN

struct metadata;

struct meta_options {
    const char *place;
    /* The installation's own secret: keys of tenants are stored under it, heads of the audit log signed. */
    const uint8_t *server_key; /* META_KEY_BYTES; it is not kept */
    bool first;                /* this connection may make the tables and looks whether the database is whole */
    const struct db_driver *driver; /* NULL: SQLite */
};
enum status meta_open(const struct meta_options *options, struct metadata **ret_metadata, struct refusal *refusal);
void meta_close(struct metadata *metadata); /* NULL is fine */

/* One transaction, in which others may lie. meta_end() keeps it if `status` is STATUS_OK and it can; otherwise nothing of it
 * stays. It returns what came of it. */
enum status meta_begin(struct metadata *metadata, struct refusal *refusal);
enum status meta_end(struct metadata *metadata, enum status status, struct refusal *refusal);

/* What rows' texts lie in; zero it first, free it when the rows have been used. At most 16 MiB: STATUS_FULL. */
struct meta_block;
struct meta_results {
    struct meta_block *blocks;
    size_t used_bytes;
};
void meta_results_free(struct meta_results *results);

struct meta_bytes {
    const uint8_t *bytes; /* NULL: none */
    size_t count;
};

/* A table's fields in C: a struct and the reader of its rows follow from one list. */
#define META_FIELD_TEXT const char *      /* NULL: none */
#define META_FIELD_INT int64_t            /* META_NONE: none */
#define META_FIELD_BLOB struct meta_bytes /* count 0: none or empty */
#define META_FIELD(kind, name) META_FIELD_##kind name;

/* Rows of one page, newest first unless said otherwise. */
struct meta_page {
    const char *after; /* the id of the last row of the page before; NULL: the first page. Of an unknown one nothing follows. */
    uint32_t limit;    /* 1 to META_PAGE_MAX */
    bool oldest_first;
};

/* "file-" and 24 letters and digits, drawn; fits NAME_BYTES. */
void meta_id(const char *prefix, char ret_id[NAME_BYTES]);

#endif
