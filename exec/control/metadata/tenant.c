#include "control/metadata/tenant.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "control/metadata/rows.h"
#include "host/words.h"

#define COHORT_FIRST "default"
#define ISOLATION_FIRST "time-slice"

static const struct field fields[] = {
#define X(kind, name) {#name, VALUE_##kind, offsetof(struct meta_tenant, name)},
    META_TENANT_FIELDS(X)
#undef X
};
const struct row_kind tenant_rows = {fields, ARRAY_COUNT(fields), sizeof(struct meta_tenant), "tenant"};

bool meta_slug_is_valid(const char *slug)
{
    size_t length = 0;

    for (; slug[length] != '\0'; length++) {
        const char c = slug[length];

        if (length == 39 || !((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'))
            return false;
    }
    return length > 0 && slug[0] != '-' && slug[length - 1] != '-';
}

static enum status need_cohort(struct metadata *metadata, const char *name, struct refusal *refusal)
{
    if (!meta_slug_is_valid(name))
        return refuse(refusal, STATUS_INVALID, "cohort: 1 to 39 of a-z, 0-9 and '-', a '-' neither first nor last");
    return sql_run(metadata,
                   "INSERT INTO cohort (name, number) VALUES ($1, (SELECT COALESCE(MAX(number), 0) + 1 FROM cohort))"
                   " ON CONFLICT (name) DO NOTHING",
                   VALUES(AS_TEXT(name)), NULL, refusal);
}

enum status meta_tenant_add(struct metadata *metadata, const char *slug, int64_t now_ms, char ret_id[NAME_BYTES],
                            struct refusal *refusal)
{
    char id[NAME_BYTES];
    enum status status;

    if (!meta_slug_is_valid(slug))
        return refuse(refusal, STATUS_INVALID, "a tenant's name is 1 to 39 of a-z, 0-9 and '-', a '-' neither first nor last");
    meta_id("org-", id);
    status = meta_begin(metadata, refusal);
    if (status != STATUS_OK)
        return status;
    status = need_cohort(metadata, COHORT_FIRST, refusal);
    if (status == STATUS_OK)
        status = sql_run(metadata,
                         "INSERT INTO tenant (id, number, slug, state, created_at_ms, cohort, isolation) VALUES"
                         " ($1, (SELECT COALESCE(MAX(number), 0) + 1 FROM tenant), $2, 'active', $3, '" COHORT_FIRST
                         "', '" ISOLATION_FIRST "')",
                         VALUES(AS_TEXT(id), AS_TEXT(slug), AS_INT(now_ms)), NULL, refusal);
    if (status == STATUS_CONFLICT)
        refuse(refusal, status, "%s: the name is taken, or was; names are never given again", slug);
    status = meta_end(metadata, status, refusal);
    if (status == STATUS_OK)
        memcpy(ret_id, id, NAME_BYTES);
    return status;
}

enum status meta_tenant_get(struct metadata *metadata, const char *id, struct meta_results *results, struct meta_tenant *ret_tenant,
                            struct refusal *refusal)
{
    return sql_row(metadata, SELECT(META_TENANT_FIELDS) "FROM tenant WHERE id = $1", VALUES(AS_TEXT(id)), &tenant_rows, results, ret_tenant,
                   refusal);
}

enum status meta_tenant_find(struct metadata *metadata, const char *slug, struct meta_results *results,
                             struct meta_tenant *ret_tenant, struct refusal *refusal)
{
    return sql_row(metadata, SELECT(META_TENANT_FIELDS) "FROM tenant WHERE slug = $1", VALUES(AS_TEXT(slug)), &tenant_rows, results,
                   ret_tenant, refusal);
}

enum status meta_tenant_list(struct metadata *metadata, int64_t after, uint32_t limit, struct meta_results *results,
                             struct meta_tenant **ret_tenants, uint32_t *ret_count, bool *ret_more, struct refusal *refusal)
{
    if (limit < 1 || limit > META_PAGE_MAX)
        return refuse(refusal, STATUS_INVALID, "a page has 1 to %d rows", META_PAGE_MAX);
    return sql_rows(metadata, SELECT(META_TENANT_FIELDS) "FROM tenant WHERE number > $1 ORDER BY number LIMIT $2",
                    VALUES(AS_INT(after), AS_INT(limit + 1)), &tenant_rows, limit, results, ret_tenants, ret_count, ret_more, refusal);
}

/* --- settings --------------------------------------------------------------------------------------------------------------- */

static const struct setting {
    const char *name;
    int64_t least;
    int64_t most;
    const char *update;
} settings[] = {
#define X(name, least, most, standard, about) {#name, least, most, "UPDATE tenant SET " #name " = $2 WHERE id = $1 AND state <> 'deleted'"},
    META_TENANT_SETTINGS(X)
#undef X
};

static enum status set_number(struct metadata *metadata, const char *id, const struct setting *setting, const char *value,
                              struct refusal *refusal)
{
    char *end;
    long long number;

    errno = 0;
    number = strtoll(value, &end, 10);
    if (end == value || *end != '\0' || errno != 0 || value[0] == ' ' || number < setting->least || number > setting->most)
        return refuse(refusal, STATUS_INVALID, "%s: a whole number from %lld to %lld", setting->name, (long long)setting->least,
                      (long long)setting->most);
    return sql_change(metadata, setting->update, VALUES(AS_TEXT(id), AS_INT(number)), STATUS_NOT_FOUND, "no such tenant", refusal);
}

static enum status set_cohort(struct metadata *metadata, const char *id, const char *value, struct refusal *refusal)
{
    enum status status = meta_begin(metadata, refusal);

    if (status != STATUS_OK)
        return status;
    status = need_cohort(metadata, value, refusal);
    if (status == STATUS_OK)
        status = sql_change(metadata, "UPDATE tenant SET cohort = $2 WHERE id = $1 AND state <> 'deleted'",
                            VALUES(AS_TEXT(id), AS_TEXT(value)), STATUS_NOT_FOUND, "no such tenant", refusal);
    return meta_end(metadata, status, refusal);
}

static enum status set_word(struct metadata *metadata, const char *update, const char *id, const char *value, const char *words,
                            struct refusal *refusal)
{
    enum status status =
        sql_change(metadata, update, VALUES(AS_TEXT(id), AS_TEXT(value)), STATUS_NOT_FOUND, "no such tenant", refusal);

    return status == STATUS_INVALID ? refuse(refusal, status, "%s", words) : status;
}

static enum status unknown_setting(const char *name, struct refusal *refusal)
{
    char shown[EXCERPT_MAX];

    refuse(refusal, STATUS_INVALID, "%s can't be set; what can: cohort, isolation, consent", excerpt(name, strlen(name), shown));
    for (size_t i = 0; i < ARRAY_COUNT(settings); i++)
        refuse_also(refusal, STATUS_INVALID, "  %s, %lld to %lld", settings[i].name, (long long)settings[i].least,
                    (long long)settings[i].most);
    return STATUS_INVALID;
}

enum status meta_tenant_set(struct metadata *metadata, const char *id, const char *name, const char *value, struct refusal *refusal)
{
    for (size_t i = 0; i < ARRAY_COUNT(settings); i++)
        if (strcmp(name, settings[i].name) == 0)
            return set_number(metadata, id, &settings[i], value, refusal);
    if (strcmp(name, "cohort") == 0)
        return set_cohort(metadata, id, value, refusal);
    if (strcmp(name, "isolation") == 0)
        return set_word(metadata, "UPDATE tenant SET isolation = $2 WHERE id = $1 AND state <> 'deleted'", id, value,
                        "isolation: exclusive, mig, mps or time-slice", refusal);
    if (strcmp(name, "consent") == 0)
        return set_word(metadata, "UPDATE tenant SET consent = $2 WHERE id = $1 AND state <> 'deleted'", id, value,
                        "consent: none or support", refusal);
    return unknown_setting(name, refusal);
}

/* --- states ----------------------------------------------------------------------------------------------------------------- */

enum status meta_tenant_move(struct metadata *metadata, const char *id, const char *from, const char *to, struct refusal *refusal)
{
    static const char *const may[][2] = {{"active", "suspended"}, {"suspended", "active"}, {"active", "deleting"},
                                         {"suspended", "deleting"}, {"deleting", "deleted"}};
    bool known = false;
    enum status status;

    for (size_t i = 0; i < ARRAY_COUNT(may); i++)
        known |= strcmp(may[i][0], from) == 0 && strcmp(may[i][1], to) == 0;
    if (!known)
        return refuse(refusal, STATUS_INVALID, "a tenant does not go from %s to %s", from, to);
    status = sql_change(metadata, "UPDATE tenant SET state = $3 WHERE id = $1 AND state = $2",
                        VALUES(AS_TEXT(id), AS_TEXT(from), AS_TEXT(to)), STATUS_CONFLICT, "-", refusal);
    return status == STATUS_CONFLICT ? refuse(refusal, status, "the tenant isn't %s", from) : status;
}

/* --- shares ----------------------------------------------------------------------------------------------------------------- */

static int64_t decayed(int64_t usage, int64_t from_ms, int64_t until_ms)
{
    return llround((double)usage * exp2(-(double)max_i64(0, until_ms - from_ms) / (double)META_SHARE_HALF_LIFE_MS));
}

enum status meta_tenant_used(struct metadata *metadata, const char *id, int64_t gpu_ms, int64_t now_ms, struct refusal *refusal)
{
    struct meta_results results = {0};
    struct meta_tenant tenant;
    enum status status = meta_begin(metadata, refusal);

    check(gpu_ms >= 0);
    if (status != STATUS_OK)
        return status;
    status = meta_tenant_get(metadata, id, &results, &tenant, refusal);
    if (status == STATUS_OK)
        status = sql_change(metadata, "UPDATE tenant SET share_usage = $2, share_at_ms = $3 WHERE id = $1",
                            VALUES(AS_TEXT(id), AS_INT(decayed(tenant.share_usage, tenant.share_at_ms, now_ms) + gpu_ms),
                                   AS_INT(max_i64(tenant.share_at_ms, now_ms))),
                            STATUS_NOT_FOUND, "no such tenant", refusal);
    meta_results_free(&results);
    return meta_end(metadata, status, refusal);
}
