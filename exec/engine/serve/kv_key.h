/* Whose KV a block holds, as 32 bytes: for a later reuse of prefixes. Keys of blocks are chained, so a key stands for all tokens up to its
 * block's end. What is in it: the tenant, the adapter's content (not its name), every token. The parts are of fixed width and the first
 * link is tagged, so no name or token can be written to look like another's. */
#ifndef SERVE_KV_KEY_H
#define SERVE_KV_KEY_H

#include "base/base.h"

#define KV_KEY_BYTES 32

struct kv_key {
    uint8_t bytes[KV_KEY_BYTES];
};

/* SHA-256("berth kv 1\n" + kind + tenant as u64 + digest). `digest`: 32 bytes of the adapter; NULL: the base alone (another kind). */
struct kv_key kv_key_begin(uint64_t tenant, const uint8_t *digest);
/* SHA-256(the key before + count as u32 + ids as u32, little-endian): of one block's tokens. */
struct kv_key kv_key_next(const struct kv_key *before, const int32_t *tokens, uint32_t count);

#endif
