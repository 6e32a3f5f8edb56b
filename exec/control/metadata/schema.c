/* The tables. One text for every driver; {BLOB} stands for what it calls bytes. Rows are never deleted, but for answers to retries
 * that have expired; a name that was taken stays taken. References carry the tenant, so that no row can point to another's. */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>

#include "control/metadata/sql.h"
#include "control/metadata/tenant.h"

#define SETTING_COLUMN(name, least, most, standard, about) \
    "  " #name " BIGINT NOT NULL DEFAULT " #standard " CHECK (" #name " BETWEEN " #least " AND " #most "),"

static const char *const tables[] = {
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)",

    "CREATE TABLE epoch (n BIGINT PRIMARY KEY, boot_id TEXT NOT NULL, wall_at_ms BIGINT NOT NULL, first_at_ns BIGINT NOT NULL,"
    "  charged_to_ns BIGINT NOT NULL, config TEXT NOT NULL)",

    /* Numbers are what the fleet core knows things by: dense, in order of arrival, never given again. */
    "CREATE TABLE cohort (name TEXT PRIMARY KEY, number BIGINT NOT NULL UNIQUE)",
    "CREATE TABLE tenant (id TEXT PRIMARY KEY, number BIGINT NOT NULL UNIQUE, slug TEXT NOT NULL UNIQUE,"
    "  state TEXT NOT NULL CHECK (state IN ('active', 'suspended', 'deleting', 'deleted')), created_at_ms BIGINT NOT NULL,"
    "  cohort TEXT NOT NULL REFERENCES cohort,"
    "  isolation TEXT NOT NULL CHECK (isolation IN ('exclusive', 'mig', 'mps', 'time-slice')),"
    "  consent TEXT NOT NULL DEFAULT 'none' CHECK (consent IN ('none', 'support'))," META_TENANT_SETTINGS(SETTING_COLUMN)
    "  share_usage BIGINT NOT NULL DEFAULT 0, share_at_ms BIGINT NOT NULL DEFAULT 0)",

    /* No tenant: reviewer, operator, auditor. */
    "CREATE TABLE api_key (id TEXT PRIMARY KEY, number BIGINT NOT NULL UNIQUE, tenant TEXT REFERENCES tenant,"
    "  mac {BLOB} NOT NULL, role TEXT NOT NULL CHECK (role IN"
    "  ('inference', 'member', 'admin', 'reviewer', 'operator', 'auditor')), created_at_ms BIGINT NOT NULL, expires_at_ms BIGINT,"
    "  revoked_at_ms BIGINT, CHECK ((tenant IS NULL) = (role IN ('reviewer', 'operator', 'auditor'))))",

    "CREATE TABLE object (id TEXT PRIMARY KEY, tenant TEXT NOT NULL REFERENCES tenant, kind TEXT NOT NULL, key_id TEXT NOT NULL,"
    "  bytes BIGINT, digest TEXT, state TEXT NOT NULL CHECK (state IN ('writing', 'live', 'doomed', 'gone')),"
    "  UNIQUE (tenant, id), CHECK (state <> 'live' OR (bytes IS NOT NULL AND digest IS NOT NULL)))",

    "CREATE TABLE file (id TEXT PRIMARY KEY, number BIGINT NOT NULL UNIQUE, tenant TEXT NOT NULL, object TEXT NOT NULL,"
    "  purpose TEXT NOT NULL, state TEXT NOT NULL CHECK (state IN ('uploaded', 'processed', 'error', 'deleted')),"
    "  lines BIGINT, tokens BIGINT, report TEXT, sealed {BLOB}, created_at_ms BIGINT NOT NULL, expires_at_ms BIGINT,"
    "  UNIQUE (tenant, id), FOREIGN KEY (tenant, object) REFERENCES object (tenant, id),"
    "  FOREIGN KEY (tenant, report) REFERENCES object (tenant, id))",
    "CREATE INDEX file_page ON file (tenant, number)",
    "CREATE INDEX file_live ON file (tenant) WHERE state <> 'deleted'",

    /* One namespace: a base has no colon in its id, a model begins with 'ft:', an alias has no colon and is no base. */
    "CREATE TABLE base (id TEXT PRIMARY KEY, number BIGINT NOT NULL UNIQUE, digest TEXT NOT NULL, folder TEXT NOT NULL,"
    "  state TEXT NOT NULL CHECK (state IN ('serving', 'deprecated', 'retired')), created_at_ms BIGINT NOT NULL,"
    "  retire_at_ms BIGINT)",

    /* parent: a model, which refers to jobs itself; meta_job_add() looks. */
    "CREATE TABLE job (id TEXT PRIMARY KEY, number BIGINT NOT NULL UNIQUE, tenant TEXT NOT NULL, base TEXT NOT NULL REFERENCES base,"
    "  parent TEXT, file TEXT NOT NULL, validation TEXT, settings TEXT NOT NULL, state TEXT NOT NULL CHECK (state IN ('validating',"
    "  'queued', 'starting', 'running', 'stopping', 'paused', 'evaluating', 'succeeded', 'failed', 'cancelled')),"
    "  target TEXT CHECK (target IN ('queued', 'paused', 'cancelled')), attempt BIGINT NOT NULL DEFAULT 0,"
    "  crashes BIGINT NOT NULL DEFAULT 0, crash_step BIGINT, reason TEXT, gpu_ms BIGINT NOT NULL DEFAULT 0, trained_tokens BIGINT,"
    /* What the core is told: its size alone on its GPUs, what of that is durable, and what it takes of each GPU. */
    "  size_ns BIGINT, done_ns BIGINT NOT NULL DEFAULT 0, gpu_bytes BIGINT, gpus BIGINT, rank BIGINT,"
    "  sealed {BLOB}, created_at_ms BIGINT NOT NULL, finished_at_ms BIGINT, UNIQUE (tenant, id),"
    "  FOREIGN KEY (tenant, file) REFERENCES file (tenant, id), FOREIGN KEY (tenant, validation) REFERENCES file (tenant, id),"
    "  CHECK (CASE state WHEN 'stopping' THEN target IS NOT NULL WHEN 'validating' THEN target IS NULL OR target = 'paused'"
    "    ELSE target IS NULL END),"
    "  CHECK ((finished_at_ms IS NOT NULL) = (state IN ('succeeded', 'failed', 'cancelled'))),"
    "  CHECK (state IN ('validating', 'failed', 'cancelled') OR size_ns IS NOT NULL))",
    "CREATE INDEX job_page ON job (tenant, number)",
    "CREATE INDEX job_live ON job (tenant) WHERE finished_at_ms IS NULL",
    "CREATE TABLE job_event (job TEXT NOT NULL REFERENCES job, n BIGINT NOT NULL, at_ms BIGINT NOT NULL, level TEXT NOT NULL"
    "  CHECK (level IN ('info', 'warn', 'error')), code TEXT NOT NULL, metrics TEXT, sealed {BLOB}, PRIMARY KEY (job, n))",

    /* subject: a job or a file; none for servers and holders. */
    "CREATE TABLE worker (id TEXT PRIMARY KEY, kind TEXT NOT NULL CHECK (kind IN"
    "  ('validator', 'trainer', 'evaluator', 'server', 'holder')), subject TEXT, attempt BIGINT, placement TEXT NOT NULL,"
    "  acked_seq BIGINT NOT NULL DEFAULT 0, started_at_ms BIGINT NOT NULL, ended_at_ms BIGINT, how TEXT,"
    "  CHECK ((subject IS NULL) = (kind IN ('server', 'holder'))), CHECK ((subject IS NULL) = (attempt IS NULL)),"
    "  CHECK ((ended_at_ms IS NULL) = (how IS NULL)))",
    "CREATE UNIQUE INDEX one_live_attempt ON worker (subject) WHERE ended_at_ms IS NULL AND subject IS NOT NULL",
    "CREATE UNIQUE INDEX one_worker_an_attempt ON worker (subject, attempt)",
    "CREATE INDEX worker_live ON worker (id) WHERE ended_at_ms IS NULL",

    "CREATE TABLE checkpoint (id TEXT PRIMARY KEY, tenant TEXT NOT NULL, job TEXT NOT NULL, step BIGINT NOT NULL,"
    "  attempt BIGINT NOT NULL, object TEXT NOT NULL, metrics TEXT, created_at_ms BIGINT NOT NULL, UNIQUE (job, step),"
    "  FOREIGN KEY (tenant, job) REFERENCES job (tenant, id), FOREIGN KEY (tenant, object) REFERENCES object (tenant, id))",

    "CREATE TABLE model (id TEXT PRIMARY KEY, number BIGINT NOT NULL UNIQUE, name TEXT NOT NULL UNIQUE CHECK (name LIKE 'ft:%'),"
    "  tenant TEXT NOT NULL REFERENCES tenant, job TEXT, step BIGINT, parent TEXT, base TEXT NOT NULL REFERENCES base,"
    "  base_digest TEXT NOT NULL, object TEXT NOT NULL, digest TEXT NOT NULL, rank BIGINT NOT NULL CHECK (rank > 0),"
    "  bytes BIGINT NOT NULL CHECK (bytes > 0), lineage TEXT NOT NULL, report TEXT,"
    "  verdict TEXT NOT NULL CHECK (verdict IN ('pending_eval', 'deployable', 'needs_review', 'blocked')),"
    "  state TEXT NOT NULL CHECK (state IN ('live', 'doomed', 'gone')), created_at_ms BIGINT NOT NULL, UNIQUE (tenant, id),"
    "  FOREIGN KEY (tenant, job) REFERENCES job (tenant, id), FOREIGN KEY (tenant, parent) REFERENCES model (tenant, id),"
    "  FOREIGN KEY (tenant, object) REFERENCES object (tenant, id), FOREIGN KEY (tenant, report) REFERENCES object (tenant, id))",
    "CREATE INDEX model_page ON model (tenant, number)",
    "CREATE TABLE alias (tenant TEXT NOT NULL, name TEXT NOT NULL CHECK (name NOT LIKE '%:%'), model TEXT NOT NULL,"
    "  generation BIGINT NOT NULL, live BIGINT NOT NULL CHECK (live IN (0, 1)), PRIMARY KEY (tenant, name),"
    "  FOREIGN KEY (tenant, model) REFERENCES model (tenant, id))",

    "CREATE TABLE once (tenant TEXT NOT NULL REFERENCES tenant, key TEXT NOT NULL, body {BLOB} NOT NULL, resource TEXT NOT NULL,"
    "  expires_at_ms BIGINT NOT NULL, PRIMARY KEY (tenant, key))",
    "CREATE INDEX once_expiry ON once (expires_at_ms)",

    "CREATE TABLE usage (worker TEXT NOT NULL REFERENCES worker, seq BIGINT NOT NULL, tenant TEXT NOT NULL REFERENCES tenant,"
    "  model TEXT NOT NULL, hour BIGINT NOT NULL, tokens_in BIGINT NOT NULL CHECK (tokens_in >= 0),"
    "  tokens_out BIGINT NOT NULL CHECK (tokens_out >= 0), PRIMARY KEY (worker, seq))",
    "CREATE INDEX usage_sums ON usage (tenant, hour)",
    "CREATE TABLE charge (epoch BIGINT NOT NULL REFERENCES epoch, command BIGINT NOT NULL, part BIGINT NOT NULL, account TEXT NOT NULL,"
    "  device TEXT NOT NULL, from_ns BIGINT NOT NULL, to_ns BIGINT NOT NULL CHECK (to_ns >= from_ns), nano BIGINT NOT NULL,"
    "  PRIMARY KEY (epoch, command, part))",
    "CREATE INDEX charge_sums ON charge (account)",

    "CREATE TABLE audit (n BIGINT PRIMARY KEY, at_ms BIGINT NOT NULL, tenant TEXT, actor TEXT NOT NULL, act TEXT NOT NULL,"
    "  subject TEXT NOT NULL, salt {BLOB} NOT NULL, leaf {BLOB} NOT NULL, head {BLOB} NOT NULL)",
    "CREATE TABLE deletion (id TEXT PRIMARY KEY, number BIGINT NOT NULL UNIQUE, tenant TEXT NOT NULL REFERENCES tenant,"
    "  root TEXT NOT NULL, state TEXT NOT NULL CHECK (state IN ('asked', 'unlisted', 'drained', 'shredded', 'certified')),"
    "  asked_at_ms BIGINT NOT NULL, certificate TEXT, CHECK ((state = 'certified') = (certificate IS NOT NULL)))",
};

static enum status make_table(struct metadata *metadata, const char *text, struct refusal *refusal)
{
    char sql[4096];
    size_t count = 0;

    for (const char *at = text; *at != '\0';) {
        const bool blob = strncmp(at, "{BLOB}", 6) == 0;
        const char *from = blob ? metadata->driver->blob : at;
        const size_t length = blob ? strlen(from) : 1;

        check(count + length < sizeof(sql));
        memcpy(sql + count, from, length);
        count += length;
        at += blob ? 6 : 1;
    }
    sql[count] = '\0';
    return metadata->driver->execute(metadata->db, sql, refusal);
}

/* Says which server.key a database is of, and nothing else about it. */
static void say_key(const struct metadata *metadata, char ret_text[2 * META_KEY_BYTES + 1])
{
    static const uint8_t what[] = "server.key";
    uint8_t hash[META_KEY_BYTES];

    crypto_generichash(hash, sizeof(hash), what, sizeof(what), metadata->key_key, META_KEY_BYTES);
    sodium_bin2hex(ret_text, 2 * META_KEY_BYTES + 1, hash, sizeof(hash));
}

static enum status make_tables(struct metadata *metadata, struct refusal *refusal)
{
    char version[16];
    char installation[NAME_BYTES];
    char key[2 * META_KEY_BYTES + 1];
    enum status status = STATUS_OK;

    for (size_t i = 0; i < ARRAY_COUNT(tables) && status == STATUS_OK; i++)
        status = make_table(metadata, tables[i], refusal);
    snprintf(version, sizeof(version), "%d", META_SCHEMA_VERSION);
    meta_id("berth-", installation);
    say_key(metadata, key);
    if (status == STATUS_OK)
        status = sql_run(metadata, "INSERT INTO meta VALUES ('schema', $1), ('installation', $2), ('server_key', $3)",
                         VALUES(AS_TEXT(version), AS_TEXT(installation), AS_TEXT(key)), NULL, refusal);
    return status;
}

static enum status check_version(struct metadata *metadata, struct refusal *refusal)
{
    struct refusal why;
    int64_t version;
    enum status status = sql_number(metadata, "SELECT CAST(value AS BIGINT) FROM meta WHERE name = 'schema'", NO_VALUES, &version, &why);

    if (status == STATUS_CORRUPT)
        return refuse(refusal, status, "%s", why.text);
    if (status != STATUS_OK)
        return refuse(refusal, STATUS_CORRUPT, "this database isn't Berth's: it says no schema version (%s)", why.text);
    if (version != META_SCHEMA_VERSION)
        return refuse(refusal, STATUS_INVALID, "the database has schema %lld, this program knows %d: run the program that wrote it",
                      (long long)version, META_SCHEMA_VERSION);
    return STATUS_OK;
}

static enum status check_key(struct metadata *metadata, struct refusal *refusal)
{
    char key[2 * META_KEY_BYTES + 1];
    int64_t same = 0;
    enum status status;

    say_key(metadata, key);
    status = sql_number(metadata, "SELECT COUNT(*) FROM meta WHERE name = 'server_key' AND value = $1", VALUES(AS_TEXT(key)), &same,
                        refusal);
    return status == STATUS_OK && same == 0
               ? refuse(refusal, STATUS_INVALID, "server.key isn't the one that this database was made with: no API key would open; put"
                                                 " the right one back") : status;
}

static enum status check_tables(struct metadata *metadata, struct refusal *refusal)
{
    enum status status = check_version(metadata, refusal);

    return status == STATUS_OK ? check_key(metadata, refusal) : status;
}

enum status schema_check(struct metadata *metadata, bool first, struct refusal *refusal)
{
    int64_t count = 0;
    enum status status;

    if (!first)
        return check_tables(metadata, refusal);
    status = meta_begin(metadata, refusal);
    if (status != STATUS_OK)
        return status;
    status = sql_number(metadata, metadata->driver->tables, NO_VALUES, &count, refusal);
    if (status == STATUS_OK)
        status = count == 0 ? make_tables(metadata, refusal) : check_tables(metadata, refusal);
    return meta_end(metadata, status, refusal);
}
