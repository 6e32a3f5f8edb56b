/* The listener is ours and not libmicrohttpd's, so that a port can be chosen, a restart finds it free, and another process may have bound it. */
#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/http/internal.h"

#define BACKLOG 1024

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static bool parse_address(const char *text, uint16_t port, union address *ret_address, socklen_t *ret_bytes)
{
    memset(ret_address, 0, sizeof(*ret_address));
    if (inet_pton(AF_INET, text, &ret_address->v4.sin_addr) == 1) {
        ret_address->v4.sin_family = AF_INET;
        ret_address->v4.sin_port = htons(port);
        *ret_bytes = sizeof(ret_address->v4);
        return true;
    }
    if (inet_pton(AF_INET6, text, &ret_address->v6.sin6_addr) != 1)
        return false;
    ret_address->v6.sin6_family = AF_INET6;
    ret_address->v6.sin6_port = htons(port);
    *ret_bytes = sizeof(ret_address->v6);
    return true;
}

static bool is_loopback(const union address *address)
{
    if (address->any.sa_family == AF_INET)
        return ntohl(address->v4.sin_addr.s_addr) >> 24 == 127;
    return address->any.sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&address->v6.sin6_addr);
}

static enum status check_secrecy(const struct http_config *config, const union address *address, struct refusal *refusal)
{
    if (is_loopback(address) || config->certificate_file != NULL)
        return STATUS_OK;
    return refuse(refusal, STATUS_INVALID, "%.64s: without TLS, keys and data would cross the network in the clear; give a certificate "
                  "and its key, or listen on 127.0.0.1 behind a proxy that has them", config->address);
}

enum status http_listen(const struct http_config *config, int *ret_listener, struct refusal *refusal)
{
    union address address;
    socklen_t bytes;
    const int yes = 1;
    enum status status;
    int listener;

    if (!parse_address(config->address, config->port, &address, &bytes))
        return refuse(refusal, STATUS_INVALID, "%.64s: not an IPv4 or IPv6 address; give one as numbers, such as 127.0.0.1", config->address);
    status = check_secrecy(config, &address, refusal);
    if (status != STATUS_OK)
        return status;
    listener = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener >= 0)
        setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (listener < 0 || bind(listener, &address.any, bytes) != 0 || listen(listener, BACKLOG) != 0) {
        status = refuse(refusal, STATUS_IO, "%.64s port %u: %s", config->address, config->port, strerror(errno));
        if (listener >= 0)
            close(listener);
        return status;
    }
    *ret_listener = listener;
    return STATUS_OK;
}

/* False: no socket that listens. */
static bool address_of(int listener, union address *ret_address)
{
    socklen_t bytes = sizeof(*ret_address);
    int listens = 0;
    socklen_t listens_bytes = sizeof(listens);

    memset(ret_address, 0, sizeof(*ret_address));
    return getsockopt(listener, SOL_SOCKET, SO_ACCEPTCONN, &listens, &listens_bytes) == 0 && listens != 0 &&
           getsockname(listener, &ret_address->any, &bytes) == 0;
}

uint16_t http_listener_port(int listener)
{
    union address address;

    if (!address_of(listener, &address))
        return 0;
    if (address.any.sa_family == AF_INET)
        return ntohs(address.v4.sin_port);
    return address.any.sa_family == AF_INET6 ? ntohs(address.v6.sin6_port) : 0;
}

enum status http_listener_check(const struct http_config *config, struct refusal *refusal)
{
    union address address;

    if (http_listener_port(config->listener) == 0 || !address_of(config->listener, &address))
        return refuse(refusal, STATUS_INVALID, "descriptor %d: not a TCP socket that listens", config->listener);
    return check_secrecy(config, &address, refusal);
}
