/* What the server tells of itself: a line a request with allow-listed fields only, and counters. Never a path, a query, a header, a
 * body or a key; the route's pattern stands for the path. */
#include <stdio.h>
#include <time.h>

#include "control/http/internal.h"

static const double bounds_s[LATENCY_BOUNDS] = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 15, 60, 300};

void http_count_cut(struct http_server *server, enum cut cut)
{
    atomic_fetch_add_explicit(&server->cuts[cut], 1, memory_order_relaxed);
}

static int64_t wall_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * 1000 + now.tv_nsec / NS_PER_MS;
}

static void write_line(struct http_request *request, int64_t took_ns)
{
    const struct http_config *config = &request->server->config;
    const char *route = request->route < HTTP_ROUTES_MAX ? config->routes[request->route].pattern : "none";
    char line[512];
    char key_id[sizeof(request->key_id)];

    pthread_mutex_lock(&request->lock); /* its owner may be naming it now */
    memcpy(key_id, request->key_id, sizeof(key_id));
    pthread_mutex_unlock(&request->lock);
    snprintf(line, sizeof(line),
             "{\"at_ms\":%lld,\"id\":\"%s\",\"method\":\"%s\",\"route\":\"%s\",\"status\":%u,\"ms\":%.3f,\"received_bytes\":%llu,"
             "\"sent_bytes\":%llu,\"key\":\"%s\"}",
             (long long)wall_ms(), request->id, request->method, route, request->status, (double)took_ns * 1e-6,
             (unsigned long long)request->body_bytes, (unsigned long long)request->sent_bytes, key_id);
    config->log(config->log_context, line);
}

/* The connection has ended the request, and said so under its lock: nobody else writes its numbers any more. */
void http_measure(struct http_request *request)
{
    struct http_server *server = request->server;
    struct route_counts *counts = &server->counts[request->route];
    const int64_t took_ns = http_now_ns() - request->begun_ns;
    int bound = 0;

    while (bound < LATENCY_BOUNDS && (double)took_ns * 1e-9 > bounds_s[bound])
        bound++;
    atomic_fetch_add_explicit(&counts->status[request->status / 100 % 6], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&counts->latency[bound], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&counts->latency_ns, (uint64_t)took_ns, memory_order_relaxed);
    atomic_fetch_add_explicit(&server->sent_bytes, request->sent_bytes, memory_order_relaxed);
    if (server->config.log != NULL)
        write_line(request, took_ns);
}

static void route_labels(const struct http_server *server, uint32_t index, struct exposition_label labels[3])
{
    static const char *const methods[HTTP_METHOD_COUNT] = {"GET", "POST", "PUT", "DELETE"};
    const bool known = index < server->config.routes_count;

    labels[0] = (struct exposition_label){"method", known ? methods[server->config.routes[index].method] : "other"};
    labels[1] = (struct exposition_label){"route", known ? server->config.routes[index].pattern : "none"};
    labels[2] = (struct exposition_label){NULL, NULL};
}

/* Routes nobody has asked for are left out. */
static bool is_used(struct http_server *server, uint32_t index)
{
    uint64_t sum = 0;

    for (int i = 0; i < 6; i++)
        sum += atomic_load_explicit(&server->counts[index].status[i], memory_order_relaxed);
    return sum > 0;
}

static void tell_requests(struct http_server *server, struct exposition *exposition)
{
    static const char *const classes[6] = {"none", "1xx", "2xx", "3xx", "4xx", "5xx"};

    exposition_family(exposition, "berth_http_requests_total", "counter", "Requests by route and class of status; none: cut before an answer.");
    for (uint32_t i = 0; i <= HTTP_ROUTES_MAX; i++) {
        struct exposition_label labels[4];

        if (!is_used(server, i))
            continue;
        route_labels(server, i, labels);
        labels[3] = (struct exposition_label){NULL, NULL};
        for (int class = 0; class < 6; class++) {
            const uint64_t count = atomic_load_explicit(&server->counts[i].status[class], memory_order_relaxed);

            labels[2] = (struct exposition_label){"status", classes[class]};
            if (count > 0)
                exposition_sample(exposition, "berth_http_requests_total", "", labels, (double)count);
        }
    }
}

static void tell_latencies(struct http_server *server, struct exposition *exposition)
{
    exposition_family(exposition, "berth_http_request_seconds", "histogram", "From a request's first line to the end of its answer or stream.");
    for (uint32_t i = 0; i <= HTTP_ROUTES_MAX; i++) {
        struct exposition_label labels[3];
        uint64_t counts[LATENCY_BOUNDS + 1];

        if (!is_used(server, i))
            continue;
        route_labels(server, i, labels);
        for (int bound = 0; bound <= LATENCY_BOUNDS; bound++)
            counts[bound] = atomic_load_explicit(&server->counts[i].latency[bound], memory_order_relaxed);
        exposition_histogram(exposition, "berth_http_request_seconds", labels, bounds_s, counts, LATENCY_BOUNDS,
                             (double)atomic_load_explicit(&server->counts[i].latency_ns, memory_order_relaxed) * 1e-9);
    }
}

static void tell_one(struct exposition *exposition, const char *name, const char *type, const char *help, uint64_t value)
{
    exposition_family(exposition, name, type, help);
    exposition_sample(exposition, name, "", NULL, (double)value);
}

void http_metrics(struct http_server *server, struct exposition *exposition)
{
    static const char *const cuts[CUT_COUNT] = {
#define X(name, text) text,
        CUT_LIST(X)
#undef X
    };
    uint32_t connections;

    pthread_mutex_lock(&server->lock);
    connections = server->connections_open;
    pthread_mutex_unlock(&server->lock);
    tell_requests(server, exposition);
    tell_latencies(server, exposition);
    tell_one(exposition, "berth_http_connections_open", "gauge", "Connections that are open.", connections);
    tell_one(exposition, "berth_http_streams_open", "gauge", "Streams that their owners have not ended.", atomic_load(&server->streams));
    tell_one(exposition, "berth_http_requests_held", "gauge", "Requests and streams with their owners.", atomic_load(&server->held));
    tell_one(exposition, "berth_http_received_bytes_total", "counter", "Bytes of bodies that came.", atomic_load(&server->received_bytes));
    tell_one(exposition, "berth_http_sent_bytes_total", "counter", "Bytes of answers that ended.", atomic_load(&server->sent_bytes));
    exposition_family(exposition, "berth_http_cut_total", "counter", "Connections that were cut or left, and heads that were refused.");
    for (int i = 0; i < CUT_COUNT; i++) {
        const struct exposition_label labels[] = {{"reason", cuts[i]}, {NULL, NULL}};

        exposition_sample(exposition, "berth_http_cut_total", "", labels, (double)atomic_load(&server->cuts[i]));
    }
}
