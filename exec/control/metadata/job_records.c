/* What a job leaves on its way: events and checkpoints. */
#include "control/metadata/rows.h"

static const struct field event_fields[] = {
#define X(kind, name) {#name, VALUE_##kind, offsetof(struct meta_event, name)},
    META_EVENT_FIELDS(X)
#undef X
};
static const struct row_kind event_kind = {event_fields, ARRAY_COUNT(event_fields), sizeof(struct meta_event), "event"};

static const struct field checkpoint_fields[] = {
#define X(kind, name) {#name, VALUE_##kind, offsetof(struct meta_checkpoint, name)},
    META_CHECKPOINT_FIELDS(X)
#undef X
};
static const struct row_kind checkpoint_kind = {checkpoint_fields, ARRAY_COUNT(checkpoint_fields), sizeof(struct meta_checkpoint),
                                                "checkpoint"};

enum status job_find(struct metadata *metadata, const char *tenant, const char *job, struct refusal *refusal)
{
    int64_t number;
    enum status status = sql_number(metadata, "SELECT number FROM job WHERE tenant = $1 AND id = $2",
                                    VALUES(AS_TEXT(tenant), AS_TEXT(job)), &number, refusal);

    return status == STATUS_NOT_FOUND ? refuse(refusal, status, "no such job") : status;
}

/* --- events ----------------------------------------------------------------------------------------------------------------- */

enum status meta_event_add(struct metadata *metadata, const char *tenant, const char *job, const char *level, const char *code,
                           const char *metrics, struct meta_bytes sealed, int64_t now_ms, int64_t *ret_n, struct refusal *refusal)
{
    int64_t n = 0;
    enum status status = meta_begin(metadata, refusal);

    if (status != STATUS_OK)
        return status;
    status = job_find(metadata, tenant, job, refusal);
    if (status == STATUS_OK)
        status = sql_number(metadata, "SELECT COALESCE(MAX(n), 0) + 1 FROM job_event WHERE job = $1", VALUES(AS_TEXT(job)), &n, refusal);
    if (status == STATUS_OK)
        status = sql_run(metadata,
                         "INSERT INTO job_event (job, n, at_ms, level, code, metrics, sealed) VALUES ($1, $2, $3, $4, $5, $6, $7)",
                         VALUES(AS_TEXT(job), AS_INT(n), AS_INT(now_ms), AS_TEXT(level), AS_TEXT(code), AS_TEXT(metrics),
                                AS_BLOB(sealed)), NULL, refusal);
    status = meta_end(metadata, status, refusal);
    if (status == STATUS_OK && ret_n != NULL)
        *ret_n = n;
    return status;
}

enum status meta_event_list(struct metadata *metadata, const char *tenant, const char *job, int64_t before, uint32_t limit,
                            struct meta_results *results, struct meta_event **ret_events, uint32_t *ret_count, bool *ret_more,
                            struct refusal *refusal)
{
    enum status status = job_find(metadata, tenant, job, refusal);

    if (limit < 1 || limit > META_PAGE_MAX)
        return refuse(refusal, STATUS_INVALID, "a page has 1 to %d rows", META_PAGE_MAX);
    if (status != STATUS_OK)
        return status;
    return sql_rows(metadata,
                    "SELECT e.n, e.at_ms, e.level, e.code, e.metrics, e.sealed FROM job_event e JOIN job j ON j.id = e.job"
                    " WHERE j.tenant = $1 AND e.job = $2 AND e.n < $3 ORDER BY e.n DESC LIMIT $4",
                    VALUES(AS_TEXT(tenant), AS_TEXT(job), AS_INT(before), AS_INT(limit + 1)), &event_kind, limit, results, ret_events,
                    ret_count, ret_more, refusal);
}

/* --- checkpoints ------------------------------------------------------------------------------------------------------------ */

static enum status check_attempt(struct metadata *metadata, const char *tenant, const char *job, int64_t attempt, const char *object,
                                 struct refusal *refusal)
{
    int64_t found = 0;
    enum status status =
        sql_number(metadata,
                   "SELECT COUNT(*) FROM job j JOIN object o ON o.tenant = j.tenant WHERE j.tenant = $1 AND j.id = $2 AND j.attempt = $3"
                   " AND j.state IN ('running', 'stopping') AND o.id = $4 AND o.state = 'live'",
                   VALUES(AS_TEXT(tenant), AS_TEXT(job), AS_INT(attempt), AS_TEXT(object)), &found, refusal);

    return status == STATUS_OK && found != 1
               ? refuse(refusal, STATUS_CONFLICT, "this attempt is over, or the checkpoint isn't whole; it isn't kept") : status;
}

/* The step as an earlier attempt took it. */
static enum status give_way(struct metadata *metadata, const char *tenant, const char *job, int64_t step, int64_t attempt,
                            struct refusal *refusal)
{
    return sql_run(metadata,
                   "UPDATE object SET state = 'doomed' WHERE tenant = $1 AND state = 'live' AND id IN"
                   " (SELECT object FROM checkpoint WHERE tenant = $1 AND job = $2 AND step = $3 AND attempt < $4)",
                   VALUES(AS_TEXT(tenant), AS_TEXT(job), AS_INT(step), AS_INT(attempt)), NULL, refusal);
}

enum status meta_checkpoint_add(struct metadata *metadata, const char *tenant, const char *job, int64_t attempt, int64_t step,
                                const char *object, const char *metrics, int64_t now_ms, struct refusal *refusal)
{
    char id[NAME_BYTES];
    int64_t changes = 0;
    enum status status = meta_begin(metadata, refusal);

    if (status != STATUS_OK)
        return status;
    meta_id("ftckpt_", id);
    status = check_attempt(metadata, tenant, job, attempt, object, refusal);
    if (status == STATUS_OK)
        status = give_way(metadata, tenant, job, step, attempt, refusal);
    if (status == STATUS_OK)
        status = sql_run(metadata,
                         "INSERT INTO checkpoint (id, tenant, job, step, attempt, object, metrics, created_at_ms)"
                         " VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (job, step) DO UPDATE SET attempt = excluded.attempt,"
                         " object = excluded.object, metrics = excluded.metrics, created_at_ms = excluded.created_at_ms"
                         " WHERE checkpoint.attempt < excluded.attempt OR checkpoint.object = excluded.object",
                         VALUES(AS_TEXT(id), AS_TEXT(tenant), AS_TEXT(job), AS_INT(step), AS_INT(attempt), AS_TEXT(object),
                                AS_TEXT(metrics), AS_INT(now_ms)), &changes, refusal);
    if (status == STATUS_OK && changes != 1)
        status = refuse(refusal, STATUS_CONFLICT, "this attempt has given another object for that step");
    return meta_end(metadata, status, refusal);
}

enum status meta_checkpoint_prune(struct metadata *metadata, const char *tenant, const char *job, int64_t before_step,
                                  struct refusal *refusal)
{
    return sql_run(metadata,
                   "UPDATE object SET state = 'doomed' WHERE tenant = $1 AND state = 'live' AND id IN"
                   " (SELECT object FROM checkpoint WHERE tenant = $1 AND job = $2 AND step < $3)",
                   VALUES(AS_TEXT(tenant), AS_TEXT(job), AS_INT(before_step)), NULL, refusal);
}

enum status meta_checkpoint_list(struct metadata *metadata, const char *tenant, const char *job, int64_t before, uint32_t limit,
                                 struct meta_results *results, struct meta_checkpoint **ret_checkpoints, uint32_t *ret_count,
                                 bool *ret_more, struct refusal *refusal)
{
    enum status status = job_find(metadata, tenant, job, refusal);

    if (limit < 1 || limit > META_PAGE_MAX)
        return refuse(refusal, STATUS_INVALID, "a page has 1 to %d rows", META_PAGE_MAX);
    if (status != STATUS_OK)
        return status;
    return sql_rows(metadata,
                    SELECT(META_CHECKPOINT_FIELDS) "FROM checkpoint WHERE tenant = $1 AND job = $2 AND step < $3"
                                                   " ORDER BY step DESC LIMIT $4",
                    VALUES(AS_TEXT(tenant), AS_TEXT(job), AS_INT(before), AS_INT(limit + 1)), &checkpoint_kind, limit, results,
                    ret_checkpoints, ret_count, ret_more, refusal);
}
