/* A cache's configuration as journal words, so that a replay builds the same core. */
#ifndef CACHE_PACK_H
#define CACHE_PACK_H

#include "cache/cache.h"
#include "journal/journal.h"

void cache_config_pack(struct journal_words *words, const struct cache_config *config);
/* STATUS_NOT_FOUND: a policy that this build does not have. */
enum status cache_config_unpack(struct journal_words *words, struct cache_config *ret_config);

#endif
