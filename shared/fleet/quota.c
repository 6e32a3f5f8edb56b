/* The tree of quotas. A node's usage, and what it lends, is a sum over its children of a function of each child
 * alone; so whatever happens below is two differences that climb towards the root, and no order of events can make
 * the sums differ from the leaves. Everything costs O(depth) and nothing is O(tenants).
 *
 * The arithmetic is Kueue's (pkg/cache/scheduler/resource_node.go) with one difference: a cohort in debt, after a
 * limit shrank, offers nothing instead of a negative amount. In Kueue the debt of a neighbour eats what a tenant
 * is guaranteed. */
#include "fleet/quota_state.h"

#include "base/hash.h"

#define FLAVORS_MAX 8
#define ALIGNMENT 16 /* of the 128-bit sums; the caller's memory may be aligned to less */

/* Parts in the order of falling alignment. */
struct parts {
    size_t quota, cells, usages, sums, nodes, remainders, order, bytes;
};

static size_t part(size_t *used, size_t bytes)
{
    size_t at = *used;

    *used += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return at;
}

static struct parts parts_of(const struct quota_config *config)
{
    size_t used = 0;
    struct parts parts;

    check(config->tenants_max >= 1);
    check(config->flavors_max >= 1 && config->flavors_max <= FLAVORS_MAX);
    check(config->half_life_ns >= 1);
    check(config->tenants_max < NO_COHORT - config->cohorts_max);

    size_t nodes_count = (size_t)config->tenants_max + config->cohorts_max;

    parts.quota = part(&used, sizeof(struct quota));
    parts.cells = part(&used, nodes_count * config->flavors_max * sizeof(struct quota_cell));
    parts.usages = part(&used, config->tenants_max * sizeof(struct quota_usage));
    parts.sums = part(&used, nodes_count * sizeof(struct quota_sum));
    parts.nodes = part(&used, nodes_count * sizeof(struct quota_node));
    parts.remainders = part(&used, config->tenants_max * sizeof(uint64_t));
    parts.order = part(&used, config->tenants_max * sizeof(uint32_t));
    parts.bytes = used;
    return parts;
}

size_t quota_bytes(const struct quota_config *config)
{
    return parts_of(config).bytes + ALIGNMENT - 1;
}

struct quota *quota_create(void *memory, size_t memory_bytes, const struct quota_config *config)
{
    struct parts parts = parts_of(config);
    unsigned char *bytes = memory;
    struct quota *quota;

    check(memory_bytes >= parts.bytes + ALIGNMENT - 1);
    bytes += (ALIGNMENT - (uintptr_t)bytes % ALIGNMENT) % ALIGNMENT;
    memset(bytes, 0, parts.bytes);
    quota = (void *)(bytes + parts.quota);
    quota->config = *config;
    quota->nodes_count = config->tenants_max + config->cohorts_max;
    quota->cells = (void *)(bytes + parts.cells);
    quota->usages = (void *)(bytes + parts.usages);
    quota->sums = (void *)(bytes + parts.sums);
    quota->nodes = (void *)(bytes + parts.nodes);
    quota->remainders = (void *)(bytes + parts.remainders);
    quota->order = (void *)(bytes + parts.order);
    /* A tenant has nothing in a flavor that it was not given, not even a loan; a cohort passes on what is above
     * it. */
    for (uint32_t i = 0; i < quota->nodes_count; i++) {
        quota->nodes[i].parent = NONE_INDEX;
        for (uint32_t flavor = 0; i >= config->tenants_max && flavor < config->flavors_max; flavor++) {
            quota->cells[(size_t)i * config->flavors_max + flavor].borrowing_milli = QUOTA_UNLIMITED;
            quota->cells[(size_t)i * config->flavors_max + flavor].lending_milli = QUOTA_UNLIMITED;
        }
    }
    return quota;
}

static struct quota_cell *cell_of(const struct quota *quota, uint32_t node, uint16_t flavor)
{
    return &quota->cells[(size_t)node * quota->config.flavors_max + flavor];
}

static struct quota_cell *tenant_cell(const struct quota *quota, uint32_t tenant, uint16_t flavor)
{
    check(tenant < quota->config.tenants_max);
    check(flavor < quota->config.flavors_max);
    return cell_of(quota, tenant, flavor);
}

static int128 min_wide(int128 a, int128 b) { return a < b ? a : b; }
static int128 max_wide(int128 a, int128 b) { return a > b ? a : b; }

static int128 wide(int64_t milli)
{
    return milli == QUOTA_UNLIMITED ? (int128)1 << 80 : milli;
}

static int64_t narrow(int128 milli)
{
    return milli >= QUOTA_UNLIMITED ? QUOTA_UNLIMITED : (int64_t)milli;
}

/* Never leaves the node. */
static int128 guaranteed(const struct quota_cell *cell)
{
    return cell->lending_milli == QUOTA_UNLIMITED ? 0 : max_wide(0, cell->subtree - cell->lending_milli);
}

/* The node's terms in its parent's sums. */
static int128 lent_up(const struct quota_cell *cell) { return cell->subtree - guaranteed(cell); }
static int128 used_above(const struct quota_cell *cell) { return max_wide(0, cell->usage - guaranteed(cell)); }

/* What remains of the guaranteed part. */
static int128 local_available(const struct quota_cell *cell)
{
    return max_wide(0, guaranteed(cell) - cell->usage);
}

/* A root has nobody to borrow from. */
static int128 excess_now(const struct quota *quota, uint32_t node, const struct quota_cell *cell)
{
    int128 borrowing = quota->nodes[node].parent == NONE_INDEX ? 0 : wide(cell->borrowing_milli);

    return max_wide(0, cell->usage - cell->subtree - borrowing);
}

/* Adds to a node's sums, and the differences this makes to those above. `lawful`: within limits, so that an excess
 * can only shrink; otherwise a limit has changed and an excess is what it now is. */
static void climb(struct quota *quota, uint32_t node, uint16_t flavor, int128 subtree_delta, int128 usage_delta,
                  bool lawful)
{
    while (node != NONE_INDEX && (subtree_delta != 0 || usage_delta != 0)) {
        struct quota_cell *cell = cell_of(quota, node, flavor);
        int128 lent_before = lent_up(cell);
        int128 used_before = used_above(cell);

        cell->subtree += subtree_delta;
        cell->usage += usage_delta;
        subtree_delta = lent_up(cell) - lent_before;
        usage_delta = used_above(cell) - used_before;

        int128 excess = excess_now(quota, node, cell);

        cell->excess = lawful ? min_wide(cell->excess, excess) : excess;
        node = quota->nodes[node].parent;
    }
}

/* Takes the node's terms out of its parent's sums, or puts them back. */
static void attach(struct quota *quota, uint32_t node, int sign)
{
    for (uint16_t flavor = 0; flavor < quota->config.flavors_max; flavor++) {
        struct quota_cell *cell = cell_of(quota, node, flavor);

        climb(quota, quota->nodes[node].parent, flavor, sign * lent_up(cell), sign * used_above(cell), false);
    }
}

static void set_node(struct quota *quota, uint32_t node, uint32_t cohort, uint16_t flavor, uint32_t weight_milli,
                     const struct quota_cell *limits)
{
    uint32_t parent = NONE_INDEX;

    check(flavor < quota->config.flavors_max);
    check(weight_milli >= 1);
    check(limits->nominal_milli >= 0);
    check(limits->borrowing_milli >= 0);
    check(limits->lending_milli >= 0);
    if (cohort != NO_COHORT) {
        check(cohort < quota->config.cohorts_max);
        parent = quota->config.tenants_max + cohort;
        check(quota->nodes[parent].weight_milli != 0); /* a cohort is known before its members */
    }
    for (uint32_t above = parent; above != NONE_INDEX; above = quota->nodes[above].parent)
        check(above != node); /* no cycles */

    struct quota_cell *cell = cell_of(quota, node, flavor);

    attach(quota, node, -1);
    quota->nodes[node].parent = parent;
    quota->nodes[node].weight_milli = weight_milli;
    cell->subtree += wide(limits->nominal_milli) - wide(cell->nominal_milli);
    cell->nominal_milli = limits->nominal_milli;
    cell->borrowing_milli = limits->borrowing_milli;
    cell->lending_milli = limits->lending_milli;
    for (uint16_t i = 0; i < quota->config.flavors_max; i++)
        cell_of(quota, node, i)->excess = excess_now(quota, node, cell_of(quota, node, i));
    attach(quota, node, 1);
}

void quota_set_cohort(struct quota *quota, uint32_t cohort, uint32_t parent, uint16_t flavor, uint32_t weight_milli,
                      int64_t nominal_milli, int64_t borrowing_milli, int64_t lending_milli)
{
    check(cohort < quota->config.cohorts_max);
    set_node(quota, quota->config.tenants_max + cohort, parent, flavor, weight_milli,
             &(struct quota_cell){.nominal_milli = nominal_milli, .borrowing_milli = borrowing_milli,
                                  .lending_milli = lending_milli});
}

void quota_set_tenant(struct quota *quota, uint32_t tenant, uint32_t cohort, uint16_t flavor, uint32_t weight_milli,
                      int64_t nominal_milli, int64_t borrowing_milli, int64_t lending_milli)
{
    check(tenant < quota->config.tenants_max);
    quota->tenants_known += quota->nodes[tenant].weight_milli == 0;
    set_node(quota, tenant, cohort, flavor, weight_milli,
             &(struct quota_cell){.nominal_milli = nominal_milli, .borrowing_milli = borrowing_milli,
                                  .lending_milli = lending_milli});
}

bool quota_knows(const struct quota *quota, uint32_t tenant)
{
    return tenant < quota->config.tenants_max && quota->nodes[tenant].weight_milli != 0;
}

/* available(node) = local + max(0, min(bound by the borrowing limit, available(parent))), unrolled: the least,
 * over the nodes on the way up, of the local parts up to there plus that node's bound. */
static int128 available_wide(const struct quota *quota, uint32_t node, uint16_t flavor)
{
    int128 local = 0;
    int128 least = INT64_MAX;

    for (;; node = quota->nodes[node].parent) {
        const struct quota_cell *cell = cell_of(quota, node, flavor);

        if (quota->nodes[node].parent == NONE_INDEX)
            return min_wide(least, local + max_wide(0, cell->subtree - cell->usage));
        local += local_available(cell);
        if (cell->borrowing_milli != QUOTA_UNLIMITED) {
            int128 bound = lent_up(cell) - used_above(cell) + cell->borrowing_milli;

            least = min_wide(least, local + max_wide(0, bound));
        }
    }
}

int64_t quota_available(const struct quota *quota, uint32_t tenant, uint16_t flavor)
{
    (void)tenant_cell(quota, tenant, flavor);
    return narrow(available_wide(quota, tenant, flavor));
}

/* The same walk with nothing in use. */
int64_t quota_ceiling(const struct quota *quota, uint32_t tenant, uint16_t flavor)
{
    const struct quota_cell *cell = tenant_cell(quota, tenant, flavor);
    uint32_t node = tenant;
    int128 local = 0;
    int128 least = INT64_MAX;

    for (; quota->nodes[node].parent != NONE_INDEX; cell = cell_of(quota, node, flavor)) {
        if (cell->borrowing_milli != QUOTA_UNLIMITED)
            least = min_wide(least, local + cell->subtree + cell->borrowing_milli);
        local += guaranteed(cell);
        node = quota->nodes[node].parent;
    }
    return narrow(min_wide(least, local + cell->subtree));
}

enum quota_fit quota_fit(const struct quota *quota, uint32_t tenant, uint16_t flavor, int64_t need_milli)
{
    const struct quota_cell *cell = tenant_cell(quota, tenant, flavor);

    check(need_milli >= 0);
    if (need_milli > quota_ceiling(quota, tenant, flavor))
        return QUOTA_NEVER;
    if (need_milli > quota_available(quota, tenant, flavor))
        return QUOTA_WAIT;
    return cell->usage + need_milli <= wide(cell->nominal_milli) ? QUOTA_NOMINAL : QUOTA_BORROWING;
}

void quota_take(struct quota *quota, uint32_t tenant, uint16_t flavor, int64_t milli)
{
    check(milli >= 0);
    check(milli <= quota_available(quota, tenant, flavor));
    check(tenant_cell(quota, tenant, flavor)->usage + milli <= INT64_MAX);
    climb(quota, tenant, flavor, 0, milli, true);
}

void quota_take_over(struct quota *quota, uint32_t tenant, uint16_t flavor, int64_t milli)
{
    check(milli >= 0);
    check(tenant_cell(quota, tenant, flavor)->usage + milli <= INT64_MAX);
    climb(quota, tenant, flavor, 0, milli, false);
}

void quota_give(struct quota *quota, uint32_t tenant, uint16_t flavor, int64_t milli)
{
    check(milli >= 0);
    check(milli <= tenant_cell(quota, tenant, flavor)->usage);
    climb(quota, tenant, flavor, 0, -(int128)milli, true);
}

int64_t quota_used(const struct quota *quota, uint32_t tenant, uint16_t flavor)
{
    return narrow(tenant_cell(quota, tenant, flavor)->usage);
}

int64_t quota_nominal(const struct quota *quota, uint32_t tenant, uint16_t flavor)
{
    return tenant_cell(quota, tenant, flavor)->nominal_milli;
}

int64_t quota_borrowed(const struct quota *quota, uint32_t tenant, uint16_t flavor)
{
    const struct quota_cell *cell = tenant_cell(quota, tenant, flavor);

    return narrow(max_wide(0, cell->usage - wide(cell->nominal_milli)));
}

static uint32_t depth_of(const struct quota *quota, uint32_t node)
{
    uint32_t depth = 0;

    for (; quota->nodes[node].parent != NONE_INDEX; node = quota->nodes[node].parent)
        depth++;
    return depth;
}

/* The lowest node above both; NONE_INDEX: they are in two trees. */
static uint32_t common_node(const struct quota *quota, uint32_t a, uint32_t b)
{
    uint32_t a_depth = depth_of(quota, a);
    uint32_t b_depth = depth_of(quota, b);

    for (; a_depth > b_depth; a_depth--)
        a = quota->nodes[a].parent;
    for (; b_depth > a_depth; b_depth--)
        b = quota->nodes[b].parent;
    while (a != b) {
        a = quota->nodes[a].parent;
        b = quota->nodes[b].parent;
    }
    return a;
}

/* A quota is a node's, not only a tenant's: what holds of the claimer and the victim holds of every cohort between
 * them and the one they have in common. Otherwise a tenant of an overdrawn cohort could take what another cohort
 * owns, or stop work whose quota its own branch cannot be lent. The claimer's cohort being overdrawn, there is a
 * borrower inside it to take from.
 *
 * With this used / subtree is at most 1 on the claimer's side, and at least 1 on the victim's, at every level
 * after the move: the saturation of the claimer stays at or below the victim's, so the two can't take from each
 * other in turns. */
bool quota_may_reclaim(const struct quota *quota, uint32_t claimer, int64_t need_milli, uint32_t victim,
                       uint16_t flavor, int64_t milli)
{
    (void)tenant_cell(quota, claimer, flavor);
    (void)tenant_cell(quota, victim, flavor);
    check(need_milli >= 0);
    check(milli >= 0);

    uint32_t common = common_node(quota, claimer, victim);
    int128 need = need_milli;

    if (claimer == victim || common == NONE_INDEX)
        return false;
    for (uint32_t node = claimer; node != common; node = quota->nodes[node].parent) {
        struct quota_cell after = *cell_of(quota, node, flavor);
        int128 used_before = used_above(&after);

        after.usage += need;
        if (after.usage > after.subtree)
            return false;
        need = used_above(&after) - used_before;
    }
    /* Above its subtree's quota a node's usage is all its parent's, so the whole of it frees something at every
     * level. */
    for (uint32_t node = victim; node != common; node = quota->nodes[node].parent) {
        const struct quota_cell *cell = cell_of(quota, node, flavor);

        if (cell->usage - milli < cell->subtree)
            return false;
    }
    return true;
}

static void check_flavor(const struct quota *quota, uint16_t flavor)
{
    memset(quota->sums, 0, quota->nodes_count * sizeof(*quota->sums));
    for (uint32_t node = 0; node < quota->nodes_count; node++) {
        const struct quota_cell *cell = cell_of(quota, node, flavor);
        uint32_t parent = quota->nodes[node].parent;

        if (parent != NONE_INDEX) {
            quota->sums[parent].subtree += lent_up(cell);
            quota->sums[parent].usage += used_above(cell);
        }
    }
    for (uint32_t node = 0; node < quota->nodes_count; node++) {
        const struct quota_cell *cell = cell_of(quota, node, flavor);

        check(cell->subtree == wide(cell->nominal_milli) + quota->sums[node].subtree);
        check(node < quota->config.tenants_max || cell->usage == quota->sums[node].usage);
        check(cell->usage >= 0);
        /* I2: nobody is above its limit but by what a change has left. I3: of a child only what it lends is in
         * subtree, so others, whose usage is here, have at most that of it. */
        check(cell->excess >= 0);
        check(excess_now(quota, node, cell) <= cell->excess);
    }
}

void quota_check(const struct quota *quota)
{
    uint32_t known = 0;

    for (uint32_t node = 0; node < quota->nodes_count; node++) {
        uint32_t parent = quota->nodes[node].parent;

        check(parent == NONE_INDEX || (parent >= quota->config.tenants_max && parent < quota->nodes_count));
        check(parent == NONE_INDEX || quota->nodes[parent].weight_milli != 0);
        known += node < quota->config.tenants_max && quota->nodes[node].weight_milli != 0;
    }
    check(known == quota->tenants_known);
    for (uint16_t flavor = 0; flavor < quota->config.flavors_max; flavor++)
        check_flavor(quota, flavor);
}

static uint64_t fold_wide(uint64_t digest, int128 x)
{
    return hash_fold(hash_fold(digest, (uint64_t)x), (uint64_t)((uint128)x >> 64));
}

uint64_t quota_digest(const struct quota *quota)
{
    uint64_t digest = hash_fold(0, quota->tenants_known);

    for (uint32_t i = 0; i < quota->nodes_count; i++) {
        digest = hash_fold(digest, (uint64_t)quota->nodes[i].parent << 32 | quota->nodes[i].weight_milli);
        for (uint16_t flavor = 0; flavor < quota->config.flavors_max; flavor++) {
            const struct quota_cell *cell = cell_of(quota, i, flavor);

            digest = hash_fold(digest, (uint64_t)cell->nominal_milli);
            digest = hash_fold(digest, (uint64_t)cell->borrowing_milli);
            digest = hash_fold(digest, (uint64_t)cell->lending_milli);
            digest = fold_wide(digest, cell->subtree);
            digest = fold_wide(digest, cell->usage);
            digest = fold_wide(digest, cell->excess);
        }
    }
    for (uint32_t i = 0; i < quota->config.tenants_max; i++)
        digest = hash_fold(fold_wide(digest, quota->usages[i].value), quota->usages[i].epoch);
    return digest;
}
