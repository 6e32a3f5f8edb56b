#include "control/metadata/restore.h"

#include "control/metadata/rows.h"

struct pair {
    const char *name;
    int64_t number;
};
static const struct field pair_fields[] = {{"name", VALUE_TEXT, offsetof(struct pair, name)},
                                           {"number", VALUE_INT, offsetof(struct pair, number)}};

static const struct row_kind cohort_rows = {pair_fields, ARRAY_COUNT(pair_fields), sizeof(struct pair), "cohort"};
static const struct row_kind balance_rows = {pair_fields, ARRAY_COUNT(pair_fields), sizeof(struct pair), "balance"};

static const struct part {
    enum meta_restored kind;
    const char *sql;
    const struct row_kind *rows;
} parts[] = {
    {META_RESTORED_COHORT, "SELECT name, number FROM cohort ORDER BY number",
     &cohort_rows},
    {META_RESTORED_TENANT, SELECT(META_TENANT_FIELDS) "FROM tenant WHERE state <> 'deleted' ORDER BY number",
     &tenant_rows},
    {META_RESTORED_USAGE, SELECT(META_TENANT_FIELDS) "FROM tenant WHERE state <> 'deleted' AND share_usage <> 0 ORDER BY number",
     &tenant_rows},
    {META_RESTORED_BASE, SELECT(META_BASE_FIELDS) "FROM base WHERE state <> 'retired' ORDER BY number",
     &base_rows},
    {META_RESTORED_JOB, SELECT(META_JOB_FIELDS) "FROM job WHERE finished_at_ms IS NULL ORDER BY number",
     &job_rows},
    {META_RESTORED_WORKER, SELECT(META_WORKER_FIELDS) "FROM worker WHERE ended_at_ms IS NULL ORDER BY id", &worker_rows},
    {META_RESTORED_BALANCE, "SELECT account, CAST(SUM(nano) AS BIGINT) FROM charge GROUP BY account ORDER BY account", &balance_rows},
};

struct restoring {
    enum meta_restored kind;
    meta_restore_visit *visit;
    void *context;
    bool ended;
};

static bool tell(void *context, const void *row)
{
    struct restoring *restoring = context;
    const struct pair *pair = row;
    struct meta_restore item = {.kind = restoring->kind};

    switch (restoring->kind) {
    case META_RESTORED_COHORT:
        item.cohort.name = pair->name;
        item.cohort.number = pair->number;
        break;
    case META_RESTORED_BALANCE:
        item.balance.account = pair->name;
        item.balance.nano = pair->number;
        break;
    case META_RESTORED_TENANT:
    case META_RESTORED_USAGE:
        item.tenant = row;
        break;
    case META_RESTORED_BASE:
        item.base = row;
        break;
    case META_RESTORED_JOB:
        item.job = row;
        break;
    case META_RESTORED_WORKER:
        item.worker = row;
        break;
    }
    restoring->ended = !restoring->visit(restoring->context, &item);
    return !restoring->ended;
}

enum status meta_restore(struct metadata *metadata, meta_restore_visit *visit, void *context, struct refusal *refusal)
{
    struct restoring restoring = {.visit = visit, .context = context};
    enum status status = meta_begin(metadata, refusal);

    if (status != STATUS_OK)
        return status;
    for (size_t i = 0; i < ARRAY_COUNT(parts) && status == STATUS_OK && !restoring.ended; i++) {
        restoring.kind = parts[i].kind;
        status = sql_each(metadata, parts[i].sql, NO_VALUES, parts[i].rows, tell, &restoring, refusal);
    }
    return meta_end(metadata, status, refusal);
}
