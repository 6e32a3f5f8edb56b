/* Opening ranges. The size says which chunk is the last, and the last one is opened first: so an object's length is known to be
 * true before anything of it is given out. One chunk is kept, for those who read in small steps. */
#include <sodium.h>
#include <stdlib.h>

#include "crypto/envelope_internal.h"

#define NO_CHUNK UINT64_MAX

struct opener {
    uint8_t *chunk_key; /* secret_alloc */
    envelope_source *source;
    void *source_context;
    uint64_t bytes;  /* of plaintext */
    uint64_t chunks; /* >= 1 */
    uint64_t held;   /* the chunk that `plain` holds; NO_CHUNK: none */
    uint8_t plain[ENVELOPE_CHUNK_BYTES];
    uint8_t sealed[ENVELOPE_SEALED_CHUNK_BYTES];
};

static size_t chunk_bytes(const struct opener *opener, uint64_t chunk)
{
    return (size_t)min_u64(opener->bytes - chunk * ENVELOPE_CHUNK_BYTES, ENVELOPE_CHUNK_BYTES);
}

static enum status open_chunk(struct opener *opener, uint64_t chunk)
{
    size_t sealed_bytes = chunk_bytes(opener, chunk) + ENVELOPE_TAG_BYTES;
    uint8_t nonce[ENVELOPE_NONCE_BYTES];
    enum status status;

    if (opener->held == chunk)
        return STATUS_OK;
    opener->held = NO_CHUNK;
    status = opener->source(opener->source_context, ENVELOPE_HEADER_BYTES + chunk * ENVELOPE_SEALED_CHUNK_BYTES, opener->sealed,
                            sealed_bytes);
    if (status != STATUS_OK)
        return status;
    envelope_nonce(chunk, chunk + 1 == opener->chunks, nonce);
    if (crypto_aead_chacha20poly1305_ietf_decrypt(opener->plain, NULL, NULL, opener->sealed, sealed_bytes, NULL, 0, nonce,
                                                  opener->chunk_key) != 0)
        return STATUS_CORRUPT;
    opener->held = chunk;
    return STATUS_OK;
}

static enum status open_header(struct opener *opener, const struct envelope_label *label, const uint8_t *key)
{
    uint8_t bytes[ENVELOPE_HEADER_BYTES];
    struct envelope_header header;
    uint8_t mac[32];
    enum status status = opener->source(opener->source_context, 0, bytes, sizeof(bytes));

    if (status == STATUS_OK)
        status = envelope_header_read(bytes, sizeof(bytes), &header);
    if (status != STATUS_OK)
        return status;
    envelope_derive(label, key, &header, opener->chunk_key, mac);
    return sodium_memcmp(mac, header.mac, sizeof(mac)) == 0 ? STATUS_OK : STATUS_CORRUPT;
}

enum status opener_open(const struct envelope_label *label, const uint8_t key[KEY_BYTES], uint64_t sealed_bytes,
                        envelope_source *source, void *source_context, struct opener **ret_opener)
{
    uint64_t bytes = 0;
    enum status status = envelope_plain_bytes(sealed_bytes, &bytes);
    struct opener *opener;

    if (status != STATUS_OK)
        return status;
    opener = calloc(1, sizeof(*opener));
    if (opener == NULL)
        return STATUS_IO;
    opener->source = source;
    opener->source_context = source_context;
    opener->bytes = bytes;
    opener->chunks = max_u64(div_up_u64(bytes, ENVELOPE_CHUNK_BYTES), 1);
    opener->held = NO_CHUNK;
    opener->chunk_key = secret_alloc(KEY_BYTES);
    status = opener->chunk_key == NULL ? STATUS_IO : open_header(opener, label, key);
    if (status == STATUS_OK)
        status = open_chunk(opener, opener->chunks - 1);
    if (status != STATUS_OK) {
        opener_close(opener);
        return status;
    }
    *ret_opener = opener;
    return STATUS_OK;
}

uint64_t opener_bytes(const struct opener *opener)
{
    return opener->bytes;
}

enum status opener_read(struct opener *opener, uint64_t offset, void *ret_bytes, size_t count)
{
    uint8_t *at = ret_bytes;

    check(offset <= opener->bytes);
    check(count <= opener->bytes - offset);
    while (count > 0) {
        uint64_t chunk = offset / ENVELOPE_CHUNK_BYTES;
        size_t from = (size_t)(offset % ENVELOPE_CHUNK_BYTES);
        enum status status = open_chunk(opener, chunk);
        size_t part;

        if (status != STATUS_OK)
            return status;
        part = min_u64(count, chunk_bytes(opener, chunk) - from);
        memcpy(at, opener->plain + from, part);
        at += part;
        offset += part;
        count -= part;
    }
    return STATUS_OK;
}

void opener_close(struct opener *opener)
{
    if (opener == NULL)
        return;
    secret_free(opener->chunk_key);
    sodium_memzero(opener->plain, sizeof(opener->plain));
    free(opener);
}
