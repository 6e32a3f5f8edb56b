#include "control/metadata/file.h"

#include "control/metadata/sql.h"

static const struct field object_fields[] = {
#define X(kind, name) {#name, VALUE_##kind, offsetof(struct meta_object, name)},
    META_OBJECT_FIELDS(X)
#undef X
};
static const struct row_kind object_kind = {object_fields, ARRAY_COUNT(object_fields), sizeof(struct meta_object), "object"};

static const struct field file_fields[] = {
#define X(kind, name) {#name, VALUE_##kind, offsetof(struct meta_file, name)},
    META_FILE_FIELDS(X)
#undef X
};
static const struct row_kind file_kind = {file_fields, ARRAY_COUNT(file_fields), sizeof(struct meta_file), "file"};

/* --- objects ---------------------------------------------------------------------------------------------------------------- */

enum status meta_object_add(struct metadata *metadata, const char *tenant, const char *id, const char *kind, const char *key_id,
                            struct refusal *refusal)
{
    check(name_is_valid(id) && name_is_valid(key_id));
    return sql_run(metadata, "INSERT INTO object (id, tenant, kind, key_id, state) VALUES ($1, $2, $3, $4, 'writing')",
                   VALUES(AS_TEXT(id), AS_TEXT(tenant), AS_TEXT(kind), AS_TEXT(key_id)), NULL, refusal);
}

enum status meta_object_get(struct metadata *metadata, const char *tenant, const char *id, struct meta_results *results,
                            struct meta_object *ret_object, struct refusal *refusal)
{
    return sql_row(metadata, SELECT(META_OBJECT_FIELDS) "FROM object WHERE tenant = $1 AND id = $2",
                   VALUES(AS_TEXT(tenant), AS_TEXT(id)), &object_kind, results, ret_object, refusal);
}

enum status meta_object_written(struct metadata *metadata, const char *tenant, const char *id, int64_t bytes, const char *digest,
                                struct refusal *refusal)
{
    return sql_change(metadata,
                      "UPDATE object SET state = 'live', bytes = $3, digest = $4 WHERE tenant = $1 AND id = $2 AND state = 'writing'",
                      VALUES(AS_TEXT(tenant), AS_TEXT(id), AS_INT(bytes), AS_TEXT(digest)), STATUS_CONFLICT,
                      "the object isn't being written", refusal);
}

enum status meta_object_doom(struct metadata *metadata, const char *tenant, const char *id, struct refusal *refusal)
{
    return sql_change(metadata, "UPDATE object SET state = 'doomed' WHERE tenant = $1 AND id = $2 AND state IN ('writing', 'live')",
                      VALUES(AS_TEXT(tenant), AS_TEXT(id)), STATUS_CONFLICT, "the object is doomed already", refusal);
}

enum status meta_object_gone(struct metadata *metadata, const char *tenant, const char *id, struct refusal *refusal)
{
    return sql_change(metadata, "UPDATE object SET state = 'gone' WHERE tenant = $1 AND id = $2 AND state = 'doomed'",
                      VALUES(AS_TEXT(tenant), AS_TEXT(id)), STATUS_CONFLICT, "the object isn't doomed", refusal);
}

enum status meta_object_sweep(struct metadata *metadata, const char *state, const char *after, uint32_t limit,
                              struct meta_results *results, struct meta_object **ret_objects, uint32_t *ret_count, bool *ret_more,
                              struct refusal *refusal)
{
    if (limit < 1 || limit > META_PAGE_MAX)
        return refuse(refusal, STATUS_INVALID, "a page has 1 to %d rows", META_PAGE_MAX);
    return sql_rows(metadata, SELECT(META_OBJECT_FIELDS) "FROM object WHERE state = $1 AND id > $2 ORDER BY id LIMIT $3",
                    VALUES(AS_TEXT(state), AS_TEXT(after), AS_INT(limit + 1)), &object_kind, limit, results, ret_objects, ret_count,
                    ret_more, refusal);
}

/* --- files ------------------------------------------------------------------------------------------------------------------ */

static enum status check_file(struct metadata *metadata, const char *tenant, const char *object, struct refusal *refusal)
{
    int64_t number;
    enum status status = sql_number(metadata, "SELECT bytes FROM object WHERE tenant = $1 AND id = $2 AND state = 'live'",
                                    VALUES(AS_TEXT(tenant), AS_TEXT(object)), &number, refusal);

    if (status == STATUS_NOT_FOUND)
        return refuse(refusal, STATUS_INVALID, "the tenant has no such object that is whole");
    if (status != STATUS_OK)
        return status;
    status = sql_number(metadata,
                        "SELECT t.files_max - (SELECT COUNT(*) FROM file f WHERE f.tenant = $1 AND f.state <> 'deleted')"
                        " FROM tenant t WHERE t.id = $1 AND t.state IN ('active', 'suspended')",
                        VALUES(AS_TEXT(tenant)), &number, refusal);
    return status == STATUS_OK && number <= 0 ? refuse(refusal, STATUS_FULL, "the tenant has as many files as it may (files_max)")
                                              : status;
}

enum status meta_file_add(struct metadata *metadata, const char *tenant, const char *id, const char *object, const char *purpose,
                          struct meta_bytes sealed, int64_t expires_at_ms, int64_t now_ms, struct refusal *refusal)
{
    enum status status = meta_begin(metadata, refusal);

    check(name_is_valid(id));
    if (status != STATUS_OK)
        return status;
    status = check_file(metadata, tenant, object, refusal);
    if (status == STATUS_OK)
        status = sql_run(metadata,
                         "INSERT INTO file (id, number, tenant, object, purpose, state, sealed, created_at_ms, expires_at_ms) VALUES"
                         " ($1, (SELECT COALESCE(MAX(number), 0) + 1 FROM file), $2, $3, $4, 'uploaded', $5, $6, $7)",
                         VALUES(AS_TEXT(id), AS_TEXT(tenant), AS_TEXT(object), AS_TEXT(purpose), AS_BLOB(sealed), AS_INT(now_ms),
                                AS_INT(expires_at_ms)), NULL, refusal);
    return meta_end(metadata, status, refusal);
}

#define ANY_FILE                                                                                                               \
    "SELECT f.id, f.number, f.tenant, f.object, f.purpose, f.state, f.lines, f.tokens, f.report, f.sealed, f.created_at_ms,"    \
    " f.expires_at_ms, o.bytes FROM file f JOIN object o ON o.tenant = f.tenant AND o.id = f.object "
#define FROM_FILE ANY_FILE "WHERE f.tenant = $1 AND f.state <> 'deleted' AND "

enum status meta_file_get(struct metadata *metadata, const char *tenant, const char *id, struct meta_results *results,
                          struct meta_file *ret_file, struct refusal *refusal)
{
    return sql_row(metadata, FROM_FILE "f.id = $2", VALUES(AS_TEXT(tenant), AS_TEXT(id)), &file_kind, results, ret_file, refusal);
}

enum status meta_file_list(struct metadata *metadata, const char *tenant, const char *purpose, const struct meta_page *page,
                           struct meta_results *results, struct meta_file **ret_files, uint32_t *ret_count, bool *ret_more,
                           struct refusal *refusal)
{
    static const struct page_sql all = {
        "SELECT number FROM file WHERE tenant = $1 AND id = $2",
        FROM_FILE "f.number < $2 ORDER BY f.number DESC LIMIT $3",
        FROM_FILE "f.number > $2 ORDER BY f.number LIMIT $3",
    };
    static const struct page_sql some = {
        "SELECT number FROM file WHERE tenant = $1 AND id = $2",
        FROM_FILE "f.number < $2 AND f.purpose = $4 ORDER BY f.number DESC LIMIT $3",
        FROM_FILE "f.number > $2 AND f.purpose = $4 ORDER BY f.number LIMIT $3",
    };
    const struct value of = AS_TEXT(purpose);

    return sql_page(metadata, purpose != NULL ? &some : &all, tenant, page, purpose != NULL ? &of : NULL, &file_kind, results,
                    ret_files, ret_count, ret_more, refusal);
}

enum status meta_file_waiting(struct metadata *metadata, uint32_t limit, struct meta_results *results, struct meta_file **ret_files,
                              uint32_t *ret_count, struct refusal *refusal)
{
    bool more;

    return sql_rows(metadata,
                    ANY_FILE "WHERE f.state = 'uploaded' AND NOT EXISTS (SELECT 1 FROM worker w WHERE w.subject = f.id"
                             " AND w.ended_at_ms IS NULL) ORDER BY f.number LIMIT $1",
                    VALUES(AS_INT(limit + 1)), &file_kind, limit, results, ret_files, ret_count, &more, refusal);
}

enum status meta_file_expired(struct metadata *metadata, int64_t now_ms, uint32_t limit, struct meta_results *results,
                              struct meta_file **ret_files, uint32_t *ret_count, struct refusal *refusal)
{
    bool more;

    return sql_rows(metadata,
                    ANY_FILE "WHERE f.expires_at_ms <= $1 AND f.state <> 'deleted' AND NOT EXISTS (SELECT 1 FROM job j WHERE"
                             " j.tenant = f.tenant AND (j.file = f.id OR j.validation = f.id) AND j.finished_at_ms IS NULL)"
                             " ORDER BY f.number LIMIT $2",
                    VALUES(AS_INT(now_ms), AS_INT(limit + 1)), &file_kind, limit, results, ret_files, ret_count, &more, refusal);
}

enum status meta_file_judged(struct metadata *metadata, const char *tenant, const char *id, bool good, int64_t lines, int64_t tokens,
                             const char *report, struct refusal *refusal)
{
    return sql_change(metadata,
                      "UPDATE file SET state = $3, lines = $4, tokens = $5, report = $6"
                      " WHERE tenant = $1 AND id = $2 AND state = 'uploaded'",
                      VALUES(AS_TEXT(tenant), AS_TEXT(id), AS_TEXT(good ? "processed" : "error"), AS_INT(lines), AS_INT(tokens),
                             AS_TEXT(report)),
                      STATUS_CONFLICT, "the file was judged already, or deleted", refusal);
}

static enum status delete_file(struct metadata *metadata, const char *tenant, const char *id, struct refusal *refusal)
{
    int64_t held = 0;
    enum status status = sql_change(metadata, "UPDATE file SET state = 'deleted', sealed = NULL WHERE tenant = $1 AND id = $2 AND state <> 'deleted'",
                                    VALUES(AS_TEXT(tenant), AS_TEXT(id)), STATUS_NOT_FOUND, "no such file", refusal);

    if (status == STATUS_OK)
        status = sql_number(metadata,
                            "SELECT COUNT(*) FROM job WHERE tenant = $1 AND (file = $2 OR validation = $2) AND finished_at_ms IS NULL",
                            VALUES(AS_TEXT(tenant), AS_TEXT(id)), &held, refusal);
    if (status == STATUS_OK && held > 0)
        return refuse(refusal, STATUS_CONFLICT, "a job that isn't finished needs this file; cancel it first");
    if (status != STATUS_OK)
        return status;
    return sql_run(metadata,
                   "UPDATE object SET state = 'doomed' WHERE tenant = $1 AND state IN ('writing', 'live') AND id IN"
                   " (SELECT object FROM file WHERE tenant = $1 AND id = $2 UNION SELECT report FROM file WHERE tenant = $1 AND id = $2)",
                   VALUES(AS_TEXT(tenant), AS_TEXT(id)), NULL, refusal);
}

enum status meta_file_delete(struct metadata *metadata, const char *tenant, const char *id, struct refusal *refusal)
{
    enum status status = meta_begin(metadata, refusal);

    if (status != STATUS_OK)
        return status;
    return meta_end(metadata, delete_file(metadata, tenant, id, refusal), refusal);
}
