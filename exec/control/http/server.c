/* Opening, stopping, closing. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "control/http/internal.h"

#define PEM_BYTES_MAX 65536
#define POOL_BYTES 32768 /* a connection's memory in libmicrohttpd: its head, and then what is read or sent at once */
#define UNSENT_BYTES_MAX 65536 /* in the kernel, of one connection; more would hide a slow reader */
#define FAREWELL_MS 1000
#define LOST_S 15
#define TLS_VERSIONS "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

static void set_limits(struct http_limits *limits, const struct http_limits *wanted)
{
#define X(field, value) limits->field = wanted->field != 0 ? wanted->field : (value);
    X(connections_max, 4096)
    X(connections_per_address_max, limits->connections_max)
    X(head_bytes_max, 12 << 10)
    X(streams_max, 2048)
    X(stream_events_max, 512)
    X(stream_bytes_max, 256 << 10)
    X(bodies_bytes_max, 256 << 20)
    X(discard_bytes_max, 8 << 20)
    X(received_per_s_min, 16 << 10)
    X(head_ms, 10000)
    X(idle_ms, 75000)
    X(body_ms, 30000)
    X(sink_ms, 120000)
    X(answer_ms, 30000)
    X(stall_ms, 10000)
    X(ping_ms, 10000)
#undef X
    check(limits->head_bytes_max <= 24 << 10);
    check(limits->stream_bytes_max >= STREAM_LAST_EVENT_MAX);
}

/* --- libmicrohttpd ---------------------------------------------------------------------------------------------------------- */

/* `secret`: refused where group or others may read it. free() it. */
static enum status read_pem(const char *path, bool secret, char **ret_text, struct refusal *refusal)
{
    FILE *file = fopen(path, "r");
    struct stat facts;
    char *text;
    size_t count;

    if (file == NULL)
        return refuse(refusal, STATUS_IO, "%s: %s", path, strerror(errno));
    if (secret && (fstat(fileno(file), &facts) != 0 || (facts.st_mode & 077) != 0)) {
        fclose(file);
        return refuse(refusal, STATUS_INVALID, "%s: others than its owner may read this key; chmod 600 it", path);
    }
    text = malloc(PEM_BYTES_MAX + 1);
    check(text != NULL);
    count = fread(text, 1, PEM_BYTES_MAX + 1, file);
    fclose(file);
    if (count == 0 || count > PEM_BYTES_MAX) {
        http_wipe(text, count);
        free(text);
        return refuse(refusal, STATUS_INVALID, "%s: not a PEM file of 1 to %d bytes", path, PEM_BYTES_MAX);
    }
    text[count] = '\0';
    *ret_text = text;
    return STATUS_OK;
}

static void on_connection(void *context, struct MHD_Connection *mhd, void **socket_context, enum MHD_ConnectionNotificationCode code)
{
    struct http_server *server = context;

    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
        const int unsent = UNSENT_BYTES_MAX;

        setsockopt(info->connect_fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof(unsent));
        *socket_context = http_connection_add(server, info->connect_fd);
        if (*socket_context == NULL)
            shutdown(info->connect_fd, SHUT_RDWR);
    } else if (*socket_context != NULL) {
        http_connection_remove(server, *socket_context);
        *socket_context = NULL;
    }
}

static void *on_request_line(void *context, const char *uri, struct MHD_Connection *mhd)
{
    return http_request_create(context, mhd, uri);
}

/* We decode what we copied; libmicrohttpd's own is left as it came. */
static size_t leave_escaped(void *context, struct MHD_Connection *mhd, char *text)
{
    (void)context, (void)mhd;
    return strlen(text);
}

static enum status start(struct http_server *server, struct refusal *refusal)
{
    const bool tls = server->config.certificate_file != NULL;
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_TURBO | (tls ? MHD_USE_TLS : 0);
    char *certificate = NULL;
    char *key = NULL;
    enum status status = STATUS_OK;

    if (tls)
        status = read_pem(server->config.certificate_file, false, &certificate, refusal);
    if (tls && status == STATUS_OK)
        status = read_pem(server->config.key_file, true, &key, refusal);
    if (status == STATUS_OK) {
        const struct MHD_OptionItem tls_options[] = {
            {MHD_OPTION_HTTPS_MEM_CERT, 0, certificate},
            {MHD_OPTION_HTTPS_MEM_KEY, 0, key},
            {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)TLS_VERSIONS},
            {MHD_OPTION_END, 0, NULL},
        };

        server->daemon = MHD_start_daemon(
            flags, server->port, NULL, NULL, http_on_access, server, MHD_OPTION_LISTEN_SOCKET, server->listener,
            MHD_OPTION_NOTIFY_CONNECTION, on_connection, server, MHD_OPTION_NOTIFY_COMPLETED, http_on_completed, server,
            MHD_OPTION_URI_LOG_CALLBACK, on_request_line, server, MHD_OPTION_UNESCAPE_CALLBACK, leave_escaped, server,
            MHD_OPTION_CONNECTION_LIMIT, server->limits.connections_max, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
            server->limits.connections_per_address_max, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)POOL_BYTES,
            MHD_OPTION_CONNECTION_TIMEOUT, LOST_S + server->limits.idle_ms / 1000,
            MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_ARRAY, tls ? tls_options : tls_options + 3, MHD_OPTION_END);
        if (server->daemon == NULL) {
            server->listener = -1; /* a daemon that does not start closes it */
            status = refuse(refusal, STATUS_IO, tls ? "the server cannot start: is %s the key of %s?" : "the server cannot start%.0s%.0s",
                            tls ? server->config.key_file : "", tls ? server->config.certificate_file : "");
        }
    }
    if (key != NULL)
        http_wipe(key, strlen(key));
    free(key);
    free(certificate);
    return status;
}

/* Descriptors for all connections, as far as the hard limit goes; with fewer, the rest is not accepted until others close. */
static void raise_descriptors(rlim_t wanted)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
    setrlimit(RLIMIT_NOFILE, &limit);
}

enum status http_open(const struct http_config *config, struct http_server **ret_server, struct refusal *refusal)
{
    struct http_server *server = calloc(1, sizeof(*server));
    enum status status;

    check(config->routes_count <= HTTP_ROUTES_MAX && config->headers_count <= HTTP_HEADERS_MAX);
    check((config->certificate_file == NULL) == (config->key_file == NULL));
    for (uint32_t i = 0; i < config->routes_count; i++)
        check(config->routes[i].handle != NULL && config->routes[i].pattern[0] == '/' &&
              ((config->routes[i].flags & HTTP_MULTIPART) == 0 ||
               (config->routes[i].accept != NULL && (config->routes[i].flags & HTTP_NEEDS_BODY) != 0)));
    if (server == NULL)
        return refuse(refusal, STATUS_FULL, "no memory");
    server->config = *config;
    set_limits(&server->limits, &config->limits);
    raise_descriptors(server->limits.connections_max + 256);
    server->listener = server->epoll = server->wake = -1;
    pthread_mutex_init(&server->lock, NULL);
    pthread_cond_init(&server->fewer, NULL);
    server->connections = calloc(server->limits.connections_max, sizeof(server->connections[0]));
    check(server->connections != NULL && getrandom(server->seed, sizeof(server->seed), 0) == sizeof(server->seed));
    for (uint32_t i = 0; i < server->limits.connections_max; i++)
        server->connections[i] = (struct connection){.fd = -1, .next_free = i + 1 < server->limits.connections_max ? i + 1 : NONE_INDEX};
    status = config->listener > 0 ? http_listener_check(config, refusal) : http_listen(config, &server->listener, refusal);
    if (config->listener > 0)
        server->listener = config->listener;
    server->port = http_listener_port(server->listener);
    if (status == STATUS_OK && !http_watch_begin(server))
        status = refuse(refusal, STATUS_IO, "the watching thread cannot start: %s", strerror(errno));
    if (status == STATUS_OK)
        status = start(server, refusal);
    if (status != STATUS_OK) {
        http_close(server);
        return status;
    }
    *ret_server = server;
    return STATUS_OK;
}

uint16_t http_port(const struct http_server *server)
{
    return server->port;
}

/* --- the end ---------------------------------------------------------------------------------------------------------------- */

/* Waits until `*count` (under server.lock) is 0, so long; whether it is. */
static bool wait_for_none(struct http_server *server, const uint32_t *count, uint32_t ms)
{
    struct timespec until;
    int waited = 0;
    bool none;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)(ms / 1000);
    until.tv_nsec += (long)(ms % 1000) * (long)NS_PER_MS;
    if (until.tv_nsec >= NS_PER_S) {
        until.tv_sec++;
        until.tv_nsec -= (long)NS_PER_S;
    }
    pthread_mutex_lock(&server->lock);
    while (*count > 0 && waited == 0)
        waited = pthread_cond_timedwait(&server->fewer, &server->lock, &until);
    none = *count == 0;
    pthread_mutex_unlock(&server->lock);
    return none;
}

void http_stop(struct http_server *server, uint32_t within_ms)
{
    if (atomic_exchange(&server->stopping, true))
        return;
    MHD_quiesce_daemon(server->daemon);
    if (server->config.listener == 0)
        shutdown(server->listener, SHUT_RDWR); /* refuses; it is closed when libmicrohttpd's thread, which may still hold it, has ended */
    http_cut_all(server, true);
    if (!wait_for_none(server, &server->requests_open, within_ms)) {
        http_say_farewell(server);
        wait_for_none(server, &server->requests_open, FAREWELL_MS);
    }
    http_cut_all(server, false);
    while (!wait_for_none(server, &server->requests_open, FAREWELL_MS))
        http_cut_all(server, false);
    /* Those between two requests too; libmicrohttpd closes what is left when it stops. */
    wait_for_none(server, &server->connections_open, FAREWELL_MS);
}

void http_close(struct http_server *server)
{
    if (server->daemon != NULL) {
        http_stop(server, 0);
        check(atomic_load(&server->held) == 0);
        MHD_stop_daemon(server->daemon);
    }
    http_watch_end(server);
    if (server->listener >= 0)
        close(server->listener);
    pthread_cond_destroy(&server->fewer);
    pthread_mutex_destroy(&server->lock);
    free(server->connections);
    free(server);
}
