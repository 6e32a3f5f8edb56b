/* The watcher: one thread that ends who is slow and notices who has left. libmicrohttpd's own time-out counts silence, so a byte every
 * two seconds holds a connection for ever, and it does not look at connections that are suspended. Nor does it see each end: it is told of
 * changes only, and takes a read of less than it asked for as the sign that nothing more is there, so an end that came with the last bytes
 * is not read. */
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "control/http/internal.h"

#define LOOK_MS 50
#define EVENTS_MAX 128
#define WAKE_MARK UINT64_MAX

int64_t http_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * NS_PER_S + now.tv_nsec;
}

void http_set_deadline(struct http_request *request, enum cut cut_as, int64_t deadline_ns)
{
    atomic_store(&request->connection->cut_as, (int)cut_as);
    atomic_store(&request->connection->deadline_ns, deadline_ns);
}

struct connection *http_connection_add(struct http_server *server, int fd)
{
    struct connection *connection = NULL;
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLONESHOT};

    pthread_mutex_lock(&server->lock);
    if (server->first_free != NONE_INDEX) {
        connection = &server->connections[server->first_free];
        event.data.u64 = (uint64_t)(connection->generation + 1) << 32 | server->first_free;
        server->first_free = connection->next_free;
        connection->generation++;
        connection->fd = fd;
        connection->gone = false;
        connection->request = NULL;
        atomic_store(&connection->cut_as, CUT_HEAD);
        atomic_store(&connection->deadline_ns, http_now_ns() + server->limits.head_ms * NS_PER_MS);
        server->connections_open++;
        (void)epoll_ctl(server->epoll, EPOLL_CTL_ADD, fd, &event);
    }
    pthread_mutex_unlock(&server->lock);
    return connection;
}

void http_connection_remove(struct http_server *server, struct connection *connection)
{
    pthread_mutex_lock(&server->lock);
    (void)epoll_ctl(server->epoll, EPOLL_CTL_DEL, connection->fd, NULL);
    connection->fd = -1;
    connection->next_free = server->first_free;
    server->first_free = (uint32_t)(connection - server->connections);
    server->connections_open--;
    pthread_cond_broadcast(&server->fewer);
    pthread_mutex_unlock(&server->lock);
}

/* Under server.lock. */
static void mark_gone(struct connection *connection)
{
    struct http_request *request = connection->request;

    connection->gone = true;
    if (request == NULL)
        return;
    pthread_mutex_lock(&request->lock);
    http_request_gone(request);
    pthread_mutex_unlock(&request->lock);
}

static void hear_events(struct http_server *server, const struct epoll_event *events, int count)
{
    pthread_mutex_lock(&server->lock);
    for (int i = 0; i < count; i++) {
        const uint64_t mark = events[i].data.u64;
        struct connection *connection;
        uint64_t ignored;

        if (mark == WAKE_MARK) {
            (void)!read(server->wake, &ignored, sizeof(ignored));
            continue;
        }
        connection = &server->connections[(uint32_t)mark];
        if (connection->fd < 0 || connection->generation != (uint32_t)(mark >> 32))
            continue;
        if (connection->request != NULL && !connection->gone)
            http_count_cut(server, CUT_LEFT);
        mark_gone(connection);
    }
    pthread_mutex_unlock(&server->lock);
}

/* Tells libmicrohttpd of a change, so that it reads what is left and then the end, which has come: what is not read yet stays. Again
 * and again, for it may take this change too for the one of the last bytes. */
static void remind(const struct connection *connection)
{
    shutdown(connection->fd, SHUT_RD);
}

/* Shutting it makes libmicrohttpd close it; until it has, the descriptor stays this connection's. */
static void cut(struct http_server *server, struct connection *connection, enum cut why)
{
    atomic_store(&connection->deadline_ns, NEVER_NS);
    if (!connection->gone)
        http_count_cut(server, why);
    mark_gone(connection);
    shutdown(connection->fd, SHUT_RDWR);
}

static void look_at_all(struct http_server *server)
{
    const int64_t now_ns = http_now_ns();
    uint32_t left;

    pthread_mutex_lock(&server->lock);
    left = server->connections_open;
    for (struct connection *connection = server->connections; left > 0; connection++) {
        if (connection->fd < 0)
            continue;
        left--;
        if (connection->request != NULL) {
            pthread_mutex_lock(&connection->request->lock);
            if (connection->request->state == REQUEST_STREAM && !connection->request->gone)
                http_stream_look(connection->request, now_ns);
            pthread_mutex_unlock(&connection->request->lock);
        }
        if (connection->gone)
            remind(connection);
        if (atomic_load(&connection->deadline_ns) < now_ns)
            cut(server, connection, (enum cut)atomic_load(&connection->cut_as));
    }
    pthread_mutex_unlock(&server->lock);
}

static void *watch(void *context)
{
    struct http_server *server = context;
    int64_t looked_ns = http_now_ns();

    while (!atomic_load(&server->closing)) {
        struct epoll_event events[EVENTS_MAX];
        const int count = epoll_wait(server->epoll, events, EVENTS_MAX, LOOK_MS);

        if (count > 0)
            hear_events(server, events, count);
        if (http_now_ns() - looked_ns < LOOK_MS * NS_PER_MS)
            continue;
        looked_ns = http_now_ns();
        look_at_all(server);
    }
    return NULL;
}

bool http_watch_begin(struct http_server *server)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = WAKE_MARK};

    server->epoll = epoll_create1(EPOLL_CLOEXEC);
    server->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (server->epoll < 0 || server->wake < 0 || epoll_ctl(server->epoll, EPOLL_CTL_ADD, server->wake, &event) != 0)
        return false;
    server->watching = pthread_create(&server->watcher, NULL, watch, server) == 0;
    return server->watching;
}

void http_watch_end(struct http_server *server)
{
    const uint64_t one = 1;

    atomic_store(&server->closing, true);
    if (server->watching) {
        (void)!write(server->wake, &one, sizeof(one));
        pthread_join(server->watcher, NULL);
    }
    if (server->epoll >= 0)
        close(server->epoll);
    if (server->wake >= 0)
        close(server->wake);
}

void http_say_farewell(struct http_server *server)
{
    pthread_mutex_lock(&server->lock);
    for (uint32_t i = 0; i < server->limits.connections_max; i++) {
        struct http_request *request = server->connections[i].request;

        if (server->connections[i].fd < 0 || request == NULL)
            continue;
        pthread_mutex_lock(&request->lock);
        if (!request->gone && request->state == REQUEST_HANDED)
            http_answer_stopping(request);
        else if (!request->gone && request->state == REQUEST_STREAM)
            http_stream_fail_locked(request, 503, "stopping", HTTP_STOPPING_TEXT);
        pthread_mutex_unlock(&request->lock);
    }
    pthread_mutex_unlock(&server->lock);
}

void http_cut_all(struct http_server *server, bool idle_only)
{
    pthread_mutex_lock(&server->lock);
    for (uint32_t i = 0; i < server->limits.connections_max; i++) {
        struct connection *connection = &server->connections[i];

        if (connection->fd >= 0 && !(idle_only && connection->request != NULL))
            cut(server, connection, CUT_STOP);
    }
    pthread_mutex_unlock(&server->lock);
}
