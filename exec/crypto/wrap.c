#include "crypto/wrap.h"

#include <sodium.h>

static void add(struct binding *binding, const void *bytes, size_t count)
{
    check(count < 256);
    check(binding->count + 1 + count <= BINDING_MAX);
    binding->bytes[binding->count++] = (uint8_t)count;
    memcpy(binding->bytes + binding->count, bytes, count);
    binding->count += count;
}

void binding_begin(struct binding *binding, const char *purpose)
{
    memset(binding, 0, sizeof(*binding));
    add(binding, purpose, strlen(purpose));
}

void binding_add(struct binding *binding, const char *name)
{
    add(binding, name, strlen(name));
}

void binding_add_number(struct binding *binding, uint64_t number)
{
    uint8_t bytes[8];

    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(number >> (8 * i));
    add(binding, bytes, sizeof(bytes));
}

void wrap_with_nonce(const uint8_t key[KEY_BYTES], const uint8_t nonce[WRAP_NONCE_BYTES], const struct binding *binding,
                     const void *data, size_t bytes, uint8_t *ret_wrapped)
{
    memcpy(ret_wrapped, nonce, WRAP_NONCE_BYTES);
    crypto_aead_xchacha20poly1305_ietf_encrypt(ret_wrapped + WRAP_NONCE_BYTES, NULL, data, bytes, binding->bytes, binding->count,
                                               NULL, nonce, key);
}

void wrap(const uint8_t key[KEY_BYTES], const struct binding *binding, const void *data, size_t bytes, uint8_t *ret_wrapped)
{
    uint8_t nonce[WRAP_NONCE_BYTES];

    randombytes_buf(nonce, sizeof(nonce));
    wrap_with_nonce(key, nonce, binding, data, bytes, ret_wrapped);
}

enum status unwrap(const uint8_t key[KEY_BYTES], const struct binding *binding, const uint8_t *wrapped, size_t wrapped_bytes,
                   void *ret_data)
{
    if (wrapped_bytes < WRAP_EXTRA_BYTES)
        return STATUS_CORRUPT;
    /* The tag is checked before anything is deciphered. */
    if (crypto_aead_xchacha20poly1305_ietf_decrypt(ret_data, NULL, NULL, wrapped + WRAP_NONCE_BYTES, wrapped_bytes - WRAP_NONCE_BYTES,
                                                   binding->bytes, binding->count, wrapped, key) != 0)
        return STATUS_CORRUPT;
    return STATUS_OK;
}
