/* Files as their owner sees them: listed, looked at, deleted. Names lie sealed and are opened one by one. */
#include <stdlib.h>

#include "control/api/internal.h"
#include "control/metadata/audit.h"

#define LIST_MAX 10000 /* and the default, as OpenAI has it */

json_t *file_json_named(const struct meta_file *file, const char *name)
{
    const bool is_faulty = strcmp(file->state, "error") == 0;
    json_t *json = json_pack("{s:s,s:s,s:I,s:I,s:s,s:s,s:s,s:o}", "id", file->id, "object", "file", "bytes", (json_int_t)file->bytes,
                             "created_at", (json_int_t)(file->created_at_ms / 1000), "filename", name, "purpose", file->purpose, "status",
                             file->state, "status_details",
                             is_faulty ? json_sprintf("the file has faults; GET /v1/files/%s/report lists each with its line, column and remedy",
                                                      file->id)
                                       : json_null());

    check(json != NULL);
    if (file->expires_at_ms != META_NONE)
        json_object_set_new(json, "expires_at", json_integer((json_int_t)(file->expires_at_ms / 1000)));
    return json;
}

json_t *file_json(struct api *api, const struct meta_file *file, struct fault *fault)
{
    char name[HTTP_FILENAME_MAX + 1] = "";
    struct refusal refusal = {{0}};
    enum status status;

    if (file->sealed.count < VAULT_SEALED_EXTRA || file->sealed.count - VAULT_SEALED_EXTRA >= sizeof(name)) {
        fault_from(api, fault, STATUS_CORRUPT, &(struct refusal){"a file's name has another size"});
        return NULL;
    }
    status = vault_text_open(api->config.vault, file->tenant, FILE_NAME, file->id, file->sealed.bytes, file->sealed.count, name, &refusal);
    if (status != STATUS_OK) {
        fault_from(api, fault, status == STATUS_NOT_FOUND ? STATUS_CORRUPT : status, &refusal);
        return NULL;
    }
    return file_json_named(file, name);
}

void files_get(struct call *call, struct metadata *metadata)
{
    struct meta_results results = {0};
    struct refusal refusal = {{0}};
    struct fault fault = {0};
    struct meta_file file;
    json_t *json = NULL;
    const enum status status = meta_file_get(metadata, call->caller.tenant, http_id(call->request, 0), &results, &file, &refusal);

    if (status == STATUS_OK)
        json = file_json(call->api, &file, &fault);
    else
        fault_from(call->api, &fault, status, &refusal);
    if (json != NULL)
        http_answer_json(call->request, 200, json);
    else
        fault_answer(call->request, &fault);
    meta_results_free(&results);
}

/* --- lists ------------------------------------------------------------------------------------------------------------------ */

/* One page of the database's; `after` goes on to its last row. */
static bool add_some(struct call *call, struct metadata *metadata, const char *purpose, struct meta_page *page, char after[NAME_BYTES],
                     json_t *data, bool *ret_more, struct fault *fault)
{
    struct meta_results results = {0};
    struct refusal refusal = {{0}};
    struct meta_file *files = NULL;
    uint32_t count = 0;
    const enum status status = meta_file_list(metadata, call->caller.tenant, purpose, page, &results, &files, &count, ret_more, &refusal);

    if (status != STATUS_OK)
        fault_from(call->api, fault, status, &refusal);
    for (uint32_t i = 0; fault->status == 0 && i < count; i++) {
        json_t *json = file_json(call->api, &files[i], fault);

        if (json != NULL)
            json_array_append_new(data, json);
        memcpy(after, files[i].id, strlen(files[i].id) + 1);
        page->after = after;
    }
    meta_results_free(&results);
    return fault->status == 0;
}

void files_list(struct call *call, struct metadata *metadata)
{
    const char *purpose = http_query(call->request, "purpose");
    struct fault fault = {0};
    struct http_page asked;
    struct meta_page page;
    char after[NAME_BYTES];
    json_t *data;
    bool more = true;

    if (!http_page_of(call->request, LIST_MAX, LIST_MAX, &asked))
        return;
    page = (struct meta_page){.after = asked.after, .oldest_first = asked.ascending};
    data = json_array();
    while (more && fault.status == 0 && json_array_size(data) < asked.limit) {
        page.limit = min_u32(META_PAGE_MAX, asked.limit - (uint32_t)json_array_size(data));
        (void)add_some(call, metadata, purpose != NULL && purpose[0] != '\0' ? purpose : NULL, &page, after, data, &more, &fault);
    }
    if (fault.status == 0) {
        http_answer_json(call->request, 200, http_page_json(data, more));
        return;
    }
    json_decref(data);
    fault_answer(call->request, &fault);
}

/* --- deletion --------------------------------------------------------------------------------------------------------------- */

struct deletion {
    const struct meta_caller *caller;
    const char *file;
    char object[NAME_BYTES];
    char report[NAME_BYTES]; /* "": none */
};

static enum status delete_row(struct metadata *metadata, void *context, struct refusal *refusal)
{
    struct deletion *deletion = context;
    const char *tenant = deletion->caller->tenant;
    struct meta_results results = {0};
    struct meta_file file;
    enum status status = meta_file_get(metadata, tenant, deletion->file, &results, &file, refusal);

    if (status == STATUS_OK) {
        memcpy(deletion->object, file.object, strlen(file.object) + 1);
        if (file.report != NULL)
            memcpy(deletion->report, file.report, strlen(file.report) + 1);
        status = meta_file_delete(metadata, tenant, deletion->file, refusal);
    }
    meta_results_free(&results);
    if (status == STATUS_OK)
        status = meta_audit_add(metadata, tenant, deletion->caller->key, "file.delete", deletion->file, api_now_ms(), refusal);
    return status;
}

/* Once its row is gone it is gone for its owner; what keeps the rest from being destroyed now is the sweeper's to try again. */
void files_delete(struct call *call, struct metadata *metadata)
{
    struct deletion deletion = {.caller = &call->caller, .file = http_id(call->request, 0)};
    struct refusal refusal = {{0}};
    struct fault fault = {0};
    enum status status;

    (void)metadata;
    status = meta_writer_call(call->api->config.writer, delete_row, &deletion, &refusal);
    if (status == STATUS_OK)
        status = object_destroy(&call->api->home, call->caller.tenant, deletion.object, &refusal);
    if (status == STATUS_OK && deletion.report[0] != '\0')
        status = object_destroy(&call->api->home, call->caller.tenant, deletion.report, &refusal);
    if (status == STATUS_OK) {
        http_answer_json(call->request, 200, json_pack("{s:s,s:s,s:b}", "id", deletion.file, "object", "file", "deleted", true));
        return;
    }
    fault_from(call->api, &fault, status, &refusal);
    fault_answer(call->request, &fault);
}
