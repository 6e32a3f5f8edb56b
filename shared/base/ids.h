/* Ids that cross the border between a core and its host. Wrapped, so that none is taken for another. */
#ifndef BASE_IDS_H
#define BASE_IDS_H

#include "base/base.h"

/* ordinal << 20 | slot: orders by arrival and indexes in O(1). The host names the slot: the lowest free one of
 * its own table, so a core is as large as what is in flight, never as what has passed. */
typedef struct {
    uint64_t value;
} request_id;

/* The same form; see request_id. */
typedef struct {
    uint64_t value;
} job_id;

#define REQUEST_SLOT_BITS 20
#define REQUEST_SLOTS_MAX (1u << REQUEST_SLOT_BITS)

/* Identity of an adapter's weights: a new version under the same index is another adapter.
 * {0, 0} is the base model itself; real adapters have index >= 1. */
typedef struct {
    uint32_t index;
    uint32_t version;
} adapter_id;

typedef struct {
    uint32_t value;
} tenant_id;

/* generation << 16 | index */
typedef struct {
    uint32_t value;
} replica_id;

typedef struct {
    uint16_t value;
} base_id;

typedef struct {
    uint16_t value;
} node_id;

static inline request_id request_id_make(uint64_t ordinal, uint32_t slot)
{
    check(slot < REQUEST_SLOTS_MAX);
    check(ordinal < UINT64_C(1) << (64 - REQUEST_SLOT_BITS));
    return (request_id){ordinal << REQUEST_SLOT_BITS | slot};
}
static inline uint32_t request_slot(request_id id) { return (uint32_t)(id.value & (REQUEST_SLOTS_MAX - 1)); }
static inline uint64_t request_ordinal(request_id id) { return id.value >> REQUEST_SLOT_BITS; }
static inline bool request_id_equal(request_id a, request_id b) { return a.value == b.value; }

static inline job_id job_id_make(uint64_t ordinal, uint32_t slot)
{
    return (job_id){request_id_make(ordinal, slot).value};
}
static inline uint32_t job_slot(job_id id) { return (uint32_t)(id.value & (REQUEST_SLOTS_MAX - 1)); }
static inline uint64_t job_ordinal(job_id id) { return id.value >> REQUEST_SLOT_BITS; }

static inline bool adapter_is_base(adapter_id id) { return id.index == 0; }
static inline uint64_t adapter_key(adapter_id id) { return (uint64_t)id.index << 32 | id.version; }
static inline bool adapter_id_equal(adapter_id a, adapter_id b)
{
    return a.index == b.index && a.version == b.version;
}

static inline replica_id replica_id_make(uint32_t generation, uint32_t index)
{
    check(index < 1u << 16);
    return (replica_id){generation << 16 | index};
}
static inline uint32_t replica_index(replica_id id) { return id.value & 0xffffu; }

/* Where an adapter's weights were found, coldest last. TIER_BASE: the request needs none. */
#define TIER_LIST(X) X(BASE, "base") X(GPU, "gpu") X(HOST, "host") X(STORE, "store")
enum tier {
#define X(name, text) TIER_##name,
    TIER_LIST(X)
#undef X
    TIER_COUNT
};

/* The 32 bytes that open every event: when, the core's own count of events, the command it answers (0: none). */
#define EVENT_HEAD     \
    int64_t at_ns;     \
    uint64_t seq;      \
    uint64_t answers;  \
    uint16_t kind;     \
    uint16_t reason;   \
    uint32_t zero

/* The 16 bytes that open every command. Asking kinds are answered by exactly one event carrying the id. */
#define COMMAND_HEAD  \
    uint64_t id;      \
    uint16_t kind;    \
    uint16_t reason;  \
    uint32_t zero

/* A step says at most this many commands; with more to say the core asks to be woken at the same at_ns. */
#define COMMANDS_MAX 64

#endif
