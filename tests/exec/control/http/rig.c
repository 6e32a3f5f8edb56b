#include "rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"

#define PATIENCE_MS 10000

/* --- routes ----------------------------------------------------------------------------------------------------------------- */

static void ping(void *context, struct http_request *request)
{
    (void)context;
    http_answer_json(request, 200, json_pack("{s:b}", "ok", 1));
}

static void echo(void *context, struct http_request *request)
{
    json_t *query = json_object();
    const char *name;
    const char *value;
    const char *organization = http_header(request, "openai-organization");

    (void)context;
    for (uint32_t i = 0; http_query_at(request, i, &name, &value); i++)
        json_object_set_new(query, name, json_string(value));
    http_answer_json(request, 200, json_pack("{s:o,s:s?,s:s?}", "query", query, "organization", organization, "key", http_key(request)));
}

static void things(void *context, struct http_request *request)
{
    struct http_page page;
    json_t *data = json_array();

    (void)context;
    if (!http_page_of(request, 20, 100, &page)) {
        json_decref(data);
        return;
    }
    for (uint32_t i = 0; i < page.limit && i < 3; i++)
        json_array_append_new(data, json_pack("{s:s,s:b}", "id", i == 0 && page.after != NULL ? page.after : i == 2 ? "c" : "b", "ascending",
                                              page.ascending));
    http_answer_json(request, 200, http_page_json(data, page.limit < 3));
}

static void thing(void *context, struct http_request *request)
{
    (void)context;
    http_answer_json(request, 200, json_pack("{s:s}", "id", http_id(request, 0)));
}

static void job_accept(void *context, struct http_request *request)
{
    (void)context;
    if (strcmp(http_key(request), "bad") == 0)
        http_answer_error(request, 401, "invalid_api_key", NULL, "no such key");
}

static void job(void *context, struct http_request *request)
{
    struct http_retry retry;
    json_t *body;

    (void)context;
    http_set_key_id(request, "key_test");
    if (!http_retry_of(request, &retry) || (body = http_json(request)) == NULL)
        return;
    http_answer_json(request, 200, json_pack("{s:o,s:s?,s:i}", "body", body, "retry_key", retry.key, "retry_count", (int)retry.count));
}

static void hold(struct rig *rig, struct http_request *request)
{
    pthread_mutex_lock(&rig->lock);
    check(rig->held_count < HELD_MAX);
    rig->held[rig->held_count++] = request;
    pthread_cond_broadcast(&rig->changed);
    pthread_mutex_unlock(&rig->lock);
}

static void cancel(void *context, struct http_request *request)
{
    if (strcmp(http_id(request, 0), "held") == 0)
        hold(context, request);
    else
        http_answer_json(request, 200, json_pack("{s:s,s:I}", "id", http_id(request, 0), "bytes", (json_int_t)http_body_bytes(request)));
}

static void count_gone(void *context)
{
    struct rig *rig = context;

    pthread_mutex_lock(&rig->lock);
    rig->gone_count++;
    pthread_cond_broadcast(&rig->changed);
    pthread_mutex_unlock(&rig->lock);
}

static void count_taken(void *context, uint32_t events, uint64_t bytes)
{
    struct rig *rig = context;

    (void)bytes;
    pthread_mutex_lock(&rig->lock);
    rig->taken_events += events;
    pthread_cond_broadcast(&rig->changed);
    pthread_mutex_unlock(&rig->lock);
}

static void later(void *context, struct http_request *request)
{
    http_on_gone(request, count_gone, context);
    hold(context, request);
}

static void stream(void *context, struct http_request *request)
{
    const struct http_stream facts = {.taken = count_taken, .context = context};

    http_on_gone(request, count_gone, context);
    if (http_stream_begin(request, &facts) == STATUS_OK)
        hold(context, request);
}

static void bytes(void *context, struct http_request *request)
{
    const struct http_stream facts = {.content_type = "application/binary", .bytes = 100000, .taken = count_taken, .context = context};

    http_on_gone(request, count_gone, context);
    if (http_stream_begin(request, &facts) == STATUS_OK)
        hold(context, request);
}

static void stall(void *context, struct http_request *request)
{
    struct rig *rig = context;

    pthread_mutex_lock(&rig->lock);
    rig->stalls = true;
    pthread_cond_broadcast(&rig->changed);
    while (!rig->goes_on)
        pthread_cond_wait(&rig->changed, &rig->lock);
    rig->stalls = rig->goes_on = false;
    pthread_mutex_unlock(&rig->lock);
    http_answer_json(request, 200, json_object());
}

/* --- uploads ---------------------------------------------------------------------------------------------------------------- */

static size_t upload_room(void *context)
{
    struct rig *rig = context;
    size_t room;

    pthread_mutex_lock(&rig->lock);
    room = rig->room;
    rig->asked_room++;
    pthread_cond_broadcast(&rig->changed);
    pthread_mutex_unlock(&rig->lock);
    return room;
}

static bool upload_begin(void *context, const struct http_part *part)
{
    struct rig *rig = context;
    const size_t at = strlen(rig->parts);

    if (strcmp(part->name, "refuse") == 0) {
        http_answer_error(rig->uploading, 400, "refused", "refuse", "this part is refused");
        return false;
    }
    rig->part_bytes = rig->part_hash = 0;
    snprintf(rig->parts + at, sizeof(rig->parts) - at, "begin %s %s %s\n", part->name, part->filename == NULL ? "-" : part->filename,
             part->content_type);
    return true;
}

static bool upload_data(void *context, const void *data, size_t count)
{
    struct rig *rig = context;
    const unsigned char *byte = data;
    bool any;

    pthread_mutex_lock(&rig->lock);
    any = rig->room == SIZE_MAX;
    check(any || count <= rig->room + HTTP_SINK_EXTRA);
    if (!any)
        rig->room -= min_u64(rig->room, count);
    pthread_mutex_unlock(&rig->lock);
    for (size_t i = 0; !any && i < count; i++)
        rig->part_hash = hash_fold(rig->part_hash, byte[i]);
    rig->part_bytes += count;
    return true;
}

static bool upload_end(void *context)
{
    struct rig *rig = context;
    const size_t at = strlen(rig->parts);

    snprintf(rig->parts + at, sizeof(rig->parts) - at, "end %llu\n", (unsigned long long)rig->part_bytes);
    return true;
}

static void upload_abandon(void *context)
{
    struct rig *rig = context;

    pthread_mutex_lock(&rig->lock);
    rig->abandoned_count++;
    rig->uploading = NULL;
    pthread_cond_broadcast(&rig->changed);
    pthread_mutex_unlock(&rig->lock);
}

static void upload_accept(void *context, struct http_request *request)
{
    static const struct http_sink sink = {upload_room, upload_begin, upload_data, upload_end, upload_abandon};
    struct rig *rig = context;

    if (strcmp(http_key(request), "bad") == 0) {
        http_answer_error(request, 401, "invalid_api_key", NULL, "no such key");
        return;
    }
    rig->uploading = request;
    rig->parts[0] = '\0';
    http_receive(request, &sink, rig);
}

static void upload_handle(void *context, struct http_request *request)
{
    struct rig *rig = context;

    pthread_mutex_lock(&rig->lock);
    rig->finished_count++;
    rig->uploading = NULL;
    pthread_cond_broadcast(&rig->changed);
    pthread_mutex_unlock(&rig->lock);
    http_answer_json(request, 200, json_pack("{s:s,s:I}", "parts", rig->parts, "bytes", (json_int_t)http_body_bytes(request)));
}

/* --- the server ------------------------------------------------------------------------------------------------------------- */

static void keep_line(void *context, const char *line)
{
    struct rig *rig = context;
    const size_t at = strlen(rig->log);

    pthread_mutex_lock(&rig->lock);
    if (at + strlen(line) + 2 < sizeof(rig->log))
        strcat(strcat(rig->log, line), "\n");
    pthread_mutex_unlock(&rig->lock);
}

void rig_begin(struct rig *rig, const struct http_limits *limits)
{
    static const char *const headers[] = {"idempotency-key", "x-stainless-retry-count", "openai-organization"};
    static struct http_route routes[12];
    struct refusal refusal = {""};
    const struct http_route all[] = {
        {HTTP_GET, "/v1/ping", 0, 0, NULL, ping, rig},
        {HTTP_GET, "/v1/echo", 0, 0, NULL, echo, rig},
        {HTTP_GET, "/v1/things", 0, 0, NULL, things, rig},
        {HTTP_GET, "/v1/things/{id}", 0, 0, NULL, thing, rig},
        {HTTP_DELETE, "/v1/things/{id}", HTTP_NEEDS_KEY, 0, NULL, thing, rig},
        {HTTP_POST, "/v1/jobs", HTTP_NEEDS_KEY | HTTP_NEEDS_BODY, 4096, job_accept, job, rig},
        {HTTP_POST, "/v1/jobs/{id}/cancel", 0, 1024, NULL, cancel, rig},
        {HTTP_POST, "/v1/files", HTTP_NEEDS_KEY | HTTP_NEEDS_BODY | HTTP_MULTIPART, UINT64_C(1) << 30, upload_accept, upload_handle, rig},
        {HTTP_GET, "/v1/later", 0, 0, NULL, later, rig},
        {HTTP_GET, "/v1/stream", 0, 0, NULL, stream, rig},
        {HTTP_GET, "/v1/bytes", 0, 0, NULL, bytes, rig},
        {HTTP_GET, "/v1/stall", 0, 0, NULL, stall, rig},
    };

    memset(rig, 0, sizeof(*rig));
    memcpy(routes, all, sizeof(all));
    pthread_mutex_init(&rig->lock, NULL);
    pthread_cond_init(&rig->changed, NULL);
    rig->room = SIZE_MAX;
    rig->config = (struct http_config){.address = "127.0.0.1", .routes = routes, .routes_count = ARRAY_COUNT(all), .headers = headers,
                                       .headers_count = ARRAY_COUNT(headers), .log = keep_line, .log_context = rig};
    if (limits != NULL)
        rig->config.limits = *limits;
    if (http_open(&rig->config, &rig->server, &refusal) != STATUS_OK)
        fail_msg("%s", refusal.text);
}

void rig_end(struct rig *rig)
{
    assert_int_equal(rig->held_count, rig->taken_count);
    http_close(rig->server);
    pthread_mutex_destroy(&rig->lock);
    pthread_cond_destroy(&rig->changed);
}

static void wait_change(struct rig *rig, const char *what)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_MS / 1000;
    if (pthread_cond_timedwait(&rig->changed, &rig->lock, &until) != 0) {
        pthread_mutex_unlock(&rig->lock);
        fail_msg("nothing for ten seconds: %s", what);
    }
}

struct http_request *rig_take(struct rig *rig)
{
    struct http_request *request;

    pthread_mutex_lock(&rig->lock);
    while (rig->taken_count == rig->held_count)
        wait_change(rig, "a held request");
    request = rig->held[rig->taken_count++];
    pthread_mutex_unlock(&rig->lock);
    return request;
}

void rig_await(struct rig *rig, const uint32_t *value, uint32_t least)
{
    pthread_mutex_lock(&rig->lock);
    while (*value < least)
        wait_change(rig, "a count");
    pthread_mutex_unlock(&rig->lock);
}

void rig_stall(struct rig *rig)
{
    int fd = client_connect(rig);

    client_say(fd, "GET /v1/stall HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    pthread_mutex_lock(&rig->lock);
    while (!rig->stalls)
        wait_change(rig, "the HTTP thread in a handler");
    pthread_mutex_unlock(&rig->lock);
    close(fd);
}

void rig_go_on(struct rig *rig)
{
    pthread_mutex_lock(&rig->lock);
    rig->goes_on = true;
    pthread_cond_broadcast(&rig->changed);
    pthread_mutex_unlock(&rig->lock);
}

double rig_metric(struct rig *rig, const char *sample)
{
    struct exposition exposition = {0};
    const size_t bytes = strlen(sample);
    double value = 0;

    http_metrics(rig->server, &exposition);
    assert_false(exposition.failed);
    for (const char *line = exposition.text; line != NULL; line = strchr(line, '\n') == NULL ? NULL : strchr(line, '\n') + 1)
        if (strncmp(line, sample, bytes) == 0 && line[bytes] == ' ')
            value = strtod(line + bytes, NULL);
    exposition_free(&exposition);
    return value;
}
