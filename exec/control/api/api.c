/* Routes, and the API's beginning and end. */
#include "control/api/api.h"

#include <sodium.h>
#include <stdlib.h>

#include "control/api/chat.h"
#include "control/api/jobs.h"
#include "control/metadata/model.h"

/* More than waits for the disk at once would not be quicker. */
#define THREADS 8
/* What frames a file of the largest size. */
#define MULTIPART_EXTRA (UINT64_C(64) << 10)
#define JOB_BODY_BYTES_MAX (UINT64_C(256) << 10)
#define ADAPTER_BODY_BYTES_MAX (UINT64_C(16) << 10)

static const char *const headers[] = {"idempotency-key", "x-stainless-retry-count"};

void api_look(struct api *api, struct http_request *request, bool (*run)(struct task *task, struct metadata *metadata))
{
    struct api_look *look = calloc(1, sizeof(*look));

    check(look != NULL);
    *look = (struct api_look){.task = {.run = run}, .api = api, .request = request};
    pool_begin(api->pool, &look->task);
}

/* --- of the server itself --------------------------------------------------------------------------------------------------- */

static void healthz(void *context, struct http_request *request)
{
    (void)context;
    http_answer_bytes(request, 200, "text/plain", "ok\n", 3);
}

static bool ready_run(struct task *task, struct metadata *metadata)
{
    struct api_look *look = (struct api_look *)task;
    struct meta_results results = {0};
    struct refusal refusal = {{0}};
    struct meta_base *bases;
    uint32_t count;
    bool more;

    if (meta_base_list(metadata, 0, 1, &results, &bases, &count, &more, &refusal) == STATUS_OK)
        http_answer_bytes(look->request, 200, "text/plain", "ready\n", 6);
    else
        http_answer_error(look->request, 503, "unavailable", NULL, "the database cannot be read");
    meta_results_free(&results);
    return true;
}

/* Ready: a thread is free and the database answers. (Without its vault the control plane ends.) */
static void readyz(void *context, struct http_request *request)
{
    api_look(context, request, ready_run);
}

/* --- routes ----------------------------------------------------------------------------------------------------------------- */

static void add_plain(struct api *api, const char *pattern, http_handler *handle)
{
    api->routes[api->routes_count++] = (struct http_route){.method = HTTP_GET, .pattern = pattern, .handle = handle, .context = api};
}

static void add(struct api *api, enum http_method method, const char *pattern, api_serve *serve, bool for_inference)
{
    struct endpoint *endpoint = &api->endpoints[api->routes_count];

    *endpoint = (struct endpoint){.api = api, .serve = serve, .for_inference = for_inference};
    api->routes[api->routes_count++] = (struct http_route){.method = method, .pattern = pattern, .flags = HTTP_NEEDS_KEY,
                                                           .handle = api_handle, .context = endpoint};
}

static void add_with_body(struct api *api, const char *pattern, api_serve *serve, bool for_inference, uint64_t bytes_max)
{
    struct http_route *route = &api->routes[api->routes_count];

    add(api, HTTP_POST, pattern, serve, for_inference);
    route->flags |= HTTP_NEEDS_BODY;
    route->body_bytes_max = bytes_max;
}

static void add_jobs(struct api *api)
{
    add_with_body(api, "/v1/fine_tuning/jobs", job_create, false, JOB_BODY_BYTES_MAX);
    add(api, HTTP_GET, "/v1/fine_tuning/jobs", job_list, false);
    add(api, HTTP_GET, "/v1/fine_tuning/jobs/{id}", job_get, false);
    add(api, HTTP_POST, "/v1/fine_tuning/jobs/{id}/cancel", job_cancel, false);
    add(api, HTTP_POST, "/v1/fine_tuning/jobs/{id}/pause", job_pause, false);
    add(api, HTTP_POST, "/v1/fine_tuning/jobs/{id}/resume", job_resume, false);
    add(api, HTTP_GET, "/v1/fine_tuning/jobs/{id}/events", job_events, false);
    add(api, HTTP_GET, "/v1/fine_tuning/jobs/{id}/checkpoints", job_checkpoints, false);
}

static void add_routes(struct api *api)
{
    add_plain(api, "/healthz", healthz);
    add_plain(api, "/readyz", readyz);
    add_plain(api, "/metrics", metrics_get);
    add(api, HTTP_GET, "/v1/models", models_list, true);
    add(api, HTTP_GET, "/v1/models/{id}", models_get, true);
    add(api, HTTP_DELETE, "/v1/models/{id}", models_delete, false);
    add_with_body(api, "/v1/load_lora_adapter", lora_load, false, ADAPTER_BODY_BYTES_MAX);
    add_with_body(api, "/v1/unload_lora_adapter", lora_unload, false, ADAPTER_BODY_BYTES_MAX);
    if (api->config.core != NULL) {
        add_with_body(api, "/v1/chat/completions", chat_begin, true, CHAT_BODY_BYTES_MAX);
        add_with_body(api, "/v1/completions", completion_begin, true, CHAT_BODY_BYTES_MAX);
    }
    add_jobs(api);
    add(api, HTTP_GET, "/v1/files", files_list, false);
    add(api, HTTP_GET, "/v1/files/{id}", files_get, false);
    add(api, HTTP_DELETE, "/v1/files/{id}", files_delete, false);
    add(api, HTTP_GET, "/v1/files/{id}/content", download_begin, false);
    add(api, HTTP_GET, "/v1/files/{id}/report", report_begin, false);
    add(api, HTTP_GET, "/v1/usage", usage_list, false);
    api->routes[api->routes_count++] = (struct http_route){
        .method = HTTP_POST, .pattern = "/v1/files", .flags = HTTP_NEEDS_KEY | HTTP_NEEDS_BODY | HTTP_MULTIPART,
        .body_bytes_max = API_FILE_BYTES_MAX + MULTIPART_EXTRA, .accept = upload_accept, .handle = upload_handle, .context = api};
}

/* --- beginning and end ------------------------------------------------------------------------------------------------------ */

static enum status listen_there(struct api *api, struct refusal *refusal)
{
    const struct http_config http = {.address = api->config.address, .port = api->config.port,
                                     .listener = api->config.listener, .certificate_file = api->config.certificate_file, .key_file = api->config.key_file,
                                     .routes = api->routes, .routes_count = api->routes_count,
                                     .headers = headers, .headers_count = ARRAY_COUNT(headers),
                                     .log = api->config.log, .log_context = api->config.log_context};
    struct http_server *server = NULL;
    const enum status status = http_open(&http, &server, refusal);

    api->http = server;
    return status;
}

enum status api_open(const struct api_config *config, struct api **ret_api, struct refusal *refusal)
{
    static const uint8_t once[] = "berth once";
    struct api *api = calloc(1, sizeof(*api));
    enum status status;

    if (api == NULL)
        return refuse(refusal, STATUS_IO, "no memory for the API");
    api->config = *config;
    api->home = (struct object_home){config->writer, config->vault, config->store};
    pthread_mutex_init(&api->lock, NULL);
    crypto_generichash(api->once_key, sizeof(api->once_key), once, sizeof(once), config->metadata.server_key, META_KEY_BYTES);
    api->limits = limits_create();
    if (api->limits == NULL) {
        api_close(api, 0);
        return refuse(refusal, STATUS_IO, "no memory for the API");
    }
    add_routes(api);
    status = chats_open(config->bases, config->tokenizers, config->bases_count, &api->chats, refusal);
    if (status == STATUS_OK)
        status = pool_start(&config->metadata, THREADS, &api->pool, refusal);
    if (status == STATUS_OK)
        status = sweeper_start(api, refusal);
    if (status == STATUS_OK)
        status = listen_there(api, refusal);
    api->config.metadata.server_key = NULL;
    if (status == STATUS_OK)
        *ret_api = api;
    else
        api_close(api, 0);
    return status;
}

uint16_t api_port(const struct api *api)
{
    return http_port(api->http);
}

void api_close(struct api *api, uint32_t within_ms)
{
    if (api == NULL)
        return;
    if (api->http != NULL)
        http_stop(api->http, within_ms);
    if (api->chats != NULL)
        atomic_store(&api->chats->stopping, true);
    pool_stop(api->pool);
    if (api->http != NULL)
        http_close(api->http);
    sweeper_stop(api->sweeper);
    limits_free(api->limits);
    chats_close(api->chats);
    sodium_memzero(api->once_key, sizeof(api->once_key));
    pthread_mutex_destroy(&api->lock);
    free(api);
}
