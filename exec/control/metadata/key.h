/* API keys: "sk-berth-ID-SECRET". The id finds the row, the secret is kept as a MAC under the installation's own key, which also
 * binds id, tenant, role and expiry: a row that somebody edits opens nothing. A key is shown once. */
#ifndef METADATA_KEY_H
#define METADATA_KEY_H

#include "control/metadata/metadata.h"

#define META_KEY_PREFIX "sk-berth-"
#define META_KEY_TEXT_BYTES 128 /* with the '\0' */
#define META_ROLES(X) X(inference) X(member) X(admin) X(reviewer) X(operator) X(auditor)

#define META_KEY_FIELDS(X)                                                                                                    \
    X(TEXT, id) X(INT, number) X(TEXT, tenant) X(TEXT, role) X(INT, created_at_ms) X(INT, expires_at_ms) X(INT, revoked_at_ms)
struct meta_key {
    META_KEY_FIELDS(META_FIELD)
};

/* `tenant` is NULL for reviewer, operator and auditor, and for them alone. `expires_at_ms`: META_NONE, never. */
enum status meta_key_add(struct metadata *metadata, const char *tenant, const char *role, int64_t expires_at_ms, int64_t now_ms,
                         char ret_text[META_KEY_TEXT_BYTES], char ret_id[NAME_BYTES], struct refusal *refusal);
/* Oldest first; no tenant: the platform's own keys. */
enum status meta_key_list(struct metadata *metadata, const char *tenant, int64_t after, uint32_t limit, struct meta_results *results,
                          struct meta_key **ret_keys, uint32_t *ret_count, bool *ret_more, struct refusal *refusal);
/* A key that is revoked stays so, with its first time. */
enum status meta_key_revoke(struct metadata *metadata, const char *tenant, const char *id, int64_t now_ms, struct refusal *refusal);

enum meta_standing { META_KEY_GOOD, META_KEY_EXPIRED, META_KEY_REVOKED, META_KEY_SUSPENDED };
struct meta_caller {
    char key[NAME_BYTES];
    char tenant[NAME_BYTES]; /* "": none */
    char role[16];
    enum meta_standing standing; /* whoever holds the right secret may be told */
};
/* STATUS_NOT_FOUND for any text that is no key of ours. Whatever has a key's form costs the same: a row found, one not found, a MAC. */
enum status meta_key_check(struct metadata *metadata, const char *text, int64_t now_ms, struct meta_caller *ret_caller,
                           struct refusal *refusal);

#endif
