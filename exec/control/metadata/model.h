/* What answers by a name: bases, models, aliases, in one namespace. A base's id has no colon; a model is "ft:BASE:ORG:SUFFIX:ID"
 * and, for a checkpoint, ":ckpt-step-N" behind; an alias has no colon, belongs to a tenant and points to one of its models. Names
 * are never given again. Only a model whose verdict is deployable may answer; that is for the caller to hold to, whatever name it
 * came by. */
#ifndef METADATA_MODEL_H
#define METADATA_MODEL_H

#include "control/metadata/metadata.h"

#define META_BASE_FIELDS(X) \
    X(TEXT, id) X(INT, number) X(TEXT, digest) X(TEXT, folder) X(TEXT, state) X(INT, created_at_ms) X(INT, retire_at_ms)
struct meta_base {
    META_BASE_FIELDS(META_FIELD)
};
/* STATUS_INVALID: no such name. STATUS_CONFLICT: taken, by a base or by an alias. */
enum status meta_base_add(struct metadata *metadata, const char *id, const char *digest, const char *folder, int64_t now_ms,
                          struct refusal *refusal);
/* serving to deprecated to retired, or straight. */
enum status meta_base_move(struct metadata *metadata, const char *id, const char *from, const char *to, int64_t retire_at_ms,
                           struct refusal *refusal);
enum status meta_base_get(struct metadata *metadata, const char *id, struct meta_results *results, struct meta_base *ret_base,
                          struct refusal *refusal);
/* Oldest first; `after`: a number, 0 at first. */
enum status meta_base_list(struct metadata *metadata, int64_t after, uint32_t limit, struct meta_results *results,
                           struct meta_base **ret_bases, uint32_t *ret_count, bool *ret_more, struct refusal *refusal);

#define META_MODEL_FIELDS(X)                                                                                                   \
    X(TEXT, id) X(INT, number) X(TEXT, name) X(TEXT, tenant) X(TEXT, job) X(INT, step) X(TEXT, parent) X(TEXT, base)           \
    X(TEXT, base_digest) X(TEXT, object) X(TEXT, digest) X(INT, rank) X(INT, bytes) X(TEXT, lineage) X(TEXT, report)           \
    X(TEXT, verdict) X(TEXT, state) X(INT, created_at_ms)
struct meta_model {
    META_MODEL_FIELDS(META_FIELD)
};
struct meta_model_new {
    const char *tenant;
    const char *id;     /* meta_id("model-"), or what stands at the end of the name */
    const char *suffix; /* slug, or "" */
    const char *job;    /* or NULL */
    int64_t step;       /* of a checkpoint; META_NONE */
    const char *parent; /* a model, or NULL */
    const char *base;
    const char *object; /* live */
    const char *digest;
    int64_t rank;
    int64_t bytes;
    const char *lineage; /* JSON */
};
#define META_MODEL_NAME_BYTES 256
/* Live, verdict pending_eval. A model's checkpoints carry its id at their names' end, so `id` is the model's there and the row
 * gets one of its own. */
enum status meta_model_add(struct metadata *metadata, const struct meta_model_new *model, int64_t now_ms,
                           char ret_name[META_MODEL_NAME_BYTES], struct refusal *refusal);
enum status meta_model_get(struct metadata *metadata, const char *tenant, const char *id, struct meta_results *results,
                           struct meta_model *ret_model, struct refusal *refusal);
/* Live ones. */
enum status meta_model_list(struct metadata *metadata, const char *tenant, const struct meta_page *page, struct meta_results *results,
                            struct meta_model **ret_models, uint32_t *ret_count, bool *ret_more, struct refusal *refusal);
/* What a job made, live: its result first, then checkpoints from the newest; `before`: a step, META_NONE at first. STATUS_NOT_FOUND: no such
 * job. */
enum status meta_model_of_job(struct metadata *metadata, const char *tenant, const char *job, int64_t before, uint32_t limit,
                              struct meta_results *results, struct meta_model **ret_models, uint32_t *ret_count, bool *ret_more,
                              struct refusal *refusal);
/* From one verdict to another. `report`: an object, or NULL to keep what is there. */
enum status meta_model_judge(struct metadata *metadata, const char *tenant, const char *id, const char *from, const char *to,
                             const char *report, struct refusal *refusal);
/* A job's checkpoints but the newest `count`: doomed, as below. */
enum status meta_model_prune(struct metadata *metadata, const char *tenant, const char *job, uint32_t count, struct refusal *refusal);
/* live to doomed, with its object and the aliases that point to it; doomed to gone when nothing holds it any more. */
enum status meta_model_doom(struct metadata *metadata, const char *tenant, const char *id, struct refusal *refusal);
enum status meta_model_gone(struct metadata *metadata, const char *tenant, const char *id, struct refusal *refusal);

/* What a base or an alias may be called. */
bool meta_name_is_plain(const char *name);

/* The first generation is 1; each time it is pointed elsewhere, or anew after a delete, one more. */
enum status meta_alias_set(struct metadata *metadata, const char *tenant, const char *name, const char *model, int64_t *ret_generation,
                           struct refusal *refusal);
enum status meta_alias_delete(struct metadata *metadata, const char *tenant, const char *name, struct refusal *refusal);
/* Those that point to a live model, by name; `after`: a name, "" at first. */
#define META_ALIAS_FIELDS(X) X(TEXT, name) X(TEXT, model) X(TEXT, model_name) X(TEXT, verdict) X(INT, generation) X(INT, created_at_ms)
struct meta_alias {
    META_ALIAS_FIELDS(META_FIELD)
};
enum status meta_alias_list(struct metadata *metadata, const char *tenant, const char *after, uint32_t limit, struct meta_results *results,
                            struct meta_alias **ret_aliases, uint32_t *ret_count, bool *ret_more, struct refusal *refusal);

/* What a name means to a tenant: a base that isn't retired (`ret_model->id` NULL, `ret_model->base` its id), or a live model of the
 * tenant's, by its name or an alias. One query whatever it is. */
enum status meta_name_resolve(struct metadata *metadata, const char *tenant, const char *name, struct meta_results *results,
                              struct meta_model *ret_model, struct refusal *refusal);

#endif
