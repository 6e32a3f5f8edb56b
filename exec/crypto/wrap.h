/* A key or a small text under a key, bound to what it is of: XChaCha20-Poly1305 with a random nonce. The binding is
 * authenticated, not stored: who opens must say the same. */
#ifndef CRYPTO_WRAP_H
#define CRYPTO_WRAP_H

#include "crypto/names.h"
#include "crypto/secret.h"

/* What ciphertext is bound to: fields one after the other, each with its length in front, so that no two lists are alike. */
#define BINDING_MAX 512
struct binding {
    uint8_t bytes[BINDING_MAX];
    size_t count;
};
void binding_begin(struct binding *binding, const char *purpose);
void binding_add(struct binding *binding, const char *name);
void binding_add_number(struct binding *binding, uint64_t number);

#define WRAP_NONCE_BYTES 24
#define WRAP_TAG_BYTES 16
#define WRAP_EXTRA_BYTES (WRAP_NONCE_BYTES + WRAP_TAG_BYTES)
#define WRAPPED_KEY_BYTES (WRAP_NONCE_BYTES + KEY_BYTES + WRAP_TAG_BYTES)

/* `ret_wrapped`: nonce, ciphertext, tag; bytes + WRAP_EXTRA_BYTES. */
void wrap(const uint8_t key[KEY_BYTES], const struct binding *binding, const void *data, size_t bytes, uint8_t *ret_wrapped);
/* The same with a nonce that the caller answers for: it must be used once. */
void wrap_with_nonce(const uint8_t key[KEY_BYTES], const uint8_t nonce[WRAP_NONCE_BYTES], const struct binding *binding,
                     const void *data, size_t bytes, uint8_t *ret_wrapped);
/* `ret_data`: wrapped_bytes - WRAP_EXTRA_BYTES. STATUS_CORRUPT, and nothing written, for whatever isn't what wrap() made with
 * this key and binding. */
enum status unwrap(const uint8_t key[KEY_BYTES], const struct binding *binding, const uint8_t *wrapped, size_t wrapped_bytes,
                   void *ret_data);

#endif
