/* What sealing and opening have in common: the header, the key of the chunks, sizes. */
#include "crypto/envelope.h"

#include <sodium.h>

#include "crypto/envelope_internal.h"
#include "crypto/wrap.h"

#define PLAIN_BYTES_MAX (UINT64_C(1) << 48)
#define FORMAT 1
#define NAME_AT 16
#define SALT_AT (NAME_AT + NAME_BYTES)
#define MAC_AT (SALT_AT + 32)

static const uint8_t magic[8] = {'B', 'E', 'R', 'T', 'H', 'O', 'B', 'J'};

static void put_u32(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

static uint32_t get_u32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

enum status envelope_header_read(const uint8_t *bytes, size_t count, struct envelope_header *ret_header)
{
    struct envelope_header header;

    if (count < ENVELOPE_HEADER_BYTES || memcmp(bytes, magic, sizeof(magic)) != 0 || get_u32(bytes + 8) != FORMAT ||
        get_u32(bytes + 12) != ENVELOPE_CHUNK_BYTES)
        return STATUS_CORRUPT;
    memcpy(header.key_name, bytes + NAME_AT, NAME_BYTES);
    memcpy(header.salt, bytes + SALT_AT, sizeof(header.salt));
    memcpy(header.mac, bytes + MAC_AT, sizeof(header.mac));
    if (header.key_name[NAME_BYTES - 1] != '\0' || !name_is_valid(header.key_name))
        return STATUS_CORRUPT;
    for (size_t i = strlen(header.key_name); i < NAME_BYTES; i++)
        if (header.key_name[i] != '\0')
            return STATUS_CORRUPT;
    *ret_header = header;
    return STATUS_OK;
}

void envelope_header_write(const struct envelope_header *header, uint8_t ret_bytes[ENVELOPE_HEADER_BYTES])
{
    memcpy(ret_bytes, magic, sizeof(magic));
    put_u32(ret_bytes + 8, FORMAT);
    put_u32(ret_bytes + 12, ENVELOPE_CHUNK_BYTES);
    memset(ret_bytes + NAME_AT, 0, NAME_BYTES);
    memcpy(ret_bytes + NAME_AT, header->key_name, strlen(header->key_name));
    memcpy(ret_bytes + SALT_AT, header->salt, sizeof(header->salt));
    memcpy(ret_bytes + MAC_AT, header->mac, sizeof(header->mac));
}

/* BLAKE2b-512 under the data key over the header (without its mac) and the label: one half is the chunks' key, the other the mac. A
 * keyed BLAKE2b is a pseudorandom function, so the mac tells nothing of the key; and a header that fits two keys is a collision. */
void envelope_derive(const struct envelope_label *label, const uint8_t key[KEY_BYTES], const struct envelope_header *header,
                     uint8_t ret_chunk_key[KEY_BYTES], uint8_t ret_mac[32])
{
    uint8_t bytes[ENVELOPE_HEADER_BYTES];
    uint8_t derived[64];
    struct binding binding;
    crypto_generichash_state state;

    check(name_is_valid(label->tenant));
    check(name_is_valid(label->object));
    check(name_is_valid(label->purpose));
    binding_begin(&binding, "object");
    binding_add(&binding, label->tenant);
    binding_add(&binding, label->object);
    binding_add(&binding, label->purpose);
    binding_add_number(&binding, label->version);
    envelope_header_write(header, bytes);

    crypto_generichash_init(&state, key, KEY_BYTES, sizeof(derived));
    crypto_generichash_update(&state, bytes, MAC_AT);
    crypto_generichash_update(&state, binding.bytes, binding.count);
    crypto_generichash_final(&state, derived, sizeof(derived));
    memcpy(ret_chunk_key, derived, KEY_BYTES);
    memcpy(ret_mac, derived + KEY_BYTES, 32);
    sodium_memzero(derived, sizeof(derived));
    sodium_memzero(&state, sizeof(state));
}

void envelope_nonce(uint64_t index, bool is_last, uint8_t ret_nonce[ENVELOPE_NONCE_BYTES])
{
    memset(ret_nonce, 0, ENVELOPE_NONCE_BYTES);
    for (int i = 0; i < 8; i++)
        ret_nonce[i] = (uint8_t)(index >> (8 * i));
    ret_nonce[ENVELOPE_NONCE_BYTES - 1] = is_last;
}

/* The last chunk holds 1 .. 65536 bytes, or 0 when there is no other. */
uint64_t envelope_sealed_bytes(uint64_t plain_bytes)
{
    uint64_t chunks = max_u64(div_up_u64(plain_bytes, ENVELOPE_CHUNK_BYTES), 1);

    check(plain_bytes <= PLAIN_BYTES_MAX);
    return ENVELOPE_HEADER_BYTES + plain_bytes + chunks * ENVELOPE_TAG_BYTES;
}

enum status envelope_plain_bytes(uint64_t sealed_bytes, uint64_t *ret_plain_bytes)
{
    uint64_t body;
    uint64_t chunks;

    if (sealed_bytes < envelope_sealed_bytes(0) || sealed_bytes > envelope_sealed_bytes(PLAIN_BYTES_MAX))
        return STATUS_CORRUPT;
    body = sealed_bytes - ENVELOPE_HEADER_BYTES;
    chunks = div_up_u64(body, ENVELOPE_CHUNK_BYTES + ENVELOPE_TAG_BYTES);
    /* A last chunk of nothing but its tag is the only chunk. */
    if (envelope_sealed_bytes(body - min_u64(chunks * ENVELOPE_TAG_BYTES, body)) != sealed_bytes)
        return STATUS_CORRUPT;
    *ret_plain_bytes = body - chunks * ENVELOPE_TAG_BYTES;
    return STATUS_OK;
}
