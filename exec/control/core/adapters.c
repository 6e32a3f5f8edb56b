/* Adapters by key, and which server knows which. A server is told LOAD once, when the first request that names the adapter was routed to
 * it and the driver has fetched key and object; what nobody used for longest is unloaded when there are too many. Entries are as many as
 * adapters_max; an entry that changes hands gets a new version, and the old one is retired. */
#include <sodium.h>

#include "control/core/internal.h"

void core_adapter_key(const char *tenant, const char *digest, uint8_t ret_key[32])
{
    static const char domain[] = "berth adapter 1\n";
    crypto_hash_sha256_state state;

    crypto_hash_sha256_init(&state);
    crypto_hash_sha256_update(&state, (const uint8_t *)domain, sizeof(domain) - 1);
    crypto_hash_sha256_update(&state, (const uint8_t *)tenant, strlen(tenant) + 1);
    crypto_hash_sha256_update(&state, (const uint8_t *)digest, strlen(digest));
    crypto_hash_sha256_final(&state, ret_key);
}

/* --- lists of a server's -------------------------------------------------------------------------------------------------------- */

void known_push(struct known *known, struct known_list *list, uint32_t index)
{
    known[index].prev = list->last;
    known[index].next = NONE_INDEX;
    if (list->last != NONE_INDEX)
        known[list->last].next = index;
    else
        list->first = index;
    list->last = index;
    list->count++;
}

void known_remove(struct known *known, struct known_list *list, uint32_t index)
{
    const uint32_t prev = known[index].prev;
    const uint32_t next = known[index].next;

    if (prev != NONE_INDEX)
        known[prev].next = next;
    else
        list->first = next;
    if (next != NONE_INDEX)
        known[next].prev = prev;
    else
        list->last = prev;
    list->count--;
}

/* --- the table ------------------------------------------------------------------------------------------------------------------- */

static void unused_push(struct core *core, uint32_t index)
{
    struct adapter *adapters = core->adapters;
    struct known_list *list = &core->adapters_unused;

    adapters[index].prev = list->last;
    adapters[index].next = NONE_INDEX;
    if (list->last != NONE_INDEX)
        adapters[list->last].next = index;
    else
        list->first = index;
    list->last = index;
    list->count++;
}

static void unused_remove(struct core *core, uint32_t index)
{
    struct adapter *adapters = core->adapters;
    struct known_list *list = &core->adapters_unused;
    const uint32_t prev = adapters[index].prev;
    const uint32_t next = adapters[index].next;

    if (prev != NONE_INDEX)
        adapters[prev].next = next;
    else
        list->first = next;
    if (next != NONE_INDEX)
        adapters[next].prev = prev;
    else
        list->last = prev;
    list->count--;
}

static uint64_t hash_of(const uint8_t key[32])
{
    uint64_t hash;

    memcpy(&hash, key, sizeof(hash)); /* a hash already */
    return hash;
}

static adapter_id id_of(const struct core *core, uint32_t index)
{
    return (adapter_id){index, core->adapters[index].version};
}

static void tell_residency(struct core *core, const struct server *server, uint32_t index, enum tier tier, bool present)
{
    struct fleet_event event = host_event(FLEET_EVENT_RESIDENCY);

    if (server->state != SERVER_UP)
        return;
    if (tier == TIER_GPU)
        event.residency.replica = server->replica;
    event.residency.node.value = (uint16_t)server->index;
    event.residency.adapter = id_of(core, index);
    event.residency.tier = (uint16_t)tier;
    event.residency.present = present;
    host_tell(core, &event);
}

static void lies(struct core *core, struct server *server, uint32_t index, bool on_device, bool in_host)
{
    struct known *known = &server->known[index];

    if (known->on_device != on_device)
        tell_residency(core, server, index, TIER_GPU, on_device);
    if (known->in_host != in_host)
        tell_residency(core, server, index, TIER_HOST, in_host);
    core->counts.adapters_resident += (uint32_t)on_device - (uint32_t)known->on_device;
    known->on_device = on_device;
    known->in_host = in_host;
}

static void leave(struct core *core, struct server *server, uint32_t index)
{
    known_remove(server->known, &server->loaded, index);
    lies(core, server, index, false, false);
    server->known[index].state = KNOWN_NOT;
}

bool adapter_unload(struct core *core, struct server *server, uint32_t index)
{
    struct worker_link *worker = worker_link_find(core, server->worker);
    struct wire_unload unload = {.generation = server->known[index].generation};

    memcpy(unload.digest, core->adapters[index].info.key, sizeof(unload.digest));
    if (worker == NULL || worker->wire == NULL || wire_say(worker->wire, WIRE_UNLOAD, &unload, 0, NULL, 0) != STATUS_OK)
        return false;
    leave(core, server, index);
    return true;
}

/* False: a server has no room to hear of it now. */
static bool forget_everywhere(struct core *core, uint32_t index)
{
    for (uint32_t i = 0; i < core->replicas; i++) {
        struct server *server = &core->servers[i];

        if (server->state == SERVER_NONE)
            continue;
        switch ((enum known_state)server->known[index].state) {
        case KNOWN_NOT:
            break;
        case KNOWN_WANTED:
            known_remove(server->known, &server->wanted, index);
            server->known[index].state = KNOWN_NOT;
            break;
        case KNOWN_FETCHED:
            adapter_fetch_leave(core, i, index);
            server->known[index].state = KNOWN_NOT;
            break;
        case KNOWN_LOADED:
            if (!adapter_unload(core, server, index))
                return false;
            break;
        }
    }
    return true;
}

static void retire(struct core *core, uint32_t index)
{
    struct fleet_event event = host_event(FLEET_EVENT_ADAPTER_RETIRED);

    event.adapter_retired.adapter = id_of(core, index);
    host_tell(core, &event);
    table_remove(&core->adapter_of, hash_of(core->adapters[index].info.key));
}

/* A free entry, or that of the one not used for longest. NONE_INDEX: all are in use. */
static uint32_t entry_take(struct core *core)
{
    uint32_t index = core->adapters_unused.first;

    if (core->adapters_used < core->config.adapters_max)
        return ++core->adapters_used;
    if (index == NONE_INDEX || !forget_everywhere(core, index))
        return NONE_INDEX;
    unused_remove(core, index);
    retire(core, index);
    return index;
}

/* With no request that names it. */
static enum status adapter_find_or_make(struct core *core, const uint8_t key[32], uint32_t *ret_index)
{
    uint32_t index = table_find(&core->adapter_of, hash_of(key));
    struct adapter *adapter;

    if (index != NONE_INDEX && memcmp(core->adapters[index].info.key, key, 32) != 0)
        return STATUS_INVALID;
    if (index == NONE_INDEX) {
        index = entry_take(core);
        if (index == NONE_INDEX)
            return STATUS_FULL;
        adapter = &core->adapters[index];
        *adapter = (struct adapter){.version = adapter->version + 1};
        memcpy(adapter->info.key, key, 32);
        table_insert(&core->adapter_of, hash_of(key), index);
        unused_push(core, index);
    }
    *ret_index = index;
    return STATUS_OK;
}

enum status adapter_take(struct core *core, const struct core_adapter *info, uint32_t *ret_index)
{
    uint32_t index;
    const enum status status = adapter_find_or_make(core, info->key, &index);

    if (status != STATUS_OK)
        return status;
    core->adapters[index].info = *info;
    if (core->adapters[index].refs++ == 0)
        unused_remove(core, index);
    *ret_index = index;
    return STATUS_OK;
}

void adapter_give(struct core *core, uint32_t index)
{
    check(core->adapters[index].refs > 0);
    if (--core->adapters[index].refs == 0)
        unused_push(core, index);
}

/* --- requests -------------------------------------------------------------------------------------------------------------------- */

bool adapter_want(struct core *core, struct server *server, uint32_t index)
{
    struct known *known = &server->known[index];

    (void)core;
    known->refs++;
    if (known->state == KNOWN_LOADED) {
        known_remove(server->known, &server->loaded, index);
        known_push(server->known, &server->loaded, index);
    } else if (known->state == KNOWN_NOT) {
        known->state = KNOWN_WANTED;
        known_push(server->known, &server->wanted, index);
    }
    return known->state == KNOWN_LOADED;
}

void adapter_unwant(struct core *core, struct server *server, uint32_t index)
{
    struct known *known = &server->known[index];

    (void)core;
    check(known->refs > 0);
    known->refs--;
    if (known->refs == 0 && known->state == KNOWN_WANTED) {
        known_remove(server->known, &server->wanted, index);
        known->state = KNOWN_NOT;
    }
}

/* --- what a server says ---------------------------------------------------------------------------------------------------------- */

/* In an inventory it may know what this control plane does not yet. */
static void learn(struct core *core, struct server *server, const struct wire_resident *resident)
{
    struct worker_link *worker = worker_link_find(core, server->worker);
    struct wire_unload unload = {.generation = resident->generation};
    struct known *known;
    uint32_t index;

    core->generation = max_u64(core->generation, min_u64(resident->generation, UINT64_MAX - 1));
    if (adapter_find_or_make(core, resident->digest, &index) != STATUS_OK) {
        memcpy(unload.digest, resident->digest, sizeof(unload.digest));
        (void)wire_say(worker->wire, WIRE_UNLOAD, &unload, 0, NULL, 0);
        return;
    }
    known = &server->known[index];
    if (known->state == KNOWN_LOADED)
        return;
    if (known->state == KNOWN_WANTED)
        known_remove(server->known, &server->wanted, index);
    else if (known->state == KNOWN_FETCHED)
        adapter_fetch_leave(core, server->index, index);
    known->state = KNOWN_LOADED;
    known->generation = resident->generation;
    known_push(server->known, &server->loaded, index);
    requests_adapter_there(core, server, index);
}

void adapter_resident(struct core *core, struct server *server, const struct wire_resident *resident, bool is_inventory)
{
    uint32_t index;

    if (is_inventory)
        learn(core, server, resident);
    index = table_find(&core->adapter_of, hash_of(resident->digest));
    if (index == NONE_INDEX || server->known[index].state != KNOWN_LOADED || server->known[index].generation != resident->generation ||
        memcmp(core->adapters[index].info.key, resident->digest, sizeof(resident->digest)) != 0)
        return;
    lies(core, server, index, resident->tier == TIER_GPU, resident->tier == TIER_GPU || resident->tier == TIER_HOST);
}

/* Of a LOAD that stands, nobody asked for it: it failed. */
void adapter_unloaded(struct core *core, struct server *server, const struct wire_unloaded *unloaded)
{
    const uint32_t index = table_find(&core->adapter_of, hash_of(unloaded->digest));

    if (index == NONE_INDEX || server->known[index].state != KNOWN_LOADED || server->known[index].generation != unloaded->generation)
        return;
    leave(core, server, index);
    requests_adapter_failed(core, server, index, STATUS_CORRUPT);
}

/* --- servers that come and go ---------------------------------------------------------------------------------------------------- */

/* What it told of itself before the router knew it. */
void adapters_server_up(struct core *core, struct server *server)
{
    for (uint32_t index = server->loaded.first; index != NONE_INDEX; index = server->known[index].next) {
        if (server->known[index].on_device)
            tell_residency(core, server, index, TIER_GPU, true);
        if (server->known[index].in_host)
            tell_residency(core, server, index, TIER_HOST, true);
    }
}

/* The server is no more, and the router has heard so or will. */
void adapters_forget_server(struct core *core, struct server *server)
{
    for (uint32_t index = server->loaded.first; index != NONE_INDEX; index = server->known[index].next) {
        core->counts.adapters_resident -= server->known[index].on_device;
        if (server->known[index].in_host)
            tell_residency(core, server, index, TIER_HOST, false); /* its node stays */
    }
    adapter_fetches_leave(core, server->index);
}
