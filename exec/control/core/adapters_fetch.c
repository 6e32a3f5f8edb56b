/* Adapters on their way: asked of the driver once for a server, said to it when they have come and there is room. */
#define _DEFAULT_SOURCE /* explicit_bzero */
#include <unistd.h>

#include "control/core/internal.h"

static void fetch_end(struct fetch *fetch)
{
    if (fetch->answered)
        close(fetch->object);
    explicit_bzero(fetch, sizeof(*fetch));
}

/* What was asked of the driver is answered some time; then nobody takes it. */
static void fetch_leave(struct fetch *fetch)
{
    if (fetch->answered)
        fetch_end(fetch);
    else
        fetch->server = NONE_INDEX;
}

void adapter_fetch_leave(struct core *core, uint32_t server, uint32_t adapter)
{
    for (uint32_t i = 0; i < FETCHES_MAX; i++) {
        if (core->fetches[i].number != 0 && core->fetches[i].server == server && core->fetches[i].adapter == adapter)
            fetch_leave(&core->fetches[i]);
    }
}

void adapter_fetches_leave(struct core *core, uint32_t server)
{
    for (uint32_t i = 0; i < FETCHES_MAX; i++) {
        if (core->fetches[i].number != 0 && core->fetches[i].server == server)
            fetch_leave(&core->fetches[i]);
    }
}

static struct fetch *fetch_numbered(struct core *core, uint64_t number)
{
    for (uint32_t i = 0; i < FETCHES_MAX; i++) {
        if (core->fetches[i].number == number)
            return &core->fetches[i];
    }
    return NULL;
}

void adapters_fetched(struct core *core, struct call *call)
{
    struct fetch *fetch = call->number != 0 ? fetch_numbered(core, call->number) : NULL;
    struct server *server = fetch != NULL && fetch->server != NONE_INDEX ? &core->servers[fetch->server] : NULL;

    if (call->status == STATUS_OK && server != NULL && !fetch->answered) {
        fetch->answered = true;
        fetch->object = call->descriptor;
        memcpy(fetch->key, call->key, sizeof(fetch->key));
        explicit_bzero(call->key, sizeof(call->key));
        return;
    }
    explicit_bzero(call->key, sizeof(call->key));
    if (call->descriptor >= 0)
        close(call->descriptor);
    if (fetch == NULL || fetch->answered)
        return;
    if (server != NULL) {
        server->known[fetch->adapter].state = KNOWN_NOT;
        requests_adapter_failed(core, server, fetch->adapter, call->status);
    }
    fetch_end(fetch);
}

/* Room for one more at a server: what no request names goes, the longest unused first. */
static bool make_room(struct core *core, struct server *server)
{
    uint32_t index = server->loaded.first;

    if (server->loaded.count < core->config.server_adapters_max)
        return true;
    while (index != NONE_INDEX && server->known[index].refs > 0)
        index = server->known[index].next;
    return index != NONE_INDEX && adapter_unload(core, server, index);
}

static enum status say_load(struct core *core, struct wire *wire, const struct fetch *fetch)
{
    const struct adapter *adapter = &core->adapters[fetch->adapter];
    struct wire_grant grant = {{0}, {0}};
    uint8_t bytes[WIRE_GRANT_BYTES];
    struct wire_load load = {.generation = core->generation + 1, .bytes = adapter->info.bytes, .rank = adapter->info.rank,
                             .grants_count = 1, .grants = bytes, .label_count = (uint32_t)strlen(adapter->info.tenant),
                             .label = (const uint8_t *)adapter->info.tenant};
    enum status status;

    memcpy(grant.id, adapter->info.object, strlen(adapter->info.object));
    memcpy(grant.key, fetch->key, sizeof(grant.key));
    wire_grant_write(&grant, bytes);
    memcpy(load.digest, adapter->info.key, sizeof(load.digest));
    status = wire_say(wire, WIRE_LOAD, &load, 0, &fetch->object, 1);
    explicit_bzero(&grant, sizeof(grant));
    explicit_bzero(bytes, sizeof(bytes));
    return status;
}

static void load(struct core *core, struct fetch *fetch)
{
    struct server *server = &core->servers[fetch->server];
    struct worker_link *worker = worker_link_find(core, server->worker);
    const uint32_t index = fetch->adapter;

    if (!server->is_ready || worker->is_over || !make_room(core, server) || say_load(core, worker->wire, fetch) != STATUS_OK)
        return;
    core->generation++;
    core->counts.loads++;
    server->known[index].state = KNOWN_LOADED;
    server->known[index].generation = core->generation;
    known_push(server->known, &server->loaded, index);
    explicit_bzero(fetch, sizeof(*fetch)); /* the descriptor is the wire's */
    requests_adapter_there(core, server, index);
}

static void ask(struct core *core, struct server *server, struct fetch *fetch)
{
    const uint32_t index = server->wanted.first;

    known_remove(server->known, &server->wanted, index);
    server->known[index].state = KNOWN_FETCHED;
    *fetch = (struct fetch){.number = ++core->fetches_asked, .server = server->index, .adapter = index, .object = -1};
    driven_heard(core, &(struct core_heard){.kind = CORE_HEARD_FETCH, .fetch = fetch->number, .adapter = &core->adapters[index].info});
}

void adapters_turn(struct core *core)
{
    struct fetch *free_one;

    for (uint32_t i = 0; i < FETCHES_MAX; i++) {
        if (core->fetches[i].number != 0 && core->fetches[i].answered)
            load(core, &core->fetches[i]);
    }
    for (uint32_t i = 0; i < core->replicas; i++) {
        struct server *server = &core->servers[i];

        while (server->state != SERVER_NONE && server->wanted.count > 0 && (free_one = fetch_numbered(core, 0)) != NULL)
            ask(core, server, free_one);
    }
}
