/* The client: one request at a time, under a mutex. A reply to a request of somebody before us on this socket is dropped. */
#include <errno.h>
#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "crypto/vault_internal.h"

/* A rotation of many keys takes this long at most; a vault that takes longer is taken for gone. */
#define ANSWER_S 60

struct packets {
    struct vault_request request;
    struct vault_reply reply;
};

struct vault {
    pthread_mutex_t mutex;
    int socket;
    uint64_t seq;
    _Atomic uint32_t retry_ms;
    struct packets *packets; /* secret_alloc */
};

static void put_name(char field[NAME_BYTES], const char *name)
{
    memset(field, 0, NAME_BYTES);
    memcpy(field, name, strlen(name));
}

static enum status gone(int code, struct refusal *refusal)
{
    return refuse(refusal, STATUS_IO, "the vault is gone%s%s", code != 0 ? ": " : "", code != 0 ? strerror(code) : "");
}

/* The reply of this request, or the vault's last words. */
static enum status receive(struct vault *vault, struct refusal *refusal)
{
    struct vault_reply *reply = &vault->packets->reply;

    for (;;) {
        ssize_t count = recv(vault->socket, reply, sizeof(*reply), 0);

        /* A vault that ended without reading our request resets the connection, once; its last words come after that. */
        if (count < 0 && (errno == EINTR || errno == ECONNRESET))
            continue;
        if (count <= 0)
            return gone(count < 0 ? errno : 0, refusal);
        if ((size_t)count < VAULT_REPLY_BYTES || (size_t)count != VAULT_REPLY_BYTES + reply->bytes || reply->status > STATUS_END)
            return refuse(refusal, STATUS_IO, "the vault speaks another language; start both from one build");
        if (reply->seq == vault->seq || reply->seq == 0)
            return STATUS_OK;
        sodium_memzero(reply->data, reply->bytes);
    }
}

/* Sends what stands in the request and leaves the reply; the mutex is held. */
static enum status exchange(struct vault *vault, struct refusal *refusal)
{
    struct vault_request *request = &vault->packets->request;
    struct vault_reply *reply = &vault->packets->reply;
    enum status status;
    ssize_t sent;

    request->seq = ++vault->seq;
    do
        sent = send(vault->socket, request, VAULT_REQUEST_BYTES + request->bytes, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    /* One that could not start has left word. */
    status = receive(vault, refusal);
    if (status != STATUS_OK)
        return status;
    if (reply->status == STATUS_FULL)
        vault->retry_ms = reply->retry_ms;
    if (reply->status != STATUS_OK)
        return refuse(refusal, (enum status)reply->status, "%.*s", (int)reply->bytes, (const char *)reply->data);
    return reply->seq != 0 ? STATUS_OK : gone(0, refusal);
}

struct question {
    enum vault_act act;
    const char *tenant;
    const char *id;
    const char *purpose;
    const void *data;
    size_t bytes;
};

/* `ret_data` takes exactly `ret_bytes`. */
static enum status ask(struct vault *vault, const struct question *question, void *ret_data, size_t ret_bytes,
                       struct refusal *refusal)
{
    struct vault_request *request = &vault->packets->request;
    struct vault_reply *reply = &vault->packets->reply;
    const char *names[3] = {question->tenant, question->id, question->purpose};
    char *fields[3] = {request->tenant, request->id, request->purpose};
    enum status status;

    for (int i = 0; i < 3; i++)
        if (names[i] != NULL && !name_is_valid(names[i]))
            return refuse(refusal, STATUS_INVALID, "the vault knows names of 1 to %d letters, digits, '-' and '_'", NAME_BYTES - 1);
    check(question->bytes <= VAULT_DATA_MAX);
    pthread_mutex_lock(&vault->mutex);
    request->act = question->act;
    request->bytes = (uint32_t)question->bytes;
    for (int i = 0; i < 3; i++)
        put_name(fields[i], names[i] != NULL ? names[i] : "");
    if (question->bytes > 0)
        memcpy(request->data, question->data, question->bytes);
    status = exchange(vault, refusal);
    if (status == STATUS_OK && reply->bytes != ret_bytes)
        status = refuse(refusal, STATUS_IO, "the vault answers %u bytes where %zu belong", reply->bytes, ret_bytes);
    if (status == STATUS_OK && ret_bytes > 0)
        memcpy(ret_data, reply->data, ret_bytes);
    sodium_memzero(request->data, question->bytes);
    sodium_memzero(reply->data, sizeof(reply->data));
    pthread_mutex_unlock(&vault->mutex);
    return status;
}

enum status vault_open(int socket, struct vault **ret_vault, struct refusal *refusal)
{
    const struct question hello = {.act = VAULT_HELLO};
    const struct timeval wait = {.tv_sec = ANSWER_S};
    struct vault *vault = calloc(1, sizeof(*vault));
    enum status status;

    if (vault != NULL)
        vault->packets = secret_alloc(sizeof(*vault->packets));
    if (vault == NULL || vault->packets == NULL) {
        free(vault);
        close(socket);
        return refuse(refusal, STATUS_IO, "no memory for the vault's client");
    }
    pthread_mutex_init(&vault->mutex, NULL);
    vault->socket = socket;
    (void)setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
    (void)setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
    /* Nobody before us on this socket has counted from here. */
    randombytes_buf(&vault->seq, sizeof(vault->seq));
    vault->seq |= UINT64_C(1) << 62;
    vault->seq &= ~(UINT64_C(1) << 63);
    status = ask(vault, &hello, NULL, 0, refusal);
    if (status != STATUS_OK) {
        vault_close(vault);
        return status;
    }
    *ret_vault = vault;
    return STATUS_OK;
}

void vault_close(struct vault *vault)
{
    if (vault == NULL)
        return;
    close(vault->socket);
    pthread_mutex_destroy(&vault->mutex);
    secret_free(vault->packets);
    free(vault);
}

uint32_t vault_retry_ms(const struct vault *vault)
{
    return vault->retry_ms;
}

enum status vault_tenant_create(struct vault *vault, const char *tenant, struct refusal *refusal)
{
    return ask(vault, &(struct question){.act = VAULT_TENANT_CREATE, .tenant = tenant}, NULL, 0, refusal);
}

enum status vault_tenant_rotate(struct vault *vault, const char *tenant, struct refusal *refusal)
{
    return ask(vault, &(struct question){.act = VAULT_TENANT_ROTATE, .tenant = tenant}, NULL, 0, refusal);
}

enum status vault_tenant_shred(struct vault *vault, const char *tenant, struct refusal *refusal)
{
    return ask(vault, &(struct question){.act = VAULT_TENANT_SHRED, .tenant = tenant}, NULL, 0, refusal);
}

enum status vault_key_create(struct vault *vault, const char *tenant, const char *id, uint8_t ret_key[KEY_BYTES],
                             struct refusal *refusal)
{
    return ask(vault, &(struct question){.act = VAULT_KEY_CREATE, .tenant = tenant, .id = id}, ret_key, KEY_BYTES, refusal);
}

enum status vault_key_give(struct vault *vault, const char *tenant, const char *id, uint8_t ret_key[KEY_BYTES],
                           struct refusal *refusal)
{
    return ask(vault, &(struct question){.act = VAULT_KEY_GIVE, .tenant = tenant, .id = id}, ret_key, KEY_BYTES, refusal);
}

enum status vault_key_shred(struct vault *vault, const char *tenant, const char *id, struct refusal *refusal)
{
    return ask(vault, &(struct question){.act = VAULT_KEY_SHRED, .tenant = tenant, .id = id}, NULL, 0, refusal);
}

enum status vault_text_seal(struct vault *vault, const char *tenant, const char *purpose, const char *id, const void *text,
                            size_t bytes, uint8_t *ret_sealed, struct refusal *refusal)
{
    const struct question question = {VAULT_TEXT_SEAL, tenant, id, purpose, text, bytes};

    if (bytes > VAULT_TEXT_MAX)
        return refuse(refusal, STATUS_INVALID, "%zu bytes are too long for a sealed text; at most %d", bytes, VAULT_TEXT_MAX);
    return ask(vault, &question, ret_sealed, bytes + VAULT_SEALED_EXTRA, refusal);
}

enum status vault_text_open(struct vault *vault, const char *tenant, const char *purpose, const char *id, const uint8_t *sealed,
                            size_t sealed_bytes, void *ret_text, struct refusal *refusal)
{
    const struct question question = {VAULT_TEXT_OPEN, tenant, id, purpose, sealed, sealed_bytes};

    if (sealed_bytes < VAULT_SEALED_EXTRA || sealed_bytes > VAULT_TEXT_MAX + VAULT_SEALED_EXTRA)
        return refuse(refusal, STATUS_CORRUPT, "%s", status_text(STATUS_CORRUPT));
    return ask(vault, &question, ret_text, sealed_bytes - VAULT_SEALED_EXTRA, refusal);
}
