#include "control/metadata/usage.h"

#include "control/metadata/job.h"
#include "control/metadata/sql.h"

static const struct field sum_fields[] = {
#define X(kind, name) {#name, VALUE_##kind, offsetof(struct meta_usage_sum, name)},
    META_USAGE_SUM_FIELDS(X)
#undef X
};
static const struct row_kind sum_kind = {sum_fields, ARRAY_COUNT(sum_fields), sizeof(struct meta_usage_sum), "usage"};

/* --- tokens ----------------------------------------------------------------------------------------------------------------- */

static enum status add_usage(struct metadata *metadata, const char *worker, const struct meta_usage *records, uint32_t count,
                             int64_t *acked, struct refusal *refusal)
{
    enum status status = sql_number(metadata, "SELECT acked_seq FROM worker WHERE id = $1", VALUES(AS_TEXT(worker)), acked, refusal);

    if (status == STATUS_NOT_FOUND)
        return refuse(refusal, STATUS_INVALID, "no such worker");
    for (uint32_t i = 0; i < count && status == STATUS_OK; i++) {
        if (i > 0 && records[i].seq <= records[i - 1].seq)
            return refuse(refusal, STATUS_INVALID, "usage records are not in the order of their numbers");
        if (records[i].seq <= *acked)
            continue;
        status = sql_run(metadata,
                         "INSERT INTO usage (worker, seq, tenant, model, hour, tokens_in, tokens_out) VALUES"
                         " ($1, $2, $3, $4, $5, $6, $7)",
                         VALUES(AS_TEXT(worker), AS_INT(records[i].seq), AS_TEXT(records[i].tenant), AS_TEXT(records[i].model),
                                AS_INT(records[i].hour), AS_INT(records[i].tokens_in), AS_INT(records[i].tokens_out)), NULL, refusal);
        *acked = records[i].seq;
    }
    return status == STATUS_OK ? meta_worker_ack(metadata, worker, *acked, refusal) : status;
}

enum status meta_usage_add(struct metadata *metadata, const char *worker, const struct meta_usage *records, uint32_t count,
                           int64_t *ret_acked, struct refusal *refusal)
{
    int64_t acked = 0;
    enum status status = meta_begin(metadata, refusal);

    if (status != STATUS_OK)
        return status;
    status = meta_end(metadata, add_usage(metadata, worker, records, count, &acked, refusal), refusal);
    if (status == STATUS_OK)
        *ret_acked = acked;
    return status;
}

#define SUM_OF(field) "CAST(SUM(" #field ") AS BIGINT)"

enum status meta_usage_sums(struct metadata *metadata, const char *tenant, int64_t from_hour, int64_t until_hour, uint32_t limit,
                            struct meta_results *results, struct meta_usage_sum **ret_sums, uint32_t *ret_count, bool *ret_more,
                            struct refusal *refusal)
{
    if (limit < 1 || limit > 10000)
        return refuse(refusal, STATUS_INVALID, "a list of usage has 1 to 10000 rows");
    return sql_rows(metadata,
                    "SELECT model, hour, " SUM_OF(records) ", " SUM_OF(tokens_in) ", " SUM_OF(tokens_out) ", " SUM_OF(jobs) ", "
                    SUM_OF(trained_tokens) ", " SUM_OF(gpu_ms) " FROM"
                    " (SELECT model, hour, 1 AS records, tokens_in, tokens_out, 0 AS jobs, 0 AS trained_tokens, 0 AS gpu_ms FROM usage"
                    "  WHERE tenant = $1 AND hour >= $2 AND hour < $3"
                    "  UNION ALL SELECT base, finished_at_ms / 3600000, 0, 0, 0, 1, COALESCE(trained_tokens, 0), gpu_ms FROM job"
                    "  WHERE tenant = $1 AND finished_at_ms / 3600000 >= $2 AND finished_at_ms / 3600000 < $3 AND gpu_ms > 0) AS used"
                    " GROUP BY model, hour ORDER BY model, hour LIMIT $4",
                    VALUES(AS_TEXT(tenant), AS_INT(from_hour), AS_INT(until_hour), AS_INT(limit + 1)), &sum_kind, limit, results,
                    ret_sums, ret_count, ret_more, refusal);
}

/* --- epochs and money ------------------------------------------------------------------------------------------------------- */

enum status meta_epoch_open(struct metadata *metadata, const char *boot_id, int64_t first_at_ns, const char *config, int64_t now_ms,
                            int64_t *ret_n, struct refusal *refusal)
{
    int64_t n = 0;
    enum status status = meta_begin(metadata, refusal);

    if (status != STATUS_OK)
        return status;
    status = sql_number(metadata, "SELECT COALESCE(MAX(n), 0) + 1 FROM epoch", NO_VALUES, &n, refusal);
    if (status == STATUS_OK)
        status = sql_run(metadata,
                         "INSERT INTO epoch (n, boot_id, wall_at_ms, first_at_ns, charged_to_ns, config) VALUES ($1, $2, $3, $4, $4, $5)",
                         VALUES(AS_INT(n), AS_TEXT(boot_id), AS_INT(now_ms), AS_INT(first_at_ns), AS_TEXT(config)), NULL, refusal);
    status = meta_end(metadata, status, refusal);
    if (status == STATUS_OK)
        *ret_n = n;
    return status;
}

enum status meta_epoch_last(struct metadata *metadata, struct meta_epoch *ret_epoch, struct refusal *refusal)
{
    static const struct field fields[] = {{"n", VALUE_INT, offsetof(struct meta_epoch, n)},
                                          {"first_at_ns", VALUE_INT, offsetof(struct meta_epoch, first_at_ns)},
                                          {"charged_to_ns", VALUE_INT, offsetof(struct meta_epoch, charged_to_ns)}};
    static const struct row_kind kind = {fields, ARRAY_COUNT(fields), sizeof(struct meta_epoch), "epoch"};
    struct meta_results none = {0};

    return sql_row(metadata, "SELECT n, first_at_ns, charged_to_ns FROM epoch ORDER BY n DESC LIMIT 1", NO_VALUES, &kind, &none,
                   ret_epoch, refusal);
}

static enum status add_charge(struct metadata *metadata, const struct meta_charge *charge, struct refusal *refusal)
{
    enum status status = sql_run(
        metadata,
        "INSERT INTO charge (epoch, command, part, account, device, from_ns, to_ns, nano) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"
        " ON CONFLICT (epoch, command, part) DO NOTHING",
        VALUES(AS_INT(charge->epoch), AS_INT(charge->command), AS_INT(charge->part), AS_TEXT(charge->account), AS_TEXT(charge->device),
               AS_INT(charge->from_ns), AS_INT(charge->to_ns), AS_INT(charge->nano)), NULL, refusal);

    if (status != STATUS_OK)
        return status;
    return sql_run(metadata, "UPDATE epoch SET charged_to_ns = $2 WHERE n = $1 AND charged_to_ns < $2",
                   VALUES(AS_INT(charge->epoch), AS_INT(charge->to_ns)), NULL, refusal);
}

enum status meta_charge_add(struct metadata *metadata, const struct meta_charge *charges, uint32_t count, struct refusal *refusal)
{
    enum status status = meta_begin(metadata, refusal);

    if (status != STATUS_OK)
        return status;
    for (uint32_t i = 0; i < count && status == STATUS_OK; i++)
        status = add_charge(metadata, &charges[i], refusal);
    return meta_end(metadata, status, refusal);
}

enum status meta_charge_sum(struct metadata *metadata, const char *account, int64_t *ret_nano, struct refusal *refusal)
{
    return sql_number(metadata, "SELECT CAST(COALESCE(SUM(nano), 0) AS BIGINT) FROM charge WHERE account = $1",
                      VALUES(AS_TEXT(account)), ret_nano, refusal);
}
