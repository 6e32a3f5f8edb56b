/* An object in memory: sealed, tampered with, opened. */
#ifndef TESTS_EXEC_CRYPTO_RIG_H
#define TESTS_EXEC_CRYPTO_RIG_H

#include "crypto/envelope.h"
#include "support.h"

struct object {
    uint8_t *bytes;
    size_t count;
    size_t room;
};

static const struct envelope_label label_a = {.tenant = "acme", .object = "file-1", .purpose = "fine-tune", .version = 7};

enum status object_append(void *context, const void *bytes, size_t count);
enum status object_give(void *context, uint64_t offset, void *ret_bytes, size_t count);
/* `plain` bytes drawn from `seed`, sealed in parts of many sizes. */
struct object object_seal(const struct envelope_label *label, const char *key_name, const uint8_t *key, const uint8_t *plain,
                          size_t bytes, uint64_t seed);
void object_free(struct object *object);
struct object object_copy(const struct object *object);
/* Opens it and reads all of it into `ret_plain`, which has room for whatever its size says. */
enum status object_open(const struct object *object, const struct envelope_label *label, const uint8_t *key, uint8_t *ret_plain);
uint8_t *random_bytes(size_t count, uint64_t seed); /* free() them */

#endif
