/* Sealing a stream. A chunk is sealed when a byte after it comes, or the end: only then is it known whether it is the last. */
#include <sodium.h>
#include <stdlib.h>

#include "crypto/envelope_internal.h"

struct sealer {
    uint8_t *chunk_key; /* secret_alloc */
    envelope_sink *sink;
    void *sink_context;
    uint64_t chunks_done;
    size_t filled;
    bool is_over; /* finished, or a sink refused */
    uint8_t plain[ENVELOPE_CHUNK_BYTES];
    uint8_t sealed[ENVELOPE_SEALED_CHUNK_BYTES];
};

static enum status write_header(struct sealer *sealer, const struct envelope_label *label, const char *key_name, const uint8_t *key)
{
    uint8_t bytes[ENVELOPE_HEADER_BYTES];
    struct envelope_header header;

    memset(&header, 0, sizeof(header));
    strcpy(header.key_name, key_name);
    randombytes_buf(header.salt, sizeof(header.salt));
    envelope_derive(label, key, &header, sealer->chunk_key, header.mac);
    envelope_header_write(&header, bytes);
    return sealer->sink(sealer->sink_context, bytes, sizeof(bytes));
}

enum status sealer_open(const struct envelope_label *label, const char *key_name, const uint8_t key[KEY_BYTES],
                        envelope_sink *sink, void *sink_context, struct sealer **ret_sealer)
{
    struct sealer *sealer = calloc(1, sizeof(*sealer));
    enum status status = STATUS_IO;

    check(name_is_valid(key_name));
    if (sealer == NULL)
        return STATUS_IO;
    sealer->sink = sink;
    sealer->sink_context = sink_context;
    sealer->chunk_key = secret_alloc(KEY_BYTES);
    if (sealer->chunk_key != NULL)
        status = write_header(sealer, label, key_name, key);
    if (status != STATUS_OK) {
        sealer_close(sealer);
        return status;
    }
    *ret_sealer = sealer;
    return STATUS_OK;
}

static enum status seal_chunk(struct sealer *sealer, const uint8_t *plain, size_t count, bool is_last)
{
    uint8_t nonce[ENVELOPE_NONCE_BYTES];
    enum status status;

    envelope_nonce(sealer->chunks_done, is_last, nonce);
    crypto_aead_chacha20poly1305_ietf_encrypt(sealer->sealed, NULL, plain, count, NULL, 0, NULL, nonce, sealer->chunk_key);
    sealer->chunks_done++;
    status = sealer->sink(sealer->sink_context, sealer->sealed, count + ENVELOPE_TAG_BYTES);
    sealer->is_over = is_last || status != STATUS_OK;
    return status;
}

enum status sealer_put(struct sealer *sealer, const void *bytes, size_t count)
{
    const uint8_t *at = bytes;

    check(!sealer->is_over);
    while (count > 0) {
        size_t part = min_u64(count, ENVELOPE_CHUNK_BYTES - sealer->filled);

        if (part == 0) {
            enum status status = seal_chunk(sealer, sealer->plain, ENVELOPE_CHUNK_BYTES, false);

            if (status != STATUS_OK)
                return status;
            sealer->filled = 0;
            continue;
        }
        memcpy(sealer->plain + sealer->filled, at, part);
        sealer->filled += part;
        at += part;
        count -= part;
    }
    return STATUS_OK;
}

enum status sealer_finish(struct sealer *sealer)
{
    check(!sealer->is_over);
    return seal_chunk(sealer, sealer->plain, sealer->filled, true);
}

void sealer_close(struct sealer *sealer)
{
    if (sealer == NULL)
        return;
    secret_free(sealer->chunk_key);
    sodium_memzero(sealer->plain, sizeof(sealer->plain));
    free(sealer);
}
