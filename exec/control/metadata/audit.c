#include "control/metadata/audit.h"

#include <sodium.h>

#include "control/metadata/sql.h"

#define SALT_BYTES 16
#define SIGNED "berth audit"

static const struct field fields[] = {
#define X(kind, name) {#name, VALUE_##kind, offsetof(struct meta_audit, name)},
    META_AUDIT_FIELDS(X)
#undef X
};
static const struct row_kind kind = {fields, ARRAY_COUNT(fields), sizeof(struct meta_audit), "entry"};

static void little_endian(int64_t number, uint8_t ret_bytes[8])
{
    for (int i = 0; i < 8; i++)
        ret_bytes[i] = (uint8_t)((uint64_t)number >> 8 * i);
}

static void hash_text(crypto_generichash_state *state, const char *text)
{
    uint8_t length[8];

    little_endian(text != NULL ? (int64_t)strlen(text) : -1, length);
    crypto_generichash_update(state, length, sizeof(length));
    if (text != NULL)
        crypto_generichash_update(state, (const uint8_t *)text, strlen(text));
}

/* Leaves begin with 0, heads with 1, so that neither passes for the other. */
static void leaf_of(const struct meta_audit *entry, uint8_t ret_leaf[META_HEAD_BYTES])
{
    crypto_generichash_state state;
    uint8_t number[8];

    crypto_generichash_init(&state, NULL, 0, META_HEAD_BYTES);
    crypto_generichash_update(&state, (const uint8_t[]){0}, 1);
    crypto_generichash_update(&state, entry->salt.bytes, entry->salt.count);
    little_endian(entry->n, number);
    crypto_generichash_update(&state, number, sizeof(number));
    little_endian(entry->at_ms, number);
    crypto_generichash_update(&state, number, sizeof(number));
    hash_text(&state, entry->tenant);
    hash_text(&state, entry->actor);
    hash_text(&state, entry->act);
    hash_text(&state, entry->subject);
    crypto_generichash_final(&state, ret_leaf, META_HEAD_BYTES);
}

static void head_of(const uint8_t before[META_HEAD_BYTES], const uint8_t leaf[META_HEAD_BYTES], uint8_t ret_head[META_HEAD_BYTES])
{
    crypto_generichash_state state;

    crypto_generichash_init(&state, NULL, 0, META_HEAD_BYTES);
    crypto_generichash_update(&state, (const uint8_t[]){1}, 1);
    crypto_generichash_update(&state, before, META_HEAD_BYTES);
    crypto_generichash_update(&state, leaf, META_HEAD_BYTES);
    crypto_generichash_final(&state, ret_head, META_HEAD_BYTES);
}

/* The newest entry's number and head; 0 and zeros: there is none. */
static enum status newest(struct metadata *metadata, int64_t *ret_n, uint8_t ret_head[META_HEAD_BYTES], struct refusal *refusal)
{
    struct meta_results results = {0};
    struct meta_audit entry;
    enum status status = sql_row(metadata, SELECT(META_AUDIT_FIELDS) "FROM audit ORDER BY n DESC LIMIT 1", NO_VALUES, &kind, &results,
                                 &entry, refusal);

    if (status == STATUS_NOT_FOUND) {
        *ret_n = 0;
        memset(ret_head, 0, META_HEAD_BYTES);
        status = STATUS_OK;
    } else if (status == STATUS_OK && entry.head.count != META_HEAD_BYTES) {
        status = refuse(refusal, STATUS_CORRUPT, "audit entry %lld has no head", (long long)entry.n);
    } else if (status == STATUS_OK) {
        *ret_n = entry.n;
        memcpy(ret_head, entry.head.bytes, META_HEAD_BYTES);
    }
    meta_results_free(&results);
    return status;
}

static enum status append(struct metadata *metadata, struct meta_audit *entry, struct refusal *refusal)
{
    uint8_t before[META_HEAD_BYTES];
    uint8_t leaf[META_HEAD_BYTES];
    uint8_t head[META_HEAD_BYTES];
    enum status status = newest(metadata, &entry->n, before, refusal);

    if (status != STATUS_OK)
        return status;
    entry->n++;
    leaf_of(entry, leaf);
    head_of(before, leaf, head);
    entry->leaf = (struct meta_bytes){leaf, sizeof(leaf)};
    entry->head = (struct meta_bytes){head, sizeof(head)};
    return sql_run(metadata,
                   "INSERT INTO audit (n, at_ms, tenant, actor, act, subject, salt, leaf, head) VALUES"
                   " ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
                   VALUES(AS_INT(entry->n), AS_INT(entry->at_ms), AS_TEXT(entry->tenant), AS_TEXT(entry->actor), AS_TEXT(entry->act),
                          AS_TEXT(entry->subject), AS_BLOB(entry->salt), AS_BLOB(entry->leaf), AS_BLOB(entry->head)), NULL, refusal);
}

enum status meta_audit_add(struct metadata *metadata, const char *tenant, const char *actor, const char *act, const char *subject,
                           int64_t now_ms, struct refusal *refusal)
{
    uint8_t salt[SALT_BYTES];
    struct meta_audit entry = {.at_ms = now_ms, .tenant = tenant, .actor = actor, .act = act, .subject = subject,
                               .salt = {salt, sizeof(salt)}};
    enum status status = meta_begin(metadata, refusal);

    if (status != STATUS_OK)
        return status;
    randombytes_buf(salt, sizeof(salt));
    return meta_end(metadata, append(metadata, &entry, refusal), refusal);
}

enum status meta_audit_list(struct metadata *metadata, const char *tenant, int64_t before, uint32_t limit, struct meta_results *results,
                            struct meta_audit **ret_entries, uint32_t *ret_count, bool *ret_more, struct refusal *refusal)
{
    if (limit < 1 || limit > META_PAGE_MAX)
        return refuse(refusal, STATUS_INVALID, "a page has 1 to %d rows", META_PAGE_MAX);
    if (tenant == NULL)
        return sql_rows(metadata, SELECT(META_AUDIT_FIELDS) "FROM audit WHERE n < $1 ORDER BY n DESC LIMIT $2",
                        VALUES(AS_INT(before), AS_INT(limit + 1)), &kind, limit, results, ret_entries, ret_count, ret_more, refusal);
    return sql_rows(metadata, SELECT(META_AUDIT_FIELDS) "FROM audit WHERE tenant = $1 AND n < $2 ORDER BY n DESC LIMIT $3",
                    VALUES(AS_TEXT(tenant), AS_INT(before), AS_INT(limit + 1)), &kind, limit, results, ret_entries, ret_count,
                    ret_more, refusal);
}

/* --- heads ------------------------------------------------------------------------------------------------------------------ */

struct signed_text {
    uint8_t bytes[sizeof(SIGNED) + 8 + META_HEAD_BYTES];
};

static struct signed_text signed_text(int64_t n, const uint8_t head[META_HEAD_BYTES])
{
    struct signed_text text;

    memcpy(text.bytes, SIGNED, sizeof(SIGNED));
    little_endian(n, text.bytes + sizeof(SIGNED));
    memcpy(text.bytes + sizeof(SIGNED) + 8, head, META_HEAD_BYTES);
    return text;
}

enum status meta_audit_sign(struct metadata *metadata, struct meta_head *ret_head, struct refusal *refusal)
{
    struct meta_head head;
    struct signed_text text;
    enum status status = newest(metadata, &head.n, head.head, refusal);

    if (status != STATUS_OK)
        return status;
    text = signed_text(head.n, head.head);
    crypto_sign_detached(head.signature, NULL, text.bytes, sizeof(text.bytes), metadata->audit_key);
    *ret_head = head;
    return STATUS_OK;
}

void meta_audit_public_key(const struct metadata *metadata, uint8_t ret_key[META_HEAD_BYTES])
{
    crypto_sign_ed25519_sk_to_pk(ret_key, metadata->audit_key);
}

struct chain {
    const struct meta_head *held;
    int64_t n; /* entries so far */
    uint8_t head[META_HEAD_BYTES];
    bool held_met; /* or there is nothing to meet */
    bool broken;   /* at entry n + 1 */
};

static bool follow(void *context, const void *row)
{
    struct chain *chain = context;
    const struct meta_audit *entry = row;
    uint8_t leaf[META_HEAD_BYTES];

    leaf_of(entry, leaf);
    head_of(chain->head, leaf, chain->head);
    chain->broken = entry->n != chain->n + 1 || entry->leaf.count != sizeof(leaf) || entry->head.count != sizeof(chain->head) ||
                    memcmp(leaf, entry->leaf.bytes, sizeof(leaf)) != 0 || memcmp(chain->head, entry->head.bytes, META_HEAD_BYTES) != 0;
    if (chain->broken)
        return false;
    chain->n++;
    if (chain->held != NULL && chain->held->n == chain->n) {
        chain->held_met = memcmp(chain->head, chain->held->head, META_HEAD_BYTES) == 0;
        return chain->held_met;
    }
    return true;
}

static enum status check_signature(struct metadata *metadata, const struct meta_head *held, struct refusal *refusal)
{
    uint8_t key[META_HEAD_BYTES];
    struct signed_text text = signed_text(held->n, held->head);

    meta_audit_public_key(metadata, key);
    if (crypto_sign_verify_detached(held->signature, text.bytes, sizeof(text.bytes), key) != 0)
        return refuse(refusal, STATUS_INVALID, "this head of the audit log wasn't signed here");
    return STATUS_OK;
}

enum status meta_audit_verify(struct metadata *metadata, const struct meta_head *held, struct refusal *refusal)
{
    struct chain chain = {.held = held, .held_met = held == NULL || held->n == 0};
    enum status status = held != NULL ? check_signature(metadata, held, refusal) : STATUS_OK;

    if (status == STATUS_OK)
        status = sql_each(metadata, SELECT(META_AUDIT_FIELDS) "FROM audit ORDER BY n", NO_VALUES, &kind, follow, &chain, refusal);
    if (status != STATUS_OK)
        return status;
    if (chain.broken)
        return refuse(refusal, STATUS_CORRUPT, "audit entry %lld was changed, moved or removed", (long long)chain.n + 1);
    if (!chain.held_met)
        return refuse(refusal, STATUS_CORRUPT, "the audit log isn't the one whose %lld entries were signed: it has been rewritten or cut",
                      (long long)held->n);
    return STATUS_OK;
}
