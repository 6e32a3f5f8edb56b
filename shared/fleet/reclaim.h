/* Between reclaim.c, which says who claims and what becomes of a claim, and reclaim_plan.c, which finds whom to stop. */
#ifndef FLEET_RECLAIM_H
#define FLEET_RECLAIM_H

#include "fleet/jobs_state.h"

struct victims {
    uint32_t count;
    uint32_t slots[VICTIMS_MAX];
};

struct claim {
    const struct job *job;
    struct devices_ask ask;
    uint32_t own_flavors;    /* in which it would be within nominal */
    bool room;               /* GPUs it has already: what it lacks is quota */
};

/* The cheapest victims on one node without which the claim fits there, lawfully; false: there are none, now. Those that have not
 * run their minimum yet are hoped for. */
bool claim_plan(struct jobs *jobs, const struct claim *claim, struct victims *ret_victims, struct devices_place *ret_place);
/* Is each victim lawful with those before it gone (I4, I5), and is there quota when all are? */
bool claim_is_lawful(struct jobs *jobs, const struct claim *claim, const struct victims *victims,
                     const struct devices_place *place);

#endif
