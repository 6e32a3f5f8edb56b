/* Adapters known here, and which of them are in GPU slots. A record lives from ADAPTER_KNOWN until it is retired, no
 * request refers to it and no load of it is in flight; identity is (index, version), so two versions of one name are
 * two records and one's weights can't be taken for the other's. */
#include "replica/internal.h"

uint32_t adapter_find(const struct replica *replica, adapter_id id)
{
    return table_find(&replica->adapter_table, adapter_key(id));
}

/* A full table is no error here: the requests that need the adapter are refused, with the arithmetic. */
void adapter_known(struct replica *replica, const struct replica_event *event)
{
    adapter_id id = event->adapter_known.adapter;
    uint32_t index = adapter_find(replica, id);
    struct adapter *adapter;

    check(!adapter_is_base(id));
    if (index != NONE_INDEX) {
        check(replica->adapters[index].bytes == event->adapter_known.bytes);
        return;
    }
    if (replica->adapter_free == NONE_INDEX)
        return;
    index = replica->adapter_free;
    adapter = &replica->adapters[index];
    replica->adapter_free = adapter->next_free;
    replica->adapters_known++;
    memset(adapter, 0, sizeof(*adapter));
    adapter->id = id;
    adapter->bytes = event->adapter_known.bytes;
    adapter->entry = NONE_INDEX;
    adapter->next_free = NONE_INDEX;
    table_insert(&replica->adapter_table, adapter_key(id), index);
}

static void adapter_forget(struct replica *replica, uint32_t index)
{
    struct adapter *adapter = &replica->adapters[index];

    check(adapter->requests == 0);
    check(adapter->rows == 0);
    check(adapter->state == ADAPTER_ABSENT);
    table_remove(&replica->adapter_table, adapter_key(adapter->id));
    adapter->next_free = replica->adapter_free;
    replica->adapter_free = index;
    replica->adapters_known--;
}

static void say_evict(struct replica *replica, struct replica_commands *out, struct adapter *adapter)
{
    struct replica_command *command = replica_say(replica, out, REPLICA_COMMAND_EVICT, 0);

    command->evict.adapter = adapter->id;
    command->evict.bytes = adapter->bytes;
    command->evict.gpu_slot = (uint16_t)adapter->entry;
    replica->slot_adapters[adapter->entry] = NONE_INDEX;
    adapter->entry = NONE_INDEX;
    adapter->state = ADAPTER_ABSENT;
}

/* A retired adapter that nobody needs leaves its slot and the table. While it is loading it waits for the answer. */
static void adapter_retire_if_unused(struct replica *replica, uint32_t index, struct replica_commands *out)
{
    struct adapter *adapter = &replica->adapters[index];

    if (!adapter->retired || adapter->requests > 0 || adapter->state == ADAPTER_LOADING)
        return;
    if (adapter->state == ADAPTER_READY) {
        bool gone = cache_drop(replica->cache, adapter->entry);

        check(gone);
        say_evict(replica, out, adapter);
        note_change(replica);
    }
    adapter_forget(replica, index);
}

void adapter_release(struct replica *replica, uint32_t index, struct replica_commands *out)
{
    check(replica->adapters[index].requests > 0);
    replica->adapters[index].requests--;
    adapter_retire_if_unused(replica, index, out);
}

void adapter_retired(struct replica *replica, const struct replica_event *event, struct replica_commands *out)
{
    uint32_t index = adapter_find(replica, event->adapter_retired.adapter);

    if (index == NONE_INDEX)
        return;
    replica->adapters[index].retired = true;
    adapter_retire_if_unused(replica, index, out);
}

/* The record whose LOAD this event answers. */
static struct adapter *answered(struct replica *replica, const struct replica_event *event, uint32_t *ret_index)
{
    uint32_t index = adapter_find(replica, event->adapter_arrived.adapter);
    struct adapter *adapter;

    check(index != NONE_INDEX);
    adapter = &replica->adapters[index];
    check(adapter->state == ADAPTER_LOADING);
    check(adapter->load_id == event->answers);
    check(replica->loads > 0);
    replica->loads--;
    note_change(replica);
    *ret_index = index;
    return adapter;
}

void adapter_arrived(struct replica *replica, const struct replica_event *event, struct replica_commands *out)
{
    uint32_t index;
    struct adapter *adapter = answered(replica, event, &index);

    check(event->adapter_arrived.tier == TIER_HOST || event->adapter_arrived.tier == TIER_STORE);
    (void)cache_arrived(replica->cache, adapter->entry); /* never doomed: a retired adapter is dropped once unused */
    adapter->state = ADAPTER_READY;
    adapter->tier = (uint8_t)event->adapter_arrived.tier;
    adapter_retire_if_unused(replica, index, out);
}

/* All that wait for it are refused; that walk is over every waiting request, and failures are rare. */
void adapter_failed(struct replica *replica, const struct replica_event *event)
{
    uint32_t index;
    struct adapter *adapter = answered(replica, event, &index);

    cache_failed(replica->cache, adapter->entry);
    replica->slot_adapters[adapter->entry] = NONE_INDEX;
    adapter->entry = NONE_INDEX;
    adapter->state = ADAPTER_ABSENT;
    /* Backwards: a class that runs empty is replaced by the last one, which has been walked. */
    for (uint32_t i = replica->active_count; i-- > 0;) {
        uint32_t at = replica->classes[replica->active[i]].head;

        while (at != NONE_INDEX) {
            uint32_t next = replica->requests[at].next;

            if (replica->requests[at].adapter == index) {
                queue_remove(replica, at);
                request_end(replica, at, REPLICA_COMMAND_REFUSE, REFUSE_ADAPTER_LOST);
            }
            at = next;
        }
    }
    if (adapter->requests == 0 && adapter->retired)
        adapter_forget(replica, index);
}

enum load_answer adapter_load(struct replica *replica, uint32_t index, struct replica_commands *out)
{
    struct adapter *adapter = &replica->adapters[index];
    struct replica_command *command;
    enum cache_room room = cache_room(replica->cache, adapter->bytes);

    check(adapter->state == ADAPTER_ABSENT);
    check(room != CACHE_OVERSIZE);
    if (room == CACHE_BLOCKED)
        return LOAD_NO_SLOT;
    if (replica->loads == replica->config.loads_max)
        return LOAD_NO_LINK;
    for (; room == CACHE_EVICTABLE; room = cache_room(replica->cache, adapter->bytes)) {
        uint32_t entry;
        uint64_t bytes;

        if (!say_room(out, 1))
            return LOAD_UNSAID;
        (void)cache_evict_one(replica->cache, adapter->id, adapter->bytes, &entry, &bytes);
        say_evict(replica, out, &replica->adapters[replica->slot_adapters[entry]]);
    }
    check(room == CACHE_FITS);
    if (!say_room(out, 1))
        return LOAD_UNSAID;
    adapter->entry = cache_insert(replica->cache, adapter->id, adapter->bytes);
    adapter->state = ADAPTER_LOADING;
    adapter->load_began_at_ns = replica->at_ns;
    replica->slot_adapters[adapter->entry] = index;
    replica->loads++;
    command = replica_say(replica, out, REPLICA_COMMAND_LOAD, 0);
    command->load.adapter = adapter->id;
    command->load.bytes = adapter->bytes;
    command->load.gpu_slot = (uint16_t)adapter->entry;
    adapter->load_id = command->id;
    return LOAD_BEGUN;
}
