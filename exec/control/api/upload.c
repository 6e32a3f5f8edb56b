/* A file that comes in. The HTTP thread puts its bytes into a buffer; a thread of the pool takes them from there, seals them and writes
 * them, and says that there is room again: memory is two buffers, however long the file. Nothing comes in before its sender is known. The
 * file is there when the body was whole and the database has it, and not otherwise: then nothing of it stays. */
#include <stdio.h>
#include <stdlib.h>

#include "control/api/repeat.h"
#include "control/metadata/audit.h"

#define BUFFER_BYTES ((size_t)128 << 10)

enum part { PART_FILE, PART_PURPOSE, PART_ANCHOR, PART_SECONDS, PART_COUNT };
static const char *const part_names[PART_COUNT] = {"file", "purpose", "expires_after[anchor]", "expires_after[seconds]"};
/* OpenAI's range. */
#define EXPIRES_S_MIN 3600
#define EXPIRES_S_MAX 2592000

struct upload {
    struct task task;
    struct api *api;
    struct http_request *request; /* its sink's, until whole or gone */
    char key[META_KEY_TEXT_BYTES]; /* wiped once it is known whose it is */
    struct repeat repeat;

    pthread_mutex_t lock; /* of what follows, up to `fault` */
    bool ready;  /* bytes may come, or the fault is to be told */
    bool whole;  /* the body has ended, and the request is to be answered */
    bool gone;   /* it is abandoned, and the request not ours any more */
    uint8_t *filling;
    size_t filled;
    struct fault fault;

    /* The HTTP thread's, until it is whole. */
    enum part part;
    bool has[PART_COUNT];
    char name[HTTP_FILENAME_MAX + 1];
    char texts[PART_COUNT][32]; /* of all parts but the file */
    uint64_t bytes;

    /* The pool's. */
    bool begun;
    struct meta_caller caller;
    uint32_t place;
    bool placed;
    uint8_t *emptying;
    struct object object;
    crypto_generichash_state hash;
    char id[NAME_BYTES]; /* the file's; of an earlier request, if this one is that one again */
    bool again;
    bool kept; /* the object is the file's */
    struct meta_bytes sealed_name;
    int64_t now_ms;
    int64_t expires_s; /* 0: never */
};

/* --- on the HTTP thread ----------------------------------------------------------------------------------------------------- */

static size_t room(void *context)
{
    struct upload *upload = context;
    size_t bytes;

    pthread_mutex_lock(&upload->lock);
    bytes = !upload->ready ? 0 : upload->fault.status != 0 ? BUFFER_BYTES : BUFFER_BYTES - min_u64(upload->filled, BUFFER_BYTES);
    pthread_mutex_unlock(&upload->lock);
    return bytes;
}

/* False: it was answered. */
static bool still_fine(struct upload *upload)
{
    struct fault fault;

    pthread_mutex_lock(&upload->lock);
    fault = upload->fault;
    pthread_mutex_unlock(&upload->lock);
    if (fault.status != 0)
        fault_answer(upload->request, &fault);
    return fault.status == 0;
}

static bool refuse_part(struct upload *upload, const char *param, const char *why)
{
    http_answer_error(upload->request, 400, NULL, param, "%s", why);
    return false;
}

static bool part_begin(void *context, const struct http_part *part)
{
    struct upload *upload = context;
    int kind = 0;

    if (!still_fine(upload))
        return false;
    while (kind < PART_COUNT && strcmp(part->name, part_names[kind]) != 0)
        kind++;
    if (kind == PART_COUNT)
        return refuse_part(upload, NULL, "there is a part that is not file, purpose, expires_after[anchor] or expires_after[seconds]");
    if (upload->has[kind])
        return refuse_part(upload, part_names[kind], "this part is given twice");
    if (kind == PART_FILE && (part->filename == NULL || part->filename[0] == '\0'))
        return refuse_part(upload, "file", "file is one file, with a name");
    if (kind == PART_FILE)
        snprintf(upload->name, sizeof(upload->name), "%s", part->filename);
    upload->has[kind] = true;
    upload->part = (enum part)kind;
    return true;
}

static bool take_text(struct upload *upload, const char *data, size_t bytes)
{
    char *text = upload->texts[upload->part];
    const size_t length = strlen(text);

    if (length + bytes >= sizeof(upload->texts[0]) || memchr(data, '\0', bytes) != NULL)
        return refuse_part(upload, part_names[upload->part], "this part is too long, or no text");
    memcpy(text + length, data, bytes);
    return true;
}

static bool part_data(void *context, const void *data, size_t bytes)
{
    struct upload *upload = context;

    if (!still_fine(upload))
        return false;
    if (upload->part != PART_FILE)
        return take_text(upload, data, bytes);
    upload->bytes += bytes;
    if (upload->bytes > API_FILE_BYTES_MAX) {
        http_answer_error(upload->request, 413, NULL, "file", "a file has at most %llu bytes", (unsigned long long)API_FILE_BYTES_MAX);
        return false;
    }
    pthread_mutex_lock(&upload->lock);
    check(upload->filled + bytes <= BUFFER_BYTES + HTTP_SINK_EXTRA);
    memcpy(upload->filling + upload->filled, data, bytes);
    upload->filled += bytes;
    pthread_mutex_unlock(&upload->lock);
    pool_ask(upload->api->pool, &upload->task);
    return true;
}

static bool part_end(void *context)
{
    (void)context;
    return true;
}

static void abandon(void *context)
{
    struct upload *upload = context;

    pthread_mutex_lock(&upload->lock);
    upload->gone = true;
    pool_ask(upload->api->pool, &upload->task); /* under the lock: who sees `gone` ends it, but not before this call is over */
    pthread_mutex_unlock(&upload->lock);
}

void upload_handle(void *context, struct http_request *request)
{
    struct upload *upload = http_context(request);

    (void)context;
    pthread_mutex_lock(&upload->lock);
    upload->whole = true;
    pool_ask(upload->api->pool, &upload->task);
    pthread_mutex_unlock(&upload->lock);
}

/* --- on the pool ------------------------------------------------------------------------------------------------------------ */

static void set_fault(struct upload *upload, const struct fault *fault)
{
    pthread_mutex_lock(&upload->lock);
    if (upload->fault.status == 0)
        upload->fault = *fault;
    pthread_mutex_unlock(&upload->lock);
}

static void set_fault_from(struct upload *upload, enum status status, const struct refusal *refusal)
{
    struct fault fault = {0};

    fault_from(upload->api, &fault, status, refusal);
    set_fault(upload, &fault);
}

/* Whose it is, a place, an object, buffers. */
static void begin(struct upload *upload, struct metadata *metadata)
{
    struct refusal refusal = {{0}};
    struct fault fault = {0};
    enum status status = STATUS_OK;

    upload->begun = true;
    if (caller_find(upload->api, metadata, upload->key, false, &upload->caller, &fault))
        upload->placed = transfer_begin(upload->api, upload->caller.tenant, &upload->place, &fault);
    sodium_memzero(upload->key, sizeof(upload->key));
    if (upload->placed) {
        upload->filling = malloc(BUFFER_BYTES + HTTP_SINK_EXTRA);
        upload->emptying = malloc(BUFFER_BYTES + HTTP_SINK_EXTRA);
        check(upload->filling != NULL && upload->emptying != NULL);
        crypto_generichash_init(&upload->hash, upload->api->once_key, sizeof(upload->api->once_key), META_DIGEST_BYTES);
        status = object_begin(&upload->api->home, metadata, upload->caller.tenant, OBJECT_FILE, &upload->object, &refusal);
    }
    if (status != STATUS_OK)
        fault_from(upload->api, &fault, status, &refusal);
    set_fault(upload, &fault);
}

/* Tells the HTTP thread that it may go on, unless there is none any more. */
static void tell_room(struct upload *upload)
{
    pthread_mutex_lock(&upload->lock);
    upload->ready = true;
    if (!upload->gone && !upload->whole)
        http_receive_more(upload->request);
    pthread_mutex_unlock(&upload->lock);
}

/* What came in meanwhile. `ret_ended`: nothing more will. False: there is nothing. */
static bool take(struct upload *upload, size_t *ret_bytes, bool *ret_ended)
{
    uint8_t *full;

    pthread_mutex_lock(&upload->lock);
    full = upload->filling;
    *ret_bytes = upload->filled;
    *ret_ended = upload->whole || upload->gone;
    upload->filling = upload->emptying;
    upload->emptying = full;
    upload->filled = 0;
    pthread_mutex_unlock(&upload->lock);
    return *ret_bytes > 0;
}

static void keep(struct upload *upload, size_t bytes)
{
    struct refusal refusal = {{0}};
    enum status status;

    crypto_generichash_update(&upload->hash, upload->emptying, bytes);
    status = object_write(&upload->object, upload->emptying, bytes, &refusal);
    if (status != STATUS_OK)
        set_fault_from(upload, status, &refusal);
}

/* --- the end ---------------------------------------------------------------------------------------------------------------- */

static void identify(struct upload *upload)
{
    crypto_generichash_update(&upload->hash, (const uint8_t *)upload->name, sizeof(upload->name));
    crypto_generichash_update(&upload->hash, (const uint8_t *)upload->texts, sizeof(upload->texts));
    crypto_generichash_final(&upload->hash, upload->repeat.body, sizeof(upload->repeat.body));
    repeat_identify(upload->api, &upload->repeat);
}

/* Whether it was done before. */
static enum status look_for_it(struct upload *upload, struct metadata *metadata, struct refusal *refusal)
{
    struct meta_results results = {0};
    struct meta_file file;
    char before[NAME_BYTES];
    bool again = false;
    enum status status = repeat_look(metadata, &upload->repeat, upload->caller.tenant, upload->id, upload->now_ms, &again, before, refusal);

    if (status != STATUS_OK || !again)
        return status;
    status = meta_file_get(metadata, upload->caller.tenant, before, &results, &file, refusal);
    meta_results_free(&results);
    if (status == STATUS_NOT_FOUND)
        return upload->repeat.retry.key == NULL
                   ? STATUS_OK
                   : refuse(refusal, STATUS_CONFLICT, "the file of this Idempotency-Key was deleted; draw a new key");
    if (status == STATUS_OK) {
        upload->again = true;
        memcpy(upload->id, before, sizeof(before));
    }
    return status;
}

static enum status commit(struct metadata *metadata, void *context, struct refusal *refusal)
{
    struct upload *upload = context;
    const char *tenant = upload->caller.tenant;
    enum status status = look_for_it(upload, metadata, refusal);

    if (status != STATUS_OK || upload->again)
        return status;
    status = meta_object_written(metadata, tenant, upload->object.id, (int64_t)upload->bytes, upload->object.digest, refusal);
    if (status == STATUS_OK)
        status = meta_file_add(metadata, tenant, upload->id, upload->object.id, FILE_PURPOSE, upload->sealed_name,
                               upload->expires_s > 0 ? upload->now_ms + upload->expires_s * 1000 : META_NONE, upload->now_ms, refusal);
    if (status == STATUS_OK)
        status = meta_audit_add(metadata, tenant, upload->caller.key, "file.create", upload->id, upload->now_ms, refusal);
    return status;
}

/* Both parts or none; seconds after its creation. */
static bool read_expiry(struct upload *upload, struct fault *fault)
{
    const char *seconds = upload->texts[PART_SECONDS];

    if (!upload->has[PART_ANCHOR] && !upload->has[PART_SECONDS])
        return true;
    if (seconds[0] != '\0' && strlen(seconds) < 10 && seconds[strspn(seconds, "0123456789")] == '\0')
        upload->expires_s = strtoll(seconds, NULL, 10);
    if (strcmp(upload->texts[PART_ANCHOR], "created_at") == 0 && upload->expires_s >= EXPIRES_S_MIN && upload->expires_s <= EXPIRES_S_MAX)
        return true;
    fault_set(fault, 400, NULL, "expires_after", "expires_after is the anchor created_at and %d to %d seconds", EXPIRES_S_MIN, EXPIRES_S_MAX);
    return false;
}

static void check_whole(struct upload *upload)
{
    struct fault fault = {0};

    if (!upload->has[PART_FILE] || upload->bytes == 0)
        fault_set(&fault, 400, NULL, "file", "%s", upload->has[PART_FILE] ? "the file is empty" : "the part `file` is missing");
    else if (strcmp(upload->texts[PART_PURPOSE], FILE_PURPOSE) != 0)
        fault_set(&fault, 400, NULL, "purpose", "the purpose must be " FILE_PURPOSE);
    else
        (void)read_expiry(upload, &fault);
    set_fault(upload, &fault);
}

static enum status keep_all(struct upload *upload, struct refusal *refusal)
{
    uint8_t sealed[HTTP_FILENAME_MAX + VAULT_SEALED_EXTRA];
    const size_t length = strlen(upload->name);
    enum status status;

    identify(upload);
    meta_id("file-", upload->id);
    upload->now_ms = api_now_ms();
    upload->sealed_name = (struct meta_bytes){sealed, length + VAULT_SEALED_EXTRA};
    status = object_finish(&upload->object, refusal);
    if (status == STATUS_OK)
        status = vault_text_seal(upload->api->config.vault, upload->caller.tenant, FILE_NAME, upload->id, upload->name, length, sealed, refusal);
    if (status == STATUS_OK)
        status = meta_writer_call(upload->api->config.writer, commit, upload, refusal);
    upload->kept = status == STATUS_OK && !upload->again;
    return status;
}

/* Its name is known here: that of the earlier request too, for it is a part of what makes them the same. */
static json_t *told_json(struct upload *upload, struct metadata *metadata, struct fault *fault)
{
    struct meta_results results = {0};
    struct refusal refusal = {{0}};
    struct meta_file file;
    json_t *json = NULL;
    const enum status status = meta_file_get(metadata, upload->caller.tenant, upload->id, &results, &file, &refusal);

    if (status == STATUS_OK)
        json = file_json_named(&file, upload->name);
    else
        fault_from(upload->api, fault, status, &refusal);
    meta_results_free(&results);
    return json;
}

/* Of what isn't kept nothing stays; what cannot be destroyed now, the sweeper will. */
static void let_go(struct upload *upload)
{
    struct refusal unheard = {{0}};

    object_close(&upload->object);
    if (upload->object.has_row && !upload->kept)
        (void)object_undo(&upload->api->home, upload->caller.tenant, upload->object.id, &unheard);
    if (upload->placed)
        transfer_end(upload->api, upload->place);
    free(upload->filling);
    free(upload->emptying);
    pthread_mutex_destroy(&upload->lock);
}

static void finish(struct upload *upload, struct metadata *metadata)
{
    struct refusal refusal = {{0}};
    json_t *json = NULL;
    enum status status = STATUS_OK;

    http_wipe_key(upload->request);
    http_set_key_id(upload->request, upload->caller.key);
    if (upload->fault.status == 0)
        check_whole(upload);
    if (upload->fault.status == 0)
        status = keep_all(upload, &refusal);
    if (status != STATUS_OK)
        set_fault_from(upload, status, &refusal);
    else if (upload->fault.status == 0)
        json = told_json(upload, metadata, &upload->fault);
    let_go(upload);
    if (upload->kept && upload->api->config.driver != NULL)
        driver_file_changed(upload->api->config.driver, upload->caller.tenant, upload->id);
    if (json != NULL)
        http_answer_json(upload->request, 200, json);
    else
        fault_answer(upload->request, &upload->fault);
}

static bool upload_run(struct task *task, struct metadata *metadata)
{
    struct upload *upload = (struct upload *)task;
    bool ended = false;
    size_t bytes;

    if (!upload->begun)
        begin(upload, metadata);
    while (take(upload, &bytes, &ended)) {
        if (upload->fault.status == 0)
            keep(upload, bytes);
        tell_room(upload);
    }
    if (!ended) {
        tell_room(upload);
        return false;
    }
    if (upload->whole)
        finish(upload, metadata);
    else
        let_go(upload);
    return true;
}

void upload_accept(void *context, struct http_request *request)
{
    static const struct http_sink sink = {room, part_begin, part_data, part_end, abandon};
    struct upload *upload = calloc(1, sizeof(*upload));

    check(upload != NULL);
    if (!http_retry_of(request, &upload->repeat.retry)) {
        free(upload);
        return;
    }
    upload->task.run = upload_run;
    upload->api = context;
    upload->request = request;
    pthread_mutex_init(&upload->lock, NULL);
    /* What is too long is no key of ours. */
    if (strlen(http_key(request)) < sizeof(upload->key))
        memcpy(upload->key, http_key(request), strlen(http_key(request)) + 1);
    http_set_context(request, upload);
    http_receive(request, &sink, upload);
    pool_begin(upload->api->pool, &upload->task);
}
