/* What a client may ask of the server, op by op, and what it is answered. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "engine/safetensors/safetensors.h"
#include "host/words.h"
#include "worker/server_internal.h"

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

void client_say_error(struct client *client, const json_t *id, const char *text, enum status status)
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

        client_say_error(live->client, id, end->text, STATUS_IO);
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

void server_free_over(struct server *server)
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
        client_say_error(client, NULL, "id: a whole number that no request of this connection in flight has", STATUS_INVALID);
        return;
    }
    live = calloc(1, sizeof(*live));
    if (live == NULL) {
        client_say_error(client, id, "no memory for a request", STATUS_FULL);
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
    client_say_error(client, id, refusal.text, status);
    answer_free(&live->answer);
    free(live);
}

static void cancel(struct client *client, const json_t *object)
{
    const json_t *id = json_object_get(object, "id");
    struct live *live = json_is_integer(id) ? find_live(client->server, client, json_integer_value(id)) : NULL;

    if (live == NULL)
        client_say_error(client, id, "no request of this connection in flight has that id", STATUS_NOT_FOUND);
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
        client_say_error(client, NULL, name == NULL ? "name: an adapter's" : "this server was started without a folder of adapters",
                  STATUS_INVALID);
        return;
    }
    status = add_adapter(config->worker, config->adapters_directory, name, &refusal);
    if (status != STATUS_OK) {
        client_say_error(client, NULL, refusal.text, status);
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
        client_say_error(client, NULL, "there is no adapter of that name here", name == NULL ? STATUS_INVALID : STATUS_NOT_FOUND);
    else
        say(client, json_pack("{s:s, s:s}", "op", "unload", "name", name));
}

static void list_adapters(struct client *client, const json_t *object)
{
    json_t *list = json_array();
    struct worker_adapter adapter;

    (void)object;
    for (uint32_t i = 0; worker_adapter_at(client->server->config->worker, i, &adapter); i++)
        json_array_append_new(list, adapter_object(&adapter));
    say(client, json_pack("{s:s, s:o}", "op", "adapters", "adapters", list));
}

static void say_state(struct client *client, const json_t *object)
{
    const struct worker *worker = client->server->config->worker;
    struct worker_state state = worker_state(worker);

    (void)object;
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

/* --- ops ------------------------------------------------------------------------------------------------------------------ */

static void drain(struct client *client, const json_t *object)
{
    (void)object;
    worker_drain(client->server->config->worker);
    say(client, json_pack("{s:s}", "op", "drain"));
}

/* `key`: the only one beside op; NULL: the op looks after its keys itself; "": none. */
static const struct op {
    const char *name;
    const char *key;
    void (*act)(struct client *client, const json_t *object);
} ops[] = {
    {"generate", NULL, generate}, {"cancel", "id", cancel},           {"load", "name", load},   {"unload", "name", unload},
    {"adapters", "", list_adapters}, {"state", "", say_state}, {"drain", "", drain},
};

/* A key that is not known would be a wish that is dropped. */
static bool has_unknown_key(const struct op *op, const json_t *object, const char **ret_key)
{
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)object, *ret_key, value) {
        (void)value;
        if (op->key != NULL && strcmp(*ret_key, "op") != 0 && strcmp(*ret_key, op->key) != 0)
            return true;
    }
    return false;
}

static void hear_object(struct client *client, const json_t *object)
{
    const char *name = json_string_value(json_object_get(object, "op"));
    const json_t *id = json_object_get(object, "id");
    const char *key;

    for (size_t i = 0; name != NULL && i < ARRAY_COUNT(ops); i++) {
        char text[96 + EXCERPT_MAX];
        char shown[EXCERPT_MAX];

        if (strcmp(name, ops[i].name) != 0)
            continue;
        if (!has_unknown_key(&ops[i], object, &key)) {
            ops[i].act(client, object);
            return;
        }
        snprintf(text, sizeof(text), "%s: there is no key '%s'", name, excerpt(key, strlen(key), shown));
        client_say_error(client, id, text, STATUS_INVALID);
        return;
    }
    client_say_error(client, id, "op: generate, cancel, load, unload, adapters, state or drain", STATUS_INVALID);
}

void client_hear(struct client *client, const char *line, size_t bytes)
{
    json_error_t error;
    json_t *object = json_loadb(line, bytes, JSON_REJECT_DUPLICATES, &error);

    if (object == NULL)
        client_say_error(client, NULL, error.text, STATUS_INVALID);
    else
        hear_object(client, object);
    json_decref(object);
}
