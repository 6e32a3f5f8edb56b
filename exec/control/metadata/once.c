#include "control/metadata/once.h"

#include <stdio.h>

#include "control/metadata/sql.h"

#define ONCE_FIELDS(X) X(BLOB, body) X(TEXT, resource)
struct once {
    ONCE_FIELDS(META_FIELD)
};
static const struct field fields[] = {
#define X(kind, name) {#name, VALUE_##kind, offsetof(struct once, name)},
    ONCE_FIELDS(X)
#undef X
};
static const struct row_kind kind = {fields, ARRAY_COUNT(fields), sizeof(struct once), "key of a retry"};

static enum status remember(struct metadata *metadata, const char *tenant, const char *key, const uint8_t *body, const char *resource,
                            int64_t expires_at_ms, struct refusal *refusal)
{
    const struct meta_bytes bytes = {body, META_DIGEST_BYTES};

    return sql_run(metadata, "INSERT INTO once (tenant, key, body, resource, expires_at_ms) VALUES ($1, $2, $3, $4, $5)",
                   VALUES(AS_TEXT(tenant), AS_TEXT(key), AS_BLOB(bytes), AS_TEXT(resource), AS_INT(expires_at_ms)), NULL, refusal);
}

enum status meta_once(struct metadata *metadata, const char *tenant, const char *key, const uint8_t body[META_DIGEST_BYTES],
                      const char *resource, int64_t expires_at_ms, int64_t now_ms, bool *ret_again, char ret_resource[NAME_BYTES],
                      struct refusal *refusal)
{
    struct meta_results results = {0};
    struct once once;
    enum status status;

    check(metadata->depth > 0);
    check(strlen(resource) < NAME_BYTES);
    status = sql_run(metadata, "DELETE FROM once WHERE tenant = $1 AND key = $2 AND expires_at_ms <= $3",
                     VALUES(AS_TEXT(tenant), AS_TEXT(key), AS_INT(now_ms)), NULL, refusal);
    if (status == STATUS_OK)
        status = sql_row(metadata, SELECT(ONCE_FIELDS) "FROM once WHERE tenant = $1 AND key = $2",
                         VALUES(AS_TEXT(tenant), AS_TEXT(key)), &kind, &results, &once, refusal);
    if (status == STATUS_NOT_FOUND) {
        status = remember(metadata, tenant, key, body, resource, expires_at_ms, refusal);
        *ret_again = false;
    } else if (status == STATUS_OK) {
        if (once.body.count != META_DIGEST_BYTES || memcmp(once.body.bytes, body, META_DIGEST_BYTES) != 0)
            status = refuse(refusal, STATUS_CONFLICT, "this idempotency key was used with another request; draw a new one");
        *ret_again = true;
        snprintf(ret_resource, NAME_BYTES, "%s", once.resource);
    }
    meta_results_free(&results);
    return status;
}

enum status meta_once_sweep(struct metadata *metadata, int64_t now_ms, uint32_t limit, int64_t *ret_count, struct refusal *refusal)
{
    return sql_run(metadata,
                   "DELETE FROM once WHERE (tenant, key) IN (SELECT tenant, key FROM once WHERE expires_at_ms <= $1 LIMIT $2)",
                   VALUES(AS_INT(now_ms), AS_INT(limit)), ret_count, refusal);
}
