/* Workers: a row each attempt of a job or a file, and each server and holder. */
#include "control/metadata/rows.h"

static const struct field fields[] = {
#define X(kind, name) {#name, VALUE_##kind, offsetof(struct meta_worker, name)},
    META_WORKER_FIELDS(X)
#undef X
};
const struct row_kind worker_rows = {fields, ARRAY_COUNT(fields), sizeof(struct meta_worker), "worker"};

enum status worker_insert(struct metadata *metadata, const struct meta_worker_new *worker, const char *subject, int64_t attempt,
                          int64_t now_ms, struct refusal *refusal)
{
    check(name_is_valid(worker->id));
    return sql_run(metadata,
                   "INSERT INTO worker (id, kind, subject, attempt, placement, started_at_ms) VALUES ($1, $2, $3, $4, $5, $6)",
                   VALUES(AS_TEXT(worker->id), AS_TEXT(worker->kind), AS_TEXT(subject), AS_INT(attempt), AS_TEXT(worker->placement),
                          AS_INT(now_ms)), NULL, refusal);
}

enum status meta_worker_for_job(struct metadata *metadata, const struct meta_worker_new *worker, const char *tenant, const char *job,
                                int64_t attempt, int64_t now_ms, struct refusal *refusal)
{
    int64_t found = 0;
    enum status status = meta_begin(metadata, refusal);

    if (status != STATUS_OK)
        return status;
    status = sql_number(metadata,
                        "SELECT COUNT(*) FROM job WHERE tenant = $1 AND id = $2 AND attempt = $3 AND state IN ('starting', 'evaluating')",
                        VALUES(AS_TEXT(tenant), AS_TEXT(job), AS_INT(attempt)), &found, refusal);
    if (status == STATUS_OK && found == 0)
        status = refuse(refusal, STATUS_CONFLICT, "the job has moved on; this attempt does not start");
    if (status == STATUS_OK)
        status = worker_insert(metadata, worker, job, attempt, now_ms, refusal);
    return meta_end(metadata, status, refusal);
}

enum status meta_worker_for_file(struct metadata *metadata, const struct meta_worker_new *worker, const char *tenant,
                                 const char *file, int64_t now_ms, int64_t *ret_attempt, struct refusal *refusal)
{
    int64_t attempt = 0;
    enum status status = meta_begin(metadata, refusal);

    if (status != STATUS_OK)
        return status;
    status = sql_number(metadata,
                        "SELECT COALESCE(MAX(w.attempt), 0) + 1 FROM file f LEFT JOIN worker w ON w.subject = f.id"
                        " WHERE f.tenant = $1 AND f.id = $2 AND f.state = 'uploaded' GROUP BY f.id",
                        VALUES(AS_TEXT(tenant), AS_TEXT(file)), &attempt, refusal);
    if (status == STATUS_NOT_FOUND)
        status = refuse(refusal, STATUS_CONFLICT, "the file was judged already, or deleted");
    if (status == STATUS_OK)
        status = worker_insert(metadata, worker, file, attempt, now_ms, refusal);
    status = meta_end(metadata, status, refusal);
    if (status == STATUS_OK && ret_attempt != NULL)
        *ret_attempt = attempt;
    return status;
}

enum status meta_worker_for_check(struct metadata *metadata, const struct meta_worker_new *worker, const char *tenant, const char *job,
                                  int64_t now_ms, int64_t *ret_attempt, struct refusal *refusal)
{
    int64_t attempt = 0;
    enum status status = meta_begin(metadata, refusal);

    if (status != STATUS_OK)
        return status;
    status = sql_number(metadata,
                        "SELECT COALESCE(MIN(w.attempt), 0) - 1 FROM job j LEFT JOIN worker w ON w.subject = j.id AND w.attempt < 0"
                        " WHERE j.tenant = $1 AND j.id = $2 AND j.state = 'validating' GROUP BY j.id",
                        VALUES(AS_TEXT(tenant), AS_TEXT(job)), &attempt, refusal);
    if (status == STATUS_NOT_FOUND)
        status = refuse(refusal, STATUS_CONFLICT, "the job has moved on; its files are not looked at again");
    if (status == STATUS_OK)
        status = worker_insert(metadata, worker, job, attempt, now_ms, refusal);
    status = meta_end(metadata, status, refusal);
    if (status == STATUS_OK)
        *ret_attempt = attempt;
    return status;
}

enum status meta_worker_for_object(struct metadata *metadata, const struct meta_worker_new *worker, const char *tenant, const char *object,
                                   int64_t now_ms, struct refusal *refusal)
{
    int64_t found = 0;
    enum status status = meta_begin(metadata, refusal);

    if (status != STATUS_OK)
        return status;
    status = sql_number(metadata, "SELECT COUNT(*) FROM object WHERE tenant = $1 AND id = $2 AND state = 'writing'",
                        VALUES(AS_TEXT(tenant), AS_TEXT(object)), &found, refusal);
    if (status == STATUS_OK && found == 0)
        status = refuse(refusal, STATUS_CONFLICT, "the object is gone");
    if (status == STATUS_OK)
        status = worker_insert(metadata, worker, object, 1, now_ms, refusal);
    return meta_end(metadata, status, refusal);
}

enum status meta_worker_add(struct metadata *metadata, const struct meta_worker_new *worker, int64_t now_ms, struct refusal *refusal)
{
    return worker_insert(metadata, worker, NULL, META_NONE, now_ms, refusal);
}

enum status meta_worker_ended(struct metadata *metadata, const char *id, const char *how, int64_t now_ms, struct refusal *refusal)
{
    return sql_change(metadata, "UPDATE worker SET ended_at_ms = $2, how = $3 WHERE id = $1 AND ended_at_ms IS NULL",
                      VALUES(AS_TEXT(id), AS_INT(now_ms), AS_TEXT(how)), STATUS_CONFLICT, "the worker has ended already", refusal);
}

enum status meta_worker_get(struct metadata *metadata, const char *id, struct meta_results *results, struct meta_worker *ret_worker,
                            struct refusal *refusal)
{
    return sql_row(metadata, SELECT(META_WORKER_FIELDS) "FROM worker WHERE id = $1", VALUES(AS_TEXT(id)), &worker_rows, results,
                   ret_worker, refusal);
}

enum status meta_worker_ack(struct metadata *metadata, const char *id, int64_t seq, struct refusal *refusal)
{
    return sql_change(metadata, "UPDATE worker SET acked_seq = CASE WHEN acked_seq < $2 THEN $2 ELSE acked_seq END WHERE id = $1",
                      VALUES(AS_TEXT(id), AS_INT(seq)), STATUS_NOT_FOUND, "no such worker", refusal);
}

enum status meta_worker_count(struct metadata *metadata, const char *subject, const char *how, int64_t *ret_count,
                              struct refusal *refusal)
{
    return sql_number(metadata, "SELECT COUNT(*) FROM worker WHERE subject = $1 AND how = $2", VALUES(AS_TEXT(subject), AS_TEXT(how)),
                      ret_count, refusal);
}

enum status meta_worker_list(struct metadata *metadata, const char *after, uint32_t limit, struct meta_results *results,
                             struct meta_worker **ret_workers, uint32_t *ret_count, bool *ret_more, struct refusal *refusal)
{
    if (limit < 1 || limit > META_PAGE_MAX)
        return refuse(refusal, STATUS_INVALID, "a page has 1 to %d rows", META_PAGE_MAX);
    return sql_rows(metadata, SELECT(META_WORKER_FIELDS) "FROM worker WHERE ended_at_ms IS NULL AND id > $1 ORDER BY id LIMIT $2",
                    VALUES(AS_TEXT(after), AS_INT(limit + 1)), &worker_rows, limit, results, ret_workers, ret_count, ret_more, refusal);
}
