/* A node core's configuration as journal words, so that a replay builds the same core. */
#ifndef NODE_PACK_H
#define NODE_PACK_H

#include "journal/journal.h"
#include "node/node.h"

void node_config_pack(struct journal_words *words, const struct node_config *config);
/* STATUS_NOT_FOUND: a policy that this build does not have. */
enum status node_config_unpack(struct journal_words *words, struct node_config *ret_config);

#endif
