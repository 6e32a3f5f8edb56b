/* The adapters: who owns them, on which base, of which rank, how popular, in which version; and how all that changes
 * while time passes. Ranks are shared out exactly within each base; bases so that each gets its part of the requests;
 * tenants by a low-discrepancy sequence.
 *
 * What changes, each at Poisson instants from its own stream:
 *   drift   two adapters change places in popularity
 *   churn   an adapter is replaced by a new one of the same owner, base, rank and popularity
 *   update  an adapter gets a new version
 * Indexes are bounded, so a replacement takes its predecessor's index with the next version, as an update does: either
 * way the old weights are never asked for again, and the new ones are cold. */
#ifndef WORKLOAD_CATALOG_H
#define WORKLOAD_CATALOG_H

#include <stdio.h>

#include "scenario/scenario.h"
#include "workload/popularity.h"
#include "workload/rng.h"
#include "workload/source.h"

/* More changes a second, all adapters together, are refused: the run would do nothing else. */
#define CATALOG_CHANGES_PER_S_MAX 1e6

struct catalog_adapter {
    uint32_t version;      /* current, from 1 */
    uint32_t told;         /* the oldest version that catalog_retired() has not told; version: all told */
    uint32_t next_retired; /* while told < version: the queue's next, NONE_INDEX at its end */
    uint32_t tenant;
    uint8_t base;
    uint8_t rank_choice;   /* index in the scenario's ranks */
};

struct catalog_change {
    const struct rng *stream;
    double per_s;
    double at_s;
    int64_t next_ns;
};

struct catalog {
    struct catalog_adapter *adapters; /* [count]; adapter index - 1 */
    uint32_t *order;                  /* [count]: place by popularity -> adapter index - 1 */
    uint32_t *start_order;            /* the same before any drift; `order` itself when there is none */
    uint32_t count;
    struct popularity popularity;
    struct popularity tenants;
    double base_shares[POOLS_MAX];    /* of requests; sum 1 */
    uint32_t bases_count;
    uint64_t bytes[POOLS_MAX][KEY_LIST_MAX]; /* by base and rank choice */
    uint16_t ranks[KEY_LIST_MAX];
    struct catalog_change drift;
    struct catalog_change churn;
    struct catalog_change update;
    uint32_t retired_first;
    uint32_t retired_last;
};

/* weights[count]: how popular each adapter is, by index, and how many there are; NULL: the scenario's count and law.
 * On failure one message in `errors`. */
enum status catalog_open(struct catalog *catalog, const struct scenario *scenario, const struct rng_streams *streams,
                         const double *weights, uint32_t count, FILE *errors);
void catalog_close(struct catalog *catalog); /* accepts {0} */

/* Makes the changes that are due; at_ns never decreases. */
void catalog_advance(struct catalog *catalog, int64_t at_ns);

/* The adapter (current version) at a draw; there must be adapters. See popularity_rank(). */
adapter_id catalog_draw(const struct catalog *catalog, double unit, uint64_t ordinal);
/* Of a request that names no adapter. */
base_id catalog_draw_base(const struct catalog *catalog, double unit);
tenant_id catalog_draw_tenant(const struct catalog *catalog, double unit);

adapter_id catalog_current(const struct catalog *catalog, uint32_t index);
void catalog_own(struct catalog *catalog, uint32_t index, uint32_t tenant);
struct adapter_fact catalog_fact(const struct catalog *catalog, uint32_t index);
bool catalog_popular(const struct catalog *catalog, uint32_t place, adapter_id *ret_adapter);
bool catalog_retired(struct catalog *catalog, adapter_id *ret_adapter);

#endif
