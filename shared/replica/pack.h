/* A replica core's configuration as journal words, so that a replay builds the same core. */
#ifndef REPLICA_PACK_H
#define REPLICA_PACK_H

#include "journal/journal.h"
#include "replica/replica.h"

void replica_config_pack(struct journal_words *words, const struct replica_config *config);
/* STATUS_NOT_FOUND: a policy that this build does not have. */
enum status replica_config_unpack(struct journal_words *words, struct replica_config *ret_config);

#endif
