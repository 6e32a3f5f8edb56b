#include "engine/serve/kv_key.h"

#include <openssl/evp.h>

static void put_u32(EVP_MD_CTX *sha, uint32_t value)
{
    const uint8_t bytes[4] = {(uint8_t)value, (uint8_t)(value >> 8), (uint8_t)(value >> 16), (uint8_t)(value >> 24)};

    check(EVP_DigestUpdate(sha, bytes, sizeof(bytes)) == 1);
}

static EVP_MD_CTX *begin(void)
{
    EVP_MD_CTX *sha = EVP_MD_CTX_new();

    check(sha != NULL && EVP_DigestInit_ex(sha, EVP_sha256(), NULL) == 1);
    return sha;
}

static struct kv_key end(EVP_MD_CTX *sha)
{
    struct kv_key key;
    unsigned int bytes = 0;

    check(EVP_DigestFinal_ex(sha, key.bytes, &bytes) == 1 && bytes == KV_KEY_BYTES);
    EVP_MD_CTX_free(sha);
    return key;
}

struct kv_key kv_key_begin(uint64_t tenant, const uint8_t *digest)
{
    static const char tag[] = "berth kv 1\n";
    EVP_MD_CTX *sha = begin();

    check(EVP_DigestUpdate(sha, tag, sizeof(tag) - 1) == 1);
    put_u32(sha, digest == NULL ? 0 : 1);
    put_u32(sha, (uint32_t)tenant);
    put_u32(sha, (uint32_t)(tenant >> 32));
    if (digest != NULL)
        check(EVP_DigestUpdate(sha, digest, 32) == 1);
    return end(sha);
}

struct kv_key kv_key_next(const struct kv_key *before, const int32_t *tokens, uint32_t count)
{
    EVP_MD_CTX *sha = begin();

    check(EVP_DigestUpdate(sha, before->bytes, sizeof(before->bytes)) == 1);
    put_u32(sha, count);
    for (uint32_t i = 0; i < count; i++)
        put_u32(sha, (uint32_t)tokens[i]);
    return end(sha);
}
