/* The acts on keys.db, each a transaction. What is destroyed is set to NULL under secure_delete, and the log is then written back
 * and cut to nothing, so that neither file holds it. */
#include "crypto/keys.h"

#include <sodium.h>

#include "crypto/keys_internal.h"
#include "crypto/wrap.h"

#define ID_BYTES (NAME_BYTES + 8)

static struct binding kek_binding(const char *tenant, int64_t version)
{
    struct binding binding;

    binding_begin(&binding, "kek");
    binding_add(&binding, tenant);
    binding_add_number(&binding, (uint64_t)version);
    return binding;
}

static struct binding dek_binding(const char *tenant, const char *id, int64_t kek_version)
{
    struct binding binding;

    binding_begin(&binding, "dek");
    binding_add(&binding, tenant);
    binding_add(&binding, id);
    binding_add_number(&binding, (uint64_t)kek_version);
    return binding;
}

/* No id of an object has a colon. */
static const char *text_id(const char *tenant, char ret_id[ID_BYTES])
{
    memcpy(ret_id, "text:", 5);
    memcpy(ret_id + 5, tenant, strlen(tenant) + 1);
    return ret_id;
}

/* The tenant's newest key into the room's kek. */
static enum status find_kek(struct keys *keys, const char *tenant, int64_t *ret_version, struct refusal *refusal)
{
    uint8_t wrapped[WRAPPED_KEY_BYTES];
    bool is_there = false;
    enum status status;
    struct binding binding;

    keys_bind_text(keys, KEK_NEWEST, 1, tenant);
    status = keys_row(keys, KEK_NEWEST, refusal);
    if (status == STATUS_OK) {
        *ret_version = keys_number(keys, KEK_NEWEST, 0);
        status = keys_wrapped(keys, KEK_NEWEST, 1, wrapped, &is_there);
    }
    keys_reset(keys, KEK_NEWEST);
    if (status == STATUS_OK && !is_there)
        status = STATUS_NOT_FOUND;
    if (status != STATUS_OK)
        return status;
    binding = kek_binding(tenant, *ret_version);
    return unwrap(keys->room->master, &binding, wrapped, sizeof(wrapped), keys->room->kek);
}

/* STATUS_NOT_FOUND when nothing has this id; a destroyed key is found, and is_there false. */
static enum status find_dek(struct keys *keys, const char *id, char ret_tenant[NAME_BYTES], int64_t *ret_version,
                            uint8_t ret_wrapped[WRAPPED_KEY_BYTES], bool *ret_is_there, struct refusal *refusal)
{
    enum status status;

    keys_bind_text(keys, DEK_FIND, 1, id);
    status = keys_row(keys, DEK_FIND, refusal);
    if (status == STATUS_OK)
        status = keys_name(keys, DEK_FIND, 0, ret_tenant);
    if (status == STATUS_OK) {
        *ret_version = keys_number(keys, DEK_FIND, 1);
        status = keys_wrapped(keys, DEK_FIND, 2, ret_wrapped, ret_is_there);
    }
    keys_reset(keys, DEK_FIND);
    return status;
}

static enum status insert_kek(struct keys *keys, const char *tenant, int64_t version, struct refusal *refusal)
{
    const struct binding binding = kek_binding(tenant, version);
    uint8_t wrapped[WRAPPED_KEY_BYTES];

    wrap(keys->room->master, &binding, keys->room->kek, KEY_BYTES, wrapped);
    keys_bind_text(keys, KEK_INSERT, 1, tenant);
    keys_bind_number(keys, KEK_INSERT, 2, version);
    keys_bind_wrapped(keys, KEK_INSERT, 3, wrapped);
    return keys_do(keys, KEK_INSERT, refusal);
}

/* The room's dek under the room's kek. */
static enum status insert_dek(struct keys *keys, const char *tenant, const char *id, int64_t kek_version, struct refusal *refusal)
{
    const struct binding binding = dek_binding(tenant, id, kek_version);
    uint8_t wrapped[WRAPPED_KEY_BYTES];

    wrap(keys->room->kek, &binding, keys->room->dek, KEY_BYTES, wrapped);
    keys_bind_text(keys, DEK_INSERT, 1, id);
    keys_bind_text(keys, DEK_INSERT, 2, tenant);
    keys_bind_number(keys, DEK_INSERT, 3, kek_version);
    keys_bind_wrapped(keys, DEK_INSERT, 4, wrapped);
    return keys_do(keys, DEK_INSERT, refusal);
}

static void forget(struct keys *keys)
{
    sodium_memzero(keys->room->kek, KEY_BYTES);
    sodium_memzero(keys->room->dek, KEY_BYTES);
}

/* Ends a transaction by what has become of it. */
static enum status end(struct keys *keys, enum status status, struct refusal *refusal)
{
    forget(keys);
    if (status == STATUS_OK)
        status = keys_do(keys, COMMIT, refusal);
    if (status != STATUS_OK)
        keys_roll_back(keys);
    return status;
}

/* The same; nothing that was destroyed is in a file any more. */
static enum status end_and_erase(struct keys *keys, enum status status, struct refusal *refusal)
{
    status = end(keys, status, refusal);
    return status == STATUS_OK ? keys_empty_log(keys, refusal) : status;
}

static enum status make_tenant(struct keys *keys, const char *tenant, struct refusal *refusal)
{
    char id[ID_BYTES];
    enum status status;

    randombytes_buf(keys->room->kek, KEY_BYTES);
    randombytes_buf(keys->room->dek, KEY_BYTES);
    status = insert_kek(keys, tenant, 1, refusal);
    if (status == STATUS_OK)
        status = insert_dek(keys, tenant, text_id(tenant, id), 1, refusal);
    return status;
}

enum status keys_tenant_create(struct keys *keys, const char *tenant, struct refusal *refusal)
{
    bool is_new = false;
    enum status status = keys_do(keys, BEGIN, refusal);

    if (status != STATUS_OK)
        return status;
    keys_bind_text(keys, KEK_NEWEST, 1, tenant);
    status = keys_row(keys, KEK_NEWEST, refusal);
    if (status == STATUS_NOT_FOUND)
        is_new = true;
    else if (status == STATUS_OK && keys_is_null(keys, KEK_NEWEST, 1))
        status = STATUS_NOT_FOUND; /* shredded: it gets no key again */
    keys_reset(keys, KEK_NEWEST);
    if (is_new)
        status = make_tenant(keys, tenant, refusal);
    return end(keys, status, refusal);
}

/* One data key from the kek in room->other to the one in room->kek. */
static enum status rewrap_dek(struct keys *keys, const char *tenant, const char *id, int64_t from, int64_t to,
                              uint8_t wrapped[WRAPPED_KEY_BYTES], struct refusal *refusal)
{
    struct binding binding = dek_binding(tenant, id, from);
    enum status status = unwrap(keys->room->other, &binding, wrapped, WRAPPED_KEY_BYTES, keys->room->dek);

    if (status != STATUS_OK)
        return status;
    binding = dek_binding(tenant, id, to);
    wrap(keys->room->kek, &binding, keys->room->dek, KEY_BYTES, wrapped);
    keys_bind_number(keys, DEK_UPDATE, 1, to);
    keys_bind_wrapped(keys, DEK_UPDATE, 2, wrapped);
    keys_bind_text(keys, DEK_UPDATE, 3, id);
    return keys_do(keys, DEK_UPDATE, refusal);
}

/* Row by row in the order of ids, so that no update meets an open query. */
static enum status rewrap_deks(struct keys *keys, const char *tenant, int64_t to, struct refusal *refusal)
{
    char id[ID_BYTES] = "";
    enum status status;

    for (;;) {
        uint8_t wrapped[WRAPPED_KEY_BYTES];
        int64_t from = 0;
        bool is_there = false;

        keys_bind_text(keys, DEK_NEXT, 1, tenant);
        keys_bind_text(keys, DEK_NEXT, 2, id);
        status = keys_row(keys, DEK_NEXT, refusal);
        if (status == STATUS_OK)
            status = keys_text_column(keys, DEK_NEXT, 0, id, sizeof(id));
        if (status == STATUS_OK) {
            from = keys_number(keys, DEK_NEXT, 1);
            status = keys_wrapped(keys, DEK_NEXT, 2, wrapped, &is_there);
        }
        keys_reset(keys, DEK_NEXT);
        if (status == STATUS_NOT_FOUND)
            return STATUS_OK;
        if (status == STATUS_OK)
            status = rewrap_dek(keys, tenant, id, from, to, wrapped, refusal);
        if (status != STATUS_OK)
            return status;
    }
}

enum status keys_tenant_rotate(struct keys *keys, const char *tenant, struct refusal *refusal)
{
    int64_t version = 0;
    enum status status = keys_do(keys, BEGIN, refusal);

    if (status != STATUS_OK)
        return status;
    status = find_kek(keys, tenant, &version, refusal);
    if (status == STATUS_OK) {
        memcpy(keys->room->other, keys->room->kek, KEY_BYTES);
        randombytes_buf(keys->room->kek, KEY_BYTES);
        keys_bind_text(keys, KEK_ERASE, 1, tenant);
        status = keys_do(keys, KEK_ERASE, refusal);
    }
    if (status == STATUS_OK)
        status = insert_kek(keys, tenant, version + 1, refusal);
    if (status == STATUS_OK)
        status = rewrap_deks(keys, tenant, version + 1, refusal);
    sodium_memzero(keys->room->other, KEY_BYTES);
    return end_and_erase(keys, status, refusal);
}

enum status keys_tenant_shred(struct keys *keys, const char *tenant, struct refusal *refusal)
{
    enum status status = keys_do(keys, BEGIN, refusal);

    if (status != STATUS_OK)
        return status;
    keys_bind_text(keys, KEK_ERASE, 1, tenant);
    status = keys_do(keys, KEK_ERASE, refusal);
    if (status == STATUS_OK && keys_changed(keys) == 0)
        status = STATUS_NOT_FOUND;
    if (status == STATUS_OK) {
        keys_bind_text(keys, DEK_ERASE_ALL, 1, tenant);
        status = keys_do(keys, DEK_ERASE_ALL, refusal);
    }
    return end_and_erase(keys, status, refusal);
}

static enum status give(struct keys *keys, const char *tenant, const char *id, int64_t kek_version, uint8_t *ret_key,
                        struct refusal *refusal)
{
    uint8_t wrapped[WRAPPED_KEY_BYTES];
    char owner[NAME_BYTES];
    int64_t version = 0;
    bool is_there = false;
    enum status status = find_dek(keys, id, owner, &version, wrapped, &is_there, refusal);
    struct binding binding;

    if (status != STATUS_OK)
        return status;
    if (strcmp(owner, tenant) != 0)
        return STATUS_INVALID;
    if (!is_there)
        return STATUS_NOT_FOUND;
    if (version != kek_version)
        return STATUS_CORRUPT;
    binding = dek_binding(tenant, id, version);
    return unwrap(keys->room->kek, &binding, wrapped, sizeof(wrapped), ret_key);
}

enum status keys_give(struct keys *keys, const char *tenant, const char *id, uint8_t ret_key[KEY_BYTES], struct refusal *refusal)
{
    int64_t version = 0;
    enum status status = find_kek(keys, tenant, &version, refusal);

    if (status == STATUS_OK)
        status = give(keys, tenant, id, version, ret_key, refusal);
    forget(keys);
    return status == STATUS_INVALID ? STATUS_NOT_FOUND : status;
}

enum status keys_text(struct keys *keys, const char *tenant, uint8_t ret_key[KEY_BYTES], struct refusal *refusal)
{
    char id[ID_BYTES];

    return keys_give(keys, tenant, text_id(tenant, id), ret_key, refusal);
}

enum status keys_create(struct keys *keys, const char *tenant, const char *id, uint8_t ret_key[KEY_BYTES], struct refusal *refusal)
{
    char owner[NAME_BYTES];
    uint8_t wrapped[WRAPPED_KEY_BYTES];
    int64_t version = 0;
    int64_t found_version = 0;
    bool is_there = false;
    enum status status = keys_do(keys, BEGIN, refusal);

    if (status != STATUS_OK)
        return status;
    status = find_kek(keys, tenant, &version, refusal);
    if (status != STATUS_OK)
        return end(keys, status, refusal);
    status = find_dek(keys, id, owner, &found_version, wrapped, &is_there, refusal);
    if (status == STATUS_OK) {
        status = give(keys, tenant, id, version, ret_key, refusal);
        return end(keys, status, refusal);
    }
    if (status == STATUS_NOT_FOUND) {
        randombytes_buf(keys->room->dek, KEY_BYTES);
        memcpy(ret_key, keys->room->dek, KEY_BYTES);
        status = insert_dek(keys, tenant, id, version, refusal);
    }
    status = end(keys, status, refusal);
    if (status != STATUS_OK)
        sodium_memzero(ret_key, KEY_BYTES); /* what isn't on disk must seal nothing */
    return status;
}

enum status keys_shred(struct keys *keys, const char *tenant, const char *id, struct refusal *refusal)
{
    enum status status = keys_do(keys, BEGIN, refusal);

    if (status != STATUS_OK)
        return status;
    keys_bind_text(keys, DEK_ERASE, 1, id);
    keys_bind_text(keys, DEK_ERASE, 2, tenant);
    status = keys_do(keys, DEK_ERASE, refusal);
    if (status == STATUS_OK && keys_changed(keys) == 0)
        status = STATUS_NOT_FOUND;
    return end_and_erase(keys, status, refusal);
}

static enum status rewrap_kek(struct keys *keys, const char *tenant, int64_t version, uint8_t wrapped[WRAPPED_KEY_BYTES],
                              struct refusal *refusal)
{
    const struct binding binding = kek_binding(tenant, version);
    enum status status = unwrap(keys->room->master, &binding, wrapped, WRAPPED_KEY_BYTES, keys->room->kek);

    if (status != STATUS_OK)
        return status;
    wrap(keys->room->other, &binding, keys->room->kek, KEY_BYTES, wrapped);
    keys_bind_wrapped(keys, KEK_UPDATE, 1, wrapped);
    keys_bind_text(keys, KEK_UPDATE, 2, tenant);
    keys_bind_number(keys, KEK_UPDATE, 3, version);
    return keys_do(keys, KEK_UPDATE, refusal);
}

/* A tenant has at most one key that isn't destroyed, so the tenant's name is the place in the walk. */
static enum status rewrap_keks(struct keys *keys, struct refusal *refusal)
{
    char tenant[NAME_BYTES] = "";
    enum status status;

    for (;;) {
        uint8_t wrapped[WRAPPED_KEY_BYTES];
        int64_t version = 0;
        bool is_there = false;

        keys_bind_text(keys, KEK_NEXT, 1, tenant);
        status = keys_row(keys, KEK_NEXT, refusal);
        if (status == STATUS_OK)
            status = keys_name(keys, KEK_NEXT, 0, tenant);
        if (status == STATUS_OK) {
            version = keys_number(keys, KEK_NEXT, 1);
            status = keys_wrapped(keys, KEK_NEXT, 2, wrapped, &is_there);
        }
        keys_reset(keys, KEK_NEXT);
        if (status == STATUS_NOT_FOUND)
            return STATUS_OK;
        if (status == STATUS_OK)
            status = rewrap_kek(keys, tenant, version, wrapped, refusal);
        if (status != STATUS_OK)
            return status;
    }
}

enum status keys_rotate_master(struct keys *keys, const uint8_t master[KEY_BYTES], struct refusal *refusal)
{
    enum status status = keys_do(keys, BEGIN, refusal);

    if (status != STATUS_OK)
        return status;
    memcpy(keys->room->other, master, KEY_BYTES);
    status = rewrap_keks(keys, refusal);
    if (status == STATUS_OK)
        status = keys_write_mark(keys, keys->room->other, refusal);
    status = end_and_erase(keys, status, refusal);
    if (status == STATUS_OK)
        memcpy(keys->room->master, keys->room->other, KEY_BYTES);
    sodium_memzero(keys->room->other, KEY_BYTES);
    return status;
}
