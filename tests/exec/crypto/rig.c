#include "rig.h"

#include <stdlib.h>

enum status object_append(void *context, const void *bytes, size_t count)
{
    struct object *object = context;

    if (object->count + count > object->room) {
        object->room = 2 * (object->count + count);
        object->bytes = realloc(object->bytes, object->room);
        check(object->bytes != NULL);
    }
    memcpy(object->bytes + object->count, bytes, count);
    object->count += count;
    return STATUS_OK;
}

enum status object_give(void *context, uint64_t offset, void *ret_bytes, size_t count)
{
    const struct object *object = context;

    check(offset <= object->count);
    check(count <= object->count - offset);
    memcpy(ret_bytes, object->bytes + offset, count);
    return STATUS_OK;
}

struct object object_seal(const struct envelope_label *label, const char *key_name, const uint8_t *key, const uint8_t *plain,
                          size_t bytes, uint64_t seed)
{
    struct object object = {0};
    struct sealer *sealer = NULL;
    size_t at = 0;

    check(sealer_open(label, key_name, key, object_append, &object, &sealer) == STATUS_OK);
    while (at < bytes) {
        size_t part = min_u64(1 + draw_below(&seed, 1u << draw_below(&seed, 18)), bytes - at);

        check(sealer_put(sealer, plain + at, part) == STATUS_OK);
        at += part;
    }
    check(sealer_finish(sealer) == STATUS_OK);
    sealer_close(sealer);
    return object;
}

void object_free(struct object *object)
{
    free(object->bytes);
    memset(object, 0, sizeof(*object));
}

struct object object_copy(const struct object *object)
{
    struct object copy = {0};

    object_append(&copy, object->bytes, object->count);
    return copy;
}

enum status object_open(const struct object *object, const struct envelope_label *label, const uint8_t *key, uint8_t *ret_plain)
{
    struct opener *opener = NULL;
    enum status status = opener_open(label, key, object->count, object_give, (void *)(uintptr_t)object, &opener);

    if (status == STATUS_OK)
        status = opener_read(opener, 0, ret_plain, opener_bytes(opener));
    opener_close(opener);
    return status;
}

uint8_t *random_bytes(size_t count, uint64_t seed)
{
    uint8_t *bytes = malloc(count + 1);

    check(bytes != NULL);
    for (size_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)draw(&seed);
    return bytes;
}
