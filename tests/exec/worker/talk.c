#include "talk.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* --- a server --------------------------------------------------------------------------------------------------------------- */

void served_begin(struct served *served, void (*change)(struct worker_config *config))
{
    struct worker_config config;
    char error[TOKENIZER_ERROR_MAX];

    memset(served, 0, sizeof(*served));
    place_begin(&served->place, DTYPE_F32);
    snprintf(served->adapters, sizeof(served->adapters), "%s", scratch_folder(&served->place.scratch, "adapters"));
    snprintf(served->socket, sizeof(served->socket), "%s", scratch_at(&served->place.scratch, "socket"));
    place_worker_config(&served->place, &config);
    config.positions_max = 256;
    if (change != NULL)
        change(&config);
    assert_int_equal(tokenizer_open(served->place.base, &served->tokenizer, error), STATUS_OK);
    served->log = tmpfile();
    assert_non_null(served->log);
    served->config = (struct server_config){.socket_path = served->socket,
                                            .adapters_directory = served->adapters,
                                            .worker = worker_opened(&config),
                                            .tokenizer = served->tokenizer,
                                            .log = served->log};
}

static void *run(void *context)
{
    struct served *served = context;

    served->status = server_run(&served->config, &served->stop, &served->refusal);
    return NULL;
}

void served_start(struct served *served)
{
    assert_int_equal(pthread_create(&served->thread, NULL, run, served), 0);
}

void served_adapter(struct served *served, const char *name, uint64_t seed)
{
    char inside[128];

    snprintf(inside, sizeof(inside), "adapters/%s", name);
    place_adapter(&served->place, inside, 8, seed);
}

/* As a signal's handler would: nothing orders it but that the server looks now and then. */
__attribute__((no_sanitize("thread"))) void served_stop(struct served *served)
{
    served->stop = 1;
}

enum status served_wait(struct served *served)
{
    assert_int_equal(pthread_join(served->thread, NULL), 0);
    return served->status;
}

bool served_logged(struct served *served, const char *text)
{
    char all[8192];
    size_t count;

    rewind(served->log);
    count = fread(all, 1, sizeof(all) - 1, served->log);
    all[count] = '\0';
    return strstr(all, text) != NULL;
}

void served_end(struct served *served)
{
    worker_close(served->config.worker);
    tokenizer_close(served->tokenizer);
    fclose(served->log);
    place_end(&served->place);
}

/* --- a connection ----------------------------------------------------------------------------------------------------------- */

static time_t seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

void talk_begin(struct talk *talk, const struct served *served)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    time_t since = seconds();

    memset(talk, 0, sizeof(*talk));
    strcpy(address.sun_path, served->socket);
    talk->fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_true(talk->fd >= 0);
    while (connect(talk->fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        if (seconds() - since > 60)
            fail_msg("nobody listens: %s", strerror(errno));
        sched_yield();
    }
}

void talk_end(struct talk *talk)
{
    close(talk->fd);
    free(talk->bytes);
}

static void await(const struct talk *talk, short events)
{
    struct pollfd event = {.fd = talk->fd, .events = events};

    if (poll(&event, 1, 60000) <= 0)
        fail_msg("a minute without a word");
}

void talk_say(struct talk *talk, const char *format, ...)
{
    char line[8192];
    size_t at = 0;
    va_list list;
    int count;

    va_start(list, format);
    count = vsnprintf(line, sizeof(line) - 1, format, list);
    va_end(list);
    assert_true(count >= 0 && count < (int)sizeof(line) - 1);
    line[count++] = '\n';
    while (at < (size_t)count) {
        ssize_t sent = send(talk->fd, line + at, (size_t)count - at, MSG_NOSIGNAL);

        if (sent < 0)
            return; /* closed: what is heard next says so */
        at += (size_t)sent;
    }
}

size_t talk_push(struct talk *talk, const char *bytes, size_t count)
{
    ssize_t sent = send(talk->fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);

    return sent < 0 ? 0 : (size_t)sent;
}

json_t *talk_hear(struct talk *talk)
{
    for (;;) {
        char *newline = talk->count > 0 ? memchr(talk->bytes, '\n', talk->count) : NULL;
        ssize_t got;

        if (newline != NULL) {
            size_t bytes = (size_t)(newline - talk->bytes);
            json_t *object = json_loadb(talk->bytes, bytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);

            if (object == NULL)
                fail_msg("no JSON: %.*s", (int)bytes, talk->bytes);
            memmove(talk->bytes, newline + 1, talk->count - bytes - 1);
            talk->count -= bytes + 1;
            return object;
        }
        if (talk->size - talk->count < 4096) {
            talk->size = talk->size == 0 ? 65536 : 2 * talk->size;
            talk->bytes = realloc(talk->bytes, talk->size);
            assert_non_null(talk->bytes);
        }
        await(talk, POLLIN);
        got = recv(talk->fd, talk->bytes + talk->count, talk->size - talk->count, 0);
        if (got <= 0)
            return NULL;
        talk->count += (size_t)got;
    }
}

json_t *talk_ask(struct talk *talk, const char *line)
{
    json_t *object;

    talk_say(talk, "%s", line);
    object = talk_hear(talk);
    assert_non_null(object);
    return object;
}

void talk_expect_error(struct talk *talk, const char *code, const char *why)
{
    json_t *object = talk_hear(talk);

    assert_non_null(object);
    if (strcmp(text_of(object, "code"), code) != 0 || strstr(text_of(object, "error"), why) == NULL)
        fail_msg("expected %s, \"%s\", heard %s, \"%s\"", code, why, text_of(object, "code"), text_of(object, "error"));
    json_decref(object);
}

void talk_drain(struct talk *talk)
{
    json_t *object = talk_ask(talk, "{\"op\": \"drain\"}");

    assert_string_equal(text_of(object, "op"), "drain");
    json_decref(object);
}

void served_drain_and_end(struct served *served)
{
    struct talk talk;

    talk_begin(&talk, served);
    talk_drain(&talk);
    assert_null(talk_hear(&talk));
    talk_end(&talk);
    assert_int_equal(served_wait(served), STATUS_OK);
    assert_int_not_equal(access(served->socket, F_OK), 0);
    served_end(served);
}

json_t *talk_hear_answer(struct talk *talk, json_int_t id, int32_t *ret_ids, uint32_t *ret_count)
{
    *ret_count = 0;
    for (;;) {
        json_t *object = talk_hear(talk);

        assert_non_null(object);
        assert_int_equal(number_of(object, "id"), id);
        if (number_of(object, "token") < 0)
            return object;
        assert_int_equal(number_of(object, "index"), *ret_count);
        ret_ids[(*ret_count)++] = (int32_t)number_of(object, "token");
        json_decref(object);
    }
}

const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text != NULL ? text : "";
}

json_int_t number_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    return json_is_integer(value) ? json_integer_value(value) : -1;
}
