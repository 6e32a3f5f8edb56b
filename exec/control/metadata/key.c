#include "control/metadata/key.h"

#include <sodium.h>
#include <stdio.h>

#include "control/metadata/sql.h"

#define ID_LETTERS 24
#define SECRET_BYTES 32
#define SECRET_LETTERS 43 /* base64url without padding */
#define MAC_BYTES 32

static const struct field fields[] = {
#define X(kind, name) {#name, VALUE_##kind, offsetof(struct meta_key, name)},
    META_KEY_FIELDS(X)
#undef X
};
static const struct row_kind kind = {fields, ARRAY_COUNT(fields), sizeof(struct meta_key), "key"};

/* What a check reads: the key, what binds it, and its tenant's state. */
#define FOUND_FIELDS(X) X(TEXT, tenant) X(TEXT, role) X(INT, expires_at_ms) X(INT, revoked_at_ms) X(BLOB, mac) X(TEXT, state)
struct found {
    FOUND_FIELDS(META_FIELD)
};
static const struct field found_fields[] = {
#define X(kind, name) {#name, VALUE_##kind, offsetof(struct found, name)},
    FOUND_FIELDS(X)
#undef X
};
static const struct row_kind found_kind = {found_fields, ARRAY_COUNT(found_fields), sizeof(struct found), "key"};

/* Fields of fixed size, so that a MAC takes the same time whatever they are. */
static void mac_of(const struct metadata *metadata, const char *id, const char *tenant, const char *role, int64_t expires_at_ms,
                   const char *secret, uint8_t ret_mac[MAC_BYTES])
{
    uint8_t text[2 * NAME_BYTES + 16 + 8 + SECRET_LETTERS] = {0};

    snprintf((char *)text, NAME_BYTES, "%s", id);
    snprintf((char *)text + NAME_BYTES, NAME_BYTES, "%s", tenant != NULL ? tenant : "");
    snprintf((char *)text + 2 * NAME_BYTES, 16, "%s", role);
    for (int i = 0; i < 8; i++)
        text[2 * NAME_BYTES + 16 + i] = (uint8_t)((uint64_t)expires_at_ms >> 8 * i);
    memcpy(text + 2 * NAME_BYTES + 24, secret, SECRET_LETTERS);
    crypto_generichash(ret_mac, MAC_BYTES, text, sizeof(text), metadata->key_key, META_KEY_BYTES);
    sodium_memzero(text, sizeof(text));
}

static enum status insert(struct metadata *metadata, const char *id, const char *tenant, const char *role, int64_t expires_at_ms,
                          int64_t now_ms, const uint8_t *mac, struct refusal *refusal)
{
    const struct meta_bytes bytes = {mac, MAC_BYTES};

    return sql_run(metadata,
                   "INSERT INTO api_key (id, number, tenant, mac, role, created_at_ms, expires_at_ms) VALUES"
                   " ($1, (SELECT COALESCE(MAX(number), 0) + 1 FROM api_key), $2, $3, $4, $5, $6)",
                   VALUES(AS_TEXT(id), AS_TEXT(tenant), AS_BLOB(bytes), AS_TEXT(role), AS_INT(now_ms), AS_INT(expires_at_ms)), NULL,
                   refusal);
}

enum status meta_key_add(struct metadata *metadata, const char *tenant, const char *role, int64_t expires_at_ms, int64_t now_ms,
                         char ret_text[META_KEY_TEXT_BYTES], char ret_id[NAME_BYTES], struct refusal *refusal)
{
    uint8_t secret[SECRET_BYTES];
    char letters[SECRET_LETTERS + 1];
    uint8_t mac[MAC_BYTES];
    char id[NAME_BYTES];
    enum status status;

    if (strlen(role) >= sizeof(((struct meta_caller *)0)->role))
        return refuse(refusal, STATUS_INVALID, "a role is inference, member, admin, reviewer, operator or auditor");
    meta_id("", id);
    randombytes_buf(secret, sizeof(secret));
    sodium_bin2base64(letters, sizeof(letters), secret, sizeof(secret), sodium_base64_VARIANT_URLSAFE_NO_PADDING);
    mac_of(metadata, id, tenant, role, expires_at_ms, letters, mac);
    status = insert(metadata, id, tenant, role, expires_at_ms, now_ms, mac, refusal);
    if (status == STATUS_OK) {
        snprintf(ret_text, META_KEY_TEXT_BYTES, META_KEY_PREFIX "%s-%s", id, letters);
        memcpy(ret_id, id, NAME_BYTES);
    } else if (status == STATUS_INVALID) {
        refuse(refusal, status, "a key is a tenant's (inference, member, admin) or the platform's (reviewer, operator, auditor)");
    }
    sodium_memzero(secret, sizeof(secret));
    sodium_memzero(letters, sizeof(letters));
    return status;
}

enum status meta_key_list(struct metadata *metadata, const char *tenant, int64_t after, uint32_t limit, struct meta_results *results,
                          struct meta_key **ret_keys, uint32_t *ret_count, bool *ret_more, struct refusal *refusal)
{
    if (limit < 1 || limit > META_PAGE_MAX)
        return refuse(refusal, STATUS_INVALID, "a page has 1 to %d rows", META_PAGE_MAX);
    return sql_rows(metadata,
                    SELECT(META_KEY_FIELDS) "FROM api_key WHERE COALESCE(tenant, '') = $1 AND number > $2 ORDER BY number LIMIT $3",
                    VALUES(AS_TEXT(tenant != NULL ? tenant : ""), AS_INT(after), AS_INT(limit + 1)), &kind, limit, results, ret_keys,
                    ret_count, ret_more, refusal);
}

enum status meta_key_revoke(struct metadata *metadata, const char *tenant, const char *id, int64_t now_ms, struct refusal *refusal)
{
    return sql_change(metadata,
                      "UPDATE api_key SET revoked_at_ms = COALESCE(revoked_at_ms, $3) WHERE COALESCE(tenant, '') = $1 AND id = $2",
                      VALUES(AS_TEXT(tenant != NULL ? tenant : ""), AS_TEXT(id), AS_INT(now_ms)), STATUS_NOT_FOUND, "no such key",
                      refusal);
}

/* --- checking --------------------------------------------------------------------------------------------------------------- */

/* "sk-berth-ID-SECRET" by lengths alone. */
static bool split(const char *text, char ret_id[NAME_BYTES], const char **ret_secret)
{
    const size_t prefix = strlen(META_KEY_PREFIX);

    if (strlen(text) != prefix + ID_LETTERS + 1 + SECRET_LETTERS || strncmp(text, META_KEY_PREFIX, prefix) != 0 ||
        text[prefix + ID_LETTERS] != '-')
        return false;
    memcpy(ret_id, text + prefix, ID_LETTERS);
    ret_id[ID_LETTERS] = '\0';
    *ret_secret = text + prefix + ID_LETTERS + 1;
    return true;
}

static enum meta_standing standing_of(const struct found *found, int64_t now_ms)
{
    if (found->revoked_at_ms != META_NONE)
        return META_KEY_REVOKED;
    if (found->expires_at_ms != META_NONE && found->expires_at_ms <= now_ms)
        return META_KEY_EXPIRED;
    return found->tenant != NULL && strcmp(found->state, "active") != 0 ? META_KEY_SUSPENDED : META_KEY_GOOD;
}

static enum status look_up(struct metadata *metadata, const char *id, struct meta_results *results, struct found *ret_found,
                           struct refusal *refusal)
{
    return sql_row(metadata,
                   "SELECT k.tenant, k.role, k.expires_at_ms, k.revoked_at_ms, k.mac, t.state FROM api_key k"
                   " LEFT JOIN tenant t ON t.id = k.tenant WHERE k.id = $1",
                   VALUES(AS_TEXT(id)), &found_kind, results, ret_found, refusal);
}

/* Any key that is there. */
static void find_decoy(struct metadata *metadata, struct meta_results *results)
{
    static const struct field id_field = {"id", VALUE_TEXT, 0};
    static const struct row_kind id_row = {&id_field, 1, sizeof(const char *), "key"};
    struct refusal unheard;
    const char *id = "";

    (void)sql_row(metadata, "SELECT id FROM api_key ORDER BY number DESC LIMIT 1", NO_VALUES, &id_row, results, &id, &unheard);
    snprintf(metadata->decoy, sizeof(metadata->decoy), "%s", id);
}

/* A row is looked up that is there, and one that isn't, whichever of the two was asked for. */
static enum status look_up_both(struct metadata *metadata, const char *id, struct meta_results *results, struct found *ret_found,
                                struct refusal *refusal)
{
    struct refusal unheard;
    struct found other;
    enum status status = look_up(metadata, id, results, ret_found, refusal);

    if (metadata->decoy[0] == '\0')
        find_decoy(metadata, results);
    if (status == STATUS_OK || status == STATUS_NOT_FOUND)
        (void)look_up(metadata, status == STATUS_OK ? "-" : metadata->decoy, results, &other, &unheard);
    return status;
}

enum status meta_key_check(struct metadata *metadata, const char *text, int64_t now_ms, struct meta_caller *ret_caller,
                           struct refusal *refusal)
{
    static const uint8_t nobody[MAC_BYTES];
    struct found found = {.tenant = "org-aaaaaaaaaaaaaaaaaaaaaaaa", .role = "member", .mac = {nobody, MAC_BYTES}, .state = "active"};
    struct meta_caller caller;
    struct meta_results results = {0};
    uint8_t mac[MAC_BYTES];
    char id[NAME_BYTES];
    const char *secret;
    enum status status;
    bool equal;

    if (!split(text, id, &secret))
        return refuse(refusal, STATUS_NOT_FOUND, "no such key");
    status = look_up_both(metadata, id, &results, &found, refusal);
    if (status == STATUS_OK || status == STATUS_NOT_FOUND) {
        mac_of(metadata, id, found.tenant, found.role, found.expires_at_ms, secret, mac);
        equal = found.mac.count == MAC_BYTES && sodium_memcmp(mac, found.mac.bytes, MAC_BYTES) == 0;
        if (status == STATUS_NOT_FOUND || !equal)
            status = refuse(refusal, STATUS_NOT_FOUND, "no such key");
    }
    /* Filled whatever it is worth. */
    caller = (struct meta_caller){.standing = standing_of(&found, now_ms)};
    snprintf(caller.key, sizeof(caller.key), "%s", id);
    snprintf(caller.tenant, sizeof(caller.tenant), "%s", found.tenant != NULL ? found.tenant : "");
    snprintf(caller.role, sizeof(caller.role), "%s", found.role);
    if (status == STATUS_OK)
        *ret_caller = caller;
    meta_results_free(&results);
    return status;
}
