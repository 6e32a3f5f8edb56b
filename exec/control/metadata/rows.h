/* Rows that more than one file here reads, and the one way a worker's row is made. */
#ifndef METADATA_ROWS_H
#define METADATA_ROWS_H

#include "control/metadata/job.h"
#include "control/metadata/sql.h"

extern const struct row_kind tenant_rows;
extern const struct row_kind base_rows;
extern const struct row_kind job_rows;
extern const struct row_kind worker_rows;

/* STATUS_NOT_FOUND: the tenant has no such job. */
enum status job_find(struct metadata *metadata, const char *tenant, const char *job, struct refusal *refusal);
/* A live row of an attempt; the unique index refuses a second one. */
enum status worker_insert(struct metadata *metadata, const struct meta_worker_new *worker, const char *subject, int64_t attempt,
                          int64_t now_ms, struct refusal *refusal);

#endif
