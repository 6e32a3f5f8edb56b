/* PostgreSQL, through libpq. `place` is its connection string; who may read the tables is the server's to hold. Numbers and texts
 * go as text, bytes as bytes; what comes back is text. */
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>

#include "control/metadata/db.h"

#define VALUES_MAX 24
#define OID_BYTEA 17
#define OID_INT2 21
#define OID_INT4 23
#define OID_INT8 20

struct db {
    PGconn *connection;
    uint32_t queries; /* so far, for their names */
};

struct db_query {
    struct db *db;
    char name[16];
    int count; /* of values given */
    const char *values[VALUES_MAX];
    int lengths[VALUES_MAX];
    int formats[VALUES_MAX];
    char numbers[VALUES_MAX][24];
    PGresult *result; /* NULL: not run yet */
    int row;
    unsigned char *bytes; /* of the column last read */
};

/* Its messages may quote values; what is said is the rule's name, or the code. */
static enum status refused(const PGconn *connection, const PGresult *result, struct refusal *refusal)
{
    const char *state = result != NULL ? PQresultErrorField(result, PG_DIAG_SQLSTATE) : NULL;
    const char *rule = result != NULL ? PQresultErrorField(result, PG_DIAG_CONSTRAINT_NAME) : NULL;

    if (state == NULL)
        return refuse(refusal, STATUS_IO, "the database: %.*s", (int)strcspn(PQerrorMessage(connection), "\n"), PQerrorMessage(connection));
    if (strcmp(state, "23505") == 0)
        return refuse(refusal, STATUS_CONFLICT, "the database: %s is taken", rule != NULL ? rule : "that");
    if (strncmp(state, "23", 2) == 0 || strncmp(state, "22", 2) == 0)
        return refuse(refusal, STATUS_INVALID, "the database: %s does not hold", rule != NULL ? rule : "a rule");
    if (strncmp(state, "XX", 2) == 0)
        return refuse(refusal, STATUS_CORRUPT, "the database: code %s; its log says more", state);
    if (strcmp(state, "55P03") == 0)
        return refuse(refusal, STATUS_IO, "the database: another process held it for more than 5 s");
    if (strcmp(state, "53100") == 0)
        return refuse(refusal, STATUS_IO, "the database: the disk is full; nothing of this was kept");
    return refuse(refusal, STATUS_IO, "the database: code %s; its log says more", state);
}

static void hear_no_notice(void *context, const PGresult *notice)
{
    (void)context;
    (void)notice;
}

static void postgres_close(struct db *db)
{
    if (db == NULL)
        return;
    PQfinish(db->connection);
    free(db);
}

static enum status postgres_execute(struct db *db, const char *sql, struct refusal *refusal)
{
    PGresult *result = PQexec(db->connection, sql);
    enum status status = STATUS_OK;

    if (PQresultStatus(result) != PGRES_COMMAND_OK && PQresultStatus(result) != PGRES_TUPLES_OK)
        status = refused(db->connection, result, refusal);
    PQclear(result);
    return status;
}

/* One control plane at a time; the lock goes with its connection. */
static enum status set_up(struct db *db, bool first, struct refusal *refusal)
{
    enum status status;

    PQsetNoticeReceiver(db->connection, hear_no_notice, NULL);
    status = postgres_execute(db, "SET lock_timeout = '5s'; SET synchronous_commit = on", refusal);
    if (status == STATUS_OK && first)
        status = postgres_execute(db, "SELECT pg_advisory_lock(hashtext('berth ' || current_schema()))", refusal);
    return status;
}

static enum status postgres_open(const char *place, bool first, struct db **ret_db, struct refusal *refusal)
{
    struct db *db = calloc(1, sizeof(*db));
    enum status status;

    if (db == NULL)
        return refuse(refusal, STATUS_IO, "the database: no memory");
    db->connection = PQconnectdb(place);
    status = PQstatus(db->connection) == CONNECTION_OK ? set_up(db, first, refusal) : refused(db->connection, NULL, refusal);
    if (status != STATUS_OK) {
        postgres_close(db);
        return status;
    }
    *ret_db = db;
    return STATUS_OK;
}

static enum status postgres_prepare(struct db *db, const char *sql, struct db_query **ret_query, struct refusal *refusal)
{
    struct db_query *query = calloc(1, sizeof(*query));
    enum status status = STATUS_OK;
    PGresult *result;

    if (query == NULL)
        return refuse(refusal, STATUS_IO, "the database: no memory");
    query->db = db;
    snprintf(query->name, sizeof(query->name), "q%u", db->queries++);
    result = PQprepare(db->connection, query->name, sql, 0, NULL);
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        status = refused(db->connection, result, refusal);
    PQclear(result);
    if (status != STATUS_OK) {
        free(query);
        return status;
    }
    *ret_query = query;
    return STATUS_OK;
}

static enum status postgres_bind(struct db_query *query, uint32_t number, const struct value *value, struct refusal *refusal)
{
    const uint32_t i = number - 1;

    (void)refusal;
    check(number >= 1 && number <= VALUES_MAX && query->result == NULL);
    query->count = (int)max_u32((uint32_t)query->count, number);
    query->lengths[i] = (int)value->count;
    query->formats[i] = value->kind == VALUE_BLOB;
    query->values[i] = NULL;
    if (value->kind == VALUE_INT) {
        snprintf(query->numbers[i], sizeof(query->numbers[i]), "%lld", (long long)value->number);
        query->values[i] = query->numbers[i];
    } else if (value->kind != VALUE_NULL) {
        query->values[i] = value->count > 0 ? value->bytes : "";
    }
    return STATUS_OK;
}

static enum status postgres_step(struct db_query *query, struct refusal *refusal)
{
    ExecStatusType code;

    if (query->result == NULL) {
        query->result = PQexecPrepared(query->db->connection, query->name, query->count, query->values, query->lengths, query->formats, 0);
        query->row = -1;
    }
    code = PQresultStatus(query->result);
    if (code != PGRES_COMMAND_OK && code != PGRES_TUPLES_OK)
        return refused(query->db->connection, query->result, refusal);
    return ++query->row < PQntuples(query->result) ? STATUS_OK : STATUS_END;
}

static struct value postgres_column(struct db_query *query, uint32_t column)
{
    const int index = (int)column;
    const char *text = PQgetvalue(query->result, query->row, index);
    size_t count;

    if (PQgetisnull(query->result, query->row, index))
        return (struct value){.kind = VALUE_NULL};
    switch (PQftype(query->result, index)) {
    case OID_INT2:
    case OID_INT4:
    case OID_INT8:
        return (struct value){.kind = VALUE_INT, .number = strtoll(text, NULL, 10)};
    case OID_BYTEA:
        PQfreemem(query->bytes);
        query->bytes = PQunescapeBytea((const unsigned char *)text, &count);
        check(query->bytes != NULL);
        return (struct value){.kind = VALUE_BLOB, .bytes = query->bytes, .count = count};
    default:
        return (struct value){.kind = VALUE_TEXT, .bytes = text, .count = (size_t)PQgetlength(query->result, query->row, index)};
    }
}

static int64_t postgres_changes(struct db_query *query)
{
    return PQresultStatus(query->result) == PGRES_COMMAND_OK ? strtoll(PQcmdTuples(query->result), NULL, 10) : 0;
}

static void postgres_reset(struct db_query *query)
{
    PQclear(query->result);
    PQfreemem(query->bytes);
    query->result = NULL;
    query->bytes = NULL;
    query->count = 0;
}

static void postgres_finish(struct db_query *query)
{
    postgres_reset(query);
    free(query);
}

const struct db_driver db_postgres = {
    .name = "postgres",
    .blob = "BYTEA",
    .begin = "BEGIN",
    .tables = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = current_schema()",
    .open = postgres_open,
    .close = postgres_close,
    .execute = postgres_execute,
    .prepare = postgres_prepare,
    .bind = postgres_bind,
    .step = postgres_step,
    .column = postgres_column,
    .changes = postgres_changes,
    .reset = postgres_reset,
    .finish = postgres_finish,
};
