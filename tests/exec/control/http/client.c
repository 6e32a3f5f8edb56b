/* The clients of rig.h: sockets, and as much of HTTP as an answer needs. */
#include <arpa/inet.h>
#include <ctype.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "rig.h"

#define PATIENCE_MS 10000

int64_t rig_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int client_connect(const struct rig *rig)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(http_port(rig->server))};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

void client_send(int fd, const char *data, size_t count)
{
    while (count > 0) {
        ssize_t sent = send(fd, data, count, MSG_NOSIGNAL);

        if (sent <= 0)
            return; /* closed: what was answered is read all the same */
        data += sent;
        count -= (size_t)sent;
    }
}

void client_say(int fd, const char *text)
{
    client_send(fd, text, strlen(text));
}

/* At most `count` bytes; 0: ended. */
static size_t receive(int fd, char *data, size_t count)
{
    struct pollfd event = {.fd = fd, .events = POLLIN};
    ssize_t got;

    if (poll(&event, 1, PATIENCE_MS) <= 0)
        fail_msg("no byte for ten seconds");
    got = recv(fd, data, count, 0);
    return got > 0 ? (size_t)got : 0;
}

size_t client_take(int fd, char *data, size_t count)
{
    size_t at = 0;

    while (at < count) {
        size_t got = receive(fd, data + at, count - at);

        if (got == 0)
            break;
        at += got;
    }
    return at;
}

void client_await_end(int fd)
{
    char data[4096];

    while (receive(fd, data, sizeof(data)) > 0)
        continue;
}

void client_answer_free(struct client_answer *answer)
{
    free(answer->body);
    answer->body = NULL;
}

static bool header_has(const char *head, const char *name, const char **ret_value)
{
    const size_t bytes = strlen(name);

    for (const char *line = strstr(head, "\r\n"); line != NULL; line = strstr(line + 2, "\r\n")) {
        size_t i = 0;

        while (i < bytes && tolower((unsigned char)line[2 + i]) == name[i])
            i++;
        if (i == bytes && line[2 + i] == ':') {
            *ret_value = line + 2 + i + 1 + (line[2 + i + 1] == ' ');
            return true;
        }
    }
    return false;
}

static void body_add(struct client_answer *answer, const char *data, size_t count)
{
    answer->body = realloc(answer->body, answer->count + count + 1);
    assert_non_null(answer->body);
    memcpy(answer->body + answer->count, data, count);
    answer->count += count;
    answer->body[answer->count] = '\0';
}

static void read_chunks(int fd, struct client_answer *answer)
{
    for (;;) {
        char line[32] = "";
        char data[65536];
        size_t at = 0;
        size_t left;

        while (at < sizeof(line) - 1 && (at < 2 || line[at - 1] != '\n')) {
            if (client_take(fd, line + at, 1) == 0)
                return;
            at++;
        }
        left = strtoul(line, NULL, 16);
        answer->whole = left == 0;
        for (size_t want = left; want > 0;) {
            const size_t got = client_take(fd, data, min_u64(want, sizeof(data)));

            body_add(answer, data, got);
            if (got == 0)
                return;
            want -= got;
        }
        if (client_take(fd, data, 2) < 2 || left == 0)
            return;
    }
}

void client_read(int fd, struct client_answer *answer)
{
    const char *value;
    size_t at = 0;
    size_t left;
    char data[65536];

    client_answer_free(answer);
    memset(answer, 0, sizeof(*answer));
    body_add(answer, "", 0);
    while (at < sizeof(answer->head) - 1 && strstr(answer->head, "\r\n\r\n") == NULL) {
        if (client_take(fd, answer->head + at, 1) == 0) {
            answer->closed = true;
            return;
        }
        at++;
    }
    answer->status = (unsigned)strtoul(answer->head + 9, NULL, 10);
    if (answer->status == 204 || answer->status == 100) {
        answer->whole = true;
    } else if (header_has(answer->head, "transfer-encoding", &value)) {
        read_chunks(fd, answer);
    } else if (header_has(answer->head, "content-length", &value)) {
        for (left = strtoul(value, NULL, 10); left > 0; left -= at) {
            at = client_take(fd, data, min_u64(left, sizeof(data)));
            body_add(answer, data, at);
            if (at == 0)
                break;
        }
        answer->whole = left == 0;
    }
    answer->closed = header_has(answer->head, "connection", &value) && strncmp(value, "close", 5) == 0;
}

void client_ask(const struct rig *rig, const char *text, struct client_answer *answer)
{
    int fd = client_connect(rig);

    client_say(fd, text);
    client_read(fd, answer);
    close(fd);
}

const char *answer_field(const struct client_answer *answer, const char *object, const char *key)
{
    static char text[1024];
    json_t *root = json_loadb(answer->body, answer->count, 0, NULL);
    json_t *from = object == NULL ? root : json_object_get(root, object);
    json_t *value = json_object_get(from, key);

    text[0] = '\0';
    if (json_is_string(value))
        snprintf(text, sizeof(text), "%s", json_string_value(value));
    else if (json_is_integer(value))
        snprintf(text, sizeof(text), "%lld", (long long)json_integer_value(value));
    else if (json_is_boolean(value))
        snprintf(text, sizeof(text), "%s", json_is_true(value) ? "true" : "false");
    json_decref(root);
    return text;
}
