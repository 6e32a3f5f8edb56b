/* A fleet core's configuration as journal words, so that a replay builds the same core. */
#ifndef FLEET_PACK_H
#define FLEET_PACK_H

#include "journal/journal.h"
#include "fleet/fleet.h"

void fleet_config_pack(struct journal_words *words, const struct fleet_config *config);
/* STATUS_NOT_FOUND: a policy that this build does not have. */
enum status fleet_config_unpack(struct journal_words *words, struct fleet_config *ret_config);

#endif
