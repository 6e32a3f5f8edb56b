#include "control/metadata/model.h"

#include <stdio.h>

#include "control/metadata/rows.h"
#include "control/metadata/tenant.h"

static const struct field base_fields[] = {
#define X(kind, name) {#name, VALUE_##kind, offsetof(struct meta_base, name)},
    META_BASE_FIELDS(X)
#undef X
};
const struct row_kind base_rows = {base_fields, ARRAY_COUNT(base_fields), sizeof(struct meta_base), "base model"};

static const struct field model_fields[] = {
#define X(kind, name) {#name, VALUE_##kind, offsetof(struct meta_model, name)},
    META_MODEL_FIELDS(X)
#undef X
};
static const struct row_kind model_kind = {model_fields, ARRAY_COUNT(model_fields), sizeof(struct meta_model), "model"};

/* Of bases and aliases: what stands in a URL and in a model's name. */
bool meta_name_is_plain(const char *name)
{
    size_t length = 0;

    for (; name[length] != '\0'; length++) {
        const char c = name[length];

        if (length == 63 || !((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
                              c == '.' || c == '/'))
            return false;
    }
    return length > 0;
}

static enum status taken(struct metadata *metadata, const char *sql, const char *name, struct refusal *refusal)
{
    int64_t count = 0;
    enum status status = sql_number(metadata, sql, VALUES(AS_TEXT(name)), &count, refusal);

    return status == STATUS_OK && count > 0 ? refuse(refusal, STATUS_CONFLICT, "the name is taken") : status;
}

/* --- bases ------------------------------------------------------------------------------------------------------------------ */

enum status meta_base_add(struct metadata *metadata, const char *id, const char *digest, const char *folder, int64_t now_ms,
                          struct refusal *refusal)
{
    enum status status;

    if (!meta_name_is_plain(id))
        return refuse(refusal, STATUS_INVALID, "a base's name is 1 to 63 letters, digits, '-', '_', '.' and '/'");
    status = meta_begin(metadata, refusal);
    if (status != STATUS_OK)
        return status;
    status = taken(metadata, "SELECT COUNT(*) FROM alias WHERE name = $1", id, refusal);
    if (status == STATUS_OK)
        status = sql_run(metadata,
                         "INSERT INTO base (id, number, digest, folder, state, created_at_ms) VALUES"
                         " ($1, (SELECT COALESCE(MAX(number), 0) + 1 FROM base), $2, $3, 'serving', $4)",
                         VALUES(AS_TEXT(id), AS_TEXT(digest), AS_TEXT(folder), AS_INT(now_ms)), NULL, refusal);
    return meta_end(metadata, status, refusal);
}

enum status meta_base_move(struct metadata *metadata, const char *id, const char *from, const char *to, int64_t retire_at_ms,
                           struct refusal *refusal)
{
    static const char *const may[][2] = {{"serving", "deprecated"}, {"serving", "retired"}, {"deprecated", "retired"}};

    for (size_t i = 0; i < ARRAY_COUNT(may); i++)
        if (strcmp(may[i][0], from) == 0 && strcmp(may[i][1], to) == 0)
            return sql_change(metadata, "UPDATE base SET state = $3, retire_at_ms = $4 WHERE id = $1 AND state = $2",
                              VALUES(AS_TEXT(id), AS_TEXT(from), AS_TEXT(to), AS_INT(retire_at_ms)), STATUS_CONFLICT,
                              "the base isn't in that state", refusal);
    return refuse(refusal, STATUS_INVALID, "a base does not go from %s to %s", from, to);
}

enum status meta_base_get(struct metadata *metadata, const char *id, struct meta_results *results, struct meta_base *ret_base,
                          struct refusal *refusal)
{
    return sql_row(metadata, SELECT(META_BASE_FIELDS) "FROM base WHERE id = $1", VALUES(AS_TEXT(id)), &base_rows, results, ret_base,
                   refusal);
}

enum status meta_base_list(struct metadata *metadata, int64_t after, uint32_t limit, struct meta_results *results,
                           struct meta_base **ret_bases, uint32_t *ret_count, bool *ret_more, struct refusal *refusal)
{
    if (limit < 1 || limit > META_PAGE_MAX)
        return refuse(refusal, STATUS_INVALID, "a page has 1 to %d rows", META_PAGE_MAX);
    return sql_rows(metadata, SELECT(META_BASE_FIELDS) "FROM base WHERE number > $1 ORDER BY number LIMIT $2",
                    VALUES(AS_INT(after), AS_INT(limit + 1)), &base_rows, limit, results, ret_bases, ret_count, ret_more, refusal);
}

/* --- models ----------------------------------------------------------------------------------------------------------------- */

#define NAMED_FIELDS(X) X(TEXT, slug) X(TEXT, digest)
struct named {
    NAMED_FIELDS(META_FIELD)
};
static const struct field named_fields[] = {
#define X(kind, name) {#name, VALUE_##kind, offsetof(struct named, name)},
    NAMED_FIELDS(X)
#undef X
};
static const struct row_kind named_kind = {named_fields, ARRAY_COUNT(named_fields), sizeof(struct named),
                                           "base, whole object or tenant"};

static enum status insert_model(struct metadata *metadata, const struct meta_model_new *model, const char *id, const char *name,
                                const char *base_digest, int64_t now_ms, struct refusal *refusal)
{
    return sql_run(metadata,
                   "INSERT INTO model (id, number, name, tenant, job, step, parent, base, base_digest, object, digest, rank, bytes,"
                   " lineage, verdict, state, created_at_ms) VALUES ($1, (SELECT COALESCE(MAX(number), 0) + 1 FROM model), $2, $3, $4,"
                   " $5, $6, $7, $8, $9, $10, $11, $12, $13, 'pending_eval', 'live', $14)",
                   VALUES(AS_TEXT(id), AS_TEXT(name), AS_TEXT(model->tenant), AS_TEXT(model->job), AS_INT(model->step),
                          AS_TEXT(model->parent), AS_TEXT(model->base), AS_TEXT(base_digest), AS_TEXT(model->object),
                          AS_TEXT(model->digest), AS_INT(model->rank), AS_INT(model->bytes), AS_TEXT(model->lineage), AS_INT(now_ms)),
                   NULL, refusal);
}

static enum status add_model(struct metadata *metadata, const struct meta_model_new *model, int64_t now_ms,
                             struct meta_results *results, char *ret_name, struct refusal *refusal)
{
    char own[NAME_BYTES];
    struct named named;
    int length;
    enum status status = sql_row(metadata,
                                 "SELECT t.slug, b.digest FROM tenant t, base b, object o WHERE t.id = $1 AND t.state IN ('active', 'suspended')"
                                 " AND b.id = $2 AND b.state <> 'retired' AND o.tenant = $1 AND o.id = $3 AND o.state = 'live'",
                                 VALUES(AS_TEXT(model->tenant), AS_TEXT(model->base), AS_TEXT(model->object)), &named_kind, results,
                                 &named, refusal);

    if (status == STATUS_NOT_FOUND)
        return refuse(refusal, STATUS_INVALID, "no such base, whole object or tenant");
    if (status != STATUS_OK)
        return status;
    length = snprintf(ret_name, META_MODEL_NAME_BYTES, "ft:%s:%s:%s:%s", model->base, named.slug, model->suffix, model->id);
    if (model->step != META_NONE) {
        length += snprintf(ret_name + length, META_MODEL_NAME_BYTES - (size_t)length, ":ckpt-step-%lld", (long long)model->step);
        meta_id("model-", own);
    } else {
        snprintf(own, sizeof(own), "%s", model->id);
    }
    check(length < META_MODEL_NAME_BYTES);
    return insert_model(metadata, model, own, ret_name, named.digest, now_ms, refusal);
}

enum status meta_model_add(struct metadata *metadata, const struct meta_model_new *model, int64_t now_ms,
                           char ret_name[META_MODEL_NAME_BYTES], struct refusal *refusal)
{
    struct meta_results results = {0};
    char name[META_MODEL_NAME_BYTES];
    enum status status;

    check(name_is_valid(model->id));
    if (model->suffix[0] != '\0' && !meta_slug_is_valid(model->suffix))
        return refuse(refusal, STATUS_INVALID, "a suffix is up to 39 of a-z, 0-9 and '-', a '-' neither first nor last");
    status = meta_begin(metadata, refusal);
    if (status != STATUS_OK)
        return status;
    status = meta_end(metadata, add_model(metadata, model, now_ms, &results, name, refusal), refusal);
    meta_results_free(&results);
    if (status == STATUS_OK)
        memcpy(ret_name, name, sizeof(name));
    return status;
}

enum status meta_model_get(struct metadata *metadata, const char *tenant, const char *id, struct meta_results *results,
                           struct meta_model *ret_model, struct refusal *refusal)
{
    return sql_row(metadata, SELECT(META_MODEL_FIELDS) "FROM model WHERE tenant = $1 AND id = $2",
                   VALUES(AS_TEXT(tenant), AS_TEXT(id)), &model_kind, results, ret_model, refusal);
}

enum status meta_model_list(struct metadata *metadata, const char *tenant, const struct meta_page *page, struct meta_results *results,
                            struct meta_model **ret_models, uint32_t *ret_count, bool *ret_more, struct refusal *refusal)
{
    static const struct page_sql sql = {
        "SELECT number FROM model WHERE tenant = $1 AND id = $2",
        SELECT(META_MODEL_FIELDS) "FROM model WHERE tenant = $1 AND number < $2 AND state = 'live' ORDER BY number DESC LIMIT $3",
        SELECT(META_MODEL_FIELDS) "FROM model WHERE tenant = $1 AND number > $2 AND state = 'live' ORDER BY number LIMIT $3",
    };

    return sql_page(metadata, &sql, tenant, page, NULL, &model_kind, results, ret_models, ret_count, ret_more, refusal);
}

enum status meta_model_of_job(struct metadata *metadata, const char *tenant, const char *job, int64_t before, uint32_t limit,
                              struct meta_results *results, struct meta_model **ret_models, uint32_t *ret_count, bool *ret_more,
                              struct refusal *refusal)
{
    const int64_t last = before == META_NONE ? INT64_MAX : before - 1;
    enum status status = job_find(metadata, tenant, job, refusal);

    if (limit < 1 || limit > META_PAGE_MAX)
        return refuse(refusal, STATUS_INVALID, "a page has 1 to %d rows", META_PAGE_MAX);
    if (status != STATUS_OK)
        return status;
    return sql_rows(metadata,
                    SELECT(META_MODEL_FIELDS) "FROM model WHERE tenant = $1 AND job = $2 AND state = 'live'"
                                              " AND COALESCE(step, 9223372036854775807) <= $3"
                                              " ORDER BY COALESCE(step, 9223372036854775807) DESC LIMIT $4",
                    VALUES(AS_TEXT(tenant), AS_TEXT(job), AS_INT(last), AS_INT(limit + 1)), &model_kind, limit, results, ret_models, ret_count,
                    ret_more, refusal);
}

enum status meta_model_judge(struct metadata *metadata, const char *tenant, const char *id, const char *from, const char *to,
                             const char *report, struct refusal *refusal)
{
    return sql_change(metadata,
                      "UPDATE model SET verdict = $4, report = COALESCE($5, report)"
                      " WHERE tenant = $1 AND id = $2 AND verdict = $3 AND state = 'live'",
                      VALUES(AS_TEXT(tenant), AS_TEXT(id), AS_TEXT(from), AS_TEXT(to), AS_TEXT(report)), STATUS_CONFLICT,
                      "the model has another verdict, or is going", refusal);
}

enum status meta_model_doom(struct metadata *metadata, const char *tenant, const char *id, struct refusal *refusal)
{
    enum status status = meta_begin(metadata, refusal);

    if (status != STATUS_OK)
        return status;
    status = sql_change(metadata, "UPDATE model SET state = 'doomed' WHERE tenant = $1 AND id = $2 AND state = 'live'",
                        VALUES(AS_TEXT(tenant), AS_TEXT(id)), STATUS_NOT_FOUND, "no such model", refusal);
    if (status == STATUS_OK)
        status = sql_run(metadata, "UPDATE alias SET live = 0 WHERE tenant = $1 AND model = $2 AND live = 1",
                         VALUES(AS_TEXT(tenant), AS_TEXT(id)), NULL, refusal);
    if (status == STATUS_OK)
        status = sql_run(metadata,
                         "UPDATE object SET state = 'doomed' WHERE tenant = $1 AND state = 'live' AND id IN"
                         " (SELECT object FROM model WHERE tenant = $1 AND id = $2 UNION"
                         " SELECT report FROM model WHERE tenant = $1 AND id = $2)",
                         VALUES(AS_TEXT(tenant), AS_TEXT(id)), NULL, refusal);
    return meta_end(metadata, status, refusal);
}

enum status meta_model_prune(struct metadata *metadata, const char *tenant, const char *job, uint32_t count, struct refusal *refusal)
{
    struct meta_results results = {0};
    struct meta_model *models = NULL;
    uint32_t found = 0;
    bool more;
    enum status status = meta_begin(metadata, refusal);

    if (status != STATUS_OK)
        return status;
    status = sql_rows(metadata,
                      SELECT(META_MODEL_FIELDS) "FROM model WHERE tenant = $1 AND job = $2 AND step IS NOT NULL AND state = 'live'"
                                                " ORDER BY step DESC LIMIT $3",
                      VALUES(AS_TEXT(tenant), AS_TEXT(job), AS_INT(META_PAGE_MAX + 1)), &model_kind, META_PAGE_MAX, &results, &models,
                      &found, &more, refusal);
    for (uint32_t i = count; status == STATUS_OK && i < found; i++)
        status = meta_model_doom(metadata, tenant, models[i].id, refusal);
    meta_results_free(&results);
    return meta_end(metadata, status, refusal);
}

enum status meta_model_gone(struct metadata *metadata, const char *tenant, const char *id, struct refusal *refusal)
{
    return sql_change(metadata, "UPDATE model SET state = 'gone' WHERE tenant = $1 AND id = $2 AND state = 'doomed'",
                      VALUES(AS_TEXT(tenant), AS_TEXT(id)), STATUS_CONFLICT, "the model isn't doomed", refusal);
}

/* --- aliases and names ------------------------------------------------------------------------------------------------------ */

static enum status set_alias(struct metadata *metadata, const char *tenant, const char *name, const char *model,
                             int64_t *ret_generation, struct refusal *refusal)
{
    int64_t found = 0;
    enum status status = taken(metadata, "SELECT COUNT(*) FROM base WHERE id = $1", name, refusal);

    if (status == STATUS_OK)
        status = sql_number(metadata, "SELECT number FROM model WHERE tenant = $1 AND id = $2 AND state = 'live'",
                            VALUES(AS_TEXT(tenant), AS_TEXT(model)), &found, refusal);
    if (status == STATUS_NOT_FOUND)
        return refuse(refusal, status, "no such model");
    if (status == STATUS_OK)
        status = sql_run(metadata,
                         "INSERT INTO alias (tenant, name, model, generation, live) VALUES ($1, $2, $3, 1, 1)"
                         " ON CONFLICT (tenant, name) DO UPDATE SET model = excluded.model, live = 1, generation = alias.generation +"
                         " CASE WHEN alias.live = 1 AND alias.model = excluded.model THEN 0 ELSE 1 END",
                         VALUES(AS_TEXT(tenant), AS_TEXT(name), AS_TEXT(model)), NULL, refusal);
    if (status == STATUS_OK)
        status = sql_number(metadata, "SELECT generation FROM alias WHERE tenant = $1 AND name = $2",
                            VALUES(AS_TEXT(tenant), AS_TEXT(name)), ret_generation, refusal);
    return status;
}

enum status meta_alias_set(struct metadata *metadata, const char *tenant, const char *name, const char *model, int64_t *ret_generation,
                           struct refusal *refusal)
{
    int64_t generation = 0;
    enum status status;

    if (!meta_name_is_plain(name))
        return refuse(refusal, STATUS_INVALID, "an alias is 1 to 63 letters, digits, '-', '_', '.' and '/'");
    status = meta_begin(metadata, refusal);
    if (status != STATUS_OK)
        return status;
    status = meta_end(metadata, set_alias(metadata, tenant, name, model, &generation, refusal), refusal);
    if (status == STATUS_OK && ret_generation != NULL)
        *ret_generation = generation;
    return status;
}

enum status meta_alias_delete(struct metadata *metadata, const char *tenant, const char *name, struct refusal *refusal)
{
    return sql_change(metadata, "UPDATE alias SET live = 0 WHERE tenant = $1 AND name = $2 AND live = 1",
                      VALUES(AS_TEXT(tenant), AS_TEXT(name)), STATUS_NOT_FOUND, "no such model", refusal);
}

static const struct field alias_fields[] = {
#define X(kind, name) {#name, VALUE_##kind, offsetof(struct meta_alias, name)},
    META_ALIAS_FIELDS(X)
#undef X
};
static const struct row_kind alias_kind = {alias_fields, ARRAY_COUNT(alias_fields), sizeof(struct meta_alias), "alias"};

enum status meta_alias_list(struct metadata *metadata, const char *tenant, const char *after, uint32_t limit, struct meta_results *results,
                            struct meta_alias **ret_aliases, uint32_t *ret_count, bool *ret_more, struct refusal *refusal)
{
    if (limit < 1 || limit > META_PAGE_MAX)
        return refuse(refusal, STATUS_INVALID, "a page has 1 to %d rows", META_PAGE_MAX);
    return sql_rows(metadata,
                    "SELECT a.name, a.model, m.name, m.verdict, a.generation, m.created_at_ms, 0 FROM alias a JOIN model m ON m.tenant = a.tenant"
                    " AND m.id = a.model WHERE a.tenant = $1 AND a.name > $2 AND a.live = 1 AND m.state = 'live' ORDER BY a.name LIMIT $3",
                    VALUES(AS_TEXT(tenant), AS_TEXT(after), AS_INT(limit + 1)), &alias_kind, limit, results, ret_aliases, ret_count, ret_more,
                    refusal);
}

enum status meta_name_resolve(struct metadata *metadata, const char *tenant, const char *name, struct meta_results *results,
                              struct meta_model *ret_model, struct refusal *refusal)
{
    return sql_row(metadata,
                   SELECT(META_MODEL_FIELDS) "FROM model WHERE tenant = $1 AND name = $2 AND state = 'live' UNION ALL "
                   "SELECT m.id, m.number, m.name, m.tenant, m.job, m.step, m.parent, m.base, m.base_digest, m.object, m.digest,"
                   " m.rank, m.bytes, m.lineage, m.report, m.verdict, m.state, m.created_at_ms, 0 FROM alias a JOIN model m"
                   " ON m.tenant = a.tenant AND m.id = a.model WHERE a.tenant = $1 AND a.name = $2 AND a.live = 1 AND m.state = 'live'"
                   " UNION ALL SELECT NULL, number, id, NULL, NULL, NULL, NULL, id, digest, NULL, NULL, NULL, NULL, NULL, NULL,"
                   " 'deployable', 'live', created_at_ms, 0 FROM base WHERE id = $2 AND state <> 'retired'",
                   VALUES(AS_TEXT(tenant), AS_TEXT(name)), &model_kind, results, ret_model, refusal);
}
