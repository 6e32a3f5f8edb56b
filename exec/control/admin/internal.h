/* What the operations of administration share. ops.c: tenants and keys, and how one is done. rows.c: jobs, models, usage, the audit log. */
#ifndef ADMIN_INTERNAL_H
#define ADMIN_INTERNAL_H

#include <jansson.h>

#include "control/metadata/metadata.h"

#define ROWS 50 /* of one answer */

struct asked {
    const json_t *request;
    json_t *answer;
    char actor[32];        /* "local:UID" */
    const char *tenant;    /* a slug, or NULL */
    char tenant_id[NAME_BYTES]; /* "": none */
    char subject[NAME_BYTES];   /* what the log names */
    int64_t now_ms;
    bool tenant_changed;
    bool is_notice;
    uint32_t notice_devices;
    uint32_t notice_within_ms;
};

typedef enum status op(struct metadata *metadata, struct asked *asked, struct refusal *refusal);

/* STATUS_INVALID: it is missing, or no text. */
enum status admin_need_text(const struct asked *asked, const char *name, const char **ret_text, struct refusal *refusal);
/* `otherwise` where it isn't given. */
enum status admin_take_number(const struct asked *asked, const char *name, int64_t otherwise, int64_t *ret_number, struct refusal *refusal);
/* The tenant's id, by its slug. */
enum status admin_find_tenant(struct metadata *metadata, struct asked *asked, struct refusal *refusal);
void admin_number(json_t *object, const char *name, int64_t number);
void admin_text(json_t *object, const char *name, const char *text);
/* The list, and whether there is more. */
void admin_rows(struct asked *asked, const char *name, json_t *rows, bool more);

/* --- rows.c ---- */
op admin_job_list, admin_job_show, admin_job_cancel, admin_model_list, admin_model_judge, admin_alias_set, admin_alias_delete,
    admin_alias_list, admin_usage_list, admin_audit_list;

#endif
