#include "control/admin/ops.h"

#include <time.h>

#include "control/admin/internal.h"
#include "control/metadata/audit.h"
#include "control/metadata/key.h"
#include "control/metadata/tenant.h"

/* --- what is asked ---------------------------------------------------------------------------------------------------------- */

enum status admin_need_text(const struct asked *asked, const char *name, const char **ret_text, struct refusal *refusal)
{
    const json_t *value = json_object_get(asked->request, name);

    if (!json_is_string(value))
        return refuse(refusal, STATUS_INVALID, "\"%s\" is missing, or isn't a text", name);
    *ret_text = json_string_value(value);
    return STATUS_OK;
}

enum status admin_take_number(const struct asked *asked, const char *name, int64_t otherwise, int64_t *ret_number, struct refusal *refusal)
{
    const json_t *value = json_object_get(asked->request, name);

    if (value != NULL && !json_is_integer(value))
        return refuse(refusal, STATUS_INVALID, "\"%s\" is a whole number", name);
    *ret_number = value != NULL ? json_integer_value(value) : otherwise;
    return STATUS_OK;
}

enum status admin_find_tenant(struct metadata *metadata, struct asked *asked, struct refusal *refusal)
{
    struct meta_results results = {0};
    struct meta_tenant tenant;
    enum status status = admin_need_text(asked, "tenant", &asked->tenant, refusal);

    if (status == STATUS_OK)
        status = meta_tenant_find(metadata, asked->tenant, &results, &tenant, refusal);
    if (status == STATUS_OK) {
        snprintf(asked->tenant_id, NAME_BYTES, "%s", tenant.id);
        snprintf(asked->subject, NAME_BYTES, "%s", tenant.id);
    }
    meta_results_free(&results);
    return status;
}

/* Keys may be the platform's. */
static enum status find_holder(struct metadata *metadata, struct asked *asked, struct refusal *refusal)
{
    return json_object_get(asked->request, "tenant") != NULL ? admin_find_tenant(metadata, asked, refusal) : STATUS_OK;
}

static const char *holder(const struct asked *asked)
{
    return asked->tenant_id[0] != '\0' ? asked->tenant_id : NULL;
}

void admin_number(json_t *object, const char *name, int64_t number)
{
    (void)json_object_set_new(object, name, number == META_NONE ? json_null() : json_integer(number));
}

void admin_text(json_t *object, const char *name, const char *text)
{
    (void)json_object_set_new(object, name, text != NULL ? json_string(text) : json_null());
}

void admin_rows(struct asked *asked, const char *name, json_t *rows, bool more)
{
    (void)json_object_set_new(asked->answer, name, rows);
    (void)json_object_set_new(asked->answer, "more", json_boolean(more));
}

/* --- tenants ---------------------------------------------------------------------------------------------------------------- */

static enum status tenant_add(struct metadata *metadata, struct asked *asked, struct refusal *refusal)
{
    const char *slug = NULL;
    enum status status = admin_need_text(asked, "tenant", &slug, refusal);

    if (status == STATUS_OK)
        status = meta_tenant_add(metadata, slug, asked->now_ms, asked->tenant_id, refusal);
    if (status != STATUS_OK)
        return status;
    memcpy(asked->subject, asked->tenant_id, NAME_BYTES);
    admin_text(asked->answer, "id", asked->tenant_id);
    admin_text(asked->answer, "tenant", slug);
    return STATUS_OK;
}

static json_t *tenant_json(const struct meta_tenant *tenant)
{
    json_t *object = json_object();

#define TEXT(name) admin_text(object, #name, tenant->name);
#define INT(name) admin_number(object, #name, tenant->name);
#define X(kind, name) kind(name)
    META_TENANT_FIELDS(X)
#undef X
#undef INT
#undef TEXT
    return object;
}

static enum status tenant_list(struct metadata *metadata, struct asked *asked, struct refusal *refusal)
{
    struct meta_results results = {0};
    struct meta_tenant *tenants = NULL;
    json_t *list = json_array();
    uint32_t count = 0;
    bool more = false;
    int64_t after = 0;
    enum status status = admin_take_number(asked, "after", 0, &after, refusal);

    if (status == STATUS_OK)
        status = meta_tenant_list(metadata, after, ROWS, &results, &tenants, &count, &more, refusal);
    for (uint32_t i = 0; i < count; i++)
        (void)json_array_append_new(list, tenant_json(&tenants[i]));
    admin_rows(asked, "tenants", list, more);
    meta_results_free(&results);
    return status;
}

static enum status tenant_set(struct metadata *metadata, struct asked *asked, struct refusal *refusal)
{
    json_t *settings = json_object_get(asked->request, "settings");
    enum status status = admin_find_tenant(metadata, asked, refusal);
    const char *name;
    json_t *value;

    if (status == STATUS_OK && (!json_is_object(settings) || json_object_size(settings) == 0))
        return refuse(refusal, STATUS_INVALID, "\"settings\" is an object with at least one setting, a text each");
    json_object_foreach(settings, name, value) {
        if (status == STATUS_OK && !json_is_string(value))
            status = refuse(refusal, STATUS_INVALID, "a setting's value is a text");
        if (status == STATUS_OK)
            status = meta_tenant_set(metadata, asked->tenant_id, name, json_string_value(value), refusal);
    }
    asked->tenant_changed = true;
    return status;
}

static enum status tenant_move(struct metadata *metadata, struct asked *asked, const char *from, const char *to, struct refusal *refusal)
{
    enum status status = admin_find_tenant(metadata, asked, refusal);

    asked->tenant_changed = true;
    return status == STATUS_OK ? meta_tenant_move(metadata, asked->tenant_id, from, to, refusal) : status;
}

static enum status tenant_suspend(struct metadata *metadata, struct asked *asked, struct refusal *refusal)
{
    return tenant_move(metadata, asked, "active", "suspended", refusal);
}

static enum status tenant_resume(struct metadata *metadata, struct asked *asked, struct refusal *refusal)
{
    return tenant_move(metadata, asked, "suspended", "active", refusal);
}

/* --- keys ------------------------------------------------------------------------------------------------------------------- */

static enum status key_add(struct metadata *metadata, struct asked *asked, struct refusal *refusal)
{
    char text[META_KEY_TEXT_BYTES];
    char id[NAME_BYTES];
    int64_t expires_at_ms = META_NONE;
    const char *role = NULL;
    enum status status = find_holder(metadata, asked, refusal);

    if (status == STATUS_OK)
        status = admin_need_text(asked, "role", &role, refusal);
    if (status == STATUS_OK)
        status = admin_take_number(asked, "expires_at_ms", META_NONE, &expires_at_ms, refusal);
    if (status == STATUS_OK && expires_at_ms != META_NONE && expires_at_ms <= asked->now_ms)
        status = refuse(refusal, STATUS_INVALID, "the key would have expired already");
    if (status == STATUS_OK)
        status = meta_key_add(metadata, holder(asked), role, expires_at_ms, asked->now_ms, text, id, refusal);
    if (status != STATUS_OK)
        return status;
    snprintf(asked->subject, NAME_BYTES, "%s", id);
    admin_text(asked->answer, "id", id);
    admin_text(asked->answer, "key", text);
    return STATUS_OK;
}

static json_t *key_json(const struct meta_key *key)
{
    json_t *object = json_object();

    admin_text(object, "id", key->id);
    admin_text(object, "role", key->role);
    admin_number(object, "number", key->number);
    admin_number(object, "created_at_ms", key->created_at_ms);
    admin_number(object, "expires_at_ms", key->expires_at_ms);
    admin_number(object, "revoked_at_ms", key->revoked_at_ms);
    return object;
}

static enum status key_list(struct metadata *metadata, struct asked *asked, struct refusal *refusal)
{
    struct meta_results results = {0};
    struct meta_key *keys = NULL;
    json_t *list = json_array();
    uint32_t count = 0;
    bool more = false;
    int64_t after = 0;
    enum status status = find_holder(metadata, asked, refusal);

    if (status == STATUS_OK)
        status = admin_take_number(asked, "after", 0, &after, refusal);
    if (status == STATUS_OK)
        status = meta_key_list(metadata, holder(asked), after, ROWS, &results, &keys, &count, &more, refusal);
    for (uint32_t i = 0; i < count; i++)
        (void)json_array_append_new(list, key_json(&keys[i]));
    admin_rows(asked, "keys", list, more);
    meta_results_free(&results);
    return status;
}

static enum status key_revoke(struct metadata *metadata, struct asked *asked, struct refusal *refusal)
{
    const char *key = NULL;
    enum status status = find_holder(metadata, asked, refusal);

    if (status == STATUS_OK)
        status = admin_need_text(asked, "key", &key, refusal);
    if (status == STATUS_OK)
        status = meta_key_revoke(metadata, holder(asked), key, asked->now_ms, refusal);
    if (status == STATUS_OK)
        snprintf(asked->subject, NAME_BYTES, "%s", key);
    return status;
}

/* --- devices ---------------------------------------------------------------------------------------------------------------- */

static enum status node_notice(struct metadata *metadata, struct asked *asked, struct refusal *refusal)
{
    int64_t devices = 0;
    int64_t within_ms = 0;
    enum status status = admin_take_number(asked, "devices", -1, &devices, refusal);

    (void)metadata;
    if (status == STATUS_OK)
        status = admin_take_number(asked, "within_ms", 0, &within_ms, refusal);
    if (status == STATUS_OK && (devices < 0 || devices > 16 || within_ms < 0 || within_ms > 86400 * 1000))
        return refuse(refusal, STATUS_INVALID, "devices: 0 to 16, of which 0 calls a notice off; within_ms: a day at most");
    if (status != STATUS_OK)
        return status;
    asked->is_notice = true;
    asked->notice_devices = (uint32_t)devices;
    asked->notice_within_ms = (uint32_t)within_ms;
    snprintf(asked->subject, NAME_BYTES, "devices-%d", (int)devices);
    return STATUS_OK;
}

/* --- doing it --------------------------------------------------------------------------------------------------------------- */

#define OPS(X)                                                                                                   \
    X("tenant.add", tenant_add, true) X("tenant.list", tenant_list, false) X("tenant.set", tenant_set, true)      \
    X("tenant.suspend", tenant_suspend, true) X("tenant.resume", tenant_resume, true)                            \
    X("key.add", key_add, true) X("key.list", key_list, false) X("key.revoke", key_revoke, true) \
    X("job.list", admin_job_list, false) X("job.show", admin_job_show, false) X("job.cancel", admin_job_cancel, false)             \
    X("model.list", admin_model_list, false) X("model.judge", admin_model_judge, true) X("usage.list", admin_usage_list, false)    \
    X("alias.set", admin_alias_set, true) X("alias.delete", admin_alias_delete, true) X("alias.list", admin_alias_list, false)      \
    X("audit.list", admin_audit_list, false) X("node.notice", node_notice, true)
static const struct op_row {
    const char *name;
    op *run;
    bool changes; /* and is in the audit log for that; job.cancel says so itself */
} ops[] = {
#define X(name, run, changes) {name, run, changes},
    OPS(X)
#undef X
};

struct act {
    const struct op_row *row;
    struct asked asked;
};

static enum status run_act(struct metadata *metadata, void *context, struct refusal *refusal)
{
    struct act *act = context;
    enum status status = act->row->run(metadata, &act->asked, refusal);

    if (status == STATUS_OK && act->row->changes)
        status = meta_audit_add(metadata, holder(&act->asked), act->asked.actor, act->row->name, act->asked.subject, act->asked.now_ms,
                                refusal);
    return status;
}

static const char *code_of(enum status status)
{
    static const char *const codes[] = {
#define X(name, text) [STATUS_##name] = #name,
        STATUS_LIST(X)
#undef X
    };

    return codes[status];
}

json_t *admin_error(enum status status, const char *text)
{
    return json_pack("{s:s, s:s}", "error", text, "code", code_of(status));
}

static const struct op_row *find_op(const json_t *request)
{
    const char *name = json_string_value(json_object_get(request, "op"));

    for (size_t i = 0; name != NULL && i < ARRAY_COUNT(ops); i++)
        if (strcmp(ops[i].name, name) == 0)
            return &ops[i];
    return NULL;
}

static enum status give_notice(const struct admin_config *config, const struct asked *asked, struct refusal *refusal)
{
    if (config->notice == NULL)
        return refuse(refusal, STATUS_NOT_FOUND, "there are no devices here");
    if (config->notice(config->context, asked->notice_devices, asked->notice_within_ms) != STATUS_OK)
        return refuse(refusal, STATUS_FULL, "the core has no time for this now; try again");
    return STATUS_OK;
}

static json_t *do_request(const struct admin_config *config, uid_t uid, const json_t *request)
{
    struct act act = {.row = find_op(request), .asked = {.request = request, .subject = "-"}};
    struct refusal refusal = {{0}};
    struct timespec now;
    enum status status;

    if (act.row == NULL)
        return admin_error(STATUS_INVALID, "\"op\" isn't one of those known here");
    clock_gettime(CLOCK_REALTIME, &now);
    act.asked.now_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    snprintf(act.asked.actor, sizeof(act.asked.actor), "local:%lu", (unsigned long)uid);
    act.asked.answer = json_object();
    if (act.asked.answer == NULL)
        return NULL;
    status = meta_writer_call(config->writer, run_act, &act, &refusal);
    if (status == STATUS_OK && act.asked.is_notice)
        status = give_notice(config, &act.asked, &refusal);
    if (status == STATUS_OK && act.asked.tenant_changed && config->tenant_changed != NULL)
        config->tenant_changed(config->context, act.asked.tenant_id);
    fprintf(config->log, "t_ms=%lld admin op=%s subject=%s by=%s status=%s\n", (long long)act.asked.now_ms, act.row->name,
            act.asked.subject, act.asked.actor, code_of(status));
    if (status == STATUS_OK)
        return act.asked.answer;
    json_decref(act.asked.answer);
    return admin_error(status, refusal.text);
}

json_t *admin_answer(const struct admin_config *config, uid_t uid, const char *packet, size_t bytes)
{
    json_t *request = json_loadb(packet, bytes, JSON_REJECT_DUPLICATES, NULL);
    json_t *answer = json_is_object(request) ? do_request(config, uid, request) : admin_error(STATUS_INVALID, "a request is one JSON object");

    json_decref(request);
    return answer;
}
