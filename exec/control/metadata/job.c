#include "control/metadata/job.h"

#include "control/metadata/rows.h"

static const struct field fields[] = {
#define X(kind, name) {#name, VALUE_##kind, offsetof(struct meta_job, name)},
    META_JOB_FIELDS(X)
#undef X
};
const struct row_kind job_rows = {fields, ARRAY_COUNT(fields), sizeof(struct meta_job), "job"};

const char *meta_job_state_text(enum meta_job_state state)
{
    static const char *const texts[] = {
#define X(name, text) text,
        META_JOB_STATES(X)
#undef X
    };

    return (size_t)state < ARRAY_COUNT(texts) ? texts[state] : NULL;
}

enum meta_job_state meta_job_state_parse(const char *text)
{
    for (int state = 0; text != NULL && state < META_JOB_STATES_COUNT; state++)
        if (strcmp(text, meta_job_state_text((enum meta_job_state)state)) == 0)
            return (enum meta_job_state)state;
    return META_JOB_STATES_COUNT;
}

/* --- adding and reading ----------------------------------------------------------------------------------------------------- */

static enum status count_one(struct metadata *metadata, const char *sql, const struct value *values, uint32_t count,
                             const char *complaint, struct refusal *refusal)
{
    int64_t number = 0;
    enum status status = sql_number(metadata, sql, values, count, &number, refusal);

    return status == STATUS_OK && number != 1 ? refuse(refusal, STATUS_INVALID, "%s", complaint) : status;
}

static enum status check_job(struct metadata *metadata, const struct meta_job_new *job, struct refusal *refusal)
{
    static const char file[] = "SELECT COUNT(*) FROM file WHERE tenant = $1 AND id = $2 AND state IN ('uploaded', 'processed')";
    int64_t room = 0;
    enum status status = count_one(metadata, "SELECT COUNT(*) FROM base WHERE id = $1 AND state <> 'retired'",
                                   VALUES(AS_TEXT(job->base)), "no such base model, or it is retired", refusal);

    if (status == STATUS_OK)
        status = count_one(metadata, file, VALUES(AS_TEXT(job->tenant), AS_TEXT(job->file)), "no such training file", refusal);
    if (status == STATUS_OK && job->validation != NULL)
        status = count_one(metadata, file, VALUES(AS_TEXT(job->tenant), AS_TEXT(job->validation)), "no such validation file", refusal);
    if (status == STATUS_OK && job->parent != NULL)
        status = count_one(metadata,
                           "SELECT COUNT(*) FROM model WHERE tenant = $1 AND id = $2 AND state = 'live' AND base = $3",
                           VALUES(AS_TEXT(job->tenant), AS_TEXT(job->parent), AS_TEXT(job->base)), "no such model on that base", refusal);
    if (status != STATUS_OK)
        return status;
    status = sql_number(metadata,
                        "SELECT t.jobs_max - (SELECT COUNT(*) FROM job j WHERE j.tenant = $1 AND j.finished_at_ms IS NULL)"
                        " FROM tenant t WHERE t.id = $1 AND t.state = 'active'",
                        VALUES(AS_TEXT(job->tenant)), &room, refusal);
    return status == STATUS_OK && room <= 0
               ? refuse(refusal, STATUS_FULL, "the tenant has as many jobs at once as it may (jobs_max); wait for one to end")
               : status;
}

enum status meta_job_add(struct metadata *metadata, const struct meta_job_new *job, int64_t now_ms, struct refusal *refusal)
{
    enum status status = meta_begin(metadata, refusal);

    check(name_is_valid(job->id));
    if (status != STATUS_OK)
        return status;
    status = check_job(metadata, job, refusal);
    if (status == STATUS_OK)
        status = sql_run(metadata,
                         "INSERT INTO job (id, number, tenant, base, parent, file, validation, settings, state, sealed, created_at_ms)"
                         " VALUES ($1, (SELECT COALESCE(MAX(number), 0) + 1 FROM job), $2, $3, $4, $5, $6, $7, 'validating', $8, $9)",
                         VALUES(AS_TEXT(job->id), AS_TEXT(job->tenant), AS_TEXT(job->base), AS_TEXT(job->parent), AS_TEXT(job->file),
                                AS_TEXT(job->validation), AS_TEXT(job->settings), AS_BLOB(job->sealed), AS_INT(now_ms)), NULL, refusal);
    return meta_end(metadata, status, refusal);
}

enum status meta_job_get(struct metadata *metadata, const char *tenant, const char *id, struct meta_results *results,
                         struct meta_job *ret_job, struct refusal *refusal)
{
    return sql_row(metadata, SELECT(META_JOB_FIELDS) "FROM job WHERE tenant = $1 AND id = $2", VALUES(AS_TEXT(tenant), AS_TEXT(id)),
                   &job_rows, results, ret_job, refusal);
}

enum status meta_job_tenant(struct metadata *metadata, const char *id, char ret_tenant[NAME_BYTES], struct refusal *refusal)
{
    struct meta_results results = {0};
    struct meta_job job;
    const enum status status = sql_row(metadata, SELECT(META_JOB_FIELDS) "FROM job WHERE id = $1", VALUES(AS_TEXT(id)), &job_rows, &results,
                                       &job, refusal);

    if (status == STATUS_OK)
        memcpy(ret_tenant, job.tenant, strlen(job.tenant) + 1);
    meta_results_free(&results);
    return status;
}

enum status meta_job_list(struct metadata *metadata, const char *tenant, const struct meta_page *page, struct meta_results *results,
                          struct meta_job **ret_jobs, uint32_t *ret_count, bool *ret_more, struct refusal *refusal)
{
    static const struct page_sql sql = {
        "SELECT number FROM job WHERE tenant = $1 AND id = $2",
        SELECT(META_JOB_FIELDS) "FROM job WHERE tenant = $1 AND number < $2 ORDER BY number DESC LIMIT $3",
        SELECT(META_JOB_FIELDS) "FROM job WHERE tenant = $1 AND number > $2 ORDER BY number LIMIT $3",
    };

    return sql_page(metadata, &sql, tenant, page, NULL, &job_rows, results, ret_jobs, ret_count, ret_more, refusal);
}

enum status meta_job_open(struct metadata *metadata, int64_t after, uint32_t limit, struct meta_results *results,
                          struct meta_job **ret_jobs, uint32_t *ret_count, bool *ret_more, struct refusal *refusal)
{
    if (limit < 1 || limit > META_PAGE_MAX)
        return refuse(refusal, STATUS_INVALID, "a page has 1 to %d rows", META_PAGE_MAX);
    return sql_rows(metadata, SELECT(META_JOB_FIELDS) "FROM job WHERE finished_at_ms IS NULL AND number > $1 ORDER BY number LIMIT $2",
                    VALUES(AS_INT(after), AS_INT(limit + 1)), &job_rows, limit, results, ret_jobs, ret_count, ret_more, refusal);
}

struct state_count {
    const char *state;
    int64_t jobs;
};
static const struct field count_fields[] = {{"state", VALUE_TEXT, offsetof(struct state_count, state)},
                                            {"jobs", VALUE_INT, offsetof(struct state_count, jobs)}};
static const struct row_kind count_rows = {count_fields, ARRAY_COUNT(count_fields), sizeof(struct state_count), "state"};

static bool take_count(void *context, const void *row)
{
    const struct state_count *count = row;
    int64_t *counts = context;
    const enum meta_job_state state = meta_job_state_parse(count->state);

    if (state < META_JOB_STATES_COUNT)
        counts[state] = count->jobs;
    return true;
}

enum status meta_job_counts(struct metadata *metadata, int64_t ret_counts[META_JOB_STATES_COUNT], struct refusal *refusal)
{
    int64_t counts[META_JOB_STATES_COUNT] = {0};
    const enum status status = sql_each(metadata, "SELECT state, COUNT(*) AS jobs, 0 FROM job WHERE finished_at_ms IS NULL GROUP BY state",
                                        NO_VALUES, &count_rows, take_count, counts, refusal);

    if (status == STATUS_OK)
        memcpy(ret_counts, counts, sizeof(counts));
    return status;
}

enum status meta_job_sized(struct metadata *metadata, const char *tenant, const char *id, const struct meta_job_size *size,
                           struct refusal *refusal)
{
    return sql_change(metadata,
                      "UPDATE job SET size_ns = $3, gpu_bytes = $4, gpus = $5, rank = $6, settings = COALESCE($7, settings)"
                      " WHERE tenant = $1 AND id = $2 AND state = 'validating'",
                      VALUES(AS_TEXT(tenant), AS_TEXT(id), AS_INT(size->size_ns), AS_INT(size->gpu_bytes), AS_INT(size->gpus),
                             AS_INT(size->rank), AS_TEXT(size->settings)),
                      STATUS_CONFLICT, "the job isn't being validated", refusal);
}

enum status meta_job_progress(struct metadata *metadata, const char *tenant, const char *id, int64_t attempt, int64_t done_ns,
                              int64_t trained_tokens, struct refusal *refusal)
{
    return sql_change(metadata,
                      "UPDATE job SET done_ns = $4, trained_tokens = $5"
                      " WHERE tenant = $1 AND id = $2 AND attempt = $3 AND state IN ('running', 'stopping')",
                      VALUES(AS_TEXT(tenant), AS_TEXT(id), AS_INT(attempt), AS_INT(done_ns), AS_INT(trained_tokens)), STATUS_CONFLICT,
                      "this attempt is over", refusal);
}
