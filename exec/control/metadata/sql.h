/* The inside of metadata/: queries by the text that they are, and rows by lists of fields. */
#ifndef METADATA_SQL_H
#define METADATA_SQL_H

#include "base/base.h"
#include "control/metadata/metadata.h"

#define QUERIES_MAX 256 /* a power of two, some twice of what there is */

struct metadata {
    const struct db_driver *driver;
    struct db *db;
    uint32_t depth; /* of transactions around the next statement */
    bool lost;      /* the machine refused inside a transaction: whatever the database made of it, nothing of it may stay */
    struct {
        const char *sql; /* by address: texts are literals */
        struct db_query *query;
    } queries[QUERIES_MAX];
    uint8_t *key_key;     /* that API keys are stored under; in locked memory, as the next */
    uint8_t *audit_key;   /* that heads are signed with */
    char decoy[NAME_BYTES]; /* a key that is there; "": none was seen yet */
};

enum status schema_check(struct metadata *metadata, bool first, struct refusal *refusal);

#define AS_INT(x) {.kind = VALUE_INT, .number = (x)}
#define AS_TEXT(x) {.kind = VALUE_TEXT, .bytes = (x)}
#define AS_BLOB(b) {.kind = VALUE_BLOB, .bytes = (b).bytes, .count = (b).count}
#define VALUES(...) (const struct value[]){__VA_ARGS__}, (uint32_t)ARRAY_COUNT(((const struct value[]){__VA_ARGS__}))
#define NO_VALUES NULL, 0

/* Runs a statement; `ret_changes` may be NULL. Values: META_NONE and NULL are NULL. */
enum status sql_run(struct metadata *metadata, const char *sql, const struct value *values, uint32_t values_count,
                    int64_t *ret_changes, struct refusal *refusal);
/* The same for a statement that is to change one row. Otherwise `otherwise`, with `complaint`. */
enum status sql_change(struct metadata *metadata, const char *sql, const struct value *values, uint32_t values_count,
                       enum status otherwise, const char *complaint, struct refusal *refusal);
/* The one number of the one row. STATUS_NOT_FOUND: there is no row, or it is NULL. */
enum status sql_number(struct metadata *metadata, const char *sql, const struct value *values, uint32_t values_count,
                       int64_t *ret_number, struct refusal *refusal);

struct field {
    const char *name;
    enum value_kind kind;
    size_t offset;
};
/* What stands between SELECT and FROM, the fields' names and a 0; and the table of fields. */
#define SELECT_FIELD(kind, name) #name ", "
#define SELECT(LIST) "SELECT " LIST(SELECT_FIELD) "0 "

struct row_kind {
    const struct field *fields;
    uint32_t fields_count;
    size_t bytes;
    const char *noun; /* "no such job" */
};

enum status sql_row(struct metadata *metadata, const char *sql, const struct value *values, uint32_t values_count,
                    const struct row_kind *kind, struct meta_results *results, void *ret_row, struct refusal *refusal);
/* Up to `limit` rows in one array; the statement asks for one more, whose being there is `ret_more`. */
enum status sql_rows(struct metadata *metadata, const char *sql, const struct value *values, uint32_t values_count,
                     const struct row_kind *kind, uint32_t limit, struct meta_results *results, void *ret_rows, uint32_t *ret_count,
                     bool *ret_more, struct refusal *refusal);
/* For long lists: a row at a time, its texts until the next. False ends it. */
typedef bool row_visit(void *context, const void *row);
enum status sql_each(struct metadata *metadata, const char *sql, const struct value *values, uint32_t values_count,
                     const struct row_kind *kind, row_visit *visit, void *context, struct refusal *refusal);

/* Pages by number: `find` (tenant $1, id $2) gives the number of the row after which the page begins; the lists take tenant $1, that
 * number $2, limit $3, and further $4. */
struct page_sql {
    const char *find;
    const char *newest_first;
    const char *oldest_first;
};
enum status sql_page(struct metadata *metadata, const struct page_sql *sql, const char *tenant, const struct meta_page *page,
                     const struct value *further, const struct row_kind *kind, struct meta_results *results, void *ret_rows,
                     uint32_t *ret_count, bool *ret_more, struct refusal *refusal);

void *results_take(struct meta_results *results, size_t bytes);

#endif
