#include "worker/server.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "engine/safetensors/safetensors.h"
#include "worker/answer.h"

struct server;
struct client;

/* A request of a client. */
struct live {
    struct answer answer;
    struct client *client; /* NULL: it has left */
    json_int_t id;
    uint32_t index;
    bool over;
    struct live *next;
};

struct client {
    struct server *server;
    int fd; /* -1: free */
    bool leaving; /* close when its answers are out */
    char *in;
    size_t in_count, in_size;
    struct token_text out;
    size_t out_sent;
};

struct server {
    const struct server_config *config;
    int listener;
    struct client clients[SERVER_CLIENTS_MAX];
    struct live *lives;
    uint64_t answered;
};

/* --- answers to a client ---------------------------------------------------------------------------------------------------- */

static int add_bytes(const char *bytes, size_t count, void *context)
{
    token_text_add(context, bytes, count);
    return 0;
}

/* Takes the object over. */
static void say(struct client *client, json_t *object)
{
    if (client != NULL && client->fd >= 0 && !client->leaving) {
        json_dump_callback(object, add_bytes, &client->out, JSON_COMPACT | JSON_REAL_PRECISION(9));
        token_text_add(&client->out, "\n", 1);
    }
    json_decref(object);
}

static const char *code_of(enum status status)
{
    return status == STATUS_NOT_FOUND ? "not_found" : status == STATUS_FULL ? "busy" : status == STATUS_INVALID ? "bad_request" : "failed";
}

static void say_error(struct client *client, const json_t *id, const char *text, enum status status)
{
    json_t *object = json_object();

    if (json_is_integer(id))
        json_object_set_new(object, "id", json_integer(json_integer_value(id)));
    json_object_set_new(object, "error", json_string(text));
    json_object_set_new(object, "code", json_string(code_of(status)));
    say(client, object);
}

/* --- requests --------------------------------------------------------------------------------------------------------------- */

static void got_token(void *owner, const struct answer_token *token, const char *text, size_t bytes)
{
    struct live *live = owner;
    json_t *object;

    if (live->client == NULL)
        return;
    object = json_pack("{s:I, s:i, s:i, s:f}", "id", live->id, "index", (int)live->index++, "token", token->id, "logprob",
                       (double)token->logprob);
    if (live->answer.tokenizer != NULL)
        json_object_set_new(object, "text", json_stringn(text, bytes));
    if (token->best_count > 0) {
        json_t *list = json_array();

        for (uint32_t i = 0; i < token->best_count; i++)
            json_array_append_new(list, json_pack("{s:i, s:f}", "id", token->best_ids[i], "logprob", (double)token->best_logprobs[i]));
        json_object_set_new(object, "top_logprobs", list);
    }
    say(live->client, object);
}

static double milliseconds(int64_t ns)
{
    return (double)(ns / 1000) / 1000;
}

static const char *tier_name(enum tier tier)
{
    static const char *const names[] = {
#define X(name, text) [TIER_##name] = text,
        TIER_LIST(X)
#undef X
    };

    return tier < TIER_COUNT ? names[tier] : "none";
}

static void got_end(void *owner, const struct worker_end *end, const char *text, size_t bytes)
{
    struct live *live = owner;
    json_t *object;

    live->over = true;
    if (end->reason == WORKER_END_FAILED) {
        json_t *id = json_integer(live->id);

        say_error(live->client, id, end->text, STATUS_IO);
        json_decref(id);
        return;
    }
    object = json_pack("{s:I, s:s, s:i, s:i, s:s, s:f, s:f, s:f}", "id", live->id, "finish_reason", worker_end_name(end->reason),
                       "prompt_tokens", (int)end->prompt_tokens, "output_tokens", (int)end->output_tokens, "adapter_found_in",
                       tier_name(end->tier_found), "ttft_ms", milliseconds(end->first_token_ns), "total_ms",
                       milliseconds(end->total_ns), "compute_ms", milliseconds(end->compute_ns));
    if (live->answer.tokenizer != NULL)
        json_object_set_new(object, "text", json_stringn(text, bytes));
    say(live->client, object);
}

static struct live *find_live(const struct server *server, const struct client *client, json_int_t id)
{
    for (struct live *live = server->lives; live != NULL; live = live->next)
        if (live->client == client && live->id == id && !live->over)
            return live;
    return NULL;
}

static void free_over(struct server *server)
{
    struct live **at = &server->lives;

    while (*at != NULL) {
        struct live *live = *at;

        if (!live->over) {
            at = &live->next;
            continue;
        }
        *at = live->next;
        server->answered++;
        answer_free(&live->answer);
        free(live);
    }
}

static void generate(struct client *client, const json_t *object)
{
    static const char *const others[] = {"op", "id", NULL};
    const struct server_config *config = client->server->config;
    const json_t *id = json_object_get(object, "id");
    struct refusal refusal = {{0}};
    struct live *live;
    enum status status;

    if (!json_is_integer(id) || find_live(client->server, client, json_integer_value(id)) != NULL) {
        say_error(client, NULL, "id: a whole number that no request of this connection in flight has", STATUS_INVALID);
        return;
    }
    live = calloc(1, sizeof(*live));
    if (live == NULL) {
        say_error(client, id, "no memory for a request", STATUS_FULL);
        return;
    }
    live->client = client;
    live->id = json_integer_value(id);
    live->answer.tokenizer = config->tokenizer;
    live->answer.owner = live;
    live->answer.token = got_token;
    live->answer.end = got_end;
    ask_init(&live->answer.ask);
    status = ask_read(&live->answer.ask, object, others, config->tokenizer, &refusal);
    if (status == STATUS_OK) {
        /* Linked first: it may end before this call does. */
        live->next = client->server->lives;
        client->server->lives = live;
        status = answer_begin(&live->answer, config->worker, &refusal);
        if (status == STATUS_OK)
            return;
        client->server->lives = live->next;
    }
    say_error(client, id, refusal.text, status);
    answer_free(&live->answer);
    free(live);
}

static void cancel(struct client *client, const json_t *object)
{
    const json_t *id = json_object_get(object, "id");
    struct live *live = json_is_integer(id) ? find_live(client->server, client, json_integer_value(id)) : NULL;

    if (live == NULL)
        say_error(client, id, "no request of this connection in flight has that id", STATUS_NOT_FOUND);
    else
        worker_cancel(client->server->config->worker, live->answer.handle);
}

/* --- adapters --------------------------------------------------------------------------------------------------------------- */

static json_t *adapter_object(const struct worker_adapter *adapter)
{
    char digest[DIGEST_TEXT_MAX];

    return json_pack("{s:s, s:s, s:i, s:I, s:s}", "name", adapter->name, "digest", digest_text(adapter->digest, digest), "rank",
                     adapter->rank, "packed_bytes", (json_int_t)adapter->packed_bytes, "tier", tier_name(adapter->tier));
}

static bool find_adapter(const struct worker *worker, const char *name, struct worker_adapter *ret_adapter)
{
    for (uint32_t i = 0; worker_adapter_at(worker, i, ret_adapter); i++)
        if (strcmp(ret_adapter->name, name) == 0)
            return true;
    return false;
}

/* A folder of the adapters' folder, itself no link: a name cannot lead elsewhere. */
static enum status add_adapter(struct worker *worker, const char *directory, const char *name, struct refusal *refusal)
{
    char path[PATH_MAX];
    struct stat facts;

    if (!worker_name_fine(name))
        return refuse(refusal, STATUS_INVALID, "name: letters, digits, '.', '_' and '-', beginning with a letter or digit, at most %d",
                      WORKER_NAME_MAX);
    if (snprintf(path, sizeof(path), "%s/%s", directory, name) >= (int)sizeof(path))
        return refuse(refusal, STATUS_INVALID, "the path of adapter %s is too long", name);
    if (lstat(path, &facts) != 0 || !S_ISDIR(facts.st_mode))
        return refuse(refusal, STATUS_NOT_FOUND, "there is no adapter folder %s", name);
    return worker_adapter_add(worker, name, path, refusal);
}

uint32_t server_scan(struct worker *worker, const char *directory, FILE *log)
{
    DIR *folder = opendir(directory);
    uint32_t added = 0;
    struct dirent *entry;

    if (folder == NULL) {
        fprintf(log, "berth-exec server: %s: %s\n", directory, strerror(errno));
        return 0;
    }
    while ((entry = readdir(folder)) != NULL) {
        struct refusal refusal = {{0}};
        enum status status;

        if (entry->d_name[0] == '.')
            continue;
        status = add_adapter(worker, directory, entry->d_name, &refusal);
        added += status == STATUS_OK;
        if (status != STATUS_OK && status != STATUS_NOT_FOUND)
            fprintf(log, "berth-exec server: adapter %s is left out: %s\n", entry->d_name, refusal.text);
    }
    closedir(folder);
    return added;
}

static void load(struct client *client, const json_t *object)
{
    const struct server_config *config = client->server->config;
    const char *name = json_string_value(json_object_get(object, "name"));
    struct refusal refusal = {{0}};
    struct worker_adapter adapter;
    enum status status;
    json_t *answer;

    if (name == NULL || config->adapters_directory == NULL) {
        say_error(client, NULL, name == NULL ? "name: an adapter's" : "this server was started without a folder of adapters",
                  STATUS_INVALID);
        return;
    }
    status = add_adapter(config->worker, config->adapters_directory, name, &refusal);
    if (status != STATUS_OK) {
        say_error(client, NULL, refusal.text, status);
        return;
    }
    check(find_adapter(config->worker, name, &adapter));
    answer = adapter_object(&adapter);
    json_object_set_new(answer, "op", json_string("load"));
    say(client, answer);
}

static void unload(struct client *client, const json_t *object)
{
    const char *name = json_string_value(json_object_get(object, "name"));

    if (name == NULL || worker_adapter_remove(client->server->config->worker, name) != STATUS_OK)
        say_error(client, NULL, "there is no adapter of that name here", name == NULL ? STATUS_INVALID : STATUS_NOT_FOUND);
    else
        say(client, json_pack("{s:s, s:s}", "op", "unload", "name", name));
}

static void list_adapters(struct client *client)
{
    json_t *list = json_array();
    struct worker_adapter adapter;

    for (uint32_t i = 0; worker_adapter_at(client->server->config->worker, i, &adapter); i++)
        json_array_append_new(list, adapter_object(&adapter));
    say(client, json_pack("{s:s, s:o}", "op", "adapters", "adapters", list));
}

static void say_state(struct client *client)
{
    const struct worker *worker = client->server->config->worker;
    struct worker_state state = worker_state(worker);

    say(client,
        json_pack("{s:s, s:i, s:i, s:i, s:I, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:b}", "op", "state", "waiting",
                  (int)state.replica.waiting, "running", (int)state.replica.running, "adapters", (int)state.adapters, "kv_blocks_used",
                  (json_int_t)state.replica.kv_blocks_used, "kv_free_permille", (int)state.replica.kv_free_permille, "pool_used_bytes",
                  (json_int_t)state.pool_used_bytes, "host_used_bytes", (json_int_t)state.host_used_bytes, "steps",
                  (json_int_t)state.steps, "loads", (json_int_t)state.loads, "fetches", (json_int_t)state.fetches, "pool_moves",
                  (json_int_t)state.pool_moves, "preemptions", (json_int_t)state.replica.preemptions, "load_host_ms",
                  milliseconds(state.load_host_ns), "load_store_ms", milliseconds(state.load_store_ns), "drained",
                  worker_drained(worker)));
}

/* --- lines ------------------------------------------------------------------------------------------------------------------ */

static void hear(struct client *client, const char *line, size_t bytes)
{
    json_error_t error;
    json_t *object = json_loadb(line, bytes, JSON_REJECT_DUPLICATES, &error);
    const char *op = json_string_value(json_object_get(object, "op"));

    if (object == NULL)
        say_error(client, NULL, error.text, STATUS_INVALID);
    else if (op == NULL)
        say_error(client, json_object_get(object, "id"), "op: generate, cancel, load, unload, adapters, state or drain", STATUS_INVALID);
    else if (strcmp(op, "generate") == 0)
        generate(client, object);
    else if (strcmp(op, "cancel") == 0)
        cancel(client, object);
    else if (strcmp(op, "load") == 0)
        load(client, object);
    else if (strcmp(op, "unload") == 0)
        unload(client, object);
    else if (strcmp(op, "adapters") == 0)
        list_adapters(client);
    else if (strcmp(op, "state") == 0)
        say_state(client);
    else if (strcmp(op, "drain") == 0) {
        worker_drain(client->server->config->worker);
        say(client, json_pack("{s:s}", "op", "drain"));
    } else
        say_error(client, json_object_get(object, "id"), "op: generate, cancel, load, unload, adapters, state or drain", STATUS_INVALID);
    json_decref(object);
}

static void hear_lines(struct client *client)
{
    size_t at = 0;
    char *newline;

    while (!client->leaving && (newline = memchr(client->in + at, '\n', client->in_count - at)) != NULL) {
        size_t bytes = (size_t)(newline - client->in) - at;

        if (bytes > 0)
            hear(client, client->in + at, bytes);
        at += bytes + 1;
    }
    memmove(client->in, client->in + at, client->in_count - at);
    client->in_count -= at;
    if (client->in_count < SERVER_LINE_BYTES_MAX)
        return;
    say_error(client, NULL, "a line is longer than 4 MiB", STATUS_INVALID);
    client->leaving = true;
}

/* --- connections ------------------------------------------------------------------------------------------------------------ */

static void leave(struct client *client)
{
    for (struct live *live = client->server->lives; live != NULL; live = live->next) {
        if (live->client != client)
            continue;
        live->client = NULL;
        worker_cancel(client->server->config->worker, live->answer.handle);
    }
    close(client->fd);
    free(client->in);
    token_text_free(&client->out);
    *client = (struct client){.server = client->server, .fd = -1};
}

static void receive(struct client *client)
{
    ssize_t got;

    if (client->in_size - client->in_count < 65536) {
        size_t size = client->in_size == 0 ? 131072 : client->in_size * 2;
        char *in = realloc(client->in, size);

        if (in == NULL) {
            leave(client);
            return;
        }
        client->in = in;
        client->in_size = size;
    }
    got = recv(client->fd, client->in + client->in_count, client->in_size - client->in_count, 0);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
        leave(client);
        return;
    }
    if (got < 0)
        return;
    client->in_count += (size_t)got;
    hear_lines(client);
}

static void transmit(struct client *client)
{
    ssize_t sent;

    if (client->out.count - client->out_sent > SERVER_OUT_BYTES_MAX) {
        fprintf(client->server->config->log, "berth-exec server: a client that does not read its answers is closed\n");
        leave(client);
        return;
    }
    if (client->out_sent < client->out.count) {
        sent = send(client->fd, client->out.bytes + client->out_sent, client->out.count - client->out_sent, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN && errno != EINTR) {
            leave(client);
            return;
        }
        client->out_sent += sent > 0 ? (size_t)sent : 0;
    }
    if (client->out_sent < client->out.count)
        return;
    client->out.count = client->out_sent = 0;
    if (client->leaving)
        leave(client);
}

static void welcome(struct server *server)
{
    int fd = accept(server->listener, NULL, NULL);

    if (fd < 0)
        return;
    fcntl(fd, F_SETFL, O_NONBLOCK);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    for (uint32_t i = 0; i < SERVER_CLIENTS_MAX; i++) {
        if (server->clients[i].fd >= 0)
            continue;
        server->clients[i].fd = fd;
        return;
    }
    close(fd);
}

/* --- the loop --------------------------------------------------------------------------------------------------------------- */

static void look(struct server *server, int timeout_ms)
{
    struct pollfd events[SERVER_CLIENTS_MAX + 2];
    struct client *clients[SERVER_CLIENTS_MAX];
    uint32_t count = 2;

    events[0] = (struct pollfd){.fd = server->listener, .events = POLLIN};
    events[1] = (struct pollfd){.fd = worker_fd(server->config->worker), .events = POLLIN};
    for (uint32_t i = 0; i < SERVER_CLIENTS_MAX; i++) {
        struct client *client = &server->clients[i];

        if (client->fd < 0)
            continue;
        clients[count - 2] = client;
        events[count++] = (struct pollfd){.fd = client->fd, .events = (short)(POLLIN | (client->out.count > 0 ? POLLOUT : 0))};
    }
    if (poll(events, count, timeout_ms) <= 0)
        return;
    for (uint32_t i = 2; i < count; i++) {
        if (events[i].revents & (POLLIN | POLLHUP | POLLERR))
            receive(clients[i - 2]);
    }
    if (events[0].revents & POLLIN)
        welcome(server);
}

static void transmit_all(struct server *server)
{
    for (uint32_t i = 0; i < SERVER_CLIENTS_MAX; i++)
        if (server->clients[i].fd >= 0)
            transmit(&server->clients[i]);
}

static void serve(struct server *server, const volatile int *stop)
{
    struct worker *worker = server->config->worker;
    bool busy = false;

    while (!*stop && !(worker_drained(worker) && server->lives == NULL)) {
        look(server, busy ? 0 : 1000);
        busy = worker_pump(worker);
        free_over(server);
        transmit_all(server);
    }
}

static enum status open_listener(struct server *server, struct refusal *refusal)
{
    const char *path = server->config->socket_path;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    mode_t mask;
    int bound;

    if (strlen(path) >= sizeof(address.sun_path))
        return refuse(refusal, STATUS_INVALID, "%s: a socket's path has at most %zu bytes", path, sizeof(address.sun_path) - 1);
    strcpy(address.sun_path, path);
    server->listener = socket(AF_UNIX, SOCK_STREAM, 0);
    if (server->listener < 0)
        return refuse(refusal, STATUS_IO, "%s: %s", path, strerror(errno));
    fcntl(server->listener, F_SETFD, FD_CLOEXEC);
    if (connect(server->listener, (const struct sockaddr *)&address, sizeof(address)) == 0) {
        close(server->listener);
        return refuse(refusal, STATUS_IO, "%s: another server listens there", path);
    }
    if (errno == ECONNREFUSED)
        unlink(path); /* left behind by one that was killed */
    mask = umask(0177);
    bound = bind(server->listener, (const struct sockaddr *)&address, sizeof(address));
    umask(mask);
    if (bound != 0 || listen(server->listener, SERVER_CLIENTS_MAX) != 0) {
        enum status status = refuse(refusal, STATUS_IO, "%s: %s", path, strerror(errno));

        close(server->listener);
        return status;
    }
    fcntl(server->listener, F_SETFL, O_NONBLOCK);
    return STATUS_OK;
}

enum status server_run(const struct server_config *config, const volatile int *stop, struct refusal *refusal)
{
    struct server *server = calloc(1, sizeof(*server));
    enum status status;

    if (server == NULL)
        return refuse(refusal, STATUS_FULL, "no memory");
    server->config = config;
    for (uint32_t i = 0; i < SERVER_CLIENTS_MAX; i++)
        server->clients[i] = (struct client){.server = server, .fd = -1};
    status = open_listener(server, refusal);
    if (status == STATUS_OK) {
        serve(server, stop);
        for (int i = 0; i < 100 && (worker_pump(config->worker) || server->lives != NULL); i++) {
            for (struct live *live = server->lives; live != NULL; live = live->next)
                worker_cancel(config->worker, live->answer.handle);
            free_over(server);
        }
        transmit_all(server);
        for (uint32_t i = 0; i < SERVER_CLIENTS_MAX; i++)
            if (server->clients[i].fd >= 0)
                leave(&server->clients[i]);
        close(server->listener);
        unlink(config->socket_path);
    }
    while (server->lives != NULL) {
        struct live *next = server->lives->next;

        answer_free(&server->lives->answer);
        free(server->lives);
        server->lives = next;
    }
    free(server);
    return status;
}
