/* The socket and its clients: who may speak, one packet in, one packet out. */
#define _GNU_SOURCE /* SO_PEERCRED's struct ucred, accept4 */
#include "control/admin/admin.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "control/admin/ops.h"

struct client {
    int fd; /* -1: none */
    uid_t uid;
    int64_t heard_at_ms;
};

struct admin {
    struct admin_config config;
    struct sockaddr_un address;
    int listener;
    uid_t owner; /* of the folder */
    struct client clients[ADMIN_CLIENTS_MAX];
    char packet[ADMIN_PACKET_BYTES_MAX];
};

static int64_t clock_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* --- opening ---------------------------------------------------------------------------------------------------------------- */

static enum status listen_there(struct admin *admin, struct refusal *refusal)
{
    const char *path = admin->address.sun_path;
    struct stat info;

    if (lstat(path, &info) == 0 && !S_ISSOCK(info.st_mode))
        return refuse(refusal, STATUS_INVALID, "%s: something else lies where the socket is to be", path);
    admin->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (admin->listener < 0)
        return refuse(refusal, STATUS_IO, "no socket: %s", strerror(errno));
    (void)unlink(path);
    if (bind(admin->listener, (const struct sockaddr *)&admin->address, sizeof(admin->address)) != 0 || chmod(path, 0600) != 0 ||
        listen(admin->listener, ADMIN_CLIENTS_MAX) != 0)
        return refuse(refusal, STATUS_IO, "%s: %s", path, strerror(errno));
    return STATUS_OK;
}

enum status admin_open(const struct admin_config *config, struct admin **ret_admin, struct refusal *refusal)
{
    struct admin *admin;
    struct stat info;
    enum status status;

    if (stat(config->folder, &info) != 0)
        return refuse(refusal, STATUS_IO, "%s: %s", config->folder, strerror(errno));
    if (strlen(config->folder) + sizeof("/" ADMIN_SOCKET) > sizeof(admin->address.sun_path))
        return refuse(refusal, STATUS_INVALID, "%s: a socket's path has at most %zu bytes; take a shorter folder", config->folder,
                      sizeof(admin->address.sun_path) - 1);
    admin = calloc(1, sizeof(*admin));
    if (admin == NULL)
        return refuse(refusal, STATUS_IO, "no memory for administration");
    admin->config = *config;
    admin->listener = -1;
    admin->owner = info.st_uid;
    admin->address.sun_family = AF_UNIX;
    snprintf(admin->address.sun_path, sizeof(admin->address.sun_path), "%s/%s", config->folder, ADMIN_SOCKET);
    for (uint32_t i = 0; i < ADMIN_CLIENTS_MAX; i++)
        admin->clients[i].fd = -1;
    status = listen_there(admin, refusal);
    if (status != STATUS_OK) {
        admin_close(admin);
        return status;
    }
    *ret_admin = admin;
    return STATUS_OK;
}

static void let_go(struct client *client)
{
    close(client->fd);
    client->fd = -1;
}

void admin_close(struct admin *admin)
{
    if (admin == NULL)
        return;
    for (uint32_t i = 0; i < ADMIN_CLIENTS_MAX; i++)
        if (admin->clients[i].fd >= 0)
            let_go(&admin->clients[i]);
    if (admin->listener >= 0) {
        close(admin->listener);
        (void)unlink(admin->address.sun_path);
    }
    free(admin);
}

/* --- clients ---------------------------------------------------------------------------------------------------------------- */

/* False: it does not read, or is gone. Takes the answer. */
static bool tell(int fd, json_t *answer)
{
    char *text = answer != NULL ? json_dumps(answer, JSON_COMPACT) : NULL;
    bool told = false;

    if (text != NULL)
        told = send(fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)strlen(text);
    /* An answer may hold a key. */
    if (text != NULL)
        explicit_bzero(text, strlen(text));
    free(text);
    json_decref(answer);
    return told;
}

static void turn_away(const struct admin *admin, int fd, enum status status, const char *why, uid_t uid)
{
    fprintf(admin->config.log, "admin refused uid=%lu why=%s\n", (unsigned long)uid, status == STATUS_FULL ? "full" : "peer");
    (void)tell(fd, admin_error(status, why));
    close(fd);
}

static void welcome(struct admin *admin)
{
    const int fd = accept4(admin->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct ucred peer = {0};
    socklen_t size = sizeof(peer);

    if (fd < 0)
        return;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || (peer.uid != 0 && peer.uid != admin->owner)) {
        turn_away(admin, fd, STATUS_INVALID, "only the owner of the control plane's folder, or root, may administer it", peer.uid);
        return;
    }
    for (uint32_t i = 0; i < ADMIN_CLIENTS_MAX; i++) {
        if (admin->clients[i].fd >= 0)
            continue;
        admin->clients[i] = (struct client){.fd = fd, .uid = peer.uid, .heard_at_ms = clock_ms()};
        return;
    }
    turn_away(admin, fd, STATUS_FULL, "too many administer at once; try again", peer.uid);
}

static void hear(struct admin *admin, struct client *client)
{
    const ssize_t got = recv(client->fd, admin->packet, sizeof(admin->packet), MSG_TRUNC);

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    client->heard_at_ms = clock_ms();
    if (got <= 0 ||
        !tell(client->fd, (size_t)got > sizeof(admin->packet)
                              ? admin_error(STATUS_INVALID, "a request has at most 64 KiB")
                              : admin_answer(&admin->config, client->uid, admin->packet, (size_t)got)))
        let_go(client);
}

/* --- the loop --------------------------------------------------------------------------------------------------------------- */

static void let_idle_go(struct admin *admin)
{
    const int64_t now_ms = clock_ms();

    for (uint32_t i = 0; i < ADMIN_CLIENTS_MAX; i++)
        if (admin->clients[i].fd >= 0 && now_ms - admin->clients[i].heard_at_ms > ADMIN_IDLE_MS)
            let_go(&admin->clients[i]);
}

enum status admin_run(struct admin *admin, int stop, struct refusal *refusal)
{
    for (;;) {
        struct pollfd events[ADMIN_CLIENTS_MAX + 2];

        events[0] = (struct pollfd){.fd = stop, .events = POLLIN};
        events[1] = (struct pollfd){.fd = admin->listener, .events = POLLIN};
        for (uint32_t i = 0; i < ADMIN_CLIENTS_MAX; i++)
            events[i + 2] = (struct pollfd){.fd = admin->clients[i].fd, .events = POLLIN};
        if (poll(events, ADMIN_CLIENTS_MAX + 2, ADMIN_IDLE_MS / 2) < 0 && errno != EINTR)
            return refuse(refusal, STATUS_IO, "administration: %s", strerror(errno));
        if (events[0].revents != 0)
            return STATUS_OK;
        for (uint32_t i = 0; i < ADMIN_CLIENTS_MAX; i++)
            if (admin->clients[i].fd >= 0 && events[i + 2].revents != 0)
                hear(admin, &admin->clients[i]);
        if (events[1].revents != 0)
            welcome(admin);
        let_idle_go(admin);
    }
}
