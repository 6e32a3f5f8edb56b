/* What client and vault say to each other: a request a packet, a reply a packet, in the order of requests. */
#ifndef CRYPTO_VAULT_INTERNAL_H
#define CRYPTO_VAULT_INTERNAL_H

#include "crypto/vault.h"

/* kind, the log's word, what must be named besides the tenant. */
#define VAULT_ACTS(X)                                \
    X(HELLO, "hello", NAMES_NONE)                    \
    X(TENANT_CREATE, "tenant_create", NAMES_TENANT)  \
    X(TENANT_ROTATE, "tenant_rotate", NAMES_TENANT)  \
    X(TENANT_SHRED, "tenant_shred", NAMES_TENANT)    \
    X(KEY_CREATE, "key_create", NAMES_ID)            \
    X(KEY_GIVE, "key_give", NAMES_ID)                \
    X(KEY_SHRED, "key_shred", NAMES_ID)              \
    X(TEXT_SEAL, "text_seal", NAMES_PURPOSE)         \
    X(TEXT_OPEN, "text_open", NAMES_PURPOSE)
enum vault_act {
#define X(name, word, names) VAULT_##name,
    VAULT_ACTS(X)
#undef X
    VAULT_ACT_COUNT
};

#define VAULT_DATA_MAX 57408

/* `bytes` of `data` are sent, no more. */
struct vault_request {
    uint32_t act;
    uint32_t bytes;
    uint64_t seq; /* from 1 */
    char tenant[NAME_BYTES];
    char id[NAME_BYTES];
    char purpose[NAME_BYTES];
    uint8_t data[VAULT_DATA_MAX];
};

/* data: a key, a text, or why not. */
struct vault_reply {
    uint32_t status;
    uint32_t retry_ms;
    uint64_t seq; /* the request's; 0: the vault could not start */
    uint32_t bytes;
    uint32_t zero;
    uint8_t data[VAULT_DATA_MAX];
};

#define VAULT_REQUEST_BYTES offsetof(struct vault_request, data)
#define VAULT_REPLY_BYTES offsetof(struct vault_reply, data)

/* The first byte of a sealed text; then what wrap() makes. */
#define VAULT_TEXT_FORMAT 1
_Static_assert(VAULT_SEALED_EXTRA == 1 + 24 + 16, "a format's byte, a nonce, a tag");
_Static_assert(VAULT_TEXT_MAX + VAULT_SEALED_EXTRA <= VAULT_DATA_MAX, "a sealed text is a packet's");
_Static_assert(sizeof(struct vault_request) <= 65536, "a packet is at most 64 KiB");

/* How many acts a second: a bucket that fills at a rate, up to ten seconds of it. */
struct bucket {
    int64_t millis; /* thousandths of acts that may come now */
    int64_t at_ns;  /* when that was so */
};
/* False: not now, and `ret_wait_ms` says when. */
bool bucket_take(struct bucket *bucket, uint32_t per_s, int64_t now_ns, uint32_t *ret_wait_ms);

#endif
