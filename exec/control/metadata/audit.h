/* Who did what: a chain of hashes. Each entry's leaf is a hash of its fields and a salt, each head a hash of the head before and the
 * leaf; a head is signed on demand. Whoever holds a signed head sees any entry up to it that was changed, removed or moved. (Entries
 * hold ids and codes, never words of tenants.) */
#ifndef METADATA_AUDIT_H
#define METADATA_AUDIT_H

#include "control/metadata/metadata.h"

#define META_HEAD_BYTES 32
#define META_SIGNATURE_BYTES 64

/* In the transaction of the act itself, if there is one. `tenant`: NULL, none. */
enum status meta_audit_add(struct metadata *metadata, const char *tenant, const char *actor, const char *act, const char *subject,
                           int64_t now_ms, struct refusal *refusal);

#define META_AUDIT_FIELDS(X)                                                                                                  \
    X(INT, n) X(INT, at_ms) X(TEXT, tenant) X(TEXT, actor) X(TEXT, act) X(TEXT, subject) X(BLOB, salt) X(BLOB, leaf) X(BLOB, head)
struct meta_audit {
    META_AUDIT_FIELDS(META_FIELD)
};
/* Newest first; `before`: a number, INT64_MAX at first. A tenant sees its own entries; NULL: all. */
enum status meta_audit_list(struct metadata *metadata, const char *tenant, int64_t before, uint32_t limit, struct meta_results *results,
                            struct meta_audit **ret_entries, uint32_t *ret_count, bool *ret_more, struct refusal *refusal);

struct meta_head {
    int64_t n; /* entries under it; 0: none yet */
    uint8_t head[META_HEAD_BYTES];
    uint8_t signature[META_SIGNATURE_BYTES]; /* Ed25519 of "berth audit", n (8 bytes, little-endian) and head */
};
enum status meta_audit_sign(struct metadata *metadata, struct meta_head *ret_head, struct refusal *refusal);
void meta_audit_public_key(const struct metadata *metadata, uint8_t ret_key[META_HEAD_BYTES]);
/* Goes over the whole log and compares it with a head that somebody kept (NULL: none). STATUS_CORRUPT names the first entry that is not
 * what it was; STATUS_INVALID: the head isn't one of ours. */
enum status meta_audit_verify(struct metadata *metadata, const struct meta_head *held, struct refusal *refusal);

#endif
