/* How an adapter comes to the device: the replica core asks for a slot's LOAD, the node core says whether it must be fetched, the loader's
 * thread reads, packs and copies, the pool finds room. Also the host of the node core. */
#include <stdlib.h>

#include "worker/internal.h"

static void node_event_of(struct node_event *event, uint16_t kind, const struct worker_version *version, uint64_t want)
{
    memset(event, 0, sizeof(*event));
    event->kind = kind;
    event->want.adapter = version->id;
    event->want.bytes = (uint64_t)version->packed_bytes;
    event->want.want = want;
}

void load_begin(struct worker *worker, const struct replica_command *command)
{
    struct node_event event;
    uint32_t index = 0;
    struct worker_load *load;

    while (index < LOADS_MAX && worker->loads[index].stage != LOAD_FREE)
        index++;
    check(index < LOADS_MAX);
    load = &worker->loads[index];
    *load = (struct worker_load){.stage = LOAD_WANTED,
                                 .command = command->id,
                                 .version = version_of(worker, command->load.adapter),
                                 .slot = command->load.gpu_slot,
                                 .asked_ns = worker->now_ns};
    load->version->loading++;
    node_event_of(&event, NODE_EVENT_WANT, load->version, index);
    worker_tell_node(worker, &event);
}

void load_evicted(struct worker *worker, const struct replica_command *command)
{
    struct worker_version *version = version_of(worker, command->evict.adapter);
    const struct lora_slot empty = {0};

    check(version->slot == command->evict.gpu_slot);
    forward_slot(worker->forward, version->slot, &empty);
    pool_give(&worker->pool, version->slot);
    version->slot = -1;
    version_moved(worker, version);
    version_settle(worker, version);
}

/* --- the node's commands ---------------------------------------------------------------------------------------------------- */

static void fetch(struct worker *worker, const struct node_command *command)
{
    struct worker_version *version = version_of(worker, command->fetch.adapter);
    struct loader_work work = {.kind = LOADER_FETCH,
                               .adapter = version->id,
                               .tag = command->id,
                               .source = version->source,
                               .rank = version->rank,
                               .packed_bytes = version->packed_bytes};

    /* The version's may become another meanwhile. Without memory it is neither folder nor object, and is refused as such. */
    if (work.source.directory != NULL)
        work.source.directory = strdup(work.source.directory);
    memcpy(work.digest, version->digest, DIGEST_BYTES);
    version->loading++;
    loader_push(worker->loader, &work);
}

void load_node_command(struct worker *worker, const struct node_command *command)
{
    struct worker_version *version;

    switch ((enum node_command_kind)command->kind) {
    case NODE_COMMAND_FETCH:
        fetch(worker, command);
        return;
    case NODE_COMMAND_READY:
        worker->loads[command->ready.want].stage = LOAD_NO_HOLE;
        worker->loads[command->ready.want].tier = command->reason;
        return;
    case NODE_COMMAND_LOST:
        worker->loads[command->lost.want].stage = LOAD_LOST;
        return;
    case NODE_COMMAND_DROP:
        version = version_of(worker, command->drop.adapter);
        free(version->blob);
        version->blob = NULL;
        version_moved(worker, version);
        worker->settle_due = true; /* later: it may have to tell the node */
        return;
    case NODE_COMMAND_NONE:
    case NODE_COMMAND_COUNT:
        break;
    }
    check(false && "a node core said nothing that exists");
}

/* --- what the loader has done ----------------------------------------------------------------------------------------------- */

static void fetched(struct worker *worker, const struct loader_work *work)
{
    struct worker_version *version = version_of(worker, work->adapter);
    struct node_event event;

    version->loading--;
    worker->counts.fetches++;
    free(version->failure);
    version->failure = work->status == STATUS_OK ? NULL : strdup(work->why);
    version->fetched = work->status;
    if (work->status == STATUS_OK) {
        check(version->blob == NULL);
        version->blob = work->ret_blob;
        version->modules = work->ret_modules;
    }
    version_moved(worker, version);
    node_event_of(&event, work->status == STATUS_OK ? NODE_EVENT_FETCHED : NODE_EVENT_FAILED, version, 0);
    event.answers = work->tag;
    worker_tell_node(worker, &event);
}

static void answer(struct worker *worker, struct worker_load *load, uint16_t kind)
{
    struct replica_event event;
    struct worker_version *version = load->version;

    memset(&event, 0, sizeof(event));
    event.kind = kind;
    event.answers = load->command;
    event.adapter_arrived.adapter = version->id;
    event.adapter_arrived.bytes = (uint64_t)version->packed_bytes;
    event.adapter_arrived.tier = kind == REPLICA_EVENT_ADAPTER_ARRIVED ? load->tier : (uint16_t)TIER_STORE;
    load->stage = LOAD_FREE;
    version->loading--;
    worker_tell_replica(worker, &event);
    version_settle(worker, version);
}

static void copied(struct worker *worker, const struct loader_work *work)
{
    struct worker_load *load = &worker->loads[work->tag];
    struct worker_version *version = load->version;
    struct node_event event;
    const struct lora_slot slot = {.offset = work->offset,
                                   .rank = version->rank,
                                   .generation = (uint32_t)++worker->counts.loads,
                                   .modules = version->modules};

    pool_written(&worker->pool, load->slot);
    forward_slot(worker->forward, load->slot, &slot);
    version->slot = load->slot;
    version_moved(worker, version);
    *(load->tier == TIER_HOST ? &worker->counts.load_host_ns : &worker->counts.load_store_ns) = worker->now_ns - load->asked_ns;
    node_event_of(&event, NODE_EVENT_UNWANT, version, work->tag);
    worker_tell_node(worker, &event);
    answer(worker, load, REPLICA_EVENT_ADAPTER_ARRIVED);
}

/* --- room on the device ----------------------------------------------------------------------------------------------------- */

static bool find_hole(struct worker *worker, uint32_t index)
{
    struct worker_load *load = &worker->loads[index];
    struct loader_work work = {.kind = LOADER_COPY,
                               .adapter = load->version->id,
                               .tag = index,
                               .blob = load->version->blob,
                               .packed_bytes = load->version->packed_bytes};

    if (pool_take(&worker->pool, load->slot, load->version->packed_bytes, &work.offset) != STATUS_OK)
        return false;
    check(work.blob != NULL);
    load->stage = LOAD_COPYING;
    loader_push(worker->loader, &work);
    return true;
}

/* One blob; the step that runs next reads it at its new place. */
static bool move_one(struct worker *worker)
{
    struct pool_move move;
    struct lora_slot slot = {0};

    if (!pool_move(&worker->pool, &move))
        return false;
    for (uint32_t i = 0; i < worker->versions_max; i++) {
        const struct worker_version *version = &worker->versions[i];

        if (version->used && version->slot == move.slot)
            slot = (struct lora_slot){.offset = move.to, .rank = version->rank, .generation = (uint32_t)worker->counts.loads,
                                      .modules = version->modules};
    }
    check(slot.rank > 0);
    forward_move(worker->forward, move.to, move.from, move.bytes);
    forward_slot(worker->forward, move.slot, &slot);
    worker->counts.pool_moves++;
    return true;
}

/* True: something changed. */
bool loads_pump(struct worker *worker)
{
    struct loader_work work;
    bool changed = false;
    bool no_hole = false;

    while (loader_take(worker->loader, &work)) {
        changed = true;
        if (work.kind == LOADER_FETCH)
            fetched(worker, &work);
        else
            copied(worker, &work);
    }
    for (uint32_t i = 0; i < LOADS_MAX; i++) {
        struct worker_load *load = &worker->loads[i];

        if (load->stage == LOAD_LOST) {
            answer(worker, load, REPLICA_EVENT_ADAPTER_FAILED);
            changed = true;
        } else if (load->stage == LOAD_NO_HOLE && find_hole(worker, i)) {
            changed = true;
        }
        no_hole = no_hole || load->stage == LOAD_NO_HOLE;
    }
    if (no_hole && move_one(worker))
        changed = true;
    return changed;
}
