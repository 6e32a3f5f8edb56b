/* An object at rest: a header that names its key, then chunks of 64 KiB, each with a tag. The chunks' key is drawn from the
 * object's data key, a random salt and the label, and a chunk's nonce is its number and whether it is the last (the STREAM of Hoang,
 * Reyhanitabar, Rogaway and Vizár, 2015): so chunks that are changed, cut, moved, or come from another object, tenant, purpose or
 * version don't open, and any range opens without what lies before it.
 *
 *   magic 8 | format u32 | chunk bytes u32 | key's name 64 | salt 32 | mac 32 | chunks: up to 64 KiB + tag 16, the last may be empty
 */
#ifndef CRYPTO_ENVELOPE_H
#define CRYPTO_ENVELOPE_H

#include "crypto/names.h"
#include "crypto/secret.h"

#define ENVELOPE_HEADER_BYTES 144
#define ENVELOPE_CHUNK_BYTES 65536
#define ENVELOPE_TAG_BYTES 16

/* What an object is; not stored in it, but authenticated: who opens says what it must be. An object is written once; where a
 * name can be written again (an attempt's checkpoint), `version` tells the writings apart, and an older one doesn't open. */
struct envelope_label {
    const char *tenant;
    const char *object;
    const char *purpose;
    uint64_t version;
};

struct envelope_header {
    char key_name[NAME_BYTES];
    uint8_t salt[32];
    uint8_t mac[32]; /* of the header and the label, under the data key */
};
/* STATUS_CORRUPT unless these are the first bytes of a sealed object, as far as one can tell without its key. */
enum status envelope_header_read(const uint8_t *bytes, size_t count, struct envelope_header *ret_header);

/* 0 .. 2^48 bytes. */
uint64_t envelope_sealed_bytes(uint64_t plain_bytes);
/* STATUS_CORRUPT: no sealed object has that size. */
enum status envelope_plain_bytes(uint64_t sealed_bytes, uint64_t *ret_plain_bytes);

/* Takes sealed bytes, in order. What it returns other than STATUS_OK ends the sealing and is passed on. */
typedef enum status envelope_sink(void *context, const void *bytes, size_t count);

/* Seals a stream in 128 KiB of memory, however long it is. Any error leaves the sealer good for sealer_close() only. */
struct sealer;
/* The key is copied into locked memory. STATUS_IO: no memory. */
enum status sealer_open(const struct envelope_label *label, const char *key_name, const uint8_t key[KEY_BYTES],
                        envelope_sink *sink, void *sink_context, struct sealer **ret_sealer);
enum status sealer_put(struct sealer *sealer, const void *bytes, size_t count);
/* Without this, what was written doesn't open. */
enum status sealer_finish(struct sealer *sealer);
void sealer_close(struct sealer *sealer); /* wipes; NULL is fine */

/* Gives exactly `count` sealed bytes from `offset` on, which lie within the object's size. */
typedef enum status envelope_source(void *context, uint64_t offset, void *ret_bytes, size_t count);

/* Opens any range of an object. One error for whatever was done to it: STATUS_CORRUPT. */
struct opener;
/* Reads header and last chunk: an object that is cut or not the label's is refused here. */
enum status opener_open(const struct envelope_label *label, const uint8_t key[KEY_BYTES], uint64_t sealed_bytes,
                        envelope_source *source, void *source_context, struct opener **ret_opener);
uint64_t opener_bytes(const struct opener *opener);
/* Exactly `count` bytes of plaintext; the range lies within opener_bytes(), which is checked. On an error nothing of a bad chunk
 * has been given out. */
enum status opener_read(struct opener *opener, uint64_t offset, void *ret_bytes, size_t count);
void opener_close(struct opener *opener); /* wipes; NULL is fine */

/* A file as sink, from where it stands, and as source; `context` is an int, its descriptor. STATUS_IO: errno says why.
 * STATUS_CORRUPT: the file is shorter than was said. */
enum status envelope_to_file(void *context, const void *bytes, size_t count);
enum status envelope_from_file(void *context, uint64_t offset, void *ret_bytes, size_t count);

#endif
