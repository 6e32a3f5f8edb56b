/* Objects and the files that tenants know them as. An object is what lies in the store: writing, live, doomed, gone. A file is
 * uploaded, then processed or error when a validator has read it, and deleted when its owner says so. */
#ifndef METADATA_FILE_H
#define METADATA_FILE_H

#include "control/metadata/metadata.h"

#define META_OBJECT_FIELDS(X) X(TEXT, id) X(TEXT, tenant) X(TEXT, kind) X(TEXT, key_id) X(INT, bytes) X(TEXT, digest) X(TEXT, state)
struct meta_object {
    META_OBJECT_FIELDS(META_FIELD)
};

/* The id names object and data key in the store and in the vault. */
enum status meta_object_add(struct metadata *metadata, const char *tenant, const char *id, const char *kind, const char *key_id,
                            struct refusal *refusal);
enum status meta_object_get(struct metadata *metadata, const char *tenant, const char *id, struct meta_results *results,
                            struct meta_object *ret_object, struct refusal *refusal);
/* writing to live. */
enum status meta_object_written(struct metadata *metadata, const char *tenant, const char *id, int64_t bytes, const char *digest,
                                struct refusal *refusal);
/* writing or live to doomed; doomed to gone, when the store has it no more. */
enum status meta_object_doom(struct metadata *metadata, const char *tenant, const char *id, struct refusal *refusal);
enum status meta_object_gone(struct metadata *metadata, const char *tenant, const char *id, struct refusal *refusal);
/* Of all tenants, in order of ids: those in this state, for whoever sweeps. `after`: an id, "" at first. */
enum status meta_object_sweep(struct metadata *metadata, const char *state, const char *after, uint32_t limit,
                              struct meta_results *results, struct meta_object **ret_objects, uint32_t *ret_count, bool *ret_more,
                              struct refusal *refusal);

#define META_FILE_FIELDS(X)                                                                                                \
    X(TEXT, id) X(INT, number) X(TEXT, tenant) X(TEXT, object) X(TEXT, purpose) X(TEXT, state) X(INT, lines) X(INT, tokens) \
    X(TEXT, report) X(BLOB, sealed) X(INT, created_at_ms) X(INT, expires_at_ms) X(INT, bytes)
struct meta_file {
    META_FILE_FIELDS(META_FIELD)
};

/* Of a live object. STATUS_FULL: files_max. `id` is meta_id("file-"), drawn before the words were sealed under it. */
enum status meta_file_add(struct metadata *metadata, const char *tenant, const char *id, const char *object, const char *purpose,
                          struct meta_bytes sealed, int64_t expires_at_ms, int64_t now_ms, struct refusal *refusal);
/* Not those that are deleted. */
enum status meta_file_get(struct metadata *metadata, const char *tenant, const char *id, struct meta_results *results,
                          struct meta_file *ret_file, struct refusal *refusal);
/* `purpose`: NULL, any. */
enum status meta_file_list(struct metadata *metadata, const char *tenant, const char *purpose, const struct meta_page *page,
                           struct meta_results *results, struct meta_file **ret_files, uint32_t *ret_count, bool *ret_more,
                           struct refusal *refusal);
/* Of all tenants: uploaded, and nobody reads them; oldest first. */
enum status meta_file_waiting(struct metadata *metadata, uint32_t limit, struct meta_results *results, struct meta_file **ret_files,
                              uint32_t *ret_count, struct refusal *refusal);
/* What a validator found: uploaded to processed or error, once. `report`: a live object, or NULL. */
enum status meta_file_judged(struct metadata *metadata, const char *tenant, const char *id, bool good, int64_t lines, int64_t tokens,
                             const char *report, struct refusal *refusal);
/* Of all tenants: files whose time is over and which no job that isn't finished needs, oldest first. */
enum status meta_file_expired(struct metadata *metadata, int64_t now_ms, uint32_t limit, struct meta_results *results,
                              struct meta_file **ret_files, uint32_t *ret_count, struct refusal *refusal);
/* The file and, in the same transaction, its objects: doomed. Jobs that are not finished hold their files: STATUS_CONFLICT. */
enum status meta_file_delete(struct metadata *metadata, const char *tenant, const char *id, struct refusal *refusal);

#endif
