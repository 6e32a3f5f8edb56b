/* A request that comes again: the same key and body get the thing that was made the first time. */
#ifndef METADATA_ONCE_H
#define METADATA_ONCE_H

#include "control/metadata/metadata.h"

#define META_DIGEST_BYTES 32

/* Inside the transaction that makes `resource`, before it: either the key is new, and stands for `resource` until it expires, or it
 * was used, and `ret_resource` is what was made then and nothing is to be made. STATUS_CONFLICT: it was used with another body. */
enum status meta_once(struct metadata *metadata, const char *tenant, const char *key, const uint8_t body[META_DIGEST_BYTES],
                      const char *resource, int64_t expires_at_ms, int64_t now_ms, bool *ret_again, char ret_resource[NAME_BYTES],
                      struct refusal *refusal);
/* Forgets what has expired: `ret_count` keys of at most `limit`. */
enum status meta_once_sweep(struct metadata *metadata, int64_t now_ms, uint32_t limit, int64_t *ret_count, struct refusal *refusal);

#endif
