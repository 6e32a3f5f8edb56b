/* The adapters: who owns them, on which base, of which rank, how popular, in which version; and how all that changes
 * while time passes. Ranks are shared out exactly within each base; bases so that each gets its part of the requests;
 * tenants by a low-discrepancy sequence.
 *
 * What changes, each at Poisson instants from its own stream:
 *   drift   two adapters change places in popularity
 *   churn   an adapter is replaced by a new one of the same owner, base, rank and popularity
 *   update  an adapter gets a new version
 *   publish an adapter that was trained joins, or an adapter gets a version that was trained anew (when the host says)
 * Indexes are bounded, so a replacement takes its predecessor's index with the next version, as an update does: either
 * way the old weights are never asked for again, and the new ones are cold.
 *
 * The law has one place for each adapter of the start, and keeps them: an adapter that joins takes over a place, and the
 * one that stood there is not asked for any more (it idles). So a request whose place nobody took over is the same with
 * and without publications, whatever else was published. The n-th publication draws its place by the n-th number of its
 * own stream, among all places, the first tenth or the last (publish_rank), and takes the next one from there, around
 * the end, that an adapter of its base holds: pools keep their requests. Where none does (a base that nobody asked for
 * until now) it takes the place it drew. Drift moves whoever holds the places; churn and update meet the adapters of the
 * start alone. */
#ifndef WORKLOAD_CATALOG_H
#define WORKLOAD_CATALOG_H

#include <stdio.h>

#include "scenario/scenario.h"
#include "workload/popularity.h"
#include "workload/rng.h"
#include "workload/source.h"

/* More changes a second, all adapters together, are refused: the run would do nothing else. */
#define CATALOG_CHANGES_PER_S_MAX 1e6

#define CATALOG_RANKS_MAX (KEY_LIST_MAX + JOB_KINDS_MAX)

struct catalog_adapter {
    uint32_t version;      /* current, from 1 */
    uint32_t told;         /* the oldest version that catalog_retired() has not told; version: all told */
    uint32_t next_retired; /* while told < version: the queue's next, NONE_INDEX at its end */
    uint32_t tenant;
    uint8_t base;
    uint8_t rank_choice;   /* index in `ranks` */
};

struct catalog_change {
    const struct rng *stream;
    double per_s;
    double at_s;
    int64_t next_ns;
};

struct catalog {
    struct catalog_adapter *adapters; /* [adapters_max]; adapter index - 1 */
    uint32_t *order;                  /* [count]: place by popularity -> adapter index - 1 */
    uint32_t *start_order;            /* the same at the start; `order` itself where it never changes */
    uint32_t count;                   /* adapters at the start, and places */
    uint32_t adapters_count;          /* those that joined included */
    uint32_t adapters_max;
    uint32_t publish_rank;            /* enum key_publish_rank */
    uint32_t ranks_count;             /* of the workload; those of job kinds follow, in `ranks` and `bytes` */
    struct popularity popularity;
    struct popularity tenants;
    double base_shares[POOLS_MAX];    /* of requests; sum 1 */
    uint32_t bases_count;
    uint64_t bytes[POOLS_MAX][CATALOG_RANKS_MAX]; /* by base and rank choice */
    uint16_t ranks[CATALOG_RANKS_MAX];
    const struct rng *publications;
    uint64_t placed;                  /* publications that drew a place */
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
/* An adapter as this kind of job trains it, on this base (of a pool), joins; the index, or 0 when adapters_max is reached. */
uint32_t catalog_publish(struct catalog *catalog, uint32_t base, uint32_t kind, uint32_t tenant);
/* A new version of it, on this base. */
void catalog_republish(struct catalog *catalog, uint32_t index, uint32_t base);
bool catalog_popular(const struct catalog *catalog, uint32_t place, adapter_id *ret_adapter);
bool catalog_retired(struct catalog *catalog, adapter_id *ret_adapter);

#endif
