/* The node core: one byte-accurate cache of adapters in a node's host memory, over the object store. Many wants of one
 * adapter cause one FETCH, and all of them get READY. A want that finds every byte pinned waits; it does not fail. An
 * adapter larger than the whole tier is passed through: fetched for its wants alone and dropped after the last UNWANT
 * (it is counted against loads, never against the capacity). More READYs than a step may say are said in the next:
 * node_wakeup_at_ns() then equals the event's at_ns.
 *
 * Fetches begin in order of their first wants, each when it has room and fewer than fetches_max are in flight: a large
 * one is not overtaken, so it does not starve. RETIRED loses every want that has no READY yet; wants of the same
 * version that come while its last copies go on are lost too. Then the node has forgotten it, and nobody may ask. */
#ifndef NODE_NODE_H
#define NODE_NODE_H

#include "cache/cache.h"
#include "node/event.h"

struct node;

struct node_config {
    struct cache_config host;  /* unit CACHE_BYTES; capacity 0: no host tier, every want is passed through */
    uint32_t wants_max;        /* wants not yet unwanted; the host keeps below it (checked) */
    uint32_t fetches_max;      /* in flight at once; more wait in order */
};

struct node_state {
    uint64_t used_bytes;
    uint32_t adapters; /* in the tier, being fetched included */
    uint32_t fetching;
    uint32_t waiting; /* wants without READY */
    struct cache_counts cache; /* passing through included; blocked: fetches that found no room at first */
};

size_t node_bytes(const struct node_config *config);
struct node *node_create(void *memory, size_t memory_bytes, const struct node_config *config);
void node_step(struct node *node, const struct node_event *event, struct node_commands *out);
int64_t node_wakeup_at_ns(const struct node *node);
void node_check(const struct node *node);
uint64_t node_digest(const struct node *node);
struct node_state node_state(const struct node *node);

#endif
