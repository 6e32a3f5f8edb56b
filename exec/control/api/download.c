/* A file's content, opened and sent piece by piece: a thread works on it while there is room in the stream, and again when there is. */
#include <stdlib.h>

#include "control/api/internal.h"

#define PIECE_BYTES ((size_t)ENVELOPE_CHUNK_BYTES)

struct download {
    struct task task;
    struct api *api;
    struct http_request *request;
    const char *content_type;
    uint32_t place;
    bool placed;
    bool begun;
    uint64_t taken; /* since it was last asked for; the HTTP thread's */
    uint8_t *key;
    struct store_get *get;
    struct opener *opener;
    uint64_t offset;
    size_t piece; /* bytes in `bytes` that were not taken yet */
    uint8_t bytes[PIECE_BYTES];
};

static void let_go(struct download *download)
{
    opener_close(download->opener);
    store_get_close(download->get);
    secret_free(download->key);
    if (download->placed)
        transfer_end(download->api, download->place);
}

static enum status from_store(void *context, uint64_t offset, void *ret_bytes, size_t count)
{
    struct download *download = context;
    struct refusal unheard = {{0}};

    return store_get_read(download->get, offset, ret_bytes, count, &unheard);
}

static enum status open_content(struct download *download, const char *tenant, const char *object, const char *purpose,
                                struct refusal *refusal)
{
    const struct envelope_label label = {.tenant = tenant, .object = object, .purpose = purpose};
    enum status status;

    download->key = secret_alloc(KEY_BYTES);
    if (download->key == NULL)
        return refuse(refusal, STATUS_IO, "no memory for a key");
    status = vault_key_give(download->api->config.vault, tenant, object, download->key, refusal);
    if (status == STATUS_OK)
        status = store_get_open(download->api->config.store, tenant, object, &download->get, refusal);
    if (status != STATUS_OK)
        return status;
    status = opener_open(&label, download->key, store_get_bytes(download->get), from_store, download, &download->opener);
    return status == STATUS_OK ? status : refuse(refusal, status, "object %s doesn't open", object);
}

/* --- sending ---------------------------------------------------------------------------------------------------------------- */

static bool fill(struct download *download)
{
    download->piece = (size_t)min_u64(PIECE_BYTES, opener_bytes(download->opener) - download->offset);
    return opener_read(download->opener, download->offset, download->bytes, download->piece) == STATUS_OK;
}

/* STATUS_OK: all is sent. STATUS_FULL: no room now. */
static enum status send_some(struct download *download)
{
    while (download->offset < opener_bytes(download->opener)) {
        enum status status;

        if (download->piece == 0 && !fill(download))
            return STATUS_CORRUPT;
        status = http_stream_bytes(download->request, download->bytes, download->piece);
        if (status != STATUS_OK)
            return status;
        download->offset += download->piece;
        download->piece = 0;
    }
    return STATUS_OK;
}

static void gone(void *context)
{
    struct download *download = context;

    pool_ask(download->api->pool, &download->task);
}

/* In small parts; it is asked for when a piece has room. */
static void taken(void *context, uint32_t events, uint64_t bytes)
{
    struct download *download = context;

    (void)events;
    download->taken += bytes;
    if (download->taken < PIECE_BYTES)
        return;
    download->taken -= PIECE_BYTES;
    pool_ask(download->api->pool, &download->task);
}

/* Here, and not before: until a task runs nobody may ask for it. */
static bool begin(struct download *download)
{
    const struct http_stream stream = {.content_type = download->content_type, .bytes = opener_bytes(download->opener),
                                       .taken = taken, .context = download};

    if (http_stream_begin(download->request, &stream) != STATUS_OK)
        return false;
    http_on_gone(download->request, gone, download);
    download->begun = true;
    return true;
}

static bool download_run(struct task *task, struct metadata *metadata)
{
    struct download *download = (struct download *)task;
    enum status status;

    (void)metadata;
    if (!download->begun && !begin(download)) {
        let_go(download);
        return true;
    }
    status = send_some(download);
    if (status == STATUS_FULL)
        return false;
    if (status == STATUS_CORRUPT) {
        struct fault unheard;

        fault_from(download->api, &unheard, status, &(struct refusal){"an object ends in what doesn't open"});
        http_stream_fail(download->request, 500, "internal", "what is stored could not be read");
    } else {
        http_stream_end(download->request);
    }
    let_go(download);
    return true;
}

/* --- beginning -------------------------------------------------------------------------------------------------------------- */

/* What a file holds, or what was found in it. */
static enum status open_part(struct download *download, const struct meta_file *file, bool report, struct refusal *refusal)
{
    if (!report)
        return open_content(download, file->tenant, file->object, OBJECT_FILE, refusal);
    if (file->report == NULL)
        return refuse(refusal, STATUS_NOT_FOUND, "the file has not been read yet");
    download->content_type = "application/json";
    return open_content(download, file->tenant, file->report, OBJECT_REPORT, refusal);
}

static void begin_part(struct call *call, struct metadata *metadata, bool report)
{
    struct download *download = calloc(1, sizeof(*download));
    struct meta_results results = {0};
    struct refusal refusal = {{0}};
    struct fault fault = {0};
    struct meta_file file;
    enum status status;

    check(download != NULL);
    download->task.run = download_run;
    download->content_type = "application/octet-stream";
    download->api = call->api;
    download->request = call->request;
    status = meta_file_get(metadata, call->caller.tenant, http_id(call->request, 0), &results, &file, &refusal);
    if (status == STATUS_OK) {
        download->placed = transfer_begin(call->api, call->caller.tenant, &download->place, &fault);
        if (download->placed)
            status = open_part(download, &file, report, &refusal);
    }
    meta_results_free(&results);
    if (status != STATUS_OK)
        fault_from(call->api, &fault, status, &refusal);
    if (fault.status == 0) {
        pool_begin(call->api->pool, &download->task);
        return;
    }
    let_go(download);
    free(download);
    fault_answer(call->request, &fault);
}

void download_begin(struct call *call, struct metadata *metadata)
{
    begin_part(call, metadata, false);
}

void report_begin(struct call *call, struct metadata *metadata)
{
    begin_part(call, metadata, true);
}
