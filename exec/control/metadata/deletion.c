#include "control/metadata/deletion.h"

#include "control/metadata/sql.h"

static const struct field fields[] = {
#define X(kind, name) {#name, VALUE_##kind, offsetof(struct meta_deletion, name)},
    META_DELETION_FIELDS(X)
#undef X
};
static const struct row_kind kind = {fields, ARRAY_COUNT(fields), sizeof(struct meta_deletion), "deletion"};

static const char *const states[] = {
#define X(name) #name,
    META_DELETION_STATES(X)
#undef X
};

enum status meta_deletion_add(struct metadata *metadata, const char *tenant, const char *root, int64_t now_ms, char ret_id[NAME_BYTES],
                              struct refusal *refusal)
{
    char id[NAME_BYTES];
    enum status status;

    meta_id("deletion-", id);
    status = sql_run(metadata,
                     "INSERT INTO deletion (id, number, tenant, root, state, asked_at_ms) VALUES"
                     " ($1, (SELECT COALESCE(MAX(number), 0) + 1 FROM deletion), $2, $3, 'asked', $4)",
                     VALUES(AS_TEXT(id), AS_TEXT(tenant), AS_TEXT(root), AS_INT(now_ms)), NULL, refusal);
    if (status == STATUS_OK)
        memcpy(ret_id, id, NAME_BYTES);
    return status;
}

enum status meta_deletion_get(struct metadata *metadata, const char *tenant, const char *id, struct meta_results *results,
                              struct meta_deletion *ret_deletion, struct refusal *refusal)
{
    return sql_row(metadata, SELECT(META_DELETION_FIELDS) "FROM deletion WHERE tenant = $1 AND id = $2",
                   VALUES(AS_TEXT(tenant), AS_TEXT(id)), &kind, results, ret_deletion, refusal);
}

enum status meta_deletion_move(struct metadata *metadata, const char *tenant, const char *id, const char *from,
                               const char *certificate, struct refusal *refusal)
{
    for (size_t i = 0; i + 1 < ARRAY_COUNT(states); i++) {
        if (strcmp(states[i], from) != 0)
            continue;
        if ((certificate != NULL) != (i + 2 == ARRAY_COUNT(states)))
            break;
        return sql_change(metadata, "UPDATE deletion SET state = $4, certificate = $5 WHERE tenant = $1 AND id = $2 AND state = $3",
                          VALUES(AS_TEXT(tenant), AS_TEXT(id), AS_TEXT(from), AS_TEXT(states[i + 1]), AS_TEXT(certificate)),
                          STATUS_CONFLICT, "the deletion isn't in that state any more", refusal);
    }
    return refuse(refusal, STATUS_INVALID, "no such step of a deletion; only the last has a certificate");
}

enum status meta_deletion_open(struct metadata *metadata, int64_t after, uint32_t limit, struct meta_results *results,
                               struct meta_deletion **ret_deletions, uint32_t *ret_count, bool *ret_more, struct refusal *refusal)
{
    if (limit < 1 || limit > META_PAGE_MAX)
        return refuse(refusal, STATUS_INVALID, "a page has 1 to %d rows", META_PAGE_MAX);
    return sql_rows(metadata,
                    SELECT(META_DELETION_FIELDS) "FROM deletion WHERE state <> 'certified' AND number > $1 ORDER BY number LIMIT $2",
                    VALUES(AS_INT(after), AS_INT(limit + 1)), &kind, limit, results, ret_deletions, ret_count, ret_more, refusal);
}
