#include "engine/files/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static enum status address_of(const char *path, struct sockaddr_un *ret_address, struct refusal *refusal)
{
    memset(ret_address, 0, sizeof(*ret_address));
    ret_address->sun_family = AF_UNIX;
    if (strlen(path) >= sizeof(ret_address->sun_path))
        return refuse(refusal, STATUS_INVALID, "%s: a socket's path has at most %zu bytes", path, sizeof(ret_address->sun_path) - 1);
    strcpy(ret_address->sun_path, path);
    return STATUS_OK;
}

static enum status socket_open(const char *path, int type, struct sockaddr_un *ret_address, int *ret_socket, struct refusal *refusal)
{
    enum status status = address_of(path, ret_address, refusal);

    if (status != STATUS_OK)
        return status;
    *ret_socket = socket(AF_UNIX, type, 0);
    if (*ret_socket < 0)
        return refuse(refusal, STATUS_IO, "%s: %s", path, strerror(errno));
    fcntl(*ret_socket, F_SETFD, FD_CLOEXEC);
    return STATUS_OK;
}

enum status socket_listen(const char *path, int type, int waiting_max, const char *who, int *ret_socket, struct refusal *refusal)
{
    struct sockaddr_un address;
    struct stat facts;
    mode_t mask;
    int listener = -1;
    int bound;
    enum status status = socket_open(path, type, &address, &listener, refusal);

    if (status != STATUS_OK)
        return status;
    if (connect(listener, (const struct sockaddr *)&address, sizeof(address)) == 0) {
        close(listener);
        return refuse(refusal, STATUS_IO, "%s: another %s listens there", path, who);
    }
    if (errno == ECONNREFUSED && lstat(path, &facts) == 0 && S_ISSOCK(facts.st_mode))
        unlink(path); /* left behind by one that was killed; anything else there stays, and bind() says so */
    mask = umask(0177);
    bound = bind(listener, (const struct sockaddr *)&address, sizeof(address));
    umask(mask);
    if (bound != 0 || listen(listener, waiting_max) != 0) {
        status = refuse(refusal, STATUS_IO, "%s: %s", path, strerror(errno));
        close(listener);
        return status;
    }
    fcntl(listener, F_SETFL, O_NONBLOCK);
    *ret_socket = listener;
    return STATUS_OK;
}

enum status socket_connect(const char *path, int type, int *ret_socket, struct refusal *refusal)
{
    struct sockaddr_un address;
    int line = -1;
    enum status status = socket_open(path, type, &address, &line, refusal);

    if (status != STATUS_OK)
        return status;
    if (connect(line, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        status = refuse(refusal, STATUS_IO, "%s: %s", path, errno == ECONNREFUSED || errno == ENOENT ? "nobody listens there" : strerror(errno));
        close(line);
        return status;
    }
    *ret_socket = line;
    return STATUS_OK;
}
