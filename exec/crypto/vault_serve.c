/* The vault's process: one thread that takes a request, looks whether it may be done now, does it, says so, answers. A key is in its
 * memory while one request is answered, in locked pages; nothing of a key or a text is in what it says. */
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>

#include "base/hash.h"
#include "crypto/keys.h"
#include "crypto/vault_internal.h"
#include "crypto/wrap.h"

#define TENANTS_APART 1024 /* tenants whose names fall together share a bucket */
#define ALL_TO_ONE 10      /* what all tenants together may ask for, in shares of one */
#define KEYS_PER_S 100
#define TEXTS_PER_S 2000

enum names { NAMES_NONE, NAMES_TENANT, NAMES_ID, NAMES_PURPOSE };
static const struct {
    const char *word;
    enum names names;
} acts[] = {
#define X(name, word, names) {word, names},
    VAULT_ACTS(X)
#undef X
};

struct limits {
    uint32_t per_s;
    struct bucket all;
    struct bucket tenants[TENANTS_APART];
};

struct room {
    uint8_t master[KEY_BYTES];
    uint8_t key[KEY_BYTES];
    struct vault_request request;
    struct vault_reply reply;
};

struct serving {
    const struct vault_options *options;
    struct keys *keys;
    struct room *room; /* secret_alloc */
    struct limits key_limits;
    struct limits text_limits;
    int socket;
};

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

static struct binding text_binding(const struct vault_request *request)
{
    struct binding binding;

    binding_begin(&binding, "text");
    binding_add(&binding, request->tenant);
    binding_add(&binding, request->purpose);
    binding_add(&binding, request->id);
    return binding;
}

static enum status seal_text(struct serving *serving, const struct vault_request *request, struct vault_reply *reply,
                             struct refusal *refusal)
{
    const struct binding binding = text_binding(request);
    enum status status;

    if (request->bytes > VAULT_TEXT_MAX)
        return STATUS_INVALID;
    status = keys_text(serving->keys, request->tenant, serving->room->key, refusal);
    if (status != STATUS_OK)
        return status;
    reply->data[0] = VAULT_TEXT_FORMAT;
    wrap(serving->room->key, &binding, request->data, request->bytes, reply->data + 1);
    reply->bytes = request->bytes + VAULT_SEALED_EXTRA;
    return STATUS_OK;
}

static enum status open_text(struct serving *serving, const struct vault_request *request, struct vault_reply *reply,
                             struct refusal *refusal)
{
    const struct binding binding = text_binding(request);
    enum status status;

    if (request->bytes < VAULT_SEALED_EXTRA || request->data[0] != VAULT_TEXT_FORMAT)
        return STATUS_CORRUPT;
    status = keys_text(serving->keys, request->tenant, serving->room->key, refusal);
    if (status == STATUS_OK)
        status = unwrap(serving->room->key, &binding, request->data + 1, request->bytes - 1, reply->data);
    if (status == STATUS_OK)
        reply->bytes = request->bytes - VAULT_SEALED_EXTRA;
    return status;
}

static enum status act(struct serving *serving, const struct vault_request *request, struct vault_reply *reply,
                       struct refusal *refusal)
{
    struct keys *keys = serving->keys;
    enum status status;

    switch ((enum vault_act)request->act) {
    case VAULT_HELLO:
        return STATUS_OK;
    case VAULT_TENANT_CREATE:
        return keys_tenant_create(keys, request->tenant, refusal);
    case VAULT_TENANT_ROTATE:
        return keys_tenant_rotate(keys, request->tenant, refusal);
    case VAULT_TENANT_SHRED:
        return keys_tenant_shred(keys, request->tenant, refusal);
    case VAULT_KEY_SHRED:
        return keys_shred(keys, request->tenant, request->id, refusal);
    case VAULT_TEXT_SEAL:
        return seal_text(serving, request, reply, refusal);
    case VAULT_TEXT_OPEN:
        return open_text(serving, request, reply, refusal);
    case VAULT_KEY_CREATE:
    case VAULT_KEY_GIVE:
        status = request->act == VAULT_KEY_CREATE ? keys_create(keys, request->tenant, request->id, reply->data, refusal)
                                                  : keys_give(keys, request->tenant, request->id, reply->data, refusal);
        reply->bytes = status == STATUS_OK ? KEY_BYTES : 0;
        return status;
    case VAULT_ACT_COUNT:
        break;
    }
    return STATUS_INVALID;
}

static bool is_name(const char name[NAME_BYTES])
{
    return memchr(name, '\0', NAME_BYTES) != NULL && name_is_valid(name);
}

/* Whoever speaks may have been taken over: nothing is trusted before this. */
static bool is_request(const struct vault_request *request, size_t count)
{
    if (count < VAULT_REQUEST_BYTES || request->bytes != count - VAULT_REQUEST_BYTES || request->act >= VAULT_ACT_COUNT)
        return false;
    return (acts[request->act].names < NAMES_TENANT || is_name(request->tenant)) &&
           (acts[request->act].names < NAMES_ID || is_name(request->id)) &&
           (acts[request->act].names < NAMES_PURPOSE || is_name(request->purpose));
}

/* The tenant's bucket first, so that one tenant's flood takes nothing from the others' share. */
static bool may_act(struct serving *serving, const struct vault_request *request, uint32_t *ret_wait_ms)
{
    struct limits *limits = acts[request->act].names == NAMES_PURPOSE ? &serving->text_limits : &serving->key_limits;
    uint64_t hash = hash_bytes(0, request->tenant, strlen(request->tenant));
    int64_t at_ns = now_ns();

    if (acts[request->act].names == NAMES_NONE)
        return true;
    return bucket_take(&limits->tenants[hash % TENANTS_APART], limits->per_s, at_ns, ret_wait_ms) &&
           bucket_take(&limits->all, limits->per_s * ALL_TO_ONE, at_ns, ret_wait_ms);
}

static const char *status_word(enum status status)
{
    static const char *const words[] = {
#define X(name, text) #name,
        STATUS_LIST(X)
#undef X
    };

    return words[status];
}

static void say(const struct serving *serving, const struct vault_request *request, bool is_sound, enum status status,
                int64_t took_ns)
{
    enum names names = is_sound ? acts[request->act].names : NAMES_NONE;
    char line[512];

    if (serving->options->log == NULL)
        return;
    snprintf(line, sizeof(line), "act=%s tenant=%s id=%s purpose=%s status=%s us=%lld", is_sound ? acts[request->act].word : "none",
             names >= NAMES_TENANT ? request->tenant : "-", names >= NAMES_ID ? request->id : "-",
             names >= NAMES_PURPOSE ? request->purpose : "-", status_word(status), (long long)(took_ns / NS_PER_US));
    serving->options->log(serving->options->log_context, line);
}

static void warn(const struct serving *serving, const char *line)
{
    if (serving->options->log != NULL)
        serving->options->log(serving->options->log_context, line);
}

/* A refusal's text is the reply's data; a refusal without one says what its status says. */
static void put_refusal(struct vault_reply *reply, enum status status, const struct refusal *refusal)
{
    const char *text = refusal->text[0] != '\0' ? refusal->text : status_text(status);

    sodium_memzero(reply->data, sizeof(reply->data));
    reply->bytes = (uint32_t)strlen(text);
    memcpy(reply->data, text, reply->bytes);
}

static bool answer(struct serving *serving, size_t request_bytes)
{
    struct vault_request *request = &serving->room->request;
    struct vault_reply *reply = &serving->room->reply;
    struct refusal refusal = {""};
    enum status status = STATUS_INVALID;
    int64_t start_ns = now_ns();
    bool is_sound = is_request(request, request_bytes);
    ssize_t sent;

    memset(reply, 0, VAULT_REPLY_BYTES);
    reply->seq = request_bytes >= VAULT_REQUEST_BYTES ? request->seq : 0;
    if (is_sound && !may_act(serving, request, &reply->retry_ms))
        status = refuse(&refusal, STATUS_FULL, "the vault gives no more for now; again in %u ms", reply->retry_ms);
    else if (is_sound)
        status = act(serving, request, reply, &refusal);
    say(serving, request, is_sound, status, now_ns() - start_ns);
    reply->status = status;
    if (status != STATUS_OK)
        put_refusal(reply, status, &refusal);
    do
        sent = send(serving->socket, reply, VAULT_REPLY_BYTES + reply->bytes, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    sodium_memzero(request->data, request_bytes >= VAULT_REQUEST_BYTES ? request_bytes - VAULT_REQUEST_BYTES : 0);
    sodium_memzero(reply->data, reply->bytes);
    sodium_memzero(serving->room->key, KEY_BYTES);
    return sent >= 0;
}

/* Until the other end is closed, or the disk has failed us. */
static enum status serve(struct serving *serving, struct refusal *refusal)
{
    for (;;) {
        ssize_t count = recv(serving->socket, &serving->room->request, sizeof(serving->room->request), MSG_TRUNC);

        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return STATUS_OK;
        /* Longer than any request: its end is lost, and its count fits nothing. */
        if (!answer(serving, (size_t)count > sizeof(serving->room->request) ? 0 : (size_t)count))
            return STATUS_OK;
        if (keys_are_broken(serving->keys))
            return refuse(refusal, STATUS_IO, "keys.db cannot be written or read: start the vault again when its disk is well");
    }
}

static enum status begin(struct serving *serving, struct refusal *refusal)
{
    const struct vault_options *options = serving->options;
    enum status status = secrets_harden_process(refusal);

    if (status != STATUS_OK)
        return status;
    serving->room = secret_alloc(sizeof(*serving->room));
    if (serving->room == NULL)
        return refuse(refusal, STATUS_IO, "no memory for the vault");
    if (!secrets_are_locked())
        warn(serving, "warning: keys could reach swap: raise the limit of locked memory (ulimit -l) to 1024 KB or more");
    status = master_load(&options->master, serving->room->master, refusal);
    if (status == STATUS_OK)
        status = keys_open(options->keys_path, serving->room->master, &serving->keys, refusal);
    sodium_memzero(serving->room->master, KEY_BYTES);
    return status;
}

enum status vault_serve(const struct vault_options *options, int socket, struct refusal *refusal)
{
    static struct serving serving; /* the one vault of its process */
    enum status status;

    memset(&serving, 0, sizeof(serving));
    serving.options = options;
    serving.socket = socket;
    serving.key_limits.per_s = options->keys_per_s != 0 ? options->keys_per_s : KEYS_PER_S;
    serving.text_limits.per_s = options->texts_per_s != 0 ? options->texts_per_s : TEXTS_PER_S;
    status = begin(&serving, refusal);
    if (status == STATUS_OK) {
        status = serve(&serving, refusal);
    } else if (serving.room != NULL) {
        serving.room->reply.status = status;
        put_refusal(&serving.room->reply, status, refusal);
        (void)send(socket, &serving.room->reply, VAULT_REPLY_BYTES + serving.room->reply.bytes, MSG_NOSIGNAL);
    }
    keys_close(serving.keys);
    secret_free(serving.room);
    return status;
}
