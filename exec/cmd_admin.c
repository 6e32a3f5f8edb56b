#include "cmd_admin.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "control/admin/admin.h"
#include "host/verbs.h"

#define ANSWER_S 30
#define START_S 3

const char *admin_state_folder(void)
{
    const char *state = getenv("BERTH_STATE");

    return state != NULL && state[0] != '\0' ? state : "berth-state";
}

/* A control plane that was started a line before isn't there at once. */
static bool connect_soon(int fd, const struct sockaddr_un *address)
{
    const struct timespec pause = {.tv_nsec = 50 * NS_PER_MS};

    for (int tries = 0; tries < START_S * 20; tries++) {
        if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0)
            return true;
        if (errno != ENOENT && errno != ECONNREFUSED)
            return false;
        nanosleep(&pause, NULL);
    }
    return false;
}

/* -1: said on stderr. */
static int connect_to(const char *verb, const char *state)
{
    const struct timeval patience = {.tv_sec = ANSWER_S};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd;

    if (snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s", state, ADMIN_SOCKET) >= (int)sizeof(address.sun_path)) {
        fprintf(stderr, "berth-exec %s: %s: a socket's path has at most %zu bytes; go nearer to the folder\n", verb, state,
                sizeof(address.sun_path) - 1);
        return -1;
    }
    fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    if (fd >= 0 && connect_soon(fd, &address)) {
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
        return fd;
    }
    fprintf(stderr, "berth-exec %s: %s: %s; is `berth-exec control --state %s` running, and are you its user?\n", verb,
            address.sun_path, strerror(errno), state);
    if (fd >= 0)
        close(fd);
    return -1;
}

static json_t *exchange(const char *verb, int fd, const json_t *request)
{
    static char packet[ADMIN_PACKET_BYTES_MAX];
    char *text = json_dumps(request, JSON_COMPACT);
    json_t *answer = NULL;
    ssize_t got = -1;

    /* One that was refused at the door has its answer already, and nobody who hears. */
    if (text != NULL && (send(fd, text, strlen(text), MSG_NOSIGNAL) >= 0 || errno == EPIPE))
        got = recv(fd, packet, sizeof(packet), 0);
    if (got > 0)
        answer = json_loadb(packet, (size_t)got, JSON_REJECT_DUPLICATES, NULL);
    if (answer == NULL)
        fprintf(stderr, "berth-exec %s: the control plane went away without an answer; whether it was done, a list says\n", verb);
    free(text);
    return answer;
}

static json_t *ask(const char *verb, int fd, const json_t *request)
{
    json_t *answer = exchange(verb, fd, request);
    const char *error = json_string_value(json_object_get(answer, "error"));

    if (error == NULL)
        return answer;
    fprintf(stderr, "berth-exec %s: %s\n", verb, error);
    json_decref(answer);
    return NULL;
}

json_t *admin_ask(const char *verb, const char *state, json_t *request)
{
    const int fd = connect_to(verb, state);
    json_t *answer = fd >= 0 ? ask(verb, fd, request) : NULL;

    if (fd >= 0)
        close(fd);
    json_decref(request);
    return answer;
}

json_t *admin_ask_all(const char *verb, const char *state, json_t *request, const char *name)
{
    const int fd = connect_to(verb, state);
    json_t *all = fd >= 0 ? json_array() : NULL;
    bool more = all != NULL;

    while (more) {
        json_t *answer = ask(verb, fd, request);
        json_t *rows = json_object_get(answer, name);
        const size_t count = json_array_size(rows);

        more = json_is_true(json_object_get(answer, "more")) && count > 0;
        if (more) {
            const json_t *last = json_array_get(rows, count - 1);
            json_t *number = json_object_get(last, "number");

            json_object_set(request, "after", number != NULL ? number : json_object_get(last, "id"));
        }
        if (answer == NULL || json_array_extend(all, rows) != 0) {
            json_decref(all);
            all = NULL;
            more = false;
        }
        json_decref(answer);
    }
    if (fd >= 0)
        close(fd);
    json_decref(request);
    return all;
}

int admin_print_json(json_t *value)
{
    const int failed = json_dumpf(value, stdout, JSON_COMPACT);

    putchar('\n');
    json_decref(value);
    return failed == 0 ? EXIT_OK : EXIT_FAILED;
}

const char *admin_time_text(const json_t *ms, const char *otherwise, char *ret_text)
{
    time_t seconds = (time_t)(json_integer_value(ms) / 1000);
    struct tm parts;

    if (!json_is_integer(ms) || gmtime_r(&seconds, &parts) == NULL || strftime(ret_text, 32, "%Y-%m-%d %H:%M", &parts) == 0)
        return otherwise;
    return ret_text;
}
