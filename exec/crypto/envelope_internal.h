/* Shared by envelope_seal.c and envelope_open.c. */
#ifndef CRYPTO_ENVELOPE_INTERNAL_H
#define CRYPTO_ENVELOPE_INTERNAL_H

#include "crypto/envelope.h"

#define ENVELOPE_NONCE_BYTES 12
#define ENVELOPE_SEALED_CHUNK_BYTES (ENVELOPE_CHUNK_BYTES + ENVELOPE_TAG_BYTES)

void envelope_header_write(const struct envelope_header *header, uint8_t ret_bytes[ENVELOPE_HEADER_BYTES]);
/* `header`'s mac isn't looked at. */
void envelope_derive(const struct envelope_label *label, const uint8_t key[KEY_BYTES], const struct envelope_header *header,
                     uint8_t ret_chunk_key[KEY_BYTES], uint8_t ret_mac[32]);
void envelope_nonce(uint64_t index, bool is_last, uint8_t ret_nonce[ENVELOPE_NONCE_BYTES]);

#endif
