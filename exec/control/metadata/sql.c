/* Queries are prepared once a connection and found again by their text's address; rows are read by lists of fields. */
#include <stdlib.h>

#include "control/metadata/sql.h"

#define BLOCK_BYTES 16384
#define RESULTS_BYTES_MAX (16u << 20)

/* --- memory of results ------------------------------------------------------------------------------------------------------ */

struct meta_block {
    struct meta_block *next;
    size_t left;
    _Alignas(max_align_t) uint8_t bytes[];
};

void *results_take(struct meta_results *results, size_t bytes)
{
    const size_t size = (bytes + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
    struct meta_block *block = results->blocks;

    if (block == NULL || block->left < size) {
        const size_t room = max_u64(size, BLOCK_BYTES);

        if (results->used_bytes + room > RESULTS_BYTES_MAX)
            return NULL;
        block = calloc(1, sizeof(*block) + room);
        if (block == NULL)
            return NULL;
        block->left = room;
        block->next = results->blocks;
        results->blocks = block;
        results->used_bytes += room;
    }
    block->left -= size;
    return block->bytes + block->left;
}

void meta_results_free(struct meta_results *results)
{
    while (results->blocks != NULL) {
        struct meta_block *block = results->blocks;

        results->blocks = block->next;
        free(block);
    }
    results->used_bytes = 0;
}

/* --- queries ---------------------------------------------------------------------------------------------------------------- */

static enum status query_of(struct metadata *metadata, const char *sql, struct db_query **ret_query, struct refusal *refusal)
{
    uint32_t at = (uint32_t)(((uintptr_t)sql >> 3) * UINT64_C(0x9e3779b97f4a7c15) >> 40) % QUERIES_MAX;
    enum status status = STATUS_OK;
    uint32_t tries = 0;

    while (metadata->queries[at].sql != sql && metadata->queries[at].sql != NULL) {
        check(++tries < QUERIES_MAX);
        at = (at + 1) % QUERIES_MAX;
    }
    if (metadata->queries[at].sql == NULL)
        status = metadata->driver->prepare(metadata->db, sql, &metadata->queries[at].query, refusal);
    if (status != STATUS_OK)
        return status;
    metadata->queries[at].sql = sql;
    *ret_query = metadata->queries[at].query;
    return STATUS_OK;
}

static struct value given(const struct value *value)
{
    struct value given = *value;

    if (given.kind == VALUE_TEXT && given.bytes != NULL)
        given.count = strlen(given.bytes);
    if ((given.kind == VALUE_INT && given.number == META_NONE) || (given.kind != VALUE_INT && given.bytes == NULL))
        given.kind = VALUE_NULL;
    return given;
}

/* A full disk ends a transaction in the middle; what came after would be kept on its own. */
static enum status step_query(struct metadata *metadata, struct db_query *query, struct refusal *refusal)
{
    enum status status = metadata->driver->step(query, refusal);

    if (metadata->depth > 0 && (status == STATUS_IO || status == STATUS_CORRUPT))
        metadata->lost = true;
    return status;
}

static enum status begin_query(struct metadata *metadata, const char *sql, const struct value *values, uint32_t count,
                               struct db_query **ret_query, struct refusal *refusal)
{
    enum status status;

    if (metadata->lost)
        return refuse(refusal, STATUS_IO, "the disk refused a part of this transaction; nothing of it is kept");
    status = query_of(metadata, sql, ret_query, refusal);
    for (uint32_t i = 0; i < count && status == STATUS_OK; i++) {
        const struct value value = given(&values[i]);

        if (value.kind != VALUE_NULL && value.kind != VALUE_INT && value.count > META_VALUE_BYTES_MAX)
            status = refuse(refusal, STATUS_INVALID, "a value of %zu bytes; a row takes %u", value.count, META_VALUE_BYTES_MAX);
        else
            status = metadata->driver->bind(*ret_query, i + 1, &value, refusal);
        if (status != STATUS_OK)
            metadata->driver->reset(*ret_query);
    }
    return status;
}

enum status sql_run(struct metadata *metadata, const char *sql, const struct value *values, uint32_t values_count,
                    int64_t *ret_changes, struct refusal *refusal)
{
    struct db_query *query;
    enum status status = begin_query(metadata, sql, values, values_count, &query, refusal);

    if (status != STATUS_OK)
        return status;
    while ((status = step_query(metadata, query, refusal)) == STATUS_OK)
        continue;
    if (status == STATUS_END) {
        status = STATUS_OK;
        if (ret_changes != NULL)
            *ret_changes = metadata->driver->changes(query);
    }
    metadata->driver->reset(query);
    return status;
}

enum status sql_change(struct metadata *metadata, const char *sql, const struct value *values, uint32_t values_count,
                       enum status otherwise, const char *complaint, struct refusal *refusal)
{
    int64_t changes = 0;
    enum status status = sql_run(metadata, sql, values, values_count, &changes, refusal);

    if (status != STATUS_OK || changes == 1)
        return status;
    check(changes == 0);
    return refuse(refusal, otherwise, "%s", complaint);
}

enum status sql_number(struct metadata *metadata, const char *sql, const struct value *values, uint32_t values_count,
                       int64_t *ret_number, struct refusal *refusal)
{
    struct db_query *query;
    enum status status = begin_query(metadata, sql, values, values_count, &query, refusal);

    if (status != STATUS_OK)
        return status;
    status = step_query(metadata, query, refusal);
    if (status == STATUS_OK) {
        const struct value value = metadata->driver->column(query, 0);

        if (value.kind == VALUE_INT)
            *ret_number = value.number;
        else
            status = STATUS_END;
    }
    metadata->driver->reset(query);
    return status == STATUS_END ? refuse(refusal, STATUS_NOT_FOUND, "no such row") : status;
}

/* --- rows ------------------------------------------------------------------------------------------------------------------- */

static const void *copied(struct meta_results *results, const struct value *value)
{
    char *copy = results_take(results, value->count + 1);

    if (copy == NULL)
        return NULL;
    if (value->count > 0)
        memcpy(copy, value->bytes, value->count);
    copy[value->count] = '\0';
    return copy;
}

/* False: no memory, or more than results hold. */
static bool read_row(struct metadata *metadata, struct db_query *query, const struct row_kind *kind, struct meta_results *results,
                     void *ret_row)
{
    for (uint32_t i = 0; i < kind->fields_count; i++) {
        const struct value value = metadata->driver->column(query, i);
        uint8_t *at = (uint8_t *)ret_row + kind->fields[i].offset;
        const void *copy = NULL;

        if (kind->fields[i].kind == VALUE_INT) {
            const int64_t number = value.kind == VALUE_INT ? value.number : META_NONE;

            memcpy(at, &number, sizeof(number));
            continue;
        }
        if (value.kind != VALUE_NULL && (copy = copied(results, &value)) == NULL)
            return false;
        if (kind->fields[i].kind == VALUE_BLOB)
            memcpy(at, &(struct meta_bytes){.bytes = copy, .count = copy != NULL ? value.count : 0}, sizeof(struct meta_bytes));
        else
            memcpy(at, &copy, sizeof(copy));
    }
    return true;
}

static enum status too_much(struct refusal *refusal)
{
    return refuse(refusal, STATUS_FULL, "an answer of more than %u MiB, or no memory for it", RESULTS_BYTES_MAX >> 20);
}

enum status sql_row(struct metadata *metadata, const char *sql, const struct value *values, uint32_t values_count,
                    const struct row_kind *kind, struct meta_results *results, void *ret_row, struct refusal *refusal)
{
    struct db_query *query;
    enum status status = begin_query(metadata, sql, values, values_count, &query, refusal);

    if (status != STATUS_OK)
        return status;
    status = step_query(metadata, query, refusal);
    if (status == STATUS_OK && !read_row(metadata, query, kind, results, ret_row))
        status = too_much(refusal);
    metadata->driver->reset(query);
    return status == STATUS_END ? refuse(refusal, STATUS_NOT_FOUND, "no such %s", kind->noun) : status;
}

enum status sql_rows(struct metadata *metadata, const char *sql, const struct value *values, uint32_t values_count,
                     const struct row_kind *kind, uint32_t limit, struct meta_results *results, void *ret_rows, uint32_t *ret_count,
                     bool *ret_more, struct refusal *refusal)
{
    uint8_t *rows = results_take(results, kind->bytes * limit);
    uint32_t count = 0;
    struct db_query *query;
    enum status status;

    if (rows == NULL)
        return too_much(refusal);
    status = begin_query(metadata, sql, values, values_count, &query, refusal);
    if (status != STATUS_OK)
        return status;
    while ((status = step_query(metadata, query, refusal)) == STATUS_OK && count < limit) {
        if (!read_row(metadata, query, kind, results, rows + kind->bytes * count++)) {
            status = too_much(refusal);
            break;
        }
    }
    metadata->driver->reset(query);
    if (status != STATUS_OK && status != STATUS_END)
        return status;
    memcpy(ret_rows, &rows, sizeof(rows));
    *ret_count = count;
    if (ret_more != NULL)
        *ret_more = status == STATUS_OK;
    return STATUS_OK;
}

enum status sql_each(struct metadata *metadata, const char *sql, const struct value *values, uint32_t values_count,
                     const struct row_kind *kind, row_visit *visit, void *context, struct refusal *refusal)
{
    struct meta_results results = {0};
    _Alignas(max_align_t) uint8_t row[512];
    struct db_query *query;
    enum status status = begin_query(metadata, sql, values, values_count, &query, refusal);

    check(kind->bytes <= sizeof(row));
    if (status != STATUS_OK)
        return status;
    while ((status = step_query(metadata, query, refusal)) == STATUS_OK) {
        const bool read = read_row(metadata, query, kind, &results, row);
        const bool more = read && visit(context, row);

        meta_results_free(&results);
        if (!more) {
            status = read ? STATUS_END : too_much(refusal);
            break;
        }
    }
    metadata->driver->reset(query);
    return status == STATUS_END ? STATUS_OK : status;
}

enum status sql_page(struct metadata *metadata, const struct page_sql *sql, const char *tenant, const struct meta_page *page,
                     const struct value *further, const struct row_kind *kind, struct meta_results *results, void *ret_rows,
                     uint32_t *ret_count, bool *ret_more, struct refusal *refusal)
{
    int64_t number = page->oldest_first ? 0 : INT64_MAX;
    enum status status = STATUS_OK;

    if (page->limit < 1 || page->limit > META_PAGE_MAX)
        return refuse(refusal, STATUS_INVALID, "a page has 1 to %d rows", META_PAGE_MAX);
    if (page->after != NULL)
        status = sql_number(metadata, sql->find, VALUES(AS_TEXT(tenant), AS_TEXT(page->after)), &number, refusal);
    /* What follows an unknown row: nothing, found by the same query. */
    if (status == STATUS_NOT_FOUND)
        number = page->oldest_first ? INT64_MAX : 0;
    else if (status != STATUS_OK)
        return status;
    if (further != NULL)
        return sql_rows(metadata, page->oldest_first ? sql->oldest_first : sql->newest_first,
                        VALUES(AS_TEXT(tenant), AS_INT(number), AS_INT(page->limit + 1), *further), kind, page->limit, results,
                        ret_rows, ret_count, ret_more, refusal);
    return sql_rows(metadata, page->oldest_first ? sql->oldest_first : sql->newest_first,
                    VALUES(AS_TEXT(tenant), AS_INT(number), AS_INT(page->limit + 1)), kind, page->limit, results, ret_rows, ret_count,
                    ret_more, refusal);
}
