/* What an adapter is born with: base, rank and owner. A part of the catalog; nobody else includes it. */
#ifndef WORKLOAD_CATALOG_FACTS_H
#define WORKLOAD_CATALOG_FACTS_H

#include "workload/catalog.h"

struct rank_shares {
    double of[KEY_LIST_MAX]; /* sum 1 */
    uint32_t count;
};

/* Reads and checks ranks, bases and the bytes of each pair. On failure one message in `errors`. */
enum status catalog_facts_read(struct catalog *catalog, const struct scenario *scenario, FILE *errors,
                               struct rank_shares *ret_shares);
/* Needs the adapters in their order and the laws of popularity and of tenants. */
void catalog_facts_assign(struct catalog *catalog, const struct rank_shares *ranks);

#endif
