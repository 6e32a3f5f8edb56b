/* Quotas: a tree of cohorts with tenants as leaves, in thousandths of a GPU, flavor by flavor. Semantics are
 * Kueue's (kubernetes-sigs/kueue, concepts cluster_queue and cohort, KEP-79 and KEP-1224): a node guarantees
 * nominal - lending to its own, lends the rest, and borrows up to borrowing beyond nominal from what its parent
 * has left.
 *
 * Fair share: weighted usage with a half-life, charged in advance at admission so that a burst cannot win a whole
 * interval, and the water-filled share of what exists, capped by demand. Only fleet/ uses this. */
#ifndef FLEET_QUOTA_H
#define FLEET_QUOTA_H

#include "fleet/event.h"

struct quota;

struct quota_config {
    uint32_t tenants_max;
    uint32_t cohorts_max;
    uint32_t flavors_max;      /* <= 8 */
    int64_t half_life_ns;      /* of usage; >= 1 (0 would switch fairness off silently: refused) */
};

enum quota_fit {
    QUOTA_NOMINAL,   /* within the tenant's own nominal quota */
    QUOTA_BORROWING, /* with what the cohort lends now */
    QUOTA_WAIT,      /* not now: in use */
    QUOTA_NEVER      /* not even if everything were free */
};

size_t quota_bytes(const struct quota_config *config);
struct quota *quota_create(void *memory, size_t memory_bytes, const struct quota_config *config);

/* A limit may shrink below what is in use: usage stays, nothing new fits until it is below again, and nobody loses
 * what it is guaranteed to a neighbour's overdraft. A call speaks of one flavor; cohort and weight are the node's,
 * and the last call's hold. A cohort is known before its members, and is not above itself. A tenant has nothing in
 * a flavor it was not given; a cohort without limits of its own in a flavor passes on what is above and below it. */
void quota_set_cohort(struct quota *quota, uint32_t cohort, uint32_t parent, uint16_t flavor, uint32_t weight_milli,
                      int64_t nominal_milli, int64_t borrowing_milli, int64_t lending_milli);
void quota_set_tenant(struct quota *quota, uint32_t tenant, uint32_t cohort, uint16_t flavor, uint32_t weight_milli,
                      int64_t nominal_milli, int64_t borrowing_milli, int64_t lending_milli);
bool quota_knows(const struct quota *quota, uint32_t tenant);

enum quota_fit quota_fit(const struct quota *quota, uint32_t tenant, uint16_t flavor, int64_t need_milli);
/* The most the tenant could ever have (need and have of a refusal). */
int64_t quota_ceiling(const struct quota *quota, uint32_t tenant, uint16_t flavor);
/* What the tenant could take now. */
int64_t quota_available(const struct quota *quota, uint32_t tenant, uint16_t flavor);
/* Exactly paired; taking more than is available is a mistake (checked), except by take_over: work that was there
 * before a limit shrank, or whose stop did not happen. Release is total: it never fails, whatever has changed
 * since. */
void quota_take(struct quota *quota, uint32_t tenant, uint16_t flavor, int64_t milli);
void quota_take_over(struct quota *quota, uint32_t tenant, uint16_t flavor, int64_t milli);
void quota_give(struct quota *quota, uint32_t tenant, uint16_t flavor, int64_t milli);
int64_t quota_used(const struct quota *quota, uint32_t tenant, uint16_t flavor);
int64_t quota_nominal(const struct quota *quota, uint32_t tenant, uint16_t flavor);
/* Above nominal: what could be reclaimed from it. */
int64_t quota_borrowed(const struct quota *quota, uint32_t tenant, uint16_t flavor);
/* Would it be lawful to take `milli` from `victim` so that `claimer` can have `need_milli`? The claimer stays
 * within nominal, the victim does not fall below its own, both are in one tree (I4, I5), and the same holds of
 * every cohort below their common one; from which I6 follows. One victim against what is in use now: for several,
 * give back one before asking for the next. */
bool quota_may_reclaim(const struct quota *quota, uint32_t claimer, int64_t need_milli, uint32_t victim,
                       uint16_t flavor, int64_t milli);

/* Usage in GPU-ns with a half-life, read at any instant; the result does not depend on how often it is read, nor
 * on the order of additions. gpu_ns may be negative, an entry charge given back: at_ns is then the instant of the
 * charge, so that nothing remains of it (given back later, more is given than is left). */
void quota_usage_add(struct quota *quota, uint32_t tenant, int64_t at_ns, int64_t gpu_ns);
/* The usage itself, as of an instant not after the last addition, in GPU-ns and 2^-32 of one; and back into a quota that has none of it. */
int64_t quota_usage(const struct quota *quota, uint32_t tenant, int64_t *ret_as_of_ns, uint32_t *ret_fraction);
void quota_usage_restore(struct quota *quota, uint32_t tenant, int64_t as_of_ns, int64_t gpu_ns, uint32_t fraction);
/* usage / weight at an instant not before the last addition: the fair-share key, smallest goes first; 0 when more
 * was given back than charged. Time passing scales all keys alike: only additions and weights change an order. */
uint64_t quota_share_key(const struct quota *quota, uint32_t tenant, int64_t at_ns);
/* The water-filled share of `capacity_milli` among all tenants by weight, none above its demand_milli[tenant];
 * both arrays are [tenants_max], tenants not known demand nothing (checked). The shares add up to min(capacity,
 * sum of demands). */
void quota_water_fill(const struct quota *quota, int64_t capacity_milli, const int64_t *demand_milli,
                      int64_t *ret_share_milli);

void quota_check(const struct quota *quota);   /* I2, I3: limits, sums of the tree */
uint64_t quota_digest(const struct quota *quota);

#endif
