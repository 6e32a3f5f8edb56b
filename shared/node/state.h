/* The node core's inside, for its two files. */
#ifndef NODE_STATE_H
#define NODE_STATE_H

#include "base/table.h"
#include "node/node.h"

struct link {
    uint32_t prev;
    uint32_t next;
};

struct list {
    uint32_t head; /* the oldest */
    uint32_t tail;
};

/* Each want walks WAITING -> FOUND -> HELD, or to LOST from either of the first two, and is forgotten at its UNWANT or
 * when its LOST is said. */
enum want_state {
    WANT_WAITING, /* in its item's list */
    WANT_FOUND,   /* in `says`: READY is to be said */
    WANT_LOST,    /* in `says`: LOST is to be said; it has no item any more */
    WANT_HELD     /* READY was said */
};

struct want {
    uint64_t number;
    uint64_t bytes;
    adapter_id adapter;
    uint32_t item;
    uint16_t state;
    uint16_t reason; /* what READY or LOST will say */
};

enum item_state {
    ITEM_QUEUED,   /* in `queue`: for room, or for a fetch in flight to end */
    ITEM_FETCHING,
    ITEM_HERE      /* in host memory, and wanted */
};

/* An adapter that is wanted or being fetched. From the beginning of its fetch each want is a pin in the cache. */
struct item {
    adapter_id adapter;
    uint64_t bytes;
    uint64_t fetch_id;   /* of the FETCH in flight */
    uint32_t entry;      /* in the cache; NONE_INDEX while QUEUED and for what passes through */
    uint32_t wants;      /* WAITING, FOUND and HELD ones */
    struct list waiting;
    uint16_t state;
    bool passes;         /* larger than the tier */
    bool retired;
    bool blocked;        /* found no room once */
};

struct node {
    struct node_config config;
    struct cache *cache;
    struct table want_by_number;
    struct table item_by_adapter;
    struct want *wants;         /* [wants_max] */
    struct link *want_links;    /* an item's `waiting`, `says`, or the free chain: one at a time */
    struct item *items;         /* [wants_max + fetches_max] */
    struct link *item_links;    /* `queue` or the free chain */
    uint32_t wants_free;
    uint32_t items_free;
    struct list says;
    struct list queue;
    uint32_t fetching;
    uint32_t waiting;           /* wants without READY */
    int64_t now_ns;
    bool more;                  /* the last step was full before all fetches that could begin had */
    uint64_t command_id;        /* the last one given */
    uint64_t digest_past;       /* what was heard and said, folded */
    struct cache_counts passed; /* what the cache never saw */
};

static inline uint32_t node_items_max(const struct node_config *config)
{
    return config->wants_max + config->fetches_max;
}

#endif
